// api.js - requests to the native API. URLs are relative, so that the page works below any path.
import { signal } from './core.js';

const BASE = 'api/v1/';

// A request that failed. `code` is the HTTP code, or 0 if no response arrived.
export class Failure extends Error {
    constructor(code, body) {
        super(body?.error ?? `The server responded with ${code}.`);
        this.name = 'Failure';
        this.code = code;
        this.word = body?.code ?? '';
        this.requestId = body?.request_id ?? '';
        this.body = body ?? {};
    }
}

// A path of names, such as a session's key.
export const path = (...names) => names.map(encodeURIComponent).join('/');

// Random, like crypto.randomUUID(), which exists only on https and on this machine.
export function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');

    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

// ---- The login ----

// A login has two parts: a cookie that no script can read, and this half, which no other server of
// this machine gets. The key itself is never stored.
const HALF = 'half';

// True if the server no longer accepts the login of this page.
export const isLoggedOut = signal(false);

// `secret` is {key} or {code}.
export async function logIn(secret) {
    const { half } = await post('login', secret);

    localStorage.setItem(HALF, half);
}

let isForgotten = false;

// False after a logout in any tab: nothing may be written to the browser any more.
export const canKeep = () => !isForgotten;

// Drafts are texts of the tenant, so they go too.
export async function logOut() {
    await remove('login');
    isForgotten = true;
    localStorage.clear();
    sessionStorage.clear();
}

// An admin can look at another tenant, in one tab. Empty: the tenant of the key.
const TENANT = 'tenant';
export const tenant = () => sessionStorage.getItem(TENANT) ?? '';

// Loads the page again, so that nothing of the tenant before stays in memory.
export async function setTenant(name) {
    await ask('GET', 'me', { headers: { 'x-palaver-tenant': name } });
    sessionStorage.setItem(TENANT, name);
    location.hash = '#/';
    location.reload();
}

// A login or a logout in another tab: nothing of the other tenant may stay in memory here.
addEventListener('storage', ({ key }) => {
    if (key !== HALF && key !== null)
        return;
    isForgotten = true;
    sessionStorage.clear();
    location.reload();
});

function note(response) {
    if (response.status === 401 && localStorage.getItem(HALF))
        isLoggedOut.value = true;
    return response;
}

// ---- Requests ----

// A part of an address, which a person may have cut.
export function decode(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

// Sends a request and returns the response, whatever its code.
export async function send(method, target, { body, headers = {}, signal } = {}) {
    const half = localStorage.getItem(HALF);
    const all = { ...(half && { 'x-palaver-page': half }),
        ...(tenant() && { 'x-palaver-tenant': tenant() }), ...headers };

    if (body !== undefined)
        all['content-type'] = 'application/json';
    try {
        return note(await fetch(BASE + target, { method, signal, headers: all,
            credentials: 'same-origin',
            body: body === undefined ? undefined : JSON.stringify(body) }));
    } catch (error) {
        if (error.name === 'AbortError')
            throw error;
        throw new Failure(0, { error: 'The server does not respond.', code: 'offline' });
    }
}

// Sends a request and returns the JSON of the response. Throws a Failure.
async function ask(method, target, options) {
    const response = await send(method, target, options);
    const isJson = response.headers.get('content-type')?.startsWith('application/json');
    const json = isJson ? await response.json() : null;

    if (!response.ok)
        throw new Failure(response.status, json);
    return json;
}

export const get = (target, signal) => ask('GET', target, { signal });
export const post = (target, body = {}, options = {}) => ask('POST', target, { body, ...options });
export const patch = (target, body) => ask('PATCH', target, { body });
export const remove = (target) => ask('DELETE', target);
