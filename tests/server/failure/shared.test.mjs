// What several servers on one store share: idempotency keys, budgets, API keys, sweeps, and the time.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import test from 'node:test';
import { keyOf, metric, nodes, pause, start, storeArgs } from '../nodes.mjs';
import { assertError, binary, environment } from '../support.mjs';

const ROUNDS = 8;
const isPostgres = Boolean(process.env.PALAVER_TEST_POSTGRES);

// Sends the same request with the same new idempotency key to all nodes at once, and repeats it at
// nodes that refuse it because the first one is still running.
async function atOnce(all, method, target, body, key) {
    const headers = { 'idempotency-key': key };
    return Promise.all(all.map(async (s) => {
        for (;;) {
            const answer = await s.ask(method, target, { body, headers });
            if (answer.json?.code !== 'request_in_progress') return answer;
            await pause();
        }
    }));
}

test('a request that two nodes get at once with the same key is done once', async (t) => {
    const all = await nodes(t, 2);
    const [a, b] = all;
    for (let i = 0; i < ROUNDS; i++) {
        const made = await atOnce(all, 'POST', '/api/v1/sessions', { title: `s${i}` }, `make-${i}`);
        assert.deepEqual(made.map((m) => m.code), [201, 201], made.map((m) => m.text).join());
        const id = made[0].json.session_id;
        assert.equal(made[1].json.session_id, id);
        const target = `/api/v1/sessions/${id}/messages`;
        const said = await atOnce(all, 'POST', target,
            { messages: [{ role: 'user', content: 'one' }, { role: 'assistant', content: 'two' }] }, `say-${i}`);
        assert.deepEqual(said.map((m) => m.code), [201, 201], said.map((m) => m.text).join());
        const kept = (await b.get(target)).json.messages;
        assert.deepEqual(kept.map((m) => m.content), ['one', 'two']);
        const forked = await atOnce(all, 'POST', `/api/v1/sessions/${id}/fork`, {}, `fork-${i}`);
        assert.equal(forked[0].json.session_id, forked[1].json.session_id, forked[0].text + forked[1].text);
    }
    assert.equal((await a.get('/api/v1/sessions?limit=100')).json.sessions.length, 2 * ROUNDS);
});

// Nothing about an undo shows that it was done before: without the key it undoes another mark.
test('an undo that two nodes get at once with the same key is done once', async (t) => {
    const all = await nodes(t, 2);
    const id = await all[0].session();
    const messages = Array.from({ length: ROUNDS + 2 }, (_, i) => ({ role: 'user', content: `m${i}` }));
    await all[0].post(`/api/v1/sessions/${id}/messages`, { messages });
    const count = async () => (await all[1].get(`/api/v1/sessions/${id}/messages`)).json.messages.length;
    for (let seq = ROUNDS + 1; seq > 0; seq--)
        assert.ok((await all[seq % 2].post(`/api/v1/sessions/${id}/rewind`, { to_seq: seq })).code < 300);
    for (let i = 0; i < ROUNDS; i++) {
        assert.equal(await count(), i + 1);
        const undone = await atOnce(all, 'POST', `/api/v1/sessions/${id}/undo`, {}, `undo-${i}`);
        assert.deepEqual(undone.map((m) => m.code), [200, 200], undone.map((m) => m.text).join());
        assert.deepEqual(undone[0].json, undone[1].json);
    }
    assert.equal(await count(), ROUNDS + 1);
});

test('a request that was refused can be repeated at another node', async (t) => {
    const [a, b] = await nodes(t, 2);
    const id = await a.session();
    const target = `/api/v1/sessions/${id}/messages`;
    const keyed = { headers: { 'idempotency-key': 'refused' } };
    const body = { messages: [{ role: 'user', content: 'two' }], expected_seq: 1 };
    assert.equal((await a.post(target, body, keyed)).code, 409);
    assert.equal((await b.post(target, body, keyed)).code, 409);
    assert.equal((await a.post(target, { messages: [{ role: 'user', content: 'one' }] })).code, 201);
    const done = await b.post(target, body, keyed);
    assert.equal(done.code, 201, done.text);
    const again = await a.post(target, body, keyed);
    assert.deepEqual([again.code, again.headers['idempotent-replayed']], [201, 'true'], again.text);
    assert.deepEqual((await a.get(target)).json.messages.map((m) => m.content), ['one', 'two']);
});

test('a turn that two nodes get at once with the same key is run once', async (t) => {
    const all = await nodes(t, 2);
    for (let i = 0; i < ROUNDS; i++) {
        const id = await all[0].session();
        const turns = await atOnce(all, 'POST', `/api/v1/sessions/${id}/turns`,
            { message: `<<say t${i}>><<hang ms=20>>`, lane: 'queue' }, `turn-${i}`);
        assert.deepEqual(turns.map(({ code, json }) => [code, json.state, json.text]),
            [[200, 'done', `t${i}`], [200, 'done', `t${i}`]], turns.map((m) => m.text).join());
        assert.equal(turns[0].json.turn_id, turns[1].json.turn_id);
        const kept = (await all[1].get(`/api/v1/sessions/${id}/messages`)).json.messages;
        assert.deepEqual(kept.map((m) => m.role), ['user', 'assistant']);
    }
    assert.equal((await all[0].asked()).length, ROUNDS);
});

