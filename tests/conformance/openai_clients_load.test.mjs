// The official SDK under load and with failures: 200 clients at the same time, turns that hang next
// to turns that do not, and clients that leave, read slowly or cancel. No item is lost or
// duplicated, and a failed turn leaves its conversation unchanged.
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import OpenAI from 'openai';
import { API_KEY, MOCK_MODEL_URL, MODEL, PALAVER_URL, collect, eventually, marker, openaiClient,
    upstream } from './lib/harness.mjs';
import { assertSequence } from './openai_clients/sequence.mjs';

const CLIENTS = 200;
const HELD = 20;
const PATIENCE_MS = 50_000;

const client = openaiClient({ timeout: PATIENCE_MS });
const release = () => fetch(`${MOCK_MODEL_URL}/__release`, { method: 'POST' });
const textsOf = async (conversation) =>
    (await collect(client.conversations.items.list(conversation, { order: 'asc', limit: 100 })))
        .map((item) => item.content[0].text);
const asked = (mark, count = 1) => eventually(async () =>
    (await upstream.requests(mark)).length === count,
{ timeout: PATIENCE_MS, what: 'the model was asked' });
const left = (mark) => eventually(async () =>
    (await upstream.requests(mark)).every(({ outcome }) => outcome.client_aborted),
{ timeout: PATIENCE_MS, what: 'the model call was canceled' });

// The input of a turn is visible while the turn runs, and until it has been rolled back.
async function assertBecomes(conversation, texts) {
    await eventually(async () => isDeepStrictEqual(await textsOf(conversation), texts),
        { timeout: PATIENCE_MS, what: `the conversation is ${JSON.stringify(texts)}` });
}

async function ask(own, body, isStreamed) {
    if (!isStreamed) return own.responses.create({ model: MODEL, ...body });
    return assertSequence(await collect(
        await own.responses.create({ model: MODEL, stream: true, ...body })));
}
const textOf = (response) => response.output[0].content[0].text;

// One of the 200 clients runs two turns, streamed or not, in a conversation or chained.
async function talk(number, mark, script) {
    const own = openaiClient({ timeout: PATIENCE_MS });
    const isStreamed = number % 2 === 0;
    const conversation = number % 4 < 2 ? (await own.conversations.create({})).id : undefined;
    let previous, last;
    for (const turn of [1, 2]) {
        const said = `${mark} turn ${turn}`;
        const context = conversation ? { conversation } : { previous_response_id: previous };
        last = await ask(own, { input: `${said}${turn === 2 ? script : ''}`, ...context },
            isStreamed);
        assert.equal(textOf(last), `echo: ${said}`);
        previous = last.id;
    }
    return { own, conversation, last };
}

// The items that must be kept.
async function assertKept({ own, conversation, last }, mark, script) {
    const said = [1, 2].map((turn) => `${mark} turn ${turn}`);
    const input = said.map((text, at) => (at === 1 ? `${text}${script}` : text));
    if (conversation) {
        const items = await collect(own.conversations.items.list(conversation, { order: 'asc' }));
        assert.deepEqual(items.map((item) => item.content[0].text),
            input.flatMap((text, at) => [text, `echo: ${said[at]}`]));
        assert.equal(new Set(items.map(({ id }) => id)).size, 4);
    } else {
        assert.deepEqual((await own.responses.retrieve(last.id)).output, last.output);
    }
    const requests = await upstream.requests(mark);
    assert.deepEqual(requests.map(({ body }) => body.messages.length), [1, 3]);
}

test('200 clients run turns at the same time, and none waits for another', async () => {
    const marks = Array.from({ length: CLIENTS }, (_, at) => marker(`client${at}`));
    const scripts = marks.map((_, at) => (at < HELD ? ' <<hang>>' : ''));
    const talks = marks.map((mark, at) => talk(at, mark, scripts[at]));
    talks.forEach((each) => each.catch(() => {}));
    const free = await Promise.all(talks.slice(HELD));
    for (const mark of marks.slice(0, HELD)) await asked(mark, 2);
    const isOver = await Promise.race([...talks.slice(0, HELD), sleep(0, 'held')]);
    assert.equal(isOver, 'held');
    await release();
    const all = [...await Promise.all(talks.slice(0, HELD)), ...free];
    await Promise.all(all.map((each, at) => assertKept(each, marks[at], scripts[at])));
    assert.equal(new Set(all.map(({ last }) => last.id)).size, CLIENTS);
});

