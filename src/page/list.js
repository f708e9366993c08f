// list.js - a list of any length whose rows are found by their number, 1 to `last`.
//
// Rows are made in pages. Only pages near the visible part are in the document; two boxes keep the
// height of those before and after them. A page that was never seen has an estimated height. When a
// page gets its true height above what is visible, the scroll position moves by the difference.
import { h } from './core.js';

const PAGE = 8; // rows
const KEPT_MAX = 128; // pages of data in memory
const NEAR_END = 48; // pixels from the end at which the list follows it
const FAST = 3; // screens per frame; nothing is loaded while it scrolls that fast
const SETTLE_MS = 60;
const HEIGHT_MAX = 12e6; // pixels that every browser can scroll

const pageOf = (seq) => Math.floor((seq - 1) / PAGE);

export class SeqList {
    // load(first, last, signal) returns the data of rows; row(data) returns an element.
    constructor(box, { load, row, guess = 160 }) {
        this.box = box;
        this.last = 0;
        this.isFollowing = true;
        this.load = load;
        this.row = row;
        this.guess = guess;
        this.heights = [];
        this.data = new Map(); // page: its rows' data
        this.shown = new Map(); // page: {element, rows, abort, isFull, done}
        this.before = h('div', { class: 'space' });
        this.after = h('div', { class: 'space' });
        box.append(this.before, this.after);
        box.addEventListener('scroll', () => this.lookSoon(), { passive: true });
        this.resized = new ResizeObserver((entries) => this.grown(entries));
        this.boxResized = new ResizeObserver(() => {
            this.follow();
            this.lookSoon();
        });
        this.boxResized.observe(box);
    }

    stop() {
        this.isStopped = true;
        this.resized.disconnect();
        this.boxResized.disconnect();
        for (const page of this.shown.values())
            page.abort.abort();
    }

    // ---- The length, and changes of rows ----

    setLast(last) {
        const pages = Math.ceil(last / PAGE);
        const each = Math.min(this.guess * PAGE, HEIGHT_MAX / Math.max(1, pages));

        if (last === this.last)
            return Promise.resolve();
        const changed = pageOf(Math.min(last, this.last) || 1);
        this.last = last;
        this.heights.length = Math.min(this.heights.length, pages);
        while (this.heights.length < pages)
            this.heights.push(each);
        return this.refresh(changed);
    }

    // Loads a page again, and all pages after it that are shown.
    refresh(from = 0) {
        const again = [...this.shown.keys()].filter((index) => index >= from);

        for (const index of this.data.keys()) {
            if (index >= from)
                this.data.delete(index);
        }
        const done = again.map((index) => {
            const page = this.shown.get(index);

            if (index >= this.heights.length)
                return this.drop(index);
            page.done = this.fill(index, page);
            return page.done;
        });
        const end = this.heights.length - 1;
        if (this.isFollowing && end >= 0 && !this.shown.has(end))
            done.push(this.show(end));
        this.setSpaces();
        this.follow();
        this.lookSoon();
        return Promise.all(done);
    }

    // Calls `fn` for every row in the document.
    each(fn) {
        for (const page of this.shown.values())
            page.rows.forEach(fn);
    }

    find(seq) {
        return this.shown.get(pageOf(seq))?.rows.get(seq);
    }

    // ---- Scrolling ----

    follow() {
        if (this.isFollowing)
            this.toEnd();
    }

    toEnd() {
        this.isFollowing = true;
        this.box.scrollTop = this.box.scrollHeight;
        this.at = this.box.scrollTop;
    }

    // Shows a row in the middle, or its beginning if it is higher than the box. It gets the focus.
    async toSeq(seq) {
        const index = pageOf(seq);

        if (seq < 1 || seq > this.last)
            return null;
        this.isFollowing = false;
        this.box.scrollTop = this.top(index);
        this.at = this.box.scrollTop;
        await this.show(index);
        const row = this.find(seq);
        const isHigh = row?.offsetHeight > this.box.clientHeight;
        row?.scrollIntoView({ block: isHigh ? 'start' : 'center' });
        row?.focus({ preventScroll: true });
        this.at = this.box.scrollTop;
        return row;
    }

    top(index) {
        let sum = 0;

        for (let i = 0; i < index; i++)
            sum += this.heights[i];
        return sum;
    }

    pageAt(y) {
        let rest = y;

        for (let i = 0; i < this.heights.length; i++) {
            rest -= this.heights[i];
            if (rest > 0)
                continue;
            return i;
        }
        return this.heights.length - 1;
    }

