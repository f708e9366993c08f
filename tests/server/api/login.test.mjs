// Logins at MCP servers: `palaver mcp login` with a browser that is played by fetch(), tokens that
// expire, a client with its own credentials, and secrets that must not be shown anywhere.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { binary, serve, workspace } from '../support.mjs';

const SECRET = 'secret-of-the-client';

const unpack = (text) => JSON.parse(Buffer.from(text, 'base64url'));
const sha256 = (text) => crypto.createHash('sha256').update(text).digest('base64url');

// Checks the proof of a key in a request, and returns the key and the nonce.
function readProof(request, url, used) {
    const [head, claims, signature] = request.headers.dpop.split('.');
    const { typ, alg, jwk } = unpack(head), { jti, htm, htu, iat, ath, nonce } = unpack(claims);
    assert.deepEqual([typ, alg, jwk.d, htm, htu], ['dpop+jwt', 'ES256', undefined, request.method, url]);
    assert.ok(Math.abs(Date.now() / 1000 - iat) < 300);
    assert.ok(!used.has(jti), 'each proof is used once');
    used.add(jti);
    const key = crypto.createPublicKey({ key: jwk, format: 'jwk' });
    assert.ok(crypto.verify('sha256', Buffer.from(`${head}.${claims}`), { key, dsaEncoding: 'ieee-p1363' },
        Buffer.from(signature, 'base64url')));
    return { key: `${jwk.x}.${jwk.y}`, ath, nonce };
}

