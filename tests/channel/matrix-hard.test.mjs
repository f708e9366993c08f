// A bot on a homeserver in hard times: random kills, two processes with one account, a homeserver
// that is restarted, repeats itself, limits the rate, or forgets what was sent. The rooms are judged
// as their members read them.
//
//   MATRIX_KILLS     random kills; 6
//   MATRIX_ROOMS     rooms of that test; 3
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { judge, startBot } from './bot.mjs';
import { startProxy } from './homeserver_proxy.mjs';
import { installSynapse, messagesOf, startSynapse, until } from './synapse.mjs';

const KILLS = Number(process.env.MATRIX_KILLS ?? 6);
const ROOMS = Number(process.env.MATRIX_ROOMS ?? 3);
const skip = await installSynapse();
const cleanups = [];
let synapse, ann, bob, dir, bots = 0;

before(async () => {
    if (skip) return;
    dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-matrix-'));
    synapse = await startSynapse({ after: (clean) => cleanups.push(clean) }, dir);
    ann = await synapse.person('ann');
    bob = await synapse.person('bob');
});

after(async () => {
    for (const clean of cleanups) await clean();
    if (dir) fs.rmSync(dir, { recursive: true, force: true });
});

const botUser = () => synapse.person(`sol${++bots}`);

async function group(bot, user, people = [ann, bob]) {
    const [first, ...others] = people;
    const room = await first.createRoom({ name: 'Group',
        invite: [user.id, ...others.map(({ id }) => id)] });
    for (const other of others) await other.join(room);
    await until('the bot joins', async () => (await first.members(room)).includes(user.id));
    return room;
}

// Numbers that are the same in each run with the same seed.
function randomOf(seed) {
    let state = seed;
    return (below) => {
        state = (state * 1103515245 + 12345) & 0x7fffffff;
        return state % below;
    };
}

test('random kills neither lose nor double anything', { skip }, async (t) => {
    const seed = Number(process.env.MATRIX_SEED ?? Date.now() % 1e6);
    const random = randomOf(seed);
    const user = await botUser();
    let bot = await startBot(t, user, synapse.url);
    const rooms = [];
    t.diagnostic(`MATRIX_SEED=${seed}`);
    for (let i = 0; i < ROOMS; i++)
        rooms.push({ id: await group(bot, user), said: [], asked: [] });
    let isOver = false;
    const talk = async () => {
        for (let i = 0; !isOver; i++) {
            const room = rooms[random(rooms.length)];
            if (random(3) > 0) {
                room.said.push(await bob.say(room.id, `chatter ${i}`));
            } else {
                // The next question waits for this answer: waiting ones would share one.
                const event = await ann.mention(room.id, user.id, `question ${i}`);
                room.said.push(event);
                room.asked.push(event);
                room.open = messagesOf(await ann.timeline(room.id), user.id).length;
            }
            await sleep(random(40));
        }
    };
    const talking = talk();
    for (let i = 0; i < KILLS; i++) {
        await sleep(100 + random(1500));
        await bot.stop('SIGKILL');
        bot = await startBot(t, user, synapse.url, { dir: bot.dir, model: bot.model });
        if (random(2)) await bot.ready();
    }
    isOver = true;
    await talking;
    await bot.ready();
    for (const room of rooms) {
        const last = await ann.mention(room.id, user.id, 'the end');
        room.said.push(last);
        await until(`the last answer in ${room.id}`, async () =>
            messagesOf(await ann.timeline(room.id), user.id).some((event) =>
                event.content['m.relates_to']?.['m.in_reply_to']?.event_id === last));
        // Questions that waited at the same time share one answer, to the newest of them.
        const answered = new Set(messagesOf(await ann.timeline(room.id), user.id).map((event) =>
            event.content['m.relates_to']?.['m.in_reply_to']?.event_id));
        await judge(bot, room.id, ann, [...answered], room.said);
        // Each question is in the conversation before an answer.
        const stored = await bot.stored(room.id);
        assert.equal(stored.at(-1).role, 'assistant');
    }
    const said = rooms.reduce((sum, room) => sum + room.said.length, 0);
    t.diagnostic(`${KILLS} kills, ${said} messages in ${ROOMS} rooms`);
});

test('of two processes with one account only one works, and the other takes over', { skip },
    async (t) => {
        const user = await botUser();
        const one = await startBot(t, user, synapse.url);
        await one.ready();
        const room = await group(one, user);
        const two = await startBot(t, user, synapse.url, { dir: one.dir, model: one.model });
        const asked = [];
        for (let i = 0; i < 5; i++) {
            asked.push(await ann.mention(room, user.id, `question ${i}`));
            await two.answers(room, ann, i + 1);
        }
        await one.stop('SIGKILL');
        asked.push(await ann.mention(room, user.id, 'and now?'));
        await two.answers(room, ann, 6);
        await judge(two, room, ann, asked, asked);
    });

