// Clients of OpenAI's API other than the SDK that the other suites use: older and newer SDKs, the
// Agents SDK, the Vercel AI SDK and LangChain. The server accepts what each client sends by
// default, and each client understands the responses.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { API_KEY, MODEL, PALAVER_URL, collect, eventually, http, marker,
    upstream } from './lib/harness.mjs';
import { assertApiError } from './lib/assertions.mjs';
import { assertSequence } from './openai_clients/sequence.mjs';

const baseURL = `${PALAVER_URL}/v1`;
const Weather = z.object({ city: z.string() });
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'],
    additionalProperties: false };
const weatherTool = { type: 'function', name: 'weather', parameters: schema, strict: true };
const CALL = '<<tool weather {"city":"Rome"}>>';
const THINK = '<<think let me see>>';
const SAY = '<<say {"city":"Rome"}>>';
const user = (content) => ({ role: 'user', content });
const sun = async ({ city }) => `sun in ${city}`;
const PNG = 'data:image/png;base64,iVBORw0KGgo=';

const { default: OpenAI } = await import('openai');
const newest = new OpenAI({ apiKey: API_KEY, baseURL, maxRetries: 0 });
// A replayed stream contains the same events as the first one.
const replayed = async (id) => assertSequence(await collect(
    await newest.responses.retrieve(id, { stream: true })));
const itemTypes = async (conversation) =>
    (await collect(newest.conversations.items.list(conversation, { order: 'asc' })))
        .map((item) => item.type);

// ---- SDKs ----

test('the JavaScript example of README.md runs', async () => {
    const readme = fs.readFileSync(new URL('README.md', import.meta.url), 'utf8');
    const session = marker('readme');
    const script = /^```js\n(.*?)^```$/ms.exec(readme)[1]
        .replace('http://127.0.0.1:7077', PALAVER_URL).replace("'none'", `'${API_KEY}'`)
        .replace("model: 'echo'", `model: '${MODEL}'`).replace("'ann'", `'${session}'`);
    const file = new URL('readme-example.mjs', import.meta.url);
    fs.writeFileSync(file, script);
    const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(file)],
        { timeout: 30_000 });
    assert.match(stdout, /My name is Ann\./);
    const kept = await http('GET', `/api/v1/sessions/${session}/messages`);
    assert.deepEqual(kept.json.messages.map((message) => message.role), ['user', 'assistant']);
});

