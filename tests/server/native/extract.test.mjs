// Notes that a model proposes in the background: when, what is kept, before a compaction, and after
// kills. A scripted model proposes what the user's message says.
import test from 'node:test';
import assert from 'node:assert/strict';
import { serveModel } from '../model.mjs';

const soon = 'memory: {model: mock-model, run_quiet: 1ms, run_idle: 1ms}\n';
const late = 'memory: {model: mock-model, run_quiet: 1h, run_idle: 1h}\n';
const ann = 'direct:@ann:hs';
const scopeOf = (chat) => ({ version: 1, agent_id: 'main', channel: 'matrix', account: 'default',
    dimensions: ['chat'], values: { chat } });
const words = (message) => (typeof message.content === 'string' ? message.content
    : (message.content ?? []).map(({ text }) => text ?? '').join('\n'));
const isExtraction = (request) => /^You read a part/.test(words(request.messages[0]));

async function ok(promise, code = 200) {
    const answer = await promise;
    assert.equal(answer.code, code, answer.text);
    return answer.json;
}

const chat = (s, key, name = ann) => s.session({ key, scope: scopeOf(name) });
const say = (s, id, text, notes, more = {}) => ok(s.turn(id,
    { message: `${text} <<say ${JSON.stringify({ notes, ...more })}>>` }));
const list = async (s, query = '') => (await ok(s.get(`/api/v1/notes${query}`))).notes;
const extractions = async (s) => (await s.asked()).filter(isExtraction);

