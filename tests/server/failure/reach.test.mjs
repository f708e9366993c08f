// Model services that are unreachable, that return, and that redirect.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { MockModel } from '../../conformance/mock-model.mjs';
import { serve } from '../support.mjs';
import { serveModel } from '../model.mjs';

// An address where nothing listens: a port that this process used a moment ago.
async function closedUrl() {
    const server = net.createServer();
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address();
    await new Promise((resolve) => server.close(resolve));
    return `http://127.0.0.1:${port}`;
}

async function listen(t, answer) {
    const server = http.createServer(answer);
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => { server.close(); server.closeAllConnections(); });
    return server.address().port;
}

const retries = async (s) =>
    Number(/^palaver_model_retries_total (\d+)$/m.exec((await s.get('/metrics')).text)[1]);

test('a service that was never reachable fails after a few retries, with the reason', async (t) => {
    const s = await serveModel(t, { model: { url: await closedUrl() } });
    const failed = await s.post('/api/v1/chat', { message: 'hello' });
    assert.equal(failed.code, 500);
    assert.equal(failed.json.detail, 'Failed to process message. Please try again.');
    assert.match(failed.json.reason, /could not connect to .*refused/);
    assert.ok(await retries(s) <= 2, `${await retries(s)} retries`);
});

test('https at a port that speaks http fails after a few retries, with the reason', async (t) => {
    const port = await listen(t, (request, response) => response.end());
    const s = await serveModel(t, { model: { url: `https://127.0.0.1:${port}` } });
    const failed = await s.post('/api/v1/chat', { message: 'hello' });
    assert.equal(failed.code, 500);
    assert.match(failed.json.reason, /could not connect to .*SSL/);
    assert.ok(await retries(s) <= 2, `${await retries(s)} retries`);
});

test('the server waits for a service that was reachable before', async (t) => {
    const mock = new MockModel();
    const url = await mock.listen();
    const s = await serveModel(t, { model: { url } });
    const id = await s.session();
    assert.equal((await s.turn(id, { message: '<<say one>>' })).code, 200);
    await mock.close();
    const { turn_id: turn } = (await s.turn(id, { message: '<<say two>>', background: true })).json;
    let seen;
    do seen = (await s.get(`/api/v1/turns/${turn}`)).json; while (seen.state !== 'retrying');
    assert.ok(Date.parse(seen.retry_at) - Date.parse(seen.since) >= 1900, JSON.stringify(seen));
    const again = new MockModel();
    await again.listen({ port: Number(new URL(url).port) });
    t.after(() => again.close());
    do seen = (await s.get(`/api/v1/turns/${turn}`)).json;
    while (seen.state === 'retrying' || seen.state === 'running');
    assert.equal(seen.state, 'done', JSON.stringify(seen));
});

test('a redirect gets no secret', async (t) => {
    const thief = [];
    const other = await listen(t, (request, response) => {
        thief.push(request.headers);
        response.end('{}');
    });
    const asked = [];
    const port = await listen(t, (request, response) => {
        asked.push(request.headers['x-api-key']);
        response.writeHead(request.method === 'GET' ? 302 : 307,
            { location: `http://localhost:${other}/stolen?key=secret` });
        response.end();
    });
    const s = await serve(t, { env: { ANTHROPIC_API_KEY: 'ant-secret' },
        args: ['--provider', 'anthropic', '--provider-url', `http://127.0.0.1:${port}/v1`,
            '--model', 'm'] });
    const failed = await s.post('/api/v1/chat', { message: 'hello' });
    assert.equal(failed.code, 500);
    assert.match(failed.json.reason, new RegExp(`redirects to 'http://localhost:${other}'`));
    assert.doesNotMatch(failed.text, /stolen|key=secret/);
    await s.get('/v1/models');
    assert.ok(asked.length > 0);
    assert.deepEqual(thief, []);
});

test('impossible usage numbers are ignored', async (t) => {
    const port = await listen(t, (request, response) => {
        request.resume();
        request.on('end', () => {
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            response.end('data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}],'
                + '"usage":{"prompt_tokens":4611686018427387904,"completion_tokens":3}}\n\ndata: [DONE]\n\n');
        });
    });
    const s = await serveModel(t, { model: { url: `http://127.0.0.1:${port}` } });
    for (let i = 0; i < 5; i++)
        assert.equal((await s.post('/api/v1/chat', { message: 'hello' })).json.response, 'hi');
    const { json } = await s.get('/api/v1/usage');
    assert.ok(json.input_tokens < 1e6, JSON.stringify(json));
});
