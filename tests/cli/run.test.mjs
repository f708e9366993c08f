// `palaver run` with small programs in place of the clients. The real clients are used in
// tests/conformance.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { assertFails, binary, workspace } from './support.mjs';

const ID = '11111111-2222-4333-8444-555555555555';

// The programs report their arguments and their environment, and do what their arguments say.
const program = `#!${process.execPath}
const { env, argv } = process;
const url = env.ANTHROPIC_BASE_URL
    ?? (env.OPENCODE_CONFIG_CONTENT ? JSON.parse(env.OPENCODE_CONFIG_CONTENT).provider.palaver.options.baseURL.slice(0, -3)
        : /base_url="(.*)\\/v1"/.exec(argv.join(' '))?.[1]);
const key = env.ANTHROPIC_AUTH_TOKEN ?? env.PALAVER_API_KEY;
const say = async (text, id = '${ID}', token = key) => {
    const response = await fetch(url + '/v1/messages', { method: 'POST', headers: {
        'x-claude-code-session-id': id, authorization: 'Bearer ' + token, 'user-agent': 'claude-cli/2' },
    body: JSON.stringify({ model: 'claude-opus-5-5', max_tokens: 128000, tools: [{ name: 'ls',
        input_schema: { type: 'object' } }], messages: [{ role: 'user', content: text }] }) });
    return [response.status, (await response.json()).content?.[0].text];
};
const doings = {
    show: () => console.log(JSON.stringify({ args: argv.slice(2), url, key, env })),
    say: async () => console.log(JSON.stringify(await say(argv[3], argv[4]))),
    strange: async () => console.log(JSON.stringify(await say('Hi', undefined, 'wrong'))),
    exit: () => process.exit(Number(argv[3])),
    read: async () => { let text = ''; for await (const piece of process.stdin) text += piece;
        console.log(text.toUpperCase()); },
    wait: () => { for (const name of ['SIGINT', 'SIGTERM'])
        process.on(name, () => { console.log(name); process.exit(7); });
    console.log('ready'); setInterval(() => {}, 1000); },
    die: () => process.kill(process.pid, 'SIGKILL'),
};
Promise.resolve((doings[argv[2]] ?? doings.show)());
`;

async function freePort() {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    await once(server, 'close');
    return port;
}

// A workspace with the three programs in PATH, no API keys, and an address where nothing listens.
async function clients(t) {
    const w = workspace(t);
    const bin = w.file('bin');
    fs.mkdirSync(bin);
    for (const name of ['claude', 'codex', 'opencode'])
        fs.writeFileSync(path.join(bin, name), program, { mode: 0o755 });
    const port = await freePort();
    const keys = Object.keys(process.env).filter((name) => /_API_KEY$/.test(name));
    const env = { PATH: bin, HOME: w.dir, PALAVER_SERVER_LISTEN: `127.0.0.1:${port}`,
        ...Object.fromEntries(keys.map((name) => [name, undefined])) };
    return { ...w, env, port, bin, start: (...args) => w.run('run', '--provider', 'echo', ...args,
        { env }) };
}

