// Which tools of MCP servers run for clients of the APIs, and how clients are asked. A tool server
// writes each call into a file.
import test from 'node:test';
import assert from 'node:assert/strict';
import { MockResponses } from '../../conformance/mock-responses.mjs';
import { open } from '../model.mjs';
import { serveTools as serve } from '../tools.mjs';

const bounded = { timeout: 60_000 };

const allow = 'permissions: [{tool: "fx__*", do: allow}]\n';
const call = (tool, args = '{"a":2}') => `<<tool fx__${tool} ${args}>>`;

// ---- The native API ----

test('a turn asks about several calls at once, and the client answers them', bounded, async (t) => {
    const s = await serve(t);
    const id = await s.session();
    const asks = (await s.turn(id, { message: `${call('write', '{"n":1}')}${call('write', '{"n":2}')}${call('add')}<<next>><<say ok>>` })).json;
    assert.equal(asks.state, 'asking');
    assert.deepEqual(asks.questions.map((q) => [q.kind, q.name, q.server, q.arguments]),
        [['approval', 'fx__write', 'fx', '{"n":1}'], ['approval', 'fx__write', 'fx', '{"n":2}']]);
    assert.deepEqual(s.notes(), ['add']);
    const [first, second] = asks.questions.map((q) => q.call_id);
    const approve = (body) => s.post(`/api/v1/turns/${asks.turn_id}/approve`, body);
    assert.equal((await approve({ answers: [{ call_id: first, allow: true }] })).code, 400, 'one is missing');
    assert.equal((await approve({ answers: [{ call_id: 'other', allow: true }], allow: false })).code, 400);
    assert.equal((await approve({})).code, 400);
    const seen = (await s.get(`/api/v1/turns/${asks.turn_id}`)).json;
    assert.deepEqual(seen.questions, asks.questions);
    assert.equal((await approve({ allow: false, answers: [{ call_id: second, allow: true, remember: 'session' }] })).code, 200);
    while ((await s.get(`/api/v1/turns/${asks.turn_id}`)).json.state !== 'done')
        await new Promise((resolve) => setTimeout(resolve, 10));
    assert.deepEqual(s.notes(), ['add', 'write']);
    const remembered = (await s.get(`/api/v1/sessions/${id}/permissions`)).json.permissions;
    assert.deepEqual(remembered.map((p) => [p.tool, p.do]), [['fx__write', 'allow']]);
    const again = (await s.turn(id, { message: `${call('write')}<<next>><<say two>>` })).json;
    assert.deepEqual([again.state, again.text], ['done', 'two']);
    assert.equal((await s.ask('DELETE', `/api/v1/sessions/${id}/permissions/fx__write`)).code, 200);
    assert.equal((await s.ask('DELETE', `/api/v1/sessions/${id}/permissions/fx__write`)).code, 404);
    assert.equal((await s.turn(id, { message: `${call('write')}<<next>><<say three>>` })).json.state, 'asking');
});

test('a session can only restrict', bounded, async (t) => {
    const s = await serve(t, 'permissions: [{tool: fx__fail, do: deny}, {tool: "fx__*", do: allow}]\n');
    const open = (permissions) => s.post('/api/v1/sessions', { metadata: { turn: { permissions } } });
    const loose = (await open([{ tool: '*', do: 'allow' }])).json.session_id;
    await s.turn(loose, { message: `${call('fail')}<<next>><<say x>>` });
    const strict = (await open([{ tool: 'fx__write', do: 'deny' }])).json.session_id;
    await s.turn(strict, { message: `${call('write')}<<next>><<say x>>` });
    assert.deepEqual(s.notes(), []);
    assert.equal((await s.turn(loose, { message: `${call('write')}<<next>><<say y>>` })).json.state, 'done');
    assert.deepEqual(s.notes(), ['write']);
});

