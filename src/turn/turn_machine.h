/* turn_machine.h - the steps of one turn, and the functions that the files of turn/ share. All
 * functions run on the loop, unless a comment says otherwise. */
#ifndef PAL_TURN_MACHINE_H
#define PAL_TURN_MACHINE_H

#include "turn/runtime/runtime.h"

/* Sets the state, and notifies the runtime's watch unless the turn is a compaction. In every state
 * except RUNNING and RETRYING, also releases the budget reservation. */
void pal_turn_set_state(pal_turn *turn, pal_turn_state state);
/* Copies the reason, cut to PAL_ERROR_MESSAGE_MAX. */
void pal_turn_set_reason(pal_turn *turn, const char *reason);

/* Takes messages that were steered into the turn, plans, and calls the model. */
void pal_turn_next_step(pal_turn *turn);
/* Called when a plan was made, or has failed: calls the model, or does whatever else is next. */
void pal_turn_planned(pal_turn *turn);
/* Returns turn->step_arena, and creates it if needed; NULL if there is no memory. */
pal_arena *pal_turn_step_arena(pal_turn *turn);

/* If the failed call can be retried, waits and calls the model again. Returns false if it
 * cannot. */
bool pal_turn_retry(pal_turn *turn, const pal_model_end *end);

/* ---- turn_answer.c ---- */

/* Records the model's answer, and continues with its calls or ends the turn. */
void pal_answer_record(pal_turn *turn, const pal_model_end *end);
/* Stores the cost of a call that brought no answer. */
void pal_answer_spent(pal_turn *turn, const pal_model_end *end);
/* Stores the estimated cost of a call that is about to be canceled: the service charges for what
 * was sent. */
void pal_answer_cut(pal_turn *turn);
/* Writes one row of the ledger in a separate write, independent of the turn's other writes. Copies
 * the id and the model; the other texts must live as long as the turn. */
void pal_answer_keep_row(pal_turn *turn, const pal_ledger_row *row);
/* Adds usage and cost to the totals of the turn and of the runtime. */
void pal_answer_add_usage(pal_turn *turn, const pal_usage *usage, int64_t cost_micros);
/* Adds the usage of a call that belongs to no turn. */
void pal_runtime_add_usage(pal_runtime *runtime, const pal_usage *usage, int64_t cost_micros);
/* Keeps the text of the answer for pal_turn_wait(). */
void pal_answer_keep_text(pal_turn *turn);
/* Returns true if a message was steered into the turn. The turn then records it and continues. */
bool pal_turn_take_steer(pal_turn *turn);

/* ---- turn_end.c ---- */

/* Ends the turn. The part of the answer that has arrived is recorded first. */
void pal_turn_close(pal_turn *turn);
/* Ends the turn as FAILED. If the status means that the failure cannot be recorded, no message is
 * written. If a write was denied because another process took the session, follows the turn in the
 * store instead. Does nothing if the turn is ending or already followed. */
void pal_turn_fail(pal_turn *turn, pal_status status, const char *format, ...) PAL_PRINTF(3, 4);
/* Cancels the turn, or its leader if it was merged. Does nothing if its last commit is being
 * made. */
void pal_turn_stop(pal_turn *turn, const char *reason);
/* The runtime is closing: leaves the turn unfinished in the store, so that another process can
 * continue it. */
void pal_turn_hand_over(pal_turn *turn);
/* Stops the turn's call, timer and tools. None of them calls back afterwards. */
void pal_turn_stop_waiting(pal_turn *turn);
/* Publishes the end of the turn, and lets the next turn begin. */
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

/* Appends messages, after the operations that turn->write already has. The same commit removes the
 * inbox items `inbox_ids` and stores `ledger` (or NULL) and `also`. `done` is called when
 * everything is durable, or has failed. */
typedef struct pal_turn_append {
    pal_message *messages;
    size_t messages_len;
    size_t settled_len; /* how many messages at the beginning are not the turn's own */
    const pal_id *inbox_ids;
    size_t inbox_len;
    const pal_ledger_row *ledger;
    /* committed before the messages, or NULL; its failure does not fail the rest */
    pal_mark *epoch;
    uint64_t expected_seq; /* 0: any */
    pal_record *record;    /* stored in the same commit, and fails with it; NULL: none */
    const pal_op *also; /* puts or drops a record, or NULL; its failure does not fail the rest */
    bool gives_lease;   /* this is the turn's last commit, and no turn waits for the session */
    void (*done)(pal_write *write);
} pal_turn_append;
/* without starting the write */
void pal_turn_add_append(pal_turn *turn, const pal_turn_append *append);
/* The same, and starts the write. */
void pal_turn_write_append(pal_turn *turn, const pal_turn_append *append);
/* Allocates turn->ops if needed. Returns false if there is no memory. */
bool pal_turn_make_ops(pal_turn *turn);
/* Adds an operation to turn->write. Operations that are added later are applied only if this one
 * succeeds. */
