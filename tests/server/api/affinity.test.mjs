// Session affinity: the ids that a router or a llama.cpp server receives, recorded by a scripted
// service. It has slots like llama.cpp, so that the share of requests that find their cache can be
// measured.
import test from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import fs from 'node:fs';
import path from 'node:path';
import { once } from 'node:events';
import { makeKey, serve, serveFails, workspace } from '../support.mjs';

const SLOTS = 4;
const SIMILAR = 0.1; // the default of llama.cpp's --slot-prompt-similarity
const SYSTEM = `You answer briefly. ${'These instructions are long. '.repeat(40)}`;

const common = (a, b) => {
    let i = 0;
    while (i < a.length && i < b.length && a[i] === b[i]) i++;
    return i;
};

// Chooses a slot as llama.cpp does: the named one, otherwise a similar one, otherwise the oldest.
function chooseSlot(slots, named, prompt) {
    if (named !== undefined) return slots[named];
    const best = slots.map((slot) => ({ slot, share: common(slot.prompt, prompt) / prompt.length }))
        .sort((a, b) => b.share - a.share)[0];
    if (best.share > SIMILAR) return best.slot;
    return slots.reduce((a, b) => (b.used < a.used ? b : a));
}

async function scripted(t, { slots: count = SLOTS } = {}) {
    const requests = [], slots = Array.from({ length: count }, () => ({ prompt: '', used: 0 }));
    let clock = 0;
    const server = http.createServer(async (request, response) => {
        let text = '';
        for await (const piece of request) text += piece;
        response.setHeader('content-type', 'application/json');
        if (request.url === '/props') return response.end(JSON.stringify({ total_slots: count }));
        const body = JSON.parse(text || '{}'), { headers } = request;
        const prompt = (body.messages ?? []).map((m) => `<${m.role}>${JSON.stringify(m.content)}`).join('');
        const slot = chooseSlot(slots, body.id_slot, prompt);
        const last = body.messages?.findLast((m) => m.role === 'user')?.content ?? '';
        requests.push({ headers, body, text, cached: common(slot.prompt, prompt), prompt });
        const calls = /call the tool/.test(last) && body.messages.at(-1).role === 'user';
        const delta = calls
            ? { role: 'assistant', tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }] }
            : { role: 'assistant', content: 'Done.' };
        slot.prompt = `${prompt}<assistant>"Done."`;
        slot.used = ++clock;
        if (!body.stream) {
            return response.end(JSON.stringify({ id: 'x', object: 'chat.completion', model: 'm',
                choices: [{ index: 0, message: { role: 'assistant', content: 'Done.' }, finish_reason: 'stop' }] }));
        }
        response.setHeader('content-type', 'text/event-stream');
        const send = (choice) => response.write(`data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', model: 'm', choices: [{ index: 0, ...choice }] })}\n\n`);
        send({ delta });
        send({ delta: {}, finish_reason: calls ? 'tool_calls' : 'stop' });
        response.end('data: [DONE]\n\n');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => { server.closeAllConnections(); server.close(); });
    return { url: `http://127.0.0.1:${server.address().port}/v1`, requests };
}

const configOf = (url, lines = '', rest = '') =>
    `provider: box\nproviders:\n  - name: box\n    kind: openai\n    url: ${url}\n    model: m\n${lines}turn:\n  system: "${SYSTEM}"\n${rest}`;

async function start(t, lines, options = {}) {
    const box = options.box ?? await scripted(t, options);
    const s = await serve(t, { dir: options.dir, config: configOf(box.url, lines, options.rest), args: ['--provider', 'box'] });
    const call = async (target, body, more) => {
        const answer = await s.post(target, body, more);
        assert.ok(answer.code < 300, answer.text);
        return answer.json;
    };
    return { ...s, ...box, box, call,
        session: async (more) => (await call('/api/v1/sessions', {}, more)).session_id,
        turn: (id, content, { tools, ...more } = {}) => call(`/api/v1/sessions/${id}/turns`,
            { messages: [{ role: 'user', content }], ...(tools && { tools }) }, more) };
}

