// Import and export of PicoClaw's directories, and of the database rows of Skillian and Loom.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import { binary, workspace, assertFails, textsOf, textOf } from './support.mjs';

const line = (content, more) => JSON.stringify({ role: 'user', content, ...more });
const lines = (...items) => items.map((item) => `${item}\n`).join('');
const meta = (key, more) => JSON.stringify({
    key, summary: '', skip: 0, count: 0, created_at: '2026-11-14T18:45:57.959653442Z',
    updated_at: '2026-11-15T18:45:57.959653442+08:00', ...more,
}, null, 2);

const texts = (w, key, ...args) => textsOf(w.json('session', 'show', key, ...args));

function directory(w) {
    w.write('s/agent_main_x.jsonl', lines(
        line('old', { created_at: '2026-11-14T19:00:00.5Z' }),
        line('asked', { created_at: '2026-11-15T18:45:57.959653442Z', mine: [1.50] }),
        line('', { role: 'assistant', reasoning_content: 'only a thought' }),
        line('', { role: 'assistant', model_name: 'm', reasoning_content: 'why', tool_calls: [{
            id: 'c', type: 'function', function: { name: 'f', arguments: '{}', thought_signature: 's' },
        }] }),
        line('found', { role: 'tool', tool_call_id: 'c' }),
        line('said', { role: 'assistant', media: ['media://1'] })));
    w.write('s/agent_main_x.meta.json', meta('agent:main:x', {
        summary: 'They met.', skip: 1, count: 6, mine: true,
        scope: { version: 1, agent_id: 'main', values: {} },
        aliases: ['agent:main:main', 'agent:main:direct:x'],
    }));
}

test('a directory is imported completely, and the import can be repeated', (t) => {
    const w = workspace(t);
    directory(w);
    const report = w.json('session', 'import', 'picoclaw:s');
    assert.deepEqual([report.sessions, report.messages, report.marks, report.problems_total], [1, 5, 2, 0]);
    assert.deepEqual([report.sessions_verified, report.messages_verified], [1, 5]);
    const shown = w.json('session', 'show', 'agent:main:x', '--marks');
    assert.deepEqual(shown.session.aliases, ['agent:main:main', 'agent:main:direct:x']);
    assert.deepEqual(shown.session.scope, { version: 1, agent_id: 'main', values: {} });
    assert.equal(shown.session.agent, 'main');
    assert.equal(shown.session.created_at, '2026-11-14T18:45:57.959Z');
    assert.equal(shown.session.metadata.updated_at, '2026-11-15T18:45:57.959653442+08:00');
    assert.deepEqual(shown.messages.map((m) => m.role), ['user', 'assistant', 'tool', 'assistant']);
    assert.equal(shown.messages[0].created_at, '2026-11-15T18:45:57.959Z');
    assert.deepEqual(shown.messages[0].mine, [1.5]);
    assert.deepEqual(shown.messages[1].parts.map((p) => p.type), ['reasoning', 'tool_call']);
    assert.deepEqual(shown.marks.map((m) => m.kind), ['reset', 'checkpoint']);
    assert.deepEqual(shown.marks[1].body, { summary: 'They met.' });
    assert.equal(texts(w, 'agent:main:x', '--hidden')[0], 'old', 'what was skipped is kept');
    assert.equal(w.json('session', 'show', 'agent:main:direct:x').session.id, shown.session.id);
    assertFails(w.run('session', 'append', 'agent:main:main', 'x'), 1, /does not exist/);

    const again = w.json('session', 'import', 'picoclaw:s');
    assert.deepEqual([again.sessions, again.messages, again.marks], [0, 0, 0]);
    assert.deepEqual([again.sessions_known, again.messages_known], [1, 5]);

    // The file has grown and was compacted by PicoClaw, so the lines have other numbers now.
    const text = fs.readFileSync(w.file('s/agent_main_x.jsonl'), 'utf8').split('\n').slice(1).join('\n');
    w.write('s/agent_main_x.jsonl', text + lines(line('later')));
    w.write('s/agent_main_x.meta.json', meta('agent:main:x', { summary: 'They met twice.' }));
    const grown = w.json('session', 'import', 'picoclaw:s');
    assert.deepEqual([grown.messages, grown.messages_known, grown.marks], [1, 4, 1]);
    assert.equal(textOf(w.json('session', 'show', 'agent:main:x').messages.at(-1)), 'later');
});

