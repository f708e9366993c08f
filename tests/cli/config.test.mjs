// `palaver config`: which file is read, which setting overrides which, what is shown, and which
// errors are reported.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { palaver, workspace, assertFails } from './support.mjs';

const shown = (w, key, ...args) => {
    const all = w.json('config', 'show', ...args);
    const { key: _, ...rest } = all.values.find((entry) => entry.key === key);
    return { file: all.file, ...rest };
};

test('without a file all keys have their defaults', (t) => {
    const w = workspace(t);
    const { file, values } = w.json('config', 'show');
    assert.equal(file, null);
    for (const entry of values) assert.equal(entry.source, 'default', entry.key);
    assert.match(w.ok('config', 'show'), /^no configuration file was read\n\nKEY +VALUE +SOURCE\nstore +"sqlite:/);
});

test('only the first existing file is read', (t) => {
    const w = workspace(t);
    const env = { XDG_CONFIG_HOME: w.file('xdg') };
    const strategy = (...args) => shown(w, 'context.token_strategy', ...args);
    w.write('xdg/palaver/palaver.yaml', 'context: {token_strategy: reset, max_tokens: 9}\n');
    assert.deepEqual(strategy({ env }),
        { file: w.file('xdg/palaver/palaver.yaml'), value: 'reset', source: 'file', line: 1 });
    w.write('palaver.yaml', '\ncontext:\n  token_strategy: none\n');
    assert.deepEqual(strategy({ env }),
        { file: 'palaver.yaml', value: 'none', source: 'file', line: 3 });
    assert.equal(shown(w, 'context.max_tokens', { env }).source, 'default');
    w.write('named.yaml', 'context: {token_strategy: summarization}\n');
    const named = { ...env, PALAVER_CONFIG: 'named.yaml' };
    assert.equal(strategy({ env: named }).value, 'summarization');
    w.write('given.yaml', 'context: {token_strategy: sliding_window}\n');
    assert.equal(strategy('--config', 'given.yaml', { env: named }).value, 'sliding_window');
    assert.equal(strategy({ env: { ...env, PALAVER_CONFIG: '' } }).value, 'none');
    assert.deepEqual(strategy('--config', '/dev/null', { env }),
        { file: '/dev/null', value: 'compact', source: 'default' });
});

test('without XDG_CONFIG_HOME the file in ~/.config is read', (t) => {
    const w = workspace(t);
    w.write('.config/palaver/palaver.yaml', 'context: {max_tokens: 7}\n');
    for (const xdg of ['', 'relative']) {
        const env = { XDG_CONFIG_HOME: xdg, HOME: w.dir };
        assert.equal(shown(w, 'context.max_tokens', { env }).value, 7);
    }
});

test('a file that the user names must exist', (t) => {
    const w = workspace(t);
    const missing = /missing\.yaml: could not read the file: No such file/;
    assertFails(w.run('config', 'show', '--config', 'missing.yaml'), 1, missing);
    assertFails(w.run('config', 'show', { env: { PALAVER_CONFIG: 'missing.yaml' } }), 1, missing);
    assertFails(w.run('config', 'show', '--config', ''), 1, /could not read the file/);
    assertFails(w.run('config', 'check', 'missing.yaml'), 1, missing);
    assertFails(w.run('config', 'check', '.'), 1, /\.: could not read the file: Is a directory/);
});

test('the environment overrides the file, and options override the environment', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', 'store: sqlite:file.db\n');
    const env = { PALAVER_STORE: 'sqlite:env.db' };
    const store = (...args) => { const { file, ...rest } = shown(w, 'store', ...args); return rest; };
    assert.deepEqual(store(), { value: 'sqlite:file.db', source: 'file', line: 1 });
    assert.deepEqual(store({ env }), { value: 'sqlite:env.db', source: 'environment' });
    assert.deepEqual(store('--store', 'sqlite:flag.db', { env }),
        { value: 'sqlite:flag.db', source: 'flag' });
    w.ok('session', 'new');
    w.ok('session', 'new', { env });
    w.ok('session', 'new', '--store', 'sqlite:flag.db', { env });
    const made = w.names().filter((name) => name.endsWith('.db')).sort();
    assert.deepEqual(made, ['env.db', 'file.db', 'flag.db']);
});

test('every single key has an environment variable', (t) => {
    const w = workspace(t);
    const env = { PALAVER_CONTEXT_COMPACTION_PRUNE_MINIMUM: '77', PALAVER_EXPIRY_CLEANUP_INTERVAL: '90s' };
    assert.equal(shown(w, 'context.compaction.prune_minimum', { env }).value, 77);
    assert.equal(shown(w, 'expiry.cleanup_interval', { env }).value, '90s');
    assertFails(w.run('stats', { env: { PALAVER_CONTEXT_MAX_TOKENS: 'x' } }), 1,
        /PALAVER_CONTEXT_MAX_TOKENS: must be a whole number/);
});

