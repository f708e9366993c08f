// Several servers ("nodes") on one store: each knows the others, and any of them answers for any
// turn.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import { openBalancer } from '../../support/balance.mjs';
import { History, judge, monotonicMs, psql, questionOf } from '../../support/history/history.mjs';
import { open } from '../model.mjs';
import { keyOf, metric, nodes, nodesOf, pause, postgres, start, stateOf, untilKnown } from '../nodes.mjs';
import { assertError } from '../support.mjs';

const SECONDS = Number(process.env.NODES_SECONDS ?? 4);

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
    const d = await start(t, { dir: a.dir, model: a.model });
    // The slots of the others stay reserved, because ids of turns contain them.
    assert.match((await d.get('/metrics')).text, /^palaver_node_slot 4$/m);
});

test('the id of a turn contains the slot of its node', async (t) => {
    const [, b] = await nodes(t, 2);
    const { json } = await b.turn(await b.session(), { message: '<<say one>>' });
    assert.equal(json.state, 'done');
    assert.equal(json.turn_id.slice(24, 28), '0002');
});

// A turn that waits for a client is held by no node. Soon each of them has a copy, which is outdated
// when another node continues the turn. A node compares its copy with the store less and less often.
const untilCopied = async (s) => {
    while (await metric(s, 'palaver_turns_waiting') !== 1) await pause();
    await pause(600);
};
const passed = (s) => metric(s, 'palaver_passed_total');
const tool = (name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });

test('events of a turn can be read and resumed at any node', async (t) => {
    const [a, b] = await nodes(t, 2);
    const id = await a.session();
    const { json: turn } = await a.turn(id, { message: '<<say one>><<hang times=1>>', background: true });
    await a.untilAsked(1);
    const stream = await open(b.port, 'GET', `/api/v1/turns/${turn.turn_id}/events`);
    assert.equal(stream.code, 200);
    assert.match(stream.headers['content-type'], /^text\/event-stream/);
    assert.ok(await stream.next((e) => e.event === 'step'), 'arrives while the turn runs');
    await a.release();
    await stream.end();
    assert.deepEqual(stream.events.at(-1).data.state, 'done');
    const third = stream.events[2].id;
    const rest = await open(b.port, 'GET', `/api/v1/turns/${turn.turn_id}/events`,
        { headers: { 'last-event-id': String(third) } });
    await rest.end();
    assert.deepEqual(rest.events.map((e) => e.id), stream.events.slice(3).map((e) => e.id));
    assert.equal(await passed(b), 2);
    assert.equal(await passed(a), 0);
});

test('a turn is canceled through any node', async (t) => {
    const [a, b, c] = await nodes(t, 3);
    const id = await a.session();
    const first = a.turn(id, { message: '<<say one>><<hang>>' });
    await a.untilAsked(1);
    const queued = (await c.turn(id, { message: '<<say two>>', lane: 'queue', background: true })).json;
    // The session's turn is found, whichever node is asked.
    const running = (await b.get(`/api/v1/sessions/${id}/turn`)).json;
    assert.deepEqual([running.state, running.turn_id.slice(24, 28)], ['running', '0001']);
    const gone = await b.post(`/api/v1/turns/${queued.turn_id}/cancel`);
    assert.deepEqual([gone.code, gone.json.state], [200, 'canceled'], gone.text);
    const ended = await c.post(`/api/v1/turns/${running.turn_id}/cancel`);
    assert.deepEqual([ended.code, ended.json.state], [200, 'canceled'], ended.text);
    assert.equal((await first).json.state, 'canceled');
});

