// docs/api.md is true: its commands about sessions and messages are run one after the other. The
// response to the last command of a block must be the response that the page shows. "..." on the
// page matches anything that differs from run to run. Fractions are shown with one digit.
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { serve } from '../support.mjs';

const page = fs.readFileSync(new URL('../../../docs/api.md', import.meta.url), 'utf8');
const part = page.slice(page.indexOf('\n## Sessions\n'), page.indexOf('\n## Turns\n'));

function assertShown(actual, shown, where) {
    if (shown === '...') {
        assert.ok(actual !== undefined && actual !== null, where);
    } else if (shown && typeof shown === 'object') {
        assert.deepEqual(Object.keys(actual), Object.keys(shown), where);
        for (const name of Object.keys(shown))
            assertShown(actual[name], shown[name], `${where}.${name}`);
    } else if (typeof shown === 'number' && !Number.isInteger(shown)) {
        assert.equal(Math.round(actual * 10) / 10, shown, where);
    } else {
        assert.deepEqual(actual, shown, where);
    }
}

test('the first minute of README.md works as written', async (t) => {
    const s = await serve(t);
    const readme = fs.readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
    const minute = readme.slice(readme.indexOf('\n## The first minute\n'));
    const run = (script) => spawnSync('bash', ['-ec', script.replaceAll('curl ', 'curl -sSf -m 20 ')
        .replaceAll('localhost:7077', `localhost:${s.port}`)], { cwd: s.dir, timeout: 60000 });
    const [, chat, shown] = minute.match(/^```sh\n(.*?)^```\n\n```json\n(.*?)^```$/ms);
    assertShown(JSON.parse(run(chat).stdout), JSON.parse(shown), chat);
    const [, more] = minute.match(/^```sh\n(curl -X POST.*?)^```$/ms);
    const done = run(more);
    assert.equal(done.status, 0, String(done.stderr));
    const said = [...String(done.stdout).matchAll(/^event: text\ndata: (.*)$/gm)];
    assert.equal(said.map(([, data]) => JSON.parse(data).text).join(''), 'echo: Name a color.');
    const last = JSON.parse(String(done.stdout).trim().split('\n').at(-1));
    assert.deepEqual(last.messages.map((m) => m.content), ['Name a color.']);
});

test('the examples of docs/api.md work as written', async (t) => {
    const s = await serve(t);
    const blocks = [...part.matchAll(/^```sh\n(.*?)^```\n\n```json\n(.*?)^```$/gms)];
    assert.equal(blocks.length, part.match(/^```sh$/gm).length, 'every command has its answer');
    assert.ok(blocks.length >= 6);
    for (const [, commands, shown] of blocks) {
        const script = commands.replaceAll('curl ', 'curl -sSf -m 20 ')
            .replaceAll('localhost:7077', `localhost:${s.port}`);
        const run = spawnSync('bash', ['-ec', script], { cwd: s.dir, timeout: 60000 });
        assert.equal(run.status, 0, `${commands}${run.stderr}`);
        assertShown(JSON.parse(run.stdout), JSON.parse(shown), commands);
    }
});
