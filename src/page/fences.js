// fences.js - is built in as marked.js if the Markdown parser could not be brought. It knows
// paragraphs and fenced code only, and returns them as that parser does. The raw texts of all
// tokens together are the text.

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)\n?$/;

const withoutEnds = (text) => text.replace(/^\n+|\n+$/g, '');

function isEnd(line, fence) {
    const text = line.trim();

    return text.length >= fence.length && text === fence[0].repeat(text.length);
}

// Each paragraph has the empty lines after it.
function paragraphs(text) {
    return text.split(/(?<=\n\n)(?!\n)/).filter(Boolean).map((raw) => {
        const inner = withoutEnds(raw);

        return inner.trim() ? { type: 'paragraph', raw, text: inner,
            tokens: [{ type: 'text', raw: inner, text: inner }] } : { type: 'space', raw };
    });
}

export function lexer(text) {
    const tokens = [];
    const lines = text.split(/(?<=\n)/);
    let plain = '';

    for (let i = 0; i < lines.length; i++) {
        const open = FENCE.exec(lines[i]);

        if (!open) {
            plain += lines[i];
            continue;
        }
        tokens.push(...paragraphs(plain));
        plain = '';
        const first = i + 1;
        do
            i++;
        while (i < lines.length && !isEnd(lines[i], open[1]));
        tokens.push({ type: 'code', raw: lines.slice(first - 1, i + 1).join(''),
            lang: open[2].trim(), text: lines.slice(first, i).join('').replace(/\n$/, '') });
    }
    return [...tokens, ...paragraphs(plain)];
}
