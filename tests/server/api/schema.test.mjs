// Successful responses of every route against /openapi.json: all required members are there, every
// member has its type, and no response has a member that its schema does not have. The formats of
// OpenAI, Anthropic, Mistral and MCP are described elsewhere; /openapi.json calls them "Object". The
// same holds for errors.
import test from 'node:test';
import assert from 'node:assert/strict';
import { secret, signed } from '../../channel/bridge.mjs';
import { serveModel } from '../model.mjs';

// Adds the members that the schema does not have to `unknown`.
function conforms(doc, schema, value, where, unknown) {
    if (schema.$ref) {
        const name = schema.$ref.split('/').at(-1);
        conforms(doc, doc.components.schemas[name], value, `${where}:${name}`, unknown);
        return;
    }
    if (schema.anyOf) { // an object or null
        if (value !== null) conforms(doc, schema.anyOf[0], value, where, unknown);
        return;
    }
    const kind = value === null ? 'null' : Array.isArray(value) ? 'array'
        : Number.isInteger(value) ? 'integer' : typeof value;
    if (schema.enum) assert.ok(schema.enum.includes(value), `${where}: ${value}`);
    if (schema.type) assert.ok([schema.type].flat().includes(kind), `${where} is ${kind}`);
    if (schema.minimum !== undefined) assert.ok(value >= schema.minimum, where);
    if (schema.format === 'date-time' && value !== null)
        assert.ok(!Number.isNaN(Date.parse(value)), `${where}: ${value}`);
    for (const name of schema.required ?? []) assert.ok(name in value, `${where} lacks ${name}`);
    if (kind === 'object' && schema.properties) {
        for (const [name, inner] of Object.entries(value)) {
            const known = schema.properties[name];
            if (known) conforms(doc, known, inner, `${where}.${name}`, unknown);
            else if (!schema.additionalProperties) unknown.add(`${where}.${name}`);
        }
    }
    if (schema.items && kind === 'array')
        value.forEach((item, i) => conforms(doc, schema.items, item, `${where}[${i}]`, unknown));
}

// Calls routes by their operationId, and checks each response.
async function makeClient(t) {
    const s = await serveModel(t, { env: { BRIDGE_SECRET: secret },
        config: 'channels: [{kind: webhook, secret_env: BRIDGE_SECRET, users: ["*"]}]\n' });
    await s.logged(/webhook:default: ready/);
    const doc = (await s.get('/openapi.json')).json;
    const routes = new Map(Object.entries(doc.paths).flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, op]) => {
            const [code] = Object.keys(op.responses).filter((c) => c !== 'default');
            const schema = op.responses[code].content?.['application/json']?.schema;
            return [op.operationId, { method: method.toUpperCase(), path, code: Number(code),
                schema, isDescribed: schema && schema.$ref !== '#/components/schemas/Object' }];
        })));
    const called = new Set(), unknown = new Set();
    const state = {};
    const call = async (name, params = {}, body, query = '') => {
        const { method, path, code, schema } = routes.get(name) ?? assert.fail(name);
        const target = path.replace(/\{(\w+)\}/g, (_, param) => encodeURIComponent(params[param]));
        const answer = await s.ask(method, target + query,
            { body, key: state.key, headers: state.headers });
        assert.equal(answer.code, code, `${name}: ${answer.text}`);
        state.answer = answer;
        if (schema) conforms(doc, schema, answer.json, name, unknown);
        called.add(name);
        return answer.json;
    };
    return { s, routes, called, unknown, state, call };
}

