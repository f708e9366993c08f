// Talking: sessions, answers as they arrive, drafts, lanes, and what a turn asks.
import assert from 'node:assert/strict';
import { idOf, lastIs, liveIs, pageTest, say, shown } from './browser.mjs';

pageTest('a new chat stores nothing until something is said', async ({ open, api }) => {
    const tab = await open();
    await tab.waitForSelector('#say:focus');
    assert.equal(await tab.textContent('h1'), 'What shall we talk about?');
    assert.equal(await tab.textContent('.sessions .empty'), 'No sessions yet. Say something.');
    assert.deepEqual((await api('GET', 'sessions')).sessions, []);
});

pageTest('the first message makes a session with its words as the title', async ({ open, api }) => {
    const tab = await open();
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    const id = idOf(tab);
    assert.deepEqual(await shown(tab), ['Hello', 'echo: Hello']);
    assert.equal(await tab.textContent('.session.on .name'), 'Hello');
    assert.equal(await tab.textContent('.top h1'), 'Hello');
    await api('POST', `sessions/${id}/turns`, { message: 'from elsewhere' });
    await lastIs(tab, 'echo: from elsewhere');
    await tab.reload();
    await lastIs(tab, 'echo: from elsewhere');
    assert.deepEqual(await shown(tab),
        ['Hello', 'echo: Hello', 'from elsewhere', 'echo: from elsewhere']);
    assert.equal(await tab.title(), 'Hello – Palaver');
});

pageTest('a session without a title is called by its first words', async ({ open, api, s }) => {
    const id = await s.session();
    await api('POST', `sessions/${id}/messages`, { role: 'user', content: 'What is a lamp?' });
    const tab = await open();
    await tab.waitForSelector('.session .name:text-is("What is a lamp?")');
});

pageTest('an answer survives a reload in its middle', async ({ open, s }) => {
    const tab = await open();
    await say(tab, 'go <<say one two three four five six>><<chunk 4>><<stall after=3>>');
    await liveIs(tab, 'one two thre');
    await tab.reload();
    await liveIs(tab, 'one two thre');
    await s.release();
    await lastIs(tab, 'one two three four five six');
    assert.equal(await tab.$('.live'), null);
    assert.equal(await tab.getAttribute('.feed .msg:last-of-type', 'aria-posinset'), '2');
});

pageTest('a tab that comes late shows a long answer from its beginning', async ({ open, s }) => {
    const tab = await open();
    await say(tab, '<<size 120000>><<chunk 4>><<stall after=25000>>');
    const text = (one) => one.evaluate(() => document.querySelector('.live .md')?.textContent ?? '');
    while ((await text(tab)).length < 99000) await tab.waitForTimeout(20);
    const other = await open(new URL(tab.url()).hash);
    while ((await text(other)).length < 99000) await other.waitForTimeout(20);
    assert.equal((await text(other)).slice(0, 200), (await text(tab)).slice(0, 200));
    await s.release();
    const id = idOf(tab);
    await other.waitForSelector('.msg:not(.live).assistant');
    const stored = (await s.get(`/api/v1/sessions/${id}/messages/2`)).json.content;
    assert.equal((await shown(other))[1].replace(/\s+/g, ' ').trim(),
        stored.replace(/\s+/g, ' ').trim());
});

pageTest('an answer that comes all at once is announced', async ({ open, s }) => {
    const id = await s.session({ title: 'fast' });
    const tab = await open(`#/s/${id}`);
    await tab.waitForSelector('.top h1:has-text("fast")');
    await tab.route('**/turns', async (route) => {
        // The page reads nothing until the turn has ended.
        const busy = tab.evaluate(() => {
            for (const until = performance.now() + 1000; performance.now() < until;);
        });
        const response = await route.fetch();
        await busy;
        await route.fulfill({ response });
    });
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    await tab.waitForFunction(() => [...document.querySelectorAll('[role=status]')].some((one) =>
        /The answer is complete/.test(one.textContent)));
    await tab.waitForSelector('.live', { state: 'detached' });
});