void pal_turn_add_op(pal_turn *turn, pal_op op);
/* Starts turn->write. */
void pal_turn_write(pal_turn *turn, void (*done)(pal_write *write));
/* Returns the failure of turn->write, or PAL_OK. */
pal_status pal_turn_write_status(const pal_turn *turn, pal_error *out_error);

/* ---- turn_admit.c ---- */

/* The turn has its lane now: records its messages and runs it. */
void pal_turn_begin(pal_turn *turn);

/* ---- turn_summary.c ---- */

/* Requests the summary that turn->job needs, stores it, and continues with the next step. */
void pal_summary_ask(pal_turn *turn);
/* Returns false if the summary is being stored; the turn then continues when that is done. */
bool pal_summary_stop(pal_turn *turn);
/* Counts a call for a summary, and stores its ledger row. Called only if no checkpoint stores the
 * row. */
void pal_summary_spent(pal_turn *turn, const pal_model_end *model_end);
/* Reports the end of the compaction to its waiting caller, if there is one. */
void pal_compact_tell(pal_turn *turn);
/* Reports an error to a caller that waits for a compaction. `wait` must not be used afterwards. */
void pal_compact_refuse(pal_compact_wait *wait, const pal_error *why);

/* ---- turn_tools.c ---- */

/* Runs the calls of the recorded answer. Continues with the next step when all calls have ended. */
void pal_tools_begin(pal_turn *turn, const pal_message *answer);
/* Stops running calls. Calls without a result get `text` as their result, and all results are
 * recorded. */
void pal_tools_stop(pal_turn *turn, const char *text);
/* Takes the results of the caller's tools. */
PAL_CHECKED pal_status pal_tools_results(
        pal_turn *turn, const pal_message *messages, size_t len, pal_error *err);
/* Answers the approval question of the turn, which must be ASKING, and continues. */
void pal_tools_allow(pal_turn *turn, bool allow);
/* pal_tools_tell_paused() publishes the calls that wait for the caller, and pal_tools_tell_asking()
 * the call that waits for approval. pal_tools_say_why() writes the reason for the question. */
void pal_tools_tell_paused(pal_turn *turn);
void pal_tools_say_why(pal_str name, char out_reason[static PAL_ERROR_MESSAGE_MAX]);
void pal_tools_tell_asking(pal_turn *turn, pal_str call_id, pal_str name);
/* Writes the calls that wait for the caller as JSON. */
void pal_tools_put_waiting(const pal_turn *turn, pal_buf *buf);
/* Returns the call that waits for approval, or NULL. */
const pal_tool_run *pal_tools_asked(const pal_turn *turn);
/* Returns true if the caller runs the tool with this name. */
bool pal_tools_is_callers(const pal_turn *turn, pal_str name);
void pal_tools_cancel(pal_turn *turn); /* stops running calls; they do not call back */
void pal_tools_done(pal_turn *turn);   /* frees the calls */

/* ---- lane.c ---- */

/* Calls the `started` callback of the turn, once: with the turn's state, or with the error if the
 * turn is not run. */
void pal_turn_tell_started(pal_turn *turn, const pal_error *err);

/* Returns the lane of a session, and creates it if needed; NULL if there is no memory. */
pal_lane_state *pal_lane_of(pal_runtime *runtime, pal_str tenant, pal_id session);
pal_lane_state *pal_lane_find(pal_runtime *runtime, pal_str tenant, pal_id session);
/* Takes a new turn: it begins, waits, joins the running turn, or is refused. */
void pal_lane_enter(pal_turn *turn);
/* Sets turn->known_ids. Returns false if there is no memory. */
bool pal_lane_note_known(pal_turn *turn);
/* Notes that the session's inbox has requests that are not turns in this process. They are run when
 * the session is free. Returns false if there is no memory. */
