// Palaver as an MCP server: official clients of both protocol eras over both transports, then cases
// that need raw messages. npm installs the clients into the build directory when the test first
// runs; without network their tests are skipped.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { MockModel } from '../../conformance/mock-model.mjs';
import { installPackages } from '../../support/packages.mjs';
import { serveModel } from '../model.mjs';
import { binary, makeKey, workspace } from '../support.mjs';

const directory = process.env.MCP_CLIENTS;
const here = path.dirname(fileURLToPath(import.meta.url));

assert.ok(directory, 'MCP_CLIENTS says where to install');

const skip = installPackages(here, directory);
const load = (name) => {
    const require = createRequire(path.join(directory, 'here.js'));
    return import(pathToFileURL(require.resolve(name)));
};

// ---- Clients ----

const NEW = '2026-07-28';
const SLOW_MS = 60000; // longer than any test waits

async function model(t) {
    const mock = new MockModel();
    const url = await mock.listen();
    t.after(() => mock.close());
    return { url,
        untilAsked: async (count) => {
            while ((await (await fetch(`${url}/__requests`)).json()).requests.length < count)
                await new Promise((resolve) => setTimeout(resolve, 5));
        } };
}

const stdioArgs = (dir, url) => ['mcp', '--store', `sqlite:${path.join(dir, 'chats.db')}`,
    '--provider', 'openai', '--provider-url', `${url}/v1`, '--model', 'mock-model'];

