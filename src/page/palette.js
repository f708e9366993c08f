// palette.js - finds sessions, actions and models by their words (Ctrl K).
import { h, signal } from './core.js';
import { get } from './api.js';
import { attempt, dialog } from './parts.js';
import { canWrite, go, models, sessionHash, sessions, titleOf } from './store.js';
import { setTheme } from './sidebar.js';

const SHOWN_MAX = 12;
const WAIT_MS = 150; // after the last letter, before the server is asked for sessions

function actionsOf({ chat, panels, links, showKeys }) {
    const actions = [['New chat', () => go('#/')],
        ...links.map(([hash, , label]) => [label, () => go(hash)]),
        ['Light or dark', setTheme], ['Keys', showKeys]];

    if (!chat)
        return actions;
    actions.unshift(...Object.entries(panels).map(([name, { label }]) =>
        [`${label} of this session`, () => chat.showPanel(name)]));
    if (canWrite())
        actions.push(['Rename this session', chat.rename],
            ['Undo the newest mark', () => chat.undo(0, 'The newest mark was undone.')],
            ['Move this session to the trash', chat.trash]);
    if (chat.turn.peek())
        actions.push(['Stop the turn', () => chat.stop()]);
    return actions;
}

const choicesOf = (chat) => (chat && models.value.length > 1 && canWrite()
    ? models.value.map((model) => [`Use ${model.model} of ${model.endpoint}`,
        () => chat.form.choose(model)]) : []);

const hasWords = (text, words) => words.every((word) => text.toLowerCase().includes(word));

// [kind, label, run, id] that have all words, sessions first.
function matches(options, query, found) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const known = new Map([...(sessions.value ?? []), ...found].map((one) => [one.id, one]));
    const all = [
        ...[...known.values()].map((one) => ['session', titleOf(one),
            () => go(sessionHash(one.id)), one.id]),
        ...actionsOf(options).map(([label, run]) => ['action', label, run, label]),
        ...choicesOf(options.chat).map(([label, run]) => ['model', label, run, label]),
    ].filter(([, label]) => hasWords(label, words));
    const some = (kind, most) => all.filter((one) => one[0] === kind).slice(0, most);
    const list = words.length ? all.slice(0, SHOWN_MAX)
        : [...some('session', SHOWN_MAX / 2), ...some('action', SHOWN_MAX / 2)];

    if (words.length)
        list.push(['search', `Search all messages for “${query.trim()}”`,
            () => go(`#/search?q=${encodeURIComponent(query.trim())}`), 'search']);
    return list;
}

export function palette(options) {
    const query = signal('');
    const found = signal([]); // sessions of the server
    const at = signal(0);
    let timer = 0;
    let list = [];
    let chosen = ''; // the id of the row that a person went to
    const field = h('input', { type: 'text', role: 'combobox', 'aria-expanded': 'true',
        'aria-controls': 'palette', 'aria-autocomplete': 'list', 'aria-label': 'Find a session or '
            + 'an action', placeholder: 'Find a session or an action', autocomplete: 'off',
        'aria-activedescendant': () => `palette-${at.value}` });

    dialog('Find', (close) => {
        const run = (one) => {
            close();
            if (one)
                attempt(async () => one[2]());
        };
        const choose = (i) => {
            at.value = i;
            chosen = list[i]?.[3] ?? '';
        };
        const step = (by) => {
            choose((at.peek() + by + list.length) % Math.max(1, list.length));
            document.getElementById(`palette-${at.peek()}`)?.scrollIntoView({ block: 'nearest' });
        };

        field.addEventListener('input', () => {
            query.value = field.value;
            at.value = 0;
            chosen = '';
            clearTimeout(timer);
            timer = setTimeout(async () => {
                const words = encodeURIComponent(field.value.trim());
                const page = words && await get(`sessions?limit=${SHOWN_MAX}&q=${words}`)
                    .catch(() => null);

                found.value = page?.sessions ?? [];
            }, WAIT_MS);
        });
        field.addEventListener('keydown', (event) => {
            const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];

            if (by)
                step(by);
            else if (event.key === 'Enter')
                run(list[at.peek()]);
            else
                return;
            event.preventDefault();
        });
        return [field, h('ul', { id: 'palette', class: 'palette', role: 'listbox',
            'aria-label': 'Results' }, () => {
            list = matches(options, query.value, found.value);
            // Sessions that arrive late must not move another row below the choice.
            at.value = Math.max(0, list.findIndex((one) => one[3] === chosen));
            return list.map((one, i) => h('li', { role: 'option', id: `palette-${i}`,
                'aria-selected': () => String(at.value === i), onclick: () => run(one),
                onpointermove: () => choose(i) },
            h('span', { class: 'clip', dir: 'auto' }, one[1]),
            h('span', { class: 'dim' }, one[0])));
        })];
    });
    field.focus();
}
