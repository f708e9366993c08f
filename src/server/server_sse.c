/* server_sse.c - sends the events of a turn as Server-Sent Events:
 *
 *   id: 7
 *   event: text
 *   data: {"text":"Hel"}
 *
 * Ownership: two sides hold a reader, and they end in any order. The stream ends on a listener
 * thread, the watch on the runtime's loop. The function that starts the reader holds it too. The
 * last side frees the reader. Its lock guards `stream`, which becomes NULL as soon as nothing can
 * be written.
 *
 * Past events are sent at once, and may exceed the buffer of a slow connection. In that case the
 * stream ends normally after some of them, and the reader requests the rest. */
#include "server/server_sse.h"

#include <pthread.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "server/run/run.h"
#include "server/server_call.h"
#include "server/server_settings.h"

typedef struct sse_reader {
    pthread_mutex_t lock;
    unsigned holders; /* guarded by the lock */
    pal_stream *stream;
    bool is_begun;      /* something was written */
    bool is_ended;      /* the stream was ended normally */
    bool is_watching;   /* the runtime still reports events */
    uint64_t past;      /* number of the newest event that existed when the reader came */
    uint64_t past_room; /* bytes of past events that can still be written */
    pal_runtime *runtime;
    pal_id turn;
    pal_id session;
    char tenant[PAL_TENANT_LEN_MAX + 1];
} sse_reader;

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
        pal_put_text(writer, "finish_reason", event->finish_length ? "length" : "stop");
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

void pal_sse_event_put(pal_json_writer *writer, const pal_event *event, pal_id session)
{
    pal_json_begin_object(writer);
    put_members(writer, event, session);
    pal_json_end_object(writer);
}

static void format_frame(pal_buf *buf, const pal_event *event, pal_id session)
{
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_buf_append_text(buf, "id: ");
    pal_buf_append_u64(buf, event->number);
    pal_buf_append_text(buf, "\nevent: ");
    pal_buf_append_text(buf, pal_event_kind_name(event->kind));
    pal_buf_append_text(buf, "\ndata: ");
    pal_sse_event_put(&writer, event, session);
    pal_buf_append_text(buf, "\n\n");
}

/* ---- The reader ---- */

static void release(sse_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    bool is_last = --reader->holders == 0;
    pthread_mutex_unlock(&reader->lock);
    if (!is_last)
        return;
    pthread_mutex_destroy(&reader->lock);
    pal_free(reader);
}

/* The lock must be held. */
static void end_stream(sse_reader *reader)
{
    if (reader->stream && !reader->is_ended)
        pal_stream_end(reader->stream);
    reader->is_ended = true;
}

/* The lock must be held. Returns false if the connection has received enough past events. It always
 * gets at least one event. */
static bool has_room(sse_reader *reader, uint64_t number, size_t len)
{
    bool is_enough = number <= reader->past && len > reader->past_room;
    if (is_enough && reader->is_begun)
        return false;
    if (number <= reader->past)
        reader->past_room -= is_enough ? reader->past_room : len;
    reader->is_begun = true;
    return true;
}

/* The lock must be held. If there is no memory, the stream ends; the reader reconnects and requests
 * the event again. */
static bool write_event(sse_reader *reader, const pal_event *event)
{
    bool is_taken = false;
    pal_buf buf;
    pal_buf_init(&buf, PAL_SERVER_EVENT_BYTES_MAX);
    format_frame(&buf, event, reader->session);
    if (buf.failure == PAL_OK && has_room(reader, event->number, buf.len))
        is_taken = pal_stream_write(reader->stream, pal_buf_str(&buf));
    pal_buf_done(&buf);
    if (!is_taken || event->kind == PAL_EVENT_ENDED)
        end_stream(reader);
    return is_taken && event->kind != PAL_EVENT_ENDED;
}

/* Called on the loop. */
static bool watch(const pal_event *event, void *user)
{
    sse_reader *reader = user;
    pthread_mutex_lock(&reader->lock);
    bool goes_on = reader->stream && !reader->is_ended && write_event(reader, event);
    pthread_mutex_unlock(&reader->lock);
    return goes_on;
}

/* Called on the loop after the last event. */
static void watch_gone(void *user)
{
    sse_reader *reader = user;
    pthread_mutex_lock(&reader->lock);
    reader->is_watching = false;
    end_stream(reader);
    pthread_mutex_unlock(&reader->lock);
    release(reader);
}

/* Called on a listener thread. Nothing more can be written. Stops watching the turn, because its
 * next event may come only after hours. */
static void stream_gone(void *user)
{
    sse_reader *reader = user;
    pthread_mutex_lock(&reader->lock);
    reader->stream = NULL;
    bool is_watching = reader->is_watching;
    pthread_mutex_unlock(&reader->lock);
    if (is_watching)
        pal_turn_unwatch(reader->runtime, reader->turn, reader);
    release(reader);
}

/* ---- Starting ---- */

static sse_reader *new_reader(const pal_call *call, const pal_turn_info *info)
{
    sse_reader *reader = pal_calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    pthread_mutex_init(&reader->lock, NULL);
    reader->holders = 1;
    reader->past = info->events;
    reader->past_room = call->server->settings->stream_bytes_max / 2;
    reader->runtime = call->server->runtime;
    reader->turn = info->turn;
    reader->session = info->session;
    if (call->caller.tenant.len && call->caller.tenant.len <= PAL_TENANT_LEN_MAX)
        memcpy(reader->tenant, call->caller.tenant.data, call->caller.tenant.len);
    return reader;
}

static void add_headers(pal_call *call, const pal_turn_info *info)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_exchange *x = call->exchange;
    pal_id_to_text(info->turn, id);
    pal_exchange_add_header(x, "x-palaver-turn", pal_str_of(id));
    pal_id_to_text(info->session, id);
    pal_exchange_add_header(x, "x-palaver-session", pal_str_of(id));
}

static bool open_stream(pal_call *call, const pal_turn_info *info, sse_reader *reader)
{
    add_headers(call, info);
    pthread_mutex_lock(&reader->lock);
    reader->stream = pal_run_stream(call, 200, PAL_RUN_EVENT_STREAM, stream_gone, reader);
    bool is_open = reader->stream != NULL;
    reader->holders += is_open;
    pthread_mutex_unlock(&reader->lock);
    return is_open;
}

/* The call must not be used from here on. */
static void begin_watching(sse_reader *reader, uint64_t after)
{
    pthread_mutex_lock(&reader->lock);
    reader->is_watching = true;
    reader->holders++;
    pthread_mutex_unlock(&reader->lock);
    if (pal_turn_watch(reader->runtime, pal_str_of(reader->tenant), reader->turn, after, watch,
                watch_gone, reader, NULL) != PAL_OK) {
        watch_gone(reader);
        return;
    }
    /* If the reader left before the watch began, stream_gone() could not end the watch. */
    pthread_mutex_lock(&reader->lock);
    bool has_left = !reader->stream && reader->is_watching;
    pthread_mutex_unlock(&reader->lock);
    if (has_left)
        pal_turn_unwatch(reader->runtime, reader->turn, reader);
}

pal_status pal_sse_turn(pal_call *call, const pal_turn_info *info, uint64_t after, pal_error *err)
{
    sse_reader *reader = new_reader(call, info);
    if (!reader)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    if (!open_stream(call, info, reader)) {
        release(reader);
        return pal_run_refuse_stream(call, err);
    }
    begin_watching(reader, after);
    release(reader);
    return PAL_OK;
}