test('a Mistral conversation confirms several calls; without a store, no approval is requested', bounded, async (t) => {
    const s = await serve(t);
    const inputs = `${call('write', '{"n":1}')}${call('write', '{"n":2}')}<<next>><<say over>>`;
    const begun = (await s.post('/mistral/v1/conversations', { model: 'mock-model', inputs })).json;
    const pending = begun.outputs.filter((entry) => entry.confirmation_status === 'pending');
    assert.deepEqual(pending.map((entry) => entry.arguments), ['{"n":1}', '{"n":2}']);
    const confirm = (list) => s.post(`/mistral/v1/conversations/${begun.conversation_id}`, { tool_confirmations:
        list.map(([at, confirmation]) => ({ tool_call_id: pending[at].tool_call_id, confirmation })) });
    assert.match((await confirm([[0, 'allow']])).json.detail[0].msg, /must name each call/);
    assert.deepEqual(s.notes(), []);
    const ended = await confirm([[0, 'deny'], [1, 'allow']]);
    assert.equal(ended.json.outputs.at(-1).content, 'over');
    assert.deepEqual(s.notes(), ['write']);
    const passing = (await s.post('/mistral/v1/conversations', { model: 'mock-model', inputs, store: false })).json;
    assert.equal(passing.outputs.at(-1).content, 'over');
    assert.deepEqual(s.notes(), ['write'], 'the calls were not run');
});

// ---- Clients that cannot be asked ----

test('a chat client gets the rule as the result, unless the server allows it', bounded, async (t) => {
    for (const [rules, ran] of [['', []], ['turn: {allow_unasked: true}\n', ['write']], [allow, ['write']]]) {
        const s = await serve(t, rules);
        const { json } = await s.post('/v1/chat/completions',
            { model: 'mock-model', messages: [{ role: 'user', content: `${call('write')}<<next>><<say ok>>` }] },
            { headers: { 'x-palaver-session': 'demo' } });
        assert.equal(json.choices[0].message.content, 'ok');
        assert.deepEqual(s.notes(), ran, rules);
        const asked = (await s.asked()).at(-1);
        const result = asked.messages.find((m) => m.role === 'tool').content;
        if (!ran.length) assert.match(result, /add|adds \{tool: "fx__write", do: allow\} to 'permissions'/);
    }
});

// ---- Responses ----

const create = (s, body) => s.post('/v1/responses', { model: 'mock-model', ...body });
async function streamed(s, body) {
    const stream = await open(s.port, 'POST', '/v1/responses', { body: { model: 'mock-model', stream: true, ...body } });
    return (await stream.end()).map(({ data }) => data);
}
const fx = { type: 'mcp', server_label: 'fx' };
const adds = `${call('add')}<<next>><<say The sum is 5.>>`;

test('responses run the tools of a server that the request names', bounded, async (t) => {
    const s = await serve(t);
    const { code, json, text } = await create(s, { input: adds, tools: [fx] });
    assert.equal(code, 200, text);
    assert.deepEqual(json.output.map((item) => item.type), ['mcp_list_tools', 'mcp_call', 'message']);
    const [, item] = json.output;
    assert.match(item.id, /^mcp_/);
    assert.deepEqual({ ...item, id: '' }, { id: '', type: 'mcp_call', server_label: 'fx', name: 'add',
        arguments: '{"a":2}', approval_request_id: null, output: '5', error: null, status: 'completed' });
    assert.equal(json.metadata.palaver_left_out, undefined);
    assert.deepEqual((await s.get(`/v1/responses/${json.id}`)).json.output, json.output);
    const next = (await create(s, { input: 'and?', tools: [fx], previous_response_id: json.id })).json;
    assert.equal(next.status, 'completed');
    const sent = (await s.asked()).at(-1).messages;
    assert.deepEqual(sent.map((m) => m.role), ['user', 'assistant', 'tool', 'assistant', 'user']);
    const inputs = (await s.get(`/v1/responses/${next.id}/input_items?order=asc`)).json.data;
    assert.deepEqual(inputs.map((i) => i.type), ['message']);
    // A client that keeps the history sends the item again.
    const stateless = (await create(s, { store: false, tools: [fx], input: [{ role: 'user', content: 'x' }, item,
        { role: 'user', content: 'y' }] }));
    assert.equal(stateless.code, 200, stateless.text);
    assert.deepEqual((await s.asked()).at(-1).messages.map((m) => m.role), ['user', 'assistant', 'tool', 'user']);
});

