// The server dies at each point of the way of a message. Afterwards every message is recorded once,
// and each one that deserves an answer has exactly one. CHANNEL_KILLS sets the number of random
// kills.
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { serve, workspace } from '../server/support.mjs';
import { serveModel } from '../server/model.mjs';
import { Bridge, secret } from './bridge.mjs';

const config = `
channels:
  - kind: webhook
    secret_env: BRIDGE_SECRET
    groups: all
    users: ["*"]
turn:
  lease: 1s
`;
const env = { BRIDGE_SECRET: secret };
const POINTS = ['take.before_commit', 'take.after_commit', 'outbox.before_put', 'outbox.after_put',
    'outbox.before_settle'];

// A bridge that goes on with whichever server runs.
class Lasting extends Bridge {
    async until(step) {
        const end = Date.now() + 60_000;
        for (;;) {
            try {
                const answer = await step();
                if (answer.code === 200) return answer;
            } catch { /* the server is gone */ }
            assert.ok(Date.now() < end, 'the server does not answer');
            await sleep(20);
        }
    }

    say(id, text, more) { return this.until(() => super.say(id, text, more)); }

    async showAll(count) {
        const end = Date.now() + 60_000;
        while (this.room.length < count) {
            assert.ok(Date.now() < end, `${this.room.length} of ${count} messages`);
            try {
                for (const message of await this.pull(1)) await this.deliver(message);
            } catch { await sleep(20); }
        }
    }
}

async function recorded(server) {
    const all = [];
    const { sessions } = (await server.get('/api/v1/sessions?limit=100')).json;
    for (const { session_id: id } of sessions)
        all.push(...(await server.get(`/api/v1/sessions/${id}/messages?limit=1000`)).json.messages);
    return all;
}

// Each of the texts is recorded once.
async function judgeRecorded(server, texts) {
    const messages = await recorded(server);
    const said = messages.filter(({ role }) => role === 'user').map(({ client_id: id }) => id);
    assert.equal(new Set(said).size, said.length, `recorded twice: ${said}`);
    assert.equal(said.length, texts.length, `recorded: ${said}`);
    return messages;
}

// Each of the texts is recorded once and answered once.
async function judge(server, bridge, texts) {
    const messages = await judgeRecorded(server, texts);
    const answers = messages.filter(({ role }) => role === 'assistant');
    assert.equal(answers.length, texts.length, JSON.stringify(answers));
    for (const text of texts)
        assert.equal(bridge.room.filter((m) => m.text.includes(text)).length, 1,
            `'${text}' in ${JSON.stringify(bridge.room)}`);
    assert.equal(bridge.room.length, texts.length);
    assert.deepEqual(await bridge.pull(), []);
}

for (const point of POINTS) {
    for (const nth of [1, 2]) {
        test(`a kill at ${point}, call ${nth}`, async (t) => {
            const dir = workspace(t);
            const bridge = new Lasting(
                await serve(t, { dir, config, env: { ...env, PALAVER_STOP_AT: `${point}:${nth}` } }));
            let restarts = 0;
            bridge.server.child.on('exit', async () => {
                restarts++;
                bridge.server = await serve(t, { dir, config, env });
            });
            const texts = ['one', 'two', 'three'];
            for (const [i, text] of texts.entries()) {
                await bridge.say(`k${i}`, text, { chat: `room${i}` });
                await bridge.showAll(i + 1);
            }
            await judge(bridge.server, bridge, texts);
            assert.equal(restarts, 1, 'the point was reached');
        });
    }
}

test('a kill in the call of the model', async (t) => {
    const first = await serveModel(t, { config, env });
    const bridge = new Lasting(first);
    await bridge.say('m1', '<<say late>><<hang times=1>>', { direct: true });
    await first.untilAsked(1);
    await first.stop('SIGKILL');
    bridge.server = await serveModel(t, { dir: first.dir, model: first.model, config, env });
    await bridge.showAll(1);
    await judge(bridge.server, bridge, ['late']);
});

test('random kills', async (t) => {
    const dir = workspace(t), kills = Number(process.env.CHANNEL_KILLS ?? 8);
    const bridge = new Lasting(await serve(t, { dir, config, env }));
    const texts = [];
    let stopped = false;
    const killer = (async () => {
        for (let i = 0; i < kills; i++) {
            await sleep(Math.random() * 100);
            await bridge.server.stop('SIGKILL');
            bridge.server = await serve(t, { dir, config, env });
        }
        stopped = true;
    })();
    for (let i = 0; !stopped || i % 10 !== 0; i++) {
        texts.push(`text ${i};`);
        await bridge.say(`t${i}`, texts[i], { chat: `room${i % 10}` });
        // Messages that wait in a chat at the same time get one answer, so each waits for its own.
        if (i % 10 === 9) await bridge.showAll(i + 1);
    }
    await killer;
    await bridge.showAll(texts.length);
    await judgeRecorded(bridge.server, texts);
    const replies = bridge.room.map(({ reply_to: id }) => id);
    assert.deepEqual([...replies].sort(), texts.map((_, i) => `t${i}`).sort());
    // A turn is tried three times. Then the chat is told that there is no answer.
    const notices = bridge.room.filter(({ kind }) => kind === 'notice');
    assert.ok(notices.length <= kills / 4, `${notices.length} of ${kills} kills`);
    for (const { kind, text, reply_to: id } of bridge.room)
        if (kind === 'text') assert.ok(text.includes(texts[id.slice(1)]), `${id}: ${text}`);
    assert.deepEqual(await bridge.pull(), []);
    console.log(`# ${kills} kills, ${texts.length} messages, ${notices.length} without an answer`);
});

test('of two servers one has the account, and the other one takes over', async (t) => {
    const dir = workspace(t);
    const first = await serve(t, { dir, config, env });
    await first.logged(/webhook:default: ready/);
    const bridge = new Lasting(first);
    await bridge.say('o1', 'one', { direct: true });
    const second = await serve(t, { dir, config, env });
    const stateOf = async () => (await second.get('/api/v1/channels')).json.channels[0].state;
    assert.equal(await stateOf(), 'waiting');
    const other = new Bridge(second);
    assert.equal((await other.say('o2', 'two', { direct: true })).code, 503);
    assert.match(second.log(), /node/);
    await first.stop('SIGKILL');
    await second.logged(/webhook:default: ready/);
    bridge.server = second;
    await bridge.say('o1', 'one', { direct: true });
    await bridge.say('o2', 'two', { direct: true });
    await bridge.showAll(2);
    await judge(second, bridge, ['one', 'two']);
    const third = await serve(t, { dir, config, env });
    await second.stop('SIGTERM');
    await third.logged(/webhook:default: ready/);
});
