// A server with a tool server that writes each call into a file.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { serveModel } from './model.mjs';
import { workspace } from './support.mjs';

const program = (notes) => `
const fs = require('fs');
const rl = require('readline').createInterface({ input: process.stdin });
const schema = { type: 'object' };
const tools = [{ name: 'add', inputSchema: schema, annotations: { readOnlyHint: true } },
    { name: 'write', inputSchema: schema }, { name: 'fail', inputSchema: schema }];
rl.on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    const send = (m) => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...m }));
    if (method === 'initialize') send({ result: { protocolVersion: '2025-06-18', capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' } } });
    else if (method === 'tools/list') send({ result: { tools } });
    else if (method === 'tools/call') {
        fs.appendFileSync(${JSON.stringify(notes)}, params.name + ' ' + JSON.stringify(params.arguments) + '\\n');
        send({ result: { content: [{ type: 'text', text: params.name === 'add' ? '5' : 'done' }],
            isError: params.name === 'fail' } });
    } else send({ error: { code: -32601, message: 'no' } });
});`;

// Starts a server with the tool server `fx`. `rules` is YAML. notes() lists the tools that ran.
export async function serveTools(t, rules = '', { dir = workspace(t), ...options } = {}) {
    const notes = path.join(dir, 'notes');
    const script = path.join(dir, 'server.cjs');
    if (!existsSync(notes)) writeFileSync(notes, '');
    writeFileSync(script, program(notes));
    const s = await serveModel(t, { dir, ...options, config: `mcp_servers:\n  - {name: fx, command: [${process.execPath}, ${script}]}\n${rules}` });
    s.notes = () => readFileSync(notes, 'utf8').trim().split('\n').filter(Boolean).map((l) => l.split(' ')[0]);
    return s;
}
