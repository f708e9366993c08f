/* openai_chat_write.c - writes messages in the format of OpenAI's chat completions. Values
 * that the reader kept in `extra` under "openai" are written back to their place; see
 * openai_chat.c.
 *
 * Every message gives a text that can be read, and that is written the same again. Any program can
 * set an extra, so a kept member is never written where the reader expects a known member. */
#include "base/buf.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_part.h"
#include "dialect/openai/openai_chat.h"
#include "message/message_check.h"

typedef struct chat_writer {
    pal_json_writer *json;
    pal_arena *scratch; /* owns JSON that is parsed again; its failure is checked at the end */
} chat_writer;

/* Returns the kept members of an object, or PAL_JSON_NONE if there are none. */
static pal_json kept_of(chat_writer *out, pal_str extra)
{
    return extra.len ? pal_member_kept(extra, "openai", out->scratch) : (pal_json){0};
}

/* Writes the members of `object` except those in `without`, which ends with NULL. */
static void put_others(chat_writer *out, pal_json object, const char *const *without)
{
    if (!pal_json_is_absent(object))
        pal_member_put_others(out->json, object, without, NULL, out->scratch);
}

static bool has_others(pal_json object, const char *const *without)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (!pal_member_is_one_of(name, without))
            return true;
    }
    return false;
}

static void put_member(chat_writer *out, const char *name, pal_str text)
{
    pal_put_str(out->json, name, text);
}

/* ---- Content ---- */

static const char *const text_own[] = {"type", "text", NULL};

static void put_text(chat_writer *out, pal_str text, pal_json kept)
{
    static const char *const refusal_own[] = {"type", "refusal", NULL};
    bool refusal = pal_json_string_is(pal_json_find(kept, "type"), "refusal");
    const char *name = refusal ? "refusal" : "text";
    pal_json_begin_object(out->json);
    put_member(out, "type", pal_str_of(name));
    put_member(out, name, text);
    put_others(out, kept, refusal ? refusal_own : text_own);
    pal_json_end_object(out->json);
}

/* Writes the part's bytes as a data: URL. */
static void put_data_url(chat_writer *out, const pal_part *part)
{
    pal_buf prefix;
    pal_buf_init(&prefix, 1000 + part->media_type.len);
    pal_buf_append_text(&prefix, "data:");
    pal_buf_append_str(&prefix, part->media_type);
    pal_buf_append_text(&prefix, ";base64,");
    if (prefix.failure)
        out->json->buf->failure = prefix.failure;
    pal_base64_put(out->json, pal_buf_str(&prefix), part->data);
    pal_buf_done(&prefix);
}

static void put_image_url(chat_writer *out, const pal_part *part)
{
    if (part->url.len)
        pal_json_put_str(out->json, part->url);
    else
        put_data_url(out, part);
}

static void put_image(chat_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"type", "image_url", NULL};
    static const char *const inner_own[] = {"url", NULL};
    pal_json inner = pal_json_find(kept, "image_url");
    pal_json_begin_object(out->json);
    put_member(out, "type", pal_str_of("image_url"));
    pal_json_name(out->json, "image_url");
    if (pal_json_type_of(inner) == PAL_JSON_STRING) {
        put_image_url(out, part);
    } else {
        pal_json_begin_object(out->json);
        pal_json_name(out->json, "url");
        put_image_url(out, part);
        put_others(out, inner, inner_own);
        pal_json_end_object(out->json);
    }
    put_others(out, kept, own);
    pal_json_end_object(out->json);
}

#define AUDIO "audio/"

static void put_audio(chat_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"type", "input_audio", NULL};
    static const char *const inner_own[] = {"data", "format", NULL};
    size_t skipped = sizeof(AUDIO) - 1;
    pal_json_begin_object(out->json);
    put_member(out, "type", pal_str_of("input_audio"));
    pal_json_name(out->json, "input_audio");
    pal_json_begin_object(out->json);
    pal_json_name(out->json, "data");
    pal_base64_put(out->json, pal_str_make(NULL, 0), part->data);
    put_member(out, "format",
            pal_str_make(part->media_type.data + skipped, part->media_type.len - skipped));
    put_others(out, pal_json_find(kept, "input_audio"), inner_own);
    pal_json_end_object(out->json);
    put_others(out, kept, own);
    pal_json_end_object(out->json);
}

static const char *const file_names[] = {"filename", NULL};

