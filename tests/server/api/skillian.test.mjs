// The API for Skillian's clients: Skillian's routes, codes, texts and bodies, and our additions.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { assertError, serve } from '../support.mjs';
import { open, serveModel, textOf } from '../model.mjs';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const fields = ['response', 'tool_calls', 'session_id', 'finished'];
const listed = async (s) => (await s.get('/api/v1/sessions')).json.sessions;
const messagesOf = async (s, id) => (await s.get(`/api/v1/sessions/${id}/messages`)).json.messages;

// The members that a client of Skillian reads, and nothing else.
function assertAnswer({ code, json, text }, response, sessionId) {
    assert.equal(code, 200, text);
    assert.deepEqual(Object.keys(json).slice(0, 4), fields);
    assert.equal(json.response, response);
    assert.deepEqual(json.tool_calls, []);
    assert.equal(json.finished, true);
    if (sessionId) assert.equal(json.session_id, sessionId);
    else assert.match(json.session_id, uuid);
    return json;
}

test('Skillian\'s sequence works: two messages, the list, the end', async (t) => {
    const s = await serveModel(t);
    const first = assertAnswer(await s.post('/api/v1/chat',
        { message: "What's the budget for CC-1001?" }), "echo: What's the budget for CC-1001?");
    const id = first.session_id;
    assert.equal(first.created, true);
    const second = assertAnswer(await s.post('/api/v1/chat',
        { message: 'Show me the top differences', session_id: id }),
    'echo: Show me the top differences', id);
    assert.equal(second.created, false);
    // The model received the complete history.
    const asked = await s.asked();
    assert.deepEqual(asked[1].messages.map((m) => [m.role, m.content]), [
        ['user', "What's the budget for CC-1001?"],
        ['assistant', "echo: What's the budget for CC-1001?"],
        ['user', 'Show me the top differences']]);
    assertAnswer(await s.post(`/api/v1/sessions/${id}/chat`, { message: 'and now' }),
        'echo: and now', id);
    const sessions = await listed(s);
    assert.equal(sessions.length, 1);
    assert.equal(sessions[0].session_id, id);
    assert.ok(sessions[0].message_count > 0);
    assert.ok(Date.parse(sessions[0].created_at) > 0);
    const gone = await s.ask('DELETE', `/api/v1/sessions/${id}`);
    assert.deepEqual([gone.code, gone.json], [200, { status: 'deleted', session_id: id }]);
    const late = await s.post(`/api/v1/sessions/${id}/chat`, { message: 'anyone?' });
    assertError(late, 404, 'not_found', /^Session not found$/);
    assert.equal(late.json.detail, 'Session not found');
});

test('POST /sessions creates a session and answers its message', async (t) => {
    const s = await serveModel(t);
    const answer = assertAnswer(await s.post('/api/v1/sessions', { message: 'hello' }),
        'echo: hello');
    assert.equal(answer.created, true);
    const named = await s.post('/api/v1/sessions', { message: 'hello', key: 'k', title: 'mine' });
    const session = (await s.get('/api/v1/sessions/k')).json;
    assert.deepEqual([session.session_id, session.title], [named.json.session_id, 'mine']);
    const empty = await s.post('/api/v1/sessions', { message: null });
    assert.equal(empty.code, 201, 'without one it only creates');
});

test('an unknown session id creates a new session, and the response shows it', async (t) => {
    const s = await serveModel(t);
    for (const id of ['nowhere', '01890000-0000-7000-8000-000000000001', '']) {
        const answer = assertAnswer(
            await s.post('/api/v1/chat', { message: 'hi', session_id: id }), 'echo: hi');
        assert.notEqual(answer.session_id, id);
        assert.equal(answer.created, true);
    }
    const first = (await s.post('/api/v1/chat', { message: 'hi', session_id: null })).json;
    await s.ask('DELETE', `/api/v1/sessions/${first.session_id}`);
    const second = (await s.post('/api/v1/chat', { message: 'hi', session_id: first.session_id })).json;
    assert.notEqual(second.session_id, first.session_id);
    assertError(await s.post('/api/v1/sessions/nowhere/chat', { message: 'hi' }), 404, 'not_found',
        /^Session not found$/);
});

test('messages must have 1 to 10000 characters', async (t) => {
    const s = await serveModel(t);
    const id = (await s.post('/api/v1/sessions', {})).json.session_id;
    const wrong = [{}, { message: '' }, { message: 7 }, { message: ['x'] }, { message: { a: 1 } },
        { message: 'x'.repeat(10001) }, { message: 'ä'.repeat(10001) }];
    for (const route of ['/api/v1/chat', `/api/v1/sessions/${id}/chat`, '/api/v1/sessions']) {
        for (const body of wrong) {
            if (route === '/api/v1/sessions' && !('message' in body)) continue;
            const answer = await s.post(route, body);
            assertError(answer, 422, 'invalid', /'message'/);
            assert.ok('detail' in answer.json);
            assert.equal(answer.json.param, 'message');
        }
    }
    assertError(await s.post('/api/v1/chat', { message: 'x', session_id: 5 }), 422, 'invalid',
        /'session_id'/);
    assert.deepEqual(await s.asked(), []);
    assert.equal((await listed(s)).length, 1);
    const most = await s.post('/api/v1/chat', { message: 'ä'.repeat(10000) });
    assert.equal(most.code, 200, most.text);
});

