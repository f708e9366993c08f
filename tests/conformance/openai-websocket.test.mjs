// /v1/responses over a WebSocket: by the official OpenAI SDK, and by the package 'ws' where the SDK
// does not show what is on the wire.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get } from 'node:http';
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
    const found = async () => (await http('GET', `/api/v1/search?order=newest&q=${mark}`)).json.hits.length;
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

  it('can be prepared without any input', async (t) => {
    const { create } = await open(t);
    const prepared = answer(await create({ input: undefined, instructions: 'Be brief.', tools: [], generate: false }));
    assert.deepEqual([prepared.status, prepared.output], ['completed', []]);
    const mark = marker();
    assert.equal(text(await create({ input: mark, previous_response_id: prepared.id })), `echo: ${mark}`);
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

  it('name the supported version if the client has another one', async () => {
    const request = get(`${PALAVER_URL}/v1/responses`, { headers: { authorization: `Bearer ${API_KEY}`, connection: 'Upgrade',
      upgrade: 'websocket', 'sec-websocket-version': '8', 'sec-websocket-key': Buffer.alloc(16).toString('base64') } });
    const [response] = await once(request, 'response');
    response.resume();
    assert.deepEqual([response.statusCode, response.headers['sec-websocket-version']], [400, '13']);
  });
});

// ---------------------------------------------------------------------------------------
// Steers. A response is held by the model until the test releases it, so that a steer surely meets it.

const HELD = '<<stall after=1>>';
const TOOL = { type: 'function', name: 'look', description: '', parameters: { type: 'object', properties: {} }, strict: false };

/** Begins a response that the model holds; returns its `response.created`. */
async function begin({ send, next }, body) {
  send({ type: 'response.create', model: MODEL, ...body });
  const created = await next();
  assert.equal(created.type, 'response.created', JSON.stringify(created));
  let event;
  do event = await next(); while (!/delta$/.test(event.type));
  return created;
}

/** Reads events until one of this type; returns it. */
async function until({ next }, type, seen = []) {
  for (;;) {
    const event = await next();
    seen.push(event.type);
    if (event.type === type) return event;
    assert.notEqual(event.type, 'error', JSON.stringify(event));
  }
}

