// The response of a turn when the disk is full.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { serve } from '../support.mjs';
import { serveModel } from '../model.mjs';

// Simulates a full disk for all files of the server.
const limit = (s, bytes) => {
    const done = spawnSync('prlimit', ['--pid', `${s.child.pid}`, `--fsize=${bytes}`]);
    assert.equal(done.status, 0, `${done.stderr}`);
};

test('a turn that fails because of the disk is not reported as a failure of the model', async (t) => {
    const s = await serveModel(t);
    const id = await s.session();
    assert.equal((await s.turn(id, { message: 'one' })).code, 200);
    const data = path.join(s.dir, 'palaver-data');
    const largest = Math.max(...fs.readdirSync(data)
        .map((name) => fs.statSync(path.join(data, name)).size));
    // The message is kept, the long answer is not.
    limit(s, `${largest + 65536}:unlimited`);
    const answer = await s.turn(id, { message: '<<size 4000000>>' });
    const expected = { 500: 'io', 507: 'full' };
    assert.equal(answer.json.code, expected[answer.code], `${answer.code} ${answer.text}`);
    limit(s, 'unlimited:unlimited');
    assert.equal((await s.turn(id, { message: 'two', lane: 'queue' })).code, 200);
});

test('an unreachable model is reported as a failure of the service', async (t) => {
    const s = await serve(t, { config: 'turn: {retries: 1}\n',
        args: ['--provider', 'openai', '--provider-url', 'http://127.0.0.1:9/v1', '--model', 'm'] });
    const { session_id: id } = (await s.post('/api/v1/sessions', {})).json;
    const answer = await s.post(`/api/v1/sessions/${id}/turns`, { message: 'hi' });
    assert.deepEqual([answer.code, answer.json.code], [502, 'provider'], answer.text);
});
