// Several servers on one store: a client gets the answer of its turn, whichever server ran it.
// Turns of a server that dies, hangs or stops are continued by another one.
//
// SEVERAL_SECONDS sets how long the mixed test runs, in which servers are killed, paused and
// stopped under load. SEVERAL_SEED determines its events.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { isA, open, serveModel, textOf } from '../model.mjs';
import { ask, assertError, palaver } from '../support.mjs';

const config = 'turn:\n  lease: 1s\nserver:\n  drain: 2s\n';
const SECONDS = Number(process.env.SEVERAL_SECONDS ?? 4);
const SEED = Number(process.env.SEVERAL_SEED ?? 1);
const tool = (name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });
const pause = (ms = 10) => new Promise((resolve) => setTimeout(resolve, ms));

async function two(t) {
    const a = await serveModel(t, { config });
    return [a, await serveModel(t, { dir: a.dir, model: a.model, config })];
}

async function messagesOf(s, id) {
    const messages = [];
    for (;;) {
        const last = messages.at(-1)?.seq ?? 0;
        const page = await s.get(`/api/v1/sessions/${id}/messages?limit=1000&after=${last}`);
        messages.push(...page.json.messages);
        if (page.json.messages.length < 1000) return messages;
    }
}

async function untilTurn(s, turn, ...states) {
    for (;;) {
        const found = await s.get(`/api/v1/turns/${turn}`);
        assert.equal(found.code, 200, found.text);
        if (states.includes(found.json.state)) return found.json;
        await pause();
    }
}

test('turns run in the order in which they were queued, and each client gets its answer', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const first = a.turn(id, { message: '<<say one>><<hang times=1>>' });
    await a.untilAsked(1);
    const second = b.turn(id, { message: '<<say two>>', lane: 'queue' });
    await b.untilQueued(1);
    const third = a.turn(id, { message: '<<say three>>', lane: 'queue' });
    await a.untilQueued(1);
    await a.release();
    const answers = await Promise.all([first, second, third]);
    assert.deepEqual(answers.map(({ json }) => [json.state, json.text]),
        [['done', 'one'], ['done', 'two'], ['done', 'three']]);
    assert.deepEqual((await messagesOf(a, id)).filter((m) => m.role === 'assistant')
        .map((m) => m.content), ['one', 'two', 'three']);
    for (const { json } of answers) {
        for (const s of [a, b]) {
            const { json: found } = await s.get(`/api/v1/turns/${json.turn_id}`);
            assert.deepEqual([found.state, found.text], ['done', json.text]);
        }
    }
});

test('a repeated request at another server joins the turn, waiting or running', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const running = { message: '<<say one>><<hang times=1>>', client_id: 'r' };
    const waiting = { message: '<<say two>>', client_id: 'w', lane: 'queue' };
    const first = a.turn(id, running);
    await a.untilAsked(1);
    const second = a.turn(id, waiting);
    await a.untilQueued(1);
    // A repeated request may name another lane.
    const repeats = [b.turn(id, running), b.turn(id, { ...running, lane: 'queue' }),
        b.turn(id, waiting), b.turn(id, { ...waiting, lane: 'reject' })];
    await b.untilQueued(1);
    const other = await b.turn(id, { ...waiting, message: 'something else' });
    assert.equal(other.code, 409, other.text);
    await a.release();
    const texts = (await Promise.all([first, second, ...repeats])).map(({ json }) => json);
    assert.deepEqual(texts.map((json) => json.text), ['one', 'two', 'one', 'one', 'two', 'two'],
        JSON.stringify(texts));
    assert.equal(new Set(texts.map((json) => json.message_id)).size, 2);
    assert.deepEqual((await messagesOf(b, id)).map((m) => m.role),
        ['user', 'assistant', 'user', 'assistant']);
});

