/* runtime_discover.h - finds endpoints for a runtime that was given none. */
#ifndef PAL_RUNTIME_DISCOVER_H
#define PAL_RUNTIME_DISCOVER_H

#include "turn/runtime/runtime.h"

/* Sets the options' endpoints to those that were found; they are in the runtime's arena. Called by
 * the thread that opens the runtime, and blocks it. */
PAL_CHECKED pal_status pal_discover_endpoints(
        pal_runtime *runtime, pal_runtime_options *options, pal_error *err);

#endif
