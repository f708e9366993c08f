/* postgres.c - the backend "postgres:": opens a database and has the table of callbacks.
 *
 * The files: postgres_url.c reads the URL, postgres_conn.c has connections, postgres_schema.c the
 * tables, postgres_session.c, postgres_message.c and postgres_ahead.c the reads. A batch is written
 * by postgres_apply.c, with postgres_single.c, postgres_load.c, postgres_copy.c and
 * postgres_write.c. index_postgres.c builds the search index, and postgres_search.c searches in it.
 * check/ is fsck. All statements are in postgres_sql.h. */
#include "store/postgres/postgres.h"

#include <poll.h>

#include "base/clock.h"
#include "base/memory.h"

#define CONNECT_PAUSE_MS 100

static void postgres_close(pal_engine *engine)
{
    pal_postgres *store = (pal_postgres *)engine;

    pal_postgres_node_leave(store);
    pal_postgres_disconnect(&store->writer);
    pal_postgres_readers_close(store);
    for (size_t i = 0; i < PAL_POSTGRES_COUNT; i++)
        pal_free(store->texts[i]);
    pal_map_done(&store->tenants);
    pal_arena_free(store->names);
    pal_map_done(&store->noted);
    pal_arena_free(store->notes);
    pal_free(store->url);
    pal_free(store->place);
    pthread_mutex_destroy(&store->clock.lock);
    pthread_cond_destroy(&store->given);
    pthread_mutex_destroy(&store->lock);
    pal_free(store);
}

/* Waits for a server that recovers from a crash. Any other failure is reported at once, because the
 * URL may be wrong. */
static pal_status connect_first(pal_postgres *store, pal_error *err)
{
    int64_t until_us = pal_clock_monotonic_us() + (int64_t)store->options.busy_timeout_ms * 1000;

    for (;;) {
        pal_postgres_failure failure = PAL_POSTGRES_FINE;
        pal_status status = pal_postgres_connect(&store->writer, &failure, err);
        bool is_starting = failure == PAL_POSTGRES_WAIT && status == PAL_IO;

        if (status == PAL_OK || pal_clock_monotonic_us() >= until_us ||
                (failure != PAL_POSTGRES_POOLER && !is_starting))
            return status;
        if (is_starting)
            poll(NULL, 0, CONNECT_PAUSE_MS);
    }
}

static pal_status postgres_open(const char *location, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err)
{
    pal_postgres *store = pal_calloc(1, sizeof *store);
    pal_status status;

    if (!store)
        return pal_no_memory(err);
    store->base.backend = &pal_store_postgres;
    store->options = *options;
    store->prepares = true;
    store->readers_len = options->readers_max < PAL_POSTGRES_READERS_MAX ? options->readers_max
                                                                         : PAL_POSTGRES_READERS_MAX;
    store->writer = (pal_postgres_conn){.store = store, .is_writer = true};
    for (size_t i = 0; i < store->readers_len; i++)
        store->readers[i].conn.store = store;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->given, NULL);
    pthread_mutex_init(&store->clock.lock, NULL);
    store->names = pal_arena_new(0);
    store->notes = pal_arena_new(0);
    status = store->names && store->notes ? pal_postgres_url_read(store, location, err)
                                          : pal_no_memory(err);
    if (status == PAL_OK)
        status = pal_postgres_texts_write(store, err);
    if (status == PAL_OK)
        status = connect_first(store, err);
    if (status == PAL_OK)
        status = pal_postgres_schema_open(store, err);
    if (status != PAL_OK) {
        postgres_close(&store->base);
        return status;
    }
    *out_engine = &store->base;
    return PAL_OK;
}

/* libpq accepts two schemes. */
#define BACKEND(name)                                                                              \
    {                                                                                              \
        .scheme = name,                                                                            \
        .open = postgres_open,                                                                     \
        .close = postgres_close,                                                                   \
        .apply = pal_postgres_apply,                                                               \
        .session_find = pal_postgres_session_find,                                                 \
        .session_ahead = pal_postgres_session_ahead,                                               \
        .ahead_extend = pal_postgres_ahead_extend,                                                 \
        .session_list = pal_postgres_session_list,                                                 \
        .row_scan = pal_postgres_row_scan,                                                         \
        .row_find = pal_postgres_row_find,                                                         \
        .row_search = pal_postgres_row_search,                                                     \
        .row_rank = pal_postgres_row_rank,                                                         \
        .index_build = pal_postgres_index_build,                                                   \
        .fork_list = pal_postgres_fork_list,                                                       \
        .mark_list = pal_postgres_mark_list,                                                       \
        .inbox_list = pal_postgres_inbox_list,                                                     \
        .inbox_owners = pal_postgres_inbox_owners,                                                 \
        .lease_find = pal_postgres_lease_find,                                                     \
        .ledger_sum = pal_postgres_ledger_sum,                                                     \
        .ledger_list = pal_postgres_ledger_list,                                                   \
        .record_list = pal_postgres_record_list,                                                   \
        .blob_get = pal_postgres_blob_get,                                                         \
        .stat = pal_postgres_stat,                                                                 \
        .export_scan = pal_postgres_export_scan,                                                   \
        .now_ms = pal_postgres_now_ms,                                                             \
        .blob_ahead = pal_postgres_blob_ahead,                                                     \
        .ready = pal_postgres_ready,                                                               \
        .went_back = pal_postgres_went_back,                                                       \
        .schema_read = pal_postgres_schema_read,                                                   \
        .check = pal_postgres_check,                                                               \
    }

const pal_store_backend pal_store_postgres = BACKEND("postgres");
const pal_store_backend pal_store_postgresql = BACKEND("postgresql");
