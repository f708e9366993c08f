// Messages over HTTP: append in every form, read from either end, blobs, and refused requests.
import test from 'node:test';
import assert from 'node:assert/strict';
import { ask, assertError, palaver, serve } from '../support.mjs';

const path = '/api/v1/sessions/k/messages';
const png = Buffer.from('89504e470d0a1a0a', 'hex');

async function start(t, options) {
    const s = await serve(t, options);
    assert.equal((await s.post('/api/v1/sessions', { key: 'k' })).code, 201);
    return { ...s,
        add: async (body, headers) => s.post(path, body, { headers }),
        list: async (query = '') => {
            const answer = await s.get(path + query);
            assert.equal(answer.code, 200, answer.text);
            return answer.json;
        } };
}

test('one message, several messages and a text can be appended', async (t) => {
    const s = await start(t);
    const one = await s.add({ role: 'user', content: 'one' });
    assert.equal(one.code, 201);
    assert.deepEqual(Object.keys(one.json), ['messages']);
    assert.deepEqual(Object.keys(one.json.messages[0]), ['id', 'seq']);
    assert.match(one.json.messages[0].id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/);
    const two = await s.add({ messages: [{ role: 'assistant', content: 'two' }, 'three'] });
    assert.deepEqual(two.json.messages.map((m) => m.seq), [2, 3]);
    await s.add({ message: 'four' });
    await s.add({ message: { role: 'system', content: 'five' } });
    const { messages, has_more: hasMore } = await s.list();
    assert.deepEqual(messages.map((m) => [m.seq, m.role, m.content]), [[1, 'user', 'one'],
        [2, 'assistant', 'two'], [3, 'user', 'three'], [4, 'user', 'four'], [5, 'system', 'five']]);
    assert.equal(hasMore, false);
    for (const m of messages) {
        assert.match(m.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        assert.ok(m.tokens > 0);
    }
    assert.equal(messages[0].id, one.json.messages[0].id);
});

test('an acknowledged message is in the store when the response arrives', async (t) => {
    const s = await start(t);
    await s.add({ role: 'user', content: 'kept' });
    await s.stop('SIGKILL');
    assert.match(palaver(s.dir, 'session', 'show', 'k'), /kept/);
});

test('messages in the format of chat completions can be appended', async (t) => {
    const s = await start(t);
    const url = `data:image/png;base64,${png.toString('base64')}`;
    const added = await s.add({ messages: [
        { role: 'developer', content: 'be brief' },
        { role: 'user', content: [{ type: 'text', text: 'what is this?' },
            { type: 'image_url', image_url: { url } }] },
        { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function',
            function: { name: 'look', arguments: '{"at":1}' } }] },
        { role: 'tool', tool_call_id: 'c1', content: 'a lamp' }] });
    assert.equal(added.code, 201, added.text);
    const { messages } = await s.list();
    assert.deepEqual(messages.map((m) => m.role), ['system', 'user', 'assistant', 'tool']);
    const [text, image] = messages[1].parts;
    assert.deepEqual(text, { type: 'text', text: 'what is this?' });
    assert.deepEqual([image.type, image.media_type, image.data], ['image', 'image/png', undefined]);
    assert.deepEqual([messages[2].parts[0].type, messages[2].parts[0].name], ['tool_call', 'look']);
    assert.deepEqual(messages[3].parts[0].type, 'tool_result');
    const blob = await s.get(`/api/v1/blobs/${image.blob}`);
    assert.equal(blob.code, 200);
    assert.equal(blob.headers['content-type'], 'image/png');
    assert.equal(blob.headers['x-content-type-options'], 'nosniff');
    assert.equal(blob.headers['content-length'], String(png.length));
});

test('a browser shows only pictures among the blobs, and runs none of them', async (t) => {
    const s = await start(t);
    const types = [['image/png', 'image/png'], ['image/avif', 'image/avif'],
        ['image/svg+xml', 'application/octet-stream'], ['image/x-new', 'application/octet-stream'],
        ['text/html', 'application/octet-stream'], ['text/plain', 'text/plain']];
    const added = await s.add({ role: 'user', parts: types.map(([type], i) => ({ type: 'file',
        media_type: type, data: Buffer.from(`<b>${i}</b>`).toString('base64') })) });
    assert.equal(added.code, 201, added.text);
    const { parts } = (await s.list()).messages[0];
    for (const [i, [type, sent]] of types.entries()) {
        const { headers } = await s.get(`/api/v1/blobs/${parts[i].blob}`);
        const isPicture = /png|avif/.test(type);
        assert.equal(headers['content-type'], sent, type);
        assert.equal(headers['content-disposition'], isPicture ? undefined : 'attachment', type);
        assert.equal(headers['content-security-policy'], "sandbox; default-src 'none'", type);
    }
});