// Connects a client of the old or the new era as `over` says. `mock` is the model of the server.
async function connect(t, era, over) {
    const isNew = era === 'new';
    const { Client } = isNew ? await load('@modelcontextprotocol/client')
        : await load('@modelcontextprotocol/sdk/client/index.js');
    const client = new Client({ name: 'test', version: '1' },
        isNew ? { versionNegotiation: { mode: { pin: NEW } } } : {});
    let transport, mock;

    if (over === 'stdio') {
        const { StdioClientTransport } = isNew ? await load('@modelcontextprotocol/client/stdio')
            : await load('@modelcontextprotocol/sdk/client/stdio.js');
        const dir = workspace(t);
        mock = await model(t);
        transport = new StdioClientTransport({ command: binary, args: stdioArgs(dir, mock.url),
            cwd: dir, env: { PATH: process.env.PATH, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' } });
    } else {
        const { StreamableHTTPClientTransport } = isNew
            ? await load('@modelcontextprotocol/client')
            : await load('@modelcontextprotocol/sdk/client/streamableHttp.js');
        mock = await serveModel(t);
        transport = new StreamableHTTPClientTransport(
            new URL(`http://127.0.0.1:${mock.port}/mcp`));
    }
    await client.connect(transport);
    t.after(() => client.close());
    const call = async (name, args, options) => isNew
        ? client.callTool({ name, arguments: args }, { timeout: SLOW_MS, ...options })
        : client.callTool({ name, arguments: args }, undefined, { timeout: SLOW_MS, ...options });
    const ok = async (name, args, options) => {
        const result = await call(name, args, options);
        assert.ok(!result.isError, JSON.stringify(result.content));
        return result.structuredContent;
    };
    const fails = async (name, args) => {
        const result = await call(name, args);
        assert.equal(result.isError, true, JSON.stringify(result));
        assert.equal(result.structuredContent, undefined);
        return result.content[0].text;
    };
    return { client, transport, mock, call, ok, fails };
}

for (const era of ['old', 'new']) for (const over of ['stdio', 'http']) {
    const name = `a client of the ${era} era over ${over}`;

    test(`${name} finds the tools`, { skip }, async (t) => {
        const { client } = await connect(t, era, over);
        assert.equal(client.getServerVersion().name, 'palaver');
        assert.match(client.getInstructions(), /search_conversations/);
        const { tools } = await client.listTools();
        assert.deepEqual(tools.map((tool) => tool.name), ['list_conversations',
            'read_conversation', 'search_conversations', 'create_conversation', 'append_message',
            'remember', 'continue_conversation', 'fork_conversation', 'search_notes', 'add_note',
            'retract_note']);
        for (const tool of tools) {
            assert.ok(tool.title && tool.description, tool.name);
            assert.equal(tool.inputSchema.type, 'object');
            assert.equal(tool.inputSchema.additionalProperties, false);
            assert.equal(tool.outputSchema.type, 'object');
            const isRead = /^(list|read|search)_/.test(tool.name);
            assert.equal(tool.annotations.readOnlyHint, isRead, tool.name);
            assert.equal(tool.annotations.destructiveHint, false);
        }
        if (era === 'old') await client.ping();
    });

    test(`${name} uses Palaver as its memory`, { skip }, async (t) => {
        const { client, ok } = await connect(t, era, over);
        await client.listTools(); // from now on the client checks results against the schemas
        const made = await ok('create_conversation', { key: 'trip', title: 'Iceland',
            project: 'holidays' });
        assert.equal(made.created, true);
        const { id } = made.conversation;
        assert.equal((await ok('create_conversation', { key: 'trip' })).created, false);
        const first = await ok('append_message', { conversation: 'trip', text: 'Which glacier?',
            client_id: 'm1' });
        assert.deepEqual([first.conversation, first.seq], [id, 1]);
        assert.equal((await ok('append_message', { conversation: id, text: 'Which glacier?',
            client_id: 'm1' })).message_id, first.message_id);
        await ok('append_message', { conversation: id, text: 'Vatnajökull', role: 'assistant' });
        const note = await ok('remember', { text: 'The cat is called Mo' });
        assert.equal((await ok('remember', { text: 'Mo likes rain' })).conversation,
            note.conversation);

        const page = await ok('read_conversation', { conversation: 'trip' });
        assert.equal(page.conversation.title, 'Iceland');
        assert.deepEqual(page.messages.map((m) => [m.seq, m.role, m.text]),
            [[1, 'user', 'Which glacier?'], [2, 'assistant', 'Vatnajökull']]);
        assert.equal(page.has_more, false);
        assert.deepEqual((await ok('read_conversation', { conversation: `conv_${
            id.replaceAll('-', '')}`, limit: 1 })).messages.map((m) => m.seq), [2]);

        const listed = await ok('list_conversations', { limit: 1 });
        assert.deepEqual(listed.conversations.map((c) => c.key), ['memory']);
        assert.deepEqual((await ok('list_conversations', { cursor: listed.next_cursor }))
            .conversations.map((c) => c.key), ['trip']);
        assert.deepEqual((await ok('list_conversations', { project: 'holidays' }))
            .conversations.map((c) => c.id), [id]);
        assert.deepEqual((await ok('list_conversations', { since: '2999-01-01T00:00:00Z' }))
            .conversations, []);

        const { hits } = await ok('search_conversations', { query: 'vatnajökull' });
        assert.deepEqual(hits.map((h) => [h.conversation, h.title, h.seq, h.role]),
            [[id, 'Iceland', 2, 'assistant']]);
        assert.deepEqual((await ok('search_conversations', { query: 'glacier',
            conversation: 'memory' })).hits, []);
        assert.equal((await ok('search_conversations', { query: 'Mo', role: 'user' })).hits.length,
            2);

        const fork = await ok('fork_conversation', { conversation: 'trip', at_seq: 1,
            title: 'Norway' });
        assert.deepEqual([fork.conversation.title, fork.conversation.messages], ['Norway', 1]);
        assert.notEqual(fork.conversation.id, id);
    });

    test(`${name} continues a conversation`, { skip }, async (t) => {
        const { client, mock, call, ok, fails } = await connect(t, era, over);
        await client.listTools();
        await ok('create_conversation', { key: 'talk' });
        const steps = [];
        const result = await call('continue_conversation', { conversation: 'talk', text: 'hello' },
            { onprogress: (progress) => steps.push(progress) });
        assert.equal(result.content[0].text, 'echo: hello');
        const { structuredContent: answer } = result;
        assert.deepEqual([answer.text, answer.seq, answer.finish_reason, answer.tool_calls],
            ['echo: hello', 2, 'stop', 0]);
        assert.ok(answer.usage.output_tokens > 0);
        assert.match(steps[0].message, /calling the model/);
        const second = await ok('continue_conversation',
            { conversation: 'talk', text: 'again', model: 'mock-model' });
        assert.equal(second.seq, 4);
        await mock.untilAsked(2);
        assert.match(await fails('continue_conversation',
            { conversation: 'talk', text: '<<fail status=400>>' }),
        /^the model returned no answer: .*; the conversation is unchanged$/);
        assert.deepEqual((await ok('read_conversation', { conversation: 'talk' })).messages
            .map((m) => m.text), ['hello', 'echo: hello', 'again', 'echo: again']);
    });

    test(`${name} can cancel a turn`, { skip }, async (t) => {
        const { mock, call, ok } = await connect(t, era, over);
        await ok('create_conversation', { key: 'talk' });
        const abort = new AbortController();
        const late = call('continue_conversation', { conversation: 'talk', text: '<<hang>>' },
            { signal: abort.signal });
        await mock.untilAsked(1);
        abort.abort(new Error('never mind'));
        await assert.rejects(late);
        // The next turn of the same conversation starts only after the end of this one.
        const next = await ok('continue_conversation', { conversation: 'talk', text: 'hello' });
        assert.equal(next.text, 'echo: hello');
        assert.deepEqual((await ok('read_conversation', { conversation: 'talk' })).messages
            .map((m) => m.text), ['hello', 'echo: hello']);
    });

    test(`${name} gets errors with a remedy`, { skip }, async (t) => {
        const { client, ok, fails } = await connect(t, era, over);
        for (const [name, args, pattern] of [
            ['read_conversation', {},
                /^'conversation' is missing: id, key or alias of the conversation$/],
            ['read_conversation', { conversation: 'x' }, /unknown conversation 'x'; use list_conv/],
            ['read_conversation', { conversation_id: 'x' }, /did you mean 'conversation'\?/],
            ['read_conversation', { conversation: 'x', limit: 1000 },
                /'limit' must be a whole number from 1 to 200, not 1000/],
            ['read_conversation', { conversation: 'x', limit: '5' }, /'limit' must be .*not "5"/],
            ['read_conversation', { conversation: 'x', text_offset: 5 }, /requires 'after_seq'/],
            ['list_conversations', { since: 'yesterday' }, /'since' must be a time such as/],
            ['list_conversations', { cursor: 'nonsense' }, /cursor/],
            ['search_conversations', { query: '' }, /'query' must not be empty/],
            ['search_conversations', { query: 'a', role: 'robot' },
                /'role' must be one of system, user, assistant, tool, not "robot"/],
            ['append_message', { conversation: 'x', text: 'a' }, /unknown conversation 'x'/],
            ['append_message', { conversation: 'x', text: 7 }, /'text' must be a string, not 7/],
            ['remember', { text: 'x'.repeat((1 << 20) + 1) }, /exceeds the limit of 1048576/],
            ['continue_conversation', { conversation: 'x', text: 'a' }, /unknown conversation 'x'/],
            ['fork_conversation', { conversation: 'x' }, /unknown conversation 'x'/],
        ]) assert.match(await fails(name, args), pattern);
        assert.deepEqual((await ok('list_conversations', {})).conversations, []);
        await assert.rejects(client.callTool({ name: 'dance', arguments: {} }), /Unknown tool/);
    });
}

// ---- Bounds ----

test('long conversations are read in pages, long messages in pieces', { skip }, async (t) => {
    const { ok } = await connect(t, 'old', 'http');
    await ok('create_conversation', { key: 'long' });
    const big = Array.from({ length: 40000 }, (_, i) => 'äbc'[i % 3]).join('');
    for (const text of ['one', 'two', big, 'four', 'five'])
        await ok('append_message', { conversation: 'long', text });
    const seqs = (page) => page.messages.map((m) => m.seq);
    const read = (args) => ok('read_conversation', { conversation: 'long', ...args });

    const newest = await read({ limit: 2 });
    assert.deepEqual([seqs(newest), newest.has_more, newest.next_before_seq], [[4, 5], true, 4]);
    const older = await read({ limit: 2, before_seq: 4 });
    assert.deepEqual([seqs(older), older.next_before_seq], [[2, 3], 2]);
    const oldest = await read({ limit: 2, before_seq: 2 });
    assert.deepEqual([seqs(oldest), oldest.has_more], [[1], false]);
    const forward = await read({ limit: 2, after_seq: 0 });
    assert.deepEqual([seqs(forward), forward.next_after_seq], [[1, 2], 2]);
    assert.deepEqual(seqs(await read({ after_seq: forward.next_after_seq })), [3, 4, 5]);

    let text = '', offset;
    do {
        const [message] = (await read({ after_seq: 2, limit: 1,
            ...(offset && { text_offset: offset }) })).messages;
        assert.ok(Buffer.byteLength(message.text) <= 16384);
        text += message.text;
        offset = message.next_text_offset;
    } while (offset);
    assert.equal(text, big);

    // Five shortened messages need more room than one page has.
    for (let i = 0; i < 5; i++) await ok('append_message', { conversation: 'long', text: big });
    const full = await read({ after_seq: 5 });
    assert.equal(full.has_more, true);
    assert.ok(full.messages.length >= 1 && full.messages.length < 5);
    assert.ok(JSON.stringify(full).length < 100000);
    assert.deepEqual(seqs(await read({})).at(-1), 10);
});

// ---- Raw HTTP ----

const hello = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {
    protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } } };
const both = { accept: 'application/json, text/event-stream' };

async function begin(s, options = {}) {
    const answer = await s.post('/mcp', hello, { ...options, headers: both });
    assert.equal(answer.code, 200, answer.text);
    return answer.headers['mcp-session-id'];
}

test('a session of the old protocol begins, is checked, and ends', async (t) => {
    const s = await serveModel(t);
    const session = await begin(s);
    assert.match(session, /^[0-9a-f]{32}$/);
    const list = { jsonrpc: '2.0', id: 'a', method: 'tools/list' };
    const as = (id, headers) => s.post('/mcp', list,
        { headers: { ...both, ...(id && { 'mcp-session-id': id }), ...headers } });
    assert.equal((await as(session)).json.id, 'a');
    assert.equal((await as(session, { 'mcp-protocol-version': '2025-06-18' })).code, 200);
    const lost = await as();
    assert.equal(lost.code, 400);
    assert.match(lost.json.error.message, /Mcp-Session-Id is missing/);
    assert.equal((await as('0'.repeat(32))).code, 404);
    assert.equal((await as(session, { 'mcp-protocol-version': '1999-01-01' })).code, 400);
    const noted = await s.post('/mcp', { jsonrpc: '2.0', method: 'notifications/initialized' },
        { headers: { ...both, 'mcp-session-id': session } });
    assert.deepEqual([noted.code, noted.text], [202, '']);
    const get = await s.get('/mcp', { headers: { accept: 'text/event-stream' } });
    assert.equal(get.code, 405);
    assert.equal(get.headers.allow, 'POST, DELETE');
    const end = () => s.ask('DELETE', '/mcp', { headers: { 'mcp-session-id': session } });
    assert.equal((await end()).code, 204);
    assert.equal((await end()).code, 404);
    assert.equal((await as(session)).code, 404);
});

test('a client gets the revision that it requests, or the newest', async (t) => {
    const s = await serveModel(t);
    for (const [asked, given] of [['2024-11-05', '2024-11-05'], ['2025-03-26', '2025-03-26'],
        ['2025-06-18', '2025-06-18'], ['2025-11-25', '2025-11-25'], ['1999-01-01', '2025-11-25']]) {
        const answer = await s.post('/mcp',
            { ...hello, params: { ...hello.params, protocolVersion: asked } }, { headers: both });
        assert.equal(answer.json.result.protocolVersion, given);
        assert.equal('resultType' in answer.json.result, false);
    }
});

test('invalid messages are refused', async (t) => {
    const s = await serveModel(t);
    const session = await begin(s);
    const post = (body) => s.post('/mcp', body,
        { headers: { ...both, 'mcp-session-id': session } });
    for (const [body, code, http] of [
        ['{"jsonrpc":', -32700, 400], ['', -32700, 400], ['[]', -32600, 400],
        [{ id: 1, method: 'ping' }, -32600, 400],
        [{ jsonrpc: '2.0', id: null, method: 'ping' }, -32600, 400],
        [{ jsonrpc: '2.0', id: 1, method: 7 }, -32600, 400],
        [{ jsonrpc: '2.0', id: 1, method: 'ping', params: [] }, -32602, 400],
        [{ jsonrpc: '2.0', id: 1, method: 'resources/list' }, -32601, 200],
        [{ jsonrpc: '2.0', id: 1, method: 'server/discover' }, -32601, 200],
        [{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} }, -32602, 200],
        [{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'remember',
            arguments: [] } }, -32602, 200],
    ]) {
        const answer = await post(body);
        assert.deepEqual([answer.code, answer.json.error?.code], [http, code],
            JSON.stringify(body));
        assert.equal(answer.json.jsonrpc, '2.0');
    }
    assert.equal((await post({ jsonrpc: '2.0', id: 1, result: {} })).code, 202);
    assert.deepEqual((await post({ jsonrpc: '2.0', id: 2, method: 'ping' })).json,
        { jsonrpc: '2.0', id: 2, result: {} });
});

