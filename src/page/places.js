// places.js - the views besides conversations: live, search, trash and about.
import { count, h, onEnd, plural, scope, signal, time } from './core.js';
import { get, logOut, path, post, setTenant } from './api.js';
import { attempt, button, say, visible } from './parts.js';
import { approvals, results } from './docks.js';
import { openMenu } from './sidebar.js';
import { go, loadSession, me, models, sessionHash, sessions, titleOf, turns } from './store.js';
import { WHO } from './message.js';

const PAGE = 50;
const SECOND_MS = 1000;

function frame(title, note, ...content) {
    return h('main', { class: 'chat place', id: 'main', tabIndex: -1 },
        h('header', { class: 'top' }, openMenu(), h('h1', null, title),
            h('span', { class: 'dim' }, note)),
        h('div', { class: 'sheet' }, content));
}

const problemLine = (problem) => () => problem.value &&
    h('p', { class: 'problem', role: 'alert' }, problem.value);

// ---- Live ----

function nameOf(id) {
    const session = sessions.value?.find((one) => one.id === id);

    return session ? titleOf(session) : id;
}

const link = (turn) => h('a', { href: sessionHash(turn.session_id) },
    () => nameOf(turn.session_id));

// A call that waits for a person, with everything that is needed to decide.
function waitingCard(turn) {
    const full = signal(null);

    get(`turns/${turn.turn_id}`).then((state) => { full.value = state; }, () => {});
    return h('section', { class: 'waits' }, h('p', null, link(turn), h('span', { class: 'dim' },
        ' · ', time(turn.since))), () => full.value &&
        (turn.state === 'asking' ? approvals(full.value) : results(full.value)));
}

const waits = (turn) => turn.state === 'asking' || turn.state === 'paused';
const bySince = (a, b) => (a.since < b.since ? -1 : 1);

function runningRow(turn, now) {
    const cancel = () => attempt(() => post(`turns/${turn.turn_id}/cancel`));
    const seconds = () => Math.max(0, Math.round((now.value - Date.parse(turn.since)) / SECOND_MS));

    return h('tr', null, h('td', null, link(turn)), h('td', null, turn.state),
        h('td', null, turn.tool ?? ''), h('td', null, turn.model ?? ''),
        h('td', { class: 'number to-right' }, () => `${seconds()} s`),
        h('td', null, button('Stop', cancel, { class: 'plain writes' })));
}

export function liveView() {
    const now = signal(Date.now());
    const timer = setInterval(() => { now.value = Date.now(); }, SECOND_MS);
    const waiting = () => [...turns.value.values()].filter(waits).sort(bySince);
    const running = () => [...turns.value.values()].filter((turn) => !waits(turn)).sort(bySince);
    // A card is not made again while its turn waits, so that a half-written result stays.
    const cards = new Map();
    const card = (turn) => {
        const key = `${turn.turn_id} ${turn.since} ${turn.state}`;

        if (!cards.has(key))
            cards.set(key, scope(() => waitingCard(turn)));
        return cards.get(key)[0];
    };

    onEnd(() => {
        clearInterval(timer);
        for (const [, end] of cards.values())
            end();
    });
    return frame('Live', () => plural(turns.value.size, 'turn'),
        h('h2', null, 'Waiting for you'),
        () => (waiting().length ? waiting().map(card)
            : h('p', { class: 'dim' }, 'Nothing is waiting for you.')),
        h('h2', null, 'Running'),
        () => (running().length ? h('div', { class: 'table' }, h('table', null, h('thead', null,
            h('tr', null, ['Session', 'State', 'Tool', 'Model', 'Since', ''].map((word) =>
                h('th', null, word || h('span', { class: 'sr' }, 'Stop'))))),
        h('tbody', null, running().map((turn) => runningRow(turn, now)))))
            : h('p', { class: 'dim' }, 'Nothing runs.')));
}

// ---- Search ----

// The words of the query, marked in the snippet.
function marked(snippet, query) {
    const words = query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');

    if (!pattern)
        return [snippet];
    return snippet.split(new RegExp(`(${pattern})`, 'giu')).map((piece, i) =>
        (i % 2 ? h('mark', null, piece) : piece));
}

function hitRow(hit, query) {
    return h('li', null, h('a', { href: `${sessionHash(hit.session_id)}/m/${hit.seq}` },
        h('b', null, () => nameOf(hit.session_id)),
        h('span', { class: 'dim' }, ` ${WHO[hit.role] ?? hit.role} · #${count(hit.seq)} · `,
            time(hit.created_at)),
        h('span', { class: 'snippet', dir: 'auto' }, marked(hit.snippet, query))));
}

