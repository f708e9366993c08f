// Clients of servers: they append messages and run turns until SIGTERM, and write down what they were
// told, in the form that history.mjs reads.
//
//   node http_client.mjs LOG NAME CLIENTS KEY PAUSE_MS URL... -- APPENDED... -- ASKED...
//
// A client sends each request to the next URL. If the outcome is not known, it sends the request again
// with the same client id. APPENDED are sessions to which messages are appended, ASKED sessions in which
// turns are run.
import fs from 'node:fs';
import http from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { monotonicMs, questionOf } from '../support/history/history.mjs';

const AGAIN_MS = 100;
const CONNECT_MS = 2000;
const SILENCE_MS = 90_000; // a server that is cut off sends nothing, not even an end
const [log, name, clients, key, pauseMs, ...rest] = process.argv.slice(2);
const [urls, appended, asked] = rest.join(' ').split(' -- ').map((words) => words.split(' '));
const fd = fs.openSync(log, 'a');
let isOver = false;
let turn = 0;
process.on('SIGTERM', () => { isOver = true; });

function send(url, body) {
    const text = JSON.stringify(body);
    return new Promise((resolve, reject) => {
        const request = http.request(url, { method: 'POST', agent: false, timeout: SILENCE_MS,
            headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json',
                'content-length': Buffer.byteLength(text) } }, (response) => {
            let all = '';
            response.setEncoding('utf8').on('data', (piece) => { all += piece; });
            response.on('error', reject);
            response.on('end', () => resolve({ code: response.statusCode, text: all }));
        });
        request.on('socket', (socket) => {
            const timer = setTimeout(() => request.destroy(new Error('no connection')), CONNECT_MS);
            socket.once('connect', () => clearTimeout(timer)).once('close', () => clearTimeout(timer));
        });
        request.on('timeout', () => request.destroy(new Error('no answer')));
        request.on('error', reject);
        request.end(text);
    });
}

async function sendOnce(url, body) {
    try {
        const answer = await send(url, body);
        return { ...answer, json: answer.code < 300 ? JSON.parse(answer.text) : undefined };
    } catch (error) {
        return { code: 0, text: error.message };
    }
}

// Sends one request until its outcome is known, and writes down the response. A request that was
// answered with 4xx is not repeated: that is a fault of the test or of the server.
async function work(session, caller, number, path, body, tell) {
    const from = monotonicMs();
    for (;;) {
        const tried = monotonicMs();
        const url = new URL(path, urls[turn++ % urls.length]);
        const answer = await sendOnce(url, body);
        const words = (began) => `${session} ${caller} ${number} ${began} ${monotonicMs()} ${url.hostname}`;
        if (answer.json && answer.json.state !== 'queued') {
            fs.writeSync(fd, `${tell(answer.json, words(from))}\n`);
            return;
        }
        const known = answer.code >= 400 && answer.code < 500 && answer.code !== 409;
        const why = `${answer.code} ${answer.text}`.replaceAll('\n', ' ').slice(0, 300);
        fs.writeSync(fd, `${known ? 'refused' : 'doubt'} ${words(tried)} ${why}\n`);
        if (known || isOver) return;
        await pause(AGAIN_MS);
    }
}

async function client(index) {
    const caller = `${name}-${index}`;
    for (let number = 1; !isOver; number++) {
        const id = `${caller}.${number}`;
        if (number % 2) {
            const session = appended[(number + index) % appended.length];
            await work(session, caller, number, `/api/v1/sessions/${session}/messages`,
                { role: 'user', content: id, client_id: id },
                ({ messages: [message] }, words) => `ack ${words} ${message.seq} ${message.id} 0`);
        } else {
            const session = asked[(number / 2 + index) % asked.length];
            await work(session, caller, number, `/api/v1/sessions/${session}/turns`,
                { message: questionOf(id), client_id: id, lane: 'queue' },
                (json, words) => `answer ${words} ${json.text}`);
        }
        await pause(Number(pauseMs));
    }
}

await Promise.all(Array.from({ length: Number(clients) }, (_, i) => client(i)));
