// The context that a model receives for a session, over HTTP: the plan, its prefix, thresholds and
// the last round.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { serve, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

const bounded = { timeout: 120_000 };
const plan = async (s, id, query = '') => {
    const { code, json, text } = await s.get(`/api/v1/sessions/${id}/context${query}`);
    assert.equal(code, 200, text);
    return json;
};
const say = async (s, id, message) => {
    const { code, json, text } = await s.turn(id, { message });
    assert.equal(code, 200, text);
    return json;
};
// The number of messages that two requests have in common at their beginning.
const shared = (a, b) => {
    let at = 0;
    while (at < a.length && at < b.length && JSON.stringify(a[at]) === JSON.stringify(b[at])) at++;
    return at;
};
const roles = (request) => request.messages.map(({ role }) => role);

test('the prefix of a plan is the beginning of the last request, also after a restart', bounded,
    async (t) => {
        const dir = workspace(t);
        const one = await serveModel(t, { dir, config: 'turn:\n  system: "Be brief."\n' });
        const id = await one.session();
        assert.deepEqual((await plan(one, id)).prefix, { items: 0, tokens: 0, break: '' });
        for (const text of ['one', 'two', 'three']) await say(one, id, text);
        const last = (await one.asked()).at(-1);
        const { prefix, items } = await plan(one, id);
        assert.equal(prefix.items, last.messages.length + 1); // and the tools
        assert.equal(prefix.break, '');
        const sent = items.filter(({ hash }) => hash).slice(0, prefix.items);
        assert.equal(prefix.tokens, sent.reduce((sum, { tokens }) => sum + tokens, 0));
        await one.stop();
        const two = await serveModel(t, { dir, model: one.model,
            config: 'turn:\n  system: "Be brief."\n' });
        assert.deepEqual((await plan(two, id)).prefix, prefix);
    });

test('a plan assumes that the extras of the last request come again', bounded, async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const tools = [{ name: 'weather', description: 'tells it', schema: { type: 'object' } }];
    for (const message of ['one', 'two']) {
        const { code, text } = await s.turn(id, { message, system: 'Be kind.', tools });
        assert.equal(code, 200, text);
    }
    const { prefix, items } = await plan(s, id);
    assert.equal(prefix.items, (await s.asked()).at(-1).messages.length + 1);
    assert.equal(prefix.break, '');
    assert.equal(items[0].kind, 'system');
    // A turn without tools does not send any.
    await say(s, id, 'three');
    assert.ok(!roles((await s.asked()).at(-1)).includes('system'));
    const after = await plan(s, id);
    assert.equal(after.items[0].kind, 'tools');
    assert.equal(after.prefix.break, '');
});

const small = (strategy, more = '') => `models:
  - {name: mock-model, context: 3000, output: 500}
context:
  token_strategy: ${strategy}
${more}`;

test('a sliding window moves rarely, stays within its limit, and begins with the user', bounded,
    async (t) => {
        const s = await serveModel(t, { config: small('sliding_window') });
        const id = await s.session();
        for (let i = 0; i < 40; i++) await say(s, id, `${i} ${'one more word '.repeat(20)}`);
        const asked = await s.asked();
        let moves = 0;
        asked.forEach((request, i) => {
            const first = request.messages.find(({ role }) => role !== 'system');
            assert.equal(first.role, 'user');
            const lastSystem = roles(request).lastIndexOf('system');
            assert.ok(lastSystem < roles(request).findIndex((role) => role !== 'system'));
            if (i > 0 && shared(asked[i - 1].messages, request.messages) <
                asked[i - 1].messages.length) moves++;
        });
        assert.ok(moves >= 2 && moves < 12, `moved ${moves} times`);
        const { json } = await s.get(`/api/v1/sessions/${id}/messages?limit=200`);
        for (const { palaver_sent: sent } of json.messages) if (sent) assert.ok(sent.tokens <= 2500);
        const { items } = await plan(s, id);
        const range = items.find(({ kind }) => kind === 'range');
        if (range) assert.ok(range.tokens > 0);
    });

