/* http.h - HTTP for the handlers: a complete request and one response. The response is given
 * at once, later from any thread, or in pieces. Only http*.c use libmicrohttpd.
 *
 * Threads: a handler runs on one of the listener's threads, or on a worker if its route requires
 * one. Only one thread at a time uses an exchange. Any thread can write to a stream. */
#ifndef PAL_HTTP_H
#define PAL_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/config.h"
#include "palaver/error.h"
#include "palaver/str.h"

typedef struct pal_listener pal_listener;
typedef struct pal_exchange pal_exchange;
struct pal_call; /* belongs to the layer above (server_call.h) */

/* ---- The request ---- */

typedef void (*pal_exchange_work)(pal_exchange *x);

/* Private, like the last members of pal_exchange: how far the request is. Used on the connection's
 * thread only. */
typedef enum pal_exchange_phase {
    PAL_EXCHANGE_PHASE_HEAD = 0, /* the request line has arrived */
    PAL_EXCHANGE_PHASE_BODY = 1,
    PAL_EXCHANGE_PHASE_HANDLED = 2, /* the handler was called, or the request was refused */
} pal_exchange_phase;

typedef enum pal_exchange_state {
    PAL_EXCHANGE_OPEN = 0,
    PAL_EXCHANGE_SUSPENDED = 1, /* the connection is suspended; the response resumes it */
    PAL_EXCHANGE_ANSWERED = 2,
} pal_exchange_state;

typedef struct pal_exchange_line {
    struct pal_exchange_line *next;
    const char *name;
    const char *value;
} pal_exchange_line;

/* The header of a request that another node has passed on (node/node_pass.h). */
#define PAL_PASS_HEADER "x-palaver-node"

/* Headers that many requests are checked for, so they are found once, when the head has arrived.
 * pal_exchange_header() finds the others. */
#define PAL_EXCHANGE_HEADERS(HEADER)             \
    HEADER(accept_encoding, "accept-encoding")   \
    HEADER(api_key, "x-api-key")                 \
    HEADER(authorization, "authorization")       \
    HEADER(content_encoding, "content-encoding") \
    HEADER(content_type, "content-type")         \
    HEADER(cookie, "cookie")                     \
    HEADER(fetch_site, "sec-fetch-site")         \
    HEADER(host, "host")                         \
    HEADER(idempotency_key, "idempotency-key")   \
    HEADER(origin, "origin")                     \
    HEADER(page_half, "x-palaver-page")          \
    HEADER(pass_token, PAL_PASS_HEADER)          \
    HEADER(request_id, "x-request-id")           \
    HEADER(session, "x-palaver-session")         \
    HEADER(tenant, "x-palaver-tenant")           \
    HEADER(traceparent, "traceparent")           \
    HEADER(upgrade, "upgrade")

/* The values of these headers; empty if a header is missing or empty. */
typedef struct pal_exchange_headers {
#define PAL_EXCHANGE_HEADER_MEMBER(member, name) pal_str member;
    PAL_EXCHANGE_HEADERS(PAL_EXCHANGE_HEADER_MEMBER)
#undef PAL_EXCHANGE_HEADER_MEMBER
} pal_exchange_headers;

/* One request and its response. Handlers read the first members. It is in its own arena. */
struct pal_exchange {
    pal_str method;
    pal_str path;      /* unchanged, without the query */
    pal_str query;     /* not decoded */
    pal_buf body;      /* empty: there is none, or it is no longer needed */
    uint64_t body_len; /* bytes of the body that have arrived */
    pal_str peer;      /* the client's address, or the one that a trusted proxy reports */
    pal_str id;        /* the request's id: the client's if it is valid, otherwise a new one */
    pal_exchange_headers headers;
    pal_arena *arena;  /* lives until the response was sent */
    /* The call that the layer above has begun (server_call.h); NULL: not yet. */
    struct pal_call *call;
    bool is_owner_full; /* a stream was refused because its owner has reached the limit */

