/* turn_recover.h - what a turn finds when it begins. */
#ifndef PAL_TURN_RECOVER_H
#define PAL_TURN_RECOVER_H

#include "turn/turn_machine.h"

/* With how many results of calls the request's messages begin. */
size_t pal_recover_results(const pal_turn_request *request);

/* Makes the request's messages what will be recorded, which must not depend on anything but the
 * request: what is sent again is known by its bytes. As they came they are in turn->as_sent. */
PAL_CHECKED pal_status pal_recover_prepare(pal_turn *turn, pal_error *err);

/* What the log ends with: an answer, and the results behind it. */
typedef struct pal_ending {
    const pal_message *answer; /* NULL: it ends with something else */
    const pal_message *results;
    size_t results_len;
} pal_ending;

/* On a worker; in the arena. `before_seq` 0: the log as a whole. */
PAL_CHECKED pal_status pal_recover_ending(const struct pal_reading *reading, uint64_t before_seq,
        pal_arena *arena, pal_ending *out_ending, pal_error *err);
bool pal_recover_has_result(const pal_message *messages, size_t len, pal_str call_id);
/* Makes "interrupted" the result of a call; 0 without memory, else 1. */
size_t pal_recover_settle(pal_turn *turn, const pal_part *call, pal_message *out_message);
/* A copy of the request's messages as they will be recorded, in the turn's arena. */
PAL_CHECKED pal_status pal_recover_recorded(
        const pal_turn *turn, pal_message **out_messages, pal_error *err);

/* On a worker: sets turn->messages to what is to be recorded, settled calls first, and leftover;
 * or is_taken, must_wait or resume. */
void pal_recover_work(pal_work_item *item);

#endif
