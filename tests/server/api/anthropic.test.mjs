// Anthropic's API where the shared suite of tests/conformance doesn't look: what is left out, threads
// that this server keeps, recorded sessions, and a server that stops.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { serveModel } from '../model.mjs';
import { ask, makeKey, serve, workspace } from '../support.mjs';

const user = (content) => ({ role: 'user', content });
const message = (text, more = {}) =>
    ({ model: 'mock-model', max_tokens: 100, messages: [user(text)], ...more });
const textOf = ({ content }) => content.map(({ text }) => text ?? '').join('');
const TIME = { name: 'get_time', input_schema: { type: 'object', properties: {} } };

const create = async (s, body, headers = {}) => {
    const answer = await s.post('/v1/messages', body, { headers });
    assert.equal(answer.code, 200, answer.text);
    return answer.json;
};

const eventsOf = (text) => text.split('\n\n').filter((frame) => frame.startsWith('event: '))
    .map((frame) => JSON.parse(frame.slice(frame.indexOf('data: ') + 6)));

const lines = async (s, name) => (await s.get(`/api/v1/sessions/${name}/messages`)).json.messages
    .map(({ role, content }) => `${role}: ${content}`);

test('what the model service cannot do is left out and reported', async (t) => {
    const s = await serveModel(t);
    const made = await create(s, message('x', {
        messages: [user([{ type: 'text', text: '<<say ok>>' }, { type: 'hologram', data: 'z' }])],
        tools: [{ type: 'web_search_20250305', name: 'web_search' }, TIME], top_k: 5, thinking: { type: 'disabled' },
        tool_choice: { type: 'tool', name: 'web_search' }, container: null, mcp_servers: [],
    }));
    assert.equal(textOf(made), 'ok');
    assert.deepEqual(made.metadata.left_out,
        ['block hologram', 'tool web_search_20250305', 'tool_choice', 'top_k', 'mcp_servers']);
    const [asked] = await s.asked();
    assert.deepEqual(asked.tools.map((tool) => tool.function.name), ['get_time']);
    assert.equal(asked.tool_choice, undefined);
    assert.equal((await create(s, message('x'))).metadata, undefined, 'nothing to report');
});

