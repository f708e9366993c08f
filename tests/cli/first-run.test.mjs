// `./run`: shows how far the build is, and says what the server found. The tools of the build are
// replaced by scripts with their output, so nothing is built or installed.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, here, workspace } from './support.mjs';
import { Terminal } from './terminal.mjs';

const source = path.resolve(here, '../..');

// Creates a copy of the scripts in which `commands` replace the programs of these names.
function tree(t, commands) {
    const w = workspace(t);
    fs.copyFileSync(path.join(source, 'run'), w.file('run'));
    w.write('build/build.ninja', '');
    for (const name of ['packages.sh', 'progress.sh'])
        w.write(`tools/${name}`, fs.readFileSync(path.join(source, 'tools', name)));
    fs.symlinkSync(binary, w.file('build/palaver'));
    for (const [name, text] of Object.entries(commands)) {
        w.write(`bin/${name}`, `#!/bin/sh\n${text}\n`);
        fs.chmodSync(w.file(`bin/${name}`), 0o755);
    }
    const env = { PATH: `${w.file('bin')}:${process.env.PATH}`, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null', TZ: 'UTC' };
    const run = (...args) => {
        const { status, stdout, stderr } = spawnSync(w.file('run'), args, { cwd: '/', env });
        return { code: status, out: stdout.toString(), err: stderr.toString() };
    };
    return { ...w, env, run };
}

const everything = 'for name; do echo "ii  $name"; done';
const steps = (n) => `i=0; while [ $i -lt ${n} ]; do i=$((i + 1)); echo "[$i/${n}] Compiling a.c"; done`;

test('the build reports each quarter, and stdout belongs to the command', (t) => {
    const w = tree(t, { 'dpkg-query': everything, ninja: steps(40) });
    const { code, out, err } = w.run('version');
    assert.equal(code, 0, err);
    assert.match(out, /^palaver \d/);
    assert.match(err, /^building: 2 %, \d+ s\nbuilding: 25 %, \d+ s\nbuilding: 50 %, \d+ s\nbuilding: 75 %, \d+ s\nbuilding: 100 %, \d+ s\n$/);
});

test('without any work nothing is reported', (t) => {
    const w = tree(t, { 'dpkg-query': everything, ninja: 'echo "ninja: no work to do."' });
    const { code, err } = w.run('build');
    assert.deepEqual([code, err], [0, '']);
});

test('a failed build shows the error and not the steps', (t) => {
    const w = tree(t, { 'dpkg-query': everything, ninja: `${steps(2)}; echo "a.c:1: wrong"; exit 1` });
    const { code, out, err } = w.run();
    assert.deepEqual([code, out], [1, '']);
    assert.match(err, /\na\.c:1: wrong\n.*the build failed\n$/);
    assert.doesNotMatch(err, /Compiling/);
});

test('installations report what they install and how far they are', (t) => {
    const w = tree(t, { 'dpkg-query': 'exit 1', ninja: '', id: 'echo 0', env: 'shift; exec "$@"',
        'apt-get': 'case "$1" in install) echo "dlstatus:1:50.0:Getting gcc"; '
            + 'echo "pmstatus:gcc:40.0:Unpacking gcc" ;; esac' });
    const { code, err } = w.run('build');
    assert.equal(code, 0, err);
    assert.match(err, /^installing with apt-get: gcc .*\ninstalling: 25 %, \d+ s\ninstalling: 70 %, \d+ s\n$/);
});

test('a failed installation stops ./run', (t) => {
    const w = tree(t, { 'dpkg-query': 'exit 1', ninja: '', id: 'echo 0', env: 'shift; exec "$@"',
        'apt-get': 'case "$1" in install) exit 100 ;; esac' });
    const { code, err } = w.run('build');
    assert.equal(code, 1);
    assert.match(err, /apt-get could not install: gcc /);
});

test('the server reads palaver.yaml next to ./run and says what it found', async (t) => {
    const w = tree(t, { 'dpkg-query': everything, ninja: steps(4) });
    w.write('palaver.yaml', 'server:\n  listen: 127.0.0.1:0\nprovider: echo\nstore: sqlite:found.db\n');
    const terminal = new Terminal(t, [], { cwd: '/', program: w.file('run'), env: { ...w.env, XDG_STATE_HOME: w.dir } });
    await terminal.see(/building: 100 %, \d+ s/);
    const said = await terminal.see(/Try: curl http:\S+ .*\n/);
    const [, address] = /palaver \S+ is listening on (http:\/\/127\.0\.0\.1:\d+)\n/.exec(said);
    assert.ok(said.includes('\nStore: sqlite:found.db\n'), said);
    assert.ok(said.includes('\nModel: echo at echo\n'), said);
    assert.ok(said.includes(`\nPage: ${address}/\n`), said);
    assert.match(said, /\nAPI keys: none, so only programs on this machine can connect\n/);
    assert.ok(!address.endsWith(':7077'));
    terminal.type('\x03');
    assert.equal(await terminal.exit, 0);
    assert.ok(fs.existsSync(w.file('found.db')));
});
