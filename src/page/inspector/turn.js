// turn.js - one turn, step by step: model calls, tools and waits, with their times and costs.
//
// The events of a turn say when everything happened, but the server keeps them in memory only. If
// it no longer has them, the times at which the messages were recorded take their place.
import { clip, count, duration, effect, h, money, onEnd, plural, signal, time } from '../core.js';
import { decode, get, send } from '../api.js';
import { button, iconButton, visible } from '../parts.js';
import { cachedShare, sumOf, usageText } from '../cost.js';
import { eventsOf } from '../live.js';
import { codeBox } from '../markdown.js';
import { longText, pretty } from '../message.js';
import { me, place, sessionHash, textOf } from '../store.js';

const LOOK = 300; // messages that are read to find those of the turn
const LOOK_AHEAD = 100;
const REFRESH_MS = 300;
const TICK_MS = 1000;
const CLIP = 400;
const ENDED = new Set(['done', 'failed', 'canceled']);
const STATES = { done: 'good', failed: 'bad', canceled: 'warn', asking: 'warn', paused: 'warn',
    retrying: 'warn' };
const BULK = new Set(['text', 'reasoning', 'arguments', 'progress', 'item']);

// ---- Reading ----

// Adds the events up to number `last` to the log.
async function readEvents(log, last) {
    while (log.number < last) {
        const before = log.number;
        const response = await send('GET', `turns/${log.id}/events?after=${before}`);

        if (response.status !== 200)
            return; // another server has them, or none does
        for await (const event of eventsOf(response)) {
            if (!event)
                continue;
            log.number = Number(event.id);
            if (!BULK.has(event.kind))
                log.events.push(event);
            if (log.number >= last)
                break;
        }
        if (log.number === before)
            return;
    }
}

async function readMessages(chat, seq) {
    const before = seq ? `&before=${seq + LOOK_AHEAD}` : '';
    const { messages } = await get(`${chat.base}/messages?order=desc&limit=${LOOK}&hidden=true`
        + before);

    return messages.reverse();
}

const newestTurn = (messages) => messages.findLast((message) => message.turn_id)?.turn_id ?? '';

// Everything about a turn. An empty id means the newest one of the session; null: there is none.
async function readTurn(chat, wanted, log) {
    let messages = wanted ? null : await readMessages(chat, 0);
    const id = wanted || newestTurn(messages);

    if (!id)
        return null;
    if (log.id !== id)
        Object.assign(log, { id, number: 0, events: [] });
    const [info, ledger] = await Promise.all([get(`turns/${encodeURIComponent(id)}`),
        get(`ledger?limit=1000&turn=${encodeURIComponent(id)}`)]);
    await readEvents(log, info.events ?? 0).catch(() => {});
    messages ??= await readMessages(chat, info.seq);
    const mine = messages.filter((message) => message.turn_id === id);
    const first = messages.indexOf(mine[0]);
    const last = messages.indexOf(mine.at(-1));
    return { id, info, messages: mine, calls: ledger.calls.reverse(), events: [...log.events],
        before: first > 0 ? newestTurn(messages.slice(0, first)) : '',
        after: last < 0 ? '' : messages.slice(last + 1).find((one) => one.turn_id)?.turn_id ?? '' };
}

// ---- Spans: what the turn did, from when to when ----

