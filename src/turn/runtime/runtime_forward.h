/* runtime_forward.h - forwarded requests of a runtime, for runtime.c. On the loop. */
#ifndef PAL_RUNTIME_FORWARD_H
#define PAL_RUNTIME_FORWARD_H

#include "turn/runtime/runtime.h"

/* Ends all running forwards, and reports their end. */
void pal_forwards_stop(pal_runtime *runtime);

#endif
