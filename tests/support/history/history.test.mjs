// The checker for histories finds each kind of fault, and none in a good history.
import assert from 'node:assert/strict';
import test from 'node:test';
import { History, judge, questionOf, readServer } from './history.mjs';

const S = '00000000-0000-0000-0000-00000000000a';

// Two callers of two nodes. b-0 holds the lease, then a-0; a turn runs; one write was refused, one is
// in doubt.
const LINES = [
    `ack ${S} a-0 1 100 110 a 1 i1 0`,
    `take ${S} b-0 1 105 108`,
    `ack ${S} b-0 1 110 120 b 2 i2 1`,
    `ack ${S} a-0 2 111 125 a 3 i3 0`,
    `take ${S} a-0 2 130 140`,
    `ack ${S} a-0 3 141 150 a 4 i4 2`,
    `refused ${S} b-0 2 141 150 b another owner holds the lease`,
    `doubt ${S} b-0 3 150 60150 b the writes may have been made`,
    `answer ${S} a-0 4 151 200 a re a-0.4`,
    'back a 0',
    'back b 0',
];

const said = (seq, id, clientId, text = clientId) => ({ seq, id, clientId, role: 'user', text });

const rows = () => [said(1, 'i1', 'a-0.1'), said(2, 'i2', 'b-0.1'), said(3, 'i3', 'a-0.2'), said(4, 'i4', 'a-0.3'),
    said(5, 'i5', 'b-0.3'), said(6, 'i6', 'a-0.4', questionOf('a-0.4')),
    { seq: 7, id: 'i7', clientId: '', role: 'assistant', text: 're a-0.4' }];

// Judges the good history after changes of its lines and of the session's state.
function judged({ lines = (all) => all, state = () => {} } = {}) {
    const session = { lastSeq: 7, inbox: 0, messages: rows() };
    state(session);
    return judge(new History().add(`${lines([...LINES]).join('\n')}\n`), new Map([[S, session]]));
}

const replace = (from, to) => (lines) => {
    const changed = lines.map((line) => (line === from ? to : line));
    assert.notDeepEqual(changed, lines, 'the line exists');
    return changed.filter(Boolean);
};

// Removes a row and closes the gap, as if the message had never been there.
const forget = (clientId) => (session) => {
    const { seq } = session.messages.find((m) => m.clientId === clientId);
    session.messages = session.messages.filter((m) => m.seq !== seq)
        .map((m) => (m.seq > seq ? { ...m, seq: m.seq - 1 } : m));
    session.lastSeq--;
};

test('a good history has no fault', () => {
    const verdict = judged();
    assert.deepEqual(verdict.wrong(), []);
    assert.deepEqual(verdict.counts, { acknowledged: 4, answered: 1, doubts: 1, refused: 1, leases: 2 });
});

test('a write in doubt may be there or not', () => {
    const verdict = judged({ lines: (all) => all.filter((line) => !line.includes(' a-0 4 ')),
        state: (session) => { session.messages = rows().slice(0, 4); session.lastSeq = 4; } });
    assert.deepEqual(verdict.wrong(), []);
});

test('a last line that is not complete is ignored', () => {
    assert.equal(new History().add(`${LINES[0]}\nack ${S} a-0 2 1`).acks.length, 1);
    assert.throws(() => new History().add('nonsense 1\n'), /not an event/);
});

test('messages without client ids are named by their text', () => {
    const state = (session) => { for (const m of session.messages.slice(0, 5)) m.clientId = ''; };
    assert.deepEqual(judged({ state }).wrong(), []);
    const twice = judged({ state: (session) => {
        state(session);
        session.messages.push(said(8, 'i8', '', 'b-0.3'));
        session.lastSeq = 8;
    } });
    assert.match(twice.wrong()[0], /^b-0\.3 is twice/);
});

// The first turn of a question failed, and it was asked again.
const askAgain = (isFailure) => (session) => {
    const [question, answer] = session.messages.splice(5);
    session.messages.push(question, { seq: 7, id: 'i7', clientId: '', role: 'assistant', text: '', isFailure },
        { ...question, seq: 8, id: 'i8', clientId: 'a-0.4#2' }, { ...answer, seq: 9, id: 'i9' });
    session.lastSeq = 9;
};

test('a question may be there again if its first turn failed visibly', () => {
    assert.deepEqual(judged({ state: askAgain(true) }).wrong(), []);
    assert.match(judged({ state: askAgain(false) }).wrong()[0], /^1 questions in .* are there again, after 0 failures/);
});

