// markdown.js - writes Markdown as elements of a fixed list.
//
// The parser only makes tokens of the text. Everything that is not in WRITERS becomes text: HTML is
// shown as it was written, and no address is ever loaded. Images become chips, and links lead only
// to web and mail addresses.
import { h } from './core.js';
import { button, copy, dialog, visible } from './parts.js';
import { paint } from './code.js';
import { canRun, runButton } from './frame.js';
import { lexer } from './marked.js';

const TEXT_MAX = 200000; // longer texts are not parsed
const DEPTH_MAX = 20;
const QUERY_MAX = 100; // characters of an address that are followed without a question
const HEADING_FIRST = 2; // the title of the session is level 1
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

function plain(text) {
    return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{2,4}));/g,
        (all, decimal, hex, name) => {
            if (name)
                return ENTITIES[name] ?? all;
            const code = decimal ? Number(decimal) : parseInt(hex, 16);

            return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd';
        });
}

// ---- Links and images ----

function addressOf(href) {
    try {
        const url = new URL(plain(href));

        return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url : null;
    } catch {
        return null;
    }
}

// A model that was deceived can send words of the conversation away in an address.
function isSuspicious(url, text) {
    if (url.search.length + url.hash.length > QUERY_MAX)
        return true;
    return /^(https?:\/\/|www\.)/i.test(text) && !text.toLowerCase().includes(url.hostname);
}

function askToOpen(url) {
    dialog('Open this address?', (close) => [
        h('p', null, 'The text of the link does not show everything that is in the address:'),
        h('pre', { class: 'address' }, visible(url.href)),
        h('div', { class: 'buttons' }, button('Open', () => {
            close();
            window.open(url.href, '_blank', 'noopener,noreferrer');
        }), button('Copy', () => copy(url.href)), button('Cancel', close)),
    ]);
}

function link(token, depth) {
    const url = addressOf(token.href);
    const inner = inlines(token.tokens, depth);

    if (!url)
        return h('span', { title: visible(token.href) }, inner);
    return h('a', { href: url.href, title: visible(url.href), target: '_blank',
        rel: 'noopener noreferrer nofollow', onclick: (event) => {
            if (!isSuspicious(url, token.text))
                return;
            event.preventDefault();
            askToOpen(url);
        } }, inner);
}

function image(token) {
    const url = addressOf(token.href);
    const where = url ? ` (${url.hostname})` : '';

    return h('span', { class: 'chip remote', title: visible(token.href) },
        `Image not loaded: ${plain(token.text)}${where}`);
}

// ---- Code and tables ----

export function codeBox(text, language, isComplete = true) {
    const code = h('code', null, isComplete ? paint(visible(text), language) : visible(text));

    return h('figure', { class: 'code' }, h('figcaption', null,
        h('span', { class: 'grow' }, language || 'text'),
        isComplete && canRun(language ?? '') && runButton(text),
        h('button', { type: 'button', class: 'copy', onclick: () => copy(text) }, 'Copy')),
    h('pre', { tabIndex: 0 }, code));
}

function cell(tag, { tokens, align }, depth) {
    return h(tag, { class: align ? `to-${align}` : null }, inlines(tokens, depth));
}

function table(token, depth) {
    return h('div', { class: 'table', tabIndex: 0 }, h('table', null,
        h('thead', null, h('tr', null, token.header.map((one) => cell('th', one, depth)))),
        h('tbody', null, token.rows.map((row) =>
            h('tr', null, row.map((one) => cell('td', one, depth)))))));
}

function item(token, depth) {
    const inner = blocks(token.tokens.filter((one) => one.type !== 'checkbox'), depth);

    if (!token.task)
        return h('li', null, inner);
    return h('li', { class: 'task' }, h('span', { class: 'box', role: 'img',
        'aria-label': token.checked ? 'done' : 'open' }, token.checked ? '☑' : '☐'),
    h('div', null, inner));
}

// ---- Tokens to nodes ----

