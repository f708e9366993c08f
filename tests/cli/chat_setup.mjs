// Starts `palaver chat` with a model that this process plays.
import { execFile } from 'node:child_process';
import { MockModel } from '../conformance/mock-model.mjs';
import { binary, workspace } from './support.mjs';
import { Terminal } from './terminal.mjs';

export async function setup(t) {
    const model = new MockModel();
    const url = await model.listen();
    const w = workspace(t);
    t.after(() => model.close());
    // Starts a terminal and waits for its first prompt. Also returns the greeting.
    const open = async (args = [], options = {}) => {
        const terminal = new Terminal(t, ['chat', '--provider', 'openai', '--provider-url',
            `${url}/v1`, '--model', 'mock-model', ...args],
        { cwd: w.dir, ...options, env: { OPENAI_API_KEY: 'k', ...options.env } });
        terminal.greeting = await terminal.prompt();
        return terminal;
    };
    const requests = async () => (await (await fetch(`${url}/__requests`)).json()).requests;
    const release = () => fetch(`${url}/__release`, { method: 'POST' });
    // Runs the command without a terminal. The model runs in this process, so it must not block.
    const ask = (text, ...more) => new Promise((resolve) => {
        execFile(binary, ['chat', '--provider', 'openai', '--provider-url', `${url}/v1`, '--model',
            'mock-model', ...more, text], { cwd: w.dir, env: { PATH: process.env.PATH, OPENAI_API_KEY: 'k',
            XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null' } }, (error, out) => resolve([error?.code ?? 0, out])).stdin.end();
    });
    return { ...w, open, ask, requests, release };
}
