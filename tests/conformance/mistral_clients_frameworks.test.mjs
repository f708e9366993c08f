// Frameworks that use Mistral's API: the Vercel AI SDK, old and new, and LangChain.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { API_KEY, MODEL, PALAVER_URL, collect, marker, upstream } from './lib/harness.mjs';

const CALL = '<<tool weather {"city":"Rome"}>>';
const SAY = '<<say {"city":"Rome"}>>';
const Weather = z.object({ city: z.string() });
const sun = async ({ city }) => `sun in ${city}`;
globalThis.AI_SDK_LOG_WARNINGS = false;

// ---- The Vercel AI SDK ----

for (const [core, provider] of [['ai5', 'ai-mistral2'], ['ai', '@ai-sdk/mistral']]) {
    const ai = await import(core);
    const { createMistral } = await import(provider);
    const mistral = createMistral({ apiKey: API_KEY, baseURL: `${PALAVER_URL}/mistral/v1` });
    const { chat, conversation } = mistral;
    const kinds = { chat, ...conversation && { conversation } };
    assert.ok(core !== 'ai' || kinds.conversation, 'the newest one speaks of conversations');
    const tools = { weather: ai.tool({ inputSchema: Weather, execute: sun }) };

    for (const [kind, make] of Object.entries(kinds)) {
        const common = { model: make(MODEL), maxRetries: 0 };
        const steps = { tools, stopWhen: (ai.isStepCount ?? ai.stepCountIs)(3) };

        describe(`${core} ${kind}`, () => {
            test(`${core} ${kind} makes text`, async () => {
                const mark = marker();
                const { text, usage, finishReason } = await ai.generateText(
                    { ...common, system: mark, prompt: 'one', seed: 5, temperature: 0 });
                assert.deepEqual([text, finishReason], ['echo: one', 'stop']);
                assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
                const { body } = await upstream.last(mark);
                assert.deepEqual([body.seed, body.temperature], [5, 0]);
            });

            test(`${core} ${kind} streams text`, async () => {
                const stream = ai.streamText({ ...common, prompt: 'one two <<chunk 2>>' });
                assert.equal((await collect(stream.textStream)).join(''), 'echo: one two');
                assert.equal(await stream.finishReason, 'stop');
                assert.ok((await stream.usage).outputTokens > 0);
            });

            test(`${core} ${kind} runs tools`, async () => {
                const whole = await ai.generateText({ ...common, ...steps, prompt: CALL });
                assert.deepEqual([whole.text, whole.steps.length], ['tool said: sun in Rome', 2]);
                const stream = ai.streamText({ ...common, ...steps, prompt: CALL });
                assert.equal((await collect(stream.textStream)).join(''), 'tool said: sun in Rome');
                assert.equal((await stream.steps).length, 2);
            });

            test(`${core} ${kind} makes objects`, async () => {
                const { object } = await ai.generateObject(
                    { ...common, schema: Weather, prompt: SAY });
                assert.deepEqual(object, { city: 'Rome' });
            });

            test(`${core} ${kind} reads errors`, async () => {
                await assert.rejects(
                    () => ai.generateText({ ...common, prompt: '<<fail status=429>>' }),
                    { statusCode: 429, message: /scripted failure/ });
            });
        });
    }
}

// ---- LangChain ----

describe('langchain', async () => {
    const { ChatMistralAI } = await import('@langchain/mistralai');
    const { tool } = await import('@langchain/core/tools');
    const model = new ChatMistralAI({ apiKey: API_KEY, model: MODEL, maxRetries: 0,
        serverURL: `${PALAVER_URL}/mistral` });
    const weather = tool(sun, { name: 'weather', description: 'Tells it.', schema: Weather });

    test('langchain invokes', async () => {
        const answer = await model.invoke([['system', 'Be brief.'], ['human', 'one']]);
        assert.equal(answer.content, 'echo: one');
        assert.ok(answer.usage_metadata.total_tokens > 0);
    });

    test('langchain streams', async () => {
        const chunks = await collect(await model.stream('one two <<chunk 3>>'));
        assert.equal(chunks.map(({ content }) => content).join(''), 'echo: one two');
    });

    test('langchain runs tools', async () => {
        const bound = model.bindTools([weather]);
        const called = await bound.invoke(CALL);
        const result = await weather.invoke(called.tool_calls[0]);
        const answer = await bound.invoke([{ role: 'user', content: CALL }, called, result]);
        assert.equal(answer.content, 'tool said: sun in Rome');
        const chunks = await collect(await bound.stream(CALL));
        const streamed = chunks.reduce((all, chunk) => all.concat(chunk));
        assert.deepEqual(streamed.tool_calls[0].args, { city: 'Rome' });
    });

    test('langchain makes structured output', async () => {
        const structured = model.withStructuredOutput(Weather,
            { method: 'jsonMode', name: 'weather' });
        assert.deepEqual(await structured.invoke(SAY), { city: 'Rome' });
    });
});
