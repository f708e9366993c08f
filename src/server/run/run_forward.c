/* run_forward.c - forwards a request to the model service, and the response to the client. Code,
 * body and the important headers are unchanged. Streams are forwarded as they arrive.
 *
 * Ownership: two sides hold a relay, and they end in any order. The forwarding ends on the
 * runtime's loop, the stream on a listener thread. The last side frees the relay. Its lock guards
 * all members except `forwarding`, which is set before any other thread sees the relay. While the
 * forwarding runs, the loop alone owns the call, until the call is answered. Until then, the
 * listener can report under its own lock that the client has left.
 *
 * Only complete frames of a stream are written, so that a keep-alive comment never splits a frame.
 * Each byte is examined only once, however long a frame is. The API's format decides which frames
 * the client gets, and which one is the last. */
#include "server/run/run_forward.h"

#include <pthread.h>
#include <stdio.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define CONTENT_TYPE_SIZE 128
#define FRAME_BYTES_MAX PAL_SERVER_FRAME_BYTES_MAX
#define NOT_JSON "the model service sent an event that is not JSON"
#define END_FRAME_BYTES_MAX 32 /* bytes at the end of a stream that can contain the last frame */

typedef struct relay {
    pthread_mutex_t lock;
    unsigned holders;
    pal_forward_call *forwarding;
    atomic_flag is_left; /* pal_forward_call_release() was called, or finish_observed() will */
    pal_call *call;      /* NULL after the response was sent */
    pal_stream *stream;  /* NULL if there is no stream, or if it has ended */
    bool is_stream;
    unsigned code;
    char content_type[CONTENT_TYPE_SIZE];
    pal_buf pending; /* the complete body, or the beginning of a frame */
    size_t seen;     /* bytes of `pending` that were searched and contain no end of a frame */
    const pal_forward_format *format;
    const pal_forward_observer *observer; /* NULL: none */
    void *observer_user;
    bool has_end;    /* the stream had its last frame */
    pal_buf last;    /* the last frame, until the observer has seen the stream */
    bool is_waiting; /* the stream stays open until the observer has finished */
    bool is_owed;    /* finish_observed() must release the forwarding */
    char request_id[PAL_SERVER_REQUEST_ID_LEN_MAX + 1]; /* needed after the call is freed */
} relay;

static void release(relay *r)
{
    pthread_mutex_lock(&r->lock);
    bool is_last = --r->holders == 0;
    pthread_mutex_unlock(&r->lock);
    if (!is_last)
        return;
    if (r->observer)
        r->observer->free(r->observer_user);
    pal_buf_done(&r->pending);
    pal_buf_done(&r->last);
    pthread_mutex_destroy(&r->lock);
    pal_free(r);
}

/* Can be called by both sides, under any lock. */
static void leave(relay *r)
{
    if (!atomic_flag_test_and_set(&r->is_left))
        pal_forward_call_release(r->forwarding);
}

/* The forwarding has ended. From here on only finish_observed() releases it, so that a client that
 * leaves meanwhile does not take the session from the ledger row. */
static void await_observer(relay *r)
{
    r->is_owed = !atomic_flag_test_and_set(&r->is_left);
}

/* The observer has seen the response. */
static void finish_observed(relay *r, pal_id session)
{
    if (!r->is_owed)
        return;
    pal_forward_call_set_session(r->forwarding, session);
    pal_forward_call_release(r->forwarding);
}

/* The client left before the response. */
static void client_left(void *user)
{
    leave(user);
}

/* ---- Frames ---- */

/* Returns the length of all complete frames at the beginning of `bytes`, up to the last empty line.
 * No frame ends before `from`. */
static size_t frames_len(pal_str bytes, size_t from)
{
    for (size_t i = bytes.len; i > 1 && i > from; i--) {
        if (bytes.data[i - 1] != '\n')
            continue;
        if (bytes.data[i - 2] == '\n' ||
                (i > 2 && bytes.data[i - 2] == '\r' && bytes.data[i - 3] == '\n'))
            return i;
    }
    return 0;
}

/* Returns the length of the first frame; all frames are complete. */
static size_t first_frame_len(pal_str frames)
{
    const char *at = frames.data, *end = frames.data + frames.len;
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        if (end - at >= 1 && at[0] == '\n')
            return (size_t)(at + 1 - frames.data);
        if (end - at >= 2 && at[0] == '\r' && at[1] == '\n')
            return (size_t)(at + 2 - frames.data);
    }
    return frames.len;
}

pal_str pal_run_forward_data(pal_str frame)
{
    static const char name[] = "data:";
    const char *at = frame.data, *end = frame.data + frame.len;
    while (at && (size_t)(end - at) > sizeof name && memcmp(at, name, sizeof name - 1) != 0) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    if (!at || (size_t)(end - at) <= sizeof name)
        return (pal_str){0};
    at += sizeof name - 1;
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    return pal_str_make(at, (size_t)((line_end ? line_end : end) - at));
}