export function searchView(parameters) {
    const query = parameters.get('q') ?? '';
    const hits = signal(null);
    const cursor = signal(null);
    const isPartial = signal(false);
    const problem = signal('');
    const field = h('input', { type: 'search', value: query, 'aria-label': 'Search all sessions',
        placeholder: 'Words, "a phrase" or begin*' });
    const read = async () => {
        const more = cursor.peek() ? `&cursor=${encodeURIComponent(cursor.peek())}` : '';

        try {
            const page = await get(`search?limit=${PAGE}&q=${encodeURIComponent(query)}${more}`);

            hits.value = [...(hits.peek() ?? []), ...page.hits];
            cursor.value = page.cursor;
            isPartial.value = Boolean(page.partial);
            for (const { session_id: id } of page.hits) {
                if (!sessions.peek()?.some((session) => session.id === id))
                    loadSession(id).catch(() => {});
            }
        } catch (error) {
            problem.value = error.message;
        }
    };

    if (query)
        read();
    return frame('Search', () => hits.value && plural(hits.value.length, 'hit'),
        h('form', { role: 'search', class: 'search', onsubmit: (event) => {
            event.preventDefault();
            go(`#/search?q=${encodeURIComponent(field.value)}`);
        } }, field, h('button', { class: 'primary' }, 'Search')),
        problemLine(problem),
        () => isPartial.value && h('p', { class: 'dim' }, 'The index is being built, so older '
            + 'messages are missing.'),
        () => hits.value?.length === 0 && h('p', { class: 'dim' }, 'No message has all of these '
            + 'words. A * at the end of a word finds longer words; "quotes" find a phrase.'),
        h('ul', { class: 'hits' }, () => hits.value?.map((hit) => hitRow(hit, query))),
        () => cursor.value && button('More', read));
}

// ---- The trash ----

export function trashView() {
    const list = signal(null);
    const problem = signal('');
    const read = () => get(`sessions?state=trash&limit=${PAGE}`).then((page) => {
        list.value = page.sessions;
    }, (error) => { problem.value = error.message; });
    const restore = (session) => attempt(async () => {
        await post(`${path('sessions', session.id)}/restore`);
        await loadSession(session.id);
        say('The session was restored.');
        read();
    });
    const erase = (session) => {
        const title = session.title ?? session.id;

        if (window.prompt(`This removes the session for good. Type its title: ${title}`) !== title)
            return;
        attempt(async () => {
            await post(`${path('sessions', session.id)}/erase`);
            say('The session was erased.');
            read();
        });
    };

    read();
    return frame('Trash', '', problemLine(problem), () => list.value?.length === 0 &&
        h('p', { class: 'dim' }, 'The trash is empty.'),
    h('ul', { class: 'plain-list' }, () => list.value?.map((session) => h('li', null,
        h('span', { class: 'name' }, visible(session.title ?? session.id)),
        h('span', { class: 'dim' }, plural(session.message_count, 'message'), ' · ',
            time(session.updated_at)),
        button('Restore', () => restore(session), { class: 'plain writes' }),
        me.value?.role === 'admin' && button('Erase…', () => erase(session))))));
}

// ---- About ----

// An admin can look at any tenant.
function tenantForm() {
    const field = h('input', { value: me.value.tenant, 'aria-label': 'Tenant', required: true });

    return h('form', { class: 'search', onsubmit: (event) => {
        event.preventDefault();
        attempt(() => setTenant(field.value.trim()));
    } }, field, h('button', { class: 'plain' }, 'Switch the tenant'));
}

export function aboutView() {
    const tools = signal(null);
    const facts = () => [['Version', me.value.version],
        ['Tenant', me.value.tenant], ['Role', me.value.role],
        ['Model', `${me.value.model?.model} at ${me.value.model?.endpoint}`]];

    get('tools').then((answer) => { tools.value = answer; }, () => {});
    return frame('About', '', h('dl', { class: 'facts-list' }, () => facts().map(([name, value]) =>
        [h('dt', null, name), h('dd', null, value)])),
    h('p', null, h('a', { href: 'openapi.json' }, 'openapi.json'), ' describes the API. Press ',
        h('kbd', null, '?'), ' for the keys.'),
    () => !me.value.open && h('p', null, button('Log out', async () => {
        await attempt(logOut);
        location.reload();
    })),
    () => !me.value.open && me.value.role === 'admin' && tenantForm(),
    h('h2', null, 'Models'),
    h('ul', { class: 'plain-list' }, () => models.value.map((one) => h('li', null,
        h('span', { class: 'name' }, one.model), h('span', { class: 'dim' }, one.endpoint,
            one.context ? ` · ${count(one.context)} tokens` : null,
            one.is_default ? ' · default' : null)))),
    h('h2', null, 'Tool servers'),
    () => tools.value && (tools.value.servers.length
        ? h('ul', { class: 'plain-list' }, tools.value.servers.map((one) => h('li', null,
            h('span', { class: 'name' }, visible(one.server ?? one.name ?? '')),
            h('span', { class: 'chip' }, one.state),
            h('span', { class: 'dim' }, visible(one.reason ?? '')))))
        : h('p', { class: 'dim' }, 'None are configured.')),
    h('h2', null, 'Tools'),
    () => tools.value && h('ul', { class: 'plain-list' }, tools.value.tools.map((one) =>
        h('li', null, h('span', { class: 'name' }, visible(one.name)),
            h('span', { class: 'dim clip' }, visible(one.description ?? ''))))),
    h('p', { class: 'dim' }, 'Palaver has the MIT license. So has marked, with which the page '
        + 'parses Markdown.'));
}