test('the stream has the events of an mcp_call, and a replay has the same ones', bounded, async (t) => {
    const s = await serve(t, allow);
    const told = await streamed(s, { input: `${call('add')}${call('fail')}<<next>><<say done>>`, tools: [fx] });
    const types = told.map((e) => e.type);
    for (const type of ['response.mcp_call.in_progress', 'response.mcp_call_arguments.delta',
        'response.mcp_call_arguments.done', 'response.mcp_call.completed', 'response.mcp_call.failed'])
        assert.ok(types.includes(type), type);
    assert.deepEqual(told.map((e) => e.sequence_number), told.map((_, i) => i));
    const end = told.at(-1);
    assert.equal(end.type, 'response.completed');
    assert.deepEqual(end.response.output.map((i) => [i.type, i.status]),
        [['mcp_list_tools', undefined], ['mcp_call', 'completed'], ['mcp_call', 'failed'], ['message', 'completed']]);
    assert.deepEqual([end.response.output[2].error, end.response.output[2].output],
        [{ type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'done' }] }, null]);
    const done = told.filter((e) => e.type === 'response.output_item.done').map((e) => e.item);
    assert.deepEqual(new Set(done.map((i) => JSON.stringify(i))), new Set(end.response.output.map((i) => JSON.stringify(i))));
    const stream = await open(s.port, 'GET', `/v1/responses/${end.response.id}?stream=true`);
    const replayed = (await stream.end()).map(({ data }) => data);
    assert.deepEqual(replayed.map((e) => e.type).sort(), [...types].sort());
    assert.deepEqual(replayed.at(-1).response.output, end.response.output);
});

test('a service with the Responses API calls the tools of a server as functions', bounded, async (t) => {
    const mock = new MockResponses();
    const url = await mock.listen();
    t.after(() => mock.close());
    const s = await serve(t, 'providers:\n  - kind: openai\n    responses: on\n', { model: { url } });
    const search = { type: 'web_search' };
    const told = await streamed(s, { input: `${adds}<<next>><<say The sum is 5.>>`.replace('<<tool', '<<think Hm.>><<tool'), tools: [fx, search] });
    const { output, id } = told.at(-1).response;
    assert.deepEqual(output.map((item) => [item.type, item.output]),
        [['mcp_list_tools', undefined], ['reasoning', undefined], ['mcp_call', '5'], ['message', undefined]]);
    assert.deepEqual((await s.get(`/v1/responses/${id}`)).json.output, output);
    const [first, second] = mock.requests.map(({ body }) => body);
    assert.deepEqual(first.tools.map((tool) => [tool.type, tool.name]), [['web_search', undefined], ['function', 'fx__add'],
        ['function', 'fx__write'], ['function', 'fx__fail']]);
    assert.deepEqual(second.input.map((item) => item.type), ['message', 'reasoning', 'function_call', 'function_call_output']);
    assert.deepEqual([second.input[1].encrypted_content, second.input[3].output], ['secret:Hm.', '5']);
    const stream = await open(s.port, 'GET', `/v1/responses/${id}?stream=true`);
    const replayed = (await stream.end()).map(({ data }) => data);
    assert.deepEqual(replayed.map((e) => e.type), told.map((e) => e.type));
});

