// Notes in requests to a model: the block at the beginning, notes in front of later messages, and
// who is shown what. The scripted model records its requests.
import test from 'node:test';
import assert from 'node:assert/strict';
import { palaver } from '../support.mjs';
import { serveModel } from '../model.mjs';

const notes = '/api/v1/notes';
const scopeOf = (channel, chat) => ({ version: 1, agent_id: 'main', channel, account: 'default',
    dimensions: ['chat'], values: { chat } });
const ann = 'direct:@ann:hs';
const words = (message) => (typeof message.content === 'string' ? message.content
    : (message.content ?? []).map(({ text }) => text ?? '').join('\n'));

async function ok(promise, code = 200) {
    const answer = await promise;
    assert.equal(answer.code, code, answer.text);
    return answer.json;
}

const chat = (s, key, chatName) => s.session({ key, scope: scopeOf('matrix', chatName) });
const say = (s, id, message) => ok(s.turn(id, { message }));
// Notes what the newest message says, as an extraction or a person would.
const note = async (s, session, seq, text, more = {}) => (await ok(s.post(notes,
    { text, kind: 'fact', source: { session, seq, quote: more.quote ?? text }, ...more.note }))).note;
const last = async (s) => (await s.asked()).at(-1).messages;
const plan = (s, id) => ok(s.get(`/api/v1/sessions/${id}/context?text=200`));
const shown = (messages) => messages.map(words).join('\n');
// How many messages at the beginning of two requests are equal.
const common = (a, b) => {
    let n = 0;
    while (n < a.length && n < b.length && JSON.stringify(a[n]) === JSON.stringify(b[n])) n++;
    return n;
};