pageTest('a message that was not sent is kept and sent once', async ({ open, s, context }) => {
    const tab = await open();
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    await context.setOffline(true);
    await say(tab, 'are you there?');
    await tab.waitForSelector('.composer .problem:has-text("Not sent")');
    assert.equal(await tab.inputValue('#say'), 'are you there?');
    await context.setOffline(false);
    await tab.press('#say', 'Enter');
    await lastIs(tab, 'echo: are you there?');
    assert.equal(await tab.inputValue('#say'), '');
    const { messages } = (await s.get(`/api/v1/sessions/${idOf(tab)}/messages`)).json;
    assert.equal(messages.filter((m) => m.content === 'are you there?').length, 1);
});

pageTest('a message whose response was lost is stored once', async ({ open, s }) => {
    const tab = await open();
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    let lost = 0;
    await tab.route('**/turns', async (route) => {
        if (route.request().method() === 'POST' && lost++ === 0) {
            await route.fetch(); // the server takes it, and the page never hears of that
            await route.abort('connectionreset');
        } else {
            await route.continue();
        }
    });
    await say(tab, 'are you there?');
    await tab.waitForSelector('.composer .problem:has-text("Not sent")');
    await tab.press('#say', 'Enter');
    await tab.waitForFunction(() => document.getElementById('say').value === '');
    await lastIs(tab, 'echo: are you there?');
    const { messages } = (await s.get(`/api/v1/sessions/${idOf(tab)}/messages`)).json;
    assert.deepEqual(messages.map((m) => m.content), ['Hello', 'echo: Hello', 'are you there?',
        'echo: are you there?']);
});

pageTest('the first message is also sent once if its response was lost', async ({ open, s }) => {
    const tab = await open();
    let lost = 0;
    await tab.route('**/api/v1/sessions', async (route) => {
        if (route.request().method() === 'POST' && lost++ === 0) {
            await route.fetch();
            await route.abort('connectionreset');
        } else {
            await route.continue();
        }
    });
    await say(tab, 'Hello');
    await tab.waitForSelector('.composer .problem:has-text("Not sent")');
    await tab.press('#say', 'Enter');
    await lastIs(tab, 'echo: Hello');
    assert.equal((await s.get('/api/v1/sessions')).json.sessions.length, 1);
});

pageTest('two tabs of a session keep two drafts', async ({ open, s }) => {
    const id = await s.session({ title: 'one' });
    const [tab, other] = [await open(`#/s/${id}`), await open(`#/s/${id}`)];
    await tab.fill('#say', 'the first');
    await other.fill('#say', 'the second');
    for (const each of [tab, other]) await each.reload();
    assert.equal(await tab.inputValue('#say'), 'the first');
    assert.equal(await other.inputValue('#say'), 'the second');
    await other.press('#say', 'Enter');
    await lastIs(tab, 'echo: the second');
    assert.equal(await tab.inputValue('#say'), 'the first');
    const late = await open(`#/s/${id}`);
    await lastIs(late, 'echo: the second');
    assert.equal(await late.inputValue('#say'), '', 'what was sent is no draft');
});

pageTest('an answer is asked for again in a fork', async ({ open, api }) => {
    const tab = await open();
    for (const word of ['one', 'two']) {
        await say(tab, word);
        await lastIs(tab, `echo: ${word}`);
    }
    const first = idOf(tab);
    await tab.hover('.msg[data-seq="4"]');
    await tab.click('.msg[data-seq="4"] [title^="Ask again"]', { modifiers: ['Alt'] });
    await tab.waitForSelector('.session.fork.on');
    await lastIs(tab, 'echo: two');
    const { parent_id: parent, fork_seq: at } = await api('GET', `sessions/${idOf(tab)}`);
    assert.deepEqual([parent, at], [first, 3]);
    assert.equal((await api('GET', `sessions/${first}`)).last_seq, 4);
});

pageTest('a chosen model that is gone is not asked for', async ({ open, s }) => {
    const id = await s.session({ title: 'one' });
    const tab = await open(`#/s/${id}`);
    await tab.waitForSelector('.composer .model:visible');
    await tab.selectOption('.composer .model', { label: 'mock-model-mini' });
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    assert.equal((await s.asked()).at(-1).model, 'mock-model-mini');
    await tab.evaluate(() => {
        for (const place of [localStorage, sessionStorage])
            for (const name of Object.keys(place).filter((one) => one.startsWith('model:')))
                place.setItem(name, '{"model":"gone","endpoint":"openai"}');
    });
    await tab.reload();
    await say(tab, 'again');
    await lastIs(tab, 'echo: again');
    assert.equal((await s.asked()).at(-1).model, 'mock-model');
});

