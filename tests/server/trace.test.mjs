// Traces: the spans that an OpenTelemetry collector receives.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { serve } from './support.mjs';

// A collector that keeps the received spans.
async function collector(t, { code = 200 } = {}) {
    const spans = [];
    const requests = [];
    let wake = () => {};
    const server = http.createServer((request, response) => {
        let text = '';
        request.on('data', (piece) => { text += piece; });
        request.on('end', () => {
            requests.push({ path: request.url, type: request.headers['content-type'] });
            for (const resource of JSON.parse(text).resourceSpans) {
                for (const scope of resource.scopeSpans)
                    spans.push(...scope.spans.map((span) => ({ ...span, resource })));
            }
            response.writeHead(code);
            response.end('{}');
            wake();
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => { server.closeAllConnections(); server.close(); });
    return {
        url: `http://127.0.0.1:${server.address().port}`,
        spans, requests,
        // Resolves to the matching spans when there are `count` of them.
        until: async (test, count = 1) => {
            for (;;) {
                const found = spans.filter(test);
                if (found.length >= count) return found;
                await new Promise((resolve) => { wake = resolve; });
            }
        },
    };
}

const attributes = (span) => Object.fromEntries(span.attributes
    .map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]));

test('every request is a span below the span of its client', async (t) => {
    const c = await collector(t);
    const s = await serve(t, { config: `server:\n  otlp_url: ${c.url}\n` });
    const trace = '0af7651916cd43dd8448eb211c80319c';
    await s.get('/healthz',
        { headers: { traceparent: `00-${trace}-b7ad6b7169203331-01`, 'x-request-id': 'r1' } });
    const [span] = await c.until((each) => each.traceId === trace);
    assert.deepEqual(c.requests[0], { path: '/v1/traces', type: 'application/json' });
    assert.equal(span.parentSpanId, 'b7ad6b7169203331');
    assert.match(span.spanId, /^[0-9a-f]{16}$/);
    assert.equal(span.name, 'GET /healthz');
    assert.equal(span.kind, 2);
    assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano));
    assert.deepEqual(attributes(span), { 'http.request.method': 'GET', 'http.route': '/healthz',
        'http.response.status_code': 200, 'palaver.request.id': 'r1' });
    assert.deepEqual(attributes(span.resource.resource),
        { 'service.name': 'palaver', 'service.version': attributes(span.resource.resource)['service.version'] });
});

test('the remaining spans are sent before the server stops', async (t) => {
    const c = await collector(t);
    const s = await serve(t, { config: `server:\n  otlp_url: ${c.url}/own/path\n` });
    for (const traceparent of ['nonsense', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`])
        await s.get('/nowhere', { headers: { traceparent } });
    assert.equal((await s.stop()).code, 0);
    // Sent before the end of the turn, but the end can arrive here first.
    const mine = await c.until((span) => span.name === 'unknown', 2);
    assert.equal(mine.length, 2);
    assert.ok(c.requests.every((request) => request.path === '/own/path'));
    assert.notEqual(mine[0].traceId, mine[1].traceId);
    for (const span of mine) assert.equal(span.parentSpanId, undefined);
});

test('a collector that refuses or is unreachable delays nothing', async (t) => {
    const refusing = await collector(t, { code: 500 });
    const s = await serve(t, { config: `server:\n  otlp_url: ${refusing.url}\n` });
    assert.equal((await s.get('/healthz')).code, 200);
    await s.logged(/could not send a batch of spans: the collector refused it/);
    assert.equal((await s.stop()).code, 0);
    const none = await serve(t, { config: 'server:\n  otlp_url: http://127.0.0.1:1\n' });
    assert.equal((await none.get('/healthz')).code, 200);
    await none.logged(/could not send a batch of spans/);
    assert.equal((await none.stop()).code, 0);
});
