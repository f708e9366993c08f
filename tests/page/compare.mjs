// Windows of other times and settings: what the model saw, what if, and one item in full.
import assert from 'node:assert/strict';
import { idOf, lastIs, pageTest, say } from './browser.mjs';

const numbers = (text) => Number(text.replaceAll(',', '').match(/\d+/)[0]);
const go = (tab, hash) => tab.goto(`${new URL(tab.url()).origin}/${hash}`);

async function talk({ s, api }, length, words = 50) {
    const id = await s.session({ title: 'long' });
    await api('POST', `sessions/${id}/messages`, { messages: Array.from({ length }, (_, i) =>
        ({ role: i % 2 ? 'assistant' : 'user', content: `message ${i} `.repeat(words) })) });
    return id;
}

pageTest('what it saw: the plan before an answer is the request that the model received', async (all) => {
    const { open, api, s } = all;
    const tab = await open();
    for (const word of ['one', 'two', 'three']) {
        await say(tab, word);
        await lastIs(tab, `echo: ${word}`);
    }
    const id = idOf(tab);
    await api('POST', `sessions/${id}/compact`, { summary: 'short', cut_seq: 4 });
    await go(tab, `#/s/${id}/m/4`);
    await tab.waitForSelector('.msg[data-seq="4"][data-sent="summarized"]:focus');
    await tab.keyboard.press('s');
    await tab.waitForSelector('.saw:has-text("The model received exactly this.")');
    assert.match(await tab.textContent('.saw'), /before message 4/);
    const [asked] = (await s.asked()).filter(({ messages }) => messages.at(-1).content === 'two');
    const rows = await tab.$$eval('.window > .items .item', (all) => all.map((one) => one.innerText));
    const sent = rows.filter((row) => /^#/.test(row));
    assert.equal(sent.length, asked.messages.filter(({ role }) => role !== 'system').length);
    assert.match(sent[0], /now summarized/);
    assert.equal(await tab.$('.item:has-text("summary")'), null, 'there was no summary then');
    const plan = await api('GET', `sessions/${id}/context?at_seq=4`);
    assert.equal(numbers(await tab.textContent('.figures .big b')), plan.tokens);
    await tab.click('.saw button:text-is("Compare it with now")');
    await tab.waitForSelector('.compare h3:text-is("The window before message 4")');
    await tab.waitForSelector('.differs:has-text("#1"):has-text("new")');
    await tab.click('.compare button:text-is("Stop comparing")');
    await tab.waitForSelector('.differs', { state: 'detached' });
    await go(tab, `#/s/${id}?p=window&at=6`);
    await tab.waitForSelector('.saw:has-text("before message 6")');
    await tab.click('.saw button:text-is("Back to now")');
    await tab.waitForSelector('.saw', { state: 'detached' });
});

pageTest('compare: model, strategy, without a mark and the draft, as the API plans them', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 20);
    await api('PATCH', `sessions/${id}`, { metadata: { context: { max_tokens: 5000 } } });
    await api('POST', `sessions/${id}/pins`, { seq: 2 });
    const { number } = await api('POST', `sessions/${id}/compact`, { summary: 'short', cut_seq: 10 });
    const tab = await open(`#/s/${id}?p=window`);
    const now = await api('GET', `sessions/${id}/context`);
    const sides = {
        'strategy:none': '?strategy=none', [`without:${number}`]: `?without=${number}`,
        'model:mock-model-mini': '?model=mock-model-mini', 'at:5': '?at_seq=5',
    };
    for (const [vs, query] of Object.entries(sides)) {
        await go(tab, `#/s/${id}?p=window&vs=${vs}`);
        const other = await api('GET', `sessions/${id}/context${query}`);
        assert.equal(other.usable, 5000, "the session's limit is kept");
        await tab.waitForFunction((tokens) => document.querySelector('.compare .big b')?.textContent
            .replaceAll(',', '') === String(tokens), other.tokens);
        const text = (await tab.textContent('.difference')).replaceAll(',', '');
        const by = other.tokens - now.tokens;
        const isSame = JSON.stringify(other.items) === JSON.stringify(now.items);
        assert.ok(text.includes(isSame ? 'Both windows have the same items.'
            : `${by < 0 ? '−' : '+'}${Math.abs(by)} tokens`), `${vs}: ${text}`);
    }
    await go(tab, `#/s/${id}?p=window&vs=without:${number}`);
    await tab.waitForSelector('.differs:has-text("#1"):has-text("new")');
    assert.match(await tab.textContent('.difference'), /it breaks at/);
    assert.equal(await tab.$eval('.what-if label:has-text("Without") select', (one) => one.value),
        String(number));
    await tab.fill('#say', 'what I have written');
    await tab.click('.what-if button:text-is("With my draft")');
    const draft = await api('POST', `sessions/${id}/context`, { message: 'what I have written' });
    await tab.waitForFunction((tokens) => document.querySelector('.compare .big b')?.textContent
        .replaceAll(',', '') === String(tokens), draft.tokens);
    await tab.waitForSelector('.differs:has-text("new")');
    assert.equal((await api('GET', `sessions/${id}`)).last_seq, 20, 'nothing was sent');
    await api('PATCH', `sessions/${id}`, { metadata: {} });
    await go(tab, `#/s/${id}?p=window&vs=strategy:none`);
    await tab.waitForSelector('.compare .big:has-text("tokens, without a limit")');
    await go(tab, `#/s/${id}?p=window&vs=without:99`);
    await tab.waitForSelector('.compare .problem');
});

