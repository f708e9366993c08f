/* turn_visit.h - results and permissions for a turn that waits for them. On the loop. */
#ifndef PAL_TURN_VISIT_H
#define PAL_TURN_VISIT_H

#include "turn/turn_machine.h"

/* Whether the turn is there to bring something to another. */
bool pal_visit_is(const pal_turn *turn);
/* Brings it, begins in the other's place, or is refused. */
void pal_visit(pal_turn *turn);

#endif
