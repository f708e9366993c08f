// Every route of /openapi.json with requests that must fail: without a key, with a wrong key or a
// key without permission, with another tenant's names, with invalid JSON, wrong types or missing
// fields, too large, too slow, or cut off. Each request gets the right code and a helpful body, and
// the store stays unchanged.
import test from 'node:test';
import assert from 'node:assert/strict';
import net from 'node:net';
import { makeKey, palaver, serve, workspace } from '../support.mjs';

// Valid bodies for the routes whose fields are tested one by one.
const bases = {
    createSession: {}, updateSession: { title: 'x' }, forkSession: {}, rewindSession: { to_seq: 1 },
    resetSession: {}, undoMark: {}, pinMessage: { seq: 1 }, compactSession: {},
    appendMessages: { role: 'user', content: 'x' }, createKey: {}, startTurn: { message: 'x' },
    chat: { message: 'x' }, chatInSession: { message: 'x' }, approveTurn: { allow: true },
    giveResults: { results: [{ call_id: 'c', output: 'x' }] },
    giveSessionResults: { results: [{ call_id: 'c', output: 'x' }] },
    createConversation: { project_id: 'p', bead_id: 'b', message: 'x' },
    addNote: { text: 'x', kind: 'fact' },
    receive: { context: { channel: 'web', sender_id: 'me' }, message: 'x' },
};
// For these routes an unreadable body counts as empty, or does not have to be JSON.
const takesAnything = /^(resetSession|resetConversation|importSessions)$/;

function walk(doc) {
    return Object.entries(doc.paths).flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, op]) => ({ path, method: method.toUpperCase(), op,
            id: op.operationId, isOpen: op.security?.length === 0, isWrite: method !== 'get',
            isNative: path.startsWith('/api/v1/'), schema: op.requestBody
                ?.content['application/json']?.schema })));
}

// Returns the text of an error in any envelope. Fails if there is no text.
function wordsOf(answer, what) {
    const { json } = answer;
    assert.ok(json, `${what}: ${answer.code} ${answer.text}`);
    const text = typeof json.error === 'string' ? json.error
        : json.error?.message ?? json.message ?? json.detail;
    assert.ok(text && JSON.stringify(text).length > 5, `${what}: ${answer.text}`);
    assert.ok(answer.headers['x-request-id'], what);
    return JSON.stringify(json);
}

