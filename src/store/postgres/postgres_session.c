/* postgres_session.c - reads sessions, their marks, inbox and lease. Each read is one statement. */
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres.h"

/* ---- Columns ---- */

/* The aliases of a session are one value: each is followed by a NUL. */
static void split_aliases(pal_str joined, pal_arena *arena, pal_session *session)
{
    size_t count = 0;

    for (size_t i = 0; i < joined.len; i++)
        count += joined.data[i] == 0;
    if (count == 0)
        return;
    session->aliases = pal_arena_array(arena, count, sizeof(*session->aliases));
    while (session->aliases && session->aliases_len < count) {
        size_t len = strlen(joined.data);

        session->aliases[session->aliases_len++] = pal_str_make(joined.data, len);
        joined.data += len + 1;
    }
}

void pal_postgres_session_read(const PGresult *result, int row, pal_str tenant, pal_arena *arena,
        pal_session_row *out_row)
{
    pal_session *session = &out_row->session;

    memset(out_row, 0, sizeof(*out_row));
    session->id = pal_postgres_id(result, row, 0);
    session->state = (pal_session_state)pal_postgres_int(result, row, 1);
    session->tenant = pal_arena_copy(arena, tenant);
    session->key = pal_postgres_str_copy(result, row, 2, arena);
    split_aliases(pal_postgres_str_copy(result, row, 3, arena), arena, session);
    session->title = pal_postgres_str_copy(result, row, 4, arena);
    session->project = pal_postgres_str_copy(result, row, 5, arena);
    session->agent = pal_postgres_str_copy(result, row, 6, arena);
    session->scope = pal_postgres_str_copy(result, row, 7, arena);
    session->metadata = pal_postgres_str_copy(result, row, 8, arena);
    session->extra = pal_postgres_str_copy(result, row, 9, arena);
    session->parent_id = pal_postgres_id(result, row, 10);
    session->fork_seq = (uint64_t)pal_postgres_int(result, row, 11);
    session->fork_mark = (uint64_t)pal_postgres_int(result, row, 12);
    session->last_seq = (uint64_t)pal_postgres_int(result, row, 13);
    out_row->mark_number = (uint64_t)pal_postgres_int(result, row, 14);
    session->tokens = (uint64_t)pal_postgres_int(result, row, 15);
    session->bytes = (uint64_t)pal_postgres_int(result, row, 16);
    session->created_at = pal_postgres_int(result, row, 17);
    session->updated_at = pal_postgres_int(result, row, 18);
    session->expires_at = pal_postgres_int(result, row, 19);
    session->deleted_at = pal_postgres_int(result, row, 20);
    session->is_routed = pal_postgres_int(result, row, 21) != 0;
    session->alias_apart = pal_postgres_str_copy(result, row, 22, arena);
    /* Sessions have no numbers here. */
    out_row->handle = (pal_handle){.number = 1, .id = session->id, .tenant = session->tenant};
}

void pal_postgres_session_read_brief(const PGresult *result, int row, pal_str tenant,
        pal_arena *arena, pal_session_row *out_row)
{
    pal_session *session = &out_row->session;

    memset(out_row, 0, sizeof(*out_row));
    session->id = pal_postgres_id(result, row, 0);
    session->state = (pal_session_state)pal_postgres_int(result, row, 1);
    session->tenant = pal_arena_copy(arena, tenant);
    session->parent_id = pal_postgres_id(result, row, 2);
    session->fork_seq = (uint64_t)pal_postgres_int(result, row, 3);
    session->fork_mark = (uint64_t)pal_postgres_int(result, row, 4);
    session->last_seq = (uint64_t)pal_postgres_int(result, row, 5);
    out_row->mark_number = (uint64_t)pal_postgres_int(result, row, 6);
    session->expires_at = pal_postgres_int(result, row, 7);
    out_row->handle = (pal_handle){.number = 1, .id = session->id, .tenant = session->tenant};
}

void pal_postgres_mark_read(const PGresult *result, int row, pal_mark *out_mark)
{
    *out_mark = (pal_mark){.number = (uint64_t)pal_postgres_int(result, row, 0),
            .kind = (pal_mark_kind)pal_postgres_int(result, row, 1),
            .seq = (uint64_t)pal_postgres_int(result, row, 2),
            .through_seq = (uint64_t)pal_postgres_int(result, row, 3),
            .target = (uint64_t)pal_postgres_int(result, row, 4),
            .created_at = pal_postgres_int(result, row, 5)};
}

int64_t pal_postgres_minute(int64_t updated_at)
{
    int64_t minute = updated_at / 60000;

    return minute > INT32_MAX ? INT32_MAX : minute < 0 ? 0 : minute;
}

