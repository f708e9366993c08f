// Compares the results that callers got for their writes with the contents of a store: a checker for
// histories of lists. All tests that kill servers use it.
//
// A history is a list of events, one per line. A caller works on one thing at a time. Its messages are
// named CALLER.NUMBER, by their client id or by their text. Times are milliseconds of the machine's
// monotonic clock: the caller began at FROM and learned the outcome at TO, from NODE.
//
//   ack SESSION CALLER NUMBER FROM TO NODE SEQ ID FENCE  appended; FENCE 0: without a lease
//   answer SESSION CALLER NUMBER FROM TO NODE TEXT       a turn was run, and this is its answer
//   doubt SESSION CALLER NUMBER FROM TO NODE ERROR       perhaps appended, once; may be sent again
//   refused SESSION CALLER NUMBER FROM TO NODE ERROR     not appended
//   take SESSION CALLER FENCE FROM TO                    took the lease
//   back NODE COUNT                                      how often the node noticed lost writes
//
// The state of a store is a map from session ids to { lastSeq, inbox, messages: [{ seq, id, clientId,
// role, text, isFailure }] }. `isFailure` marks the visible failure of a turn.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

const FAULTS_SHOWN = 10;
const LINES_SHOWN = 10;
const OUTPUT_MAX = 2 ** 30;
const RESUME_MS_MAX = 180_000;
const TAIL_BYTES = 256 * 1024;
const ROLES = ['', 'system', 'user', 'assistant', 'tool'];

export const monotonicMs = () => Number(process.hrtime.bigint() / 1_000_000n);

// A question says how it is to be answered, so that a scripted model can do it.
export const answerOf = (clientId) => `re ${clientId}`;
export const questionOf = (clientId) => `<<say ${answerOf(clientId)}>><<hang ms=30>>`;

const nameOf = (message) => message.clientId || (message.role === 'user' ? message.text : '');
// If a turn failed visibly and is sent again, its question is recorded again, as NAME#2.
const firstName = (name) => name.replace(/#\d+$/, '');

function parseWrite([session, caller, number, from, to, node, ...rest]) {
    return { session, caller, number: Number(number), name: `${caller}.${number}`,
        from: Number(from), to: Number(to), node, rest };
}

export class History {
    acks = [];
    answers = [];
    doubts = [];
    refusals = [];
    takes = [];
    backs = new Map(); // node: how often it noticed that the database went back

    // Adds the events of a text. An incomplete last line was never acknowledged.
    add(text) {
        for (const line of text.slice(0, text.lastIndexOf('\n') + 1).split('\n')) {
            const [kind, ...words] = line.split(' ');
            if (kind === 'back') {
                this.backs.set(words[0], (this.backs.get(words[0]) ?? 0) + Number(words[1]));
            } else if (kind === 'take') {
                const [session, caller, fence, from, to] = words;
                this.takes.push({ session, caller, fence: Number(fence), from: Number(from), to: Number(to) });
            } else if (kind === 'ack') {
                const write = parseWrite(words);
                const [seq, id, fence] = write.rest;
                this.acks.push({ ...write, seq: Number(seq), id, fence: Number(fence) });
            } else if (kind === 'answer') {
                const write = parseWrite(words);
                this.answers.push({ ...write, text: write.rest.join(' ') });
            } else if (kind === 'doubt' || kind === 'refused') {
                (kind === 'doubt' ? this.doubts : this.refusals).push(parseWrite(words));
            } else if (kind) {
                throw new Error(`not an event: ${line}`);
            }
        }
        return this;
    }
}

export function readHistory(...files) {
    const history = new History();
    for (const file of files) history.add(fs.readFileSync(file, 'utf8'));
    return history;
}

// Returns the end of a file that is being written.
function tail(file) {
    if (!fs.existsSync(file)) return '';
    const fd = fs.openSync(file, 'r');
    const { size } = fs.fstatSync(fd);
    const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES));
    fs.readSync(fd, buffer, 0, buffer.length, size - buffer.length);
    fs.closeSync(fd);
    return buffer.toString();
}

