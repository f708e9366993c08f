// What a model writes as HTML runs only after a question, in a frame that reaches nothing.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { axe, pageTest } from './browser.mjs';

// A server of a stranger, which counts what reaches it.
async function stranger(t) {
    const got = [];
    const server = http.createServer((request, response) => {
        got.push(request.url);
        response.writeHead(200, { 'access-control-allow-origin': '*' }).end('x');
    });
    server.on('upgrade', (request, socket) => {
        got.push(request.url);
        socket.destroy();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    return { got, url: `http://127.0.0.1:${server.address().port}` };
}

// The ways out that need no navigation. Each sets its result: the name of an error, or what it got.
const quiet = (url) => `<!doctype html><p id="p">quiet</p>
<link rel="stylesheet" href="${url}/link"><link rel="preload" as="image" href="${url}/preload">
<link rel="prefetch" href="${url}/prefetch"><img src="${url}/img" alt="">
<style>@import url(${url}/import); #p { background: url(${url}/css) }
@font-face { font-family: f; src: url(${url}/font) } p { font-family: f }</style>
<video src="${url}/video"></video><object data="${url}/object"></object>
<embed src="${url}/embed"><iframe src="${url}/frame"></iframe><base href="${url}/">
<form id="f" method="post" action="${url}/form"><input name="a" value="secret"></form>
<script src="${url}/script"></script>
<script>
const results = {};
const way = async (name, fn) => {
    try { results[name] = String(await fn()); } catch (error) { results[name] = error.name; }
};
(async () => {
    await way('fetch', () => fetch('${url}/fetch'));
    await way('no-cors', () => fetch('${url}/no-cors', { mode: 'no-cors' }));
    await way('xhr', () => new Promise((yes, no) => {
        const x = new XMLHttpRequest();
        x.onload = yes; x.onerror = () => no(new TypeError());
        x.open('GET', '${url}/xhr'); x.send();
    }));
    await way('beacon', () => navigator.sendBeacon('${url}/beacon', 'x'));
    await way('socket', () => new Promise((yes, no) => {
        const s = new WebSocket('${url.replace('http', 'ws')}/socket');
        s.onopen = yes; s.onerror = () => no(new TypeError());
    }));
    await way('events', () => new Promise((yes, no) => {
        const s = new EventSource('${url}/events');
        s.onopen = yes; s.onerror = () => no(new TypeError());
    }));
    await way('import', () => import('${url}/module'));
    await way('worker', () => new Worker('${url}/worker'));
    await way('blob worker', () => new Promise((yes, no) => {
        const w = new Worker(URL.createObjectURL(new Blob(["fetch('${url}/blob-worker')"])));
        w.onerror = () => no(new TypeError()); w.onmessage = yes;
        setTimeout(() => no(new TypeError()), 500);
    }));
    await way('popup', () => window.open('${url}/popup'));
    await way('form', () => f.submit());
    await way('storage', () => localStorage.setItem('a', 'b'));
    await way('cookie', () => { document.cookie = 'a=b'; });
    await way('parent', () => parent.document.body.innerHTML);
    await way('half', () => parent.localStorage.getItem('half'));
    await way('top', () => { top.location = '${url}/top'; });
    await way('origin', () => origin);
    window.results = results;
})();
</script>`;

// Each of these leaves the document, so each needs a frame of its own.
const leaving = (url, base) => [
    `<meta http-equiv="refresh" content="0;url=${url}/refresh">`,
    `<script>location = '${url}/location'</script>`,
    `<script>location.replace('${base}/api/v1/sessions')</script>`,
    `<a id="a" href="${url}/link-click" target="_blank">x</a><script>a.click()</script>`,
    `<a id="a" href="${url}/link-top" target="_top">x</a><script>a.click()</script>`,
    `<a id="a" href="${url}/link-ping" ping="${url}/ping">x</a><script>a.click()</script>`,
    `<svg xmlns="http://www.w3.org/2000/svg" onload="location='${url}/svg'"></svg>`,
];

async function run(tab, number) {
    const box = tab.locator('.md .code').nth(number);
    await box.scrollIntoViewIfNeeded();
    await box.locator('button:text-is("Run…")').click();
    assert.match(await tab.textContent('dialog'), /cannot reach this page/);
    await tab.click('dialog .primary');
    const frame = await (await box.locator('iframe').elementHandle()).contentFrame();
    return { box, frame };
}

pageTest('what a model wrote runs in a frame that reaches nothing', { expected: /^console|^request/ },
    async ({ open, api, s, t, base, context, problems }) => {
        const { got, url } = await stranger(t);
        const id = await s.session({});
        const documents = [quiet(url), ...leaving(url, base)];
        await api('POST', `sessions/${id}/messages`, { messages: documents.map((text) =>
            ({ role: 'assistant', content: `\`\`\`html\n${text}\n\`\`\`` })) });
        const tab = await open(`#/s/${id}/m/1`);
        assert.equal(await tab.locator('iframe').count(), 0, 'nothing runs by itself');
        const first = await run(tab, 0);
        await first.frame.waitForFunction(() => window.results, null, { polling: 100 });
        const results = await first.frame.evaluate(() => window.results);
        const failed = 'TypeError|SecurityError|DataCloneError|NetworkError';
        for (const [name, result] of Object.entries(results)) {
            const wanted = { origin: /^null$/, popup: /^null$/, form: /^undefined$/,
                beacon: /^(true|false)$/ }[name] ?? new RegExp(`^(${failed})$`);
            assert.match(result, wanted, name);
        }
        assert.equal(Object.keys(results).length, 17);
        assert.equal(await first.frame.textContent('p'), 'quiet', 'and it is shown');
        await axe(tab, 'frame');
        await first.box.locator('button:text-is("Stop")').click();
        assert.equal(await tab.locator('iframe').count(), 0);
        for (let i = 1; i < documents.length; i++) {
            await tab.goto(`${base}/#/s/${id}/m/${i + 1}`);
            const row = tab.locator(`.msg[data-seq="${i + 1}"]`);
            await row.locator('button:text-is("Run…")').click();
            await tab.click('dialog .primary');
            await row.locator('iframe').waitFor();
            // Long enough for the frame to have tried.
            await tab.evaluate(() => new Promise((done) => { setTimeout(done, 300); }));
            const text = await (await (await row.locator('iframe').elementHandle()).contentFrame())
                .evaluate(() => document.documentElement.textContent).catch(() => '');
            assert.doesNotMatch(text, /"sessions"/, 'a frame reads nothing of the server');
        }
        assert.deepEqual(got, [], 'no way leads out');
        assert.equal(context.pages().length, 1, 'no window was opened');
        assert.equal(tab.url(), `${base}/#/s/${id}/m/${documents.length}`);
        assert.deepEqual(problems, []);
    });

pageTest('the frame has no login, also if its address is opened', { role: 'write',
    expected: /^console/ }, async ({ newTab, base, key, s }) => {
    const tab = await newTab();
    await tab.goto(`${base}/`);
    await tab.fill('#key', key);
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('html[data-ready]');
    const src = await tab.evaluate(() => document.querySelector('script').src);
    const answer = await s.get(new URL('frame.html', src).pathname);
    const policy = answer.headers['content-security-policy'];
    assert.match(policy, /^sandbox allow-scripts; default-src 'none';/);
    assert.doesNotMatch(policy, /allow-same-origin|'self'(?<!frame-ancestors 'self')|https?:|\*/);
    await tab.goto(new URL('frame.html', src).href);
    assert.equal(await tab.evaluate(() => window.origin), 'null');
    assert.equal(await tab.evaluate(() => {
        try {
            return localStorage.getItem('half');
        } catch (error) {
            return error.name;
        }
    }), 'SecurityError');
});

pageTest('a page of a stranger cannot show this page', { expected: /^console|^request/ },
    async ({ newTab, base, t }) => {
        const server = http.createServer((request, response) => {
            response.writeHead(200, { 'content-type': 'text/html' })
                .end(`<iframe src="${base}/"></iframe>`);
        });
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        t.after(() => server.close());
        const tab = await newTab();
        await tab.goto(`http://localhost:${server.address().port}/`);
        const frame = tab.frames()[1];
        assert.ok(!frame || !(await frame.content().catch(() => '')).includes('id="app"'));
    });
