// A day of coding agents in a few seconds: conversations of several clients with hundreds of steps,
// edits, retries, compactions and requests for titles. Measures the size of the store, and checks
// the branches, the search and the context. DAY_STEPS sets the steps of one conversation.
import test from 'node:test';
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { openSocket } from '../socket.mjs';
import { palaver, serve } from '../support.mjs';

const STEPS = Number(process.env.DAY_STEPS ?? 40);
const COMPACT_AFTER = 60; // messages of a history that a client compacts
const WORDS = 'the of file test build line error function return value index store session branch commit node path'.split(' ');

// ---- Numbers that are the same in every run ----

function numbers(seed) {
    let state = seed;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}
const textOf = (random, bytes) => {
    let text = '';
    while (text.length < bytes) text += `${WORDS[Math.floor(random() * WORDS.length)]}${Math.floor(random() * 1000)} `;
    return text.trimEnd();
};

// ---- The model service: the same history gets the same answer ----

function answerTo(history, hasTools) {
    const digest = crypto.createHash('sha256').update(JSON.stringify(history)).digest();
    const random = numbers(digest.readUInt32BE());
    const id = digest.toString('hex', 4, 12);
    if (!hasTools) return { text: `Title ${id}` };
    if (random() < 0.15) return { text: textOf(random, 400) };
    return { text: random() < 0.5 ? textOf(random, 80) : '', id: `call_${id}`, args: JSON.stringify({ path: `src/${id}.c` }) };
}

async function startModel(t) {
    const server = http.createServer(async (request, response) => {
        const pieces = [];
        for await (const piece of request) pieces.push(piece);
        const body = JSON.parse(Buffer.concat(pieces));
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const send = (data) => response.write(`data: ${JSON.stringify(data)}\n\n`);
        if (request.url.endsWith('/responses')) {
            const items = body.input.map((item) => [item.role, item.call_id, item.content?.[0].text, item.arguments, item.output]);
            const { text, id, args } = answerTo(items, body.tools?.length);
            const output = [];
            if (text) output.push({ id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed',
                content: [{ type: 'output_text', text, annotations: [] }] });
            if (args) output.push({ id: `fc_${id}`, type: 'function_call', status: 'completed', call_id: id, name: 'read', arguments: args });
            for (const item of output) send({ type: 'response.output_item.done', item });
            send({ type: 'response.completed', response: { id: `resp_${crypto.randomUUID()}`, model: 'm', status: 'completed', output,
                usage: { input_tokens: 10, output_tokens: 5 } } });
            return response.end();
        }
        const { text, id, args } = answerTo(body.messages.filter(({ role }) => role !== 'system'), body.tools?.length);
        const choice = (delta, finish = null) => send({ model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] });
        if (text) choice({ content: text });
        if (args) choice({ tool_calls: [{ index: 0, id, type: 'function', function: { name: 'read', arguments: args } }] });
        choice({}, args ? 'tool_calls' : 'stop');
        response.end('data: [DONE]\n\n');
        return undefined;
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => { server.once('listening', resolve); });
    t.after(() => { server.closeAllConnections(); server.close(); });
    return `http://127.0.0.1:${server.address().port}/v1`;
}

// ---- Clients: their histories are lists of { role, text, id, args } ----

const eventsOf = (text) => text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
const schema = { type: 'object', properties: { path: { type: 'string' } } };

const itemsOf = (history) => history.flatMap(({ role, text, id, args }) => {
    if (role === 'tool') return [{ type: 'function_call_output', call_id: id, output: text }];
    const message = { type: 'message', role, content: [{ type: role === 'user' ? 'input_text' : 'output_text', text }] };
    return [...(text ? [message] : []), ...(args ? [{ type: 'function_call', call_id: id, name: 'read', arguments: args }] : [])];
});
const answerOf = (output) => {
    const call = output.find(({ type }) => type === 'function_call');
    const text = output.find(({ type }) => type === 'message')?.content[0].text ?? '';
    return { role: 'assistant', text, ...(call && { id: call.call_id, args: call.arguments }) };
};
const responseTools = [{ type: 'function', name: 'read', parameters: schema, strict: false }];

