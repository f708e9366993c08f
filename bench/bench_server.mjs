// bench_server.mjs - brings the baseline's packages, once, then measures.
//
//   node bench_server.mjs BENCH_SERVER PALAVER DIRECTORY [--quick]
//
// The packages lie in DIRECTORY/node-baseline. With --quick none are brought: what is not there is
// not measured.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const [program, palaver, directory, ...flags] = process.argv.slice(2);
const source = path.join(path.dirname(fileURLToPath(import.meta.url)), 'node-baseline');
const baseline = path.join(directory, 'node-baseline');
const isQuick = flags.includes('--quick');

function bring() {
    fs.mkdirSync(baseline, { recursive: true });
    for (const name of fs.readdirSync(source))
        fs.copyFileSync(path.join(source, name), path.join(baseline, name));
    const works = () => spawnSync('node', ['-e', 'new (require("better-sqlite3"))(":memory:")'],
        { cwd: baseline, stdio: 'ignore' }).status === 0;
    if (works()) return true;
    if (isQuick) return false;
    console.log('bringing better-sqlite3 with npm; to compile it may take minutes');
    const result = spawnSync('npm', ['ci', '--no-audit', '--no-fund'],
        { cwd: baseline, encoding: 'utf8' });
    if (result.status === 0 && works()) return true;
    console.log(`there will be no baseline: npm could not bring it\n${result.stderr}`);
    return false;
}

const args = ['--palaver', palaver, '--dir', directory, ...flags];
if (bring()) args.push('--baseline', path.join(baseline, 'server.mjs'));
const { status } = spawnSync(program, args, { stdio: 'inherit' });
process.exitCode = status ?? 1;
