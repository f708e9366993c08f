// items.js - the items of a plan as a table, and one item in full: as it is stored, as it is sent,
// and the difference.
import { count, effect, h, plural, signal } from '../core.js';
import { get } from '../api.js';
import { attempt, button, dialog, iconButton, visible } from '../parts.js';
import { isChanged, isSent, kindOf, KINDS } from './bar.js';
import { partsOf } from '../message.js';
import { rowsView } from './rows.js';

const SHOWS = {
    all: ['all', () => true],
    sent: ['sent', isSent],
    out: ['not sent', (item) => !isSent(item)],
    changed: ['changed', isChanged],
    pinned: ['pinned', (item) => item.pinned],
};

export function nameOf(item) {
    if (item.kind === 'range')
        return `${count(item.first_seq)}–${count(item.seq)}`;
    return item.seq && item.kind !== 'note' ? `#${count(item.seq)}` : item.kind;
}

export function whatOf(item) {
    if (item.kind === 'range')
        return plural(item.count, 'message');
    if (item.kind === 'tools')
        return plural(item.count, 'tool');
    return item.kind === 'message' ? KINDS[item.role] ?? item.role : '';
}

// ---- One item ----

function textOfMessage(message) {
    return partsOf(message).map((part) => part.text ?? part.output ?? part.arguments ??
        JSON.stringify(part.parts ?? { type: part.type, name: part.name })).join('\n');
}

// The lines that both texts begin and end with are the same; those between are gone or new.
function linesOf(before, after) {
    const [old, now] = [before.split('\n'), after.split('\n')];
    let head = 0;
    let tail = 0;

    while (head < Math.min(old.length, now.length) && old[head] === now[head])
        head++;
    while (tail < Math.min(old.length, now.length) - head &&
        old.at(-1 - tail) === now.at(-1 - tail))
        tail++;
    const all = (lines, sign) => lines.map((line) => sign + line);
    return [...all(old.slice(0, head), ' '), ...all(old.slice(head, old.length - tail), '-'),
        ...all(now.slice(head, now.length - tail), '+'), ...all(old.slice(old.length - tail), ' ')];
}

const SIGNS = { '-': 'c-removed', '+': 'c-added' };

export const linesView = (lines) => h('pre', { tabIndex: 0, class: 'lines' }, lines.map((line) =>
    h('span', { class: SIGNS[line[0]] ?? '' }, visible(line), '\n')));

const plain = (text) => h('pre', { tabIndex: 0 }, visible(text));

// {name: what makes the view}, without those that the item does not have.
function formsOf(item, { stored, sent, tools }) {
    const [before, after] = [stored, sent].map((one) => one && textOfMessage(one));

    return Object.entries({
        'As sent': tools ? () => plain(tools.map((tool) => `${tool.name}: ${tool.description}\n`
            + `${JSON.stringify(tool.parameters, null, 2)}`).join('\n\n'))
            : sent && (() => plain(after)),
        'As stored': stored && (() => plain(before)),
        Difference: stored && sent && before !== after &&
            (() => linesView(linesOf(before, after))),
    }).filter(([, form]) => form);
}

function itemBody(chat, item, shown, close) {
    const forms = formsOf(item, shown);
    const form = signal(isChanged(item) && forms.length > 2 ? 2 : 0);
    const act = (name) => () => {
        close();
        chat.act(name, { ...shown.stored, seq: item.seq });
    };

    return [
        h('p', null, h('span', { class: `chip s-${item.disposition}` }, item.disposition), ' ',
            visible(item.reason)),
        h('p', { class: 'dim' }, [`${count(item.tokens)} tokens`, `${count(item.bytes)} bytes`,
            item.images > 0 && plural(item.images, 'image'), item.hash && `hash ${item.hash}`]
            .filter(Boolean).join(' · ')),
        shown.repairs.map((repair) => h('p', { class: 'dim' }, visible(repair.text))),
        forms.length > 0 && h('div', { class: 'tabs', role: 'group', 'aria-label': 'Form' },
            forms.map(([name], i) => h('button', { type: 'button',
                'aria-pressed': () => String(form.value === i),
                onclick: () => { form.value = i; } }, name))),
        h('div', null, () => forms[form.value]?.[1]()),
        h('div', { class: 'buttons' },
            item.seq && item.kind === 'message' && [
                button('Show it in the conversation', () => {
                    close();
                    chat.list.toSeq(item.seq);
                }),
                button(item.pinned ? 'Unpin' : 'Pin', act('pin'), { class: 'plain writes' })]),
    ];
}