async function serve(t, c, ...args) {
    const server = spawn(binary, ['serve', '--provider', 'echo', ...args],
        { cwd: c.dir, env: { ...process.env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null', ...c.env },
            stdio: ['ignore', 'pipe', 'ignore'] });
    t.after(async () => {
        server.kill('SIGTERM');
        if (server.exitCode === null) await once(server, 'exit');
    });
    await once(server.stdout, 'data');
}

test('run: a client is pointed at the server by its environment and arguments', async (t) => {
    const c = await clients(t);
    const claude = JSON.parse(c.start('claude', 'show', '--help', '-x', '--store', 'y').out);
    assert.deepEqual(claude.args, ['show', '--help', '-x', '--store', 'y']);
    assert.match(claude.url, /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.equal(claude.env.ANTHROPIC_API_KEY, undefined);
    assert.equal(claude.env.ANTHROPIC_MODEL, undefined);
    assert.equal(claude.key.length, 64);

    const codex = JSON.parse(c.start('--model', 'm"1', 'codex', 'exec', 'show').out);
    assert.deepEqual(codex.args.slice(-2), ['exec', 'show']);
    assert.deepEqual(codex.args.slice(-4, -2), ['-c', 'model="m\\"1"']);
    assert.match(codex.url, /^http:/);
    assert.equal(codex.env.PALAVER_API_KEY.length, 64);

    const opencode = JSON.parse(c.start('opencode', 'show').out);
    const config = JSON.parse(opencode.env.OPENCODE_CONFIG_CONTENT);
    assert.equal(config.model, 'palaver/echo');
    assert.equal(config.provider.palaver.options.baseURL, config.provider.anthropic.options.baseURL);
    assert.deepEqual(fs.readdirSync(c.dir).sort(), ['bin', 'palaver-data'], 'nothing else is written');
});

test('run: the session is reported, and can be shown', async (t) => {
    const c = await clients(t);
    const run = c.start('claude', 'say', 'Hello!');
    assert.deepEqual(JSON.parse(run.out), [200, 'echo: Hello!']);
    assert.equal(run.code, 0);
    const shown = /show it with: palaver (.*)\n/.exec(run.err)[1].split(' ');
    assert.deepEqual(shown, ['session', 'show', `claude-code:${ID}`]);
    assert.match(run.err, new RegExp(`session claude-code:${ID} \\(\\S+\\), 2 messages, is kept in `
        + `${fs.realpathSync(c.dir)}/palaver-data/palaver.db\n`));
    assert.match(c.ok(...shown), /Hello!/);
    assert.equal(c.start('claude', 'show').err, '', 'a run without a session prints nothing');
});

test('run: a client inherits no files of the server, and no limit', async (t) => {
    const c = await clients(t);
    fs.writeFileSync(path.join(c.bin, 'claude'), '#!/bin/sh\n/bin/ls -1 /proc/self/fd\nulimit -Sn\n',
        { mode: 0o755 });
    const direct = spawnSync(path.join(c.bin, 'claude')).stdout.toString();
    assert.equal(c.start('claude').out, direct);
});

test('run: another store and tenant are named in the report', async (t) => {
    const c = await clients(t);
    const run = c.start('--store', 'mine.db', '--tenant', 'ann', 'claude', 'say', 'Hello!');
    const shown = /show it with: palaver (.*)\n/.exec(run.err)[1].split(' ');
    assert.match(c.ok(...shown), /Hello!/);
    assertFails(c.run('session', 'show', '--store', 'mine.db', `claude-code:${ID}`), 1, /does not exist/);
    const gone = c.start('--store', 'memory:', 'claude', 'say', 'Hello!');
    assert.match(gone.err, /was kept in memory only/);
});

test('run: only the client can use the server', async (t) => {
    const c = await clients(t);
    assert.equal(JSON.parse(c.start('claude', 'strange').out)[0], 401);
    // Keys of the store do not change that.
    c.ok('key', 'create');
    assert.deepEqual(JSON.parse(c.start('claude', 'say', 'Hi').out), [200, 'echo: Hi']);
});

test('run: the client gets input and signals, and its exit status is returned', async (t) => {
    const c = await clients(t);
    assert.equal(c.start('claude', 'exit', '42').code, 42);
    assert.equal(c.start('claude', 'die').code, 128 + 9);
    assert.equal(c.run('run', '--provider', 'echo', 'claude', 'read', { env: c.env, input: 'abc' }).out,
        'ABC\n');
    for (const signal of ['SIGINT', 'SIGTERM']) {
        const child = spawn(binary, ['run', '--provider', 'echo', 'claude', 'wait'],
            { cwd: c.dir, env: { ...process.env, ...c.env }, stdio: ['ignore', 'pipe', 'ignore'] });
        t.after(() => child.kill('SIGTERM'));
        let out = '';
        child.stdout.on('data', (data) => { out += data; });
        await once(child.stdout, 'data');
        child.kill(signal);
        const [code] = await once(child, 'close');
        assert.deepEqual([out, code], [`ready\n${signal}\n`, 7]);
    }
});

test('run: two clients share the store, and the first one that ends does not stop the other', async (t) => {
    const c = await clients(t);
    const first = spawn(binary, ['run', '--provider', 'echo', 'claude', 'wait'],
        { cwd: c.dir, env: { ...process.env, ...c.env }, stdio: ['ignore', 'pipe', 'pipe'] });
    t.after(() => first.kill('SIGTERM'));
    await once(first.stdout, 'data');
    const second = c.start('claude', 'say', 'Hello!');
    assert.deepEqual(JSON.parse(second.out), [200, 'echo: Hello!']);
    first.kill('SIGTERM');
    let err = '';
    first.stderr.on('data', (data) => { err += data; });
    assert.deepEqual((await once(first, 'close'))[0], 7);
    assert.equal(err, '', 'the session of the second client is not reported by the first one');
    assert.equal(JSON.parse(c.start('claude', 'say', 'Bye!', ID.replace('1', '9')).out)[0], 200);
    assert.equal(c.json('session', 'list').sessions.length, 2);
});

test('run: a running server is used', async (t) => {
    const c = await clients(t);
    await serve(t, c);
    const run = c.run('run', 'claude', 'say', 'Hello!', { env: c.env });
    assert.deepEqual(JSON.parse(run.out), [200, 'echo: Hello!']);
    assert.match(run.err, new RegExp(`is kept in the server at http://127.0.0.1:${c.port}\n`));
    assert.match(run.err, /show it with: palaver session show claude-code:/);
    const { url } = JSON.parse(c.run('run', 'claude', 'show', { env: c.env }).out);
    assert.equal(url, `http://127.0.0.1:${c.port}`);
    // Options that describe another server start one.
    assert.notEqual(JSON.parse(c.start('claude', 'show').out).url, url);
});

test('run: a running server with another store is named with its address', async (t) => {
    const c = await clients(t);
    await serve(t, c, '--store', 'memory:');
    const run = c.run('run', 'claude', 'say', 'Hello!', { env: c.env });
    assert.match(run.err, new RegExp(`show it with: curl http://127.0.0.1:${c.port}/api/v1/sessions/`));
});

test('run: a running server with keys requires one of them', async (t) => {
    const c = await clients(t);
    const { key } = c.json('key', 'create', '--role', 'write');
    await serve(t, c);
    assertFails(c.run('run', 'claude', 'show', { env: c.env }), 1, /requires an API key\nhint: set PALAVER_API_KEY/);
    assertFails(c.run('run', 'claude', 'show', { env: { ...c.env, PALAVER_API_KEY: 'no' } }), 1,
        /refuses the key in PALAVER_API_KEY/);
    const run = c.run('run', 'claude', 'say', 'Hello!', { env: { ...c.env, PALAVER_API_KEY: key } });
    assert.deepEqual(JSON.parse(run.out), [200, 'echo: Hello!']);
});

test('run: another program at the address is left alone', async (t) => {
    const c = await clients(t);
    const other = spawn(process.execPath, ['-e', `require('http').createServer((q, s) => s.end(
        JSON.stringify({ status: 'ok', key: q.headers.authorization ?? '' }))).listen(${c.port}, '127.0.0.1',
        () => console.log('ready'))`], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => other.kill());
    await once(other.stdout, 'data');
    const run = c.run('run', 'claude', 'show', { env: { ...c.env, PALAVER_PROVIDER: 'echo' } });
    assert.notEqual(JSON.parse(run.out).url, `http://127.0.0.1:${c.port}`);
});

test('run: mistakes are explained', async (t) => {
    const c = await clients(t);
    assertFails(c.run('run', 'claude', { env: { ...c.env, OLLAMA_HOST: '127.0.0.1:9' } }), 1,
        /no model is configured and none was found\nhint: set ANTHROPIC_API_KEY/);
    assertFails(c.run('run', '--provider', 'anthropic', 'claude', { env: c.env }), 1,
        /requires environment variable ANTHROPIC_API_KEY/);
    assertFails(c.run('run', { env: c.env }), 2, /requires more arguments/);
    assertFails(c.run('run', 'cursor', { env: c.env }), 2, /unknown client 'cursor'\nhint: use codex, claude/);
    fs.rmSync(path.join(c.bin, 'codex'));
    assertFails(c.start('codex'), 1, /Codex is not installed.*\nhint: install it with 'npm install -g @openai\/codex'/);
    fs.writeFileSync(path.join(c.bin, 'codex'), 'not a program', { mode: 0o755 });
    assertFails(c.start('codex'), 1, /could not start/);
});

test('run: the service that suits the client is preferred', async (t) => {
    const c = await clients(t);
    const both = { ...c.env, OPENAI_API_KEY: 'x', ANTHROPIC_API_KEY: 'y' };
    const config = (client) => JSON.parse(JSON.parse(
        c.run('run', client, 'show', { env: both }).out).env.OPENCODE_CONFIG_CONTENT ?? '{}');
    assert.match(config('opencode').model, /^palaver\/gpt-/);
    const anthropic = JSON.parse(c.run('run', 'opencode', 'show',
        { env: { ...c.env, ANTHROPIC_API_KEY: 'y' } }).out).env.OPENCODE_CONFIG_CONTENT;
    assert.match(JSON.parse(anthropic).model, /^anthropic\/claude-/);
    assert.ok(!JSON.parse(c.run('run', 'codex', 'show', { env: both }).out).args.some((arg) => /^model=/.test(arg)),
        'Codex chooses one of its models');
});
