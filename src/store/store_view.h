/* store_view.h - what a session shows: its own rows, those it shares with its parents, and not
 * those that rewinds and resets took out of sight. Composed here, above the backends, so that none
 * of them has to know. */
#ifndef PAL_STORE_VIEW_H
#define PAL_STORE_VIEW_H

#include "store/store_backend.h"

/* Finds a session of the tenant by id. ERASED counts as not found, expired shows as TRASH. */
PAL_CHECKED pal_status pal_view_session(pal_engine *engine, pal_str tenant, pal_id id,
        pal_arena *arena, pal_session_row *out_row, pal_error *err);

/* The message of a row, in the arena. PAL_CORRUPT when the row's body is damaged. */
PAL_CHECKED pal_status pal_view_decode(
        const pal_row *row, pal_arena *arena, pal_message *out_message, pal_error *err);

PAL_CHECKED pal_status pal_view_load(pal_engine *engine, const pal_session_row *session,
        const pal_load *load, pal_arena *arena, pal_messages *out_messages, pal_error *err);

/* All marks that bear on the session, resolved, inherited ones first. */
PAL_CHECKED pal_status pal_view_marks(pal_engine *engine, const pal_session_row *session,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err);

/* Fills in the work's fork_parent, fork_seq and fork_mark: the session that owns the row `at_seq`
 * of `parent`, which may be an ancestor of it. */
PAL_CHECKED pal_status pal_view_fork(pal_engine *engine, pal_work *work, pal_id parent,
        uint64_t at_seq, pal_arena *arena, pal_error *err);

#endif
