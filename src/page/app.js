// app.js - the frame of the page: which view is shown, keys, and what is said at the top.
import { effect, h, onEnd, scope, signal } from './core.js';
import { decode, isLoggedOut } from './api.js';
import { conversation, newChat } from './chat.js';
import { isLive, on, start as startLive } from './live.js';
import { palette } from './palette.js';
import { dialog, toasts } from './parts.js';
import { sidebar, waitingTurns } from './sidebar.js';
import { go, heading, me, place, singleKeys, start as startStore } from './store.js';
import { loginView, useCode } from './place/login.js';

const KEYS = [
    ['n', 'new chat'], ['/', 'search'], ['Ctrl K', 'find a session or an action'],
    ['r', 'to the composer'], ['Enter', 'send'], ['Shift Enter', 'new line'],
    ['Ctrl Enter', 'send while a turn runs: the model gets it before its next step'],
    ['Alt Enter', 'while you edit a question: say it in a fork'],
    ['↑', 'in an empty composer: edit the last question'],
    ['Alt ↑ ↓', 'previous and next session'],
    ['j k', 'next and previous message'], ['g G', 'first and last message'],
    ['[ ]', 'previous and next mark'],
    ['p f b', 'on a message: pin, fork, rewind to it'], ['e', 'on a question: edit it'],
    ['y', 'on a message: why the model has it or not'],
    ['s', 'on an answer: what the model saw'],
    ['w m t l', 'the window, the marks, the turn, the ledger'], ['u', 'undo the newest mark'],
    ['a d', 'on an approval: allow, deny'],
    ['Esc', 'close, then stop the turn'], ['?', 'this list'],
];

// A view whose module is loaded when it is first shown.
function later(load, name) {
    return (argument) => {
        const module = signal(null);
        const problem = signal('');

        load().then((loaded) => { module.value = loaded; },
            () => { problem.value = 'This part of the page could not be loaded.'; });
        return h('div', { class: 'later' }, () => {
            if (!module.value)
                return null;
            const [view, end] = scope(() => module.peek()[name](argument));

            onEnd(end);
            return view;
        }, () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value));
    };
}

const panels = {
    window: { label: 'Window', key: 'w',
        view: later(() => import('./inspector/window.js'), 'windowView') },
    marks: { label: 'Marks', key: 'm',
        view: later(() => import('./inspector/marks.js'), 'marksView') },
    turn: { label: 'Turn', key: 't', view: later(() => import('./inspector/turn.js'), 'turnView') },
    ledger: { label: 'Ledger', key: 'l',
        view: later(() => import('./inspector/ledger.js'), 'ledgerView') },
    raw: { label: 'Raw', view: later(() => import('./inspector/raw.js'), 'rawView') },
};
const places = {
    live: later(() => import('./place/activity.js'), 'liveView'),
    search: later(() => import('./place/search.js'), 'searchView'),
    usage: later(() => import('./place/usage.js'), 'usageView'),
    keys: later(() => import('./place/api_keys.js'), 'keysView'),
    notes: later(() => import('./place/lists.js'), 'notesView'),
    trash: later(() => import('./place/lists.js'), 'trashView'),
    about: later(() => import('./place/about.js'), 'aboutView'),
};
const links = () => [['#/live', 'live', 'Live'], ['#/usage', 'usage', 'Usage'],
    ['#/notes', 'file', 'Notes'],
    me.peek().role === 'admin' && ['#/keys', 'key', 'Keys'], ['#/trash', 'trash', 'Trash'],
    ['#/about', 'info', 'About']].filter(Boolean);

function showKeys() {
    dialog('Keys', () => [h('dl', { class: 'keys' },
        KEYS.map(([key, does]) => [h('dt', null, h('kbd', null, key)), h('dd', null, does)])),
    h('p', { class: 'dim' }, 'Single keys can be switched off under About.')]);
}

function noPlace() {
    return h('main', { class: 'chat', id: 'main' }, h('div', { class: 'hello' },
        h('h1', null, 'This page does not exist'),
        h('p', null, h('a', { href: '#/' }, 'New chat'))));
}

// ---- Places: #/, #/s/NAME, #/s/NAME/m/SEQ, #/s/NAME/t/TURN, with ?p=PANEL&... ----

const panel = signal('');
const query = signal(new URLSearchParams()); // of the address

function parse(hash) {
    const [route, query = ''] = hash.split('?');
    const [start, view = start.slice(1), name, part, number] = route.split('/');

    return { view, name: name && decode(name), part, number,
        query: new URLSearchParams(query) };
}

function viewOf({ view, name, part, number, query: parameters }) {
    if (!view)
        return newChat;
    if (Object.hasOwn(places, view))
        return () => places[view](parameters);
    if (view === 's' && name)
        return () => conversation({ name, seq: part === 'm' ? Number(number) : 0, panel, query,
            panels });
    return noPlace;
}

