// Keys: which requests a key allows, for which tenant and how often. Keys are created and revoked
// by the command and over HTTP.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError, makeKey, palaver, serve, workspace } from '../support.mjs';

test('the first key closes the server to requests without a key', async (t) => {
    const dir = workspace(t);
    const s = await serve(t, { dir });
    assert.equal((await s.get('/api/v1/keys')).code, 200);
    const made = await s.post('/api/v1/keys', { role: 'admin', label: 'first' });
    assert.equal(made.code, 201, made.text);
    assert.match(made.json.key, /^pk_[0-9a-f]{64}$/);
    assert.match(made.json.id, /^key_[0-9a-f]{16}$/);
    const none = await s.get('/api/v1/keys');
    assertError(none, 401, 'unauthorized', /this server requires an API key/);
    assert.equal(none.headers['www-authenticate'], 'Bearer');
    const list = await s.get('/api/v1/keys', { key: made.json.key });
    assert.equal(list.code, 200);
    assert.deepEqual(list.json.keys.map((key) => [key.id, key.role, key.label]),
        [[made.json.id, 'admin', 'first']]);
    assert.ok(!list.text.includes(made.json.key), 'the secret is nowhere kept');
    for (const open of ['/healthz', '/readyz', '/api/v1/health', '/openapi.json'])
        assert.equal((await s.get(open)).code, 200, open);
});

test('a key that another process creates is accepted within seconds', async (t) => {
    const dir = workspace(t);
    const s = await serve(t, { dir });
    assert.equal((await s.get('/api/v1/keys')).code, 200);
    const { key, id } = makeKey(dir, '--role', 'admin');
    const until = async (code, options) => {
        for (;;) {
            const answer = await s.get('/api/v1/keys', options);
            if (answer.code === code) return answer;
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
    };
    await until(401, {});
    assert.equal((await s.get('/api/v1/keys', { key })).code, 200);
    palaver(dir, 'key', 'revoke', id);
    const gone = await until(401, { key });
    assertError(gone, 401, 'unauthorized', /was revoked/);
});

test('an invalid key is refused', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'admin');
    const s = await serve(t, { dir });
    const as = (headers) => s.get('/api/v1/keys', { headers });
    assert.equal((await as({ authorization: `bearer  ${key}` })).code, 200);
    assert.equal((await as({ 'x-api-key': key })).code, 200);
    for (const wrong of [`${key}0`, key.slice(0, -1), key.toUpperCase(), 'pk_', 'x', `${key} x`])
        assertError(await as({ authorization: `Bearer ${wrong}` }), 401, 'unauthorized',
            /the API key is not known/);
    assertError(await as({ authorization: `Basic ${key}` }), 401, 'unauthorized', /requires/);
    assertError(await as({ authorization: 'Bearer ' }), 401, 'unauthorized', /requires an API/);
});

test('each role allows its operations: read, write, admin', async (t) => {
    const dir = workspace(t);
    const keys = Object.fromEntries(['read', 'write', 'admin']
        .map((role) => [role, makeKey(dir, '--role', role).key]));
    const s = await serve(t, { dir });
    for (const role of ['read', 'write']) {
        assertError(await s.get('/api/v1/keys', { key: keys[role] }), 403, 'forbidden',
            new RegExp(`role 'admin' is required; the key has role '${role}'`));
        assert.equal((await s.get('/metrics', { key: keys[role] })).code, 403);
    }
    assert.equal((await s.get('/metrics', { key: keys.admin })).code, 200);
    assertError(await s.get('/metrics'), 401, 'unauthorized');
});

test('only an admin can name other tenants', async (t) => {
    const dir = workspace(t);
    const admin = makeKey(dir, '--role', 'admin').key;
    const s = await serve(t, { dir });
    const as = (tenant, key = admin) => s.post('/api/v1/keys', { role: 'admin' },
        { key, headers: { 'x-palaver-tenant': tenant } });
    const made = await as('acme');
    assert.equal(made.json.tenant, 'acme', 'a key is made for the tenant of the caller');
    for (const bad of ['\x01palaver', 'a\x7fb', 'x'.repeat(129)]) {
        const answer = await as(Buffer.from(bad).toString('latin1')).catch(() => null);
        if (answer) assert.ok(answer.code >= 400, bad);
    }
    const inside = await s.post('/api/v1/keys', { tenant: '\x01palaver' }, { key: admin });
    assertError(inside, 400, 'invalid', /control character/);
});

test('keys are listed page by page', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'admin');
    const s = await serve(t, { dir });
    const made = new Set();
    for (let i = 0; i < 6; i++)
        made.add((await s.post('/api/v1/keys', { label: `k${i}` }, { key })).json.id);
    const seen = [];
    let cursor = '';
    do {
        const { json } = await s.get(`/api/v1/keys?limit=3${cursor && `&cursor=${cursor}`}`, { key });
        seen.push(...json.keys.map((each) => each.id));
        assert.equal(json.has_more, json.cursor !== null);
        cursor = json.cursor;
    } while (cursor);
    assert.equal(seen.length, 7);
    assert.equal(new Set(seen).size, 7);
    for (const id of made) assert.ok(seen.includes(id));
});

test('a revoked key is refused immediately and for good', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'admin');
    const s = await serve(t, { dir });
    const other = (await s.post('/api/v1/keys', { role: 'admin' }, { key })).json;
    assert.equal((await s.get('/api/v1/keys', { key: other.key })).code, 200);
    const revoked = await s.ask('DELETE', `/api/v1/keys/${other.id}`, { key });
    assert.equal(revoked.code, 200);
    assert.ok(revoked.json.revoked_at);
    assertError(await s.get('/api/v1/keys', { key: other.key }), 401, 'unauthorized', /revoked/);
    const again = await s.ask('DELETE', `/api/v1/keys/${other.id}`, { key });
    assert.deepEqual([again.code, again.json.revoked_at], [200, revoked.json.revoked_at]);
    assertError(await s.ask('DELETE', '/api/v1/keys/key_0000000000000000', { key }), 404,
        'not_found', /does not exist/);
    assertError(await s.ask('DELETE', '/api/v1/keys/x', { key }), 404, 'not_found', /does not exist/);
});

