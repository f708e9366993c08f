/* http_listener.c - the listener: its address, its limits, its threads, and how it closes.
 *
 * When the listener closes, no more requests are handled. It first waits until every handler has
 * responded. Then it ends the streams, which have PAL_SERVER_CLOSE_MS to be read. Only then is
 * libmicrohttpd stopped, which must not happen while connections are suspended. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/http/http_internal.h"
#include "server/server_files.h"

#define THREAD_STACK_BYTES ((size_t)1 << 20)
#define BACKLOG 1024
#define HOST_LEN_MAX 255
/* The bytes that libmicrohttpd needs for a header line in addition to its text, and for the head of
 * the response. */
#define HEADER_RECORD_BYTES 56
#define ANSWER_HEAD_BYTES 2048
#define TLS_PRIORITIES "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"

/* ---- The address ---- */

/* Splits "127.0.0.1:7077", "[::1]:7077" or "localhost:0". */
static bool split_address(pal_str text, char host[HOST_LEN_MAX + 1], char port[6])
{
    size_t at = text.len;
    while (at && text.data[at - 1] != ':')
        at--;
    if (at == 0 || text.len - at == 0 || text.len - at > 5)
        return false;
    pal_str name = pal_str_make(text.data, at - 1);
    if (name.len >= 2 && name.data[0] == '[' && name.data[name.len - 1] == ']')
        name = pal_str_make(name.data + 1, name.len - 2);
    else if (name.len && memchr(name.data, ':', name.len))
        return false;
    if (name.len == 0 || name.len > HOST_LEN_MAX)
        return false;
    memcpy(host, name.data, name.len);
    host[name.len] = 0;
    memcpy(port, text.data + at, text.len - at);
    port[text.len - at] = 0;
    return true;
}

