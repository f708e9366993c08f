// login.js - what is shown if the server requires a key.
import { h, signal } from '../core.js';
import { logIn } from '../api.js';
import { logo } from '../sidebar.js';

const LINK = /^#\/login\?code=([\w-]+)$/;

// A link of `palaver page` has a code that counts once. It does not stay in the address.
export async function useCode() {
    const code = LINK.exec(location.hash)?.[1];

    if (!code)
        return;
    history.replaceState(null, '', '#/');
    dispatchEvent(new HashChangeEvent('hashchange'));
    await logIn({ code });
}

function form() {
    const problem = signal('');
    const field = h('input', { type: 'password', id: 'key', autocomplete: 'off', required: true,
        'aria-label': 'API key', placeholder: 'API key' });

    return h('form', { class: 'search', onsubmit: async (event) => {
        event.preventDefault();
        try {
            await logIn({ key: field.value.trim() });
            location.reload();
        } catch (error) {
            // The rest of the message is for programs.
            problem.value = error.code === 401 ? error.message.split('; ')[0] : error.message;
        }
    } }, field, h('button', { class: 'primary' }, 'Log in'),
    () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value));
}

// `problem` is the failure of the first request.
export function loginView(problem) {
    const isLogin = problem.code === 401;

    return h('main', { class: 'login', id: 'main' }, logo(), h('h1', null, 'Palaver'),
        isLogin ? h('p', null, 'This server requires an API key. The page does not store it.')
            : h('p', { class: 'problem', role: 'alert' }, problem.message),
        isLogin ? form() : h('button', { type: 'button', class: 'plain',
            onclick: () => location.reload() }, 'Try again'),
        h('p', { class: 'dim' }, h('code', null, 'palaver page'),
            ' opens this page without a key.'));
}
