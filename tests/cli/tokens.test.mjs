// `palaver tokens`: counts, ids, models, the user's vocabularies, and what is reported about
// estimates. A build without vocabularies runs the tests that make sense there.
import test from 'node:test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { palaver, binary, workspace, assertFails, here } from './support.mjs';

const samples = path.join(here, '..', 'data', 'tokens');
const counts = JSON.parse(fs.readFileSync(path.join(samples, 'counts.json'), 'utf8'));

const tokens = (args, input) => palaver(['tokens', ...args], { input });
const list = JSON.parse(palaver(['tokens', 'list', '--json']).out);
const has = (name) => list.encodings.some((encoding) => encoding.name === name);
const noVocabulary = !has('o200k_base') && 'this build has no vocabularies';

function ok(result) {
    assert.equal(result.code, 0, result.err);
    return result;
}

test('an estimate prints the number on stdout and the reason on stderr', () => {
    const result = ok(tokens(['--encoding', 'estimate'], '12345'));
    assert.equal(result.out, '2\n');
    assert.equal(result.err, 'estimate: an estimate was requested\n');
    const unknown = ok(tokens(['--model', 'who/knows'], '12345'));
    assert.equal(unknown.out, '2\n');
    assert.equal(unknown.err, "estimate: model 'who/knows' is not known\n");
    const closed = ok(tokens(['--model', 'models/gemini-2.5-flash'], '12345'));
    assert.equal(closed.err, "estimate: this build has no vocabulary for 'models/gemini-2.5-flash'\n");
});

test('JSON says whether the number is exact', () => {
    const result = ok(tokens(['--model', 'who/knows', '--json'], 'h\u00e4'));
    assert.equal(result.err, '');
    assert.deepEqual(JSON.parse(result.out),
        { tokens: 1, encoding: null, model: 'who/knows', exact: false, bytes: 3 });
    const empty = JSON.parse(ok(tokens(['--encoding', 'estimate', '--json'], '')).out);
    assert.deepEqual(empty, { tokens: 0, encoding: null, model: null, exact: false, bytes: 0 });
});

test('every sample has its count, from files and from stdin', { skip: noVocabulary }, () => {
    for (const [name, count] of Object.entries(counts)) {
        const file = path.join(samples, name);
        const result = ok(tokens([file]));
        assert.equal(result.out, `${count}\n`, name);
        assert.equal(result.err, '');
        assert.equal(ok(tokens(['-'], fs.readFileSync(file))).out, `${count}\n`);
    }
    const file = path.join(samples, 'korean.txt');
    assert.deepEqual(JSON.parse(ok(tokens(['--json', file])).out), { tokens: counts['korean.txt'],
        encoding: 'o200k_base', model: null, exact: true, bytes: fs.statSync(file).size });
});

test('a model selects its encoding', { skip: noVocabulary }, () => {
    const of = (model) => JSON.parse(ok(tokens(['--model', model, '--json'], 'hello')).out);
    assert.deepEqual(of('azure/gpt-4o-2024-08-06'), { tokens: 1, encoding: 'o200k_base',
        model: 'azure/gpt-4o-2024-08-06', exact: true, bytes: 5 });
    assert.equal(of('gpt-4').encoding, 'cl100k_base');
    if (!has('llama3')) {
        assert.equal(of('llama3:8b').exact, false);
        assert.match(ok(tokens(['--model', 'llama3:8b'], 'hello')).err,
            /^estimate: counted with cl100k_base, the closest encoding to 'llama3:8b' in this build\n$/);
    }
});

test('--ids prints one id per line, or JSON', { skip: noVocabulary }, () => {
    const text = 'hello world \u65e5\u672c <|endoftext|>';
    const lines = ok(tokens(['--ids'], text)).out.trimEnd().split('\n').map(Number);
    const json = JSON.parse(ok(tokens(['--ids', '--json'], text)).out);
    assert.deepEqual(lines.slice(0, 2), [24912, 2375]);
    assert.deepEqual(json.ids, lines);
    assert.equal(json.tokens, lines.length);
    assert.equal(json.exact, true);
    assert.deepEqual(JSON.parse(ok(tokens(['--ids', '--json'], '')).out).ids, []);
    assert.equal(ok(tokens(['--ids'], '')).out, '');
});

const megabyte = Buffer.from('All work and no play makes Jack a dull boy; 1, 2, 3.\n'.repeat(19784));

