// Logging in: by key, by link, and what is left of it afterwards.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { axe, lastIs, pageTest, say } from './browser.mjs';
import { palaver } from '../server/support.mjs';

const stored = (tab) => tab.evaluate(() => JSON.stringify(localStorage));

pageTest('a key logs in, and is stored nowhere', { role: 'write' }, async (all) => {
    const { newTab, base, context, key } = all;
    const tab = await newTab();
    await tab.goto(`${base}/#/about`);
    await tab.waitForSelector('#key');
    await axe(tab, 'login');
    await tab.fill('#key', 'pk_wrong');
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('.problem:text-is("the API key is not known")');
    await tab.fill('#key', key);
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('html[data-ready]');
    assert.equal(await tab.textContent('h1'), 'About', 'the same place as before');
    await tab.goto(`${base}/#/`);
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    const [cookie] = await context.cookies(`${base}/api/v1/`);
    assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite],
        ['palaver_page', true, 'Strict']);
    for (const place of [await stored(tab), JSON.stringify(await context.cookies()), tab.url()])
        assert.ok(!place.includes(key));
    const other = await all.open();
    await other.waitForSelector('.session:has-text("Hello")');
    await other.close();
    await tab.goto(`${base}/#/about`);
    await tab.click('button:text-is("Log out")');
    await tab.waitForSelector('#key');
    assert.equal(await stored(tab), '{}');
});

pageTest('about lists the logins of the key, and ends one elsewhere', { role: 'write' }, async (all) => {
    const { newTab, base, s, key } = all;
    const other = (await s.post('/api/v1/login', { key })).json.half;
    const tab = await newTab();
    await tab.goto(`${base}/#/about`);
    await tab.fill('#key', key);
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('h2:text-is("Logins with this key")');
    assert.equal(await tab.locator('li:has-text("this browser")').count(), 1);
    await axe(tab, 'about, with logins');
    await tab.click('li button:text-is("End")');
    await tab.waitForSelector('li button:text-is("End")', { state: 'detached' });
    assert.equal((await s.get('/api/v1/logins', { key })).json.logins.length, 1);
    assert.ok(other);
});

pageTest('either half alone opens nothing', { role: 'write' }, async ({ newTab, base, context, key }) => {
    const tab = await newTab();
    await tab.goto(`${base}/`);
    await tab.fill('#key', key);
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('html[data-ready]');
    const codes = await tab.evaluate(async () => {
        const half = localStorage.getItem('half');
        const code = async (headers) => (await fetch('api/v1/me', { headers })).status;
        return [await code({ 'x-palaver-page': half }), await code({}),
            await code({ 'x-palaver-page': 'x' })];
    });
    assert.deepEqual(codes, [200, 401, 401]);
    await context.clearCookies();
    await tab.reload();
    await tab.waitForSelector('#key');
});

pageTest('a link of `palaver page` logs in once', { role: 'admin' }, async ({ newTab, s, base, context }) => {
    const link = palaver(s.dir, 'page', '--no-open', '--url', base).trim().split('\n').at(-1);
    const tab = await newTab();
    await tab.goto(link);
    await tab.waitForSelector('html[data-ready]');
    assert.equal(tab.url(), `${base}/#/`);
    await tab.waitForSelector('#say');
    // Who is logged in can use the link again.
    await tab.goto('about:blank');
    await tab.goto(link);
    await tab.waitForSelector('html[data-ready]');
    await tab.waitForSelector('#say');
    assert.equal(await tab.locator('.banner').count(), 0);
    await context.clearCookies();
    await tab.evaluate(() => localStorage.clear());
    await tab.goto('about:blank');
    await tab.goto(link);
    await tab.waitForSelector('.problem:has-text("the code is not valid, was used")');
    await tab.waitForSelector('#key');
});

pageTest('an old link opens a server without keys', async ({ open }) => {
    const tab = await open('#/login?code=abc');
    await tab.waitForSelector('#say');
});

async function logIn(tab, base, key) {
    await tab.goto(`${base}/`);
    await tab.fill('#key', key);
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('html[data-ready]');
}

