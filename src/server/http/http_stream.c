/* http_stream.c - responses in pieces.
 *
 * Written bytes wait in the stream. libmicrohttpd fetches them when the socket accepts more. The
 * connection is suspended while there is nothing to send. An idle stream then costs little more
 * than its connection: its buffer is freed, and the pages of libmicrohttpd's buffer are released
 * (docs/decisions/009-http-server.md has the measurements).
 *
 * While the connection is suspended, the watch notices that the client leaves. A client that does
 * not read is disconnected when more than stream_bytes_max bytes wait for it. The limit grows by
 * the length of a single frame that is longer than the limit, up to PAL_SERVER_FRAME_BYTES_MAX. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "server/http/http_internal.h"

#define BLOCK_BYTES 256 /* a client of HTTP/1.0 gets this many bytes at a time */

bool pal_stream_can_release_pages(const char *version)
{
    unsigned major = 0, minor = 0, patch = 0;
    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) != 3)
        return false;
    return (major == 0 && minor == 9 && patch >= 75) || (major == 1 && minor == 0);
}

/* Releases the pages of the buffer that fetch() may fill, if that is worth a system call. For the
 * private memory that the buffer is in, this is the same as filling it with zeros, which fetch() is
 * allowed to do: libmicrohttpd reads only the bytes that fetch() returns. */
static void release_pages(pal_stream *stream, char *buffer, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)buffer + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)buffer + len) / page * page;
    if (!stream->connection->listener->can_release_pages || stream->touched <= page || to <= from)
        return;
    madvise((void *)from, to - from, MADV_DONTNEED);
    stream->touched = 0;
}

static size_t take(pal_stream *stream, char *buffer, size_t len_max)
{
    size_t len = stream->pending.len - stream->taken;
    if (len > len_max)
        len = len_max;
    if (len == 0)
        return 0;
    memcpy(buffer, stream->pending.data + stream->taken, len);
    stream->taken += len;
    stream->bytes += len;
    if (stream->taken == stream->pending.len) {
        pal_buf_done(&stream->pending);
        stream->taken = 0;
    }
    if (stream->touched < len)
        stream->touched = len;
    return len;
}

