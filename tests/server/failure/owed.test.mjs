// An admitted turn is answered or fails visibly: the server is killed at every stage of a turn, and
// the next server continues the turn with the same id.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isA, open, serveModel, textOf } from '../model.mjs';

const config = 'turn:\n  lease: 1s\n';
const tool = (name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });
const pause = () => new Promise((resolve) => setTimeout(resolve, 10));

async function messagesOf(s, id, query = '') {
    return (await s.get(`/api/v1/sessions/${id}/messages?limit=1000${query}`)).json.messages;
}

// Waits until the turn is in one of the states.
async function untilTurn(s, turn, ...states) {
    for (;;) {
        const found = await s.get(`/api/v1/turns/${turn}`);
        assert.equal(found.code, 200, `an admitted turn is never unknown: ${found.text}`);
        if (states.includes(found.json.state)) return found.json;
        await pause();
    }
}

const again = (t, s) => serveModel(t, { dir: s.dir, model: s.model, config });

async function killed(t, body, untilAsked = 1) {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const { code, json } = await s.turn(id, { ...body, background: true });
    assert.equal(code, 202);
    await s.untilAsked(untilAsked);
    await s.stop('SIGKILL');
    return { s, id, turn: json.turn_id };
}

test('a turn continues after a kill during the model call', async (t) => {
    const { s, id, turn } = await killed(t, { message: '<<say at last>><<hang times=1>>' });
    const later = await again(t, s);
    const { text, message_id: message } = await untilTurn(later, turn, 'done');
    assert.equal(text, 'at last');
    const messages = await messagesOf(later, id);
    assert.deepEqual(messages.map((m) => [m.role, m.turn_id]), [['user', turn], ['assistant', turn]]);
    assert.equal(messages[1].id, message);
    assert.equal((await later.asked()).length, 2);
});

test('a turn continues after a kill while it waits for retry-after', async (t) => {
    const { s, turn } = await killed(t,
        { message: '<<say at last>><<fail status=503 times=1 retry_after=60>>' });
    const later = await again(t, s);
    assert.equal((await untilTurn(later, turn, 'done')).text, 'at last');
});

test('a turn that is killed again and again fails with a reason', async (t) => {
    const { s, id, turn } = await killed(t, { message: '<<hang>>' });
    let later;
    for (let tries = 2; tries <= 3; tries++) {
        later = await again(t, s);
        await later.untilAsked(tries);
        assert.equal((await untilTurn(later, turn, 'running')).turn_id, turn);
        await later.stop('SIGKILL');
    }
    later = await again(t, s);
    const { reason } = await untilTurn(later, turn, 'failed');
    assert.match(reason, /the process died 3 times while answering/);
    const messages = await messagesOf(later, id);
    assert.deepEqual(messages.map((m) => m.role), ['user', 'assistant']);
    assert.match(messages[1].error, /died 3 times/);
    assert.equal((await later.asked()).length, 3);
});

