/* mistral_entries_read.c - reads the entries of a client of Mistral's API into messages.
 *
 * Two kinds of entries represent a complete exchange with a tool: a tool.execution and an
 * agent.handoff. Each becomes a call and its result, so that any model understands it, and is
 * marked, so that it is shown again as the original entry. */
#include <stdio.h>
#include "dialect/dialect_member.h"
#include "dialect/mistral/mistral_entries.h"
#include "dialect/mistral/mistral_entries_part.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat_part.h"

#define TYPES_EXPECTED                                                                             \
    "one of message.input, message.output, function.call, function.result, tool.execution, "       \
    "agent.handoff"

typedef struct inputs_reader {
    pal_arena *arena;
    pal_message *messages;
    size_t len;
    size_t last_cap; /* number of parts that the last message has room for */
    pal_error *err;
} inputs_reader;

static pal_status read_string(inputs_reader *in, pal_json entry, const char *name, pal_str *out)
{
    return pal_mistral_read_string(entry, name, in->arena, out, in->err);
}

/* ---- Building messages ---- */

static bool grow_last(inputs_reader *in)
{
    pal_message *last = &in->messages[in->len - 1];
    if (last->parts_len < in->last_cap)
        return true;
    size_t cap = 2 * last->parts_len + 2;
    pal_part *parts = pal_arena_array(in->arena, cap, sizeof *parts);
    if (!parts)
        return false;
    if (last->parts_len)
        memcpy(parts, last->parts, last->parts_len * sizeof *parts);
    last->parts = parts;
    in->last_cap = cap;
    return true;
}

static void add(inputs_reader *in, const pal_message *message)
{
    in->messages[in->len++] = *message;
    in->last_cap = message->parts_len;
}

/* Adds the call to the previous message if that is an assistant message too. */
static pal_status add_call(inputs_reader *in, const pal_part *part)
{
    const pal_message *last = in->len ? &in->messages[in->len - 1] : NULL;
    const pal_message empty = {.role = PAL_ROLE_ASSISTANT};
    if (!last || last->role != PAL_ROLE_ASSISTANT || last->parts_len == PAL_MESSAGE_PARTS_MAX)
        add(in, &empty);
    if (grow_last(in)) {
        pal_message *message = &in->messages[in->len - 1];
        message->parts[message->parts_len++] = *part;
    }
    return pal_arena_checked(in->arena, in->err);
}

static pal_status add_result(inputs_reader *in, const pal_part *part)
{
    pal_part *copy = pal_arena_alloc(in->arena, sizeof *copy);
    if (!copy)
        return pal_arena_checked(in->arena, in->err);
    *copy = *part;
    const pal_message message = {.role = PAL_ROLE_TOOL, .parts = copy, .parts_len = 1};
    add(in, &message);
    return PAL_OK;
}

/* ---- Entries ---- */

static pal_status read_said(inputs_reader *in, pal_json entry)
{
    bool is_output = pal_json_string_is(pal_json_find(entry, "type"), "message.output");
    pal_json role = pal_json_find(entry, "role"), prefix = pal_json_find(entry, "prefix");
    pal_message message = {.role = PAL_ROLE_USER};
    if (is_output || pal_json_string_is(role, "assistant"))
        message.role = PAL_ROLE_ASSISTANT;
    else if (!pal_json_string_is(role, "user"))
        return pal_member_wrong(in->err, "role", role, "user or assistant");
    pal_status status = pal_mistral_read_content(entry, in->arena, &message, in->err);
    if (status != PAL_OK)
        return status;
    if (message.role == PAL_ROLE_ASSISTANT && !is_output) {
        bool is_prefix = pal_json_type_of(prefix) == PAL_JSON_TRUE;
        message.extra = pal_mistral_keep(
                in->arena, "input", pal_str_of(is_prefix ? "\"prefix\"" : "\"assistant\""));
    }
    add(in, &message);
    return pal_arena_checked(in->arena, in->err);
}

static pal_status read_call(inputs_reader *in, pal_json entry)
{
    pal_part part = {0};
    pal_status status =
            pal_mistral_read_call(entry, "tool_call_id", entry, in->arena, &part, in->err);
    return status == PAL_OK ? add_call(in, &part) : status;
}

static pal_status read_result(inputs_reader *in, pal_json entry)
{
    pal_part part = {.kind = PAL_PART_TOOL_RESULT};
    pal_status status = read_string(in, entry, "tool_call_id", &part.call_id);
    if (status == PAL_OK)
        status = read_string(in, entry, "result", &part.text);
    if (status != PAL_OK)
        return status;
    if (part.call_id.len == 0)
        return pal_error_set(in->err, PAL_INVALID, "member 'tool_call_id' is empty");
    return add_result(in, &part);
}