/* With an observer, the last frame and what follows it are kept until the observer has seen the
 * complete stream. */
static bool write_observed(relay *r, pal_str frames, bool is_last)
{
    if (frames.len == 0)
        return true;
    if (r->observer)
        r->observer->frames(r->observer_user, frames);
    if (r->observer && (is_last || r->last.len)) {
        pal_buf_append_str(&r->last, frames);
        return !r->last.failure;
    }
    return pal_stream_write(r->stream, frames);
}

/* Whether the last frame is among these, for a format that does not examine each frame. */
static bool has_last(const relay *r, pal_str frames)
{
    size_t len = frames.len < END_FRAME_BYTES_MAX ? frames.len : END_FRAME_BYTES_MAX;
    const char *last = r->format->last;
    return len && memmem(frames.data + frames.len - len, len, last, strlen(last));
}

/* Sends the frames that the client gets. PAL_PROVIDER: a frame is unreadable. PAL_IO: the stream
 * accepts no more. */
static pal_status write_shown(relay *r, pal_str frames)
{
    if (!r->format->read_frame) {
        r->has_end = r->has_end || has_last(r, frames);
        return write_observed(r, frames, false) ? PAL_OK : PAL_IO;
    }
    while (frames.len) {
        size_t len = first_frame_len(frames);
        pal_str frame = pal_str_make(frames.data, len);
        pal_forward_frame use = r->format->read_frame(frame);
        if (use == PAL_FORWARD_FRAME_BAD)
            return PAL_PROVIDER;
        bool is_last = use == PAL_FORWARD_FRAME_LAST;
        if (use != PAL_FORWARD_FRAME_HIDE && !write_observed(r, frame, is_last))
            return PAL_IO;
        r->has_end = r->has_end || is_last || use == PAL_FORWARD_FRAME_ERROR;
        frames = pal_str_make(frames.data + len, frames.len - len);
    }
    return PAL_OK;
}

/* Sends an error, so that a client that waits for the end of the stream does not take this end for
 * a normal one. */
static void write_error(relay *r, const char *why)
{
    pal_buf frame;
    pal_log(PAL_LOG_WARN, "request %s: could not forward the stream: %s", r->request_id, why);
    pal_buf_init(&frame, FRAME_BYTES_MAX);
    r->format->put_error(&frame, pal_str_of(why));
    if (!frame.failure)
        (void)pal_stream_write(r->stream, pal_buf_str(&frame));
    pal_buf_done(&frame);
}

static void close_stream(relay *r)
{
    pal_stream_end(r->stream);
    r->stream = NULL;
}

/* The lock must be held. */
static void write_frames(relay *r, pal_str bytes)
{
    if (!r->stream)
        return;
    pal_buf_append_str(&r->pending, bytes);
    pal_str all = pal_buf_str(&r->pending);
    size_t len = all.len >= FRAME_BYTES_MAX / 2 ? all.len : frames_len(all, r->seen);
    pal_status status = r->pending.failure ? PAL_NO_MEMORY : PAL_OK;
    if (status == PAL_OK)
        status = write_shown(r, pal_str_make(all.data, len));
    /* If a frame cannot be kept, the stream ends, so that the client notices the gap. */
    if (status != PAL_OK) {
        if (status == PAL_PROVIDER)
            write_error(r, NOT_JSON);
        close_stream(r);
        leave(r);
        return;
    }
    pal_buf_consume(&r->pending, len);
    r->seen = r->pending.len;
}

/* ---- The stream ---- */

static void stream_gone(void *user)
{
    relay *r = user;
    pthread_mutex_lock(&r->lock);
    r->stream = NULL;
    leave(r);
    pthread_mutex_unlock(&r->lock);
    release(r);
}

/* The lock must be held. */
static void open_stream(relay *r)
{
    pal_call *call = r->call;
    pal_error err;
    r->holders++;
    r->stream = pal_run_stream(call, r->code, r->content_type, stream_gone, r);
    r->call = NULL;
    if (r->stream && r->format->stream_bytes)
        pal_stream_allow(r->stream, r->format->stream_bytes);
    if (r->stream)
        return;
    r->holders--;
    pal_status status = pal_run_refuse_stream(call, &err);
    pal_call_fail(call, status, &err);
    leave(r);
}

