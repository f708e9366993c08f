/* observe_metrics.c - counters, and their text for Prometheus.
 *
 * Every counter is a separate atomic. A scrape reads each of them consistently, but not all at the
 * same moment. Requests are counted by route. A request's counters are found by a walk over the
 * tables of routes, which never change while the server runs. */
#include "server/observe/observe_metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/memory.h"
#include "server/node/node.h"
#include "server/node/node_pass.h"
#include "server/observe/observe_models.h"
#include "server/observe/observe_process.h"
#include "server/server_call.h"

#define SESSIONS_COUNT_REST 100 /* the next count of sessions is made after this many times the
                                   duration of the last one */
#define TEXT_MAX ((size_t)4 << 20)
#define CODES_MAX 24 /* different codes of one route; further codes are counted as the last one */
#define TIMES_LEN 13

/* Upper bounds of the duration buckets, in microseconds. */
static const int64_t times_us[TIMES_LEN] = {
        100, 250, 500, 1000, 2500, 5000, 10000, 25000, 100000, 500000, 2500000, 10000000, 60000000};

static const int64_t batch_sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
#define SIZES_LEN (sizeof batch_sizes / sizeof *batch_sizes)

typedef _Atomic uint64_t counter;

typedef struct histogram {
    counter buckets[TIMES_LEN + 1]; /* the last bucket is for all larger values */
    counter sum;
} histogram;

typedef struct code_count {
    atomic_uint code; /* 0 if the entry is free */
    counter count;
} code_count;

typedef struct route_counts {
    const pal_api_route *route; /* NULL for requests without a route */
    code_count codes[CODES_MAX];
    histogram times;
} route_counts;

struct pal_metrics {
    route_counts *routes; /* the last element is for requests without a route */
    size_t routes_len;
    pal_model_metrics *models;
    counter bytes_sent;
    counter replayed;
    histogram commit_times;
    histogram batches;
    counter commits_failed;
    counter reads;
    counter read_us;
    counter expired;
    counter erased;
    pthread_mutex_t sessions_lock; /* guards the members below */
    uint64_t sessions_active, sessions_trash, sessions_quarantined;
    uint64_t messages, disk_bytes;
    uint64_t cache_hits, cache_misses, cache_bytes;
    int64_t sessions_until_us; /* monotonic time; the counts are valid until then */
};

/* ---- Creating and freeing ---- */

static size_t count_routes(void)
{
    size_t len = 0;
    for (size_t i = 0; pal_apis[i]; i++) {
        for (const pal_api_route *const *group = pal_apis[i]->routes; *group; group++) {
            for (const pal_api_route *route = *group; route->method; route++)
                len++;
        }
    }
    return len;
}

static void fill_routes(route_counts *routes)
{
    for (size_t i = 0; pal_apis[i]; i++) {
        for (const pal_api_route *const *group = pal_apis[i]->routes; *group; group++) {
            for (const pal_api_route *route = *group; route->method; route++)
                (routes++)->route = route;
        }
    }
}

pal_metrics *pal_metrics_new(void)
{
    pal_metrics *metrics = pal_calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    metrics->routes_len = count_routes() + 1;
    metrics->routes = pal_calloc(metrics->routes_len, sizeof *metrics->routes);
    metrics->models = pal_model_metrics_new();
    if (!metrics->routes || !metrics->models) {
        pal_model_metrics_free(metrics->models);
        pal_free(metrics->routes);
        pal_free(metrics);
        return NULL;
    }
    fill_routes(metrics->routes);
    pthread_mutex_init(&metrics->sessions_lock, NULL);
    return metrics;
}

void pal_metrics_free(pal_metrics *metrics)
{
    if (!metrics)
        return;
    pthread_mutex_destroy(&metrics->sessions_lock);
    pal_model_metrics_free(metrics->models);
    pal_free(metrics->routes);
    pal_free(metrics);
}

/* ---- Counting ---- */

