// Every kind of provider, with the scripted model. The scripted model only has chat completions, so
// a small server translates: it takes a request in another format, sends it to the scripted model,
// and passes on the reply as it comes, with its pieces, silence, failures and broken connections.
import { createServer, request as ask } from 'node:http';

const finishes = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use', content_filter: 'refusal' };

const functionTool = (name, description, parameters) => ({ type: 'function', function: { name, description, parameters } });
const functionCall = (id, name, text) => ({ id, type: 'function', function: { name, arguments: text } });
const plainText = (content) => (typeof content === 'string' ? content : content.map(({ text }) => text).join(''));

// ---- Anthropic's Messages ----

function fromBlocks({ role, content }) {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    const results = blocks.filter(({ type }) => type === 'tool_result').map((block) =>
        ({ role: 'tool', tool_call_id: block.tool_use_id, content: plainText(block.content ?? '') }));
    const texts = blocks.filter(({ type }) => type === 'text').map((block) => block.text);
    const calls = blocks.filter(({ type }) => type === 'tool_use').map((block) =>
        functionCall(block.id, block.name, JSON.stringify(block.input)));
    if (calls.length > 0) return [{ role, content: texts.join('') || null, tool_calls: calls }];
    // The messages of failed turns stay in the conversation, one block each, in one message.
    return [...results, ...texts.map((content) => ({ role, content }))];
}

class Messages {
    error = (status, { error }) => ({ type: 'error', error: { type: error.code ?? error.type, message: error.message } });
    #open = -1;
    #kind = '';

    request({ model, system, messages, tools }) {
        return {
            model,
            messages: [...(system ? [{ role: 'system', content: plainText(system) }] : []), ...messages.flatMap(fromBlocks)],
            ...(tools && { tools: tools.map((tool) => functionTool(tool.name, tool.description, tool.input_schema)) }),
        };
    }