const opencode = (s, name) => ({
    key: `opencode:ses_${name}`,
    async ask(history, { isSide } = {}) {
        const body = { model: 'm', stream: true, messages: [{ role: 'system', content: `Now: ${Math.random()}` },
            ...history.map(({ role, text, id, args }) => (role === 'tool' ? { role, tool_call_id: id, content: text }
                : { role, content: text, ...(args && { tool_calls: [{ id, type: 'function', function: { name: 'read', arguments: args } }] }) }))],
        ...(!isSide && { tools: [{ type: 'function', function: { name: 'read', parameters: schema } }] }) };
        const { text } = await s.post('/v1/chat/completions', body,
            { headers: { 'x-session-id': `ses_${name}`, 'user-agent': 'opencode/1.18.33' } });
        const answer = { role: 'assistant', text: '' };
        for (const { choices: [{ delta }] } of eventsOf(text)) {
            answer.text += delta.content ?? '';
            for (const { id, function: f } of delta.tool_calls ?? []) Object.assign(answer, { id, args: f.arguments });
        }
        return answer;
    },
});

// It moves its cache mark to the newest message.
const claude = (s, name) => ({
    key: `claude-code:${name}`,
    async ask(history, { isSide } = {}) {
        const messages = history.map(({ role, text, id, args }) => (role === 'tool'
            ? { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: text }] }
            : { role, content: [...(text ? [{ type: 'text', text }] : []),
                ...(args ? [{ type: 'tool_use', id, name: 'read', input: JSON.parse(args) }] : [])] }));
        messages.at(-1).content.at(-1).cache_control = { type: 'ephemeral' };
        const { text } = await s.post('/v1/messages', { model: 'm', max_tokens: 1000, stream: true, messages, system: `Now: ${Math.random()}`,
            ...(!isSide && { tools: [{ name: 'read', input_schema: schema }] }) },
        { headers: { 'x-claude-code-session-id': name, 'user-agent': 'claude-cli/2.1.325', 'anthropic-version': '2023-06-01' } });
        const answer = { role: 'assistant', text: '' };
        for (const { content_block: block, delta } of eventsOf(text)) {
            if (block?.type === 'tool_use') Object.assign(answer, { id: block.id, args: '' });
            answer.text += delta?.text ?? '';
            if (delta?.partial_json) answer.args += delta.partial_json;
        }
        return answer;
    },
});

const codexHeaders = (name) => ({ 'session-id': name, originator: 'codex_exec', 'user-agent': 'codex_exec/0.166.0' });

const codexHttp = (s, name) => ({
    key: `codex:${name}`,
    async ask(history) {
        const { text } = await s.post('/v1/responses', { model: 'm', store: false, stream: true, tools: responseTools,
            input: itemsOf(history) }, { headers: codexHeaders(name) });
        return answerOf(eventsOf(text).at(-1).response.output);
    },
});

// Sends only new items if the history continues the last one.
const codexSocket = (s, name) => {
    let socket, known = [], previous;
    return {
        key: `codex:${name}`,
        async ask(history) {
            socket ??= await openSocket(s.port, { headers: codexHeaders(name) });
            const goesOn = previous && known.every((message, i) => JSON.stringify(message) === JSON.stringify(history[i]));
            const events = await socket.create({ model: 'm', store: false, tools: responseTools,
                input: itemsOf(goesOn ? history.slice(known.length) : history), ...(goesOn && { previous_response_id: previous }) });
            assert.equal(events.at(-1).type, 'response.completed', JSON.stringify(events.at(-1)));
            previous = events.at(-1).response.id;
            const answer = answerOf(events.at(-1).response.output);
            known = [...history, answer];
            return answer;
        },
        end: () => socket.leave(),
    };
};

// ---- One conversation ----

