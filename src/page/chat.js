// chat.js - one conversation: its messages, the answer that is being written, what the turn asks,
// and the composer.
import { count, effect, h, onEnd, plural, signal } from './core.js';
import { get, patch, path, post, remove } from './api.js';
import { attempt, iconButton, say, visible } from './parts.js';
import { SeqList } from './list.js';
import { on, watch } from './live.js';
import { actionBar, copyMessage, goneRow, LiveRow, markRow, messageRow, partsOf, READING }
    from './message.js';
import { composer } from './composer.js';
import { docks } from './docks.js';
import { inspector } from './inspector/inspector.js';
import { openMenu } from './sidebar.js';
import { canWrite, go, heading, loadSession, loadTurns, me, place, sessionHash, setTurn, textOf,
    titleFrom, titleOf, turnsOf } from './store.js';

const PLAN_MS = 1000; // between two requests for the plan
const LOOK_BACK = 50; // messages in which the question of an answer is looked for
const OLD_TURN_MS = 60000;
const ENDED = ['done', 'failed', 'canceled'];
const MARKS_PAGE = 1000;

const readNote = () => h('p', { class: 'reads dim' }, 'This key can only read.');

// ---- Sending ----

function turnBody({ text, files, clientId, lane, model }) {
    const body = { background: true, client_id: clientId, lane };

    if (files.length)
        body.messages = [{ role: 'user',
            parts: [...(text.trim() ? [{ type: 'text', text }] : []), ...files] }];
    else
        body.message = text;
    if (model)
        Object.assign(body, { model: model.model, provider: model.endpoint });
    return body;
}

async function sendTurn(id, message) {
    const turn = await post(`${path('sessions', id)}/turns`, turnBody(message));

    setTurn(turn);
    return turn;
}

// ---- A new conversation ----

let isWriting = false; // the composer of the next conversation gets the focus

// Opens a session in which a person has just said something.
function continueIn(id) {
    isWriting = document.activeElement?.id === 'say';
    go(sessionHash(id));
}

export function newChat() {
    const send = async (message) => {
        // A second try finds the session of the first one.
        const session = await post('sessions', { title: titleFrom(message.text) || 'Attachment' },
            { headers: { 'idempotency-key': message.clientId } });

        await sendTurn(session.id, message);
        continueIn(session.id);
    };
    const hint = () => (me.value?.model?.is_stopgap
        ? 'No model was found, so your message is repeated. Set OPENAI_API_KEY, ANTHROPIC_API_KEY '
            + 'or MISTRAL_API_KEY, or start Ollama, then start the server again.'
        : 'Nothing is stored until you send a message.');
    const form = composer({ draft: '', isBusy: signal(false), send, stop: () => {} });

    requestAnimationFrame(() => form.querySelector('textarea').focus());
    return h('main', { class: 'chat start', id: 'main' },
        h('header', { class: 'top' }, openMenu(), h('span', { class: 'grow' })),
        h('div', { class: 'hello' }, h('h1', null, 'What shall we talk about?'),
            h('p', { class: 'dim writes' }, hint), readNote()), form);
}

// ---- The plan, for the margin, the gauge and the window ----

function itemsBySeq(plan) {
    const items = new Map();
    const ranges = [];

    for (const item of plan?.items ?? []) {
        if (item.kind === 'range')
            ranges.push(item);
        else if (item.seq)
            items.set(item.seq, item);
    }
    return (seq) => items.get(seq) ??
        ranges.find((range) => seq >= range.first_seq && seq <= range.seq) ?? null;
}

// Reads the plan at most once in a while, and again if it was wanted meanwhile.
function planReader(name, plan, problem) {
    let timer = 0;
    let isWanted = false;

    async function read() {
        isWanted = false;
        timer = setTimeout(() => {
            timer = 0;
            if (isWanted)
                read();
        }, PLAN_MS);
        try {
            plan.value = await get(`${path('sessions', name)}/context`);
            problem.value = '';
        } catch (error) {
            problem.value = error.message;
        }
    }
    onEnd(() => clearTimeout(timer));
    return () => {
        isWanted = true;
        if (!timer)
            read();
    };
}

