// Calls without an answer that still count against a key's budget: calls that are canceled or cut
// off, and summaries whose service reports no usage.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { makeKey, serve, workspace } from '../support.mjs';
import { isA, open } from '../model.mjs';

const chunk = (delta, more = {}) =>
    `data: ${JSON.stringify({ model: 'm-1', choices: [{ index: 0, delta, ...more }] })}\n\n`;

// A model service that reports no usage. It sends `words`, and then nothing more if `stalls()`.
async function upstream(t, { words = 'several words of an answer ', stalls = () => false } = {}) {
    const model = http.createServer((request, response) => {
        const pieces = [];
        request.on('data', (piece) => pieces.push(piece));
        request.on('end', () => {
            const isCut = stalls(Buffer.concat(pieces).toString());
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            response.write(chunk({ role: 'assistant', content: words }));
            if (!isCut)
                response.end(chunk({}, { finish_reason: 'stop' }) + 'data: [DONE]\n\n');
            else if (isCut === 'broken') response.socket.end(); // inside of the body
        });
    });
    model.listen(0, '127.0.0.1');
    await new Promise((resolve) => model.once('listening', resolve));
    t.after(() => { model.closeAllConnections(); model.close(); });
    return ['--provider', 'openai', '--provider-url',
        `http://127.0.0.1:${model.address().port}/v1`, '--model', 'm-1'];
}

// Waits until the ledger has `count` calls. Rows are written after the response.
async function counted(s, key, calls) {
    for (;;) {
        const { json } = await s.get('/api/v1/usage', { key });
        if (json.calls >= calls) return json;
    }
}

async function newSession(s, key) {
    const made = await s.post('/api/v1/sessions', {}, { key });
    assert.equal(made.code, 201, made.text);
    return made.json.session_id;
}

test('a canceled turn counts the tokens that were sent and received', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'write', '--max-tokens', '60');
    const s = await serve(t, { dir, args: await upstream(t, { stalls: () => true }) });
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const codes = [];
    for (let i = 1; i <= 20 && !codes.includes(429); i++) {
        const id = await newSession(s, key);
        const stream = await open(s.port, 'POST', `/api/v1/sessions/${id}/turns`,
            { headers, body: { message: 'some words that are sent', stream: true } });
        codes.push(stream.code);
        if (stream.code !== 200) break;
        const { event } = await stream.next(({ event }) => event === 'text' || event === 'ended');
        if (event === 'ended') { // refused for its budget after it had begun
            assert.match(JSON.stringify(stream.events), /budget/);
            codes.push(429);
            break;
        }
        const { turn_id: turn } = stream.events[0].data;
        assert.equal((await s.post(`/api/v1/turns/${turn}/cancel`, {}, { key })).code, 200);
        await stream.end();
        const usage = await counted(s, key, i);
        assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0, JSON.stringify(usage));
    }
    assert.ok(codes.includes(429), `canceled calls are free: ${codes}`);
});

test('a truncated answer counts', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'write', '--max-tokens', '1000000');
    const s = await serve(t, { dir, config: 'turn:\n  retries: 1\n', args: ['--config',
        'palaver.yaml', ...await upstream(t, { stalls: () => 'broken' })] });
    const id = await newSession(s, key);
    const turn = await s.post(`/api/v1/sessions/${id}/turns`, { message: 'words' }, { key });
    assert.equal(turn.code, 502, turn.text);
    const usage = await counted(s, key, 1);
    assert.ok(usage.output_tokens > 0, JSON.stringify(usage));
});

test('a summary counts, even if the service does not report its usage', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'write', '--max-tokens', '1000000');
    const s = await serve(t, { dir, args: await upstream(t) });
    const id = await newSession(s, key);
    const messages = Array.from({ length: 20 }, (_, i) =>
        ({ role: i % 2 ? 'assistant' : 'user', content: `${i} ${'words and words '.repeat(200)}` }));
    const appended = await s.post(`/api/v1/sessions/${id}/messages`, { messages }, { key });
    assert.equal(appended.code, 201, appended.text);
    const compacted = await s.post(`/api/v1/sessions/${id}/compact`, {}, { key });
    assert.equal(compacted.code, 200, compacted.text);
    const usage = await counted(s, key, 1);
    assert.ok(usage.input_tokens > 1000 && usage.output_tokens > 0, JSON.stringify(usage));
});

test('a used-up budget refuses summaries', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'write', '--max-tokens', '20');
    const s = await serve(t, { dir, args: await upstream(t) });
    const id = await newSession(s, key);
    const compact = async (body) => {
        const messages = Array.from({ length: 20 }, (_, i) =>
            ({ role: i % 2 ? 'assistant' : 'user', content: `${i} ${'more words '.repeat(200)}` }));
        await s.post(`/api/v1/sessions/${id}/messages`, { messages }, { key });
        return s.post(`/api/v1/sessions/${id}/compact`, body, { key });
    };
    assert.equal((await compact({})).code, 200);
    await counted(s, key, 1);
    const refused = await compact({});
    assert.equal(refused.code, 429, refused.text);
    assert.match(refused.json.error, /budget of the tenant is used up/);
    assert.equal((await compact({ summary: 'given' })).code, 200, 'which calls no model');
});

test('every API asks clients to retry turns over turns_max', async (t) => {
    const config = 'turn:\n  turns_max: 1\n';
    const s = await serve(t, { config, args: ['--config', 'palaver.yaml',
        ...await upstream(t, { stalls: () => true })] });
    const id = await newSession(s);
    const first = await s.post(`/api/v1/sessions/${id}/turns`,
        { message: 'a', background: true });
    assert.equal(first.code, 202, first.text);
    const other = await newSession(s);
    const said = { role: 'user', content: 'b' };
    const asked = [
        [`/api/v1/sessions/${other}/turns`, { message: 'b' }],
        [`/api/v1/sessions/${other}/turns`, { message: 'b', stream: true }],
        [`/api/v1/sessions/${other}/turns`, { message: 'b', background: true }],
        ['/api/v1/chat', { message: 'b' }],
        ['/v1/responses', { input: 'b' }],
        ['/v1/chat/completions', { messages: [said] }, { 'x-palaver-session': 'k' }],
        ['/mistral/v1/conversations', { inputs: 'b', model: 'm-1' }],
        ['/api/v1/inbound', { message: 'b',
            context: { channel: 'telegram', chat_id: '-1', chat_type: 'group', sender_id: '7' } }],
    ];
    for (const [path, body, headers] of asked) {
        const answer = await s.post(path, body, { headers });
        assert.equal(answer.code, 503, `${path}: ${answer.text}`);
        assert.ok(Number(answer.headers['retry-after']) >= 1, path);
        assert.match(answer.text, /turns run or wait already/, path);
    }
});
