/* native_turn.c - the native JSON format of turns: requests, states and events. docs/api.md
 * describes it. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_object.h"
#include "dialect/native/native.h"

/* ---- States ---- */

/* The first six bytes of a turn's id are its creation time. */
static int64_t made_at(pal_id id)
{
    int64_t ms = 0;
    for (size_t i = 0; i < 6; i++)
        ms = ms << 8 | id.bytes[i];
    return ms;
}

void pal_native_turn_put(pal_json_writer *writer, const pal_turn_info *info)
{
    pal_put_id(writer, "turn_id", info->turn);
    pal_put_id(writer, "session_id", info->session);
    pal_put_text(writer, "state", pal_turn_state_name(info->state));
    pal_put_time(writer, "since", made_at(info->turn));
    pal_put_count(writer, "events", info->events);
    if (info->state == PAL_TURN_RETRYING) {
        pal_put_count(writer, "attempt", info->attempt);
        pal_put_time(writer, "retry_at", info->retry_at);
    }
    if (info->state == PAL_TURN_FAILED)
        pal_put_text(writer, "code", pal_status_name(info->status));
    if (info->reason[0])
        pal_put_text(writer, "reason", info->reason);
    if (info->seq) {
        pal_put_id(writer, "message_id", info->message);
        pal_put_count(writer, "seq", info->seq);
    }
}

/* ---- Events ---- */

static void put_calls(pal_json_writer *writer, pal_str calls)
{
    pal_json_name(writer, "calls");
    if (calls.len)
        pal_json_put_raw(writer, calls);
    else
        pal_json_put_raw(writer, pal_str_of("[]"));
}

static void put_message(pal_json_writer *writer, const pal_event *event)
{
    pal_put_id(writer, "message_id", event->message);
    pal_put_count(writer, "seq", event->seq);
}

static void put_ended(pal_json_writer *writer, const pal_event *event)
{
    pal_put_id(writer, "turn_id", event->turn);
    pal_put_text(writer, "state", pal_turn_state_name(event->state));
    if (event->status != PAL_OK)
        pal_put_text(writer, "code", pal_status_name(event->status));
    if (event->text.len)
        pal_put_str(writer, "reason", event->text);
    pal_native_put_usage(writer, "usage", &event->usage);
}

/* Writes the members of a call that belong to this kind of event. */
static void put_tool(pal_json_writer *writer, const pal_event *event)
{
    pal_put_str(writer, "call_id", event->call_id);
    if (event->name.len)
        pal_put_str(writer, "name", event->name);
    switch (event->kind) {
    case PAL_EVENT_ARGUMENTS:
        pal_put_str(writer, "text", event->text);
        break;
    case PAL_EVENT_TOOL_STARTED:
        pal_put_str(writer, "arguments", event->text);
        break;
    case PAL_EVENT_TOOL_ENDED:
        pal_put_str(writer, "output", event->text);
        pal_put_flag(writer, "is_error", event->status != PAL_OK);
        break;
    case PAL_EVENT_ASKING:
        pal_put_str(writer, "reason", event->text);
        pal_put_raw(writer, "questions",
                event->questions.len ? event->questions : pal_str_of("[]"));
        break;
    default:
        break;
    }
}

static void put_members(pal_json_writer *writer, const pal_event *event, pal_id session)
{
    switch (event->kind) {
    case PAL_EVENT_STARTED:
        pal_put_id(writer, "turn_id", event->turn);
        pal_put_id(writer, "session_id", session);
        if (event->text.len)
            pal_put_str(writer, "label", event->text);
        break;
    case PAL_EVENT_STEP:
        pal_put_count(writer, "step", event->count);
        break;
    case PAL_EVENT_TEXT:
    case PAL_EVENT_REASONING:
        pal_put_str(writer, "text", event->text);
        break;
    case PAL_EVENT_MESSAGE:
        put_message(writer, event);
        pal_put_text(
                writer, "finish_reason", event->finish == PAL_FINISH_LENGTH ? "length" : "stop");
        pal_native_put_usage(writer, "usage", &event->usage);
        break;
    case PAL_EVENT_RETRYING:
        pal_put_count(writer, "attempt", event->count);
        pal_put_time(writer, "at", event->at);
        pal_put_str(writer, "reason", event->text);
        break;
    case PAL_EVENT_COMPACTED:
        pal_put_str(writer, "text", event->text);
        pal_put_count(writer, "tokens", event->count);
        break;
    case PAL_EVENT_STEERED:
        put_message(writer, event);
        break;
    case PAL_EVENT_PAUSED:
        put_calls(writer, event->text);
        break;
    case PAL_EVENT_ENDED:
        put_ended(writer, event);
        break;
    case PAL_EVENT_ITEM:
        pal_put_raw(writer, "item", event->text);
        break;
    case PAL_EVENT_PROGRESS:
        pal_put_raw(writer, "event", event->text);
        break;
    case PAL_EVENT_TOOLS_MISSING:
        pal_put_str(writer, "server", event->name);
        pal_put_str(writer, "reason", event->text);
        break;
    default:
        put_tool(writer, event);
        break;
    }
}