// ---- A conversation ----

class Conversation {
    constructor(name, panel, query) {
        this.name = name;
        this.base = path('sessions', name);
        this.panel = panel;
        this.query = query; // of the address
        this.ends = []; // what to end with the view
        this.readers = new Set(); // of the events of the turn
        this.session = signal(null);
        this.problem = signal('');
        this.plan = signal(null);
        this.planProblem = signal('');
        this.marks = signal(-1); // grows with every change of the marks; -1: not open yet
        this.markList = signal([]); // without bodies, the oldest first
        this.turn = signal(null); // the turn that the live row shows
        this.endedTurn = ''; // the newest turn whose end was shown
        this.status = signal('');
        this.readPlan = planReader(name, this.plan, this.planProblem);
        // A feed must have articles.
        const isEmpty = () => !this.session.value?.last_seq && !this.turn.value;
        this.feed = h('div', { class: 'feed', 'aria-label': 'Conversation', tabIndex: 0,
            role: () => (isEmpty() ? 'region' : 'feed') });
        this.tail = h('div', { class: 'tail' });
        this.itemOf = () => null;
        this.act = (action, message, event) => this.doAction(action, message, event);
        this.list = new SeqList(this.feed, {
            load: (first, last, abort) => this.load(first, last, abort),
            row: (message) => this.row(message),
        });
        this.feed.append(this.tail);
        actionBar(this.feed, this.act, (seq) => this.itemOf(seq)?.pinned);
        onEnd(() => this.list.stop());
        effect(() => {
            this.itemOf = itemsBySeq(this.plan.value);
            this.list.each((row, seq) => markRow(row, this.itemOf(seq), this.act));
        });
        effect(() => {
            if (this.marks.value >= 0)
                this.marksRead = this.readMarks();
        });
    }

    async load(first, last, abort) {
        const query = `after=${first - 1}&limit=${last - first + 1}&hidden=true`;

        return (await get(`${this.base}/messages?${query}`, abort)).messages;
    }

    row(message) {
        const row = messageRow(message, { act: this.act,
            total: () => this.session.peek()?.last_seq ?? 0 });

        markRow(row, this.itemOf(message.seq), this.act);
        goneRow(row, this.markList.peek());
        return row;
    }

    async readMarks() {
        const list = [];
        let page;

        try {
            do {
                page = await get(`${this.base}/marks?bodies=false&limit=${MARKS_PAGE}`
                    + `&after=${list.length}`);
                list.push(...page.marks);
            } while (page.has_more);
        } catch {
            return; // the marks are read again with the next change
        }
        this.markList.value = list;
        this.list.each((row) => goneRow(row, list));
    }

    get id() {
        return this.session.peek()?.id;
    }

    // ---- What the server reports ----

    // Returns false if there is no such session.
    async open(seq) {
        this.listen();
        const session = await loadSession(this.name);

        if (!session)
            return false;
        this.session.value = session;
        this.marks.value = 0;
        const isShown = this.list.setLast(session.last_seq ?? 0);
        this.readPlan();
        this.ends.push(effect(() => this.followTurn()));
        await isShown;
        if (this.isStale)
            await this.readMore();
        if (seq)
            await this.list.toSeq(seq);
        else
            this.list.toEnd();
        return true;
    }

    listen() {
        const mine = (fn) => (data) => {
            if (data.session_id === this.id)
                fn(data);
            else if (!this.id)
                this.isStale = true; // the event may be newer than the session that is read now
        };

        this.ends.push(
            on('session', mine((data) => this.changed(data))),
            on('mark', mine(() => this.marked())),
            on('turn', mine((turn) => this.turnReported(turn))),
            on('ready', () => this.readMore()),
            on('lost', () => this.readAgain()),
            () => this.stopWatching?.());
    }

