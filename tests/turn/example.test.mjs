// examples/turn.c works as documented, also when it runs repeatedly on one store.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { withDirectory } from './support.mjs';

test('the example talks', () => withDirectory(async (directory) => {
    const run = (...words) => execFileSync(process.env.TURN_EXAMPLE, words, { cwd: directory, encoding: 'utf8' });
    assert.equal(run('Hello there'), 'echo: Hello there\n(done)\n');
    assert.equal(run(), 'echo: Is anybody there?\n(done)\n');
}));
