// code.js - colors of code. One pass over the text finds comments, strings, numbers and the words
// that many languages share. Code of an unknown language, and very long code, stays plain.
import { h } from './core.js';

const BYTES_MAX = 100000;
const KEYWORDS = new Set([
    'abstract and as async await begin bool break case catch char class const continue def',
    'default del delete do double elif else end enum except export extends extern false',
    'False final finally float fn for foreach from func function go goto if impl import in',
    'instanceof int interface is lambda let long loop match mod module mut namespace new',
    'nil None not null nullptr or package pass private protected pub public raise readonly',
    'return self short signed sizeof static struct super switch template then this throw',
    'trait true True try type typedef typeof undefined union unless unsigned until use',
    'using var virtual void volatile when where while with yield select insert update where',
    'join left right inner outer on group order by having limit create table values into',
    'set',
].join(' ').split(' '));
const HASH_COMMENTS = new Set(['py', 'python', 'sh', 'bash', 'shell', 'yaml', 'yml', 'toml', 'ruby',
    'rb', 'perl', 'r', 'make', 'makefile', 'dockerfile', 'ini', 'conf', 'elixir', 'console']);
const DASH_COMMENTS = new Set(['sql', 'lua', 'haskell', 'ada']);
const PLAIN = new Set(['', 'text', 'txt', 'plain', 'markdown', 'md', 'log', 'output']);
const REST = [
    ['string', '"(?:[^"\\\\\\n]|\\\\.)*"|\'(?:[^\'\\\\\\n]|\\\\.)*\'|`(?:[^`\\\\]|\\\\.)*`'],
    ['number', '\\b(?:0[xX][0-9a-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\b'],
    ['word', '[A-Za-z_$][\\w$]*'],
];

function commentOf(language) {
    if (HASH_COMMENTS.has(language))
        return '#[^\\n]*';
    if (DASH_COMMENTS.has(language))
        return '--[^\\n]*';
    return '//[^\\n]*|/\\*[^]*?(?:\\*/|$)';
}

function classOf(kind, text, next) {
    if (kind !== 'word')
        return kind;
    if (KEYWORDS.has(text))
        return 'key';
    return next === '(' ? 'call' : null;
}

function paintDiff(text) {
    return text.split('\n').flatMap((line, i) => {
        const mark = { '+': 'added', '-': 'removed', '@': 'key' }[line[0]];

        return [i ? '\n' : '', mark ? h('span', { class: `c-${mark}` }, line) : line];
    });
}

// Returns the text as nodes and texts.
export function paint(text, language) {
    const name = language.toLowerCase();

    if (PLAIN.has(name) || text.length > BYTES_MAX)
        return [text];
    if (name === 'diff' || name === 'patch')
        return paintDiff(text);
    const rules = [['comment', commentOf(name)], ...REST];
    const scanner = new RegExp(rules.map(([kind, rule]) => `(?<${kind}>${rule})`).join('|'), 'g');
    const nodes = [];
    let at = 0;

    for (const match of text.matchAll(scanner)) {
        const [kind] = Object.entries(match.groups).find(([, found]) => found !== undefined);
        const end = match.index + match[0].length;
        const color = classOf(kind, match[0], text[end]);

        if (!color)
            continue;
        nodes.push(text.slice(at, match.index), h('span', { class: `c-${color}` }, match[0]));
        at = end;
    }
    nodes.push(text.slice(at));
    return nodes;
}
