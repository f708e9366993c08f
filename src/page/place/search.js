// search.js - finds messages of all sessions.
import { count, h, plural, signal, time } from '../core.js';
import { WHO } from '../message.js';
import { go, loadSession, sessionHash, sessions } from '../store.js';
import { frame, nameOf, pagesOf } from './place.js';


// The words of the query, marked in the snippet. The places are in characters.
function marked({ snippet, matches }) {
    const characters = [...snippet];
    const pieces = [];
    let end = 0;

    for (const [start, length] of matches) {
        pieces.push(characters.slice(end, start).join(''));
        end = start + length;
        pieces.push(h('mark', null, characters.slice(start, end).join('')));
    }
    return [...pieces, characters.slice(end).join('')];
}

function neighborLine(neighbor) {
    return h('span', { class: 'snippet dim', dir: 'auto' },
        `${WHO[neighbor.role] ?? neighbor.role}: ${neighbor.text}`);
}

// The messages before and after a hit are shown around it.
function hitRow(hit) {
    const around = hit.neighbors ?? [];

    return h('li', null, h('a', { href: `${sessionHash(hit.session_id)}/m/${hit.seq}` },
        h('b', { dir: 'auto' }, () => nameOf(hit.session_id)),
        h('span', { class: 'dim' }, ` ${WHO[hit.role] ?? hit.role} · #${count(hit.seq)} · `,
            time(hit.created_at)),
        around.filter(({ seq }) => seq < hit.seq).map(neighborLine),
        h('span', { class: 'snippet', dir: 'auto' }, marked(hit)),
        around.filter(({ seq }) => seq > hit.seq).map(neighborLine)));
}

export function searchView(parameters) {
    const query = parameters.get('q') ?? '';
    const isPartial = signal(false);
    const { list: hits, ends } = pagesOf(
        query && `search?neighbors=1&q=${encodeURIComponent(query)}&`, 'hits', (page) => {
            isPartial.value = Boolean(page.partial);
            for (const { session_id: id } of page.hits) {
                if (!sessions.peek()?.some((session) => session.id === id))
                    loadSession(id).catch(() => {});
            }
        });
    const field = h('input', { type: 'search', value: query, 'aria-label': 'Search all sessions',
        placeholder: 'A question, words, "a phrase" or begin*' });

    return frame('Search', () => hits.value && plural(hits.value.length, 'hit'),
        h('form', { role: 'search', class: 'search', onsubmit: (event) => {
            event.preventDefault();
            go(`#/search?q=${encodeURIComponent(field.value)}`);
        } }, field, h('button', { class: 'primary' }, 'Search')),
        () => isPartial.value && h('p', { class: 'dim' }, 'The index is being built, so older '
            + 'messages are missing.'),
        () => hits.value?.length === 0 && h('p', { class: 'dim' }, 'No message has these '
            + 'words. A * at the end of a word finds longer words; "quotes" find a phrase.'),
        h('ul', { class: 'hits' }, () => hits.value?.map(hitRow)), ends);
}
