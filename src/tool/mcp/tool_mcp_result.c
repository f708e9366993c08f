/* tool_mcp_result.c - converts a tool's result to parts. Content that a model cannot receive, such
 * as a link or an unknown kind of content, becomes text. Content that would block the loop for long
 * is left out, and a note replaces it. Pure. */
#include <stdio.h>
#include "base/buf.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "tool/mcp/tool_mcp_internal.h"

#define NOTE_SIZE 96
#define TOO_LONG "bytes of text were left out because the result is too long"
#define TOO_MANY "parts were left out because the result has too many"

static pal_str member(pal_json object, const char *name, pal_arena *arena)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

/* Returns a note that says how much was left out. */
static pal_str note_of(size_t len, const char *what, pal_arena *arena)
{
    char note[NOTE_SIZE];
    snprintf(note, sizeof note, "[%zu %s]", len, what);
    return pal_arena_copy(arena, pal_str_of(note));
}

static bool is_too_long(pal_json value)
{
    return pal_json_raw(value).len > PAL_TOOL_MCP_TEXT_BYTES_MAX;
}

static pal_str text_of(pal_json value, pal_arena *arena)
{
    return is_too_long(value) ? note_of(pal_json_raw(value).len, TOO_LONG, arena)
                              : pal_json_string(value, arena);
}

static pal_str raw_of(pal_json value, pal_arena *arena)
{
    return is_too_long(value) ? note_of(pal_json_raw(value).len, TOO_LONG, arena)
                              : pal_json_raw(value);
}

static pal_part text_part(pal_str text)
{
    return (pal_part){.kind = PAL_PART_TEXT, .text = text};
}

static pal_str join(pal_arena *arena, const pal_str *texts, size_t len)
{
    size_t all = 0, at = 0;
    for (size_t i = 0; i < len; i++)
        all += texts[i].len;
    char *out = pal_arena_alloc(arena, all + 1);
    for (size_t i = 0; out && i < len; i++) {
        if (texts[i].len)
            memcpy(out + at, texts[i].data, texts[i].len);
        at += texts[i].len;
    }
    return pal_str_make(out, out ? all : 0);
}

/* Decodes base64. Some servers send it with line breaks. */
static bool decode(pal_str text, pal_arena *arena, pal_str *out_data)
{
    if (pal_base64_decode(text, arena, out_data))
        return true;
    char *plain = pal_arena_alloc(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; plain && i < text.len; i++) {
        if (!strchr(" \t\r\n", text.data[i]) || text.data[i] == '\0')
            plain[len++] = text.data[i];
    }
    return plain && pal_base64_decode(pal_str_make(plain, len), arena, out_data);
}

static pal_part bytes_part(pal_str base64, pal_str media_type, pal_str name, pal_arena *arena)
{
    pal_part part = {.kind = pal_text_begins(media_type, "image/") ? PAL_PART_IMAGE : PAL_PART_FILE,
            .media_type = media_type,
            .name = name};
    if (part.media_type.len == 0)
        part.media_type = pal_str_of("application/octet-stream");
    if (decode(base64, arena, &part.data))
        return part;
    const pal_str texts[] = {
            pal_str_of("[bytes of type "), part.media_type, pal_str_of(" that could not be read]")};
    return text_part(join(arena, texts, 3));
}

/* Converts an embedded resource of the server. */
static pal_part resource_part(pal_json resource, pal_arena *arena)
{
    pal_str uri = member(resource, "uri", arena);
    pal_json blob = pal_json_find(resource, "blob");
    if (pal_json_type_of(blob) == PAL_JSON_STRING)
        return bytes_part(
                pal_json_string(blob, arena), member(resource, "mimeType", arena), uri, arena);
    const pal_str texts[] = {
            pal_str_of("["), uri, pal_str_of("]\n"),
            text_of(pal_json_find(resource, "text"), arena)};
    return text_part(uri.len ? join(arena, texts, 4) : texts[3]);
}

static pal_part link_part(pal_json link, pal_arena *arena)
{
    pal_str title = member(link, "title", arena), about = member(link, "description", arena);
    const pal_str texts[] = {pal_str_of("["), title.len ? title : member(link, "name", arena),
            pal_str_of("]("), member(link, "uri", arena), pal_str_of(")"),
            pal_str_of(about.len ? ": " : ""), about};
    return text_part(join(arena, texts, sizeof(texts) / sizeof(*texts)));
}

static pal_part content_part(pal_json content, pal_arena *arena)
{
    pal_json type = pal_json_find(content, "type");
    if (pal_json_string_is(type, "text"))
        return text_part(text_of(pal_json_find(content, "text"), arena));
    if (pal_json_string_is(type, "image") || pal_json_string_is(type, "audio"))
        return bytes_part(member(content, "data", arena), member(content, "mimeType", arena),
                (pal_str){0}, arena);
    if (pal_json_string_is(type, "resource"))
        return resource_part(pal_json_find(content, "resource"), arena);
    if (pal_json_string_is(type, "resource_link"))
        return link_part(content, arena);
    return text_part(raw_of(content, arena));
}

void pal_tool_mcp_result_read(pal_json result, pal_arena *arena, pal_tool_outcome *out_outcome)
{
    pal_json content = pal_json_find(result, "content"), one;
    pal_json structured = pal_json_find(result, "structuredContent");
    bool is_list = pal_json_type_of(content) == PAL_JSON_ARRAY, has_text = false;
    pal_json_iter each = pal_json_each(content);
    size_t len = 0, all = is_list ? pal_json_count(content) : 0;
    size_t len_max = all < PAL_TOOL_MCP_PARTS_MAX ? all : PAL_TOOL_MCP_PARTS_MAX;
    pal_part *parts = pal_arena_array(arena, len_max + 2, sizeof(*parts));
    *out_outcome = (pal_tool_outcome){.parts = parts};
    (void)pal_json_bool(pal_json_find(result, "isError"), &out_outcome->is_error);
    while (parts && len < len_max && pal_json_next(&each, NULL, &one)) {
        parts[len] = content_part(one, arena);
        has_text |= parts[len++].kind == PAL_PART_TEXT;
    }
    if (parts && all > len_max)
        parts[len++] = text_part(note_of(all - len_max, TOO_MANY, arena));
    /* Servers usually send structured content as text too, for clients that do not know it. */
    if (parts && pal_json_type_of(structured) != PAL_JSON_NONE && !has_text)
        parts[len++] = text_part(raw_of(structured, arena));
    out_outcome->parts_len = len;
}
