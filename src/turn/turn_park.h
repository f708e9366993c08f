/* turn_park.h - turns that wait for somebody outside, or are run by another process. On the loop.
 */
#ifndef PAL_TURN_PARK_H
#define PAL_TURN_PARK_H

#include "turn/turn_resume.h"

/* Sets up the calls of a turn that was found PAUSED or ASKING. False without memory. */
bool pal_park_restore(pal_turn *turn, const pal_resume *found);
/* A turn that was set up so is PAUSED or ASKING again: reports that, and parks it. */
void pal_park_again(pal_turn *turn, const pal_resume *found);
/* The turn is PAUSED or ASKING: gives the session's lease back, and watches what becomes of it in
 * the store. */
void pal_park(pal_turn *turn);
/* The turn is PAUSED or ASKING, and needs no lease; false for NULL. */
bool pal_park_is(const pal_turn *turn);
/* Takes the session again if it is parked, and calls `then`; at once if it isn't. If another
 * process has gone on with the turn, it is followed instead. */
void pal_unpark(pal_turn *turn, void (*then)(pal_turn *turn));
/* Goes on with whatever the turn was unparked for. */
void pal_tools_go_on(pal_turn *turn);

/* Another process runs the turn, or has run it: follows it in the store, and ends as it does. */
void pal_away_begin(pal_turn *turn);
/* The turn of that id, if it is followed here and nothing of it is in flight, begins again: nobody
 * else runs it. */
bool pal_away_take(pal_lane_state *lane, pal_id turn);
/* Takes it out of the lane's list. */
void pal_away_leave(pal_turn *turn);
/* The store says how it ended: tells it. */
void pal_away_end(pal_turn *turn, const struct pal_outcome *outcome);

/* Looks at the store again, soon. */
void pal_lane_look(pal_lane_state *lane);

#endif
