/* sqlite_names.c - keys and aliases: which session has which, and how a session's list is
 * stored. */
#include <string.h>

#include "base/text.h"
#include "store/sqlite/sqlite.h"

void pal_sqlite_aliases_join(pal_buf *buf, const pal_session *session)
{
    for (size_t i = 0; i < session->aliases_len; i++) {
        pal_buf_append_str(buf, session->aliases[i]);
        pal_buf_append_char(buf, 0);
    }
}

void pal_sqlite_aliases_split(pal_str joined, pal_arena *arena, pal_session *session)
{
    size_t count = 0;

    for (size_t i = 0; i < joined.len; i++)
        count += joined.data[i] == 0;
    if (count == 0)
        return;
    session->aliases = pal_arena_array(arena, count, sizeof(*session->aliases));
    if (!session->aliases)
        return;
    while (session->aliases_len < count) {
        size_t len = strlen(joined.data);

        session->aliases[session->aliases_len++] = pal_str_make(joined.data, len);
        joined.data += len + 1;
    }
}

pal_status pal_sqlite_holder(pal_sql_conn *conn, const pal_work *work, pal_sql_id statement,
        int64_t tenant, pal_str name, int64_t *out_holder, pal_id *out_id)
{
    pal_sql sql = pal_sql_start(conn, statement);
    int64_t expires_at = 0;
    pal_status status;

    *out_holder = 0;
    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_text(&sql, name);
    if (pal_sql_row(&sql)) {
        *out_holder = pal_sql_int(&sql, 0);
        expires_at = pal_sql_int(&sql, 1);
        *out_id = pal_sql_uuid(&sql, 2);
    }
    status = pal_sql_end(&sql, &work->op->error);
    if (status != PAL_OK || expires_at == 0 || work->now_ms <= expires_at)
        return status;
    status = pal_sqlite_trash(conn, *out_holder, work->now_ms, &work->op->error);
    *out_holder = 0;
    return status;
}

pal_status pal_sqlite_key_check(
        pal_sql_conn *conn, const pal_work *work, int64_t tenant, pal_str key, int64_t own_handle)
{
    int64_t holder;
    pal_id id;
    pal_status status;

    if (key.len == 0)
        return PAL_OK;
    status = pal_sqlite_holder(conn, work, PAL_SQL_SESSION_KEY_HOLDER, tenant, key, &holder, &id);
    if (status != PAL_OK || holder == 0 || holder == own_handle)
        return status;
    return pal_error_set(&work->op->error, PAL_CONFLICT, "key '%.*s' belongs to another session",
            PAL_EXCERPT(key, 160));
}

pal_status pal_sqlite_aliases_check(pal_sql_conn *conn, const pal_work *work, int64_t tenant,
        const pal_session *session, int64_t own_handle)
{
    for (size_t i = 0; i < session->aliases_len; i++) {
        int64_t holder;
        pal_id id;
        pal_status status = pal_sqlite_holder(
                conn, work, PAL_SQL_ALIAS_HOLDER, tenant, session->aliases[i], &holder, &id);

        if (status != PAL_OK)
            return status;
        if (holder != 0 && holder != own_handle && !session->is_routed)
            return pal_error_set(&work->op->error, PAL_CONFLICT,
                    "alias '%.*s' belongs to another session",
                    PAL_EXCERPT(session->aliases[i], 160));
    }
    return PAL_OK;
}

static bool is_apart(const pal_session *session, pal_str alias)
{
    return session->alias_apart.len > 0 && pal_str_equal(session->alias_apart, alias);
}

pal_status pal_sqlite_alias_add(
        pal_sql_conn *conn, int64_t tenant, pal_str alias, int64_t handle, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_ALIAS_ADD);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_text(&sql, alias);
    pal_sql_bind_int(&sql, handle);
    return pal_sql_run(&sql, err);
}

pal_status pal_sqlite_aliases_add(pal_sql_conn *conn, int64_t tenant, const pal_session *session,
        int64_t handle, pal_error *err)
{
    for (size_t i = 0; i < session->aliases_len; i++) {
        pal_status status;

        if (is_apart(session, session->aliases[i]))
            continue;
        status = pal_sqlite_alias_add(conn, tenant, session->aliases[i], handle, err);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}
