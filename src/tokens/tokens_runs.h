/* tokens_runs.h - guesses the tokens of long runs of one byte. Vocabularies have tokens of many
 * lengths for runs of dashes, spaces and so on, so a search fails at nearly every position of such
 * a run. Merging is cheap there if a run of equal tokens is one item. This file merges a stretch of
 * text in that way, as if the text began and ended there. Pure functions for any thread. */
#ifndef PAL_TOKENS_RUNS_H
#define PAL_TOKENS_RUNS_H

#include "tokens/tokens_table.h"

/* Number of equal bytes that count as a long run. */
#define PAL_RUNS_LEN 96
/* Maximum number of items of a stretch: at the beginning, and while it is merged. */
#define PAL_RUNS_FIRST 4
#define PAL_RUNS_ITEMS 256

/* The same token, repeated. */
struct pal_runs_item {
    uint32_t token;
    uint32_t count;
    uint32_t doubled; /* the token that two of it make, even if there is only one */
    uint32_t joined;  /* the token that it makes with `next` */
    uint32_t next;    /* the token of the next item at the time of that lookup */
};

struct pal_runs {
    size_t at;    /* position of the next guessed token */
    size_t end;   /* end of the guesses; a stretch is not guessed twice */
    size_t item;  /* the next guess is the token of this item */
    size_t taken; /* how many times the token was already used */
    size_t items_len;
    struct pal_runs_item items[PAL_RUNS_ITEMS];
};

/* Returns true if the text begins with a long run. */
static inline bool pal_runs_begin(const unsigned char *p, size_t len)
{
    uint64_t word;

    if (len < PAL_RUNS_LEN)
        return false;
    word = pal_table_word(p);
    return word == pal_table_word(p + 8) && word == (word >> 8 | word << 56) &&
            memcmp(p, p + 1, PAL_RUNS_LEN - 1) == 0;
}

/* Guesses the tokens of a text of `len` bytes from `at` on, as far as there are long runs. The
 * first run begins at `run`, a few bytes after `at`. The guess ends after `run`. Returns the number
 * of items that were examined. */
size_t pal_runs_guess(const struct pal_table *table, struct pal_runs *runs, const unsigned char *p,
        size_t at, size_t run, size_t len);

/* Returns the token that is guessed at `at`, or PAL_TOKEN_NONE. */
static inline uint32_t pal_runs_token(const struct pal_runs *runs, size_t at)
{
    return runs->at == at && at < runs->end && runs->item < runs->items_len
            ? runs->items[runs->item].token
            : PAL_TOKEN_NONE;
}

/* Moves to the next guess. The current guess was right, and its token has `token_len` bytes. */
static inline void pal_runs_next(struct pal_runs *runs, size_t token_len)
{
    runs->at += token_len;
    if (++runs->taken == runs->items[runs->item].count) {
        runs->taken = 0;
        runs->item++;
    }
}

#endif
