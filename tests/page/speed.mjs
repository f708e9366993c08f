// How much work the page makes. Nothing here is a time on a clock, so that a busy machine changes
// nothing: bytes, elements and layouts are counted, and the processor time of the page's thread is
// compared with that of a fixed piece of work on an empty page in the same run.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { isLong, lastIs, pageTest, say } from './browser.mjs';

const KB = 1024;

// The counters of a tab. Durations are of its thread, not of the clock.
async function meterOf(context, tab) {
    const debug = await context.newCDPSession(tab);

    await debug.send('Performance.enable', { timeDomain: 'threadTicks' });
    return async () => {
        const { metrics } = await debug.send('Performance.getMetrics');
        return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
    };
}

async function spent(read, fn) {
    const before = await read();

    await fn();
    const after = await read();
    return Object.fromEntries(Object.keys(after).map((name) => [name, after[name] - before[name]]));
}

// Seconds that an empty page needs to lay out 500 paragraphs.
async function unitOf(context) {
    const tab = await context.newPage();

    await tab.goto('data:text/html,<!doctype html><title>empty</title>');
    const read = await meterOf(context, tab);
    const work = () => tab.evaluate(() => {
        const box = document.body.appendChild(document.createElement('div'));
        for (let i = 0; i < 500; i++) {
            const p = box.appendChild(document.createElement('p'));
            p.textContent = `${'some words of a text '.repeat(12)}${i}`;
        }
        const height = box.offsetHeight;
        box.remove();
        return height;
    });
    await work(); // the first time also starts the fonts
    const { TaskDuration } = await spent(read, async () => { await work(); await work(); });
    await tab.close();
    return { unit: TaskDuration / 2 };
}

// The longest tasks of the page's thread while `fn` runs, in seconds of the processor.
async function tasksOf(tab, fn) {
    const browser = tab.context().browser();

    await browser.startTracing(tab, { categories: ['disabled-by-default-devtools.timeline'] });
    let trace;
    try {
        await fn();
    } finally {
        trace = await browser.stopTracing();
    }
    const { traceEvents } = JSON.parse(trace);
    const main = new Set(traceEvents.filter(({ name, args }) => name === 'thread_name' &&
        args.name === 'CrRendererMain').map(({ pid, tid }) => `${pid} ${tid}`));
    return traceEvents.filter(({ name, pid, tid }) => /RunTask$/.test(name) &&
        main.has(`${pid} ${tid}`)).map((event) => event.tdur / 1e6).sort((a, b) => b - a);
}

function compare(t, name, value, most) {
    t.diagnostic(`${name}: ${value.toPrecision(3)} of ${most}`);
    assert.ok(value <= most, `${name}: ${value} is more than ${most}`);
}

