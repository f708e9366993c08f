/* store.c - the front of every store: opens by URL, checks arguments, fills in defaults,
 * dispatches.
 *
 * Every writing call is a batch of one operation. The writer combines the batches of all threads.
 * Reads run on the caller's thread. All calls pass through the front, so backends can rely on valid
 * input. */
#include "palaver/store.h"
#include "palaver/store_admin.h"
#include "palaver/store_batch.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"
#include "palaver/store_turns.h"

#include "base/clock.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "message/message_check.h"
#include "palaver/limits.h"
#include "store/cache/cache.h"
#include "store/store_copy.h"
#include "store/store_front.h"

/* A new backend needs one file and one line here. */
static const pal_store_backend *const backends[] = {
        &pal_store_sqlite,
        &pal_store_memory,
        &pal_store_jsonl,
        &pal_store_postgres,
        &pal_store_postgresql,
};

/* ---- Opening ---- */

static const pal_store_backend *backend_of_url(const char *url, const char **out_location)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        size_t len = strlen(backends[i]->scheme);

        if (strncmp(url, backends[i]->scheme, len) == 0 && url[len] == ':') {
            *out_location = url + len + 1;
            return backends[i];
        }
    }
    return NULL;
}

/* Returns whether the url begins with a scheme: lower-case letters and a colon. Paths such as
 * "C:\x" do not occur on the supported systems. */
static bool has_scheme(const char *url)
{
    size_t len = strspn(url, "abcdefghijklmnopqrstuvwxyz");

    return len > 0 && url[len] == ':';
}

static pal_status resolve_url(const char *url, const pal_store_backend **out_backend,
        const char **out_location, pal_error *err)
{
    const pal_store_backend *backend;

    if (!url || !*url)
        return pal_error_set(
                err, PAL_INVALID,
                "the URL of the store is missing; use sqlite:PATH, postgres://..., jsonl:DIR or "
                "memory:");
    backend = backend_of_url(url, out_location);
    if (!backend && has_scheme(url))
        return pal_error_set(err, PAL_INVALID,
                "no backend for store '%.160s'; use sqlite:PATH, postgres://..., jsonl:DIR or "
                "memory:", url);
    if (!backend) {
        backend = &pal_store_sqlite;
        *out_location = url;
    }
    *out_backend = backend;
    return PAL_OK;
}

static pal_store_options options_with_defaults(const pal_store_options *options)
{
    pal_store_options filled = *options;

    if (filled.message_bytes_max == 0)
        filled.message_bytes_max = PAL_MESSAGE_BYTES_MAX;
    if (filled.blob_bytes_max == 0)
        filled.blob_bytes_max = PAL_BLOB_BYTES_MAX;
    if (filled.busy_timeout_ms == 0)
        filled.busy_timeout_ms = PAL_BUSY_TIMEOUT_MS;
    if (filled.readers_max == 0)
        filled.readers_max = PAL_READERS_MAX;
    if (filled.cache_bytes == 0)
        filled.cache_bytes = PAL_CACHE_BYTES;
    if (filled.cache_bytes == PAL_CACHE_BYTES_NONE)
        filled.cache_bytes = 0;
    if (!filled.encoding && !filled.estimate)
        filled.encoding = pal_encoding_find(pal_str_of("o200k_base"));
    if (filled.estimate)
        filled.encoding = NULL;
    return filled;
}

pal_status pal_store_engine_open(
        const char *url, pal_store_options *options, pal_engine **out_engine, pal_error *err)
{
    const pal_store_backend *backend = NULL;
    const char *location = NULL;
    pal_status status = resolve_url(url, &backend, &location, err);

    if (status != PAL_OK)
        return status;
    *options = options_with_defaults(options);
    return backend->open(location, options, out_engine, err);
}

pal_status pal_store_open(
        const char *url, const pal_store_options *options, pal_store **out_store, pal_error *err)
{
    pal_store *store = pal_calloc(1, sizeof(*store));
    pal_status status;

    if (!store)
        return pal_no_memory(err);
    if (options)
        store->options = *options;
    pthread_rwlock_init(&store->watch_lock, NULL);
    status = pal_store_engine_open(url, &store->options, &store->engine, err);
    if (status == PAL_OK)
        status = pal_copy_check_complete(store->engine, err);
    if (status == PAL_OK && store->options.trace)
        status = pal_store_trace_open(store->engine, &store->options, &store->engine, err);
    if (status == PAL_OK)
        status = pal_cache_open(store->engine, store->options.cache_bytes, err);
    if (status == PAL_OK)
        status = pal_writer_open(&store->engine, &store->writer, err);
    if (status != PAL_OK) {
        pal_store_close(store);
        return status;
    }
    *out_store = store;
    return PAL_OK;
}

