/* recovery_resume.h - continues an unfinished turn that no process runs. */
#ifndef PAL_RECOVERY_RESUME_H
#define PAL_RECOVERY_RESUME_H

#include "store/store_snapshot.h"
#include "turn/lane/lane_inbox.h"
#include "turn/turn.h"

typedef enum pal_resume_kind {
    PAL_RESUME_DEAD = 0, /* the turn's process died while the turn ran */
    PAL_RESUME_PAUSED,   /* it waits for results of the caller's tools */
    PAL_RESUME_ASKING,   /* it waits for answers to its questions */
} pal_resume_kind;

/* An unfinished turn, as the inbox and the messages describe it; in the arena of the turn that
 * found it. */
typedef struct pal_resume {
    pal_id item;
    pal_inbox_head head;
    pal_turn_request request; /* the settings of the turn */
    pal_resume_kind kind;
    pal_id first_id;    /* id of its first message; none: it has recorded nothing */
    uint64_t first_seq; /* seq of its first message; 0: it has recorded nothing */
    pal_str client_id;  /* client id of its first message as the client sent it */
    const pal_message *answer; /* the answer with open calls; NULL: there is none */
    const pal_message *results;
    size_t results_len;
    const pal_message *recorded; /* answers and results of the turn, in order */
    size_t recorded_len;
    pal_question *questions; /* ASKING: about open calls of the answer */
    size_t questions_len;
    pal_turn_settings settings; /* PAUSED, ASKING: for the calls that run before the next plan */
    pal_tool_loop doom;
} pal_resume;

/* On a worker: looks for an unfinished turn and sets turn->found.resume. An item that belongs to no
 * turn becomes turn->found.leftover. */
PAL_CHECKED pal_status pal_resume_look(pal_turn *turn, const pal_snapshot *snapshot,
        const pal_inbox_item *items, size_t len, pal_error *err);

/* Returns true if the caller runs the tool with this name. */
bool pal_resume_is_callers(const pal_turn_request *request, pal_str name);

/* On a worker: determines the kind of the turn found->head from its open calls. Requires `request`
 * and `first_seq`; sets `kind` and the members that belong to it. */
PAL_CHECKED pal_status pal_resume_judge(
        const pal_snapshot *snapshot, pal_arena *arena, pal_resume *found, pal_error *err);

/* Returns true if the beginning turn is the turn that was found, or was started to continue it. */
bool pal_resume_is_wanted(const pal_turn *turn);

/* On the loop, with the lease: becomes the turn that was found, and continues it. */
void pal_resume_begin(pal_turn *turn);

#endif
