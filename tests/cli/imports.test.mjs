// Imports of the exports of ChatGPT, claude.ai, Open WebUI and LibreChat. Their conversations are trees:
// the branch that the program shows is a session, and every other branch is a fork of it.
import test from 'node:test';
import assert from 'node:assert/strict';
import { rowsOf as rows, textsOf, workspace } from './support.mjs';

const SECONDS = 1_767_322_800; // 2026-01-02T03:00:00Z
const isoAt = (minute) => new Date((SECONDS + 60 * minute) * 1000).toISOString();
const contentOf = (message) => message.content ?? message.parts;

const show = (w, key) => w.json('session', 'show', key);

// ---- ChatGPT ----

function chatgpt({ id = 'c-1', title = 'Trip', current, nodes, minute = 9 }) {
    const mapping = {};
    for (const [name, parent, message] of nodes) {
        mapping[name] = { id: name, parent: parent ?? null, message, children: [] };
        if (parent) mapping[parent].children.push(name);
    }
    return { conversation_id: id, id, title, create_time: SECONDS + 0.25, update_time: SECONDS + 60 * minute,
        current_node: current ?? nodes.at(-1)[0], mapping };
}
const turn = (role, text, minute = 0, more = {}) => ({ id: 'x', author: { role }, create_time: SECONDS + 60 * minute,
    content: { content_type: 'text', parts: [text] }, recipient: 'all', metadata: {}, ...more });
const trip = [
    ['root', null, null],
    ['sys', 'root', turn('system', '')],
    ['q1', 'sys', turn('user', 'Where to?', 1)],
    ['a1', 'q1', turn('assistant', 'Rome.', 2, { metadata: { model_slug: 'gpt-5' } })],
    ['a2', 'q1', turn('assistant', 'Oslo.', 3)],
    ['q2', 'a2', turn('user', 'Too cold.', 4)],
    ['q3', 'a2', turn('user', 'Why there?', 5)],
    ['a3', 'q3', turn('assistant', 'Fjords.', 6)],
];

test('chatgpt: a tree becomes a session and forks, with times, titles and order', (t) => {
    const w = workspace(t);
    w.write('conversations.json', JSON.stringify([
        chatgpt({ nodes: trip }),
        chatgpt({ id: 'c-2', title: 'Later', minute: 60, nodes: [['r', null, null], ['q', 'r', turn('user', 'Hi', 50)]] }),
        chatgpt({ id: 'c-3', title: 'Empty', nodes: [['r', null, null]] }),
    ], null, 2));
    const report = w.json('session', 'import', 'conversations.json');
    assert.deepEqual([report.sessions, report.messages], [4, 1 + 4 + 1 + 1]);
    assert.match(JSON.stringify(report.problems), /conversation 'c-3' has no messages/);
    const main = show(w, 'chatgpt:c-1');
    assert.deepEqual(textsOf(main), ['Where to?', 'Oslo.', 'Why there?', 'Fjords.']);
    assert.equal(main.session.title, 'Trip');
    assert.equal(main.session.agent, 'chatgpt');
    assert.equal(main.session.created_at, '2026-01-02T03:00:00.250Z');
    assert.equal(main.session.updated_at, isoAt(9));
    assert.equal(main.messages[1].created_at, isoAt(3));
    const rome = show(w, 'chatgpt:c-1:a1'), cold = show(w, 'chatgpt:c-1:q2');
    assert.deepEqual(textsOf(rome), ['Where to?', 'Rome.']);
    assert.deepEqual(textsOf(cold), ['Where to?', 'Oslo.', 'Too cold.']);
    assert.deepEqual([rome.session.parent_id, rome.session.fork_seq], [main.session.id, 1]);
    assert.deepEqual([cold.session.parent_id, cold.session.fork_seq], [main.session.id, 2]);
    assert.equal(rome.messages[1].model, 'gpt-5');
    assert.equal(rome.session.updated_at, isoAt(2));
    const listed = w.json('session', 'list').sessions.map(({ key }) => key);
    assert.deepEqual(listed, ['chatgpt:c-2', 'chatgpt:c-1', 'chatgpt:c-1:q2', 'chatgpt:c-1:a1']);
});