async function converse(client, seed, hasTitle, seen) {
    const random = numbers(seed);
    const unique = new Map(); // distinct messages of the conversation
    const counts = { requests: 0, sent: 0, edits: 0, compactions: 0, retries: 0 };
    let history = [{ role: 'user', text: textOf(random, 300) }];
    const ask = async (options) => {
        const answer = await client.ask(history, options);
        counts.requests++;
        for (const message of [...history, answer]) {
            const text = JSON.stringify(message);
            counts.sent += text.length;
            if (!options) unique.set(text, text.length);
        }
        return answer;
    };
    if (hasTitle) {
        const title = await client.ask(history, { isSide: true });
        seen.sides += JSON.stringify([history[0], title]).length;
    }
    for (let step = 0; step < STEPS; step++) {
        const answer = await ask();
        history.push(answer);
        const chance = random();
        if (chance < 0.03) { // a retry whose first answer did not arrive
            history.pop();
            history.push(await ask());
            counts.retries++;
        } else if (chance < 0.05) { // the user edits the last message
            const at = history.findLastIndex(({ role }) => role === 'user');
            history = [...history.slice(0, at), { role: 'user', text: textOf(random, 200) }];
            counts.edits++;
            continue;
        }
        if (history.length > COMPACT_AFTER && !history.at(-1).args) {
            history = [{ role: 'user', text: `Summary: ${textOf(random, 2000)}` }, history.at(-1)];
            counts.compactions++;
        }
        const last = history.at(-1);
        history.push(last.args ? { role: 'tool', id: last.id, text: textOf(random, 200 + Math.floor(random() ** 3 * 8000)) }
            : { role: 'user', text: textOf(random, 150) });
    }
    history.push(await ask());
    client.end?.();
    return { key: client.key, history, counts, unique: [...unique.values()].reduce((a, b) => a + b, 0) };
}

const shown = (list) => list.map(({ role, text, id, content, parts }) => {
    const all = parts ?? [];
    const words = text ?? content ?? all.map((part) => part.text ?? part.output ?? '').join('');
    const call = id?.startsWith?.('call_') && role === 'assistant' ? id : all.find(({ type }) => type === 'tool_call')?.call_id;
    return `${role}:${words}:${role === 'assistant' ? call ?? '' : ''}`;
});

test('a day of coding agents', async (t) => {
    const url = await startModel(t);
    const s = await serve(t, { config: 'providers:\n  - kind: openai\n    responses: on\n',
        args: ['--provider', 'openai', '--provider-url', url, '--model', 'm'] });
    const seen = { sides: 0 };
    const kinds = [[opencode, true], [claude, true], [codexHttp, false], [codexSocket, false]];
    const talks = await Promise.all(kinds.flatMap(([client, hasTitle], k) => [0, 1].map((i) =>
        converse(client(s, `day-${k}-${i}`), 1000 * k + i + 1, hasTitle, seen))));

    const { json: { sessions } } = await s.get('/api/v1/sessions?limit=200');
    const kept = sessions.filter(({ expires_at: at }) => !at);
    const total = (name) => talks.reduce((sum, { counts }) => sum + counts[name], 0);
    const unique = talks.reduce((sum, talk) => sum + talk.unique, 0) + seen.sides;
    const stats = JSON.parse(palaver(s.dir, 'stats', '--json'));
    const database = fs.readdirSync(path.join(s.dir, 'palaver-data')).filter((name) => name.endsWith('.db'))
        .reduce((sum, name) => sum + fs.statSync(path.join(s.dir, 'palaver-data', name)).size, 0);
    const ratio = stats.content_bytes / unique;
    t.diagnostic(`${talks.length} conversations, ${total('requests')} requests with ${total('sent')} bytes of messages`);
    t.diagnostic(`${total('edits')} edits, ${total('compactions')} compactions, ${total('retries')} retries; ${kept.length} sessions`);
    t.diagnostic(`unique ${unique} bytes, stored ${stats.content_bytes}: ${ratio.toFixed(3)}; database file ${database} bytes`);
    assert.ok(ratio < 1.2, `${ratio}`);

    const sides = kept.filter(({ key }) => key?.endsWith(':side'));
    assert.equal(sides.length, 4);
    assert.equal(kept.length, talks.length + sides.length + total('edits') + total('compactions'),
        'each edit and each compaction is one branch, and a retry is not');
    for (const { key, history } of talks) {
        const root = kept.find((session) => session.key === key);
        const family = kept.filter((session) => session === root || session.parent_id);
        const texts = await Promise.all(family.map(async ({ session_id: id }) =>
            shown((await s.get(`/api/v1/sessions/${id}/messages?limit=1000`)).json.messages).join('\n')));
        assert.ok(texts.includes(shown(history).join('\n')), `the last history of ${key} is a session`);
        const words = history.at(-1).text.split(' ').at(-1) || history.at(-2).text.split(' ').at(-1);
        const found = JSON.parse(palaver(s.dir, 'session', 'search', words, '--json'));
        assert.ok(JSON.stringify(found).includes('session'), words);
        assert.match(palaver(s.dir, 'context', key), /tokens/);
    }
});
