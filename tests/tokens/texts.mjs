// texts.mjs - texts of every kind, which depend only on the seed. All are valid Unicode.
import { CODE, EMOJI, SENTENCES } from './sentences.mjs';

// mulberry32: small, and good enough to choose texts.
export function randomFrom(seed) {
    let state = seed >>> 0;

    const next = () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = Math.imul(state ^ (state >>> 15), state | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    return {
        below: (n) => Math.floor(next() * n),
        pick: (list) => list[Math.floor(next() * list.length)],
        chance: (p) => next() < p,
    };
}

const LANGUAGES = Object.keys(SENTENCES);
const CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'Ll", "'ſ", "'x", "’s"];
const SPACES = [' ', '  ', '\n', '\n\n', '\r\n', '\t', '\u00a0', '\u3000', '\u2028', '\u0085', '   ', '\n  ', '\v', '\f', '\r'];
const MARKS = ['\u0301', '\u0308', '\u0327', '\u093c', '\u20dd', '\ufe0f', '\u200d', '\u200b', '\u00ad'];
// Characters of blocks in which letters, marks, numbers and cases are mixed in unusual ways.
const UNUSUAL = ['ǅ', 'ǈ', 'ʰ', 'ͅ', 'ª', 'ß', 'İ', 'ı', 'ſ', 'K', 'Å', 'Ⅷ', 'ⅷ', '²', '½', '٣', '߂', '௰', '㊿', '〇', '〡', '一', '龥', '龦', '々', 'ー', 'ゝ', 'ｶ', 'Ａ', 'ａ', '𝐀', '𝒶', '𐐀', '𐐨', '𞤀', '𞤢', 'Ꭰ', 'ꭰ', 'ა', 'Ა', 'ﬁ', '・', '･', '_', '‿', '؟', '。', '€', '￥', '＋', '\ud7fb', '\u{10fffd}', '\u0000', '\u001f', '\u007f', '\ufeff', '\ufffd', '\uffff'];

function words(text) {
    return text.split(/(?<= )/);
}

function prose(random) {
    const sentences = SENTENCES[random.pick(LANGUAGES)];
    let text = '';

    for (let i = random.below(6); i >= 0; i--)
        text += random.pick(sentences) + (random.chance(0.2) ? random.pick(SPACES) : ' ');
    return text;
}

// Words of all languages in random order, with changed case, cut and joined.
function mixed(random) {
    let text = '';

    for (let i = random.below(60); i >= 0; i--) {
        let word = random.pick(words(random.pick(SENTENCES[random.pick(LANGUAGES)])));

        if (random.chance(0.2))
            word = random.chance(0.5) ? word.toUpperCase() : word.toLowerCase();
        if (random.chance(0.2))
            word = [...word].slice(random.below(3)).join('');
        if (random.chance(0.2))
            word = word.trimEnd();
        if (random.chance(0.1))
            word += random.pick(CONTRACTIONS);
        if (random.chance(0.1))
            word += random.pick(SPACES);
        text += word;
    }
    return text;
}

function code(random) {
    let text = '';

    for (let i = random.below(4); i >= 0; i--) {
        const lines = random.pick(CODE).split('\n');
        const indent = random.pick(['', '    ', '\t', '  ', '\t\t', '                ']);

        text += lines.map((line) => indent + line).join('\n');
        if (random.chance(0.3)) {
            text += `${random.pick(['x', 'camelCaseName', 'SNAKE_CASE', 'HTTPServer2', '__init__'])} `
                + `${random.pick(['=', '==', '!=', '+=', '->', '=>', '&&', '||', '<<', '::'])} `
                + `${random.pick(['0x7fFF', '3.14159e-10', '1_000_000', '"a\\n"', "'c'", 'null'])};`
                + random.pick(['\n', '\r\n', ' // end\n', ' /* end */\n\n\n']);
        }
    }
    return text;
}

function jsonValue(random, depth) {
    const kind = random.below(depth > 3 ? 4 : 6);

    if (kind === 0)
        return random.below(2 ** 31) / random.pick([1, 10, 1000]);
    if (kind === 1)
        return random.pick([true, false, null]);
    if (kind < 4)
        return random.pick(SENTENCES[random.pick(LANGUAGES)]).slice(0, random.below(40));
    const values = Array.from({ length: random.below(6) }, () => jsonValue(random, depth + 1));
    if (kind === 4)
        return values;
    return Object.fromEntries(values.map((value, i) => [
        random.pick(['id', 'name', 'created_at', 'toolCallId', 'Ω', 'x-header']) + i, value]));
}

function json(random) {
    const values = Array.from({ length: 1 + random.below(8) }, () => jsonValue(random, 0));

    return JSON.stringify(values, null, random.pick([0, 2, 4, '\t']));
}

function emoji(random) {
    let text = '';

    for (let i = random.below(30); i >= 0; i--)
        text += random.pick(EMOJI) + (random.chance(0.3) ? random.pick([' ', '\n', '!', 'ok']) : '');
    return text;
}

function codePoint(random) {
    const limit = random.pick([0x80, 0x250, 0x800, 0x3000, 0x10000, 0x20000, 0x32000, 0x110000]);

    for (;;) {
        const value = random.below(limit);

        if (value < 0xd800 || value > 0xdfff)
            return String.fromCodePoint(value);
    }
}

function unicode(random) {
    return Array.from({ length: 1 + random.below(200) }, () => codePoint(random)).join('');
}

// Runs within one block, whose characters have much in common.
function block(random) {
    const start = random.below(0x32000) & ~0xff;
    let text = '';

    for (let i = random.below(100); i >= 0; i--) {
        const value = start + random.below(256);

        text += value < 0xd800 || value > 0xdfff ? String.fromCodePoint(value) : '?';
        if (random.chance(0.15))
            text += random.pick(SPACES);
    }
    return text;
}

// Random bytes, in which invalid UTF-8 becomes U+FFFD.
function bytes(random) {
    const limit = random.pick([128, 128, 256]);

    return Buffer.from(Array.from({ length: 1 + random.below(300) }, () => random.below(limit)))
        .toString('utf8');
}

function snippet(random) {
    const from = random.below(10);

    if (from === 0)
        return random.pick(SPACES);
    if (from === 1)
        return random.pick(MARKS);
    if (from === 2)
        return random.pick(CONTRACTIONS);
    if (from === 3)
        return random.pick(EMOJI);
    if (from < 6)
        return random.pick(UNUSUAL);
    if (from === 6)
        return codePoint(random);
    if (from === 7)
        return random.pick(['<|endoftext|>', '<|endofprompt|>', '<|fim_prefix|>']);
    return String.fromCharCode(33 + random.below(94)).repeat(1 + random.below(3));
}

// One or two snippets repeated up to 1,500 characters: the hardest case for merging.
function repeats(random) {
    const unit = snippet(random) + (random.chance(0.5) ? snippet(random) : '');
    const times = 1 + random.below(Math.floor(1500 / unit.length));

    return (random.chance(0.3) ? snippet(random) : '') + unit.repeat(times)
        + (random.chance(0.3) ? snippet(random) : '');
}

// Runs of one character, next to each other. Vocabularies have tokens for runs of many lengths.
function runs(random) {
    const characters = [...(random.chance(0.5) ? '-=*#/_.~+' : ' \t\n\r-=xA0é中')];
    const longest = random.pick([20, 70, 300]);
    let text = '';

    while (text.length < 1000 && !random.chance(0.05)) {
        text += random.pick(characters).repeat(1 + random.below(longest));
        if (random.chance(0.2)) text += snippet(random);
    }
    return text;
}

// Characters that the splitting rules distinguish, next to each other.
function borders(random) {
    let text = '';

    for (let i = random.below(80); i >= 0; i--)
        text += snippet(random);
    return text;
}

// Letters of one script without spaces.
function unbroken(random) {
    const letters = [...SENTENCES[random.pick(LANGUAGES)].join('').replace(/[^\p{L}\p{M}]/gu, '')];

    return Array.from({ length: 1 + random.below(800) }, () => random.pick(letters)).join('');
}

export const KINDS = {
    prose, mixed, code, json, emoji, unicode, block, bytes, repeats, runs, borders,
    unbroken,
};

// How many of ten thousand texts are of each kind, so that each kind has about the same number of
// bytes.
const WEIGHTS = {
    prose: 3000, mixed: 1500, code: 1500, json: 1200, emoji: 500, unicode: 700, block: 600, bytes: 600,
    repeats: 300, runs: 300, borders: 700, unbroken: 200,
};

// An endless sequence of {kind, text}. `kinds` selects the kinds.
export function* texts(seed, kinds = Object.keys(KINDS)) {
    const random = randomFrom(seed);
    const wheel = kinds.flatMap((kind) => Array(WEIGHTS[kind] / 100).fill(kind));

    for (;;) {
        const kind = random.pick(wheel);

        yield { kind, text: KINDS[kind](random) };
    }
}
