/* dialect_route.h - an inbound message's context, with settings or without, as JSON has it:
 * docs/routing.md.
 *
 * Pure functions over the caller's memory: any thread may call them. */
#ifndef PAL_DIALECT_ROUTE_H
#define PAL_DIALECT_ROUTE_H

#include "base/json.h"
#include "palaver/route.h"

typedef struct pal_route_input {
    pal_route_config config;
    pal_route_context context;
} pal_route_input;

/* Views of the JSON, or in the arena. An error names the member. */
PAL_CHECKED pal_status pal_route_input_read(
        pal_json value, pal_arena *arena, pal_route_input *out_input, pal_error *err);

/* The context alone, from an object that may have members of its own beside it. */
PAL_CHECKED pal_status pal_route_context_read(
        pal_json value, pal_arena *arena, pal_route_context *out_context, pal_error *err);

#endif
