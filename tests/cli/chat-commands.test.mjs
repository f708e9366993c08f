// The commands of `palaver chat` about files, titles, searches and exports, and the Tab key.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { setup } from './chat_setup.mjs';
import { assertFails } from './support.mjs';

const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

// What the model received of the user's last message.
const lastUser = async (w) => (await w.requests()).at(-1).body.messages
    .filter((message) => message.role === 'user').at(-1).content;
const textOfContent = (content) => typeof content === 'string' ? content
    : content.filter((part) => part.type === 'text').map((part) => part.text).join('\n');

test('files are sent with the message: --attach, /attach and @FILE', async (t) => {
    const w = await setup(t);
    fs.writeFileSync(w.file('dot.wrong-name'), PNG);
    w.write('notes.txt', 'alpha ``` beta\n');
    w.write('list.csv', 'a,b');
    const terminal = await w.open(['--attach', 'dot.wrong-name']);
    assert.match(terminal.greeting, /Attached dot\.wrong-name, 70 bytes\./);
    await terminal.say('what is this?');
    const [text, image] = await lastUser(w);
    assert.equal(text.text, 'what is this?');
    assert.ok(image.image_url.url.startsWith(`data:image/png;base64,${PNG.toString('base64')}`));

    assert.match(await terminal.say('/attach notes.txt'), /Attached notes\.txt, 15 bytes\./);
    assert.match(await terminal.say('compare @list.csv with ann@example.org and @missing'), /Attached list\.csv/);
    const said = textOfContent(await lastUser(w));
    assert.ok(said.includes('notes.txt:\n````\nalpha ``` beta\n````'), said);
    assert.ok(said.includes('list.csv:\n```\na,b\n```'), said);
    assert.ok(said.includes('@missing'));

    await terminal.say('nothing more');
    assert.equal(textOfContent(await lastUser(w)), 'nothing more');
    w.write('program', Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 1]));
    assert.match(await terminal.say('/attach program'), /! 'program' is not a text, an image or a PDF/);
    assert.match(await terminal.say('/attach .'), /! '\.' is not a file/);
    assert.match(await terminal.say('/attach missing'), /! could not read 'missing': No such file/);
    assert.match(await terminal.say('/attach notes.txt'), /Attached/);
    await terminal.say('/attach off');
    await terminal.say('without');
    assert.equal(textOfContent(await lastUser(w)), 'without');
    assert.equal(await terminal.leave(), 0);
});

test('one question can have files too, and @ in it is only text', async (t) => {
    const w = await setup(t);
    w.write('notes.txt', 'alpha\n');
    const [code, out] = await w.ask('look at @notes.txt', '--attach', 'notes.txt');
    assert.equal(code, 0);
    assert.match(out, /look at @notes\.txt/);
    const said = textOfContent(await lastUser(w));
    assert.equal(said.match(/alpha/g).length, 1);
    const [failed] = await w.ask('x', '--attach', 'missing');
    assert.equal(failed, 1);
    assert.equal(w.json('session', 'show', '@last').messages.length, 2, 'nothing was sent');
});

test('the last exchange is shown when a conversation continues', async (t) => {
    const w = await setup(t);
    const first = await w.open();
    await first.say('<<say **bold** answer>>');
    await first.say('/new');
    await first.say('another one');
    assert.match(await first.say('/open 1'), /\S/);
    assert.equal(await first.leave(), 0);
    const second = await w.open();
    assert.match(second.greeting, /Continuing "another one" [^\n]*\n> another one\necho: another one\n/);
    assert.match(await second.say('/sessions'), /2 .*bold/);
    assert.match(await second.say('/open 2'), /> <<say \*\*bold\*\* answer>>\nbold answer\n/);
    const long = Array.from({ length: 30 }, (_, i) => `line ${i + 1}  `).join('\\n');
    assert.equal(await second.leave(), 0);
    w.ok('session', 'append', '@last', '--role', 'assistant', { input: long.replaceAll('\\n', '\n') });
    const third = await w.open(['--session', '@last']);
    assert.match(third.greeting, /line 20/);
    assert.doesNotMatch(third.greeting, /line 21/);
    assert.match(third.greeting, /… 10 more lines/);
    assert.equal(await third.leave(), 0);
});

test('/title, /search and /export', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    assert.match(await terminal.say('/title x'), /! this conversation has no messages yet/);
    await terminal.say('the zebra lives in Nairobi');
    assert.match(await terminal.say('/title About zebras'), /The title is "About zebras"\./);
    assert.equal(w.json('session', 'show', '@last').session.title, 'About zebras');
    await terminal.say('/new');
    await terminal.say('something else');
    const found = await terminal.say('/search where does the zebra live');
    assert.match(found, /1 .*user .*zebra/);
    assert.match(await terminal.say('/open 1'), /Continuing "About zebras"/);
    assert.match(await terminal.say('/search xylophone'), /No messages found\./);

    assert.match(await terminal.say('/export talk.md'), /Wrote 2 messages to talk\.md\./);
    assert.match(fs.readFileSync(w.file('talk.md'), 'utf8'), /^# About zebras\n[^]*zebra lives in Nairobi/);
    assert.match(await terminal.say('/export talk.md'), /! 'talk\.md' exists already/);
    assert.match(await terminal.say('/export talk.html'), /Wrote 2 messages/);
    assert.match(await terminal.say('/export talk.jsonl'), /Wrote 2 messages/);
    w.ok('session', 'import', 'talk.jsonl', '--store', 'other.db');
    assert.match(await terminal.say('/export talk.doc'), /! \/export requires a file whose name ends with/);
    assert.match(await terminal.say('/export missing/talk.md'), /! could not write 'missing\/talk\.md'/);
    assert.equal(await terminal.leave(), 0);
});

