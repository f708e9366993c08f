// Makes the pictures of README.md and docs/page.md, from the real page with a made-up story:
//
//     ninja -C build-test/gcc page-pictures
//
// PAGE_PICTURES names their directory. With PAGE_PICTURES_PNG=1 they are PNG files.
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after } from 'node:test';
import { MockModel } from '../conformance/mock-model.mjs';
import { closeBrowser, pageTest } from './browser.mjs';

const directory = process.env.PAGE_PICTURES;
const format = process.env.PAGE_PICTURES_PNG === '1' ? 'png' : 'webp';
const QUALITY = 72;
const DESKTOP = { viewport: { width: 1440, height: 900 }, scale: 1.25 };
const PHONE = { viewport: { width: 390, height: 780 }, scale: 2 };

async function picture(tab, context, name) {
    const debug = await context.newCDPSession(tab);

    // Toasts and hover are of the moment.
    await tab.mouse.move(1, 1);
    await tab.evaluate(() => document.fonts.ready);
    const { data } = await debug.send('Page.captureScreenshot',
        { format, ...(format === 'webp' && { quality: QUALITY }) });
    fs.mkdirSync(directory, { recursive: true });
    fs.writeFileSync(path.join(directory, `${name}.${format}`), Buffer.from(data, 'base64'));
}

const rows = (name, count) => Array.from({ length: count }, (_, i) => `${name} | ${4000 + 37 * i} | `
    + `2026-03-${String(i % 28 + 1).padStart(2, '0')} 0${i % 9}:1${i % 6} | ${(i * 7919) % 900} ms`)
    .join('\n');
const call = (id, name, body) => ({ role: 'assistant', model: 'house-small', parts: [{ type: 'tool_call',
    call_id: id, name, arguments: JSON.stringify(body) }] });
const result = (id, name, output) => ({ role: 'tool', parts: [{ type: 'tool_result', call_id: id, name,
    output }] });
const user = (content) => ({ role: 'user', content });
let said = 0;
const usage = () => ({ input_tokens: 90 + 37 * (said % 5), cache_read_tokens: 160 * said++ % 1500,
    output_tokens: 40 });
const model = (content) => ({ role: 'assistant', content, model: 'house-small', usage: usage() });

const story = [
    { role: 'system', content: 'You look after the ticket office of a small theater. Be brief.' },
    user('On Friday evenings the seat map takes ten seconds. Monday at noon it is instant. Why?'),
    model('The load differs, so I look at the slow queries of both evenings first.'),
    call('a1', 'db__slow_queries', { from: '2026-03-06T18:00', to: '2026-03-06T22:00' }),
    result('a1', 'db__slow_queries', rows('select seat', 50)),
    model('Nearly all of them read the table `seat` row by row. I check the indexes.'),
    call('a2', 'db__indexes', { table: 'seat' }),
    result('a2', 'db__indexes', rows('seat_pkey (id)', 30)),
    model('There is no index on `(show_id, row)`. On Fridays three shows are sold at once, so each seat '
        + 'map reads all three.'),
    user('Can we add it while the office is open?'),
    model('Yes: `create index concurrently` does not lock the table. It takes about two minutes.'),
    call('a3', 'db__explain', { sql: 'select * from seat where show_id = 3301 order by row' }),
    result('a3', 'db__explain', rows('Seq Scan on seat', 40)),
    model('The plan confirms it: 214,000 rows are read, and 380 are kept.'),
    user('Keep in mind: never touch the table `payment`.'),
    model('I will not read or change `payment`.'),
    user('Good. Then write the change, and say how we undo it.'),
];
const end = `Here is the migration. **Nothing is deployed yet.**

\`\`\`diff
--- a/migrations/041_seat_index.sql
+++ b/migrations/041_seat_index.sql
@@ -0,0 +1,3 @@
+-- The seat map of one show reads only its own rows.
+create index concurrently seat_show_row
+    on seat (show_id, row);
\`\`\`

| | before | after |
|---|---:|---:|
| rows read | 214,000 | 380 |
| Friday, 19:00 | 9.8 s | 0.02 s |

To undo it: \`drop index concurrently seat_show_row;\``;

