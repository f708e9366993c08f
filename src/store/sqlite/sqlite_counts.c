/* sqlite_counts.c - counts of the objects in the file, so that statistics do not have to read
 * all of it.
 *
 * The operations of a transaction add up their changes. The sum is written to the one row of
 * `counter` in the same transaction, before the commit. So rows and counts agree after a crash. If
 * a single operation is undone, its part of the sum is undone as well. */
#include <string.h>

#include "store/sqlite/sqlite.h"

bool pal_sqlite_tenant_counts(pal_str name)
{
    /* Names that begin with a control character are internal; API keys are stored under such a
     * name. */
    return name.len > 0 && (unsigned char)name.data[0] >= ' ';
}

void pal_sqlite_count_state(pal_sql_conn *conn, int64_t state, int64_t by)
{
    if (state == PAL_SESSION_ACTIVE)
        conn->counts.active += by;
    else if (state == PAL_SESSION_TRASH)
        conn->counts.trash += by;
    else if (state == PAL_SESSION_QUARANTINED)
        conn->counts.quarantined += by;
}

pal_status pal_sqlite_state_set(
        pal_sql_conn *conn, int64_t handle, pal_session_state state, pal_error *err)
{
    pal_sqlite_head before = {0};
    pal_sql sql;
    pal_status status = pal_sqlite_head_by_handle(conn, handle, &before, err);

    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_HEAD_STATE);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, state);
    status = pal_sql_run(&sql, err);
    if (status == PAL_OK) {
        pal_sqlite_count_state(conn, before.state, -1);
        pal_sqlite_count_state(conn, state, 1);
    }
    return status;
}

pal_status pal_sqlite_counts_write(pal_sql_conn *conn, pal_error *err)
{
    static const pal_sqlite_counts nothing;
    const pal_sqlite_counts *counts = &conn->counts;
    pal_sql sql;

    if (memcmp(counts, &nothing, sizeof(nothing)) == 0)
        return PAL_OK;
    sql = pal_sql_start(conn, PAL_SQL_COUNTER_ADD);
    pal_sql_bind_int(&sql, counts->active);
    pal_sql_bind_int(&sql, counts->trash);
    pal_sql_bind_int(&sql, counts->quarantined);
    pal_sql_bind_int(&sql, counts->messages);
    pal_sql_bind_int(&sql, counts->bytes);
    pal_sql_bind_int(&sql, counts->blobs);
    pal_sql_bind_int(&sql, counts->blob_bytes);
    pal_sql_bind_int(&sql, counts->tenants);
    return pal_sql_run(&sql, err);
}

pal_status pal_sqlite_counts_read(
        pal_sql_conn *conn, pal_sql_id id, pal_store_stats *out_stats, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    if (pal_sql_row(&sql)) {
        out_stats->sessions_active = (uint64_t)pal_sql_int(&sql, 0);
        out_stats->sessions_trash = (uint64_t)pal_sql_int(&sql, 1);
        out_stats->sessions_quarantined = (uint64_t)pal_sql_int(&sql, 2);
        out_stats->messages = (uint64_t)pal_sql_int(&sql, 3);
        out_stats->content_bytes = (uint64_t)pal_sql_int(&sql, 4);
        out_stats->blobs = (uint64_t)pal_sql_int(&sql, 5);
        out_stats->blob_bytes = (uint64_t)pal_sql_int(&sql, 6);
        out_stats->tenants = (uint64_t)pal_sql_int(&sql, 7);
    }
    return pal_sql_end(&sql, err);
}
