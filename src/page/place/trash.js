// trash.js - deleted sessions: restore them, or erase them for good.
import { h, plural, signal, time } from '../core.js';
import { get, path, post } from '../api.js';
import { attempt, button, dialog, say, visible } from '../parts.js';
import { loadSession, me } from '../store.js';
import { frame, problemLine } from './place.js';

const PAGE = 50;

const titleOf = (session) => visible(session.title || session.id);

const REMOVED = { messages: 'message', marks: 'mark', blobs: 'image or file',
    inbox: 'waiting message', records: 'record' };

// "12 messages, 3 marks"
function removedText(counts) {
    return Object.entries(REMOVED).filter(([name]) => counts[name] > 0)
        .map(([name, word]) => plural(counts[name], word).replace(/image or files$/,
            'images or files')).join(', ');
}

const plain = (text) => text.trim().replace(/\s+/g, ' '); // as it is shown

function eraseDialog(session, done) {
    const title = plain(titleOf(session));
    const typed = signal('');

    dialog('Erase the session', (close) => h('form', { onsubmit: (event) => {
        event.preventDefault();
        close();
        attempt(async () => {
            const counts = await post(`${path('sessions', session.id)}/erase`);
            const text = removedText(counts);

            say(`The session was erased${text ? `: ${text}` : ''}.`);
            done();
        });
    } },
    h('p', null, `This removes ${plural(session.message_count, 'message')} for good, with images, `
        + 'files and the search index, and whatever was derived from them. Messages that a fork '
        + 'shares stay in the fork. It cannot be undone.'),
    h('label', { class: 'field' }, 'Type its title: ', h('b', null, title),
        h('input', { autocomplete: 'off',
            oninput: (event) => { typed.value = event.target.value; } })),
    h('div', { class: 'buttons' }, h('button', { class: 'primary danger',
        disabled: () => plain(typed.value) !== title }, 'Erase'), button('Cancel', close))));
}

export function trashView() {
    const list = signal(null);
    const cursor = signal(null);
    const problem = signal('');
    const read = async (isMore = false) => {
        const from = isMore ? `&cursor=${encodeURIComponent(cursor.peek())}` : '';

        try {
            const page = await get(`sessions?state=trash&limit=${PAGE}${from}`);

            list.value = [...(isMore ? list.peek() : []), ...page.sessions];
            cursor.value = page.has_more ? page.cursor : null;
        } catch (error) {
            problem.value = error.message;
        }
    };
    const restore = (session) => attempt(async () => {
        await post(`${path('sessions', session.id)}/restore`);
        await loadSession(session.id);
        say('The session was restored.');
        read();
    });

    read();
    return frame('Trash', () => list.value && plural(list.value.length, 'session'),
        h('p', { class: 'dim' }, 'Deleted sessions stay here until they are erased.'),
        problemLine(problem),
        () => !list.value && !problem.value && h('div', { class: 'skeleton' }),
        () => list.value?.length === 0 && h('p', { class: 'dim' }, 'The trash is empty.'),
        h('ul', { class: 'plain-list' }, () => list.value?.map((session) => h('li', null,
            h('div', { class: 'grow' }, h('p', { class: 'name' }, titleOf(session)),
                h('p', { class: 'dim' }, plural(session.message_count, 'message'), ' · deleted ',
                    time(session.updated_at))),
            button('Restore', () => restore(session), { class: 'plain writes' }),
            me.value?.role === 'admin' && button('Erase…', () => eraseDialog(session, read))))),
        () => cursor.value && button('More', () => read(true)));
}