const meta = (version = NEW) => ({ 'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {} });
const modern = (method, params = {}, { version = NEW, headers = {} } = {}) => [
    '/mcp', { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta(version) } },
    { headers: { ...both, 'mcp-protocol-version': version, 'mcp-method': method,
        ...(params.name && { 'mcp-name': params.name }), ...headers } }];

test('a request of the new protocol needs no session', async (t) => {
    const s = await serveModel(t);
    const found = (await s.post(...modern('server/discover'))).json.result;
    assert.equal(found.resultType, 'complete');
    assert.equal(found.supportedVersions[0], NEW);
    assert.deepEqual(found.capabilities, { tools: {} });
    assert.equal(found._meta['io.modelcontextprotocol/serverInfo'].name, 'palaver');
    assert.ok(found.ttlMs >= 0 && found.cacheScope === 'public');
    const list = await s.post(...modern('tools/list'));
    assert.equal(list.headers['mcp-session-id'], undefined);
    assert.equal(list.json.result.cacheScope, 'private');
    const name = 'list_conversations';
    const base64 = `=?base64?${Buffer.from(name).toString('base64')}?=`;
    assert.equal((await s.post(...modern('tools/call', { name, arguments: {} },
        { headers: { 'mcp-name': base64 } }))).json.result.resultType, 'complete');
    // Blanks around a header's value do not belong to it.
    assert.equal((await s.post(...modern('tools/call', { name, arguments: {} },
        { headers: { 'mcp-name': `  ${name} \t`, 'mcp-method': ' tools/call ' } })))
        .json.result?.resultType, 'complete');
    const refused = async (code, rpc, ...args) => {
        const answer = await s.post(...modern(...args));
        assert.deepEqual([answer.code, answer.json.error.code], [code, rpc], answer.text);
        return answer.json.error;
    };
    await refused(404, -32601, 'ping');
    await refused(404, -32601, 'initialize');
    await refused(400, -32602, 'tools/call', { name: 'dance' });
    const old = await refused(400, -32022, 'tools/list', {}, { version: '2027-01-01' });
    assert.equal(old.data.requested, '2027-01-01');
    assert.ok(old.data.supported.includes(NEW));
    for (const headers of [{ 'mcp-method': 'tools/call' }, { 'mcp-method': '' },
        { 'mcp-protocol-version': '2025-11-25' }, { 'mcp-protocol-version': '' }])
        await refused(400, -32020, 'tools/list', {}, { headers });
    await refused(400, -32020, 'tools/call', { name, arguments: {} },
        { headers: { 'mcp-name': 'remember' } });
    const bare = await s.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' },
        { headers: { ...both, 'mcp-protocol-version': NEW } });
    assert.deepEqual([bare.code, bare.json.error.code], [400, -32602]);
    const [target, body, options] = modern('tools/list');
    delete body.params._meta['io.modelcontextprotocol/clientCapabilities'];
    const half = await s.post(target, body, options);
    assert.deepEqual([half.code, half.json.error.code], [400, -32602]);
});

