// OpenAI's vocabularies: the same ids as tiktoken for every text, and the same ids as gpt-tokenizer
// for text in known languages. The tests name the cases in which the two packages differ.
import { test } from 'node:test';
import { Dump, WRITTEN, batches, checkSame, gptTokenizer, megabytes, missing, progress, quote, same,
    seed, tiktoken, withoutJavascriptDifferences } from './support.mjs';

const SHARES = { o200k_base: 1, cl100k_base: 1, p50k_base: 0.1, r50k_base: 0.1 };

async function compare(t, name, share) {
    const dump = new Dump(name);
    const stream = new Dump(name, seed);
    t.after(() => { dump.close(); stream.close(); });
    const [openai, gpt] = [tiktoken(name), gptTokenizer(name)];
    const total = megabytes * 1e6 * share;
    const report = progress(name, total);
    const differing = { known: 0, other: [] };
    for (const batch of batches(total)) {
        const list = batch.map(({ text }) => text);
        const [whole, pieces] = [await dump.encode(list), await stream.encode(list)];
        for (const [i, { kind, text }] of batch.entries()) {
            const theirs = openai(text);
            await checkSame(dump, openai, text, whole[i], kind, theirs);
            await checkSame(stream, openai, text, pieces[i], `stream of ${kind}`, theirs);
            if (same(whole[i], gpt(text))) continue;
            const plain = withoutJavascriptDifferences(text);
            if (same(openai(plain), gpt(plain))) differing.known++;
            else if (WRITTEN.includes(kind))
                await checkSame(dump, gpt, text, whole[i], `gpt-tokenizer, ${kind}`);
            else differing.other.push(text);
        }
        report(batch);
    }
    t.diagnostic(`gpt-tokenizer differs from tiktoken on ${differing.known} texts with U+0085, `
        + `U+FEFF or 'U+017F, and on ${differing.other.length} others`);
    for (const text of differing.other.slice(0, 10)) t.diagnostic(quote(text.slice(0, 200)));
}

for (const [name, share] of Object.entries(SHARES)) {
    test(`${name} equals tiktoken, on ${(megabytes * share).toFixed(1)} MB with seed ${seed}`,
        { skip: missing(name) }, (t) => compare(t, name, share));
}

// Blocks of which a short run tests only the beginning: the first and the last character have the
// same class.
const UNIFORM = [[0x3400, 0x4dff], [0x4e00, 0x9fff], [0xac00, 0xd7ff], [0xe000, 0xf8ff],
    [0x17000, 0x187ff], [0x20000, 0x2a5ff], [0x2a700, 0x10ffff]];

function isLeftOut(start) {
    if (start >= 0xd800 && start < 0xe000) return true;
    return megabytes <= 10
        && UNIFORM.some(([first, last]) => start > first && start + 256 < last);
}

// Every character in places where its class matters: after and before letters, digits, marks and
// spaces.
function* characterTexts() {
    for (let start = 0; start < 0x110000; start += 256) {
        if (isLeftOut(start)) continue;
        let text = '';
        for (let code = start; code < start + 256; code++) {
            const c = String.fromCodePoint(code);
            text += `a${c}b${c}A 1${c} ${c}${c}'s\u0301${c}.${c}\n`;
        }
        yield text;
    }
}

for (const name of ['o200k_base', 'cl100k_base', 'r50k_base']) {
    test(`${name} knows every character's class`, { skip: missing(name) }, async (t) => {
        const dump = new Dump(name);
        t.after(() => dump.close());
        const openai = tiktoken(name);
        const list = [...characterTexts()];
        const ids = await dump.encode(list);
        for (const [i, text] of list.entries())
            await checkSame(dump, openai, text, ids[i], 'characters');
    });
}

// The longest text that tiktoken encodes in a moment; its time grows with the square of the length.
const LONG = {
    'a letter': 'a', 'a space': ' ', 'an end of line': '\n', 'a tab': '\t', 'an equals sign': '=',
    'a capital': 'A', 'two letters': 'ab', 'an ideograph': '中', 'kana': 'ー', 'a mark': '\u0301',
    'an emoji': '😀', 'a digit': '7', 'ends of lines': '\r\n', 'capital and small': 'Aa',
    'spaces and lines': ' \n', 'a full stop and a slash': './', 'a zero': '\0', 'Thai': 'ก',
};

for (const name of ['o200k_base', 'cl100k_base']) {
    test(`${name} of long repeats`, { skip: missing(name) }, async (t) => {
        const dump = new Dump(name);
        t.after(() => dump.close());
        const openai = tiktoken(name);
        for (const [what, unit] of Object.entries(LONG)) {
            const text = unit.repeat(3000 / Buffer.byteLength(unit));
            for (const tail of ['', ' é', '\nY']) {
                const [ids] = await dump.encode([text + tail]);
                await checkSame(dump, openai, text + tail, ids, what);
            }
        }
    });
}
