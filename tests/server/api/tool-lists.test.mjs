// Items of type mcp_list_tools: responses begin with the tools of the servers that a request names.
import test from 'node:test';
import assert from 'node:assert/strict';
import { open } from '../model.mjs';
import { program, serveTools } from '../tools.mjs';
import { isLast, openSocket } from '../websocket_client.mjs';

const bounded = { timeout: 20_000 };
const stores = { memory: { args: ['--store', 'memory:'] }, sqlite: {} };
const fx = { type: 'mcp', server_label: 'fx' };
const input_schema = { type: 'object' };
const listed = [{ name: 'add', description: 'Adds numbers.', input_schema, annotations: { read_only: true } },
    { name: 'write', description: null, input_schema, annotations: { read_only: false } },
    { name: 'fail', description: null, input_schema, annotations: { read_only: false } }];
const create = async (s, body) => {
    const { code, json, text } = await s.post('/v1/responses', { model: 'mock-model', tools: [fx], input: '<<say ok>>', ...body });
    assert.equal(code, 200, text);
    return json;
};
const types = (output) => output.map((item) => item.type);
const hasList = ({ output }) => output.some((item) => item.type === 'mcp_list_tools');
const events = async (s, method, target, body) =>
    (await (await open(s.port, method, target, { body })).end()).map(({ data }) => data);

for (const [store, options] of Object.entries(stores)) {
    test(`${store}: a chain of responses lists a server once`, bounded, async (t) => {
        const s = await serveTools(t, '', options);
        const first = await create(s);
        assert.deepEqual(types(first.output), ['mcp_list_tools', 'message']);
        const [list] = first.output;
        assert.match(list.id, /^mcpl_/);
        assert.deepEqual({ ...list, id: '' }, { id: '', type: 'mcp_list_tools', server_label: 'fx', tools: listed, error: null });
        assert.deepEqual((await s.get(`/v1/responses/${first.id}`)).json.output, first.output);
        const next = await create(s, { previous_response_id: first.id });
        const bare = await create(s, { previous_response_id: next.id, tools: [] });
        const last = await create(s, { previous_response_id: bare.id });
        assert.deepEqual([next, bare, last].map(hasList), [false, false, false]);
        const branch = await create(s, { previous_response_id: first.id });
        assert.deepEqual(types(branch.output), ['message']);
        assert.deepEqual((await s.asked()).at(-1).messages.map((m) => m.role), ['user', 'assistant', 'user'], 'no model gets the list');
        assert.ok(hasList(await create(s)), 'another chain');
        // Without a named server there is no list, although the model is offered the tools.
        assert.equal(hasList(await create(s, { tools: undefined })), false);
    });

    test(`${store}: a conversation lists a server once, also after a crash`, bounded, async (t) => {
        const s = await serveTools(t, '', options);
        const { id: conversation } = (await s.post('/v1/conversations', {})).json;
        const failed = await s.post('/v1/responses', { model: 'mock-model', tools: [fx], conversation, input: '<<fail status=500>>' });
        assert.equal(failed.code, 500);
        assert.ok(hasList(await create(s, { conversation })), 'the first one failed, so nothing was listed');
        assert.equal(hasList(await create(s, { conversation })), false);
        if (store === 'memory') return;
        await s.stop('SIGKILL');
        const again = await serveTools(t, '', { dir: s.dir, model: s.model });
        assert.equal(hasList(await create(again, { conversation })), false);
        const items = (await again.get(`/v1/conversations/${conversation}/items?order=asc`)).json.data;
        assert.deepEqual(new Set(types(items)), new Set(['message']));
        const { id: other } = (await again.post('/v1/conversations', {})).json;
        assert.ok(hasList(await create(again, { conversation: other })));
    });

    test(`${store}: a list in the input counts`, bounded, async (t) => {
        const s = await serveTools(t, '', options);
        const user = { role: 'user', content: '<<say ok>>' };
        const first = await create(s, { store: false, input: [user] });
        assert.deepEqual(types(first.output), ['mcp_list_tools', 'message']);
        const next = await create(s, { store: false, input: [user, ...first.output, user] });
        assert.deepEqual(types(next.output), ['message']);
        const stored = await create(s, { input: [first.output[0], user] });
        assert.equal(hasList(stored), false);
        assert.equal(hasList(await create(s, { previous_response_id: stored.id })), false);
        const reference = { type: 'item_reference', id: first.output[0].id };
        assert.equal((await create(s, { input: [reference, user] })).status, 'completed');
    });
}

