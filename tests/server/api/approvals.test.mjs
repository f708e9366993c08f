// Responses that end with requests for approval, and the requests that answer them.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockResponses } from '../../conformance/mock-responses.mjs';
import { open } from '../model.mjs';
import { serveTools } from '../tools.mjs';
import { isLast, openSocket } from '../websocket_client.mjs';

const bounded = { timeout: 20_000 };
const stores = { memory: { args: ['--store', 'memory:'] }, sqlite: {} };
const fx = { type: 'mcp', server_label: 'fx' };
const call = (tool, args = '{"a":2}') => `<<tool fx__${tool} ${args}>>`;
const create = async (s, body) => {
    const { code, json, text } = await s.post('/v1/responses', { model: 'mock-model', tools: [fx], ...body });
    assert.equal(code, 200, text);
    return json;
};
const refused = async (s, body, pattern) => {
    const { code, json } = await s.post('/v1/responses', { model: 'mock-model', tools: [fx], ...body });
    assert.equal(code, 400);
    assert.match(json.error.message, pattern);
};
async function streamed(s, body) {
    const stream = await open(s.port, 'POST', '/v1/responses',
        { body: { model: 'mock-model', tools: [fx], stream: true, ...body } });
    return (await stream.end()).map(({ data }) => data);
}
const types = (output) => output.map((item) => item.type);
const without = (items, type) => items.filter((item) => item.type !== type);
const requests = (response) => response.output.filter((item) => item.type === 'mcp_approval_request');
const answer = (item, approve, more = {}) =>
    ({ type: 'mcp_approval_response', approval_request_id: item.id, approve, ...more });
const results = async (s) => (await s.asked()).at(-1).messages.filter((m) => m.role === 'tool').map((m) => m.content);

