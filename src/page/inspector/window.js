// window.js - the plan as a picture: what the model gets, item by item, and why. Now, as it was for
// an earlier answer (at=SEQ), and compared with another plan (vs=...).
import { count, effect, h, money, onEnd, plural, signal } from '../core.js';
import { get } from '../api.js';
import { attempt, button, dialog, visible } from '../parts.js';
import { me, models } from '../store.js';
import { barView, hasLimit, isSent, kindOf, KINDS, lengthOf, roomOf } from './bar.js';
import { compareView } from './compare.js';
import { itemsView } from './items.js';

const TEXT_MAX = 200; // characters of each item, if there is room for them
const ACTIONS = { send: ['fits', 'good'], prune: ['will prune', 'warn'],
    compact: ['will compact', 'warn'], refuse: ['does not fit', 'bad'] };

// ---- The numbers ----

function legend(plan) {
    const sums = new Map();
    let out = 0;

    for (const item of plan.items) {
        if (isSent(item))
            sums.set(kindOf(item), (sums.get(kindOf(item)) ?? 0) + item.tokens);
        else
            out += item.count ?? 1;
    }
    const entry = (kind, name, text) => h('li', null, h('i', { class: `dot k-${kind}` }), name, ' ',
        h('b', { class: 'number' }, text));
    return h('ul', { class: 'legend' },
        Object.entries(KINDS).filter(([kind]) => sums.has(kind))
            .map(([kind, name]) => entry(kind, name, count(sums.get(kind)))),
        hasLimit(plan) && entry('free', 'Free', count(Math.max(0, plan.usable - plan.tokens))),
        plan.limits.threshold > 0 && plan.limits.threshold < plan.usable &&
            entry('threshold', 'Makes room from', count(plan.limits.threshold)),
        roomOf(plan) > 0 && entry('room', 'For the answer', count(roomOf(plan))),
        out > 0 && entry('range', 'Not sent', plural(out, 'message')));
}

function figures(plan) {
    const [word, color] = ACTIONS[plan.action] ?? [plan.action, ''];

    return h('div', { class: 'figures' }, h('p', { class: 'big' },
        h('b', { class: 'number' }, count(plan.tokens)),
        h('span', { class: 'dim' }, hasLimit(plan)
            ? ` of ${count(plan.usable)} tokens` : ' tokens, without a limit')),
    h('span', { class: `chip ${color}` }, word),
    h('span', { class: 'dim' }, [plan.strategy, plan.model,
        plan.reason !== word && visible(plan.reason), plan.is_estimate && 'estimated']
        .filter(Boolean).join(' · ')),
    plan.refusal && h('p', { class: 'problem' }, visible(plan.refusal)));
}

function cacheLine(plan) {
    const { tokens, break: cause } = plan.prefix ?? {};

    if (!tokens && !cause)
        return null;
    return h('p', { class: 'dim cache' }, h('i', { class: 'line' }),
        `The first ${count(tokens)} tokens are those of the last request`
        + `${cause ? `; then ${visible(cause)}` : ''}.`);
}

// ---- What it saw ----

// The plan compares itself with the request of the answer, if that was recorded.
function verdict({ prefix }) {
    if (prefix.break)
        return ['warn', `The request was not the same: ${visible(prefix.break)}.`];
    return prefix.tokens ? ['good', 'The model received exactly this.']
        : ['', 'No request for this message is recorded.'];
}

function sawBox(chat, plan, seq) {
    const [color, text] = verdict(plan);

    return h('div', { class: 'card saw' },
        h('p', null, h('b', null, `What the model saw before message ${count(seq)}`)),
        h('p', null, h('span', { class: `chip ${color}` }, color === 'good' ? 'equal' : 'plan'),
            ` ${text}`, color === 'good' ? null : ' These are the messages and marks of that time, '
                + 'with the present settings and tools.'),
        h('div', { class: 'buttons' },
            button('Compare it with now', () => chat.showQuery({ at: '', vs: `at:${seq}` })),
            button('Show the message', () => chat.list.toSeq(seq)),
            button('Back to now', () => chat.showQuery({ at: '', vs: '' }))));
}

// What became of a message after the plan that is shown.
function sinceThen(chat, item) {
    const now = item.seq && item.kind === 'message' ? chat.itemOf(item.seq) : null;

    return now && now.disposition !== item.disposition &&
        h('span', { class: `chip s-${now.disposition}` }, `now ${now.disposition}`);
}

// ---- Compact ----

// What a compaction would replace and keep. Null if the server does not say it.
function previewList(plan, preview) {
    const { cut } = preview;
    const price = models.peek().find((one) => one.model === preview.model)?.price;
    const kept = plan.items.filter((item) => cut?.keep.includes(item.seq));
    const stays = plan.items.filter((item) => item.kind === 'message' && isSent(item) &&
        item.seq > cut?.seq);

    if (!cut)
        return h('p', null, 'There is nothing to replace: every message is recent or must be '
            + 'kept.');
    return h('ul', { class: 'facts' },
        h('li', null, `The messages up to #${count(cut.seq)} with ${count(cut.tokens)} tokens are `
            + 'replaced.'),
        h('li', null, `${plural(stays.length, 'message')} after them stay as they are.`),
        kept.length > 0 && h('li', null, 'These are kept: ', kept.map((item) => [
            h('span', { class: 'chip' }, `#${count(item.seq)}${item.pinned ? ' pinned' : ''}`),
            ' '])),
        h('li', null, `${preview.model || 'The model'} reads them`
            + `${price?.input ? ` for about ${money(cut.tokens * price.input / 1e6)}` : ''}.`));
}