    changed({ what, last_seq: last }) {
        if (what === 'messages') {
            this.session.value = { ...this.session.peek(), last_seq: last };
            this.list.setLast(Math.max(last, this.list.last));
            this.readPlan();
        } else if (what === 'deleted' || what === 'erased') {
            this.problem.value = 'This session was deleted.';
        } else {
            this.problem.value = '';
            this.readSession();
        }
    }

    async readSession() {
        const session = await loadSession(this.id).catch(() => null);

        if (session)
            this.session.value = session;
        return session;
    }

    // Reads what was added since the session was read.
    async readMore() {
        const session = this.id ? await this.readSession() : null;

        if (session)
            await this.list.setLast(session.last_seq ?? 0);
    }

    marked() {
        this.list.refresh();
        this.marks.value++;
        this.readPlan();
    }

    async readAgain() {
        const session = await this.readSession();

        if (!session)
            return;
        this.list.setLast(session.last_seq ?? 0);
        this.marked();
        this.stopWatching?.();
        this.turn.value = null;
        this.clearLive();
        await loadTurns();
    }

    // ---- The turn ----

    followTurn() {
        const turn = turnsOf(this.id).find((one) => one.state !== 'queued');

        if (turn && turn.turn_id !== this.turn.peek()?.turn_id)
            queueMicrotask(() => this.watchTurn(turn));
        else if (turn)
            this.turn.value = turn;
        if (turn)
            queueMicrotask(() => this.live?.wait(turn.state));
    }

    // A short turn can end before the request that began it has its response.
    turnReported(turn) {
        if (!this.turn.peek())
            this.turnEnded(turn);
    }

    async watchTurn(turn) {
        if (turn.turn_id === this.endedTurn)
            return;
        this.stopWatching?.();
        this.turn.value = turn;
        this.live = new LiveRow(() => this.list.follow());
        this.tail.replaceChildren(this.live.element);
        this.list.follow();
        this.status.value = 'The model is answering.';
        // The answer so far includes events that are newer than `turn`, so its state counts.
        const now = await get(`turns/${turn.turn_id}?so_far=true`).catch(() => turn);
        if (this.turn.peek()?.turn_id !== turn.turn_id)
            return;
        if (now.so_far)
            this.live.begin(now.so_far);
        if (now.state === 'retrying')
            this.live.take('retrying', { ...now, at: now.retry_at });
        this.stopWatching = watch(turn.turn_id, now.so_far?.number ?? 0,
            (kind, data) => this.takeEvent(kind, data));
        // It may have ended before it was watched.
        const state = await get(`turns/${turn.turn_id}`).catch(() => null);
        if (state)
            this.turnEnded(state);
    }

    // Calls `fn` with the kind of every event of the turn that is followed. Returns what ends that.
    onEvent(fn) {
        this.readers.add(fn);
        return () => this.readers.delete(fn);
    }

    takeEvent(kind, data) {
        for (const fn of this.readers)
            fn(kind);
        if (kind === 'message')
            this.recorded(data.seq);
        else if (kind === 'ended')
            this.turnEnded(data);
        else
            this.live?.take(kind, data);
    }

    // The answer is stored: its row takes the place of the live one.
    async recorded(seq) {
        const row = this.live;

        this.live = new LiveRow(() => this.list.follow());
        await this.list.setLast(Math.max(seq, this.list.last));
        row?.element.remove();
        if (this.live && this.turn.peek())
            this.tail.replaceChildren(this.live.element);
        this.list.follow();
    }

    clearLive() {
        this.live = null;
        this.tail.replaceChildren();
    }

    async turnEnded({ turn_id: id, state, reason }) {
        const shown = this.turn.peek()?.turn_id ?? id;

        if (!ENDED.includes(state) || id !== shown || id === this.endedTurn)
            return;
        this.endedTurn = id;
        this.stopWatching?.();
        this.stopWatching = null;
        this.turn.value = null;
        setTurn({ turn_id: id, state });
        this.status.value = state === 'done' ? 'The answer is complete.'
            : `The turn ${state === 'failed' ? 'failed' : 'was stopped'}. ${reason ?? ''}`;
        const session = await this.readSession();
        await this.list.setLast(session?.last_seq ?? this.list.last);
        if (!this.turn.peek())
            this.clearLive();
        this.readPlan();
    }

