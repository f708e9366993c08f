/* server_http_inside.h - what the server_http*.c files share: the listener, its connections, their
 * exchanges and streams.
 *
 * Who touches what. libmicrohttpd gives every connection to one of its threads, the connection's
 * own; all its callbacks come there. An exchange belongs to that thread until its handler is
 * called, then to whoever has to answer, and from the answer on to that thread again: `state` hands
 * it over. One more thread, the watch, accepts connections and looks at the clock for all of them.
 *
 * Locks: the listener's `lock` guards its lists. A stream's own lock comes after it; neither is
 * held while anything of the layer above is called. */
#ifndef PAL_SERVER_HTTP_INSIDE_H
#define PAL_SERVER_HTTP_INSIDE_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include "base/buf.h"
#include "base/map.h"
#include "base/queue.h"
#include "server/server_http.h"
#include "server/server_limits.h"

/* ---- Peers (server_http_peer.c) ---- */

typedef struct pal_proxy {
    struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;           /* that count, of 128 */
} pal_proxy;

/* "10.0.0.1", "fd00::/8". */
PAL_CHECKED pal_status pal_proxy_parse(pal_str text, pal_proxy *out_proxy, pal_error *err);

/* The client's address: the rightmost one of a chain of proxies that is not trusted.
 * `forwarded_for` is X-Forwarded-For, `forwarded` is Forwarded, either may be empty. Writes its
 * text to `out`, which holds `peer` already, the address that the connection comes from. */
void pal_peer_resolve(const pal_proxy *proxies, size_t proxies_len, pal_str forwarded_for,
        pal_str forwarded, char out[INET6_ADDRSTRLEN]);

bool pal_peer_is_trusted(const pal_proxy *proxies, size_t proxies_len, pal_str peer);

/* ---- Connections ---- */

typedef struct pal_connection {
    struct pal_connection *prev, *next; /* the listener's lock */
    pal_listener *listener;
    struct MHD_Connection *mhd;
    int fd;
    struct pal_tls *tls;         /* credentials that it was given; NULL: the listener's first */
    const char *crowd;           /* why its requests are refused; NULL: they are not */
    struct pal_share *address;   /* whose share it takes; NULL: a trusted proxy's */
    bool has_place;              /* the listener's lock: it counts in connections_max */
    atomic_bool is_cut;          /* by its deadline */
    atomic_bool was_used;        /* a request has come */
    atomic_bool has_request;     /* its line is there, and it is not answered yet */
    _Atomic int64_t deadline_us; /* by when a request must begin, or be whole; 0: nothing waits */
    char peer[INET6_ADDRSTRLEN];
} pal_connection;

/* ---- Exchanges ---- */

/* Only the connection's own thread looks at it. */
typedef enum pal_phase {
    PAL_PHASE_HEAD = 0, /* the request line is there */
    PAL_PHASE_BODY = 1,
    PAL_PHASE_HANDLED = 2, /* the handler was called, or the request was refused */
} pal_phase;

typedef enum pal_exchange_state {
    PAL_EXCHANGE_OPEN = 0,
    PAL_EXCHANGE_SUSPENDED = 1, /* the connection is: who answers resumes it */
    PAL_EXCHANGE_ANSWERED = 2,
} pal_exchange_state;

typedef struct pal_exchange_line {
    struct pal_exchange_line *next;
    const char *name;
    const char *value;
} pal_exchange_line;

struct pal_exchange { /* in its own arena */
    pal_listener *listener;
    pal_connection *connection;
    pal_arena *arena;
    void *user;
    pal_str target; /* as it was sent */
    pal_str path;
    pal_str query;
    pal_str method;
    pal_str peer;
    pal_str id;
    pal_buf body;
    uint64_t body_max;  /* that may arrive */
    uint64_t body_len;  /* that has arrived */
    uint64_t body_held; /* of it, counted in bodies_len */
    bool has_body;      /* the head announces one */
    bool is_chunked;    /* likewise, and not how long it is */
    bool is_admitted;
    pal_str owner; /* whose streams are counted; empty: nobody's */
    uint32_t owner_streams_max;
    bool is_owner_full; /* no stream could be had because of that */
    bool is_large; /* it waits for a worker for large bodies */
    pal_phase phase;
    bool is_counted; /* in handled_len */
    bool is_watched; /* somebody wants to know when the client leaves */
    bool is_raw;     /* it is answered past libmicrohttpd, which takes no answer at that point */
    bool has_more;   /* the client may still be sending when the answer goes out */
    struct pal_unfinished *unfinished; /* the list that it is in; NULL: in none */
    pal_exchange *earlier, *later;     /* in it */
    const char *target_at; /* where it lies with libmicrohttpd: for comparing only */
    atomic_int state;      /* pal_exchange_state */
    pal_exchange_work work;
    pal_exchange_line *lines; /* of the answer */
    struct MHD_Response *response;
    pal_stream *stream;
    struct pal_pull *pull;
    unsigned code; /* 0: not answered */
    uint64_t bytes;
    int64_t started_us;
};

