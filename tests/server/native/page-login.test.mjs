// The login of a browser: a cookie and a half, which count only together and from the server's page.
import test from 'node:test';
import assert from 'node:assert/strict';
import { assertError, makeKey, palaver, serve, workspace } from '../support.mjs';

const COOKIE = /^palaver_page=([0-9a-f]{64}); HttpOnly; SameSite=Strict; Max-Age=2592000$/;

async function logIn(s, body) {
    const answer = await s.post('/api/v1/login', body);
    assert.equal(answer.code, 200, answer.text);
    const [cookie] = answer.headers['set-cookie'];
    assert.match(cookie, COOKIE);
    return { ...answer.json, headers: { cookie: `a=b; palaver_page=${COOKIE.exec(cookie)[1]}; c=d`,
        'x-palaver-page': answer.json.half } };
}
const me = (s, headers) => s.get('/api/v1/me', { headers });

test('a login acts as its key, until it ends', async (t) => {
    const dir = workspace(t);
    const admin = makeKey(dir, '--role', 'admin').key;
    const s = await serve(t, { dir });
    const made = (await s.post('/api/v1/keys', { role: 'read', tenant: 'two', label: 'phone' },
        { key: admin })).json;
    const { headers, ...login } = await logIn(s, { key: made.key });
    assert.deepEqual([login.key_id, login.role, login.tenant], [made.id, 'read', 'two']);
    const hours = (new Date(login.expires_at) - Date.now()) / 3600e3;
    assert.ok(hours > 11.9 && hours <= 12, login.expires_at);
    const { json } = await me(s, headers);
    assert.deepEqual([json.tenant, json.role, json.key_id, json.label],
        ['two', 'read', made.id, 'phone']);
    assertError(await s.post('/api/v1/sessions', {}, { headers }), 403, 'forbidden', /'write'/);
    assertError(await me(s, { ...headers, 'x-palaver-tenant': 'default' }), 403, 'forbidden');
    // A key in the request counts, not the login.
    assert.equal((await s.get('/api/v1/me', { headers, key: admin })).json.role, 'admin');
    const out = await s.ask('DELETE', '/api/v1/login', { headers });
    assert.equal(out.code, 200, out.text);
    assert.match(out.headers['set-cookie'][0], /^palaver_page=; .*Max-Age=0$/);
    assertError(await me(s, headers), 401, 'unauthorized', /the login has ended/);
    assertError(await s.ask('DELETE', '/api/v1/login', { key: admin }), 404, 'not_found');
});

test('a key lists its logins, and ends any of them', async (t) => {
    const dir = workspace(t);
    const admin = makeKey(dir, '--role', 'admin').key;
    const s = await serve(t, { dir });
    const { key } = (await s.post('/api/v1/keys', { role: 'read' }, { key: admin })).json;
    const here = await logIn(s, { key }), there = await logIn(s, { key });
    await logIn(s, { key: admin });
    const list = async (options) => (await s.get('/api/v1/logins', options)).json.logins;
    const logins = await list({ headers: here.headers });
    assert.equal(logins.length, 2, 'only those of the same key');
    assert.equal(logins.filter((login) => login.is_current).length, 1);
    assert.equal((await list({ key })).filter((login) => login.is_current).length, 0);
    const other = logins.find((login) => !login.is_current);
    assert.ok(Date.parse(other.expires_at) > Date.parse(other.created_at));
    assert.equal((await me(s, there.headers)).code, 200);
    for (const id of [other.id.replace(/^./, 'x'), (await list({ key: admin }))[0].id])
        assertError(await s.ask('DELETE', `/api/v1/logins/${id}`, { key }), 404, 'not_found',
            new RegExp(`the key has no login '${id}'`));
    const left = await s.ask('DELETE', `/api/v1/logins/${other.id}`, { headers: here.headers });
    assert.deepEqual(left.json.logins.map((login) => login.is_current), [true]);
    assertError(await me(s, there.headers), 401, 'unauthorized', /the login has ended/);
    assert.equal((await me(s, here.headers)).code, 200);
});

test('a login ends with its key, and survives a restart', async (t) => {
    const dir = workspace(t);
    const admin = makeKey(dir, '--role', 'admin').key;
    const first = await serve(t, { dir });
    const made = (await first.post('/api/v1/keys', {}, { key: admin })).json;
    const { headers } = await logIn(first, { key: made.key });
    await first.stop();
    const s = await serve(t, { dir });
    assert.equal((await me(s, headers)).code, 200);
    await s.ask('DELETE', `/api/v1/keys/${made.id}`, { key: admin });
    assertError(await me(s, headers), 401, 'unauthorized', /revoked/);
    assertError(await s.post('/api/v1/login', { key: made.key }), 401, 'unauthorized', /revoked/);
});

