// OpenAI's API in cases that the shared suites of tests/conformance do not cover: chat completions,
// forwarded and with a session; models; the same conversations in other APIs.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { MockModel } from '../../conformance/mock-model.mjs';
import { ask, makeKey, serve, workspace } from '../support.mjs';

const say = (content) => ({ role: 'user', content });

// A model service that calls `handle` for each request, and keeps the requests.
async function upstream(t, handle) {
    const asked = [];
    const server = http.createServer((request, response) => {
        const pieces = [];
        request.on('data', (piece) => pieces.push(piece));
        request.on('end', () => {
            const body = Buffer.concat(pieces).toString();
            asked.push({ url: request.url, headers: request.headers, body });
            handle(response, body, request);
        });
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    t.after(() => { server.closeAllConnections(); server.close(); });
    return { asked, url: `http://127.0.0.1:${server.address().port}/v1` };
}

const over = (url) => ['--provider', 'openai', '--provider-url', url, '--model', 'm-1'];

async function mocked(t, options = {}) {
    const mock = new MockModel();
    const url = await mock.listen();
    t.after(() => mock.close());
    const s = await serve(t, { ...options, args: [...over(`${url}/v1`), ...options.args ?? []] });
    const requests = async (mark) => {
        const response = await fetch(`${url}/__requests?contains=${encodeURIComponent(mark)}`);
        return (await response.json()).requests;
    };
    return { ...s, requests };
}

const chat = (s, body, options) => s.post('/v1/chat/completions', body, options);
const inSession = (s, key, body) => chat(s, body, { headers: { 'x-palaver-session': key } });
const chunksOf = (text) => text.split('\n\n').filter((frame) => frame.startsWith('data: {'))
    .map((frame) => JSON.parse(frame.slice(6)));
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? '').join('');

// Reads a response piece by piece.
function open(port, body, headers = {}) {
    const request = http.request({ host: '127.0.0.1', port, method: 'POST', agent: false,
        path: '/v1/chat/completions',
        headers: { ...headers, 'content-type': 'application/json' } });
    const opened = new Promise((resolve, reject) => {
        request.on('response', (response) => resolve({ request, response }));
        request.on('error', reject);
    });
    request.end(JSON.stringify(body));
    return Object.assign(opened, { request });
}

async function until(response, pattern) {
    let text = '';
    for await (const piece of response) {
        text += piece;
        if (pattern.test(text)) return text;
    }
    throw new Error(`it ended with ${text}`);
}

function assertFailure(answer, code, { type = 'invalid_request_error', param = null, name } = {}) {
    assert.equal(answer.code, code, answer.text);
    assert.deepEqual(Object.keys(answer.json), ['error']);
    assert.deepEqual(Object.keys(answer.json.error), ['message', 'type', 'param', 'code']);
    assert.equal(answer.json.error.type, type);
    assert.equal(answer.json.error.param, param);
    if (name !== undefined) assert.equal(answer.json.error.code, name);
    assert.ok(answer.headers['x-request-id']);
}

// ---- Models ----

test('models can be listed and read', async (t) => {
    const s = await mocked(t);
    const list = (await s.get('/v1/models')).json;
    assert.equal(list.object, 'list');
    const ids = list.data.map((model) => model.id);
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(ids.includes('mock-model') && ids.includes('m-1'), `${ids}`);
    for (const model of list.data) {
        assert.equal(model.object, 'model');
        assert.ok(Number.isInteger(model.created) && typeof model.owned_by === 'string');
    }
    assert.equal((await s.get('/v1/models/mock-model')).json.id, 'mock-model');
    assertFailure(await s.get('/v1/models/none'), 404, { param: 'model', name: 'model_not_found' });
});

test('all errors have OpenAI\'s format', async (t) => {
    const dir = workspace(t);
    makeKey(dir, '--role', 'admin');
    const s = await serve(t, { dir });
    assertFailure(await s.get('/v1/models'), 401, { name: 'invalid_api_key' });
    assertFailure(await s.get('/v1/nowhere'), 404);
    assertFailure(await s.ask('PUT', '/v1/conversations', { body: {} }), 405);
});

// ---- Passed on ----

test('a chat completion is forwarded unchanged in both directions', async (t) => {
    const answer = '{ "id":"x", "choices":[], "future": [1, 2.50] }';
    const up = await upstream(t, (response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'x-ratelimit-left': '7' });
        response.end(answer);
    });
    const s = await serve(t, { args: over(up.url) });
    const sent = '{"messages" : [{"role":"user","content":"a"}],\n "model":"m-2","odd":{"b":1e3}}';
    const got = await chat(s, sent);
    assert.deepEqual([got.code, got.text], [200, answer]);
    assert.equal(got.headers['x-ratelimit-left'], '7');
    assert.deepEqual([up.asked[0].url, up.asked[0].body], ['/v1/chat/completions', sent]);
    await chat(s, { messages: [say('a')] });
    assert.deepEqual(JSON.parse(up.asked[1].body), { model: 'm-1', messages: [say('a')] });
    assert.deepEqual((await s.get('/api/v1/sessions')).json.sessions, []);
});

