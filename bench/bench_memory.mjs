// bench_memory.mjs - what the long-term memory costs in a conversation of 500 turns: the same
// conversation without notes, with notes that are added one by one, and with notes from a model.
//
//   PALAVER_BIN=build-test/gcc/palaver TURNS=500 node --test bench/bench_memory.mjs
//
// Each request is compared with the one before it: what is equal at the beginning comes from the
// service's cache. A "break" is a request that does not begin with all of the one before it.
// Requests for notes and summaries count as not cached.
import { after, test } from 'node:test';
import { serveModel } from '../tests/server/model.mjs';

const TURNS = Number(process.env.TURNS ?? 500);
const EVERY = 25; // turns between two notes
const CACHED = 0.1; // price of a cached token, relative to a new one
const BYTES_PER_TOKEN = 4;
const WORDS = 'boat harbor sail wind rope anchor tide island storm map compass deck crew captain'.split(' ');
const scope = { version: 1, agent_id: 'main', channel: 'matrix', account: 'default',
    dimensions: ['chat'], values: { chat: 'direct:@ann:hs' } };
const sentence = (n) => Array.from({ length: 40 }, (_, i) => WORDS[(n * 7 + i * i) % WORDS.length]).join(' ');
const rows = [];

function commonLength(a, b) {
    let n = 0;

    while (n < a.length && a[n] === b[n]) n++;
    return n;
}

async function run(t, name, config, notes) {
    const s = await serveModel(t, { config: `models: [{name: mock-model, context: 32000, output: 2000}]\n`
        + `turn: {system: "You are a helpful sailor."}\n${config}` });
    const id = await s.session({ key: 'one', scope });
    let last = '';
    const sum = { requests: 0, tokens: 0, cached: 0, breaks: 0 };

    for (let n = 0; n < TURNS; n++) {
        const isNoted = n % EVERY === 0;
        const fact = `I own boat number ${n}.`;
        const proposal = notes === 'model' && isNoted ? ` <<say ${JSON.stringify({ notes: [
            { text: fact, kind: 'fact', from: [1], quote: fact.slice(0, -1) }] })}>>` : '';
        const { code, text } = await s.turn(id, { message: `${isNoted ? fact : ''} ${sentence(n)}${proposal}` });

        if (code !== 200) throw new Error(text);
        if (notes === 'added' && isNoted) {
            const { json: { last_seq: seq } } = await s.get(`/api/v1/sessions/${id}`);

            await s.post('/api/v1/notes', { text: fact, kind: 'fact',
                source: { session: id, seq: seq - 1, quote: fact.slice(0, -1) } });
        }
        const asked = await s.asked();

        await fetch(`${s.model.url}/__requests`, { method: 'DELETE' });
        for (const request of asked) {
            const now = JSON.stringify(request.messages);
            const isAside = /^You read a part|Stop here/.test(JSON.stringify(request.messages.at(-1))) ||
                /You read a part/.test(now.slice(0, 200));
            const equal = commonLength(last, now);

            sum.requests++;
            sum.tokens += now.length / BYTES_PER_TOKEN;
            sum.cached += (isAside && !now.startsWith(last.slice(0, 200)) ? 0 : equal) / BYTES_PER_TOKEN;
            if (!isAside) {
                sum.breaks += last !== '' && equal < last.length - 2;
                last = now;
            }
        }
    }
    rows.push([name, sum.requests, Math.round(sum.tokens), Math.round(sum.cached), sum.breaks,
        Math.round(sum.tokens - sum.cached + CACHED * sum.cached)]);
}

for (const [name, config, notes] of [['without', 'memory: {direct: off}\n', ''],
    ['notes that are added', '', 'added'],
    ['notes from a model', 'memory: {model: mock-model, run_quiet: 1ms, run_idle: 1h, tokens_per_day: 100000000}\n', 'model']])
    test(name, (t) => run(t, name, config, notes));

after(() => {
    const base = rows[0][5];

    console.log(['memory', 'requests', 'tokens', 'cached', 'breaks', 'cost', 'relative'].join('\t'));
    for (const row of rows) console.log([...row, (row[5] / base).toFixed(3)].join('\t'));
});
