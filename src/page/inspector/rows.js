// rows.js - a table of any length with rows of one height: only the visible rows are made.
import { effect, h, onEnd } from '../core.js';

const ROW = 36; // pixels
const ROWS_SPARE = 8; // made above and below the visible ones

// `items()` returns an array and follows signals; `row(item, place)` makes the element of one, with
// the role "row". `box.show(place)` scrolls to a row and gives it the focus.
export function rowsView(label, items, row, more = {}) {
    const inner = h('div', { class: 'rows', role: 'rowgroup' });
    const box = h('div', { class: 'items', role: 'table', 'aria-label': label, tabIndex: 0,
        ...more }, inner);
    let all = [];
    let shown = '';
    const draw = () => {
        const first = Math.max(0, Math.floor(box.scrollTop / ROW) - ROWS_SPARE);
        const last = Math.min(all.length,
            Math.ceil((box.scrollTop + box.clientHeight) / ROW) + ROWS_SPARE);
        const focused = inner.contains(document.activeElement) &&
            document.activeElement.closest('.item')?.getAttribute('aria-rowindex');

        if (shown === `${first} ${last}`)
            return;
        shown = `${first} ${last}`;
        inner.replaceChildren(...all.slice(first, last).map((item, i) => {
            const element = row(item, first + i);

            element.setAttribute('aria-rowindex', first + i + 1);
            element.style.top = `${(first + i) * ROW}px`;
            return element;
        }));
        if (focused)
            inner.querySelector(`[aria-rowindex="${focused}"]`)?.focus({ preventScroll: true });
    };
    const resized = new ResizeObserver(draw);

    box.addEventListener('scroll', draw, { passive: true });
    resized.observe(box);
    onEnd(() => resized.disconnect());
    effect(() => {
        all = items();
        shown = '';
        inner.style.height = `${all.length * ROW}px`;
        box.setAttribute('aria-rowcount', all.length);
        draw();
    });
    box.addEventListener('keydown', (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const at = Number(document.activeElement.closest('.item')
            ?.getAttribute('aria-rowindex') ?? 0) - 1;

        if (!step)
            return;
        event.preventDefault();
        box.show(at + step);
    });
    box.show = (place) => {
        if (place < 0 || place >= all.length)
            return;
        box.scrollTop = Math.max(0, place * ROW - box.clientHeight / 2);
        draw();
        inner.querySelector(`[aria-rowindex="${place + 1}"]`)?.focus({ preventScroll: true });
    };
    return box;
}
