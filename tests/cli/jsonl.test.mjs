// A PicoClaw directory as the store, in which something is in the place of a file or cannot be
// read. The command prints one clear line with the problem and the path, and everything else still
// works.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { workspace, assertFails } from './support.mjs';

const isRoot = process.getuid() === 0;
const nobody = isRoot ? { uid: 65534, gid: 65534 } : {};
const store = ['--store', 'jsonl:dir'];

function filled(t) {
    const w = workspace(t);
    w.ok('session', 'append', 'x', 'hello', '--create', ...store);
    w.ok('session', 'append', 'y', 'hello', '--create', ...store);
    return w;
}

// The commands on session "y" work, whatever is wrong with "x".
function assertOthersWork(w, options = {}) {
    const before = w.json('session', 'show', 'y', ...store, options).messages.length;
    w.ok('session', 'append', 'y', 'more', ...store, options);
    assert.equal(w.json('session', 'show', 'y', ...store, options).messages.length, before + 1);
    assert.equal(w.json('session', 'list', ...store, options).sessions.length, 2);
}

test("a directory with the name of a session's lines is reported", (t) => {
    const w = filled(t);
    fs.renameSync(w.file('dir/x.jsonl'), w.file('aside'));
    fs.mkdirSync(w.file('dir/x.jsonl'));
    for (const command of [['session', 'show', 'x'], ['session', 'append', 'x', 'more'],
        ['session', 'delete', 'x'], ['session', 'fork', 'x'], ['session', 'export', 'x']])
        assertFails(w.run(...command, ...store), 1,
            /'dir\/x\.jsonl': it is a directory, but a file is expected; move it away/);
    assertOthersWork(w);
    const found = w.run('fsck', ...store);
    assert.equal(found.code, 1);
    assert.match(found.out, /x\.jsonl': it is a directory/);
    fs.rmdirSync(w.file('dir/x.jsonl'));
    fs.renameSync(w.file('aside'), w.file('dir/x.jsonl'));
    assert.equal(w.json('session', 'show', 'x', ...store).messages.length, 1);
    assert.equal(w.run('fsck', ...store).code, 0);
});

test('a directory with the name of a meta file is reported', (t) => {
    const w = filled(t);
    fs.rmSync(w.file('dir/x.meta.json'));
    fs.mkdirSync(w.file('dir/x.meta.json'));
    assertFails(w.run('session', 'append', 'x', 'more', ...store), 1,
        /'dir\/x\.meta\.json': it is a directory, but a file is expected; move it away/);
    assert.equal(w.json('session', 'show', 'x', ...store).messages.length, 1);
    assertOthersWork(w);
});

test('a directory in place of the log, or a file in place of a directory, is reported', (t) => {
    const w = filled(t);
    fs.renameSync(w.file('dir/.palaver/log'), w.file('aside'));
    fs.mkdirSync(w.file('dir/.palaver/log'));
    for (const command of [['session', 'list'], ['session', 'append', 'x', 'more']])
        assertFails(w.run(...command, ...store), 1,
            /'dir\/\.palaver\/log': it is a directory, but a file is expected; move it away/);
    w.write('file', 'x');
    for (const command of [['session', 'list'], ['session', 'new']])
        assertFails(w.run(...command, '--store', 'jsonl:file'), 1,
            /'file': it is a file, but a directory is expected; move it away or use another path/);
    assert.equal(fs.readFileSync(w.file('file'), 'utf8'), 'x');
});

test('unreadable files are reported', (t) => {
    const w = filled(t);
    fs.chmodSync(w.dir, 0o755);
    for (const name of ['dir', ...fs.readdirSync(w.file('dir'), { recursive: true })
        .map((each) => `dir/${each}`)])
        if (isRoot) fs.chownSync(w.file(name), nobody.uid, nobody.gid);
    fs.chmodSync(w.file('dir/x.jsonl'), 0);
    assertFails(w.run('session', 'show', 'x', ...store, nobody), 1,
        /'dir\/x\.jsonl': permission denied; give this user access/);
    assertOthersWork(w, nobody);
    fs.chmodSync(w.file('dir/x.jsonl'), 0o644);
    fs.chmodSync(w.file('dir/.palaver/log'), 0);
    assertFails(w.run('session', 'list', ...store, nobody), 1,
        /'dir\/\.palaver\/log': permission denied/);
    fs.chmodSync(w.file('dir/.palaver/log'), 0o644);
    fs.chmodSync(w.file('dir'), 0);
    assertFails(w.run('session', 'list', ...store, nobody), 1, /'dir': permission denied/);
    fs.chmodSync(w.file('dir'), 0o755);
    assert.equal(w.json('session', 'show', 'x', ...store).messages.length, 1);
});
