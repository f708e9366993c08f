// The API for Loom's clients: conversations about work items, with Loom's formats, codes and texts.
import test from 'node:test';
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { makeKey, palaver, serve, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

const context = ['session_id', 'bead_id', 'project_id', 'messages', 'created_at', 'updated_at',
    'expires_at', 'token_count', 'metadata', 'entity_metadata'];
const said = (s, id) => s.get(`/api/v1/conversations/${id}`)
    .then(({ json }) => json.messages.map((m) => [m.role, m.content]));

// The error format is {"error": text} and a newline.
function assertLoom(answer, code, text) {
    assert.equal(answer.code, code, answer.text);
    assert.equal(answer.json.error, text);
    assert.ok(answer.text.endsWith('\n'));
    assert.match(answer.headers['content-type'], /^application\/json/);
}

async function make(s, bead, more = {}) {
    const answer = await s.post('/api/v1/conversations',
        { project_id: 'proj-1', bead_id: bead, ...more });
    assert.ok([200, 201].includes(answer.code), answer.text);
    return answer;
}

const three = [{ role: 'system', content: 'You are an agent.' },
    { role: 'user', content: 'Investigate' }, { role: 'assistant', content: 'I will.' }];

test('Loom\'s sequence works: create, get, get by bead, list, reset, delete', async (t) => {
    const s = await serve(t);
    const made = await make(s, 'bead-123', { session_id: 'test-session-123', messages: three,
        metadata: { agent_id: 'a1', agent_name: 'Ann', provider_id: 'p1' } });
    assert.equal(made.code, 201);
    const got = await s.get('/api/v1/conversations/test-session-123');
    assert.equal(got.code, 200);
    assert.deepEqual(Object.keys(got.json), context);
    assert.deepEqual([got.json.session_id, got.json.bead_id, got.json.project_id],
        ['test-session-123', 'bead-123', 'proj-1']);
    assert.deepEqual(got.json.metadata, { agent_id: 'a1', agent_name: 'Ann', provider_id: 'p1' });
    assert.deepEqual(got.json.entity_metadata, { schema_version: '1.0' });
    assert.deepEqual(got.json.messages.map((m) => [m.role, m.content]),
        three.map((m) => [m.role, m.content]));
    for (const message of got.json.messages) {
        assert.ok(Date.parse(message.timestamp) > 0);
        assert.ok(message.token_count > 0);
    }
    assert.equal(got.json.token_count,
        got.json.messages.reduce((sum, m) => sum + m.token_count, 0));
    // 24 hours from the start.
    assert.equal(Date.parse(got.json.expires_at) - Date.parse(got.json.created_at), 24 * 3600000);
    assert.deepEqual((await s.get('/api/v1/beads/bead-123/conversation')).json, got.json);
    const list = await s.get('/api/v1/conversations?project_id=proj-1');
    assert.deepEqual(list.json, { project_id: 'proj-1', limit: 50, conversations: [got.json] });
    const reset = await s.post('/api/v1/conversations/test-session-123/reset',
        { keep_system_message: true });
    assert.deepEqual([reset.code, reset.json], [200, { success: true,
        message: 'Conversation reset successfully',
        session_id: 'test-session-123', keep_system_message: true }]);
    assert.deepEqual(await said(s, 'test-session-123'), [['system', 'You are an agent.']]);
    const gone = await s.ask('DELETE', '/api/v1/conversations/test-session-123');
    assert.deepEqual([gone.code, gone.json],
        [200, { success: true, message: 'Conversation deleted successfully',
            session_id: 'test-session-123' }]);
    assertLoom(await s.get('/api/v1/conversations/test-session-123'), 404,
        'Conversation session not found: test-session-123');
    assertLoom(await s.get('/api/v1/beads/bead-123/conversation'), 404,
        'No conversation found for bead: bead-123');
    assert.equal((await s.get('/api/v1/conversations?project_id=proj-1')).json.conversations, null);
    // The session can also be named by its id in Palaver.
    const other = (await make(s, 'bead-124')).json.session_id;
    await s.ask('DELETE', `/api/v1/conversations/${other}`);
    assertLoom(await s.get(`/api/v1/conversations/${other}`), 404,
        `Conversation session not found: ${other}`);
});

test('errors have Loom\'s codes and texts', async (t) => {
    const s = await serve(t);
    const none = 'Conversation session not found: non-existent';
    assertLoom(await s.get('/api/v1/conversations/non-existent'), 404, none);
    assertLoom(await s.ask('DELETE', '/api/v1/conversations/non-existent'), 404, none);
    assertLoom(await s.post('/api/v1/conversations/non-existent/reset', {}), 404, none);
    assertLoom(await s.get('/api/v1/conversations/'), 400, 'Session ID is required');
    assertLoom(await s.get('/api/v1/beads/non-existent-bead/conversation'), 404,
        'No conversation found for bead: non-existent-bead');
    assertLoom(await s.get('/api/v1/beads/x'), 400, 'Invalid path');
    const list = (query) => s.get(`/api/v1/conversations${query}`);
    assertLoom(await list(''), 400, 'project_id parameter is required');
    assertLoom(await list('?project_id='), 400, 'project_id parameter is required');
    // The limit is checked first.
    for (const limit of ['invalid', '12abc', '1.5', '-', ' 1'])
        assertLoom(await list(`?limit=${encodeURIComponent(limit)}`), 400, 'Invalid limit parameter');
    for (const limit of ['0', '-5', '1001', '99999999999999999999999999'])
        assertLoom(await list(`?limit=${limit}&project_id=p`), 400,
            'Limit must be between 1 and 1000');
    assert.deepEqual((await list('?project_id=p&limit=7')).json,
        { project_id: 'p', limit: 7, conversations: null });
    for (const [method, target] of [['PUT', '/api/v1/conversations/x'],
        ['PATCH', '/api/v1/conversations/x'], ['POST', '/api/v1/conversations/x'],
        ['DELETE', '/api/v1/conversations'], ['GET', '/api/v1/conversations/x/reset'],
        ['POST', '/api/v1/beads/x/conversation']])
        assertLoom(await s.ask(method, target), 405, 'Method not allowed');
    const make = (body) => s.post('/api/v1/conversations', body);
    assertLoom(await make({ bead_id: 'b' }), 400, 'project_id is required');
    assertLoom(await make({ project_id: 'p' }), 400, 'bead_id is required');
    assert.equal((await make({ project_id: 'p', bead_id: 7 })).code, 400);
    assert.equal((await make({ project_id: 'p', bead_id: 'b', metadata: [] })).code, 400);
    assert.equal((await make({ project_id: 'p', bead_id: 'b', messages: [{}] })).code, 400);
    assert.equal((await list('?project_id=p')).json.conversations, null, 'nothing was made');
});

test('a project\'s conversations are listed, newest update first, up to the limit', async (t) => {
    const s = await serve(t);
    for (const bead of ['b1', 'b2', 'b3']) await make(s, bead);
    await s.post('/api/v1/conversations', { project_id: 'other', bead_id: 'b4' });
    const beads = async (query) => (await s.get(`/api/v1/conversations?project_id=proj-1${query}`))
        .json.conversations.map((c) => c.bead_id);
    assert.deepEqual((await beads('&limit=10')).sort(), ['b1', 'b2', 'b3']);
    assert.equal((await beads('&limit=2')).length, 2);
    const b1 = (await s.get('/api/v1/beads/b1/conversation')).json;
    await s.post(`/api/v1/sessions/${b1.session_id}/messages`, { role: 'user', content: 'news' });
    assert.equal((await beads(''))[0], 'b1');
});

test('a work item has one conversation until it is deleted or expires', async (t) => {
    const s = await serve(t, { config: 'expiry:\n  session_expiration: 1s\n' });
    const first = await make(s, 'b1', { session_id: 'mine' });
    assert.equal(first.code, 201);
    const until = Date.parse(first.json.expires_at);
    while (Date.now() <= until) await new Promise((resolve) => setTimeout(resolve, 20));
    // Its id still shows the session until it is swept, but the work item has no session any more.
    assert.equal((await s.get('/api/v1/beads/b1/conversation')).code, 404);
    // The next session lasts longer than the test.
    fs.writeFileSync(path.join(s.dir, 'palaver.yaml'), 'expiry:\n  session_expiration: 24h\n');
    s.child.kill('SIGHUP');
    await s.logged(/reloaded the API keys/);
    const second = await make(s, 'b1');
    assert.equal(second.code, 201);
    assert.notEqual(second.json.session_id, first.json.session_id);
    const third = await make(s, 'b1', { messages: three });
    assert.equal(third.code, 200);
    assert.deepEqual(third.json, second.json, 'the one that there is stays as it is');
    assert.deepEqual((await s.get('/api/v1/beads/b1/conversation')).json.session_id,
        second.json.session_id);
});

test('reset keeps the system message as requested, and ignores a bad body', async (t) => {
    const s = await serve(t);
    const kept = async (bead, body, messages = three) => {
        const id = (await make(s, bead, { messages })).json.session_id;
        const answer = await s.ask('POST', `/api/v1/conversations/${id}/reset`, { body });
        assert.equal(answer.code, 200, answer.text);
        return [answer.json.keep_system_message, (await said(s, id)).map(([role]) => role)];
    };
    assert.deepEqual(await kept('b1', undefined), [true, ['system']]);
    assert.deepEqual(await kept('b2', '{"keep_'), [true, ['system']]);
    assert.deepEqual(await kept('b3', { keep_system_message: 'no' }), [true, ['system']]);
    assert.deepEqual(await kept('b4', { keep_system_message: false }), [false, []]);
    assert.deepEqual(await kept('b5', {}, three.slice(1)), [true, []]);
    assert.equal((await s.get('/api/v1/beads/b4/conversation')).json.token_count, 0);
});

test('turns and inbound messages of a work item use its conversation', async (t) => {
    const s = await serveModel(t);
    const made = await make(s, 'b1', { session_id: 'mine', messages: three.slice(0, 1) });
    const session = (await s.get('/api/v1/sessions/loom%3Amine')).json;
    assert.equal((await s.turn(session.session_id, { message: 'Continue' })).json.text,
        'echo: Continue');
    const inbound = await s.post('/api/v1/inbound',
        { project_id: 'proj-1', bead_id: 'b1', message: 'Continue investigation' });
    assert.deepEqual([inbound.json.created, inbound.json.session_id], [false, session.session_id]);
    assert.deepEqual((await said(s, 'mine')).map(([role]) => role),
        ['system', 'user', 'assistant', 'user', 'assistant'], 'the client\'s own id still leads there');
    assert.equal(made.json.session_id, 'mine');
    const other = await s.post('/api/v1/inbound',
        { project_id: 'proj-1', bead_id: 'b2', message: 'hello' });
    const shown = (await s.get('/api/v1/beads/b2/conversation')).json;
    assert.deepEqual([other.json.created, shown.session_id, shown.bead_id],
        [true, other.json.session_id, 'b2']);
    assert.ok(shown.expires_at);
});

test('imported rows are found by their original ids', async (t) => {
    const dir = workspace(t);
    fs.writeFileSync(path.join(dir, 'rows.jsonl'), `${JSON.stringify({ session_id: 'old-1',
        bead_id: 'bead-9', project_id: 'proj-9', messages: [{ role: 'user', content: 'hi',
            timestamp: '2026-01-02T03:04:05Z', token_count: 3 }],
        metadata: { agent_id: 'a9' }, created_at: '2026-01-02T03:04:05Z' })}\n`);
    palaver(dir, 'session', 'import', '--format', 'loom', 'rows.jsonl');
    const s = await serve(t, { dir });
    const { json } = await s.get('/api/v1/conversations/old-1');
    assert.deepEqual([json.session_id, json.bead_id, json.project_id, json.metadata, json.expires_at],
        ['old-1', 'bead-9', 'proj-9', { agent_id: 'a9' }, null]);
    assert.deepEqual(json.messages.map((m) => [m.content, m.timestamp, m.token_count]),
        [['hi', '2026-01-02T03:04:05.000Z', 3]]);
    assert.deepEqual((await s.get('/api/v1/beads/bead-9/conversation')).json, json);
    assert.equal((await s.get('/api/v1/conversations?project_id=proj-9')).json.conversations.length, 1);
});

test('tenants do not see the conversations of other tenants', async (t) => {
    const dir = workspace(t);
    const [a, b] = ['a', 'b'].map((tenant) => makeKey(dir, '--tenant', tenant).key);
    const s = await serve(t, { dir });
    const made = await s.post('/api/v1/conversations',
        { project_id: 'p', bead_id: 'b1', session_id: 'mine' }, { key: a });
    assert.equal(made.code, 201);
    for (const target of ['conversations/mine', 'beads/b1/conversation'])
        assert.equal((await s.get(`/api/v1/${target}`, { key: b })).code, 404);
    assert.equal((await s.ask('DELETE', '/api/v1/conversations/mine', { key: b })).code, 404);
    assert.equal((await s.post('/api/v1/conversations/mine/reset', {}, { key: b })).code, 404);
    assert.equal((await s.get('/api/v1/conversations?project_id=p', { key: b })).json.conversations,
        null);
    assert.equal((await s.get('/api/v1/conversations/mine')).code, 401);
});

test('an id that the client chose finds the session in every route', async (t) => {
    const s = await serveModel(t);
    await make(s, 'b1', { session_id: 'test-session-123', messages: three.slice(0, 1) });
    const at = '/api/v1/sessions/test-session-123';
    assert.equal((await s.get(at)).code, 200);
    const turn = await s.turn('test-session-123', { message: 'Continue' });
    assert.deepEqual([turn.code, turn.json.text], [200, 'echo: Continue']);
    assert.equal((await s.post(`${at}/messages`, { role: 'user', content: 'more' })).code, 201);
    assert.equal((await s.get(`${at}/messages`)).json.messages.length, 4);
    assert.equal((await s.get(`${at}/usage`)).json.calls, 1);
    const chat = await s.post('/api/v1/chat',
        { session_id: 'test-session-123', message: 'and on' });
    assert.equal(chat.json.created, false);
    assert.equal((await s.ask('PATCH', at, { body: { title: 'mine' } })).code, 200);
    assert.equal((await s.ask('DELETE', at)).code, 200);
    assert.equal((await s.get('/api/v1/conversations/test-session-123')).code, 404);
    assert.equal((await s.post(`${at}/restore`)).code, 200);
    assert.equal((await s.get(`${at}/messages`)).json.messages.length, 6);
    await make(s, 'b2', { session_id: 'loom:x' });
    assert.equal((await s.get('/api/v1/conversations/loom:x')).json.session_id, 'loom:x');
});

test('an id that the client chose cannot belong to two sessions', async (t) => {
    const dir = workspace(t);
    const one = makeKey(dir, '--tenant', 'one').key;
    const two = makeKey(dir, '--tenant', 'two').key;
    const s = await serve(t, { dir });
    const make = (key, bead, id) => s.post('/api/v1/conversations',
        { project_id: 'p', bead_id: bead, session_id: id }, { key });
    assert.equal((await make(one, 'b1', 'mine')).code, 201);
    assert.equal((await make(one, 'b1', 'mine')).code, 200);
    const taken = await make(one, 'b2', 'mine');
    assert.deepEqual([taken.code, taken.json.error],
        [409, "session_id 'mine' belongs to another session"]);
    assert.equal((await s.get('/api/v1/beads/b2/conversation', { key: one })).code, 404);
    const plain = await s.post('/api/v1/sessions', { key: 'plain' }, { key: one });
    assert.equal((await make(one, 'b3', 'plain')).code, 409);
    assert.equal((await make(one, 'b3', plain.json.session_id)).code, 409);
    // Another tenant has separate names.
    assert.equal((await make(two, 'b9', 'mine')).code, 201);
    assert.equal((await make(two, 'b8', plain.json.session_id)).code, 201);
    assert.equal((await s.get('/api/v1/conversations/mine', { key: one })).json.bead_id, 'b1');
    assert.equal((await s.get('/api/v1/sessions/mine', { key: two })).json.scope.values.bead_id, 'b9');
    // If several requests create the same id at the same time, one of them gets it.
    const all = await Promise.all([...Array(8).keys()].map((i) => make(one, `r${i}`, 'race')));
    assert.deepEqual(all.map((a) => a.code).sort(), [201, ...Array(7).fill(409)]);
    const winner = (await s.get('/api/v1/conversations/race', { key: one })).json.bead_id;
    assert.equal(winner, `r${all.findIndex((a) => a.code === 201)}`);
});

test('a work item has one conversation, whichever agent answers', async (t) => {
    const s = await serveModel(t, { config: `
agents:
  - {id: alpha, system: You are Alpha.}
  - {id: beta, system: You are Beta., default: true}
` });
    const first = await make(s, 'b1', { agent_id: 'alpha' });
    for (const more of [{ agent_id: 'beta' }, {}, { agent_id: 'alpha' }]) {
        const again = await make(s, 'b1', more);
        assert.deepEqual([again.code, again.json.session_id], [200, first.json.session_id]);
    }
    const say = async (more) => {
        const answer = await s.post('/api/v1/inbound',
            { project_id: 'proj-1', bead_id: 'b1', message: 'go', ...more });
        assert.equal(answer.json.session_id, first.json.session_id, answer.text);
        const { messages } = (await s.asked()).at(-1);
        return [messages[0].content, messages.length];
    };
    assert.deepEqual(await say({}), ['You are Alpha.', 2], 'the one that was asked for last');
    assert.equal((await say({ agent_id: 'beta' }))[1] > 2, true, 'with all that was said');
    const session = (await s.get(`/api/v1/sessions/${first.json.session_id}`)).json;
    assert.equal(session.agent, 'beta');
    const all = (await s.get('/api/v1/conversations?project_id=proj-1')).json.conversations;
    assert.equal(all.length, 1);
    // Also at the same time.
    const made = await Promise.all(['alpha', 'beta', 'gamma', undefined].map((agent_id) =>
        make(s, 'b2', { agent_id })));
    assert.equal(new Set(made.map((a) => a.json.session_id)).size, 1);
});

test('if two projects use one bead id, the newest update is shown', async (t) => {
    const s = await serveModel(t);
    const in_ = async (project) =>
        (await make(s, '7', { project_id: project })).json.session_id;
    const a = await in_('pA'), b = await in_('pB');
    const shown = async () => (await s.get('/api/v1/beads/7/conversation')).json;
    assert.equal((await shown()).project_id, 'pB');
    await s.turn(a, { message: 'news' });
    assert.deepEqual([(await shown()).project_id, (await shown()).session_id], ['pA', a]);
    await s.turn(b, { message: 'news' });
    assert.equal((await shown()).project_id, 'pB');
    await s.ask('DELETE', `/api/v1/conversations/${b}`);
    assert.equal((await shown()).project_id, 'pA');
});

test('if a bead has several old conversations, the newest update is used', async (t) => {
    // Keys that contain the agent, as earlier versions created them.
    const s = await serveModel(t, { config: 'agents: [{id: alpha}, {id: beta}]\n' });
    const old = async (agent) => {
        const signature = `v=1|kind=work_item|agent=${agent}|project_id=p|bead_id=b`;
        return s.session({ project: 'p', agent,
            key: `sk_v1_${createHash('sha256').update(signature).digest('hex')}`,
            scope: { values: { project_id: 'p', bead_id: 'b' } } });
    };
    const alpha = await old('alpha'), beta = await old('beta');
    await s.turn(alpha, { message: 'newest' });
    const found = async (more) => (await make(s, 'b', { project_id: 'p', ...more })).json.session_id;
    assert.equal(await found({}), alpha);
    assert.equal(await found({ agent_id: 'beta' }), alpha);
    await s.turn(beta, { message: 'newest' });
    assert.equal(await found({ agent_id: 'alpha' }), beta);
});

test('the token count grows with the usage; times and counts of posted messages are kept', async (t) => {
    const s = await serveModel(t);
    const { session_id: id } = (await make(s, 'b1', { messages: three.slice(0, 1) })).json;
    const count = async () => (await s.get(`/api/v1/conversations/${id}`)).json.token_count;
    const total = ({ usage }) => usage.input_tokens + usage.cache_read_tokens +
        usage.cache_write_tokens + usage.output_tokens;
    const one = (await s.turn(id, { message: 'one' })).json;
    assert.equal(await count(), total(one));
    const two = (await s.turn(id, { message: 'two' })).json;
    assert.equal(await count(), total(one) + total(two));
    await s.post(`/api/v1/conversations/${id}/reset`, { keep_system_message: false });
    assert.equal(await count(), total(one) + total(two));
    const posted = (await make(s, 'b2', { messages: [
        { role: 'system', content: 'S', timestamp: '2026-02-04T10:00:00Z', token_count: 77 },
        { role: 'user', content: 'U', timestamp: '2026-02-04T10:00:01.250Z', token_count: 3 },
        { role: 'assistant', content: 'A' }] })).json;
    assert.deepEqual(posted.messages.slice(0, 2).map((m) => [m.timestamp, m.token_count]),
        [['2026-02-04T10:00:00.000Z', 77], ['2026-02-04T10:00:01.250Z', 3]]);
    assert.equal(posted.token_count, 80);
    const more = (await s.turn(posted.session_id, { message: 'go' })).json;
    const after = (await s.get(`/api/v1/conversations/${posted.session_id}`)).json;
    assert.equal(after.token_count, 80 + total(more));
    assertLoom(await s.post('/api/v1/conversations', { project_id: 'p', bead_id: 'b3',
        messages: [{ role: 'user', content: 'x', timestamp: 'yesterday' }] }), 400,
    'Invalid timestamp: use RFC 3339');
});