function makeSpans() {
    const spans = [];
    const tools = new Map();
    let step = null;
    let wait = null;
    const add = (span) => {
        spans.push(span);
        return span;
    };
    const instant = (kind, at, more) => add({ kind, from: at, to: at, ...more });
    const kinds = {
        step: (at, data) => {
            if (step?.isAgain) // the next attempt, at its exact time
                Object.assign(step, { from: at, isAgain: false });
            else
                step = add({ kind: 'step', number: data.step, from: at });
        },
        message: (at, data) => {
            step ??= add({ kind: 'step', from: at });
            Object.assign(step, { to: at, seq: data.seq, finish: data.finish_reason,
                usage: data.usage });
            step = null;
        },
        // The time is that of the next attempt, which is no other event.
        retrying: (at, data) => {
            const number = step?.number;

            if (step)
                Object.assign(step, { to: at, problem: data.reason, isAgain: false });
            step = add({ kind: 'step', number, from: at, isAgain: true, attempt: data.attempt });
        },
        tool_started: (at, data) => tools.set(data.call_id, add({ kind: 'tool', name: data.name,
            from: at, input: data.arguments })),
        tool_ended: (at, data) => {
            const tool = tools.get(data.call_id)
                ?? add({ kind: 'tool', name: data.name, from: at });

            Object.assign(tool, { to: at, output: data.output, isError: data.is_error });
        },
        compacted: (at, data) => instant('compacted', at, { text: data.text, saved: data.tokens }),
        steered: (at, data) => instant('steered', at, { seq: data.seq }),
        tools_missing: (at, data) => instant('missing', at,
            { text: `${data.server}: ${data.reason}` }),
        asking: (at, data) => { wait = add({ kind: 'asking', from: at,
            text: (data.questions ?? []).map((one) => one.name).join(', ') }); },
        paused: (at, data) => { wait = add({ kind: 'paused', from: at,
            text: (data.calls ?? []).map((one) => one.name).join(', ') }); },
        ended: (at, data) => {
            if (step)
                Object.assign(step, { to: at, problem: data.reason });
        },
    };

    return { spans, take: ({ kind, data }) => {
        const at = Date.parse(data.at);

        if (wait && kind !== 'retrying' && !Number.isNaN(at)) {
            wait.to = at;
            wait = null;
        }
        kinds[kind]?.(at, data);
    } };
}

function spansOfEvents(events) {
    const { spans, take } = makeSpans();

    events.forEach(take);
    return spans;
}

const callsOf = (message) => (message.parts ?? []).filter((part) => part.type === 'tool_call');

function spansOfMessages(messages) {
    const spans = [];
    const tools = new Map();
    let last = 0;
    let number = 0;

    for (const message of messages) {
        const at = Date.parse(message.created_at);

        if (message.role === 'assistant') {
            number++;
            spans.push({ kind: 'step', number, from: last || at, to: at, seq: message.seq,
                usage: message.usage, problem: message.error });
            for (const part of callsOf(message)) {
                const tool = { kind: 'tool', name: part.name, from: at, input: part.arguments };

                tools.set(part.call_id, tool);
                spans.push(tool);
            }
        }
        for (const part of message.role === 'tool' ? message.parts ?? [] : []) {
            const tool = tools.get(part.call_id);

            if (tool)
                Object.assign(tool, { to: at, output: part.output ?? '', isError: part.error });
        }
        last = at;
    }
    return spans;
}

// Gives each step its message and its row of the ledger, which are in the same order.
function complete(spans, { messages, calls }) {
    const left = calls.filter((call) => call.purpose !== 'compaction');
    const compactions = calls.filter((call) => call.purpose === 'compaction');
    const bySeq = new Map(messages.map((message) => [message.seq, message]));

    for (const span of spans) {
        if (span.kind === 'step') {
            const usage = span.usage ?? {};
            const at = left.findIndex((call) => call.output_tokens === usage.output_tokens &&
                call.input_tokens === usage.input_tokens);

            span.message = bySeq.get(span.seq);
            span.call = at < 0 ? null : left.splice(at, 1)[0];
        } else if (span.kind === 'compacted') {
            span.call = compactions.shift();
        }
    }
    // Without events, only the ledger knows of compactions.
    for (const call of compactions) {
        const at = Date.parse(call.created_at);

        spans.push({ kind: 'compacted', from: at, to: at, call });
    }
    return spans.sort((a, b) => a.from - b.from);
}

// The turn, its spans, and the time that it took.
function traceOf(turn) {
    const { info, events, messages } = turn;
    const hasTimes = events.some((event) => event.kind === 'step');
    const spans = complete(hasTimes ? spansOfEvents(events) : spansOfMessages(messages), turn);
    const times = spans.flatMap((span) => [span.from, span.to]).filter((at) => at > 0);
    const end = Date.parse(events.find((event) => event.kind === 'ended')?.data.at ??
        messages.at(-1)?.created_at ?? info.since);

    return { ...turn, spans, isExact: hasTimes, isOver: ENDED.has(info.state),
        from: Math.min(Date.parse(info.since), ...times), to: Math.max(end, ...times) };
}

// ---- A span as a row ----

const COLORS = { step: 'assistant', tool: 'tool', compacted: 'summary', steered: 'user',
    asking: 'wait', paused: 'wait', missing: 'range' };
