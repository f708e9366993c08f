/* turn_follow.h - turns that become one. On the loop. */
#ifndef PAL_TURN_FOLLOW_H
#define PAL_TURN_FOLLOW_H

#include "turn/turn_runtime.h"

/* Takes the next one that waits into this one; false: they can't be one. Without the lease nobody
 * knows whether another process has run one of them. `next` must still be taken out of the queue.
 */
bool pal_follow_merge(pal_turn *turn, pal_turn *next);
/* The turn has ended, and with it those that are one with it; before it is told. */
void pal_follow_end(pal_turn *turn);
/* They are only remembered from now on. */
void pal_follow_leave(pal_turn *turn);

#endif
