/* dialect_skillian.c - see dialect_skillian.h. If writing fails, the writer's buf has failed. */
#include "dialect/dialect_skillian.h"

#include <string.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/text.h"

#define KEY_PREFIX "skillian:"

static void put_null(pal_json_writer *writer, const char *name)
{
    pal_put_raw(writer, name, pal_str_of("null"));
}

static void put_time(pal_json_writer *writer, const char *name, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    pal_put_str(writer, name, pal_str_make(text, pal_time_to_text(ms, text)));
}

void pal_skillian_row_begin(pal_json_writer *writer, const pal_session *session)
{
    char id[PAL_ID_TEXT_SIZE];
    size_t len = strlen(KEY_PREFIX);
    pal_str key = session->key, name;
    pal_id_to_text(session->id, id);
    name = pal_str_of(id);
    if (key.len > len && pal_text_begins(key, KEY_PREFIX))
        name = pal_text_after(key, len);
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", name);
    put_time(writer, "created_at", session->created_at);
    put_time(writer, "last_accessed", session->updated_at);
    pal_json_name(writer, "conversation_data");
    pal_json_begin_object(writer);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
}

/* ---- Messages ---- */

/* Joins the texts with blank lines. */
static pal_str texts_of(const pal_part *parts, size_t parts_len, pal_arena *scratch)
{
    pal_buf buf;
    pal_str text;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    for (size_t i = 0; i < parts_len; i++) {
        bool is_text = parts[i].kind == PAL_PART_TEXT || parts[i].kind == PAL_PART_COMPACTION;
        if (is_text && buf.len && parts[i].text.len)
            pal_buf_append_text(&buf, "\n\n");
        if (is_text)
            pal_buf_append_str(&buf, parts[i].text);
    }
    text = pal_arena_copy(scratch, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

/* Writes the arguments as an object, even if the model wrote something else. */
static void put_arguments(pal_json_writer *writer, pal_str arguments, pal_arena *scratch)
{
    pal_json value = {0};
    bool is_object = arguments.len &&
            pal_json_parse(scratch, arguments, NULL, &value, NULL) == PAL_OK &&
            pal_json_type_of(value) == PAL_JSON_OBJECT;
    pal_put_raw(writer, "args", is_object ? pal_json_raw(value) : pal_str_of("{}"));
}

static void put_calls(pal_json_writer *writer, const pal_message *message, pal_arena *scratch)
{
    size_t calls = 0;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind != PAL_PART_TOOL_CALL)
            continue;
        if (calls++ == 0) {
            pal_json_name(writer, "tool_calls");
            pal_json_begin_array(writer);
        }
        pal_json_begin_object(writer);
        pal_put_str(writer, "id", part->call_id);
        pal_put_str(writer, "name", part->name);
        put_arguments(writer, part->arguments, scratch);
        pal_json_end_object(writer);
    }
    if (calls)
        pal_json_end_array(writer);
    else
        put_null(writer, "tool_calls");
}

static void put_result(pal_json_writer *writer, const pal_part *part, pal_arena *scratch)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "role", pal_str_of("tool"));
    pal_put_str(writer, "content",
            part->parts_len ? texts_of(part->parts, part->parts_len, scratch) : part->text);
    pal_put_str(writer, "tool_call_id", part->call_id);
    put_null(writer, "tool_calls");
    pal_json_end_object(writer);
}

void pal_skillian_message_put(
        pal_json_writer *writer, const pal_message *message, pal_arena *scratch)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT)
            put_result(writer, &message->parts[i], scratch);
    if (message->role == PAL_ROLE_TOOL)
        return;
    pal_json_begin_object(writer);
    pal_put_str(writer, "role", pal_str_of(pal_role_name(message->role)));
    pal_put_str(writer, "content", texts_of(message->parts, message->parts_len, scratch));
    put_null(writer, "tool_call_id");
    put_calls(writer, message, scratch);
    pal_json_end_object(writer);
}
