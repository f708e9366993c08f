// Mistral's API in cases that the shared suite of tests/conformance does not cover: handoffs,
// confirmations, remains of failed turns, the same conversations in other APIs, and refused
// requests.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { MockModel } from '../../conformance/mock-model.mjs';
import { ask, makeKey, serve, workspace } from '../support.mjs';

const MODEL = 'mock-model';
const weather = { type: 'function',
    function: { name: 'get_weather', parameters: { type: 'object' } } };

// Starts a server with the scripted model, and returns short functions for its routes.
async function mocked(t, options = {}) {
    const mock = new MockModel();
    const url = await mock.listen();
    t.after(() => mock.close());
    const s = await serve(t, { ...options, args: ['--provider', 'openai', '--provider-url',
        `${url}/v1`, '--model', MODEL, ...options.args ?? []] });
    const call = async (method, path, body, wanted = 200) => {
        const answer = await s.ask(method, `/mistral/v1${path}`, { body });
        assert.equal(answer.code, wanted, answer.text);
        return answer.json;
    };
    const seen = async (mark) => {
        const response = await fetch(`${url}/__requests?contains=${encodeURIComponent(mark)}`);
        return (await response.json()).requests;
    };
    const start = (body, wanted) => call('POST', '/conversations', body, wanted);
    const append = (id, body, wanted) => call('POST', `/conversations/${id}`, body, wanted);
    const history = async (id) => (await call('GET', `/conversations/${id}/history`)).entries;
    const agent = (body) => call('POST', '/agents', { model: MODEL, ...body });
    return { ...s, url, call, seen, start, append, history, agent };
}

// Reads a stream to its end. Returns the frames as [event, data].
async function frames(s, path, body) {
    const answer = await s.post(`/mistral/v1${path}`, { ...body, stream: true });
    assert.equal(answer.code, 200, answer.text);
    assert.ok(answer.text.endsWith('\n\n'));
    return answer.text.split('\n\n').filter((frame) => frame.startsWith('event: ')).map((frame) => {
        const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(frame);
        assert.equal(JSON.parse(data).type, event);
        return JSON.parse(data);
    });
}

const resultOf = (call, result) =>
    ({ type: 'function.result', tool_call_id: call.tool_call_id, result });
const types = (entries) => entries.map(({ type }) => type);