pageTest('drafts are kept by session', async ({ open, s }) => {
    const [one, two] = [await s.session({ title: 'one' }), await s.session({ title: 'two' })];
    const tab = await open(`#/s/${one}`);
    await tab.fill('#say', 'half a thought');
    await tab.click('.session:has-text("two")');
    await tab.waitForSelector('.top h1:text-is("two")');
    assert.equal(await tab.inputValue('#say'), '');
    await tab.click('.session:has-text("one")');
    await tab.waitForSelector('.top h1:text-is("one")');
    assert.equal(await tab.inputValue('#say'), 'half a thought');
    await tab.reload();
    await tab.waitForSelector('html[data-ready]');
    assert.equal(await tab.inputValue('#say'), 'half a thought');
    assert.ok(two);
});

pageTest('while a turn runs, messages wait, steer or interrupt', async ({ open, s }) => {
    const tab = await open();
    await say(tab, 'first <<say a b c d e f g h>><<chunk 2>><<stall after=2>>');
    await tab.waitForSelector('.live .md');
    await say(tab, 'second');
    await tab.waitForSelector('.docks .waiting');
    assert.equal((await shown(tab)).length, 1);
    await say(tab, 'third');
    await tab.waitForFunction(() => document.querySelectorAll('.docks .waiting').length === 2);
    await tab.locator('.docks .waiting button').last().click();
    await tab.waitForFunction(() => document.querySelectorAll('.docks .waiting').length === 1);
    await s.release();
    await lastIs(tab, 'echo: second');
    assert.deepEqual((await shown(tab)).slice(1), ['a b c d e f g h', 'second', 'echo: second']);
    await say(tab, 'again <<say a b c d e f g h>><<chunk 2>><<stall after=2>>');
    await tab.waitForSelector('.live .md');
    await tab.selectOption('.lane', 'interrupt');
    await say(tab, 'now this');
    await lastIs(tab, 'echo: now this');
    await say(tab, 'third <<say a b c d e f g h>><<chunk 2>><<stall after=2>>');
    await tab.waitForSelector('.live .md');
    await tab.fill('#say', 'by the way');
    await tab.press('#say', 'Control+Enter');
    await tab.waitForFunction(() => document.querySelector('#say').value === '');
    await s.release();
    await lastIs(tab, 'echo: by the way');
    const { messages } = (await s.get(`/api/v1/sessions/${idOf(tab)}/messages`)).json;
    assert.deepEqual(messages.slice(-3).map((m) => m.content),
        ['a b c d e f g h', 'by the way', 'echo: by the way']);
    assert.equal(messages.at(-1).turn_id, messages.at(-3).turn_id, 'the same turn continues');
});

pageTest('messages that wait are shown after a reload', async ({ open, s }) => {
    const tab = await open();
    await say(tab, '<<say a b c d>><<chunk 2>><<stall after=1>>');
    await tab.waitForSelector('.live .md');
    await say(tab, 'I wait');
    await tab.waitForSelector('.docks .waiting:has-text("I wait")');
    await tab.reload();
    await tab.waitForSelector('.docks .waiting:has-text("I wait")');
    await s.release();
    await lastIs(tab, 'echo: I wait');
    await tab.waitForSelector('.docks .waiting', { state: 'detached' });
});

pageTest('a session that is deleted elsewhere says so, and comes back', async ({ open, s, api }) => {
    const id = await s.session({ title: 'Away' });
    const tab = await open(`#/s/${id}`);
    await tab.fill('#say', 'Hello');
    await api('DELETE', `sessions/${id}`);
    await tab.waitForSelector('.problem:has-text("This session was deleted.")');
    await tab.press('#say', 'Enter');
    await tab.waitForSelector('.composer .problem:has-text("not found. Your text is kept.")');
    await api('POST', `sessions/${id}/restore`);
    await tab.waitForSelector('main > .problem', { state: 'detached' });
    await tab.press('#say', 'Enter');
    await lastIs(tab, 'echo: Hello');
});