test('a failed turn leaves no trace', async (t) => {
    const s = await serveModel(t);
    const failed = await s.post('/api/v1/chat', { message: '<<fail status=400>>' });
    assert.equal(failed.code, 500);
    assert.equal(failed.json.detail, 'Failed to process message. Please try again.');
    assert.equal(failed.json.code, 'provider');
    assert.match(failed.json.turn.reason, /scripted failure/);
    assert.match(failed.json.reason, /scripted failure/);
    const made = await s.post('/api/v1/sessions', { message: '<<fail status=400>>' });
    assert.deepEqual([made.code, made.json.detail],
        [500, 'Failed to create session. Please try again.']);
    assert.deepEqual(await listed(s), []);
    const id = (await s.post('/api/v1/chat', { message: 'one' })).json.session_id;
    const again = await s.post(`/api/v1/sessions/${id}/chat`, { message: '<<fail status=400>>' });
    assert.deepEqual([again.code, again.json.detail],
        [500, 'Failed to process message. Please try again.']);
    assert.deepEqual((await messagesOf(s, id)).map((m) => m.content), ['one', 'echo: one']);
    const next = await s.post(`/api/v1/sessions/${id}/chat`, { message: 'two' });
    assert.equal(next.json.response, 'echo: two');
    const seen = (await s.asked()).at(-1).messages.map((m) => m.content);
    assert.deepEqual(seen, ['one', 'echo: one', 'two']);
});

test('a failed request can be repeated with its key, in the same session', async (t) => {
    const s = await serveModel(t);
    const headers = { 'idempotency-key': 'once' };
    const body = { message: '<<fail status=400 times=1>>later' };
    assert.equal((await s.post('/api/v1/chat', body, { headers })).code, 500);
    const second = await s.post('/api/v1/chat', body, { headers });
    assert.deepEqual([second.code, second.json.response], [200, 'echo: later'], second.text);
    const third = await s.post('/api/v1/chat', body, { headers });
    assert.deepEqual(third.json, second.json);
    assert.equal((await listed(s)).length, 1);
});

test('tool calls are shown with their arguments and results', async (t) => {
    const s = await serveModel(t);
    const { json } = await s.post('/api/v1/chat',
        { message: '<<tool recall {"text":"budget"}>><<next>><<say nothing yet>>' });
    assert.equal(json.response, 'nothing yet');
    assert.equal(json.finished, true);
    assert.equal(json.tool_calls.length, 1);
    const [call] = json.tool_calls;
    assert.deepEqual(Object.keys(call), ['tool', 'args', 'result']);
    assert.deepEqual([call.tool, call.args], ['recall', { text: 'budget' }]);
    assert.equal(typeof call.result, 'string');
    assert.ok(call.result.length > 0);
});

// A model that never stops calling tools, each time with other arguments.
async function restless(t, differs) {
    let count = 0;
    const server = http.createServer((request, response) => {
        request.resume();
        request.on('end', () => {
            const text = differs ? `word${++count}` : 'word';
            const call = { index: 0, id: `c${++count}`, type: 'function',
                function: { name: 'recall', arguments: JSON.stringify({ text }) } };
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            const put = (delta, finish) => response.write(`data: ${JSON.stringify({ id: 'x',
                object: 'chat.completion.chunk', model: 'm',
                choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
            put({ role: 'assistant', tool_calls: [call] }, null);
            put({}, 'tool_calls');
            response.end('data: [DONE]\n\n');
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => { server.closeAllConnections(); server.close(); });
    return serve(t, { args: ['--provider', 'openai', '--model', 'm', '--provider-url',
        `http://127.0.0.1:${server.address().port}/v1`] });
}

test('a turn that used up its rounds is not finished', async (t) => {
    const s = await restless(t, true);
    const { code, json } = await s.post('/api/v1/chat', { message: 'go' });
    assert.equal(code, 200);
    assert.equal(json.finished, false);
    assert.equal(json.response,
        "I couldn't complete the request within the allowed iterations.");
    assert.equal(json.tool_calls.length, 11, 'ten rounds, and the call that was not run');
    const few = await s.post('/api/v1/chat', { message: 'go', max_tool_iterations: 2 });
    assert.equal(few.json.tool_calls.length, 3);
});

test('a model that repeats a call ends without asking for permission', async (t) => {
    const s = await restless(t, false);
    const { code, json } = await s.post('/api/v1/chat', { message: 'go' });
    assert.deepEqual([code, json.finished], [200, false]);
    assert.equal((await s.get(`/api/v1/sessions/${json.session_id}/turn`)).json.state, 'idle');
});

test('two concurrent messages are answered one after the other', async (t) => {
    const s = await serveModel(t);
    const id = (await s.post('/api/v1/chat', { message: 'zero' })).json.session_id;
    const answers = await Promise.all(['one', 'two', 'three'].map((message) =>
        s.post(`/api/v1/sessions/${id}/chat`, { message })));
    assert.deepEqual(answers.map((a) => a.json.response), ['echo: one', 'echo: two', 'echo: three']);
    const roles = (await messagesOf(s, id)).map((m) => m.role);
    assert.deepEqual(roles, Array(4).fill(['user', 'assistant']).flat());
});

test('the answer can be streamed as events', async (t) => {
    const s = await serveModel(t);
    const r = await open(s.port, 'POST', '/api/v1/chat',
        { body: { message: '<<say bit by bit>><<chunk 3>>', stream: true } });
    assert.equal(r.code, 200);
    const events = await r.end();
    assert.equal(textOf(events), 'bit by bit');
    assert.equal(events[0].data.session_id, r.headers['x-palaver-session']);
    const id = events[0].data.session_id;
    assert.equal((await messagesOf(s, id)).length, 2);
});
