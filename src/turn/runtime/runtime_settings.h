/* runtime_settings.h - the settings of a turn. */
#ifndef PAL_RUNTIME_SETTINGS_H
#define PAL_RUNTIME_SETTINGS_H

#include "palaver/turn.h"

typedef struct pal_turn_settings {
    /* the agent of the request, of the session, or the default agent; may be empty */
    pal_str agent;
    pal_str system;
    bool system_exact; /* the request brought the text: it is sent unchanged */
    size_t endpoint;   /* its index in the runtime's list */
    pal_str model;     /* empty: the endpoint's first model, which must be requested */
    pal_context_settings context;
    uint32_t rounds_max;
    const pal_agent_settings *own; /* the agent's settings; NULL: none */
    pal_str parameters;            /* merged from all levels; a JSON object, or empty */
} pal_turn_settings;

/* Determines the settings. The request overrides the session, the session its agent, and the agent
 * the runtime. From any thread. Texts are in the arena, or belong to the session, the request or
 * the runtime. PAL_NOT_FOUND if a named endpoint or the request's agent does not exist. */
PAL_CHECKED pal_status pal_turn_settings_find(const pal_runtime *runtime,
        const pal_turn_request *request, const pal_session *session, pal_arena *arena,
        pal_turn_settings *out_settings, pal_error *err);

/* Checks that the options' agents have names and existing endpoints, and that the default agent
 * exists. */
PAL_CHECKED pal_status pal_turn_settings_check(const pal_runtime_options *options, pal_error *err);

/* PAL_NOT_FOUND if there are agents and none has this name. An empty name is valid. */
PAL_CHECKED pal_status pal_turn_settings_check_agent(
        const pal_runtime_options *options, pal_str name, pal_error *err);

/* Finds the endpoint with this name. Returns false if there is none. */
bool pal_turn_settings_endpoint(
        const pal_runtime_options *options, pal_str name, size_t *out_endpoint);
/* Returns the endpoint whose default model this is, or `otherwise` if there is none. */
size_t pal_turn_settings_endpoint_of_model(
        const pal_runtime_options *options, pal_str model, size_t otherwise);

/* Moves the tools that the agent is offered to the front, and returns how many there are. The first
 * `callers` tools are the caller's, and always stay. */
size_t pal_turn_settings_tools(
        const pal_turn_settings *settings, pal_tool *tools, size_t len, size_t callers);

/* Returns the window without the fence, and without what the turn has learned since. */
pal_window pal_turn_settings_window(
        pal_runtime *runtime, const pal_turn_settings *settings, const pal_turn_request *request);

#endif
