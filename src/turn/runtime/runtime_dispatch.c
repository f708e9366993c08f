/* runtime_dispatch.c - delivers events on the caller's thread: pal_turn_watch_queued(),
 * pal_runtime_fd(), pal_runtime_dispatch().
 *
 * Each watch has a reader, which watches the turn on the loop. The loop copies events into the
 * queue, and the caller's thread takes them out. The last item of a reader is its `on_close`, which
 * is part of the reader and therefore needs no memory. When it is taken, no other thread knows the
 * reader any more, and the reader is freed.
 *
 * The eventfd is written when the queue gets its first item and read when it loses its last one,
 * both under the lock, so it is readable exactly while there are items. */
#include "turn/runtime/runtime.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"

typedef struct pal_dispatch_item pal_dispatch_item;
typedef struct dispatch_reader dispatch_reader;

struct pal_dispatch_item {
    pal_dispatch_item *next;
    dispatch_reader *reader;
    size_t bytes;    /* 0: this is the reader's `on_close` */
    pal_event event; /* its texts follow in the same allocation */
};

struct dispatch_reader {
    pal_runtime *runtime;
    pal_id turn;
    pal_turn_on_event on_event;
    void (*on_close)(void *user);
    void *user;
    size_t bytes;    /* bytes of the reader's items; protected by the queue's lock */
    bool is_stopped; /* `on_event` has returned false; used by the dispatching thread only */
    pal_dispatch_item last;
};

/* ---- The queue ---- */

void pal_dispatch_init(pal_dispatch *dispatch)
{
    pthread_mutex_init(&dispatch->lock, NULL);
    dispatch->fd = -1;
}

static void signal_fd(const pal_dispatch *dispatch)
{
    uint64_t one = 1;

    if (dispatch->fd >= 0 && write(dispatch->fd, &one, sizeof(one)) < 0)
        return; /* it fails only if the counter is full, and then it is readable */
}

/* The lock must be held. */
static void add(pal_dispatch *dispatch, pal_dispatch_item *item)
{
    item->next = NULL;
    item->reader->bytes += item->bytes;
    if (dispatch->last)
        dispatch->last->next = item;
    else
        dispatch->first = item;
    dispatch->last = item;
    if (dispatch->len++ == 0)
        signal_fd(dispatch);
}

static pal_dispatch_item *take(pal_dispatch *dispatch)
{
    pal_dispatch_item *item;
    uint64_t count;

    pthread_mutex_lock(&dispatch->lock);
    item = dispatch->first;
    if (item) {
        item->reader->bytes -= item->bytes;
        dispatch->first = item->next;
        if (!dispatch->first)
            dispatch->last = NULL;
        if (--dispatch->len == 0 && dispatch->fd >= 0 &&
                read(dispatch->fd, &count, sizeof(count)) < 0)
            count = 0; /* the fd is not readable any more either way */
    }
    pthread_mutex_unlock(&dispatch->lock);
    return item;
}

/* ---- On the loop ---- */

static pal_str copy_text(char **at, pal_str text)
{
    pal_str copy = pal_str_make(*at, text.len);

    if (text.len > 0)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return copy;
}

static bool queue_event(const pal_event *event, void *user)
{
    dispatch_reader *reader = user;
    pal_dispatch *dispatch = &reader->runtime->dispatch;
    size_t bytes =
            sizeof(pal_dispatch_item) + event->text.len + event->call_id.len + event->name.len +
            event->questions.len;
    pal_dispatch_item *item = pal_malloc(bytes);
    char *at;
    bool fits;

    if (!item)
        return false;
    at = (char *)(item + 1);
    *item = (pal_dispatch_item){.reader = reader, .bytes = bytes, .event = *event};
    item->event.text = copy_text(&at, event->text);
    item->event.call_id = copy_text(&at, event->call_id);
    item->event.name = copy_text(&at, event->name);
    item->event.questions = copy_text(&at, event->questions);
    pthread_mutex_lock(&dispatch->lock);
    /* A single event is always accepted, so that a reader makes progress. */
    fits = reader->bytes == 0 || reader->bytes + bytes <= PAL_DISPATCH_BYTES_MAX;
    if (fits)
        add(dispatch, item);
    pthread_mutex_unlock(&dispatch->lock);
    if (!fits)
        pal_free(item);
    return fits && event->kind != PAL_EVENT_ENDED; /* no event follows ENDED */
}

static void queue_close(void *user)
{
    dispatch_reader *reader = user;
    pal_dispatch *dispatch = &reader->runtime->dispatch;

    pthread_mutex_lock(&dispatch->lock);
    add(dispatch, &reader->last);
    pthread_mutex_unlock(&dispatch->lock);
}

/* ---- On the caller's thread ---- */

pal_status pal_turn_watch_queued(pal_runtime *runtime, pal_str tenant, pal_id turn, uint64_t after,
        pal_turn_on_event on_event, void (*on_close)(void *user), void *user, pal_error *err)
{
    dispatch_reader *reader = pal_calloc(1, sizeof(*reader));
    pal_status status;

    if (!reader)
        return pal_no_memory(err);
    *reader = (dispatch_reader){.runtime = runtime,
            .turn = turn,
            .on_event = on_event,
            .on_close = on_close,
            .user = user,
            .last.reader = reader};
    status = pal_turn_watch(runtime, tenant, turn, after, queue_event, queue_close, reader, err);
    if (status != PAL_OK)
        pal_free(reader);
    return status;
}

int pal_runtime_fd(pal_runtime *runtime)
{
    pal_dispatch *dispatch = &runtime->dispatch;
    int fd;

    pthread_mutex_lock(&dispatch->lock);
    if (dispatch->fd < 0) {
        dispatch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (dispatch->len > 0)
            signal_fd(dispatch);
    }
    fd = dispatch->fd;
    pthread_mutex_unlock(&dispatch->lock);
    return fd;
}

static void end_reader(dispatch_reader *reader)
{
    if (reader->on_close)
        reader->on_close(reader->user);
    pal_free(reader);
}

/* Returns true if a callback was made. */
static bool deliver(pal_dispatch_item *item)
{
    dispatch_reader *reader = item->reader;
    bool is_wanted = !reader->is_stopped;

    if (item->bytes == 0) {
        end_reader(reader);
        return true;
    }
    if (is_wanted && !reader->on_event(&item->event, reader->user)) {
        reader->is_stopped = true;
        pal_turn_unwatch(reader->runtime, reader->turn, reader);
    }
    pal_free(item);
    return is_wanted;
}

size_t pal_runtime_dispatch(pal_runtime *runtime, size_t callbacks_max)
{
    pal_dispatch *dispatch = &runtime->dispatch;
    size_t waiting, made = 0;

    pthread_mutex_lock(&dispatch->lock);
    waiting = dispatch->len;
    pthread_mutex_unlock(&dispatch->lock);
    while (waiting-- > 0 && (callbacks_max == 0 || made < callbacks_max))
        made += deliver(take(dispatch));
    return made;
}

void pal_dispatch_done(pal_dispatch *dispatch)
{
    pal_dispatch_item *item;

    while ((item = take(dispatch)) != NULL) {
        if (item->bytes == 0)
            end_reader(item->reader);
        else
            pal_free(item);
    }
    if (dispatch->fd >= 0)
        close(dispatch->fd);
    pthread_mutex_destroy(&dispatch->lock);
}
