/* http_request.c - an arriving request: the callbacks of libmicrohttpd, all on the
 * connection's thread.
 *
 *   connection opened      the request line must arrive within idle_ms
 *   request line           an exchange is created; the request must be complete within request_ms
 *   head                   checked (http_head.c), then admitted or refused by the layer
 *                          above, which knows routes and keys. Bodies of callers without access
 *                          are never kept
 *   body, in pieces        collected up to body_bytes_max, and bodies_bytes_max for all bodies
 *   complete               the handler is called
 *   again                  a suspended connection was resumed: there is a response
 *   done                   the response was sent or failed; the exchange ends */
#include <arpa/inet.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "palaver/id.h"
#include "server/http/http_internal.h"

static int64_t after_ms(int64_t ms)
{
    return pal_clock_monotonic_us() + ms * 1000;
}

/* ---- Connections ---- */

static void name_peer(pal_connection *connection)
{
    const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    char *out = connection->peer;
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, out, INET6_ADDRSTRLEN);
    } else if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        /* An IPv4 client on a socket for both versions is named like any IPv4 client. */
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN);
        else
            inet_ntop(AF_INET6, &v6->sin6_addr, out, INET6_ADDRSTRLEN);
    }
}

/* How long a connection without a place can take to send the request, which is then refused. */
static int64_t crowd_ms(const pal_listener *listener)
{
    int64_t idle_ms = listener->config.idle_ms;
    return idle_ms < PAL_SERVER_CROWD_MS ? idle_ms : PAL_SERVER_CROWD_MS;
}

static pal_connection *open_connection(pal_listener *listener, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    pal_connection *connection = info ? pal_calloc(1, sizeof *connection) : NULL;
    if (!connection)
        return NULL;
    connection->listener = listener;
    connection->mhd = mhd;
    connection->fd = info->connect_fd;
    connection->tls = listener->is_tls ? pal_tls_use(listener, mhd) : NULL;
    name_peer(connection);
    uint64_t before = atomic_fetch_add(&listener->connections_len, 1);
    /* The watch checks the connection as soon as it is in the list, so set the deadline first. A
     * connection that cannot even be refused ends at once. */
    atomic_init(&connection->deadline_us, after_ms(listener->config.idle_ms));
    bool is_welcome = pal_share_enter(connection) && !atomic_load(&listener->is_quiet);
    if (!is_welcome)
        atomic_store(&connection->deadline_us, after_ms(0));
    else if (connection->crowd)
        atomic_store(&connection->deadline_us, after_ms(crowd_ms(listener)));
    if (before == 0)
        pal_watch_wake(listener);
    return connection;
}

/* libmicrohttpd closes the socket afterwards. */
static void close_connection(pal_connection *connection)
{
    pal_listener *listener = connection->listener;
    pal_share_leave(connection);
    atomic_fetch_sub(&listener->connections_len, 1);
    pal_tls_unref(connection->tls);
    pal_free(connection);
}

void pal_request_connection(void *user, struct MHD_Connection *mhd, void **context,
        enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = open_connection(user, mhd);
    } else if (*context) {
        close_connection(*context);
        *context = NULL;
    }
}

/* ---- The request line ---- */

/* Splits "/a?b", or the form for proxies, "http://host/a?b". */
static void split_target(pal_exchange *x)
{
    pal_str rest = x->target;
    const char *scheme = rest.len && rest.data[0] != '/' ? strstr(rest.data, "://") : NULL;
    if (scheme) {
        const char *slash = strchr(scheme + 3, '/');
        size_t skip = slash ? (size_t)(slash - rest.data) : rest.len;
        rest = pal_str_make(rest.data + skip, rest.len - skip);
    }
    const char *mark = rest.len ? memchr(rest.data, '?', rest.len) : NULL;
    x->path = pal_str_make(rest.data, mark ? (size_t)(mark - rest.data) : rest.len);
    if (mark)
        x->query = pal_str_make(mark + 1, rest.len - x->path.len - 1);
}

