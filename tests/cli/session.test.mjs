// Sessions and messages: every command as text and as JSON.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import { plain, Terminal } from './terminal.mjs';
import { binary, workspace, assertFails, assertGolden, stable, idPattern, message,
    textsOf as texts } from './support.mjs';

test('the first minute: new, append, show, list', (t) => {
    const w = workspace(t);
    const id = w.ok('session', 'new', '--key', 'demo', '--title', 'First steps').trim();
    assert.match(id, idPattern);
    assert.ok(fs.existsSync(w.file('palaver-data/palaver.db')), 'the default store was made');
    assert.match(w.ok('session', 'append', 'demo', 'Hello, is anybody there?'),
        /^1 {2}[0-9a-f-]{36}\n$/);
    w.ok('session', 'append', 'demo', '--role', 'assistant', 'Yes.');
    assertGolden('show.txt', stable(w.ok('session', 'show', 'demo')));
    assertGolden('list.txt', stable(w.ok('session', 'list')));
});

test('new sets every field and prints JSON', (t) => {
    const w = workspace(t);
    const session = w.json('session', 'new', '--key', 'k', '--title', 'T', '--project', 'P',
        '--agent', 'A', '--alias', 'one', '--alias', 'two', '--metadata', '{"a":[1,2]}',
        '--expires', '24h');
    assert.deepEqual([session.session_id, session.message_count], [session.id, 0]);
    assert.equal(session.key, 'k');
    assert.equal(session.title, 'T');
    assert.equal(session.project, 'P');
    assert.equal(session.agent, 'A');
    assert.deepEqual(session.aliases, ['one', 'two']);
    assert.deepEqual(session.metadata, { a: [1, 2] });
    const left = Date.parse(session.expires_at) - Date.now();
    assert.ok(left > 23 * 3600e3 && left <= 24 * 3600e3);
    const dated = w.json('session', 'new', '--expires', '2099-01-02T03:04:05Z');
    assert.equal(Date.parse(dated.expires_at), Date.parse('2099-01-02T03:04:05Z'));
});

test('new rejects wrong options', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'k');
    assertFails(w.run('session', 'new', '--key', 'k'), 1, /k.*\nhint: run 'palaver session show k'/s);
    assertFails(w.run('session', 'new', '--metadata', '{'), 2, /--metadata is not JSON/);
    assertFails(w.run('session', 'new', '--metadata', '[1]'), 2, /must be a JSON object, not array/);
    assertFails(w.run('session', 'new', '--expires', 'soon'), 2, /must be a time or a duration, not 'soon'/);
    assert.equal(w.json('session', 'list').sessions.length, 1);
});

test('list filters by state and project, and has pages', (t) => {
    const w = workspace(t);
    const notes = w.run('session', 'list', '--store', 'memory:');
    assert.equal(notes.out, '');
    assert.equal(notes.code, 0);
    assert.match(notes.err, /No sessions found/);
    for (let i = 0; i < 5; i++)
        w.ok('session', 'new', '--key', `k${i}`, '--project', i % 2 ? 'odd' : 'even',
            '--agent', i === 4 ? 'bot' : 'other');
    const all = w.json('session', 'list');
    assert.deepEqual(all.sessions.map((s) => s.key), ['k4', 'k3', 'k2', 'k1', 'k0']);
    assert.equal(all.cursor, null);
    const keys = (...args) => w.json('session', 'list', ...args).sessions.map((s) => s.key);
    assert.deepEqual(keys('--project', 'odd'), ['k3', 'k1']);
    assert.deepEqual(keys('--agent', 'bot'), ['k4']);
    assert.deepEqual(keys('--since', '1h').length, 5);
    assert.deepEqual(keys('--since', '2099-01-01'), []);
    const first = w.json('session', 'list', '--limit', '2');
    assert.deepEqual(first.sessions.map((s) => s.key), ['k4', 'k3']);
    assert.deepEqual(keys('--limit', '2', '--cursor', first.cursor), ['k2', 'k1']);
    assert.deepEqual(keys('--limit', '2', '--all').length, 5);
    const more = w.run('session', 'list', '--limit', '2');
    assert.match(more.err, /More sessions follow: use --all, or --cursor /);
    assert.equal(more.out.trimEnd().split('\n').length, 3);
    assert.equal(w.ok('session', 'list', '--limit', '2', '--all').trimEnd().split('\n').length, 6);
    w.ok('session', 'delete', 'k0');
    assert.deepEqual(keys('--state', 'trash'), ['k0']);
    assert.deepEqual(keys('--state', 'quarantined'), []);
    assertFails(w.run('session', 'list', '--state', 'gone'), 2, /--state must be/);
    assertFails(w.run('session', 'list', '--limit', '0'), 2, /--limit must be from 1 to 1000/);
    assertFails(w.run('session', 'list', '--since', 'x'), 2, /must be a time or a duration, not 'x'/);
    assertFails(w.run('session', 'list', '--cursor', 'zzz'), 1, /cursor/);
});

