// `palaver chat` without a terminal: one question, one answer.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { MockModel } from '../conformance/mock-model.mjs';
import { assertFails, binary, textsOf, workspace } from './support.mjs';

// Starts a model, and runs the command in a separate directory. The model runs in this process, so the
// command must not run synchronously.
async function setup(t) {
    const model = new MockModel();
    const url = `${await model.listen()}/v1`;
    const w = workspace(t);
    t.after(() => model.close());
    const spawnChat = (...args) => {
        const { input, ...options } = typeof args.at(-1) === 'object' ? args.pop() : {};
        const ours = Object.entries(process.env).filter(([name]) => !name.startsWith('PALAVER_'));
        const child = spawn(binary, ['chat', ...args], {
            cwd: w.dir,
            env: { ...Object.fromEntries(ours), XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null',
                OPENAI_API_KEY: 'k', ...options.env },
        });
        child.stdin.on('error', () => {});
        child.stdin.end(input ?? '');
        return child;
    };
    const start = (...args) => spawnChat('--provider', 'openai', '--provider-url', url,
        '--model', 'mock-model', ...args);
    const result = async (child) => {
        let out = '';
        let err = '';
        child.stdout.setEncoding('utf8').on('data', (data) => { out += data; });
        child.stderr.setEncoding('utf8').on('data', (data) => { err += data; });
        const [code] = await once(child, 'close');
        return { code, out, err };
    };
    const chat = (...args) => result(start(...args));
    const bare = (...args) => result(spawnChat(...args)); // the configured model is used
    const requests = async () => (await (await fetch(`${url.slice(0, -3)}/__requests`)).json()).requests;
    return { ...w, url, start, chat, bare, requests };
}

test('a pipe receives only the answer', async (t) => {
    const w = await setup(t);
    const result = await w.chat({ input: 'hi\n' });
    assert.deepEqual(result, { code: 0, out: 'echo: hi\n', err: '' });
});

test('all of stdin is one message', async (t) => {
    const w = await setup(t);
    const result = await w.chat({ input: 'one\n\ntwo\n' });
    assert.equal(result.out, 'echo: one\n\ntwo\n');
});

test('the words of the command line are the question, and stdin follows them', async (t) => {
    const w = await setup(t);
    assert.equal((await w.chat('what', 'is', 'this')).out, 'echo: what is this\n');
    assert.equal((await w.chat('look:', { input: 'data\n' })).out, 'echo: look:\n\ndata\n');
});

test('the next question continues the conversation, unless --new is set', async (t) => {
    const w = await setup(t);
    await w.chat('one');
    await w.chat('two');
    await w.chat('--new', 'three');
    await w.chat('four');
    const sessions = w.json('session', 'list').sessions;
    assert.equal(sessions.length, 2);
    assert.deepEqual(textsOf(w.json('session', 'show', '@last')),
        ['three', 'echo: three', 'four', 'echo: four']);
    const sent = (await w.requests()).map(({ body }) => body.messages.filter((m) => m.role === 'user').length);
    assert.deepEqual(sent, [1, 2, 1, 2]);
});

test('--session selects the conversation', async (t) => {
    const w = await setup(t);
    w.ok('session', 'new', '--key', 'mine');
    await w.chat('--session', 'mine', 'hello');
    assert.deepEqual(textsOf(w.json('session', 'show', 'mine')), ['hello', 'echo: hello']);
    assertFails(await w.chat('--session', 'nobody', 'x'), 1, /session 'nobody' does not exist/);
    assertFails(await w.chat('--session', 'mine', '--new', 'x'), 2, /--session and --new cannot be combined/);
});

test('Markdown is not formatted in a pipe, and control characters are made visible', async (t) => {
    const w = await setup(t);
    const result = await w.chat({ input: '<<say # T **b** \x1b[31mred\x07>>' });
    assert.equal(result.out, '# T **b** \\x1b[31mred\\x07\n');
});

test('--json prints the session, the turn and the token counts', async (t) => {
    const w = await setup(t);
    const answer = JSON.parse((await w.chat('--json', 'hi')).out);
    assert.equal(answer.text, 'echo: hi');
    assert.equal(answer.state, 'done');
    assert.equal(answer.session_id, w.json('session', 'list').sessions[0].id);
    assert.match(answer.turn_id, /^[0-9a-f-]{36}$/);
    assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
});

test('a failing model leads to exit code 1 and one line with the reason', async (t) => {
    const w = await setup(t);
    const result = await w.chat('<<fail status=400>> x');
    assertFails(result, 1, /hint: your message is stored/);
    assert.match(w.ok('session', 'show', '@last'), /fail status=400/);
});

test('an empty question is rejected', async (t) => {
    const w = await setup(t);
    assertFails(await w.chat({ input: '\n' }), 2, /the question is missing/);
    assert.equal(w.json('session', 'list').sessions.length, 0);
});

test('Ctrl-C keeps the answer so far', async (t) => {
    const w = await setup(t);
    const child = w.start('<<say one two three four five six>> <<chunk 4>> <<stall after=3>>');
    const ended = once(child, 'exit');
    let out = '';
    let isStopped = false;
    for await (const data of child.stdout) {
        out += data;
        // Interrupt once, since a second signal would end the command. All text before the stall
        // has arrived then.
        if (out.includes('one two thre') && !isStopped) isStopped = child.kill('SIGINT');
    }
    assert.deepEqual(await ended, [1, null]);
    assert.match(out, /^one two thre/);
    const [, answer] = textsOf(w.json('session', 'show', '@last'));
    assert.equal(answer, 'one two thre');
});

test('without a model, echo answers and stderr says so', (t) => {
    const w = workspace(t);
    const keys = Object.keys(process.env).filter((name) => name.endsWith('_API_KEY'));
    const env = { ...Object.fromEntries(keys.map((name) => [name, ''])), OLLAMA_HOST: '127.0.0.1:1' };
    const result = w.run('chat', 'hello', { env });
    assert.equal(result.out, 'echo: hello\n');
    assert.match(result.err, /no model is configured/);
    assert.equal(result.code, 0);
});

test('a rejected key is named, with a remedy', async (t) => {
    const w = await setup(t);
    const { code, err } = await w.chat({ input: '<<fail status=401>>' });
    assert.equal(code, 1);
    assert.match(err, /^palaver: .*401/);
    assert.ok(err.endsWith("\nhint: 'openai' was called with the key from OPENAI_API_KEY; "
        + 'set it to a valid key, or select another provider with --provider\n'), err);
    w.write('palaver.yaml', 'providers:\n'
        + `  - {name: house, kind: openai, url: "${w.url}", api_key_env: HOUSE_KEY, model: m}\n`
        + `  - {name: open, kind: openai, url: "${w.url}", model: m}\n`);
    const house = await w.bare('--provider', 'house',
        { input: '<<fail status=401>>', env: { HOUSE_KEY: 'h' } });
    assert.match(house.err, /hint: 'house' was called with the key from HOUSE_KEY; /);
    const open = await w.bare('--provider', 'open', { input: '<<fail status=401>>' });
    assert.match(open.err, /hint: 'open' was called without a key; .* 'api_key_env'/);
    const found = await w.bare({ input: '<<fail status=401>>',
        env: { OPENAI_BASE_URL: w.url, PALAVER_CONFIG: '/dev/null' } });
    assert.match(found.err, /hint: 'openai' was called with the key from OPENAI_API_KEY; /);
});