const INSTANTS = new Set(['compacted', 'steered', 'missing']);
const NAMES = { step: (span) => `Step ${span.number ?? ''}`, tool: (span) => visible(span.name),
    compacted: () => 'Compacted', steered: () => 'Steered', asking: () => 'Waited for you',
    paused: () => 'Waited for results', missing: () => 'Tools missing' };

function factsOf(span) {
    const { kind, call, usage } = span;

    if (kind === 'step')
        return [(call || usage) && usageText(call ?? usage, call?.cost_micros),
            callsOf(span.message ?? {}).map((part) => `→ ${visible(part.name)}`).join(' '),
            span.finish === 'length' && 'cut off at the limit of output',
            span.attempt && `attempt ${span.attempt}`, span.problem && 'failed'];
    if (kind === 'tool')
        return [span.output !== undefined && plural(span.output.length, 'character'),
            span.isError && 'failed'];
    if (kind === 'compacted')
        return [span.saved > 0 && `${count(span.saved)} tokens fewer`,
            call?.cost_micros ? money(call.cost_micros) : null];
    return [span.text && visible(span.text)];
}

function contentOf(span, chat) {
    const { message } = span;

    return [
        span.problem && h('p', { class: 'problem' }, visible(span.problem)),
        span.input !== undefined && codeBox(pretty(span.input), 'json'),
        span.output !== undefined && longText(span.output),
        message && textOf(message) && h('p', { class: 'said', dir: 'auto' },
            clip(textOf(message), CLIP)),
        message && h('p', { class: 'dim' }, [message.model, span.finish].filter(Boolean)
            .join(' · ')),
        span.text && h('p', null, visible(span.text)),
        span.seq && h('div', { class: 'buttons' },
            button(`Show message ${span.seq}`, () => chat.list.toSeq(span.seq))),
    ].filter(Boolean);
}

function spanRow(span, trace, now, chat, opened) {
    const id = `${span.kind} ${span.from} ${span.name ?? span.number}`;
    const isBad = Boolean(span.problem || span.isError);
    const end = () => span.to ?? Math.max(span.from, trace.isOver ? trace.to : now());
    const total = () => Math.max(1, trace.isOver ? trace.to - trace.from : now() - trace.from);
    const bar = h('i', { class: `k-${COLORS[span.kind]}${isBad ? ' bad' : ''}`, style: () => ({
        left: `${Math.min(99, 100 * (span.from - trace.from) / total())}%`,
        width: `${Math.min(100, 100 * (end() - span.from) / total())}%` }) });
    const facts = factsOf(span).filter(Boolean).join(' · ');
    const summary = h('summary', null,
        h('span', { class: 'what' }, h('i', { class: `dot k-${COLORS[span.kind]}` }),
            h('b', null, NAMES[span.kind](span))),
        h('span', { class: 'track', 'aria-hidden': 'true' }, bar),
        h('span', { class: 'number end' }, () => (span.to === undefined && trace.isOver ? '–'
            : INSTANTS.has(span.kind) ? '' : duration(end() - span.from))),
        facts && h('span', { class: 'dim facts-line' }, facts));
    const box = h('details', { class: `span${isBad ? ' failed' : ''}`, open: opened.has(id) },
        summary);
    const fill = () => {
        opened[box.open ? 'add' : 'delete'](id);
        if (box.open && box.childNodes.length === 1)
            box.append(h('div', { class: 'span-body' }, contentOf(span, chat)));
    };

    box.addEventListener('toggle', fill);
    fill();
    return h('li', null, box);
}

// ---- The view ----

function figures(trace, now) {
    const { info, spans, calls } = trace;
    const sum = sumOf(calls);
    const steps = spans.filter((span) => span.kind === 'step').length;
    const tools = spans.filter((span) => span.kind === 'tool').length;
    const facts = [plural(steps, 'step'), tools > 0 && plural(tools, 'tool call'),
        calls.length > 0 && usageText(sum, sum.cost_micros),
        sum.cache_read_tokens > 0 && `${cachedShare(sum)} % from cache`];

    return h('div', { class: 'figures' }, h('p', { class: 'big' }, h('b', { class: 'number' },
        () => duration((trace.isOver ? trace.to : now()) - trace.from))),
    h('span', { class: `chip ${STATES[info.state] ?? ''}` }, info.state),
    h('span', { class: 'dim' }, time(info.since)),
    h('p', { class: 'dim whole' }, facts.filter(Boolean).join(' · ')));
}

