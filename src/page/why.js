// why.js - shows what the model receives of a message, and why.
import { count, h } from './core.js';
import { get } from './api.js';
import { attempt, button, dialog, visible } from './parts.js';
import { textOf } from './store.js';
import { WHO } from './message.js';

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

function wordsOf(text) {
    return new Set((text.toLowerCase().match(/[\p{L}\p{N}_-]+/gu) ?? [])
        .filter((word) => word.length >= WORD_MIN));
}

// Words of the message that the summary lacks: a plain difference, without a model.
function missingWords(message, summary) {
    const kept = wordsOf(summary);

    return [...wordsOf(textOf(message))].filter((word) => !kept.has(word)).slice(0, WORDS_MAX);
}

async function summaryNote(chat, message) {
    const { summary } = await get(`${chat.base}/summary`);
    const missing = missingWords(message, summary);

    return [
        h('blockquote', null, visible(summary.slice(0, SUMMARY_MAX))),
        missing.length > 0 && h('p', null, 'Words of this message that the summary lacks: ',
            missing.map((word) => [h('span', { class: 'chip' }, word), ' '])),
    ];
}

function hiddenCard(chat, message) {
    return [h('p', null, h('strong', null, 'The model does not have this message.')),
        h('p', null, 'It is hidden. To show it again, undo the mark under Marks, or fork from it.'),
        (close) => h('div', { class: 'buttons writes' }, button('Fork from here', () => {
            close();
            chat.act('fork', message);
        }))];
}

function actions(chat, message, item) {
    return (close) => {
        const act = (name) => () => {
            close();
            chat.act(name, message);
        };
        const isIn = ['sent', 'repaired'].includes(item.disposition);

        return h('div', { class: 'buttons writes' },
            item.pinned ? button('Unpin', act('pin'))
                : button(isIn ? 'Pin it' : `Pin it (+${count(message.tokens ?? 0)} tokens)`,
                    act('pin')),
            item.disposition === 'summarized' && button('Undo the compaction', () => {
                close();
                attempt(() => chat.uncompact());
            }),
            button('Fork from here', act('fork')));
    };
}

async function planCard(chat, message) {
    const item = chat.itemOf(message.seq);

    if (!item)
        return [h('p', null, 'The plan of the window does not list this message.')];
    const isSummarized = item.disposition === 'summarized';

    return [
        h('p', null, h('strong', null, STATES[item.disposition] ?? item.disposition)),
        h('p', null, 'Reason: ', visible(item.reason), '.'),
        ...(isSummarized ? await summaryNote(chat, message).catch(() => []) : []),
        actions(chat, message, item),
    ];
}

export async function explain(chat, message) {
    const parts = message.hidden ? hiddenCard(chat, message) : await planCard(chat, message);
    const tokens = message.tokens ? ` · ${count(message.tokens)} tokens` : '';

    dialog(`#${message.seq} · ${WHO[message.role] ?? message.role}${tokens}`, (close) =>
        parts.flat().filter(Boolean)
            .map((part) => (typeof part === 'function' ? part(close) : part)));
}