for (const [store, options] of Object.entries(stores)) {
    test(`${store}: a response ends with requests for approval, and the next one runs the calls`, bounded, async (t) => {
        const s = await serveTools(t, '', options);
        const first = await create(s, { input: `${call('write', '{"n":1}')}${call('add')}${call('write', '{"n":2}')}<<next>><<say ok>>` });
        assert.equal(first.status, 'completed');
        assert.deepEqual(types(without(first.output, 'mcp_list_tools')), ['mcp_approval_request', 'mcp_call', 'mcp_approval_request']);
        const [one, two] = requests(first);
        assert.match(one.id, /^mcpr_/);
        assert.deepEqual({ ...one, id: '' }, { id: '', type: 'mcp_approval_request', server_label: 'fx', name: 'write', arguments: '{"n":1}' });
        assert.deepEqual(s.notes(), ['add'], 'only the tool that needs no approval ran');
        assert.deepEqual((await s.get(`/v1/responses/${first.id}`)).json.output, first.output);
        const next = await create(s, { previous_response_id: first.id, input: [answer(one, true), answer(two, false, { reason: 'too late' })] });
        assert.deepEqual(s.notes(), ['add', 'write']);
        assert.deepEqual(types(next.output), ['mcp_call', 'message']);
        assert.deepEqual({ ...next.output[0], id: '' }, { id: '', type: 'mcp_call', server_label: 'fx', name: 'write',
            arguments: '{"n":1}', approval_request_id: one.id, output: 'done', error: null, status: 'completed' });
        const sent = (await s.asked()).at(-1).messages;
        assert.deepEqual(sent.map((m) => m.role), ['user', 'assistant', 'tool', 'tool', 'tool'], 'approvals are not sent');
        assert.deepEqual(await results(s), ['done', '5', 'The user denied this call: too late']);
        assert.deepEqual((await s.get(`/v1/responses/${next.id}`)).json.output, next.output);
        assert.deepEqual((await s.get(`/v1/responses/${first.id}`)).json.output, first.output, 'unchanged');
        const inputs = (await s.get(`/v1/responses/${next.id}/input_items?order=asc`)).json.data;
        assert.deepEqual(inputs.map((i) => [i.type, i.approval_request_id, i.approve, i.reason]),
            [['mcp_approval_response', one.id, true, undefined], ['mcp_approval_response', two.id, false, 'too late']]);
        // A second answer to the same response is a branch, and runs the call there.
        const branch = await create(s, { previous_response_id: first.id, input: [answer(one, false), answer(two, true)] });
        assert.equal(branch.output[0].arguments, '{"n":2}');
        assert.deepEqual(s.notes(), ['add', 'write', 'write']);
        const last = await create(s, { previous_response_id: next.id, input: 'thanks' });
        assert.deepEqual(types(last.output), ['message']);
    });

    test(`${store}: a conversation keeps requests and answers`, bounded, async (t) => {
        const s = await serveTools(t, '', options);
        const { id: conversation } = (await s.post('/v1/conversations', {})).json;
        const first = await create(s, { conversation, input: `${call('write')}<<next>><<say ok>>` });
        const [request] = requests(first);
        await refused(s, { conversation, input: [{ ...answer(request, true), approval_request_id: 'mcpr_0' }] }, /No approval request found/);
        const next = await create(s, { conversation, input: [answer(request, true), { role: 'user', content: 'and hurry' }] });
        assert.deepEqual(types(next.output), ['mcp_call', 'message']);
        const items = (await s.get(`/v1/conversations/${conversation}/items?order=asc`)).json.data;
        assert.deepEqual(types(items), ['message', 'mcp_approval_request', 'mcp_approval_response', 'message', 'mcp_call', 'message']);
        const sent = (await s.asked()).at(-1).messages;
        assert.deepEqual(sent.map((m) => m.role), ['user', 'assistant', 'tool', 'user']);
        // The same answer again has no effect.
        await create(s, { conversation, input: [answer(request, true), { role: 'user', content: 'again' }] });
        assert.deepEqual(s.notes(), ['write']);
    });

    test(`${store}: requests that are not answered count as denied`, bounded, async (t) => {
        const s = await serveTools(t, '', options);
        const first = await create(s, { input: `${call('write')}<<next>><<say ok>>` });
        const next = await create(s, { previous_response_id: first.id, input: 'forget it' });
        assert.deepEqual(types(next.output), ['message']);
        assert.deepEqual(await results(s), ['The user denied this call: the next request did not contain an approval']);
        assert.deepEqual(s.notes(), []);
        await refused(s, { previous_response_id: first.id, input: [{ type: 'mcp_approval_response', approval_request_id: 'x' }] }, /approve/);
    });

    test(`${store}: without a store, the client sends the request back`, bounded, async (t) => {
        const s = await serveTools(t, '', options);
        const input = [{ role: 'user', content: `${call('write')}<<next>><<say ok>>` }];
        const first = await create(s, { store: false, input });
        const [request] = requests(first);
        const approved = [...input, ...first.output, answer(request, true)];
        const next = await create(s, { store: false, input: approved });
        assert.deepEqual(types(next.output), ['mcp_call', 'message']);
        assert.equal(next.output[0].approval_request_id, request.id);
        assert.deepEqual(s.notes(), ['write']);
        const more = { role: 'user', content: '<<say bye>>' };
        const last = await create(s, { store: false, input: [...approved, ...next.output, more] });
        assert.deepEqual(types(last.output), ['message']);
        assert.deepEqual(s.notes(), ['write'], 'the call did not run again');
        assert.deepEqual((await s.asked()).at(-1).messages.map((m) => m.role), ['user', 'assistant', 'tool', 'assistant', 'user']);
        // A client that drops the mcp_call does not run the tool again either.
        await create(s, { store: false, input: [...approved, ...without(next.output, 'mcp_call'), more] });
        assert.deepEqual(s.notes(), ['write']);
        assert.match((await results(s))[0], /older than the newest answer/);
    });
}

test('the stream has the events of a request for approval, and a replay has the same ones', bounded, async (t) => {
    const s = await serveTools(t);
    const told = await streamed(s, { input: `<<say Let me see.>>${call('write')}<<next>><<say ok>>` });
    assert.deepEqual(told.map((e) => e.sequence_number), told.map((_, i) => i));
    const end = told.at(-1);
    assert.equal(end.type, 'response.completed');
    const [request] = requests(end.response);
    const about = told.filter((e) => e.item?.type === 'mcp_approval_request');
    assert.deepEqual(about.map((e) => [e.type, e.item]),
        [['response.output_item.added', request], ['response.output_item.done', request]]);
    assert.equal(end.response.output[about[0].output_index].id, request.id);
    assert.ok(!told.some((e) => e.type.startsWith('response.mcp_call')));
    const again = async (id) => (await (await open(s.port, 'GET', `/v1/responses/${id}?stream=true`)).end()).map(({ data }) => data);
    assert.deepEqual(await again(end.response.id), told);

    const next = await streamed(s, { previous_response_id: end.response.id, input: [answer(request, true)] });
    assert.deepEqual(next.filter((e) => e.output_index === 0).map((e) => e.type), ['response.output_item.added',
        'response.mcp_call.in_progress', 'response.mcp_call_arguments.delta', 'response.mcp_call_arguments.done',
        'response.mcp_call.completed', 'response.output_item.done']);
    assert.equal(next.at(-1).response.output[0].approval_request_id, request.id);
    const replayed = await again(next.at(-1).response.id);
    assert.deepEqual(replayed.map((e) => e.type).sort(), next.map((e) => e.type).sort());
    assert.deepEqual(replayed.at(-1), next.at(-1));
});