test('a session is found by id, prefix, key, alias and @last', (t) => {
    const w = workspace(t);
    const id = w.ok('session', 'new', '--key', 'k', '--alias', 'nick').trim();
    const shown = (name) => w.json('session', 'show', name).session.id;
    for (const name of [id, id.slice(0, 8), id.slice(0, 13), id.toUpperCase().slice(0, 14), 'k',
        'nick', '@last'])
        assert.equal(shown(name), id, name);
    const second = w.ok('session', 'new').trim();
    assert.equal(shown('@last'), second);
    w.ok('session', 'append', 'k', 'x');
    assert.equal(shown('@last'), id);
    assertFails(w.run('session', 'show', id.slice(0, 4)), 1, /matches 2 sessions\nhint: type more/);
    for (const name of ['nobody', id.slice(0, 3), 'ffff', ''])
        assert.equal(w.run('session', 'show', name).out, '', name);
    assertFails(w.run('session', 'show', 'nobody'), 1,
        /session 'nobody' does not exist\nhint: run 'palaver session list'/);
});

test('another tenant sees nothing', (t) => {
    const w = workspace(t);
    const id = w.ok('session', 'new', '--key', 'k', '--tenant', 'a').trim();
    for (const name of ['k', id, id.slice(0, 13), '@last'])
        assertFails(w.run('session', 'show', name, '--tenant', 'b'), 1, /does not exist|no sessions yet/);
    assert.deepEqual(w.json('session', 'list').sessions, []);
    assert.equal(w.json('session', 'list', '--tenant', 'a').sessions.length, 1);
});

test('append reads arguments and stdin, and checks roles, client ids and --expect-seq', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'k');
    w.ok('session', 'append', 'k', 'one');
    w.ok('session', 'append', 'k', { input: 'two\n\n' });
    w.ok('session', 'append', 'k', '-', '--role', 'assistant', { input: 'three' });
    assert.deepEqual(texts(w.json('session', 'show', 'k')), ['one', 'two\n', 'three']);
    assert.deepEqual(w.json('session', 'show', 'k').messages.map((m) => m.role),
        ['user', 'user', 'assistant']);
    const first = w.json('session', 'append', 'k', 'four', '--client-id', 'c1');
    const again = w.json('session', 'append', 'k', 'four', '--client-id', 'c1');
    assert.equal(first.messages[0].seq, 4);
    assert.deepEqual(again, first);
    assertFails(w.run('session', 'append', 'k', 'other', '--client-id', 'c1'), 1, /c1/);
    w.ok('session', 'append', 'k', 'five', '--expect-seq', '4');
    assertFails(w.run('session', 'append', 'k', 'six', '--expect-seq', '4'), 1, /4|5/);
    assertFails(w.run('session', 'append', 'k', ''), 1, /empty/);
    assertFails(w.run('session', 'append', 'k', { input: '' }), 1, /empty/);
    assertFails(w.run('session', 'append', 'k', 'x', '--role', 'king'), 2, /--role must be/);
    assertFails(w.run('session', 'append', 'nobody', 'x'), 1, /session 'nobody' does not exist\nhint:.*--create/);
    assert.equal(w.json('session', 'show', 'k').session.last_seq, 5);
});

test('append --create creates the store and the session once', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'fresh', 'one', '--create');
    w.ok('session', 'append', 'fresh', 'two', '--create');
    assert.deepEqual(texts(w.json('session', 'show', 'fresh')), ['one', 'two']);
    const id = w.json('session', 'list').sessions[0].id;
    // The first characters of an id are a new key here, not another session.
    w.ok('session', 'append', id.slice(0, 8), 'three', '--create');
    assert.equal(w.json('session', 'list').sessions.length, 2);
});