function compactDialog(chat, plan) {
    const preview = signal(null);
    const prompt = h('textarea', { rows: 2, 'aria-label': 'Instructions for the summary',
        placeholder: 'Instructions for the summary (optional)' });

    get(`${chat.base}/context?compact=true`).then((found) => { preview.value = found; },
        () => { preview.value = {}; });
    dialog('Compact', (close) => [
        h('p', null, 'A model writes a summary, which replaces the older messages in the window. '
            + 'Nothing is deleted, and it can be undone.'),
        h('div', null, () => (preview.value ? previewList(plan, preview.value)
            : h('div', { class: 'skeleton' }))),
        prompt,
        h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary',
            onclick: () => {
                close();
                attempt(() => chat.compact(prompt.value.trim() ? { prompt: prompt.value } : {}));
            } }, 'Compact'), button('Cancel', close)),
    ]);
}

// ---- The view ----

// The plan that is shown: that of the conversation, or one that only this view needs.
function planOf(chat, query, problem) {
    const shown = signal(null);
    let version = 0; // only the newest response counts

    effect(() => {
        const now = chat.plan.value;
        const parameters = query();
        const mine = ++version;

        problem.value = '';
        if (!String(parameters)) {
            shown.value = now;
            return;
        }
        get(`${chat.base}/context?${parameters}`).then((plan) => {
            if (mine === version)
                shown.value = plan;
        }, (error) => {
            if (mine === version)
                problem.value = error.message;
        });
    });
    return shown;
}

// Shows which message belongs to the item that is pointed at, and the other way around.
function linkMessages(chat, plan, hot) {
    const point = (event) => {
        const seq = event.target.closest?.('.msg')?.message?.seq;

        hot.value = seq ? plan.peek()?.items.findIndex((item) => item.kind === 'message' &&
            item.seq === seq) ?? -1 : -1;
    };

    effect(() => {
        const seq = plan.value?.items[hot.value]?.seq;

        chat.list.each((row, one) => row.classList.toggle('hot', one === seq));
    });
    chat.feed.addEventListener('pointerover', point, { passive: true });
    onEnd(() => {
        chat.feed.removeEventListener('pointerover', point);
        chat.list.each((row) => row.classList.remove('hot'));
    });
}

function buttons(chat, plan, parameters) {
    const isCompacted = plan.items.some((item) => item.kind === 'range' &&
        item.disposition === 'summarized');
    const isFull = chat.query.value.has('full');
    const query = String(parameters) && `?${parameters}`;

    return h('div', { class: 'buttons' },
        button('Compact…', () => compactDialog(chat, plan), { class: 'plain writes' }),
        isCompacted && button('Undo the compaction', () => attempt(() => chat.uncompact()),
            { class: 'plain writes' }),
        h('button', { type: 'button', class: 'plain wide-only', 'aria-pressed': String(isFull),
            onclick: () => chat.showQuery({ full: isFull ? '' : '1' }) }, 'Full width'),
        // A new tab sends the cookie of a login only, which is not enough.
        me.value?.open && h('a', { class: 'plain json', target: '_blank',
            title: 'The same as JSON',
            href: `api/v1/${chat.base}/context${query}` }, '{ } JSON'));
}

export function windowView(chat) {
    const hot = signal(-1);
    const problem = signal('');
    const seq = () => Number(chat.query.value.get('at')) || 0;
    const query = () => new URLSearchParams({ ...(seq() && { at_seq: seq() }),
        ...(chat.query.value.has('full') && { text: TEXT_MAX }) });
    const plan = planOf(chat, query, problem);
    const others = [];
    const length = () => lengthOf([plan, ...others].map((one) => one.value));
    const { filters, table } = itemsView(chat, plan, { hot, query,
        note: (item) => (seq() ? sinceThen(chat, item) : null) });

    linkMessages(chat, plan, hot);
    return h('section', { class: 'window' },
        () => (problem.value || chat.planProblem.value) && h('p', { class: 'problem',
            role: 'alert' }, problem.value || chat.planProblem.value),
        () => seq() > 0 && plan.value && sawBox(chat, plan.value, seq()),
        () => (plan.value ? figures(plan.value) : h('div', { class: 'skeleton' })),
        barView(plan, 'The window', hot, length, (index) => table.showItem(index)),
        () => plan.value && [seq() ? null : cacheLine(plan.value), legend(plan.value)],
        () => plan.value && buttons(chat, plan.value, query()),
        compareView(chat, plan, { query, length, others, figures }),
        filters, table);
}
