/* tokens_merge.h - byte pair encoding of a piece that is not a token itself: the pair of neighbors
 * with the lowest rank is merged, leftmost first, until no pair is left. Takes linear time;
 * tokens_merge.c explains how. Pure functions for any thread. */
#ifndef PAL_TOKENS_MERGE_H
#define PAL_TOKENS_MERGE_H

#include "tokens/tokens_runs.h"
#include "tokens/tokens_table.h"

/* Pieces up to this length are merged at once, on the stack. */
#define PAL_MERGE_SHORT 512
/* Longer pieces are merged in a window of this length. If nothing within the window is final, the
 * window is doubled; this never happened with a trained vocabulary. */
#define PAL_MERGE_WINDOW (64u << 10)

/* The part at the end of a window that is compared with the next window. */
#define PAL_MERGE_END 4096

/* A border that was final: the token before it and the bytes after it. */
struct pal_merge_border {
    uint32_t token;
    size_t len; /* 0: none yet */
    unsigned char bytes[PAL_MERGE_END];
};

/* Working memory. */
struct pal_merge {
    size_t window; /* bytes that are merged at once */
    uint32_t *tokens;
    uint64_t *dead;
    uint32_t *last; /* NULL in the first, short window */
    struct pal_runs runs;
    struct pal_merge_border border;
    uint64_t work; /* bytes and tokens that were examined: the cost of merging so far */
    uint32_t short_tokens[PAL_MERGE_SHORT];
    uint64_t short_dead[PAL_MERGE_SHORT / 64 + 1];
};

void pal_merge_init(struct pal_merge *merge);
/* Allocates a window for a text of `len` bytes, but at most PAL_MERGE_WINDOW. Most texts that do
 * not fit into the short window are only a little longer, and large blocks are expensive. Returns
 * false if there is no memory. */
bool pal_merge_fit(struct pal_merge *merge, size_t len);
/* Allocates a window of twice the size. Returns false if there is no memory. */
bool pal_merge_grow(struct pal_merge *merge);
void pal_merge_done(struct pal_merge *merge);

/* Merges `len` bytes, from 1 to the size of the window. The tokens are in merge->tokens. Returns
 * their number. */
size_t pal_merge_all(
        const struct pal_table *table, struct pal_merge *merge, const unsigned char *p, size_t len);

/* Like pal_merge_all(), for the beginning of a longer text. Returns the number of tokens that stay
 * whatever follows, and their length in bytes. *out_len is 0 if this cannot be decided. The window
 * must have been allocated with pal_merge_fit() or pal_merge_grow(). */
size_t pal_merge_front(const struct pal_table *table, struct pal_merge *merge,
        const unsigned char *p, size_t len, size_t *out_len);

#endif