test('append --json-input reads an array, lines or one object', (t) => {
    const w = workspace(t);
    const append = (input) => w.json('session', 'append', 'k', '--json-input', '--create', { input });
    assert.deepEqual(append(JSON.stringify([message('a'), message('b')])).messages.map((m) => m.seq),
        [1, 2]);
    append(`${JSON.stringify(message('c'))}\n\n${JSON.stringify(message('d', { client_id: 'x' }))}\n`);
    append(JSON.stringify(message('e'), null, 2));
    assert.deepEqual(texts(w.json('session', 'show', 'k')), ['a', 'b', 'c', 'd', 'e']);
    const refused = (input, pattern) => assertFails(
        w.run('session', 'append', 'k', '--json-input', { input }), 1, pattern);
    refused(`${JSON.stringify(message('f'))}\n{"role":`, /line 2 of the input/);
    refused(JSON.stringify([message('f'), { role: 'king' }]), /message 2 of the input/);
    refused('[]', /no messages/);
    refused('', /no messages/);
    assertFails(w.run('session', 'append', 'k', '--json-input', '--role', 'user', { input: '[]' }), 2,
        /--json-input/);
    assert.equal(w.json('session', 'show', 'k').session.last_seq, 5, 'all or nothing');
});

test('show limits messages with --last, --tokens and --after', (t) => {
    const w = workspace(t);
    for (let i = 1; i <= 6; i++) w.ok('session', 'append', 'k', `message ${i}`, '--create');
    const seqs = (...args) => w.json('session', 'show', 'k', ...args);
    assert.deepEqual(seqs().messages.map((m) => m.seq), [1, 2, 3, 4, 5, 6]);
    assert.equal(seqs().has_more, false);
    assert.deepEqual(seqs('--last', '2').messages.map((m) => m.seq), [5, 6]);
    assert.equal(seqs('--last', '2').has_more, true);
    assert.deepEqual(seqs('--after', '4').messages.map((m) => m.seq), [5, 6]);
    assert.deepEqual(seqs('--after', '2', '--last', '1').messages.map((m) => m.seq), [6]);
    const each = seqs().messages[0].tokens;
    assert.deepEqual(seqs('--tokens', String(2 * each)).messages.map((m) => m.seq), [5, 6]);
    assertFails(w.run('session', 'show', 'k', '--last', '0'), 2, /at least 1/);
});

test('show: long conversations are read page by page', (t) => {
    const w = workspace(t);
    const input = JSON.stringify(Array.from({ length: 1234 }, (_, i) => message(`n${i}`)));
    w.ok('session', 'append', 'k', '--json-input', '--create', { input });
    const shown = w.json('session', 'show', 'k');
    assert.equal(shown.messages.length, 1234);
    assert.deepEqual(shown.messages.map((m) => m.seq), Array.from({ length: 1234 }, (_, i) => i + 1));
});

test('show: text of others cannot send control sequences to the terminal', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', '--create', { input: 'red \x1b[31m bell \x07 \u202e c1 \u009b ok' });
    w.ok('session', 'new', '--title', 'a\x1b]0;pwned\x07b');
    w.ok('session', 'new', '--title', 'two\nlines\tand a tab');
    assert.match(w.ok('session', 'list'), /two lines and a tab/);
    const shown = w.ok('session', 'show', 'k');
    assert.match(shown, /red \\x1b\[31m bell \\x07 \\u202e c1 \\x9b ok/);
    assert.doesNotMatch(w.ok('session', 'list') + shown, /[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]/);
    assertFails(w.run('session', 'show', 'a\x1b[2J'), 1, /session 'a.{1,4}\[2J' does not exist\n/);
});

test('show wraps text and wide characters, and shows tools', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', `${'word '.repeat(30)}\n\n${'漢字'.repeat(50)}`, '--create');
    const call = [
        { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function',
            function: { name: 'weather', arguments: '{"city":"Lisbon"}' } }] },
        { role: 'tool', tool_call_id: 'c1',
            content: Array.from({ length: 20 }, (_, i) => `row ${i}`).join('\n') },
    ];
    w.write('call.jsonl', call.map((line) => JSON.stringify(line)).join('\n'));
    w.ok('session', 'import', '--format', 'openai', '--key', 'c', 'call.jsonl');
    const shown = w.ok('session', 'show', 'k') + w.ok('session', 'show', 'c');
    const columns = (line) => [...line].reduce((sum, c) => sum + (c > '\u2fff' ? 2 : 1), 0);
    for (const line of shown.split('\n')) assert.ok(columns(line) <= 80, line);
    assert.match(shown, /-> weather \{"city":"Lisbon"\}/);
    assert.match(shown, /row 7\n {7}\.\.\. 12 more lines/);
    assert.doesNotMatch(shown, /row 8/);
    assert.match(w.ok('session', 'show', 'c', '--full'), /row 19/);
});

