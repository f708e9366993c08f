/* sqlite_append.c - operations on the contents of a session: messages, marks, blobs. */
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "store/sqlite/sqlite.h"
#include "store/view/view_marks.h"

/* ---- Blobs ---- */

static pal_status blob_find(pal_sql_conn *conn, int64_t tenant, const uint8_t hash[32],
        int64_t *out_blob, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_BLOB_FIND);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_blob(&sql, pal_str_make((const char *)hash, PAL_SHA256_SIZE));
    *out_blob = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : 0;
    return pal_sql_end(&sql, err);
}

/* An unused blob that is stored again is kept for another day. */
static pal_status blob_touch(pal_sql_conn *conn, int64_t blob, int64_t now_ms, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_BLOB_TOUCH);

    pal_sql_bind_int(&sql, blob);
    pal_sql_bind_int(&sql, now_ms);
    return pal_sql_run(&sql, err);
}

/* Stores a blob of the tenant if it is new and does not exist yet. *out_blob is its number, or 0 if
 * it does not exist and is not new. */
static pal_status blob_keep(pal_sql_conn *conn, int64_t tenant, const pal_work_blob *blob,
        int64_t now_ms, int64_t *out_blob, pal_error *err)
{
    pal_sql sql;
    pal_status status = blob_find(conn, tenant, blob->hash, out_blob, err);

    if (status != PAL_OK || !blob->is_new)
        return status;
    if (*out_blob != 0)
        return blob_touch(conn, *out_blob, now_ms, err);
    sql = pal_sql_start(conn, PAL_SQL_BLOB_ADD);
    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_blob(&sql, pal_str_make((const char *)blob->hash, sizeof(blob->hash)));
    pal_sql_bind_text(&sql, blob->media_type);
    pal_sql_bind_int(&sql, (int64_t)blob->data.len);
    pal_sql_bind_int(&sql, now_ms);
    status = pal_sql_run(&sql, err);
    if (status != PAL_OK)
        return status;
    *out_blob = sqlite3_last_insert_rowid(conn->db);
    conn->counts.blobs++;
    conn->counts.blob_bytes += (int64_t)blob->data.len;
    sql = pal_sql_start(conn, PAL_SQL_BLOB_DATA_ADD);
    pal_sql_bind_int(&sql, *out_blob);
    pal_sql_bind_blob(&sql, blob->data);
    return pal_sql_run(&sql, err);
}

pal_status pal_sqlite_blob_put(pal_sql_conn *conn, pal_work *work)
{
    int64_t tenant, blob;
    pal_status status = pal_sqlite_tenant(conn, work->tenant, true, &tenant, &work->op->error);

    if (status == PAL_OK)
        status = blob_keep(
                conn, tenant, work->blobs, work->now_ms, &blob, &work->op->error);
    return status;
}

/* Checked before anything is written: blobs that are not part of the append must exist. */
static pal_status check_blobs(pal_sql_conn *conn, const pal_work *work, int64_t tenant)
{
    for (size_t i = 0; i < work->blobs_len; i++) {
        char name[PAL_SHA256_SIZE * 2 + 1];
        pal_status status;
        int64_t blob;

        if (work->blobs[i].is_new)
            continue;
        status = blob_find(conn, tenant, work->blobs[i].hash, &blob, &work->op->error);
        if (status != PAL_OK)
            return status;
        if (blob == 0) {
            pal_hex(work->blobs[i].hash, PAL_SHA256_SIZE, name);
            return pal_error_set(
                    &work->op->error, PAL_NOT_FOUND, "blob 'sha256:%s' does not exist", name);
        }
    }
    return PAL_OK;
}