// Waits until each caller of the logs has begun a write after this call and got PAL_OK for it. A log
// is { file, callers }: how many callers write to it.
export async function untilAllWrote(logs, waitMs = RESUME_MS_MAX) {
    const from = monotonicMs();
    for (const { file, callers } of logs) {
        for (;;) {
            const lines = tail(file).split('\n').slice(0, -1).map((line) => line.split(' '));
            const wrote = new Set(lines.filter(([kind, , , , began]) => /^(ack|answer)$/.test(kind)
                && Number(began) >= from).map(([, , caller]) => caller));
            if (wrote.size === callers) break;
            if (monotonicMs() - from > waitMs)
                throw new Error(`only ${wrote.size} of ${callers} callers write again after ${waitMs / 1000} s: `
                    + lines.slice(-LINES_SHOWN).map((words) => words.join(' ')).join('\n'));
            await pause(50);
        }
    }
}

class Judgment {
    faults = [];
    lost = []; // acknowledged, and not there
    undetected = []; // lost, and not noticed
    counts = { acknowledged: 0, answered: 0, doubts: 0, refused: 0, leases: 0 };

    fault(text) { this.faults.push(text); }

    // What a test asserts to be empty. With `mayLose`, lost writes are allowed if they were noticed.
    wrong({ mayLose = false } = {}) {
        const lost = (mayLose ? this.undetected : this.lost).map((w) => `lost: ${w.name} in ${w.session}`);
        const all = [...this.faults, ...lost];
        return all.length > FAULTS_SHOWN
            ? [...all.slice(0, FAULTS_SHOWN), `and ${all.length - FAULTS_SHOWN} more`] : all;
    }

    summary() {
        const { acknowledged, answered, doubts, refused, leases } = this.counts;
        return `${acknowledged} acknowledged, ${answered} answered, ${doubts} in doubt, ${refused} refused, `
            + `${leases} leases, ${this.lost.length} lost, ${this.faults.length} faults`;
    }
}

// The rows themselves: positions without gaps, and nothing twice.
function judgeRows(judgment, state) {
    const ids = new Set();
    for (const [session, { lastSeq, messages, inbox }] of state) {
        const names = new Set();
        messages.forEach((m, i) => {
            if (m.seq !== i + 1) judgment.fault(`gap in ${session}: row ${i + 1} has seq ${m.seq}`);
            if (ids.has(m.id)) judgment.fault(`id ${m.id} is there twice`);
            if (nameOf(m) && names.has(nameOf(m))) judgment.fault(`${nameOf(m)} is twice in ${session}`);
            ids.add(m.id);
            names.add(nameOf(m));
        });
        if (lastSeq !== messages.length)
            judgment.fault(`head of ${session} says ${lastSeq}, and there are ${messages.length} rows`);
        if (inbox > 0) judgment.fault(`${inbox} items wait in the inbox of ${session}`);
    }
}

// Each write against its row. Returns the acknowledged writes that are there.
function judgeWrites(judgment, history, rows) {
    const kept = [];
    for (const ack of history.acks) {
        const row = rows.get(`${ack.session} ${ack.name}`);
        if (!row) {
            judgment.lost.push(ack);
        } else if (row.seq !== ack.seq || row.id !== ack.id) {
            judgment.fault(`${ack.name} was acknowledged as ${ack.id} at ${ack.seq}, and is ${row.id} at ${row.seq}`);
        } else {
            if (row.text !== ack.name) judgment.fault(`${ack.name} has another text: ${row.text}`);
            kept.push({ ...ack, row });
        }
    }
    for (const answer of history.answers) {
        const row = rows.get(`${answer.session} ${answer.name}`);
        if (answer.text !== answerOf(answer.name))
            judgment.fault(`${answer.name} was answered with ${answer.text}`);
        if (!row) judgment.lost.push(answer);
        else kept.push({ ...answer, row });
    }
    const told = new Set([...history.acks, ...history.answers, ...history.doubts]
        .map((w) => `${w.session} ${w.name}`));
    for (const refusal of history.refusals) {
        const place = `${refusal.session} ${refusal.name}`;
        if (rows.has(place) && !told.has(place)) judgment.fault(`${refusal.name} was refused, and is there`);
    }
    for (const [name, row] of rows)
        if (!told.has(name) && row.role === 'user') judgment.fault(`${name} was never acknowledged`);
    // A node can pass on the answer of another one. Then it is enough that any of them noticed.
    const anyBack = [...history.backs.values()].some((count) => count > 0);
    judgment.undetected = judgment.lost.filter((w) => !(w.text ? anyBack : history.backs.get(w.node)));
    return kept;
}

