/* transcript_native.c - reads lines of our own export and of OpenAI's format, and writes
 * our own export.
 *
 * The export is {"palaver":"session","version":1,"session":{...}}, then one line for each message,
 * then one line {"palaver":"mark","mark":{...}} for each mark. A file can contain several sessions,
 * one after the other. */
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat.h"
#include "dialect/transcript/transcript_reader.h"

/* ---- Reading ---- */

static void read_session(pal_transcript *in, pal_json line)
{
    uint64_t version = 0;
    pal_session session;
    pal_error error;
    pal_json value = pal_json_find(line, "session");
    if (pal_json_u64(pal_json_find(line, "version"), &version) && version > PAL_TRANSCRIPT_VERSION)
        pal_transcript_warn(in, "the file has format version %llu; version %d is supported",
                (unsigned long long)version, PAL_TRANSCRIPT_VERSION);
    pal_transcript_start_session(in);
    /* The session is read from a copy, because it outlives the line. */
    pal_status status = pal_session_from_json(pal_json_raw(value), in->kept, &session, &error);
    if (status == PAL_OK)
        in->facts.session = session;
    else if (status != PAL_NO_MEMORY)
        pal_transcript_warn(in, "the session's metadata is skipped: %s", error.message);
    pal_transcript_tell_session(in);
}

static void read_mark(pal_transcript *in, pal_json line)
{
    pal_mark mark;
    pal_error error;
    pal_status status =
            pal_native_mark_read(pal_json_find(line, "mark"), in->line_arena, &mark, &error);
    if (status == PAL_OK)
        pal_transcript_emit_mark(in, &mark);
    else if (status != PAL_NO_MEMORY)
        pal_transcript_warn(in, "skipped: %s", error.message);
}

static void read_message(pal_transcript *in, pal_json line)
{
    pal_message message;
    pal_error error;
    pal_status status = pal_native_message_read(line, in->line_arena, &message, &error);
    if (status == PAL_OK)
        pal_transcript_emit(in, &message);
    else if (status != PAL_NO_MEMORY)
        pal_transcript_warn(in, "skipped: %s", error.message);
}

void pal_transcript_native_read(pal_transcript *in, pal_json line)
{
    pal_json type = pal_json_find(line, "palaver");
    /* A message may have an extra member "palaver", but it always has a role. */
    if (pal_json_type_of(type) == PAL_JSON_NONE ||
            pal_json_type_of(pal_json_find(line, "role")) != PAL_JSON_NONE)
        read_message(in, line);
    else if (pal_json_string_is(type, "session"))
        read_session(in, line);
    else if (pal_json_string_is(type, "mark"))
        read_mark(in, line);
    else
        pal_transcript_warn(in, "skipped: a record of unknown type");
}

/* The format has no ids. An id is made from the line number and the message's index in the line. */
static void identify(pal_transcript *in, pal_message *message, size_t index, size_t len)
{
    message->client_id = pal_transcript_number_id(in->line_arena, "line", in->line);
    if (len < 2)
        return;
    char place[32];
    snprintf(place, sizeof(place), ".%zu", index + 1);
    message->client_id = pal_transcript_suffix(in->line_arena, message->client_id, place);
}

/* Returns whether OpenAI's form has nothing of the message, although the message has content. */
static bool is_empty(const pal_message *message, pal_json *out_kept, pal_arena *arena)
{
    *out_kept = pal_member_kept(message->extra, "openai", arena);
    return message->parts_len == 0 && pal_json_count(*out_kept) > 0;
}

/* Reports content that models will not see, so that no content is lost silently. Returns false if
 * the message is skipped. */
static bool tell_unknown(pal_transcript *in, const pal_message *message)
{
    pal_json kept, name, value;
    pal_transcript_tell_opaque(in, message->parts, message->parts_len);
    if (!is_empty(message, &kept, in->line_arena))
        return true;
    pal_json_iter iter = pal_json_each(kept);
    bool has_name = pal_json_next(&iter, &name, &value);
    pal_str text = has_name ? pal_json_string(name, in->line_arena) : pal_str_of("");
    pal_transcript_warn(in, "skipped: the message has no 'content', and '%.*s' is unknown",
            PAL_EXCERPT(text, 60));
    return false;
}

void pal_transcript_openai_read(pal_transcript *in, pal_json line)
{
    pal_message *messages;
    size_t len;
    pal_error error;
    pal_status status;
    /* The first lines of such a file may look like our format. */
    if (pal_transcript_is_go_session(line)) {
        pal_transcript_go_session_read(in, line);
        return;
    }
    status = pal_openai_chat_read(line, in->line_arena, &messages, &len, &error);
    if (status != PAL_OK) {
        if (status != PAL_NO_MEMORY)
            pal_transcript_warn(in, "skipped: %s", error.message);
        return;
    }
    if (pal_json_type_of(pal_json_find(line, "messages")) != PAL_JSON_NONE)
        pal_transcript_start_session(in);
    for (size_t i = 0; i < len; i++) {
        identify(in, &messages[i], i, len);
        if (tell_unknown(in, &messages[i]))
            pal_transcript_emit(in, &messages[i]);
    }
}

/* ---- Writing ---- */

/* Members that were kept byte for byte may contain line breaks between their tokens; JSON strings
 * cannot contain them. A line must not contain line breaks. */
static pal_status end_line(pal_buf *buf, size_t start, pal_status status, pal_error *err)
{
    if (status != PAL_OK || buf->failure) {
        if (buf->len > start)
            buf->len = start; /* an incomplete line would damage the next one */
        return status != PAL_OK ? status : pal_error_set(err, buf->failure, "the line is too long");
    }
    for (size_t i = start; i < buf->len; i++) {
        if (buf->data[i] == '\n' || buf->data[i] == '\r')
            buf->data[i] = ' ';
    }
    pal_buf_append_char(buf, '\n');
    return buf->failure ? pal_error_set(err, buf->failure, "the line is too long") : PAL_OK;
}

pal_status pal_transcript_write_session(pal_buf *buf, const pal_session *session, pal_error *err)
{
    size_t start = buf->len;
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "palaver", "session");
    pal_put_count(&writer, "version", PAL_TRANSCRIPT_VERSION);
    pal_json_name(&writer, "session");
    pal_status status = pal_native_session_put(&writer, session, err);
    if (status == PAL_OK)
        pal_json_end_object(&writer);
    return end_line(buf, start, status, err);
}

pal_status pal_transcript_write_message(pal_buf *buf, const pal_message *message, pal_error *err)
{
    size_t start = buf->len;
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_status status = pal_native_message_put(&writer, message, err);
    return end_line(buf, start, status, err);
}

pal_status pal_transcript_write_mark(pal_buf *buf, const pal_mark *mark, pal_error *err)
{
    size_t start = buf->len;
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "palaver", "mark");
    pal_json_name(&writer, "mark");
    pal_status status = pal_native_mark_put(&writer, mark, err);
    if (status == PAL_OK)
        pal_json_end_object(&writer);
    return end_line(buf, start, status, err);
}
