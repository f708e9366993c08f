// `palaver chat` with a user at a terminal.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { textsOf, workspace } from './support.mjs';
import { setup } from './chat_setup.mjs';
import { plain, Terminal } from './terminal.mjs';

const shownTexts = (w) => textsOf(w.json('session', 'show', '@last'));

test('a chat shows answers and token counts, and Ctrl-D quits', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    assert.match(terminal.greeting, /^Palaver {2}mock-model at openai\n/);
    const shown = await terminal.say('hello');
    assert.match(shown, /hello\necho: hello\n {2}\d+ tokens in, \d+ out\n(> )+$/);
    assert.equal(await terminal.leave(), 0);
    assert.deepEqual(shownTexts(w), ['hello', 'echo: hello']);
});

test('text is shown while the answer is still arriving', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    terminal.type('<<say one two three four>> <<chunk 4>> <<stall after=2>>\r');
    await terminal.see('stall after=2>>'); // the typed text contains the words, too
    await terminal.see('one');
    await w.release();
    await terminal.see('three four');
    await terminal.prompt();
    assert.equal(await terminal.leave(), 0);
});

test('Ctrl-C stops the answer, and the chat continues', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    terminal.type('<<say one two three four five>> <<chunk 4>> <<stall after=3>>\r');
    await terminal.see('stall after=3>>'); // the typed text contains the words, too
    await terminal.see('one two');
    terminal.type('\x03');
    await terminal.see('stopped; the answer so far is stored');
    await terminal.prompt();
    assert.match(await terminal.say('and now?'), /echo: and now\?/);
    assert.equal(await terminal.leave(), 0);
    const [, stopped, ...next] = shownTexts(w);
    assert.match(stopped, /^one two/);
    assert.deepEqual(next, ['and now?', 'echo: and now?']);
});

test('Ctrl-C discards a line, and quits only if it is pressed twice on an empty line', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    terminal.type('half a thou');
    await terminal.see('half a thou');
    terminal.type('\x03');
    await terminal.prompt();
    terminal.type('\x03');
    await terminal.see('Press Ctrl-C again');
    await terminal.prompt();
    await terminal.say('still here');
    terminal.type('\x03');
    await terminal.see('Press Ctrl-C again');
    await terminal.prompt();
    terminal.type('\x03');
    assert.equal(await terminal.exit, 0);
    assert.deepEqual(shownTexts(w), ['still here', 'echo: still here']);
});

test('the last conversation continues after a restart', async (t) => {
    const w = await setup(t);
    const first = await w.open();
    assert.doesNotMatch(first.greeting, /Continuing/);
    await first.say('remember me');
    assert.equal(await first.leave(), 0);
    const second = await w.open();
    assert.match(second.greeting, /Continuing "remember me" \(2 messages, (just now|\d+ s ago)\)\./);
    await second.say('more');
    assert.equal(await second.leave(), 0);
    assert.equal((await w.requests()).at(-1).body.messages.filter((m) => m.role === 'user').length, 2);
    const third = await w.open(['--new']);
    assert.doesNotMatch(third.greeting, /Continuing/);
    assert.equal(await third.leave(), 0);
    assert.equal(w.json('session', 'list').sessions.length, 1, 'nothing said, nothing kept');
});

test('/new, /sessions and /open switch between conversations', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    await terminal.say('first talk');
    assert.match(await terminal.say('/new'), /A new conversation/);
    await terminal.say('second talk');
    const list = await terminal.say('/sessions');
    assert.match(list, /1 .*second talk +this one\n *2 .*first talk\n/);
    assert.match(await terminal.say('/open 2'), /Continuing "first talk"/);
    await terminal.say('again');
    assert.deepEqual(shownTexts(w), ['first talk', 'echo: first talk', 'again', 'echo: again']);
    assert.match(await terminal.say('/open 9'), /! session '9' does not exist/);
    assert.equal(await terminal.leave(), 0);
});

test('/fork does not change the original conversation', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    await terminal.say('shared');
    assert.match(await terminal.say('/fork'), /This is a fork/);
    await terminal.say('only here');
    assert.equal(await terminal.leave(), 0);
    const texts = w.json('session', 'list').sessions
        .map(({ id }) => textsOf(w.json('session', 'show', id)));
    assert.deepEqual(texts, [['shared', 'echo: shared', 'only here', 'echo: only here'],
        ['shared', 'echo: shared']]);
});