static pal_status write_blobs(
        pal_sql_conn *conn, const pal_work *work, const pal_sqlite_head *head, uint64_t seq)
{
    for (size_t i = 0; i < work->blobs_len; i++) {
        pal_sql sql;
        int64_t blob;
        pal_status status = blob_keep(
                conn, head->tenant, &work->blobs[i], work->now_ms, &blob, &work->op->error);

        if (status != PAL_OK)
            return status;
        sql = pal_sql_start(conn, PAL_SQL_BLOB_REF_ADD);
        pal_sql_bind_int(&sql, blob);
        pal_sql_bind_int(&sql, head->handle);
        pal_sql_bind_int(&sql, (int64_t)seq);
        status = pal_sql_run(&sql, &work->op->error);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

/* ---- Replays ---- */

void pal_sqlite_row_read(pal_sql *sql, int first, pal_row *out_row)
{
    out_row->seq = (uint64_t)pal_sql_int(sql, first);
    out_row->id = pal_sql_uuid(sql, first + 1);
    out_row->role = (pal_role)pal_sql_int(sql, first + 2);
    out_row->flags = (uint32_t)pal_sql_int(sql, first + 3);
    out_row->tokens = (uint32_t)pal_sql_int(sql, first + 4);
    out_row->created_at = pal_sql_int(sql, first + 5);
    out_row->client_id = pal_sql_text(sql, first + 6);
    out_row->is_text = pal_sql_is_text(sql, first + 7);
    out_row->body = pal_sql_text(sql, first + 7);
    out_row->turn_id = pal_sql_uuid(sql, first + 8);
}

/* Returns whether the row's client id is known, and the message that was stored under it. */
static pal_status find_replay(pal_sql_conn *conn, const pal_work *work, int64_t handle,
        pal_row *row, bool *out_known, bool *out_equal)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_MESSAGE_BY_CLIENT);
    pal_row stored;

    *out_known = *out_equal = false;
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_text(&sql, row->client_id);
    if (pal_sql_row(&sql)) {
        pal_sqlite_row_read(&sql, 0, &stored);
        *out_known = true;
        /* What an erased message said is not known any more. */
        *out_equal = stored.flags & PAL_MESSAGE_FLAG_ERASED ||
                (stored.role == row->role && stored.is_text == row->is_text &&
                        pal_str_equal(stored.body, row->body));
        if (*out_equal) {
            row->seq = stored.seq;
            row->id = stored.id;
            row->created_at = stored.created_at;
            row->tokens = stored.tokens;
        }
    }
    return pal_sql_end(&sql, &work->op->error);
}

static pal_status replay_conflict(const pal_work *work, const pal_row *row, const char *why)
{
    return pal_error_set(&work->op->error, PAL_CONFLICT, "client id '%.*s' %s",
            PAL_STR_ARG(row->client_id), why);
}

/* Either all messages of a batch are new, or all of them are known. */
static pal_status check_replays(
        pal_sql_conn *conn, pal_work *work, int64_t handle, bool *out_replayed)
{
    const pal_row *known_row = NULL;
    size_t known_len = 0;

    *out_replayed = false;
    for (size_t i = 0; i < work->rows_len; i++) {
        bool known, equal;
        pal_status status;

        if (work->rows[i].client_id.len == 0)
            continue;
        status = find_replay(conn, work, handle, &work->rows[i], &known, &equal);
        if (status != PAL_OK)
            return status;
        work->op->u.append.replayed |= known; /* reported even if there is a conflict */
        if (known && !equal)
            return replay_conflict(work, &work->rows[i], "was used for another message");
        if (known)
            known_row = &work->rows[i];
        known_len += known;
    }
    if (known_len > 0 && known_len < work->rows_len)
        return replay_conflict(work, known_row,
                "was appended before, but other messages of the same request were not");
    *out_replayed = known_len > 0;
    return PAL_OK;
}

/* ---- Appending ---- */

/* The index of ids is not unique across tenants, so the ids of this tenant are looked up. Ids that
 * the front has created need no lookup, because they are random. */
static pal_status check_id_free(
        pal_sql_conn *conn, const pal_work *work, int64_t tenant, const pal_row *row)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_MESSAGE_ID_TAKEN);
    bool is_taken;
    pal_status status;

    pal_sql_bind_id(&sql, &row->id);
    pal_sql_bind_int(&sql, tenant);
    is_taken = pal_sql_row(&sql);
    status = pal_sql_end(&sql, &work->op->error);
    if (status != PAL_OK || !is_taken)
        return status;
    conn->failed = true; /* rows before this one may already be written */
    return pal_error_set(&work->op->error, PAL_CONFLICT, "a message with this id already exists");
}

