// A server whose model is the scripted one, and readers for its event streams.
import assert from 'node:assert/strict';
import http from 'node:http';
import { MockModel } from '../conformance/mock-model.mjs';
import { serve } from './support.mjs';

// Starts a server that uses a scripted model. Pass `model` to use the model of an earlier server.
export async function serveModel(t, { model, args = [], ...options } = {}) {
    if (!model) {
        const mock = new MockModel();
        const url = await mock.listen();
        t.after(() => mock.close());
        model = { url };
    }
    const server = await serve(t, { ...options,
        args: ['--provider', 'openai', '--provider-url', `${model.url}/v1`, '--model', 'mock-model',
            ...args] });
    const session = async (body = {}) => {
        const made = await server.post('/api/v1/sessions', body);
        assert.equal(made.code, 201, made.text);
        return made.json.session_id;
    };
    const control = async (method, target) =>
        (await fetch(model.url + target, { method })).json();
    return { ...server, model, session,
        turn: (id, body, options) => server.post(`/api/v1/sessions/${id}/turns`, body, options),
        // The requests that the model received, in order.
        asked: async () => (await control('GET', '/__requests')).requests.map((r) => r.body),
        release: () => control('POST', '/__release'),
        // Waits until the model has received `count` requests, or one with a text.
        untilAsked: async (count) => {
            while ((await control('GET', '/__requests')).requests.length < count)
                await new Promise((resolve) => setTimeout(resolve, 5));
        },
        untilAskedFor: async (text) => {
            while ((await control('GET', `/__requests?contains=${encodeURIComponent(text)}`))
                .requests.length === 0)
                await new Promise((resolve) => setTimeout(resolve, 5));
        },
        // Waits until `count` turns wait in the inbox, where they are durable.
        untilQueued: async (count) => {
            const queued = /^palaver_turns_queued (\d+)$/m;
            while (Number(queued.exec((await server.get('/metrics')).text)[1]) < count)
                await new Promise((resolve) => setTimeout(resolve, 5));
        },
    };
}

// Moves complete frames of Server-Sent Events from `text` to `events`. Returns the rest of the text.
function takeFrames(text, events) {
    for (;;) {
        const end = text.indexOf('\n\n');
        if (end < 0) return text;
        const frame = { comment: false };
        for (const line of text.slice(0, end).split('\n')) {
            const at = line.indexOf(': ');
            if (at <= 0) frame.comment = true;
            else frame[line.slice(0, at)] = line.slice(at + 2);
        }
        if (frame.data !== undefined) events.push({ id: Number(frame.id), event: frame.event,
            data: JSON.parse(frame.data) });
        text = text.slice(end + 2);
    }
}

// Opens a stream. `next(test)` waits for an event, `end()` for the end, and `leave()` closes it.
export function open(port, method, target, { headers = {}, body } = {}) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const all = { ...headers };
    if (text !== undefined) all['content-length'] = Buffer.byteLength(text);
    return new Promise((resolve, reject) => {
        const request = http.request({ host: '127.0.0.1', port, method, path: target, headers: all,
            agent: false }, (response) => {
            const events = [];
            let rest = '';
            let wake = () => {};
            let isOver = false;
            const over = () => { isOver = true; wake(); };
            response.setEncoding('utf8');
            response.on('data', (piece) => { rest = takeFrames(rest + piece, events); wake(); });
            response.on('end', over);
            response.on('error', over);
            response.on('close', over);
            const changed = () => new Promise((done) => { wake = done; });
            resolve({ code: response.statusCode, headers: response.headers, events,
                rest: () => rest,
                next: async (test) => {
                    for (;;) {
                        const found = events.find(test);
                        if (found) return found;
                        assert.ok(!isOver, `the stream ended: ${JSON.stringify(events)} ${rest}`);
                        await changed();
                    }
                },
                end: async () => {
                    while (!isOver) await changed();
                    return events;
                },
                leave: () => request.destroy() });
        });
        request.on('error', reject);
        request.end(text);
    });
}

export const isA = (kind) => ({ event }) => event === kind;
export const textOf = (events) => events.filter(isA('text')).map(({ data }) => data.text).join('');
