// The plan as the page shows it: texts, limits, single items, earlier states, and requests that were
// not sent.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError, makeKey, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

const plan = async (s, id, query = '', options) => {
    const { code, json, text } = await s.get(`/api/v1/sessions/${id}/context${query}`, options);
    assert.equal(code, 200, text);
    return json;
};
const say = async (s, id, message) => {
    const { code, json, text } = await s.turn(id, { message });
    assert.equal(code, 200, text);
    return json;
};
const content = ({ content: text }) => text;

test('items show the beginning of their texts', async (t) => {
    const s = await serveModel(t, { config: 'turn:\n  system: "Be brief."\n' });
    const id = await s.session();
    await s.post(`/api/v1/sessions/${id}/messages`, { messages: [
        { role: 'user', content: 'äöü and more' },
        { role: 'assistant', tool_calls: [{ id: 'c1', type: 'function',
            function: { name: 'look', arguments: '{"at":1}' } }] },
        { role: 'tool', tool_call_id: 'c1', content: 'found' }] });
    const texts = (await plan(s, id, '?text=8')).items.map((item) => item.text);
    assert.deepEqual(texts, ['Be brief', 'read_out', 'äöü and ', 'look {"a', 'found']);
    assert.ok((await plan(s, id)).items.every((item) => !('text' in item)));
    assertError(await s.get(`/api/v1/sessions/${id}/context?text=2001`), 400, 'invalid', /'text'/);
});

test('a plan names its model and limits', async (t) => {
    const s = await serveModel(t, { config: `models:
  - {name: mock-model, context: 4000, output: 500}
  - {name: other, context: 9000, output: 1000}
context: {low_water_percent: 40}
` });
    const id = await s.session();
    const { model, limits, usable } = await plan(s, id);
    assert.equal(model, 'mock-model');
    assert.deepEqual(limits,
        { context: 4000, output: 500, usable: 3500, threshold: 3500, low_water: 1400 });
    assert.equal(usable, 3500);
    const { limits: others } = await plan(s, id, '?model=other');
    assert.deepEqual([others.context, others.usable], [9000, 8000]);
    const { limits: fixed } = await plan(s, id, '?strategy=none');
    assert.deepEqual([fixed.threshold, fixed.low_water], [0, 0]);
});

test('one item is shown as it is stored and as it is sent', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    await s.post(`/api/v1/sessions/${id}/messages`, { messages: ['one',
        { role: 'tool', tool_call_id: 'lost', content: 'orphan' }, 'two'] });
    const { items } = await plan(s, id);
    const item = async (n, query = '') =>
        (await s.get(`/api/v1/sessions/${id}/context/${n}${query}`)).json;
    for (let n = 0; n < items.length; n++) assert.deepEqual((await item(n)).item, items[n]);
    const tools = await item(0);
    assert.equal(tools.stored, null);
    assert.equal(tools.tools.length, items[0].count);
    assert.equal(tools.tools[0].parameters.type, 'object');
    const orphan = await item(items.findIndex(({ seq }) => seq === 2));
    assert.equal(orphan.stored.seq, 2);
    assert.equal(orphan.sent, null);
    assert.equal(orphan.repairs[0].dropped, true);
    assert.match(orphan.repairs[0].text, /orphan|no call/);
    const plain = await item(1);
    assert.equal(plain.sent.content, 'one');
    assert.deepEqual(plain.repairs, []);
    for (const n of [items.length, 99999999999])
        assertError(await s.get(`/api/v1/sessions/${id}/context/${n}`), 404, 'not_found', /item/);
    assertError(await s.get(`/api/v1/sessions/${id}/context/x`), 400, 'invalid', /number/);
    assert.equal((await item(1, '?at_seq=2')).item.seq, 1);
});

test('the plan before an answer is the request that was sent', async (t) => {
    const s = await serveModel(t, { config: `models: [{name: mock-model, context: 3000, output: 500}]
` });
    const id = await s.session();
    for (let i = 0; i < 24; i++) await say(s, id, `${i} ${'one more word '.repeat(20)}`);
    const asked = (await s.asked()).filter(({ messages }) =>
        /^\d+ one more/.test(messages.at(-1).content)); // without those for summaries
    const { json } = await s.get(`/api/v1/sessions/${id}/messages?limit=200`);
    const answers = json.messages.filter(({ role }) => role === 'assistant');
    assert.equal(asked.length, answers.length);
    const { marks } = (await s.get(`/api/v1/sessions/${id}/marks`)).json;
    assert.ok(marks.some(({ kind }) => kind === 'checkpoint'));
    for (const [i, { seq }] of answers.entries()) {
        const past = await plan(s, id, `?at_seq=${seq}&text=2000`);
        assert.equal(past.prefix.break, '', `answer ${seq}`);
        const sent = past.items.filter(({ hash }) => hash);
        assert.equal(past.prefix.items, sent.length);
        assert.deepEqual(sent.filter(({ kind }) => kind !== 'tools').map((item) => item.text),
            asked[i].messages.map(content));
    }
});