test('a message steers or interrupts a turn of another node', async (t) => {
    const [a, b] = await nodes(t, 2);
    const id = await a.session();
    const first = a.turn(id, { message: '<<tool f {}>>', tools: [tool('f')] });
    const { json: paused } = await first;
    assert.equal(paused.state, 'paused');
    await untilCopied(b);
    const stops = a.turn(id, { message: '<<say two>><<hang>>', lane: 'interrupt' });
    await a.untilAskedFor('say two');
    const answer = await b.turn(id, { message: '<<say three>>', lane: 'interrupt' });
    assert.deepEqual([answer.code, answer.json.state, answer.json.text], [200, 'done', 'three'], answer.text);
    assert.equal(answer.json.turn_id.slice(24, 28), '0001', 'the node that had the session ran it');
    assert.equal((await stops).json.state, 'canceled');
    const long = a.turn(id, { message: '<<say four>><<hang times=1>>' });
    await a.untilAskedFor('say four');
    const steer = await b.turn(id, { message: '<<say five>>', lane: 'steer', background: true });
    assert.equal(steer.code, 202, steer.text);
    await a.release();
    const { json } = await long;
    assert.equal(steer.json.turn_id, json.turn_id, 'the message joined the running turn');
    assert.equal(json.text, 'five');
});

test('results reach a turn of another node', async (t) => {
    const [a, b] = await nodes(t, 2);
    const id = await a.session();
    const message = { message: '<<tool f {}>>', tools: [tool('f')] };
    const give = (path, turn, output) => b.post(path, { results: [{ call_id: turn.waiting[0].call_id, output }] });
    const { json: first } = await a.turn(id, message);
    await untilCopied(b);
    const on = await give(`/api/v1/turns/${first.turn_id}/results`, first, 'ok');
    assert.deepEqual([on.code, on.json.turn_id, on.json.text], [200, first.turn_id, 'tool said: ok'], on.text);
    const { json: next } = await a.turn(id, message);
    const more = await give(`/api/v1/sessions/${id}/results`, next, 'yes');
    assert.deepEqual([more.code, more.json.turn_id], [200, next.turn_id], more.text);
});

test('a background response is canceled and read through any node', async (t) => {
    const [a, b] = await nodes(t, 2);
    const respond = (input) => a.post('/v1/responses', { model: 'mock-model', input, background: true, stream: false });
    const one = (await respond('<<say one>><<hang>>')).json.id;
    await a.untilAsked(1);
    const canceled = await b.post(`/v1/responses/${one}/cancel`);
    assert.deepEqual([canceled.code, canceled.json.status], [200, 'cancelled'], canceled.text);
    const two = (await respond('<<say two>><<hang times=1>>')).json.id;
    await a.untilAsked(2);
    const stream = await open(b.port, 'GET', `/v1/responses/${two}?stream=true`);
    assert.equal(stream.code, 200);
    await a.release();
    await stream.end();
    assert.equal(stream.events.at(-1).data.type, 'response.completed');
});

test('a forwarded request is checked again, and a forged header gives no access', async (t) => {
    const [a, b] = await nodes(t, 2);
    const admin = keyOf(a.dir, '--role', 'admin');
    const reader = keyOf(a.dir, '--role', 'read');
    const other = keyOf(a.dir, '--role', 'write', '--tenant', 'other');
    for (const s of [a, b]) {
        s.child.kill('SIGHUP'); // otherwise the servers notice the first key after a few seconds
        await s.logged(/reloaded the API keys/);
    }
    const made = await a.post('/api/v1/sessions', {}, { key: admin });
    const { json: turn } = await a.post(`/api/v1/sessions/${made.json.session_id}/turns`,
        { message: '<<say one>><<hang>>', background: true }, { key: admin });
    await a.untilAsked(1);
    const cancel = (s, options) => s.post(`/api/v1/turns/${turn.turn_id}/cancel`, undefined, options);
    assert.equal((await cancel(b, {})).code, 401);
    assert.equal((await cancel(b, { key: reader })).code, 403);
    assert.equal((await cancel(b, { key: other })).code, 404);
    // A wrong token is ignored: the request is passed on like any other.
    const forged = { 'x-palaver-node': 'f'.repeat(64) };
    assert.equal((await cancel(b, { headers: forged })).code, 401);
    const done = await cancel(b, { key: admin, headers: forged });
    assert.deepEqual([done.code, done.json.state], [200, 'canceled'], done.text);
});

