/* turn_forward.h - requests that pass through a runtime, for turn_runtime.c. On the loop. */
#ifndef PAL_TURN_FORWARD_H
#define PAL_TURN_FORWARD_H

#include "turn/turn_runtime.h"

/* Ends all that run, and tells so. */
void pal_forwards_stop(pal_runtime *runtime);

#endif
