/* websocket.c - the connections and their loop.
 *
 * The life of a connection:
 *
 *   OPEN      messages go in both directions
 *   CLOSING   a close frame was queued, by either side; what waits is still sent
 *   ENDED     the descriptor was released; `closed` was called
 *
 * Only the loop's thread reads, ends a connection, and changes the epoll set. A thread that sends
 * puts the frame into libwslay's queue and tries to write it at once. If the socket takes no more,
 * it asks epoll to report when it does. A failed write only marks the connection as broken and
 * wakes the loop, so that callbacks are never made on another thread.
 *
 * Locks: the lock of a connection guards its frames and its state. The loop's lock guards the list
 * of connections. Neither is held while a handler is called; the loop's lock is taken first. */
#include "server/websocket/websocket.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wslay/wslay.h>
#include "base/clock.h"
#include "base/memory.h"

#define EVENTS_MAX 64
#define TICK_MS 250   /* how often heartbeats and deadlines are checked */
#define CLOSE_MS 5000 /* how long a client may take to agree to a close */
#define READS_MAX 16  /* reads of one connection before others are served */

typedef enum websocket_state {
    WEBSOCKET_OPEN = 0,
    WEBSOCKET_CLOSING = 1,
    WEBSOCKET_ENDED = 2,
} websocket_state;

struct pal_websocket {
    pal_websocket *prev, *next; /* guarded by the loop's lock */
    pal_websocket *next_poked;  /* guarded by the loop's lock, like the next member */
    bool is_poked;              /* in the loop's list `poked`, which holds a reference */
    pal_websocket_loop *loop;
    int fd;
    void *connection;
    const pal_websocket_handlers *handlers;
    void *user;
    uint64_t pending_bytes_max;
    int64_t heartbeat_us;
    atomic_uint holders;

    pthread_mutex_t lock;
    wslay_event_context_ptr frames;
    websocket_state state;
    bool is_broken;    /* reading or writing has failed */
    bool wants_events; /* epoll reports when the socket takes more */
    struct arrivals *arrivals; /* receives messages while the loop reads; otherwise NULL */
    int64_t close_at_us; /* when a closing connection ends in any case */

    /* Only for the loop's thread. */
    char *early; /* bytes that arrived with the handshake */
    size_t early_len, early_at;
    int64_t heard_us;  /* when the client last sent something */
    int64_t pinged_us; /* when the last ping was sent; 0: since then something arrived */
    int reads_left;
};

struct pal_websocket_loop {
    pthread_t thread;
    int epoll_fd;
    int wake_fd;
    pthread_mutex_t lock;
    pal_websocket *sockets;
    pal_websocket *poked;
    bool is_closed; /* no connection is added any more; guarded by the lock */
    atomic_bool is_stopping;
};

/* ---- Bytes ---- */

/* The client's end is an error to libwslay, which closes the connection then. */
static ssize_t on_recv(
        wslay_event_context_ptr frames, uint8_t *out, size_t len, int flags, void *user)
{
    pal_websocket *s = user;
    (void)flags;
    if (s->early_at < s->early_len) {
        size_t part = s->early_len - s->early_at < len ? s->early_len - s->early_at : len;
        memcpy(out, s->early + s->early_at, part);
        s->early_at += part;
        return (ssize_t)part;
    }
    ssize_t got = -1;
    errno = EAGAIN;
    if (s->reads_left-- > 0) {
        do
            got = recv(s->fd, out, len, MSG_DONTWAIT);
        while (got < 0 && errno == EINTR);
    }
    if (got > 0)
        return got;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    s->is_broken = true;
    wslay_event_set_error(frames, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_send(
        wslay_event_context_ptr frames, const uint8_t *data, size_t len, int flags, void *user)
{
    pal_websocket *s = user;
    ssize_t sent;
    do
        sent = send(s->fd, data, len,
                MSG_NOSIGNAL | MSG_DONTWAIT | (flags & WSLAY_MSG_MORE ? MSG_MORE : 0));
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
    } else {
        s->is_broken = true;
        wslay_event_set_error(frames, WSLAY_ERR_CALLBACK_FAILURE);
    }
    return -1;
}

/* ---- Messages ---- */

/* A message that waits until the lock is released. Its bytes follow. */
typedef struct arrived {
    struct arrived *next;
    size_t len;
} arrived;

/* The messages that were read from a connection at once. */
typedef struct arrivals {
    arrived *first, **last;
    bool has_ended;
} arrivals;

/* The lock must be held. */
static void begin_close(pal_websocket *s)
{
    if (s->state != WEBSOCKET_OPEN)
        return;
    s->state = WEBSOCKET_CLOSING;
    s->close_at_us = pal_clock_monotonic_us() + CLOSE_MS * 1000;
}

/* The lock must be held. libwslay first sends what was queued before. */
static void queue_close(pal_websocket *s, pal_websocket_code code, const char *reason)
{
    if (s->state != WEBSOCKET_OPEN)
        return;
    begin_close(s);
    if (wslay_event_queue_close(
                s->frames, (uint16_t)code, (const uint8_t *)reason, strlen(reason)) != 0)
        s->is_broken = true;
}

/* The lock must be held. Writes as much as the socket takes. */
static void flush(pal_websocket *s)
{
    if (!s->is_broken && wslay_event_want_write(s->frames) && wslay_event_send(s->frames) != 0)
        s->is_broken = true;
    if (s->is_broken) {
        (void)shutdown(s->fd, SHUT_RDWR); /* the loop notices that, and ends the connection */
        return;
    }
    bool wants = wslay_event_want_write(s->frames);
    if (wants == s->wants_events)
        return;
    s->wants_events = wants;
    struct epoll_event event = {
            .events = EPOLLIN | (wants ? EPOLLOUT : 0u), .data.ptr = s};
    (void)epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_MOD, s->fd, &event);
}

