// life.js - the life of a session on a line: what was said, what was sent, what was read anew, and
// its marks and forks. The axis is the number of the message, or its time without the idle gaps.
import { count, effect, h, plural, signal } from '../core.js';
import { get } from '../api.js';
import { attempt, button } from '../parts.js';
import { WHO } from '../message.js';
import { penOf, redraw } from './bar.js';

const SPAN = 2000; // messages that are shown at most
const PAGE = 1000;
const GAP_MS = 10 * 60 * 1000; // longer pauses are drawn as this long
const DRAG_MIN = 6; // pixels; less is a click
// The rows from the top: [name, height]
const ROWS = [['Said', 48], ['Sent', 40], ['Read', 32], ['Marks', 26], ['Forks', 16]];
const GAP = 8;
const HEIGHT = ROWS.reduce((sum, [, height]) => sum + height + GAP, 0);
const tops = Object.fromEntries(ROWS.map(([name, height], i) => [name, { height,
    top: ROWS.slice(0, i).reduce((sum, row) => sum + row[1] + GAP, 0) }]));
export const GLYPHS = { rewind: '↩', reset: '⌫', checkpoint: '◆', prune: '✂', hide: '◌', epoch: '§',
    pin: '●', unpin: '○', undo: '↺' };
const COLORS = { checkpoint: '--k-summary', pin: '--pin', unpin: '--pin' };

// ---- The axis ----

// Where each message begins, as a share of the length, and where the last one ends.
function placesOf(messages, isByTime) {
    const weights = messages.map((message, i) => {
        const next = messages[i + 1];

        return isByTime && next ? 1000 + Math.min(GAP_MS,
            Math.max(0, Date.parse(next.created_at) - Date.parse(message.created_at))) : 1;
    });
    const sum = isByTime ? weights.reduce((all, one) => all + one, 0) * 1.02 : weights.length;
    const places = [0];

    if (isByTime)
        weights[weights.length - 1] = sum / 50;
    for (const weight of weights)
        places.push(places.at(-1) + weight / sum);
    return places;
}

// ---- Drawing ----

function drawBars(pen, name, width, places, values) {
    const { top, height } = tops[name];
    const most = values.reduce((max, one) => Math.max(max, one?.[0]?.[0] ?? 0), 1);

    // [value, color], the tallest first, on the same place
    values.forEach((stack, i) => {
        for (const [value, color] of stack ?? []) {
            const tall = value > 0 ? Math.max(3, height * value / most) : 0;

            pen.fillStyle = pen.color(color);
            pen.fillRect(places[i] * width, top + height - tall,
                Math.max(1, (places[i + 1] - places[i]) * width - 0.5), tall);
        }
    });
    pen.fillStyle = pen.color('--line');
    pen.fillRect(0, top + height, width, 1);
}

// What was sent for each answer, as a line: it falls where the window was compacted.
function drawSent(pen, width, places, messages) {
    const { top, height } = tops.Sent;
    const sent = messages.map((message) => message.palaver_sent?.tokens ?? 0);
    const most = Math.max(1, ...sent);
    let last = null;

    pen.fillStyle = pen.color('--line');
    pen.fillRect(0, top + height, width, 1);
    pen.strokeStyle = pen.color('--accent');
    pen.lineWidth = 1.5;
    pen.beginPath();
    sent.forEach((tokens, i) => {
        const x = (places[i] + places[i + 1]) / 2 * width;
        const y = top + height - tokens / most * (height - 2);

        if (!tokens)
            return;
        if (last === null)
            pen.moveTo(x, y);
        else
            pen.lineTo(x, y);
        last = y;
    });
    pen.stroke();
    if (sent.filter(Boolean).length === 1) // a line needs two
        pen.fillRect(places[sent.findIndex(Boolean)] * width, last, 3, 3);
}

