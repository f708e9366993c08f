// Explains failed black-box tests: what was done last, and the end of the server's log.

const LAST_STEPS = 4;
const LOG_LINES = 25;
const TEXT_MAX = 1500; // characters per step

const shorten = (text) =>
    (text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)} ... (${text.length} characters)` : text);

// Calls `lines` if the test fails, and prints the lines below its result. Before Node 20.12 a test
// cannot see that it failed; then nothing is printed.
export function reportOnFailure(t, lines) {
    t.after(() => {
        if (t.error) for (const line of lines()) t.diagnostic(line);
    });
}

// The last requests or commands of a test: add() keeps one, and lines() shows them.
export class Steps {
    #steps = [];

    add(title, text) {
        this.#steps.push(`${title}\n${shorten(text)}`.trimEnd());
        if (this.#steps.length > LAST_STEPS) this.#steps.shift();
    }

    lines() {
        return this.#steps.flatMap((step) => step.split('\n').map((line, i) => (i ? `  ${line}` : line)));
    }
}

export const logTail = (log) =>
    ['log:', ...log.trimEnd().split('\n').slice(-LOG_LINES).map((line) => `  ${line}`)];
