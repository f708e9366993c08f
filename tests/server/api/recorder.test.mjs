// The recorder: clients that send their whole history with every request get one session for each
// conversation, in every API. The model service gets the bytes of the client unchanged.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { MockAnthropic } from '../../conformance/mock-anthropic.mjs';
import { MockModel } from '../../conformance/mock-model.mjs';
import { openSocket } from '../socket.mjs';
import { makeKey, palaver, serve, workspace } from '../support.mjs';

const READ = { type: 'object', properties: { path: { type: 'string' } } };

// Starts a server over a scripted model service of either kind.
async function start(t, kind = 'openai', options = {}) {
    const mock = kind === 'openai' ? new MockModel() : new MockAnthropic();
    const url = await mock.listen();
    t.after(() => mock.close());
    const s = await serve(t, { ...options, args: ['--provider', kind, '--provider-url',
        kind === 'openai' ? `${url}/v1` : url, '--model', 'mock-model'] });
    return { ...s, raw: async () =>
        (await (await fetch(`${url}/__requests`)).json()).requests.map(({ raw }) => raw) };
}

const dataOf = (text) => text.split('\n').filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)));

// ---- The APIs, as their clients use them: each returns the messages of an answer ----

const chat = {
    path: '/v1/chat/completions',
    body: (history, more) => ({ model: 'mock-model', messages: [
        { role: 'system', content: `It is ${more.date ?? 'Monday'}.` }, ...history],
    tools: [{ type: 'function', function: { name: 'read', parameters: READ } }] }),
    user: (text) => ({ role: 'user', content: text }),
    result: (id, text) => ({ role: 'tool', tool_call_id: id, content: text }),
    answer: ({ choices: [{ message }] }) => [message],
    join: (text) => {
        const message = { role: 'assistant', content: '' };
        for (const { choices: [choice] } of dataOf(text)) {
            message.content += choice?.delta.content ?? '';
            for (const { index, id, function: f } of choice?.delta.tool_calls ?? []) {
                message.tool_calls ??= [];
                message.tool_calls[index] ??= { id, type: 'function', function: { name: f.name, arguments: '' } };
                message.tool_calls[index].function.arguments += f.arguments ?? '';
            }
        }
        return [message];
    },
    calls: ([message]) => (message.tool_calls ?? []).map(({ id }) => id),
};

const messages = {
    path: '/v1/messages',
    body: (history) => ({ model: 'mock-model', max_tokens: 100, messages: history,
        tools: [{ name: 'read', input_schema: READ }] }),
    user: (text) => ({ role: 'user', content: text }),
    result: (id, text) => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: text }] }),
    answer: ({ content }) => [{ role: 'assistant', content }],
    join: (text) => {
        const content = [];
        for (const { type, index, content_block: block, delta } of dataOf(text)) {
            if (type === 'content_block_start') content[index] = { ...block, json: '' };
            if (delta?.text) content[index].text += delta.text;
            if (delta?.partial_json) content[index].json += delta.partial_json;
        }
        return [{ role: 'assistant', content: content.map(({ json, ...block }) =>
            (block.type === 'tool_use' ? { ...block, input: JSON.parse(json || '{}') } : block)) }];
    },
    calls: ([{ content }]) => content.filter(({ type }) => type === 'tool_use').map(({ id }) => id),
};

const responses = {
    path: '/v1/responses',
    body: (history) => ({ model: 'mock-model', store: false, input: history,
        tools: [{ type: 'function', name: 'read', parameters: READ, strict: false }] }),
    user: (text) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }),
    result: (id, text) => ({ type: 'function_call_output', call_id: id, output: text }),
    answer: ({ output }) => output,
    join: (text) => dataOf(text).at(-1).response.output,
    calls: (items) => items.filter(({ type }) => type === 'function_call').map(({ call_id: id }) => id),
};

// A client that keeps its history.
function agent(s, api, headers, { stream = true, key, ...more } = {}) {
    const history = [];
    const sent = [];
    const request = async (list = history, extra = {}) => {
        const body = JSON.stringify({ ...api.body(list, more), stream, ...extra }, null, 1);
        sent.push(body);
        const answer = await s.post(api.path, body, { headers, key });
        assert.equal(answer.code, 200, answer.text);
        return stream ? api.join(answer.text) : api.answer(answer.json);
    };
    const step = async (...news) => {
        history.push(...news);
        const answer = await request();
        history.push(...answer);
        return answer;
    };
    return { history, sent, request, step, more };
}

