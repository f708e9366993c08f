// All tests of the page in one process, because they share one browser.
import { after, test } from 'node:test';
import { closeBrowser, skip } from './browser.mjs';

const files = ['access', 'compare', 'frame', 'hostile', 'keys', 'login', 'marks', 'places', 'prefix',
    'speed', 'stream', 'talk', 'turn', 'usage', 'window'];

if (skip) test('the page in a browser', { skip });
for (const name of skip ? [] : files) await import(`./${name}.mjs`);

after(closeBrowser);
