// Stored responses by the official SDK, over a service with the same API: the service gets the
// members of the client and the whole history as items, and everything that it sent comes back.
// Palaver keeps the state, so the service is never asked to store anything.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { InternalServerError, RateLimitError } from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { MockResponses } from './mock-responses.mjs';

const mock = new MockResponses();
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-stored-'));
const kind = process.env.CONFORMANCE_STORE ?? 'memory';
const store = kind === 'sqlite' ? `sqlite:${path.join(directory, 'palaver.db')}` : 'memory:';
let server, client, base, upstream;

async function start() {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^PALAVER_|_API_KEY$/.test(name)));
  server = spawn(process.env.PALAVER_BIN, ['serve', '--listen', '127.0.0.1:0', '--store', store, '--model', 'mock-model',
    '--provider', 'openai', '--provider-url', `${upstream}/v1`],
  { cwd: directory, env: { ...env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' }, stdio: ['ignore', 'pipe', 'ignore'] });
  const [line] = await once(server.stdout, 'data');
  base = /http:\S+/.exec(line)[0];
  client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'test-key', maxRetries: 0 });
}
async function stop(signal) {
  const exited = once(server, 'exit');
  server.kill(signal);
  await exited;
}
const native = async (target) => (await fetch(`${base}/api/v1${target}`)).json();

before(async () => {
  upstream = await mock.listen();
  fs.writeFileSync(path.join(directory, 'palaver.yaml'), 'providers:\n  - kind: openai\n    responses: on\n');
  await start();
});
after(async () => {
  await stop('SIGTERM');
  mock.close();
  fs.rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => { mock.requests.length = 0; });

const SEARCH = { id: 'ws_1', type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'q' } };
const tools = [{ type: 'web_search', search_context_size: 'low' },
  { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'regex', definition: '[a-z]+' } },
  { type: 'function', name: 'read', parameters: { type: 'object' }, strict: false }];
