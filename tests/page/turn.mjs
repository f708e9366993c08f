// The inspector's views of a turn, of the ledger and of the raw JSON.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { axe, lastIs, pageTest, say } from './browser.mjs';

const PRICES = 'models:\n  - {name: mock-model, context: 12000, output: 1000, '
    + 'price: {input: 250, output: 1000}}\n';
const CALL = '<<tool search_output {"handle":"x","text":"a"}>>';
const priced = { server: { config: PRICES } };
const spans = (tab) => tab.$$eval('.spans .what b', (all) => all.map((one) => one.textContent));
const spansAre = (tab, names) => tab.waitForFunction((wanted) =>
    [...document.querySelectorAll('.spans .what b')].map((one) => one.textContent).join() === wanted,
names.join());
const money = (micros) => `$${(micros / 1e6).toFixed(micros < 100000 ? 4 : 2)}`;

pageTest('a turn: steps, tools, times, tokens and cost', priced, async ({ open, api, s }) => {
    const id = await s.session({ title: 'A turn' });
    const first = await api('POST', `sessions/${id}/turns`,
        { message: `${CALL}<<next>><<say done>>` });
    const second = await api('POST', `sessions/${id}/turns`, { message: 'again' });
    const tab = await open(`#/s/${id}`);
    await lastIs(tab, 'echo: again');
    await tab.$eval('.feed', (feed) => { feed.isSame = true; });
    await tab.focus('.feed');
    await tab.keyboard.press('t');
    await spansAre(tab, ['Step 1']);
    await tab.click('[aria-label="The turn before"]');
    await spansAre(tab, ['Step 1', 'search_output', 'Step 2']);
    assert.match(tab.url(), new RegExp(`#/s/${id}/t/${first.turn_id}$`));
    assert.equal(await tab.$eval('.feed', (feed) => feed.isSame), true, 'only the panel changes');
    const sum = await api('GET', `usage?turn=${first.turn_id}`);
    assert.ok(sum.cost_micros > 0);
    const whole = await tab.textContent('.turn .whole');
    assert.ok(whole.includes(`2 steps · 1 tool call · in ${sum.input_tokens}, out `
        + `${sum.output_tokens}, ${money(sum.cost_micros)}`), whole);
    assert.equal(await tab.textContent('.turn .chip'), 'done');
    const { calls } = await api('GET', `ledger?turn=${first.turn_id}`);
    const facts = await tab.$$eval('.facts-line', (all) => all.map((one) => one.textContent));
    assert.ok(facts[0].startsWith(`in ${calls[1].input_tokens}, out ${calls[1].output_tokens}, `
        + `${money(calls[1].cost_micros)} · → search_output`), facts[0]);
    assert.ok(facts[2].startsWith(`in ${calls[0].input_tokens}, out `), facts[2]);
    // Each part is opened on demand, and leads to its message.
    await tab.click('.span:has-text("search_output") summary >> nth=1');
    await tab.waitForSelector('.span[open] .code:has-text("handle")');
    await axe(tab, 'turn');
    await tab.click('.span:has-text("Step 2") summary');
    await tab.click('.span:has-text("Step 2") button:text-is("Show message 4")');
    await tab.waitForSelector('.msg[data-seq="4"]:focus');
    await tab.click('[aria-label="The turn after"]');
    await spansAre(tab, ['Step 1']);
    assert.match(tab.url(), new RegExp(`/t/${second.turn_id}$`));
    // The panel closes, also if the address names the turn.
    await tab.focus('.feed');
    await tab.keyboard.press('Escape');
    await tab.waitForSelector('.inspector', { state: 'detached' });
    // A link to a turn opens it.
    const link = await open(`#/s/${id}/t/${first.turn_id}`);
    await spansAre(link, ['Step 1', 'search_output', 'Step 2']);
});

pageTest('a turn whose events are gone has the times of its messages', priced,
    async ({ open, api, s, context }) => {
        const id = await s.session();
        const made = await api('POST', `sessions/${id}/turns`,
            { message: `${CALL}<<next>><<say done>>` });
        await context.route(/turns\/[^/]+\/events/, (route) => route.fulfill({ status: 204 }));
        const tab = await open(`#/s/${id}/t/${made.turn_id}`);
        await spansAre(tab, ['Step 1', 'search_output', 'Step 2']);
        await tab.waitForSelector('text=no longer has the events of this turn');
        const { calls } = await api('GET', `ledger?turn=${made.turn_id}`);
        const facts = await tab.$$eval('.facts-line', (all) => all.map((one) => one.textContent));
        assert.ok(facts[2].includes(money(calls[0].cost_micros)), facts[2]);
    });