// ---- What is stored ----

const partText = (part) => part.text ?? part.output ??
    (part.type === 'tool_call' ? `${part.name}(${part.arguments})` : '');
const linesOf = (list) => list.flatMap(({ role, content, parts }) => {
    const texts = content !== undefined ? [content] : (parts ?? []).map(partText).filter(Boolean);
    return role === 'tool' ? texts.map((text) => `tool: ${text}`) : [`${role}: ${texts.join(' ')}`];
});
const lines = async (s, name, options) => {
    const { code, json, text } = await s.get(
        `/api/v1/sessions/${encodeURIComponent(name)}/messages?limit=1000`, options);
    assert.equal(code, 200, text);
    return linesOf(json.messages);
};
// Without the temporary sessions of turns, which are erased soon after the answer.
const sessions = async (s, options) => (await s.get('/api/v1/sessions?limit=200', options)).json.sessions
    .filter(({ expires_at: at }) => !at);

const CODEX = { 'session-id': 'c-1', originator: 'codex_exec', 'user-agent': 'codex_exec/0.166.0 (x)' };
const OPENCODE = { 'x-session-id': 'ses_1', 'x-session-affinity': 'ses_1', 'user-agent': 'opencode/1.18.33 ai-sdk/x' };
const CLAUDE = { 'x-claude-code-session-id': 'u-1', 'user-agent': 'claude-cli/2.1.325 (external, sdk-cli)' };

const CASES = [
    ['chat completions, forwarded', chat, 'openai', OPENCODE, 'opencode:ses_1'],
    ['chat completions, translated', chat, 'anthropic', OPENCODE, 'opencode:ses_1'],
    ['messages, forwarded', messages, 'anthropic', CLAUDE, 'claude-code:u-1'],
    ['messages, translated', messages, 'openai', CLAUDE, 'claude-code:u-1'],
    ['responses', responses, 'openai', CODEX, 'codex:c-1'],
];

for (const [name, api, kind, headers, key] of CASES) {
    for (const stream of [true, false]) {
        test(`${name}: a conversation with tools is one session (stream: ${stream})`, async (t) => {
            const s = await start(t, kind);
            const a = agent(s, api, headers, { stream });
            const text = 'go <<tool read {"path":"a"}>><<next>><<tool read {"path":"b"}>><<next>><<say Done.>>';
            const expected = [`user: ${text}`, 'assistant: read({"path":"a"})'];
            const [one] = api.calls(await a.step(api.user(text)));
            assert.deepEqual(await lines(s, key), expected, 'the first step');
            const [two] = api.calls(await a.step(api.result(one, 'first')));
            expected.push('tool: first', 'assistant: read({"path":"b"})');
            assert.deepEqual(await lines(s, key), expected, 'the second step');
            await a.step(api.result(two, 'second'));
            expected.push('tool: second', 'assistant: Done.');
            a.more.date = 'Tuesday';
            await a.step(api.user('bye <<say Bye.>>'));
            expected.push('user: bye <<say Bye.>>', 'assistant: Bye.');
            assert.deepEqual(await lines(s, key), expected, 'the next turn');

            await a.request(a.history.slice(0, -1));
            assert.deepEqual(await lines(s, key), expected, 'a retry adds nothing');
            assert.equal((await sessions(s)).length, 1);

            await a.request([...a.history.slice(0, -2), api.user('instead <<say Other.>>')]);
            assert.deepEqual(await lines(s, key), expected, 'the old history is kept');
            const all = await sessions(s);
            assert.equal(all.length, 2);
            const fork = all.find((session) => session.parent_id);
            assert.deepEqual(await lines(s, fork.session_id ?? fork.id),
                [...expected.slice(0, -2), 'user: instead <<say Other.>>', 'assistant: Other.']);
            if (name.endsWith('forwarded')) assert.deepEqual(await s.raw(), a.sent, 'byte for byte');
        });
    }
}

