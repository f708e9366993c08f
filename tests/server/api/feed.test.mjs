// The feed: the changes in a tenant's sessions, when they happen.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { assertError, makeKey, serve, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

// Reads the feed. `next` waits for the next matching event.
async function open(t, s, { after, key } = {}) {
    const headers = key ? { authorization: `Bearer ${key}` } : {};
    const request = http.request({ host: '127.0.0.1', port: s.port, agent: false, headers,
        path: `/api/v1/events${after ? `?after=${after}` : ''}` });
    request.end();
    const response = await new Promise((resolve, reject) => {
        request.on('response', resolve);
        request.on('error', reject);
    });
    assert.equal(response.statusCode, 200);
    assert.match(response.headers['content-type'], /^text\/event-stream/);
    request.on('error', () => {});
    t.after(() => request.destroy());
    const events = [];
    let text = '', wake = () => {};
    response.setEncoding('utf8').on('data', (piece) => {
        text += piece;
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
            const frame = Object.fromEntries(text.slice(0, end).split('\n')
                .map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]));
            text = text.slice(end + 2);
            if (frame.data) events.push({ ...frame, data: JSON.parse(frame.data) });
        }
        wake();
    });
    response.on('error', () => {});
    let at = 0;
    const next = async (fits = () => true) => {
        for (;;) {
            while (at < events.length) if (fits(events[at++])) return events[at - 1];
            await new Promise((resolve) => { wake = resolve; });
        }
    };
    return { next, close: () => request.destroy() };
}

test('the feed reports sessions, messages, marks and turns', async (t) => {
    const s = await serveModel(t);
    const feed = await open(t, s);
    assert.equal((await feed.next()).event, 'ready');
    const id = await s.session({ key: 'k' });
    const told = async (event, data) => {
        const got = await feed.next((e) => e.event === event &&
            Object.entries(data).every(([name, value]) => e.data[name] === value));
        assert.equal(got.data.session_id, id);
        return got;
    };
    await told('session', { what: 'created' });
    await s.post(`/api/v1/sessions/${id}/messages`, { role: 'user', content: 'one' });
    await told('session', { what: 'messages', last_seq: 1 });
    const { turn_id: turn } = (await s.turn(id, { message: 'two' })).json;
    await told('turn', { turn_id: turn, state: 'running' });
    await told('session', { what: 'messages', last_seq: 3 });
    await told('turn', { turn_id: turn, state: 'done' });
    await s.post(`/api/v1/sessions/${id}/rewind`, { to_seq: 1 });
    await told('mark', { kind: 'rewind' });
    await s.ask('PATCH', `/api/v1/sessions/${id}`, { body: { title: 'new' } });
    await told('session', { what: 'updated' });
    await s.ask('DELETE', `/api/v1/sessions/${id}`);
    await told('session', { what: 'deleted' });
    await s.post(`/api/v1/sessions/${id}/restore`);
    await told('session', { what: 'restored' });
    await s.post(`/api/v1/sessions/${id}/erase`, {});
    await told('session', { what: 'erased' });
});

test('a reader that reconnects gets the missed events, or the event lost', async (t) => {
    const s = await serve(t);
    const first = await open(t, s);
    const ready = await first.next();
    first.close();
    const made = [];
    for (let i = 0; i < 3; i++) made.push((await s.post('/api/v1/sessions', {})).json.session_id);
    const again = await open(t, s, { after: ready.id });
    const events = [await again.next(), await again.next(), await again.next()];
    assert.deepEqual(events.map((e) => e.data.session_id), made);
    const [ring, number] = events[2].id.split('.');
    assert.equal(Number(number), Number(ready.id.split('.')[1]) + 3);
    const rest = await open(t, s, { after: events[1].id });
    assert.equal((await rest.next()).data.session_id, made[2]);
    for (const after of ['0123456789abcdef.1', `${ring}.999999`]) {
        const lost = await (await open(t, s, { after })).next();
        assert.deepEqual([lost.event, lost.id], ['lost', events[2].id]);
    }
    for (const after of ['7', 'x.', `${ring}.x`])
        assertError(await s.get(`/api/v1/events?after=${after}`), 400, 'invalid', /'after'/);
    // More events than the server keeps.
    const session = made[0];
    for (let i = 0; i < 5; i++)
        await Promise.all([...Array(900).keys()].map((k) =>
            s.post(`/api/v1/sessions/${session}/messages`, { role: 'user', content: `${i} ${k}` })));
    assert.equal((await (await open(t, s, { after: ready.id })).next()).event, 'lost');
});

test('the feed of a tenant reports only its own sessions', async (t) => {
    const dir = workspace(t);
    const [one, two] = ['one', 'two'].map((tenant) => makeKey(dir, '--tenant', tenant).key);
    const s = await serve(t, { dir });
    const feeds = [await open(t, s, { key: one }), await open(t, s, { key: two })];
    const ids = [];
    for (const key of [one, two])
        ids.push((await s.post('/api/v1/sessions', {}, { key })).json.session_id);
    for (let i = 0; i < 2; i++) {
        assert.equal((await feeds[i].next()).event, 'ready');
        assert.equal((await feeds[i].next()).data.session_id, ids[i]);
    }
    // The id of an event of another tenant's feed reveals nothing.
    const foreign = (await (await open(t, s, { key: one })).next()).id;
    assert.equal((await (await open(t, s, { key: two, after: foreign })).next()).event, 'lost');
    assert.equal((await s.get('/api/v1/events')).code, 401);
});

test('a server with readers of the feed can stop', async (t) => {
    const s = await serve(t);
    const feed = await open(t, s);
    await feed.next();
    const { code } = await s.stop();
    assert.equal(code, 0);
});
