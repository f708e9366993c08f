// Runs real coding agents with `palaver run`, each in its own home directory, and compares the
// session that Palaver has recorded with the transcript that the client wrote.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { MockAnthropic } from '../mock-anthropic.mjs';
import { MockModel } from '../mock-model.mjs';

const binary = process.env.PALAVER_BIN;
const RUN_TIMEOUT_MS = 120_000;

// The environment without keys and settings of the user who runs the tests.
const plain = Object.fromEntries(Object.entries(process.env).filter(([name]) =>
    !/^(PALAVER|CODEX|NODE|ANTHROPIC|CLAUDE|OPENCODE|XDG)_|_API_KEY$|^CLAUDECODE$|_proxy$/i.test(name)));

/** The model services, by the kind of provider that calls them. */
export const UPSTREAMS = { openai: MockModel, anthropic: MockAnthropic };

/** A directory for one conversation: `program` is the client's file, which gets the name `client`. */
export async function workplace(t, { client, program, upstream, model = 'mock-model', env = {} }) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-agent-'));
    t.after(() => fs.rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
    for (const name of ['home', 'work', 'bin']) fs.mkdirSync(path.join(dir, name));
    fs.symlinkSync(program, path.join(dir, 'bin', client));
    const mock = new UPSTREAMS[upstream]();
    const url = await mock.listen();
    t.after(() => mock.close());
    const home = path.join(dir, 'home'), store = path.join(dir, 'recorded.db');
    const environment = { ...plain, ...env, HOME: home, PATH: `${path.join(dir, 'bin')}:${process.env.PATH}` };
    // Runs a program to its end, and returns its outputs.
    const execute = (file, args, input, more) => new Promise((resolve) => {
        const child = spawn(file, args, { cwd: path.join(dir, 'work'), env: { ...environment, ...more },
            timeout: RUN_TIMEOUT_MS, stdio: ['pipe', 'pipe', 'pipe'] });
        const outputs = { out: '', err: '' };
        child.stdout.on('data', (data) => { outputs.out += data; });
        child.stderr.on('data', (data) => { outputs.err += data; });
        child.stdin.on('error', () => {}).end(input);
        child.on('close', (code, signal) => resolve({ code: code ?? signal, ...outputs }));
    });
    const ok = async (args, input = '') => {
        const result = await execute(binary, args, input);
        assert.equal(result.code, 0, `${args.join(' ')}\n${result.err}\n${result.out}`);
        return result;
    };
    const show = async (db, key) =>
        JSON.parse((await ok(['--store', db, '--json', 'session', 'show', key])).out);
    return {
        dir, home, work: path.join(dir, 'work'),
        /** Runs a script for which the model service is configured. */
        shell: (script) => execute('/bin/sh', ['-ec', script], '', { PALAVER_PROVIDER: upstream,
            PALAVER_PROVIDER_URL: `${url}/v1`, PALAVER_MODEL: 'mock-model', PALAVER_SERVER_LISTEN: '127.0.0.1:0' }),
        /** Runs the client; the result has the key of its session. */
        start: async (args, input) => {
            const result = await ok(['run', '--store', store, '--provider', upstream, '--provider-url',
                `${url}/v1`, ...(model ? ['--model', model] : []), client, ...args], input);
            const key = /^palaver: session (\S+) /m.exec(result.err)?.[1];
            return { ...result, key };
        },
        sessions: async () =>
            JSON.parse((await ok(['--store', store, '--json', 'session', 'list'])).out).sessions,
        recorded: (key) => show(store, key),
        /** The session that an import of the client's transcripts makes. */
        imported: async (transcripts, key) => {
            const db = path.join(dir, 'imported.db');
            const report = JSON.parse((await ok(['--store', db, '--json', 'session', 'import',
                transcripts])).out);
            return { report, ...await show(db, key) };
        },
    };
}

const outputOf = (part) => part.output ?? (part.parts ?? []).map((inner) => inner.text ?? '').join('');

// JSON in one spelling, because clients parse and write the arguments of a call.
const spelled = (text) => {
    try { return JSON.stringify(JSON.parse(text)); } catch { return text; }
};

/** Runs the examples of docs/coding-agents.md that start the client: with `palaver run`, after which the
 *  conversation is taken back if the client can do that, and with a server that runs. */
export async function runExamples(t, place) {
    const text = fs.readFileSync(new URL('../coding-agents.md', import.meta.url), 'utf8');
    const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block)
        .filter((block) => new RegExp(`(^|[ =])${place.client} `, 'm').test(block));
    assert.ok(blocks.length === 3 || (place.client === 'opencode' && blocks.length === 2));
    const [own, served, back = ''] = blocks;
    for (const block of [own + back, served]) {
        const w = await workplace(t, place);
        fs.symlinkSync(binary, path.join(w.dir, 'bin/palaver'));
        const script = block.replaceAll('http://127.0.0.1:7077', process.env.PALAVER_URL);
        const { code, out, err } = await w.shell(script);
        assert.equal(code, 0, `${script}\n${err}\n${out}`);
        assert.match(out, /echo: [^]*Which files are here\?/);
        assert.equal(/echo: [^]*And now\?/.test(out), block.includes('And now?'), out);
    }
}

/** The contents of a session as comparable rows: texts, calls and results, without reasoning. `isOwn`
 *  says which texts count. */
export function rows(session, isOwn = () => true) {
    const all = [];
    for (const { role, content, parts } of session.messages) {
        for (const part of parts ?? [{ type: 'text', text: content }]) {
            if (part.type === 'text' && isOwn(role, part.text)) all.push([role, part.text.trimEnd()]);
            if (part.type === 'tool_call') all.push(['call', part.call_id, part.name, spelled(part.arguments)]);
            if (part.type === 'tool_result') all.push(['result', part.call_id, outputOf(part).trimEnd()]);
        }
    }
    return all;
}
