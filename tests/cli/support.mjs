// Runs the built command, each test in a separate directory. If a test fails, the output of its last
// commands is printed.
import { spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { reportOnFailure, Steps } from '../support/report.mjs';

export const binary = process.env.PALAVER_BIN;
export const here = path.dirname(fileURLToPath(import.meta.url));

assert.ok(binary, 'PALAVER_BIN names the command to test');

// Creates a directory, which is removed after the test.
export function workspace(t) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-cli-'));
    fs.mkdirSync(path.join(dir, 'palaver-data')); // otherwise the user's conversations would be used
    t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
    const steps = new Steps();
    reportOnFailure(t, () => steps.lines());
    const run = (...args) => {
        const last = args[args.length - 1];
        const options = typeof last === 'object' ? args.pop() : {};
        const result = palaver(args, { cwd: dir, ...options });
        steps.add(`palaver ${args.join(' ')}: exit ${result.code ?? result.signal}`,
            result.err + result.out);
        return result;
    };
    return {
        dir,
        names: () => fs.readdirSync(dir).filter((name) => name !== 'palaver-data').sort(),
        file: (name) => path.join(dir, name),
        write: (name, text) => {
            fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
            fs.writeFileSync(path.join(dir, name), text);
        },
        run,
        // Returns the output. If the command fails, the test fails.
        ok: (...args) => {
            const result = run(...args);
            assert.equal(result.code, 0, `palaver ${args.join(' ')}: ${result.err}`);
            return result.out;
        },
        json: (...args) => {
            const options = typeof args[args.length - 1] === 'object' ? [args.pop()] : [];
            const result = run(...args, '--json', ...options);
            assert.equal(result.code, 0, `palaver ${args.join(' ')}: ${result.err}`);
            return JSON.parse(result.out);
        },
    };
}

export function palaver(args, options = {}) {
    // The tests ignore the configuration of the user who runs them.
    const ours = Object.entries(process.env).filter(([name]) => !name.startsWith('PALAVER_'));
    const env = { ...Object.fromEntries(ours), TZ: 'UTC', XDG_CONFIG_HOME: '/nonexistent',
        XDG_DATA_HOME: '/dev/null',
        ...options.env };
    delete env.COLUMNS;
    const result = spawnSync(binary, args, {
        cwd: options.cwd,
        env,
        input: options.input ?? '',
        uid: options.uid,
        gid: options.gid,
        maxBuffer: 1 << 28,
        timeout: 120000,
    });
    // The command can end before it has read its input.
    if (result.error && result.error.code !== 'EPIPE') throw result.error;
    return {
        code: result.status,
        signal: result.signal,
        out: result.stdout.toString(),
        err: result.stderr.toString(),
        outBytes: result.stdout,
    };
}

// The command failed with one line for the problem, perhaps one for the remedy, and no output.
export function assertFails(result, code, pattern) {
    assert.equal(result.out, '', 'nothing on stdout');
    assert.match(result.err, /^palaver: [^\n]+\n(hint: [^\n]+\n)?$/);
    assert.match(result.err, pattern);
    assert.equal(result.code, code);
}

// Replaces what differs from run to run: ids and times, and token counts, which depend on the
// installed vocabularies.
export function stable(text) {
    return text
        .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
        .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>')
        .replace(/\b\d[\d,]* tokens\b/g, '<n> tokens');
}

// Compares with golden/NAME; GOLDEN_UPDATE=1 writes it instead.
export function assertGolden(name, text) {
    const file = path.join(here, 'golden', name);
    if (process.env.GOLDEN_UPDATE) fs.writeFileSync(file, text);
    assert.equal(text, fs.readFileSync(file, 'utf8'), `differs from golden/${name}`);
}

export function digest(file) {
    return crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');
}

export const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

// Returns the text of a message in the native form.
export function textOf(message) {
    if (typeof message.content === 'string') return message.content;
    return message.parts.map((part) => part.text ?? '').join('');
}

export const textsOf = (shown) => shown.messages.map(textOf);

// Messages in the native form.
export const message = (content, more) => ({ role: 'user', content, ...more });

// The messages of a session: role and text, call or result.
export const rowsOf = (shown) => shown.messages.flatMap(({ role, content, parts }) =>
    (parts ?? [{ type: 'text', text: content }]).map((part) => part.type === 'tool_call'
        ? [role, part.call_id, part.name, part.arguments]
        : part.type === 'tool_result' ? [role, part.call_id, part.output] : [role, part.type === 'text' ? part.text : part]));
