// /v1/responses over a WebSocket: by the official OpenAI SDK, and by the package 'ws' where the SDK
// does not show what is on the wire.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { ResponsesWS } from 'openai/resources/responses/ws';
import WebSocket from 'ws';
import { assertResponse, itemText } from './lib/assertions.mjs';
import { API_KEY, eventually, http, marker, MODEL, openaiClient, PALAVER_URL, upstream } from './lib/harness.mjs';

const client = openaiClient();
const URL = `${PALAVER_URL.replace(/^http/, 'ws')}/v1/responses`;
const UNKNOWN_RESPONSE = 'resp_00000000000000000000000000000000';
const isLast = (event) => ['response.completed', 'response.failed', 'response.incomplete', 'error'].includes(event.type);

/** A connection whose messages can be awaited one after the other. */
async function open(t, options = {}) {
  const socket = new WebSocket(URL, { headers: { authorization: `Bearer ${API_KEY}` }, ...options });
  const arrived = [], readers = [];
  socket.on('message', (data) => {
    const event = JSON.parse(data);
    if (readers.length) readers.shift()(event);
    else arrived.push(event);
  });
  t.after(() => socket.terminate());
  await once(socket, 'open');
  const next = () => (arrived.length ? arrived.shift() : new Promise((resolve) => readers.push(resolve)));
  const send = (message) => socket.send(typeof message === 'string' ? message : JSON.stringify(message));
  /** Sends a request, and returns all events of its response. */
  const create = async (body) => {
    const events = [];
    send({ type: 'response.create', model: MODEL, ...body });
    do events.push(await next()); while (!isLast(events.at(-1)));
    return events;
  };
  return { socket, next, send, create };
}

const answer = (events) => {
  const last = events.at(-1);
  assert.equal(last.type, 'response.completed', JSON.stringify(last));
  return last.response;
};
const text = (events) => itemText(answer(events).output.at(-1));

// ---------------------------------------------------------------------------------------

describe('a WebSocket', () => {
  it('answers with the events of a stream', async (t) => {
    const { create } = await open(t);
    const mark = marker();
    const events = await create({ input: mark });
    assertResponse(answer(events), { model: MODEL });
    assert.equal(text(events), `echo: ${mark}`);
    assert.deepEqual(events.slice(0, 2).map(({ type }) => type), ['response.created', 'response.in_progress']);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
  });

  it('serves the official SDK', async (t) => {
    const socket = new ResponsesWS(client);
    t.after(() => socket.close());
    const mark = marker();
    const done = new Promise((resolve, reject) => {
      socket.on('response.completed', resolve);
      socket.on('error', reject);
    });
    socket.send({ type: 'response.create', model: MODEL, input: mark });
    const { response } = await done;
    assert.equal(itemText(response.output[0]), `echo: ${mark}`);
  });

  it('runs requests one after the other', async (t) => {
    const { send, next } = await open(t);
    const marks = [marker(), marker(), marker()];
    for (const input of marks) send({ type: 'response.create', model: MODEL, input });
    const done = [];
    while (done.length < marks.length) {
      const event = await next();
      if (event.type === 'response.completed') done.push(itemText(event.response.output[0]));
    }
    assert.deepEqual(done, marks.map((mark) => `echo: ${mark}`));
  });

  it('runs requests with different stream ids at the same time', async (t) => {
    const { send, next } = await open(t);
    const slow = `<<hang>><<say slow>>${marker()}`, fast = marker();
    send({ type: 'response.create', model: MODEL, stream_id: 'slow', input: slow });
    send({ type: 'response.create', model: MODEL, stream_id: 'fast', input: fast });
    const order = [];
    while (order.length < 2) {
      const event = await next();
      assert.ok(['slow', 'fast'].includes(event.stream_id), JSON.stringify(event));
      if (isLast(event)) order.push(event.stream_id);
      if (order.length === 1 && isLast(event)) await upstream.release(slow.slice(-36));
    }
    assert.deepEqual(order, ['fast', 'slow']);
  });

  it('continues from a response that is not stored', async (t) => {
    const { create } = await open(t);
    const mark = marker();
    const first = answer(await create({ input: mark, store: false }));
    assert.equal(first.store, false);
    const second = answer(await create({ input: 'and then?', store: false, previous_response_id: first.id }));
    const third = answer(await create({ input: 'go on', store: false, previous_response_id: second.id }));
    assert.deepEqual(await upstream.transcript(mark),
      [`user: ${mark}`, `assistant: echo: ${mark}`, 'user: and then?', 'assistant: echo: and then?', 'user: go on']);
    for (const { id } of [first, second, third]) assert.equal((await http('GET', `/v1/responses/${id}`)).status, 404);
  });

  it('does not show such a response to another connection', async (t) => {
    const one = await open(t), other = await open(t);
    const first = answer(await one.create({ input: marker(), store: false }));
    const [error] = await other.create({ input: 'hello', previous_response_id: first.id });
    assert.equal(error.type, 'error');
    assert.equal(error.error.code, 'previous_response_not_found');
  });

  it('erases such responses when the connection is closed', async (t) => {
    const { create, socket } = await open(t);
    const mark = marker();
    answer(await create({ input: mark, store: false }));
    const found = async () => (await http('GET', `/api/v1/search?q=${mark}`)).json.hits.length;
    socket.close();
    await eventually(async () => (await found()) === 0, { what: 'the erasure' });
  });

  it('stores other responses', async (t) => {
    const { create } = await open(t);
    const stored = answer(await create({ input: marker() }));
    assert.equal((await client.responses.retrieve(stored.id)).id, stored.id);
  });

  it('can be prepared without asking a model', async (t) => {
    const { create } = await open(t);
    const mark = marker();
    const prepared = answer(await create({ input: [{ role: 'developer', content: mark }], store: false, generate: false }));
    assert.deepEqual(prepared.output, []);
    assert.deepEqual(await upstream.requests(mark), []);
    const next = await create({ input: 'hello', store: false, previous_response_id: prepared.id, stream: true });
    assert.equal(text(next), 'echo: hello');
    assert.deepEqual(await upstream.transcript(mark), [`system: ${mark}`, 'user: hello']);
  });

  // As Codex sends them: an empty preparation, tools as an item of the first request, then outputs alone.
  it('keeps additional tools for the requests that follow', async (t) => {
    const { create } = await open(t);
    const mark = marker();
    const prepared = answer(await create({ input: [], store: false, generate: false }));
    const tools = [{ type: 'namespace', name: 'functions', description: '', tools: [{ type: 'custom', name: 'exec' }] }];
    const events = await create({
      store: false, previous_response_id: prepared.id,
      input: [{ type: 'additional_tools', role: 'developer', tools }, { role: 'user', content: `<<tool exec {"input":"1 + 1"}>>${mark}` }],
    });
    const [call] = answer(events).output;
    assert.deepEqual([call.type, call.name, call.namespace, call.input], ['custom_tool_call', 'exec', 'functions', '1 + 1']);
    for (const type of ['response.output_item.added', 'response.output_item.done'])
      assert.equal(events.find((event) => event.type === type).item.namespace, 'functions', type);
    const output = { type: 'custom_tool_call_output', call_id: call.call_id, output: 'two' };
    assert.equal(text(await create({ input: [output], store: false, previous_response_id: answer(events).id })), 'tool said: two');
    const { body } = await upstream.last(mark);
    assert.deepEqual(body.tools.map((tool) => tool.function.name), ['exec']);
  });
});

