// Everybody can use the page: all states with axe in light, dark and narrow, by keyboard alone, with
// names for screen readers, and at 400 percent.
import assert from 'node:assert/strict';
import { axe, lastIs, pageTest, say } from './browser.mjs';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const CALL = '<<tool search_output {"handle":"x","text":"a"}>>';
const TEXT = '# a\n\n```html\n<b>a</b>\n```\n\n- [ ] b\n\n|a|b|\n|-|-|\n|c|d|\n\n> quote\n\n'
    + `[e](https://a.example/?${'q'.repeat(200)}) ![f](https://a.example/x.png) \`code\`\n\n`
    + `\`\`\`\n${'wide '.repeat(60)}\n\`\`\`\n\n${'unbroken'.repeat(40)}`;

// A conversation with every kind of part.
async function talk({ s, api }) {
    const id = await s.session({ title: 'A conversation with a title that is too long to be shown' });

    await api('POST', `sessions/${id}/messages`, { messages: [{ role: 'system', content: 'x' },
        { role: 'user', content: 'one' }, { role: 'assistant', content: TEXT, model: 'm' },
        { role: 'user', parts: [{ type: 'text', text: 'look' }, { type: 'image', name: 'dot.png',
            media_type: 'image/png', data: PNG }, { type: 'file', name: 'notes.txt',
            media_type: 'text/plain', data: 'YQ==' }] },
        { role: 'assistant', parts: [{ type: 'reasoning', text: 'think' },
            { type: 'tool_call', call_id: 'c', name: 'read', arguments: '{"a":1}' }] },
        { role: 'tool', parts: [{ type: 'tool_result', call_id: 'c', name: 'read', output: 'b' }] },
        { role: 'assistant', content: 'done' }] });
    await api('POST', `sessions/${id}/pins`, { seq: 2 });
    return id;
}

async function turn({ s, api }, message, more = {}) {
    const id = await s.session({ title: `asks ${message.slice(0, 8)}` });

    await api('POST', `sessions/${id}/turns`, { background: true, message, ...more });
    return id;
}

