/* tokens_merge.h - what byte pair encoding makes of a piece that is no token itself: the lowest
 * ranked pair of neighbours merges, leftmost first, until none is left. Found in linear time; see
 * tokens_merge.c for how. Pure functions, any thread. */
#ifndef PAL_TOKENS_MERGE_H
#define PAL_TOKENS_MERGE_H

#include "tokens/tokens_runs.h"
#include "tokens/tokens_table.h"

/* Pieces up to this length are merged at once, on the stack. */
#define PAL_MERGE_SHORT 512
/* Longer ones go through a window of this length, which is doubled in the case, never seen with a
 * vocabulary that was trained, that nothing within it is final. */
#define PAL_MERGE_WINDOW (64u << 10)

/* The end of a window, as far as it is compared with the next one's. */
#define PAL_MERGE_END 4096

/* A border that was final: after which token and before which bytes. */
struct pal_merge_border {
    uint32_t token;
    size_t len; /* 0: none yet */
    unsigned char bytes[PAL_MERGE_END];
};

/* Room to work in. */
struct pal_merge {
    size_t window; /* so many bytes at once */
    uint32_t *tokens;
    uint64_t *dead;
    uint32_t *last; /* NULL in the first, short window */
    struct pal_runs runs;
    struct pal_merge_border border;
    uint64_t work; /* bytes and tokens that were looked at: what merging cost so far */
    uint32_t short_tokens[PAL_MERGE_SHORT];
    uint64_t short_dead[PAL_MERGE_SHORT / 64 + 1];
};

void pal_merge_init(struct pal_merge *merge);
/* Takes a window for a text of `len` bytes, or of PAL_MERGE_WINDOW where that is longer: most texts
 * that don't fit into the short one are a little longer, and large blocks are dear. False: no
 * memory. */
bool pal_merge_fit(struct pal_merge *merge, size_t len);
/* Takes one of twice the size. */
bool pal_merge_grow(struct pal_merge *merge);
void pal_merge_done(struct pal_merge *merge);

/* Merges `len` bytes, 1 to the window: merge->tokens are the tokens; returns how many. */
size_t pal_merge_all(
        const struct pal_table *table, struct pal_merge *merge, const unsigned char *p, size_t len);

/* As pal_merge_all() for the beginning of something longer: returns how many of the tokens stay
 * whatever follows, and how many bytes they are. *out_len is 0 when that cannot be told. Needs a
 * window that was grown. */
size_t pal_merge_front(const struct pal_table *table, struct pal_merge *merge,
        const unsigned char *p, size_t len, size_t *out_len);

#endif
