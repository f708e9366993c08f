// Tools of MCP servers that need more than one request: questions to a person, and tasks. Both
// survive a kill of the server, and the tool runs exactly once.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { assertError, workspace } from '../support.mjs';
import { isA, open, serveModel } from '../model.mjs';

const fake = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../tool/fake_mcp.py');
const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
const call = (name, args = {}) => `<<tool s__${name} ${JSON.stringify(args)}>>`;
const person = { action: 'accept', content: { name: 'Ada' } };

// Starts a server with the scripted tool server, which keeps its tasks in a file.
function serveTools(t, era, { dir = workspace(t), model } = {}) {
    const command = ['python3', fake, '--era', era, '--tasks', path.join(dir, 'tasks.json')];

    return serveModel(t, { dir, model, config: `turn: {lease: 1s}
permissions: [{tool: "*", do: allow}]
mcp_servers: [{name: s, command: ${JSON.stringify(command)}}]
` });
}

async function untilTurn(s, turn, ...states) {
    for (;;) {
        const { json } = await s.get(`/api/v1/turns/${turn}`);
        if (states.includes(json.state)) return json;
        await pause();
    }
}

const runs = (s) => fs.readFileSync(path.join(s.dir, 'tasks.json.runs'), 'utf8').split('\n').length - 1;
const outputs = async (s, id) => (await s.get(`/api/v1/sessions/${id}/messages?limit=1000`)).json.messages
    .filter((m) => m.role === 'tool').map((m) => JSON.stringify(m));

for (const era of ['new', 'old']) {
    const tool = era === 'new' ? 'input' : 'elicit';

    test(`a question of a tool server pauses the turn (${era} era)`, async (t) => {
        const s = await serveTools(t, era);
        const id = await s.session();
        const asking = (await s.turn(id, { message: call(tool) })).json;
        assert.equal(asking.state, 'asking', JSON.stringify(asking));
        const [question] = asking.questions;
        assert.deepEqual([question.kind, question.name, question.server], ['input', `s__${tool}`, 's']);
        const [form, page] = question.data.inputs;
        assert.deepEqual([form.mode, form.message, form.schema.required],
            ['form', 'Who are you?', ['name']]);
        if (era === 'new') assert.deepEqual([page.mode, page.url], ['url', 'https://example.com/login']);
        const approve = (body) => s.post(`/api/v1/turns/${asking.turn_id}/approve`, body);
        assertError(await approve({ allow: true, data: { action: 'accept', content: { name: 'A' } } }),
            400, 'invalid', /input '\w+': .*name/);
        assertError(await approve({ allow: true, data: { action: 'maybe' } }), 400, 'invalid', /'accept'/);
        assertError(await approve({ allow: true, data: { replies: {} } }), 400, 'invalid', /no reply/);
        assert.equal((await approve({ allow: true, data: person })).code, 200);
        const done = await untilTurn(s, asking.turn_id, 'done');
        assert.match(done.text, /"action": "accept", "content": \{"color": "red", "name": "Ada"\}/);
    });

    test(`a question can be declined (${era} era)`, async (t) => {
        const s = await serveTools(t, era);
        const asking = (await s.turn(await s.session(), { message: call(tool) })).json;
        assert.equal((await s.post(`/api/v1/turns/${asking.turn_id}/approve`, { allow: false })).code, 200);
        assert.match((await untilTurn(s, asking.turn_id, 'done')).text, /"action": "decline"/);
    });

    test(`a canceled turn does not wait for the answer (${era} era)`, async (t) => {
        const s = await serveTools(t, era);
        const asking = (await s.turn(await s.session(), { message: call(tool) })).json;
        assert.equal((await s.post(`/api/v1/turns/${asking.turn_id}/cancel`)).code, 200);
        assert.equal((await untilTurn(s, asking.turn_id, 'canceled')).state, 'canceled');
    });

    test(`a task continues after a kill, and its tool runs once (${era} era)`, async (t) => {
        const s = await serveTools(t, era);
        const id = await s.session();
        const { json } = await s.turn(id, { message: call('task', { polls: 40 }), background: true });
        // The handle is stored before the second poll.
        const polls = () => Object.values(JSON.parse(
            fs.readFileSync(path.join(s.dir, 'tasks.json'), 'utf8')))[0].polls;
        while (!fs.existsSync(path.join(s.dir, 'tasks.json')) || polls() > 35) await pause();
        await s.stop('SIGKILL');
        const later = await serveTools(t, era, s);
        assert.match((await untilTurn(later, json.turn_id, 'done', 'failed')).text, /task done/);
        assert.equal(runs(s), 1);
        const results = await outputs(later, id);
        assert.equal(results.length, 1);
        assert.match(results[0], /task done/);
    });

    test(`a task continues after a restart (${era} era)`, async (t) => {
        const s = await serveTools(t, era);
        const { json } = await s.turn(await s.session(),
            { message: call('task', { polls: 60 }), background: true });
        while (!fs.existsSync(path.join(s.dir, 'tasks.json'))) await pause();
        await s.stop();
        const later = await serveTools(t, era, s);
        assert.match((await untilTurn(later, json.turn_id, 'done', 'failed')).text, /task done/);
        assert.equal(runs(s), 1);
    });

    test(`a canceled turn cancels its task (${era} era)`, async (t) => {
        const s = await serveTools(t, era);
        const { json } = await s.turn(await s.session(),
            { message: call('task', { polls: 1000000 }), background: true });
        while (!fs.existsSync(path.join(s.dir, 'tasks.json'))) await pause();
        await untilTurn(s, json.turn_id, 'running');
        assert.equal((await s.post(`/api/v1/turns/${json.turn_id}/cancel`)).code, 200);
        while (!Object.values(JSON.parse(fs.readFileSync(path.join(s.dir, 'tasks.json'), 'utf8')))[0].canceled)
            await pause();
    });
}

test('a question survives a kill, and any process takes the answer', async (t) => {
    const s = await serveTools(t, 'new');
    const id = await s.session();
    const asking = (await s.turn(id, { message: call('input') })).json;
    assert.equal(asking.state, 'asking');
    await s.stop('SIGKILL');
    const later = await serveTools(t, 'new', s);
    const found = (await later.get(`/api/v1/turns/${asking.turn_id}`)).json;
    assert.equal(found.state, 'asking');
    assert.deepEqual(found.questions, asking.questions);
    assert.equal((await later.post(`/api/v1/turns/${asking.turn_id}/approve`,
        { allow: true, data: person })).code, 200);
    // The server's state is returned unchanged.
    assert.match((await untilTurn(later, asking.turn_id, 'done')).text, /"name": "Ada".*opaque/);
});

test('a task asks a person, and the answer reaches it', async (t) => {
    for (const era of ['new', 'old']) {
        const s = await serveTools(t, era);
        const asking = (await s.turn(await s.session(), { message: call('task', { ask: true }) })).json;
        assert.equal(asking.state, 'asking', JSON.stringify(asking));
        assert.equal((await s.post(`/api/v1/turns/${asking.turn_id}/approve`,
            { allow: true, data: person })).code, 200);
        assert.match((await untilTurn(s, asking.turn_id, 'done')).text, /task done: .*"name": "Ada"/);
    }
});

test('the event of a question has everything that a client needs', async (t) => {
    const s = await serveTools(t, 'new');
    const r = await open(s.port, 'POST', `/api/v1/sessions/${await s.session()}/turns`,
        { body: { message: call('input'), stream: true } });
    const asking = await r.next(isA('asking'));
    assert.equal(asking.data.questions[0].data.inputs.length, 2);
    r.leave();
});
