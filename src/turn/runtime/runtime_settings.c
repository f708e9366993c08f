/* runtime_settings.c - determines the settings of a turn. The request overrides the session, the
 * session its agent, and the agent the runtime. A session has its settings in its metadata:
 *
 *   {"turn": {"endpoint": "main", "model": "m-1", "system": "Be brief.", "max_tool_iterations": 3,
 *             "parameters": {"temperature": 0.2},
 *             "permissions": [{"tool": "files__*", "do": "deny"}]},
 *    "context": {...}}
 *
 * The agent is the request's, otherwise the session's. If the runtime has agents and the session's
 * agent is not one of them, the default agent answers.
 *
 * Parameters are merged member by member. A null removes a member of a lower level.
 *
 * A model belongs to its endpoint: if one level names an endpoint, models of lower levels are
 * ignored. The functions read only data of the runtime that never changes, and can be called from
 * any thread. */
#include "turn/runtime/runtime.h"

#include "base/buf.h"
#include "base/json/json.h"
#include "base/text.h"

/* The settings of one level; empty members are left to the level below. */
typedef struct level {
    pal_str endpoint;
    pal_str model;
    pal_str system;
    bool has_system;
    uint32_t rounds_max;
    pal_str parameters;
    pal_permission_rules permissions;
} level;

bool pal_turn_settings_endpoint(
        const pal_runtime_options *options, pal_str name, size_t *out_endpoint)
{
    for (size_t i = 0; i < options->endpoints_len; i++) {
        if (!pal_str_equal(options->endpoints[i].name, name))
            continue;
        *out_endpoint = i;
        return true;
    }
    return false;
}

size_t pal_turn_settings_endpoint_of_model(
        const pal_runtime_options *options, pal_str model, size_t otherwise)
{
    for (size_t i = 0; model.len > 0 && i < options->endpoints_len; i++)
        if (pal_str_equal(options->endpoints[i].model, model))
            return i;
    return otherwise;
}

static pal_status no_endpoint(pal_str name, const char *whose, pal_str who, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "unknown endpoint '%.*s'%s%.*s",
            PAL_EXCERPT(name, 80), whose, PAL_EXCERPT(who, 80));
}

pal_status pal_turn_settings_check(const pal_runtime_options *options, pal_error *err)
{
    size_t unused;

    for (size_t i = 0; i < options->agents_len; i++) {
        const pal_agent_settings *agent = &options->agents[i];

        if (agent->name.len == 0)
            return pal_error_set(err, PAL_INVALID, "agents[%zu] has no name", i);
        if (agent->endpoint.len > 0 &&
                !pal_turn_settings_endpoint(options, agent->endpoint, &unused))
            return no_endpoint(agent->endpoint, " in agent ", agent->name, err);
    }
    return pal_turn_settings_check_agent(options, options->default_agent, err);
}

/* ---- Levels ---- */

static level level_of_request(const pal_turn_request *request)
{
    return (level){.endpoint = request->endpoint,
            .model = request->model,
            .system = request->system,
            .has_system = request->has_system,
            .rounds_max = request->max_tool_iterations,
            .parameters = request->parameters,
            .permissions = {request->permissions, request->permissions_len}};
}

static level level_of_agent(const pal_agent_settings *agent)
{
    if (!agent)
        return (level){0};
    return (level){.endpoint = agent->endpoint,
            .model = agent->model,
            .system = agent->system,
            .has_system = agent->system.len > 0,
            .rounds_max = agent->max_tool_iterations,
            .parameters = agent->parameters,
            .permissions = {agent->permissions, agent->permissions_len}};
}

/* Metadata is checked when it is stored. Members of another type are ignored. */
static level level_of_session(const pal_session *session, pal_arena *arena)
{
    level own = {0};
    pal_json metadata, turn, system, parameters;
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
    parameters = pal_json_find(turn, "parameters");
    if (pal_json_type_of(parameters) == PAL_JSON_OBJECT)
        own.parameters = pal_json_raw(parameters);
    own.permissions = pal_permission_read_rules(pal_json_find(turn, "permissions"), arena);
    return own;
}

/* ---- Agents ---- */

