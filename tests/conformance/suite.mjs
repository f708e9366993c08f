// Runs one suite against the built command, for Meson: `node suite.mjs SUITE STORE [PACKAGES]`.
// STORE is "memory", "sqlite" or "nodes": three servers on one store behind a load balancer that sends
// each request to the next one. The store of the nodes is PostgreSQL under tools/pg-test, otherwise
// SQLite. PALAVER_BIN is the command. npm installs the SDKs into
// CONFORMANCE_DIR when the first suite runs, next to copies of the suites. PACKAGES is a folder of
// this folder with the package.json and the modules that its suites share; the default is this
// folder. Without network the suite is skipped.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { run } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import util from 'node:util';
import { openBalancer } from '../support/balance.mjs';
import { MockAnthropic } from './mock-anthropic.mjs';
import { MockModel } from './mock-model.mjs';

const [suite, kind, folder = ''] = process.argv.slice(2);
const binary = process.env.PALAVER_BIN;
const directory = process.env.CONFORMANCE_DIR;
const here = path.dirname(fileURLToPath(import.meta.url));
const packages = path.join(here, folder);
const INSTALL_WAIT_MS = 240_000;
const SUITE_TIMEOUT_MS = 540_000; // for the complete file; a bit less than Meson's timeout
assert.ok(binary && directory,
    'PALAVER_BIN and CONFORMANCE_DIR say what to run, and where to install');

const isInstalled = () => {
    const stamp = path.join(directory, 'installed.json');
    const lock = fs.readFileSync(path.join(packages, 'package-lock.json'));
    return fs.existsSync(stamp) && fs.readFileSync(stamp).equals(lock);
};

function npmInstall() {
    for (const name of ['package.json', 'package-lock.json'])
        fs.copyFileSync(path.join(packages, name), path.join(directory, name));
    const done = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund',
        '--prefer-offline', '--fetch-retries=1', '--fetch-timeout=30000', '--loglevel=error'],
    { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'ignore', 'inherit'] });
    if (done.error || done.status !== 0) return false;
    fs.copyFileSync(path.join(packages, 'package-lock.json'),
        path.join(directory, 'installed.json'));
    return true;
}

// Suites run in parallel: one of them installs the packages, the others wait. A lock that is older
// than any installation was left by a process that died.
async function install() {
    const lock = path.join(directory, 'lock');
    fs.mkdirSync(directory, { recursive: true });
    for (const until = Date.now() + INSTALL_WAIT_MS; Date.now() < until; await sleep(200)) {
        if (isInstalled()) return true;
        try {
            fs.mkdirSync(lock);
        } catch {
            const age = Date.now() - (fs.statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? 0);
            if (age > INSTALL_WAIT_MS) fs.rmSync(lock, { recursive: true, force: true });
            continue;
        }
        try {
            return isInstalled() || npmInstall();
        } finally {
            fs.rmSync(lock, { recursive: true, force: true });
        }
    }
    return false;
}

// Node looks for packages next to the file that imports them.
function copySuite(scratch) {
    const to = fs.mkdtempSync(path.join(directory, 'run-'));
    const names = ['lib', 'mock-anthropic.mjs', 'mock-model.mjs', 'mock-responses.mjs',
        `${suite}.test.mjs`, folder];
    for (const name of names.filter(Boolean))
        fs.cpSync(path.join(here, name), path.join(to, name), { recursive: true });
    for (const name of ['README.md', 'docs/coding-agents.md', 'tests/server/tool_server.cjs'])
        fs.copyFileSync(path.join(here, '../..', name), path.join(to, path.basename(name)));
    scratch.push(to);
    return path.join(to, `${suite}.test.mjs`);
}

