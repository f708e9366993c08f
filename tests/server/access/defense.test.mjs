// Requests that are refused before they cost anything, because of their head, their sender's
// address or their contents; and large requests, which do not delay other clients.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import { assertError, makeKey, serve, workspace } from '../support.mjs';

const json = (text) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));

// Sends raw bytes. Resolves to the received bytes when the server has closed the connection, or
// when one complete response has arrived.
function raw(port, bytes, { from } = {}) {
    return new Promise((resolve, reject) => {
        const socket = net.connect({ port, host: '127.0.0.1', localAddress: from });
        let text = '';
        const done = () => { socket.destroy(); resolve(text); };
        socket.setEncoding('latin1');
        socket.on('data', (piece) => {
            text += piece;
            const [head, body] = text.split('\r\n\r\n');
            const length = /content-length: (\d+)/i.exec(head)?.[1];
            if (body !== undefined && length && body.length >= Number(length) &&
                !/connection: close/i.test(head)) done();
        });
        socket.on('end', done);
        socket.on('error', (error) => (text ? resolve(text) : reject(error)));
        socket.write(bytes);
    });
}

// Opens an idle connection. `closed` resolves when the server closes it.
function idle(t, port, from) {
    return new Promise((resolve) => {
        const socket = net.connect({ port, host: '127.0.0.1', localAddress: from });
        t.after(() => socket.destroy());
        const closed = new Promise((end) => socket.on('close', end));
        socket.on('error', () => {});
        socket.on('connect', () => resolve({ socket, closed }));
        socket.resume();
    });
}

test('the server checks the head of a request before it reads the body', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'read');
    const s = await serve(t, { dir });
    // The bodies of these requests are never sent.
    const head = (line, ...lines) => raw(s.port,
        [`${line} HTTP/1.1`, 'Host: localhost', ...lines, '', ''].join('\r\n'));
    const long = 'Content-Length: 30000000';
    const chunked = 'Transfer-Encoding: chunked';
    const auth = `Authorization: Bearer ${key}`;
    for (const announced of [long, chunked, 'Content-Length: 2']) {
        for (const method of ['POST', 'PATCH', 'DELETE', 'PUT', 'GET']) {
            const what = `${method} ${announced}`;
            assert.match(await head(`${method} /nowhere`, announced), /^HTTP\/1.1 404 /, what);
        }
        assert.match(await head('POST /api/v1/sessions', announced), /^HTTP\/1.1 401 /, announced);
        assert.match(await head('POST /api/v1/sessions', announced, 'Authorization: Bearer x'),
            /^HTTP\/1.1 401 /, announced);
        assert.match(await head('POST /api/v1/sessions', announced, auth), /^HTTP\/1.1 403 /);
        assert.match(await head('PUT /api/v1/sessions', announced, auth), /^HTTP\/1.1 405 /);
    }
    assert.match(await head('GET /api/v1/sessions', long, auth), /^HTTP\/1.1 413 /);
    assert.match(await head('POST /api/v1/sessions', 'Content-Length: 3000000000', auth),
        /^HTTP\/1.1 413 /);
    // A client that waits for "100 Continue" does not get it.
    assert.doesNotMatch(await head('POST /api/v1/sessions', long, 'Expect: 100-continue'), / 100 /);
});

test('the server rejects too many requests before it reads their bodies', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'write');
    const s = await serve(t, { dir, config: 'server:\n  requests_per_minute: 1\n' });
    assert.equal((await s.get('/api/v1/sessions', { key })).code, 200);
    const answer = await raw(s.port, 'POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n' +
        `Authorization: Bearer ${key}\r\nContent-Length: 30000000\r\n\r\n`);
    assert.match(answer, /^HTTP\/1.1 429 [\s\S]*retry-after: \d+/);
});

test('the total size of all bodies is limited', async (t) => {
    const s = await serve(t, { config: 'server:\n  bodies_bytes_max: 100000\n' });
    const length = 90000;
    const body = JSON.stringify({ title: 'x', metadata: { pad: 'x'.repeat(30000) } });
    // The first request stays open with most of its body sent. If it arrives while one of the other
    // requests is being read, it is the one that is refused; then it is sent again.
    let answer;
    let socket;
    let isRefused;
    do {
        ({ socket } = await idle(t, s.port));
        isRefused = false;
        socket.once('data', () => { isRefused = true; });
        socket.write('POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n' +
            `Content-Length: ${length}\r\n\r\n${' '.repeat(length - 2)}`);
        do // until the first one's bytes have arrived
            answer = await s.post('/api/v1/sessions', body);
        while (answer.code !== 503 && !isRefused);
    } while (isRefused);
    assertError(answer, 503, 'busy', /too many large requests/);
    assert.ok(Number(answer.headers['retry-after']) >= 1);
    assert.equal((await s.post('/api/v1/sessions', { title: 'small' })).code, 201);
    const first = new Promise((resolve) => socket.once('data', resolve));
    socket.write('{}');
    assert.match(String(await first), /^HTTP\/1.1 201 /);
    do answer = await s.post('/api/v1/sessions', body); while (answer.code === 503);
    assert.equal(answer.code, 201, 'there is room again');
});

