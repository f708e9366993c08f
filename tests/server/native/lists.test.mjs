// Lists that the page shows: sessions with titles, families of forks, marks, the inbox, hits of a
// search, and the difference of two summaries.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError, makeKey, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

const get = async (s, target, options) => {
    const { code, json, text } = await s.get(`/api/v1/${target}`, options);
    assert.equal(code, 200, text);
    return json;
};
const append = async (s, id, ...messages) => {
    const { code, text } = await s.post(`/api/v1/sessions/${id}/messages`, { messages });
    assert.equal(code, 201, text);
};
const fork = async (s, id, body) => (await s.post(`/api/v1/sessions/${id}/fork`, body)).json.id;
const ids = (list) => list.sessions.map(({ id }) => id);

test('a session without a title shows the beginning of its first user message', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    assert.ok(!('title' in await get(s, `sessions/${id}`)));
    await append(s, id, { role: 'system', content: 'Be kind.' },
        { role: 'user', content: `  The lamp\n in the hall is broken, ${'and so on '.repeat(9)}` });
    const title = 'The lamp in the hall is broken, and so on and so on and so…';
    assert.equal((await get(s, `sessions/${id}`)).title, title);
    assert.equal((await get(s, 'sessions')).sessions[0].title, title);
    await s.turn(id, { message: 'x' });
    assert.equal((await get(s, `sessions/${id}`)).title, title);
    await s.ask('PATCH', `/api/v1/sessions/${id}`, { body: { title: 'Lamp' } });
    assert.equal((await get(s, 'sessions')).sessions[0].title, 'Lamp');
    const imported = (await s.post('/api/v1/import', [{ role: 'user', content: 'äöü' }])).json;
    assert.equal((await get(s, `sessions/${imported.session_ids[0]}`)).title, 'äöü');
});

test('a list of sessions can be filtered by words, parent and root', async (t) => {
    const s = await serveModel(t);
    const lamp = await s.session({ title: 'The Lamp', key: 'hall-1' });
    await append(s, lamp, 'It is broken.');
    const bread = await s.session();
    await append(s, bread, 'Bread with less salt');
    const first = await fork(s, lamp, { title: 'lamp again' });
    const second = await fork(s, lamp, { title: 'other' });
    assert.deepEqual(ids(await get(s, 'sessions?q=LAMP')), [first, lamp]);
    assert.deepEqual(ids(await get(s, 'sessions?q=hall')), [lamp]);
    assert.deepEqual(ids(await get(s, 'sessions?q=salt%20bread')), [bread]);
    assert.deepEqual(ids(await get(s, 'sessions?q=nothing')), []);
    assert.deepEqual(ids(await get(s, 'sessions?root=true')), [bread, lamp]);
    assert.deepEqual(ids(await get(s, 'sessions?root=true&q=lamp')), [lamp]);
    assert.deepEqual(ids(await get(s, 'sessions?parent=hall-1')), [second, first]);
    const page = await get(s, `sessions?parent=${lamp}&limit=1`);
    assert.deepEqual(ids(page), [second]);
    const next = await get(s, `sessions?parent=${lamp}&limit=1&cursor=${page.cursor}`);
    assert.deepEqual([ids(next), next.cursor], [[first], null]);
    assertError(await s.get('/api/v1/sessions?parent=none'), 404, 'not_found');
    assertError(await s.get('/api/v1/sessions?q=%20'), 400, 'invalid', /no words/);
});

test('a filtered list that finds little ends after 1,000 sessions and continues', async (t) => {
    const s = await serveModel(t);
    const wanted = await s.session({ title: 'wanted' });
    for (let i = 0; i < 1100; i++) await s.session({ title: 'other' });
    const page = await get(s, 'sessions?q=wanted');
    assert.deepEqual(ids(page), []);
    assert.equal(page.has_more, true);
    const next = await get(s, `sessions?q=wanted&cursor=${page.cursor}`);
    assert.deepEqual([ids(next), next.cursor], [[wanted], null]);
});

