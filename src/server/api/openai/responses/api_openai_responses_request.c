/* api_openai_responses_request.c - reads a request: the turn to run, and the settings that the
 * response repeats. Only reads and checks. */
#include "server/api/openai/responses/api_openai_responses.h"

#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/openai/socket/api_openai_socket.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define PARAMETERS_BYTES_MAX ((size_t)8 << 20)

static pal_status wrong(
        pal_call *call, const char *name, pal_json value, const char *expected, pal_error *err)
{
    call->fail_param = name;
    return pal_member_wrong(err, name, value, expected);
}

/* ---- Members that are sent to the model unchanged ---- */

typedef struct plain_member {
    const char *name;
    pal_json_type type; /* TRUE means both booleans */
    const char *expected;
    double min, max;      /* range of a number */
    const char *upstream; /* name at the model service; NULL: it is not sent */
} plain_member;

static const plain_member plain_members[] = {
        {"temperature", PAL_JSON_NUMBER, "a number from 0 to 2", 0, 2, "temperature"},
        {"top_p", PAL_JSON_NUMBER, "a number from 0 to 1", 0, 1, "top_p"},
        {"presence_penalty", PAL_JSON_NUMBER, "a number from -2 to 2", -2, 2, "presence_penalty"},
        {"frequency_penalty", PAL_JSON_NUMBER, "a number from -2 to 2", -2, 2,
                "frequency_penalty"},
        {"top_logprobs", PAL_JSON_NUMBER, "a number from 0 to 20", 0, 20, "top_logprobs"},
        {"parallel_tool_calls", PAL_JSON_TRUE, "true or false", 0, 0, "parallel_tool_calls"},
        {"service_tier", PAL_JSON_STRING, "a string", 0, 0, "service_tier"},
        {"user", PAL_JSON_STRING, "a string", 0, 0, "user"},
        {"safety_identifier", PAL_JSON_STRING, "a string", 0, 0, NULL},
        {"prompt_cache_key", PAL_JSON_STRING, "a string", 0, 0, NULL},
        {"max_tool_calls", PAL_JSON_NUMBER, "a number of at least 1", 1, 1e9, NULL},
};

static bool is_fit(const plain_member *member, pal_json value)
{
    double number = 0;
    pal_json_type type = pal_json_type_of(value);
    if (member->type == PAL_JSON_TRUE)
        return type == PAL_JSON_TRUE || type == PAL_JSON_FALSE;
    if (type != PAL_JSON_NUMBER || member->type != PAL_JSON_NUMBER)
        return type == member->type;
    return pal_json_f64(value, &number) && number >= member->min && number <= member->max;
}

static bool is_named(const plain_member *member, const char *name)
{
    return pal_str_is(pal_str_of(member->name), name);
}

static pal_status read_plain(
        const pal_response_request *request, pal_json_writer *parameters, pal_error *err)
{
    pal_call *call = request->call;
    for (size_t i = 0; i < sizeof plain_members / sizeof *plain_members; i++) {
        const plain_member *member = &plain_members[i];
        pal_json value = pal_json_find(call->body, member->name);
        if (pal_json_is_absent(value))
            continue;
        if (!is_fit(member, value))
            return wrong(call, member->name, value, member->expected, err);
        /* Model services reject this setting if there are no tools, but clients always send it. */
        if (!member->upstream ||
                (is_named(member, "parallel_tool_calls") && !request->turn.tools_len))
            continue;
        pal_put_raw(parameters, member->upstream, pal_json_raw(value));
        if (is_named(member, "top_logprobs"))
            pal_put_flag(parameters, "logprobs", true);
    }
    return PAL_OK;
}

/* ---- The format of the answer ---- */

static void put_member(
        pal_json_writer *writer, pal_json object, const char *name, const char *upstream)
{
    pal_json value = pal_json_find(object, name);
    if (pal_json_is_absent(value))
        return;
    pal_put_raw(writer, upstream, pal_json_raw(value));
}

