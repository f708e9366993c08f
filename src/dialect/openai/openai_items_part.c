/* openai_items_part.c - reads and writes the content of items: texts, refusals, images,
 * files.
 *
 * Values that chat completions have too (a refusal, an image's detail, a file's id) are kept where
 * their dialect keeps them, so that they reach a model. Other values are kept under "openai_items".
 * Every part gives a text that can be read again. */
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

/* ---- Writing ---- */

static void put_member(pal_items_writer *out, const char *name, pal_str text)
{
    pal_put_str(out->json, name, text);
}

static bool is_refusal_in(const pal_part *part, pal_arena *scratch)
{
    static const char *const refusals[] = {"refusal", "message_refusal", NULL};
    pal_json chat = pal_member_kept(part->extra, "openai", scratch);
    return pal_member_is_one_of(pal_json_find(chat, "type"), refusals);
}

bool pal_openai_part_is_refusal(const pal_part *part)
{
    pal_arena *arena = part->extra.len ? pal_arena_new(0) : NULL;
    bool is_refusal = arena && is_refusal_in(part, arena);
    pal_arena_free(arena);
    return is_refusal;
}

static void put_text(pal_items_writer *out, const pal_part *part, bool is_assistant)
{
    static const char *const text_own[] = {"type", "text", NULL};
    static const char *const refusal_own[] = {"type", "refusal", NULL};
    pal_json kept = pal_member_kept(part->extra, PAL_ITEMS_FAMILY, out->scratch);
    bool is_refusal = is_refusal_in(part, out->scratch);
    bool is_output = is_assistant && !is_refusal;
    pal_json_begin_object(out->json);
    put_member(out, "type",
            pal_str_of(is_refusal       ? "refusal"
                            : is_output ? "output_text"
                                        : "input_text"));
    put_member(out, is_refusal ? "refusal" : "text", part->text);
    if (is_output && pal_json_type_of(pal_json_find(kept, "annotations")) == PAL_JSON_NONE) {
        pal_json_name(out->json, "annotations");
        pal_json_begin_array(out->json);
        pal_json_end_array(out->json);
    }
    pal_member_put_others(out->json, kept, is_refusal ? refusal_own : text_own, NULL, out->scratch);
    pal_json_end_object(out->json);
}

static void put_data_url(pal_items_writer *out, const char *name, const pal_part *part)
{
    const pal_str pieces[] = {pal_str_of("data:"), part->media_type, pal_str_of(";base64,")};
    pal_json_name(out->json, name);
    pal_base64_put(
            out->json, pal_chat_join(out->scratch, pieces, COUNT_OF(pieces)), part->data);
}

/* Returns whether the part has bytes, a URL or an id. `inner` is the member that chat completions
 * keep for a file. */
static bool has_source(const pal_part *part, pal_json kept, pal_json inner)
{
    if (part->data.len || part->url.len || part->blob.len)
        return true;
    if (part->kind == PAL_PART_IMAGE)
        return pal_json_type_of(pal_json_find(kept, "file_id")) == PAL_JSON_STRING;
    return pal_json_type_of(pal_json_find(inner, "file_id")) == PAL_JSON_STRING ||
            pal_json_type_of(pal_json_find(inner, "file_data")) == PAL_JSON_STRING;
}

static void put_kept_source(pal_items_writer *out, pal_json inner)
{
    bool has_data = pal_json_type_of(pal_json_find(inner, "file_data")) == PAL_JSON_STRING;
    const char *name = has_data ? "file_data" : "file_id";
    pal_put_raw(out->json, name, pal_json_raw(pal_json_find(inner, name)));
}

static void put_source(pal_items_writer *out, const pal_part *part, pal_json inner)
{
    bool is_image = part->kind == PAL_PART_IMAGE;
    if (part->data.len)
        put_data_url(out, is_image ? "image_url" : "file_data", part);
    else if (part->url.len)
        put_member(out, is_image ? "image_url" : "file_url", part->url);
    else if (part->blob.len)
        put_member(out, "file_id", part->blob);
    else if (!is_image)
        put_kept_source(out, inner);
}

static void put_media(pal_items_writer *out, const pal_part *part, pal_json kept, pal_json chat)
{
    static const char *const image_own[] = {"type", "image_url", "detail", NULL};
    static const char *const file_own[] = {
            "type", "filename", "file_data", "file_url", "file_id", NULL};
    bool is_image = part->kind == PAL_PART_IMAGE;
    pal_json detail = pal_json_find(pal_json_find(chat, "image_url"), "detail");
    pal_json_begin_object(out->json);
    put_member(out, "type", pal_str_of(is_image ? "input_image" : "input_file"));
    if (part->name.len && !is_image)
        put_member(out, "filename", part->name);
    put_source(out, part, pal_json_find(chat, "file"));
    if (is_image) {
        /* The types of the SDKs require this member. */
        pal_json_name(out->json, "detail");
        if (pal_json_type_of(detail) == PAL_JSON_STRING)
            pal_json_put_raw(out->json, pal_json_raw(detail));
        else
            pal_json_put_text(out->json, "auto");
    }
    pal_member_put_others(out->json, kept, is_image ? image_own : file_own, NULL, out->scratch);
    pal_json_end_object(out->json);
}

static void put_placeholder(pal_items_writer *out, const pal_part *part, bool is_assistant)
{
    const pal_str pieces[] = {pal_str_of(part->kind == PAL_PART_IMAGE ? "[image" : "[file"),
            pal_str_of(part->name.len ? " " : ""), part->name, pal_str_of("]")};
    pal_part text = {
            .kind = PAL_PART_TEXT, .text = pal_chat_join(out->scratch, pieces, COUNT_OF(pieces))};
    put_text(out, &text, is_assistant);
}

void pal_items_put_content(pal_items_writer *out, const pal_part *part, bool is_assistant)
{
    if (part->kind != PAL_PART_IMAGE && part->kind != PAL_PART_FILE) {
        put_text(out, part, is_assistant);
        return;
    }
    pal_json kept = pal_member_kept(part->extra, PAL_ITEMS_FAMILY, out->scratch);
    pal_json chat = pal_member_kept(part->extra, "openai", out->scratch);
    if (is_assistant || !has_source(part, kept, pal_json_find(chat, "file")))
        put_placeholder(out, part, is_assistant);
    else
        put_media(out, part, kept, chat);
}
