/* transfer_export_agent.c - exports for other programs and for people: transcripts that Claude Code
 * and Codex continue, and Markdown. They contain the visible messages. The transcripts have no
 * instructions, because the programs add their own, and no reasoning of other services, which the
 * program's service could not read. */
#include "transfer/transfer_export_agent.h"

#include <string.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_base64.h"

/* Programs expect a version; these wrote transcripts of this form. */
#define CLAUDE_CODE_VERSION "2.1.326"
#define CODEX_VERSION "0.166.0"

static pal_json_writer begin_line(pal_buf *out)
{
    pal_json_writer writer = pal_json_writer_make(out);
    pal_json_begin_object(&writer);
    return writer;
}

static void end_line(pal_json_writer *writer)
{
    pal_json_end_object(writer);
    pal_buf_append_char(writer->buf, '\n');
}

static void put_time(pal_json_writer *writer, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    size_t len = pal_time_to_text(ms, text);
    pal_put_str(writer, "timestamp", pal_str_make(text, len));
}

/* The directory in which the conversation took place. */
static pal_str directory_of(const pal_export *export)
{
    pal_str project = export->project;
    return project.len && project.data[0] == '/' ? project : export->cwd;
}

/* The output of a tool as one text; `arena` keeps it. */
static pal_str output_of(const pal_part *result, pal_arena *arena)
{
    pal_buf text;
    if (!result->parts_len)
        return result->text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    pal_buf_append_str(&text, result->text);
    for (size_t i = 0; i < result->parts_len; i++) {
        const pal_part *part = &result->parts[i];
        pal_buf_append_text(&text, text.len ? "\n" : "");
        if (part->kind == PAL_PART_TEXT)
            pal_buf_append_str(&text, part->text);
        else
            pal_buf_format(&text, "[%s]", pal_part_kind_name(part->kind));
    }
    pal_str copy = pal_arena_copy(arena, pal_buf_str(&text));
    pal_buf_done(&text);
    return copy;
}

/* ---- Claude Code ---- */

/* Only reasoning with a signature of Anthropic can be sent to its service again. */
static bool is_kept(const pal_part *part)
{
    return part->kind != PAL_PART_REASONING ||
            (part->signature.len && pal_str_is(part->family, PAL_ANTHROPIC_FAMILY));
}

/* Writes the content blocks of the message. */
static pal_status put_blocks(
        pal_json_writer *writer, const pal_message *message, pal_arena *arena, pal_error *err)
{
    pal_buf list;
    pal_json value, first;
    pal_buf_init(&list, PAL_JSON_BYTES_MAX);
    pal_json_writer inner = pal_json_writer_make(&list);
    pal_status status = pal_anthropic_put_messages(&inner, message, 1, NULL, err);
    if (status == PAL_OK && list.failure)
        status = pal_no_memory(err);
    if (status == PAL_OK)
        status = pal_json_parse(arena, pal_buf_str(&list), NULL, &value, err);
    if (status == PAL_OK) {
        pal_json_iter iter = pal_json_each(value);
        bool has = pal_json_next(&iter, NULL, &first);
        pal_put_raw(writer, "content",
                has ? pal_json_raw(pal_json_find(first, "content")) : pal_str_of("[]"));
    }
    pal_buf_done(&list);
    return status;
}

static void put_usage(pal_json_writer *writer, const pal_usage *usage)
{
    pal_json_name(writer, "usage");
    pal_json_begin_object(writer);
    pal_put_count(writer, "input_tokens", usage->input);
    pal_put_count(writer, "cache_creation_input_tokens", usage->cache_write);
    pal_put_count(writer, "cache_read_input_tokens", usage->cache_read);
    pal_put_count(writer, "output_tokens", usage->output);
    pal_json_end_object(writer);
}

static bool has_calls(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TOOL_CALL)
            return true;
    }
    return false;
}

static pal_status put_claude_message(
        pal_json_writer *writer, const pal_message *message, pal_arena *arena, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE + 4] = "msg_";
    bool is_answer = message->role == PAL_ROLE_ASSISTANT;
    pal_json_name(writer, "message");
    pal_json_begin_object(writer);
    if (is_answer) {
        pal_id_to_text(message->id, id + 4);
        pal_put_text(writer, "id", id);
        pal_put_text(writer, "type", "message");
        pal_put_str(writer, "model", message->model.len ? message->model : pal_str_of("unknown"));
        pal_put_text(writer, "stop_reason", has_calls(message) ? "tool_use" : "end_turn");
        pal_put_null(writer, "stop_sequence");
        put_usage(writer, &message->usage);
    }
    pal_put_text(writer, "role", is_answer ? "assistant" : "user");
    pal_status status = put_blocks(writer, message, arena, err);
    pal_json_end_object(writer);
    return status;
}

