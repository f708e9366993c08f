// Several servers ("nodes") on one store: each knows the others, and any of them answers for any
// turn.
import assert from 'node:assert/strict';
import test from 'node:test';
import { serveModel } from '../model.mjs';
import { palaver } from '../support.mjs';

const config = 'turn:\n  lease: 2s\nserver:\n  drain: 5s\n';
const pause = (ms = 20) => new Promise((resolve) => setTimeout(resolve, ms));

const nodesOf = (dir, ...args) => JSON.parse(palaver(dir, 'node', 'list', '--json', ...args));

async function nodes(t, count) {
    const first = await serveModel(t, { config });
    const all = [first];
    while (all.length < count)
        all.push(await serveModel(t, { dir: first.dir, model: first.model, config }));
    await Promise.all(all.map((s) => untilKnown(s, 'running', count)));
    return all;
}

// Waits until the metrics of a server show so many nodes in a state.
async function untilKnown(s, state, count) {
    const known = new RegExp(`^palaver_nodes\\{state="${state}"\\} ${count}$`, 'm');
    while (!known.test((await s.get('/metrics')).text)) await pause();
}

test('the list of nodes shows which servers run, died or stopped', async (t) => {
    const [a, b, c] = await nodes(t, 3);
    const running = nodesOf(a.dir);
    assert.deepEqual(running.map((n) => [n.slot, n.state]),
        [[1, 'running'], [2, 'running'], [3, 'running']]);
    assert.deepEqual(running.map((n) => n.address),
        [a, b, c].map((s) => `http://127.0.0.1:${s.port}`));
    assert.match((await b.get('/metrics')).text, /^palaver_node_slot 2$/m);
    await c.stop('SIGKILL');
    await b.stop('SIGTERM');
    assert.deepEqual(nodesOf(a.dir).map((n) => [n.slot, n.state]), [[1, 'running'], [3, 'dead']]);
    assert.deepEqual(nodesOf(a.dir, '--all').map((n) => n.state), ['running', 'stopped', 'dead']);
    await untilKnown(a, 'dead', 1);
    await untilKnown(a, 'running', 1);
    const d = await serveModel(t, { dir: a.dir, model: a.model, config });
    // The slots of the others stay reserved, because ids of turns contain them.
    assert.match((await d.get('/metrics')).text, /^palaver_node_slot 4$/m);
});

test('the id of a turn contains the slot of its node', async (t) => {
    const [, b] = await nodes(t, 2);
    const { json } = await b.turn(await b.session(), { message: '<<say one>>' });
    assert.equal(json.state, 'done');
    assert.equal(json.turn_id.slice(24, 28), '0002');
});
