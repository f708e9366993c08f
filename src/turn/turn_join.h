/* turn_join.h - the same request again: whoever sends it gets the turn of the first time. */
#ifndef PAL_TURN_JOIN_H
#define PAL_TURN_JOIN_H

#include "turn/turn_machine.h"

/* Whether the request can be known at all: it has a client id. */
bool pal_join_may_look(const pal_turn *turn);

/* Whether the turn begins with what the request says, as it was sent. On any thread that has the
 * turn. */
bool pal_join_says(const pal_turn *turn, const pal_turn_request *request, pal_arena *scratch);

/* Gives the request's `messages` the client ids of the try that this turn is. */
void pal_join_name(const pal_turn *turn, pal_message *messages);

/* An append of the request's messages that succeeds only if they are known, and records nothing. */
pal_op pal_join_probe(const pal_turn *turn, pal_message *messages);

/* On a worker: whether all of the request was recorded before, under the same client ids. */
bool pal_join_is_repeat(pal_turn *turn);

/* On a worker: looks for the turn that has recorded the same. turn->was_said: there is one, and
 * turn->outcome tells of it. Otherwise turn->spent_tries has counted those that failed.
 * `may_go_on`: one that failed, and after which nothing was said, is found too. */
PAL_CHECKED pal_status pal_join_find(pal_turn *turn, bool may_go_on, pal_error *err);
/* On a worker: the request's messages are those of the next try. */
PAL_CHECKED pal_status pal_join_rename(pal_turn *turn, pal_error *err);

/* Looks whether what can't be run now was said before, here or in another process, or waits. True:
 * that is under way, and ends in `unknown` if it wasn't. */
bool pal_join_look(pal_turn *turn, void (*unknown)(pal_turn *turn));

/* The turn is the one that turn->outcome tells of, which is told; it leaves the lane. Without an
 * outcome it is told that the answer is lost. */
void pal_join(pal_turn *turn);

#endif