// `xAfter` returns where a message ends.
function drawMark(pen, xAfter, mark) {
    const { top, height } = tops.Marks;
    const seq = mark.seq ?? 0;
    const y = top + height / 2;
    const x = (xAfter(seq - 1) + xAfter(seq)) / 2;

    pen.globalAlpha = mark.standing ? 1 : 0.45;
    pen.fillStyle = pen.color(mark.inherited ? '--k-range' : COLORS[mark.kind] ?? '--accent');
    if (mark.kind === 'checkpoint') {
        pen.fillRect(0, top + height - 3, xAfter(seq), 3);
    } else if (mark.kind === 'rewind' || mark.kind === 'reset') {
        pen.globalAlpha *= 0.35;
        pen.fillRect(xAfter(seq), top,
            Math.max(2, xAfter(mark.through_seq ?? 0) - xAfter(seq)), height);
        pen.globalAlpha = mark.standing ? 1 : 0.45;
    }
    pen.font = '14px sans-serif';
    pen.textAlign = 'center';
    pen.textBaseline = 'middle';
    if (mark.standing) {
        pen.fillText(GLYPHS[mark.kind] ?? '·', x, y);
    } else {
        pen.strokeStyle = pen.fillStyle;
        pen.lineWidth = 0.75;
        pen.strokeText(GLYPHS[mark.kind] ?? '·', x, y);
    }
    pen.globalAlpha = 1;
}

function drawForks(pen, width, xAfter, forks) {
    const { top, height } = tops.Forks;

    pen.fillStyle = pen.color('--text');
    pen.fillRect(0, top + 2, width, 2);
    for (const fork of forks) {
        const x = xAfter(fork.fork_seq);

        pen.fillRect(x, top + 2, 2, height - 4);
        pen.fillRect(x, top + height - 3, 8, 2);
    }
}

// ---- The data ----

async function readRange(chat, from, to) {
    const all = [];

    while (from + all.length <= to) {
        const { messages } = await get(`${chat.base}/messages?after=${from - 1 + all.length}`
            + `&limit=${Math.min(PAGE, to - from + 1 - all.length)}&hidden=true`);

        if (!messages.length)
            break;
        // The texts are not needed.
        all.push(...messages.map(({ seq, role, tokens, created_at, hidden, usage,
            palaver_sent }) => ({ seq, role, tokens, created_at, hidden, usage, palaver_sent })));
    }
    return all;
}

function saidOf(message) {
    return message && `#${count(message.seq)} · ${WHO[message.role] ?? message.role} · `
        + `${plural(message.tokens ?? 0, 'token')} · `
        + `${new Date(message.created_at).toLocaleString('en')}`;
}