test('chatgpt: a second import adds only what is new', (t) => {
    const w = workspace(t);
    w.write('conversations.json', JSON.stringify([chatgpt({ nodes: trip })]));
    w.ok('session', 'import', 'conversations.json');
    assert.deepEqual(Object.values(w.json('session', 'import', 'conversations.json')).slice(0, 0), []);
    assert.equal(w.json('session', 'import', 'conversations.json').messages, 0);
    const grown = [...trip, ['a4', 'a1', turn('user', 'Rome then.', 7)], ['q5', 'a3', turn('user', 'Book it.', 8)]];
    w.write('conversations.json', JSON.stringify([chatgpt({ nodes: grown, current: 'q5' })]));
    const report = w.json('session', 'import', 'conversations.json');
    assert.deepEqual([report.sessions, report.messages, report.problems], [0, 2, []]);
    assert.equal(textsOf(show(w, 'chatgpt:c-1')).at(-1), 'Book it.');
    assert.deepEqual(textsOf(show(w, 'chatgpt:c-1:a1')), ['Where to?', 'Rome.', 'Rome then.']);
    assert.equal(w.json('session', 'list').sessions.length, 3);
});

test('chatgpt: a session that was continued here, or another branch, is not mixed with the import', (t) => {
    const w = workspace(t);
    w.write('one.json', JSON.stringify([chatgpt({ nodes: trip })]));
    w.ok('session', 'import', 'one.json');
    w.ok('session', 'append', 'chatgpt:c-1', 'Said here.');
    w.write('two.json', JSON.stringify([chatgpt({ nodes: [...trip, ['q5', 'a3', turn('user', 'Said there.', 8)]] })]));
    const report = w.json('session', 'import', 'two.json');
    assert.match(JSON.stringify(report.problems), /is a different conversation in this store; imported as session/);
    assert.equal(textsOf(show(w, 'chatgpt:c-1')).at(-1), 'Said here.');
    const other = /imported as session ([0-9a-f-]+)/.exec(JSON.stringify(report.problems))[1];
    assert.deepEqual(textsOf(show(w, other)), ['Where to?', 'Oslo.', 'Why there?', 'Fjords.', 'Said there.']);
    assert.equal(w.json('session', 'import', 'two.json').messages, 0, 'it is found again');
});

test('chatgpt: tools, reasoning, images and files', (t) => {
    const w = workspace(t);
    const say = (content, more) => ({ ...turn('assistant', ''), content, ...more });
    w.write('conversations.json', JSON.stringify([chatgpt({ nodes: [
        ['about', null, turn('user', '', 0, { content: { content_type: 'user_editable_context', user_profile: 'I am Ann.', user_instructions: 'Be brief.' } })],
        ['q', 'about', turn('user', '', 1, { content: { content_type: 'multimodal_text', parts: [{ content_type: 'image_asset_pointer',
            asset_pointer: 'file-service://file-1' }, 'What is 6 * 7?'] }, metadata: { attachments: [{ name: 'sum.pdf' }] } })],
        ['think', 'q', say({ content_type: 'thoughts', thoughts: [{ summary: 'Plan', content: 'Multiply.' }] })],
        ['call', 'think', say({ content_type: 'code', language: 'python', text: 'print(6 * 7)' }, { recipient: 'python' })],
        ['result', 'call', { ...turn('tool', ''), author: { role: 'tool', name: 'python' }, content: { content_type: 'execution_output', text: '42' } }],
        ['quote', 'result', { ...turn('tool', ''), author: { role: 'tool', name: 'browser' }, content: { content_type: 'tether_quote', title: 'T', text: 'Quoted.' } }],
        ['recap', 'quote', say({ content_type: 'reasoning_recap', content: 'Thought for 2s' })],
        ['a', 'recap', turn('assistant', 'It is 42.', 2)],
    ] })]));
    const report = w.json('session', 'import', 'conversations.json');
    assert.deepEqual(report.problems, []);
    const shown = show(w, 'chatgpt:c-1');
    assert.deepEqual(rows(shown).filter(([, part]) => part?.type !== 'reasoning'), [
        ['system', 'I am Ann.'], ['system', 'Be brief.'],
        ['user', '[image: file-service://file-1]'], ['user', 'What is 6 * 7?'], ['user', '[file: sum.pdf]'],
        ['assistant', 'call', 'python', '{"input":"print(6 * 7)"}'], ['tool', 'call', '42'],
        ['assistant', 'T'], ['assistant', 'Quoted.'], ['assistant', 'It is 42.']]);
    assert.match(JSON.stringify(shown.messages[2]), /"reasoning".*Plan\\nMultiply\./);
});

