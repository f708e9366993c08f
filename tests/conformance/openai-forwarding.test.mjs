// Responses that are not stored, by the official SDK, over a service with the same API: the service
// receives the bytes that the SDK sent, and the SDK reads the events of the service.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import OpenAI, { RateLimitError } from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { MockResponses } from './mock-responses.mjs';

const mock = new MockResponses();
const sent = [];
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-forwarding-'));
let server, client;

before(async () => {
  fs.writeFileSync(path.join(directory, 'palaver.yaml'), 'providers:\n  - kind: openai\n    responses: on\n');
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^PALAVER_|_API_KEY$/.test(name)));
  server = spawn(process.env.PALAVER_BIN, ['serve', '--listen', '127.0.0.1:0', '--store', 'memory:', '--model', 'mock-model',
    '--provider', 'openai', '--provider-url', `${await mock.listen()}/v1`],
  { cwd: directory, env: { ...env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' }, stdio: ['ignore', 'pipe', 'ignore'] });
  const [line] = await once(server.stdout, 'data');
  client = new OpenAI({ baseURL: `${/http:\S+/.exec(line)[0]}/v1`, apiKey: 'test-key', maxRetries: 0,
    fetch: (url, init) => { sent.push(init.body); return fetch(url, init); } });
});
after(async () => {
  server.kill('SIGTERM');
  await once(server, 'exit');
  mock.close();
  fs.rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => { sent.length = mock.requests.length = 0; });

const request = (input, more = {}) => ({ model: 'mock-model', store: false, input, include: ['reasoning.encrypted_content'],
  tools: [{ type: 'web_search', search_context_size: 'low' }, { type: 'code_interpreter', container: { type: 'auto' } },
    { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'regex', definition: '[a-z]+' } }], ...more });

describe('a forwarded response', () => {
  it('is read by the SDK', async () => {
    const response = await client.responses.create(request('hi <<think Hm.>><<say Hello.>>'));
    assert.equal(response.output_text, 'Hello.');
    assert.equal(response.output[0].encrypted_content, 'secret:Hm.');
    assert.equal(response.usage.total_tokens, 120);
    assert.deepEqual(mock.requests.map(({ raw }) => raw), sent);
  });

  it('is read by the SDK as a stream', async () => {
    const stream = client.responses.stream(request('hi <<item {"id":"ws_1","type":"web_search_call","status":"completed"}>><<say Hello.>>'));
    const types = [];
    for await (const event of stream) types.push(event.type);
    const response = await stream.finalResponse();
    assert.equal(types[0], 'response.created');
    assert.equal(types.at(-1), 'response.completed');
    assert.deepEqual(response.output.map(({ type }) => type), ['web_search_call', 'message']);
    assert.deepEqual(mock.requests.map(({ raw }) => raw), sent);
  });

  it('goes on with everything that the service sent', async () => {
    const first = await client.responses.create(request('hi <<think Hm.>><<custom patch abc>>'));
    const input = [{ role: 'user', content: 'hi <<next>><<say Done.>>' }, ...first.output,
      { type: 'custom_tool_call_output', call_id: first.output.at(-1).call_id, output: 'ok' }];
    const second = await client.responses.create(request(input));
    assert.equal(second.output_text, 'Done.');
    assert.deepEqual(mock.requests.map(({ raw }) => raw), sent);
  });

  it('fails with the error of the service', async () => {
    await assert.rejects(client.responses.create(request('hi <<fail 429>>')), RateLimitError);
  });

  it('throws if the stream breaks off', async () => {
    const stream = await client.responses.create(request('hi <<say no>><<cut>>', { stream: true }));
    await assert.rejects(async () => { for await (const event of stream) assert.ok(event); }, /before its last event/);
  });

  it('continues over a WebSocket', async (t) => {
    const socket = new ResponsesWS(client);
    t.after(() => socket.close());
    const create = (body) => new Promise((resolve, reject) => {
      socket.once('response.completed', ({ response }) => resolve(response));
      socket.once('error', reject);
      socket.send({ type: 'response.create', ...request(body.input), ...body });
    });
    const first = await create({ input: 'one <<think Hm.>><<say 1>>' });
    const second = await create({ input: 'two <<say 2>>', previous_response_id: first.id });
    assert.equal(second.output.at(-1).content[0].text, '2');
    const [, { body }] = mock.requests;
    assert.deepEqual(body.input, [{ type: 'message', role: 'user', content: 'one <<think Hm.>><<say 1>>' }, ...first.output,
      { type: 'message', role: 'user', content: 'two <<say 2>>' }]);
    assert.deepEqual(body.tools, request().tools);
  });
});
