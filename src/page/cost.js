// cost.js - what model calls used: sums, and tables as files.
import { brief, count, money } from './core.js';

const SUMMED = ['input_tokens', 'cache_read_tokens', 'cache_write_tokens', 'output_tokens',
    'reasoning_tokens', 'cost_micros'];

// All tokens that were sent. `input_tokens` counts only those that no cache had.
export const inputOf = (usage) => (usage.input_tokens ?? 0) + (usage.cache_read_tokens ?? 0)
    + (usage.cache_write_tokens ?? 0);
export const tokensOf = (usage) => inputOf(usage) + (usage.output_tokens ?? 0);

// The part of the input that came from the cache of the service, in percent.
export function cachedShare(usage) {
    const input = inputOf(usage);

    return input ? Math.round(100 * (usage.cache_read_tokens ?? 0) / input) : 0;
}

export function sumOf(rows) {
    const sum = { calls: rows.length };

    for (const name of SUMMED)
        sum[name] = rows.reduce((total, row) => total + (row[name] ?? 0), 0);
    return sum;
}

// What a call costs at the prices for a million tokens, in millionths.
export const costOf = (usage, price) => Object.entries({ input: 'input_tokens',
    cache_read: 'cache_read_tokens', cache_write: 'cache_write_tokens', output: 'output_tokens' })
    .reduce((sum, [name, tokens]) => sum + (price[name] ?? 0) * (usage[tokens] ?? 0) / 1e6, 0);

// "in 402 (351 cached), out 41, $0.0019"
export function usageText(usage, cost) {
    const cached = usage.cache_read_tokens ?? 0;

    return `in ${brief(inputOf(usage))}${cached ? ` (${brief(cached)} cached)` : ''}, `
        + `out ${brief(usage.output_tokens ?? 0)}${cost ? `, ${money(cost)}` : ''}`;
}

export const costText = (micros) => (micros ? money(micros) : '–');
export const countText = (n) => (n ? count(n) : '–');

// ---- Files ----

const FORMULA = /^[=+\-@\t\r]/; // what a table calculator would run

function cell(value) {
    const text = String(value ?? '');
    const safe = typeof value === 'string' && FORMULA.test(text) ? `'${text}` : text;

    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// The rows as comma-separated values. `names` are the members that become columns.
export function csvOf(rows, names) {
    return [names, ...rows.map((row) => names.map((name) => row[name]))]
        .map((row) => row.map(cell).join(',')).join('\r\n');
}