/* Called by libwslay under the lock. */
static void on_message(wslay_event_context_ptr frames,
        const struct wslay_event_on_msg_recv_arg *arg, void *user)
{
    pal_websocket *s = user;
    (void)frames;
    if (arg->opcode == WSLAY_BINARY_FRAME)
        queue_close(s, PAL_WEBSOCKET_UNSUPPORTED, "messages must be text");
    if (arg->opcode == WSLAY_CONNECTION_CLOSE)
        begin_close(s); /* libwslay answers it */
    if (arg->opcode != WSLAY_TEXT_FRAME || s->state != WEBSOCKET_OPEN)
        return;
    arrived *message = pal_malloc(sizeof *message + arg->msg_length);
    if (!message) {
        queue_close(s, PAL_WEBSOCKET_ERROR, "out of memory");
        return;
    }
    *message = (arrived){.len = arg->msg_length};
    if (arg->msg_length)
        memcpy(message + 1, arg->msg, arg->msg_length);
    *s->arrivals->last = message;
    s->arrivals->last = &message->next;
}

/* ---- The loop's work on one connection ---- */

static void unlist(pal_websocket *s)
{
    pal_websocket_loop *loop = s->loop;
    pthread_mutex_lock(&loop->lock);
    if (s->prev)
        s->prev->next = s->next;
    else
        loop->sockets = s->next;
    if (s->next)
        s->next->prev = s->prev;
    pthread_mutex_unlock(&loop->lock);
}

static void end(pal_websocket *s)
{
    struct epoll_event unused = {0};
    pthread_mutex_lock(&s->lock);
    s->state = WEBSOCKET_ENDED;
    pthread_mutex_unlock(&s->lock);
    (void)epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_DEL, s->fd, &unused);
    unlist(s);
    s->handlers->closed(s, s->user);
    s->handlers->release(s->connection);
    pal_websocket_release(s);
}

/* The lock must be held. */
static bool has_ended(const pal_websocket *s)
{
    if (s->is_broken)
        return true;
    return !wslay_event_want_write(s->frames) && wslay_event_get_close_sent(s->frames) &&
            wslay_event_get_close_received(s->frames);
}

/* The lock must be held. Reads and discards what a client sends after its connection was closed for
 * an error. Without this, its system could discard the close frame. */
