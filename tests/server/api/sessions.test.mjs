// Sessions over HTTP: create, show, list, change, trash and erase; fork, rewind, undo, reset, pin,
// compact, search, usage, export and import.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import { assertError, makeKey, palaver, serve, workspace } from '../support.mjs';

const base = '/api/v1/sessions';
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

async function ok(promise, code = 200) {
    const answer = await promise;
    assert.equal(answer.code, code, answer.text);
    return answer.json;
}

// Creates session "k" with `texts`, alternately from a user and from an assistant.
async function conversation(s, key, texts, options) {
    const made = await ok(s.post(base, { key }, options), 201);
    if (texts.length)
        await ok(s.post(`${base}/${key}/messages`, { messages: texts.map((content, i) =>
            ({ role: i % 2 ? 'assistant' : 'user', content })) }, options), 201);
    return made.session_id;
}

const textsOf = async (s, name, query = '', options = {}) =>
    (await ok(s.get(`${base}/${name}/messages${query}`, options))).messages.map((m) => m.content);

test('a session can be created with and without members', async (t) => {
    const s = await serve(t);
    const bare = await ok(s.post(base, {}), 201);
    assert.match(bare.session_id, uuid);
    assert.equal(bare.id, bare.session_id);
    assert.equal(bare.message_count, 0);
    assert.equal(bare.state, 'active');
    assert.match(bare.created_at, time);
    assert.deepEqual(await ok(s.ask('POST', base), 201).then((j) => Object.keys(j)),
        Object.keys(bare), 'no body is an empty one');
    const given = { key: 'a/b ä', aliases: ['one', 'two'], title: 'T', project: 'P', agent: 'A',
        metadata: { n: 1, deep: { list: [1, 'x', null] } }, scope: { channel: 'web' },
        expires_at: '2099-01-02T03:04:05.678Z' };
    const full = await ok(s.post(base, given), 201);
    for (const [name, value] of Object.entries(given)) assert.deepEqual(full[name], value, name);
    for (const name of [full.session_id, 'a%2Fb%20%C3%A4', 'one', 'two'])
        assert.deepEqual(await ok(s.get(`${base}/${name}`)), full, name);
    const soon = await ok(s.post(base, { expires_in: 3600 }), 201);
    const left = Date.parse(soon.expires_at) - Date.parse(soon.created_at);
    assert.ok(left > 3500e3 && left <= 3601e3, soon.expires_at);
});

test('a key belongs to one session, and or_find finds it', async (t) => {
    const s = await serve(t);
    const first = await ok(s.post(base, { key: 'k' }), 201);
    assertError(await s.post(base, { key: 'k' }), 409, 'conflict',
        /'k' belongs to another session/);
    const found = await ok(s.post(base, { key: 'k', or_find: true, title: 'other' }));
    assert.deepEqual([found.id, found.title], [first.id, undefined]);
    const fresh = await ok(s.post(base, { key: 'k2', or_find: true }), 201);
    assert.notEqual(fresh.id, first.id);
});

test('errors name the invalid member of a new session', async (t) => {
    const s = await serve(t);
    const cases = [
        [{ key: 7 }, 400, 'invalid', 'key'],
        [{ metadata: [] }, 400, 'invalid', 'metadata'],
        [{ aliases: 'x' }, 400, 'invalid', 'aliases'],
        [{ expires_at: 'soon' }, 400, 'invalid', 'expires_at'],
        [{ expires_in: -1 }, 400, 'invalid', 'expires_in'],
        [{ expires_in: 5, expires_at: '2099-01-01T00:00:00Z' }, 400, 'invalid', 'expires_in'],
        [{ or_find: 'yes' }, 400, 'invalid', 'or_find'],
        [{ tenant: 'other' }, 400, 'invalid', 'tenant'],
        [{ key: 'x'.repeat(1025) }, 413, 'limit', null],
        [{ metadata: { x: 'x'.repeat(300000) } }, 413, 'limit', null],
    ];
    for (const [body, code, name, param] of cases) {
        const answer = await s.post(base, body);
        assertError(answer, code, name);
        assert.equal(answer.json.param, param, answer.text);
    }
    assert.deepEqual((await ok(s.get(base))).sessions, []);
});