// Waits until the test of all notes is true.
async function until(s, check) {
    for (let i = 0; i < 1000; i++) {
        const notes = await list(s);
        if (check(notes)) return notes;
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.fail(JSON.stringify(await list(s)));
}

const sails = { text: 'Sails on Sundays.', kind: 'fact', from: [1], quote: 'I sail on Sundays' };

test('what was said is known in the next conversation', async (t) => {
    const s = await serveModel(t, { config: soon });
    const id = await chat(s, 'one');
    await say(s, id, 'I sail on Sundays.', [sails]);
    const [note] = await until(s, (notes) => notes.length === 1);
    assert.deepEqual([note.by, note.state, note.subject, note.circle, note.sources[0].seq],
        ['extracted', 'active', 'person:matrix:@ann:hs', 'person:matrix:@ann:hs', 1]);
    const [request] = await extractions(s);
    assert.match(words(request.messages[1]), /^There are no notes yet\.\n\nThe conversation:\n1 <@ann:hs> \d{4}-\d\d-\d\d: I sail/);
    assert.match(words(request.messages[1]), /\n\(assistant: \{/);
    await ok(s.turn(await chat(s, 'two'), { message: 'Hello' }));
    const last = (await s.asked()).filter((one) => !isExtraction(one)).at(-1);
    assert.match(words(last.messages[0]), /- \(fact, .*\) Sails on Sundays\.$/);
    const { calls } = await ok(s.get('/api/v1/ledger?purpose=memory'));
    assert.equal(calls[0].model, 'mock-model');
});

test('the rules decide about proposals', async (t) => {
    const s = await serveModel(t, { config: soon });
    const id = await chat(s, 'one');
    // The proposals are in another message, so that the sources do not contain them.
    const propose = async (said, notes, more) => {
        await ok(s.post(`/api/v1/sessions/${id}/messages`, { messages: [said] }), 201);
        await say(s, id, 'Well?', notes, more);
    };
    await propose('I sail on Sundays. My password is rosebud. Bob said I am lazy.', [
        sails, sails,
        { text: 'Has a dog.', kind: 'fact', from: [1], quote: 'I have a dog' },
        { text: 'Password is rosebud.', kind: 'fact', from: [1], quote: 'password is rosebud' },
        { text: 'Sails on Sundays.', kind: 'fact', from: [9], quote: 'I sail on Sundays' },
        { text: 'Sails on 7 Sundays.', kind: 'fact', from: [1], quote: 'sail on Sundays' },
        { text: 'I am lazy', kind: 'fact', from: [1], quote: 'I am lazy' },
        { text: 'Says sails.', kind: 'fact', from: [1] },
        { text: 'I sail.', kind: 'fact', from: [1], quote: 'I sail' }]);
    const notes = await until(s, (all) => all.length >= 3);
    assert.deepEqual(notes.map(({ text, state, pending }) => [text, state, pending ?? '']).sort(), [
        ['I am lazy', 'pending', 'reported'], ['Sails on 7 Sundays.', 'pending', 'inferred'],
        ['Sails on Sundays.', 'active', '']]);
    await propose('I sail on Fridays. Forget the Sundays.', [{ text: 'Sails on Fridays.', kind: 'fact',
        from: [1], quote: 'I sail on Fridays', replaces: 1 }]);
    const changed = await until(s, (all) => all.length === 4);
    const of = (text) => changed.find((one) => one.text === text);
    assert.deepEqual([of('Sails on Fridays.').state, of('Sails on Sundays.').state],
        ['active', 'superseded']);
    const retract = (quote) => ({ retract: [{ note: 1, from: [1], quote }] });
    const looks = async () => (await ok(s.get('/api/v1/ledger?purpose=memory'))).calls.length;
    const before = await looks();
    await propose('I paint.', [], retract('I paint')); // it says nothing about the note
    // A look at both messages together would give them other numbers.
    for (let i = 0; i < 1000 && await looks() === before; i++)
        await new Promise((resolve) => setTimeout(resolve, 20));
    await propose('I do not sail any more.', [], retract('do not sail'));
    await until(s, (all) => all.find(({ id: one }) => one === of('Sails on Fridays.').id).state ===
        'retracted');
    const { changes } = await ok(s.get(`/api/v1/notes/${of('Sails on Fridays.').id}`));
    assert.deepEqual(changes.map(({ act, by }) => [act, by]),
        [['add', 'extracted'], ['retract', 'extracted']]);
});

test('a proposal cannot name another person or another circle', async (t) => {
    const s = await serveModel(t, { config: `${soon}  `.replace('}', ', groups: on}') });
    const others = { subject: 'person:matrix:@bob:hs', circle: 'tenant', session: 'bob', by: 'admin' };
    await say(s, await chat(s, 'bob', 'direct:@bob:hs'), 'I cook.', []);
    await say(s, await chat(s, 'one'), 'I sail on Sundays.', [{ ...sails, ...others }]);
    await until(s, (notes) => notes.length === 1);
    const room = await s.session({ key: 'room', scope: scopeOf('group:!r') });
    await ok(s.turn(room, { message: { role: 'user', sender: '@ann:hs',
        content: `I sail on Fridays. <<say ${JSON.stringify({ notes: [{ ...sails, ...others,
            text: 'Sails on Fridays.', quote: 'I sail on Fridays', replaces: 1 }] })}>>` } }));
    const notes = await until(s, (all) => all.length === 2);
    assert.deepEqual(notes.map(({ text, subject, circle, state }) => [text, subject, circle, state]).sort(), [
        ['Sails on Fridays.', 'person:matrix:@ann:hs', 'room:matrix:default//group:!r/', 'active'],
        ['Sails on Sundays.', 'person:matrix:@ann:hs', 'person:matrix:@ann:hs', 'active']]);
    for (const request of (await extractions(s)).filter((one) => /@r|Fridays/.test(words(one.messages[1]))))
        assert.doesNotMatch(words(request.messages[1]), /Sundays/);
});

test('a person who has taken something back is asked', async (t) => {
    const s = await serveModel(t, { config: soon });
    const id = await chat(s, 'one');
    await say(s, id, 'I sail on Sundays.', [sails]);
    const [note] = await until(s, (notes) => notes.length === 1);
    await ok(s.post(`/api/v1/notes/${note.id}/retract`, {}));
    await say(s, id, 'Did I say? I sail on Sundays.', [sails]);
    const notes = await until(s, (all) => all.length === 2);
    assert.deepEqual(notes.map(({ state, pending }) => [state, pending ?? '']).sort(),
        [['pending', 'retracted'], ['retracted', '']]);
});

test('groups are off, and ask keeps nothing unasked', async (t) => {
    const s = await serveModel(t, { config:
        'memory: {model: mock-model, run_quiet: 1ms, run_idle: 1ms, direct: ask}\n' });
    const room = await s.session({ key: 'room', scope: scopeOf('group:!r') });
    await say(s, room, 'I sail on Sundays.', [sails]);
    await say(s, await s.session(), 'I sail on Sundays.', [sails]);
    await say(s, await chat(s, 'one'), 'I sail on Sundays.', [sails]);
    const notes = await until(s, (all) => all.length > 0);
    assert.deepEqual(notes.map(({ state, pending }) => [state, pending]), [['pending', 'asked']]);
    assert.equal((await extractions(s)).length, 1);
});

test('an extraction comes before a compaction', async (t) => {
    const s = await serveModel(t, { config:
        `${late}models: [{name: mock-model, context: 3000, output: 500}]\n` });
    const id = await chat(s, 'one');
    await say(s, id, 'I sail on Sundays.', [sails]);
    for (let i = 0; i < 3; i++) await ok(s.turn(id, { message: `Story ${i}: ${'lorem ipsum '.repeat(100)}` }));
    assert.deepEqual(await list(s), []);
    await ok(s.post(`/api/v1/sessions/${id}/compact`, {}));
    assert.equal((await list(s)).length, 1);
    const asked = await s.asked();
    const extraction = asked.findIndex(isExtraction);
    assert.ok(extraction >= 0 && extraction < asked.findIndex((request) =>
        /^Stop here/.test(words(request.messages.at(-1)))));
    await ok(s.turn(id, { message: 'And now?' }));
    assert.match(words((await s.asked()).at(-1).messages[0]), /Sails on Sundays/);
});

test('kills neither lose nor double a note', async (t) => {
    let s = await serveModel(t, { config: late });
    const again = async (config) => {
        await s.stop('SIGKILL');
        s = await serveModel(t, { dir: s.dir, model: s.model, config });
    };
    const id = await chat(s, 'one');
    const message = `I sail on Sundays. <<hang times=1>><<say ${JSON.stringify({ notes: [sails] })}>>`;
    const first = s.turn(id, { message });
    await s.untilAsked(1);
    await s.release();
    await ok(first);
    await again(soon); // before it was due
    await s.untilAskedFor('You read a part');
    await again(soon); // while the model was asked
    await until(s, (notes) => notes.length === 1);
    const asked = (await extractions(s)).length;
    assert.equal(asked, 2);
    await again(soon); // after the commit
    await ok(s.turn(await chat(s, 'other', 'direct:@bob:hs'),
        { message: `I cook. <<say ${JSON.stringify({ notes: [{ text: 'I cook.', kind: 'fact', from: [1], quote: 'I cook' }] })}>>` }));
    const notes = await until(s, (all) => all.length > 1);
    assert.deepEqual(notes.map(({ text }) => text).sort(), ['I cook.', 'Sails on Sundays.']);
    assert.equal((await extractions(s)).length, asked + 1);
});

test('without a budget nothing is extracted', async (t) => {
    const s = await serveModel(t, { config:
        'memory: {model: mock-model, run_quiet: 1ms, run_idle: 1ms, tokens_per_day: 1}\n' });
    await say(s, await chat(s, 'one'), 'I sail on Sundays.', [sails]);
    await until(s, (notes) => notes.length === 1); // nothing was used before it
    await say(s, await chat(s, 'two'), 'I sail on Fridays.',
        [{ ...sails, text: 'Sails on Fridays.', quote: 'I sail on Fridays' }]);
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal((await list(s)).length, 1);
});

test('an answer that cannot be read is used once', async (t) => {
    const s = await serveModel(t, { config: soon });
    await ok(s.turn(await chat(s, 'one'), { message: 'I sail. <<say no idea>>' }));
    await s.untilAskedFor('You read a part');
    await say(s, await chat(s, 'two'), 'I sail on Sundays.', [sails]);
    await until(s, (notes) => notes.length === 1);
    assert.equal((await extractions(s)).length, 2);
});
