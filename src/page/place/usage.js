// usage.js - what the model calls of a period used and cost: a chart over the time, and sums by
// model, agent, session and purpose.
import { brief, count, DAY_MS, effect, h, money, plural, signal } from '../core.js';
import { get } from '../api.js';
import { button, save, visible } from '../parts.js';
import { cachedShare, costText, countText, csvOf, inputOf, tokensOf } from '../cost.js';
import { frame, nameOf, problemLine } from './place.js';
import { loadSession, me, sessionHash, sessions } from '../store.js';

const HOUR_MS = 3600 * 1000;
const HOURS_OF_DAYS_MAX = 3; // a shorter period is shown by hours
const PERIODS = [7, 30, 90];
const CHART_HEIGHT = 100; // units of the picture
const BY = { day: 'Day', model: 'Model', agent: 'Agent', session: 'Session', purpose: 'Purpose' };
const FILE_COLUMNS = ['name', 'calls', 'input_tokens', 'cache_read_tokens', 'cache_write_tokens',
    'output_tokens', 'reasoning_tokens', 'cost_micros'];

// ---- Days, in UTC as the server counts them ----

const dayOf = (ms) => new Date(ms).toISOString().slice(0, 10);
const startOf = (day) => Date.parse(`${day}T00:00:00Z`);
const isDay = (text) => /^\d{4}-\d\d-\d\d$/.test(text ?? '') && !Number.isNaN(startOf(text));
const dayNames = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const weekdays = new Intl.DateTimeFormat('en', { weekday: 'short', day: 'numeric', month: 'short',
    year: 'numeric', timeZone: 'UTC' });
const hours = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23',
    timeZone: 'UTC' });

// ---- The chart ----

const MEASURES = {
    cost: { label: 'Cost', text: (n) => (n ? money(n) : '$0'),
        stack: (group) => [['assistant', group.cost_micros]] },
    tokens: { label: 'Tokens', text: brief, stack: (group) => [['assistant', group.output_tokens],
        ['user', group.input_tokens + group.cache_write_tokens],
        ['cached', group.cache_read_tokens]] },
    calls: { label: 'Calls', text: brief, stack: (group) => [['system', group.calls]] },
};
const LEGEND = [['assistant', 'Output'], ['user', 'Input'], ['cached', 'Input from cache']];

// The smallest 1, 2 or 5 with zeros that is not below the value.
function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));

    return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value);
}

const heightOf = (stack) => stack.reduce((sum, [, value]) => sum + value, 0);

function bars(slots, measure, top) {
    return slots.map((slot, i) => {
        let y = CHART_HEIGHT;

        return slot.group && measure.stack(slot.group).map(([kind, value]) => {
            const height = CHART_HEIGHT * value / top;

            y -= height;
            return value > 0 && h('rect', { x: i * 10 + 1.5, y, width: 7, height,
                class: `f-${kind}` });
        });
    });
}

const sentence = ({ group, full }, measure) => (group
    ? `${full}: ${measure.text(heightOf(measure.stack(group)))}, ${plural(group.calls, 'call')}`
    : `${full}: no calls`);

function legend() {
    return h('span', { class: 'legend' }, LEGEND.map(([kind, name]) =>
        h('span', null, h('i', { class: `dot k-${kind}` }), name)));
}

function chart(slots, measure) {
    const top = roundUp(slots.reduce((most, { group }) =>
        Math.max(most, group ? heightOf(measure.stack(group)) : 0), 0));
    const said = signal(null); // the slot under the pointer
    const used = slots.filter((slot) => slot.group);
    const svg = h('svg', { viewBox: `0 0 ${slots.length * 10} ${CHART_HEIGHT}`, class: 'chart-bars',
        preserveAspectRatio: 'none', role: 'img', 'aria-label': `${measure.label}: `
            + `${slots[0].full} to ${slots.at(-1).full}, ${used.length} of ${slots.length} with `
            + 'calls. The table below has the numbers.' },
    () => said.value !== null && h('rect', { x: said.value * 10, y: 0, width: 10,
        height: CHART_HEIGHT, class: 'f-hover' }), bars(slots, measure, top));

    svg.addEventListener('pointermove', ({ offsetX }) => {
        const at = Math.floor(offsetX / svg.clientWidth * slots.length);

        said.value = at >= 0 && at < slots.length ? at : null;
    });
    svg.addEventListener('pointerleave', () => { said.value = null; });
    const middle = slots[Math.floor(slots.length / 2)];
    return h('figure', { class: 'chart' },
        h('div', { class: 'chart-box' },
            h('div', { class: 'chart-axis dim', 'aria-hidden': 'true' },
                h('span', null, measure.text(top)), h('span', null, measure.text(top / 2)),
                h('span', null, '0')), svg),
        h('div', { class: 'chart-times dim', 'aria-hidden': 'true' },
            h('span', null, slots[0].name), slots.length > 4 && h('span', null, middle.name),
            slots.length > 1 && h('span', null, slots.at(-1).name)),
        h('figcaption', { class: 'dim' }, () => (said.value === null
            ? measure === MEASURES.tokens && legend()
            : sentence(slots[said.value], measure))));
}

