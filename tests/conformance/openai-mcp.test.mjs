// Tools of an MCP server by the official SDK: the server lists them and runs their calls, and the
// client approves the calls.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { MockModel } from './mock-model.mjs';

const mock = new MockModel();
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-mcp-'));
const notes = path.join(directory, 'notes');
const kind = process.env.CONFORMANCE_STORE ?? 'memory';
const store = kind === 'sqlite' ? `sqlite:${path.join(directory, 'palaver.db')}` : 'memory:';
let server, client, upstream;

before(async () => {
  upstream = await mock.listen();
  const command = JSON.stringify([process.execPath, fileURLToPath(new URL('tool_server.cjs', import.meta.url)), notes]);
  fs.writeFileSync(path.join(directory, 'palaver.yaml'), `mcp_servers:\n  - {name: fx, command: ${command}}\n`);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^PALAVER_|_API_KEY$/.test(name)));
  server = spawn(process.env.PALAVER_BIN, ['serve', '--listen', '127.0.0.1:0', '--store', store, '--model', 'mock-model',
    '--provider', 'openai', '--provider-url', `${upstream}/v1`],
  { cwd: directory, env: { ...env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' }, stdio: ['ignore', 'pipe', 'ignore'] });
  const [line] = await once(server.stdout, 'data');
  client = new OpenAI({ baseURL: `${/http:\S+/.exec(line)[0]}/v1`, apiKey: 'test-key', maxRetries: 0 });
});
after(async () => {
  server.kill('SIGTERM');
  await once(server, 'exit');
  await mock.close();
  fs.rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => fs.writeFileSync(notes, ''));

const tool = { type: 'mcp', server_label: 'fx', require_approval: 'always' };
const request = (input, more = {}) => ({ model: 'mock-model', input, tools: [tool], ...more });
const asks = (name) => `<<tool fx__${name} {"a":2}>><<next>><<say Done.>>`;
const approve = (item, is = true) => ({ type: 'mcp_approval_response', approval_request_id: item.id, approve: is });
const requestOf = (response) => response.output.find(({ type }) => type === 'mcp_approval_request');
const callOf = (response) => response.output.find(({ type }) => type === 'mcp_call');
const listOf = (response) => response.output.find(({ type }) => type === 'mcp_list_tools');
const ran = () => fs.readFileSync(notes, 'utf8').split('\n').filter(Boolean);

async function finished(body) {
  const stream = client.responses.stream(body);
  const events = [];
  for await (const event of stream) events.push(event);
  return { events, response: await stream.finalResponse() };
}

describe(`tools of an MCP server (${kind})`, () => {
  it('are listed once, at the beginning of a chain', async () => {
    const { events, response } = await finished(request('<<say Hello.>>'));
    const list = listOf(response);
    assert.equal(response.output[0], list);
    assert.deepEqual([list.server_label, list.error, list.tools.map(({ name }) => name)], ['fx', null, ['add', 'write', 'fail']]);
    assert.deepEqual(events.filter((e) => (e.item_id ?? e.item?.id) === list.id).map((e) => e.type),
      ['response.output_item.added', 'response.mcp_list_tools.in_progress', 'response.mcp_list_tools.completed',
        'response.output_item.done']);
    assert.deepEqual((await client.responses.retrieve(response.id)).output[0], list);
    const next = await client.responses.create(request('<<say Again.>>', { previous_response_id: response.id }));
    assert.equal(listOf(next), undefined);
    const { id: conversation } = await client.conversations.create({});
    const lists = [];
    for (let i = 0; i < 2; i++) lists.push(listOf(await client.responses.create(request('<<say Hi.>>', { conversation }))) !== undefined);
    assert.deepEqual(lists, [true, false]);
  });

  it('run when the client has approved their calls', async () => {
    const first = await client.responses.create(request(asks('add')));
    const asked = requestOf(first);
    assert.deepEqual([first.status, asked.name, asked.arguments], ['completed', 'add', '{"a":2}']);
    assert.deepEqual(ran(), []);
    const next = await client.responses.create(request([approve(asked)], { previous_response_id: first.id }));
    const { id, ...call } = callOf(next);
    assert.deepEqual(call, { type: 'mcp_call', server_label: 'fx', name: 'add', arguments: '{"a":2}',
      approval_request_id: asked.id, output: '5', error: null, status: 'completed' });
    assert.equal(next.output_text, 'Done.');
    assert.deepEqual(ran(), ['add {"a":2}']);
    for (const response of [first, next])
      assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
  });

  it('stream requests for approval and calls', async () => {
    const first = await finished(request(asks('write')));
    const asked = requestOf(first.response);
    assert.deepEqual(first.events.filter((e) => e.item?.id === asked.id).map((e) => e.type),
      ['response.output_item.added', 'response.output_item.done']);
    const next = await finished(request([approve(asked)], { previous_response_id: first.response.id }));
    const call = callOf(next.response);
    assert.deepEqual([call.output, call.approval_request_id], ['done', asked.id]);
    assert.deepEqual(next.events.filter((e) => (e.item_id ?? e.item?.id) === call.id).map((e) => e.type),
      ['response.output_item.added', 'response.mcp_call.in_progress', 'response.mcp_call_arguments.delta',
        'response.mcp_call_arguments.done', 'response.mcp_call.completed', 'response.output_item.done']);
    assert.equal(next.response.output_text, 'Done.');
    for (const { events, response } of [first, next]) {
      const again = [];
      for await (const event of await client.responses.retrieve(response.id, { stream: true })) again.push(event);
      assert.deepEqual(again.at(-1), events.at(-1));
      assert.equal(again.length, events.length);
    }
  });

  it('do not run when the client denies their calls', async () => {
    const first = await client.responses.create(request(asks('write')));
    const next = await client.responses.create(request([approve(requestOf(first), false)], { previous_response_id: first.id }));
    assert.equal(callOf(next), undefined);
    assert.equal(next.output_text, 'Done.');
    assert.deepEqual(ran(), []);
  });

  it('report their errors as the types of the SDK say, and read them again', async () => {
    const first = await client.responses.create(request(asks('fail')));
    const next = await client.responses.create(request([approve(requestOf(first))], { previous_response_id: first.id }));
    const call = callOf(next);
    assert.deepEqual([call.status, call.output, call.error],
      ['failed', null, { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'done' }] }]);
    const input = [{ role: 'user', content: 'a' }, { ...call, approval_request_id: null }, { role: 'user', content: 'b' }];
    await client.responses.create(request(input, { store: false }));
    const { requests } = await (await fetch(`${upstream}/__requests`)).json();
    const sent = requests.at(-1).body.messages;
    assert.deepEqual(sent.filter((m) => m.role === 'tool').map((m) => m.content), ['done']);
  });
});
