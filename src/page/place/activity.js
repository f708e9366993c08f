// activity.js - the place "live": what waits for a person, what runs, what waits its turn, and what
// failed, in all sessions.
import { duration, h, onEnd, plural, scope, signal, time } from '../core.js';
import { get, path, post } from '../api.js';
import { attempt, button, visible } from '../parts.js';
import { approvals, results } from '../docks.js';
import { on } from '../live.js';
import { go, me, sessionHash, turns } from '../store.js';
import { frame, nameOf } from './place.js';

const SECOND_MS = 1000;
const FAILED_MAX = 10;

const link = (turn) => h('a', { href: sessionHash(turn.session_id) },
    () => nameOf(turn.session_id));
const waits = (turn) => turn.state === 'asking' || turn.state === 'paused';
const bySince = (a, b) => (a.since < b.since ? -1 : 1);

// ---- Waiting for a person ----

// A call that waits for a person, with everything that is needed to decide.
function waitingCard(turn) {
    const full = signal(null);

    get(`turns/${turn.turn_id}`).then((state) => { full.value = state; }, () => {});
    return h('section', { class: 'waits' }, h('p', null, link(turn), h('span', { class: 'dim' },
        ' · ', time(turn.since))), () => full.value &&
        (turn.state === 'asking' ? approvals(full.value) : results(full.value)));
}

// ---- Running ----

const clock = new Intl.DateTimeFormat('en', { timeStyle: 'medium' });

// What the turn does now, in words.
function doing(turn) {
    if (turn.state === 'retrying')
        return [`attempt ${turn.attempt} at ${clock.format(new Date(turn.retry_at))}`, turn.reason]
            .filter(Boolean).join(': ');
    return turn.tool || (turn.step ? `step ${turn.step}` : '');
}

function runningRow(turn, now) {
    const cancel = () => attempt(() => post(`turns/${turn.turn_id}/cancel`));
    const isRetrying = turn.state === 'retrying';

    return h('tr', null, h('th', { scope: 'row' }, link(turn)),
        h('td', null, h('span', { class: `chip${isRetrying ? ' warn' : ''}` },
            turn.state === 'running' && h('span', { class: 'spinner' }), turn.state)),
        h('td', null, h('span', { class: 'doing' }, visible(doing(turn)))),
        h('td', null, turn.model ?? ''),
        h('td', { class: 'number to-right' }, () => duration(Math.floor(Math.max(0,
            now.value - Date.parse(turn.since)) / SECOND_MS) * SECOND_MS)),
        h('td', null, button('Stop', cancel, { class: 'plain writes' })));
}

function runningTable(list, now) {
    return h('div', { class: 'table', tabIndex: 0 }, h('table', null, h('thead', null,
        h('tr', null, ['Session', 'State', 'Does', 'Model', 'Since', ''].map((word) =>
            h('th', { scope: 'col' }, word || h('span', { class: 'sr' }, 'Stop'))))),
    h('tbody', null, list.map((turn) => runningRow(turn, now)))));
}

// ---- The inboxes, and what failed ----

function inboxRow(turn) {
    return h('li', null, h('div', { class: 'grow' }, h('p', null, link(turn)),
        h('p', { class: 'dim' }, 'waits for another turn · ', time(turn.since))),
    button('Take back', () => attempt(() => post(`turns/${turn.turn_id}/cancel`)),
        { class: 'plain writes' }));
}

async function again(turn) {
    const answer = await post(`${path('sessions', turn.session_id)}/turns`,
        { background: true, lane: 'queue' });

    go(sessionHash(answer.session_id ?? turn.session_id));
}

function failedRow(turn) {
    return h('li', null, h('div', { class: 'grow' }, h('p', null, link(turn), ' ',
        h('span', { class: 'dim' }, time(turn.since))),
    h('p', { class: 'reason' }, visible(turn.reason ?? ''))),
    h('a', { class: 'plain json', href: `${sessionHash(turn.session_id)}/t/${turn.turn_id}` },
        'The turn'),
    button('Ask again', () => attempt(() => again(turn)), { class: 'plain writes' }));
}

function part(title, list, content) {
    return () => list().length > 0 && [h('h2', null, `${title} (${list().length})`),
        content(list())];
}

const listOf = (row) => (list) => h('ul', { class: 'plain-list' }, list.map(row));

// ---- The numbers of the server, for admins ----

function numbers(stats) {
    const { ended, failed, model_calls: calls, model_retries: retries } = stats.turns;

    return h('p', { class: 'dim' }, 'Since the start (', time(stats.started_at), '), of all '
        + `tenants: ${plural(ended, 'turn')} ended, ${failed} failed; `
        + `${plural(calls, 'model call')}, ${retries} of them again.`);
}

export function liveView() {
    const now = signal(Date.now());
    const failed = signal([]);
    const stats = signal(null);
    const timer = setInterval(() => { now.value = Date.now(); }, SECOND_MS);
    const all = (isIn) => () => [...turns.value.values()].filter(isIn).sort(bySince);
    const waiting = all(waits);
    const queued = all((turn) => turn.state === 'queued');
    const running = all((turn) => !waits(turn) && turn.state !== 'queued');
    // A card is not made again while its turn waits, so that a half-written result stays.
    const cards = new Map();
    const card = (turn) => {
        const key = `${turn.turn_id} ${turn.since} ${turn.state}`;

        if (!cards.has(key))
            cards.set(key, scope(() => waitingCard(turn)));
        return cards.get(key)[0];
    };
    const read = () => {
        get('turns?state=failed&limit=1000').then((page) => {
            failed.value = page.turns.slice(-FAILED_MAX).reverse();
        }, () => {});
        if (me.peek()?.role === 'admin')
            get('stats').then((answer) => { stats.value = answer; }, () => {});
    };

    read();
    onEnd(on('turn', (turn) => {
        if (turn.state === 'failed' || turn.state === 'done' || turn.state === 'canceled')
            read();
    }));
    onEnd(() => {
        clearInterval(timer);
        for (const [, end] of cards.values())
            end();
    });
    return frame('Live', () => plural(turns.value.size, 'turn'),
        h('h2', null, () => `Waiting for you${waiting().length ? ` (${waiting().length})` : ''}`),
        () => (waiting().length ? waiting().map(card)
            : h('p', { class: 'dim' }, 'Nothing is waiting for you.')),
        h('h2', null, () => `Running${running().length ? ` (${running().length})` : ''}`),
        () => (running().length ? runningTable(running(), now)
            : h('p', { class: 'dim' }, 'Nothing runs.')),
        part('Inbox', queued, listOf(inboxRow)),
        part('Failed lately', () => failed.value, listOf(failedRow)),
        () => stats.value && numbers(stats.value));
}
