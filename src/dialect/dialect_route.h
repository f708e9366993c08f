/* dialect_route.h - reads the context of an inbound message, with or without settings, from JSON:
 * docs/routing.md.
 *
 * Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_DIALECT_ROUTE_H
#define PAL_DIALECT_ROUTE_H

#include "base/json/json.h"
#include "palaver/route.h"

typedef struct pal_route_input {
    pal_route_config config;
    pal_route_context context;
} pal_route_input;

/* Texts point into the JSON or the arena. Errors name the member. */
PAL_CHECKED pal_status pal_route_input_read(
        pal_json value, pal_arena *arena, pal_route_input *out_input, pal_error *err);

/* Reads only the context, from an object that can have other members as well. */
PAL_CHECKED pal_status pal_route_context_read(
        pal_json value, pal_arena *arena, pal_route_context *out_context, pal_error *err);

#endif
