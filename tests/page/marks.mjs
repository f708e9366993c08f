// The marks of a session: its life on a line, its family, undo and redo, and summaries.
import assert from 'node:assert/strict';
import { idOf, lastIs, pageTest, say } from './browser.mjs';

async function talk({ s, api }, length, words = 20) {
    const id = await s.session({ title: 'root' });
    await api('POST', `sessions/${id}/messages`, { messages: Array.from({ length }, (_, i) =>
        ({ role: i % 2 ? 'assistant' : 'user', content: `message ${i} `.repeat(words) })) });
    return id;
}

pageTest('marks: every undo can be undone, from the list and from the toast', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 6);
    const tab = await open(`#/s/${id}?p=marks`);
    await tab.waitForSelector('.marks:has-text("Nothing was done")');
    await tab.focus('.msg[data-seq="4"]');
    await tab.keyboard.press('b');
    await tab.waitForSelector('.mark:has-text("Rewind: 2 messages after #4")');
    await tab.waitForSelector('.gone-line:visible:has-text("2 hidden messages")');
    const visible = async () => (await api('GET', `sessions/${id}/messages`)).messages.length;
    assert.equal(await visible(), 4);
    await tab.click('.mark button:text-is("Undo")');
    await tab.waitForSelector('.mark.undone:has-text("Rewind")');
    assert.equal(await visible(), 6);
    await tab.click('.toast button:text-is("Redo")');
    await tab.waitForSelector('.mark:not(.undone):has-text("Rewind")');
    assert.equal(await visible(), 4);
    await tab.click('.toast button:text-is("Undo")');
    await tab.waitForSelector('.mark.undone:has-text("Rewind")');
    await tab.click('.mark button:text-is("Redo")');
    await tab.waitForSelector('.mark:not(.undone):has-text("Rewind")');
    assert.equal(await visible(), 4);
    await tab.click('.gone-line:visible button:text-is("Fork from there")');
    await tab.waitForSelector('.session.fork.on');
    const { fork_seq: at } = await api('GET', `sessions/${idOf(tab)}`);
    assert.equal(at, 6);
});

pageTest('marks: the line of life leads to messages, zooms, and shows what was sent', async (all) => {
    const { open, s } = all;
    const tab = await open();
    for (const word of ['one', 'two', 'three']) {
        await say(tab, `${word} ${'more '.repeat(30)}`.trim());
        await lastIs(tab, `echo: ${word} ${'more '.repeat(30)}`.trim());
    }
    assert.ok(s);
    await tab.keyboard.press('Escape');
    await tab.focus('.msg[data-seq="3"]');
    await tab.keyboard.press('p');
    await tab.keyboard.press('m');
    await tab.waitForSelector('canvas.life');
    await tab.waitForFunction(() => /6 messages and \d marks?$/.test(
        document.querySelector('canvas.life')?.ariaLabel));
    const box = await tab.locator('canvas.life').boundingBox();
    const at = (share, y = 20) => [box.x + share * box.width, box.y + y];
    // What was said; what was read for an answer, and for a question.
    const painted = await tab.$eval('canvas.life', (canvas) => {
        const ratio = canvas.width / canvas.clientWidth;
        const { data, width } = canvas.getContext('2d')
            .getImageData(0, 0, canvas.width, canvas.height);
        return [[0.05, 46], [0.25, 132], [0.05, 132]].map(([x, y]) =>
            data[4 * (Math.floor(y * ratio) * width + Math.floor(x * width)) + 3] > 0);
    });
    assert.deepEqual(painted, [true, true, false]);
    await tab.mouse.move(...at(0.25));
    await tab.waitForSelector('.life-box .now:has-text("#2 · Model")');
    await tab.mouse.click(...at(0.05));
    await tab.waitForSelector('.msg[data-seq="1"]:focus');
    await tab.mouse.move(...at(0.4));
    await tab.mouse.down();
    await tab.mouse.move(...at(0.6), { steps: 4 });
    await tab.mouse.up();
    await tab.mouse.move(0, 0);
    await tab.waitForSelector('.life-box .now:has-text("Messages 3 to 4")');
    await tab.click('.life-box button:text-is("Earlier")');
    await tab.waitForSelector('.life-box .now:has-text("Messages 1 to 2")');
    await tab.click('.life-box button:text-is("All")');
    await tab.waitForSelector('.life-box .now:has-text("Messages 1 to 6")');
    await tab.click('.life-box button:text-is("By time")');
    await tab.waitForSelector('.life-box button[aria-pressed="true"]');
});