static pal_status read_schema(
        pal_call *call, pal_json format, pal_json_writer *parameters, pal_error *err)
{
    pal_json name = pal_json_find(format, "name"), schema = pal_json_find(format, "schema");
    if (pal_json_type_of(name) != PAL_JSON_STRING)
        return wrong(call, "text.format.name", name, "a string", err);
    if (pal_json_type_of(schema) != PAL_JSON_OBJECT)
        return wrong(call, "text.format.schema", schema, "a JSON Schema object", err);
    pal_json_name(parameters, "response_format");
    pal_json_begin_object(parameters);
    pal_put_text(parameters, "type", "json_schema");
    pal_json_name(parameters, "json_schema");
    pal_json_begin_object(parameters);
    put_member(parameters, format, "name", "name");
    put_member(parameters, format, "description", "description");
    put_member(parameters, format, "schema", "schema");
    put_member(parameters, format, "strict", "strict");
    pal_json_end_object(parameters);
    pal_json_end_object(parameters);
    return PAL_OK;
}

static pal_status read_text(pal_call *call, pal_json_writer *parameters, pal_error *err)
{
    pal_json text = pal_json_find(call->body, "text"), format = pal_json_find(text, "format");
    pal_json type = pal_json_find(format, "type");
    if (!pal_json_is_absent(text) && pal_json_type_of(text) != PAL_JSON_OBJECT)
        return wrong(call, "text", text, "an object", err);
    put_member(parameters, text, "verbosity", "verbosity");
    if (pal_json_is_absent(format) || pal_json_string_is(type, "text"))
        return PAL_OK;
    if (pal_json_string_is(type, "json_schema"))
        return read_schema(call, format, parameters, err);
    if (!pal_json_string_is(type, "json_object"))
        return wrong(call, "text.format.type", type, "one of text, json_schema, json_object", err);
    pal_put_raw(parameters, "response_format", pal_str_of("{\"type\":\"json_object\"}"));
    return PAL_OK;
}

static pal_status read_reasoning(pal_call *call, pal_json_writer *parameters, pal_error *err)
{
    pal_json reasoning = pal_json_find(call->body, "reasoning");
    pal_json effort = pal_json_find(reasoning, "effort");
    if (!pal_json_is_absent(reasoning) && pal_json_type_of(reasoning) != PAL_JSON_OBJECT)
        return wrong(call, "reasoning", reasoning, "an object", err);
    if (!pal_json_is_absent(effort) && pal_json_type_of(effort) != PAL_JSON_STRING)
        return wrong(call, "reasoning.effort", effort, "a string", err);
    put_member(parameters, reasoning, "effort", "reasoning_effort");
    return PAL_OK;
}

