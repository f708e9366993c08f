/* turn_event.c - the numbered log of a turn's events. It is bounded, kept in memory, and can be
 * read at any time. On the loop.
 *
 * When the log is full, consecutive events that add to the same text (TEXT, REASONING, ARGUMENTS)
 * are merged, under the number of the last one. So a late reader gets the complete text in fewer
 * events. A reader that returns in the middle of a merged event gets the rest of it. If merging
 * makes no room, the oldest event is dropped. A reader that requests it sees a gap in the numbers,
 * never a wrong order. A crash loses the log; what was recorded is in the store. */
#include "turn/turn_event.h"

#include "base/clock.h"
#include "base/memory.h"

enum { MERGED_BYTES_MAX = 32 * 1024 }; /* maximum text of a merged event */

/* Almost all events add to a text. Such an event has no other members than these. */
struct pal_event_entry {
    uint64_t number; /* number of the last event in this entry */
    uint64_t first;  /* number of the first event in this entry */
    pal_event_kind kind;
    bool is_refusal;
    uint64_t count;
    pal_str text;
    pal_str call_id;
    uint32_t *ends;   /* where the text of each event except the last ends; NULL: a single event */
    size_t bytes;     /* size of the allocation, which includes the texts, `ends` and `event` */
    pal_event *event; /* an event that does not add to a text; otherwise NULL */
};

struct pal_watcher {
    pal_watcher *next;
    pal_turn_on_event on_event;
    void (*on_close)(void *user);
    void *user;
    bool is_over; /* it wants no more events; freed when the list is not being walked */
};

static pal_str copy_text(char **at, pal_str text)
{
    pal_str copy = pal_str_make(*at, text.len);

    if (text.len > 0)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return copy;
}

static bool adds_to_text(pal_event_kind kind)
{
    return kind == PAL_EVENT_TEXT || kind == PAL_EVENT_REASONING || kind == PAL_EVENT_ARGUMENTS;
}

static pal_event_entry *make_entry(const pal_event *event)
{
    size_t whole = adds_to_text(event->kind) ? 0 : sizeof(*event);
    size_t bytes = sizeof(pal_event_entry) + whole + event->text.len + event->call_id.len +
            event->name.len + event->questions.len;
    pal_event_entry *entry = pal_malloc(bytes);
    char *at;

    if (!entry)
        return NULL;
    at = (char *)(entry + 1) + whole;
    *entry = (pal_event_entry){.number = event->number,
            .first = event->number,
            .kind = event->kind,
            .is_refusal = event->is_refusal,
            .count = event->count,
            .text = copy_text(&at, event->text),
            .call_id = copy_text(&at, event->call_id),
            .bytes = bytes};
    if (whole) {
        entry->event = (pal_event *)(entry + 1);
        *entry->event = *event;
        entry->event->text = entry->text;
        entry->event->call_id = entry->call_id;
        entry->event->name = copy_text(&at, event->name);
        entry->event->questions = copy_text(&at, event->questions);
    }
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
    size_t cap = log->cap ? log->cap * 2 : 8;
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

/* ---- Making room ---- */

static size_t count_of(const pal_event_entry *entry)
{
    return (size_t)(entry->number - entry->first) + 1;
}

static bool can_merge(const pal_event_entry *a, const pal_event_entry *b)
{
    return a->kind == b->kind && adds_to_text(a->kind) && a->count == b->count &&
            a->is_refusal == b->is_refusal && pal_str_equal(a->call_id, b->call_id) &&
            a->number + 1 == b->first;
}

static uint32_t end_of(const pal_event_entry *entry, size_t at)
{
    return at + 1 < count_of(entry) ? entry->ends[at] : (uint32_t)entry->text.len;
}

/* Merges `len` entries from `at` on. Returns NULL if there is no memory. */
static pal_event_entry *merge(const pal_event_log *log, size_t at, size_t len)
{
    const pal_event_entry *first = log->entries[(log->first + at) % log->cap];
    size_t count = 0, text = 0, bytes;
    pal_event_entry *merged;
    uint32_t *ends;
    char *to;

    for (size_t i = 0; i < len; i++) {
        const pal_event_entry *each = log->entries[(log->first + at + i) % log->cap];

        count += count_of(each);
        text += each->text.len;
    }
    bytes = sizeof(*merged) + count * sizeof(*ends) + text + first->call_id.len;
    merged = pal_malloc(bytes);
    if (!merged)
        return NULL;
    ends = (uint32_t *)(merged + 1);
    to = (char *)(ends + count);
    *merged = *first;
    merged->bytes = bytes;
    merged->ends = ends;
    merged->call_id = copy_text(&to, first->call_id);
    merged->text = pal_str_make(to, text);
    for (size_t i = 0, k = 0, before = 0; i < len; i++) {
        const pal_event_entry *each = log->entries[(log->first + at + i) % log->cap];

        for (size_t j = 0; j < count_of(each); j++)
            ends[k++] = (uint32_t)before + end_of(each, j);
        before += each->text.len;
        copy_text(&to, each->text);
        merged->number = each->number;
    }
    return merged;
}

/* Returns how many entries from `at` on belong to one text and fit into one event. */
static size_t run_at(const pal_event_log *log, size_t at)
{
    const pal_event_entry *before = log->entries[(log->first + at) % log->cap];
    size_t len = 1, bytes = before->text.len;

    for (; at + len < log->len; len++) {
        const pal_event_entry *next = log->entries[(log->first + at + len) % log->cap];

        bytes += next->text.len;
        if (!can_merge(before, next) || bytes > MERGED_BYTES_MAX)
            break;
        before = next;
    }
    return len;
}

/* Not tried for every event: if many short texts alternate, merging gains little. */
static void make_room(pal_event_log *log)
{
    size_t kept = 0, len = log->len;

    if (log->newest < log->merge_at)
        return;
    log->merge_at = log->newest + log->cap / 8;
    for (size_t at = 0, run; at < len; at += run) {
        pal_event_entry *merged = NULL;

        run = run_at(log, at);
        if (run > 1)
            merged = merge(log, at, run);
        for (size_t i = 0; i < run; i++) {
            pal_event_entry **from = &log->entries[(log->first + at + i) % log->cap];

            if (merged) {
                log->bytes -= (*from)->bytes;
                pal_free(*from);
            } else {
                log->entries[(log->first + kept++) % log->cap] = *from;
            }
        }
        if (merged) {
            log->bytes += merged->bytes;
            log->entries[(log->first + kept++) % log->cap] = merged;
        }
    }
    log->len = kept;
}

/* Returns the event, or the part of a merged event after the number `after`. */
static pal_event event_after(const pal_turn *turn, const pal_event_entry *entry, uint64_t after)
{
    size_t from = entry->ends && after >= entry->first ? entry->ends[after - entry->first] : 0;

    if (entry->event)
        return *entry->event;
    return (pal_event){.number = entry->number,
            .kind = entry->kind,
            .turn = turn->id,
            .text = pal_str_make(entry->text.data + from, entry->text.len - from),
            .call_id = entry->call_id,
            .count = entry->count,
            .is_refusal = entry->is_refusal};
}

/* If there is no memory, the event is published but not kept. */
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
        make_room(log);
        if (log->len == log->cap)
            drop_oldest(log);
    }
    log->entries[(log->first + log->len++) % log->cap] = entry;
    log->bytes += entry->bytes;
    if (log->bytes > options->events_bytes_max)
        make_room(log);
    while (log->len > 1 && log->bytes > options->events_bytes_max)
        drop_oldest(log);
}

