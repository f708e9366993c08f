// Turns over HTTP: answers, events, lanes, tools of the caller, approvals, repeated requests, and
// ends.
import test from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { assertError, makeKey, serve, workspace } from '../support.mjs';
import { isA, open, serveModel, textOf } from '../model.mjs';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const tool = (name) => ({ type: 'function', function: { name, description: 'a tool',
    parameters: { type: 'object' } } });
const messagesOf = async (s, id) => (await s.get(`/api/v1/sessions/${id}/messages`)).json.messages;
const stream = (s, id, body, options) =>
    open(s.port, 'POST', `/api/v1/sessions/${id}/turns`, { body: { ...body, stream: true }, ...options });

// For turns that wait for the model: repeats a request until the session is in the expected state.
async function untilState(s, id, state) {
    for (;;) {
        const { json } = await s.get(`/api/v1/sessions/${id}/turn`);
        if (json.state === state) return json;
        await new Promise((resolve) => setTimeout(resolve, 5));
    }
}

test('the response of a turn contains every documented member', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const { code, json } = await s.turn(id, { message: 'hello' });
    assert.equal(code, 200);
    assert.deepEqual(Object.keys(json), ['turn_id', 'session_id', 'state', 'text', 'message_id',
        'seq', 'finish_reason', 'tool_calls', 'usage', 'cost_micros']);
    assert.match(json.turn_id, uuid);
    assert.match(json.message_id, uuid);
    assert.deepEqual([json.session_id, json.state, json.text, json.seq, json.finish_reason],
        [id, 'done', 'echo: hello', 2, 'stop']);
    assert.deepEqual(json.usage, { input_tokens: 9, cache_read_tokens: 0, cache_write_tokens: 0,
        output_tokens: 3, reasoning_tokens: 0 });
    const messages = await messagesOf(s, id);
    assert.deepEqual(messages.map((m) => [m.role, m.content]),
        [['user', 'hello'], ['assistant', 'echo: hello']]);
    assert.equal(messages[1].id, json.message_id);
    const state = (await s.get(`/api/v1/turns/${json.turn_id}`)).json;
    assert.deepEqual([state.turn_id, state.session_id, state.state],
        [json.turn_id, id, 'done']);
    assert.deepEqual((await s.get(`/api/v1/sessions/${id}/turn`)).json,
        { turn_id: null, session_id: id, state: 'idle' });
});

test('the settings of a request reach the model', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const long = 'x'.repeat(20000);
    const { json } = await s.turn(id, { messages: [{ role: 'user', content: 'first' },
        { role: 'user', content: long }], model: 'mock-model-mini', system: 'Be brief.',
    tools: [tool('f')], tool_choice: 'none', parameters: { temperature: 0.25 },
    max_output_tokens: 77, strategy: 'sliding_window', context: { max_tokens: 30000 } });
    assert.equal(json.state, 'done');
    const [body] = await s.asked();
    assert.equal(body.model, 'mock-model-mini');
    assert.equal(body.temperature, 0.25);
    assert.equal(body.max_tokens ?? body.max_completion_tokens, 77);
    assert.equal(body.tool_choice, 'none');
    assert.deepEqual(body.tools[0].function.name, 'f');
    assert.equal(body.messages[0].content, 'Be brief.');
    assert.ok(JSON.stringify(body.messages).includes(long));
});

