// The places for operators: usage and keys.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { axe, lastIs, pageTest, say } from './browser.mjs';
import { makeKey } from '../server/support.mjs';

const PRICES = 'models:\n  - {name: mock-model, context: 12000, output: 1000, '
    + 'price: {input: 250, output: 1000}}\n';
const money = (micros) => `$${(micros / 1e6).toFixed(micros < 100000 ? 4 : 2)}`;
const count = (n) => new Intl.NumberFormat('en').format(n);

pageTest('usage: the sums of the period, by day and by name', { server: { config: PRICES } },
    async ({ open, api, s }) => {
        const [one, two] = [await s.session({ title: 'The first' }), await s.session({ title: 'Two' })];
        for (const [id, agent] of [[one, 'helper'], [one, 'writer'], [two, 'helper']])
            await s.turn(id, { message: 'hello', agent });
        await api('POST', `sessions/${one}/compact`, { cut_seq: 2 });
        const total = await api('GET', 'usage');
        assert.equal(total.calls, 4);
        assert.ok(total.cost_micros > 0);
        const tab = await open('#/');
        await tab.click('.foot a:has-text("Usage")');
        await tab.waitForSelector('.tiles');
        const tiles = await tab.$$eval('.tile b', (all) => all.map((one) => one.textContent));
        assert.deepEqual(tiles.slice(0, 2), [money(total.cost_micros), '4']);
        // Everything happened today, so one bar is used, and the table has one row.
        assert.equal(await tab.locator('.chart-bars rect').count(), 1);
        assert.equal(await tab.locator('.sums tbody tr').count(), 1);
        await axe(tab, 'usage');
        const rows = () => tab.$$eval('.sums tbody tr', (all) => all.map((row) =>
            [...row.children].map((cell) => cell.innerText.trim())));
        for (const [by, names] of [['Model', ['mock-model']], ['Agent', ['helper', 'none', 'writer']],
            ['Session', ['The first', 'Two']], ['Purpose', ['compaction', 'turn']]]) {
            await tab.click(`.chart-head button:text-is("${by}")`);
            await tab.waitForSelector(`.sums thead th:text-is("${by}")`);
            await tab.waitForFunction((wanted) => [...document.querySelectorAll('.sums tbody th')]
                .map((cell) => cell.innerText.trim()).sort().join() === wanted, names.join());
            const { groups } = await api('GET', `usage?by=${by.toLowerCase()}`);
            const sums = groups.map((group) => [count(group.calls), money(group.cost_micros)]).sort();
            assert.deepEqual((await rows()).map((row) => [row[1], row.at(-1)]).sort(), sums, by);
        }
        assert.match(tab.url(), /#\/usage\?by=purpose&from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d$/);
        await axe(tab, 'usage by purpose');
        const [download] = await Promise.all([tab.waitForEvent('download'),
            tab.click('button:text-is("Save as CSV")')]);
        const lines = fs.readFileSync(await download.path(), 'utf8').split('\r\n');
        assert.deepEqual(lines.map((line) => line.split(',')[0]).sort(),
            ['compaction', 'name', 'turn']);
        // The address leads to the same view, and a period without calls says so.
        const other = await open(tab.url().slice(tab.url().indexOf('#')));
        await other.waitForSelector('.sums th:text-is("compaction")');
        await other.click('.chart-head button:text-is("Tokens")');
        await other.waitForSelector('.chart .legend');
        assert.ok(await other.locator('.chart-bars rect').count() >= 2, 'input and output');
        await other.goto(`${other.url().split('#')[0]}#/usage?from=2020-01-01&to=2020-01-02`);
        await other.waitForSelector('text=No model was called in this period.');
        assert.equal(await other.textContent('.chart-head h2'), 'By hour (UTC)');
    });

pageTest('a file cannot contain formulas', async ({ open, s }) => {
    await s.turn(await s.session(), { message: 'hello', agent: '=1+1' });
    const tab = await open('#/usage?by=agent');
    await tab.waitForSelector('.sums th:text-is("=1+1")');
    const [download] = await Promise.all([tab.waitForEvent('download'),
        tab.click('button:text-is("Save as CSV")')]);
    assert.match(fs.readFileSync(await download.path(), 'utf8'), /^'=1\+1,1,/m);
});

pageTest('usage shows the budget of the key', { role: 'admin' }, async ({ newTab, base, s, key }) => {
    const made = (await s.post('/api/v1/keys', { role: 'write',
        budget: { tokens: 1000000, cost_micros: 5000000, period: 'month' } }, { key })).json;
    const tab = await newTab();
    await tab.goto(`${base}/#/usage`);
    await tab.fill('#key', made.key);
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('.budget');
    const names = await tab.$$eval('.budget b', (all) => all.map((one) => one.textContent));
    assert.deepEqual(names, ['Budget of this key: tokens', 'Budget of this key: cost']);
    assert.match(await tab.textContent('.budget .dim'), /0 of 1\.0M/);
    assert.equal(await tab.locator('.foot a:has-text("Keys")').count(), 0, 'only for admins');
    await tab.goto(`${base}/#/keys`);
    await tab.waitForSelector('.problem');
});

async function logIn({ newTab, base }, key, hash) {
    const tab = await newTab();
    await tab.goto(`${base}/${hash}`);
    await tab.fill('#key', key);
    await tab.press('#key', 'Enter');
    await tab.waitForSelector('html[data-ready]');
    return tab;
}

pageTest('keys: create one, see its secret once, revoke it', { role: 'admin' }, async (all) => {
    const { s, key } = all;
    const tab = await logIn(all, key, '#/keys');
    await tab.waitForSelector('.key .chip:text-is("yours")');
    await axe(tab, 'keys');
    await tab.click('button:text-is("New key…")');
    await axe(tab, 'new key');
    await tab.fill('[name=label]', 'the laptop');
    await tab.selectOption('[name=role]', 'read');
    await tab.fill('[name=tokens]', '5000');
    await tab.fill('[name=cost]', '1.5');
    await tab.selectOption('[name=period]', 'month');
    await tab.fill('[name=rate]', '30');
    await tab.click('dialog button:text-is("Create")');
    await tab.waitForSelector('dialog .secret');
    await axe(tab, 'a new secret');
    const secret = await tab.inputValue('dialog .secret');
    assert.match(secret, /^pk_[0-9a-f]{64}$/);
    await tab.click('dialog button:text-is("Copy")');
    assert.equal(await tab.evaluate(() => navigator.clipboard.readText()), secret);
    await tab.waitForSelector('dialog .toast:has-text("Copied.")');
    const me = (await s.get('/api/v1/me', { key: secret })).json;
    assert.deepEqual([me.role, me.label, me.budget.tokens, me.budget.cost_micros, me.budget.period],
        ['read', 'the laptop', 5000, 1500000, 'month']);
    await tab.click('dialog button:text-is("Done")');
    await tab.waitForSelector('#app > .toasts .toast');
    await tab.waitForSelector('.key:has-text("the laptop"):has-text("5,000 tokens per month")');
    assert.ok(!(await tab.content()).includes(secret));
    await tab.reload();
    await tab.waitForSelector('.key:has-text("the laptop")');
    assert.ok(!(await tab.content()).includes(secret));
    await tab.click('.key:has-text("the laptop") button');
    await axe(tab, 'revoke');
    await tab.click('dialog button:text-is("Cancel")');
    assert.equal((await s.get('/api/v1/me', { key: secret })).code, 200);
    await tab.click('.key:has-text("the laptop") button');
    await tab.click('dialog button:text-is("Revoke")');
    await tab.waitForSelector('.key:has-text("the laptop")', { state: 'detached' });
    assert.equal((await s.get('/api/v1/me', { key: secret })).code, 401);
    await tab.click('button:text-is("Show 1 revoked key")');
    await tab.waitForSelector('.key.revoked .chip.bad');
    await tab.click('button:text-is("New key…")');
    await tab.fill('[name=tenant]', 'a\u0007b');
    await tab.click('dialog button:text-is("Create")');
    await tab.waitForSelector('dialog .problem');
});

pageTest('the first key of an open server logs in', async ({ open, s, base }) => {
    const tab = await open('#/keys');
    await tab.waitForSelector('text=The server has no keys');
    await tab.click('button:text-is("New key…")');
    assert.equal(await tab.inputValue('[name=role]'), 'admin');
    await tab.click('dialog button:text-is("Create")');
    await tab.click('dialog button:text-is("Log in with it")');
    await tab.waitForSelector('.key .chip:text-is("yours")');
    assert.equal((await s.get('/api/v1/me')).code, 401);
    await tab.goto(`${base}/#/`);
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
});

pageTest('a key that only reads sees usage, but no keys', { role: 'read' }, async (all) => {
    makeKey(all.s.dir, '--role', 'admin');
    const tab = await logIn(all, all.key, '#/usage');
    await tab.waitForSelector('.tiles');
    await tab.waitForSelector('text=No model was called in this period.');
    assert.equal(await tab.locator('.foot a:has-text("Keys")').count(), 0);
});
