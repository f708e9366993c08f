// Telegram's Bot API, as its documentation describes it: updates are kept until a later offset
// confirms them, and each sendMessage makes a message, also if it is a repetition.
import http from 'node:http';

const TYPES = ['mention', 'bold', 'italic', 'underline', 'strikethrough', 'spoiler', 'blockquote',
    'code', 'pre', 'text_link'];

export class FakeTelegram {
    token = '123456:test-token_of-the-bot';
    me = { id: 123456, is_bot: true, first_name: 'Sol', username: 'sol_bot' };
    updates = [];
    sent = []; // messages of the bot
    actions = 0;
    polls = 0;
    failures = []; // answers to the next calls of sendMessage, in order
    #waiting = [];
    #nextUpdate = 1000;
    #nextMessage = 1;
    #chats = new Map();

    async listen() {
        this.server = http.createServer((request, response) => this.#serve(request, response));
        await new Promise((resolve) => { this.server.listen(0, '127.0.0.1', resolve); });
        this.url = `http://127.0.0.1:${this.server.address().port}`;
        return this;
    }

    close() {
        this.server.closeAllConnections();
        this.server.close();
    }

    chat(id, type = id > 0 ? 'private' : 'supergroup') {
        if (!this.#chats.has(id)) this.#chats.set(id, { id, type, title: type === 'private'
            ? undefined : `Group ${id}` });
        return this.#chats.get(id);
    }

    push(update) {
        const { allowed } = this;
        const kind = Object.keys(update)[0];
        if (allowed && !allowed.includes(kind)) return;
        this.updates.push({ update_id: this.#nextUpdate++, ...update });
        this.#waiting.splice(0).forEach((tell) => tell());
    }

    // A person writes. `more` are members of the message.
    say(chat, from, text, more = {}) {
        const message = { message_id: this.#nextMessage++, date: Math.floor(Date.now() / 1000),
            chat: this.chat(chat), from: { id: from, is_bot: false, first_name: `P${from}` }, text,
            ...more };
        this.push({ message });
        return message;
    }

    async #serve(request, response) {
        let text = '';
        for await (const piece of request) text += piece;
        const [, token, method] = /^\/bot([^/]+)\/(\w+)$/.exec(request.url) ?? [];
        const answer = (code, json) => {
            response.writeHead(code, { 'content-type': 'application/json' });
            response.end(JSON.stringify(json));
        };
        const refuse = (code, description, parameters) =>
            answer(code, { ok: false, error_code: code, description, parameters });
        if (token !== this.token) { refuse(401, 'Unauthorized'); return; }
        const body = text ? JSON.parse(text) : {};
        if (method === 'getMe') answer(200, { ok: true, result: this.me });
        else if (method === 'getUpdates') await this.#poll(body, answer, refuse, request);
        else if (method === 'sendMessage') this.#send(body, answer, refuse, response);
        else if (method === 'sendChatAction') {
            this.actions++;
            answer(200, { ok: true, result: true });
        } else refuse(404, 'Not Found: method not found');
    }

    async #poll({ offset = 0, limit = 100, timeout = 0, allowed_updates: allowed }, answer, refuse,
        request) {
        if (this.polling) { refuse(409, 'Conflict: terminated by other getUpdates request'); return; }
        this.polling = true;
        this.polls++;
        this.allowed = allowed;
        request.socket.once('close', () => { this.polling = false; });
        this.updates = this.updates.filter(({ update_id: id }) => id >= offset);
        if (this.updates.length === 0 && timeout > 0)
            await new Promise((resolve) => {
                this.#waiting.push(resolve);
                setTimeout(resolve, timeout * 1000).unref();
            });
        this.polling = false;
        answer(200, { ok: true, result: this.updates.slice(0, limit) });
    }

    #send(body, answer, refuse, response) {
        const failure = this.failures.shift();
        if (failure && !failure.after) { refuse(failure.code, failure.text, failure.parameters); return; }
        const { chat_id: id, text, entities = [] } = body;
        const wrong = this.#check(id, text, entities);
        if (wrong) { refuse(400, `Bad Request: ${wrong}`); return; }
        const message = { message_id: this.#nextMessage++, date: Math.floor(Date.now() / 1000),
            chat: this.chat(id), from: this.me, text, entities, body };
        this.sent.push(message);
        if (failure) response.destroy(); // it has arrived, but the response is lost
        else answer(200, { ok: true, result: { ...message, body: undefined } });
    }

    #check(id, text, entities) {
        if (!this.#chats.has(id)) return 'chat not found';
        if (typeof text !== 'string' || text.trim() === '') return 'message text is empty';
        if (text.length > 4096) return 'message is too long';
        for (const { type, offset, length, url } of entities) {
            if (!TYPES.includes(type)) return `unknown entity ${type}`;
            if (!(offset >= 0 && length > 0 && offset + length <= text.length))
                return 'entity outside of the text';
            if (type === 'text_link' && !/^https?:|^mailto:|^magnet:/.test(url)) return 'wrong URL';
            const isLow = (at) => text.charCodeAt(at) >= 0xdc00 && text.charCodeAt(at) <= 0xdfff;
            if (isLow(offset) || isLow(offset + length)) return 'entity divides a character';
        }
        return undefined;
    }
}
