// bench_tokens_texts.mjs - the texts that counting is measured on: usual ones, and those that are
// made to be hard.
import fs from 'node:fs';
import path from 'node:path';
import { SENTENCES } from '../tests/tokens/sentences.mjs';
import { randomFrom } from '../tests/tokens/texts.mjs';

const random = randomFrom(1);

function readAll(root, folders, endings) {
    let text = '';
    for (const folder of folders) {
        for (const entry of fs.readdirSync(path.join(root, folder), { withFileTypes: true })) {
            const name = path.join(folder, entry.name);
            if (entry.isDirectory()) text += readAll(root, [name], endings);
            else if (endings.some((ending) => name.endsWith(ending)) && !/_data\./.test(name))
                text += fs.readFileSync(path.join(root, name), 'utf8');
        }
    }
    return text;
}

// Text of `size` bytes, or a little more.
export function fill(next, size) {
    const parts = [];
    for (let bytes = 0; bytes < size;) {
        const part = next();
        parts.push(part);
        bytes += Buffer.byteLength(part);
    }
    return parts.join('');
}

// Clauses are hardly ever the same twice, as in real text; words and short phrases are.
function clause(language) {
    const text = random.pick(SENTENCES[language]);
    if (text.split(' ').length > 4)
        return `${random.pick(text.split(' '))} ${random.pick(text.split(' '))} `;
    let made = '';
    for (let i = 1 + random.below(4); i >= 0; i--) {
        const at = random.below(text.length);
        made += text.slice(at, at + 2 + random.below(3));
    }
    return made + random.pick(['，', '。', '、', ' ', '。\n']);
}

// By kind, a function that gives the next part of such a text.
export function usualTexts(root) {
    const paragraphs = readAll(root, ['docs'], ['.md']).split('\n\n')
        .filter((text) => /^[A-Z]/.test(text));
    const sources = readAll(root, ['src', 'include'], ['.c', '.h']).split('\n\n');
    const nextOf = {
        English: () => `${random.pick(paragraphs)}\n\n`,
        code: () => `${random.pick(sources)}\n\n`,
        JSON: () => `${JSON.stringify({
            id: random.below(2 ** 31).toString(16).padStart(8, '0'),
            role: random.pick(['user', 'assistant', 'tool']),
            created_at: 1700000000000 + random.below(1e9),
            parts: [{ kind: 'text', text: random.pick(paragraphs).slice(0, random.below(300)) }],
            usage: { input: random.below(1e5), output: random.below(4000) },
        })}\n`,
        German: () => clause('german'),
        Chinese: () => clause('chinese'),
        CJK: () => clause(random.pick(['chinese', 'japanese', 'korean'])),
        'other scripts': () => clause(random.pick(Object.keys(SENTENCES))),
    };
    nextOf['English and code'] = () => nextOf[random.pick(['English', 'code'])]();
    // As conversations are: mostly English and code, some data, a sentence in another language.
    nextOf.mixed = () => (random.chance(0.2)
        ? `${random.pick(SENTENCES[random.pick(Object.keys(SENTENCES))])}\n`
        : nextOf[random.pick(['English', 'English', 'English', 'code', 'code', 'code', 'JSON'])]());
    return nextOf;
}

// By kind, a text of about `len` bytes that is hard to count.
export function hardTexts(len) {
    const some = (next) => fill(next, len);
    const letters = (first, last) =>
        some(() => String.fromCodePoint(first + random.below(last - first)));
    const of = (characters) => some(() => random.pick(characters));
    const runs = (characters, longest) =>
        some(() => random.pick([...characters]).repeat(1 + random.below(longest)));
    const base64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

    return {
        'one letter': 'a'.repeat(len),
        'one capital': 'A'.repeat(len),
        'two letters': 'ab'.repeat(len / 2),
        spaces: ' '.repeat(len),
        tabs: '\t'.repeat(len),
        'ends of lines': '\n'.repeat(len),
        dashes: '-'.repeat(len),
        hashes: '#'.repeat(len),
        'runs of signs': runs('-=*#/_', 300),
        'short runs of signs': runs('-=*#/_', 20),
        'shortest runs of signs': runs('-=*#/_', 4),
        'runs of spaces': runs(' \t\n', 60),
        'short runs of spaces': runs(' \t\n', 8),
        'short runs of spaces and tabs': runs(' \t', 8),
        'random bytes': Buffer.from(Array.from({ length: len }, () => random.below(256))),
        'random letters': letters(0x61, 0x7b),
        'random capitals': letters(0x41, 0x5b),
        'random ASCII': letters(0x20, 0x7f),
        base64: of([...base64]),
        hexadecimal: of([...'0123456789abcdef']),
        digits: letters(0x30, 0x3a),
        punctuation: letters(0x21, 0x30),
        'unbroken CJK': letters(0x4e00, 0x9fa6),
        'unbroken Hangul': letters(0xac00, 0xd7a4),
        'combining marks': letters(0x300, 0x370),
        'random Unicode': letters(0xe000, 0x10ffff),
        emoji: letters(0x1f300, 0x1f650),
    };
}
