// SIGHUP: which settings apply from then on, what is logged about the others, and that connected
// clients notice nothing.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import tls from 'node:tls';
import { assertError, serve, workspace } from './support.mjs';

// Writes the configuration and waits for the last log line of a reload. Returns the lines with its
// outcome.
async function reload(s, config) {
    const before = s.log().length;
    fs.writeFileSync(path.join(s.dir, 'palaver.yaml'), config);
    s.child.kill('SIGHUP');
    for (;;) {
        const said = s.log().slice(before);
        if (/reloaded the API keys|could not reload the configuration/.test(said))
            return said.split('\n').filter((line) => !/ info request /.test(line)).join('\n');
        await new Promise((resolve) => { s.child.stderr.once('data', resolve); });
    }
}

test('new limits and origins apply immediately', async (t) => {
    const s = await serve(t, { config: 'server:\n  body_bytes_max: 2048\n' });
    const page = { headers: { origin: 'http://page.example' } };
    const large = { metadata: { x: 'x'.repeat(3000) } };
    assert.equal((await s.post('/api/v1/sessions', large)).code, 413);
    assertError(await s.get('/api/v1/sessions', page), 403, 'forbidden');

    const said = await reload(s, 'server:\n  cors_origins: ["http://page.example"]\n' +
        '  requests_per_minute: 2\n');
    assert.match(said, /'server\.cors_origins': the new value is \["http:\/\/page\.example"\]/);
    assert.match(said, /'server\.requests_per_minute': the new value is 2/);
    assert.match(said, /'server\.body_bytes_max': the new value is 33554432/);
    assert.doesNotMatch(said, /restart|server\.listen|provider/);
    const answer = await s.get('/api/v1/sessions', page);
    assert.equal(answer.code, 200);
    assert.equal(answer.headers['access-control-allow-origin'], 'http://page.example');
    assert.equal((await s.post('/api/v1/sessions', large)).code, 201);
    assertError(await s.get('/api/v1/sessions'), 429, 'rate_limited');

    await reload(s, '');
    assert.equal((await s.get('/api/v1/sessions')).code, 200);
    assertError(await s.get('/api/v1/sessions', page), 403, 'forbidden');
});

test('a reload names the settings that need a restart, each time', async (t) => {
    const s = await serve(t, { config: 'context:\n  max_tokens: 9000\n' });
    const config = 'server:\n  threads: 1\n  listen: 127.0.0.1:1\ncontext:\n  max_tokens: 8000\n' +
        'agents:\n  - id: helper\n';
    for (let i = 0; i < 2; i++) {
        const said = await reload(s, config);
        for (const key of ['server.threads', 'context.max_tokens', 'agents[0].id'])
            assert.ok(said.includes(`warn '${key}' has changed; restart the server`), said);
        // --listen overrides the address.
        assert.doesNotMatch(said, /server\.listen|server\.log_level/);
    }
    assert.doesNotMatch(await reload(s, 'context:\n  max_tokens: 9000\n'), /restart|now/);
});

test('an invalid file changes nothing', async (t) => {
    const s = await serve(t, { config: 'server:\n  requests_per_minute: 1000\n' });
    const said = await reload(s, 'server:\n  requests_per_minute: 1\n  lisen: x\n');
    assert.match(said, /error could not reload the configuration, the old one stays in use: .*palaver\.yaml:3: .*lisen/);
    for (let i = 0; i < 3; i++) assert.equal((await s.get('/api/v1/sessions')).code, 200);
});

test('the log contains texts only if that is configured', async (t) => {
    const s = await serve(t);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    await s.post('/api/v1/sessions', { title: 'the first' }, { agent });
    // On the same connection: it is read after all lines of the first request were logged.
    await s.get('/healthz', { agent });
    await reload(s, 'server:\n  log_text: true\n');
    await s.post('/api/v1/sessions', { title: 'the second' });
    await s.logged(/info body of request \S+: \{"title":"the second"\}/);
    await reload(s, 'server:\n  log_text: false\n');
    await s.post('/api/v1/sessions', { title: 'the third' }, { headers: { 'x-request-id': 'r3' } });
    await s.logged(/id=r3/);
    assert.doesNotMatch(s.log(), /the first|the third/);
});

