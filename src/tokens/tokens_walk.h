/* tokens_walk.h - goes through a text piece by piece and counts, or tells, its tokens: what
 * counting, encoding and streams have in common. One thread at a time. */
#ifndef PAL_TOKENS_WALK_H
#define PAL_TOKENS_WALK_H

#include "palaver/tokens.h"
#include "tokens/tokens_merge.h"
#include "tokens/tokens_table.h"

#define PAL_WALK_IDS 512

/* Words come again and again: those seen last are kept where they are found at once. This is only
 * taken for texts that are long enough to repay it. */
#define PAL_WALK_CACHE_FROM (8u << 10) /* bytes of text */
#define PAL_WALK_SLOT_BITS 11
#define PAL_WALK_WORDS 1024
#define PAL_WALK_WORD_LEN_MAX 32
#define PAL_WALK_WORD_TOKENS_MAX 7

struct pal_walk_word {
    uint8_t len; /* 0: none yet */
    uint8_t tokens_len;
    uint32_t tokens[PAL_WALK_WORD_TOKENS_MAX];
    unsigned char bytes[PAL_WALK_WORD_LEN_MAX];
};

struct pal_walk_cache {
    /* As in the table, but instead of the token there is how many tokens the word is or, with a
     * sink, the id of the one token that it is. */
    struct pal_slot slots[1 << PAL_WALK_SLOT_BITS];
    /* Words of several tokens. */
    struct pal_walk_word words[PAL_WALK_WORDS];
};

struct pal_walk {
    struct pal_table table;
    uint64_t count;
    pal_token_sink sink; /* NULL: only counts */
    void *user;
    size_t ids_len;               /* that wait for the sink */
    pal_status failure;           /* sticks: PAL_NO_MEMORY, or PAL_CANCELED by the sink */
    struct pal_walk_cache *cache; /* or NULL */
    struct pal_merge merge;
    uint32_t ids[PAL_WALK_IDS];
};

void pal_walk_init(
        struct pal_walk *walk, const pal_encoding *encoding, pal_token_sink sink, void *user);
void pal_walk_done(struct pal_walk *walk);

/* Takes all pieces that are decided, all of the text when `is_final`; returns how many bytes they
 * are. */
size_t pal_walk_text(struct pal_walk *walk, const unsigned char *p, size_t len, bool is_final);

/* Takes one whole piece. */
void pal_walk_piece(struct pal_walk *walk, const unsigned char *p, size_t len);

/* Takes of a piece that goes on, and has no token as long as it, what is decided; returns how many
 * bytes that is. */
size_t pal_walk_front(struct pal_walk *walk, const unsigned char *p, size_t len);

/* Takes the rest of such a piece, which ends here. */
void pal_walk_rest(struct pal_walk *walk, const unsigned char *p, size_t len);

/* Gives the sink what waits for it. */
void pal_walk_flush(struct pal_walk *walk);

#endif
