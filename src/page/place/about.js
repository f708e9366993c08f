// about.js - what runs here: the server, its models and tools, and settings of this browser.
import { brief, count, h, plural, signal, time } from '../core.js';
import { get, logOut, path, remove, setTenant } from '../api.js';
import { attempt, button, visible } from '../parts.js';
import { me, models, setSingleKeys, singleKeys } from '../store.js';
import { frame } from './place.js';

// An admin can look at any tenant.
function tenantForm() {
    const field = h('input', { value: me.value.tenant, 'aria-label': 'Tenant', required: true });

    return h('form', { class: 'search', onsubmit: (event) => {
        event.preventDefault();
        attempt(() => setTenant(field.value.trim()));
    } }, field, h('button', { class: 'plain' }, 'Switch the tenant'));
}

const bytes = (n) => (n < 1e6 ? `${Math.ceil(n / 1000)} kB` : `${(n / 1e6).toFixed(1)} MB`);

function facts(stats) {
    const { version, tenant, role, label, model } = me.value;

    return [['Version', version],
        ['Tenant', tenant], ['Role', role], label && ['Key', visible(label)],
        ['Model', `${model?.model} at ${model?.endpoint}`],
        stats && ['Started', time(stats.started_at)],
        stats && ['Store', `${stats.store.backend}, ${bytes(stats.store.disk_bytes)}`],
        stats && ['In it', [plural(stats.store.sessions_active, 'session'),
            stats.store.sessions_trash > 0 && `${count(stats.store.sessions_trash)} in the trash`,
            stats.store.sessions_quarantined > 0
                && `${count(stats.store.sessions_quarantined)} damaged`,
            plural(stats.store.messages, 'message'), plural(stats.store.blobs, 'blob'),
            stats.store.tenants > 1 && plural(stats.store.tenants, 'tenant')]
            .filter(Boolean).join(', ')]].filter(Boolean);
}

function modelRow(one) {
    const price = one.price && `$${one.price.input / 1e6} in, $${one.price.output / 1e6} out for a `
        + 'million tokens';

    return h('li', null, h('div', { class: 'grow' }, h('p', { class: 'name' }, one.model,
        one.is_default && [' ', h('span', { class: 'chip good' }, 'default')]),
    h('p', { class: 'dim' }, [one.endpoint, one.context > 0 && `${brief(one.context)} tokens`,
        price, !one.is_exact && 'tokens are estimated'].filter(Boolean).join(' · '))));
}

const SERVER_STATES = { ready: 'good', failed: 'bad', restarting: 'warn', starting: 'warn' };

function serverRow(one) {
    return h('li', null, h('div', { class: 'grow' }, h('p', { class: 'name' },
        visible(one.server), ' ',
        h('span', { class: `chip ${SERVER_STATES[one.state] ?? ''}` }, one.state)),
    one.reason && h('p', { class: 'dim' }, visible(one.reason))));
}

function toolRow(one) {
    return h('li', null, h('div', { class: 'grow' }, h('p', { class: 'name' }, visible(one.name),
        one.permission !== 'allow' && [' ',
            h('span', { class: `chip ${one.permission === 'deny' ? 'bad' : 'warn'}` },
                one.permission)]),
    h('p', { class: 'dim' }, visible(one.description ?? ''))),
    h('span', { class: 'dim number' }, plural(one.tokens, 'token')));
}

const list = (items, row, none) => (items.length
    ? h('ul', { class: 'plain-list' }, items.map(row)) : h('p', { class: 'dim' }, none));

// The browsers that are logged in with the same key.
function loginList() {
    const logins = signal([]);
    const end = (login) => attempt(async () => {
        logins.value = (await remove(path('logins', login.id))).logins;
    });

    get('logins').then((answer) => { logins.value = answer.logins; }, () => {});
    return () => logins.value.length > 0 && [h('h2', null, 'Logins with this key'),
        h('ul', { class: 'plain-list' }, logins.value.map((login) => h('li', null,
            h('p', { class: 'grow' }, 'since ', time(login.created_at), ' · used ',
                time(login.used_at)), login.is_current
                ? h('span', { class: 'chip good' }, 'this browser')
                : button('End', () => end(login)))))];
}

export function aboutView() {
    const tools = signal(null);
    const stats = signal(null);

    get('tools').then((answer) => { tools.value = answer; }, () => {});
    if (me.peek().role === 'admin')
        get('stats').then((answer) => { stats.value = answer; }, () => {});
    return frame('About', '', h('dl', { class: 'facts-list' }, () => facts(stats.value)
        .map(([name, value]) => [h('dt', null, name), h('dd', null, value)])),
    () => me.value.open && h('p', { class: 'dim' }, 'The server has no API keys: it can be used '
        + 'only from this machine, and everybody there is an admin.'),
    () => !me.value.open && h('p', null, button('Log out', async () => {
        await attempt(logOut);
        location.reload();
    })),
    () => !me.value.open && me.value.role === 'admin' && tenantForm(),
    () => !me.value.open && loginList(),
    h('h2', null, 'Models'),
    () => list(models.value, modelRow, 'No model was found.'),
    h('h2', null, 'Tool servers'),
    () => tools.value && list(tools.value.servers, serverRow, 'None are configured.'),
    h('h2', null, 'Tools'),
    () => tools.value && list(tools.value.tools, toolRow, 'The model has no tools.'),
    h('h2', null, 'Keyboard'),
    h('label', { class: 'check' }, h('input', { type: 'checkbox', checked: singleKeys.peek(),
        onchange: (event) => setSingleKeys(event.target.checked) }),
    'Single keys, such as n for a new chat'),
    h('p', { class: 'dim' }, 'Press ', h('kbd', null, '?'), ' for the list of keys.'),
    h('h2', null, 'More'),
    h('p', null, h('a', { href: 'openapi.json' }, 'openapi.json'), ' describes the API, with which '
        + 'every program can do what this page does.'),
    h('p', { class: 'dim' }, 'Palaver has the MIT license. So has marked, with which the page '
        + 'parses Markdown. The page loads nothing from other servers and sends nothing to them.'));
}