describe('a steer', () => {
  for (const store of [true, false]) {
    it(`continues a response with store: ${store}`, async (t) => {
      const socket = await open(t), mark = marker();
      const { response } = await begin(socket, { input: `${HELD}${mark}`, instructions: 'Be brief.', temperature: 0.5, store });
      socket.send({ type: 'response.steer', previous_response_id: response.id, input: 'in French' });
      const { steer, sequence_number } = await until(socket, 'response.steer.accepted');
      assert.match(steer.id, /^steer_/);
      assert.equal(steer.previous_response_id, response.id);
      assert.equal(sequence_number, 0);
      await upstream.release(mark);
      const ended = await until(socket, 'response.completed');
      assert.equal(ended.response.id, response.id);
      const successor = await until(socket, 'response.created');
      assert.equal(successor.response.previous_response_id, response.id);
      assert.equal(successor.response.instructions, 'Be brief.');
      assert.equal(successor.response.temperature, 0.5);
      assert.equal(successor.response.store, store);
      const last = await until(socket, 'response.completed');
      assert.equal(itemText(last.response.output[0]), 'echo: in French');
      assert.deepEqual((await upstream.transcript(mark)).slice(-3), [`user: ${HELD}${mark}`, `assistant: echo: ${mark}`, 'user: in French']);
      assert.equal((await http('GET', `/v1/responses/${last.response.id}`)).status, store ? 200 : 404);
    });
  }

  it('is accepted from the official SDK', async (t) => {
    const socket = new ResponsesWS(client), mark = marker();
    t.after(() => socket.close());
    const seen = [];
    const done = new Promise((resolve, reject) => {
      socket.on('error', reject);
      socket.on('event', ({ type }) => { if (!/delta|added|done|in_progress/.test(type)) seen.push(type); });
      socket.on('response.output_text.delta', () => {
        if (!seen.includes('response.steer.accepted') && !seen.includes('sent')) {
          seen.push('sent');
          socket.send({ type: 'response.steer', previous_response_id: seen.id, input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'shorter' }] }] });
        }
      });
      socket.on('response.created', ({ response }) => { seen.id ??= response.id; });
      socket.on('response.steer.accepted', () => upstream.release(mark));
      socket.on('response.steer.failed', ({ error }) => reject(new Error(error.message)));
      socket.on('response.completed', ({ response }) => { if (response.id !== seen.id) resolve(response); });
    });
    socket.send({ type: 'response.create', model: MODEL, input: `${HELD}${mark}` });
    const response = await done;
    assert.equal(itemText(response.output[0]), 'echo: shorter');
    assert.deepEqual(seen.slice(), ['response.created', 'sent', 'response.steer.accepted', 'response.completed', 'response.created', 'response.completed']);
  });

  it('stays in its lane, before requests that wait there', async (t) => {
    const socket = await open(t), mark = marker();
    const { response } = await begin(socket, { stream_id: 'a', input: `${HELD}${mark}` });
    socket.send({ type: 'response.create', model: MODEL, stream_id: 'a', input: 'later' });
    socket.send({ type: 'response.steer', previous_response_id: response.id, input: 'first' });
    const accepted = await until(socket, 'response.steer.accepted');
    assert.equal(accepted.stream_id, 'a');
    await upstream.release(mark);
    const texts = [];
    while (texts.length < 3) {
      const event = await until(socket, 'response.completed');
      assert.equal(event.stream_id, 'a');
      texts.push(itemText(event.response.output[0]));
    }
    assert.deepEqual(texts, [`echo: ${mark}`, 'echo: first', 'echo: later']);
  });

  it('can follow another: all inputs go into one successor, in order', async (t) => {
    const socket = await open(t), mark = marker();
    const { response } = await begin(socket, { input: `${HELD}${mark}` });
    for (const input of ['one', [{ role: 'user', content: 'two' }, { role: 'user', content: 'three' }], 'four'])
      socket.send({ type: 'response.steer', previous_response_id: response.id, input });
    for (let i = 0; i < 3; i++) await until(socket, 'response.steer.accepted');
    await upstream.release(mark);
    await until(socket, 'response.completed');
    await until(socket, 'response.completed');
    assert.deepEqual((await upstream.transcript(mark)).slice(2), ['user: one', 'user: two', 'user: three', 'user: four']);
  });

  it('can steer a successor', async (t) => {
    const socket = await open(t), mark = marker();
    const first = await begin(socket, { input: `${HELD}${mark}` });
    const second = `${HELD}second ${marker()}`;
    socket.send({ type: 'response.steer', previous_response_id: first.response.id, input: second });
    await until(socket, 'response.steer.accepted');
    await upstream.release(mark);
    const successor = await until(socket, 'response.created');
    await until(socket, 'response.output_text.delta');
    socket.send({ type: 'response.steer', previous_response_id: successor.response.id, input: 'third' });
    await until(socket, 'response.steer.accepted');
    await upstream.release(second.slice(-36));
    await until(socket, 'response.completed');
    const last = await until(socket, 'response.completed');
    assert.equal(itemText(last.response.output[0]), 'echo: third');
    assert.equal(last.response.previous_response_id, successor.response.id);
  });

  for (const [store, stream_id] of [[true, undefined], [false, 'lane']]) {
    it(`waits for outputs of tools with store: ${store}`, async (t) => {
      const socket = await open(t), mark = marker();
      const lane = stream_id ? { stream_id } : {};
      socket.send({ type: 'response.create', model: MODEL, store, tools: [TOOL], ...lane, input: `<<hang>><<tool look {}>>${mark}` });
      const { response } = await until(socket, 'response.created');
      socket.send({ type: 'response.steer', previous_response_id: response.id, input: 'and hurry' });
      const accepted = await until(socket, 'response.steer.accepted');
      await upstream.release(mark);
      const { response: { output: [call] } } = await until(socket, 'response.completed');
      const pending = await socket.next();
      assert.equal(pending.type, 'response.steer.pending');
      assert.deepEqual([pending.reason, pending.steer, pending.stream_id], ['waiting_for_required_input', accepted.steer, stream_id]);
      assert.deepEqual(pending.required_input, [{ type: 'function_call_output', call_id: call.call_id, name: 'look' }]);
      socket.send({ type: 'response.create', model: MODEL, store, tools: [TOOL], ...lane, previous_response_id: response.id,
        input: [{ role: 'user', content: 'thanks' }, { ...pending.required_input[0], output: 'seen' }] });
      await until(socket, 'response.completed');
      assert.deepEqual((await upstream.transcript(mark)).slice(-3), ['tool: seen', 'user: and hurry', 'user: thanks']);
    });
  }

  it('gets its input back if the response fails', async (t) => {
    const socket = await open(t), mark = marker();
    const { response } = await begin(socket, { input: `<<stall after=1>><<cut after=2>>${mark}` });
    const input = [{ type: 'message', role: 'user', content: 'still?' }];
    socket.send({ type: 'response.steer', previous_response_id: response.id, input });
    const accepted = await until(socket, 'response.steer.accepted');
    await upstream.release(mark);
    await until(socket, 'response.failed');
    const failed = await socket.next();
    assert.deepEqual([failed.type, failed.steer, failed.error.code],
      ['response.steer.failed', { ...accepted.steer, input }, 'successor_creation_failed']);
    assert.equal(text(await socket.create({ input: 'next' })), 'echo: next');
  });

  it('gets its input back if the request that brings the outputs fails', async (t) => {
    const socket = await open(t), mark = marker();
    socket.send({ type: 'response.create', model: MODEL, tools: [TOOL], input: `<<hang>><<tool look {}>>${mark}` });
    const { response } = await until(socket, 'response.created');
    socket.send({ type: 'response.steer', previous_response_id: response.id, input: 'and hurry' });
    const accepted = await until(socket, 'response.steer.accepted');
    await upstream.release(mark);
    await until(socket, 'response.steer.pending');
    socket.send({ type: 'response.create', model: MODEL, previous_response_id: response.id, input: 'no output' });
    const error = await socket.next(), failed = await socket.next();
    assert.deepEqual([error.type, error.status], ['error', 400]);
    assert.deepEqual([failed.type, failed.steer.id, failed.error.code, failed.error.message],
      ['response.steer.failed', accepted.steer.id, 'successor_creation_failed', error.error.message]);
  });

  it('is refused if the response is unknown, has ended, or is on another connection', async (t) => {
    const socket = await open(t), other = await open(t), mark = marker();
    const ended = answer(await socket.create({ stream_id: 's', input: 'hello' }));
    const { response } = await begin(other, { input: `${HELD}${mark}` });
    for (const [id, code, stream_id] of [[UNKNOWN_RESPONSE, 'response_not_found'], [response.id, 'response_not_found'], [ended.id, 'response_already_completed', 's']]) {
      socket.send({ type: 'response.steer', previous_response_id: id, input: 'wait!' });
      const failed = await socket.next();
      assert.deepEqual([failed.type, failed.steer, failed.error.type, failed.error.code, failed.stream_id],
        ['response.steer.failed', { previous_response_id: id, input: 'wait!' }, 'invalid_request_error', code, stream_id]);
    }
    await upstream.release(mark);
  });

  it('is refused for a response of a conversation', async (t) => {
    const socket = await open(t), mark = marker();
    const conversation = await client.conversations.create({});
    const { response } = await begin(socket, { conversation: conversation.id, input: `${HELD}${mark}` });
    socket.send({ type: 'response.steer', previous_response_id: response.id, input: 'wait!' });
    assert.equal((await until(socket, 'response.steer.failed')).error.code, 'steering_not_supported');
    await upstream.release(mark);
    await until(socket, 'response.completed');
  });

  it('is refused if too many wait', async (t) => {
    const socket = await open(t), mark = marker();
    const { response } = await begin(socket, { input: `${HELD}${mark}` });
    for (let i = 0; i <= 16; i++) socket.send({ type: 'response.steer', previous_response_id: response.id, input: `${i}` });
    for (let i = 0; i < 16; i++) await until(socket, 'response.steer.accepted');
    const failed = await until(socket, 'response.steer.failed');
    assert.deepEqual([failed.error.code, failed.steer.input, failed.steer.id], ['too_many_pending_steers', '16', undefined]);
    await upstream.release(mark);
    await until(socket, 'response.completed');
    assert.equal((await until(socket, 'response.completed')).response.output.length, 1);
  });

  for (const [what, message] of [
    ['no input', {}], ['an empty input', { input: [] }], ['a number', { input: 7 }],
    ['another role', { input: [{ role: 'developer', content: 'x' }] }],
    ['an output', { input: [{ type: 'function_call_output', call_id: 'c', output: 'x' }] }],
    ['another part', { input: [{ role: 'user', content: [{ type: 'output_text', text: 'x' }] }] }],
    ['another member of a message', { input: [{ role: 'user', content: 'x', name: 'n' }] }],
    ['a stream id', { input: 'x', stream_id: 's' }], ['a model', { input: 'x', model: MODEL }],
  ]) {
    it(`is refused with ${what}`, async (t) => {
      const socket = await open(t);
      socket.send({ type: 'response.steer', previous_response_id: UNKNOWN_RESPONSE, ...message });
      const failed = await socket.next();
      assert.deepEqual([failed.type, failed.error.code, failed.steer.id], ['response.steer.failed', 'invalid_input', undefined]);
      assert.deepEqual(failed.steer.input, message.input);
    });
  }

  // The steer and the end of the response meet at any moment: the input is used once, or returned.
  it('races with the end of its response', async (t) => {
    const socket = await open(t);
    const outcomes = { used: 0, returned: 0 };
    for (let i = 0; i < 60; i++) {
      // Every sixth response waits, so that its steer arrives in time on any machine.
      const script = i % 6 ? '<<chunk 1>>' : '<<stall after=1 ms=200>>';
      socket.send({ type: 'response.create', model: MODEL, input: `${script}${marker()}` });
      const { response } = await until(socket, 'response.created');
      for (let skip = i % 6 ? i % 40 : 0; skip > 0; skip--) if (isLast(await socket.next())) break;
      socket.send({ type: 'response.steer', previous_response_id: response.id, input: `steer ${i}` });
      const seen = [];
      let ends = null;
      while (!ends) {
        const event = await socket.next();
        seen.push(event.type);
        if (event.type === 'response.steer.failed') ends = 'returned';
        if (event.type === 'response.completed' && event.response.previous_response_id === response.id) ends = 'used';
        assert.notEqual(event.type, 'error');
      }
      outcomes[ends]++;
      if (ends === 'used') assert.ok(seen.includes('response.steer.accepted'));
    }
    assert.equal(outcomes.used + outcomes.returned, 60);
    assert.ok(outcomes.used > 0, JSON.stringify(outcomes));
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