test('the cleanup runs at the configured interval', async (t) => {
    const s = await serve(t, { config: 'server:\n  log_level: debug\n' });
    await reload(s, 'server:\n  log_level: debug\nexpiry:\n  cleanup_interval: 1s\n');
    await s.logged(/debug sweep trashed=0 erased=0/);
});

// ---- Certificates ----

function certify(dir, name) {
    const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt',
        'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', `/CN=${name}`,
        '-keyout', path.join(dir, 'key.pem'), '-out', path.join(dir, 'certificate.pem')]);
    assert.equal(made.status, 0, `openssl: ${made.stderr}`);
}

function nameShown(port) {
    return new Promise((resolve, reject) => {
        const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
            const { CN } = socket.getPeerCertificate().subject;
            socket.end();
            resolve(CN);
        });
        socket.on('error', reject);
    });
}

function askSecurely(port, agent) {
    return new Promise((resolve, reject) => {
        https.get({ port, host: '127.0.0.1', path: '/healthz', agent, rejectUnauthorized: false },
            (response) => {
                const { CN } = response.socket.getPeerCertificate().subject;
                response.resume();
                response.on('end', () => resolve([response.statusCode, CN]));
            }).on('error', reject);
    });
}

test('new connections get a renewed certificate, and old ones stay open', async (t) => {
    const dir = workspace(t);
    const config = 'server:\n  tls_certificate: certificate.pem\n  tls_key: key.pem\n';
    certify(dir, 'first');
    const s = await serve(t, { dir, config });
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    assert.deepEqual(await askSecurely(s.port, agent), [200, 'first']);
    for (const name of ['second', 'third']) {
        certify(dir, name);
        assert.match(await reload(s, config), /reloaded the certificate 'certif/);
        assert.equal(await nameShown(s.port), name);
        assert.deepEqual(await askSecurely(s.port, agent), [200, 'first']);
    }

    // A certificate that does not match its key is not used.
    const key = fs.readFileSync(path.join(dir, 'key.pem'));
    certify(dir, 'fourth');
    fs.writeFileSync(path.join(dir, 'key.pem'), key);
    assert.match(await reload(s, config),
        /error could not reload the certificate, the old one stays in use: .*certificate\.pem/);
    assert.equal(await nameShown(s.port), 'third');
    fs.rmSync(path.join(dir, 'certificate.pem'));
    assert.match(await reload(s, config),
        /error could not reload the certificate, the old one stays in use: .*No such file/);
    assert.equal(await nameShown(s.port), 'third');

    // Keys of a certificate that is not used are not reported as reloaded; other keys are.
    const said = await reload(s, `server:\n  tls_certificate: absent.pem\n  tls_key: key.pem\n` +
        '  requests_per_minute: 977\n');
    assert.match(said, /error could not reload the certificate.*absent\.pem/);
    assert.match(said, /reloaded 'server\.requests_per_minute': the new value is 977/);
    assert.doesNotMatch(said, /reloaded '?server\.tls_/);
    assert.equal(await nameShown(s.port), 'third');

    // Without TLS it would be another listener.
    assert.match(await reload(s, ''), /error could not reload the certificate/);
    assert.equal(await nameShown(s.port), 'third');
    assert.equal((await s.stop()).code, 0);
});

test('a reload does not enable TLS', async (t) => {
    const s = await serve(t);
    certify(s.dir, 'late');
    const said = await reload(s,
        'server:\n  tls_certificate: certificate.pem\n  tls_key: key.pem\n');
    assert.match(said, /'server\.tls_certificate' has changed; restart the server/);
    assert.match(said, /'server\.tls_key' has changed; restart the server/);
    assert.equal((await s.get('/healthz')).code, 200);
});
