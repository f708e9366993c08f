// Moving from other systems: their data is imported, and their clients continue where they were.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { binary, palaver, serve, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

const write = (dir, name, ...values) =>
    fs.writeFileSync(path.join(dir, name), values.map((value) => JSON.stringify(value)).join('\n') + '\n');
const importFile = (dir, ...args) => JSON.parse(palaver(dir, 'session', 'import', '--json', ...args));
const list = (dir, ...args) => JSON.parse(palaver(dir, 'session', 'list', '--json', ...args)).sessions;
const lastSent = async (s) => (await s.asked()).pop().messages;

test("Skillian's session ids match in any case", async (t) => {
    const s = await serveModel(t);
    const [low, high] = ['abcdef11-2222-4333-8444-55555555abcd', 'FEDCBA11-2222-4333-8444-55555555ABCD'];
    for (const id of [low, high])
        await s.post('/api/v1/import?format=skillian', JSON.stringify({ id, created_at: '2026-02-04T10:00:00+00:00',
            message_count: 1, conversation_data: { messages: [{ role: 'user', content: 'hi' }] } }));
    for (const id of [low, low.toUpperCase(), high, high.toLowerCase(), 'aBCdef11-2222-4333-8444-55555555abCD']) {
        const chat = await s.post('/api/v1/chat', { session_id: id, message: 'x' });
        assert.deepEqual([chat.code, chat.json.created], [200, false], id);
        assert.equal((await s.post(`/api/v1/sessions/${id}/chat`, { message: 'x' })).code, 200, id);
    }
    assert.equal((await s.get('/api/v1/sessions')).json.sessions.length, 2);
    // Any other name stays unchanged.
    await s.post('/api/v1/sessions', { key: 'notes' });
    assert.equal((await s.get('/api/v1/sessions/Notes')).code, 404);
});

test("Skillian's client continues with its session id", async (t) => {
    const dir = workspace(t);
    const id = '11111111-2222-4333-8444-555555555555';
    const empty = '99999999-2222-4333-8444-555555555555';
    const plain = (role, content) => ({ role, content, tool_call_id: null, tool_calls: null });
    write(dir, 'rows.jsonl',
        { id, created_at: '2026-02-04T10:00:00+00:00', last_accessed: '2026-02-05T10:00:00+00:00', message_count: 1,
            conversation_data: { messages: [plain('system', 'You are Skillian.'), plain('user', 'budget?'),
                { ...plain('assistant', ''), tool_calls: [{ id: 'call_xyz', name: 'get_budget', args: { c: 1 } }] },
                { ...plain('tool', '{"budget":5}'), tool_call_id: 'call_xyz' }, plain('assistant', 'It is 5.')] } },
        { id: empty, created_at: '2026-02-04T11:00:00+00:00', message_count: 0, conversation_data: {} });
    const report = importFile(dir, 'rows.jsonl');
    assert.deepEqual([report.sessions, report.messages, report.problems_total], [2, 5, 0]);
    // The export gives the same row, as Skillian would have written it.
    const row = JSON.parse(palaver(dir, 'session', 'export', '--format', 'skillian', id));
    const given = JSON.parse(fs.readFileSync(path.join(dir, 'rows.jsonl'), 'utf8').split('\n')[0]);
    assert.deepEqual([row.id, row.conversation_data, row.message_count], [id, given.conversation_data, 1]);
    assert.deepEqual([Date.parse(row.created_at), Date.parse(row.last_accessed)],
        [Date.parse(given.created_at), Date.parse(given.last_accessed)]);
    const s = await serveModel(t, { dir });
    const chat = await s.post('/api/v1/chat', { session_id: id, message: 'and now?' });
    assert.deepEqual([chat.code, chat.json.created], [200, false]);
    assert.deepEqual((await lastSent(s)).map((m) => m.role),
        ['system', 'user', 'assistant', 'tool', 'assistant', 'user']);
    assert.equal((await s.post(`/api/v1/sessions/${id}/chat`, { message: 'x' })).code, 200);
    assert.equal((await s.post('/api/v1/chat', { session_id: empty, message: 'x' })).json.created, false);
    assert.equal((await s.post('/api/v1/chat', { session_id: id.replace('1', '7'), message: 'x' })).json.created, true);
});

const loom = (id, bead, more) => ({
    session_id: id, bead_id: bead, project_id: 'proj', created_at: '2026-02-04T10:00:00Z',
    updated_at: '2026-02-04T12:00:00Z', expires_at: '2999-01-01T00:00:00Z', token_count: 7, metadata: { agent_name: 'ada' },
    messages: [{ role: 'system', content: 'Persona.', timestamp: '2026-02-04T10:00:00Z' },
        { role: 'user', content: `look at ${bead}`, timestamp: '2026-02-04T10:00:01Z' },
        { role: 'assistant', content: 'looking', timestamp: '2026-02-04T10:00:02Z' }], ...more,
});

