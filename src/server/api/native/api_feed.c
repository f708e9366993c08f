/* api_feed.c - reports changes of a tenant's sessions as Server-Sent Events:
 *
 *   id: 5f0c1b2a9d3e4f60.17
 *   event: session
 *   data: {"session_id":"...","what":"messages","last_seq":4}
 *
 * A tenant whose feed was ever read has a ring of its newest events, so that a disconnected reader
 * can continue. An id names the ring and the event's number in it. The id can name a ring of an
 * earlier server, a ring that was dropped, or an event that is no longer in the ring. Then the
 * reader gets the event "lost" and must read the sessions again. Before the first reader of a
 * tenant connects, no events are kept for that tenant.
 *
 * A reader can also watch turns: it then gets their events as the event "turn_event", without an
 * id. The position in the events of a turn is their number.
 *
 * Events come from the store, on any thread that commits, and from the runtime's loop. One lock
 * guards everything, and nothing waits while it is held: a stream copies what it is given, and
 * drops a reader that is too slow. */
#include "server/api/native/api_feed.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "dialect/native/native.h"
#include "server/access/access_key.h"
#include "server/run/run.h"
#include "server/api/api_object.h"
#include "server/server_call.h"
#include "server/server_settings.h"

#define BOOT_SIZE 17   /* 16 digits and NUL */
#define KEY_ID_SIZE 64 /* longer than the id of any key in the store */

typedef struct feed_event {
    pal_store_change_kind change; /* NONE if it is the event of a turn */
    pal_mark_kind mark;
    pal_turn_info *turn; /* only of an event of a turn; belongs to the event */
    pal_id session;
    uint64_t number; /* seq of a message, or number of a mark */
} feed_event;

typedef struct feed_ring feed_ring;

/* A turn that a reader watches. */
typedef struct feed_watch {
    struct feed_reader *reader;
    pal_id turn;
    pal_id session;
    uint64_t after;
    uint64_t past; /* number of the newest event when the watch began */
} feed_watch;

typedef struct feed_reader {
    struct feed_reader *next;
    feed_ring *ring;
    pal_feed *feed;
    pal_stream *stream;
    char key_id[KEY_ID_SIZE]; /* empty: the server has no keys */
    bool is_ended; /* it accepts no more events; its end will be reported */
    int holds;     /* the stream, and the handler while it adds watches */
    feed_watch watches[PAL_SERVER_FEED_WATCHES_MAX];
    size_t watches_len;
    uint64_t past_room; /* bytes of past events of turns that can still be written */
    bool has_past;      /* such an event was written */
} feed_reader;

struct feed_ring {
    feed_ring *next;
    char tenant[PAL_TENANT_LEN_MAX + 1];
    char boot[BOOT_SIZE];
    uint64_t last; /* number of the newest event; 0 if there is none */
    feed_reader *readers;
    feed_event events[PAL_SERVER_FEED_EVENTS_MAX]; /* event N is at N % MAX */
};

struct pal_feed {
    pthread_mutex_t lock;
    pal_server *server;
    feed_ring *rings; /* the most recently used one first */
    atomic_size_t rings_len;
};

/* ---- Writing events ---- */

static const char *const what_names[] = {
        [PAL_STORE_CHANGE_CREATED] = "created",
        [PAL_STORE_CHANGE_UPDATED] = "updated",
        [PAL_STORE_CHANGE_MESSAGES] = "messages",
        [PAL_STORE_CHANGE_DELETED] = "deleted",
        [PAL_STORE_CHANGE_RESTORED] = "restored",
        [PAL_STORE_CHANGE_ERASED] = "erased",
};

static void begin_frame(pal_buf *buf, const feed_ring *ring, uint64_t number, const char *name)
{
    pal_buf_format(buf, "id: %s.%llu\nevent: %s\ndata: ", ring->boot, (unsigned long long)number,
            name);
}

static const char *name_of(const feed_event *event)
{
    if (!event->change)
        return "turn";
    return event->change == PAL_STORE_CHANGE_MARK ? "mark"
            : event->change == PAL_STORE_CHANGE_INBOX ? "inbox"
                                                      : "session";
}