test('only damaged parts are skipped, and they are reported', (t) => {
    const w = workspace(t);
    w.write('s/torn.jsonl', `${lines(line('one'), 'garbage', '', line('two'))}{"role":"user","cont`);
    w.write('s/torn.meta.json', '{"key": "to');
    w.write('s/lonely.jsonl', lines(line('no meta')));
    w.write('s/bare.meta.json', meta('bare:session'));
    w.write('s/other.txt', 'not ours');
    w.write('s/broken.json', '{');
    fs.mkdirSync(w.file('s/dir.jsonl'));
    const report = w.json('session', 'import', 'picoclaw:s');
    assert.deepEqual([report.sessions, report.messages, report.problems_total], [3, 3, 4]);
    const told = report.problems.map((p) => `${p.file}:${p.line}`);
    assert.deepEqual(told, ['s/broken.json:0', 's/torn.meta.json:0', 's/torn.jsonl:2', 's/torn.jsonl:5']);
    assert.deepEqual(texts(w, 'torn'), ['one', 'two']);
    assert.deepEqual(texts(w, 'lonely'), ['no meta']);
    assert.deepEqual(texts(w, 'bare:session'), []);
});

test('an unreadable file skips only its session', (t) => {
    const w = workspace(t);
    for (const name of ['a', 'b', 'c']) {
        w.write(`s/${name}.jsonl`, lines(line(name)));
        w.write(`s/${name}.meta.json`, meta(`key:${name}`));
    }
    fs.chmodSync(w.file('s/a.jsonl'), 0);
    fs.chmodSync(w.file('s/b.meta.json'), 0);
    fs.chmodSync(w.dir, 0o755);
    fs.chmodSync(w.file('palaver-data'), 0o777);
    const nobody = process.getuid() === 0 ? { uid: 65534, gid: 65534 } : {};
    const report = JSON.parse(w.run('session', 'import', 'picoclaw:s', '--json', nobody).out);
    assert.deepEqual([report.sessions, report.messages, report.problems_total], [1, 1, 2]);
    assert.deepEqual(report.problems.map((p) => p.file), ['s/a.jsonl', 's/b.meta.json']);
    assert.match(report.problems[0].text, /Permission denied/);
    fs.chmodSync(w.file('s/a.jsonl'), 0o644);
    fs.chmodSync(w.file('s/b.meta.json'), 0o644);
    assert.equal(w.json('session', 'import', 'picoclaw:s', nobody).messages, 2);
});

test('older files are imported unless they were migrated', (t) => {
    const w = workspace(t);
    const legacy = (key, text) => JSON.stringify({
        key, messages: [{ role: 'user', content: text }, { role: 'assistant', content: 'yes' }],
        summary: 'short', created: '2026-01-01T00:00:00Z', updated: '2026-01-02T00:00:00Z',
    }, null, 2);
    w.write('s/cli_old.json', legacy('cli:old', 'legacy'));
    w.write('s/cli_done.json', legacy('cli:done', 'before'));
    w.write('s/cli_done.jsonl', lines(line('after')));
    w.write('s/cli_done.meta.json', meta('cli:done'));
    w.write('s/gone.json.migrated', legacy('gone', 'gone'));
    const report = w.json('session', 'import', 'picoclaw:s');
    assert.deepEqual([report.sessions, report.messages, report.messages_verified], [2, 3, 3]);
    const old = w.json('session', 'show', 'cli:old', '--marks');
    assert.deepEqual(textsOf(old), ['legacy', 'yes']);
    assert.equal(old.session.created_at, '2026-01-01T00:00:00.000Z');
    assert.equal(old.messages[0].created_at, '2026-01-01T00:00:00.000Z');
    assert.deepEqual(old.marks[0].body, { summary: 'short' });
    // Its lines are found, because the file name is derived from the session's key.
    assert.deepEqual(texts(w, 'cli:done'), ['after']);
    assert.equal(w.json('session', 'import', 'picoclaw:s').messages, 0);
});

