/* http_watch.c - the one thread that looks after all connections. It accepts them, ends
 * those whose deadline has passed, and sends heartbeats. It notices when a client leaves that reads
 * an idle stream or waits for a response. It also reads refused uploads to their end.
 *
 * This thread accepts connections instead of libmicrohttpd, so that the listening socket can be
 * closed while requests are still running. To end a connection, it shuts down reading: the
 * connection's thread sees that and does the rest. The thread goes through the lists every
 * `tick_ms`. It sleeps while there are no connections. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/http/http_internal.h"

#define EVENTS_MAX 64
/* Connections to accept before other events are handled. */
#define ACCEPTS_MAX 64
#define LINGER_READS_MAX 16                    /* reads before other events are handled */
#define REFUSAL_LOG_US ((int64_t)10 * 1000000) /* time between two equal log lines */
#define TICK_MS_MIN 10
#define TICK_MS_MAX 1000
#define TICKS_IN_TIMEOUT 8 /* a timeout is late by at most an eighth of it */

typedef enum event_kind {
    EVENT_WAKE = 1,
    EVENT_LISTEN = 2,
    EVENT_STREAM = 3,
    EVENT_LINGER = 4,
    EVENT_WAITING = 5,
} event_kind;

static bool watch_fd(pal_listener *listener, event_kind kind, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)kind << 32 | (uint32_t)fd};
    return epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void unwatch_fd(pal_listener *listener, int fd)
{
    struct epoll_event unused = {0};
    (void)epoll_ctl(listener->epoll_fd, EPOLL_CTL_DEL, fd, &unused);
}

void pal_watch_wake(pal_listener *listener)
{
    uint64_t one = 1;
    (void)!write(listener->wake_fd, &one, sizeof one);
}

/* ---- Clients that can leave ---- */

/* Grows the table, which is indexed by file descriptor. */
static bool make_room(pal_listener *listener, size_t fd)
{
    size_t len = listener->watched_len;
    if (fd < len)
        return true;
    size_t grown = 2 * fd + 64;
    pal_watched *table = pal_realloc(listener->watched, grown * sizeof *table);
    if (!table)
        return false;
    memset(table + len, 0, (grown - len) * sizeof *table);
    listener->watched = table;
    listener->watched_len = grown;
    return true;
}

bool pal_watch_add_stream(pal_listener *listener, pal_stream *stream)
{
    int fd = stream->connection->fd;
    if (!make_room(listener, (size_t)fd) ||
            !watch_fd(listener, EVENT_STREAM, fd, EPOLLRDHUP | EPOLLET))
        return false;
    listener->watched[fd].stream = stream;
    return true;
}

void pal_watch_remove_stream(pal_listener *listener, pal_stream *stream)
{
    unwatch_fd(listener, stream->connection->fd);
    listener->watched[stream->connection->fd].stream = NULL;
}

bool pal_exchange_watch(pal_exchange *x, void (*left)(void *user), void *user)
{
    if (x->carried) {
        pal_carried_watch(x, left, user);
        return true;
    }
    pal_listener *listener = x->listener;
    int fd = x->connection->fd;
    pthread_mutex_lock(&listener->lock);
    bool is_watched = make_room(listener, (size_t)fd) &&
            watch_fd(listener, EVENT_WAITING, fd, EPOLLRDHUP | EPOLLET);
    if (is_watched)
        listener->watched[fd] = (pal_watched){.left = left, .user = user};
    x->is_watched = is_watched;
    pthread_mutex_unlock(&listener->lock);
    return is_watched;
}

void pal_exchange_unwatch(pal_exchange *x)
{
    if (x->carried)
        pal_carried_unwatch(x);
    if (!x->is_watched)
        return;
    pthread_mutex_lock(&x->listener->lock);
    unwatch_fd(x->listener, x->connection->fd);
    x->listener->watched[x->connection->fd] = (pal_watched){0};
    pthread_mutex_unlock(&x->listener->lock);
    x->is_watched = false;
}

/* The event can be an old one, of an earlier connection with the same descriptor, so look at the
 * socket itself. Data that arrived before the end, such as TLS's close_notify, may still be
 * unread. */