test('chatgpt: damaged trees do no harm', (t) => {
    const w = workspace(t);
    const circle = chatgpt({ nodes: trip });
    circle.mapping.q1.parent = 'a3';
    const lost = chatgpt({ id: 'c-2', current: 'nowhere', nodes: [['q', null, turn('user', 'Alone')]] });
    lost.mapping.q.parent = 'gone';
    w.write('conversations.json', JSON.stringify([circle, lost, { mapping: {} }, { mapping: 7, id: 'c-4' },
        { id: 'c-5', mapping: { a: null, b: { message: { author: 7, content: 'x' } }, c: { message: turn('user', 'Fine') } } }]));
    const report = w.json('session', 'import', 'conversations.json');
    assert.ok(report.messages >= 5, JSON.stringify(report));
    assert.deepEqual(textsOf(show(w, 'chatgpt:c-2')), ['Alone']);
    assert.deepEqual(textsOf(show(w, 'chatgpt:c-5')), ['Fine']);
});

// ---- claude.ai ----

test('claude-ai: calls, results and attachments, with and without parents', (t) => {
    const w = workspace(t);
    const human = (uuid, text, minute, more) => ({ uuid, sender: 'human', text, content: [{ type: 'text', text }], created_at: isoAt(minute),
        attachments: [], files: [], ...more });
    const answer = (uuid, content, minute, more) => ({ uuid, sender: 'assistant', text: '', content, created_at: isoAt(minute), ...more });
    const said = (text) => [{ type: 'text', text }];
    w.write('conversations.json', JSON.stringify([
        { uuid: 'u-1', name: 'Notes', created_at: isoAt(0), updated_at: isoAt(9).replace('Z', '000+00:00'), chat_messages: [
            human('m-1', 'Read it.', 1, { attachments: [{ file_name: 'a.txt', extracted_content: 'remember the milk' }], files: [{ file_name: 'b.png' }] }),
            answer('m-2', [{ type: 'thinking', thinking: 'Hm.' }, ...said('Looking.'), { type: 'tool_use', id: null, name: 'web_search', input: { q: 'milk' } },
                { type: 'tool_result', tool_use_id: null, name: 'web_search', content: [{ type: 'text', text: 'white' }] }, ...said('It is white.')], 2)] },
        { uuid: 'u-2', name: '', created_at: isoAt(0), updated_at: isoAt(8), chat_messages: [
            human('p', 'Hi', 1, { parent_message_uuid: '00000000-0000-4000-8000-000000000000' }),
            answer('x', said('Hello'), 2, { parent_message_uuid: 'p' }), answer('y', said('Hey'), 3, { parent_message_uuid: 'p' })] },
        { uuid: 'u-3', name: 'Old', created_at: isoAt(0), updated_at: isoAt(7), chat_messages: [{ uuid: 'o', sender: 'human', text: 'Old one', created_at: isoAt(1) }] },
    ]));
    const report = w.json('session', 'import', 'conversations.json');
    assert.deepEqual([report.sessions, report.problems], [4, []]);
    const notes = show(w, 'claude-ai:u-1');
    assert.deepEqual(rows(notes).filter(([, part]) => part?.type !== 'reasoning'), [
        ['user', 'Read it.'], ['user', '[file: a.txt]'], ['user', 'remember the milk'], ['user', '[file: b.png]'],
        ['assistant', 'Looking.'], ['assistant', 'm-2_1', 'web_search', '{"q":"milk"}'], ['tool', 'm-2_1', 'white'],
        ['assistant', 'It is white.']]);
    assert.equal(notes.session.updated_at, isoAt(9));
    assert.deepEqual(textsOf(show(w, 'claude-ai:u-2')), ['Hi', 'Hey']);
    assert.deepEqual(textsOf(show(w, 'claude-ai:u-2:x')), ['Hi', 'Hello']);
    assert.deepEqual(textsOf(show(w, 'claude-ai:u-3')), ['Old one']);
    assert.equal(w.json('session', 'import', 'conversations.json').messages, 0);
});

// ---- Open WebUI ----