static void end_watcher(pal_turn *turn, pal_watcher *watcher)
{
    pal_runtime *runtime = turn->runtime;

    if (watcher->on_close)
        watcher->on_close(watcher->user);
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

static void publish_one(pal_turn *turn, pal_event event)
{
    if (turn->events.is_over)
        return; /* a late callback of a turn that has ended */
    turn->events.is_over = event.kind == PAL_EVENT_ENDED;
    event.number = ++turn->events.newest;
    event.turn = turn->id;
    if (event.at == 0 && !adds_to_text(event.kind))
        event.at = pal_clock_now_ms();
    keep(turn, &event);
    bool has_left = false;
    for (pal_watcher *watcher = turn->events.watchers; watcher; watcher = watcher->next) {
        if (!watcher->is_over &&
                (!watcher->on_event(&event, watcher->user) || turn->events.is_over))
            watcher->is_over = true;
        has_left = has_left || watcher->is_over;
    }
    if (has_left)
        sweep(turn);
}

void pal_event_publish(pal_turn *turn, pal_event event)
{
    publish_one(turn, event);
    for (pal_turn *each = turn->queue.followers; each; each = each->queue.next_follower)
        publish_one(each, event);
}

pal_status pal_event_watch(pal_turn *turn, uint64_t after, pal_turn_on_event on_event,
        void (*on_close)(void *user), void *user, pal_error *err)
{
    pal_event_log *log = &turn->events;
    pal_watcher *watcher = pal_calloc(1, sizeof(*watcher));

    if (!watcher)
        return pal_no_memory(err);
    if (after > log->newest)
        after = 0; /* those numbers came from another process, which ran the turn before */
    *watcher = (pal_watcher){
            .next = log->watchers, .on_event = on_event, .on_close = on_close, .user = user};
    pthread_mutex_lock(&turn->runtime->lock);
    turn->runtime->stats.watchers++;
    pthread_mutex_unlock(&turn->runtime->lock);
    for (size_t i = 0; i < log->len && !watcher->is_over; i++) {
        const pal_event_entry *entry = log->entries[(log->first + i) % log->cap];
        pal_event event;

        if (entry->number <= after)
            continue;
        event = event_after(turn, entry, after);
        watcher->is_over = !on_event(&event, user);
    }
    if (turn->phase == PAL_TURN_PHASE_ENDED || log->is_over || watcher->is_over)
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
