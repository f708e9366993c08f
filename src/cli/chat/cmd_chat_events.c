/* cmd_chat_events.c - passes the events of a turn from the loop, which must not block, to the
 * thread that writes to the terminal, which may block. The queue is bounded: when it is full,
 * watching stops, and it starts again after the last event once the terminal has caught up. */
#include "cli/chat/cmd_chat.h"

#include <pthread.h>
#include "base/memory.h"

#define WAITING_BYTES_MAX ((size_t)4 << 20)

typedef struct entry {
    struct entry *next;
    pal_event event; /* its texts are stored after it */
    size_t bytes;
} entry;

struct pal_chat_events {
    pal_chat *chat;
    pal_id turn;
    pthread_mutex_t lock;
    entry *first; /* the first waiting event; the lock protects this and all members below */
    entry **last;
    size_t bytes;
    bool is_gone;  /* watching has ended */
    bool is_short; /* watching has ended because the queue was full */
    uint64_t seen; /* the number of the newest event that was queued */
};

static pal_str copy_text(char **at, pal_str text)
{
    pal_str copy = pal_str_make(*at, text.len);
    if (text.len > 0)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return copy;
}

static entry *make_entry(const pal_event *event)
{
    size_t bytes = sizeof(entry) + event->text.len + event->call_id.len + event->name.len;
    entry *made = pal_malloc(bytes);
    if (!made)
        return NULL;
    char *at = (char *)(made + 1);
    *made = (entry){.event = *event, .bytes = bytes};
    made->event.text = copy_text(&at, event->text);
    made->event.call_id = copy_text(&at, event->call_id);
    made->event.name = copy_text(&at, event->name);
    return made;
}

/* Runs on the loop. */
static bool gather(const pal_event *event, void *user)
{
    pal_chat_events *events = user;
    entry *made = make_entry(event);
    pthread_mutex_lock(&events->lock);
    bool has_room = made && events->bytes < WAITING_BYTES_MAX;
    if (has_room) {
        *events->last = made;
        events->last = &made->next;
        events->bytes += made->bytes;
        events->seen = event->number;
    } else {
        events->is_short = true;
        pal_free(made);
    }
    pthread_mutex_unlock(&events->lock);
    pal_signals_wake();
    return has_room;
}

/* Runs on the loop. */
static void note_gone(void *user)
{
    pal_chat_events *events = user;
    pthread_mutex_lock(&events->lock);
    events->is_gone = true;
    pthread_mutex_unlock(&events->lock);
    pal_signals_wake();
}

static pal_status watch(pal_chat_events *events)
{
    pal_cli *cli = events->chat->cli;
    events->is_gone = false;
    events->is_short = false;
    return pal_turn_watch(events->chat->runtime.runtime, pal_cli_tenant(cli), events->turn,
            events->seen, gather, note_gone, events, &cli->err);
}

pal_chat_events *pal_chat_events_open(pal_chat *chat, pal_id turn)
{
    pal_chat_events *events = pal_calloc(1, sizeof *events);
    if (!events) {
        pal_status status = pal_cli_no_memory(chat->cli);
        (void)status;
        return NULL;
    }
    events->chat = chat;
    events->turn = turn;
    events->last = &events->first;
    pthread_mutex_init(&events->lock, NULL);
    if (watch(events) == PAL_OK)
        return events;
    events->is_gone = true;
    pal_chat_events_close(events);
    return NULL;
}

static void free_all(entry *first)
{
    while (first) {
        entry *next = first->next;
        pal_free(first);
        first = next;
    }
}

void pal_chat_events_close(pal_chat_events *events)
{
    if (!events)
        return;
    pal_turn_unwatch(events->chat->runtime.runtime, events->turn, events);
    pthread_mutex_destroy(&events->lock);
    free_all(events->first);
    pal_free(events);
}

bool pal_chat_events_take(
        pal_chat_events *events, bool (*on_event)(const pal_event *event, void *user), void *user)
{
    bool continues = true;
    pthread_mutex_lock(&events->lock);
    entry *first = events->first;
    bool is_gone = events->is_gone, is_short = events->is_short;
    events->first = NULL;
    events->last = &events->first;
    events->bytes = 0;
    pthread_mutex_unlock(&events->lock);
    for (entry *at = first; at && continues; at = at->next)
        continues = on_event(&at->event, user);
    free_all(first);
    if (continues && is_gone && is_short)
        return watch(events) == PAL_OK;
    return continues && !is_gone;
}
