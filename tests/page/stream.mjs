// One stream of events for all tabs of a browser. It continues after the death of a tab, a reload, a
// lost network and a restart of the server.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { idOf, lastIs, liveIs, pageTest, recordLive, say, shown, streamsAre } from './browser.mjs';
import { serveModel } from '../server/model.mjs';

const WORDS = 'one two three four five six';
const SLOW = `<<say ${WORDS}>><<chunk 4>><<stall after=3>>`;

pageTest('eight tabs with two running turns share one stream', async ({ open, s }) => {
    const ids = [];
    for (let i = 0; i < 8; i++) ids.push(await s.session({ title: `number ${i}` }));
    const tabs = [];
    for (const id of ids) tabs.push(await open(`#/s/${id}`));
    for (const tab of tabs) await tab.waitForSelector('.top h1:has-text("number")');
    await streamsAre(s, 1);
    for (const tab of [tabs[7], tabs[4]]) {
        await say(tab, `go ${SLOW}`);
        await liveIs(tab, 'one two thre');
    }
    await streamsAre(s, 1);
    // A plain request is answered at once, because no tab holds a connection but one.
    assert.equal(await tabs[2].evaluate(async () => (await fetch('api/v1/me')).status), 200);
    // The first tab holds the stream.
    const records = [await recordLive(tabs[7]), await recordLive(tabs[4])];
    await tabs[0].close();
    await streamsAre(s, 1);
    await s.release();
    for (const tab of [tabs[7], tabs[4]]) await lastIs(tab, WORDS);
    for (const record of records) await record.fine(WORDS);
    await say(tabs[6], 'Hello');
    await lastIs(tabs[6], 'echo: Hello');
    await streamsAre(s, 1);
});

pageTest('a tab that crashes leaves its stream to another one', { expected: /crash/i },
    async ({ open, s, context }) => {
        const leader = await open();
        const tab = await open();
        await say(tab, `go ${SLOW}`);
        await liveIs(tab, 'one two thre');
        const record = await recordLive(tab);
        const debug = await context.newCDPSession(leader);
        const crashed = leader.waitForEvent('crash');
        debug.send('Page.crash').catch(() => {});
        await crashed;
        await streamsAre(s, 1);
        await s.release();
        await lastIs(tab, WORDS);
        await record.fine(WORDS);
        assert.equal(await tab.locator('.banner').count(), 0);
    });

pageTest('a reload of the tab that holds the stream loses nothing in the other', async ({ open, s }) => {
    const leader = await open();
    const tab = await open();
    await say(tab, `go ${SLOW}`);
    await liveIs(tab, 'one two thre');
    const record = await recordLive(tab);
    await leader.reload();
    await leader.waitForSelector('html[data-ready]');
    await streamsAre(s, 1);
    await leader.click('.session');
    await liveIs(leader, 'one two thre');
    await s.release();
    for (const one of [tab, leader]) await lastIs(one, WORDS);
    await record.fine(WORDS);
    assert.deepEqual(await shown(leader), await shown(tab));
});

pageTest('a lost network in the middle of an answer loses nothing', { prefix: '' },
    async ({ open, s, net }) => {
        const tab = await open();
        await say(tab, `go ${SLOW}`);
        await liveIs(tab, 'one two thre');
        const record = await recordLive(tab);
        await tab.fill('#say', 'half a thought');
        net.cut();
        await tab.waitForSelector('.banner:has-text("Your text is kept")');
        await s.release();
        // The turn ends while no client listens.
        while (/"state":"running"/.test((await s.get('/api/v1/turns')).text));
        net.mend();
        await tab.waitForSelector('.banner', { state: 'detached' });
        await lastIs(tab, WORDS);
        await record.fine(WORDS);
        assert.equal(await tab.locator('.live').count(), 0);
        assert.equal(await tab.inputValue('#say'), 'half a thought');
        assert.equal((await shown(tab)).length, 2);
    });

pageTest('a short cut in the middle of an answer repeats nothing', { prefix: '' },
    async ({ open, s, net }) => {
        const tab = await open();
        await say(tab, `go ${SLOW}`);
        await liveIs(tab, 'one two thre');
        const record = await recordLive(tab);
        for (let i = 0; i < 3; i++) {
            net.cut();
            net.mend();
            await streamsAre(s, 1);
        }
        await s.release();
        await lastIs(tab, WORDS);
        await record.fine(WORDS);
    });

