/* postgres_node.c - this process in the table node, and what became of its last batch.
 *
 * Every batch writes its number into the row of its process, in the same transaction. If the
 * connection breaks while a COMMIT is under way, that row says whether the batch was committed. It
 * is locked first: the old server process may still be about to commit. Then it is written, so that
 * what was read is as durable as any commit.
 *
 * A number that is older than the last one that was acknowledged means that the database went back:
 * a replica took over that did not have the last commits, or a backup was restored. The row is read
 * through every new connection of the writer, so this is also noticed if it happened while
 * nothing was written. It is counted once, and the process continues with what the database has. */
#include <poll.h>

#include "store/postgres/postgres.h"

#define NODE_FORGOTTEN_MS ((int64_t)24 * 3600 * 1000)
#define NODE_TRIES_MAX 100

/* Takes a row that no process uses, or adds one. The loser of a race for the same number
 * changes nothing, and its next try finds another. */
static pal_status try_enter(pal_postgres *store, bool *out_entered,
        pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_conn *conn = &store->writer;
    int64_t now_ms = pal_store_now_ms(&store->base), slot, batch;
    pal_id id = pal_id_new();
    pal_postgres_params params = {0};
    pal_postgres_flight flight;
    pal_status status;

    pal_postgres_flight_begin(&flight, conn);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_BEGIN, NULL);
    pal_postgres_put_int(&params, now_ms - NODE_FORGOTTEN_MS);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_NODE_FREE, &params);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_NODE_NEXT, NULL);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    if (status == PAL_OK) {
        bool is_free = PQntuples(flight.results[1]) > 0;

        slot = pal_postgres_int(flight.results[is_free ? 1 : 2], 0, 0);
        batch = is_free ? pal_postgres_int(flight.results[1], 0, 1) : 0;
    }
    pal_postgres_flight_done(&flight);
    if (status != PAL_OK)
        return status;
    pal_postgres_flight_begin(&flight, conn);
    pal_postgres_put_int(&params, slot);
    pal_postgres_put_id(&params, id);
    pal_postgres_put_int(&params, now_ms);
    pal_postgres_put_int(&params, batch);
    pal_postgres_put_int(&params, now_ms - NODE_FORGOTTEN_MS);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_NODE_ADD, &params);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_COMMIT, NULL);
    pal_postgres_put_int(&params, slot);
    pal_postgres_put_id(&params, id);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_NODE_LOCK, &params);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    *out_entered = status == PAL_OK && PQntuples(flight.results[2]) == 1;
    pal_postgres_flight_done(&flight);
    if (*out_entered) {
        store->slot = slot;
        store->node = id;
        store->batch = batch;
        pal_postgres_acknowledge(store);
        conn->was_checked = true;
    }
    return status;
}

pal_status pal_postgres_node_enter(
        pal_postgres *store, pal_postgres_failure *out_failure, pal_error *err)
{
    bool is_entered = false, is_committed;
    pal_status status = PAL_OK;

    *out_failure = PAL_POSTGRES_FINE;
    if (store->slot != 0 && !store->writer.was_checked)
        status = pal_postgres_node_check(store, &is_committed, out_failure, err);
    if (status != PAL_OK || store->slot != 0)
        return status;
    for (int i = 0; status == PAL_OK && !is_entered && i < NODE_TRIES_MAX; i++) {
        status = try_enter(store, &is_entered, out_failure, err);
        if (status != PAL_OK && *out_failure == PAL_POSTGRES_RACE) {
            status = pal_postgres_run(
                    &store->writer, PAL_POSTGRES_ROLLBACK, NULL, NULL, out_failure, err);
            poll(NULL, 0, 1 + i);
        }
    }
    if (status == PAL_OK && !is_entered) {
        *out_failure = PAL_POSTGRES_RACE;
        return pal_error_set(err, PAL_BUSY, "%s: too many processes start at once; retry later",
                store->place);
    }
    return status;
}

void pal_postgres_node_leave(pal_postgres *store)
{
    pal_postgres_params params = {0};

    if (store->slot == 0 || !store->writer.pg)
        return;
    pal_postgres_put_int(&params, store->slot);
    pal_postgres_put_id(&params, store->node);
    (void)!pal_postgres_run(&store->writer, PAL_POSTGRES_NODE_LEAVE, &params, NULL, NULL, NULL);
}

int64_t pal_postgres_token(const pal_postgres *store)
{
    return store->slot << 40 | store->batch;
}

void pal_postgres_add_batch(pal_postgres_flight *flight, int64_t now_ms)
{
    const pal_postgres *store = flight->conn->store;
    pal_postgres_params params = {0};

    pal_postgres_put_int(&params, store->slot);
    pal_postgres_put_id(&params, store->node);
    pal_postgres_put_int(&params, store->batch);
    pal_postgres_put_int(&params, now_ms);
    pal_postgres_flight_add(flight, PAL_POSTGRES_NODE_BATCH, &params);
}

void pal_postgres_acknowledge(pal_postgres *store)
{
    store->acknowledged = store->batch;
    store->acknowledged_at = pal_store_now_ms(&store->base);
}

pal_status pal_postgres_not_replicated(const pal_postgres *store, pal_error *err)
{
    return pal_error_set(err, PAL_IO, "%s: the commit was not replicated", store->place);
}

/* Also forgets everything that the database may have lost. */
static void note_went_back(pal_postgres *store, int64_t batch)
{
    atomic_fetch_add(&store->went_back, 1);
    store->acknowledged = batch;
    pal_postgres_tenants_forget(store);
}

/* The row is gone or has another owner. A process that wrote nothing for a day has lost its row
 * to another one. Half a day allows for clocks that differ. */
static void lose_slot(pal_postgres *store)
{
    if (pal_store_now_ms(&store->base) - store->acknowledged_at < NODE_FORGOTTEN_MS / 2)
        note_went_back(store, 0);
    store->slot = 0;
}

uint64_t pal_postgres_went_back(pal_engine *engine)
{
    return atomic_load(&((pal_postgres *)engine)->went_back);
}

pal_status pal_postgres_node_check(
        pal_postgres *store, bool *out_committed, pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_params params = {0};
    pal_postgres_flight flight;
    pal_status status;

    *out_committed = false;
    pal_postgres_flight_begin(&flight, &store->writer);
    pal_postgres_put_int(&params, store->slot);
    pal_postgres_put_id(&params, store->node);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_NODE_LOCK, &params);
    pal_postgres_put_int(&params, store->slot);
    pal_postgres_put_id(&params, store->node);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_NODE_CHECK, &params);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    if (status == PAL_OK && flight.conn->was_warned) {
        /* Committed here, perhaps not on its replica: not an answer. */
        *out_failure = PAL_POSTGRES_LOST;
        status = pal_postgres_not_replicated(store, err);
    }
    if (status == PAL_OK && PQntuples(flight.results[1]) == 1) {
        int64_t batch = pal_postgres_int(flight.results[1], 0, 0);

        *out_committed = batch == store->batch;
        if (*out_committed)
            pal_postgres_acknowledge(store);
        else if (batch < store->acknowledged)
            note_went_back(store, batch);
    } else if (status == PAL_OK) {
        lose_slot(store);
    }
    store->writer.was_checked = status == PAL_OK;
    pal_postgres_flight_done(&flight);
    return status;
}
