/* sqlite_turn.c - operations for turns: inbox and lease. */
#include <string.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

/* ---- Inbox ---- */

/* Looks for an item with the client id: 0 if there is none, 1 if it is equal, -1 if its content
 * differs. */
static pal_status find_same_item(
        pal_sql_conn *conn, const pal_work *work, int64_t handle, int *out_match)
{
    pal_inbox_item *item = work->op->u.inbox_item;
    pal_sql sql;

    *out_match = 0;
    if (item->client_id.len == 0)
        return PAL_OK;
    sql = pal_sql_start(conn, PAL_SQL_INBOX_BY_CLIENT);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_text(&sql, item->client_id);
    if (pal_sql_row(&sql)) {
        bool equal = pal_str_equal(pal_sql_text(&sql, 1), item->delivery) &&
                pal_str_equal(pal_sql_text(&sql, 2), item->body);

        *out_match = equal ? 1 : -1;
        if (equal) {
            item->id = pal_sql_uuid(&sql, 0);
            item->created_at = pal_sql_int(&sql, 3);
        }
    }
    return pal_sql_end(&sql, &work->op->error);
}

static pal_status check_room(pal_sql_conn *conn, const pal_work *work, int64_t handle)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INBOX_COUNT);
    int64_t count = 0;
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    if (pal_sql_row(&sql))
        count = pal_sql_int(&sql, 0);
    status = pal_sql_end(&sql, &work->op->error);
    if (status == PAL_OK && count >= PAL_INBOX_ITEMS_MAX)
        status = pal_error_set(&work->op->error, PAL_LIMIT,
                "the inbox is full: %d items are waiting; retry later", PAL_INBOX_ITEMS_MAX);
    return status;
}

static pal_status insert_item(pal_sql_conn *conn, const pal_work *work, int64_t handle)
{
    const pal_inbox_item *item = work->op->u.inbox_item;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INBOX_ADD);

    pal_sql_bind_id(&sql, &work->new_id);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, work->now_ms);
    pal_sql_bind_text(&sql, item->client_id);
    pal_sql_bind_text(&sql, item->delivery);
    pal_sql_bind_text(&sql, item->body);
    return pal_sql_run(&sql, &work->op->error);
}

pal_status pal_sqlite_inbox_add(pal_sql_conn *conn, pal_work *work)
{
    pal_inbox_item *item = work->op->u.inbox_item;
    int match = 0;
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_WRITABLE, &head);

    if (status == PAL_OK)
        status = find_same_item(conn, work, head.handle, &match);
    if (status != PAL_OK || match > 0)
        return status;
    if (match < 0)
        return pal_error_set(&work->op->error, PAL_CONFLICT,
                "client id '%.*s' was used for another item", PAL_STR_ARG(item->client_id));
    status = check_room(conn, work, head.handle);
    if (status == PAL_OK)
        status = insert_item(conn, work, head.handle);
    if (status != PAL_OK)
        return status;
    item->id = work->new_id;
    item->created_at = work->now_ms;
    return PAL_OK;
}

pal_status pal_sqlite_inbox_remove(
        pal_sql_conn *conn, int64_t handle, pal_id item, bool *out_found, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INBOX_DROP);
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_id(&sql, &item);
    status = pal_sql_run(&sql, err);
    if (status == PAL_OK)
        *out_found = sqlite3_changes64(conn->db) > 0;
    return status;
}

pal_status pal_sqlite_inbox_drop(pal_sql_conn *conn, pal_work *work)
{
    bool found = true;
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_WRITABLE, &head);

    if (status == PAL_OK)
        status = pal_sqlite_inbox_remove(
                conn, head.handle, work->op->u.inbox_id, &found, &work->op->error);
    if (status == PAL_OK && !found)
        status = pal_error_set(&work->op->error, PAL_NOT_FOUND,
                "the item does not exist in the inbox");
    return status;
}

/* ---- Lease ---- */

typedef struct lease_state {
    bool same_owner;
    uint64_t fence;
    int64_t expires_at;
    int64_t ttl_ms; /* 0: the lease was taken by an older version, which did not store it */
    char owner[PAL_LABEL_LEN_MAX + 1];
} lease_state;

static pal_status lease_get(
        pal_sql_conn *conn, const pal_work *work, int64_t handle, lease_state *out_state)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_LEASE_GET);

    memset(out_state, 0, sizeof(*out_state));
    pal_sql_bind_int(&sql, handle);
    if (pal_sql_row(&sql)) {
        pal_str owner = pal_sql_text(&sql, 0);

        out_state->same_owner = pal_str_equal(owner, work->op->u.lease.owner);
        out_state->fence = (uint64_t)pal_sql_int(&sql, 1);
        out_state->expires_at = pal_sql_int(&sql, 2);
        out_state->ttl_ms = pal_sql_int(&sql, 3);
        if (owner.len <= PAL_LABEL_LEN_MAX && owner.len > 0)
            memcpy(out_state->owner, owner.data, owner.len);
    }
    return pal_sql_end(&sql, &work->op->error);
}

static pal_status lease_set(
        pal_sql_conn *conn, const pal_work *work, pal_sqlite_head *head, const pal_lease *lease)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_LEASE_SET);
    pal_status status;

    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_text(&sql, lease->owner);
    pal_sql_bind_int(&sql, (int64_t)lease->fence);
    pal_sql_bind_int(&sql, lease->expires_at);
    pal_sql_bind_int(&sql, lease->ttl_ms);
    status = pal_sql_run(&sql, &work->op->error);
    if (status != PAL_OK)
        return status;
    head->fence = lease->fence;
    pal_sqlite_heads_keep(conn, work->op->session, head);
    return PAL_OK;
}

pal_status pal_sqlite_lease_take(pal_sql_conn *conn, pal_work *work)
{
    pal_op *op = work->op;
    lease_state lease;
    pal_sqlite_head head = {0};
    pal_lease taken = {.owner = op->u.lease.owner, .ttl_ms = op->u.lease.ttl_ms};
    bool held;
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_WRITABLE, &head);

    if (status == PAL_OK && work->copied)
        return lease_set(conn, work, &head, work->copied->lease);
    if (status == PAL_OK)
        status = lease_get(conn, work, head.handle, &lease);
    if (status != PAL_OK)
        return status;
    held = pal_lease_blocks(op, lease.fence, lease.expires_at, lease.ttl_ms, pal_clock_now_ms());
    if (held && !lease.same_owner)
        return pal_error_set(&op->error, PAL_BUSY, "'%s' holds the session for another %lld ms",
                lease.owner, (long long)(lease.expires_at - work->now_ms));
    /* A caller that presents the fence was the last owner. */
    taken.fence = lease.fence + (!held && op->fence == 0);
    taken.expires_at = pal_lease_end(pal_clock_now_ms(), taken.ttl_ms, lease.expires_at);
    status = lease_set(conn, work, &head, &taken);
    if (status == PAL_OK)
        op->u.lease.fence = taken.fence;
    return status;
}

pal_status pal_sqlite_lease_release(pal_sql_conn *conn, pal_work *work)
{
    lease_state lease;
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &head);

    if (status == PAL_OK)
        status = lease_get(conn, work, head.handle, &lease);
    if (status == PAL_OK && lease.fence == work->op->u.lease.fence && lease.fence != 0)
        /* A released lease keeps its fence. */
        status = lease_set(conn, work, &head, &(pal_lease){.fence = lease.fence});
    return status;
}
