// `palaver stats`, `fsck` and `bench` on a sound store.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { binary, workspace, assertFails } from './support.mjs';

test('the default directory is not added to git', (t) => {
    const w = workspace(t);
    w.ok('session', 'new');
    assert.equal(fs.readFileSync(w.file('palaver-data/.gitignore'), 'utf8'), '*\n');
    w.write('palaver-data/.gitignore', 'mine\n');
    w.ok('session', 'new');
    assert.equal(fs.readFileSync(w.file('palaver-data/.gitignore'), 'utf8'), 'mine\n');
});

test('conversations follow the user, unless the directory has a store', (t) => {
    const w = workspace(t);
    fs.mkdirSync(w.file('elsewhere/deep'), { recursive: true });
    fs.mkdirSync(w.file('home'));
    const at = (cwd, env) => ({ cwd: w.file(cwd), env });
    const home = { XDG_DATA_HOME: 'relative', HOME: w.file('home') };
    w.ok('session', 'new', '--key', 'mine', at('elsewhere', home));
    const file = w.file('home/.local/share/palaver/palaver.db');
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    assert.equal(fs.statSync(path.dirname(file)).mode & 0o777, 0o700);
    const keys = (where) => w.json('session', 'list', where).sessions.map((session) => session.key);
    assert.deepEqual(keys(at('elsewhere/deep', home)), ['mine']);
    assert.deepEqual(fs.readdirSync(w.file('elsewhere')), ['deep']);

    w.ok('session', 'new', '--key', 'here', at('.', home));
    assert.ok(fs.existsSync(w.file('palaver-data/palaver.db')));
    assert.deepEqual(keys(at('.', home)), ['here']);
    w.ok('session', 'new', '--key', 'data', at('elsewhere', { XDG_DATA_HOME: w.file('data'), HOME: w.file('home') }));
    assert.ok(fs.existsSync(w.file('data/palaver/palaver.db')));

    const { values } = w.json('config', 'show', at('elsewhere', home));
    assert.deepEqual(values.find((entry) => entry.key === 'store'),
        { key: 'store', value: `sqlite:${file}`, source: 'default' });
    for (const lost of [{ HOME: '' }, { HOME: w.file('missing') }]) {
        fs.rmSync(w.file('elsewhere/palaver-data'), { recursive: true, force: true });
        w.ok('session', 'new', at('elsewhere', { XDG_DATA_HOME: '', ...lost }));
        assert.ok(fs.existsSync(w.file('elsewhere/palaver-data/.gitignore')));
    }
    assert.ok(!fs.existsSync(w.file('missing')));
});

test('stats counts sessions, messages and bytes', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'a', 'one', '--create');
    w.ok('session', 'append', 'b', 'two', '--create', '--tenant', 'other');
    w.ok('session', 'delete', 'a');
    w.ok('session', 'new');
    const stats = w.json('stats');
    assert.equal(stats.backend, 'sqlite');
    assert.equal(stats.sessions_active, 2);
    assert.equal(stats.sessions_trash, 1);
    assert.equal(stats.sessions_quarantined, 0);
    assert.equal(stats.messages, 2);
    assert.equal(stats.tenants, 2);
    assert.ok(stats.disk_bytes > 0);
    const text = w.ok('stats');
    assert.match(text, /^store {17}sqlite:palaver-data\/palaver\.db$/m);
    assert.match(text, /^active sessions {7}2$/m);
    assert.match(text, /^size on disk {10}[\d.]+ kB$/m);
});

test('fsck finds no problems in a sound store', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'a', 'one', '--create');
    assert.equal(w.ok('fsck'), 'No problems were found.\n');
    assert.equal(w.ok('fsck', '--repair'), 'No problems were found.\n');
    assert.deepEqual(w.json('fsck', '--repair'), { findings: [], found: 0, repaired: 0 });
});

test('fsck reports a store that others can read, and makes it private', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'a', 'one', '--create');
    const file = path.join(w.dir, 'palaver-data', 'palaver.db');
    fs.chmodSync(file, 0o644);
    const found = w.run('fsck');
    assert.deepEqual([found.code, found.out], [0, 'No problems were found.\n']);
    assert.match(found.err, /^hint: '.*palaver\.db' can be read by others \(mode 0644\); 'palaver fsck --repair' makes it private$/m);
    const asJson = w.json('fsck');
    assert.deepEqual([asJson.found, asJson.advice.length, asJson.advice[0].repaired], [0, 1, false]);
    assert.match(w.run('fsck', '--repair').err, /can be read by others \(mode 0644\) \(repaired\)/);
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    assert.equal(w.run('fsck').err, '');
});