test('approvals survive a crash of the server', bounded, async (t) => {
    const s = await serveTools(t);
    const first = await create(s, { input: `${call('write')}<<next>><<say ok>>` });
    const { id: conversation } = (await s.post('/v1/conversations', {})).json;
    const other = await create(s, { conversation, input: `${call('write')}<<next>><<say ok>>` });
    await s.stop('SIGKILL');
    const again = await serveTools(t, '', { dir: s.dir, model: s.model });
    const next = await create(again, { previous_response_id: first.id, input: [answer(requests(first)[0], true)] });
    assert.deepEqual(types(next.output), ['mcp_call', 'message']);
    const after = await create(again, { conversation, input: [answer(requests(other)[0], true)] });
    assert.deepEqual(types(after.output), ['mcp_call', 'message']);
    assert.deepEqual(again.notes(), ['write', 'write']);
});

// The call of the dead server may have had its effect. Its response was never sent, so the client decides whether the
// call runs again.
test('a kill during an approved call leaves the approval open, and frees the session', bounded, async (t) => {
    const s = await serveTools(t);
    const first = await create(s, { input: `${call('write')}<<next>><<say ok>>` });
    const { id: conversation } = (await s.post('/v1/conversations', {})).json;
    const other = await create(s, { conversation, input: `${call('write')}<<next>><<say ok>>` });
    const late = await create(s, { input: `${call('write')}<<next>><<say ok>>` });
    s.hang(true);
    const approved = (of) => [answer(requests(of)[0], true)];
    const post = (body) => s.post('/v1/responses', { model: 'mock-model', tools: [fx], ...body }).catch((error) => error);
    const lost = [post({ previous_response_id: first.id, input: approved(first) }), post({ conversation, input: approved(other) })];
    const begun = await create(s, { background: true, previous_response_id: late.id, input: approved(late) });
    while (s.notes().length < 3) await sleep(5);
    await s.stop('SIGKILL');
    for (const answered of await Promise.all(lost)) assert.ok(answered instanceof Error);
    s.hang(false);
    const again = await serveTools(t, '', { dir: s.dir, model: s.model });
    const dead = async () => (await again.get(`/v1/responses/${begun.id}`)).json;
    for (let i = 0; i < 500 && ['queued', 'in_progress'].includes((await dead()).status); i++) await sleep(10);
    assert.deepEqual([(await dead()).status, (await dead()).error.code], ['failed', 'server_error']);
    const items = (await again.get(`/v1/conversations/${conversation}/items?order=asc`)).json.data;
    assert.deepEqual(types(items), ['message', 'mcp_approval_request']);
    const next = await create(again, { previous_response_id: first.id, input: approved(first) });
    assert.deepEqual(types(next.output), ['mcp_call', 'message']);
    const denied = await create(again, { conversation, input: [answer(requests(other)[0], false), { role: 'user', content: '<<say fine>>' }] });
    assert.deepEqual(types(denied.output), ['message']);
    const repeated = await create(again, { previous_response_id: late.id, input: approved(late) });
    assert.deepEqual(types(repeated.output), ['mcp_call', 'message']);
    assert.equal(again.notes().length, 5);
});