test('a stream is forwarded byte by byte as it arrives', async (t) => {
    const first = 'data: {"a":1}\r\n\r\n: x\n\ndata: {"b"';
    let go;
    const up = await upstream(t, (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(first);
        go = () => response.end(':2}\n\ndata: [DONE]\n\n');
    });
    const s = await serve(t, { args: over(up.url) });
    const { response } = await open(s.port, { model: 'm', stream: true, messages: [] });
    assert.match(response.headers['content-type'], /^text\/event-stream/);
    let text = '';
    for await (const piece of response) {
        text += piece;
        // Only complete frames are compared, since a heartbeat can be between them.
        if (text === 'data: {"a":1}\r\n\r\n: x\n\n') go();
    }
    assert.equal(text, `${first}:2}\n\ndata: [DONE]\n\n`);
});

test('errors of the service are forwarded, and an HTML page becomes an OpenAI error', async (t) => {
    const answers = [
        [429, { 'content-type': 'application/json', 'retry-after': '7' },
            '{"error":{"message":"slow","type":"tokens","param":null,"code":"rate"}}'],
        [400, { 'content-type': 'application/json' }, '{"error":{"message":"no"}}'],
        [503, { 'content-type': 'text/html', 'retry-after-ms': '20' }, '<h1>down</h1>'],
        [200, { 'content-type': 'application/json' }, '{"id":'],
        [401, { 'content-type': 'application/json' },
            '{"error":{"message":"key sk-very-secret-1"}}'],
    ];
    const up = await upstream(t, (response) => {
        const [code, headers, body] = answers.shift();
        response.writeHead(code, headers);
        response.end(body);
    });
    const config = `providers:\n  - name: main\n    kind: openai\n    url: ${up.url}\n`
        + '    api_key_env: SECRET_OF_TEST\n    model: m-1\n';
    const s = await serve(t, { config, args: ['--provider', 'main', '--config', 'palaver.yaml'],
        env: { SECRET_OF_TEST: 'sk-very-secret-1' } });
    const slow = await chat(s, { messages: [] });
    assert.deepEqual([slow.code, slow.headers['retry-after'], slow.json.error.code],
        [429, '7', 'rate']);
    const no = await chat(s, { messages: [] });
    assert.deepEqual([no.code, no.text], [400, '{"error":{"message":"no"}}']);
    const page = await chat(s, { messages: [] });
    assertFailure(page, 503, { type: 'server_error' });
    assert.equal(page.headers['retry-after-ms'], '20');
    assertFailure(await chat(s, { messages: [] }), 502, { type: 'server_error' });
    const denied = await chat(s, { messages: [] });
    assert.equal(denied.code, 401);
    assert.ok(!denied.text.includes('very-secret'), denied.text);
    assert.equal(up.asked[0].headers.authorization, 'Bearer sk-very-secret-1');
});

