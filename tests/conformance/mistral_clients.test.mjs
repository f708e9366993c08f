// Several versions of Mistral's official SDKs, including the version that the other suites use:
// what each of them can do with conversations, agents, chat completions and models.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { API_KEY, MODEL, PALAVER_URL, collect, http, marker, upstream } from './lib/harness.mjs';
import { assertSequence, summary } from './mistral_clients/sequence.mjs';

const NEWEST = '@mistralai/mistralai';
const weather = { type: 'function', function: { name: 'get_weather', description: 'Tells it.',
    parameters: { type: 'object', properties: { city: { type: 'string' } } } } };
const HANDOFF = '<<tool transfer_to_Cook {}>><<next>><<say soup>>';
const CALL = '<<tool get_weather {"city":"Rome"}>>';
const resultOf = (call, result) =>
    ({ type: 'function.result', toolCallId: call.toolCallId, result });

for (const name of ['mistral-1.7', 'mistral-1.15', NEWEST]) {
    const { Mistral } = await import(name);
    const client = new Mistral({ apiKey: API_KEY, serverURL: `${PALAVER_URL}/mistral` });
    const { conversations, agents } = client.beta;
    const start = (inputs, more) => conversations.start({ model: MODEL, inputs, ...more });
    const append = (conversationId, inputs, more) => conversations.append(
        { conversationId, conversationAppendRequest: { inputs, ...more } });
    const appendStream = async (conversationId, inputs, more) => assertSequence(await collect(
        await conversations.appendStream(
            { conversationId, conversationAppendStreamRequest: { inputs, ...more } })));
    const entriesOf = async (conversationId) =>
        (await conversations.getHistory({ conversationId })).entries;
    const says = async (conversationId) => (await entriesOf(conversationId)).map(summary);
    // The oldest SDK loses events of chats that arrive together, with any server.
    const streamsChats = name !== 'mistral-1.7';
    // A method that only newer SDKs have. The newest SDK has all of them.
    const has = (object, method) => {
        assert.ok(name !== NEWEST || object[method], `${name} has ${method}`);
        return Boolean(object[method]);
    };

    describe(name, () => {
        test(`${name} starts, appends and looks`, async () => {
            const { conversationId: id, outputs } = await start('one', { name: 'Test' });
            assert.deepEqual(outputs.map(summary), ['out echo: one']);
            const second = await append(id, 'two');
            assert.equal(second.conversationId, id);
            const entries = await entriesOf(id);
            assert.deepEqual(entries.map(summary),
                ['in one', 'out echo: one', 'in two', 'out echo: two']);
            assert.equal(entries[3].id, second.outputs[0].id);
            const { messages } = await conversations.getMessages({ conversationId: id });
            assert.equal(messages.length, 4);
            const shown = await conversations.get({ conversationId: id });
            assert.equal(shown.model, MODEL);
            assert.equal(shown.name, 'Test');
            assert.ok((await conversations.list({})).some((each) => each.id === id));
        });

        test(`${name} streams, with the ids that the history has`, async () => {
            const first = assertSequence(await collect(await conversations.startStream(
                { model: MODEL, inputs: 'one two three <<chunk 3>>', tools: [weather] })));
            assert.deepEqual(first.outputs.map(({ text }) => text), ['echo: one two three']);
            const second = await appendStream(first.conversationId, CALL);
            const entries = await entriesOf(first.conversationId);
            assert.deepEqual([first.outputs[0].id, second.outputs[0].id],
                [entries[1].id, entries[3].id]);
        });

        test(`${name} restarts from an entry`, async () => {
            const { conversationId: id, outputs: [one] } = await start('one');
            await append(id, 'two');
            const again = await conversations.restart({ conversationId: id,
                conversationRestartRequest: { inputs: 'other', fromEntryId: one.id } });
            assert.notEqual(again.conversationId, id);
            assert.deepEqual(await says(again.conversationId),
                ['in one', 'out echo: one', 'in other', 'out echo: other']);
            const streamed = assertSequence(await collect(await conversations.restartStream({
                conversationId: id,
                conversationRestartStreamRequest: { inputs: 'third', fromEntryId: one.id } })));
            assert.deepEqual(await says(streamed.conversationId),
                ['in one', 'out echo: one', 'in third', 'out echo: third']);
            assert.equal((await says(id)).length, 4);
        });

        test(`${name} runs functions`, async () => {
            const { conversationId: id, outputs: [call] } = await start(CALL, { tools: [weather] });
            assert.equal(summary(call), 'call get_weather({"city":"Rome"})');
            const next = await append(id, [resultOf(call, 'sun')]);
            assert.deepEqual(next.outputs.map(summary), ['out tool said: sun']);
            const streamed = await appendStream(id, CALL);
            assert.deepEqual(streamed.outputs.map(({ kind, text }) => [kind, text]),
                [['function.call', '{"city":"Rome"}']]);
        });

        test(`${name} makes agents, which hand over`, async () => {
            const cook = await agents.create({ model: MODEL, name: 'Cook' });
            const clerk = await agents.create({ model: MODEL, name: 'Clerk', handoffs: [cook.id] });
            const changed = await agents.update({ agentId: clerk.id,
                agentUpdateRequest: { instructions: 'You help.' },
                updateAgentRequest: { instructions: 'You help.' } });
            assert.equal(changed.version, 1);
            const former = await agents.updateVersion({ agentId: clerk.id, version: 0 });
            assert.equal(former.version, 0);
            assert.equal((await agents.get({ agentId: clerk.id })).version, 0);
            const { conversationId: id, outputs } = await conversations.start(
                { agentId: clerk.id, inputs: HANDOFF });
            assert.deepEqual(outputs.map(summary), ['handoff to Cook', 'out soup']);
            assert.equal(outputs[1].agentId, cook.id);
            assert.equal((await append(id, 'two')).outputs[0].agentId, cook.id);
            const clients = await conversations.start({ agentId: clerk.id,
                inputs: '<<tool transfer_to_Cook {}>>', handoffExecution: 'client' });
            assert.deepEqual(clients.outputs.map(summary), ['call transfer_to_Cook({})']);
            const streamed = assertSequence(await collect(await conversations.startStream(
                { agentId: clerk.id, inputs: HANDOFF })));
            assert.deepEqual(streamed.outputs.map(({ kind }) => kind),
                ['agent.handoff', 'message.output']);
            if (has(agents, 'listVersions'))
                assert.equal((await agents.listVersions({ agentId: clerk.id })).length, 2);
            if (has(agents, 'delete')) await agents.delete({ agentId: clerk.id });
        });

        test(`${name} deletes`, async () => {
            const { conversationId } = await start('one');
            if (has(conversations, 'delete')) await conversations.delete({ conversationId });
            else await http('DELETE', `/mistral/v1/conversations/${conversationId}`);
            await assert.rejects(() => append(conversationId, 'two'), { statusCode: 404 });
        });

        test(`${name} reads errors, after which nothing has changed`, async () => {
            const { conversationId: id } = await start('one');
            for (const [inputs, statusCode] of [['<<fail status=429>>', 429], ['<<fail>>', 502],
                ['<<garbage>>', 502]])
                await assert.rejects(() => append(id, inputs), { statusCode });
            await assert.rejects(() => append(id, [resultOf({ toolCallId: 'x' }, 'y')]),
                { name: 'HTTPValidationError' });
            const events = await collect(await conversations.appendStream({ conversationId: id,
                conversationAppendStreamRequest: { inputs: 'long <<chunk 1>><<cut after=3>>' } }));
            const { data } = events.at(-1);
            assert.deepEqual([data.type, data.code], ['conversation.response.error', 502]);
            assert.deepEqual(await says(id), ['in one', 'out echo: one']);
        });

        test(`${name} completes chats`, async () => {
            const mark = marker();
            const messages = [{ role: 'system', content: 'Be brief.' },
                { role: 'user', content: mark }];
            const { choices: [choice], usage } = await client.chat.complete(
                { model: MODEL, messages, randomSeed: 7, maxTokens: 50 });
            assert.equal(choice.message.content, `echo: ${mark}`);
            assert.equal(choice.finishReason, 'stop');
            assert.equal(usage.totalTokens, usage.promptTokens + usage.completionTokens);
            const { body } = await upstream.last(mark);
            assert.deepEqual([body.seed, body.max_tokens ?? body.max_completion_tokens], [7, 50]);
            assert.deepEqual(body.messages.map(({ role, content }) => [role, content]),
                [['system', 'Be brief.'], ['user', mark]]);
            if (!streamsChats) return;
            const chunks = await collect(await client.chat.stream({ model: MODEL, messages }));
            const deltas = chunks.map(({ data }) => data.choices[0].delta.content ?? '');
            assert.equal(deltas.join(''), `echo: ${mark}`);
            assert.equal(chunks.at(-1).data.choices[0].finishReason, 'stop');
            assert.ok(chunks.at(-1).data.usage.totalTokens > 0);
        });

        test(`${name} calls functions in chats`, async () => {
            const messages = [{ role: 'user', content: `${CALL}${CALL}` }];
            const request = { model: MODEL, tools: [weather], toolChoice: 'any', messages };
            const { choices: [choice] } = await client.chat.complete(request);
            assert.equal(choice.finishReason, 'tool_calls');
            const chunks = streamsChats ? await collect(await client.chat.stream(request)) : [];
            const calls = streamsChats
                ? chunks.flatMap(({ data }) => data.choices[0].delta.toolCalls ?? [])
                : choice.message.toolCalls;
            assert.deepEqual(calls.map(({ function: { arguments: args } }) => args),
                ['{"city":"Rome"}', '{"city":"Rome"}']);
            const results = calls.map(({ id, function: { name: called } }) =>
                ({ role: 'tool', toolCallId: id, name: called, content: 'sun' }));
            const next = await client.chat.complete({ ...request, messages: [...messages,
                { role: 'assistant', content: '', toolCalls: calls }, ...results] });
            assert.equal(next.choices[0].message.content, 'tool said: sun | sun');
        });

        test(`${name} reports failures of chats by their code`, async () => {
            const ask = (content, method) => client.chat[method](
                { model: MODEL, messages: [{ role: 'user', content }] });
            for (const method of ['complete', 'stream'])
                await assert.rejects(() => ask('<<fail status=429>>', method), { statusCode: 429 });
            await assert.rejects(() => client.chat.complete({ model: MODEL, messages: [] }),
                { name: 'HTTPValidationError' });
            if (streamsChats) await assert.rejects(async () =>
                collect(await ask('a long answer <<chunk 1>><<cut after=3>>', 'stream')));
        });

        test(`${name} completes chats of agents`, async () => {
            const mark = marker();
            const cook = await agents.create({ model: MODEL, name: 'Cook', instructions: mark });
            const messages = [{ role: 'user', content: 'soup' }];
            const whole = await client.agents.complete({ agentId: cook.id, messages });
            assert.equal(whole.choices[0].message.content, 'echo: soup');
            assert.equal((await upstream.last(mark)).body.messages[0].content, mark);
            if (!streamsChats) return;
            const chunks = await collect(
                await client.agents.stream({ agentId: cook.id, messages }));
            const deltas = chunks.map(({ data }) => data.choices[0].delta.content);
            assert.equal(deltas.join(''), 'echo: soup');
        });

        test(`${name} lists models`, async () => {
            const { data } = await client.models.list();
            assert.ok(data.some(({ id }) => id === MODEL));
            assert.equal((await client.models.retrieve({ modelId: MODEL })).id, MODEL);
            await assert.rejects(() => client.models.retrieve({ modelId: 'none' }),
                { statusCode: 404 });
        });
    });
}