for (const name of ['openai4', 'openai5', 'openai6', 'openai']) {
    const { default: Client } = await import(name);
    const { zodResponseFormat, zodTextFormat } = await import(`${name}/helpers/zod`);
    const client = new Client({ apiKey: API_KEY, baseURL, maxRetries: 0 });
    const ask = (body) => client.responses.create({ model: MODEL, ...body });
    const streamed = async (body) =>
        assertSequence(await collect(await ask({ ...body, stream: true })));
    const chats = client.chat.completions.stream ? client.chat.completions
        : client.beta.chat.completions;

    test(`${name} lists models and completes chats`, async () => {
        assert.ok((await collect(client.models.list())).some(({ id }) => id === MODEL));
        const messages = [{ role: 'developer', content: 'Be brief.' }, user('hi')];
        const whole = await client.chat.completions.create({ model: MODEL, messages });
        assert.equal(whole.choices[0].message.content, 'echo: hi');
        const chunks = await collect(await client.chat.completions.create(
            { model: MODEL, messages, stream: true, stream_options: { include_usage: true } }));
        assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join(''),
            'echo: hi');
        assert.ok(chunks.at(-1).usage.total_tokens > 0);
        const parsed = await chats.parse({ model: MODEL, messages: [user(SAY)],
            response_format: zodResponseFormat(Weather, 'weather') });
        assert.deepEqual(parsed.choices[0].message.parsed, { city: 'Rome' });
    });

    test(`${name} runs the tools of a chat, and keeps it by a session`, async () => {
        const runner = (client.chat.completions.runTools ? client.chat.completions
            : client.beta.chat.completions).runTools({ model: MODEL,
            messages: [user(CALL)],
            tools: [{ type: 'function', function: { name: 'weather', parameters: schema,
                parse: JSON.parse, function: sun } }] });
        assert.equal(await runner.finalContent(), 'tool said: sun in Rome');
        const mark = marker();
        const headers = { 'x-palaver-session': mark };
        const say = (content) => chats.stream({ model: MODEL,
            messages: [user(content)] }, { headers }).finalContent();
        assert.equal(await say(`one ${mark}`), `echo: one ${mark}`);
        assert.equal(await say('two'), 'echo: two');
        assert.deepEqual(await upstream.transcript(mark),
            [`user: one ${mark}`, `assistant: echo: one ${mark}`, 'user: two']);
    });

    test(`${name} creates complete, streamed and chained responses`, async () => {
        const mark = marker();
        const one = await ask({ input: `one ${mark}`, tools: [weatherTool] });
        assert.equal(one.output_text, `echo: one ${mark}`);
        const two = await streamed({ input: `two <<say ok>>${CALL}`, tools: [weatherTool],
            previous_response_id: one.id, text: { format: { type: 'text' } } });
        assert.deepEqual(two.output.map(({ type }) => type), ['message', 'function_call']);
        assert.deepEqual(two.tools, [weatherTool]);
        const three = await streamed({ previous_response_id: two.id, input: [{
            type: 'function_call_output', call_id: two.output[1].call_id, output: 'sun' }] });
        assert.equal(three.output[0].content[0].text, 'tool said: sun');
        assert.equal((await upstream.transcript(mark)).length, 5);
    });

    test(`${name} follows a stream with its helper, and parses structured output`, async () => {
        const final = await client.responses.stream({ model: MODEL, input: `<<say on it>>${CALL}`,
            tools: [weatherTool] }).finalResponse();
        assert.deepEqual(JSON.parse(final.output[1].arguments), { city: 'Rome' });
        const { output_parsed: parsed } = await client.responses.parse({ model: MODEL, input: SAY,
            text: { format: zodTextFormat(Weather, 'weather') } });
        assert.deepEqual(parsed, { city: 'Rome' });
    });

    test(`${name} sends every option`, async () => {
        const mark = marker();
        const response = await ask({
            input: [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: [
                { type: 'input_text', text: mark },
                { type: 'input_image', image_url: PNG, detail: 'low' },
                { type: 'input_file', filename: 'a.pdf',
                    file_data: 'data:application/pdf;base64,JVBERi0=' }] },
            { type: 'message', role: 'assistant', id: 'msg_1', status: 'completed', content: [
                { type: 'output_text', text: 'so', annotations: [] },
                { type: 'refusal', refusal: 'no' }] },
            user('well?')],
            include: ['reasoning.encrypted_content', 'message.output_text.logprobs'],
            reasoning: { effort: 'low', summary: 'auto' }, metadata: { a: 'b' }, user: 'u',
            text: { verbosity: 'low', format: { type: 'text' } }, service_tier: 'auto',
            prompt_cache_key: 'k', prompt_cache_retention: '24h', safety_identifier: 's',
            parallel_tool_calls: false, max_tool_calls: 3, truncation: 'auto', store: true,
            background: false, temperature: 1, top_p: 1, max_output_tokens: 100,
            tool_choice: 'auto', tools: [], conversation: null, previous_response_id: null,
            context_management: [{ type: 'compaction', compact_threshold: 1000 }] });
        assert.equal(response.status, 'completed');
        assert.deepEqual(response.metadata, { a: 'b' });
        const { body } = await upstream.last(mark);
        assert.deepEqual([body.reasoning_effort, body.verbosity, body.user], ['low', 'low', 'u']);
        assert.equal('parallel_tool_calls' in body, false, 'services refuse it without tools');
        const events = await collect(await ask({ input: 'hi', stream: true,
            stream_options: { include_obfuscation: false } }));
        assertSequence(events);
        await assert.rejects(ask({ input: 'hi', prompt: { id: 'pmpt_1' } }),
            { status: 400, param: 'prompt' });
    });

    test(`${name} lets the model call only some tools`, async () => {
        const mark = marker();
        const choice = { type: 'allowed_tools', mode: 'required',
            tools: [{ type: 'function', name: 'weather' }] };
        const body = { input: `${mark} ${CALL}`, tool_choice: choice,
            tools: [{ ...weatherTool, name: 'other' }, weatherTool] };
        const response = await ask(body);
        assert.deepEqual(response.tool_choice, choice);
        assert.equal(response.tools.length, 2);
        const sent = (await upstream.last(mark)).body;
        assert.deepEqual(sent.tools.map((tool) => tool.function.name), ['weather']);
        assert.equal(sent.tool_choice, 'required');
        choice.tools[0].name = 'unknown';
        await assert.rejects(ask(body), { status: 400, param: 'tool_choice' });
    });

    test(`${name} has custom tools, which take text`, async () => {
        const mark = marker();
        const tools = [{ type: 'custom', name: 'code', description: 'Runs code.',
            format: { type: 'grammar', syntax: 'regex', definition: 'p.*' } }];
        const input = `${mark} <<tool code {"input":"print(\\"1\\")"}>>`;
        const one = await streamed({ input, tools });
        const [call] = one.output;
        assert.deepEqual([call.type, call.name, call.input],
            ['custom_tool_call', 'code', 'print("1")']);
        assert.deepEqual((await client.responses.retrieve(one.id)).output, one.output);
        assert.deepEqual((await replayed(one.id)).output, one.output);
        const offered = (await upstream.last(mark)).body.tools[0].function;
        assert.match(offered.description, /^Runs code\.[^]*regex[^]*p\.\*$/);
        const output = { type: 'custom_tool_call_output', call_id: call.call_id, output: '1' };
        const two = await ask({ previous_response_id: one.id, tools, input: [output] });
        assert.equal(two.output_text, 'tool said: 1');
        const again = await ask({ tools, input: [user(input), call, output],
            tool_choice: { type: 'custom', name: 'code' }, store: false });
        assert.equal(again.output_text, 'tool said: 1');
        const { messages } = (await upstream.last(mark)).body;
        assert.equal(messages[1].tool_calls[0].function.arguments, '{"input":"print(\\"1\\")"}');
    });

    test(`${name} shows the reasoning of the model`, async () => {
        const one = await streamed({ input: `${THINK}<<say ok>>` });
        assert.deepEqual(one.output.map(({ type }) => type), ['reasoning', 'message']);
        assert.deepEqual(one.output[0].content, [{ type: 'reasoning_text', text: 'let me see' }]);
        const [said] = await Promise.all([ask({ input: [...one.output, user('so?')] }),
            client.responses.stream({ model: MODEL, input: `${THINK}${SAY}` }).finalResponse()]);
        assert.equal(said.output_text, 'echo: so?');
    });

    test(`${name} shows a refusal of the model as a refusal`, async () => {
        const one = await streamed({ input: '<<refuse I will not do that.>>' });
        assert.equal(one.status, 'completed');
        assert.deepEqual(one.output[0].content,
            [{ type: 'refusal', refusal: 'I will not do that.' }]);
        assert.deepEqual((await client.responses.retrieve(one.id)).output, one.output);
        assert.deepEqual((await replayed(one.id)).output, one.output);
        const two = await ask({ input: 'why?', previous_response_id: one.id });
        assert.equal(two.output_text, 'echo: why?');
        const filtered = await ask({ input: '<<say no>><<finish content_filter>>' });
        assert.deepEqual(filtered.incomplete_details, { reason: 'content_filter' });
        const chat = await client.chat.completions.create({ model: MODEL,
            messages: [user('<<refuse No.>>')] },
        { headers: { 'x-palaver-session': marker() } });
        const { content, refusal } = chat.choices[0].message;
        assert.deepEqual([refusal, content], ['No.', null]);
    });

    test(`${name} runs in the background, lists the input, deletes`, async () => {
        const { id } = await ask({ input: 'hi', background: true });
        const ended = await eventually(async () => {
            const response = await client.responses.retrieve(id);
            return response.status === 'completed' && response;
        });
        assert.equal(ended.output[0].content[0].text, 'echo: hi');
        const items = await collect(client.responses.inputItems.list(id));
        assert.deepEqual(items.map((item) => item.content[0].text), ['hi']);
        await (client.responses.delete ?? client.responses.del).call(client.responses, id);
        await assertApiError(client.responses.retrieve(id), Client.NotFoundError, { status: 404 });
    });

    test(`${name} keeps conversations`, { skip: !client.conversations }, async () => {
        const { id } = await client.conversations.create({ metadata: { a: 'b' },
            items: [{ type: 'message', role: 'user', content: 'one' }] });
        await ask({ conversation: id, input: 'two' });
        await streamed({ conversation: { id }, input: 'three' });
        const texts = (await collect(client.conversations.items.list(id, { limit: 2 })))
            .map((item) => item.content[0].text);
        assert.deepEqual(texts, ['echo: three', 'three', 'echo: two', 'two', 'one']);
    });
}