static pal_status export_claude_message(
        pal_export *export, const pal_message *given, pal_buf *out, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE], session[PAL_ID_TEXT_SIZE];
    pal_message message = *given;
    size_t len = 0;
    message.parts = pal_arena_array(export->page_arena, given->parts_len + 1, sizeof(pal_part));
    if (!message.parts)
        return pal_no_memory(err);
    for (size_t i = 0; i < given->parts_len; i++) {
        if (is_kept(&given->parts[i]))
            message.parts[len++] = given->parts[i];
    }
    message.parts_len = len;
    if (len == 0)
        return PAL_OK;
    pal_id_to_text(given->id, id);
    pal_id_to_text(export->session, session);
    pal_json_writer writer = begin_line(out);
    if (export->parent[0])
        pal_put_text(&writer, "parentUuid", export->parent);
    else
        pal_put_null(&writer, "parentUuid");
    pal_put_flag(&writer, "isSidechain", false);
    pal_put_text(&writer, "userType", "external");
    pal_put_str(&writer, "cwd", directory_of(export));
    pal_put_text(&writer, "sessionId", session);
    pal_put_text(&writer, "version", CLAUDE_CODE_VERSION);
    pal_put_text(&writer, "gitBranch", "");
    pal_put_text(&writer, "type", given->role == PAL_ROLE_ASSISTANT ? "assistant" : "user");
    pal_status status = put_claude_message(&writer, &message, export->page_arena, err);
    pal_put_text(&writer, "uuid", id);
    put_time(&writer, given->created_at);
    end_line(&writer);
    memcpy(export->parent, id, sizeof id);
    return status;
}

/* ---- Codex ---- */

static pal_json_writer begin_record(pal_buf *out, const char *type, int64_t ms)
{
    pal_json_writer writer = begin_line(out);
    put_time(&writer, ms);
    pal_put_text(&writer, "type", type);
    pal_json_name(&writer, "payload");
    pal_json_begin_object(&writer);
    return writer;
}

static void end_record(pal_json_writer *writer)
{
    pal_json_end_object(writer);
    end_line(writer);
}

static void begin_codex(const pal_export *export, const pal_session *session, pal_buf *out)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(session->id, id);
    pal_json_writer writer = begin_record(out, "session_meta", session->created_at);
    pal_put_text(&writer, "id", id);
    put_time(&writer, session->created_at);
    pal_put_str(&writer, "cwd", directory_of(export));
    pal_put_text(&writer, "originator", "codex_cli_rs");
    pal_put_text(&writer, "cli_version", CODEX_VERSION);
    pal_put_text(&writer, "source", "cli");
    end_record(&writer);
}

/* The terminal of Codex shows these; the model gets the items. */
static void put_codex_event(pal_buf *out, const pal_message *message, pal_str text)
{
    pal_json_writer writer = begin_record(out, "event_msg", message->created_at);
    bool is_answer = message->role == PAL_ROLE_ASSISTANT;
    pal_put_text(&writer, "type", is_answer ? "agent_message" : "user_message");
    pal_put_str(&writer, "message", text);
    end_record(&writer);
}

static void put_codex_content(pal_json_writer *writer, const pal_part *part, bool is_answer)
{
    pal_json_begin_object(writer);
    if (part->kind == PAL_PART_IMAGE && part->data.len) {
        pal_buf prefix;
        pal_buf_init(&prefix, 1024);
        pal_buf_append_text(&prefix, "data:");
        pal_buf_append_str(&prefix, part->media_type);
        pal_buf_append_text(&prefix, ";base64,");
        pal_put_text(writer, "type", "input_image");
        pal_json_name(writer, "image_url");
        pal_base64_put(writer, pal_buf_str(&prefix), part->data);
        pal_buf_done(&prefix);
    } else {
        pal_put_text(writer, "type", is_answer ? "output_text" : "input_text");
        pal_put_str(writer, "text",
                part->kind == PAL_PART_IMAGE       ? pal_str_of("[image]")
                        : part->kind == PAL_PART_FILE ? pal_str_of("[file]")
                                                      : part->text);
    }
    pal_json_end_object(writer);
}

static void put_codex_part(pal_export *export, const pal_message *message, const pal_part *part,
        pal_buf *out)
{
    bool is_answer = message->role == PAL_ROLE_ASSISTANT;
    bool is_call = part->kind == PAL_PART_TOOL_CALL, is_result = part->kind == PAL_PART_TOOL_RESULT;
    if (part->kind == PAL_PART_REASONING)
        return;
    pal_json_writer writer = begin_record(out, "response_item", message->created_at);
    if (is_call) {
        pal_put_text(&writer, "type", "function_call");
        pal_put_str(&writer, "name", part->name);
        pal_put_str(&writer, "arguments", part->arguments);
        pal_put_str(&writer, "call_id", part->call_id);
    } else if (is_result) {
        pal_put_text(&writer, "type", "function_call_output");
        pal_put_str(&writer, "call_id", part->call_id);
        pal_put_str(&writer, "output", output_of(part, export->page_arena));
    } else {
        pal_put_text(&writer, "type", "message");
        pal_put_text(&writer, "role", is_answer ? "assistant" : "user");
        pal_json_name(&writer, "content");
        pal_json_begin_array(&writer);
        put_codex_content(&writer, part, is_answer);
        pal_json_end_array(&writer);
    }
    end_record(&writer);
    if (part->kind == PAL_PART_TEXT)
        put_codex_event(out, message, part->text);
}

