// WebSockets under load: many connections with many streams each, connections that are cut, clients
// that read slowly, wrong frames, limits, and a server that stops. WEBSOCKETS is the number of
// connections. The memory of a connection and the CPU time of an event are printed.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { serveModel } from './model.mjs';
import { makeKey, serve, workspace } from './support.mjs';
import { frame, isLast, openSocket } from './websocket_client.mjs';

const CONNECTIONS = Number(process.env.WEBSOCKETS ?? 20);
const STREAMS = 10;
const WAIT_MS = 60_000;
const OPEN = 'server:\n  streams_max: 100000\n  connections_max: 10000\n  connections_per_address: 10000\n';

const create = (body) => ({ type: 'response.create', model: 'mock-model', ...body });
const textOf = ({ response }) => response.output[0].content[0].text;
const residentKiB = (pid) => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
// In ticks of 10 ms.
const cpuTicks = (pid) => fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13)
    .reduce((sum, ticks) => sum + Number(ticks), 0);

async function eventually(what, holds) {
    const until = Date.now() + WAIT_MS;
    while (!(await holds())) {
        assert.ok(Date.now() < until, what);
        await sleep(20);
    }
}

const gauge = async (s, name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec((await s.get('/metrics')).text)?.[1]);
const openMany = (port, count, options) => Promise.all(Array.from({ length: count }, () => openSocket(port, options)));

// Reads all events of a connection until `count` responses have ended; returns their last events by stream.
async function readEnds(socket, count) {
    const ends = new Map();
    while (ends.size < count) {
        const event = await socket.next();
        assert.notEqual(event, null, 'the connection was closed');
        if (isLast(event)) ends.set(event.stream_id, event);
    }
    return ends;
}

test(`${CONNECTIONS} connections with ${STREAMS} streams each run at the same time`, { timeout: 600_000 }, async (t) => {
    const s = await serveModel(t, { config: OPEN });
    const sockets = await openMany(s.port, CONNECTIONS);
    const idle = residentKiB(s.child.pid);
    sockets.forEach((socket, c) => {
        for (let i = 0; i < STREAMS; i++)
            socket.send(create({ stream_id: `s${i}`, store: i % 2 === 0, input: `<<hang>>${c}/${i}` }));
    });
    await s.untilAsked(CONNECTIONS * STREAMS);
    t.diagnostic(`${Math.round((residentKiB(s.child.pid) - idle) / CONNECTIONS / STREAMS)} KiB for each running stream`);
    // Half of the connections are cut in the middle.
    const cut = sockets.filter((_, c) => c % 2 === 1), kept = sockets.filter((_, c) => c % 2 === 0);
    for (const { socket } of cut) socket.destroy();
    await eventually('the turns of cut connections end',
        async () => (await gauge(s, 'palaver_turns_running')) === kept.length * STREAMS);
    await s.release();
    await Promise.all(kept.map(async (socket, k) => {
        const ends = await readEnds(socket, STREAMS);
        for (const [stream, event] of ends) {
            assert.equal(event.type, 'response.completed', JSON.stringify(event));
            assert.equal(textOf(event), `echo: ${2 * k}/${stream.slice(1)}`);
        }
    }));
    for (const socket of kept) socket.close();
    assert.deepEqual([...new Set(await Promise.all(kept.map(({ end }) => end)))], [1000]);
    await eventually('no turn is left', async () => (await gauge(s, 'palaver_turns_running')) === 0);
    assert.equal((await s.post('/v1/responses', { model: 'mock-model', input: 'hi' })).code, 200);
});

test('an idle connection needs little memory', async (t) => {
    const s = await serve(t, { config: OPEN });
    await openMany(s.port, 10);
    const before = residentKiB(s.child.pid), count = Math.max(CONNECTIONS, 100);
    const sockets = await openMany(s.port, count);
    const each = (residentKiB(s.child.pid) - before) / count;
    t.diagnostic(`${each.toFixed(1)} KiB for each idle connection (${count})`);
    assert.ok(each < 96, `${each} KiB`); // 41 KiB, or 57 KiB with the address sanitizer
    for (const socket of sockets) socket.close();
    await Promise.all(sockets.map(({ end }) => end));
});