    /* The layer above can set these. */
    pal_str owner; /* streams are counted by owner; empty: not counted. In the arena */
    uint32_t owner_streams_max; /* streams of that owner at the same time; 0: no limit */
    uint64_t body_max; /* a longer body is refused with 413; body_bytes_max at first. Only the
                          listener's `admit` sets it */
    bool is_large; /* uses the workers for large bodies, so that other requests need not wait */
    struct pal_carried *carried; /* another protocol carries the request; NULL: it came by HTTP */

    /* Private: used by http_*.c only. */
    pal_listener *listener;
    struct pal_connection *connection;
    pal_str target;     /* unchanged, with the query */
    uint64_t body_held; /* bytes of this body that are counted in bodies_len */
    bool has_body;      /* the head announces a body */
    bool is_chunked;    /* the body has chunks: the head does not announce its length */
    bool is_admitted;
    pal_exchange_phase phase;
    bool is_counted;    /* counted in handled_len */
    bool is_watched;    /* pal_exchange_watch() has a callback for this exchange */
    bool is_raw; /* the response is written past libmicrohttpd, which accepts none at this point */
    bool has_more; /* the client may still be sending when the response is sent */
    struct pal_unfinished *unfinished; /* the list that contains it; NULL: not in a list */
    pal_exchange *earlier, *later;     /* neighbors in that list */
    /* The address of the target in libmicrohttpd's memory; only for comparing. */
    const char *target_at;
    atomic_int state; /* pal_exchange_state */
    pal_exchange_work work;
    pal_exchange_line *lines; /* header lines of the response */
    struct MHD_Response *response;
    struct pal_stream *stream;
    struct pal_pull *pull;
    unsigned code; /* status code of the response; 0: no response yet */
    uint64_t bytes;
    int64_t started_us;
};

/* The part of an address that identifies one client: all of IPv4, the first 64 bits of IPv6. */
#define PAL_PEER_SIZE 46
void pal_peer_block(pal_str peer, char out[PAL_PEER_SIZE]);
/* The value of a header; empty if the header is missing or empty. The case of the name does not
 * matter. */
pal_str pal_exchange_header(const pal_exchange *x, const char *name);
/* Calls `each` for every header, until it returns false. Not for carried requests. */
void pal_exchange_each_header(
        pal_exchange *x, bool (*each)(pal_str name, pal_str value, void *user), void *user);
/* The value of a query parameter, decoded. False: there is no such parameter. */
bool pal_exchange_query(pal_exchange *x, const char *name, pal_str *out_value);
/* The name of the next query parameter, decoded. `*at` is 0 at first. False: there are no more. */
bool pal_exchange_query_next(pal_exchange *x, size_t *at, pal_str *out_name);

/* ---- The response: exactly one response or stream; a handler may return before it ---- */

/* Adds a header to the response. Copies both texts. Call it before the response. */
void pal_exchange_add_header(pal_exchange *x, const char *name, pal_str value);

/* Sends the response. Can be called from any thread, while the handler runs or later. Copies the
 * body. The exchange must not be used afterwards. */
void pal_exchange_answer(pal_exchange *x, unsigned code, const char *content_type, pal_str body);
/* The same, but takes the body's memory instead of copying it. `body` is empty afterwards. */
void pal_exchange_answer_with(
        pal_exchange *x, unsigned code, const char *content_type, pal_buf *body);

/* Runs `work` on a worker. `work` responds, or passes the exchange on. The caller must not use the
 * exchange afterwards. The request is refused with 503 if PAL_SERVER_WORK_QUEUE_MAX requests are
 * waiting or no worker can be started. */
void pal_exchange_to_worker(pal_exchange *x, pal_exchange_work work);
/* The same, but returns false instead of refusing. The exchange then still belongs to the
 * caller. */
bool pal_exchange_try_worker(pal_exchange *x, pal_exchange_work work);

/* Calls `left` if the client leaves before the response. `left` is called at most once, on a
 * listener's thread and under a lock that the response takes: it must not block and must not use
 * the exchange. A stream reports this by itself. Can be called from any thread, once, before the
 * response. False: the client cannot be watched. */
