// The page below the path of a proxy: nothing is requested outside of that path.
import assert from 'node:assert/strict';
import { idOf, lastIs, pageTest, say, shown, streamsAre } from './browser.mjs';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

pageTest('behind a proxy at /x/y/', { prefix: '/x/y' }, async ({ open, api, base, s }) => {
    const tab = await open();
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    const id = idOf(tab);
    assert.equal(tab.url(), `${base}/#/s/${id}`);
    await tab.reload();
    await lastIs(tab, 'echo: Hello');
    await api('POST', `sessions/${id}/messages`, { messages: [...Array.from({ length: 200 }, (_, i) =>
        ({ role: i % 2 ? 'assistant' : 'user', content: `number ${i} `.repeat(20) })),
    { role: 'user', parts: [{ type: 'image', name: 'dot', media_type: 'image/png', data: PNG }] },
    { role: 'assistant', content: '```html\n<p>x</p>\n```' }] });
    await tab.waitForFunction(() => document.querySelector('img.picture')?.naturalWidth === 1);
    await tab.click('.md .code button:text-is("Run…")');
    await tab.click('dialog .primary');
    const frame = await (await tab.waitForSelector('iframe')).contentFrame();
    await frame.waitForSelector('p:text-is("x")');
    await tab.goto(`${base}/#/s/${id}?p=window`);
    await tab.waitForSelector('.items .item');
    assert.equal(await tab.getAttribute('.json', 'href'), `api/v1/sessions/${id}/context`);
    await tab.click('.window button:text-is("Compact…")');
    await tab.click('dialog .primary');
    await tab.waitForSelector('.toast:has-text("tokens became")');
    const { number } = (await api('GET', `sessions/${id}/marks`)).marks.at(-1);
    await tab.click('.toast button');
    await tab.waitForSelector('.toast:has-text("was undone")');
    assert.ok(number);
    await tab.goto(`${base}/#/s/${id}/m/100`);
    await tab.waitForSelector('.msg[data-seq="100"]:focus');
    await tab.keyboard.press('G');
    await tab.waitForSelector('.msg[data-seq="204"]');
    assert.ok((await shown(tab)).length > 5);
    await streamsAre(s, 1);
});

pageTest('a login below a path counts for that path only', { prefix: '/x/y', role: 'write' },
    async ({ newTab, base, key, context }) => {
        const tab = await newTab();
        await tab.goto(`${base}/`);
        await tab.fill('#key', key);
        await tab.press('#key', 'Enter');
        await tab.waitForSelector('html[data-ready]');
        const [cookie] = await context.cookies(`${base}/api/v1/`);
        assert.equal(cookie.path, '/x/y/api/v1');
        await say(tab, 'Hello');
        await lastIs(tab, 'echo: Hello');
    });