// An MCP server with one tool, which never returns.
const stalling = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    const results = { 'initialize': { protocolVersion: params?.protocolVersion,
        capabilities: { tools: {} }, serverInfo: { name: 'stalling', version: '1' } },
        'tools/list': { tools: [{ name: 'stall', inputSchema: { type: 'object' } }] }, 'ping': {} };
    if (results[method]) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] }));
});`;

test('a turn that fails after kills leaves no call without a result', async (t) => {
    const servers = `mcp_servers:\n  - {name: fx, command: ${
        JSON.stringify([process.execPath, '-e', stalling])}}\npermissions: [{tool: "*", do: allow}]\n`;
    let s = await serveModel(t, { config: config + servers });
    const id = await s.session();
    const { json } = await s.turn(id,
        { message: '<<hang times=2>><<tool fx__stall {}>>', background: true });
    for (let tries = 1; tries <= 3; tries++) {
        await s.untilAsked(tries);
        // In the third request, the model calls the tool.
        while (tries === 3 && (await messagesOf(s, id)).length < 2) await pause();
        await s.stop('SIGKILL');
        s = await serveModel(t, { dir: s.dir, model: s.model, config: config + servers });
    }
    assert.match((await untilTurn(s, json.turn_id, 'failed')).reason, /died 3 times/);
    const messages = await messagesOf(s, id);
    assert.deepEqual(messages.map((m) => m.role), ['user', 'assistant', 'tool', 'assistant']);
    assert.match(JSON.stringify(messages[2]), /interrupted/);
});

test('a turn that is stopped again and again is still answered', async (t) => {
    const stops = { config: `${config}server:\n  drain: 100ms\n` };
    let s = await serveModel(t, stops);
    const id = await s.session();
    const { json } = await s.turn(id, { message: '<<say at last>><<hang times=4>>', background: true });
    for (let tries = 1; tries <= 4; tries++) {
        await s.untilAsked(tries);
        assert.equal((await s.stop()).code, 0);
        s = await serveModel(t, { dir: s.dir, model: s.model, ...stops });
    }
    assert.equal((await untilTurn(s, json.turn_id, 'done', 'failed')).text, 'at last');
    assert.deepEqual((await messagesOf(s, id)).map((m) => m.role), ['user', 'assistant']);
});

test('a turn that is stopped, then killed again and again, fails', async (t) => {
    const stops = { config: `${config}server:\n  drain: 100ms\n` };
    let s = await serveModel(t, stops);
    const id = await s.session();
    const { json } = await s.turn(id, { message: '<<hang>>', background: true });
    for (let tries = 1; tries <= 4; tries++) {
        await s.untilAsked(tries);
        await s.stop(tries === 1 ? 'SIGTERM' : 'SIGKILL');
        s = await serveModel(t, { dir: s.dir, model: s.model, ...stops });
    }
    assert.match((await untilTurn(s, json.turn_id, 'failed')).reason, /died 3 times/);
});

test('an all-or-nothing turn continues too', async (t) => {
    const { s, id, turn } = await killed(t,
        { message: '<<say all>><<hang times=1>>', all_or_nothing: true });
    const later = await again(t, s);
    assert.equal((await untilTurn(later, turn, 'done')).text, 'all');
    assert.deepEqual((await messagesOf(later, id)).map((m) => m.content),
        ['<<say all>><<hang times=1>>', 'all']);
});

test('a paused turn takes its results before the queued turn runs', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const paused = await s.turn(id, { message: '<<tool f {}>>', tools: [tool('f')] });
    const behind = await s.turn(id, { message: 'behind', lane: 'queue', background: true });
    await s.stop('SIGKILL');
    const later = await again(t, s);
    const waits = await untilTurn(later, paused.json.turn_id, 'paused');
    assert.deepEqual(waits.waiting, paused.json.waiting);
    assert.deepEqual((await later.get(`/api/v1/sessions/${id}/turn`)).json.waiting, waits.waiting);
    const results = { results: [{ call_id: waits.waiting[0].call_id, output: 'ok' }] };
    const on = await later.post(`/api/v1/turns/${paused.json.turn_id}/results`, results);
    assert.deepEqual([on.code, on.json.turn_id, on.json.text],
        [200, paused.json.turn_id, 'tool said: ok'], on.text);
    assert.equal((await untilTurn(later, behind.json.turn_id, 'done')).text, 'echo: behind');
    assert.deepEqual((await messagesOf(later, id)).map((m) => m.role),
        ['user', 'assistant', 'tool', 'assistant', 'user', 'assistant']);
});

test('results can be sent immediately after the restart', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const paused = await s.turn(id, { message: '<<tool f {}>>', tools: [tool('f')] });
    await s.stop('SIGKILL');
    const later = await again(t, s);
    const on = await later.post(`/api/v1/sessions/${id}/results`,
        { results: [{ call_id: paused.json.waiting[0].call_id, output: 'ok' }] });
    assert.deepEqual([on.code, on.json.turn_id, on.json.text],
        [200, paused.json.turn_id, 'tool said: ok'], on.text);
});

for (const allow of [true, false]) {
    test(`a call can be ${allow ? 'allowed' : 'denied'} after the restart`, async (t) => {
        const s = await serveModel(t, { config });
        const id = await s.session();
        const call = '<<tool recall {"text":"x"}>>';
        const message = `${call}<<next>>${call}<<next>>${call}<<next>><<say enough>>`;
        const asks = await s.turn(id, { message });
        assert.equal(asks.json.state, 'asking', asks.text);
        await s.stop('SIGKILL');
        const later = await again(t, s);
        const asked = await untilTurn(later, asks.json.turn_id, 'asking', 'paused');
        if (asked.state === 'asking') {
            assert.deepEqual([asked.asking.call_id, asked.asking.name],
                [asks.json.asking.call_id, 'recall']);
        }
        const told = await later.post(`/api/v1/turns/${asks.json.turn_id}/approve`, { allow });
        assert.equal(told.code, 200, told.text);
        assert.equal((await untilTurn(later, asks.json.turn_id, 'done')).turn_id,
            asks.json.turn_id);
        const denied = (await messagesOf(later, id))
            .filter((m) => JSON.stringify(m).includes('denied this call'));
        assert.equal(denied.length, allow ? 0 : 1);
    });
}

// ---- The same again ----

test('a repeated request gets the answer of its own turn, despite later messages', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const body = { message: '<<say mine>><<hang times=1>>', client_id: 'c1' };
    const first = s.turn(id, body);
    await s.untilAsked(1);
    await s.post(`/api/v1/sessions/${id}/messages`, { role: 'user', content: 'in between' });
    await s.release();
    const { json } = await first;
    assert.equal(json.text, 'mine');
    await s.turn(id, { message: 'later' });
    await s.stop();
    const later = await again(t, s);
    const repeat = await later.turn(id, body);
    assert.deepEqual([repeat.code, repeat.json.text, repeat.json.turn_id, repeat.json.message_id],
        [200, 'mine', json.turn_id, json.message_id], repeat.text);
    // As a stream, if the client requests one.
    const stream = await open(later.port, 'POST', `/api/v1/sessions/${id}/turns`,
        { body: { ...body, stream: true } });
    assert.match(stream.headers['content-type'], /^text\/event-stream/);
    const events = await stream.end();
    assert.equal(textOf(events), 'mine');
    assert.deepEqual([events.at(-1).event, events.at(-1).data.state], ['ended', 'done']);
});

test('a repeated request after a kill joins the continued turn', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const body = { message: '<<say at last>><<hang times=1>>', client_id: 'c1' };
    const headers = { 'idempotency-key': 'k1' };
    const lost = s.turn(id, body, { headers }).catch(() => undefined);
    await s.untilAsked(1);
    await s.post(`/api/v1/sessions/${id}/messages`, { role: 'user', content: 'somebody else' });
    await s.stop('SIGKILL');
    assert.equal(await lost, undefined);
    const later = await again(t, s);
    // The model answers the last message.
    const first = await later.turn(id, body, { headers });
    assert.deepEqual([first.code, first.json.text], [200, 'echo: somebody else'], first.text);
    const second = await later.turn(id, body, { headers });
    assert.deepEqual(second.json, first.json);
    const answers = (await messagesOf(later, id)).filter((m) => m.role === 'assistant');
    assert.deepEqual(answers.map((m) => [m.content, m.turn_id]),
        [['echo: somebody else', first.json.turn_id]]);
});

test('a running and a queued turn survive a kill and are both repeated', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const bodies = ['<<say one>><<hang times=1>>', '<<say two>>'].map((message, n) =>
        ({ message, client_id: `c${n}`, lane: 'queue' }));
    const lost = [s.turn(id, bodies[0]).catch(() => undefined)];
    await s.untilAsked(1);
    lost.push(s.turn(id, bodies[1]).catch(() => undefined));
    await s.untilQueued(1);
    await s.stop('SIGKILL');
    await Promise.all(lost);
    const later = await again(t, s);
    const repeats = await Promise.all(bodies.map((body) => later.turn(id, body)));
    assert.deepEqual(repeats.map(({ json }) => [json.state, json.text]),
        [['done', 'one'], ['done', 'two']], repeats.map(({ text }) => text).join());
    assert.deepEqual((await messagesOf(later, id)).map((m) => m.content),
        [bodies[0].message, 'one', bodies[1].message, 'two']);
});

// ---- Clocks, ends and looks ----

test('a session that expires during its turn keeps the answer', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session({ expires_at: new Date(Date.now() + 1000).toISOString() });
    const first = s.turn(id, { message: '<<say kept>><<hang times=1>>' });
    await s.untilAsked(1);
    while ((await s.get(`/api/v1/sessions/${id}`)).code === 200
        && Date.now() < Date.parse((await s.get(`/api/v1/sessions/${id}`)).json?.expires_at ?? 0) + 10)
        await pause();
    await s.release();
    const { code, json } = await first;
    assert.deepEqual([code, json.state, json.text], [200, 'done', 'kept'], JSON.stringify(json));
});

test('a paused turn ends when its session is rewound or deleted', async (t) => {
    const s = await serveModel(t, { config });
    const gauge = async (name) => Number(new RegExp(`^palaver_turns_${name} (\\d+)$`, 'm')
        .exec((await s.get('/metrics')).text)[1]);
    for (const end of ['rewind', 'delete']) {
        const id = await s.session();
        const paused = await s.turn(id, { message: '<<tool f {}>>', tools: [tool('f')] });
        assert.equal(paused.json.state, 'paused');
        if (end === 'rewind') await s.post(`/api/v1/sessions/${id}/rewind`, { to_seq: 0 });
        else await s.ask('DELETE', `/api/v1/sessions/${id}`);
        const { reason } = await untilTurn(s, paused.json.turn_id, 'canceled', 'failed');
        assert.match(reason, /rewound|deleted|hidden/);
        while (await gauge('running') || await gauge('waiting')) await pause();
        if (end === 'rewind') {
            const next = await s.turn(id, { message: 'and on' });
            assert.equal(next.json.text, 'echo: and on', next.text);
        }
    }
});

test('events of a long turn can be read from the beginning', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const { json } = await s.turn(id,
        { message: '<<size 120000>><<chunk 4>>', background: true });
    const { text } = await untilTurn(s, json.turn_id, 'done');
    assert.equal(text.length, 120000);
    const read = async (after) => {
        const events = [];
        for (;;) {
            const r = await open(s.port, 'GET', `/api/v1/turns/${json.turn_id}/events?after=${after}`);
            if (r.code === 204) return events;
            const part = await r.end();
            assert.ok(part.length > 0);
            events.push(...part);
            after = part.at(-1).id;
            if (part.at(-1).event === 'ended') return events;
        }
    };
    const all = await read(0);
    assert.equal(all[0].event, 'started');
    assert.equal(textOf(all), text);
    assert.ok(all.at(-1).id > 30000);
    // Also from the middle of events that have been merged into one.
    for (const after of [1000, 12345, 29999]) {
        const rest = textOf(await read(after));
        assert.ok(rest.length < text.length && text.endsWith(rest));
        assert.ok(Math.abs(rest.length - (120000 - 4 * (after - 2))) <= 8, `${rest.length}`);
    }
});

test('a compaction during a turn is rejected like a second turn', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const running = s.turn(id, { message: '<<say on>><<hang times=1>>' });
    await s.untilAsked(1);
    const refused = await s.post(`/api/v1/sessions/${id}/compact`, {});
    assert.deepEqual([refused.code, refused.json.code], [409, 'session_busy'], refused.text);
    await s.release();
    assert.equal((await running).json.text, 'on');
});

test('hidden messages are marked, and all messages name their turn', async (t) => {
    const s = await serveModel(t, { config });
    const id = await s.session();
    const first = await s.turn(id, { message: 'one' });
    const second = await s.turn(id, { message: 'two' });
    await s.post(`/api/v1/sessions/${id}/rewind`, { to_seq: 2 });
    const messages = await messagesOf(s, id, '&hidden=true');
    assert.deepEqual(messages.map((m) => [m.turn_id, m.hidden]),
        [[first.json.turn_id, undefined], [first.json.turn_id, undefined],
            [second.json.turn_id, true], [second.json.turn_id, true]]);
    assert.ok((await messagesOf(s, id)).every((m) => !('hidden' in m)));
});

test('a continued turn can be found by its events', async (t) => {
    const { s, turn } = await killed(t, { message: '<<say at last>><<hang times=1>>' });
    const later = await again(t, s);
    await untilTurn(later, turn, 'done');
    // A reader that returns with an event number of the first server gets all events of this
    // server.
    const r = await open(later.port, 'GET', `/api/v1/turns/${turn}/events?after=4000`);
    if (r.code === 200) {
        const events = await r.end();
        assert.equal(textOf(events), 'at last');
        assert.ok(events.some(isA('ended')));
    }
});