test('the last round keeps the tools but allows no calls', bounded, async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const call = (text) => `<<tool recall ${JSON.stringify({ text })}>>`;
    const { code } = await s.turn(id,
        { message: `${call('a')}<<next>>${call('b')}<<next>><<say done>>`, max_tool_iterations: 2 });
    assert.equal(code, 200);
    const asked = await s.asked();
    assert.equal(asked.length, 3);
    assert.deepEqual(asked.map(({ tool_choice: choice }) => choice), [undefined, undefined, 'none']);
    for (const request of asked) assert.deepEqual(request.tools, asked[0].tools);
});

test('a plan for another strategy keeps the settings of the session and the agent', bounded,
    async (t) => {
        const s = await serveModel(t, { config: `agents:
  - {id: main, context: {max_tokens: 9000}}
` });
        const own = await s.session({ metadata: { context: { max_tokens: 12000 } } });
        const agents = await s.session({ agent: 'main' });
        for (const query of ['', '?strategy=reset', '?strategy=sliding_window&model=gpt-4o']) {
            assert.equal((await plan(s, own, query)).usable, 12000, query);
            assert.equal((await plan(s, agents, query)).usable, 9000, query);
        }
    });

test('input limits of models are obeyed, and can be configured', bounded, async (t) => {
    const s = await serveModel(t, { config: 'models:\n  - {name: mine, context: 100000, input: 7000}\n' });
    const id = await s.session();
    assert.equal((await plan(s, id, '?model=gpt-5-mini')).usable, 272000);
    assert.equal((await plan(s, id, '?model=mine')).usable, 7000);
    assert.ok((await plan(s, id, '?model=codestral-latest')).usable > 200000);
});

test('reset leaves the room free that a model needs for its answer', bounded, async (t) => {
    const s = await serveModel(t, { config: `models:
  - {name: stated, context: 128000, output: 32000}
  - {name: unknown, context: 128000}
context: {token_strategy: reset}
` });
    const id = await s.session();
    assert.equal((await plan(s, id, '?model=stated')).usable, 96000);
    assert.equal((await plan(s, id, '?model=unknown')).usable, 118000);
    const own = await s.session({ metadata: { context: { compaction_threshold: 117000 } } });
    assert.equal((await plan(s, own, '?model=stated')).usable, 117000);
});

for (const kind of ['mistral', 'mistral_conversations']) {
    const cases = ['compact', 'summarization', 'sliding_window', 'reset'].map((strategy) =>
        [strategy, 'the threshold takes effect at 118,000', '  compaction_threshold: 118000\n']);
    cases.push(['reset', 'the default threshold is 118,000', '']);
    for (const [strategy, title, threshold] of cases) {
        test(`${kind}, ${strategy}: ${title}`, bounded, async (t) => {
            const s = await serve(t, { env: { MISTRAL_API_KEY: 'k' }, args: ['--provider', kind],
                config: `providers:
  - {kind: ${kind}, model: mistral-medium-latest}
context:
  token_strategy: ${strategy}
${threshold}` });
            const make = async (tokens) => {
                const { json } = await s.post('/api/v1/sessions', {});
                const messages = tokens.map((count, i) =>
                    ({ role: i % 2 ? 'assistant' : 'user', content: `m${i}`, tokens: count }));
                const added = await s.post(`/api/v1/sessions/${json.session_id}/messages`, { messages });
                assert.ok(added.code < 300, added.text);
                return json.session_id;
            };
            const base = (await plan(s, await make([1, 1, 1]))).tokens - 3;
            const below = await plan(s, await make([1000, 1000, 115999 - base]));
            assert.equal(below.tokens, 117999);
            assert.equal(below.action, 'send');
            assert.equal(below.first_seq, 1);
            const at = await plan(s, await make([1000, 1000, 116000 - base]));
            if (strategy === 'sliding_window') assert.ok(at.first_seq > 1);
            else assert.equal(at.action, 'compact');
        });
    }
}

