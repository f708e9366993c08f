/* http_pull.c - long responses that are produced no faster than the client reads them.
 *
 * libmicrohttpd and a worker take turns. libmicrohttpd takes the current piece. When it needs more,
 * the connection is suspended and a worker makes the next piece, then resumes the connection. So
 * the piece belongs to one thread at a time. A client that does not read costs one piece and no
 * thread until the idle timeout. Unlike a stream, the connection never waits for an event. So the
 * watch does not look for clients that leave, and there are no heartbeats. */
#include <string.h>
#include "base/memory.h"
#include "server/http/http_internal.h"

#define BLOCK_BYTES 16384 /* a client of HTTP/1.0 gets this many bytes at a time */

struct pal_pull { /* allocated in the exchange's arena */
    pal_exchange *exchange;
    pal_buf piece;
    size_t taken; /* bytes of the piece that libmicrohttpd has taken */
    pal_pulled state;
    uint64_t bytes;
    struct pal_share *owner;
    pal_pulled (*more)(pal_buf *out, void *user);
    void (*done)(void *user);
    void *user;
};

/* No piece is being made any more. pal_listener_close() may wait for this. */
static void leave(pal_listener *listener)
{
    atomic_fetch_sub(&listener->handled_len, 1);
    pal_listener_notify(listener);
}

/* Runs on a worker, while the connection is suspended. */
static void make_piece(pal_exchange *x)
{
    pal_pull *pull = x->pull;
    pal_listener *listener = x->listener;
    do
        pull->state = pull->more(&pull->piece, pull->user);
    while (pull->state == PAL_PULLED_MORE && pull->piece.len == 0 && !pull->piece.failure);
    if (pull->piece.failure)
        pull->state = PAL_PULLED_FAILED;
    /* From here on x belongs to the connection's thread. */
    MHD_resume_connection(x->connection->mhd);
    leave(listener);
}

/* Counts first, then checks whether the listener is closing: one of the two threads sees the
 * other. */
static void ask_for_more(pal_pull *pull)
{
    pal_exchange *x = pull->exchange;
    pal_listener *listener = x->listener;
    atomic_fetch_add(&listener->handled_len, 1);
    MHD_suspend_connection(x->connection->mhd);
    if (!atomic_load(&listener->is_closing) && pal_exchange_try_worker(x, make_piece))
        return;
    pull->state = PAL_PULLED_FAILED;
    MHD_resume_connection(x->connection->mhd);
    leave(listener);
}

static size_t take(pal_pull *pull, char *buffer, size_t len_max)
{
    size_t len = pull->piece.len - pull->taken;
    if (len > len_max)
        len = len_max;
    if (len == 0)
        return 0;
    memcpy(buffer, pull->piece.data + pull->taken, len);
    pull->taken += len;
    pull->bytes += len;
    if (pull->taken == pull->piece.len) {
        pal_buf_done(&pull->piece);
        pull->taken = 0;
    }
    return len;
}

/* The callback of libmicrohttpd. Runs on the connection's thread. */
static ssize_t fetch(void *user, uint64_t position, char *buffer, size_t len_max)
{
    pal_pull *pull = user;
    (void)position;
    if (pull->piece.len)
        return (ssize_t)take(pull, buffer, len_max);
    if (pull->state == PAL_PULLED_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (pull->state == PAL_PULLED_FAILED)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    ask_for_more(pull);
    return 0;
}

uint64_t pal_pull_finish(pal_pull *pull)
{
    pal_buf_done(&pull->piece);
    pal_share_release_stream(pull->exchange->listener, pull->owner);
    pull->done(pull->user);
    return pull->bytes;
}

bool pal_exchange_pull(pal_exchange *x, unsigned code, const char *content_type,
        pal_pulled (*more)(pal_buf *out, void *user), void (*done)(void *user), void *user)
{
    pal_pull *pull = pal_arena_alloc(x->arena, sizeof *pull);
    struct pal_share *owner;
    if (x->is_raw || x->carried || !pull || !pal_share_claim_stream(x, &owner))
        return false;
    *pull = (pal_pull){.exchange = x, .owner = owner, .more = more, .done = done, .user = user};
    pal_buf_init(&pull->piece, SIZE_MAX / 4);
    struct MHD_Response *response =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, fetch, pull, NULL);
    if (!response) {
        pal_share_release_stream(x->listener, owner);
        return false;
    }
    pal_exchange_decorate(x, response, content_type);
    pal_exchange_free_body(x);
    x->pull = pull;
    pal_exchange_hand_over(x, response, code);
    return true;
}
