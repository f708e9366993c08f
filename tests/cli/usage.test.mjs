// `palaver usage`, `palaver models`, and services that are known by name.
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { MockModel } from '../conformance/mock-model.mjs';
import { assertFails, binary, workspace } from './support.mjs';

const priced = 'provider: echo\nmodels:\n  - {name: dear, price: {input: 100000, output: 200000}}\n';

function talks(t) {
    const w = workspace(t);
    w.write('palaver.yaml', priced);
    w.ok('chat', '--new', '--model', 'dear', 'one two three');
    w.ok('chat', '--new', '--model', 'cheap', 'one two three');
    w.ok('chat', '--model', 'cheap', 'four five six');
    return w;
}

test('usage adds up calls by day, model and session', (t) => {
    const w = talks(t);
    const days = w.json('usage');
    assert.equal(days.by, 'day');
    assert.equal(days.rows.length, 1);
    assert.match(days.rows[0].day, /^\d{4}-\d\d-\d\d$/);
    assert.equal(days.total.calls, 3);
    const { rows, total } = w.json('usage', '--by', 'model');
    assert.deepEqual(rows.map((row) => [row.model, row.calls]), [['dear', 1], ['cheap', 2]]);
    assert.ok(rows[0].cost_micros > 0);
    assert.equal(total.cost_micros, rows[0].cost_micros);
    assert.equal(total.usage.input_tokens, rows[0].usage.input_tokens + rows[1].usage.input_tokens);
    const sessions = w.json('usage', '--by', 'session').rows;
    assert.deepEqual(sessions.map((row) => row.calls).sort(), [1, 2]);
    assert.equal(w.json('usage', '@last').total.calls, 2);
    assert.match(w.ok('usage', '--by', 'month'), /^MONTH +CALLS +INPUT +CACHED +OUTPUT +COST\n\d{4}-\d\d +3 /);
    assert.match(w.ok('usage', '--by', 'session'), /^SESSION [^]*one two three [^]*\ntotal +3 /);
    for (const by of ['agent', 'purpose']) assert.equal(w.json('usage', '--by', by).rows.length, 1);
});

test('usage selects a time, and says so if there are no calls', (t) => {
    const w = talks(t);
    assert.equal(w.json('usage', '--since', '1h').total.calls, 3);
    assert.equal(w.json('usage', '--until', '2020-01-01').total.calls, 0);
    const none = w.run('usage', '--until', '2020-01-01');
    assert.deepEqual([none.code, none.out, none.err], [0, '', 'No model was called in this time.\n']);
    assertFails(w.run('usage', '--by', 'week'), 2, /--by must be day, month, model, session, agent or purpose, not 'week'/);
});

test('the cost of a model without a price is unknown', async (t) => {
    const { w, call } = await served(t);
    await call('chat', '--provider', 'ollama', 'hello');
    const { rows } = w.json('usage', '--by', 'model');
    assert.deepEqual([rows[0].cost_micros, rows[0].calls_without_price], [null, 1]);
    assert.match(w.ok('usage'), /unknown\ntotal +1 .* unknown\nThe cost of 1 call is unknown: set prices/);
    w.write('palaver.yaml', priced);
    w.ok('chat', '--model', 'dear', 'hi');
    assert.match(w.ok('usage'), /\ntotal +2 .* over \$\d+\.\d{4}\nThe cost of 1 call is unknown/);
});

// A model service on this machine, where Ollama would be.
async function served(t) {
    const model = new MockModel();
    const url = await model.listen();
    const w = workspace(t);
    t.after(() => model.close());
    const env = { PATH: process.env.PATH, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null', OLLAMA_HOST: url };
    const call = (...args) => new Promise((resolve, reject) => {
        execFile(binary, args, { cwd: w.dir, env },
            (error, out, err) => (error ? reject(new Error(err)) : resolve(out))).stdin.end();
    });
    return { w, call };
}

test('a service can be used by its name, with its first model', async (t) => {
    const { w, call } = await served(t);
    assert.equal(await call('chat', '--provider', 'ollama', 'hello'), 'echo: hello\n');
    assert.match(w.ok('session', 'show', '@last'), /assistant +mock-model/);
    const { models } = JSON.parse(await call('models', '--provider', 'ollama', '--json'));
    const [first] = models;
    assert.deepEqual([first.endpoint, first.model, first.is_default, first.price], ['ollama', 'mock-model', true, null]);
    assert.match(await call('models', '--provider', 'ollama'), /^MODEL +AT [^]*mock-model +ollama [^]*\nThe default is mock-model at ollama\.\n$/);
    assert.ok(!w.names().some((name) => name.endsWith('.db')));
});

test('models shows limits and prices, and reads no store', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', 'provider: main\nproviders: [{name: main, kind: echo, model: gpt-4.1}]\n'
        + 'models:\n  - {name: gpt-4.1, price: {input: 2, output: 8}}\n');
    const { models } = w.json('models');
    assert.deepEqual(models[0].price, { input: 2000000, cache_read: 2000000, cache_write: 2000000, output: 8000000 });
    assert.match(w.ok('models'), /gpt-4\.1 +main .* \$2\.00 +\$8\.00\n[^]*\nThe default is gpt-4\.1 at main\.\n/);
    assert.match(w.ok('models', '--config', '/dev/null', '--provider', 'echo', '--model', 'gpt-4.1'),
        /gpt-4\.1 +echo +1,047,576 +32,768 +unknown +unknown\n/);
    assertFails(w.run('models', '--provider', 'groq', { env: { GROQ_API_KEY: '' } }), 1,
        /provider 'groq' requires environment variable GROQ_API_KEY, which is not set/);
    assertFails(w.run('models', '--provider', 'olama'), 1, /unknown provider 'olama'; .*ollama/);
});
