// message.js - a message as a row of the conversation, and the answer that is being written.
import { brief, clip, count, h, plural, time } from './core.js';
import { button, copy, icon, iconButton, visible } from './parts.js';
import { codeBox, markdown, MarkdownStream } from './markdown.js';
import { send } from './api.js';
import { cachedShare, costOf, usageText } from './cost.js';
import { models } from './store.js';

const OUTPUT_MAX = 20000; // characters of an output that are shown at first
const CLIP = 100;
const REST_FACTOR = 3; // drawing an answer takes at most a quarter of the time
const REST_MAX_MS = 250;
// The actions that need no key that writes.
export const READING = new Set(['copy', 'why', 'saw', 'turn']);
export const WHO = { user: 'You', assistant: 'Model', tool: 'Tool', system: 'System' };

// ---- Parts ----

export function pretty(text) {
    try {
        return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
        return text;
    }
}

// A text that is only made when the fold is opened.
function fold(kind, summary, content, isOpen = false) {
    const box = h('details', { class: `fold ${kind}`, open: isOpen }, h('summary', null, summary));
    const fill = () => {
        if (box.open && box.childNodes.length === 1)
            box.append(content());
    };

    box.addEventListener('toggle', fill);
    fill();
    return box;
}

// A long text shows its beginning at first.
export function longText(text) {
    const shown = visible(text.slice(0, OUTPUT_MAX));
    const pre = h('pre', { tabIndex: 0 }, shown);

    if (text.length <= OUTPUT_MAX)
        return pre;
    const more = button(`Show all ${count(text.length)} characters`, () => {
        pre.textContent = visible(text);
        more.remove();
    });
    return h('div', null, pre, more);
}

const dim = (text) => h('span', { class: 'dim clip' }, text);

function callPart(part) {
    const text = part.arguments ?? '';

    return fold('call', [icon('tool'), h('b', null, visible(part.name ?? '')),
        dim(clip(text, CLIP))],
        () => codeBox(pretty(text), 'json'));
}

function resultPart(part) {
    const text = part.output ?? (part.parts ?? [])
        .map((one) => one.text ?? `[${one.type}]`).join('\n');
    const word = part.error ? 'failed' : 'result';

    return fold(part.error ? 'result bad' : 'result', [
        h('span', { class: `chip ${part.error ? 'bad' : 'good'}` }, word),
        h('b', null, visible(part.name ?? '')),
        dim(clip(text, CLIP)), h('span', { class: 'dim end' }, `${brief(text.length)} chars`),
    ], () => longText(text));
}

// Images of our own store come as bytes, so that no address carries a secret.
async function loadImage(img, blob) {
    const response = await send('GET', `blobs/${encodeURIComponent(blob)}`);

    if (!response.ok)
        return;
    const url = URL.createObjectURL(await response.blob());
    img.addEventListener('load', () => URL.revokeObjectURL(url), { once: true });
    img.src = url;
}

function imagePart(part) {
    const name = part.name ?? 'image';
    const isOurs = part.blob && /^image\/(png|jpeg|gif|webp|avif)$/.test(part.media_type);

    if (!isOurs)
        return h('span', { class: 'chip remote' }, `Image not loaded: ${clip(name, CLIP)}`);
    const img = h('img', { class: 'picture', alt: name });
    loadImage(img, part.blob).catch(() => {});
    return img;
}