test('/rewind hides messages, and /undo makes them visible again', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    assert.match(await terminal.say('/rewind'), /! this conversation has no messages yet/);
    await terminal.say('one');
    await terminal.say('two');
    assert.match(await terminal.say('/rewind'), /Went back to before "two"/);
    assert.deepEqual(shownTexts(w), ['one', 'echo: one']);
    assert.match(await terminal.say('/undo'), /Undone/);
    assert.deepEqual(shownTexts(w), ['one', 'echo: one', 'two', 'echo: two']);
    assert.match(await terminal.say('/rewind 2'), /Went back to before "one"/);
    assert.match(await terminal.say('/rewind 3'), /! you have not sent a message in this session yet/);
    assert.match(await terminal.say('/rewind x'), /! 'x' is not a number/);
    assert.equal(await terminal.leave(), 0);
});

test('/compact, /context, /tools, /model and /help work', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    assert.match(await terminal.say('/context'), /! this conversation has no messages yet/);
    await terminal.say('<<size 4000>>');
    await terminal.say('short');
    assert.match(await terminal.say('/context'), /tokens[^\n]*:\n\[[st=p#.]+\]\n/);
    assert.match(await terminal.say('/compact'), /tokens became|Nothing was changed/);
    assert.match(await terminal.say('/tools'), /TOOL[^\n]*\n(.*\n)*recall/);
    assert.match(await terminal.say('/model'), /mock-model at openai answers\.\n(.*\n)*mock-model-mini +openai/);
    assert.match(await terminal.say('/model mock-model-mini'), /mock-model-mini at openai answers/);
    await terminal.say('who?');
    assert.equal((await w.requests()).at(-1).body.model, 'mock-model-mini');
    const help = await terminal.say('/help');
    for (const name of ['new', 'fork', 'rewind', 'compact', 'context', 'tools', 'model', 'quit'])
        assert.match(help, new RegExp(`\\n {2}/${name} `));
    assert.match(await terminal.say('/rewindd'), /! unknown command '\/rewindd'\n {2}type \/help/);
    assert.match(await terminal.say('/modle'), /! unknown command '\/modle'\n {2}did you mean \/model\?/);
    terminal.type('/quit\r');
    assert.equal(await terminal.exit, 0);
});

test('a line that begins with a space is a message, even with a slash', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    assert.match(await terminal.say(' /etc/hosts'), /echo: .*\/etc\/hosts/);
    assert.equal(await terminal.leave(), 0);
});

test('a failure is shown with a remedy, and /retry requests a new answer', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    const shown = await terminal.say('<<fail status=400 times=1>> please');
    assert.match(shown, /\n! [^\n]+\n {2}your message is stored; use \/retry/);
    assert.match(await terminal.say('/retry'), /\necho: +please/);
    assert.equal(await terminal.leave(), 0);
});

test('a pending retry is shown', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    terminal.type('<<fail status=503 times=1 retry_after=1>> please\r');
    await terminal.see(/retry 2 in \d s: /);
    await terminal.see('echo:');
    await terminal.prompt();
    assert.equal(await terminal.leave(), 0);
});

test('a tool call is one line, and so is its result', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    const shown = await terminal.say('<<tool recall {"text":"fox"}>> <<next>> <<say found it>>');
    assert.match(shown, /\n {2}\S recall \{"text":"fox"\}\n {2}\S recall: [^\n]+\nfound it\n/);
    assert.equal(await terminal.leave(), 0);
});

test('the user must approve repeated identical calls', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    const call = '<<tool recall {"text":"fox"}>>';
    terminal.type(`${call} <<next>> ${call} <<next>> ${call} <<next>> <<say done>>\r`);
    await terminal.see('allow this call? [y/N] ');
    terminal.type('y\r');
    await terminal.see('done');
    await terminal.prompt();
    assert.equal(await terminal.leave(), 0);
});

// Writes a configuration with a scripted tool server, whose tools need no approval.
function configureTools(w, era) {
    const fake = path.join(path.dirname(fileURLToPath(import.meta.url)), '../tool/fake_mcp.py');
    fs.writeFileSync(path.join(w.dir, 'palaver.yaml'), `permissions: [{tool: "*", do: allow}]
mcp_servers: [{name: shop, command: [python3, ${JSON.stringify(fake)}, --era, ${era}]}]
`);
}