test('errors name the invalid member and change nothing', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const wrong = [
        [{ message: 7 }, 'message'], [{ message: 'x', lane: 'fast' }, 'lane'],
        [{ message: 'x', tools: {} }, 'tools'], [{ message: 'x', tools: [{}] }, 'tools'],
        [{ message: 'x', tools: [{ type: 'web' }] }, 'tools'],
        [{ message: 'x', tool_choice: 'maybe' }, 'tool_choice'],
        [{ message: 'x', parameters: [] }, 'parameters'],
        [{ message: 'x', max_output_tokens: 0 }, 'max_output_tokens'],
        [{ message: 'x', max_tool_iterations: 5000 }, 'max_tool_iterations'],
        [{ message: 'x', strategy: 'luck' }, 'strategy'],
        [{ message: 'x', context: { max_tokens: -1 } }, 'context'],
        [{ message: 'x', stream: 1 }, 'stream'],
        [{ message: 'x', stream: true, background: true }, 'background'],
        [{ message: 'x', context: 7 }, 'context'], [{ mesage: 'x' }, 'mesage'],
        [{ stream: true, Message: 'x' }, 'Message'],
        [{ message: 'x', model: 5 }, 'model'], [{ message: 'x', client_id: {} }, 'client_id'],
    ];
    for (const [body, param] of wrong) {
        const answer = await s.turn(id, body);
        assertError(answer, 400, 'invalid');
        assert.equal(answer.json.param, param, answer.text);
    }
    assertError(await s.turn(id, { message: 'x', provider: 'nobody' }), 404, 'not_found',
        /endpoint 'nobody'/);
    assertError(await s.turn('nowhere', { message: 'x' }), 404, 'not_found', /^Session not found$/);
    assert.deepEqual(await messagesOf(s, id), []);
    assert.deepEqual(await s.asked(), []);
    await s.ask('DELETE', `/api/v1/sessions/${id}`);
    assertError(await s.turn(id, { message: 'x' }), 404, 'not_found', /^Session not found$/);
});

test('unknown turns are not found', async (t) => {
    const s = await serveModel(t);
    for (const turn of ['x', '01890000-0000-7000-8000-000000000001']) {
        assertError(await s.get(`/api/v1/turns/${turn}`), 404, 'not_found', /does not exist|no such turn/);
        assertError(await s.get(`/api/v1/turns/${turn}/events`), 404, 'not_found');
        assertError(await s.post(`/api/v1/turns/${turn}/cancel`), 404, 'not_found');
        assertError(await s.post(`/api/v1/turns/${turn}/approve`, { allow: true }), 404, 'not_found');
        assertError(await s.post(`/api/v1/turns/${turn}/results`,
            { results: [{ call_id: 'c', output: '' }] }), 404, 'not_found');
    }
    const { turn_id: known } = (await s.turn(await s.session(), { message: 'x' })).json;
    const header = { headers: { 'last-event-id': 'abc' } };
    for (const [turn, code, name] of [[known, 400, 'invalid'], ['x', 404, 'not_found']]) {
        const events = `/api/v1/turns/${turn}/events`;
        assertError(await s.get(`${events}?after=-1`), code, name, /'after'|does not exist|no such turn/);
        assertError(await s.get(events, header), code, name, /Last-Event-ID|does not exist|no such turn/);
        assertError(await s.post(`/api/v1/turns/${turn}/approve`, { allow: 1 }), code, name);
    }
});

test('events are numbered and contain the answer as it arrives', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const r = await stream(s, id,
        { message: '<<say one two three>><<chunk 4>>', label: 'mine' });
    assert.equal(r.code, 200);
    assert.match(r.headers['content-type'], /^text\/event-stream/);
    assert.equal(r.headers['x-palaver-session'], id);
    const events = await r.end();
    assert.deepEqual(events.map((e) => e.id), events.map((_, i) => i + 1));
    assert.deepEqual(events[0].data,
        { turn_id: r.headers['x-palaver-turn'], session_id: id, label: 'mine',
            at: r.events[0].data.at });
    assert.equal(textOf(events), 'one two three');
    const message = events.find(isA('message')).data;
    assert.deepEqual([message.seq, message.finish_reason, message.usage.output_tokens],
        [2, 'stop', 4]);
    const last = events.at(-1);
    assert.deepEqual([last.event, last.data.state, last.data.turn_id],
        ['ended', 'done', r.headers['x-palaver-turn']]);
});

