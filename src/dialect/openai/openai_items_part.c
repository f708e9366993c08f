/* openai_items_part.c - reads the content of items: texts, refusals, images, files.
 * openai_items_write.c writes it.
 *
 * Values that chat completions have too (a refusal, an image's detail, a file's id) are kept where
 * their dialect keeps them, so that they reach a model. Other values are kept under
 * "openai_items". */
#include "dialect/openai/openai_items_part.h"

#include "base/buf.h"
#include "base/json/json_put.h"
#include "dialect/dialect_base64.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat_part.h"
#include "dialect/openai/openai_items.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define BLOB_PREFIX "sha256:"
#define BLOB_LEN 71 /* length of the prefix and 64 hex digits */
#define TYPES_EXPECTED "one of input_text, input_image, input_file, output_text, refusal"

/* ---- Keeping members ---- */

pal_status pal_items_unknown(pal_json object, const char *const *own, const char *type,
        pal_arena *arena, pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    bool is_empty = !type;
    pal_json name, value;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    if (type) {
        pal_put_text(&writer, "type", type);
    }
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (pal_json_type_of(value) == PAL_JSON_NULL || pal_member_is_one_of(name, own))
            continue;
        is_empty = false;
        pal_json_name_str(&writer, pal_json_string(name, arena));
        pal_json_put_raw(&writer, pal_json_raw(value));
    }
    pal_json_end_object(&writer);
    *out_json = pal_str_make(NULL, 0);
    pal_status status = is_empty ? PAL_OK : pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}

pal_str pal_items_keep(pal_arena *arena, pal_str chat, pal_str own)
{
    if (own.len == 0)
        return chat;
    const pal_str pieces[] = {
            chat.len ? pal_str_make(chat.data, chat.len - 1) : pal_str_of("{"),
            pal_str_of(chat.len ? "," : ""),
            pal_str_of("\"" PAL_ITEMS_FAMILY "\":"),
            own,
            pal_str_of("}"),
    };
    return pal_chat_join(arena, pieces, COUNT_OF(pieces));
}

/* ---- Reading ---- */

typedef struct content_reader {
    pal_json value;
    pal_arena *arena;
    pal_part *part;
    pal_error *err;
} content_reader;

/* Returns {"NAME":VALUE} for a member that is a string. Returns an empty text if it is not a
 * string. */
static pal_str inner_of(content_reader *in, const char *member, const char *name)
{
    pal_json value = pal_json_find(in->value, member);
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_str_make(NULL, 0);
    const pal_str pieces[] = {pal_str_of("{\""), pal_str_of(name), pal_str_of("\":"),
            pal_json_raw(value), pal_str_of("}")};
    return pal_chat_join(in->arena, pieces, COUNT_OF(pieces));
}

static pal_status keep(content_reader *in, pal_chat_kept chat, const char *const *own)
{
    pal_str unknown;
    pal_status status = pal_items_unknown(in->value, own, NULL, in->arena, &unknown, in->err);
    if (status != PAL_OK)
        return status;
    in->part->extra = pal_items_keep(in->arena, pal_chat_keep(in->arena, chat), unknown);
    return pal_arena_checked(in->arena, in->err);
}

static bool is_empty_array(pal_json value)
{
    return pal_json_type_of(value) == PAL_JSON_ARRAY && pal_json_count(value) == 0;
}

/* Empty annotations and logprobs are not kept. Every output_text is written with empty annotations
 * anyway. */
static pal_status read_text(content_reader *in, const char *member, const char *mark)
{
    const char *own[5] = {"type", member};
    size_t own_len = 2;
    pal_json text = pal_json_find(in->value, member);
    if (pal_json_type_of(text) != PAL_JSON_STRING)
        return pal_member_wrong(in->err, member, text, "a string");
    if (is_empty_array(pal_json_find(in->value, "annotations")))
        own[own_len++] = "annotations";
    if (is_empty_array(pal_json_find(in->value, "logprobs")))
        own[own_len++] = "logprobs";
    in->part->kind = PAL_PART_TEXT;
    in->part->text = pal_json_string(text, in->arena);
    return keep(in, (pal_chat_kept){.mark = mark}, own);
}

