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
    await tab.waitForSelector('.compare .difference');
    const other = await api('GET', `sessions/${id}/context?strategy=none`);
    assert.equal(numbers(await tab.textContent('.compare .big b')), other.tokens);
});

pageTest('why: a message that is sent, and one that is hidden', async (all) => {
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
    assert.match(await tab.textContent('dialog'), /It is hidden\./);
});

pageTest('a window of 4,000 tokens compacts by itself, and the page shows it', async (all) => {
    const { open, api, s } = all;
    const id = await s.session({ title: 'small', metadata: { context: { max_tokens: 4000 } } });
    const tab = await open(`#/s/${id}?p=window`);
    const words = (i) => `question ${i} ${'of some length '.repeat(60)}`;
    let mark;
    for (let i = 0; i < 16 && !mark; i++) {
        await say(tab, words(i));
        await lastIs(tab, `echo: ${words(i)}`.trim());
        mark = (await api('GET', `sessions/${id}/marks`)).marks
            .find((one) => one.kind === 'checkpoint');
    }
    assert.ok(mark, 'it was compacted');
    const plan = await api('GET', `sessions/${id}/context`);
    const range = plan.items.find((item) => item.kind === 'range');
    await tab.goto(`${new URL(tab.url()).origin}/#/s/${id}/m/${range.seq}`);
    await tab.waitForSelector(`.msg[data-seq="${range.seq}"] .boundary`);
    assert.match(await tab.textContent('.boundary'), new RegExp(`${range.count} messages`));
    const margin = (seq) => tab.$eval(`.msg[data-seq="${seq}"] .margin`, (one) =>
        getComputedStyle(one).borderLeftStyle);
    assert.equal(await margin(range.seq), 'dashed');
    assert.equal(await margin(range.seq + 1), 'none');
    await tab.goto(`${new URL(tab.url()).origin}/#/s/${id}?p=marks`);
    await tab.click('.mark:has-text("Compaction") summary');
    assert.ok((await tab.textContent('.mark:has-text("Compaction") blockquote')).length > 0);
    await tab.click('.mark:has-text("Compaction") button:text-is("Undo")');
    await tab.waitForSelector('.mark.undone:has-text("Compaction")');
    const after = await api('GET', `sessions/${id}/context`);
    assert.ok(!after.items.some((item) => item.kind === 'summary'));
});

// What the plan says of each message is what the margin and Why say, for every disposition.
pageTest('why: every disposition, with the reason of the plan', async (all) => {
    const { open, api, s } = all;
    const long = (word) => `${word} `.repeat(400);
    const messages = [{ role: 'user', content: 'first' }];
    for (let i = 0; i < 12; i++)
        messages.push({ role: 'assistant', parts: [{ type: 'tool_call', call_id: `c${i}`,
            name: 'read', arguments: '{}' }] }, { role: 'tool', parts: [{ type: 'tool_result',
            call_id: `c${i}`, name: 'read', output: long(`output${i}`) }] },
        { role: 'assistant', content: `answer ${i}` }, { role: 'user', content: `question ${i}` });
    messages.push({ role: 'assistant', parts: [{ type: 'text', text: '' },
        { type: 'text', text: 'x' }] }, { role: 'user', content: 'and now?' });
    const made = {
        pruned: { metadata: { context: { max_tokens: 6000,
            compaction: { prune_minimum: 100, prune_protect: 200 } } } },
        dropped: { metadata: { context: { token_strategy: 'sliding_window', max_tokens: 3000 } } },
        repaired: {},
    };
    const found = new Set();
    const tab = await open();
    for (const [name, settings] of Object.entries(made)) {
        const id = await s.session({ title: name, ...settings });
        await api('POST', `sessions/${id}/messages`, { messages });
        await api('POST', `sessions/${id}/pins`, { seq: 1 });
        if (name === 'pruned') await api('POST', `sessions/${id}/turns`, { message: 'go' });
        if (name === 'repaired') await api('POST', `sessions/${id}/compact`,
            { summary: 'short', cut_seq: 20 });
        const plan = await api('GET', `sessions/${id}/context`);
        const items = plan.items.filter((item) => item.seq);
        for (const word of [...new Set(items.map((item) => item.disposition)), 'pinned']) {
            const item = items.find((one) => (word === 'pinned' ? one.pinned
                : one.disposition === word));
            if (!item || found.has(word)) continue;
            found.add(word);
            await tab.goto(`${new URL(tab.url()).origin}/#/s/${id}/m/${item.seq}`);
            await tab.waitForSelector(`.msg[data-seq="${item.seq}"]:focus`);
            await tab.waitForSelector(`.msg[data-seq="${item.seq}"][data-sent="${item.disposition}"]`);
            await tab.keyboard.press('y');
            await tab.waitForSelector('dialog strong');
            const text = await tab.textContent('dialog');
            assert.ok(text.includes(item.reason), `${word}: ${item.reason}: ${text}`);
            if (word === 'pinned') assert.match(text, /Unpin/);
            await tab.keyboard.press('Escape');
        }
    }
    for (const word of ['sent', 'summarized', 'dropped', 'pruned', 'repaired', 'pinned'])
        assert.ok(found.has(word), `${word} is not among ${[...found]}`);
});

pageTest('the key p pins and unpins, and a pinned message survives a compaction', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 10);
    const tab = await open(`#/s/${id}/m/3`);
    await tab.waitForSelector('.msg[data-seq="3"]:focus');
    await tab.keyboard.press('p');
    await tab.waitForSelector('.msg[data-seq="3"] .chip.pin');
    await tab.keyboard.press('p');
    await tab.waitForSelector('.msg[data-seq="3"] .chip.pin', { state: 'detached' });
    assert.ok(!(await api('GET', `sessions/${id}/context`)).items.some((item) => item.pinned));
});
