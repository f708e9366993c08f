// Export and import: round trips, repeated imports, other programs' transcripts, bad lines.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { workspace, assertFails, textsOf } from './support.mjs';

function conversation(w, key = 'k') {
    w.ok('session', 'append', key, 'Be kind.', '--role', 'system', '--create');
    w.ok('session', 'append', key, 'Hello\nworld “quoted”', '--client-id', 'c-1');
    w.ok('session', 'append', key, 'Hi.', '--role', 'assistant');
    w.ok('session', 'append', key, 'more');
    w.ok('session', 'rewind', key, '--to', '3');
    w.ok('session', 'append', key, 'instead');
}

// A session with everything that an export must contain.
function contents(w, store, name) {
    const { session, messages, marks } = w.json('session', 'show', name, '--hidden', '--marks',
        '--store', store);
    const { updated_at: _, ...kept } = session;
    return {
        session: kept,
        messages,
        visible: w.json('session', 'show', name, '--store', store).messages.map((m) => m.seq),
        marks: marks.map(({ created_at: __, ...mark }) => mark),
    };
}

test('native: a round trip loses nothing, and can be repeated', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'k', '--title', 'Tée', '--project', 'P', '--agent', 'A',
        '--alias', 'nick', '--metadata', '{"n":1.50}', '--store', 'a.db');
    conversation({ ok: (...args) => w.ok(...args, '--store', 'a.db') });
    const lines = w.ok('session', 'export', 'k', '--store', 'a.db');
    w.write('k.jsonl', lines);
    assert.equal(lines.trimEnd().split('\n').length, 1 + 5 + 1, 'session, messages, mark');
    const report = w.json('session', 'import', 'k.jsonl', '--store', 'b.db');
    assert.equal(report.sessions, 1);
    assert.equal(report.messages, 5);
    assert.equal(report.marks, 1);
    assert.equal(report.problems_total, 0);
    assert.deepEqual(contents(w, 'b.db', 'k'), contents(w, 'a.db', 'k'));

    const again = w.json('session', 'import', 'k.jsonl', '--store', 'b.db');
    assert.deepEqual([again.sessions, again.messages, again.marks], [0, 0, 0]);
    assert.deepEqual([again.sessions_known, again.messages_known], [1, 5]);
    assert.deepEqual(contents(w, 'b.db', 'k'), contents(w, 'a.db', 'k'));
    assert.equal(w.ok('session', 'import', 'k.jsonl', '--store', 'b.db'),
        'Imported 0 sessions, 0 messages.\nAlready here: 1 session, 5 messages.\n');

    // Only new messages are added.
    w.ok('session', 'append', 'k', 'later', '--store', 'a.db');
    w.ok('session', 'undo', 'k', '--store', 'a.db');
    w.ok('session', 'export', 'k', '-o', 'k.jsonl', '--store', 'a.db');
    const grown = w.json('session', 'import', 'k.jsonl', '--store', 'b.db');
    assert.deepEqual([grown.sessions, grown.messages, grown.marks], [0, 1, 1]);
    assert.deepEqual(contents(w, 'b.db', 'k'), contents(w, 'a.db', 'k'));
});

test('native: an imported undo refers to the same mark', (t) => {
    const w = workspace(t);
    conversation({ ok: (...args) => w.ok(...args, '--store', 'a.db') });
    w.ok('session', 'rewind', 'k', '--to', '2', '--store', 'a.db');
    w.ok('session', 'undo', 'k', '--mark', '1', '--store', 'a.db');
    w.ok('session', 'export', 'k', '-o', 'k.jsonl', '--store', 'a.db');
    w.ok('session', 'import', 'k.jsonl', '--store', 'b.db');
    assert.deepEqual(contents(w, 'b.db', 'k'), contents(w, 'a.db', 'k'));
});

