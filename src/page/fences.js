// fences.js - is built in as marked.js if the Markdown parser could not be brought. It knows
// paragraphs and fenced code only, and returns them as that parser does.

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)$/;

function isEnd(line, fence) {
    const text = line.trim();

    return text.length >= fence.length && text === fence[0].repeat(text.length);
}

export function lexer(text) {
    const tokens = [];
    const lines = text.split('\n');
    let plain = [];
    const endPlain = () => {
        for (const raw of plain.join('\n').split(/\n{2,}/)) {
            if (raw.trim())
                tokens.push({ type: 'paragraph', raw, tokens: [{ type: 'text', raw, text: raw }] });
        }
        plain = [];
    };

    for (let i = 0; i < lines.length; i++) {
        const open = FENCE.exec(lines[i]);

        if (!open) {
            plain.push(lines[i]);
            continue;
        }
        endPlain();
        const first = i + 1;
        do
            i++;
        while (i < lines.length && !isEnd(lines[i], open[1]));
        tokens.push({ type: 'code', raw: lines.slice(first - 1, i + 1).join('\n'),
            lang: open[2].trim(), text: lines.slice(first, i).join('\n') });
    }
    endPlain();
    return tokens;
}