static void put_event(pal_buf *buf, const feed_ring *ring, uint64_t number)
{
    const feed_event *event = &ring->events[number % PAL_SERVER_FEED_EVENTS_MAX];
    pal_json_writer writer = pal_json_writer_make(buf);
    begin_frame(buf, ring, number, name_of(event));
    pal_json_begin_object(&writer);
    if (event->turn)
        pal_native_turn_put(&writer, event->turn);
    else
        pal_put_id(&writer, "session_id", event->session);
    if (event->change == PAL_STORE_CHANGE_MARK) {
        pal_put_count(&writer, "number", event->number);
        pal_put_text(&writer, "kind", pal_native_mark_kind_name(event->mark));
    } else if (event->change && event->change != PAL_STORE_CHANGE_INBOX) {
        pal_put_text(&writer, "what", what_names[event->change]);
    }
    if (event->change == PAL_STORE_CHANGE_MESSAGES)
        pal_put_count(&writer, "last_seq", event->number);
    pal_json_end_object(&writer);
    pal_buf_append_text(buf, "\n\n");
}

/* The lock must be held. Ends the stream of a reader that accepts no more; the reader
 * reconnects. */
static void write_to(feed_reader *reader, const pal_buf *buf)
{
    if (reader->is_ended || !reader->stream)
        return;
    bool is_taken = buf->failure == PAL_OK && pal_stream_write(reader->stream, pal_buf_str(buf));
    if (is_taken)
        return;
    reader->is_ended = true;
    pal_stream_end(reader->stream);
}

/* ---- Events ---- */

/* The lock must be held. Moves the ring to the front of the list. */
static feed_ring *find_ring(pal_feed *feed, pal_str tenant)
{
    for (feed_ring **at = &feed->rings; *at; at = &(*at)->next) {
        feed_ring *ring = *at;
        if (!pal_str_is(tenant, ring->tenant))
            continue;
        *at = ring->next;
        ring->next = feed->rings;
        feed->rings = ring;
        return ring;
    }
    return NULL;
}

/* Takes the turn of the event. */
static void add_event(pal_feed *feed, pal_str tenant, const feed_event *event)
{
    pal_buf buf;
    pthread_mutex_lock(&feed->lock);
    feed_ring *ring = find_ring(feed, tenant);
    if (ring) {
        feed_event *place = &ring->events[++ring->last % PAL_SERVER_FEED_EVENTS_MAX];
        pal_free(place->turn);
        *place = *event;
        pal_buf_init(&buf, PAL_SERVER_EVENT_BYTES_MAX);
        if (ring->readers)
            put_event(&buf, ring, ring->last);
        for (feed_reader *reader = ring->readers; reader; reader = reader->next)
            write_to(reader, &buf);
        pal_buf_done(&buf);
    } else {
        pal_free(event->turn);
    }
    pthread_mutex_unlock(&feed->lock);
}

static void store_changed(const pal_store_change *change, void *user)
{
    feed_event event = {.change = change->kind,
            .mark = change->mark,
            .session = change->session,
            .number = change->kind == PAL_STORE_CHANGE_MARK ? change->number : change->seq};
    pal_feed *feed = user;
    if (atomic_load(&feed->rings_len) > 0)
        add_event(feed, change->tenant, &event);
}

/* Logs failures and retries here, because a turn in the background has no client that would report
 * them. A refused turn has no events; its request reports the refusal. */
static void log_turn(const pal_turn_info *info)
{
    char turn[PAL_ID_TEXT_SIZE], session[PAL_ID_TEXT_SIZE];
    bool is_failure = info->state == PAL_TURN_FAILED && info->events > 0;
    if ((!is_failure && info->state != PAL_TURN_RETRYING) || info->is_elsewhere)
        return;
    pal_id_to_text(info->turn, turn);
    pal_id_to_text(info->session, session);
    if (is_failure)
        pal_log(PAL_LOG_WARN, "turn %s of session %s failed: %s", turn, session, info->reason);
    else
        pal_log(PAL_LOG_WARN, "turn %s of session %s retries its model call (attempt %u): %s", turn,
                session, (unsigned)info->attempt, info->reason);
}

