/* turn_resume.h - goes on with a turn that nobody runs. */
#ifndef PAL_TURN_RESUME_H
#define PAL_TURN_RESUME_H

#include "store/store_reading.h"
#include "turn/turn_inbox.h"
#include "turn/turn_machine.h"

typedef enum pal_resume_kind {
    PAL_RESUME_DEAD = 0, /* its process died while it answered */
    PAL_RESUME_PAUSED,   /* it waits for results of the caller's tools */
    PAL_RESUME_ASKING,   /* it waits for somebody to allow a call */
} pal_resume_kind;

/* A turn that is owed its end, as the inbox and the messages tell it; in the finder's arena. */
typedef struct pal_resume {
    pal_id item;
    pal_inbox_head head;
    pal_turn_request request; /* its settings */
    pal_resume_kind kind;
    pal_id first_id;    /* of its first message; none: it has recorded nothing */
    uint64_t first_seq; /* 0: likewise */
    pal_str client_id;  /* that was sent first */
    const pal_message *answer; /* with calls that are open; NULL: it has none */
    const pal_message *results;
    size_t results_len;
    const pal_message *recorded; /* answers and results of the turn, in order */
    size_t recorded_len;
    size_t asked; /* ASKING: which of the answer's parts it asks about */
    pal_tool_loop doom;
} pal_resume;

/* On a worker: looks for such a turn; turn->resume. An item that belongs to no turn becomes
 * turn->leftover. */
PAL_CHECKED pal_status pal_resume_look(pal_turn *turn, const pal_reading *reading,
        const pal_inbox_item *items, size_t len, pal_error *err);

/* The caller runs the tool of that name. */
bool pal_resume_is_callers(const pal_turn_request *request, pal_str name);

/* On a worker: says by its open calls how the turn of found->head stands; needs `request` and
 * `first_seq`, sets `kind` and what goes with it. */
PAL_CHECKED pal_status pal_resume_judge(
        const pal_reading *reading, pal_arena *arena, pal_resume *found, pal_error *err);

/* True: the turn that has begun is there to go on with the one that was found, or is that turn. */
bool pal_resume_is_wanted(const pal_turn *turn);

/* On the loop, under the lease: becomes the turn that was found, and goes on with it. */
void pal_resume_begin(pal_turn *turn);

/* From now on the turn has another id; readers find it by that one. */
void pal_turn_rename(pal_turn *turn, pal_id id);

#endif