test('a homeserver that is down is asked seldom, and everything follows later', { skip },
    async (t) => {
        const proxy = await startProxy(t, synapse.url);
        const user = await botUser();
        const bot = await startBot(t, user, proxy.url);
        await bot.ready();
        const room = await group(bot, user);
        const slow = await ann.mention(room, user.id, '<<hang ms=3000>> late');
        await until('the turn runs', async () => (await bot.asked()).length > 0);
        await synapse.stop();
        const since = proxy.seen.length;
        await sleep(8000);
        const requests = proxy.seen.length - since;
        assert.ok(requests <= 25, `${requests} requests in 8 seconds`);
        await synapse.start();
        const next = await ann.mention(room, user.id, 'again');
        await bot.answers(room, ann, 2);
        await judge(bot, room, ann, [slow, next], [slow, next]);
    });

test('a response that comes twice is stored once', { skip }, async (t) => {
    const user = await botUser();
    const proxy = await startProxy(t, synapse.url);
    const bot = await startBot(t, user, proxy.url);
    await bot.ready();
    const room = await group(bot, user);
    const asked = await ann.mention(room, user.id, 'hello');
    await bot.answers(room, ann, 1);
    // The same events again, with a new cursor.
    let old = '';
    for (const { line } of proxy.seen.filter((one) => /\/sync\?.*since=/.test(one.line))) {
        const text = await fetch(synapse.url + line.slice(4).replace(/timeout=\d+/, 'timeout=0'),
            { headers: { authorization: `Bearer ${user.token}` } }).then((r) => r.text());
        if (text.includes('hello')) old = text;
    }
    assert.match(old, /hello/);
    proxy.rule(/\/sync\?/, 'answer', { status: 200, body: old });
    proxy.rule(/\/sync\?/, 'answer', { status: 200, body: old });
    const next = await ann.mention(room, user.id, 'next');
    await bot.answers(room, ann, 2);
    await sleep(500);
    await judge(bot, room, ann, [asked, next], [asked, next]);
});

test('the rate limits of an unconfigured homeserver delay answers in order', { skip },
    async (t) => {
        const home = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-matrix-'));
        t.after(() => fs.rmSync(home, { recursive: true, force: true }));
        // Synapse's own burst, with a rate that a test can wait for.
        const limited = await startSynapse(t, home,
            { config: { rc_message: { per_second: 2, burst_count: 10 } } });
        const people = await Promise.all(['ann', 'bob'].map((name) => limited.person(name)));
        const user = await limited.person('sol');
        const proxy = await startProxy(t, limited.url);
        const bot = await startBot(t, user, proxy.url);
        await bot.ready();
        const rooms = [];
        for (let i = 0; i < 4; i++) rooms.push(await group(bot, user, people));
        const asked = rooms.map(() => []);
        for (let i = 0; i < 20; i++) {
            const at = i % rooms.length;
            await until('ann may write', () => people[0].mention(rooms[at], user.id, `q ${i}`)
                .then((event) => asked[at].push(event), () => sleep(300)));
            // One after the other, so that each has its own answer.
            await bot.answers(rooms[at], people[0], asked[at].length);
        }
        for (let i = 0; i < rooms.length; i++)
            await judge(bot, rooms[i], people[0], asked[i], asked[i]);
    });

test('a login that expires is renewed, and nothing is lost', { skip }, async (t) => {
    const home = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-matrix-'));
    t.after(() => fs.rmSync(home, { recursive: true, force: true }));
    const short = await startSynapse(t, home, { config: { refreshable_access_token_lifetime: '4s',
        refresh_token_lifetime: '1h' } });
    const people = await Promise.all(['ann', 'bob'].map((name) => short.person(name)));
    const user = await short.person('sol');
    const proxy = await startProxy(t, short.url);
    const bot = await startBot(t, user, proxy.url, { password: user.password });
    await bot.ready();
    const room = await group(bot, user, people);
    const asked = [];
    for (let i = 0; i < 5; i++) {
        asked.push(await people[0].mention(room, user.id, `question ${i}`));
        await bot.answers(room, people[0], i + 1);
        await sleep(2000);
    }
    await judge(bot, room, people[0], asked, asked);
    assert.ok(proxy.count(/^POST .*\/refresh/) >= 2);
    assert.equal(proxy.count(/^POST .*\/login/), 1);
});

test('what was sent long ago is looked for before it is sent again', { skip }, async (t) => {
    const user = await botUser();
    const proxy = await startProxy(t, synapse.url);
    let bot = await startBot(t, user, proxy.url,
        { env: { PALAVER_STOP_AT: 'outbox.after_put:1' } });
    await bot.ready();
    const room = await group(bot, user);
    const asked = await ann.mention(room, user.id, 'hello');
    await until('the bot dies', () => bot.child.signalCode === 'SIGKILL');
    await bot.answers(room, ann, 1);
    // The homeserver forgets transaction ids, as it does after a day.
    await synapse.stop();
    const { spawnSync } = await import('node:child_process');
    const forgot = spawnSync('sqlite3', [synapse.database, 'DELETE FROM event_txn_id_device_id']);
    assert.equal(forgot.status, 0, String(forgot.stderr));
    await synapse.start();
    bot = await startBot(t, user, proxy.url, { dir: bot.dir, model: bot.model });
    await bot.ready();
    const next = await ann.mention(room, user.id, 'next');
    await bot.answers(room, ann, 2);
    await judge(bot, room, ann, [asked, next], [asked, next]);
});
