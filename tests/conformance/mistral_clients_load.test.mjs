// Many clients of the newest SDK at the same time, and clients that leave, wait or read slowly. No
// client waits for another client's turn, nothing is lost or duplicated, and an abandoned turn
// leaves no trace.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Mistral } from '@mistralai/mistralai';
import { assertUnique } from './lib/assertions.mjs';
import { API_KEY, MOCK_MODEL_URL, MODEL, PALAVER_URL, collect, eventually, http, marker, upstream }
    from './lib/harness.mjs';
import { assertSequence, summary } from './mistral_clients/sequence.mjs';

const CLIENTS = 200;
const HELD = 20;
const isNodes = process.env.CONFORMANCE_STORE === 'nodes'; // several servers
const WAITING_MAX = 100; // requests that the server lets wait for one conversation
const newClient = () => new Mistral({ apiKey: API_KEY, serverURL: `${PALAVER_URL}/mistral` }).beta;
const { conversations, agents } = newClient();
const start = (inputs) => conversations.start({ model: MODEL, inputs });
const append = (conversationId, inputs, options) => conversations.append(
    { conversationId, conversationAppendRequest: { inputs } }, options);
const entriesOf = async (conversationId) =>
    (await conversations.getHistory({ conversationId })).entries;
const says = async (conversationId) => (await entriesOf(conversationId)).map(summary);
const atModel = (mark, count = 1) => eventually(
    async () => (await upstream.requests(mark)).length >= count, { what: `${mark} at the model` });
const release = () => fetch(`${MOCK_MODEL_URL}/__release`, { method: 'POST' });
const range = (count) => Array.from({ length: count }, (_, i) => i);

