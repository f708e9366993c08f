// Changes to a complete history: truncate, replace, and the summary before it.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { assertError, serve, palaver, workspace } from '../support.mjs';
import { serveModel } from '../model.mjs';

const base = '/api/v1/sessions';
const say = (content, role = 'user') => ({ role, content });

async function conversation(s, texts, key) {
    const { session_id: id } = (await s.post(base, { key })).json;
    await s.post(`${base}/${id}/messages`, { messages: texts.map((text) => say(text)) });
    return id;
}
const shown = async (s, id) => (await s.get(`${base}/${id}/messages`)).json.messages
    .map((m) => m.content);

test('truncate keeps the newest messages and can be undone', async (t) => {
    const s = await serve(t);
    const id = await conversation(s, ['a', 'b', 'c', 'd']);
    const done = await s.post(`${base}/${id}/truncate`, { keep: 3 });
    assert.deepEqual([done.code, done.json.kind, done.json.number], [200, 'rewind', 1], done.text);
    assert.deepEqual(await shown(s, id), ['b', 'c', 'd']);
    assert.equal((await s.post(`${base}/${id}/truncate`, { keep: 9 })).json.number, 0);
    await s.post(`${base}/${id}/undo`, {});
    assert.deepEqual(await shown(s, id), ['a', 'b', 'c', 'd']);
    await s.post(`${base}/${id}/truncate`, { keep: 0 });
    assert.deepEqual(await shown(s, id), []);
    assertError(await s.post(`${base}/${id}/truncate`, {}), 400, 'invalid', /'keep' is missing/);
    assertError(await s.post(`${base}/${id}/truncate`, { keep: 1, kep: 2 }), 400, 'invalid', /kep/);
    assertError(await s.post(`${base}/nobody/truncate`, { keep: 1 }), 404, 'not_found');
});

test('a directory for PicoClaw leaves out truncated messages', async (t) => {
    const dir = workspace(t);
    const s = await serve(t, { dir, args: ['--store', 'jsonl:sessions'] });
    const id = await conversation(s, ['a', 'b', 'c', 'd'], 'k');
    await s.post(`${base}/${id}/truncate`, { keep: 1 });
    await s.ask('PUT', `${base}/${id}/summary`, { body: { summary: 'about letters' } });
    const meta = () => JSON.parse(fs.readFileSync(path.join(dir, 'sessions', 'k.meta.json')));
    assert.deepEqual([meta().skip, meta().summary], [3, 'about letters']);
    await s.ask('PUT', `${base}/${id}/messages`, { body: { messages: [say('x'), say('y')] } });
    assert.deepEqual([meta().skip, meta().count], [4, 6]);
});

test('messages are replaced in one step, and the old ones are kept', async (t) => {
    const s = await serve(t);
    const id = await conversation(s, ['a', 'b']);
    const put = (body) => s.ask('PUT', `${base}/${id}/messages`, { body });
    const done = await put({ messages: [say('x'), say('y', 'assistant')] });
    assert.equal(done.code, 200, done.text);
    assert.deepEqual(done.json.messages.map((m) => m.seq), [3, 4]);
    assert.equal(done.json.mark.kind, 'rewind');
    assert.deepEqual(await shown(s, id), ['x', 'y']);
    for (const body of [{}, { messages: 'x' }, { messages: [{ role: 'user' }] },
        { messages: [], other: 1 }])
        assert.equal((await put(body)).code, 400);
    assert.deepEqual(await shown(s, id), ['x', 'y']);
    await s.post(`${base}/${id}/undo`, { number: done.json.mark.number });
    assert.deepEqual(await shown(s, id), ['a', 'b', 'x', 'y']);
    assert.equal((await put({ messages: [] })).code, 200);
    assert.deepEqual(await shown(s, id), []);
});

