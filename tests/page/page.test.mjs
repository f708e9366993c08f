// All tests of the page in one process, because they share one browser.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { closeBrowser, skip } from './browser.mjs';

const files = ['access', 'compare', 'frame', 'hostile', 'keys', 'login', 'marks', 'places', 'prefix',
    'speed', 'stream', 'talk', 'turn', 'usage', 'window'];

if (skip) test('the page in a browser', { skip });
for (const name of skip ? [] : files) await import(`./${name}.mjs`);

test('README.md has all scenarios, and the page has the lines that they break', () => {
    const file = (name) => fileURLToPath(new URL(name, import.meta.url));
    const made = execFileSync(process.execPath, [file('scenarios.mjs'), '--table'],
        { encoding: 'utf8' });

    assert.equal(fs.readFileSync(file('README.md'), 'utf8'), made);
});

after(closeBrowser);