pageTest('a turn can be stopped', async ({ open }) => {
    const tab = await open();
    await say(tab, '<<say one two three four>><<chunk 7>><<stall after=1>>');
    await liveIs(tab, 'one two');
    await tab.click('[aria-label="Stop"]');
    await tab.waitForSelector('.msg .stopped');
    assert.equal(await tab.textContent('.msg.assistant .md'), 'one two');
    await tab.waitForSelector('[aria-label="Stop"]', { state: 'detached' });
});

pageTest('a failed turn says why, and can be asked again', async ({ open }) => {
    const tab = await open();
    await say(tab, 'x <<fail status=400 times=1>>');
    await tab.waitForSelector('.msg .problem:has-text("mock: scripted failure")');
    await tab.click('.msg .problem button');
    await lastIs(tab, 'echo: x');
    assert.equal((await shown(tab)).length, 2);
    await tab.waitForSelector('.toast:has-text("The model is asked again.")');
});

pageTest('a temporary failure is retried, and the page says when', async ({ open }) => {
    const tab = await open();
    await say(tab, 'x <<fail status=429 times=1 retry_after=4>>');
    await tab.waitForSelector('.live .meta:has-text("attempt")');
    await lastIs(tab, 'echo: x');
});

pageTest('rewind, undo, edit and fork', async ({ open, api }) => {
    const tab = await open();
    await say(tab, 'one');
    await lastIs(tab, 'echo: one');
    await say(tab, 'two');
    await lastIs(tab, 'echo: two');
    const first = idOf(tab);
    await tab.hover('.msg[data-seq="2"]');
    await tab.click('.msg[data-seq="2"] [title="Rewind to here"]');
    await lastIs(tab, 'echo: one');
    assert.equal(await tab.locator('.gone-line:visible').count(), 1);
    await tab.click('.toast button');
    await lastIs(tab, 'echo: two');
    await tab.hover('.msg[data-seq="3"]');
    await tab.click('.msg[data-seq="3"] [title="Edit"]');
    assert.equal(await tab.inputValue('#say'), 'two');
    await say(tab, 'three');
    await lastIs(tab, 'echo: three');
    assert.deepEqual(await shown(tab), ['one', 'echo: one', 'three', 'echo: three']);
    await tab.hover('.msg[data-seq="2"]');
    await tab.click('.msg[data-seq="2"] [title="Fork from here"]');
    await tab.waitForSelector('.session.fork.on');
    await lastIs(tab, 'echo: one');
    const { parent_id: parent } = await api('GET', `sessions/${idOf(tab)}`);
    assert.equal(parent, first);
    await tab.press('#say', 'ArrowUp');
    await tab.fill('#say', 'other');
    await tab.press('#say', 'Alt+Enter');
    await lastIs(tab, 'echo: other');
    assert.notEqual(idOf(tab), first);
});


pageTest('hidden messages can be shown, and forked from', async ({ open, api }) => {
    const tab = await open();
    for (const word of ['one', 'two']) {
        await say(tab, word);
        await lastIs(tab, `echo: ${word}`);
    }
    await tab.focus('.msg[data-seq="2"]');
    await tab.keyboard.press('b');
    await lastIs(tab, 'echo: one');
    await say(tab, 'three');
    await lastIs(tab, 'echo: three');
    await tab.click('.gone-line:visible button');
    assert.equal(await tab.locator('.msg.gone:visible .body').first().innerText(), 'two');
    await tab.focus('.msg[data-seq="4"]');
    await tab.keyboard.press('f');
    await tab.waitForSelector('.session.fork.on');
    await lastIs(tab, 'echo: two');
    assert.deepEqual(await shown(tab), ['one', 'echo: one', 'two', 'echo: two']);
    const { parent_id: parent, fork_seq: seq } = await api('GET', `sessions/${idOf(tab)}`);
    assert.ok(parent);
    assert.equal(seq, 4);
});

pageTest('a denied call gives the model an error', async ({ open, api, s }) => {
    const id = await s.session({ title: 'asks' });
    const call = '<<tool search_output {"handle":"x","text":"a"}>>';
    await api('POST', `sessions/${id}/turns`, { background: true,
        message: [call, call, call].join('<<next>>') });
    const tab = await open(`#/s/${id}`);
    await tab.focus('.card.ask');
    await tab.keyboard.press('d');
    await tab.waitForSelector('.msg.assistant:not(.live) .md:has-text("tool said")');
    assert.ok(!(await tab.title()).startsWith('('));
    const last = (await s.asked()).at(-1).messages.at(-1);
    assert.equal(last.role, 'tool');
    assert.match(last.content, /denied|not allowed|refused/i);
});