void pal_native_event_put(pal_json_writer *writer, const pal_event *event, pal_id session)
{
    pal_json_begin_object(writer);
    put_members(writer, event, session);
    if (event->at && event->kind != PAL_EVENT_RETRYING)
        pal_put_time(writer, "at", event->at);
    pal_json_end_object(writer);
}

void pal_native_call_put(
        pal_json_writer *writer, pal_str call_id, pal_str name, pal_str arguments)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "call_id", call_id);
    pal_put_str(writer, "name", name);
    pal_put_str(writer, "arguments", arguments);
    pal_json_end_object(writer);
}

/* ---- Tools ---- */

static const pal_api_object tool_function = {
        .members = PAL_API_MEMBERS(
                {"name", PAL_API_TEXT, "the name of the function",
                        .offset = offsetof(pal_tool, name), .min = 1, .max = PAL_LABEL_LEN_MAX,
                        .is_required = true},
                {"description", PAL_API_TEXT, "when and how the model should call it",
                        .offset = offsetof(pal_tool, description), .max = PAL_SYSTEM_LEN_MAX},
                {"parameters", PAL_API_JSON_OBJECT, "the JSON schema of the arguments",
                        .offset = offsetof(pal_tool, schema)},
                {"strict", PAL_API_FLAG, "whether the model must follow the schema exactly",
                        .offset = offsetof(pal_tool, is_strict)})};

static const pal_api_object tool_body = {"Tool", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"type", PAL_API_VALUE, .schema = "{\"const\":\"function\"}"},
                {"function", PAL_API_VALUE, .of = &tool_function})};

pal_json pal_native_tool_function(pal_json value)
{
    pal_json function = pal_json_find(value, "function");
    return pal_json_type_of(function) == PAL_JSON_OBJECT ? function : value;
}

pal_status pal_native_tool_read(
        pal_json value, pal_arena *arena, pal_tool *out_tool, pal_error *err)
{
    pal_json type = pal_json_find(value, "type");
    *out_tool = (pal_tool){0};
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a tool must be an object");
    if (!pal_json_is_absent(type) && !pal_json_string_is(type, "function"))
        return pal_error_set(err, PAL_INVALID,
                "'type' must be function; built-in tools of model services are not supported");
    return pal_object_read(pal_native_tool_function(value), &tool_function, arena, out_tool, err);
}

/* ---- Requests ---- */

#define AT(field) offsetof(pal_turn_request, field)

const pal_api_object pal_native_turn_settings = {
        .members = PAL_API_MEMBERS(
                {"lane", PAL_API_WORD, "what happens if a turn of the session is running",
                        .offset = AT(lane), .words = "reject queue steer interrupt"},
                {"model", PAL_API_TEXT, "the model", .offset = AT(model),
                        .max = PAL_MODEL_LEN_MAX},
                {"provider", PAL_API_TEXT, "the configured provider", .offset = AT(endpoint),
                        .max = PAL_NAME_LEN_MAX},
                {"system", PAL_API_TEXT, "the system prompt", .offset = AT(system),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"tools", PAL_API_LIST, "tools that the client runs", .of = &tool_body},
                {"tool_choice", PAL_API_VALUE, .schema = "{\"type\":[\"string\",\"object\"]}"},
                {"parameters", PAL_API_JSON_OBJECT, "more parameters for the model service",
                        .offset = AT(parameters)},
                {"max_output_tokens", PAL_API_COUNT, "the maximum length of an answer",
                        .offset = AT(output_max), .min = 1, .max = UINT32_MAX},
                {"max_tool_iterations", PAL_API_COUNT32, "the maximum number of model calls",
                        .offset = AT(max_tool_iterations), .min = 1,
                        .max = PAL_NATIVE_ITERATIONS_MAX},
                {"all_or_nothing", PAL_API_FLAG, "whether a failed turn leaves no messages",
                        .offset = AT(all_or_nothing)},
                {"no_server_tools", PAL_API_FLAG, "whether only the client's tools are used",
                        .offset = AT(no_server_tools)},
                {"label", PAL_API_TEXT, "a name for the ledger", .offset = AT(label),
                        .max = PAL_LABEL_LEN_MAX})};

