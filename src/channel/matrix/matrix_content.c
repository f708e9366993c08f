/* matrix_content.c - the contents of events. The rules of the specification that matter here:
 *
 *   - An edit has the complete new content in m.new_content, with its format. Its own body is for
 *     clients that do not know edits. Relations of the edited event stay; the edit has only
 *     m.replace.
 *   - A message in a thread names the root, and for clients without threads the newest event.
 *   - "@room" in a body notified everybody before m.mentions existed, and some clients still show
 *     it as a mention. A word joiner between '@' and "room" prevents that. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "channel/matrix/matrix_content.h"
#include "channel/matrix/matrix_event.h"

#define HTML_FORMAT "org.matrix.custom.html"
#define WORD_JOINER "\xe2\x81\xa0"
#define CONTENT_BYTES_MAX (1u << 20)

static const char *const type_names[] = {
        [PAL_MATRIX_TEXT] = "m.text",
        [PAL_MATRIX_NOTICE] = "m.notice",
        [PAL_MATRIX_IMAGE] = "m.image",
        [PAL_MATRIX_FILE] = "m.file",
        [PAL_MATRIX_AUDIO] = "m.audio",
        [PAL_MATRIX_VIDEO] = "m.video",
};

static void put_quiet(pal_json_writer *json, const char *name, const char *before, pal_str text)
{
    static const char word[] = "@room";
    const size_t len = sizeof word - 1;
    pal_buf quiet;

    pal_buf_init(&quiet, CONTENT_BYTES_MAX);
    pal_buf_append_text(&quiet, before);
    while (text.len) {
        const char *found = memmem(text.data, text.len, word, len);
        size_t plain = found ? (size_t)(found - text.data) : text.len;
        pal_buf_append(&quiet, text.data, plain);
        text = pal_text_after(text, plain);
        if (found) {
            pal_buf_append_text(&quiet, "@" WORD_JOINER "room");
            text = pal_text_after(text, len);
        }
    }
    pal_put_str(json, name, pal_buf_str(&quiet));
    if (quiet.failure && !json->buf->failure)
        json->buf->failure = quiet.failure;
    pal_buf_done(&quiet);
}

static void put_mentions(pal_json_writer *json, const pal_matrix_message *message)
{
    pal_json_name(json, "m.mentions");
    pal_json_begin_object(json);
    if (message->mentions_len) {
        pal_json_name(json, "user_ids");
        pal_json_begin_array(json);
        for (size_t i = 0; i < message->mentions_len; i++)
            pal_json_put_str(json, message->mentions[i]);
        pal_json_end_array(json);
    }
    pal_json_end_object(json);
}

static void put_media(pal_json_writer *json, const pal_matrix_message *message)
{
    pal_put_str(json, "url", message->url);
    pal_put_str_if(json, "filename", message->text);
    pal_json_name(json, "info");
    pal_json_begin_object(json);
    pal_put_str_if(json, "mimetype", message->media_type);
    if (message->bytes)
        pal_put_count(json, "size", message->bytes);
    if (message->width && message->height) {
        pal_put_count(json, "w", message->width);
        pal_put_count(json, "h", message->height);
    }
    pal_json_end_object(json);
}

/* What an edit replaces, and what a message begins with. */
static void put_body(
        pal_json_writer *json, const pal_matrix_message *message, const char *before)
{
    pal_put_text(json, "msgtype", type_names[message->type]);
    put_quiet(json, "body", before, message->text);
    if (message->html.len) {
        pal_put_text(json, "format", HTML_FORMAT);
        put_quiet(json, "formatted_body", before, message->html);
    }
    if (message->url.len)
        put_media(json, message);
}

static void put_reply(pal_json_writer *json, pal_str event)
{
    pal_json_name(json, "m.in_reply_to");
    pal_json_begin_object(json);
    pal_put_str(json, "event_id", event);
    pal_json_end_object(json);
}

static void put_relations(pal_json_writer *json, const pal_matrix_message *message)
{
    if (!message->edits.len && !message->thread.len && !message->reply_to.len)
        return;
    pal_json_name(json, "m.relates_to");
    pal_json_begin_object(json);
    if (message->edits.len) {
        pal_put_text(json, "rel_type", "m.replace");
        pal_put_str(json, "event_id", message->edits);
    } else {
        if (message->thread.len) {
            pal_put_text(json, "rel_type", "m.thread");
            pal_put_str(json, "event_id", message->thread);
            pal_put_flag(json, "is_falling_back", message->is_fallback);
        }
        if (message->reply_to.len)
            put_reply(json, message->reply_to);
    }
    pal_json_end_object(json);
}

void pal_matrix_content_message(const pal_matrix_message *message, pal_buf *out)
{
    pal_json_writer json = pal_json_writer_make(out);

    pal_json_begin_object(&json);
    put_body(&json, message, message->edits.len ? "* " : "");
    if (message->edits.len) {
        /* Nobody is mentioned a second time. */
        pal_put_raw(&json, "m.mentions", pal_str_of("{}"));
        pal_json_name(&json, "m.new_content");
        pal_json_begin_object(&json);
        put_body(&json, message, "");
        put_mentions(&json, message);
        pal_json_end_object(&json);
    } else {
        put_mentions(&json, message);
    }
    put_relations(&json, message);
    pal_put_str_if(&json, PAL_MATRIX_MARKER, message->marker);
    pal_json_end_object(&json);
}

void pal_matrix_content_reaction(pal_str target, pal_str key, pal_str marker, pal_buf *out)
{
    pal_json_writer json = pal_json_writer_make(out);

    pal_json_begin_object(&json);
    pal_json_name(&json, "m.relates_to");
    pal_json_begin_object(&json);
    pal_put_text(&json, "rel_type", "m.annotation");
    pal_put_str(&json, "event_id", target);
    pal_put_str(&json, "key", key);
    pal_json_end_object(&json);
    pal_put_str_if(&json, PAL_MATRIX_MARKER, marker);
    pal_json_end_object(&json);
}

void pal_matrix_content_redaction(pal_str reason, pal_str marker, pal_buf *out)
{
    pal_json_writer json = pal_json_writer_make(out);

    pal_json_begin_object(&json);
    pal_put_str_if(&json, "reason", reason);
    pal_put_str_if(&json, PAL_MATRIX_MARKER, marker);
    pal_json_end_object(&json);
}
