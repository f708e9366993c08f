/* recovery_outcome.h - the state of a turn, as the store has it. */
#ifndef PAL_RECOVERY_OUTCOME_H
#define PAL_RECOVERY_OUTCOME_H

#include "turn/recovery/recovery_holder.h"
#include "turn/turn.h"

#define PAL_TURN_UNKNOWN_TEXT                                                                      \
    "the turn does not exist or is no longer in memory; read the session's messages"

typedef struct pal_outcome {
    pal_turn_state state; /* QUEUED, RUNNING, DONE, FAILED or CANCELED */
    pal_id turn;          /* id of the acting turn: the first one of merged turns */
    pal_id session;
    pal_id item;        /* QUEUED, RUNNING: its item in the inbox */
    pal_holder holder;  /* holder of the session's lease */
    bool is_held;       /* a process holds the session's lease, and is not known to be dead */
    bool is_gone;       /* the session is in the trash, or has expired */
    pal_message *said;  /* answers of the turn in order, the newest last; in the arena */
    size_t said_len;
    bool has_open_calls; /* the newest answer has calls without a result */
    pal_str *results; /* ids of its calls that have a result */
    size_t results_len;
    bool is_last;        /* no other message was recorded in the session since */
    bool is_paused;         /* RUNNING: it waits for results of the caller's tools */
    const pal_tool *tools;  /* RUNNING, with open calls: the caller's tools */
    size_t tools_len;
    const pal_question *questions; /* RUNNING: it waits for answers to these questions */
    size_t questions_len;
    bool is_hidden;      /* a rewind or a reset has hidden the newest of its messages */
    char reason[PAL_ERROR_MESSAGE_MAX]; /* FAILED, CANCELED: the reason */
} pal_outcome;

/* Reads the state of a turn in a session. On any thread except the loop. PAL_NOT_FOUND if the
 * session does not know the turn. */
PAL_CHECKED pal_status pal_outcome_read(pal_store *store, pal_str tenant, pal_id session,
        pal_id turn, pal_arena *arena, pal_outcome *out_outcome, pal_error *err);
/* The same for a turn whose first message is known. If the caller chose the message's id, the turn
 * cannot be found by its own id. */
PAL_CHECKED pal_status pal_outcome_read_from(pal_store *store, pal_str tenant, pal_id session,
        pal_id turn, pal_id first, pal_arena *arena, pal_outcome *out_outcome, pal_error *err);

/* The same, but also finds the session. */
PAL_CHECKED pal_status pal_outcome_find(pal_store *store, pal_str tenant, pal_id turn,
        pal_arena *arena, pal_outcome *out_outcome, pal_error *err);

/* Reads the state of the session's unfinished turn, or of the first waiting one. PAL_NOT_FOUND if
 * the session is idle. */
PAL_CHECKED pal_status pal_outcome_of_session(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_outcome *out_outcome, pal_error *err);

/* Writes the open calls of the caller's tools in the newest answer as JSON. */
void pal_outcome_put_open(const pal_outcome *outcome, pal_buf *buf);

/* Fills in the public state, for pal_turn_find() and similar functions. */
void pal_outcome_tell(const pal_outcome *outcome, pal_id turn, pal_turn_info *out_info);

#endif
