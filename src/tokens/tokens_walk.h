/* tokens_walk.h - walks through a text piece by piece and counts or reports its tokens. Counting,
 * encoding and streams use it. Used by one thread at a time. */
#ifndef PAL_TOKENS_WALK_H
#define PAL_TOKENS_WALK_H

#include "palaver/tokens.h"
#include "tokens/tokens_merge.h"
#include "tokens/tokens_table.h"

#define PAL_WALK_IDS 512

/* Words occur repeatedly, so the last words are cached. The cache is used only for texts that are
 * long enough to make it worthwhile. */
#define PAL_WALK_CACHE_FROM (8u << 10) /* bytes of text */
#define PAL_WALK_SLOT_BITS 11
#define PAL_WALK_WORDS 1024
#define PAL_WALK_WORD_LEN_MAX 32
#define PAL_WALK_WORD_TOKENS_MAX 7

struct pal_walk_word {
    uint8_t len; /* 0: empty */
    uint8_t tokens_len;
    uint32_t tokens[PAL_WALK_WORD_TOKENS_MAX];
    unsigned char bytes[PAL_WALK_WORD_LEN_MAX];
};

struct pal_walk_cache {
    /* As in the table. But instead of the token, a slot contains the number of tokens of the word
     * or, with a sink, the id of its only token. */
    struct pal_slot slots[1 << PAL_WALK_SLOT_BITS];
    /* Words of several tokens. */
    struct pal_walk_word words[PAL_WALK_WORDS];
};

struct pal_walk {
    struct pal_table table;
    uint64_t count;
    pal_token_stream_on_ids sink; /* NULL: only counts */
    void *user;
    size_t ids_len;               /* ids that wait for the sink */
    pal_status failure;           /* permanent: PAL_NO_MEMORY, or PAL_CANCELED by the sink */
    struct pal_walk_cache *cache; /* may be NULL */
    struct pal_merge merge;
    uint32_t ids[PAL_WALK_IDS];
};

void pal_walk_init(struct pal_walk *walk, const pal_encoding *encoding,
        pal_token_stream_on_ids sink, void *user);
void pal_walk_done(struct pal_walk *walk);

/* Handles all decided pieces; with `is_final`, the whole text. Returns their length in bytes. */
size_t pal_walk_text(struct pal_walk *walk, const unsigned char *p, size_t len, bool is_final);

/* Handles one complete piece. */
void pal_walk_piece(struct pal_walk *walk, const unsigned char *p, size_t len);

/* Handles the decided part of a piece that continues and that is longer than any token. Returns its
 * length in bytes. */
size_t pal_walk_front(struct pal_walk *walk, const unsigned char *p, size_t len);

/* Handles the rest of such a piece, which ends here. */
void pal_walk_rest(struct pal_walk *walk, const unsigned char *p, size_t len);

/* Passes the waiting ids to the sink. */
void pal_walk_flush(struct pal_walk *walk);

#endif