test('lists have pages and filters by project, agent, state and time', async (t) => {
    const s = await serve(t);
    const ids = [];
    for (let i = 0; i < 7; i++)
        ids.unshift((await ok(s.post(base, { project: `p${i % 2}`, agent: `a${i % 3}` }), 201)).id);
    const list = async (query) => ok(s.get(`${base}?${query}`));
    const all = await list('');
    assert.deepEqual(Object.keys(all), ['sessions', 'has_more', 'cursor']);
    assert.deepEqual([all.has_more, all.cursor], [false, null]);
    assert.deepEqual(new Set(all.sessions.map((x) => x.id)), new Set(ids));
    for (const x of all.sessions) {
        assert.deepEqual([x.session_id, x.message_count], [x.id, 0]);
        assert.match(x.created_at, time);
    }
    const seen = [];
    for (let cursor = ''; cursor !== null;) {
        const page = await list(`limit=3&cursor=${encodeURIComponent(cursor)}`);
        assert.equal(page.has_more, page.cursor !== null);
        seen.push(...page.sessions.map((x) => x.id));
        cursor = page.cursor;
    }
    assert.deepEqual(seen, all.sessions.map((x) => x.id));
    assert.equal((await list('project=p1')).sessions.length, 3);
    assert.equal((await list('project=p1&agent=a1')).sessions.length, 1);
    await ok(s.ask('DELETE', `${base}/${ids[0]}`));
    assert.deepEqual((await list('state=trash')).sessions.map((x) => x.id), [ids[0]]);
    assert.equal((await list('')).sessions.length, 6);
    assert.equal((await list('updated_from=2099-01-01T00:00:00Z')).sessions.length, 0);
    assert.equal((await list('updated_to=2099-01-01T00:00:00Z')).sessions.length, 6);
    assert.equal((await list('updated_from=0&updated_to=1')).sessions.length, 0);
    for (const [query, param] of [['state=erased', 'state'], ['updated_from=now', 'updated_from'],
        ['limit=0', 'limit'], ['limit=1001', 'limit']]) {
        const answer = await s.get(`${base}?${query}`);
        assertError(answer, 400, 'invalid');
        assert.equal(answer.json.param, param);
    }
});

test('an update changes only the given members, and null clears one', async (t) => {
    const s = await serve(t);
    const id = (await ok(s.post(base, { key: 'k', title: 'T', project: 'P', metadata: { a: 1 } }),
        201)).id;
    const patch = (body) => s.ask('PATCH', `${base}/${id}`, { body });
    const changed = await ok(patch({ title: 'U', aliases: ['x'] }));
    assert.deepEqual([changed.title, changed.project, changed.key, changed.aliases],
        ['U', 'P', 'k', ['x']]);
    const cleared = await ok(patch({ title: null, project: null, metadata: { b: 2 }, key: 'n' }));
    assert.deepEqual([cleared.title, cleared.project, cleared.metadata, cleared.key],
        [undefined, undefined, { b: 2 }, 'n']);
    assert.equal((await s.get(`${base}/k`)).code, 404);
    assertError(await patch({}), 400, 'invalid', /no member to change; send title/);
    assertError(await patch({ title: [] }), 400, 'invalid', /title/);
    assert.deepEqual(await ok(s.get(`${base}/x`)), cleared, 'nothing has changed');
    assertError(await s.ask('PATCH', `${base}/nobody`, { body: { title: 'x' } }), 404, 'not_found',
        /^Session not found$/);
});

