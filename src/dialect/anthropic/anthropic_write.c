/* anthropic_write.c - writes messages in the format of Anthropic's Messages API. Values
 * that the reader kept in `extra` under "anthropic" are written back to their place; see
 * anthropic.c.
 *
 * Consecutive messages of one role are written as one, because all results must be in one message,
 * after their calls. A cache mark is put on the last block that can have one: a block that is
 * neither thinking nor empty. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_part.h"

typedef struct block_writer {
    pal_json_writer *json;
    pal_arena *scratch; /* owns parsed JSON; its failure is checked at the end */
    bool marks_next;    /* the next block gets the cache mark */
} block_writer;

/* Writes the kept members, except those in `own`, which the block writes itself. */
static void put_others(block_writer *out, pal_json object, const char *const *own)
{
    static const char *const never[] = {"type", "cache_control", NULL};
    pal_member_put_others(out->json, object, own, never, out->scratch);
}

static void put_member(block_writer *out, const char *name, pal_str text)
{
    pal_put_str(out->json, name, text);
}

static void begin_block(block_writer *out, const char *type)
{
    pal_json_begin_object(out->json);
    put_member(out, "type", pal_str_of(type));
}

static void end_block(block_writer *out)
{
    if (out->marks_next) {
        pal_put_raw(out->json, "cache_control", pal_str_of("{\"type\":\"ephemeral\"}"));
        out->marks_next = false;
    }
    pal_json_end_object(out->json);
}

/* ---- Text and thinking ---- */

static void put_text(block_writer *out, pal_str text, pal_json kept)
{
    static const char *const own[] = {"text", NULL};
    begin_block(out, "text");
    put_member(out, "text", text);
    put_others(out, kept, own);
    end_block(out);
}

/* Returns whether the signature is a complete block, which some blocks are kept as. */
static bool is_block(block_writer *out, pal_str signature)
{
    pal_json value;
    return signature.len && signature.data[0] == '{' &&
            pal_json_parse(out->scratch, signature, NULL, &value, NULL) == PAL_OK;
}

static void put_reasoning(block_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const redacted_own[] = {"data", NULL};
    static const char *const own[] = {"thinking", "signature", NULL};
    bool is_redacted = pal_json_string_is(pal_json_find(kept, "type"), "redacted_thinking");
    if (!is_redacted && is_block(out, part->signature)) {
        pal_json_put_raw(out->json, part->signature);
        return;
    }
    begin_block(out, is_redacted ? "redacted_thinking" : "thinking");
    if (is_redacted) {
        put_member(out, "data", part->signature);
    } else {
        put_member(out, "thinking", part->text);
        put_member(out, "signature", part->signature);
    }
    put_others(out, kept, is_redacted ? redacted_own : own);
    pal_json_end_object(out->json);
}

/* ---- Media ---- */

static void put_placeholder(block_writer *out, const pal_part *part)
{
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    pal_part_placeholder(&text, part);
    if (text.failure)
        out->json->buf->failure = text.failure;
    put_text(out, pal_buf_str(&text), (pal_json){0});
    pal_buf_done(&text);
}

/* Text is written as text, because JSON cannot contain other bytes. */
static bool is_plain_text(const pal_part *part)
{
    return part->kind == PAL_PART_FILE && pal_str_is(part->media_type, "text/plain");
}

/* Returns whether the service accepts bytes of this type. */
static bool has_data(const pal_part *part)
{
    return part->data.len &&
            (part->kind == PAL_PART_IMAGE || is_plain_text(part) ||
                    pal_str_is(part->media_type, "application/pdf"));
}

static void put_source(block_writer *out, const pal_part *part)
{
    const char *type = !has_data(part) ? "url" : is_plain_text(part) ? "text" : "base64";
    pal_json_name(out->json, "source");
    pal_json_begin_object(out->json);
    put_member(out, "type", pal_str_of(type));
    if (!has_data(part)) {
        put_member(out, "url", part->url);
    } else {
        put_member(out, "media_type", part->media_type);
        pal_json_name(out->json, "data");
        if (is_plain_text(part))
            pal_json_put_str(out->json, part->data);
        else
            pal_base64_put(out->json, pal_str_make(NULL, 0), part->data);
    }
    pal_json_end_object(out->json);
}