test('a turn gets a JSON response if the client accepts no stream', async (t) => {
    const s = await serveModel(t);
    await s.session({ key: 'talk' });
    const [target, body, options] = modern('tools/call',
        { name: 'continue_conversation', arguments: { conversation: 'talk', text: 'hi' } });
    const stream = await s.post(target, body, options);
    assert.match(stream.headers['content-type'], /^text\/event-stream/);
    assert.equal(stream.headers['x-accel-buffering'], 'no');
    assert.match(stream.text, /^event: message\ndata: \{"jsonrpc":"2.0","id":1,"result":/);
    const plain = await s.post(target, body,
        { headers: { ...options.headers, accept: 'application/json' } });
    assert.equal(plain.json.result.structuredContent.text, 'echo: hi');
    assert.equal(plain.json.result.structuredContent.seq, 4);
});

test('a client of the old protocol that disconnects finds the answer later', async (t) => {
    const s = await serveModel(t);
    const id = await s.session({ key: 'talk' });
    const session = await begin(s);
    const leaving = new AbortController();
    const asked = fetch(`http://127.0.0.1:${s.port}/mcp`, { method: 'POST', signal: leaving.signal,
        headers: { ...both, 'mcp-session-id': session }, body: JSON.stringify({ jsonrpc: '2.0',
            id: 1, method: 'tools/call', params: { name: 'continue_conversation',
                arguments: { conversation: 'talk', text: 'hi <<hang>>' } } }) });
    await asked; // the head of the response has arrived
    await s.untilAsked(1);
    leaving.abort();
    await s.release();
    const messages = async () => (await s.get(`/api/v1/sessions/${id}/messages`)).json.messages;
    while ((await messages()).length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
});

test('the end of a session cancels its turns', async (t) => {
    const s = await serveModel(t);
    const id = await s.session({ key: 'talk' });
    const session = await begin(s);
    const headers = { ...both, 'mcp-session-id': session };
    const late = s.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: {
        name: 'continue_conversation', arguments: { conversation: 'talk', text: '<<hang>>' } } },
    { headers });
    await s.untilAsked(1);
    assert.equal((await s.ask('DELETE', '/mcp', { headers })).code, 204);
    assert.equal((await late).text.includes('"result"'), false);
    assert.deepEqual((await s.get(`/api/v1/sessions/${id}/messages`)).json.messages, []);
});

