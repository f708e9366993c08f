// server.mjs - the yardstick for the server: the same two routes as most programs have them, with
// node:http and SQLite, and nothing else.
//
//   node server.mjs serve FILE               listens on a free port, and prints it
//   node server.mjs fill FILE IDS EACH LEN   the sessions of the file IDS, a line each, with EACH
//                                            messages of LEN bytes
//
// Written with care: WAL, a sync before every answer, prepared statements, one transaction a
// request, messages that lie beside each other by session. A content is a text or a list of parts,
// so it is kept as JSON; times are numbers, and answered as texts.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import Database from 'better-sqlite3';

const [command, file, ...args] = process.argv.slice(2);
const db = new Database(file);
db.pragma('journal_mode = WAL');
db.pragma('synchronous = FULL');
db.exec(`
    CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, created_at INTEGER NOT NULL,
        last_seq INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS message (session TEXT NOT NULL, seq INTEGER NOT NULL,
        id TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT NULL,
        PRIMARY KEY (session, seq)) WITHOUT ROWID;`);
const indexMessages = () => db.exec(
    'CREATE UNIQUE INDEX IF NOT EXISTS message_id ON message (id)');

const findSession = db.prepare('SELECT last_seq FROM session WHERE id = ?');
const addSession = db.prepare('INSERT INTO session VALUES (?, ?, 0)');
const setLast = db.prepare('UPDATE session SET last_seq = ? WHERE id = ?');
const addMessage = db.prepare('INSERT INTO message VALUES (?, ?, ?, ?, ?, ?)');
const newest = db.prepare(`SELECT id, seq, role, content, created_at FROM message
    WHERE session = ? AND seq < ? ORDER BY seq DESC LIMIT ?`);

const append = db.transaction((session, messages) => {
    let seq = findSession.get(session)?.last_seq;
    if (seq === undefined) return undefined;
    const added = [];
    for (const { role, content } of messages) {
        const id = randomUUID();
        addMessage.run(session, ++seq, id, role, JSON.stringify(content), Date.now());
        added.push({ id, seq });
    }
    setLast.run(seq, session);
    return added;
});

// ---- Filling ----

function fill(ids, each, length) {
    const words = 'what the model said about a question of last week is kept in order ';
    const content = words.repeat(Math.ceil(length / words.length)).slice(0, length);
    const messages = Array.from({ length: each }, () => ({ role: 'user', content }));
    // In the order in which they will lie, and the index last: else this takes many minutes.
    const sessions = fs.readFileSync(ids, 'utf8').trim().split('\n').sort();
    db.pragma('synchronous = OFF');
    db.pragma('cache_size = -1000000');
    const some = db.transaction((list) => {
        for (const id of list) {
            addSession.run(id, Date.now());
            if (each) append(id, messages);
        }
    });
    for (let i = 0; i < sessions.length; i += 1000) some(sessions.slice(i, i + 1000));
    indexMessages();
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
}

// ---- Serving ----

function answer(response, code, value) {
    const body = JSON.stringify(value);
    response.writeHead(code, { 'content-type': 'application/json',
        'content-length': Buffer.byteLength(body) });
    response.end(body);
}

function readBody(request, then) {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => then(Buffer.concat(pieces).toString()));
}

function list(response, session, query) {
    if (!findSession.get(session)) return answer(response, 404, { error: 'no such session' });
    const limit = Math.min(Number(query.get('limit') ?? 50), 1000);
    const rows = newest.all(session, Number(query.get('before') ?? Number.MAX_SAFE_INTEGER),
        limit + 1);
    const hasMore = rows.length > limit;
    if (hasMore) rows.pop();
    for (const row of rows) {
        row.content = JSON.parse(row.content);
        row.created_at = new Date(row.created_at).toISOString();
    }
    return answer(response, 200, { messages: rows, has_more: hasMore });
}

function post(request, response, session) {
    readBody(request, (text) => {
        let body;
        try {
            body = JSON.parse(text);
        } catch (error) {
            return answer(response, 400, { error: error.message });
        }
        const messages = body.messages ?? [body];
        if (!messages.every(({ role, content }) => role && content))
            return answer(response, 400, { error: 'a message has a role and a content' });
        const added = append(session, messages);
        return added ? answer(response, 201, { messages: added })
            : answer(response, 404, { error: 'no such session' });
    });
}

function handle(request, response) {
    const [path, search] = request.url.split('?');
    const session = /^\/api\/v1\/sessions\/([^/]+)\/messages$/.exec(path)?.[1];
    if (!session) return answer(response, 404, { error: 'no such route' });
    if (request.method === 'GET') return list(response, session, new URLSearchParams(search));
    if (request.method === 'POST') return post(request, response, session);
    return answer(response, 405, { error: 'no such method' });
}

function serve() {
    indexMessages();
    const server = http.createServer(handle);
    server.keepAliveTimeout = 0;
    server.listen(0, '127.0.0.1', () => {
        console.log(`the baseline is listening on http://127.0.0.1:${server.address().port}`);
    });
    process.on('SIGTERM', () => process.exit(0));
}

if (command === 'fill') fill(args[0], Number(args[1]), Number(args[2]));
else serve();
