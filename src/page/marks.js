// marks.js - the marks of a session: what they did, and undo.
import { count, effect, h, plural, signal, time } from './core.js';
import { get } from './api.js';
import { attempt, button, visible } from './parts.js';

const GLYPHS = { rewind: '↩', reset: '⌫', checkpoint: '◆', prune: '✂', hide: '◌', epoch: '§',
    pin: '●', unpin: '○', undo: '↺' };
const WORDS = {
    rewind: (mark) => `Rewind: the messages after ${mark.seq ?? 0} are hidden`,
    reset: () => 'Reset: all messages are hidden',
    checkpoint: (mark) => `Compaction: a summary replaces the messages up to ${mark.seq}`,
    prune: () => 'Prune: old outputs are no longer sent',
    hide: (mark) => `Message ${mark.seq} is hidden`,
    epoch: () => 'The system text and the tools of the requests from here on',
    pin: (mark) => `Message ${mark.seq} was pinned`,
    unpin: (mark) => `Message ${mark.seq} was unpinned`,
    undo: (mark) => `Mark ${mark.target} was undone`,
};

function row(chat, mark, isUndone) {
    const canUndo = !isUndone && mark.kind !== 'undo' && mark.kind !== 'epoch';
    const where = mark.seq || mark.through_seq;
    const summary = mark.body?.summary ?? mark.summary;

    return h('li', { class: `mark${isUndone ? ' undone' : ''}` },
        h('span', { class: `glyph g-${mark.kind}`, 'aria-hidden': 'true' },
            GLYPHS[mark.kind] ?? '·'),
        h('div', null, h('p', null, WORDS[mark.kind]?.(mark) ?? mark.kind,
            isUndone && h('span', { class: 'chip' }, 'undone')),
        h('p', { class: 'dim' }, `mark ${count(mark.number)} · `, time(mark.created_at)),
        summary && h('details', null, h('summary', null, 'Summary'),
            h('blockquote', null, visible(summary)))),
        h('span', { class: 'does' },
            where > 0 && button('Show', () => chat.list.toSeq(where)),
            canUndo && button('Undo', () => attempt(() =>
                chat.undo(mark.number, `Mark ${mark.number} was undone.`)),
            { class: 'plain writes' })));
}

export function marksView(chat) {
    const marks = signal(null);
    const problem = signal('');

    effect(() => {
        if (chat.marks.value >= 0 && chat.session.value)
            get(`${chat.base}/marks`).then((list) => { marks.value = list.marks; },
                (error) => { problem.value = error.message; });
    });
    return h('section', { class: 'marks' },
        () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value),
        () => {
            if (!marks.value)
                return h('div', { class: 'skeleton' });
            const undone = new Set(marks.value.filter((mark) => mark.kind === 'undo')
                .map((mark) => mark.target));
            // An undo that was undone itself has no effect.
            for (const mark of marks.value) {
                if (mark.kind === 'undo' && undone.has(mark.number))
                    undone.delete(mark.target);
            }

            return [h('p', { class: 'dim' }, marks.value.length
                ? `${plural(marks.value.length, 'mark')}, the newest first. Marks remove nothing.`
                : 'Nothing was done to this session yet.'),
            h('ol', { class: 'mark-list' }, [...marks.value].reverse()
                .map((mark) => row(chat, mark, undone.has(mark.number))))];
        });
}
