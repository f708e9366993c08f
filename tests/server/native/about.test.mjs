// What a client can ask about itself and the server: the caller, models, tools, agents, numbers.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError, makeKey, serve, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

test('an open server says so', async (t) => {
    const s = await serve(t);
    const { json } = await s.get('/api/v1/me');
    assert.equal(json.open, true);
    assert.equal(json.tenant, 'default');
    assert.equal(json.role, 'admin');
    assert.equal(json.key_id, null);
    assert.equal(json.budget, null);
    assert.deepEqual(json.model, { endpoint: 'echo', model: 'echo', is_stopgap: false });
    assert.ok(json.features.includes('events'));
    assertError(await s.get('/api/v1/me?x=1'), 400, 'invalid', /'x'/);
});

test('a key sees its tenant, role, label and budget', async (t) => {
    const dir = workspace(t);
    const admin = makeKey(dir, '--role', 'admin', '--tenant', 'one').key;
    const s = await serveModel(t, { dir });
    const made = (await s.post('/api/v1/keys', { tenant: 'two', role: 'write', label: 'laptop',
        budget: { tokens: 100000, period: 'month' } }, { key: admin })).json;
    const me = async (key, headers) => (await s.get('/api/v1/me', { key, headers })).json;
    const mine = await me(made.key);
    assert.deepEqual([mine.open, mine.tenant, mine.role, mine.key_id, mine.label],
        [false, 'two', 'write', made.id, 'laptop']);
    assert.equal(mine.budget.tokens, 100000);
    assert.equal(mine.budget.used_tokens, 0);
    assert.equal(mine.budget.period, 'month');
    const reset = new Date(mine.budget.resets_at);
    assert.ok(reset > new Date());
    assert.equal(reset.getUTCDate(), 1);
    assert.ok(reset - new Date() < 32 * 86400e3);
    const id = (await s.post('/api/v1/sessions', {}, { key: made.key })).json.id;
    const turn = await s.turn(id, { message: 'x' }, { key: made.key });
    assert.equal(turn.code, 200, turn.text);
    const { usage } = turn.json;
    let used = 0;
    while (!used) used = (await me(made.key)).budget.used_tokens;
    assert.equal(used, usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens +
        usage.output_tokens);
    assert.equal((await me(admin)).tenant, 'one');
    assert.equal((await me(admin, { 'x-palaver-tenant': 'two' })).tenant, 'two');
    assert.equal((await me(admin)).budget, null);
    assertError(await s.get('/api/v1/me'), 401, 'unauthorized');
    assertError(await s.get('/api/v1/stats', { key: made.key }), 403, 'forbidden');
});

test('models have limits and prices, the default first', async (t) => {
    const s = await serveModel(t, { config: `
models:
  - name: mock-model
    context: 12000
    output: 1000
    price: {input: 2.5, output: 10}
` });
    const { models } = (await s.get('/api/v1/models')).json;
    assert.equal(models[0].model, 'mock-model');
    assert.equal(models[0].is_default, true);
    assert.equal(models[0].context, 12000);
    assert.equal(models[0].output, 1000);
    assert.equal(models[0].price.input, 2500000);
    assert.equal(models[0].price.output, 10000000);
    assert.ok(models.slice(1).every((m) => !m.is_default));
    assert.equal(new Set(models.map((m) => `${m.endpoint} ${m.model}`)).size, models.length);
});

test('tools, tool servers and agents', async (t) => {
    const s = await serve(t, { config: `
mcp_servers:
  - name: gone
    command: [/nonexistent/server]
agents:
  - id: helper
    model: m1
    system: a secret instruction
    tools: [search_output, recall]
permissions:
  - {tool: rec*, do: ask}
` });
    const { tools, servers } = (await s.get('/api/v1/tools')).json;
    const recall = tools.find((tool) => tool.name === 'recall');
    assert.ok(recall.tokens > 0 && recall.description && recall.server === null);
    assert.deepEqual(tools.map(({ name, permission }) => [name, permission]),
        [['read_output', 'deny'], ['search_output', 'allow'], ['recall', 'ask']]);
    assert.equal(servers.length, 1);
    assert.equal(servers[0].server, 'gone');
    let state = servers[0];
    while (state.state === 'starting') [state] = (await s.get('/api/v1/tools')).json.servers;
    assert.match(state.state, /^(restarting|failed)$/);
    assert.notEqual(state.reason, '');
    const agents = await s.get('/api/v1/agents');
    assert.deepEqual(agents.json.agents,
        [{ name: 'helper', endpoint: null, model: 'm1', is_default: true }]);
    assert.ok(!agents.text.includes('secret'));
});

test('stats count what is stored and run', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    await s.turn(id, { message: 'x' });
    const { json } = await s.get('/api/v1/stats');
    assert.equal(json.store.sessions_active, 1);
    assert.equal(json.store.messages, 2);
    assert.equal(json.turns.model_calls, 1);
    assert.ok(new Date(json.started_at) <= new Date());
});
