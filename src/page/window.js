// window.js - the plan as a picture: what the model gets, item by item, and why.
import { count, effect, h, money, onEnd, plural, signal } from './core.js';
import { get, path } from './api.js';
import { attempt, button, dialog, visible } from './parts.js';
import { me, models } from './store.js';

const ROW = 36; // pixels
const ROWS_SPARE = 8; // made above and below the visible ones
const BAR_HEIGHT = 44;
const THIN = 2; // pixels; thinner neighbors of a kind are drawn as one
const OUT = new Set(['summarized', 'dropped']);
const KINDS = { system: 'System', tools: 'Tools', summary: 'Summary, notices', user: 'You',
    assistant: 'Model', tool: 'Tool results' };
const STRATEGIES = ['compact', 'window', 'reset', 'none'];
const ACTIONS = { send: ['fits', 'good'], prune: ['will prune', 'warn'],
    compact: ['will compact', 'warn'], refuse: ['does not fit', 'bad'] };

const isSent = (item) => !OUT.has(item.disposition);

function kindOf(item) {
    if (item.kind === 'summary' || item.kind === 'notice')
        return 'summary';
    if (item.kind === 'system' || item.kind === 'tools' || item.kind === 'range')
        return item.kind;
    return item.role;
}

// ---- The bar ----

// Neighbors of the same kind that are too thin to see become one.
function segmentsOf(items, scale) {
    const segments = [];
    let x = 0;

    items.forEach((item, index) => {
        const width = item.tokens * scale;
        const kind = kindOf(item);
        const last = segments.at(-1);

        if (!isSent(item))
            return;
        if (last && width < THIN && last.width < THIN + 1 && last.kind === kind && !item.pinned) {
            last.width += width;
            last.to = index;
        } else {
            segments.push({ x, width, kind, from: index, to: index, isPinned: item.pinned,
                isChanged: ['pruned', 'repaired'].includes(item.disposition) });
        }
        x += width;
    });
    return segments;
}

const colorOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function hatch(pen, { x, width }, height) {
    pen.save();
    pen.beginPath();
    pen.rect(x, 0, width, height);
    pen.clip();
    pen.strokeStyle = colorOf('--surface');
    pen.lineWidth = 1.5;
    for (let at = x - height; at < x + width; at += 6) {
        pen.beginPath();
        pen.moveTo(at, height);
        pen.lineTo(at + height, 0);
        pen.stroke();
    }
    pen.restore();
}

function drawBar(canvas, plan, full, hot) {
    const width = canvas.clientWidth;
    const ratio = devicePixelRatio || 1;
    const scale = width / full;
    const segments = segmentsOf(plan.items, scale);
    const pen = canvas.getContext('2d');

    canvas.width = width * ratio;
    canvas.height = BAR_HEIGHT * ratio;
    pen.scale(ratio, ratio);
    pen.fillStyle = colorOf('--bar-free');
    pen.fillRect(0, 0, width, BAR_HEIGHT);
    for (const segment of segments) {
        const gap = segment.width > 2 * THIN ? 1 : 0;

        pen.fillStyle = colorOf(`--k-${segment.kind}`);
        pen.fillRect(segment.x, 0, Math.max(0.75, segment.width - gap), BAR_HEIGHT);
        if (segment.isChanged)
            hatch(pen, segment, BAR_HEIGHT);
        if (segment.isPinned) {
            pen.fillStyle = colorOf('--pin');
            pen.fillRect(segment.x, 0, Math.max(THIN, segment.width - gap), 5);
        }
        if (hot >= segment.from && hot <= segment.to) {
            pen.strokeStyle = colorOf('--text');
            pen.lineWidth = 2;
            pen.strokeRect(segment.x + 1, 1, Math.max(THIN, segment.width - 2), BAR_HEIGHT - 2);
        }
    }
    if (plan.prefix?.tokens) {
        pen.fillStyle = colorOf('--accent');
        pen.fillRect(0, BAR_HEIGHT - 3, plan.prefix.tokens * scale, 3);
    }
    if (plan.usable && plan.usable < full) {
        pen.fillStyle = colorOf('--bad');
        pen.fillRect(plan.usable * scale - 1, 0, 2, BAR_HEIGHT);
    }
    return segments;
}