const faults = {
    'an acknowledged message is lost': [{ state: (s) => { s.messages.length = 3; s.lastSeq = 3; } }, /^lost: a-0\.3/],
    'an answered message is lost': [{ state: (s) => { s.messages.length = 5; s.lastSeq = 5; } }, /^lost: a-0\.4/],
    'a message is at another position': [{ lines: replace(LINES[3], `ack ${S} a-0 2 111 125 a 4 i3 0`) },
        /a-0\.2 was acknowledged as i3 at 4, and is i3 at 3/],
    'a message has another id': [{ lines: replace(LINES[3], `ack ${S} a-0 2 111 125 a 3 i9 0`) },
        /a-0\.2 was acknowledged as i9/],
    'a message has another text': [{ state: (s) => { s.messages[0].text = 'b-0.1'; } }, /a-0\.1 has another text: b-0\.1/],
    'a refused message is there': [{ lines: replace(LINES[7], `refused ${S} b-0 3 150 160 b the lease is lost`) },
        /b-0\.3 was refused, and is there/],
    'a message comes from nobody': [{ state: (s) => { s.messages.push(said(8, 'i8', 'c-0.1')); s.lastSeq = 8; } },
        /.* c-0\.1 was never acknowledged/],
    'a message is there twice': [{ state: (s) => { s.messages.push(said(8, 'i8', 'b-0.3')); s.lastSeq = 8; } },
        /b-0\.3 is twice/],
    'an id is there twice': [{ state: (s) => { s.messages[6].id = 'i5'; } }, /id i5 is there twice/],
    'a position is missing': [{ state: (s) => { s.messages[6].seq = 8; s.lastSeq = 8; } }, /gap in .*: row 7 has seq 8/],
    'the head is wrong': [{ state: (s) => { s.lastSeq = 8; } }, /head of .* says 8, and there are 7 rows/],
    'an item waits in the inbox': [{ state: (s) => { s.inbox = 1; } }, /1 items wait in the inbox/],
    'messages of a caller are in the wrong order': [{ lines: (all) => replace(LINES[0], `ack ${S} a-0 1 100 110 a 3 i3 0`)(
        replace(LINES[3], `ack ${S} a-0 2 111 125 a 1 i1 0`)(all)),
    state: (s) => { s.messages[0] = said(1, 'i1', 'a-0.2'); s.messages[2] = said(3, 'i3', 'a-0.1'); } },
    /order of the caller .* a-0 at a-0\.2/],
    'a later message of another caller is before an earlier one': [{
        lines: replace(LINES[2], `ack ${S} b-0 1 126 130 b 2 i2 1`) }, /a-0\.2 ended before b-0\.1 began, and is after it/],
    'a fence has two owners': [{ lines: (all) => [...all, `take ${S} b-0 2 130 140`] }, /fence 2 of .* has two owners/],
    'a later owner has an older fence': [{ lines: replace(LINES[1], `take ${S} b-0 1 145 148`) },
        /fence 1 of .* was given after 2/],
    'a message has an older fence than one before it': [{ lines: replace(LINES[2], `ack ${S} b-0 1 110 120 b 2 i2 3`) },
        /a-0\.3 .* was written with fence 2 after 3/],
    'a message has a fence of another caller': [{ lines: replace(LINES[5], `ack ${S} a-0 3 141 150 a 4 i4 1`) },
        /a-0\.3 .* with a fence that a-0 did not take/],
    'a question has no answer': [{ state: (s) => { s.messages.length = 6; s.lastSeq = 6; } }, /a-0\.4 in .* has no answer/],
    'a question has two answers': [{ state: (s) => {
        s.messages.push({ ...s.messages[6], seq: 8, id: 'i8' });
        s.lastSeq = 8;
    } }, /a-0\.4 in .* has 2 answers/],
    'a question was answered before': [{ state: (s) => {
        const [question, answer] = s.messages.splice(5);
        s.messages.push({ ...answer, seq: 6 }, { ...question, seq: 7 });
    } }, /a-0\.4 in .* was answered before/],
    'an answer belongs to no question': [{ state: (s) => { s.messages[6].text = 're a-0.5'; } },
        /no request has the answer 're a-0\.5'/],
    'a caller got the answer of another one': [{ lines: replace(LINES[8], `answer ${S} a-0 4 151 200 a re a-0.3`) },
        /a-0\.4 was answered with re a-0\.3/],
};

for (const [name, [changes, pattern]] of Object.entries(faults)) {
    test(`a fault is found: ${name}`, () => {
        const wrong = judged(changes).wrong();
        assert.ok(wrong.some((line) => pattern.test(line)), JSON.stringify(wrong));
    });
}

test('a lost write is allowed only if its node noticed', () => {
    const state = forget('a-0.3');
    const noticed = judged({ state, lines: replace(LINES[9], 'back a 1') });
    assert.deepEqual(noticed.lost.map((w) => w.name), ['a-0.3']);
    assert.deepEqual(noticed.wrong({ mayLose: true }), []);
    assert.deepEqual(noticed.wrong(), [`lost: a-0.3 in ${S}`]);
    const unnoticed = judged({ state, lines: replace(LINES[10], 'back b 1') });
    assert.deepEqual(unnoticed.wrong({ mayLose: true }), [`lost: a-0.3 in ${S}`]);
});

test('a state is read page by page', async () => {
    const all = Array.from({ length: 5 }, (_, i) => ({ seq: i + 1, id: `i${i}`, role: 'user', content: 'x', client_id: `c${i}` }));
    const get = async (path) => {
        const after = /after=(\d+)$/.exec(path);
        if (!after) return { json: { last_seq: 5 } };
        const messages = all.slice(Number(after[1]), Number(after[1]) + 2);
        return { json: { messages, has_more: Number(after[1]) + 2 < 5 } };
    };
    const state = await readServer(get, [S]);
    assert.deepEqual(state.get(S).messages.map((m) => m.clientId), ['c0', 'c1', 'c2', 'c3', 'c4']);
    assert.equal(state.get(S).lastSeq, 5);
});
