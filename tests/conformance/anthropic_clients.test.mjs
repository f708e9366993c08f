// Clients of Anthropic's API other than the SDK that the suite uses: older SDKs, the Vercel AI SDK
// and LangChain, over a model service with another API and over one that speaks Anthropic's.
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { anthropic, openai } from './lib/anthropic.mjs';
import { API_KEY, MODEL, collect, marker } from './lib/harness.mjs';

const CALL = '<<tool weather {"city":"Rome"}>>';
const SAY = '<<say {"city":"Rome"}>>';
const Weather = z.object({ city: z.string() });
const sun = async ({ city }) => `sun in ${city}`;
const tools = [{ name: 'weather', description: 'Reports the weather.', input_schema:
    { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } }];
const user = (content) => ({ role: 'user', content });
const PNG = { type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
const UPSTREAMS = { openai, anthropic };
globalThis.AI_SDK_LOG_WARNINGS = false;

// ---- SDKs ----

for (const [kind, upstream] of Object.entries(UPSTREAMS)) {
    for (const name of ['sdk-0-20', 'sdk-0-40', 'sdk-0-60', 'sdk-0-90', '@anthropic-ai/sdk']) {
        const { default: Client } = await import(name);
        // Versions that use node-fetch take a stream for broken if its connection is used again at
        // once, with some versions of Node.
        const client = new Client({ apiKey: API_KEY, baseURL: upstream.url, maxRetries: 0,
            httpAgent: new Agent({ keepAlive: false }) });
        const request = (content, more) =>
            ({ model: MODEL, max_tokens: 3000, messages: [user(content)], ...more });
        const create = (content, more) => client.messages.create(request(content, more));
        const title = `${name} over ${kind}`;

        test(`${title} creates and streams messages`, async () => {
            const whole = await create([PNG, { type: 'text', text: 'hi <<say Hello.>>' }]);
            assert.deepEqual([whole.content[0].text, whole.stop_reason], ['Hello.', 'end_turn']);
            assert.ok(whole.usage.input_tokens > 0 && whole.usage.output_tokens > 0);
            let text = '';
            const stream = client.messages.stream(request('one two <<chunk 2>>'))
                .on('text', (delta) => { text += delta; });
            assert.equal((await stream.finalMessage()).content[0].text, 'echo: one two');
            assert.equal(text, 'echo: one two');
        });

        test(`${title} calls tools`, async () => {
            const asked = await create(CALL, { tools });
            const call = asked.content.find(({ type }) => type === 'tool_use');
            assert.deepEqual([asked.stop_reason, call.input], ['tool_use', { city: 'Rome' }]);
            const answer = await client.messages.create({ ...request(CALL, { tools }), messages: [
                user(CALL), { role: 'assistant', content: asked.content },
                user([{ type: 'tool_result', tool_use_id: call.id, content: 'sun' }])] });
            assert.equal(answer.content[0].text, 'tool said: sun');
            // Version 0.20 does not know streamed arguments.
            if (name === 'sdk-0-20') return;
            const streamed = await client.messages.stream(request(CALL, { tools })).finalMessage();
            assert.deepEqual(streamed.content.find(({ type }) => type === 'tool_use').input,
                { city: 'Rome' });
        });

        test(`${title} gets the model's thinking`, async () => {
            const { content } = await create('<<think let me see>><<say ok>>',
                { thinking: { type: 'enabled', budget_tokens: 1024 } });
            assert.deepEqual(content.map(({ type }) => type), ['thinking', 'text']);
            assert.equal(content[0].thinking, 'let me see');
        });

        test(`${title} gets errors as its own classes`, async () => {
            await assert.rejects(client.messages.create({ ...request(''), messages: [] }),
                (error) => error instanceof Client.BadRequestError && error.status === 400);
            await assert.rejects(create('hi', { model: 'missing' }),
                (error) => error instanceof Client.NotFoundError);
            await assert.rejects(create('<<fail status=429>>'),
                (error) => error instanceof Client.RateLimitError);
        });

        if (!client.models) continue;
        test(`${title} lists models and counts tokens`, async () => {
            assert.ok((await collect(client.models.list())).some(({ id }) => id === MODEL));
            assert.equal((await client.models.retrieve(MODEL)).type, 'model');
            const { model, messages } = request('hi');
            const { input_tokens: count } = await client.messages.countTokens({ model, messages });
            assert.ok(count > 0);
        });
    }

    test(`the newest SDK over ${kind} runs tools and parses structured output`, async () => {
        const { zodOutputFormat } = await import('@anthropic-ai/sdk/helpers/zod');
        const client = upstream.client();
        const base = { model: MODEL, max_tokens: 100 };
        const last = await client.beta.messages.toolRunner(
            { ...base, messages: [user(CALL)], tools: [{ ...tools[0], run: sun }] });
        assert.equal(last.content[0].text, 'tool said: sun in Rome');
        const parsed = await client.messages.parse({ ...base, messages: [user(SAY)],
            output_config: { format: zodOutputFormat(Weather) } });
        assert.deepEqual(parsed.parsed_output, { city: 'Rome' });
    });
}

// ---- The Vercel AI SDK ----

for (const [kind, upstream] of Object.entries(UPSTREAMS)) {
    for (const [core, provider] of [['ai5', 'ai-sdk-anthropic2'], ['ai6', 'ai-sdk-anthropic3'],
        ['ai', '@ai-sdk/anthropic']]) {
        // These versions reject `citations: null`, which the scripted model sends in complete
        // messages. The server forwards it unchanged.
        const isStrict = kind === 'anthropic' && core !== 'ai';
        const ai = await import(core);
        const { createAnthropic } = await import(provider);
        const model = createAnthropic({ apiKey: API_KEY, baseURL: `${upstream.url}/v1` });
        const common = { model: model(MODEL), maxRetries: 0, maxOutputTokens: 3000 };
        const steps = { stopWhen: (ai.isStepCount ?? ai.stepCountIs)(3),
            tools: { weather: ai.tool({ inputSchema: Weather, execute: sun }) } };
        const title = `${core} over ${kind}`;

        test(`${title} streams text`, async () => {
            const mark = marker();
            const stream = ai.streamText({ ...common, system: mark, prompt: 'one <<chunk 2>>' });
            assert.equal((await collect(stream.textStream)).join(''), 'echo: one');
            assert.equal(await stream.finishReason, 'stop');
            assert.ok((await stream.usage).outputTokens > 0);
            assert.deepEqual(await upstream.transcript(mark),
                [`system: ${mark}`, 'user: one <<chunk 2>>']);
        });

        test(`${title} streams steps with tools`, async () => {
            const stream = ai.streamText({ ...common, ...steps, prompt: CALL });
            assert.equal((await collect(stream.textStream)).join(''), 'tool said: sun in Rome');
            assert.equal((await stream.steps).length, 2);
        });

        test(`${title} reads errors`, async () => {
            await assert.rejects(
                () => ai.generateText({ ...common, prompt: '<<fail status=429>>' }),
                { statusCode: 429, message: /scripted failure/ });
        });

        if (isStrict) continue;
        test(`${title} makes text, objects and reasoning`, async () => {
            const whole = await ai.generateText({ ...common, ...steps, prompt: CALL });
            assert.deepEqual([whole.text, whole.steps.length], ['tool said: sun in Rome', 2]);
            const { object } = await ai.generateObject({ ...common, schema: Weather, prompt: SAY });
            assert.deepEqual(object, { city: 'Rome' });
            const thought = await ai.generateText({ ...common, prompt: '<<think well>><<say ok>>',
                providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } } });
            assert.deepEqual([thought.text, thought.reasoningText], ['ok', 'well']);
        });
    }
}