static pal_str new_call_id(inputs_reader *in)
{
    char text[5 + PAL_ID_TEXT_SIZE] = "call_";
    pal_id_to_text(pal_id_new(), text + 5);
    return pal_arena_copy(in->arena, pal_str_of(text));
}

/* Adds a call together with its result. */
static pal_status add_pair(inputs_reader *in, pal_part *call, pal_part *result)
{
    call->kind = PAL_PART_TOOL_CALL;
    call->call_id = new_call_id(in);
    result->kind = PAL_PART_TOOL_RESULT;
    result->call_id = call->call_id;
    result->name = call->name;
    pal_status status = add_call(in, call);
    return status == PAL_OK ? add_result(in, result) : status;
}

static pal_status read_execution(inputs_reader *in, pal_json entry)
{
    pal_part call = {0}, result = {0};
    pal_json info = pal_json_find(entry, "info");
    pal_status status = read_string(in, entry, "name", &call.name);
    if (status == PAL_OK)
        status = pal_mistral_read_arguments(entry, in->arena, &call.arguments, in->err);
    if (status != PAL_OK)
        return status;
    if (!pal_json_is_absent(info))
        result.text = pal_json_raw(info);
    call.extra = pal_mistral_keep(in->arena, "type", pal_str_of("\"tool.execution\""));
    return add_pair(in, &call, &result);
}

static pal_status read_handoff(inputs_reader *in, pal_json entry)
{
    pal_mistral_handoff handoff;
    pal_part call = {.arguments = pal_str_of("{}")}, result = {.text = pal_str_of("done")};
    pal_status status = read_string(in, entry, "previous_agent_id", &handoff.previous_id);
    if (status != PAL_OK)
        return status;
    status = read_string(in, entry, "previous_agent_name", &handoff.previous_name);
    if (status != PAL_OK)
        return status;
    status = read_string(in, entry, "next_agent_id", &handoff.next_id);
    if (status != PAL_OK)
        return status;
    status = read_string(in, entry, "next_agent_name", &handoff.next_name);
    if (status != PAL_OK)
        return status;
    const pal_str pieces[] = {pal_str_of("transfer_to_"), handoff.next_name};
    call.name = pal_chat_join(in->arena, pieces, 2);
    status = pal_mistral_handoff_keep(&handoff, in->arena, &result.extra, in->err);
    return status == PAL_OK ? add_pair(in, &call, &result) : status;
}

static pal_status read_entry(inputs_reader *in, pal_json entry)
{
    static const struct {
        const char *type;
        pal_status (*read)(inputs_reader *in, pal_json entry);
    } types[] = {
            {"message.input", read_said},
            {"message.output", read_said},
            {"function.call", read_call},
            {"function.result", read_result},
            {"tool.execution", read_execution},
            {"agent.handoff", read_handoff},
    };
    pal_json type = pal_json_find(entry, "type");
    if (pal_json_type_of(entry) != PAL_JSON_OBJECT)
        return pal_error_set(in->err, PAL_INVALID, "an entry must be an object");
    if (pal_json_is_absent(type) && !pal_json_is_absent(pal_json_find(entry, "role")))
        return read_said(in, entry);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (pal_json_string_is(type, types[i].type))
            return types[i].read(in, entry);
    }
    return pal_member_wrong(in->err, "type", type, TYPES_EXPECTED);
}

pal_status pal_mistral_inputs_read(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    inputs_reader in = {.arena = arena, .err = err};
    pal_json_iter iter = pal_json_each(value);
    size_t count = pal_json_count(value);
    pal_json_type type = pal_json_type_of(value);
    pal_json entry;
    if (type != PAL_JSON_STRING && type != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "inputs", value, "a string or an array of entries");
    if (count > PAL_MISTRAL_ENTRIES_MAX)
        return pal_error_set(err, PAL_LIMIT, "'inputs' has %zu entries; at most %d are allowed",
                count, PAL_MISTRAL_ENTRIES_MAX);
    in.messages = pal_arena_array(arena, 2 * count + 1, sizeof *in.messages);
    if (!in.messages)
        return pal_arena_checked(arena, err);
    if (type == PAL_JSON_STRING)
        in.messages[in.len++] =
                pal_message_text(arena, PAL_ROLE_USER, pal_json_string(value, arena));
    for (size_t i = 0; type == PAL_JSON_ARRAY && pal_json_next(&iter, NULL, &entry); i++) {
        pal_status status = read_entry(&in, entry);
        if (status != PAL_OK)
            return pal_member_within(err, status, "inputs", i);
    }
    *out_messages = in.messages;
    *out_len = in.len;
    return pal_arena_checked(arena, err);
}
