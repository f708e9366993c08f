// composer.js - where a person writes: text, images and files, the model, and what to do with the
// message while a turn runs.
//
// A draft is kept in the browser by session, and removed only after the server has taken the
// message. A second try has the same client id, so the message is stored once.
import { brief, effect, h, money, onEnd, signal } from './core.js';
import { canKeep, newId } from './api.js';
import { icon, iconButton, say, visible } from './parts.js';
import { me, models } from './store.js';

const HEIGHT_MAX = 240;
const FILE_BYTES_MAX = 16 << 20;
const LANES = {
    queue: ['Queue', 'The message waits until the turn has ended.'],
    steer: ['Steer', 'The model gets the message before its next step.'],
    interrupt: ['Interrupt', 'The turn stops, and this message starts a new one.'],
};
const files = new Map(); // draft: its attachments, which do not survive a reload

// Each tab has its own drafts. A tab that is opened later begins with the newest ones.
const storage = {
    read: (name) => {
        try {
            return JSON.parse(sessionStorage.getItem(name) ?? localStorage.getItem(name));
        } catch {
            return null;
        }
    },
    write: (name, value) => {
        try {
            for (const place of canKeep() ? [sessionStorage, localStorage] : []) {
                if (value === null)
                    place.removeItem(name);
                else
                    place.setItem(name, JSON.stringify(value));
            }
        } catch {
            // Without storage, the draft lives as long as the page.
        }
    },
};

function readFile(file) {
    return new Promise((resolve, reject) => {
        const reader = new FileReader();

        reader.addEventListener('load', () => {
            const isImage = /^image\/(png|jpeg|gif|webp|avif)$/.test(file.type);

            resolve({ type: isImage ? 'image' : 'file', name: file.name,
                media_type: file.type || 'application/octet-stream',
                data: reader.result.slice(reader.result.indexOf(',') + 1) });
        });
        reader.addEventListener('error', () => reject(reader.error));
        reader.readAsDataURL(file);
    });
}

const isSame = (one, other) => one.model === other?.model && one.endpoint === other?.endpoint;

// The model that was chosen, if it is still there.
const choiceOf = (chosen, list) => list.find((one) => isSame(one, chosen)) ?? null;

function choose(draft, chosen, model) {
    chosen.value = model;
    storage.write(`model:${draft}`, model);
}

function factsOf(model) {
    return [model?.model, model?.context && `${brief(model.context)} tokens`,
        model?.price && `${money(model.price.input)} in and ${money(model.price.output)} out for `
            + 'a million tokens'].filter(Boolean).join(' · ');
}

function modelPicker(name, chosen) {
    const endpoints = () => new Set(models.value.map((one) => one.endpoint)).size;
    const label = ({ endpoint, model }) => (endpoints() > 1 ? `${model} (${endpoint})` : model);

    return h('select', { 'aria-label': 'Model', class: 'model',
        hidden: () => models.value.length < 2,
        title: () => factsOf(choiceOf(chosen.value, models.value) ?? models.value[0]),
        onchange: (event) => choose(name, chosen, models.peek()[event.target.value] ?? null) },
    () => models.value.map((one, i) => h('option', { value: i,
        selected: isSame(one, chosen.value) },
    label(one))));
}