static void turn_changed(pal_str tenant, const pal_turn_info *info, void *user)
{
    pal_feed *feed = user;
    feed_event event = {.session = info->session};
    log_turn(info);
    if (atomic_load(&feed->rings_len) == 0)
        return;
    event.turn = pal_malloc(sizeof *event.turn);
    if (!event.turn)
        return;
    *event.turn = *info;
    add_event(feed, tenant.len ? tenant : pal_str_of("default"), &event);
}

/* ---- Watched turns ---- */

/* The lock must be held. Past events come all at once and may exceed the buffer of the connection.
 * In that case the stream ends after some of them, and the reader continues after those. */
static void write_turn_event(feed_reader *reader, const pal_buf *buf, bool is_past)
{
    bool is_enough = is_past && buf->len > reader->past_room;
    if (is_enough && reader->has_past && !reader->is_ended) {
        reader->is_ended = true;
        pal_stream_end(reader->stream);
    }
    if (is_past) {
        reader->past_room -= is_enough ? reader->past_room : buf->len;
        reader->has_past = true;
    }
    write_to(reader, buf);
}

/* Called on the runtime's loop. */
static bool turn_happened(const pal_event *event, void *user)
{
    feed_watch *watch = user;
    feed_reader *reader = watch->reader;
    pal_buf buf;
    pal_buf_init(&buf, PAL_SERVER_EVENT_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_buf_append_text(&buf, "event: turn_event\ndata: ");
    pal_json_begin_object(&writer);
    pal_put_id(&writer, "turn_id", watch->turn);
    pal_put_count(&writer, "number", event->number);
    pal_put_text(&writer, "kind", pal_event_kind_name(event->kind));
    pal_json_name(&writer, "data");
    pal_native_event_put(&writer, event, watch->session);
    pal_json_end_object(&writer);
    pal_buf_append_text(&buf, "\n\n");
    pthread_mutex_lock(&reader->feed->lock);
    write_turn_event(reader, &buf, event->number <= watch->past);
    bool is_ended = reader->is_ended;
    pthread_mutex_unlock(&reader->feed->lock);
    pal_buf_done(&buf);
    return !is_ended;
}

/* A turn that is not in this process cannot be watched here. The reader gets an event that says so,
 * and can read the turn's state. */
static void write_unwatched(feed_reader *reader, const feed_watch *watch)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_SERVER_EVENT_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_buf_append_text(&buf, "event: unwatched\ndata: ");
    pal_json_begin_object(&writer);
    pal_put_id(&writer, "turn_id", watch->turn);
    pal_json_end_object(&writer);
    pal_buf_append_text(&buf, "\n\n");
    pthread_mutex_lock(&reader->feed->lock);
    write_to(reader, &buf);
    pthread_mutex_unlock(&reader->feed->lock);
    pal_buf_done(&buf);
}

/* The lock must not be held: events come on the loop, which takes it. */
static void watch_turns(feed_reader *reader, pal_str tenant)
{
    pal_runtime *runtime = reader->feed->server->runtime;
    for (size_t i = 0; i < reader->watches_len; i++) {
        feed_watch *watch = &reader->watches[i];
        pal_turn_info info;
        pal_status status = pal_turn_find(runtime, tenant, watch->turn, &info, NULL);
        if (status == PAL_OK) {
            watch->session = info.session;
            watch->past = info.events;
            status = pal_turn_watch(runtime, tenant, watch->turn, watch->after, turn_happened, NULL,
                    watch, NULL);
        }
        if (status != PAL_OK)
            write_unwatched(reader, watch);
    }
}

static bool read_watch(pal_str text, feed_watch *out_watch)
{
    const char *colon = memchr(text.data, ':', text.len);
    size_t len = colon ? (size_t)(colon - text.data) : text.len;
    *out_watch = (feed_watch){.after = 0};
    return pal_id_from_text(pal_str_make(text.data, len), &out_watch->turn) &&
            (!colon ||
                    pal_call_number(pal_str_make(colon + 1, text.len - len - 1),
                            &out_watch->after));
}

