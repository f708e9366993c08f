// Three servers over a cluster of PostgreSQL, with a scripted model each, while things happen to the
// cluster. Clients append messages and run turns through all servers; one group of clients is on the
// machine of a server that gets onto the wrong side, and knows only that one.
//
// FAILOVER_ROUNDS sets how often each event happens, FAILOVER_CUT_SECONDS how long a network is cut.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { judge, readHistory, readPostgres } from '../support/history/history.mjs';
import { cluster, cutOff, database, dir, events, happen, primaryDies, report, ROUNDS,
    startOn, tooEarly } from './cluster.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = process.env.PALAVER_BIN;
const MACHINES = [4, 5, 6];
const WRONG = 5; // the machine that gets onto the wrong side
const MODEL_PORT = 7000;
const PORT = 7077;
const SESSIONS = 8; // of each kind
const PAUSE_MS = 20;
const WAIT_MS_MAX = 120_000;
const BUSY_MS = 30_000; // the default of servers
const config = 'turn:\n  lease: 5s\nserver:\n  drain: 5s\n  drain_delay: 1s\n';

function palaver(...args) {
    const { status, stdout, stderr } = spawnSync(binary, args, { cwd: dir });
    assert.equal(status, 0, `palaver ${args.join(' ')}: ${stderr}`);
    return stdout.toString();
}

const addressOf = (machine) => `10.77.0.1${machine}`;
const urlOf = (machine) => `http://${addressOf(machine)}:${PORT}`;

function ask(machine, key, method, target, body) {
    return new Promise((resolve, reject) => {
        const request = http.request(new URL(target, urlOf(machine)), { method, agent: false,
            headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' } }, (response) => {
            let all = '';
            response.setEncoding('utf8').on('data', (piece) => { all += piece; });
            response.on('end', () => resolve({ code: response.statusCode, text: all,
                json: /json/.test(response.headers['content-type']) ? JSON.parse(all) : undefined }));
        });
        request.on('error', reject);
        request.end(body && JSON.stringify(body));
    });
}

// Waits until `check` returns something.
async function until(what, check) {
    for (const end = Date.now() + WAIT_MS_MAX; ;) {
        const found = await Promise.resolve(check()).catch(() => undefined);
        if (found) return found;
        assert.ok(Date.now() < end, what());
        await pause(100);
    }
}

class Servers {
    async open(t, schema) {
        this.schema = schema;
        const store = `${database}?schema=${schema}`;
        const file = path.join(dir, `${schema}.yaml`);
        fs.writeFileSync(file, config);
        const options = ['--store', store, '--config', file];
        this.key = JSON.parse(palaver('key', 'create', '--role', 'admin', '--json', ...options)).key;
        this.startServer = (machine) => startOn(t, machine, binary, 'serve', '--listen',
            `${addressOf(machine)}:${PORT}`, '--provider', 'openai', '--provider-url',
            `http://127.0.0.1:${MODEL_PORT}/v1`, '--model', 'mock-model', ...options);
        this.servers = new Map(MACHINES.map((machine) => {
            startOn(t, machine, process.execPath, path.join(here, '../conformance/mock-model.mjs'),
                '--port', MODEL_PORT, '--max-records', 1);
            return [machine, this.startServer(machine)];
        }));
        for (const machine of MACHINES) await this.untilReady(machine);
        const sessions = [];
        while (sessions.length < 2 * SESSIONS)
            sessions.push((await ask(4, this.key, 'POST', '/api/v1/sessions', {})).json.session_id);
        this.appended = sessions.slice(0, SESSIONS);
        this.asked = sessions.slice(SESSIONS);
        this.clients = [this.startClients(t, 0, 'all', 8, MACHINES), this.startClients(t, WRONG, 'wrong', 4, [WRONG])];
        return this;
    }

    startClients(t, machine, name, callers, servers) {
        const file = path.join(dir, `${this.schema}-${name}.log`);
        const program = startOn(t, machine, process.execPath, path.join(here, 'http_client.mjs'), file, name, callers,
            this.key, PAUSE_MS, ...servers.map(urlOf), '--', ...this.appended, '--', ...this.asked);
        return Object.assign(program, { file, callers });
    }