test('every malformed request gets exactly one response, in the error format of the server', async (t) => {
    const s = await serve(t);
    const post = (...lines) => raw(s.port,
        `POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n${lines.join('\r\n')}`);
    const refused = async (code, text) => {
        const answer = await text;
        assert.equal(answer.match(/HTTP\/1\.1 /g)?.length, 1, answer);
        assert.match(answer, new RegExp(`^HTTP/1.1 ${code} `));
        assert.equal(json(answer).error, json(answer).detail, answer);
    };
    for (const length of ['+2', '-1', '0, 44', '', '0x2', '2 3', '2;', 'two', '\t2\t2'])
        await refused(400, post(`Content-Length: ${length}`, '', '{}'));
    for (const length of ['18446744073709551616', '9223372036854775808', '99999999999999999999999'])
        await refused(413, post(`Content-Length: ${length}`, '', '{}'));
    await refused(400, post('Content-Length: 2', 'Content-Length: 3', '', '{}'));
    // Another server could take a bare CR for the end of a line.
    await refused(400, post('a: b\rtransfer-encoding: chunked', 'Content-Length: 2', '', '{}'));
    await refused(400, post('a: b\r', 'Content-Length: 2', '', '{}'));
    const chunked = (...lines) => post('Transfer-Encoding: chunked', '', ...lines);
    await refused(400, chunked(`2;a=${'x'.repeat(70000)}`, '{}', '0', '', ''));
    await refused(400, chunked('zz', '{}', '0', '', ''));
    await refused(413, chunked('fffffffffffffffff', '{}', '0', '', ''));
    await refused(431, post(`a: ${'x'.repeat(60000)}`, '', ''));
    assert.equal((await s.post('/api/v1/sessions', {})).code, 201, 'the next one is fine');
    await s.logged(/^.* request id=.* code=431 .*$/m);
});

test('pages of other origins cannot use a server without keys', async (t) => {
    const s = await serve(t, { config: 'server:\n  cors_origins: ["https://app.example"]\n' });
    const own = `http://127.0.0.1:${s.port}`;
    const as = async (headers, method = 'POST') => (await s.ask(method, '/api/v1/sessions',
        { headers: { 'content-type': 'text/plain', ...headers },
            body: method === 'POST' ? '{}' : undefined })).code;
    for (const [headers, code] of [
        [{}, 201],
        [{ origin: own }, 201],
        [{ origin: own, 'sec-fetch-site': 'same-origin' }, 201],
        [{ 'sec-fetch-site': 'none' }, 201],
        [{ origin: 'https://app.example' }, 201],
        [{ origin: 'https://app.example', 'sec-fetch-site': 'cross-site' }, 201],
        [{ origin: 'http://localhost:3000' }, 403],
        [{ origin: `http://localhost:${s.port}` }, 403], // the name differs from the Host header
        [{ origin: `https://127.0.0.1:${s.port}` }, 403],
        [{ origin: 'http://127.0.0.1' }, 403],
        [{ origin: 'null' }, 403],
        [{ 'sec-fetch-site': 'same-site' }, 403],
        [{ 'sec-fetch-site': 'cross-site' }, 403],
        [{ origin: own, 'sec-fetch-site': 'same-site' }, 403],
    ]) {
        assert.equal(await as(headers), code, JSON.stringify(headers));
        assert.equal(await as(headers, 'GET'), code === 201 ? 200 : 403, JSON.stringify(headers));
    }
    assert.match(await raw(s.port, 'GET /api/v1/sessions HTTP/1.1\r\nHost: \r\n\r\n'),
        /^HTTP\/1.1 403 /, 'an empty Host is not this machine');
});