/* Reads "TURN:N,TURN:N". */
static pal_status read_watches(
        pal_call *call, feed_watch *out_watches, size_t *out_len, pal_error *err)
{
    pal_str text = {0};
    *out_len = 0;
    call->fail_param = "watch";
    if (!pal_exchange_query(call->exchange, "watch", &text))
        text = (pal_str){0};
    for (size_t at = 0; at < text.len;) {
        const char *comma = memchr(text.data + at, ',', text.len - at);
        size_t end = comma ? (size_t)(comma - text.data) : text.len;
        if (*out_len == PAL_SERVER_FEED_WATCHES_MAX)
            return pal_error_set(err, PAL_INVALID, "'watch' must name at most %d turns",
                    PAL_SERVER_FEED_WATCHES_MAX);
        if (!read_watch(pal_str_make(text.data + at, end - at), &out_watches[(*out_len)++]))
            return pal_error_set(err, PAL_INVALID,
                    "'watch' must be a list of TURN:NUMBER, separated by commas");
        at = end + 1;
    }
    call->fail_param = NULL;
    return PAL_OK;
}

/* ---- Readers ---- */

/* The last hold is released: the stream has ended, and no watch is being added. */
static void release_reader(feed_reader *reader)
{
    pal_feed *feed = reader->feed;
    pthread_mutex_lock(&feed->lock);
    bool is_last = --reader->holds == 0;
    feed_reader **at = &reader->ring->readers;
    while (is_last && *at && *at != reader)
        at = &(*at)->next;
    if (is_last && *at)
        *at = reader->next;
    pthread_mutex_unlock(&feed->lock);
    if (!is_last)
        return;
    /* No event of these turns is reported after this. */
    for (size_t i = 0; i < reader->watches_len; i++)
        pal_turn_unwatch(feed->server->runtime, reader->watches[i].turn, &reader->watches[i]);
    pal_free(reader);
}

/* Called on a listener thread. */
static void stream_gone(void *user)
{
    feed_reader *reader = user;
    pthread_mutex_lock(&reader->feed->lock);
    reader->is_ended = true;
    pthread_mutex_unlock(&reader->feed->lock);
    release_reader(reader);
}

static void free_ring(feed_ring *ring)
{
    for (size_t i = 0; i < PAL_SERVER_FEED_EVENTS_MAX; i++)
        pal_free(ring->events[i].turn);
    pal_free(ring);
}

/* The lock must be held. Frees the least recently used ring without readers, if there are too
 * many. */
static bool make_room(pal_feed *feed)
{
    feed_ring **unused = NULL;
    if (atomic_load(&feed->rings_len) < PAL_SERVER_FEED_TENANTS_MAX)
        return true;
    for (feed_ring **at = &feed->rings; *at; at = &(*at)->next) {
        if (!(*at)->readers)
            unused = at;
    }
    if (!unused)
        return false;
    feed_ring *ring = *unused;
    *unused = ring->next;
    free_ring(ring);
    atomic_fetch_sub(&feed->rings_len, 1);
    return true;
}

/* The lock must be held. Returns NULL on failure, with the reason in `err`. */
static feed_ring *get_ring(pal_feed *feed, pal_call *call, pal_error *err)
{
    uint64_t random;
    feed_ring *ring = find_ring(feed, call->caller.tenant);
    if (ring)
        return ring;
    if (!make_room(feed)) {
        (void)!pal_call_refuse(call, 503, "busy", PAL_BUSY, err,
                "the feeds of %d tenants are being read, which is the maximum; retry later",
                PAL_SERVER_FEED_TENANTS_MAX);
        return NULL;
    }
    ring = pal_calloc(1, sizeof *ring);
    if (!ring) {
        pal_no_memory(err);
        return NULL;
    }
    pal_random_bytes(&random, sizeof random);
    snprintf(ring->tenant, sizeof ring->tenant, "%.*s", PAL_STR_ARG(call->caller.tenant));
    snprintf(ring->boot, sizeof ring->boot, "%016llx", (unsigned long long)random);
    ring->next = feed->rings;
    feed->rings = ring;
    atomic_fetch_add(&feed->rings_len, 1);
    return ring;
}

