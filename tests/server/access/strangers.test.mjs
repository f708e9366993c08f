// Tenants are isolated: another tenant cannot guess the ids that are derived from an idempotency
// key, two tenants can have the same ids, and erased data is erased from remembered responses, too.
import test from 'node:test';
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { assertError, makeKey, palaver, serve, workspace } from '../support.mjs';

const base = '/api/v1/sessions';
const stores = ['sqlite:palaver-data/palaver.db', 'jsonl:palaver-data/jsonl'];

async function ok(promise, code = 200) {
    const answer = await promise;
    assert.equal(answer.code, code, answer.text);
    return answer.json;
}

// The id that plain SHA-256 would give, which another tenant could compute.
function guess(...texts) {
    const text = texts.map((t) => `${Buffer.byteLength(t)}:${t}`).join('');
    const bytes = createHash('sha256').update(text).digest().subarray(0, 16);
    bytes[6] = 0x80 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    const hex = bytes.toString('hex');
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)]
        .join('-');
}

async function withTenants(t, store) {
    const dir = workspace(t);
    const args = store ? ['--store', store] : [];
    const acme = makeKey(dir, '--tenant', 'acme', '--role', 'write', ...args).key;
    const evil = makeKey(dir, '--tenant', 'evil', '--role', 'write', ...args).key;
    return { s: await serve(t, { dir, args }), acme, evil };
}

const keyed = (key, idempotency) => ({ key, headers: { 'idempotency-key': idempotency } });

test('the id of a keyed create cannot be predicted', async (t) => {
    const { s, acme } = await withTenants(t, stores[0]);
    const made = await ok(s.post(base, { title: 't' }, keyed(acme, 'order-2')), 201);
    for (const texts of [['acme', 'order-2', '0'], ['acme', 'POST', base, 'order-2', '0']])
        assert.notEqual(made.id, guess(...texts));
    const again = await s.post(base, { title: 't' }, keyed(acme, 'order-2'));
    assert.deepEqual([again.code, again.json.id], [201, made.id]);
    const fork = await ok(s.post(`${base}/${made.id}/fork`, {}, keyed(acme, 'order-2b')), 201);
    assert.notEqual(fork.id, made.id);
});

test('two stores derive different ids from the same request', async (t) => {
    const ids = new Set();
    for (let i = 0; i < 2; i++) {
        const s = await serve(t);
        ids.add((await ok(s.post(base, {}, { headers: { 'idempotency-key': 'k' } }), 201)).id);
    }
    assert.equal(ids.size, 2);
});

test('two servers on one store derive the same id', async (t) => {
    const dir = workspace(t);
    const servers = await Promise.all([1, 2, 3].map(() => serve(t, { dir })));
    const answers = await Promise.all(servers.map((s) =>
        s.post(base, {}, { headers: { 'idempotency-key': 'k' } })));
    const ids = new Set(answers.filter((a) => a.code === 201).map((a) => a.json.id));
    assert.equal(ids.size, 1, answers.map((a) => a.text).join());
    const after = await Promise.all(servers.map((s) =>
        s.post(base, {}, { headers: { 'idempotency-key': 'k' } })));
    for (const a of after) assert.deepEqual([a.code, a.json.id], [201, [...ids][0]], a.text);
});

test('no export contains the secret', async (t) => {
    const s = await serve(t);
    await ok(s.post(base, { key: 'k' }, { headers: { 'idempotency-key': 'k' } }), 201);
    await s.stop();
    const secret = /"([0-9a-f]{64})"/.exec(
        fs.readFileSync(path.join(s.dir, 'palaver-data/palaver.db'), 'latin1'));
    assert.ok(secret, 'the store has one');
    const out = palaver(s.dir, 'session', 'export', '--all');
    assert.ok(!out.includes(secret[1]));
});

test('an id that one tenant uses is free for another', async (t) => {
    const { s, acme, evil } = await withTenants(t, stores[0]);
    const id = (await ok(s.post(base, { title: 'mine' }, keyed(acme, 'k')), 201)).id;
    await ok(s.post(`${base}/${id}/messages`, { role: 'user', content: 'ACME-TEXT' },
        { key: acme }), 201);
    const lines = (await s.get(`${base}/${id}/export`, { key: acme })).text;
    const report = await ok(s.post('/api/v1/import', lines.replaceAll('ACME-TEXT', 'EVIL-TEXT'),
        { key: evil }));
    assert.deepEqual([report.sessions, report.messages, report.problems_total], [1, 1, 0]);
    assert.deepEqual(report.session_ids, [id]);
    const texts = async (key) =>
        (await ok(s.get(`${base}/${id}/messages`, { key }))).messages.map((m) => m.content);
    assert.deepEqual(await texts(acme), ['ACME-TEXT']);
    assert.deepEqual(await texts(evil), ['EVIL-TEXT']);
    await ok(s.ask('DELETE', `${base}/${id}`, { key: evil }));
    assert.deepEqual(await texts(acme), ['ACME-TEXT']);
    assert.deepEqual((await ok(s.get(base, { key: acme }))).sessions.map((one) => one.id), [id]);
});

