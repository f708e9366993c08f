// marks.js - the marks of a session: its life on a line, its family of forks, and what each mark
// did, with undo and redo.
import { count, effect, h, money, plural, signal, time } from '../core.js';
import { get } from '../api.js';
import { attempt, button, visible } from '../parts.js';
import { GLYPHS, lifeView } from './life.js';
import { compareSummaries, redoDialog } from './summaries.js';
import { sessionHash, sessions } from '../store.js';
import { withBody } from './why.js';

const SHOWN = 100; // marks at first
const FACTS_MAX = 20; // compactions whose numbers are read without being asked
const WORDS = {
    rewind: ({ seq = 0, through_seq: end = 0 }) => `Rewind: ${plural(end - seq, 'message')} after `
        + `#${count(seq)} hidden`,
    reset: () => 'Reset: all messages are hidden',
    checkpoint: (mark) => `Compaction: a summary replaces the messages up to ${mark.seq}`,
    prune: () => 'Prune: old outputs are no longer sent',
    hide: (mark) => `Message ${mark.seq} is hidden`,
    epoch: () => 'The system text and the tools of the requests from here on',
    pin: (mark) => `Message ${mark.seq} was pinned`,
    unpin: (mark) => `Message ${mark.seq} was unpinned`,
    undo: (mark) => `Mark ${mark.target} was undone`,
};
const FOLDS = { checkpoint: 'Summary', prune: 'What was pruned', epoch: 'System text and tools' };

// ---- A mark ----

function factsOf(body) {
    return [body.messages && `${plural(body.messages, 'message')}: ${count(body.tokens_before)} → `
        + `${count(body.tokens_after)} tokens`, body.model && visible(body.model),
    body.cost_micros > 0 && money(body.cost_micros), body.reason && visible(body.reason),
    body.fallback && 'without a summary', body.note && visible(body.note)]
        .filter(Boolean).join(' · ');
}

const BODIES = {
    checkpoint: (body) => h('blockquote', null, visible(body.summary || body.hint || 'None.')),
    prune: (body) => [h('p', { class: 'dim' }, `${plural(body.tokens ?? 0, 'token')} less`),
        h('p', null, (body.pruned ?? []).slice(0, SHOWN).map(([seq]) => [
            h('span', { class: 'chip' }, `#${count(seq)}`), ' ']))],
    epoch: (body) => [body.system && h('blockquote', null, visible(body.system)),
        h('p', null, (body.tools ?? []).map((tool) => [
            h('span', { class: 'chip' }, visible(tool.name)), ' ']))],
};

// The body of a mark, which is read when it is opened.
function bodyFold(chat, mark) {
    const box = h('details', { ontoggle: async () => {
        if (!box.open || box.childNodes.length > 1)
            return;
        const full = await attempt(() => withBody(chat, mark));

        if (full && box.childNodes.length === 1)
            box.append(h('div', null, BODIES[mark.kind](full.body ?? {})));
    } }, h('summary', null, FOLDS[mark.kind]));

    return box;
}

function undoButton(chat, mark, marks) {
    const { number, kind } = mark;
    const undo = marks.findLast((one) => one.kind === 'undo' && !one.inherited && !one.undone &&
        one.target === number);

    if (mark.inherited || kind === 'undo' || kind === 'epoch')
        return null;
    if (mark.undone && undo)
        return button('Redo', () => attempt(() => chat.undo(undo.number,
            `Mark ${number} is in effect again.`, 'Undo')), { class: 'plain writes' });
    return !mark.undone && button('Undo', () => attempt(() =>
        chat.undo(number, `Mark ${number} was undone.`)), { class: 'plain writes' });
}

function summaryButtons(chat, mark, marks) {
    const before = marks.findLast((one) => one.kind === 'checkpoint' && !one.inherited &&
        one.number < mark.number);

    if (mark.kind !== 'checkpoint' || mark.inherited)
        return null;
    return h('p', { class: 'more' },
        mark.standing && h('button', { type: 'button', class: 'linklike writes',
            onclick: () => redoDialog(chat, mark.number) }, 'Make it again…'),
        before && h('button', { type: 'button', class: 'linklike',
            onclick: () => compareSummaries(chat, before.number, mark.number) },
        `Compare with mark ${before.number}`));
}

