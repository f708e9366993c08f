// login.js - what is shown if the server requires a key.
import { h, signal } from '../core.js';
import { isLoggedOut, logIn } from '../api.js';
import { logo } from '../sidebar.js';
import { place } from '../store.js';

const LINK = /^#\/login\?code=([\w-]+)$/;

// A link of `palaver page` has a code that counts once. It does not stay in the address. Returns
// why it does not count: the person may be logged in already, or need no login.
export async function useCode() {
    const code = LINK.exec(location.hash)?.[1];

    if (!code)
        return '';
    history.replaceState(null, '', '#/');
    place.value = '#/';
    try {
        await logIn({ code });
        return '';
    } catch (error) {
        isLoggedOut.value = false;
        return textOf(error);
    }
}

// The rest of the message is for programs.
const textOf = (error) => (error.code === 401 ? error.message.split('; ')[0] : error.message);

function form(before) {
    const problem = signal(before);
    const field = h('input', { type: 'password', id: 'key', autocomplete: 'off', required: true,
        'aria-label': 'API key', placeholder: 'API key' });

    return h('form', { class: 'search', onsubmit: async (event) => {
        event.preventDefault();
        try {
            await logIn({ key: field.value.trim() });
            location.reload();
        } catch (error) {
            problem.value = textOf(error);
        }
    } }, field, h('button', { class: 'primary' }, 'Log in'),
    () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value));
}

// `problem` is the failure of the first request; `code` says why a link does not count.
export function loginView(problem, code) {
    const isLogin = problem.code === 401;

    return h('main', { class: 'login', id: 'main' }, logo(), h('h1', null, 'Palaver'),
        isLogin ? h('p', null, 'This server requires an API key. The page does not store it.')
            : h('p', { class: 'problem', role: 'alert' }, problem.message),
        isLogin ? form(code) : h('button', { type: 'button', class: 'plain',
            onclick: () => location.reload() }, 'Try again'),
        h('p', { class: 'dim' }, h('code', null, 'palaver page'),
            ' opens this page without a key.'));
}