/** A stream without an SDK: its events as they come, and a way to leave. */
async function open(path, body) {
    const leaving = new AbortController();
    const response = await fetch(`${PALAVER_URL}/mistral/v1${path}`, { method: 'POST',
        signal: leaving.signal, body: JSON.stringify({ stream: true, ...body }),
        headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' } });
    assert.equal(response.status, 200);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const read = async () => (await reader.read()).value;
    const readUntil = async (words) => {
        for (let text = ''; !text.includes(words);) text += await read();
    };
    return { read, readUntil, leave: () => leaving.abort() };
}

// ---- Many at once ----

/** What one of the many does: four turns, in every way, then all of it is there once. */
async function converse(i) {
    const own = newClient().conversations;
    const mark = marker(`c${i}`);
    const { conversationId } = await own.start({ model: MODEL, inputs: mark });
    const append1 = assertSequence(await collect(await own.appendStream(
        { conversationId, conversationAppendStreamRequest: { inputs: 'two <<chunk 4>>' } })));
    assert.equal(append1.outputs[0].text, 'echo: two');
    await own.append({ conversationId, conversationAppendRequest: { inputs: 'three' } });
    const { entries } = await own.getHistory({ conversationId });
    assert.deepEqual(entries.map(summary), [`in ${mark}`, `out echo: ${mark}`,
        'in two <<chunk 4>>', 'out echo: two', 'in three', 'out echo: three']);
    assert.equal((await upstream.requests(mark)).length, 3);
    return entries.map(({ id }) => id);
}

test(`of ${CLIENTS} clients none waits for another, and nothing is lost or duplicated`, async () => {
    const mark = marker('held');
    const over = [];
    const held = range(HELD).map((i) => start(`${mark} ${i} <<hang>>`).then((answer) => {
        over.push(i);
        return answer;
    }));
    await atModel(mark, HELD);
    const ids = await Promise.all(range(CLIENTS).map(converse));
    assertUnique(ids.flat());
    assert.equal(ids.flat().length, 6 * CLIENTS);
    assert.deepEqual(over, []);
    await release();
    const answers = await Promise.all(held);
    for (const { conversationId } of answers)
        assert.equal((await entriesOf(conversationId)).length, 2);
    assertUnique(answers.map(({ conversationId }) => conversationId));
});

// ---- One conversation ----

describe('several in one conversation', () => {
    const team = async () => {
        const cook = await agents.create({ model: MODEL, name: 'Cook', instructions: 'You cook.' });
        const clerk = await agents.create({ model: MODEL, name: 'Clerk', handoffs: [cook.id] });
        const { conversationId } = await conversations.start(
            { agentId: clerk.id, inputs: 'hello' });
        return { cook, clerk, conversationId };
    };
    const HANDOFF = '<<hang times=1>><<tool transfer_to_Cook {}>><<next>><<say soup>>';

    test('a message during a handoff comes after it, and goes to the next agent', async () => {
        const { cook, conversationId } = await team();
        const mark = marker();
        const first = append(conversationId, `${mark} ${HANDOFF}`);
        await atModel(mark);
        const others = ['two', 'three'].map((inputs) => append(conversationId, inputs));
        // They arrive while the turn runs.
        for (let i = 0; i < 5; i++) await entriesOf(conversationId);
        await release();
        await first;
        const answers = await Promise.all(others);
        for (const { outputs } of answers) assert.equal(outputs[0].agentId, cook.id);
        const all = await says(conversationId);
        assert.deepEqual(all.slice(2, 5), [`in ${mark} ${HANDOFF}`, 'handoff to Cook', 'out soup']);
        assert.deepEqual(all.slice(5).sort(),
            ['in three', 'in two', 'out echo: three', 'out echo: two']);
    });

    // On several servers, the other turn can also come after the handoff.
    test('if another API appends during a handoff, the handoff is refused', { skip: isNodes }, async () => {
        const { conversationId } = await team();
        const mark = marker();
        const session = conversationId.replace(/^conv_(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
        const first = append(conversationId, `${mark} ${HANDOFF}`);
        await atModel(mark);
        const { status } = await http('POST', `/api/v1/sessions/${session}/turns`,
            { body: { message: 'native', lane: 'queue', background: true } });
        assert.equal(status, 202);
        await release();
        await assert.rejects(first, { statusCode: 409 });
        await eventually(async () => (await says(conversationId)).at(-1) === 'out echo: native',
            { what: 'the other turn' });
        assert.deepEqual((await says(conversationId)).slice(3), ['call transfer_to_Cook({})',
            'result [Tool execution was interrupted]', 'in native', 'out echo: native']);
        const next = await append(conversationId, 'next');
        assert.deepEqual(next.outputs.map(summary), ['out echo: next']);
    });

    test('a call accepts only the first result', async () => {
        const tools = [{ type: 'function',
            function: { name: 'look', parameters: { type: 'object' } } }];
        const { conversationId, outputs: [call] } = await conversations.start(
            { model: MODEL, tools, inputs: '<<tool look {}>>' });
        const done = await Promise.allSettled(range(5).map(() => append(conversationId,
            [{ type: 'function.result', toolCallId: call.toolCallId, result: 'seen' }])));
        assert.equal(done.filter(({ status }) => status === 'fulfilled').length, 1);
        const refused = done.filter(({ status }) => status === 'rejected');
        for (const { reason } of refused) assert.equal(reason.name, 'HTTPValidationError', reason);
        assert.deepEqual((await says(conversationId)).slice(-2),
            ['result seen', 'out tool said: seen']);
    });

    test(`${WAITING_MAX} wait for their turn, one more is refused`, async () => {
        const { conversationId } = await start('one');
        const mark = marker();
        const first = append(conversationId, `${mark} <<hang>>`);
        await atModel(mark);
        const others = range(WAITING_MAX + 1).map((i) => http('POST',
            `/mistral/v1/conversations/${conversationId}`, { body: { inputs: `n${i}` } }));
        const refused = await Promise.race(others);
        assert.equal(refused.status, 409);
        assert.match(refused.json.message, /waiting for the conversation/);
        await release();
        await first;
        const codes = (await Promise.all(others)).map(({ status }) => status);
        assert.equal(codes.filter((code) => code === 200).length, WAITING_MAX);
        const entries = await entriesOf(conversationId);
        assert.equal(entries.length, 2 * (WAITING_MAX + 2));
        assertUnique(entries.map(({ id }) => id));
    });
});

// ---- Leaving, and reading slowly ----

describe('clients that leave', () => {
    test('a stream that is cut leaves the conversation unchanged and unlocked', async () => {
        await Promise.all(range(HELD).map(async (i) => {
            const { conversationId } = await start(`one ${i}`);
            const before = await entriesOf(conversationId);
            const stream = await open(`/conversations/${conversationId}`,
                { inputs: 'a long answer <<chunk 1>><<stall after=5>>' });
            await stream.readUntil('message.output.delta');
            stream.leave();
            const next = await append(conversationId, 'next');
            assert.deepEqual(next.outputs.map(summary), ['out echo: next']);
            const after = await entriesOf(conversationId);
            assert.deepEqual(after.slice(0, 2), before);
            assert.deepEqual(after.slice(2).map(summary), ['in next', 'out echo: next']);
        }));
    });

    test('a request that is canceled and sent again is stored once', async () => {
        await Promise.all(range(HELD).map(async (i) => {
            const { conversationId } = await start(`one ${i}`);
            const mark = marker();
            const leaving = new AbortController();
            const inputs = `${mark} <<hang times=1>>`;
            const left = append(conversationId, inputs,
                { fetchOptions: { signal: leaving.signal } });
            await atModel(mark);
            leaving.abort();
            await assert.rejects(left);
            await append(conversationId, inputs);
            assert.deepEqual((await says(conversationId)).slice(2),
                [`in ${inputs}`, `out echo: ${mark}`]);
            await eventually(async () =>
                (await upstream.requests(mark))[0].outcome.client_aborted);
        }));
    });

    test('the message of a client that leaves while it waits is dropped', async () => {
        const { conversationId } = await start('one');
        const mark = marker();
        const leaving = new AbortController();
        const first = append(conversationId, `${mark} <<hang>>`);
        await atModel(mark);
        const left = append(conversationId, 'never <<hang>>',
            { fetchOptions: { signal: leaving.signal } });
        await entriesOf(conversationId);
        leaving.abort();
        await assert.rejects(left);
        await release();
        await first;
        await append(conversationId, 'last');
        assert.deepEqual((await says(conversationId)).slice(2),
            [`in ${mark} <<hang>>`, `out echo: ${mark}`, 'in last', 'out echo: last']);
    });

    test('a chat that is cut is canceled at the model', async () => {
        const mark = marker();
        const content = `${mark} a long answer <<chunk 1>><<stall after=5>>`;
        const stream = await open('/chat/completions',
            { model: MODEL, messages: [{ role: 'user', content }] });
        await stream.readUntil('"content":"e"');
        stream.leave();
        await eventually(async () => (await upstream.last(mark)).outcome.client_aborted,
            { what: 'the cancellation at the model' });
    });

    test('a slow reader gets everything in order, and no other client waits for it', async () => {
        const { conversationId } = await start('one');
        const stream = await open(`/conversations/${conversationId}`,
            { inputs: '<<size 200000>><<chunk 100>>' });
        let text = await stream.read();
        for (let i = 0; i < 5; i++) await start(`other ${i}`);
        for (let piece; (piece = await stream.read()) !== undefined;) text += piece;
        const events = text.split('\n\n').slice(0, -1).filter((block) => !block.startsWith(':'))
            .map((block) => JSON.parse(block.split('\ndata: ')[1]));
        assert.equal(events[0].type, 'conversation.response.started');
        assert.equal(events.at(-1).type, 'conversation.response.done');
        const said = events.slice(1, -1).map(({ type, content }) => {
            assert.equal(type, 'message.output.delta');
            return content;
        }).join('');
        assert.equal(said.length, 200_000);
        assert.equal((await entriesOf(conversationId)).at(-1).content, said);
    });
});
