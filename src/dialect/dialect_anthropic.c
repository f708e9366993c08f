/* dialect_anthropic.c - reads the messages of Anthropic's Messages API.
 *
 * A block of an unknown type survives as a file that holds nothing but its extra. A block of
 * thinking that is opaque ("redacted_thinking") is reasoning without text whose signature is its
 * data; the type stays in the extra. dialect_anthropic_write.c does the way back. */
#include "dialect/dialect_anthropic.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_native.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct block_reader {
    pal_arena *arena;
    pal_error *err;
} block_reader;

/* ---- Blocks ---- */

enum {
    OF_TEXT = 1 << 0,
    OF_THINKING = 1 << 1,
    OF_REDACTED = 1 << 2,
    OF_TOOL_USE = 1 << 3,
    OF_TOOL_RESULT = 1 << 4,
    OF_IMAGE = 1 << 5,
    OF_DOCUMENT = 1 << 6,
    OF_MEDIA = OF_IMAGE | OF_DOCUMENT,
    OF_EVERY = 127,
};

typedef struct block_record {
    pal_part part;
    pal_json type;
    pal_json content;
    pal_json source;
    pal_json dropped;
} block_record;

static const pal_member block_members[] = {
        {"type", PAL_MEMBER_OTHER, OF_EVERY & ~OF_REDACTED, offsetof(block_record, type)},
        {"cache_control", PAL_MEMBER_OTHER, OF_EVERY, offsetof(block_record, dropped)},
        {"text", PAL_MEMBER_STRING, OF_TEXT, offsetof(block_record, part.text)},
        {"thinking", PAL_MEMBER_STRING, OF_THINKING, offsetof(block_record, part.text)},
        {"signature", PAL_MEMBER_STRING, OF_THINKING, offsetof(block_record, part.signature)},
        {"data", PAL_MEMBER_STRING, OF_REDACTED, offsetof(block_record, part.signature)},
        {"id", PAL_MEMBER_STRING, OF_TOOL_USE, offsetof(block_record, part.call_id)},
        {"name", PAL_MEMBER_STRING, OF_TOOL_USE, offsetof(block_record, part.name)},
        {"input", PAL_MEMBER_VERBATIM, OF_TOOL_USE, offsetof(block_record, part.arguments)},
        {"tool_use_id", PAL_MEMBER_STRING, OF_TOOL_RESULT, offsetof(block_record, part.call_id)},
        {"content", PAL_MEMBER_OTHER, OF_TOOL_RESULT, offsetof(block_record, content)},
        {"is_error", PAL_MEMBER_BOOL, OF_TOOL_RESULT, offsetof(block_record, part.is_error)},
        {"source", PAL_MEMBER_OTHER, OF_MEDIA, offsetof(block_record, source)},
        {"title", PAL_MEMBER_STRING, OF_DOCUMENT, offsetof(block_record, part.name)},
};

static pal_status keep_value(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    (void)arena;
    (void)err;
    *(pal_json *)((char *)record + member->offset) = value;
    return PAL_OK;
}

static const pal_member_table block_table = {
        block_members, COUNT_OF(block_members), keep_value, NULL};

static const struct {
    const char *type;
    uint32_t form;
    pal_part_kind kind;
} block_types[] = {
        {"text", OF_TEXT, PAL_PART_TEXT},
        {"thinking", OF_THINKING, PAL_PART_REASONING},
        {"redacted_thinking", OF_REDACTED, PAL_PART_REASONING},
        {"tool_use", OF_TOOL_USE, PAL_PART_TOOL_CALL},
        {"tool_result", OF_TOOL_RESULT, PAL_PART_TOOL_RESULT},
        {"image", OF_IMAGE, PAL_PART_IMAGE},
        {"document", OF_DOCUMENT, PAL_PART_FILE},
};