const BLOCKS = {
    space: () => null,
    def: () => null,
    hr: () => h('hr'),
    code: (token) => codeBox(token.text, (token.lang ?? '').split(/\s/)[0]),
    heading: (token, depth) => h(`h${Math.min(6, token.depth + HEADING_FIRST - 1)}`, null,
        inlines(token.tokens, depth)),
    paragraph: (token, depth) => h('p', null, inlines(token.tokens, depth)),
    text: (token, depth) => h('span', null, inlines(token.tokens ?? [token], depth)),
    blockquote: (token, depth) => h('blockquote', null, blocks(token.tokens, depth)),
    list: (token, depth) => h(token.ordered ? 'ol' : 'ul',
        token.ordered && token.start !== 1 ? { start: Number(token.start) || 1 } : null,
        token.items.map((one) => item(one, depth))),
    table,
};
const INLINES = {
    text: (token, depth) => (token.tokens ? inlines(token.tokens, depth) : plain(token.text)),
    escape: (token) => plain(token.text),
    br: () => h('br'),
    codespan: (token) => h('code', null, visible(token.text)),
    strong: (token, depth) => h('strong', null, inlines(token.tokens, depth)),
    em: (token, depth) => h('em', null, inlines(token.tokens, depth)),
    del: (token, depth) => h('del', null, inlines(token.tokens, depth)),
    link,
    image,
};

function write(writers, tokens, depth) {
    return tokens.map((token) => {
        const writer = depth < DEPTH_MAX && Object.hasOwn(writers, token.type) &&
            writers[token.type];

        return writer ? writer(token, depth + 1) : token.raw;
    });
}

function inlines(tokens, depth) {
    return write(INLINES, tokens, depth);
}

function blocks(tokens, depth) {
    return write(BLOCKS, tokens, depth).map((node) =>
        (typeof node === 'string' ? h('p', null, node) : node));
}

function parse(text) {
    try {
        if (text.length <= TEXT_MAX)
            return lexer(text, { gfm: true });
    } catch (error) {
        if (!(error instanceof RangeError))
            throw error;
    }
    return [{ type: 'raw', raw: text }]; // too long, or nested too deeply
}

// Returns the text as elements.
export function markdown(text) {
    return h('div', { class: 'md', dir: 'auto' },
        blocks(parse(text.replace(/\r\n?/g, '\n')), 0));
}

// ---- Text that arrives in pieces ----

const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)\n/;

function fenceOf(text) {
    const match = OPEN_FENCE.exec(text);

    if (!match)
        return null;
    const close = new RegExp(`\\n {0,3}${match[1][0]}{${match[1].length},}[ \\t]*(?:\\n|$)`);

    return close.test(text.slice(match[0].length - 1)) ? null
        : { language: match[2].split(/\s/)[0], text: text.slice(match[0].length) };
}

// Writes a text while it arrives. Blocks that are complete are never made again: only the text
// after them is parsed. An open block of code only grows.
export class MarkdownStream {
    #rest = ''; // the text that is not frozen
    #open = []; // its nodes
    #code = null; // the text node of an open block of code, and its text so far

    constructor() {
        this.element = h('div', { class: 'md', dir: 'auto' });
    }

    push(text) {
        this.#rest += text.replace(/\r\n?/g, '\n');
        const fence = fenceOf(this.#rest);

        if (fence && this.#code) {
            this.#code.data = visible(fence.text);
            return;
        }
        this.#code = null;
        this.#freeze();
        this.#draw();
    }

    // All top-level blocks but the last one are complete.
    #freeze() {
        const tokens = parse(this.#rest);
        const last = tokens.findLastIndex((token) => token.type !== 'space');

        if (last <= 0 || tokens[last].type === 'raw')
            return;
        const done = tokens.slice(0, last);
        const length = done.reduce((sum, token) => sum + token.raw.length, 0);

        this.#replace(blocks(done, 0).filter(Boolean));
        this.#open = [];
        this.#rest = this.#rest.slice(length).replace(/^\n+/, '');
    }

    #draw() {
        const fence = fenceOf(this.#rest);

        if (fence) {
            const box = codeBox(fence.text, fence.language, false);
            const code = box.querySelector('code');

            this.#code = code.firstChild ?? code.appendChild(document.createTextNode(''));
            this.#replace([box]);
        } else {
            this.#replace(blocks(parse(this.#rest), 0).filter(Boolean));
        }
    }

    #replace(nodes) {
        for (const node of this.#open)
            node.remove();
        this.#open = nodes;
        this.element.append(...nodes);
    }
}
