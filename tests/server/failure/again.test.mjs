// Repeated requests, sent to any of several servers on one store: the response is the turn of the
// first request, with the same id, also if the receiving server cannot read the session now. A
// failed turn is repeated at the current end of the conversation.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isA, open, serveModel, textOf } from '../model.mjs';

const config = 'turn:\n  lease: 1s\n';
const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
const again = (t, s) => serveModel(t, { dir: s.dir, model: s.model, config });

async function two(t) {
    const a = await serveModel(t, { config });
    return [a, await again(t, a)];
}

async function said(s, id) {
    const { json } = await s.get(`/api/v1/sessions/${id}/messages?limit=1000`);
    return json.messages.map((m) => [m.role, m.content ?? m.error, m.client_id]);
}

async function untilTurn(s, turn, ...states) {
    for (;;) {
        const found = await s.get(`/api/v1/turns/${turn}`);
        assert.equal(found.code, 200, found.text);
        if (states.includes(found.json.state)) return found.json;
        await pause();
    }
}

// One turn runs in the session until the model is released, and another turn waits.
async function keepBusy(s, id, asked) {
    const running = s.turn(id, { message: '<<say held>><<hang times=1>>', lane: 'queue' });
    await s.untilAsked(asked + 1);
    const waiting = s.turn(id, { message: '<<say waits>>', lane: 'queue' });
    await s.untilQueued(1);
    return () => Promise.all([running, waiting]);
}

test('a server returns a finished turn at once while other servers run and queue turns', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const request = { message: '<<say mine>>', client_id: 'x', lane: 'queue' };
    const keyed = { message: '<<say keyed>>', lane: 'queue' };
    const headers = { 'idempotency-key': 'k' };
    const first = await a.turn(id, request);
    assert.equal((await a.turn(id, keyed, { headers })).json.text, 'keyed');
    const ended = await keepBusy(a, id, 2);
    for (const lane of ['queue', 'steer', 'reject']) {
        const background = await b.turn(id, { ...request, lane, background: true });
        assert.deepEqual([background.code, background.json.turn_id, background.json.state],
            [202, first.json.turn_id, 'done'], background.text);
        const waits = await b.turn(id, { ...request, lane });
        assert.deepEqual([waits.code, waits.json.text, waits.json.message_id, waits.json.turn_id],
            [200, 'mine', first.json.message_id, first.json.turn_id], waits.text);
    }
    const stream = await open(b.port, 'POST', `/api/v1/sessions/${id}/turns`,
        { body: { ...request, stream: true } });
    assert.equal(textOf(await stream.end()), 'mine');
    const other = await b.turn(id, keyed, { headers });
    assert.deepEqual([other.code, other.json.text], [200, 'keyed'], other.text);
    await a.release();
    await ended();
    assert.equal((await said(a, id)).length, 8, 'nothing was said twice');
});

test('a client id that was used for another message is refused, also in a busy session', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    assert.equal((await a.turn(id, { message: 'one', client_id: 'x' })).code, 200);
    const other = { message: 'two', client_id: 'x', background: true };
    const refused = async () => {
        for (const s of [a, b]) {
            for (const lane of ['queue', 'reject', 'steer']) {
                const { code, json, text } = await s.turn(id, { ...other, lane });
                assert.deepEqual([code, json.code], [409, 'conflict'], text);
                assert.match(json.error, /client id 'x' was used for another message/);
            }
        }
    };
    await refused();
    const ended = await keepBusy(a, id, 1);
    await refused();
    await a.release();
    await ended();
    // No part of it waits.
    assert.equal((await b.turn(id, { message: 'three' })).json.text, 'echo: three');
    assert.equal((await said(a, id)).length, 8);
});

test('a repeated request waits for a response that another server creates', async (t) => {
    const [a, b] = await two(t);
    const body = { model: 'mock-model', input: '<<say mine>><<hang times=1>>' };
    const headers = { 'idempotency-key': 'k' };
    const first = a.post('/v1/responses', body, { headers });
    await a.untilAsked(1);
    const second = b.post('/v1/responses', body, { headers });
    await b.untilQueued(1);
    await a.release();
    const [one, repeat] = await Promise.all([first, second]);
    assert.deepEqual([repeat.code, repeat.json.id, repeat.json.output[0].content[0].text],
        [200, one.json.id, 'mine'], repeat.text);
    assert.equal((await a.asked()).length, 1);
});

test('a Mistral request that is repeated after a kill adds its message once', async (t) => {
    const s = await serveModel(t, { config });
    const path = '/mistral/v1/conversations';
    const made = await s.post(path, { model: 'mock-model', inputs: 'hello' });
    assert.equal(made.code, 200, made.text);
    const target = `${path}/${made.json.conversation_id}`;
    const headers = { 'idempotency-key': 'k' };
    const body = { inputs: '<<say mine>><<hang times=1>>' };
    const first = s.post(target, body, { headers }).catch(() => {});
    await s.untilAsked(2);
    await s.stop('SIGKILL');
    await first;
    const later = await again(t, s);
    const repeat = await later.post(target, body, { headers });
    assert.deepEqual([repeat.code, repeat.json.outputs[0].content], [200, 'mine'], repeat.text);
    const { json } = await later.get(`${target}/history`);
    assert.deepEqual(json.entries.map((e) => e.content),
        ['hello', 'echo: hello', body.inputs, 'mine']);
});

