// Writes whose server is killed at any moment are repeated at the next server with the same
// idempotency key. Each does its work once, whether the first request had been committed, answered,
// or neither.
import test from 'node:test';
import assert from 'node:assert/strict';
import { ask, serve, workspace } from '../support.mjs';

const rounds = Number(process.env.PALAVER_KILL_ROUNDS ?? 8);
const base = '/api/v1/sessions';

// Each write has a separate session. `once` counts its effects; `mark` is the kind of mark that it
// leaves.
const writes = [
    { name: 'create', send: (n) => ['POST', base, { title: `made ${n}` }],
        once: async (s, n) => s.count((x) => x.title === `made ${n}`) },
    { name: 'append', send: (n) => ['POST', `${base}/append-${n}/messages`,
        { messages: [{ role: 'user', content: 'new' }, { role: 'user', content: 'new' }] }],
        once: async (s, n) => (await s.messages(`append-${n}`)).filter((m) => m.content === 'new')
            .length / 2 },
    { name: 'fork', send: (n) => ['POST', `${base}/fork-${n}/fork`, { title: `forked ${n}` }],
        once: async (s, n) => s.count((x) => x.title === `forked ${n}`) },
    { name: 'rewind', send: (n) => ['POST', `${base}/rewind-${n}/rewind`, { to_seq: 1 }],
        mark: 'rewind' },
    { name: 'reset', send: (n) => ['POST', `${base}/reset-${n}/reset`, {}], mark: 'reset' },
    { name: 'pin', send: (n) => ['POST', `${base}/pin-${n}/pins`, { seq: 1 }], mark: 'pin' },
    { name: 'unpin', send: (n) => ['DELETE', `${base}/unpin-${n}/pins/1`], mark: 'unpin' },
    { name: 'undo', send: (n) => ['POST', `${base}/undo-${n}/undo`, {}], mark: 'undo' },
    { name: 'compact', send: (n) => ['POST', `${base}/compact-${n}/compact`, { cut_seq: 2 }],
        mark: 'checkpoint' },
    { name: 'import', send: (n) => ['POST', `/api/v1/import?project=imported-${n}`,
        [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }]],
        once: async (s, n) => {
            const found = await s.sessions((x) => x.project === `imported-${n}`);
            assert.equal((await s.messages(found[0].id)).length, 2);
            return found.length;
        } },
    { name: 'update', send: (n) => ['PATCH', `${base}/update-${n}`, { title: `updated ${n}` }],
        once: async (s, n) => s.count((x) => x.title === `updated ${n}`) },
    { name: 'delete', send: (n) => ['DELETE', `${base}/delete-${n}`],
        once: async (s, n) => (await s.sessions((x) => x.key === `delete-${n}`, 'trash')).length },
    { name: 'erase', send: (n) => ['POST', `${base}/erase-${n}/erase`, {}],
        once: async (s, n) => 1 + await s.count((x) => x.key === `erase-${n}`) },
];

async function prepare(s, n) {
    const long = 'many words about a lamp that is broken. '.repeat(60);
    for (const { name } of writes) {
        if (['create', 'import'].includes(name)) continue;
        const key = `${name}-${n}`;
        assert.equal((await s.post(base, { key })).code, 201);
        assert.equal((await s.post(`${base}/${key}/messages`, { messages: [long, long, 'three']
            .map((content) => ({ role: 'user', content })) })).code, 201);
        if (name === 'undo' || name === 'unpin')
            assert.equal((await s.post(`${base}/${key}/pins`, { seq: 1 })).code, 200);
    }
}

function send(port, write, n) {
    const [method, path, body] = write.send(n);
    return ask(port, method, path, { body, headers: { 'idempotency-key': `${write.name}:${n}` } });
}

// A process that died while it worked on a session locks the session for a moment.
async function sendUntilFree(port, write, n) {
    for (;;) {
        const answer = await send(port, write, n);
        if (!['busy', 'session_busy'].includes(answer.json.code)) return answer;
        await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
}

const looking = (s) => ({
    sessions: async (wanted, state = 'active') =>
        (await s.get(`${base}?limit=1000&state=${state}`)).json.sessions.filter(wanted),
    count: async (wanted) =>
        (await s.get(`${base}?limit=1000`)).json.sessions.filter(wanted).length,
    messages: async (name) => (await s.get(`${base}/${name}/messages?hidden=true`)).json.messages,
    marks: async (name, kind) =>
        (await s.get(`${base}/${name}/marks`)).json.marks.filter((m) => m.kind === kind).length,
});

test('a write that is repeated after a crash is done once', async (t) => {
    const dir = workspace(t);
    const config = 'turn:\n  lease: 1s\n';
    const seen = {};
    for (let n = 0; n < rounds; n++) {
        const s = await serve(t, { dir, config });
        await prepare(s, n);
        // All writes are sent at the same time, and the server is killed after some responses. The
        // other writes are before, in or after their commit.
        let answered = 0, enough;
        const reached = new Promise((resolve) => { enough = resolve; });
        const first = writes.map((write) => send(s.port, write, n).then((answer) => {
            if (++answered > n % writes.length) enough();
            return answer.code;
        }, () => 0));
        await reached;
        await s.stop('SIGKILL');
        const codes = await Promise.all(first);

        const next = await serve(t, { dir, config });
        const look = looking(next);
        for (const [i, write] of writes.entries()) {
            const again = await sendUntilFree(next.port, write, n);
            const what = `${write.name}, round ${n}: ${codes[i]}, then ${again.code} ${again.text}`;
            if (again.code === 409) assert.equal(again.json.code, 'answer_lost', what);
            else assert.ok(again.code < 300, what);
            if (codes[i] >= 200) {
                assert.equal(again.code, codes[i], what);
                assert.equal(again.headers['idempotent-replayed'], 'true', what);
            }
            const count = write.mark ? await look.marks(`${write.name}-${n}`, write.mark)
                : await write.once(look, n);
            assert.equal(count, 1, `${what}: done ${count} times`);
            const how = codes[i] ? 'answered' : again.headers['idempotent-replayed'] ? 'remembered'
                : again.code === 409 ? 'committed' : 'fresh or found';
            seen[how] = (seen[how] ?? 0) + 1;
        }
        await next.stop();
    }
    t.diagnostic(JSON.stringify(seen));
    assert.ok(seen.answered >= rounds);
});