pageTest('the first view: bytes, elements, layouts and work', async ({ context, newTab, base, t }) => {
    const { unit } = await unitOf(context);
    const tab = await newTab();
    const read = await meterOf(context, tab);
    const { TaskDuration, LayoutCount } = await spent(read, async () => {
        await tab.goto(`${base}/`);
        await tab.waitForSelector('#say:focus');
    });
    const files = await tab.evaluate(() => [...performance.getEntriesByType('navigation'),
        ...performance.getEntriesByType('resource')].filter(({ name }) => !/\/api\//.test(name))
        .map(({ name, encodedBodySize }) => [name, encodedBodySize]));
    compare(t, 'kilobytes of the first view', files.reduce((sum, [, size]) => sum + size, 0) / KB, 60);
    compare(t, 'elements', await tab.evaluate(() => document.querySelectorAll('*').length), 200);
    compare(t, 'layouts', LayoutCount, 40);
    compare(t, 'work, in 500 paragraphs', TaskDuration / unit, 12);
});

// ---- A long session ----

const MESSAGES = isLong ? 100_000 : 20_000;

async function bigSession({ s, api }) {
    const id = await s.session({ title: 'big' });

    for (let i = 0; i < MESSAGES / 1000; i++)
        await api('POST', `sessions/${id}/messages`, { messages: Array.from({ length: 1000 }, (_, k) =>
            ({ role: k % 2 ? 'assistant' : 'user',
                content: `number ${i * 1000 + k + 1} ${'word '.repeat((k * 7) % 60)}` })) });
    return id;
}

// What is at three places of the conversation. Fails if there is nothing.
const look = (tab) => tab.evaluate(() => {
    const box = document.querySelector('.feed').getBoundingClientRect();
    const rows = [0.2, 0.5, 0.8].map((part) => document.elementFromPoint(box.x + box.width / 2,
        box.y + box.height * part)?.closest('.msg'));

    return { isFull: rows.every(Boolean), seq: Number(rows[1]?.dataset.seq),
        top: rows[1]?.getBoundingClientRect().top };
});

async function settled(tab) {
    for (;;) {
        const now = await look(tab);

        if (now.isFull) return now;
        await tab.waitForTimeout(20);
    }
}

// Waits until nothing moves any more.
async function still(tab) {
    for (let before = null; ;) {
        const now = await settled(tab);

        if (now.seq === before?.seq && now.top === before.top) return now;
        before = now;
        await tab.waitForTimeout(60);
    }
}

pageTest(`a session of ${MESSAGES} messages: no holes, no jumps, few elements, little work`,
    async (all) => {
        const { open, context, t, base } = all;
        const id = await bigSession(all);
        const { unit } = await unitOf(context);
        const middle = MESSAGES / 2;
        const tab = await open('#/');
        const read = await meterOf(context, tab);
        const opened = await spent(read, async () => {
            await tab.goto(`${base}/#/s/${id}/m/${middle}`);
            await tab.waitForSelector(`.msg[data-seq="${middle}"]:focus`);
            await settled(tab);
        });
        compare(t, 'opening at a message, in 500 paragraphs', opened.TaskDuration / unit, 15);
        const start = await look(tab);
        const steps = isLong ? 300 : 60;
        const box = await tab.locator('.feed').boundingBox();
        await tab.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
        let tasks;
        const scrolled = await spent(read, async () => {
            tasks = await tasksOf(tab, async () => {
                let { seq } = start;
                for (const by of [-100, 100]) {
                    ({ seq } = await still(tab));
                    for (let i = 0; i < steps; i++) {
                        await tab.mouse.wheel(0, by);
                        const now = await settled(tab);
                        assert.ok(by < 0 ? now.seq <= seq : now.seq >= seq,
                            `${now.seq} after ${seq} by ${by}`);
                        assert.ok(Math.abs(now.seq - seq) < 6, `${seq} jumped to ${now.seq}`);
                        seq = now.seq;
                    }
                }
            });
        });
        const end = await still(tab);
        assert.ok(end.seq === start.seq && Math.abs(end.top - start.top) <= 1,
            `${JSON.stringify(end)} is not ${JSON.stringify(start)}`);
        compare(t, 'a step of the wheel, in 500 paragraphs', scrolled.TaskDuration / unit / (2 * steps), 1);
        compare(t, 'layouts in a step of the wheel', scrolled.LayoutCount / (2 * steps), 6);
        compare(t, 'the longest task, in 500 paragraphs', tasks[0] / unit, 4);
        const elements = () => tab.evaluate(() => document.querySelectorAll('*').length);
        compare(t, 'elements', await elements(), 4000);
        // The scroll bar leads to any place, and its length is honest.
        for (const part of [0.9, 0.25, 0.5, 0]) {
            await tab.evaluate((share) => {
                const feed = document.querySelector('.feed');
                feed.scrollTop = share * (feed.scrollHeight - feed.clientHeight);
            }, part);
            const { seq } = await settled(tab);
            assert.ok(Math.abs(seq / MESSAGES - part) < 0.05, `${part} leads to ${seq}`);
            assert.ok(await elements() < 4000);
        }
        for (const seq of [1, MESSAGES, 777]) {
            await tab.goto(`${base}/#/s/${id}/m/${seq}`);
            await tab.waitForSelector(`.msg[data-seq="${seq}"]:focus`);
        }
        await tab.keyboard.press('Shift+G');
        await tab.waitForSelector(`.msg[data-seq="${MESSAGES}"]`);
        await say(tab, 'Hello');
        await lastIs(tab, 'echo: Hello');
        const heap = (await read()).JSHeapUsedSize / KB / KB;
        compare(t, 'megabytes of the heap', heap, 40);
    });

// ---- A fast answer ----

const PIECE_MS = 5; // 200 pieces a second
const PIECES = isLong ? 2000 : 400;
const words = 'some **words** of an answer with `code`, and more of them '.split(/(?<= )/);

const pieceOf = (i) => (i % 60 === 59 ? '\n\n' : i % 150 === 100 ? '\n\n```js\nlet a = 1;\n```\n\n'
    : words[i % words.length]);

// A model that writes 200 pieces a second after `go()`.
function pacedModel() {
    let go = () => {};
    const isWanted = new Promise((resolve) => { go = resolve; });
    const start = async (t) => {
        const server = http.createServer(async (request, response) => {
            request.resume();
            if (request.method === 'GET') {
                response.end('{"object":"list","data":[{"id":"mock-model","object":"model"}]}');
                return;
            }
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            const send = (delta, finish = null) => response.write(`data: ${JSON.stringify({ id: 'x',
                object: 'chat.completion.chunk', created: 1, model: 'mock-model',
                choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
            send({ role: 'assistant', content: 'It begins. ' });
            await isWanted;
            const began = Date.now();
            for (let i = 0; i < PIECES;) {
                for (const due = (Date.now() - began) / PIECE_MS; i < due && i < PIECES; i++)
                    send({ content: pieceOf(i) });
                await new Promise((resolve) => { setTimeout(resolve, PIECE_MS); });
            }
            send({ content: 'It ends.' });
            send({}, 'stop');
            response.end('data: [DONE]\n\n');
        });
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        t.after(() => {
            server.close();
            server.closeAllConnections?.();
        });
        return { url: `http://127.0.0.1:${server.address().port}` };
    };
    return { start, go: () => go() };
}

const paced = pacedModel();
pageTest('200 pieces a second, while one types and reads further up', { model: paced.start },
    async ({ open, api, s, context, t }) => {
        const id = await s.session({ title: 'fast' });
        await api('POST', `sessions/${id}/messages`, { messages: Array.from({ length: 60 }, (_, i) =>
            ({ role: i % 2 ? 'assistant' : 'user', content: `number ${i} ${'word '.repeat(80)}` })) });
        const { unit } = await unitOf(context);
        const tab = await open(`#/s/${id}`);
        await tab.waitForSelector('.msg[data-seq="60"]');
        await say(tab, 'go');
        await tab.waitForSelector('.live .md');
        const read = await meterOf(context, tab);
        let tasks;
        const used = await spent(read, async () => {
            tasks = await tasksOf(tab, async () => {
                await tab.evaluate(() => {
                    const feed = document.querySelector('.feed');
                    feed.scrollTop = feed.scrollHeight / 2;
                });
                const start = await still(tab);
                paced.go();
                const text = 'what I type meanwhile';
                for (const letter of text) {
                    await tab.locator('#say').press(letter === ' ' ? 'Space' : letter);
                    const now = await look(tab);
                    assert.deepEqual(now, start, 'the view stays where it was scrolled to');
                }
                assert.equal(await tab.inputValue('#say'), text);
                await tab.waitForFunction(() => !document.querySelector('.live') &&
                    !document.querySelector('[aria-label="Stop"]'), null, { timeout: 60000 });
                assert.deepEqual(await look(tab), start, 'also at the end of the answer');
            });
        });
        t.diagnostic(JSON.stringify({ unit, ...Object.fromEntries(Object.entries(used).filter(([, v]) => v)) }));
        compare(t, 'a piece, in 500 paragraphs', used.TaskDuration / unit / PIECES, 0.3);
        compare(t, 'layouts of a piece', used.LayoutCount / PIECES, 1);
        compare(t, 'the longest task, in 500 paragraphs', tasks[0] / unit, 4);
        await tab.press('#say', 'Escape');
        await tab.keyboard.press('Shift+G');
        await tab.waitForSelector('.msg[data-seq="62"]');
        assert.match(await tab.textContent('.msg[data-seq="62"] .body'), /^It begins\..*It ends\.$/s);
    });

pageTest('a window of thousands of items has few elements', async ({ open, api, s, context, t }) => {
    const id = await s.session({ title: 'many' });
    for (let i = 0; i < 4; i++)
        await api('POST', `sessions/${id}/messages`, { messages: Array.from({ length: 1000 }, (_, k) =>
            ({ role: k % 2 ? 'assistant' : 'user', content: `n ${k}` })) });
    const { unit } = await unitOf(context);
    const tab = await open(`#/s/${id}`);
    await tab.waitForSelector('.msg[data-seq="4000"]');
    const read = await meterOf(context, tab);
    const used = await spent(read, async () => {
        await tab.click('.tabs button:text-is("Window")');
        await tab.waitForSelector('.items .item');
        await tab.evaluate(() => { document.querySelector('.items').scrollTop = 1e6; });
        await tab.waitForSelector('.item:has-text("#4,000")');
    });
    const rows = Number(await tab.getAttribute('.items', 'aria-rowcount'));
    assert.ok(rows >= 4000, `${rows} items`);
    assert.ok(await tab.locator('.items .item').count() < 80);
    compare(t, 'work, in 500 paragraphs', used.TaskDuration / unit, 15);
});