/* Routing changes agent ids to lower case, so two names must not differ only in case. */
static const pal_agent_settings *find_agent(const pal_runtime_options *options, pal_str name)
{
    for (size_t i = 0; name.len > 0 && i < options->agents_len; i++) {
        pal_str own = options->agents[i].name;

        if (pal_text_equal_nocase(own, name))
            return &options->agents[i];
    }
    return NULL;
}

pal_status pal_turn_settings_check_agent(
        const pal_runtime_options *options, pal_str name, pal_error *err)
{
    if (name.len == 0 || options->agents_len == 0 || find_agent(options, name))
        return PAL_OK;
    return pal_error_set(err, PAL_NOT_FOUND, "agent '%.*s' is not configured; use one of 'agents'",
            PAL_EXCERPT(name, 80));
}

const pal_agent_settings *pal_agent_find(const pal_runtime_options *options, pal_str name)
{
    const pal_agent_settings *agent = find_agent(options, name);

    return agent ? agent : find_agent(options, options->default_agent);
}

/* ---- Parameters ---- */

static bool has_member(pal_json object, pal_str name, pal_arena *arena)
{
    pal_json key, value;

    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &key, &value);)
        if (pal_str_equal(pal_json_string(key, arena), name))
            return true;
    return false;
}

/* Writes the members of one level that no level above it has. A null only hides members of lower
 * levels. */
static void put_parameters(pal_json_writer *writer, const pal_json *objects, size_t at,
        pal_arena *arena)
{
    pal_json key, value;

    for (pal_json_iter iter = pal_json_each(objects[at]); pal_json_next(&iter, &key, &value);) {
        pal_str name = pal_json_string(key, arena);
        bool is_hidden = pal_json_type_of(value) == PAL_JSON_NULL;

        for (size_t i = 0; !is_hidden && i < at; i++)
            is_hidden = has_member(objects[i], name, arena);
        if (is_hidden)
            continue;
        pal_json_name_str(writer, name);
        pal_json_put_raw(writer, pal_json_raw(value));
    }
}

/* Merges the parameters of all levels into one object. If only one level has parameters, its text
 * stays unchanged, and the provider reports any error in it. */
static pal_status merge_parameters(const pal_str *texts, size_t len, pal_arena *arena,
        pal_str *out_parameters, pal_error *err)
{
    pal_json objects[4] = {0};
    pal_buf buf;
    pal_json_writer writer;
    pal_status status = PAL_OK;
    size_t given = 0, first = 0;

    for (size_t i = len; i-- > 0;) {
        if (texts[i].len == 0)
            continue;
        given++;
        first = i;
    }
    if (given < 2) {
        *out_parameters = given ? texts[first] : (pal_str){0};
        return PAL_OK;
    }
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_error inner = {0};

        if (texts[i].len > 0)
            status = pal_json_parse(arena, texts[i], NULL, &objects[i], &inner);
        if (status != PAL_OK)
            pal_error_set(err, status, "'parameters' is not JSON: %s", inner.message);
        else
            put_parameters(&writer, objects, i, arena);
    }
    pal_json_end_object(&writer);
    if (status == PAL_OK && buf.failure != PAL_OK)
        status = pal_error_set(err, buf.failure, "out of memory");
    if (status == PAL_OK)
        *out_parameters = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return status;
}

/* ---- All settings ---- */

/* If a level names a model but no endpoint, uses the endpoint whose default model it is, if there
 * is one. */
static pal_status choose_endpoint(const pal_runtime_options *options, const level *levels,
        size_t len, pal_turn_settings *settings, pal_error *err)
{
    for (size_t i = 0; i < len; i++) {
        size_t own = options->endpoints_len;

        if (settings->model.len == 0)
            settings->model = levels[i].model;
        if (levels[i].endpoint.len > 0) {
            if (!pal_turn_settings_endpoint(options, levels[i].endpoint, &settings->endpoint))
                return no_endpoint(levels[i].endpoint, "", (pal_str){0}, err);
            break;
        }
        if (levels[i].model.len > 0)
            own = pal_turn_settings_endpoint_of_model(options, levels[i].model, own);
        if (own < options->endpoints_len) {
            settings->endpoint = own;
            break;
        }
    }
    if (settings->model.len == 0)
        settings->model = options->endpoints[settings->endpoint].model;
    return PAL_OK;
}