async function setUp(t) {
    const dir = workspace(t);
    const keys = { admin: makeKey(dir, '--role', 'admin', '--tenant', 'one').key };
    for (const role of ['write', 'read'])
        keys[role] = makeKey(dir, '--role', role, '--tenant', 'one').key;
    keys.other = makeKey(dir, '--role', 'write', '--tenant', 'two').key;
    const s = await serve(t, { dir, config: 'server:\n  key_failures_per_minute: 0\n' });
    const post = async (path, body) => {
        const answer = await s.post(`/api/v1/sessions${path}`, body, { key: keys.write });
        assert.ok(answer.code < 300, answer.text);
        return answer.json;
    };
    const { id } = await post('', { key: 'victim', title: 'T', aliases: ['v'] });
    const parts = [{ type: 'image', media_type: 'image/png', data: 'iVBORw0KGgo=' }];
    const said = await post('/victim/messages', { messages: [{ role: 'system', content: 'be kind' },
        { role: 'user', content: 'one' }, { role: 'user', parts }, 'x'] });
    await post('/victim/pins', { seq: 2 });
    await post('/victim/rewind', { to_seq: 3 });
    // A turn that has ended is known, but accepts nothing more.
    const turn = (await post('/victim/turns', { message: 'go on', client_id: 'go' })).turn_id;
    const blob = (await s.get('/api/v1/sessions/victim/messages/3', { key: keys.read })).json
        .parts[0].blob;
    const doc = (await s.get('/openapi.json')).json;
    const names = { id, message: said.messages[1].id, seq: '2', name: blob, turn };
    const fill = (path, extra = {}) => path.replace(/\{(\w+)\}/g,
        (_, name) => encodeURIComponent({ ...names, ...extra }[name] ?? id));
    const dump = () => ['one', 'two'].map((tenant) =>
        palaver(dir, 'session', 'export', '--all', '--with-blobs', '--tenant', tenant)).join('') +
        palaver(dir, 'session', 'list', '--state', 'trash', '--tenant', 'one', '--json') +
        palaver(dir, 'stats', '--json').replace(/"(disk_bytes|commits|ops)":\d+/g, '') +
        palaver(dir, 'key', 'list', '--json').replace(/"used_on":("[^"]*"|null)/g, '');
    return { s, keys, dir, doc, fill, dump, routes: walk(doc) };
}

const wrongValues = { string: 7, integer: 'x', number: 'x', boolean: 7, array: 7, object: 7 };

function wrongOf(doc, schema) {
    if (schema.$ref) return wrongOf(doc, doc.components.schemas[schema.$ref.split('/').at(-1)]);
    if (schema.enum || schema.oneOf) return 7;
    if (schema.format === 'date-time') return 'soon';
    return wrongValues[Array.isArray(schema.type) ? schema.type[0] : schema.type];
}

function fieldsOf(doc, route) {
    const schema = doc.components.schemas[route.schema.$ref.split('/').at(-1)];
    return { properties: Object.entries(schema.properties ?? {}), required: schema.required ?? [] };
}

// Sends the head of a request and a part of its body. Returns the complete response.
function raw(port, text, { half = false } = {}) {
    return new Promise((resolve) => {
        let got = '';
        const socket = net.connect(port, '127.0.0.1', () => {
            socket.write(text);
            if (half) setTimeout(() => socket.destroy(), 20);
        });
        socket.on('data', (piece) => { got += piece; });
        socket.on('error', () => {});
        socket.on('close', () => resolve(got));
    });
}

const headOf = (route, path, key, length) => [`${route.method} ${path} HTTP/1.1`, 'Host: localhost',
    `Authorization: Bearer ${key}`, 'Content-Type: application/json', `Content-Length: ${length}`,
    '', ''].join('\r\n');

test('every route refuses wrong requests', async (t) => {
    const { s, keys, dir, doc, fill, dump, routes } = await setUp(t);
    const before = dump();
    const unchanged = () => assert.equal(dump(), before, 'nothing has changed');
    const send = (route, body) => s.ask(route.method, fill(route.path), { key: keys.admin, body });
    const closed = routes.filter((r) => !r.isOpen);
    const writes = closed.filter((r) => r.isWrite);
    assert.ok(closed.length > 25 && writes.length > 12);

    await t.test('no key, and an unknown key', async () => {
        const wrong = `pk_${'0'.repeat(64)}`;
        for (const route of closed) {
            for (const key of [undefined, wrong, `${keys.admin}x`, 'pk_', 'Bearer']) {
                const answer = await s.ask(route.method, fill(route.path), { key, body: {} });
                assert.equal(answer.code, 401, `${route.id}: ${answer.text}`);
                wordsOf(answer, route.id);
            }
        }
        unchanged();
    });

    await t.test('a key that may only read', async () => {
        // MCP tools have their own rules, counting tokens and planning change nothing, and every
        // key can end its own logins.
        const open = /^(mcp|endMcpSession|\w+CountInput|planContext|logOut|endLogin)$/;
        for (const route of writes.filter((r) => !open.test(r.id))) {
            const answer = await s.ask(route.method, fill(route.path),
                { key: keys.read, body: bases[route.id] ?? {} });
            assert.equal(answer.code, 403, `${route.id}: ${answer.text}`);
            assert.match(wordsOf(answer, route.id), /write|admin/);
        }
        for (const id of ['eraseSession', 'eraseNote', 'eraseNotes', 'createKey', 'listKeys']) {
            const route = routes.find((r) => r.id === id);
            const answer = await s.ask(route.method, fill(route.path), { key: keys.write,
                ...(route.isWrite && { body: {} }) });
            assert.equal(answer.code, 403, `${id}: ${answer.text}`);
        }
        unchanged();
    });

    await t.test('another tenant\'s names', async () => {
        for (const route of closed.filter((r) => r.path.startsWith('/api/v1/') &&
            r.path.includes('{') && !r.path.startsWith('/api/v1/keys'))) {
            for (const extra of [{}, { id: 'victim' }]) {
                const answer = await s.ask(route.method, fill(route.path, extra) +
                    (/earch$/.test(route.path) ? '?q=one' : ''), { key: keys.other,
                    ...(route.isWrite && { body: { ...bases[route.id] } }) });
                // An admin route says nothing else to other keys. An incomplete path is wrong for
                // every key.
                const code = /^erase/.test(route.id) ? 403 : route.id === 'getBead' ? 400 : 404;
                assert.equal(answer.code, code, `${route.id}: ${answer.code} ${answer.text}`);
                assert.doesNotMatch(answer.text, /be kind|"T"/);
            }
        }
        unchanged();
    });

    // Otherwise a response would reveal whether another tenant has such a session: the check that
    // the session exists comes first, then the check of the body.
    await t.test('wrong requests to missing resources', async () => {
        const none = { id: 'nobody', turn: 'nobody', message: '1', seq: '1' };
        for (const route of closed.filter((r) => /^\/api\/v1\/(sessions|turns)\/\{/.test(r.path))) {
            const wrong = !route.isWrite || takesAnything.test(route.id) ? [undefined]
                : ['{"a":', '[1]', '{"message":7,"messages":7,"results":7,"allow":7,"seq":"x"}'];
            for (const body of wrong) {
                const answers = await Promise.all([[keys.admin, none], [keys.other, {}]].map(
                    ([key, extra]) => s.ask(route.method, `${fill(route.path, extra)}?limit=x`,
                        { key, body })));
                for (const answer of answers.slice(0, /^erase/.test(route.id) ? 1 : 2)) {
                    assert.equal(answer.code, 404, `${route.id} ${body}: ${answer.text}`);
                    assert.equal(answer.json.code, 'not_found');
                    assert.equal(answer.json.param, null);
                }
            }
        }
        unchanged();
    });

    await t.test('bodies that are not JSON objects', async () => {
        for (const route of writes.filter((r) => r.schema && !takesAnything.test(r.id))) {
            for (const body of ['{"a":', '[1]', '"x"', '7', 'null', '{"a":1}x', '\u0000']) {
                const answer = await send(route, body);
                assert.ok([400, 422].includes(answer.code), `${route.id} ${body}: ${answer.text}`);
                if (route.isNative)
                    assert.match(wordsOf(answer, route.id), /JSON/, `${route.id} ${body}`);
            }
            const form = await s.ask(route.method, fill(route.path), { key: keys.admin, body: '--x',
                headers: { 'content-type': 'multipart/form-data; boundary=x' } });
            assert.ok([415, 400, 422].includes(form.code), `${route.id}: ${form.text}`);
        }
        unchanged();
    });

    await t.test('members and parameters that a route does not know', async () => {
        const open = /^(appendMessages|importSessions)$/; // unknown members of messages are kept
        for (const route of closed.filter((r) => r.isNative)) {
            const query = await s.ask(route.method, `${fill(route.path)}?unheard=1`,
                { key: keys.admin, ...(route.isWrite && { body: bases[route.id] ?? {} }) });
            assert.equal(query.code, 400, `${route.id}: ${query.text}`);
            wordsOf(query, route.id);
            assert.match(query.json.error, /^unknown parameter 'unheard'; this route takes /);
            assert.equal(query.json.param, 'unheard');
            if (!route.isWrite || open.test(route.id)) continue;
            const body = await send(route, { ...bases[route.id], unheard_of: 1 });
            assert.ok([400, 422].includes(body.code), `${route.id}: ${body.text}`);
            assert.match(body.json.error, /^unknown member 'unheard_of'; /);
        }
        for (const [method, path, content, words] of [
            ['POST', '/victim/fork', { at: 1 }, /unknown member 'at'; did you mean 'at_seq'\?/],
            ['POST', '', { keyy: 'a' }, /unknown member 'keyy'; did you mean 'key'\?/],
            ['PATCH', '/victim', { titel: 'a' }, /unknown member 'titel'; did you mean 'title'\?/],
            ['POST', '/victim/turns', { mesage: 'a' }, /unknown member 'mesage'; did you mean 'message'\?/],
            ['POST', '/victim/turns', { message: 'x', context: { max_token: 1 } },
                /unknown member 'max_token'; did you mean 'max_tokens'\?/],
            ['POST', '/victim/turns', { message: 'x', context: { compaction: { prun: false } } },
                /unknown member 'prun'; did you mean 'prune'\?/],
            ['POST', '/victim/results', { results: [{ call_id: 'c', outptu: '42' }] },
                /unknown member 'outptu'; did you mean 'output'\?/],
            ['POST', '/victim/fork', { seq: 1 }, /unknown member 'seq'; did you mean 'at_seq'\?/],
            ['POST', '/victim/truncate', { keep_last: 1 },
                /unknown member 'keep_last'; did you mean 'keep'\?/],
            ['POST', '/victim/reset', { keep_system: false },
                /unknown member 'keep_system'; did you mean 'keep_system_message'\?/],
            ['POST', '/victim/messages', { role: 'user', content: 'x', expectedSeq: 1 },
                /unknown member 'expectedSeq'; did you mean 'expected_seq'\?/],
            ['POST', '/victim/messages', { messages: ['x'], expected: 1 },
                /unknown member 'expected'; did you mean 'expected_seq'\?/],
            ['POST', '/victim/messages', { messages: ['x'], vendor: 1 },
                /unknown member 'vendor'; this route takes messages, message, expected_seq/],
            ['POST', '/victim/turns', { message: 'x', tools: [{ type: 'function',
                function: { name: 'f', paramters: {} } }] },
            /unknown member 'paramters'; did you mean 'parameters'\?/],
            ['DELETE', '/victim', { dry: 1 }, /unknown member 'dry'; this route takes none/],
            ['POST', '/victim/restore', '[1]', /not a JSON object; this route takes no body/],
            ['POST', '/victim/restore', { kee: 1 }, /unknown member 'kee'; this route takes none/],
            ['GET', '?lmit=1', undefined, /unknown parameter 'lmit'; did you mean 'limit'\?/],
        ]) {
            const answer = await s.ask(method, `/api/v1/sessions${path}`,
                { key: keys.write, body: content });
            assert.equal(answer.code, 400, answer.text);
            assert.match(answer.json.error, words);
        }
        for (const [path, content, words] of [
            ['/keys', { budget: { token: 5 } }, /unknown member 'token'; did you mean 'tokens'\?/],
            ['/inbound', { message: 'x', context: { channel: 'irc', chatId: '1' } },
                /unknown member 'chatId' of context; did you mean 'chat_id'\?/],
        ]) {
            const answer = await s.post(`/api/v1${path}`, content, { key: keys.admin });
            assert.equal(answer.code, 400, answer.text);
            assert.match(answer.json.error, words);
        }
        unchanged();
    });

    await t.test('fields of the wrong type, and fields that are missing', async () => {
        for (const id of Object.keys(bases)) assert.ok(routes.some((r) => r.id === id), id);
        for (const route of writes.filter((r) => bases[r.id])) {
            const { properties, required } = fieldsOf(doc, route);
            for (const [name, schema] of properties) {
                const body = { ...bases[route.id], [name]: wrongOf(doc, schema) };
                const answer = await send(route, body);
                const what = `${route.id} ${JSON.stringify(body)}`;
                assert.ok([400, 422].includes(answer.code), `${what}: ${answer.text}`);
                wordsOf(answer, what);
                assert.match(answer.json.error, new RegExp(`'${name}'`), what);
                assert.equal(answer.json.param, name, what);
            }
            for (const name of required) {
                const { [name]: _, ...body } = bases[route.id];
                const answer = await send(route, body);
                assert.ok([400, 422].includes(answer.code),
                    `${route.id} without ${name}: ${answer.text}`);
                assert.equal(answer.json.param, name, route.id);
            }
        }
        unchanged();
    });

    await t.test('parameters of the query', async () => {
        const ours = /^\/api\/v1\/(sessions|search|usage|blobs|import|keys)/;
        for (const route of closed.filter((r) => ours.test(r.path))) {
            const all = route.op.parameters.filter((x) => x.in === 'query');
            for (const p of all) {
                const isNumber = ['integer', 'boolean'].includes(p.schema.type);
                if (!isNumber && !p.schema.enum) continue;
                const others = all.filter((x) => x.required && x !== p);
                const q = others.map((x) => `${x.name}=1&`).join('');
                const answer = await s.ask(route.method, `${fill(route.path)}?${q}${p.name}=-x`,
                    { key: keys.admin });
                assert.equal(answer.code, 400, `${route.id} ${p.name}: ${answer.text}`);
                assert.equal(answer.json.param, p.name, route.id);
            }
        }
        unchanged();
    });

    await t.test('100 MB', async () => {
        for (const route of writes) {
            const got = await raw(s.port, headOf(route, fill(route.path), keys.admin, 100 << 20));
            assert.match(got, /^HTTP\/1\.1 413 /, route.id);
            assert.match(got, /body_bytes_max/, route.id);
        }
        // In a chunked body, the length is known only when it exceeds the limit.
        const piece = 'x'.repeat(1 << 20);
        const chunk = `${piece.length.toString(16)}\r\n${piece}\r\n`;
        const got = await raw(s.port, 'POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n' +
            `Authorization: Bearer ${keys.admin}\r\nTransfer-Encoding: chunked\r\n\r\n` +
            chunk.repeat(40));
        assert.match(got, /^HTTP\/1\.1 413 /);
        unchanged();
    });

    await t.test('bodies that never end, and connections that do', async () => {
        // A separate server, so that no other test reaches its time limit.
        const strict = await serve(t, { dir, config: 'server:\n  request_timeout: 3s\n' });
        const body = (route) => JSON.stringify(bases[route.id] ?? {});
        const slow = await Promise.all(writes.map(async (route) => [route, await raw(strict.port,
            headOf(route, fill(route.path), keys.admin, 1000) + body(route))]));
        for (const [route, got] of slow) assert.match(got, /^HTTP\/1\.1 408 /, route.id);
        await Promise.all(writes.map((route) => raw(strict.port,
            headOf(route, fill(route.path), keys.admin, 1000) + body(route), { half: true })));
        await Promise.all(writes.map((route) => raw(strict.port,
            headOf(route, fill(route.path), keys.admin, 1000).slice(0, -20), { half: true })));
        assert.equal((await strict.get('/readyz')).code, 200);
        unchanged();
    });
});