pageTest('a key that is revoked elsewhere ends the login and its stream', { role: 'admin' },
    async ({ newTab, base, api, s, key }) => {
        const made = await api('POST', 'keys', { role: 'write' });
        const tab = await newTab();
        await logIn(tab, base, made.key);
        await say(tab, 'Hello');
        await lastIs(tab, 'echo: Hello');
        await api('DELETE', `keys/${made.id}`);
        // The stream of the page must end too.
        const streams = async () => Number(/^palaver_streams (\d+)$/m
            .exec((await s.get('/metrics', { key })).text)[1]);
        for (const until = Date.now() + 20000; await streams();)
            assert.ok(Date.now() < until, 'a stream of a revoked key is open');
        await say(tab, 'still there?');
        await tab.waitForSelector('.banner:has-text("This login has ended")');
        assert.equal(await tab.inputValue('#say'), 'still there?');
        await tab.click('.banner button');
        await tab.waitForSelector('#key');
    });

pageTest('a key that can only read sees everything and writes nothing', { role: 'admin' },
    async ({ newTab, base, api }) => {
        const made = await api('POST', 'keys', { role: 'read' });
        const { session_id: id } = await api('POST', 'sessions', { title: 'to read' });
        await api('POST', `sessions/${id}/messages`, { messages: [{ role: 'user', content: 'one' },
            { role: 'assistant', content: 'two' }] });
        await api('POST', `sessions/${id}/pins`, { seq: 1 });
        const tab = await newTab();
        await logIn(tab, base, made.key);
        assert.equal(await tab.locator('#say').isVisible(), false);
        await tab.waitForSelector('text=This key can only read.');
        await axe(tab, 'read-only start');
        for (const panel of ['window', 'marks']) {
            await tab.goto(`${base}/#/s/${id}?p=${panel}`);
            await tab.waitForSelector('.items .item, .mark-list li');
            assert.equal(await tab.locator('.writes:visible').count(), 0);
            await tab.hover('.msg[data-seq="2"]');
            assert.deepEqual(await tab.$$eval('.acts button', (all) => all
                .filter((one) => one.checkVisibility()).map((one) => one.title)),
            ['Copy', 'Why: what the model has of it', 'What it saw']);
        }
        await tab.focus('.msg[data-seq="2"]');
        for (const one of ['p', 'b', 'f', 'u']) await tab.keyboard.press(one);
        await tab.keyboard.press('y');
        await tab.waitForSelector('dialog:has-text("The model has this message")');
        assert.equal((await api('GET', `sessions/${id}/marks`)).marks.length, 1);
        assert.equal((await api('GET', 'sessions')).sessions.length, 1);
    });

pageTest('another tenant sees nothing of the one before, in any tab', { role: 'admin' },
    async ({ newTab, base, api }) => {
        const [one, two] = [await api('POST', 'keys', { role: 'write', tenant: 'one' }),
            await api('POST', 'keys', { role: 'write', tenant: 'two' })];
        const [tab, other] = [await newTab(), await newTab()];
        await logIn(tab, base, one.key);
        await say(tab, 'a secret of one');
        await lastIs(tab, 'echo: a secret of one');
        await tab.fill('#say', 'a draft of one');
        await other.goto(`${base}/#/search?q=secret`);
        await other.waitForSelector('.hits mark');
        await tab.goto(`${base}/#/about`);
        await tab.click('button:text-is("Log out")');
        for (const each of [tab, other]) {
            await each.waitForSelector('#key');
            assert.doesNotMatch(await each.content(), /of one/);
        }
        await tab.fill('#key', two.key);
        await tab.press('#key', 'Enter');
        for (const each of [tab, other]) {
            await each.waitForSelector('html[data-ready]');
            assert.doesNotMatch(await each.content(), /of one/);
        }
        await tab.goto(`${base}/#/`);
        await say(tab, 'a word of two');
        await lastIs(tab, 'echo: a word of two');
        await other.waitForSelector('.session:has-text("a word of two")');
        assert.equal(await other.locator('.session').count(), 1);
        assert.doesNotMatch(await tab.evaluate(() => JSON.stringify(localStorage)), /of one/);
    });

pageTest('a logout in another tab removes what was being written', { role: 'admin' },
    async ({ newTab, base, api }) => {
        const [one, two] = [await api('POST', 'keys', { role: 'write', tenant: 'one' }),
            await api('POST', 'keys', { role: 'write', tenant: 'two' })];
        const [tab, other] = [await newTab(), await newTab()];
        await logIn(tab, base, one.key);
        await tab.goto(`${base}/#/about`);
        await other.goto(`${base}/#/`);
        await other.waitForSelector('#say:focus');
        await other.fill('#say', 'a draft of one');
        await tab.click('button:text-is("Log out")');
        for (const each of [tab, other]) await each.waitForSelector('#key');
        for (const each of [tab, other])
            assert.doesNotMatch(await each.evaluate(() =>
                JSON.stringify([localStorage, sessionStorage])), /of one/);
        await tab.fill('#key', two.key);
        await tab.press('#key', 'Enter');
        await other.waitForSelector('#say:focus');
        assert.equal(await other.inputValue('#say'), '');
    });

