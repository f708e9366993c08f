// A tool server on standard input and output: `node tool_server.cjs FILE [LEN]`. It adds a line to FILE for each call.
// LEN is the length of a tool's description. Calls hang while the file FILE.hang exists.
const fs = require('fs');
const rl = require('readline').createInterface({ input: process.stdin });
const schema = { type: 'object' };
const tools = [{ name: 'add', description: process.argv[3] ? 'x'.repeat(Number(process.argv[3])) : 'Adds numbers.', inputSchema: schema, annotations: { readOnlyHint: true } },
    { name: 'write', inputSchema: schema }, { name: 'fail', inputSchema: schema }];
rl.on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    const send = (m) => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...m }));
    if (method === 'initialize') send({ result: { protocolVersion: '2025-06-18', capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' } } });
    else if (method === 'tools/list') send({ result: { tools } });
    else if (method === 'tools/call') {
        fs.appendFileSync(process.argv[2], params.name + ' ' + JSON.stringify(params.arguments) + '\n');
        if (fs.existsSync(`${process.argv[2]}.hang`)) return;
        send({ result: { content: [{ type: 'text', text: params.name === 'add' ? '5' : 'done' }],
            isError: params.name === 'fail' } });
    } else send({ error: { code: -32601, message: 'no' } });
});