    stop() {
        const turn = this.turn.peek();

        if (turn)
            attempt(() => post(`turns/${turn.turn_id}/cancel`));
    }

    stopOld() {
        const turn = this.turn.peek();

        if (!turn)
            return;
        if (Date.now() - Date.parse(turn.since) > OLD_TURN_MS &&
            !window.confirm('This turn has run for more than a minute. Stop it?'))
            return;
        this.stop();
    }

    // ---- Sending and actions ----

    async send(message) {
        if (message.editing && message.isFork) {
            await this.sayInFork(message);
            return;
        }
        if (message.editing)
            await this.rewind(message.editing - 1, 'The edited message was sent.');
        await sendTurn(this.id, message);
        this.list.toEnd();
        this.readMore().then(() => this.list.toEnd());
    }

    async fork(seq) {
        return post(`${this.base}/fork`, { at_seq: seq });
    }

    async sayInFork(message) {
        const fork = await this.fork(message.editing - 1);

        await sendTurn(fork.id, message);
        continueIn(fork.id);
    }

    // An undo is a mark too, so it can be undone. `word` is what the toast offers.
    async undo(number, text, word = 'Redo') {
        const mark = await post(`${this.base}/undo`, number ? { number } : {});

        say(text, () => (word === 'Redo'
            ? this.undo(mark.number, 'It is in effect again.', 'Undo')
            : this.undo(mark.number, 'It was undone again.')), word);
        this.marked();
    }

    async rewind(seq, text) {
        const mark = await post(`${this.base}/rewind`, { to_seq: seq });

        say(text, () => this.undo(mark.number, 'The messages are shown again.'));
        this.marked();
    }

    async askAgain({ seq }, isFork) {
        const { messages } = await get(`${this.base}/messages?before=${seq}&order=desc`
            + `&limit=${LOOK_BACK}`);
        const question = messages.find((one) => one.role === 'user');

        if (!question) {
            say('The question of this answer was not found.');
            return;
        }
        const model = this.form.choice();
        const body = { background: true, lane: 'queue',
            ...(model && { model: model.model, provider: model.endpoint }) };
        if (isFork) {
            const fork = await this.fork(question.seq);

            setTurn(await post(`${path('sessions', fork.id)}/turns`, body));
            go(sessionHash(fork.id));
            return;
        }
        await this.rewind(question.seq, 'The model is asked again.');
        setTurn(await post(`${this.base}/turns`, body));
        this.list.toEnd();
    }

    async compact(body) {
        const done = await post(`${this.base}/compact`, body);
        const { number, tokens_before: before, tokens_after: after } = done;

        if (number)
            say(`${count(before)} tokens became ${count(after)}.`, () => this.uncompact(number));
        else
            say(done.note || 'There is nothing to compact.');
        this.marked();
    }

    async uncompact(number) {
        const mark = await remove(`${this.base}/compact${number ? `?number=${number}` : ''}`);

        say('The compaction was undone.', () =>
            this.undo(mark.number, 'The summary is in effect again.', 'Undo'), 'Redo');
        this.marked();
    }

    async pin(seq) {
        if (this.itemOf(seq)?.pinned) {
            const mark = await remove(`${this.base}/pins/${seq}`);

            say(`Message ${seq} is not pinned anymore.`,
                () => this.undo(mark.number, 'The pin is back.'));
        } else {
            const mark = await post(`${this.base}/pins`, { seq });

            say(`Message ${seq} is pinned: the model always gets it.`,
                () => this.undo(mark.number, 'The pin was removed.'));
        }
        this.marked();
    }

