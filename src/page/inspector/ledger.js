// ledger.js - the model calls of a session, with their tokens and cost.
import { brief, count, effect, h, money, onEnd, plural, signal, time } from '../core.js';
import { get } from '../api.js';
import { attempt, button, save, visible } from '../parts.js';
import { cachedShare, costText, countText, csvOf, inputOf, sumOf } from '../cost.js';
import { sessionHash } from '../store.js';

const PAGE = 100;
const SAVED_MAX = 10000; // calls in a file
const REFRESH_MS = 500;
const DAY_S = 86400;
const COLUMNS = ['created_at', 'purpose', 'provider', 'model', 'agent', 'turn_id', 'input_tokens',
    'cache_read_tokens', 'cache_write_tokens', 'output_tokens', 'reasoning_tokens', 'cost_micros',
    'price_version'];

function callRow(chat, call) {
    const when = time(call.created_at);

    return h('tr', null,
        h('td', null, call.turn_id ? h('a', { href: `${sessionHash(chat.name)}/t/`
            + encodeURIComponent(call.turn_id), title: 'The turn' }, when) : when),
        h('td', null, call.purpose, h('span', { class: 'dim under' }, visible(call.model))),
        h('td', { class: 'number to-right' }, count(inputOf(call))),
        h('td', { class: 'number to-right' }, `${cachedShare(call)} %`),
        h('td', { class: 'number to-right' }, countText(call.output_tokens)),
        h('td', { class: 'number to-right' }, costText(call.cost_micros)));
}

function sumRow(calls, hasMore) {
    const sum = sumOf(calls);

    return h('tr', null,
        h('th', { scope: 'row', colSpan: 2 }, `${hasMore ? 'The newest ' : ''}`
            + plural(calls.length, 'call')),
        h('td', { class: 'number to-right' }, count(inputOf(sum))),
        h('td', { class: 'number to-right' }, `${cachedShare(sum)} %`),
        h('td', { class: 'number to-right' }, countText(sum.output_tokens)),
        h('td', { class: 'number to-right' }, costText(sum.cost_micros)));
}

function table(chat, calls, hasMore) {
    const heads = [['When'], ['What'], ['Input', true], ['Cached', true], ['Output', true],
        ['Cost', true]];

    return h('div', { class: 'table', tabIndex: 0 }, h('table', { class: 'calls' },
        h('caption', { class: 'sr' }, 'Model calls of this session'),
        h('thead', null, h('tr', null, heads.map(([name, isNumber]) => h('th', { scope: 'col',
            class: isNumber ? 'to-right' : null }, name)))),
        h('tbody', null, calls.map((call) => callRow(chat, call))),
        h('tfoot', null, sumRow(calls, hasMore))));
}

function figures(total) {
    return h('div', { class: 'figures' }, h('p', { class: 'big' },
        h('b', { class: 'number' }, total.cost_micros ? money(total.cost_micros)
            : count(total.calls)), !total.cost_micros && h('span', { class: 'dim' },
            total.calls === 1 ? ' call' : ' calls')),
    h('p', { class: 'dim whole' }, [total.cost_micros && plural(total.calls, 'call'),
        `in ${brief(inputOf(total))}`, `out ${brief(total.output_tokens)}`,
        `${cachedShare(total)} % from cache`].filter(Boolean).join(' · ')));
}

// A choice among the names that the session has.
function filter(label, chosen, names) {
    return h('label', null, `${label} `, h('select', {
        onchange: (event) => { chosen.value = event.target.value; } },
    h('option', { value: '' }, 'all'),
    names.map((name) => h('option', { value: name, selected: name === chosen.peek() },
        visible(name)))));
}

const dayAfter = (day) => new Date(Date.parse(day) + DAY_S * 1000).toISOString().slice(0, 10);

class Calls {
    constructor(chat) {
        this.chat = chat;
        this.list = signal(null);
        this.cursor = signal(null);
        this.total = signal(null);
        this.names = signal({ purpose: [], model: [] });
        this.problem = signal('');
        this.purpose = signal('');
        this.model = signal('');
        this.day = signal('');
        this.version = 0;
    }

    query(cursor) {
        const query = new URLSearchParams({ session: this.chat.id, limit: PAGE });

        if (this.purpose.value)
            query.set('purpose', this.purpose.value);
        if (this.model.value)
            query.set('model', this.model.value);
        if (this.day.value) {
            query.set('from', `${this.day.value}T00:00:00Z`);
            query.set('to', `${dayAfter(this.day.value)}T00:00:00Z`);
        }
        if (cursor)
            query.set('cursor', cursor);
        return `ledger?${query}`;
    }

    // Reads the first page, or the next one.
    async read(isMore = false) {
        const version = ++this.version;
        const target = this.query(isMore ? this.cursor.peek() : null);

        try {
            const page = await get(target);

            if (version !== this.version)
                return;
            this.list.value = [...(isMore ? this.list.peek() : []), ...page.calls];
            this.cursor.value = page.cursor;
            this.problem.value = '';
        } catch (error) {
            this.problem.value = error.message;
        }
    }

    async readSums() {
        const of = (by) => get(`${this.chat.base}/usage?by=${by}`);

        try {
            const [purpose, model] = await Promise.all([of('purpose'), of('model')]);
            const names = ({ groups }) => groups.map((group) => group.name).filter(Boolean);

            this.total.value = purpose;
            this.names.value = { purpose: names(purpose), model: names(model) };
        } catch (error) {
            this.problem.value = error.message;
        }
    }

    // All calls that the filters leave.
    async all() {
        while (this.cursor.peek() && this.list.peek().length < SAVED_MAX && !this.problem.peek())
            await this.read(true);
        return this.list.peek();
    }
}

export function ledgerView(chat) {
    const calls = new Calls(chat);
    const name = () => `calls-${chat.id}`;
    let timer = 0;

    effect(() => {
        // Read again when something was said or a turn ended.
        const isWorking = chat.turn.value?.state === 'running';

        if (!chat.session.value || timer || (isWorking && calls.list.peek()))
            return;
        timer = setTimeout(() => {
            timer = 0;
            calls.read();
            calls.readSums();
        }, calls.list.peek() ? REFRESH_MS : 0);
    });
    effect(() => {
        const chosen = [calls.purpose.value, calls.model.value, calls.day.value].join('');

        if (calls.list.peek() || chosen)
            calls.read();
    });
    onEnd(() => clearTimeout(timer));
    return h('section', { class: 'ledger' },
        () => calls.problem.value && h('p', { class: 'problem', role: 'alert' },
            calls.problem.value),
        () => (calls.total.value ? figures(calls.total.value) : h('div', { class: 'skeleton' })),
        h('div', { class: 'filters' },
            () => filter('Purpose', calls.purpose, calls.names.value.purpose),
            () => filter('Model', calls.model, calls.names.value.model),
            h('label', null, 'Day ', h('input', { type: 'date',
                onchange: (event) => { calls.day.value = event.target.value; } }))),
        () => calls.list.value && (calls.list.value.length
            ? table(chat, calls.list.value, Boolean(calls.cursor.value))
            : h('p', { class: 'dim' }, calls.total.value?.calls
                ? 'No model call fits.' : 'No model was called in this session yet.')),
        h('div', { class: 'buttons' },
            () => calls.cursor.value && button('Older calls', () => calls.read(true)),
            button('Save as CSV', () => attempt(async () =>
                save(`${name()}.csv`, csvOf(await calls.all(), COLUMNS), 'text/csv'))),
            button('Save as JSON', () => attempt(async () =>
                save(`${name()}.json`, JSON.stringify(await calls.all(), null, 2))))));
}