test('a message that the store rejects is skipped alone', (t) => {
    const w = workspace(t);
    const big = { role: 'user', content: 'x'.repeat(17 << 20) };
    w.write('chat.jsonl', lines([chat[0], chat[1], big, chat[4]]));
    const report = w.json('session', 'import', 'chat.jsonl', '--key', 'k');
    assert.deepEqual([report.messages, report.messages_failed], [3, 1]);
    assert.equal(report.problems[0].line, 3);
    assert.match(report.problems[0].text, /exceeds the limit/);
    assert.deepEqual(textsOf(w.json('session', 'show', 'k')), ['Be brief.', 'Weather in Lisbon?', 'Sunny.']);
    const again = w.json('session', 'import', 'chat.jsonl', '--key', 'k');
    assert.deepEqual([again.messages, again.messages_known, again.messages_failed], [0, 3, 1]);
});

test('native: --all keeps forks as forks', (t) => {
    const w = workspace(t);
    conversation({ ok: (...args) => w.ok(...args, '--store', 'a.db') });
    w.ok('session', 'fork', 'k', '--at', '3', '--key', 'f', '--store', 'a.db');
    w.ok('session', 'append', 'f', 'fork goes on', '--store', 'a.db');
    w.ok('session', 'rewind', 'f', '--to', '2', '--store', 'a.db');
    w.ok('session', 'new', '--key', 'empty', '--store', 'a.db');
    w.ok('session', 'append', 'k', 'parent goes on', '--store', 'a.db');
    // The fork was updated last, but its parent must still be exported first.
    w.ok('session', 'append', 'f', 'and on', '--store', 'a.db');
    assert.match(w.ok('session', 'export', '--all', '-o', 'all.jsonl', '--store', 'a.db'),
        /^Exported 3 sessions, 11 messages\.\n$/);
    for (let i = 0; i < 2; i++) {
        w.ok('session', 'import', 'all.jsonl', '--store', 'b.db');
        for (const key of ['k', 'f', 'empty'])
            assert.deepEqual(contents(w, 'b.db', key), contents(w, 'a.db', key), key);
    }
    assert.equal(w.json('stats', '--store', 'b.db').messages,
        w.json('stats', '--store', 'a.db').messages, 'shared rows stay shared');
});

test('native: a fork without its parent becomes an independent session', (t) => {
    const w = workspace(t);
    conversation({ ok: (...args) => w.ok(...args, '--store', 'a.db') });
    for (const key of ['f', 'g']) {
        w.ok('session', 'fork', 'k', '--at', '3', '--key', key, '--store', 'a.db');
        w.ok('session', 'append', key, `${key} goes on`, '--store', 'a.db');
        w.ok('session', 'export', key, '-o', `${key}.jsonl`, '--store', 'a.db');
    }
    for (let i = 0; i < 2; i++) {
        w.ok('session', 'import', 'f.jsonl', 'g.jsonl', '--store', 'b.db');
        for (const key of ['f', 'g']) {
            const texts = (store) => textsOf(w.json('session', 'show', key, '--store', store));
            assert.deepEqual(texts('b.db'), texts('a.db'));
        }
    }
});

test('native: names that are in use are left out and reported', (t) => {
    const w = workspace(t);
    conversation({ ok: (...args) => w.ok(...args, '--store', 'a.db') });
    w.ok('session', 'export', 'k', '-o', 'k.jsonl', '--store', 'a.db');
    w.ok('session', 'new', '--key', 'k', '--store', 'b.db');
    const report = w.json('session', 'import', 'k.jsonl', '--store', 'b.db');
    assert.equal(report.sessions, 1);
    assert.match(report.problems[0].text, /key 'k' is already in use/);
    const sessions = w.json('session', 'list', '--store', 'b.db').sessions;
    assert.deepEqual(sessions.map((s) => [s.key ?? '', s.last_seq ?? 0]).sort(),
        [['', 5], ['k', 0]]);
});