const highWater = (pid) =>
    Number(/VmHWM:\s+(\d+) kB/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;

test('memory does not grow with the input', async () => {
    const child = spawn(binary, ['tokens'], { stdio: ['pipe', 'pipe', 'ignore'] });
    const write = () => new Promise((resolve) => child.stdin.write(megabyte, resolve));
    let out = '';
    child.stdout.on('data', (data) => { out += data; });
    for (let i = 0; i < 4; i++) await write();
    const before = highWater(child.pid);
    for (let i = 4; i < 40; i++) await write();
    const after = highWater(child.pid);
    child.stdin.end();
    await once(child, 'close');
    assert.ok(after - before < 12, `${before} MiB after 4 MiB of text, ${after} MiB after 40`);
    assert.equal(Number(out), 40 * Number(ok(tokens([], megabyte)).out));
});

test('the configuration adds models', (t) => {
    const w = workspace(t);
    w.write('palaver.yaml', 'models:\n  - name: house-*\n    context: 77\n');
    const listed = JSON.parse(w.ok('tokens', 'list', '--json'));
    assert.deepEqual(listed.models[0],
        { name: 'house-*', encoding: null, exact: false, context: 77, output: null });
    assert.equal(w.run('tokens', '--model', 'house-1', { input: 'x' }).err,
        "estimate: this build has no vocabulary for 'house-1'\n");
});

test('the list shows encodings and models', () => {
    const text = ok(palaver(['tokens', 'list'])).out;
    assert.match(text, /^MODEL +ENCODING +EXACT +CONTEXT +OUTPUT$/m);
    if (noVocabulary) {
        assert.match(text, /^This build has no vocabularies/);
        return;
    }
    assert.match(text, /^ENCODING +SIZE\no200k_base +200019$/m);
    assert.match(text, /^gpt-4o\* +o200k_base +yes +128000 +16384$/m);
});

test('the user can compile a table', (t) => {
    const w = workspace(t);
    const token = (text, rank) => `${Buffer.from(text, 'latin1').toString('base64')} ${rank}\n`;
    let vocabulary = '';
    for (let byte = 0; byte < 256; byte++) vocabulary += token(String.fromCharCode(byte), byte);
    w.write('mine.tiktoken', vocabulary + token('ab', 256) + token('abc', 257));
    w.write('mine.special', '<|stop|> 258\n');
    const made = w.json('tokens', 'compile', '--name', 'mine', '--pattern', 'cl100k',
        '--special', 'mine.special', 'mine.tiktoken', 'mine.table');
    assert.deepEqual(made, { encoding: 'mine', bytes: fs.statSync(w.file('mine.table')).size });
    for (const name of ['mine.table', './mine.table', w.file('mine.table')]) {
        assert.deepEqual(w.json('tokens', '--encoding', name, '--ids', { input: 'abcab!' }),
            { ids: [257, 256, 33], tokens: 3, encoding: 'mine', model: null, exact: true, bytes: 6 });
    }
    assert.match(w.ok('tokens', 'compile', '--name', 'mine', '--pattern', 'cl100k', 'mine.tiktoken',
        'mine.table'), /^Compiled the table of 'mine', [\d.]+ \w+\.\n$/);
    assert.deepEqual(w.names(), ['mine.special', 'mine.table', 'mine.tiktoken']);
});

test('a wrong vocabulary creates no table', (t) => {
    const w = workspace(t);
    w.write('wrong.tiktoken', 'IQ== 0\nwhat?\n');
    const compile = (...args) => w.run('tokens', 'compile', ...args);
    assertFails(compile('--name', 'x', '--pattern', 'cl100k', 'wrong.tiktoken', 'out'), 1, /line 2: /);
    assertFails(compile('--name', 'x', '--pattern', 'zzz', 'wrong.tiktoken', 'out'), 1, /zzz/);
    assertFails(compile('--name', 'x', 'wrong.tiktoken', 'out'), 2, /--name and --pattern/);
    assertFails(compile('--name', 'x', '--pattern', 'cl100k', 'nowhere', 'out'), 1, /nowhere/);
    assert.deepEqual(w.names(), ['wrong.tiktoken']);
});

test('files with names of commands can be counted', (t) => {
    const w = workspace(t);
    w.write('list', '12345678');
    assert.equal(w.ok('tokens', '--encoding', 'estimate', './list'), '2\n');
    assert.equal(w.ok('tokens', '--encoding', 'estimate', 'list'), '2\n');
    assert.equal(w.ok('tokens', '--encoding', 'estimate', '--', 'list'), '2\n');
});

test('wrong command lines are rejected', (t) => {
    const w = workspace(t);
    assertFails(w.run('tokens', '--encoding', 'o200k', '--model', 'gpt-4'), 2, /--encoding and --model cannot be combined/);
    assertFails(w.run('tokens', '--encoding', 'zzz'), 2, /unknown encoding 'zzz'\nhint: run 'palaver tokens list'/);
    assertFails(w.run('tokens', '--encoding', './zzz'), 1, /zzz/);
    assertFails(w.run('tokens', '--ids', '--encoding', 'estimate'), 2, /--ids is not possible for an estimate/);
    assertFails(w.run('tokens', 'nowhere.txt'), 1, /could not read 'nowhere.txt'/);
    assertFails(w.run('tokens', '.'), 1, /could not read '\.'/);
    assertFails(w.run('tokens', 'a', 'b'), 2, /unexpected argument 'b'/);
    if (!noVocabulary)
        assertFails(w.run('tokens', '--encoding', 'o200k_bas'), 2, /hint: did you mean o200k_base\?/);
    w.write('not-a-table', 'x'.repeat(100));
    assertFails(w.run('tokens', '--encoding', 'not-a-table'), 1, /table/);
});
