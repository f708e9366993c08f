// Starts the built server, each test with a store of its own, and asks it.
import { spawn, spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

export const binary = process.env.PALAVER_BIN;
assert.ok(binary, 'PALAVER_BIN names the command to test');

function environment(extra) {
    // What the user has configured is nobody's business here.
    const ours = Object.entries(process.env)
        .filter(([name]) => !/^PALAVER_|_API_KEY$|^NOTIFY_SOCKET$/.test(name));
    return { ...Object.fromEntries(ours), TZ: 'UTC', XDG_CONFIG_HOME: '/nonexistent', ...extra };
}

const servers = new Map(); // what ends those of a directory

// A fresh directory that is removed with the test, once no server writes there any more.
export function workspace(t) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-server-'));
    servers.set(dir, []);
    t.after(async () => {
        for (const stop of servers.get(dir)) await stop('SIGKILL');
        fs.rmSync(dir, { recursive: true, force: true });
    });
    return dir;
}

// Runs a command in that directory; succeeds, or the test fails with what was printed.
export function palaver(dir, ...args) {
    const result = spawnSync(binary, args, { cwd: dir, env: environment({}), timeout: 60000 });
    assert.equal(result.status, 0, `palaver ${args.join(' ')}: ${result.stderr}`);
    return result.stdout.toString();
}

export function makeKey(dir, ...args) {
    return JSON.parse(palaver(dir, 'key', 'create', '--json', ...args));
}

// One request; `body` that is no text is sent as JSON.
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

// Starts a server; `config` is YAML, `limits` what the shell's ulimit is told first. It is stopped
// with the test.
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
    return {
        dir, port, child, stop,
        log: lines, // whole ones: what came last may be a part of one
        ask: (method, target, options) => ask(port, method, target, options),
        get: (target, options) => ask(port, 'GET', target, options),
        post: (target, body, options) => ask(port, 'POST', target, { body, ...options }),
        // Waits until the log has it.
        logged: async (pattern) => {
            for (;;) {
                const match = pattern.exec(lines());
                if (match) return match;
                await new Promise((resolve) => child.stderr.once('data', resolve));
            }
        },
    };
}

// Starts one that must not start; what it said.
export function serveFails(dir, ...args) {
    const result = spawnSync(binary, ['serve', '--provider', 'echo', ...args],
        { cwd: dir, env: environment({}), timeout: 60000 });
    return { code: result.status, out: result.stdout.toString(), err: result.stderr.toString() };
}

// The native envelope, in all its members.
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