test('forwarded requests are counted, and the budget of the key stops them', async (t) => {
    const usage = { prompt_tokens: 90, completion_tokens: 20 };
    const up = await upstream(t, (response, body) => {
        if (JSON.parse(body).stream) {
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
        } else {
            response.writeHead(200, { 'content-type': 'application/json' });
            response.end(JSON.stringify({ model: 'm-1-2026', choices: [], usage }));
        }
    });
    const dir = workspace(t);
    const { key } = makeKey(dir, '--max-tokens', '200');
    const { key: other } = makeKey(dir, '--max-tokens', '200', '--tenant', 'other');
    const config = 'models:\n  - name: m-1\n    price: {input: 1, output: 10}\n';
    const s = await serve(t, { dir, config, args: ['--config', 'palaver.yaml', ...over(up.url)] });
    // The row is written after the response.
    const counted = async (calls) => {
        for (;;) {
            const { json } = await s.get('/api/v1/usage', { key });
            if (json.calls >= calls) return json;
        }
    };
    assert.equal((await chat(s, { messages: [] }, { key })).code, 200);
    const one = await counted(1);
    assert.deepEqual([one.calls, one.input_tokens, one.output_tokens, one.cost_micros],
        [1, 90, 20, 290]);
    assert.equal((await chat(s, { messages: [], stream: true }, { key })).code, 200);
    assert.equal((await counted(2)).input_tokens, 180);
    for (const stream of [false, true]) {
        const refused = await chat(s, { messages: [], stream }, { key });
        assertFailure(refused, 429, { type: 'insufficient_quota', name: 'insufficient_quota' });
        assert.match(refused.json.error.message,
            /^the budget of the tenant is used up: 220 of 200 tokens/);
        assert.equal(refused.headers['x-should-retry'], 'false');
        assert.equal(refused.headers['retry-after'], undefined);
    }
    assert.equal(up.asked.length, 2);
    assert.equal((await chat(s, { messages: [] }, { key: other })).code, 200);
});

test('a forwarded stream is counted, even if the service reports no usage', async (t) => {
    const usage = { prompt_tokens: 90, completion_tokens: 20 };
    let tells = true;
    const up = await upstream(t, (response, body) => {
        const asked = JSON.parse(body).stream_options?.include_usage;
        const frame = (value) => response.write(`data: ${JSON.stringify(value)}\n\n`);
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        frame({ choices: [{ index: 0, delta: { content: 'one two three four five ' } }], usage: null });
        frame({ choices: [{ index: 0, delta: { content: 'six seven eight nine ten' } }] });
        if (asked && tells) frame({ choices: [], usage });
        response.end('data: [DONE]\n\n');
    });
    const dir = workspace(t);
    const keys = ['told', 'asked', 'counted', 'free'].map((tenant) =>
        makeKey(dir, ...tenant === 'free' ? [] : ['--max-tokens', '1000'], '--tenant', tenant).key);
    const s = await serve(t, { dir, args: over(up.url) });
    const counted = async (key) => {
        for (;;) {
            const { json } = await s.get('/api/v1/usage', { key });
            if (json.calls >= 1) return [json.input_tokens, json.output_tokens];
        }
    };
    const body = { stream: true, messages: [{ role: 'user', content: 'count from one to ten, please' }] };
    // The server requests the usage for itself; the client does not see it.
    const told = await chat(s, body, { key: keys[0] });
    assert.equal(JSON.parse(up.asked[0].body).stream_options.include_usage, true);
    assert.equal(chunksOf(told.text).length, 2);
    assert.match(told.text, /six seven[\s\S]*\n\ndata: \[DONE\]\n\n$/);
    assert.deepEqual(await counted(keys[0]), [90, 20]);
    const wanted = await chat(s, { ...body, stream_options: { include_usage: true } },
        { key: keys[1] });
    assert.deepEqual(chunksOf(wanted.text).at(-1).usage, usage);
    assert.deepEqual(await counted(keys[1]), [90, 20]);
    // A service that reports nothing, and a key without a budget, whose request is forwarded
    // unchanged.
    tells = false;
    await chat(s, body, { key: keys[2] });
    await chat(s, body, { key: keys[3] });
    assert.equal(up.asked[3].body, JSON.stringify({ model: 'm-1', ...body }));
    for (const key of [keys[2], keys[3]]) {
        const [input, output] = await counted(key);
        assert.ok(input >= 6 && input < 40, `${input}`);
        assert.ok(output >= 8 && output < 30, `${output}`);
    }
    // So a stream stops at the budget.
    const codes = [];
    for (let i = 0; i < 60 && codes.at(-1) !== 429; i++) {
        codes.push((await chat(s, body, { key: keys[2] })).code);
        if (codes.at(-1) === 429) break;
        for (let calls = 0; calls < i + 2;)
            calls = (await s.get('/api/v1/usage', { key: keys[2] })).json.calls;
    }
    assert.equal(codes.at(-1), 429, 'the budget of 1000 tokens is used up by 60 streams');
});

