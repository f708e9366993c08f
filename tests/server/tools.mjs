// A server with a tool server that writes each call into a file.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { serveModel } from './model.mjs';
import { workspace } from './support.mjs';

export const program = fileURLToPath(new URL('tool_server.cjs', import.meta.url));

// Starts a server with the tool server `fx`. `rules` is YAML. notes() lists the tools that ran. While hang(true) is in
// effect, calls do not end.
export async function serveTools(t, rules = '', { dir = workspace(t), ...options } = {}) {
    const notes = path.join(dir, 'notes');
    if (!existsSync(notes)) writeFileSync(notes, '');
    const command = JSON.stringify([process.execPath, program, notes]);
    const s = await serveModel(t, { dir, ...options, config: `mcp_servers:\n  - {name: fx, command: ${command}}\n${rules}` });
    s.notes = () => readFileSync(notes, 'utf8').trim().split('\n').filter(Boolean).map((l) => l.split(' ')[0]);
    s.hang = (is) => (is ? writeFileSync(`${notes}.hang`, '') : rmSync(`${notes}.hang`));
    return s;
}
