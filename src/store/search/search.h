/* search.h - declarations that the files of the search share. */
#ifndef PAL_SEARCH_H
#define PAL_SEARCH_H

#include "base/map.h"
#include "store/store_backend.h"
#include "store/view/view_chain.h"

/* ---- search_visibility.c: which active session shows a message ---- */

typedef struct pal_visibility {
    pal_engine *engine;
    pal_str tenant;
    pal_pieces_wanted wanted; /* which messages count as shown */
    pal_arena *arena; /* owns the remembered sessions */
    pal_map known;    /* the pieces that each session shows, by id */
} pal_visibility;

void pal_visibility_init(pal_visibility *visibility, pal_engine *engine, pal_str tenant,
        pal_pieces_wanted wanted, pal_arena *arena);
void pal_visibility_done(pal_visibility *visibility);

/* Finds a session that shows the row: `owner`, if it is active and shows the row; otherwise an
 * active session that shares the row by forks and shows it. *out_session is empty if there is
 * none. */
PAL_CHECKED pal_status pal_visibility_find(pal_visibility *visibility, pal_id owner,
        pal_handle handle, uint64_t seq, pal_id *out_session, pal_error *err);

#endif