/* NULL: pal_request_more() closes the connection. */
void *pal_request_line(void *user, const char *target, struct MHD_Connection *mhd)
{
    pal_listener *listener = user;
    const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    pal_connection *connection = info ? info->socket_context : NULL;
    pal_arena *arena = connection ? pal_arena_new(0) : NULL;
    pal_exchange *x = arena ? pal_arena_alloc(arena, sizeof *x) : NULL;
    if (!x) {
        pal_arena_free(arena);
        return NULL;
    }
    atomic_store(&connection->has_request, true);
    atomic_store(&connection->was_used, true);
    if (!connection->crowd)
        atomic_store(&connection->deadline_us, after_ms(listener->limits.request_ms));
    x->listener = listener;
    x->connection = connection;
    x->arena = arena;
    x->started_us = pal_clock_monotonic_us();
    x->peer = pal_str_of(connection->peer);
    x->target = pal_arena_copy(arena, pal_str_of(target ? target : ""));
    x->target_at = target;
    atomic_init(&x->state, PAL_EXCHANGE_OPEN);
    x->body_max = listener->limits.body_bytes_max;
    pal_buf_init(&x->body, x->body_max);
    split_target(x);
    pal_exchange_set_id(x);
    pal_unfinished_add(x);
    return x;
}

/* ---- Head, body, complete request ---- */

/* False: the listener is closing, and nothing was begun. */
static bool begin_handling(pal_exchange *x)
{
    if (!pal_listener_begin(x->listener))
        return false;
    pal_unfinished_remove(x);
    atomic_store(&x->connection->deadline_us, 0);
    x->phase = PAL_EXCHANGE_PHASE_HANDLED;
    x->is_counted = true;
    return true;
}

static const char bodies_full[] = "too many large requests at the same time; retry later";

static const char *too_long(const pal_exchange *x)
{
    return x->body_max < x->body.len_max ? "the body is too long: this route uses no body"
                                         : "the body is longer than server.body_bytes_max";
}

static enum MHD_Result refuse_head(pal_exchange *x, unsigned code, const char *why)
{
    if (!begin_handling(x))
        return MHD_NO;
    x->has_more = true;
    pal_exchange_refuse(x, code, why);
    return pal_exchange_settle(x);
}

/* False: the layer above has responded. */
static bool admit(pal_exchange *x)
{
    const pal_listener_options *options = &x->listener->options;
    x->is_admitted = true;
    if (!options->admit || options->admit(x, options->user))
        return true;
    pal_unfinished_remove(x);
    x->phase = PAL_EXCHANGE_PHASE_HANDLED;
    x->has_more = x->has_body;
    atomic_store(&x->connection->deadline_us, 0);
    return false;
}

/* A request without a body is admitted in take_whole(). libmicrohttpd closes the connection after a
 * response that is given at the head. */
static enum MHD_Result take_head(pal_exchange *x, const char *method, const char *version)
{
    const char *why;
    uint64_t length = 0;
    unsigned code = pal_head_check(x, method, version, &length, &why);
    if (pal_arena_failure(x->arena))
        return MHD_NO;
    if (code)
        return refuse_head(x, code, why);
    if (x->has_body && !admit(x))
        return pal_exchange_settle(x);
    if (length > x->body_max)
        return refuse_head(x, 413, too_long(x));
    if (length > pal_listener_room(x->listener))
        return refuse_head(x, 503, bodies_full);
    x->phase = PAL_EXCHANGE_PHASE_BODY;
    return MHD_YES;
}

enum MHD_Result pal_request_refuse_raw(pal_exchange *x, unsigned code, const char *why)
{
    pal_unfinished_remove(x);
    x->is_raw = true;
    x->has_more = true;
    x->phase = PAL_EXCHANGE_PHASE_HANDLED;
    atomic_store(&x->connection->deadline_us, 0);
    pal_exchange_refuse(x, code, why);
    return MHD_NO;
}