static void discard(pal_websocket *s)
{
    char bytes[4096];
    ssize_t len = 1;
    for (int i = 0; i < READS_MAX && len > 0; i++)
        len = recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (len == 0 || (len < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        s->is_broken = true;
}

/* The lock must be held. */
static void read_frames(pal_websocket *s)
{
    s->reads_left = READS_MAX;
    if (!wslay_event_want_read(s->frames)) {
        discard(s);
        return;
    }
    if (wslay_event_recv(s->frames) != 0)
        s->is_broken = true;
    if (!wslay_event_want_read(s->frames))
        begin_close(s); /* libwslay has found an error, and has queued a close frame */
}

/* Reads what has arrived, then hands the messages over without the lock. */
static void serve(pal_websocket *s)
{
    arrivals a = {.last = &a.first};
    pthread_mutex_lock(&s->lock);
    s->arrivals = &a;
    s->heard_us = pal_clock_monotonic_us();
    s->pinged_us = 0;
    read_frames(s);
    flush(s);
    a.has_ended = has_ended(s);
    s->arrivals = NULL;
    pthread_mutex_unlock(&s->lock);
    for (arrived *message = a.first; message;) {
        arrived *next = message->next;
        s->handlers->message(s, pal_str_make((const char *)(message + 1), message->len), s->user);
        pal_free(message);
        message = next;
    }
    if (a.has_ended)
        end(s);
}

/* The lock must be held. A client that is silent gets a ping. One that does not answer it is
 * gone. */
static void beat(pal_websocket *s, int64_t now_us)
{
    const struct wslay_event_msg ping = {.opcode = WSLAY_PING};
    if (s->state != WEBSOCKET_OPEN || now_us - s->heard_us < s->heartbeat_us)
        return;
    if (s->pinged_us == 0) {
        s->pinged_us = now_us;
        if (wslay_event_queue_msg(s->frames, &ping) != 0)
            s->is_broken = true;
    } else if (now_us - s->pinged_us >= s->heartbeat_us) {
        s->is_broken = true;
    }
}

static bool is_late(pal_websocket *s, int64_t now_us)
{
    pthread_mutex_lock(&s->lock);
    beat(s, now_us);
    flush(s);
    bool is_late = has_ended(s) || (s->state == WEBSOCKET_CLOSING && now_us >= s->close_at_us);
    pthread_mutex_unlock(&s->lock);
    return is_late;
}

/* Only this thread removes connections, so the list stays valid without the lock. */
static void tick(pal_websocket_loop *loop)
{
    int64_t now_us = pal_clock_monotonic_us();
    pthread_mutex_lock(&loop->lock);
    pal_websocket *s = loop->sockets;
    pthread_mutex_unlock(&loop->lock);
    while (s) {
        pal_websocket *next = s->next;
        if (is_late(s, now_us))
            end(s);
        s = next;
    }
}

/* Takes one connection from the list, with its reference. NULL: the list is empty. */
static pal_websocket *take_poked(pal_websocket_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    pal_websocket *s = loop->poked;
    if (s) {
        loop->poked = s->next_poked;
        s->is_poked = false;
    }
    pthread_mutex_unlock(&loop->lock);
    return s;
}

static void call_poked(pal_websocket_loop *loop)
{
    for (pal_websocket *s; (s = take_poked(loop)) != NULL;) {
        pthread_mutex_lock(&s->lock);
        bool is_ended = s->state == WEBSOCKET_ENDED; /* only this thread changes that */
        pthread_mutex_unlock(&s->lock);
        if (!is_ended && s->handlers->poked)
            s->handlers->poked(s, s->user);
        pal_websocket_release(s);
    }
}

static bool is_idle(pal_websocket_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool is_idle = !loop->sockets;
    pthread_mutex_unlock(&loop->lock);
    return is_idle;
}

static void *run_loop(void *user)
{
    pal_websocket_loop *loop = user;
    struct epoll_event events[EVENTS_MAX];
    int64_t ticked_us = 0;
    uint64_t wakes;
    while (!atomic_load(&loop->is_stopping)) {
        int len = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, is_idle(loop) ? -1 : TICK_MS);
        for (int i = 0; i < len; i++) {
            if (events[i].data.ptr)
                serve(events[i].data.ptr);
            else
                (void)!read(loop->wake_fd, &wakes, sizeof wakes);
        }
        call_poked(loop);
        int64_t now_us = pal_clock_monotonic_us();
        if (now_us - ticked_us >= TICK_MS * 1000) {
            tick(loop);
            ticked_us = now_us;
        }
    }
    while (!is_idle(loop))
        end(loop->sockets);
    call_poked(loop); /* only releases them */
    return NULL;
}

static void wake(pal_websocket_loop *loop)
{
    uint64_t one = 1;
    (void)!write(loop->wake_fd, &one, sizeof one);
}

/* ---- The loop ---- */

pal_status pal_websocket_loop_open(pal_websocket_loop **out_loop, pal_error *err)
{
    pal_websocket_loop *loop = pal_calloc(1, sizeof *loop);
    struct epoll_event event = {.events = EPOLLIN};
    if (!loop)
        return pal_no_memory(err);
    pthread_mutex_init(&loop->lock, NULL);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll_fd >= 0 && loop->wake_fd >= 0 &&
            epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) == 0 &&
            pthread_create(&loop->thread, NULL, run_loop, loop) == 0) {
        *out_loop = loop;
        return PAL_OK;
    }
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    pthread_mutex_destroy(&loop->lock);
    pal_free(loop);
    return pal_error_set(err, PAL_IO, "could not start the thread for WebSockets");
}

void pal_websocket_loop_close(pal_websocket_loop *loop, int64_t wait_ms)
{
    if (!loop)
        return;
    int64_t until_us = pal_clock_monotonic_us() + wait_ms * 1000;
    pthread_mutex_lock(&loop->lock);
    loop->is_closed = true;
    for (pal_websocket *s = loop->sockets; s; s = s->next)
        pal_websocket_close(s, PAL_WEBSOCKET_GOING_AWAY, "the server stops");
    pthread_mutex_unlock(&loop->lock);
    while (!is_idle(loop) && pal_clock_monotonic_us() < until_us)
        usleep(5000);
    atomic_store(&loop->is_stopping, true);
    wake(loop);
    pthread_join(loop->thread, NULL);
}