// Starts one server process. Returns it with its URL and port.
async function startProcess(provider, upstream, store, dir) {
    const ours = Object.entries(process.env).filter(([name]) => !/^PALAVER_|_API_KEY$/.test(name));
    const server = spawn(binary, ['serve', '--listen', '127.0.0.1:0', '--store', store,
        '--model', 'mock-model', '--provider', provider, '--provider-url', `${upstream}/v1`],
    { cwd: dir, env: { ...Object.fromEntries(ours), XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' },
        stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    for await (const piece of server.stdout) {
        out += piece;
        const found = /is listening on (http:\/\/\S+:(\d+))\n/.exec(out);
        if (found) return { server, url: found[1], port: Number(found[2]) };
    }
    throw new Error(`the server did not start: ${out}`);
}

const NODES = 3;
let schemas = 0;

function storeOf(dir) {
    const postgres = process.env.PALAVER_TEST_POSTGRES;
    if (kind === 'memory') return 'memory:';
    if (kind === 'nodes' && postgres) return `${postgres}&schema=s${process.pid}_${++schemas}`;
    return `sqlite:${path.join(dir, 'palaver.db')}`;
}

// Waits until a server knows all nodes.
async function untilKnown({ url }) {
    const known = new RegExp(`^palaver_nodes\\{state="running"\\} ${NODES}$`, 'm');
    while (!known.test(await (await fetch(`${url}/metrics`)).text())) await sleep(20);
}

// Starts the servers on one store: one, or the nodes behind a balancer.
async function startServer(provider, upstream, scratch) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-conformance-'));
    scratch.push(dir);
    const store = storeOf(dir);
    const processes = [await startProcess(provider, upstream, store, dir)];
    if (kind !== 'nodes') return { processes, url: processes[0].url, close: () => {} };
    while (processes.length < NODES)
        processes.push(await startProcess(provider, upstream, store, dir));
    await Promise.all(processes.map(untilKnown));
    const balancer = await openBalancer();
    processes.forEach(balancer.add);
    return { processes, url: balancer.url, close: balancer.close };
}

// Returns false if a server did not run until now, or does not end as it should.
async function stopServer({ processes, close }) {
    close();
    const ends = processes.map(async ({ server }) => {
        if (server.exitCode !== null) return false;
        server.kill('SIGTERM');
        const [status] = await once(server, 'exit');
        return status === 0;
    });
    return (await Promise.all(ends)).every(Boolean);
}

// Waits until each server requires a key.
async function untilClosed({ processes }) {
    for (const { url } of processes)
        while ((await fetch(`${url}/api/v1/keys`)).status !== 401) await sleep(20);
}

async function makeKey(url, role, key) {
    const headers = key ? { authorization: `Bearer ${key}` } : {};
    const response = await fetch(`${url}/api/v1/keys`,
        { method: 'POST', headers, body: JSON.stringify({ role, label: 'conformance' }) });
    assert.ok(response.ok, `POST /api/v1/keys: ${response.status}`);
    return (await response.json()).key;
}

// Suites of Anthropic's API also need a server whose model speaks that API, and one that has keys.
async function startAnthropic(upstream, mocks, servers, scratch) {
    const mock = new MockAnthropic();
    mocks.push(mock);
    const spoken = await mock.listen();
    const anthropic = await startServer('anthropic', spoken, scratch);
    servers.push(anthropic);
    const closed = await startServer('openai', upstream, scratch);
    servers.push(closed);
    const admin = await makeKey(closed.url, 'admin');
    await untilClosed(closed);
    return { MOCK_ANTHROPIC_URL: spoken, PALAVER_ANTHROPIC_URL: anthropic.url,
        PALAVER_CLOSED_URL: closed.url,
        PALAVER_CLOSED_WRITE_KEY: await makeKey(closed.url, 'write', admin),
        PALAVER_CLOSED_READ_KEY: await makeKey(closed.url, 'read', admin) };
}

// Prints one line per test, also for nested tests, since Meson does not read subtests.
async function runTests(file, env) {
    let number = 0, failed = 0;
    Object.assign(process.env, env);
    for await (const { type, data } of run({ files: [file], timeout: SUITE_TIMEOUT_MS })) {
        const isResult = type === 'test:pass' || type === 'test:fail';
        // The file itself counts only if it fails by itself: its remaining tests did not run then.
        const isWhole = data.details?.type === 'suite' || data.name?.endsWith('.mjs');
        const isOwn = data.details?.error?.failureType !== 'subtestsFailed';
        if (!isResult || (isWhole && (type === 'test:pass' || !isOwn))) continue;
        const isSkipped = data.skip !== undefined;
        console.log(`${type === 'test:pass' ? 'ok' : 'not ok'} ${++number} - ${data.name}`
            + (isSkipped ? ' # SKIP' : ''));
        if (type === 'test:pass') continue;
        failed++;
        console.log(util.inspect(data.details.error.cause ?? data.details.error)
            .replaceAll(/^/gm, '# '));
    }
    console.log(`1..${number}`);
    return failed || number === 0 ? 1 : 0;
}

const scratch = [];
if (!await install()) {
    console.log('1..0 # SKIP npm could not install the SDKs');
} else {
    const mocks = [new MockModel()], servers = [];
    const upstream = await mocks[0].listen();
    servers.push(await startServer('openai', upstream, scratch));
    const env = { PALAVER_URL: servers[0].url, MOCK_MODEL_URL: upstream, CONFORMANCE_STORE: kind };
    if (suite.startsWith('anthropic'))
        Object.assign(env, await startAnthropic(upstream, mocks, servers, scratch));
    process.exitCode = await runTests(copySuite(scratch), env);
    for (const server of servers) if (!await stopServer(server)) process.exitCode = 1;
    for (const mock of mocks) await mock.close();
}
for (const dir of scratch) fs.rmSync(dir, { recursive: true, force: true });
