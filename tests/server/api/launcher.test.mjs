// The session routes of PicoClaw's launcher: list, detail, delete.
import test from 'node:test';
import assert from 'node:assert/strict';
import { makeKey, serve, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

const seconds = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const inbound = (s, id, message, options) => s.post('/api/v1/inbound', { message,
    context: { channel: 'pico', chat_type: 'direct', chat_id: `pico:${id}`, sender_id: 'pico-user' } },
options);
const missing = (answer) => {
    assert.deepEqual([answer.code, answer.text], [404, 'session not found\n']);
    assert.match(answer.headers['content-type'], /^text\/plain/);
};

test('the sessions of the page are listed, newest update first', async (t) => {
    const s = await serveModel(t);
    await s.post('/api/v1/sessions', { key: 'other', message: 'not of the page' });
    await s.post('/api/v1/inbound', { message: 'x',
        context: { channel: 'telegram', chat_type: 'direct', chat_id: '7', sender_id: '7' } });
    await inbound(s, 'one', 'How are you?');
    await inbound(s, 'two', `  ${'ä'.repeat(61)}`);
    await inbound(s, 'one', 'And now?');
    // An empty session is not listed.
    await s.post('/api/v1/sessions', { key: 'agent:main:pico:direct:pico:empty' });
    const list = await s.get('/api/sessions');
    assert.equal(list.code, 200, list.text);
    assert.deepEqual(list.json.map((item) => [item.id, item.title, item.message_count]),
        [['one', 'How are you?', 4], ['two', `${'ä'.repeat(60)}...`, 2]]);
    for (const item of list.json) {
        assert.deepEqual(Object.keys(item),
            ['id', 'title', 'preview', 'message_count', 'created', 'updated']);
        assert.equal(item.preview, item.title);
        assert.match(item.created, seconds);
        assert.match(item.updated, seconds);
    }
    const ids = async (query) => (await s.get(`/api/sessions?${query}`)).json.map((i) => i.id);
    assert.deepEqual(await ids('offset=1'), ['two']);
    assert.deepEqual(await ids('offset=0&limit=1'), ['one']);
    assert.deepEqual(await ids('offset=9'), []);
    assert.deepEqual(await ids('offset=-1&limit=none'), ['one', 'two']);
});

test('a chat and the legacy session that it continues are one session', async (t) => {
    const s = await serveModel(t);
    for (const id of ['Old-1', 'old-2', 'Other']) {
        const key = `agent:main:pico:direct:pico:${id}`;
        await s.post('/api/v1/sessions', { key });
        await s.post(`/api/v1/sessions/${encodeURIComponent(key)}/messages`,
            { role: 'user', content: `about ${id}` });
    }
    for (const id of ['Old-1', 'old-2']) {
        const { json } = await inbound(s, id, 'And now?');
        assert.equal(json.adopted, id === 'old-2', 'routing looks for legacy keys in lower case');
    }
    const ids = async () => (await s.get('/api/sessions')).json.map((i) => [i.id, i.message_count]);
    assert.deepEqual(await ids(), [['old-2', 3], ['old-1', 2], ['Other', 1], ['Old-1', 1]]);
    assert.equal((await s.get('/api/sessions/old-2')).json.messages.length, 3);
    assert.equal((await s.ask('DELETE', '/api/sessions/old-2')).code, 204);
    assert.deepEqual(await ids(), [['old-1', 2], ['Other', 1], ['Old-1', 1]]);
    missing(await s.get('/api/sessions/old-2'));
    missing(await s.ask('DELETE', '/api/sessions/old-2'));
    assert.equal((await s.ask('DELETE', '/api/sessions/Old-1')).code, 204);
    assert.deepEqual(await ids(), [['old-1', 2], ['Other', 1]]);
});

test('the detail of a session shows calls and reasoning, but no results', async (t) => {
    const s = await serveModel(t);
    await s.post('/api/v1/sessions', { key: 'agent:main:pico:direct:pico:abc' });
    await s.post('/api/v1/sessions/agent%3Amain%3Apico%3Adirect%3Apico%3Aabc/messages', { messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'How warm is it?' },
        { role: 'assistant', parts: [{ type: 'reasoning', text: 'I should look.' },
            { type: 'tool_call', call_id: 'c1', name: 'temp', arguments: '{"at":1}' }] },
        { role: 'tool', parts: [{ type: 'tool_result', call_id: 'c1', text: '21' }] },
        { role: 'assistant', content: '21 degrees.' }] });
    await s.ask('PUT', '/api/v1/sessions/agent%3Amain%3Apico%3Adirect%3Apico%3Aabc/summary',
        { body: { summary: 'about the weather' } });
    const { code, json } = await s.get('/api/sessions/abc');
    assert.equal(code, 200);
    assert.deepEqual(Object.keys(json), ['id', 'messages', 'summary', 'created', 'updated']);
    assert.deepEqual([json.id, json.summary], ['abc', 'about the weather']);
    assert.deepEqual(json.messages.map((m) => [m.role, m.kind, m.content]), [
        ['user', undefined, 'How warm is it?'], ['assistant', 'thought', 'I should look.'],
        ['assistant', 'tool_calls', ''], ['assistant', undefined, '21 degrees.']]);
    assert.deepEqual(json.messages[2].tool_calls,
        [{ id: 'c1', type: 'function', function: { name: 'temp', arguments: '{"at":1}' } }]);
    assert.equal((await s.get('/api/sessions')).json[0].message_count, 3);
    missing(await s.get('/api/sessions/nobody'));
});

