// From a request to its handler: routes, methods, bodies, requests from foreign web pages, the log,
// and shutdown.
import test from 'node:test';
import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { assertError, palaver, serve, workspace } from './support.mjs';

test('the server reports its health, readiness and parts', async (t) => {
    const s = await serve(t);
    const live = await s.get('/healthz');
    assert.equal(live.code, 200);
    assert.equal(live.json.status, 'ok');
    const ready = await s.get('/readyz');
    assert.deepEqual([ready.code, ready.json], [200, { status: 'ready', store: 'ok' }]);
    const health = await s.get('/api/v1/health');
    assert.equal(health.code, 200);
    assert.deepEqual(Object.keys(health.json), ['status', 'version', 'environment', 'llm_provider',
        'llm_model', 'skills_count', 'tools_count', 'knowledge_documents', 'business_db_healthy']);
    assert.equal(health.json.status, 'healthy');
    assert.equal(health.json.llm_provider, 'echo');
});

test('an unknown path and an unsupported method are refused', async (t) => {
    const s = await serve(t);
    assertError(await s.get('/nowhere'), 404, 'not_found', /no route for GET \/nowhere;/);
    assertError(await s.get('/api/v1/nowhere'), 404, 'not_found');
    for (const path of ['/chat/completions', '/responses', '/messages', '/messages/count_tokens']) {
        assert.match((await s.post(path, {})).text, /use a base URL that ends with \/v1"/, path);
        assert.match((await s.post(`/v1/v1${path}`, {})).text, /use a base URL without \/v1"/, path);
    }
    assert.match((await s.post('/v1/v1/nowhere', {})).text, /lists all routes/);
    assert.match((await s.post(`/${'x'.repeat(300)}`, {})).text, /lists all routes/);
    assertError(await s.get('/api/v1/keys/'), 404, 'not_found');
    const put = await s.ask('PUT', '/api/v1/keys', { body: {} });
    assertError(put, 405, 'method_not_allowed', /^Method not allowed$/);
    assert.equal(put.headers.allow, 'POST, GET, HEAD');
    const head = await s.ask('HEAD', '/healthz');
    assert.deepEqual([head.code, head.text], [200, '']);
    const bad = await s.ask('DELETE', '/api/v1/keys/a%zz');
    assertError(bad, 400, 'invalid', /'%'/);
});

test('unreadable bodies are refused', async (t) => {
    const s = await serve(t);
    const post = (body, headers) => s.ask('POST', '/api/v1/keys', { body, headers });
    assertError(await post('{"role":'), 400, 'invalid', /not valid JSON/);
    assertError(await post('[1]'), 400, 'invalid', /must be a JSON object, not array/);
    assertError(await post('"x"'), 400, 'invalid', /must be a JSON object/);
    assertError(await post('{"label":"\xff"}'.replace('\xff', '\\ud800x\x01')), 400, 'invalid');
    assertError(await post('--x', { 'content-type': 'multipart/form-data; boundary=x' }), 415,
        'unsupported_media_type');
    assertError(await post('\x1f\x8b', { 'content-encoding': 'gzip' }), 415, 'unsupported_media_type',
        /content-encoding 'gzip'; send it uncompressed/);
    assertError(await post('{"role":7}', { 'content-encoding': 'identity' }), 400, 'invalid', /'role'/);
    const wrong = await post('{"role":7}');
    assertError(wrong, 400, 'invalid', /'role' must be a string, not a number/);
    assert.equal(wrong.json.param, 'role');
    assert.deepEqual((await s.get('/api/v1/keys')).json.keys, [], 'nothing has changed');
    // curl -d sends this type for JSON.
    const curl = await post('{"role":"reader"}',
        { 'content-type': 'application/x-www-form-urlencoded' });
    assertError(curl, 400, 'invalid', /'role' must be metrics, read, write or admin, not 'reader'/);
});

test('errors of query parameters name the expected value', async (t) => {
    const s = await serve(t);
    for (const limit of ['0', '1001', '-1', 'many', '', '99999999999999999999999']) {
        const answer = await s.get(`/api/v1/keys?limit=${limit}`);
        assertError(answer, 400, 'invalid', /'limit' must be/);
        assert.equal(answer.json.param, 'limit');
    }
    assertError(await s.get('/api/v1/keys?cursor=x'), 400, 'invalid', /cursor/);
});

test('a server without keys accepts only requests from this machine', async (t) => {
    const s = await serve(t);
    const as = (headers) => s.ask('GET', '/api/v1/keys', { headers });
    for (const host of ['localhost', 'localhost:1', '127.0.0.1:80', '[::1]:7077', 'LOCALHOST'])
        assert.equal((await as({ host })).code, 200, host);
    for (const host of ['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example:80',
        '10.0.0.1', '[::2]:80'])
        assertError(await as({ host }), 403, 'forbidden',
            /is not allowed while the server has no keys/);
    for (const origin of ['https://evil.example', 'http://localhost.evil.example', 'null',
        'http://localhost:3000'])
        assertError(await as({ origin }), 403, 'forbidden',
            /is not allowed; add it to server\.cors_/);
    assertError(await as({ 'x-palaver-tenant': 'other' }), 403, 'forbidden',
        /must not name another tenant/);
    assert.equal((await as({ 'x-palaver-tenant': 'default' })).code, 200);
});

test('pages of configured origins are allowed', async (t) => {
    const s = await serve(t,
        { config: 'server:\n  cors_origins: ["https://app.example"]\n' });
    const origin = 'https://app.example';
    const answer = await s.get('/healthz', { headers: { origin } });
    assert.equal(answer.headers['access-control-allow-origin'], origin);
    const asked = await s.ask('OPTIONS', '/api/v1/keys', { headers: { origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization, content-type' } });
    assert.equal(asked.code, 204);
    assert.equal(asked.headers['access-control-allow-methods'], 'POST, GET, HEAD');
    assert.equal(asked.headers['access-control-allow-headers'], 'authorization, content-type');
    const other = await s.ask('OPTIONS', '/api/v1/keys',
        { headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' } });
    assert.equal(other.headers['access-control-allow-origin'], undefined);
    assert.equal(other.headers['access-control-allow-methods'], undefined);
});

test('/openapi.json contains every route, and defines every name that it uses', async (t) => {
    const s = await serve(t);
    const { code, json } = await s.get('/openapi.json');
    assert.equal(code, 200);
    assert.equal(json.openapi, '3.1.0');
    const ids = new Set();
    for (const [name, methods] of Object.entries(json.paths)) {
        for (const [method, route] of Object.entries(methods)) {
            assert.ok(route.operationId && !ids.has(route.operationId), `${method} ${name}`);
            ids.add(route.operationId);
            assert.ok(route.summary, `${method} ${name}`);
            const params = route.parameters.filter((p) => p.in === 'path').map((p) => p.name);
            assert.deepEqual(params, [...name.matchAll(/\{(\w+)\}/g)].map((m) => m[1]), name);
            for (const p of route.parameters) {
                assert.ok(p.in !== 'query' || p.description, `${name}: parameter '${p.name}'`);
            }
        }
    }
    for (const [, name] of JSON.stringify(json).matchAll(/#\/components\/schemas\/(\w+)/g))
        assert.ok(json.components.schemas[name], `schema '${name}'`);
    for (const name of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/api/v1/health',
        '/api/v1/keys', '/api/v1/keys/{id}'])
        assert.ok(json.paths[name], name);
    assert.deepEqual(Object.keys(json.paths['/api/v1/keys']).sort(), ['get', 'post']);
    // Every route exists: with another method, the response names the allowed methods.
    for (const [name, methods] of Object.entries(json.paths)) {
        const answer = await s.ask('TRACE', name.replace(/\{\w+\}/g, 'x'));
        assert.equal(answer.code, 405, name);
        for (const method of Object.keys(methods))
            assert.ok(answer.headers.allow.split(', ').includes(method.toUpperCase()), name);
    }
});

/** /metrics, once it has all of these: a request is counted, and logged, when its answer has been
 * sent, which its client may see before. */
async function counted(s, ...lines) {
    for (;;) {
        const answer = await s.get('/metrics');
        if (lines.every((line) => line.test(answer.text))) return answer;
    }
}

test('/metrics counts sessions and expired sessions', async (t) => {
    const s = await serve(t, { config: 'expiry: {cleanup_interval: 1s}\n' });
    await s.post('/api/v1/sessions', { key: 'stays' });
    await s.post('/api/v1/sessions', { key: 'goes', expires_in: 1 });
    await counted(s, /^palaver_sessions_expired_total 1$/m,
        /^palaver_sessions\{state="active"\} 1$/m, /^palaver_sessions\{state="trash"\} 1$/m,
        /^palaver_sessions_erased_total 0$/m);
});

test('/metrics counts requests, commits and turns', async (t) => {
    const s = await serve(t);
    await s.get('/healthz');
    await s.get('/healthz');
    await s.get('/nowhere');
    await s.post('/api/v1/keys', { role: 'nobody' });
    const { code, headers, text } = await counted(s, /\/healthz",code="200"\} 2/,
        /route="none",code="404"\} 1/, /\/keys",code="400"\} 1/, /\/healthz",le="\+Inf"\} 2/);
    assert.equal(code, 200);
    assert.match(headers['content-type'], /^text\/plain; version=0\.0\.4/);
    const value = (line) => Number(text.split('\n').find((l) => l.startsWith(`${line} `))
        ?.slice(line.length + 1));
    assert.equal(value('palaver_requests_total{method="GET",route="/healthz",code="200"}'), 2);
    assert.equal(value('palaver_requests_total{method="",route="none",code="404"}'), 1);
    assert.equal(value('palaver_requests_total{method="POST",route="/api/v1/keys",code="400"}'), 1);
    assert.equal(
        value('palaver_request_seconds_bucket{method="GET",route="/healthz",le="+Inf"}'), 2);
    assert.ok(value('palaver_store_reads_total') > 0);
    assert.equal(value('palaver_turns_running'), 0);
    assert.ok(value('palaver_connections') >= 1);
    assert.ok(value('palaver_start_time_seconds') > 1e9);
    for (const line of text.trimEnd().split('\n'))
        assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{[^}]*(\{\w+\}[^}]*)*\})? [-+.\de]+)$/, line);
});

test('a session that is read again is answered from memory', async (t) => {
    const s = await serve(t);
    const { id } = (await s.post('/api/v1/sessions', { key: 'by key' })).json;
    const url = `/api/v1/sessions/${id}/messages`;
    const say = (content) => s.post(url, { role: 'user', content });
    const texts = async (query = '') => (await s.get(`${url}${query}`)).json.messages
        .map((m) => m.content);
    const hits = async () => Number(/^palaver_store_cache_hits_total (\d+)$/m
        .exec((await s.get('/metrics')).text)[1]);
    await say('one');
    await say('two');
    const first = await s.get(url);
    for (let i = 0; i < 3; i++) assert.equal((await s.get(url)).text, first.text);
    while (await hits() < 2) await texts();
    await say('three');
    assert.deepEqual(await texts('?order=desc&limit=2'), ['three', 'two']);
    assert.deepEqual(await texts('?marks=true'), ['one', 'two', 'three']);
    assert.equal((await s.get('/api/v1/sessions/by%20key/messages')).json.messages.length, 3);
    assertError(await s.get(`${url}?limit=x`), 400, 'invalid');
    await s.post(`/api/v1/sessions/${id}/erase`, {});
    assertError(await s.get(url), 404, 'not_found');
});

test('the log has one line per request and no names that users chose', async (t) => {
    const s = await serve(t);
    await s.post('/api/v1/sessions', { key: 'secret-name' });
    const answer = await s.ask('DELETE', '/api/v1/sessions/secret-name',
        { headers: { 'x-request-id': 'mine-1' } });
    assert.equal(answer.headers['x-request-id'], 'mine-1');
    const [line] = await s.logged(/^.* request id=mine-1 .*$/m);
    assert.match(line, /^\S+ info request id=mine-1 method=DELETE route=\/api\/v1\/sessions\/\{id\} /);
    assert.match(line, / code=20\d duration_us=\d+ bytes_in=0 bytes_out=\d+ /);
    assert.match(line, / tenant=default$/);
    assert.doesNotMatch(s.log(), /secret-name/);
});

test('the log can be JSON', async (t) => {
    const s = await serve(t, { args: ['--json'] });
    await s.get('/healthz', { headers: { 'x-request-id': 'mine-2' } });
    const [line] = await s.logged(/^.*"id":"mine-2".*$/m);
    const entry = JSON.parse(line);
    assert.deepEqual([entry.level, entry.message, entry.route, entry.code],
        ['info', 'request', '/healthz', 200]);
    for (const each of s.log().trimEnd().split('\n')) JSON.parse(each);
});

test('SIGTERM and SIGINT stop the server cleanly', async (t) => {
    for (const signal of ['SIGTERM', 'SIGINT']) {
        const s = await serve(t);
        await s.get('/healthz');
        const end = await s.stop(signal);
        assert.deepEqual([end.code, end.signal], [0, null], end.log);
        assert.match(end.log, /info stopping/);
    }
});

test('SIGHUP reloads the log level', async (t) => {
    const s = await serve(t, { config: 'server:\n  log_level: error\n' });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    await s.get('/healthz', { headers: { 'x-request-id': 'before' }, agent });
    // On the same connection: the second request is read after the log level was checked for the
    // first.
    await s.get('/readyz', { agent });
    fs.writeFileSync(path.join(s.dir, 'palaver.yaml'), 'server:\n  log_level: info\n');
    s.child.kill('SIGHUP');
    await s.logged(/reloaded/);
    await s.get('/healthz', { headers: { 'x-request-id': 'after' } });
    await s.logged(/id=after/);
    assert.doesNotMatch(s.log(), /id=before/);
    fs.writeFileSync(path.join(s.dir, 'palaver.yaml'), 'servre: 1\n');
    s.child.kill('SIGHUP');
    await s.logged(/error could not reload the configuration, the old one stays in use: .*servre/);
    assert.equal((await s.get('/healthz')).code, 200);
});

test('the server notifies systemd when it is ready, reloads and stops', async (t) => {
    const dir = workspace(t);
    const seen = [];
    const name = path.join(dir, 'notify');
    // Node has no Unix datagram sockets, so the command itself takes the place of socat.
    const { spawn } = await import('node:child_process');
    const listener = spawn('python3', ['-c', 'import socket,sys\n' +
        's=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\ns.bind(sys.argv[1])\n' +
        'print("bound",flush=True)\nwhile True: print(s.recv(99).decode(),flush=True)', name]);
    t.after(() => listener.kill());
    let wake = () => {};
    listener.stdout.on('data', (piece) => {
        seen.push(...piece.toString().trim().split('\n'));
        wake();
    });
    // Waits for a word after the words that were already found.
    let past = 0;
    const until = async (word) => {
        while (!seen.includes(word, past)) await new Promise((resolve) => { wake = resolve; });
        past = seen.indexOf(word, past) + 1;
    };
    await until('bound');
    const s = await serve(t, { dir, env: { NOTIFY_SOCKET: name, WATCHDOG_USEC: '200000' } });
    await until('READY=1');
    await until('WATCHDOG=1');
    s.child.kill('SIGHUP');
    await until('RELOADING=1');
    assert.match(seen[past], /^MONOTONIC_USEC=\d+$/);
    await until('READY=1');
    await s.stop();
    await until('STOPPING=1');
});

test('the command reports the address that it cannot listen on', async (t) => {
    const dir = workspace(t);
    const { serveFails } = await import('./support.mjs');
    const open = serveFails(dir, '--listen', '0.0.0.0:0');
    assert.equal(open.code, 1);
    assert.equal(open.out, '');
    assert.match(open.err, /palaver: address '0\.0\.0\.0:0' is open to other machines/);
    assert.match(open.err, /hint: create a key with 'palaver key create'/);
    const bad = serveFails(dir, '--listen', 'nonsense');
    assert.equal(bad.code, 2, bad.err);
    const s = await serve(t);
    const taken = serveFails(dir, '--listen', `127.0.0.1:${s.port}`);
    assert.equal(taken.code, 1);
    assert.match(taken.err, new RegExp(`127\\.0\\.0\\.1:${s.port}`));
    palaver(dir, 'key', 'create');
    const keyed = await serve(t, { dir, args: ['--listen', '0.0.0.0:0'] });
    assert.equal((await keyed.get('/api/v1/keys')).code, 401);
});

test('the cleanup moves expired sessions to the trash', async (t) => {
    const dir = workspace(t);
    palaver(dir, 'session', 'new', '--key', 'old', '--expires', '1s');
    palaver(dir, 'session', 'new', '--key', 'kept');
    const s = await serve(t, { dir, config: 'expiry:\n  cleanup_interval: 1s\n' });
    await s.logged(/info sweep trashed=1 erased=0/);
    await s.stop();
    const trash = JSON.parse(palaver(dir, 'session', 'list', '--state', 'trash', '--json'));
    assert.equal(JSON.stringify(trash).match(/"key":"(\w+)"/)[1], 'old');
});