test('concurrent calls do not exceed a budget together', async (t) => {
    const waiting = [];
    const answer = (response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ choices: [{ index: 0, finish_reason: 'stop',
            message: { role: 'assistant', content: 'ok' } }],
        usage: { prompt_tokens: 15, completion_tokens: 4 } }));
    };
    let first;
    const up = await upstream(t, (response) => { waiting.push(response); first?.(); });
    const dir = workspace(t);
    const { key } = makeKey(dir, '--max-tokens', '20');
    const s = await serve(t, { dir, args: over(up.url) });
    const { id } = (await s.post('/api/v1/sessions', {}, { key })).json;
    const ways = [
        () => chat(s, { messages: [{ role: 'user', content: 'hi' }] }, { key }),
        () => chat(s, { stream: true, messages: [{ role: 'user', content: 'hi' }] }, { key }),
        () => s.post('/api/v1/chat', { message: 'hi' }, { key }),
        () => s.post('/v1/responses', { input: 'hi' }, { key }),
    ];
    const begun = new Promise((resolve) => { first = resolve; });
    const running = ways[0]();
    await begun;
    // While the request runs, the rest of the budget is reserved for it.
    for (const way of ways) {
        const refused = await way();
        assert.equal(refused.code, 429, refused.text);
        assert.match(refused.text, /running calls have reserved the rest/);
    }
    answer(waiting.pop());
    assert.equal((await running).code, 200);
    // It used 19 tokens. One token is left, so one more request can begin, but not two at the same
    // time.
    const next = new Promise((resolve) => { first = resolve; });
    const turn = s.post(`/api/v1/sessions/${id}/turns`, { message: 'hi' }, { key });
    await Promise.race([next, turn.then(({ text }) => assert.fail(`it did not begin: ${text}`))]);
    assert.equal((await ways[0]()).code, 429);
    answer(waiting.pop());
    assert.equal((await turn).code, 200);
    const used = (await s.get('/api/v1/usage', { key })).json;
    assert.deepEqual([used.calls, used.input_tokens + used.output_tokens], [2, 38]);
});

test('large responses are forwarded, counted and limited', async (t) => {
    const answer = (pad) => JSON.stringify({ id: 'c', object: 'chat.completion', model: 'm-1', pad,
        choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 } });
    const bodies = {
        values: [200, answer(Array(2e6).fill(1))], // more than a turn would read
        garbage: [200, '{'.repeat(2e6)],
        error: [400, JSON.stringify({ error: { message: 'e'.repeat(2e6) } })],
    };
    const model = await upstream(t, (response, body) => {
        const [code, text] = bodies[JSON.parse(body).user];
        response.writeHead(code, { 'content-type': 'application/json' }).end(text);
    });
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'write', '--max-tokens', '1000000');
    const s = await serve(t, { dir, args: over(model.url) });
    const passed = (user) =>
        s.post('/v1/chat/completions', { user, messages: [say('a')] }, { key });
    const large = await passed('values');
    assert.equal(large.code, 200);
    assert.ok(large.text === bodies.values[1], 'byte for byte');
    const garbage = await passed('garbage');
    assert.equal(garbage.code, 502);
    assert.match(garbage.json.error.message, /is not JSON/);
    const error = await passed('error');
    assert.equal(error.code, 400);
    assert.match(error.json.error.message, /not an error in JSON/);
    for (;;) { // the ledger is written after the response
        const { json } = await s.get('/api/v1/usage', { key });
        if (json.input_tokens) {
            assert.deepEqual([json.input_tokens, json.output_tokens], [7, 3]);
            break;
        }
    }
});