static int bind_one(const struct addrinfo *info)
{
    int one = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static pal_status bind_address(pal_listener *listener, pal_error *err)
{
    pal_str text = listener->config.listen;
    char host[HOST_LEN_MAX + 1], port[6];
    struct addrinfo *infos = NULL;
    struct addrinfo hints = {
            .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    if (!split_address(text, host, port))
        return pal_error_set(err, PAL_INVALID,
                "server.listen must be an address and a port such as '127.0.0.1:7077' or "
                "'[::1]:7077', not '%.*s'",
                PAL_STR_ARG(text));
    int rc = getaddrinfo(host, port, &hints, &infos);
    if (rc)
        return pal_error_set(err, PAL_INVALID, "server.listen: '%.*s' is not an address: %s",
                PAL_STR_ARG(text), gai_strerror(rc));
    for (struct addrinfo *info = infos; info && listener->listen_fd < 0; info = info->ai_next)
        listener->listen_fd = bind_one(info);
    int error = errno;
    freeaddrinfo(infos);
    if (listener->listen_fd < 0)
        return pal_error_set(err, error == EACCES ? PAL_DENIED : PAL_IO,
                "could not listen on '%.*s': %s", PAL_STR_ARG(text), strerror(error));
    if (getsockname(listener->listen_fd, (struct sockaddr *)&address, &len) == 0)
        listener->port =
                ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                    : ((struct sockaddr_in *)&address)->sin_port);
    return PAL_OK;
}

/* ---- Limits ---- */

static void set_limits(pal_listener_limits *limits, const pal_config_server *config)
{
    limits->body_bytes_max = config->body_bytes_max;
    limits->bodies_bytes_max = config->bodies_bytes_max;
    limits->streams_max = config->streams_max;
    limits->stream_bytes_max = config->stream_bytes_max;
    limits->request_ms = config->request_ms;
    limits->heartbeat_ms = config->heartbeat_ms;
}

/* If all clients are on this machine, they share one address, so the default share is larger. */
static void share_connections(pal_listener *listener)
{
    const pal_config_server *config = &listener->config;
    uint32_t max = config->connections_max, share = config->connections_per_address;
    if (share == 0)
        share = max - max / (listener->options.is_local ? 16 : 2);
    listener->address_max = share < max ? share : max;
}

static pal_status read_proxies(pal_listener *listener, pal_error *err)
{
    size_t len = listener->config.trusted_proxies_len;
    listener->proxies = pal_calloc(len, sizeof *listener->proxies);
    if (!listener->proxies)
        return pal_no_memory(err);
    for (size_t i = 0; i < len; i++) {
        pal_status status = pal_peer_proxy_parse(
                listener->config.trusted_proxies[i], &listener->proxies[i], err);
        if (status)
            return status;
        listener->proxies_len++;
    }
    return PAL_OK;
}

/* ---- libmicrohttpd ---- */

/* libmicrohttpd logs that it refuses a request, with the code and the page that it will send. */
static void see_refusal(const char *format, va_list arguments)
{
    static const char begin[] = "Error processing request (HTTP response code is %u";
    va_list copy;
    if (strncmp(format, begin, sizeof begin - 1) != 0)
        return;
    va_copy(copy, arguments);
    unsigned code = va_arg(copy, unsigned);
    const char *page = va_arg(copy, const char *);
    va_end(copy);
    if (page)
        pal_unfinished_refuse(code, page);
}

/* Called for malformed requests and for clients that left. The log lines help to find a cause. */
static void log_line(void *user, const char *format, va_list arguments)
{
    char line[512];
    (void)user;
    see_refusal(format, arguments);
    int len = vsnprintf(line, sizeof line, format, arguments);
    while (len > 0 && (size_t)len < sizeof line && line[len - 1] == '\n')
        line[--len] = 0;
    pal_log(PAL_LOG_DEBUG, "http: %s", line);
}

static unsigned thread_count(const pal_config_server *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (config->threads)
        return config->threads;
    return cores < 1                         ? 1
            : cores > PAL_SERVER_THREADS_MAX ? PAL_SERVER_THREADS_MAX
                                             : (unsigned)cores;
}

/* The bytes for the head of one request, its records, and the head of the response. With the
 * default configuration this is less than 32 KiB. From 32 KiB on, libmicrohttpd maps pages for each
 * connection, and an idle stream costs 13 KB instead of 10. */
static size_t connection_bytes(const pal_config_server *config)
{
    return (size_t)config->header_bytes_max + config->url_bytes_max +
            (size_t)PAL_SERVER_HEADERS_MAX * HEADER_RECORD_BYTES + ANSWER_HEAD_BYTES;
}

static pal_status start_daemon(pal_listener *listener, pal_error *err)
{
    const pal_config_server *config = &listener->config;
    unsigned threads = thread_count(config);
    uint64_t open_max = (uint64_t)config->connections_max + PAL_SERVER_CONNECTIONS_SPARE;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            MHD_ALLOW_UPGRADE | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    pal_buf certificate, key;
    pal_buf_init(&certificate, PAL_SERVER_TLS_FILE_BYTES_MAX);
    pal_buf_init(&key, PAL_SERVER_TLS_FILE_BYTES_MAX);
    pal_status status = PAL_OK;
    listener->is_tls = config->tls_certificate.len || config->tls_key.len;
    if (listener->is_tls)
        status = pal_tls_read(config, &certificate, &key, err);
    if (status)
        goto out;
    struct MHD_OptionItem tls[] = {
            {MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.data},
            {MHD_OPTION_HTTPS_MEM_KEY, 0, key.data},
            {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
            {MHD_OPTION_END, 0, NULL},
    };
    /* libmicrohttpd divides this limit by the number of threads, and one thread may get all
     * connections. */
    uint64_t limit = open_max * 2 * threads;
    listener->can_release_pages = pal_stream_can_release_pages(MHD_get_version());
    listener->daemon = MHD_start_daemon(flags | (listener->is_tls ? MHD_USE_TLS : 0), 0, NULL, NULL,
            pal_request_more, listener, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL,
            MHD_OPTION_NOTIFY_CONNECTION, pal_request_connection, listener,
            MHD_OPTION_URI_LOG_CALLBACK, pal_request_line, listener, MHD_OPTION_NOTIFY_COMPLETED,
            pal_request_done, listener, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)(limit > UINT32_MAX / 2 ? UINT32_MAX / 2 : limit),
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((config->idle_ms + 999) / 1000),
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes(config),
            MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK_BYTES, MHD_OPTION_THREAD_POOL_SIZE, threads,
            MHD_OPTION_ARRAY, listener->is_tls ? tls : tls + 3, MHD_OPTION_END);
    if (!listener->daemon && listener->is_tls)
        status = pal_tls_refuse(config, err);
    else if (!listener->daemon)
        status = pal_error_set(err, PAL_IO, "could not start the HTTP server: %s", strerror(errno));
out:
    pal_buf_done(&certificate);
    pal_buf_done(&key);
    return status;
}

/* ---- Open and close ---- */

static pal_status start(pal_listener *listener, pal_error *err)
{
    pal_files files;
    pal_status status = read_proxies(listener, err);
    if (status)
        return status;
    pal_files_claim(&listener->config, &files);
    if (files.connections < listener->config.connections_max)
        pal_log(PAL_LOG_WARN,
                "the limit of open files is too low for server.connections_max: at most %u "
                "connections are accepted; raise the limit with 'ulimit -n' or LimitNOFILE",
                (unsigned)files.connections);
    listener->config.connections_max = files.connections;
    share_connections(listener);
    status = pal_worker_pools_open(listener, err);
    if (!status)
        status = bind_address(listener, err);
    if (!status)
        status = start_daemon(listener, err);
    return status ? status : pal_watch_open(listener, err);
}

pal_status pal_listener_open(
        const pal_listener_options *options, pal_listener **out_listener, pal_error *err)
{
    pal_listener *listener = pal_calloc(1, sizeof *listener);
    pthread_condattr_t attr;
    sigset_t all, before;
    if (!listener)
        return pal_no_memory(err);
    listener->options = *options;
    listener->config = *options->config;
    set_limits(&listener->limits, options->config);
    listener->listen_fd = listener->epoll_fd = listener->wake_fd = -1;
    pthread_mutex_init(&listener->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&listener->changed, &attr);
    pthread_condattr_destroy(&attr);
    /* Signals are for the program's own threads. Threads that are started here inherit the mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pal_status status = start(listener, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status)
        pal_listener_close(listener);
    else
        *out_listener = listener;
    return status;
}

pal_status pal_listener_reload(
        pal_listener *listener, const pal_config_server *config, pal_error *err)
{
    set_limits(&listener->limits, config);
    pal_watch_wake(listener);
    return listener->is_tls ? pal_tls_reload(listener, config, err) : PAL_OK;
}

bool pal_listener_is_tls(const pal_listener *listener)
{
    return listener->is_tls;
}

uint16_t pal_listener_port(const pal_listener *listener)
{
    return listener->port;
}

void pal_listener_count(pal_listener *listener, pal_listener_counts *out_counts)
{
    out_counts->connections = atomic_load(&listener->connections_len);
    out_counts->streams = atomic_load(&listener->streams_len);
    out_counts->requests = atomic_load(&listener->requests);
    out_counts->refused = atomic_load(&listener->refused);
    out_counts->dropped = atomic_load(&listener->dropped);
}

void pal_listener_notify(pal_listener *listener)
{
    if (!atomic_load(&listener->is_closing))
        return;
    pthread_mutex_lock(&listener->lock);
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->lock);
}

bool pal_listener_begin(pal_listener *listener)
{
    /* In this order: pal_listener_close() sets is_closing first, then reads the counter. */
    atomic_fetch_add(&listener->handled_len, 1);
    if (!atomic_load(&listener->is_closing))
        return true;
    atomic_fetch_sub(&listener->handled_len, 1);
    pal_listener_notify(listener);
    return false;
}

uint64_t pal_listener_room(pal_listener *listener)
{
    uint64_t len = atomic_load(&listener->bodies_len);
    uint64_t max = listener->limits.bodies_bytes_max;
    return len < max ? max - len : 0;
}

void pal_listener_quiesce(pal_listener *listener)
{
    if (atomic_exchange(&listener->is_quiet, true))
        return;
    /* From now on clients cannot connect. The descriptor stays open until the watch no longer uses
     * it. */
    shutdown(listener->listen_fd, SHUT_RDWR);
    int64_t now_us = pal_clock_monotonic_us();
    pthread_mutex_lock(&listener->lock);
    for (pal_connection *c = listener->connections; c; c = c->next) {
        int64_t deadline_us = atomic_load(&c->deadline_us);
        if (deadline_us && !atomic_load(&c->has_request))
            atomic_compare_exchange_strong(&c->deadline_us, &deadline_us, now_us);
    }
    pthread_mutex_unlock(&listener->lock);
    pal_watch_wake(listener);
}

static void end_streams(pal_listener *listener)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PAL_SERVER_CLOSE_MS / 1000;
    pthread_mutex_lock(&listener->lock);
    for (pal_stream *stream = listener->streams; stream; stream = stream->next)
        pal_stream_end(stream);
    while (listener->streams &&
            pthread_cond_timedwait(&listener->changed, &listener->lock, &until) == 0)
        ;
    for (pal_stream *stream = listener->streams; stream; stream = stream->next)
        pal_stream_drop(stream);
    pthread_mutex_unlock(&listener->lock);
}

void pal_listener_close(pal_listener *listener)
{
    if (!listener)
        return;
    if (listener->has_watch) {
        pal_listener_quiesce(listener);
        atomic_store(&listener->is_closing, true);
        pthread_mutex_lock(&listener->lock);
        while (atomic_load(&listener->handled_len))
            pthread_cond_wait(&listener->changed, &listener->lock);
        pthread_mutex_unlock(&listener->lock);
        end_streams(listener);
    }
    /* In this order: the watch adds connections to the daemon, and the end of the daemon removes
     * streams from the watch's lists. */
    pal_watch_stop(listener);
    if (listener->daemon)
        MHD_stop_daemon(listener->daemon);
    pal_worker_pools_end(listener);
    pal_unfinished_free(listener);
    pal_watch_close(listener);
    if (listener->listen_fd >= 0)
        close(listener->listen_fd);
    pthread_cond_destroy(&listener->changed);
    pthread_mutex_destroy(&listener->lock);
    pal_tls_unref(listener->tls);
    pal_map_done(&listener->addresses);
    pal_map_done(&listener->owners);
    pal_free(listener->proxies);
    pal_free(listener);
}
