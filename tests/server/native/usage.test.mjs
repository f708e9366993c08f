// Usage and cost by hours and days.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError } from '../support.mjs';
import { serveModel } from '../model.mjs';

const sums = ['calls', 'input_tokens', 'cache_read_tokens', 'cache_write_tokens', 'output_tokens',
    'reasoning_tokens', 'cost_micros'];
const total = (groups) =>
    Object.fromEntries(sums.map((name) => [name, groups.reduce((sum, g) => sum + g[name], 0)]));

test('the groups add up to the whole', async (t) => {
    const s = await serveModel(t, { config: `models:
  - {name: mock-model, price: {input: 2.5, output: 10}}
` });
    const from = new Date(Date.now() - 3600e3).toISOString();
    const [one, two] = [await s.session(), await s.session()];
    for (const id of [one, one, two]) await s.turn(id, { message: 'Hello' });
    const usage = async (query = '', base = '') =>
        (await s.get(`/api/v1${base}/usage?${query}`)).json;
    let whole = await usage();
    while (whole.calls < 3) whole = await usage();
    assert.ok(!('groups' in whole));
    for (const by of ['hour', 'day']) {
        const { groups, ...rest } = await usage(`by=${by}&from=${from}`);
        assert.deepEqual(rest, whole);
        assert.ok(groups.length >= 1 && groups.length <= 2);
        assert.deepEqual(total(groups), whole);
        for (const { from: at } of groups)
            assert.match(at, by === 'day' ? /T00:00:00.000Z$/ : /:00:00.000Z$/);
    }
    const { groups } = await usage(`by=day&from=${from}`, `/sessions/${one}`);
    assert.equal(total(groups).calls, 2);
    // A period that begins and ends within an hour counts only its part.
    const now = Date.now() + 1;
    assert.equal(total((await usage(`by=hour&from=${now}&to=${now + 1000}`)).groups).calls, 0);
    const wrong = async (query, code, name, pattern) =>
        assertError(await s.get(`/api/v1/usage?${query}`), code, name, pattern);
    await wrong('by=day', 400, 'invalid', /'by' requires 'from'/);
    await wrong(`by=day&from=${now}&to=${now - 5}`, 400, 'invalid', /'by' requires/);
    await wrong('by=day&from=1', 413, 'limit', /more than 400 days/);
    await wrong(`by=month&from=${from}`, 400, 'invalid', /'by' must be/);
});