test('a session can be deleted, restored and erased', async (t) => {
    const s = await serve(t);
    const id = await conversation(s, 'k', ['one', 'two']);
    assert.deepEqual(await ok(s.ask('DELETE', `${base}/k`)), { status: 'deleted', session_id: id });
    assertError(await s.ask('DELETE', `${base}/k`), 404, 'not_found', /^Session not found$/);
    assertError(await s.ask('DELETE', `${base}/${id}`), 404, 'not_found', /^Session not found$/);
    assert.equal((await ok(s.get(`${base}/${id}`))).state, 'trash');
    for (const [method, path, body] of [['POST', '/messages', { role: 'user', content: 'x' }],
        ['POST', '/fork', {}], ['POST', '/rewind', { to_seq: 1 }], ['POST', '/reset', {}],
        ['POST', '/compact', {}], ['POST', '/pins', { seq: 1 }], ['PATCH', '', { title: 'x' }]])
        assertError(await s.ask(method, `${base}/${id}${path}`, { body }), 409, 'conflict',
            /in the trash; restore it first/);
    const back = await ok(s.ask('POST', `${base}/${id}/restore`));
    assert.deepEqual([back.key, back.state, back.message_count], ['k', 'active', 2]);
    assertError(await s.ask('POST', `${base}/k/restore`), 409, 'conflict', /not in the trash/);
    // Also by its key and by an alias.
    await ok(s.ask('PATCH', `${base}/${id}`, { body: { aliases: ['other name'] } }));
    for (const name of ['k', 'other%20name']) {
        await ok(s.ask('DELETE', `${base}/${id}`));
        assert.equal((await ok(s.ask('POST', `${base}/${name}/restore`))).id, id);
    }
    assertError(await s.ask('POST', `${base}/nobody/restore`), 404, 'not_found');
    for (let i = 0; i < 2; i++) {
        const { id: twice } = (await s.post(base, { key: 'twice' })).json;
        await ok(s.ask('DELETE', `${base}/${twice}`));
    }
    assertError(await s.ask('POST', `${base}/twice/restore`), 409, 'conflict',
        /matches 2 sessions in the trash; use an id/);
    assert.deepEqual(await textsOf(s, 'k'), ['one', 'two']);
    const erased = await ok(s.ask('POST', `${base}/k/erase`));
    assert.deepEqual([erased.status, erased.session_id, erased.messages], ['erased', id, 2]);
    for (const path of ['', '/messages', '/export', '/marks', '/context', '/usage'])
        assertError(await s.get(`${base}/${id}${path}`), 404, 'not_found', /^Session not found$/);
});

test('forks share the history and then diverge', async (t) => {
    const s = await serve(t);
    const id = await conversation(s, 'k', ['one', 'two', 'three']);
    await ok(s.ask('PATCH', `${base}/k`, { body: { title: 'T', project: 'P' } }));
    const fork = await ok(s.post(`${base}/k/fork`, { at_seq: 2, key: 'f' }), 201);
    assert.deepEqual([fork.parent_id, fork.fork_seq, fork.title, fork.project, fork.message_count],
        [id, 2, 'T', 'P', 2]);
    await ok(s.post(`${base}/f/messages`, { role: 'user', content: 'other' }), 201);
    assert.deepEqual(await textsOf(s, 'f'), ['one', 'two', 'other']);
    assert.deepEqual(await textsOf(s, 'k'), ['one', 'two', 'three']);
    const whole = await ok(s.ask('POST', `${base}/k/fork`), 201);
    assert.equal(whole.fork_seq, 3);
    assertError(await s.post(`${base}/k/fork`, { at_seq: 4 }), 400, 'invalid', /cannot be forked at 4/);
    assertError(await s.post(`${base}/k/fork`, { at_seq: 'x' }), 400, 'invalid', /'at_seq'/);
    assertError(await s.post(`${base}/k/fork`, { key: 'f' }), 409, 'conflict');
});

test('rewind, reset and undo hide and show messages, and remove none', async (t) => {
    const s = await serve(t);
    await ok(s.post(base, { key: 'k' }), 201);
    await ok(s.post(`${base}/k/messages`, { messages: [{ role: 'system', content: 'be kind' },
        { role: 'user', content: 'one' }, { role: 'assistant', content: 'two' }] }), 201);
    const rewound = await ok(s.post(`${base}/k/rewind`, { to_seq: 2 }));
    assert.deepEqual([rewound.number, rewound.kind, rewound.seq, rewound.through_seq],
        [1, 'rewind', 2, 3]);
    assert.deepEqual(await textsOf(s, 'k'), ['be kind', 'one']);
    assert.deepEqual(await textsOf(s, 'k', '?hidden=true'), ['be kind', 'one', 'two']);
    const undone = await ok(s.ask('POST', `${base}/k/undo`));
    assert.deepEqual([undone.kind, undone.target], ['undo', 1]);
    assert.deepEqual(await textsOf(s, 'k'), ['be kind', 'one', 'two']);
    assertError(await s.ask('POST', `${base}/k/undo`), 404, 'not_found', /nothing to undo/);
    assertError(await s.post(`${base}/k/undo`, { number: 1 }), 409, 'conflict', /already undone/);

    assert.equal((await ok(s.ask('POST', `${base}/k/reset`))).kind, 'reset');
    assert.deepEqual(await textsOf(s, 'k'), ['be kind'], 'a system message is kept');
    await ok(s.ask('POST', `${base}/k/undo`));
    await ok(s.post(`${base}/k/reset`, { keep_system_message: false }));
    assert.deepEqual(await textsOf(s, 'k'), []);
    await ok(s.post(`${base}/k/undo`, { number: 5 }));
    await ok(s.ask('POST', `${base}/k/reset`, { body: '{"keep_system' }));
    assert.deepEqual(await textsOf(s, 'k'), ['be kind'], 'what can not be read counts as {}');
    assertError(await s.post(`${base}/k/reset`, { keep_system_message: 'no' }), 400, 'invalid',
        /'keep_system_message' must be true or false/);
    const { marks } = await ok(s.get(`${base}/k/marks`));
    assert.deepEqual(marks.map((m) => m.kind),
        ['rewind', 'undo', 'reset', 'undo', 'reset', 'undo', 'reset']);
    assert.deepEqual(marks.map((m) => !!m.undone),
        [true, false, true, false, true, false, false]);
    assertError(await s.post(`${base}/k/rewind`, {}), 400, 'invalid', /'to_seq' is missing/);
    assertError(await s.post(`${base}/k/rewind`, { to_seq: 99 }), 400, 'invalid', /no seq 99/);
});