/* Whether the end of the stream is a part of an event. */
static bool is_cut(const relay *r, pal_str end)
{
    pal_json value;
    pal_str data = pal_text_trim(pal_run_forward_data(end));
    bool is_last = r->format->last && pal_str_is(data, r->format->last);
    pal_arena *arena = data.len && !is_last ? pal_arena_new(0) : NULL;
    bool is_json = arena && pal_json_parse(arena, data, NULL, &value, NULL) == PAL_OK;
    pal_arena_free(arena);
    return !is_last && !is_json;
}

/* Sends the last event, even if the model service did not write the empty line after it. Returns
 * why the stream is broken; NULL if it is not. */
static const char *write_rest(relay *r)
{
    pal_str rest = pal_buf_str(&r->pending);
    if (pal_text_is_blank(rest))
        return NULL;
    if (is_cut(r, rest))
        return r->has_end ? NULL : "the model service ended the stream in the middle of an event";
    pal_buf_append_text(&r->pending, pal_text_ends(rest, "\n") ? "\n" : "\n\n");
    return write_shown(r, pal_buf_str(&r->pending)) == PAL_PROVIDER ? NOT_JSON : NULL;
}

static void end_stream(relay *r, pal_status status, const pal_error *err)
{
    static const char missing[] = "the model service ended the stream before its last event";
    const char *why = NULL;
    if (!r->stream)
        return;
    if (status == PAL_OK)
        why = write_rest(r);
    else if (!r->has_end)
        why = err->message;
    if (!why && !r->has_end && r->format->requires_last)
        why = missing;
    if (why)
        write_error(r, why);
    else if (!r->has_end)
        pal_log(PAL_LOG_WARN, "request %s: %s", r->request_id, missing);
    if (r->last.len || (r->observer && !why && !r->has_end)) {
        r->holders++;
        r->is_waiting = true;
        await_observer(r);
    } else {
        close_stream(r);
    }
}

/* The observer has seen the complete stream. */
static void resume(void *user, pal_id session)
{
    relay *r = user;
    pthread_mutex_lock(&r->lock);
    finish_observed(r, session);
    if (r->stream) {
        if (r->last.len)
            (void)pal_stream_write(r->stream, pal_buf_str(&r->last));
        close_stream(r);
    }
    pthread_mutex_unlock(&r->lock);
    release(r);
}

/* ---- Responses without a stream ---- */

static void fail(pal_call *call, unsigned code, pal_status status, const char *why)
{
    pal_error err;
    status = pal_call_refuse(call, code, NULL, status, &err, "%s", why);
    pal_call_fail(call, status, &err);
}

/* Failures that the model service did not cause keep their own code. */
static unsigned code_of_end(pal_status status)
{
    if (status == PAL_BUDGET || status == PAL_BUSY || status == PAL_CORRUPT)
        return pal_call_http_code(status);
    return status == PAL_TIMEOUT ? 504 : status == PAL_CANCELED ? 503 : 502;
}

/* Whether a client can read the body: it must be JSON, and an error must be in the member "error",
 * as in the formats of OpenAI and Anthropic. */
static bool is_readable(const relay *r)
{
    pal_json value;
    if (pal_json_parse(r->call->arena, pal_buf_str(&r->pending), NULL, &value, NULL) != PAL_OK ||
            pal_json_type_of(value) != PAL_JSON_OBJECT)
        return false;
    return r->code < 400 || pal_json_type_of(pal_json_find(value, "error")) == PAL_JSON_OBJECT;
}

static void answer_unreadable(relay *r)
{
    char why[160];
    if (r->code < 400) {
        fail(r->call, 502, PAL_PROVIDER, "the model service sent a response that is not JSON");
        return;
    }
    snprintf(why, sizeof why,
            "the model service responded with code %u and a body that is not an error in JSON",
            r->code);
    fail(r->call, r->code, PAL_PROVIDER, why);
}

/* The forwarding has ended, so no other thread uses the call and the body. */
static void answer_read(relay *r)
{
    pal_call *call = r->call;
    if (!is_readable(r)) {
        answer_unreadable(r);
    } else if (call->idempotency_key.len && r->code < 300) {
        /* The response is stored under the idempotency key, which pal_call_send() does. */
        pal_json_put_raw(pal_call_writer(call), pal_buf_str(&r->pending));
        pal_call_send(call, r->code);
    } else {
        if (r->code >= 400)
            pal_log(PAL_LOG_WARN, "request %s: the model service responded with code %u",
                    r->request_id, r->code);
        pal_call_streaming(call);
        pal_exchange_answer_with(call->exchange, r->code, "application/json", &r->pending);
    }
    r->call = NULL;
}

static bool is_observed(const relay *r)
{
    return r->observer && r->code < 300;
}

/* Called on a worker, because a large body or the observer would block the loop. Does not hold the
 * lock, because the loop may wait for it. */