static void put_file(chat_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"type", "file", NULL};
    static const char *const names_and_data[] = {"filename", "file_data", NULL};
    pal_json_begin_object(out->json);
    put_member(out, "type", pal_str_of("file"));
    pal_json_name(out->json, "file");
    pal_json_begin_object(out->json);
    if (part->name.len)
        put_member(out, "filename", part->name);
    if (part->data.len) {
        pal_json_name(out->json, "file_data");
        put_data_url(out, part);
    }
    put_others(out, pal_json_find(kept, "file"), part->data.len ? names_and_data : file_names);
    pal_json_end_object(out->json);
    put_others(out, kept, own);
    pal_json_end_object(out->json);
}

/* Returns a line that describes content that cannot be sent. */
static pal_str placeholder_of(chat_writer *out, const pal_part *part)
{
    pal_str line = {0};
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    pal_part_placeholder(&text, part);
    if (text.failure)
        out->json->buf->failure = text.failure;
    else
        line = pal_arena_copy(out->scratch, pal_buf_str(&text));
    pal_buf_done(&text);
    return line;
}

static bool is_media(const pal_part *part)
{
    return part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
}

/* The form in which a media part is sent; NOTHING if it has no content to send. */
typedef enum media_form { NOTHING, IMAGE, AUDIO_DATA, FILE_DATA, UNKNOWN } media_form;

static media_form media_form_of(const pal_part *part, pal_json kept)
{
    static const char *const known[] = {
            "text", "refusal", "image_url", "input_audio", "file", NULL};
    pal_json type = pal_json_find(kept, "type");
    if (part->kind == PAL_PART_IMAGE)
        return part->url.len || part->data.len ? IMAGE : NOTHING;
    if (pal_json_type_of(type) == PAL_JSON_STRING && !pal_member_is_one_of(type, known))
        return UNKNOWN;
    if (part->name.len == 0 && part->data.len && pal_text_begins(part->media_type, AUDIO))
        return AUDIO_DATA;
    return part->data.len || has_others(pal_json_find(kept, "file"), file_names) ? FILE_DATA
                                                                                 : NOTHING;
}

static void put_media(chat_writer *out, const pal_part *part, pal_json kept)
{
    switch (media_form_of(part, kept)) {
    case IMAGE:
        put_image(out, part, kept);
        break;
    case AUDIO_DATA:
        put_audio(out, part, kept);
        break;
    case FILE_DATA:
        put_file(out, part, kept);
        break;
    case UNKNOWN: /* the complete part was kept */
        pal_json_put_raw(out->json, pal_json_raw(kept));
        break;
    case NOTHING:
        put_text(out, placeholder_of(out, part), (pal_json){0});
        break;
    }
}

static void put_content_part(chat_writer *out, const pal_part *part, pal_json kept)
{
    if (is_media(part))
        put_media(out, part, kept);
    else
        put_text(out, part->text, kept);
}

/* ---- Tool calls and results ---- */

static void put_call_inner(
        chat_writer *out, const pal_part *part, const char *arguments_name, pal_json inner)
{
    const char *const own[] = {"name", arguments_name, NULL};
    pal_json_begin_object(out->json);
    put_member(out, "name", part->name);
    put_member(out, arguments_name, part->arguments);
    put_others(out, inner, own);
    pal_json_end_object(out->json);
}

static void put_tool_call(chat_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const known[] = {"function", "custom", NULL};
    pal_json type = pal_json_find(kept, "type");
    bool custom = pal_json_string_is(type, "custom");
    const char *name = custom ? "custom" : "function";
    const char *const own[] = {"id", "type", name, NULL};
    if (pal_json_type_of(type) == PAL_JSON_STRING && !pal_member_is_one_of(type, known) &&
            pal_json_type_of(pal_json_find(kept, "function")) == PAL_JSON_NONE) {
        pal_json_put_raw(out->json, pal_json_raw(kept)); /* the complete part was kept */
        return;
    }
    pal_json_begin_object(out->json);
    put_member(out, "id", part->call_id);
    put_member(out, "type", pal_str_of(name));
    pal_json_name(out->json, name);
    put_call_inner(out, part, custom ? "input" : "arguments", pal_json_find(kept, name));
    put_others(out, kept, own);
    pal_json_end_object(out->json);
}

static void put_result_content(chat_writer *out, const pal_part *result)
{
    pal_json_name(out->json, "content");
    if (result->parts_len == 0) {
        pal_json_put_str(out->json, result->text);
        return;
    }
    pal_json_begin_array(out->json);
    if (result->text.len)
        put_text(out, result->text, (pal_json){0});
    for (size_t i = 0; i < result->parts_len; i++)
        put_content_part(out, &result->parts[i], kept_of(out, result->parts[i].extra));
    pal_json_end_array(out->json);
}

