// why.js - shows what the model receives of a message and why, and what each remedy would change.
import { count, h, money, plural, time } from '../core.js';
import { get } from '../api.js';
import { attempt, button, dialog, visible } from '../parts.js';
import { textOf } from '../store.js';
import { WHO } from '../message.js';

const WORDS_MAX = 12;
const WORD_MIN = 4; // characters
const SUMMARY_MAX = 600;
const STATES = {
    sent: 'The model has this message.',
    pruned: 'The model has only a part of this message.',
    repaired: 'The model has this message, but not exactly as it is stored.',
    summarized: 'The model does not have this message. A summary replaces it.',
    dropped: 'The model does not have this message.',
    synthesized: 'This text was made for the model.',
};
const NEXT = { send: 'fits', prune: 'then it is pruned', compact: 'then it is compacted',
    refuse: 'does not fit' };

// ---- The mark that made it so ----

function wordsOf(text) {
    return new Set((text.toLowerCase().match(/[\p{L}\p{N}_-]+/gu) ?? [])
        .filter((word) => word.length >= WORD_MIN));
}

// Words of the message that the summary lacks: a plain difference, without a model.
function missingWords(message, summary) {
    const kept = wordsOf(summary);

    return [...wordsOf(textOf(message))].filter((word) => !kept.has(word)).slice(0, WORDS_MAX);
}

// A mark of the list with its body. Marks of a parent have numbers of their own, so their place in
// the list counts.
export async function withBody(chat, mark) {
    const at = chat.markList.peek().indexOf(mark);
    const { marks } = await get(`${chat.base}/marks?after=${at}&limit=1`);

    return marks[0];
}

// The newest mark in effect for which `fits` holds. It gets the mark with its body.
async function findMark(chat, kinds, fits = () => true) {
    const marks = chat.markList.peek().filter((mark) => mark.standing && kinds.includes(mark.kind));

    for (const mark of marks.reverse()) {
        const full = await withBody(chat, mark);

        if (fits(full))
            return full;
    }
    return null;
}

function markFor(chat, message, item) {
    const { seq } = message;

    if (message.hidden)
        return findMark(chat, ['rewind', 'reset', 'hide'], (mark) => (mark.kind === 'hide'
            ? mark.seq === seq : (mark.seq ?? 0) < seq && seq <= mark.through_seq));
    if (item?.disposition === 'summarized' || item?.disposition === 'dropped')
        return findMark(chat, ['checkpoint'], (mark) => mark.seq >= seq);
    return item?.disposition === 'pruned' ? findMark(chat, ['prune'], (mark) =>
        mark.body?.pruned?.some(([pruned]) => pruned === seq)) : null;
}

function summaryNote(message, mark) {
    const { summary = '', reason, cost_micros: cost } = mark.body ?? {};
    const missing = missingWords(message, summary);

    return [
        h('p', null, `It is so since mark ${mark.number} (`, time(mark.created_at),
            [reason && `, ${visible(reason)}`, cost > 0 && `, ${money(cost)}`]
                .filter(Boolean).join(''), ').'),
        summary && h('blockquote', null, visible(summary.slice(0, SUMMARY_MAX))),
        summary && missing.length > 0 && h('p', null, 'Words of this message that the summary '
            + 'lacks: ', missing.map((word) => [h('span', { class: 'chip' }, word), ' '])),
    ];
}

// ---- What can be done ----

function sinceNote(message, mark) {
    if (mark.kind === 'checkpoint')
        return summaryNote(message, mark);
    return [h('p', null, `It is so since mark ${mark.number} (`, time(mark.created_at), ').')];
}

const change = (tokens) => `${tokens < 0 ? '−' : '+'}${count(Math.abs(tokens))}`;

// What the plan would be without the mark.
async function effectOf(chat, mark) {
    const [before, after] = [chat.plan.peek(),
        await get(`${chat.base}/context?without=${mark.number}`)];

    return `${change(after.tokens - before.tokens)} tokens · ${NEXT[after.action]}`;
}

function actions(chat, message, item, mark, foretold) {
    const isIn = ['sent', 'repaired'].includes(item?.disposition);
    const { tokens = 0 } = message;

    return (close) => {
        const does = (fn) => () => {
            close();
            fn();
        };
        const act = (name) => does(() => chat.act(name, message));

        return h('div', { class: 'buttons writes' },
            !message.hidden && (item?.pinned ? button('Unpin', act('pin'))
                : button(isIn ? 'Pin it' : `Pin it (+${count(tokens)} tokens)`, act('pin'))),
            mark && !mark.inherited && button(mark.kind === 'checkpoint' ? 'Undo the compaction'
                : `Undo mark ${mark.number}`, does(() => attempt(() => (mark.kind === 'checkpoint'
                ? chat.uncompact(mark.number)
                : chat.undo(mark.number, `Mark ${mark.number} was undone.`))))),
            button('Fork from here', act('fork')),
            foretold && h('span', { class: 'dim' }, `Undo: ${foretold}`));
    };
}

async function card(chat, message) {
    const item = message.hidden ? null : chat.itemOf(message.seq);

    if (!item && !message.hidden)
        return [h('p', null, 'The plan of the window does not list this message.')];
    await chat.marksRead;
    const mark = await markFor(chat, message, item);
    const foretold = mark && !mark.inherited ? await effectOf(chat, mark).catch(() => '') : '';

    return [
        h('p', null, h('strong', null, message.hidden ? STATES.dropped
            : STATES[item.disposition] ?? item.disposition)),
        h('p', null, message.hidden ? 'It is hidden.'
            : ['Reason: ', visible(item.reason), '.']),
        ...(mark ? sinceNote(message, mark) : []),
        mark?.inherited && h('p', { class: 'dim' }, 'The mark is of the parent session, so it can '
            + 'only be undone there.'),
        actions(chat, message, item, mark, foretold),
    ];
}

export async function explain(chat, message) {
    const parts = await card(chat, message);
    const tokens = message.tokens ? ` · ${plural(message.tokens, 'token')}` : '';

    dialog(`#${message.seq} · ${WHO[message.role] ?? message.role}${tokens}`, (close) =>
        parts.flat().filter(Boolean)
            .map((part) => (typeof part === 'function' ? part(close) : part)));
}
