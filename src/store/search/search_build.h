/* search_build.h - builds the blocks of the search index from messages, and summaries from blocks.
 * Backends that store the index use it, so that all of them index the same words.
 *
 * A summary is stored like a block (search_block.h), with up to PAL_GROUP_CHILDREN blocks or
 * summaries in place of rows: each term of a child, and which of the children contain it. Terms of
 * sessions and roles are left out.
 *
 * A builder belongs to one thread. */
#ifndef PAL_SEARCH_BUILD_H
#define PAL_SEARCH_BUILD_H

#include "store/search/search_block.h"
#include "store/store_backend.h"

/* A longer text is not indexed. Its row is examined in every search. */
#define PAL_SEARCH_INDEXED_BYTES_MAX ((size_t)256 << 10)

enum { PAL_GROUP_LEVELS = 2, PAL_GROUP_SHIFT = 4, PAL_GROUP_CHILDREN = 1 << PAL_GROUP_SHIFT };

/* ---- Blocks ---- */

typedef struct pal_search_build {
    pal_block_builder *builder; /* the backend adds its terms for the session and the role */
    pal_block_bitmap wide;      /* rows that are not indexed */
    size_t at;                  /* the row that is being added */
    pal_arena *scratch;
    pal_buf text;
    pal_buf normal;
} pal_search_build;

PAL_CHECKED pal_status pal_search_build_begin(pal_search_build *build, pal_error *err);
void pal_search_build_done(pal_search_build *build); /* also after a failed begin */
/* Adds the words of a row. `at` is its number in the block, in ascending order. If the row is too
 * long for the index, its body is not used. A damaged row has no words. */
PAL_CHECKED pal_status pal_search_build_add(
        pal_search_build *build, size_t at, const pal_row *row, bool is_long, pal_error *err);
/* Returns the chunks and the bitmap of rows that are not indexed (empty: none), in the arena. */
PAL_CHECKED pal_status pal_search_build_finish(pal_search_build *build, pal_arena *arena,
        pal_block_chunk **out_chunks, size_t *out_len, pal_str *out_wide, pal_error *err);

/* ---- Summaries ---- */

typedef struct pal_search_group {
    pal_block_builder *builder;
    size_t child; /* the child that is being added */
} pal_search_group;

/* Adds the terms of one chunk of the child. Returns false if the chunk is damaged. */
bool pal_search_group_add(pal_search_group *group, pal_str chunk);
/* Returns the term of children that every search must look into, because they contain rows that
 * are not indexed. */
pal_str pal_search_wide_term(void);

#endif