// All days or hours of the period, also those without calls.
function slotsOf(groups, from, to, isHours) {
    const step = isHours ? HOUR_MS : DAY_MS;
    const byTime = new Map(groups.map((group) => [Date.parse(group.from), group]));
    const slots = [];

    for (let at = from; at < to; at += step) {
        const date = new Date(at);
        const clock = isHours ? ` ${hours.format(date)}` : '';
        const day = isHours && to - from <= DAY_MS ? '' : dayNames.format(date);

        slots.push({ at, group: byTime.get(at) ?? null, name: `${day}${clock}`.trim(),
            full: `${weekdays.format(date)}${clock}` });
    }
    return slots;
}

// ---- Tables ----

const COLUMNS = ['Calls', 'Input', 'Cached', 'Output', 'Cost'];

function row(name, group, most) {
    const share = Math.round(100 * (most.cost ? group.cost_micros / most.cost
        : tokensOf(group) / most.tokens));

    return h('tr', null, h('th', { scope: 'row' }, name,
        h('span', { class: 'meter', 'aria-hidden': 'true' },
            h('i', { class: 'k-assistant', style: { width: `${Math.max(1, share)}%` } }))),
    [count(group.calls), countText(inputOf(group)), `${cachedShare(group)} %`,
        countText(group.output_tokens), costText(group.cost_micros)].map((text) =>
        h('td', { class: 'number to-right' }, text)));
}

function table(label, rows) {
    const most = { cost: Math.max(0, ...rows.map(([, group]) => group.cost_micros)),
        tokens: Math.max(1, ...rows.map(([, group]) => tokensOf(group))) };

    return h('div', { class: 'table', tabIndex: 0 }, h('table', { class: 'sums' },
        h('caption', { class: 'sr' }, `Usage by ${label.toLowerCase()}`),
        h('thead', null, h('tr', null, h('th', { scope: 'col' }, label), COLUMNS.map((name) =>
            h('th', { scope: 'col', class: 'to-right' }, name)))),
        h('tbody', null, rows.map(([name, group]) => row(name, group, most)))));
}

function nameCell(by, name) {
    if (name === null)
        return h('span', { class: 'dim' }, by === 'session' ? 'without a session' : 'none');
    return by === 'session' ? h('a', { href: sessionHash(name) }, () => nameOf(name))
        : visible(name);
}

// ---- Figures ----

function tile(name, value, note) {
    return h('div', { class: 'tile' }, h('dt', { class: 'dim' }, name),
        h('dd', null, h('b', { class: 'number' }, value),
            note && h('span', { class: 'dim' }, note)));
}

function tiles(total) {
    return h('dl', { class: 'tiles' }, tile('Cost', total.cost_micros ? money(total.cost_micros)
        : '$0'), tile('Model calls', count(total.calls)),
    tile('Input', brief(inputOf(total)), `${cachedShare(total)} % from cache`),
    tile('Output', brief(total.output_tokens),
        total.reasoning_tokens ? `${brief(total.reasoning_tokens)} reasoning` : 'tokens'));
}

function budgetBar(name, used, max, text, resets) {
    const share = Math.min(100, Math.round(100 * used / max));

    return max > 0 && h('div', { class: 'budget' }, h('p', null, h('b', null, name), ' ',
        h('span', { class: 'dim' }, `${text(used)} of ${text(max)}; full again on ${resets}`)),
    h('div', { class: 'meter', role: 'meter', 'aria-label': name, 'aria-valuenow': share,
        'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuetext': `${share} %` },
    h('i', { class: share >= 90 ? 'k-bad' : 'k-assistant', style: { width: `${share}%` } })));
}

function budget() {
    const limits = me.value?.budget;

    if (!limits)
        return null;
    const resets = dayNames.format(new Date(limits.resets_at));
    const name = 'Budget of this key';

    return [
        budgetBar(`${name}: tokens`, limits.used_tokens, limits.tokens, brief, resets),
        budgetBar(`${name}: cost`, limits.used_cost_micros, limits.cost_micros, money, resets),
    ];
}

// ---- The view ----

class Usage {
    constructor(parameters) {
        const today = dayOf(Date.now());
        const to = isDay(parameters.get('to')) ? parameters.get('to') : today;
        const from = isDay(parameters.get('from')) ? parameters.get('from')
            : dayOf(startOf(to) - 29 * DAY_MS);

        this.from = signal(from < to ? from : to);
        this.to = signal(to);
        this.by = signal(Object.hasOwn(BY, parameters.get('by')) ? parameters.get('by') : 'day');
        this.measure = signal(''); // empty: not chosen
        this.times = signal(null); // {total, slots}
        this.groups = signal(null); // {by, list, isPartial}
        this.problem = signal('');
        this.version = 0;
    }

    get hash() {
        return `#/usage?by=${this.by.value}&from=${this.from.value}&to=${this.to.value}`;
    }

    // A bar of the chart is an hour if there are only a few days.
    get isHours() {
        return this.end() - startOf(this.from.value) <= HOURS_OF_DAYS_MAX * DAY_MS;
    }

