/* api_mistral_chat_format.c - writes a turn as one of Mistral's chat completions:
 *
 *   data: {"id":"cmpl-...","object":"chat.completion.chunk","choices":[{"delta":{...},...}],...}
 *
 * It differs from OpenAI's in three ways. A call is complete in one chunk, the usage is in the last
 * chunk that has a choice, and reasoning is a chunk of the content. Work of the server itself, such
 * as a handoff to another agent, is not shown. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "server/api/mistral/api_mistral_run.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

/* ---- Members of both forms ---- */

static void put_head(const pal_mistral_frames *frames, pal_json_writer *writer, const char *object)
{
    char id[PAL_OPENAI_ID_SIZE];
    pal_openai_id_text("cmpl-", frames->conversation, id);
    pal_put_text(writer, "id", id);
    pal_put_text(writer, "object", object);
    pal_put_count(writer, "created", (uint64_t)(frames->begun_at / 1000));
    pal_put_str(writer, "model", frames->speaker->request.model);
    pal_json_name(writer, "choices");
    pal_json_begin_array(writer);
    pal_json_begin_object(writer);
    pal_put_count(writer, "index", 0);
}

static bool has_calls(const pal_mistral_outcome *outcome)
{
    return pal_json_count(outcome->calls) > 0;
}

static void put_calls(pal_json_writer *writer, const pal_mistral_outcome *outcome, pal_arena *arena)
{
    pal_json call;
    size_t index = 0;
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (pal_json_iter iter = pal_json_each(outcome->calls); pal_json_next(&iter, NULL, &call);) {
        pal_str arguments = pal_member_string(call, "arguments", arena);
        pal_json_begin_object(writer);
        pal_put_str(writer, "id", pal_member_string(call, "call_id", arena));
        pal_put_text(writer, "type", "function");
        pal_json_name(writer, "function");
        pal_json_begin_object(writer);
        pal_put_str(writer, "name", pal_member_string(call, "name", arena));
        pal_put_str(writer, "arguments", arguments.len ? arguments : pal_str_of("{}"));
        pal_json_end_object(writer);
        pal_put_count(writer, "index", index++);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

/* Closes the choice and its parents. */
static void put_tail(pal_json_writer *writer, const pal_mistral_outcome *outcome)
{
    if (!outcome) {
        pal_put_null(writer, "finish_reason");
    } else {
        pal_put_text(writer, "finish_reason",
                outcome->finish == PAL_FINISH_LENGTH ? "length"
                        : has_calls(outcome)         ? "tool_calls"
                                                     : "stop");
    }
    pal_json_end_object(writer);
    pal_json_end_array(writer);
    if (outcome)
        pal_mistral_put_usage(writer, &outcome->usage);
    pal_json_end_object(writer);
}

/* ---- Chunks ---- */

static pal_json_writer begin_chunk(const pal_mistral_frames *frames)
{
    pal_buf_append_text(frames->buf, "data: ");
    pal_json_writer writer = pal_json_writer_make(frames->buf);
    pal_json_begin_object(&writer);
    put_head(frames, &writer, "chat.completion.chunk");
    pal_json_name(&writer, "delta");
    pal_json_begin_object(&writer);
    return writer;
}

static void end_chunk(const pal_mistral_frames *frames, pal_json_writer *writer,
        const pal_mistral_outcome *outcome)
{
    pal_json_end_object(writer);
    put_tail(writer, outcome);
    pal_buf_append_text(frames->buf, "\n\n");
}

static void tell_started(pal_mistral_frames *frames)
{
    pal_json_writer writer = begin_chunk(frames);
    pal_put_text(&writer, "role", "assistant");
    pal_put_text(&writer, "content", "");
    end_chunk(frames, &writer, NULL);
}

static void on_event(pal_mistral_frames *frames, const pal_event *event)
{
    bool is_thinking = event->kind == PAL_EVENT_REASONING;
    if ((event->kind != PAL_EVENT_TEXT && !is_thinking) || event->text.len == 0)
        return;
    pal_json_writer writer = begin_chunk(frames);
    pal_json_name(&writer, "content");
    if (is_thinking) {
        pal_json_begin_array(&writer);
        pal_mistral_put_thinking(&writer, event->text);
        pal_json_end_array(&writer);
    } else {
        pal_json_put_str(&writer, event->text);
    }
    end_chunk(frames, &writer, NULL);
}

static void tell_done(pal_mistral_frames *frames, const pal_mistral_outcome *outcome)
{
    pal_json_writer writer = begin_chunk(frames);
    if (has_calls(outcome))
        put_calls(&writer, outcome, frames->arena);
    else
        pal_put_text(&writer, "content", "");
    end_chunk(frames, &writer, outcome);
    pal_buf_append_text(frames->buf, "data: [DONE]\n\n");
}

/* An error is not sent as a chunk, so that no client takes the partial answer for a complete
 * one. */
static void tell_failed(pal_mistral_frames *frames, unsigned code, const char *message)
{
    pal_buf_append_text(frames->buf, "data: ");
    pal_json_writer writer = pal_json_writer_make(frames->buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "object", "error");
    pal_put_text(&writer, "message", message);
    pal_put_text(&writer, "type", "internal_server_error");
    pal_put_str_or_null(&writer, "param", (pal_str){0});
    pal_put_count(&writer, "code", code);
    pal_json_end_object(&writer);
    pal_buf_append_text(frames->buf, "\n\n");
}

/* ---- The complete answer ---- */

static bool has_thought(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_REASONING && message->parts[i].text.len)
            return true;
    }
    return false;
}

static void put_chunks(pal_json_writer *writer, const pal_message *message)
{
    pal_json_begin_array(writer);
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->text.len && part->kind == PAL_PART_REASONING)
            pal_mistral_put_thinking(writer, part->text);
        if (part->text.len == 0 || part->kind != PAL_PART_TEXT)
            continue;
        pal_json_begin_object(writer);
        pal_put_text(writer, "type", "text");
        pal_put_str(writer, "text", part->text);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

/* Only the newest message is the answer. Earlier messages ended in a handoff, or the server ran
 * their calls. */
static pal_status put_answer(pal_call *call, const pal_mistral_frames *frames,
        const pal_message_page *messages, const pal_mistral_outcome *outcome, pal_error *err)
{
    static const pal_message nothing = {0};
    const pal_message *last = messages->len ? &messages->items[messages->len - 1] : &nothing;
    pal_json_writer *writer = pal_call_writer(call);
    (void)err;
    pal_json_begin_object(writer);
    put_head(frames, writer, "chat.completion");
    pal_json_name(writer, "message");
    pal_json_begin_object(writer);
    pal_put_text(writer, "role", "assistant");
    pal_json_name(writer, "content");
    if (has_thought(last))
        put_chunks(writer, last);
    else
        pal_json_put_str(writer, pal_dialect_text(last, call->arena));
    if (has_calls(outcome))
        put_calls(writer, outcome, call->arena);
    pal_json_end_object(writer);
    put_tail(writer, outcome);
    return PAL_OK;
}

const pal_mistral_format pal_mistral_chat_format = {
        .begins_late = true,
        .started = tell_started,
        .event = on_event,
        .done = tell_done,
        .failed = tell_failed,
        .answer = put_answer,
};