pageTest('a call that needs approval waits for the person', async ({ open, api, s }) => {
    const id = await s.session({ title: 'asks' });
    const call = '<<tool search_output {"handle":"x","text":"a"}>>';
    await api('POST', `sessions/${id}/turns`, { background: true,
        message: [call, call, call, '<<say done>>'].join('<<next>>') });
    const tab = await open(`#/s/${id}`);
    await tab.waitForSelector('.card.ask:has-text("search_output")');
    assert.match(await tab.textContent('.card.ask'), /called three times/);
    assert.match(await tab.textContent('.card.ask pre'), /"text": "a"/);
    await tab.waitForFunction(() => document.title.startsWith('(1) '));
    assert.match(await tab.textContent('.attention-line'), /1 waits for you/);
    await tab.waitForSelector('.live.idle .meta:text-is("waits for you")');
    await tab.click('.card.ask .primary');
    await lastIs(tab, 'done');
});

pageTest('a turn takes results of tools that its caller runs', { prefix: '' },
    async ({ open, api, s, net }) => {
        const id = await s.session({ title: 'pauses' });
        await api('POST', `sessions/${id}/turns`, { background: true,
            message: '<<tool weather {"city":"Bonn"}>>', tools: [{ type: 'function',
                function: { name: 'weather', parameters: { type: 'object' } } }] });
        const tab = await open(`#/s/${id}`);
        await tab.fill('.card textarea', 'rain');
        net.cut();
        await tab.waitForSelector('.banner');
        net.mend();
        await tab.waitForSelector('.banner', { state: 'detached' });
        await tab.waitForSelector('.live.idle');
        assert.equal(await tab.inputValue('.card textarea'), 'rain', 'what was written stays');
        await tab.click('.card .primary');
        await lastIs(tab, 'tool said: rain');
    });

pageTest('images and files go with a message', async ({ open, s }) => {
    const tab = await open();
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
    await tab.setInputFiles('.composer input[type=file]', [
        { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(png, 'base64') },
        { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('a note') }]);
    await tab.waitForFunction(() => document.querySelectorAll('.composer .chip').length === 2);
    await tab.evaluate(() => {
        const withFile = (name) => {
            const data = new DataTransfer();
            data.items.add(new File([name], name, { type: 'text/plain' }));
            return data;
        };
        document.querySelector('#say').dispatchEvent(new ClipboardEvent('paste',
            { clipboardData: withFile('pasted.txt'), bubbles: true, cancelable: true }));
        const drop = new DragEvent('drop',
            { dataTransfer: withFile('dropped.txt'), bubbles: true, cancelable: true });
        document.querySelector('.feed, .hello').dispatchEvent(drop);
        if (!drop.defaultPrevented) throw new Error('the browser would open the file');
    });
    await tab.waitForFunction(() => document.querySelectorAll('.composer .chip').length === 4);
    await say(tab, 'look');
    await tab.waitForSelector('.msg.user img.picture');
    assert.equal(await tab.$eval('.msg.user img.picture', (img) => img.decode().then(() =>
        img.naturalWidth)), 1);
    assert.deepEqual((await tab.locator('.msg.user .chip.file').allTextContents()).sort(),
        ['dropped.txt', 'notes.txt', 'pasted.txt']);
    const { messages } = (await s.get(`/api/v1/sessions/${idOf(tab)}/messages`)).json;
    assert.deepEqual(messages[0].parts.map((p) => p.type), ['text', 'image', 'file', 'file', 'file']);
    assert.equal(await tab.inputValue('#say'), '');
});

pageTest('after a restart of the server the page continues by itself', async ({ open, s, t }) => {
    const tab = await open();
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    await tab.fill('#say', 'half a thought');
    await s.stop('SIGKILL');
    await tab.waitForSelector('.banner');
    const { serveModel } = await import('../server/model.mjs');
    await serveModel(t, { dir: s.dir, model: s.model, args: ['--listen', `127.0.0.1:${s.port}`] });
    await tab.waitForSelector('.banner', { state: 'detached' });
    assert.equal(await tab.inputValue('#say'), 'half a thought');
    await tab.press('#say', 'Enter');
    await lastIs(tab, 'echo: half a thought');
});