// An MCP server that is also its authorization server. Tokens are "access-N" and "refresh-N". Each
// refresh token is valid once. If tokens are `bound` to a key, every server requires its nonce, which
// changes with each token.
async function fakeServer(t, { expires = 3600, denies = false, elsewhere, metadata = {}, bound = false } = {}) {
    const seen = { requests: [], secrets: new Set([SECRET]) };
    const proofs = new Set();
    let boundTo;
    const valid = new Set(), refreshable = new Set(), codes = new Map();
    let count = 0;
    const server = http.createServer(async (request, response) => {
        let body = '';
        for await (const piece of request) body += piece;
        const url = new URL(request.url, base);
        const { pathname } = url;
        const json = (code, value, headers = {}) => {
            response.writeHead(code, { 'content-type': 'application/json', ...headers });
            response.end(JSON.stringify(value));
        };
        seen.requests.push({ pathname, body, authorization: request.headers.authorization });
        if (pathname === '/mcp') return mcp(request, body, json, response);
        if (pathname === '/.well-known/oauth-protected-resource/mcp')
            return json(200, { resource: `${base}/mcp`, authorization_servers: [base], scopes_supported: ['read'], ...metadata });
        if (pathname === '/.well-known/oauth-authorization-server')
            return json(200, { issuer: base, authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/token`,
                registration_endpoint: `${base}/register`, code_challenge_methods_supported: ['S256'],
                token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'],
                ...(bound && { dpop_signing_alg_values_supported: ['ES256'] }) });
        if (pathname === '/register') return json(201, { client_id: 'registered', ...JSON.parse(body) });
        if (pathname === '/authorize') {
            const back = new URL(url.searchParams.get('redirect_uri'));
            const code = `code-${crypto.randomUUID()}`;
            seen.secrets.add(code);
            codes.set(code, url.searchParams.get('code_challenge'));
            back.searchParams.set('state', url.searchParams.get('state'));
            back.searchParams.set(denies ? 'error' : 'code', denies ? 'access_denied' : code);
            response.writeHead(302, { location: back.toString() });
            return response.end();
        }
        if (pathname === '/idp') return identify(body, request.headers.authorization, json);
        if (pathname === '/token') {
            const proof = bound && readProof(request, `${base}/token`, proofs);
            if (bound && proof.nonce !== `as-${count}`)
                return json(400, { error: 'use_dpop_nonce' }, { 'dpop-nonce': `as-${count}` });
            const grant = new URLSearchParams(body).get('grant_type');
            if (bound && grant === 'refresh_token') assert.equal(proof.key, boundTo, 'the key stays the same');
            boundTo = proof.key;
            return token(body, request.headers.authorization, json);
        }
        return json(404, {});
    });
    // The identity provider of a company.
    function identify(body, authorization, json) {
        const form = Object.fromEntries(new URLSearchParams(body));
        const type = 'urn:ietf:params:oauth:token-type:';
        assert.deepEqual(form, { grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
            requested_token_type: `${type}id-jag`, subject_token: 'id-of-ann', subject_token_type: `${type}id_token`,
            audience: base, resource: `${base}/mcp`, scope: 'read' });
        assert.equal(authorization, `Basic ${Buffer.from(`desk:${SECRET}`).toString('base64')}`);
        return json(200, { issued_token_type: `${type}id-jag`, access_token: 'assertion-of-ann', token_type: 'N_A' });
    }
    function token(body, authorization, json) {
        const form = new URLSearchParams(body);
        const grant = form.get('grant_type').replace('urn:ietf:params:oauth:grant-type:', '');
        const challenge = crypto.createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
        const basic = `Basic ${Buffer.from(`palaver:${SECRET}`).toString('base64')}`;
        if (form.get('code_verifier')) seen.secrets.add(form.get('code_verifier'));
        const good = { authorization_code: codes.get(form.get('code')) === challenge,
            refresh_token: refreshable.delete(form.get('refresh_token')),
            client_credentials: authorization === basic,
            'jwt-bearer': ['assertion-of-ann', 'workload-1', 'workload-2'].includes(form.get('assertion')) };
        assert.equal(form.get('resource'), `${base}/mcp`);
        if (!good[grant]) return json(400, { error: 'invalid_grant', error_description: `no ${body}` });
        count++;
        valid.clear();
        valid.add(`access-${count}`);
        for (const name of ['access', 'refresh']) seen.secrets.add(`${name}-${count}`);
        const isLogin = ['authorization_code', 'refresh_token'].includes(grant);
        if (isLogin) refreshable.add(`refresh-${count}`);
        return json(200, { access_token: `access-${count}`, token_type: bound ? 'DPoP' : 'Bearer', expires_in: expires,
            ...(isLogin && { refresh_token: `refresh-${count}` }) });
    }
    function mcp(request, body, json, response) {
        if (elsewhere) {
            response.writeHead(307, { location: elsewhere });
            return response.end();
        }
        const scheme = bound ? 'DPoP' : 'Bearer', sent = request.headers.authorization?.replace(`${scheme} `, '');
        const place = `resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`;
        if (!valid.has(sent)) return json(401, {}, { 'www-authenticate': `${scheme} ${place}` });
        const proof = bound && readProof(request, `${base}/mcp`, proofs);
        if (bound) assert.deepEqual([proof.key, proof.ath], [boundTo, sha256(sent)]);
        if (bound && proof.nonce !== `rs-${count}`)
            return json(401, {}, { 'www-authenticate': `DPoP error="use_dpop_nonce", ${place}`, 'dpop-nonce': `rs-${count}` });
        if (request.method !== 'POST') return json(405, {});
        const { id, method } = JSON.parse(body);
        const results = {
            initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'f', version: '1' } },
            'tools/list': { tools: [{ name: 'where', inputSchema: { type: 'object' } }] },
            'tools/call': { content: [{ type: 'text', text: 'in the library' }] },
        };
        if (id === undefined) return json(202, {});
        return json(200, { jsonrpc: '2.0', id, ...(results[method] ? { result: results[method] }
            : { error: { code: -32601, message: 'no such method' } }) });
    }
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const base = `http://127.0.0.1:${server.address().port}`;
    t.after(() => { server.closeAllConnections(); server.close(); });
    return { base, seen, revoke: () => valid.clear(),
        count: (pathname) => seen.requests.filter((one) => one.pathname === pathname).length,
        called: (method) => seen.requests.filter(({ pathname, body, authorization }) => pathname === '/mcp' &&
            authorization && body.includes(`"${method}"`)).length };
}

// A directory whose configuration has the server, and a model that calls its tool once.
function prepare(t, fake, auth = '') {
    const dir = workspace(t);
    const said = [];
    fs.writeFileSync(path.join(dir, 'palaver.yaml'), `store: sqlite:chats.db
providers: [{kind: script, path: answers.jsonl}]
mcp_logins: ${path.join(dir, 'state/logins')}
mcp_servers:
  - {name: maps, url: "${fake.base}/mcp"${auth}}
permissions: [{tool: "maps__*", do: allow}]
`);
    fs.writeFileSync(path.join(dir, 'answers.jsonl'),
        ['{"call":{"name":"maps__where","arguments":{}}}', '{"next":true}', '{"text":"Found."}'].join('\n'));
    const start = (...args) => {
        const child = spawn(binary, args, { cwd: dir, stdio: ['ignore', 'pipe', 'pipe'],
            env: { ...process.env, XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null', MAPS_SECRET: SECRET } });
        let text = '';
        const hear = (piece) => { text += piece; };
        child.stdout.on('data', hear);
        child.stderr.on('data', hear);
        const ended = once(child, 'close').then(([code, signal]) => { said.push(text); return { code, signal, text }; });
        return { child, ended, text: () => text };
    };
    const login = async (...args) => {
        const one = start('mcp', 'login', 'maps', ...args);
        while (!/http:\S+state=\S+/.test(one.text())) await Promise.race([once(one.child.stdout, 'data'), one.ended]);
        return { ...one, url: /http:\S+state=\S+/.exec(one.text())[0] };
    };
    return { dir, file: path.join(dir, 'state/logins/maps.json'), said, login, start,
        run: (...args) => start(...args).ended,
        chat: async () => {
            const { code, text } = await start('chat', '--new', 'Where is it?').ended;
            const shown = await start('session', 'show', '@last').ended;
            return { code, text, shown: shown.text };
        } };
}

const mode = (file) => fs.statSync(file).mode & 0o777;
const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));

test('a person logs in, and the tools can be used', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    const before = await p.chat();
    assert.match(before.text, /the server requires a login; run 'palaver mcp login maps'/);
    assert.equal(fake.count('/register'), 0, 'no client is registered without a person');
    // The remains of a crash, which others could read, do no harm.
    fs.mkdirSync(path.dirname(p.file), { recursive: true });
    fs.writeFileSync(`${p.file}.tmp`, 'half', { mode: 0o644 });
    const login = await p.login();
    const page = await fetch(login.url);
    assert.equal(page.status, 200);
    assert.match(await page.text(), /Palaver received the login/);
    const { code, text } = await login.ended;
    assert.equal(code, 0, text);
    assert.match(text, /Logged in to 'maps'/);
    assert.equal(mode(p.file), 0o600);
    assert.deepEqual(fs.readdirSync(path.dirname(p.file)), ['maps.json']);
    const after = await p.chat();
    assert.equal(after.code, 0, after.text);
    assert.match(after.shown, /in the library/);
    const logout = await p.run('mcp', 'logout', 'maps');
    assert.equal(logout.code, 0, logout.text);
    assert.equal(fs.existsSync(p.file), false);
    assert.equal((await p.run('mcp', 'logout', 'maps')).code, 1);
    // Nothing that was printed contains a secret.
    await p.run('config', 'show');
    for (const secret of fake.seen.secrets)
        for (const text of p.said) assert.ok(!text.includes(secret), `${secret} in ${text}`);
});

test('a new directory for logins is for its owner only', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    const login = await p.login();
    await fetch(login.url);
    assert.equal((await login.ended).code, 0);
    assert.equal(mode(path.dirname(p.file)), 0o700);
});

test('a token is renewed before it expires, and the refresh token is replaced', async (t) => {
    const fake = await fakeServer(t, { expires: 1 }), p = prepare(t, fake);
    const login = await p.login();
    await fetch(login.url);
    assert.equal((await login.ended).code, 0);
    for (const last of ['refresh-2', 'refresh-3']) {
        const { shown } = await p.chat();
        assert.match(shown, /in the library/);
        assert.ok(Number(read(p.file).refresh_token.slice(8)) >= Number(last.slice(8)));
        assert.equal(mode(p.file), 0o600);
    }
    assert.equal(fake.count('/authorize'), 1);
});

test('a revoked token is renewed', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    const login = await p.login();
    await fetch(login.url);
    assert.equal((await login.ended).code, 0);
    fake.revoke();
    assert.match((await p.chat()).shown, /in the library/);
    assert.equal(read(p.file).access_token, 'access-2');
});

test('a redirect with a wrong state is refused, and the login continues', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    const login = await p.login('--json');
    const url = JSON.parse(login.text()).url;
    const back = new URL(url).searchParams.get('redirect_uri');
    for (const query of ['?code=stolen&state=wrong', '?code=stolen', '', '?state=&code='])
        assert.equal((await fetch(back + query)).status, 400);
    assert.equal(fake.count('/token'), 0);
    await fetch(url);
    const { code, text } = await login.ended;
    assert.equal(code, 0, text);
    assert.match(text, /\{"logged_in":true\}/);
});

test('a login that is refused or killed leaves the old one', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    let login = await p.login();
    await fetch(login.url);
    assert.equal((await login.ended).code, 0);
    const old = fs.readFileSync(p.file, 'utf8');
    login = await p.login();
    login.child.kill('SIGKILL');
    assert.equal((await login.ended).signal, 'SIGKILL');
    assert.equal(fs.readFileSync(p.file, 'utf8'), old);
    const denying = await fakeServer(t, { denies: true }), q = prepare(t, denying);
    login = await q.login();
    await fetch(login.url);
    const { code, text } = await login.ended;
    assert.equal(code, 1);
    assert.match(text, /the authorization server refused the login: access_denied/);
    assert.equal(fs.existsSync(q.file), false);
    // The person does nothing.
    const late = await (await q.login('--wait', '1')).ended;
    assert.match(late.text, /the login was not completed in 1 s/);
});