/* The file id names a blob of this store by its content. */
static bool take_blob(content_reader *in)
{
    static const char hex[] = "0123456789abcdef";
    pal_str id = pal_member_string(in->value, "file_id", in->arena);
    size_t prefix = sizeof BLOB_PREFIX - 1;
    if (id.len != BLOB_LEN || memcmp(id.data, BLOB_PREFIX, prefix) != 0)
        return false;
    for (size_t i = prefix; i < id.len; i++) {
        if (!memchr(hex, id.data[i], sizeof hex - 1))
            return false;
    }
    in->part->blob = id;
    return true;
}

static void take_url(content_reader *in, pal_str url)
{
    if (!pal_base64_decode_url(url, in->arena, &in->part->media_type, &in->part->data))
        in->part->url = url;
}

static pal_status read_image(content_reader *in)
{
    static const char *const own[] = {"type", "image_url", "detail", NULL};
    static const char *const own_blob[] = {"type", "image_url", "detail", "file_id", NULL};
    pal_json url = pal_json_find(in->value, "image_url");
    pal_json id = pal_json_find(in->value, "file_id");
    in->part->kind = PAL_PART_IMAGE;
    if (pal_json_type_of(url) == PAL_JSON_STRING)
        take_url(in, pal_json_string(url, in->arena));
    bool is_blob = in->part->url.len == 0 && in->part->data.len == 0 && take_blob(in);
    if (in->part->url.len == 0 && in->part->data.len == 0 && !is_blob &&
            pal_json_type_of(id) != PAL_JSON_STRING)
        return pal_member_wrong(in->err, "image_url", url, "a URL, or 'file_id'");
    pal_chat_kept chat = {.inner_name = "image_url", .inner = inner_of(in, "detail", "detail")};
    return keep(in, chat, is_blob ? own_blob : own);
}

static pal_status read_file(content_reader *in)
{
    static const char *const own[] = {"type", "filename", "file_data", "file_url", "file_id", NULL};
    pal_str data = pal_member_string(in->value, "file_data", in->arena);
    pal_str url = pal_member_string(in->value, "file_url", in->arena);
    pal_chat_kept chat = {.inner_name = "file"};
    in->part->kind = PAL_PART_FILE;
    in->part->name = pal_member_string(in->value, "filename", in->arena);
    if (data.len) {
        if (!pal_base64_decode_url(data, in->arena, &in->part->media_type, &in->part->data))
            chat.inner = inner_of(in, "file_data", "file_data");
    } else if (url.len) {
        in->part->url = url;
    } else if (!take_blob(in)) {
        chat.inner = inner_of(in, "file_id", "file_id");
        if (chat.inner.len == 0)
            return pal_member_wrong(in->err, "file_data", pal_json_find(in->value, "file_data"),
                    "a string, or 'file_url' or 'file_id'");
    }
    return keep(in, chat, own);
}

static pal_status read_part(pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    content_reader in = {value, arena, part, err};
    pal_json type = pal_json_find(value, "type");
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "is %s; expected an object with a 'type'",
                pal_json_type_name(pal_json_type_of(value)));
    if (pal_json_string_is(type, "input_text") || pal_json_string_is(type, "output_text") ||
            pal_json_string_is(type, "text"))
        return read_text(&in, "text", NULL);
    if (pal_json_string_is(type, "refusal"))
        return read_text(&in, "refusal", "refusal");
    if (pal_json_string_is(type, "input_image"))
        return read_image(&in);
    if (pal_json_string_is(type, "input_file"))
        return read_file(&in);
    return pal_member_wrong(err, "type", type, TYPES_EXPECTED);
}

pal_status pal_items_read_content(
        pal_json array, pal_arena *arena, pal_part **out_parts, size_t *out_len, pal_error *err)
{
    size_t len = pal_json_count(array), at = 0;
    pal_json item;
    if (len > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu parts are too many; at most %d are allowed", len,
                PAL_MESSAGE_PARTS_MAX);
    pal_part *parts = pal_arena_array(arena, len + 1, sizeof *parts);
    if (!parts)
        return pal_arena_checked(arena, err);
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &item); at++) {
        pal_status status = read_part(item, arena, &parts[at], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "content", at);
    }
    *out_parts = parts;
    *out_len = len;
    return pal_arena_checked(arena, err);
}