/* ---- Markdown ---- */

static void begin_markdown(const pal_session *session, pal_buf *out)
{
    char time[PAL_TIME_TEXT_SIZE];
    (void)pal_time_to_text(session->created_at, time);
    pal_buf_append_text(out, "# ");
    pal_buf_append_str(out, session->title.len ? session->title
                    : session->key.len         ? session->key
                                               : pal_str_of("Conversation"));
    pal_buf_format(out, "\n\n%.10s", time);
    if (session->key.len) {
        pal_buf_append_text(out, ", `");
        pal_buf_append_str(out, session->key);
        pal_buf_append_text(out, "`");
    }
    pal_buf_append_text(out, "\n");
}

/* Writes a block of code. Its fence is longer than any in the text. */
static void put_code(pal_buf *out, const char *language, pal_str text)
{
    size_t longest = 2, run = 0;
    for (size_t i = 0; i < text.len; i++) {
        run = text.data[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i <= longest; i++)
            pal_buf_append_char(out, '`');
        pal_buf_append_text(out, side ? "" : language);
        pal_buf_append_char(out, '\n');
        if (side)
            break;
        pal_buf_append_str(out, text);
        if (!text.len || text.data[text.len - 1] != '\n')
            pal_buf_append_char(out, '\n');
    }
}

static void put_markdown_part(pal_export *export, const pal_part *part, pal_buf *out)
{
    pal_buf_append_char(out, '\n');
    switch (part->kind) {
    case PAL_PART_TOOL_CALL:
        pal_buf_append_text(out, "Calls `");
        pal_buf_append_str(out, part->name);
        pal_buf_append_text(out, "`:\n\n");
        put_code(out, "json", part->arguments);
        break;
    case PAL_PART_TOOL_RESULT:
        put_code(out, "", output_of(part, export->page_arena));
        break;
    case PAL_PART_IMAGE:
    case PAL_PART_FILE:
        pal_buf_format(out, "[%s]", pal_part_kind_name(part->kind));
        if (part->name.len || part->url.len) {
            pal_buf_append_char(out, ' ');
            pal_buf_append_str(out, part->name.len ? part->name : part->url);
        }
        pal_buf_append_char(out, '\n');
        break;
    default:
        pal_buf_append_str(out, part->text);
        pal_buf_append_char(out, '\n');
        break;
    }
}

static void put_markdown_message(pal_export *export, const pal_message *message, pal_buf *out)
{
    static const char *const names[] = {
            [PAL_ROLE_SYSTEM] = "Instructions", [PAL_ROLE_USER] = "User",
            [PAL_ROLE_ASSISTANT] = "Assistant", [PAL_ROLE_TOOL] = "Result"};
    size_t len = 0;
    for (size_t i = 0; i < message->parts_len; i++)
        len += message->parts[i].kind != PAL_PART_REASONING;
    if (len == 0)
        return;
    pal_buf_format(out, "\n## %s", names[message->role]);
    if (message->model.len) {
        pal_buf_append_text(out, " (");
        pal_buf_append_str(out, message->model);
        pal_buf_append_char(out, ')');
    }
    pal_buf_append_char(out, '\n');
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind != PAL_PART_REASONING)
            put_markdown_part(export, &message->parts[i], out);
    }
}

/* ---- All of them ---- */

void pal_export_agent_begin(pal_export *export, const pal_session *session, pal_buf *out)
{
    export->parent[0] = '\0';
    export->project = pal_arena_copy(export->arena, session->project);
    if (export->form == PAL_EXPORT_CODEX)
        begin_codex(export, session, out);
    else if (export->form == PAL_EXPORT_MARKDOWN)
        begin_markdown(session, out);
    else if (export->form == PAL_EXPORT_HTML)
        pal_export_html_begin(session, out);
}

pal_status pal_export_agent_message(
        pal_export *export, const pal_message *message, pal_buf *out, pal_error *err)
{
    if (export->form == PAL_EXPORT_MARKDOWN) {
        put_markdown_message(export, message, out);
        return PAL_OK;
    }
    if (export->form == PAL_EXPORT_HTML) {
        pal_export_html_message(message, out);
        return PAL_OK;
    }
    if (message->role == PAL_ROLE_SYSTEM)
        return PAL_OK;
    if (export->form == PAL_EXPORT_CLAUDE_CODE)
        return export_claude_message(export, message, out, err);
    for (size_t i = 0; i < message->parts_len; i++)
        put_codex_part(export, message, &message->parts[i], out);
    return PAL_OK;
}
