/* turn_join.h - the same request again: whoever sends it gets the turn of the first time. */
#ifndef PAL_TURN_JOIN_H
#define PAL_TURN_JOIN_H

#include "turn/turn_machine.h"

/* On a worker: what became of the turn that has recorded the message; turn->outcome, NULL if nobody
 * knows which turn it was. */
PAL_CHECKED pal_status pal_join_read(pal_turn *turn, pal_id message, pal_error *err);

/* Looks whether what can't be run now was said before, here or in another process. True: that is
 * under way, and ends in `unknown` if it wasn't. */
bool pal_join_look(pal_turn *turn, void (*unknown)(pal_turn *turn));

/* The turn is the one that turn->outcome tells of, which is told; it leaves the lane. */
void pal_join(pal_turn *turn);

#endif
