// Drives a browser on the page of a real server with the scripted model. In every test, the page
// must not write to the console, fail, or send a request to another origin.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { installPackages } from '../support/packages.mjs';
import { serveModel } from '../server/model.mjs';
import { makeKey, workspace } from '../server/support.mjs';
import { openProxy } from './proxy.mjs';

const directory = process.env.PAGE_TESTS_DIR;
assert.ok(directory, 'PAGE_TESTS_DIR says where to install');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const WAIT_MS = Number(process.env.PAGE_WAIT_MS ?? 20_000);
const TEST_MS = 9 * WAIT_MS * (process.env.PAGE_LONG === '1' ? 10 : 1);
export const isLong = process.env.PAGE_LONG === '1';
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export const skip = fs.existsSync(CHROMIUM)
    ? installPackages(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), directory)
    : `there is no ${CHROMIUM}`;
const need = createRequire(path.join(path.resolve(directory), 'package.json'));
// A directory with files of the page that replace the built-in ones.
const from = process.env.PAGE_FROM;
const source = fileURLToPath(new URL('../../src/page', import.meta.url));
// The path of a file of the page.
export const fileOf = (name) => [from ?? source, source].map((dir) => path.join(dir, name))
    .find((file) => fs.existsSync(file));
const axeFile = skip ? '' : need.resolve('axe-core/axe.min.js');
let browser = null;

async function launch() {
    const { chromium } = need('playwright-core');

    browser ??= await chromium.launch({ executablePath: CHROMIUM, headless: true, args: ARGUMENTS });
    return browser;
}

export async function closeBrowser() {
    await browser?.close();
}

// A tab of a context, with what went wrong in it. Problems that match `expected` do not count.
async function openTab(context, base, problems, expected) {
    const tab = await context.newPage();
    const add = (problem) => {
        if (!expected?.test(problem)) problems.push(problem);
    };

    tab.setDefaultTimeout(WAIT_MS);
    tab.on('console', (message) => {
        // A refused connection is reported by the browser itself.
        if (!/net::ERR_|the server responded with a status of/.test(message.text()))
            add(`console: ${message.text()}`);
    });
    tab.on('pageerror', (error) => add(`error: ${error.stack}`));
    tab.on('request', (request) => {
        const { protocol, href } = new URL(request.url());

        if (!href.startsWith(`${base}/`) && protocol !== 'blob:' && protocol !== 'data:')
            add(`request: ${request.url()}`);
    });
    return tab;
}

// A test with a server, and a browser that has no memory. `open(hash)` opens the page in a new tab.
// `options.role` gives the server a key with this role, which is `key`; `options.prepare(dir)` can
// write files to the server's directory. With `options.prefix`, the browser reaches the server only
// through a proxy, below that path; `net` can cut the connections. `options.model(t)` starts another
// model than the scripted one.
export function pageTest(name, options, fn) {
    if (!fn) return pageTest(name, {}, options);
    return test(name, { skip, timeout: TEST_MS }, async (t) => {
        const dir = workspace(t);
        options.prepare?.(dir);
        const key = options.role && makeKey(dir, '--role', options.role).key;
        const model = await options.model?.(t);
        const isReplaced = from && !options.server?.config?.includes('page_dir');
        const config = [options.server?.config, isReplaced && `server:\n  page_dir: ${from}\n`]
            .filter(Boolean).join('');
        const s = await serveModel(t, { dir, ...options.server, config, ...(model && { model }) });
        if (key && !(await s.get('/api/v1/me', { key })).json.features.includes('login')) {
            t.skip('the server has no logins');
            return;
        }
        const net = options.prefix === undefined ? null : await openProxy(t, s.port, options.prefix);
        const base = net?.base ?? `http://127.0.0.1:${s.port}`;
        const context = await (await launch()).newContext({
            viewport: options.viewport ?? { width: 1280, height: 800 },
            deviceScaleFactor: options.scale, colorScheme: options.theme ?? 'light', permissions: ['clipboard-read', 'clipboard-write'] });
        const problems = [];
        const newTab = () => openTab(context, base, problems, options.expected);
        const open = async (hash = '#/') => {
            const tab = await newTab();
            await tab.goto(`${base}/${hash}`);
            await tab.waitForSelector('html[data-ready]');
            return tab;
        };
        const api = async (method, target, body) => {
            const answer = await s.ask(method, `/api/v1/${target}`, { body, key });
            assert.ok(answer.code < 300, `${method} ${target}: ${answer.text}`);
            return answer.json;
        };
        try {
            await fn({ s, t, key, net, open, newTab, base, context, api, problems });
            assert.deepEqual(problems, []);
        } catch (error) {
            t.diagnostic(problems.join('\n'));
            for (const page of context.pages())
                t.diagnostic(`${page.url()}: ${await page.innerText('body').catch(() => '')}`);
            throw error;
        } finally {
            await context.close();
        }
    });
}

// Writes a message and sends it.
export async function say(tab, text) {
    await tab.fill('#say', text);
    await tab.press('#say', 'Enter');
}

// The texts of the messages that are shown, without hidden ones.
export const shown = (tab) => tab.$$eval('.feed .msg:not(.gone):not(.live) .body',
    (all) => all.map((one) => one.textContent));

// Waits until the last message has the text.
export const lastIs = (tab, text) => tab.waitForFunction((wanted) => {
    const all = document.querySelectorAll('.feed .msg:not(.gone):not(.live) .body');
    return all.length > 0 && all[all.length - 1].textContent === wanted;
}, text);

// Waits until the answer so far is this text.
export const liveIs = (tab, text) => tab.waitForFunction((wanted) =>
    document.querySelector('.live .body')?.textContent === wanted, text);

// Records every state of the answer that is being written. `fine(text)` fails unless each one is a
// beginning of the text.
export async function recordLive(tab) {
    await tab.evaluate(() => {
        window.lives = [];
        new MutationObserver(() => {
            const text = document.querySelector('.live .md')?.textContent;
            if (text !== undefined && text !== window.lives.at(-1)) window.lives.push(text);
        }).observe(document.body, { childList: true, subtree: true, characterData: true });
    });
    return { fine: async (text) => {
        for (const one of await tab.evaluate(() => window.lives))
            assert.ok(text.startsWith(one.trimEnd()), `${one} is not a beginning of ${text}`);
    } };
}

export const idOf = (tab) => decodeURIComponent(/#\/s\/([^/?]+)/.exec(tab.url())[1]);

// Fails if axe finds a violation of WCAG 2.2 AA or of its best practice. `rules` names single rules.
export async function axe(tab, what, rules = null) {
    // Through the debugger, because the page itself allows no foreign script.
    if (!await tab.evaluate(() => Boolean(window.axe)))
        await tab.evaluate(fs.readFileSync(axeFile, 'utf8'));
    const { violations } = await tab.evaluate((only) => window.axe.run(document, { runOnly: only ??
        ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }), rules);
    assert.deepEqual(violations.map((v) => `${what}: ${v.id} at ${v.nodes[0].target}: ${v.nodes[0].failureSummary}`), []);
}

const streamsOf = async (s) => Number(/^palaver_streams (\d+)$/m
    .exec((await s.get('/metrics')).text)[1]);

// Waits until the server has so many streams.
export async function streamsAre(s, count) {
    for (const until = Date.now() + 20000; await streamsOf(s) !== count;)
        assert.ok(Date.now() < until, `${await streamsOf(s)} streams`);
}
