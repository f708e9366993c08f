/* runtime_dispatch.h - callbacks that wait until the caller's thread makes them. */
#ifndef PAL_RUNTIME_DISPATCH_H
#define PAL_RUNTIME_DISPATCH_H

#include "turn/runtime/runtime.h"

void pal_dispatch_init(pal_dispatch *dispatch);

/* Call it after the loop was closed. Drops waiting events, and calls `gone` of each reader. */
void pal_dispatch_done(pal_dispatch *dispatch);

#endif