/* {"anthropic":OBJECT}, or empty where the object is. */
static pal_str kept(block_reader *in, pal_str object)
{
    static const char start[] = "{\"" PAL_ANTHROPIC_FAMILY "\":";
    const size_t start_len = sizeof start - 1;
    if (object.len == 0)
        return object;
    char *data = pal_arena_alloc(in->arena, start_len + object.len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    memcpy(data, start, start_len);
    memcpy(data + start_len, object.data, object.len);
    data[start_len + object.len] = '}';
    return pal_str_make(data, start_len + object.len + 1);
}

static pal_part unknown_block(block_reader *in, pal_json block)
{
    return (pal_part){.kind = PAL_PART_FILE, .extra = kept(in, pal_json_raw(block))};
}

/* {"type":"base64","media_type","data"}, {"type":"url","url"} or {"type":"text","data"}; false for
 * others, which are kept as they are. */
static bool read_source(block_reader *in, pal_json source, pal_part *part)
{
    pal_json type = pal_json_find(source, "type");
    pal_str data = pal_member_string(source, "data", in->arena);
    if (pal_json_string_is(type, "url")) {
        part->url = pal_member_string(source, "url", in->arena);
        return part->url.len && pal_json_count(source) == 2;
    }
    part->media_type = pal_member_string(source, "media_type", in->arena);
    if (pal_json_count(source) != 3)
        return false;
    if (pal_json_string_is(type, "base64"))
        return pal_base64_decode(data, in->arena, &part->data) && part->data.len;
    part->data = data;
    return pal_json_string_is(type, "text") && pal_str_is(part->media_type, "text/plain") &&
            data.len;
}

static pal_status read_blocks(block_reader *in, pal_json content, bool nested, const char *name,
        pal_part **out_parts, size_t *out_len);

static pal_status read_result(block_reader *in, pal_json content, pal_part *part)
{
    pal_json_type type = pal_json_type_of(content);
    if (type == PAL_JSON_NONE)
        return PAL_OK;
    if (type == PAL_JSON_STRING) {
        part->text = pal_json_string(content, in->arena);
        return PAL_OK;
    }
    return read_blocks(in, content, true, "content", &part->parts, &part->parts_len);
}

static pal_status read_block(block_reader *in, pal_json block, bool nested, pal_part *out_part)
{
    pal_json type = pal_json_find(block, "type");
    pal_str unknown;
    block_record record = {0};
    size_t i = 0;
    if (pal_json_type_of(type) != PAL_JSON_STRING)
        return pal_member_wrong(in->err, "type", type, "a string");
    while (i < COUNT_OF(block_types) && !pal_json_string_is(type, block_types[i].type))
        i++;
    *out_part = unknown_block(in, block);
    if (i == COUNT_OF(block_types) || (nested && block_types[i].form == OF_TOOL_RESULT))
        return pal_arena_checked(in->arena, in->err);
    pal_status status = pal_members_read(
            &block_table, block_types[i].form, block, in->arena, &record, &unknown, in->err);
    if (status != PAL_OK)
        return status;
    record.part.kind = block_types[i].kind;
    record.part.extra = kept(in, unknown);
    if (record.part.kind == PAL_PART_REASONING)
        record.part.family = pal_str_of(PAL_ANTHROPIC_FAMILY);
    if (block_types[i].form == OF_TOOL_RESULT)
        status = read_result(in, record.content, &record.part);
    if (!(block_types[i].form & OF_MEDIA) || read_source(in, record.source, &record.part))
        *out_part = record.part;
    return status == PAL_OK ? pal_arena_checked(in->arena, in->err) : status;
}

static pal_status read_blocks(block_reader *in, pal_json content, bool nested, const char *name,
        pal_part **out_parts, size_t *out_len)
{
    size_t len = pal_json_count(content), at = 0;
    pal_json block;
    if (pal_json_type_of(content) != PAL_JSON_ARRAY)
        return pal_member_wrong(in->err, name, content, "a string or an array of blocks");
    if (len > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(in->err, PAL_LIMIT, "%zu blocks are too many; at most %d are allowed",
                len, PAL_MESSAGE_PARTS_MAX);
    pal_part *parts = pal_arena_array(in->arena, len + 1, sizeof(*parts));
    if (!parts)
        return pal_arena_checked(in->arena, in->err);
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &block); at++) {
        pal_status status = read_block(in, block, nested, &parts[at]);
        if (status != PAL_OK)
            return pal_member_within(in->err, status, name, at);
    }
    *out_parts = parts;
    *out_len = len;
    return PAL_OK;
}

/* ---- Messages ---- */

static pal_status read_content(
        block_reader *in, pal_json content, const char *name, pal_part **out_parts, size_t *out_len)
{
    if (pal_json_type_of(content) != PAL_JSON_STRING)
        return read_blocks(in, content, false, name, out_parts, out_len);
    pal_part *part = pal_arena_alloc(in->arena, sizeof(*part));
    if (!part)
        return pal_arena_checked(in->arena, in->err);
    part->kind = PAL_PART_TEXT;
    part->text = pal_json_string(content, in->arena);
    *out_parts = part;
    *out_len = 1;
    return pal_arena_checked(in->arena, in->err);
}

/* The results of tools in front of what the user says, as a message of their own. */
static size_t leading_results(const pal_part *parts, size_t len)
{
    size_t results = 0;
    while (results < len && parts[results].kind == PAL_PART_TOOL_RESULT)
        results++;
    return results;
}

/* One or two messages, into `out`, which has room. */
static pal_status read_message(block_reader *in, pal_json value, pal_message *out, size_t *out_len)
{
    pal_part *parts = NULL;
    size_t len = 0, count = 0;
    pal_json role = pal_json_find(value, "role");
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(in->err, "messages", value, "an object");
    bool is_user = pal_json_string_is(role, "user");
    if (!is_user && !pal_json_string_is(role, "assistant"))
        return pal_member_wrong(in->err, "role", role, "one of user, assistant");
    pal_status status = read_content(in, pal_json_find(value, "content"), "content", &parts, &len);
    if (status != PAL_OK)
        return status;
    size_t results = is_user ? leading_results(parts, len) : 0;
    if (results)
        out[count++] = (pal_message){.role = PAL_ROLE_TOOL, .parts = parts, .parts_len = results};
    if (results < len || len == 0)
        out[count++] = (pal_message){.role = is_user ? PAL_ROLE_USER : PAL_ROLE_ASSISTANT,
                .parts = parts + results,
                .parts_len = len - results};
    *out_len = count;
    return PAL_OK;
}

static pal_status read_system(block_reader *in, pal_json system, pal_message *out)
{
    *out = (pal_message){.role = PAL_ROLE_SYSTEM};
    return read_content(in, system, "system", &out->parts, &out->parts_len);
}

static pal_status read_list(block_reader *in, pal_json system, pal_json list,
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

pal_status pal_anthropic_read_value(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    block_reader in = {arena, err};
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

pal_status pal_anthropic_read(
        pal_str json, pal_arena *arena, pal_message **out_messages, size_t *out_len, pal_error *err)
{
    const pal_json_limits limits = {.depth_max = PAL_ANTHROPIC_DEPTH_MAX};
    pal_json value;
    pal_status status = pal_member_parse(json, &limits, arena, &value, err);
    if (status != PAL_OK)
        return status;
    return pal_anthropic_read_value(value, arena, out_messages, out_len, err);
}
