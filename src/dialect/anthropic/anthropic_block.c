/* anthropic_block.c - reads the blocks of Anthropic's messages with a table of members. */
#include "dialect/anthropic/anthropic_block.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

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
        {"type", PAL_MEMBER_VALUE, OF_EVERY & ~OF_REDACTED, .offset = offsetof(block_record, type)},
        {"cache_control", PAL_MEMBER_VALUE, OF_EVERY, .offset = offsetof(block_record, dropped)},
        {"text", PAL_MEMBER_STRING, OF_TEXT, .offset = offsetof(block_record, part.text)},
        {"thinking", PAL_MEMBER_STRING, OF_THINKING, .offset = offsetof(block_record, part.text)},
        {"signature", PAL_MEMBER_STRING, OF_THINKING,
                .offset = offsetof(block_record, part.signature)},
        {"data", PAL_MEMBER_STRING, OF_REDACTED, .offset = offsetof(block_record, part.signature)},
        {"id", PAL_MEMBER_STRING, OF_TOOL_USE, .offset = offsetof(block_record, part.call_id)},
        {"name", PAL_MEMBER_STRING, OF_TOOL_USE, .offset = offsetof(block_record, part.name)},
        {"input", PAL_MEMBER_VERBATIM, OF_TOOL_USE,
                .offset = offsetof(block_record, part.arguments)},
        {"tool_use_id", PAL_MEMBER_STRING, OF_TOOL_RESULT,
                .offset = offsetof(block_record, part.call_id)},
        {"content", PAL_MEMBER_VALUE, OF_TOOL_RESULT, .offset = offsetof(block_record, content)},
        {"is_error", PAL_MEMBER_BOOL, OF_TOOL_RESULT,
                .offset = offsetof(block_record, part.is_error)},
        {"source", PAL_MEMBER_VALUE, OF_MEDIA, .offset = offsetof(block_record, source)},
        {"title", PAL_MEMBER_STRING, OF_DOCUMENT, .offset = offsetof(block_record, part.name)},
};

static const pal_member_table block_table = {block_members, COUNT_OF(block_members), NULL, NULL};

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

static pal_part unknown_block(const pal_block_reader *in, pal_json block)
{
    return (pal_part){.kind = PAL_PART_FILE,
            .extra = pal_member_wrap(in->arena, PAL_ANTHROPIC_FAMILY, pal_json_raw(block))};
}

/* Reads {"type":"base64","media_type","data"}, {"type":"url","url"} or {"type":"text","data"}.
 * Returns false for other types, which are kept unchanged. */
static bool read_source(const pal_block_reader *in, pal_json source, pal_part *part)
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

static pal_status read_blocks(const pal_block_reader *in, pal_json content, bool nested,
        const char *name, pal_part **out_parts, size_t *out_len);

static pal_status read_result(const pal_block_reader *in, pal_json content, pal_part *part)
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

static pal_status read_block(
        const pal_block_reader *in, pal_json block, bool nested, pal_part *out_part)
{
    pal_json type = pal_json_find(block, "type");
    pal_str unknown;
    block_record record = {0};
    size_t i = 0;
    if (pal_json_type_of(type) != PAL_JSON_STRING)
        return pal_member_wrong(in->err, "type", type, "a string");
    while (i < COUNT_OF(block_types) && !pal_json_string_is(type, block_types[i].type))
        i++;
    if (i == COUNT_OF(block_types) || (nested && block_types[i].form == OF_TOOL_RESULT)) {
        *out_part = unknown_block(in, block);
        return pal_arena_checked(in->arena, in->err);
    }
    pal_status status = pal_members_read(
            &block_table, block_types[i].form, block, in->arena, &record, &unknown, in->err);
    if (status != PAL_OK)
        return status;
    record.part.kind = block_types[i].kind;
    record.part.extra = pal_member_wrap(in->arena, PAL_ANTHROPIC_FAMILY, unknown);
    if (record.part.kind == PAL_PART_REASONING)
        record.part.family = pal_str_of(PAL_ANTHROPIC_FAMILY);
    if (block_types[i].form == OF_TOOL_RESULT)
        status = read_result(in, record.content, &record.part);
    if ((block_types[i].form & OF_MEDIA) && !read_source(in, record.source, &record.part))
        record.part = unknown_block(in, block);
    *out_part = record.part;
    return status == PAL_OK ? pal_arena_checked(in->arena, in->err) : status;
}

/* An unreadable block of the history is kept unchanged. */
static pal_status read_or_keep(
        const pal_block_reader *in, pal_json block, bool nested, pal_part *out_part)
{
    pal_status status = read_block(in, block, nested, out_part);
    if (status == PAL_OK || !in->is_history)
        return status;
    *out_part = unknown_block(in, block);
    return pal_arena_checked(in->arena, in->err);
}

static pal_status check_blocks(const pal_block_reader *in, pal_json content, const char *name)
{
    size_t len = pal_json_count(content);
    if (in->is_history)
        return PAL_OK;
    if (pal_json_type_of(content) != PAL_JSON_ARRAY)
        return pal_member_wrong(in->err, name, content, "a string or an array of blocks");
    if (len > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(in->err, PAL_LIMIT, "%zu blocks are too many; at most %d are allowed",
                len, PAL_MESSAGE_PARTS_MAX);
    return PAL_OK;
}

static pal_status read_blocks(const pal_block_reader *in, pal_json content, bool nested,
        const char *name, pal_part **out_parts, size_t *out_len)
{
    bool is_array = pal_json_type_of(content) == PAL_JSON_ARRAY;
    size_t used = 0;
    pal_json block;
    pal_status status = check_blocks(in, content, name);
    if (status != PAL_OK)
        return status;
    pal_part *parts = pal_arena_array(in->arena, pal_json_count(content) + 1, sizeof(*parts));
    if (!parts)
        return pal_arena_checked(in->arena, in->err);
    for (pal_json_iter iter = pal_json_each(content);
            is_array && pal_json_next(&iter, NULL, &block);) {
        if (in->is_history && pal_json_type_of(block) != PAL_JSON_OBJECT)
            continue;
        status = read_or_keep(in, block, nested, &parts[used]);
        if (status != PAL_OK)
            return pal_member_within(in->err, status, name, used);
        used++;
    }
    *out_parts = parts;
    *out_len = used;
    return PAL_OK;
}

pal_status pal_blocks_read(const pal_block_reader *in, pal_json content, const char *name,
        pal_part **out_parts, size_t *out_len)
{
    if (pal_json_type_of(content) != PAL_JSON_STRING)
        return read_blocks(in, content, false, name, out_parts, out_len);
    pal_message text =
            pal_message_text(in->arena, PAL_ROLE_USER, pal_json_string(content, in->arena));
    pal_status status = pal_arena_checked(in->arena, in->err);
    if (status != PAL_OK)
        return status;
    *out_parts = text.parts;
    *out_len = text.parts_len;
    return PAL_OK;
}