pageTest('a turn that runs is followed, and shows that it was stopped', async ({ open, s }) => {
    const id = await s.session();
    const tab = await open(`#/s/${id}?p=turn`);
    await tab.waitForSelector('text=No turn has run in this session yet.');
    await say(tab, `${CALL}<<next>><<say a b c>><<chunk 2>><<stall after=2>>`);
    await spansAre(tab, ['Step 1', 'search_output', 'Step 2']);
    assert.equal(await tab.textContent('.turn .chip'), 'running');
    const before = await tab.textContent('.turn .big');
    await tab.waitForFunction((text) => document.querySelector('.turn .big').textContent !== text,
        before);
    await tab.click('.composer [aria-label="Stop"]');
    await tab.waitForSelector('.turn .chip:text-is("canceled")');
    assert.deepEqual(await spans(tab), ['Step 1', 'search_output', 'Step 2']);
    await s.release();
});

pageTest('a turn shows attempts that failed, and why it failed', async ({ open, api, s }) => {
    const id = await s.session();
    await api('POST', `sessions/${id}/turns`,
        { message: 'x <<fail status=429 times=1 retry_after=0>>' });
    const tab = await open(`#/s/${id}?p=turn`);
    await spansAre(tab, ['Step 1', 'Step 1']);
    assert.equal(await tab.textContent('.turn .chip'), 'done');
    assert.equal(await tab.locator('.span.failed').count(), 1);
    await tab.click('.span.failed summary');
    assert.match(await tab.textContent('.span.failed .problem'), /429/);
    await s.turn(id, { message: 'y <<fail status=400>>' });
    await tab.waitForSelector('.turn .chip:text-is("failed")');
    assert.match(await tab.textContent('.turn > .problem, .turn .later > .problem, .turn .problem'),
        /400/);
    await axe(tab, 'failed turn');
    // It can be asked again, although it has no answer.
    const before = (await s.asked()).length;
    await tab.click('.turn button:text-is("Ask again")');
    await tab.waitForSelector('.toast:has-text("The model is asked again.")');
    await s.untilAsked(before + 1);
});

pageTest('a turn shows how long it waited for a person, and steers', async ({ open, api, s }) => {
    const id = await s.session();
    await api('POST', `sessions/${id}/turns`, { background: true,
        message: [CALL, CALL, CALL, '<<say done>>'].join('<<next>>') });
    const tab = await open(`#/s/${id}?p=turn`);
    await tab.waitForSelector('.turn .chip:text-is("asking")');
    await tab.waitForSelector('.span:has-text("Waited for you")');
    await tab.click('.card.ask .primary');
    await lastIs(tab, 'done');
    await tab.waitForSelector('.turn .chip:text-is("done")');
    assert.ok((await spans(tab)).includes('Waited for you'));
});

pageTest('the ledger: calls, sums, filters and files', priced, async ({ open, api, s, context }) => {
    const id = await s.session({ title: 'Costs' });
    const other = await s.session();
    for (const text of ['one', 'two', 'three']) await s.turn(id, { message: text });
    await s.turn(other, { message: 'elsewhere' });
    await api('POST', `sessions/${id}/compact`, { cut_seq: 4 });
    const tab = await open(`#/s/${id}`);
    await lastIs(tab, 'echo: three');
    await tab.focus('.feed');
    await tab.keyboard.press('l');
    await tab.waitForSelector('.calls tbody tr');
    const total = await api('GET', `sessions/${id}/usage`);
    assert.equal(total.calls, 4);
    assert.equal(await tab.textContent('.ledger .big b'), money(total.cost_micros));
    assert.equal(await tab.locator('.calls tbody tr').count(), 4);
    const foot = () => tab.$eval('.calls tfoot', (row) => row.innerText.replace(/\s+/g, ' ').trim());
    assert.equal(await foot(), `4 calls ${total.input_tokens} 0 % ${total.output_tokens} `
        + money(total.cost_micros));
    await axe(tab, 'ledger');
    await tab.selectOption('.ledger label:has-text("Purpose") select', 'compaction');
    await tab.waitForFunction(() => document.querySelectorAll('.calls tbody tr').length === 1);
    const [made] = (await api('GET', `ledger?session=${id}&purpose=compaction`)).calls;
    assert.ok((await foot()).endsWith(money(made.cost_micros)));
    await tab.selectOption('.ledger label:has-text("Purpose") select', '');
    await tab.waitForFunction(() => document.querySelectorAll('.calls tbody tr').length === 4);
    await tab.fill('.ledger [type=date]', '2020-01-01');
    await tab.waitForSelector('text=No model call fits.');
    await tab.fill('.ledger [type=date]', '');
    await tab.waitForFunction(() => document.querySelectorAll('.calls tbody tr').length === 4);
    const file = async (button) => {
        const [download] = await Promise.all([tab.waitForEvent('download'),
            tab.click(`.ledger button:text-is("${button}")`)]);
        return fs.readFileSync(await download.path(), 'utf8');
    };
    const lines = (await file('Save as CSV')).split('\r\n');
    assert.equal(lines.length, 5);
    assert.match(lines[0], /^created_at,purpose,.*,cost_micros,/);
    const json = JSON.parse(await file('Save as JSON'));
    assert.deepEqual(json, (await api('GET', `ledger?session=${id}`)).calls);
    // A row leads to its turn, and a new call appears by itself.
    await say(tab, 'four');
    await tab.waitForFunction(() => document.querySelectorAll('.calls tbody tr').length === 5);
    await tab.click('.calls tbody tr:nth-child(1) a');
    await spansAre(tab, ['Step 1']);
    assert.ok(context);
});

