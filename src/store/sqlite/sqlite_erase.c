/* sqlite_erase.c - erasure and the sweep.
 *
 * Forks may share a session's rows and must not lose them. So an erasure keeps the rows up to the
 * highest seq at which any fork begins, and removes everything that names or describes the session.
 * The erasure is completed when the last of the forks is erased. */
#include <string.h>

#include "store/sqlite/sqlite.h"

/* Runs a statement on (handle, kept_seq) and adds the number of changed rows. */
static pal_status drop_after(pal_sql_conn *conn, pal_sql_id id, int64_t handle, uint64_t kept_seq,
        uint64_t *out_count, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)kept_seq);
    status = pal_sql_run(&sql, err);
    if (status == PAL_OK)
        *out_count += (uint64_t)sqlite3_changes64(conn->db);
    return status;
}

/* Returns the highest seq that a fork shares; 0 if nothing is shared. */
static pal_status shared_seq(pal_sql_conn *conn, int64_t handle, uint64_t *out_seq, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_SESSION_SHARED);

    pal_sql_bind_int(&sql, handle);
    *out_seq = pal_sql_row(&sql) ? (uint64_t)pal_sql_int(&sql, 0) : 0;
    return pal_sql_end(&sql, err);
}

/* Ends a statement that deletes blobs and returns their sizes. */
static pal_status end_blobs(pal_sql_conn *conn, pal_sql *sql, uint64_t *out_count, pal_error *err)
{
    uint64_t count = 0, bytes = 0;
    pal_status status;

    for (; pal_sql_row(sql); count++)
        bytes += (uint64_t)pal_sql_int(sql, 0);
    status = pal_sql_end(sql, err);
    if (status != PAL_OK)
        return status;
    conn->counts.blobs -= (int64_t)count;
    conn->counts.blob_bytes -= (int64_t)bytes;
    *out_count = count;
    return PAL_OK;
}

static pal_status drop_blob_data(pal_sql_conn *conn, uint64_t blobs, pal_error *err)
{
    pal_sql sql;

    if (blobs == 0)
        return PAL_OK;
    sql = pal_sql_start(conn, PAL_SQL_BLOB_DATA_DROP);
    return pal_sql_run(&sql, err);
}

static pal_status drop_blobs(pal_sql_conn *conn, int64_t handle, uint64_t kept_seq,
        pal_erase_result *erasure, pal_error *err)
{
    uint64_t dropped = 0, unused = 0;
    pal_sql drop = pal_sql_start(conn, PAL_SQL_BLOB_DROP_SESSION);
    pal_status status;

    pal_sql_bind_int(&drop, handle);
    pal_sql_bind_int(&drop, (int64_t)kept_seq);
    status = end_blobs(conn, &drop, &dropped, err);
    if (status != PAL_OK)
        return status;
    erasure->blobs += dropped;
    status = drop_after(conn, PAL_SQL_BLOB_REF_DROP, handle, kept_seq, &unused, err);
    return status == PAL_OK ? drop_blob_data(conn, dropped, err) : status;
}

/* Removes everything that belongs only to this session. */
static pal_status drop_belongings(
        pal_sql_conn *conn, int64_t handle, pal_erase_result *erasure, pal_error *err)
{
    uint64_t leases = 0;
    const struct {
        pal_sql_id statement;
        uint64_t *count;
    } tables[] = {
            {PAL_SQL_ALIAS_CLEAR, &erasure->aliases},
            {PAL_SQL_INBOX_CLEAR, &erasure->inbox},
            {PAL_SQL_LEASE_CLEAR, &leases},
            {PAL_SQL_LEDGER_ERASE, &erasure->ledger},
            {PAL_SQL_RECORD_CLEAR, &erasure->records},
    };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        pal_status status = pal_sql_run_int(conn, tables[i].statement, handle, err);

        if (status != PAL_OK)
            return status;
        *tables[i].count += (uint64_t)sqlite3_changes64(conn->db);
    }
    return PAL_OK;
}

