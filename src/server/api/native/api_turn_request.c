/* api_turn_request.c - reads the settings of a turn from a request. Only reads and checks. */
#include "server/api/native/api_turn.h"

#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/server_call.h"

/* ---- Tools ---- */

pal_status pal_api_tool_read(pal_call *call, pal_json value, pal_tool *out_tool, pal_error *err)
{
    if (call->api->is_strict && pal_json_type_of(value) == PAL_JSON_OBJECT) {
        pal_status status = pal_call_known_names(call, pal_native_tool_function(value),
                "name description parameters strict", true, err);
        if (status != PAL_OK)
            return status;
    }
    return pal_call_blame(call, pal_native_tool_read(value, call->arena, out_tool, err), err);
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
    if (pal_json_is_absent(array))
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

/* ---- The request ---- */

static const pal_api_object compaction_settings = {
        .members = PAL_API_MEMBERS(
                {"auto", .type = PAL_API_FLAG},
                {"prune", .type = PAL_API_FLAG},
                {"prune_protect", .type = PAL_API_COUNT},
                {"prune_protect_turns", .type = PAL_API_COUNT},
                {"prune_minimum", .type = PAL_API_COUNT},
                {"preserve_recent_tokens", .type = PAL_API_COUNT},
                {"max_output_tokens", .type = PAL_API_COUNT})};

const pal_api_object pal_api_context_settings = {
        .members = PAL_API_MEMBERS(
                {"token_strategy", .type = PAL_API_TEXT},
                {"max_tokens", .type = PAL_API_COUNT},
                {"threshold_percent", .type = PAL_API_COUNT},
                {"keep_recent_messages", .type = PAL_API_COUNT},
                {"compaction_threshold", .type = PAL_API_COUNT},
                {"low_water_percent", .type = PAL_API_COUNT},
                {"compaction", PAL_API_VALUE, .of = &compaction_settings})};

/* Settings that only requests to the server have. */
static const pal_api_object server_settings = {
        .members = PAL_API_MEMBERS(
                {"strategy", PAL_API_TEXT, "the context strategy, instead of the session's",
                        .offset = offsetof(pal_api_turn, strategy), .max = 64},
                {"stream", PAL_API_FLAG, "whether the response is a stream of events",
                        .offset = offsetof(pal_api_turn, is_stream)},
                {"background", PAL_API_FLAG, "whether the response is sent before the turn ends",
                        .offset = offsetof(pal_api_turn, is_background)})};

const pal_api_object pal_api_turn_settings = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_native_turn_settings},
                {.type = PAL_API_INCLUDE, .of = &server_settings})};

/* The request's settings override those of the session. */
static pal_status read_context(
        pal_api_turn *turn, const pal_session *session, bool has_context, pal_error *err)
{
    pal_str context;
    pal_call *call = turn->call;
    pal_turn_request *request = &turn->request;
    has_context = has_context && !pal_json_is_absent(pal_json_find(call->body, "context"));
    if (!has_context && !turn->strategy.len)
        return PAL_OK;
    pal_status status = PAL_OK;
    if (has_context)
        status = pal_call_object(call, call->body, "context", &context, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_session_context(call, session,
            request->agent.len ? request->agent : session->agent, &request->context, err);
    if (status != PAL_OK)
        return status;
    if (has_context) {
        call->fail_param = "context";
        status = pal_context_override(pal_json_raw(call->body), &request->context, err);
        if (status != PAL_OK)
            return status;
    }
    call->fail_param = "strategy";
    if (turn->strategy.len && !pal_strategy_from_name(turn->strategy, &request->context.strategy))
        return pal_error_set(err, PAL_INVALID,
                "'strategy' must be compact, summarization, sliding_window, reset or none");
    call->fail_param = NULL;
    request->has_context = true;
    return PAL_OK;
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
        if (pal_text_equal_nocase(name, *agent))
            return PAL_OK;
    }
    call->fail_param = "agent";
    return pal_error_set(err, PAL_INVALID, "agent '%.*s' is not configured; use one of 'agents'",
            PAL_EXCERPT(*agent, 80));
}

pal_status pal_api_turn_read(
        pal_api_turn *turn, const pal_session *session, bool has_context, pal_error *err)
{
    pal_call *call = turn->call;
    pal_tool *tools = NULL;
    pal_status status = pal_call_blame(call,
            pal_native_turn_settings_read(call->body, call->arena, &turn->request, err), err);
    if (status != PAL_OK)
        return status;
    status = pal_api_object_read(call, call->body, &server_settings, turn, err);
    if (status != PAL_OK)
        return status;
    if (turn->is_stream && turn->is_background) {
        call->fail_param = "background";
        return pal_error_set(err, PAL_INVALID, "send either 'stream' or 'background', not both");
    }
    status = pal_api_tools_read(
            call, pal_json_find(call->body, "tools"), &tools, &turn->request.tools_len, err);
    if (status != PAL_OK)
        return status;
    turn->request.tools = tools;
    return read_context(turn, session, has_context, err);
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