pageTest('a long answer is continued where it was, when another turn is watched too',
    async ({ open, s }) => {
        const tab = await open();
        let streams = 0;
        tab.on('request', (request) => { streams += request.url().includes('/events'); });
        // More bytes of events than the server sends of the past in one stream.
        await say(tab, '<<size 60000>><<chunk 4>><<stall after=14000>>');
        await tab.waitForFunction(() =>
            document.querySelector('.live .md')?.textContent.length > 55000);
        const other = await open();
        await say(other, `go ${SLOW}`);
        await liveIs(other, 'one two thre');
        await s.release();
        await lastIs(other, WORDS);
        assert.ok(streams < 12, `${streams} streams`);
        await tab.waitForSelector('.msg:not(.live).assistant');
        const { content } = (await s.get(`/api/v1/sessions/${idOf(tab)}/messages/2`)).json;
        const plain = (text) => text.replace(/\s+/g, ' ').trim();
        assert.equal(plain((await shown(tab))[1]), plain(content));
    });

pageTest('a server that is killed in the middle of an answer continues it', async ({ open, s, t }) => {
    const tab = await open();
    await say(tab, `go ${SLOW}`);
    await liveIs(tab, 'one two thre');
    await tab.fill('#say', 'half a thought');
    await s.stop('SIGKILL');
    await tab.waitForSelector('.banner');
    await serveModel(t, { dir: s.dir, model: s.model, args: ['--listen', `127.0.0.1:${s.port}`] });
    await tab.waitForSelector('.banner', { state: 'detached' });
    // The page shows what the server does with the turn, whatever that is.
    const id = idOf(tab);
    const release = setInterval(() => s.release().catch(() => {}), 200);
    try {
        await lastIs(tab, WORDS);
    } finally {
        clearInterval(release);
    }
    const { messages } = (await s.get(`/api/v1/sessions/${id}/messages`)).json;
    assert.deepEqual(await shown(tab), [messages[0].content, ...messages.slice(1).map((m) => m.content)]);
    assert.equal(await tab.inputValue('#say'), 'half a thought');
    assert.equal(await tab.locator('.live').count(), 0);
});

pageTest('an older response does not bring a deleted session back', async ({ open, api, s }) => {
    const id = await s.session({ title: 'old' });
    const tab = await open();
    await tab.waitForSelector('.session:has-text("old")');
    const [held, asked] = [{}, {}].map((one) => {
        one.promise = new Promise((resolve) => { one.resolve = resolve; });
        return one;
    });
    await tab.route(`**/sessions/${id}`, async (route) => {
        const response = await route.fetch();
        asked.resolve();
        await held.promise;
        await route.fulfill({ response });
    });
    await api('PATCH', `sessions/${id}`, { title: 'new' });
    await asked.promise;
    await api('DELETE', `sessions/${id}`);
    await tab.waitForSelector('.sessions .empty');
    const late = tab.waitForResponse(`**/sessions/${id}`);
    held.resolve();
    await (await late).finished();
    await s.session({ title: 'other' });
    await tab.waitForSelector('.session:has-text("other")');
    assert.equal(await tab.locator('.session').count(), 1);
});

pageTest('a page that is older than the server offers to reload', async ({ open, s, t }) => {
    const tab = await open();
    await tab.fill('#say', 'half a thought');
    await s.stop('SIGKILL');
    await tab.waitForSelector('.banner');
    fs.mkdirSync(path.join(s.dir, 'other'));
    fs.writeFileSync(path.join(s.dir, 'palaver.yaml'), 'server:\n  page_dir: other\n');
    fs.copyFileSync(new URL('../../src/page/index.html', import.meta.url),
        path.join(s.dir, 'other', 'index.html'));
    await serveModel(t, { dir: s.dir, model: s.model, args: ['--listen', `127.0.0.1:${s.port}`] });
    await tab.click('.banner:has-text("newer version") button');
    await tab.waitForSelector('script[src*="page/dir/"]', { state: 'attached' });
    await tab.waitForSelector('html[data-ready]');
    assert.equal(await tab.inputValue('#say'), 'half a thought');
});
