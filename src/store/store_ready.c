/* store_ready.c - whether a store can be used now. If the disk rejected the last commit, only
 * another write shows whether it accepts writes again. The probe is a record that is dropped
 * immediately. */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "palaver/store_admin.h"
#include "palaver/store_records.h"
#include "store/store_front.h"

/* About as many bytes as a turn writes. A disk with only a few free bytes counts as full. */
#define PROBE_BYTES 65536
#define PROBE_PAUSE_US 1000000
#define PROBING INT64_MAX /* instead of a time: a caller tries a write now */

/* A tenant of a request never has a control character in its name. */
#define PROBE_TENANT "\x01ready"

static pal_status read_something(pal_store *store, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_record_scan scan = {.tenant = pal_str_of(PROBE_TENANT),
            .kind = pal_str_of("probe"),
            .name = pal_str_of("probe"),
            .records_max = 1};
    pal_record record;
    size_t len;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = store->engine->backend->record_list(store->engine, &scan, arena, &record, &len, err);
    pal_arena_free(arena);
    return status;
}

/* The body of a record must be JSON, so this is a long string. */
static pal_status write_something(pal_store *store, pal_error *err)
{
    pal_record record = {.kind = pal_str_of("probe"), .name = pal_str_of("probe")};
    char *body = pal_malloc(PROBE_BYTES);
    pal_status status;

    if (!body)
        return pal_no_memory(err);
    memset(body, 'x', PROBE_BYTES);
    body[0] = body[PROBE_BYTES - 1] = '"';
    record.body = pal_str_make(body, PROBE_BYTES);
    status = pal_store_record_put(
            store, pal_str_of(PROBE_TENANT), &record, PAL_RECORD_VERSION_ANY, err);
    pal_free(body);
    if (status == PAL_OK)
        status = pal_store_record_drop(
                store, pal_str_of(PROBE_TENANT), record.kind, record.name, err);
    return status;
}

/* One caller per second tries a write, and never two at once, because a write can wait for long.
 * The others get the result of the last commit. */
static bool may_probe(pal_store *store)
{
    int64_t now_us = pal_clock_monotonic_us();
    int64_t before_us = atomic_load(&store->probed_us);

    if (before_us == PROBING || (before_us != 0 && now_us - before_us < PROBE_PAUSE_US))
        return false;
    return atomic_compare_exchange_strong(&store->probed_us, &before_us, PROBING);
}

pal_status pal_store_ready(pal_store *store, pal_error *err)
{
    const pal_store_backend *backend = store->engine->backend;
    pal_status status = backend->ready ? backend->ready(store->engine, err) : PAL_OK;

    if (status == PAL_OK)
        status = read_something(store, err);
    if (status == PAL_OK)
        status = pal_writer_failure(store->writer, err);
    if ((status == PAL_IO || status == PAL_FULL) && !store->options.read_only &&
            pal_writer_failure(store->writer, NULL) != PAL_OK && may_probe(store)) {
        status = write_something(store, err);
        atomic_store(&store->probed_us, pal_clock_monotonic_us());
    }
    return status;
}
