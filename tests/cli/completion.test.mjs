// `palaver completion`: the candidates, and the scripts in real shells.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, palaver, workspace } from './support.mjs';
import { Terminal } from './terminal.mjs';

const words = (...line) => {
    const { code, out } = palaver(['completion', 'words', '--', ...line]);
    assert.equal(code, 0);
    return out.split('\n').filter(Boolean).map((row) => row.split('\t')[0]);
};

test('candidates follow from the tables of the command', () => {
    assert.deepEqual(words('sess'), ['session']);
    assert.ok(words('').includes('chat') && words('').includes('memory'));
    assert.ok(!words('').some((word) => word.includes(' ')));
    assert.deepEqual(words('session', 'sh'), ['show']);
    assert.deepEqual(words('session', 'show', '--la'), ['--last']);
    assert.deepEqual(words('--store', 'a.db', 'session', 'sh'), ['show']);
    assert.deepEqual(words('--store'), ['--store']);
    assert.deepEqual(words('--store', ''), [':'], 'a file');
    assert.deepEqual(words('session', 'show', '--last', ''), [], 'a number');
    assert.deepEqual(words('session', 'show', ''), ['@last']);
    assert.deepEqual(words('session', 'show', 'a', ''), []);
    assert.deepEqual(words('session', 'import', ''), [':']);
    assert.deepEqual(words('tokens', 'li'), ['list', ':'], 'both a command and a group');
    assert.ok(words('tokens', '--').includes('--model'));
    assert.deepEqual(words('session', '--', '-'), []);
    assert.deepEqual(words('nonsense', 'x'), []);
    assert.ok(words().length > 10);
});

// Returns the environment in which `palaver` is the command under test.
function shell(t, name) {
    const found = spawnSync('sh', ['-c', `command -v ${name}`]);
    if (found.status !== 0) {
        t.skip(`${name} is not installed`);
        return null;
    }
    const w = workspace(t);
    fs.mkdirSync(w.file('bin'));
    fs.symlinkSync(binary, w.file('bin/palaver'));
    w.write('notes.jsonl', '');
    return { ...w, program: found.stdout.toString().trim(),
        env: { PATH: `${w.file('bin')}:${process.env.PATH}`, HOME: w.dir, PS1: '$ ', ZDOTDIR: w.dir } };
}

test('bash completes commands, options and files', async (t) => {
    const w = shell(t, 'bash');
    if (!w) return;
    w.write('.bashrc', 'PS1="$ "\neval "$(palaver completion bash)"\n');
    const terminal = new Terminal(t, ['--noprofile', '--rcfile', '.bashrc', '-i'], { cwd: w.dir, program: w.program, env: w.env });
    await terminal.see('$ ');
    terminal.type('palaver sess\tsh\t--la\t5 x\r');
    await terminal.see('palaver session show --last 5 x');
    await terminal.see('$ ');
    terminal.type('palaver session import no\t\r');
    await terminal.see('palaver session import notes.jsonl');
    terminal.type('exit\r');
    await terminal.exit;
});

test('zsh completes commands, options and files', async (t) => {
    const w = shell(t, 'zsh');
    if (!w) return;
    w.write('.zshrc', 'PS1="$ "\nautoload -Uz compinit\ncompinit -u\nsource <(palaver completion zsh)\n');
    const terminal = new Terminal(t, ['-i'], { cwd: w.dir, program: w.program, env: w.env });
    await terminal.see('$ ');
    terminal.type('palaver sess\tsh\t--la\t5 x\r');
    await terminal.see(/session 'x' does not exist|store .* does not exist/);
    terminal.type('palaver session import no\t\r');
    await terminal.see(/Imported|notes\.jsonl/);
    terminal.type('exit\r');
    await terminal.exit;
});

test('fish completes commands, options and files', (t) => {
    const w = shell(t, 'fish');
    if (!w) return;
    const complete = (line) => {
        const { status, stdout, stderr } = spawnSync(w.program, ['--no-config', '-c',
            `palaver completion fish | source; complete -C '${line}'`], { cwd: w.dir, env: w.env });
        assert.equal(status, 0, stderr.toString());
        return stdout.toString().split('\n').filter(Boolean).map((row) => row.split('\t')[0]);
    };
    assert.deepEqual(complete('palaver sess'), ['session']);
    assert.deepEqual(complete('palaver session show --la'), ['--last']);
    assert.ok(complete('palaver session import no').includes('notes.jsonl'));
});

test('zsh finds the script in fpath', (t) => {
    const w = shell(t, 'zsh');
    if (!w) return;
    w.write('functions/_palaver', palaver(['completion', 'zsh']).out);
    const { stdout } = spawnSync(w.program, ['-f', '-c',
        `fpath=(${path.join(w.dir, 'functions')} $fpath); autoload -Uz compinit; compinit -u -d dump; print $_comps[palaver]`],
    { cwd: w.dir, env: w.env });
    assert.equal(stdout.toString().trim(), '_palaver');
});
