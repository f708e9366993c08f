/* store_search.h - what the files of the search share. */
#ifndef PAL_STORE_SEARCH_H
#define PAL_STORE_SEARCH_H

#include "base/map.h"
#include "store/store_backend.h"

/* Whether one of the pieces, newest first, has the row. */
bool pal_pieces_have(const pal_piece *pieces, size_t len, uint64_t handle, uint64_t seq);

/* ---- store_search_sight.c: which active session shows a message ---- */

typedef struct pal_sight {
    pal_engine *engine;
    pal_str tenant;
    pal_arena *arena; /* for what it remembers */
    pal_map known;    /* of what each session shows, by id */
} pal_sight;

void pal_sight_init(pal_sight *sight, pal_engine *engine, pal_str tenant, pal_arena *arena);
void pal_sight_done(pal_sight *sight);

/* The session `owner` that has the row, if it is active and shows it, or else an active one that
 * shares it by forks and does; none in *out_session where nobody does. */
PAL_CHECKED pal_status pal_sight_find(pal_sight *sight, pal_id owner, uint64_t handle, uint64_t seq,
        pal_id *out_session, pal_error *err);

#endif