test('an imported conversation of Loom belongs to its bead', async (t) => {
    const dir = workspace(t);
    write(dir, 'rows.jsonl', loom('uuid-0', 'bead-0'), loom('uuid-2', 'bead-0', { project_id: 'other' }),
        loom('uuid-1', 'bead-1', { expires_at: '2026-02-05T10:00:00Z' }));
    assert.deepEqual([importFile(dir, 'rows.jsonl').sessions, importFile(dir, 'rows.jsonl').messages], [3, 0]);
    const s = await serveModel(t, { dir });
    const made = await s.post('/api/v1/conversations', { project_id: 'proj', bead_id: 'bead-0' });
    assert.deepEqual([made.code, made.json.session_id, made.json.messages.length], [200, 'uuid-0', 3]);
    const said = await s.post('/api/v1/inbound', { project_id: 'proj', bead_id: 'bead-0', message: 'Continue' });
    assert.deepEqual([said.code, said.json.created], [200, false]);
    assert.deepEqual((await lastSent(s)).map((m) => m.content), ['Persona.', 'look at bead-0', 'looking', 'Continue']);
    assert.equal((await s.get('/api/v1/beads/bead-0/conversation')).json.session_id, 'uuid-0');
    assert.equal((await s.get('/api/v1/conversations/uuid-0')).json.messages.length, 5);
    assert.equal((await s.post('/api/v1/sessions/uuid-0/turns', { message: 'more' })).code, 200);
    // An expired session is removed like all expired sessions.
    const sessions = (await s.get('/api/v1/sessions')).json.sessions;
    assert.ok(!sessions.some((one) => one.key === 'loom:uuid-1'));
    const anew = await s.post('/api/v1/conversations', { project_id: 'proj', bead_id: 'bead-1' });
    assert.deepEqual([anew.code, anew.json.messages], [201, []]);
});

test('a row of Loom without times does not replace the conversation of a bead', async (t) => {
    const s = await serveModel(t);
    const at = (body) => s.post('/api/v1/conversations', { project_id: 'proj', ...body });
    const { session_id: live } = (await at({ bead_id: 'b1' })).json;
    const none = { created_at: undefined, updated_at: undefined, messages: [{ role: 'user', content: 'old' }] };
    const bring = (...rows) => s.post('/api/v1/import', rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
        { headers: { 'content-type': 'application/x-ndjson' } });
    for (const sessions of [2, 0])
        assert.equal((await bring(loom('u1', 'b1', none), loom('u2', 'b2', none))).json.sessions, sessions);
    assert.equal((await at({ bead_id: 'b1' })).json.session_id, live);
    assert.equal((await s.get('/api/v1/beads/b1/conversation')).json.session_id, live);
    await s.post('/api/v1/inbound', { project_id: 'proj', bead_id: 'b1', message: 'hi' });
    assert.equal((await s.get('/api/v1/conversations/u1')).json.messages.length, 1);
    // By default it belongs to the bead (Loom's work item), and so does its continuation.
    assert.equal((await at({ bead_id: 'b2' })).json.session_id, 'u2');
    await s.turn('u1', { message: 'on' });
    assert.equal((await at({ bead_id: 'b1' })).json.session_id, 'u1');
});

test("the token count continues from the count of Loom's row", async (t) => {
    const s = await serveModel(t);
    const taken = await s.post('/api/v1/import', JSON.stringify(loom('u1', 'b1', { token_count: 12345 })));
    assert.equal(taken.code, 200, taken.text);
    const count = async () => (await s.get('/api/v1/conversations/u1')).json.token_count;
    assert.equal(await count(), 12345);
    const { usage } = (await s.turn('u1', { message: 'go on' })).json;
    assert.equal(await count(), 12345 + usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens + usage.output_tokens);
    await s.post('/api/v1/conversations/u1/reset', {});
    assert.ok(await count() > 12345);
});

test('a row of Loom that has grown raises the token count', async (t) => {
    const s = await serveModel(t);
    const taken = (tokens, more) => s.post('/api/v1/import', JSON.stringify(loom('u1', 'b1', { token_count: tokens, ...more })));
    const grown = [...loom('u1', 'b1').messages, { role: 'user', content: 'and?', timestamp: '2026-02-05T10:00:00Z' }];
    const read = async () => (await s.get('/api/v1/conversations/u1')).json;
    await taken(100);
    await taken(900, { messages: grown });
    let one = await read();
    assert.deepEqual([one.token_count, one.messages.length, one.metadata.agent_name], [900, 4, 'ada']);
    await taken(300, { messages: grown });
    await s.turn('u1', { message: 'on' });
    one = await read();
    assert.ok(one.token_count > 900);
    // Another conversation with the same id changes nothing.
    await taken(5000, { messages: [{ role: 'user', content: 'something else' }] });
    assert.equal((await read()).token_count, one.token_count);
});

