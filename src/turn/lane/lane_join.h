/* lane_join.h - repeated requests: the sender gets the first turn. */
#ifndef PAL_LANE_JOIN_H
#define PAL_LANE_JOIN_H

#include "turn/turn.h"

/* Returns true if the request can be recognized, because it has a client id. */
bool pal_join_may_look(const pal_turn *turn);

/* Returns true if the turn begins with the messages of the request, as they were sent. On any
 * thread that has the turn. */
bool pal_join_says(const pal_turn *turn, const pal_turn_request *request, pal_arena *scratch);

/* Sets the client ids of `messages` to those of this try. */
void pal_join_name(const pal_turn *turn, pal_message *messages);

/* On a worker: returns true if all messages of the request were recorded before, under the same
 * client ids. */
bool pal_join_is_repeat(pal_turn *turn);

/* On a worker: looks for the turn that has recorded the same request. If there is one, sets
 * turn->found.id, and turn->found.outcome if the outcome is known. Otherwise
 * turn->found.spent_tries counts the failed ones. With `may_go_on`, a failed turn is also found if
 * no message was recorded after it. */
PAL_CHECKED pal_status pal_join_find(pal_turn *turn, bool may_go_on, pal_error *err);
/* After a successful lookup: returns true if it has found an earlier turn with the same request. */
bool pal_join_is_found(const pal_turn *turn);
/* On a worker: changes the request's messages to those of the next try. */
PAL_CHECKED pal_status pal_join_rename(pal_turn *turn, pal_error *err);

/* For a request that cannot run now: looks whether it was recorded before or waits, in this process
 * or another one. Returns true if the lookup has started; it calls `unknown` if nothing was
 * found. */
bool pal_join_look(pal_turn *turn, void (*unknown)(pal_turn *turn));

/* Makes the turn follow the one in turn->found.outcome, reports that, and leaves the lane. Without
 * an outcome, reports that the answer is lost. */
void pal_join(pal_turn *turn);

#endif