test('fork, rewind, undo and reset change what is visible', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', 'sys', '--role', 'system', '--create');
    for (const text of ['one', 'two', 'three']) w.ok('session', 'append', 'k', text);
    const parent = w.json('session', 'show', 'k').session;
    const fork = w.json('session', 'fork', 'k', '--at', '2', '--key', 'f', '--title', 'Other');
    assert.equal(fork.parent_id, parent.id);
    assert.equal(fork.fork_seq, 2);
    w.ok('session', 'append', 'f', 'else');
    assert.deepEqual(texts(w.json('session', 'show', 'f')), ['sys', 'one', 'else']);
    assert.match(w.ok('session', 'fork', 'k').trim(), idPattern);
    assert.match(w.ok('session', 'show', 'f'), new RegExp(`fork of +${parent.id} at 2`));

    assert.match(w.ok('session', 'rewind', 'k', '--to', '2'), /^Rewound to message 2 \(mark 1\)\./);
    assert.deepEqual(texts(w.json('session', 'show', 'k')), ['sys', 'one']);
    assert.equal(texts(w.json('session', 'show', 'k', '--hidden')).length, 4);
    assert.match(w.ok('session', 'undo', 'k'), /^Undid mark 1\.\n$/);
    assert.equal(texts(w.json('session', 'show', 'k')).length, 4);
    const mark = w.json('session', 'reset', 'k');
    assert.equal(mark.number, 3);
    assert.deepEqual(texts(w.json('session', 'show', 'k')), ['sys']);
    w.ok('session', 'undo', 'k', '--mark', '3');
    assert.match(w.ok('session', 'reset', 'k', '--no-keep-system'), /^Reset \(mark 5\)/);
    assert.deepEqual(texts(w.json('session', 'show', 'k')), []);
    const marks = w.json('session', 'show', 'k', '--marks').marks;
    assert.equal(marks.length, 5);
    assertGolden('marks.txt', stable(w.ok('session', 'show', 'k', '--marks')));
    assertFails(w.run('session', 'rewind', 'k'), 2, /requires --to/);
    assertFails(w.run('session', 'rewind', 'k', '--to', '99'), 1, /99/);
    assertFails(w.run('session', 'fork', 'k', '--at', '99'), 1, /99/);
    assertFails(w.run('session', 'undo', 'f'), 1, /hint: .*--marks/);
    assertFails(w.run('session', 'undo', 'k', '--mark', '77'), 1, /77/);
});

test('a truncate that hides nothing adds no mark', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', 'one', '--create');
    assert.match(w.ok('session', 'truncate', 'k', '--keep', '5'), /^Nothing was changed/);
    const mark = w.json('session', 'truncate', 'k', '--keep', '5');
    assert.deepEqual([mark.number, mark.kind], [0, 'rewind']);
});

test('delete, restore and erase move a session to the trash, back, and away', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', 'one', '--create');
    const { id } = w.json('session', 'show', 'k').session;
    assert.match(w.ok('session', 'delete', 'k'), new RegExp(`^Moved to the trash.*\\npalaver session restore ${id}\\n$`));
    assert.deepEqual(w.json('session', 'list').sessions, []);
    assert.equal(w.json('session', 'show', id).session.state, 'trash');
    assertFails(w.run('session', 'restore', 'nobody'), 1, /session 'nobody' is not in the trash/);
    assert.match(w.ok('session', 'restore', 'k'), /^Restored /);
    assert.equal(w.json('session', 'delete', 'k').state, 'trash');
    assert.equal(w.json('session', 'restore', id.slice(0, 13)).state, 'active');
    w.ok('session', 'delete', 'k');
    w.ok('session', 'new', '--key', 'other');
    assert.equal(w.json('session', 'restore', '@last').id, id);
    w.ok('session', 'delete', 'k');
    w.ok('session', 'new', '--key', 'k');
    assertFails(w.run('session', 'restore', id), 1, /k/);
    assertFails(w.run('session', 'erase', id), 2,
        /erasing 'k' \(1 messages?\) cannot be undone; add --yes/);
    assert.equal(w.json('session', 'show', id).session.state, 'trash');
    const report = w.json('session', 'erase', id, '--yes');
    assert.equal(report.session_id, id);
    assert.equal(report.messages, 1);
    assertFails(w.run('session', 'show', id), 1, /does not exist/);
    assert.match(w.ok('session', 'erase', 'k', '--yes'), /^Erased [0-9a-f-]{36}\.\n +0 messages/);
});

test('PALAVER_STORE selects the store, and --store overrides it', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', { env: { PALAVER_STORE: 'sqlite:env.db' } });
    assert.ok(fs.existsSync(w.file('env.db')));
    w.ok('session', 'new', '--store', 'sqlite:flag.db', { env: { PALAVER_STORE: 'sqlite:env.db' } });
    assert.equal(w.json('session', 'list', '--store', 'flag.db').sessions.length, 1);
});

