// Simulates a user at a terminal: runs the command in a terminal, types, and waits for its output.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { binary, here } from './support.mjs';

const PATIENCE_MS = 20000;

// Returns the text without colors, cursor movements and terminal modes.
export function plain(shown) {
    return shown
        .replace(/\x1b\[[0-9;?]*[A-Za-z~]/g, '')
        .replace(/\x1b[()][A-Z0-9]/g, '')
        .replace(/\x1b[=>]/g, '')
        .replace(/\r+\n/g, '\n')
        .replace(/\r/g, '');
}

export class Terminal {
    constructor(t, args, { cwd, env = {}, columns = 80, program = binary }) {
        const ours = Object.entries(process.env)
            .filter(([name]) => !/^(PALAVER_|.*_API_KEY$|COLUMNS$|NO_COLOR$)/.test(name));
        this.shown = '';
        this.at = 0;
        this.child = spawn('python3',
            [path.join(here, 'terminal.py'), String(columns), program, ...args], {
                cwd,
                env: { ...Object.fromEntries(ours), TERM: 'xterm-256color', LC_ALL: 'C.UTF-8',
                    XDG_CONFIG_HOME: '/nonexistent', XDG_DATA_HOME: '/dev/null',
                    XDG_STATE_HOME: path.join(cwd, 'state'), ...env },
                stdio: ['pipe', 'pipe', 'inherit'],
            });
        this.exit = once(this.child, 'close').then(([code]) => {
            this.isOver = true;
            this.wake?.();
            return code;
        });
        this.child.stdout.setEncoding('utf8');
        this.child.stdout.on('data', (data) => {
            this.shown += data;
            this.wake?.();
        });
        this.child.stdin.on('error', () => {});
        t.after(() => this.child.kill());
    }

    order(order) {
        this.child.stdin.write(`${JSON.stringify(order)}\n`);
    }

    type(keys) {
        this.order({ keys });
    }

    resize(columns) {
        this.order({ columns });
    }

    // Waits until the output since the last call matches. Returns the output up to the end of the
    // match, and removes it.
    async see(pattern) {
        const wanted = typeof pattern === 'string'
            ? new RegExp(pattern.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')) : pattern;
        const until = Date.now() + PATIENCE_MS;
        for (;;) {
            const text = plain(this.shown).slice(this.at);
            const match = wanted.exec(text);
            if (match) {
                const end = match.index + match[0].length;
                this.at += end;
                return text.slice(0, end);
            }
            if (this.isOver || Date.now() > until)
                throw new Error(`never saw ${pattern} in:\n${JSON.stringify(text)}`);
            await new Promise((resolve) => {
                const timer = setTimeout(resolve, 1000);
                this.wake = () => { clearTimeout(timer); resolve(); };
            });
        }
    }

    // Waits for a prompt. A signal may have caused it to be drawn again.
    prompt() {
        return this.see(/\n(> )+$/);
    }

    // Types a line and waits for the next prompt. Returns the output in between.
    async say(line) {
        this.type(`${line}\r`);
        return this.prompt();
    }

    async leave() {
        this.type('\x04');
        return this.exit;
    }
}
