// parts.js - the small parts that all views use: icons, buttons, toasts, dialogs.
import { h, scope, signal } from './core.js';

const ICONS = {
    pin: 'M9 4h6l-1 6 4 4H6l4-4-1-6zM12 14v6',
    fork: 'M6 4v5a4 4 0 0 0 4 4h4a4 4 0 0 1 4 4v3M6 4v16M18 4v4',
    copy: 'M9 9h10v11H9zM5 15V4h10',
    back: 'M9 14l-5-5 5-5M4 9h10a6 6 0 0 1 0 12h-3',
    again: 'M20 12a8 8 0 1 1-2.6-5.9M20 3v4.5h-4.5',
    edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
    why: 'M9.2 9a3 3 0 1 1 4.3 2.7c-1 .5-1.5 1.1-1.5 2.3M12 17.5v.5'
        + 'M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z',
    tool: 'M5 7l5 5-5 5M12 18h7',
    send: 'M12 19V5M6 11l6-6 6 6',
    stop: 'M7 7h10v10H7z',
    plus: 'M12 5v14M5 12h14',
    attach: 'M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8L9.5 17'
        + 'a1.7 1.7 0 0 1-2.4-2.4L14 7.7',
    search: 'M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM20.5 20.5L16 16',
    menu: 'M4 7h16M4 12h16M4 17h16',
    close: 'M6 6l12 12M18 6L6 18',
    window: 'M4 5h16v14H4zM14 5v14',
    light: 'M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v2M12 20v2M4 12H2M22 12h-2M5 5l1.4 1.4'
        + 'M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
    trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v5M14 11v5',
    live: 'M3 12h4l3-8 4 16 3-8h4',
    marks: 'M4 12h16M8 8v8M16 8v8M12 5v14',
    file: 'M7 3h7l5 5v13H7zM14 3v5h5',
    left: 'M15 6l-6 6 6 6',
    right: 'M9 6l6 6-6 6',
    usage: 'M4 20h16M7 16v-4M12 16V6M17 16v-7',
    key: 'M8 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 12h9v3M17 12v3',
    open: 'M14 4h6v6M20 4l-8 8M11 5H5v14h14v-6',
    saw: 'M2 12c3-5 6.5-7 10-7s7 2 10 7c-3 5-6.5 7-10 7s-7-2-10-7z'
        + 'M12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6z',
    info: 'M12 11v6M12 7.5v.5M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z',
};

export function icon(name) {
    return h('svg', { viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true' },
        h('path', { d: ICONS[name] }));
}

// A button that is only an icon. `label` is its name for all who do not see it.
export function iconButton(name, label, onclick, more = {}) {
    return h('button', { type: 'button', class: 'ghost', title: label, 'aria-label': label, onclick,
        ...more }, icon(name));
}

export function button(text, onclick, more = {}) {
    return h('button', { type: 'button', class: 'plain', onclick, ...more }, text);
}

// ---- Toasts ----

const TOAST_MS = 8000;
const SAVE_MS = 1000; // until the browser has read a file
const toast = signal(null);
let timer = 0;
let toastBox = null;

// Says something for a while. `undo` takes it back; `word` is what its button says.
export function say(text, undo = null, word = 'Undo') {
    clearTimeout(timer);
    // Nothing outside of an open dialog can be used.
    (document.querySelector('dialog[open]') ?? document.getElementById('app')).append(toastBox);
    toast.value = { text, undo, word };
    timer = setTimeout(() => { toast.value = null; }, TOAST_MS);
}

// Runs `work`, and shows why it failed. Returns what it returned, or null.
export async function attempt(work) {
    try {
        return await work();
    } catch (error) {
        if (error.name !== 'Failure')
            throw error;
        say(error.message);
        return null;
    }
}

export function toasts() {
    toastBox = h('div', { class: 'toasts', role: 'status' }, () => toast.value && h('div',
        { class: 'toast' }, toast.value.text, toast.value.undo && h('button', { type: 'button',
            onclick: () => {
                const { undo } = toast.peek();

                toast.value = null;
                attempt(undo);
            } }, toast.value.word)));
    return toastBox;
}

// ---- Dialogs ----

// Shows a dialog. It closes with Escape, and the focus returns. `content` gets what closes it.
export function dialog(title, content) {
    const box = h('dialog', { 'aria-label': title, class: 'dialog' });
    const close = () => box.close();
    const [nodes, end] = scope(() => [content(close)].flat());

    box.append(h('header', null, h('h2', null, title), iconButton('close', 'Close', close)),
        ...nodes);
    box.addEventListener('close', () => {
        end();
        if (box.contains(toastBox))
            document.getElementById('app').append(toastBox);
        box.remove();
    });
    box.addEventListener('click', (event) => {
        if (event.target === box)
            close();
    });
    document.body.append(box);
    box.showModal();
}

// Controls that change the direction of a text or hide it become visible.
export function visible(text) {
    return text.replace(/[\u202a-\u202e\u2066-\u2069\u200b-\u200f]/g,
        (c) => `⟨${c.charCodeAt(0).toString(16)}⟩`);
}

// Gives a text to the person as a file.
export function save(name, text, type = 'application/json') {
    const url = URL.createObjectURL(new Blob([text], { type }));

    h('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), SAVE_MS);
}

export async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
        say('Copied.');
    } catch {
        say('The browser does not let this page copy.');
    }
}
