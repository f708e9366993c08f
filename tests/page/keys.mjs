// Keys: the palette, and steps through messages, marks and sessions.
import assert from 'node:assert/strict';
import { axe, idOf, lastIs, pageTest, say } from './browser.mjs';

pageTest('the palette finds sessions, actions and words', async ({ open, api, s }) => {
    const ids = [];
    for (const title of ['A lamp in the hall', 'Bread', 'Lamp oil'])
        ids.push(await s.session({ title }));
    await api('POST', `sessions/${ids[1]}/messages`, { role: 'user', content: 'flour' });
    const tab = await open();
    const isChosen = (text) =>
        tab.waitForSelector(`.palette [aria-selected="true"]:has-text("${text}")`);
    await tab.keyboard.press('Control+k');
    assert.equal(await tab.locator('dialog [role=combobox]:focus').count(), 1, 'no letter is lost');
    await axe(tab, 'palette');
    await tab.keyboard.type('lamp');
    await tab.waitForFunction(() => document.querySelectorAll('.palette li').length === 3);
    assert.deepEqual((await tab.$$eval('.palette li', (all) => all.map((one) =>
        one.firstChild.textContent))).sort(),
    ['A lamp in the hall', 'Lamp oil', 'Search all messages for “lamp”']);
    await tab.keyboard.press('ArrowUp');
    await isChosen('Search all messages');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('h1:text-is("Search")');
    assert.equal(await tab.locator('dialog').count(), 0);
    await tab.keyboard.press('Control+k');
    await tab.keyboard.type('bread');
    await isChosen('Bread');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.top h1:has-text("Bread")');
    await tab.keyboard.press('Control+k');
    await tab.keyboard.type('window of');
    await isChosen('Window');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.items .item');
    await tab.keyboard.press('Control+k');
    await tab.keyboard.type('rename');
    await isChosen('Rename');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.top h1 input');
    await tab.fill('.top h1 input', 'Sourdough');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.session.on:has-text("Sourdough")');
    await tab.click('.toast button:text-is("Undo")');
    await tab.waitForSelector('.session.on:has-text("Bread")');
    await tab.keyboard.press('Control+k');
    await tab.keyboard.type('use mini');
    await isChosen('mock-model-mini');
    await tab.keyboard.press('Enter');
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    assert.equal((await s.asked()).at(-1).model, 'mock-model-mini');
});

pageTest('sessions that the palette finds late leave its choice', async ({ open, s, context }) => {
    for (const title of ['Lamp one', 'Lamp two', 'Lamp oil']) await s.session({ title });
    const old = await s.session({ title: 'An old lamp' });
    let release;
    const isHeld = new Promise((resolve) => { release = resolve; });
    // The list of the sidebar does not have the old session; the search of the palette finds it.
    await context.route(/sessions\?limit=\d+(&q=.*)?$/, async (route) => {
        const isSearch = route.request().url().includes('&q=');
        if (isSearch) await isHeld;
        const response = await route.fetch();
        const page = await response.json();
        if (!isSearch) page.sessions = page.sessions.filter((one) => one.id !== old);
        await route.fulfill({ response, json: page });
    });
    const tab = await open();
    await tab.keyboard.press('Control+k');
    await tab.keyboard.type('lamp');
    await tab.waitForFunction(() => document.querySelectorAll('.palette li').length === 4);
    await tab.keyboard.press('ArrowUp'); // the last one, which is moved by the session that is found
    const chosen = '.palette [aria-selected="true"]:has-text("Search all messages")';
    await tab.waitForSelector(chosen);
    release();
    await tab.waitForSelector('.palette li:has-text("An old lamp")');
    await tab.waitForSelector(chosen);
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('h1:text-is("Search")');
});

pageTest('keys lead through marks, sessions and back', async ({ open, api, s }) => {
    const ids = [];
    for (const title of ['one', 'two', 'three']) {
        const id = await s.session({ title });
        await api('POST', `sessions/${id}/messages`, { messages: Array.from({ length: 20 }, (_, i) =>
            ({ role: i % 2 ? 'assistant' : 'user', content: `${title} ${i}` })) });
        ids.push(id);
    }
    for (const seq of [3, 9]) await api('POST', `sessions/${ids[2]}/pins`, { seq });
    const tab = await open(`#/s/${ids[2]}`);
    await tab.waitForSelector('.msg[data-seq="20"]');
    await tab.waitForSelector('.msg[data-seq="9"] .chip.pin', { state: 'attached' });
    const at = (seq) => tab.waitForSelector(`.msg[data-seq="${seq}"]:focus`);
    await tab.keyboard.press('[');
    await at(9);
    await tab.keyboard.press('[');
    await at(3);
    await tab.keyboard.press('[');
    await tab.waitForSelector('.toast:has-text("There is no mark before")');
    await tab.keyboard.press(']');
    await at(9);
    await tab.keyboard.press('w');
    await tab.waitForSelector('.items .item');
    await at(9); // the conversation stays where it is
    await tab.keyboard.press('Escape');
    await tab.waitForSelector('.inspector', { state: 'detached' });
    const order = await tab.$$eval('.session .name', (all) => all.map((one) => one.textContent));
    assert.deepEqual(order, ['three', 'two', 'one']);
    await tab.keyboard.press('Alt+ArrowDown');
    await tab.waitForSelector('.top h1:has-text("two")');
    await tab.focus('#say');
    await tab.keyboard.press('Alt+ArrowDown');
    await tab.waitForSelector('.top h1:has-text("one")');
    await tab.keyboard.press('Alt+ArrowDown'); // there is none after it
    await tab.keyboard.press('Alt+ArrowUp');
    await tab.waitForSelector('.top h1:has-text("two")');
    assert.equal(idOf(tab), ids[1]);
});
