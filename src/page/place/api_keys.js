// api_keys.js - API keys, for admins: list, create, revoke.
import { count, h, money, plural, signal, time } from '../core.js';
import { logIn, path, post, remove } from '../api.js';
import { attempt, button, copy, dialog, say, visible } from '../parts.js';
import { frame, pagesOf } from './place.js';
import { me } from '../store.js';

const MICROS = 1e6;
const ROLES = { read: 'Read: sees everything of its tenant and changes nothing',
    write: 'Write: can talk, and change sessions',
    admin: 'Admin: can also manage keys, erase, and see other tenants' };

// ---- Creating ----

// The secret exists only here. Closing needs a click, so that it is not lost by a slip.
function showSecret(key, isFirst) {
    const field = h('input', { value: key.key, readOnly: true, class: 'mono secret',
        'aria-label': 'Secret of the key', onfocus: (event) => event.target.select() });

    dialog('The key was created', (close) => [
        h('p', null, 'This is the only time that its secret is shown. Palaver does not store it.'),
        h('div', { class: 'search' }, field, button('Copy', () => copy(key.key))),
        isFirst && h('p', null, 'From now on, the server requires a key.'),
        h('div', { class: 'buttons' }, isFirst
            ? h('button', { type: 'button', class: 'primary', onclick: () => attempt(async () => {
                await logIn({ key: key.key });
                location.reload();
            }) }, 'Log in with it')
            : button('Done', close, { class: 'primary' })),
    ].filter(Boolean));
}

function number(name, label, more = {}) {
    return h('label', null, label, h('input', { type: 'number', name, min: 0, inputMode: 'decimal',
        ...more }));
}

// What the form says, as the body of the request. Empty fields are left out.
function bodyOf(form) {
    const { tenant, role, label, tokens, cost, period, rate } = form.elements;
    const budget = { ...(tokens.value && { tokens: Number(tokens.value) }),
        ...(cost.value && { cost_micros: Math.round(Number(cost.value) * MICROS) }) };

    return { role: role.value, tenant: tenant.value.trim(),
        ...(label.value.trim() && { label: label.value.trim() }),
        ...(rate.value && { requests_per_minute: Number(rate.value) }),
        ...(Object.keys(budget).length && { budget: { ...budget, period: period.value } }) };
}

function createDialog(created) {
    const isFirst = me.peek().open;
    const problem = signal('');

    dialog('New key', (close) => h('form', { class: 'key-form', onsubmit: async (event) => {
        event.preventDefault();
        try {
            const key = await post('keys', bodyOf(event.target));

            close();
            if (!isFirst) // from now on, this page has no key
                created();
            showSecret(key, isFirst);
        } catch (error) {
            problem.value = error.message;
        }
    } },
    isFirst && h('p', null, 'The server has no keys yet, so everybody on this machine can use it. '
        + 'With the first key, every request needs one. Make it a key for an admin.'),
    h('label', null, 'Label', h('input', { name: 'label', maxLength: 256,
        placeholder: 'who or what uses it' })),
    h('label', null, 'Role', h('select', { name: 'role' },
        Object.entries(ROLES).map(([role, text]) => h('option', { value: role,
            selected: role === (isFirst ? 'admin' : 'write') }, text)))),
    h('label', null, 'Tenant', h('input', { name: 'tenant', required: true,
        value: me.peek().tenant })),
    h('fieldset', null, h('legend', null, 'Limits (empty: none)'),
        number('tokens', 'Tokens', { step: 1 }), number('cost', 'Cost in dollars', { step: 'any' }),
        h('label', null, 'per', h('select', { name: 'period' },
            ['day', 'month'].map((period) => h('option', { value: period }, period)))),
        number('rate', 'Requests per minute', { step: 1 })),
    () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value),
    h('div', { class: 'buttons' }, h('button', { class: 'primary' }, 'Create'),
        button('Cancel', close))));
}

// ---- The list ----

function revokeDialog(key, done) {
    dialog('Revoke the key', (close) => [
        h('p', null, h('b', null, visible(key.label || key.id)), ' is refused from now on, and its '
            + 'logins end. This cannot be undone.'),
        key.id === me.peek().key_id && h('p', { class: 'problem' },
            'You are logged in with this key.'),
        h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary danger',
            onclick: () => {
                close();
                attempt(async () => {
                    await remove(path('keys', key.id));
                    say('The key was revoked.');
                    done();
                });
            } }, 'Revoke'), button('Cancel', close)),
    ].filter(Boolean));
}

function limitsOf({ budget, requests_per_minute: rate }) {
    const per = budget?.period ?? 'day';

    return [budget?.tokens > 0 && `${count(budget.tokens)} tokens per ${per}`,
        budget?.cost_micros > 0 && `${money(budget.cost_micros)} per ${per}`,
        rate > 0 && `${plural(rate, 'request')} per minute`].filter(Boolean).join(', ');
}

function keyRow(key, done) {
    const limits = limitsOf(key);

    return h('li', { class: `key${key.revoked_at ? ' revoked' : ''}` },
        h('div', null, h('p', null, h('span', { class: 'name' }, visible(key.label || 'No label')),
            ' ', h('span', { class: `chip${key.role === 'admin' ? ' warn' : ''}` }, key.role), ' ',
            key.revoked_at && h('span', { class: 'chip bad' }, 'revoked'),
            key.id === me.peek().key_id && h('span', { class: 'chip good' }, 'yours')),
        h('p', { class: 'dim' }, h('span', { class: 'mono' }, key.id),
            ` · ${visible(key.tenant)} · created `, time(key.created_at),
            key.used_on ? ` · used on ${key.used_on}` : ' · never used',
            limits && ` · ${limits}`)),
        !key.revoked_at && button('Revoke…', () => revokeDialog(key, done)));
}

export function keysView() {
    const { list: keys, read, ends } = pagesOf('keys?', 'keys');
    const isAll = signal(false); // revoked keys are shown too
    const shown = () => keys.value.filter((key) => isAll.value || !key.revoked_at);
    const revoked = () => keys.value.filter((key) => key.revoked_at).length;

    return frame('Keys', () => keys.value && plural(keys.value.length - revoked(), 'key'),
        h('p', null, 'Programs and browsers use the server with an API key. A key belongs to a '
            + 'tenant and sees only its sessions.'),
        h('div', { class: 'buttons' }, button('New key…', () => createDialog(read),
            { class: 'primary' }), () => keys.value && revoked() > 0 &&
            button(isAll.value ? 'Hide revoked keys' : `Show ${plural(revoked(), 'revoked key')}`,
                () => { isAll.value = !isAll.value; })),
        () => keys.value && h('ul', { class: 'plain-list keys-list' }, shown().map((key) =>
            keyRow(key, read))),
        () => keys.value && !shown().length && h('p', { class: 'dim' }, me.value.open
            ? 'The server has no keys, so only this machine can use it, without a login.'
            : 'There are no keys.'), ends);
}