// Options: `draft` is the name of the draft; `isBusy` is a signal; `send(message)` and `stop()` are
// promises; `gauge` is an element or null; `onEmptyUp()` is called for the arrow in an empty field.
export function composer({ draft: place, isBusy, send, stop, gauge = null, onEmptyUp = () => {} }) {
    const draft = `${me.peek().tenant} ${place}`;
    const kept = storage.read(`draft:${draft}`);
    const lane = signal('queue');
    const chosen = signal(storage.read(`model:${draft}`));
    const problem = signal('');
    const editing = signal(kept?.editing ?? null); // the number of the message that is edited
    const attached = signal(files.get(draft) ?? []);
    const choice = () => choiceOf(chosen.peek(), models.peek());
    let clientId = kept?.clientId ?? newId();
    let isSending = false;

    const keep = () => {
        storage.write(`draft:${draft}`, text.value || editing.peek()
            ? { text: text.value, clientId, editing: editing.peek() } : null);
    };
    const grow = () => {
        text.style.height = 'auto';
        text.style.height = `${Math.min(HEIGHT_MAX, text.scrollHeight)}px`;
    };
    const changed = () => {
        clientId = newId(); // another text is another message
        keep();
        grow();
    };
    const setFiles = (list) => {
        attached.value = list;
        files.set(draft, list);
        clientId = newId();
    };
    const add = (file) => setFiles([...attached.peek(), file]);
    const attach = async (list) => {
        for (const file of list) {
            if (file.size > FILE_BYTES_MAX)
                say(`${file.name} is larger than ${FILE_BYTES_MAX >> 20} MB.`);
            else
                add(await readFile(file));
        }
    };
    const clear = () => {
        text.value = '';
        editing.value = null;
        setFiles([]);
        changed();
    };

    async function submit(wantedLane, isFork = false) {
        if (isSending || !(text.value.trim() || attached.peek().length))
            return;
        isSending = true;
        form.setAttribute('aria-busy', 'true');
        try {
            await send({ text: text.value, files: attached.peek(), clientId, lane: wantedLane,
                model: choice(), editing: editing.peek(), isFork });
            problem.value = '';
            clear();
        } catch (error) {
            if (error.name !== 'Failure')
                throw error;
            problem.value = `Not sent: ${error.message.replace(/\.?$/, '.')} Your text is kept.`;
        } finally {
            isSending = false;
            form.removeAttribute('aria-busy');
        }
    }

    const onKey = (event) => {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            submit(event.ctrlKey || event.metaKey ? 'steer' : lane.peek(), event.altKey);
        } else if (event.key === 'ArrowUp' && !text.value && !editing.peek()) {
            onEmptyUp();
        } else if (event.key === 'Escape') {
            text.blur();
        }
    };
    const text = h('textarea', { id: 'say', rows: 1, placeholder: 'Say something', dir: 'auto',
        'aria-label': 'Say something', value: kept?.text ?? '', oninput: changed, onkeydown: onKey,
        onpaste: (event) => {
            if (event.clipboardData.files.length) {
                event.preventDefault();
                attach([...event.clipboardData.files]);
            }
        } });
    const picker = h('input', { type: 'file', multiple: true, hidden: true, onchange: () => {
        attach([...picker.files]);
        picker.value = '';
    } });
    const chips = () => attached.value.map((part) => h('span', { class: 'chip file' },
        part.type === 'image'
            ? h('img', { src: `data:${part.media_type};base64,${part.data}`, alt: '' })
            : icon('file'), h('span', { class: 'clip' }, visible(part.name)),
        h('span', { class: 'dim' }, ` ${brief(Math.round(part.data.length * 3 / 4))}B`),
        iconButton('close', `Remove ${part.name}`, () =>
            setFiles(attached.peek().filter((one) => one !== part)))));
    const lanes = () => isBusy.value && h('select', { 'aria-label': 'While the turn runs',
        class: 'lane', title: LANES[lane.value][1],
        onchange: (event) => { lane.value = event.target.value; } },
    Object.entries(LANES).map(([name, [word]]) =>
        h('option', { value: name, selected: name === lane.value }, word)));
    const hint = () => {
        if (editing.value)
            return 'Alt Enter sends it in a fork instead.';
        return isBusy.value ? LANES[lane.value][1] : 'Enter sends, Shift Enter starts a line.';
    };
    const form = h('form', { class: 'composer writes', 'aria-label': 'Message',
        onsubmit: (event) => {
            event.preventDefault();
            submit(lane.peek());
        } },
    () => problem.value && h('p', { class: 'problem', role: 'alert' }, problem.value),
    () => editing.value && h('p', { class: 'note' }, `You are editing message ${editing.value}. `
        + 'The messages after it will be hidden.', h('button', { type: 'button', class: 'linklike',
        onclick: clear }, 'Cancel')),
    h('div', { class: 'chips' }, chips), text, picker,
    h('div', { class: 'tools' },
        iconButton('attach', 'Attach images or files', () => picker.click()),
        modelPicker(draft, chosen), lanes, h('span', { class: 'dim hint' }, hint), gauge,
        () => isBusy.value && h('button', { type: 'button', class: 'round stop',
            title: 'Stop (Esc)', 'aria-label': 'Stop', onclick: stop }, icon('stop')),
        h('button', { type: 'submit', class: 'round', 'aria-label': 'Send', title: 'Send (Enter)' },
            icon('send'))));

    effect(() => {
        // The height is known when the field is in the document.
        requestAnimationFrame(grow);
    });
    // Files can be dropped anywhere. Otherwise the browser would open them in place of the page.
    const onDrag = (event) => {
        if (!event.dataTransfer.types.includes('Files'))
            return;
        event.preventDefault();
        if (event.type === 'drop')
            attach([...event.dataTransfer.files]);
    };
    const listeners = { pagehide: () => keep(), dragover: onDrag, drop: onDrag };
    for (const [name, fn] of Object.entries(listeners)) {
        addEventListener(name, fn);
        onEnd(() => removeEventListener(name, fn));
    }
    form.edit = (seq, old) => {
        text.value = old;
        editing.value = seq;
        changed();
        text.focus();
    };
    form.text = () => text.value;
    form.choice = choice;
    form.choose = (model) => choose(draft, chosen, model);
    return form;
}