test('the server blocks an address that keeps sending wrong keys', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'write');
    const s = await serve(t, { dir, config: 'server:\n  key_failures_per_minute: 5\n' });
    const codes = [];
    for (let i = 0; i < 20; i++)
        codes.push((await s.get('/api/v1/sessions', { key: `pk_wrong${i}` })).code);
    assert.deepEqual(codes.slice(0, 5), [401, 401, 401, 401, 401]);
    assert.ok(codes.slice(5).includes(429), String(codes));
    let refused;
    do refused = await s.get('/api/v1/sessions', { key: 'pk_wrong' }); while (refused.code !== 429);
    assertError(refused, 429, 'rate_limited', /invalid keys per minute/);
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    assert.equal((await s.get('/api/v1/sessions', { key })).code, 200, 'a key that counts opens');
    assert.equal((await s.get('/api/v1/sessions')).code, 401, 'no key is not a wrong one');
    const other = await raw(s.port, 'GET /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n' +
        'Authorization: Bearer pk_wrong\r\n\r\n', { from: '127.0.0.9' });
    assert.match(other, /^HTTP\/1.1 401 /, 'another address is not touched');
});

const healthz = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n';

test('idle connections are closed to make room for new ones', async (t) => {
    const s = await serve(t, { config: 'server:\n  connections_max: 50\n' });
    for (const from of ['127.0.0.1', '127.0.0.5', '127.0.0.6']) {
        const many = await Promise.all(
            Array.from({ length: 60 }, () => idle(t, s.port, from)));
        // One address may use fifteen sixteenths of 50 connections. The connections that were idle
        // longest are closed.
        await new Promise((resolve) => {
            let closed = 0;
            for (const each of many)
                each.closed.then(() => { if (++closed === 60 - 47) resolve(); });
        });
        for (let i = 0; i < 5; i++) {
            assert.match(await raw(s.port, healthz, { from: '127.0.0.7' }), /^HTTP\/1.1 200 /);
            assert.match(await raw(s.port, healthz, { from }), /^HTTP\/1.1 200 /);
        }
    }
});

test('one address cannot use all connections', async (t) => {
    const s = await serve(t,
        { config: 'server:\n  connections_max: 20\n  connections_per_address: 10\n' });
    // A request that has begun is not idle.
    const begun = await Promise.all(Array.from({ length: 60 }, async () => {
        const each = await idle(t, s.port);
        each.socket.write('POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n' +
            'Content-Length: 10\r\n\r\n{');
        return each;
    }));
    // All requests are refused except for those that have a place.
    await new Promise((resolve) => {
        let closed = 0;
        for (const each of begun) each.closed.then(() => { if (++closed === 60 - 10) resolve(); });
    });
    for (let i = 0; i < 5; i++) {
        assert.match(await raw(s.port, healthz, { from: '127.0.0.7' }), /^HTTP\/1.1 200 /);
        const own = await raw(s.port, healthz);
        assert.match(own, /^HTTP\/1.1 503 /);
        assert.match(own, /too many connections from this address/);
    }
    for (const { socket } of begun) socket.destroy();
    let own; // after the server has noticed that they are gone
    do own = await raw(s.port, healthz).catch(() => ''); while (!/^HTTP\/1.1 200 /.test(own));
});

// Sends small requests, one after another, while `copies` of each large request run. Returns how
// many were answered.
async function roundsBeside(s, copies) {
    const texts = ['-'.repeat(6e6), '*='.repeat(3e6), JSON.stringify({ a: 1 }).repeat(8e5)];
    const running = new Set();
    const start = (path, body) => {
        const asked = s.post(path, body).finally(() => running.delete(asked));
        running.add(asked);
    };
    for (let i = 0; i < copies; i++) {
        for (const text of texts) {
            start('/api/v1/sessions/k/messages', { role: 'user', content: text });
            start('/api/v1/sessions/k/turns', { message: text, background: true });
            start('/v1/conversations', { items: [{ role: 'user', content: text }] });
        }
        start('/api/v1/sessions', `{${'"a":1,'.repeat(2e6)}"a":1}`);
    }
    let rounds = 0;
    for (; running.size; rounds++) {
        for (const path of ['/healthz', '/readyz', '/metrics'])
            assert.equal((await s.get(path)).code, 200);
        assert.equal((await s.post('/api/v1/sessions', { title: 'small' })).code, 201);
    }
    return rounds;
}

