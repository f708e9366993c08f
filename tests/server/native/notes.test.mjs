// Notes over HTTP, MCP and the command: rules, circles, changes, roles of keys, and erasure.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { assertError, makeKey, palaver, serve, workspace } from '../support.mjs';

const notes = '/api/v1/notes';

async function ok(promise, code = 200) {
    const answer = await promise;
    assert.equal(answer.code, code, answer.text);
    return answer.json;
}

const scopeOf = (channel, chat) => ({ version: 1, agent_id: 'main', channel, account: 'default',
    dimensions: ['chat'], values: { chat } });

// Creates a chat with one user message per text. Returns the id of its session.
async function chat(s, key, scope, texts, options) {
    const { session_id: id } = await ok(s.post('/api/v1/sessions', { key, scope }, options), 201);
    await ok(s.post(`/api/v1/sessions/${id}/messages`,
        { messages: texts.map((content) => ({ role: 'user', content })) }, options), 201);
    return id;
}

const add = (s, session, seq, text, more = {}, options = {}) => s.post(notes,
    { text, kind: 'fact', source: { session, seq, ...more.source }, ...more.note }, options);

test('a note is added, corrected, restored and erased', async (t) => {
    const s = await serve(t);
    const id = await chat(s, 'ann', scopeOf('matrix', 'direct:@ann:hs'),
        ['Hello. I live in Lisbon.', 'I moved: I live in Porto now.', 'I live in Lisbon!']);
    const first = await ok(add(s, 'ann', 1, 'Ann lives in Lisbon.',
        { source: { quote: 'I live in Lisbon' } }));
    assert.deepEqual([first.support, first.rule, first.note.state], [false, null, 'active']);
    assert.equal(first.note.subject, 'person:matrix:@ann:hs');
    assert.equal(first.note.circle, first.note.subject);
    assert.equal(first.note.session_id, id);
    assert.deepEqual(first.note.sources.map(({ seq, quote }) => [seq, quote]),
        [[1, 'I live in Lisbon']]);
    const again = await ok(add(s, id, 3, 'Ann lives in Lisbon.', { source: { quote: 'in Lisbon' } }));
    assert.deepEqual([again.support, again.rule, again.note.id], [true, 'support', first.note.id]);
    const { note: second } = await ok(add(s, id, 2, 'Ann lives in Porto.',
        { source: { quote: 'I live in Porto' }, note: { replaces: first.note.id } }));
    assert.equal(second.replaces, first.note.id);
    const old = await ok(s.get(`${notes}/${first.note.id}`));
    assert.deepEqual([old.state, old.replaced_by], ['superseded', second.id]);
    const shown = async () => (await ok(s.get(`/api/v1/sessions/${id}/notes`))).notes
        .map(({ text }) => text);
    assert.deepEqual(await shown(), ['Ann lives in Porto.']);
    const restored = await ok(s.post(`${notes}/${first.note.id}/restore`, { reason: 'a mistake' }));
    assert.deepEqual(restored.changes.map(({ act }) => act),
        ['add', 'support', 'supersede', 'restore']);
    assert.deepEqual(await shown(), ['Ann lives in Lisbon.']);
    assertError(await s.post(`${notes}/${first.note.id}/restore`, {}), 409, 'conflict', /is active/);
    await ok(s.post(`${notes}/${first.note.id}/retract`, {}));
    assert.deepEqual(await shown(), []);
    const found = await ok(s.get(`${notes}?q=where+does+she+live&state=superseded`));
    assert.deepEqual(found.notes, []);
    assert.equal((await ok(s.get(`${notes}?q=where+does+she+live`))).notes.length, 2);
    assert.deepEqual(await ok(s.ask('DELETE', `${notes}/${second.id}`)), { erased: 1 });
    assertError(await s.get(`${notes}/${second.id}`), 404, 'not_found', /does not exist/);
    const subject = encodeURIComponent('person:matrix:@ann:hs');
    assert.deepEqual(await ok(s.ask('DELETE', `${notes}?subject=${subject}`)), { erased: 1 });
});

test('the rules reject what was not said', async (t) => {
    const s = await serve(t);
    await chat(s, 'ann', scopeOf('matrix', 'direct:@ann:hs'),
        ['I have two cats.', 'My password is rosebud.', 'He said I am lazy.']);
    const refuses = async (answer, rule) => assertError(await answer, 403, 'denied', rule);
    await refuses(add(s, 'ann', 1, 'Ann has dogs.', { source: { quote: 'I have dogs' } }), /^not_said:/);
    await refuses(add(s, 'ann', 2, 'Password is rosebud.', { source: { quote: 'password is rosebud' } }),
        /^secret:/);
    await refuses(add(s, 'ann', 1, 'Bob has two cats.',
        { source: { quote: 'two cats' }, note: { subject: 'person:matrix:@bob:hs' } }), /^other_person:/);
    const { note, rule } = await ok(add(s, 'ann', 1, 'Ann has three cats.',
        { source: { quote: 'cats' } }));
    assert.deepEqual([rule, note.state, note.pending], ['inferred', 'pending', 'inferred']);
    assert.deepEqual((await ok(s.get('/api/v1/sessions/ann/notes'))).notes, []);
    const { note: pending } = await ok(add(s, 'ann', 3, 'I am lazy'));
    assert.equal(pending.pending, 'reported');
    assert.equal((await ok(s.post(`${notes}/${pending.id}/confirm`, {}))).state, 'active');
    assertError(await s.post(notes, { text: 'x', kind: 'fact', source: { session: 'ann', seq: 9 } }),
        404, 'not_found', /seq 9/);
    assertError(await s.post(notes, { text: 'x', kind: 'guess' }), 400, 'invalid', /'kind' must be/);
    assertError(await s.post(notes, { text: 'x', kind: 'fact' }), 400, 'invalid', /'subject' is missing/);
    assertError(await s.post(notes, { text: 'x', kind: 'fact', subject: 'Ann' }), 400, 'invalid',
        /expected tenant, person/);
});