// `shared` has the longest length that a bar shows, so that two bars can be compared.
function barView(plan, label, hot, shared, onPick) {
    const canvas = h('canvas', { class: 'bar', role: 'img', 'aria-label': () => {
        const now = plan.value;

        return now ? `${label}: ${count(now.tokens)} of ${count(now.usable)} tokens in `
            + `${plural(now.items.filter(isSent).length, 'item')}` : label;
    } });
    let segments = [];
    const draw = () => {
        if (plan.value && canvas.clientWidth)
            segments = drawBar(canvas, plan.value, shared(), hot.value);
    };
    const at = (event) => segments.find((one) => event.offsetX >= one.x &&
        event.offsetX < one.x + Math.max(THIN, one.width));
    const resized = new ResizeObserver(draw);

    effect(draw);
    resized.observe(canvas);
    onEnd(() => resized.disconnect());
    canvas.addEventListener('pointermove', (event) => { hot.value = at(event)?.from ?? -1; });
    canvas.addEventListener('pointerleave', () => { hot.value = -1; });
    canvas.addEventListener('click', (event) => {
        const segment = at(event);

        if (segment)
            onPick(segment.from);
    });
    return canvas;
}

// ---- The items ----

function nameOf(item) {
    if (item.kind === 'range')
        return `${count(item.first_seq)}–${count(item.seq)}`;
    return item.seq ? `#${count(item.seq)}` : item.kind;
}

function whatOf(item) {
    if (item.kind === 'range')
        return plural(item.count, 'message');
    if (item.kind === 'tools')
        return plural(item.count, 'tool');
    return item.kind === 'message' ? KINDS[item.role] ?? item.role : '';
}

function itemRow(item, index, most, hot, open) {
    const kind = kindOf(item);
    const share = isSent(item) ? Math.max(1, Math.round(100 * item.tokens / most)) : 0;
    const row = h('div', { class: `item d-${item.disposition}`, role: 'row', tabIndex: -1,
        'aria-rowindex': index + 1, style: { top: `${index * ROW}px` },
        onpointerenter: () => { hot.value = index; }, onclick: () => open(item),
        onkeydown: (event) => {
            if (event.key === 'Enter')
                open(item);
        } },
    h('span', { role: 'cell', class: 'where number' }, h('i', { class: `dot k-${kind}` }),
        nameOf(item), item.pinned && h('i', { class: 'pinned', title: 'pinned' }, '●')),
    h('span', { role: 'cell' }, whatOf(item)),
    h('span', { role: 'cell', class: 'number end' }, count(item.tokens)),
    h('span', { role: 'cell', class: 'meter', 'aria-hidden': 'true' },
        h('i', { class: `k-${kind}`, style: { width: `${share}%` } })),
    h('span', { role: 'cell' }, h('span', { class: `chip s-${item.disposition}` },
        item.disposition)),
    h('span', { role: 'cell', class: 'dim clip', title: item.reason }, visible(item.reason)));

    return row;
}

