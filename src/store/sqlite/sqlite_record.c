/* sqlite_record.c - records: small named objects that are stored next to the sessions. */
#include "store/sqlite/sqlite.h"

/* The current record of a name. An expired record does not count. */
typedef struct current_record {
    int64_t id; /* 0: there is no record */
    uint64_t version;
    int64_t created_at;
} current_record;

static pal_status find_current(
        pal_sql_conn *conn, const pal_work *work, int64_t tenant, current_record *out_current)
{
    const pal_record *record = work->op->u.record.record;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_RECORD_GET);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_text(&sql, record->kind);
    pal_sql_bind_text(&sql, record->name);
    if (pal_sql_row(&sql)) {
        pal_record found = {.expires_at = pal_sql_int(&sql, 3)};

        if (!pal_record_expired(&found, work->now_ms))
            *out_current = (current_record){.id = pal_sql_int(&sql, 0),
                    .version = (uint64_t)pal_sql_int(&sql, 1),
                    .created_at = pal_sql_int(&sql, 2)};
    }
    return pal_sql_end(&sql, &work->op->error);
}

/* Of the session that the operation names, only the fence matters for the record. */
static pal_status check_fence(pal_sql_conn *conn, const pal_work *work)
{
    pal_sqlite_head ignored;

    if (pal_id_is_none(work->op->session))
        return PAL_OK;
    return pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &ignored);
}

/* Checks the fence, and finds the tenant's number and the current record. */
static pal_status look_up(
        pal_sql_conn *conn, const pal_work *work, int64_t *out_tenant, current_record *out_current)
{
    pal_status status = check_fence(conn, work);

    if (status != PAL_OK)
        return status;
    status = pal_sqlite_tenant(conn, work->tenant, false, out_tenant, &work->op->error);
    if (status != PAL_OK || *out_tenant == 0)
        return status;
    return find_current(conn, work, *out_tenant, out_current);
}

static pal_status write_record(pal_sql_conn *conn, const pal_work *work, int64_t tenant,
        int64_t owner, const pal_record *record)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_RECORD_SET);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_text(&sql, record->kind);
    pal_sql_bind_text(&sql, record->name);
    pal_sql_bind_int_or_null(&sql, owner);
    pal_sql_bind_int(&sql, (int64_t)record->version);
    pal_sql_bind_int(&sql, record->created_at);
    pal_sql_bind_int(&sql, record->updated_at);
    pal_sql_bind_int_or_null(&sql, record->expires_at);
    pal_sql_bind_text(&sql, record->body);
    return pal_sql_run(&sql, &work->op->error);
}

pal_status pal_sqlite_record_put(pal_sql_conn *conn, pal_work *work)
{
    pal_record record = *work->op->u.record.record;
    pal_sqlite_head owner = {0};
    current_record before = {0};
    int64_t tenant = 0;
    pal_status status = look_up(conn, work, &tenant, &before);

    if (status != PAL_OK)
        return status;
    if (!pal_id_is_none(record.session)) {
        status = pal_sqlite_head_existing(conn, work, record.session, &owner);
        if (status != PAL_OK)
            return status;
    }
    status = pal_record_check_version(work, before.version);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_tenant(conn, work->tenant, true, &tenant, &work->op->error);
    if (status != PAL_OK)
        return status;
    if (!work->copied) {
        record.version = before.version + 1;
        record.created_at = before.id != 0 ? before.created_at : work->now_ms;
        record.updated_at = work->now_ms;
    }
    status = write_record(conn, work, tenant, owner.handle, &record);
    if (status == PAL_OK)
        *work->op->u.record.record = record;
    return status;
}

pal_status pal_sqlite_record_drop(pal_sql_conn *conn, pal_work *work)
{
    current_record before = {0};
    int64_t tenant = 0;
    pal_status status = look_up(conn, work, &tenant, &before);

    if (status != PAL_OK)
        return status;
    if (before.id == 0)
        return pal_record_missing(work);
    return pal_sql_run_int(conn, PAL_SQL_RECORD_DROP, before.id, &work->op->error);
}

pal_status pal_sqlite_records_sweep(pal_sql_conn *conn, pal_work *work)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_RECORD_SWEEP);
    pal_status status;

    pal_sql_bind_int(&sql, work->now_ms);
    pal_sql_bind_int(&sql, work->op->u.sweep.limit);
    status = pal_sql_run(&sql, &work->op->error);
    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_RECORD_DUE);
    pal_sql_bind_int(&sql, work->now_ms);
    if (pal_sql_row(&sql))
        work->op->u.sweep.result.has_more = true;
    return pal_sql_end(&sql, &work->op->error);
}

/* ---- Reading ---- */

void pal_sqlite_record_read(pal_sql *sql, int first, pal_arena *arena, pal_record *out_record)
{
    out_record->kind = pal_sql_copy(sql, first, arena);
    out_record->name = pal_sql_copy(sql, first + 1, arena);
    out_record->session = pal_sql_uuid(sql, first + 2);
    out_record->body = pal_sql_copy(sql, first + 3, arena);
    out_record->version = (uint64_t)pal_sql_int(sql, first + 4);
    out_record->created_at = pal_sql_int(sql, first + 5);
    out_record->updated_at = pal_sql_int(sql, first + 6);
    out_record->expires_at = pal_sql_int(sql, first + 7);
}

static pal_sql start_list(pal_sqlite *self, const pal_record_scan *scan, pal_error *err)
{
    bool is_owned = scan->name.len == 0 && !pal_handle_is_none(scan->handle);
    pal_sql_id id = scan->descending ? PAL_SQL_RECORD_DOWN : PAL_SQL_RECORD_UP;
    pal_sql sql;

    if (scan->name.len > 0)
        id = PAL_SQL_RECORD_FIND;
    else if (is_owned)
        id = scan->descending ? PAL_SQL_RECORD_SESSION_DOWN : PAL_SQL_RECORD_SESSION_UP;
    sql = pal_sql_read(self, scan->name.len > 0 ? PAL_READ_SHORT : PAL_READ_LONG, id, err);
    if (is_owned)
        pal_sql_bind_int(&sql, (int64_t)scan->handle.number);
    else
        pal_sql_bind_text(&sql, scan->tenant);
    pal_sql_bind_text(&sql, scan->kind);
    if (scan->name.len > 0)
        pal_sql_bind_text(&sql, scan->name);
    else
        pal_sql_bind_body(&sql, scan->after, scan->after.len > 0 || !scan->descending);
    pal_sql_bind_int(&sql, scan->now_ms);
    if (scan->name.len == 0)
        pal_sql_bind_int(&sql, (int64_t)scan->records_max);
    return sql;
}

pal_status pal_sqlite_record_list(pal_engine *engine, const pal_record_scan *scan, pal_arena *arena,
        pal_record *out_records, size_t *out_len, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    size_t len = 0;
    pal_sql sql;
    pal_status status;

    if (!self->has_records) {
        *out_len = 0;
        return PAL_OK;
    }
    sql = start_list(self, scan, err);
    while (len < scan->records_max && pal_sql_row(&sql))
        pal_sqlite_record_read(&sql, 0, arena, &out_records[len++]);
    status = pal_sql_end_copied(&sql, arena, err);
    if (status == PAL_OK)
        *out_len = len;
    return status;
}
