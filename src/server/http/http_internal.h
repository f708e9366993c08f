/* http_internal.h - shared by the http*.c files: the listener, its connections, their
 * exchanges and streams.
 *
 * Threads: libmicrohttpd assigns every connection to one of its threads and makes all callbacks of
 * the connection on that thread. An exchange belongs to the connection's thread until its handler
 * is called. Then it belongs to the code that has to respond, and after the response to the
 * connection's thread again. `state` hands the exchange over. One more thread, the watch, accepts
 * connections and checks the deadlines of all connections.
 *
 * Locks: the listener's `lock` guards its lists. The lock of a stream is taken after it, never
 * before it. Callbacks of the layer above are called without a lock, with one exception: the `left`
 * callback of pal_exchange_watch() is called under the listener's lock. */
#ifndef PAL_HTTP_INTERNAL_H
#define PAL_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include "base/buf.h"
#include "base/map.h"
#include "base/queue.h"
#include "server/http/http.h"
#include "server/server_limits.h"

/* ---- Peers (http_peer.c) ---- */

typedef struct pal_proxy {
    struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;           /* the number of bits to compare, of 128 */
} pal_proxy;

/* Parses an address or a prefix: "10.0.0.1", "fd00::/8". */
PAL_CHECKED pal_status pal_peer_proxy_parse(pal_str text, pal_proxy *out_proxy, pal_error *err);

/* Finds the client's address: the rightmost address in the chain of proxies that is not trusted.
 * `forwarded_for` is the value of X-Forwarded-For and `forwarded` that of Forwarded; either can be
 * empty. At the call `out` holds the peer, the address that the connection comes from. On return it
 * holds the client's address. */
void pal_peer_resolve(const pal_proxy *proxies, size_t proxies_len, pal_str forwarded_for,
        pal_str forwarded, char out[INET6_ADDRSTRLEN]);

bool pal_peer_is_trusted(const pal_proxy *proxies, size_t proxies_len, pal_str peer);

/* ---- Connections ---- */

typedef struct pal_connection {
    struct pal_connection *prev, *next; /* guarded by the listener's lock */
    pal_listener *listener;
    struct MHD_Connection *mhd;
    int fd;
    /* The credentials of this connection; NULL: those from the listener's start. */
    struct pal_tls *tls;
    const char *crowd;         /* why its requests are refused; NULL: they are accepted */
    struct pal_share *address; /* the share that it counts in; NULL for a trusted proxy */
    bool has_place;            /* it counts in connections_max; guarded by the listener's lock */
    atomic_bool is_cut;        /* its deadline has passed, or it lost its place */
    atomic_bool was_used;      /* at least one request line has arrived */
    atomic_bool has_request;   /* a request line has arrived, and the exchange has not ended */
    /* When the request must have begun or be complete; 0: no deadline. */
    _Atomic int64_t deadline_us;
    char peer[INET6_ADDRSTRLEN];
} pal_connection;

/* ---- Exchanges (http_exchange.c) ---- */

/* Queues the response, or suspends the connection until there is a response. Runs on the
 * connection's thread. */
enum MHD_Result pal_exchange_settle(pal_exchange *x);
/* The exchange no longer counts in handled_len. Runs on the connection's thread. */
void pal_exchange_uncount(pal_exchange *x);
/* Counts a refusal and calls the layer above, which responds with this code. */
void pal_exchange_refuse(pal_exchange *x, unsigned code, const char *why);
/* Frees the body and subtracts it from bodies_len. */
void pal_exchange_free_body(pal_exchange *x);
/* Sets the response. Afterwards only the connection's thread may use the exchange. */
void pal_exchange_hand_over(pal_exchange *x, struct MHD_Response *response, unsigned code);
/* Gives the exchange a new id. */
void pal_exchange_set_id(pal_exchange *x);
void pal_exchange_decorate(
        const pal_exchange *x, struct MHD_Response *response, const char *content_type);

/* ---- Streams (http_stream.c) ---- */

struct pal_stream {
    pal_stream *prev, *next; /* guarded by the listener's lock */
    pal_connection *connection;
    pal_carried *carried; /* another protocol carries it; then only `owner` is used besides */
    pthread_mutex_t lock;
    pal_buf pending;
    size_t taken;       /* bytes of `pending` that libmicrohttpd has taken */
    uint64_t bytes_max; /* the most bytes that may wait in `pending` */
    /* The most bytes written to libmicrohttpd's buffer since its pages were released. */
    size_t touched;
    bool is_suspended; /* there is nothing to send; the next write resumes the connection */
    bool is_ended;
    bool is_dropped;
    uint64_t bytes;
    struct pal_share *owner; /* the share that it counts in; may be NULL */
    _Atomic int64_t written_us;
    void (*gone)(void *user);
    void *user;
};

