// All tests of the page in one process, because they share one browser.
import { after } from 'node:test';
import { closeBrowser } from './browser.mjs';
import './hostile.mjs';
import './login.mjs';
import './places.mjs';
import './talk.mjs';
import './window.mjs';

after(closeBrowser);
