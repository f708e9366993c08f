/* turn_machine.h - the steps of one turn. On the loop, but for what says otherwise. */
#ifndef PAL_TURN_MACHINE_H
#define PAL_TURN_MACHINE_H

#include "turn/turn_runtime.h"

/* Plans and calls the model. */
void pal_turn_next_step(pal_turn *turn);

/* Ends it: what was said so far is recorded first. */
void pal_turn_fail(pal_turn *turn, pal_status status, const char *format, ...) PAL_PRINTF(3, 4);
void pal_turn_stop(pal_turn *turn, const char *reason);

void pal_turn_set_state(pal_turn *turn, pal_turn_state state);
void pal_turn_set_reason(pal_turn *turn, const char *reason);
/* Tells that it is over, and lets the next one begin. */
void pal_turn_finish(pal_turn *turn, pal_turn_state state);

#define PAL_INTERRUPTED_TEXT "[Tool execution was interrupted]"

static inline pal_turn *pal_turn_of_work(pal_work_item *item)
{
    return (pal_turn *)((char *)item - offsetof(pal_turn, work));
}

static inline pal_turn *pal_turn_of_write(pal_write *write)
{
    return (pal_turn *)((char *)write - offsetof(pal_turn, write));
}

/* Appends messages, after the operations that turn->write has already; what is in the inbox under
 * `inbox_ids` leaves it with them, and `ledger` (or NULL) is kept beside them. `done` is told when
 * all is durable, or failed. */
typedef struct pal_turn_append {
    pal_message *messages;
    size_t messages_len;
    const pal_id *inbox_ids;
    size_t inbox_len;
    const pal_ledger_row *ledger;
    void (*done)(pal_write *write);
} pal_turn_append;
void pal_turn_write_append(pal_turn *turn, const pal_turn_append *append);
/* What turn->write failed with; PAL_OK: it didn't. */
pal_status pal_turn_write_status(const pal_turn *turn, pal_error *out_error);

/* ---- turn_admit.c ---- */

/* The session is its own now: admits its messages and runs. */
void pal_turn_begin(pal_turn *turn);

/* ---- turn_summary.c ---- */

/* Asks the model for what turn->job needs, keeps it, and goes on with the next step. */
void pal_summary_ask(pal_turn *turn);
void pal_summary_stop(pal_turn *turn);

/* ---- turn_tools.c ---- */

/* Runs the calls of the answer that was recorded; goes on with the next step when all have ended.
 */
void pal_tools_begin(pal_turn *turn, const pal_message *answer);
/* Stops those that run; what has no result yet gets `text` as one, and all are recorded. */
void pal_tools_stop(pal_turn *turn, const char *text);
/* The caller's results. */
PAL_CHECKED pal_status pal_tools_results(
        pal_turn *turn, const pal_message *messages, size_t len, pal_error *err);
void pal_tools_allow(pal_turn *turn, bool allow);
void pal_tools_done(pal_turn *turn); /* releases */

/* ---- turn_lane.c ---- */

/* The lane of a session, made if need be; NULL without memory. */
pal_lane_state *pal_lane_of(pal_runtime *runtime, pal_str tenant, pal_id session);
pal_lane_state *pal_lane_find(pal_runtime *runtime, pal_str tenant, pal_id session);
/* A new turn: begins, waits, joins or is refused. */
void pal_lane_enter(pal_turn *turn);
/* The turn is over: the next one begins, or the lease is given back. */
void pal_lane_leave(pal_turn *turn);
/* The lease was taken with a turn's first write. */
void pal_lane_leased(pal_lane_state *lane, uint64_t fence);
/* Takes what was said into the running turn; NULL: nothing. */
pal_steer *pal_lane_steer(pal_lane_state *lane);
void pal_steer_free(pal_steer *steer);

/* ---- turn_runtime.c ---- */

/* A turn in its lane, not begun; the arena, with the request in it, is the turn's. NULL on failure:
 * the arena is the caller's still. */
pal_turn *pal_turn_make(
        pal_runtime *runtime, pal_arena *arena, const pal_turn_request *request, pal_error *err);

/* The turn is over: it is remembered for a while, so that readers can come late. */
void pal_runtime_ended(pal_turn *turn, bool has_run);

/* ---- turn_plan.c ---- */

/* On a worker: plans, prunes, and gets everything ready for the model. */
void pal_plan_work(pal_work_item *item);
/* The window that a turn plans for; in the step's arena. */
pal_window pal_turn_window(const pal_turn *turn);

/* ---- turn_price.c ---- */

int64_t pal_price_of(const pal_runtime *runtime, pal_str model, const pal_usage *usage);

#endif