test('responses match /openapi.json', async (t) => {
    const { s, routes, called, unknown, state, call } = await makeClient(t);
    const id = (await call('createSession', {}, { key: 'k', title: 'T', aliases: ['a'],
        metadata: { x: 1 }, project: 'p', agent: 'main', expires_in: 1000 })).id;
    await t.test('sessions and messages', async () => {
        const parts = [{ type: 'image', media_type: 'image/png', data: 'iVBORw0KGgo=' }];
        const { messages } = await call('appendMessages', { id }, { messages: [
            { role: 'user', content: 'one', client_id: 'c' }, { role: 'user', parts }, 'x'] });
        await call('getSession', { id });
        await call('updateSession', { id }, { title: 'U' });
        await call('listSessions', {}, undefined, '?limit=1');
        await call('listMessages', { id }, undefined, '?marks=true&hidden=true');
        await call('getMessage', { id, message: messages[1].id, seq: messages[1].seq });
        await call('searchAll', {}, undefined, '?q=one');
        await call('searchSession', { id }, undefined, '?q=one');
        await call('forkSession', { id }, { at_seq: 2 });
        await call('replaceMessages', { id }, { messages: [{ role: 'user', content: 'new' }] });
    });
    await t.test('marks and context', async () => {
        await call('appendMessages', { id }, { messages: ['a', 'b', 'c'] });
        await call('pinMessage', { id }, { seq: 4 });
        await call('rewindSession', { id }, { to_seq: 5 });
        await call('undoMark', { id }, {});
        await call('truncateSession', { id }, { keep: 2 });
        await call('unpinMessage', { id, seq: 4 });
        await call('listMarks', { id });
        await call('getMark', { id, n: 1 });
        await call('getTree', { id });
        await call('getContext', { id }, undefined, '?text=20');
        await call('getContextItem', { id, n: 0 });
        await call('planContext', { id }, { message: 'draft' });
        await call('setSummary', { id }, { summary: 'so far' });
        await call('getSummary', { id });
        await call('resetSession', { id }, {});
        const long = await s.session();
        for (let i = 0; i < 6; i++) await call('startTurn', { id: long }, { message: `turn ${i}` });
        await call('compactSession', { id: long }, {});
        await call('compactSession', { id: long }, { summary: 'one' });
        const { marks } = await call('listMarks', { id: long }, undefined, '?bodies=false');
        const made = marks.filter(({ kind }) => kind === 'checkpoint').map(({ number }) => number);
        await call('diffSummaries', { id: long }, undefined,
            `?old=${made[0]}&new=${made.at(-1)}`);
        await call('undoCompaction', { id: long });
    });
    await t.test('turns', async () => {
        const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }];
        const paused = await call('startTurn', { id }, { message: '<<tool f {"a":1}>>', tools });
        await call('getTurn', { turn: paused.turn_id });
        await call('getTurn', { turn: paused.turn_id }, undefined, '?so_far=true');
        await call('listTurns');
        await call('getSessionTurn', { id });
        const results = [{ call_id: paused.waiting[0].call_id, output: 'ok' }];
        await call('giveResults', { turn: paused.turn_id }, { results });
        const second = await call('startTurn', { id }, { message: '<<tool f {"a":2}>>', tools });
        await call('giveSessionResults', { id },
            { results: [{ call_id: second.waiting[0].call_id, output: 'ok' }] });
        const third = await call('startTurn', { id }, { message: '<<tool f {"a":3}>>', tools });
        await s.turn(id, { message: 'later', lane: 'queue', background: true });
        const { items } = await call('listInbox', { id });
        await call('dropInboxItem', { id, item: items[0].id });
        await call('cancelTurn', { turn: third.turn_id });
        const careful = await s.session(
            { metadata: { turn: { permissions: [{ tool: 'recall', do: 'ask' }] } } });
        const asking = await call('startTurn', { id: careful },
            { message: '<<tool recall {"text":"x"}>><<next>><<say enough>>' });
        await call('approveTurn', { turn: asking.turn_id }, { allow: false,
            answers: [{ call_id: asking.asking.call_id, allow: true, remember: 'session' }] });
        await call('listPermissions', { id: asking.session_id });
        await call('forgetPermission', { id: asking.session_id, tool: 'recall' });
        await call('getUsage', {}, undefined, `?by=hour&from=${Date.now() - 3600e3}`);
        await call('getUsage', {}, undefined, '?by=session');
        await call('getSessionUsage', { id });
        await call('listLedger');
    });
    await t.test('notes', async () => {
        const { seq } = (await call('appendMessages', { id }, { role: 'user', content: 'I sail.' }))
            .messages[0];
        const source = { session: id, seq, quote: 'I sail' };
        const { note } = await call('addNote', {}, { text: 'Ann sails.', kind: 'fact', source });
        await call('getNote', { note: note.id });
        await call('listNotes', {}, undefined, '?limit=1');
        await call('listSessionNotes', { id }, undefined, '?q=sailing');
        await call('retractNote', { note: note.id }, { reason: 'no' });
        await call('restoreNote', { note: note.id }, {});
        const { note: pending } = await call('addNote', {},
            { text: 'Ann owns seven boats.', kind: 'fact', source });
        await call('confirmNote', { note: pending.id }, {});
        await call('eraseNote', { note: note.id });
        await call('eraseNotes', {}, undefined, `?subject=session:${id}`);
    });
    await t.test('clients', async () => {
        await call('chat', {}, { message: 'x' });
        await call('chatInSession', { id }, { message: 'x' });
        const made = await call('createConversation', {},
            { project_id: 'p', bead_id: 'b', message: 'x' });
        await call('listConversations', {}, undefined, '?project_id=p');
        await call('getConversation', { id: made.session_id });
        await call('getBeadConversation', { id: 'b' });
        await call('resetConversation', { id: made.session_id }, {});
        await call('deleteConversation', { id: made.session_id });
        await call('receive', {}, { message: 'x', context: { channel: 'pico',
            chat_type: 'direct', chat_id: 'pico:one', sender_id: 'pico-user' } });
        await call('listPicoSessions');
        await call('getPicoSession', { id: 'one' });
    });
    await t.test('the end of a session', async () => {
        await call('importSessions', {}, [{ role: 'user', content: 'x' }]);
        await call('eraseMessage', { id, seq: 1 });
        await call('deleteSession', { id });
        await call('restoreSession', { id });
        await call('eraseMessage', { id, seq: 1 });
        await call('eraseSession', { id });
    });
    await t.test('channels', async () => {
        const account = { kind: 'webhook', account: 'default' };
        const say = JSON.stringify({ events: [
            { id: 'e', chat: 'c', sender: 'ann', text: 'hi', direct: true, topic: 't' }] });
        state.headers = signed(say);
        await call('takeChannelEvents', account, say);
        state.headers = signed('');
        const { messages } = await call('getChannelMessages', account, undefined, '?wait=30');
        state.headers = signed('{}');
        await call('confirmChannelMessage', { ...account, id: messages[0].id }, '{}');
        state.headers = undefined;
        await call('listChannels');
    });
    await t.test('the server and its keys', async () => {
        for (const name of ['health', 'live', 'ready', 'getMe', 'listServedModels', 'listTools',
            'listAgents', 'getStats']) await call(name);
        const { id: first, key } = await call('createKey', {}, { role: 'admin', label: 'l' });
        const { half } = await call('logIn', {}, { key });
        state.headers = { cookie: state.answer.headers['set-cookie'][0].split(';')[0],
            'x-palaver-page': half };
        const { logins } = await call('listLogins');
        assert.deepEqual(logins.map((login) => login.is_current), [true]);
        await call('logOut');
        state.headers = {};
        state.key = key; // with the first key, the server requires one
        await call('logIn', {}, { key });
        const [{ id: other }] = (await call('listLogins')).logins;
        await call('endLogin', { id: other });
        await call('listKeys');
        await call('revokeKey', { id: first });
    });
    assert.deepEqual([...unknown], [], 'members that no schema has');
    const missing = [...routes].filter(([name, route]) => route.isDescribed && !called.has(name));
    assert.deepEqual(missing.map(([name]) => name), [], 'routes that this test does not call');
});

