// bench_search.mjs - how good and how fast ranked searches are.
//
//   node bench_search.mjs PALAVER DIRECTORY --locomo FILE
//   node bench_search.mjs PALAVER DIRECTORY --beam DIRECTORY
//   node bench_search.mjs PALAVER DIRECTORY --messages N [--queries N] [--quick]
//
// --locomo reads locomo10.json of LoCoMo (github.com/snap-research/LoCoMo). Each conversation is a
// session. A question of the categories 1 to 4 counts if messages with its evidence are named:
// any@k says how often one of them is among the best k hits, all@k how often all are.
//
// --beam reads a directory of chats of BEAM (github.com/mohammadtavakoli78/BEAM), for example
// chats/1M. recall@10 is the mean share of a question's source messages that are among the best ten
// hits: once over all messages, once over those of the user only. Chats whose files are incomplete
// are left out, and counted.
//
// --messages makes a store of N messages in sessions of 1,000, whose words are distributed as in
// natural texts, and searches it with questions. The time of the server's threads is what a search
// costs, whatever else the machine does (Linux only); the time until the response is printed too.
// Other options: --store URL (default memory:, for --messages a SQLite file).
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const [palaver, directory, ...flags] = process.argv.slice(2);
const isQuick = flags.includes('--quick');
const valueOf = (name, otherwise) =>
    (flags.includes(name) ? flags[flags.indexOf(name) + 1] : otherwise);
const BATCH = 500; // messages of a request
const agent = new http.Agent({ keepAlive: true });

// ---- The server ----

