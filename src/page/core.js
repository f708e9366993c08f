// core.js - signals, and elements that follow them. Nothing here parses HTML: texts become text
// nodes, and elements are made by name.
//
// An effect runs again when a signal that it has read changes. Effects that are made while another
// effect or a scope runs belong to it, and stop with it.

let reader = null; // the effect that runs now
let owner = null; // the list of functions that end what is made now
const waiting = new Set();

function runWaiting() {
    for (const effect of waiting) {
        waiting.delete(effect);
        effect.run();
    }
}

function wake(readers) {
    for (const effect of [...readers]) {
        if (waiting.size === 0)
            queueMicrotask(runWaiting);
        waiting.add(effect);
    }
}

export function signal(value) {
    const readers = new Set();

    return {
        get value() {
            if (reader) {
                readers.add(reader);
                reader.sources.add(readers);
            }
            return value;
        },
        set value(next) {
            if (Object.is(next, value))
                return;
            value = next;
            wake(readers);
        },
        peek: () => value,
        // For a value that was changed in place.
        touch: () => wake(readers),
    };
}

function within(nextReader, nextOwner, fn) {
    const before = [reader, owner];

    [reader, owner] = [nextReader, nextOwner];
    try {
        return fn();
    } finally {
        [reader, owner] = before;
    }
}

// Runs `fn` now, and again whenever a signal that it reads changes. Returns what stops it.
export function effect(fn) {
    const ends = [];
    const self = { sources: new Set(), run };
    const release = () => {
        for (const readers of self.sources)
            readers.delete(self);
        self.sources.clear();
        for (const end of ends.splice(0))
            end();
    };
    const stop = () => {
        waiting.delete(self);
        release();
    };

    function run() {
        release();
        within(self, ends, fn);
    }
    owner?.push(stop);
    run();
    return stop;
}

// Calls `fn` when the effect or scope that runs now ends.
export function onEnd(fn) {
    owner?.push(fn);
}

// Returns the result of `fn`, and what ends everything that it made.
export function scope(fn) {
    const ends = [];
    const result = within(null, ends, fn);

    return [result, () => {
        for (const end of ends.splice(0))
            end();
    }];
}

// ---- Elements ----

const SVG = new Set(['svg', 'path', 'circle', 'line', 'rect', 'g']);
const ATTRIBUTES = new Set(['list', 'role', 'for']);

function setProperty(element, name, value) {
    const isSvg = SVG.has(element.localName);

    if (name === 'style') {
        for (const [key, text] of Object.entries(value))
            element.style.setProperty(key, text);
    } else if (name === 'class') {
        element.setAttribute('class', value ?? '');
    } else if (name in element && !isSvg && !ATTRIBUTES.has(name)) {
        element[name] = value ?? '';
    } else if (value === false || value === null || value === undefined) {
        element.removeAttribute(name);
    } else {
        element.setAttribute(name, value === true ? '' : value);
    }
}

// A place in the document whose content follows the signals that `fn` reads.
function addPlace(parent, fn) {
    const end = document.createComment('');
    let nodes = [];

    parent.append(end);
    effect(() => {
        const fresh = document.createDocumentFragment();
        const content = fn();

        for (const node of nodes)
            node.remove(); // first, because the content can contain some of them again
        addChild(fresh, content);
        nodes = [...fresh.childNodes];
        end.before(fresh);
    });
}

function addChild(parent, child) {
    if (child === null || child === undefined || typeof child === 'boolean')
        return;
    if (Array.isArray(child))
        child.forEach((one) => addChild(parent, one));
    else if (typeof child === 'function')
        addPlace(parent, child);
    else
        parent.append(child instanceof Node ? child : String(child));
}

// Makes an element. A property "onclick" is a listener; any other function is a value that follows
// its signals. A child that is a function is a place that follows its signals.
export function h(tag, properties, ...children) {
    const element = SVG.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag)
        : document.createElement(tag);

    for (const [name, value] of Object.entries(properties ?? {})) {
        if (name.startsWith('on'))
            element.addEventListener(name.slice(2), value);
        else if (typeof value === 'function')
            effect(() => setProperty(element, name, value()));
        else
            setProperty(element, name, value);
    }
    addChild(element, children);
    return element;
}

// ---- Numbers and times ----

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
const numbers = new Intl.NumberFormat('en');
const dates = new Intl.DateTimeFormat('en', { dateStyle: 'medium' });
const times = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });

export const count = (n) => numbers.format(n ?? 0);
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;

// 950, 1.2k, 12k, 3.4M
export function brief(n) {
    if (n < 1000)
        return String(n);
    if (n < 10000)
        return `${(n / 1000).toFixed(1)}k`;
    return n < 1e6 ? `${Math.round(n / 1000)}k` : `${(n / 1e6).toFixed(1)}M`;
}

export function money(micros) {
    return `$${(micros / 1e6).toFixed(micros < 100000 ? 4 : 2)}`;
}

// 340 ms, 4.1 s, 2 min 5 s
export function duration(ms) {
    if (ms < SECOND_MS)
        return `${Math.max(0, Math.round(ms))} ms`;
    if (ms < MINUTE_MS)
        return `${(ms / SECOND_MS).toFixed(1)} s`;
    if (ms < HOUR_MS)
        return `${Math.floor(ms / MINUTE_MS)} min ${Math.floor(ms % MINUTE_MS / SECOND_MS)} s`;
    return `${Math.floor(ms / HOUR_MS)} h ${Math.floor(ms % HOUR_MS / MINUTE_MS)} min`;
}

export function ago(iso) {
    const ms = Date.now() - Date.parse(iso);

    if (ms < MINUTE_MS)
        return 'now';
    if (ms < HOUR_MS)
        return `${Math.floor(ms / MINUTE_MS)} min`;
    if (ms < DAY_MS)
        return `${Math.floor(ms / HOUR_MS)} h`;
    return ms < 30 * DAY_MS ? `${Math.floor(ms / DAY_MS)} d` : dates.format(new Date(iso));
}

export function time(iso) {
    return h('time', { dateTime: iso, title: times.format(new Date(iso)) }, ago(iso));
}

// A text in one line, at most `max` characters long.
export function clip(text, max) {
    const line = text.slice(0, 4 * max).replace(/\s+/g, ' ').trim();

    return line.length > max ? `${line.slice(0, max)}…` : line;
}