    * #block(kind, content_block) {
        if (this.#kind) yield { type: 'content_block_stop', index: this.#open };
        this.#kind = kind;
        if (kind) yield { type: 'content_block_start', index: (this.#open += 1), content_block };
    }

    * chunk({ id, model, choices: [choice], usage }) {
        if (choice?.delta.role) yield { type: 'message_start', message: { id, model, content: [] } };
        if (choice?.delta.content) {
            if (this.#kind !== 'text') yield* this.#block('text', { type: 'text', text: '' });
            yield { type: 'content_block_delta', index: this.#open, delta: { type: 'text_delta', text: choice.delta.content } };
        }
        for (const { id: call, function: { name, arguments: text } } of choice?.delta.tool_calls ?? []) {
            if (call) yield* this.#block('tool', { type: 'tool_use', id: call, name, input: {} });
            if (text) yield { type: 'content_block_delta', index: this.#open, delta: { type: 'input_json_delta', partial_json: text } };
        }
        if (choice?.finish_reason) {
            yield* this.#block('');
            yield { type: 'message_delta', delta: { stop_reason: finishes[choice.finish_reason] } };
        }
        if (usage) yield { type: 'message_delta', delta: {}, usage: { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens } };
    }

    * done() {
        yield { type: 'message_stop' };
    }
}

// ---- Mistral's Conversations ----

function fromEntries(entries) {
    const messages = [];
    for (const entry of entries) {
        if (entry.type === 'function.call') {
            const call = functionCall(entry.tool_call_id, entry.name, entry.arguments);
            if (messages.at(-1)?.tool_calls) messages.at(-1).tool_calls.push(call);
            else messages.push({ role: 'assistant', content: null, tool_calls: [call] });
        } else if (entry.type === 'function.result') {
            messages.push({ role: 'tool', tool_call_id: entry.tool_call_id, content: entry.result });
        } else {
            messages.push({ role: entry.role ?? 'assistant', content: plainText(entry.content) });
        }
    }
    return messages;
}

class Conversations {
    static #kept = new Map();

    // Loses the conversations that contain messages.
    static forget(words) {
        for (const [id, kept] of Conversations.#kept) {
            if (JSON.stringify(kept.entries).includes(words)) Conversations.#kept.delete(id);
        }
    }

    error = (status, { error }) => ({ object: 'error', message: error.message, type: error.type, code: error.code });
    #inputs;
    #outputs = [];
    #id;

    request(body, path) {
        const known = decodeURIComponent(path.split('/conversations/')[1] ?? '');
        const before = known ? Conversations.#kept.get(known) : { ...body, entries: [] };
        if (!before) return null;
        this.#id = known || `conv_${Math.random().toString(36).slice(2)}`;
        this.#inputs = { ...before, entries: [...before.entries, ...body.inputs] };
        const { model, instructions, tools, entries } = this.#inputs;
        return {
            model,
            messages: [...(instructions ? [{ role: 'system', content: instructions }] : []), ...fromEntries(entries)],
            ...(tools && { tools }),
        };
    }

    * chunk({ model, choices: [choice], usage }) {
        if (choice?.delta.role) yield { type: 'conversation.response.started', conversation_id: this.#id };
        if (choice?.delta.content) {
            this.#outputs.push({ type: 'message.output', content: choice.delta.content });
            yield { type: 'message.output.delta', id: 'm1', model, content: choice.delta.content };
        }
        for (const { id, index, function: { name, arguments: text } } of choice?.delta.tool_calls ?? []) {
            const call = this.#outputs.filter(({ type }) => type === 'function.call')[index]
                ?? { type: 'function.call', tool_call_id: id, name, arguments: '' };
            if (id) this.#outputs.push(call);
            call.arguments += text;
            yield { type: 'function.call.delta', tool_call_id: call.tool_call_id, name: call.name, arguments: text };
        }
        if (usage) this.usage = usage;
    }

    * done() {
        const text = this.#outputs.filter(({ type }) => type === 'message.output').map(({ content }) => content).join('');
        const calls = this.#outputs.filter(({ type }) => type === 'function.call');
        const said = text ? [{ type: 'message.output', content: text }] : [];
        Conversations.#kept.set(this.#id, { ...this.#inputs, entries: [...this.#inputs.entries, ...said, ...calls] });
        yield { type: 'conversation.response.done', usage: this.usage ?? {} };
    }
}

// ---- Chat completions that are never streamed ----

class Whole {
    error = (status, body) => body;

    request({ stream, stream_options: options, ...body }) {
        return { ...body, stream: false };
    }
}

// ---- The server in between ----

async function readAll(stream) {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
}

const headersOf = ({ headers }) => Object.fromEntries(['content-type', 'retry-after', 'x-request-id', 'content-length']
    .filter((name) => name in headers).map((name) => [name, headers[name]]));

async function relayError(answer, response, language) {
    const { 'content-length': length, ...headers } = headersOf(answer);
    let text = await readAll(answer);
    if (headers['content-type'] === 'application/json') text = JSON.stringify(language.error(answer.statusCode, JSON.parse(text)));
    response.writeHead(answer.statusCode, headers);
    response.end(text);
}

function relayEvent(text, response, language) {
    const data = text.replace(/^data: /, '');
    let chunk;
    try {
        chunk = data === '[DONE]' ? null : JSON.parse(data);
    } catch {
        response.write(`${text}\n\n`); // garbage is passed on
        return;
    }
    for (const event of chunk ? language.chunk(chunk) : language.done()) {
        response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
}

function relayStream(answer, response, language) {
    let text = '';
    response.writeHead(200, headersOf(answer));
    response.flushHeaders();
    answer.setEncoding('utf8');
    answer.on('data', (piece) => {
        const events = (text += piece).split('\n\n');
        text = events.pop();
        for (const event of events) relayEvent(event, response, language);
    });
    answer.on('end', () => response.end());
}

function relay(answer, response, language) {
    // The connection to the scripted model broke, so the connection to the client breaks at the
    // same point.
    answer.on('error', () => setTimeout(() => response.destroy(), 10));
    if (answer.statusCode !== 200) relayError(answer, response, language).catch(() => response.destroy());
    else if (language.chunk) relayStream(answer, response, language);
    else response.writeHead(200, headersOf(answer)) && answer.pipe(response);
}

async function front(mock, Language) {
    const server = createServer(async (request, response) => {
        const language = new Language();
        const body = language.request(JSON.parse(await readAll(request)), request.url);
        if (!body) {
            response.writeHead(404, { 'content-type': 'application/json' });
            response.end('{"object":"error","message":"Conversation not found","code":"3000"}');
            return;
        }
        const options = language.chunk ? { stream: true, stream_options: { include_usage: true } } : {};
        const behind = ask(`${mock}/v1/chat/completions`, { method: 'POST', agent: false });
        response.on('close', () => behind.destroy());
        behind.on('response', (answer) => relay(answer, response, language));
        behind.on('error', () => response.destroy());
        behind.end(JSON.stringify({ ...body, ...options }));
    });
    await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    return {
        url: `http://127.0.0.1:${server.address().port}`,
        close() {
            server.closeAllConnections();
            return new Promise((resolve) => { server.close(resolve); });
        },
    };
}

const direct = (mock) => ({ url: mock, close() {} });

export const paths = [
    { name: 'openai', kind: 'openai', open: direct },
    { name: 'openai, whole', kind: 'openai', open: (mock) => front(mock, Whole), isWhole: true },
    { name: 'mistral', kind: 'mistral', open: direct, noUsage: true },
    { name: 'mistral, whole', kind: 'mistral', open: (mock) => front(mock, Whole), isWhole: true },
    { name: 'anthropic', kind: 'anthropic', open: (mock) => front(mock, Messages) },
    { name: 'mistral_conversations', kind: 'mistral_conversations', open: (mock) => front(mock, Conversations), forget: Conversations.forget },
];
