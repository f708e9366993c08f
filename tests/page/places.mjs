// The views besides conversations: live, search, trash and about.
import assert from 'node:assert/strict';
import { axe, idOf, lastIs, pageTest, say, shown } from './browser.mjs';

pageTest('live: approvals of all sessions, each for its own call', async ({ open, api, s }) => {
    const ids = [];
    for (const word of ['one', 'two']) {
        const id = await s.session({ title: `asks ${word}` });
        const call = `<<tool search_output {"handle":"x","text":"${word}"}>>`;
        await api('POST', `sessions/${id}/turns`, { background: true,
            message: [call, call, call, `<<say done ${word}>>`].join('<<next>>') });
        ids.push(id);
    }
    const tab = await open('#/live');
    await tab.waitForFunction(() => document.querySelectorAll('.waits .card').length === 2);
    await tab.waitForFunction(() => document.title.startsWith('(2) '));
    await axe(tab, 'live');
    await tab.click('.waits:has-text("asks two") .primary');
    await tab.waitForFunction(() => document.querySelectorAll('.waits .card').length === 1);
    await tab.click('.waits:has-text("asks one") button:text-is("Deny")');
    await tab.waitForSelector('text=Nothing is waiting for you.');
    await tab.click('.session:has-text("asks two")');
    await lastIs(tab, 'done two');
    assert.ok(!(await shown(tab)).some((text) => /denied/.test(text)));
    const denied = (await s.get(`/api/v1/sessions/${ids[0]}/messages`)).text;
    assert.match(denied, /denied|not allowed|refused/i);
});

pageTest('live: a running turn can be stopped', async ({ open, api, s }) => {
    const id = await s.session({ title: 'runs' });
    await api('POST', `sessions/${id}/turns`, { background: true, message: '<<hang>>' });
    const tab = await open('#/live');
    await tab.click('tr:has-text("runs") button');
    await tab.waitForSelector('text=Nothing runs.');
});

pageTest('live: the inbox, failures with a link to the turn, and numbers for admins',
    async ({ open, api, s }) => {
        const id = await s.session({ title: 'is busy' });
        const failing = await s.session({ title: 'went wrong' });
        await api('POST', `sessions/${id}/turns`, { background: true, message: '<<hang>>' });
        await api('POST', `sessions/${id}/turns`, { background: true, lane: 'queue', message: 'later' });
        const tab = await open('#/live');
        await tab.waitForSelector('h2:text-is("Inbox (1)")');
        await tab.waitForSelector('h2:text-is("Running (1)")');
        await tab.waitForSelector('td:has-text("step 1")');
        await s.turn(failing, { message: 'x <<fail status=400>>' });
        await tab.waitForSelector('h2:text-is("Failed lately (1)")');
        await axe(tab, 'live with failures');
        await tab.waitForSelector('text=/1 turn ended, 1 failed/');
        await tab.click('li:has-text("is busy") button:text-is("Take back")');
        await tab.waitForSelector('h2:text-is("Inbox (1)")', { state: 'detached' });
        await tab.click('li:has-text("went wrong") a:text-is("The turn")');
        await tab.waitForSelector('.turn .chip:text-is("failed")');
    });

pageTest('search finds words anywhere and opens the message', async ({ open, api, s }) => {
    const id = await s.session({ title: 'A lamp' });
    await api('POST', `sessions/${id}/messages`, { messages: [{ role: 'user', content: 'hello' },
        { role: 'tool', parts: [{ type: 'tool_result', call_id: 'c', name: 'read',
            output: 'the flickering bulb (x+y)' }] }, { role: 'user', content: '日本語の電球' }] });
    const tab = await open();
    await tab.keyboard.press('Escape');
    await tab.keyboard.press('/');
    await tab.waitForSelector('#find:focus');
    await tab.fill('#find', 'flickering');
    await tab.press('#find', 'Enter');
    assert.equal(await tab.textContent('.hits mark'), 'flickering');
    assert.match(await tab.textContent('.hits li'), /A lamp/);
    await axe(tab, 'search');
    await tab.click('.hits a');
    await tab.waitForSelector('.msg[data-seq="2"]:focus');
    for (const [query, seq] of [['what flickered?', 2], ['flick*', 2], ['"the flickering"', 2], ['電球', 3]]) {
        await tab.goto(`${new URL(tab.url()).origin}/#/search?q=${encodeURIComponent(query)}`);
        await tab.waitForSelector(`.hits a[href$="/m/${seq}"]`);
    }
    await tab.goto(`${new URL(tab.url()).origin}/#/search?q=nothing-like-it`);
    await tab.waitForSelector('text=No message has these words.');
});

pageTest('notes: there are none', async ({ open }) => {
    const tab = await open('#/notes');
    await tab.waitForSelector('text=There are no notes.');
});

