// raw.js - what the views show, as the JSON of the API.
import { effect, h, signal } from '../core.js';
import { get, path } from '../api.js';
import { button, save } from '../parts.js';
import { codeBox } from '../markdown.js';
import { me, place } from '../store.js';
import { turnInPlace } from './turn.js';

const KINDS = {
    session: { label: 'Session', target: (chat) => chat.base },
    message: { label: 'Message', target: (chat, seq) => `${chat.base}/messages/${seq}` },
    context: { label: 'Window', target: (chat) => `${chat.base}/context?text=120` },
    marks: { label: 'Marks', target: (chat) => `${chat.base}/marks` },
    turn: { label: 'Turn', target: (chat) => (turnInPlace(place.peek())
        ? path('turns', turnInPlace(place.peek())) : `${chat.base}/turn`) },
    inbox: { label: 'Inbox', target: (chat) => `${chat.base}/inbox` },
    tree: { label: 'Family', target: (chat) => `${chat.base}/tree` },
};

// The message that has the focus, or the newest one.
const seqOf = (chat) => document.activeElement?.closest?.('.msg')?.message?.seq
    ?? chat.session.peek()?.last_seq ?? 1;

export function rawView(chat) {
    const kind = signal('session');
    const seq = signal(0);
    const json = signal(null);
    const problem = signal('');
    let version = 0;
    const target = () => KINDS[kind.value].target(chat, seq.value || seqOf(chat));

    effect(() => {
        if (!chat.session.value || chat.marks.value < 0)
            return;
        const mine = ++version;

        get(target()).then((answer) => {
            if (mine !== version)
                return;
            problem.value = '';
            json.value = JSON.stringify(answer, null, 2);
        }, (error) => { problem.value = error.message; });
    });
    return h('section', { class: 'raw' },
        h('div', { class: 'filters' }, h('label', null, 'Show ', h('select', {
            onchange: (event) => { kind.value = event.target.value; } },
        Object.entries(KINDS).map(([name, { label }]) => h('option', { value: name }, label)))),
        () => kind.value === 'message' && h('label', null, 'Number ', h('input', { type: 'number',
            min: 1, value: seq.peek() || seqOf(chat),
            onchange: (event) => { seq.value = Number(event.target.value); } })),
        button('Save', () => save(`${kind.peek()}.json`, json.peek() ?? '')),
        // A new tab sends the cookie of a login only, which is not enough.
        () => me.value?.open && chat.session.value && h('a', { class: 'plain json',
            target: '_blank', href: `api/v1/${target()}` }, '{ } JSON')),
        () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value),
        () => json.value && codeBox(json.value, 'json'));
}
