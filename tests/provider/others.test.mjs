// Anthropic's Messages and Mistral's Conversations, with small servers whose responses the tests
// define.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Caller, sendEvents, sendJson, serve } from './support.mjs';

const usage = { input_tokens: 10, cache_creation_input_tokens: 2, cache_read_input_tokens: 3, output_tokens: 1 };
const start = { type: 'message_start', message: { id: 'msg_1', model: 'claude-x', content: [], usage } };
const block = (index, content_block) => ({ type: 'content_block_start', index, content_block });
const grow = (index, delta) => ({ type: 'content_block_delta', index, delta });
const stop = (index) => ({ type: 'content_block_stop', index });
const text = (index, ...pieces) => [block(index, { type: 'text', text: '' }),
    ...pieces.map((piece) => grow(index, { type: 'text_delta', text: piece })), stop(index)];
const end = (reason) => [{ type: 'message_delta', delta: { stop_reason: reason }, usage: { output_tokens: 9 } }, { type: 'message_stop' }];

async function withServer(kind, reply, run) {
    const server = await serve(reply);
    const caller = new Caller(kind, server.url, { key: 'sk-secret-0123456789' });
    try {
        await run(caller, server.requests);
        assert.equal(await caller.close(), 0);
    } finally {
        await server.close();
    }
}

test('messages: thinking, text and tools', () => withServer('anthropic', (request, response, body) => {
    if (!body.stream) {
        sendJson(response, 200, { ...start.message, content: [{ type: 'text', text: 'whole' }], stop_reason: 'end_turn' });
        return;
    }
    sendEvents(response, [start, block(0, { type: 'thinking', thinking: '', signature: '' }),
        grow(0, { type: 'thinking_delta', thinking: 'hm' }), grow(0, { type: 'signature_delta', signature: 'S+/=' }), stop(0),
        ...text(1, 'Hel', 'lo'), block(2, { type: 'tool_use', id: 't1', name: 'look', input: {} }),
        grow(2, { type: 'input_json_delta', partial_json: '{"a":1}' }), stop(2), ...end('tool_use')]);
    response.end();
}, async (caller, requests) => {
    assert.equal(await caller.say('hi', { stream: true }),
        'think(hm) sign(S+/=,anthropic) text(Hello) call0(t1,look) args0({"a":1}) end(ok tool_calls 10+3+2>9/0 model=claude-x id=msg_1)');
    assert.equal(await caller.say('hi'), 'text(whole) end(ok stop 10+3+2>1/0 model=claude-x id=msg_1)');
    assert.equal(requests[0].url, '/v1/messages');
    assert.equal(requests[0].headers['x-api-key'], 'sk-secret-0123456789');
    assert.equal(requests[0].headers['anthropic-version'], '2023-06-01');
    assert.deepEqual(requests[1].body, {
        model: 'mock-model',
        max_tokens: 32000,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] }],
    });
}));

test('messages: whatever goes wrong', () => withServer('anthropic', (request, response, body) => {
    const wish = body.messages[0].content[0].text;
    const begun = [start, block(0, { type: 'text', text: '' }), grow(0, { type: 'text_delta', text: 'Hel' })];
    if (wish === 'busy') sendJson(response, 529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, { 'retry-after-ms': '250' });
    if (wish === 'long') sendJson(response, 400, { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens > 8 maximum' } });
    if (wish === 'page') { response.writeHead(502, { 'content-type': 'text/html' }); response.end('<h1>Bad gateway</h1>'); }
    if (wish === 'garbage') { response.writeHead(200, { 'content-type': 'text/event-stream' }); response.end('data: {"type":\n\n'); }
    if (wish === 'hang') return;
    if (wish === 'stall') sendEvents(response, begun);
    if (wish === 'eof') { sendEvents(response, begun); response.end(); }
    if (wish === 'reset') { sendEvents(response, begun); setTimeout(() => response.destroy(), 20); }
    if (wish === 'error') { sendEvents(response, [...begun, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }]); }
}, async (caller) => {
    const say = (wish, more) => caller.say(wish, { stream: true, ...more });
    assert.equal(await say('busy'), 'end(provider HTTP=529 code=overloaded_error retryable after=250: Overloaded)');
    assert.match(await say('long'), /HTTP=400 .*overflow: prompt is too long/);
    assert.equal(await say('page'), 'end(provider HTTP=502 retryable: HTTP 502: Bad gateway)');
    assert.match(await say('garbage'), /^end\(provider: an event of the stream is not a JSON object: '{"type":'\)$/);
    assert.match(await say('hang', { timeout_ms: 50 }), /^end\(timeout retryable: /);
    let stalled = '';
    for (const timeout_ms of [100, 2000, 20000]) {
        if (!stalled.startsWith('text(')) stalled = await say('stall', { timeout_ms });
    }
    assert.match(stalled, /^text\(Hel\) end\(timeout .*retryable: /);
    assert.match(await say('eof'), /^text\(Hel\) end\(io .*retryable: the stream ended in the middle/);
    assert.match(await say('reset'), /^text\(Hel\) end\(io .*retryable: /);
    assert.match(await say('error'), /^text\(Hel\) end\(provider .*code=overloaded_error retryable: Overloaded\)$/);
    assert.equal(await say('stall', { cancel_after: 1 }), 'text(Hel) canceled');
}));

test('conversations: begun, continued, lost', () => withServer('mistral_conversations', (request, response, body) => {
    const last = body.inputs.at(-1);
    const done = { type: 'conversation.response.done', usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 } };
    if (request.url.endsWith('/conv_gone')) {
        sendJson(response, 404, { object: 'error', message: 'Conversation not found', code: '3000' });
    } else if (request.url.endsWith('/conv_mixed')) {
        sendJson(response, 400, { message: 'Not the same number of function calls and responses' });
    } else if (request.url.endsWith('/conv_busy')) {
        sendJson(response, 503, { message: 'try later' });
    } else if (last.content === 'whole') {
        sendJson(response, 200, { conversation_id: 'conv_1', outputs: [{ type: 'message.output', content: 'A' }], usage: done.usage });
    } else {
        sendEvents(response, [{ type: 'conversation.response.started', conversation_id: 'conv_1' },
            { type: 'message.output.delta', id: 'm', content: 'Hel' }, { type: 'message.output.delta', id: 'm', content: 'lo' },
            ...(last.content === 'cut' ? [] : [done])]);
        response.end();
    }
}, async (caller, requests) => {
    assert.equal(await caller.ask({ messages: [{ role: 'system', content: 's' }, { role: 'user', content: 'hi' }], stream: true }),
        'text(Hello) end(ok stop 7+0+0>2/0 conversation=conv_1)');
    assert.equal(requests[0].url, '/v1/conversations');
    assert.equal(requests[0].body.instructions, 's');
    assert.equal(await caller.say('whole', { conversation: 'conv_1' }), 'text(A) end(ok stop 7+0+0>2/0 conversation=conv_1)');
    assert.equal(requests[1].url, '/v1/conversations/conv_1');
    assert.equal(requests[1].body.model, undefined);
    assert.match(await caller.say('hi', { conversation: 'conv_gone', stream: true }), /^end\(provider HTTP=404 code=3000 stale: /);
    assert.match(await caller.say('hi', { conversation: 'conv_mixed' }), /^end\(provider HTTP=400 stale: /);
    assert.match(await caller.say('hi', { conversation: 'conv_busy' }), /^end\(provider HTTP=503 retryable: try later\)/);
    assert.match(await caller.say('cut', { conversation: 'conv_1', stream: true }), /^text\(Hello\) end\(io conversation=conv_1 retryable: /);
}));
