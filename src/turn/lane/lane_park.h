/* lane_park.h - turns that wait for a client, and turns that another process runs. On the loop. */
#ifndef PAL_LANE_PARK_H
#define PAL_LANE_PARK_H

#include "turn/recovery/recovery_resume.h"

/* Restores the calls of a turn that was found PAUSED or ASKING. Returns false if there is no
 * memory. */
bool pal_lane_park_restore(pal_turn *turn, const pal_resume *found);
/* Sets a restored turn to PAUSED or ASKING again, publishes that, and parks it. */
void pal_lane_park_again(pal_turn *turn, const pal_resume *found);
/* For a PAUSED or ASKING turn: releases the session's lease, and watches the turn in the store. */
void pal_lane_park(pal_turn *turn);
/* Returns true if the turn is PAUSED or ASKING and needs no lease; false for NULL. */
bool pal_lane_is_parked(const pal_turn *turn);
/* Acquires the session again if the turn is parked, and then calls `then`. If it is not parked,
 * calls `then` at once. If another process has continued the turn, follows it instead. */
void pal_lane_unpark(pal_turn *turn, void (*then)(pal_turn *turn));

/* Called if another process runs the turn, or has run it: follows it in the store, and ends in the
 * same way. */
void pal_away_begin(pal_turn *turn);
/* If the turn with this id is followed here and has no work in flight, begins it again, because no
 * other process runs it. Returns false otherwise. */
bool pal_away_take(pal_lane_state *lane, pal_id turn);
/* Removes the turn from the lane's list of followed turns. */
void pal_away_leave(pal_turn *turn);
/* Publishes the end of the turn, as the store has it. */
void pal_away_end(pal_turn *turn, const struct pal_outcome *outcome);

/* For a request that the session's parked turn keeps from beginning: another process may have
 * continued that turn. Looks at the store, and then calls `again`. Returns false if no turn is
 * parked, if the store was already read for this request, or if there is no memory. */
bool pal_away_check(pal_turn *turn, void (*again)(pal_turn *turn));

/* Starts the next look at the store after a short delay. */
void pal_away_look(pal_lane_state *lane);

#endif
