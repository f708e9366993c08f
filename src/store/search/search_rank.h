/* search_rank.h - the words of a ranked search, and how they are counted and weighed.
 *
 * Any of the words may occur in a message. A word stands for all words with its stem
 * (search_fold.h), a prefix for all words that begin with it. A run without spaces is divided into
 * pairs of neighboring characters, as in the index. Phrases in quotes are required, and their words
 * are weighed like the others.
 *
 * The weight of a word says how rare it is (BM25's idf), so no list of frequent words is needed.
 *
 * These are pure functions over the caller's memory. Any thread can call them. */
#ifndef PAL_SEARCH_RANK_H
#define PAL_SEARCH_RANK_H

#include "store/search/search_words.h"

/* Different words of a ranked search that count. One bit each in a mask. */
#define PAL_RANK_TERMS_MAX 64

typedef struct pal_rank_term {
    pal_str text;   /* the stem, the pair of characters or the prefix */
    bool is_prefix; /* the caller wants all words that begin with the text */
    pal_term index; /* how the index is asked for it */
} pal_rank_term;

enum { PAL_RANK_SLOTS = 2 * PAL_RANK_TERMS_MAX };

typedef struct pal_rank_query {
    pal_rank_term terms[PAL_RANK_TERMS_MAX];
    size_t len;
    uint64_t prefixes;             /* mask of the terms that are prefixes */
    uint8_t slots[PAL_RANK_SLOTS]; /* a hash table of the other terms: number + 1; 0: free */
    bool begins[256];              /* whether a term begins with the byte */
    pal_query required; /* phrases in quotes; len 0: none */
} pal_rank_query;

/* Parses the text of a search. Fails like pal_words_query_read(). The result is in the arena. */
PAL_CHECKED pal_status pal_rank_query_read(
        pal_str text, pal_arena *arena, pal_rank_query **out_query, pal_error *err);

/* Returns the mask of the terms that the term of a text belongs to. */
uint64_t pal_rank_terms_of(const pal_rank_query *query, pal_term of);

/* Counts how often each term occurs in a text of this normal form; 255 at most. Returns the mask of
 * the terms that occur. *out_words is the number of words in the text. */
uint64_t pal_rank_tally(const pal_rank_query *query, pal_str normal,
        uint8_t out_counts[PAL_RANK_TERMS_MAX], uint32_t *out_words);

/* Returns how much a term weighs that occurs in `found` of `rows` texts. */
double pal_rank_weight(double rows, double found);
/* Returns BM25 for a term that occurs `count` times in a text of `words` words, where texts have
 * `average` words. */
double pal_rank_score(double weight, uint32_t count, uint32_t words, double average);

/* Called with a word of the search from `at` to `end` of a normal form, and the mask of its terms.
 * Returns false to stop. */
typedef bool (*pal_rank_sink)(size_t at, size_t end, uint64_t terms, void *user);
/* Finds all words of the search in a normal form, in order. */
void pal_rank_find(const pal_rank_query *query, pal_str normal, pal_rank_sink sink, void *user);

/* Returns the place in the text around which the weights are largest. */
size_t pal_rank_place(const pal_rank_query *query, const double *weights, pal_str text);
/* Finds all words of the search in a text, as pal_words_matches() finds phrases. */
size_t pal_rank_matches(
        const pal_rank_query *query, pal_str text, pal_search_match *out_matches, size_t max);

#endif