/* Reads "RING.N" from the query, or from the header that a browser sends when it reconnects. */
static pal_status read_after(
        pal_call *call, pal_str *out_boot, uint64_t *out_number, bool *out_given, pal_error *err)
{
    pal_str text = pal_exchange_header(call->exchange, "last-event-id");
    if (text.len == 0 && !pal_exchange_query(call->exchange, "after", &text))
        text = (pal_str){0};
    *out_given = text.len > 0;
    if (text.len == 0)
        return PAL_OK;
    const char *dot = memchr(text.data, '.', text.len);
    size_t len = dot ? (size_t)(dot - text.data) : 0;
    if (dot && pal_call_number(pal_str_make(dot + 1, text.len - len - 1), out_number)) {
        *out_boot = pal_str_make(text.data, len);
        return PAL_OK;
    }
    call->fail_param = "after";
    return pal_error_set(err, PAL_INVALID, "'after' must be the id of an event of this feed");
}

/* The lock must be held. Writes the events after the given one, or "lost" if they are gone. A
 * reader without a position gets "ready" with the current position. */
static void write_past(
        feed_reader *reader, pal_str boot, uint64_t number, bool is_given)
{
    const feed_ring *ring = reader->ring;
    uint64_t oldest = ring->last > PAL_SERVER_FEED_EVENTS_MAX
            ? ring->last - PAL_SERVER_FEED_EVENTS_MAX
            : 0;
    bool is_known = is_given && pal_str_is(boot, ring->boot) && number >= oldest &&
            number <= ring->last;
    pal_buf buf;
    pal_buf_init(&buf, PAL_SERVER_EVENT_BYTES_MAX);
    if (is_given && !is_known) {
        begin_frame(&buf, ring, ring->last, "lost");
        pal_buf_append_text(&buf, "{}\n\n");
    }
    for (uint64_t n = number + 1; is_known && n <= ring->last; n++)
        put_event(&buf, ring, n);
    if (!is_given) {
        begin_frame(&buf, ring, ring->last, "ready");
        pal_buf_append_text(&buf, "{}\n\n");
    }
    if (buf.len)
        write_to(reader, &buf);
    pal_buf_done(&buf);
}

/* The lock must be held. If it fails, nothing was sent. */
static pal_status open_reader(pal_feed *feed, pal_call *call, feed_reader **out_reader,
        pal_error *err)
{
    feed_ring *ring = get_ring(feed, call, err);
    feed_reader *reader = ring ? pal_calloc(1, sizeof *reader) : NULL;
    if (!ring)
        return err->status;
    if (!reader)
        return pal_no_memory(err);
    reader->feed = feed;
    reader->ring = ring;
    reader->holds = 2;
    snprintf(reader->key_id, sizeof reader->key_id, "%.*s", PAL_STR_ARG(call->caller.key_id));
    reader->past_room = call->server->settings->stream_bytes_max / 2;
    reader->stream = pal_run_stream(call, 200, PAL_RUN_EVENT_STREAM, stream_gone, reader);
    if (!reader->stream) {
        pal_free(reader);
        return pal_run_refuse_stream(call, err);
    }
    reader->next = ring->readers;
    ring->readers = reader;
    *out_reader = reader;
    return PAL_OK;
}

static pal_status read_feed(pal_call *call, pal_error *err)
{
    pal_feed *feed = call->server->feed;
    feed_reader *reader = NULL;
    feed_watch watches[PAL_SERVER_FEED_WATCHES_MAX];
    size_t watches_len = 0;
    pal_str boot = {0};
    uint64_t number = 0;
    bool is_given;
    char copy[BOOT_SIZE + 1], tenant[PAL_TENANT_LEN_MAX + 1];
    pal_status status = read_after(call, &boot, &number, &is_given, err);
    if (status == PAL_OK)
        status = read_watches(call, watches, &watches_len, err);
    if (status != PAL_OK)
        return status;
    /* The call is freed when the stream begins. */
    snprintf(copy, sizeof copy, "%.*s", PAL_STR_ARG(boot));
    snprintf(tenant, sizeof tenant, "%.*s", PAL_STR_ARG(call->caller.tenant));
    pthread_mutex_lock(&feed->lock);
    status = open_reader(feed, call, &reader, err);
    if (status == PAL_OK)
        write_past(reader, pal_str_of(copy), number, is_given);
    pthread_mutex_unlock(&feed->lock);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < watches_len; i++) {
        reader->watches[i] = watches[i];
        reader->watches[i].reader = reader;
    }
    reader->watches_len = watches_len;
    watch_turns(reader, pal_str_of(tenant));
    release_reader(reader);
    return PAL_OK;
}

