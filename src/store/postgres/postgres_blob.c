/* postgres_blob.c - stores large blobs before the batch that refers to them.
 *
 * A batch holds locks and all callers wait for it, so 64 MiB must not be a part of it. A large new
 * blob is written in a separate transaction, on a connection of the pool. The batch then finds that
 * the blob exists and adds only a reference to it. Until then nothing refers to the blob: if the
 * process dies or the batch is refused, the sweep removes it after PAL_BLOB_UNUSED_MS_MAX. If an
 * erasure removes the blob in between, or it could not be written, the batch writes it.
 *
 * The commit of the batch comes later in the write-ahead log, so it is never on the disk, or on a
 * replica, without the blob. */
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres.h"

#define AHEAD_BYTES_MIN (256u << 10)
#define AHEAD_TRIES_MAX 2 /* the first may only find that an idle connection is gone */

enum { PARTS_TOGETHER = 4 }; /* parts that are sent together, which limits the memory */

/* Begins the transaction. *out_added: the blob did not exist. */
static pal_status begin_blob(pal_postgres_conn *conn, pal_str tenant, const pal_work_blob *blob,
        bool *out_added, pal_error *err)
{
    pal_postgres *store = conn->store;
    pal_postgres_params params = {0};
    pal_postgres_flight flight;
    pal_status status;

    pal_postgres_flight_begin(&flight, conn);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_BEGIN, NULL);
    pal_postgres_put_int(&params, pal_postgres_tenant(tenant));
    pal_postgres_put_bytes(&params, tenant);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_TENANT_ADD, &params);
    pal_postgres_put_int(&params, pal_postgres_tenant(tenant));
    pal_postgres_put_bytes(&params, pal_str_make((const char *)blob->hash, sizeof blob->hash));
    pal_postgres_put_int(&params, (int64_t)blob->data.len);
    pal_postgres_put_int(&params, pal_store_now_ms(&store->base));
    pal_postgres_put_text(&params, blob->media_type);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_BLOB_AHEAD, &params);
    status = pal_postgres_flight_run(&flight, err);
    if (status == PAL_OK)
        *out_added = strcmp(PQcmdTuples(flight.results[2]), "1") == 0;
    pal_postgres_flight_done(&flight);
    return status;
}

/* Sends some parts, beginning with the part `first`. */
static pal_status send_parts(pal_postgres_conn *conn, pal_str tenant, const pal_work_blob *blob,
        size_t first, pal_error *err)
{
    pal_postgres_params params = {0};

    pal_postgres_put_arrays(&params, "iyiy");
    for (size_t part = first; part < first + PARTS_TOGETHER; part++) {
        size_t at = part * PAL_POSTGRES_PART_BYTES, left = blob->data.len - at;

        if (at >= blob->data.len)
            break;
        pal_postgres_add_int(&params.items[0], pal_postgres_tenant(tenant));
        pal_postgres_add_bytes(
                &params.items[1], pal_str_make((const char *)blob->hash, sizeof blob->hash));
        pal_postgres_add_int(&params.items[2], (int64_t)part);
        pal_postgres_add_bytes(&params.items[3], pal_str_make(blob->data.data + at,
                left < PAL_POSTGRES_PART_BYTES ? left : PAL_POSTGRES_PART_BYTES));
    }
    return pal_postgres_run(conn, PAL_POSTGRES_BLOB_PART_ADD, &params, NULL, NULL, err);
}

static pal_status write_blob(
        pal_postgres_conn *conn, pal_str tenant, const pal_work_blob *blob, pal_error *err)
{
    size_t parts = (blob->data.len + PAL_POSTGRES_PART_BYTES - 1) / PAL_POSTGRES_PART_BYTES;
    bool is_added = false;
    pal_status status = pal_postgres_connect(conn, NULL, err);

    if (status == PAL_OK)
        status = begin_blob(conn, tenant, blob, &is_added, err);
    for (size_t part = 0; status == PAL_OK && is_added && part < parts; part += PARTS_TOGETHER)
        status = send_parts(conn, tenant, blob, part, err);
    if (status == PAL_OK)
        status = pal_postgres_run(conn, PAL_POSTGRES_COMMIT, NULL, NULL, NULL, err);
    if (status != PAL_OK)
        pal_postgres_disconnect(conn); /* which rolls back */
    return status;
}

pal_status pal_postgres_blob_ahead(
        pal_engine *engine, pal_str tenant, pal_work_blob *blob, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;
    pal_postgres_reader *reader;
    pal_status status = PAL_IO;

    if (!blob->is_new || blob->is_ahead || blob->data.len <= AHEAD_BYTES_MIN)
        return PAL_OK;
    blob->is_ahead = true;
    reader = pal_postgres_reader_take(store);
    for (int i = 0; status != PAL_OK && i < AHEAD_TRIES_MAX; i++)
        status = write_blob(&reader->conn, tenant, blob, err);
    pal_postgres_reader_give(store, reader);
    return status;
}