test('a message can be pinned and unpinned', async (t) => {
    const s = await serve(t);
    await conversation(s, 'k', ['one', 'two']);
    assert.deepEqual((({ kind, seq }) => ({ kind, seq }))(await ok(s.post(`${base}/k/pins`,
        { seq: 1 }))), { kind: 'pin', seq: 1 });
    const plan = await ok(s.get(`${base}/k/context`));
    assert.match(JSON.stringify(plan), /pin/);
    assert.equal((await ok(s.ask('DELETE', `${base}/k/pins/1`))).kind, 'unpin');
    assertError(await s.ask('DELETE', `${base}/k/pins/one`), 400, 'invalid', /the seq of a message/);
    assertError(await s.post(`${base}/k/pins`, {}), 400, 'invalid', /'seq' is missing/);
    assertError(await s.post(`${base}/k/pins`, { seq: 0 }), 400, 'invalid', /'seq' must be from 1/);
});

test('a compaction replaces the messages that it summarizes, until it is undone', async (t) => {
    const s = await serve(t);
    const long = 'The lamp in the hall is broken, and nobody has looked at it. '.repeat(40);
    await conversation(s, 'k', Array.from({ length: 12 }, (_, i) => `${i} ${long}`));
    const before = await ok(s.get(`${base}/k/context`));
    const done = await ok(s.post(`${base}/k/compact`, { cut_seq: 8 }));
    assert.ok(done.number === 1 && done.tokens_after < done.tokens_before, JSON.stringify(done));
    const after = await ok(s.get(`${base}/k/context?model=echo`));
    assert.ok(after.tokens < before.tokens);
    assert.equal((await textsOf(s, 'k')).length, 12, 'every message is still there');
    const undone = await ok(s.ask('DELETE', `${base}/k/compact`));
    assert.deepEqual([undone.kind, undone.target], ['undo', 1]);
    assert.equal((await ok(s.get(`${base}/k/context`))).tokens, before.tokens);
    assertError(await s.ask('DELETE', `${base}/k/compact`), 404, 'not_found', /no such compaction/);
    assertError(await s.ask('DELETE', `${base}/k/compact?number=1`), 409, 'conflict');
    assertError(await s.ask('DELETE', `${base}/k/compact?number=2`), 404, 'not_found');
    assertError(await s.ask('DELETE', `${base}/k/compact?number=x`), 400, 'invalid', /'number'/);
    assertError(await s.post(`${base}/k/compact`, { cut_seq: 'x' }), 400, 'invalid', /'cut_seq'/);
    assertError(await s.get(`${base}/k/context?strategy=magic`), 400, 'invalid', /'strategy' must/);
    const first = { headers: { 'idempotency-key': 'once' } };
    const one = await ok(s.post(`${base}/k/compact`, { cut_seq: 8 }, first));
    const again = await s.post(`${base}/k/compact`, { cut_seq: 8 }, first);
    assert.deepEqual(again.json, one);
    assert.equal(again.headers['idempotent-replayed'], 'true');
    // The usage counts for the session and for the tenant.
    const usage = await ok(s.get(`${base}/k/usage`));
    assert.ok(usage.calls === 2 && usage.input_tokens > 100, JSON.stringify(usage));
    assert.deepEqual(await ok(s.get('/api/v1/usage')), usage);
    assert.equal((await ok(s.get('/api/v1/usage?to=2020-01-01T00:00:00Z'))).calls, 0);
    assert.equal((await ok(s.get(`${base}/k/usage?turn=none`))).calls, 0);
    assertError(await s.get('/api/v1/usage?from=then'), 400, 'invalid', /'from' must be a time/);
});

