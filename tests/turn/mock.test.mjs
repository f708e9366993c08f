// Turns with the scripted model: each of its directives, with every kind of provider. Whatever
// happens, a turn ends in the right state, no message is lost, the log is valid, and the next turn
// works.
import assert from 'node:assert/strict';
import test from 'node:test';
import { MockModel } from '../conformance/mock-model.mjs';
import { paths } from './paths.mjs';
import { checkEvents, checkLog, Driver, fakeServer, withDirectory } from './support.mjs';

const words = 'The quick brown fox jumps over the lazy dog. ';
const begun = 'The quick brown '; // two pieces of it
const SCENE_MS = 60_000; // then the stream never ends
const isText = ({ event }) => event === 'text';
const isEnd = ({ event }) => event === 'ended';

// One session of one scenario. The scenario names the turns, and their texts carry the name to the
// model.
class Scene {
    constructor(name, path, driver, mock) {
        Object.assign(this, { name, path, driver, mock, said: [], turns: 0 });
    }

    async start(text, more) {
        const turn = `${this.name}/${this.turns += 1}`;
        const whole = `${text}${turn}`;
        const started = await this.driver.ask({ start: turn, session: this.name, text: whole, ...more });
        if (started.status === 'ok' && !more?.whole) this.said.push(whole);
        return { turn, started };
    }

    async turn(text, more) {
        const { turn, started } = await this.start(text, more);
        assert.equal(started.status, 'ok', started.reason);
        return this.ended(turn);
    }

    async ended(turn) {
        const end = await this.driver.told(turn, isEnd);
        checkEvents(this.driver.events(turn));
        return end;
    }

    // The requests that the model received in a turn.
    async requests(turn = `${this.name}/${this.turns}`) {
        const answer = await fetch(`${this.mock}/__requests?contains=${encodeURIComponent(turn)}`);
        return (await answer.json()).requests;
    }

    async asked(turn, fits = () => true) {
        for (const until = Date.now() + SCENE_MS; Date.now() < until;) {
            const found = (await this.requests(turn)).filter(fits);
            if (found.length > 0) return found;
        }
        return assert.fail(`${turn} never asked the model so`);
    }

    async retries(turn = `${this.name}/${this.turns}`) {
        return this.driver.events(turn).filter(({ event }) => event === 'retrying').length;
    }

    log() { return this.driver.log(this.name); }

    async last() { return (await this.log()).at(-1); }

    // The turn failed, gave the reason, and recorded it after `text`, which readers had seen.
    async failed(end, reason, text) {
        assert.equal(end.state, 'failed');
        assert.match(end.text, reason);
        const last = await this.last();
        assert.deepEqual(last.flags, ['error']);
        assert.match(last.error, reason);
        assert.equal(last.content, text);
    }

    async goesOn() {
        const { turn } = await this.start('and now? ');
        assert.equal((await this.ended(turn)).state, 'done');
        assert.equal(this.driver.text(turn), `echo: and now? ${turn}`);
        const messages = await this.log();
        if (!this.isApart) checkLog(messages, this.said);
        assert.equal(messages.at(-1).content, `echo: and now? ${turn}`);
    }
}

