// place.js - what the views besides conversations share.
import { h, signal } from '../core.js';
import { get } from '../api.js';
import { button } from '../parts.js';
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

const PAGE = 50;

// A list that is read page by page, unless the target is empty. `onPage` gets each page.
export function pagesOf(target, name, onPage) {
    const list = signal(null);
    const cursor = signal(null);
    const problem = signal('');
    const read = async (isMore = false) => {
        const from = isMore ? `&cursor=${encodeURIComponent(cursor.peek())}` : '';

        try {
            const page = await get(`${target}limit=${PAGE}${from}`);

            list.value = [...(isMore ? list.peek() : []), ...page[name]];
            cursor.value = page.cursor;
            onPage?.(page);
        } catch (error) {
            problem.value = error.message;
        }
    };

    if (target)
        read();
    return { list, read, ends: [problemLine(problem),
        () => target && !list.value && !problem.value && h('div', { class: 'skeleton' }),
        () => cursor.value && button('More', () => read(true))] };
}
