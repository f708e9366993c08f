// Runs suites on three servers over one store, for Meson: `node nodes.mjs SUITE[:PACKAGES]...`. Only
// the first suite runs, unless NODES_SUITES is "all". suite.mjs explains the arguments and the
// environment; here CONFORMANCE_DIR is the folder of all packages.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const suites = process.argv.slice(2, process.env.NODES_SUITES === 'all' ? undefined : 3);
let number = 0;

for (const [suite, folder] of suites.map((name) => name.split(':'))) {
    const env = { ...process.env, CONFORMANCE_DIR: path.join(process.env.CONFORMANCE_DIR, folder ?? 'sdks') };
    const child = spawn(process.execPath, [path.join(here, 'suite.mjs'), suite, 'nodes', folder ?? ''],
        { env, stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'close');
    let skipped = '';
    for await (const line of readline.createInterface({ input: child.stdout })) {
        const [, result, rest] = /^((?:not )?ok) \d+ - (.*)$/.exec(line) ?? [];
        if (result) console.log(`${result} ${++number} - ${suite}: ${rest}`);
        else if (line.startsWith('1..0 # SKIP')) skipped = line.slice(5);
        else if (!line.startsWith('1..')) console.log(line);
    }
    const [status] = await ended;
    if (skipped) console.log(`ok ${++number} - ${suite} ${skipped}`);
    else console.log(`${status === 0 ? 'ok' : 'not ok'} ${++number} - ${suite}: the servers ended as they should`);
    if (status !== 0) process.exitCode = 1;
}
console.log(`1..${number}`);
