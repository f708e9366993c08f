// The window: the bar, the items, the margin, Why, what if, compact and undo, pins and marks.
import assert from 'node:assert/strict';
import { idOf, lastIs, pageTest, say } from './browser.mjs';

// A session with messages of `words` words each, the first one a system message.
async function talk({ s, api }, length, words = 50) {
    const id = await s.session({ title: 'long' });
    const text = (i) => `message ${i} `.repeat(words);
    await api('POST', `sessions/${id}/messages`, { messages: [
        { role: 'system', content: 'be kind' }, ...Array.from({ length }, (_, i) =>
            ({ role: i % 2 ? 'assistant' : 'user', content: text(i) }))] });
    return id;
}

const numbers = (text) => Number(text.replaceAll(',', '').match(/\d+/)[0]);

pageTest('the window shows the plan of the API, item by item', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 20);
    const tab = await open(`#/s/${id}`);
    await tab.waitForSelector('.gauge:visible');
    await tab.click('.gauge');
    await tab.waitForSelector('.items .item');
    const plan = await api('GET', `sessions/${id}/context`);
    assert.equal(numbers(await tab.textContent('.figures .big b')), plan.tokens);
    assert.equal(Number(await tab.getAttribute('.items', 'aria-rowcount')), plan.items.length);
    const name = await tab.getAttribute('.bar', 'aria-label');
    assert.match(name, new RegExp(`${plan.tokens.toLocaleString('en')} of `));
    const rows = await tab.$$eval('.items .item', (list) => list.map((one) => one.innerText));
    plan.items.slice(0, rows.length).forEach((item, i) => {
        assert.match(rows[i], new RegExp(`\\b${item.disposition}\\b`), rows[i]);
        assert.match(rows[i].replaceAll(',', ''), new RegExp(`\\b${item.tokens}\\b`), rows[i]);
    });
    await tab.click('.items .item:has-text("#2")');
    await tab.waitForSelector('.msg[data-seq="2"]:focus');
    await tab.keyboard.press('w');
    await tab.waitForSelector('.inspector', { state: 'detached' });
    await tab.keyboard.press('m');
    await tab.waitForSelector('.marks');
});

pageTest('compaction: the line, the margin, Why, and undo', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 40);
    const before = await api('GET', `sessions/${id}/context`);
    const tab = await open(`#/s/${id}?p=window`);
    await tab.waitForSelector('.items .item');
    await tab.click('.window button:text-is("Compact…")');
    await tab.click('dialog .primary');
    await tab.waitForSelector('.toast:has-text("tokens became")');
    const plan = await api('GET', `sessions/${id}/context`);
    const range = plan.items.find((item) => item.kind === 'range');
    await tab.waitForFunction((tokens) => document.querySelector('.figures .big b').textContent
        .replaceAll(',', '') === String(tokens), plan.tokens);
    await tab.goto(`${new URL(tab.url()).origin}/#/s/${id}/m/${range.seq}`);
    await tab.waitForSelector(`.msg[data-seq="${range.seq}"] .boundary`);
    const line = await tab.textContent('.boundary');
    assert.match(line, new RegExp(`${range.count} messages, ${range.tokens.toLocaleString('en')}`));
    assert.equal(await tab.getAttribute(`.msg[data-seq="${range.seq}"]`, 'data-sent'), 'summarized');
    assert.equal(await tab.getAttribute(`.msg[data-seq="${range.seq + 1}"]`, 'data-sent'), 'sent');
    await tab.focus(`.msg[data-seq="${range.seq}"]`);
    await tab.keyboard.press('y');
    const { summary } = await api('GET', `sessions/${id}/summary`);
    assert.match(await tab.textContent('dialog'), /A summary replaces it/);
    assert.equal(await tab.textContent('dialog blockquote'), summary.slice(0, 600));
    await tab.click('dialog button:text-is("Undo the compaction")');
    await tab.waitForSelector('.boundary', { state: 'detached' });
    const after = await api('GET', `sessions/${id}/context`);
    assert.deepEqual(after.items.map((item) => item.hash), before.items.map((item) => item.hash));
});