async function saveFile(part) {
    const response = await send('GET', `blobs/${encodeURIComponent(part.blob)}`);
    const url = URL.createObjectURL(await response.blob());

    h('a', { href: url, download: part.name ?? 'file' }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function filePart(part) {
    const name = visible(part.name ?? part.media_type ?? 'file');

    return part.blob ? h('button', { type: 'button', class: 'chip file',
        onclick: () => saveFile(part) }, icon('file'), h('span', { class: 'clip' }, name))
        : h('span', { class: 'chip' }, h('span', { class: 'clip' }, name));
}

const PARTS = {
    text: (part, role) => (role === 'user'
        ? h('div', { class: 'said', dir: 'auto' }, part.text) : markdown(part.text)),
    reasoning: (part) => fold('reasoning', ['Reasoning', dim(clip(part.text, CLIP))],
        () => h('div', { class: 'thought', dir: 'auto' }, part.text)),
    tool_call: callPart,
    tool_result: resultPart,
    image: imagePart,
    file: filePart,
    compaction: (part) => h('p', { class: 'dim' }, part.text),
};

export function partsOf(message) {
    if (message.parts)
        return message.parts;
    return message.content === undefined ? [] : [{ type: 'text', text: message.content }];
}

function partNode(part, role) {
    const make = PARTS[part.type];

    return make ? make(part, role) : codeBox(JSON.stringify(part, null, 2), 'json');
}

// ---- The row ----

function problem(message, act) {
    if (!message.flags?.includes('error'))
        return null;
    const again = button('Ask again', () => act('again', message), { class: 'plain writes' });

    if (!message.error)
        return h('p', { class: 'dim stopped' }, 'This answer was stopped. ', again);
    return h('div', { class: 'problem' }, h('p', null, visible(message.error)), again);
}

// What an answer used. It leads to the turn.
function used(message, act) {
    const { role, usage, model } = message;
    const price = models.peek().find((one) => one.model === model)?.price;
    const share = usage ? cachedShare(usage) : 0;

    return role === 'assistant' && usage && h('footer', null, h('button', { type: 'button',
        class: 'used', disabled: !message.turn_id, title: 'The turn: its steps and what they cost',
        onclick: () => act('turn', message) }, [usageText(usage, price && costOf(usage, price)),
        share > 0 && `${share} % from cache`].filter(Boolean).join(' · ')));
}

// `act` is called with the name of an action and the message.
export function messageRow(message, { act, total }) {
    const { seq, role } = message;
    const parts = partsOf(message).map((part) => partNode(part, role));
    const row = h('article', { class: `msg ${role}${message.hidden ? ' gone' : ''}`, tabIndex: -1,
        'aria-posinset': seq, 'aria-setsize': total(), 'data-seq': seq,
        'aria-label': `Message ${seq}, ${WHO[role] ?? role}` },
    message.hidden && h('div', { class: 'gone-line' }, h('span', null, 'Hidden messages'),
        h('button', { type: 'button', onclick: (event) =>
            event.target.closest('.feed').classList.toggle('show-gone') }, 'Show or hide'),
        h('button', { type: 'button', class: 'writes', hidden: true, onclick: () =>
            act('fork', { seq: row.goneEnd }) }, 'Fork from there')),
    h('div', { class: 'margin', 'aria-hidden': 'true' }),
    h('header', null, h('span', { class: 'who' }, WHO[role] ?? role),
        h('span', { class: 'dim meta' }, `#${count(seq)}`,
            role === 'assistant' && message.model ? ` · ${message.model}` : null,
            message.tokens ? ` · ${count(message.tokens)} tokens` : null, ' · ',
            time(message.created_at)),
        h('span', { class: 'states' })),
    h('div', { class: 'body' }, parts, problem(message, act)), used(message, act));

    row.message = message;
    return row;
}

// The last of the hidden messages that begin with `seq`.
function goneEnd(seq, marks) {
    const spans = marks.filter((mark) => mark.standing && mark.through_seq &&
        (mark.kind === 'rewind' || mark.kind === 'reset'));
    let end = seq - 1;
    let before;

    do {
        before = end;
        for (const { seq: after = 0, through_seq: through } of spans) {
            if (after <= end && through > end)
                end = through;
        }
    } while (end > before);
    return end;
}

// Says how many messages are hidden, if the row is the first of them.
export function goneRow(row, marks) {
    const { seq, hidden } = row.message;
    const end = hidden ? goneEnd(seq, marks) : 0;

    if (end < seq)
        return;
    const [text, , fork] = row.querySelector('.gone-line').children;
    row.goneEnd = end;
    text.textContent = plural(end - seq + 1, 'hidden message');
    fork.hidden = false;
}

// Shows in the margin what the model has of the message. `item` is of the plan, or null.
export function markRow(row, item, act) {
    const word = item?.disposition ?? '';
    const isEnd = item?.kind === 'range' && item.seq === row.message.seq;
    const isChanged = word === 'pruned' || word === 'repaired';

    row.dataset.sent = word;
    row.querySelector('.margin').title = item ? `${word}: ${item.reason}` : '';
    row.querySelector('.states').replaceChildren(...[
        item?.pinned && h('span', { class: 'chip pin' }, 'pinned'),
        isChanged && h('span', { class: 'chip warn' }, word),
        word && word !== 'sent' && !isChanged && h('span', { class: 'sr' }, word),
    ].filter(Boolean));
    row.querySelector('.boundary')?.remove();
    if (isEnd)
        row.append(boundary(row.message, item, act));
}

// The line at which the part begins that the model has word by word.
function boundary(message, item, act) {
    const isSummary = item.disposition === 'summarized';
    const text = isSummary ? 'The model has a summary of what is above'
        : 'The model does not have what is above';

    return h('div', { class: 'boundary' }, h('span', null, `◆ ${text}`),
        h('span', { class: 'dim' }, `${plural(item.count, 'message')}, `
            + `${count(item.tokens)} tokens`),
        isSummary && h('button', { type: 'button', class: 'linklike',
            onclick: () => act('why', message) }, 'Summary'),
        isSummary && h('button', { type: 'button', class: 'linklike writes',
            onclick: () => act('uncompact', message) }, 'Undo'));
}

// One bar of actions for all messages. It moves to the message that has the focus or the pointer.
export function actionBar(feed, act, isPinned) {
    let row = null;
    const named = (name, label, only = null) => {
        const item = iconButton(name, label, (event) => act(name, row.message, event),
            { class: READING.has(name) ? 'ghost' : 'ghost writes' });

        item.only = only;
        return item;
    };
    const pin = named('pin', 'Pin');
    const items = [named('copy', 'Copy'), named('edit', 'Edit', 'user'),
        named('again', 'Ask again', 'assistant'), pin, named('fork', 'Fork from here'),
        named('back', 'Rewind to here'), named('why', 'Why: what the model has of it'),
        named('saw', 'What it saw', 'assistant')];
    const bar = h('span', { class: 'acts', role: 'group', 'aria-label': 'Actions' }, items);
    const move = (event) => {
        const next = event.target.closest?.('.msg');

        if (!next?.message || (next === row && bar.isConnected))
            return;
        row = next;
        for (const item of items)
            item.hidden = Boolean(item.only && item.only !== row.message.role);
        pin.title = isPinned(row.message.seq) ? 'Unpin' : 'Pin';
        pin.setAttribute('aria-label', pin.title);
        row.querySelector('header').append(bar);
    };

    feed.addEventListener('pointerover', move, { passive: true });
    feed.addEventListener('focusin', move);
    feed.addEventListener('click', (event) => {
        if (!event.target.closest('a, button, summary, pre'))
            event.target.closest('.msg')?.focus({ preventScroll: true });
    });
}

// ---- The answer that is being written ----

const clockOf = (iso) => new Date(iso).toLocaleTimeString('en');

export class LiveRow {
    // `drawn` is called after every change of the row.
    constructor(drawn) {
        this.drawn = drawn;
        this.body = h('div', { class: 'body' });
        this.status = h('span', { class: 'dim meta' }, 'thinking');
        this.element = h('article', { class: 'msg assistant live', 'aria-busy': 'true',
            'aria-label': 'The answer, as it arrives' }, h('div', { class: 'margin' }),
        h('header', null, h('span', { class: 'who' }, 'Model'), h('span', { class: 'spinner' }),
            this.status), this.body);
        this.waiting = [];
        this.words = 0;
        this.startStep();
    }

    startStep() {
        this.body.replaceChildren();
        this.stream = null;
        this.thought = null;
        this.calls = new Map();
    }

    // Shows what was written before this page watched the turn.
    begin(soFar) {
        for (const part of soFar.parts) {
            if (part.type === 'text')
                this.take('text', { text: part.text });
            else if (part.type === 'reasoning')
                this.take('reasoning', { text: part.text });
            else if (part.type === 'tool_call')
                this.take('call', part);
        }
        for (const tool of soFar.tools)
            this.take('tool_started', tool);
    }

    // Gathers events, and draws them at most once in a frame.
    take(kind, data) {
        this.waiting.push([kind, data]);
        if (this.frame)
            return;
        this.frame = true;
        setTimeout(() => {
            const draw = () => this.draw();

            if (document.hidden)
                draw();
            else
                requestAnimationFrame(draw);
        }, this.rest ?? 0);
    }

    draw() {
        const began = performance.now();

        this.frame = false;
        for (const [kind, data] of this.join())
            this.apply(kind, data);
        this.drawn();
        this.rest = Math.min(REST_MAX_MS, REST_FACTOR * (performance.now() - began));
    }

    // Neighbors that add to the same text become one.
    join() {
        const joined = [];

        for (const [kind, data] of this.waiting.splice(0)) {
            const last = joined.at(-1);

            if (last?.[0] === kind && (kind === 'text' || kind === 'reasoning'))
                last[1] = { text: last[1].text + data.text };
            else
                joined.push([kind, data]);
        }
        return joined;
    }

    apply(kind, data) {
        if (kind === 'step')
            this.startStep();
        else if (kind === 'text')
            this.addText(data.text);
        else if (kind === 'reasoning')
            this.addThought(data.text);
        else if (kind === 'call' || kind === 'tool_started')
            this.addCall(data);
        else if (kind === 'tool_ended')
            this.calls.get(data.call_id)?.classList.remove('running');
        else if (kind === 'retrying')
            this.say(`attempt ${data.attempt} at ${clockOf(data.at)}: ${visible(data.reason)}`);
        else if (kind === 'compacted')
            this.say('the older messages were summarized');
        else if (kind === 'tools_missing')
            this.say(`tools of ${data.server} are missing: ${data.reason}`);
    }

    say(text) {
        this.status.textContent = text;
    }

    // The turn does nothing until a person answers.
    wait(state) {
        const isWaiting = state === 'asking' || state === 'paused';

        this.element.classList.toggle('idle', isWaiting);
        if (isWaiting)
            this.say('waits for you');
    }

    addText(text) {
        if (!this.stream) {
            this.stream = new MarkdownStream();
            this.body.append(this.stream.element);
        }
        this.say('writing');
        this.stream.push(text);
    }

    addThought(text) {
        if (!this.thought) {
            this.thought = h('div', { class: 'thought', dir: 'auto' });
            this.body.append(h('details', { class: 'fold reasoning', open: true },
                h('summary', null, 'Reasoning'), this.thought));
        }
        this.thought.append(text);
    }

    addCall({ call_id: id, name }) {
        if (this.calls.has(id))
            return;
        const row = h('div', { class: 'fold call running' }, icon('tool'),
            h('b', null, visible(name)),
            dim('is called'), h('span', { class: 'spinner' }));

        this.stream = null;
        this.calls.set(id, row);
        this.body.append(row);
        this.say('uses a tool');
    }
}

export const copyMessage = (message) => copy(partsOf(message)
    .map((part) => part.text ?? part.output ?? part.arguments ?? '').filter(Boolean).join('\n\n'));
