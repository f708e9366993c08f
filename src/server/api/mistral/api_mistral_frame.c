/* api_mistral_frame.c - writes conversations: the events of a turn as those of Mistral's streams,
 * and the complete response.
 *
 *   event: message.output.delta
 *   data: {"type":"message.output.delta",...}
 *
 * Ids and indexes are those that the entries get in the response and in the history. So the id of
 * an answer is sent before the answer exists, and every delta names its part. */
#include "base/clock.h"
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/mistral/api_mistral_run.h"
#include "server/server_call.h"

/* ---- Frames ---- */

static pal_json_writer begin(pal_mistral_frames *frames, const char *type)
{
    pal_buf_append_text(frames->buf, "event: ");
    pal_buf_append_text(frames->buf, type);
    pal_buf_append_text(frames->buf, "\ndata: ");
    pal_json_writer writer = pal_json_writer_make(frames->buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", type);
    pal_put_time(&writer, "created_at", pal_clock_now_ms());
    return writer;
}

static void end(pal_mistral_frames *frames, pal_json_writer *writer)
{
    pal_json_end_object(writer);
    pal_buf_append_text(frames->buf, "\n\n");
}

static void put_author(const pal_mistral_frames *frames, pal_json_writer *writer)
{
    if (frames->speaker->request.model.len)
        pal_put_str(writer, "model", frames->speaker->request.model);
    if (frames->speaker->agent_id.len)
        pal_put_str(writer, "agent_id", frames->speaker->agent_id);
}

static void put_entry(
        pal_json_writer *writer, pal_entry_kind kind, pal_id message, size_t number, size_t output)
{
    char id[PAL_MISTRAL_ENTRY_ID_SIZE];
    pal_mistral_entry_id(kind, message, number, id);
    pal_put_text(writer, "id", id);
    pal_put_count(writer, "output_index", output);
}

/* ---- Text ---- */

static size_t part_of(const pal_event *event)
{
    return event->count ? (size_t)event->count - 1 : 0;
}

/* Determines the entry and the chunk that the event continues or begins. */
static void place(pal_mistral_frames *frames, const pal_event *event)
{
    if (!frames->is_said) {
        frames->is_said = true;
        frames->said_number = part_of(event);
        frames->content = 0;
        frames->outputs++;
    } else if (frames->saying != event->kind) {
        frames->content++;
    }
    frames->saying = event->kind;
}

static void say(pal_mistral_frames *frames, const pal_event *event)
{
    if (event->text.len == 0)
        return;
    place(frames, event);
    pal_json_writer writer = begin(frames, "message.output.delta");
    put_entry(
            &writer, PAL_ENTRY_MESSAGE, frames->message, frames->said_number, frames->outputs - 1);
    pal_put_count(&writer, "content_index", frames->content);
    pal_put_text(&writer, "role", "assistant");
    put_author(frames, &writer);
    pal_json_name(&writer, "content");
    if (event->kind == PAL_EVENT_REASONING)
        pal_mistral_put_thinking(&writer, event->text);
    else
        pal_json_put_str(&writer, event->text);
    end(frames, &writer);
}

/* ---- Calls ---- */

static pal_entry_kind kind_of(const pal_mistral_frames *frames, pal_str name)
{
    const pal_mistral_speaker *speaker = frames->speaker;
    for (size_t i = 0; !frames->is_clients && i < speaker->targets_len; i++) {
        if (pal_str_equal(speaker->targets[i].tool, name))
            return PAL_ENTRY_HANDOFF;
    }
    for (size_t i = 0; i < speaker->request.tools_len; i++) {
        if (pal_str_equal(speaker->request.tools[i].name, name))
            return PAL_ENTRY_CALL;
    }
    return PAL_ENTRY_EXECUTION;
}

static pal_mistral_call *find_call(const pal_mistral_frames *frames, pal_str id)
{
    pal_mistral_call *call = frames->calls;
    while (call && !pal_str_equal(call->id, id))
        call = call->next;
    return call;
}

/* Writes a call, or another piece of it. `confirmation` may be NULL. */
static void put_call(pal_mistral_frames *frames, const pal_mistral_call *call, pal_str arguments,
        const char *confirmation)
{
    pal_json_writer writer = begin(frames, "function.call.delta");
    put_entry(&writer, PAL_ENTRY_CALL, frames->message, call->number, call->output);
    pal_put_str(&writer, "name", call->name);
    pal_put_str(&writer, "tool_call_id", call->id);
    pal_put_str(&writer, "arguments", arguments);
    if (confirmation)
        pal_put_text(&writer, "confirmation_status", confirmation);
    put_author(frames, &writer);
    end(frames, &writer);
}

/* Writes a call that the server runs. */
static pal_json_writer begin_execution(
        pal_mistral_frames *frames, const pal_mistral_call *call, const char *type)
{
    pal_json_writer writer = begin(frames, type);
    put_entry(&writer, PAL_ENTRY_EXECUTION, frames->message, call->number, call->output);
    pal_put_str(&writer, "name", call->name);
    put_author(frames, &writer);
    return writer;
}

static void put_execution(pal_mistral_frames *frames, const pal_mistral_call *call,
        const char *type, pal_str arguments)
{
    pal_json_writer writer = begin_execution(frames, call, type);
    pal_put_str(&writer, "arguments", arguments);
    end(frames, &writer);
}

static void begin_call(pal_mistral_frames *frames, const pal_event *event)
{
    pal_mistral_call *call = pal_arena_alloc(frames->arena, sizeof *call);
    if (event->name.len == 0 || !call)
        return;
    *call = (pal_mistral_call){.next = frames->calls,
            .id = pal_arena_copy(frames->arena, event->call_id),
            .name = pal_arena_copy(frames->arena, event->name),
            .kind = kind_of(frames, event->name),
            .number = part_of(event),
            .output = frames->outputs++};
    frames->calls = call;
    frames->is_said = false;
    if (call->kind == PAL_ENTRY_EXECUTION)
        put_execution(frames, call, "tool.execution.started", (pal_str){0});
}

static void add_arguments(pal_mistral_frames *frames, const pal_event *event)
{
    pal_mistral_call *call = find_call(frames, event->call_id);
    if (!call || event->text.len == 0)
        return;
    call->has_arguments = true;
    if (call->kind == PAL_ENTRY_CALL)
        put_call(frames, call, event->text, NULL);
    else if (call->kind == PAL_ENTRY_EXECUTION)
        put_execution(frames, call, "tool.execution.delta", event->text);
}

/* If a model sends no arguments, an empty object is recorded, and it is sent here too. */
static void end_calls(pal_mistral_frames *frames, const pal_mistral_call *call)
{
    if (!call)
        return;
    end_calls(frames, call->next);
    if (call->kind == PAL_ENTRY_CALL && !call->has_arguments)
        put_call(frames, call, pal_str_of("{}"), NULL);
}

static void end_execution(pal_mistral_frames *frames, const pal_event *event)
{
    const pal_mistral_call *call = find_call(frames, event->call_id);
    if (!call || call->kind != PAL_ENTRY_EXECUTION)
        return;
    pal_json_writer writer = begin_execution(frames, call, "tool.execution.done");
    pal_json_name(&writer, "info");
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "result", event->text);
    pal_json_end_object(&writer);
    end(frames, &writer);
}