test('a new conversation begins with the notes, and later notes follow at the end', async (t) => {
    const s = await serveModel(t, { config: 'turn: {system: "Be brief."}\n' });
    const first = await chat(s, 'one', ann);
    await say(s, first, 'I like tea. I live in Lisbon.');
    assert.doesNotMatch(shown(await last(s)), /Notes from/);
    await note(s, first, 1, 'I live in Lisbon.');
    const id = await chat(s, 'two', ann);
    await say(s, id, 'Hello');
    const before = await last(s);
    assert.deepEqual(before.map(({ role }) => role), ['system', 'system', 'user']);
    assert.match(words(before[1]), /^\[Notes from .*\]\n- \(fact, \d{4}-\d\d-\d\d\) I live in Lisbon\.$/);
    const { note: porto } = await ok(s.post(notes, { text: 'I live in Porto.', kind: 'fact',
        source: { session: id, seq: (await ok(s.post(`/api/v1/sessions/${id}/messages`,
            { messages: ['I live in Porto.'] }), 201)).messages[0].seq },
        replaces: (await ok(s.get(`${notes}?q=Lisbon`))).notes[0].id }));
    assert.equal(porto.state, 'active');
    await say(s, id, 'Where do I live?');
    const after = await last(s);
    assert.equal(common(before, after), before.length, 'the beginning stays');
    assert.match(words(after.at(-1)), /^\[New notes.*\n- .* I live in Porto\. \(before: I live in Lisbon\.\)\n+Where do I live\?$/s);
    await say(s, id, 'Thanks');
    assert.equal(common(after, await last(s)), after.length);

    const { items, tokens_plain: sum } = await plan(s, id);
    const [block] = items.filter(({ kind }) => kind === 'notes');
    const each = items.filter(({ kind }) => kind === 'note');
    assert.equal(block.disposition, 'synthesized');
    assert.deepEqual(each.map(({ note: of, text, reason }) => [of === porto.id, /Lisbon\.$/.test(text),
        /^fact, said on \d{4}-/.test(reason)]), [[false, true, true], [true, false, true]]);
    assert.equal(items.filter(({ hash }) => hash).reduce((all, item) => all + item.tokens, 0), sum);

    // Forgetting is worth a new beginning.
    await ok(s.post(`${notes}/${porto.id}/retract`, {}));
    await say(s, id, 'And now?');
    const own = (await last(s)).filter(({ role }) => role !== 'assistant');
    assert.doesNotMatch(shown(own), /New notes|Notes from|Lisbon/);
});

test('nobody is shown what was said to somebody else', async (t) => {
    const s = await serveModel(t, { config: 'memory: {groups: on, sessions: on}\n' });
    const places = { ann: [scopeOf('matrix', ann)], bob: [scopeOf('matrix', 'direct:@bob:hs')],
        room: [scopeOf('matrix', 'group:!r')], other: [scopeOf('telegram', ann)], plain: [undefined] };
    for (const [name, [scope]] of Object.entries(places)) {
        const id = await s.session({ key: name, scope });
        await ok(s.post(`/api/v1/sessions/${id}/messages`,
            { messages: [{ role: 'user', content: `The word is zebra${name}.` }] }), 201);
        await note(s, name, 1, `The word is zebra${name}.`);
        places[name].push(id);
    }
    await ok(s.post(notes, { text: 'Closed on Fridays.', kind: 'fact', subject: 'tenant' }));
    for (const [name, [scope, old]] of Object.entries(places)) {
        const id = scope ? await s.session({ key: `${name} again`, scope }) : old;
        await say(s, id, 'Which words do you know?');
        const text = shown(await last(s));
        assert.match(text, /Closed on Fridays/);
        for (const other of Object.keys(places))
            assert.equal(text.includes(`zebra${other}.`), other === name, `${other} in ${name}`);
    }
});

test('memory can be switched off, and is off in groups', async (t) => {
    const s = await serveModel(t);
    const room = await chat(s, 'room', 'group:!r');
    await ok(s.post(`/api/v1/sessions/${room}/messages`, { messages: ['We dance.'] }), 201);
    await note(s, 'room', 1, 'We dance.');
    await say(s, await chat(s, 'room2', 'group:!r'), 'Hello');
    assert.doesNotMatch(shown(await last(s)), /Notes from/);
    const off = await serveModel(t, { config: 'memory: {direct: off}\n' });
    await ok(off.post(notes, { text: 'Closed on Fridays.', kind: 'fact', subject: 'tenant' }));
    await say(off, await chat(off, 'one', ann), 'Hello');
    assert.doesNotMatch(shown(await last(off)), /Notes from|Fridays/);
});

test('40 turns with 10 notes never break the beginning of a request', async (t) => {
    const s = await serveModel(t);
    const id = await chat(s, 'one', ann);
    let before = [];
    for (let n = 0; n < 40; n++) {
        const { seq } = await say(s, id, `I own boat number ${n}. And now?`);
        if (n % 4 === 0) await note(s, id, seq - 1, `I own boat number ${n}.`);
        const now = await last(s);
        assert.equal(common(before, now), before.length, `turn ${n}`);
        before = now;
    }
    assert.equal(shown(before).match(/New notes/g).length >= 10, true);
});

test('a compaction begins with the newest notes', async (t) => {
    const s = await serveModel(t, { config:
        'models: [{name: mock-model, context: 3000, output: 500}]\n' });
    const id = await chat(s, 'one', ann);
    await say(s, id, 'I sail on Sundays.');
    await note(s, id, 1, 'I sail on Sundays.');
    for (let i = 0; i < 3; i++) await say(s, id, `Story ${i}: ${'lorem ipsum '.repeat(100)}`);
    assert.match(shown(await last(s)), /New notes/);
    await ok(s.post(`/api/v1/sessions/${id}/compact`, {}));
    await say(s, id, 'And now?');
    const messages = await last(s);
    assert.match(words(messages[0]), /^\[Notes from .*I sail on Sundays\.$/s);
    assert.doesNotMatch(shown(messages), /New notes/);
});

test('an erased note is in no request and in no file', async (t) => {
    const s = await serveModel(t);
    const id = await chat(s, 'one', ann);
    await say(s, id, 'I keep a quokkafinch.');
    const { id: noted } = await note(s, id, 1, 'A quokkafinch is kept.', { quote: 'keep a quokkafinch' });
    const two = await chat(s, 'two', ann);
    await say(s, two, 'Hello');
    assert.match(shown(await last(s)), /quokkafinch is kept/);
    await ok(s.ask('DELETE', `${notes}/${noted}`));
    await say(s, two, 'Hello again');
    assert.doesNotMatch(shown(await last(s)), /quokkafinch/);
    assert.equal(palaver(s.dir, 'session', 'show', 'two').includes('quokkafinch'), false);
});
