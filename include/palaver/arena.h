/* arena.h - memory that is released all at once. Functions that read put their results into an
 * arena of the caller. An arena must be used by one thread at a time. */
#ifndef PALAVER_ARENA_H
#define PALAVER_ARENA_H

#include "palaver/api.h"
#include "palaver/error.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_arena pal_arena;

/* Creates an arena. `bytes_max` limits its size; 0: no limit. NULL if there is no memory. The
 * caller must release it with pal_arena_free().
 *
 * A failure is permanent: after an arena has run out of memory or reached `bytes_max`, all
 * allocations return NULL. So it is enough to check once at the end, with pal_arena_failure(). */
PAL_API pal_arena *pal_arena_new(size_t bytes_max);

/* Frees the arena and everything in it. Accepts NULL. */
PAL_API void pal_arena_free(pal_arena *arena);

/* Empties the arena and clears its failure. Keeps the first block for the next use. */
PAL_API void pal_arena_reset(pal_arena *arena);

/* Returns PAL_OK, or the reason why an earlier allocation failed: PAL_NO_MEMORY or PAL_LIMIT. */
PAL_API pal_status pal_arena_failure(const pal_arena *arena);

/* Allocates zeroed memory, aligned for any type. NULL if it fails. */
PAL_API void *pal_arena_alloc(pal_arena *arena, size_t size);

/* Allocates `count` zeroed elements. NULL if it fails, also if the product overflows. */
PAL_API void *pal_arena_array(pal_arena *arena, size_t count, size_t element_size);

/* Copies a text and adds a NUL, which is not counted in len. Returns an empty text if it fails. The
 * copy of an empty text needs no memory. */
PAL_API pal_str pal_arena_copy(pal_arena *arena, pal_str text);

#ifdef __cplusplus
}
#endif
#endif