test('the stream has the events of a list, and a replay has the same ones', bounded, async (t) => {
    const s = await serveTools(t);
    const body = { model: 'mock-model', tools: [fx], stream: true };
    const told = await events(s, 'POST', '/v1/responses', { ...body, input: '<<say Hello there.>><<tool fx__add {}>><<next>><<say ok>>' });
    const { response } = told.at(-1);
    const [list] = response.output;
    const about = told.filter((e) => e.output_index === 0);
    assert.deepEqual(about.map((e) => e.type), ['response.output_item.added', 'response.mcp_list_tools.in_progress',
        'response.mcp_list_tools.completed', 'response.output_item.done']);
    assert.deepEqual(about[0].item, { ...list, tools: [] });
    assert.deepEqual(about[1], { type: about[1].type, sequence_number: 3, item_id: list.id, output_index: 0 });
    assert.deepEqual(about[3].item, list);
    assert.deepEqual(types(response.output), ['mcp_list_tools', 'message', 'mcp_call', 'message']);
    assert.deepEqual(await events(s, 'GET', `/v1/responses/${response.id}?stream=true`), told);
    assert.deepEqual(await events(s, 'GET', `/v1/responses/${response.id}?stream=true&starting_after=3`), told.slice(4));
    assert.deepEqual((await s.get(`/v1/responses/${response.id}`)).json.output, response.output);

    const asked = await events(s, 'POST', '/v1/responses', { ...body, input: '<<tool fx__write {}>><<next>><<say ok>>' });
    assert.deepEqual(types(asked.at(-1).response.output), ['mcp_list_tools', 'mcp_approval_request']);
    assert.deepEqual(await events(s, 'GET', `/v1/responses/${asked.at(-1).response.id}?stream=true`), asked);
});

test('a background response and a WebSocket have lists', bounded, async (t) => {
    const s = await serveTools(t);
    let { id, status, output } = await create(s, { background: true });
    while (status !== 'completed') ({ status, output } = (await s.get(`/v1/responses/${id}`)).json);
    assert.deepEqual(types(output), ['mcp_list_tools', 'message']);
    const socket = await openSocket(s.port);
    const ended = async (body) => {
        socket.send({ type: 'response.create', model: 'mock-model', tools: [fx], input: '<<say ok>>', ...body });
        for (;;) {
            const event = await socket.next();
            if (isLast(event)) return event.response;
        }
    };
    for (const store of [true, false]) {
        const first = await ended({ store });
        assert.ok(hasList(first));
        assert.equal(hasList(await ended({ store, previous_response_id: first.id })), false);
    }
    socket.close();
    await socket.end;
});

test('a list has only allowed tools, and an error if the server does not start', bounded, async (t) => {
    const s = await serveTools(t, '  - {name: dead, command: ["false"]}\n');
    const [list] = (await create(s, { tools: [{ ...fx, allowed_tools: { read_only: true } }] })).output;
    assert.deepEqual(list.tools, listed.slice(0, 1));
    const dead = { type: 'mcp', server_label: 'dead' };
    const first = await create(s, { tools: [fx, dead, fx] });
    assert.deepEqual(first.output.map((i) => i.server_label), ['fx', 'dead', undefined]);
    assert.deepEqual(first.output[1].tools, []);
    assert.match(first.output[1].error, /not listed its tools/);
    assert.notEqual(first.output[0].id, first.output[1].id);
    const next = await create(s, { tools: [fx, dead], previous_response_id: first.id });
    assert.deepEqual(next.output.map((i) => i.server_label), ['dead', undefined], 'only a complete list counts');
    const told = await events(s, 'POST', '/v1/responses', { model: 'mock-model', tools: [dead], stream: true, input: '<<say ok>>' });
    assert.ok(told.some((e) => e.type === 'response.mcp_list_tools.failed'));
});

test('a list waits for a server that starts, and is not longer than its limit', bounded, async (t) => {
    const slow = JSON.stringify(['sh', '-c', `sleep 1; exec ${process.execPath} ${program} /dev/null`]);
    const long = JSON.stringify([process.execPath, program, '/dev/null', String(1 << 20)]);
    const s = await serveTools(t, `  - {name: slow, command: ${slow}}\n  - {name: long, command: ${long}}\n`
        + 'models: [{name: mock-model, context: 1000000000}]\n');
    const { output } = await create(s, { tools: ['slow', 'long', 'fx'].map((server_label) => ({ type: 'mcp', server_label })) });
    assert.deepEqual(output.slice(0, 3).map((i) => [i.server_label, i.tools.length, i.error]),
        [['slow', 3, null], ['long', 0, 'the list of tools is too long'], ['fx', 3, null]]);
});

test('a list does not contain tools that the configuration denies', bounded, async (t) => {
    const s = await serveTools(t, 'permissions:\n  - {tool: fx__write, do: deny}\n  - {tool: fx__fail, do: ask}\n');
    const names = async (tool) => (await create(s, { tools: [tool] })).output[0].tools.map(({ name }) => name);
    assert.deepEqual(await names(fx), ['add', 'fail']);
    assert.deepEqual(await names({ ...fx, allowed_tools: ['add', 'write'] }), ['add']);
    assert.deepEqual((await s.asked())[0].tools.map((tool) => tool.function.name), ['fx__add', 'fx__fail'], 'as the model sees it');
    const { tools } = (await s.get('/api/v1/tools')).json;
    assert.deepEqual(tools.filter(({ server }) => server).map(({ name, permission }) => [name, permission]),
        [['fx__add', 'allow'], ['fx__write', 'deny'], ['fx__fail', 'ask']]);
});
