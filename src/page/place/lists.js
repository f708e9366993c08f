// lists.js - the views that are a list with buttons: deleted sessions, which can be restored or
// erased for good, and the notes of the long-term memory. A key that is not an admin's is shown
// only the notes that everybody in its tenant may know.
import { h, plural, signal, time } from '../core.js';
import { path, post } from '../api.js';
import { attempt, button, dialog, say, visible } from '../parts.js';
import { loadSession, me, sessionHash } from '../store.js';
import { frame, nameOf, pagesOf } from './place.js';

// ---- Deleted sessions ----

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
        + 'files and whatever was derived from them. Messages that a fork shares stay in the '
        + 'fork. It cannot be undone.'),
    h('label', { class: 'field' }, 'Type its title: ', h('b', null, title),
        h('input', { autocomplete: 'off',
            oninput: (event) => { typed.value = event.target.value; } })),
    h('div', { class: 'buttons' }, h('button', { class: 'primary danger',
        disabled: () => plain(typed.value) !== title }, 'Erase'), button('Cancel', close))));
}

export function trashView() {
    const { list, read, ends } = pagesOf('sessions?state=trash&', 'sessions');
    const restore = (session) => attempt(async () => {
        await post(`${path('sessions', session.id)}/restore`);
        await loadSession(session.id);
        say('The session was restored.');
        read();
    });

    return frame('Trash', () => list.value && plural(list.value.length, 'session'),
        h('p', { class: 'dim' }, () => (list.value?.length === 0 ? 'The trash is empty.'
            : 'Deleted sessions stay here until they are erased.')),
        h('ul', { class: 'plain-list' }, () => list.value?.map((session) => h('li', null,
            h('div', { class: 'grow' }, h('p', { class: 'name' }, titleOf(session)),
                h('p', { class: 'dim' }, plural(session.message_count, 'message'), ' · deleted ',
                    time(session.updated_at))),
            button('Restore', () => restore(session), { class: 'plain writes' }),
            me.value?.role === 'admin' && button('Erase…', () => eraseDialog(session, read))))),
        ends);
}

// ---- Notes ----

// By person and room; what waits for a yes or a no comes first.
export function notesView() {
    const { list, read, ends } = pagesOf('notes?', 'notes');
    const does = (note, name, label) => button(label, () => attempt(async () => {
        await post(`${path('notes', note.id)}/${name}`, {});
        read();
    }), { class: 'plain writes' });
    const actions = (note) => ({ active: does(note, 'retract', 'Retract'),
        pending: [does(note, 'confirm', 'Yes'), does(note, 'retract', 'No')],
    })[note.state] ?? does(note, 'restore', 'Restore');
    const row = (note) => h('li', null,
        h('div', { class: 'grow' }, h('p', { class: 'name' }, visible(note.text)),
            h('p', { class: 'dim' }, note.pending ?? note.kind, note.sources?.map((source) =>
                [' · ', h('a', { href: `${sessionHash(note.session_id)}/m/${source.seq}` },
                    visible(source.quote))]))),
        actions(note));
    const groupOf = ({ state, subject }) => (state === 'pending' ? ' Waiting for you' : subject);
    const session = (id) => h('a', { href: sessionHash(id) }, () => nameOf(id));
    const group = (name) => [h('h2', null, name.startsWith('session:') ? session(name.slice(8))
        : visible(name)), h('ul', { class: 'plain-list' },
        list.value.filter((note) => groupOf(note) === name).map(row))];

    return frame('Notes', '', () => list.value?.length === 0 &&
        h('p', { class: 'dim' }, 'There are no notes.'), () => list.value &&
        [...new Set(list.value.map(groupOf))].sort().map(group), ends);
}