/* Returns the number of bytes that the head counts, or 0 if there is no head. */
static pal_status bytes_of(pal_sql_conn *conn, int64_t handle, int64_t *out_bytes, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_CHECK_COUNTS);

    pal_sql_bind_int(&sql, handle);
    *out_bytes = pal_sql_row(&sql) ? pal_sql_int(&sql, 1) : 0;
    return pal_sql_end(&sql, err);
}

static pal_status strip_or_drop(
        pal_sql_conn *conn, int64_t handle, uint64_t kept_seq, pal_error *err)
{
    uint64_t unused = 0;
    pal_status status;

    if (kept_seq > 0) {
        status = drop_after(conn, PAL_SQL_HEAD_ERASED, handle, kept_seq, &unused, err);
        if (status == PAL_OK)
            status = pal_sql_run_int(conn, PAL_SQL_SESSION_ERASED, handle, err);
        return status;
    }
    status = pal_sql_run_int(conn, PAL_SQL_HEAD_DROP, handle, err);
    if (status == PAL_OK)
        status = pal_sql_run_int(conn, PAL_SQL_SESSION_DROP, handle, err);
    return status;
}

static pal_status erase_one(
        pal_sql_conn *conn, const pal_sqlite_head *head, pal_erase_result *erasure, pal_error *err)
{
    int64_t handle = head->handle, before = 0, after = 0;
    uint64_t kept_seq, messages = erasure->messages;
    pal_status status = shared_seq(conn, handle, &kept_seq, err);

    if (status != PAL_OK)
        return status;
    status = bytes_of(conn, handle, &before, err);
    if (status != PAL_OK)
        return status;
    status = drop_blobs(conn, handle, kept_seq, erasure, err);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_index_forget(conn, handle, kept_seq, err);
    if (status != PAL_OK)
        return status;
    status = drop_after(conn, PAL_SQL_MESSAGE_DROP, handle, kept_seq, &erasure->messages, err);
    if (status != PAL_OK)
        return status;
    status = drop_after(conn, PAL_SQL_MARK_DROP, handle, kept_seq, &erasure->marks, err);
    if (status != PAL_OK)
        return status;
    status = drop_belongings(conn, handle, erasure, err);
    if (status != PAL_OK)
        return status;
    status = strip_or_drop(conn, handle, kept_seq, err);
    if (status != PAL_OK)
        return status;
    status = bytes_of(conn, handle, &after, err);
    if (status != PAL_OK)
        return status;
    if (kept_seq > head->fork_seq)
        erasure->shared += kept_seq - head->fork_seq;
    pal_sqlite_count_state(conn, head->state, -1);
    conn->counts.messages -= (int64_t)(erasure->messages - messages);
    conn->counts.bytes += after - before;
    return PAL_OK;
}

/* Erases the session, then trims or removes its erased ancestors, up to the first ancestor that is
 * not erased. */
static pal_status erase_upwards(
        pal_sql_conn *conn, pal_sqlite_head head, pal_erase_result *erasure, pal_error *err)
{
    pal_status status = erase_one(conn, &head, erasure, err);

    while (status == PAL_OK && head.parent != 0) {
        pal_erase_result ignored = {0};

        status = pal_sqlite_head_by_handle(conn, head.parent, &head, err);
        if (status != PAL_OK || head.handle == 0 || head.state != PAL_SESSION_ERASED)
            break;
        status = erase_one(conn, &head, &ignored, err);
        erasure->messages += ignored.messages;
        erasure->marks += ignored.marks;
        erasure->blobs += ignored.blobs;
    }
    if (status == PAL_OK)
        status = pal_sqlite_index_erased(conn, err);
    return status;
}

pal_status pal_sqlite_erase(pal_sql_conn *conn, pal_work *work)
{
    pal_erase_result erasure = {0};
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &head);

    if (status == PAL_OK)
        status = erase_upwards(conn, head, &erasure, &work->op->error);
    if (status == PAL_OK && work->op->u.erasure)
        *work->op->u.erasure = erasure;
    return status;
}

/* ---- One message ---- */

typedef struct message_size {
    int64_t pos, tokens, flags, bytes; /* pos 0: there is no message */
} message_size;

