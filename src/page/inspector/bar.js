// bar.js - a plan as a picture: one bar, in which the width is tokens and the order is that of the
// request, and the bands between two bars.
import { count, effect, h, onEnd, plural, signal } from '../core.js';

const HEIGHT = 44;
const BANDS_HEIGHT = 28;
const THIN = 2; // pixels; thinner neighbors of a kind are drawn as one
const OUT = new Set(['summarized', 'dropped']);

export const KINDS = { system: 'System', tools: 'Tools', summary: 'Summary, notes', user: 'You',
    assistant: 'Model', tool: 'Tool results' };
export const isSent = (item) => !OUT.has(item.disposition);
export const isChanged = (item) => ['pruned', 'repaired'].includes(item.disposition);

export function kindOf(item) {
    if (item.kind === 'summary' || item.kind.startsWith('not'))
        return 'summary';
    if (item.kind === 'system' || item.kind === 'tools' || item.kind === 'range')
        return item.kind;
    return item.role;
}

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
                isChanged: isChanged(item) });
        }
        x += width;
    });
    return segments;
}

// A canvas that is as sharp as the screen. Returns what draws on it, in pixels of the page, with
// `color(name)` for the colors of the page.
export function penOf(canvas, height) {
    const ratio = devicePixelRatio || 1;
    const pen = canvas.getContext('2d');
    const style = getComputedStyle(document.documentElement);
    const known = new Map();

    canvas.width = canvas.clientWidth * ratio;
    canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    pen.color = (name) => {
        if (!known.has(name))
            known.set(name, style.getPropertyValue(name).trim());
        return known.get(name);
    };
    return pen;
}

// Calls `draw` when the element is shown, when its size or the colors change, and when a signal
// changes that it reads.
export function redraw(element, draw) {
    const changes = signal(0);
    const changed = () => { changes.value++; };
    const resized = new ResizeObserver(changed);
    const themed = new MutationObserver(changed);

    effect(() => {
        if (changes.value && element.clientWidth)
            draw();
    });
    resized.observe(element);
    themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    onEnd(() => {
        resized.disconnect();
        themed.disconnect();
    });
}

function hatch(pen, { x, width }) {
    pen.save();
    pen.beginPath();
    pen.rect(x, 0, width, HEIGHT);
    pen.clip();
    pen.strokeStyle = pen.color('--surface');
    pen.lineWidth = 1.5;
    for (let at = x - HEIGHT; at < x + width; at += 6) {
        pen.beginPath();
        pen.moveTo(at, HEIGHT);
        pen.lineTo(at + HEIGHT, 0);
        pen.stroke();
    }
    pen.restore();
}

function drawSegment(pen, segment, isHot) {
    const { x, width, kind } = segment;
    const gap = width > 2 * THIN ? 1 : 0;

    pen.fillStyle = pen.color(`--k-${kind}`);
    pen.fillRect(x, 0, Math.max(0.75, width - gap), HEIGHT);
    if (segment.isChanged)
        hatch(pen, segment);
    if (segment.isPinned) {
        pen.fillStyle = pen.color('--pin');
        pen.fillRect(x, 0, Math.max(THIN, width - gap), 5);
    }
    if (isHot) {
        pen.strokeStyle = pen.color('--text');
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, 1, Math.max(THIN, width - 2), HEIGHT - 2);
    }
}

const NO_LIMIT = 2 ** 31; // tokens; plans for models without a limit have even more

export const hasLimit = (plan) => plan.usable < NO_LIMIT;

// The tokens that are kept for the answer. 0 if they would make everything else narrow, because the
// session uses only a small part of the model.
export function roomOf(plan) {
    const { usable, limits } = plan;
    const rest = Math.max(0, limits.context - usable);
    const room = limits.output ? Math.min(limits.output, rest) : rest;

    return hasLimit(plan) && room <= usable / 2 ? room : 0;
}

// From where the strategy makes room, what can be sent at most, and the room for the answer.
function drawLimits(pen, plan, scale) {
    const { threshold } = plan.limits;
    const usable = plan.usable * scale;

    if (!hasLimit(plan))
        return;
    pen.fillStyle = pen.color('--k-range');
    pen.fillRect(usable, 0, roomOf(plan) * scale, HEIGHT);
    if (threshold && threshold < plan.usable) {
        pen.strokeStyle = pen.color('--warn');
        pen.lineWidth = 2;
        pen.setLineDash([3, 3]);
        pen.beginPath();
        pen.moveTo(threshold * scale, 0);
        pen.lineTo(threshold * scale, HEIGHT);
        pen.stroke();
        pen.setLineDash([]);
    }
    pen.fillStyle = pen.color('--bad');
    pen.fillRect(usable - 1, 0, 2, HEIGHT);
}