function question(trace) {
    const message = trace.messages.find((one) => one.role === 'user');

    return message && h('blockquote', { class: 'asked', dir: 'auto' },
        clip(textOf(message), CLIP / 2));
}

// The number of the answer, or that which it would have.
function answerSeq({ info, messages }) {
    const last = messages.at(-1);

    return info.seq ?? (last && (last.role === 'user' ? last.seq + 1 : last.seq));
}

const turnHash = (chat, id) => `${sessionHash(chat.name)}/t/${encodeURIComponent(id)}`;

function neighbor(chat, id, name, label) {
    return iconButton(name, label, () => { location.hash = turnHash(chat, id); },
        { disabled: !id });
}

function traceView(chat, trace, now, opened) {
    const { info } = trace;

    return [
        h('div', { class: 'turn-head' }, figures(trace, now), h('span', { class: 'grow' }),
            neighbor(chat, trace.before, 'left', 'The turn before'),
            neighbor(chat, trace.after, 'right', 'The turn after')),
        question(trace),
        info.reason && h('p', { class: info.state === 'failed' ? 'problem' : 'dim' },
            visible(info.reason)),
        h('ol', { class: 'spans', 'aria-label': 'Steps of the turn' },
            trace.spans.map((span) => spanRow(span, trace, now, chat, opened))),
        !trace.spans.length && h('p', { class: 'dim' }, 'The model has not been called yet.'),
        trace.isOver && !trace.isExact && h('p', { class: 'dim' }, 'The server no longer has the '
            + 'events of this turn, so the times are those of its messages.'),
        h('div', { class: 'buttons' },
            trace.isOver && answerSeq(trace) && button('Ask again', () => chat.act('again',
                { seq: answerSeq(trace) }), { class: 'plain writes' }),
            h('a', { class: 'plain json', href: turnHash(chat, trace.id) }, 'Link to this turn'),
            me.value?.open && h('a', { class: 'plain json', target: '_blank',
                title: 'The same as JSON', href: `api/v1/turns/${trace.id}` }, '{ } JSON')),
    ];
}

// The turn that the address names, or the newest one.
export const turnInPlace = (hash) => decode(/^#\/s\/[^/?]+\/t\/([^/?]+)/
    .exec(hash)?.[1] ?? '');

export function turnView(chat) {
    const trace = signal(undefined); // null: there is no turn
    const problem = signal('');
    const clock = signal(Date.now());
    const log = { id: '', number: 0, events: [] };
    const opened = new Set(); // rows that stay open when the turn is read again
    let newest = 0;
    let later = 0;
    let key = '';
    const ticking = setInterval(() => {
        if (trace.peek() && !trace.peek().isOver)
            clock.value = Date.now();
    }, TICK_MS);
    const read = async () => {
        const version = ++newest;

        try {
            const turn = await readTurn(chat, turnInPlace(place.peek()) ||
                chat.turn.peek()?.turn_id, log);

            if (version !== newest)
                return;
            clock.value = Date.now();
            problem.value = '';
            trace.value = turn && traceOf(turn);
        } catch (error) {
            if (error.name !== 'Failure')
                throw error;
            problem.value = error.message;
        }
    };
    const readSoon = () => {
        later ||= setTimeout(() => {
            later = 0;
            read();
        }, REFRESH_MS);
    };

    effect(() => {
        const wanted = turnInPlace(place.value);
        const turn = chat.turn.value;
        const now = [wanted, turn?.turn_id, turn?.state, chat.session.value?.last_seq].join(' ');

        if (!chat.session.value || now === key)
            return;
        const isOther = !key || !now.startsWith(`${key.split(' ')[0]} `);
        key = now;
        (isOther ? read : readSoon)();
    });
    onEnd(chat.onEvent((kind) => {
        if (!BULK.has(kind))
            readSoon();
    }));
    onEnd(() => {
        newest++;
        clearTimeout(later);
        clearInterval(ticking);
    });
    return h('section', { class: 'turn' },
        () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value),
        () => trace.value === undefined && !problem.value && h('div', { class: 'skeleton' }),
        () => trace.value === null && h('p', { class: 'dim' },
            'No turn has run in this session yet.'),
        () => trace.value && traceView(chat, trace.value, () => clock.value, opened));
}
