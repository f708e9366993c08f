// `palaver backup` and `palaver restore`: while a writer works, after kills, and with wrong files.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { assertFails, binary, digest, textsOf, workspace } from './support.mjs';

const rounds = Number(process.env.BACKUP_KILLS ?? 12);

function filled(w, messages = 3) {
    w.ok('session', 'new', '--key', 'a');
    for (let i = 0; i < messages; i++) w.ok('session', 'append', 'a', `message ${i}`);
    return w.file('palaver-data/palaver.db');
}

test('a backup can be read, and restored in another place', (t) => {
    const w = workspace(t);
    filled(w);
    assert.match(w.ok('backup', 'b.db'), /^Wrote b\.db: 1 session, 3 messages, [\d.]+ kB, checked\.\n$/);
    assert.equal(fs.statSync(w.file('b.db')).mode & 0o777, 0o600);
    assert.deepEqual(w.names(), ['b.db'], 'one file, and nothing left over');
    const before = digest(w.file('b.db'));
    assert.equal(w.json('session', 'show', 'a', '--store', 'b.db').messages.length, 3);
    w.ok('session', 'append', 'a', 'later');
    const restored = w.json('restore', 'b.db', '--store', 'c.db');
    assert.deepEqual([restored.file, restored.sessions, restored.messages], ['c.db', 1, 3]);
    assert.equal(digest(w.file('b.db')), before, 'the backup did not change');
    w.ok('session', 'append', 'a', 'continued', '--store', 'c.db');
    assert.deepEqual(textsOf(w.json('session', 'show', 'a', '--store', 'c.db')),
        ['message 0', 'message 1', 'message 2', 'continued']);
});

test('a file that exists is never replaced', (t) => {
    const w = workspace(t);
    const store = filled(w);
    w.write('b.db', 'mine');
    assertFails(w.run('backup', 'b.db'), 1, /could not write 'b\.db': File exists\nhint: a backup never replaces a file/);
    assert.equal(fs.readFileSync(w.file('b.db'), 'utf8'), 'mine');
    w.ok('backup', 'c.db');
    assertFails(w.run('restore', 'c.db'), 1, /palaver\.db' exists already\nhint: stop all servers, and move/);
    fs.renameSync(store, w.file('old.db'));
    w.write('palaver-data/palaver.db-wal', '');
    assertFails(w.run('restore', 'c.db'), 1, /palaver\.db-wal' exists already/);
    fs.rmSync(w.file('palaver-data/palaver.db-wal'));
    fs.rmSync(w.file('palaver-data/palaver.db-shm'), { force: true });
    w.ok('restore', 'c.db');
    assert.equal(w.json('stats').messages, 3);
});

test('wrong sources and targets are named, and leave nothing', (t) => {
    const w = workspace(t);
    assertFails(w.run('backup', 'b.db'), 1, /could not read 'palaver-data\/palaver\.db': No such file/);
    filled(w);
    assertFails(w.run('backup', 'missing/b.db'), 1, /could not create 'missing\/b\.db\.part': No such file/);
    assertFails(w.run('backup', 'b.db', '--store', 'memory:'), 1, /only a store of SQLite can be copied as a file/);
    w.write('text.db', 'not a database, but a text that is long enough to be read as one\n'.repeat(100));
    assertFails(w.run('backup', 'b.db', '--store', 'text.db'), 1, /file is not a database/);
    assertFails(w.run('restore', 'text.db', '--store', 'r.db'), 1, /text\.db/);
    assertFails(w.run('restore', 'missing.db', '--store', 'r.db'), 1, /store 'missing\.db' does not exist/);
    assert.deepEqual(w.names(), ['text.db']);
});

test('a damaged store gives no backup', (t) => {
    const w = workspace(t);
    const store = filled(w, 40);
    w.ok('backup', 'good.db');
    const bytes = fs.readFileSync(w.file('good.db'));
    for (let at = 4096 * 3; at < bytes.length - 4096; at += 4096) bytes.fill(0x5a, at + 100, at + 600);
    for (const end of ['', '-wal', '-shm']) fs.rmSync(`${store}${end}`, { force: true });
    fs.writeFileSync(store, bytes);
    const failed = w.run('backup', 'b.db');
    assert.equal(failed.code, 1);
    assert.match(failed.err, /damaged|malformed|corrupt|problems/);
    assertFails(w.run('restore', 'palaver-data/palaver.db', '--store', 'r.db'), 1, /./);
    assert.ok(!fs.existsSync(w.file('r.db')));
});

// Appends messages until it is stopped. Returns how many were acknowledged.
function writer(w) {
    const state = { acknowledged: 0, over: false };
    const child = spawn(binary, ['session', 'append', 'a', '--json-input'], {
        cwd: w.dir, env: { PATH: process.env.PATH, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' },
        stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => {});
    const feed = () => {
        while (!state.over && child.stdin.write(`${JSON.stringify({ role: 'user', content: 'x'.repeat(200) })}\n`));
        if (!state.over) child.stdin.once('drain', feed);
    };
    feed();
    state.stop = async () => {
        state.over = true;
        child.stdin.end();
        await once(child, 'close');
    };
    return state;
}

const run = (w, args, killAfter) => new Promise((resolve) => {
    const child = spawn(binary, args, { cwd: w.dir, stdio: ['ignore', 'pipe', 'pipe'],
        env: { PATH: process.env.PATH, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' } });
    let err = '';
    child.stderr.on('data', (data) => { err += data; });
    const timer = killAfter === undefined ? null : setTimeout(() => child.kill('SIGKILL'), killAfter);
    child.on('close', (code) => {
        clearTimeout(timer);
        resolve({ code, err });
    });
});

test('a backup while a process writes is sound', async (t) => {
    const w = workspace(t);
    filled(w);
    const busy = writer(w);
    for (let i = 0; i < 5; i++) {
        const { code, err } = await run(w, ['backup', `b${i}.db`]);
        assert.equal(code, 0, err);
    }
    await busy.stop();
    for (let i = 0; i < 5; i++) assert.equal(w.ok('fsck', '--store', `b${i}.db`), 'No problems were found.\n');
    assert.equal(w.ok('fsck'), 'No problems were found.\n');
});

test('a backup that is killed is complete or does not exist', async (t) => {
    const w = workspace(t);
    filled(w);
    const busy = writer(w);
    let complete = 0;
    for (let i = 0; i < rounds; i++) {
        await run(w, ['backup', 'b.db'], 5 + 6 * i);
        if (!fs.existsSync(w.file('b.db'))) continue;
        complete++;
        assert.equal(w.ok('fsck', '--store', 'b.db'), 'No problems were found.\n');
        fs.rmSync(w.file('b.db'));
    }
    const last = await run(w, ['backup', 'b.db']);
    await busy.stop();
    assert.equal(last.code, 0, `after ${complete} complete ones: ${last.err}`);
    assert.deepEqual(w.names(), ['b.db']);
    assert.equal(w.ok('fsck'), 'No problems were found.\n');
});