    end() {
        return startOf(this.to.value) + DAY_MS;
    }

    async ask(by) {
        const from = new Date(startOf(this.from.peek())).toISOString();

        return get(`usage?by=${by}&from=${from}&to=${new Date(this.end()).toISOString()}`);
    }

    async read() {
        const version = ++this.version;
        const by = this.by.value;
        const unit = this.isHours ? 'hour' : 'day';
        const [from, to] = [startOf(this.from.value), this.end()];

        try {
            const [times, named] = await Promise.all([this.ask(unit),
                by === 'day' ? null : this.ask(by)]);

            if (version !== this.version)
                return;
            this.times.value = { total: times, slots: slotsOf(times.groups, from, to,
                unit === 'hour') };
            this.groups.value = named && { by, list: named.groups.sort((a, b) =>
                b.cost_micros - a.cost_micros || tokensOf(b) - tokensOf(a)),
            isPartial: Boolean(named.partial) };
            this.problem.value = '';
            if (by === 'session')
                this.readNames(named.groups);
        } catch (error) {
            if (error.name !== 'Failure')
                throw error;
            this.problem.value = error.message;
        }
    }

    readNames(groups) {
        for (const { name } of groups) {
            if (name && !sessions.peek()?.some((session) => session.id === name))
                loadSession(name).catch(() => {});
        }
    }

    setPeriod(from, to) {
        this.from.value = from < to ? from : to;
        this.to.value = from < to ? to : from;
    }

    rows() {
        if (this.by.value === 'day')
            return this.times.value.slots.filter((slot) => slot.group).reverse()
                .map((slot) => [slot.full, slot.group]);
        return this.groups.value?.by === this.by.value
            ? this.groups.value.list.map((group) => [nameCell(this.by.value, group.name), group])
            : null;
    }

    file() {
        const rows = this.by.peek() === 'day'
            ? this.times.peek().slots.filter((slot) => slot.group).map((slot) =>
                ({ ...slot.group, name: new Date(slot.at).toISOString() }))
            : this.groups.peek().list;

        save(`usage-by-${this.by.peek()}.csv`, csvOf(rows, FILE_COLUMNS), 'text/csv');
    }
}

function choice(label, chosen, options, isOn) {
    return h('div', { class: 'tabs', role: 'group', 'aria-label': label },
        options.map(([value, name]) => h('button', { type: 'button',
            'aria-pressed': () => String(isOn(value)), onclick: () => chosen(value) }, name)));
}

function periods(usage) {
    const today = dayOf(Date.now());
    const first = (days) => dayOf(startOf(today) - (days - 1) * DAY_MS);
    const field = (label, day) => h('label', null, `${label} `, h('input', { type: 'date',
        value: () => day.value, max: today, onchange: (event) => {
            if (isDay(event.target.value))
                day.value = event.target.value;
            usage.setPeriod(usage.from.peek(), usage.to.peek());
        } }));

    const isChosen = (days) => usage.to.value === today && usage.from.value === first(days);

    return h('div', { class: 'filters' }, choice('Period', (days) =>
        usage.setPeriod(first(days), today), PERIODS.map((days) => [days, `${days} days`]),
    isChosen), field('from', usage.from), field('to', usage.to));
}

export function usageView(parameters) {
    const usage = new Usage(parameters);
    const measure = () => usage.measure.value || (usage.times.value?.total.cost_micros ? 'cost'
        : 'tokens');

    effect(() => {
        // The address names what is shown, but the view stays.
        history.replaceState(null, '', usage.hash);
        usage.read();
    });
    return frame('Usage', () => usage.times.value && plural(usage.times.value.total.calls, 'call'),
        periods(usage), problemLine(usage.problem), budget,
        () => (usage.times.value ? tiles(usage.times.value.total)
            : h('div', { class: 'skeleton' })),
        h('div', { class: 'chart-head' }, h('h2', null, () => (usage.isHours ? 'By hour (UTC)'
            : 'By day (UTC)')), h('span', { class: 'grow' }),
        choice('Measure', (name) => { usage.measure.value = name; }, Object.entries(MEASURES)
            .map(([name, { label }]) => [name, label]), (name) => measure() === name)),
        () => (usage.times.value ? chart(usage.times.value.slots, MEASURES[measure()])
            : h('div', { class: 'skeleton chart-box' })),
        h('div', { class: 'chart-head' }, h('h2', null, 'Sums by'),
            choice('Sums by', (by) => { usage.by.value = by; }, Object.entries(BY), (by) =>
                usage.by.value === by), h('span', { class: 'grow' }),
            button('Save as CSV', () => usage.file())),
        () => {
            const rows = usage.times.value && usage.rows();

            if (!rows)
                return h('div', { class: 'skeleton' });
            return rows.length ? table(usage.by.value === 'day' && usage.isHours ? 'Hour'
                : BY[usage.by.value], rows)
                : h('p', { class: 'dim' }, 'No model was called in this period.');
        },
        () => usage.groups.value?.isPartial && h('p', { class: 'dim' }, 'Only the newest 100,000 '
            + 'calls and 400 names of the period are listed.'));
}