static enum MHD_Result take_body(pal_exchange *x, const char *data, size_t *data_len)
{
    size_t len = *data_len;
    *data_len = 0;
    if (len > x->body_max - x->body_len)
        return pal_request_refuse_raw(x, 413, too_long(x));
    if (len > pal_listener_room(x->listener))
        return pal_request_refuse_raw(x, 503, bodies_full);
    atomic_fetch_add(&x->listener->bodies_len, len);
    x->body_held += len;
    x->body_len += len;
    pal_buf_append(&x->body, data, len);
    return x->body.failure ? pal_request_refuse_raw(x, 503, "out of memory") : MHD_YES;
}

static enum MHD_Result take_whole(pal_exchange *x)
{
    if (!x->is_admitted && !admit(x))
        return pal_exchange_settle(x);
    if (!begin_handling(x))
        return MHD_NO;
    x->has_more = false;
    x->is_large = x->body_len > PAL_SERVER_SMALL_BODY_BYTES_MAX;
    x->listener->options.handle(x, x->listener->options.user);
    return pal_exchange_settle(x);
}

enum MHD_Result pal_request_more(void *user, struct MHD_Connection *mhd, const char *url,
        const char *method, const char *version, const char *data, size_t *data_len, void **context)
{
    (void)user;
    (void)mhd;
    (void)url;
    pal_exchange *x = *context;
    if (!x)
        return MHD_NO;
    switch (x->phase) {
    case PAL_EXCHANGE_PHASE_HEAD:
        return take_head(x, method, version);
    case PAL_EXCHANGE_PHASE_BODY:
        return *data_len ? take_body(x, data, data_len) : take_whole(x);
    case PAL_EXCHANGE_PHASE_HANDLED:
        break;
    }
    return pal_exchange_settle(x);
}

/* ---- The end ---- */

static void end_exchange(pal_exchange *x, bool was_sent)
{
    pal_listener *listener = x->listener;
    if (x->unfinished)
        pal_unfinished_remove(x);
    if (x->stream)
        x->bytes = pal_stream_finish(x->stream);
    else if (x->pull)
        x->bytes = pal_pull_finish(x->pull);
    else if (!was_sent && !x->is_raw)
        x->bytes = 0;
    if (x->code) {
        atomic_fetch_add(&listener->requests, 1);
        listener->options.ended(x, x->code, x->bytes, pal_clock_monotonic_us() - x->started_us,
                listener->options.user);
    }
    if (x->has_more)
        pal_watch_linger(listener, x->connection->fd);
    atomic_store(&x->connection->has_request, false);
    int64_t idle_ms = atomic_load(&listener->is_quiet) ? 0 : listener->config.idle_ms;
    atomic_store(&x->connection->deadline_us, after_ms(idle_ms));
    if (x->response)
        MHD_destroy_response(x->response);
    /* If the client left before the response, libmicrohttpd does not fetch a response. */
    pal_exchange_uncount(x);
    pal_exchange_free_body(x);
    pal_arena_free(x->arena);
}

void pal_request_done(void *user, struct MHD_Connection *mhd, void **context,
        enum MHD_RequestTerminationCode code)
{
    pal_listener *listener = user;
    pal_exchange *x = *context;
    (void)mhd;
    if (!x)
        return;
    *context = NULL;
    if (x->phase != PAL_EXCHANGE_PHASE_HANDLED) {
        bool is_late = code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED ||
                atomic_load(&x->connection->is_cut);
        if (is_late && !atomic_load(&listener->is_closing)) {
            (void)pal_request_refuse_raw(
                    x, 408, "the request did not arrive within server.request_timeout");
        } else if (code == MHD_REQUEST_TERMINATED_WITH_ERROR) {
            /* libmicrohttpd could not read the request and has responded by itself. */
            x->has_more = true;
            atomic_fetch_add(&listener->refused, 1);
        }
    }
    end_exchange(x, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}
