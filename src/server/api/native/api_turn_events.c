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

#include "base/memory.h"
#include "dialect/native/native.h"
#include "server/run/run.h"
#include "server/server_call.h"
#include "server/server_limits.h"
#include "server/server_settings.h"

typedef struct event_reader {
    pal_run run;
    bool is_begun;      /* something was written */
    uint64_t past;      /* number of the newest event that existed when the reader came */
    uint64_t past_room; /* bytes of past events that can still be written */
} event_reader;

static void format_frame(pal_buf *buf, const pal_event *event, pal_id session)
{
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_buf_append_text(buf, "id: ");
    pal_buf_append_u64(buf, event->number);
    pal_buf_append_text(buf, "\nevent: ");
    pal_buf_append_text(buf, pal_event_kind_name(event->kind));
    pal_buf_append_text(buf, "\ndata: ");
    pal_native_event_put(&writer, event, session);
    pal_buf_append_text(buf, "\n\n");
}

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