const groupBy = (list, key) => {
    const groups = new Map();
    for (const item of list) {
        const name = key(item);
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(item);
    }
    return groups;
};

// In a session, the order of the rows agrees with the order in which the callers worked: a message
// that was acknowledged before another one was sent is before it. So each caller's order is kept.
function judgeOrder(judgment, kept) {
    for (const [session, writes] of groupBy(kept, (w) => w.session)) {
        let latest;
        for (const write of writes.sort((a, b) => a.row.seq - b.row.seq)) {
            if (latest && write.to < latest.from)
                judgment.fault(`order in ${session}: ${write.name} ended before ${latest.name} began, and is after it`);
            if (!latest || write.from > latest.from) latest = write;
        }
    }
    for (const [name, writes] of groupBy(kept, (w) => `${w.session} ${w.caller}`)) {
        writes.sort((a, b) => a.number - b.number);
        for (let i = 1; i < writes.length; i++)
            if (writes[i].row.seq <= writes[i - 1].row.seq) judgment.fault(`order of the caller ${name} at ${writes[i].name}`);
    }
}

// The fence of a session grows with each owner, and no process writes with an older one.
function judgeFences(judgment, history, kept) {
    const owners = new Map();
    for (const [session, takes] of groupBy(history.takes, (take) => take.session)) {
        let latest;
        for (const take of takes.sort((a, b) => a.fence - b.fence)) {
            const name = `${session} ${take.fence}`;
            if (owners.has(name) && owners.get(name) !== take.caller)
                judgment.fault(`fence ${take.fence} of ${session} has two owners`);
            if (latest && take.to < latest.from)
                judgment.fault(`fence ${latest.fence} of ${session} was given after ${take.fence}`);
            owners.set(name, take.caller);
            if (!latest || take.from > latest.from) latest = take;
        }
    }
    for (const [session, writes] of groupBy(kept.filter((w) => w.fence > 0), (w) => w.session)) {
        let newest = 0;
        for (const write of writes.sort((a, b) => a.row.seq - b.row.seq)) {
            if (write.fence < newest)
                judgment.fault(`${write.name} in ${session} was written with fence ${write.fence} after ${newest}`);
            if (owners.get(`${session} ${write.fence}`) !== write.caller)
                judgment.fault(`${write.name} in ${session} was written with a fence that ${write.caller} did not take`);
            newest = Math.max(newest, write.fence);
        }
    }
}

// Every question in the store has one answer, which is after it. It is there again only if a turn failed.
function judgeAnswers(judgment, state) {
    for (const [session, { messages }] of state) {
        const ofAssistant = messages.filter((m) => m.role === 'assistant');
        const answers = groupBy(ofAssistant.filter((m) => !m.isFailure), (m) => m.text);
        const questions = groupBy(messages.filter((m) => m.clientId && m.text === questionOf(firstName(m.clientId))),
            (m) => firstName(m.clientId));
        let again = 0;
        for (const [name, tries] of questions) {
            const [answer, ...more] = answers.get(answerOf(name)) ?? [];
            if (!answer) judgment.fault(`${name} in ${session} has no answer`);
            else if (answer.seq < tries.at(-1).seq) judgment.fault(`${name} in ${session} was answered before`);
            if (more.length) judgment.fault(`${name} in ${session} has ${more.length + 1} answers`);
            answers.delete(answerOf(name));
            again += tries.length - 1;
        }
        const failures = ofAssistant.length - ofAssistant.filter((m) => !m.isFailure).length;
        if (again > failures) judgment.fault(`${again} questions in ${session} are there again, after ${failures} failures`);
        for (const text of answers.keys()) judgment.fault(`no request has the answer '${text}' in ${session}`);
    }
}

