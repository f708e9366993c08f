// The cluster that tools/pg-cluster started: its events, and the programs that work on it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { monotonicMs, untilAllWrote } from '../support/history/history.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const tool = path.join(here, '../../tools/pg-cluster');
export const dir = process.env.PALAVER_TEST_CLUSTER;
export const database = process.env.PALAVER_TEST_POSTGRES;
assert.ok(dir && database, 'tools/pg-cluster starts the cluster');

const CUT_MS = Number(process.env.FAILOVER_CUT_SECONDS ?? 45) * 1000;
export const ROUNDS = Number(process.env.FAILOVER_ROUNDS ?? 1);
const LOAD_MS = Number(process.env.FAILOVER_LOAD_SECONDS ?? 5) * 1000;
const RESUME_MS_MAX = 180_000;
const BETWEEN_CUTS_MS = 3000;
const LOG_LINES = 12;

export function cluster(...words) {
    const { status, stdout, stderr } = spawnSync(tool, ['--at', dir, ...words.map(String)]);
    assert.equal(status, 0, `pg-cluster ${words.join(' ')}: ${stderr}`);
    return stdout.toString().trim();
}

// Starts a program on a machine, and stops it after the test.
export function startOn(t, machine, command, ...args) {
    const child = spawn(tool, ['--at', dir, 'exec', String(machine), command, ...args.map(String)],
        { stdio: ['ignore', 'ignore', 'pipe'] });
    const program = { log: '' };
    child.stderr.setEncoding('utf8').on('data', (piece) => { program.log += piece; });
    program.ended = once(child, 'close').then(([code]) => code);
    program.stop = async (signal = 'SIGTERM') => {
        child.kill(signal);
        return program.ended;
    };
    t.after(() => {
        child.kill('SIGKILL');
        const lines = program.log.trimEnd().split('\n').filter((line) => !line.includes(' info request '));
        if (t.error) for (const line of lines.slice(-LOG_LINES)) t.diagnostic(line);
    });
    return program;
}

// What can happen to a cluster. Each function ends when the cause is over; `machine` is the machine of
// a program that gets onto the wrong side.
export const events = [
    ['planned switchover', () => cluster('switchover')],
    ['postmaster killed', () => cluster('kill-server', cluster('primary'))],
    ['the machine of the primary dies', () => primaryDies()],
    ['the machine of the synchronous replica dies', async (machine, logs) => {
        const replica = cluster('replica');
        cluster('die', replica);
        await untilAllWrote(logs);
        cluster('revive', replica);
    }],
    // The old server processes still wait for their replica when the node comes back to them.
    ['the primary is cut off for seconds, four times', async () => {
        const primary = cluster('primary');
        for (const seconds of [2, 4, 7, 9]) {
            cluster('cut', primary);
            await pause(seconds * 1000);
            cluster('heal');
            await pause(BETWEEN_CUTS_MS);
        }
    }],
    ['the primary is cut off', () => cutOff()],
    ['the primary is cut off with a node', (machine) => cutOff(machine)],
];

export async function primaryDies() {
    const primary = cluster('primary');
    cluster('die', primary);
    await untilAnotherThan(primary);
    cluster('revive', primary);
}

async function untilAnotherThan(old) {
    const until = Date.now() + RESUME_MS_MAX;
    while (cluster('primary') === old) {
        assert.ok(Date.now() < until, 'no other machine became the primary');
        await pause(200);
    }
}

export async function cutOff(...machines) {
    cluster('cut', cluster('primary'), ...machines);
    await pause(CUT_MS); // the length of the outage, not a wait for its result
    cluster('heal');
}

// Lets an event happen to a complete cluster under load, and waits until all callers write again. Returns
// when it began and ended.
export async function happen(name, event, machine, logs) {
    cluster('wait');
    await untilAllWrote(logs);
    await pause(LOAD_MS); // some load before each event
    const from = monotonicMs();
    await event(machine, logs);
    await untilAllWrote(logs);
    return { name, from, to: monotonicMs() };
}

const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

// The longest time in which none of the writes ended.
function standstill(writes, { from, to }) {
    const ends = [from, ...writes.map((w) => w.to).filter((end) => end >= from && end <= to).sort((a, b) => a - b), to];
    return Math.max(...ends.slice(1).map((end, i) => end - ends[i]));
}

// Reports for each event and each group of callers how long writes stood still, and how long the longest
// write took.
export function report(t, history, spans, groups) {
    const during = (list, { from, to }) => list.filter((w) => w.to >= from && w.from <= to);
    for (const span of spans) {
        const writes = during([...history.acks, ...history.answers], span);
        const texts = groups.map((group) => {
            const own = writes.filter((w) => w.caller.startsWith(`${group}-`));
            const longest = own.reduce((max, w) => Math.max(max, w.to - w.from), 0);
            return `${group} stood still for ${seconds(standstill(own, span))}, longest write ${seconds(longest)}`;
        });
        t.diagnostic(`${span.name}: ${writes.length} acknowledged, ${during(history.doubts, span).length} in doubt; `
            + texts.join('; '));
    }
}

// A write fails only after its time is up: shorter outages are hidden from callers.
export function tooEarly(doubts, busyMs) {
    return doubts.filter((w) => w.to - w.from < busyMs)
        .map((w) => `${w.name} failed after ${w.to - w.from} ms: ${w.rest.join(' ')}`);
}