test('a key can have its own limit of requests per minute', async (t) => {
    const dir = workspace(t);
    const slow = makeKey(dir, '--role', 'admin', '--rate', '3').key;
    const fast = makeKey(dir, '--role', 'admin').key;
    const s = await serve(t, { dir, config: 'server:\n  requests_per_minute: 0\n' });
    const codes = [];
    let refused;
    for (let i = 0; i < 5; i++) {
        const answer = await s.get('/api/v1/keys', { key: slow });
        codes.push(answer.code);
        if (answer.code === 429) refused = answer;
    }
    assert.deepEqual(codes.slice(0, 3), [200, 200, 200]);
    assert.ok(codes.slice(3).includes(429));
    assertError(refused, 429, 'rate_limited', /rate limit of 3 requests per minute exceeded/);
    const wait = Number(refused.headers['retry-after']);
    assert.ok(wait >= 1 && wait <= 20, `retry-after ${wait}`);
    assert.equal((await s.get('/api/v1/keys', { key: fast })).code, 200);
    assert.equal((await s.get('/healthz')).code, 200);
});

test('a used-up budget is not reported as a size limit, in every API', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--max-tokens', '1');
    const s = await serve(t, { dir });
    const { id } = (await s.post('/api/v1/sessions', {}, { key })).json;
    const turn = (input) => s.post(`/api/v1/sessions/${id}/turns`, { message: input }, { key });
    const used = await turn('a');
    assert.equal(used.code, 200, used.text);
    const over = await turn('b');
    assert.equal(over.json.turn.state, 'failed');
    delete over.json.turn;
    assertError(over, 429, 'budget_exceeded', /budget of the tenant is used up: \d+ of 1 tokens/);
    assert.equal(over.headers['retry-after'], undefined);

    const chat = { messages: [{ role: 'user', content: 'c' }] };
    const headers = { 'x-palaver-session': 'chat' };
    for (const answer of [await s.post('/v1/responses', { input: 'c', model: 'echo' }, { key }),
        await s.post('/v1/chat/completions', chat, { key, headers })]) {
        assert.equal(answer.code, 429, answer.text);
        assert.deepEqual([answer.json.error.type, answer.json.error.code],
            ['insufficient_quota', 'insufficient_quota']);
        assert.equal(answer.headers['x-should-retry'], 'false');
    }
    const streamed = await s.post('/v1/chat/completions', { ...chat, stream: true },
        { key, headers });
    assert.match(streamed.text, /"code":"insufficient_quota"/);
    const response = await s.post('/v1/responses', { input: 'c', model: 'echo', stream: true },
        { key });
    assert.match(response.text, /"code":"rate_limit_exceeded","message":"the budget/);

    const mistral = await s.post('/mistral/v1/conversations', { inputs: 'c', model: 'echo' },
        { key });
    assert.equal(mistral.code, 429, mistral.text);
    assert.deepEqual([mistral.json.type, mistral.json.code], ['rate_limited', 'budget_exceeded']);
    assert.equal(mistral.headers['retry-after'], undefined);
    const skillian = await s.post('/api/v1/chat', { message: 'c' }, { key });
    delete skillian.json.turn;
    assertError(skillian, 429, 'budget_exceeded', /budget of the tenant is used up/);
});

test('the command lists keys without their secrets', async (t) => {
    const dir = workspace(t);
    const { key, id } = makeKey(dir, '--tenant', 'acme', '--role', 'read', '--label', 'a laptop',
        '--max-tokens', '1000', '--max-cost', '2.50', '--period', 'month', '--rate', '60');
    const [listed] = JSON.parse(palaver(dir, 'key', 'list', '--json'));
    assert.deepEqual([listed.id, listed.tenant, listed.role, listed.label],
        [id, 'acme', 'read', 'a laptop']);
    assert.deepEqual(listed.budget, { tokens: 1000, cost_micros: 2500000, period: 'month' });
    assert.equal(listed.requests_per_minute, 60);
    assert.ok(!('key' in listed));
    const table = palaver(dir, 'key', 'list');
    assert.match(table, /^ID +TENANT +ROLE +CREATED/);
    assert.ok(!table.includes(key));
    assert.match(palaver(dir, 'key', 'create'), /^pk_[0-9a-f]{64}\n$/);
    assert.match(palaver(dir, 'key', 'revoke', id), new RegExp(`^revoked ${id}\n$`));
    const store = (await import('node:fs')).readFileSync(`${dir}/palaver-data/palaver.db`);
    assert.ok(!store.includes(key.slice(3)), 'not in the file either');
});

test('the day of the last use of a key is stored', async (t) => {
    const dir = workspace(t);
    const { key, id } = makeKey(dir, '--role', 'admin');
    const unused = makeKey(dir).id;
    const s = await serve(t, { dir });
    const before = new Date().toISOString().slice(0, 10);
    await s.get('/api/v1/keys', { key });
    await s.stop();
    const after = new Date().toISOString().slice(0, 10);
    const used = Object.fromEntries(JSON.parse(palaver(dir, 'key', 'list', '--json'))
        .map((each) => [each.id, each.used_on]));
    assert.ok([before, after].includes(used[id]), used[id]);
    assert.equal(used[unused], null);
});
