/* search_choose.h - finds, in the blocks of an index, the rows that a ranked search should read.
 *
 * A search of a million messages must not read every message that contains one of its words. The
 * blocks say which rows have which words, so the rows with the most and rarest words are found
 * without reading a message. The caller reads these and ranks them exactly.
 *
 * - Frequent words choose no rows, unless there are no other words. How frequent a word is, is
 *   estimated from a few blocks spread over the range.
 * - For the other words, the summaries say which blocks contain them. The rarest words come first,
 *   until PAL_CHOOSE_LOOKS_MAX look-ups are used. So the cost of a search has a limit, whatever it
 *   asks for.
 * - If too few rows are found, the newest rows with the frequent words are added.
 *
 * The words' numbers of rows count only rows that pass the filters: the search of a tenant must not
 * tell how often others use a word. */
#ifndef PAL_SEARCH_CHOOSE_H
#define PAL_SEARCH_CHOOSE_H

#include "store/search/search_build.h"
#include "store/search/search_rank.h"

enum {
    PAL_CHOOSE_NODES_MAX = PAL_GROUP_CHILDREN, /* blocks or summaries in one call of look() */
    PAL_CHOOSE_LOOKS_MAX = 2000, /* look-ups of a word in a block, for one search; about */
};

/* A block (level 0) or a summary. */
typedef struct pal_choose_node {
    int level;
    int64_t number;
    uint64_t wanted; /* mask of the terms to look up */
    bool is_sound;   /* output: false: it is missing or damaged */
} pal_choose_node;

/* Looks up terms in nodes of one level. `rows` has a bitmap for each node and term, zeroed: node 0
 * with all terms, then node 1. */
typedef pal_status (*pal_choose_look)(void *user, pal_choose_node *nodes, size_t nodes_len,
        const pal_term *terms, size_t terms_len, pal_block_bitmap *rows, pal_error *err);

typedef struct pal_chooser {
    const pal_rank_query *query;
    pal_choose_look look;
    void *user;
    int64_t first_block;
    size_t blocks_len;
    bool *is_gap; /* for each block: it is not in the index. The chooser adds damaged ones. The
                     caller reads all rows of these blocks */
    const pal_term *all_of; /* every row must have these terms */
    size_t all_of_len;
    const pal_term *any_of; /* every row must have one of these terms; none: any row will do */
    size_t any_of_len;
    size_t rows_max;
    pal_arena *arena;
    /* Results. */
    uint64_t *places; /* chosen rows: number of the block in the range * PAL_BLOCK_ROWS + row,
                         descending */
    size_t places_len;
    pal_rank_counts *counts;
} pal_chooser;

PAL_CHECKED pal_status pal_choose(pal_chooser *chooser, pal_error *err);

/* A row that may be chosen. */
typedef struct pal_choose_row {
    uint64_t place; /* larger means newer */
    uint64_t terms; /* the terms that it is known to have */
} pal_choose_row;

/* Keeps the `max` choices with the largest sums of weights, the newer one if two are equal, in any
 * order. Returns false if memory runs out. */
bool pal_choose_keep(pal_choose_row *choices, size_t *len, size_t max, const double *weights);

#endif