static void put_media(block_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"source", "title", NULL};
    static const char *const image_own[] = {"source", NULL};
    bool is_image = part->kind == PAL_PART_IMAGE;
    if (!has_data(part) && part->url.len == 0) {
        put_placeholder(out, part);
        return;
    }
    begin_block(out, is_image ? "image" : "document");
    put_source(out, part);
    if (part->name.len && !is_image)
        put_member(out, "title", part->name);
    put_others(out, kept, is_image ? image_own : own);
    end_block(out);
}

/* A block of an unknown type is kept completely. */
static bool is_unknown(const pal_part *part, pal_json kept)
{
    return part->kind == PAL_PART_FILE && !part->url.len && !part->data.len && !part->blob.len &&
            pal_json_type_of(pal_json_find(kept, "type")) == PAL_JSON_STRING;
}

static void put_unknown(block_writer *out, pal_json kept)
{
    pal_json_begin_object(out->json);
    pal_put_raw(out->json, "type", pal_json_raw(pal_json_find(kept, "type")));
    put_others(out, kept, NULL);
    end_block(out);
}

/* ---- Tools ---- */

static void put_call(block_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"id", "name", "input", NULL};
    pal_json input = {0};
    begin_block(out, "tool_use");
    put_member(out, "id", part->call_id);
    put_member(out, "name", part->name);
    pal_json_name(out->json, "input");
    bool is_json = pal_json_parse(out->scratch, part->arguments, NULL, &input, NULL) == PAL_OK;
    if (is_json && pal_json_type_of(input) == PAL_JSON_OBJECT) {
        pal_json_put_raw(out->json, part->arguments);
    } else {
        pal_json_begin_object(out->json);
        if (part->arguments.len)
            put_member(out, "arguments", part->arguments);
        pal_json_end_object(out->json);
    }
    put_others(out, kept, own);
    end_block(out);
}

static void put_part(block_writer *out, const pal_part *part);

static void put_result(block_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"tool_use_id", "content", "is_error", NULL};
    bool marks_this = out->marks_next;
    out->marks_next = false;
    begin_block(out, "tool_result");
    put_member(out, "tool_use_id", part->call_id);
    pal_json_name(out->json, "content");
    if (part->parts_len == 0) {
        pal_json_put_str(out->json, part->text);
    } else {
        pal_json_begin_array(out->json);
        if (part->text.len)
            put_text(out, part->text, (pal_json){0});
        for (size_t i = 0; i < part->parts_len; i++)
            put_part(out, &part->parts[i]);
        pal_json_end_array(out->json);
    }
    if (part->is_error) {
        pal_put_flag(out->json, "is_error", true);
    }
    put_others(out, kept, own);
    out->marks_next = marks_this;
    end_block(out);
}

static void put_part(block_writer *out, const pal_part *part)
{
    pal_json kept = pal_member_kept(part->extra, PAL_ANTHROPIC_FAMILY, out->scratch);
    if (part->kind == PAL_PART_REASONING)
        put_reasoning(out, part, kept);
    else if (part->kind == PAL_PART_TOOL_CALL)
        put_call(out, part, kept);
    else if (part->kind == PAL_PART_TOOL_RESULT)
        put_result(out, part, kept);
    else if (is_unknown(part, kept))
        put_unknown(out, kept);
    else if (part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE)
        put_media(out, part, kept);
    else
        put_text(out, part->text, kept);
}

/* ---- Messages ---- */

static bool may_be_marked(const pal_part *part)
{
    bool is_text = part->kind == PAL_PART_TEXT || part->kind == PAL_PART_COMPACTION;
    return part->kind != PAL_PART_REASONING && !(is_text && part->text.len == 0);
}

/* Returns the index of the last part that can have a cache mark, or parts_len if there is none. */
static size_t mark_of(const pal_message *message)
{
    for (size_t i = message->parts_len; i > 0; i--) {
        if (may_be_marked(&message->parts[i - 1]))
            return i - 1;
    }
    return message->parts_len;
}