static void put_session(pal_postgres_params *params, pal_handle handle)
{
    pal_postgres_put_int(params, pal_postgres_tenant(handle.tenant));
    pal_postgres_put_id(params, handle.id);
}

/* ---- Sessions ---- */

pal_status pal_postgres_session_find(pal_engine *engine, pal_str tenant, pal_session_by by,
        pal_str name, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    static const pal_postgres_sql statements[] = {
            [PAL_SESSION_BY_ID] = PAL_POSTGRES_SESSION_BY_ID,
            [PAL_SESSION_BY_KEY] = PAL_POSTGRES_SESSION_BY_KEY,
            [PAL_SESSION_BY_ALIAS] = PAL_POSTGRES_SESSION_BY_ALIAS,
    };
    pal_postgres *store = (pal_postgres *)engine;
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_session_row row;
    bool found;
    pal_status status = pal_postgres_tenant_find(store, tenant, &found, err);

    if (status != PAL_OK || !found)
        return status != PAL_OK ? status : PAL_NOT_FOUND;
    pal_postgres_put_int(&params, pal_postgres_tenant(tenant));
    pal_postgres_put_bytes(&params, name); /* an id is 16 bytes, as a uuid */
    status = pal_postgres_read(store, statements[by], &params, &result, err);
    if (status == PAL_OK && PQntuples(result) == 0)
        status = PAL_NOT_FOUND;
    if (status == PAL_OK) {
        pal_postgres_session_read(result, 0, tenant, arena, &row);
        status = pal_arena_checked(arena, err);
    }
    PQclear(result);
    if (status == PAL_OK)
        *out_row = row;
    return status;
}

pal_status pal_postgres_session_list(pal_engine *engine, const pal_session_query *query,
        int64_t after_ms, pal_handle after, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;
    pal_postgres_sql sql = query->project.len > 0 ? PAL_POSTGRES_SESSION_LIST_PROJECT
            : query->agent.len > 0                ? PAL_POSTGRES_SESSION_LIST_AGENT
                                                  : PAL_POSTGRES_SESSION_LIST;
    int64_t before_ms = !pal_handle_is_none(after) ? after_ms
            : query->updated_to > 0                ? query->updated_to
                                                   : INT64_MAX;
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    bool found;
    pal_status status = pal_postgres_tenant_find(store, query->tenant, &found, err);

    if (status == PAL_OK)
        *out_len = 0;
    if (status != PAL_OK || !found)
        return status;
    pal_postgres_put_int(&params, pal_postgres_tenant(query->tenant));
    pal_postgres_put_int(&params, query->state);
    pal_postgres_put_int(&params, pal_postgres_minute(before_ms));
    pal_postgres_put_int(&params, before_ms);
    pal_postgres_put_id(&params, after.id);
    pal_postgres_put_int(&params, query->updated_from);
    pal_postgres_put_int(&params, pal_store_now_ms(engine));
    pal_postgres_put_int(&params, (int64_t)rows_max);
    if (sql == PAL_POSTGRES_SESSION_LIST_PROJECT)
        pal_postgres_put_text(&params, query->project);
    if (sql != PAL_POSTGRES_SESSION_LIST)
        pal_postgres_put_text(&params, query->agent);
    status = pal_postgres_read(store, sql, &params, &result, err);
    for (int i = 0; status == PAL_OK && i < PQntuples(result); i++)
        pal_postgres_session_read(result, i, query->tenant, arena, &out_rows[i]);
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        *out_len = (size_t)PQntuples(result);
    PQclear(result);
    return status;
}

pal_status pal_postgres_fork_list(pal_engine *engine, pal_handle handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_id *ids = NULL;
    size_t len = 0;
    pal_status status;

    put_session(&params, handle);
    pal_postgres_put_int(&params, (int64_t)min_seq);
    status = pal_postgres_read(
            (pal_postgres *)engine, PAL_POSTGRES_SESSION_FORKS, &params, &result, err);
    if (status == PAL_OK) {
        len = (size_t)PQntuples(result);
        ids = len > 0 ? pal_arena_array(arena, len, sizeof *ids) : NULL;
        for (size_t i = 0; ids && i < len; i++)
            ids[i] = pal_postgres_id(result, (int)i, 0);
        status = pal_arena_checked(arena, err);
    }
    PQclear(result);
    if (status == PAL_OK) {
        *out_ids = ids;
        *out_len = len;
    }
    return status;
}

/* ---- Marks ---- */