for (const [name, api, kind, headers, key] of CASES.filter(([one]) => one.endsWith('forwarded'))) {
    test(`${name}: the usage of a session includes its calls`, async (t) => {
        const s = await start(t, kind);
        const usage = async (id) => (await s.get(`/api/v1/sessions/${encodeURIComponent(id)}/usage`)).json;
        const calls = async (id, count) => {
            let now = {};
            for (let i = 0; i < 500 && now.calls !== count; i++) {
                if (i > 0) await new Promise((resolve) => setTimeout(resolve, 20));
                now = await usage(id);
            }
            assert.equal(now.calls, count, JSON.stringify(now));
            assert.ok(now.input_tokens > 0 && now.output_tokens > 0, JSON.stringify(now));
        };
        for (const [i, stream] of [true, false].entries()) {
            const a = agent(s, api, headers, { stream });
            const more = stream && api === chat ? { stream_options: { include_usage: true } } : {};
            await a.request([api.user('one <<say 1>>')], more);
            await calls(key, 2 * i + 1);
            await a.request([api.user('one <<say 1>>')], more);
            await calls(key, 2 * i + 2);
        }
        const a = agent(s, api, headers);
        await a.request([api.user('instead <<say Other.>>')]);
        const fork = (await sessions(s)).find(({ parent_id: id }) => id);
        await calls(fork.session_id ?? fork.id, 1);
        await calls(key, 4);
        assert.equal((await s.get('/api/v1/usage')).json.calls, 5);
    });
}