pageTest('a pin keeps a message in the window', async (all) => {
    const { open, api, s } = all;
    const id = await talk(all, 40);
    const tab = await open(`#/s/${id}/m/2`);
    await tab.waitForSelector('.msg[data-seq="2"]:focus');
    await tab.keyboard.press('p');
    await tab.waitForSelector('.msg[data-seq="2"] .chip.pin');
    await api('POST', `sessions/${id}/compact`, { summary: 'short', cut_seq: 30 });
    await tab.goto(`${new URL(tab.url()).origin}/#/s/${id}`);
    await say(tab, 'and now?');
    await lastIs(tab, 'echo: and now?');
    const asked = (await s.asked()).at(-1);
    assert.ok(JSON.stringify(asked).includes('message 0 message 0'), 'the pinned message is sent');
    assert.ok(!JSON.stringify(asked).includes('message 1 message 1'));
    await tab.click('.tabs button:text-is("Marks")');
    await tab.click('.mark:has-text("Message 2 was pinned") button:text-is("Undo")');
    await tab.waitForSelector('.mark.undone:has-text("Message 2 was pinned")');
    const plan = await api('GET', `sessions/${idOf(tab)}/context`);
    assert.ok(!plan.items.some((item) => item.pinned));
});

pageTest('what if: another strategy is compared with the window as it is', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 10);
    await api('POST', `sessions/${id}/compact`, { summary: 'short', cut_seq: 6 });
    const tab = await open(`#/s/${id}?p=window`);
    await tab.selectOption('.what-if label:has-text("Strategy") select', 'none');
    await tab.waitForSelector('.what-if .difference');
    const other = await api('GET', `sessions/${id}/context?strategy=none`);
    assert.equal(numbers(await tab.textContent('.what-if .big b')), other.tokens);
});

pageTest('why: a message that is sent, and one that was taken back', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 4);
    await api('POST', `sessions/${id}/rewind`, { to_seq: 3 });
    const tab = await open(`#/s/${id}`);
    await tab.focus('.msg[data-seq="3"]');
    await tab.keyboard.press('y');
    assert.match(await tab.textContent('dialog'), /The model has this message\./);
    await tab.keyboard.press('Escape');
    await tab.click('.gone-line:visible button');
    await tab.focus('.msg[data-seq="4"]');
    await tab.keyboard.press('y');
    assert.match(await tab.textContent('dialog'), /It was taken back\./);
});

pageTest('a session of 20,000 messages scrolls without holes', async ({ open, api, s }) => {
    const id = await s.session({ title: 'big' });
    for (let i = 0; i < 20; i++)
        await api('POST', `sessions/${id}/messages`, { messages: Array.from({ length: 1000 }, (_, k) =>
            ({ role: k % 2 ? 'assistant' : 'user',
                content: `number ${i * 1000 + k + 1} ${'word '.repeat((k * 7) % 60)}` })) });
    const tab = await open(`#/s/${id}/m/10000`);
    await tab.waitForSelector('.msg[data-seq="10000"]:focus');
    const look = () => tab.evaluate(() => {
        const box = document.querySelector('.feed').getBoundingClientRect();
        const row = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
            ?.closest('.msg');
        return { seq: Number(row?.dataset.seq), top: row?.getBoundingClientRect().top };
    });
    const start = await look();
    const step = async (pixels) => {
        await tab.evaluate((by) => { document.querySelector('.feed').scrollTop += by; }, pixels);
        await tab.waitForFunction(() => {
            const box = document.querySelector('.feed').getBoundingClientRect();
            return [0.2, 0.5, 0.8].every((part) => document.elementFromPoint(box.x + box.width / 2,
                box.y + box.height * part)?.closest('.msg, .page:not(:empty)'));
        });
    };
    let seq = start.seq;
    for (let i = 0; i < 25; i++) {
        await step(-300);
        const now = await look();
        assert.ok(!(now.seq > seq), `${now.seq} after ${seq}`);
        seq = now.seq || seq;
    }
    for (let i = 0; i < 25; i++) await step(300);
    const end = await look();
    assert.ok(Math.abs(end.seq - start.seq) <= 2, `${end.seq} is not ${start.seq}`);
    assert.ok(await tab.evaluate(() => document.querySelectorAll('*').length) < 4000);
    await tab.keyboard.press('g');
    await tab.waitForSelector('.msg[data-seq="1"]:focus');
    await tab.keyboard.press('Shift+G');
    await tab.waitForSelector('.msg[data-seq="20000"]');
});
