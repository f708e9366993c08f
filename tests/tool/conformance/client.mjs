// The client that the conformance suite runs: uses the server at the URL through mcp_drive, which is
// built on the library. It calls every tool that the server lists, with the arguments that the scenario
// gives, or with simple ones, and accepts every question with its defaults.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const url = process.argv[2];
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const files = fs.mkdtempSync(path.join(os.tmpdir(), 'mcp-conformance-'));
const drive = spawn(process.env.MCP_DRIVE, ['--url', url, ...authOf()], { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = readline.createInterface({ input: drive.stdout })[Symbol.asyncIterator]();
const samples = { string: 'x', integer: 1, number: 1.5, boolean: true, array: [], object: {} };

// The configuration that the scenarios of auth/ expect of the client.
function authOf() {
    if (!scenario.startsWith('auth/')) return [];
    const { client_id, client_secret, issuer, private_key_pem, idp_client_id, idp_token_endpoint } = context;
    const auth = { client_id, client_secret, issuer, file: path.join(files, 'login.json'), idp_client_id,
        idp_token_url: idp_token_endpoint };
    const assertion = context.valid_jwt ?? context.idp_id_token;

    if (private_key_pem) {
        auth.client_key = path.join(files, 'key.pem');
        fs.writeFileSync(auth.client_key, private_key_pem);
    }
    if (assertion) {
        auth.token_file = path.join(files, 'token.jwt');
        fs.writeFileSync(auth.token_file, assertion);
    }
    auth.client_credentials = scenario.startsWith('auth/client-credentials-');
    if (scenario === 'auth/basic-cimd')
        auth.client_metadata_url = 'https://conformance-test.local/client-metadata.json';
    return [JSON.stringify(auth)];
}

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
fs.rmSync(files, { recursive: true });
process.exit(report.state === 'ready' ? 0 : 1);
