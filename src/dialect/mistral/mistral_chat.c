/* mistral_chat.c - reads the messages of Mistral's chat completions. */
#include "dialect/mistral/mistral_chat.h"

#include "dialect/dialect_member.h"
#include "dialect/mistral/mistral_entries.h"
#include "dialect/mistral/mistral_entries_part.h"
#include "dialect/native/native.h"

static pal_status read_call(pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    pal_json function = pal_json_find(value, "function");
    if (pal_json_type_of(function) != PAL_JSON_OBJECT)
        return pal_member_wrong(err, "function", function, "an object");
    return pal_mistral_read_call(value, "id", function, arena, part, err);
}

/* Adds the calls after the message's content. */
static pal_status add_calls(pal_json calls, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_json call;
    pal_json_iter iter = pal_json_each(calls);
    size_t count = pal_json_count(calls), said = message->parts_len;
    if (pal_json_is_absent(calls))
        return PAL_OK;
    if (pal_json_type_of(calls) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "tool_calls", calls, "an array");
    if (said + count > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu parts are too many; at most %d are allowed",
                said + count, PAL_MESSAGE_PARTS_MAX);
    pal_part *parts = pal_arena_array(arena, said + count + 1, sizeof *parts);
    if (!parts)
        return pal_arena_checked(arena, err);
    if (said)
        memcpy(parts, message->parts, said * sizeof *parts);
    message->parts = parts;
    for (size_t i = 0; pal_json_next(&iter, NULL, &call); i++) {
        pal_status status = read_call(call, arena, &parts[message->parts_len++], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "tool_calls", i);
    }
    return PAL_OK;
}

/* An empty text before calls means that there is no text. */
static pal_status read_assistant(
        pal_json value, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_json content = pal_json_find(value, "content");
    pal_status status = PAL_OK;
    message->role = PAL_ROLE_ASSISTANT;
    if (!pal_json_is_absent(content) && !pal_json_string_is(content, ""))
        status = pal_mistral_read_content(value, arena, message, err);
    if (status == PAL_OK)
        status = add_calls(pal_json_find(value, "tool_calls"), arena, message, err);
    return status;
}

/* The complete message is one result, and its chunks are inside the result. */
static pal_status read_result(
        pal_json value, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_json content = pal_json_find(value, "content");
    pal_part *part = pal_arena_alloc(arena, sizeof *part);
    pal_status status = PAL_OK;
    if (!part)
        return pal_arena_checked(arena, err);
    part->kind = PAL_PART_TOOL_RESULT;
    part->name = pal_member_string(value, "name", arena);
    if (pal_json_type_of(content) == PAL_JSON_STRING)
        part->text = pal_json_string(content, arena);
    else if (!pal_json_is_absent(content))
        status = pal_mistral_read_content(value, arena, message, err);
    if (status == PAL_OK)
        status = pal_mistral_read_string(value, "tool_call_id", arena, &part->call_id, err);
    part->parts = message->parts;
    part->parts_len = message->parts_len;
    message->role = PAL_ROLE_TOOL;
    message->parts = part;
    message->parts_len = 1;
    return status;
}

static pal_status read_message(
        pal_json value, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_json role = pal_json_find(value, "role");
    if (pal_json_string_is(role, "assistant"))
        return read_assistant(value, arena, message, err);
    if (pal_json_string_is(role, "tool"))
        return read_result(value, arena, message, err);
    message->role = PAL_ROLE_USER;
    if (pal_json_string_is(role, "system"))
        message->role = PAL_ROLE_SYSTEM;
    else if (!pal_json_string_is(role, "user"))
        return pal_member_wrong(err, "role", role, "one of system, user, assistant, tool");
    return pal_mistral_read_content(value, arena, message, err);
}

pal_status pal_mistral_chat_read(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    size_t count = pal_json_count(value);
    pal_json_iter iter = pal_json_each(value);
    pal_json each;
    if (pal_json_type_of(value) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "messages", value, "an array of messages");
    if (count > PAL_MISTRAL_CHAT_MESSAGES_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu messages are too many; at most %d are allowed",
                count, PAL_MISTRAL_CHAT_MESSAGES_MAX);
    pal_message *messages = pal_arena_array(arena, count + 1, sizeof *messages);
    for (size_t i = 0; messages && pal_json_next(&iter, NULL, &each); i++) {
        pal_status status = read_message(each, arena, &messages[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "messages", i);
    }
    *out_messages = messages;
    *out_len = count;
    return pal_arena_checked(arena, err);
}
