// Compressed responses.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import zlib from 'node:zlib';
import { serve } from '../support.mjs';

// Returns the bytes of a response, without decompressing them.
function raw(s, target, headers) {
    return new Promise((resolve, reject) => {
        http.get({ host: '127.0.0.1', port: s.port, path: target, headers, agent: false },
            (response) => {
                const pieces = [];
                response.on('data', (piece) => pieces.push(piece));
                response.on('end', () => resolve({ code: response.statusCode,
                    headers: response.headers, body: Buffer.concat(pieces) }));
            }).on('error', reject);
    });
}

test('long responses are compressed if the client accepts it', async (t) => {
    const s = await serve(t);
    const { id } = (await s.post('/api/v1/sessions', { key: 'k' })).json;
    const messages = Array.from({ length: 400 }, (_, i) => `message ${i} ${'äöü '.repeat(20)}`);
    await s.post(`/api/v1/sessions/${id}/messages`, { messages });
    const target = '/api/v1/sessions/k/messages?limit=400';
    const plain = await raw(s, target, {});
    assert.equal(plain.headers['content-encoding'], undefined);
    assert.equal(plain.headers.vary, 'accept-encoding');
    assert.ok(plain.body.length > 100_000);
    for (const accepts of ['gzip', 'br, gzip', 'GZIP;q=0.5', '*', 'deflate, gzip;q=1.0, *;q=0']) {
        const zipped = await raw(s, target, { 'accept-encoding': accepts });
        assert.equal(zipped.headers['content-encoding'], 'gzip', accepts);
        assert.equal(Number(zipped.headers['content-length']), zipped.body.length);
        assert.ok(zipped.body.length < plain.body.length / 5);
        assert.deepEqual(zlib.gunzipSync(zipped.body), plain.body);
    }
    for (const accepts of ['identity', 'br', 'gzip;q=0', 'gzip; q=0.000, *', '*;q=0', 'xgzip', ''])
        assert.deepEqual((await raw(s, target, { 'accept-encoding': accepts })).body, plain.body,
            accepts);
    const short = await raw(s, '/api/v1/sessions/k', { 'accept-encoding': 'gzip' });
    assert.equal(short.headers['content-encoding'], undefined);
    assert.equal(JSON.parse(short.body).id, id);
});

test('a body that does not become shorter is sent as it is', async (t) => {
    const s = await serve(t);
    const { id } = (await s.post('/api/v1/sessions', {})).json;
    // Characters that are stored as they are, without any pattern.
    const text = Array.from({ length: 6000 },
        () => String.fromCharCode(0x4e00 + Math.floor(Math.random() * 20000))).join('');
    await s.post(`/api/v1/sessions/${id}/messages`, { messages: [text] });
    const { body, headers } = await raw(s, `/api/v1/sessions/${id}/messages`,
        { 'accept-encoding': 'gzip' });
    const json = headers['content-encoding'] ? zlib.gunzipSync(body) : body;
    assert.equal(JSON.parse(json).messages[0].content, text);
});