test('a reader resumes by Last-Event-ID without gaps and repetitions', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const text = 'abcdefghijklmnopqrstuvwxyz'.repeat(4);
    const first = await stream(s, id, { message: `<<say ${text}>><<chunk 2>><<stall after=20>>` });
    const turn = first.headers['x-palaver-turn'];
    await first.next((e) => e.event === 'text' && e.id >= 12);
    first.leave();
    // The turn continues without a reader.
    const got = first.events.slice(0, 10);
    const second = await open(s.port, 'GET', `/api/v1/turns/${turn}/events`,
        { headers: { 'last-event-id': String(got.at(-1).id) } });
    await second.next((e) => e.id >= 20);
    await s.release();
    const all = [...got, ...await second.end()];
    assert.deepEqual(all.map((e) => e.id), all.map((_, i) => i + 1));
    assert.equal(textOf(all), text);
    assert.equal(all.at(-1).event, 'ended');
    // Late readers get all events that are kept, from any number on. After the end there is nothing
    // to wait for.
    const late = await open(s.port, 'GET', `/api/v1/turns/${turn}/events?after=5`);
    assert.deepEqual(await late.end(), all.slice(5));
    const whole = await open(s.port, 'GET', `/api/v1/turns/${turn}/events`);
    assert.deepEqual(await whole.end(), all);
    // The header is newer than the query, which a browser keeps.
    const both = await open(s.port, 'GET', `/api/v1/turns/${turn}/events?after=0`,
        { headers: { 'last-event-id': String(all.length - 1) } });
    assert.deepEqual((await both.end()).map((e) => e.event), ['ended']);
    const past = await s.get(`/api/v1/turns/${turn}/events?after=${all.length}`);
    assert.deepEqual([past.code, past.text], [204, '']);
});

test('past events are sent in parts if they exceed the buffer of a connection', async (t) => {
    const s = await serveModel(t, { config: 'server:\n  stream_bytes_max: 65536\n' });
    const id = await s.session();
    const { json } = await s.turn(id, { message: '<<size 60000>><<chunk 40>>' });
    const all = [];
    let streams = 0;
    while (all.at(-1)?.event !== 'ended') {
        const r = await open(s.port, 'GET',
            `/api/v1/turns/${json.turn_id}/events?after=${all.at(-1)?.id ?? 0}`);
        const events = await r.end();
        assert.ok(events.length > 0);
        all.push(...events);
        streams++;
    }
    assert.ok(streams > 2, `${streams} streams`);
    assert.deepEqual(all.map((e) => e.id), all.map((_, i) => i + 1));
    assert.equal(textOf(all), json.text);
});

test('concurrent readers see the same events', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const first = await stream(s, id, { message: '<<say together>><<chunk 2>><<stall after=2>>' });
    const turn = first.headers['x-palaver-turn'];
    const others = await Promise.all([1, 2, 3].map(() =>
        open(s.port, 'GET', `/api/v1/turns/${turn}/events`)));
    for (const each of others) await each.next(isA('text'));
    others[0].leave();
    await s.release();
    const events = await first.end();
    for (const each of others.slice(1)) assert.deepEqual(await each.end(), events);
});

test('a busy session reports its turn, and accepts queue, interrupt and steer', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const first = await stream(s, id, { message: '<<say slow>><<hang times=1>>' });
    const turn = first.headers['x-palaver-turn'];
    await s.untilAsked(1);
    const busy = await s.turn(id, { message: 'me too' });
    assert.equal(busy.code, 409);
    assert.equal(busy.json.code, 'session_busy');
    assert.match(busy.json.error, /busy/);
    assert.deepEqual([busy.json.turn.turn_id, busy.json.turn.session_id, busy.json.turn.state],
        [turn, id, 'running']);
    assert.ok(Math.abs(Date.parse(busy.json.turn.since) - Date.now()) < 600000);
    const running = (await s.get(`/api/v1/sessions/${id}/turn`)).json;
    assert.deepEqual([running.turn_id, running.state], [turn, 'running']);
    // A waiting turn is answered in its time.
    const queued = await s.turn(id, { message: 'later', lane: 'queue', background: true });
    assert.deepEqual([queued.code, queued.json.state], [202, 'queued']);
    const waiting = s.turn(id, { message: 'last', lane: 'queue' });
    await s.release();
    assert.equal(textOf(await first.end()), 'slow');
    assert.equal((await waiting).json.text, 'echo: last');
    assert.equal((await s.get(`/api/v1/turns/${queued.json.turn_id}`)).json.state, 'done');
    assert.deepEqual((await messagesOf(s, id)).map((m) => m.content.replace(/<<hang.*>>/, '')),
        ['<<say slow>>', 'slow', 'later', 'echo: later', 'last', 'echo: last']);
});

