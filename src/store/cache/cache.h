/* cache.h - recently used sessions in memory: their records, newest messages and marks.
 *
 * These functions take the place of the backend's callbacks with similar names, and of apply(). If
 * the engine has no cache, or the cache does not have the answer, they call the backend. */
#ifndef PAL_CACHE_H
#define PAL_CACHE_H

#include "store/store_backend.h"

typedef struct pal_cache pal_cache;

typedef struct pal_cache_counts {
    uint64_t hits;   /* reads that were answered from memory */
    uint64_t misses; /* reads that the backend answered, as a whole or in part */
    uint64_t bytes;  /* memory in use */
} pal_cache_counts;

/* Gives the engine a cache of at most `bytes_max` bytes, if its backend has outside(). */
PAL_CHECKED pal_status pal_cache_open(pal_engine *engine, uint64_t bytes_max, pal_error *err);
void pal_cache_close(pal_engine *engine);
pal_cache_counts pal_cache_count(const pal_engine *engine);

/* Returns an engine that can only be read with the functions below. They fail with PAL_BUSY instead
 * of calling the backend. NULL: the engine has no cache. */
pal_engine *pal_cache_memory(const pal_engine *engine);

/* Finds a session by its id. */
PAL_CHECKED pal_status pal_cache_session_find(pal_engine *engine, pal_str tenant, pal_id id,
        pal_arena *arena, pal_session_row *out_row, pal_error *err);
PAL_CHECKED pal_status pal_cache_row_scan(pal_engine *engine, const pal_row_scan *scan,
        pal_row_sink sink, void *user, pal_error *err);
PAL_CHECKED pal_status pal_cache_mark_list(pal_engine *engine, const pal_mark_scan *scan,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err);
void pal_cache_apply(pal_engine *engine, pal_work *works, size_t works_len);

#endif
