// frame.js - runs HTML and SVG that a model wrote, but only after a person has asked for it.
//
// The text runs in a frame whose headers give it no origin and no network. The frame is a file and
// gets the text as a message, because an inline frame would have the policy of this page.
import { h } from './core.js';
import { button, dialog } from './parts.js';

const LANGUAGES = new Set(['html', 'htm', 'xhtml', 'svg']);

export const canRun = (language) => LANGUAGES.has(language.toLowerCase());

function frameOf(text) {
    const frame = h('iframe', { class: 'artifact', sandbox: 'allow-scripts',
        title: 'What the model wrote, while it runs', referrerPolicy: 'no-referrer',
        src: new URL('frame.html', import.meta.url).href });

    frame.addEventListener('load', () => frame.contentWindow.postMessage(text, '*'),
        { once: true });
    return frame;
}

function askToRun(run) {
    dialog('Run what the model wrote?', (close) => [
        h('p', null, 'It runs in a frame that cannot reach this page, your login or the network. '
            + 'Browsers leave two gaps: WebRTC and name lookups can send a few bytes out.'),
        h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary',
            onclick: () => {
                close();
                run();
            } }, 'Run'), button('Cancel', close)),
    ]);
}

// A button that shows the text as a document below the code, or removes it.
export function runButton(text) {
    let frame = null;
    const toggle = h('button', { type: 'button', class: 'copy', onclick: () => {
        if (frame) {
            frame.remove();
            frame = null;
            toggle.textContent = 'Run…';
            return;
        }
        askToRun(() => {
            frame = frameOf(text);
            toggle.closest('figure').append(frame);
            frame.scrollIntoView({ block: 'nearest' });
            toggle.textContent = 'Stop';
        });
    } }, 'Run…');

    return toggle;
}