    doAction(action, message, event) {
        const { seq } = message;
        const actions = {
            copy: () => copyMessage(message),
            edit: () => this.form.edit(seq, textOf(message)),
            again: () => this.askAgain(message, event?.altKey),
            pin: () => this.pin(seq),
            fork: async () => go(sessionHash((await this.fork(seq)).id)),
            back: () => this.rewind(seq, `The messages after ${seq} are hidden.`),
            uncompact: () => this.uncompact(),
            why: async () => (await import('./inspector/why.js')).explain(this, message),
            turn: () => go(`${sessionHash(this.name)}/t/${encodeURIComponent(message.turn_id)}`),
            saw: () => this.showQuery({ p: 'window', at: seq, vs: '' }),
        };

        event?.stopPropagation();
        if (canWrite() || READING.has(action))
            attempt(actions[action]);
    }

    editLast() {
        const rows = [...this.feed.querySelectorAll('.msg.user:not(.gone)')];
        const row = rows.at(-1);

        if (row && partsOf(row.message).every((part) => part.type === 'text'))
            this.act('edit', row.message);
    }

    // ---- Keys ----

    step(by) {
        const rows = [...this.feed.querySelectorAll('.msg:not(.gone, .live)')];
        const at = rows.indexOf(document.activeElement?.closest('.msg'));
        const next = rows[at < 0 ? rows.length - 1 : at + by];

        next?.focus({ preventScroll: true });
        next?.scrollIntoView({ block: 'nearest' });
    }

    key(event) {
        const row = document.activeElement?.closest?.('.msg');
        const actions = { p: 'pin', f: 'fork', b: 'back', y: 'why', e: 'edit', s: 'saw' };
        const only = { e: 'user', s: 'assistant' };
        const keys = {
            '[': () => this.stepMark(-1),
            ']': () => this.stepMark(1),
            j: () => this.step(1),
            k: () => this.step(-1),
            g: () => this.list.toSeq(1),
            G: () => this.list.toEnd(),
            u: () => canWrite() && attempt(() => this.undo(0, 'The newest mark was undone.')),
            Escape: () => (this.panel.peek() ? this.showPanel('') : this.stopOld()),
        };

        if (row?.message && actions[event.key] &&
            (only[event.key] ?? row.message.role) === row.message.role)
            this.act(actions[event.key], row.message);
        else if (keys[event.key])
            keys[event.key]();
        else
            return false;
        return true;
    }

    // Goes to the message of the previous or next mark in effect.
    stepMark(by) {
        const at = document.activeElement?.closest('.msg')?.message?.seq ??
            (by < 0 ? this.list.last + 1 : 0);
        const seqs = this.markList.peek().filter((mark) => mark.standing && mark.seq &&
            mark.kind !== 'epoch').map((mark) => mark.seq).sort((a, b) => by * (a - b));
        const next = seqs.find((seq) => by * (seq - at) > 0);

        if (next)
            this.list.toSeq(next);
        else
            say(by < 0 ? 'There is no mark before this message.'
                : 'There is no mark after this message.');
    }

    // The conversation stays where it is.
    showPanel(name) {
        const [here] = place.peek().replace(/\/t\/[^?]*/, '').split('?');

        go(here + (name ? `?p=${name}` : ''));
    }

    // Changes parameters of the address. Empty ones are removed.
    showQuery(changes) {
        const query = new URLSearchParams(this.query.peek());

        for (const [name, value] of Object.entries(changes)) {
            if (value)
                query.set(name, value);
            else
                query.delete(name);
        }
        go(`${place.peek().split('?')[0]}?${query}`);
    }
}

// ---- The view ----

async function rename(chat, title) {
    const before = chat.session.peek().title ?? null;
    const set = async (text) => {
        await patch(chat.base, { title: text });
        await chat.readSession();
    };

    if (title === (before ?? ''))
        return;
    await set(title || null);
    say('The session was renamed.', () => set(before));
}

// The title, which can be changed in place.
function titleView(chat, title, isEditing) {
    const field = () => {
        const input = h('input', { value: chat.session.peek()?.title ?? '', class: 'rename',
            'aria-label': 'Title of the session', onkeydown: (event) => {
                if (event.key === 'Escape')
                    isEditing.value = false;
                else if (event.key === 'Enter')
                    input.blur();
            }, onblur: () => {
                if (!isEditing.peek())
                    return;
                isEditing.value = false;
                attempt(() => rename(chat, input.value.trim()));
            } });

        requestAnimationFrame(() => input.select());
        return input;
    };

    return h('h1', { title }, () => (isEditing.value ? field() : title()));
}