// Each state: what leads there from the state before it.
const states = {
    start: ({ go }) => go('#/', 'h1:text-is("What shall we talk about?")'),
    conversation: async ({ go, tab, id }) => {
        await go(`#/s/${id}`, '.msg.assistant .table');
        await tab.$$eval('details', (all) => all.forEach((one) => { one.open = true; }));
        await tab.focus('.msg[data-seq="3"]');
    },
    'a question about a link': async ({ tab }) => {
        await tab.click('.md a:text-is("e")');
        await tab.waitForSelector('dialog .address');
    },
    window: async ({ tab, go, id }) => {
        await tab.keyboard.press('Escape');
        await go(`#/s/${id}?p=window`, '.items .item');
    },
    'what if': async ({ tab }) => {
        await tab.selectOption('.what-if label:has-text("Strategy") select', 'none');
        await tab.waitForSelector('.compare .difference');
    },
    'what it saw, at full width': ({ go, id }) =>
        go(`#/s/${id}?p=window&at=5&full=1`, '.saw'),
    'an item': async ({ tab, go, id }) => {
        await go(`#/s/${id}?p=window`, '.item:has-text("#3")');
        await tab.click('.item:has-text("#3") [aria-label^="Open"]');
        await tab.waitForSelector('dialog pre');
    },
    compact: async ({ tab }) => {
        await tab.keyboard.press('Escape');
        await tab.click('.window button:text-is("Compact…")');
        await tab.waitForSelector('dialog textarea');
    },
    marks: async ({ tab, go, id, api }) => {
        await tab.keyboard.press('Escape');
        for (const summary of ['one', 'two'])
            await api('POST', `sessions/${id}/compact`, { summary, cut_seq: 3 });
        await api('POST', `sessions/${id}/fork`, { at_seq: 3, title: 'a fork' });
        await go(`#/s/${id}?p=marks`, '.mark.undone, .mark-list .mark + .mark + .mark');
        await tab.waitForSelector('.family a + ul, .family ul ul');
    },
    summaries: async ({ tab }) => {
        await tab.click('.mark button:has-text("Compare with mark")');
        await tab.waitForSelector('dialog .lines');
    },
    'a summary made again': async ({ tab }) => {
        await tab.keyboard.press('Escape');
        await tab.click('.mark button:has-text("Make it again")');
        await tab.waitForSelector('dialog textarea');
    },
    palette: async ({ tab }) => {
        await tab.keyboard.press('Escape');
        await tab.keyboard.press('Control+k');
        await tab.waitForSelector('dialog [role=option]');
    },
    'a title that is changed': async ({ tab }) => {
        await tab.keyboard.press('Escape');
        await tab.click('[aria-label="Rename"]');
        await tab.waitForSelector('h1 input');
    },
    turn: async ({ tab, go, failed }) => {
        await go(`#/s/${failed}?p=turn`, '.spans li');
        await tab.click('.span summary');
    },
    ledger: ({ go, asking }) => go(`#/s/${asking}?p=ledger`, '.calls tbody tr'),
    raw: ({ go, id }) => go(`#/s/${id}?p=raw`, '.raw .code'),
    why: async ({ tab, go, id }) => {
        await go(`#/s/${id}/m/3`, '.msg[data-seq="3"]:focus');
        await tab.keyboard.press('y');
        await tab.waitForSelector('dialog');
    },
    'hidden': async ({ tab, api, go, id }) => {
        await tab.keyboard.press('Escape');
        await api('POST', `sessions/${id}/rewind`, { to_seq: 4 });
        await go(`#/s/${id}`, '.gone-line:visible');
        await tab.click('.gone-line:visible button');
    },
    streaming: async ({ tab, go, s }) => {
        await go(`#/s/${await s.session({ title: 'runs' })}`, '#say');
        await say(tab, 'go <<think hm>><<say a b c>><<chunk 2>><<stall after=3>>');
        await tab.waitForSelector('.live .md');
    },
    waiting: async ({ tab }) => {
        await say(tab, 'second');
        await tab.waitForSelector('.docks .waiting');
    },
    live: async ({ go }) => {
        await go('#/live', 'tr:has-text("runs")');
        await go('#/live', '.waits .card.ask');
    },
    approval: ({ go, asking }) => go(`#/s/${asking}`, '.card.ask'),
    results: ({ go, paused }) => go(`#/s/${paused}`, '.card textarea'),
    failed: ({ go, failed }) => go(`#/s/${failed}`, '.msg .problem'),
    'search without hits': ({ go }) => go('#/search?q=nothing-like-it', 'text=No message has these'),
    search: ({ go }) => go('#/search?q=quote', '.hits mark'),
    trash: async ({ api, go, s }) => {
        await api('DELETE', `sessions/${await s.session({ title: 'away' })}`);
        await go('#/trash', '.plain-list li');
    },
    erase: async ({ tab }) => {
        await tab.click('button:text-is("Erase…")');
        await tab.waitForSelector('dialog input');
    },
    about: async ({ tab, go }) => {
        await tab.keyboard.press('Escape');
        await go('#/about', '.plain-list:has-text("recall")');
    },
    usage: ({ go }) => go('#/usage', '.sums tbody tr'),
    'usage by session': ({ go }) => go('#/usage?by=session', '.sums tbody a'),
    'API keys': ({ go }) => go('#/keys', 'button:text-is("New key…")'),
    'new key': async ({ tab }) => {
        await tab.click('button:text-is("New key…")');
        await tab.waitForSelector('dialog [name=role]');
    },
    'no such place': async ({ tab, go }) => {
        await tab.keyboard.press('Escape');
        await go('#/nowhere', 'h1:text-is("This page does not exist")');
    },
    'no such session': ({ go }) => go('#/s/none', '.problem:visible'),
    keys: async ({ tab }) => {
        await tab.evaluate(() => document.activeElement.blur());
        await tab.keyboard.press('?');
        await tab.waitForSelector('dialog .keys');
    },
};