static pal_status read_parameters(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    pal_buf buf;
    pal_buf_init(&buf, PARAMETERS_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_status status = read_plain(request, &writer, err);
    if (status == PAL_OK)
        status = read_text(call, &writer, err);
    if (status == PAL_OK)
        status = read_reasoning(call, &writer, err);
    pal_json_end_object(&writer);
    if (status == PAL_OK)
        status = pal_member_keep(&buf, call->arena, &request->turn.parameters, err);
    pal_buf_done(&buf);
    return status;
}

/* ---- The history to continue ---- */

static pal_status read_state(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    pal_json conversation = pal_json_find(call->body, "conversation");
    pal_json id = pal_json_type_of(conversation) == PAL_JSON_OBJECT
            ? pal_json_find(conversation, "id")
            : conversation;
    if (pal_json_is_absent(conversation))
        return PAL_OK;
    if (pal_json_type_of(id) != PAL_JSON_STRING)
        return wrong(
                call, "conversation", conversation, "a conversation id, or {\"id\":...}", err);
    request->conversation = pal_json_string(id, call->arena);
    if (request->previous.len == 0)
        return pal_arena_checked(call->arena, err);
    call->fail_param = "previous_response_id";
    return pal_call_refuse(call, 400, "mutually_exclusive_parameters", PAL_INVALID, err,
            "send either 'previous_response_id' or 'conversation', not both");
}

static pal_status read_input(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    pal_json input = pal_json_find(call->body, "input");
    bool has_context = request->previous.len || request->conversation.len;
    if (pal_json_is_absent(input) && (has_context || !request->generates))
        return PAL_OK;
    call->fail_param = "input";
    if (pal_json_is_absent(input))
        return pal_call_refuse(call, 400, "missing_required_parameter", PAL_INVALID, err,
                "'input' is missing; send a string or an array of items");
    pal_status status = (request->has_service ? pal_openai_items_read_input
                                              : pal_openai_items_read)(input, "input",
            pal_response_reference, request, call->arena, &request->turn.messages,
            &request->turn.messages_len, err);
    if (status != PAL_OK)
        return status;
    if (request->turn.messages_len == 0 && !has_context && request->generates)
        return pal_error_set(err, PAL_INVALID, "'input' is empty; send at least one item");
    call->fail_param = NULL;
    for (size_t i = 0; i < request->turn.messages_len; i++)
        request->turn.messages[i].id = pal_id_new();
    pal_call_give_client_ids(call, request->turn.messages, request->turn.messages_len, 2);
    return pal_arena_checked(call->arena, err);
}

/* ---- How the turn runs ---- */

const pal_api_object pal_response_body = {"ResponseRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"input", PAL_API_VALUE,
                        .schema = "{\"type\":[\"string\",\"array\"],\"items\":{}}"},
                {"model", PAL_API_TEXT, "the model",
                        .offset = offsetof(pal_response_request, turn.model),
                        .max = PAL_MODEL_LEN_MAX},
                {"instructions", PAL_API_TEXT, "the system prompt",
                        .offset = offsetof(pal_response_request, turn.system),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"max_output_tokens", PAL_API_COUNT, "the maximum length of the answer",
                        .offset = offsetof(pal_response_request, turn.output_max), .min = 1,
                        .max = UINT32_MAX},
                {"previous_response_id", PAL_API_TEXT, "the response to continue",
                        .offset = offsetof(pal_response_request, previous),
                        .max = PAL_NAME_LEN_MAX},
                {"conversation", PAL_API_VALUE, .schema = "{\"type\":[\"string\",\"object\"]}"},
                {"stream", PAL_API_FLAG, "whether the response is a stream of events",
                        .offset = offsetof(pal_response_request, is_stream)},
                {"background", PAL_API_FLAG, "whether the response is fetched later",
                        .offset = offsetof(pal_response_request, is_background)},
                {"store", PAL_API_FLAG, "whether the response is stored (true)",
                        .offset = offsetof(pal_response_request, is_stored)},
                {"generate", PAL_API_FLAG, "false: store the input and ask no model (true)",
                        .offset = offsetof(pal_response_request, generates)},
                {"tools", PAL_API_LIST, .of = &pal_api_any_object},
                {"metadata", PAL_API_VALUE, .of = &pal_api_any_object})};

static pal_status read_members(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    request->is_stored = request->generates = true;
    request->turn.has_system = !pal_json_is_absent(pal_json_find(call->body, "instructions"));
    pal_status status = pal_api_object_read(call, call->body, &pal_response_body, request, err);
    if (status != PAL_OK)
        return status;
    if (pal_openai_socket_of(call))
        request->is_stream = true; /* a WebSocket carries events only */
    if (request->is_background && !request->is_stored) {
        call->fail_param = "store";
        return pal_error_set(err, PAL_INVALID,
                "'background' requires 'store': the response is fetched later");
    }
    if (!request->is_stored && pal_openai_socket_of(call))
        request->is_kept = request->is_stored = true;
    request->has_service = request->generates &&
            pal_runtime_speaks(call->server->runtime, (pal_str){0}, request->turn.model,
                    PAL_FORWARD_RESPONSES);
    if (!pal_json_is_absent(pal_json_find(call->body, "prompt")) && !request->has_service) {
        call->fail_param = "prompt";
        return pal_error_set(err, PAL_INVALID,
                "'prompt' is not supported; send 'instructions' and 'input'");
    }
    return PAL_OK;
}