const idsOf = ({ headers }) => ({ session: headers['x-session-id'], same: headers['x-session-affinity'], prefix: headers['x-prefix-id'] });

test('requests of a session have its id, and all requests have the id of their prefix', async (t) => {
    const s = await start(t);
    const one = await s.session(), other = await s.session();
    await s.turn(one, 'hello');
    await s.turn(one, 'again');
    await s.turn(other, 'hello');
    const [first, second, third] = s.requests.map(idsOf);
    assert.match(first.session, /^[0-9a-f]{32}$/);
    assert.equal(first.same, first.session);
    assert.match(first.prefix, /^[0-9a-f]{32}$/);
    assert.deepEqual(second, first);
    assert.notEqual(third.session, first.session);
    assert.equal(third.prefix, first.prefix);
    assert.ok(!JSON.stringify(s.requests.map(({ headers }) => headers)).includes(one), 'the session id itself is not sent');
    for (const { body } of s.requests) assert.deepEqual([body.id_slot, body.prompt_cache_key, body.cache_prompt], [undefined, undefined, undefined]);
});

test('each step of a turn, a fork and a compaction keep the ids that fit them', async (t) => {
    const s = await start(t);
    const one = await s.session();
    const tools = [{ name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } }];
    const paused = await s.turn(one, 'call the tool', { tools });
    await s.call(`/api/v1/turns/${paused.turn_id}/results`, { results: [{ call_id: 'c1', output: 'seen' }] });
    while (s.requests.length < 2) await new Promise((resolve) => { setTimeout(resolve, 5); });
    const [first, second] = s.requests.map(idsOf);
    assert.deepEqual(second, first, 'the second step');
    await s.call(`/api/v1/sessions/${one}/fork`, { key: 'forked' });
    await s.turn('forked', 'and here', { tools });
    const fork = idsOf(s.requests.at(-1));
    assert.notEqual(fork.session, first.session);
    assert.equal(fork.prefix, first.prefix, 'a fork begins like its parent');
    const before = s.requests.length;
    await s.call(`/api/v1/sessions/${one}/compact`, {});
    assert.equal(s.requests.length, before + 1, 'the summary was asked for');
    assert.equal(idsOf(s.requests.at(-1)).session, first.session, 'a compaction begins like its session');
});

test('ids are different for each tenant, and the same after a restart', async (t) => {
    const dir = workspace(t), store = ['--store', 'sqlite:palaver.db'];
    const keys = ['a', 'b'].map((tenant) => makeKey(dir, ...store, '--role', 'write', '--tenant', tenant).key);
    const rest = 'store: sqlite:palaver.db\n';
    const s = await start(t, '', { dir, rest });
    const sessions = [];
    for (const key of keys) {
        sessions.push(await s.session({ key }));
        await s.turn(sessions.at(-1), 'hello', { key });
    }
    const [a, b] = s.requests.map(idsOf);
    assert.notEqual(a.prefix, b.prefix);
    assert.notEqual(a.session, b.session);
    await s.stop();
    const again = await start(t, '', { dir, rest, box: s.box });
    await again.turn(sessions[0], 'and now', { key: keys[0] });
    assert.deepEqual(idsOf(s.requests.at(-1)), a);
});

test('the names of the headers can be configured, and configured headers stay', async (t) => {
    const s = await start(t, '    affinity: headers\n    affinity_headers: [x-user-id, x-smg-routing-key]\n    headers: {x-user-id: fixed}\n');
    await s.turn(await s.session(), 'hello');
    const [{ headers }] = s.requests;
    assert.equal(headers['x-user-id'], 'fixed');
    assert.match(headers['x-smg-routing-key'], /^[0-9a-f]{32}$/);
    assert.equal(headers['x-session-id'], undefined);
});

test('affinity can be off, or a member of the request', async (t) => {
    const off = await start(t, '    affinity: off\n'), member = await start(t, '    affinity: prompt_cache_key\n');
    await off.turn(await off.session(), 'hello');
    assert.deepEqual(idsOf(off.requests[0]), { session: undefined, same: undefined, prefix: undefined });
    const id = await member.session();
    await member.turn(id, 'hello');
    await member.turn(id, 'again');
    assert.equal(idsOf(member.requests[0]).session, undefined);
    assert.match(member.requests[0].body.prompt_cache_key, /^[0-9a-f]{32}$/);
    assert.equal(member.requests[1].body.prompt_cache_key, member.requests[0].body.prompt_cache_key);
});

