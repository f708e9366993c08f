// bench_tokens_kinds.mjs - what a byte of each kind of text costs, in nanoseconds on one core, and
// how many times the cost of usual text that is.
//
//   node bench_tokens_kinds.mjs BENCH_TOKENS SOURCE_ROOT [--quick] [ENCODING...]
//
// Usual is the mean of prose in three languages, code and JSON. Nobody should be able to send a text
// that costs many times as much.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fill, hardTexts, usualTexts } from './bench_tokens_texts.mjs';

const USUAL = ['English', 'German', 'Chinese', 'code', 'JSON'];
const ALL = ['o200k_base', 'cl100k_base', 'qwen3', 'deepseek_v3', 'tekken', 'claude', 'p50k_base',
    'r50k_base'];
const [program, root, ...rest] = process.argv.slice(2);
const isQuick = rest.includes('--quick');
const named = rest.filter((word) => word !== '--quick');
const encodings = named.length > 0 ? named : isQuick ? ['o200k_base'] : ALL;
const size = isQuick ? 4096 : 1 << 20;

function measure(dir, encoding, names) {
    const files = names.map((name) => path.join(dir, name));
    return execFileSync(program, ['--count', encoding, ...files], { encoding: 'utf8' })
        .trim().split('\n').map((line) => 1000 / Number(line.split(' ')[2]));
}

function row(name, cells) {
    console.log(name.padEnd(30) + cells.map((cell) => cell.padStart(18)).join(''));
}

const usual = usualTexts(root);
const texts = { ...Object.fromEntries(USUAL.map((kind) => [kind, fill(usual[kind], size)])),
    ...hardTexts(size) };
const kinds = Object.keys(texts).slice(0, isQuick ? USUAL.length + 2 : undefined);
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-bench-'));
try {
    for (const kind of kinds) fs.writeFileSync(path.join(dir, kind), texts[kind]);
    const columns = encodings.map((encoding) => {
        const costs = measure(dir, encoding, kinds);
        const mean = costs.slice(0, USUAL.length).reduce((a, b) => a + b) / USUAL.length;
        return { costs, mean };
    });
    row('ns for each byte (ratio)', encodings);
    for (const [i, kind] of kinds.entries())
        row(kind, columns.map(({ costs, mean }) =>
            `${costs[i].toFixed(1)} (${(costs[i] / mean).toFixed(1)})`));
    row('usual', columns.map(({ mean }) => mean.toFixed(1)));
    row('worst', columns.map(({ costs, mean }) =>
        `${Math.max(...costs).toFixed(1)} (${(Math.max(...costs) / mean).toFixed(1)})`));
} finally {
    fs.rmSync(dir, { recursive: true });
}
