// Shared by the suites of Mistral's clients: the valid order of a stream's events, and a summary of
// a conversation.
import assert from 'node:assert/strict';

/** An entry in a few words, whichever SDK read it. */
export function summary(entry) {
    switch (entry.type) {
        case 'function.call': return `call ${entry.name}(${argumentsOf(entry)})`;
        case 'function.result': return `result ${entry.result}`;
        case 'agent.handoff': return `handoff to ${entry.nextAgentName ?? entry.next_agent_name}`;
        case 'tool.execution': return `execution ${entry.name}`;
        default: return `${entry.type === 'message.input' ? 'in' : 'out'} ${textOf(entry.content)}`;
    }
}

const argumentsOf = ({ arguments: args }) => typeof args === 'string' ? args : JSON.stringify(args);
const textOf = (content) => typeof content === 'string' ? content
    : content.map((chunk) => chunk.text ?? '').join('');

/**
 * Asserts that these events of an SDK are those of one whole answer, in their order, and returns
 * what they add up to: the conversation's id, and the entries as the history shows them.
 */
export function assertSequence(events) {
    const types = events.map(({ event, data }) => {
        assert.ok(data && !data.isUnknown && data.type, `the SDK can't read an event: ${event}`);
        return data.type;
    });
    assert.equal(types[0], 'conversation.response.started', types.join());
    assert.equal(types.at(-1), 'conversation.response.done', types.join());
    const outputs = [];
    for (const { data } of events.slice(1, -1)) {
        const { outputIndex: index, id } = data;
        assert.ok(index === outputs.length || index === outputs.length - 1,
            `output ${index} after ${outputs.length} outputs: ${types.join()}`);
        outputs[index] ??= { id, text: '', kind: data.type.split('.').slice(0, 2).join('.') };
        assert.equal(outputs[index].id, id, 'an output keeps its id');
        const { kind } = outputs[index];
        assert.ok(data.type.startsWith(kind), `${data.type} in ${kind}`);
        if (data.type === 'message.output.delta') outputs[index].text += textOf(data.content);
        if (data.type === 'function.call.delta') outputs[index].text += data.arguments;
    }
    const { usage } = events.at(-1).data;
    assert.ok(usage.totalTokens > 0);
    assert.equal(usage.totalTokens, usage.promptTokens + usage.completionTokens);
    return { conversationId: events[0].data.conversationId, outputs, usage };
}