/* ---- All events ---- */

static void on_event(pal_mistral_frames *frames, const pal_event *event)
{
    switch (event->kind) {
    case PAL_EVENT_STEP:
        frames->message = event->message;
        frames->is_said = false;
        frames->calls = NULL;
        break;
    case PAL_EVENT_TEXT:
    case PAL_EVENT_REASONING:
        say(frames, event);
        break;
    case PAL_EVENT_CALL:
        begin_call(frames, event);
        break;
    case PAL_EVENT_ARGUMENTS:
        add_arguments(frames, event);
        break;
    case PAL_EVENT_MESSAGE:
        end_calls(frames, frames->calls);
        break;
    case PAL_EVENT_TOOL_ENDED:
        end_execution(frames, event);
        break;
    default:
        break;
    }
}

static void tell_started(pal_mistral_frames *frames)
{
    char id[PAL_OPENAI_ID_SIZE];
    pal_openai_id_text("conv_", frames->conversation, id);
    pal_json_writer writer = begin(frames, "conversation.response.started");
    pal_put_text(&writer, "conversation_id", id);
    end(frames, &writer);
}

static void put_handoff(pal_mistral_frames *frames, const char *type, pal_id message,
        const char *id_name, const char *name_name, const pal_mistral_speaker *speaker)
{
    pal_json_writer writer = begin(frames, type);
    put_entry(&writer, PAL_ENTRY_HANDOFF, message, 0, frames->outputs - 1);
    pal_put_str(&writer, id_name, speaker->agent_id);
    pal_put_str(&writer, name_name, speaker->agent_name);
    end(frames, &writer);
}