test('a login of another server is not used', async (t) => {
    const fake = await fakeServer(t), other = await fakeServer(t), p = prepare(t, fake);
    const login = await p.login();
    await fetch(login.url);
    assert.equal((await login.ended).code, 0);
    const config = path.join(p.dir, 'palaver.yaml');
    fs.writeFileSync(config, fs.readFileSync(config, 'utf8').replace(fake.base, other.base));
    assert.match((await p.chat()).text, /requires a login/);
    assert.ok(other.seen.requests.every(({ authorization }) => !authorization));
});

test('a redirect of the server does not get the token', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    const login = await p.login();
    await fetch(login.url);
    assert.equal((await login.ended).code, 0);
    const thief = await fakeServer(t), sending = await fakeServer(t, { elsewhere: `${thief.base}/mcp` });
    fs.writeFileSync(p.file, JSON.stringify({ ...read(p.file), url: `${sending.base}/mcp` }));
    const config = path.join(p.dir, 'palaver.yaml');
    fs.writeFileSync(config, fs.readFileSync(config, 'utf8').replace(fake.base, sending.base));
    await p.chat();
    assert.ok(sending.called('server/discover') > 0, 'the token was sent to the configured URL');
    assert.equal(thief.seen.requests.length, 0);
});

test('a running server uses a login within seconds', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    const s = await serve(t, { dir: p.dir, env: { MAPS_SECRET: SECRET } });
    while (fake.count('/mcp') === 0) await new Promise((resolve) => { setTimeout(resolve, 50); });
    const login = await p.login();
    await fetch(login.url);
    assert.equal((await login.ended).code, 0);
    while (fake.called('tools/list') === 0) await new Promise((resolve) => { setTimeout(resolve, 50); });
    for (const secret of fake.seen.secrets) assert.ok(!s.log().includes(secret));
});

