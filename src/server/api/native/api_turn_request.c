/* api_turn_request.c - reads the settings of a turn from a request. Only reads and checks. */
#include "server/api/native/api_turn.h"

#include <strings.h>
#include "dialect/dialect_member.h"
#include "server/server_call.h"

static bool is_absent(pal_json value)
{
    pal_json_type type = pal_json_type_of(value);
    return type == PAL_JSON_NONE || type == PAL_JSON_NULL;
}

/* ---- Tools ---- */

pal_status pal_api_tool_read(pal_call *call, pal_json value, pal_tool *out_tool, pal_error *err)
{
    pal_json function = pal_json_find(value, "function");
    pal_json of = pal_json_type_of(function) == PAL_JSON_OBJECT ? function : value;
    pal_json type = pal_json_find(value, "type");
    pal_tool tool = {0};
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a tool must be an object");
    if (!is_absent(type) && !pal_json_string_is(type, "function"))
        return pal_error_set(err, PAL_INVALID,
                "'type' must be function; built-in tools of model services are not supported");
    pal_status status = PAL_OK;
    if (call->api->is_strict)
        status = pal_call_names(call, of, "name description parameters strict", true, err);
    if (status == PAL_OK)
        status = pal_call_text(call, of, "name", PAL_LABEL_LEN_MAX, &tool.name, err);
    if (status == PAL_OK)
        status = pal_call_text(call, of, "description", PAL_SYSTEM_LEN_MAX, &tool.description, err);
    if (status == PAL_OK)
        status = pal_call_object(call, of, "parameters", &tool.schema, err);
    if (status == PAL_OK)
        status = pal_call_flag(call, of, "strict", &tool.is_strict, err);
    if (status == PAL_OK && tool.name.len == 0)
        status = pal_error_set(err, PAL_INVALID, "'name' of the function is missing");
    *out_tool = tool;
    return status;
}

pal_status pal_api_tools_begin(pal_call *call, pal_json array, pal_tool **out_tools, pal_error *err)
{
    size_t count = pal_json_count(array);
    call->fail_param = "tools";
    if (pal_json_type_of(array) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "'tools' must be an array of tools");
    if (count > PAL_SERVER_TOOLS_MAX)
        return pal_error_set(err, PAL_LIMIT,
                "'tools' has %zu tools; at most %d are allowed in one request",
                count, PAL_SERVER_TOOLS_MAX);
    call->fail_param = NULL;
    *out_tools = pal_arena_array(call->arena, count ? count : 1, sizeof **out_tools);
    return pal_arena_checked(call->arena, err);
}

pal_status pal_api_tools_read(
        pal_call *call, pal_json array, pal_tool **out_tools, size_t *out_len, pal_error *err)
{
    pal_json_iter iter = pal_json_each(array);
    pal_json value;
    pal_tool *tools = NULL;
    if (is_absent(array))
        return PAL_OK;
    pal_status status = pal_api_tools_begin(call, array, &tools, err);
    for (size_t i = 0; status == PAL_OK && pal_json_next(&iter, NULL, &value); i++) {
        status = pal_api_tool_read(call, value, &tools[i], err);
        call->fail_param = status == PAL_OK ? NULL : "tools";
        status = pal_member_within(err, status, "tools", i);
    }
    if (status != PAL_OK)
        return status;
    *out_tools = tools;
    *out_len = pal_json_count(array);
    return pal_arena_checked(call->arena, err);
}

static pal_status read_tool_choice(pal_call *call, pal_turn_request *request, pal_error *err)
{
    pal_json value = pal_json_find(call->body, "tool_choice");
    pal_json_type type = pal_json_type_of(value);
    if (is_absent(value))
        return PAL_OK;
    bool is_word = pal_json_string_is(value, "auto") || pal_json_string_is(value, "none") ||
            pal_json_string_is(value, "required");
    if (type == PAL_JSON_OBJECT || is_word) {
        request->tool_choice = pal_json_raw(value);
        return PAL_OK;
    }
    call->fail_param = "tool_choice";
    return pal_error_set(err, PAL_INVALID,
            "'tool_choice' must be auto, none, required or an object that names a function");
}

/* ---- Context settings ---- */

static const pal_context_settings *agent_context(const pal_call *call, pal_str agent)
{
    const pal_agent_settings *own = pal_agent_find(call->server->config->runtime, agent);
    return own ? own->context : NULL;
}

pal_status pal_api_session_context(pal_call *call, const pal_session *session, pal_str agent,
        pal_context_settings *out_settings, pal_error *err)
{
    return pal_context_settings_merge(call->server->config->context, agent_context(call, agent),
            session->metadata, out_settings, err);
}

