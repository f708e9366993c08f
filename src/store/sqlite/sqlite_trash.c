/* sqlite_trash.c - moves sessions to the trash and restores them. A session in the trash
 * keeps everything except its names, which other sessions can use. A restored session gets those
 * names back that are still free. */
#include <string.h>

#include "base/memory.h"
#include "store/sqlite/sqlite.h"

pal_status pal_sqlite_trash(pal_sql_conn *conn, int64_t handle, int64_t now_ms, pal_error *err)
{
    pal_status status = pal_sqlite_state_set(conn, handle, PAL_SESSION_TRASH, err);
    pal_sql sql;

    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_SESSION_TRASH);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, now_ms);
    status = pal_sql_run(&sql, err);
    if (status != PAL_OK)
        return status;
    return pal_sql_run_int(conn, PAL_SQL_ALIAS_CLEAR, handle, err);
}

pal_status pal_sqlite_delete(pal_sql_conn *conn, pal_work *work)
{
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &head);

    if (status != PAL_OK)
        return status;
    if (head.state == PAL_SESSION_TRASH)
        return pal_error_set(&work->op->error, PAL_CONFLICT, "the session is already in the trash");
    return pal_sqlite_trash(conn, head.handle, work->now_ms, &work->op->error);
}

/* ---- Restoring ---- */

static pal_status read_names(pal_sql_conn *conn, pal_work *work, int64_t handle, pal_arena *arena,
        pal_session *out_names)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_SESSION_NAMES);
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    if (pal_sql_row(&sql)) {
        out_names->key = pal_arena_copy(arena, pal_sql_text(&sql, 0));
        pal_sqlite_aliases_split(pal_arena_copy(arena, pal_sql_text(&sql, 1)), arena, out_names);
        out_names->is_routed = pal_sql_int(&sql, 2) != 0;
        out_names->alias_apart = pal_arena_copy(arena, pal_sql_text(&sql, 3));
    }
    status = pal_sql_end(&sql, &work->op->error);
    if (status == PAL_OK && pal_arena_failure(arena))
        status = pal_sql_failed(conn, SQLITE_NOMEM, &work->op->error);
    return status;
}

/* Removes aliases from the list that belong to other sessions by now. A routed list stays
 * unchanged. */
static pal_status drop_taken(
        pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head, pal_session *names)
{
    size_t kept = 0;

    for (size_t i = 0; i < names->aliases_len; i++) {
        int64_t holder;
        pal_id id;
        pal_status status = pal_sqlite_holder(
                conn, work, PAL_SQL_ALIAS_HOLDER, head->tenant, names->aliases[i], &holder, &id);

        if (status != PAL_OK)
            return status;
        if (holder == 0 || holder == head->handle || names->is_routed)
            names->aliases[kept++] = names->aliases[i];
    }
    names->aliases_len = kept;
    return PAL_OK;
}

static pal_status write_restored(
        pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head, pal_str aliases)
{
    bool expired = head->expires_at != 0 && work->now_ms > head->expires_at;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_SESSION_RESTORE);
    pal_status status;

    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_text(&sql, aliases);
    pal_sql_bind_int_or_null(&sql, expired ? 0 : head->expires_at);
    status = pal_sql_run(&sql, &work->op->error);
    if (status != PAL_OK)
        return status;
    return pal_sqlite_state_set(conn, head->handle, PAL_SESSION_ACTIVE, &work->op->error);
}

static pal_status restore_with(
        pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head, pal_arena *arena)
{
    pal_session names = {0};
    pal_buf aliases;
    pal_status status = read_names(conn, work, head->handle, arena, &names);

    if (status != PAL_OK)
        return status;
    status = pal_sqlite_key_check(conn, work, head->tenant, names.key, head->handle);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_check_room(conn, work, head->tenant);
    if (status != PAL_OK)
        return status;
    status = drop_taken(conn, work, head, &names);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_aliases_add(conn, head->tenant, &names, head->handle, &work->op->error);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&aliases, PAL_ALIASES_LEN_MAX);
    pal_sqlite_aliases_join(&aliases, &names);
    if (aliases.failure)
        status = pal_sql_failed(conn, SQLITE_NOMEM, &work->op->error);
    else
        status = write_restored(conn, work, head, pal_buf_str(&aliases));
    pal_buf_done(&aliases);
    return status;
}

static bool can_restore(const pal_work *work, const pal_sqlite_head *head)
{
    bool expired = head->expires_at != 0 && work->now_ms > head->expires_at;

    return head->state == PAL_SESSION_TRASH || (head->state == PAL_SESSION_ACTIVE && expired);
}

pal_status pal_sqlite_restore(pal_sql_conn *conn, pal_work *work)
{
    pal_sqlite_head head = {0};
    pal_arena *arena;
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &head);

    if (status != PAL_OK)
        return status;
    if (!can_restore(work, &head))
        return pal_error_set(&work->op->error, PAL_CONFLICT, "the session is not in the trash");
    arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(&work->op->error);
    status = restore_with(conn, work, &head, arena);
    pal_arena_free(arena);
    return status;
}
