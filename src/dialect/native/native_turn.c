/* native_turn.c - the native JSON format of turns: requests, states and events. docs/api.md
 * describes it. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
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

static void put_call(pal_json_writer *writer, const pal_event *event)
{
    pal_put_str(writer, "call_id", event->call_id);
    if (event->name.len)
        pal_put_str(writer, "name", event->name);
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
    put_call(writer, event);
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
    pal_json_end_object(writer);
}

/* ---- Requests ---- */

#define AT(field) offsetof(pal_turn_request, field)

static const pal_member request_members[] = {
        {"lane", PAL_MEMBER_OTHER, 1, 0}, {"provider", PAL_MEMBER_STRING, 1, AT(endpoint)},
        {"model", PAL_MEMBER_STRING, 1, AT(model)}, {"agent", PAL_MEMBER_STRING, 1, AT(agent)},
        {"label", PAL_MEMBER_STRING, 1, AT(label)}, {"system", PAL_MEMBER_OTHER, 1, 0},
        {"parameters", PAL_MEMBER_OBJECT, 1, AT(parameters)},
        {"tool_choice", PAL_MEMBER_JSON, 1, AT(tool_choice)},
        {"max_output_tokens", PAL_MEMBER_U64, 1, AT(output_max)},
        {"max_tool_iterations", PAL_MEMBER_U32, 1, AT(max_tool_iterations)},
        {"all_or_nothing", PAL_MEMBER_BOOL, 1, AT(all_or_nothing)},
        {"no_server_tools", PAL_MEMBER_BOOL, 1, AT(no_server_tools)},
        {"tools", PAL_MEMBER_OTHER, 1, 0}, {"messages", PAL_MEMBER_OTHER, 1, 0},
        {"message", PAL_MEMBER_OTHER, 1, 0}, /* a text of the user */
};

static pal_status read_lane(pal_json value, pal_turn_lane *out_lane, pal_error *err)
{
    static const char *const names[] = {"reject", "queue", "steer", "interrupt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (pal_json_string_is(value, names[i])) {
            *out_lane = (pal_turn_lane)i;
            return PAL_OK;
        }
    }
    return pal_member_wrong(err, "lane", value, "reject, queue, steer or interrupt");
}

static pal_status read_tool(pal_json value, pal_arena *arena, pal_tool *out_tool, pal_error *err)
{
    pal_json function = pal_json_find(value, "function");
    pal_json schema = pal_json_find(function, "parameters");
    *out_tool = (pal_tool){.name = pal_member_string(function, "name", arena),
            .description = pal_member_string(function, "description", arena)};
    if (out_tool->name.len == 0)
        return pal_error_set(err, PAL_INVALID, "member 'function.name' is missing");
    if (pal_json_type_of(schema) == PAL_JSON_OBJECT)
        out_tool->schema = pal_json_raw(schema);
    else if (pal_json_type_of(schema) != PAL_JSON_NONE)
        return pal_member_wrong(err, "parameters", schema, "an object");
    (void)pal_json_bool(pal_json_find(function, "strict"), &out_tool->is_strict);
    return pal_arena_checked(arena, err);
}

static pal_status read_tools(
        pal_json array, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_json_iter iter = pal_json_each(array);
    pal_json value;
    size_t count = pal_json_count(array), at = 0;
    if (pal_json_type_of(array) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "tools", array, "an array of tools");
    pal_tool *tools = pal_arena_array(arena, count ? count : 1, sizeof *tools);
    if (!tools)
        return pal_arena_checked(arena, err);
    for (; pal_json_next(&iter, NULL, &value); at++) {
        pal_status status = read_tool(value, arena, &tools[at], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "tools", at);
    }
    request->tools = tools;
    request->tools_len = count;
    return PAL_OK;
}

static pal_status read_messages(
        pal_json array, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_json_iter iter = pal_json_each(array);
    pal_json value;
    size_t count = pal_json_count(array), at = 0;
    if (pal_json_type_of(array) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "messages", array, "an array of messages");
    request->messages = pal_arena_array(arena, count ? count : 1, sizeof *request->messages);
    if (!request->messages)
        return pal_arena_checked(arena, err);
    for (; pal_json_next(&iter, NULL, &value); at++) {
        pal_status status = pal_native_message_read(value, arena, &request->messages[at], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "messages", at);
    }
    request->messages_len = count;
    return PAL_OK;
}

static pal_status read_request_member(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_turn_request *request = record;
    if (strcmp(member->name, "lane") == 0)
        return read_lane(value, &request->lane, err);
    if (strcmp(member->name, "tools") == 0)
        return read_tools(value, arena, request, err);
    if (strcmp(member->name, "messages") == 0)
        return read_messages(value, arena, request, err);
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_member_wrong(err, member->name, value, "a string");
    pal_str text = pal_json_string(value, arena);
    if (strcmp(member->name, "system") == 0) {
        request->system = text;
        request->has_system = true;
        return pal_arena_checked(arena, err);
    }
    request->messages = pal_arena_array(arena, 1, sizeof *request->messages);
    if (!request->messages)
        return pal_arena_checked(arena, err);
    request->messages[0] = pal_message_text(arena, PAL_ROLE_USER, text);
    request->messages_len = 1;
    return pal_arena_checked(arena, err);
}

static const pal_member_table request_table = {request_members,
        sizeof request_members / sizeof *request_members, read_request_member, NULL};

pal_status pal_native_turn_read(
        pal_json value, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_str unknown = {0};
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a request is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(value)));
    pal_status status = pal_members_read(&request_table, 1, value, arena, request, &unknown, err);
    if (status == PAL_OK && unknown.len)
        return pal_error_set(err, PAL_INVALID, "unknown members: %.*s", PAL_EXCERPT(unknown, 120));
    return status;
}
