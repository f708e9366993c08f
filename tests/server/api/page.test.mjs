// The files of the page: headers, compression, caching, and who can load them. tests/page uses them
// in a browser.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import zlib from 'node:zlib';
import { assertError, makeKey, serve, workspace } from '../support.mjs';

// Returns the bytes of a response too.
function load(s, target, headers = {}, method = 'GET') {
    return new Promise((resolve, reject) => {
        http.request({ host: '127.0.0.1', port: s.port, path: target, headers, method, agent: false },
            (response) => {
                const pieces = [];
                response.on('data', (piece) => pieces.push(piece));
                response.on('end', () => resolve({ code: response.statusCode,
                    headers: response.headers, bytes: Buffer.concat(pieces) }));
            }).on('error', reject).end();
    });
}

const filesOf = (html) => [...html.matchAll(/(?:href|src)="(page\/[^"]+)"/g)].map((m) => `/${m[1]}`);
const types = { '.js': /^text\/javascript/, '.css': /^text\/css/, '.svg': /^image\/svg/ };

test('the page and all files that it names', async (t) => {
    const s = await serve(t);
    const page = await load(s, '/');
    assert.equal(page.code, 200);
    assert.match(page.headers['content-type'], /^text\/html; charset=utf-8$/);
    assert.equal(page.headers['cache-control'], 'no-cache');
    const files = filesOf(page.bytes.toString());
    assert.ok(files.length > 3);
    for (const file of ['/', ...files]) {
        const { code, headers, bytes } = await load(s, file);
        assert.equal(code, 200, file);
        const policy = headers['content-security-policy'];
        assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
        assert.match(policy, /frame-ancestors 'none'/);
        assert.match(policy, /require-trusted-types-for 'script'; trusted-types 'none'$/);
        assert.doesNotMatch(policy, /unsafe|\*|https?:/);
        for (const [name, value] of Object.entries({ 'x-content-type-options': 'nosniff',
            'referrer-policy': 'no-referrer', 'cross-origin-opener-policy': 'same-origin',
            'cross-origin-resource-policy': 'same-origin', 'x-dns-prefetch-control': 'off',
            vary: 'accept-encoding' }))
            assert.equal(headers[name], value, `${file}: ${name}`);
        if (file !== '/') {
            assert.match(headers['content-type'], types[path.extname(file)], file);
            assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable');
        }
        for (const accept of ['gzip', 'br, gzip;q=0.5', 'GZIP']) {
            const packed = await load(s, file, { 'accept-encoding': accept });
            assert.equal(packed.headers['content-encoding'], 'gzip', accept);
            assert.deepEqual(zlib.gunzipSync(packed.bytes), bytes, file);
        }
        for (const accept of ['gzip;q=0', 'br', 'xgzip', 'gzip;q=0.0', '']) {
            const plain = await load(s, file, { 'accept-encoding': accept });
            assert.equal(plain.headers['content-encoding'], undefined, accept);
            assert.deepEqual(plain.bytes, bytes);
        }
        const head = await load(s, file, {}, 'HEAD');
        assert.deepEqual([head.code, head.bytes.length, Number(head.headers['content-length'])],
            [200, 0, bytes.length]);
        for (const tag of [headers.etag, `"x", ${headers.etag}`, '*'])
            assert.equal((await load(s, file, { 'if-none-match': tag })).code, 304, tag);
        assert.equal((await load(s, file, { 'if-none-match': '"x"' })).code, 200);
    }
    assert.equal((await s.post('/', {})).code, 405);
});

test('the frame has neither an origin nor a network, and nobody else can show it', async (t) => {
    const s = await serve(t);
    const [file] = filesOf((await load(s, '/')).bytes.toString());
    const frame = file.replace(/[^/]+$/, 'frame.html');
    const { code, headers } = await load(s, frame);
    assert.equal(code, 200);
    assert.equal(headers['content-security-policy'], "sandbox allow-scripts; default-src 'none'; "
        + "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
        + "font-src data:; media-src data: blob:; connect-src 'none'; form-action 'none'; "
        + "base-uri 'none'; frame-ancestors 'self'");
    const strange = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate',
        'sec-fetch-dest': 'iframe' };
    assert.equal((await load(s, frame, strange)).code, 403);
});