test('a repeated start of a Mistral conversation returns the same conversation, running or killed', async (t) => {
    const [a, b] = await two(t);
    const headers = { 'idempotency-key': 'k' };
    const body = { model: 'mock-model', inputs: '<<say mine>><<hang times=1>>' };
    const begin = (s) => s.post('/mistral/v1/conversations', body, { headers });
    const first = begin(a).catch(() => {});
    await a.untilAsked(1);
    const second = begin(b);
    await Promise.race([b.untilQueued(1), second]);
    await a.stop('SIGKILL');
    await first;
    const [repeat, third] = [await second, await begin(await again(t, a))];
    assert.deepEqual([repeat.code, repeat.json.outputs[0].content], [200, 'mine'], repeat.text);
    assert.deepEqual([third.code, third.json.conversation_id],
        [200, repeat.json.conversation_id], third.text);
    const { json } = await b.get(`/mistral/v1/conversations/${repeat.json.conversation_id}/history`);
    assert.deepEqual(json.entries.map((e) => e.content), [body.inputs, 'mine']);
});

test('after a kill during the model call, a repeated request gets the same turn', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const request = { message: '<<say at last>><<hang times=1>>', client_id: 'x', lane: 'queue',
        background: true };
    const first = await s.turn(id, request);
    await s.untilAsked(1);
    await s.stop('SIGKILL');
    const later = await again(t, s);
    const repeat = await later.turn(id, request);
    assert.deepEqual([repeat.code, repeat.json.turn_id], [202, first.json.turn_id], repeat.text);
    assert.equal((await untilTurn(later, first.json.turn_id, 'done')).text, 'at last');
    assert.equal((await said(later, id)).length, 2);
});

test('a turn keeps its id when this server follows it and takes it over from a dead server', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const request = { message: '<<say mine>><<hang times=1>>', client_id: 'x', lane: 'queue',
        background: true };
    const held = await a.turn(id, { message: '<<say held>><<hang times=1>>', background: true });
    await a.untilAsked(1);
    const turn = (await a.turn(id, request)).json.turn_id;
    const follows = b.turn(id, { ...request, background: false });
    await b.untilQueued(1);
    await a.stop('SIGKILL');
    await untilTurn(b, held.json.turn_id, 'done');
    await b.untilAsked(3);
    assert.equal((await b.turn(id, request)).json.turn_id, turn);
    assert.equal((await b.get(`/api/v1/sessions/${id}/turn`)).json.turn_id, turn);
    await b.release();
    const { json } = await follows;
    assert.deepEqual([json.text, json.turn_id], ['mine', turn]);
    assert.equal((await b.turn(id, request)).json.turn_id, turn);
});

const fails = { message: '<<say better>><<fail status=400 times=1>>', client_id: 'x' };
const spoken = [['user', fails.message, 'x'],
    ['assistant', 'mock: scripted failure with status 400', undefined]];

test('a repeated failed turn is appended again at the end if other messages followed it', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const first = await a.turn(id, fails);
    assert.equal(first.code, 502, first.text);
    assert.equal((await b.turn(id, { message: 'between' })).code, 200);
    const second = await b.turn(id, fails);
    assert.deepEqual([second.code, second.json.text], [200, 'better'], second.text);
    const texts = (await b.asked()).at(-1).messages.map((m) => m.content);
    assert.deepEqual(texts.slice(-2), ['echo: between', fails.message]);
    assert.deepEqual(await said(a, id), [...spoken, ['user', 'between', undefined],
        ['assistant', 'echo: between', undefined], ['user', fails.message, 'x#2'],
        ['assistant', 'better', undefined]]);
    // From now on both servers know the turn by this id.
    for (const s of [a, b]) {
        for (const lane of ['queue', 'reject']) {
            const { json } = await s.turn(id, { ...fails, lane });
            assert.deepEqual([json.turn_id, json.text], [second.json.turn_id, 'better']);
        }
        const { json } = await s.get(`/api/v1/turns/${second.json.turn_id}`);
        assert.equal(json.state, 'done');
    }
});

test('a repeated failed turn waits in a busy session under one id', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const first = await a.turn(id, fails);
    assert.equal(first.code, 502, first.text);
    const ended = await keepBusy(a, id, 1);
    const request = { ...fails, lane: 'queue', background: true };
    const second = await b.turn(id, request);
    assert.equal(second.code, 202, second.text);
    const turn = second.json.turn_id;
    assert.notEqual(turn, first.json.turn.turn_id);
    // The turn waits in the inbox, so the server that accepted it is not needed.
    await b.stop('SIGKILL');
    const later = await again(t, a);
    for (const s of [a, later]) {
        const third = await s.turn(id, request);
        assert.deepEqual([third.code, third.json.turn_id], [202, turn], third.text);
    }
    await a.release();
    await ended();
    for (const s of [a, later]) assert.equal((await untilTurn(s, turn, 'done')).text, 'better');
    assert.deepEqual((await said(a, id)).slice(-2),
        [['user', fails.message, 'x#2'], ['assistant', 'better', undefined]]);
});

test('a repeated failed turn continues in place if it is the last one', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const first = await a.turn(id, { ...fails, message: '<<say better>><<fail status=400 times=2>>' });
    assert.equal(first.code, 502, first.text);
    const request = { ...fails, message: '<<say better>><<fail status=400 times=2>>' };
    const second = await b.turn(id, request);
    assert.ok(second.json.turn, `${second.code} ${second.text}`);
    assert.equal(second.json.turn.turn_id, first.json.turn.turn_id);
    const third = await b.turn(id, request);
    assert.deepEqual([third.json.text, third.json.turn_id], ['better', first.json.turn.turn_id],
        third.text);
    // The first server knows only of the failure until it reads the session.
    const { json } = await a.get(`/api/v1/turns/${first.json.turn.turn_id}`);
    assert.deepEqual([json.state, json.text], ['done', 'better']);
    const fourth = await a.turn(id, request);
    assert.deepEqual([fourth.code, fourth.json.text], [200, 'better'], fourth.text);
    assert.equal((await said(a, id)).filter(([role]) => role === 'user').length, 1);
});