test('a client that does not read is disconnected, and others are not delayed', async (t) => {
    const s = await serveModel(t, { config: `${OPEN}  stream_bytes_max: 1048576\n` });
    const [slow, other] = await openMany(s.port, 2);
    slow.socket.pause();
    for (let i = 0; i < 4; i++) slow.send(create({ stream_id: `${i}`, input: `<<size 8000000>>${i}` }));
    other.send(create({ input: 'hello' }));
    assert.equal(textOf((await readEnds(other, 1)).get(undefined)), 'echo: hello');
    await eventually('the slow client is disconnected', async () => (await gauge(s, 'palaver_turns_running')) === 0);
    slow.socket.resume();
    assert.equal(await slow.end, 1006);
    other.send(create({ input: 'again' }));
    assert.equal(textOf((await readEnds(other, 1)).get(undefined)), 'echo: again');
});

// Each of these connections takes seconds to close, so they wait together.
test('a wrong frame closes the connection, and stops its responses', { concurrency: true }, (t) => Promise.all([
    ['no mask', Buffer.from([0x81, 2, 0x7b, 0x7d]), 1002], ['a reserved bit', frame(0xf1, '{}'), 1002],
    ['an unknown opcode', frame(0x83, '{}'), 1002], ['a continuation of nothing', frame(0x80, '{}'), 1002],
    // libwslay ends the connection without a close frame, which the standard allows.
    ['a long ping', frame(0x89, 'x'.repeat(126)), 1006], ['a ping in pieces', frame(0x09, 'x'), 1006],
    ['invalid UTF-8', frame(0x81, Buffer.from([0x22, 0xff, 0x22])), 1007],
    ['a wrong close code', frame(0x88, Buffer.from([3, 237])), 1002], ['binary data', frame(0x82, '{}'), 1003],
    ['a message that is too long', Buffer.concat([frame(0x81, 'x'.repeat(70000))]), 1009],
].map(([what, bytes, code]) => t.test(`${what}: ${code}`, async (t) => {
    const s = await serveModel(t, { config: `${OPEN}  body_bytes_max: 65536\n` });
    const socket = await openSocket(s.port);
    socket.send(create({ input: '<<hang>>held' }));
    await s.untilAsked(1);
    socket.raw(bytes);
    assert.equal(await socket.end, code);
    await eventually('its turn ends', async () => (await gauge(s, 'palaver_turns_running')) === 0);
}))));

test('the limits of a key hold for each message', async (t) => {
    const dir = workspace(t), store = ['--store', 'sqlite:palaver.db'];
    const key = makeKey(dir, ...store, '--role', 'write', '--tenant', 'a', '--rate', '4').key;
    const s = await serveModel(t, { dir, config: `store: sqlite:palaver.db\n${OPEN}` });
    await assert.rejects(openSocket(s.port), /401/);
    const socket = await openSocket(s.port, { key }); // the handshake counts too
    const codes = [];
    for (let i = 0; i < 5; i++) {
        socket.send(create({ input: `${i}` }));
        const [event] = (await readEnds(socket, 1)).values();
        codes.push(event.type === 'error' ? event.status : event.type);
    }
    assert.deepEqual(codes.slice(0, 3), Array(3).fill('response.completed'));
    assert.deepEqual(codes.slice(3), [429, 429]);
});