pageTest('notes: yes and no, retract and restore, and the source', async ({ open, api, s }) => {
    const id = await s.session({ title: 'sailing', scope: { version: 1, agent_id: 'main',
        channel: 'matrix', account: 'default', dimensions: ['chat'],
        values: { chat: 'direct:@ann:hs' } } });
    await api('POST', `sessions/${id}/messages`, { messages: ['I sail. He said I am lazy.', 'I cook.'] });
    for (const [seq, quote] of [[1, 'I sail'], [1, 'I am lazy'], [2, 'I cook']])
        await api('POST', 'notes', { text: `${quote}.`, kind: 'fact', source: { session: id, seq, quote } });
    const plain = await s.session({ title: 'reading' }); // nobody is known to have said it
    await api('POST', `sessions/${plain}/messages`, { messages: ['I read.'] });
    const tab = await open('#/notes');
    await tab.waitForSelector('h2:text-is("person:matrix:@ann:hs")');
    await api('POST', 'notes', { text: 'I read.', kind: 'fact',
        source: { session: plain, seq: 1, quote: 'I read' } });
    await tab.reload();
    await tab.waitForSelector(`h2 a[href="#/s/${plain}"]:text-is("reading")`);
    await tab.waitForSelector('h2:has-text("Waiting for you")');
    await tab.waitForSelector('h2:text-is("person:matrix:@ann:hs")');
    await axe(tab, 'notes');
    await tab.click('li:has-text("I am lazy") button:text-is("No")');
    await tab.waitForSelector('h2:has-text("Waiting for you")', { state: 'detached' });
    await tab.click('li:has-text("I cook.") button:text-is("Retract")');
    await tab.click('li:has-text("I cook.") button:text-is("Restore")');
    await tab.waitForSelector('li:has-text("I cook.") button:text-is("Retract")');
    const { notes } = await api('GET', 'notes?state=active');
    assert.deepEqual(notes.map(({ text }) => text).sort(), ['I cook.', 'I read.', 'I sail.']);
    await tab.click('li:has-text("I sail.") a');
    await tab.waitForSelector('.msg[data-seq="1"]:focus');
});

pageTest('a session goes to the trash, comes back, and is erased', async ({ open, api }) => {
    const tab = await open();
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    const id = idOf(tab);
    await tab.click('[aria-label="Move to the trash"]');
    await tab.click('.toast button:text-is("Undo")');
    await lastIs(tab, 'echo: Hello');
    await tab.click('[aria-label="Move to the trash"]');
    await tab.waitForSelector('.sessions .empty');
    await tab.goto(`${new URL(tab.url()).origin}/#/trash`);
    await tab.click('.plain-list button:text-is("Restore")');
    await tab.waitForSelector('.session:has-text("Hello")');
    await api('DELETE', `sessions/${id}`);
    await tab.goto(`${new URL(tab.url()).origin}/#/about`);
    await tab.goto(`${new URL(tab.url()).origin}/#/trash`);
    await tab.click('.plain-list button:text-is("Erase…")');
    await tab.fill('dialog input', 'wrong');
    assert.equal(await tab.isDisabled('dialog button:text-is("Erase")'), true);
    await tab.press('dialog input', 'Enter');
    await tab.fill('dialog input', 'Hello');
    await axe(tab, 'erase');
    await tab.click('dialog button:text-is("Erase")');
    await tab.waitForSelector('text=The trash is empty.');
    assert.match(await tab.textContent('.toast'), /^The session was erased: .*2 messages/);
    assert.deepEqual((await api('GET', 'sessions?state=trash')).sessions, []);
});

pageTest('about says what runs, and unknown places say so', async ({ open, api }) => {
    const { version } = await api('GET', 'me');
    const tab = await open('#/about');
    assert.match(await tab.textContent('.facts-list'), new RegExp(version.replaceAll('.', '\\.')));
    await tab.waitForSelector('.plain-list:has-text("recall")');
    await axe(tab, 'about');
    await tab.goto(`${new URL(tab.url()).origin}/#/nowhere`);
    assert.equal(await tab.textContent('h1'), 'This page does not exist');
    await tab.goto(`${new URL(tab.url()).origin}/#/s/none`);
    await tab.waitForSelector('.problem:has-text("There is no such session.") a');
    assert.ok(!(await tab.isVisible('#say')), 'nothing can be said there');
    for (const hash of ['#nowhere', '#/s/%E0%A4%A', '#/s/none/t/%E0']) {
        await tab.goto(`${new URL(tab.url()).origin}/${hash}`);
        await tab.waitForSelector(hash === '#nowhere' ? 'h1:text-is("This page does not exist")'
            : '.problem:has-text("There is no such session.")');
    }
});
