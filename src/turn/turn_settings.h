/* turn_settings.h - what a turn is run with. */
#ifndef PAL_TURN_SETTINGS_H
#define PAL_TURN_SETTINGS_H

#include "palaver/turn.h"

typedef struct pal_settings {
    pal_str agent; /* who answers: the request's, the session's or the default; may be empty */
    pal_str system;
    bool system_exact; /* the request's own: sent as it is now */
    size_t endpoint;   /* its place in the runtime's list */
    pal_str model;     /* empty: the endpoint's first, which has to be asked for */
    pal_context_settings context;
    uint32_t rounds_max;
    const pal_agent_settings *own; /* the agent's; NULL: it has none */
    pal_str parameters;            /* of all levels; a JSON object, or empty */
} pal_settings;

/* The request's word over the session's, over its agent's, over the runtime's. From any thread.
 * Texts lie in the arena, or are the session's, the request's or the runtime's. PAL_NOT_FOUND:
 * there is no such endpoint. */
PAL_CHECKED pal_status pal_settings_find(const pal_runtime *runtime,
        const pal_turn_request *request, const pal_session *session, pal_arena *arena,
        pal_settings *out_settings, pal_error *err);

/* Whether the agents of the options name endpoints that there are. */
PAL_CHECKED pal_status pal_settings_check(const pal_runtime_options *options, pal_error *err);

/* PAL_NOT_FOUND if there are agents, and none has that name. An empty name is right. */
PAL_CHECKED pal_status pal_settings_check_agent(
        const pal_runtime_options *options, pal_str name, pal_error *err);

/* The endpoint of that name; false where there is none. */
bool pal_settings_endpoint(const pal_runtime_options *options, pal_str name, size_t *out_endpoint);
/* The one whose own model this is; `otherwise` where it is nobody's. */
size_t pal_settings_endpoint_of_model(
        const pal_runtime_options *options, pal_str model, size_t otherwise);

/* Those of the tools that the agent is offered, moved to the front; returns how many. The first
 * `callers` of them are the caller's, which stay. */
size_t pal_settings_tools(
        const pal_settings *settings, pal_tool *tools, size_t len, size_t callers);

/* Without fence and what a turn has learnt since. */
pal_window pal_settings_window(
        pal_runtime *runtime, const pal_settings *settings, const pal_turn_request *request);

#endif