test('responses over a WebSocket: a conversation with tools is one session', async (t) => {
    const s = await start(t);
    const socket = await openSocket(s.port, { headers: CODEX });
    t.after(() => socket.leave());
    const { tools } = responses.body([]);
    let previous;
    const step = async (input, more = {}) => {
        const events = await socket.create({ model: 'mock-model', store: false, stream: true, tools, input,
            ...(previous && { previous_response_id: previous }), ...more });
        assert.equal(events.at(-1).type, 'response.completed', JSON.stringify(events.at(-1)));
        previous = events.at(-1).response.id;
        return events.at(-1).response.output;
    };
    const developer = { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be good.' }] };
    assert.deepEqual(await step([developer], { generate: false }), []);
    assert.deepEqual(await sessions(s), [], 'a warm-up alone records nothing');
    const text = 'go <<tool read {"path":"a"}>><<next>><<say Done.>>';
    const [id] = responses.calls(await step([responses.user(text)]));
    const expected = ['system: Be good.', `user: ${text}`, 'assistant: read({"path":"a"})'];
    assert.deepEqual(await lines(s, 'codex:c-1'), expected);
    await step([responses.result(id, 'first')]);
    const fork = previous;
    expected.push('tool: first', 'assistant: Done.');
    await step([responses.user('bye <<say Bye.>>')]);
    expected.push('user: bye <<say Bye.>>', 'assistant: Bye.');
    assert.deepEqual(await lines(s, 'codex:c-1'), expected);
    assert.equal((await sessions(s)).length, 1);

    previous = fork;
    await step([responses.user('instead <<say Other.>>')]);
    const all = await sessions(s);
    assert.equal(all.length, 2, 'a branch');
    assert.deepEqual(await lines(s, all.find((session) => session.parent_id).session_id),
        [...expected.slice(0, -2), 'user: instead <<say Other.>>', 'assistant: Other.']);

    // After a resume, the warm-up is repeated and the whole history follows on a new connection.
    const again = await openSocket(s.port, { headers: CODEX });
    t.after(() => again.leave());
    const warmUp = await again.create({ model: 'mock-model', store: false, tools, input: [developer], generate: false });
    const history = [responses.user(text), { type: 'function_call', call_id: id, name: 'read', arguments: '{"path":"a"}' },
        responses.result(id, 'first'), { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Done.' }] },
        responses.user('bye <<say Bye.>>'), { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Bye.' }] },
        responses.user('more <<say More.>>')];
    await again.create({ model: 'mock-model', store: false, tools, input: history, previous_response_id: warmUp.at(-1).response.id });
    assert.deepEqual(await lines(s, 'codex:c-1'), [...expected, 'user: more <<say More.>>', 'assistant: More.']);
    assert.equal((await sessions(s)).length, 2);
    const { json: { messages: stored } } = await s.get('/api/v1/sessions/codex:c-1/messages?limit=100');
    assert.ok(stored.at(-1).usage.output_tokens > 0, 'the usage is recorded');
});

test('SIGHUP applies recorder', async (t) => {
    const s = await start(t, 'openai', { config: 'recorder: off\n' });
    const a = agent(s, chat, OPENCODE);
    await a.step(chat.user('one <<say 1>>'));
    assert.deepEqual(await sessions(s), []);
    fs.writeFileSync(path.join(s.dir, 'palaver.yaml'), 'recorder: headers\n');
    s.child.kill('SIGHUP');
    await s.logged(/reloaded 'recorder': the new value is "headers"/);
    await a.step(chat.user('two <<say 2>>'));
    assert.equal((await lines(s, 'opencode:ses_1')).length, 4, 'the next request records everything');
});

test('a title request stays apart, whichever comes first', async (t) => {
    const s = await start(t);
    for (const [id, order] of [['ses_a', ['title', 'talk']], ['ses_b', ['talk', 'title']]]) {
        const headers = { ...OPENCODE, 'x-session-id': id };
        const a = agent(s, chat, headers);
        for (const kind of order) {
            if (kind === 'talk') await a.step(chat.user('hello <<say Hi.>>'));
            else await a.request([chat.user('hello <<say A title>>')], { tools: undefined });
        }
        await a.step(chat.user('more <<say More.>>'));
        for (let i = 0; i < 2; i++) await a.request([chat.user('more <<say Another>>')], { tools: undefined });
        assert.deepEqual(await lines(s, `opencode:${id}`),
            ['user: hello <<say Hi.>>', 'assistant: Hi.', 'user: more <<say More.>>', 'assistant: More.']);
        assert.deepEqual(await lines(s, `opencode:${id}:side`),
            ['user: hello <<say A title>>', 'assistant: A title', 'user: more <<say Another>>', 'assistant: Another']);
    }
    assert.equal((await sessions(s)).length, 4, 'and no forks');
});

test('a title that Codex requests is not listed as a conversation', async (t) => {
    const s = await start(t);
    const format = { type: 'json_schema', name: 'codex_output_schema', schema: { type: 'object' } };
    const ask = async (id, more) => assert.equal((await s.post('/v1/responses', { model: 'mock-model', store: false,
        input: [{ role: 'user', content: '<<say x>>' }], ...more }, { headers: { ...CODEX, 'session-id': id } })).code, 200);
    const tools = [{ type: 'function', name: 'ls', parameters: { type: 'object' } }];
    await ask('title', { text: { format } });
    await ask('talk', { text: { format }, tools });
    await ask('plain', {});
    await ask('items', { text: { format }, input: [{ type: 'additional_tools', tools },
        { role: 'user', content: '<<say x>>' }] });
    assert.deepEqual((await sessions(s)).map(({ key }) => key).sort(),
        ['codex:items', 'codex:plain', 'codex:talk', 'codex:title:side']);
});

test('a title that Codex requests over a WebSocket is not listed as a conversation', async (t) => {
    const s = await start(t);
    const format = { type: 'json_schema', name: 'codex_output_schema', schema: { type: 'object' } };
    const tools = [{ type: 'function', name: 'ls', parameters: { type: 'object' } }];
    const developer = { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be good.' }] };
    const ask = async (id, first, more) => {
        const socket = await openSocket(s.port, { headers: { ...CODEX, 'session-id': id } });
        t.after(() => socket.leave());
        const settings = { model: 'mock-model', store: false, text: { format }, ...more };
        const warm = await socket.create({ ...settings, input: first, generate: false });
        const events = await socket.create({ ...settings, previous_response_id: warm.at(-1).response.id,
            input: [responses.user('<<say x>>')] });
        assert.equal(events.at(-1).type, 'response.completed');
    };
    await ask('title', [developer]);
    await ask('talk', [developer], { tools });
    await ask('items', [{ type: 'additional_tools', tools }, developer]);
    await ask('plain', [developer], { text: {} });
    assert.deepEqual((await sessions(s)).map(({ key }) => key).sort(),
        ['codex:items', 'codex:plain', 'codex:talk', 'codex:title:side']);
});

test("Claude Code's moving cache marks and its system message change nothing", async (t) => {
    const s = await start(t, 'anthropic');
    const mark = { cache_control: { type: 'ephemeral' } };
    const cached = (role, text) => ({ role, content: [{ type: 'text', text, ...mark }] });
    const a = agent(s, messages, { ...CLAUDE, 'anthropic-beta': 'claude-code-20250219' });
    await a.request([cached('user', 'one <<say 1>>'), cached('system', 'the environment')]);
    await a.request([messages.user('one <<say 1>>'), { role: 'system', content: 'the environment' },
        { role: 'assistant', content: [{ type: 'text', text: '1' }] }, cached('user', 'two <<say 2>>')]);
    assert.deepEqual(await lines(s, 'claude-code:u-1'), ['user: one <<say 1>>',
        'system: the environment', 'assistant: 1', 'user: two <<say 2>>', 'assistant: 2']);
    assert.equal((await sessions(s)).length, 1);
});

// Sub-agents have histories of their own, under the name of the conversation.
test('the conversations of sub-agents are sessions, and no branches', async (t) => {
    const s = await start(t);
    const main = agent(s, messages, CLAUDE);
    const sub = agent(s, messages, { ...CLAUDE, 'x-claude-code-agent-id': 'a0b1' });
    await main.step(messages.user('one <<say 1>>'));
    await sub.step(messages.user('part one <<say p1>>'));
    await main.step(messages.user('two <<say 2>>'));
    await sub.step(messages.user('part two <<say p2>>'));
    await sub.request([messages.user('no tools <<say p3>>')], { tools: undefined });
    const thread = (id) => agent(s, responses, { ...CODEX, 'thread-id': id });
    await thread('c-1').step(responses.user('one <<say 1>>'));
    await thread('c-2').step(responses.user('part one <<say p1>>'));
    assert.deepEqual(await lines(s, 'claude-code:u-1'),
        ['user: one <<say 1>>', 'assistant: 1', 'user: two <<say 2>>', 'assistant: 2']);
    assert.deepEqual(await lines(s, 'claude-code:u-1:a0b1'), ['user: part one <<say p1>>', 'assistant: p1',
        'user: part two <<say p2>>', 'assistant: p2']);
    assert.deepEqual(await lines(s, 'codex:c-1'), ['user: one <<say 1>>', 'assistant: 1']);
    assert.deepEqual(await lines(s, 'codex:c-2'), ['user: part one <<say p1>>', 'assistant: p1']);
    const roots = (await sessions(s)).filter(({ parent_id: parent }) => !parent);
    assert.deepEqual(roots.map(({ key }) => key).sort(),
        ['claude-code:u-1', 'claude-code:u-1:a0b1', 'codex:c-1', 'codex:c-2']);
});

test('Claude Code without tools is a conversation, and its titles are side requests', async (t) => {
    const s = await start(t);
    const { request } = agent(s, messages, CLAUDE);
    await request([messages.user('a title? <<say Tides>>')], { tools: [] });
    const main = { tools: [], context_management: { edits: [] } };
    const history = [messages.user('one <<say 1>>')];
    history.push(...await request(history, main), messages.user('two <<say 2>>'));
    await request(history, main);
    assert.deepEqual(await lines(s, 'claude-code:u-1'),
        ['user: one <<say 1>>', 'assistant: 1', 'user: two <<say 2>>', 'assistant: 2']);
    assert.deepEqual(await lines(s, 'claude-code:u-1:side'), ['user: a title? <<say Tides>>', 'assistant: Tides']);
});

test('prompt_cache_key names a conversation', async (t) => {
    const s = await start(t);
    for (const api of [chat, responses]) {
        const a = agent(s, api, {});
        await a.request([api.user('one <<say 1>>')], { prompt_cache_key: `k-${api.path}` });
        assert.deepEqual(await lines(s, `cache:k-${api.path}`), ['user: one <<say 1>>', 'assistant: 1']);
    }
});

test('old versions of Claude Code and Codex name their conversation elsewhere', async (t) => {
    const s = await start(t);
    const claude = { 'user-agent': 'claude-cli/1.0.60 (external, cli)' };
    for (const user of ['user_0a1b_account__session_s-1', '{"device_id":"d","session_id":"s-2"}'])
        await agent(s, messages, claude, { metadata: user }).request([messages.user('one <<say 1>>')], { metadata: { user_id: user } });
    await agent(s, messages, {}).request([messages.user('one <<say 1>>')], { metadata: { user_id: 'user_0a1b_account__session_s-3' } });
    for (const [name, id] of [['conversation_id', 'c-1'], ['session_id', 'c-2']])
        await agent(s, responses, { [name]: id, originator: 'codex_cli_rs' }).step(responses.user('one <<say 1>>'));
    assert.deepEqual((await sessions(s)).map(({ key }) => key).sort(),
        ['claude-code:s-1', 'claude-code:s-2', 'codex:c-1', 'codex:c-2']);
});

test('the headers of other clients name nothing', async (t) => {
    const s = await start(t);
    for (const headers of [{ 'session-id': 'x' }, { 'x-session-id': 'x' }, {}])
        await agent(s, chat, headers).step(chat.user('one <<say 1>>'));
    assert.deepEqual(await sessions(s), []);
});

test('recorder: off records nothing', async (t) => {
    const s = await start(t, 'openai', { config: 'recorder: off\n' });
    for (const [, api, , headers] of CASES) await agent(s, api, headers).step(api.user('one <<say 1>>'));
    assert.deepEqual(await sessions(s), []);
});

test('recorder: on recognizes a conversation by its beginning', async (t) => {
    const s = await start(t, 'openai', { config: 'recorder: on\n' });
    for (const api of [chat, messages, responses]) {
        const a = agent(s, api, {});
        await a.step(api.user(`${api.path} <<say 1>>`));
        await a.step(api.user('two <<say 2>>'));
    }
    const all = await sessions(s);
    assert.equal(all.length, 3);
    for (const { key } of all) {
        assert.match(key, /^history:[0-9a-f]{32}$/);
        assert.equal((await lines(s, key)).length, 4);
    }
});

test('two tenants stay apart', async (t) => {
    const dir = workspace(t);
    const keys = ['a', 'b'].map((tenant) => makeKey(dir, '--role', 'write', '--tenant', tenant).key);
    const s = await start(t, 'openai', { dir });
    for (const key of keys) await agent(s, chat, OPENCODE, { key }).step(chat.user(`${key} <<say 1>>`));
    for (const key of keys)
        assert.deepEqual(await lines(s, 'opencode:ses_1', { key }), [`user: ${key} <<say 1>>`, 'assistant: 1']);
});

test('a stream that breaks off is not recorded', async (t) => {
    const s = await start(t);
    const cut = chat.user('x <<chunk 2>><<cut after=2 mode=eof>><<say never>>');
    const { code } = await s.post(chat.path, { ...chat.body([cut], {}), stream: true }, { headers: OPENCODE });
    assert.equal(code, 200);
    assert.deepEqual(await sessions(s), []);
});

test('a stream without [DONE] is recorded', async (t) => {
    const model = http.createServer((request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const choice = { index: 0, delta: { content: 'Hi.' }, finish_reason: 'stop' };
        request.resume().on('end', () => response.end(`data: ${JSON.stringify({ choices: [choice] })}\n\n`));
    });
    await new Promise((resolve) => model.listen(0, '127.0.0.1', resolve));
    t.after(() => { model.closeAllConnections(); model.close(); });
    const s = await serve(t, { args: ['--provider', 'openai', '--provider-url',
        `http://127.0.0.1:${model.address().port}/v1`, '--model', 'm'] });
    await agent(s, chat, OPENCODE).step(chat.user('one'));
    assert.deepEqual(await lines(s, 'opencode:ses_1'), ['user: one', 'assistant: Hi.']);
});

test('recorder: on: conversations with the same first message are branches of one session', async (t) => {
    const s = await start(t, 'openai', { config: 'recorder: on\n' });
    const agents = Array.from({ length: 4 }, () => agent(s, chat, {}));
    for (const a of agents) await a.step(chat.user('hello <<say Hi.>>'));
    assert.equal((await sessions(s)).length, 1, 'the same beginning with the same answer is one session');
    for (const [i, a] of agents.entries()) await a.step(chat.user(`I am ${i} <<say ${i}>>`));
    for (const a of agents) await a.step(chat.user('bye <<say Bye.>>'));
    const all = await sessions(s);
    assert.equal(all.length, 4);
    const [root, ...others] = [...all].sort((a, b) => Boolean(a.parent_id) - Boolean(b.parent_id));
    assert.match(root.key, /^history:/);
    for (const { parent_id: parent } of others) assert.equal(parent, root.session_id);
    const seen = await Promise.all(all.map(async ({ session_id: id }) => (await lines(s, id)).join()));
    for (const a of agents) assert.ok(seen.includes(linesOf(a.history).join()), `${seen}`);
});

for (const stream of [true, false]) test(`parallel requests of one conversation are branches (stream: ${stream})`, async (t) => {
    const s = await start(t);
    const a = agent(s, chat, OPENCODE, { stream });
    await a.step(chat.user('one <<say 1>>'));
    const ends = await Promise.all(Array.from({ length: 64 }, async (_, i) => {
        const list = [...a.history, chat.user(`branch ${i} <<say ${i}>>`)];
        return linesOf([...list, ...await a.request(list)]).join();
    }));
    const all = await sessions(s);
    assert.equal(all.length, 64);
    const seen = await Promise.all(all.map(async ({ session_id: id }) => (await lines(s, id)).join()));
    assert.deepEqual(seen.sort(), ends.sort());
});

test('the same request twice at the same time is recorded once', async (t) => {
    const s = await start(t);
    const a = agent(s, chat, OPENCODE);
    await a.step(chat.user('one <<say 1>>'));
    const list = [...a.history, chat.user('two <<say 2>>')];
    await Promise.all(Array.from({ length: 8 }, () => a.request(list)));
    assert.equal((await sessions(s)).length, 1);
    assert.equal((await lines(s, 'opencode:ses_1')).length, 4);
});

test('a request that fails or is abandoned leaves nothing, and its retry is recorded once', async (t) => {
    const s = await start(t);
    const a = agent(s, chat, OPENCODE);
    await a.step(chat.user('one <<say 1>>'));
    for (const what of ['<<fail status=500 times=1>>', '<<fail status=429 times=2>>']) {
        const list = [...a.history, chat.user(`${what}<<say ok>>`)];
        const body = { ...chat.body(list, {}), stream: true };
        let code;
        do ({ code } = await s.post(chat.path, body, { headers: OPENCODE })); while (code !== 200);
        a.history.push(list.at(-1), { role: 'assistant', content: 'ok' });
    }
    // A client that leaves in the middle of the stream, and sends the same request again.
    const list = [...a.history, chat.user('<<chunk 1>><<stall after=2 ms=3000>><<say slowly>>')];
    const text = JSON.stringify({ ...chat.body(list, {}), stream: true });
    await new Promise((resolve, reject) => {
        const request = http.request({ host: '127.0.0.1', port: s.port, method: 'POST', path: chat.path, agent: false,
            headers: { ...OPENCODE, 'content-length': Buffer.byteLength(text) } }, (response) => {
            response.once('data', () => { request.destroy(); resolve(); });
            response.on('error', () => {});
        });
        request.on('error', reject);
        request.end(text);
    });
    assert.equal((await lines(s, 'opencode:ses_1')).length, 6);
    await a.step(chat.user('instead <<say fine>>'));
    assert.deepEqual(await lines(s, 'opencode:ses_1'), linesOf(a.history));
    assert.equal((await sessions(s)).length, 1);
});

test('after SIGKILL in the middle of an answer, the next request records what is missing', async (t) => {
    const s = await start(t);
    const dir = s.dir;
    const a = agent(s, chat, OPENCODE);
    await a.step(chat.user('one <<say 1>>'));
    const hanging = s.post(chat.path, { ...chat.body([...a.history, chat.user('two <<hang>>')], {}), stream: true },
        { headers: OPENCODE }).catch(() => {});
    while ((await s.raw()).length < 2) await new Promise((resolve) => { setTimeout(resolve, 10); });
    await s.stop('SIGKILL');
    await hanging;
    const next = await start(t, 'openai', { dir });
    assert.equal((await lines(next, 'opencode:ses_1')).length, 2);
    const b = agent(next, chat, OPENCODE);
    b.history.push(...a.history, chat.user('two <<say 2>>'), { role: 'assistant', content: '2' }); // from elsewhere
    await b.step(chat.user('three <<say 3>>'));
    assert.deepEqual(await lines(next, 'opencode:ses_1'), linesOf(b.history));
    assert.equal((await sessions(next)).length, 1);
});

test('images are stored once', async (t) => {
    const png = Buffer.alloc(200_000, 'not really an image').toString('base64');
    const forms = [
        [chat, OPENCODE, 'opencode:ses_1', { role: 'user', content: [{ type: 'text', text: 'see <<say ok>>' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } }] }],
        [messages, CLAUDE, 'claude-code:u-1', { role: 'user', content: [{ type: 'text', text: 'see <<say ok>>' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }] }],
        [responses, CODEX, 'codex:c-1', { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'see <<say ok>>' },
            { type: 'input_image', detail: 'auto', image_url: `data:image/png;base64,${png}` }] }],
    ];
    const s = await start(t);
    for (const [api, headers, key, message] of forms) {
        const a = agent(s, api, headers);
        await a.step(message);
        for (let i = 0; i < 3; i++) await a.step(api.user(`more ${i} <<say ${i}>>`));
        assert.equal((await lines(s, key)).length, 8, key);
    }
    assert.equal((await sessions(s)).length, 3);
    assert.equal(JSON.parse(palaver(s.dir, 'stats', '--json')).blobs, 1);
});

test('the store grows by what is new', async (t) => {
    const s = await start(t);
    for (const [api, headers, key] of [[chat, OPENCODE, 'opencode:ses_1'], [messages, CLAUDE, 'claude-code:u-1'],
        [responses, CODEX, 'codex:c-1']]) {
        const a = agent(s, api, headers);
        const script = Array.from({ length: 50 }, (_, i) => `<<tool read {"path":"f${i}"}>>`).join('<<next>>');
        let [id] = api.calls(await a.step(api.user(`${script}<<next>><<say Done.>>`)));
        for (let i = 0; i < 50; i++)
            [id] = api.calls(await a.step(api.result(id, `${i}`.padEnd(2048, 'abc '))));
        const stored = await lines(s, key);
        assert.equal(stored.length, 102);
        const { json } = await s.get(`/api/v1/sessions/${key}`);
        const unique = Buffer.byteLength(JSON.stringify(a.history));
        t.diagnostic(`${api.path}: stored ${json.bytes} bytes, unique ${unique}: ${(json.bytes / unique).toFixed(3)}`);
        assert.ok(json.bytes / unique < 1.2, `${json.bytes} of ${unique}`);
    }
});

test('a character that the service divides between two chunks is one character', async (t) => {
    const chunk = (delta, finish_reason = null) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm',
        choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const upstream = http.createServer((request, response) => request.resume().on('end', () => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const units = [...'h\u{1f389}!\u{1f600}'].join('').split(''); // UTF-16 units
        response.end(`${units.map((content) => chunk({ content })).join('')}${chunk({}, 'stop')}data: [DONE]\n\n`);
    })).listen(0, '127.0.0.1');
    await new Promise((resolve) => { upstream.on('listening', resolve); });
    t.after(() => upstream.close());
    const s = await serve(t, { args: ['--provider', 'openai', '--provider-url', `http://127.0.0.1:${upstream.address().port}/v1`, '--model', 'm'] });
    const said = 'h\u{1f389}!\u{1f600}';
    const history = [{ role: 'user', content: 'x' }];
    for (let i = 1; i <= 2; i++) {
        assert.equal((await s.post('/v1/chat/completions', { stream: true, prompt_cache_key: 'k', messages: history })).code, 200);
        history.push({ role: 'assistant', content: said }, { role: 'user', content: `y${i}` });
    }
    const { json: { sessions } } = await s.get('/api/v1/sessions');
    assert.equal(sessions.length, 1, 'no branch');
    const { json: { messages } } = await s.get('/api/v1/sessions/cache:k/messages');
    assert.deepEqual(messages.map(({ content }) => content), ['x', said, 'y1', said]);
    // A turn, which reads the answer for another API.
    const { json } = await s.post('/v1/messages', { model: 'm', max_tokens: 9, messages: history });
    assert.equal(json.content[0].text, said);
});