test('rows of two Looms that have the same session id belong to their own beads', async (t) => {
    const s = await serveModel(t);
    for (const [project, text] of [['pA', 'here'], ['pB', 'there'], ['pB', 'there']]) {
        const row = loom('u1', 'b1', { project_id: project, messages: [{ role: 'user', content: text }] });
        assert.equal((await s.post('/api/v1/import', JSON.stringify(row))).code, 200);
    }
    for (const [project, text] of [['pA', 'here'], ['pB', 'there']]) {
        const found = await s.post('/api/v1/conversations', { project_id: project, bead_id: 'b1' });
        assert.deepEqual([found.code, found.json.messages.map((m) => m.content)], [200, [text]]);
    }
    assert.equal((await s.get('/api/v1/conversations/u1')).json.project_id, 'pA');
});

test('metadata of Loom that is too long is reported, and the rest is imported', async (t) => {
    const s = await serveModel(t);
    const row = loom('u1', 'b1', { token_count: 100, metadata: { notes: 'x'.repeat(300000) } });
    const taken = await s.post('/api/v1/import', JSON.stringify(row));
    assert.equal(taken.code, 200, taken.text);
    assert.match(taken.text, /the metadata of 'u1' exceeds 256 KiB and is left out/);
    const one = (await s.get('/api/v1/conversations/u1')).json;
    assert.deepEqual([one.token_count, one.bead_id, one.messages.length, one.metadata], [100, 'b1', 3, {}]);
});

