// The limit of sessions per tenant.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError, makeKey, serve, workspace } from '../support.mjs';

const config = 'limits: {sessions_per_tenant: 5}\n';

for (const store of ['sqlite:a.db', 'jsonl:sessions', 'memory:'])
    test(`a tenant cannot have more sessions than its limit (${store})`, async (t) => {
        const s = await serve(t, { config, args: ['--store', store] });
        const made = await Promise.all([...Array(20).keys()].map((i) =>
            s.post('/api/v1/sessions', { key: `k${i}` })));
        assert.deepEqual(made.map((a) => a.code).sort(),
            [...Array(5).fill(201), ...Array(15).fill(429)]);
        const full = made.find((a) => a.code === 429);
        assertError(full, 429, 'budget_exceeded',
            /^tenant 'default' has 5 sessions, which is the limit; delete one first$/);
        // Every other way to create a session fails in the same way. Existing sessions keep
        // working.
        const { session_id: id } = made.find((a) => a.code === 201).json;
        for (const [path, body] of [['chat', { message: 'hi' }], [`sessions/${id}/fork`, {}],
            ['conversations', { project_id: 'p', bead_id: 'b' }],
            ['inbound', { message: 'x', context: { channel: 'c', chat_id: '1', sender_id: '2' } }]])
            assert.equal((await s.post(`/api/v1/${path}`, body)).code, 429, path);
        assert.equal((await s.post('/v1/conversations', {})).code, 429);
        assert.equal((await s.post(`/api/v1/sessions/${id}/turns`, { message: 'hi' })).code, 200);
        assert.equal((await s.post('/api/v1/chat', { message: 'on', session_id: id })).code, 200);
        const known = made.find((a) => a.code === 201).json.key;
        assert.equal((await s.post('/api/v1/sessions', { key: known, or_find: true })).code, 200);
        // A session in the trash makes room, and can be restored only if there is room again.
        assert.equal((await s.ask('DELETE', `/api/v1/sessions/${id}`)).code, 200);
        assert.equal((await s.post('/api/v1/sessions', { expires_in: 1 })).code, 201);
        assert.equal((await s.post('/api/v1/sessions', {})).code, 429);
        assertError(await s.post(`/api/v1/sessions/${id}/restore`, {}), 429, 'budget_exceeded', /which is the limit/);
        assert.equal((await s.get(`/api/v1/sessions?state=trash`)).json.sessions.length, 1);
        // An expired session makes room before it is swept.
        while ((await s.post('/api/v1/sessions', {})).code === 429)
            await new Promise((resolve) => setTimeout(resolve, 20));
        const { json: page } = await s.get('/api/v1/sessions');
        const other = page.sessions.find((one) => one.session_id !== id).session_id;
        assert.equal((await s.ask('DELETE', `/api/v1/sessions/${other}`)).code, 200);
        assert.equal((await s.post(`/api/v1/sessions/${id}/restore`, {})).code, 200);
        assert.equal((await s.post(`/api/v1/sessions/${other}/restore`, {})).code, 429);
    });

test('each tenant has a separate limit', async (t) => {
    const dir = workspace(t);
    const keys = ['one', 'two'].map((tenant) => makeKey(dir, '--tenant', tenant).key);
    const s = await serve(t, { dir, config });
    for (const key of keys) {
        for (let i = 0; i < 5; i++)
            assert.equal((await s.post('/api/v1/sessions', {}, { key })).code, 201);
        assert.equal((await s.post('/api/v1/sessions', {}, { key })).code, 429);
    }
});