test('one long frame is forwarded completely', async (t) => {
    const picture = 'x'.repeat(7e6);
    const up = await upstream(t, (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
        response.write(`data: {"choices":[{"index":0,"delta":{"content":"${picture}"}}]}\n\n`);
        response.write('data: {"choices":[{"index":0,"delta":{"content":"b"}}]}\r\n\r\n');
        response.end('data: [DONE]\n\n');
    });
    const s = await serve(t, { args: over(up.url) });
    const got = await chat(s, { stream: true, messages: [] });
    assert.equal(got.code, 200);
    assert.equal(got.text.length, picture.length + 3 * 56 + 2 + 2 + 14, 'nothing is cut off');
    assert.ok(got.text.endsWith('data: [DONE]\n\n'));
});

test('a broken stream ends with an error and without [DONE]', async (t) => {
    const up = await upstream(t, (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"a":1}\n\ndata: {"half');
        setImmediate(() => response.destroy());
    });
    const s = await serve(t, { args: over(up.url) });
    const got = await chat(s, { stream: true, messages: [] });
    assert.ok(got.text.startsWith('data: {"a":1}\n\n'), got.text);
    assert.ok(chunksOf(got.text).at(-1).error.message);
    assert.doesNotMatch(got.text, /DONE|half/);
});

test('a client that leaves a stream cancels the model call', async (t) => {
    let closed;
    const gone = new Promise((resolve) => { closed = resolve; });
    const up = await upstream(t, (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"a":1}\n\n');
        response.on('close', closed);
    });
    const s = await serve(t, { args: over(up.url) });
    const { request, response } = await open(s.port, { stream: true, messages: [] });
    await until(response, /"a":1/);
    request.destroy();
    await gone;
});

test('a client that does not wait for the response cancels the model call', async (t) => {
    let closed, asked;
    const gone = new Promise((resolve) => { closed = resolve; });
    const begun = new Promise((resolve) => { asked = resolve; });
    const up = await upstream(t, (response) => {
        response.on('close', closed);
        asked();
    });
    const s = await serve(t, { args: over(up.url) });
    const waiting = open(s.port, { messages: [] });
    await begun;
    waiting.request.destroy();
    await assert.rejects(waiting);
    await gone;
});

test('a server can stop after clients have left', async (t) => {
    const up = await upstream(t, (response, body) => {
        if (!body.includes('hang')) response.end('{}');
    });
    const s = await serve(t, { args: over(up.url) });
    const url = `http://127.0.0.1:${s.port}/v1/chat/completions`;
    const post = (content, signal) => fetch(url,
        { method: 'POST', signal, body: JSON.stringify({ messages: [say(content)] }) });
    await (await post('a')).text();
    const leaving = new AbortController();
    const left = post('hang', leaving.signal);
    while (!up.asked.some(({ body }) => body.includes('hang')))
        await new Promise((resolve) => setImmediate(resolve));
    leaving.abort();
    await assert.rejects(left);
    assert.equal((await s.stop()).code, 0);
});

// ---- Without a service that speaks so ----

test('the built-in model answers chat completions, and nothing is stored', async (t) => {
    const s = await serve(t);
    const system = { role: 'system', content: 'Be brief.' };
    const body = { model: 'echo', messages: [system, say('Hello!')] };
    const whole = await chat(s, body);
    assert.equal(whole.code, 200, whole.text);
    assert.equal(whole.json.object, 'chat.completion');
    assert.match(whole.json.id, /^chatcmpl-[0-9a-f]{32}$/);
    assert.equal(whole.json.model, 'echo');
    const [choice] = whole.json.choices;
    assert.deepEqual([choice.index, choice.finish_reason, choice.message.role],
        [0, 'stop', 'assistant']);
    assert.match(choice.message.content, /Hello!/);
    assert.equal(whole.json.usage.total_tokens,
        whole.json.usage.prompt_tokens + whole.json.usage.completion_tokens);
    const stream = await chat(s,
        { ...body, stream: true, stream_options: { include_usage: true } });
    const chunks = chunksOf(stream.text);
    assert.equal(textOf(chunks), choice.message.content);
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    assert.equal(chunks.at(-2).choices[0].finish_reason, 'stop');
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.ok(chunks.at(-1).usage.total_tokens >= 0);
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    assert.ok(stream.text.endsWith('data: [DONE]\n\n'));
    // The session is erased after the response, not before it.
    while ((await s.get('/api/v1/sessions')).json.sessions.length > 0);
    assert.deepEqual((await s.get('/api/v1/sessions?state=trash')).json.sessions, []);
    assertFailure(await chat(s, { model: 'echo' }), 400, { param: 'messages' });
    assertFailure(await chat(s, { messages: [say('a')], n: 2 }), 400, { param: 'n' });
});

