/* turn_toolset.h - gathers the tools that a model is offered. On the loop. */
#ifndef PAL_TURN_TOOLSET_H
#define PAL_TURN_TOOLSET_H

#include "turn/turn.h"

/* Returns the caller's tools, then the built-in ones, then those of the servers; in the arena. NULL
 * if there is no memory. */
pal_tool *pal_toolset_gather(const pal_runtime *runtime, const pal_turn_request *request,
        pal_arena *arena, size_t *out_len);

/* Checks whether the caller's tools can be offered. Tools of servers were checked when they were
 * listed. */
PAL_CHECKED pal_status pal_toolset_check(
        const pal_turn_request *request, pal_arena *arena, pal_error *err);

#endif
