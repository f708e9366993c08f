/* mistral_entries.c - writes messages as entries of Mistral's Conversations.
 *
 * An entry has one kind of content, so a message becomes several entries: one for each run of text
 * and media, and one for each call and each result, in their order. */
#include "dialect/mistral/mistral_entries.h"

#include "dialect/dialect_base64.h"
#include "dialect/mistral/mistral_entries_part.h"

/* ---- Content ---- */

static void put_url(pal_json_writer *writer, const pal_part *part)
{
    pal_buf prefix;
    if (part->data.len == 0) {
        pal_json_put_str(writer, part->url);
        return;
    }
    pal_buf_init(&prefix, 1000 + part->media_type.len);
    pal_buf_append_text(&prefix, "data:");
    pal_buf_append_str(&prefix, part->media_type);
    pal_buf_append_text(&prefix, ";base64,");
    if (prefix.failure)
        writer->buf->failure = prefix.failure;
    pal_base64_put(writer, pal_buf_str(&prefix), part->data);
    pal_buf_done(&prefix);
}

void pal_mistral_put_thinking(pal_json_writer *writer, pal_str text)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "type", pal_str_of("thinking"));
    pal_json_name(writer, "thinking");
    pal_json_begin_array(writer);
    pal_json_begin_object(writer);
    pal_put_str(writer, "type", pal_str_of("text"));
    pal_put_str(writer, "text", text);
    pal_json_end_object(writer);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
}

void pal_entries_put_chunk(pal_json_writer *writer, const pal_part *part)
{
    bool is_image = part->kind == PAL_PART_IMAGE;
    bool can_be_sent = pal_entries_is_media(part) && (part->url.len || part->data.len);
    const char *type = !can_be_sent ? "text" : is_image ? "image_url" : "document_url";
    if (part->kind == PAL_PART_REASONING) {
        pal_mistral_put_thinking(writer, part->text);
        return;
    }
    pal_json_begin_object(writer);
    pal_put_str(writer, "type", pal_str_of(type));
    if (can_be_sent) {
        pal_json_name(writer, type);
        put_url(writer, part);
    } else if (pal_entries_is_media(part)) {
        pal_put_str(writer, "text", pal_str_of(is_image ? "[image]" : "[file]"));
    } else {
        pal_put_str(writer, "text", part->text);
    }
    if (can_be_sent && !is_image && part->name.len)
        pal_put_str(writer, "document_name", part->name);
    pal_json_end_object(writer);
}

static void put_content(pal_json_writer *writer, const pal_part *parts, size_t len)
{
    pal_json_name(writer, "content");
    if (len == 1 && !pal_entries_is_media(parts)) {
        pal_json_put_str(writer, parts->text);
        return;
    }
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++)
        pal_entries_put_chunk(writer, &parts[i]);
    pal_json_end_array(writer);
}

static void put_said(pal_json_writer *writer, pal_role role, const pal_part *parts, size_t len)
{
    bool is_assistant = role == PAL_ROLE_ASSISTANT;
    pal_entries_begin(writer, is_assistant ? "message.output" : "message.input");
    pal_put_str(writer, "role", pal_str_of(is_assistant ? "assistant" : "user"));
    put_content(writer, parts, len);
    pal_json_end_object(writer);
}

/* ---- Tools ---- */

void pal_entries_put_call(pal_json_writer *writer, const pal_part *part)
{
    pal_put_str(writer, "tool_call_id", part->call_id);
    pal_put_str(writer, "name", part->name);
    pal_put_str(
            writer, "arguments", part->arguments.len ? part->arguments : pal_str_of("{}"));
}

static void put_call(pal_json_writer *writer, const pal_part *part)
{
    pal_entries_begin(writer, "function.call");
    pal_entries_put_call(writer, part);
    pal_json_end_object(writer);
}

void pal_entries_put_output(pal_json_writer *writer, const pal_part *part)
{
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    pal_buf_append_str(&text, part->text);
    for (size_t i = 0; i < part->parts_len; i++) {
        const pal_part *inner = &part->parts[i];
        if (text.len)
            pal_buf_append_char(&text, '\n');
        if (pal_entries_is_media(inner))
            pal_buf_append_text(&text, inner->kind == PAL_PART_IMAGE ? "[image]" : "[file]");
        else
            pal_buf_append_str(&text, inner->text);
    }
    if (text.failure)
        writer->buf->failure = text.failure;
    pal_json_put_str(writer, pal_buf_str(&text));
    pal_buf_done(&text);
}

static void put_result(pal_json_writer *writer, const pal_part *part)
{
    pal_entries_begin(writer, "function.result");
    pal_put_str(writer, "tool_call_id", part->call_id);
    pal_json_name(writer, "result");
    pal_entries_put_output(writer, part);
    pal_json_end_object(writer);
}

void pal_mistral_entries_put(pal_json_writer *writer, const pal_message *message)
{
    const pal_part *parts = message->parts;
    if (message->role == PAL_ROLE_SYSTEM)
        return;
    for (size_t i = 0; i < message->parts_len;) {
        size_t run = 0;
        while (i + run < message->parts_len && pal_entries_is_content(&parts[i + run]))
            run++;
        if (run)
            put_said(writer, message->role, parts + i, run);
        else if (parts[i].kind == PAL_PART_TOOL_CALL)
            put_call(writer, &parts[i]);
        else if (parts[i].kind == PAL_PART_TOOL_RESULT)
            put_result(writer, &parts[i]);
        i += run ? run : 1;
    }
}

void pal_mistral_instructions(pal_buf *out, const pal_message *messages, size_t messages_len)
{
    for (size_t i = 0; i < messages_len && messages[i].role == PAL_ROLE_SYSTEM; i++) {
        for (size_t at = 0; at < messages[i].parts_len; at++) {
            pal_str text = messages[i].parts[at].text;
            if (text.len && out->len)
                pal_buf_append_text(out, "\n\n");
            pal_buf_append_str(out, text);
        }
    }
}
