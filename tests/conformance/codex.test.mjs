// The Codex CLI with its default settings: it talks to the server over a WebSocket, and over HTTP if
// WebSockets are switched off. The scripted model calls a tool that Codex runs. With `palaver run`, the
// session must equal the transcript that Codex writes.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MockResponses } from './mock-responses.mjs';
import { rows, runExamples, UPSTREAMS, workplace } from './lib/agents.mjs';

const { MOCK_MODEL_URL, PALAVER_BIN, PALAVER_URL } = process.env;
const codex = fileURLToPath(new URL('../node_modules/@openai/codex/bin/codex.js', import.meta.url));
const plain = Object.fromEntries(Object.entries(process.env)
    .filter(([name]) => !/^PALAVER_|^CODEX_|^NODE_|_API_KEY$/.test(name)));

function scratch(t) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-codex-'));
    t.after(() => fs.rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
    return dir;
}

// Runs `codex exec`, and returns its exit status and its outputs.
function runCodex(t, url, prompt) {
    const dir = scratch(t);
    const home = path.join(dir, 'home'), work = path.join(dir, 'work');
    for (const made of [home, work]) fs.mkdirSync(made);
    return new Promise((resolve) => {
        const child = execFile(process.execPath, [codex, 'exec', '--skip-git-repo-check', '-c',
            `openai_base_url="${url}/v1"`, prompt], { cwd: work, timeout: 120_000,
            env: { ...plain, CODEX_HOME: home, CODEX_API_KEY: 'test-key' } },
        (error, stdout, stderr) => resolve({ status: error ? error.code ?? error.signal : 0,
            stdout, stderr }));
        child.stdin.end();
    });
}

// Returns the requests that the model got with this text.
async function requests(mark) {
    const response = await fetch(`${MOCK_MODEL_URL}/__requests?contains=${mark}`);
    return (await response.json()).requests;
}

async function assertRoundTrip(t, url) {
    const mark = randomUUID();
    const script = JSON.stringify({ input: `text("six times seven is " + 6 * 7)` });
    const { status, stdout, stderr } = await runCodex(t, url, `<<tool exec ${script}>>${mark}`);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /six times seven is 42/);
    const asked = await requests(mark);
    assert.equal(asked.length, 2);
    for (const { body } of asked)
        assert.ok(body.tools.some((tool) => tool.function.name === 'exec'), 'exec is offered');
    assert.equal(asked[1].body.messages.at(-1).role, 'tool');
    return stderr;
}

test('Codex uses a tool over a WebSocket', async (t) => {
    assert.doesNotMatch(await assertRoundTrip(t, PALAVER_URL), /WebSocket/);
});