test('another node continues the turn of a killed node, and an unknown turn is not found', async (t) => {
    const [a, b] = await nodes(t, 2);
    const id = await a.session();
    const { json: turn } = await a.turn(id, { message: '<<say one>><<hang times=1>>', background: true });
    await a.untilAsked(1);
    a.child.kill('SIGKILL');
    // The other node continues the turn under the same id.
    await b.untilAsked(2);
    const stream = await open(b.port, 'GET', `/api/v1/turns/${turn.turn_id}/events`);
    await stream.end();
    assert.equal(stream.events.at(-1).data.state, 'done');
    const c = await start(t, { dir: a.dir, model: a.model });
    assert.equal((await c.get(`/api/v1/turns/${turn.turn_id}`)).json.text, 'one');
    assertError(await c.get('/api/v1/turns/01a1ed92-036c-747a-89ed-000200000000/events'), 404, 'not_found');
});

// A load balancer that asks the servers whether they are ready.
async function balance(t) {
    const proxy = await openBalancer();
    const check = async () => {
        for (const s of proxy.servers())
            s.isReady = await s.get('/readyz').then(({ code }) => code === 200, () => false);
    };
    const timer = setInterval(check, 200);
    t.after(() => { clearInterval(timer); proxy.close(); });
    return proxy;
}

function send(port, method, path, body) {
    const text = JSON.stringify(body ?? {});
    return new Promise((resolve, reject) => {
        const request = http.request({ host: '127.0.0.1', port, method, path, agent: false,
            headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } },
        (response) => {
            let all = '';
            response.setEncoding('utf8').on('data', (piece) => { all += piece; });
            response.on('error', reject);
            response.on('end', () => resolve({ code: response.statusCode, text: all,
                json: /json/.test(response.headers['content-type'] ?? '') ? JSON.parse(all) : undefined }));
        });
        request.on('error', reject);
        request.end(text);
    });
}

// The lease of a session is renewed every 667 ms here, and inboxes are searched for requests of
// dead nodes. Neither may keep a session busy after the answer.
test('after an answer, the next message can go to another node at once', async (t) => {
    const both = await nodes(t, 2);
    const failures = [];
    const client = async (number) => {
        const id = await both[0].session();
        for (let i = 0; i < 6; i++) {
            const ms = 640 + (number * 7 + i * 5) % 40;
            const { code, text } = await both[i % 2].turn(id, { message: `<<say ${i}>><<hang ms=${ms}>>` });
            if (code !== 200) failures.push([ms, code, text]);
        }
    };
    await Promise.all(Array.from({ length: 30 }, (_, number) => client(number)));
    assert.deepEqual(failures, []);
});

test('all nodes are restarted one after another, and no request fails', async (t) => {
    const all = await nodes(t, 3);
    const proxy = await balance(t);
    for (const s of all) proxy.add(s);
    const failures = [];
    let isOver = false;
    let count = 0;
    const client = async () => {
        let session;
        while (!isOver) {
            const steps = session
                ? ['POST', `/api/v1/sessions/${session}/turns`, { message: `<<say ${count}>><<hang ms=50>>` }]
                : ['POST', '/api/v1/sessions', {}];
            const answer = await send(proxy.port, ...steps).catch((error) => ({ text: error.message }));
            count++;
            if (![200, 201].includes(answer.code)) failures.push(`${answer.code} ${answer.text}`);
            session ??= answer.json?.session_id;
            if (count % 10 === 0) session = undefined;
        }
    };
    const clients = [1, 2, 3, 4, 5, 6].map(client);
    for (const s of all) {
        const end = s.stop('SIGTERM');
        await end;
        proxy.remove(s);
        const next = await start(t, { dir: s.dir, model: s.model });
        proxy.add(next);
        await untilKnown(next, 'running', 3);
    }
    isOver = true;
    await Promise.all(clients);
    assert.deepEqual(failures, []);
    assert.ok(count > 50, `only ${count} requests`);
});

