// A scripted, deterministic stand-in for a service with OpenAI's Responses API. It keeps no state:
// requests must have "store": false, and their whole history in "input". No dependencies.
//
// The last user message of a request says in directives what is answered. <<next>> separates the
// answer from those after the first, second ... round of outputs that follow the message.
//
//   <<say TEXT>>            a message
//   <<tool NAME JSON>>      a function_call; NAME must be one of "tools"
//   <<custom NAME TEXT>>    a custom_tool_call
//   <<item JSON>>           an output item that is written as it is, for example a web_search_call
//   <<think TEXT>>          a reasoning item; with encrypted_content if "include" asks for it
//   <<fail STATUS>>         an error instead of an answer
//   <<cut>>                 the stream ends before its last event
//   <<hang>>                the answer waits until release()
//   <<incomplete>>          the answer was cut off by its limit
//   <<size BYTES>>          a message of that many bytes
//   <<hold>>                the first item of the service's own tools does not end until release()
//   <<together>>            all items begin before the first one ends
//   <<open>>                items of the service's own tools have no response.output_item.done
//   <<bare>>                the last event has no output, as some services send it
//
// Without a directive the answer is "echo: TEXT".
import { createServer } from 'node:http';
import { once } from 'node:events';

const DIRECTIVE = /<<([a-z]+)(?:\s+([\s\S]*?))?>>/g;
const OUTPUTS = /_output$/;
const USAGE = { input_tokens: 100, input_tokens_details: { cached_tokens: 60 }, output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 5 }, total_tokens: 120 };

// The events of progress of the service's own tools.
const PROGRESS = {
    web_search_call: [['web_search_call.in_progress'], ['web_search_call.searching'], ['web_search_call.completed']],
    code_interpreter_call: [['code_interpreter_call.in_progress'], ['code_interpreter_call_code.delta', { delta: 'print(', obfuscation: 'x' }],
        ['code_interpreter_call_code.delta', { delta: '"é\\n")' }], ['code_interpreter_call_code.done', { code: 'print("é\\n")' }],
        ['code_interpreter_call.interpreting'], ['code_interpreter_call.completed']],
    mcp_call: [['mcp_call.in_progress'], ['mcp_call_arguments.delta', { delta: '{}' }], ['mcp_call_arguments.done', { arguments: '{}' }],
        ['mcp_call.completed']],
};

const textOf = (content) => (typeof content === 'string' ? content
    : content.map(({ text = '' }) => text).join(''));

function scriptOf(input) {
    const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
    const at = items.findLastIndex(({ role }) => role === 'user');
    const text = at < 0 ? '' : textOf(items[at].content);
    let rounds = 0;
    for (let i = at + 1; i < items.length; i++)
        if (OUTPUTS.test(items[i].type ?? '') && !OUTPUTS.test(items[i - 1].type ?? '')) rounds++;
    return { text, reply: text.split('<<next>>')[rounds] ?? '' };
}

export class MockResponses {
    requests = []; // { raw, headers, body }
    left = 0; // answers that hung, and whose connection was closed
    #waiting = [];
    #count = 0;