async function tell({ api, s }) {
    for (const [title, question] of [['A name for the cat', 'A name for a black cat?'],
        ['Sourdough with less salt', 'Less salt, same rise?'], ['Trip to Lisbon', 'Three days?']]) {
        const other = await s.session({ title });
        await api('POST', `sessions/${other}/messages`, { messages: [user(question), model('Gladly.')] });
    }
    const id = await s.session({ title: 'The seat map is slow', metadata: { context: { max_tokens: 3000 } } });
    await api('POST', `sessions/${id}/messages`, { messages: story.slice(0, 14) });
    await api('POST', `sessions/${id}/pins`, { seq: 2 });
    await api('POST', `sessions/${id}/compact`, { cut_seq: 6, summary: 'The seat map is slow on Friday '
        + 'evenings, because nearly all slow queries read the table seat row by row.' });
    await api('POST', `sessions/${id}/messages`, { messages: [...story.slice(14), model(end)] });
    const fork = await api('POST', `sessions/${id}/fork`, { at_seq: 11, title: 'Try it with a cache' });
    await api('POST', `sessions/${fork.id}/messages`, { messages: [user('And with a cache?'),
        model('It would hide the problem until the cache is empty.')] });
    await api('PATCH', `sessions/${id}`, { title: 'The seat map is slow on Fridays' });
    return id;
}

// Opens the story at a message.
async function openStory({ open }, id, seq, panel = '') {
    const tab = await open(`#/s/${id}/m/${seq}${panel && `?p=${panel}`}`);

    await tab.waitForSelector(`.msg[data-seq="${seq}"][data-sent]`);
    await tab.waitForFunction((at) => document.querySelector(`.msg[data-seq="${at}"]`).dataset.sent,
        seq);
    if (panel === 'window') await tab.waitForSelector('.items .item');
    await tab.evaluate(() => { document.activeElement.blur(); });
    await tab.waitForTimeout(200);
    return tab;
}

for (const theme of ['light', 'dark']) {
    pageTest(`the window, ${theme}`, { ...DESKTOP, theme }, async (all) => {
        const id = await tell(all);
        const tab = await openStory(all, id, 10, 'window');
        await picture(tab, all.context, `page-${theme}`);
    });
}

pageTest('two windows, and the life of a session', DESKTOP, async (all) => {
    const id = await tell(all);
    const { marks } = await all.api('GET', `sessions/${id}/marks`);
    const { number } = marks.find((mark) => mark.kind === 'checkpoint');
    const tab = await openStory(all, id, 10, 'window');
    await tab.goto(`${all.base}/#/s/${id}/m/10?p=window&vs=without:${number}`);
    await tab.waitForSelector('.differs');
    await picture(tab, all.context, 'page-compare');
    await all.api('POST', `sessions/${id}/pins`, { seq: 15 });
    await all.api('POST', `sessions/${id}/rewind`, { to_seq: 17 });
    await all.api('POST', `sessions/${id}/undo`);
    await tab.goto(`${all.base}/#/s/${id}/m/17?p=marks`);
    await tab.waitForSelector('.mark.undone');
    await tab.waitForSelector('.family a');
    await tab.waitForTimeout(300);
    await picture(tab, all.context, 'page-marks');
});

pageTest('why, and live', DESKTOP, async (all) => {
    const { api, s, context, base } = all;
    const id = await tell(all);
    const tab = await openStory(all, id, 3);
    await tab.focus('.msg[data-seq="3"]');
    await tab.keyboard.press('y');
    await tab.waitForSelector('dialog blockquote');
    await picture(tab, context, 'page-why');
    await tab.keyboard.press('Escape');
    const asking = await s.session({ title: 'Refund for row 7' });
    const once = '<<tool search_output {"handle":"refunds","text":"row 7"}>>';
    await api('POST', `sessions/${asking}/turns`, { background: true,
        message: [once, once, once].join('<<next>>') });
    const running = await s.session({ title: 'Import of May' });
    await api('POST', `sessions/${running}/turns`, { background: true, message: '<<hang>>' });
    await tab.goto(`${base}/#/live`);
    await tab.waitForSelector('.waits .card.ask');
    await tab.waitForSelector('tr:has-text("Import of May")');
    await picture(tab, context, 'page-live');
});