test('errors match /openapi.json', async (t) => {
    const s = await serveModel(t);
    const doc = (await s.get('/openapi.json')).json;
    const unknown = new Set(), described = new Set();
    const made = await s.ask('POST', '/api/v1/keys', { body: { role: 'admin', label: 'l' } });
    assert.equal(made.code, 201); // from now on the server requires a key
    for (const [path, methods] of Object.entries(doc.paths)) {
        for (const [method, op] of Object.entries(methods)) {
            if (op.security) continue; // needs no key
            const target = path.replace(/\{\w+\}/g, 'x');
            const answer = await s.ask(method.toUpperCase(), target); // without a key
            assert.equal(answer.code, 401, op.operationId);
            const { schema } = op.responses.default.content['application/json'];
            conforms(doc, schema, answer.json, op.operationId, unknown);
            if (schema.$ref.endsWith('/Error')) described.add(path.split('/')[1]);
        }
    }
    assert.deepEqual([...unknown], []);
    assert.deepEqual([...described].sort(), ['api', 'metrics']);
});

// The rules that linters for OpenAPI check: redocly and spectral find nothing.
test('every operation of /openapi.json is described', async (t) => {
    const s = await serveModel(t);
    const doc = (await s.get('/openapi.json')).json;
    assert.deepEqual(doc.servers.map((server) => server.url), ['/']);
    assert.ok(doc.info.description && doc.info.license.identifier && doc.info.contact.name);
    const tags = new Set(doc.tags.map((tag) => tag.name));
    assert.ok(doc.tags.every((tag) => tag.description) && tags.size === doc.tags.length);
    const used = new Set(), ids = new Set();
    for (const [path, methods] of Object.entries(doc.paths)) {
        assert.ok(path === '/' || !path.endsWith('/'), path);
        for (const op of Object.values(methods)) {
            assert.equal(op.tags.length, 1, op.operationId);
            assert.ok(tags.has(op.tags[0]) && op.description.endsWith('.') && op.summary, op.operationId);
            assert.ok(Object.keys(op.responses).some((code) => /^[23]/.test(code)), op.operationId);
            assert.ok(op.responses['4XX'], op.operationId);
            assert.ok(!ids.has(op.operationId), op.operationId);
            ids.add(op.operationId);
            used.add(op.tags[0]);
        }
    }
    assert.deepEqual([...tags].filter((tag) => !used.has(tag)), []);
});
