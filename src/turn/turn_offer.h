/* turn_offer.h - the tools that a model is offered. On the loop. */
#ifndef PAL_TURN_OFFER_H
#define PAL_TURN_OFFER_H

#include "turn/turn_runtime.h"

/* The caller's tools first, then the built-in ones, then those of the servers; in the arena. NULL
 * without memory. */
pal_tool *pal_offer_gather(const pal_runtime *runtime, const pal_turn_request *request,
        pal_arena *arena, size_t *out_len);

/* Whether the caller's tools can be offered; servers' own were checked when they were listed. */
PAL_CHECKED pal_status pal_offer_check(
        const pal_turn_request *request, pal_arena *arena, pal_error *err);

#endif