bool pal_lane_backlog(pal_runtime *runtime, pal_str tenant, pal_id session);
/* Ends all waiting turns of the lane. Their messages stay in the inbox. */
void pal_lane_empty(pal_lane_state *lane);
/* Frees all lanes. The loop must be closed. */
void pal_lanes_done(pal_runtime *runtime);
/* Removes an ended turn from its lane: the next turn begins, or the lease is released. */
void pal_lane_leave(pal_turn *turn);
/* Called when the lane may be free: the oldest waiting request begins, or the lane is freed. */
void pal_lane_rest(pal_lane_state *lane);
/* Makes the turn the lane's running turn, and begins it. */
void pal_lane_begin(pal_lane_state *lane, pal_turn *turn);
/* Returns true if the request can begin at once. Results of calls can begin before waiting
 * requests, because their turn began before those. */
bool pal_lane_may_begin(const pal_lane_state *lane, const pal_turn_request *request);
/* Refuses a turn, and reports the reason to the caller that started it. */
void pal_lane_refuse(pal_turn *turn, pal_status status, const char *text);
/* Returns true if no turn runs in the lane and no request waits for it. */
bool pal_lane_is_free(const pal_lane_state *lane);
/* Add to and remove from the lane's queue. `at` is the link to the turn that is removed. */
void pal_lane_enqueue(pal_turn *turn);
void pal_lane_unqueue(pal_lane_state *lane, pal_turn **at);
/* Puts a turn that was followed in the store at the head of the queue. */
void pal_lane_wait_first(pal_turn *turn);
/* The runtime is closing: waiting turns are followed in the store, because another process may run
 * them. */
void pal_lane_hand_over(pal_lane_state *lane);
/* changes the counts in the stats */
void pal_lane_count(pal_runtime *runtime, int running, int queued);
/* Removes and returns the first message steered into the running turn; NULL if there is none. */
pal_steer *pal_lane_steer(pal_lane_state *lane);
void pal_steer_free(pal_steer *steer);

/* ---- lane_wait.c ---- */

/* Called for a new turn if another turn runs or waits: the new turn waits, joins or is refused,
 * depending on its lane mode. */
void pal_lane_wait(pal_turn *turn);
/* pal_lane_may_wait() returns whether a running turn that cannot continue now may wait.
 * pal_lane_step_back() then makes it the next turn to begin. */
bool pal_lane_may_wait(const pal_turn *turn);
void pal_lane_step_back(pal_turn *turn);
/* Removes a waiting turn from the queue, and its messages from the inbox. */
void pal_lane_withdraw(pal_turn *turn);

/* ---- lane_lease.c ---- */

/* Called when a turn's first write has acquired the lease. */
void pal_lease_taken(pal_lane_state *lane, uint64_t fence);
/* Called when another process has the lease: no turn begins here for a while. Returns false if
 * there is no memory. */
bool pal_lease_await(pal_lane_state *lane);
/* Releases the lease, if it is held and no write of the lane is in flight. */
void pal_lease_release(pal_lane_state *lane);
/* Called when another process has taken the lease: writes with the old fence are denied. */
void pal_lease_lost(pal_lane_state *lane);
/* Adds the release of the lease to turn->write. */
void pal_lease_add_release(pal_turn *turn);

/* ---- runtime.c ---- */

/* Creates a turn in its lane without beginning it. The turn takes the arena, which holds the
 * request. On failure returns NULL, and the caller keeps the arena. */
pal_turn *pal_turn_make(
        pal_runtime *runtime, pal_arena *arena, const pal_turn_request *request, pal_error *err);

/* Returns the client id of the request's first message as the client sent it, even if the message
 * is recorded in a changed form. Empty if there was none. */
pal_str pal_turn_client_id(const pal_turn *turn);
/* Called when the turn's messages are durable: from now on, a request that repeats them gets this
 * turn. */
void pal_runtime_know(pal_turn *turn);
void pal_runtime_unknow(pal_turn *turn); /* the messages are not durable after all */
/* Returns the turn that already runs this request, or NULL if it is not in memory. */
pal_turn *pal_runtime_known(
        pal_runtime *runtime, const pal_turn_request *request, pal_arena *arena);

/* Called when the turn has ended. It stays in memory for a while, so that late readers still find
 * it. */
void pal_runtime_ended(pal_turn *turn, bool has_run);

/* ---- runtime_call.c ---- */

/* Fills in the public state of the turn. */
void pal_turn_fill_info(pal_turn *turn, pal_turn_info *out_info);

/* ---- turn_plan.c ---- */

/* Runs on a worker: plans, prunes, and prepares everything that the model is sent. */
void pal_plan_work(pal_work_item *item);

/* ---- runtime_price.c ---- */

/* Returns the cost of a call in millionths; 0 if the model has no price. On any thread. */
int64_t pal_price_of(const pal_runtime *runtime, pal_str model, const pal_usage *usage);

#endif
