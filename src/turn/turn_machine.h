/* turn_machine.h - the steps of one turn. On the loop, but for what says otherwise. */
#ifndef PAL_TURN_MACHINE_H
#define PAL_TURN_MACHINE_H

#include "turn/turn_runtime.h"

void pal_turn_set_state(pal_turn *turn, pal_turn_state state);
void pal_turn_set_reason(pal_turn *turn, const char *reason);

/* Takes up what was said into it, plans and calls the model. */
void pal_turn_next_step(pal_turn *turn);
/* It is planned, or that has failed: calls the model, or whatever else is to be done. */
void pal_turn_planned(pal_turn *turn);
/* turn->step_arena, made if need be; NULL without memory. */
pal_arena *pal_turn_step_arena(pal_turn *turn);

/* Waits and asks the model again, if the call that has failed may be tried again; false: it may
 * not. */
bool pal_turn_retry(pal_turn *turn, const pal_model_end *end);

/* ---- turn_answer.c ---- */

void pal_answer_record(pal_turn *turn, const pal_model_end *end);
/* Keeps what a call cost that brought no answer. */
void pal_answer_spent(pal_turn *turn, const pal_model_end *end);
/* The same for a call that is about to be canceled: what was sent is not free. */
void pal_answer_cut(pal_turn *turn);
/* Writes a row of the ledger by itself, next to whatever the turn does. Copies id and model; the
 * other texts live as long as the turn. */
void pal_answer_keep_row(pal_turn *turn, const pal_ledger_row *row);
void pal_answer_add_usage(pal_turn *turn, const pal_usage *usage, int64_t cost_micros);
/* Of a call that belongs to no turn. */
void pal_runtime_add_usage(pal_runtime *runtime, const pal_usage *usage, int64_t cost_micros);
/* What was said is what pal_turn_wait() gives. */
void pal_answer_keep_text(pal_turn *turn);
/* True when something was said into the turn, which goes on with it. */
bool pal_turn_take_steer(pal_turn *turn);

/* ---- turn_end.c ---- */

/* Ends it: what was said so far is recorded first. */
void pal_turn_close(pal_turn *turn);
void pal_turn_fail(pal_turn *turn, pal_status status, const char *format, ...) PAL_PRINTF(3, 4);
void pal_turn_stop(pal_turn *turn, const char *reason);
/* The runtime is closed: leaves the turn as it stands, for another process to go on with. */
void pal_turn_hand_over(pal_turn *turn);
/* Nobody comes back to it: stops its call, its timer and its tools. */
void pal_turn_stop_waiting(pal_turn *turn);
/* Tells that it is over, and lets the next one begin. */
void pal_turn_finish(pal_turn *turn, pal_turn_state state);

static inline pal_str pal_turn_tenant(pal_str tenant)
{
    return tenant.len ? tenant : pal_str_of("default");
}

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
 * `inbox_ids` leaves it with them, and `ledger` (or NULL) and `also` are kept beside them. `done`
 * is told when all is durable, or failed. */
typedef struct pal_turn_append {
    pal_message *messages;
    size_t messages_len;
    size_t settled_len; /* of them, at the beginning: not the turn's own */
    const pal_id *inbox_ids;
    size_t inbox_len;
    const pal_ledger_row *ledger;
    pal_mark *epoch; /* begins before them; NULL: none. That it fails does not fail the rest */
    uint64_t expected_seq; /* 0: any */
    pal_record *record;    /* put with it, and fails with it; NULL: none */
    const pal_op *also; /* a record that is put or dropped; NULL: none. That it fails does not fail
                           the rest */
    bool gives_lease;   /* it is the turn's last, and nobody waits for the session */
    void (*done)(pal_write *write);
} pal_turn_append;
void pal_turn_add_append(pal_turn *turn, const pal_turn_append *append); /* not yet handed over */
void pal_turn_write_append(pal_turn *turn, const pal_turn_append *append);
/* Makes turn->ops where there are none. False: there is no memory. */
bool pal_turn_make_ops(pal_turn *turn);
/* Adds to turn->write; what is added behind it is done only if it succeeds. */
void pal_turn_add_op(pal_turn *turn, pal_op op);
/* Hands turn->write over. */
void pal_turn_write(pal_turn *turn, void (*done)(pal_write *write));
/* What turn->write failed with; PAL_OK: it didn't. */
pal_status pal_turn_write_status(const pal_turn *turn, pal_error *out_error);

/* ---- turn_admit.c ---- */

/* The session is its own now: admits its messages and runs. */
void pal_turn_begin(pal_turn *turn);

/* ---- turn_summary.c ---- */

/* Asks the model for what turn->job needs, keeps it, and goes on with the next step. */
void pal_summary_ask(pal_turn *turn);
/* False: it is being kept, and comes back by itself. */
bool pal_summary_stop(pal_turn *turn);
/* Counts a call for a summary, and keeps its row, if no checkpoint does. */
void pal_summary_spent(pal_turn *turn, const pal_model_end *model_end);
/* Tells whoever waits for the turn's compaction, if anyone does, how it ended. */
void pal_compact_tell(pal_turn *turn);
void pal_compact_refuse(pal_compact_wait *wait, const pal_error *why);

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
/* Tells which calls wait for the caller, and that somebody is asked about one. */
void pal_tools_tell_paused(pal_turn *turn);
void pal_tools_say_why(pal_str name, char out_reason[static PAL_ERROR_MESSAGE_MAX]);
void pal_tools_tell_asking(pal_turn *turn, pal_str call_id, pal_str name);
/* The calls for the caller, as JSON. */
void pal_tools_put_waiting(const pal_turn *turn, pal_buf *buf);
/* The call that somebody is asked about; NULL: none is. */
const pal_tool_run *pal_tools_asked(const pal_turn *turn);
/* The caller runs the tool of that name. */
bool pal_tools_is_callers(const pal_turn *turn, pal_str name);
void pal_tools_cancel(pal_turn *turn); /* nobody waits for those that run any more */
void pal_tools_done(pal_turn *turn);   /* releases */

