#!/usr/bin/env node
// Starts the command in the package of this platform. Signals from the terminal reach both
// processes; others are passed on.
'use strict';
const { spawn } = require('node:child_process');
const path = require('node:path');

const name = `palaver-${process.platform}-${process.arch}`;
let tree;
try {
    tree = path.join(path.dirname(require.resolve(`${name}/package.json`)), 'tree');
} catch {
    console.error(`palaver: the package '${name}' is not installed; palaver runs on Linux, x64 and arm64`);
    process.exit(1);
}
const child = spawn(path.join(tree, 'bin', 'palaver'), process.argv.slice(2), { stdio: 'inherit' });
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
for (const signal of signals) process.on(signal, () => { if (signal !== 'SIGINT') child.kill(signal); });
child.on('error', (error) => {
    console.error(`palaver: could not be started: ${error.message}`);
    process.exit(1);
});
child.on('exit', (code, signal) => {
    for (const each of signals) process.removeAllListeners(each);
    if (signal) process.kill(process.pid, signal);
    else process.exit(code);
});