test('native parts with bytes can be appended and read', async (t) => {
    const s = await start(t);
    const html = Buffer.from('<script>alert(1)</script>').toString('base64');
    const added = await s.add({ role: 'user', parts: [{ type: 'text', text: 'a page' },
        { type: 'file', media_type: 'text/html', name: 'a.html', data: html }] });
    assert.equal(added.code, 201, added.text);
    const { parts } = (await s.list()).messages[0];
    assert.deepEqual([parts[1].name, parts[1].media_type], ['a.html', 'text/html']);
    // Content that a browser would run is only ever downloaded.
    const blob = await s.get(`/api/v1/blobs/${parts[1].blob}`);
    assert.equal(blob.headers['content-type'], 'application/octet-stream');
    assertError(await s.get('/api/v1/blobs/x'), 400, 'invalid', /sha256:/);
    assertError(await s.get(`/api/v1/blobs/sha256:${'0'.repeat(64)}`), 404, 'not_found');
});

test('pages can be read from either end', async (t) => {
    const s = await start(t);
    await s.add({ messages: Array.from({ length: 120 }, (_, i) => ({ role: 'user',
        content: `m${i + 1}` })) });
    const seqs = async (query) => {
        const page = await s.list(query);
        return [page.messages.map((m) => m.seq), page.has_more];
    };
    const range = (from, to) => Array.from({ length: Math.abs(to - from) + 1 },
        (_, i) => from < to ? from + i : from - i);
    assert.deepEqual(await seqs(''), [range(1, 50), true], 'fifty by default');
    assert.deepEqual(await seqs('?order=desc'), [range(120, 71), true]);
    assert.deepEqual(await seqs('?after=50'), [range(51, 100), true]);
    assert.deepEqual(await seqs('?after=100'), [range(101, 120), false]);
    assert.deepEqual(await seqs('?order=desc&before=71&limit=3'), [[70, 69, 68], true]);
    assert.deepEqual(await seqs('?order=asc&before=4'), [[1, 2, 3], false]);
    assert.deepEqual(await seqs('?after=10&before=13'), [[11, 12], false]);
    assert.deepEqual(await seqs('?after=120'), [[], false]);
    assert.deepEqual(await seqs('?limit=1000'), [range(1, 120), false]);
    const walked = [];
    for (let page, before = ''; !page || page.has_more; before = `&before=${walked.at(-1)}`) {
        page = await s.list(`?order=desc&limit=33${before}`);
        walked.push(...page.messages.map((m) => m.seq));
    }
    assert.deepEqual(walked, range(120, 1));
    for (const [query, param] of [['?order=up', 'order'], ['?limit=0', 'limit'],
        ['?limit=1001', 'limit'], ['?after=-1', 'after'], ['?before=x', 'before'],
        ['?hidden=maybe', 'hidden']]) {
        const answer = await s.get(path + query);
        assertError(answer, 400, 'invalid');
        assert.equal(answer.json.param, param);
    }
});

test('one message can be read by id or seq', async (t) => {
    const s = await start(t);
    const [first] = (await s.add({ role: 'user', content: 'one' })).json.messages;
    await s.add({ role: 'user', content: 'two' });
    await s.post('/api/v1/sessions', { key: 'other' });
    const [there] = (await s.post('/api/v1/sessions/other/messages',
        { role: 'user', content: 'there' })).json.messages;
    assert.equal((await s.get(`${path}/${first.id}`)).json.content, 'one');
    assert.equal((await s.get(`${path}/2`)).json.content, 'two');
    await s.post('/api/v1/sessions/k/rewind', { to_seq: 1 });
    assert.equal((await s.get(`${path}/2`)).json.content, 'two', 'hidden ones too');
    // A message of another session has the same number there.
    assertError(await s.get(`${path}/${there.id}`), 404, 'not_found', /no such message/);
    assertError(await s.get(`${path}/3`), 404, 'not_found', /no such message/);
    assertError(await s.get(`${path}/0`), 400, 'invalid');
    assertError(await s.get(`${path}/one`), 400, 'invalid', /'one' is not a message id or seq/);
    const fork = (await s.post('/api/v1/sessions/k/fork', {})).json.id;
    assert.equal((await s.get(`/api/v1/sessions/${fork}/messages/${first.id}`)).json.seq, 1);
});