test('with a wrong file, every command that uses it fails before it does anything', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', 'store: sqlite:a.db\n\ncontxt:\n  max_tokens: 5\n');
    const wrong = /^palaver: palaver\.yaml:3: unknown key 'contxt'; did you mean 'context'\?\n$/;
    for (const args of [['session', 'new'], ['stats'], ['route'], ['config', 'show']])
        assertFails(w.run(...args), 1, wrong);
    assertFails(w.run('config', 'check', 'palaver.yaml'), 1, wrong);
    assert.deepEqual(w.names(), ['palaver.yaml']);
    for (const args of [['version'], ['help'], ['config', 'example'], ['session', 'new', '--help']])
        w.ok(...args);
});

test('config check accepts a correct file', (t) => {
    const w = workspace(t);
    w.write('a.yaml', 'store: "memory:"\n');
    assert.equal(w.ok('config', 'check', 'a.yaml'), 'a.yaml: ok\n');
    assert.deepEqual(w.json('config', 'check', 'a.yaml'), { ok: true });
    w.write('empty.yaml', '');
    w.ok('config', 'check', 'empty.yaml');
    assertFails(w.run('config', 'check'), 2, /'config check' requires more arguments/);
});

test("the keys of Loom's section are read as our keys, with a warning for each", (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', `conversation:
  session_expiration: 12h
  cleanup_interval: 30m
  token_strategy: sliding_window
  max_tokens: 100000
  keep_recent_messages: 4
context: {threshold_percent: 70, max_tokens: 100000}
`);
    const shown = new Map(w.json('config', 'show').values.map((entry) => [entry.key, entry]));
    const value = (key) => [shown.get(key).value, shown.get(key).source, shown.get(key).line];
    assert.deepEqual(value('expiry.session_expiration'), ['12h', 'file', 2]);
    assert.deepEqual(value('expiry.cleanup_interval'), ['30m', 'file', 3]);
    assert.deepEqual(value('context.token_strategy'), ['sliding_window', 'file', 4]);
    assert.deepEqual(value('context.max_tokens'), [100000, 'file', 7]);
    assert.deepEqual(value('context.keep_recent_messages'), [4, 'file', 6]);
    assert.deepEqual(value('context.threshold_percent'), [70, 'file', 7]);
    assert.match(w.ok('config', 'check', 'palaver.yaml'), new RegExp(
        "^palaver.yaml:2: warning: 'conversation.session_expiration' is read as " +
        "'expiry.session_expiration'; move it there\\n(.*\\n){4}palaver.yaml: ok\\n$"));
    const { ok, warnings } = w.json('config', 'check', 'palaver.yaml');
    assert.deepEqual([ok, warnings.map(({ line }) => line)], [true, [2, 3, 4, 5, 6]]);
    const refused = (text, pattern) => {
        w.write('a.yaml', text);
        assertFails(w.run('config', 'check', 'a.yaml'), 1, pattern);
    };
    refused('context: {max_tokens: 5}\nconversation: {max_tokens: 6}\n',
        /a.yaml:2: 'conversation.max_tokens' contradicts 'context.max_tokens' on line 1/);
    refused('conversation: {max_token: 6}\n', /a.yaml:1: unknown key 'max_token' in 'conversation'/);
    refused('conversation: {max_tokens: many}\n', /'context.max_tokens' must be a whole number/);
    refused('conversation: 5\n', /'conversation' must have keys/);
    w.write('a.yaml', 'conversation:\n');
    w.ok('config', 'check', 'a.yaml');
});

test('parameters can have any keys and values', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', `turn:
  parameters: {temperature: 0.7, stop: [a, "1"], seed: 5, deep: {x: true, y: null}, "n": "true"}
agents: [{id: a, parameters: {}}]
`);
    const shown = new Map(w.json('config', 'show').values.map((e) => [e.key, e.value]));
    assert.deepEqual(shown.get('turn.parameters'), { temperature: 0.7, stop: ['a', '1'], seed: 5,
        deep: { x: true, y: null }, n: 'true' });
    assert.deepEqual(shown.get('agents[0].parameters'), {});
    w.write('palaver.yaml', 'turn: {parameters: 0.7}\n');
    assertFails(w.run('config', 'show'), 1, /'turn.parameters' must be a map/);
});

test('config example prints a file with all defaults', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', w.ok('config', 'example'));
    const read = w.json('config', 'show').values;
    const defaults = w.json('config', 'show', '--config', '/dev/null').values;
    const plain = (list) => list.map(({ key, value }) => ({ key, value }));
    assert.deepEqual(plain(read), plain(defaults));
    assert.ok(read.some((entry) => entry.source === 'file'));
});

test('passwords are not shown', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', 'store: postgres://me:s3cret@db/x?password=s3cret\n');
    for (const args of [[], ['--json']]) {
        const out = w.ok('config', 'show', ...args);
        assert.ok(!out.includes('s3cret'));
        assert.ok(out.includes('postgres://me:***@db/x?password=***'));
    }
});

test('secrets are allowed only in the environment', (t) => {
    const w = workspace(t);
    const env = { HOUSE_KEY: 's3cret', TEAM: 's3cret' };
    w.write('palaver.yaml', `
providers:
  - {name: house, kind: openai, api_key_env: HOUSE_KEY,
     headers: {x-team: "\${TEAM}", x-other: s3cret}}
mcp_servers:
  - {name: files, command: [x], environment: {FILES_TOKEN: "a \${TEAM}"}}
`);
    for (const args of [[], ['--json']]) {
        const out = w.ok('config', 'show', ...args, { env });
        assert.ok(!out.includes('s3cret'));
        for (const name of ['HOUSE_KEY', '${TEAM}', 'a ${TEAM}', '***'])
            assert.ok(out.includes(name), name);
    }
    // Only commands that call a model need these settings.
    w.ok('session', 'new');
    w.write('palaver.yaml', 'providers:\n  - kind: openai\n    api_key: s3cret\n');
    const refused = w.run('config', 'check', 'palaver.yaml');
    assertFails(refused, 1,
        /palaver\.yaml:3: 'providers\[0\]\.api_key' must not contain a secret; .* name into api_key_env/);
    assert.ok(!refused.err.includes('s3cret'));
});

test('text of others cannot send control sequences to the terminal', (t) => {
    const w = workspace(t);
    w.write('a\x1b[31m.yaml', 'context: {compaction: {model: "\\e[31mred"}}\n');
    const out = w.ok('config', 'show', '--config', 'a\x1b[31m.yaml');
    assert.ok(!out.includes('\x1b'));
});

test('route takes missing settings from the configuration', (t) => {
    const w = workspace(t);
    const route = (input) => JSON.parse(w.ok('route', { input: JSON.stringify(input) }));
    const context = { channel: 'telegram', chat_id: '5', sender_id: '123' };
    const bare = route({ context });
    assert.equal(bare.signature, 'v=1|agent=main|channel=telegram|account=default|chat=direct:5');
    w.write('palaver.yaml', 'store: x\n');
    assert.deepEqual(route({ context }), bare, 'defaults count as they do in the server');
    w.write('palaver.yaml', `
session:
  dimensions: [sender]
  identity_links: {john: ["telegram:123"]}
  dispatch_rules:
    - {agent: helper, when: {channel: telegram}}
`);
    assert.equal(route({ context }).signature,
        'v=1|agent=helper|channel=telegram|account=default|sender=john');
    assert.equal(route({ input: { context } }).matched_by, 'dispatch.rule');
    assert.equal(route({ context, rules: [], dimensions: ['chat'] }).signature,
        'v=1|agent=main|channel=telegram|account=default|chat=direct:5');
    assert.equal(route({ context, rules: [], dm_scope: 'global' }).signature,
        'v=1|agent=main|channel=telegram|account=default');
    assert.equal(route({ context, rules: [], identity_links: {} }).signature,
        'v=1|agent=main|channel=telegram|account=default|sender=123');
    w.write('palaver.yaml', `
session: {dm_scope: per-peer, link_across_channels: true, identity_links: {john: ["123"]}}
agents: [{id: other}]
`);
    assert.equal(route({ context }).signature, 'v=1|agent=other|sender=john');
    assert.equal(route({ context, link_across_channels: false, agents: [] }).signature,
        'v=1|agent=main|channel=telegram|account=default|sender=john');
});

test('palaver config prints the help of its commands', () => {
    assert.match(palaver(['config']).out, /^Usage: palaver config COMMAND/);
    assertFails(palaver(['config', 'shwo']), 2, /unknown command 'config shwo'\nhint: did you mean 'palaver config show'\?/);
    assertFails(palaver(['confg']), 2, /did you mean 'palaver config'\?/);
    assertFails(palaver(['config', 'append']), 2, /run 'palaver config --help'/);
});

test('a mistyped environment variable is rejected with a suggestion', (t) => {
    const w = workspace(t);
    assertFails(w.run('session', 'list', { env: { PALAVER_SERVER_LISTN: '127.0.0.1:1' } }), 1,
        /unknown environment variable 'PALAVER_SERVER_LISTN'; did you mean 'PALAVER_SERVER_LISTEN'\?/);
    assertFails(w.run('config', 'show', { env: { PALAVER_SERVER_NONSENSE: 'x' } }), 1,
        /unknown environment variable 'PALAVER_SERVER_NONSENSE'/);
    assertFails(w.run('config', 'show', { env: { PALAVER_STOR: 'x' } }), 1, /'PALAVER_STORE'/);
    w.ok('config', 'show', { env: { PALAVER_UNRELATED: 'x', PALAVER_URL: 'y', PALAVER_BIN: 'z' } });
});