for (const [store, options] of Object.entries(stores)) {
    test(`${store}: a service with the Responses API calls a tool that needs approval`, bounded, async (t) => {
        const mock = new MockResponses();
        const model = { url: await mock.listen() };
        t.after(() => mock.close());
        const upstream = 'providers:\n  - kind: openai\n    responses: on\n';
        let s = await serveTools(t, upstream, { ...options, model });
        const search = { type: 'web_search' };
        const tools = [fx, search];
        const told = await streamed(s, { tools, input: `<<think Hm.>>${call('write', '{"n":1}')}${call('add')}${call('write', '{"n":2}')}<<next>><<say ok>>` });
        const first = told.at(-1).response;
        assert.deepEqual(types(first.output), ['mcp_list_tools', 'reasoning', 'mcp_approval_request', 'mcp_call', 'mcp_approval_request']);
        assert.deepEqual(s.notes(), ['add']);
        if (store === 'sqlite') {
            await s.stop('SIGKILL');
            s = await serveTools(t, upstream, { dir: s.dir, model });
        }
        assert.deepEqual((await s.get(`/v1/responses/${first.id}`)).json.output, first.output);
        const [one, two] = requests(first);
        const input = [answer(one, true), answer(two, false, { reason: 'too late' })];
        const next = await create(s, { tools, previous_response_id: first.id, input });
        assert.deepEqual(types(next.output), ['mcp_call', 'message']);
        assert.deepEqual([next.output[0].output, next.output[0].approval_request_id], ['done', one.id]);
        assert.deepEqual(s.notes(), ['add', 'write']);
        const sent = mock.requests.at(-1).body;
        assert.deepEqual(sent.tools[0], search);
        assert.deepEqual(types(sent.input), ['message', 'reasoning', 'function_call', 'function_call', 'function_call',
            'function_call_output', 'function_call_output', 'function_call_output']);
        assert.equal(sent.input[1].encrypted_content, 'secret:Hm.');
        const outputs = Object.fromEntries(sent.input.slice(5).map((item) => [item.call_id, item.output]));
        assert.deepEqual(sent.input.slice(2, 5).map((item) => outputs[item.call_id]), ['done', '5', 'The user denied this call: too late']);
        assert.ok(!JSON.stringify(sent.input).includes('mcpr_'), 'the service does not see our requests');
        const compacted = await s.post('/v1/responses/compact', { model: 'mock-model', previous_response_id: first.id });
        assert.equal(compacted.code, 200, compacted.text);
        const replaced = mock.requests.at(-1).body.input;
        assert.deepEqual(types(replaced), types(sent.input), 'a call that waits for approval counts as denied');
        const denied = 'the call was not approved';
        assert.deepEqual(replaced.slice(5).map((item) => item.output), ['5', denied, denied]);
        await create(s, { tools, previous_response_id: next.id, input: '<<say bye>>' });
        assert.deepEqual(types(mock.requests.at(-1).body.input.slice(-2)), ['message', 'message']);
        // The same without a store: the request names a tool server of ours, so it is not forwarded.
        const history = [{ role: 'user', content: `<<think Hm.>>${call('write')}<<next>><<say ok>>` }];
        const loose = await create(s, { tools, store: false, input: history });
        const ran = await create(s, { tools, store: false, input: [...history, ...loose.output, answer(requests(loose)[0], true)] });
        assert.deepEqual(types(without(ran.output, 'mcp_list_tools')), ['mcp_call', 'message']);
        assert.deepEqual(types(mock.requests.at(-1).body.input), ['message', 'reasoning', 'function_call', 'function_call_output']);
        assert.deepEqual(s.notes(), ['add', 'write', 'write']);
    });
}

test('the example of docs/openai.md works as written', bounded, async (t) => {
    const page = fs.readFileSync(new URL('../../../docs/openai.md', import.meta.url), 'utf8');
    const [, example] = /^### Approvals[^]*?^```json\n([^]*?)^```/m.exec(page);
    const s = await serveTools(t);
    const first = await create(s, { input: `${call('write', '{"n":1}')}${call('write', '{"n":2}')}<<next>><<say ok>>` });
    const ids = requests(first).map(({ id }) => id);
    const body = JSON.parse(example.replace('"files"', '"fx"').replace('resp_...', first.id).replace(/mcpr_\.\.\./g, () => ids.shift()));
    const next = await create(s, body);
    assert.deepEqual(types(next.output), ['mcp_call', 'message']);
    assert.deepEqual((await results(s)).sort(), ['The user denied this call: not now', 'done']);
});

test('a request that fails leaves the approval open', bounded, async (t) => {
    const s = await serveTools(t);
    const { id: conversation } = (await s.post('/v1/conversations', {})).json;
    const first = await create(s, { conversation, input: `${call('write')}<<next>><<fail status=500>>` });
    const [request] = requests(first);
    const failed = await s.post('/v1/responses', { model: 'mock-model', tools: [fx], conversation, input: [answer(request, true)] });
    assert.equal(failed.code, 500, failed.text);
    const items = (await s.get(`/v1/conversations/${conversation}/items?order=asc`)).json.data;
    assert.deepEqual(types(items), ['message', 'mcp_approval_request']);
    await create(s, { conversation, input: [answer(request, false), { role: 'user', content: '<<say never mind>>' }] });
    assert.deepEqual(s.notes(), ['write'], 'the call ran before the failure');
});