test('an interrupt stops the running turn and keeps its text', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const first = await stream(s, id, { message: '<<say half of it>><<chunk 5>><<stall after=1>>' });
    await first.next(isA('text'));
    const second = await s.turn(id, { message: 'stop that', lane: 'interrupt' });
    assert.deepEqual([second.json.state, second.json.text], ['done', 'echo: stop that']);
    const last = (await first.end()).at(-1);
    assert.deepEqual([last.event, last.data.state], ['ended', 'canceled']);
    assert.match(last.data.reason, /interrupted/);
    assert.equal((await messagesOf(s, id))[1].content, 'half ');
});

test('a steered message is answered by the running turn', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const first = s.turn(id, { message: 'go <<tool f {}>>', tools: [tool('f')] });
    const paused = (await first).json;
    assert.equal(paused.state, 'paused');
    const steering = await s.turn(id,
        { message: 'and be quick', lane: 'steer', background: true });
    assert.equal(steering.code, 202);
    assert.deepEqual([steering.json.steered, steering.json.turn_id], [true, paused.turn_id]);
    const done = await s.post(`/api/v1/turns/${paused.turn_id}/results`,
        { results: [{ call_id: paused.waiting[0].call_id, output: 'ok' }] });
    assert.deepEqual([done.json.state, done.json.text], ['done', 'echo: and be quick']);
    assert.deepEqual((await messagesOf(s, id)).map((m) => m.role),
        ['user', 'assistant', 'tool', 'user', 'assistant']);
});

test('cancel keeps the messages so far', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const answer = s.turn(id, { message: '<<say some words>><<chunk 5>><<stall after=1>>' });
    const { turn_id: turn } = await untilState(s, id, 'running');
    const r = await open(s.port, 'GET', `/api/v1/turns/${turn}/events`);
    await r.next(isA('text'));
    const canceled = await s.post(`/api/v1/turns/${turn}/cancel`);
    assert.deepEqual([canceled.code, canceled.json.state, canceled.json.reason],
        [200, 'canceled', 'canceled']);
    const { code, json } = await answer;
    assert.deepEqual([code, json.state, json.text], [200, 'canceled', 'some ']);
    assert.equal((await messagesOf(s, id))[1].content, 'some ');
    const again = await s.post(`/api/v1/turns/${turn}/cancel`);
    assert.equal(again.json.state, 'canceled', 'once more changes nothing');
    assert.equal((await s.turn(id, { message: 'next' })).json.text, 'echo: next');
});

test('a canceled waiting turn is removed with its message', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const first = await stream(s, id, { message: '<<say one>><<hang times=1>>' });
    await s.untilAsked(1);
    const queued = await s.turn(id, { message: 'never', lane: 'queue', background: true });
    const canceled = await s.post(`/api/v1/turns/${queued.json.turn_id}/cancel`);
    assert.equal(canceled.json.state, 'canceled');
    await s.release();
    await first.end();
    assert.equal((await messagesOf(s, id)).length, 2);
});

test('a turn pauses for tools of the caller and continues with their results', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const paused = await s.turn(id, { message: '<<tool f {"a":1}>><<tool g {}>>',
        tools: [tool('f'), { name: 'g', parameters: { type: 'object' } }] });
    assert.equal(paused.code, 200);
    const { turn_id: turn, waiting, state, tool_calls: calls, finish_reason: reason } = paused.json;
    assert.deepEqual([state, reason], ['paused', 'tool_calls']);
    assert.deepEqual(waiting.map((c) => [c.name, c.arguments]), [['f', '{"a":1}'], ['g', '{}']]);
    assert.deepEqual(calls.map((c) => [c.name, c.output]), [['f', undefined], ['g', undefined]]);
    const give = (results, more = {}) =>
        s.post(`/api/v1/turns/${turn}/results`, { results, ...more });
    assertError(await give([{ call_id: 'other', output: '' }]), 400, 'invalid', /call 'other' is not waiting for a result/);
    assertError(await give([]), 400, 'invalid', /'results'/);
    assertError(await give([{ output: 'x' }]), 400, 'invalid', /results\[0\].*'call_id'/);
    assertError(await give([{ call_id: 'c', is_error: 'no' }]), 400, 'invalid', /is_error/);
    assert.equal((await s.get(`/api/v1/turns/${turn}`)).json.state, 'paused');
    // The result of the second call comes first; the turn still waits for the other one.
    const some = await give([{ call_id: waiting[1].call_id, output: { x: 1 } }]);
    assert.equal(some.json.state, 'paused');
    assert.deepEqual(some.json.waiting.map((c) => c.name), ['f']);
    const all = await give([{ call_id: waiting[0].call_id, content: 'no luck', is_error: true }]);
    assert.deepEqual([all.json.state, all.json.text],
        ['done', 'tool said: no luck | {"x":1}']);
    assert.deepEqual(all.json.tool_calls.map((c) => [c.name, c.output, c.is_error]),
        [['f', 'no luck', true], ['g', '{"x":1}', false]]);
    assertError(await give([{ call_id: waiting[0].call_id, output: '' }]), 409, 'conflict',
        /not waiting for results: its state is '/);
});

