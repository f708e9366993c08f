// Two programs write through the library, each as a node of its own, while things happen to the
// cluster of PostgreSQL under them. Nothing that was acknowledged may be lost. With asynchronous
// replication it can be, and then the node must notice.
//
// FAILOVER_ROUNDS sets how often each event happens, FAILOVER_CUT_SECONDS how long a network is cut.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import test from 'node:test';
import { judge, readHistory, readPostgres } from '../support/history/history.mjs';
import { cluster, cutOff, database, dir, events, happen, report, ROUNDS, startOn,
    tooEarly } from './cluster.mjs';

const writer = process.env.HISTORY_WRITER;
const MACHINES = [4, 5]; // 5 gets onto the wrong side
const CALLERS = 8;
const SESSIONS = 24;
const PAUSE_US = 5000;
const BUSY_MS = 60_000;

function createSessions(url) {
    const { status, stdout, stderr } = spawnSync(writer, ['create', url, String(SESSIONS)]);
    assert.equal(status, 0, stderr.toString());
    return stdout.toString().trim().split('\n');
}

function startWriters(t, url, schema) {
    const sessions = createSessions(url);
    return MACHINES.map((machine) => {
        const file = path.join(dir, `${schema}-${machine}.log`);
        const program = startOn(t, machine, writer, 'write', url, file, machine, CALLERS, PAUSE_US, BUSY_MS, ...sessions);
        return Object.assign(program, { file, callers: CALLERS });
    });
}

// Stops the writers, and checks the results that they got.
async function finish(writers, schema) {
    for (const one of writers) assert.equal(await one.stop(), 0, one.log);
    const history = readHistory(...writers.map(({ file }) => file));
    return { history, verdict: judge(history, readPostgres(database, schema)) };
}

test('no acknowledged write is lost with synchronous replication', async (t) => {
    const writers = startWriters(t, `${database}?schema=engine`, 'engine');
    const spans = [];
    for (let round = 0; round < ROUNDS; round++)
        for (const [name, event] of events) spans.push(await happen(name, event, 5, writers));
    const { history, verdict } = await finish(writers, 'engine');
    report(t, history, spans, MACHINES);
    t.diagnostic(verdict.summary());
    assert.deepEqual(verdict.wrong(), []);
    assert.deepEqual(tooEarly(history.doubts, BUSY_MS), []);
    assert.deepEqual([...history.backs.values()], [0, 0], 'nothing was lost, so nothing is reported as lost');
    assert.ok(history.takes.length > 0 && history.acks.some((w) => w.fence > 0), 'leases were used');
});

// The node on the wrong side writes to the old primary until that notices that it is alone.
test('lost writes are noticed with asynchronous replication', async (t) => {
    cluster('replicate', 'async');
    const writers = startWriters(t, `${database}?schema=engine_async`, 'engine_async');
    const spans = [await happen('the primary is cut off with a node, asynchronous', () => cutOff(5), 5, writers)];
    const { history, verdict } = await finish(writers, 'engine_async');
    report(t, history, spans, MACHINES);
    t.diagnostic(`${verdict.summary()}; noticed: ${[...history.backs].map(([node, count]) => `${node}: ${count}`)}`);
    assert.ok(verdict.lost.length > 0, 'the event takes back writes, otherwise this tests nothing');
    assert.deepEqual(verdict.wrong({ mayLose: true }), []);
});