bool pal_exchange_watch(pal_exchange *x, void (*left)(void *user), void *user);
/* Removes that callback, if there is one: `left` is not called after this. The response and
 * pal_exchange_stream() remove it too. */
void pal_exchange_unwatch(pal_exchange *x);

/* ---- Streams ---- */

typedef struct pal_stream pal_stream;

/* Sends the body in pieces. `gone` is called once, on a listener's thread, when no more can be
 * sent: the client left, was too slow (stream_bytes_max), or the end was sent. The stream must not
 * be used after `gone` has returned. The exchange must not be used after this call.
 *
 * If this is not called from a handler on the connection's thread, `gone` can be called before this
 * function returns. Then hold the lock that `gone` takes around this call and around every use of
 * the stream; nothing here waits for that lock. Returns NULL, and never calls `gone`, if
 * streams_max or the owner's streams are open or memory is missing. Then send a response
 * instead. */
pal_stream *pal_exchange_stream(pal_exchange *x, unsigned code, const char *content_type,
        void (*gone)(void *user), void *user);

/* Copies the bytes. False: the stream accepts no more, and `gone` is or was called. Can be called
 * from any thread, until `gone`. */
bool pal_stream_write(pal_stream *stream, pal_str bytes);
/* Lets this many bytes wait for a slow client, if that is more than stream_bytes_max. For callers
 * that know how much they will write. */
void pal_stream_allow(pal_stream *stream, uint64_t bytes_max);
/* Ends the stream: sends what was written, then ends the response. Call it once. */
void pal_stream_end(pal_stream *stream);

/* If nothing was written for heartbeat_ms, the listener sends a comment by itself: ": \n\n". */

/* ---- Long responses ---- */

typedef enum pal_pulled {
    PAL_PULLED_MORE = 0,
    PAL_PULLED_END = 1, /* everything has been written */
    /* The connection is cut, so that the client sees that something is missing. */
    PAL_PULLED_FAILED = 2,
} pal_pulled;

/* Produces the body in pieces, not faster than the client reads it. `more` runs on a worker when
 * the client has taken the previous piece; it appends the next piece to `out`, about 100 KB. `done`
 * is called once, on a listener's thread, after the last piece. If the client leaves, `more` is not
 * called again.
 *
 * Both callbacks may use the exchange's arena. The exchange itself must not be used after this
 * call. The response counts as a stream. Returns false, and calls nothing, if streams_max or the
 * owner's streams are open or memory is missing. Then send a response instead. */
bool pal_exchange_pull(pal_exchange *x, unsigned code, const char *content_type,
        pal_pulled (*more)(pal_buf *out, void *user), void (*done)(void *user), void *user);

/* ---- Compressed responses (http_gzip.c) ---- */

/* Returns whether an Accept-Encoding header allows gzip. Any thread. */
bool pal_gzip_is_accepted(pal_str accept_encoding);
/* Appends the compressed text to a buffer. Returns false if this failed or saves nothing. Any
 * thread. */
bool pal_gzip_compress(pal_str text, pal_buf *out);

/* ---- Switching to another protocol (http_upgrade.c) ---- */

typedef struct pal_upgrade pal_upgrade; /* a connection that no longer speaks HTTP */

/* Responds with 101, and gives the connection to `switched`, which is called once, on the
 * connection's thread: `fd` is the socket (over TLS, a socket pair that libmicrohttpd serves), and
 * `early` are bytes that arrived with the request. If `upgrade` is NULL, there was no memory, and
 * the connection is closed. Add the headers before. The exchange must not be used afterwards. */
void pal_exchange_upgrade(pal_exchange *x, const char *protocol,
        void (*switched)(pal_upgrade *upgrade, int fd, pal_str early, void *user), void *user);
/* Closes the connection, and its socket. Can be called from any thread, once. */
void pal_upgrade_close(pal_upgrade *upgrade);