// `forks` is a signal of the sessions that were forked from this one.
export function lifeView(chat, forks) {
    const range = signal(null); // [from, to]; null: the newest messages
    const messages = signal([]);
    const isByTime = signal(false);
    const hot = signal(-1);
    const drag = signal(null); // [start, end] in pixels
    let version = 0;
    const shown = () => {
        const last = chat.session.value?.last_seq ?? 0;

        return range.value ?? [Math.max(1, last - SPAN + 1), last];
    };
    const canvas = h('canvas', { class: 'life', role: 'img', style: { height: `${HEIGHT}px` },
        'aria-label': () =>
        `The life of the session: ${plural(messages.value.length, 'message')} and `
            + `${plural(chat.markList.value.length, 'mark')}` });
    let places = [0];
    const indexAt = (x) => {
        const share = x / canvas.clientWidth;

        return Math.min(messages.peek().length - 1,
            places.findLastIndex((place) => place <= share));
    };

    effect(() => {
        const [from, to] = shown();
        const mine = ++version;

        if (chat.marks.value >= 0)
            attempt(() => readRange(chat, from, to)).then((list) => {
                if (list && mine === version)
                    messages.value = list;
            });
    });
    redraw(canvas, () => {
        const list = messages.value;
        const width = canvas.clientWidth;
        const pen = penOf(canvas, HEIGHT);
        const first = list[0]?.seq ?? 1;
        const xAfter = (seq) => width *
            places[Math.max(0, Math.min(list.length, seq - first + 1))];

        places = placesOf(list, isByTime.value);
        drawBars(pen, 'Said', width, places, list.map((one) =>
            [[one.tokens ?? 0, one.hidden ? '--k-range' : `--k-${one.role}`]]));
        drawSent(pen, width, places, list);
        drawBars(pen, 'Read', width, places, list.map(({ usage }) => usage &&
            [[usage.input_tokens + (usage.cache_read_tokens ?? 0), '--k-range'],
                [usage.input_tokens ?? 0, '--accent']]));
        for (const mark of chat.markList.value.filter((one) => one.kind !== 'undo' &&
            (one.seq ?? 0) <= first + list.length))
            drawMark(pen, xAfter, mark);
        drawForks(pen, width, xAfter, forks.value);
        if (list[hot.value]) {
            pen.fillStyle = pen.color('--text');
            pen.fillRect((places[hot.value] + places[hot.value + 1]) / 2 * width, 0, 1, HEIGHT);
        }
        if (drag.value) {
            pen.globalAlpha = 0.15;
            pen.fillStyle = pen.color('--accent');
            pen.fillRect(Math.min(...drag.value), 0,
                Math.abs(drag.value[1] - drag.value[0]), HEIGHT);
        }
    });
    usePointer(canvas, { hot, drag, indexAt, show: (i) => {
        const seq = messages.peek()[i]?.seq;

        if (seq)
            chat.list.toSeq(seq);
    }, zoom: (from, to) => {
        const [first, last] = [messages.peek()[from], messages.peek()[to]];

        if (last?.seq > first?.seq)
            range.value = [first.seq, last.seq];
    } });
    return h('figure', { class: 'life-box' },
        h('div', { class: 'life-rows' },
            h('ul', { class: 'life-names', 'aria-hidden': 'true' },
                ROWS.map(([name, height]) => h('li', { style: { height: `${height + GAP}px` } },
                    name))), canvas),
        h('figcaption', { class: 'dim' }, h('span', { class: 'now' }, () =>
            saidOf(messages.value[hot.value]) ?? `Messages ${shown().map(count).join(' to ')}`),
        moves(chat, range, shown),
        h('button', { type: 'button', class: 'plain', 'aria-pressed': () =>
            String(isByTime.value), onclick: () => { isByTime.value = !isByTime.peek(); } },
        'By time')));
}

// A click shows a message, and a drag zooms.
function usePointer(canvas, { hot, drag, indexAt, show, zoom }) {
    let start = null;

    canvas.addEventListener('pointerdown', (event) => {
        start = event.offsetX;
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
        hot.value = indexAt(event.offsetX);
        if (start !== null && Math.abs(event.offsetX - start) > DRAG_MIN)
            drag.value = [start, event.offsetX];
    });
    canvas.addEventListener('pointerleave', () => { hot.value = -1; });
    canvas.addEventListener('pointerup', (event) => {
        const span = drag.peek();

        start = null;
        drag.value = null;
        if (span)
            zoom(...span.map(indexAt).sort((a, b) => a - b));
        else
            show(indexAt(event.offsetX));
    });
    canvas.addEventListener('pointercancel', () => {
        start = null;
        drag.value = null;
    });
}

// Buttons that move the range, and that show all of it again.
function moves(chat, range, shown) {
    const last = () => chat.session.value?.last_seq ?? 0;
    const move = (by) => {
        const [from, to] = shown();
        const size = to - from;
        const start = Math.max(1, Math.min(last() - size, from + by * (size + 1)));

        range.value = [start, start + size];
    };

    return [
        () => shown()[0] > 1 && button('Earlier', () => move(-1)),
        () => shown()[1] < last() && button('Later', () => move(1)),
        () => range.value && button(last() > SPAN ? 'Newest' : 'All', () => {
            range.value = null;
        }),
    ];
}