test('a plan of the past or without a mark is refused if there is none', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    await say(s, id, 'one');
    const refused = async (query, pattern) =>
        assertError(
            await s.get(`/api/v1/sessions/${id}/context?${query}`), 400, 'invalid', pattern);
    await refused('at_seq=0', /'at_seq'/);
    await refused('at_seq=4', /'at_seq' must be from 1 to 3/);
    await refused('without=2', /'without' has 2/);
    await refused('without=a', /'without' must be numbers/);
    await s.get(`/api/v1/sessions/${id}/context?without=${Array(65).fill(1)}`)
        .then((answer) => assertError(answer, 413, 'limit', /more than 64/));
    const { mark } = (await s.ask('PUT', `/api/v1/sessions/${id}/messages`,
        { body: { messages: ['new'] } })).json;
    const seqs = (p) => p.items.filter(({ seq }) => seq).map(({ seq }) => seq);
    assert.deepEqual(seqs(await plan(s, id)), [3]);
    assert.deepEqual(seqs(await plan(s, id, `?without=${mark.number}`)), [1, 2, 3]);
    assert.deepEqual(seqs(await plan(s, id, '?at_seq=3')), [1, 2]);
});

test('a compaction is planned before it is made', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    await s.post(`/api/v1/sessions/${id}/messages`, { messages: Array.from({ length: 40 }, (_, i) =>
        ({ role: i % 2 ? 'assistant' : 'user', content: `${i} ${'some words '.repeat(250)}` })) });
    await s.post(`/api/v1/sessions/${id}/pins`, { seq: 2 });
    assert.equal((await plan(s, id)).cut, undefined);
    const { action, cut } = await plan(s, id, '?compact=true');
    assert.equal(action, 'compact');
    assert.ok(cut.keep.includes(2), JSON.stringify(cut));
    assert.equal((await s.get(`/api/v1/sessions/${id}/marks`)).json.marks.length, 1);
    const done = (await s.post(`/api/v1/sessions/${id}/compact`)).json;
    assert.equal(done.seq, cut.seq);
    const short = await s.session();
    await s.post(`/api/v1/sessions/${short}/messages`, { messages: ['only this'] });
    const nothing = await plan(s, short, '?compact=true');
    assert.equal(nothing.cut, undefined, 'there is nothing to replace');
});

test('a request is planned without being sent', async (t) => {
    const dir = workspace(t);
    const write = makeKey(dir, '--role', 'write').key, read = makeKey(dir, '--role', 'read').key;
    const s = await serveModel(t, { dir });
    const { id } = (await s.post('/api/v1/sessions', { key: 'k' }, { key: write })).json;
    const draft = async (body, query = '') =>
        s.post(`/api/v1/sessions/${id}/context${query}`, body, { key: read });
    const { code, json, text } = await draft({ message: 'a draft', system: 'Be kind.',
        tools: [{ name: 'weather', schema: { type: 'object' } }] }, '?text=99');
    assert.equal(code, 200, text);
    assert.deepEqual(json.items.map((item) => item.kind), ['system', 'tools', 'message']);
    assert.equal(json.items[0].text, 'Be kind.');
    assert.match(json.items[1].text, /weather/);
    assert.equal(json.items[2].text, 'a draft');
    assert.deepEqual((await s.get(`/api/v1/sessions/${id}/messages`, { key: read })).json.messages,
        []);
    assert.equal((await draft({ message: 'x', context: { max_tokens: 5000 } })).json.usable, 5000);
    assertError(await draft({ message: 'x', mesage: 'y' }), 400, 'invalid', /mesage/);
    assertError(await draft({ message: 'x' }, '?at_seq=9'), 400, 'invalid', /'at_seq'/);
    const other = makeKey(dir, '--role', 'admin', '--tenant', 'other').key;
    assertError(await s.get(`/api/v1/sessions/${id}/context`, { key: other }), 404, 'not_found');
});
