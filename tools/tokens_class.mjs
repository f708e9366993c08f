// tokens_class.mjs - writes src/tokens/tokens_class_data.c: what kind of character each code point
// is to the patterns that split texts. tiktoken is asked, not a Unicode database, since it is the
// reference: its engine knows one version of Unicode, Node another.
//
//   node tools/tokens_class.mjs DIRECTORY-OF-NODE_MODULES > src/tokens/tokens_class_data.c
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.resolve(process.argv[2] ?? 'node_modules', 'x.js'));
const { Tiktoken } = require('tiktoken');

// The order is that of enum pal_class.
const CLASSES = [
    null,
    '[\\p{P}\\p{S}]',
    '[\\p{Lu}\\p{Lt}]',
    '\\p{Ll}',
    '[\\p{Lm}\\p{Lo}]',
    '\\p{M}',
    '\\p{N}',
    '[\\r\\n]',
    '\\s',
];

const bytes = [];
for (let i = 0; i < 256; i++) bytes.push(Buffer.from([i]).toString('base64'));
const matchers = CLASSES.map((pattern) =>
    pattern ? new Tiktoken(`! 0 ${bytes.join(' ')}`, {}, pattern) : null);

// What a matcher leaves of a text is what it matched.
function classOf(codePoint) {
    if (codePoint >= 0xd800 && codePoint < 0xe000) return 0;
    const text = String.fromCodePoint(codePoint);
    for (let i = 1; i < matchers.length; i++) {
        if (matchers[i].encode(text).length > 0) return i;
    }
    return 0;
}

function blockNumber(blocks, key) {
    if (!blocks.has(key)) blocks.set(key, blocks.size);
    return blocks.get(key);
}

const leaves = new Map();
const middles = new Map();
const tops = [];
for (let top = 0; top < 0x110; top++) {
    const middle = [];
    for (let m = 0; m < 64; m++) {
        let leaf = '';
        for (let i = 0; i < 64; i++) leaf += classOf((top << 12) | (m << 6) | i);
        middle.push(blockNumber(leaves, leaf));
    }
    tops.push(blockNumber(middles, middle.join(',')));
}

function rows(numbers, perRow) {
    const out = [];
    for (let i = 0; i < numbers.length; i += perRow) {
        out.push(`    ${numbers.slice(i, i + perRow).join(', ')},`);
    }
    return out.join('\n');
}

function block(numbers) {
    return `    {\n${rows(numbers.split(','), 16).replace(/^/gm, '    ')}\n    },`;
}

console.log(`\
/* tokens_class_data.c - made by tools/tokens_class.mjs; not to be edited. Three steps of
 * a code point's bits: the upper ones, the middle six, the lower six. A leaf has a digit of enum
 * pal_class for each character. */
#include "tokens/tokens_class.h"

const uint8_t pal_class_tops[${tops.length}] = {
${rows(tops, 16)}
};

const uint16_t pal_class_middles[${middles.size}][64] = {
${[...middles.keys()].map(block).join('\n')}
};

const char pal_class_leaves[${leaves.size}][65] = {
${[...leaves.keys()].map((leaf) => `    "${leaf}",`).join('\n')}
};`);
