// Ends and kills server processes of PostgreSQL, and crashes the server, while two programs append as
// two nodes would. No caller may see an error, and nothing may be lost or doubled. POSTGRES_KILLS makes
// the test longer.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { judge, psql, readHistory, readPostgres, untilAllWrote } from '../../support/history/history.mjs';

const KILLS = Number(process.env.POSTGRES_KILLS ?? 8);
const CALLERS = 4;
const SESSIONS = 3;
const PAUSE_US = 500;
const BUSY_MS = 30_000;
const LOAD_MS = 300; // load before each kill
const writer = process.env.HISTORY_WRITER;
const url = process.env.PALAVER_TEST_POSTGRES;
const dir = process.env.PALAVER_TEST_POSTGRES_DIR;
const OURS = "FROM pg_stat_activity WHERE application_name = 'palaver'";

function start(t, name, sessions) {
    const file = path.join(dir, `${name}.log`);
    const child = spawn(writer, ['write', url, file, name, CALLERS, PAUSE_US, BUSY_MS, ...sessions].map(String),
        { stdio: ['ignore', 'inherit', 'inherit'] });
    t.after(() => child.kill('SIGKILL'));
    const ended = once(child, 'close');
    return { file, callers: CALLERS, stop: async () => {
        child.kill('SIGTERM');
        assert.deepEqual(await ended, [0, null]);
    } };
}

function restart(how) {
    assert.equal(spawnSync(path.join(dir, 'restart'), [how], { stdio: 'ignore' }).status, 0);
}

const disturbances = [
    () => psql(url, `SELECT count(pg_terminate_backend(pid)) ${OURS}`),
    () => { // one process is killed, and the server restarts with crash recovery
        const [[pid] = []] = psql(url, `SELECT pid ${OURS} ORDER BY random() LIMIT 1`);
        if (pid) process.kill(Number(pid), 'SIGKILL');
    },
    () => restart('immediate'),
    () => restart('kill'),
];

test('killed servers lose and double nothing', async (t) => {
    const created = spawnSync(writer, ['create', url, String(SESSIONS)]);
    assert.equal(created.status, 0, created.stderr.toString());
    const sessions = created.stdout.toString().trim().split('\n');
    const writers = ['a', 'b'].map((name) => start(t, name, sessions));
    for (let kill = 0; kill < KILLS; kill++) {
        await untilAllWrote(writers);
        await pause(LOAD_MS);
        disturbances[kill % disturbances.length]();
    }
    await untilAllWrote(writers);
    for (const one of writers) await one.stop();
    const history = readHistory(...writers.map(({ file }) => file));
    const verdict = judge(history, readPostgres(url, 'palaver'));
    t.diagnostic(verdict.summary());
    assert.deepEqual(verdict.wrong(), []);
    assert.deepEqual(history.doubts, [], 'no caller sees an error');
    assert.deepEqual([...history.backs.values()], [0, 0]);
});
