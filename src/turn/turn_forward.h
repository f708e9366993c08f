/* turn_forward.h - forwarded requests of a runtime, for turn_runtime.c. On the loop. */
#ifndef PAL_TURN_FORWARD_H
#define PAL_TURN_FORWARD_H

#include "turn/turn_runtime.h"

/* Ends all running forwards, and reports their end. */
void pal_forwards_stop(pal_runtime *runtime);

#endif
