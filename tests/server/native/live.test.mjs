// What is happening now: the answer so far, the turns of all sessions, and turns in the feed.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError, makeKey, workspace } from '../support.mjs';
import { open, serveModel } from '../model.mjs';

const stalled = '<<size 40>><<chunk 4>><<stall after=3>>';

// Starts a turn that stops in the middle of its answer.
async function stall(s, id, options) {
    const started = await s.turn(id, { message: stalled, background: true, label: 'a label' },
        options);
    assert.equal(started.code, 202, started.text);
    return started.json.turn_id;
}

// Waits until the turn has some text, and returns its state.
async function untilText(s, turn, options) {
    for (;;) {
        const { json } = await s.get(`/api/v1/turns/${turn}?so_far=true`, options);
        if (json.so_far?.parts[0]?.text?.length >= 12) return json;
    }
}

test('the answer so far, and then the rest of it', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const turn = await stall(s, id);
    const { so_far: now, state } = await untilText(s, turn);
    assert.equal(state, 'running');
    assert.equal(now.step, 1);
    assert.ok(now.message_id);
    assert.deepEqual(now.parts.map((part) => part.type), ['text']);
    assert.deepEqual(now.tools, []);
    assert.equal((await s.get(`/api/v1/sessions/${id}/turn?so_far=true`)).json.so_far.number,
        now.number);
    assert.equal((await s.get(`/api/v1/turns/${turn}`)).json.so_far, undefined);
    assertError(await s.get(`/api/v1/turns/${turn}?so_far=perhaps`), 400, 'invalid', /so_far/);
    const feed = await open(s.port, 'GET', `/api/v1/events?watch=${turn}:${now.number}`);
    await feed.next((e) => e.event === 'ready');
    await s.release();
    const end = await feed.next((e) => e.event === 'turn_event' && e.data.kind === 'ended');
    assert.equal(end.data.turn_id, turn);
    assert.ok(end.data.data.at);
    const events = feed.events.filter((e) => e.event === 'turn_event').map((e) => e.data);
    assert.ok(events.every((e) => e.number > now.number));
    const text = now.parts[0].text +
        events.filter((e) => e.kind === 'text').map((e) => e.data.text).join('');
    const stored = (await s.get(`/api/v1/sessions/${id}/messages/2`)).json.content;
    assert.equal(text, stored);
    feed.leave();
    const after = (await s.get(`/api/v1/turns/${turn}?so_far=true`)).json;
    assert.equal(after.state, 'done');
    assert.deepEqual(after.so_far.parts, []);
    assert.equal(after.text, stored);
});

test('a long answer is complete, however many events it had', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const { turn_id: turn } = (await s.turn(id,
        { message: '<<size 60000>><<chunk 4>><<stall after=14000>>', background: true })).json;
    for (;;) {
        const { so_far: now } = (await s.get(`/api/v1/turns/${turn}?so_far=true`)).json;
        if (now?.number < 14000) continue;
        assert.equal(now.parts.length, 1);
        const text = now.parts[0].text;
        await s.release();
        const { content } = await untilDone(s, id);
        assert.ok(content.startsWith(text));
        break;
    }
});

async function untilDone(s, id) {
    for (;;) {
        const answer = await s.get(`/api/v1/sessions/${id}/messages/2`);
        if (answer.code === 200) return answer.json;
    }
}

test('tools of the current step are listed with their states', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const { turn_id: turn } = (await s.turn(id, { background: true,
        message: '<<tool recall {"text":"x"}>><<next>><<size 40>><<chunk 4>><<stall after=3>>',
    })).json;
    const { so_far: now } = await untilText(s, turn);
    assert.equal(now.step, 2);
    assert.deepEqual(now.tools, []);
    await s.release();
});