// ---- With a session ----

test('with a session, the server keeps the history', async (t) => {
    const s = await mocked(t);
    const one = await inSession(s, 'ann', { messages: [say('one-1')] });
    assert.equal(one.json.choices[0].message.content, 'echo: one-1');
    assert.ok(one.json.usage.total_tokens > 0);
    assert.equal(one.json.model, 'm-1', 'the one that answered');
    const streamed = await inSession(s, 'bob', { messages: [say('hello')], stream: true });
    assert.deepEqual([...new Set(chunksOf(streamed.text).map((chunk) => chunk.model))],
        ['m-1']);
    const system = { role: 'system', content: 'Be brief.' };
    const two = await inSession(s, 'ann', { messages: [system, say('two-2')], temperature: 0.5 });
    assert.equal(two.json.choices[0].message.content, 'echo: two-2');
    const sent = (await s.requests('two-2')).at(-1).body;
    assert.deepEqual(sent.messages.map(({ role, content }) => `${role}: ${content}`),
        ['system: Be brief.', 'user: one-1', 'assistant: echo: one-1', 'user: two-2']);
    assert.equal(sent.temperature, 0.5);
    const { messages } = (await s.get('/api/v1/sessions/ann/messages')).json;
    assert.deepEqual(messages.map((message) => message.role),
        ['user', 'assistant', 'user', 'assistant']);
    // The same session, by the id that the other routes show.
    const { id } = (await s.get('/api/v1/sessions/ann')).json;
    const conversation = `conv_${id.replaceAll('-', '')}`;
    const items = (await s.get(`/v1/conversations/${conversation}/items?order=asc`)).json;
    assert.deepEqual(items.data.map((item) => item.content[0].text),
        ['one-1', 'echo: one-1', 'two-2', 'echo: two-2']);
    await inSession(s, conversation, { messages: [say('three-3')] });
    assert.equal((await s.requests('three-3')).at(-1).body.messages.length, 5);
    assertFailure(await inSession(s, 'conv_00000000000000000000000000000001',
        { messages: [say('x')] }), 404, { param: 'x-palaver-session' });
});

test('calls of the caller’s tools end the turn, and their results start the next one', async (t) => {
    const s = await mocked(t);
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }];
    for (const stream of [false, true]) {
        const key = `tools-${stream}`;
        const asked = say(`${key} <<tool f {"a":1}>>`);
        const first = await inSession(s, key, { messages: [asked], tools, stream });
        let calls;
        if (stream) {
            const chunks = chunksOf(first.text);
            const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
            assert.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
            calls = [{ ...deltas[0], function: { name: deltas[0].function.name,
                arguments: deltas.map((delta) => delta.function.arguments).join('') } }];
        } else {
            assert.equal(first.json.choices[0].finish_reason, 'tool_calls', first.text);
            assert.equal(first.json.choices[0].message.content, null);
            calls = first.json.choices[0].message.tool_calls;
        }
        assert.equal(calls[0].type, 'function');
        assert.deepEqual(calls[0].function, { name: 'f', arguments: '{"a":1}' });
        const second = await inSession(s, key,
            { messages: [{ role: 'tool', tool_call_id: calls[0].id, content: '42' }], tools });
        assert.equal(second.json?.choices[0].message.content, 'tool said: 42', second.text);
    }
});

test('a failed turn leaves the conversation unchanged', async (t) => {
    const s = await mocked(t);
    await inSession(s, 'bob', { messages: [say('one')] });
    const failed = await inSession(s, 'bob',
        { messages: [say('<<fail status=429 retry_after=3>>')] });
    assertFailure(failed, 429, { type: 'rate_limit_error' });
    assert.equal(failed.headers['retry-after'], '3');
    const broken = await inSession(s, 'bob',
        { messages: [say('<<say a b c d e f g h i>><<chunk 2>><<cut after=2>>')], stream: true });
    assert.ok(chunksOf(broken.text).at(-1).error, broken.text);
    assert.doesNotMatch(broken.text, /DONE/);
    const { messages } = (await s.get('/api/v1/sessions/bob/messages')).json;
    assert.deepEqual(messages.map((message) => message.content), ['one', 'echo: one']);
});