const request = (input, more = {}) => ({ model: 'mock-model', input, tools, ...more });
const create = (input, more) => client.responses.create(request(input, more));
const all = async (pages) => { const list = []; for await (const item of pages) list.push(item); return list; };
const input = () => mock.requests.at(-1).body.input;
const text = (t) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text: t }] });
const sentItem = ({ id, status, ...item }) => item;
const sessionOf = (hex) => hex.replace(/^[a-z]+_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

describe(`a stored response (${kind})`, () => {
  it('gives the service the members of the client, and the client our ids', async () => {
    const first = `hi <<think Hm.>><<item ${JSON.stringify(SEARCH)}>><<say Hello.>>`;
    const response = await create(first, { instructions: 'Be brief.', reasoning: { effort: 'low', summary: 'auto' },
      text: { verbosity: 'low' }, metadata: { topic: 'demo' }, unheard_of: { a: 1 }, tool_choice: { type: 'web_search' } });
    const { body } = mock.requests[0];
    assert.deepEqual(body.tools, tools);
    assert.deepEqual([body.store, body.stream, body.instructions], [false, true, 'Be brief.']);
    assert.deepEqual([body.reasoning, body.text, body.unheard_of, body.tool_choice],
      [{ effort: 'low', summary: 'auto' }, { verbosity: 'low' }, { a: 1 }, { type: 'web_search' }]);
    assert.deepEqual(body.include, ['reasoning.encrypted_content']);
    assert.deepEqual(body.input, [text(first)]);
    assert.deepEqual(response.output.map(({ type }) => type), ['reasoning', 'web_search_call', 'message']);
    assert.equal(response.output_text, 'Hello.');
    assert.equal(response.output[0].encrypted_content, 'secret:Hm.');
    assert.deepEqual(response.output[1].action, SEARCH.action);
    assert.equal(response.metadata.palaver_left_out, undefined);
    assert.equal(response.usage.total_tokens, 120);
    assert.ok(!JSON.stringify(response).includes('ws_1'));
    assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
    const [item] = await all(client.responses.inputItems.list(response.id));
    assert.equal(item.content[0].text, first);
  });

  it('continues with everything that the service sent, and with its ids of items that only it knows', async () => {
    const first = await create(`one <<think Hm.>><<item ${JSON.stringify(SEARCH)}>><<custom patch abc>>`);
    const call = first.output.at(-1);
    assert.deepEqual([call.type, call.input], ['custom_tool_call', 'abc']);
    const second = await create([{ type: 'custom_tool_call_output', call_id: call.call_id, output: 'ok' },
      { role: 'user', content: 'two <<say 2>>' }], { previous_response_id: first.id });
    assert.equal(second.output_text, '2');
    assert.equal(mock.requests.at(-1).body.previous_response_id, undefined);
    assert.deepEqual(input().slice(1), [sentItem(first.output[0]), SEARCH, sentItem(call),
      { type: 'custom_tool_call_output', call_id: call.call_id, output: 'ok' }, text('two <<say 2>>')]);
    const branch = await create('other <<say 3>>', { previous_response_id: second.id });
    assert.equal(input().length, 8);
    assert.equal(branch.output_text, '3');
  });

  it('keeps several messages of an answer apart, with their members', async () => {
    const say = (t, phase) => ({ type: 'message', role: 'assistant', status: 'completed', phase,
      content: [{ type: 'output_text', text: t, annotations: [{ type: 'url_citation', url: 'http://x', start_index: 0, end_index: 1, title: 'x' }] }] });
    const said = [say('a', 'commentary'), say('b', 'commentary'), SEARCH, say('c', 'final_answer')];
    const script = `go ${said.map((item, i) => `<<item ${JSON.stringify({ id: `x_${i}`, ...item })}>>`).join('')}`;
    const response = await create(script);
    const shown = (list) => list.map(({ id, ...item }) => item);
    assert.deepEqual(shown(response.output), shown(said));
    assert.equal(new Set(response.output.map(({ id }) => id)).size, 4);
    assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
    await create('on', { previous_response_id: response.id });
    assert.deepEqual(input().slice(1, -1), [...said.slice(0, 2).map(sentItem), SEARCH, sentItem(said[3])]);
  });

  it('streams the same items, and replays the same events', async () => {
    const stream = client.responses.stream(request(`hi <<think Hm.>><<item ${JSON.stringify(SEARCH)}>><<tool read {"a":1}>><<say Hello.>>`));
    const events = [];
    for await (const event of stream) events.push(event);
    const response = await stream.finalResponse();
    assert.deepEqual(response.output.map(({ type }) => type), ['reasoning', 'web_search_call', 'function_call', 'message']);
    assert.deepEqual(events.map(({ sequence_number: n }) => n), events.map((_, i) => i));
    for (const type of ['response.reasoning_summary_text.delta', 'response.function_call_arguments.delta', 'response.output_text.delta'])
      assert.ok(events.some((event) => event.type === type), type);
    const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item);
    const stored = (await client.responses.retrieve(response.id)).output;
    assert.deepEqual(done, stored);
    assert.deepEqual(events.at(-1).response.output, stored);
    const ids = new Set(stored.map(({ id }) => id));
    for (const { item_id: id } of events) assert.ok(id === undefined || ids.has(id), id);
    const plain = (list) => list.map(({ parsed_arguments, ...event }) => JSON.parse(JSON.stringify(event)));
    const again = await all(await client.responses.retrieve(response.id, { stream: true }));
    assert.deepEqual(plain(again).map(({ type, sequence_number: n }) => [n, type]), plain(events).map(({ type, sequence_number: n }) => [n, type]));
    assert.deepEqual(again.at(-1).response.output, stored);
    const late = await all(await client.responses.retrieve(response.id, { stream: true, starting_after: 4 }));
    assert.equal(late[0].sequence_number, 5);
  });

  it('replays an answer that the service did not complete, and messages of several parts', async () => {
    const said = { type: 'message', role: 'assistant', status: 'completed', content: ['one', 'two é'].map((t) => ({ type: 'output_text', text: t, annotations: [] })) };
    const items = [[said], [{ ...said, id: 'm1' }, { ...SEARCH, id: 'ws_9' }], [{ ...said, status: 'incomplete' }]];
    for (const list of items) {
      const script = `hi ${list.map((item, i) => `<<item ${JSON.stringify({ id: `x_${i}`, ...item })}>>`).join('')}<<incomplete>>`;
      const events = await all(await create(script, { stream: true }));
      const { response } = events.at(-1);
      assert.deepEqual([response.status, response.output.map(({ status }) => status)], ['incomplete', list.map(({ status }) => status)]);
      assert.deepEqual(events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item), response.output);
      assert.deepEqual(JSON.parse(JSON.stringify(await all(await client.responses.retrieve(response.id, { stream: true })))),
        JSON.parse(JSON.stringify(events)));
      assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
    }
  });

  describe('streams the progress of the tools that the service runs', () => {
    const CODE = { id: 'ci_1', type: 'code_interpreter_call', status: 'completed', code: 'print("é\\n")', container_id: 'c', outputs: null };
    const REMOTE = { id: 'mcp_1', type: 'mcp_call', name: 'roll', server_label: 'dice', arguments: '{}', output: '4', status: 'completed' };
    const script = (...items) => items.map((item) => `<<item ${JSON.stringify(item)}>>`).join('');
    const about = (events, index) => events.filter(({ output_index: at }) => at === index);
    const names = (events) => events.map(({ type }) => type.replace('response.', ''));
    const SEARCHED = ['output_item.added', 'web_search_call.in_progress', 'web_search_call.searching', 'web_search_call.completed', 'output_item.done'];
    const plain = (list) => JSON.parse(JSON.stringify(list));

    // Everything that a client can compare: the numbers, the ids, the stored output, and every replay.
    async function check(events) {
      const { response } = events.at(-1);
      assert.deepEqual(events.map(({ sequence_number: n }) => n), events.map((_, i) => i));
      const stored = (await client.responses.retrieve(response.id)).output;
      assert.deepEqual(response.output, stored);
      for (const { item_id: id, output_index: at } of events) assert.ok(id === undefined || stored[at].id === id, id);
      for (const { item, output_index: at } of events) assert.ok(item === undefined || stored[at].id === item.id, item?.id);
      assert.ok(!/"(ws|ci|mcp)_1"/.test(JSON.stringify(events)), 'no id of the service');
      const again = await all(await client.responses.retrieve(response.id, { stream: true }));
      assert.deepEqual(plain(again), plain(events));
      for (let after = 0; after < events.length - 1; after++) {
        const late = await all(await client.responses.retrieve(response.id, { stream: true, starting_after: after }));
        assert.deepEqual(plain(late), plain(events.slice(after + 1)));
      }
      return stored;
    }

    it('with our ids and numbers, and replays it', async () => {
      const events = await all(await create(`go <<think Hm.>>${script(SEARCH, CODE, REMOTE)}<<say Done.>>`, { stream: true }));
      await check(events);
      assert.deepEqual(names(about(events, 1)), SEARCHED);
      assert.equal(about(events, 1)[0].item.status, 'in_progress');
      const code = about(events, 2).filter(({ type }) => type === 'response.code_interpreter_call_code.delta');
      assert.equal(code.map(({ delta }) => delta).join(''), CODE.code);
      assert.equal(code[0].obfuscation, 'x');
      assert.deepEqual(names(about(events, 3)), ['output_item.added', 'mcp_call.in_progress', 'mcp_call_arguments.delta',
        'mcp_call_arguments.done', 'mcp_call.completed', 'output_item.done']);
    });

    it('while the tool runs, to a second reader too', async () => {
      const begun = await create(`go ${script(SEARCH)}<<hold>><<say Done.>>`, { stream: true, background: true });
      const events = [];
      const seen = async (stream, into) => {
        for await (const event of stream) {
          into.push(event);
          if (event.type === 'response.web_search_call.completed') return;
        }
      };
      const iterator = begun[Symbol.asyncIterator]();
      const rest = { [Symbol.asyncIterator]: () => ({ next: () => iterator.next() }) };
      await seen(rest, events);
      const { id } = events[0].response;
      const other = await client.responses.retrieve(id, { stream: true, starting_after: 2 });
      const late = [];
      const second = (async () => { for await (const event of other) late.push(event); })();
      mock.release();
      for await (const event of rest) events.push(event);
      await second;
      assert.deepEqual(plain(late), plain(events.slice(3)));
      await check(events);
    });

    it('of items that the service begins at the same time', async () => {
      const events = await all(await create(`go <<together>>${script(SEARCH, { ...SEARCH, id: 'ws_2' }, CODE)}<<say Done.>>`, { stream: true }));
      const stored = await check(events);
      assert.deepEqual(stored.map(({ type }) => type), ['web_search_call', 'web_search_call', 'code_interpreter_call', 'message']);
      assert.deepEqual([names(about(events, 0)), names(about(events, 1))], [SEARCHED, SEARCHED]);
      assert.equal(events.at(-1).response.output_text ?? stored[3].content[0].text, 'Done.');
    });

    it('of items that the service does not end', async () => {
      for (const script2 of [`${script(SEARCH)}<<open>>`, `${script(SEARCH)}<<open>><<say Done.>>`, `<<say One.>>${script(SEARCH, CODE)}<<open>>`,
        `<<say One.>>${script(SEARCH)}<<open>><<bare>>`]) {
        const events = await all(await create(`go ${script2}`, { stream: true }));
        const stored = await check(events);
        const at = stored.findIndex(({ type }) => type === 'web_search_call');
        assert.deepEqual(names(about(events, at)), SEARCHED, script2);
        await create('on', { previous_response_id: events.at(-1).response.id });
        assert.ok(input().some(({ type, id }) => type === 'web_search_call' && id === 'ws_1'), script2);
      }
    });
  });

  it('belongs to a conversation, which the other APIs show', async () => {
    const conversation = await client.conversations.create();
    await create(`remember the zebra <<item ${JSON.stringify(SEARCH)}>><<say Noted.>>`, { conversation: conversation.id });
    await create('again <<say Yes.>>', { conversation: conversation.id });
    assert.equal(input().length, 4);
    const items = await all(client.conversations.items.list(conversation.id, { order: 'asc', limit: 1 }));
    assert.deepEqual(items.map(({ type }) => type), ['message', 'web_search_call', 'message', 'message', 'message']);
    assert.deepEqual(await client.conversations.items.retrieve(items[1].id, { conversation_id: conversation.id }), items[1]);
    const session = sessionOf(conversation.id);
    const { messages } = await native(`/sessions/${session}/messages`);
    assert.deepEqual(messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant']);
    assert.match(JSON.stringify(await native('/search?q=zebra')), /zebra/);
    const usage = await native(`/sessions/${session}/usage`);
    assert.deepEqual([usage.calls, usage.output_tokens], [2, 40]);
    const context = await fetch(`${base}/api/v1/sessions/${session}/context`);
    assert.equal(context.status, 200, await context.text());
  });

  it('runs in the background, and can be canceled', async () => {
    const begun = await create('later <<think Hm.>><<say Done.>>', { background: true });
    assert.ok(['queued', 'in_progress'].includes(begun.status));
    let found;
    for (let i = 0; i < 500 && found?.status !== 'completed'; i++, await sleep(10)) found = await client.responses.retrieve(begun.id);
    assert.deepEqual([found.output_text, found.output[0].encrypted_content], ['Done.', 'secret:Hm.']);
    const hanging = await create('never <<hang>>', { background: true });
    for (let i = 0; i < 500 && mock.requests.length < 2; i++) await sleep(10);
    assert.equal((await client.responses.cancel(hanging.id)).status, 'cancelled');
    mock.release();
  });

  it('leaves nothing if it fails, or if the client leaves', async () => {
    const conversation = await client.conversations.create();
    const ask = (input, options) => client.responses.create(request(input, { conversation: conversation.id }), options);
    await assert.rejects(ask('no <<fail 429>>'), RateLimitError);
    await assert.rejects(ask('no <<fail 500>>'), InternalServerError);
    await assert.rejects(ask('no <<say a>><<cut>>'), InternalServerError);
    const left = new AbortController();
    mock.left = 0;
    const asked = ask('no <<hang>>', { signal: left.signal });
    const count = mock.requests.length;
    for (let i = 0; i < 500 && mock.requests.length === count; i++) await sleep(10);
    left.abort();
    await assert.rejects(asked);
    for (let i = 0; i < 500 && mock.left === 0; i++) await sleep(10);
    mock.release();
    assert.equal((await ask('yes <<say ok>>')).output_text, 'ok');
    assert.deepEqual(input(), [text('yes <<say ok>>')]);
    assert.equal((await all(client.conversations.items.list(conversation.id))).length, 2);
    assert.equal((await ask('cut <<say ok>><<incomplete>>')).status, 'incomplete');
  });

  it('continues over a WebSocket', async (t) => {
    const socket = new ResponsesWS(client);
    t.after(() => socket.close());
    const send = (body) => new Promise((resolve, reject) => {
      socket.once('response.completed', ({ response }) => resolve(response));
      socket.once('error', reject);
      socket.send({ type: 'response.create', ...request(body.input), ...body });
    });
    const first = await send({ input: 'one <<think Hm.>><<say 1>>' });
    const second = await send({ input: 'two <<say 2>>', previous_response_id: first.id });
    assert.deepEqual(input(), [text('one <<think Hm.>><<say 1>>'), ...first.output.map(sentItem), text('two <<say 2>>')]);
    assert.deepEqual((await client.responses.retrieve(second.id)).output, second.output);
  });

  it('is compacted by the service, which gets the whole history', async () => {
    const image = { type: 'input_image', image_url: `data:image/png;base64,${Buffer.from('not a png').toString('base64')}`, detail: 'auto' };
    const look = [{ role: 'user', content: [{ type: 'input_text', text: 'one' }, image] }, { role: 'user', content: `<<think Hm.>><<item ${JSON.stringify(SEARCH)}>><<say 1>>` }];
    const first = await create(look);
    const later = await create('two <<say 2>>', { previous_response_id: first.id });
    await create('not on this branch <<say 3>>', { previous_response_id: later.id });
    const compacted = await client.responses.compact({ model: 'mock-model', previous_response_id: later.id, instructions: 'Be brief.',
      input: [text('three')] });
    assert.deepEqual([compacted.id, compacted.output], ['resp_c', [{ id: 'cmp_1', type: 'compaction', encrypted_content: 'opaque!' }]]);
    const { body } = mock.requests.at(-1);
    assert.deepEqual([body.model, body.instructions, body.previous_response_id], ['mock-model', 'Be brief.', undefined]);
    assert.deepEqual([body.input[0].content[1].image_url, body.input.slice(1)], [image.image_url, [text(look[1].content), sentItem(first.output[0]),
      SEARCH, sentItem(first.output[2]), text('two <<say 2>>'), sentItem(later.output[0]), text('three')]]);
    const next = await create([...compacted.output, text('four <<say 4>>')]);
    assert.equal(next.output_text, '4');
    assert.deepEqual(input(), [sentItem(compacted.output[0]), text('four <<say 4>>')]);
    await create('five <<say 5>>', { previous_response_id: next.id });
    assert.deepEqual(input()[0], sentItem(compacted.output[0]));
    const readable = { type: 'compaction', encrypted_content: Buffer.from('a summary of the service').toString('base64') };
    await create([readable, text('six <<say 6>>')]);
    assert.deepEqual(input()[0], readable);
    await assert.rejects(client.responses.compact({ model: 'mock-model', previous_response_id: `resp_${'0'.repeat(32)}` }),
      { status: 400, code: 'previous_response_not_found' });
  });

  it('survives a crash after its end was sent', { skip: kind === 'memory' }, async () => {
    const stream = await create(`keep <<think Hm.>><<item ${JSON.stringify(SEARCH)}>><<say Kept.>>`, { stream: true });
    let response;
    for await (const event of stream) response = event.response ?? response;
    await stop('SIGKILL');
    await start();
    assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
    const next = await create('on <<say On.>>', { previous_response_id: response.id });
    assert.equal(next.output_text, 'On.');
    assert.deepEqual(input().slice(1, -1), [sentItem(response.output[0]), SEARCH, sentItem(response.output[2])]);
  });
});
