/* openai_chat.c - reads the messages of OpenAI's chat completions.
 *
 * The known members of each object become fields. The other members are kept in `extra` as
 * {"openai":{...}}, in the same places. Two members that are always consumed are recorded there if
 * they have an unusual value: "role" for a message ("developer", "function"), and "type" for a part
 * ("refusal", "message_refusal", "custom", "function_call", or an unknown type, whose whole object
 * is then kept). openai_chat_write.c writes messages. */
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat.h"
#include "dialect/openai/openai_chat_part.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define ROLES_EXPECTED "one of system, developer, user, assistant, tool, function"

/* ---- Messages ---- */

enum { OF_ANY = 1 << 0, OF_ASSISTANT = 1 << 1, OF_TOOL = 1 << 2, OF_ALL = 7 };

typedef struct chat_record {
    pal_json role;
    pal_json content;
    pal_json tool_calls;
    pal_json function_call;
    pal_str reasoning;
    pal_str refusal;
    pal_str tool_call_id;
    pal_str name;
} chat_record;

static const pal_member chat_members[] = {
        {"role", PAL_MEMBER_OTHER, OF_ALL, .offset = offsetof(chat_record, role)},
        {"content", PAL_MEMBER_OTHER, OF_ALL, .offset = offsetof(chat_record, content)},
        {"tool_calls", PAL_MEMBER_OTHER, OF_ASSISTANT, .offset = offsetof(chat_record, tool_calls)},
        {"function_call", PAL_MEMBER_OTHER, OF_ASSISTANT,
                .offset = offsetof(chat_record, function_call)},
        {"reasoning_content", PAL_MEMBER_STRING, OF_ASSISTANT,
                .offset = offsetof(chat_record, reasoning)},
        {"refusal", PAL_MEMBER_STRING, OF_ASSISTANT, .offset = offsetof(chat_record, refusal)},
        {"tool_call_id", PAL_MEMBER_STRING, OF_TOOL, .offset = offsetof(chat_record, tool_call_id)},
        {"name", PAL_MEMBER_STRING, OF_TOOL, .offset = offsetof(chat_record, name)},
};
static const pal_member_table chat_table = {
        chat_members, COUNT_OF(chat_members), pal_chat_read_value, NULL};

static pal_status read_content_parts(
        pal_json content, pal_arena *arena, pal_part *parts, size_t *parts_len, pal_error *err)
{
    size_t at = 0;
    pal_json item;
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &item); at++) {
        pal_status status = pal_chat_read_content_part(item, arena, &parts[*parts_len], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "content", at);
        (*parts_len)++;
    }
    return PAL_OK;
}

/* Appends to `parts`, which must have room. An empty string means no content and adds no part. */
static pal_status read_content(
        pal_json content, pal_arena *arena, pal_part *parts, size_t *parts_len, pal_error *err)
{
    pal_json_type type = pal_json_type_of(content);
    if (type == PAL_JSON_NONE)
        return PAL_OK;
    if (type == PAL_JSON_ARRAY)
        return read_content_parts(content, arena, parts, parts_len, err);
    if (type != PAL_JSON_STRING)
        return pal_member_wrong(err, "content", content, "a string, an array of parts or null");
    pal_str text = pal_json_string(content, arena);
    if (text.len) {
        parts[*parts_len].kind = PAL_PART_TEXT;
        parts[(*parts_len)++].text = text;
    }
    return PAL_OK;
}

static pal_status read_tool_calls(
        pal_json calls, pal_arena *arena, pal_part *parts, size_t *parts_len, pal_error *err)
{
    size_t at = 0;
    pal_json item;
    if (pal_json_type_of(calls) == PAL_JSON_NONE)
        return PAL_OK;
    if (pal_json_type_of(calls) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "tool_calls", calls, "an array");
    for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &item); at++) {
        pal_status status = pal_chat_expect_object("tool_calls", item, err);
        if (status == PAL_OK)
            status = pal_chat_read_tool_call(item, arena, &parts[*parts_len], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "tool_calls", at);
        (*parts_len)++;
    }
    return PAL_OK;
}

/* Allocates room for all parts of the message. The caller fills them in. */
static pal_status make_parts(
        const chat_record *record, pal_arena *arena, pal_part **out_parts, pal_error *err)
{
    const size_t others = 4; /* reasoning, text, refusal, function call */
    size_t content_len = pal_json_type_of(record->content) == PAL_JSON_ARRAY
            ? pal_json_count(record->content)
            : 0;
    size_t len = content_len + pal_json_count(record->tool_calls) + others;
    if (len > PAL_MESSAGE_PARTS_MAX + others)
        return pal_error_set(err, PAL_LIMIT, "%zu parts are too many; at most %d are allowed", len,
                PAL_MESSAGE_PARTS_MAX);
    *out_parts = pal_arena_array(arena, len, sizeof(**out_parts));
    return pal_arena_checked(arena, err);
}