test('search finds visible messages', async (t) => {
    const s = await serve(t);
    const one = await conversation(s, 'k', ['a red lamp', 'a blue lamp', 'grün wie Gras']);
    const two = await conversation(s, 'l', ['another lamp']);
    const all = await ok(s.get('/api/v1/search?q=lamp'));
    assert.deepEqual(new Set(all.hits.map((h) => h.session_id)), new Set([one, two]));
    assert.deepEqual(Object.keys(all.hits[0]),
        ['session_id', 'message_id', 'seq', 'role', 'created_at', 'snippet', 'matches', 'title',
            'key', 'score']);
    const here = await ok(s.get(`${base}/k/search?q=lamp&order=newest`));
    assert.deepEqual(here.hits.map((h) => h.seq), [2, 1]);
    assert.deepEqual((await ok(s.get(`${base}/k/search?q=gr%C3%BCn`))).hits.map((h) => h.seq), [3]);
    assert.deepEqual((await ok(s.get(`${base}/k/search?q=lamp&role=assistant`))).hits
        .map((h) => h.seq), [2]);
    for (const order of ['newest', 'best']) {
        const query = `${base}/k/search?q=lamp&limit=1&order=${order}`;
        const page = await ok(s.get(query));
        assert.deepEqual([page.hits.length, page.has_more], [1, true]);
        const next = await ok(s.get(`${query}&cursor=${encodeURIComponent(page.cursor)}`));
        assert.deepEqual([next.hits.length, next.has_more, next.cursor], [1, false, null]);
        assert.deepEqual([page.hits[0].seq, next.hits[0].seq].sort(), [1, 2]);
    }
    await ok(s.post(`${base}/k/rewind`, { to_seq: 0 }));
    assert.deepEqual((await ok(s.get(`${base}/k/search?q=lamp`))).hits, []);
    assertError(await s.get('/api/v1/search'), 400, 'invalid', /'q' is missing/);
    assertError(await s.get('/api/v1/search?q=x&role=king'), 400, 'invalid', /'role' must be/);
});

test('a question finds the best messages', async (t) => {
    const s = await serve(t);
    await conversation(s, 'k', ['We had soup.', 'My sister paints horses.', 'Where?', 'In Porto.',
        'It rained all day.', '我姐姐昨天在北京']);
    const seqs = async (query) =>
        (await ok(s.get(`${base}/k/search?${query}`))).hits.map((h) => h.seq);
    const question = encodeURIComponent('What does your sister paint?');
    assert.deepEqual(await seqs(`q=${question}`), [2]);
    assert.deepEqual(await seqs(`q=${question}&order=newest`), []);
    assert.deepEqual(await seqs(`q=${encodeURIComponent('"sister paints" soup')}`), []);
    assert.deepEqual(await seqs(`q=${encodeURIComponent('"sister paints" soup')}&order=best`), [2]);
    assert.deepEqual(await seqs(`q=${encodeURIComponent('你姐姐什么时候去了北京？')}`), [6]);
    const { hits: [hit] } = await ok(s.get(`/api/v1/search?q=${question}&neighbors=1`));
    assert.deepEqual(hit.neighbors.map(({ seq, role, text }) => [seq, role, text]),
        [[1, 'user', 'We had soup.'], [3, 'user', 'Where?']]);
    assert.deepEqual(hit.matches, [[3, 6], [10, 6]]);
    await ok(s.post(`${base}/k/messages`, { messages: [
        { role: 'user', content: 'soup for me', sender: 'ann' }] }), 201);
    assert.deepEqual(await seqs('q=soup&sender=ann'), [7]);
    assertError(await s.get('/api/v1/search?q=x&order=worst'), 400, 'invalid',
        /'order' must be newest, best or auto/);
    assertError(await s.get('/api/v1/search?q=x&neighbors=9'), 400, 'invalid', /'neighbors' must/);
    assertError(await s.get('/api/v1/search?q=x&neighbors=1&order=newest'), 400, 'invalid',
        /'neighbors' requires/);
});

