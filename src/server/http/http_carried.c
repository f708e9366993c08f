/* http_carried.c - requests that another protocol carries, such as messages of a WebSocket. They
 * are exchanges without a connection of their own: the carrier knows the headers and sends the
 * response.
 *
 * Two sides hold a pal_carried, and they end in any order: the exchange, and the caller of
 * pal_carried_begin(). The last one frees it. Its lock guards `stream`, `left` and the flags.
 *
 * The end of a stream and a client that leaves are reported by the watch, because both are noticed
 * while the layer above holds locks that its callbacks take. Such a request is in the listener's
 * list `due` until the watch has made the callbacks. The listener's lock is taken last. */
#include <stdatomic.h>
#include "base/clock.h"
#include "base/memory.h"
#include "server/http/http_internal.h"

struct pal_carried {
    const pal_carrier *carrier;
    void *user;
    pal_listener *listener;
    pal_exchange *exchange;
    atomic_uint holders;
    pthread_mutex_t lock;
    bool is_left;       /* the client has left */
    bool is_due;        /* in the listener's list */
    bool is_finished;   /* the stream has ended, or cannot be written any more */
    pal_stream *stream; /* NULL if there is none, or if it was freed */
    void (*left)(void *user); /* see pal_exchange_watch(); NULL: none, or it was called */
    void *left_user;
    pal_carried *next; /* in the list; guarded by the listener's lock */
};

void pal_carried_release(pal_carried *carried)
{
    if (!carried || atomic_fetch_sub(&carried->holders, 1) != 1)
        return;
    pthread_mutex_destroy(&carried->lock);
    pal_free(carried);
}

void *pal_carried_user(const pal_exchange *x, const pal_carrier *carrier)
{
    return x->carried && x->carried->carrier == carrier ? x->carried->user : NULL;
}

/* The watch calls what is due. The request's lock must be held. */
static void make_due(pal_carried *carried)
{
    pal_listener *listener = carried->listener;
    if (carried->is_due)
        return;
    carried->is_due = true;
    atomic_fetch_add(&carried->holders, 1);
    pthread_mutex_lock(&listener->lock);
    carried->next = listener->due;
    listener->due = carried;
    pthread_mutex_unlock(&listener->lock);
    pal_watch_wake(listener);
}

/* ---- The end of an exchange ---- */

static void end_exchange(pal_carried *carried)
{
    pal_exchange *x = carried->exchange;
    pal_listener *listener = carried->listener;
    atomic_fetch_add(&listener->requests, 1);
    listener->options.ended(x, x->code, x->bytes, pal_clock_monotonic_us() - x->started_us,
            listener->options.user);
    pal_exchange_free_body(x);
    pal_arena_free(x->arena);
    carried->carrier->ended(carried->user);
    pal_carried_release(carried);
}

void pal_carried_answer(pal_exchange *x, unsigned code, pal_str body)
{
    pal_carried *carried = x->carried;
    x->code = code;
    x->bytes = body.len;
    carried->carrier->answer(code, body, carried->user);
    pal_exchange_uncount(x);
    end_exchange(carried);
}

/* ---- Streams ---- */

pal_stream *pal_carried_stream(
        pal_exchange *x, unsigned code, void (*gone)(void *user), void *user)
{
    pal_carried *carried = x->carried;
    struct pal_share *owner;
    pal_stream *stream = pal_calloc(1, sizeof *stream);
    if (!stream || !pal_share_claim_stream(x, &owner)) {
        pal_free(stream);
        return NULL;
    }
    stream->carried = carried;
    stream->owner = owner;
    stream->gone = gone;
    stream->user = user;
    x->code = code;
    pal_exchange_free_body(x);
    pthread_mutex_lock(&carried->lock);
    carried->left = NULL; /* from here on the stream reports that the client leaves */
    carried->stream = stream;
    if (carried->is_left) {
        carried->is_finished = true;
        make_due(carried);
    }
    pthread_mutex_unlock(&carried->lock);
    pal_exchange_uncount(x);
    return stream;
}

bool pal_carried_write(pal_stream *stream, pal_str bytes)
{
    pal_carried *carried = stream->carried;
    pthread_mutex_lock(&carried->lock);
    bool is_sent = !carried->is_finished && carried->carrier->write(bytes, carried->user);
    if (is_sent) {
        stream->bytes += bytes.len;
    } else if (!carried->is_finished) {
        carried->is_finished = true;
        make_due(carried);
    }
    pthread_mutex_unlock(&carried->lock);
    return is_sent;
}

void pal_carried_end(pal_stream *stream)
{
    pal_carried *carried = stream->carried;
    pthread_mutex_lock(&carried->lock);
    if (!carried->is_finished) {
        carried->is_finished = true;
        make_due(carried);
    }
    pthread_mutex_unlock(&carried->lock);
}

/* ---- A client that leaves ---- */

pal_str pal_carried_header(const pal_exchange *x, const char *name)
{
    return x->carried->carrier->header(name, x->carried->user);
}