// ---- Erased ----

function filesWith(dir, text) {
    const found = [];
    for (const entry of fs.readdirSync(dir, { withFileTypes: true })) {
        const name = path.join(dir, entry.name);
        if (entry.isDirectory()) found.push(...filesWith(name, text));
        else if (fs.readFileSync(name).includes(text)) found.push(name);
    }
    return found;
}

for (const store of stores) {
    const kind = store.slice(0, store.indexOf(':'));

    test(`${kind}: no stored response contains erased text`, async (t) => {
        const dir = workspace(t);
        const s = await serve(t, { dir, args: ['--store', store] });
        const secret = 'ERASEME-TURN-123456';
        const id = (await ok(s.post(base, { title: `${secret}-title` },
            { headers: { 'idempotency-key': 'make' } }), 201)).id;
        const requests = [
            ['turn', `${base}/${id}/turns`, { message: secret }],
            ['append', `${base}/${id}/messages`, { role: 'user', content: `${secret} again` }],
            ['fork', `${base}/${id}/fork`, { title: `${secret} fork` }],
        ];
        const first = [];
        for (const [name, target, body] of requests)
            first.push(await s.post(target, body, { headers: { 'idempotency-key': name } }));
        for (const a of first) assert.ok(a.code < 300, a.text);
        assert.match(first[0].text, /ERASEME/);
        for (const one of [id, first[2].json.id])
            assert.equal((await s.post(`${base}/${one}/erase`, undefined)).code, 200);
        for (const [name, target, body] of requests) {
            const again = await s.post(target, body, { headers: { 'idempotency-key': name } });
            assertError(again, 409, 'answer_lost');
            assert.ok(!again.text.includes('ERASEME'), again.text);
        }
        assertError(await s.post(base, { title: `${secret}-title` },
            { headers: { 'idempotency-key': 'make' } }), 409, 'answer_lost');
        assert.deepEqual(await ok(s.get(base)).then((j) => j.sessions.length), 0);
        await s.stop();
        assert.deepEqual(filesWith(path.join(dir, 'palaver-data'), 'ERASEME'), []);
    });
}

test('a repeated erase gets its response again', async (t) => {
    const s = await serve(t);
    const id = (await ok(s.post(base, {}), 201)).id;
    const headers = { 'idempotency-key': 'e' };
    const first = await s.post(`${base}/${id}/erase`, undefined, { headers });
    assert.equal(first.code, 200);
    const again = await s.post(`${base}/${id}/erase`, undefined, { headers });
    assert.deepEqual([again.code, again.text], [200, first.text]);
});

test('a completion that is not stored is still replayed', async (t) => {
    const s = await serve(t);
    const body = { model: 'echo', messages: [{ role: 'user', content: 'hello' }] };
    const headers = { 'idempotency-key': 'c' };
    const first = await s.post('/v1/chat/completions', body, { headers });
    const again = await s.post('/v1/chat/completions', body, { headers });
    assert.deepEqual([first.code, again.code, again.text], [200, 200, first.text]);
    const response = { model: 'echo', input: 'hello', store: false };
    const one = await s.post('/v1/responses', response, { headers: { 'idempotency-key': 'r' } });
    const two = await s.post('/v1/responses', response, { headers: { 'idempotency-key': 'r' } });
    assert.deepEqual([one.code, two.code, two.text], [200, 200, one.text]);
});

// ---- Imports ----

const importLines = (s, lines, query = '') => ok(s.post(`/api/v1/import${query}`, lines));
const textsOf = async (s, name) =>
    (await ok(s.get(`${base}/${name}/messages?limit=500`))).messages.map((m) => m.content);
const chat = (...texts) => JSON.stringify(texts.map((content, i) =>
    ({ role: i % 2 ? 'assistant' : 'user', content })));

async function exported(t) {
    const s = await serve(t);
    const id = (await ok(s.post(base, { key: 'sk_v1_x', title: 'theirs' }), 201)).id;
    for (const content of ['first THEIRS', 'second THEIRS', 'third THEIRS'])
        await ok(s.post(`${base}/${id}/messages`, { role: 'user', content }), 201);
    const fork = (await ok(s.post(`${base}/${id}/fork`, { at_seq: 2 }), 201)).id;
    await ok(s.post(`${base}/${fork}/messages`, { role: 'user', content: 'fork THEIRS' }), 201);
    await ok(s.post(`${base}/${id}/rewind`, { to_seq: 2 }));
    const lines = [];
    for (const one of [id, fork]) lines.push((await s.get(`${base}/${one}/export`)).text);
    await s.stop();
    return { id, fork, lines };
}

