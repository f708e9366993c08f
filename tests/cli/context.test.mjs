// The context that a model receives: plans for people and programs, compactions, pins, and their settings.
import test from 'node:test';
import assert from 'node:assert/strict';
import { workspace, assertFails, assertGolden } from './support.mjs';

// Turns of 100 and 300 tokens. The counts are given, so that they are the same in every build.
function turns(count, from = 1) {
    const lines = [];
    for (let i = from; i < from + count; i++) {
        lines.push({ role: 'user', content: `question ${i}`, tokens: 100 });
        lines.push({ role: 'assistant', content: `answer ${i}`, tokens: 300, model: 'script-1' });
    }
    return lines.map((line) => JSON.stringify(line)).join('\n') + '\n';
}

function demo(t, count = 12, ...options) {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'demo', ...options);
    w.json('session', 'append', 'demo', '--json-input', { input: turns(count) });
    return w;
}

const sent = (plan) => plan.items.filter((item) => item.hash && item.seq).map((item) => item.seq);
const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test('context shows a bar, the items and the next step', (t) => {
    const w = demo(t);
    let text = w.ok('context', 'demo');
    text += '\n' + w.ok('context', 'demo', '--max-tokens', '4000');
    text += '\n' + w.ok('context', 'demo', '--max-tokens', '90');
    w.ok('session', 'pin', 'demo', '3');
    w.ok('session', 'compact', 'demo', '--max-tokens', '4000', '--summary', 'We asked.');
    text += '\n' + w.ok('context', 'demo', '--max-tokens', '4000');
    for (const line of text.split('\n')) assert.ok(line.length <= 80, line);
    // The summary itself is counted by the vocabulary of this build.
    assertGolden('context.txt', text.replace(/\b(summary|system) \d+/g, '$1 <n>')
        .replace(/(summary +2 +)\d+/g, '$1<n>').replace(/[\d,]+ of 4,000 tokens, \d+/g,
            '<n> of 4,000 tokens, <n>').replace(/free [\d,]+/g, 'free <n>'));
});

test('context --json prints the plan', (t) => {
    const w = demo(t);
    const plan = w.json('context', 'demo');
    assert.deepEqual([plan.action, plan.strategy, plan.tokens], ['send', 'compact', 4800]);
    assert.deepEqual(sent(plan), range(1, 24));
    assert.match(plan.items[0].hash, /^[0-9a-f]{16}$/);
    const slid = w.json('context', 'demo', '--strategy', 'sliding_window', '--max-tokens', '3000');
    assert.equal(slid.action, 'send');
    assert.deepEqual(sent(slid), range(11, 24));
    assert.equal(slid.items[0].kind, 'notice');
    const full = w.json('context', 'demo', '--strategy', 'none', '--max-tokens', '3000');
    assert.equal(full.action, 'refuse');
    assert.match(full.refusal, /4800 tokens, 1800 over the limit of 3000/);
    assert.equal(w.json('context', 'demo', '--model', 'gpt-4o').usable, 128000 - 16384);
});

test("options override the session's settings, and those override the configuration", (t) => {
    const w = demo(t, 12, '--metadata',
        '{"context":{"token_strategy":"sliding_window","max_tokens":3000,"else":1}}');
    w.write('palaver.yaml', 'context: {token_strategy: reset, max_tokens: 2000}\n' +
        'models:\n  - {name: script-*, context: 9000, output: 1000}\n');
    let plan = w.json('context', 'demo');
    assert.deepEqual([plan.strategy, plan.usable], ['sliding_window', 3000]);
    plan = w.json('context', 'demo', '--strategy', 'none', '--max-tokens', '0');
    assert.deepEqual([plan.strategy, plan.usable], ['none', 8000]);
    w.ok('session', 'new', '--key', 'plain');
    plan = w.json('context', 'plain');
    assert.deepEqual([plan.strategy, plan.usable], ['reset', 2000]);
    w.ok('session', 'new', '--key', 'bad', '--metadata', '{"context":{"max_tokens":"many"}}');
    assertFails(w.run('context', 'bad'), 1, /'max_tokens' in "context" must be a whole number/);
});

test('context rejects wrong options', (t) => {
    const w = demo(t, 1);
    assertFails(w.run('context', 'nobody'), 1, /nobody/);
    assertFails(w.run('context', 'demo', '--strategy', 'compct'), 2, /did you mean 'compact'/);
    assertFails(w.run('context', 'demo', '--profile', 'xyz'), 2, /one of openai_chat, /);
    assertFails(w.run('context'), 2, /SESSION/);
});

test('reasons contain no control characters', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'demo');
    const lines = [{ role: 'user', content: 'hi' }, { role: 'tool',
        parts: [{ type: 'tool_result', call_id: 'a\u001b[2Jb', text: 'x' }] }];
    w.json('session', 'append', 'demo', '--json-input', { input: JSON.stringify(lines) });
    const shown = w.ok('context', 'demo');
    assert.ok(!shown.includes('\u001b'));
    assert.match(shown, /dropped/);
});

