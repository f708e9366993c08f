// A real homeserver for tests: installs Synapse from PyPI once, starts it with SQLite, and makes
// people who use it as clients do.
import { spawn, spawnSync } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { logTail, reportOnFailure } from '../support/report.mjs';

const PATIENCE_MS = Number(process.env.MATRIX_PATIENCE_MS ?? 60_000);
const INSTALL_MS = 600_000;
const requirements = path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname),
    'requirements.txt');
const folder = process.env.SYNAPSE_DIR;
assert.ok(folder, 'SYNAPSE_DIR names the folder that Synapse is installed into');
const python = path.join(folder, 'bin', 'python');

// ---- Installing ----

function isInstalled() {
    const stamp = path.join(folder, 'installed.txt');
    return fs.existsSync(stamp) &&
        fs.readFileSync(stamp).equals(fs.readFileSync(requirements));
}

function run(command, args) {
    const done = spawnSync(command, args, { encoding: 'utf8', timeout: INSTALL_MS });
    return !done.error && done.status === 0;
}

// Installs Synapse unless it is there. Several tests can do so at the same time: the one that makes
// the lock installs, and the others wait. Returns the reason if it is not possible, otherwise false:
// the value of a test's `skip`.
export async function installSynapse() {
    const lock = `${folder}.lock`;
    const deadline = Date.now() + INSTALL_MS;

    fs.mkdirSync(path.dirname(folder), { recursive: true });
    while (!isInstalled()) {
        try {
            fs.mkdirSync(lock);
        } catch {
            if (Date.now() > deadline) return `another test does not finish; remove ${lock}`;
            await sleep(500);
            continue;
        }
        try {
            const isDone = run('python3', ['-m', 'venv', folder]) &&
                run(python, ['-m', 'pip', 'install', '--quiet', '--retries', '1', '--timeout', '30',
                    '-r', requirements]);
            if (!isDone) return 'pip could not install Synapse from PyPI';
            fs.copyFileSync(requirements, path.join(folder, 'installed.txt'));
        } finally {
            fs.rmdirSync(lock);
        }
    }
    return false;
}

// ---- Running ----

async function freePort() {
    const server = net.createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.on('listening', resolve));
    const { port } = server.address();
    await new Promise((resolve) => server.close(resolve));
    return port;
}

export async function until(what, check, ms = PATIENCE_MS) {
    const deadline = Date.now() + ms;
    for (;;) {
        const found = await check();
        if (found) return found;
        assert.ok(Date.now() < deadline, `waited too long: ${what}`);
        await sleep(50);
    }
}

const unlimited = { per_second: 100000, burst_count: 100000 };
const noLimits = {
    rc_message: unlimited, rc_registration: unlimited, rc_joins_per_room: unlimited,
    rc_login: { address: unlimited, account: unlimited, failed_attempts: unlimited },
    rc_joins: { local: unlimited, remote: unlimited },
    rc_invites: { per_room: unlimited, per_user: unlimited, per_issuer: unlimited },
    rc_media_create: unlimited, rc_room_creation: unlimited,
};

// Starts a homeserver with a new database. `config` adds to its configuration; with `limited` it has
// Synapse's own rate limits.
export async function startSynapse(t, dir, { config = {}, limited = false } = {}) {
    const home = path.join(dir, 'synapse');
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const file = (name) => path.join(home, name);
    let child, log = '';

    fs.mkdirSync(home);
    const seed = randomBytes(32).toString('base64').replace(/=+$/, '');
    fs.writeFileSync(file('key'), `ed25519 a_test ${seed}\n`);
    fs.writeFileSync(file('log.yaml'), JSON.stringify({ version: 1,
        handlers: { console: { class: 'logging.StreamHandler' } },
        root: { level: 'WARNING', handlers: ['console'] }, disable_existing_loggers: false }));
    // JSON is YAML.
    fs.writeFileSync(file('homeserver.yaml'), JSON.stringify({ server_name: 'test',
        pid_file: file('pid'), log_config: file('log.yaml'), media_store_path: file('media'),
        signing_key_path: file('key'), macaroon_secret_key: 'macaroon', form_secret: 'form',
        registration_shared_secret: 'secret', report_stats: false, enable_registration: false,
        trusted_key_servers: [], suppress_key_server_warning: true, presence: { enabled: false },
        url_preview_enabled: false,
        database: { name: 'sqlite3', args: { database: file('homeserver.db') } },
        listeners: [{ port, type: 'http', bind_addresses: ['127.0.0.1'],
            resources: [{ names: ['client'] }] }],
        ...(limited ? {} : noLimits), ...config }));

    const start = async () => {
        child = spawn(python, ['-m', 'synapse.app.homeserver', '-c', file('homeserver.yaml')],
            { cwd: home, stdio: ['ignore', 'pipe', 'pipe'] });
        for (const stream of [child.stdout, child.stderr])
            stream.setEncoding('utf8').on('data', (piece) => { log += piece; });
        await until('Synapse starts', async () => {
            assert.equal(child.exitCode, null, `Synapse has ended: ${log}`);
            return fetch(`${url}/_matrix/client/versions`).then((r) => r.ok, () => false);
        });
    };
    const stop = async (signal = 'SIGTERM') => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const ended = new Promise((resolve) => child.on('close', resolve));
        child.kill(signal);
        await ended;
    };
    t.after(() => stop('SIGKILL'));
    reportOnFailure(t, () => ['Synapse:', ...logTail(log)]);
    await start();
    return { url, port, start, stop, dir: home,
        person: (name) => makePerson(url, name),
        database: file('homeserver.db') };
}

