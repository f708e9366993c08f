// bench_nodes.mjs - turns per second of three servers on one store, compared with one server.
//
//   node bench_nodes.mjs PALAVER SOURCE_ROOT DIRECTORY [--quick] [--store URL] [--clients N]
//
// The scripted model answers after a delay. Each server has the same number of clients, and each
// client runs one turn after another in a session of its own, at any server in turn. So one server
// is limited by its clients and the delay, and the ratio shows what the shared store and the other
// servers cost. One server and three servers alternate, so that other load meets both alike.
// --store names a PostgreSQL database (tools/pg-test); without it a SQLite file is used.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const [palaver, root, directory, ...flags] = process.argv.slice(2);
const valueOf = (name, otherwise) =>
    flags.includes(name) ? flags[flags.indexOf(name) + 1] : otherwise;
const isQuick = flags.includes('--quick');
const MS = isQuick ? 1000 : 5000; // of one measurement
const ROUNDS = isQuick ? 1 : 5;
const DELAY_MS = 200;
const CLIENTS = Number(valueOf('--clients', 8)); // of each server
const TARGET = 2.2;

async function launch(command, args, pattern, options = {}) {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'], ...options });
    let out = '';
    for await (const piece of child.stdout) {
        out += piece;
        const found = pattern.exec(out);
        if (found) {
            child.stdout.resume();
            return { child, url: new URL(found[1]) };
        }
    }
    throw new Error(`${command} did not start: ${out}`);
}

async function stop({ child }) {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
}

function post(url, target, body) {
    const text = JSON.stringify(body);
    return new Promise((resolve, reject) => {
        const request = http.request({ host: url.hostname, port: url.port, method: 'POST',
            path: target, agent, headers: { 'content-type': 'application/json',
                'content-length': Buffer.byteLength(text) } }, (response) => {
            let all = '';
            response.setEncoding('utf8').on('data', (piece) => { all += piece; });
            response.on('end', () => resolve(JSON.parse(all)));
        });
        request.on('error', reject);
        request.end(text);
    });
}

const agent = new http.Agent({ keepAlive: true });

// Returns the turns per second of these servers.
async function measure(servers) {
    let turns = 0;
    let at = 0;
    const until = performance.now() + MS;
    const next = () => servers[at++ % servers.length].url;
    const client = async () => {
        const { session_id: session } = await post(next(), '/api/v1/sessions', {});
        while (performance.now() < until) {
            const answer = await post(next(), `/api/v1/sessions/${session}/turns`,
                { message: `<<say ok>><<hang ms=${DELAY_MS}>>`, lane: 'queue' });
            if (answer.state !== 'done') throw new Error(JSON.stringify(answer));
            turns++;
        }
    };
    const start = performance.now();
    await Promise.all(Array.from({ length: servers.length * CLIENTS }, client));
    return turns * 1000 / (performance.now() - start);
}

const dir = fs.mkdtempSync(path.join(directory, 'bench-nodes-'));
const store = valueOf('--store', `sqlite:${path.join(dir, 'chats.db')}`);
const model = await launch(process.execPath,
    [path.join(root, 'tests/conformance/mock-model.mjs'), '--max-records', '10'],
    /listening on (http:\S+)\n/);
const serve = () => launch(palaver, ['serve', '--listen', '127.0.0.1:0', '--store', store,
    '--model', 'mock-model', '--provider', 'openai', '--provider-url', `${model.url.origin}/v1`],
/is listening on (http:\S+)\n/, { cwd: dir, env: { ...process.env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' } });
const servers = [await serve(), await serve(), await serve()];
const ratios = [];
try {
    for (let round = 0; round < ROUNDS; round++) {
        const one = await measure(servers.slice(0, 1));
        const three = await measure(servers);
        ratios.push(three / one);
        console.log(`one server ${one.toFixed(1)} turns/s, three ${three.toFixed(1)}, `
            + `ratio ${(three / one).toFixed(2)}`);
    }
} finally {
    await Promise.all(servers.map(stop));
    await stop(model);
    fs.rmSync(dir, { recursive: true, force: true });
}
agent.destroy();
const median = ratios.sort((a, b) => a - b)[ratios.length >> 1];
console.log(`median ratio ${median.toFixed(2)} (target ${TARGET})`);