test('a stream continues after results were sent to the session', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const first = await stream(s, id, { message: '<<tool f {}>><<next>><<say over>>',
        tools: [tool('f')] });
    const paused = await first.next(isA('paused'));
    const on = await open(s.port, 'POST', `/api/v1/sessions/${id}/results`, { body: {
        results: [{ call_id: paused.data.calls[0].call_id, output: 'ok' }], stream: true } });
    const rest = await on.end();
    assert.equal(rest[0].id, paused.id + 1);
    assert.equal(textOf(rest), 'over');
    assert.deepEqual((await first.end()).slice(paused.id), rest);
    const kinds = rest.map((e) => e.event);
    assert.equal(kinds[0], 'tool_ended');
    assert.deepEqual([rest[0].data.output, rest[0].data.is_error], ['ok', false]);
});

test('the third identical call in a row asks, and can be allowed or denied', async (t) => {
    const s = await serveModel(t);
    // The tool "recall" is built in; each reply calls it in the same way.
    const call = '<<tool recall {"text":"x"}>>';
    const message = `${call}<<next>>${call}<<next>>${call}<<next>><<say enough>>`;
    for (const allow of [false, true]) {
        const id = await s.session();
        const asking = await s.turn(id, { message });
        assert.equal(asking.json.state, 'asking', asking.text);
        assert.equal(asking.json.asking.name, 'recall');
        assert.match(asking.json.asking.reason, /three times in a row/);
        const turn = asking.json.turn_id;
        assertError(await s.post(`/api/v1/turns/${turn}/approve`, { allow: 'yes' }), 400, 'invalid');
        assertError(await s.post(`/api/v1/turns/${turn}/approve`, {}), 400, 'invalid', /'allow'/);
        const r = await open(s.port, 'GET',
            `/api/v1/turns/${turn}/events?after=${(await s.get(`/api/v1/turns/${turn}`)).json.events}`);
        assert.equal((await s.post(`/api/v1/turns/${turn}/approve`, { allow })).code, 200);
        const events = await r.end();
        assert.equal(textOf(events), 'enough');
        assert.equal(events.find(isA('tool_ended')).data.is_error, !allow);
        assertError(await s.post(`/api/v1/turns/${turn}/approve`, { allow }), 409, 'conflict',
            /not waiting for answers/);
    }
});

test('a failed turn has a code, and the next turn works', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const failed = await s.turn(id, { message: '<<fail status=400>>' });
    assert.equal(failed.code, 502);
    assert.equal(failed.json.code, 'provider');
    assert.match(failed.json.error, /scripted failure/);
    assert.deepEqual([failed.json.turn.session_id, failed.json.turn.state], [id, 'failed']);
    assert.equal((await s.get(`/api/v1/turns/${failed.json.turn.turn_id}`)).json.state, 'failed');
    const r = await stream(s, id, { message: '<<fail status=400>>', all_or_nothing: true });
    const last = (await r.end()).at(-1);
    assert.deepEqual([last.data.state, last.data.code], ['failed', 'provider']);
    assert.equal((await messagesOf(s, id)).length, 2, 'the second left no trace');
    assert.equal((await s.turn(id, { message: 'again' })).json.text, 'echo: again');
});