async function startServer(t, config, upstream) {
    const cwd = scratch(t);
    fs.writeFileSync(path.join(cwd, 'palaver.yaml'), config);
    const server = spawn(PALAVER_BIN, ['serve', '--listen', '127.0.0.1:0', '--store', 'memory:',
        '--model', 'mock-model', '--provider', 'openai', '--provider-url', `${upstream}/v1`],
    { cwd, env: { ...plain, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' }, stdio: ['ignore', 'pipe', 'ignore'] });
    t.after(async () => {
        server.kill('SIGTERM');
        if (server.exitCode === null) await once(server, 'exit');
    });
    let out = '';
    server.stdout.on('data', (data) => { out += data; });
    while (!out.includes('\n')) await once(server.stdout, 'data');
    return /http:\S+/.exec(out)[0];
}

test('Codex uses a tool over HTTP if WebSockets are switched off', async (t) => {
    const url = await startServer(t, 'server:\n  websocket: false\n', MOCK_MODEL_URL);
    assert.match(await assertRoundTrip(t, url), /WebSocket/);
});

// Items without their ids, which Codex makes itself, and without members that it adds.
const plainItem = ({ type, role, content, call_id: call, name, input, output, summary, encrypted_content: secret }) =>
    JSON.parse(JSON.stringify({ type, role, content, call, name, input, output, summary, secret }));

for (const [transport, config] of [['a WebSocket', ''], ['HTTP', 'server:\n  websocket: false\n']]) {
    test(`Codex is forwarded to a service with the Responses API over ${transport}, and recorded`, async (t) => {
        const mock = new MockResponses();
        t.after(() => mock.close());
        const url = await startServer(t, `${config}providers:\n  - kind: openai\n    responses: on\n`, await mock.listen());
        const mark = randomUUID();
        const prompt = `<<think Multiply.>><<custom exec text("six times seven is " + 6 * 7)>><<next>><<say It is 42.>>${mark}`;
        const { status, stdout, stderr } = await runCodex(t, url, prompt);
        assert.equal(status, 0, stderr);
        assert.match(stdout, /It is 42\./);
        const [first, second, ...others] = mock.requests.map(({ body }) => body);
        assert.deepEqual(others, []);
        const { tools } = first.input.find(({ type }) => type === 'additional_tools') ?? first;
        assert.ok(JSON.stringify(tools).includes('"name":"exec"'), 'its tools arrive unchanged');
        assert.equal(first.store, false);
        assert.deepEqual(second.input.slice(0, first.input.length).map(plainItem), first.input.map(plainItem));
        const [thought, call, result] = second.input.slice(first.input.length);
        assert.equal(thought.encrypted_content, 'secret:Multiply.');
        assert.equal(call.type, 'custom_tool_call');
        assert.match(JSON.stringify(result.output), /six times seven is 42/);

        const { sessions } = await (await fetch(`${url}/api/v1/sessions`)).json();
        const kept = sessions.filter(({ expires_at: at }) => !at);
        assert.equal(kept.length, 1);
        assert.match(kept[0].key, /^codex:/);
        const list = await (await fetch(`${url}/api/v1/sessions/${kept[0].session_id}/messages?limit=100`)).json();
        const stored = JSON.stringify(list.messages);
        for (const text of [mark, 'six times seven is 42', 'It is 42.', 'secret:Multiply.']) assert.ok(stored.includes(text), text);
        assert.ok(!stored.includes('additional_tools'), 'tools are not messages');
        assert.deepEqual(list.messages.slice(-4).map(({ role }) => role), ['user', 'assistant', 'tool', 'assistant']);
    });
}

for (const upstream of Object.keys(UPSTREAMS)) {
    test(`Codex over ${upstream}: the session equals the transcript`, async (t) => {
        const w = await workplace(t, { client: 'codex', program: codex, upstream });
        const tool = (command) => `<<tool exec_command ${JSON.stringify({ cmd: command })}>>`;
        const ask = async (...args) => {
            // Codex's sandbox does not start in every container.
            const { key, out } = await w.start(['exec', '--skip-git-repo-check',
                '--dangerously-bypass-approvals-and-sandbox', ...args]);
            return { key, said: out.trim() };
        };
        const first = await ask(`${tool('echo $((6 * 7))')}${tool('echo "a  b"')}<<next>>`
            + `<<say One more. >>${tool('false')}<<next>><<say It is 42.>>`);
        assert.equal(first.said, 'It is 42.');
        const second = await ask('resume', '--last', `${tool('echo again')}<<next>><<say Bye.>>`);
        assert.deepEqual(second, { key: first.key, said: 'Bye.' });

        const imported = await w.imported(path.join(w.home, '.codex/sessions'), first.key);
        const said = rows(imported);
        assert.deepEqual(imported.report.problems, []);
        const [instructions, ...recorded] = rows(await w.recorded(first.key));
        assert.equal(instructions[0], 'system', 'Codex does not write its instructions as a message');
        assert.deepEqual(recorded, said);
        assert.deepEqual(said.filter(([kind]) => kind === 'result').map(([, , text]) => text.split('\n').at(-1)),
            ['42', 'a  b', 'Output:', 'again']);
        assert.deepEqual((await w.sessions()).map(({ key }) => key), [first.key]);
    });
}

// A sub-agent has the conversation's session-id, and another thread-id.
test('the session of a sub-agent of Codex equals its transcript', async (t) => {
    const w = await workplace(t, { client: 'codex', program: codex, upstream: 'openai' });
    const spawned = JSON.stringify({ message: 'Say seven.', task_name: 'count' });
    // Codex would end before its sub-agent.
    const wait = JSON.stringify({ cmd: `until grep -q '"type":"task_complete"' "$HOME"/.codex/sessions/*/*/*/*; do sleep 0.1; done` });
    await w.start(['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox',
        `<<tool spawn_agent ${spawned}>><<next>><<tool exec_command ${wait}>><<next>><<say Done.>>`]);
    const keys = (await w.sessions()).map(({ key }) => key).sort();
    assert.equal(keys.length, 2, `no branches: ${keys}`);
    const said = [];
    for (const key of keys) {
        const imported = await w.imported(path.join(w.home, '.codex/sessions'), key);
        const [, ...recorded] = rows(await w.recorded(key));
        assert.deepEqual(recorded, rows(imported));
        said.push(...recorded.map(([, text]) => text));
    }
    for (const text of ['Say seven.', 'echo: Say seven.']) assert.ok(said.includes(text), text);
});

test('the examples in docs/coding-agents.md run', (t) =>
    runExamples(t, { client: 'codex', program: codex, upstream: 'openai' }));