void pal_carried_watch(pal_exchange *x, void (*left)(void *user), void *user)
{
    pal_carried *carried = x->carried;
    pthread_mutex_lock(&carried->lock);
    carried->left = left;
    carried->left_user = user;
    if (carried->is_left)
        make_due(carried);
    pthread_mutex_unlock(&carried->lock);
}

void pal_carried_unwatch(pal_exchange *x)
{
    pthread_mutex_lock(&x->carried->lock);
    x->carried->left = NULL;
    pthread_mutex_unlock(&x->carried->lock);
}

void pal_carried_leave(pal_carried *carried)
{
    pthread_mutex_lock(&carried->lock);
    carried->is_left = true;
    if (carried->stream && !carried->is_finished) {
        carried->is_finished = true;
        make_due(carried);
    } else if (carried->left) {
        make_due(carried);
    }
    pthread_mutex_unlock(&carried->lock);
}

/* ---- The watch ---- */

/* `left` is called with the lock held, so that pal_exchange_unwatch() waits for it. */
static void attend(pal_carried *carried)
{
    pthread_mutex_lock(&carried->lock);
    carried->is_due = false;
    void (*left)(void *user) = carried->is_left ? carried->left : NULL;
    if (left) {
        carried->left = NULL;
        left(carried->left_user);
    }
    pal_stream *stream = carried->is_finished ? carried->stream : NULL;
    if (stream)
        carried->stream = NULL;
    pthread_mutex_unlock(&carried->lock);
    if (!stream)
        return;
    carried->exchange->bytes = stream->bytes;
    /* Release first: the `gone` callback may open the next stream. */
    pal_share_release_stream(carried->listener, stream->owner);
    stream->gone(stream->user);
    pal_free(stream);
    end_exchange(carried);
}

void pal_carried_attend(pal_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    pal_carried *carried = listener->due;
    listener->due = NULL;
    pthread_mutex_unlock(&listener->lock);
    while (carried) {
        pal_carried *next = carried->next;
        attend(carried);
        pal_carried_release(carried);
        carried = next;
    }
}

/* ---- The beginning ---- */

static pal_exchange *new_exchange(pal_listener *listener, const pal_carried_request *request)
{
    pal_arena *arena = pal_arena_new(0);
    pal_exchange *x = arena ? pal_arena_alloc(arena, sizeof *x) : NULL;
    if (!x) {
        pal_arena_free(arena);
        return NULL;
    }
    x->listener = listener;
    x->arena = arena;
    x->started_us = pal_clock_monotonic_us();
    x->method = pal_arena_copy(arena, pal_str_of(request->method));
    x->target = pal_arena_copy(arena, pal_str_of(request->path));
    x->path = x->target;
    x->peer = pal_arena_copy(arena, request->peer);
    x->phase = PAL_EXCHANGE_PHASE_HANDLED;
    x->body_max = listener->limits.body_bytes_max;
    x->body_len = request->body.len;
    x->is_large = request->body.len > PAL_SERVER_SMALL_BODY_BYTES_MAX;
    atomic_init(&x->state, PAL_EXCHANGE_OPEN);
    pal_exchange_set_id(x);
    pal_buf_init(&x->body, x->body_max);
    if (pal_arena_failure(arena)) {
        pal_arena_free(arena);
        return NULL;
    }
    return x;
}

static pal_carried *new_carried(pal_listener *listener, const pal_carried_request *request)
{
    pal_carried *carried = pal_calloc(1, sizeof *carried);
    pal_exchange *x = carried ? new_exchange(listener, request) : NULL;
    if (!x) {
        pal_free(carried);
        return NULL;
    }
    carried->carrier = request->carrier;
    carried->user = request->user;
    carried->listener = listener;
    carried->exchange = x;
    atomic_init(&carried->holders, 2);
    pthread_mutex_init(&carried->lock, NULL);
    x->carried = carried;
#define FIND(member, name) x->headers.member = request->carrier->header(name, request->user);
    PAL_EXCHANGE_HEADERS(FIND)
#undef FIND
    return carried;
}

/* Takes the body, if there is room for it. */
static bool take_body(pal_exchange *x, pal_str body)
{
    if (body.len > pal_listener_room(x->listener))
        return false;
    atomic_fetch_add(&x->listener->bodies_len, body.len);
    x->body_held = body.len;
    pal_buf_append_str(&x->body, body);
    return !x->body.failure;
}

pal_carried *pal_carried_begin(pal_listener *listener, const pal_carried_request *request)
{
    const pal_listener_options *options = &listener->options;
    pal_carried *carried = new_carried(listener, request);
    if (!carried)
        return NULL;
    pal_exchange *x = carried->exchange;
    if (!pal_listener_begin(listener)) {
        pal_arena_free(x->arena);
        pthread_mutex_destroy(&carried->lock);
        pal_free(carried);
        return NULL;
    }
    x->is_counted = true;
    if (request->body.len > x->body_max)
        pal_exchange_refuse(x, 413, "the message is longer than server.body_bytes_max");
    else if (!take_body(x, request->body))
        pal_exchange_refuse(x, 503, "too many large requests at the same time; retry later");
    else if (!options->admit || options->admit(x, options->user))
        options->handle(x, options->user);
    return carried;
}
