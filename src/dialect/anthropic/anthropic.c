/* anthropic.c - reads the messages of Anthropic's Messages API. anthropic_block.c
 * reads their blocks, and anthropic_write.c writes them. */
#include "dialect/anthropic/anthropic.h"
#include "dialect/anthropic/anthropic_block.h"
#include "dialect/dialect_member.h"

/* Counts the tool results before the user's content. They become a separate message. */
static size_t leading_results(const pal_part *parts, size_t len)
{
    size_t results = 0;
    while (results < len && parts[results].kind == PAL_PART_TOOL_RESULT)
        results++;
    return results;
}

/* Reads one or two messages into `out`, which must have room for both. */
static pal_status read_message(
        const pal_block_reader *in, pal_json value, pal_message *out, size_t *out_len)
{
    pal_part *parts = NULL;
    size_t len = 0, count = 0;
    pal_json role = pal_json_find(value, "role");
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(in->err, "messages", value, "an object");
    bool is_user = pal_json_string_is(role, "user");
    bool is_system = pal_json_string_is(role, "system");
    if (!is_user && !is_system && !pal_json_string_is(role, "assistant"))
        return pal_member_wrong(in->err, "role", role, "one of user, assistant, system");
    pal_status status =
            pal_blocks_read(in, pal_json_find(value, "content"), "content", &parts, &len);
    if (status != PAL_OK)
        return status;
    size_t results = is_user ? leading_results(parts, len) : 0;
    if (results)
        out[count++] = (pal_message){.role = PAL_ROLE_TOOL, .parts = parts, .parts_len = results};
    if (results < len || len == 0)
        out[count++] = (pal_message){.role = is_user ? PAL_ROLE_USER
                        : is_system                  ? PAL_ROLE_SYSTEM
                                                     : PAL_ROLE_ASSISTANT,
                .parts = parts + results,
                .parts_len = len - results};
    *out_len = count;
    return PAL_OK;
}

static pal_status read_system(const pal_block_reader *in, pal_json system, pal_message *out)
{
    *out = (pal_message){.role = PAL_ROLE_SYSTEM};
    return pal_blocks_read(in, system, "system", &out->parts, &out->parts_len);
}

static pal_status read_list(const pal_block_reader *in, pal_json system, pal_json list,
        pal_message **out_messages, size_t *out_len)
{
    size_t len = pal_json_count(list), at = 0, count = 0, added = 0;
    pal_status status = PAL_OK;
    pal_json item;
    if (len > PAL_ANTHROPIC_MESSAGES_MAX)
        return pal_error_set(in->err, PAL_LIMIT,
                "%zu messages are too many; at most %d are allowed", len,
                PAL_ANTHROPIC_MESSAGES_MAX);
    pal_message *messages = pal_arena_array(in->arena, 2 * len + 1, sizeof(*messages));
    if (!messages)
        return pal_arena_checked(in->arena, in->err);
    if (pal_json_type_of(system) > PAL_JSON_NULL)
        status = read_system(in, system, &messages[count++]);
    for (pal_json_iter iter = pal_json_each(list);
            status == PAL_OK && pal_json_next(&iter, NULL, &item); at++) {
        status = read_message(in, item, &messages[count], &added);
        if (status != PAL_OK)
            return pal_member_within(in->err, status, "messages", at);
        count += added;
    }
    *out_messages = messages;
    *out_len = count;
    return status;
}

pal_status pal_anthropic_read(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    const pal_block_reader in = {.arena = arena, .err = err};
    pal_json list = pal_json_find(value, "messages");
    if (pal_json_type_of(value) == PAL_JSON_ARRAY)
        return read_list(&in, (pal_json){0}, value, out_messages, out_len);
    if (pal_json_type_of(list) == PAL_JSON_ARRAY)
        return read_list(&in, pal_json_find(value, "system"), list, out_messages, out_len);
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID,
                "expected a message, an array of messages, or an object with 'messages'");
    pal_message *messages = pal_arena_array(arena, 2, sizeof(*messages));
    if (!messages)
        return pal_arena_checked(arena, err);
    pal_status status = read_message(&in, value, messages, out_len);
    if (status == PAL_OK)
        *out_messages = messages;
    return status;
}