/* server_http.c */

/* Sends the answer on its way, or suspends the connection until there is one. On its own thread. */
enum MHD_Result pal_exchange_settle(pal_exchange *x);
/* It is handled no longer. On its own thread. */
void pal_exchange_uncount(pal_exchange *x);
/* Refuses it by the layer above, on its own thread. */
void pal_exchange_refuse(pal_exchange *x, unsigned code, const char *why);
/* Its body is not needed any more. */
void pal_exchange_free_body(pal_exchange *x);
/* Gives it the response; then nobody but the connection's own thread may touch it. */
void pal_exchange_hand_over(pal_exchange *x, struct MHD_Response *response, unsigned code);
void pal_exchange_decorate(
        const pal_exchange *x, struct MHD_Response *response, const char *content_type);

/* ---- Streams (server_http_stream.c) ---- */

struct pal_stream {
    pal_stream *prev, *next; /* the listener's lock */
    pal_connection *connection;
    pthread_mutex_t lock;
    pal_buf pending;
    size_t taken;       /* of pending, by libmicrohttpd */
    uint64_t bytes_max; /* that may wait in it */
    size_t touched;     /* the most bytes of its buffer that were written since pages were let go */
    bool is_suspended;  /* nothing to send: who writes resumes it */
    bool is_ended;
    bool is_dropped;
    uint64_t bytes;
    struct pal_share *owner; /* whose share it takes; may be NULL */
    _Atomic int64_t written_us;
    void (*gone)(void *user);
    void *user;
};

/* The connection is done: tells `gone`, and frees it. Returns how many bytes were sent. */
uint64_t pal_stream_finish(pal_stream *stream);
/* Sends a comment where nothing was written for heartbeat_ms. Under the listener's lock. */
void pal_stream_beat(pal_stream *stream, int64_t now_us);
/* The client is gone, or is let go. Under the listener's lock. */
void pal_stream_drop(pal_stream *stream);

/* One of streams_max, and of its owner's; false: all are open. */
bool pal_streams_claim(pal_exchange *x, struct pal_share **out_owner);
void pal_streams_release(pal_listener *listener, struct pal_share *owner);

/* ---- Long answers (server_http_pull.c) ---- */

typedef struct pal_pull pal_pull;

/* The connection is done: tells `done`. Returns how many bytes were sent. */
uint64_t pal_pull_finish(pal_pull *pull);

/* ---- The listener ---- */

/* Whose client may leave: one of the two. */
typedef struct pal_watched {
    pal_stream *stream;
    void (*left)(void *user);
    void *user;
} pal_watched;

typedef struct pal_linger {
    int fd;
    int64_t deadline_us;
} pal_linger;

/* What may change while it listens. */
typedef struct pal_listener_limits {
    atomic_uint_fast64_t body_bytes_max;
    atomic_uint_fast64_t bodies_bytes_max;
    atomic_uint_fast64_t streams_max;
    atomic_uint_fast64_t stream_bytes_max;
    _Atomic int64_t request_ms;
    _Atomic int64_t heartbeat_ms;
} pal_listener_limits;

/* Threads for requests that would hold up a listener's: started when they are needed. */
typedef struct pal_worker_pool {
    pal_listener *listener;
    pal_queue *queue;
    pthread_t threads[PAL_SERVER_WORKERS_MAX];
    uint32_t len; /* the listener's lock */
    uint32_t len_max;
    atomic_uint idle;
} pal_worker_pool;

struct pal_listener {
    pal_listener_options options;
    pal_config_server config; /* as it was opened; of `limits`, those count */
    pal_listener_limits limits;
    pal_proxy *proxies;
    size_t proxies_len;
    struct MHD_Daemon *daemon;
    bool is_tls;
    int listen_fd;
    uint16_t port;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* while closing: fewer exchanges or streams */
    struct pal_tls *tls;    /* `lock`; NULL: the files were not read anew */
    pal_connection *connections, *oldest; /* both ends of the list */
    uint64_t places_len;                  /* of them, that have a place */
    pal_stream *streams;
    pal_watched *watched; /* by the number of the connection's file */
    size_t watched_len;
    pal_linger lingers[PAL_SERVER_LINGERS_MAX];
    size_t lingers_len;