static void put_result(chat_writer *out, const pal_part *result, pal_json kept)
{
    static const char *const own[] = {"role", "content", "tool_call_id", "name", NULL};
    bool legacy = pal_json_string_is(pal_json_find(kept, "role"), "function");
    pal_json_begin_object(out->json);
    put_member(out, "role", pal_str_of(legacy ? "function" : "tool"));
    if (!legacy)
        put_member(out, "tool_call_id", result->call_id);
    if (result->name.len)
        put_member(out, "name", result->name);
    put_result_content(out, result);
    put_others(out, kept, own);
    pal_json_end_object(out->json);
}

/* ---- Messages ---- */

/* The place of a part in a message. */
typedef enum place { CONTENT, REASONING, REFUSAL, TOOL_CALL, FUNCTION_CALL, RESULT } place;

#define PLACES (RESULT + 1)

/* A message with its parts sorted by place. */
typedef struct sorted {
    const pal_message *message;
    pal_json kept;         /* kept members of the message */
    pal_json *part_kept;   /* kept members of each part */
    place *places;         /* place of each part */
    size_t counts[PLACES]; /* number of parts in each place */
    const pal_part *first[PLACES];
} sorted;

static place place_of(const pal_part *part, pal_json kept)
{
    pal_json type = pal_json_find(kept, "type");
    switch (part->kind) {
    case PAL_PART_REASONING:
        return REASONING;
    case PAL_PART_TOOL_RESULT:
        return RESULT;
    case PAL_PART_TOOL_CALL:
        return pal_json_string_is(type, "function_call") ? FUNCTION_CALL : TOOL_CALL;
    case PAL_PART_TEXT:
        return pal_json_string_is(type, "message_refusal") ? REFUSAL : CONTENT;
    default:
        return CONTENT;
    }
}

/* Returns false if the scratch arena failed. */
static bool sort_parts(chat_writer *out, const pal_message *message, sorted *in)
{
    size_t len = message->parts_len;
    in->message = message;
    in->kept = kept_of(out, message->extra);
    in->part_kept = pal_arena_array(out->scratch, len + 1, sizeof(*in->part_kept));
    in->places = pal_arena_array(out->scratch, len + 1, sizeof(*in->places));
    if (!in->part_kept || !in->places)
        return false;
    for (size_t i = 0; i < len; i++) {
        const pal_part *part = &message->parts[i];
        in->part_kept[i] = kept_of(out, part->extra);
        in->places[i] = place_of(part, in->part_kept[i]);
        if (in->counts[in->places[i]]++ == 0)
            in->first[in->places[i]] = part;
    }
    return true;
}

/* Returns whether the content is one text without further members. It is then written as a plain
 * string. A message without content gets an empty string. */
static bool is_plain_content(chat_writer *out, const sorted *in, pal_str *out_text)
{
    const pal_part *first = in->first[CONTENT];
    *out_text = pal_str_make(NULL, 0);
    if (!first)
        return true;
    if (in->counts[CONTENT] > 1)
        return false;
    pal_json kept = in->part_kept[first - in->message->parts];
    if (is_media(first)) {
        if (media_form_of(first, kept) != NOTHING)
            return false;
        *out_text = placeholder_of(out, first);
        return true;
    }
    *out_text = first->text;
    return !pal_json_string_is(pal_json_find(kept, "type"), "refusal") &&
            !has_others(kept, text_own);
}

static bool has_text(const sorted *in, place where)
{
    for (size_t i = 0; i < in->message->parts_len; i++) {
        if (in->places[i] == where && in->message->parts[i].text.len)
            return true;
    }
    return false;
}

/* Returns whether the message has anything besides its content. */
static bool says_other(const sorted *in)
{
    return in->message->role == PAL_ROLE_ASSISTANT &&
            (in->counts[TOOL_CALL] || in->counts[FUNCTION_CALL] || has_text(in, REASONING) ||
                    has_text(in, REFUSAL));
}

static void put_content(chat_writer *out, const sorted *in)
{
    const pal_message *message = in->message;
    pal_str text;
    pal_json_name(out->json, "content");
    if (!is_plain_content(out, in, &text)) {
        pal_json_begin_array(out->json);
        for (size_t i = 0; i < message->parts_len; i++) {
            if (in->places[i] == CONTENT)
                put_content_part(out, &message->parts[i], in->part_kept[i]);
        }
        pal_json_end_array(out->json);
    } else if (text.len == 0 && says_other(in)) {
        pal_json_put_null(out->json);
    } else {
        pal_json_put_str(out->json, text);
    }
}