/* Settings that the request does not contain are those of the session. A client that stores nothing
 * here keeps its history itself. */
static pal_status read_truncation(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    pal_json value = pal_json_find(call->body, "truncation");
    bool is_kept_by_client = !request->is_stored || request->is_kept;
    if (pal_json_string_is(value, "auto") || (pal_json_is_absent(value) && !is_kept_by_client))
        return PAL_OK;
    if (!pal_json_is_absent(value) && !pal_json_string_is(value, "disabled"))
        return wrong(call, "truncation", value, "auto or disabled", err);
    pal_run_send_everything(call->server, &request->turn);
    return PAL_OK;
}

/* ---- The request for a service that has the API ---- */

/* The service gets the members of the client unchanged, except for those that Palaver handles: the
 * state, the input and how the answer is sent. */
static pal_status make_items_request(pal_response_request *request, pal_error *err)
{
    static const char *const own[] = {"type", "stream_id", "generate", "stream", "background",
            "previous_response_id", "conversation", "input", "instructions", "store", "model",
            "truncation", "max_output_tokens", "tools", NULL};
    pal_call *call = request->call;
    pal_buf buf;
    if (!request->has_service)
        return PAL_OK;
    pal_buf_init(&buf, PARAMETERS_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_status status = pal_response_put_tools(request, &writer, err);
    pal_member_put_others(&writer, call->body, own, NULL, call->arena);
    pal_json_end_object(&writer);
    if (status == PAL_OK)
        status = pal_member_keep(&buf, call->arena, &request->turn.items_request, err);
    pal_buf_done(&buf);
    return status;
}

/* ---- The settings that the response repeats ---- */

/* Copies the value as compact JSON, because a frame of a stream must be one line and clients may
 * send JSON on many lines. */
static void echo(pal_json_writer *writer, pal_json body, const char *name, const char *otherwise)
{
    pal_json value = pal_json_find(body, name);
    pal_json_name(writer, name);
    pal_json_put_compact(
            writer, pal_json_is_absent(value) ? pal_str_of(otherwise) : pal_json_raw(value));
}

static void echo_text(pal_json_writer *writer, pal_json body)
{
    pal_json text = pal_json_find(body, "text"), verbosity = pal_json_find(text, "verbosity");
    pal_json_name(writer, "text");
    pal_json_begin_object(writer);
    echo(writer, text, "format", "{\"type\":\"text\"}");
    if (!pal_json_is_absent(verbosity))
        echo(writer, text, "verbosity", "null");
    pal_json_end_object(writer);
}

/* Adds the members of an object, each in compact form. */
static void echo_members(pal_json_writer *writer, pal_json object, pal_arena *arena)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        pal_json_name_str(writer, pal_json_string(name, arena));
        pal_json_put_compact(writer, pal_json_raw(value));
    }
}

/* Lists the tools that were left out as one more pair of the metadata. */
static void echo_metadata(const pal_response_request *request, pal_json_writer *writer)
{
    pal_json_name(writer, "metadata");
    pal_json_begin_object(writer);
    echo_members(writer, pal_json_find(request->call->body, "metadata"), request->call->arena);
    if (request->left_out.len)
        pal_put_str(writer, "palaver_left_out", request->left_out);
    pal_json_end_object(writer);
}

