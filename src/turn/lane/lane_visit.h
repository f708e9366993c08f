/* lane_visit.h - delivers results and approvals to a waiting turn. On the loop. */
#ifndef PAL_LANE_VISIT_H
#define PAL_LANE_VISIT_H

#include "turn/turn.h"

/* Returns true if the turn only delivers results or an approval to another turn. */
bool pal_visit_is(const pal_turn *turn);
/* Delivers them, begins in place of the other turn, waits, or is refused. */
void pal_visit(pal_turn *turn);
/* Called for a running turn that delivers something, after the turn that waits for it was put at
 * the head of the queue: lets that turn begin first. */
void pal_visit_after(pal_turn *turn);

#endif