test('the family of a session', async (t) => {
    const dir = workspace(t);
    const key = makeKey(dir, '--role', 'write').key;
    const other = makeKey(dir, '--role', 'admin', '--tenant', 'other').key;
    const s = await serveModel(t, { dir });
    const ask = async (method, target, body) =>
        (await s.ask(method, `/api/v1/${target}`, { body, key })).json;
    const root = (await ask('POST', 'sessions', { key: 'root' })).id;
    await ask('POST', `sessions/${root}/messages`, { messages: ['one', 'two'] });
    const child = (await ask('POST', `sessions/${root}/fork`, { at_seq: 1 })).id;
    await ask('POST', `sessions/${child}/messages`, { messages: ['three'] });
    const grandchild = (await ask('POST', `sessions/${child}/fork`, { title: 'G' })).id;
    await ask('DELETE', `sessions/${child}`);
    for (const id of [root, child, grandchild]) {
        const tree = await get(s, `sessions/${id}/tree`, { key });
        assert.equal(tree.root, root);
        assert.equal(tree.has_more, false);
        assert.deepEqual(tree.nodes.map((node) => node.id), [root, child, grandchild]);
        assert.deepEqual(tree.nodes.map((node) => node.parent_id), [null, root, child]);
        assert.deepEqual(tree.nodes.map((node) => node.state), ['active', 'trash', 'active']);
        assert.deepEqual(tree.nodes.map((node) => node.fork_seq), [0, 1, 2]);
        assert.deepEqual(tree.nodes.map((node) => node.title), ['one', 'one', 'G']);
        assert.equal(tree.nodes[0].key, 'root');
    }
    assertError(await s.get(`/api/v1/sessions/${root}/tree`, { key: other }), 404, 'not_found');
    const waiting = s.turn(grandchild, { message: '<<stall>>' }, { key });
    await s.untilAsked(1);
    const { nodes } = await get(s, `sessions/${root}/tree`, { key });
    assert.deepEqual(nodes.map(({ turn }) => turn), [null, null, 'running']);
    await s.release();
    await waiting;
});

test('marks come in pages, without bodies, and say which of them are in effect', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    for (let i = 0; i < 3; i++) await s.turn(id, { message: `turn ${i}` });
    const mark = (name, body) => s.post(`/api/v1/sessions/${id}/${name}`, body);
    await mark('pins', { seq: 1 }); // 2
    await mark('pins', { seq: 1 }); // 3
    await mark('rewind', { to_seq: 4 }); // 4
    await mark('undo', { number: 4 }); // 5
    await mark('pins', { seq: 2 }); // 6
    await s.ask('DELETE', `/api/v1/sessions/${id}/pins/2`); // 7
    const all = await get(s, `sessions/${id}/marks`);
    assert.deepEqual(all.marks.map(({ kind }) => kind),
        ['epoch', 'pin', 'pin', 'rewind', 'undo', 'pin', 'unpin']);
    assert.deepEqual(all.marks.filter(({ standing }) => standing).map(({ number }) => number),
        [1, 3, 5, 7]);
    assert.ok(all.marks[0].body.tools);
    const brief = await get(s, `sessions/${id}/marks?bodies=false&after=1&limit=2`);
    assert.deepEqual([brief.marks.map(({ number }) => number), brief.has_more], [[2, 3], true]);
    const { marks: [epoch] } = await get(s, `sessions/${id}/marks?bodies=false&limit=1`);
    assert.ok(!('body' in epoch));
    assert.deepEqual(await get(s, `sessions/${id}/marks/1`), all.marks[0]);
    assert.deepEqual((await get(s, `sessions/${id}/marks?after=99`)).marks, []);
    assertError(await s.get(`/api/v1/sessions/${id}/marks/8`), 404, 'not_found', /no mark 8/);
    assertError(await s.get(`/api/v1/sessions/${id}/marks/x`), 400, 'invalid', /number/);
    assertError(await s.get(`/api/v1/sessions/${id}/marks?limit=1001`), 400, 'invalid', /'limit'/);
});

test('messages show what is pinned and pruned', async (t) => {
    const s = await serveModel(t, { config: `models: [{name: mock-model, context: 8000, output: 500}]
context:
  compaction: {prune_protect: 100, prune_minimum: 100, prune_protect_turns: 1}
` });
    const id = await s.session();
    for (let i = 0; i < 6; i++) {
        const call = { id: `c${i}`, type: 'function', function: { name: 'look', arguments: '{}' } };
        await append(s, id, { role: 'user', content: `question ${i}` },
            { role: 'assistant', content: '', tool_calls: [call] },
            { role: 'tool', tool_call_id: `c${i}`, content: 'many words '.repeat(700) },
            { role: 'assistant', content: 'done' });
    }
    await s.post(`/api/v1/sessions/${id}/pins`, { seq: 5 });
    const turn = await s.turn(id, { message: 'and now?' });
    assert.equal(turn.code, 200, turn.text);
    const { marks } = await get(s, `sessions/${id}/marks`);
    const prune = marks.find(({ kind }) => kind === 'prune');
    assert.ok(prune.standing);
    const { messages } = await get(s, `sessions/${id}/messages?marks=true`);
    assert.deepEqual(messages.flatMap(({ seq, pruned }) => (pruned ?? []).map((n) => [seq, n])),
        prune.body.pruned);
    assert.deepEqual(messages.filter(({ pinned }) => pinned).map(({ seq }) => seq), [5]);
    const newest = await get(s, `sessions/${id}/messages?marks=true&order=desc&limit=1`);
    assert.ok(!('pruned' in newest.messages[0]));
    await s.post(`/api/v1/sessions/${id}/undo`, { number: prune.number });
    const after = await get(s, `sessions/${id}/messages?marks=true`);
    assert.ok(after.messages.every((message) => !('pruned' in message)));
    const plain = await get(s, `sessions/${id}/messages`);
    assert.ok(plain.messages.every((message) => !('pinned' in message)));
});