// `query` are the parameters of the plan.
export function showItem(chat, plan, item, query) {
    attempt(async () => {
        const more = String(query) && `?${query}`;
        const shown = await get(`${chat.base}/context/${plan.items.indexOf(item)}${more}`);
        const what = [nameOf(item), whatOf(item)].filter(Boolean).join(' · ');

        dialog(what, (close) => itemBody(chat, item, shown, close).flat().filter(Boolean));
    });
}

// ---- The table ----

function cells(item, most, more) {
    const kind = kindOf(item);
    const share = isSent(item) ? Math.max(1, Math.round(100 * item.tokens / most)) : 0;

    return [
        h('span', { role: 'cell', class: 'where number' }, h('i', { class: `dot k-${kind}` }),
            nameOf(item), item.pinned && h('i', { class: 'pinned', title: 'pinned' }, '●')),
        h('span', { role: 'cell' }, whatOf(item)),
        h('span', { role: 'cell', class: 'number end' }, count(item.tokens)),
        h('span', { role: 'cell', class: 'meter', 'aria-hidden': 'true' },
            h('i', { class: `k-${kind}`, style: { width: `${share}%` } })),
        h('span', { role: 'cell' }, h('span', { class: `chip s-${item.disposition}` },
            item.disposition)),
        h('span', { role: 'cell', class: 'dim clip', title: item.reason }, more,
            visible(item.text ?? item.reason)),
    ];
}

function filters(show, kind, words, sort) {
    const select = (label, chosen, options) => h('select', { 'aria-label': label,
        onchange: (event) => { chosen.value = event.target.value; } },
    options.map(([value, text]) => h('option', { value, selected: value === chosen.peek() },
        text)));

    return h('div', { class: 'filters' },
        select('Which items', show, Object.entries(SHOWS).map(([name, [text]]) => [name, text])),
        select('Kind of items', kind, [['', 'all kinds'], ...Object.entries(KINDS)]),
        h('input', { type: 'search', placeholder: 'Reason', 'aria-label': 'Words of the reason',
            oninput: (event) => { words.value = event.target.value.toLowerCase(); } }),
        select('Order', sort, [['order', 'in order'], ['tokens', 'largest first']]));
}

// Options: `hot` is the number of the item that is pointed at; `query()` has the parameters of the
// plan; `note(item)` is more to say of an item, or null.
export function itemsView(chat, plan, { hot, query, note = () => null }) {
    const show = signal('all');
    const kind = signal('');
    const words = signal('');
    const sort = signal('order');
    let most = 1; // tokens of an item
    const items = () => {
        const fits = SHOWS[show.value][1];
        const list = (plan.value?.items ?? []).filter((item) => fits(item) &&
            (!kind.value || kindOf(item) === kind.value) &&
            (!words.value || `${item.reason} ${item.text ?? ''}`.toLowerCase()
                .includes(words.value)));

        most = list.filter(isSent).reduce((max, item) => Math.max(max, item.tokens), 1);
        return sort.value === 'tokens' ? list.sort((a, b) => b.tokens - a.tokens) : list;
    };
    const open = (item) => {
        const seq = item.kind === 'range' ? item.first_seq : item.seq;

        if (seq)
            chat.list.toSeq(seq);
        else
            showItem(chat, plan.peek(), item, query());
    };
    const row = (item) => {
        const index = plan.peek().items.indexOf(item);
        const full = () => showItem(chat, plan.peek(), item, query());

        const element = h('div', { class: `item d-${item.disposition}`, role: 'row', tabIndex: -1,
            onpointerenter: () => { hot.value = index; },
            onpointerleave: () => { hot.value = -1; },
            onfocus: () => { hot.value = index; },
            onclick: () => open(item), onkeydown: (event) => {
                if (event.target === event.currentTarget && event.key === 'Enter')
                    open(item);
                else if (event.key === ' ') {
                    event.preventDefault();
                    full();
                }
            } }, cells(item, most, note(item)),
        item.kind === 'range' ? h('span', { role: 'cell' }) : h('span', { role: 'cell' },
            iconButton('open', 'Open (Space)', (event) => {
                event.stopPropagation();
                full();
            }, { tabIndex: -1 })));

        element.index = index;
        return element;
    };
    const table = rowsView('Items of the window', items, row);

    // Shows the row of an item, which is given by its number in the plan.
    table.showItem = (index) => {
        const place = items().indexOf(plan.peek().items[index]);

        if (place >= 0)
            table.show(place);
    };
    effect(() => {
        for (const element of table.querySelectorAll('.item'))
            element.classList.toggle('hot', element.index === hot.value);
    });
    return { filters: filters(show, kind, words, sort), table };
}
