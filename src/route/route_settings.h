/* route_settings.h - the configuration as routing uses it: checked and normalized, with keys made
 * in advance. Nothing in it changes after pal_route_settings_new(), so threads can share it. */
#ifndef PAL_ROUTE_SETTINGS_H
#define PAL_ROUTE_SETTINGS_H

#include <stdint.h>
#include "base/map.h"
#include "palaver/route.h"

typedef enum pal_route_dimension {
    PAL_DIMENSION_SPACE = 0,
    PAL_DIMENSION_CHAT = 1,
    PAL_DIMENSION_TOPIC = 2,
    PAL_DIMENSION_SENDER = 3,
} pal_route_dimension;

/* Each dimension occurs at most once. They are in the order of the key. */
typedef struct pal_route_dimensions {
    uint8_t items[PAL_ROUTE_VALUES_MAX];
    size_t len;
} pal_route_dimensions;

/* An agent with its main alias and key. */
typedef struct pal_route_main {
    pal_str agent;
    pal_str alias;
    pal_str key;
} pal_route_main;

/* A rule with at least one condition. Its texts are normalized like those of a pal_route_view. */
typedef struct pal_route_case {
    pal_str matched_by;
    const pal_route_main *agent;
    pal_route_when when;
    pal_route_dimensions dimensions;
} pal_route_case;

struct pal_route_settings {
    pal_arena *arena; /* holds everything below */
    pal_route_dimensions dimensions;
    pal_map links; /* from an id to the canonical name, a pal_str */
    pal_route_case *cases;
    size_t cases_len;
    pal_map agents;   /* from an id to its pal_route_main */
    bool agents_only; /* messages are routed only to these agents */
    const pal_route_main *default_agent;
    bool link_across_channels;
};

const char *pal_route_dimension_name(pal_route_dimension dimension);
bool pal_route_dimensions_has(const pal_route_dimensions *dimensions, pal_route_dimension wanted);

/* Takes the known names, once each, in order. Empty names are skipped. Returns false if there is an
 * unknown name; the first one is *out_unknown. */
bool pal_route_dimensions_from_names(const pal_str *names, size_t len,
        pal_route_dimensions *out_dimensions, pal_str *out_unknown);

/* Makes the main alias and key of a normalized agent. */
void pal_route_main_make(pal_arena *arena, pal_str agent, pal_route_main *out_main);

/* Returns the agent that answers if `agent` (trimmed) is requested. NULL if it has no prepared main
 * key; then *out_id is its id. */
const pal_route_main *pal_route_agent_pick(
        const pal_route_settings *settings, pal_arena *arena, pal_str agent, pal_str *out_id);

#endif
