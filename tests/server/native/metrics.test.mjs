// GET /metrics: calls of models by provider and model, the process and the store, the role for
// scraping, and that Prometheus reads all of it. Also the alerts and the dashboard.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MockModel } from '../../conformance/mock-model.mjs';
import { makeKey, palaver, serve, workspace } from '../support.mjs';

const monitoring = fileURLToPath(new URL('../../../packaging/monitoring/', import.meta.url));
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

// Returns name{labels}: value.
function parse(text) {
    const values = new Map();
    for (const line of text.split('\n').filter((each) => each && !each.startsWith('#'))) {
        const [, key, value] = /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line) ?? assert.fail(line);
        assert.ok(!values.has(key), `twice: ${key}`);
        values.set(key, Number(value));
    }
    return values;
}

async function served(t, more = '') {
    const model = new MockModel();
    const url = await model.listen();
    t.after(() => model.close());
    const s = await serve(t, { args: ['--provider', 'main'], config: `providers:\n  - {name: main, kind: openai, url: "${url}/v1",
    model: mock-model}\nmodels:\n  - {name: mock-model, price: {input: 1000, output: 2000}}\n${more}` });
    return { ...s, metrics: async () => parse((await s.get('/metrics')).text) };
}

const labels = 'provider="main",model="mock-model"';

test('calls of models are counted by provider and model, with their times', async (t) => {
    const s = await served(t);
    assert.equal((await s.post('/api/v1/chat', { message: 'hello there' })).code, 200);
    let m = await s.metrics();
    assert.equal(m.get(`palaver_model_requests_total{${labels},purpose="turn",result="ok"}`), 1);
    assert.ok(m.get(`palaver_model_tokens_total{${labels},kind="input"}`) > 0);
    assert.ok(m.get(`palaver_model_cost_total{${labels}}`) > 0);
    for (const name of ['palaver_model_seconds', 'palaver_model_first_output_seconds']) {
        assert.equal(m.get(`${name}_count{${labels}}`), 1, name);
        assert.equal(m.get(`${name}_bucket{${labels},le="+Inf"}`), 1);
        assert.ok(m.get(`${name}_sum{${labels}}`) > 0);
    }
    const seconds = 'palaver_model_seconds_sum', first = 'palaver_model_first_output_seconds_sum';
    assert.ok(m.get(`${first}{${labels}}`) <= m.get(`${seconds}{${labels}}`));

    await s.post('/api/v1/chat', { message: '<<status 400>>' });
    const forwarded = await s.post('/v1/chat/completions', { model: 'mock-model', messages: [{ role: 'user', content: 'x' }] });
    assert.equal(forwarded.code, 200);
    m = await s.metrics();
    assert.equal(m.get(`palaver_model_requests_total{${labels},purpose="turn",result="failed"}`), 1);
    const others = [...m].filter(([key]) => key.startsWith('palaver_model_requests_total') && key.includes('result="ok"'));
    assert.equal(others.reduce((sum, [, value]) => sum + value, 0), 2);
});

test('the number of models in the metrics is limited', async (t) => {
    const s = await served(t);
    for (let i = 0; i < 70; i++)
        await s.post('/v1/chat/completions', { model: `any"\\${i}`, messages: [{ role: 'user', content: 'x' }] });
    const m = await s.metrics();
    const models = new Set([...m.keys()].filter((key) => key.startsWith('palaver_model_cost_total'))
        .map((key) => /model="(.*)"\}/.exec(key)[1]));
    assert.ok(models.size >= 60 && models.size <= 65, `${models.size} models`);
    assert.ok(models.has('other') && models.has('any\\"\\\\0'), [...models].slice(0, 3).join(' '));
});

test('the process and the store are measured', async (t) => {
    const s = await served(t);
    await s.post('/api/v1/sessions', { key: 'a' });
    await s.post('/api/v1/sessions/a/messages', { role: 'user', content: 'hello' });
    const m = await s.metrics();
    assert.ok(m.get('process_resident_memory_bytes') > 1e6);
    assert.ok(m.get('process_open_fds') > 5 && m.get('process_max_fds') >= m.get('process_open_fds'));
    assert.ok(m.get('process_threads') > 2 && m.get('process_cpu_seconds_total') > 0);
    assert.ok(Math.abs(m.get('process_start_time_seconds') - Date.now() / 1000) < 600);
    assert.equal(m.get('palaver_messages'), 1);
    assert.ok(m.get('palaver_store_bytes') > 4096);
});

test('a key with the role metrics can only scrape', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'metrics');
    const { key: reader } = makeKey(dir, '--role', 'read');
    const s = await serve(t, { dir });
    assert.equal((await s.get('/metrics', { key })).code, 200);
    assert.equal((await s.get('/metrics', { key: reader })).code, 403);
    for (const target of ['/api/v1/sessions', '/api/v1/me', '/api/v1/keys', '/v1/models', '/api/v1/usage', '/mcp', '/api/v1/events']) {
        const answer = await s.get(target, { key });
        assert.ok([403, 405].includes(answer.code), `${target}: ${answer.code}`);
    }
    assert.equal((await s.post('/api/v1/chat', { message: 'x' }, { key })).code, 403);
    assert.equal((await s.post('/v1/chat/completions', { model: 'echo', messages: [{ role: 'user', content: 'x' }] }, { key })).code, 403);
    assert.match(palaver(dir, 'key', 'list'), /metrics/);
});

test('Prometheus reads the metrics', { skip: hasPromtool ? false : 'promtool is not installed' }, async (t) => {
    const s = await served(t);
    await s.post('/api/v1/chat', { message: 'hello there' });
    const { text } = await s.get('/metrics');
    const checked = spawnSync('promtool', ['check', 'metrics'], { input: text });
    const said = checked.stderr.toString().split('\n').filter((line) => line && !/^palaver_(info|cost_total|model_cost_total) /.test(line));
    // Costs are sums, but their unit is that of the price list. 1: the text cannot be parsed.
    assert.deepEqual(said, []);
    assert.notEqual(checked.status, 1);
});

test('the alerts fire when they should', { skip: hasPromtool ? false : 'promtool is not installed' }, () => {
    for (const args of [['check', 'rules', 'alerts.yml'], ['test', 'rules', 'alerts.test.yml']]) {
        const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: monitoring });
        assert.equal(status, 0, `${stdout}${stderr}`);
    }
});

test('the dashboard and the alerts use metrics that exist', async (t) => {
    const s = await served(t);
    await s.post('/api/v1/chat', { message: 'hello there' });
    const { text } = await s.get('/metrics');
    const known = new Set([...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].flatMap(([, name, type]) =>
        type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]));
    const dashboard = JSON.parse(fs.readFileSync(`${monitoring}dashboard.json`, 'utf8'));
    const used = dashboard.panels.flatMap((panel) => panel.targets.map((target) => target.expr)).join(' ')
        + fs.readFileSync(`${monitoring}alerts.yml`, 'utf8');
    const names = new Set(used.match(/\b(palaver|process)_[a-z_]+\b/g));
    assert.ok(names.size > 15);
    for (const name of names) assert.ok(known.has(name), `'${name}' is not a metric`);
});
