// The ledger over HTTP: model calls in pages, and their sums by name.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError } from '../support.mjs';
import { serveModel } from '../model.mjs';

const SUMS = ['input_tokens', 'cache_read_tokens', 'cache_write_tokens', 'output_tokens',
    'reasoning_tokens', 'cost_micros'];

test('model calls are listed, the newest first, in pages', async (t) => {
    const s = await serveModel(t);
    const [a, b] = [await s.session(), await s.session()];
    const turns = [];
    for (const id of [a, b, a, a]) turns.push((await s.turn(id, { message: 'hi' })).json.turn_id);
    const all = (await s.get('/api/v1/ledger')).json;
    assert.deepEqual(all.calls.map((call) => call.turn_id), [...turns].reverse());
    assert.deepEqual([all.has_more, all.cursor], [false, null]);
    assert.deepEqual(all.calls.map((call) => call.session_id), [a, a, b, a]);
    assert.deepEqual(new Set(all.calls.map((call) => call.purpose)), new Set(['turn']));
    assert.equal(new Set(all.calls.map((call) => call.id)).size, 4);
    const paged = [];
    for (let cursor = ''; cursor !== null;) {
        const page = (await s.get(`/api/v1/ledger?limit=1${cursor && `&cursor=${cursor}`}`)).json;
        paged.push(...page.calls);
        ({ cursor } = page);
    }
    assert.deepEqual(paged, all.calls);
    const ids = async (query) => (await s.get(`/api/v1/ledger?${query}`)).json.calls
        .map((call) => call.turn_id);
    assert.deepEqual(await ids(`session=${b}`), [turns[1]]);
    assert.deepEqual(await ids(`turn=${turns[2]}`), [turns[2]]);
    assert.deepEqual(await ids(`to=${all.calls[3].created_at}`), []);
    assert.deepEqual(await ids('purpose=turn&model=mock-model'), [...turns].reverse());
    assert.deepEqual(await ids('purpose=compaction'), []);
    assert.deepEqual(await ids('model=another'), []);
    const some = (await s.get('/api/v1/ledger?purpose=compaction&limit=3')).json;
    assert.deepEqual([some.calls, some.has_more], [[], true]);
    assertError(await s.get('/api/v1/ledger?cursor=x'), 400, 'invalid', /cursor/);
    assertError(await s.get('/api/v1/ledger?limit=1001'), 400, 'invalid', /limit/);
    assertError(await s.get('/api/v1/ledger?session=none'), 404, 'not_found');
});

test('sums by name add up to the whole', async (t) => {
    const s = await serveModel(t);
    const [a, b] = [await s.session(), await s.session()];
    const turns = [];
    for (const [id, agent] of [[a, 'one'], [a, 'two'], [b, 'one'], [a, undefined]]) {
        const made = await s.turn(id, { message: 'hi', ...(agent && { agent }) });
        turns.push(id === b ? null : made.json.turn_id);
    }
    await s.post(`/api/v1/sessions/${b}/erase`, {});
    const total = (await s.get('/api/v1/usage')).json;
    for (const [by, names] of [['model', ['mock-model']], ['session', [a, null]],
        ['agent', ['one', 'two', null]], ['purpose', ['turn']], ['turn', turns]]) {
        const { groups, partial } = (await s.get(`/api/v1/usage?by=${by}`)).json;
        assert.deepEqual(new Set(groups.map((group) => group.name)), new Set(names), by);
        assert.equal(groups.length, names.length);
        assert.equal(partial, undefined);
        for (const name of ['calls', ...SUMS])
            assert.equal(groups.reduce((sum, group) => sum + group[name], 0), total[name], name);
    }
    const { groups } = (await s.get(`/api/v1/sessions/${a}/usage?by=agent`)).json;
    assert.equal(groups.reduce((sum, group) => sum + group.calls, 0), 3);
});
