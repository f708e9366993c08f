/* api_feed.c - reports changes of a tenant's sessions as Server-Sent Events:
 *
 *   id: 5f0c1b2a9d3e4f60.17
 *   event: session
 *   data: {"session_id":"...","what":"messages","last_seq":4}
 *
 * A tenant whose feed was ever read has a ring of its newest events, so that a disconnected reader
 * can continue. An id names the ring and the event's number in it. If the id names another ring (of
 * an earlier server, or one that was dropped), or an event that is no longer in the ring, the
 * reader gets the event "lost" and must read the sessions again. Before the first reader of a
 * tenant connects, no events are kept for that tenant.
 *
 * Events come from the store, on any thread that commits, and from the runtime's loop. One lock
 * guards everything, and nothing waits while it is held: a stream copies what it is given, and
 * drops a reader that is too slow. */
#include "server/api/native/api_feed.h"

#include <pthread.h>
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "dialect/native/native.h"
#include "server/run/run.h"
#include "server/api/api_object.h"
#include "server/server_call.h"

#define BOOT_SIZE 17 /* 16 digits and NUL */

typedef struct feed_event {
    pal_store_change_kind change; /* NONE if it is the event of a turn */
    pal_mark_kind mark;
    pal_turn_state state;
    pal_id session;
    pal_id turn;
    uint64_t number; /* seq of a message, or number of a mark */
} feed_event;

typedef struct feed_ring feed_ring;

typedef struct feed_reader {
    struct feed_reader *next;
    feed_ring *ring;
    pal_feed *feed;
    pal_stream *stream;
    bool is_ended; /* it accepts no more events; its end will be reported */
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

static void put_event(pal_buf *buf, const feed_ring *ring, uint64_t number)
{
    const feed_event *event = &ring->events[number % PAL_SERVER_FEED_EVENTS_MAX];
    bool is_mark = event->change == PAL_STORE_CHANGE_MARK;
    pal_json_writer writer = pal_json_writer_make(buf);
    begin_frame(buf, ring, number, !event->change ? "turn" : is_mark ? "mark" : "session");
    pal_json_begin_object(&writer);
    if (!event->change)
        pal_put_id(&writer, "turn_id", event->turn);
    pal_put_id(&writer, "session_id", event->session);
    if (!event->change) {
        pal_put_text(&writer, "state", pal_turn_state_name(event->state));
    } else if (is_mark) {
        pal_put_count(&writer, "number", event->number);
        pal_put_text(&writer, "kind", pal_native_mark_kind_name(event->mark));
    } else {
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

static void add_event(pal_feed *feed, pal_str tenant, const feed_event *event)
{
    pal_buf buf;
    if (atomic_load(&feed->rings_len) == 0)
        return;
    pthread_mutex_lock(&feed->lock);
    feed_ring *ring = find_ring(feed, tenant);
    if (ring) {
        ring->last++;
        ring->events[ring->last % PAL_SERVER_FEED_EVENTS_MAX] = *event;
        pal_buf_init(&buf, PAL_SERVER_EVENT_BYTES_MAX);
        if (ring->readers)
            put_event(&buf, ring, ring->last);
        for (feed_reader *reader = ring->readers; reader; reader = reader->next)
            write_to(reader, &buf);
        pal_buf_done(&buf);
    }
    pthread_mutex_unlock(&feed->lock);
}

static void store_changed(const pal_store_change *change, void *user)
{
    feed_event event = {.change = change->kind,
            .mark = change->mark,
            .session = change->session,
            .number = change->kind == PAL_STORE_CHANGE_MARK ? change->number : change->seq};
    add_event(user, change->tenant, &event);
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
    log_turn(info);
    feed_event event = {.state = info->state, .session = info->session, .turn = info->turn};
    add_event(user, tenant.len ? tenant : pal_str_of("default"), &event);
}

/* ---- Readers ---- */

/* Called on a listener thread. */
static void stream_gone(void *user)
{
    feed_reader *reader = user;
    pal_feed *feed = reader->feed;
    pthread_mutex_lock(&feed->lock);
    feed_reader **at = &reader->ring->readers;
    while (*at && *at != reader)
        at = &(*at)->next;
    if (*at)
        *at = reader->next;
    pthread_mutex_unlock(&feed->lock);
    pal_free(reader);
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
    pal_free(ring);
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
    pal_str boot = {0};
    uint64_t number = 0;
    bool is_given;
    char copy[BOOT_SIZE + 1];
    pal_status status = read_after(call, &boot, &number, &is_given, err);
    if (status != PAL_OK)
        return status;
    /* The call is freed when the stream begins. */
    snprintf(copy, sizeof copy, "%.*s", PAL_STR_ARG(boot));
    pthread_mutex_lock(&feed->lock);
    status = open_reader(feed, call, &reader, err);
    if (status == PAL_OK)
        write_past(reader, pal_str_of(copy), number, is_given);
    pthread_mutex_unlock(&feed->lock);
    return status;
}

static const pal_api_object feed_query = {
        .members = PAL_API_MEMBERS(
                {"after", PAL_API_TEXT, .help = "only events after the one with this id"})};

const pal_api_route pal_feed_routes[] = {
        {"GET", "/api/v1/events", PAL_KEY_READ, PAL_API_WORKER, read_feed,
                {"readFeed", "stream the changes of all sessions", &feed_query, NULL,
                        &pal_api_events_body, 200}},
        {0},
};

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
        pal_free(ring);
    }
    pthread_mutex_destroy(&feed->lock);
    pal_free(feed);
}
