// Chat completions with the scripted model: each of its directives, streamed and not, through both
// provider kinds that use this format.
import assert from 'node:assert/strict';
import test from 'node:test';
import { MockModel } from '../conformance/mock-model.mjs';
import { Caller, sendJson, serve } from './support.mjs';

const key = 'sk-secret-0123456789';
const tools = [{ name: 'look', description: 'Looks.', schema: { type: 'object' } }, { name: 'wait' }];

async function withMock(run, kind = 'openai', options = {}) {
    const mock = new MockModel({ apiKey: key });
    const url = await mock.listen();
    const caller = new Caller(kind, `${url}/v1`, { key, ...options });
    const records = async () => (await (await fetch(`${url}/__requests`)).json()).requests;
    try {
        await run(caller, records, url);
        assert.equal(await caller.close(), 0);
    } finally {
        caller.kill();
        await mock.close();
    }
}

for (const kind of ['openai', 'mistral']) {
    for (const stream of [true, false]) {
        const name = `${kind}, ${stream ? 'a stream' : 'whole'}`;
        const of = (run, options) => () => withMock((caller, ...more) =>
            run((text, rest) => caller.say(text, { stream, ...rest }), ...more), kind, options);
        // Mistral reports the usage without a request for it; the scripted model does not.
        const used = stream && kind === 'mistral' ? () => '' : (text) => ` ${text}`;

        test(`say, chunk, finish, nousage: ${name}`, of(async (say) => {
            assert.equal(await say('<<say Hello \u00e9\u{1f600}>><<chunk 1>>'),
                `text(Hello \u00e9\u{1f600}) end(ok stop${used('15+0+0>3/0')} model=mock-model id=req_mock_1)`);
            assert.match(await say('<<say a>><<finish length>>'), /^text\(a\) end\(ok length/);
            assert.match(await say('<<say a>><<finish content_filter>>'), /end\(ok filtered/);
            assert.equal(await say('<<say a>><<nousage>>'),
                'text(a) end(ok stop model=mock-model id=req_mock_4)');
        }));

        test(`size: ${name}`, of(async (say) => {
            assert.equal((await say('<<size 100000>>')).indexOf(') end(ok stop'), 100005);
            const told = await say('<<size 5000000>>');
            assert.equal(told.indexOf(') end(ok stop'), 5000005);
        }));

        test(`tool: ${name}`, of(async (say) => {
            assert.match(await say('<<tool look {"at": [1]}>><<tool wait>><<chunk 2>>', { tools }),
                /^call0\(call_mock_1_0,look\) args0\({"at": \[1\]}\) call1\(call_mock_1_1,wait\) args1\({}\) end\(ok tool_calls/);
        }));

        test(`fail: ${name}`, of(async (say) => {
            assert.equal(await say('<<fail status=500>>'),
                'end(provider id=req_mock_1 HTTP=500 code=server_error retryable: mock: scripted failure with status 500)');
            assert.equal(await say('<<fail status=429 retry_after=3>>'),
                'end(provider id=req_mock_2 HTTP=429 code=rate_limit_exceeded retryable after=3000: mock: scripted failure with status 429)');
            assert.equal(await say('<<fail status=503 body=html>>'),
                'end(provider id=req_mock_3 HTTP=503 retryable: HTTP 503: 503)');
            assert.match(await say('<<fail status=400>>'), /^end\(provider id=req_mock_4 HTTP=400 code=invalid_request_error: /);
            assert.match(await say('<<fail status=413>>'), / overflow: /);
            assert.match(await say('<<fail status=529 times=1>>'), /HTTP=529 .*retryable/);
            assert.match(await say('<<fail status=529 times=1>>'), /^text\(echo: \) end\(ok/);
            assert.match(await say('hi', { model: 'missing' }), /HTTP=404 code=model_not_found: /);
        }));

        test(`hang: ${name}`, of(async (say) => {
            assert.match(await say('<<hang>>', { timeout_ms: 60 }), /^end\(timeout retryable: /);
            assert.match(await say('<<hang ms=20>>hi'), /^text\(echo: hi\) end\(ok/);
        }));

        // The machine's speed decides how long a silence must be.
        test(`stall: ${name}`, async () => {
            let told = '';
            for (const idleMs of [500, 5000, 20000]) {
                if (!told || (stream && /^end\(timeout/.test(told)))
                    await of(async (say) => { told = await say('<<stall after=2>><<size 100>>'); }, { idleMs })();
            }
            assert.match(told, stream ? /^text\(The quick brown \) end\(timeout.*retryable: / : /^end\(timeout retryable: /);
        });

        test(`stall for a moment: ${name}`, of(async (say) => {
            assert.match(await say('<<stall after=2 ms=20>><<size 100>>'), /^text\(The.*end\(ok stop/);
        }));

        test(`cut: ${name}`, of(async (say) => {
            const reset = await say('<<cut after=2>><<size 100>>');
            assert.match(reset, stream ? /^text\(The quick brown \) end\(io .*retryable: / : /^end\(io .*retryable: /);
            const eof = await say('<<cut after=2 mode=eof>><<size 100>>');
            assert.match(eof, stream
                ? /^text\(The quick brown \) end\(io .*retryable: the stream ended in the middle of the answer\)/
                : /^end\(provider .*: the response is not a JSON object: '{"id":/);
        }));

        test(`garbage: ${name}`, of(async (say) => {
            assert.match(await say('<<garbage>>'), stream
                ? /^end\(provider .*: an event of the stream is not a JSON object: '{"id": "broken'\)$/
                : /^end\(provider .*: the response is not a JSON object: '{"id":/);
            assert.match(await say('hi'), /^text\(echo: hi\) end\(ok/);
        }));
    }
}

test('a cancel stops the service at once', () => withMock(async (caller, records) => {
    assert.equal(await caller.say('<<stall after=3>><<size 100>>', { stream: true, cancel_after: 2 }),
        'text(The quick brown ) canceled');
    for (const until = Date.now() + 60_000; !(await records())[0].outcome.client_aborted;)
        assert.ok(Date.now() < until, 'the service was not told');
}));

test('rounds of tools continue the conversation', () => withMock(async (caller, records) => {
    const user = { role: 'user', content: '<<tool look {}>><<next>><<tool wait {"x":1}>>' };
    const call = (id, name, text) => ({ role: 'assistant', content: null, tool_calls: [{ id, type: 'function', function: { name, arguments: text } }] });
    const result = (id, content) => ({ role: 'tool', tool_call_id: id, content });
    const messages = [{ role: 'system', content: 's' }, user];
    assert.match(await caller.ask({ messages, tools, stream: true }), /^call0\(.*,look\)/);
    messages.push(call('c1', 'look', '{}'), result('c1', 'seen'));
    assert.match(await caller.ask({ messages, tools, stream: true }), /^call0\(.*,wait\) args0\({"x":1}\)/);
    messages.push(call('c2', 'wait', '{"x":1}'), result('c2', 'waited'));
    assert.match(await caller.ask({ messages, tools, stream: true }), /^text\(tool said: waited\)/);
    assert.deepEqual((await records())[2].body.messages.map(({ role }) => role),
        ['system', 'user', 'assistant', 'tool', 'assistant', 'tool']);
}));

test('many calls at once', () => withMock(async (caller) => {
    const told = await caller.ask({ messages: [{ role: 'user', content: '<<chunk 2>>hello you' }], stream: true, times: 200 }, 200);
    for (const line of told) assert.match(line, /^text\(echo: hello you\) end\(ok stop/);
}));

test('the list of models', () => withMock(async (caller) => {
    assert.equal(await caller.ask({ models: true }), '["mock-model","mock-model-mini"]');
}));

test('a key is never shown', async () => {
    const server = await serve((request, response) =>
        sendJson(response, 401, { error: { message: `Incorrect API key: ${request.headers.authorization}, ${key}, ${request.headers['x-other']}` } }));
    const caller = new Caller('openai', server.url, { key, headers: ['x-other: another-secret'] });
    assert.equal(await caller.say('hi'), 'end(provider HTTP=401: Incorrect API key: Bearer ***, ***, ***)');
    assert.match(await caller.ask({ models: true }), /did not list its models: HTTP 401: (?!.*secret)/);
    assert.equal(await caller.close(), 0);
    await server.close();
});

test('the service is unreachable', async () => {
    const caller = new Caller('openai', 'http://127.0.0.1:1/v1', { key });
    assert.match(await caller.say('hi'), /^end\(io retryable: /);
    assert.match(await caller.ask({ models: true }), /did not list its models/);
    assert.equal(await caller.close(), 0);
});

// The answer is complete, but the connection stays open.
test('a service that does not hang up', async () => {
    const server = await serve((request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    });
    const caller = new Caller('openai', server.url);
    assert.equal(await caller.say('hi', { stream: true }), 'text(a) end(ok stop)');
    assert.equal(await caller.close(), 0);
    await server.close();
});

test('a local server is found by itself', () => withMock(async (caller, records, url) => {
    const open = new MockModel();
    const local = await open.listen();
    const host = new URL(local).host;
    // A service that takes longer than a moment to respond counts as missing.
    const find = async (env) => {
        let found = 'echo';
        for (let tries = 0; tries < 20 && found.startsWith('echo'); tries += 1) found = await caller.ask({ discover: env });
        return found;
    };
    assert.equal(await find({ OLLAMA_HOST: host }), `ollama http://${host} mock-model`);
    assert.equal(await find({ OPENAI_BASE_URL: `${local}/v1` }), `openai ${local}/v1 mock-model`);
    // A service with a key is not queried; its model is requested when it is needed.
    assert.equal(await caller.ask({ discover: { OPENAI_API_KEY: key, OPENAI_BASE_URL: `${url}/v1` } }),
        `openai ${url}/v1 `);
    assert.equal(await caller.ask({ discover: { OPENAI_API_KEY: key } }), 'openai  gpt-5-mini');
    await open.close();
    const hung = await serve(() => {});
    assert.match(await caller.ask({ discover: { OLLAMA_HOST: new URL(hung.url).host } }), /^(echo  echo|llama\.cpp )/);
    await hung.close();
}));
