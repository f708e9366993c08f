/* route_settings.h - the configuration as routing uses it: checked, normalised, keys made ahead.
 * Nothing in it changes after pal_route_settings_new(), so that threads may share it. */
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

/* Each at most once, in the order of the key. */
typedef struct pal_route_dimensions {
    uint8_t items[PAL_ROUTE_VALUES_MAX];
    size_t len;
} pal_route_dimensions;

/* An agent whose main alias and key are made already. */
typedef struct pal_route_main {
    pal_str agent;
    pal_str alias;
    pal_str key;
} pal_route_main;

/* A rule that asks for something; its texts are as those of a pal_route_view. */
typedef struct pal_route_case {
    pal_str matched_by;
    const pal_route_main *agent;
    pal_route_when when;
    pal_route_dimensions dimensions;
} pal_route_case;

struct pal_route_settings {
    pal_arena *arena; /* holds all that follows */
    pal_route_dimensions dimensions;
    pal_map links; /* from an id to the canonical name, a pal_str */
    pal_route_case *cases;
    size_t cases_len;
    pal_map agents;   /* from an id to its pal_route_main */
    bool agents_only; /* no agent beside those is routed to */
    const pal_route_main *default_agent;
    bool link_across_channels;
};

const char *pal_route_dimension_name(pal_route_dimension dimension);
bool pal_route_dimensions_has(const pal_route_dimensions *dimensions, pal_route_dimension wanted);

/* Takes the names that are known, once each, in their order; empty ones are skipped. False when
 * there was another one: the first of them is *out_unknown. */
bool pal_route_dimensions_from_names(const pal_str *names, size_t len,
        pal_route_dimensions *out_dimensions, pal_str *out_unknown);

/* The main alias and key of a normalised agent. */
void pal_route_main_make(pal_arena *arena, pal_str agent, pal_route_main *out_main);

/* Who answers when `agent` (trimmed) is asked for: NULL where no main is made ahead for it; then
 * *out_id is its id. */
const pal_route_main *pal_route_agent_pick(
        const pal_route_settings *settings, pal_arena *arena, pal_str agent, pal_str *out_id);

#endif