    async listen() {
        this.server = createServer((request, response) => this.#handle(request, response));
        this.server.listen(0, '127.0.0.1');
        await once(this.server, 'listening');
        return `http://127.0.0.1:${this.server.address().port}`;
    }

    close() {
        this.release();
        this.server.closeAllConnections();
        this.server.close();
    }

    release() {
        for (const resolve of this.#waiting.splice(0)) resolve();
    }

    async #handle(request, response) {
        const pieces = [];
        for await (const piece of request) pieces.push(piece);
        const raw = Buffer.concat(pieces).toString();
        const json = (code, value) => {
            response.writeHead(code, { 'content-type': 'application/json', 'x-ratelimit-limit-requests': '7' });
            response.end(JSON.stringify(value));
        };
        if (request.method === 'GET')
            return json(200, { object: 'list', data: [{ id: 'mock-model', object: 'model', owned_by: 'mock' }] });
        if (request.url === '/v1/responses/compact') {
            this.requests.push({ raw, headers: request.headers, body: JSON.parse(raw) });
            return json(200, { id: 'resp_c', object: 'response.compaction', created_at: 1700000000,
                output: [{ id: 'cmp_1', type: 'compaction', encrypted_content: 'opaque!' }], usage: USAGE });
        }
        if (request.url !== '/v1/responses') return json(404, { error: { message: `no ${request.url}` } });
        const body = JSON.parse(raw);
        this.requests.push({ raw, headers: request.headers, body });
        if (body.store !== false || body.previous_response_id || body.type)
            return json(400, { error: { message: 'only stateless requests', type: 'invalid_request_error', param: 'store', code: null } });
        return this.#answer(body, response, json);
    }

    #items(body, reply) {
        const output = [];
        const id = (prefix) => `${prefix}_${String(++this.#count).padStart(52, 'f')}`;
        const say = (text) => output.push({ id: id('msg'), type: 'message', status: 'completed', role: 'assistant',
            content: [{ type: 'output_text', annotations: [], logprobs: [], text }] });
        for (const [, name, rest = ''] of reply.matchAll(DIRECTIVE)) {
            const [, word, more] = /^(\S*)\s*([\s\S]*)$/.exec(rest);
            const call = { call_id: `call_${++this.#count}`, name: word, status: 'completed' };
            if (name === 'say') say(rest);
            if (name === 'size') say('abcdefg '.repeat(Number(rest) / 8));
            if (name === 'tool') output.push({ id: id('fc'), type: 'function_call', ...call, arguments: more });
            if (name === 'custom') output.push({ id: id('ctc'), type: 'custom_tool_call', ...call, input: more });
            if (name === 'item') output.push(JSON.parse(rest));
            if (name === 'think') output.push({ id: id('rs'), type: 'reasoning', summary: [{ type: 'summary_text', text: rest }],
                ...(body.include?.includes('reasoning.encrypted_content') && { encrypted_content: `secret:${rest}` }) });
        }
        return { output, say };
    }

    async #answer(body, response, json) {
        const { text, reply } = scriptOf(body.input);
        const has = (name) => new RegExp(`<<${name}[> ]`).test(reply);
        const failed = /<<fail (\d+)>>/.exec(reply);
        const { output, say } = this.#items(body, reply);
        if (output.length === 0) say(`echo: ${text.replace(DIRECTIVE, '')}`);
        if (has('hang')) {
            response.on('close', () => { this.left++; });
            await new Promise((resolve) => { this.#waiting.push(resolve); });
        }
        if (failed)
            return json(Number(failed[1]), { error: { message: 'as scripted', type: 'scripted', param: null, code: 'scripted' } });
        const base = { id: `resp_${String(++this.#count).padStart(52, 'e')}`, object: 'response', created_at: 1700000000,
            status: 'in_progress', error: null, incomplete_details: null, model: `${body.model}-2026`, output: [], store: false,
            previous_response_id: null, tools: body.tools ?? [], usage: null, unknown_member: { kept: true } };
        const status = has('incomplete') ? 'incomplete' : 'completed';
        const done = { ...base, status, output, usage: USAGE };
        if (!body.stream) return json(200, done);
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
        let number = 0;
        const send = (type, more) => response.write(
            `event: ${type}\ndata: ${JSON.stringify({ type, ...more, sequence_number: number++ })}\n\n`);
        send('response.created', { response: base });
        send('response.in_progress', { response: base });
        const begin = (item, index) => send('response.output_item.added', { output_index: index, item: { ...item, status: 'in_progress' } });
        if (has('together')) output.forEach(begin);
        let waits = has('hold');
        for (const [index, item] of output.entries()) {
            if (!has('together')) begin(item, index);
            for (const { text: delta = '' } of item.content ?? [])
                send('response.output_text.delta', { output_index: index, item_id: item.id, content_index: 0, delta });
            for (const [type, more] of PROGRESS[item.type] ?? [])
                send(`response.${type}`, { output_index: index, item_id: item.id, ...more });
            if (waits && PROGRESS[item.type]) await new Promise((resolve) => { waits = false; this.#waiting.push(resolve); });
            if (!PROGRESS[item.type] || !has('open')) send('response.output_item.done', { output_index: index, item });
        }
        if (!has('cut')) send(`response.${status}`, { response: has('bare') ? { ...done, output: [] } : done });
        response.end();
    }
}