test('turns of all sessions, by state and in pages', async (t) => {
    const dir = workspace(t);
    const one = { key: makeKey(dir, '--role', 'write', '--tenant', 'one').key };
    const two = { key: makeKey(dir, '--role', 'write', '--tenant', 'two').key };
    const s = await serveModel(t, { dir });
    const make = async (title, options) =>
        (await s.post('/api/v1/sessions', { title }, options)).json.id;
    const list = async (query, options) => (await s.get(`/api/v1/turns${query}`, options)).json;
    const a = await stall(s, await make('A', one), one);
    const b = await stall(s, await make('B', one), one);
    const c = await stall(s, await make('C', two), two);
    await untilText(s, a, one);
    await untilText(s, b, one);
    await untilText(s, c, two);
    const { turns } = await list('', one);
    assert.deepEqual(turns.map((turn) => [turn.turn_id, turn.title, turn.state, turn.label,
        turn.step, turn.model]),
    [[a, 'A', 'running', 'a label', 1, 'mock-model'], [b, 'B', 'running', 'a label', 1,
        'mock-model']]);
    assert.deepEqual((await list('', two)).turns.map((turn) => turn.turn_id), [c]);
    const page = await list('?limit=1&state=running', one);
    assert.deepEqual([page.turns[0].turn_id, page.has_more, page.cursor], [a, true, a]);
    const next = await list(`?limit=1&state=running&cursor=${page.cursor}`, one);
    assert.deepEqual([next.turns[0].turn_id, next.has_more, next.cursor], [b, false, null]);
    assert.deepEqual((await list('?state=queued,asking', one)).turns, []);
    assertError(await s.get('/api/v1/turns?state=sleeping', one), 400, 'invalid', /'state'/);
    assertError(await s.get('/api/v1/turns?cursor=x', one), 400, 'invalid', /'cursor'/);
    assertError(await s.get('/api/v1/turns?limit=1001', one), 400, 'invalid', /limit/);
    await s.release();
    while ((await list('?state=done', one)).turns.length < 2);
    assert.deepEqual((await list('', one)).turns, []);
});

test('an asking turn in the list says what it asks', async (t) => {
    const s = await serveModel(t);
    const id = await s.session(
        { metadata: { turn: { permissions: [{ tool: 'recall', do: 'ask' }] } } });
    await s.turn(id, { message: '<<tool recall {"text":"x"}>><<next>><<say enough>>' });
    const { turns: [turn] } = (await s.get('/api/v1/turns?state=asking')).json;
    assert.equal(turn.asking.name, 'recall');
    assert.deepEqual(JSON.parse(turn.asking.arguments), { text: 'x' });
    assert.equal(turn.questions.length, 1);
});

test('the feed watches only turns of the tenant, and refuses wrong lists', async (t) => {
    const dir = workspace(t);
    const one = { key: makeKey(dir, '--role', 'write', '--tenant', 'one').key };
    const two = { key: makeKey(dir, '--role', 'write', '--tenant', 'two').key };
    const s = await serveModel(t, { dir });
    const id = (await s.post('/api/v1/sessions', {}, one)).json.id;
    const turn = await stall(s, id, one);
    await untilText(s, turn, one);
    const stranger = await open(s.port, 'GET', `/api/v1/events?watch=${turn}`,
        { headers: { authorization: `Bearer ${two.key}` } });
    assert.equal((await stranger.next((e) => e.event === 'unwatched')).data.turn_id, turn);
    stranger.leave();
    for (const watch of ['x', `${turn}:x`, `${turn};1`, Array(17).fill(turn).join(',')])
        assertError(await s.get(`/api/v1/events?watch=${watch}`, one), 400,
            'invalid', /'watch'/);
    await s.release();
});

test('the feed reports states of turns and inboxes', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const feed = await open(s.port, 'GET', '/api/v1/events');
    const turn = await stall(s, id);
    const running = await feed.next((e) => e.event === 'turn' && e.data.state === 'running');
    assert.equal(running.data.turn_id, turn);
    assert.ok(running.data.since);
    await untilText(s, turn);
    await s.turn(id, { message: 'later', lane: 'queue', background: true });
    await feed.next((e) => e.event === 'inbox' && e.data.session_id === id);
    await s.release();
    feed.leave();
});

test('the feed of a revoked key ends, and those of other keys do not', async (t) => {
    const dir = workspace(t);
    const admin = makeKey(dir, '--role', 'admin').key;
    const s = await serveModel(t, { dir });
    const made = (await s.post('/api/v1/keys', { role: 'read' }, { key: admin })).json;
    const feedOf = (key) => open(s.port, 'GET', '/api/v1/events',
        { headers: { authorization: `Bearer ${key}` } });
    const [other, feed] = [await feedOf(admin), await feedOf(made.key)];
    await feed.next((e) => e.event === 'ready');
    await s.ask('DELETE', `/api/v1/keys/${made.id}`, { key: admin });
    await feed.end();
    assert.equal((await feedOf(made.key)).code, 401);
    await s.post('/api/v1/sessions', {}, { key: admin });
    await other.next((e) => e.event === 'session');
    other.leave();
});
