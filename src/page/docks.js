// docks.js - what stands above the composer: calls that need approval, calls whose results a person
// gives, and messages that wait.
import { effect, h, onEnd, scope, signal } from './core.js';
import { get, path, post, remove } from './api.js';
import { attempt, button, visible } from './parts.js';
import { codeBox } from './markdown.js';
import { on } from './live.js';
import { pretty } from './message.js';
import { me, turnsOf } from './store.js';

const KINDS = {
    approval: 'needs your approval', repeat: 'was called three times with the same arguments',
    input: 'requires input from you',
};

const WRITES = { class: 'plain writes' };

// ---- Approvals ----

function approvalCard(turn, question, answers) {
    const { call_id: id, kind, name } = question;
    const choose = (allow, remember) => {
        answers.set(id, { call_id: id, allow, ...(remember && { remember: 'session' }) });
        if (answers.size < turn.questions.length) {
            card.classList.add('answered');
            return;
        }
        attempt(() => post(`turns/${turn.turn_id}/approve`,
            { allow: false, answers: [...answers.values()] }));
    };
    const card = h('div', { class: 'card ask', role: 'group', tabIndex: -1,
        'aria-label': `${name} ${KINDS[kind] ?? ''}`, onkeydown: (event) => {
            if (event.target === card && (event.key === 'a' || event.key === 'd')) {
                event.stopPropagation();
                choose(event.key === 'a', false);
            }
        } },
    h('p', null, h('b', null, visible(name ?? '')), ' ',
        KINDS[kind] ?? visible(question.text ?? '')),
    question.arguments && codeBox(pretty(question.arguments), 'json'),
    h('div', { class: 'buttons writes' },
        button('Allow', () => choose(true, false), { class: 'primary' }),
        button('Deny', () => choose(false, false)),
        kind === 'approval' && button('Always allow here', () => choose(true, true))));

    return card;
}

export function approvals(turn) {
    const answers = new Map();
    const questions = (turn.questions ?? []).filter((one) => one.kind !== 'input');

    if (questions.length < (turn.questions ?? []).length)
        return h('div', { class: 'card ask' }, h('p', null, 'A tool server requires input. Use ',
            h('code', null, 'palaver chat'), ' or the API to give it.'));
    return questions.map((question) => approvalCard(turn, question, answers));
}

// ---- Results of tools that the caller runs ----

export function results(turn) {
    const waiting = turn.waiting ?? [];
    const fields = waiting.map((call) => h('textarea', { rows: 2,
        'aria-label': `Result of ${call.name}`, placeholder: 'Result of the call' }));
    const send = () => attempt(() => post(`turns/${turn.turn_id}/results`, { background: true,
        results: waiting.map((call, i) => ({ call_id: call.call_id ?? call.id,
            output: fields[i].value })) }));

    return h('div', { class: 'card' }, h('p', null, 'The turn waits for the results of tools that '
        + 'its caller runs.'),
    waiting.map((call, i) => [h('p', null, h('b', null, visible(call.name))),
        codeBox(pretty(call.arguments ?? ''), 'json'), fields[i]]),
    h('div', { class: 'buttons writes' },
        h('button', { type: 'button', class: 'primary', onclick: send }, 'Send results')));
}

// ---- The inbox ----

// Servers with the feature "lists" return the texts. Others only know which turns wait.
function inbox(chat) {
    const items = signal([]);
    let known = '';
    const read = async () => {
        if (!me.peek()?.features.includes('lists') || !chat.id)
            return;
        const list = await get(`${path('sessions', chat.id)}/inbox`).catch(() => null);

        items.value = list?.items ?? [];
    };
    const takeBack = (turn) => attempt(() => post(`turns/${turn}/cancel`));
    const drop = (item) => attempt(async () => {
        await remove(`${path('sessions', chat.id)}/inbox/${item}`);
        read();
    });

    onEnd(on('inbox', (data) => {
        if (data.session_id === chat.id)
            read();
    }));
    onEnd(on('lost', read));
    effect(() => {
        // The session is known when it has been read.
        const id = chat.session.value?.id ?? '';

        if (id !== known) {
            known = id;
            read();
        }
    });
    return () => {
        const queued = turnsOf(chat.session.value?.id).filter((turn) => turn.state === 'queued');

        if (items.value.length)
            return h('div', { class: 'card' }, h('p', { class: 'dim' }, 'These messages wait:'),
                items.value.map((item) => h('p', { class: 'waiting' },
                    h('span', null, visible(item.text ?? '')),
                    button('Take back', () => drop(item.id), WRITES))));
        return queued.length > 0 && h('div', { class: 'card' }, queued.map((turn, i) =>
            h('p', { class: 'waiting' },
                `Message ${i + 1} of ${queued.length} waits for the turn. `,
                button('Take back', () => takeBack(turn.turn_id), WRITES))));
    };
}

export function docks(chat) {
    const full = signal(null); // the turn with its questions
    // A card is not made again while its turn waits, so that a half-written result stays.
    let card = { key: '', node: null, end: () => {} };
    const keyOf = (turn) => `${turn.turn_id} ${turn.since} ${turn.state}`;
    const cardOf = (turn) => {
        if (card.key !== keyOf(turn)) {
            card.end();
            const [node, end] = scope(() => (turn.state === 'asking' ? approvals : results)(turn));
            card = { key: keyOf(turn), node, end };
        }
        return card.node;
    };

    onEnd(() => card.end());
    return h('div', { class: 'docks' }, () => {
        const turn = chat.turn.value;

        if (turn?.state !== 'asking' && turn?.state !== 'paused')
            return null;
        if (!full.value || keyOf(full.value) !== keyOf(turn)) {
            get(`turns/${turn.turn_id}`).then((state) => { full.value = state; }, () => {});
            return null;
        }
        return cardOf(full.value);
    }, inbox(chat));
}
