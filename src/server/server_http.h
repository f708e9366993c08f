/* server_http.h - HTTP as the handlers see it: a request that has arrived whole, and one answer,
 * given at once, later from any thread, or piece by piece. libmicrohttpd is known to
 * server_http*.c only.
 *
 * Threads: a handler runs on one of the listener's threads, or on a worker where its route says so.
 * One request is touched by one thread at a time; a stream may be written to by any thread. */
#ifndef PAL_SERVER_HTTP_H
#define PAL_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/config.h"
#include "palaver/error.h"
#include "palaver/str.h"

typedef struct pal_listener pal_listener;
typedef struct pal_exchange pal_exchange; /* one request and its answer */

/* ---- The request ---- */

pal_str pal_exchange_method(const pal_exchange *x); /* "POST" */
pal_str pal_exchange_path(const pal_exchange *x);   /* as it was sent, without the query */
pal_str pal_exchange_body(const pal_exchange *x);   /* empty: none, or not needed any more */
uint64_t pal_exchange_body_len(const pal_exchange *x); /* how much of it has arrived */
pal_str pal_exchange_peer(const pal_exchange *x);   /* the client's address, by a trusted proxy's
                                                       word where one stands between */
pal_str pal_exchange_id(const pal_exchange *x);     /* the request's; the client's where it sent one
                                                       that is fit */
/* The part of an address that one client has: all of IPv4, the first 64 bits of IPv6. */
#define PAL_PEER_SIZE 46
void pal_peer_block(pal_str peer, char out[PAL_PEER_SIZE]);
pal_arena *pal_exchange_arena(pal_exchange *x);     /* lives until the answer is sent */
/* Empty: it has none, or an empty one. Names in any case. */
pal_str pal_exchange_header(const pal_exchange *x, const char *name);
pal_str pal_exchange_query_text(const pal_exchange *x); /* the query as it was sent */
/* A member of the query, decoded; false: it has none. */
bool pal_exchange_query(pal_exchange *x, const char *name, pal_str *out_value);
/* The next parameter's name, decoded; `*at` begins at 0. False: there are no more. */
bool pal_exchange_query_next(pal_exchange *x, size_t *at, pal_str *out_name);
/* From the listener's `admit`: a longer body is refused, as one over body_bytes_max always is. */
void pal_exchange_limit_body(pal_exchange *x, uint64_t bytes_max);
/* Whose stream it may become, and how many that owner may have at once; 0: no bound. In the arena.
 */
void pal_exchange_set_owner(pal_exchange *x, pal_str owner, uint32_t streams_max);
/* Whether it got no stream because its owner has as many already. */
bool pal_exchange_is_owner_full(const pal_exchange *x);
/* What a layer above keeps with it. */
void pal_exchange_set_user(pal_exchange *x, void *user);
void *pal_exchange_user(const pal_exchange *x);

/* ---- The answer: exactly one of answer, stream; a handler may return before it ---- */

/* Copied. Before the answer. */
void pal_exchange_add_header(pal_exchange *x, const char *name, pal_str value);

/* From any thread, while the handler runs or later; x must not be used any more. The body is
 * copied.
 */
void pal_exchange_answer(pal_exchange *x, unsigned code, const char *content_type, pal_str body);
/* Likewise, but the memory of the body is taken over, and not copied. `body` is empty then. */
void pal_exchange_answer_with(
        pal_exchange *x, unsigned code, const char *content_type, pal_buf *body);

/* Runs `work` on a worker; it answers, or leaves that to somebody else in turn. x must not be used
 * any more by whoever calls this. Where PAL_SERVER_WORK_QUEUE_MAX wait already, it is refused. */
typedef void (*pal_exchange_work)(pal_exchange *x);
void pal_exchange_to_worker(pal_exchange *x, pal_exchange_work work);
/* Likewise, but false instead of a refusal: then it is still the caller's. */
bool pal_exchange_try_worker(pal_exchange *x, pal_exchange_work work);
/* Whether it waits for the workers for large bodies, so that others don't wait behind it. */
void pal_exchange_set_large(pal_exchange *x, bool is_large);

/* Tells `left` when the client leaves before it is answered, once, on a thread of the listener's
 * and under a lock that the answer takes: it must neither block nor use the exchange. A stream
 * tells that by itself. From any thread, once, before the answer; false where it can't. */
bool pal_exchange_watch(pal_exchange *x, void (*left)(void *user), void *user);

/* ---- Streams ---- */

