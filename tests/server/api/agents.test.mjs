// Which agent answers, and with which settings: agents, the default agent, and parameters of
// models.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError } from '../support.mjs';
import { serveModel } from '../model.mjs';

const agents = `
agents:
  - id: helper
    system: You help.
    model: mock-model-mini
  - id: Sol
    default: true
    system: You are Sol.
    max_tool_iterations: 2
    tools: []
`;
const last = async (s) => (await s.asked()).at(-1);
const system = (request) => request.messages.filter((m) => m.role === 'system').map((m) => m.content);

test('the default agent answers if no other agent is named', async (t) => {
    const s = await serveModel(t, { config: agents });
    await s.post('/api/v1/chat', { message: 'hi' });
    assert.deepEqual(system(await last(s)), ['You are Sol.']);
    assert.equal((await last(s)).tools, undefined);
    const id = await s.session();
    assert.equal((await s.turn(id, { message: 'hi' })).code, 200);
    assert.deepEqual(system(await last(s)), ['You are Sol.']);
    // If an agent is not configured, the default agent answers.
    const other = await s.session({ agent: 'nobody' });
    await s.turn(other, { message: 'hi' });
    assert.deepEqual(system(await last(s)), ['You are Sol.']);
    // A configured agent is found regardless of the case of its name.
    const named = await s.session({ agent: 'HELPER' });
    await s.turn(named, { message: 'hi' });
    assert.deepEqual([(await last(s)).model, system(await last(s))],
        ['mock-model-mini', ['You help.']]);
});

test('the default agent determines the number of tool rounds', async (t) => {
    const s = await serveModel(t, { config: agents.replace('tools: []', 'tools: [recall]') });
    const call = (n) => `<<tool recall {"text":"${n}"}>>`;
    await s.post('/api/v1/chat', { message: [1, 2, 3, 4, 5].map(call).join('<<next>>') });
    const asked = await s.asked();
    assert.deepEqual(asked[0].tools.map((tool) => tool.function.name), ['recall']);
    assert.equal(asked.length, 3, 'two rounds, and the answer');
});

test('a request can name a configured agent, and no other', async (t) => {
    const s = await serveModel(t, { config: agents });
    const made = await s.post('/api/v1/chat', { message: 'hi', agent: 'helper' });
    assert.equal(made.code, 200, made.text);
    assert.deepEqual([(await last(s)).model, system(await last(s))],
        ['mock-model-mini', ['You help.']]);
    const session = await s.get(`/api/v1/sessions/${made.json.session_id}`);
    assert.equal(session.json.agent, 'helper');
    const id = await s.session();
    await s.turn(id, { message: 'hi', agent: 'helper' });
    assert.equal((await last(s)).model, 'mock-model-mini');
    const before = (await s.asked()).length;
    assertError(await s.post('/api/v1/chat', { message: 'hi', agent: 'ghost' }), 422, 'invalid',
        /^agent 'ghost' is not configured/);
    assertError(await s.turn(id, { message: 'hi', agent: 'ghost' }), 400, 'invalid',
        /^agent 'ghost' is not configured/);
    assertError(await s.turn(id, { message: 'hi', agent: 7 }), 400, 'invalid', /'agent'/);
    assert.equal((await s.asked()).length, before);
});

test('without configured agents, the name of an agent is only stored', async (t) => {
    const s = await serveModel(t, { config: 'turn: {system: Be brief.}\n' });
    const made = await s.post('/api/v1/chat', { message: 'hi', agent: 'anybody' });
    assert.equal(made.code, 200, made.text);
    assert.deepEqual(system(await last(s)), ['Be brief.']);
    assert.equal((await s.get(`/api/v1/sessions/${made.json.session_id}`)).json.agent, 'anybody');
});

test('parameters come from request, session, agent and configuration, in this order', async (t) => {
    const s = await serveModel(t, { config: `
turn:
  parameters: {temperature: 0.7, top_p: 0.9, seed: 1, stop: ["END", "no"], user: "7"}
agents:
  - id: main
  - id: cold
    parameters: {temperature: 0, seed: 2, logit_bias: {"50256": -100}}
` });
    const pick = async () => {
        const { temperature, top_p: top, seed, stop, user } = await last(s);
        return [temperature, top, seed, stop, user];
    };
    await s.post('/api/v1/chat', { message: 'hi' });
    assert.deepEqual(await pick(), [0.7, 0.9, 1, ['END', 'no'], '7']);
    const cold = await s.session({ agent: 'cold' });
    await s.turn(cold, { message: 'hi' });
    assert.deepEqual(await pick(), [0, 0.9, 2, ['END', 'no'], '7']);
    assert.deepEqual((await last(s)).logit_bias, { 50256: -100 });
    const own = await s.session({ agent: 'cold',
        metadata: { turn: { parameters: { seed: 3, stop: null } } } });
    await s.turn(own, { message: 'hi' });
    assert.deepEqual(await pick(), [0, 0.9, 3, undefined, '7']);
    await s.turn(own, { message: 'hi', parameters: { seed: 4, temperature: 1, user: null } });
    assert.deepEqual(await pick(), [1, 0.9, 4, undefined, undefined]);
});
