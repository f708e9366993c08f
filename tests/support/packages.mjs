// Brings the packages that a test needs from npm, once, into its build directory.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

// Installs what package-lock.json of the folder `from` names into the folder `to`, unless that has
// it already. Gives why it could not, or false: the `skip` of a test.
export function installPackages(from, to) {
    const stamp = path.join(to, 'installed.json');
    const lock = path.join(from, 'package-lock.json');

    if (fs.existsSync(stamp) && fs.readFileSync(stamp).equals(fs.readFileSync(lock))) return false;
    fs.mkdirSync(to, { recursive: true });
    for (const name of ['package.json', 'package-lock.json'])
        fs.copyFileSync(path.join(from, name), path.join(to, name));
    const done = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund',
        '--prefer-offline', '--fetch-retries=1', '--fetch-timeout=30000', '--loglevel=error'],
    { cwd: to, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

    if (done.error || done.status !== 0) return 'npm could not install the packages';
    fs.copyFileSync(lock, stamp);
    return false;
}