test('a client that leaves does not stop its turn', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const body = JSON.stringify({ message: '<<say heard by nobody>><<hang times=1>>' });
    const request = http.request({ host: '127.0.0.1', port: s.port, method: 'POST', agent: false,
        path: `/api/v1/sessions/${id}/turns`, headers: { 'content-length': body.length } });
    request.on('error', () => {});
    request.end(body);
    await s.untilAsked(1);
    request.destroy();
    await s.release();
    await untilState(s, id, 'idle');
    assert.equal((await messagesOf(s, id))[1].content, 'heard by nobody');
});

test('a repeated request does its work once', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const headers = { 'idempotency-key': 'k1' };
    const first = await s.turn(id, { message: 'once' }, { headers });
    const second = await s.turn(id, { message: 'once' }, { headers });
    assert.equal(second.headers['idempotent-replayed'], 'true');
    assert.deepEqual(second.json, first.json);
    // The client id of the message also finds the turn, without the header.
    const mine = await s.turn(id, { message: 'twice', client_id: 'c1' });
    const again = await s.turn(id, { message: 'twice', client_id: 'c1' });
    assert.equal(again.json.replayed, true);
    assert.deepEqual([again.json.turn_id, again.json.text], [mine.json.turn_id, mine.json.text]);
    // A stream that broke can be opened again.
    const r = await stream(s, id, { message: '<<say three>><<chunk 2>><<stall after=1>>' },
        { headers: { 'idempotency-key': 'k2' } });
    await r.next(isA('text'));
    r.leave();
    const joined = await stream(s, id, { message: '<<say three>><<chunk 2>><<stall after=1>>' },
        { headers: { 'idempotency-key': 'k2' } });
    assert.equal(joined.headers['x-palaver-turn'], r.headers['x-palaver-turn']);
    await joined.next(isA('text'));
    await s.release();
    assert.equal(textOf(await joined.end()), 'three');
    assert.equal((await s.asked()).length, 3);
    assert.equal((await messagesOf(s, id)).length, 6);
});

test('a failed request can be repeated with its key', async (t) => {
    const s = await serveModel(t);
    for (const whole of [false, true]) {
        const id = await s.session();
        const body = { message: `<<fail status=400 times=1>>${whole}`, all_or_nothing: whole };
        const headers = { 'idempotency-key': `again-${whole}` };
        assert.equal((await s.turn(id, body, { headers })).code, 502);
        const second = await s.turn(id, body, { headers });
        assert.deepEqual([second.code, second.json.text], [200, `echo: ${whole}`], second.text);
        const said = (await messagesOf(s, id)).filter((m) => m.role === 'user');
        assert.equal(said.length, 1);
    }
});