static const pal_api_object feed_query = {
        .members = PAL_API_MEMBERS(
                {"after", PAL_API_TEXT, .help = "only events after the one with this id"},
                {"watch", PAL_API_TEXT,
                        .help = "turns whose events are sent too: TURN:NUMBER,..., with the number "
                                "of the last known event"})};

const pal_api_route pal_feed_routes[] = {
        {"GET", "/api/v1/events", PAL_KEY_READ, PAL_API_WORKER, read_feed,
                {"readFeed", "stream the changes of all sessions", &feed_query, NULL,
                        &pal_api_events_body, 200}},
        {0},
};

/* ---- Revoked keys ---- */

/* The key of each reader that has one, or NULL if there is none. */
static char (*list_keys(pal_feed *feed, pal_arena *arena, size_t *out_len))[KEY_ID_SIZE]
{
    size_t len = 0, count = 0;
    char(*ids)[KEY_ID_SIZE] = NULL;
    pthread_mutex_lock(&feed->lock);
    for (const feed_ring *ring = feed->rings; ring; ring = ring->next) {
        for (const feed_reader *reader = ring->readers; reader; reader = reader->next)
            count += reader->key_id[0] != '\0';
    }
    if (count)
        ids = pal_arena_alloc(arena, count * sizeof *ids);
    for (const feed_ring *ring = feed->rings; ids && ring; ring = ring->next) {
        for (const feed_reader *reader = ring->readers; reader; reader = reader->next) {
            if (reader->key_id[0])
                memcpy(ids[len++], reader->key_id, KEY_ID_SIZE);
        }
    }
    pthread_mutex_unlock(&feed->lock);
    *out_len = len;
    return ids;
}

static void end_readers(pal_feed *feed, const char *key_id)
{
    pthread_mutex_lock(&feed->lock);
    for (feed_ring *ring = feed->rings; ring; ring = ring->next) {
        for (feed_reader *reader = ring->readers; reader; reader = reader->next) {
            if (reader->is_ended || strcmp(reader->key_id, key_id) != 0)
                continue;
            reader->is_ended = true;
            pal_stream_end(reader->stream);
        }
    }
    pthread_mutex_unlock(&feed->lock);
}

static bool is_revoked(pal_store *store, const char *key_id)
{
    pal_key key;
    pal_error err;
    pal_arena *arena = pal_arena_new(0);
    bool is_gone = arena &&
            pal_key_get(store, pal_str_of(key_id), arena, &key, &err) == PAL_OK && key.revoked_at;
    pal_arena_free(arena);
    return is_gone;
}

void pal_feed_end_revoked(pal_feed *feed)
{
    size_t len = 0;
    pal_arena *arena = atomic_load(&feed->rings_len) > 0 ? pal_arena_new(0) : NULL;
    char(*ids)[KEY_ID_SIZE] = arena ? list_keys(feed, arena, &len) : NULL;
    for (size_t i = 0; i < len; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++)
            is_new = strcmp(ids[k], ids[i]) != 0;
        if (is_new && is_revoked(feed->server->store, ids[i]))
            end_readers(feed, ids[i]);
    }
    pal_arena_free(arena);
}

/* ---- Creating and freeing the feed ---- */

pal_feed *pal_feed_new(pal_server *server)
{
    pal_feed *feed = pal_calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    pthread_mutex_init(&feed->lock, NULL);
    feed->server = server;
    if (pal_store_watch(server->store, store_changed, feed, NULL) != PAL_OK) {
        pthread_mutex_destroy(&feed->lock);
        pal_free(feed);
        return NULL;
    }
    pal_runtime_watch(server->runtime, turn_changed, feed);
    return feed;
}

void pal_feed_free(pal_feed *feed)
{
    if (!feed)
        return;
    pal_runtime_watch(feed->server->runtime, NULL, NULL);
    pal_store_unwatch(feed->server->store, feed);
    while (feed->rings) {
        feed_ring *ring = feed->rings;
        feed->rings = ring->next;
        free_ring(ring);
    }
    pthread_mutex_destroy(&feed->lock);
    pal_free(feed);
}