const changed = async (s) => {
    s.child.kill('SIGHUP'); // the first key is otherwise noticed after a few seconds
    await s.logged(/reloaded the API keys/);
};

// Asks until the answer has this code. The keys of a node are at most 3 seconds old.
async function untilCode(s, key, code) {
    const since = Date.now();
    while ((await s.get('/api/v1/sessions', { key })).code !== code) await pause();
    return Date.now() - since;
}

test('a key that is created or revoked at one node counts at the others', async (t) => {
    const all = await nodes(t, 2);
    const [a, b] = all;
    const admin = keyOf(a.dir, '--role', 'admin');
    for (const s of all) await changed(s);
    const made = await a.post('/api/v1/keys', { role: 'write' }, { key: admin });
    assert.equal(made.code, 201, made.text);
    const known = await untilCode(b, made.json.key, 200);
    const revoked = await b.ask('DELETE', `/api/v1/keys/${made.json.id}`, { key: admin });
    assert.ok([200, 204].includes(revoked.code), revoked.text);
    assert.equal((await b.get('/api/v1/sessions', { key: made.json.key })).code, 401, 'at once here');
    const gone = await untilCode(a, made.json.key, 401);
    t.diagnostic(`known after ${known} ms, refused after ${gone} ms`);
});

// The sums are those of the store. Turns that run at the same time can exceed the budget, but
// after one of them has ended, each node sees what it used.
test('the budget of a key is used up at all nodes', async (t) => {
    const all = await nodes(t, 2);
    const [a, b] = all;
    const key = keyOf(a.dir, '--role', 'write', '--max-tokens', '60');
    for (const s of all) await changed(s);
    const made = await a.post('/api/v1/sessions', {}, { key });
    const target = `/api/v1/sessions/${made.json.session_id}/turns`;
    const codes = [];
    let used = 0;
    for (let i = 0; i < 40 && codes.at(-1) !== 429; i++) {
        const answer = await all[i % 2].post(target, { message: `<<say some words of answer ${i}>>` }, { key });
        codes.push(answer.code);
        if (answer.code === 429) assert.equal(answer.json.code, 'budget_exceeded');
        const sums = await Promise.all(all.map((s) => s.get('/api/v1/me', { key })));
        assert.deepEqual(sums[0].json.budget, sums[1].json.budget, 'both nodes know the same sum');
        used = sums[0].json.budget.used_tokens;
    }
    assert.equal(codes.at(-1), 429, `never refused: ${codes}`);
    assert.ok(codes.length > 1 && used >= 60, `${codes} ${used}`);
    for (const s of all) assert.equal((await s.post(target, { message: 'more' }, { key })).code, 429);
});

test('expired sessions are swept once, by one node in each interval', async (t) => {
    const all = await nodes(t, 3, 'expiry:\n  cleanup_interval: 1s\n');
    const ids = [];
    for (let i = 0; i < 12; i++) ids.push(await all[i % 3].session({ expires_in: 1 }));
    const kept = await all[0].session({ expires_in: 3600 });
    const swept = async () => {
        const counts = await Promise.all(all.map((s) => metric(s, 'palaver_sessions_expired_total')));
        return counts.reduce((sum, count) => sum + count, 0);
    };
    while (await swept() < ids.length) await pause(50);
    for (const id of ids) assert.equal((await all[1].get(`/api/v1/sessions/${id}`)).json?.state ?? 'gone', 'trash');
    assert.equal((await all[2].get(`/api/v1/sessions/${kept}`)).json.state, 'active');
    assert.equal(await swept(), ids.length, 'none was swept twice');
});

// More messages than a block of the search index has, so that a search reads the block and the rest.
test('a search at any node finds what was appended and lacks what was erased at others', async (t) => {
    const all = await nodes(t, 2);
    const [a, b] = all;
    const ids = [await a.session(), await b.session()];
    for (let i = 0; i < 12; i++) {
        const messages = Array.from({ length: 100 }, (_, j) => ({ role: 'user', content: `lamp n${i}x${j} of ${i % 2}` }));
        assert.equal((await all[i % 2].post(`/api/v1/sessions/${ids[i % 2]}/messages`, { messages })).code, 201);
    }
    const found = async (s, words) =>
        (await s.get(`/api/v1/search?q=${words}&limit=5`)).json.hits.map((h) => [h.session_id, h.seq]);
    for (const s of all) {
        assert.deepEqual(await found(s, 'n0x1'), [[ids[0], 2]]);
        assert.deepEqual(await found(s, 'n11x99'), [[ids[1], 600]]);
        assert.equal((await found(s, 'lamp')).length, 5);
    }
    assert.ok((await a.post(`/api/v1/sessions/${ids[1]}/erase`)).code < 300);
    for (const s of all) {
        assert.deepEqual(await found(s, 'n11x99'), []);
        assert.deepEqual(await found(s, 'n10x99'), [[ids[0], 600]]);
    }
});

