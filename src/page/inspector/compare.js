// compare.js - two windows, one above the other: now, at an earlier message, with another model or
// strategy, without a mark, or with the text in the composer. The address names the other one:
// vs=at:SEQ, vs=model:NAME, vs=strategy:NAME, vs=without:MARK or vs=draft.
import { count, effect, h, money, plural, signal } from '../core.js';
import { get, post } from '../api.js';
import { visible } from '../parts.js';
import { models } from '../store.js';
import { bandsView, barView, isChanged, isSent, kindOf } from './bar.js';
import { nameOf, whatOf } from './items.js';
import { rowsView } from './rows.js';

const STRATEGIES = ['compact', 'summarization', 'sliding_window', 'reset', 'none'];
const PARAMETERS = { at: 'at_seq', model: 'model', strategy: 'strategy', without: 'without' };

// [kind, value] of the address, or null.
function sideOf(vs) {
    const [kind, ...rest] = (vs ?? '').split(':');

    return kind === 'draft' || (Object.hasOwn(PARAMETERS, kind) && rest.length)
        ? [kind, rest.join(':')] : null;
}

const WORDS = {
    at: (seq) => `The window before message ${seq}`,
    model: (name) => `With the model ${name}`,
    strategy: (name) => `With the strategy ${name}`,
    without: (mark) => `Without mark ${mark}`,
    draft: () => 'With what you have written',
};

// ---- Differences ----

// [name, item] of all sent items. An item has the same name in both plans: its number, or its kind
// and how many of that kind come before it.
function named({ items }) {
    const counts = new Map();

    return items.filter(isSent).map((item) => {
        if (item.seq && item.kind === 'message')
            return [item.seq, item];
        const before = counts.get(item.kind) ?? 0;

        counts.set(item.kind, before + 1);
        return [`${item.kind} ${before}`, item];
    });
}

// Rows of items that are not the same in both plans, in the order of the second one.
function differencesOf(before, after) {
    const old = new Map();
    const rows = [];
    let most = -1; // the place in the first plan of the last item that is not moved

    named(before).forEach(([name, item], place) => old.set(name, { item, place }));
    for (const [name, item] of named(after)) {
        const there = old.get(name);

        old.delete(name);
        if (!there)
            rows.push({ word: 'new', item, after: item.tokens });
        else if (there.item.hash !== item.hash)
            rows.push({ word: isChanged(item) ? item.disposition : 'changed', item,
                before: there.item.tokens, after: item.tokens });
        else if (there.place < most)
            rows.push({ word: 'moved', item, before: item.tokens, after: item.tokens });
        most = Math.max(most, there?.place ?? -1);
    }
    for (const { item } of old.values()) {
        const now = after.items.find((one) => one.kind === 'range'
            ? item.seq >= one.first_seq && item.seq <= one.seq : item.seq && one.seq === item.seq);

        rows.push({ word: 'gone', item, before: item.tokens, reason: now?.reason });
    }
    return rows;
}

// How many items are in both, and how many tokens of the beginning are equal.
function sharedOf(before, after) {
    const sent = (plan) => plan.items.filter((item) => isSent(item) && item.hash);
    const [mine, theirs] = [sent(before), sent(after)];
    const hashes = new Set(mine.map((item) => item.hash));
    let tokens = 0;
    let i = 0;

    while (i < theirs.length && mine[i]?.hash === theirs[i].hash)
        tokens += theirs[i++].tokens;
    return { items: theirs.filter((item) => hashes.has(item.hash)).length, tokens,
        at: theirs[i] ?? null };
}

// What reading the rest costs more than from a cache, in millionths.
function breakCost(plan, tokens) {
    const price = models.value.find((one) => one.model === plan.model)?.price;
    const saved = price ? price.input - price.cache_read : 0;

    return saved > 0 ? tokens * saved / 1e6 : 0;
}

function difference(before, after, rows) {
    const shared = sharedOf(before, after);

    if (!rows.length)
        return h('p', { class: 'difference' }, 'Both windows have the same items.');
    const gone = rows.filter((row) => row.word === 'gone').length;
    const fresh = rows.filter((row) => row.word === 'new').length;
    const tokens = after.tokens - before.tokens;
    const rest = Math.max(0, after.tokens_plain - shared.tokens);
    const cost = breakCost(after, rest);

    return h('p', { class: 'difference' }, `${plural(shared.items, 'item')} stay, `,
        h('b', { class: 'c-removed' }, `${count(gone)} gone`), ', ',
        h('b', { class: 'c-added' }, `${count(fresh)} new`),
        `; ${tokens < 0 ? '−' : '+'}${count(Math.abs(tokens))} tokens. `,
        shared.at ? `A cache would have the first ${count(shared.tokens)} tokens: it breaks at `
            + `${nameOf(shared.at)}, so ${count(rest)} tokens are read again`
            + `${cost ? `, for ${money(cost)}` : ''}.`
            : `A cache would have all ${count(shared.tokens)} tokens.`);
}