/* Several texts of one place are joined, because the form has room for only one. */
static void put_joined(chat_writer *out, const sorted *in, place where, const char *name)
{
    const pal_message *message = in->message;
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    for (size_t i = 0; i < message->parts_len; i++) {
        if (in->places[i] != where || message->parts[i].text.len == 0)
            continue;
        if (text.len)
            pal_buf_append_char(&text, '\n');
        pal_buf_append_str(&text, message->parts[i].text);
    }
    if (text.failure)
        out->json->buf->failure = text.failure;
    if (text.len)
        put_member(out, name, pal_buf_str(&text));
    pal_buf_done(&text);
}

static void put_calls(chat_writer *out, const sorted *in)
{
    const pal_message *message = in->message;
    const pal_part *legacy = in->first[FUNCTION_CALL];
    if (in->counts[TOOL_CALL]) {
        pal_json_name(out->json, "tool_calls");
        pal_json_begin_array(out->json);
        for (size_t i = 0; i < message->parts_len; i++) {
            if (in->places[i] == TOOL_CALL)
                put_tool_call(out, &message->parts[i], in->part_kept[i]);
        }
        pal_json_end_array(out->json);
    }
    if (legacy) {
        pal_json_name(out->json, "function_call");
        put_call_inner(
                out, legacy, "arguments",
                pal_json_find(in->part_kept[legacy - message->parts], "function"));
    }
}

/* The form has no tool message without a result, so such a message is sent as a user message. */
static const char *role_of(const pal_message *message, pal_json kept)
{
    if (message->role == PAL_ROLE_SYSTEM &&
            pal_json_string_is(pal_json_find(kept, "role"), "developer"))
        return "developer";
    return message->role == PAL_ROLE_TOOL || (unsigned)message->role >= PAL_ROLES
            ? "user"
            : pal_role_names[message->role];
}

static void put_main(chat_writer *out, const sorted *in, pal_json kept)
{
    static const char *const own[] = {"role", "content", NULL};
    static const char *const assistant_own[] = {
            "role", "content", "reasoning_content", "refusal", "tool_calls", "function_call", NULL};
    bool is_assistant = in->message->role == PAL_ROLE_ASSISTANT;
    pal_json_begin_object(out->json);
    put_member(out, "role", pal_str_of(role_of(in->message, kept)));
    put_content(out, in);
    if (is_assistant) {
        put_joined(out, in, REASONING, "reasoning_content");
        put_joined(out, in, REFUSAL, "refusal");
        put_calls(out, in);
    }
    put_others(out, kept, is_assistant ? assistant_own : own);
    pal_json_end_object(out->json);
}

static void put_message(chat_writer *out, const pal_message *message)
{
    sorted in = {0};
    size_t results = 0;
    if (!sort_parts(out, message, &in))
        return;
    for (size_t i = 0; i < message->parts_len; i++) {
        if (in.places[i] == RESULT)
            put_result(out, &message->parts[i], results++ ? (pal_json){0} : in.kept);
    }
    bool has_more = in.counts[CONTENT] ||
            (message->role == PAL_ROLE_ASSISTANT && results < message->parts_len);
    if (results == 0 || has_more)
        put_main(out, &in, results ? (pal_json){0} : in.kept);
}

pal_status pal_openai_chat_put(pal_json_writer *writer, const pal_message *message, pal_error *err)
{
    if (message->role <= PAL_ROLE_NONE || message->role > PAL_ROLE_TOOL)
        return pal_error_set(err, PAL_INVALID, "a message has no role");
    chat_writer out = {writer, pal_arena_new(0)};
    if (!out.scratch)
        return pal_no_memory(err);
    put_message(&out, message);
    pal_status status = pal_arena_checked(out.scratch, err);
    pal_arena_free(out.scratch);
    return status;
}

pal_status pal_openai_chat_write(const pal_message *messages, size_t messages_len, pal_arena *arena,
        pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_status status = PAL_OK;
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < messages_len && status == PAL_OK; i++)
        status = pal_member_within(
                err, pal_openai_chat_put(&writer, &messages[i], err), "messages", i);
    pal_json_end_array(&writer);
    if (status == PAL_OK)
        status = pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}