test('an id is found in any case, and an exact match is preferred', async (t) => {
    const s = await serveModel(t);
    await inbound(s, 'Sess-ABC-Ä', 'hi');
    const shown = await s.get(`/api/sessions/${encodeURIComponent('Sess-ABC-Ä')}`);
    assert.deepEqual([shown.code, shown.json?.id, shown.json?.messages[0].content], [200, 'Sess-ABC-Ä', 'hi']);
    assert.equal((await s.get(`/api/sessions/${encodeURIComponent('sess-abc-ä')}`)).code, 200);
    for (const id of ['One', 'ONE', 'one']) {
        const key = encodeURIComponent(`agent:main:pico:direct:pico:${id}`);
        await s.post('/api/v1/sessions', { key: decodeURIComponent(key), message: id });
    }
    for (const id of ['One', 'ONE', 'one'])
        assert.equal((await s.get(`/api/sessions/${id}`)).json.messages[0].content, id);
    assert.equal((await s.ask('DELETE', '/api/sessions/ONE')).code, 204);
    assert.equal((await s.get('/api/sessions/One')).json.messages[0].content, 'One');
    missing(await s.get('/api/sessions/Sess-AB'));
});

test('deleting a session moves it to the trash', async (t) => {
    const s = await serveModel(t);
    const { session_id: id } = (await inbound(s, 'one', 'hi')).json;
    const gone = await s.ask('DELETE', '/api/sessions/one');
    assert.deepEqual([gone.code, gone.text], [204, '']);
    missing(await s.ask('DELETE', '/api/sessions/one'));
    missing(await s.get('/api/sessions/one'));
    assert.deepEqual((await s.get('/api/sessions')).json, []);
    assert.equal((await s.post(`/api/v1/sessions/${id}/restore`)).code, 200);
    assert.equal((await s.get('/api/sessions/one')).code, 200);
});

test('keys and tenants apply to the launcher\'s routes', async (t) => {
    const dir = workspace(t);
    const one = makeKey(dir, '--tenant', 'one').key;
    const two = makeKey(dir, '--tenant', 'two').key;
    const reader = makeKey(dir, '--tenant', 'one', '--role', 'read').key;
    const s = await serve(t, { dir });
    await inbound(s, 'mine', 'hi', { key: one });
    assert.equal((await s.get('/api/sessions')).code, 401);
    assert.equal((await s.get('/api/sessions', { key: one })).json.length, 1);
    assert.deepEqual((await s.get('/api/sessions', { key: two })).json, []);
    missing(await s.get('/api/sessions/mine', { key: two }));
    missing(await s.ask('DELETE', '/api/sessions/mine', { key: two }));
    assert.equal((await s.ask('DELETE', '/api/sessions/mine', { key: reader })).code, 403);
    assert.equal((await s.get('/api/sessions/mine', { key: reader })).code, 200);
});