function row(chat, mark, marks, facts) {
    const where = mark.kind === 'reset' ? 0 : mark.seq;

    return h('li', { class: `mark${mark.undone ? ' undone' : ''}` },
        h('span', { class: `glyph g-${mark.inherited ? 'old' : mark.kind}`, 'aria-hidden': 'true' },
            GLYPHS[mark.kind] ?? '·'),
        h('div', null, h('p', null, WORDS[mark.kind]?.(mark) ?? mark.kind,
            mark.undone && h('span', { class: 'chip' }, 'undone'),
            mark.inherited && h('span', { class: 'chip' }, 'of the parent')),
        h('p', { class: 'dim' }, `mark ${count(mark.number)} · `, time(mark.created_at),
            () => facts.value.get(mark) && ` · ${facts.value.get(mark)}`),
        FOLDS[mark.kind] && bodyFold(chat, mark), summaryButtons(chat, mark, marks)),
        h('span', { class: 'does' },
            where > 0 && button('Show', () => chat.list.toSeq(where)),
            undoButton(chat, mark, marks)));
}

// ---- The family ----

function branch(nodes, parent, chat) {
    const forks = nodes.filter((node) => node.parent_id === parent);
    const link = (node) => h('a', { href: sessionHash(node.id),
        'aria-current': node.id === chat.id ? 'page' : null },
    h('span', { class: 'name', dir: 'auto' }, visible(node.title || node.key || node.id)),
    h('span', { class: 'dim' }, [node.parent_id && `at #${count(node.fork_seq)}`,
        plural(node.last_seq, 'message'), node.state !== 'active' && node.state]
        .filter(Boolean).join(' · ')),
    node.turn && h('span', { class: 'spinner', role: 'img', 'aria-label': node.turn }));

    return forks.length > 0 && h('ul', null, forks.map((node) =>
        h('li', null, link(node), branch(nodes, node.id, chat))));
}

function familyView(chat, tree) {
    const { nodes, has_more: hasMore } = tree;
    const known = new Set(nodes.map((node) => node.id));
    // A parent that was erased is not in the tree.
    const all = nodes.map((node) => (known.has(node.parent_id) ? node
        : { ...node, parent_id: null }));

    return nodes.length > 1 && h('nav', { class: 'family', 'aria-label': 'Forks' },
        h('h3', null, 'Forks'), branch(all, null, chat),
        hasMore && h('p', { class: 'dim' }, `Only ${count(nodes.length)} are shown.`));
}

// ---- The view ----

// Reads the numbers of the newest compactions.
function readFacts(chat, marks, facts) {
    const wanted = marks.filter((mark) => mark.kind === 'checkpoint').slice(-FACTS_MAX);

    for (const mark of wanted) {
        withBody(chat, mark).then(({ body }) => {
            facts.peek().set(mark, factsOf(body ?? {}));
            facts.touch();
        }, () => {}); // the numbers are an addition
    }
}

function list(chat, most, facts) {
    const marks = chat.markList.value;

    return [h('p', { class: 'dim' }, marks.length
        ? `${plural(marks.length, 'mark')}, the newest first. Marks remove nothing.`
        : 'Nothing was done to this session yet.'),
    h('ol', { class: 'mark-list' }, [...marks].reverse().slice(0, most.value)
        .map((mark) => row(chat, mark, marks, facts))),
    marks.length > most.value && button('Older marks', () => { most.value += SHOWN; })];
}

export function marksView(chat) {
    const tree = signal({ nodes: [] });
    const forks = signal([]);
    const facts = signal(new Map());
    const most = signal(SHOWN);

    const read = () => get(`${chat.base}/tree`).then((found) => {
        tree.value = found;
        forks.value = found.nodes.filter((node) => node.parent_id === chat.id);
    }, () => {}); // the marks are shown without it
    let known = '';

    // A fork that is made, renamed or deleted is in the list of sessions.
    effect(() => {
        const now = (sessions.value ?? []).filter((one) => one.parent_id || one.id === chat.id)
            .map((one) => [one.id, one.title, one.last_seq]).join();

        if (chat.marks.value >= 0 && now !== known)
            read();
        known = now;
    });
    effect(() => readFacts(chat, chat.markList.value, facts));
    return h('section', { class: 'marks' }, lifeView(chat, forks),
        () => familyView(chat, tree.value), () => list(chat, most, facts));
}
