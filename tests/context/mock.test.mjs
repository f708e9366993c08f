// Repaired requests in the form of chat completions: the scripted model, which refuses invalid
// transcripts as real services do, accepts all of them.
import { spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import test from 'node:test';
import { MockModel } from '../conformance/mock-model.mjs';

const dump = process.env.CONTEXT_DUMP;
const count = process.env.CONTEXT_REQUESTS ?? '500';
const seed = process.env.PAL_TEST_SEED ?? '1';

assert.ok(dump, 'CONTEXT_DUMP names the program that prints requests');

// Returns the requests for one profile, and the response to each.
async function answers(profile) {
    const { status, stdout } = spawnSync(dump, [profile, count, seed], { maxBuffer: 1 << 30 });
    assert.equal(status, 0, `${profile}: no requests`);
    const requests = stdout.toString().split('\n').filter(Boolean);
    const mock = new MockModel({ maxRecords: 1 });
    const url = `${await mock.listen()}/v1/chat/completions`;
    const statuses = [];
    try {
        for (const body of requests) {
            const reply = await fetch(url, { method: 'POST', body });
            statuses.push({ status: reply.status, body, text: await reply.text() });
        }
    } finally {
        await mock.close();
    }
    return statuses;
}

for (const profile of ['openai_chat', 'mistral']) {
    test(`no request for ${profile} is refused`, async () => {
        const all = await answers(profile);
        assert.ok(all.length > Number(count) / 2);
        for (const { status, body, text } of all) assert.equal(status, 200, `${text}\n${body}`);
    });
}

test('without the repair many are', async () => {
    const refused = (await answers('raw')).filter(({ status }) => status === 400);
    assert.ok(refused.length > Number(count) / 10);
});