test('native: --key creates a copy with another name', (t) => {
    const w = workspace(t);
    conversation(w);
    w.ok('session', 'export', 'k', '-o', 'k.jsonl');
    for (let i = 0; i < 2; i++) w.ok('session', 'import', 'k.jsonl', '--key', 'copy');
    assert.equal(w.json('session', 'list').sessions.length, 2);
    const texts = (key) => textsOf(w.json('session', 'show', key));
    assert.deepEqual(texts('copy'), texts('k'));
});

test('--with-blobs includes the blobs', (t) => {
    const w = workspace(t);
    const data = Buffer.from('not really a picture').toString('base64');
    w.write('image.json', JSON.stringify([{ role: 'user', content: [
        { type: 'text', text: 'look' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }] }]));
    w.ok('session', 'import', 'image.json', '--key', 'k', '--store', 'a.db');
    assert.equal(w.json('stats', '--store', 'a.db').blobs, 1);
    const bare = w.run('session', 'export', 'k', '--store', 'a.db');
    assert.ok(!bare.out.includes(data));
    assert.match(bare.err, /^Images and files are not included \(1\); --with-blobs includes them\.\n$/);
    // Without these parts, the rest of the message still arrives.
    const report = w.json('session', 'import', '-', '--store', 'c.db', { input: bare.out });
    assert.deepEqual([report.messages, report.problems_total], [1, 1]);
    assert.match(JSON.stringify(w.json('session', 'show', 'k', '--store', 'c.db').messages[0]),
        /look.*image\/png sha256:[0-9a-f]{64} was not in the import/);
    w.ok('session', 'export', 'k', '--with-blobs', '-o', 'k.jsonl', '--store', 'a.db');
    w.ok('session', 'import', 'k.jsonl', '--store', 'b.db');
    assert.equal(w.json('stats', '--store', 'b.db').blobs, 1);
    assert.deepEqual(contents(w, 'b.db', 'k'), contents(w, 'a.db', 'k'));
    const openai = JSON.parse(w.ok('session', 'export', 'k', '--with-blobs', '--format', 'openai',
        '--store', 'b.db'));
    assert.equal(openai.messages[0].content[1].image_url.url, `data:image/png;base64,${data}`);
});

const chat = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Weather in Lisbon?' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function',
        function: { name: 'weather', arguments: '{"city": "Lisbon"}' } }] },
    { role: 'tool', tool_call_id: 'c1', content: 'sunny' },
    { role: 'assistant', content: 'Sunny.' },
];

test('openai: lines, an array and an object are read, with or without indentation', (t) => {
    const w = workspace(t);
    w.write('lines.jsonl', chat.map((m) => `${JSON.stringify(m)}\n`).join(''));
    w.write('array.json', JSON.stringify(chat));
    w.write('pretty.json', JSON.stringify(chat, null, 2));
    w.write('object.json', JSON.stringify({ model: 'x', messages: chat }));
    w.write('object-pretty.json', JSON.stringify({ messages: chat }, null, 4));
    w.write('crlf.jsonl', `\ufeff${chat.map((m) => JSON.stringify(m)).join('\r\n')}\r\n`);
    for (const name of ['lines.jsonl', 'array.json', 'pretty.json', 'object.json',
        'object-pretty.json', 'crlf.jsonl']) {
        for (let i = 0; i < 2; i++) {
            const report = w.json('session', 'import', name);
            assert.equal(report.problems_total, 0, `${name}: ${JSON.stringify(report.problems)}`);
            assert.equal(report.messages, i ? 0 : 5, name);
        }
        assert.deepEqual(JSON.parse(w.ok('session', 'export', '@last', '--format', 'openai')).messages,
            chat, name);
    }
    assert.equal(w.json('session', 'list').sessions.length, 6);
});