// A table of any length: only the visible rows are made.
function table(plan, hot, open) {
    const inner = h('div', { class: 'rows', role: 'rowgroup' });
    const box = h('div', { class: 'items', role: 'table', 'aria-label': 'Items of the window',
        tabIndex: 0 }, inner);
    let items = [];
    let shown = '';
    const draw = () => {
        const first = Math.max(0, Math.floor(box.scrollTop / ROW) - ROWS_SPARE);
        const last = Math.min(items.length,
            Math.ceil((box.scrollTop + box.clientHeight) / ROW) + ROWS_SPARE);
        const most = items.filter(isSent).reduce((max, item) => Math.max(max, item.tokens), 1);

        if (shown === `${first} ${last}`)
            return;
        shown = `${first} ${last}`;
        inner.replaceChildren(...items.slice(first, last).map((item, i) =>
            itemRow(item, first + i, most, hot, open)));
    };
    const resized = new ResizeObserver(draw);

    box.addEventListener('scroll', draw, { passive: true });
    resized.observe(box);
    onEnd(() => resized.disconnect());
    effect(() => {
        items = plan.value?.items ?? [];
        shown = '';
        inner.style.height = `${items.length * ROW}px`;
        box.setAttribute('aria-rowcount', items.length);
        draw();
    });
    box.addEventListener('keydown', (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const at = Number(document.activeElement.getAttribute('aria-rowindex') ?? 0) - 1;

        if (!step)
            return;
        event.preventDefault();
        box.show(at + step);
    });
    box.show = (index) => {
        if (index < 0 || index >= items.length)
            return;
        box.scrollTop = Math.max(0, index * ROW - box.clientHeight / 2);
        draw();
        inner.querySelector(`[aria-rowindex="${index + 1}"]`)?.focus({ preventScroll: true });
        hot.value = index;
    };
    return box;
}

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
        entry('free', 'Free', count(Math.max(0, plan.usable - plan.tokens))),
        out > 0 && entry('range', 'Not sent', plural(out, 'message')));
}

function figures(plan) {
    const [word, color] = ACTIONS[plan.action] ?? [plan.action, ''];

    return h('div', { class: 'figures' }, h('p', { class: 'big' },
        h('b', { class: 'number' }, count(plan.tokens)),
        h('span', { class: 'dim' }, ` of ${count(plan.usable)} tokens`)),
    h('span', { class: `chip ${color}` }, word),
    h('span', { class: 'dim' }, [plan.strategy,
        plan.reason !== word && visible(plan.reason), plan.is_estimate && 'estimated']
        .filter(Boolean).join(' · ')));
}

function cacheLine(plan) {
    const { tokens, break: cause } = plan.prefix ?? {};

    if (!tokens && !cause)
        return null;
    return h('p', { class: 'dim cache' }, h('i', { class: 'line' }),
        `The first ${count(tokens)} tokens are those of the last request`
        + `${cause ? `; then ${cause}` : ''}.`);
}

// ---- What if ----

// How many items are the same, new or gone, and how much of the beginning is equal.
function compare(now, other) {
    const left = new Map();
    let same = 0;
    let shared = 0;
    const sent = (plan) => plan.items.filter((item) => isSent(item) && item.hash);
    const [mine, theirs] = [sent(now), sent(other)];

    for (const { hash } of mine)
        left.set(hash, (left.get(hash) ?? 0) + 1);
    for (const { hash } of theirs) {
        if (left.get(hash)) {
            left.set(hash, left.get(hash) - 1);
            same++;
        }
    }
    for (let i = 0; i < theirs.length && mine[i]?.hash === theirs[i].hash; i++)
        shared += theirs[i].tokens;
    return { same, gone: mine.length - same, fresh: theirs.length - same, shared };
}

function difference(now, other) {
    const { same, gone, fresh, shared } = compare(now, other);
    const tokens = other.tokens - now.tokens;

    return h('p', { class: 'difference' }, `${plural(same, 'item')} stay, `,
        h('b', { class: 'c-removed' }, `${count(gone)} gone`), ', ',
        h('b', { class: 'c-added' }, `${count(fresh)} new`),
        `; ${tokens < 0 ? '−' : '+'}${count(Math.abs(tokens))} tokens. The first `
        + `${count(shared)} tokens are the same.`);
}