static void add(counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static void observe(histogram *h, const int64_t *bounds, size_t bounds_len, int64_t value)
{
    size_t i = 0;
    while (i < bounds_len && value > bounds[i])
        i++;
    add(&h->buckets[i], 1);
    add(&h->sum, value > 0 ? (uint64_t)value : 0);
}

static void count_code(route_counts *route, unsigned code)
{
    size_t i = 0;
    for (; i + 1 < CODES_MAX; i++) {
        unsigned free_code = 0;
        if (atomic_load(&route->codes[i].code) == code ||
                atomic_compare_exchange_strong(&route->codes[i].code, &free_code, code) ||
                free_code == code)
            break;
    }
    add(&route->codes[i].count, 1);
}

void pal_metrics_request(pal_metrics *metrics, const pal_api_route *route, unsigned code,
        uint64_t bytes_sent, int64_t duration_us)
{
    size_t i = 0;
    while (i + 1 < metrics->routes_len && metrics->routes[i].route != route)
        i++;
    count_code(&metrics->routes[i], code);
    observe(&metrics->routes[i].times, times_us, TIMES_LEN, duration_us);
    add(&metrics->bytes_sent, bytes_sent);
}

void pal_metrics_store(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user)
{
    pal_metrics *metrics = user;
    if (strcmp(call, "apply") != 0) {
        add(&metrics->reads, 1);
        add(&metrics->read_us, (uint64_t)duration_us);
        return;
    }
    observe(&metrics->commit_times, times_us, TIMES_LEN, duration_us);
    observe(&metrics->batches, batch_sizes, SIZES_LEN, (int64_t)ops);
    if (status != PAL_OK)
        add(&metrics->commits_failed, 1);
}

void pal_metrics_swept(pal_metrics *metrics, uint64_t expired, uint64_t erased)
{
    add(&metrics->expired, expired);
    add(&metrics->erased, erased);
}

void pal_metrics_model_call(const pal_model_report *report, void *user)
{
    const pal_metrics *metrics = user;
    pal_model_metrics_count(metrics->models, report);
}

void pal_metrics_replayed(pal_metrics *metrics)
{
    add(&metrics->replayed, 1);
}

/* ---- Writing the metrics ---- */

static void head(pal_buf *buf, const char *name, const char *type, const char *help)
{
    pal_buf_format(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put(pal_buf *buf, const char *name, const char *type, const char *help, uint64_t value)
{
    head(buf, name, type, help);
    pal_buf_format(buf, "%s %" PRIu64 "\n", name, value);
}

/* Divides the recorded values by `scale` to get the unit of the metric. */
static void put_histogram(pal_buf *buf, const char *name, const char *labels, const histogram *h,
        const int64_t *bounds, size_t bounds_len, double scale)
{
    uint64_t total = 0;
    const char *comma = *labels ? "," : "";
    for (size_t i = 0; i < bounds_len; i++) {
        total += atomic_load(&h->buckets[i]);
        pal_buf_format(buf, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                (double)bounds[i] / scale, total);
    }
    total += atomic_load(&h->buckets[bounds_len]);
    pal_buf_format(buf, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, total);
    pal_buf_format(buf, "%s_sum{%s} %.6f\n", name, labels, (double)atomic_load(&h->sum) / scale);
    pal_buf_format(buf, "%s_count{%s} %" PRIu64 "\n", name, labels, total);
}

static void put_requests(pal_buf *buf, const pal_metrics *metrics)
{
    head(buf, "palaver_requests_total", "counter", "Requests answered, by route and code.");
    for (size_t i = 0; i < metrics->routes_len; i++) {
        const route_counts *r = &metrics->routes[i];
        for (size_t j = 0; j < CODES_MAX && atomic_load(&r->codes[j].code); j++)
            pal_buf_format(buf,
                    "palaver_requests_total{method=\"%s\",route=\"%s\",code=\"%u\"} %" PRIu64 "\n",
                    r->route ? r->route->method : "", r->route ? r->route->path : "none",
                    atomic_load(&r->codes[j].code), atomic_load(&r->codes[j].count));
    }
    head(buf, "palaver_request_seconds", "histogram", "Duration of requests, by route.");
    for (size_t i = 0; i < metrics->routes_len; i++) {
        const route_counts *r = &metrics->routes[i];
        char labels[256];
        if (atomic_load(&r->codes[0].code) == 0) /* no request yet */
            continue;
        snprintf(labels, sizeof labels, "method=\"%s\",route=\"%s\"",
                r->route ? r->route->method : "", r->route ? r->route->path : "none");
        put_histogram(buf, "palaver_request_seconds", labels, &r->times, times_us, TIMES_LEN, 1e6);
    }
}

static void put_store(pal_buf *buf, const pal_metrics *metrics)
{
    head(buf, "palaver_commit_seconds", "histogram",
            "Duration of a commit with all its operations, including fsync.");
    put_histogram(
            buf, "palaver_commit_seconds", "", &metrics->commit_times, times_us, TIMES_LEN, 1e6);
    head(buf, "palaver_commit_operations", "histogram", "Operations per commit.");
    put_histogram(
            buf, "palaver_commit_operations", "", &metrics->batches, batch_sizes, SIZES_LEN, 1);
    put(buf, "palaver_commits_failed_total", "counter", "Failed commits.",
            atomic_load(&metrics->commits_failed));
    put(buf, "palaver_store_reads_total", "counter", "Read calls of the store.",
            atomic_load(&metrics->reads));
    head(buf, "palaver_store_read_seconds_total", "counter", "Total duration of read calls.");
    pal_buf_format(buf, "palaver_store_read_seconds_total %.6f\n",
            (double)atomic_load(&metrics->read_us) / 1e6);
}

/* A count may have to visit all sessions, so it is repeated only after a hundred times its
 * duration. */
static void count_sessions(const pal_server *server)
{
    pal_metrics *metrics = server->metrics;
    pal_store_stats stats;
    int64_t before = pal_clock_monotonic_us();
    pal_arena *arena = before >= metrics->sessions_until_us ? pal_arena_new(0) : NULL;
    if (arena && pal_store_stat(server->store, arena, &stats, NULL) == PAL_OK) {
        metrics->sessions_active = stats.sessions_active;
        metrics->sessions_trash = stats.sessions_trash;
        metrics->sessions_quarantined = stats.sessions_quarantined;
        metrics->messages = stats.messages;
        metrics->disk_bytes = stats.disk_bytes;
        metrics->cache_hits = stats.cache_hits;
        metrics->cache_misses = stats.cache_misses;
        metrics->cache_bytes = stats.cache_bytes;
        int64_t after = pal_clock_monotonic_us();
        metrics->sessions_until_us = after + SESSIONS_COUNT_REST * (after - before);
    }
    pal_arena_free(arena);
}

static void put_sessions(pal_buf *buf, const pal_server *server)
{
    static const char name[] = "palaver_sessions";
    pal_metrics *metrics = server->metrics;
    pthread_mutex_lock(&metrics->sessions_lock);
    count_sessions(server);
    head(buf, name, "gauge", "Sessions of all tenants, by state; estimated if a "
            "table of PostgreSQL is large.");
    pal_buf_format(buf, "%s{state=\"active\"} %" PRIu64 "\n", name, metrics->sessions_active);
    pal_buf_format(buf, "%s{state=\"trash\"} %" PRIu64 "\n", name, metrics->sessions_trash);
    pal_buf_format(
            buf, "%s{state=\"quarantined\"} %" PRIu64 "\n", name, metrics->sessions_quarantined);
    put(buf, "palaver_messages", "gauge", "Messages of all tenants.", metrics->messages);
    put(buf, "palaver_store_bytes", "gauge", "Size of the store on disk.", metrics->disk_bytes);
    put(buf, "palaver_store_cache_hits_total", "counter",
            "Reads that were answered from the memory for recently used sessions.",
            metrics->cache_hits);
    put(buf, "palaver_store_cache_misses_total", "counter",
            "Reads of sessions that were not in that memory.", metrics->cache_misses);
    put(buf, "palaver_store_cache_bytes", "gauge", "Size of that memory.", metrics->cache_bytes);
    pthread_mutex_unlock(&metrics->sessions_lock);
    put(buf, "palaver_sessions_expired_total", "counter",
            "Expired sessions that the cleanup moved to the trash.",
            atomic_load(&metrics->expired));
    put(buf, "palaver_sessions_erased_total", "counter",
            "Sessions that the cleanup erased from the trash.", atomic_load(&metrics->erased));
}

static void put_usage(pal_buf *buf, const pal_runtime_stats *s)
{
    static const char name[] = "palaver_tokens_total";
    head(buf, name, "counter",
            "Tokens of model calls; cache_read is input from the cache of the model service.");
    pal_buf_format(buf, "%s{kind=\"input\"} %" PRIu64 "\n", name, s->usage.input);
    pal_buf_format(buf, "%s{kind=\"cache_read\"} %" PRIu64 "\n", name, s->usage.cache_read);
    pal_buf_format(buf, "%s{kind=\"cache_write\"} %" PRIu64 "\n", name, s->usage.cache_write);
    pal_buf_format(buf, "%s{kind=\"output\"} %" PRIu64 "\n", name, s->usage.output);
    head(buf, "palaver_cost_total", "counter", "Cost of model calls, by the price list.");
    pal_buf_format(buf, "palaver_cost_total %.6f\n", (double)s->cost_micros / 1e6);
}

static void put_turns(pal_buf *buf, pal_runtime *runtime)
{
    pal_runtime_stats s;
    pal_runtime_stat(runtime, &s);
    put(buf, "palaver_turns_running", "gauge", "Running turns.", s.turns_running);
    put(buf, "palaver_turns_queued", "gauge", "Turns that wait for other turns of their session.",
            s.turns_queued);
    put(buf, "palaver_turns_waiting", "gauge", "Turns that wait for tool results or approval.",
            s.turns_waiting);
    put(buf, "palaver_turns_ended_total", "counter", "Ended turns.", s.turns_ended);
    put(buf, "palaver_turns_failed_total", "counter", "Failed turns.", s.turns_failed);
    put(buf, "palaver_model_calls_total", "counter", "Model calls.", s.model_calls);
    put(buf, "palaver_model_retries_total", "counter", "Retried model calls.",
            s.model_retries);
    put(buf, "palaver_tool_calls_total", "counter", "Tool calls.", s.tool_calls);
    put(buf, "palaver_turn_watchers", "gauge", "Readers of turn events.", s.watchers);
    put_usage(buf, &s);
}

static void put_nodes(pal_buf *buf, const pal_server *server)
{
    static const char name[] = "palaver_nodes";
    head(buf, name, "gauge", "Servers that share the store, as this one sees them, by state.");
    for (pal_node_state state = PAL_NODE_RUNNING; state <= PAL_NODE_DEAD; state++)
        if (state != PAL_NODE_STOPPED)
            pal_buf_format(buf, "%s{state=\"%s\"} %zu\n", name, pal_node_state_name(state),
                    pal_nodes_count(server->nodes, state));
    put(buf, "palaver_node_slot", "gauge", "Slot of this server; 0: it has none.",
            pal_nodes_slot(server->nodes));
    put(buf, "palaver_passed_total", "counter", "Requests that were passed on to other servers.",
            pal_pass_count(server->passes));
}

/* One row for each account and each of its numbers. */
static void put_channels(pal_buf *buf, const pal_server *server)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } rows[] = {
            {"palaver_channel_events_total", "counter", "Events of channels that were stored.",
                    offsetof(pal_channel_info, events)},
            {"palaver_channel_answers_total", "counter", "Messages that deserved an answer.",
                    offsetof(pal_channel_info, answers)},
            {"palaver_channel_sent_total", "counter", "Messages that were sent to chats.",
                    offsetof(pal_channel_info, sent)},
            {"palaver_channel_outbox_pending", "gauge", "Answers that wait to be sent.",
                    offsetof(pal_channel_info, pending)},
            {"palaver_channel_undelivered_total", "counter", "Answers that were given up.",
                    offsetof(pal_channel_info, undelivered)},
            {"palaver_channel_dead_total", "counter", "Events that could not be stored.",
                    offsetof(pal_channel_info, dead)},
    };
    pal_arena *arena = server->channels ? pal_arena_new(0) : NULL;
    pal_channel_info *list = NULL;
    size_t len = 0;

    if (!arena || pal_channels_list(server->channels, arena, &list, &len, NULL) != PAL_OK)
        len = 0;
    if (len > 0)
        head(buf, "palaver_channel_up", "gauge", "Whether the account receives messages.");
    for (size_t i = 0; i < len; i++)
        pal_buf_format(buf, "palaver_channel_up{account=\"%.*s:%.*s\"} %d\n",
                PAL_STR_ARG(list[i].kind), PAL_STR_ARG(list[i].account),
                list[i].state == PAL_CHANNEL_READY);
    for (size_t row = 0; len > 0 && row < sizeof rows / sizeof *rows; row++) {
        head(buf, rows[row].name, rows[row].type, rows[row].help);
        for (size_t i = 0; i < len; i++)
            pal_buf_format(buf, "%s{account=\"%.*s:%.*s\"} %llu\n", rows[row].name,
                    PAL_STR_ARG(list[i].kind), PAL_STR_ARG(list[i].account),
                    (unsigned long long)*(const uint64_t *)(const void *)((const char *)&list[i] +
                            rows[row].offset));
    }
    pal_arena_free(arena);
}

static void put_listener(pal_buf *buf, const pal_server *server)
{
    pal_listener_counts c = {0};
    pal_listener *listener = atomic_load(&server->listener);
    if (listener)
        pal_listener_count(listener, &c);
    put(buf, "palaver_connections", "gauge", "Open connections.", c.connections);
    put(buf, "palaver_streams", "gauge", "Open streams.", c.streams);
    put(buf, "palaver_refused_total", "counter",
            "Requests that an HTTP limit refused before they reached a route.", c.refused);
    put(buf, "palaver_streams_dropped_total", "counter",
            "Streams that were closed because their reader was too slow.",
            c.dropped);
    put(buf, "palaver_sent_bytes_total", "counter", "Bytes of responses.",
            atomic_load(&server->metrics->bytes_sent));
    put(buf, "palaver_idempotent_replays_total", "counter",
            "Requests that were answered with the stored response of an earlier attempt.",
            atomic_load(&server->metrics->replayed));
    head(buf, "palaver_start_time_seconds", "gauge",
            "Start time of the server, in seconds since 1970.");
    pal_buf_format(buf, "palaver_start_time_seconds %.3f\n", (double)server->started_at / 1000);
    head(buf, "palaver_info", "gauge", "Version of the server.");
    pal_buf_format(buf, "palaver_info{version=\"%s\"} 1\n", server->version);
}

pal_status pal_metrics_handle(pal_call *call, pal_error *err)
{
    pal_buf buf;
    const pal_server *server = call->server;
    pal_buf_init(&buf, TEXT_MAX);
    put_listener(&buf, server);
    put_nodes(&buf, server);
    put_channels(&buf, server);
    put_requests(&buf, server->metrics);
    put_turns(&buf, server->runtime);
    pal_model_metrics_write(server->metrics->models, &buf);
    put_store(&buf, server->metrics);
    put(&buf, "palaver_store_went_back_total", "counter",
            "How often the database was found without writes that were acknowledged.",
            pal_store_went_back(server->store));
    put_sessions(&buf, server);
    pal_process_metrics_write(&buf, server->started_at);
    pal_status status = buf.failure;
    if (status == PAL_OK)
        pal_exchange_answer(
                call->exchange, 200, "text/plain; version=0.0.4; charset=utf-8", pal_buf_str(&buf));
    else
        pal_error_set(err, status, "the metrics are too large");
    pal_buf_done(&buf);
    return status;
}
