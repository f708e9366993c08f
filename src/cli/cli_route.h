/* cli_route.h - an inbound message with its settings, as `palaver route` reads it from JSON. */
#ifndef PAL_CLI_ROUTE_H
#define PAL_CLI_ROUTE_H

#include "base/json.h"
#include "palaver/route.h"

typedef struct pal_cli_route_input {
    pal_route_config config;
    pal_route_context context;
} pal_cli_route_input;

/* Views of the JSON, or in the arena. An error names the member. */
PAL_CHECKED pal_status pal_cli_route_read(
        pal_json value, pal_arena *arena, pal_cli_route_input *out_input, pal_error *err);

#endif
