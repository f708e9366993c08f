// `palaver session search`: as text and as JSON, in one session and in all sessions.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { workspace, assertFails } from './support.mjs';

function filled(t) {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'a');
    w.ok('session', 'new', '--key', 'b');
    w.ok('session', 'append', 'a', 'Where is the connection pool?');
    w.ok('session', 'append', 'a', '--role', 'assistant', 'In src/net/pool_open.c.');
    w.ok('session', 'append', 'b', '東京タワーは connection がない');
    return w;
}

test('search covers one session or all sessions', (t) => {
    const w = filled(t);
    const seqs = (...args) => w.json('session', 'search', ...args).hits.map((h) => h.seq);
    assert.deepEqual(seqs('CONNECTION'), [1, 1]);
    assert.deepEqual(seqs('a', 'pool', '--order', 'newest'), [2, 1]);
    assert.deepEqual(seqs('a', 'pool').sort(), [1, 2]);
    assert.deepEqual(seqs('b', 'pool'), []);
    assert.deepEqual(seqs('"the connection"'), [1]);
    assert.deepEqual(seqs('pool_op*'), [2]);
    assert.deepEqual(seqs('東'), [1]);
    assert.deepEqual(seqs('a', 'pool', '--role', 'assistant'), [2]);
    w.ok('session', 'rewind', 'a', '--to', '1');
    assert.deepEqual(seqs('a', 'pool'), [1]);
    assert.deepEqual(seqs('pool', '--tenant', 'other'), []);
});

test('search: a hit has its session, seq, role, time and text', (t) => {
    const w = filled(t);
    const { hits, cursor } = w.json(
        'session', 'search', 'a', 'pool', '--order', 'newest', '--limit', '1');
    assert.equal(hits.length, 1);
    assert.equal(hits[0].role, 'assistant');
    assert.equal(hits[0].snippet, 'In src/net/pool_open.c.');
    assert.equal(hits[0].session_id, w.json('session', 'show', 'a').session.id);
    assert.ok(Math.abs(Date.parse(hits[0].created_at) - Date.now()) < 60e3);
    const rest = w.json(
        'session', 'search', 'a', 'pool', '--order', 'newest', '--cursor', cursor);
    assert.deepEqual(rest.hits.map((h) => h.seq), [1]);
    assert.equal(rest.cursor, null);
    const lines = w.ok('session', 'search', 'pool', '--order', 'newest').trimEnd().split('\n');
    assert.match(lines[0], /^SESSION +SEQ +ROLE +WHEN +TEXT$/);
    assert.match(lines[1], /^[0-9a-f-]{36} +2 +assistant +\S+ +In src\/net\/pool_open\.c\.$/);
    const more = w.run('session', 'search', 'pool', '--limit', '1');
    assert.match(more.err, /More messages follow: use --limit, or --cursor \S+\n/);
    const none = w.run('session', 'search', 'nowhere');
    assert.equal(none.code, 0);
    assert.equal(none.out, '');
    assert.match(none.err, /No messages found/);
});

test('search rejects wrong options', (t) => {
    const w = filled(t);
    assertFails(w.run('session', 'search'), 2, /TEXT/);
    assertFails(w.run('session', 'search', '...'), 1, /the search contains no words/);
    assertFails(w.run('session', 'search', 'x', '--role', 'cat'), 2, /--role must be/);
    assertFails(w.run('session', 'search', 'x', '--limit', '0'), 2, /--limit must be from 1/);
    assert.match(w.run('session', 'search', 'nobody', 'x').err, /No messages found/);
    assertFails(w.run('session', 'search', 'x', '--cursor', 'p'), 1, /cursor/);
    assertFails(w.run('session', 'search', 'x', '--store', 'missing.db'), 1, /missing\.db/);
});

test('search in a read-only store finds messages or reports the missing permission', { skip: process.getuid() !== 0 && 'needs root' },
    (t) => {
        const w = filled(t);
        fs.chmodSync(w.dir, 0o777);
        const db = w.file('palaver-data/palaver.db');
        fs.chmodSync(db, 0o444);
        const found = w.run('session', 'search', 'pool', '--json', { uid: 65534, gid: 65534 });
        // SQLite may need to write next to the file; if it can, the search finds messages.
        if (found.code === 0) assert.equal(JSON.parse(found.out).hits.length, 2);
        else assert.match(found.err, /no permission|could not open/);
    });

test('words that the shell has split are joined', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'a');
    w.ok('session', 'append', 'a', 'At the second chapter?');
    assert.match(w.ok('session', 'search', 'second', 'chapter'), /second chapter/);
    assert.match(w.ok('session', 'search', 'a', 'second', 'chapter'), /second chapter/);
    const all = w.json('session', 'search', 'second', 'verse', '--order', 'newest');
    assert.equal(all.hits.length, 0);
});

test('a question finds the best message, between its neighbors', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'a');
    for (const text of ['We had soup.', 'My sister paints horses.', 'She sells them in Porto.',
        'It rained all day.', '姐姐昨天在北京'])
        w.ok('session', 'append', 'a', text);
    const { hits } = w.json(
        'session', 'search', 'What', 'does', 'your', 'sister', 'paint?', '--neighbors', '1');
    assert.deepEqual(hits.map((h) => h.seq), [2]);
    assert.ok(hits[0].score > 0);
    assert.deepEqual(hits[0].neighbors.map((n) => [n.seq, n.text]),
        [[1, 'We had soup.'], [3, 'She sells them in Porto.']]);
    const lines = w.ok('session', 'search', 'paintings', '--neighbors', '1').trimEnd().split('\n');
    assert.deepEqual(lines.slice(1).map((line) => line.match(/([0-9-]*) +(\d) +user/)?.[2]),
        ['1', '2', '3']);
    assert.deepEqual(w.json('session', 'search', '你姐姐什么时候去了北京').hits.map((h) => h.seq), [5]);
    assert.deepEqual(w.json('session', 'search', '"sister paint"').hits, []);
    assert.deepEqual(w.json('session', 'search', 'sister paint*').hits.map((h) => h.seq), [2]);
    assert.deepEqual(w.json('session', 'search', 'soup', '--sender', 'nobody').hits, []);
    assertFails(w.run('session', 'search', 'x', '--order', 'worst'), 2, /--order must be best/);
    assertFails(w.run('session', 'search', 'x', '--neighbors', '9'), 2, /--neighbors must be/);
    assertFails(w.run('session', 'search', 'x', '--order', 'newest', '--neighbors', '1'), 2,
        /--neighbors is not possible/);
});