test('/system replaces the instructions until the chat ends', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    const system = async () => (await w.requests()).at(-1).body.messages
        .filter((message) => message.role === 'system').map((message) => message.content);
    assert.match(await terminal.say('/system'), /The configuration decides/);
    await terminal.say('/system Answer like a pirate.');
    await terminal.say('hello');
    assert.deepEqual(await system(), ['Answer like a pirate.']);
    assert.match(await terminal.say('/system off'), /The configuration decides/);
    await terminal.say('again');
    assert.deepEqual(await system(), []);
    assert.equal(await terminal.leave(), 0);
});

test('/show prints the output of a tool', async (t) => {
    const w = await setup(t);
    w.ok('session', 'new', '--key', 'tools', '--agent', 'chat');
    const output = ['first', 'second'].map((text, i) => [
        { role: 'assistant', parts: [{ type: 'tool_call', call_id: `c${i}`, name: 'look', arguments: '{}' }] },
        { role: 'tool', parts: [{ type: 'tool_result', call_id: `c${i}`, name: 'look', output: `${text}\n\x1b[31mred` }] },
    ]).flat();
    w.ok('session', 'append', 'tools', '--json-input', { input: `${[{ role: 'user', content: 'x' }, ...output,
        { role: 'assistant', content: 'done' }].map((message) => JSON.stringify(message)).join('\n')}\n` });
    const terminal = await w.open();
    assert.match(await terminal.say('/show'), /look\nsecond\n\\x1b\[31mred\n/);
    assert.match(await terminal.say('/show 2'), /look\nfirst\n/);
    assert.match(await terminal.say('/show 3'), /! there are only 2 outputs of tools/);
    await terminal.say('/new');
    assert.match(await terminal.say('/show'), /! this conversation has no messages yet/);
    assert.equal(await terminal.leave(), 0);
});

test('Tab lists candidates and completes names of files', async (t) => {
    const w = await setup(t);
    w.write('alpha-one.txt', '1');
    w.write('alpha-two.txt', '2');
    w.write('deep/inner.txt', '3');
    const terminal = await w.open();
    terminal.type('/s\t');
    const listed = await terminal.see(/\/system .*\n/);
    for (const word of ['/sessions', '/search', '/show', '/system']) assert.ok(listed.includes(word), listed);
    terminal.type('yst\toff\r');
    assert.match(await terminal.prompt(), /The configuration decides/);
    terminal.type('/attach alp\t');
    await terminal.see('alpha-');
    terminal.type('o\t\r');
    assert.match(await terminal.prompt(), /Attached alpha-one\.txt, 1 bytes\./);
    terminal.type('read @de\ti\t\r');
    assert.match(await terminal.prompt(), /Attached deep\/inner\.txt/);
    assert.match(textOfContent(await lastUser(w)), /^read @deep\/inner\.txt/);
    assert.equal(await terminal.leave(), 0);
});

test('--attach is refused for a directory before anything is sent', async (t) => {
    const w = await setup(t);
    assertFails(w.run('chat', '--provider', 'echo', '--attach', '.', 'hello'), 1, /'\.' is not a file/);
});

test('what was noted in one conversation is known in the next', async (t) => {
    const w = await setup(t);
    const terminal = await w.open([]);
    const systemOf = async () => (await w.requests()).at(-1).body.messages
        .filter(({ role }) => role === 'system').map(({ content }) => textOfContent(content)).join('\n');
    assert.match(await terminal.say('/memory'), /There are no notes/);
    assert.match(await terminal.say('/remember I sail on Sundays.'), /Noted\./);
    assert.match(await terminal.say('/remember I sail on Sundays.'), /noted already/);
    await terminal.say('hello');
    assert.match(await systemOf(), /- \(fact, .*\) I sail on Sundays\./);
    await terminal.say('/new');
    await terminal.say('hello again');
    assert.match(await systemOf(), /I sail on Sundays/);
    assert.match(await terminal.say('/memory'), /1 {2}I sail on Sundays\. {2}\(fact\)/);
    assert.match(await terminal.say('/memory forget 2'), /! \/memory takes/);
    assert.match(await terminal.say('/memory forget 1'), /Forgotten/);
    await terminal.say('and now?');
    assert.doesNotMatch(await systemOf(), /I sail/);
    await terminal.quit?.();
});