/* Clients expect every function to say whether it is strict. */
static void echo_tools(pal_json_writer *writer, pal_json body, pal_arena *arena)
{
    pal_json tool;
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    for (pal_json_iter iter = pal_json_each(pal_json_find(body, "tools"));
            pal_json_next(&iter, NULL, &tool);) {
        pal_json_begin_object(writer);
        echo_members(writer, tool, arena);
        if (pal_json_string_is(pal_json_find(tool, "type"), "function") &&
                pal_json_type_of(pal_json_find(tool, "strict")) == PAL_JSON_NONE)
            pal_put_null(writer, "strict");
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void echo_all(const pal_response_request *request, pal_str model, pal_json_writer *writer)
{
    pal_json body = request->call->body;
    pal_json_begin_object(writer);
    pal_put_str(writer, "model", model);
    pal_put_null(writer, "access_programs");
    pal_json_name(writer, "conversation");
    if (request->conversation.len) {
        pal_json_begin_object(writer);
        pal_put_str(writer, "id", request->conversation);
        pal_json_end_object(writer);
    } else {
        pal_json_put_null(writer);
    }
    pal_put_str_or_null(writer, "previous_response_id", request->previous);
    pal_put_flag(writer, "store", request->is_stored && !request->is_kept);
    echo(writer, body, "instructions", "null");
    echo(writer, body, "max_output_tokens", "null");
    echo(writer, body, "max_tool_calls", "null");
    echo_metadata(request, writer);
    echo(writer, body, "parallel_tool_calls", "true");
    echo(writer, body, "prompt_cache_key", "null");
    echo(writer, body, "reasoning", "{\"effort\":null,\"summary\":null}");
    echo(writer, body, "safety_identifier", "null");
    echo(writer, body, "frequency_penalty", "0");
    echo(writer, body, "presence_penalty", "0");
    echo(writer, body, "service_tier", "\"default\"");
    echo(writer, body, "temperature", "1");
    echo_text(writer, body);
    echo(writer, body, "tool_choice", "\"auto\"");
    echo_tools(writer, body, request->call->arena);
    echo(writer, body, "top_logprobs", "0");
    echo(writer, body, "top_p", "1");
    echo(writer, body, "truncation", "\"auto\"");
    echo(writer, body, "user", "null");
    pal_json_end_object(writer);
}

static pal_status make_echo(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    pal_str endpoint, model = request->turn.model;
    pal_buf buf;
    pal_status status = PAL_OK;
    if (model.len == 0)
        status = pal_runtime_default(
                call->server->runtime, call->arena, &endpoint, &model, NULL, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&buf, PAL_RESPONSE_ECHO_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    echo_all(request, model, &writer);
    if (buf.failure == PAL_LIMIT)
        status = pal_call_refuse(call, 413, NULL, PAL_LIMIT, err,
                "instructions, tools and other settings exceed %zu bytes together",
                PAL_RESPONSE_ECHO_BYTES_MAX);
    else
        status = pal_member_keep(&buf, call->arena, &request->echo, err);
    pal_buf_done(&buf);
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

/* ---- The request ---- */

/* The client retries failed model calls, so the turn does not. The client also runs its tools
 * itself. Server tools are offered only if the request or the configuration says so. */
static void set_up(pal_response_request *request)
{
    pal_turn_request *turn = &request->turn;
    turn->tenant = request->call->caller.tenant;
    turn->budget = request->call->caller.budget;
    turn->lane = PAL_TURN_LANE_QUEUE;
    turn->all_or_nothing = true;
    turn->no_retries = true;
    turn->no_server_tools = true;
    turn->calls_end_turn = true;
    turn->asks_end_turn = true;
}

pal_status pal_response_read(pal_response_request *request, pal_error *err)
{
    pal_str metadata;
    set_up(request);
    pal_status status = read_members(request, err);
    if (status != PAL_OK)
        return status;
    status = pal_openai_metadata_read(request->call, request->call->body, &metadata, err);
    if (status != PAL_OK)
        return status;
    status = read_state(request, err);
    if (status != PAL_OK)
        return status;
    status = pal_response_read_tools(request, err);
    if (status != PAL_OK)
        return status;
    status = read_parameters(request, err);
    if (status != PAL_OK)
        return status;
    status = make_items_request(request, err);
    if (status != PAL_OK)
        return status;
    status = read_truncation(request, err);
    if (status != PAL_OK)
        return status;
    status = read_input(request, err);
    if (status != PAL_OK)
        return status;
    return make_echo(request, err);
}
