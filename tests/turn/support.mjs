// Shared by the tests of turns: a process that runs turns, and the rules for a valid log.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const program = process.env.TURN_DRIVE;
export const fakeServer = fileURLToPath(new URL('../tool/fake_mcp.py', import.meta.url));

export async function withDirectory(run) {
    const directory = await mkdtemp(join(tmpdir(), 'palaver-turn-'));
    try {
        await run(directory);
    } finally {
        await rm(directory, { recursive: true });
    }
}

// Runs turn_drive. Its responses come in the order of the requests; events come at any time.
export class Driver {
    #child;
    #answers = [];
    #waiting = new Set();
    lines = [];

    constructor(options) {
        this.#child = spawn(program, [], { stdio: ['pipe', 'pipe', 'inherit'] });
        this.exited = once(this.#child, 'exit');
        this.#child.stdin.on('error', () => {});
        createInterface({ input: this.#child.stdout }).on('line', (text) => this.#take(JSON.parse(text)));
        this.ready = this.ask({ retries_max: 1, ...options });
    }

    #take(line) {
        this.lines.push(line);
        if (!('event' in line)) this.#answers.shift()(line);
        for (const check of this.#waiting) check();
    }

    ask(request) {
        this.#child.stdin.write(`${JSON.stringify(request)}\n`);
        return new Promise((resolve) => { this.#answers.push(resolve); });
    }

    events(turn) {
        return this.lines.filter((line) => line.event && line.turn === turn);
    }

    // Resolves to the first matching event of the turn.
    told(turn, fits) {
        return new Promise((resolve) => {
            const check = () => {
                const found = this.events(turn).find(fits);
                if (!found) return;
                this.#waiting.delete(check);
                resolve(found);
            };
            this.#waiting.add(check);
            check();
        });
    }

    // Starts a turn and resolves to its last event.
    async turn(name, session, text, more = {}) {
        const started = await this.ask({ start: name, session, text, ...more });
        assert.equal(started.status, 'ok', started.reason);
        return this.told(name, ({ event }) => event === 'ended');
    }

    kinds(turn) {
        return this.events(turn).map(({ event }) => event).join(' ');
    }

    text(turn) {
        return this.events(turn).filter(({ event }) => event === 'text').map(({ text }) => text).join('');
    }

    async log(session) {
        return (await this.ask({ log: session })).messages;
    }

    kill() {
        this.#child.kill('SIGKILL');
        return this.exited;
    }

    // Resolves to the exit code, which is not 0 if a sanitizer found an error.
    async close() {
        this.#child.stdin.end();
        return (await this.exited)[0];
    }
}

const callsOf = ({ parts = [] }) => parts.filter(({ type }) => type === 'tool_call').map(({ call_id: id }) => id);
const resultsOf = ({ parts = [] }) => parts.filter(({ type }) => type === 'tool_result').map(({ call_id: id }) => id);

// Sequence numbers have no gap, every call is followed by its result, and all user messages are
// there.
export function checkLog(messages, said) {
    assert.deepEqual(messages.map(({ seq }) => seq), messages.map((_, index) => index + 1));
    assert.deepEqual(messages.filter(({ role }) => role === 'user').map(({ content }) => content), said);
    let open = [];
    for (const message of messages) {
        if (message.role === 'tool') {
            // Results of the caller are recorded when they arrive.
            for (const id of resultsOf(message)) {
                assert.ok(open.includes(id), `${id} is the result of an open call`);
                open = open.filter((each) => each !== id);
            }
        } else {
            assert.deepEqual(open, []);
            open = callsOf(message);
        }
    }
    assert.deepEqual(open, []);
}

// Every number occurs once, in order, and the end comes last.
export function checkEvents(events) {
    assert.deepEqual(events.map(({ number }) => number), events.map((_, index) => index + 1));
    assert.equal(events.findIndex(({ event }) => event === 'ended'), events.length - 1);
}