test('a turn that is paused at one server takes its results at another', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const first = a.turn(id, { message: '<<say one>><<hang times=1>>' });
    await a.untilAsked(1);
    // The turn waits at the second server. Whichever server runs it, its caller learns of the
    // pause.
    const waits = b.turn(id, { message: '<<tool f {}>>', tools: [tool('f')], lane: 'queue' });
    await b.untilQueued(1);
    await a.release();
    assert.equal((await first).json.text, 'one');
    const { json } = await waits;
    assert.deepEqual([json.state, json.waiting[0].name], ['paused', 'f'], JSON.stringify(json));
    const results = { results: [{ call_id: json.waiting[0].call_id, output: 'ok' }] };
    const on = await a.post(`/api/v1/turns/${json.turn_id}/results`, results);
    assert.deepEqual([on.code, on.json.turn_id, on.json.text], [200, json.turn_id, 'tool said: ok'],
        on.text);
    assert.equal((await untilTurn(b, json.turn_id, 'done')).text, 'tool said: ok');
});

// The response waits in the memory of its server. No turn runs and no server holds the session.
test('a background response that waits at one server has not failed at another', async (t) => {
    const [a, b] = await two(t);
    const conversation = (await a.post('/v1/conversations', {})).json.id;
    const respond = (s, input) => s.post('/v1/responses',
        { model: 'mock-model', input, conversation, background: true });
    const first = (await respond(a, '<<say one>><<hang times=1>>')).json.id;
    await a.untilAsked(1);
    const waits = (await respond(b, '<<say two>>')).json.id;
    const ended = async (s, id) => {
        for (;;) {
            const { json } = await s.get(`/v1/responses/${id}`);
            if (!['queued', 'in_progress'].includes(json.status)) return json.status;
            await pause();
        }
    };
    b.child.kill('SIGSTOP');
    try {
        await a.release();
        assert.equal(await ended(a, first), 'completed');
        assert.equal((await a.get(`/v1/responses/${waits}`)).json.status, 'in_progress');
    } finally {
        b.child.kill('SIGCONT');
    }
    assert.equal(await ended(a, waits), 'completed');
    await respond(a, '<<say three>><<hang times=1>>');
    await a.untilAsked(3);
    const lost = (await respond(b, '<<say four>>')).json.id;
    await b.stop('SIGKILL');
    assert.equal(await ended(a, lost), 'failed');
});

test('a server that stops hands over its waiting turns', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const first = a.turn(id, { message: '<<say one>><<hang times=1>>' });
    await a.untilAsked(1);
    const waiting = b.turn(id, { message: '<<say two>>', lane: 'queue' });
    await b.untilQueued(1);
    const ended = b.stop();
    const told = await waiting;
    if (told.code !== 200) {
        assert.deepEqual([told.code, told.json.code], [503, 'stopping'], told.text);
        assert.equal(told.json.turn.state, 'queued');
    }
    assert.equal((await ended).code, 0);
    await a.release();
    assert.equal((await first).json.text, 'one');
    const turn = told.json.turn_id ?? told.json.turn.turn_id;
    assert.equal((await untilTurn(a, turn, 'done')).text, 'two');
});

test('a server that was suspended sends its clients the answer of another server', async (t) => {
    const [a, b] = await two(t);
    const id = await a.session();
    const body = { message: '<<say one>><<hang times=1>>', client_id: 'c' };
    const first = a.turn(id, body);
    await a.untilAsked(1);
    a.child.kill('SIGSTOP');
    const second = await b.turn(id, { ...body, lane: 'queue' });
    assert.equal(second.json.text, 'one', second.text);
    a.child.kill('SIGCONT');
    await a.release();
    const { code, json } = await first;
    assert.deepEqual([code, json.text, json.message_id], [200, 'one', second.json.message_id]);
});

// Opens a stream of the first server and reads the beginning of an answer. Then that server is
// paused.
async function standStill(t, message) {
    const [a, b] = await two(t);
    const id = await a.session();
    const body = { message, client_id: 'c', lane: 'queue' };
    const stream = await open(a.port, 'POST', `/api/v1/sessions/${id}/turns`,
        { body: { ...body, stream: true } });
    await stream.next(isA('text'));
    a.child.kill('SIGSTOP');
    // Ends when the second server has answered it.
    const goOn = async () => {
        const other = b.turn(id, body);
        await a.untilAsked(2);
        await a.release();
        const { json } = await other;
        a.child.kill('SIGCONT');
        return { events: await stream.end(), json };
    };
    return { b, id, goOn };
}