test('requests to one conversation run one after the other, completely', async () => {
    const { id } = await client.conversations.create({});
    const mark = marker();
    const inputs = Array.from({ length: 12 }, (_, at) => `${mark} ${at}`);
    await Promise.all(inputs.map((input, at) => ask(client, { conversation: id, input }, at % 2)));
    const texts = await textsOf(id);
    const questions = texts.filter((_, at) => at % 2 === 0);
    assert.deepEqual([...questions].sort(), [...inputs].sort());
    assert.deepEqual(texts.filter((_, at) => at % 2), questions.map((text) => `echo: ${text}`));
});

// ---- Clients that leave ----

for (const isStreamed of [true, false]) {
    const how = isStreamed ? 'in the middle of a stream' : 'before the answer';
    test(`a client that leaves ${how} leaves the conversation unchanged`, async () => {
        const items = [{ role: 'user', content: 'one' }];
        const { id } = await client.conversations.create({ items });
        const mark = marker();
        const abort = new AbortController();
        const script = isStreamed ? '<<size 4000>><<stall after=5>>' : '<<hang>>';
        const request = client.responses.create({ model: MODEL, conversation: id,
            input: `${mark} ${script}`, stream: isStreamed }, { signal: abort.signal });
        if (isStreamed) {
            const types = [];
            await assert.rejects(async () => {
                for await (const event of await request) {
                    types.push(event.type);
                    if (types.length === 8) abort.abort();
                }
                throw new Error('the stream ended');
            }, () => types.length >= 8); // events that were already on their way still arrive
            assert.equal(types[4], 'response.output_text.delta');
        } else {
            const rejected = assert.rejects(request, OpenAI.APIUserAbortError);
            await asked(mark);
            abort.abort();
            await rejected;
        }
        await left(mark);
        await assertBecomes(id, ['one']);
        assert.equal(textOf(await ask(client, { conversation: id, input: 'two' })), 'echo: two');
        assert.deepEqual(await textsOf(id), ['one', 'two', 'echo: two']);
    });
}

test('a client that loses patience and tries again says nothing twice', async () => {
    const { id } = await client.conversations.create({});
    const mark = marker();
    let tries = 0;
    const leaveOnce = async (url, options) => {
        if (++tries > 1) return fetch(url, options);
        const abort = new AbortController();
        const lost = fetch(url, { ...options, signal: abort.signal });
        await asked(mark);
        abort.abort();
        return lost;
    };
    const hasty = openaiClient({ timeout: PATIENCE_MS, maxRetries: 1, fetch: leaveOnce });
    const response = await hasty.responses.create({ model: MODEL, conversation: id,
        input: `${mark} <<hang times=1>>` });
    assert.equal(response.output_text, `echo: ${mark}`);
    assert.equal((await textsOf(id)).length, 2);
});

test('an output that is sent again while the first try still runs is not lost', async () => {
    const { id: conversation } = await client.conversations.create({});
    const mark = marker();
    const tools = [{ type: 'function', name: 'f', parameters: { type: 'object' }, strict: false }];
    const { output: [call] } = await client.responses.create({ model: MODEL, conversation, tools,
        input: `${mark} <<tool f {}>><<next>><<hang times=1>>` });
    const input = [{ type: 'function_call_output', call_id: call.call_id, output: 'done' }];
    const abort = new AbortController();
    const first = client.responses.create({ model: MODEL, conversation, tools, input },
        { signal: abort.signal }).catch(() => 'left');
    await asked(mark, 2);
    const second = client.responses.create({ model: MODEL, conversation, tools, input });
    await sleep(100);
    abort.abort();
    assert.equal(await first, 'left');
    assert.equal((await second).output_text, 'tool said: done');
    const items = await collect(client.conversations.items.list(conversation, { order: 'asc' }));
    assert.deepEqual(items.map(({ type }) => type),
        ['message', 'function_call', 'function_call_output', 'message']);
});

test('items that are added while a turn runs stay if the turn is abandoned', async () => {
    const { id } = await client.conversations.create({});
    const mark = marker();
    const abort = new AbortController();
    const lost = client.responses.create({ model: MODEL, conversation: id,
        input: `${mark} <<hang>>` }, { signal: abort.signal }).catch(() => 'left');
    await asked(mark);
    await client.conversations.items.create(id, { items: [{ role: 'user', content: 'added' }] });
    abort.abort();
    assert.equal(await lost, 'left');
    await assertBecomes(id, ['added']);
    assert.equal(textOf(await ask(client, { conversation: id, input: 'more' })), 'echo: more');
    await assertBecomes(id, ['added', 'more', 'echo: more']);
});