test('openai: an export of an import is equal to the first export', (t) => {
    const w = workspace(t);
    w.write('chat.json', JSON.stringify({ messages: chat }));
    w.ok('session', 'import', 'chat.json', '--key', 'one');
    const out = w.ok('session', 'export', 'one', '--format', 'openai');
    w.ok('session', 'import', '-', '--key', 'two', { input: out });
    assert.equal(w.ok('session', 'export', 'two', '--format', 'openai'), out);
    // All sessions, one per line; --key cannot name all of them.
    const all = w.ok('session', 'export', '--all', '--format', 'openai');
    assert.equal(all, out + out);
    w.write('all.jsonl', all);
    assertFails(w.run('session', 'import', 'all.jsonl', '--key', 'x'), 2, /--key can name only one/);
    assert.equal(w.json('session', 'import', 'all.jsonl').sessions, 2);
    assert.equal(w.json('session', 'import', 'all.jsonl').sessions, 0);
    // A conversation without a name is named after its file.
    assert.deepEqual(w.json('session', 'list', '--limit', '2').sessions.map((s) => s.title),
        ['all.jsonl:2', 'all.jsonl']);
});

const claude = (n, extra = []) => [
    { type: 'summary', summary: 'Fix the build', leafUuid: 'u2' },
    { type: 'user', uuid: 'u1', parentUuid: null, sessionId: `s-${n}`, cwd: '/home/me/thing',
        gitBranch: 'main', timestamp: '2026-01-02T03:04:05.678Z', version: '1.0',
        message: { role: 'user', content: 'Fix it' } },
    { type: 'assistant', uuid: 'u2', parentUuid: 'u1', sessionId: `s-${n}`, cwd: '/home/me/thing',
        gitBranch: 'main', timestamp: '2026-01-02T03:04:06.000Z', version: '1.0',
        message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-x',
            content: [{ type: 'text', text: 'Done.' }], stop_reason: 'end_turn',
            usage: { input_tokens: 3, output_tokens: 2 } } },
    ...extra,
];
const lines = (values) => values.map((v) => `${JSON.stringify(v)}\n`).join('');

test('claude-code: a directory can be imported again after it has grown', (t) => {
    const w = workspace(t);
    w.write('projects/-home-me-thing/s-1.jsonl', lines(claude(1)));
    w.write('projects/-home-me-thing/s-2.jsonl', lines(claude(2)));
    w.write('projects/notes.txt', 'not mine');
    const report = w.json('session', 'import', 'projects');
    assert.deepEqual([report.files, report.sessions, report.messages], [2, 2, 4]);
    const shown = w.json('session', 'show', 'claude-code:s-1');
    assert.equal(shown.session.agent, 'claude-code');
    assert.equal(shown.session.project, '/home/me/thing');
    assert.equal(textsOf(shown)[0], 'Fix it');
    assert.equal(shown.messages[1].model, 'claude-x');
    assert.equal(w.json('session', 'import', 'projects').messages, 0);
    w.ok('session', 'import', 'projects', '--project', 'mine', '--store', 'other.db');
    assert.equal(w.json('session', 'show', 'claude-code:s-1', '--store', 'other.db').session.project,
        'mine');
    fs.appendFileSync(w.file('projects/-home-me-thing/s-1.jsonl'), lines([
        { type: 'user', uuid: 'u3', parentUuid: 'u2', sessionId: 's-1', cwd: '/home/me/thing',
            timestamp: '2026-01-02T03:05:00.000Z', message: { role: 'user', content: 'Thanks' } }]));
    const grown = w.json('session', 'import', 'projects', '--project', 'other');
    assert.deepEqual([grown.sessions, grown.messages], [0, 1]);
    assert.equal(w.json('session', 'show', 'claude-code:s-1').messages.length, 3);
});

test('claude-code: copies of requests and other notes are not messages', (t) => {
    const w = workspace(t);
    const notes = ['api-request', 'api-request-blob', 'api-request-shape', 'atis-latch', 'cost-state',
        'tools-used'].map((type) => ({ type, sessionId: 's-1', message: { role: 'user', content: 'again' } }));
    w.write('s.jsonl', lines(claude(1, notes)));
    const report = w.json('session', 'import', 's.jsonl');
    assert.deepEqual([report.messages, report.problems], [2, []]);
});