const scenes = {
    async say(scene) {
        const end = await scene.turn('<<say Hello \u00e9\u{1f600}>><<chunk 1>>');
        assert.equal(end.state, 'done');
        const { content, usage } = await scene.last();
        assert.equal(content, 'Hello \u00e9\u{1f600}');
        if (scene.path.noUsage) return;
        const [{ outcome }] = await scene.requests();
        assert.deepEqual([end.input, end.output], [outcome.usage.prompt_tokens, outcome.usage.completion_tokens]);
        assert.deepEqual(usage, { input_tokens: end.input, output_tokens: end.output });
        const { calls, input, output } = await scene.driver.ask({ ledger: scene.name });
        assert.deepEqual([calls, input, output], [1, end.input, end.output]);
    },

    async finish(scene) {
        const { turn } = await scene.start('<<say a>><<finish length>>');
        assert.equal((await scene.ended(turn)).state, 'done');
        const message = scene.driver.events(turn).find(({ event }) => event === 'message');
        assert.equal(message.length, scene.path.kind !== 'mistral_conversations');
        assert.equal((await scene.turn('<<say b>><<finish content_filter>>')).state, 'done');
    },

    async nousage(scene) {
        const end = await scene.turn('<<say a>><<nousage>>');
        // Usage that the service does not report is counted here.
        assert.equal(end.state, 'done');
        assert.ok(end.input > 0 && end.output > 0, `${end.input} in, ${end.output} out`);
        assert.equal((await scene.driver.ask({ ledger: scene.name })).calls, 1);
    },

    async size(scene) {
        assert.equal((await scene.turn('<<size 1>>')).state, 'done');
        assert.equal((await scene.turn('<<size 400000>>')).state, 'done');
        assert.equal((await scene.last()).content, words.repeat(400000 / words.length + 1).slice(0, 400000));
    },

    async tools(scene) {
        const { turn } = await scene.start('<<tool srv__echo {"a": 1}>><<tool srv__echo {"b": 2}>><<chunk 2>>');
        assert.equal((await scene.ended(turn)).state, 'done');
        assert.equal(scene.driver.text(turn), 'tool said: {"a": 1} | {"b": 2}');
        const order = scene.driver.events(turn).filter(({ event }) => /^tool_|message/.test(event)).map(({ event }) => event);
        assert.deepEqual(order.slice(0, 3), ['message', 'tool_started', 'tool_started'], 'recorded before they run, and run in parallel');
    },

    async next(scene) {
        const end = await scene.turn('<<tool srv__echo {"a":1}>><<next>><<say so>><<tool srv__echo {"b":2}>><<next>><<say done>>');
        assert.equal(end.state, 'done');
        assert.deepEqual((await scene.log()).map(({ role }) => role), ['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant']);
    },

    async 'tools of the caller'(scene) {
        const tools = [{ name: 'look', schema: { type: 'object' } }];
        const { turn } = await scene.start('<<tool look {"at":1}>><<tool srv__echo {"c":3}>>', { tools });
        const paused = await scene.driver.told(turn, ({ event }) => event === 'paused');
        const [{ call_id: id, name }] = JSON.parse(paused.text);
        assert.equal(name, 'look');
        const given = await scene.driver.ask({ results: turn, session: scene.name, outputs: { [id]: 'seen' } });
        assert.equal(given.status, 'ok', given.reason);
        assert.equal((await scene.ended(turn)).state, 'done');
        assert.equal(scene.driver.text(turn), 'tool said: seen | {"c": 3}');
    },

    async 'a tool that was not offered'(scene) {
        await scene.failed(await scene.turn('<<tool nothing {}>>'), /was not offered/);
        assert.equal((await scene.requests()).length, 1);
    },

    async 'fail for good'(scene) {
        await scene.failed(await scene.turn('<<fail status=400>>'), /status 400/);
        assert.deepEqual([(await scene.requests()).length, await scene.retries()], [1, 0]);
        await scene.failed(await scene.turn('<<fail status=401>>'), /status 401/);
        await scene.failed(await scene.turn('', { model: 'missing-model' }), /does not exist/);
    },

    async 'fail and try again'(scene) {
        const { turn } = await scene.start('<<fail status=500 times=1 retry_after=0>>');
        assert.equal((await scene.ended(turn)).state, 'done');
        assert.deepEqual([(await scene.requests(turn)).length, await scene.retries()], [2, 1]);
        const retrying = scene.driver.events(turn).find(({ event }) => event === 'retrying');
        assert.deepEqual([retrying.count, retrying.text], [2, 'mock: scripted failure with status 500']);
    },

    async 'fail until it gives up'(scene) {
        await scene.failed(await scene.turn('<<fail status=503 retry_after=0 body=html>>'), /HTTP 503/);
        assert.deepEqual([(await scene.requests()).length, await scene.retries()], [2, 1]);
    },

    async 'fail without a word on when to come back'(scene) {
        assert.equal((await scene.turn('<<fail status=529 times=1>>')).state, 'done');
        assert.deepEqual([(await scene.requests()).length, await scene.retries()], [2, 1]);
    },

    async 'too long'(scene) {
        assert.equal((await scene.turn('something to forget ')).state, 'done');
        assert.equal((await scene.turn('<<fail status=413>>')).state, 'failed');
    },

    async hang(scene) {
        const { turn } = await scene.start('<<hang>>');
        await scene.asked(turn);
        assert.equal((await scene.driver.ask({ cancel: turn })).status, 'ok');
        const [{ state }] = scene.driver.events(turn).slice(-1);
        assert.equal(state, 'canceled', 'reported before the cancel returned');
        checkEvents(scene.driver.events(turn));
        await scene.asked(turn, ({ outcome }) => outcome.client_aborted);
        const { content, interrupted } = await scene.last();
        assert.deepEqual([content, interrupted], [undefined, 'canceled']);
    },

    async 'hang for a moment'(scene) {
        assert.equal((await scene.turn('<<hang ms=20>>')).state, 'done');
    },

    async 'hang, and be interrupted'(scene) {
        const { turn } = await scene.start('<<hang>>');
        await scene.asked(turn);
        const other = await scene.start('<<say instead>>', { lane: 'interrupt' });
        assert.equal((await scene.ended(other.turn)).state, 'done');
        assert.equal((await scene.ended(turn)).state, 'canceled');
    },

    async 'hang, and have others wait'(scene) {
        const { turn } = await scene.start('<<hang>>');
        await scene.asked(turn);
        const refused = await scene.driver.ask({ start: 'none', session: scene.name, text: 'x' });
        assert.deepEqual([refused.status, refused.reason], ['busy', 'session is busy']);
        const { turn: waits, started } = await scene.start('<<say second>>', { lane: 'queue' });
        assert.equal(started.state, 'queued');
        assert.equal((await scene.driver.ask({ cancel: turn })).status, 'ok');
        assert.equal((await scene.ended(turn)).state, 'canceled');
        assert.equal((await scene.ended(waits)).state, 'done');
    },

    async stall(scene) {
        const { turn } = await scene.start('<<stall after=2>><<size 100>>');
        if (scene.path.isWhole) await scene.asked(turn);
        else await scene.driver.told(turn, ({ text }) => text === 'k brown ');
        assert.equal((await scene.driver.ask({ cancel: turn })).status, 'ok');
        assert.equal(scene.driver.events(turn).at(-1).state, 'canceled');
        await scene.asked(turn, ({ outcome }) => outcome.client_aborted);
        const { content, interrupted } = await scene.last();
        assert.deepEqual([content, interrupted], [scene.path.isWhole ? undefined : begun, 'canceled']);
    },

    async 'stall for a moment'(scene) {
        const { turn } = await scene.start('<<stall after=2 ms=20>><<size 100>>');
        assert.equal((await scene.ended(turn)).state, 'done');
        assert.equal(scene.driver.text(turn).length, 100);
    },

    async 'cut by a reset'(scene) {
        const end = await scene.turn('<<cut after=2>><<size 100>>');
        await scene.failed(end, /failed/, scene.path.isWhole ? undefined : begun);
        // Text that readers have seen is not sent again.
        assert.equal((await scene.requests()).length, scene.path.isWhole ? 2 : 1);
    },

    async 'cut by an end'(scene) {
        const end = await scene.turn('<<cut after=2 mode=eof>><<size 100>>');
        if (scene.path.isWhole) await scene.failed(end, /not a JSON object/);
        else await scene.failed(end, /ended in the middle/, begun);
        assert.equal((await scene.requests()).length, 1);
    },

    async 'cut before a word'(scene) {
        await scene.failed(await scene.turn('<<cut after=0>><<size 100>>'), /failed/);
        assert.deepEqual([(await scene.requests()).length, await scene.retries()], [2, 1]);
    },

    async 'cut in a call'(scene) {
        const end = await scene.turn('<<cut after=2>><<chunk 1>><<tool srv__echo {"a": 1}>>');
        assert.equal(end.state, 'failed');
        const messages = await scene.log();
        assert.equal(messages.filter(({ role }) => role === 'tool').length, 0, 'half a call is not a call');
    },

    async garbage(scene) {
        await scene.failed(await scene.turn('<<garbage>>'), /not a JSON object/);
    },

    async 'all or nothing'(scene) {
        scene.isApart = true;
        assert.equal((await scene.turn('<<fail status=400>>', { whole: true })).state, 'failed');
        assert.deepEqual(await scene.log(), []);
        assert.equal((await scene.turn('<<cut after=2>><<size 100>>', { whole: true })).state, 'failed');
        assert.deepEqual(await scene.log(), []);
    },

    async 'the same message again'(scene) {
        const { turn } = await scene.start('<<say once>>', { client_id: 'm1' });
        assert.equal((await scene.ended(turn)).state, 'done');
        const text = scene.said[0];
        const again = await scene.driver.ask({ start: `${turn}again`, session: scene.name, text, client_id: 'm1' });
        assert.deepEqual([again.status, again.replayed], ['ok', true]);
        assert.equal((await scene.requests(turn)).length, 1);
    },

    async 'nobody is there'(scene) {
        await scene.failed(await scene.turn('', { endpoint: 'gone' }), /refused|connect/i);
        assert.equal(await scene.retries(), 1);
    },
};

