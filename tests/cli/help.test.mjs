// The command line itself: help, versions, and the errors for wrong command lines.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { palaver, workspace, assertFails, assertGolden, textOf } from './support.mjs';

const commands = [
    'session new', 'session list', 'session show', 'session search', 'session append',
    'session edit', 'session fork',
    'session rewind', 'session truncate', 'session undo', 'session reset', 'session compact', 'session summary', 'session pin',
    'session unpin', 'session delete', 'session restore',
    'session erase', 'session export', 'session import', 'chat', 'context', 'route', 'tokens',
    'tokens list',
    'tokens compile', 'config show', 'config check',
    'config example', 'serve', 'page', 'run', 'mcp', 'mcp login', 'mcp logout', 'key create', 'key list', 'key revoke',
    'node list', 'channel list', 'channel why', 'channel dead', 'channel retry', 'models', 'usage', 'backup', 'restore', 'stats', 'fsck', 'bench', 'bench cache',
    'completion bash', 'completion zsh', 'completion fish', 'completion words', 'version', 'help',
];

test('the bare command prints a short help', (t) => {
    const bare = palaver([]);
    assert.equal(bare.code, 0);
    assert.equal(bare.err, '');
    assertGolden('help-main.txt', bare.out);
    assert.ok(bare.out.split('\n').length <= 60, 'fits on a screen');
    assert.equal(palaver(['--help']).out, bare.out);
    assert.equal(palaver(['-h']).out, bare.out);
    assert.equal(palaver(['help']).out, bare.out);
});

test('a group prints its commands', () => {
    const group = palaver(['session']);
    assert.equal(group.code, 0);
    assertGolden('help-session.txt', group.out);
    assert.equal(palaver(['session', '--help']).out, group.out);
    assert.equal(palaver(['help', 'session']).out, group.out);
});

test('every command explains itself with examples', () => {
    let all = '';
    for (const command of commands) {
        const words = command.split(' ');
        const help = palaver([...words, '--help']);
        assert.equal(help.code, 0, command);
        assert.match(help.out, new RegExp(`^Usage: palaver ${command}`));
        const examples = help.out.split('Examples:\n')[1].trimEnd().split('\n');
        assert.ok(examples.length >= 2, `${command}: at least two examples`);
        for (const line of help.out.split('\n')) assert.ok(line.length <= 82, line);
        assert.equal(palaver(['help', ...words]).out, help.out);
        all += `$ palaver ${command} --help\n${help.out}\n`;
    }
    assertGolden('help-commands.txt', all);
});

test('every example in the help is a valid command line', (t) => {
    for (const command of commands) {
        const help = palaver([...command.split(' '), '--help']).out;
        const examples = help.split('Examples:\n')[1].trimEnd().split('\n');
        for (const example of examples) {
            const words = example.replace(/^.*\| /, '').trim()
                .match(/"[^"]*"|\S+/g).map((word) => word.replace(/"/g, ''));
            assert.equal(words.shift(), 'palaver', example);
            // --help does nothing else, but every option must be known.
            assert.equal(palaver(['--help', ...words]).code, 0, example);
        }
    }
});

test('version and --version print the version', () => {
    assert.match(palaver(['--version']).out, /^palaver \d+\.\d+\.\d+\n$/);
    assert.equal(palaver(['version']).out, palaver(['--version']).out);
    assert.match(JSON.parse(palaver(['version', '--json']).out).version, /^\d+\.\d+\.\d+$/);
});

test('a wrong command line exits with 2, an explanation and a suggestion', () => {
    const cases = [
        [['sesion'], /unknown command 'sesion'\nhint: did you mean 'palaver session'\?/],
        [['session', 'rename', 'x'], /unknown command 'session rename'\nhint: use 'palaver session edit SESSION --title TITLE'/],
        [['list'], /unknown command 'list'\nhint: did you mean 'palaver session list'\?/],
        [['frobnicate'], /unknown command 'frobnicate'\nhint: run 'palaver --help'/],
        [['session', 'shwo', 'x'], /unknown command 'session shwo'\nhint: did you mean 'palaver session show'\?/],
        [['session', 'new', '--titel', 'x'], /unknown option '--titel' for 'session new'\nhint: did you mean --title\?/],
        [['session', 'new', '--titel=x'], /unknown option '--titel' for/],
        [['--stor', 'x', 'stats'], /unknown option '--stor'\nhint: did you mean --store\?/],
        [['session', 'list', '-x'], /unknown option '-x' for 'session list'/],
        [['session', 'new', '--key'], /--key requires a value: KEY/],
        [['session', 'list', '--all=yes'], /--all does not take a value/],
        [['session', 'list', '--limit', 'many'], /--limit must be a non-negative number, not 'many'/],
        [['session', 'list', '--limit', '-1'], /--limit must be a non-negative number/],
        [['session', 'list', '--limit', '99999999999999999999999'], /--limit must be a non-negative number/],
        [['session', 'show'], /'session show' requires a session/],
        [['session', 'show', 'a', 'b'], /unexpected argument 'b'/],
        [['help', 'nothing'], /unknown command 'nothing'/],
        [['bench', 'disk'], /unknown benchmark 'disk'/],
    ];
    for (const [args, pattern] of cases) assertFails(palaver(args), 2, pattern);
});

test('a wrong command line does not create a store', (t) => {
    const w = workspace(t);
    assertFails(w.run('session', 'new', '--what'), 2, /unknown option/);
    assert.deepEqual(fs.readdirSync(w.file('palaver-data')), []);
});

test('options can be anywhere before --', (t) => {
    const w = workspace(t);
    w.ok('--store=sqlite:a.db', 'session', 'new', '--key=k');
    w.ok('session', '--store', 'sqlite:a.db', 'append', 'k', '--', '--not-an-option');
    const shown = w.json('session', 'show', '--store', 'sqlite:a.db', 'k');
    assert.equal(textOf(shown.messages[0]), '--not-an-option');
});

test('a destructive command is never suggested', () => {
    const words = ['rename', 'rewnd', 'rewindd', 'erace', 'erase1', 'delet', 'remove', 'dele', 'revok', 'revoke1', 'rese',
        'truncat'];
    for (const word of words) {
        for (const group of [[], ['session'], ['key']]) {
            const result = palaver([...group, word]);
            assert.equal(result.code, 2, word);
            assert.doesNotMatch(result.err, /did you mean '[^']*(erase|delete|revoke|reset|truncate|rewind)/, word);
        }
    }
});

test('with --json an error is one JSON object on stderr', (t) => {
    const w = workspace(t);
    w.ok('session', 'new', '--key', 'a');
    const cases = [
        [['session', 'show', 'nobody', '--json'], 1, 'not_found'],
        [['session', 'shw', '--json'], 2, 'invalid'],
        [['session', 'list', '--bogus', '--json'], 2, 'invalid'],
        [['session', 'new', '--key', 'a', '--json'], 1, 'conflict'],
    ];
    for (const [args, code, name] of cases) {
        const result = w.run(...args);
        const failure = JSON.parse(result.err);
        assert.equal(result.code, code, result.err);
        assert.equal(result.out, '');
        assert.equal(failure.code, name);
        assert.ok(failure.error.length > 0);
        assert.ok(failure.hint === null || failure.hint.length > 0);
    }
    assert.match(JSON.parse(w.run('session', 'shw', '--json').err).hint, /session show/);
});