/* True if this version of libmicrohttpd was checked: a connection's buffer is private memory of the
 * process, so its pages can be released while a stream is idle. */
bool pal_stream_can_release_pages(const char *version);
/* The connection is done with the stream: calls `gone`, then frees the stream. Returns the number
 * of bytes that were sent. */
uint64_t pal_stream_finish(pal_stream *stream);
/* Sends a comment if nothing was written for heartbeat_ms. Call it under the listener's lock. */
void pal_stream_beat(pal_stream *stream, int64_t now_us);
/* The client has left, or is disconnected now. Call it under the listener's lock. */
void pal_stream_drop(pal_stream *stream);

/* Counts one stream of streams_max and one of the owner's. False: one of the limits is reached. */
bool pal_share_claim_stream(pal_exchange *x, struct pal_share **out_owner);
void pal_share_release_stream(pal_listener *listener, struct pal_share *owner);

/* ---- Long responses (http_pull.c) ---- */

typedef struct pal_pull pal_pull;

/* The connection is done with the response: calls `done`. Returns the number of bytes that were
 * sent. */
uint64_t pal_pull_finish(pal_pull *pull);

/* ---- Requests that another protocol carries (http_carried.c) ---- */

pal_str pal_carried_header(const pal_exchange *x, const char *name);
void pal_carried_answer(pal_exchange *x, unsigned code, pal_str body);
/* The same as the functions for streams and exchanges in http.h. */
pal_stream *pal_carried_stream(
        pal_exchange *x, unsigned code, void (*gone)(void *user), void *user);
bool pal_carried_write(pal_stream *stream, pal_str bytes);
void pal_carried_end(pal_stream *stream);
void pal_carried_watch(pal_exchange *x, void (*left)(void *user), void *user);
void pal_carried_unwatch(pal_exchange *x);
/* Runs the callbacks that are due. On the watch's thread. */
void pal_carried_attend(pal_listener *listener);

/* ---- The listener ---- */

/* The watch looks for the end of this connection. Either `stream` or `left` is set. */
typedef struct pal_watched {
    pal_stream *stream;
    void (*left)(void *user);
    void *user;
} pal_watched;

typedef struct pal_linger {
    int fd;
    int64_t deadline_us;
} pal_linger;

/* Limits that can change while the server listens. */
typedef struct pal_listener_limits {
    atomic_uint_fast64_t body_bytes_max;
    atomic_uint_fast64_t bodies_bytes_max;
    atomic_uint_fast64_t streams_max;
    atomic_uint_fast64_t stream_bytes_max;
    _Atomic int64_t request_ms;
    _Atomic int64_t heartbeat_ms;
} pal_listener_limits;

/* Threads for requests that would block a thread of the listener. They are started when they are
 * needed. */
typedef struct pal_worker_pool {
    pal_listener *listener;
    pal_queue *queue;
    pthread_t threads[PAL_SERVER_WORKERS_MAX];
    uint32_t len; /* guarded by the listener's lock */
    uint32_t len_max;
    atomic_uint idle;
} pal_worker_pool;

struct pal_listener {
    pal_listener_options options;
    pal_config_server config; /* from the start; the values in `limits` replace those here */
    pal_listener_limits limits;
    pal_proxy *proxies;
    size_t proxies_len;
    struct MHD_Daemon *daemon;
    bool is_tls;
    bool can_release_pages; /* see pal_stream_can_release_pages() */
    int listen_fd;
    uint16_t port;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* signaled while closing, when an exchange or a stream ends */
    struct pal_tls *tls;    /* guarded by `lock`; NULL: the files were not reloaded */
    pal_connection *connections, *oldest; /* the newest and the oldest connection */
    uint64_t places_len;                  /* connections that have a place */
    pal_stream *streams;
    pal_watched *watched; /* indexed by the connection's file descriptor */
    size_t watched_len;
    pal_linger lingers[PAL_SERVER_LINGERS_MAX];
    size_t lingers_len;

    /* The watch thread. */
    pthread_t watch;
    bool has_watch;
    int epoll_fd;
    int wake_fd;
    bool is_listening; /* listen_fd is in the epoll set; used by the watch only */
    /* When it last logged that it cannot accept connections; 0: never; used by the watch only. */
    int64_t refused_us;
    atomic_bool is_quiet;
    atomic_bool is_closing;
    atomic_bool is_over;

    pal_carried *due; /* guarded by `lock`: requests whose callbacks the watch has to call */