static void tell_handoff(pal_mistral_frames *frames, pal_id message,
const pal_mistral_speaker *from,
        const pal_mistral_speaker *to)
{
    put_handoff(frames, "agent.handoff.started", message, "previous_agent_id",
            "previous_agent_name", from);
    put_handoff(frames, "agent.handoff.done", message, "next_agent_id", "next_agent_name", to);
}

void pal_mistral_put_usage(pal_json_writer *writer, const pal_usage *usage)
{
    uint64_t prompt = usage->input + usage->cache_read + usage->cache_write;
    pal_json_name(writer, "usage");
    pal_json_begin_object(writer);
    pal_put_count(writer, "prompt_tokens", prompt);
    pal_put_count(writer, "completion_tokens", usage->output);
    pal_put_count(writer, "total_tokens", prompt + usage->output);
    pal_json_end_object(writer);
}

/* Returns whether the call waits for permission. */
static bool is_asked(pal_json asked, pal_str call_id, pal_arena *arena)
{
    pal_json question;
    for (pal_json_iter iter = pal_json_each(asked); pal_json_next(&iter, NULL, &question);) {
        if (pal_str_equal(pal_member_string(question, "call_id", arena), call_id))
            return true;
    }
    return false;
}

/* Writes the calls that were held back because they could have been handoffs, or because they wait
 * for permission. */
static void put_held(pal_mistral_frames *frames, const pal_mistral_outcome *outcome)
{
    pal_json call;
    for (const pal_mistral_call *each = frames->calls; each; each = each->next) {
        pal_json_iter iter = pal_json_each(outcome->calls);
        if (is_asked(outcome->asked, each->id, frames->arena))
            put_call(frames, each, (pal_str){0}, "pending");
        while (each->kind == PAL_ENTRY_HANDOFF && pal_json_next(&iter, NULL, &call)) {
            if (pal_str_equal(pal_member_string(call, "call_id", frames->arena), each->id))
                put_call(frames, each, pal_member_string(call, "arguments", frames->arena), NULL);
        }
    }
}

static void tell_done(pal_mistral_frames *frames, const pal_mistral_outcome *outcome)
{
    put_held(frames, outcome);
    pal_json_writer writer = begin(frames, "conversation.response.done");
    pal_mistral_put_usage(&writer, &outcome->usage);
    end(frames, &writer);
}

static void tell_failed(pal_mistral_frames *frames, unsigned code, const char *message)
{
    pal_json_writer writer = begin(frames, "conversation.response.error");
    pal_put_text(&writer, "message", message);
    pal_put_count(&writer, "code", code);
    end(frames, &writer);
}

/* ---- The complete response ---- */

static pal_status put_outputs(pal_call *call, const pal_mistral_frames *frames,
        const pal_message_page *messages, pal_json asked, pal_error *err)
{
    pal_mistral_entry *entries;
    size_t len;
    pal_status status = pal_mistral_entries(call, messages, frames->agent_id, &entries, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        const pal_part *part = &entries[i].message->parts[entries[i].first];
        entries[i].is_pending = entries[i].kind == PAL_ENTRY_EXECUTION &&
                is_asked(asked, part->call_id, call->arena);
        pal_mistral_entry_put(pal_call_writer(call), &entries[i], call->arena);
    }
    return status;
}

static pal_status put_answer(pal_call *call, const pal_mistral_frames *frames,
        const pal_message_page *messages, const pal_mistral_outcome *outcome, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    char id[PAL_OPENAI_ID_SIZE];
    pal_openai_id_text("conv_", frames->conversation, id);
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "conversation.response");
    pal_put_text(writer, "conversation_id", id);
    pal_json_name(writer, "outputs");
    pal_json_begin_array(writer);
    pal_status status = put_outputs(call, frames, messages, outcome->asked, err);
    pal_json_end_array(writer);
    pal_mistral_put_usage(writer, &outcome->usage);
    pal_json_end_object(writer);
    return status;
}

const pal_mistral_format pal_mistral_conversation_format = {
        .started = tell_started,
        .event = on_event,
        .handoff = tell_handoff,
        .done = tell_done,
        .failed = tell_failed,
        .answer = put_answer,
};
