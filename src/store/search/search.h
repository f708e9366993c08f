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

/* Returns the pieces that an active session shows, newest first. */
PAL_CHECKED pal_status pal_visibility_pieces(pal_visibility *visibility, pal_id session,
        const pal_piece **out_pieces, size_t *out_len, pal_error *err);

/* ---- search.c ---- */

/* Returns whether the search accepts the row's role, time and sender. */
bool pal_search_wants(const pal_search_query *search, const pal_row *row, pal_arena *scratch);
/* Completes the index as far as `wait_ms` allows. *out_until_us says until when rows may be read
 * that are not in the index; 0: without a limit. */
PAL_CHECKED pal_status pal_search_ready(
        pal_store *store, const pal_search_query *search, int64_t *out_until_us, pal_error *err);
/* Returns whether reading all rows is better than the index. */
bool pal_search_is_short(const pal_store *store, const pal_piece *pieces, size_t len);

/* ---- search_best.c ---- */

/* Runs a ranked search, whose values were checked. */
PAL_CHECKED pal_status pal_search_best(pal_store *store, const pal_search_query *search,
        pal_arena *arena, pal_search_page *out_hits, pal_error *err);

#endif