test('a different conversation with the same id is imported separately', async (t) => {
    const { id, fork, lines } = await exported(t);
    const s = await serve(t);
    const ours = lines[0].replaceAll('THEIRS', 'OURS').replaceAll('theirs', 'ours');
    assert.equal((await importLines(s, ours)).messages, 3);
    const before = (await s.get(`${base}/${id}/export`)).text;
    const report = await importLines(s, lines[0]);
    assert.deepEqual([report.sessions, report.sessions_known, report.messages,
        report.messages_known, report.messages_failed], [1, 0, 3, 0, 0]);
    assert.ok(report.problems.some((p) => /is a different conversation in this store/.test(p.text)));
    const [apart] = report.session_ids;
    assert.notEqual(apart, id);
    assert.equal((await s.get(`${base}/${id}/export`)).text, before, 'nothing was added');
    assert.deepEqual(await textsOf(s, apart), ['first THEIRS', 'second THEIRS'], 'with its rewind');
    assert.equal((await ok(s.get(`${base}/${apart}`))).key, undefined);
    assert.equal((await ok(s.get(`${base}/sk_v1_x`))).id, id);

    const forked = await importLines(s, lines.join(''));
    assert.deepEqual([forked.sessions, forked.sessions_known, forked.messages], [1, 1, 1]);
    assert.deepEqual(await textsOf(s, fork), ['first THEIRS', 'second THEIRS', 'fork THEIRS']);
    assert.equal((await ok(s.get(`${base}/${fork}`))).parent_id, apart, 'it follows its parent');
    const again = await importLines(s, lines.join(''));
    assert.deepEqual([again.sessions, again.sessions_known, again.messages, again.messages_failed],
        [0, 2, 0, 0], JSON.stringify(again));
    const same = await importLines(s, ours);
    assert.deepEqual([same.sessions, same.sessions_known, same.messages], [0, 1, 0]);
});

test('a fork does not share the messages of a different conversation', async (t) => {
    const { id, fork, lines } = await exported(t);
    const s = await serve(t);
    await importLines(s, lines[0].replaceAll('THEIRS', 'OURS'));
    const report = await importLines(s, lines[1]);
    assert.deepEqual([report.sessions, report.messages_failed], [1, 0]);
    assert.deepEqual(await textsOf(s, fork), ['first THEIRS', 'second THEIRS', 'fork THEIRS']);
    assert.equal((await ok(s.post(`${base}/${id}/erase`))).status, 'erased');
    assert.deepEqual(await textsOf(s, fork), ['first THEIRS', 'second THEIRS', 'fork THEIRS']);
});

test('a key stays with the conversation that has it', async (t) => {
    const s = await serve(t);
    const first = await importLines(s, chat('hello', 'I am the first'), '?key=ann');
    for (const texts of [['good day', 'I am the second'], ['hello', 'I am the third', 'more']]) {
        const report = await importLines(s, chat(...texts), '?key=ann');
        assert.deepEqual([report.sessions, report.messages, report.messages_failed],
            [1, texts.length, 0], JSON.stringify(report));
        assert.deepEqual(await textsOf(s, report.session_ids[0]), texts);
        assert.equal(report.problems_total, 1);
        const again = await importLines(s, chat(...texts), '?key=ann');
        assert.deepEqual([again.sessions, again.messages, again.session_ids],
            [0, 0, report.session_ids], JSON.stringify(again));
    }
    assert.deepEqual(await textsOf(s, 'ann'), ['hello', 'I am the first']);
    const grown = await importLines(s, chat('hello', 'I am the first', 'and go on'), '?key=ann');
    assert.deepEqual([grown.sessions_known, grown.messages, grown.session_ids],
        [1, 1, first.session_ids]);
    assert.deepEqual(await textsOf(s, 'ann'), ['hello', 'I am the first', 'and go on']);
});

test('a different conversation with the same key gets no imported messages', async (t) => {
    const s = await serve(t);
    const id = (await ok(s.post(base, { key: 'ann' }), 201)).id;
    await ok(s.post(`${base}/ann/messages`, { role: 'user', content: 'LOCAL' }), 201);
    const report = await importLines(s, chat('REMOTE', 'answer'), '?key=ann');
    assert.notEqual(report.session_ids[0], id);
    assert.deepEqual(await textsOf(s, 'ann'), ['LOCAL']);
    assert.deepEqual(await textsOf(s, report.session_ids[0]), ['REMOTE', 'answer']);
});
