// Installs the npm packages that a test needs, once per build directory.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

// Installs the packages of package-lock.json in folder `from` into folder `to`, unless they are
// installed. Returns the reason if that failed, otherwise false: the value of a test's `skip`.
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