test('claude-code: an answer that grew after it was imported loses nothing', (t) => {
    const w = workspace(t);
    const record = (uuid, block) => JSON.stringify({ type: 'assistant', uuid, sessionId: 's',
        timestamp: '2026-03-01T10:00:00Z',
        message: { id: 'msg_1', role: 'assistant', model: 'm', content: [block] } });
    const question = JSON.stringify({ type: 'user', uuid: 'u1', sessionId: 's',
        timestamp: '2026-03-01T09:59:00Z', message: { role: 'user', content: 'Go.' } });
    const blocks = [{ type: 'text', text: 'First.' }, { type: 'text', text: 'Second.' },
        { type: 'tool_use', id: 'call_1', name: 'ls', input: {} }];
    const records = [question, ...blocks.map((block, i) => record(`a${i}`, block))];
    for (const upTo of [2, 3, 4, 4]) {
        w.write('s.jsonl', `${records.slice(0, upTo).join('\n')}\n`);
        w.ok('session', 'import', '--format', 'claude-code', 's.jsonl');
    }
    const shown = w.json('session', 'show', 'claude-code:s');
    assert.deepEqual(textsOf(shown).slice(0, 3), ['Go.', 'First.', 'Second.']);
    assert.equal(shown.messages.length, 4);
    assert.equal(shown.messages[3].parts[0].call_id, 'call_1');
});

test('claude-code: a title after the messages is used', (t) => {
    const w = workspace(t);
    const title = (text) => lines([{ type: 'custom-title', customTitle: text, sessionId: 's-1' }]);
    w.write('s.jsonl', lines(claude(1).slice(1)));
    w.ok('session', 'import', 's.jsonl');
    assert.equal(w.json('session', 'show', 'claude-code:s-1').session.title ?? '', '');
    fs.appendFileSync(w.file('s.jsonl'), title('Mine'));
    w.ok('session', 'import', 's.jsonl');
    assert.equal(w.json('session', 'show', 'claude-code:s-1').session.title, 'Mine');
    fs.appendFileSync(w.file('s.jsonl'), title('Later'));
    w.ok('session', 'import', 's.jsonl');
    assert.equal(w.json('session', 'show', 'claude-code:s-1').session.title, 'Mine', 'kept as it is');
});

test('bad lines are skipped and reported with their line number', (t) => {
    const w = workspace(t);
    const good = lines(claude(1)).split('\n');
    w.write('s.jsonl', [good[0], '{"type":"user","uuid":', good[1], '\x00\x01', good[2],
        '{"type":"user","uuid":"x","sessionId":"s-1","message":{"role":"user","content":"torn'].join('\n'));
    const report = w.json('session', 'import', 's.jsonl');
    assert.equal(report.messages, 2);
    assert.ok(report.problems_total >= 2);
    assert.ok(report.problems.every((p) => p.file === 's.jsonl'));
    assert.ok(report.problems.some((p) => p.line === 2));
    assert.match(w.ok('session', 'import', 's.jsonl'), /\d problems:\n {2}s\.jsonl:2: /);
});

test('transcripts of Codex are imported', (t) => {
    const w = workspace(t);
    w.write('rollout.jsonl', lines([
        { timestamp: '2026-01-02T03:04:05.000Z', type: 'session_meta', payload: { id: 'abc',
            timestamp: '2026-01-02T03:04:05.000Z', cwd: '/src', originator: 'codex_cli_rs',
            cli_version: '1', git: { branch: 'main' } } },
        { timestamp: '2026-01-02T03:04:06.000Z', type: 'response_item', payload: { type: 'message',
            role: 'user', content: [{ type: 'input_text', text: 'Hello' }] } },
        { timestamp: '2026-01-02T03:04:07.000Z', type: 'response_item', payload: { type: 'message',
            role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] } },
        { timestamp: '2026-01-02T03:04:07.000Z', type: 'token_usage_record', payload: { thread_id: 'abc' } },
    ]));
    for (let i = 0; i < 2; i++)
        assert.deepEqual(w.json('session', 'import', 'rollout.jsonl').problems, []);
    const shown = w.json('session', 'show', 'codex:abc');
    assert.deepEqual(textsOf(shown), ['Hello', 'Hi']);
});