function draw(canvas, plan, full, hot) {
    const width = canvas.clientWidth;
    const scale = width / full;
    const segments = segmentsOf(plan.items, scale);
    const pen = penOf(canvas, HEIGHT);

    pen.fillStyle = pen.color('--bar-free');
    pen.fillRect(0, 0, width, HEIGHT);
    drawLimits(pen, plan, scale);
    for (const segment of segments)
        drawSegment(pen, segment, hot >= segment.from && hot <= segment.to);
    if (plan.prefix?.tokens) {
        pen.fillStyle = pen.color('--accent');
        pen.fillRect(0, HEIGHT - 3, plan.prefix.tokens * scale, 3);
    }
    return segments;
}

// How many tokens a bar shows if the plans are drawn at one scale.
export function lengthOf(plans) {
    return plans.filter(Boolean).reduce((most, plan) =>
        Math.max(most, hasLimit(plan) ? plan.usable + roomOf(plan) : 0, plan.tokens_plain), 1);
}

// "1,124 of 11,000 tokens"
const fillText = (plan) => count(plan.tokens) + (hasLimit(plan) ? ` of ${count(plan.usable)}` : '')
    + ' tokens';

// `length()` is how many tokens the bar shows. `onPick` gets the number of an item.
export function barView(plan, label, hot, length, onPick) {
    const canvas = h('canvas', { class: 'bar', role: 'img', 'aria-label': () => {
        const now = plan.value;

        return now ? `${label}: ${fillText(now)} in `
            + `${plural(now.items.filter(isSent).length, 'item')}` : label;
    } });
    let segments = [];
    const at = (event) => segments.find((one) => event.offsetX >= one.x &&
        event.offsetX < one.x + Math.max(THIN, one.width));

    redraw(canvas, () => {
        if (plan.value)
            segments = draw(canvas, plan.value, length(), hot.value);
    });
    canvas.addEventListener('pointermove', (event) => { hot.value = at(event)?.from ?? -1; });
    canvas.addEventListener('pointerleave', () => { hot.value = -1; });
    canvas.addEventListener('click', (event) => {
        const segment = at(event);

        if (segment)
            onPick(segment.from);
    });
    return canvas;
}

// ---- Bands ----

// Where each sent item begins and ends, by its hash.
function places(plan) {
    const found = new Map();
    let at = 0;

    for (const item of plan.items.filter(isSent)) {
        if (item.hash && !found.has(item.hash))
            found.set(item.hash, [at, at + item.tokens, kindOf(item)]);
        at += item.tokens;
    }
    return found;
}

// Neighbors that are neighbors in both plans become one band.
function bandsOf(above, below) {
    const bands = [];
    const others = places(below);

    for (const [hash, [from, to, kind]] of places(above)) {
        const [start, end] = others.get(hash) ?? [];
        const last = bands.at(-1);

        if (start === undefined)
            continue;
        if (last && last.to === from && last.end === start)
            Object.assign(last, { to, end });
        else
            bands.push({ from, to, start, end, kind });
    }
    return bands;
}

// Joins the items that two plans share.
export function bandsView(above, below, length) {
    const canvas = h('canvas', { class: 'bands', 'aria-hidden': 'true' });

    redraw(canvas, () => {
        const scale = canvas.clientWidth / length();
        const pen = penOf(canvas, BANDS_HEIGHT);

        if (!above.value || !below.value)
            return;
        pen.globalAlpha = 0.35;
        for (const band of bandsOf(above.value, below.value)) {
            pen.fillStyle = pen.color(`--k-${band.kind}`);
            pen.beginPath();
            pen.moveTo(band.from * scale, 0);
            pen.lineTo(Math.max(band.to * scale, band.from * scale + 1), 0);
            pen.lineTo(Math.max(band.end * scale, band.start * scale + 1), BANDS_HEIGHT);
            pen.lineTo(band.start * scale, BANDS_HEIGHT);
            pen.fill();
        }
    });
    return canvas;
}