test('a page of items has the results of its mcp_calls, and is never empty', bounded, async (t) => {
    const s = await serve(t);
    const { json: { id } } = await s.post('/v1/conversations', {});
    const { json } = await create(s, { conversation: id, tools: [fx],
        input: `${[1, 2, 3, 4].map((a) => call('add', `{"a":${a}}`)).join('')}<<next>><<say The sum is 5.>>` });
    const output = json.output.slice(1); // without the list of tools, which is not an item of the conversation
    assert.deepEqual(output.map((item) => [item.type, item.output]),
        [...Array(4).fill(['mcp_call', '5']), ['message', undefined]]);
    for (const order of ['asc', 'desc']) {
        for (const limit of [1, 2, 3, 100]) {
            const items = [];
            for (let after = '', more = true; more;) {
                const page = (await s.get(`/v1/conversations/${id}/items?order=${order}&limit=${limit}${after}`)).json;
                assert.ok(page.data.length > 0, 'a page is never empty');
                items.push(...page.data);
                after = `&after=${page.last_id}`;
                more = page.has_more;
            }
            if (order === 'desc') items.reverse();
            assert.deepEqual(items.slice(1), output, `${order}, ${limit}`);
        }
    }
    for (const item of output)
        assert.deepEqual((await s.get(`/v1/conversations/${id}/items/${item.id}`)).json, item);
});

test('the request restricts which tools of a server are used', bounded, async (t) => {
    const s = await serve(t, allow);
    const offered = async (tool) => {
        await create(s, { input: 'x', tools: [tool] });
        return ((await s.asked()).at(-1).tools ?? []).map((x) => x.function.name);
    };
    assert.deepEqual(await offered(fx), ['fx__add', 'fx__write', 'fx__fail']);
    assert.deepEqual(await offered({ ...fx, allowed_tools: ['add'] }), ['fx__add']);
    assert.deepEqual(await offered({ ...fx, allowed_tools: { tool_names: ['write'] } }), ['fx__write']);
    const asked = async (server, require_approval, tool) => {
        const { json } = await create(server, { input: `${call(tool)}<<next>><<say x>>`, tools: [{ ...fx, require_approval }] });
        return json.output.some((item) => item.type === 'mcp_approval_request');
    };
    assert.equal(await asked(s, 'always', 'write'), true);
    assert.equal(await asked(s, 'never', 'write'), false);
    assert.equal(await asked(s, { always: { tool_names: ['write'] } }, 'write'), true);
    assert.equal(await asked(s, { always: { tool_names: ['write'] } }, 'add'), false);
    assert.equal(await asked(s, { never: { tool_names: ['write'] } }, 'write'), false);
    assert.equal(await asked(s, { never: { tool_names: ['add'] } }, 'write'), true, 'all others');
    assert.equal(await asked(s, { never: { read_only: true } }, 'add'), false);
    assert.equal(await asked(s, { never: { read_only: true } }, 'write'), true);
    assert.equal(await asked(s, { always: { read_only: false } }, 'write'), true);
    assert.equal(await asked(s, { always: { read_only: false } }, 'add'), false);
    assert.deepEqual(await offered({ ...fx, allowed_tools: { read_only: true } }), ['fx__add']);
    const strict = await serve(t);
    for (const approval of ['never', { never: { tool_names: ['write'] } }])
        assert.equal(await asked(strict, approval, 'write'), true, 'never weaker than the configuration');
    assert.deepEqual(strict.notes(), []);
});

test('servers that are not configured are left out', bounded, async (t) => {
    const s = await serve(t, allow);
    for (const tool of [{ type: 'mcp', server_label: 'other', server_url: 'http://127.0.0.1:9/mcp' },
        { ...fx, server_url: 'http://127.0.0.1:9/mcp' }]) {
        const { json } = await create(s, { input: 'x', tools: [tool] });
        assert.equal(json.metadata.palaver_left_out, `mcp ${tool.server_label}`);
        assert.equal((await s.asked()).at(-1).tools, undefined);
    }
});

test('a request without tools is offered the tools of all servers, unless that is off', bounded, async (t) => {
    const names = async (s, body = {}) => {
        await create(s, { input: 'x', ...body });
        return ((await s.asked()).at(-1).tools ?? []).map((x) => x.function.name);
    };
    const s = await serve(t);
    assert.deepEqual(await names(s), ['fx__add', 'fx__write', 'fx__fail']);
    assert.deepEqual(await names(s, { tools: [] }), []);
    assert.deepEqual(await names(await serve(t, 'server: {responses_tools: false}\n')), []);
});
