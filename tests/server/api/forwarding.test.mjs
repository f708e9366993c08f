// Responses that are forwarded to a service with the same API: what the service receives, what the
// client gets back, and what is counted and recorded.
import test from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockModel } from '../../conformance/mock-model.mjs';
import { MockResponses } from '../../conformance/mock-responses.mjs';
import { openSocket } from '../socket.mjs';
import { makeKey, serve, workspace } from '../support.mjs';

const ON = 'providers:\n  - kind: openai\n    responses: on\n';
const CODEX = { 'session-id': 'c-1', originator: 'codex_exec', 'user-agent': 'codex_exec/0.166.0 (x)' };

async function start(t, { config = ON, ...options } = {}) {
    const mock = new MockResponses();
    const url = await mock.listen();
    t.after(() => mock.close());
    const s = await serve(t, { ...options, config,
        args: ['--provider', 'openai', '--provider-url', `${url}/v1`, '--model', 'mock-model'] });
    return { ...s, mock };
}

const user = (text) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] });
const eventsOf = (text) => text.split('\n').filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)));
const messages = async (s, key, options) => {
    const { code, json, text } = await s.get(`/api/v1/sessions/${encodeURIComponent(key)}/messages?limit=1000`, options);
    assert.equal(code, 200, text);
    return json.messages;
};

// Waits until the ledger has the usage that the scripted service reports.
const counted = async (s) => {
    const until = Date.now() + 20_000;
    for (;;) {
        const { text } = await s.get('/api/v1/usage');
        if (/"input_tokens":40,/.test(text) && /"output_tokens":20,/.test(text)) return;
        assert.ok(Date.now() < until, text);
        await sleep(20);
    }
};

// Everything that only a service with this API understands.
const RICH = {
    model: 'mock-model', store: false, include: ['reasoning.encrypted_content', 'web_search_call.action.sources'],
    reasoning: { effort: 'medium', summary: 'auto', context: 'current_turn' },
    tools: [{ type: 'web_search', external_web_access: false }, { type: 'tool_search', execution: 'client' },
        { type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
        { type: 'computer_use_preview', display_width: 1, display_height: 1, environment: 'linux' }],
    input: [{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'abc' },
        { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } },
        { type: 'unheard_of', some: ['thing'] }, user('hello <<say Hi.>>')],
    client_metadata: { a: 'b' }, number: 1.50,
};

for (const stream of [true, false]) {
    test(`a response that is not stored is forwarded byte for byte (stream: ${stream})`, async (t) => {
        const s = await start(t);
        const sent = JSON.stringify({ ...RICH, stream }, null, 3).replace('"number": 1.5', '"number" :  1.50');
        const answer = await s.post('/v1/responses', sent,
            { headers: { 'openai-beta': 'responses=experimental', authorization: 'Bearer client' } });
        assert.equal(answer.code, 200, answer.text);
        assert.equal(s.mock.requests.length, 1);
        const [{ raw, headers }] = s.mock.requests;
        assert.equal(raw, sent);
        assert.equal(headers['openai-beta'], 'responses=experimental');
        assert.notEqual(headers.authorization, 'Bearer client');
        assert.equal(answer.headers['x-ratelimit-limit-requests'], stream ? undefined : '7');
        const last = stream ? eventsOf(answer.text).at(-1).response : answer.json;
        assert.deepEqual(last.unknown_member, { kept: true });
        assert.match(last.id, /^resp_e+\d$/, 'the id of the service');
        if (stream) assert.deepEqual(eventsOf(answer.text).map(({ sequence_number: n }) => n), [0, 1, 2, 3, 4, 5]);
        assert.deepEqual((await s.get('/api/v1/sessions')).json.sessions, [], 'nothing is kept');
        await counted(s);
    });
}

test('a missing model is filled in', async (t) => {
    const s = await start(t);
    const { code, json } = await s.post('/v1/responses', { store: false, input: 'hi' });
    assert.equal(code, 200);
    assert.equal(json.model, 'mock-model-2026');
    assert.deepEqual(s.mock.requests[0].body, { model: 'mock-model', store: false, input: 'hi' });
});

