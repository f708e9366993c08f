/* turn_settings.c - what a turn is run with: the request's word over the session's, over its
 * agent's, over the runtime's. A session's own are in its metadata:
 *
 *   {"turn": {"endpoint": "main", "model": "m-1", "system": "Be brief.", "max_tool_iterations": 3},
 *    "context": {...}}
 *
 * A model belongs to its endpoint: where one level names an endpoint, models of the levels below it
 * don't count. Reads only what never changes in a runtime: from any thread. */
#include "turn/turn_settings.h"

#include "base/json.h"
#include "turn/turn_runtime.h"

/* One level's word; what is empty is left to the one below. */
typedef struct level {
    pal_str endpoint;
    pal_str model;
    pal_str system;
    bool has_system;
    uint32_t rounds_max;
} level;

bool pal_settings_endpoint(const pal_runtime_options *options, pal_str name, size_t *out_endpoint)
{
    for (size_t i = 0; i < options->endpoints_len; i++) {
        if (!pal_str_equal(options->endpoints[i].name, name))
            continue;
        *out_endpoint = i;
        return true;
    }
    return false;
}

size_t pal_settings_endpoint_of_model(
        const pal_runtime_options *options, pal_str model, size_t otherwise)
{
    for (size_t i = 0; model.len > 0 && i < options->endpoints_len; i++)
        if (pal_str_equal(options->endpoints[i].model, model))
            return i;
    return otherwise;
}

static pal_status no_endpoint(pal_str name, const char *whose, pal_str who, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "there is no endpoint '%.*s'%s%.*s",
            (int)(name.len < 80 ? name.len : 80), name.data ? name.data : "", whose,
            (int)(who.len < 80 ? who.len : 80), who.data ? who.data : "");
}

pal_status pal_settings_check(const pal_runtime_options *options, pal_error *err)
{
    size_t unused;

    for (size_t i = 0; i < options->agents_len; i++) {
        const pal_agent_settings *agent = &options->agents[i];

        if (agent->name.len == 0)
            return pal_error_set(err, PAL_INVALID, "agents[%zu] has no name", i);
        if (agent->endpoint.len > 0 && !pal_settings_endpoint(options, agent->endpoint, &unused))
            return no_endpoint(agent->endpoint, ", which is named by agent ", agent->name, err);
    }
    return PAL_OK;
}

/* ---- Levels ---- */

static level level_of_request(const pal_turn_request *request)
{
    return (level){.endpoint = request->endpoint,
            .model = request->model,
            .system = request->system,
            .has_system = request->has_system,
            .rounds_max = request->max_tool_iterations};
}

static level level_of_agent(const pal_agent_settings *agent)
{
    if (!agent)
        return (level){0};
    return (level){.endpoint = agent->endpoint,
            .model = agent->model,
            .system = agent->system,
            .has_system = agent->system.len > 0,
            .rounds_max = agent->max_tool_iterations};
}

/* Metadata is checked when it is stored; what is of another type says nothing. */
static level level_of_session(const pal_session *session, pal_arena *arena)
{
    level own = {0};
    pal_json metadata, turn, system;
    uint64_t rounds = 0;

    if (session->metadata.len == 0 ||
            pal_json_parse(arena, session->metadata, NULL, &metadata, NULL) != PAL_OK)
        return own;
    turn = pal_json_find(metadata, "turn");
    own.endpoint = pal_json_string(pal_json_find(turn, "endpoint"), arena);
    own.model = pal_json_string(pal_json_find(turn, "model"), arena);
    system = pal_json_find(turn, "system");
    own.has_system = pal_json_type_of(system) == PAL_JSON_STRING;
    own.system = pal_json_string(system, arena);
    if (pal_json_u64(pal_json_find(turn, "max_tool_iterations"), &rounds) && rounds < UINT32_MAX)
        own.rounds_max = (uint32_t)rounds;
    return own;
}