test('if two sessions claim an alias, the first one keeps it', (t) => {
    const w = workspace(t);
    for (const name of ['a', 'b']) {
        w.write(`s/${name}.jsonl`, lines(line(name)));
        w.write(`s/${name}.meta.json`, meta(name, { aliases: ['agent:main:main', 'both'] }));
    }
    w.write('s/agent_main_main.jsonl', lines(line('main')));
    w.write('s/agent_main_main.meta.json', meta('agent:main:main'));
    const report = w.json('session', 'import', 'picoclaw:s');
    assert.equal(report.problems_total, 1);
    assert.match(report.problems[0].text, /alias .*: both$/);
    assert.equal(report.problems[0].file, 's/b.jsonl');
    assert.deepEqual(texts(w, 'agent:main:main'), ['main']);
    w.ok('session', 'append', 'both', 'more');
    assert.deepEqual(texts(w, 'a'), ['a', 'more']);
});

test('a key that is in use stays with its session', (t) => {
    const w = workspace(t);
    w.write('s/k.jsonl', lines(line('as it was')));
    w.ok('session', 'import', 'picoclaw:s', '--store', 'a.db');
    const { client_id: id } = w.json('session', 'show', 'k', '--store', 'a.db').messages[0];
    w.ok('session', 'append', 'k', 'forged', '--client-id', id, '--create', '--store', 'b.db');
    for (const made of [1, 0]) {
        const report = w.json('session', 'import', 'picoclaw:s', '--store', 'b.db');
        assert.deepEqual([report.sessions, report.messages_verified, report.problems_total],
            [made, 1, made], JSON.stringify(report));
    }
    const list = w.json('session', 'list', '--store', 'b.db').sessions;
    assert.equal(list.length, 2);
    assert.equal(w.json('session', 'show', 'k', '--store', 'b.db').messages[0].content, 'forged');
});

test('a killed import continues when it is repeated', (t) => {
    const w = workspace(t);
    for (let i = 0; i < 400; i++) {
        w.write(`s/k${i}.jsonl`, lines(...Array.from({ length: 20 }, (_, n) => line(`${i} ${n} ${'x'.repeat(200)}`))));
        w.write(`s/k${i}.meta.json`, meta(`k${i}`, { skip: i % 3, summary: i % 2 ? 'short' : '' }));
    }
    const expected = w.json('session', 'import', 'picoclaw:s', '--store', 'a.db');
    assert.deepEqual([expected.sessions, expected.messages], [400, 8000]);
    for (const timeout of [30, 60, 90])
        spawnSync(binary, ['session', 'import', 'picoclaw:s', '--store', 'b.db'],
            { cwd: w.dir, timeout, killSignal: 'SIGKILL' });
    const rest = w.json('session', 'import', 'picoclaw:s', '--store', 'b.db');
    assert.equal(rest.messages + rest.messages_known, 8000);
    assert.deepEqual([rest.messages_verified, rest.problems_total], [8000, 0]);
    for (const key of ['k0', 'k1', 'k2', 'k5', 'k398', 'k399']) {
        const strip = ({ messages, marks }) => [messages.map((m) => [m.seq, m.content, m.client_id]),
            marks.map((m) => [m.kind, m.seq, m.through_seq])];
        assert.deepEqual(strip(w.json('session', 'show', key, '--marks', '--store', 'b.db')),
            strip(w.json('session', 'show', key, '--marks', '--store', 'a.db')));
    }
});

