/* turn_retell.h - tells a turn's readers what another process has recorded. On the loop. */
#ifndef PAL_TURN_RETELL_H
#define PAL_TURN_RETELL_H

#include "turn/turn_machine.h"

/* Tells of a message of the turn that is in the store, unless readers know it; adds its usage. */
void pal_retell(pal_turn *turn, const pal_message *message);
/* The turn's step begins again here: it keeps its number if readers know a part of its answer. */
void pal_retell_step(pal_turn *turn);

#endif