describe('errors on a WebSocket', () => {
  it('name the status, and leave the connection open', async (t) => {
    const { create } = await open(t);
    const [error] = await create({ input: 'hello', previous_response_id: UNKNOWN_RESPONSE });
    assert.deepEqual([error.type, error.status, error.error.code, error.error.param],
      ['error', 400, 'previous_response_not_found', 'previous_response_id']);
    assert.equal(text(await create({ input: 'again' })), 'echo: again');
  });

  it('forget a response whose continuation has failed', async (t) => {
    const { create } = await open(t);
    const first = answer(await create({ input: marker(), store: false }));
    const [error] = await create({ input: 7, previous_response_id: first.id });
    assert.equal(error.status, 400);
    const [missing] = await create({ input: 'hello', previous_response_id: first.id });
    assert.equal(missing.error.code, 'previous_response_not_found');
  });

  for (const [what, message] of [
    ['is not JSON', 'hello'], ['is not an object', '[]'], ['has another type', { type: 'session.update' }],
    ['has a number as stream id', { type: 'response.create', stream_id: 7, input: 'x' }],
  ]) {
    it(`refuse a message that ${what}`, async (t) => {
      const { create, next, send } = await open(t);
      send(message);
      const error = await next();
      assert.deepEqual([error.type, error.status, error.error.code], ['error', 400, 'invalid_message']);
      assert.equal(text(await create({ input: 'still here' })), 'echo: still here');
    });
  }

  it('return input for a running response', async (t) => {
    const { next, send } = await open(t);
    send({ type: 'response.steer', previous_response_id: UNKNOWN_RESPONSE, input: 'wait!' });
    const { type, steer, error } = await next();
    assert.deepEqual([type, steer.input, steer.previous_response_id, error.code],
      ['response.steer.failed', 'wait!', UNKNOWN_RESPONSE, 'steering_not_supported']);
  });

  it('close the connection after a binary message', async (t) => {
    const { socket } = await open(t);
    socket.send(Buffer.from([1, 2, 3]));
    const [code] = await once(socket, 'close');
    assert.equal(code, 1003);
  });

  it('ask for an upgrade if there is none', async () => {
    const { status, headers, json } = await http('GET', '/v1/responses');
    assert.equal(status, 426);
    assert.equal(headers.get('upgrade'), 'websocket');
    assert.match(json.error.message, /WebSocket/);
  });
});

describe('a client that leaves', () => {
  it('stops its response', async (t) => {
    const { socket, send, next } = await open(t);
    const mark = marker();
    send({ type: 'response.create', model: MODEL, input: `<<stall after=1>>${mark}` });
    while ((await next()).type !== 'response.output_text.delta');
    socket.terminate();
    await eventually(async () => (await upstream.last(mark)).outcome.client_aborted, { what: 'the end of the model call' });
  });
});
