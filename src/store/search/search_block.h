/* search_block.h - a block of the search index: which of its rows contain which terms.
 *
 * A block is built once, from rows that no longer change, and nothing is added to it later. When
 * one of its rows is erased, the complete block is dropped and built again. Therefore no word
 * remains after its message is erased.
 *
 * The terms are sorted and divided into chunks of a few hundred bytes. A chunk is found by its
 * first term, and the first chunk by the empty term. For each term a chunk contains:
 * - the number of bytes that it shares with the term before;
 * - the number of bytes that follow, and these bytes;
 * - the number of its rows, and the rows: each as the distance from the row before or, from
 *   BITMAP_MIN rows on, all of them as a bitmap.
 *
 * Numbers have seven bits per byte, the low bits first.
 *
 * These are pure functions over plain data. A builder belongs to one thread. */
#ifndef PAL_SEARCH_BLOCK_H
#define PAL_SEARCH_BLOCK_H

#include <stdint.h>
#include "palaver/arena.h"
#include "store/search/search_words.h"

#define PAL_BLOCK_ROWS 1024         /* a power of two; the number of bits of a bitmap */
#define PAL_BLOCK_PAIRS_MAX 1000000 /* maximum pairs of a term and a row; rows after that count as
                                       wide */

typedef struct pal_block_bitmap {
    uint64_t words[PAL_BLOCK_ROWS / 64];
} pal_block_bitmap;

static inline void pal_block_bitmap_set(pal_block_bitmap *bitmap, size_t row)
{
    bitmap->words[row / 64] |= UINT64_C(1) << row % 64;
}

static inline bool pal_block_bitmap_has(const pal_block_bitmap *bitmap, size_t row)
{
    return (bitmap->words[row / 64] >> row % 64 & 1) != 0;
}

bool pal_block_bitmap_is_empty(const pal_block_bitmap *bitmap);
void pal_block_bitmap_and(pal_block_bitmap *bitmap, const pal_block_bitmap *other);
void pal_block_bitmap_or(pal_block_bitmap *bitmap, const pal_block_bitmap *other);
/* Convert a bitmap to 128 bytes and back. pal_block_bitmap_read() returns false if the length is
 * different. */
pal_str pal_block_bitmap_write(const pal_block_bitmap *bitmap, pal_arena *arena);
bool pal_block_bitmap_read(pal_str bytes, pal_block_bitmap *out_bitmap);

/* ---- Building ---- */

typedef struct pal_block_builder pal_block_builder;

/* Returns NULL if memory runs out. */
pal_block_builder *pal_block_new(void);
void pal_block_free(pal_block_builder *builder); /* accepts NULL */

/* Records that the row contains the term, which has at most PAL_TERM_LEN_MAX bytes. Rows must be
 * added in ascending order. pal_block_finish() reports a failure. */
void pal_block_add(pal_block_builder *builder, size_t row, pal_str term);
/* Returns the number of pairs. */
size_t pal_block_pairs(const pal_block_builder *builder);

typedef struct pal_block_chunk {
    pal_str term; /* the chunk's first term; empty for the first chunk */
    pal_str data;
} pal_block_chunk;

/* Returns the chunks, at least one, in the arena. */
PAL_CHECKED pal_status pal_block_finish(pal_block_builder *builder, pal_arena *arena,
        pal_block_chunk **out_chunks, size_t *out_len, pal_error *err);

/* ---- Reading ---- */

/* Adds the rows of the term to the bitmap; for a prefix, the rows of all terms that begin with it
 * and, if the term has a stem, have this stem.
 * *out_more says that the next chunk may contain more of them. Returns false if the chunk is
 * damaged. */
bool pal_block_chunk_find(pal_str chunk, pal_term wanted, pal_block_bitmap *rows, bool *out_more);
/* Calls the sink for each term of the chunk. Returns false if the chunk is damaged. */
bool pal_block_chunk_each(pal_str chunk, pal_term_sink sink, void *user);

#endif
