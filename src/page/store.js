// store.js - what several views share: the caller, the place, sessions, and turns that have not
// ended. Sessions and turns follow the events of the server.
import { clip, signal } from './core.js';
import { get, path } from './api.js';
import { on } from './live.js';
import { visible } from './parts.js';

const LIST_MAX = 100;
const ENDED_MAX = 200;
const TITLE_MAX = 60;
const TITLES_AT_ONCE = 2;

export const heading = signal(''); // of the view, for the title of the tab
export const place = signal(location.hash || '#/');
export const me = signal(null);
export const canWrite = () => me.peek()?.role !== 'read';
export const models = signal([]);
// False: keys without Ctrl or Alt do nothing, except Enter, Escape and such.
export const singleKeys = signal(localStorage.getItem('single-keys') !== 'off');
export const sessions = signal(null); // newest update first; null: not loaded
export const moreSessions = signal(null); // cursor of the next page
export const sessionsProblem = signal('');
export const turns = signal(new Map()); // id: state, of turns that have not ended
const ENDED = new Set(['done', 'failed', 'canceled', 'idle']);

export function setSingleKeys(isOn) {
    singleKeys.value = isOn;
    localStorage.setItem('single-keys', isOn ? 'on' : 'off');
}

export const go = (hash) => { location.hash = hash; };
export const sessionHash = (id) => `#/s/${encodeURIComponent(id)}`;

// ---- Titles ----

const firstWords = signal(new Map()); // session: the beginning of its first message
const wanted = [];
let asking = 0;

export function textOf(message) {
    return message.content ?? (message.parts ?? [])
        .map((part) => part.text ?? part.output ?? '').filter(Boolean).join('\n');
}

async function readTitle(id) {
    asking++;
    try {
        const { messages } = await get(`${path('sessions', id)}/messages?limit=3`);
        const first = messages.find((message) => message.role === 'user') ?? messages[0];

        firstWords.peek().set(id, first ? clip(textOf(first), TITLE_MAX) : '');
        firstWords.touch();
    } catch {
        // The key is shown instead.
    }
    asking--;
    readTitles();
}

function readTitles() {
    while (asking < TITLES_AT_ONCE && wanted.length)
        readTitle(wanted.shift());
}

// The title, or the beginning of the first message, or the key.
export function titleOf(session) {
    if (session.title)
        return visible(session.title);
    const known = firstWords.value;

    if (!known.has(session.id)) {
        known.set(session.id, '');
        wanted.push(session.id);
        readTitles();
    }
    return visible(known.get(session.id) || session.key || 'Untitled');
}

export const titleFrom = (text) => clip(text, TITLE_MAX);

// ---- Sessions ----

// Sessions of the same moment are in the order in which they were made, as their ids are.
function sortSessions(list) {
    const isOlder = (a, b) => (a.updated_at === b.updated_at ? a.id < b.id
        : a.updated_at < b.updated_at);

    sessions.value = list.sort((a, b) => (isOlder(a, b) ? 1 : -1));
}

export async function loadSessions(cursor = null) {
    const query = cursor ? `&cursor=${encodeURIComponent(cursor)}` : '';

    try {
        const page = await get(`sessions?limit=${LIST_MAX}${query}`);
        const before = cursor ? sessions.peek() : [];

        moreSessions.value = page.has_more ? page.cursor : null;
        sortSessions([...before, ...page.sessions]);
        sessionsProblem.value = '';
    } catch (error) {
        sessionsProblem.value = error.message;
    }
}

const drops = new Map(); // session: when it was removed from the list, counted in removals
let dropCount = 0;

function dropSession(id) {
    drops.set(id, ++dropCount);
    if (sessions.peek())
        sessions.value = sessions.peek().filter((session) => session.id !== id);
}

export async function loadSession(id) {
    const began = dropCount;

    try {
        const session = await get(path('sessions', id));
        // It may have been deleted while the response was on its way.
        const isDropped = drops.get(session.id) > began;

        if (session.state === 'active' && sessions.peek() && !isDropped)
            sortSessions([session, ...sessions.peek().filter((one) => one.id !== session.id)]);
        return session;
    } catch (error) {
        if (error.code !== 404)
            throw error;
        dropSession(id);
        return null;
    }
}

// ---- Turns ----

export const turnsOf = (session) =>
    [...turns.value.values()].filter((turn) => turn.session_id === session);

const ended = new Set(); // the newest turns that have ended

// Responses and events can arrive in any order, so an older state must not replace a newer one.
export function setTurn(turn) {
    const { turn_id: id, state, events } = turn;
    const known = turns.peek().get(id);

    if (ENDED.has(state)) {
        ended.add(id);
        turns.peek().delete(id);
        if (ended.size > ENDED_MAX)
            ended.delete(ended.values().next().value);
    } else if (!ended.has(id) && !(known && events < known.events)) {
        turns.peek().set(id, { ...known, ...turn });
    }
    turns.touch();
}

export async function loadTurns() {
    try {
        const { turns: list } = await get('turns?limit=200');

        turns.value = new Map(list.map((turn) => [turn.turn_id, turn]));
    } catch {
        // The banner says that the server does not respond.
    }
}

// ---- Events ----

const stale = new Set(); // sessions to read again
let timer = 0;

function readStale() {
    timer = 0;
    for (const id of stale)
        loadSession(id).catch(() => {});
    stale.clear();
}

function sessionChanged({ session_id: id, what }) {
    if (what === 'deleted' || what === 'erased') {
        dropSession(id);
        return;
    }
    stale.add(id);
    timer ||= setTimeout(readStale, 100);
}

export async function reload() {
    await Promise.all([loadSessions(), loadTurns()]);
}

export async function start() {
    addEventListener('hashchange', () => { place.value = location.hash || '#/'; });
    on('session', sessionChanged);
    on('turn', setTurn);
    on('ready', reload);
    on('lost', reload);
    const [caller, list] = await Promise.all([get('me'), get('models').catch(() => null),
        reload()]);
    me.value = caller;
    models.value = list?.models ?? [];
}