test('pages of other origins are refused', async (t) => {
    const s = await serveModel(t, { config: 'server:\n  cors_origins: ["https://app.example"]\n' });
    const from = (origin, more = {}) => s.post('/mcp', hello,
        { headers: { ...both, origin, ...more } });
    for (const origin of ['https://evil.example', 'null', 'http://localhost.evil.example'])
        assert.equal((await from(origin)).code, 403, origin);
    assert.equal((await from('http://localhost:6274')).code, 403);
    assert.equal((await from(`http://127.0.0.1:${s.port}`)).code, 200);
    assert.equal((await from('http://localhost', { host: 'evil.example' })).code, 403);
    const app = await from('https://app.example');
    assert.equal(app.code, 200);
    assert.match(app.headers['access-control-expose-headers'], /mcp-session-id/);
});

test('the key determines the allowed tools and the visible conversations', async (t) => {
    const dir = workspace(t);
    const ours = makeKey(dir, '--tenant', 'ours', '--role', 'write').key;
    const reader = makeKey(dir, '--tenant', 'ours', '--role', 'read').key;
    const theirs = makeKey(dir, '--tenant', 'theirs', '--role', 'write').key;
    const s = await serveModel(t, { dir });
    const denied = await s.post('/mcp', hello, { headers: both });
    assert.equal(denied.code, 401);
    assert.equal(denied.json.error.code, 401);
    assert.equal(denied.headers['www-authenticate'], 'Bearer');
    const call = async (key, name, args) => {
        const [target, body, options] = modern('tools/call', { name, arguments: args });
        return (await s.post(target, body, { ...options, key })).json.result;
    };
    assert.equal((await call(ours, 'remember', { text: 'secret' })).isError, false);
    for (const key of [ours, reader])
        assert.equal((await call(key, 'search_conversations', { query: 'secret' }))
            .structuredContent.hits.length, 1);
    assert.deepEqual((await call(theirs, 'search_conversations', { query: 'secret' }))
        .structuredContent.hits, []);
    assert.match((await call(theirs, 'read_conversation', { conversation: 'memory' }))
        .content[0].text, /unknown conversation 'memory'/);
    const refused = await call(reader, 'remember', { text: 'more' });
    assert.equal(refused.isError, true);
    assert.match(refused.content[0].text, /requires an API key that can write/);
    const [target, body, options] = modern('tools/list');
    const { tools } = (await s.post(target, body, { ...options, key: reader })).json.result;
    assert.deepEqual(tools.map((tool) => tool.name),
        ['list_conversations', 'read_conversation', 'search_conversations', 'search_notes']);

    const session = await begin(s, { key: ours });
    const ping = (key) => s.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' },
        { key, headers: { ...both, 'mcp-session-id': session } });
    assert.equal((await ping(ours)).code, 200);
    assert.equal((await ping(theirs)).code, 404, 'a session is its tenant\'s');
    const evil = await s.post('/mcp', hello,
        { key: ours, headers: { ...both, origin: 'https://evil.example' } });
    assert.equal(evil.code, 403, 'whoever has a key too');
});