test('a client with its own credentials needs no person', async (t) => {
    const fake = await fakeServer(t);
    const p = prepare(t, fake, ', auth: {grant: client_credentials, client_id: palaver, client_secret_env: MAPS_SECRET}');
    assert.match((await p.chat()).shown, /in the library/);
    assert.equal(fake.count('/authorize') + fake.count('/register'), 0);
    assert.equal(fs.existsSync(p.file), false, 'nothing is stored');
    const { code, text } = await p.run('mcp', 'login', 'maps');
    assert.equal(code, 1);
    assert.match(text, /needs no login: its grant is client_credentials/);
    await p.run('config', 'show');
    for (const secret of fake.seen.secrets)
        for (const said of p.said) assert.ok(!said.includes(secret), `${secret} in ${said}`);
});

test('wrong credentials fail with the reason, without the secret', async (t) => {
    const fake = await fakeServer(t);
    const p = prepare(t, fake, ', auth: {grant: client_credentials, client_id: stranger, client_secret_env: MAPS_SECRET}');
    const { text } = await p.chat();
    assert.match(text, /no access to 'maps': the authorization server refused a token: invalid_grant/);
    assert.ok(!text.includes(SECRET));
    assert.ok(fake.count('/token') <= 3, 'no loop');
});

test('tokens that are bound to a key are used with a new proof for each request', async (t) => {
    const fake = await fakeServer(t, { bound: true, expires: 1 }), p = prepare(t, fake);
    const login = await p.login();
    await fetch(login.url);
    const { code, text } = await login.ended;
    assert.equal(code, 0, text);
    assert.match(read(p.file).proof_key, /PRIVATE KEY/);
    assert.equal(mode(p.file), 0o600);
    const { shown } = await p.chat(); // the token has expired, and is renewed with the same key
    assert.match(shown, /in the library/);
    assert.notEqual(read(p.file).access_token, 'access-1');
    assert.equal(fake.count('/authorize'), 1);
    for (const said of p.said) assert.ok(!said.includes('PRIVATE KEY'));
});