    async untilReady(machine) {
        await until(() => `server ${machine} is not ready: ${this.servers.get(machine).log}`,
            async () => (await ask(machine, this.key, 'GET', '/readyz')).code === 200);
    }

    // Kills a server, and starts it until it runs, as systemd does.
    async restart(machine) {
        await this.servers.get(machine).stop('SIGKILL');
        let isReady = false;
        const ready = () => { isReady = true; };
        while (!isReady) {
            const server = this.startServer(machine);
            this.servers.set(machine, server);
            await Promise.race([this.untilReady(machine).then(ready), server.ended]);
        }
    }

    async wentBack(machine) {
        const { text } = await ask(machine, this.key, 'GET', '/metrics');
        return Number(/^palaver_store_went_back_total (\d+)$/m.exec(text)[1]);
    }

    // Stops the clients, waits until no turn waits, and checks the responses that the clients got.
    async finish() {
        for (const one of this.clients) assert.equal(await one.stop(), 0, one.log);
        const history = readHistory(...this.clients.map(({ file }) => file));
        for (const machine of MACHINES) history.backs.set(addressOf(machine), await this.wentBack(machine));
        let state;
        await until(() => `items wait: ${JSON.stringify([...state].map(([id, { inbox }]) => [id, inbox]))}`, () => {
            state = readPostgres(database, this.schema, [...this.appended, ...this.asked]);
            return [...state.values()].every(({ inbox }) => inbox === 0);
        });
        // A session is not stuck if the next turn in it is answered, through any server.
        for (const [i, id] of this.asked.entries()) {
            const { code, text } = await ask(MACHINES[i % 3], this.key, 'POST', `/api/v1/sessions/${id}/turns`,
                { message: '<<say last>>', lane: 'queue' });
            assert.equal(code, 200, `the session ${id} is stuck: ${text}`);
        }
        return { history, verdict: judge(history, state) };
    }
}

test('servers lose no acknowledged write and no turn with synchronous replication', async (t) => {
    const servers = await new Servers().open(t, 'serve');
    const both = ['the machine of the primary and a server die', () => Promise.all([primaryDies(), servers.restart(6)])];
    const spans = [];
    for (let round = 0; round < ROUNDS; round++)
        for (const [name, event] of [...events, both]) spans.push(await happen(name, event, WRONG, servers.clients));
    const { history, verdict } = await servers.finish();
    report(t, history, spans, ['all', 'wrong']);
    t.diagnostic(verdict.summary());
    assert.deepEqual(verdict.wrong(), []);
    assert.deepEqual(history.refusals, []);
    // 502: another server has ended a turn whose client already got a failure.
    const failed = history.doubts.filter(({ rest: [code] }) => code === '500');
    assert.deepEqual(tooEarly(failed, BUSY_MS), []);
    assert.deepEqual([...history.backs.values()], [0, 0, 0]);
    for (const server of servers.servers.values()) assert.equal(await server.stop(), 0, server.log);
});

test('servers report lost writes with asynchronous replication', async (t) => {
    cluster('replicate', 'async');
    const servers = await new Servers().open(t, 'serve_async');
    const spans = [await happen('the primary is cut off with a node, asynchronous', () => cutOff(WRONG), WRONG,
        servers.clients)];
    const { history, verdict } = await servers.finish();
    report(t, history, spans, ['all', 'wrong']);
    t.diagnostic(`${verdict.summary()}; noticed: ${[...history.backs].map((words) => words.join(': '))}`);
    assert.ok(verdict.lost.some(({ caller }) => caller.startsWith('wrong-')),
        'the event takes back writes, otherwise this tests nothing');
    assert.ok(history.backs.get(addressOf(WRONG)) > 0, 'palaver_store_went_back_total counts it');
    assert.match(servers.servers.get(WRONG).log, /the database has lost acknowledged writes/);
    assert.deepEqual(verdict.wrong({ mayLose: true }), []);
});