function differenceRow(chat, { word, item, before, after, reason }) {
    const go = () => item.seq && chat.list.toSeq(item.seq);
    const tokens = before === undefined || after === undefined || before === after
        ? count(before ?? after) : `${count(before)} → ${count(after)}`;

    return h('div', { class: 'item differs', role: 'row', tabIndex: -1, onclick: go,
        onkeydown: (event) => {
            if (event.key === 'Enter')
                go();
        } },
    h('span', { role: 'cell', class: 'where number' },
        h('i', { class: `dot k-${kindOf(item)}` }), nameOf(item)),
    h('span', { role: 'cell' }, whatOf(item)),
    h('span', { role: 'cell', class: 'number end' }, tokens),
    h('span', { role: 'cell' }, h('span', { class: `chip s-${word}` }, word)),
    h('span', { role: 'cell', class: 'dim clip' }, visible(reason ?? item.reason)));
}

// ---- What is compared with ----

function choices(chat) {
    const side = () => sideOf(chat.query.value.get('vs'));
    const set = (vs) => chat.showQuery({ vs });
    const value = (kind) => (side()?.[0] === kind ? side()[1] : '');
    // The element stays when the address changes, so that it keeps the focus.
    const select = (label, kind, options) => h('label', { hidden: () => !options().length },
        label, ' ', h('select', { onchange: (event) =>
            set(event.target.value && `${kind}:${event.target.value}`) },
        () => [h('option', { value: '' }, 'as it is'), options().map((one) =>
            h('option', { value: one, selected: value(kind) === one }, one))]));
    const marks = () => chat.markList.value.filter((mark) => mark.standing && !mark.inherited &&
        mark.kind !== 'epoch').map((mark) => String(mark.number));
    const text = () => chat.form.text().trim();

    return h('fieldset', { class: 'what-if' }, h('legend', null, 'What if'),
        select('Model', 'model', () => (models.value.length > 1
            ? [...new Set(models.value.map((one) => one.model))] : [])),
        select('Strategy', 'strategy', () => STRATEGIES),
        select('Without mark', 'without', marks),
        h('button', { type: 'button', class: 'plain', title: 'What the model would get if you '
            + 'sent the text in the composer', onclick: () => set('draft') }, 'With my draft'),
        () => side() && h('button', { type: 'button', class: 'linklike',
            onclick: () => set('') }, 'Stop comparing'),
        () => side()?.[0] === 'draft' && !text() && h('p', { class: 'dim' },
            'Write something first. Then press the button again.'));
}

// Reads the other plan. `base` are the parameters of the first one.
async function readSide(chat, [kind, value], base) {
    const query = new URLSearchParams(base);

    if (kind === 'draft') {
        const message = chat.form.text();

        return message.trim() ? post(`${chat.base}/context?${query}`, { message }) : null;
    }
    if (PARAMETERS[kind] === 'at_seq')
        query.delete('at_seq');
    query.set(PARAMETERS[kind], value);
    return get(`${chat.base}/context?${query}`);
}

// Options: `query()` has the parameters of the first plan; `others` gets the signal of the second
// plan, so that both bars have one scale; `figures(plan)` shows the numbers of a plan.
export function compareView(chat, plan, { query, length, others, figures }) {
    const other = signal(null);
    const problem = signal('');
    const rows = signal([]);
    let version = 0; // only the newest response counts

    effect(() => {
        const side = sideOf(chat.query.value.get('vs'));
        const mine = ++version;

        problem.value = '';
        if (!plan.value || !side) {
            other.value = null;
            return;
        }
        readSide(chat, side, query()).then((found) => {
            if (mine === version)
                other.value = found;
        }, (error) => {
            if (mine !== version)
                return;
            other.value = null;
            problem.value = error.message;
        });
    });
    effect(() => {
        rows.value = plan.value && other.value ? differencesOf(plan.value, other.value) : [];
    });
    others.push(other);
    return h('div', { class: 'compare' }, choices(chat),
        () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value),
        () => {
            if (!other.value)
                return null;
            const [kind, value] = sideOf(chat.query.peek().get('vs')) ?? ['draft', ''];

            return [h('h3', null, WORDS[kind](value)), figures(other.value),
                h('div', { class: 'bars' },
                    barView(plan, 'The window', signal(-1), length, () => {}),
                    bandsView(plan, other, length),
                    barView(other, 'The other window', signal(-1), length, () => {})),
                difference(plan.value, other.value, rows.value),
                rows.value.length > 0 && rowsView('Differences', () => rows.value,
                    (row) => differenceRow(chat, row))];
        });
}
