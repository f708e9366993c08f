// The real Claude Code with its default settings, over `palaver run`, with a scripted model. The session
// must equal the transcript that Claude Code writes.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { rows, runExamples, UPSTREAMS, workplace } from './lib/agents.mjs';

const program = fileURLToPath(new URL(
    `../node_modules/@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`, import.meta.url));
const skip = fs.existsSync(program) ? false : 'npm has no Claude Code for this system';
// Nothing but the requests to the server leaves the machine.
const env = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' };

// Claude Code adds these to what the user said, and does not write them into the transcript as messages.
const isOwn = (role, text) => role !== 'system' && !text.startsWith('<system-reminder>');

for (const upstream of Object.keys(UPSTREAMS)) {
    test(`Claude Code over ${upstream}: the session equals the transcript`, { skip }, async (t) => {
        const w = await workplace(t, { client: 'claude', program, upstream, env, model: null });
        fs.writeFileSync(path.join(w.work, 'notes.txt'), 'remember the milk\n');
        const tool = (name, input) => `<<tool ${name} ${JSON.stringify(input)}>>`;
        const ask = async (prompt, ...args) => {
            const { out, key } = await w.start(['-p', prompt, '--output-format', 'json', ...args]);
            return { key, ...JSON.parse(out) };
        };
        const first = await ask([
            `${tool('Bash', { command: 'echo $((6 * 7))', description: 'Multiply' })}`
            + `${tool('Read', { file_path: path.join(w.work, 'notes.txt') })}`,
            `<<say Now another one. >>${tool('Bash', { command: 'echo "a  b"', description: 'Echo' })}`,
            '<<say It is 42.>>'].join('<<next>>'));
        assert.equal(first.result, 'It is 42.');
        assert.equal(first.key, `claude-code:${first.session_id}`);
        const second = await ask(`${tool('Bash', { command: 'false', description: 'Fail' })}<<next>><<say Sorry.>>`,
            '--resume', first.session_id);
        assert.deepEqual([second.result, second.key], ['Sorry.', first.key]);
        const third = await ask('<<say Bye.>>', '--continue');
        assert.equal(third.key, first.key);

        const recorded = await w.recorded(first.key);
        const imported = await w.imported(path.join(w.home, '.claude/projects'), first.key);
        const said = rows(imported, isOwn);
        assert.equal(said.length, 15);
        assert.deepEqual(rows(recorded, isOwn), said);
        assert.deepEqual(imported.report.problems, []);
        // Claude Code moves its cache marks, and writes one block as a text. That is not another history.
        const keys = (await w.sessions()).map(({ key }) => key);
        assert.deepEqual(keys, [first.key], 'there is one session, and no branch');
    });
}

// The request of a sub-agent has the conversation's id, and a header with the id of the sub-agent.
test('the session of a sub-agent equals its transcript', { skip }, async (t) => {
    const w = await workplace(t, { client: 'claude', program, upstream: 'openai', env, model: null });
    const input = { description: 'Count', prompt: 'Say seven.', subagent_type: 'general-purpose' };
    const { key } = await w.start(['-p', `<<tool Agent ${JSON.stringify(input)}>><<next>><<say Done.>>`]);
    const keys = (await w.sessions()).map((session) => session.key).sort();
    assert.equal(keys.length, 2, `no branches: ${keys}`);
    assert.equal(keys[0], key);
    assert.ok(keys[1].startsWith(`${key}:`), keys[1]);
    // Claude Code wraps the message that the sub-agent has ended, but not in its transcript.
    const isSaid = (role, text) => isOwn(role, text) && !text.startsWith('<task-notification>');
    for (const one of keys) {
        const imported = await w.imported(path.join(w.home, '.claude/projects'), one);
        assert.deepEqual(rows(await w.recorded(one), isSaid), rows(imported, isSaid));
    }
    assert.ok(rows(await w.recorded(keys[1])).some(([, text]) => text === 'Say seven.'));
});

test('the examples in docs/coding-agents.md run', { skip }, (t) =>
    runExamples(t, { client: 'claude', program, upstream: 'openai', env }));
