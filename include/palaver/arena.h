/* arena.h - memory that is released all at once. Reading calls put their results into one. */
#ifndef PALAVER_ARENA_H
#define PALAVER_ARENA_H

#include "palaver/api.h"
#include "palaver/error.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_arena pal_arena;

/* Failure sticks: an arena that ran out of memory or passed `bytes_max` returns NULL from then on,
 * so a caller may check once at the end with pal_arena_failure(). `bytes_max` 0 means no bound.
 * NULL when there is no memory. Release it with pal_arena_free(). */
PAL_API pal_arena *pal_arena_new(size_t bytes_max);

/* Accepts NULL. Everything that was put into the arena is gone afterwards. */
PAL_API void pal_arena_free(pal_arena *arena);

/* Empties the arena, and clears its failure, but keeps its first block for the next use. */
PAL_API void pal_arena_reset(pal_arena *arena);

/* PAL_OK, or what made an earlier call fail: PAL_NO_MEMORY or PAL_LIMIT. */
PAL_API pal_status pal_arena_failure(const pal_arena *arena);

/* Zeroed memory, aligned for any type. NULL on failure. */
PAL_API void *pal_arena_alloc(pal_arena *arena, size_t size);

/* `count` zeroed elements; NULL on failure, also when the product overflows. */
PAL_API void *pal_arena_array(pal_arena *arena, size_t count, size_t element_size);

/* A copy with a NUL behind it (not counted in len). The empty view on failure. */
PAL_API pal_str pal_arena_copy(pal_arena *arena, pal_str text);

#ifdef __cplusplus
}
#endif
#endif