// Waits until `check` returns a value. The time limit of the test ends the wait otherwise.
async function until(check) {
    for (;;) {
        const value = await check();
        if (value) return value;
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

// Sends a request, and closes the socket when `ready` resolves.
async function leave(s, path, body, ready) {
    const request = http.request({ host: '127.0.0.1', port: s.port, method: 'POST', agent: false,
        path: `/mistral/v1${path}`, headers: { 'content-type': 'application/json' } });
    const closed = new Promise((resolve) => { request.on('error', resolve); });
    request.on('response', (response) => response.resume().on('error', () => {}));
    request.end(JSON.stringify(body));
    await until(ready);
    request.destroy(new Error('left'));
    await closed;
}

// ---- Handoffs ----

async function team(s) {
    const cook = await s.agent({ name: 'Cook', instructions: 'You cook.', description: 'cooks' });
    const clerk = await s.agent(
        { name: 'Clerk', instructions: 'You ask around.', handoffs: [cook.id] });
    return { cook, clerk };
}

test('an agent hands the conversation over, and the next agent continues it', async (t) => {
    const s = await mocked(t);
    const { cook, clerk } = await team(s);
    const first = await s.start({ agent_id: clerk.id, inputs: 'one <<tool transfer_to_Cook {}>>' });
    assert.deepEqual(types(first.outputs), ['agent.handoff', 'message.output']);
    const [handoff, answer] = first.outputs;
    assert.equal(handoff.previous_agent_id, clerk.id);
    assert.equal(handoff.previous_agent_name, 'Clerk');
    assert.equal(handoff.next_agent_id, cook.id);
    assert.equal(handoff.next_agent_name, 'Cook');
    assert.equal(answer.agent_id, cook.id);
    assert.equal(answer.content, 'tool said: done');

    const requests = await s.seen('one ');
    assert.equal(requests.length, 2);
    assert.equal(requests[0].body.messages[0].content, 'You ask around.');
    assert.match(requests[0].body.tools[0].function.description, /'Cook': cooks/);
    assert.equal(requests[1].body.messages[0].content, 'You cook.');
    const { prompt_tokens: a } = requests[0].outcome.usage;
    const { prompt_tokens: b } = requests[1].outcome.usage;
    assert.equal(first.usage.prompt_tokens, a + b);

    const second = await s.append(first.conversation_id, { inputs: 'two' });
    assert.equal(second.outputs[0].agent_id, cook.id);
    assert.equal((await s.seen('two')).at(-1).body.messages[0].content, 'You cook.');
    const entries = await s.history(first.conversation_id);
    assert.deepEqual(types(entries), ['message.input', 'agent.handoff', 'message.output',
        'message.input', 'message.output']);
    assert.deepEqual(entries[1], handoff);
    assert.deepEqual(entries[2], answer);
    const shown = await s.call('GET', `/conversations/${first.conversation_id}`);
    assert.equal(shown.agent_id, clerk.id);
});

test('a stream shows a handoff with its final ids', async (t) => {
    const s = await mocked(t);
    const { cook, clerk } = await team(s);
    const events = await frames(s, '/conversations',
        { agent_id: clerk.id, inputs: '<<tool transfer_to_Cook {}>>' });
    const [started, from, to, ...rest] = events;
    assert.equal(from.type, 'agent.handoff.started');
    assert.equal(from.previous_agent_id, clerk.id);
    assert.equal(to.type, 'agent.handoff.done');
    assert.equal(to.next_agent_id, cook.id);
    assert.equal(to.output_index, 0);
    const deltas = rest.slice(0, -1);
    assert.ok(deltas.every((delta) => delta.type === 'message.output.delta' &&
        delta.agent_id === cook.id && delta.output_index === 1));
    assert.equal(rest.at(-1).type, 'conversation.response.done');
    const entries = await s.history(started.conversation_id);
    assert.equal(entries[1].id, from.id);
    assert.equal(entries[1].id, to.id);
    assert.equal(entries[2].id, deltas[0].id);
});

test('a restart continues with the agent that spoke at that entry', async (t) => {
    const s = await mocked(t);
    const { cook, clerk } = await team(s);
    const { conversation_id: id } = await s.start({ agent_id: clerk.id, inputs: 'zero' });
    await s.append(id, { inputs: 'one <<tool transfer_to_Cook {}>>' });
    const entries = await s.history(id);
    for (const [entry, agent] of [[entries[1], clerk], [entries.at(-1), cook]]) {
        const again = await s.call('POST', `/conversations/${id}/restart`,
            { from_entry_id: entry.id, inputs: 'again' });
        assert.equal(again.outputs[0].agent_id, agent.id);
        const next = await s.append(again.conversation_id, { inputs: 'and on' });
        assert.equal(next.outputs[0].agent_id, agent.id);
    }
});

test('with handoff_execution client, a handoff is a call for the client', async (t) => {
    const s = await mocked(t);
    const { clerk } = await team(s);
    const { conversation_id: id, outputs } = await s.start({ agent_id: clerk.id,
        inputs: '<<tool transfer_to_Cook {}>>', handoff_execution: 'client' });
    assert.deepEqual(types(outputs), ['function.call']);
    assert.equal(outputs[0].name, 'transfer_to_Cook');
    const next = await s.append(id, { handoff_execution: 'client',
        inputs: [resultOf(outputs[0], 'no')] });
    assert.equal(next.outputs[0].content, 'tool said: no');
});

test('if the next agent fails, the complete request is undone', async (t) => {
    const s = await mocked(t);
    const broken = await s.agent({ name: 'Broken', model: 'missing-model' });
    const clerk = await s.agent({ name: 'Clerk', handoffs: [broken.id] });
    const inputs = 'one <<tool transfer_to_Broken {}>>';
    await s.start({ agent_id: clerk.id, inputs }, 400);
    assert.deepEqual(await s.call('GET', '/conversations'), []);
    assert.deepEqual((await s.get('/api/v1/sessions')).json.sessions, []);

    const { conversation_id: id } = await s.start({ agent_id: clerk.id, inputs: 'hello' });
    const before = await s.history(id);
    await s.append(id, { inputs }, 400);
    assert.deepEqual(await s.history(id), before);
    const events = await frames(s, `/conversations/${id}`, { inputs });
    assert.equal(events.at(-1).type, 'conversation.response.error');
    assert.equal(events.at(-1).code, 400);
    assert.deepEqual(await s.history(id), before);
    const { outputs } = await s.append(id, { inputs: 'still there' });
    assert.equal(outputs[0].agent_id, clerk.id);
});

test('calls of the client\'s tools prevent a handoff', async (t) => {
    const s = await mocked(t);
    const cook = await s.agent({ name: 'Cook' });
    const clerk = await s.agent({ name: 'Clerk', handoffs: [cook.id], tools: [weather] });
    const inputs = '<<tool get_weather {}>><<tool transfer_to_Cook {}>>';
    const { outputs } = await s.start({ agent_id: clerk.id, inputs });
    assert.deepEqual(types(outputs), ['function.call', 'function.call']);
    const events = await frames(s, '/conversations', { agent_id: clerk.id, inputs });
    const calls = events.filter(({ type }) => type === 'function.call.delta');
    const names = [...new Set(calls.map(({ name }) => name))];
    assert.deepEqual(names, ['get_weather', 'transfer_to_Cook']);
});

// ---- Confirmations ----

test('a tool that needs permission waits for allow or deny', async (t) => {
    const s = await mocked(t);
    const round = '<<tool recall {"query":"x"}>>';
    const inputs = `${round}<<next>>${round}<<next>>${round}<<next>><<say over>>`;
    for (const confirmation of ['allow', 'deny']) {
        const { conversation_id: id, outputs } = await s.start({ model: MODEL, inputs });
        const pending = outputs.at(-1);
        assert.deepEqual(types(outputs), ['tool.execution', 'tool.execution', 'function.call']);
        assert.equal(pending.confirmation_status, 'pending');
        const refused = await s.append(id, { inputs: 'go on' }, 422);
        assert.match(refused.detail[0].msg, /is waiting for a confirmation/);
        await s.append(id, { tool_confirmations: [{ tool_call_id: 'other', confirmation }] }, 422);
        const next = await s.append(id, { tool_confirmations:
            [{ tool_call_id: pending.tool_call_id, confirmation }] });
        assert.equal(next.conversation_id, id);
        assert.equal(next.outputs.at(-1).content, 'over');
        const again = await s.append(id, { tool_confirmations:
            [{ tool_call_id: pending.tool_call_id, confirmation }] }, 422);
        assert.match(again.detail[0].msg, /call '.*' is not waiting/);
        assert.deepEqual(types(await s.history(id)), ['message.input', 'tool.execution',
            'tool.execution', 'tool.execution', 'message.output']);
    }
});

test('a stream shows a server tool as the history does later', async (t) => {
    const s = await mocked(t);
    const events = await frames(s, '/conversations',
        { model: MODEL, inputs: '<<tool recall {"query":"x"}>><<next>><<say over>>' });
    const [begun, ...deltas] = events.filter(({ type }) => type.startsWith('tool.execution.'));
    const ended = deltas.pop();
    assert.equal(begun.type, 'tool.execution.started');
    assert.equal(ended.type, 'tool.execution.done');
    assert.ok(deltas.every(({ type, id }) => type === 'tool.execution.delta' && id === begun.id));
    const pieces = [begun, ...deltas].map((event) => event.arguments);
    assert.equal(pieces.join(''), '{"query":"x"}');
    const [, execution] = await s.history(events[0].conversation_id);
    assert.equal(execution.type, 'tool.execution');
    assert.equal(execution.id, begun.id);
    assert.deepEqual(execution.info, ended.info);
    const again = await s.call('POST', `/conversations/${events[0].conversation_id}/restart`,
        { from_entry_id: execution.id, inputs: 'next' });
    assert.deepEqual(types(await s.history(again.conversation_id)),
        ['message.input', 'tool.execution', 'message.input', 'message.output']);
});

// ---- What is left behind ----

test('store: false leaves no trace', async (t) => {
    const s = await mocked(t);
    await s.start({ model: MODEL, inputs: 'one', store: false });
    await frames(s, '/conversations', { model: MODEL, inputs: 'one', store: false });
    assert.deepEqual((await s.get('/api/v1/sessions')).json.sessions, []);
    const { conversation_id: id, outputs } = await s.start({ model: MODEL, inputs: 'kept' });
    const passing = await s.append(id, { inputs: 'two', store: false });
    assert.equal(passing.conversation_id, id);
    assert.equal(passing.outputs[0].content, 'echo: two');
    assert.equal((await s.seen('two')).at(-1).body.messages[0].content, 'kept');
    await frames(s, `/conversations/${id}`, { inputs: 'three', store: false });
    await s.call('POST', `/conversations/${id}/restart`,
        { from_entry_id: outputs[0].id, inputs: 'four', store: false });
    assert.equal((await s.history(id)).length, 2);
    assert.equal((await s.get('/api/v1/sessions')).json.sessions.length, 1);
    assert.equal((await s.call('GET', '/conversations')).length, 1);
});

for (const stream of [true, false]) {
    test(`a client that disconnects undoes its request, and the next request runs (stream: ${stream})`, async (t) => {
        const s = await mocked(t);
        const sessions = async () => (await s.get('/api/v1/sessions')).json.sessions.length;
        const { conversation_id: id } = await s.start({ model: MODEL, inputs: 'kept' });
        const asked = (mark) => async () => (await s.seen(mark)).length;
        await leave(s, `/conversations/${id}`, { inputs: 'left <<hang>>', stream }, asked('left'));
        assert.equal((await s.append(id, { inputs: 'next' })).outputs[0].content, 'echo: next');
        assert.equal((await s.history(id)).length, 4);
        await leave(s, '/conversations', { model: MODEL, inputs: 'new <<hang>>', stream },
            asked('new'));
        await until(async () => await sessions() === 1);
    });
}

const hex = (id) => id.slice(5).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');

// ---- Restarting in the middle of a message ----

test('a restart at one of several calls leaves out the others', async (t) => {
    const s = await mocked(t);
    const { conversation_id: id, outputs } = await s.start({ model: MODEL, tools: [weather],
        inputs: '<<tool get_weather {"n":1}>><<tool get_weather {"n":2}>>' });
    assert.equal(outputs.length, 2);
    const again = await s.call('POST', `/conversations/${id}/restart`,
        { from_entry_id: outputs[0].id, inputs: [resultOf(outputs[0], 'one')] });
    assert.equal(again.outputs[0].content, 'tool said: one');
    const entries = await s.history(again.conversation_id);
    assert.deepEqual(types(entries),
        ['message.input', 'function.call', 'function.result', 'message.output']);
    assert.equal(entries[1].id, outputs[0].id);
    assert.equal((await s.history(id)).length, 3);
    const missing = await s.call('POST', `/conversations/${id}/restart`,
        { from_entry_id: outputs[0].id.replace(/^fc_/, 'msg_'), inputs: 'x' }, 404);
    assert.match(missing.message, /unknown entry/);
});

// ---- Entries ----

test('entries of all kinds are read and returned', async (t) => {
    const s = await mocked(t);
    const pixel = 'data:image/png;base64,iVBORw0KGgo=';
    const inputs = [
        { type: 'message.input', role: 'user', content: [{ type: 'text', text: 'see' },
            { type: 'image_url', image_url: pixel }] },
        { type: 'message.output', content: [{ type: 'thinking',
            thinking: [{ type: 'text', text: 'hm' }] }, { type: 'text', text: 'seen' }] },
        { type: 'function.call', tool_call_id: 'c1', name: 'get_weather', arguments: '{"a":1}' },
        { type: 'function.result', tool_call_id: 'c1', result: 'cold' },
        { type: 'tool.execution', name: 'web_search', arguments: '{"q":1}', info: { hits: 3 } },
        { type: 'agent.handoff', previous_agent_id: 'a', previous_agent_name: 'A',
            next_agent_id: 'b', next_agent_name: 'B' },
        { type: 'message.input', role: 'assistant', content: 'I say', prefix: true },
        { role: 'user', content: 'end' },
    ];
    const { conversation_id: id } = await s.start({ model: MODEL, inputs, tools: [weather] });
    const entries = await s.history(id);
    const shown = entries.slice(0, -1).map((entry) => {
        const { object, id: own, created_at: created, completed_at: completed, ...rest } = entry;
        assert.equal(object, 'entry');
        assert.ok(own && created && completed);
        return rest;
    });
    inputs[0].prefix = false;
    Object.assign(inputs[1], { role: 'assistant' });
    Object.assign(inputs.at(-1), { type: 'message.input', prefix: false });
    assert.deepEqual(shown, inputs);
    assert.equal(new Set(entries.map((entry) => entry.id)).size, entries.length);
});

test('all APIs see the same conversation', async (t) => {
    const s = await mocked(t);
    const { conversation_id: id } = await s.start({ model: MODEL, inputs: 'one', name: 'Name',
        instructions: 'Be brief.', metadata: { project: 'x' } });
    const openai = await s.get(`/v1/conversations/${id}`);
    assert.deepEqual(openai.json.metadata, { project: 'x' });
    const items = (await s.get(`/v1/conversations/${id}/items?order=asc`)).json.data;
    assert.deepEqual(items.map((item) => item.content[0].text), ['one', 'echo: one']);
    const turn = await s.post(`/api/v1/sessions/${hex(id)}/turns`, { message: 'two' });
    assert.equal(turn.code, 200, turn.text);
    assert.deepEqual((await s.seen('two')).at(-1).body.messages.map(({ content }) => content),
        ['Be brief.', 'one', 'echo: one', 'two']);
    assert.equal((await s.history(id)).length, 4);

    const begun = await s.post('/v1/conversations', { metadata: { topic: 'y' },
        items: [{ role: 'user', content: 'from openai' }] });
    const theirs = await s.call('GET', `/conversations/${begun.json.id}`);
    assert.equal(theirs.model, MODEL);
    assert.deepEqual(theirs.metadata, { topic: 'y' });
    const next = await s.append(begun.json.id, { inputs: 'go on' });
    assert.equal(next.outputs[0].content, 'echo: go on');
    assert.deepEqual(types(await s.history(begun.json.id)),
        ['message.input', 'message.input', 'message.output']);
});

// ---- Agents ----

test('an alias names a version in reads and in conversations', async (t) => {
    const s = await mocked(t);
    const { id } = await s.agent({ name: 'a', instructions: 'old' });
    await s.call('PATCH', `/agents/${id}`, { instructions: 'new', description: null });
    const alias = await s.call('PUT', `/agents/${id}/aliases?alias=live&version=0`);
    assert.equal(alias.alias, 'live');
    assert.equal(alias.version, 0);
    assert.equal((await s.call('GET', `/agents/${id}?agent_version=live`)).instructions, 'old');
    await s.start({ agent_id: id, agent_version: 'live', inputs: 'by alias' });
    assert.equal((await s.seen('by alias'))[0].body.messages[0].content, 'old');
    await s.call('PUT', `/agents/${id}/aliases?alias=live&version=1`);
    const [only] = await s.call('GET', `/agents/${id}/aliases`);
    assert.equal(only.version, 1);
    assert.equal(only.created_at, alias.created_at);
    for (const query of ['alias=live', 'alias=7&version=0', 'version=0', 'alias=x&version=2'])
        await s.call('PUT', `/agents/${id}/aliases?${query}`, undefined, 422);
    await s.call('DELETE', `/agents/${id}/aliases?alias=live`, undefined, 204);
    await s.call('DELETE', `/agents/${id}/aliases?alias=live`, undefined, 404);
    await s.call('GET', `/agents/${id}?agent_version=live`, undefined, 404);
});

test('agents can be filtered', async (t) => {
    const s = await mocked(t);
    const made = [];
    for (const name of ['red', 'green', 'blue'])
        made.push(await s.agent({ name, description: `${name} light`, metadata: { hue: name } }));
    const namesOf = (list) => list.map(({ name }) => name);
    const names = async (query) => namesOf(await s.call('GET', `/agents?${query}`));
    assert.deepEqual(await names(''), ['blue', 'green', 'red']);
    assert.deepEqual(await names('page=1&page_size=2'), ['red']);
    assert.deepEqual(await names('search=en%20li'), ['green']);
    assert.deepEqual(await names(`id=${made[0].id}`), ['red']);
    assert.deepEqual(await names(`metadata=${encodeURIComponent('{"hue":"blue"}')}`), ['blue']);
    assert.deepEqual(await names('deployment_chat=true'), []);
    const page = await s.call('GET', '/agents/pages?page_size=2');
    assert.equal(page.data.length, 2);
    const last = await s.call(
        'GET', `/agents/pages?page_size=2&page_token=${page.next_page_token}`);
    assert.deepEqual(namesOf(last.data), ['red']);
    assert.equal(last.next_page_token, null);
});

// ---- Who may see what, and what is refused ----

test('no tenant sees the data of another tenant', async (t) => {
    const dir = workspace(t);
    const [ours, theirs] = ['ours', 'theirs'].map((tenant) =>
        makeKey(dir, '--tenant', tenant, '--role', 'write').key);
    const s = await serve(t, { dir });
    const call = (key, method, path, body) =>
        ask(s.port, method, `/mistral/v1${path}`, { key, body });
    const { json: agent } = await call(ours, 'POST', '/agents', { model: 'echo', name: 'a' });
    const { json: begun } = await call(
        ours, 'POST', '/conversations', { agent_id: agent.id, inputs: 'x' });
    const id = begun.conversation_id;
    for (const [method, path, body] of [['GET', `/conversations/${id}`],
        ['GET', `/conversations/${id}/history`], ['POST', `/conversations/${id}`, { inputs: 'x' }],
        ['DELETE', `/conversations/${id}`], ['GET', `/agents/${agent.id}`],
        ['POST', '/conversations', { agent_id: agent.id, inputs: 'x' }],
        ['POST', `/conversations/${id}/restart`, { from_entry_id: begun.outputs[0].id }]]) {
        const answer = await call(theirs, method, path, body);
        assert.equal(answer.code, 404, `${method} ${path}: ${answer.text}`);
        assert.deepEqual(Object.keys(answer.json), ['object', 'message', 'type', 'param', 'code']);
        assert.equal(answer.json.object, 'error');
    }
    assert.deepEqual((await call(theirs, 'GET', '/conversations')).json, []);
    assert.deepEqual((await call(theirs, 'GET', '/agents')).json, []);
    assert.equal((await ask(s.port, 'GET', '/mistral/v1/agents')).code, 401);
});

test('errors name the invalid field and change nothing', async (t) => {
    const s = await mocked(t);
    const { conversation_id: id } = await s.start({ model: MODEL, inputs: 'one' });
    const starts = [
        [{ model: MODEL, agent_id: 'ag_1', inputs: 'x' }, 'agent_id', /not both/],
        [{ model: MODEL, inputs: [] }, 'inputs', /empty/],
        [{ model: MODEL, inputs: [{ type: 'message.input', role: 'system', content: 'x' }] },
            'inputs', /inputs\[0\]: member 'role'/],
        [{ model: MODEL, inputs: [{ role: 'user', content: [{ type: 'audio' }] }] }, 'inputs',
            /inputs\[0\]: content\[0\]: member 'type'/],
        [{ model: MODEL, inputs: [{ type: 'function.result', tool_call_id: 'c', result: 'x' }] },
            'inputs', /call 'c' is not waiting/],
        [{ model: MODEL, inputs: 'x', tools: [{ type: 'web_search' }] }, 'tools', /function/],
        [{ model: MODEL, inputs: 'x', metadata: { context: 1 } }, 'metadata', /'context'/],
        [{ model: MODEL, inputs: 'x', completion_args: { temperature: 'hot' } }, 'completion_args',
            /temperature' must be a number/],
        [{ model: MODEL, inputs: 'x', completion_args: { tool_choice: 'maybe' } },
            'completion_args', /tool_choice/],
        [{ model: MODEL, inputs: 'x', handoff_execution: 'nobody' }, 'handoff_execution',
            /server or client/],
        [{ model: MODEL, inputs: 'x', stream: 'yes' }, 'stream', /true or false/],
    ];
    const check = async (method, path, body, field, pattern) => {
        const { detail: [{ loc, msg, type }] } = await s.call(method, path, body, 422);
        assert.equal(loc.at(-1), field, msg);
        assert.match(msg, pattern);
        assert.equal(type, 'value_error');
    };
    for (const [body, field, pattern] of starts)
        await check('POST', '/conversations', body, field, pattern);
    await check('POST', `/conversations/${id}/restart`, { inputs: 'x' }, 'from_entry_id',
        /missing/);
    await check('POST', `/conversations/${id}`,
        { tool_confirmations: [{ tool_call_id: 'c', confirmation: 'allow' }] },
        'tool_confirmations', /call 'c' is not waiting/);
    await check('GET', '/conversations?page_size=0', undefined, 'page_size', /from 1/);
    await check('GET', '/conversations?metadata=x', undefined, 'metadata', /JSON object/);
    await check('POST', '/agents', { model: MODEL, name: 'x', handoffs: ['y'] }, 'handoffs', /ag_/);
    await check('POST', '/agents', { name: 'x' }, 'model', /missing/);
    assert.equal((await s.call('GET', '/conversations')).length, 1);
    assert.equal((await s.history(id)).length, 2);
    const call = { type: 'function.call', tool_call_id: 'c', name: 'f', arguments: {} };
    const inputs = [call, resultOf(call, 'x'), { role: 'user', content: 'ok' }];
    await s.append(id, { inputs });
    await check('POST', `/conversations/${id}`, { inputs: [resultOf(call, 'x')] }, 'inputs',
        /already/);
});

test('the example of docs/mistral.md works as written', async (t) => {
    const page = fs.readFileSync(new URL('../../../docs/mistral.md', import.meta.url), 'utf8');
    const [, script] = /```sh\n([\s\S]*?)```/.exec(page);
    const s = await serve(t);
    const run = spawn('bash', ['-euc', script.replace('127.0.0.1:7077', `127.0.0.1:${s.port}`)],
        { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    for await (const piece of run.stdout) out += piece;
    const [agent, begun, next, history] = out.trim().split('\n').map(JSON.parse);
    assert.equal(agent.version, 0);
    assert.match(begun.outputs[0].content, /Hello!/);
    assert.equal(begun.outputs[0].agent_id, agent.id);
    assert.equal(next.conversation_id, begun.conversation_id);
    assert.equal(history.entries.length, 4);
});