test('a background response ends with a request for approval, and answers one', bounded, async (t) => {
    const s = await serveTools(t);
    const ended = async (id) => {
        for (;;) {
            const { json } = await s.get(`/v1/responses/${id}`);
            if (!['queued', 'in_progress'].includes(json.status)) return json;
            await new Promise((resolve) => setTimeout(resolve, 10));
        }
    };
    const first = await ended((await create(s, { background: true, input: `${call('write')}<<next>><<say ok>>` })).id);
    assert.equal(first.status, 'completed');
    const next = await ended((await create(s, { background: true, previous_response_id: first.id,
        input: [answer(requests(first)[0], true)] })).id);
    assert.deepEqual(types(next.output), ['mcp_call', 'message']);
});

test('a function call and a request for approval are answered together', bounded, async (t) => {
    const s = await serveTools(t);
    const tools = [fx, { type: 'function', name: 'clock', parameters: { type: 'object' } }];
    const first = await create(s, { tools, input: `<<tool clock {}>>${call('write')}${call('add')}<<next>><<say ok>>` });
    const request = requests(first)[0];
    const clock = first.output.find((item) => item.type === 'function_call');
    await refused(s, { tools, previous_response_id: first.id, input: [answer(request, true)] }, /No tool output found/);
    assert.deepEqual(s.notes(), ['add']);
    const next = await create(s, { tools, previous_response_id: first.id,
        input: [answer(request, true), { type: 'function_call_output', call_id: clock.call_id, output: 'noon' }] });
    assert.deepEqual(types(next.output), ['mcp_call', 'message']);
    assert.deepEqual(await results(s), ['noon', 'done', '5']);
});

test('a WebSocket carries requests for approval, stored or not', bounded, async (t) => {
    const s = await serveTools(t);
    const socket = await openSocket(s.port);
    const ended = async (body) => {
        socket.send({ type: 'response.create', model: 'mock-model', tools: [fx], ...body });
        for (;;) {
            const event = await socket.next();
            if (isLast(event)) return event.response;
        }
    };
    for (const store of [true, false]) {
        const first = await ended({ store, input: `${call('write')}<<next>><<say ok>>` });
        const next = await ended({ store, previous_response_id: first.id, input: [answer(requests(first)[0], true)] });
        assert.deepEqual(types(next.output), ['mcp_call', 'message']);
    }
    assert.deepEqual(s.notes(), ['write', 'write']);
    socket.close();
    await socket.end;
});

test('allow_unasked runs tools without approval, and a denied tool stays denied', bounded, async (t) => {
    const unasked = await serveTools(t, 'turn: {allow_unasked: true}\n');
    const input = `${call('write')}<<next>><<say ok>>`;
    assert.deepEqual(types(without((await create(unasked, { input })).output, 'mcp_list_tools')), ['mcp_call', 'message']);
    assert.equal(requests(await create(unasked, { input, tools: [{ ...fx, require_approval: 'always' }] })).length, 1);
    // Deny stays deny, also if a client makes up a request and approves it.
    const denied = await serveTools(t, 'permissions: [{tool: fx__write, do: deny}]\n');
    const made = { type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'fx', name: 'write', arguments: '{}' };
    const forged = await create(denied, { store: false, input: [{ role: 'user', content: 'x' }, made, answer(made, true)] });
    assert.match(forged.output[1].error.content[0].text, /denied by 'permissions'/);
    assert.deepEqual(denied.notes(), []);
    // A remembered answer counts here too.
    const s = await serveTools(t);
    const { id: conversation } = (await s.post('/v1/conversations', {})).json;
    const session = conversation.slice(5).replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    const asks = (await s.turn(session, { message: input })).json;
    await s.post(`/api/v1/turns/${asks.turn_id}/approve`, { answers: [{ call_id: asks.questions[0].call_id, allow: true, remember: 'session' }] });
    while ((await s.get(`/api/v1/turns/${asks.turn_id}`)).json.state !== 'done')
        await new Promise((resolve) => setTimeout(resolve, 10));
    const told = await streamed(s, { conversation, input });
    assert.deepEqual(types(without(told.at(-1).response.output, 'mcp_list_tools')), ['mcp_call', 'message']);
    assert.ok(told.some((e) => e.type === 'response.mcp_call.in_progress'));
});