// Elements that a person on a narrow screen cannot reach, because only code and tables scroll
// sideways.
const outside = (tab) => tab.evaluate(() => [...document.querySelectorAll(
    'a, button, input, select, textarea, summary, h1, h2, p, li, .msg, .chip')].filter((one) => {
    const { left, right, width } = one.getBoundingClientRect();
    const scrolls = (box) => box && (/auto|scroll/.test(getComputedStyle(box).overflowX) &&
        box.matches('pre, .table, .items') || scrolls(box.parentElement));

    // A text that flows over is not part of the box.
    const isOver = one.matches('p, li, .msg') && one.scrollWidth > one.clientWidth + 1 &&
        getComputedStyle(one).overflowX === 'visible';

    return width > 0 && one.checkVisibility({ visibilityProperty: true }) &&
        !one.matches('.sr, .skip') && (right > innerWidth + 1 || left < -1 || isOver) && !scrolls(one);
}).map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 30)}`)
    .concat(document.documentElement.scrollWidth > innerWidth + 1 ? ['the page'] : []));

pageTest('axe finds nothing in any state: light, dark, narrow and at 400 percent', async (all) => {
    const { open, s, base } = all;
    const id = await talk(all);
    const context = { ...all, id, asking: await turn(all, [CALL, CALL, CALL].join('<<next>>')),
        paused: await turn(all, '<<tool weather {"city":"Bonn"}>>', { tools: [{ type: 'function',
            function: { name: 'weather', parameters: { type: 'object' } } }] }),
        failed: await turn(all, 'x <<fail status=400>>') };
    const tab = await open();
    const setTheme = (name) => tab.evaluate((theme) => {
        document.documentElement.dataset.theme = theme;
    }, name);

    await tab.emulateMedia({ reducedMotion: 'reduce' }); // nothing is on its way when it is measured
    context.tab = tab;
    context.go = async (hash, selector) => {
        await tab.goto(`${base}/${hash}`);
        await tab.waitForSelector(selector);
    };
    for (const [name, enter] of Object.entries(states)) {
        await enter(context);
        await axe(tab, name);
        await setTheme('dark');
        await axe(tab, `${name}, dark`, ['color-contrast']);
        await tab.setViewportSize({ width: 320, height: 640 });
        await axe(tab, `${name}, narrow`, ['target-size', 'color-contrast']);
        assert.deepEqual(await outside(tab), [], `${name}, narrow`);
        await setTheme('light');
        await tab.setViewportSize({ width: 320, height: 256 }); // 1280 by 1024 at 400 percent
        assert.deepEqual(await outside(tab), [], `${name}, 400 percent`);
        await tab.setViewportSize({ width: 1280, height: 800 });
    }
    await s.release();
});

pageTest('at 400 percent one can read, write and open the list', { viewport: { width: 320,
    height: 256 } }, async ({ open }) => {
    const tab = await open();
    await say(tab, 'Hello');
    await lastIs(tab, 'echo: Hello');
    const feed = await tab.locator('.feed').boundingBox();
    assert.ok(feed.height >= 60, `${feed.height} pixels for the conversation`);
    await tab.click('[aria-label="Sessions"]:visible');
    await tab.waitForSelector('.side.open .session');
    await axe(tab, 'open list');
    assert.deepEqual(await outside(tab), []);
    await tab.click('.side.open .session');
    await tab.waitForSelector('.side:not(.open)', { state: 'attached' });
});

pageTest('text that is spaced out is still complete', async (all) => {
    const id = await talk(all);
    const tab = await all.open(`#/s/${id}`);
    await tab.waitForSelector('.msg.assistant .table');
    // WCAG 1.4.12, by CSSOM because the page allows no inline style.
    await tab.evaluate(() => {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync('* { line-height: 1.5 !important; letter-spacing: 0.12em !important; '
            + 'word-spacing: 0.16em !important; } p { margin-bottom: 2em !important; }');
        document.adoptedStyleSheets = [sheet];
    });
    assert.deepEqual(await outside(tab), []);
    const cut = await tab.$$eval('button, .msg .body p', (found) => found.filter((one) =>
        one.checkVisibility() && one.clientHeight > 0 && one.scrollHeight > one.clientHeight + 2)
        .map((one) => one.textContent));
    assert.deepEqual(cut, []);
});

// ---- The keyboard ----

// Presses Tab until the focus leaves the page. Returns what had the focus.
async function tabThrough(tab) {
    const seen = [];

    await tab.evaluate(() => document.activeElement?.blur());
    for (let i = 0; i < 150; i++) {
        await tab.keyboard.press('Tab');
        const now = await tab.evaluate(() => {
            const one = document.activeElement;

            if (!one || one === document.body)
                return null;
            window.order ??= new Map();
            if (!window.order.has(one))
                window.order.set(one, window.order.size);
            const style = getComputedStyle(one);
            const shows = (box) => box && (getComputedStyle(box).outlineStyle !== 'none' ||
                box.matches('.composer') || shows(box.parentElement));
            const { left, top, width, height } = one.getBoundingClientRect();
            const at = document.elementFromPoint(left + Math.min(width, innerWidth - left) / 2,
                top + Math.min(height, innerHeight - top) / 2);
            return { number: window.order.get(one), what: `${one.tagName} ${one.className}`,
                isShown: style.outlineStyle !== 'none' || Boolean(shows(one)),
                isFree: Boolean(at && (one.contains(at) || at.contains(one))) };
        });

        if (!now || seen.some((one) => one.number === now.number))
            break;
        seen.push(now);
    }
    return seen;
}

pageTest('Tab reaches everything, visibly, and is never trapped', async (all) => {
    const id = await talk(all);
    const tab = await all.open(`#/s/${id}?p=window`);
    await tab.waitForSelector('.items .item');
    const seen = await tabThrough(tab);
    assert.deepEqual(seen.filter((one) => !one.isShown).map((one) => one.what), [], 'no outline');
    assert.deepEqual(seen.filter((one) => !one.isFree).map((one) => one.what), [], 'covered');
    const missed = await tab.evaluate(() => [...document.querySelectorAll(
        'a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter((one) =>
        one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true }) &&
        !one.closest('.acts') && !window.order.has(one)).map((one) => one.outerHTML.slice(0, 80)));
    assert.deepEqual(missed, []);
    assert.ok(seen.length > 20, `${seen.length} elements`);
});

