/* recovery_retell.h - publishes messages that another process has recorded. On the loop. */
#ifndef PAL_RECOVERY_RETELL_H
#define PAL_RECOVERY_RETELL_H

#include "turn/turn.h"

/* Publishes a stored message of the turn, unless readers know it, and adds its usage. */
void pal_retell(pal_turn *turn, const pal_message *message);
/* Called before the turn's step begins again in this process. The step keeps its number if readers
 * know a part of its answer. */
void pal_retell_step(pal_turn *turn);

#endif