pal_status pal_turn_settings_find(const pal_runtime *runtime, const pal_turn_request *request,
        const pal_session *session, pal_arena *arena, pal_turn_settings *out_settings,
        pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    pal_turn_settings settings = {
            .system = options->system, .rounds_max = options->max_tool_iterations};
    level levels[3];
    pal_str parameters[4];
    pal_status status = pal_turn_settings_check_agent(options, request->agent, err);

    if (status != PAL_OK)
        return status;
    settings.agent = request->agent.len ? request->agent : session->agent;
    settings.own = pal_agent_find(options, settings.agent);
    if (settings.own)
        settings.agent = settings.own->name;
    levels[0] = level_of_request(request);
    levels[1] = level_of_session(session, arena);
    levels[2] = level_of_agent(settings.own);
    for (size_t i = 3; i-- > 0;) {
        if (levels[i].has_system)
            settings.system = levels[i].system;
        if (levels[i].rounds_max > 0)
            settings.rounds_max = levels[i].rounds_max;
    }
    settings.permissions = (pal_permission_set){
            .agent = levels[2].permissions,
            .runtime = {options->permissions, options->permissions_len},
            .session = levels[1].permissions,
            .request = levels[0].permissions};
    settings.system_exact = request->has_system;
    for (size_t i = 0; i < 3; i++)
        parameters[i] = levels[i].parameters;
    parameters[3] = options->parameters;
    status = merge_parameters(parameters, 4, arena, &settings.parameters, err);
    if (status != PAL_OK)
        return status;
    status = choose_endpoint(options, levels, 3, &settings, err);
    if (status != PAL_OK)
        return status;
    settings.context = request->context;
    if (!request->has_context)
        status = pal_context_settings_merge(&options->context,
                settings.own ? settings.own->context : NULL, session->metadata, &settings.context,
                err);
    if (status != PAL_OK)
        return status;
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *out_settings = settings;
    return PAL_OK;
}

/* ---- Tools and window ---- */

static bool is_offered(const pal_agent_settings *agent, pal_str tool)
{
    if (!agent || !agent->has_tools)
        return true;
    for (size_t i = 0; i < agent->tools_len; i++)
        if (pal_text_matches(tool, agent->tools[i]))
            return true;
    return false;
}

pal_permission pal_turn_settings_permission(
        const pal_runtime_options *options, const pal_tool *tool)
{
    const pal_agent_settings *agent = pal_agent_find(options, (pal_str){0});
    const pal_permission_set set = {.agent = level_of_agent(agent).permissions,
            .runtime = {options->permissions, options->permissions_len}};

    return is_offered(agent, tool->name) ? pal_permission_decide(&set, tool, PAL_PERMISSION_NONE)
                                         : PAL_PERMISSION_DENY;
}

size_t pal_turn_settings_tools(
        const pal_turn_settings *settings, pal_tool *tools, size_t len, size_t callers)
{
    size_t kept = callers;

    for (size_t i = callers; i < len; i++)
        if (is_offered(settings->own, tools[i].name))
            tools[kept++] = tools[i];
    return callers +
            pal_permission_drop_denied(&settings->permissions, tools + callers, kept - callers);
}

pal_window pal_turn_settings_window(
        pal_runtime *runtime, const pal_turn_settings *settings, const pal_turn_request *request)
{
    const pal_provider *provider = runtime->providers[settings->endpoint];
    pal_window window = {
            .tenant = request->tenant,
            .session = request->session,
            .model = settings->model,
            .models = runtime->options.models,
            .system = settings->system,
            .system_exact = settings->system_exact,
            .limits = {.output = request->output_max, .answer = request->output_max},
            .settings = settings->context,
            .profile = pal_provider_profile(provider),
            .family = pal_provider_family(provider, settings->model),
            .pruned_text = runtime->options.pruned_text,
            .pruned_user = runtime->options.pruned_user,
            .memory = runtime->options.memory,
    };

    if (request->items_request.len && pal_provider_speaks_responses(provider)) {
        window.profile = PAL_PROFILE_OPENAI_RESPONSES;
        window.family = pal_str_of("openai");
    }
    /* A conversation that the service keeps needs a threshold, because it has no other limit. */
    if (pal_provider_keeps(provider) && window.settings.compaction_threshold == 0)
        window.settings.compaction_threshold = PAL_COMPACTION_THRESHOLD;
    return window;
}