const PRICES = { server: { config: 'models:\n  - {name: mock-model, context: 12000, output: 1000, '
    + 'price: {input: 400, cache_read: 40, output: 1600}}\n' } };

// A model that answers the question by a script, which the page does not show.
const scripted = (question, script) => async (t) => {
    const mock = new MockModel();
    const url = await mock.listen();
    const server = http.createServer(async (request, response) => {
        const pieces = [];

        for await (const piece of request) pieces.push(piece);
        const body = Buffer.concat(pieces).toString()
            .replace(question, question + JSON.stringify(script).slice(1, -1));
        const answer = await fetch(url + request.url, { method: request.method,
            headers: { 'content-type': 'application/json' }, ...(body && { body }) });
        response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') });
        response.end(Buffer.from(await answer.arrayBuffer()));
    });
    t.after(() => {
        server.close();
        return mock.close();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return { url: `http://127.0.0.1:${server.address().port}` };
};

const QUESTION = 'Did we speak about the seats or the payments before?';
const look = (word, ms) => `<<tool recall {"text":"${word}"}>><<hang ms=${ms}>>`;
const ANSWER = 'About the seats, yes: the seat map is slow on Friday evenings, because there is no index '
    + 'on `(show_id, row)`. About the payments only that I must not touch their table.';

pageTest('a turn', { ...DESKTOP, ...PRICES, model: scripted(QUESTION, `${look('seat', 700)}<<next>>`
    + `${look('payment', 400)}<<next>><<hang ms=900>><<say ${ANSWER}>>`) }, async (all) => {
    const { api, context } = all;
    const id = await tell(all);
    // A compaction would make the scripted model begin again.
    await api('PATCH', `sessions/${id}`, { metadata: { context: { max_tokens: 12000 } } });
    await api('POST', `sessions/${id}/turns`, { message: QUESTION });
    const tab = await all.open(`#/s/${id}?p=turn`);
    await tab.waitForSelector('.spans li:nth-child(5)');
    await tab.click('.spans li:nth-child(2) summary');
    await picture(tab, context, 'page-turn');
});

// The ledger cannot be given a past, so the sums of a month come from here.
const SHARES = { 'house-small': 0.58, 'house-large': 0.34, 'house-draft': 0.08 };
const used = (n, part = 1) => ({ calls: Math.round(n * part), input_tokens: Math.round(2100 * n * part),
    cache_read_tokens: Math.round(6400 * n * part), cache_write_tokens: 0,
    output_tokens: Math.round(390 * n * part), reasoning_tokens: Math.round(40 * n * part),
    cost_micros: Math.round(8700 * n * part) });

function month(from) {
    const days = Array.from({ length: 30 }, (_, i) => {
        const at = new Date(from + i * 86400000);
        const isQuiet = [0, 6].includes(at.getUTCDay());

        return { from: at.toISOString(), ...used(Math.round((isQuiet ? 12 : 60) + (i * 7919) % 37)) };
    });
    const calls = days.reduce((sum, day) => sum + day.calls, 0);
    return { days, total: used(calls), names: Object.entries(SHARES).map(([name, part]) =>
        ({ name, ...used(calls, part) })) };
}

pageTest('usage', DESKTOP, async (all) => {
    await tell(all);
    await all.context.route(/api\/v1\/usage/, (route) => {
        const query = new URL(route.request().url()).searchParams;
        const { days, total, names } = month(Date.parse(query.get('from')));

        return route.fulfill({ json: { ...total, groups: query.get('by') === 'day' ? days : names } });
    });
    const tab = await all.open('#/usage?by=model');
    await tab.waitForSelector('.sums tbody tr');
    await picture(tab, all.context, 'page-usage');
});

pageTest('a phone', PHONE, async (all) => {
    const id = await tell(all);
    const tab = await openStory(all, id, story.length + 1);
    await picture(tab, all.context, 'page-phone');
});

after(closeBrowser);