static const pal_agent_settings *find_agent(const pal_runtime_options *options, pal_str name)
{
    for (size_t i = 0; name.len > 0 && i < options->agents_len; i++)
        if (pal_str_equal(options->agents[i].name, name))
            return &options->agents[i];
    return NULL;
}

/* Who names a model and no endpoint means the endpoint whose own it is. */
static pal_status choose_endpoint(const pal_runtime_options *options, const level *levels,
        size_t len, pal_settings *settings, pal_error *err)
{
    for (size_t i = 0; i < len; i++) {
        size_t own = options->endpoints_len;

        if (settings->model.len == 0)
            settings->model = levels[i].model;
        if (levels[i].endpoint.len > 0) {
            if (!pal_settings_endpoint(options, levels[i].endpoint, &settings->endpoint))
                return no_endpoint(levels[i].endpoint, "", (pal_str){0}, err);
            break;
        }
        if (levels[i].model.len > 0)
            own = pal_settings_endpoint_of_model(options, levels[i].model, own);
        if (own < options->endpoints_len) {
            settings->endpoint = own;
            break;
        }
    }
    if (settings->model.len == 0)
        settings->model = options->endpoints[settings->endpoint].model;
    return PAL_OK;
}

pal_status pal_settings_find(const pal_runtime *runtime, const pal_turn_request *request,
        const pal_session *session, pal_arena *arena, pal_settings *out_settings, pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    pal_settings settings = {.system = options->system, .rounds_max = options->max_tool_iterations};
    level levels[3];
    pal_status status;

    settings.agent = session->agent;
    settings.own = find_agent(options, session->agent);
    levels[0] = level_of_request(request);
    levels[1] = level_of_session(session, arena);
    levels[2] = level_of_agent(settings.own);
    for (size_t i = 3; i-- > 0;) {
        if (levels[i].has_system)
            settings.system = levels[i].system;
        if (levels[i].rounds_max > 0)
            settings.rounds_max = levels[i].rounds_max;
    }
    settings.system_exact = request->has_system;
    status = choose_endpoint(options, levels, 3, &settings, err);
    if (status == PAL_OK && request->has_context)
        settings.context = request->context;
    else if (status == PAL_OK)
        status = pal_context_settings_merge(&options->context,
                settings.own ? settings.own->context : NULL, session->metadata, &settings.context,
                err);
    if (status == PAL_OK && pal_arena_failure(arena) != PAL_OK)
        status = pal_error_set(err, pal_arena_failure(arena), "out of memory");
    if (status == PAL_OK)
        *out_settings = settings;
    return status;
}

/* ---- What follows from them ---- */

static bool is_offered(const pal_agent_settings *agent, pal_str tool)
{
    for (size_t i = 0; i < agent->tools_len; i++) {
        pal_str name = agent->tools[i];
        bool is_start = name.len > 0 && name.data[name.len - 1] == '*';

        if (is_start ? tool.len >= name.len - 1 && memcmp(tool.data, name.data, name.len - 1) == 0
                     : pal_str_equal(tool, name))
            return true;
    }
    return false;
}

size_t pal_settings_tools(const pal_settings *settings, pal_tool *tools, size_t len, size_t callers)
{
    size_t kept = callers;

    if (!settings->own || !settings->own->has_tools)
        return len;
    for (size_t i = callers; i < len; i++)
        if (is_offered(settings->own, tools[i].name))
            tools[kept++] = tools[i];
    return kept;
}

pal_window pal_settings_window(
        pal_runtime *runtime, const pal_settings *settings, const pal_turn_request *request)
{
    const pal_provider *provider = runtime->providers[settings->endpoint];

    return (pal_window){
            .tenant = request->tenant,
            .session = request->session,
            .model = settings->model,
            .models = runtime->options.models,
            .system = settings->system,
            .system_exact = settings->system_exact,
            .limits = {.output = request->output_max},
            .settings = settings->context,
            .profile = pal_provider_profile(provider),
            .family = pal_provider_family(provider, settings->model),
    };
}