test('a summary can be set and read without a cut, and the model gets it', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    const at = `${base}/${id}/summary`;
    assert.deepEqual((await s.get(at)).json, { session_id: id, summary: '' });
    const set = (summary) => s.ask('PUT', at, { body: { summary } });
    assert.deepEqual((await set('We chose blue.')).json, { session_id: id,
        summary: 'We chose blue.' });
    await s.turn(id, { message: 'and now?' });
    const sent = JSON.stringify((await s.asked()).at(-1).messages);
    assert.match(sent, /We chose blue\./);
    assert.match(sent, /and now\?/);
    await set('We chose green.');
    assert.equal((await s.get(at)).json.summary, 'We chose green.');
    await s.post(`${base}/${id}/undo`, {});
    assert.equal((await s.get(at)).json.summary, 'We chose blue.');
    assert.equal((await set('')).json.summary, '');
    assert.equal((await s.get(at)).json.summary, '');
    for (const color of ['red', 'black']) await set(color);
    for (let i = 0; i < 2; i++) {
        await set('');
        assert.equal((await s.get(at)).json.summary, '', 'an earlier summary does not come back');
    }
    await s.post(`${base}/${id}/undo`, {});
    assert.equal((await s.get(at)).json.summary, 'black');
    await set('');
    await s.turn(id, { message: 'no colors' });
    assert.doesNotMatch(JSON.stringify((await s.asked()).at(-1).messages), /blue|red|black/);
    await s.post(`${base}/${id}/rewind`, { to_seq: 2 });
    assert.deepEqual(await shown(s, id), ['and now?', 'echo: and now?']);
    assertError(await s.ask('PUT', at, { body: {} }), 400, 'invalid', /'summary' is missing; send an empty string/);
    assertError(await s.ask('PUT', at, { body: { summary: 'x', more: 1 } }), 400, 'invalid', /more/);
});

test('a compaction with a given summary calls no model', async (t) => {
    const s = await serveModel(t);
    const id = await conversation(s, [...Array(40).keys()].map((i) => `${i} ${'word '.repeat(150)}`));
    const compact = (to, body) => s.post(`${base}/${to}/compact`, body);
    const done = await compact(id, { summary: 'given by the caller' });
    assert.equal(done.code, 200, done.text);
    assert.deepEqual([done.json.summary, done.json.fallback], ['given by the caller', false]);
    assert.ok(done.json.number > 0 && done.json.messages > 0);
    assert.equal((await s.get(`${base}/${id}/summary`)).json.summary, 'given by the caller');
    // A summary that is longer than the replaced messages, or that replaces nothing, is the
    // caller's decision.
    const short = await conversation(s, ['hi']);
    const long = 'a long summary '.repeat(50);
    assert.equal((await compact(short, { summary: long })).json.summary, long);
    assert.equal((await s.get(`${base}/${short}/summary`)).json.summary.trim(), long.trim());
    assert.deepEqual(await shown(s, short), ['hi']);
    assert.equal((await s.asked()).length, 0);
    assertError(await compact(id, { sumary: 'x' }), 400, 'invalid', /sumary/);
    assertError(await compact(id, { summary: ' ' }), 400, 'invalid', /'summary' is empty/);
    assertError(await compact(id, { summary: 'x', model: 'm' }), 400, 'invalid', /'summary' is not allowed/);
    assert.equal((await s.asked()).length, 0);
});

test('the command does the same', (t) => {
    const dir = workspace(t);
    const run = (...args) => palaver(dir, 'session', ...args);
    run('new', '--key', 'demo');
    for (const text of ['a', 'b', 'c']) run('append', 'demo', text);
    assert.match(run('truncate', 'demo', '--keep', '1'), /^Truncated to the newest/);
    assert.match(run('truncate', 'demo', '--keep', '1'), /^Nothing was changed/);
    assert.equal(run('summary', 'demo', '--set', 'letters'), 'letters\n');
    assert.equal(JSON.parse(run('summary', 'demo', '--json')).summary, 'letters');
    run('summary', 'demo', '--set', 'more letters');
    assert.equal(run('summary', 'demo', '--clear'), '');
    assert.equal(run('summary', 'demo'), '');
    run('append', 'demo', '--replace', 'only this');
    const { messages } = JSON.parse(run('show', 'demo', '--json'));
    assert.deepEqual(messages.map((m) => m.content), ['only this']);
    assert.match(run('compact', 'demo', '--summary', 'short'), /before all messages/);
    assert.equal(run('summary', 'demo'), 'short\n');
});