pageTest('an item in full: stored, sent and the difference', async (all) => {
    const { open, api, s } = all;
    const id = await s.session({ title: 'prunes', metadata: { context: { max_tokens: 6000,
        compaction: { prune_minimum: 100, prune_protect: 200 } } } });
    const messages = [{ role: 'user', content: 'first' }];
    for (let i = 0; i < 12; i++)
        messages.push({ role: 'assistant', parts: [{ type: 'tool_call', call_id: `c${i}`,
            name: 'read', arguments: '{}' }] }, { role: 'tool', parts: [{ type: 'tool_result',
            call_id: `c${i}`, name: 'read', output: `line\n${`output${i} `.repeat(400)}` }] },
        { role: 'assistant', content: `answer ${i}` }, { role: 'user', content: `question ${i}` });
    await api('POST', `sessions/${id}/messages`, { messages });
    await api('POST', `sessions/${id}/turns`, { message: 'go' });
    const plan = await api('GET', `sessions/${id}/context`);
    const pruned = plan.items.find((item) => item.disposition === 'pruned');
    const tab = await open(`#/s/${id}?p=window&full=1`);
    await tab.waitForSelector('.item:has-text("first")');
    assert.equal(await tab.locator('.feed').isVisible(), false, 'the window has the full width');
    await tab.selectOption('[aria-label="Which items"]', 'changed');
    const count = plan.items.filter((item) => ['pruned', 'repaired'].includes(item.disposition)).length;
    await tab.waitForFunction((n) => document.querySelector('.window > .items')
        .getAttribute('aria-rowcount') === String(n), count);
    await tab.click(`.item:has-text("#${pruned.seq}") [aria-label^="Open"]`);
    await tab.waitForSelector('dialog .c-removed:has-text("output")');
    await tab.waitForSelector('dialog .c-added:has-text("cleared")');
    await tab.click('dialog button:text-is("As stored")');
    assert.match(await tab.textContent('dialog pre'), /^line\noutput/);
    await tab.click('dialog button:text-is("As sent")');
    assert.match(await tab.textContent('dialog pre'), /cleared/);
    await tab.keyboard.press('Escape');
    await tab.selectOption('[aria-label="Which items"]', 'all');
    await tab.selectOption('[aria-label="Order"]', 'tokens');
    const most = Math.max(...plan.items.filter((item) => !['summarized', 'dropped']
        .includes(item.disposition)).map((item) => item.tokens));
    await tab.waitForFunction((tokens) => document.querySelector('.items .item .number.end')
        .textContent.replaceAll(',', '') === String(tokens), most);
    await tab.click('.window button:text-is("Full width")');
    await tab.waitForSelector('.feed:visible');
    await tab.click('.item:has-text("tools")');
    await tab.waitForSelector('dialog pre:has-text("read_output")');
});

pageTest('before a compaction, the page says what it replaces and keeps', async (all) => {
    const { open, api } = all;
    const id = await talk(all, 40, 150);
    await api('POST', `sessions/${id}/pins`, { seq: 3 });
    const { cut } = await api('GET', `sessions/${id}/context?compact=true`);
    const tab = await open(`#/s/${id}?p=window`);
    await tab.click('.window button:text-is("Compact…")');
    await tab.waitForSelector(`dialog li:has-text("up to #${cut.seq}")`);
    await tab.waitForSelector('dialog .chip:has-text("#3 pinned")');
    await tab.click('dialog .primary');
    await tab.waitForSelector('.toast:has-text("tokens became")');
    const plan = await api('GET', `sessions/${id}/context`);
    assert.equal(plan.items.find((item) => item.kind === 'range').seq, cut.seq);
});