// ---- The Agents SDK ----

describe('agents', async () => {
    const { Agent, OpenAIConversationsSession, Runner, setDefaultOpenAIClient, setOpenAIAPI,
        setTracingDisabled, tool } = await import('@openai/agents');
    setDefaultOpenAIClient(newest);
    setTracingDisabled(true);
    const runner = new Runner({ tracingDisabled: true, model: MODEL });
    const weather = tool({ name: 'weather', description: 'tells the weather', parameters: Weather,
        execute: sun });
    const agent = new Agent({ name: 'Ann', instructions: 'Be brief.', tools: [weather] });

    for (const api of ['chat_completions', 'responses']) {
        test(`agents run over ${api}: tools, streams, handoffs, structure`, async () => {
            setOpenAIAPI(api);
            const both = await runner.run(agent, `${CALL}${CALL.replace('Rome', 'Oslo')}`);
            assert.equal(both.finalOutput, 'tool said: sun in Rome | sun in Oslo');
            const stream = await runner.run(agent, CALL, { stream: true });
            const names = (await collect(stream)).map((event) => event.name).filter(Boolean);
            await stream.completed;
            assert.equal(stream.finalOutput, 'tool said: sun in Rome');
            assert.deepEqual(names, ['tool_called', 'tool_output', 'message_output_created']);
            const bob = new Agent({ name: 'Bob', handoffDescription: 'knows' });
            const front = Agent.create({ name: 'Front', handoffs: [bob] });
            const handed = await runner.run(front,
                '<<tool transfer_to_Bob {}>><<next>><<say Bob here>>');
            assert.deepEqual([handed.finalOutput, handed.lastAgent.name], ['Bob here', 'Bob']);
            const structured = new Agent({ name: 'S', outputType: Weather });
            assert.deepEqual((await runner.run(structured, SAY)).finalOutput, { city: 'Rome' });
            const one = await runner.run(agent, `${THINK}${CALL}`);
            const two = await runner.run(agent, [...one.history, user('more')]);
            assert.equal(two.finalOutput, 'echo: more');
            const set = agent.clone({ modelSettings: { temperature: 0.5, parallelToolCalls: false,
                truncation: 'auto', store: false, toolChoice: 'weather', maxTokens: 50,
                reasoning: { effort: 'low', summary: 'auto' }, text: { verbosity: 'low' } } });
            assert.equal((await runner.run(set, CALL)).finalOutput, 'tool said: sun in Rome');
        });
    }

    test('agents go on by response, by conversation and by session', async () => {
        setOpenAIAPI('responses');
        const mark = marker();
        const one = await runner.run(agent, `one ${mark}`);
        const two = await runner.run(agent, CALL, { previousResponseId: one.lastResponseId });
        assert.equal(two.finalOutput, 'tool said: sun in Rome');
        assert.equal((await upstream.transcript(mark)).length, 6); /* with the instructions */
        const { id: conversationId } = await newest.conversations.create({});
        await runner.run(agent, CALL, { conversationId });
        const stream = await runner.run(agent, 'two', { conversationId, stream: true });
        await stream.completed;
        const all = ['message', 'function_call', 'function_call_output', 'message', 'message',
            'message'];
        assert.deepEqual(await itemTypes(conversationId), all);
        const session = new OpenAIConversationsSession({});
        await runner.run(agent, CALL, { session });
        await runner.run(agent, 'two', { session });
        assert.deepEqual(await itemTypes(await session.getSessionId()), all);
        assert.equal((await session.popItem()).content[0].text, 'echo: two');
        await session.clearSession();
    });
});