const pal_encoding *pal_store_encoding(const pal_store *store)
{
    return store->options.encoding;
}

void pal_store_close(pal_store *store)
{
    if (!store)
        return;
    pal_writer_close(store->writer);
    if (store->engine) {
        pal_cache_close(store->engine);
        store->engine->backend->close(store->engine);
    }
    pthread_rwlock_destroy(&store->watch_lock);
    pal_free(store);
}

int64_t pal_store_clock_ms(pal_store *store)
{
    return pal_store_now_ms(store->engine);
}

uint64_t pal_store_went_back(pal_store *store)
{
    pal_engine *engine = store->engine;

    return engine->backend->went_back ? engine->backend->went_back(engine) : 0;
}

pal_engine **pal_store_engine(pal_store *store)
{
    return &store->engine;
}

/* ---- Writing ---- */

pal_status pal_store_create(
        pal_store *store, const pal_session *session, pal_id *out_id, pal_error *err)
{
    pal_op op = pal_op_create(session);
    pal_status status = pal_store_apply_one(store, &op, err);

    if (status == PAL_OK && out_id)
        *out_id = op.session;
    return status;
}

pal_status pal_store_update(
        pal_store *store, const pal_session *session, uint32_t fields, pal_error *err)
{
    pal_op op = pal_op_update(session, fields);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_append(pal_store *store, pal_str tenant, pal_id session, pal_message *messages,
        size_t messages_len, uint64_t expected_seq, pal_error *err)
{
    pal_op op = pal_op_append(tenant, session, messages, messages_len, expected_seq);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_fork(pal_store *store, const pal_session *session, pal_id parent,
        uint64_t at_seq, pal_id *out_id, pal_error *err)
{
    pal_op op = pal_op_fork(session, parent, at_seq);
    pal_status status = pal_store_apply_one(store, &op, err);

    if (status == PAL_OK && out_id)
        *out_id = op.session;
    return status;
}

pal_status pal_store_mark(
        pal_store *store, pal_str tenant, pal_id session, pal_mark *mark, pal_error *err)
{
    pal_op op = pal_op_mark(tenant, session, mark);

    return pal_store_apply_one(store, &op, err);
}

/* Returns the seq of a visible leading system message, or 0. */
static pal_status leading_system_seq(
        pal_store *store, pal_str tenant, pal_id session, uint64_t *out_seq, pal_error *err)
{
    pal_message_query load = {.limit = 1};
    pal_message_page messages;
    pal_arena *arena = pal_arena_new(0);
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = pal_store_load(store, tenant, session, &load, arena, &messages, err);
    if (status == PAL_OK) {
        bool leads = messages.len > 0 && messages.items[0].role == PAL_ROLE_SYSTEM;

        *out_seq = leads ? messages.items[0].seq : 0;
    }
    pal_arena_free(arena);
    return status;
}

pal_status pal_store_reset(pal_store *store, pal_str tenant, pal_id session, bool keep_system,
        pal_mark *out_mark, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_RESET};
    pal_status status = PAL_OK;

    if (keep_system)
        status = leading_system_seq(store, tenant, session, &mark.seq, err);
    if (status == PAL_OK)
        status = pal_store_mark(store, tenant, session, &mark, err);
    if (status == PAL_OK && out_mark)
        *out_mark = mark;
    return status;
}

pal_status pal_store_delete(pal_store *store, pal_str tenant, pal_id session, pal_error *err)
{
    pal_op op = pal_op_delete(tenant, session);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_restore(pal_store *store, pal_str tenant, pal_id session, pal_error *err)
{
    pal_op op = pal_op_restore(tenant, session);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_erase(pal_store *store, pal_str tenant, pal_id session,
        pal_erase_result *out_erasure, pal_error *err)
{
    pal_erase_result erasure = {0};
    pal_op op = pal_op_erase(tenant, session, &erasure);
    pal_status status = pal_store_apply_one(store, &op, err);

    if (status == PAL_OK && out_erasure)
        *out_erasure = erasure;
    return status;
}

pal_status pal_store_erase_message(pal_store *store, pal_str tenant, pal_id session, uint64_t seq,
        pal_erase_result *out_erasure, pal_error *err)
{
    pal_erase_result erasure = {0};
    pal_op op = pal_op_erase_message(tenant, session, seq, &erasure);
    pal_status status = pal_store_apply_one(store, &op, err);

    if (status == PAL_OK && out_erasure)
        *out_erasure = erasure;
    return status;
}

pal_status pal_store_sweep(pal_store *store, int64_t trash_ms, uint32_t limit,
        pal_sweep_result *out_sweep, pal_error *err)
{
    pal_op op = pal_op_sweep(trash_ms, limit);
    pal_status status = pal_store_apply_one(store, &op, err);

    if (status == PAL_OK && out_sweep)
        *out_sweep = op.u.sweep.result;
    return status;
}

pal_status pal_store_inbox_add(
        pal_store *store, pal_str tenant, pal_id session, pal_inbox_item *item, pal_error *err)
{
    pal_op op = pal_op_inbox_add(tenant, session, item);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_inbox_drop(
        pal_store *store, pal_str tenant, pal_id session, pal_id item, pal_error *err)
{
    pal_op op = pal_op_inbox_drop(tenant, session, item);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_lease_take(pal_store *store, pal_str tenant, pal_id session, pal_str owner,
        int64_t ttl_ms, uint64_t *out_fence, pal_error *err)
{
    pal_op op = pal_op_lease_take(tenant, session, owner, ttl_ms);
    pal_status status = pal_store_apply_one(store, &op, err);

    if (status == PAL_OK && out_fence)
        *out_fence = op.u.lease.fence;
    return status;
}

pal_status pal_store_lease_release(
        pal_store *store, pal_str tenant, pal_id session, uint64_t fence, pal_error *err)
{
    pal_op op = pal_op_lease_release(tenant, session, fence);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_ledger_add(
        pal_store *store, pal_str tenant, pal_id session, const pal_ledger_row *row, pal_error *err)
{
    pal_op op = pal_op_ledger_add(tenant, session, row);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_blob_put(pal_store *store, pal_str tenant, pal_str media_type, pal_str data,
        char out_name[PAL_BLOB_NAME_SIZE], pal_error *err)
{
    pal_op op = pal_op_blob_put(tenant, media_type, data);
    pal_status status = pal_store_apply_one(store, &op, err);

    if (status == PAL_OK && out_name)
        memcpy(out_name, op.u.blob.name, PAL_BLOB_NAME_SIZE);
    return status;
}

/* ---- Maintenance ---- */

pal_status pal_store_stat(
        pal_store *store, pal_arena *arena, pal_store_stats *out_stats, pal_error *err)
{
    pal_writer_counts counts = pal_writer_count(store->writer);
    pal_cache_counts cache = pal_cache_count(store->engine);
    pal_store_stats stats = {0};
    pal_status status = store->engine->backend->stat(store->engine, &stats, err);

    if (status != PAL_OK)
        return status;
    stats.backend = pal_arena_copy(arena, pal_str_of(store->engine->backend->scheme));
    if (pal_arena_failure(arena))
        return pal_arena_checked(arena, err);
    stats.commits = counts.commits;
    stats.ops = counts.ops;
    stats.cache_hits = cache.hits;
    stats.cache_misses = cache.misses;
    stats.cache_bytes = cache.bytes;
    *out_stats = stats;
    return PAL_OK;
}

pal_status pal_store_schema_read(
        pal_store *store, pal_arena *arena, pal_store_schema *out_schema, pal_error *err)
{
    const pal_store_backend *backend = store->engine->backend;

    if (backend->schema_read)
        return backend->schema_read(store->engine, arena, out_schema, err);
    *out_schema = (pal_store_schema){0};
    return PAL_OK;
}

/* Counts the findings that are passed to the caller. */
typedef struct count_state {
    pal_store_on_finding sink;
    pal_store_on_progress progress;
    void *user;
    uint64_t count;
} count_state;

static void count_finding(const pal_store_finding *finding, void *user)
{
    count_state *state = user;

    state->count += !finding->advice;
    if (state->sink)
        state->sink(finding, state->user);
}

static void pass_progress(uint64_t done, uint64_t total, void *user)
{
    count_state *state = user;

    if (state->progress)
        state->progress(done, total, state->user);
}

static pal_status check_row(const pal_row *row, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message message = {0};
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    if (row->role <= PAL_ROLE_NONE || row->role > PAL_ROLE_TOOL)
        status = pal_error_set(err, PAL_CORRUPT, "unknown role %d", (int)row->role);
    else if (row->is_text)
        status = pal_text_check(row->body, "text", SIZE_MAX, false, err);
    else
        status = pal_native_body_read(row->body, arena, &message, err);
    pal_arena_free(arena);
    return status;
}

pal_status pal_store_check(pal_store *store, bool repair, pal_store_on_finding sink,
        pal_store_on_progress progress, void *user, uint64_t *out_findings, pal_error *err)
{
    count_state state = {.sink = sink, .progress = progress, .user = user};
    const pal_store_backend *backend = store->engine->backend;
    pal_status status = PAL_OK;

    if (repair && store->options.read_only)
        return pal_error_set(err, PAL_DENIED, "the store was opened for reading only");
    if (backend->check)
        status = backend->check(
                store->engine, repair, check_row, count_finding, pass_progress, &state, err);
    if (status == PAL_OK && out_findings)
        *out_findings = state.count;
    return status;
}