// Tools are the same with every provider, so these scenarios run with one.
const toolScenes = {
    async 'a tool that hangs'(scene) {
        assert.equal((await scene.turn('<<tool slow__hang {}>>')).state, 'done');
        const [, , result] = await scene.log();
        assert.equal(result.parts[0].error, true);
    },

    async 'a tool that is canceled'(scene) {
        const { turn } = await scene.start('<<tool patient__hang {}>>');
        await scene.driver.told(turn, ({ event }) => event === 'tool_started');
        assert.equal((await scene.driver.ask({ cancel: turn })).status, 'ok');
        assert.equal(scene.driver.events(turn).at(-1).state, 'canceled');
        const [, , result] = await scene.log();
        assert.deepEqual([result.parts[0].error, result.parts[0].output], [true, '[Tool execution was interrupted]']);
    },

    async 'a tool whose server dies'(scene) {
        assert.equal((await scene.turn('<<tool frail__die {}>>')).state, 'done');
        const [, , result] = await scene.log();
        assert.equal(result.parts[0].error, true);
    },

    async 'a tool that says what went wrong'(scene) {
        const { turn } = await scene.start('<<tool srv__fails {}>><<tool srv__error {}>>');
        assert.equal((await scene.ended(turn)).state, 'done');
        assert.match(scene.driver.text(turn), /^tool said: .*it is broken.* \| .*no such thing/s);
    },

    async 'a tool that is called over and over'(scene) {
        const call = '<<tool srv__echo {"a":1}>>';
        const { turn } = await scene.start(`${call}<<next>>${call}<<next>>${call}<<next>><<say fine>>`);
        await scene.driver.told(turn, ({ event }) => event === 'asking');
        assert.equal((await scene.driver.ask({ allow: turn, yes: true })).status, 'ok');
        assert.equal((await scene.ended(turn)).state, 'done');
        assert.equal(scene.driver.text(turn), 'fine');
    },
};