test('a key that is not an admin\'s sees no circles', async (t) => {
    const dir = workspace(t);
    const admin = { key: makeKey(dir, '--role', 'admin').key };
    const write = { key: makeKey(dir, '--role', 'write').key };
    const other = { key: makeKey(dir, '--role', 'write', '--tenant', 'other').key };
    const s = await serve(t, { dir });
    const id = await chat(s, 'ann', scopeOf('matrix', 'direct:@ann:hs'), ['I sail.'], admin);
    await chat(s, 'room', scopeOf('matrix', 'group:!r'), ['We dance.'], admin);
    const { note } = await ok(add(s, 'ann', 1, 'I sail.', {}, write));
    assert.equal(note.by, 'tool');
    await ok(add(s, 'room', 1, 'We dance.', {}, write));
    const { note: everybody } = await ok(s.post(notes,
        { text: 'Closed on Fridays.', kind: 'fact', subject: 'tenant' }, admin));
    const texts = async (target, options) => (await ok(s.get(target, options))).notes
        .map(({ text }) => text).sort();
    assert.deepEqual(await texts(notes, admin), ['Closed on Fridays.', 'I sail.', 'We dance.']);
    assert.deepEqual(await texts(notes, write), ['Closed on Fridays.']);
    for (const query of ['?q=sail', '?subject=person:matrix:@ann:hs'])
        assert.deepEqual(await texts(notes + query, write), []);
    assert.deepEqual(await texts(notes, other), []);
    assert.deepEqual(await texts('/api/v1/sessions/ann/notes', write),
        ['Closed on Fridays.', 'I sail.']);
    assert.deepEqual(await texts('/api/v1/sessions/room/notes?subject=person:matrix:@ann:hs', write), []);
    assert.deepEqual(await texts('/api/v1/sessions/room/notes?q=sail', admin), []);
    assertError(await s.get(`${notes}/${note.id}`, write), 404, 'not_found');
    assertError(await s.post(`${notes}/${note.id}/retract`, {}, write), 404, 'not_found');
    assertError(await s.get(`${notes}/${everybody.id}`, other), 404, 'not_found');
    assertError(await s.ask('DELETE', `${notes}/${note.id}`, write), 403, 'forbidden', /admin/);
    assertError(await s.post(notes, { text: 'x', kind: 'fact', subject: 'tenant' }, write), 403,
        'denied', /no_source/);
    assertError(await add(s, 'ann', 1, 'I sail.', { note: { circle: 'tenant' } }, write), 403,
        'denied', /only an admin/);
    assert.equal(note.session_id, id);
});

test('MCP clients see the notes of the conversation that they name', async (t) => {
    const s = await serve(t);
    await chat(s, 'ann', scopeOf('matrix', 'direct:@ann:hs'), ['I sail on Sundays.']);
    await chat(s, 'room', scopeOf('matrix', 'group:!r'), ['We dance.']);
    const call = async (name, args) => {
        const { json } = await s.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call',
            params: { name, arguments: args, _meta: {
                'io.modelcontextprotocol/protocolVersion': '2026-07-28',
                'io.modelcontextprotocol/clientInfo': { name: 't', version: '1' },
                'io.modelcontextprotocol/clientCapabilities': {} } } },
        { headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call',
            'mcp-name': name, accept: 'application/json, text/event-stream' } });
        return json.result;
    };
    const added = await call('add_note',
        { text: 'Sails on Sundays.', conversation: 'ann', seq: 1, quote: 'I sail on Sundays' });
    assert.equal(added.structuredContent.note.state, 'active', JSON.stringify(added));
    const texts = async (args) => (await call('search_notes', args)).structuredContent.notes
        .map(({ text }) => text);
    assert.deepEqual(await texts({}), []);
    assert.deepEqual(await texts({ query: 'sailing', conversation: 'room' }), []);
    assert.deepEqual(await texts({ query: 'sailing', conversation: 'ann' }), ['Sails on Sundays.']);
    const refused = await call('add_note',
        { text: 'Owns a boat.', conversation: 'ann', seq: 1, quote: 'I own a boat' });
    assert.equal(refused.isError, true);
    assert.match(refused.content[0].text, /not_said/);
    const { id } = added.structuredContent.note;
    assert.equal((await call('retract_note', { note: id, conversation: 'room' })).isError, true);
    const gone = await call('retract_note', { note: id, conversation: 'ann', reason: 'no boat' });
    assert.equal(gone.structuredContent.note.state, 'retracted');
});

test('an erased session leaves no word of its notes in the files', async (t) => {
    const dir = workspace(t);
    const run = (...args) => palaver(dir, ...args);
    run('session', 'new', '--key', 'ann');
    run('session', 'append', 'ann', 'I keep a zebrafinch.');
    const note = JSON.parse(run('memory', 'add', 'Ann keeps a zebrafinch.', '--session', 'ann',
        '--seq', '1', '--quote', 'I keep a zebrafinch', '--json'));
    assert.equal(note.circle, `session:${note.session_id}`);
    assert.match(run('memory', 'list'), /zebrafinch/);
    assert.match(run('memory', 'show', note.id), /source +[0-9a-f-]+ message 1/);
    const has = () => fs.readdirSync(path.join(dir, 'palaver-data')).some((name) =>
        fs.readFileSync(path.join(dir, 'palaver-data', name)).includes('zebrafinch'));
    assert.ok(has());
    run('session', 'erase', 'ann', '--yes');
    assert.ok(!has());
    assert.equal(run('memory', 'list'), '');
});
