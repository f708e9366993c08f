// /v1/responses in cases that the suites of the official SDKs do not cover: replays, restarts,
// parallel branches, the contents of the store, tenants, and limits.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { makeKey, workspace } from '../support.mjs';
import { open, serveModel } from '../model.mjs';

// Ends a test that waits for something that never happens: its server is stopped.
const bounded = { timeout: 60_000 };

const weather = { type: 'function', name: 'get_weather', parameters: { type: 'object' },
    strict: true };
const create = (s, body, options) =>
    s.post('/v1/responses', { model: 'mock-model', ...body }, options);
const sessionOf = (hex) => hex.replace(/^[a-z]+_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
const textOf = (response) => response.output.flatMap((item) => item.content ?? [])
    .map((part) => part.text).join('');

// Returns the data of all events of a stream that ends.
async function events(s, method, target, body) {
    const stream = await open(s.port, method, target, { body });
    return (await stream.end()).map(({ event, data }) => {
        assert.equal(event, data.type);
        return data;
    });
}
const streamed = (s, body) =>
    events(s, 'POST', '/v1/responses', { model: 'mock-model', stream: true, ...body });
const replayed = (s, id, query = '') => events(s, 'GET', `/v1/responses/${id}?stream=true${query}`);

async function until(probe) {
    for (;;) {
        const found = await probe();
        if (found) return found;
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}
const ended = (s, id) => until(async () => {
    const { json } = await s.get(`/v1/responses/${id}`);
    return !['queued', 'in_progress'].includes(json.status) && json;
});
const sessions = async (s) => (await s.get('/api/v1/sessions')).json.sessions;

// A model whose stream is given chunk by chunk.
async function serveDeltas(t, deltas, finish = 'stop') {
    const server = http.createServer((request, response) => {
        request.resume();
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const chunk = (delta, reason = null) => response.write(`data: ${JSON.stringify({ id: 'c',
            object: 'chat.completion.chunk', created: 1, model: 'm',
            choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`);
        deltas.forEach((delta) => chunk(delta));
        chunk({}, finish);
        response.end('data: [DONE]\n\n');
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    return serveModel(t, { model: { url: `http://127.0.0.1:${server.address().port}` } });
}

test('a replay sends the same events with the same numbers', bounded, async (t) => {
    const s = await serveModel(t);
    for (const body of [{ input: '<<say one two three four five six seven eight nine>>' },
        { input: '<<say Grüße, 世界 🌍>><<chunk 1>>' },
        { input: '<<say Let me see.>><<tool get_weather {"city":"Oslo"}>><<tool get_weather {}>>',
            tools: [weather] },
        { input: 'part <<finish length>>' }]) {
        const first = await streamed(s, body);
        const { id } = first[0].response;
        assert.ok(first.length > 6);
        assert.deepEqual(await replayed(s, id), first);
        assert.deepEqual(await replayed(s, id, '&starting_after=3'), first.slice(4));
        assert.deepEqual(await replayed(s, id, `&starting_after=${first.length}`), []);
        const { json } = await s.get(`/v1/responses/${id}`);
        assert.deepEqual(first.at(-1).response, json);
    }
});

test('a response without a stream can be replayed, however long it is', bounded, async (t) => {
    const s = await serveModel(t);
    const { json } = await create(s, { input: '<<size 3000000>>' });
    const told = await replayed(s, json.id);
    assert.deepEqual(told.map((event) => event.sequence_number), told.map((_, i) => i));
    assert.equal(told.filter((event) => event.type === 'response.output_text.delta')
        .map((event) => event.delta).join('').length, 3000000);
    assert.deepEqual(told.at(-1).response, json);
});

test('reasoning and concurrent calls become items', bounded, async (t) => {
    const call = (index, part, name) => ({ tool_calls: [{ index, ...(name && { id: `call_${index}`,
        type: 'function' }), function: { ...(name && { name }), arguments: part } }] });
    const s = await serveDeltas(t, [{ reasoning_content: 'I th' }, { reasoning_content: 'ink.' },
        { content: 'Well' }, call(0, '{"a":', 'one'), call(1, '', 'two'), call(0, '1}'),
        call(1, '{"b":2}'), call(2, '', 'three')], 'tool_calls');
    const told = await streamed(s, { input: 'x',
        tools: ['one', 'two', 'three'].map((name) => ({ ...weather, name })) });
    const { response } = told.at(-1);
    assert.equal(response.status, 'completed');
    assert.deepEqual(response.output.map((item) => [item.type, item.arguments]),
        [['reasoning', undefined], ['message', undefined], ['function_call', '{"a":1}'],
            ['function_call', '{"b":2}'], ['function_call', '{}']]);
    assert.deepEqual(response.output[0].content, [{ type: 'reasoning_text', text: 'I think.' }]);
    assert.equal(new Set(response.output.map((item) => item.id)).size, 5);
    for (const [index, item] of response.output.entries()) {
        const own = told.filter((event) => event.output_index === index);
        assert.equal(own[0].type, 'response.output_item.added');
        assert.deepEqual(own.at(-1), { ...own.at(-1), type: 'response.output_item.done', item });
        assert.ok(own.slice(1, -1).every((event) => event.item_id === item.id));
        const said = own.filter((event) => event.type.endsWith('.delta')).map((event) => event.delta);
        const done = own.find((event) => /(text|arguments)\.done$/.test(event.type));
        assert.equal(said.join(''), done.text ?? done.arguments);
    }
    assert.deepEqual(await replayed(s, response.id), told);
    assert.deepEqual((await s.get(`/v1/responses/${response.id}`)).json, response);
});

test('a call without an id gets one, the same everywhere', bounded, async (t) => {
    const s = await serveDeltas(t, [{ tool_calls: [{ index: 0, type: 'function',
        function: { name: 'get_weather', arguments: '{}' } }] }], 'tool_calls');
    const told = await streamed(s, { input: 'x', tools: [weather] });
    const [call] = told.at(-1).response.output;
    assert.match(call.call_id, /^call_/);
    assert.equal(told[2].item.call_id, call.call_id);
    assert.deepEqual((await s.get(`/v1/responses/${told[0].response.id}`)).json.output, [call]);
});

test('a background stream continues without its reader, who can read the rest later', bounded, async (t) => {
    const s = await serveModel(t);
    const first = await open(s.port, 'POST', '/v1/responses', { body: { model: 'mock-model',
        input: '<<size 640>><<stall after=3>>', background: true, stream: true } });
    const { data: begun } = await first.next((event) => event.event === 'response.created');
    const { data: delta } = await first.next((event) => event.event === 'response.output_text.delta');
    first.leave();
    const { id } = begun.response;
    const rest = await open(s.port, 'GET',
        `/v1/responses/${id}?stream=true&starting_after=${delta.sequence_number}`);
    await rest.next((event) => event.event === 'response.output_text.delta');
    await s.release();
    const seen = (await rest.end()).map(({ data }) => data);
    const all = await replayed(s, id);
    const last = all.at(-1).response;
    assert.deepEqual(seen, all.slice(delta.sequence_number + 1));
    assert.deepEqual(all.slice(0, 2).map(({ response }) => response.status),
        ['in_progress', 'in_progress']);
    assert.equal(textOf(last).length, 640);
    assert.equal(last.background, true);
});

test('a background response fails if the server dies', bounded, async (t) => {
    const dir = workspace(t);
    const one = await serveModel(t, { dir, config: 'turn:\n  lease: 1s\n' });
    const { json: { id } } = await create(one, { input: 'x <<hang>>', background: true });
    const { json: chained } = await create(one, { input: 'first' });
    await one.untilAsked(2);
    await one.stop('SIGKILL');
    const two = await serveModel(t, { dir, model: one.model });
    const response = await ended(two, id);
    assert.equal(response.status, 'failed');
    assert.equal(response.error.code, 'server_error');
    assert.match(response.error.message, /stopped|died/);
    assert.deepEqual(response.output, []);
    const told = await replayed(two, id);
    assert.deepEqual(told.map((event) => event.type),
        ['response.created', 'response.in_progress', 'response.failed']);
    const { json: next } = await create(two, { input: 'second', previous_response_id: chained.id });
    assert.equal(textOf(next), 'echo: second');
});

test('a background response fails if the server stops', bounded, async (t) => {
    const dir = workspace(t);
    const one = await serveModel(t, { dir, config: 'server:\n  drain: 0s\n' });
    const { json: { id } } = await create(one, { input: 'x <<hang>>', background: true });
    await one.untilAsked(1);
    await one.stop();
    const two = await serveModel(t, { dir, model: one.model });
    const { json } = await two.get(`/v1/responses/${id}`);
    assert.equal(json.status, 'failed');
    assert.equal(json.error.code, 'server_error');
});

test('responses survive a restart and can be continued', bounded, async (t) => {
    const dir = workspace(t);
    const one = await serveModel(t, { dir });
    const { json: first } = await create(one, { input: '<<tool get_weather {"city":"Oslo"}>>',
        tools: [weather] });
    await one.stop();
    const two = await serveModel(t, { dir, model: one.model });
    assert.deepEqual((await two.get(`/v1/responses/${first.id}`)).json, first);
    const { json: second } = await create(two, { previous_response_id: first.id, tools: [weather],
        input: [{ type: 'function_call_output', call_id: first.output[0].call_id, output: 'cold' }] });
    assert.equal(textOf(second), 'tool said: cold');
});

test('instructions apply only to the response of their request', bounded, async (t) => {
    const s = await serveModel(t);
    const systems = async () => (await s.asked()).at(-1).messages
        .filter(({ role }) => role === 'system' || role === 'developer').map(({ content }) => content);
    const tools = [weather];
    const { json: conversation } = await s.post('/v1/conversations', {});
    for (const chain of [(last) => ({ previous_response_id: last?.id }),
        () => ({ conversation: conversation.id })]) {
        const { json: one } = await create(s,
            { ...chain(), input: 'one', instructions: 'Speak like a pirate.', tools });
        assert.deepEqual(await systems(), ['Speak like a pirate.']);
        assert.equal(one.instructions, 'Speak like a pirate.');
        const { json: two } = await create(s, { ...chain(one), input: 'two', tools });
        assert.deepEqual(await systems(), []);
        assert.equal(two.instructions, null);
        const { json: three } = await create(s,
            { ...chain(two), input: 'three', instructions: 'Be brief.', tools });
        assert.deepEqual(await systems(), ['Be brief.']);
        const { json: four } = await create(s, { ...chain(three), input: 'four' });
        assert.deepEqual(await systems(), []);
        assert.equal((await s.get(`/v1/responses/${four.id}`)).json.instructions, null);
    }
});

test('two responses that continue the same one do not see each other', bounded, async (t) => {
    const s = await serveModel(t);
    const { json: root } = await create(s, { input: 'root' });
    const names = Array.from({ length: 8 }, (_, i) => `branch ${i}`);
    const made = await Promise.all(names.map((input) =>
        create(s, { input: `${input} <<hang ms=20>>`, previous_response_id: root.id })));
    assert.deepEqual(made.map(({ json }) => textOf(json)), names.map((name) => `echo: ${name}`));
    for (const { messages } of (await s.asked()).slice(1)) {
        assert.equal(messages.length, 3);
        assert.equal(messages[0].content, 'root');
    }
    assert.equal((await sessions(s)).length, 8);
});

test('a response that continues a conversation\'s response is not part of the conversation', bounded, async (t) => {
    const s = await serveModel(t);
    const { json: { id } } = await s.post('/v1/conversations', {});
    const { json: one } = await create(s, { input: 'one', conversation: id });
    const { json: two } = await create(s, { input: 'two', previous_response_id: one.id });
    assert.equal(two.conversation, null);
    const { json } = await s.get(`/api/v1/sessions/${sessionOf(id)}/messages`);
    assert.deepEqual(json.messages.map((message) => message.content), ['one', 'echo: one']);
});

test('a failed or unstored response leaves no trace', bounded, async (t) => {
    const s = await serveModel(t);
    assert.equal((await create(s, { input: 'x', store: false })).code, 200);
    assert.equal((await create(s, { input: '<<fail status=500>>' })).code, 500);
    assert.equal((await create(s, { input: '<<fail status=500>>', store: false })).code, 500);
    await until(async () => (await sessions(s)).length === 0);
    const { json: kept } = await create(s, { input: 'kept' });
    assert.equal((await create(s, { input: 'y', store: false, previous_response_id: kept.id })).code,
        200);
    await until(async () => (await sessions(s)).length === 1);
    assert.equal((await s.ask('DELETE', `/v1/responses/${kept.id}`)).code, 200);
    assert.deepEqual(await sessions(s), []);
});

test('a client that disconnects stops its turn', bounded, async (t) => {
    const s = await serveModel(t);
    const { json: { id } } = await s.post('/v1/conversations', {});
    const request = http.request({ port: s.port, host: '127.0.0.1', method: 'POST',
        path: '/v1/responses', headers: { 'content-type': 'application/json' } });
    request.on('error', () => {});
    request.end(JSON.stringify({ model: 'mock-model', input: 'x <<hang>>', conversation: id }));
    await s.untilAsked(1);
    request.destroy();
    const { json } = await create(s, { input: 'next', conversation: id });
    assert.equal(textOf(json), 'echo: next');
    assert.deepEqual((await s.asked()).at(-1).messages.map((message) => message.content), ['next']);
});

test('tenants do not see the responses of other tenants', bounded, async (t) => {
    const dir = workspace(t);
    const [a, b] = ['a', 'b'].map((name) =>
        makeKey(dir, '--tenant', name, '--role', 'write').key);
    const s = await serveModel(t, { dir });
    const { json: { id } } = await create(s, { input: 'x', background: true }, { key: a });
    for (const [method, path, code] of [['GET', '', 404], ['DELETE', '', 404],
        ['POST', '/cancel', 404], ['GET', '/input_items', 404], ['GET', '?stream=true', 404]])
        assert.equal((await s.ask(method, `/v1/responses/${id}${path}`, { key: b })).code, code);
    const refused = await create(s, { input: 'y', previous_response_id: id }, { key: b });
    assert.equal(refused.json.error.code, 'previous_response_not_found');
    assert.equal((await s.get(`/v1/responses/${id}`, { key: a })).code, 200);
});

test('a repeated request with the same key is answered once', bounded, async (t) => {
    const s = await serveModel(t);
    const headers = { 'idempotency-key': 'k1' };
    const one = await create(s, { input: 'x' }, { headers });
    const two = await create(s, { input: 'x' }, { headers });
    assert.equal(two.code, 200);
    assert.deepEqual(two.json, one.json);
    assert.equal((await s.asked()).length, 1);
});

test('references are replaced by their items', bounded, async (t) => {
    const s = await serveModel(t);
    const { json: one } = await create(s, { input: 'one' });
    await create(s, { input: [{ type: 'item_reference', id: one.output[0].id },
        { role: 'user', content: 'two' }] });
    assert.deepEqual((await s.asked()).at(-1).messages.map(({ role, content }) => [role, content]),
        [['assistant', 'echo: one'], ['user', 'two']]);
    const unknown = await create(s, { input: [{ type: 'item_reference', id: 'msg_none' }] });
    assert.deepEqual([unknown.code, unknown.json.error.param], [400, 'input']);
});

test('too much input is refused if truncation is disabled, and cut otherwise', bounded, async (t) => {
    const s = await serveModel(t, { config: 'context:\n  max_tokens: 2000\n' });
    const long = 'word '.repeat(1500);
    const { json: one } = await create(s, { input: long });
    const refused = await create(s, { input: long, previous_response_id: one.id,
        truncation: 'disabled' });
    assert.deepEqual([refused.code, refused.json.error.code], [400, 'context_length_exceeded']);
    const cut = await create(s, { input: long, previous_response_id: one.id, truncation: 'auto' });
    assert.equal(cut.code, 200, cut.text);
});

test('the tokens of the input are counted', bounded, async (t) => {
    const s = await serveModel(t);
    const count = async (body) => (await s.post('/v1/responses/input_tokens',
        { model: 'mock-model', ...body })).json;
    const small = await count({ input: 'hello' });
    assert.deepEqual(Object.keys(small), ['object', 'input_tokens']);
    assert.equal(small.object, 'response.input_tokens');
    assert.ok(small.input_tokens > 0 && small.input_tokens < 20);
    const { json: { id } } = await create(s, { input: 'a longer message that counts' });
    const more = await count({ input: 'hello', previous_response_id: id, instructions: 'Be brief.',
        tools: [weather] });
    assert.ok(more.input_tokens > small.input_tokens + 10, JSON.stringify(more));
    assert.equal((await sessions(s)).length, 1);
    assert.equal((await s.asked()).length, 1);
});

test('a compaction replaces the history', bounded, async (t) => {
    const s = await serveModel(t);
    const { json: { id } } = await create(s, { input: 'the sky is green' });
    const { code, json } = await s.post('/v1/responses/compact',
        { model: 'mock-model', previous_response_id: id, input: 'and so is the sea' });
    assert.equal(code, 200);
    assert.deepEqual(Object.keys(json), ['id', 'object', 'created_at', 'output', 'usage']);
    assert.equal(json.object, 'response.compaction');
    assert.equal(json.output[0].type, 'compaction');
    assert.ok(json.usage.total_tokens > 0);
    const [, asked] = await s.asked();
    assert.deepEqual(asked.messages.slice(0, 3).map((message) => message.content),
        ['the sky is green', 'echo: the sky is green', 'and so is the sea']);
    assert.equal((await create(s, { input: [...json.output, { role: 'user', content: 'so?' }] })).code,
        200);
    await until(async () => (await sessions(s)).length === 2);
});

test('a compaction of another server is refused', bounded, async (t) => {
    const s = await serveModel(t);
    const { code, json } = await create(s,
        { input: [{ type: 'compaction', encrypted_content: 'not ours!' }] });
    assert.equal(code, 400);
    assert.match(json.error.message, /not a compaction that this server made/);
});

test('tools that no model here can run are left out and listed', bounded, async (t) => {
    const s = await serveModel(t);
    const tool = { type: 'function', name: 'f', parameters: { type: 'object' } };
    const { code, json } = await create(s, { metadata: { mine: 'yes' },
        tools: [{ type: 'web_search' }, tool, { type: 'namespace', name: 'agents', tools: [tool] }],
        input: [{ type: 'web_search_call', id: 'ws_1', status: 'completed' },
            { role: 'user', content: 'hello' }] });
    assert.equal(code, 200, JSON.stringify(json));
    assert.deepEqual(json.metadata, { mine: 'yes', palaver_left_out: 'web_search, function agents.f' });
    assert.equal(json.tools[1].strict, null);
    const [asked] = await s.asked();
    assert.deepEqual(asked.tools.map((offered) => offered.function.name), ['f']);
    assert.deepEqual(asked.messages.map((message) => message.content), ['hello']);
});

test('errors name the invalid field and change nothing', bounded, async (t) => {
    const s = await serveModel(t);
    for (const [body, param, pattern] of [
        [{}, 'input', /missing/],
        [{ input: [] }, 'input', /at least/],
        [{ input: 'x', temperature: 3 }, 'temperature', /from 0 to 2/],
        [{ input: 'x', text: { format: { type: 'json_schema', name: 'n' } } }, 'text.format.schema', /Schema/],
        [{ input: 'x', text: { format: { type: 'xml' } } }, 'text.format.type', /json_schema/],
        [{ input: 'x', tool_choice: 'any' }, 'tool_choice', /required/],
        [{ input: 'x', truncation: 'some' }, 'truncation', /disabled/],
        [{ input: 'x', background: true, store: false }, 'store', /store/],
        [{ input: 'x', max_output_tokens: 0 }, 'max_output_tokens', /from 1/],
        [{ input: 'x', reasoning: 'high' }, 'reasoning', /object/],
        [{ input: 'x', prompt: { id: 'p' } }, 'prompt', /not supported/]]) {
        const { code, json } = await create(s, body);
        assert.equal(code, 400, JSON.stringify(body));
        assert.equal(json.error.type, 'invalid_request_error');
        assert.equal(json.error.param, param);
        assert.match(json.error.message, pattern);
    }
    assert.deepEqual(await sessions(s), []);
    const { json: { id } } = await create(s, { input: 'x' });
    for (const query of ['limit=0', 'order=up', 'after=msg_none'])
        assert.equal((await s.get(`/v1/responses/${id}/input_items?${query}`)).code, 400, query);
});