test('wrong directories and options are rejected', (t) => {
    const w = workspace(t);
    assert.match(w.run('session', 'import', 'picoclaw:none').err, /could not read the directory 'none'/);
    fs.mkdirSync(w.file('empty'));
    assert.match(w.run('session', 'import', 'picoclaw:empty').err, /no sessions of PicoClaw/);
    w.write('file', 'x');
    assert.notEqual(w.run('session', 'import', 'picoclaw:file').code, 0);
    assertFails(w.run('session', 'import', 'picoclaw:empty', '--key', 'k'), 2, /--key/);
    w.ok('session', 'append', 'k', 'x', '--create');
    assertFails(w.run('session', 'export', 'picoclaw:', 'k'), 2, /a directory/);
    assertFails(w.run('session', 'export', 'picoclaw:out'), 2, /either a session or --all/);
    assertFails(w.run('session', 'export', 'picoclaw:out', 'k', '-o', 'f'), 2, /not allowed with/);
    assert.match(w.run('session', 'export', 'picoclaw:file', 'k').err, /not a directory/);
    w.ok('session', 'append', 'k', 'x', '--create', '--store', 'jsonl:own');
    for (const args of [['import', 'picoclaw:own/.'], ['export', 'picoclaw:own', 'k', '--force']])
        assertFails(w.run('session', ...args, '--store', 'jsonl:own'), 1, /is the directory of the open store/);
});

test('PicoClaw can read an export', (t) => {
    const w = workspace(t);
    directory(w);
    w.ok('session', 'import', 'picoclaw:s');
    assert.equal(w.ok('session', 'export', 'picoclaw:out', '--all'), 'Exported 1 session, 4 messages.\n');
    assert.deepEqual(fs.readdirSync(w.file('out')), ['agent_main_x.jsonl', 'agent_main_x.meta.json']);
    const written = JSON.parse(fs.readFileSync(w.file('out/agent_main_x.meta.json'), 'utf8'));
    assert.deepEqual(Object.keys(written), ['key', 'summary', 'skip', 'count', 'created_at',
        'updated_at', 'scope', 'aliases', 'mine']);
    assert.deepEqual([written.key, written.summary, written.skip, written.count],
        ['agent:main:x', 'They met.', 0, 4]);
    const out = fs.readFileSync(w.file('out/agent_main_x.jsonl'), 'utf8').trimEnd().split('\n')
        .map((text) => JSON.parse(text));
    const source = fs.readFileSync(w.file('s/agent_main_x.jsonl'), 'utf8').trimEnd().split('\n')
        .map((text) => JSON.parse(text)).filter((m) => m.content !== 'old' && m.reasoning_content !== 'only a thought');
    for (const [i, message] of out.entries()) {
        const { palaver: _, created_at: __, ...theirs } = message;
        const { created_at: ___, ...ours } = source[i];
        assert.deepEqual(theirs, ours);
    }

    // Existing files are overwritten only on request, and files of another session never.
    assertFails(w.run('session', 'export', 'picoclaw:out', 'agent:main:x'), 1, /already exists/);
    w.ok('session', 'export', 'picoclaw:out', 'agent:main:x', '--force');
    w.ok('session', 'append', 'agent_main_x', 'collides', '--create');
    assertFails(w.run('session', 'export', 'picoclaw:out', 'agent_main_x', '--force'), 1,
        /the same file as 'agent:main:x'/);
    const all = w.run('session', 'export', 'picoclaw:all', '--all');
    assert.match(all.out, /^Exported 1 session/);
    assert.match(all.err, /could not export 1 session: .*the same file/);
    assert.notEqual(all.code, 0);

    // Import them again.
    assert.equal(w.json('session', 'import', 'picoclaw:out', '--store', 'b.db').messages, 4);
    const strip = ({ messages }) => messages.map(({ id: _, seq: __, client_id: ___, ...m }) => m);
    assert.deepEqual(strip(w.json('session', 'show', 'agent:main:x', '--store', 'b.db')),
        strip(w.json('session', 'show', 'agent:main:x')));
});