// A service like Mistral's Conversations: sends the given answers, reports the given number of
// tokens, and keeps its requests.
async function serveConversations(t, answer) {
    const asked = [];
    let count = 0;
    const server = http.createServer((request, response) => {
        let text = '';
        request.on('data', (data) => { text += data; });
        request.on('end', () => {
            const known = request.url.split('/')[3];
            const body = JSON.parse(text);
            asked.push({ known, ...body });
            const { outputs, tokens = 10 } = answer(body, asked.length);
            response.setHeader('content-type', 'application/json');
            response.end(JSON.stringify({ object: 'conversation.response',
                conversation_id: known ?? `conv_${++count}`, outputs,
                usage: { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens } }));
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    return { asked, url: `http://127.0.0.1:${server.address().port}/v1` };
}
const said = (content) => [{ type: 'message.output', role: 'assistant', content }];
const serveMistral = (t, model, config) => serve(t, { env: { MISTRAL_API_KEY: 'k' },
    args: ['--provider', 'mistral_conversations'], config: `providers:
  - {kind: mistral_conversations, url: "${model.url}", model: mistral-medium-latest, api_key_env: MISTRAL_API_KEY}
${config}` });

for (const strategy of ['compact', 'summarization', 'sliding_window', 'reset']) {
    test(`a full conversation makes room: ${strategy}`, bounded, async (t) => {
        const model = await serveConversations(t, () => ({ outputs: said('yes'), tokens: 118000 }));
        const s = await serveMistral(t, model, `context:\n  token_strategy: ${strategy}\n`);
        const { json: { session_id: id } } = await s.post('/api/v1/sessions', {});
        for (let i = 0; i < 6; i++) {
            const { code, text } = await s.post(`/api/v1/sessions/${id}/turns`, { message: `word ${i}` });
            assert.equal(code, 200, text);
        }
        // The service does not keep requests for summaries. The other requests do not grow.
        const begun = model.asked.filter(({ known, store }) => !known && store);
        assert.equal(begun.length, 6);
        for (const { inputs } of begun) assert.ok(inputs.length <= 6, JSON.stringify(inputs));
    });
}

test('a turn that used up its rounds stays in the conversation', bounded, async (t) => {
    let calls = 0;
    const model = await serveConversations(t, (body) => ({
        outputs: body.completion_args?.tool_choice === 'none' ? said('done') : [{
            type: 'function.call', tool_call_id: `t${calls++}`, name: 'recall',
            arguments: JSON.stringify({ text: `x${calls}` }) }] }));
    const s = await serveMistral(t, model, 'turn:\n  max_tool_iterations: 2\n');
    const { json: { session_id: id } } = await s.post('/api/v1/sessions', {});
    const { json, code } = await s.post(`/api/v1/sessions/${id}/turns`, { message: 'search' });
    assert.equal(code, 200);
    assert.equal(json.text ?? json.message?.content, 'done');
    await s.post(`/api/v1/sessions/${id}/turns`, { message: 'again' });
    assert.equal(model.asked.filter(({ known }) => !known).length, 1);
});

for (const [context, output] of [[3000, 500], [4000, 2000], [1100, 400]]) {
    test(`a summary within ${context} tokens is short and never empty`, bounded, async (t) => {
        const s = await serveModel(t, { config: `models:
  - {name: mock-model, context: ${context}, output: ${output}}
` });
        const id = await s.session();
        for (let i = 0; i < 24; i++) await say(s, id, `${i} ${'one more word '.repeat(context / 100)}`);
        const summaries = (await s.asked()).filter((request) =>
            /^Stop here and write down/.test(request.messages.at(-1).content));
        assert.ok(summaries.length > 0);
        for (const request of summaries) {
            const most = request.max_tokens ?? request.max_completion_tokens;
            assert.ok(most <= output && most <= context / 4, `asks for ${most}`);
            assert.ok(request.messages.some(({ role, content }) =>
                role === 'user' && /one more word/.test(content)));
        }
    });
}