test('a setting that the service cannot have is refused', (t) => {
    const dir = workspace(t);
    for (const [lines, pattern] of [
        ['kind: anthropic\n    url: http://127.0.0.1:1\n    affinity: llama.cpp\n', /must be auto, off or headers for kind 'anthropic'/],
        ['kind: openai\n    url: http://127.0.0.1:1\n    affinity_headers: ["a b"]\n', /'a b', which is not the name of a header/],
    ]) {
        fs.writeFileSync(path.join(dir, 'palaver.yaml'), `provider: box\nproviders:\n  - name: box\n    model: m\n    ${lines}`);
        const { err } = serveFails(dir, '--provider', 'box');
        assert.match(err, pattern);
    }
});

test('a forwarded request keeps its body, and gets the id of the client\'s conversation', async (t) => {
    const s = await start(t);
    const body = '{"model": "m",  "messages": [{"role":"user","content":"hello"}], "prompt_cache_key":"mine", "x": 1.50}';
    const opencode = { 'x-session-id': 'ses_1', 'x-session-affinity': 'ses_1', 'user-agent': 'opencode/1' };
    for (const headers of [{}, {}, opencode]) await s.call('/v1/chat/completions', body, { headers });
    await s.call('/v1/chat/completions', body.replace('"prompt_cache_key":"mine", ', ''));
    const ids = s.requests.map(idsOf);
    for (const { text } of s.requests.slice(0, 3)) assert.equal(text, body);
    assert.match(ids[0].session, /^[0-9a-f]{32}$/);
    assert.deepEqual(ids[1], ids[0]);
    assert.match(ids[2].session, /^[0-9a-f]{32}$/);
    assert.notEqual(ids[2].session, ids[0].session);
    assert.equal(ids[3].session, undefined, 'a request without a name has no id');
});

// The share of requests whose slot has everything that the session has sent before.
function hitShare(requests) {
    const before = new Map();
    let hits = 0, calls = 0;
    for (const { headers, prompt, cached } of requests) {
        const id = headers['x-session-id'];
        if (before.has(id)) {
            calls++;
            hits += cached >= before.get(id).length;
        }
        before.set(id, prompt);
    }
    return hits / calls;
}

// Sessions take turns in an order that a fixed seed decides. With more sessions than slots, some are
// used often and some rarely.
async function talk(s, sessions, turns) {
    const ids = [];
    for (let i = 0; i < sessions; i++) ids.push(await s.session());
    let seed = 7;
    for (let i = 0; i < turns; i++) {
        seed = (seed * 1103515245 + 12345) % 2147483648;
        const at = Math.min(...[seed >> 8, seed >> 16].map((n) => n % sessions));
        await s.turn(ids[at], `turn ${i} of session ${at}`);
    }
    return hitShare(s.requests);
}

test('sessions keep their slots of a llama.cpp server', async (t) => {
    const shares = {};
    for (const affinity of ['headers', 'llama.cpp']) {
        for (const sessions of [SLOTS, 2 * SLOTS]) {
            const s = await start(t, `    affinity: ${affinity}\n`);
            shares[`${affinity}, ${sessions} sessions`] = await talk(s, sessions, 60);
            const named = s.requests.filter(({ body }) => body.id_slot !== undefined);
            assert.equal(named.length > 0, affinity === 'llama.cpp');
            for (const { body } of named) assert.ok(body.id_slot >= 0 && body.id_slot < SLOTS && body.cache_prompt);
        }
    }
    t.diagnostic(JSON.stringify(shares));
    assert.ok(shares['llama.cpp, 4 sessions'] >= 0.95, JSON.stringify(shares));
    assert.ok(shares['llama.cpp, 8 sessions'] > shares['headers, 8 sessions'] + 0.2, JSON.stringify(shares));
});