test('import rejects files that are not conversations', (t) => {
    const w = workspace(t);
    w.write('notes.txt', 'just some notes\n');
    w.write('empty.jsonl', '');
    w.write('good.jsonl', lines(claude(1)));
    fs.mkdirSync(w.file('nothing'));
    assertFails(w.run('session', 'import', 'missing.jsonl'), 1, /could not read 'missing.jsonl': No such/);
    assertFails(w.run('session', 'import', 'notes.txt'), 1, /'notes.txt' is not a conversation.*\nhint: set --format/);
    assertFails(w.run('session', 'import', 'empty.jsonl'), 1, /'empty.jsonl' is not a conversation/);
    assertFails(w.run('session', 'import', 'nothing'), 1, /no conversation to import/);
    assertFails(w.run('session', 'import', '--format', 'xml', 'good.jsonl'), 2, /--format must be auto/);
    assertFails(w.run('session', 'import'), 2, /requires more arguments/);
    const mixed = w.run('session', 'import', 'good.jsonl', 'notes.txt');
    assert.equal(mixed.code, 1);
    assert.match(mixed.out, /^Imported 1 session, 2 messages\./);
    assert.match(mixed.err, /^palaver: 1 of 2 files could not be imported\n$/);
});

test('export rejects wrong options', (t) => {
    const w = workspace(t);
    conversation(w);
    assertFails(w.run('session', 'export'), 2, /either a session or --all/);
    assertFails(w.run('session', 'export', 'k', '--all'), 2, /either a session or --all/);
    assertFails(w.run('session', 'export', 'k', '--format', 'xml'), 2, /--format must be native, openai, skillian, claude-code, codex, markdown or html/);
    assertFails(w.run('session', 'export', 'nobody'), 1, /session 'nobody' does not exist/);
    assertFails(w.run('session', 'export', 'k', '-o', 'no/such/dir'), 1, /could not write 'no\/such\/dir'/);
    w.write('kept.jsonl', 'as it was');
    assertFails(w.run('session', 'export', 'nobody', '-o', 'kept.jsonl'), 1, /does not exist/);
    assert.equal(fs.readFileSync(w.file('kept.jsonl'), 'utf8'), 'as it was');
    assert.deepEqual(fs.readdirSync(w.dir).sort(), ['kept.jsonl', 'palaver-data']);
    w.ok('session', 'export', 'k', '-o', 'kept.jsonl');
    assert.match(fs.readFileSync(w.file('kept.jsonl'), 'utf8'), /^\{/);
    assert.equal(w.ok('session', 'export', 'k', '-o', '-'), w.ok('session', 'export', 'k'));
});

test('many messages are imported in large commits', (t) => {
    const w = workspace(t);
    const sessions = Array.from({ length: 300 }, (_, s) => JSON.stringify({ messages:
        Array.from({ length: 20 }, (__, i) => ({ role: i % 2 ? 'assistant' : 'user', content: `${s}.${i}` })) }));
    w.write('many.jsonl', `${sessions.join('\n')}\n`);
    const report = w.json('session', 'import', 'many.jsonl');
    assert.deepEqual([report.sessions, report.messages], [300, 6000]);
    assert.equal(w.run('session', 'import', 'many.jsonl').err, '', 'no progress in a pipe');
    assert.equal(w.json('stats').messages, 6000);
});