async function trash(chat) {
    const { id } = chat.session.peek();

    await remove(chat.base);
    go('#/');
    say('The session is in the trash.', async () => {
        await post(`${path('sessions', id)}/restore`);
        await loadSession(id);
        go(sessionHash(id));
    });
}

// How full the window is, in percent.
function shareOf(plan) {
    return plan?.usable ? Math.min(100, Math.round(100 * plan.tokens / plan.usable)) : 0;
}

function gauge(chat) {
    return h('button', { type: 'button', class: 'gauge', title: 'The window: what the model gets',
        hidden: () => !chat.plan.value, onclick: () => chat.showPanel('window'),
        'aria-label': () => {
            const plan = chat.plan.value;

            return plan ? `Window: ${shareOf(plan)} %, ${count(plan.tokens)} of `
                + `${count(plan.usable)} tokens` : 'Window';
        } }, () => {
        const share = shareOf(chat.plan.value);

        return [h('span', { class: 'ring', style: { '--share': `${share * 3.6}deg` } }),
            `${share} %`];
    });
}

// `panels` has the parts of the inspector by name: {label, key, view(chat)}. `query` is a signal of
// the parameters of the address.
export function conversation({ name, seq, panel, query, panels }) {
    const chat = new Conversation(name, panel, query);
    const isEditing = signal(false); // the title
    const isBusy = { get value() { return Boolean(chat.turn.value); },
        peek: () => Boolean(chat.turn.peek()) };
    const title = () => (chat.session.value ? titleOf(chat.session.value)
        : chat.problem.value && 'No conversation');

    chat.form = composer({ draft: name, isBusy, gauge: gauge(chat),
        send: (message) => chat.send(message), stop: () => chat.stop(),
        onEmptyUp: () => chat.editLast() });
    chat.open(seq).then((found) => {
        if (!found)
            chat.problem.value = 'There is no such session.';
        chat.isOpen = true;
    }, (error) => { chat.problem.value = error.message; });
    if (isWriting)
        requestAnimationFrame(() => chat.form.querySelector('textarea').focus());
    isWriting = false;
    effect(() => { heading.value = title(); });
    onEnd(() => { heading.value = ''; });
    onEnd(() => {
        for (const end of chat.ends.splice(0))
            end();
    });
    const [tabs, side] = inspector(chat, panel, panels);
    const top = h('header', { class: 'top' }, openMenu(), titleView(chat, title, isEditing),
        h('span', { class: 'dim count' }, () => chat.session.value &&
            plural(chat.session.value.last_seq ?? 0, 'message')),
        h('span', { class: 'grow' }),
        iconButton('edit', 'Rename', () => { isEditing.value = true; }, { class: 'ghost writes' }),
        iconButton('trash', 'Move to the trash', () => attempt(() => trash(chat)),
            { class: 'ghost writes' }), tabs);
    const isMissing = () => Boolean(chat.problem.value) && !chat.session.value;
    const main = h('main', { class: () => `chat${isMissing() ? ' missing' : ''}`, id: 'main',
        tabIndex: -1 }, top,
        () => chat.problem.value && h('p', { class: 'problem', role: 'alert' },
            visible(chat.problem.value),
            isMissing() && [h('br'), h('a', { href: '#/' }, 'New chat')]),
        chat.feed, docks(chat), chat.form, readNote(),
        h('div', { class: 'sr', role: 'status' }, () => chat.status.value));
    const view = h('div', { class: () => `split${panel.value && query.value.has('full')
        ? ' full' : ''}` }, main, side);

    chat.rename = () => { isEditing.value = true; };
    chat.trash = () => trash(chat);
    view.key = (event) => chat.key(event);
    view.chat = chat;
    return view;
}