test('large bodies delay neither health checks nor small requests', async (t) => {
    const dir = workspace(t);
    const s = await serve(t, { dir, config: `store: sqlite:${dir}/t.db\n` });
    await s.post('/api/v1/sessions', { key: 'k' });
    // If small requests waited for large ones, only a few would be answered until the large ones
    // are done. A fast machine may be done with ten large requests too early, so the number of
    // copies grows. On a busy machine the small requests may get no time at all, so the test tries
    // again.
    let rounds = 0;
    for (const copies of [1, 2, 4, 4, 4, 4]) {
        rounds = await roundsBeside(s, copies);
        if (rounds > 10) break;
    }
    assert.ok(rounds > 10, `${rounds} rounds of small requests beside the large ones`);
    assert.equal((await s.get('/healthz')).code, 200);
});

// A model that responds on command. `open` are the waiting requests.
async function slowModel(t) {
    const open = [];
    const waiting = [];
    let isFree = false;
    const answer = (response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ choices: [{ index: 0, finish_reason: 'stop',
            message: { role: 'assistant', content: 'ok' } }] }));
    };
    const server = http.createServer((request, response) => {
        request.resume().on('end', () => {
            if (isFree) { answer(response); return; }
            open.push(response);
            for (const wake of waiting.splice(0)) wake();
        });
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    t.after(() => { server.closeAllConnections(); server.close(); });
    return { open, args: ['--provider', 'openai', '--model', 'm', '--provider-url',
        `http://127.0.0.1:${server.address().port}/v1`],
    until: async (count) => {
        while (open.length < count) await new Promise((resolve) => waiting.push(resolve));
    },
    release: () => { isFree = true; for (const response of open.splice(0)) answer(response); } };
}

test('turns that wait for a model leave file descriptors for connections', async (t) => {
    const model = await slowModel(t);
    const s = await serve(t, { limits: '-n 200', args: model.args });
    const ids = await Promise.all(Array.from({ length: 20 }, async () =>
        (await s.post('/api/v1/sessions', {})).json.id));
    const turns = [];
    for (let i = 0; i < 200; i++) {
        const { id } = (await s.post('/api/v1/sessions', {})).json;
        const turn = await s.post(`/api/v1/sessions/${id}/turns`,
            { message: 'hi', background: true });
        assert.equal(turn.code, 202, turn.text);
        turns.push(turn.json.turn_id);
    }
    await model.until(10);
    const codes = await Promise.all(ids.map(async (id) =>
        (await s.get(`/api/v1/sessions/${id}`)).code));
    assert.deepEqual(new Set(codes), new Set([200]));
    assert.ok(model.open.length < 100, `${model.open.length} calls at once`);
    assert.equal((await s.get('/healthz')).code, 200);
    // Waiting requests run after others have ended.
    model.release();
    for (const turn of turns) {
        let state;
        do state = (await s.get(`/api/v1/turns/${turn}`)).json.state;
        while (!['done', 'failed', 'canceled'].includes(state));
        assert.equal(state, 'done');
    }
});

test('one key has a limited number of turns and streams at the same time', async (t) => {
    const dir = workspace(t);
    const model = await slowModel(t);
    const { key } = makeKey(dir, '--role', 'write');
    const { key: other } = makeKey(dir, '--role', 'write', '--tenant', 'other');
    const s = await serve(t, { dir, args: model.args,
        config: 'server:\n  turns_per_key: 3\n  streams_per_key: 2\n' });
    const start = async (as, body) => {
        const { id } = (await s.post('/api/v1/sessions', {}, { key: as })).json;
        return s.post(`/api/v1/sessions/${id}/turns`, { message: 'hi', ...body }, { key: as });
    };
    for (let i = 0; i < 3; i++) {
        assert.equal((await start(key, { background: true })).code, 202);
        await model.until(i + 1);
    }
    const refused = await start(key, { background: true });
    assertError(refused, 429, 'rate_limited', /already has 3 running or waiting turns/);
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    for (const path of ['/v1/chat/completions', '/v1/responses', '/api/v1/chat',
        '/mistral/v1/conversations'])
        assert.equal((await s.post(path, {}, { key })).code, 429, path);
    assert.equal((await start(other, { background: true })).code, 202);
    model.release();
    let again;
    do again = await start(key, { background: true }); while (again.code === 429);
    assert.equal(again.code, 202);
});

test('the streams of a key are limited', async (t) => {
    const dir = workspace(t);
    const model = await slowModel(t);
    const { key } = makeKey(dir, '--role', 'write');
    const s = await serve(t, { dir, args: model.args,
        config: 'server:\n  streams_per_key: 2\n' });
    const ids = [];
    for (let i = 0; i < 3; i++) {
        const { id } = (await s.post('/api/v1/sessions', {}, { key })).json;
        ids.push((await s.post(`/api/v1/sessions/${id}/turns`, { message: 'hi', background: true },
            { key })).json.turn_id);
    }
    const open = (turn) => new Promise((resolve) => {
        const request = http.get({ port: s.port, path: `/api/v1/turns/${turn}/events`,
            agent: false, headers: { authorization: `Bearer ${key}` } }, (response) => {
            response.resume();
            resolve({ code: response.statusCode, leave: () => request.destroy() });
        });
        request.on('error', () => {});
    });
    const first = await open(ids[0]);
    assert.deepEqual([first.code, (await open(ids[1])).code], [200, 200]);
    assertError(await s.get(`/api/v1/turns/${ids[2]}/events`, { key }), 429, 'rate_limited',
        /streams_per_key/);
    first.leave();
    let next;
    do next = await open(ids[2]); while (next.code === 429);
    assert.equal(next.code, 200);
    model.release();
});

test('the server is not ready while the disk accepts no writes', async (t) => {
    const dir = workspace(t);
    const s = await serve(t, { dir, config: `store: sqlite:${dir}/t.db\n`, limits: '-S -f 2000' });
    assert.deepEqual((await s.get('/readyz')).json, { status: 'ready', store: 'ok' });
    await s.post('/api/v1/sessions', { key: 'k' });
    let answer;
    do answer = await s.post('/api/v1/sessions/k/messages',
        { role: 'user', content: `${Math.random()} `.repeat(10000) });
    while (answer.code === 201);
    assert.ok([500, 507].includes(answer.code), answer.text);
    const failing = await s.get('/readyz');
    assert.deepEqual([failing.code, failing.json.status], [503, 'failing']);
    assert.equal((await s.get('/healthz')).code, 200);
    const raised = spawnSync('prlimit', ['--fsize=unlimited', '--pid', String(s.child.pid)]);
    assert.equal(raised.status, 0, String(raised.stderr));
    let ready;
    do ready = await s.get('/readyz'); while (ready.code === 503);
    assert.equal(ready.code, 200);
    assert.equal((await s.post('/api/v1/sessions/k/messages', { role: 'user', content: 'x' })).code,
        201);
});

test('health shows only its status to callers without a key', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'read');
    const s = await serve(t, { dir });
    assert.deepEqual((await s.get('/api/v1/health')).json, { status: 'healthy' });
    assert.deepEqual((await s.get('/api/v1/health', { key: 'pk_x' })).json, { status: 'healthy' });
    assert.ok((await s.get('/api/v1/health', { key })).json.llm_provider);
});

