// A bridge: posts signed events to the channel "webhook", and gets the answers.
import crypto from 'node:crypto';

export const secret = `whsec_${Buffer.from('a secret of 24 bytes....').toString('base64')}`;

export function sign(id, seconds, body, key = secret) {
    const hmac = crypto.createHmac('sha256', Buffer.from(key.slice(6), 'base64'));
    return `v1,${hmac.update(`${id}.${seconds}.${body}`).digest('base64')}`;
}

let requests = 0;

// The headers of a signed request.
export function signed(body, { id = `req-${requests++}`, at = Date.now(), key } = {}) {
    const seconds = Math.floor(at / 1000);
    return { 'webhook-id': id, 'webhook-timestamp': String(seconds),
        'webhook-signature': sign(id, seconds, body, key) };
}

const root = (account) => `/api/v1/channels/webhook/${account}`;

export class Bridge {
    constructor(server, account = 'default') {
        this.server = server;
        this.account = account;
        this.room = []; // what the people see: { id, text, ... }, each id once
    }

    post(path, body, options) {
        const text = JSON.stringify(body);
        return this.server.ask('POST', `${root(this.account)}/${path}`,
            { body: text, headers: signed(text, options) });
    }

    events(...events) { return this.post('events', { events }); }

    say(id, text, more = {}) {
        return this.events({ id, chat: 'room', sender: 'ann', text, ...more });
    }

    async pull(wait = 0) {
        const answer = await this.server.ask('GET', `${root(this.account)}/outbox?wait=${wait}`,
            { headers: signed('') });
        return answer.json?.messages ?? [];
    }

    // Shows messages in the room and confirms them, until `count` are there.
    async show(count) {
        const until = Date.now() + 60_000;
        while (this.room.length < count) {
            if (Date.now() > until) throw new Error(`${this.room.length} of ${count} messages`);
            for (const message of await this.pull(1)) await this.deliver(message);
        }
        return this.room;
    }

    async deliver(message) {
        if (!this.room.some(({ id }) => id === message.id)) this.room.push(message);
        await this.post(`outbox/${message.id}/ack`, { id: `$${message.id}` });
    }
}