test('the newest SDK allows and denies calls that need approval', async () => {
    const { Mistral } = await import(NEWEST);
    const { conversations } = new Mistral(
        { apiKey: API_KEY, serverURL: `${PALAVER_URL}/mistral` }).beta;
    const round = '<<tool recall {"query":"x"}>><<next>>';
    for (const confirmation of ['allow', 'deny']) {
        const { conversationId, outputs } = await conversations.start(
            { model: MODEL, inputs: `${round}${round}${round}<<say over>>` });
        const asked = outputs.at(-1);
        assert.equal(asked.confirmationStatus, 'pending');
        const next = await conversations.append({ conversationId, conversationAppendRequest:
            { toolConfirmations: [{ toolCallId: asked.toolCallId, confirmation }] } });
        assert.equal(summary(next.outputs.at(-1)), 'out over');
    }
});

test('chat completions leave no trace', async () => {
    const newest = async () => (await http('GET', '/api/v1/sessions?limit=100')).json.sessions
        .map(({ session_id: id }) => id);
    const before = await newest();
    const ask = (stream, content) => http('POST', '/mistral/v1/chat/completions',
        { body: { model: MODEL, stream, messages: [{ role: 'user', content }] } });
    assert.equal((await ask(false, 'one')).status, 200);
    assert.match((await ask(true, 'one')).text, /\n\ndata: \[DONE\]\n\n$/);
    assert.equal((await ask(true, '<<fail>>')).status, 502);
    assert.deepEqual(await newest(), before);
});