test('OPTIONS lists each method once, and a base URL without /v1 gets a hint', async (t) => {
    const s = await serve(t);
    const options = await raw(s.port, 'OPTIONS /api/v1/keys HTTP/1.1\r\nHost: localhost\r\n' +
        'Connection: close\r\n\r\n');
    assert.equal(options.match(/^allow: /gim).length, 1, options);
    for (const path of ['/responses', '/chat/completions', '/models', '/conversations'])
        assertError(await s.post(path, {}), 404, 'not_found', /ends with \/v1/);
    assertError(await s.post('/elsewhere', {}), 404, 'not_found', /openapi\.json/);
});

test('the log contains each received request and the reason of its failure', async (t) => {
    const s = await serve(t);
    const as = (id) => ({ headers: { 'x-request-id': id } });
    await s.post('/api/v1/sessions', { key: 'secret-name' }, as('made-1'));
    const body = JSON.stringify({ message: 'hi', stream: true });
    await s.post('/api/v1/sessions/secret-name/turns', body, as('stream-1'));
    const [line] = await s.logged(/^.* request id=stream-1 .*$/m);
    assert.match(line, new RegExp(` bytes_in=${body.length} `), 'a stream has a body too');
    assert.doesNotMatch(s.log(), /secret-name/, 'no names where all is well');
    await s.post('/api/v1/sessions', '{"title":', as('wrong-1'));
    const [wrong] = await s.logged(/^.* request id=wrong-1 .*$/m);
    assert.match(wrong, / code=400 .* path=\/api\/v1\/sessions reason="the body is not valid JSON/);
    await s.get('/nowhere?token=hidden', as('none-1'));
    const [none] = await s.logged(/^.* request id=none-1 .*$/m);
    assert.match(none, / code=404 .* path=\/nowhere reason="no route for GET \/nowhere;/);
    assert.doesNotMatch(s.log(), /hidden/, 'queries are never logged');
});