/* The callback of libmicrohttpd. Runs on the connection's thread. */
static ssize_t fetch(void *user, uint64_t position, char *buffer, size_t len_max)
{
    pal_stream *stream = user;
    ssize_t len = 0;
    (void)position;
    pthread_mutex_lock(&stream->lock);
    if (stream->is_dropped) {
        len = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (stream->pending.len) {
        len = (ssize_t)take(stream, buffer, len_max);
    } else if (stream->is_ended) {
        len = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        release_pages(stream, buffer, len_max);
        stream->is_suspended = true;
        MHD_suspend_connection(stream->connection->mhd);
    }
    pthread_mutex_unlock(&stream->lock);
    return len;
}

/* Call it when something has changed for fetch(), under the stream's lock. */
static void wake(pal_stream *stream)
{
    if (!stream->is_suspended)
        return;
    stream->is_suspended = false;
    MHD_resume_connection(stream->connection->mhd);
}

/* Call it under the stream's lock. */
static void drop(pal_stream *stream)
{
    stream->is_dropped = true;
    pal_buf_done(&stream->pending);
    stream->taken = 0;
    /* If the socket is full, fetch() would never be called again. */
    if (!stream->is_suspended)
        shutdown(stream->connection->fd, SHUT_RDWR);
    wake(stream);
}

/* Call it under the stream's lock. */
static bool append(pal_stream *stream, pal_str bytes)
{
    pal_listener *listener = stream->connection->listener;
    uint64_t waits = stream->pending.len - stream->taken;
    if (stream->is_dropped || stream->is_ended)
        return false;
    if (stream->taken > stream->pending.len / 2) {
        pal_buf_consume(&stream->pending, stream->taken);
        stream->taken = 0;
    }
    /* One frame that is longer than the limit does not mean that the client is slow. */
    if (bytes.len > stream->bytes_max && bytes.len <= PAL_SERVER_FRAME_BYTES_MAX &&
            waits <= stream->bytes_max)
        stream->bytes_max += bytes.len;
    if (waits > stream->bytes_max || bytes.len > stream->bytes_max - waits)
        stream->pending.failure = PAL_LIMIT;
    pal_buf_append_str(&stream->pending, bytes);
    if (stream->pending.failure) {
        atomic_fetch_add(&listener->dropped, 1);
        drop(stream);
        return false;
    }
    atomic_store(&stream->written_us, pal_clock_monotonic_us());
    wake(stream);
    return true;
}

bool pal_stream_write(pal_stream *stream, pal_str bytes)
{
    if (bytes.len == 0)
        return true;
    if (stream->carried)
        return pal_carried_write(stream, bytes);
    pthread_mutex_lock(&stream->lock);
    bool is_taken = append(stream, bytes);
    pthread_mutex_unlock(&stream->lock);
    return is_taken;
}

void pal_stream_allow(pal_stream *stream, uint64_t bytes_max)
{
    if (stream->carried)
        return; /* the carrier has its own limit */
    pthread_mutex_lock(&stream->lock);
    if (stream->bytes_max < bytes_max)
        stream->bytes_max = bytes_max;
    pthread_mutex_unlock(&stream->lock);
}

void pal_stream_end(pal_stream *stream)
{
    if (stream->carried) {
        pal_carried_end(stream);
        return;
    }
    pthread_mutex_lock(&stream->lock);
    stream->is_ended = true;
    wake(stream);
    pthread_mutex_unlock(&stream->lock);
}

void pal_stream_beat(pal_stream *stream, int64_t now_us)
{
    int64_t beat_us = stream->connection->listener->limits.heartbeat_ms * 1000;
    if (now_us - atomic_load(&stream->written_us) < beat_us)
        return;
    pthread_mutex_lock(&stream->lock);
    /* Otherwise bytes are waiting, and sending them shows whether the client is there. */
    if (stream->is_suspended)
        (void)append(stream, pal_str_of(": \n\n"));
    pthread_mutex_unlock(&stream->lock);
}

void pal_stream_drop(pal_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    drop(stream);
    pthread_mutex_unlock(&stream->lock);
}

/* ---- Open and close ---- */

static void unlink_stream(pal_listener *listener, pal_stream *stream)
{
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        listener->streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
}

static pal_stream *new_stream(pal_exchange *x)
{
    pal_listener *listener = x->listener;
    pal_stream *stream = pal_calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->connection = x->connection;
    pthread_mutex_init(&stream->lock, NULL);
    pal_buf_init(&stream->pending, SIZE_MAX / 4); /* append() limits the bytes that wait */
    stream->touched = SIZE_MAX;
    stream->bytes_max = listener->limits.stream_bytes_max;
    atomic_init(&stream->written_us, pal_clock_monotonic_us());
    pthread_mutex_lock(&listener->lock);
    bool is_watched = pal_watch_add_stream(listener, stream);
    if (is_watched) {
        stream->next = listener->streams;
        if (stream->next)
            stream->next->prev = stream;
        listener->streams = stream;
    }
    pthread_mutex_unlock(&listener->lock);
    if (is_watched)
        return stream;
    pthread_mutex_destroy(&stream->lock);
    pal_free(stream);
    return NULL;
}

static void free_stream(pal_stream *stream)
{
    pal_listener *listener = stream->connection->listener;
    pthread_mutex_lock(&listener->lock);
    pal_watch_remove_stream(listener, stream);
    unlink_stream(listener, stream);
    pthread_mutex_unlock(&listener->lock);
    pal_buf_done(&stream->pending);
    pthread_mutex_destroy(&stream->lock);
    pal_free(stream);
    pal_listener_notify(listener);
}

uint64_t pal_stream_finish(pal_stream *stream)
{
    /* From now on writes fail, because the connection must not be resumed any more. */
    pthread_mutex_lock(&stream->lock);
    stream->is_dropped = true;
    stream->is_suspended = false;
    uint64_t bytes = stream->bytes;
    pthread_mutex_unlock(&stream->lock);
    /* Release first: the `gone` callback may open the next stream. */
    pal_share_release_stream(stream->connection->listener, stream->owner);
    stream->gone(stream->user);
    free_stream(stream);
    return bytes;
}

pal_stream *pal_exchange_stream(pal_exchange *x, unsigned code, const char *content_type,
        void (*gone)(void *user), void *user)
{
    pal_listener *listener = x->listener;
    struct pal_share *owner;
    if (x->carried)
        return pal_carried_stream(x, code, gone, user);
    if (x->is_raw || !pal_share_claim_stream(x, &owner))
        return NULL;
    pal_exchange_unwatch(x); /* from here on the stream reports that the client leaves */
    pal_stream *stream = new_stream(x);
    struct MHD_Response *response = stream
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, fetch, stream, NULL)
            : NULL;
    if (!response) {
        if (stream)
            free_stream(stream);
        pal_share_release_stream(listener, owner);
        return NULL;
    }
    stream->owner = owner;
    stream->gone = gone;
    stream->user = user;
    pal_exchange_decorate(x, response, content_type);
    pal_exchange_free_body(x);
    x->stream = stream;
    pal_exchange_hand_over(x, response, code);
    return stream;
}