pageTest('a ledger of several pages is saved completely', async ({ open, s, context }) => {
    const id = await s.session();
    for (const text of ['one', 'two', 'three', 'four', 'five']) await s.turn(id, { message: text });
    await context.route(/ledger\?/, (route) =>
        route.continue({ url: route.request().url().replace('limit=100', 'limit=2') }));
    const tab = await open(`#/s/${id}?p=ledger`);
    const has = (count) => tab.waitForFunction((wanted) =>
        document.querySelectorAll('.calls tbody tr').length === wanted, count);
    await has(2);
    assert.match(await tab.textContent('.calls tfoot'), /^The newest 2 calls/);
    await tab.click('button:text-is("Older calls")');
    await has(4);
    const [download] = await Promise.all([tab.waitForEvent('download'),
        tab.click('.ledger button:text-is("Save as CSV")')]);
    assert.equal(fs.readFileSync(await download.path(), 'utf8').split('\r\n').length, 6);
    assert.match(await tab.textContent('.calls tfoot'), /^5 calls/);
});

pageTest('raw: the JSON of everything in a session', async ({ open, api, s }) => {
    const id = await s.session({ title: 'Raw' });
    await s.turn(id, { message: 'hello' });
    const tab = await open(`#/s/${id}?p=raw`);
    const shows = (text) => tab.waitForSelector(`.raw .code:has-text("${text}")`);
    await shows('Raw');
    await axe(tab, 'raw');
    for (const [kind, text] of [['message', 'echo: hello'], ['context', 'disposition'],
        ['marks', 'has_more'], ['turn', 'state'], ['inbox', 'items'], ['tree', 'nodes']]) {
        await tab.selectOption('.raw select', kind);
        await shows(text);
    }
    await tab.selectOption('.raw select', 'message');
    await tab.fill('.raw [type=number]', '1');
    await tab.press('.raw [type=number]', 'Enter');
    await tab.waitForFunction(() => /"seq": 1,/.test(document.querySelector('.raw .code').textContent));
    assert.equal((await api('GET', `sessions/${id}`)).title, 'Raw');
});

pageTest('the inspector by keyboard: the focus moves with it', async ({ open, s }) => {
    const id = await s.session({ title: 'Keys' });
    await s.turn(id, { message: 'hello' });
    const tab = await open(`#/s/${id}`);
    await lastIs(tab, 'echo: hello');
    await tab.focus('.top .tabs button:text-is("Turn")');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.inspector .tabs button:text-is("Turn"):focus');
    await tab.keyboard.press('Tab');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.ledger .calls');
    await tab.waitForSelector('.inspector .tabs [aria-pressed="true"]:text-is("Ledger"):focus');
    await tab.focus('.inspector [aria-label="Close"]');
    await tab.keyboard.press('Enter');
    await tab.waitForSelector('.inspector', { state: 'detached' });
    await tab.waitForSelector('.top .tabs button:text-is("Ledger"):focus');
    // Single keys can be switched off, for people who dictate.
    await tab.goto(`${tab.url().split('#')[0]}#/about`);
    await tab.uncheck('.check input');
    await tab.goto(`${tab.url().split('#')[0]}#/s/${id}`);
    await lastIs(tab, 'echo: hello');
    await tab.focus('.feed');
    await tab.keyboard.press('t');
    await tab.keyboard.press('n');
    assert.match(tab.url(), /#\/s\/[^?]+$/);
    await tab.reload();
    await lastIs(tab, 'echo: hello');
    await tab.keyboard.press('n');
    assert.match(tab.url(), /#\/s\//);
});