/* ---- Requests that another protocol carries (http_carried.c) ---- */

/* How the response to such a request reaches the client. */
typedef struct pal_carrier {
    /* The value of a header; empty: there is none. */
    pal_str (*header)(const char *name, void *user);
    /* Sends the one response. */
    void (*answer)(unsigned code, pal_str body, void *user);
    /* Sends a piece of a stream. False: the client has left. */
    bool (*write)(pal_str bytes, void *user);
    /* Called once, last: the exchange is over. Can be called from any thread, also before
     * pal_carried_begin() returns. */
    void (*ended)(void *user);
} pal_carrier;

typedef struct pal_carried pal_carried; /* a request that another protocol carries */

typedef struct pal_carried_request {
    const char *method;
    const char *path;
    pal_str peer;
    pal_str body;
    const pal_carrier *carrier;
    void *user;
} pal_carried_request;

/* Handles a request as if it had arrived by HTTP: with the same checks, limits, handlers, log and
 * metrics. Copies the request. NULL: the listener is closing or memory is missing, and nothing is
 * called. Otherwise the caller releases the result. */
pal_carried *pal_carried_begin(pal_listener *listener, const pal_carried_request *request);
/* The client has left. Can be called from any thread, more than once. */
void pal_carried_leave(pal_carried *carried);
void pal_carried_release(pal_carried *carried); /* accepts NULL */
/* Returns the `user` of the request, or NULL if the exchange arrived by HTTP or over another
 * carrier. */
void *pal_carried_user(const pal_exchange *x, const pal_carrier *carrier);

/* ---- The listener ---- */

typedef struct pal_listener_counts {
    uint64_t connections; /* connections that are open now */
    uint64_t streams;     /* streams that are open now */
    uint64_t requests;    /* all requests with a response */
    uint64_t refused;     /* requests and connections that were refused before a handler ran */
    uint64_t dropped;     /* streams whose reader was too slow */
} pal_listener_counts;

typedef struct pal_listener_options {
    const pal_config_server *config;
    bool is_local; /* only clients on this machine can connect */
    /* Called once when the head has arrived, before the body is read. May be NULL. False: it has
     * responded, and nothing else but `ended` is called. Runs on the connection's thread. */
    bool (*admit)(pal_exchange *x, void *user);
    /* Called once for every request that is complete and within its limits. */
    void (*handle)(pal_exchange *x, void *user);
    /* Called for other requests: `code` is 400, 408, 413, 414, 431, 501 or 503. It responds in the
     * API's error envelope before it returns, and not with a stream. Only the path, the method and
     * the headers can be present. */
    void (*refuse)(pal_exchange *x, unsigned code, const char *why, void *user);
    /* Called after every response was sent or could not be sent, for logs and metrics. This is the
     * last use of the exchange. */
    void (*ended)(
            pal_exchange *x, unsigned code, uint64_t bytes_sent, int64_t duration_us, void *user);
    void *user;
} pal_listener_options;

PAL_CHECKED pal_status pal_listener_open(
        const pal_listener_options *options, pal_listener **out_listener, pal_error *err);
/* Applies the limits and the certificate of `config`: body_bytes_max, bodies_bytes_max,
 * streams_max, stream_bytes_max, request_ms, heartbeat_ms, tls_certificate, tls_key. On failure the
 * old certificate stays in use; the new limits are applied. */
PAL_CHECKED pal_status pal_listener_reload(
        pal_listener *listener, const pal_config_server *config, pal_error *err);
bool pal_listener_is_tls(const pal_listener *listener);
/* The port that the system chose, if the configured port is 0. */
uint16_t pal_listener_port(const pal_listener *listener);
/* Accepts no new connections, and closes the connections that have no request. */
void pal_listener_quiesce(pal_listener *listener);
/* Waits for the handlers, ends the streams, and closes the listener. Accepts NULL. */
void pal_listener_close(pal_listener *listener);
void pal_listener_count(pal_listener *listener, pal_listener_counts *out_counts);

#endif
