// Shared by the tests of providers: a process that makes calls, and a server whose responses the
// tests define.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { after } from 'node:test';

const program = process.env.PROVIDER_CALL;

// If a test fails before it closes its caller, the process must not keep the tests from ending.
const callers = new Set();
after(() => { for (const caller of callers) caller.kill(); });

// Runs a provider in a separate process. ask() resolves to the outcome of one call.
export class Caller {
    constructor(kind, url, { key = '', headers = [], idleMs = 0 } = {}) {
        this.child = spawn(program, [kind, url, ...headers], {
            env: { ...process.env, PROVIDER_KEY: key, PROVIDER_IDLE_MS: String(idleMs) },
            stdio: ['pipe', 'pipe', 'inherit'],
        });
        this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
        callers.add(this);
    }

    async ask(request, lines = 1) {
        this.child.stdin.write(`${JSON.stringify(request)}\n`);
        const told = [];
        while (told.length < lines) told.push((await this.lines.next()).value);
        return lines === 1 ? told[0] : told;
    }

    say(text, more = {}) {
        return this.ask({ messages: [{ role: 'user', content: text }], ...more });
    }

    kill() {
        this.child.kill('SIGKILL');
    }

    // Resolves to the exit code, which is not 0 if a sanitizer found an error.
    async close() {
        this.child.stdin.end();
        if (this.child.exitCode === null) await once(this.child, 'exit');
        return this.child.exitCode;
    }
}

// Starts a server that calls `reply` with (request, response, body) for each request.
export async function serve(reply) {
    const requests = [];
    const server = createServer(async (request, response) => {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const text = Buffer.concat(chunks).toString();
        const body = text ? JSON.parse(text) : null;
        requests.push({ url: request.url, headers: request.headers, body });
        reply(request, response, body);
    });
    await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    return {
        requests,
        url: `http://127.0.0.1:${server.address().port}`,
        close() {
            server.closeAllConnections();
            return new Promise((resolve) => { server.close(resolve); });
        },
    };
}

export function sendEvents(response, events) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of events) {
        response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
}

export function sendJson(response, status, body, headers = {}) {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
}