// ---- LangChain ----

describe('langchain', async () => {
    const { ChatAnthropic } = await import('@langchain/anthropic');
    const { HumanMessage } = await import('@langchain/core/messages');
    const { tool } = await import('@langchain/core/tools');
    const weather = tool(sun,
        { name: 'weather', description: 'Reports the weather.', schema: Weather });

    for (const [kind, upstream] of Object.entries(UPSTREAMS)) {
        const model = new ChatAnthropic({ apiKey: API_KEY, model: MODEL, maxRetries: 0,
            anthropicApiUrl: upstream.url });

        test(`langchain over ${kind} invokes and streams`, async () => {
            assert.equal((await model.invoke([['system', 'Be brief.'], ['human', 'one']])).text,
                'echo: one');
            const chunks = await collect(await model.stream('one two <<chunk 2>>'));
            assert.equal(chunks.map(({ text }) => text).join(''), 'echo: one two');
        });

        test(`langchain over ${kind} calls tools and returns objects`, async () => {
            const bound = model.bindTools([weather]);
            const asked = await bound.invoke(CALL);
            assert.deepEqual(asked.tool_calls[0].args, { city: 'Rome' });
            const result = await weather.invoke(asked.tool_calls[0]);
            assert.equal((await bound.invoke([new HumanMessage(CALL), asked, result])).text,
                'tool said: sun in Rome');
            assert.deepEqual(await model.withStructuredOutput(Weather, { name: 'place' })
                .invoke('<<tool place {"city":"Rome"}>>'), { city: 'Rome' });
        });
    }
});
