// inspector.js - the panel next to a conversation, and the buttons that open its parts.
import { effect, h, signal } from '../core.js';
import { iconButton } from '../parts.js';

// The buttons of all parts. `chosen` is called with the name of one.
function tabs(panel, panels, chosen) {
    return h('div', { class: 'tabs', role: 'group', 'aria-label': 'Inspector' },
        Object.entries(panels).map(([name, { label, key }]) => h('button', { type: 'button',
            'aria-pressed': () => String(panel.value === name),
            title: key ? `${label} (${key})` : label, onclick: () => chosen(name) }, label)));
}

// Returns the buttons for the head of the conversation, and the panel. `panels` has the parts by
// name: {label, key, view(chat)}; `panel` is a signal with the name of the one that is shown.
export function inspector(chat, panel, panels) {
    const isOpen = signal(false);
    const box = h('div', { class: 'open-tabs' });
    let used = ''; // the part whose button was used
    const open = (name) => {
        used = name;
        chat.showPanel(name);
    };
    const close = () => {
        used = panel.peek();
        chat.showPanel('');
    };
    // The button goes with its bar, so the one that does the same gets the focus.
    const focusTab = (bar, name) => {
        const same = bar?.querySelector(`.tabs [title^="${panels[name].label}"]`);

        (same?.checkVisibility() ? same : bar?.querySelector('.inspect, .tabs button'))?.focus();
    };

    effect(() => { isOpen.value = Object.hasOwn(panels, panel.value); });
    effect(() => {
        box.replaceChildren(...(isOpen.value ? [] : [tabs(panel, panels, open),
            iconButton('window', 'Inspector', () => open(Object.keys(panels)[0]),
                { class: 'ghost inspect' })]));
        const name = used;
        used = '';
        if (name)
            queueMicrotask(() => focusTab(isOpen.peek() ? document.querySelector('.inspector')
                : box, name));
    });
    return [box, () => isOpen.value && h('aside', { class: 'inspector',
        'aria-label': () => panels[panel.value]?.label ?? '' },
    h('header', null, h('h2', { class: 'sr' }, () => panels[panel.value]?.label),
        tabs(panel, panels, (name) => {
            if (name === panel.peek())
                close();
            else
                chat.showPanel(name);
        }), iconButton('close', 'Close', close)),
    () => panels[panel.value]?.view(chat))];
}