// ---- Raw lines ----

async function start(t) {
    const dir = workspace(t);
    const mock = await model(t);
    const child = spawn(binary, stdioArgs(dir, mock.url), { cwd: dir,
        env: { PATH: process.env.PATH, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' } });
    t.after(() => child.kill('SIGKILL'));
    const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const ended = new Promise((resolve) => child.on('exit',
        (code, signal) => resolve({ code, signal })));
    child.stderr.resume();
    return { child, mock, ended,
        send: (message) => child.stdin.write(typeof message === 'string' ? message
            : `${JSON.stringify(message)}\n`),
        next: async () => {
            const { value, done } = await lines.next();
            assert.ok(!done, 'it ended');
            return JSON.parse(value);
        } };
}

const hang = { jsonrpc: '2.0', id: 9, method: 'tools/call', params: {
    name: 'continue_conversation', arguments: { conversation: 'memory', text: '<<hang>>' } } };
const note = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'remember',
    arguments: { text: 'a line\nand another' } } };

test('invalid lines and requests before initialize are refused', async (t) => {
    const { send, next, child, ended } = await start(t);
    send({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
    assert.equal((await next()).error.code, -32600);
    send('nonsense\n\n');
    assert.equal((await next()).error.code, -32700);
    send({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta() } });
    assert.equal((await next()).result.resultType, 'complete');
    send(hello);
    assert.equal((await next()).result.serverInfo.name, 'palaver');
    send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    send(note);
    assert.equal((await next()).result.isError, false);
    child.stdin.end();
    assert.deepEqual(await ended, { code: 0, signal: null });
});

for (const [how, stop] of [['the end of its input', (child) => child.stdin.end()],
    ['SIGTERM', (child) => child.kill('SIGTERM')]]) {
    test(`${how} stops the server while a turn runs`, async (t) => {
        const { send, next, child, mock, ended } = await start(t);
        send(hello);
        send(note);
        await next();
        await next();
        send(hang);
        await mock.untilAsked(1);
        send({ jsonrpc: '2.0', id: 10, method: 'ping' });
        assert.equal((await next()).id, 10, 'it answers while the turn runs');
        stop(child);
        assert.deepEqual(await ended, { code: 0, signal: null });
    });
}