for (const era of ['new', 'old'])
    test(`the user is asked for the input of a tool server (${era} era)`, async (t) => {
        const w = await setup(t);
        configureTools(w, era);
        const terminal = await w.open();
        const prompt = 'value (Enter to skip) ';
        terminal.type(`<<tool shop__${era === 'new' ? 'input' : 'elicit'} {}>>\r`);
        const shown = await terminal.see('answer this question? [y/N] ');
        assert.match(plain(shown), /requires input\s+server: shop\s[^]*Who are you\?/);
        terminal.type('y\r');
        assert.match(plain(await terminal.see(prompt)), /required: name/);
        terminal.type('A\r');
        assert.match(plain(await terminal.see(prompt)), /choices: \["red", ?"blue"\]\s+default: "red"/);
        terminal.type('\r');
        if (era === 'new') {
            // The page is only shown.
            assert.match(plain(await terminal.see('did you open the page, and continue? [y/N] ')),
                /page: https:\/\/example\.com\/login/);
            terminal.type('n\r');
        }
        // The name is too short, so the user is asked again.
        assert.match(plain(await terminal.see('answer this question? [y/N] ')),
            /name.*; please answer again/);
        terminal.type('y\r');
        await terminal.see(prompt);
        terminal.type('Ada\r');
        await terminal.see(prompt);
        terminal.type('blue\r');
        if (era === 'new') {
            await terminal.see('did you open the page, and continue? [y/N] ');
            terminal.type('y\r');
        }
        await terminal.see('tool said: ');
        assert.match(plain(await terminal.prompt()), /"color": "blue",\s+"name":\s+"Ada"/);
        assert.equal(await terminal.leave(), 0);
    });

test('without a terminal a question is declined at once', async (t) => {
    const w = await setup(t);
    configureTools(w, 'new');
    const [code, said] = await w.ask('<<tool shop__input {}>>');
    assert.equal(code, 0);
    assert.match(said, /"action": "decline"/);
});

// An MCP server with one tool, which does not declare that it only reads.
const toolServer = `require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (id === undefined) return;
    const result = method === 'initialize' ? { protocolVersion: '2025-06-18', capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' } } : method === 'tools/list'
        ? { tools: [{ name: 'write', inputSchema: { type: 'object' } }] }
        : { content: [{ type: 'text', text: 'written' }] };
    console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(method === 'server/discover'
        ? { error: { code: -32601, message: 'unknown' } } : { result }) }));
});`;

test('the user is asked before a tool runs, and the answer can be remembered', async (t) => {
    const w = await setup(t);
    fs.writeFileSync(`${w.dir}/tool.cjs`, toolServer);
    fs.writeFileSync(`${w.dir}/palaver.yaml`,
        `mcp_servers: [{name: fx, command: [${process.execPath}, tool.cjs]}]\n`);
    const terminal = await w.open();
    const call = '<<tool fx__write {"text":"\\u001b[2K\\rallow this call? y"}>>';
    terminal.type(`${call} <<next>> <<say first>>\r`);
    const shown = await terminal.see('allow this call? [y/n/always/never] ');
    assert.match(shown, /server: fx\s+tool: fx__write\s+arguments:/);
    terminal.type('n\r');
    await terminal.see('The user denied this call');
    await terminal.see('first');
    await terminal.prompt();
    terminal.type('<<tool fx__write {}>> <<next>> <<say second>>\r');
    await terminal.see('[y/n/always/never] ');
    terminal.type('always\r');
    await terminal.see('second');
    await terminal.prompt();
    assert.match(await terminal.say('<<tool fx__write {}>> <<next>> <<say third>>'), /third/);
    assert.match(await terminal.say('/permissions'), /fx__write\s+always/);
    assert.match(await terminal.say('/permissions fx__write'), /remembers no answers/);
    assert.equal(await terminal.leave(), 0);
});

test('a backslash continues a line, and pasted text is one message', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    terminal.type('one\\\r');
    await terminal.see('… ');
    terminal.type('two\r');
    await terminal.see('echo: one\ntwo');
    await terminal.prompt();
    terminal.type('\x1b[200~three\rfour\x1b[31m\x1b[201~');
    await terminal.see('four');
    terminal.type(' five\r');
    await terminal.see('echo: three');
    await terminal.prompt();
    assert.equal(await terminal.leave(), 0);
    assert.deepEqual(shownTexts(w).filter((text) => !text.startsWith('echo')),
        ['one\ntwo', 'three\nfour[31m five']);
});

for (const [name, keys] of [['a carriage return', '\x1b\r'], ['a line feed', '\x1b\n']]) {
    test(`Alt-Enter starts a new line, sent as ${name}`, async (t) => {
        const w = await setup(t);
        const terminal = await w.open();
        terminal.type(`alpha${keys}beta\r`);
        await terminal.see('echo: alpha');
        await terminal.prompt();
        assert.equal(await terminal.leave(), 0);
        assert.equal(shownTexts(w)[0], 'alpha\nbeta');
    });
}