test('an export is complete, and its import restores the session', async (t) => {
    const [a, b] = [await serve(t), await serve(t)];
    await ok(a.post(base, { key: 'k', title: 'Tée', metadata: { n: 1 } }), 201);
    await ok(a.post(`${base}/k/messages`, { messages: [{ role: 'user', content: 'one' },
        { role: 'user', parts: [{ type: 'text', text: 'see' }, { type: 'image',
            media_type: 'image/png', data: 'iVBORw0KGgo=' }] },
        { role: 'user', content: 'oops' }] }), 201);
    await ok(a.post(`${base}/k/rewind`, { to_seq: 2 }));
    const exported = await a.get(`${base}/k/export?blobs=true`);
    assert.equal(exported.headers['content-type'], 'application/x-ndjson');
    assert.equal(exported.text, palaver(a.dir, 'session', 'export', 'k', '--with-blobs'));
    assert.equal(exported.text.trimEnd().split('\n').length, 5);
    const text = { headers: { 'content-type': 'application/x-ndjson' } };
    const report = await ok(b.post('/api/v1/import', exported.text, text));
    assert.deepEqual(report, { sessions: 1, sessions_known: 0, messages: 3, messages_known: 0,
        messages_failed: 0, marks: 1, session_ids: [(await ok(a.get(`${base}/k`))).id],
        problems_total: 0, problems: [] });
    const pure = (lines) => lines.replace(/"(updated|created)_at":"[^"]+"/g, '');
    assert.equal(pure((await b.get(`${base}/k/export?blobs=true`)).text), pure(exported.text));
    const again = await ok(b.post('/api/v1/import', exported.text, text));
    assert.deepEqual([again.sessions, again.messages, again.marks], [0, 0, 0]);
    const chat = await ok(a.get(`${base}/k/export?format=openai&blobs=true`));
    assert.deepEqual(chat.messages.map((m) => m.role), ['user', 'user']);
    assert.equal(chat.messages[1].content[1].image_url.url, 'data:image/png;base64,iVBORw0KGgo=');
    assertError(await a.get(`${base}/k/export?format=pdf`), 400, 'invalid', /'format' must be/);
    assertError(await a.get(`${base}/k/export?blobs=7`), 400, 'invalid', /'blobs' must be/);
});

test('transcripts of other programs are imported, and anything else is refused', async (t) => {
    const s = await serve(t);
    const send = (query, body) => s.post(`/api/v1/import${query}`, body);
    const chat = [{ role: 'user', content: 'hi' }, { role: 'assistant', content: 'ho' }];
    const named = await ok(send('?key=chat&project=P', chat));
    assert.deepEqual([named.sessions, named.messages], [1, 2]);
    assert.deepEqual(await textsOf(s, 'chat'), ['hi', 'ho']);
    assert.equal((await ok(s.get(`${base}/chat`))).project, 'P');
    assert.deepEqual(named.session_ids, [(await ok(s.get(`${base}/chat`))).id]);
    const grown = await ok(send('?key=chat', [...chat, { role: 'user', content: 'more' }]));
    assert.deepEqual([grown.messages, grown.messages_known], [1, 2]);
    const lines = await ok(send('?format=openai', chat.map((m) => JSON.stringify(m)).join('\r\n')));
    assert.deepEqual(await textsOf(s, lines.session_ids[0]), ['hi', 'ho']);
    const loom = await ok(send('?format=loom', JSON.stringify({ session_id: 'l-1', bead_id: 'b-1',
        project_id: 'p', messages: [{ role: 'user', content: 'work' }], metadata: {} })));
    assert.equal(loom.messages, 1);
    const skillian = await ok(send('', JSON.stringify({ id: '6f1b2c3d-0000-4000-8000-000000000001',
        message_count: 1, conversation_data: { messages: [{ role: 'user', content: 'ask',
            tool_call_id: null, tool_calls: null }] } })));
    assert.equal(skillian.messages, 1, JSON.stringify(skillian));
    const partly = await ok(send('?format=openai',
        `${JSON.stringify(chat[0])}\n{"role":\n${JSON.stringify(chat[1])}`));
    assert.deepEqual([partly.messages, partly.problems_total, partly.problems[0].line], [2, 1, 2]);
    const count = (await ok(s.get(base))).sessions.length;
    assertError(await send('', 'hello'), 400, 'invalid', /not a conversation in a known format/);
    assertError(await s.ask('POST', '/api/v1/import'), 400, 'invalid');
    assertError(await send('?format=pdf', chat), 400, 'invalid', /'format' must be auto, native/);
    assertError(await send(`?key=${'x'.repeat(1025)}`, chat), 413, 'limit', /'key' of 1025 bytes/);
    const two = JSON.stringify({ messages: chat });
    assertError(await send('?key=x', `${two}\n${two}`), 400, 'invalid', /'key' is not allowed/);
    assert.equal((await ok(s.get(base))).sessions.length, count, 'nothing has changed');
    const keyed = { headers: { 'idempotency-key': 'i-1' } };
    const first = await ok(s.post('/api/v1/import', chat, keyed));
    assert.deepEqual(await ok(s.post('/api/v1/import', chat, keyed)), first);
    // The query names the session, so the same body for another session is another request.
    const other = { headers: { 'idempotency-key': 'i-2' } };
    const imported = await ok(s.post('/api/v1/import?key=imported-a', chat, other));
    assertError(await s.post('/api/v1/import?key=imported-b', chat, other), 422,
        'idempotency_key_reused');
    assertError(await s.post('/api/v1/import', chat, other), 422, 'idempotency_key_reused');
    assert.deepEqual(await ok(s.post('/api/v1/import?key=imported-a', chat, other)), imported);
});