test('a client that leaves the stream of a turn stops it, and nothing is stored', async (t) => {
    const s = await mocked(t);
    await inSession(s, 'eve', { messages: [say('one')] });
    const { request, response } = await open(s.port,
        { stream: true, messages: [say('<<say abcdefghij>><<chunk 2>><<stall after=2>>')] },
        { 'x-palaver-session': 'eve' });
    await until(response, /"cd"/);
    request.destroy();
    const next = await inSession(s, 'eve', { messages: [say('two')] });
    assert.equal(next.json.choices[0].message.content, 'echo: two', next.text);
    const { messages } = (await s.get('/api/v1/sessions/eve/messages')).json;
    assert.deepEqual(messages.map((message) => message.content),
        ['one', 'echo: one', 'two', 'echo: two']);
});

test('a client that does not wait for the answer stops the turn, and nothing is stored', async (t) => {
    const s = await mocked(t);
    await inSession(s, 'eva', { messages: [say('one')] });
    const waiting = open(s.port, { messages: [say('hung-1 <<hang>>')] },
        { 'x-palaver-session': 'eva' });
    while ((await s.requests('hung-1')).length === 0);
    waiting.request.destroy();
    await assert.rejects(waiting);
    const next = await inSession(s, 'eva', { messages: [say('two')] });
    assert.equal(next.json.choices[0].message.content, 'echo: two', next.text);
    const { messages } = (await s.get('/api/v1/sessions/eva/messages')).json;
    assert.deepEqual(messages.map((message) => message.content),
        ['one', 'echo: one', 'two', 'echo: two']);
});

// ---- Conversations ----

test('the items of a message keep their ids when one of them is deleted', async (t) => {
    const s = await serve(t);
    const { id } = (await s.post('/v1/conversations', {})).json;
    const items = `/v1/conversations/${id}/items`;
    const call = (n) => ({ type: 'function_call', call_id: `c${n}`, name: 'f', arguments: '{}' });
    const created = (await s.post(items, { items: [say('q'),
        { role: 'assistant', content: 'a' }, call(1), call(2), call(3)] })).json.data;
    const ids = created.map((item) => item.id);
    assert.equal(new Set(ids).size, 5);
    assert.equal((await s.ask('DELETE', `${items}/${ids[2]}`)).json.id, id);
    const left = async () => (await s.get(`${items}?order=asc`)).json.data.map((item) => item.id);
    assert.deepEqual(await left(), [ids[0], ids[1], ids[3], ids[4]]);
    assert.equal((await s.get(`${items}/${ids[3]}`)).json.call_id, 'c2');
    assertFailure(await s.get(`${items}/${ids[2]}`), 404);
    // A page continues after an item that was deleted.
    const page = (await s.get(`${items}?order=asc&after=${ids[2]}`)).json;
    assert.deepEqual(page.data.map((item) => item.id), [ids[3], ids[4]]);
    assert.equal((await s.ask('DELETE', `${items}/${ids[1]}`)).code, 200);
    assert.deepEqual(await left(), [ids[0], ids[3], ids[4]]);
});

test('replacing the metadata keeps the session\'s settings', async (t) => {
    const s = await serve(t);
    const metadata = { turn: { model: 'm' }, a: 'b' };
    const session = (await s.post('/api/v1/sessions', { metadata })).json;
    const path = `/v1/conversations/conv_${session.id.replaceAll('-', '')}`;
    assert.deepEqual((await s.get(path)).json.metadata, { a: 'b' });
    assert.deepEqual((await s.post(path, { metadata: { c: 'd' } })).json.metadata, { c: 'd' });
    assert.deepEqual((await s.get(`/api/v1/sessions/${session.id}`)).json.metadata,
        { turn: { model: 'm' }, c: 'd' });
    assertFailure(await s.post(path, {}), 400,
        { param: 'metadata', name: 'missing_required_parameter' });
});

