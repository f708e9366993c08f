/* lane.h - lanes: one turn at a time in each session. On the loop, unless a comment says otherwise.
 * runtime.h has the type. lane_join.h, lane_park.h, lane_follow.h, lane_visit.h and lane_backlog.h
 * have the rest of the folder. */
#ifndef PAL_LANE_H
#define PAL_LANE_H

#include "turn/turn.h"

/* ---- lane.c ---- */

/* Calls the `on_start` callback of the turn, once: with the turn's state, or with the error if the
 * turn is not run. */
void pal_lane_tell_started(pal_turn *turn, const pal_error *err);

/* Returns the lane of a session, and creates it if needed; NULL if there is no memory. */
pal_lane_state *pal_lane_of(pal_runtime *runtime, pal_str tenant, pal_id session);
pal_lane_state *pal_lane_find(pal_runtime *runtime, pal_str tenant, pal_id session);
/* Takes a new turn: it begins, waits, joins the running turn, or is refused. */
void pal_lane_enter(pal_turn *turn);
/* Sets turn->queue.known_ids. Returns false if there is no memory. */
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
void pal_lane_dispatch(pal_lane_state *lane);
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
void pal_lane_steer_free(pal_steer *steer);

/* ---- lane_wait.c ---- */

/* Called for a new turn if another turn runs or waits: the new turn waits, joins or is refused,
 * depending on its lane mode. */
void pal_lane_wait(pal_turn *turn);
/* pal_lane_may_wait() returns whether a running turn that cannot continue now may wait.
 * pal_lane_requeue() then makes it the next turn to begin. */
bool pal_lane_may_wait(const pal_turn *turn);
void pal_lane_requeue(pal_turn *turn);
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
/* Notes a dead process's lease, so that pal_lease_add_take() can take it. */
void pal_lease_note_stale(pal_turn *turn);
/* Adds the acquisition of the lease to turn->commit.write, unless the lease is held. On the loop,
 * or on the worker that has the turn. */
void pal_lease_add_take(pal_turn *turn);
/* Returns true if the last commit of a turn can release the lease: no request waits for the
 * session. That saves one sync per turn, and a client that knows of the turn's end can use another
 * process at once. */
bool pal_lease_can_release(const pal_lane_state *lane);
/* Adds the release of the lease to turn->commit.write. If that write fails, call
 * pal_lease_restore(): the process still holds the lease, and the turn's next write needs it. */
void pal_lease_add_release(pal_turn *turn);
void pal_lease_restore(pal_turn *turn);

#endif