// A service that keeps the conversation can lose it.
const keptScenes = {
    async 'a conversation that is lost'(scene) {
        assert.equal((await scene.turn('<<say first>>')).state, 'done');
        assert.equal((await scene.turn('<<say second>>')).state, 'done');
        scene.path.forget(`${scene.name}/1`);
        assert.equal((await scene.turn('<<say third>>')).state, 'done');
        const [{ body }] = await scene.requests();
        assert.deepEqual(body.messages.filter(({ role }) => role === 'user').map(({ content }) => content), scene.said);
    },
};

const server = (name, call_ms = 0) => ({ name, command: ['python3', fakeServer], call_ms });
const toolsEach = 28; // tools of the fake server

async function play(run, scene) {
    await run(scene);
    await scene.goesOn();
}

// A scenario that waits for something that never happens must not hide the results of the others.
async function runScene(run, scene) {
    let timer;
    const late = new Promise((_, reject) => { timer = setTimeout(reject, SCENE_MS, new Error('it came to no end')); });
    try {
        await Promise.race([play(run, scene), late]);
    } finally {
        clearTimeout(timer);
    }
}

// All scenarios of a provider run at the same time on one runtime. Each has a test that checks its
// result.
function testPath(path) {
    const all = { ...scenes, ...(path.name === 'openai' && toolScenes), ...(path.forget && keptScenes) };
    const ready = {};
    const results = Object.fromEntries(Object.keys(all).map((name) =>
        [name, new Promise((resolve) => { ready[name] = resolve; })]));

    test(`${path.name}: opens, and closes after all`, () => withDirectory(async (directory) => {
        const mock = new MockModel();
        const url = await mock.listen();
        const front = await path.open(url);
        const servers = path.name === 'openai' ? [server('srv'), server('slow', 300), server('patient'), server('frail')] : [server('srv')];
        const endpoint = { kind: path.kind, model: 'mock-model', key: 'k' };
        const driver = new Driver({
            store: `sqlite:${directory}/turns.db`,
            endpoints: [{ ...endpoint, name: 'here', url: `${front.url}/v1` }, { ...endpoint, name: 'gone', url: 'http://127.0.0.1:1/v1' }],
            servers,
        });
        try {
            await driver.ask({ tools: servers.length * toolsEach });
            await Promise.all(Object.entries(all).map(([name, run]) =>
                runScene(run, new Scene(name, path, driver, url)).then(() => ready[name](null), (error) => ready[name](error))));
            // Returns when the loop has handled the last end.
            await driver.ask({ cancel: 'nothing' });
            const stats = await driver.ask({ stats: true });
            assert.deepEqual([stats.running, stats.queued], [0, 0]);
            const { status, findings } = await driver.ask({ check: true });
            assert.deepEqual([status, findings], ['ok', 0]);
            assert.equal(await driver.close(), 0);
        } finally {
            for (const name of Object.keys(all)) ready[name](new Error('it came to no end'));
            await driver.kill();
            await front.close();
            await mock.close();
        }
    }));

    for (const name of Object.keys(all)) {
        test(`${path.name}: ${name}`, async () => {
            const error = await results[name];
            if (error) throw error;
        });
    }
}

for (const path of paths) testPath(path);