test('compact: a given summary can be undone, repeated and compared', (t) => {
    const w = demo(t);
    const before = w.ok('session', 'export', 'demo', '--format', 'openai');
    const dry = w.json('session', 'compact', 'demo', '--dry-run');
    assert.deepEqual([dry.number, dry.seq], [0, 12]);
    assert.deepEqual(w.json('session', 'show', 'demo', '--marks').marks, []);
    const made = w.json('session', 'compact', 'demo', '--summary', 'We asked.');
    assert.deepEqual([made.number, made.seq, made.fallback, made.messages, made.summary],
        [1, 12, false, 12, 'We asked.']);
    assert.equal(made.tokens_before, 4800);
    let plan = w.json('context', 'demo');
    assert.deepEqual(sent(plan), range(13, 24));
    assert.equal(plan.tokens, made.tokens_after);
    const again = w.json('session', 'compact', 'demo', '--redo', '1', '--summary', '-',
        { input: 'We asked.\nThey answered.\n' });
    assert.deepEqual([again.number, again.seq], [3, 12]);
    assert.equal(w.ok('session', 'compact', 'demo', '--diff', '1', '3'),
        ' We asked.\n+They answered.\n');
    assert.match(w.ok('session', 'compact', 'demo', '--undo'), /^Undone/);
    plan = w.json('context', 'demo');
    assert.deepEqual(sent(plan), range(1, 24));
    assert.equal(w.ok('session', 'export', 'demo', '--format', 'openai'), before);
    assertFails(w.run('session', 'compact', 'demo', '--undo'), 1, /no checkpoint to undo/);
    assertFails(w.run('session', 'compact', 'demo', '--undo', '9'), 1, /checkpoint 9 does not exist/);
});