test('a reference is replaced by the stored item', async (t) => {
    const s = await serve(t);
    const one = (await s.post('/v1/conversations', { items: [say('mine')] })).json.id;
    const [item] = (await s.get(`/v1/conversations/${one}/items`)).json.data;
    const reference = { type: 'item_reference', id: item.id };
    const two = (await s.post('/v1/conversations', { items: [reference] })).json.id;
    const [copy] = (await s.get(`/v1/conversations/${two}/items`)).json.data;
    assert.deepEqual(copy.content, item.content);
    assert.notEqual(copy.id, item.id);
    await s.ask('DELETE', `/v1/conversations/${one}`);
    assertFailure(await s.post('/v1/conversations', { items: [reference] }), 400,
        { param: 'items' });
});

test('a tenant sees no data of another tenant', async (t) => {
    const dir = workspace(t);
    const [ann, bob] = ['ann', 'bob'].map((tenant) =>
        makeKey(dir, '--role', 'write', '--tenant', tenant).key);
    const s = await serve(t, { dir });
    const as = (key) => (method, target, body) => ask(s.port, method, target, { key, body });
    const { id } = (await as(ann)('POST', '/v1/conversations', { items: [say('a')] })).json;
    const items = `/v1/conversations/${id}/items`;
    const [item] = (await as(ann)('GET', items)).json.data;
    for (const [method, target, body] of [['GET', `/v1/conversations/${id}`],
        ['POST', `/v1/conversations/${id}`, { metadata: {} }],
        ['DELETE', `/v1/conversations/${id}`],
        ['GET', items], ['POST', items, { items: [say('b')] }], ['GET', `${items}/${item.id}`],
        ['DELETE', `${items}/${item.id}`]])
        assertFailure(await as(bob)(method, target, body), 404);
    const reference = { items: [{ type: 'item_reference', id: item.id }] };
    assertFailure(await as(bob)('POST', '/v1/conversations', reference), 400, { param: 'items' });
    assert.equal((await as(ann)('GET', items)).json.data.length, 1);
});

test('a repeated request with the same key does its work once', async (t) => {
    const s = await serve(t);
    const headers = { 'idempotency-key': 'k-1' };
    const body = { items: [say('once')] };
    const first = await s.post('/v1/conversations', body, { headers });
    const second = await s.post('/v1/conversations', body, { headers });
    assert.equal(second.json.id, first.json.id);
    assert.equal((await s.get(`/v1/conversations/${first.json.id}/items`)).json.data.length, 1);
    // The header names the session: the same text in another session is another request.
    const chat = { messages: [say('hello')] };
    const as = (session) => s.post('/v1/chat/completions', chat,
        { headers: { 'idempotency-key': 'k-2', ...session && { 'x-palaver-session': session } } });
    const ann = await as('ann');
    assert.equal(ann.code, 200, ann.text);
    for (const session of ['bob', undefined])
        assert.equal((await as(session)).code, 422, 'another session under the same key');
    assert.equal((await as('ann')).text, ann.text);
});

test('the example of docs/openai.md works as written', async (t) => {
    const page = fs.readFileSync(new URL('../../../docs/openai.md', import.meta.url), 'utf8');
    const [, script] = /```sh\n([\s\S]*?)```/.exec(page);
    const s = await serve(t);
    const run = spawn('bash', ['-euc', script.replace('127.0.0.1:7077', `127.0.0.1:${s.port}`)],
        { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    for await (const piece of run.stdout) out += piece;
    const [models, hello, first, second, conversation, response] =
        out.trim().split('\n').map(JSON.parse);
    assert.equal(models.data[0].id, 'echo');
    assert.match(hello.choices[0].message.content, /Hello!/);
    assert.match(first.choices[0].message.content, /Ann/);
    assert.match(second.choices[0].message.content, /Who am I/);
    assert.deepEqual(conversation.metadata, { topic: 'demo' });
    assert.match(response.output[0].content[0].text, /Hello!/);
    assert.equal((await s.get('/api/v1/sessions/ann/messages')).json.messages.length, 4);
});