static pal_status insert_rows(
        pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head, uint64_t first_seq)
{
    for (size_t i = 0; i < work->rows_len; i++) {
        pal_row *row = &work->rows[i];
        pal_status status =
                row->is_named ? check_id_free(conn, work, head->tenant, row) : PAL_OK;
        pal_sql sql;

        if (status != PAL_OK)
            return status;
        row->seq = first_seq + i;
        sql = pal_sql_start(conn, PAL_SQL_MESSAGE_ADD);
        pal_sql_bind_int(&sql, head->handle);
        pal_sql_bind_int(&sql, (int64_t)row->seq);
        pal_sql_bind_id(&sql, &row->id);
        pal_sql_bind_int(&sql, row->role);
        pal_sql_bind_int(&sql, row->flags);
        pal_sql_bind_int(&sql, row->tokens);
        pal_sql_bind_int(&sql, row->created_at);
        pal_sql_bind_text(&sql, row->client_id);
        pal_sql_bind_body(&sql, row->body, row->is_text);
        pal_sql_bind_id(&sql, &row->turn_id);
        status = pal_sql_run(&sql, &work->op->error);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

static pal_status update_head(pal_sql_conn *conn, const pal_work *work, pal_sqlite_head *head)
{
    uint64_t tokens = 0, bytes = 0;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_HEAD_APPENDED);
    pal_status status;

    for (size_t i = 0; i < work->rows_len; i++) {
        tokens += work->rows[i].tokens;
        bytes += work->rows[i].body.len;
    }
    head->last_seq += work->rows_len;
    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_int(&sql, (int64_t)head->last_seq);
    pal_sql_bind_int(&sql, (int64_t)tokens);
    pal_sql_bind_int(&sql, (int64_t)bytes);
    pal_sql_bind_updated_at(&sql, work);
    status = pal_sql_run(&sql, &work->op->error);
    if (status == PAL_OK) {
        pal_sqlite_heads_keep(conn, work->op->session, head);
        conn->counts.messages += (int64_t)work->rows_len;
        conn->counts.bytes += (int64_t)bytes;
    }
    return status;
}

/* Removes the inbox items and adds the ledger rows that come with the messages. A replay does both
 * again, which changes nothing. */
static pal_status write_companions(
        pal_sql_conn *conn, const pal_work *work, const pal_sqlite_head *head)
{
    const pal_op *op = work->op;
    pal_status status = PAL_OK;
    bool found;

    for (size_t i = 0; status == PAL_OK && i < op->u.append.inbox_ids_len; i++)
        status = pal_sqlite_inbox_remove(
                conn, head->handle, op->u.append.inbox_ids[i], &found, &work->op->error);
    for (size_t i = 0; status == PAL_OK && i < op->u.append.ledger_len; i++)
        status = pal_sqlite_ledger_insert(conn, head->tenant, head->handle, &op->u.append.ledger[i],
                work->now_ms, &work->op->error);
    return status;
}

static pal_status check_expected(const pal_work *work, const pal_sqlite_head *head)
{
    uint64_t expected = work->op->u.append.expected_seq;

    if (expected == PAL_SEQ_ANY || expected == head->last_seq)
        return PAL_OK;
    return pal_error_set(&work->op->error, PAL_CONFLICT,
            "the session is at seq %llu, not at the expected %llu",
            (unsigned long long)head->last_seq, (unsigned long long)expected);
}

/* Checks everything before the first write, then writes rows, blobs and the head. */
static pal_status write_new(pal_sql_conn *conn, pal_work *work, pal_sqlite_head *head)
{
    uint64_t first_seq = head->last_seq + 1;
    pal_status status = check_expected(work, head);

    if (status != PAL_OK)
        return status;
    status = check_blobs(conn, work, head->tenant);
    if (status != PAL_OK)
        return status;
    status = insert_rows(conn, work, head, first_seq);
    if (status != PAL_OK)
        return status;
    status = write_blobs(conn, work, head, first_seq);
    if (status != PAL_OK)
        return status;
    return update_head(conn, work, head);
}

pal_status pal_sqlite_append(pal_sql_conn *conn, pal_work *work)
{
    bool replayed = false;
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_WRITABLE, &head);

    work->op->u.append.replayed = false;
    if (status != PAL_OK)
        return status;
    work->op->mark_number = head.mark_number;
    status = check_replays(conn, work, head.handle, &replayed);
    if (status == PAL_OK && !replayed)
        status = write_new(conn, work, &head);
    return status == PAL_OK ? write_companions(conn, work, &head) : status;
}

