/* lane_follow.h - merges waiting turns. On the loop. */
#ifndef PAL_LANE_FOLLOW_H
#define PAL_LANE_FOLLOW_H

#include "turn/turn.h"

/* Merges the next waiting turn into this one. Returns false if they cannot be merged, for example
 * without the lease: another process may have run one of them. The caller must still remove `next`
 * from the queue. */
bool pal_follow_merge(pal_turn *turn, pal_turn *next);
/* Ends the followers of a turn that has ended, before the end is published. */
void pal_follow_end(pal_turn *turn);
/* Moves the followers to the ended turns in memory. */
void pal_follow_leave(pal_turn *turn);

#endif
