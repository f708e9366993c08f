/* search.h - declarations that the files of the search share. */
#ifndef PAL_SEARCH_H
#define PAL_SEARCH_H

#include "base/map.h"
#include "store/store_backend.h"

/* Returns whether one of the pieces, which are sorted newest first, contains the row. */
bool pal_pieces_have(const pal_piece *pieces, size_t len, uint64_t handle, uint64_t seq);

/* ---- search_sight.c: which active session shows a message ---- */

typedef struct pal_sight {
    pal_engine *engine;
    pal_str tenant;
    pal_arena *arena; /* for remembered sessions */
    pal_map known;    /* the pieces that each session shows, by id */
} pal_sight;

void pal_sight_init(pal_sight *sight, pal_engine *engine, pal_str tenant, pal_arena *arena);
void pal_sight_done(pal_sight *sight);

/* Finds a session that shows the row: `owner`, if it is active and shows the row; otherwise an
 * active session that shares the row by forks and shows it. *out_session is empty if there is
 * none. */
PAL_CHECKED pal_status pal_sight_find(pal_sight *sight, pal_id owner, uint64_t handle, uint64_t seq,
        pal_id *out_session, pal_error *err);

#endif
