/* compile.h - definitions that the parts of the compiler share. Everything is in the arena
 * of the call; its failure is checked at the end of each step. */
#ifndef PAL_COMPILE_H
#define PAL_COMPILE_H

#include "palaver/arena.h"
#include "tokens/tokens_table.h"

/* A token of the vocabulary. Its number is its position. */
struct pal_vocab_token {
    const unsigned char *bytes;
    uint32_t len;
    uint32_t id;
    uint32_t line;
    bool is_merged; /* merging can make it; true for bytes */
    uint32_t left;
    uint32_t right;
    uint32_t prefix;
};

struct pal_vocab {
    struct pal_vocab_token *tokens;
    uint32_t len;
    /* Numbers by bytes, with open addressing: number + 1; 0: free. */
    uint32_t *index;
    uint32_t index_mask;
};

/* Reads tiktoken's format, numbers the tokens and indexes them. */
pal_status pal_vocab_read(struct pal_vocab *vocab, pal_str text, pal_arena *arena, pal_error *err);

/* Finds the two tokens that make each token, if there are any. */
pal_status pal_vocab_merge(struct pal_vocab *vocab, pal_error *err);

/* Makes the table of a vocabulary whose merges are known: `vocabulary` has its name, pattern and
 * special tokens. Works in `work`; only the table is in `arena`. */
pal_status pal_compile_table(const pal_vocabulary *vocabulary, struct pal_vocab *vocab,
        pal_arena *work, pal_arena *arena, pal_str *out_table, pal_error *err);

/* Writes a vocabulary as a pack. `head` is the header of its table. */
pal_status pal_vocab_pack(const struct pal_vocab *vocab, const struct pal_encoding *head,
        pal_str special, pal_arena *arena, pal_str *out_pack, pal_error *err);

/* Makes the pack of a vocabulary, for the build. */
pal_status pal_compile_pack(
        const pal_vocabulary *vocabulary, pal_arena *arena, pal_str *out_pack, pal_error *err);

struct pal_compiled_trie {
    struct pal_place *places;
    uint32_t len;
    uint32_t root;
    uint32_t tokens_len;
};

/* Makes the trie of the tokens that merging can make, and finds their prefixes. */
pal_status pal_compile_trie(struct pal_vocab *vocab, pal_arena *arena,
        struct pal_compiled_trie *out_trie, pal_error *err);

struct pal_compiled_hash {
    struct pal_slot *slots;
    uint16_t *displacements;
    uint32_t slots_len;
    uint32_t bucket_bits;
    uint64_t seed;
};

/* Sets the members of tokens that describe their spines. */
pal_status pal_compile_spines(const struct pal_vocab *vocab, pal_arena *arena,
        struct pal_token *tokens, pal_error *err);

/* Sets the sizes. */
void pal_compile_hash_size(const struct pal_vocab *vocab, struct pal_compiled_hash *out_hash);

/* Fills the arrays that the caller has made, and sets the seed. */
pal_status pal_compile_hash(const struct pal_vocab *vocab, pal_arena *arena,
        struct pal_compiled_hash *out_hash, pal_error *err);

#endif