// ---- The Vercel AI SDK ----

for (const [name, provider] of [['ai5', 'ai-sdk-openai2'], ['ai6', 'ai-sdk-openai3'],
    ['ai', '@ai-sdk/openai']]) {
    const ai = await import(name);
    const { createOpenAI } = await import(provider);
    const openai = createOpenAI({ apiKey: API_KEY, baseURL });
    const tools = { weather: ai.tool({ inputSchema: Weather, execute: sun }) };
    const stopWhen = (ai.stepCountIs ?? ai.isStepCount)(4);
    globalThis.AI_SDK_LOG_WARNINGS = false;

    for (const kind of ['chat', 'responses']) {
        const options = { model: openai[kind](MODEL), maxRetries: 0 };
        const generate = (more) => ai.generateText({ ...options, ...more });
        const having = (more) => ({ providerOptions: { openai: more } });

        test(`${name} ${kind}: text, tools in steps, streams, objects`, async () => {
            assert.equal((await generate({ system: 'Be brief.', prompt: 'hi' })).text, 'echo: hi');
            const stepped = await generate({ prompt: CALL, tools, stopWhen });
            assert.deepEqual([stepped.text, stepped.steps.length], ['tool said: sun in Rome', 2]);
            const stream = ai.streamText({ ...options, prompt: CALL, tools, stopWhen });
            const parts = await collect(stream.fullStream);
            assert.deepEqual(parts.filter(({ type }) => /^tool-(call|result)$|^error$/.test(type))
                .map(({ type }) => type), ['tool-call', 'tool-result']);
            assert.equal(await stream.text, 'tool said: sun in Rome');
            const object = { ...options, schema: Weather, prompt: SAY };
            assert.deepEqual((await ai.generateObject(object)).object, { city: 'Rome' });
            const objects = ai.streamObject(object);
            await collect(objects.partialObjectStream);
            assert.deepEqual(await objects.object, { city: 'Rome' });
        });

        test(`${name} ${kind}: sends the history again, stored or not`, async () => {
            for (const store of [true, false]) {
                const mark = marker();
                const prompt = `${mark} ${THINK}${CALL}`;
                const one = await generate({ prompt, tools, stopWhen, ...having({ store }) });
                const two = await generate({ tools, ...having({ store }), messages: [
                    user(prompt), ...(one.responseMessages ?? one.response.messages),
                    user('more')] });
                assert.equal(two.text, 'echo: more');
                assert.equal((await upstream.transcript(mark)).length, 5);
            }
        });

        test(`${name} ${kind}: settings, images, errors, aborts`, async () => {
            const set = having({ user: 'u', parallelToolCalls: false, serviceTier: 'auto',
                reasoningEffort: 'low', textVerbosity: 'low', promptCacheKey: 'k',
                safetyIdentifier: 's', metadata: { a: 'b' },
                ...(kind === 'responses' && { reasoningSummary: 'auto', truncation: 'auto',
                    include: ['reasoning.encrypted_content'], instructions: 'Be brief.' }) });
            const content = [{ type: 'text', text: 'look' }, { type: 'image', image: PNG },
                { type: 'file', data: 'JVBERi0=', mediaType: 'application/pdf',
                    filename: 'a.pdf' }];
            assert.equal((await generate({ messages: [user(content)], ...set,
                temperature: 0.3, maxOutputTokens: 99 })).text, 'echo: look');
            await assert.rejects(generate({ prompt: '<<fail status=429>>' }), { statusCode: 429 });
            const abort = new AbortController();
            const mark = marker();
            const left = assert.rejects(generate({ prompt: `${mark} <<hang>>`,
                abortSignal: abort.signal }));
            await eventually(async () => (await upstream.requests(mark)).length);
            abort.abort();
            await left;
            await eventually(async () => (await upstream.last(mark)).outcome.client_aborted);
        });
    }

    const responses = { model: openai.responses(MODEL), maxRetries: 0 };
    test(`${name}: continues by response and in a conversation`, async () => {
        const one = await ai.generateText({ ...responses, prompt: 'one' });
        const previousResponseId = one.providerMetadata.openai.responseId;
        const two = await ai.generateText({ ...responses, prompt: 'two',
            providerOptions: { openai: { previousResponseId } } });
        assert.equal(two.text, 'echo: two');
        // The client sends everything again at each step, so the scripted model starts again, too.
        const { id } = await newest.conversations.create({});
        const stepped = await ai.generateText({ ...responses, prompt: CALL, tools, stopWhen,
            providerOptions: { openai: { conversation: id } } });
        assert.equal(stepped.steps.length, 4);
        const items = await itemTypes(id);
        assert.equal(items.filter((type) => type === 'function_call').length, 4);
        assert.equal(items.filter((type) => type === 'function_call_output').length, 3);
    });

    test(`${name}: has custom tools`, { skip: !openai.tools.customTool }, async () => {
        const sql = openai.tools.customTool({ name: 'sql', description: 'queries',
            format: { type: 'text' }, execute: async (input) => `ran ${input}` });
        const stepped = await ai.generateText({ ...responses, tools: { sql }, stopWhen,
            prompt: '<<tool sql {"input":"select 1"}>>' });
        assert.equal(stepped.text, 'tool said: ran select 1');
    });
}

