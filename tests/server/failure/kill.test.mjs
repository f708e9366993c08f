// kill.test.mjs - the server is killed under load, again and again. All acknowledged work is there,
// nothing is there twice, and the next server answers all clients.
//
// SERVER_KILLS sets the number of kills.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';
import { ask, palaver, serve, workspace } from '../support.mjs';

const KILLS = Number(process.env.SERVER_KILLS ?? 4);
const CLIENTS = 24;
const SESSIONS = 8;
const ANSWERS = 120; // acknowledged requests of one server before it is killed
const GONE = /ECONNRESET|ECONNREFUSED|EPIPE|socket hang up|aborted/;
const HANG_MS = 30000; // no response takes this long, however busy the machine is

function within(promise, what) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what} hangs`)), HANG_MS);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// The acknowledged work, and the work that may or may not have been done.
class Ledger {
    constructor(ids) {
        this.sessions = new Map(
            ids.map((id) => [id, { acknowledged: new Map(), sent: new Set() }]));
        this.created = [];
        this.looked = 0; // how many of them were there after a kill
        this.answers = 0;
        this.next = 0;
    }

    pick() {
        const ids = [...this.sessions.keys()];
        return ids[this.next++ % ids.length];
    }

    sent(id, text) {
        this.sessions.get(id).sent.add(text);
    }

    acknowledge(id, text, seq) {
        this.sessions.get(id).acknowledged.set(text, seq);
    }
}

// ---- What clients do ----

// Repeats a request with one idempotency key until it is answered. The work is done once, whichever
// servers are killed meanwhile.
async function appendOnce(client, job) {
    const answer = await client.ask('POST', `/api/v1/sessions/${job.session}/messages`, {
        body: { role: 'user', content: job.text },
        headers: { 'idempotency-key': job.key },
    });
    if (answer.code === 409) {
        assert.equal(answer.json.code, 'answer_lost', answer.text);
        return;
    }
    assert.equal(answer.code, 201, answer.text);
    client.ledger.acknowledge(job.session, job.text, answer.json.messages[0].seq);
}

async function appendIdempotent(client) {
    client.job ??=
        { session: client.ledger.pick(), text: `once ${randomUUID()}`, key: randomUUID() };
    client.ledger.sent(client.job.session, client.job.text);
    await appendOnce(client, client.job);
    client.job = undefined;
}

async function appendPlain(client) {
    const session = client.ledger.pick();
    const text = `plain ${randomUUID()}`;
    client.ledger.sent(session, text);
    const answer = await client.ask('POST', `/api/v1/sessions/${session}/messages`,
        { body: { messages: [{ role: 'user', content: text }] } });
    assert.equal(answer.code, 201, answer.text);
    client.ledger.acknowledge(session, text, answer.json.messages[0].seq);
}

async function create(client) {
    const answer = await client.ask('POST', '/api/v1/sessions', { body: {} });
    assert.equal(answer.code, 201, answer.text);
    client.ledger.created.push(answer.json.session_id);
}

async function read(client) {
    const session = client.ledger.pick();
    const answer = await client.ask('GET',
        `/api/v1/sessions/${session}/messages?order=desc&limit=20`);
    assert.equal(answer.code, 200, answer.text);
    const seqs = answer.json.messages.map(({ seq }) => seq);
    seqs.forEach((seq, i) => assert.ok(i === 0 || seq === seqs[i - 1] - 1, `gap in ${seqs}`));
}

async function look(client) {
    const answer = await client.ask('GET', `/api/v1/sessions/${client.ledger.pick()}`);
    assert.equal(answer.code, 200, answer.text);
}

const WORK = [appendIdempotent, appendPlain, appendIdempotent, read, create, look];

// ---- Load ----

class Client {
    constructor(ledger, number) {
        this.ledger = ledger;
        this.steps = number;
    }

    ask(method, target, options) {
        return within(ask(this.server.port, method, target, { ...options, agent: this.agent }),
            `${method} ${target}`);
    }

    // Runs until the server is gone.
    async run(server) {
        this.server = server;
        this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
        try {
            for (;;) {
                await WORK[this.steps++ % WORK.length](this);
                this.ledger.answers++;
                if (this.ledger.answers >= this.ledger.killAt) server.child.kill('SIGKILL');
            }
        } catch (error) {
            if (!GONE.test(`${error.code} ${error.message}`)) throw error;
        } finally {
            this.agent.destroy();
        }
    }
}

// ---- What must be there ----

async function readAll(server, session) {
    const messages = [];
    for (let after = 0, more = true; more;) {
        const page = `/api/v1/sessions/${session}/messages?after=${after}&limit=1000`;
        const answer = await within(server.get(page), 'reading');
        assert.equal(answer.code, 200, answer.text);
        messages.push(...answer.json.messages);
        more = answer.json.has_more;
        after = messages.at(-1)?.seq ?? 0;
    }
    return messages;
}

async function verify(server, ledger) {
    for (const [id, { acknowledged, sent }] of ledger.sessions) {
        const messages = await readAll(server, id);
        assert.deepEqual(messages.map(({ seq }) => seq), messages.map((_, i) => i + 1), 'gapless');
        const texts = messages.map(({ content }) => content);
        assert.equal(new Set(texts).size, texts.length, 'nothing is there twice');
        for (const text of texts) assert.ok(sent.has(text), `nobody sent '${text}'`);
        for (const [text, seq] of acknowledged)
            assert.equal(texts[seq - 1], text, `acknowledged as ${seq}, and lost`);
    }
}

async function verifyCreated(server, ids) {
    for (const id of ids) {
        const answer = await within(server.get(`/api/v1/sessions/${id}`), 'looking');
        assert.equal(answer.code, 200, `created, and lost: ${answer.text}`);
    }
}

test(`${KILLS} kills under load lose nothing that was acknowledged`, async (t) => {
    const dir = workspace(t);
    let server = await serve(t, { dir });
    const ids = [];
    for (let i = 0; i < SESSIONS; i++)
        ids.push((await server.post('/api/v1/sessions', {})).json.session_id);
    const ledger = new Ledger(ids);
    const clients = Array.from({ length: CLIENTS }, (_, i) => new Client(ledger, i));
    for (let kill = 0; kill < KILLS; kill++) {
        // The number varies, so that kills hit different moments of a commit.
        ledger.killAt = ledger.answers + ANSWERS + (kill * 37) % 50;
        await Promise.all(clients.map((client) => client.run(server)));
        const { signal } = await server.stop('SIGKILL');
        assert.equal(signal, 'SIGKILL');
        server = await serve(t, { dir });
        await verify(server, ledger);
        // Checks everything again at the end. After each kill this would take most of the test's
        // time.
        await verifyCreated(server, ledger.created.slice(ledger.looked));
        ledger.looked = ledger.created.length;
    }
    // Requests that were never answered are sent once more.
    for (const client of clients.filter(({ job }) => job)) {
        client.server = server;
        await appendOnce(client, client.job);
    }
    await verify(server, ledger);
    await verifyCreated(server, ledger.created);
    for (const { job } of clients.filter((client) => client.job)) {
        const texts = (await readAll(server, job.session)).map(({ content }) => content);
        assert.ok(texts.includes(job.text), 'its answer may be lost, but not its work');
    }
    assert.equal((await server.stop()).code, 0);
    palaver(dir, 'fsck');
});

test('a server stops cleanly while clients disconnect during their requests', async (t) => {
    const server = await serve(t);
    const { session_id: id } = (await server.post('/api/v1/sessions', {})).json;
    const body = JSON.stringify({ role: 'user', content: 'and gone' });
    const head = `POST /api/v1/sessions/${id}/messages HTTP/1.1\r\nHost: localhost\r\n`
        + `Content-Length: ${body.length}\r\n\r\n`;
    const gone = Array.from({ length: 200 }, () => new Promise((resolve) => {
        const socket = net.connect(server.port, '127.0.0.1');
        socket.on('error', resolve);
        socket.on('close', resolve);
        socket.write(head + body, () => socket.resetAndDestroy());
    }));
    await Promise.all(gone);
    const { code } = await within(server.stop(), 'the end');
    assert.equal(code, 0);
});
