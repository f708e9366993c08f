/* api_turn_events.c - sends the events of a turn as Server-Sent Events:
 *
 *   id: 7
 *   event: text
 *   data: {"text":"Hel"}
 *
 * A reader can resume by their ids. Past events are sent at once, and may exceed the buffer of a
 * slow connection. In that case the stream ends normally after some of them, and the reader
 * requests the rest. */
#include "server/api/native/api_turn.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "server/run/run.h"
#include "server/server_limits.h"
#include "server/server_settings.h"

typedef struct event_reader {
    pal_run run;
    bool is_begun;      /* something was written */
    uint64_t past;      /* number of the newest event that existed when the reader came */
    uint64_t past_room; /* bytes of past events that can still be written */
} event_reader;

/* ---- Members of events ---- */

static void put_calls(pal_json_writer *writer, pal_str calls)
{
    pal_json_name(writer, "calls");
    if (calls.len)
        pal_json_put_raw(writer, calls);
    else
        pal_json_put_raw(writer, pal_str_of("[]"));
}

static void put_call(pal_json_writer *writer, const pal_event *event)
{
    pal_put_str(writer, "call_id", event->call_id);
    if (event->name.len)
        pal_put_str(writer, "name", event->name);
}

static void put_message(pal_json_writer *writer, const pal_event *event)
{
    pal_put_id(writer, "message_id", event->message);
    pal_put_count(writer, "seq", event->seq);
}

static void put_ended(pal_json_writer *writer, const pal_event *event)
{
    pal_put_id(writer, "turn_id", event->turn);
    pal_put_text(writer, "state", pal_turn_state_name(event->state));
    if (event->status != PAL_OK)
        pal_put_text(writer, "code", pal_status_name(event->status));
    if (event->text.len)
        pal_put_str(writer, "reason", event->text);
    pal_native_put_usage(writer, "usage", &event->usage);
}

/* Writes the members of a call that belong to this kind of event. */
static void put_tool(pal_json_writer *writer, const pal_event *event)
{
    put_call(writer, event);
    switch (event->kind) {
    case PAL_EVENT_ARGUMENTS:
        pal_put_str(writer, "text", event->text);
        break;
    case PAL_EVENT_TOOL_STARTED:
        pal_put_str(writer, "arguments", event->text);
        break;
    case PAL_EVENT_TOOL_ENDED:
        pal_put_str(writer, "output", event->text);
        pal_put_flag(writer, "is_error", event->status != PAL_OK);
        break;
    case PAL_EVENT_ASKING:
        pal_put_str(writer, "reason", event->text);
        break;
    default:
        break;
    }
}

static void put_members(pal_json_writer *writer, const pal_event *event, pal_id session)
{
    switch (event->kind) {
    case PAL_EVENT_STARTED:
        pal_put_id(writer, "turn_id", event->turn);
        pal_put_id(writer, "session_id", session);
        if (event->text.len)
            pal_put_str(writer, "label", event->text);
        break;
    case PAL_EVENT_STEP:
        pal_put_count(writer, "step", event->count);
        break;
    case PAL_EVENT_TEXT:
    case PAL_EVENT_REASONING:
        pal_put_str(writer, "text", event->text);
        break;
    case PAL_EVENT_MESSAGE:
        put_message(writer, event);
        pal_put_text(writer, "finish_reason",
                event->finish == PAL_FINISH_LENGTH ? "length" : "stop");
        pal_native_put_usage(writer, "usage", &event->usage);
        break;
    case PAL_EVENT_RETRYING:
        pal_put_count(writer, "attempt", event->count);
        pal_put_time(writer, "at", event->at);
        pal_put_str(writer, "reason", event->text);
        break;
    case PAL_EVENT_COMPACTED:
        pal_put_str(writer, "text", event->text);
        pal_put_count(writer, "tokens", event->count);
        break;
    case PAL_EVENT_STEERED:
        put_message(writer, event);
        break;
    case PAL_EVENT_PAUSED:
        put_calls(writer, event->text);
        break;
    case PAL_EVENT_ENDED:
        put_ended(writer, event);
        break;
    case PAL_EVENT_TOOLS_MISSING:
        pal_put_str(writer, "server", event->name);
        pal_put_str(writer, "reason", event->text);
        break;
    default:
        put_tool(writer, event);
        break;
    }
}

static void format_frame(pal_buf *buf, const pal_event *event, pal_id session)
{
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_buf_append_text(buf, "id: ");
    pal_buf_append_u64(buf, event->number);
    pal_buf_append_text(buf, "\nevent: ");
    pal_buf_append_text(buf, pal_event_kind_name(event->kind));
    pal_buf_append_text(buf, "\ndata: ");
    pal_json_begin_object(&writer);
    put_members(&writer, event, session);
    pal_json_end_object(&writer);
    pal_buf_append_text(buf, "\n\n");
}

/* ---- The reader ---- */

/* Returns false if the connection has received enough past events. It always gets at least one
 * event. */
static bool has_room(event_reader *reader, uint64_t number, size_t len)
{
    bool is_enough = number <= reader->past && len > reader->past_room;
    if (is_enough && reader->is_begun)
        return false;
    if (number <= reader->past)
        reader->past_room -= is_enough ? reader->past_room : len;
    reader->is_begun = true;
    return true;
}

/* If there is no memory, the stream ends; the reader reconnects and requests the event again. */
static void event(pal_run *run, const pal_event *event)
{
    event_reader *reader = (event_reader *)run;
    pal_buf buf;
    pal_buf_init(&buf, PAL_SERVER_EVENT_BYTES_MAX);
    format_frame(&buf, event, run->session);
    if (!buf.failure && !has_room(reader, event->number, buf.len))
        pal_run_end(run);
    if (!pal_run_write(run, &buf))
        pal_run_stop(run);
    pal_buf_done(&buf);
}

static void ended(pal_run *run, const pal_event *end)
{
    if (end->number)
        event(run, end);
}

static void started(pal_run *run, const pal_turn_info *info)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_exchange *x = run->call->exchange;
    pal_id_to_text(info->turn, id);
    pal_exchange_add_header(x, "x-palaver-turn", pal_str_of(id));
    pal_id_to_text(info->session, id);
    pal_exchange_add_header(x, "x-palaver-session", pal_str_of(id));
    (void)pal_run_open(run);
}

pal_status pal_api_turn_stream(
        pal_call *call, const pal_turn_info *info, uint64_t after, pal_error *err)
{
    static const pal_run_handlers handlers = {.started = started,
            .event = event,
            .done = ended,
            .failed = ended,
            .has_no_arena = true};
    event_reader *reader = pal_run_new(call, &handlers, sizeof *reader);
    if (!reader)
        return pal_no_memory(err);
    reader->past = info->events;
    reader->past_room = call->server->settings->stream_bytes_max / 2;
    reader->run.leave = PAL_RUN_READ;
    pal_run_join(&reader->run, info, after);
    return PAL_OK;
}