test('waiting messages are listed and taken back', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const running = s.turn(id, { message: '<<stall>>' });
    await s.untilAsked(1);
    const queued = [];
    for (const message of ['first', 'second'])
        queued.push((await s.turn(id, { message, lane: 'queue', background: true })).json.turn_id);
    await s.untilQueued(2);
    const { items } = await get(s, `sessions/${id}/inbox`);
    assert.deepEqual(items.map(({ text }) => text), ['first', 'second']);
    assert.deepEqual(items.map((item) => item.turn_id), queued);
    assert.deepEqual([items[0].delivery, items[0].messages[0].role], ['queue', 'user']);
    const dropped = await s.ask('DELETE', `/api/v1/sessions/${id}/inbox/${items[0].id}`);
    assert.equal(dropped.code, 200, dropped.text);
    assert.deepEqual(dropped.json.items.map(({ text }) => text), ['second']);
    assert.equal((await get(s, `turns/${queued[0]}`)).state, 'canceled');
    const again = await s.ask('DELETE', `/api/v1/sessions/${id}/inbox/${items[0].id}`);
    assertError(again, 404, 'not_found', /is no longer waiting/);
    assertError(await s.ask('DELETE', `/api/v1/sessions/${id}/inbox/x`), 400, 'invalid', /id/);
    await s.release();
    await running;
    let state = {};
    while (state.state !== 'done') state = await get(s, `turns/${queued[1]}`);
    const { messages } = await get(s, `sessions/${id}/messages`);
    assert.deepEqual(messages.filter(({ role }) => role === 'user').map(({ content }) => content),
        ['<<stall>>', 'second']);
    assert.deepEqual((await get(s, `sessions/${id}/inbox`)).items, []);
});

test('hits have a title, a key and the places of the words', async (t) => {
    const s = await serveModel(t);
    const id = await s.session({ key: 'k' });
    await append(s, id, 'Über der Lampe: a LAMP, lamps and a lamp', 'another thing');
    const words = (hit) => {
        const characters = [...hit.snippet];
        return hit.matches.map(([start, len]) => characters.slice(start, start + len).join(''));
    };
    const [hit] = (await get(s, 'search?order=newest&q=lamp%20%C3%BCber')).hits;
    assert.deepEqual(words(hit), ['Über', 'LAMP', 'lamp']);
    assert.deepEqual([hit.title, hit.key], ['Über der Lampe: a LAMP, lamps and a lamp', 'k']);
    assert.deepEqual(words((await get(s, `sessions/${id}/search?q=lamp*`)).hits[0]),
        ['Lamp', 'LAMP', 'lamp', 'lamp']);
    assert.deepEqual(words((await get(s, 'search?q=%22a%20lamp%22')).hits[0]), ['a LAMP', 'a lamp']);
    await s.post(`/api/v1/sessions/${id}/rewind`, { to_seq: 1 });
    for (const target of ['search', `sessions/${id}/search`]) {
        assert.deepEqual((await get(s, `${target}?q=thing`)).hits, []);
        const { hits } = await get(s, `${target}?q=thing&hidden=true`);
        assert.deepEqual(hits.map(({ seq, hidden }) => [seq, hidden]), [[2, true]]);
        assert.ok(!('hidden' in (await get(s, `${target}?q=lamp&hidden=true`)).hits[0]));
    }
});

test('the summaries of two compactions are compared', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    for (let i = 0; i < 6; i++) await s.turn(id, { message: `turn ${i}` });
    const compact = async (body) =>
        (await s.post(`/api/v1/sessions/${id}/compact`, body)).json.number;
    const old = await compact({ summary: 'one\ntwo' });
    await s.turn(id, { message: 'more' });
    await s.ask('PUT', `/api/v1/sessions/${id}/summary`, { body: { summary: 'one\nthree' } });
    const { marks } = await get(s, `sessions/${id}/marks?bodies=false`);
    const newest = marks.filter(({ kind }) => kind === 'checkpoint').at(-1).number;
    assert.ok(newest > old);
    const { diff } = await get(s, `sessions/${id}/compact/diff?old=${old}&new=${newest}`);
    assert.equal(diff.trimEnd(), ' one\n-two\n+three');
    const wrong = (query) => s.get(`/api/v1/sessions/${id}/compact/diff?${query}`);
    assertError(await wrong(`old=${old}&new=999`), 404, 'not_found', /999/);
    assertError(await wrong(`old=${old}`), 400, 'invalid', /'new' is missing/);
});
