/* turn_event.c - the numbered log of a turn's events: bounded, in memory, read by anyone at any
 * time. A reader that asks for what is no longer kept sees a gap in the numbers, never a wrong
 * order. */
#include "turn/turn_event.h"

#include "base/memory.h"

struct pal_event_entry {
    pal_event event; /* its texts lie behind it */
    size_t bytes;
};

struct pal_watcher {
    pal_watcher *next;
    pal_watch watch;
    void (*gone)(void *user);
    void *user;
    bool is_over; /* it wants no more; taken out when nobody walks the list */
};

static pal_str copy_text(char **at, pal_str text)
{
    pal_str copy = pal_str_make(*at, text.len);

    if (text.len > 0)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return copy;
}

static pal_event_entry *make_entry(const pal_event *event)
{
    size_t texts = event->text.len + event->call_id.len + event->name.len;
    pal_event_entry *entry = pal_malloc(sizeof(*entry) + texts);
    char *at;

    if (!entry)
        return NULL;
    at = (char *)(entry + 1);
    entry->event = *event;
    entry->bytes = sizeof(*entry) + texts;
    entry->event.text = copy_text(&at, event->text);
    entry->event.call_id = copy_text(&at, event->call_id);
    entry->event.name = copy_text(&at, event->name);
    return entry;
}

static void drop_oldest(pal_event_log *log)
{
    pal_event_entry *entry = log->entries[log->first];

    log->bytes -= entry->bytes;
    log->first = (log->first + 1) % log->cap;
    log->len--;
    pal_free(entry);
}

static bool grow(pal_event_log *log, size_t cap_max)
{
    size_t cap = log->cap ? log->cap * 2 : 16;
    pal_event_entry **entries;

    if (cap > cap_max)
        cap = cap_max;
    if (cap <= log->cap)
        return false;
    entries = pal_malloc(cap * sizeof(*entries));
    if (!entries)
        return false;
    for (size_t i = 0; i < log->len; i++)
        entries[i] = log->entries[(log->first + i) % log->cap];
    pal_free(log->entries);
    log->entries = entries;
    log->cap = cap;
    log->first = 0;
    return true;
}

/* Without memory the event is told, and not kept. */
static void keep(pal_turn *turn, const pal_event *event)
{
    const pal_runtime_options *options = &turn->runtime->options;
    pal_event_log *log = &turn->events;
    pal_event_entry *entry = make_entry(event);

    if (!entry)
        return;
    if (log->len == log->cap && !grow(log, options->events_max)) {
        if (log->cap == 0) {
            pal_free(entry);
            return;
        }
        drop_oldest(log);
    }
    log->entries[(log->first + log->len++) % log->cap] = entry;
    log->bytes += entry->bytes;
    while (log->len > 1 && log->bytes > options->events_bytes_max)
        drop_oldest(log);
}

static void end_watcher(pal_turn *turn, pal_watcher *watcher)
{
    pal_runtime *runtime = turn->runtime;

    if (watcher->gone)
        watcher->gone(watcher->user);
    pal_free(watcher);
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.watchers--;
    pthread_mutex_unlock(&runtime->lock);
}

static void sweep(pal_turn *turn)
{
    pal_watcher **at = &turn->events.watchers;

    while (*at) {
        pal_watcher *watcher = *at;

        if (!watcher->is_over) {
            at = &watcher->next;
            continue;
        }
        *at = watcher->next;
        end_watcher(turn, watcher);
    }
}

static void tell_one(pal_turn *turn, pal_event event)
{
    if (turn->events.is_over)
        return; /* something comes back to a turn that has ended */
    turn->events.is_over = event.kind == PAL_EVENT_ENDED;
    event.number = ++turn->events.newest;
    event.turn = turn->id;
    keep(turn, &event);
    for (pal_watcher *watcher = turn->events.watchers; watcher; watcher = watcher->next)
        if (!watcher->is_over && !watcher->watch(&event, watcher->user))
            watcher->is_over = true;
    sweep(turn);
}

void pal_event_tell(pal_turn *turn, pal_event event)
{
    tell_one(turn, event);
    for (pal_turn *each = turn->followers; each; each = each->next_follower)
        tell_one(each, event);
}

pal_status pal_event_watch(pal_turn *turn, uint64_t after, pal_watch watch,
        void (*gone)(void *user), void *user, pal_error *err)
{
    pal_event_log *log = &turn->events;
    pal_watcher *watcher = pal_calloc(1, sizeof(*watcher));

    if (!watcher)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    *watcher = (pal_watcher){.next = log->watchers, .watch = watch, .gone = gone, .user = user};
    pthread_mutex_lock(&turn->runtime->lock);
    turn->runtime->stats.watchers++;
    pthread_mutex_unlock(&turn->runtime->lock);
    for (size_t i = 0; i < log->len && !watcher->is_over; i++) {
        const pal_event *event = &log->entries[(log->first + i) % log->cap]->event;

        if (event->number > after)
            watcher->is_over = !watch(event, user);
    }
    if (turn->phase == PAL_PHASE_ENDED || watcher->is_over)
        end_watcher(turn, watcher);
    else
        log->watchers = watcher;
    return PAL_OK;
}

void pal_event_unwatch(pal_turn *turn, const void *user)
{
    for (pal_watcher *watcher = turn->events.watchers; watcher; watcher = watcher->next)
        if (watcher->user == user)
            watcher->is_over = true;
    sweep(turn);
}

void pal_event_done(pal_turn *turn)
{
    pal_event_log *log = &turn->events;

    for (pal_watcher *watcher = log->watchers; watcher; watcher = watcher->next)
        watcher->is_over = true;
    sweep(turn);
    while (log->len > 0)
        drop_oldest(log);
    pal_free(log->entries);
    *log = (pal_event_log){.newest = log->newest};
}
