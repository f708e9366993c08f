// summaries.js - makes a summary again with other instructions or another model, and compares two
// summaries line by line.
import { count, h, plural, signal } from '../core.js';
import { get, post } from '../api.js';
import { attempt, button, dialog, say } from '../parts.js';
import { models } from '../store.js';
import { linesView } from './items.js';

const checkpointsOf = (chat) => chat.markList.peek().filter((mark) =>
    mark.kind === 'checkpoint' && !mark.inherited);

// Shows how the summary of one compaction differs from that of another.
export function compareSummaries(chat, older, newer) {
    const [old, now] = [signal(older), signal(newer)];
    const diff = signal(null);
    const problem = signal('');
    const read = () => {
        problem.value = '';
        get(`${chat.base}/compact/diff?old=${old.peek()}&new=${now.peek()}`).then((found) => {
            diff.value = found.diff;
        }, (error) => {
            diff.value = null;
            problem.value = error.message;
        });
    };
    const select = (label, chosen) => h('label', null, label, ' ', h('select', {
        onchange: (event) => {
            chosen.value = Number(event.target.value);
            read();
        } }, checkpointsOf(chat).map(({ number }) => h('option', { value: number,
        selected: number === chosen.peek() }, `mark ${number}`))));
    const lines = () => diff.value.split('\n').filter(Boolean);

    read();
    dialog('Two summaries', () => [
        h('div', { class: 'filters' }, select('From', old), select('to', now)),
        h('div', null, () => problem.value && h('p', { class: 'problem', role: 'alert' },
            problem.value), () => diff.value !== null && (lines().some((line) => line[0] !== ' ')
            ? linesView(lines()) : h('p', { class: 'dim' }, 'The summaries are the same.')))]);
}

// The summary of the compaction `number` is made again from the same messages.
export function redoDialog(chat, number) {
    const prompt = h('textarea', { rows: 3, 'aria-label': 'Instructions for the summary',
        placeholder: 'Instructions for the summary, such as “Keep all file names.”' });
    const model = h('select', { 'aria-label': 'Model' }, h('option', { value: '' },
        'the same model'), [...new Set(models.peek().map((one) => one.model))].map((name) =>
        h('option', { value: name }, name)));
    const redo = async () => {
        const done = await post(`${chat.base}/compact`, { redo: number,
            ...(prompt.value.trim() && { prompt: prompt.value }),
            ...(model.value && { model: model.value }) });

        chat.marked();
        if (!done.number) {
            say(done.note || 'Nothing was done.');
            return;
        }
        await chat.readMarks();
        say(`The summary of ${plural(done.messages, 'message')} was made again: `
            + `${count(done.tokens_after)} tokens.`, () => chat.uncompact(done.number));
        compareSummaries(chat, number, done.number);
    };

    dialog('Make the summary again', (close) => [
        h('p', null, 'The same messages are summarized once more. The summary before stays as a '
            + 'mark, and this can be undone.'),
        prompt, h('p', null, model),
        h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary',
            onclick: () => {
                close();
                attempt(redo);
            } }, 'Make it again'), button('Cancel', close)),
    ]);
}