function whatIf(chat, now, hot, shared) {
    const other = signal(null);
    const problem = signal('');
    const model = signal('');
    const strategy = signal('');
    const select = (label, chosen, options) => h('label', null, label, ' ', h('select', {
        onchange: (event) => { chosen.value = event.target.value; } },
    h('option', { value: '' }, 'as it is now'),
    options.map((one) => h('option', { value: one }, one))));

    effect(() => {
        const query = new URLSearchParams();

        if (model.value)
            query.set('model', model.value);
        if (strategy.value)
            query.set('strategy', strategy.value);
        problem.value = '';
        if (!now.value || !String(query)) {
            other.value = null;
            return;
        }
        get(`${path('sessions', chat.name)}/context?${query}`).then(
            (plan) => { other.value = plan; }, (error) => { problem.value = error.message; });
    });
    shared.others.push(other);
    return h('fieldset', { class: 'what-if' }, h('legend', null, 'What if'),
        () => models.value.length > 1 && select('Model', model,
            [...new Set(models.value.map((one) => one.model))]),
        select('Strategy', strategy, STRATEGIES),
        () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value),
        () => other.value && [barView(other, 'The other window', hot, shared, () => {}),
            figures(other.value), difference(now.value, other.value)]);
}

// ---- Compact ----

function compactDialog(chat, plan) {
    const sent = plan.items.filter((item) => item.kind === 'message' && isSent(item));
    const pinned = sent.filter((item) => item.pinned);
    const price = models.peek().find((one) => one.is_default)?.price;
    const prompt = h('textarea', { rows: 2, 'aria-label': 'Instructions for the summary',
        placeholder: 'Instructions for the summary (optional)' });
    const tokens = sent.reduce((sum, item) => sum + item.tokens, 0);

    dialog('Compact', (close) => [
        h('p', null, 'A model writes a summary, which replaces the older messages in the window. '
            + 'Nothing is deleted, and it can be undone.'),
        h('ul', { class: 'facts' },
            h('li', null, `${plural(sent.length, 'message')} with ${count(tokens)} tokens are in `
                + 'the window now.'),
            h('li', null, `${plural(pinned.length, 'pinned message')} and the last question stay.`),
            price?.input ? h('li', null, `Reading them costs about ${money(tokens * price.input
                / 1e6)}.`) : null),
        prompt,
        h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary',
            onclick: () => {
                close();
                attempt(() => chat.compact(prompt.value.trim() ? { prompt: prompt.value } : {}));
            } }, 'Compact'), button('Cancel', close)),
    ]);
}

// ---- The view ----

export function windowView(chat) {
    const hot = signal(-1);
    const plan = chat.plan;
    const shared = () => [plan, ...shared.others].reduce((most, { value }) =>
        Math.max(most, value?.usable ?? 0, value?.tokens_plain ?? 0), 1);
    const open = (item) => {
        const seq = item.kind === 'range' ? item.first_seq : item.seq;

        if (seq)
            chat.list.toSeq(seq);
    };
    const isCompacted = () => plan.value.items.some((item) => item.kind === 'range' &&
        item.disposition === 'summarized');

    shared.others = [];
    const items = table(plan, hot, open);
    return h('section', { class: 'window' },
        () => chat.planProblem.value && h('p', { class: 'problem', role: 'alert' },
            chat.planProblem.value),
        () => (plan.value ? figures(plan.value) : h('div', { class: 'skeleton' })),
        barView(plan, 'The window', hot, shared, (index) => items.show(index)),
        () => plan.value && [cacheLine(plan.value), legend(plan.value)],
        () => plan.value && h('div', { class: 'buttons' },
            button('Compact…', () => compactDialog(chat, plan.peek()), { class: 'plain writes' }),
            isCompacted() && button('Undo the compaction', () =>
                attempt(() => chat.uncompact()), { class: 'plain writes' }),
            // A new tab sends the cookie of a login only, which is not enough.
            me.value?.open && h('a', { class: 'plain json', target: '_blank',
                title: 'The same as JSON',
                href: `api/v1/${path('sessions', chat.name)}/context` }, '{ } JSON')),
        whatIf(chat, plan, hot, shared), items);
}
