// The configuration of nginx in docs/operating.md, with a real nginx: answers, streams, WebSockets
// and the address of the client. Skipped if nginx is not installed.
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeKey, serve, workspace } from '../support.mjs';

const nginx = [...process.env.PATH.split(':'), '/usr/sbin'].map((dir) => path.join(dir, 'nginx'))
    .find((file) => fs.existsSync(file));
const docs = fileURLToPath(new URL('../../../docs/operating.md', import.meta.url));

const freePort = async () => {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    return port;
};

async function proxied(t) {
    const dir = workspace(t);
    fs.writeFileSync(path.join(dir, 'palaver.yaml'), 'provider: echo\nserver:\n  trusted_proxies: [127.0.0.1]\n');
    const { key: secret } = makeKey(dir, '--role', 'admin');
    const server = await serve(t, { dir });
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
        '-subj', '/CN=palaver.example.org', '-keyout', 'a.key', '-out', 'a.pem'], { cwd: dir, stdio: 'ignore' });
    const port = await freePort();
    const shown = /```nginx\n([^]*?)```/.exec(fs.readFileSync(docs, 'utf8'))[1]
        .replace('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
        .replace('/etc/ssl/palaver.pem', path.join(dir, 'a.pem')).replace('/etc/ssl/palaver.key', path.join(dir, 'a.key'))
        .replace('127.0.0.1:7077', `127.0.0.1:${server.port}`);
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${dir}/${name};`);
    fs.writeFileSync(path.join(dir, 'nginx.conf'), `daemon off; master_process off; pid ${dir}/pid; error_log stderr;\n`
        + `events {}\nhttp { access_log off; ${paths.join(' ')}\n${shown}}\n`);
    const checked = spawnSync(nginx, ['-t', '-e', 'stderr', '-c', path.join(dir, 'nginx.conf'), '-p', dir]);
    assert.equal(checked.status, 0, checked.stderr.toString());
    const child = spawn(nginx, ['-e', 'stderr', '-c', path.join(dir, 'nginx.conf'), '-p', dir], { stdio: 'ignore' });
    t.after(() => child.kill());
    const ask = (method, target, { body, headers = {}, onData } = {}) => new Promise((resolve, reject) => {
        const request = https.request({ host: '127.0.0.1', port, method, path: target, rejectUnauthorized: false, agent: false,
            servername: 'palaver.example.org', headers: { host: 'palaver.example.org', authorization: `Bearer ${secret}`,
                ...(body ? { 'content-type': 'application/json' } : {}), ...headers } }, (response) => {
            let text = '';
            response.on('data', (data) => { text += data; onData?.(text); });
            response.on('end', () => resolve({ code: response.statusCode, text }));
        });
        request.on('error', reject);
        request.end(body ? JSON.stringify(body) : undefined);
    });
    for (let i = 0; ; i++) {
        const up = await ask('GET', '/healthz').catch(() => null);
        if (up) break;
        assert.ok(i < 200, 'nginx listens');
        await once(net.connect(server.port, '127.0.0.1'), 'connect');
    }
    return { ...server, ask, port, secret };
}

test('nginx, as the guide configures it', { skip: nginx ? false : 'nginx is not installed' }, async (t) => {
    const s = await proxied(t);
    const chat = await s.ask('POST', '/api/v1/chat', { body: { message: 'hello' } });
    assert.equal(chat.code, 200);
    assert.equal(JSON.parse(chat.text).response, 'echo: hello');
    assert.equal((await s.ask('GET', '/api/v1/sessions', { headers: { authorization: 'Bearer pk_no' } })).code, 401);

    const { session_id: id } = JSON.parse(chat.text);
    const pieces = new Set();
    const stream = await s.ask('POST', `/api/v1/sessions/${id}/turns`,
        { body: { message: 'one two three four', stream: true }, onData: (text) => pieces.add(text.length) });
    assert.equal(stream.code, 200);
    assert.match(stream.text, /event: ended|"ended"/);
    assert.match((await s.ask('GET', '/')).text, /<!doctype html/i);
    await s.logged(/peer=127\.0\.0\.1/);
});
