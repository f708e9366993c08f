// Logging in: by key, by link, and what is left of it afterwards.
import assert from 'node:assert/strict';
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
    await tab.waitForSelector('.problem:has-text("the API key is not known")');
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
    await context.clearCookies();
    await tab.evaluate(() => localStorage.clear());
    await tab.goto('about:blank');
    await tab.goto(link);
    await tab.waitForSelector('#key');
});