export function judge(history, state) {
    const judgment = new Judgment();
    const rows = new Map();
    for (const [session, { messages }] of state)
        for (const m of messages) if (nameOf(m)) rows.set(`${session} ${firstName(nameOf(m))}`, m);
    judgeRows(judgment, state);
    const kept = judgeWrites(judgment, history, rows);
    judgeOrder(judgment, kept);
    // A database that went back gives numbers a second time.
    if (judgment.lost.length === 0) judgeFences(judgment, history, kept);
    judgeAnswers(judgment, state);
    judgment.counts = { acknowledged: history.acks.length, answered: history.answers.length,
        doubts: history.doubts.length, refused: history.refusals.length, leases: history.takes.length };
    return judgment;
}

// ---- States ----

// Runs a statement on PostgreSQL, and returns its rows.
export function psql(url, statement) {
    const { status, stdout, stderr } = spawnSync('psql', ['-qAtX', '-F', '\t', url, '-c', statement],
        { maxBuffer: OUTPUT_MAX });
    if (status !== 0) throw new Error(`psql: ${stderr}`);
    return stdout.toString().split('\n').filter(Boolean).map((line) => line.split('\t'));
}

const textOf = ({ content, parts }) => content
    ?? (parts ?? []).filter(({ type }) => type === 'text').map(({ text }) => text).join('');

// Reads the sessions from the tables of a store in PostgreSQL, not through Palaver.
export function readPostgres(url, schema, sessions) {
    const state = new Map();
    const only = sessions ? `WHERE session IN (${sessions.map((id) => `'${id}'`).join(',')})` : '';
    const inbox = new Map(psql(url, `SELECT session, count(*) FROM ${schema}.inbox ${only} GROUP BY 1`));
    for (const [id, lastSeq] of psql(url, `SELECT session, last_seq FROM ${schema}.head ${only}`))
        state.set(id, { lastSeq: Number(lastSeq), inbox: Number(inbox.get(id) ?? 0), messages: [] });
    for (const [id, seq, message, clientId, role, isText, body] of psql(url, `
            SELECT session, seq, id, client_id, role, is_text, convert_from(body, 'UTF8')
            FROM ${schema}.message ${only} ORDER BY session, seq`)) {
        if (!state.has(id)) state.set(id, { lastSeq: 0, inbox: 0, messages: [] });
        const json = isText === 't' ? { content: body } : JSON.parse(body);
        state.get(id).messages.push({ seq: Number(seq), id: message, clientId, role: ROLES[Number(role)],
            text: textOf(json), isFailure: json.error !== undefined });
    }
    return state;
}

// Reads the sessions through a server, whatever its store is, but without their inboxes. `get` sends a
// request.
export async function readServer(get, sessions) {
    const state = new Map();
    for (const id of sessions) {
        const messages = [];
        for (let hasMore = true; hasMore;) {
            const { json } = await get(`/api/v1/sessions/${id}/messages?limit=1000&hidden=true&after=${messages.length}`);
            messages.push(...json.messages.map((m) => ({ seq: m.seq, id: m.id, clientId: m.client_id, role: m.role,
                text: textOf(m), isFailure: m.error !== undefined })));
            hasMore = json.has_more;
        }
        const session = (await get(`/api/v1/sessions/${id}`)).json;
        state.set(id, { lastSeq: session.last_seq ?? 0, inbox: 0, messages });
    }
    return state;
}