test('after a restart, answers are found, and interrupted turns are reported', async (t) => {
    const s = await serveModel(t, { config: 'server:\n  drain: 0s\n' });
    const id = await s.session();
    const headers = { 'idempotency-key': 'before' };
    const body = { message: 'remember me', client_id: 'c1' };
    const first = await s.turn(id, body, { headers });
    const waiting = s.turn(id, { message: '<<say never>><<hang times=1>>' });
    await s.untilAsked(2);
    const queued = s.turn(id, { message: 'after the restart', lane: 'queue' });
    await s.untilQueued(1);
    const end = await s.stop();
    assert.deepEqual([end.code, end.signal], [0, null], end.log);
    // Neither turn is reported as canceled: both continue in the next server, with the same ids.
    for (const cut of [await waiting, await queued]) {
        assert.deepEqual([cut.code, cut.json.code, cut.json.turn.state], [503, 'stopping', 'queued'],
            cut.text);
        assert.equal(cut.headers['retry-after'], '1');
    }
    const later = await serveModel(t, { dir: s.dir, model: s.model });
    // The turn runs on its own, and then the session is free again.
    for (;;) {
        const messages = await messagesOf(later, id);
        if (messages.at(-1).content === 'echo: after the restart') break;
        await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await untilState(later, id, 'idle');
    assert.deepEqual((await messagesOf(later, id)).map((m) => m.content), ['remember me',
        'echo: remember me', '<<say never>><<hang times=1>>', 'never', 'after the restart',
        'echo: after the restart']);
    for (const [cut, text] of [[waiting, 'never'], [queued, 'echo: after the restart']]) {
        const found = await later.get(`/api/v1/turns/${(await cut).json.turn.turn_id}`);
        assert.deepEqual([found.json.state, found.json.text], ['done', text], found.text);
    }
    const again = await later.turn(id, body);
    assert.deepEqual([again.json.replayed, again.json.turn_id, again.json.text, again.json.seq],
        [true, first.json.turn_id, 'echo: remember me', 2]);
    const remembered = await later.turn(id, body, { headers });
    assert.deepEqual(remembered.json, first.json);
    const found = await later.get(`/api/v1/turns/${first.json.turn_id}`);
    assert.deepEqual([found.json.state, found.json.text, found.json.message_id],
        ['done', 'echo: remember me', first.json.message_id]);
});

test('a clean stop does not wait for a turn that waits for the caller, and the turn survives', async (t) => {
    const s = await serveModel(t, { config: 'server:\n  drain: 1h\n' });
    const id = await s.session();
    const paused = await s.turn(id, { message: '<<tool f {}>>', tools: [tool('f')] });
    assert.match((await s.get('/metrics')).text, /^palaver_turns_waiting 1$/m);
    const r = await open(s.port, 'GET', `/api/v1/turns/${paused.json.turn_id}/events`);
    // The head of the response arrives before the server watches the turn.
    await r.next(isA('paused'));
    const end = await s.stop();
    assert.deepEqual([end.code, end.signal], [0, null], end.log);
    const last = (await r.end()).at(-1);
    assert.deepEqual([last.event, last.data.state], ['ended', 'paused']);
    const later = await serveModel(t, { dir: s.dir, model: s.model });
    const on = await later.post(`/api/v1/sessions/${id}/results`,
        { results: [{ call_id: paused.json.waiting[0].call_id, output: 'ok' }] });
    assert.deepEqual([on.code, on.json.state, on.json.text], [200, 'done', 'tool said: ok'], on.text);
    assert.deepEqual((await messagesOf(later, id)).map((m) => m.role),
        ['user', 'assistant', 'tool', 'assistant']);
});

test('a reload does not end a server that waits for its last turns', async (t) => {
    const s = await serveModel(t, { config: 'server:\n  drain: 1h\n' });
    const id = await s.session();
    const asked = s.turn(id, { message: '<<say at last>><<hang times=1>>' });
    await s.untilAsked(1);
    s.child.kill('SIGTERM');
    const ended = once(s.child, 'close');
    await s.logged(/stopping; waiting up to/);
    s.child.kill('SIGHUP');
    await s.release();
    assert.equal((await asked).json.text, 'at last');
    assert.deepEqual(await ended, [0, null], s.log());
});

test('after a kill, turns continue with their results and their answers', async (t) => {
    const s = await serveModel(t);
    const [paused, cut] = [await s.session(), await s.session()];
    const pause = await s.turn(paused, { message: '<<tool f {}>>', tools: [tool('f')] });
    const headers = { 'idempotency-key': 'cut' };
    const body = { message: '<<say at last>><<hang times=1>>' };
    const lost = s.turn(cut, body, { headers }).catch((error) => error);
    await s.untilAsked(2);
    await s.stop('SIGKILL');
    assert.ok(await lost instanceof Error);
    const later = await serveModel(t, { dir: s.dir, model: s.model });
    // Until the lease of the dead server has ended, its sessions stay locked.
    const until = async (send) => {
        for (;;) {
            const answer = await send();
            if (answer.code !== 409) return answer;
            await new Promise((resolve) => setTimeout(resolve, 250));
        }
    };
    const results = { results: [{ call_id: pause.json.waiting[0].call_id, output: 'ok' }] };
    const on = await until(() => later.post(`/api/v1/sessions/${paused}/results`, results));
    assert.deepEqual([on.code, on.json.state, on.json.text], [200, 'done', 'tool said: ok'], on.text);
    const answered = await until(() => later.turn(cut, body, { headers }));
    assert.deepEqual([answered.code, answered.json.text], [200, 'at last'], answered.text);
    assert.deepEqual((await messagesOf(later, cut)).map((m) => m.role), ['user', 'assistant']);
});

test('tenants do not see each other, and keys that only read cannot start turns', async (t) => {
    const dir = workspace(t);
    const [a, b] = ['a', 'b'].map((tenant) => makeKey(dir, '--tenant', tenant).key);
    const reader = makeKey(dir, '--tenant', 'a', '--role', 'read').key;
    const s = await serve(t, { dir });
    const made = await s.post('/api/v1/sessions', {}, { key: a });
    const id = made.json.session_id;
    const { json } = await s.post(`/api/v1/sessions/${id}/turns`, { message: 'hi' }, { key: a });
    assert.equal(json.state, 'done');
    const turn = `/api/v1/turns/${json.turn_id}`;
    assert.equal((await s.get(turn, { key: reader })).code, 200);
    assert.equal((await s.get(`${turn}/events`, { key: reader })).code, 200);
    for (const [method, path, body] of [['GET', turn], ['GET', `${turn}/events`],
        ['POST', `${turn}/cancel`], ['POST', `${turn}/approve`, { allow: true }],
        ['POST', `${turn}/results`, { results: [{ call_id: 'c' }] }],
        ['GET', `/api/v1/sessions/${id}/turn`],
        ['POST', `/api/v1/sessions/${id}/turns`, { message: 'x' }],
        ['POST', `/api/v1/sessions/${id}/results`, { results: [{ call_id: 'c' }] }]]) {
        assertError(await s.ask(method, path, { body, key: b }), 404, 'not_found');
        assertError(await s.ask(method, path, { body }), 401, 'unauthorized');
        if (method === 'POST')
            assertError(await s.ask(method, path, { body, key: reader }), 403, 'forbidden');
    }
});

test('a failed stream is logged', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const cut = '<<say abcdefghijklmnopqrstuvwxyz>><<chunk 5>><<cut after=3>>';
    const answer = await s.turn(id, { message: cut, stream: true });
    assert.match(answer.text, /failed/);
    await s.logged(new RegExp(`^\\S+ warn turn \\S+ of session ${id} failed: \\S.*$`, 'm'));
    await s.post('/v1/responses', { input: cut, stream: true });
    await s.logged(new RegExp(`^\\S+ warn turn \\S+ of session (?!${id})\\S+ failed: \\S.*$`, 'm'));
    await s.post('/v1/chat/completions',
        { stream: true, messages: [{ role: 'user', content: cut }] });
    await s.logged(/^\S+ warn request \S+: could not forward the stream: \S.*$/m);
    const ended = '<<say abcdefghijklmnopqrstuvwxyz>><<chunk 5>><<cut after=3 mode=eof>>';
    await s.post('/v1/chat/completions',
        { stream: true, messages: [{ role: 'user', content: ended }] });
    await s.logged(/^\S+ warn request \S+: the model service ended the stream before its last event$/m);
    await s.post('/v1/chat/completions',
        { stream: true, messages: [{ role: 'user', content: '<<fail status=401>>' }] });
    await s.logged(/^\S+ warn request \S+: the model service responded with code 401$/m);
});

test('a turn that fails in the background is logged', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    await s.turn(id, { message: '<<fail status=401>>', background: true });
    await s.logged(new RegExp(`^\\S+ warn turn \\S+ of session ${id} failed: \\S.*401$`, 'm'));
    const lines = s.log().match(/ failed: /g);
    assert.equal(lines.length, 1, s.log());
});

test('a turn counts against the budget if its service reports no usage', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--max-tokens', '20');
    const s = await serveModel(t, { dir });
    const ask = () => s.post('/api/v1/chat', { message: '<<nousage>><<size 4000>>' }, { key });
    assert.equal((await ask()).code, 200);
    const { json } = await s.get('/api/v1/usage', { key });
    assert.equal(json.calls, 1);
    assert.ok(json.input_tokens > 0 && json.output_tokens > 500, JSON.stringify(json));
    assert.equal((await ask()).code, 429);
});