pageTest('a conversation by keyboard alone', async ({ open, api, s }) => {
    const tab = await open();
    const press = (...keys) => keys.reduce((before, one) =>
        before.then(() => tab.keyboard.press(one)), Promise.resolve());
    await tab.waitForSelector('#say:focus');
    await tab.keyboard.type('one');
    await press('Enter');
    await lastIs(tab, 'echo: one');
    await tab.waitForSelector('#say:focus');
    await tab.keyboard.type('two');
    await press('Enter');
    await lastIs(tab, 'echo: two');
    await press('Escape', 'k');
    await tab.waitForSelector('.msg[data-seq="4"]:focus');
    await press('k', 'k');
    await tab.waitForSelector('.msg[data-seq="2"]:focus');
    await press('j');
    await tab.waitForSelector('.msg[data-seq="3"]:focus');
    await press('p');
    await tab.waitForSelector('.msg[data-seq="3"] .chip.pin');
    await press('y');
    await tab.waitForSelector('dialog');
    assert.match(await tab.textContent('dialog'), /The model has this message/);
    await press('Escape');
    await tab.waitForSelector('dialog', { state: 'detached' });
    await tab.waitForSelector('.msg[data-seq="3"]:focus');
    // The actions of a message are reached by Tab, in its order.
    await press('Tab');
    assert.equal(await tab.evaluate(() => document.activeElement.closest('.acts') !== null), true);
    await tab.focus('.msg[data-seq="2"]');
    await press('b');
    await lastIs(tab, 'echo: one');
    await press('u');
    await lastIs(tab, 'echo: two');
    await press('w');
    await tab.waitForSelector('.items .item');
    await tab.focus('.items');
    await press('ArrowDown', 'ArrowDown', 'ArrowDown');
    await tab.waitForSelector('.item:focus');
    await press('Enter');
    await tab.waitForSelector('.msg:focus');
    await press('Escape');
    await tab.waitForSelector('.inspector', { state: 'detached' });
    await press('g');
    await tab.waitForSelector('.msg[data-seq="1"]:focus');
    await press('r');
    await tab.waitForSelector('#say:focus');
    await press('ArrowUp');
    assert.equal(await tab.inputValue('#say'), 'two');
    await press('Control+A');
    await tab.keyboard.type('three');
    await press('Enter');
    await lastIs(tab, 'echo: three');
    await press('Escape', '/');
    await tab.waitForSelector('#find:focus');
    await tab.keyboard.type('three');
    await press('Enter');
    await tab.waitForSelector('.hits a');
    assert.ok((await api('GET', 'sessions')).sessions.length);
    assert.ok(s);
});

// ---- Screen readers ----

const NAMED = new Set(['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'article',
    'dialog', 'image', 'img', 'feed', 'navigation', 'complementary', 'form', 'canvas']);

pageTest('everything that can be used has a name for screen readers', async (all) => {
    const id = await talk(all);
    const tab = await all.open();
    const debug = await all.context.newCDPSession(tab);
    for (const hash of ['#/', `#/s/${id}?p=window`, `#/s/${id}?p=marks`, `#/s/${id}?p=turn`,
        `#/s/${id}?p=ledger`, `#/s/${id}?p=raw`, '#/live', '#/usage', '#/notes', '#/keys', '#/trash', '#/about']) {
        await tab.goto(`${all.base}/${hash}`);
        await tab.waitForSelector(hash.includes('window') ? '.items .item' : 'h1');
        const { nodes } = await debug.send('Accessibility.getFullAXTree');
        const live = nodes.filter((node) => !node.ignored);
        const nameless = live.filter((node) => NAMED.has(node.role?.value) && !node.name?.value);
        assert.deepEqual(nameless.map((node) => node.role.value), [], hash);
        assert.ok(live.length > 20);
        const count = (role) => live.filter((node) => node.role?.value === role).length;
        assert.equal(count('main'), 1, `${hash}: one main`);
        assert.equal(await tab.locator('h1:visible').count(), 1, `${hash}: one heading of level 1`);
    }
    await tab.goto(`${all.base}/#/s/${id}`);
    await tab.waitForSelector('.msg[data-seq="7"]');
    assert.deepEqual(await tab.$eval('.msg[data-seq="7"]', (row) => ['aria-label', 'aria-posinset',
        'aria-setsize'].map((name) => row.getAttribute(name))), ['Message 7, Model', '7', '7']);
    await say(tab, 'go <<say a b c>>');
    await tab.waitForFunction(() => [...document.querySelectorAll('[role=status]')].some((one) =>
        /The answer is complete/.test(one.textContent)));
});