static bool has_left(int fd)
{
    struct pollfd asked = {.fd = fd, .events = POLLRDHUP};
    return poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void on_stream(pal_listener *listener, int fd)
{
    pthread_mutex_lock(&listener->lock);
    pal_stream *stream = listener->watched[fd].stream;
    if (stream && has_left(fd))
        pal_stream_drop(stream);
    pthread_mutex_unlock(&listener->lock);
}

static void on_waiting(pal_listener *listener, int fd)
{
    pthread_mutex_lock(&listener->lock);
    pal_watched watched = listener->watched[fd];
    if (watched.left && has_left(fd)) {
        listener->watched[fd].left = NULL;
        watched.left(watched.user);
    }
    pthread_mutex_unlock(&listener->lock);
}

/* ---- Lingers ---- */

void pal_watch_linger(pal_listener *listener, int fd)
{
    int copy = -1;
    pthread_mutex_lock(&listener->lock);
    if (listener->lingers_len < PAL_SERVER_LINGERS_MAX && !atomic_load(&listener->is_closing))
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0) {
        int64_t deadline_us = pal_clock_monotonic_us() + PAL_SERVER_LINGER_MS * 1000;
        listener->lingers[listener->lingers_len++] = (pal_linger){copy, deadline_us};
        if (!watch_fd(listener, EVENT_LINGER, copy, EPOLLIN | EPOLLRDHUP)) {
            listener->lingers_len--;
            close(copy);
        }
    }
    pthread_mutex_unlock(&listener->lock);
}

/* Call it under the lock. */
static void end_linger(pal_listener *listener, size_t index)
{
    int fd = listener->lingers[index].fd;
    unwatch_fd(listener, fd);
    close(fd);
    listener->lingers[index] = listener->lingers[--listener->lingers_len];
}

/* Only this thread ends lingers, so `fd` is still the descriptor of the event. */
static void on_linger(pal_listener *listener, int fd)
{
    char sink[16384];
    ssize_t len = 1;
    for (int i = 0; i < LINGER_READS_MAX && len > 0; i++)
        len = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
    if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    pthread_mutex_lock(&listener->lock);
    for (size_t i = 0; i < listener->lingers_len; i++) {
        if (listener->lingers[i].fd == fd) {
            end_linger(listener, i);
            break;
        }
    }
    pthread_mutex_unlock(&listener->lock);
}

/* ---- Accepting ---- */

static void listen_again(pal_listener *listener, bool wanted)
{
    if (wanted == listener->is_listening)
        return;
    if (wanted)
        listener->is_listening = watch_fd(listener, EVENT_LISTEN, listener->listen_fd, EPOLLIN);
    else
        unwatch_fd(listener, listener->listen_fd);
    listener->is_listening = listener->is_listening && wanted;
}

static void log_refusal(pal_listener *listener, int error)
{
    int64_t now_us = pal_clock_monotonic_us();
    if (listener->refused_us && now_us - listener->refused_us < REFUSAL_LOG_US)
        return;
    listener->refused_us = now_us;
    pal_log(PAL_LOG_WARN, "could not accept a connection, retrying: %s", strerror(error));
}

/* -1 if there are no more connections. If the process is out of files or memory, the next tick
 * tries again. */
static int accept_one(pal_listener *listener, struct sockaddr_storage *address, socklen_t *len)
{
    *len = sizeof *address;
    int fd = accept4(
            listener->listen_fd, (struct sockaddr *)address, len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        log_refusal(listener, errno);
        listen_again(listener, false);
    }
    return fd;
}

static void on_listen(pal_listener *listener)
{
    struct sockaddr_storage address;
    socklen_t len;
    uint64_t open_max = (uint64_t)listener->config.connections_max + PAL_SERVER_CONNECTIONS_SPARE;
    for (int i = 0, fd; i < ACCEPTS_MAX; i++) {
        fd = accept_one(listener, &address, &len);
        if (fd < 0)
            return;
        if (atomic_load(&listener->connections_len) >= open_max) {
            atomic_fetch_add(&listener->refused, 1);
            close(fd);
            continue;
        }
        /* Closes the descriptor on failure. */
        (void)MHD_add_connection(listener->daemon, fd, (struct sockaddr *)&address, len);
    }
}

/* ---- The clock ---- */

/* Shuts down reading, so that the connection's thread ends the connection and can still send the
 * reason. A client that keeps sending can hide that from the thread; the next call then shuts down
 * both directions. */
static void cut(pal_connection *connection, int64_t now_us)
{
    int64_t deadline_us = atomic_load(&connection->deadline_us);
    if (deadline_us == 0 || now_us < deadline_us)
        return;
    /* Not if the connection's thread has just set another deadline. */
    if (!atomic_compare_exchange_strong(&connection->deadline_us, &deadline_us, now_us + 1))
        return;
    bool was_cut = atomic_exchange(&connection->is_cut, true);
    shutdown(connection->fd, was_cut ? SHUT_RDWR : SHUT_RD);
}