test('context uses the settings of the agent', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', `
context: {token_strategy: reset, max_tokens: 2000}
providers: [{name: main, kind: mistral, model: m-1}, {name: other, kind: anthropic, model: m-2}]
agents:
  - {id: a, provider: other, system: Be brief., context: {token_strategy: none}}
  - {id: b, model: m-3, context: {max_tokens: 700}}
`);
    const plan = (agent, metadata, ...args) => {
        const key = `${agent}${metadata.length}`;
        w.ok('session', 'new', '--key', key, '--agent', agent, '--metadata', metadata);
        w.ok('session', 'append', key, 'Hello');
        const { strategy, usable, items } = w.json('context', key, ...args);
        const text = w.ok('context', key, ...args);
        return [strategy, usable, items[0].kind, /^Model (.*?)\.\n/.exec(text)[1]];
    };
    assert.deepEqual(plan('a', '{}'), ['none', 2000, 'system', 'm-2, profile anthropic']);
    assert.deepEqual(plan('b', '{}'), ['reset', 700, 'message', 'm-3, profile mistral']);
    assert.deepEqual(plan('c', '{}'), ['reset', 2000, 'message', 'm-1, profile mistral']);
    assert.deepEqual(plan('b', '{"context":{"max_tokens":600},"turn":{"endpoint":"other"}}'),
        ['reset', 600, 'message', 'm-2, profile anthropic']);
    assert.deepEqual(plan('b', '{ }', '--model', 'm-4', '--max-tokens', '500'),
        ['reset', 500, 'message', 'm-4, profile mistral']);
});

test('compact: the configured model writes the summary', (t) => {
    const w = demo(t);
    w.write('answers.jsonl', '{"text":"They asked, and we answered."}\n{"next":true}\n');
    w.write('palaver.yaml', 'providers: [{kind: script, path: answers.jsonl}]\n');
    const made = w.json('session', 'compact', 'demo');
    assert.deepEqual([made.number > 0, made.seq, made.fallback, made.summary],
        [true, 12, false, 'They asked, and we answered.']);
    assert.deepEqual(sent(w.json('context', 'demo')), range(13, 24));
    w.ok('session', 'compact', 'demo', '--undo');
    // The command line sets how much room there is.
    const cut = w.json('session', 'compact', 'demo', '--dry-run', '--max-tokens', '2000').seq;
    assert.ok(cut > 12);
    assert.equal(w.json('session', 'compact', 'demo', '--max-tokens', '2000').seq, cut);
});

test('compact: without a model turns are left out, with a note', (t) => {
    const w = demo(t);
    const text = w.ok('session', 'compact', 'demo', '--max-tokens', '4000', '--provider', 'echo');
    assert.match(text, /^No summary was written: 'echo' is not a model and cannot write summaries; configure a provider\.\nCheckpoint 1: left out /);
    const plan = w.json('context', 'demo');
    assert.equal(plan.items[0].kind, 'notice');
    assert.equal(plan.items[1].disposition, 'dropped');
    w.ok('session', 'new', '--key', 'short');
    w.ok('session', 'append', 'short', 'Hello');
    assert.match(w.ok('session', 'compact', 'short', '--provider', 'echo'),
        /^Nothing was changed: nothing to compact/);
});

test('compact: the selected provider is called, or the error names the problem', (t) => {
    const w = demo(t);
    const env = { OPENAI_API_KEY: '' };
    const compact = (...args) => w.run('session', 'compact', 'demo', ...args);
    assertFails(compact('--provider', 'openai', { env }), 1,
        /provider 'openai' requires environment variable OPENAI_API_KEY, which is not set\nhint: set the variable/);
    assertFails(compact('--provider', 'cohere'), 1, /unknown provider 'cohere'/);
    assertFails(compact('--provider-url', 'nowhere'), 2,
        /--provider-url must be a URL that begins with http/);
    w.write('palaver.yaml', '\nproviders:\n  - {kind: anthropic, api_key_env: NOBODY_SET_IT}\n');
    assertFails(compact(), 1,
        /palaver\.yaml:3: provider 'anthropic' requires environment variable NOBODY_SET_IT/);
    assert.deepEqual(w.json('session', 'show', 'demo', '--marks').marks, []);
    assert.match(w.ok('session', 'compact', 'demo', { env: { PALAVER_PROVIDER: 'echo' } }),
        /^No summary was written: 'echo' is not a model/);
});

test('compact: contradicting options and wrong numbers are rejected', (t) => {
    const w = demo(t, 2);
    const compact = (...args) => w.run('session', 'compact', 'demo', ...args);
    assertFails(compact('--undo', '--diff', '1', '2'), 2, /cannot be combined/);
    assertFails(compact('--diff', '1'), 2, /two checkpoints/);
    assertFails(compact('--redo'), 2, /requires the number/);
    assertFails(compact('--undo', 'x'), 2, /not the number of a checkpoint/);
    assertFails(compact('--undo', '--summary', 'x'), 2, /--summary/);
    assertFails(compact('3'), 2, /unexpected argument '3'/);
    assertFails(compact('--redo', '7', '--summary', 'x'), 1, /checkpoint 7/);
});

test('a pinned message is kept until it is unpinned', (t) => {
    const w = demo(t);
    assert.equal(w.ok('session', 'pin', 'demo', '3'), 'Message 3 is pinned.\n');
    w.ok('session', 'compact', 'demo', '--summary', 'We asked.');
    assert.deepEqual(sent(w.json('context', 'demo')), [3, ...range(13, 24)]);
    assert.equal(w.json('context', 'demo').items.find((item) => item.seq === 3).pinned, true);
    assert.equal(w.json('session', 'unpin', 'demo', '3').kind, 'unpin');
    assert.deepEqual(sent(w.json('context', 'demo')), range(13, 24));
    assertFails(w.run('session', 'pin', 'demo', '0'), 2, /not the number of a message/);
    assertFails(w.run('session', 'pin', 'demo', '99'), 1, /99/);
});

test('bench cache: the default strategy is cheap, and nothing changes between cuts', (t) => {
    const w = workspace(t);
    const rows = w.json('bench', 'cache', '--turns', '300');
    assert.equal(rows.length, 14);
    const of = (conversation, strategy) => rows.find(
        (row) => row.conversation === conversation && row.strategy === strategy);
    for (const conversation of ['chat', 'tools'])
        for (const strategy of ['compact', 'summarization', 'sliding_window'])
            assert.ok(of(conversation, strategy).hit_between_cuts >= 0.95, strategy);
    assert.ok(of('tools', 'compact').ratio <= 0.6);
    assert.ok(of('tools', 'compact').cuts > 5);
    assert.equal(of('tools', 'none').refused, true);
    assert.match(w.ok('bench', 'cache', '--turns', '10', '--price-input', '1'), /naive window/);
    assertFails(w.run('bench', 'cache', '--price-input', 'x'), 2, /price/);
    assertFails(w.run('bench', 'cache', '--turns', '0'), 2, /--turns/);
});

test('context: all numbers are as the provider counts, and add up', (t) => {
    const w = demo(t);
    const number = (text) => Number(text.replaceAll(',', ''));
    const answer = { role: 'assistant', content: 'Yes.', model: 'script-1', tokens: 10,
        usage: { input_tokens: 9000, output_tokens: 5 }, palaver_sent: { tokens: 6000, items: 25 } };
    w.ok('session', 'append', 'demo', '--json-input', { input: `${JSON.stringify(answer)}\n` });
    const text = w.ok('context', 'demo', '--max-tokens', '20000');
    const [, tokens, usable] = /About ([\d,]+) of ([\d,]+) tokens/.exec(text);
    const legend = /\]\n((?:.+\n)+?)\n?The provider reports/.exec(text)[1];
    const shares = [...legend.matchAll(/\S \w+ ([\d,]+)/g)].map(([, count]) => number(count));
    assert.equal(shares.reduce((sum, count) => sum + count, 0), number(usable));
    assert.equal(number(tokens) + shares.at(-1), number(usable));
    assert.match(text, /The provider reports 1\.50 times as many tokens/);
    const bar = /^\[(.*)\]$/m.exec(text)[1];
    const full = bar.replaceAll('.', '').length / bar.length;
    assert.ok(Math.abs(full - number(tokens) / number(usable)) < 0.03);
    for (const line of text.split('\n')) assert.ok(line.length <= 80, line);
    w.ok('session', 'new', '--key', 'short');
    w.ok('session', 'append', 'short', 'Hello');
    assert.match(w.ok('context', 'short', '--max-tokens', '20000'), /tokens, <1 %:/);
});
