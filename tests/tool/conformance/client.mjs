// The client that the conformance suite runs: uses the server at the URL through mcp_drive, which is
// built on the library. It calls every tool that the server lists, with the arguments that the scenario
// gives, or with simple ones, and accepts every question with its defaults.
import { spawn } from 'node:child_process';
import readline from 'node:readline';

const url = process.argv[2];
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const drive = spawn(process.env.MCP_DRIVE, ['--url', url], { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = readline.createInterface({ input: drive.stdout })[Symbol.asyncIterator]();
const samples = { string: 'x', integer: 1, number: 1.5, boolean: true, array: [], object: {} };

async function next() {
    const { value, done } = await lines.next();

    if (done) throw new Error('mcp_drive ended');
    return JSON.parse(value);
}

async function call(name, args) {
    drive.stdin.write(`${JSON.stringify({ call: name, arguments: args, action: 'accept', content: {} })}\n`);
    console.log(name, JSON.stringify(await next()));
}

function simpleArguments(schema) {
    return Object.fromEntries(Object.entries(schema?.properties ?? {})
        .map(([name, rule]) => [name, rule.enum?.[0] ?? samples[rule.type] ?? 'x']));
}

const report = await next();

console.log(`${scenario}: ${report.state} ${report.failure}`);
if (context.toolCalls) {
    for (const one of context.toolCalls) await call(`srv__${one.name}`, one.arguments);
} else {
    const echo = report.tools.find((tool) => tool.name === 'srv__json_schema_echo');

    for (const tool of report.tools)
        if (tool !== echo) await call(tool.name, simpleArguments(tool.schema));
    // The schema must reach the model unchanged.
    if (echo) await call(echo.name, { schema: report.tools.find((tool) => tool !== echo).schema });
}
drive.stdin.end();
await new Promise((resolve) => drive.on('exit', resolve));
process.exit(report.state === 'ready' ? 0 : 1);