static pal_status read_tool_choice(pal_json value, pal_turn_request *request, pal_error *err)
{
    static const char *const words[] = {"auto", "none", "required", NULL};
    if (pal_json_is_absent(value))
        return PAL_OK;
    if (pal_json_type_of(value) != PAL_JSON_OBJECT && !pal_member_is_one_of(value, words))
        return pal_error_set(err, PAL_INVALID,
                "'tool_choice' must be auto, none, required or an object that names a function");
    request->tool_choice = pal_json_raw(value);
    return PAL_OK;
}

pal_status pal_native_turn_settings_read(
        pal_json value, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_status status = pal_object_read(value, &pal_native_turn_settings, arena, request, err);
    if (status != PAL_OK)
        return status;
    request->has_system = !pal_json_is_absent(pal_json_find(value, "system"));
    return read_tool_choice(pal_json_find(value, "tool_choice"), request, err);
}

/* ---- Requests of bindings ---- */

/* The members that a binding's request has besides the settings. */
static const pal_api_object binding_members = {
        .members = PAL_API_MEMBERS(
                {"agent", PAL_API_TEXT, "the agent", .offset = AT(agent), .max = PAL_NAME_LEN_MAX},
                {"message", PAL_API_VALUE, .help = "a text of the user"},
                {"messages", PAL_API_LIST, .help = "messages in the native format"})};

/* Makes room for the items of an array of `what`. Their number is 0 if there is no array. */
static pal_status begin_list(pal_json array, const char *what, size_t item_size, pal_arena *arena,
        void **out_items, size_t *out_len, pal_error *err)
{
    size_t count = pal_json_count(array);
    if (!pal_json_is_absent(array) && pal_json_type_of(array) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "'%s' must be an array of %s", what, what);
    *out_items = pal_arena_array(arena, count + 1, item_size);
    *out_len = *out_items ? count : 0;
    return pal_arena_checked(arena, err);
}

static pal_status read_tools(
        pal_json array, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_json_iter iter = pal_json_each(array);
    pal_json value;
    void *tools = NULL;
    pal_status status = begin_list(
            array, "tools", sizeof(pal_tool), arena, &tools, &request->tools_len, err);
    for (size_t at = 0; status == PAL_OK && pal_json_next(&iter, NULL, &value); at++) {
        status = pal_native_tool_read(value, arena, (pal_tool *)tools + at, err);
        status = pal_member_within(err, status, "tools", at);
    }
    request->tools = tools;
    return status;
}

static pal_status read_messages(
        pal_json array, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_json_iter iter = pal_json_each(array);
    pal_json value;
    void *messages = NULL;
    pal_status status = begin_list(array, "messages", sizeof(pal_message), arena, &messages,
            &request->messages_len, err);
    for (size_t at = 0; status == PAL_OK && pal_json_next(&iter, NULL, &value); at++) {
        status = pal_native_message_read(value, arena, (pal_message *)messages + at, err);
        status = pal_member_within(err, status, "messages", at);
    }
    request->messages = messages;
    return status;
}

static pal_status read_message(
        pal_json request_json, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_str text;
    if (pal_json_is_absent(pal_json_find(request_json, "message")))
        return PAL_OK;
    pal_status status =
            pal_object_text(request_json, "message", PAL_MESSAGE_BYTES_MAX, arena, &text, err);
    if (status != PAL_OK)
        return status;
    request->messages = pal_arena_array(arena, 1, sizeof *request->messages);
    if (!request->messages)
        return pal_arena_checked(arena, err);
    request->messages[0] = pal_message_text(arena, PAL_ROLE_USER, text);
    request->messages_len = 1;
    return pal_arena_checked(arena, err);
}

static pal_status check_names(pal_json object, pal_arena *arena, pal_error *err)
{
    pal_json_iter iter = pal_json_each(object);
    pal_json name, value;
    while (pal_json_next(&iter, &name, &value)) {
        pal_str text = pal_json_string(name, arena);
        if (!pal_object_find(&pal_native_turn_settings, text) &&
                !pal_object_find(&binding_members, text))
            return pal_error_set(
                    err, PAL_INVALID, "unknown member '%.*s'", PAL_EXCERPT(text, 120));
    }
    return PAL_OK;
}

pal_status pal_native_turn_read(
        pal_json value, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a request is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(value)));
    pal_status status = check_names(value, arena, err);
    if (status != PAL_OK)
        return status;
    status = pal_native_turn_settings_read(value, arena, request, err);
    if (status != PAL_OK)
        return status;
    status = pal_object_read(value, &binding_members, arena, request, err);
    if (status != PAL_OK)
        return status;
    status = read_tools(pal_json_find(value, "tools"), arena, request, err);
    if (status != PAL_OK)
        return status;
    status = read_messages(pal_json_find(value, "messages"), arena, request, err);
    return status == PAL_OK ? read_message(value, arena, request, err) : status;
}