test('200 clients leave at once, and nothing of them stays', async () => {
    const { id } = await client.conversations.create({});
    const mark = marker();
    const abort = new AbortController();
    const gone = Array.from({ length: CLIENTS }, (_, at) => client.responses.create({ model: MODEL,
        input: `${mark} ${at} <<hang>>`, stream: at % 2 === 0,
        ...(at % 4 === 0 && { conversation: id }) },
    { signal: abort.signal }).then(collect).catch(() => 'left'));
    await eventually(async () => (await upstream.requests(mark)).length > CLIENTS / 2,
    { timeout: PATIENCE_MS });
    abort.abort();
    await Promise.all(gone);
    await left(mark);
    await assertBecomes(id, []);
    assert.equal(textOf(await ask(client, { conversation: id, input: 'hi' }, true)), 'echo: hi');
});

// ---- The model's side breaks ----

test('a stream whose model breaks off fails, and changes nothing', async () => {
    const { id } = await client.conversations.create({ items: [{ role: 'user', content: 'one' }] });
    for (const mode of ['reset', 'eof']) {
        const failed = await ask(client, { conversation: id,
            input: `<<size 900>><<cut after=3 mode=${mode}>>` }, true);
        assert.deepEqual([failed.status, failed.error.code], ['failed', 'server_error']);
    }
    assert.deepEqual(await textsOf(id), ['one']);
});

// ---- Slow readers ----

// Reads the head of the response and stops. `finish` reads the rest.
function readSlowly(body) {
    const { hostname, port } = new URL(PALAVER_URL);
    const socket = net.connect(Number(port), hostname);
    const text = JSON.stringify(body);
    socket.write(`POST /v1/responses HTTP/1.1\r\nhost: ${hostname}\r\nconnection: close\r\n`
        + `authorization: Bearer ${API_KEY}\r\ncontent-type: application/json\r\n`
        + `content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
    const pieces = [];
    const begun = new Promise((resolve) => {
        socket.once('data', (piece) => {
            pieces.push(piece);
            socket.pause();
            resolve();
        });
    });
    const finish = async () => {
        await begun;
        socket.on('data', (piece) => pieces.push(piece));
        socket.resume();
        await new Promise((resolve, reject) => socket.once('end', resolve).once('error', reject));
        return Buffer.concat(pieces).toString();
    };
    return { socket, finish };
}

// Returns the events of a chunked body.
function eventsOf(raw) {
    let rest = raw.slice(raw.indexOf('\r\n\r\n') + 4), body = '';
    for (let size; (size = parseInt(rest, 16)) > 0; rest = rest.slice(size + 2)) {
        rest = rest.slice(rest.indexOf('\r\n') + 2);
        body += rest.slice(0, size);
    }
    return body.split('\n\n').map((frame) => /^data: (.*)$/m.exec(frame)?.[1]).filter(Boolean)
        .map((data) => JSON.parse(data));
}

test('a slow reader delays no other client, and gets everything', async () => {
    const mark = marker();
    const slow = Array.from({ length: 3 }, () => readSlowly({ model: MODEL, stream: true,
        input: `${mark} <<size 1500000>><<chunk 1000>>` }));
    await asked(mark, 3);
    const others = await Promise.all(Array.from({ length: 20 }, (_, at) =>
        ask(client, { input: `hi ${at}` }, at % 2)));
    others.forEach((other, at) => assert.equal(textOf(other), `echo: hi ${at}`));
    for (const { finish } of slow) {
        const response = assertSequence(eventsOf(await finish()));
        assert.equal(textOf(response).length, 1_500_000);
    }
});

// ---- In the background ----

test('a stream in the background that is cut can be gone on with', async () => {
    const mark = marker();
    const events = [];
    for await (const event of await client.responses.create({ model: MODEL, stream: true,
        background: true, input: `${mark} <<size 2000>><<stall after=20>>` })) {
        events.push(event);
        if (events.length === 10) break;
    }
    const { id } = events[0].response;
    const more = client.responses.retrieve(id, { stream: true,
        starting_after: events.at(-1).sequence_number }).then(collect);
    await sleep(50);
    await release();
    assertSequence([...events, ...await more]);
    const again = await collect(await client.responses.retrieve(id, { stream: true }));
    assert.equal(textOf(assertSequence(again)).length, 2000);
});

test('a canceled response ends its streams, and leaves its conversation unchanged', async () => {
    const { id: conversation } = await client.conversations.create({});
    const mark = marker();
    const stream = await client.responses.create({ model: MODEL, stream: true, background: true,
        conversation, input: `${mark} <<size 2000>><<stall after=5>>` });
    const events = [];
    for await (const event of stream) {
        events.push(event);
        if (events.length !== 6) continue;
        const cancelled = await client.responses.cancel(events[0].response.id);
        assert.equal(cancelled.status, 'cancelled');
    }
    assert.equal(assertSequence(events).status, 'cancelled');
    await left(mark);
    await assertBecomes(conversation, []);
    const again = await client.responses.cancel(events[0].response.id);
    assert.equal(again.status, 'cancelled');
});
