// place.js - what the views besides conversations share.
import { h } from '../core.js';
import { openMenu } from '../sidebar.js';
import { sessions, titleOf } from '../store.js';

export function frame(title, note, ...content) {
    return h('main', { class: 'chat place', id: 'main', tabIndex: -1 },
        h('header', { class: 'top' }, openMenu(), h('h1', null, title),
            h('span', { class: 'dim' }, note)),
        h('div', { class: 'sheet' }, content));
}

export const problemLine = (problem) => () => problem.value &&
    h('p', { class: 'problem', role: 'alert' }, problem.value);

// The title of a session, or its id if it is not known.
export function nameOf(id) {
    const session = sessions.value?.find((one) => one.id === id);

    return session ? titleOf(session) : id;
}