typedef struct pal_stream pal_stream;

/* The body comes piece by piece. `gone` is told once, on a listener's thread, when no more can be
 * sent: the client left, was too slow (stream_bytes_max), or the end was sent. The stream must not
 * be used after it returned, and the exchange not any more after this call. Outside of a handler on
 * the listener's own thread, `gone` may come before this returns: hold the lock that `gone` takes
 * around this call and around every use of the stream; nothing here waits for it. NULL, and nothing
 * is told, where streams_max are open: then answer. */
pal_stream *pal_exchange_stream(pal_exchange *x, unsigned code, const char *content_type,
        void (*gone)(void *user), void *user);

/* Copies. False: it takes no more; `gone` is told, or was. From any thread, until `gone`. */
bool pal_stream_write(pal_stream *stream, pal_str bytes);
/* So many bytes may wait for a slow client, where that is more than stream_bytes_max: for who knows
 * how much it will be. */
void pal_stream_allow(pal_stream *stream, uint64_t bytes_max);
/* Nothing comes any more: what was written is sent, then the connection is done. Once. */
void pal_stream_end(pal_stream *stream);

/* A comment is sent by itself where nothing was written for heartbeat_ms: ": \n\n". */

/* ---- Long answers ---- */

typedef enum pal_pulled {
    PAL_PULLED_MORE = 0,
    PAL_PULLED_END = 1,    /* all has been written */
    PAL_PULLED_FAILED = 2, /* it is cut off, so that the client sees that it lacks some */
} pal_pulled;

/* The body is made piece by piece, no faster than the client takes it: `more` runs on a worker
 * whenever the piece before has been taken, and appends the next one to `out`, some 100 KB of it.
 * `done` is told once, on a listener's thread, after the last; where the client leaves, nobody asks
 * for more. Both may use what lies in the exchange's arena; the exchange itself must not be used
 * any more after this call. Counts as a stream: false, and nothing is told, where streams_max are
 * open or there is no memory; then answer. */
bool pal_exchange_pull(pal_exchange *x, unsigned code, const char *content_type,
        pal_pulled (*more)(pal_buf *out, void *user), void (*done)(void *user), void *user);

/* ---- The listener ---- */

typedef struct pal_listener_counts {
    uint64_t connections; /* open now */
    uint64_t streams;     /* likewise */
    uint64_t requests;    /* answered, ever */
    uint64_t refused;     /* by a limit, before any handler saw them */
    uint64_t dropped;     /* streams whose reader was too slow */
} pal_listener_counts;

typedef struct pal_listener_options {
    const pal_config_server *config;
    bool is_local; /* only this machine can connect */
    /* May be NULL. Called once when the head is there, before a body is taken: false where it has
     * answered, and nothing else is called then. On the connection's own thread. */
    bool (*admit)(pal_exchange *x, void *user);
    /* Called once for every request that arrived whole and within its limits. */
    void (*handle)(pal_exchange *x, void *user);
    /* Called for one that did not: `code` is 400, 408, 413, 414, 431, 501 or 503; it answers in the
     * API's own envelope, before it returns, and with no stream. Only the path, the method and the
     * headers may be there. */
    void (*refuse)(pal_exchange *x, unsigned code, const char *why, void *user);
    /* Told after every answer was sent, or could not be; for logs and metrics. The last use of x.
     */
    void (*ended)(
            pal_exchange *x, unsigned code, uint64_t bytes_sent, int64_t duration_us, void *user);
    void *user;
} pal_listener_options;

PAL_CHECKED pal_status pal_listener_open(
        const pal_listener_options *options, pal_listener **out_listener, pal_error *err);
/* Limits and the certificate as they are in `config`: body_bytes_max, bodies_bytes_max,
 * streams_max, stream_bytes_max, request_ms, heartbeat_ms, tls_certificate, tls_key. On failure the
 * certificate stays as it was; the limits count. */
PAL_CHECKED pal_status pal_listener_reload(
        pal_listener *listener, const pal_config_server *config, pal_error *err);
bool pal_listener_is_tls(const pal_listener *listener);
/* The port that it got, where 0 was asked for. */
uint16_t pal_listener_port(const pal_listener *listener);
/* No new connections; those that have no request are closed. */
void pal_listener_quiesce(pal_listener *listener);
/* Ends the streams, waits for the handlers, closes. Accepts NULL. */
void pal_listener_close(pal_listener *listener);
void pal_listener_count(pal_listener *listener, pal_listener_counts *out_counts);

#endif
