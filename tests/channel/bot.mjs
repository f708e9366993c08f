// Palaver as a bot on a homeserver, with a scripted model; and the judge of all scenarios, which
// reads the rooms as a user does.
import assert from 'node:assert/strict';
import { serveModel } from '../server/model.mjs';
import { messagesOf, until } from './synapse.mjs';

export const MARKER = 'pt.palaver.out';

// Starts a bot for a user of the homeserver. Pass `dir` and `model` of an earlier one to restart it.
export async function startBot(t, user, url, { dir, model, more = '', env = {}, password } = {}) {
    const config = `
turn: {lease: 2s}
channels:
  - kind: matrix
    url: ${url}
    user: "${user.id}"
    ${password ? 'password_env' : 'token_env'}: BOT_SECRET
    names: [sol]
    owners: ["@owner:test"]
    users: ["@ann:test", "@bob:test", "@carl:test"]
${more}`;
    const bot = await serveModel(t, { dir, model, config,
        env: { BOT_SECRET: password ?? user.token, ...env } });
    const sessions = async () => (await bot.get('/api/v1/sessions?limit=1000')).json.sessions;
    const stored = async (room) => {
        const all = [];
        for (const session of await sessions()) {
            if (!JSON.stringify(session.scope).includes(room)) continue;
            let after = '';
            for (;;) {
                const page = (await bot.get(`/api/v1/sessions/${session.session_id}/messages` +
                    `?limit=1000${after}`)).json;
                all.push(...page.messages.map((message) => ({ ...message, session: session.session_id })));
                if (!page.has_more) break;
                after = `&after=${page.messages.at(-1).seq}`;
            }
        }
        return all;
    };
    return { ...bot, user, stored,
        ready: () => bot.logged(/matrix:default: ready/),
        joined: (room, person) => until(`the bot joins ${room}`,
            async () => (await person.members(room)).includes(user.id)),
        // Waits until the room has `count` messages of the bot, and returns them.
        answers: (room, person, count) => until(`${count} answers in ${room}`, async () => {
            const found = messagesOf(await person.timeline(room), user.id);
            return found.length >= count && found;
        }),
        requests: async () => (await bot.asked()).map((body) => body.messages),
    };
}

// Every event of `asked` has exactly one answer with a marker, no two events have the same marker,
// and every event of `said` is stored once, in the order of the room.
export async function judge(bot, room, person, asked, said) {
    const events = await person.timeline(room);
    const answers = messagesOf(events, bot.user.id);
    const markers = answers.map((event) => event.content[MARKER]);
    assert.ok(markers.every(Boolean), 'every message of the bot has its marker');
    assert.equal(new Set(markers).size, markers.length, 'no message was sent twice');
    for (const event of asked) {
        const replies = answers.filter((answer) =>
            answer.content['m.relates_to']?.['m.in_reply_to']?.event_id === event);
        assert.equal(replies.length, 1, `${event} has ${replies.length} answers`);
    }
    const stored = (await bot.stored(room)).filter(({ role }) => role === 'user')
        .map((message) => message.channel?.event);
    assert.deepEqual(stored.filter((event) => said.includes(event)), said);
}