static pal_status read_assistant(
        const chat_record *record, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_part *parts = message->parts;
    size_t *len = &message->parts_len;
    if (record->reasoning.len) {
        parts[*len].kind = PAL_PART_REASONING;
        parts[(*len)++].text = record->reasoning;
    }
    pal_status status = read_content(record->content, arena, parts, len, err);
    if (status != PAL_OK)
        return status;
    if (record->refusal.len) {
        parts[*len].kind = PAL_PART_TEXT;
        parts[*len].text = record->refusal;
        parts[(*len)++].extra = pal_chat_keep(arena, (pal_chat_kept){.mark = "message_refusal"});
    }
    status = read_tool_calls(record->tool_calls, arena, parts, len, err);
    if (status != PAL_OK || pal_json_type_of(record->function_call) == PAL_JSON_NONE)
        return status;
    return pal_chat_read_function_call(record->function_call, arena, &parts[(*len)++], err);
}

/* The complete message is one result, and its parts are inside the result. */
static pal_status read_tool(const chat_record *record, bool legacy, pal_arena *arena,
        pal_message *message, pal_error *err)
{
    pal_part *result = pal_arena_alloc(arena, sizeof(*result));
    if (!result)
        return pal_arena_checked(arena, err);
    result->kind = PAL_PART_TOOL_RESULT;
    result->call_id = legacy ? record->name : record->tool_call_id;
    result->name = record->name;
    if (pal_json_type_of(record->content) == PAL_JSON_STRING) {
        result->text = pal_json_string(record->content, arena);
    } else {
        size_t len = 0;
        pal_status status = read_content(record->content, arena, message->parts, &len, err);
        if (status != PAL_OK)
            return status;
        result->parts = len ? message->parts : NULL;
        result->parts_len = len;
    }
    message->parts = result;
    message->parts_len = 1;
    return pal_arena_checked(arena, err);
}

typedef struct chat_role {
    const char *name;
    pal_role role;
    bool is_kept; /* the name is kept because PAL_ROLE_* cannot express it */
} chat_role;

static const chat_role chat_roles[] = {
        {"system", PAL_ROLE_SYSTEM, false},
        {"developer", PAL_ROLE_SYSTEM, true},
        {"user", PAL_ROLE_USER, false},
        {"assistant", PAL_ROLE_ASSISTANT, false},
        {"tool", PAL_ROLE_TOOL, false},
        {"function", PAL_ROLE_TOOL, true},
};

static const chat_role *find_role(pal_json value)
{
    for (size_t i = 0; i < COUNT_OF(chat_roles); i++) {
        if (pal_json_string_is(value, chat_roles[i].name))
            return &chat_roles[i];
    }
    return NULL;
}

static pal_status read_message(
        pal_json value, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_status status = pal_chat_expect_object("messages", value, err);
    if (status != PAL_OK)
        return status;
    const chat_role *role = find_role(pal_json_find(value, "role"));
    if (!role)
        return pal_member_wrong(err, "role", pal_json_find(value, "role"), ROLES_EXPECTED);
    uint32_t form = role->role == PAL_ROLE_ASSISTANT ? OF_ASSISTANT
            : role->role == PAL_ROLE_TOOL            ? OF_TOOL
                                                     : OF_ANY;
    chat_record record = {0};
    pal_chat_kept what = {.role = role->is_kept ? role->name : NULL};
    status = pal_members_read(&chat_table, form, value, arena, &record, &what.unknown, err);
    if (status == PAL_OK)
        status = make_parts(&record, arena, &message->parts, err);
    if (status != PAL_OK)
        return status;
    message->role = role->role;
    message->extra = pal_chat_keep(arena, what);
    if (form == OF_ASSISTANT)
        return read_assistant(&record, arena, message, err);
    if (form == OF_TOOL)
        return read_tool(&record, role->is_kept, arena, message, err);
    return read_content(record.content, arena, message->parts, &message->parts_len, err);
}

static pal_status read_array(pal_json array, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    size_t len = pal_json_count(array);
    if (len > PAL_OPENAI_CHAT_MESSAGES_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu messages are too many; at most %d are allowed",
                len, PAL_OPENAI_CHAT_MESSAGES_MAX);
    pal_message *messages = len ? pal_arena_array(arena, len, sizeof(*messages)) : NULL;
    if (len && !messages)
        return pal_arena_checked(arena, err);
    pal_json_iter iter = pal_json_each(array);
    pal_json item;
    for (size_t i = 0; i < len && pal_json_next(&iter, NULL, &item); i++) {
        pal_status status = read_message(item, arena, &messages[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "messages", i);
    }
    *out_messages = messages;
    *out_len = len;
    return pal_arena_checked(arena, err);
}

static pal_status read_single(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_message *message = pal_arena_alloc(arena, sizeof(*message));
    if (!message)
        return pal_arena_checked(arena, err);
    pal_status status = read_message(value, arena, message, err);
    if (status != PAL_OK)
        return status;
    *out_messages = message;
    *out_len = 1;
    return pal_arena_checked(arena, err);
}

pal_status pal_openai_chat_read(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_json messages = pal_json_find(value, "messages");
    if (pal_json_type_of(value) == PAL_JSON_ARRAY)
        return read_array(value, arena, out_messages, out_len, err);
    if (pal_json_type_of(messages) == PAL_JSON_ARRAY)
        return read_array(messages, arena, out_messages, out_len, err);
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID,
                "expected a message, an array of messages, or an object with 'messages'");
    return read_single(value, arena, out_messages, out_len, err);
}