// ---- People ----

async function request(url, method, target, body, token) {
    const answer = await fetch(url + target, { method,
        headers: { ...(token ? { authorization: `Bearer ${token}` } : {}),
            ...(body !== undefined && !(body instanceof Uint8Array)
                ? { 'content-type': 'application/json' } : {}) },
        body: body === undefined || body instanceof Uint8Array ? body : JSON.stringify(body) });
    const text = await answer.text();
    let json;
    try { json = JSON.parse(text); } catch { json = { text }; }
    if (!answer.ok)
        throw Object.assign(new Error(`${method} ${target}: ${answer.status} ${text}`),
            { code: answer.status, json });
    return json;
}

const e = encodeURIComponent;
let transactions = 0;

// Registers a user, and returns what a client can do in its name.
async function makePerson(url, name) {
    const { nonce } = await request(url, 'GET', '/_synapse/admin/v1/register');
    const mac = createHmac('sha1', 'secret').update(`${nonce}\0${name}\0pass-${name}\0notadmin`)
        .digest('hex');
    const made = await request(url, 'POST', '/_synapse/admin/v1/register',
        { nonce, username: name, password: `pass-${name}`, admin: false, mac });
    const call = (method, target, body) =>
        request(url, method, `/_matrix/client/v3${target}`, body, made.access_token);
    const send = async (room, type, content, txn = `t${++transactions}-${Date.now()}`) =>
        (await call('PUT', `/rooms/${e(room)}/send/${type}/${txn}`, content)).event_id;
    return {
        id: made.user_id, token: made.access_token, device: made.device_id,
        password: `pass-${name}`, call, send,
        login: () => request(url, 'POST', '/_matrix/client/v3/login', { type: 'm.login.password',
            identifier: { type: 'm.id.user', user: name }, password: `pass-${name}` }),
        createRoom: async (options = {}) => (await call('POST', '/createRoom', options)).room_id,
        // A direct chat as clients make it.
        directRoom: async (user, options = {}) => (await call('POST', '/createRoom',
            { is_direct: true, preset: 'trusted_private_chat', invite: [user], ...options })).room_id,
        invite: (room, user) => call('POST', `/rooms/${e(room)}/invite`, { user_id: user }),
        join: (room) => call('POST', `/join/${e(room)}`, {}),
        leave: (room) => call('POST', `/rooms/${e(room)}/leave`, {}),
        say: (room, body, more = {}) =>
            send(room, 'm.room.message', { msgtype: 'm.text', body, ...more }),
        mention: (room, user, body, more = {}) => send(room, 'm.room.message', { msgtype: 'm.text',
            body, 'm.mentions': { user_ids: [user] }, ...more }),
        reply: (room, event, body, more = {}) => send(room, 'm.room.message', { msgtype: 'm.text',
            body, 'm.mentions': {}, 'm.relates_to': { 'm.in_reply_to': { event_id: event } },
            ...more }),
        edit: (room, event, body) => send(room, 'm.room.message', { msgtype: 'm.text',
            body: `* ${body}`, 'm.new_content': { msgtype: 'm.text', body },
            'm.relates_to': { rel_type: 'm.replace', event_id: event } }),
        redact: async (room, event) => (await call('PUT',
            `/rooms/${e(room)}/redact/${e(event)}/t${++transactions}`, {})).event_id,
        state: (room, type, content, key = '') =>
            call('PUT', `/rooms/${e(room)}/state/${type}/${key}`, content),
        upload: async (bytes, type) => (await fetch(`${url}/_matrix/media/v3/upload`, {
            method: 'POST', body: bytes,
            headers: { authorization: `Bearer ${made.access_token}`, 'content-type': type } })
            .then((r) => r.json())).content_uri,
        members: async (room) =>
            Object.keys((await call('GET', `/rooms/${e(room)}/joined_members`)).joined),
        // All events of a room, oldest first.
        timeline: async (room) => {
            const events = [];
            let from = '';
            for (;;) {
                const page = await call('GET',
                    `/rooms/${e(room)}/messages?dir=b&limit=1000${from && `&from=${e(from)}`}`);
                events.push(...page.chunk);
                if (!page.end) break;
                from = page.end;
            }
            return events.reverse();
        },
    };
}

// The messages that a user sees in a room from somebody, without edits.
export function messagesOf(events, sender) {
    return events.filter((event) => event.type === 'm.room.message' && event.sender === sender &&
        event.content.body !== undefined &&
        event.content['m.relates_to']?.rel_type !== 'm.replace');
}