test('images in results of tools reach the model if the user says something after them', async (t) => {
    const s = await serveModel(t);
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
    const call = (id) => ({ type: 'tool_use', id, name: 'get_time', input: {} });
    const result = (id, content) => ({ type: 'tool_result', tool_use_id: id, content });
    const made = await create(s, message('', { tools: [TIME], messages: [user('look'),
        { role: 'assistant', content: [call('c1'), call('c2')] },
        user([result('c1', [{ type: 'text', text: 'a clock' }, image]), result('c2', 'noon'), { type: 'text', text: 'So? <<say ok>>' }]),
        { role: 'assistant', content: [call('c3')] }, user([result('c3', [image])])] }));
    assert.deepEqual(made.metadata.left_out, ['tool_result image'], 'only the last one');
    const [{ messages }] = await s.asked();
    const url = `data:image/png;base64,${image.source.data}`;
    const urls = ({ content }) => [content].flat().flatMap((part) => part?.image_url?.url ?? []);
    assert.deepEqual(messages.map(({ role }) => role), ['user', 'assistant', 'tool', 'tool', 'user', 'assistant', 'tool']);
    assert.deepEqual(messages.map(urls), [[], [], [], [], [url], [], []]);
    assert.match(JSON.stringify(messages[2].content), /a clock.*the image is in the user's next message/);
    assert.match(JSON.stringify(messages[6].content), /media left out/);
});

test('a message with only unknown blocks is answered', async (t) => {
    const s = await serveModel(t);
    const made = await create(s, message('', { messages: [user([{ type: 'hologram', data: 'z' }])] }));
    assert.equal(textOf(made), 'echo: [content left out]');
    assert.deepEqual(made.metadata.left_out, ['block hologram']);
});

test('the default model answers for models that only Anthropic has', async (t) => {
    const s = await serveModel(t);
    const made = await create(s, message('<<say ok>>', { model: 'claude-opus-5-5' }));
    assert.equal(made.model, 'claude-opus-5-5');
    assert.deepEqual(made.metadata.left_out, ['model claude-opus-5-5']);
    assert.equal((await s.asked())[0].model, 'mock-model');
});

test('reasoning is shown as thinking if the client enables it', async (t) => {
    const s = await serveModel(t);
    const text = '<<think Hm.>><<say Yes.>>';
    const plain = await create(s, message(text));
    assert.deepEqual(plain.content, [{ type: 'text', text: 'Yes.' }]);
    const thinking = { type: 'adaptive' };
    const shown = await create(s, message(text, { thinking }));
    assert.deepEqual(shown.content, [{ type: 'thinking', thinking: 'Hm.', signature: '' },
        { type: 'text', text: 'Yes.' }]);
    const { text: stream } = await s.post('/v1/messages', message(text, { thinking, stream: true }));
    assert.deepEqual(eventsOf(stream).map(({ type, delta }) => delta?.type ?? type),
        ['message_start', 'content_block_start', 'thinking_delta', 'content_block_stop',
            'content_block_start', 'text_delta', 'content_block_stop', 'message_delta',
            'message_stop']);
});

test('a refusal of the model is a refusal', async (t) => {
    const s = await serveModel(t);
    const made = await create(s, message('<<refuse I cannot.>>'));
    assert.equal(made.stop_reason, 'refusal');
    assert.equal(textOf(made), 'I cannot.');
});

test('a call of a tool that the client does not have is passed on to the client', async (t) => {
    const dir = workspace(t);
    fs.writeFileSync(path.join(dir, 'answers.jsonl'), ['{"call":{"name":"made_up","arguments":{"a":1}}}', '{"next":true}',
        '{"call":{"name":"made_up","arguments":{"a":1}}}', '{"next":true}', '{"text":"Sorry."}'].join('\n'));
    const s = await serve(t, { dir, config: 'providers: [{kind: script, path: answers.jsonl}]\n', args: ['--provider', 'script'] });
    for (const tools of [[TIME], undefined]) {
        const { content, stop_reason: reason } = await create(s, message('x', { tools }));
        assert.deepEqual(content.map(({ type, name, input }) => [type, name, input]), [['tool_use', 'made_up', { a: 1 }]]);
        assert.equal(reason, 'tool_use');
    }
    const [call] = [{ type: 'tool_use', id: 'c1', name: 'made_up', input: { a: 1 } }];
    const result = { type: 'tool_result', tool_use_id: 'c1', is_error: true, content: 'no such tool' };
    const last = await create(s, message('', { tools: [TIME], messages: [user('x'),
        { role: 'assistant', content: [call] }, user([result])] }));
    assert.equal(textOf(last), 'Sorry.');
});

test('a schema for the answer reaches the model', async (t) => {
    const s = await serveModel(t);
    const schema = { type: 'object', properties: { a: { type: 'string' } } };
    await create(s, message('x', { output_config: { format: { type: 'json_schema', schema } } }));
    const { response_format: format } = (await s.asked())[0];
    assert.equal(format.type, 'json_schema');
    assert.deepEqual(format.json_schema.schema, schema);
    // Older SDKs send the format in another member.
    const old = await create(s, message('y', { output_format: { type: 'json_schema', schema }, output_config: { effort: 'low' } }));
    assert.deepEqual((await s.asked())[1].response_format.json_schema.schema, schema);
    assert.deepEqual(old.metadata.left_out, ['output_config']);
});

for (const store of ['memory', 'sqlite']) {
    test(`a thread needs only new messages (${store})`, async (t) => {
        const s = await serveModel(t, { args: store === 'memory' ? ['--store', 'memory:'] : [] });
        const first = await create(s, message('one <<tool get_time {}>>',
            { thread: { type: 'create' }, system: 'Be brief.', tools: [TIME] }));
        const [call] = first.content;
        const result = user([{ type: 'tool_result', tool_use_id: call.id, content: 'noon' }]);
        const next = (message, id) => ({ model: 'mock-model', max_tokens: 100, messages: [message],
            thread: { type: 'continue', previous_message_id: id } });
        const second = await create(s, next(result, first.id));
        assert.equal(textOf(second), 'tool said: noon');
        const third = await create(s, next(user('two'), second.id));
        assert.equal(textOf(third), 'echo: two');
        const again = await create(s, next(user('other'), second.id));
        assert.equal(textOf(again), 'echo: other', 'an older answer can be continued too');
        const asked = await s.asked();
        assert.deepEqual(asked.map(({ messages }) => messages.map(({ role }) => role).join()),
            ['system,user', 'system,user,assistant,tool', 'system,user,assistant,tool,assistant,user',
                'system,user,assistant,tool,assistant,user']);
        assert.ok(asked.every(({ tools }) => tools.length === 1), 'the tools of the first request apply');
        assert.equal(asked[3].messages.at(-1).content, 'other');
        const { json: { sessions } } = await s.get('/api/v1/sessions');
        assert.equal(sessions.length, 2, 'the thread and its branch');
    });
}

test('a thread that is not known is reported as such', async (t) => {
    const s = await serveModel(t);
    for (const id of ['msg_none', '', 5, null]) {
        const { code, json } = await s.post('/v1/messages',
            message('x', { thread: { type: 'continue', previous_message_id: id } }));
        assert.equal(code, 404);
        assert.equal(json.error.type, 'not_found_error');
        assert.deepEqual(json.error.details, { error_code: 'thread_not_found' });
    }
});

test('a thread of another tenant is not known', async (t) => {
    const dir = workspace(t);
    const keys = ['a', 'b'].map((tenant) => makeKey(dir, '--role', 'write', '--tenant', tenant).key);
    const s = await serveModel(t, { dir });
    const first = await s.post('/v1/messages', message('x', { thread: { type: 'create' } }), { key: keys[0] });
    assert.equal(first.code, 200, first.text);
    const body = message('y', { thread: { type: 'continue', previous_message_id: first.json.id } });
    assert.equal((await s.post('/v1/messages', body, { key: keys[1] })).code, 404);
    assert.equal((await s.post('/v1/messages', body, { key: keys[0] })).code, 200);
});

// A service that speaks Anthropic's API, keeps threads, and answers with the number of the request.
async function upstream(t) {
    const asked = [];
    const server = http.createServer((request, response) => {
        const pieces = [];
        request.on('data', (piece) => pieces.push(piece));
        request.on('end', () => {
            const raw = Buffer.concat(pieces).toString();
            asked.push({ url: request.url, headers: request.headers, raw });
            const message = { id: `msg_${asked.length}`, type: 'message', role: 'assistant',
                model: 'm', content: [{ type: 'text', text: `answer ${asked.length}` }],
                stop_reason: 'end_turn', usage: { input_tokens: 1, output_tokens: 1 } };
            response.writeHead(200, { 'content-type': 'application/json' });
            response.end(JSON.stringify(message));
        });
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    t.after(() => { server.closeAllConnections(); server.close(); });
    return { asked, url: `http://127.0.0.1:${server.address().port}` };
}

test('a thread of the model service is forwarded unchanged and recorded', async (t) => {
    const model = await upstream(t);
    const s = await serve(t,
        { args: ['--provider', 'anthropic', '--provider-url', model.url, '--model', 'm'] });
    const headers = { 'x-palaver-session': 'demo', 'anthropic-beta': 'message-threads-2026-08-12' };
    const send = (text) => ask(s.port, 'POST', '/v1/messages', { body: text, headers });
    const first = '{"model":"m", "max_tokens": 9,"messages":[{"role":"user","content":"one"}],'
        + '"thread":{"type":"create"},"new":1e2}';
    const second = '{ "model":"m","max_tokens":9,"messages":[{"role":"user","content":"two"}],'
        + '"thread":{"type":"continue","previous_message_id":"msg_1"}}';
    for (const text of [first, second]) assert.equal((await send(text)).code, 200);
    assert.deepEqual(model.asked.map(({ raw }) => raw), [first, second], 'byte for byte');
    assert.equal(model.asked[1].headers['anthropic-beta'], 'message-threads-2026-08-12');
    assert.equal(model.asked[1].headers['x-palaver-session'], undefined);
    assert.deepEqual(await lines(s, 'demo'),
        ['user: one', 'assistant: answer 1', 'user: two', 'assistant: answer 2']);
});

test('a key that a session has already is recorded as a branch', async (t) => {
    const s = await serveModel(t);
    const id = await s.session({ key: 'taken' });
    await s.post(`/api/v1/sessions/${id}/messages`, { role: 'user', content: 'before' });
    await create(s, message('one <<say first>>'), { 'x-palaver-session': 'taken' });
    assert.deepEqual(await lines(s, 'taken'), ['user: before']);
    const { json: { sessions } } = await s.get('/api/v1/sessions');
    const [branch] = sessions.filter((session) => session.parent_id === id);
    assert.deepEqual(await lines(s, branch.session_id ?? branch.id),
        ['user: one <<say first>>', 'assistant: first']);
});

test('an empty session takes the conversation', async (t) => {
    const s = await serveModel(t);
    await s.session({ key: 'empty' });
    await create(s, message('one <<say first>>'), { 'x-palaver-session': 'empty' });
    assert.deepEqual(await lines(s, 'empty'), ['user: one <<say first>>', 'assistant: first']);
});

test('a session survives a restart, and is continued', async (t) => {
    const dir = workspace(t);
    const headers = { 'x-palaver-session': 'demo' };
    const before = await serveModel(t, { dir });
    await create(before, message('one <<say first>>'), headers);
    await before.stop();
    const s = await serveModel(t, { dir, model: before.model });
    const history = [user('one <<say first>>'), { role: 'assistant', content: 'first' }, user('two <<say second>>')];
    const { text } = await s.post('/v1/messages', message('', { messages: history, stream: true }), { headers });
    assert.equal(eventsOf(text).at(-1).type, 'message_stop');
    assert.deepEqual(await lines(s, 'demo'), ['user: one <<say first>>', 'assistant: first',
        'user: two <<say second>>', 'assistant: second']);
});

test('the example of docs/anthropic.md works as written', async (t) => {
    const page = fs.readFileSync(new URL('../../../docs/anthropic.md', import.meta.url), 'utf8');
    const [, script] = /```sh\n([\s\S]*?)```/.exec(page);
    const s = await serve(t);
    const run = spawn('bash', ['-euc', script.replace('127.0.0.1:7077', `127.0.0.1:${s.port}`)],
        { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    for await (const piece of run.stdout) out += piece;
    const [models, hello, counted, recorded] = out.trim().split('\n').map(JSON.parse);
    assert.equal(models.data[0].type, 'model');
    assert.match(textOf(hello), /Hello!/);
    assert.ok(counted.input_tokens > 0);
    assert.match(textOf(recorded), /Ann/);
    assert.equal((await lines(s, 'ann')).length, 2);
});

test('a long history is sent unchanged to a model with unknown limits', async (t) => {
    const s = await serveModel(t);
    const messages = Array.from({ length: 41 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user',
        content: `${i} ${'lorem ipsum '.repeat(1000)}` }));
    const body = message('x', { model: 'claude-opus-5-5', max_tokens: 128000, messages });
    await create(s, body);
    const { messages: sent, max_tokens: max, max_completion_tokens: other } = (await s.asked()).at(-1);
    assert.deepEqual(sent, messages);
    assert.deepEqual([max, other], [undefined, undefined], 'the limit was for another model');
    // The same for the other APIs of clients that send their whole history.
    const answer = await s.post('/v1/responses', { model: 'mock-model', store: false,
        input: messages.map(({ role, content }) => ({ role, content })) });
    assert.equal(answer.code, 200, answer.text);
    assert.equal((await s.asked()).at(-1).messages.length, messages.length);
});

test('max_tokens is lowered to what the model can do', async (t) => {
    const s = await serveModel(t, { config: 'models:\n  - name: mock-*\n    output: 4000\n    context: 60000\n' });
    const asked = async (more) => {
        await create(s, message('x', more));
        const { max_tokens: max, max_completion_tokens: other } = (await s.asked()).at(-1);
        return max ?? other;
    };
    assert.equal(await asked({ max_tokens: 128000 }), 4000);
    assert.equal(await asked({ max_tokens: 128000, model: 'claude-opus-5-5' }), 4000);
    assert.equal(await asked({ max_tokens: 17 }), 17);
});
