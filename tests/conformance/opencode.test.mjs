// The real opencode with its default settings, over `palaver run`, with a scripted model.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { rows, runExamples, UPSTREAMS, workplace } from './lib/agents.mjs';

const program = fileURLToPath(new URL(
    `../node_modules/opencode-${process.platform}-${process.arch}/bin/opencode`, import.meta.url));
const skip = fs.existsSync(program) ? false : 'npm has no opencode for this system';
// Nothing but the requests to the server leaves the machine.
const env = { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    npm_config_registry: 'http://127.0.0.1:9', npm_config_fetch_retries: '0' };
// A model of Anthropic makes opencode use Anthropic's API.
const MODELS = { openai: 'mock-model', anthropic: 'claude-sonnet-4-5' };

for (const upstream of Object.keys(UPSTREAMS)) {
    test(`opencode over ${upstream}: a title does not change the session`, { skip }, async (t) => {
        const w = await workplace(t, { client: 'opencode', program, upstream, env, model: MODELS[upstream] });
        const tool = (command) => `<<tool bash ${JSON.stringify({ command, description: 'Run' })}>>`;
        const ask = async (prompt, ...args) => {
            const { key, out } = await w.start(['run', ...args], prompt);
            return { key, said: out.trim() };
        };
        const prompt = `${tool('echo $((6 * 7))')}<<next>>${tool('echo again')}<<next>><<say It is 42.>>`;
        const first = await ask(prompt);
        assert.match(first.said, /It is 42\.$/);
        assert.match(first.key, /^opencode:ses_/);
        const second = await ask('<<say Bye.>>', '--continue');
        assert.equal(second.key, first.key);

        const said = rows(await w.recorded(first.key));
        assert.deepEqual(said.map(([kind, text]) => (kind === 'call' || kind === 'result' ? kind : [kind, text])),
            [['user', prompt], 'call', 'result', 'call', 'result', ['assistant', 'It is 42.'],
                ['user', '<<say Bye.>>'], ['assistant', 'Bye.']]);
        assert.deepEqual(said.filter(([kind]) => kind === 'result').map(([, , text]) => text), ['42', 'again']);
        const keys = (await w.sessions()).map(({ key }) => key).filter((key) => key !== `${first.key}:side`);
        assert.deepEqual(keys, [first.key], 'there is one session, and no branch');
    });
}

test('the examples in docs/coding-agents.md run', { skip }, (t) =>
    runExamples(t, { client: 'opencode', program, upstream: 'openai', env }));