// A service that keeps conversations, as Mistral's does.
async function mistral(t, known, refusals = 0) {
    const asked = [];
    const server = http.createServer((request, response) => {
        let text = '';
        request.on('data', (piece) => { text += piece; });
        request.on('end', () => {
            if (!text) return response.end('{"object":"list","data":[{"id":"mistral-medium-latest"}]}');
            const body = JSON.parse(text);
            const id = request.url.split('/')[3] ?? `conv_new${asked.length}`;
            asked.push({ url: request.url, body });
            if (asked.length <= refusals) {
                response.writeHead(401, { 'content-type': 'application/json' });
                return response.end('{"message":"Unauthorized"}');
            }
            if (request.url.split('/')[3] && !known.has(id)) {
                response.writeHead(404, { 'content-type': 'application/json' });
                return response.end('{"detail":"Conversation not found"}');
            }
            known.add(id);
            const usage = { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 };
            const events = [{ type: 'conversation.response.started', conversation_id: id },
                { type: 'message.output.delta', id: 'm', content: 'fine' },
                { type: 'conversation.response.done', usage }];
            if (!body.stream) {
                response.writeHead(200, { 'content-type': 'application/json' });
                return response.end(JSON.stringify({ object: 'conversation.response', conversation_id: id, usage,
                    outputs: [{ type: 'message.output', id: 'm', role: 'assistant', content: 'fine' }] }));
            }
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
            return response.end();
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const url = `http://127.0.0.1:${server.address().port}/v1`;
    return { asked, config: `providers:\n  - {name: m, kind: mistral_conversations, url: "${url}", api_key_env: MISTRAL_TEST_KEY,`
        + ' model: mistral-medium-latest}\n' };
}

const makeSol = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute('''CREATE TABLE conversations (room_id TEXT PRIMARY KEY, conversation_id TEXT NOT NULL,
    estimated_tokens INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL DEFAULT (datetime('now')))''')
for row in json.load(sys.stdin):
    db.execute('INSERT INTO conversations VALUES (?,?,?,?)', row)
db.commit()
`;

const solRows = [['!Lunch:sunbeam.pt', 'conv_lunch', 4000, '2026-03-01 12:00:00'],
    ['!dm:sunbeam.pt', 'conv_dm', 10, '2026-03-02 12:00:00'],
    ['!full:sunbeam.pt', 'conv_full', 118000, '2026-03-02 13:00:00'],
    ['!gone:sunbeam.pt', 'conv_gone', 10, '2026-03-02 14:00:00']];

async function goOnAsSol(t, dir) {
    const service = await mistral(t, new Set(['conv_lunch', 'conv_dm', 'conv_full']));
    const s = await serve(t, { dir, config: service.config, args: ['--provider', 'm'], env: { MISTRAL_TEST_KEY: 'k' } });
    const say = (room, sender, message, more = {}) => s.post('/api/v1/inbound',
        { matrix_room: room, context: { sender_id: sender, ...more }, message });
    const first = await say('!Lunch:sunbeam.pt', '@sienna:sunbeam.pt', "what's for lunch?");
    assert.deepEqual([first.code, first.json.created, first.json.text], [200, false, 'fine'], first.text);
    assert.equal(service.asked[0].url.replace(/[?#].*/, ''), '/v1/conversations/conv_lunch');
    assert.match(JSON.stringify(service.asked[0].body.inputs), /<@sienna:sunbeam\.pt> what's for lunch\?/);
    await say('!Lunch:sunbeam.pt', '@lonni:sunbeam.pt', 'soup?');
    assert.deepEqual([service.asked[1].url, service.asked[1].body.inputs.length], ['/v1/conversations/conv_lunch', 1]);
    await say('!dm:sunbeam.pt', '@sienna:sunbeam.pt', 'hello there', { chat_type: 'direct' });
    assert.equal(service.asked[2].url, '/v1/conversations/conv_dm');
    // A new conversation begins at the threshold, and if the service has lost the old one.
    await say('!full:sunbeam.pt', '@a:s', 'hi');
    assert.equal(service.asked[3].url, '/v1/conversations');
    const gone = await say('!gone:sunbeam.pt', '@a:s', 'hi');
    assert.equal(gone.code, 200, gone.text);
    assert.deepEqual(service.asked.slice(4).map((one) => one.url), ['/v1/conversations/conv_gone', '/v1/conversations']);
    // A room whose name only looks alike has a separate conversation.
    const other = await say('!lunch:sunbeam.pt', '@eve:s', 'hi');
    assert.equal(other.json.created, true);
    assert.equal(service.asked[6].url, '/v1/conversations');
}

test("Sol's rooms continue their conversations after an import of its SQLite file", async (t) => {
    const dir = workspace(t);
    const made = spawnSync('python3', ['-c', makeSol, path.join(dir, 'sol.db')], { input: JSON.stringify(solRows) });
    if (made.error || /No module named/.test(made.stderr)) return t.skip('needs Python with sqlite3');
    assert.equal(made.status, 0, made.stderr.toString());
    assert.deepEqual([importFile(dir, 'sol.db').sessions, importFile(dir, 'sol.db').sessions_known], [4, 4]);
    await goOnAsSol(t, dir);
});

test("Sol's rooms continue their conversations after an import of JSON rows", async (t) => {
    const dir = workspace(t);
    write(dir, 'rows.jsonl', ...solRows.map(([room_id, conversation_id, estimated_tokens, created_at]) =>
        ({ room_id, conversation_id, estimated_tokens, created_at })));
    assert.equal(importFile(dir, 'rows.jsonl').sessions, 4);
    await goOnAsSol(t, dir);
});

test('a failed first turn does not lose an imported conversation', async (t) => {
    const dir = workspace(t);
    write(dir, 'rows.json', { room_id: '!r:s', conversation_id: 'conv_1', estimated_tokens: 1, created_at: 1740000000 });
    importFile(dir, 'rows.json');
    const service = await mistral(t, new Set(['conv_1']), 1);
    const s = await serve(t, { dir, config: service.config, args: ['--provider', 'm'], env: { MISTRAL_TEST_KEY: 'k' } });
    assert.equal((await s.post('/api/v1/inbound', { matrix_room: '!r:s', message: 'one' })).code, 502);
    assert.equal((await s.post('/api/v1/inbound', { matrix_room: '!r:s', message: 'two' })).code, 200);
    assert.deepEqual(service.asked.map((one) => [one.url, one.body.inputs.length]),
        [['/v1/conversations/conv_1', 1], ['/v1/conversations/conv_1', 2]]);
});

const goMessages = [
    { id: 'msg_1', role: 'user', content: 'read it', tokens: { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } } },
    { id: 'msg_2', role: 'assistant', parentId: 'msg_1', tokens: { input: 9, output: 3, reasoning: 1, cache: { read: 2, write: 0 } },
        parts: [{ id: 'p1', type: 'reasoning', text: 'hm' }, { id: 'p2', type: 'text', text: 'looking' },
            { id: 'p3', type: 'tool', tool: { callId: 'c1', name: 'read', input: '{"f":"a"}', status: 'pending' } }] },
    { id: 'msg_3', role: 'tool', parts: [
        { id: 'p4', type: 'tool', tool: { callId: 'c1', name: 'read', output: 'AAA', status: 'completed' } }] },
    { id: 'msg_4', role: 'assistant', parts: [
        { id: 'p5', type: 'tool', tool: { callId: 'c2', name: 'run', input: '{}', output: 'boom', status: 'error' } }] },
    { id: 'msg_5', role: 'user', parts: [{ id: 'p6', type: 'text', text: 'see' },
        { id: 'p7', type: 'image', image: { image: 'https://x.org/a.png', source: 'key1' } },
        { id: 'p8', type: 'file', file: { data: 'aGVsbG8=', mimeType: 'text/plain', filename: 'a.txt' } }] },
    { id: 'msg_6', role: 'assistant', content: 'All done.', summary: true },
];

const shapes = { array: goMessages, object: { messages: goMessages },
    session: { ID: 'ses_1', AgentName: 'coder', ModelID: 'gpt', Messages: goMessages } };

test('messages of the Go package keep all their data', async (t) => {
    for (const [name, value] of Object.entries(shapes)) {
        const dir = workspace(t);
        fs.writeFileSync(path.join(dir, 'go.json'), JSON.stringify(value));
        const report = importFile(dir, 'go.json');
        assert.deepEqual([report.sessions, report.messages, report.problems_total], [1, 7, 0], name);
        assert.equal(importFile(dir, 'go.json').messages, 0);
        const key = list(dir)[0].key;
        const shown = JSON.parse(palaver(dir, 'session', 'show', key, '--json'));
        if (name === 'session') assert.deepEqual([key, shown.session.agent], ['go-session:ses_1', 'coder']);
        const kinds = shown.messages.map((m) => [m.role, m.client_id,
            m.parts ? m.parts.map((p) => p.type) : [m.content]]);
        assert.deepEqual(kinds, [
            ['user', 'msg_1', ['read it']],
            ['assistant', 'msg_2', ['reasoning', 'text', 'tool_call']],
            ['tool', 'msg_3', ['tool_result']],
            ['assistant', 'msg_4', ['tool_call']],
            ['tool', 'msg_4#results', ['tool_result']],
            ['user', 'msg_5', ['text', 'image', 'file']],
            ['assistant', 'msg_6', ['All done.']]]);
        assert.deepEqual([shown.messages[1].parts[2].call_id, shown.messages[1].parts[2].arguments], ['c1', '{"f":"a"}']);
        assert.equal(shown.messages[2].parts[0].output, 'AAA');
        assert.deepEqual([shown.messages[4].parts[0].output, shown.messages[4].parts[0].error], ['boom', true]);
        const s = await serveModel(t, { dir });
        await s.turn(encodeURIComponent(key), { message: 'go on' });
        const sent = await lastSent(s);
        assert.deepEqual(sent.map((m) => m.role),
            ['user', 'assistant', 'tool', 'assistant', 'tool', 'user', 'assistant', 'user']);
        assert.equal(sent[1].tool_calls[0].function.name, 'read');
        await s.stop();
    }
});

test('lines of the Go package are recognized, whatever the first one looks like', (t) => {
    const plain = { id: 'msg_0', role: 'user', content: 'first' };
    const answer = { id: 'msg_9', role: 'assistant', parts: [{ id: 'p1', type: 'compaction' }, { id: 'p2', type: 'text', text: 'so far' }] };
    const texts = { id: 'msg_1', role: 'user', parts: [{ id: 'p0', type: 'text', text: 'second' }] };
    for (const lines of [[plain, answer, ...goMessages.slice(1)], [texts, plain, answer], [answer, texts, plain]]) {
        const dir = workspace(t);
        write(dir, 'go.jsonl', ...lines);
        assert.equal(importFile(dir, '--key', 'k', 'go.jsonl').problems_total, 0);
        assert.equal(importFile(dir, '--key', 'k', 'go.jsonl').messages, 0);
        const all = palaver(dir, 'session', 'export', '--format', 'openai', 'k');
        assert.match(all, /first/);
        assert.match(all, /so far/);
        assert.match(all, lines.length > 3 ? /AAA.*boom/ : /second/);
    }
});

test('members that the Go package does not know are kept', (t) => {
    const dir = workspace(t);
    const parts = [{ type: 'tool', tool: { callId: 'c2', name: 'run', input: '{}', status: 'error', error: 'KAPUT' } },
        { type: 'tool', tool: { callId: 'c3', name: 'run', input: '{}', output: 'half', status: 'error', error: 'LATE', title: 'T1' }, time: 'T2' },
        { type: 'image', image: { url: 'https://x/y.png', mimeType: 'image/png', alt: 'T3' } },
        { type: 'image', image: { image: 'https://x/z.png', url: 'https://x/T4.png' }, text: 'T5' },
        { type: 'file', file: { url: 'https://x/f.pdf', mimeType: 'application/pdf', filename: 'f.pdf', pages: 'T6' } },
        { type: 'text', text: 'look', synthetic: 'T7' }];
    write(dir, 'go.json', { id: 'm1', role: 'assistant', parts, finish: 'T8' }, { id: 'm2', role: 'tool', parts: [
        { type: 'tool', tool: { callId: 'c4', name: 'run', input: 'T9', error: { code: 'BAD' }, status: 'error' } }] });
    const report = importFile(dir, '--format', 'go-session', '--key', 'k', 'go.json');
    assert.deepEqual([report.messages, report.problems_total], [3, 0]);
    const { messages } = JSON.parse(palaver(dir, 'session', 'show', '--json', 'k'));
    const all = palaver(dir, 'session', 'export', 'k');
    for (const text of ['LATE', 'x/T4.png', ...[1, 2, 3, 5, 6, 7, 8, 9].map((n) => `"T${n}"`)]) assert.ok(all.includes(text), text);
    assert.deepEqual(messages[0].parts.map((p) => [p.type, p.url]), [['tool_call', undefined], ['tool_call', undefined],
        ['image', 'https://x/y.png'], ['image', 'https://x/z.png'], ['file', 'https://x/f.pdf'], ['text', undefined]]);
    assert.deepEqual(messages.slice(1).flatMap((m) => m.parts.map((p) => [p.call_id, p.output, p.error])),
        [['c2', 'KAPUT', true], ['c3', 'half', true], ['c4', '{"code":"BAD"}', true]]);
    // Ids of parts are kept. A part whose content is not in the text is shown.
    write(dir, 'ids.json', { id: 'm1', role: 'assistant', parts: [{ id: 'I1', type: 'text', text: 'x' },
        { id: 'I2', type: 'tool', tool: { callId: 'c5', name: 'run', input: '{}' } }, { id: 'I3', type: 'reasoning', thought: 'deep' },
        { id: 'I4', type: 'text', text: '', compacted: true }] });
    assert.equal(importFile(dir, '--format', 'go-session', '--key', 'i', 'ids.json').problems_total, 1);
    const ids = palaver(dir, 'session', 'export', 'i');
    for (const n of [1, 2, 3, 4]) assert.ok(ids.includes(`"I${n}"`), ids);
    const shown = JSON.parse(palaver(dir, 'session', 'show', '--json', 'i')).messages[0].parts;
    assert.match(shown[2].text, /deep/);
    assert.equal(shown[3].text, '');
    // A message without anything to show is reported.
    write(dir, 'empty.json', { id: 'm1', role: 'user', parts: [{ type: 'image', image: { asset: 'T10' } }] });
    const told = importFile(dir, '--format', 'go-session', '--key', 'e', 'empty.json');
    assert.equal(told.problems_total, 1);
    assert.match(palaver(dir, 'session', 'show', '--json', 'e'), /\[part of unknown type: .*T10/);
});

test('an import reports and shows the lines that it does not understand', (t) => {
    const dir = workspace(t);
    write(dir, 'odd.json', { messages: [{ id: 'a', role: 'assistant', parts: [{ type: 'tool', tool: { callId: 'c', name: 'n', status: 'pending' } },
        { type: 'hologram', text: 'spin' }] }, { id: 'b', role: 'robot', content: 'x' }] });
    const report = importFile(dir, 'odd.json');
    assert.deepEqual([report.messages, report.problems_total], [1, 2]);
    assert.match(report.problems[0].text, /'parts': a part of unknown type 'hologram' is kept as text/);
    assert.match(report.problems[1].text, /unknown 'role' 'robot'/);
    assert.match(palaver(dir, 'session', 'show', '--json', list(dir)[0].key), /\[part of unknown type: .*hologram/);
    write(dir, 'half.json', { messages: [{ role: 'assistant', parts: [{ type: 'text', text: 'looking' }, { type: 'tool', tool: {} },
        { type: 'image' }, { type: 'compaction' }] }, { role: 'tool', parts: [{ type: 'text', text: 'orphan' }] }] });
    const half = importFile(dir, '--format', 'go-session', '--key', 'half', 'half.json');
    assert.deepEqual([half.messages, half.problems_total], [2, 2]);
    const parts = JSON.parse(palaver(dir, 'session', 'show', '--json', 'half')).messages.map((m) => m.parts);
    assert.deepEqual(parts[0].map((p) => p.type), ['text', 'text', 'text', 'compaction']);
    assert.match(JSON.stringify(parts[1]), /orphan/);
    write(dir, 'empty.json', { messages: [{ role: 'user', content: 'x' }, { role: 'assistant', blocks: [{ text: 'lost?' }] }] });
    const told = importFile(dir, 'empty.json');
    assert.deepEqual([told.messages, told.problems_total], [1, 1]);
    assert.match(told.problems[0].text, /no 'content', and 'blocks' is unknown/);
});

test('rows with unusual messages lose nothing silently', (t) => {
    const dir = workspace(t);
    const rows = { loom: (id, messages) => ({ session_id: id, bead_id: 'b', project_id: 'p', messages }),
        skillian: (id, messages) => ({ id, created_at: '2026-02-04T10:00:00Z', conversation_data: { messages } }) };
    const shown = [[{ content: ['word'] }, /word/], [{ content: { deep: 'word' } }, /word/], [{ text: 'word' }, /word/],
        [{ content: [{ type: 'text', text: 'word' }, { type: 'image_url', image_url: 'https://x/y' }] }, /word.*x\/y/]];
    const stored = [{ content: '', parts: [{ text: 'word' }] }, { content: '', images: ['word'] }];
    for (const [format, row] of Object.entries(rows)) {
        const bring = (id, message) => {
            write(dir, 'row.jsonl', row(id, [{ role: 'user', content: 'first', name: 'ann' }, { role: 'assistant', ...message }]));
            const report = importFile(dir, 'row.jsonl');
            assert.deepEqual([report.messages, report.problems_total], [2, 1], JSON.stringify([message, report]));
            return palaver(dir, 'session', 'export', `${format}:${id}`);
        };
        shown.forEach(([message, text], i) => {
            bring(`s${i}`, message);
            assert.match(palaver(dir, 'session', 'export', '--format', 'openai', `${format}:s${i}`), text);
        });
        stored.forEach((message, i) => assert.match(bring(`e${i}`, message), /word/));
        assert.match(bring('calls', { content: 'x', tool_calls: 'odd' }), /"ann"/);
    }
});

test('a file without anything in the format is an error', (t) => {
    const dir = workspace(t);
    const fails = (...args) => {
        const result = spawnSync(binary, ['session', 'import', ...args], { cwd: dir });
        assert.notEqual(result.status, 0, result.stdout.toString());
        assert.doesNotMatch(result.stdout.toString(), /Imported 0/);
        return result.stderr.toString();
    };
    write(dir, 'rows.jsonl', loom('u', 'b'));
    fs.writeFileSync(path.join(dir, 'notes.txt'), 'just a text\nand more\n');
    fs.writeFileSync(path.join(dir, 'none.jsonl'), '');
    fs.writeFileSync(path.join(dir, 'list.json'), '[]');
    assert.match(fails('--format', 'openai', 'notes.txt'), /no conversation in format 'openai': line 1/);
    for (const format of ['native', 'claude-code', 'codex', 'skillian', 'loom', 'sol', 'go-session'])
        assert.match(fails('--format', format, 'notes.txt'), /notes\.txt/, format);
    fails('notes.txt');
    fails('none.jsonl');
    fails('--format', 'openai', 'list.json');
    fails('--format', 'sol', 'rows.jsonl');
});

test('a body without a conversation is an error over HTTP too', async (t) => {
    const s = await serve(t);
    for (const [query, body] of [['', 'just a text'], ['?format=openai', 'just a text'], ['?format=openai', '[]'],
        ['?format=sol', JSON.stringify(loom('u', 'b'))]]) {
        const answer = await s.post(`/api/v1/import${query}`, body, { headers: { 'content-type': 'application/x-ndjson' } });
        assert.deepEqual([answer.code, answer.json.code], [400, 'invalid'], answer.text);
    }
    const taken = await s.post('/api/v1/import', JSON.stringify(goMessages));
    assert.deepEqual([taken.code, taken.json.sessions, taken.json.messages], [200, 1, 7], taken.text);
});

test('imported history keeps its times, and lists are sorted by them', async (t) => {
    for (const store of ['chats.db', 'jsonl:chats']) {
        const dir = workspace(t);
        const at = (day, role, text) => ({ timestamp: `2026-03-0${day}T10:00:00.000Z`, type: 'response_item',
            payload: { type: 'message', role, content: [{ type: 'input_text', text }] } });
        for (const day of [3, 1, 2])
            write(dir, `rollout-${day}.jsonl`,
                { timestamp: `2026-03-0${day}T09:00:00.000Z`, type: 'session_meta', payload: { id: `s${day}`, cwd: '/p' } },
                at(day, 'user', '<environment_context>x</environment_context>'), at(day, 'user', `words of day ${day}\nmore`),
                at(day, 'assistant', 'ok'));
        palaver(dir, 'session', 'import', '--store', store, 'rollout-3.jsonl', 'rollout-1.jsonl', 'rollout-2.jsonl');
        const listed = list(dir, '--store', store);
        assert.deepEqual(listed.map((one) => [one.key, one.title, one.updated_at]), [3, 2, 1].map((day) =>
            [`codex:s${day}`, `words of day ${day}`, `2026-03-0${day}T10:00:00.000Z`]));
        // A repeated import changes nothing. If the conversation has grown, the time of the new
        // message counts.
        palaver(dir, 'session', 'import', '--store', store, 'rollout-1.jsonl');
        fs.appendFileSync(path.join(dir, 'rollout-2.jsonl'), `${JSON.stringify(at(5, 'user', 'later'))}\n`);
        palaver(dir, 'session', 'import', '--store', store, 'rollout-2.jsonl');
        const again = list(dir, '--store', store);
        assert.deepEqual(again.map((one) => [one.key, one.updated_at.slice(8, 10)]),
            [['codex:s2', '05'], ['codex:s3', '03'], ['codex:s1', '01']]);
    }
});

test('titles of Claude Code are imported', (t) => {
    const dir = workspace(t);
    const said = (uuid, text) => ({ type: 'user', uuid, sessionId: 's', timestamp: '2026-03-01T10:00:00.000Z',
        message: { role: 'user', content: text } });
    write(dir, 'a.jsonl', { type: 'summary', summary: 'A summary', leafUuid: 'u1' }, said('u1', 'hello'));
    write(dir, 'b.jsonl', { ...said('u2', 'hello'), sessionId: 't' },
        { type: 'custom-title', customTitle: 'My own title', sessionId: 't' });
    palaver(dir, 'session', 'import', 'a.jsonl', 'b.jsonl');
    assert.deepEqual(list(dir).map((one) => one.title).sort(), ['A summary', 'My own title']);
});

test('the configurations in docs/coming-from.md are valid', (t) => {
    const dir = workspace(t);
    const text = fs.readFileSync(new URL('../../../docs/coming-from.md', import.meta.url), 'utf8');
    const blocks = [...text.matchAll(/```yaml\n(.*?)```/gs)].map((match) => match[1]);
    assert.equal(blocks.length, 6);
    for (const block of blocks) {
        fs.writeFileSync(path.join(dir, 'palaver.yaml'), block);
        palaver(dir, 'config', 'show');
    }
});

test('forks show the same messages and summaries in a copy of the store', async (t) => {
    for (const [from, to] of [['chats.db', 'jsonl:copy'], ['jsonl:chats', 'copy.db']]) {
        const dir = workspace(t);
        const s = await serve(t, { dir, args: ['--store', from] });
        const on = (id, what, body, method = 'POST') => s.ask(method, `/api/v1/sessions/${id}/${what}`, { body });
        await s.post('/api/v1/sessions', { key: 'a' });
        await on('a', 'messages', { messages: [1, 2, 3, 4, 5, 6].map((n) => ({ role: 'user', content: `m${n}` })) });
        await on('a', 'rewind', { to_seq: 5 });
        await on('a', 'fork', { at_seq: 5, key: 'b' });
        await on('b', 'messages', { role: 'user', content: 'own' });
        await on('b', 'fork', { key: 'c' });
        // None of this concerns the forks, which are older.
        await on('a', 'rewind', { to_seq: 1 });
        await on('a', 'summary', { summary: 'of a' }, 'PUT');
        await on('b', 'truncate', { keep: 2 });
        await on('b', 'summary', { summary: 'of b' }, 'PUT');
        const look = async (server) => {
            const seen = {};
            for (const id of ['a', 'b', 'c']) {
                const { messages } = (await server.get(`/api/v1/sessions/${id}/messages`)).json;
                const { summary } = (await server.get(`/api/v1/sessions/${id}/summary`)).json;
                seen[id] = [summary, ...messages.map((m) => m.content)];
            }
            return seen;
        };
        const seen = await look(s);
        assert.deepEqual(seen, { a: ['of a', 'm1'], b: ['of b', 'm5', 'own'], c: ['', 'm1', 'm2', 'm3', 'm4', 'm5', 'own'] });
        await s.stop();
        palaver(dir, 'session', 'export', '--store', from, '--all', '-o', 'all.jsonl');
        for (let i = 0; i < 2; i++) palaver(dir, 'session', 'import', '--store', to, 'all.jsonl');
        const copy = await serve(t, { dir, args: ['--store', to] });
        assert.deepEqual(await look(copy), seen);
        await copy.stop();
    }
});

test('a truncation after the first import hides the same messages in the copy', (t) => {
    const dir = workspace(t);
    const run = (store, ...args) => palaver(dir, 'session', args[0], '--store', store, ...args.slice(1));
    run('one.db', 'new', '--key', 'k');
    for (const text of ['1', '2', '3', '4']) run('one.db', 'append', 'k', text);
    const copy = () => {
        run('one.db', 'export', 'k', '-o', 'k.jsonl');
        run('two.db', 'import', 'k.jsonl');
        return JSON.parse(run('two.db', 'show', 'k', '--json')).messages.map((m) => m.content);
    };
    assert.deepEqual(copy(), ['1', '2', '3', '4']);
    run('one.db', 'truncate', 'k', '--keep', '2');
    assert.deepEqual(copy(), ['3', '4']);
});