// A session that is much larger than the buffer for a reader.
test('a long export arrives completely, and a stuck reader blocks no other request', async (t) => {
    const s = await serve(t);
    await ok(s.post(base, { key: 'k' }), 201);
    // Some messages are longer than a page of it.
    const textOf = (i) => `${i} ${'x'.repeat(i % 97 === 5 ? 600000 : 40000)}`;
    for (let i = 0; i < 20; i++)
        await ok(s.post(`${base}/k/messages`, { messages: Array.from({ length: 20 }, (_, n) =>
            ({ role: 'user', content: textOf(i * 20 + n) })) }), 201);
    const stuck = [];
    for (let i = 0; i < 20; i++)
        stuck.push(await new Promise((resolve, reject) => {
            const request = http.get({ host: '127.0.0.1', port: s.port, path: `${base}/k/export`,
                agent: false }, (response) => { response.pause(); resolve(request); });
            request.on('error', reject);
        }));
    const whole = await s.get(`${base}/k/export`);
    const lines = whole.text.trimEnd().split('\n').slice(1).map((line) => JSON.parse(line));
    assert.equal(lines.length, 400);
    lines.forEach((line, i) => assert.ok(line.content === textOf(i), `message ${i}`));
    assert.equal((await ok(s.get(`${base}/k/marks`))).marks.length, 0, 'workers are free');
    for (const request of stuck) {
        request.on('error', () => {});
        request.destroy();
    }
    assert.equal((await ok(s.get(`${base}/k/messages?limit=1`))).messages.length, 1);
    const end = await s.stop();
    assert.deepEqual([end.code, end.signal], [0, null], end.log);
});

test('another tenant sees nothing of a session', async (t) => {
    const dir = workspace(t);
    const [one, two] = ['one', 'two'].map((tenant) => makeKey(dir, '--tenant', tenant).key);
    const admin = makeKey(dir, '--role', 'admin').key;
    const s = await serve(t, { dir });
    const id = await conversation(s, 'k', ['secret'], { key: one });
    assert.deepEqual((await ok(s.get(base, { key: two }))).sessions, []);
    assert.deepEqual((await ok(s.get('/api/v1/search?q=secret', { key: two }))).hits, []);
    for (const name of [id, 'k'])
        assertError(await s.get(`${base}/${name}`, { key: two }), 404, 'not_found');
    // The same key means another session there.
    const other = await ok(s.post(base, { key: 'k' }, { key: two }), 201);
    assert.notEqual(other.id, id);
    assertError(await s.post(`${base}/${id}/fork`, {}, { key: two }), 404, 'not_found');
    // An admin key must name the tenant.
    const headers = { 'x-palaver-tenant': 'one' };
    assert.equal((await ok(s.get(`${base}/k`, { key: admin, headers }))).id, id);
    assertError(await s.post(`${base}/k/erase`, {}, { key: one }), 403, 'forbidden');
    assert.equal((await ok(s.post(`${base}/k/erase`, {}, { key: admin, headers }))).messages, 1);
});