// A view stays while only its panel, or the turn in it, changes.
function keyOf({ view, name, part, number, query: parameters }) {
    const inView = part === 't' ? ['', ''] : [part, number];

    return [view, name, ...inView, view === 's' ? '' : parameters].join('/');
}

const panelOf = ({ part, query: parameters }) =>
    parameters.get('p') ?? (part === 't' ? 'turn' : '');

function showViews(box) {
    let end = () => {};
    let key = null;

    effect(() => {
        const target = parse(place.value);

        panel.value = panelOf(target);
        query.value = target.query;
        if (keyOf(target) === key)
            return;
        key = keyOf(target);
        end();
        const [view, ended] = scope(viewOf(target));
        end = ended;
        box.replaceChildren(view);
        box.key = view.key;
    });
}

// ---- Keys ----

// Goes to the session before or after this one in the list.
function stepSession(by) {
    const rows = [...document.querySelectorAll('.sessions .session')];
    const at = rows.findIndex((row) => row.classList.contains('on'));
    const next = rows[at < 0 ? 0 : at + by];

    if (next)
        go(next.hash);
}

function showPalette(box) {
    palette({ chat: box.firstChild?.chat, panels, links: links(), showKeys });
}

// Keys with Ctrl, ⌘ or Alt, which work everywhere.
function keyAnywhere(event, box) {
    const isModified = event.ctrlKey || event.metaKey;

    if (isModified && !event.altKey && event.key === 'k' && !document.querySelector('dialog[open]'))
        showPalette(box);
    else if (event.altKey && !isModified && /^Arrow(Up|Down)$/.test(event.key))
        stepSession(event.key === 'ArrowUp' ? -1 : 1);
    else
        return false;
    return true;
}

// A single key does nothing while something is typed. If these keys are switched off, letters do
// nothing at all: a person who dictates would trigger them by words.
function isTyped(event) {
    return event.target.closest('input, textarea, select, dialog') || event.ctrlKey ||
        event.metaKey || event.altKey || event.defaultPrevented ||
        (!singleKeys.peek() && event.key.length === 1);
}

function keySingle(event, box) {
    const { chat } = box.firstChild;
    const keys = {
        n: () => go('#/'),
        r: () => document.getElementById('say')?.focus(),
        '/': () => document.getElementById('find')?.focus(),
        '?': showKeys,
    };
    const name = Object.keys(panels).find((one) => event.key === panels[one].key);

    if (chat && name)
        chat.showPanel(panel.peek() === name ? '' : name);
    else if (keys[event.key])
        keys[event.key]();
    else
        return Boolean(box.key?.(event));
    return true;
}

function key(event, box) {
    if (keyAnywhere(event, box) || (!isTyped(event) && keySingle(event, box)))
        event.preventDefault();
}

// ---- The frame ----

const hash = new URL('.', import.meta.url).pathname.split('/').at(-2);
const isOld = signal(false); // the server has another version of the page

// The server may have been replaced while it did not respond.
async function checkVersion() {
    try {
        isOld.value = !(await (await fetch('./')).text()).includes(hash);
    } catch {
        // The next time that the server responds, this is tried again.
    }
}

function banner() {
    if (isLoggedOut.value)
        return h('p', { class: 'banner', role: 'alert' }, 'This login has ended. ',
            h('button', { type: 'button', class: 'linklike', onclick: () => location.reload() },
                'Log in again'));
    if (isLive.value !== false && isOld.value)
        return h('p', { class: 'banner', role: 'alert' }, 'The server has a newer version of this '
            + 'page. Your text is kept. ', h('button', { type: 'button', class: 'linklike',
            onclick: () => location.reload() }, 'Reload'));
    return isLive.value === false && h('p', { class: 'banner', role: 'alert' },
        'The server does not respond. Your text is kept.');
}

async function run() {
    const app = document.getElementById('app');
    const box = h('div', { class: 'view' });

    document.documentElement.dataset.theme = localStorage.getItem('theme') ??
        (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    const problem = await useCode();
    try {
        startLive();
        await startStore();
    } catch (error) {
        if (error.name !== 'Failure')
            throw error;
        app.replaceChildren(loginView(error, problem), toasts());
        return;
    }
    document.documentElement.dataset.role = me.peek().role;
    app.replaceChildren(...[h('a', { class: 'skip', href: '#main', onclick: (event) => {
        event.preventDefault();
        document.getElementById('main')?.focus();
    } }, 'Skip to the conversation'), sidebar(links()),
    h('div', { class: 'column' }, banner, box), toasts()].flat());
    showViews(box);
    addEventListener('keydown', (event) => key(event, box));
    effect(() => {
        const waiting = waitingTurns().length;

        document.title = `${waiting ? `(${waiting}) ` : ''}`
            + `${heading.value ? `${heading.value} – ` : ''}Palaver`;
    });
    on('lost', checkVersion);
    performance.mark('ready');
    document.documentElement.dataset.ready = me.peek().version;
}

run();