// ---- LangChain ----

describe('langchain', async () => {
    const { ChatOpenAI, customTool } = await import('@langchain/openai');
    const { HumanMessage, SystemMessage } = await import('@langchain/core/messages');
    const { tool } = await import('@langchain/core/tools');
    const weather = tool(sun, { name: 'weather', description: 'tells the weather',
        schema: Weather });
    const make = (more) => new ChatOpenAI({ model: MODEL, apiKey: API_KEY, maxRetries: 0,
        configuration: { baseURL }, ...more });

    for (const useResponsesApi of [false, true]) {
        const kind = useResponsesApi ? 'responses' : 'chat';
        const model = make({ useResponsesApi });

        test(`langchain ${kind}: invokes, streams, batches, continues`, async () => {
            const said = async (...messages) => (await model.invoke(messages)).text;
            const human = (content) => new HumanMessage({ content });
            assert.equal(await said(new SystemMessage('Be brief.'), human('hi')), 'echo: hi');
            const chunks = await collect(await model.stream('hi'));
            assert.equal(chunks.map(({ text }) => text).join(''), 'echo: hi');
            const batch = await model.batch(['a', 'b']);
            assert.deepEqual(batch.map(({ text }) => text), ['echo: a', 'echo: b']);
            const one = await model.invoke('one');
            assert.equal(await said(human('one'), one, human('two')), 'echo: two');
            const image = { type: 'image_url', image_url: { url: PNG } };
            assert.equal(await said(human([{ type: 'text', text: 'look' }, image])), 'echo: look');
            await assert.rejects(model.invoke('<<fail status=429>>'), { status: 429 });
        });

        test(`langchain ${kind}: tools, stored or not, streamed or not`, async () => {
            for (const zdrEnabled of [false, true]) {
                const bound = make({ useResponsesApi, zdrEnabled }).bindTools([weather]);
                const question = new HumanMessage(`${THINK}${CALL}`);
                const whole = await bound.invoke([question]);
                const streamed = (await collect(await bound.stream([question])))
                    .reduce((all, chunk) => all.concat(chunk));
                for (const answer of [whole, streamed]) {
                    const output = await weather.invoke(answer.tool_calls[0]);
                    assert.equal((await bound.invoke([question, answer, output])).text,
                        'tool said: sun in Rome');
                }
            }
        });

        test(`langchain ${kind}: structure, settings`, async () => {
            for (const method of ['jsonSchema', 'functionCalling', 'jsonMode']) {
                const structured = model.withStructuredOutput(Weather, { name: 'weather', method });
                const answer = await structured.invoke(method === 'functionCalling' ? CALL : SAY);
                assert.deepEqual(answer, { city: 'Rome' });
            }
            const set = make({ useResponsesApi, temperature: 0.1, maxTokens: 10, topP: 0.9,
                reasoning: { effort: 'low', summary: 'auto' }, service_tier: 'auto', user: 'u',
                verbosity: 'low', promptCacheKey: 'k', supportsStrictToolCalling: true,
                streamUsage: true });
            assert.equal((await set.invoke('hi', { metadata: { a: 'b' } })).text, 'echo: hi');
        });
    }

    test('langchain responses: continues by response, has custom tools', async () => {
        const model = make({ useResponsesApi: true });
        const one = await model.invoke('one');
        const two = await model.invoke('two', { previous_response_id: one.response_metadata.id });
        assert.equal(two.text, 'echo: two');
        const code = customTool(async (input) => `ran ${input}`,
            { name: 'code', description: 'runs', format: { type: 'text' } });
        const bound = model.bindTools([code]);
        const question = new HumanMessage('<<tool code {"input":"print(1)"}>>');
        const answer = await bound.invoke([question]);
        const output = await code.invoke(answer.tool_calls[0]);
        const last = await bound.invoke([question, answer, output]);
        assert.equal(last.text, 'tool said: ran print(1)');
    });
});