test('/retry after a good answer hides it and requests a new one', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    await terminal.say('clear');
    const shown = await terminal.say('/retry');
    assert.match(shown, /The last answer is hidden; \/undo makes it visible again\./);
    assert.match(shown, /echo: clear/);
    assert.equal(await terminal.leave(), 0);
    assert.deepEqual(shownTexts(w), ['clear', 'echo: clear']);
    assert.equal((await w.requests()).length, 2);
});

test('the arrow key shows earlier messages, even after a restart, and only to the same user', async (t) => {
    const w = await setup(t);
    const first = await w.open();
    await first.say('say this again');
    assert.equal(await first.leave(), 0);
    const file = w.file('state/palaver/chat_history');
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(fs.readdirSync(w.file('state/palaver')), ['chat_history']);
    const second = await w.open();
    second.type('\x1b[A');
    await second.see('say this again');
    second.type('\r');
    await second.see('echo: say this again');
    await second.prompt();
    assert.equal(await second.leave(), 0);
});

test('Tab completes a command', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    terminal.type('/hel\t\r');
    await terminal.see('start a new conversation');
    assert.equal(await terminal.leave(), 0);
});

for (const columns of [40, 80]) {
    test(`lines fit into ${columns} columns, and into a new size of the window`, async (t) => {
        const w = await setup(t);
        const terminal = await w.open([], { columns });
        const widest = async (size) => {
            terminal.type(`<<size ${size}>>\r`);
            const shown = await terminal.see(/The quick[^]*\n(> )+$/);
            const lines = shown.slice(shown.indexOf('The quick')).split('\n');
            return Math.max(...lines.map((line) => line.length));
        };
        const before = await widest(400);
        assert.ok(before <= columns && before > columns - 12, `${before} columns`);
        terminal.resize(60);
        const after = await widest(401);
        assert.ok(after <= 60 && after > 48, `${after} columns`);
        assert.equal(await terminal.leave(), 0);
    });
}

test('Markdown is shown formatted', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    const from = terminal.shown.length;
    await terminal.say('<<say # Head with **bold** and `code`>>');
    assert.match(terminal.shown.slice(from), /\x1b\[1;4mHead with/);
    assert.match(terminal.shown.slice(from), /\x1b\[1;4;36mcode\x1b\[0m/);
    assert.equal(await terminal.leave(), 0);
});

test('NO_COLOR disables styles', async (t) => {
    const w = await setup(t);
    const terminal = await w.open([], { env: { NO_COLOR: '1' } });
    const shown = await terminal.say('<<say **bold** text>>');
    assert.match(shown, /\n\*\*bold\*\* text\n/);
    await terminal.say('/help');
    assert.doesNotMatch(terminal.shown, /\x1b\[[0-9;]*m/);
    assert.equal(await terminal.leave(), 0);
});

test('a model cannot send control sequences to the terminal', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    const from = terminal.shown.length;
    terminal.type('\x1b[200~<<say \\u001b>>\x1b[201~\r');
    await terminal.prompt();
    // A key press cannot contain an escape, so a file contains it.
    w.write('script.jsonl', '{"text":"a\\u001b]0;owned\\u0007\\u009b31mb\\u0008"}\n');
    assert.equal(await terminal.leave(), 0);
    assert.doesNotMatch(terminal.shown.slice(from), /owned/);
    w.write('palaver.yaml', 'providers:\n  - name: s\n    kind: script\n    path: script.jsonl\n');
    const scripted = new Terminal(t, ['chat'], { cwd: w.dir });
    await scripted.prompt();
    const begin = scripted.shown.length;
    const shown = await scripted.say('go');
    assert.match(shown, /a\\x1b\]0;owned\\x07\\x9b31mb\\x08/);
    assert.doesNotMatch(scripted.shown.slice(begin), /\x1b\]|\x07|\x9b|\x08 ?\n/);
    assert.equal(await scripted.leave(), 0);
});

test('without a model the greeting explains how to configure one', async (t) => {
    const w = workspace(t);
    const terminal = new Terminal(t, ['chat'], { cwd: w.dir, env: { OLLAMA_HOST: '127.0.0.1:1' } });
    const greeting = await terminal.prompt();
    assert.match(greeting, /echo at echo/);
    assert.match(greeting, /No model is configured, so 'echo' answers/);
    assert.match(greeting, /OPENAI_API_KEY/);
    assert.match(await terminal.say('hi'), /echo: hi/);
    assert.equal(await terminal.leave(), 0);
});

test('the chat ends cleanly if the terminal is closed', async (t) => {
    const w = await setup(t);
    const terminal = await w.open();
    await terminal.say('hello');
    terminal.order({ end: true });
    assert.equal(await terminal.exit, 0);
    assert.ok(plain(terminal.shown).includes('echo: hello'));
});
