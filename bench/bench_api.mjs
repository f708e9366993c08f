// bench_api.mjs - what the APIs that clients already speak add to an answer: the time of a response
// that is no stream, through the server and from the scripted model itself.
//
//   node bench_api.mjs PALAVER SOURCE_ROOT DIRECTORY [--quick]
//
// Model, server and clients are processes of their own. The server asks the model for a stream, but
// for chat completions, which it passes on: so there are two ways to ask the model directly. All
// ways take turns, a few requests each, so that what else the machine does meets all alike.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';

const [palaver, root, directory, ...flags] = process.argv.slice(2);
const isQuick = flags.includes('--quick');
const ROUNDS = isQuick ? 2 : 20;
const REQUESTS_OF = { 1: isQuick ? 5 : 25, 50: isQuick ? 50 : 250 }; // of a way, in a round
const MODEL = 'mock-model';
const TEXT = 'What is the weather like today? <<size 400>>';

// ---- Processes ----

async function launch(command, args, pattern, options = {}) {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'], ...options });
    let out = '';
    for await (const piece of child.stdout) {
        out += piece;
        const found = pattern.exec(out);
        if (found) {
            child.stdout.resume();
            return { child, url: found[1] };
        }
    }
    throw new Error(`${command} did not start: ${out}`);
}

async function stop({ child }) {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
}

const launchModel = () => launch(process.execPath,
    [path.join(root, 'tests/conformance/mock-model.mjs'), '--max-records', '10'],
    /listening on (http:\S+)\n/);

const launchServer = (store, model) => launch(palaver, ['serve', '--listen', '127.0.0.1:0',
    '--store', store, '--model', MODEL, '--provider', 'openai', '--provider-url', `${model}/v1`],
/is listening on (http:\S+)\n/, { cwd: directory,
    env: { ...process.env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' } });

// ---- Asking ----

const messages = [{ role: 'user', content: TEXT }];

const waysOf = (model, server) => ({
    'the model': [`${model}/v1/chat/completions`, { model: MODEL, messages }],
    'the model, streamed': [`${model}/v1/chat/completions`,
        { model: MODEL, messages, stream: true, stream_options: { include_usage: true } }],
    '/v1/chat/completions': [`${server}/v1/chat/completions`, { model: MODEL, messages }],
    '/v1/responses': [`${server}/v1/responses`, { model: MODEL, input: TEXT }],
    '/mistral/v1/conversations': [`${server}/mistral/v1/conversations`,
        { model: MODEL, inputs: TEXT }],
});

/** Milliseconds until the whole answer was read. */
function ask(agent, url, body) {
    return new Promise((resolve, reject) => {
        const begun = performance.now();
        const request = http.request(url, { method: 'POST', agent, headers: {
            'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } });
        request.on('error', reject);
        request.on('response', (response) => {
            response.resume();
            response.on('error', reject);
            response.on('end', () => response.statusCode === 200
                ? resolve(performance.now() - begun)
                : reject(new Error(`${url} answered ${response.statusCode}`)));
        });
        request.end(body);
    });
}

/** `clients` at once, each with the next request when its last one is answered. */
async function measure(agent, [url, body], clients) {
    const text = JSON.stringify(body), times = [];
    let left = REQUESTS_OF[clients];
    const client = async () => {
        while (left-- > 0) times.push(await ask(agent, url, text));
    };
    await Promise.all(Array.from({ length: clients }, client));
    return times;
}

// ---- Showing ----

function quantile(times, q) {
    const sorted = [...times].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

function show(store, clients, times) {
    const median = (name) => quantile(times[name], 0.5);
    const p99 = (name) => quantile(times[name], 0.99);
    console.log(`\n${store}, ${clients === 1 ? '1 client' : `${clients} clients`}`
        + ` (${times['the model'].length} requests each)`);
    console.log(`  ${''.padEnd(27)} median ms  p99 ms   added, over the model: median ms`
        + '  p99 ms  ratio');
    for (const name of Object.keys(times)) {
        const base = name.startsWith('/v1/chat') ? 'the model' : 'the model, streamed';
        const added = name.startsWith('/')
            ? `${(median(name) - median(base)).toFixed(2).padStart(32)}`
                + `${(p99(name) - p99(base)).toFixed(2).padStart(8)}`
                + `${(median(name) / median(base)).toFixed(2).padStart(7)}`
            : '';
        console.log(`  ${name.padEnd(27)} ${median(name).toFixed(2).padStart(9)}`
            + `${p99(name).toFixed(2).padStart(8)}${added}`);
    }
}

/** What the disk itself takes to keep as much as a commit does, in place as a WAL is written, and
 * not right after the last time: a response is kept in two steps. */
async function showDisk() {
    const fd = fs.openSync(path.join(scratch, 'probe'), 'w');
    const bytes = Buffer.alloc(64 << 10), room = 128, times = [];
    for (let i = 0; i < room; i++) fs.writeSync(fd, bytes, 0, bytes.length, i * bytes.length);
    fs.fsyncSync(fd);
    for (let i = 0; i < 20 * ROUNDS; i++) {
        await setTimeout(2);
        const begun = performance.now();
        fs.writeSync(fd, bytes, 0, bytes.length, i % room * bytes.length);
        fs.fdatasyncSync(fd);
        times.push(performance.now() - begun);
    }
    fs.closeSync(fd);
    console.log(`  The disk's own sync takes ${quantile(times, 0.5).toFixed(2)} ms at the median, `
        + `${quantile(times, 0.99).toFixed(2)} at the 99th percentile; a response waits for two.`);
}

async function bench(store, clients) {
    const model = await launchModel();
    const server = await launchServer(store, model.url);
    const agent = new http.Agent({ keepAlive: true, maxSockets: clients });
    const ways = waysOf(model.url, server.url);
    const times = Object.fromEntries(Object.keys(ways).map((name) => [name, []]));
    for (const way of Object.values(ways)) await measure(agent, way, clients);
    for (let round = 0; round < ROUNDS; round++) {
        for (const [name, way] of Object.entries(ways))
            times[name].push(...await measure(agent, way, clients));
    }
    agent.destroy();
    await stop(server);
    await stop(model);
    show(store.replace(/:.*/, ':'), clients, times);
    if (store !== 'memory:') await showDisk();
}

const scratch = fs.mkdtempSync(path.join(directory, 'api-'));
try {
    for (const clients of [1, 50]) {
        await bench('memory:', clients);
        await bench(`sqlite:${path.join(scratch, `${clients}.db`)}`, clients);
    }
} finally {
    fs.rmSync(scratch, { recursive: true, force: true });
}