    lookSoon() {
        this.frame ??= requestAnimationFrame(() => {
            this.frame = null;
            this.look();
        });
    }

    // Shows the pages around what is visible, and drops those that are far.
    look() {
        const { scrollTop, clientHeight, scrollHeight } = this.box;

        if (this.isStopped || !clientHeight || this.last === 0)
            return;
        const moved = Math.abs(scrollTop - (this.at ?? scrollTop));
        // A list that only grew has not been scrolled away from its end.
        if (moved > 0 || !this.isFollowing)
            this.isFollowing = scrollHeight - scrollTop - clientHeight < NEAR_END;
        this.at = scrollTop;
        clearTimeout(this.settle);
        if (moved > FAST * clientHeight) {
            this.settle = setTimeout(() => this.lookSoon(), SETTLE_MS);
            return;
        }
        const from = this.pageAt(scrollTop - 2 * clientHeight);
        const to = this.pageAt(scrollTop + 3 * clientHeight);
        for (const index of [...this.shown.keys()]) {
            if (index < from - 3 || index > to + 3)
                this.drop(index);
        }
        for (let index = Math.max(0, from); index <= to; index++)
            this.show(index);
        this.setSpaces();
    }

    // ---- Pages ----

    // The pages in the document are neighbors, so that two boxes are enough for all others.
    setSpaces() {
        const all = [...this.shown.keys()];
        const first = all.length ? Math.min(...all) : this.heights.length;
        const end = all.length ? Math.max(...all) + 1 : this.heights.length;

        this.before.style.height = `${this.top(first)}px`;
        this.after.style.height = `${this.top(this.heights.length) - this.top(end)}px`;
    }

    show(index) {
        const there = this.shown.get(index);

        if (there)
            return there.done;
        for (const other of [...this.shown.keys()]) {
            if (Math.abs(other - index) > PAGE)
                this.drop(other);
        }
        const all = [...this.shown.keys(), index];
        for (let i = Math.min(...all); i <= Math.max(...all); i++) {
            if (!this.shown.has(i))
                this.place(i);
        }
        this.setSpaces();
        return this.shown.get(index).done;
    }

    place(index) {
        const element = h('div', { class: 'page', style: { height: `${this.heights[index]}px` } });
        const after = [...this.shown.keys()].filter((other) => other > index).sort((a, b) => a - b);
        const page = { element, rows: new Map(), abort: new AbortController(), isFull: false };

        element.page = index;
        (after.length ? this.shown.get(after[0]).element : this.after).before(element);
        this.shown.set(index, page);
        page.done = this.fill(index, page);
    }

    async fill(index, page) {
        const first = index * PAGE + 1;
        const version = (page.version ?? 0) + 1; // only the newest request counts
        let data = this.data.get(index);

        page.version = version;

        try {
            data ??= await this.load(first, Math.min(first + PAGE - 1, this.last),
                page.abort.signal);
        } catch (error) {
            if (error.name !== 'AbortError' && page.version === version &&
                this.shown.get(index) === page)
                this.drop(index);
            return;
        }
        if (this.shown.get(index) !== page || page.version !== version)
            return;
        this.keep(index, data);
        const rows = data.map((one) => [one.seq, this.row(one)]);
        const focused = document.activeElement?.closest?.('.msg')?.message?.seq;
        page.rows = new Map(rows);
        page.isFull = true;
        page.element.style.height = '';
        page.element.replaceChildren(...rows.map(([, row]) => row));
        if (page.rows.has(focused))
            page.rows.get(focused).focus({ preventScroll: true });
        this.measure(index, page);
        this.resized.observe(page.element);
    }

    keep(index, data) {
        this.data.delete(index);
        this.data.set(index, data);
        if (this.data.size > KEPT_MAX)
            this.data.delete(this.data.keys().next().value);
    }

    drop(index) {
        const page = this.shown.get(index);

        this.shown.delete(index);
        page.abort.abort();
        this.resized.unobserve(page.element);
        page.element.remove();
    }

    measure(index, page) {
        const height = page.element.offsetHeight;
        const difference = height - this.heights[index];

        if (!difference || !page.isFull)
            return;
        this.heights[index] = height;
        if (this.isFollowing) {
            this.toEnd();
        } else if (this.top(index) < this.box.scrollTop) {
            this.box.scrollTop += difference;
            this.at = this.box.scrollTop;
        }
    }

    grown(entries) {
        for (const { target } of entries) {
            const page = this.shown.get(target.page);

            if (page?.element === target)
                this.measure(target.page, page);
        }
    }
}