/* ---- turn_lane.c ---- */

/* Tells whoever started the turn, once: how it stands, or why it is not run. */
void pal_turn_tell_started(pal_turn *turn, const pal_error *err);

/* The lane of a session, made if need be; NULL without memory. */
pal_lane_state *pal_lane_of(pal_runtime *runtime, pal_str tenant, pal_id session);
pal_lane_state *pal_lane_find(pal_runtime *runtime, pal_str tenant, pal_id session);
/* A new turn: begins, waits, joins or is refused. */
void pal_lane_enter(pal_turn *turn);
/* Sets turn->known_ids; false without memory. */
bool pal_lane_note_known(pal_turn *turn);
/* Requests that are no turns here wait in the session's inbox: they are run when it is free. False
 * without memory. */
bool pal_lane_backlog(pal_runtime *runtime, pal_str tenant, pal_id session);
/* Ends all turns that wait in it; their messages stay in the inbox. */
void pal_lane_empty(pal_lane_state *lane);
/* Releases all lanes; the loop is closed. */
void pal_lanes_done(pal_runtime *runtime);
/* The turn is over: the next one begins, or the lease is given back. */
void pal_lane_leave(pal_turn *turn);
/* Nobody runs in it, as far as is known: what has waited for long begins, or the lane goes. */
void pal_lane_rest(pal_lane_state *lane);
/* The turn is the lane's: it begins. */
void pal_lane_begin(pal_lane_state *lane, pal_turn *turn);
/* Results of calls go on with a turn that was there before all that waits. */
bool pal_lane_may_begin(const pal_lane_state *lane, const pal_turn_request *request);
/* The turn is not run: whoever asked for it is told why. */
void pal_lane_refuse(pal_turn *turn, pal_status status, const char *text);
/* No turn runs in the lane, and none has come before. */
bool pal_lane_is_free(const pal_lane_state *lane);
/* The lane's queue: `at` is the link to the turn that leaves it. */
void pal_lane_enqueue(pal_turn *turn);
void pal_lane_unqueue(pal_lane_state *lane, pal_turn **at);
/* A turn that was away is the next to begin. */
void pal_lane_wait_first(pal_turn *turn);
/* The runtime is being closed: those that wait are followed in the store, where another process may
 * run them. */
void pal_lane_hand_over(pal_lane_state *lane);
void pal_lane_count(pal_runtime *runtime, int running, int queued); /* in the stats */
/* Takes what was said into the running turn; NULL: nothing. */
pal_steer *pal_lane_steer(pal_lane_state *lane);
void pal_steer_free(pal_steer *steer);

/* ---- turn_wait.c ---- */

/* Another turn runs or waits: the new one waits, joins or is refused, as its lane says. */
void pal_lane_wait(pal_turn *turn);
/* The turn that runs can't go on for now, and may wait for it or not; it is the next to begin,
 * then.
 */
bool pal_lane_may_wait(const pal_turn *turn);
void pal_lane_step_back(pal_turn *turn);
/* A turn that waits does so no more: its messages are taken back. */
void pal_lane_withdraw(pal_turn *turn);

/* ---- turn_lease.c ---- */

/* The lease was taken with a turn's first write. */
void pal_lease_taken(pal_lane_state *lane, uint64_t fence);
/* Another process has it: nobody begins here for a while. False without memory. */
bool pal_lease_await(pal_lane_state *lane);
void pal_lease_release(pal_lane_state *lane);
/* Another process has it: what is written under it is refused. */
void pal_lease_lost(pal_lane_state *lane);
/* Gives it back with what turn->write has already. */
void pal_lease_add_release(pal_turn *turn);

/* ---- turn_runtime.c ---- */

/* A turn in its lane, not begun; the arena, with the request in it, is the turn's. NULL on failure:
 * the arena is the caller's still. */
pal_turn *pal_turn_make(
        pal_runtime *runtime, pal_arena *arena, const pal_turn_request *request, pal_error *err);

/* The client id that was sent first, whatever the message is recorded as. Empty: there was none. */
pal_str pal_turn_client_id(const pal_turn *turn);
/* The turn's messages are durable: whoever sends them again gets this turn. */
void pal_runtime_know(pal_turn *turn);
void pal_runtime_unknow(pal_turn *turn); /* they are not, after all */
/* The turn of that request, if it came before and is remembered; NULL: it isn't. */
pal_turn *pal_runtime_known(
        pal_runtime *runtime, const pal_turn_request *request, pal_arena *arena);

/* The turn is over: it is remembered for a while, so that readers can come late. */
void pal_runtime_ended(pal_turn *turn, bool has_run);

/* ---- turn_call.c ---- */

/* How the turn stands, as it is told. */
void pal_turn_fill_info(pal_turn *turn, pal_turn_info *out_info);

/* ---- turn_plan.c ---- */

/* On a worker: plans, prunes, and gets everything ready for the model. */
void pal_plan_work(pal_work_item *item);

/* ---- turn_price.c ---- */

int64_t pal_price_of(const pal_runtime *runtime, pal_str model, const pal_usage *usage);

#endif
