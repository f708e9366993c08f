// Stores that are damaged, foreign, newer, read-only or full, and wrong input. Each command prints
// one clear line, and the file stays unchanged byte for byte.
import test from 'node:test';
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import { workspace, assertFails, digest, message } from './support.mjs';

const isRoot = process.getuid() === 0;
const nobody = isRoot ? { uid: 65534, gid: 65534 } : {};

const reading = [['session', 'list'], ['session', 'show', 'k'], ['session', 'export', 'k'], ['stats'],
    ['fsck']];
const writing = [['session', 'new'], ['session', 'append', 'k', 'x'], ['session', 'delete', 'k'],
    ['session', 'rewind', 'k', '--to', '1']];

function filled(w, messages = 20) {
    w.ok('session', 'append', 'sample', 'sample', '--create');
    const input = JSON.stringify(Array.from({ length: messages }, (_, i) => (
        message(`${i} ${crypto.randomBytes(300).toString('hex')}`))));
    w.ok('session', 'append', 'k', '--json-input', '--create', { input });
    return w.file('palaver-data/palaver.db');
}

// Every command must fail without changing the file.
function assertRefused(w, file, commands, pattern) {
    const before = digest(file);
    for (const command of commands) {
        const result = w.run(...command);
        assertFails(result, 1, pattern);
        assert.equal(digest(file), before, `${command.join(' ')} changed the file`);
    }
}

test('commands fail if the store does not exist', (t) => {
    const w = workspace(t);
    for (const command of [...reading, ...writing.slice(1), ['session', 'restore', 'k'],
        ['session', 'erase', 'k', '--yes'], ['session', 'fork', 'k'], ['session', 'undo', 'k'],
        ['session', 'reset', 'k']]) {
        assertFails(w.run(...command), 1,
            /store 'palaver-data\/palaver.db' does not exist\nhint: .*session new.*--store/);
        assert.deepEqual([w.names(), fs.readdirSync(w.file('palaver-data'))], [[], []],
            `${command.join(' ')} made something`);
    }
    assertFails(w.run('session', 'new', '--store', 'no/such/dir/a.db'), 1, /no\/such\/dir/);
    assertFails(w.run('session', 'new', '--store', 'ftp:x'), 1, /ftp/);
});

test('a truncated database is reported and not changed', (t) => {
    const w = workspace(t);
    const file = filled(w, 200);
    const size = fs.statSync(file).size;
    for (const length of [Math.floor(size / 2), 5000, 100, 10]) {
        fs.truncateSync(file, length);
        assertRefused(w, file, [...reading, ...writing], /palaver\.db/);
    }
});

test('only commands that create a store accept an empty file', (t) => {
    const w = workspace(t);
    w.write('a.db', '');
    for (const command of [...reading, ...writing.slice(1)])
        assertFails(w.run(...command, '--store', 'a.db'), 1, /store 'a.db' does not exist: the file is empty/);
    assert.equal(fs.statSync(w.file('a.db')).size, 0);
    w.ok('session', 'new', '--store', 'a.db');
    assert.equal(w.json('session', 'list', '--store', 'a.db').sessions.length, 1);
});

test('a file that is not a database is rejected', (t) => {
    const w = workspace(t);
    const file = w.file('palaver-data/palaver.db');
    for (const content of ['Dear diary, today I ...\n'.repeat(1000), 'short',
        crypto.randomBytes(40000)]) {
        fs.writeFileSync(file, content);
        assertRefused(w, file, [...reading, ...writing], /palaver\.db/);
    }
});

test('a directory with the name of the store is rejected', (t) => {
    const w = workspace(t);
    fs.mkdirSync(w.file('dir'));
    for (const command of [...reading, ...writing])
        assertFails(w.run(...command, '--store', 'sqlite:dir'), 1, /dir/);
});

function sqlite3(t, file, sql) {
    const result = spawnSync('sqlite3', [file, sql]);
    if (result.error) {
        t.skip('no sqlite3 tool here');
        return false;
    }
    assert.equal(result.status, 0, result.stderr.toString());
    return true;
}

test("the database of another program is rejected", (t) => {
    const w = workspace(t);
    const file = w.file('palaver-data/palaver.db');
    if (!sqlite3(t, file, 'CREATE TABLE bookmarks(url TEXT); INSERT INTO bookmarks VALUES(1)')) return;
    assertRefused(w, file, [...reading, ...writing], /palaver\.db/);
});

test('a store of a newer version is rejected', (t) => {
    const w = workspace(t);
    const file = filled(w);
    if (!sqlite3(t, file, 'PRAGMA user_version=999')) return;
    assertRefused(w, file, [...reading, ...writing], /999|newer/);
});

