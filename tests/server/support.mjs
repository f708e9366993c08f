// Starts the built server and sends requests to it. Each test has a separate store. If a test fails,
// its last requests with their responses and the end of the server's log are printed.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { logTail, reportOnFailure, Steps } from '../support/report.mjs';

export const binary = process.env.PALAVER_BIN;
assert.ok(binary, 'PALAVER_BIN names the command to test');
const LOG_WAIT_MS = 60_000;

export function environment(extra) {
    // The configuration of the user who runs the tests must not matter.
    const ours = Object.entries(process.env)
        .filter(([name]) => !/^PALAVER_|_API_KEY$|^NOTIFY_SOCKET$/.test(name));
    return { ...Object.fromEntries(ours), TZ: 'UTC', XDG_CONFIG_HOME: '/nonexistent',
        XDG_DATA_HOME: '/dev/null', ...extra };
}

const servers = new Map(); // directory: functions that stop its servers

// Creates a directory. After the test it stops the servers that use the directory, and removes it.
export function workspace(t) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-server-'));
    fs.mkdirSync(path.join(dir, 'palaver-data')); // otherwise the user's conversations would be used
    servers.set(dir, []);
    t.after(async () => {
        for (const stop of servers.get(dir)) await stop('SIGKILL');
        fs.rmSync(dir, { recursive: true, force: true });
    });
    return dir;
}

// Runs a command in the directory and returns its output. If the command fails, the test fails.
export function palaver(dir, ...args) {
    const result = spawnSync(binary, args, { cwd: dir, env: environment({}), timeout: 60000 });
    assert.equal(result.status, 0, `palaver ${args.join(' ')}: ${result.stderr}`);
    return result.stdout.toString();
}

export function makeKey(dir, ...args) {
    return JSON.parse(palaver(dir, 'key', 'create', '--json', ...args));
}

// Sends one request. A `body` that is not a string is sent as JSON.
export function ask(port, method, target, { headers = {}, body, key, agent } = {}) {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const all = { ...headers };
    if (key) all.authorization = `Bearer ${key}`;
    if (text !== undefined) {
        all['content-length'] = Buffer.byteLength(text);
        if (!('content-type' in all)) all['content-type'] = 'application/json';
    }
    return new Promise((resolve, reject) => {
        const request = http.request(
            { host: '127.0.0.1', port, method, path: target, headers: all, agent: agent ?? false },
            (response) => {
                const pieces = [];
                response.on('data', (piece) => pieces.push(piece));
                response.on('error', reject);
                response.on('end', () => {
                    const raw = Buffer.concat(pieces).toString();
                    const isJson = /^application\/json/.test(response.headers['content-type'] ?? '');
                    resolve({ code: response.statusCode, headers: response.headers, text: raw,
                        json: isJson && raw ? JSON.parse(raw) : undefined });
                });
            });
        request.on('error', reject);
        request.end(text);
    });
}

// Starts a server, which is stopped after the test. `config` is YAML; `limits` are arguments of the
// shell's ulimit.
export async function serve(t,
    { dir = workspace(t), config, args = [], env = {}, limits } = {}) {
    if (config) fs.writeFileSync(path.join(dir, 'palaver.yaml'), config);
    const words = ['serve', '--provider', 'echo', '--listen', '127.0.0.1:0', ...args];
    const [command, ...rest] = limits
        ? ['/bin/sh', '-c', `ulimit ${limits} && exec "$0" "$@"`, binary, ...words]
        : [binary, ...words];
    const child = spawn(command, rest,
        { cwd: dir, env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] });
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (piece) => { log += piece; });
    const lines = () => log.slice(0, log.lastIndexOf('\n') + 1);
    const ended = new Promise((resolve) => {
        child.on('close', (code, signal) => resolve({ code, signal, log }));
    });
    const line = await new Promise((resolve) => {
        let out = '';
        child.stdout.on('data', (piece) => {
            out += piece;
            if (out.includes('\n')) resolve(out);
        });
        child.stdout.on('end', () => resolve(out));
    });
    const port = Number(/^palaver \S+ is listening on https?:\/\/[^\s]+:(\d+)\n$/.exec(line)?.[1]);
    if (!port) {
        const end = await ended;
        assert.fail(`the server did not start (${end.code}): ${line}${log}`);
    }
    const stop = async (signal = 'SIGTERM') => {
        child.kill(signal);
        return ended;
    };
    servers.get(dir).push(stop);
    const steps = new Steps();
    reportOnFailure(t, () => [`server on port ${port}:`, ...steps.lines(), ...logTail(log)]);
    const send = async (method, target, options) => {
        try {
            const answer = await ask(port, method, target, options);
            steps.add(`${method} ${target}: ${answer.code}`, answer.text);
            return answer;
        } catch (error) {
            steps.add(`${method} ${target}: ${error.message}`, '');
            throw error;
        }
    };
    return {
        dir, port, child, stop,
        log: lines, // without an incomplete last line
        ask: send,
        get: (target, options) => send('GET', target, options),
        post: (target, body, options) => send('POST', target, { body, ...options }),
        // Waits until the log matches. Fails after a minute, so that the log is printed.
        logged: async (pattern) => {
            const until = Date.now() + LOG_WAIT_MS;
            for (;;) {
                const match = pattern.exec(lines());
                if (match) return match;
                assert.ok(Date.now() < until, `the log does not match ${pattern}`);
                await Promise.race([sleep(100), once(child.stderr, 'data')]);
            }
        },
    };
}

// Runs a server that must fail to start, and returns its output.
export function serveFails(dir, ...args) {
    const result = spawnSync(binary, ['serve', '--provider', 'echo', ...args],
        { cwd: dir, env: environment({}), timeout: 60000 });
    return { code: result.status, out: result.stdout.toString(), err: result.stderr.toString() };
}

// Checks the native error envelope with all its members.
export function assertError(answer, code, name, pattern) {
    assert.equal(answer.code, code, answer.text);
    assert.deepEqual(Object.keys(answer.json),
        ['error', 'detail', 'code', 'param', 'request_id']);
    assert.equal(answer.json.error, answer.json.detail);
    assert.equal(answer.json.code, name);
    assert.equal(answer.json.request_id, answer.headers['x-request-id']);
    assert.match(answer.headers['content-type'], /^application\/json/);
    assert.ok(answer.text.endsWith('}\n'));
    if (pattern) assert.match(answer.json.error, pattern);
}