test('the stream of a server that was suspended repeats no text', async (t) => {
    const { goOn } = await standStill(t, 'alpha beta gamma <<chunk 9>><<stall after=1>>');
    const { events, json } = await goOn();
    assert.equal(json.text, 'echo: alpha beta gamma');
    assert.equal(textOf(events), json.text, JSON.stringify(events));
    assert.deepEqual(events.filter(isA('step')).map(({ data }) => data.step), [1]);
    assert.equal(events.find(isA('message')).data.message_id, json.message_id);
    assert.deepEqual([events.at(-1).event, events.at(-1).data.state], ['ended', 'done']);
});

test('a different answer of another server restarts its step', async (t) => {
    const { b, id, goOn } = await standStill(t, 'alpha beta gamma <<chunk 9>><<stall after=1>>');
    await b.post(`/api/v1/sessions/${id}/messages`, { role: 'user', content: 'something else' });
    const { events, json } = await goOn();
    assert.equal(json.text, 'echo: something else');
    const steps = events.filter(isA('step'));
    assert.deepEqual(steps.map(({ data }) => data.step), [1, 1], JSON.stringify(events));
    assert.equal(textOf(events.slice(events.indexOf(steps[1]))), json.text);
});

test('another server immediately sees that a turn is waiting', async (t) => {
    const [a, b] = await two(t);
    const call = '<<tool recall {"text":"x"}>>';
    const message = `${call}<<next>>${call}<<next>>${call}<<next>><<say enough>>`;
    for (let i = 0; i < 5; i++) {
        const asks = (await a.turn(await a.session(), { message })).json;
        assert.equal(asks.state, 'asking');
        const seen = (await b.get(`/api/v1/turns/${asks.turn_id}`)).json;
        assert.deepEqual([seen.state, seen.asking?.call_id, seen.asking?.reason],
            ['asking', asks.asking.call_id, asks.asking.reason], JSON.stringify(seen));
        const told = await b.post(`/api/v1/turns/${asks.turn_id}/approve`, { allow: true });
        assert.equal(told.code, 200, told.text);
        assert.equal((await untilTurn(b, asks.turn_id, 'done')).state, 'done');
        const pauses = (await a.turn(await a.session(),
            { message: '<<tool f {}>>', tools: [tool('f')] })).json;
        const stands = (await b.get(`/api/v1/turns/${pauses.turn_id}`)).json;
        assert.deepEqual([stands.state, stands.waiting], ['paused', pauses.waiting],
            JSON.stringify(stands));
        const on = await b.post(`/api/v1/turns/${pauses.turn_id}/results`,
            { results: [{ call_id: pauses.waiting[0].call_id, output: 'ok' }] });
        assert.equal(on.json.text, 'tool said: ok', on.text);
        assert.deepEqual(on.json.tool_calls.map((one) => [one.name, one.output]), [['f', 'ok']]);
        // The server at which it waited no longer reports it as waiting.
        assert.equal((await a.get(`/api/v1/turns/${pauses.turn_id}`)).json.state, 'done');
    }
});

// ---- Everything at once ----

function randomOf(seed) {
    let state = seed * 2654435761 % 4294967296;
    return () => {
        state = (state * 1664525 + 1013904223) % 4294967296;
        return state / 4294967296;
    };
}

class Load {
    constructor(t, count, seed) {
        Object.assign(this, { t, count, random: randomOf(seed), sent: [], isOver: false, next: 0 });
    }

    async open() {
        const first = await serveModel(this.t, { config });
        this.model = first.model;
        this.dir = first.dir;
        this.servers = [first];
        while (this.servers.length < this.count) this.servers.push(await this.start());
        this.sessions = [];
        for (let i = 0; i < 5; i++) this.sessions.push(await first.session());
    }

    start() {
        return serveModel(this.t, { dir: this.dir, model: this.model, config });
    }

    pick(list) {
        return list[Math.floor(this.random() * list.length)];
    }

