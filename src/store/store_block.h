/* store_block.h - a block of the search index: which of its rows have which terms.
 *
 * A block is built once, of rows that no longer change, and never added to; where one of its rows
 * is erased the whole of it is thrown away and built anew. So no word outlives its message.
 *
 * Its terms are sorted and cut into chunks of a few hundred bytes, each found by its first term
 * (the first one by the empty term). In a chunk, each term is: the number of bytes that it shares
 * with the one before; the number of those that follow; these; then its rows: their number, and the
 * distance of each from the one before, or, from BITMAP_MIN on, a bitmap. Numbers have seven bits a
 * byte, the low ones first.
 *
 * Pure functions over plain data; a builder belongs to one thread. */
#ifndef PAL_STORE_BLOCK_H
#define PAL_STORE_BLOCK_H

#include <stdint.h>
#include "palaver/arena.h"
#include "store/store_words.h"

#define PAL_BLOCK_ROWS 1024         /* a power of two; the bitmaps' size */
#define PAL_BLOCK_PAIRS_MAX 1000000 /* of terms and rows; rows beyond it count as wide */

typedef struct pal_bitmap {
    uint64_t words[PAL_BLOCK_ROWS / 64];
} pal_bitmap;

static inline void pal_bitmap_set(pal_bitmap *bitmap, size_t row)
{
    bitmap->words[row / 64] |= UINT64_C(1) << row % 64;
}

static inline bool pal_bitmap_has(const pal_bitmap *bitmap, size_t row)
{
    return (bitmap->words[row / 64] >> row % 64 & 1) != 0;
}

bool pal_bitmap_is_empty(const pal_bitmap *bitmap);
void pal_bitmap_and(pal_bitmap *bitmap, const pal_bitmap *other);
void pal_bitmap_or(pal_bitmap *bitmap, const pal_bitmap *other);
/* As 128 bytes, and back; false where they are not as many. */
pal_str pal_bitmap_write(const pal_bitmap *bitmap, pal_arena *arena);
bool pal_bitmap_read(pal_str bytes, pal_bitmap *out_bitmap);

/* ---- Building ---- */

typedef struct pal_block_builder pal_block_builder;

/* NULL when there is no memory. */
pal_block_builder *pal_block_new(void);
void pal_block_free(pal_block_builder *builder); /* accepts NULL */

/* The row has the term, of at most PAL_TERM_LEN_MAX bytes. Rows come in ascending order. Failure
 * sticks until the end. */
void pal_block_add(pal_block_builder *builder, size_t row, pal_str term);
/* How many pairs there are. */
size_t pal_block_pairs(const pal_block_builder *builder);

typedef struct pal_chunk {
    pal_str term; /* the first one's; empty for the first chunk */
    pal_str data;
} pal_chunk;

/* At least one, in the arena. */
PAL_CHECKED pal_status pal_block_finish(pal_block_builder *builder, pal_arena *arena,
        pal_chunk **out_chunks, size_t *out_len, pal_error *err);

/* ---- Reading ---- */

/* Adds the rows of the term, or of all terms that begin so, to the bitmap. *out_more says that the
 * next chunk may have some too. False when the chunk is damaged. */
bool pal_chunk_find(pal_str chunk, pal_term wanted, pal_bitmap *rows, bool *out_more);
/* Tells each term of the chunk. False when it is damaged. */
bool pal_chunk_each(pal_str chunk, pal_term_sink sink, void *user);

#endif