test('messages that wait at a node that dies are answered by another', async (t) => {
    const [a, b] = await nodes(t, 2);
    const id = await a.session();
    const first = (await a.turn(id, { message: '<<say one>><<hang times=1>>', background: true })).json;
    await a.untilAsked(1);
    const wait = { lane: 'queue', background: true };
    const waiting = [];
    for (const text of ['two', 'three'])
        waiting.push((await a.turn(id, { message: `<<say ${text}>>`, ...wait })).json.turn_id);
    await a.untilQueued(2);
    await a.stop('SIGKILL');
    const since = Date.now();
    const texts = [];
    for (const turn of [first.turn_id, ...waiting]) {
        let json;
        while (json?.state !== 'done') {
            ({ json } = await b.get(`/api/v1/turns/${turn}`));
            await pause();
        }
        texts.push(json.text);
    }
    t.diagnostic(`all were answered ${Date.now() - since} ms after the kill`);
    assert.deepEqual(texts, ['one', 'two', 'three']);
    const kept = (await b.get(`/api/v1/sessions/${id}/messages`)).json.messages;
    assert.equal(kept.filter((m) => m.role === 'user').length, 3);
    assert.deepEqual(kept.filter((m) => m.role === 'assistant').map((m) => m.content), ['one', 'two', 'three']);
});

// `palaver chat` is a program on the store like a server, but no node: nothing can be passed on.
test('a turn of a program that is not a server can be read, but not changed', async (t) => {
    const [a, b] = await nodes(t, 2);
    const child = spawn(binary, ['chat', '--new', '--provider', 'openai', '--provider-url',
        `${a.model.url}/v1`, '--model', 'mock-model', ...storeArgs(), '<<say one>><<hang times=1>>'],
    { cwd: a.dir, env: environment({}), stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => { out += piece; });
    const ended = new Promise((resolve) => child.on('close', resolve));
    await a.untilAsked(1);
    const { session_id: id } = (await a.get('/api/v1/sessions')).json.sessions[0];
    const found = await b.get(`/api/v1/sessions/${id}/turn`);
    assert.equal(found.json.state, 'running', found.text);
    const turn = `/api/v1/turns/${found.json.turn_id}`;
    for (const s of [a, b]) {
        assert.equal((await s.get(turn)).json.state, 'running');
        const events = await s.get(`${turn}/events`);
        assertError(events, 409, 'turn_elsewhere');
        assert.ok(Number(events.headers['retry-after']) > 0);
        assertError(await s.post(`${turn}/cancel`), 409, 'turn_elsewhere');
    }
    await a.release();
    assert.equal(await ended, 0);
    assert.match(out, /one/);
    const done = await b.get(turn);
    assert.deepEqual([done.json.state, done.json.text], ['done', 'one'], done.text);
});

const shim = process.env.CLOCK_SHIFT; // the library that replaces clock_gettime()

test('nodes whose clocks differ by minutes work together', { skip: !isPostgres || !shim }, async (t) => {
    const [a] = await nodes(t, 1, 'expiry:\n  cleanup_interval: 1s\n');
    const wrong = (ms) => start(t, { dir: a.dir, model: a.model, config: undefined,
        env: { LD_PRELOAD: shim, CLOCK_SHIFT_MS: String(ms) } });
    const all = [a, await wrong(5 * 60000), await wrong(-5 * 60000)];
    while (await metric(a, 'palaver_nodes{state="running"}') < 3) await pause();
    // Each runs a turn for longer than its lease (2 s), and no other node takes it.
    const turns = await Promise.all(all.map(async (s, i) => {
        const id = await s.session({ expires_in: 60 });
        return s.turn(id, { message: `<<say t${i}>><<hang ms=5000>>` });
    }));
    assert.deepEqual(turns.map(({ json }) => [json.state, json.text]),
        [['done', 't0'], ['done', 't1'], ['done', 't2']]);
    assert.equal((await a.asked()).length, 3, 'no turn was run twice');
    for (const { json } of turns)
        for (const s of all)
            assert.equal((await s.get(`/api/v1/sessions/${json.session_id}`)).json.state, 'active');
    // A node that dies is replaced, whatever its clock.
    for (const i of [1, 2]) {
        const id = await all[i].session();
        const asked = (await a.asked()).length;
        const { json } = await all[i].turn(id, { message: `<<say d${i}>><<hang times=1>>`, background: true });
        await a.untilAsked(asked + 1);
        await all[i].stop('SIGKILL');
        await a.untilAsked(asked + 2);
        let state;
        while (state !== 'done') ({ json: { state } } = await a.get(`/api/v1/turns/${json.turn_id}`));
    }
});