    /* The watch. */
    pthread_t watch;
    bool has_watch;
    int epoll_fd;
    int wake_fd;
    bool is_listening; /* the watch's own: listen_fd is in its epoll set */
    int64_t refused_us; /* likewise: when it last said that nothing can be accepted; 0: never */
    atomic_bool is_quiet;
    atomic_bool is_closing;
    atomic_bool is_over;

    pal_worker_pool workers;       /* for all requests but those with large bodies */
    pal_worker_pool large_workers; /* so that large bodies hold up each other only */
    struct pal_unfinished *unfinished; /* `lock`: one for each of its threads */
    pal_map addresses;         /* `lock`: whose connections are counted, by their names */
    pal_map owners;            /* likewise: whose streams */
    uint32_t address_max;      /* connections of one of them */

    atomic_uint_fast64_t connections_len;
    atomic_uint_fast64_t streams_len;
    atomic_uint_fast64_t bodies_len; /* bytes of all bodies that are held */
    atomic_uint_fast64_t handled_len; /* exchanges whose answer is not there yet */
    atomic_uint_fast64_t requests;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t dropped;
};

/* An exchange or a stream has ended: whoever closes the listener may be waiting for it. */
void pal_listener_tell(pal_listener *listener);

/* server_http_request.c: libmicrohttpd's callbacks. `user` is the listener. */
void pal_request_connection(void *user, struct MHD_Connection *mhd, void **context,
        enum MHD_ConnectionNotificationCode code);
void *pal_request_line(void *user, const char *target, struct MHD_Connection *mhd);
enum MHD_Result pal_request_more(void *user, struct MHD_Connection *mhd, const char *url,
        const char *method, const char *version, const char *data, size_t *data_len,
        void **context);
void pal_request_done(void *user, struct MHD_Connection *mhd, void **context,
        enum MHD_RequestTerminationCode code);

/* Answers past libmicrohttpd; the connection is closed then. */
enum MHD_Result pal_request_refuse_raw(pal_exchange *x, unsigned code, const char *why);

/* server_http_malformed.c: all on the connection's own thread. */

/* From its line on until it is whole, or refused. */
void pal_unfinished_add(pal_exchange *x);
void pal_unfinished_remove(pal_exchange *x);
void pal_unfinished_free(pal_listener *listener); /* when its threads have ended */
/* libmicrohttpd is about to refuse a request with that code and that page. */
void pal_malformed_answer(unsigned code, const char *message);

/* server_http_head.c: 0, or the code to refuse the request with, and why. *out_length is what the
 * head says of the body's; 0: nothing. */
unsigned pal_head_check(pal_exchange *x, const char *method, const char *version,
        uint64_t *out_length, const char **out_why);

/* server_http_tls.c */
typedef struct pal_tls pal_tls;
/* The files' bytes, a NUL behind each. */
PAL_CHECKED pal_status pal_tls_read(
        const pal_config_server *config, pal_buf *certificate, pal_buf *key, pal_error *err);
/* What was read is no certificate and its key. */
pal_status pal_tls_refuse(const pal_config_server *config, pal_error *err);
/* Connections that are opened from now on are shown what the files have. On failure nothing has
 * changed. */
PAL_CHECKED pal_status pal_tls_reload(
        pal_listener *listener, const pal_config_server *config, pal_error *err);
/* Gives them to a connection that was just opened; NULL where there are none. Its own until
 * pal_tls_unref(). */
pal_tls *pal_tls_use(pal_listener *listener, struct MHD_Connection *mhd);
void pal_tls_unref(pal_tls *tls); /* accepts NULL */

/* server_http_watch.c */
PAL_CHECKED pal_status pal_watch_open(pal_listener *listener, pal_error *err);
void pal_watch_stop(pal_listener *listener);  /* before the daemon is stopped */
void pal_watch_close(pal_listener *listener); /* afterwards */
void pal_watch_wake(pal_listener *listener);
/* The stream's client is watched from now on; false without memory. */
bool pal_watch_add_stream(pal_listener *listener, pal_stream *stream);
void pal_watch_remove_stream(pal_listener *listener, pal_stream *stream);
/* Nobody is told any more that the client has left. Before anything is answered. */
void pal_exchange_unwatch(pal_exchange *x);
/* What the client still sends is read and thrown away, so that it gets to see the answer. */
void pal_watch_linger(pal_listener *listener, int fd);

/* server_http_worker.c */
PAL_CHECKED pal_status pal_worker_pools_open(pal_listener *listener, pal_error *err);
void pal_worker_pools_end(pal_listener *listener);

/* server_http_address.c */

/* Puts a connection whose peer and deadline are set into the list. If it gets no place, sets
 * `crowd`. False: there is not even room for a refusal. */
bool pal_connection_enter(pal_connection *connection);
void pal_connection_leave(pal_connection *connection);

#endif
