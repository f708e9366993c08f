/* turn_outcome.h - what the store says of a turn. */
#ifndef PAL_TURN_OUTCOME_H
#define PAL_TURN_OUTCOME_H

#include "turn/turn_holder.h"
#include "turn/turn_runtime.h"

typedef struct pal_outcome {
    pal_turn_state state; /* QUEUED, RUNNING, DONE, FAILED or CANCELED */
    pal_id turn;          /* that acts: of merged turns, the first */
    pal_id session;
    pal_id item;        /* QUEUED, RUNNING: its item in the inbox */
    pal_holder holder;  /* of the session's lease */
    bool is_held;       /* a process holds the session's lease, and is not known to be dead */
    bool is_gone;       /* the session is in the trash, or has expired */
    pal_message *said;  /* answers of the turn, in order, the newest last; in the arena */
    size_t said_len;
    bool has_open_calls; /* the newest of them has calls without a result */
    pal_str *results; /* the ids of those that have one */
    size_t results_len;
    bool is_last;        /* nothing was said in the session since */
    bool is_paused;         /* RUNNING: it waits for results of the caller's tools */
    const pal_tool *tools;  /* RUNNING, with open calls: those of the caller */
    size_t tools_len;
    const pal_part *asking; /* RUNNING: it waits for this call to be allowed; NULL: it does not */
    bool is_hidden;      /* a rewind or a reset took the newest of its messages out of sight */
    char reason[PAL_ERROR_MESSAGE_MAX]; /* FAILED, CANCELED: why */
} pal_outcome;

/* On any thread but the loop. PAL_NOT_FOUND: the session knows nothing of the turn. */
PAL_CHECKED pal_status pal_outcome_read(pal_store *store, pal_str tenant, pal_id session,
        pal_id turn, pal_arena *arena, pal_outcome *out_outcome, pal_error *err);
/* The same for a turn whose first message is known. Messages with an id of the caller's are not
 * found by the turn's id. */
PAL_CHECKED pal_status pal_outcome_read_from(pal_store *store, pal_str tenant, pal_id session,
        pal_id turn, pal_id first, pal_arena *arena, pal_outcome *out_outcome, pal_error *err);

/* Likewise; finds the session, too. */
PAL_CHECKED pal_status pal_outcome_find(pal_store *store, pal_str tenant, pal_id turn,
        pal_arena *arena, pal_outcome *out_outcome, pal_error *err);

/* The turn that is owed its end in the session, or the first that waits. PAL_NOT_FOUND: it is idle.
 */
PAL_CHECKED pal_status pal_outcome_of_session(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_outcome *out_outcome, pal_error *err);

/* The open calls of the newest answer that the caller runs, as JSON. */
void pal_outcome_put_open(const pal_outcome *outcome, pal_buf *buf);

/* For pal_turn_find() and those like it. */
void pal_outcome_tell(const pal_outcome *outcome, pal_id turn, pal_turn_info *out_info);

#endif
