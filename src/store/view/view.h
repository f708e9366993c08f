/* view.h - what a session shows: its own rows and the rows it shares with its ancestors,
 * without those that marks hide. This layer is above the backends, so that no backend has to
 * implement it. */
#ifndef PAL_VIEW_H
#define PAL_VIEW_H

#include "store/store_backend.h"

/* Finds a session of the tenant by id. An erased session is not found; an expired one has the state
 * TRASH. */
PAL_CHECKED pal_status pal_view_session(pal_engine *engine, pal_str tenant, pal_id id,
        pal_arena *arena, pal_session_row *out_row, pal_error *err);
/* The same for a caller that will read more of the session; NULL: nothing. */
PAL_CHECKED pal_status pal_view_session_ahead(pal_engine *engine, pal_str tenant, pal_id id,
        const pal_ahead_wants *wants, pal_arena *arena, pal_session_row *out_row, pal_error *err);

/* Decodes a row into a message in the arena. Returns PAL_CORRUPT if the row's body is damaged. */
PAL_CHECKED pal_status pal_view_decode(
        const pal_row *row, pal_arena *arena, pal_message *out_message, pal_error *err);

PAL_CHECKED pal_status pal_view_load(pal_engine *engine, const pal_session_row *session,
        const pal_message_query *load, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err);

/* Returns all marks that affect the session, resolved, inherited marks first. `wanted` is BRIEF or
 * WHOLE. */
PAL_CHECKED pal_status pal_view_marks(pal_engine *engine, const pal_session_row *session,
        pal_marks_wanted wanted, pal_arena *arena, pal_mark **out_marks, size_t *out_len,
        pal_error *err);

/* Sets the work's fork_parent, fork_seq and fork_mark. fork_parent is the session that owns the row
 * `at_seq` of `parent`, which can be an ancestor of `parent`. Marks of `parent` with a number over
 * `mark_max` do not apply to the fork. */
PAL_CHECKED pal_status pal_view_fork(pal_engine *engine, pal_work *work, pal_id parent,
        uint64_t at_seq, uint64_t mark_max, pal_arena *arena, pal_error *err);

/* Finds the session that owns the message `seq` of the operation's session: sets work->fork_parent
 * and work->fork_seq. PAL_NOT_FOUND: the session has no such message. */
PAL_CHECKED pal_status pal_view_owner(
        pal_engine *engine, pal_work *work, uint64_t seq, pal_arena *arena, pal_error *err);

#endif