test('errors of the service are passed on', async (t) => {
    const s = await start(t);
    for (const stream of [true, false]) {
        const { code, json } = await s.post('/v1/responses', { ...RICH, stream, input: 'x <<fail 429>>' });
        assert.equal(code, 429);
        assert.equal(json.error.message, 'as scripted');
    }
});

test('a stream that breaks off ends with an error, and is not recorded', async (t) => {
    const s = await start(t);
    const { text } = await s.post('/v1/responses', { ...RICH, stream: true, input: 'x <<cut>><<say no>>' }, { headers: CODEX });
    const last = eventsOf(text).at(-1);
    assert.equal(last.type, 'error');
    assert.equal(last.error.code, 'upstream_error');
    assert.match(last.message, /before its last event/);
    assert.deepEqual((await s.get('/api/v1/sessions')).json.sessions, []);
});

test('a service without the API gets chat completions', async (t) => {
    for (const config of ['', 'providers:\n  - kind: openai\n    responses: off\n', 'providers:\n  - kind: openai\n']) {
        const s = await start(t, { config });
        const { code } = await s.post('/v1/responses', { store: false, input: 'hi' });
        assert.equal(code, 404, 'the scripted service has nothing else');
        assert.equal(s.mock.requests.length, 0);
    }
});

test('only services of kind openai can have the API', async (t) => {
    await assert.rejects(serve(t, { config: 'providers:\n  - kind: anthropic\n    responses: on\n    url: http://127.0.0.1:1\n',
        args: ['--provider', 'anthropic'] }), /kind 'anthropic' has no Responses API/);
});

test('a budget counts forwarded responses', async (t) => {
    const dir = workspace(t);
    makeKey(dir, '--role', 'admin');
    const { key } = makeKey(dir, '--role', 'write', '--tenant', 'a', '--max-tokens', '100');
    const s = await start(t, { dir });
    const send = () => s.post('/v1/responses', { model: 'm', store: false, input: 'hi', stream: true, max_output_tokens: 4096 }, { key });
    assert.equal((await send()).code, 200);
    const refused = await send();
    assert.equal(refused.code, 429, refused.text);
    assert.equal(refused.json.error.code, 'insufficient_quota');
    assert.equal(s.mock.requests.length, 1);
});

for (const stream of [true, false]) {
    for (const bare of stream ? ['', '<<bare>>'] : ['']) {
        test(`a forwarded conversation is recorded (stream: ${stream}) ${bare}`, async (t) => {
            const s = await start(t);
            const history = [user(`go ${bare}<<think Hm.>><<item {"id":"ws_2","type":"web_search_call","status":"completed",` +
                `"action":{"type":"search","query":"q"}}>><<tool read {"a":1}>><<next>><<say Done.>>${bare}`)];
            const step = async () => {
                const body = { ...RICH, stream, input: history };
                const { code, text, json } = await s.post('/v1/responses', body, { headers: CODEX });
                assert.equal(code, 200, text);
                const output = stream ? eventsOf(text).filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item)
                    : json.output;
                history.push(...output);
                return output;
            };
            const output = await step();
            const { call_id: id } = output.at(-1);
            delete history.at(-2).id; // Codex does not send it back
            history.push({ type: 'function_call_output', call_id: id, output: 'it' });
            await step();
            const stored = await messages(s, 'codex:c-1');
            assert.deepEqual(stored.map(({ role }) => role), ['user', 'assistant', 'tool', 'assistant']);
            assert.equal(stored.at(-1).content ?? stored.at(-1).parts[0].text, 'Done.');
            assert.equal(stored.at(-1).model, 'mock-model-2026');
            assert.deepEqual({ ...stored.at(-1).usage }, { ...stored.at(-1).usage, input_tokens: 40, output_tokens: 20 });
            assert.match(JSON.stringify(stored[1]), /web_search_call/, 'an item without a counterpart is kept');
            assert.match(JSON.stringify(stored[1]), /secret:Hm\./, 'the encrypted reasoning is kept');
            const { json: { sessions } } = await s.get('/api/v1/sessions');
            assert.equal(sessions.length, 1, 'and there is no branch');
            const id32 = sessions[0].session_id.replaceAll('-', '');
            const { json: items } = await s.get(`/v1/conversations/conv_${id32}/items?order=asc`);
            assert.deepEqual(items.data.map(({ type }) => type), ['message', 'reasoning', 'web_search_call', 'function_call',
                'function_call_output', 'message']);
        });
    }
}

