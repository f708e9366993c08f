/* mistral_chunk.c - reads the parts of requests from clients of Mistral's API: texts,
 * chunks of a content, arguments. Entries and chat messages share them. */
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/mistral/mistral_entries_part.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat_part.h"

#define CHUNKS_EXPECTED                                                                            \
    "one of text, image_url, document_url, thinking, tool_file, tool_reference, reference, file"

pal_status pal_mistral_read_string(
        pal_json object, const char *name, pal_arena *arena, pal_str *out, pal_error *err)
{
    pal_json value = pal_json_find(object, name);
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_member_wrong(err, name, value, "a string");
    *out = pal_json_string(value, arena);
    return pal_arena_checked(arena, err);
}

pal_status pal_mistral_read_arguments(
        pal_json object, pal_arena *arena, pal_str *out, pal_error *err)
{
    pal_json value = pal_json_find(object, "arguments");
    if (pal_json_type_of(value) == PAL_JSON_OBJECT) {
        *out = pal_json_raw(value);
        return PAL_OK;
    }
    return pal_mistral_read_string(object, "arguments", arena, out, err);
}

pal_status pal_mistral_read_call(pal_json object, const char *id_name, pal_json function,
        pal_arena *arena, pal_part *part, pal_error *err)
{
    part->kind = PAL_PART_TOOL_CALL;
    pal_status status = pal_mistral_read_string(object, id_name, arena, &part->call_id, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_read_string(function, "name", arena, &part->name, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_read_arguments(function, arena, &part->arguments, err);
    if (status != PAL_OK)
        return status;
    if (part->call_id.len == 0 || part->name.len == 0)
        return pal_error_set(
                err, PAL_INVALID, "member '%s' is empty", part->name.len ? id_name : "name");
    return PAL_OK;
}

pal_str pal_mistral_keep(pal_arena *arena, const char *name, pal_str json)
{
    const pal_str pieces[] = {pal_str_of("{\"" PAL_ENTRIES_FAMILY "\":{\""), pal_str_of(name),
            pal_str_of("\":"), json, pal_str_of("}}")};
    return pal_chat_join(arena, pieces, sizeof pieces / sizeof *pieces);
}

/* Reads a URL, or the bytes in a data: URL. */
static pal_status read_url(
        pal_json chunk, const char *name, pal_arena *arena, pal_part *part, pal_error *err)
{
    pal_str url;
    pal_status status = pal_mistral_read_string(chunk, name, arena, &url, err);
    if (status != PAL_OK)
        return status;
    if (!pal_base64_decode_url(url, arena, &part->media_type, &part->data))
        part->url = url;
    return pal_arena_checked(arena, err);
}

/* The URL may be a plain string. Only Mistral writes it so, and other services reject it, so this
 * form is not kept. */
static pal_status read_image(pal_json chunk, pal_arena *arena, pal_part *part, pal_error *err)
{
    part->kind = PAL_PART_IMAGE;
    if (pal_json_type_of(pal_json_find(chunk, "image_url")) == PAL_JSON_STRING)
        return read_url(chunk, "image_url", arena, part, err);
    return pal_chat_read_content_part(chunk, arena, part, err);
}

static pal_status read_document(pal_json chunk, pal_arena *arena, pal_part *part, pal_error *err)
{
    part->kind = PAL_PART_FILE;
    pal_status status = read_url(chunk, "document_url", arena, part, err);
    if (status != PAL_OK)
        return status;
    part->name = pal_member_string(chunk, "document_name", arena);
    return pal_arena_checked(arena, err);
}

static pal_status read_thinking(pal_json chunk, pal_arena *arena, pal_part *part, pal_error *err)
{
    pal_buf text;
    pal_json each, thinking = pal_json_find(chunk, "thinking");
    part->kind = PAL_PART_REASONING;
    if (pal_json_type_of(thinking) == PAL_JSON_STRING) {
        part->text = pal_json_string(thinking, arena);
        return pal_arena_checked(arena, err);
    }
    if (pal_json_type_of(thinking) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "thinking", thinking, "an array of chunks");
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    for (pal_json_iter iter = pal_json_each(thinking); pal_json_next(&iter, NULL, &each);)
        pal_buf_append_str(&text, pal_member_string(each, "text", arena));
    pal_status status = pal_member_keep(&text, arena, &part->text, err);
    pal_buf_done(&text);
    return status;
}

/* Only Mistral's built-in tools create these chunks. The model gets a short text in their place. */
static pal_status read_foreign(pal_json chunk, pal_arena *arena, pal_part *part, pal_error *err)
{
    static const char *const names[] = {"title", "file_name", "file_id", "type"};
    pal_str name = {0};
    for (size_t i = 0; name.len == 0 && i < sizeof names / sizeof *names; i++)
        name = pal_member_string(chunk, names[i], arena);
    const pal_str pieces[] = {pal_str_of("["), name, pal_str_of("]")};
    part->kind = PAL_PART_TEXT;
    part->text = pal_chat_join(arena, pieces, sizeof pieces / sizeof *pieces);
    part->extra = pal_mistral_keep(arena, "chunk", pal_json_raw(chunk));
    return pal_arena_checked(arena, err);
}

static pal_status read_chunk(pal_json chunk, pal_arena *arena, pal_part *part, pal_error *err)
{
    static const char *const foreign[] = {"tool_file", "tool_reference", "reference", "file", NULL};
    pal_json type = pal_json_find(chunk, "type");
    if (pal_json_type_of(chunk) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a chunk must be an object");
    if (pal_json_string_is(type, "text"))
        return pal_chat_read_content_part(chunk, arena, part, err);
    if (pal_json_string_is(type, "image_url"))
        return read_image(chunk, arena, part, err);
    if (pal_json_string_is(type, "document_url"))
        return read_document(chunk, arena, part, err);
    if (pal_json_string_is(type, "thinking"))
        return read_thinking(chunk, arena, part, err);
    if (pal_member_is_one_of(type, foreign))
        return read_foreign(chunk, arena, part, err);
    return pal_member_wrong(err, "type", type, CHUNKS_EXPECTED);
}

static pal_status read_chunks(
        pal_json array, pal_arena *arena, pal_message *message, pal_error *err)
{
    size_t count = pal_json_count(array);
    pal_json_iter iter = pal_json_each(array);
    pal_json chunk;
    if (count > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(err, PAL_LIMIT, "'content' has %zu chunks; at most %d are allowed",
                count, PAL_MESSAGE_PARTS_MAX);
    message->parts = pal_arena_array(arena, count ? count : 1, sizeof *message->parts);
    for (size_t i = 0; message->parts && pal_json_next(&iter, NULL, &chunk); i++) {
        pal_status status = read_chunk(chunk, arena, &message->parts[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "content", i);
    }
    message->parts_len = count;
    return pal_arena_checked(arena, err);
}

pal_status pal_mistral_read_content(
        pal_json entry, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_json content = pal_json_find(entry, "content");
    if (pal_json_type_of(content) == PAL_JSON_ARRAY)
        return read_chunks(content, arena, message, err);
    if (pal_json_type_of(content) != PAL_JSON_STRING)
        return pal_member_wrong(err, "content", content, "a string or an array of chunks");
    *message = pal_message_text(arena, message->role, pal_json_string(content, arena));
    return pal_arena_checked(arena, err);
}