test('server.streams_max holds for responses over WebSockets, and an ended response makes room', async (t) => {
    const s = await serveModel(t, { config: 'server: {streams_max: 2}\n' });
    const [socket, other] = await openMany(s.port, 2);
    for (const stream_id of ['a', 'b']) socket.send(create({ stream_id, input: `<<hang>>${stream_id}` }));
    await s.untilAsked(2);
    // The limit is that of the server: another connection gets no stream, and both stay open.
    other.send(create({ input: 'too many' }));
    const refused = await other.next();
    assert.deepEqual([refused.type, refused.status], ['error', 503]);
    assert.match(refused.error.message, /too many open streams.*server\.streams_max/);
    await s.release();
    const ends = await readEnds(socket, 2);
    assert.deepEqual([textOf(ends.get('a')), textOf(ends.get('b'))], ['echo: a', 'echo: b']);
    other.send(create({ input: 'again' }));
    assert.equal(textOf((await readEnds(other, 1)).get(undefined)), 'echo: again');
});

test('an old connection takes no more requests', async (t) => {
    const s = await serve(t, { config: `${OPEN}  websocket_age: 1s\n` });
    const socket = await openSocket(s.port);
    socket.send({ type: 'response.create', input: 'young' });
    assert.equal((await readEnds(socket, 1)).get(undefined).type, 'response.completed');
    await sleep(1100); // the limit is in seconds
    socket.send({ type: 'response.create', input: 'old' });
    const error = await socket.next();
    assert.deepEqual([error.type, error.error.code], ['error', 'websocket_connection_limit_reached']);
    assert.equal(await socket.end, 1000);
});

test('a server that stops completes running responses and closes all connections with 1001', async (t) => {
    const s = await serveModel(t, { config: OPEN });
    const sockets = await openMany(s.port, 10);
    sockets.slice(0, 5).forEach((socket, i) => socket.send(create({ input: `<<hang>>${i}` })));
    await s.untilAsked(5);
    const stopped = s.stop('SIGTERM');
    await s.logged(/stopping|draining/);
    await s.release();
    const ends = await Promise.all(sockets.slice(0, 5).map((socket) => readEnds(socket, 1)));
    assert.deepEqual([...new Set(ends.map((end) => end.get(undefined).type))], ['response.completed']);
    assert.deepEqual([...new Set(await Promise.all(sockets.map(({ end }) => end)))], [1001]);
    assert.equal((await stopped).code, 0);
});

// The CPU time of the server for an event of a response, over a WebSocket and as Server-Sent Events.
test('an event costs about as much as with Server-Sent Events', async (t) => {
    const s = await serveModel(t, { config: OPEN });
    const input = `<<chunk 8>><<size 64000>>`, rounds = 12;
    const bySse = () => new Promise((resolve) => {
        const request = http.request({ port: s.port, host: '127.0.0.1', method: 'POST', path: '/v1/responses',
            headers: { 'content-type': 'application/json' } }, (response) => {
            const end = '\n\n';
            let events = 0, rest = '';
            response.on('data', (piece) => {
                const ends = (rest + piece).split(end);
                events += ends.length - 1;
                rest = ends.pop().slice(-1); // the piece can end in the middle of an end
            });
            response.on('end', () => resolve(events));
        });
        request.end(JSON.stringify({ model: 'mock-model', stream: true, input }));
    });
    const socket = await openSocket(s.port, { heavy: true });
    const bySocket = async () => {
        socket.send(create({ input }));
        for (let events = 1; ; events++)
            if (/^\{"type":"response.(completed|failed)/.test((await socket.next()).toString('latin1', 0, 40))) return events;
    };
    const measure = async (run) => {
        let events = 0;
        const before = cpuTicks(s.child.pid);
        for (let i = 0; i < rounds; i++) events += await run();
        return { events, us: (cpuTicks(s.child.pid) - before) * 10_000 / events };
    };
    await bySse();
    await bySocket();
    const sse = await measure(bySse), ws = await measure(bySocket);
    t.diagnostic(`${sse.us.toFixed(1)} us for each of ${sse.events} events (SSE), ${ws.us.toFixed(1)} us for each of ${ws.events} events (WebSocket)`);
    assert.ok(Math.abs(ws.events - sse.events) <= rounds * 2, `${ws.events} and ${sse.events} events`);
    assert.ok(ws.us < 4 * sse.us + 20, `${ws.us} us, ${sse.us} us with SSE`);
});