test('names that are not files of the page', async (t) => {
    const s = await serve(t);
    const [file] = filesOf((await load(s, '/')).bytes.toString());
    const [, , hash, name] = file.split('/');
    for (const target of [`/page/${hash}/none.js`, `/page/0000000000000000/${name}`,
        `/page/dir/${name}`, `/page/${hash}/..%2f${name}`, `/page/${hash}/index.html%00`])
        assert.ok([400, 404].includes((await s.get(target)).code), target);
    assertError(await s.get(`/page/0000000000000000/${name}`), 404, 'not_found', /reload the page/);
});

test('programs that ask for JSON at / get an error that helps', async (t) => {
    const s = await serve(t);
    for (const accept of ['application/json', 'text/plain, application/json;q=0.5'])
        assertError(await s.get('/', { headers: { accept } }), 404, 'not_found', /openapi\.json/);
    assert.equal((await s.get('/', { headers: { accept: 'text/html,*/*;q=0.8' } })).code, 200);
});

test('the page can be switched off', async (t) => {
    const s = await serve(t, { config: 'server:\n  page: false\n' });
    assertError(await s.get('/'), 404, 'not_found', /openapi\.json/);
    const other = await serve(t);
    const [file] = filesOf((await load(other, '/')).bytes.toString());
    assertError(await s.get(file), 404, 'not_found');
});

test('files from a directory replace the built-in ones at once', async (t) => {
    const dir = workspace(t);
    const s = await serve(t, { dir, config: 'server:\n  page_dir: work\n' });
    const built = (await load(s, '/')).bytes.toString();
    const name = path.basename(filesOf(built).find((file) => file.endsWith('.js')));
    fs.mkdirSync(path.join(dir, 'work'));
    for (const file of filesOf(built))
        assert.equal((await load(s, file)).code, 200, 'the built-in HTML names built-in files');
    fs.writeFileSync(path.join(dir, 'work', 'index.html'), `<script src="page/{hash}/${name}">`);
    const page = await load(s, '/');
    assert.equal(page.bytes.toString(), `<script src="page/dir/${name}">`);
    assert.equal(page.headers['cache-control'], 'no-store');
    const before = await load(s, `/page/dir/${name}`);
    assert.equal(before.code, 200, 'the built-in file');
    for (const text of ['one()', 'two()']) {
        fs.writeFileSync(path.join(dir, 'work', name), text);
        assert.equal((await load(s, `/page/dir/${name}`)).bytes.toString(), text);
    }
    fs.writeFileSync(path.join(dir, 'work', 'secret.js'), 'x');
    assert.equal((await load(s, '/page/dir/secret.js')).code, 404, 'only files of the page');
    fs.rmSync(path.join(dir, 'work', name));
    fs.mkdirSync(path.join(dir, 'work', name));
    assert.equal((await load(s, `/page/dir/${name}`)).code, 500);
});

test('a link of any page leads to the page, but only there', async (t) => {
    const s = await serve(t);
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate',
        'sec-fetch-dest': 'document' };
    assert.equal((await load(s, '/', link)).code, 200);
    assert.equal((await load(s, '/', { ...link, host: 'evil.example' })).code, 403);
    assert.equal((await load(s, '/', { ...link, 'sec-fetch-dest': 'iframe' })).code, 403);
    assert.equal((await load(s, '/', { ...link, 'sec-fetch-mode': 'no-cors' })).code, 403);
    const [file] = filesOf((await load(s, '/')).bytes.toString());
    assert.equal((await load(s, file, { 'sec-fetch-site': 'cross-site',
        'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' })).code, 403);
    for (const target of ['/api/v1/sessions', '/openapi.json', '/healthz'])
        assert.equal((await load(s, target, link)).code, 403, target);
});

test('the page needs no key, and every response is safe next to it', async (t) => {
    const dir = workspace(t);
    const { key } = makeKey(dir, '--role', 'read');
    const s = await serve(t, { dir });
    assert.equal((await load(s, '/')).code, 200);
    for (const answer of [await s.get('/api/v1/sessions', { key }), await s.get('/api/v1/sessions'),
        await s.get('/healthz'), await s.get('/none')]) {
        assert.equal(answer.headers['x-content-type-options'], 'nosniff');
        assert.equal(answer.headers['cross-origin-resource-policy'], 'same-origin');
    }
});