test('if the reader exits, the command ends quietly', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', '--create', { input: 'x'.repeat(3000000) });
    const piped = spawnSync('sh', ['-c', `"${binary}" session show k --json | head -c 10`],
        { cwd: w.dir });
    assert.equal(piped.stderr.toString(), '');
    assert.equal(piped.stdout.length, 10);
});

test('an error is reported if the output cannot be written', (t) => {
    if (!fs.existsSync('/dev/full')) return t.skip('no /dev/full here');
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'k');
    const full = spawnSync('sh', ['-c', `"${binary}" session list > /dev/full`], { cwd: w.dir });
    assert.equal(full.status, 1);
    assert.match(full.stderr.toString(), /^palaver: could not write the output: /);
});

test('a terminal gets short ids and relative times, and a pipe gets no progress', (t) => {
    const w = workspace(t);
    const id = w.ok('session', 'new', '--key', 'k', '--title', '題'.repeat(60)).trim();
    const pty = spawnSync('script', ['-qec', `stty cols 60; "${binary}" session list`, '/dev/null'],
        { cwd: w.dir, env: { ...process.env, NO_COLOR: '1', TERM: 'xterm' } });
    if (pty.error) return t.skip('no script(1) here');
    const lines = pty.stdout.toString().trimEnd().split('\r\n');
    assert.match(lines[1], new RegExp(`^${id.slice(0, 13)} `));
    assert.match(lines[1], /…  +0 {2}(just now|\d+ s ago)$/);
    const columns = [...lines[1]].reduce((sum, c) => sum + (c > '\u2fff' ? 2 : 1), 0);
    assert.equal(columns, 60);
});

test('edit changes the fields that the options name', (t) => {
    const w = workspace(t);
    const id = w.ok('session', 'new', '--key', 'a', '--title', 'First', '--alias', 'x').trim();
    const shown = () => w.json('session', 'show', id).session;
    assert.match(w.ok('session', 'edit', 'a', '--title', 'Second'), new RegExp(`^Changed ${id}`));
    assert.equal(shown().title, 'Second');
    assert.equal(shown().key, 'a');
    w.ok('session', 'edit', id, '--key', 'b', '--alias', 'y', '--metadata', '{"n":1}',
        '--project', 'p', '--agent', 'g', '--expires', '30d');
    assert.deepEqual([shown().key, shown().project, shown().agent], ['b', 'p', 'g']);
    assert.deepEqual(shown().aliases, ['x', 'y']);
    assert.deepEqual(shown().metadata, { n: 1 });
    assert.ok(shown().expires_at);
    w.ok('session', 'edit', 'y', '--unalias', 'x', '--expires', 'never', '--title', '');
    assert.deepEqual(shown().aliases, ['y']);
    assert.equal(shown().expires_at ?? null, null);
    assert.equal(shown().title ?? '', '');
    assertFails(w.run('session', 'edit', 'b'), 2, /requires at least one option/);
    assertFails(w.run('session', 'edit', 'b', '--unalias', 'zzz'), 1, /'zzz' is not an alias/);
    w.ok('session', 'new', '--key', 'taken');
    assert.equal(w.run('session', 'edit', 'b', '--key', 'taken').code, 1);
    assert.equal(shown().key, 'b');
});

test('show prints why an answer failed', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'a');
    w.ok('session', 'append', 'a', 'hello');
    w.ok('session', 'append', 'a', '--json-input', {
        input: '{"role":"assistant","parts":[],"flags":["error"],"error":"the service is away"}\n',
    });
    assert.match(w.ok('session', 'show', 'a'), /\n2 {2}assistant .*\[error\]\n {4}! failed: the service is away\n/);
});

test('no line of a list wraps in a terminal of 80 columns', async (t) => {
    const w = workspace(t);
    for (let i = 0; i < 3; i++)
        w.ok('session', 'new', '--key', `claude-code:01a1e98f-5a69-7160-b43f-2f6e8b425c4${i}`,
            '--title', 'A title that is long enough to be cut in a terminal of this width');
    const terminal = new Terminal(t, ['session', 'list'], { cwd: w.dir, columns: 80 });
    await terminal.see('claude-code:');
    assert.equal(await terminal.exit, 0);
    const lines = plain(terminal.shown).split('\n');
    assert.equal(lines.filter((line) => line.includes('claude-code:')).length, 3);
    for (const line of lines) assert.ok([...line].length <= 80, line);
});