/* ---- Marks ---- */

/* Returns the newest active mark that is not an undo, or NULL. */
static const pal_mark *newest_counting(const pal_mark *marks, size_t len)
{
    for (size_t i = len; i-- > 0;)
        if (!marks[i].undone && marks[i].kind != PAL_MARK_UNDO)
            return &marks[i];
    return NULL;
}

static pal_status pick_undo_target(
        const pal_mark *marks, size_t len, uint64_t wanted, uint64_t *out_target, pal_error *err)
{
    const pal_mark *target = wanted == 0 ? newest_counting(marks, len) : NULL;

    for (size_t i = 0; wanted != 0 && i < len && !target; i++)
        if (marks[i].number == wanted)
            target = &marks[i];
    if (!target && wanted == 0)
        return pal_error_set(err, PAL_NOT_FOUND, "nothing to undo");
    if (!target)
        return pal_error_set(
                err, PAL_NOT_FOUND, "the session has no mark %llu", (unsigned long long)wanted);
    if (target->undone)
        return pal_error_set(
                err, PAL_CONFLICT, "mark %llu is already undone", (unsigned long long)wanted);
    *out_target = target->number;
    return PAL_OK;
}

static pal_status undo_target(
        pal_sql_conn *conn, pal_work *work, int64_t handle, uint64_t *out_target)
{
    pal_mark_scan scan = {
            .handle = {.number = (uint64_t)handle}, .last = UINT64_MAX, .wanted = PAL_MARKS_BRIEF};
    pal_arena *arena = pal_arena_new(0);
    pal_mark *marks = NULL;
    size_t len = 0;
    pal_status status;

    if (!arena)
        return pal_no_memory(&work->op->error);
    status = pal_sqlite_marks_read(conn, &scan, arena, &marks, &len, &work->op->error);
    if (status == PAL_OK) {
        pal_marks_resolve(marks, len);
        status = pick_undo_target(
                marks, len, work->op->u.mark->target, out_target, &work->op->error);
    }
    pal_arena_free(arena);
    return status;
}

static pal_status write_mark(
        pal_sql_conn *conn, pal_work *work, pal_sqlite_head *head, const pal_mark *mark)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_MARK_ADD);
    pal_status status;

    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_int(&sql, (int64_t)mark->number);
    pal_sql_bind_int(&sql, mark->kind);
    pal_sql_bind_int(&sql, (int64_t)mark->seq);
    pal_sql_bind_int(&sql, (int64_t)mark->through_seq);
    pal_sql_bind_int(&sql, (int64_t)mark->target);
    pal_sql_bind_int(&sql, mark->created_at);
    pal_sql_bind_text(&sql, mark->body);
    status = pal_sql_run(&sql, &work->op->error);
    if (status != PAL_OK)
        return status;
    head->mark_number = work->copied ? work->copied->mark_number : mark->number;
    sql = pal_sql_start(conn, PAL_SQL_HEAD_MARKED);
    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_int(&sql, (int64_t)head->mark_number);
    pal_sql_bind_updated_at(&sql, work);
    status = pal_sql_run(&sql, &work->op->error);
    if (status == PAL_OK)
        pal_sqlite_heads_keep(conn, work->op->session, head);
    return status;
}

pal_status pal_sqlite_mark(pal_sql_conn *conn, pal_work *work)
{
    pal_mark mark = *work->op->u.mark;
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_WRITABLE, &head);

    if (status != PAL_OK)
        return status;
    if (work->copied)
        return write_mark(conn, work, &head, &mark);
    if (mark.seq > head.last_seq)
        return pal_error_set(&work->op->error, PAL_INVALID,
                "the session has %llu message%s; there is no seq %llu",
                (unsigned long long)head.last_seq, head.last_seq == 1 ? "" : "s",
                (unsigned long long)mark.seq);
    if (mark.kind == PAL_MARK_UNDO) {
        status = undo_target(conn, work, head.handle, &mark.target);
        if (status != PAL_OK)
            return status;
    }
    mark.number = head.mark_number + 1;
    mark.through_seq = pal_mark_through(&mark, head.last_seq);
    mark.created_at = work->now_ms;
    status = write_mark(conn, work, &head, &mark);
    if (status == PAL_OK)
        *work->op->u.mark = mark;
    return status;
}