// Every combination of what a browser can send. A request counts if both parts are there and fit,
// and the browser says that it comes from the server's own page, or says nothing.
test('only both parts from the own page count', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir);
    const s = await serve(t, { dir, config: 'server: {key_failures_per_minute: 100000}\n' });
    const mine = (await logIn(s, { key })).headers, other = (await logIn(s, { key })).headers;
    const cookies = { none: undefined, own: mine.cookie, wrong: `palaver_page=${'0'.repeat(64)}`,
        another: other.cookie };
    const halves = { none: undefined, own: mine['x-palaver-page'], wrong: '0'.repeat(64),
        another: other['x-palaver-page'] };
    const origins = { none: undefined, own: `http://127.0.0.1:${s.port}`,
        scheme: `https://127.0.0.1:${s.port}`, port: `http://127.0.0.1:${s.port + 1}`,
        host: `http://localhost:${s.port}`, site: 'https://example.org', null: 'null' };
    const sites = [undefined, 'same-origin', 'none', 'same-site', 'cross-site', 'x'];
    const isFitting = (cookie, half) => cookie !== 'none' && cookie !== 'wrong' && cookie === half;
    const isOwn = (origin, site) => (site ? ['same-origin', 'none'].includes(site)
        : ['none', 'own'].includes(origin));
    let accepted = 0;
    for (const [cookie, c] of Object.entries(cookies)) {
        for (const [half, h] of Object.entries(halves)) {
            for (const [origin, o] of Object.entries(origins)) {
                for (const site of sites) {
                    const headers = {};
                    if (c) headers.cookie = c;
                    if (h) headers['x-palaver-page'] = h;
                    if (o) headers.origin = o;
                    if (site) headers['sec-fetch-site'] = site;
                    const wanted = !isFitting(cookie, half) ? 401 : isOwn(origin, site) ? 200 : 403;
                    const { code, text } = await s.get('/api/v1/sessions', { headers });
                    assert.equal(code, wanted, `${cookie} ${half} ${origin} ${site}: ${text}`);
                    accepted += code === 200;
                }
            }
        }
    }
    assert.equal(accepted, 2 * (7 * 2 + 2));
});

test('a login is refused to other pages, wrong keys and an open server', async (t) => {
    const dir = workspace(t);
    const open = await serve(t);
    assertError(await open.post('/api/v1/login', { key: 'x' }), 409, 'conflict', /no keys/);
    const { key } = makeKey(dir);
    const s = await serve(t, { dir, config: 'server: {key_failures_per_minute: 4}\n' });
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'http://localhost:1' }])
        assertError(await s.post('/api/v1/login', { key }, { headers }), 403, 'forbidden', /own page/);
    assertError(await s.post('/api/v1/login', {}), 400, 'invalid', /either 'key' or 'code'/);
    assertError(await s.post('/api/v1/login', { key, code: 'x' }), 400, 'invalid', /either/);
    assertError(await s.post('/api/v1/login', { keys: 'x' }), 400, 'invalid', /'keys'/);
    assertError(await s.post('/api/v1/login', { key: 'pk_x' }), 401, 'unauthorized', /not known/);
    assertError(await s.post('/api/v1/login', { code: 'x' }), 401, 'unauthorized', /older than/);
    const codes = [];
    for (let i = 0; i < 6; i++) codes.push((await s.post('/api/v1/login', { code: 'x' })).code);
    assert.equal(codes.at(-1), 429);
    assert.equal((await s.post('/api/v1/login', { key })).code, 200); // a valid key still counts
});

test('a link of palaver page logs in once', async (t) => {
    const dir = workspace(t);
    const url = () => JSON.parse(palaver(dir, 'page', '--json', '--no-open')).url;
    assert.equal(url(), 'http://127.0.0.1:7077/'); // without keys, no login is necessary
    makeKey(dir, '--role', 'read');
    const admin = makeKey(dir, '--role', 'admin');
    makeKey(dir, '--role', 'admin', '--tenant', 'other');
    const s = await serve(t, { dir });
    const [, code] = /^http:\/\/127\.0\.0\.1:7077\/#\/login\?code=([0-9a-f]{64})$/.exec(url());
    const login = await logIn(s, { code });
    assert.deepEqual([login.key_id, login.role], [admin.id, 'admin']);
    assert.equal((await me(s, login.headers)).json.key_id, admin.id);
    assertError(await s.post('/api/v1/login', { code }), 401, 'unauthorized', /was used/);
    const both = url().split('=')[1];
    const answers = await Promise.all(Array.from({ length: 8 },
        () => s.post('/api/v1/login', { code: both })));
    assert.deepEqual(answers.map((answer) => answer.code).sort(), [200, ...Array(7).fill(401)]);
    assert.match(palaver(dir, 'page', '--url', 'https://chat.example.org/x', '--no-open'),
        /^https:\/\/chat\.example\.org\/x\/#\/login\?code=[0-9a-f]{64}\n$/);
});