/* The request's settings override those of the session. */
static pal_status read_context(
        pal_api_turn *turn, const pal_session *session, bool has_context, pal_error *err)
{
    pal_call *call = turn->call;
    pal_str strategy = {0}, context;
    pal_turn_request *request = &turn->request;
    pal_status status = pal_call_text(call, call->body, "strategy", 64, &strategy, err);
    has_context = has_context && !is_absent(pal_json_find(call->body, "context"));
    if (status != PAL_OK || (!has_context && !strategy.len))
        return status;
    if (has_context)
        status = pal_call_object(call, call->body, "context", &context, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_session_context(call, session,
            request->agent.len ? request->agent : session->agent, &request->context, err);
    if (status == PAL_OK && has_context) {
        call->fail_param = "context";
        status = pal_context_override(pal_json_raw(call->body), &request->context, err);
    }
    if (status != PAL_OK)
        return status;
    call->fail_param = "strategy";
    if (strategy.len && !pal_strategy_from_name(strategy, &request->context.strategy))
        return pal_error_set(err, PAL_INVALID,
                "'strategy' must be compact, summarization, sliding_window, reset or none");
    call->fail_param = NULL;
    request->has_context = true;
    return PAL_OK;
}

/* ---- The request ---- */

static pal_status read_lane(pal_call *call, pal_turn_lane *out_lane, pal_error *err)
{
    static const char *const names[] = {"reject", "queue", "steer", "interrupt"};
    pal_json value = pal_json_find(call->body, "lane");
    if (is_absent(value))
        return PAL_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (pal_json_string_is(value, names[i])) {
            *out_lane = (pal_turn_lane)i;
            return PAL_OK;
        }
    }
    call->fail_param = "lane";
    return pal_error_set(err, PAL_INVALID, "'lane' must be reject, queue, steer or interrupt");
}

static pal_status read_texts(pal_call *call, pal_turn_request *request, pal_error *err)
{
    pal_json body = call->body;
    request->has_system = !is_absent(pal_json_find(body, "system"));
    pal_status status = pal_call_text(call, body, "model", PAL_MODEL_LEN_MAX, &request->model, err);
    if (status == PAL_OK)
        status = pal_call_text(call, body, "provider", PAL_NAME_LEN_MAX, &request->endpoint, err);
    if (status == PAL_OK)
        status = pal_call_text(call, body, "system", PAL_SYSTEM_LEN_MAX, &request->system, err);
    if (status == PAL_OK)
        status = pal_call_text(call, body, "label", PAL_LABEL_LEN_MAX, &request->label, err);
    if (status == PAL_OK)
        status = pal_call_object(call, body, "parameters", &request->parameters, err);
    return status;
}

static pal_status read_numbers(pal_call *call, pal_turn_request *request, pal_error *err)
{
    uint64_t rounds = 0;
    pal_status status = pal_call_count(
            call, call->body, "max_output_tokens", 1, UINT32_MAX, &request->output_max, err);
    if (status == PAL_OK)
        status = pal_call_count(call, call->body, "max_tool_iterations", 1,
                PAL_SERVER_ITERATIONS_MAX, &rounds, err);
    request->max_tool_iterations = (uint32_t)rounds;
    return status;
}

static pal_status read_flags(pal_api_turn *turn, pal_error *err)
{
    pal_call *call = turn->call;
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
            {"stream", &turn->is_stream},
            {"background", &turn->is_background},
            {"all_or_nothing", &turn->request.all_or_nothing},
            {"no_server_tools", &turn->request.no_server_tools},
    };
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < sizeof flags / sizeof *flags; i++)
        status = pal_call_flag(call, call->body, flags[i].name, flags[i].flag, err);
    if (status == PAL_OK && turn->is_stream && turn->is_background) {
        call->fail_param = "background";
        return pal_error_set(err, PAL_INVALID, "send either 'stream' or 'background', not both");
    }
    return status;
}

pal_status pal_api_agent_read(pal_api_turn *turn, pal_error *err)
{
    pal_call *call = turn->call;
    const pal_runtime_options *options = call->server->config->runtime;
    pal_str *agent = &turn->request.agent;
    pal_status status =
            pal_call_text(call, call->body, "agent", PAL_NAME_LEN_MAX, agent, err);
    if (status != PAL_OK || agent->len == 0 || options->agents_len == 0)
        return status;
    for (size_t i = 0; i < options->agents_len; i++) {
        pal_str name = options->agents[i].name;
        if (name.len == agent->len && strncasecmp(name.data, agent->data, name.len) == 0)
            return PAL_OK;
    }
    call->fail_param = "agent";
    return pal_error_set(err, PAL_INVALID, "agent '%.*s' is not configured; use one of 'agents'",
            (int)(agent->len < 80 ? agent->len : 80), agent->data);
}

pal_status pal_api_turn_read(
        pal_api_turn *turn, const pal_session *session, bool has_context, pal_error *err)
{
    pal_call *call = turn->call;
    pal_tool *tools = NULL;
    pal_status status = read_flags(turn, err);
    if (status == PAL_OK)
        status = read_lane(call, &turn->request.lane, err);
    if (status == PAL_OK)
        status = read_texts(call, &turn->request, err);
    if (status == PAL_OK)
        status = read_numbers(call, &turn->request, err);
    if (status == PAL_OK)
        status = pal_api_tools_read(
                call, pal_json_find(call->body, "tools"), &tools, &turn->request.tools_len, err);
    turn->request.tools = tools;
    if (status == PAL_OK)
        status = read_tool_choice(call, &turn->request, err);
    if (status == PAL_OK)
        status = read_context(turn, session, has_context, err);
    return status;
}

pal_api_turn *pal_api_turn_new(pal_call *call, const pal_session *session)
{
    pal_api_turn *turn = pal_arena_array(call->arena, 1, sizeof *turn);
    if (!turn)
        return NULL;
    turn->call = call;
    turn->request.tenant = call->caller.tenant;
    turn->request.session = session->id;
    turn->request.budget = call->caller.budget;
    call->user = turn;
    return turn;
}

pal_status pal_api_active_session(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err)
{
    pal_status status = pal_call_session(call, name, out_session, err);
    if (status == PAL_OK && out_session->state == PAL_SESSION_TRASH)
        return pal_error_set(err, PAL_NOT_FOUND, "Session not found");
    return status;
}