pal_status pal_postgres_mark_list(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    static const pal_postgres_sql statements[] = {
            [PAL_MARKS_HIDING] = PAL_POSTGRES_MARK_HIDING,
            [PAL_MARKS_BRIEF] = PAL_POSTGRES_MARK_BRIEF,
            [PAL_MARKS_WHOLE] = PAL_POSTGRES_MARK_WHOLE,
    };
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_mark *marks = NULL;
    size_t len = 0;
    pal_status status;

    if (pal_postgres_ahead_marks(scan, arena, out_marks, out_len))
        return PAL_OK;
    put_session(&params, scan->handle);
    pal_postgres_put_int(&params, (int64_t)scan->first);
    pal_postgres_put_int(&params, scan->last > INT64_MAX ? INT64_MAX : (int64_t)scan->last);
    status = pal_postgres_read(
            (pal_postgres *)engine, statements[scan->wanted], &params, &result, err);
    if (status == PAL_OK) {
        len = (size_t)PQntuples(result);
        marks = len > 0 ? pal_arena_array(arena, len, sizeof *marks) : NULL;
        for (size_t i = 0; marks && i < len; i++) {
            pal_postgres_mark_read(result, (int)i, &marks[i]);
            if (scan->wanted == PAL_MARKS_WHOLE)
                marks[i].body = pal_postgres_str_copy(result, (int)i, 6, arena);
        }
        status = pal_arena_checked(arena, err);
    }
    PQclear(result);
    if (status == PAL_OK) {
        *out_marks = marks;
        *out_len = len;
    }
    return status;
}

/* ---- Inbox and lease ---- */

pal_inbox_item *pal_postgres_items_read(const PGresult *result, pal_arena *arena)
{
    int len = PQntuples(result);
    pal_inbox_item *items = len > 0 ? pal_arena_array(arena, (size_t)len, sizeof *items) : NULL;

    for (int i = 0; items && i < len; i++)
        items[i] = (pal_inbox_item){.id = pal_postgres_id(result, i, 0),
                .client_id = pal_postgres_str_copy(result, i, 1, arena),
                .delivery = pal_postgres_str_copy(result, i, 2, arena),
                .body = pal_postgres_str_copy(result, i, 3, arena),
                .created_at = pal_postgres_int(result, i, 4)};
    return items;
}

pal_status pal_postgres_inbox_list(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_inbox_item *items = NULL;
    size_t len = 0;
    pal_status status;

    if (pal_postgres_ahead_inbox(handle, arena, out_items, out_len))
        return PAL_OK;
    put_session(&params, handle);
    status = pal_postgres_read(
            (pal_postgres *)engine, PAL_POSTGRES_INBOX_LIST, &params, &result, err);
    if (status == PAL_OK) {
        len = (size_t)PQntuples(result);
        items = pal_postgres_items_read(result, arena);
        status = pal_arena_checked(arena, err);
    }
    PQclear(result);
    if (status == PAL_OK) {
        *out_items = items;
        *out_len = len;
    }
    return status;
}

pal_status pal_postgres_inbox_owners(pal_engine *engine, const pal_inbox_owner *after,
        int64_t now_ms, pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max,
        size_t *out_len, pal_error *err)
{
    pal_str first = pal_str_make((const char *)after->session.bytes, sizeof after->session.bytes);
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    pal_postgres_put_bytes(&params, first); /* not NULL, even if it is all zero */
    pal_postgres_put_bytes(&params, after->tenant);
    pal_postgres_put_int(&params, now_ms);
    pal_postgres_put_int(&params, (int64_t)owners_max);
    status = pal_postgres_read(
            (pal_postgres *)engine, PAL_POSTGRES_INBOX_OWNERS, &params, &result, err);
    for (int i = 0; status == PAL_OK && i < PQntuples(result); i++) {
        out_owners[i].tenant = pal_postgres_str_copy(result, i, 0, arena);
        out_owners[i].session = pal_postgres_id(result, i, 1);
    }
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        *out_len = (size_t)PQntuples(result);
    PQclear(result);
    return status;
}

pal_status pal_postgres_lease_find(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_lease *out_lease, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_lease lease = {0};
    pal_status status;

    put_session(&params, handle);
    status = pal_postgres_read(
            (pal_postgres *)engine, PAL_POSTGRES_LEASE_FIND, &params, &result, err);
    if (status == PAL_OK && PQntuples(result) == 0)
        status = PAL_NOT_FOUND;
    if (status == PAL_OK) {
        lease.owner = pal_postgres_str_copy(result, 0, 0, arena);
        lease.fence = (uint64_t)pal_postgres_int(result, 0, 1);
        lease.expires_at = pal_postgres_int(result, 0, 2);
        lease.ttl_ms = pal_postgres_int(result, 0, 3);
        status = pal_arena_checked(arena, err);
    }
    PQclear(result);
    if (status == PAL_OK)
        *out_lease = lease;
    return status;
}