static void answer_on_worker(pal_exchange *x)
{
    pal_call *call = x->call;
    relay *r = call->user;
    if (is_observed(r))
        finish_observed(r, r->observer->body(r->observer_user, pal_buf_str(&r->pending)));
    answer_read(r);
    release(r);
}

/* The lock must be held. */
static void answer_body(relay *r)
{
    pal_call *call = r->call;
    if (r->pending.failure) {
        fail(call, 502, r->pending.failure, "the response of the model service is too large");
    } else if (r->pending.len <= PAL_SERVER_INLINE_BODY_BYTES_MAX && !is_observed(r)) {
        answer_read(r);
        return;
    } else {
        call->user = r;
        r->holders++;
        call->exchange->is_large = r->pending.len > PAL_SERVER_SMALL_BODY_BYTES_MAX;
        if (is_observed(r))
            await_observer(r);
        if (pal_exchange_try_worker(call->exchange, answer_on_worker))
            return;
        r->holders--;
        finish_observed(r, (pal_id){{0}});
        fail(call, 503, PAL_BUSY, "too many waiting requests; retry later");
    }
    r->call = NULL;
}

/* ---- Callbacks of the forwarding, on the loop ---- */

/* Passes on the headers that say when a client should retry. */
static void on_header(pal_str name, pal_str value, void *user)
{
    static const char *const passed[] = {"retry-after", "retry-after-ms", "x-should-retry"};
    relay *r = user;
    size_t limits_len = strlen(r->format->limits);
    char text[64];
    pthread_mutex_lock(&r->lock);
    if (pal_str_is(name, "content-type"))
        snprintf(r->content_type, sizeof r->content_type, "%.*s", PAL_STR_ARG(value));
    bool is_passed = name.len > limits_len && name.len < sizeof text &&
            memcmp(name.data, r->format->limits, limits_len) == 0;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        is_passed = is_passed || pal_str_is(name, passed[i]);
    if (is_passed) {
        snprintf(text, sizeof text, "%.*s", PAL_STR_ARG(name));
        pal_exchange_add_header(r->call->exchange, text, value);
    }
    pthread_mutex_unlock(&r->lock);
}

static void on_head(unsigned code, void *user)
{
    static const char type[] = "text/event-stream";
    relay *r = user;
    pthread_mutex_lock(&r->lock);
    r->code = code;
    r->is_stream = code < 400 && strncmp(r->content_type, type, sizeof type - 1) == 0;
    if (r->is_stream)
        open_stream(r);
    pthread_mutex_unlock(&r->lock);
}

static void on_bytes(pal_str bytes, void *user)
{
    relay *r = user;
    pthread_mutex_lock(&r->lock);
    if (r->is_stream)
        write_frames(r, bytes);
    else
        pal_buf_append_str(&r->pending, bytes);
    pthread_mutex_unlock(&r->lock);
}

static void on_end(pal_status status, const pal_error *err, void *user)
{
    relay *r = user;
    pthread_mutex_lock(&r->lock);
    if (r->is_stream)
        end_stream(r, status, err);
    else if (status == PAL_OK)
        answer_body(r);
    else
        fail(r->call, code_of_end(status), status, err->message);
    leave(r);
    bool is_waiting = r->is_waiting;
    pthread_mutex_unlock(&r->lock);
    if (is_waiting)
        r->observer->complete(r->observer_user, resume, r);
    release(r);
}

/* ---- Starting ---- */

pal_status pal_run_forward(pal_call *call, const pal_forward *request,
        const pal_forward_format *format, const pal_forward_observer *observer, void *user,
        pal_error *err)
{
    static const pal_forward_sink sink = {
            .header = on_header, .head = on_head, .bytes = on_bytes, .end = on_end};
    relay *r = pal_calloc(1, sizeof *r);
    if (!r)
        return pal_no_memory(err);
    pthread_mutex_init(&r->lock, NULL);
    pal_buf_init(&r->pending, PAL_PROVIDER_BODY_BYTES_MAX);
    pal_buf_init(&r->last, FRAME_BYTES_MAX);
    r->holders = 2; /* one for the forwarding, one for this function */
    r->call = call;
    r->format = format;
    r->observer = observer;
    r->observer_user = user;
    snprintf(r->request_id, sizeof r->request_id, "%.*s",
            PAL_STR_ARG(call->exchange->id));
    pthread_mutex_lock(&r->lock);
    pal_forward asked = *request;
    asked.has_late_session = observer ? 1 : 0;
    pal_status status =
            pal_runtime_forward(call->server->runtime, &asked, &sink, r, &r->forwarding, err);
    if (status != PAL_OK) {
        r->holders--;
        r->observer = NULL;
    } else {
        (void)pal_exchange_watch(call->exchange, client_left, r);
    }
    pthread_mutex_unlock(&r->lock);
    release(r);
    return status;
}