test('with a damaged page other sessions work, and fsck reports and repairs it', (t) => {
    const w = workspace(t);
    const file = filled(w, 200);
    const clean = w.run('fsck');
    assert.equal(clean.out, 'No problems were found.\n');
    assert.equal(clean.code, 0);
    assert.deepEqual(w.json('fsck'), { findings: [], found: 0, repaired: 0 });
    // Replaces the content of a row by something that is not a message.
    const bytes = fs.readFileSync(file);
    const at = bytes.indexOf('100 ');
    assert.ok(at > 0);
    bytes.fill(0xff, at - 20, at + 20);
    fs.writeFileSync(file, bytes);
    const before = digest(file);
    const found = w.run('fsck');
    assert.equal(found.code, 1);
    assert.match(found.err, /^palaver: \d+ problems? found\nhint: 'palaver fsck --repair'/);
    assert.match(found.out, /^session [0-9a-f-]{36}: /m);
    assert.equal(digest(file), before, 'looking changes nothing');
    const asJson = w.run('fsck', '--json');
    assert.equal(asJson.code, 1);
    assert.ok(JSON.parse(asJson.out).found > 0);
    assert.equal(w.json('session', 'show', 'sample').messages.length, 1);
    w.run('fsck', '--repair');
    assert.equal(w.json('session', 'list', '--state', 'quarantined').sessions.length, 1);
    assert.equal(w.json('session', 'show', 'sample').messages.length, 1);
});

test('text that is not UTF-8 is rejected', (t) => {
    const w = workspace(t);
    const file = filled(w);
    const before = w.json('session', 'show', 'k').session.last_seq;
    assertFails(w.run('session', 'append', 'k', { input: Buffer.from([0x61, 0xff, 0xfe, 0x62]) }), 1,
        /UTF-8/);
    assertFails(w.run('session', 'append', 'k', '--json-input',
        { input: Buffer.from('[{"role":"user","content":"\xff"}]', 'latin1') }),
    1, /UTF-8/);
    assert.equal(w.json('session', 'show', 'k').session.last_seq, before);
    assert.ok(fs.existsSync(file));
});

test('a message of 17 MiB is rejected', (t) => {
    const w = workspace(t);
    filled(w);
    const before = w.json('session', 'show', 'k').session.last_seq;
    assertFails(w.run('session', 'append', 'k', { input: Buffer.alloc(17 << 20, 'x') }), 1,
        /limit|over|too large|bytes/);
    assert.equal(w.json('session', 'show', 'k').session.last_seq, before);
    w.ok('session', 'append', 'k', { input: Buffer.alloc(15 << 20, 'x') });
});

test('a read-only file can be read but not written', (t) => {
    const w = workspace(t);
    const file = filled(w);
    fs.chmodSync(w.dir, 0o755);
    fs.chmodSync(w.file('palaver-data'), 0o555);
    for (const name of fs.readdirSync(w.file('palaver-data')))
        fs.chmodSync(w.file(`palaver-data/${name}`), 0o444);
    const before = digest(file);
    for (const command of writing) {
        assertFails(w.run(...command, nobody), 1, /palaver\.db|read-only|permission|denied/i);
        assert.equal(digest(file), before);
    }
    // If files can be created next to the store, it can be read.
    fs.chmodSync(w.file('palaver-data'), 0o777);
    for (const command of reading)
        assert.equal(w.run(...command, nobody).code, 0, command.join(' '));
    assert.equal(digest(file), before);
    fs.chmodSync(w.file('palaver-data'), 0o755);
});

test('a store cannot be created in a read-only directory', (t) => {
    const w = workspace(t);
    fs.rmdirSync(w.file('palaver-data'));
    fs.chmodSync(w.dir, 0o555);
    const homeless = { ...nobody, env: { HOME: '', XDG_DATA_HOME: '' } };
    assertFails(w.run('session', 'new', homeless), 1, /could not create the directory 'palaver-data': Permission/);
    assertFails(w.run('session', 'new', '--store', 'a.db', nobody), 1, /a\.db/);
    fs.chmodSync(w.dir, 0o755);
    assert.deepEqual(w.names(), []);
});

test('a full disk is reported and loses nothing', (t) => {
    const w = workspace(t);
    const disk = w.file('disk');
    fs.mkdirSync(disk);
    const mount = isRoot && spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]);
    if (!mount || mount.error || mount.status !== 0)
        return t.skip('a small disk can be made by root only');
    try {
        fillDisk(w, disk);
    } finally {
        spawnSync('umount', [disk]);
    }
});

function fillDisk(w, disk) {
    const store = `sqlite:${disk}/a.db`;
    const input = 'x'.repeat(100000);
    let appended = 0;
    let result;
    for (; appended < 100; appended++) {
        result = w.run('session', 'append', 'k', '--create', '--store', store, { input });
        if (result.code) break;
    }
    assert.ok(appended > 0 && appended < 100);
    assertFails(result, 1, /full|space|disk/i);
    spawnSync('mount', ['-o', 'remount,size=16m', disk]);
    assert.equal(w.json('session', 'show', 'k', '--store', store).messages.length, appended,
        'what was acknowledged is there, and nothing else');
    w.ok('session', 'append', 'k', '--store', store, { input });
}

test('a write over the limit of file sizes fails like on a full disk', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', 'before', '--create');
    const input = JSON.stringify([message(crypto.randomBytes(400000).toString('hex'))]);
    const result = spawnSync('sh', ['-c', 'ulimit -f 200; exec "$0" "$@"', process.env.PALAVER_BIN,
        'session', 'append', 'k', '--json-input'], { cwd: w.dir, input, encoding: 'utf8' });
    assert.equal(result.signal, null);
    assert.equal(result.status, 1, result.stderr);
    assert.match(result.stderr, /^palaver: /);
    assert.match(w.ok('session', 'show', 'k'), /before/);
    w.ok('session', 'append', 'k', '--json-input', { input });
});