static pal_status size_of(pal_sql_conn *conn, int64_t handle, uint64_t seq,
        message_size *out_size, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_MESSAGE_SIZE);

    *out_size = (message_size){0};
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)seq);
    if (pal_sql_row(&sql))
        *out_size = (message_size){pal_sql_int(&sql, 0), pal_sql_int(&sql, 1),
                pal_sql_int(&sql, 2), pal_sql_int(&sql, 3)};
    return pal_sql_end(&sql, err);
}

static pal_status empty_message(pal_sql_conn *conn, int64_t handle, uint64_t seq,
        const message_size *size, pal_error *err)
{
    pal_str body = pal_str_of(PAL_ERASED_BODY);
    int64_t saved = size->bytes - (int64_t)body.len;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_MESSAGE_ERASE);
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)seq);
    pal_sql_bind_int(&sql, PAL_MESSAGE_FLAG_ERASED);
    pal_sql_bind_text(&sql, body);
    status = pal_sql_run(&sql, err);
    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_HEAD_SHRINK);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, size->tokens);
    pal_sql_bind_int(&sql, saved);
    conn->counts.bytes -= saved;
    return pal_sql_run(&sql, err);
}

enum { MESSAGE_BLOBS_MAX = 1024 }; /* further ones are left to the erasure of the session */

/* A reference names the first message of an append, and the bodies show which of its messages refer
 * to the blob. The references go with the last of them. Called before the body is emptied. */
static pal_status drop_message_refs(pal_sql_conn *conn, int64_t handle, uint64_t seq,
        int64_t *out_blobs, size_t *out_len, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_BLOB_REF_DROP_MESSAGE);
    size_t len = 0;

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)seq);
    pal_sql_bind_int(&sql, PAL_APPEND_MESSAGES_MAX - 1);
    while (pal_sql_row(&sql))
        if (len < MESSAGE_BLOBS_MAX)
            out_blobs[len++] = pal_sql_int(&sql, 0);
    *out_len = len;
    return pal_sql_end(&sql, err);
}

static pal_status drop_message_blobs(pal_sql_conn *conn, int64_t handle, uint64_t seq,
        pal_erase_result *erasure, pal_error *err)
{
    int64_t blobs[MESSAGE_BLOBS_MAX];
    size_t len = 0;
    pal_status status = drop_message_refs(conn, handle, seq, blobs, &len, err);

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_sql sql = pal_sql_start(conn, PAL_SQL_BLOB_DROP_ONE);
        uint64_t dropped = 0;

        pal_sql_bind_int(&sql, blobs[i]);
        status = end_blobs(conn, &sql, &dropped, err);
        erasure->blobs += dropped;
    }
    return status == PAL_OK ? drop_blob_data(conn, erasure->blobs, err) : status;
}

/* Of the session and of all forks that show the message. */
static pal_status drop_derived(pal_sql_conn *conn, int64_t handle, uint64_t seq,
        pal_erase_result *erasure, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_MARK_ERASE);
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)seq);
    pal_sql_bind_int(&sql, PAL_MARK_ERASED);
    status = pal_sql_run(&sql, err);
    if (status != PAL_OK)
        return status;
    erasure->checkpoints = (uint64_t)sqlite3_changes64(conn->db);
    sql = pal_sql_start(conn, PAL_SQL_RECORD_ERASE);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)seq);
    pal_sql_bind_text(&sql, pal_str_of(PAL_CONVERSATION_RECORD));
    pal_sql_bind_text(&sql, pal_str_of(PAL_ANSWER_RECORD));
    status = pal_sql_run(&sql, err);
    if (status == PAL_OK)
        erasure->records = (uint64_t)sqlite3_changes64(conn->db);
    return status;
}

static pal_status erase_row(pal_sql_conn *conn, int64_t handle, uint64_t seq,
        const message_size *size, pal_erase_result *erasure, pal_error *err)
{
    pal_status status = pal_sqlite_index_forget_at(conn, size->pos, err);

    erasure->messages = 1;
    if (status == PAL_OK)
        status = drop_message_blobs(conn, handle, seq, erasure, err);
    if (status == PAL_OK)
        status = empty_message(conn, handle, seq, size, err);
    if (status == PAL_OK)
        status = drop_derived(conn, handle, seq, erasure, err);
    return status == PAL_OK ? pal_sqlite_index_erased(conn, err) : status;
}