test('each tool result is a separate line', (t) => {
    const w = workspace(t);
    const message = { role: 'user', parts: [1, 2].map((n) => ({
        type: 'tool_result', call_id: `c${n}`, output: `out ${n}` })) };
    w.ok('session', 'append', 'k', '--json-input', '--create', { input: JSON.stringify(message) });
    w.ok('session', 'export', 'picoclaw:out', 'k');
    const out = fs.readFileSync(w.file('out/k.jsonl'), 'utf8').trimEnd().split('\n')
        .map((text) => JSON.parse(text));
    assert.deepEqual(out.map((m) => [m.role, m.content, m.tool_call_id]),
        [['tool', 'out 1', 'c1'], ['tool', 'out 2', 'c2']]);
    assert.equal(out[0].palaver.message.id, undefined, 'two lines never share an id');
});

test('a line that is too long for PicoClaw is not written', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', '--create', { input: 'x'.repeat(11 << 20) });
    assertFails(w.run('session', 'export', 'picoclaw:out', 'k'), 1, /PicoClaw cannot read lines over/);
    assert.deepEqual(fs.readdirSync(w.file('out')), []);
});

// ---- Rows ----

const skillian = (id, ...contents) => ({
    id, created_at: '2026-11-15T18:45:57.123456', last_accessed: '2026-11-15T18:45:58', message_count: 1,
    conversation_data: { messages: [
        { role: 'system', content: 'Be kind.', tool_call_id: null, tool_calls: null },
        ...contents.map((content) => ({ role: 'user', content, tool_call_id: null, tool_calls: null })),
        { role: 'assistant', content: '', tool_call_id: null, tool_calls: [{ id: 'c', name: 'f', args: { a: 1 } }] },
        { role: 'tool', content: 'R', tool_call_id: 'c', tool_calls: null },
    ] },
});

test("rows of Skillian are read alone, as a list, or one per line", (t) => {
    const w = workspace(t);
    w.write('one.json', JSON.stringify(skillian('u1', 'hi', 'hi'), null, 2));
    w.write('many.json', JSON.stringify([skillian('u2', 'a'), skillian('u3', 'b')]));
    w.write('lines.jsonl', lines(JSON.stringify(skillian('u4', 'c')), JSON.stringify({
        ...skillian('u5'), conversation_data: JSON.stringify(skillian('u5', 'd').conversation_data.messages) })));
    const report = w.json('session', 'import', 'one.json', 'many.json', 'lines.jsonl');
    assert.deepEqual([report.sessions, report.messages, report.problems_total], [5, 21, 0]);
    const shown = w.json('session', 'show', 'skillian:u1');
    assert.equal(shown.session.created_at, '2026-11-15T18:45:57.123Z');
    assert.equal(shown.session.metadata.message_count, 1);
    assert.deepEqual(shown.messages.map((m) => m.role), ['system', 'user', 'user', 'assistant', 'tool']);
    assert.equal(shown.messages[3].parts[0].name, 'f');
    assert.deepEqual(JSON.parse(shown.messages[3].parts[0].arguments), { a: 1 });
    assert.equal(shown.messages[4].parts[0].output, 'R');
    assert.equal(w.json('session', 'import', 'one.json', 'many.json', 'lines.jsonl').messages, 0);
    w.write('bad.jsonl', lines(JSON.stringify({ id: 'x', conversation_data: 5 }),
        JSON.stringify({ id: 'y', conversation_data: [{ role: 'robot', content: 'x' }] })));
    assert.equal(w.json('session', 'import', 'bad.jsonl').problems_total, 2);
});