test('a compaction is forwarded, and its result can be used and recorded', async (t) => {
    const s = await start(t);
    const sent = JSON.stringify({ model: 'mock-model', input: [user('one'), user('two')], odd: [1] }, null, 2);
    const { code, json } = await s.post('/v1/responses/compact', sent);
    assert.equal(code, 200);
    assert.equal(json.output[0].encrypted_content, 'opaque!');
    assert.equal(s.mock.requests[0].raw, sent);
    await counted(s);
    const next = await s.post('/v1/responses', { ...RICH, input: [...json.output, user('three <<say 3>>')] }, { headers: CODEX });
    assert.equal(next.code, 200);
    assert.match(JSON.stringify(await messages(s, 'codex:c-1')), /opaque!/);
});

test('a very long last event is recognized, and its usage is counted', async (t) => {
    const s = await start(t);
    const { text } = await s.post('/v1/responses', { ...RICH, stream: true, input: 'x <<size 800000>>' }, { headers: CODEX });
    assert.equal(eventsOf(text).at(-1).type, 'response.completed');
    await counted(s);
    assert.equal((await messages(s, 'codex:c-1')).length, 2);
});

// ---- Over a WebSocket ----

// Sends what Codex sends: a warm-up, then only new items after the previous response.
async function codex(t, s, headers = CODEX) {
    const socket = await openSocket(s.port, { headers });
    t.after(() => socket.leave());
    let previous;
    const create = async (more) => {
        const events = await socket.create({ ...RICH, stream: true, previous_response_id: previous, ...more });
        const { response, ...last } = events.at(-1);
        assert.match(last.type, /^response\.(completed|incomplete)$/, JSON.stringify(last));
        previous = response.id;
        return { ...response, items: events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item) };
    };
    return { ...socket, create, previous: () => previous, raw: socket.create };
}