pageTest('a draft is not shown to another tenant, also without a logout', { role: 'admin' },
    async ({ newTab, base, api }) => {
        const [one, two] = [await api('POST', 'keys', { role: 'write', tenant: 'one' }),
            await api('POST', 'keys', { role: 'write', tenant: 'two' })];
        const tab = await newTab();
        await logIn(tab, base, one.key);
        await tab.fill('#say', 'a draft of one');
        await api('DELETE', `keys/${one.id}`);
        await tab.reload();
        await tab.waitForSelector('#key');
        await tab.fill('#key', two.key);
        await tab.press('#key', 'Enter');
        await tab.waitForSelector('#say:focus');
        assert.equal(await tab.inputValue('#say'), '');
    });

pageTest('an admin switches the tenant, in one tab', { role: 'admin' },
    async ({ newTab, base, key, api, s }) => {
        const two = await api('POST', 'keys', { role: 'write', tenant: 'two' });
        await s.post('/api/v1/sessions', { title: 'a secret of two' }, { key: two.key });
        const [tab, other] = [await newTab(), await newTab()];
        await logIn(tab, base, key);
        await say(tab, 'a word of one');
        await lastIs(tab, 'echo: a word of one');
        await tab.goto(`${base}/#/`);
        await tab.fill('#say', 'a draft of one');
        await other.goto(`${base}/#/`);
        await other.waitForSelector('.session');
        await tab.goto(`${base}/#/about`);
        await tab.fill('[aria-label="Tenant"]', 'not a tenant \u0001'.trim());
        await tab.click('button:text-is("Switch the tenant")');
        await tab.waitForSelector('.toast');
        await tab.fill('[aria-label="Tenant"]', 'two');
        await tab.click('button:text-is("Switch the tenant")');
        await tab.waitForSelector('.brand .chip:text-is("two")');
        await tab.waitForSelector('.session:has-text("a secret of two")');
        assert.doesNotMatch(await tab.content(), /of one/);
        assert.equal(await tab.inputValue('#say'), '');
        await say(tab, 'a word of two');
        await lastIs(tab, 'echo: a word of two');
        assert.equal(await other.locator('.session').count(), 1);
        await other.reload();
        await other.waitForSelector('.session:has-text("a word of one")');
        assert.doesNotMatch(await other.content(), /of two/);
    });

pageTest('a page of another port can do nothing with the cookie of a login', { role: 'write',
    expected: /^console|^request/ }, async ({ newTab, base, key, api, context }) => {
    const tab = await newTab();
    await logIn(tab, base, key);
    const half = await tab.evaluate(() => localStorage.getItem('half'));
    const server = http.createServer((request, response) => {
        response.writeHead(200, { 'content-type': 'text/html' }).end('<p>a stranger</p>');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
        // For a browser, another port of the same host is the same site, so it sends the cookie.
        const stranger = await newTab();
        await stranger.goto(`http://127.0.0.1:${server.address().port}/api/v1/x`);
        assert.ok((await context.cookies(stranger.url())).length, 'cookies do not know ports');
        const codes = await stranger.evaluate(async ([to, secret]) => {
            const results = [];
            const headers = [{}, { 'x-palaver-page': secret }];
            for (const more of headers) {
                for (const mode of ['cors', 'no-cors']) {
                    const made = await fetch(`${to}/api/v1/sessions`, { method: 'POST', mode,
                        credentials: 'include', headers: more, body: '{"title":"stolen"}' })
                        .then((answer) => answer.type, (error) => error.name);
                    const read = await fetch(`${to}/api/v1/sessions`, { mode, headers: more,
                        credentials: 'include' }).then((answer) => answer.text(),
                        (error) => error.name);
                    results.push(made, read);
                }
            }
            return results;
        }, [base, half]);
        for (const code of codes) assert.match(code, /^(TypeError|opaque|)$/);
        assert.deepEqual((await api('GET', 'sessions')).sessions, []);
        // The same request of the page itself works.
        assert.equal(await tab.evaluate(async (secret) => (await fetch('api/v1/sessions',
            { method: 'POST', headers: { 'x-palaver-page': secret }, body: '{}' })).status, half), 201);
    } finally {
        server.close();
        server.closeAllConnections?.();
    }
});