void pal_websocket_loop_free(pal_websocket_loop *loop)
{
    if (!loop)
        return;
    close(loop->epoll_fd);
    close(loop->wake_fd);
    pthread_mutex_destroy(&loop->lock);
    pal_free(loop);
}

/* ---- Connections ---- */

static void free_socket(pal_websocket *s)
{
    if (s->frames)
        wslay_event_context_free(s->frames);
    pthread_mutex_destroy(&s->lock);
    pal_free(s->early);
    pal_free(s);
}

static bool copy_early(pal_websocket *s, pal_str early)
{
    if (!early.len)
        return true;
    s->early = pal_malloc(early.len);
    if (!s->early)
        return false;
    memcpy(s->early, early.data, early.len);
    s->early_len = early.len;
    return true;
}

/* Returns false if the loop was closed: a handshake can end later. */
static bool list(pal_websocket *s)
{
    pal_websocket_loop *loop = s->loop;
    pthread_mutex_lock(&loop->lock);
    bool is_closed = loop->is_closed;
    if (!is_closed) {
        s->next = loop->sockets;
        if (s->next)
            s->next->prev = s;
        loop->sockets = s;
    }
    pthread_mutex_unlock(&loop->lock);
    return !is_closed;
}

bool pal_websocket_new(pal_websocket_loop *loop, const pal_websocket_options *options,
        pal_websocket **out_socket)
{
    static const struct wslay_event_callbacks callbacks = {
            .recv_callback = on_recv, .send_callback = on_send, .on_msg_recv_callback = on_message};
    pal_websocket *s = pal_calloc(1, sizeof *s);
    *out_socket = NULL;
    if (!s)
        return false;
    s->loop = loop;
    s->fd = options->fd;
    s->connection = options->connection;
    s->handlers = options->handlers;
    s->user = options->user;
    s->pending_bytes_max = options->pending_bytes_max;
    s->heartbeat_us = options->heartbeat_ms * 1000;
    s->heard_us = pal_clock_monotonic_us();
    atomic_init(&s->holders, 2); /* the connection itself, and the caller */
    pthread_mutex_init(&s->lock, NULL);
    if (!copy_early(s, options->early) ||
            wslay_event_context_server_init(&s->frames, &callbacks, s) != 0) {
        free_socket(s);
        return false;
    }
    wslay_event_config_set_max_recv_msg_length(s->frames, options->message_bytes_max);
    (void)fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_NONBLOCK);
    /* A writable socket is reported at once, so bytes that came early are read at once. */
    s->wants_events = true;
    *out_socket = s;
    if (!list(s)) {
        *out_socket = NULL;
        free_socket(s);
        return false;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = s};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, s->fd, &event) != 0) {
        unlist(s);
        *out_socket = NULL;
        free_socket(s);
        return false;
    }
    wake(loop);
    return true;
}

static void hold(pal_websocket *s)
{
    atomic_fetch_add(&s->holders, 1);
}

void pal_websocket_release(pal_websocket *s)
{
    if (s && atomic_fetch_sub(&s->holders, 1) == 1)
        free_socket(s);
}

void pal_websocket_poke(pal_websocket *s)
{
    pal_websocket_loop *loop = s->loop;
    pthread_mutex_lock(&loop->lock);
    if (!s->is_poked && !loop->is_closed) {
        s->is_poked = true;
        hold(s);
        s->next_poked = loop->poked;
        loop->poked = s;
    }
    pthread_mutex_unlock(&loop->lock);
    wake(loop);
}

bool pal_websocket_send(pal_websocket *s, pal_str text)
{
    const struct wslay_event_msg message = {.opcode = WSLAY_TEXT_FRAME,
            .msg = (const uint8_t *)text.data,
            .msg_length = text.len};
    pthread_mutex_lock(&s->lock);
    bool is_open = s->state == WEBSOCKET_OPEN && !s->is_broken;
    if (is_open) {
        /* One message may be longer than the limit, but no other may wait after it. */
        size_t waiting = wslay_event_get_queued_msg_length(s->frames);
        s->is_broken = waiting > s->pending_bytes_max ||
                wslay_event_queue_msg(s->frames, &message) != 0;
        flush(s);
    }
    is_open = is_open && !s->is_broken;
    pthread_mutex_unlock(&s->lock);
    return is_open;
}

void pal_websocket_close(pal_websocket *s, pal_websocket_code code, const char *reason)
{
    pthread_mutex_lock(&s->lock);
    queue_close(s, code, reason);
    if (s->state != WEBSOCKET_ENDED)
        flush(s);
    pthread_mutex_unlock(&s->lock);
}
