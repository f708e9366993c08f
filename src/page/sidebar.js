// sidebar.js - the list of sessions, by day, with forks under their root.
import { ago, DAY_MS, h, plural, signal } from './core.js';
import { decode, tenant } from './api.js';
import { icon, iconButton } from './parts.js';
import { go, loadSessions, me, moreSessions, place, sessionHash, sessions, sessionsProblem, titleOf,
    turns, turnsOf } from './store.js';

const isOpen = signal(false); // on a narrow screen

export function openMenu() {
    return iconButton('menu', 'Sessions', () => { isOpen.value = true; }, { class: 'ghost menu' });
}

// ---- Groups ----

function dayOf(iso) {
    const today = new Date().setHours(0, 0, 0, 0);
    const at = Date.parse(iso);

    if (at >= today)
        return 'Today';
    if (at >= today - DAY_MS)
        return 'Yesterday';
    return at >= today - 6 * DAY_MS ? 'This week' : 'Earlier';
}

// The root of each session: the first ancestor that is in the list.
function rootOf(session, byId) {
    let root = session;

    for (const seen = new Set(); byId.has(root.parent_id) && !seen.has(root.id);) {
        seen.add(root.id);
        root = byId.get(root.parent_id);
    }
    return root;
}

// [{day, families: [{root, forks}]}]; a family is where its newest member is.
function group(list) {
    const byId = new Map(list.map((session) => [session.id, session]));
    const families = new Map();
    const days = new Map();

    for (const session of list) {
        const root = rootOf(session, byId);

        if (!families.has(root.id)) {
            const day = dayOf(session.updated_at);

            families.set(root.id, { root, forks: [] });
            days.set(day, [...(days.get(day) ?? []), families.get(root.id)]);
        }
        if (session !== root)
            families.get(root.id).forks.push(session);
    }
    return [...days];
}

// ---- Rows ----

const current = () => decode(/^#\/s\/([^/?]+)/.exec(place.value)?.[1] ?? '');

function activity(session) {
    const states = turnsOf(session.id).map((turn) => turn.state);

    if (states.includes('asking') || states.includes('paused'))
        return h('span', { class: 'attention', role: 'img', 'aria-label': 'waits for you' });
    return states.length > 0 &&
        h('span', { class: 'spinner', role: 'img', 'aria-label': 'running' });
}

function row(session, isFork) {
    const isCurrent = () => [session.id, session.key].includes(current());

    return h('li', null, h('a', { href: sessionHash(session.id), class: () =>
        `session${isCurrent() ? ' on' : ''}${isFork ? ' fork' : ''}`,
    'aria-current': () => (isCurrent() ? 'page' : null),
    onclick: () => { isOpen.value = false; } },
    h('span', { class: 'title' }, h('span', { class: 'name' }, () => titleOf(session)),
        () => activity(session)),
    h('span', { class: 'dim' }, isFork ? `fork at ${session.fork_seq} · ` : null,
        `${plural(session.message_count, 'message')} · ${ago(session.updated_at)}`)));
}

function rows() {
    const list = sessions.value;

    if (!list)
        return [1, 2, 3, 4, 5, 6].map(() => h('div', { class: 'skeleton' }));
    if (!list.length)
        return h('p', { class: 'dim empty' }, 'No sessions yet. Say something.');
    return group(list).map(([day, families]) => [h('h2', { class: 'day' }, day),
        h('ul', null, families.map(({ root, forks }) => [row(root, false),
            forks.map((fork) => row(fork, true))]))]);
}

export function waitingTurns() {
    return [...turns.value.values()]
        .filter((turn) => turn.state === 'asking' || turn.state === 'paused');
}

function attention() {
    const waiting = waitingTurns();

    return waiting.length > 0 && h('a', { href: '#/live', class: 'attention-line' },
        h('span', { class: 'attention' }),
    `${waiting.length} ${waiting.length === 1 ? 'waits' : 'wait'} for you`);
}

// ---- The sidebar ----

export function setTheme() {
    const { dataset } = document.documentElement;

    dataset.theme = dataset.theme === 'dark' ? 'light' : 'dark';
    localStorage.setItem('theme', dataset.theme);
}

export function logo() {
    return h('svg', { viewBox: '0 0 32 32', class: 'logo', 'aria-hidden': 'true' },
        h('path', { class: 'shape',
            d: 'M5 9a5 5 0 0 1 5-5h9a8 8 0 0 1 0 16h-6l-6 6v-7a5 5 0 0 1-2-4z' }),
        h('path', { class: 'lines', d: 'M12 10h9M12 14.5h6' }));
}

// `links` are [hash, icon, label] at the bottom.
export function sidebar(links) {
    const find = h('label', { class: 'find' }, icon('search'), h('input', {
        type: 'search', id: 'find', placeholder: 'Search', 'aria-label': 'Search all sessions',
        onkeydown: (event) => {
            if (event.key === 'Enter' && event.target.value)
                go(`#/search?q=${encodeURIComponent(event.target.value)}`);
        } }), h('kbd', null, '/'));
    const whose = () => me.value && !me.value.open && h('span',
        { class: tenant() ? 'chip warn' : 'dim' }, me.value.tenant);

    return [
        h('div', { class: 'shade', hidden: () => !isOpen.value,
            onclick: () => { isOpen.value = false; } }),
        h('nav', { class: () => `side${isOpen.value ? ' open' : ''}`, 'aria-label': 'Sessions' },
            h('div', { class: 'brand' }, logo(), h('b', null, 'Palaver'), whose,
                iconButton('close', 'Close the list', () => { isOpen.value = false; },
                    { class: 'ghost menu' })),
            h('a', { class: 'new', href: '#/', onclick: () => { isOpen.value = false; } },
                icon('plus'), 'New chat', h('kbd', null, 'N')),
            find, attention,
            () => sessionsProblem.value && h('p', { class: 'problem', role: 'alert' },
                sessionsProblem.value),
            h('div', { class: 'sessions' }, rows, () => moreSessions.value &&
                h('button', { type: 'button', class: 'plain',
                    onclick: () => loadSessions(moreSessions.peek()) }, 'Older sessions')),
            h('div', { class: 'foot' }, links.map(([hash, name, label]) =>
                h('a', { href: hash, title: label, onclick: () => { isOpen.value = false; },
                    'aria-current': () => (place.value.split('?')[0] === hash ? 'page' : null) },
                icon(name), h('span', null, label))),
            h('button', { type: 'button', title: 'Light or dark', onclick: setTheme },
                icon('light'), h('span', null, 'Theme')))),
    ];
}