pal_status pal_sqlite_erase_message(pal_sql_conn *conn, pal_work *work)
{
    pal_error *err = &work->op->error;
    pal_erase_result erasure = {0};
    pal_sqlite_head head = {0}, owner = {0};
    message_size size = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &head);

    if (status == PAL_OK)
        status = pal_sqlite_head_find(conn, work->fork_parent, work->tenant, &owner, err);
    if (status == PAL_OK)
        status = size_of(conn, owner.handle, work->fork_seq, &size, err);
    if (status == PAL_OK && size.pos == 0)
        status = pal_message_missing(work);
    if (status == PAL_OK && !(size.flags & PAL_MESSAGE_FLAG_ERASED))
        status = erase_row(conn, owner.handle, work->fork_seq, &size, &erasure, err);
    if (status == PAL_OK && work->op->u.erase_message.erasure)
        *work->op->u.erase_message.erasure = erasure;
    return status;
}

/* ---- The sweep ---- */

/* Finds the first session that `id` selects and that is older than `before_ms`; 0 if there is
 * none. */
static pal_status find_due(
        pal_sql_conn *conn, pal_sql_id id, int64_t before_ms, int64_t *out_handle, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    pal_sql_bind_int(&sql, before_ms);
    *out_handle = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : 0;
    return pal_sql_end(&sql, err);
}

static pal_status trash_expired(pal_sql_conn *conn, pal_work *work, uint32_t *left)
{
    pal_sweep_result *result = &work->op->u.sweep.result;
    pal_error *err = &work->op->error;
    int64_t handle;
    pal_status status = find_due(conn, PAL_SQL_SESSION_EXPIRED, work->now_ms, &handle, err);

    for (; status == PAL_OK && handle != 0 && *left > 0; (*left)--) {
        status = pal_sqlite_trash(conn, handle, work->now_ms, err);
        result->trashed++;
        if (status == PAL_OK)
            status = find_due(conn, PAL_SQL_SESSION_EXPIRED, work->now_ms, &handle, err);
    }
    result->has_more = result->has_more || handle != 0;
    return status;
}

static pal_status erase_stale(pal_sql_conn *conn, pal_work *work, uint32_t *left)
{
    pal_sweep_result *result = &work->op->u.sweep.result;
    int64_t before_ms = work->now_ms - work->op->u.sweep.trash_ms;
    pal_error *err = &work->op->error;
    int64_t handle;
    pal_status status = find_due(conn, PAL_SQL_SESSION_STALE, before_ms, &handle, err);

    for (; status == PAL_OK && handle != 0 && *left > 0; (*left)--) {
        pal_erase_result ignored = {0};
        pal_sqlite_head head = {0};

        status = pal_sqlite_head_by_handle(conn, handle, &head, err);
        if (status == PAL_OK)
            status = erase_upwards(conn, head, &ignored, err);
        result->erased++;
        if (status == PAL_OK)
            status = find_due(conn, PAL_SQL_SESSION_STALE, before_ms, &handle, err);
    }
    result->has_more = result->has_more || handle != 0;
    return status;
}

static pal_status drop_unused_blobs(pal_sql_conn *conn, pal_work *work)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_BLOB_DROP_UNUSED);
    uint64_t dropped = 0;
    pal_status status;

    pal_sql_bind_int(&sql, work->now_ms - PAL_BLOB_UNUSED_MS_MAX);
    status = end_blobs(conn, &sql, &dropped, &work->op->error);
    return status == PAL_OK ? drop_blob_data(conn, dropped, &work->op->error) : status;
}

pal_status pal_sqlite_sweep(pal_sql_conn *conn, pal_work *work)
{
    uint32_t left = work->op->u.sweep.limit;
    pal_status status;

    memset(&work->op->u.sweep.result, 0, sizeof(work->op->u.sweep.result));
    status = trash_expired(conn, work, &left);
    if (status != PAL_OK)
        return status;
    if (work->op->u.sweep.trash_ms >= 0) {
        status = erase_stale(conn, work, &left);
        if (status != PAL_OK)
            return status;
    }
    status = drop_unused_blobs(conn, work);
    return status == PAL_OK ? pal_sqlite_records_sweep(conn, work) : status;
}