const loom = (id, more) => ({
    session_id: id, bead_id: 'bead', project_id: 'P', created_at: '2026-11-15T18:45:57.5Z',
    updated_at: '2026-11-15T18:46:00Z', expires_at: '2999-01-01T00:00:00Z', token_count: 7,
    messages: [{ role: 'user', content: 'q', timestamp: '2026-11-15T18:45:58Z', token_count: 3 },
        { role: 'assistant', content: 'a', timestamp: '2026-11-15T18:45:59Z' }],
    metadata: { agent_name: 'ada' }, ...more,
});

test("rows of Loom are read as JSON", (t) => {
    const w = workspace(t);
    w.write('rows.jsonl', lines(JSON.stringify(loom('s1')), JSON.stringify(loom('s2', {
        messages: '[]', metadata: '{}', expires_at: '2026-11-15 19:00:00' })), JSON.stringify(loom('s3', {
        messages: JSON.stringify(loom('').messages), metadata: null }))));
    const report = w.json('session', 'import', 'rows.jsonl');
    assert.deepEqual([report.sessions, report.messages, report.problems_total], [3, 4, 0]);
    const shown = w.json('session', 'show', 'loom:s1');
    assert.deepEqual([shown.session.project, shown.session.agent, shown.session.expires_at],
        ['P', 'ada', '2999-01-01T00:00:00.000Z']);
    assert.equal(shown.session.metadata.bead_id, 'bead');
    assert.deepEqual(shown.messages.map((m) => [m.content, m.created_at]),
        [['q', '2026-11-15T18:45:58.000Z'], ['a', '2026-11-15T18:45:59.000Z']]);
    assert.equal(shown.messages[0].tokens, 3);
    assert.ok(shown.messages[1].tokens > 0);
    assert.deepEqual(texts(w, 'loom:s3'), ['q', 'a']);
    assert.equal(w.json('session', 'import', '--format', 'loom', 'rows.jsonl').messages, 0);
});

const makeLoom = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute('''CREATE TABLE conversation_contexts (session_id TEXT PRIMARY KEY, bead_id TEXT NOT NULL,
    project_id TEXT NOT NULL, messages TEXT NOT NULL DEFAULT '[]', created_at DATETIME, updated_at DATETIME,
    expires_at DATETIME NOT NULL, token_count INTEGER NOT NULL DEFAULT 0, metadata TEXT NOT NULL DEFAULT '{}')''')
for row in json.load(sys.stdin):
    db.execute('INSERT INTO conversation_contexts VALUES (?,?,?,?,?,?,?,?,?)', row)
db.commit()
`;

test("Loom's SQLite file is imported", (t) => {
    const w = workspace(t);
    const row = (id, messages, metadata) => [id, 'bead', 'P', messages,
        '2026-11-15 18:45:57.123456789+00:00', '2026-11-15 18:46:00', '2999-01-01 00:00:00', 7, metadata];
    const made = spawnSync('python3', ['-c', makeLoom, w.file('loom.db')], { input: JSON.stringify([
        row('s1', JSON.stringify(loom('').messages), '{"agent_name":"ada"}'),
        row('s2', '', 'null'),
    ]) });
    if (made.error || /No module named/.test(made.stderr)) return t.skip('needs Python with sqlite3');
    assert.equal(made.status, 0, made.stderr.toString());
    const report = w.json('session', 'import', 'loom.db');
    assert.deepEqual([report.sessions, report.messages, report.problems_total], [2, 2, 0]);
    const shown = w.json('session', 'show', 'loom:s1');
    assert.deepEqual([shown.session.project, shown.session.agent, shown.session.created_at],
        ['P', 'ada', '2026-11-15T18:45:57.123Z']);
    assert.deepEqual(textsOf(shown), ['q', 'a']);
    assert.equal(w.json('session', 'import', 'loom.db').messages_known, 2);
});

test('a database that is not Loom’s is rejected and not changed', (t) => {
    const w = workspace(t);
    w.ok('session', 'append', 'k', 'x', '--create', '--store', 'other.db');
    assertFails(w.run('session', 'import', 'other.db'), 1, /'other\.db' is a database that has neither Loom's table/);
});