    pal_worker_pool workers;       /* for all requests except those with large bodies */
    pal_worker_pool large_workers; /* for large bodies, which then delay only each other */
    /* Guarded by `lock`; one list for each thread of libmicrohttpd. */
    struct pal_unfinished *unfinished;
    pal_map addresses;    /* guarded by `lock`: connections, counted by address */
    pal_map owners;       /* guarded by `lock`: streams, counted by owner */
    uint32_t address_max; /* the most connections of one address */

    atomic_uint_fast64_t connections_len;
    atomic_uint_fast64_t streams_len;
    atomic_uint_fast64_t bodies_len;  /* bytes of all bodies in memory */
    atomic_uint_fast64_t handled_len; /* exchanges that have no response yet */
    atomic_uint_fast64_t requests;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t dropped;
};

/* Counts an exchange that is about to be handled. False: the listener is closing, and nothing was
 * counted. */
bool pal_listener_begin(pal_listener *listener);
/* Returns the bytes of bodies that can still be kept, for all requests together. */
uint64_t pal_listener_room(pal_listener *listener);
/* Call this when an exchange or a stream has ended. Wakes pal_listener_close(), which may wait for
 * it. */
void pal_listener_notify(pal_listener *listener);

/* http_request.c: the callbacks of libmicrohttpd. `user` is the listener. */
void pal_request_connection(void *user, struct MHD_Connection *mhd, void **context,
        enum MHD_ConnectionNotificationCode code);
void *pal_request_line(void *user, const char *target, struct MHD_Connection *mhd);
enum MHD_Result pal_request_more(void *user, struct MHD_Connection *mhd, const char *url,
        const char *method, const char *version, const char *data, size_t *data_len,
        void **context);
void pal_request_done(void *user, struct MHD_Connection *mhd, void **context,
        enum MHD_RequestTerminationCode code);

/* Writes the response past libmicrohttpd. The connection is closed afterwards. */
enum MHD_Result pal_request_refuse_raw(pal_exchange *x, unsigned code, const char *why);

/* http_unfinished.c: everything runs on the connection's thread. */

/* An exchange is in the list from its request line until it is complete or refused. */
void pal_unfinished_add(pal_exchange *x);
void pal_unfinished_remove(pal_exchange *x);
void pal_unfinished_free(pal_listener *listener); /* call it when the threads have ended */
/* libmicrohttpd is about to refuse a request with this code and this page. */
void pal_unfinished_refuse(unsigned code, const char *message);

/* http_head.c: returns 0, or the code to refuse the request with and the reason. *out_length
 * is the length of the body that the head announces, or 0. */
unsigned pal_head_check(pal_exchange *x, const char *method, const char *version,
        uint64_t *out_length, const char **out_why);

/* http_tls.c */
typedef struct pal_tls pal_tls;
/* Reads both files. Each buffer ends with a NUL. */
PAL_CHECKED pal_status pal_tls_read(
        const pal_config_server *config, pal_buf *certificate, pal_buf *key, pal_error *err);
/* Returns the error for files that are not a certificate and its key. */
pal_status pal_tls_refuse(const pal_config_server *config, pal_error *err);
/* Reads the files again. Connections that are opened from now on use the new certificate. On
 * failure nothing has changed. */
PAL_CHECKED pal_status pal_tls_reload(
        pal_listener *listener, const pal_config_server *config, pal_error *err);
/* Sets the reloaded credentials for a connection that was just opened, and returns them. The caller
 * releases them with pal_tls_unref(). NULL: there are none. */
pal_tls *pal_tls_use(pal_listener *listener, struct MHD_Connection *mhd);
void pal_tls_unref(pal_tls *tls); /* accepts NULL */

/* http_watch.c */
PAL_CHECKED pal_status pal_watch_open(pal_listener *listener, pal_error *err);
void pal_watch_stop(pal_listener *listener);  /* call it before the daemon is stopped */
void pal_watch_close(pal_listener *listener); /* call it after the daemon was stopped */
void pal_watch_wake(pal_listener *listener);
/* Watches the client of a stream from now on. False: out of memory, or the watch failed. */
bool pal_watch_add_stream(pal_listener *listener, pal_stream *stream);
void pal_watch_remove_stream(pal_listener *listener, pal_stream *stream);
/* Reads and discards what the client still sends, so that the client can read the response. */
void pal_watch_linger(pal_listener *listener, int fd);

/* http_worker.c */
PAL_CHECKED pal_status pal_worker_pools_open(pal_listener *listener, pal_error *err);
void pal_worker_pools_end(pal_listener *listener);

/* http_share.c */

/* Adds a connection to the list; its peer and deadline must be set. Sets `crowd` if there is no
 * place for the connection. False: the connection must be closed without a response. */
bool pal_share_enter(pal_connection *connection);
void pal_share_leave(pal_connection *connection);

#endif
