// Checks the order of the events of a response as strictly as the API promises it.
import assert from 'node:assert/strict';

const ENDS = ['response.completed', 'response.incomplete', 'response.failed'];

// Events that carry a piece of an item, and the member of the final event that holds the complete
// item.
const PIECES = {
    output_text: 'text', refusal: 'refusal', reasoning_text: 'text',
    function_call_arguments: 'arguments', custom_tool_call_input: 'input',
};
const isCall = (item) => /_call$/.test(item.type);

class Sequence {
    items = [];

    take(event) {
        const [, name, step] = /^response\.(.+)\.(\w+)$/.exec(event.type) ?? [];
        if (name === 'output_item') this[step](event);
        else if (name === 'content_part') this.part(event, step);
        else if (PIECES[name]) this.piece(event, name, step);
        else assert.fail(`an event of type ${event.type} within a response`);
    }

    open(event) {
        const item = this.items[event.output_index];
        assert.ok(item && !item.isDone, `${event.type}: item ${event.output_index} is open`);
        if (event.item_id !== undefined) assert.equal(event.item_id, item.added.id);
        return item;
    }

    added({ output_index: index, item }) {
        assert.equal(index, this.items.length, 'items are numbered as they come');
        assert.equal(this.items.some(({ added }) => added.id === item.id), false, 'ids are unique');
        if (!isCall(item)) assert.deepEqual(item.content, []);
        this.items.push({ added: item, text: '', steps: ['added'] });
    }

    part(event, step) {
        const item = this.open(event);
        assert.equal(event.content_index, 0);
        item.steps.push(`part ${step}`);
        if (step === 'done') assert.equal(event.part[PIECES[event.part.type] ?? 'text'], item.text);
    }

    piece(event, name, step) {
        const item = this.open(event);
        assert.equal(isCall(item.added) ? undefined : 0, event.content_index);
        if (step === 'delta') {
            item.text += event.delta;
        } else {
            item.steps.push('text done');
            assert.equal(event[PIECES[name]], item.text, 'the deltas make the whole');
        }
    }

    done(event) {
        const item = this.open(event);
        const { id, type } = item.added;
        assert.deepEqual([event.item.id, event.item.type], [id, type]);
        assert.deepEqual(item.steps, isCall(item.added) ? ['added', 'text done']
            : ['added', 'part added', 'text done', 'part done']);
        item.isDone = true;
        item.whole = event.item;
    }
}

/** Checks the events of a whole response; returns the response that the last one has. */
export function assertSequence(events) {
    const types = events.map(({ type }) => type);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, at) => at));
    assert.deepEqual(types.slice(0, 2), ['response.created', 'response.in_progress']);
    assert.ok(ENDS.includes(types.at(-1)), `${types.at(-1)} ends a response`);
    const [first, last] = [events[0].response, events.at(-1).response];
    assert.deepEqual([first.id, first.status, first.output], [last.id, 'in_progress', []]);
    const sequence = new Sequence();
    for (const event of events.slice(2, -1)) sequence.take(event);
    if (last.status === 'completed' || last.status === 'incomplete')
        assert.deepEqual(last.output, sequence.items.map(({ whole }) => whole));
    else assert.deepEqual(last.output, []);
    return last;
}