pageTest('marks: the family of forks as a tree, which follows new forks', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 6);
    const child = await api('POST', `sessions/${id}/fork`, { at_seq: 4, title: 'child' });
    await api('POST', `sessions/${child.id}/messages`, { role: 'user', content: 'more' });
    const grandchild = await api('POST', `sessions/${child.id}/fork`, { at_seq: 5, title: 'grandchild' });
    const tab = await open(`#/s/${child.id}?p=marks`);
    await tab.waitForSelector('.family ul ul ul a:has-text("grandchild")');
    assert.deepEqual(await tab.$$eval('.family a', (links) => links.map((one) =>
        [one.querySelector('.name').textContent, one.getAttribute('aria-current')])),
    [['root', null], ['child', 'page'], ['grandchild', null]]);
    assert.match(await tab.textContent('.family a:has-text("grandchild")'), /at #5/);
    await api('POST', `sessions/${id}/fork`, { at_seq: 1, title: 'another' });
    await tab.waitForSelector('.family a:has-text("another")');
    await tab.focus('.family a:has-text("grandchild")');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.top h1:has-text("grandchild")');
    assert.equal(idOf(tab), grandchild.id);
    await tab.keyboard.press('m');
    await tab.waitForSelector('.family a[aria-current]:has-text("grandchild")');
});

pageTest('marks: a summary is made again, compared, and undone', async (all) => {
    const { open, api, s } = all;
    const id = await talk(all, 40, 50);
    const first = await api('POST', `sessions/${id}/compact`);
    const tab = await open(`#/s/${id}?p=marks`);
    await tab.waitForSelector('.mark:has-text("tokens"):has-text("→")');
    await tab.click('.mark button:text-is("Make it again…")');
    await tab.fill('dialog textarea', 'Keep the word marzipan <<say another marzipan>>');
    await tab.click('dialog .primary');
    await tab.waitForSelector('dialog .c-added:has-text("marzipan")');
    await tab.waitForSelector('dialog .c-removed');
    await tab.keyboard.press('Escape');
    const { marks } = await api('GET', `sessions/${id}/marks`);
    const second = marks.findLast((mark) => mark.kind === 'checkpoint');
    assert.notEqual(second.number, first.number);
    assert.match((await api('GET', `sessions/${id}/summary`)).summary, /marzipan/);
    assert.ok(s);
    await tab.click(`.mark button:text-is("Compare with mark ${first.number}")`);
    await tab.waitForSelector('dialog .c-added:has-text("marzipan")');
    await tab.keyboard.press('Escape');
    await tab.click('.mark:not(.undone):has-text("Compaction") button:text-is("Undo")');
    await tab.waitForSelector('.mark.undone:has-text("Compaction")');
});

pageTest('marks: of a parent they are shown, and can only be undone there', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 6);
    await api('POST', `sessions/${id}/pins`, { seq: 2 });
    const fork = await api('POST', `sessions/${id}/fork`, { at_seq: 4 });
    const tab = await open(`#/s/${fork.id}?p=marks`);
    await tab.waitForSelector('.mark:has-text("of the parent")');
    assert.equal(await tab.locator('.mark button:text-is("Undo")').count(), 0);
    await tab.click('.mark button:text-is("Show")');
    await tab.waitForSelector('.msg[data-seq="2"]:focus');
});