test('open-webui: branches, reasoning and images', (t) => {
    const w = workspace(t);
    const png = 'iVBORw0KGgo=';
    const thought = '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n&gt; Two\n&gt; lines\n</details>\n';
    const message = (id, parentId, role, content, minute, more = {}) => [id, { id, parentId, role, content, timestamp: SECONDS + 60 * minute, ...more }];
    w.write('chats.json', JSON.stringify([
        { id: 'w-1', title: 'Pics', created_at: SECONDS, updated_at: SECONDS + 600, archived: false, chat: { title: 'Pics', models: ['llama3'],
            history: { currentId: 'r2', messages: Object.fromEntries([
                message('q', null, 'user', 'What is it?', 1, { files: [{ type: 'image', url: `data:image/png;base64,${png}` }, { type: 'file', name: 'a.md', url: 'f-1' }] }),
                message('r1', 'q', 'assistant', 'A cat.', 2, { model: 'llama3' }),
                message('r2', 'q', 'assistant', `${thought}A dog.`, 3, { model: 'qwen3' })]) } } },
        { id: 'w-2', title: 'Old', created_at: SECONDS, updated_at: SECONDS + 60, chat: { messages: [{ role: 'user', content: 'One' }, { role: 'assistant', content: 'Two' }] } },
    ]));
    const report = w.json('session', 'import', 'chats.json');
    assert.deepEqual([report.sessions, report.problems], [3, []]);
    const pics = show(w, 'open-webui:w-1');
    assert.deepEqual(contentOf(pics.messages[0]).map(({ type }) => type), ['text', 'image', 'text']);
    assert.match(JSON.stringify(pics.messages[1]), /"reasoning","text":"Two\\nlines"/);
    assert.equal(contentOf(pics.messages[1]).at(-1).text, 'A dog.');
    assert.equal(pics.messages[1].model, 'qwen3');
    assert.equal(pics.session.updated_at, isoAt(10));
    assert.deepEqual(rows(show(w, 'open-webui:w-1:r1')).at(-1), ['assistant', 'A cat.']);
    assert.deepEqual(textsOf(show(w, 'open-webui:w-2')), ['One', 'Two']);
});

// ---- LibreChat ----

test('librechat: a list and nested messages give the same session', (t) => {
    const w = workspace(t);
    const none = '00000000-0000-0000-0000-000000000000';
    const message = (messageId, parentMessageId, isCreatedByUser, minute, more) =>
        ({ messageId, parentMessageId, isCreatedByUser, createdAt: isoAt(minute), ...more });
    const q = message('q', none, true, 1, { text: 'Sum?' });
    const a = message('a', 'q', false, 2, { model: 'gpt-5', text: '', content: [{ type: 'think', think: 'Add.' },
        { type: 'tool_call', tool_call: { id: 'k', name: 'sum', args: '{"a":1}', output: '3' } }, { type: 'text', text: { value: 'Three.' } }] });
    const b = message('b', 'q', false, 3, { text: 'Four.' });
    const head = { conversationId: 'l-1', title: 'Sums', exportAt: 'now', branches: true };
    w.write('list.json', JSON.stringify({ ...head, recursive: false, messages: [q, a, b] }, null, 2));
    w.write('nested.json', JSON.stringify({ ...head, recursive: true, messages: [{ ...q, children: [{ ...a, children: [] }, { ...b, children: [] }] }] }));
    assert.deepEqual(w.json('session', 'import', 'list.json').problems, []);
    assert.equal(w.json('session', 'import', 'nested.json').messages, 0);
    assert.deepEqual(textsOf(show(w, 'librechat:l-1')), ['Sum?', 'Four.']);
    assert.deepEqual(rows(show(w, 'librechat:l-1:a')).filter(([, part]) => part?.type !== 'reasoning'), [['user', 'Sum?'],
        ['assistant', 'k', 'sum', '{"a":1}'], ['tool', 'k', '3'], ['assistant', 'Three.']]);
    assert.equal(show(w, 'librechat:l-1').session.title, 'Sums');
    let deep = [];
    for (let i = 200; i > 0; i--)
        deep = [{ ...message(`d${i}`, i > 1 ? `d${i - 1}` : none, i % 2 === 1, i, { text: `${i}` }), children: deep }];
    w.write('deep.json', JSON.stringify({ conversationId: 'l-2', title: 'Deep', recursive: true, messages: deep }));
    assert.equal(w.json('session', 'import', 'deep.json').messages, 200);
});

test('messages without an id, or with the same one, are imported once', (t) => {
    const w = workspace(t);
    const message = (more) => ({ parentMessageId: '00000000-0000-0000-0000-000000000000', isCreatedByUser: true, createdAt: isoAt(1), ...more });
    w.write('list.json', JSON.stringify({ conversationId: 'l-9', title: 'Odd', branches: true, recursive: false, messages: [
        message({ text: 'no id' }), message({ text: 'none either' }), message({ messageId: 'q', text: 'first' }), message({ messageId: 'q', text: 'second' })] }));
    const first = w.json('session', 'import', 'list.json');
    assert.deepEqual([first.messages, first.messages_failed], [4, 0]);
    const again = w.json('session', 'import', 'list.json');
    assert.deepEqual([again.sessions, again.messages], [0, 0]);
});