// Sends as many requests as possible at the same time: of each, only the last byte is missing before.
async function sendTogether(port, count) {
    const text = 'POST /api/v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}';
    const sockets = Array.from({ length: count }, () => net.connect(port, '127.0.0.1'));
    await Promise.all(sockets.map((s) => new Promise((resolve) => { s.write(text.slice(0, -1), resolve); })));
    await pause(100);
    for (const s of sockets) s.write('}');
    return Promise.all(sockets.map(async (s) => (await s.setEncoding('utf8').toArray()).join('')));
}

// The first request that is passed on opens the client for it, and the others wait for that.
test('requests that come together while a node stops are all passed on', async (t) => {
    const [a, b] = await nodes(t, 2);
    const stopped = a.stop('SIGTERM');
    while ((await a.get('/readyz')).code === 200) await pause();
    const answers = await sendTogether(a.port, 60);
    assert.deepEqual(answers.filter((text) => !text.startsWith('HTTP/1.1 201 ')), []);
    assert.equal((await b.get('/api/v1/sessions?limit=100')).json.sessions.length, 60);
    await stopped;
});

// Kills a process of the database, which then recovers, or its postmaster.
async function killDatabase(count) {
    if (count % 2) {
        const { status } = spawnSync(`${process.env.PALAVER_TEST_POSTGRES_DIR}/restart`, ['kill'], { stdio: 'ignore' });
        assert.equal(status, 0);
        return;
    }
    for (let pid; !pid; await pause()) {
        try {
            [[pid] = []] = psql(postgres, `SELECT pid FROM pg_stat_activity
                WHERE application_name = 'palaver' ORDER BY random() LIMIT 1`);
            if (pid) process.kill(Number(pid), 'SIGKILL');
        } catch {
            pid = undefined; // it recovers, or the process has ended
        }
    }
}

// Each client sends numbered messages until each is answered, through any node, and repeats them with
// the same client id if a node dies. Two clients share each of the first three sessions, and all clients the
// others. On PostgreSQL, processes of the database are killed too.
test('nodes are killed under load, and each acknowledged message is kept once', async (t) => {
    const all = await nodes(t, 3);
    const proxy = await balance(t);
    for (const s of all) proxy.add(s);
    const until = Date.now() + SECONDS * 1000;
    const history = new History();
    const sessions = [];
    while (sessions.length < 6) sessions.push(await all[0].session());
    const client = async (caller, own) => {
        for (let number = 1; Date.now() < until; number++) {
            const id = `${caller}.${number}`;
            const session = number % 3 ? own : sessions[3 + (number / 3) % 3];
            const from = monotonicMs();
            for (let tries = 0; ; tries++) {
                const began = monotonicMs();
                assert.ok(tries < 400, `message ${id} was never answered`);
                const answer = await send(proxy.port, 'POST', `/api/v1/sessions/${session}/turns`,
                    { message: questionOf(id), client_id: id, lane: 'queue' }).catch((error) => ({ text: error.message }));
                const words = (since) => `${session} ${caller} ${number} ${since} ${monotonicMs()} any`;
                if (answer.code === 200 && answer.json.state === 'done') {
                    history.add(`answer ${words(from)} ${answer.json.text}\n`);
                    break;
                }
                history.add(`doubt ${words(began)} ${answer.code} ${answer.text?.trim()}\n`);
                await pause(50);
            }
        }
    };
    const clients = [1, 2, 3, 4, 5, 6].map((n) => client(`c-${n}`, sessions[n % 3]));
    const running = [...all];
    let kills = 0;
    while (Date.now() < until) {
        await pause(700);
        if (postgres && kills % 2) await killDatabase(kills >> 1);
        const victim = running.shift();
        await victim.stop('SIGKILL');
        proxy.remove(victim);
        kills++;
        const next = await start(t, { dir: victim.dir, model: victim.model });
        running.push(next);
        proxy.add(next);
    }
    await Promise.all(clients);
    const verdict = judge(history, await stateOf(running[0], sessions));
    t.diagnostic(`${kills} kills; ${verdict.summary()}`);
    assert.deepEqual(verdict.wrong(), []);
});