    // Repeats a request until it is answered, each time at another server.
    async send(work) {
        for (let tries = 0; ; tries++) {
            const server = this.pick(this.servers);
            let answer;
            try {
                answer = await ask(server.port, 'POST', `/api/v1/sessions/${work.session}/turns`,
                    { body: work.body });
            } catch {
                await pause(20);
                continue;
            }
            if (answer.code === 200) return answer.json;
            if (answer.code === 202) {
                work.turn = answer.json.turn_id;
                return undefined;
            }
            assert.ok([409, 502, 503].includes(answer.code), answer.text);
            assert.ok(tries < 2000, `never answered: ${answer.text}`);
            assert.notEqual(answer.json.code, 'answer_lost', answer.text);
            await pause(20);
        }
    }

    async client() {
        while (!this.isOver) {
            const number = this.next++;
            const work = { session: this.pick(this.sessions), number,
                body: { message: `<<say answer ${number}>>`, client_id: randomUUID(), lane: 'queue',
                    background: this.random() < 0.2 } };
            this.sent.push(work);
            work.answers = [await this.send(work)];
            if (this.random() < 0.3) work.answers.push(await this.send(work));
        }
    }

    async faults() {
        while (!this.isOver) {
            await pause(300 + this.random() * 700);
            if (this.isOver) return;
            const at = Math.floor(this.random() * this.servers.length);
            const server = this.servers[at];
            const what = this.random();
            if (what < 0.35) {
                server.child.kill('SIGSTOP');
                await pause(1500);
                server.child.kill('SIGCONT');
            } else {
                await server.stop(what < 0.7 ? 'SIGKILL' : 'SIGTERM');
                this.servers[at] = await this.start();
            }
        }
    }
}

async function whatBecame(s, work) {
    const messages = await messagesOf(s, work.session);
    const said = messages.find((m) => m.client_id === work.body.client_id);
    assert.ok(said, `${JSON.stringify(work)} was admitted, and is not recorded: ${
        work.turn && (await s.get(`/api/v1/turns/${work.turn}`)).text}`);
    const { json } = await s.get(`/api/v1/turns/${said.turn_id}`);
    const around = messages.slice(said.seq - 2, said.seq + 4)
        .map((m) => [m.seq, m.role, m.content, m.turn_id, m.created_at]);
    assert.equal(json.state, 'done', JSON.stringify([json, around]));
}

async function verify(load) {
    const s = load.servers[0];
    for (const id of load.sessions) {
        const last = await s.turn(id, { message: '<<say last>>', lane: 'queue' });
        assert.equal(last.json.text, 'last', `the session is stuck: ${last.text}`);
    }
    for (const work of load.sent) {
        const { number, session, body } = work;
        await whatBecame(s, work);
        const { json, code, text } = await s.turn(session, { ...body, background: false });
        assert.deepEqual([code, json.state, json.text], [200, 'done', `answer ${number}`], text);
        for (const answer of work.answers.filter(Boolean)) {
            assert.deepEqual([answer.state, answer.text, answer.message_id],
                ['done', `answer ${number}`, json.message_id], JSON.stringify(answer));
        }
    }
    for (const id of load.sessions) {
        const messages = await messagesOf(s, id);
        const said = messages.filter((m) => m.role === 'user').map((m) => m.content);
        const answers = messages.filter((m) => m.role === 'assistant').map((m) => m.content);
        assert.equal(new Set(said).size, said.length, 'nothing is said twice');
        assert.equal(new Set(answers).size, answers.length, 'nothing is answered twice');
        assert.equal(answers.length, said.length, 'everything is answered');
    }
}

for (const count of [2, 3]) {
    test(`${count} servers work under load, while they are killed, stopped and suspended`, async (t) => {
        const load = new Load(t, count, SEED + count);
        await load.open();
        const clients = Array.from({ length: 6 }, () => load.client());
        const faults = load.faults();
        await pause(SECONDS * 1000);
        load.isOver = true;
        await faults;
        await Promise.all(clients);
        await verify(load);
        t.diagnostic(`${load.sent.length} turns`);
        for (const server of load.servers) await server.stop();
        palaver(load.dir, 'fsck');
    });
}