test('the platform identifies a workload by a file, which is read for each token', async (t) => {
    const fake = await fakeServer(t, { expires: 1 });
    const p = prepare(t, fake, ', auth: {grant: workload, client_id: palaver, token_file: workload.jwt}');
    for (const name of ['workload-1', 'workload-2']) {
        fs.writeFileSync(path.join(p.dir, 'workload.jwt'), `${name}\n`);
        assert.match((await p.chat()).shown, /in the library/);
        assert.ok(fake.seen.requests.some(({ pathname, body }) => pathname === '/token' && body.includes(`assertion=${name}`)));
    }
    fs.rmSync(path.join(p.dir, 'workload.jwt'));
    assert.match((await p.chat()).shown, /The tool 'maps__where' does not exist/);
    assert.equal(fs.existsSync(p.file), false, 'nothing is stored');
});

test('an identity provider allows the access', async (t) => {
    const fake = await fakeServer(t);
    const p = prepare(t, fake, `, auth: {grant: enterprise, client_id: palaver, client_secret_env: MAPS_SECRET,
      token_file: id.jwt, idp_token_url: "${fake.base}/idp", idp_client_id: desk, idp_client_secret_env: MAPS_SECRET}`);
    fs.writeFileSync(path.join(p.dir, 'id.jwt'), 'id-of-ann');
    const { shown, text } = await p.chat();
    assert.match(shown, /in the library/);
    assert.ok(!text.includes('assertion-of-ann'));
    assert.equal(fake.count('/authorize'), 0);
});

test('a server that requires tokens bound to a key is refused if its authorization server cannot make them', async (t) => {
    const fake = await fakeServer(t, { metadata: { dpop_bound_access_tokens_required: true } });
    const p = prepare(t, fake);
    const { code, text } = await p.run('mcp', 'login', 'maps');
    assert.equal(code, 1);
    assert.match(text, /no access to 'maps': the server requires tokens that are bound to a key \(DPoP\), and authorization server '\S+' does not support that with ES256/);
    assert.equal(fake.count('/register'), 0);
});

test('unknown and unsuitable servers are refused', async (t) => {
    const fake = await fakeServer(t), p = prepare(t, fake);
    const unknown = await p.run('mcp', 'login', 'nowhere');
    assert.equal(unknown.code, 1);
    assert.match(unknown.text, /MCP server 'nowhere' is not in 'mcp_servers'/);
    fs.writeFileSync(path.join(p.dir, 'palaver.yaml'), 'mcp_servers: [{name: files, command: [cat]}]\n');
    assert.match((await p.run('mcp', 'login', 'files')).text, /only an MCP server with a url can have a login/);
    fs.writeFileSync(path.join(p.dir, 'palaver.yaml'),
        'mcp_servers: [{name: m, url: "http://h/mcp", auth: {grant: client_credentials}}]\n');
    assert.match((await p.run('config', 'check', 'palaver.yaml')).text, /client_credentials requires 'client_id'/);
});
