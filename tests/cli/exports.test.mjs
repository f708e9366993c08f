// Exports for other programs and for people: transcripts that Claude Code and Codex resume, and Markdown.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertFails, rowsOf as rows, workspace } from './support.mjs';

const isoAt = (minute) => new Date(Date.UTC(2026, 0, 2, 3, minute)).toISOString();
const show = (w, key) => w.json('session', 'show', key);

// A session with tools, an answer with reasoning, a hidden message and instructions.
function conversation(w) {
    const part = (type, more) => ({ type, ...more });
    w.write('s.jsonl', [
        { palaver: 'session', version: 1, session: { key: 'trip', title: 'A trip', project: '/home/ann/trip', created_at: isoAt(0) } },
        { role: 'system', content: 'Be brief.', created_at: isoAt(0) },
        { role: 'user', content: 'How warm is it?', created_at: isoAt(1) },
        { role: 'assistant', model: 'm-1', created_at: isoAt(2), parts: [part('reasoning', { text: 'Look.' }), part('text', { text: 'One moment.' }),
            part('tool_call', { call_id: 'c1', name: 'weather', arguments: '{"city":"Oslo"}' })] },
        { role: 'tool', created_at: isoAt(3), parts: [part('tool_result', { call_id: 'c1', output: '7 ```degrees```' })] },
        { role: 'assistant', model: 'm-1', content: 'Seven degrees.', created_at: isoAt(4) },
    ].map((line) => `${JSON.stringify(line)}\n`).join(''));
    w.ok('session', 'import', 's.jsonl');
    w.ok('session', 'append', 'trip', 'never mind');
    w.ok('session', 'rewind', 'trip', '--to', '5');
    return show(w, 'trip');
}

for (const format of ['claude-code', 'codex']) {
    test(`${format}: a session becomes a transcript, and an import of it is the same conversation`, (t) => {
        const w = workspace(t);
        const { session, messages } = conversation(w);
        w.ok('session', 'export', '--format', format, 'trip', '-o', 'back.jsonl');
        const report = w.json('session', 'import', 'back.jsonl', '--store', 'other.db');
        assert.deepEqual(report.problems, []);
        const back = w.json('session', 'show', `${format}:${session.id}`, '--store', 'other.db');
        const isKept = ([role, part]) => role !== 'system' && part?.type !== 'reasoning';
        assert.deepEqual(rows(back).filter(isKept), rows({ messages }).filter(isKept));
        assert.equal(rows(back).length, 5);
        assert.equal(back.session.project, '/home/ann/trip');
        assert.equal(back.messages[0].created_at, isoAt(1));
        assertFails(w.run('session', 'export', '--format', format, '--all'), 2, /--all is not allowed/);
    });
}

test('markdown: a session becomes a text', (t) => {
    const w = workspace(t);
    conversation(w);
    assert.equal(w.ok('session', 'export', '--format', 'markdown', 'trip'), `# A trip

2026-01-02, \`trip\`

## Instructions

Be brief.

## User

How warm is it?

## Assistant (m-1)

One moment.

Calls \`weather\`:

\`\`\`json
{"city":"Oslo"}
\`\`\`

## Result

\`\`\`\`
7 \`\`\`degrees\`\`\`
\`\`\`\`

## Assistant (m-1)

Seven degrees.
`);
});

test('html: a session becomes a page in which nothing is executed', (t) => {
    const w = workspace(t);
    conversation(w);
    w.ok('session', 'append', 'trip', '<script>alert("1 & 2")</script>');
    const page = w.ok('session', 'export', '--format', 'html', 'trip');
    assert.match(page, /^<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>A trip<\/title>/);
    assert.match(page, /<h2>assistant, m-1 <time>2026-01-02T03:02:00.000Z<\/time><\/h2>\n<pre>One moment.<\/pre>/);
    assert.match(page, /<p>Calls <b>weather<\/b><\/p>\n<code><pre>\{&quot;city&quot;:&quot;Oslo&quot;\}<\/pre><\/code>/);
    assert.match(page, /&lt;script&gt;alert\(&quot;1 &amp; 2&quot;\)&lt;\/script&gt;/);
    assert.doesNotMatch(page, /<script|never mind/);
    assert.match(page, /<\/body>\n<\/html>\n$/);
    assertFails(w.run('session', 'export', '--format', 'html', '--all'), 2, /--all is not allowed/);
});
