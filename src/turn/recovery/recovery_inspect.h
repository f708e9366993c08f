/* recovery_inspect.h - inspects the session when a turn begins. */
#ifndef PAL_RECOVERY_INSPECT_H
#define PAL_RECOVERY_INSPECT_H

#include "turn/turn.h"

/* Returns how many messages at the beginning of the request are results of calls. */
size_t pal_recovery_results(const pal_turn_request *request);

/* Changes the request's messages to the form that will be recorded. The result must depend only on
 * the request, because repeats are recognized by their bytes. The original messages are kept in
 * turn->as_sent. */
PAL_CHECKED pal_status pal_recovery_prepare(pal_turn *turn, pal_error *err);

/* The end of the log: an answer and the results after it. */
typedef struct pal_ending {
    const pal_message *answer; /* NULL: the log ends with another message */
    const pal_message *results;
    size_t results_len;
} pal_ending;

/* On a worker; in the arena. `before_seq` 0: the complete log. */
PAL_CHECKED pal_status pal_recovery_ending(const struct pal_snapshot *snapshot, uint64_t before_seq,
        pal_arena *arena, pal_ending *out_ending, pal_error *err);
/* Returns true if one of the messages has a result of this call. */
bool pal_recovery_has_result(const pal_message *messages, size_t len, pal_str call_id);
/* Makes "interrupted" the result of a call. Returns 0 if there is no memory, otherwise 1. */
size_t pal_recovery_settle(pal_turn *turn, const pal_part *call, pal_message *out_message);
/* Returns a copy of the request's messages as they will be recorded, in the turn's arena. */
PAL_CHECKED pal_status pal_recovery_recorded(
        const pal_turn *turn, pal_message **out_messages, pal_error *err);

/* On a worker: sets turn->commit.messages to the messages to be recorded, with settled calls first,
 * and sets turn->found.leftover. Or sets is_taken, must_wait or resume. */
void pal_recovery_inspect(pal_work_item *item);

#endif