async function launch(store) {
    const child = spawn(palaver, ['serve', '--listen', '127.0.0.1:0', '--store', store],
        { stdio: ['ignore', 'pipe', 'ignore'], cwd: directory,
            env: { ...process.env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' } });
    let out = '';

    for await (const piece of child.stdout) {
        out += piece;
        const found = /is listening on (http:\S+)\n/.exec(out);

        if (found) {
            child.stdout.resume();
            return { child, url: new URL(found[1]) };
        }
    }
    throw new Error(`the server did not start: ${out}`);
}

async function stop({ child }) {
    child.kill('SIGTERM');
    if (child.exitCode === null)
        await once(child, 'exit');
}

function ask({ url }, method, target, body) {
    const text = body && JSON.stringify(body);

    return new Promise((resolve, reject) => {
        const request = http.request({ host: url.hostname, port: url.port, method, agent,
            path: `/api/v1/${target}`, headers: text ? { 'content-type': 'application/json',
                'content-length': Buffer.byteLength(text) } : {} }, (response) => {
            let all = '';

            response.setEncoding('utf8').on('data', (piece) => { all += piece; });
            response.on('end', () => (response.statusCode < 300 ? resolve(JSON.parse(all))
                : reject(new Error(`${target}: ${response.statusCode} ${all}`))));
        });

        request.on('error', reject);
        request.end(text);
    });
}

async function fill(server, messages) {
    const { session_id: session } = await ask(server, 'POST', 'sessions', {});

    for (let i = 0; i < messages.length; i += BATCH)
        await ask(server, 'POST', `sessions/${session}/messages`,
            { messages: messages.slice(i, i + BATCH) });
    return session;
}

async function search(server, session, question, more = '') {
    const target = session ? `sessions/${session}/search` : 'search';
    const { hits } = await ask(server, 'GET',
        `${target}?order=best&q=${encodeURIComponent(question)}${more}`);

    return hits;
}

const seqOf = ({ seq }) => seq;
// The hits, and the messages that are shown before and after them.
const shownOf = (hits) => hits.flatMap(({ seq, neighbors = [] }) => [seq, ...neighbors.map(seqOf)]);

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
const percentile = (numbers, share) =>
    [...numbers].sort((a, b) => a - b)[Math.floor((numbers.length - 1) * share)];

// ---- LoCoMo ----

function turnsOf({ conversation }) {
    const turns = [];

    for (let i = 1; conversation[`session_${i}`]; i++)
        turns.push(...conversation[`session_${i}`]);
    return turns;
}

async function measureLocomo(server, file) {
    const results = [];

    for (const sample of JSON.parse(fs.readFileSync(file, 'utf8'))) {
        const turns = turnsOf(sample);
        const seqs = new Map(turns.map((turn, i) => [turn.dia_id, i + 1]));
        const session = await fill(server, turns.map(({ speaker, text }) => ({ role: 'user', sender: speaker,
            content: text || '-' })));

        for (const { question, evidence = [], category } of sample.qa) {
            const wanted = evidence.flatMap((text) => text.match(/D\d+:\d+/g) ?? [])
                .map((id) => seqs.get(id)).filter(Boolean);

            if (category === 5 || wanted.length === 0)
                continue;
            const hits = await search(server, session, question, '&limit=20&neighbors=1');
            const has = (k, read) => wanted.map((seq) => read(hits.slice(0, k)).includes(seq));
            const judge = (read) => ({ 'any@5': has(5, read).some(Boolean),
                'any@10': has(10, read).some(Boolean), 'all@10': has(10, read).every(Boolean),
                'all@20': has(20, read).every(Boolean) });

            results.push([judge((some) => some.map(seqOf)), judge(shownOf)]);
        }
    }
    console.log(`LoCoMo: ${results.length} questions`);
    for (const [i, what] of ['hits alone', 'hits with their neighbors'].entries())
        console.log(`  ${what}: ${Object.keys(results[0][i]).map((name) =>
            `${name} ${mean(results.map((of) => Number(of[i][name]))).toFixed(3)}`).join(', ')}`);
}

// ---- BEAM ----

const numbersOf = (value) => (typeof value === 'number' ? [value]
    : value && typeof value === 'object' ? Object.values(value).flatMap(numbersOf) : []);

function readJson(file) {
    try {
        return JSON.parse(fs.readFileSync(file, 'utf8'));
    } catch {
        return null;
    }
}

async function measureBeam(server, root) {
    const all = [];
    const own = [];
    const kinds = new Map();
    let left = 0;

    for (const name of fs.readdirSync(root)) {
        const chat = readJson(path.join(root, name, 'chat.json'));
        const questions = readJson(path.join(root, name, 'probing_questions/probing_questions.json'));

        if (!chat || !questions) {
            left++;
            continue;
        }
        const messages = chat.flatMap(({ turns }) => turns.flat());
        const seqs = new Map(messages.map(({ id }, i) => [id, i + 1]));
        const session = await fill(server, messages.map(({ role, content }) =>
            ({ role, content: content || '-' })));

        for (const [kind, list] of Object.entries(questions)) for (const of of list) {
            const wanted = [...new Set(numbersOf(of.source_chat_ids).map((id) => seqs.get(id))
                .filter(Boolean))];
            const users = wanted.filter((seq) => messages[seq - 1].role === 'user');
            const recall = async (of10, more) => {
                const hits = (await search(server, session, of.question, `&limit=10${more}`))
                    .map(seqOf);

                return of10.filter((seq) => hits.includes(seq)).length / of10.length;
            };

            if (wanted.length > 0)
                all.push(await recall(wanted, ''));
            if (users.length === 0)
                continue;
            own.push(await recall(users, '&role=user'));
            kinds.set(kind, [...(kinds.get(kind) ?? []), own.at(-1)]);
        }
    }
    const line = (name, list) => console.log(`  ${name}: any@10 `
        + `${mean(list.map((share) => Number(share > 0))).toFixed(3)}, recall@10 `
        + `${mean(list).toFixed(3)} (${list.length} questions)`);

    console.log(`BEAM, ${root}; ${left} incomplete chats were left out`);
    line('all messages', all);
    line('messages of the user', own);
    for (const [kind, list] of kinds)
        line(`  ${kind}`, list);
}

// ---- Speed ----

// A generator of numbers from 0 to 1 that gives the same ones each time.
function random(seed) {
    let state = seed;

    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let mixed = Math.imul(state ^ (state >>> 15), 1 | state);

        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
}

const WORDS = 60_000;

// The word of rank r is about 1 / r as frequent as the most frequent one (Zipf's law). Rarer words
// are longer.
function writer() {
    const next = random(7);
    const letters = 'etaoinshrdlucmfwypvbgk';
    const words = Array.from({ length: WORDS }, (_, rank) => {
        let word = '';

        for (let i = 0; i < 2 + Math.log2(rank + 2) / 2; i++)
            word += letters[Math.floor(next() * letters.length)];
        return word;
    });
    const word = () => words[Math.floor(WORDS ** next()) - 1];
    const text = (len) => Array.from({ length: len }, word).join(' ');

    return { message: () => text(8 + Math.floor(next() * 40)), next,
        question: (of) => [text(4), ...of.split(' ').filter(() => next() < 0.2).slice(0, 4)].join(' ') };
}

// The processor time of a process in milliseconds.
function cpuOf({ pid }) {
    return fs.readdirSync(`/proc/${pid}/task`).reduce((sum, id) => {
        const text = fs.readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8');

        return sum + Number(text.split(' ')[0]) / 1e6;
    }, 0);
}

async function measureSpeed(server, messagesLen, queriesLen) {
    const { message, question, next } = writer();
    const questions = [];
    const sessions = [];

    for (let i = 0; i < messagesLen; i += 1000) {
        const texts = Array.from({ length: Math.min(1000, messagesLen - i) }, message);

        if (next() < queriesLen * 2000 / messagesLen)
            questions.push(question(texts[Math.floor(next() * texts.length)]));
        sessions.push(await fill(server, texts.map((content) => ({ role: 'user', content }))));
    }
    while ((await ask(server, 'GET', 'search?order=best&q=x')).partial);
    for (const [name, of] of [['all sessions', () => null], ['one session of 1,000 messages',
        (i) => sessions[i % sessions.length]]]) {
        const cpu = [];
        const wall = [];

        for (let i = 0; i < queriesLen; i++) {
            const before = cpuOf(server.child);
            const start = performance.now();

            await search(server, of(i), questions[i % questions.length], '&limit=10');
            wall.push(performance.now() - start);
            cpu.push(cpuOf(server.child) - before);
        }
        const show = (list) => [0.5, 0.95, 1].map((share) =>
            percentile(list, share).toFixed(1)).join(', ');

        console.log(`${messagesLen} messages, ${name}, ${queriesLen} questions, in milliseconds: `
            + `processor ${show(cpu)}, until the response ${show(wall)} (median, 95th percentile, `
            + 'maximum)');
    }
}

// ---- Main ----

const dir = fs.mkdtempSync(path.join(directory, 'bench-search-'));
const isSpeed = flags.includes('--messages') || isQuick;
const store = valueOf('--store', isSpeed ? `sqlite:${path.join(dir, 'chats.db')}` : 'memory:');
const server = await launch(store);

try {
    if (flags.includes('--locomo'))
        await measureLocomo(server, valueOf('--locomo'));
    if (flags.includes('--beam'))
        await measureBeam(server, valueOf('--beam'));
    if (isSpeed)
        await measureSpeed(server, Number(valueOf('--messages', 4000)),
            Number(valueOf('--queries', isQuick ? 10 : 500)));
} finally {
    await stop(server);
    agent.destroy();
    fs.rmSync(dir, { recursive: true, force: true });
}