test('requests over a WebSocket are completed and forwarded', async (t) => {
    const s = await start(t);
    const c = await codex(t, s);
    const developer = { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be good.' }] };
    const { output } = await c.create({ input: [developer], generate: false });
    assert.deepEqual(output, []);
    assert.equal(s.mock.requests.length, 0, 'a warm-up asks no model');
    const odd = { type: 'unheard_of', some: ['thing'] };
    const ask = user('go <<think Hm.>><<item {"id":"ws_2","type":"web_search_call","status":"completed"}>>' +
        '<<custom apply_patch *** x>><<next>><<say Done.>>');
    const first = await c.create({ input: [odd, ask] });
    const result = { type: 'custom_tool_call_output', call_id: first.items.at(-1).call_id, output: 'ok' };
    const second = await c.create({ input: [result] });
    const third = await c.create({ input: 'bye <<say Bye.>>' });

    const { previous_response_id: no, generate: none, ...members } = RICH;
    const sent = s.mock.requests.map(({ body }) => body);
    const items = [developer, odd, ask];
    assert.deepEqual(sent[0], { ...members, stream: true, store: false, input: items });
    items.push(...first.items, result);
    assert.deepEqual(sent[1].input, items, 'items come back as the service sent them');
    items.push(...second.items, { type: 'message', role: 'user', content: 'bye <<say Bye.>>' });
    assert.deepEqual(sent[2].input, items);
    assert.deepEqual(sent[2].tools, RICH.tools);
    assert.equal(third.items.at(-1).content[0].text, 'Bye.');

    const stored = await messages(s, 'codex:c-1');
    assert.deepEqual(stored.map(({ role }) => role), ['system', 'assistant', 'user', 'assistant', 'tool', 'assistant', 'user',
        'assistant']);
    const { json: { sessions } } = await s.get('/api/v1/sessions?limit=100');
    assert.deepEqual(sessions.filter(({ expires_at: at }) => !at).map(({ key }) => key), ['codex:c-1'], 'no branch');
});

test('reasoning that the service cannot read again is not sent to it', async (t) => {
    const s = await start(t);
    const c = await codex(t, s);
    await c.create({ input: 'one <<think Hm.>><<say 1>>', include: [] });
    await c.create({ input: 'two <<say 2>>', include: [] });
    assert.deepEqual(s.mock.requests[1].body.input.map(({ type }) => type), ['message', 'message', 'message']);
    assert.match(JSON.stringify(await messages(s, 'codex:c-1')), /Hm\./, 'it is recorded');
});

test('branches on one connection, and responses that are not there', async (t) => {
    const s = await start(t);
    const c = await codex(t, s);
    const { id } = await c.create({ input: 'one <<say 1>>' });
    await c.create({ input: 'two <<say 2>>' });
    await c.create({ input: 'instead <<say 3>>', previous_response_id: id });
    assert.deepEqual(s.mock.requests[2].body.input.map(({ content }) => content?.[0]?.text ?? content),
        ['one <<say 1>>', '1', 'instead <<say 3>>']);
    const failed = async (previous) => (await c.raw({ ...RICH, input: 'x', previous_response_id: previous })).at(-1);
    assert.equal((await failed('resp_unknown')).error.code, 'previous_response_not_found');
    const other = await codex(t, s);
    const { error } = (await other.raw({ ...RICH, input: 'x', previous_response_id: id })).at(-1);
    assert.equal(error.code, 'previous_response_not_found', 'another connection does not see it');
    // A failed continuation makes the server forget the response that it named.
    assert.equal((await c.raw({ ...RICH, input: 'x <<fail 400>>', previous_response_id: id })).at(-1).status, 400);
    assert.equal((await failed(id)).error.code, 'previous_response_not_found');
});

test('a connection drops the conversation that was continued least recently', async (t) => {
    const s = await start(t, { config: `${ON}server:\n  body_bytes_max: 67108864\n` });
    const c = await codex(t, s, {});
    const large = 'x'.repeat(15 << 20);
    const begin = async (input) => (await c.create({ input, previous_response_id: undefined })).id;
    const small = await begin('small <<say 1>>');
    const oldest = await begin(`${large} <<say 2>>`);
    await c.create({ input: 'more <<say 3>>', previous_response_id: small });
    await begin(`${large} <<say 4>>`);
    const gone = (await c.raw({ ...RICH, input: 'x', previous_response_id: oldest })).at(-1);
    assert.equal(gone.error.code, 'previous_response_not_found');
    await c.create({ input: 'again <<say 5>>', previous_response_id: small });
    assert.equal(s.mock.requests.at(-1).body.input.length, 3, 'the other one is still there');
});

test('a model of another service continues a forwarded response', async (t) => {
    const mock = new MockResponses();
    const url = await mock.listen();
    t.after(() => mock.close());
    const s = await serve(t, { config: `providers:\n  - {name: a, kind: openai, url: "${url}/v1", responses: on, model: m}\n` +
        '  - {name: b, kind: echo, model: echo}\n', args: ['--provider', 'a'] });
    const c = await codex(t, s);
    await c.create({ model: 'm', input: 'one <<say 1>>' });
    const { output } = await c.create({ model: 'echo', input: 'two' });
    assert.match(output.at(-1).content[0].text, /two/);
    await c.create({ model: 'm', input: 'three <<say 3>>' });
    assert.equal(mock.requests[1].body.input.length, 5);
    assert.equal((await messages(s, 'codex:c-1')).length, 6);
});

test('a model of another service continues a stored response, without the items that it cannot read', async (t) => {
    const mock = new MockResponses();
    const url = await mock.listen();
    const chat = new MockModel();
    const other = await chat.listen();
    t.after(() => { mock.close(); chat.close(); });
    const s = await serve(t, { config: `providers:\n  - {name: a, kind: openai, url: "${url}/v1", responses: on, model: m}\n` +
        `  - {name: b, kind: openai, url: "${other}/v1", model: mock-model}\n`, args: ['--provider', 'a'] });
    const create = async (body) => {
        const { code, json, text } = await s.post('/v1/responses', body);
        assert.equal(code, 200, text);
        return json;
    };
    const item = { id: 'ws_1', type: 'web_search_call', status: 'completed' };
    const one = await create({ model: 'm', input: `one <<think Hm.>><<item ${JSON.stringify(item)}>><<say 1>>` });
    const two = await create({ model: 'mock-model', input: 'two <<say 2>>', previous_response_id: one.id });
    const { requests } = await (await fetch(`${other}/__requests`)).json();
    assert.deepEqual(requests.at(-1).body.messages.slice(1), [{ role: 'assistant', content: '1' }, { role: 'user', content: 'two <<say 2>>' }]);
    await create({ model: 'm', input: 'three <<say 3>>', previous_response_id: two.id });
    assert.deepEqual(mock.requests[1].body.input.map(({ type, role }) => role ?? type),
        ['user', 'reasoning', 'web_search_call', 'assistant', 'user', 'assistant', 'user']);
});

// ---- Streams that end in the middle of an event ----

const bounded = { timeout: 60_000 };
const frame = (data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
const chunk = (delta, finish_reason = null) => frame({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] });
const typed = (event) => `event: ${event.type}\n${frame(event)}`;
const STREAMS = {
    '/v1/chat/completions': { kind: 'openai', text: chunk({ content: 'hé' }) + chunk({}, 'stop') + frame('[DONE]'),
        body: { messages: [{ role: 'user', content: 'x' }] } },
    '/v1/responses': { kind: 'openai', rows: '    responses: on\n', body: { store: false, input: 'x' },
        text: ['created', 'completed'].map((name, i) => typed({ type: `response.${name}`, sequence_number: i,
            response: { id: 'r', object: 'response', output: [] } })).join('') },
    '/v1/messages': { kind: 'anthropic', body: { max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
        text: typed({ type: 'message_start', message: { id: 'm', content: [], usage: { input_tokens: 1, output_tokens: 1 } } }) +
            typed({ type: 'message_stop' }) },
};
for (const [path, { kind, rows = '', body, text }] of Object.entries(STREAMS)) {
    test(`${path}: a stream that ends in the middle of an event ends with an error, and is not recorded`, bounded, async (t) => {
        const bytes = Buffer.from(text);
        let cut;
        const upstream = http.createServer((request, response) => request.resume().on('end', () => {
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            response.end(bytes.subarray(0, cut));
        })).listen(0, '127.0.0.1');
        await once(upstream, 'listening');
        t.after(() => upstream.close());
        const s = await serve(t, { config: `recorder: on\nproviders:\n  - kind: ${kind}\n${rows}`, args: ['--store', 'memory:',
            '--provider', kind, '--provider-url', `http://127.0.0.1:${upstream.address().port}/v1`, '--model', 'm'] });
        const ends = [...text.matchAll(/\n\n/g)].map(({ index }) => Buffer.byteLength(text.slice(0, index)));
        for (cut = 0; cut < bytes.length; cut++) {
            const answer = await s.post(path, { model: 'm', stream: true, ...body });
            assert.ok(answer.text === '' || answer.text.endsWith('\n\n'), `${cut}: a complete frame`);
            const frames = answer.text.split('\n\n').slice(0, -1).map((part) => /^data: (.*)$/m.exec(part)[1]);
            const complete = ends.filter((end) => end <= cut).length;
            const sent = frames.filter((data) => !/"error":/.test(data));
            assert.equal(sent.length, complete, `${cut}: complete frames are sent, and no others`);
            for (const data of frames) assert.ok(data === '[DONE]' || JSON.parse(data));
            // Between two chunks, the end of a completion is the service's decision.
            const isWhole = complete === ends.length || (path.endsWith('completions') && (cut === 0 || ends.some((end) => end <= cut && cut <= end + 2)));
            assert.equal(frames.length - sent.length, isWhole ? 0 : 1, `${cut}: ${answer.text}`);
            const { sessions } = (await s.get('/api/v1/sessions')).json;
            if (!isWhole && !path.endsWith('completions')) assert.equal(sessions.length, 0, `${cut}`);
        }
    });
}