static void put_parts(block_writer *out, const pal_message *message, bool is_marked)
{
    size_t mark = is_marked ? mark_of(message) : message->parts_len;
    for (size_t i = 0; i < message->parts_len; i++) {
        out->marks_next = i == mark;
        put_part(out, &message->parts[i]);
    }
    out->marks_next = false;
}

static size_t system_len(const pal_message *messages, size_t messages_len)
{
    size_t len = 0;
    while (len < messages_len && messages[len].role == PAL_ROLE_SYSTEM)
        len++;
    return len;
}

bool pal_anthropic_has_system(const pal_message *messages, size_t messages_len)
{
    for (size_t i = 0, len = system_len(messages, messages_len); i < len; i++) {
        if (messages[i].parts_len)
            return true;
    }
    return false;
}

static void put_system(block_writer *out, const pal_message *messages, size_t messages_len,
        const pal_anthropic_marks *marks)
{
    size_t len = system_len(messages, messages_len);
    pal_json_begin_array(out->json);
    for (size_t i = 0; i < len; i++)
        put_parts(out, &messages[i], marks && marks->system && i + 1 == len);
    pal_json_end_array(out->json);
}

static bool is_assistant(const pal_message *message)
{
    return message->role == PAL_ROLE_ASSISTANT;
}

static void put_messages(block_writer *out, const pal_message *messages, size_t messages_len,
        const pal_anthropic_marks *marks)
{
    size_t first = system_len(messages, messages_len);
    pal_json_begin_array(out->json);
    for (size_t i = first; i < messages_len; i++) {
        bool is_marked =
                marks && ((marks->last && i + 1 == messages_len) || i + 1 == marks->stable_len);
        if (i == first || is_assistant(&messages[i]) != is_assistant(&messages[i - 1])) {
            pal_json_begin_object(out->json);
            put_member(out, "role", pal_str_of(is_assistant(&messages[i]) ? "assistant" : "user"));
            pal_json_name(out->json, "content");
            pal_json_begin_array(out->json);
        }
        put_parts(out, &messages[i], is_marked);
        if (i + 1 == messages_len || is_assistant(&messages[i]) != is_assistant(&messages[i + 1])) {
            pal_json_end_array(out->json);
            pal_json_end_object(out->json);
        }
    }
    pal_json_end_array(out->json);
}

typedef void (*putter)(block_writer *out, const pal_message *messages, size_t messages_len,
        const pal_anthropic_marks *marks);

static pal_status put_with(putter put, pal_json_writer *writer, const pal_message *messages,
        size_t messages_len, const pal_anthropic_marks *marks, pal_error *err)
{
    block_writer out = {.json = writer, .scratch = pal_arena_new(0)};
    if (!out.scratch)
        return pal_no_memory(err);
    put(&out, messages, messages_len, marks);
    pal_status status = pal_arena_checked(out.scratch, err);
    pal_arena_free(out.scratch);
    return status;
}

pal_status pal_anthropic_put_system(pal_json_writer *writer, const pal_message *messages,
        size_t messages_len, const pal_anthropic_marks *marks, pal_error *err)
{
    return put_with(put_system, writer, messages, messages_len, marks, err);
}

pal_status pal_anthropic_put_messages(pal_json_writer *writer, const pal_message *messages,
        size_t messages_len, const pal_anthropic_marks *marks, pal_error *err)
{
    return put_with(put_messages, writer, messages, messages_len, marks, err);
}

pal_status pal_anthropic_write(const pal_message *messages, size_t messages_len, pal_arena *arena,
        pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_status status = PAL_OK;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    if (pal_anthropic_has_system(messages, messages_len)) {
        pal_json_name(&writer, "system");
        status = pal_anthropic_put_system(&writer, messages, messages_len, NULL, err);
    }
    if (status == PAL_OK) {
        pal_json_name(&writer, "messages");
        status = pal_anthropic_put_messages(&writer, messages, messages_len, NULL, err);
    }
    if (status == PAL_OK) {
        pal_json_end_object(&writer);
        status = pal_member_keep(&buf, arena, out_json, err);
    }
    pal_buf_done(&buf);
    return status;
}