static void on_tick(pal_listener *listener)
{
    int64_t now_us = pal_clock_monotonic_us();
    pthread_mutex_lock(&listener->lock);
    for (pal_connection *c = listener->connections; c; c = c->next)
        cut(c, now_us);
    for (pal_stream *stream = listener->streams; stream; stream = stream->next)
        pal_stream_beat(stream, now_us);
    for (size_t i = listener->lingers_len; i-- > 0;) {
        if (now_us >= listener->lingers[i].deadline_us)
            end_linger(listener, i);
    }
    pthread_mutex_unlock(&listener->lock);
    if (!atomic_load(&listener->is_quiet))
        listen_again(listener, true);
}

static int64_t tick_ms(pal_listener *listener)
{
    int64_t least = listener->config.idle_ms;
    int64_t request_ms = listener->limits.request_ms;
    int64_t heartbeat_ms = listener->limits.heartbeat_ms;
    if (request_ms < least)
        least = request_ms;
    if (heartbeat_ms < least)
        least = heartbeat_ms;
    least /= TICKS_IN_TIMEOUT;
    return least < TICK_MS_MIN ? TICK_MS_MIN : least > TICK_MS_MAX ? TICK_MS_MAX : least;
}

static bool may_sleep(pal_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    bool is_idle = listener->lingers_len == 0 && atomic_load(&listener->connections_len) == 0;
    pthread_mutex_unlock(&listener->lock);
    return is_idle && (listener->is_listening || atomic_load(&listener->is_quiet));
}

static void on_event(pal_listener *listener, uint64_t data)
{
    int fd = (int)(uint32_t)data;
    uint64_t count;
    switch ((event_kind)(data >> 32)) {
    case EVENT_WAKE:
        (void)!read(fd, &count, sizeof count);
        break;
    case EVENT_LISTEN:
        if (listener->is_listening)
            on_listen(listener);
        break;
    case EVENT_STREAM:
        on_stream(listener, fd);
        break;
    case EVENT_LINGER:
        on_linger(listener, fd);
        break;
    case EVENT_WAITING:
        on_waiting(listener, fd);
        break;
    }
}

static void *run_watch(void *user)
{
    pal_listener *listener = user;
    struct epoll_event events[EVENTS_MAX];
    int64_t next_us = 0;
    while (!atomic_load(&listener->is_over)) {
        int64_t left_ms = (next_us - pal_clock_monotonic_us() + 999) / 1000;
        int wait_ms = may_sleep(listener) ? -1 : left_ms > 0 ? (int)left_ms : 0;
        int len = epoll_wait(listener->epoll_fd, events, EVENTS_MAX, wait_ms);
        if (atomic_load(&listener->is_quiet))
            listen_again(listener, false);
        for (int i = 0; i < len; i++)
            on_event(listener, events[i].data.u64);
        pal_carried_attend(listener);
        if (pal_clock_monotonic_us() >= next_us) {
            on_tick(listener);
            next_us = pal_clock_monotonic_us() + tick_ms(listener) * 1000;
        }
    }
    return NULL;
}

/* ---- Open and close ---- */

pal_status pal_watch_open(pal_listener *listener, pal_error *err)
{
    listener->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    listener->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (listener->epoll_fd < 0 || listener->wake_fd < 0 ||
            !watch_fd(listener, EVENT_WAKE, listener->wake_fd, EPOLLIN))
        return pal_error_set(err, PAL_IO, "could not watch connections: %s", strerror(errno));
    listen_again(listener, true);
    int rc = pthread_create(&listener->watch, NULL, run_watch, listener);
    if (rc)
        return pal_error_set(err, PAL_IO, "could not start a thread: %s", strerror(rc));
    listener->has_watch = true;
    return PAL_OK;
}

void pal_watch_stop(pal_listener *listener)
{
    if (!listener->has_watch)
        return;
    atomic_store(&listener->is_over, true);
    pal_watch_wake(listener);
    pthread_join(listener->watch, NULL);
}

void pal_watch_close(pal_listener *listener)
{
    while (listener->lingers_len)
        end_linger(listener, 0);
    if (listener->epoll_fd >= 0)
        close(listener->epoll_fd);
    if (listener->wake_fd >= 0)
        close(listener->wake_fd);
    pal_free(listener->watched);
}