test('client ids, idempotency keys and expected_seq prevent double appends', async (t) => {
    const s = await start(t);
    const body = { role: 'user', content: 'one', client_id: 'c-1' };
    const one = (await s.add(body)).json;
    assert.deepEqual((await s.add(body)).json, one, 'the same one again');
    assertError(await s.add({ ...body, content: 'other' }), 409, 'conflict', /'c-1' was used/);
    const keyed = { 'idempotency-key': 'key-1' };
    const two = await s.add({ role: 'user', content: 'two' }, keyed);
    const again = await s.add({ role: 'user', content: 'two' }, keyed);
    assert.deepEqual(again.json, two.json);
    assert.equal(again.headers['idempotent-replayed'], 'true');
    assertError(await s.add({ role: 'user', content: 'three' }, keyed), 422,
        'idempotency_key_reused', /used for a different request/);
    assert.equal((await s.add({ role: 'user', content: '3', expected_seq: 2 })).code, 201);
    assertError(await s.add({ role: 'user', content: '3', expected_seq: 2 }), 409, 'conflict',
        /at seq 3, not at the expected 2/);
    assert.equal((await s.list()).messages.length, 3);
    const many = await Promise.all(Array.from({ length: 20 }, () =>
        s.add({ role: 'user', content: 'race', expected_seq: 3 })));
    assert.deepEqual(many.map((a) => a.code).sort().slice(0, 2), [201, 409], 'one of them wins');
    assert.equal((await s.list()).messages.length, 4);
});

test('an error names the message that cannot be appended', async (t) => {
    const s = await start(t);
    const cases = [
        [{}, 400, /'role' is missing/, 'role'],
        [{ role: 'user' }, 400, /'content' is missing/, 'content'],
        [{ content: 'x' }, 400, /'role' is missing/, 'role'],
        [{ role: 'king', content: 'x' }, 400, /'role' is 'king'; expected one of/, 'role'],
        [{ role: 'user', content: 7 }, 400, /'content' is 7/, 'content'],
        [{ role: 'user', content: 'x', client_id: 7 }, 400, /'client_id' is 7/, 'client_id'],
        [{ role: 'user', content: 'x', seq: 3 }, 400, /'seq' is not allowed/, 'seq'],
        [{ role: 'user', content: 'x', expected_seq: 'y' }, 400, /'expected_seq' must be/,
            'expected_seq'],
        [{ messages: {} }, 400, /'messages' must be an array/, 'messages'],
        [{ messages: [] }, 400, /'messages' is empty/, 'messages'],
        [{ messages: [{ role: 'user', content: 'x' }, { role: 'user', content: [7] }] }, 400,
            /messages\[1\]/, 'messages'],
        [{ messages: [{ role: 'user', parts: [{ type: 'text', text: 7 }] }] }, 400, /messages\[0\]/,
            'messages'],
        [{ message: 7 }, 400, /'message' must be/, 'message'],
        [{ messages: Array(1001).fill('x') }, 413, /at most 1000/, 'messages'],
        [{ role: 'user', content: 'x', client_id: 'c'.repeat(257) }, 413, /'client_id' of 257/, null],
    ];
    for (const [body, code, pattern, param] of cases) {
        const answer = await s.add(body);
        assert.equal(answer.code, code, `${JSON.stringify(body).slice(0, 200)}: ${answer.text}`);
        assertError(answer, code, code === 413 ? 'limit' : 'invalid', pattern);
        if (param) assert.equal(answer.json.param, param, answer.text);
    }
    assert.deepEqual((await s.list()).messages, [], 'nothing has changed');
    const nobody = path.replace('/k/', '/nobody/');
    assertError(await s.post(nobody, { role: 'user', content: 'x' }), 404, 'not_found',
        /^Session not found$/);
});

test('text of every kind is returned unchanged', async (t) => {
    const s = await start(t);
    const texts = ['', ' ', '\u0000\u0001\n\r\t"\\/', 'ä€𝄞', '\u2028</script>',
        'x'.repeat(2 << 20), '{"a":1}', '\ufeff'];
    for (const content of texts) {
        const added = await s.add({ role: 'user', content });
        if (content === '' && added.code === 400) continue;
        assert.equal(added.code, 201, added.text.slice(0, 300));
        const { messages } = await s.list('?order=desc&limit=1');
        assert.equal(messages[0].content, content);
    }
});

test('appends of many connections are all stored, in one order', async (t) => {
    const s = await start(t);
    const writers = Array.from({ length: 16 }, async (_, w) => {
        const mine = [];
        for (let i = 0; i < 25; i++) {
            const answer = await ask(s.port, 'POST', path, { body: { role: 'user',
                content: `${w}:${i}` } });
            assert.equal(answer.code, 201, answer.text);
            mine.push(answer.json.messages[0].seq);
        }
        return mine;
    });
    const seqs = (await Promise.all(writers)).flat().sort((a, b) => a - b);
    assert.deepEqual(seqs, Array.from({ length: 400 }, (_, i) => i + 1));
    const { messages } = await s.list('?limit=1000');
    for (let w = 0; w < 16; w++)
        assert.deepEqual(messages.map((m) => m.content).filter((c) => c.startsWith(`${w}:`)),
            Array.from({ length: 25 }, (_, i) => `${w}:${i}`));
});