test('bench removes its temporary store', (t) => {
    const w = workspace(t);
    const text = w.ok('bench', 'store', '--ms', '50');
    assert.match(text, /^WHAT +PER SECOND +RATIO +MEDIAN +99 %$/m);
    assert.match(text, /^write \+ fdatasync +\d+ +1\.00 /m);
    for (const threads of ['1 thread', '8 threads', '64 threads'])
        assert.match(text, new RegExp(`^append, ${threads} +\\d+ +\\d+\\.\\d\\d `, 'm'));
    assert.match(text, /^load newest 50 messages +\d+ /m);
    assert.deepEqual(w.names(), []);
});

test('bench removes its store after an interrupt', async (t) => {
    const w = workspace(t);
    const child = spawn(binary, ['bench', 'store', '--ms', '60000'], { cwd: w.dir });
    let err = '';
    child.stderr.on('data', (data) => { err += data; });
    const ended = new Promise((resolve) => { child.on('close', resolve); });
    while (!w.names().some((name) => fs.existsSync(w.file(`${name}/palaver.db`))))
        await new Promise((resolve) => { setTimeout(resolve, 5); });
    child.kill('SIGINT');
    assert.equal(await ended, 1);
    assert.equal(err, 'palaver: interrupted\n');
    assert.deepEqual(w.names(), []);
});

test('bench erases its sessions from a store that --store names', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'a', 'one', '--create');
    const { results } = w.json('bench', 'store', '--ms', '20', '--store',
        'sqlite:palaver-data/palaver.db');
    assert.equal(results.length, 5);
    assert.ok(results.every((r) => Number.isFinite(r.per_second) && r.per_second >= 0));
    assert.equal(results[0].ratio, 1);
    const stats = w.json('stats');
    assert.equal(stats.sessions_active, 1);
    assert.equal(stats.messages, 1);
    const memory = w.json('bench', 'store', '--ms', '20', '--store', 'memory:').results;
    assert.equal(memory.length, 4);
    assertFails(w.run('bench', 'store', '--ms', '0'), 2, /--ms must be from 1/);
    assertFails(w.run('bench', 'store', '--dir', 'nowhere'), 1, /nowhere/);
});

test('store init creates a store, and store check reports its version', (t) => {
    const w = workspace(t);
    assertFails(w.run('store', 'check'), 1, /does not exist/);
    assert.match(w.ok('store', 'init'), /^The store is ready: version \d+\.\n$/);
    assert.match(w.ok('store', 'init'), /^The store is ready: version \d+\.\n$/);
    const schema = w.json('store', 'check');
    assert.equal(schema.version, schema.newest);
    assert.equal(schema.settings, '');
    assert.equal(schema.settings_missing, '');
    assert.equal(w.ok('store', 'migrate'), w.ok('store', 'check'));
});

test('store copy copies between backends, and refuses a store that is not empty', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'a', 'one', '--create');
    w.ok('session', 'append', 'b', 'two', '--create', '--tenant', 'other');
    w.ok('session', 'delete', 'a');
    w.ok('key', 'create');
    const from = 'sqlite:palaver-data/palaver.db';
    assert.match(w.ok('store', 'copy', from, 'jsonl:dir'),
        /^Copied and compared: 2 sessions, 2 messages, .*, 1 record\.\n$/);
    const copied = w.json('store', 'copy', 'jsonl:dir', 'sqlite:again.db');
    assert.equal(copied.sessions, 2);
    assert.equal(copied.records, 1);
    assert.equal(w.ok('session', 'show', 'b', '--tenant', 'other', '--store', 'again.db'),
        w.ok('session', 'show', 'b', '--tenant', 'other'));
    assert.equal(w.ok('key', 'list', '--store', 'again.db'), w.ok('key', 'list'));
    assertFails(w.run('store', 'copy', from, 'jsonl:dir'), 1, /the target is not empty/);
    assertFails(w.run('store', 'copy', from, from), 1, /the same store/);
    assertFails(w.run('store', 'copy', 'absent.db', 'sqlite:new.db'), 1,
        /'absent\.db' does not exist/);
    assert.ok(!fs.existsSync(w.file('new.db')));
});
