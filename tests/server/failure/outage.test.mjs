// A server on PostgreSQL (tools/pg-test) whose database stops, or comes back without its last writes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { serve } from '../support.mjs';

const postgres = process.env.PALAVER_TEST_POSTGRES;
const pause = (ms = 50) => new Promise((resolve) => setTimeout(resolve, ms));

function psql(statement) {
    const { status, stdout, stderr } = spawnSync('psql', ['-qAtX', postgres, '-c', statement]);
    assert.equal(status, 0, stderr.toString());
    return stdout.toString().trim();
}

// `how`: stop or start.
function database(how) {
    const script = `${process.env.PALAVER_TEST_POSTGRES_DIR}/restart`;
    const { status, stderr } = spawnSync(script, [how], { stdio: ['ignore', 'ignore', 'pipe'] });
    assert.equal(status, 0, stderr?.toString());
}

const start = (t, schema) => serve(t, { args: ['--store', `${postgres}&schema=${schema}`] });

async function create(s) {
    const { code, json } = await s.post('/api/v1/sessions', {});
    assert.equal(code, 201);
    return json.id;
}

const wentBack = async (s) =>
    Number(/^palaver_store_went_back_total (\d+)$/m.exec((await s.get('/metrics')).text)[1]);

test('a server is not ready while its database is stopped', async (t) => {
    const s = await start(t, 'stopped');
    const id = await create(s);
    assert.equal((await s.get('/readyz')).code, 200);
    database('stop');
    const begun = Date.now();
    const { code, json } = await s.get('/readyz');
    assert.equal(code, 503);
    assert.equal(json.status, 'failing');
    // Reads and writes wait for half a minute, but a probe must not.
    assert.ok(Date.now() - begun < 15_000, `the answer took ${Date.now() - begun} ms`);
    const waiting = create(s);
    // Until the writer notices that it has no connection.
    while ((await s.get('/readyz')).json.store !== 'io') await pause();
    assert.equal((await s.get('/healthz')).code, 200);
    database('start');
    while ((await s.get('/readyz')).code !== 200) await pause();
    for (const each of [id, await waiting])
        assert.equal((await s.get(`/api/v1/sessions/${each}`)).code, 200);
    assert.equal(await wentBack(s), 0);
});

test('a database that lost acknowledged writes is logged and counted', async (t) => {
    const s = await start(t, 'went');
    await create(s);
    await create(s);
    assert.equal(await wentBack(s), 0);
    // As after a failover to a replica without the last commit.
    psql('UPDATE went.node SET batch = batch - 1');
    psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'palaver'");
    await create(s);
    assert.equal(await wentBack(s), 1);
    await s.logged(/error.*the database has lost acknowledged writes.*; recover them/i);
    await create(s);
    const { log } = await s.stop();
    assert.equal(log.match(/has lost acknowledged writes/g).length, 1);
});
