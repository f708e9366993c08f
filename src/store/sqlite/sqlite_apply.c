/* sqlite_apply.c - runs a batch as one transaction.
 *
 * Every operation checks before it writes. So a rejected operation changes nothing, and the others
 * continue in the same transaction. If SQLite itself fails during an operation (the disk is full,
 * memory runs out, or a constraint fails that no check covers), the whole batch is rolled back. The
 * same happens if an append finds that a message id from its caller already exists, because earlier
 * rows of the append may be written then. After the rollback the operations are run again one by
 * one, so that only those fail that cannot be done. Operations that are joined to each other stay
 * in one transaction then, too.
 *
 * Operations that are applied all or none have a savepoint. If one of them fails, the transaction
 * goes back to it, and the other operations of the batch are not affected. */
#include <string.h>

#include "store/sqlite/sqlite.h"

#define VACUUM_PAGES_MAX "2000"
#define TIDY_WAIT_MS_MAX 50

/* Appends, marks and the operations on leases report their changes of a head. Other operations do
 * not, so the cached heads are dropped. Naming a session may also move an expired session to the
 * trash. */
static bool may_change_heads(const pal_op *op)
{
    switch (op->kind) {
    case PAL_OP_CREATE:
        return op->u.create.session->key.len > 0 || op->u.create.session->aliases_len > 0;
    case PAL_OP_APPEND:
    case PAL_OP_MARK:
    case PAL_OP_INBOX_ADD:
    case PAL_OP_INBOX_DROP:
    case PAL_OP_LEASE_TAKE:
    case PAL_OP_LEASE_RELEASE:
    case PAL_OP_LEDGER_ADD:
    case PAL_OP_BLOB_PUT:
    case PAL_OP_RECORD_PUT:
    case PAL_OP_RECORD_DROP:
        return false;
    default:
        return true;
    }
}

static pal_status run_by_kind(pal_sql_conn *conn, pal_work *work)
{
    switch (work->op->kind) {
    case PAL_OP_CREATE:
        return pal_sqlite_create(conn, work);
    case PAL_OP_UPDATE:
        return pal_sqlite_update(conn, work);
    case PAL_OP_APPEND:
        return pal_sqlite_append(conn, work);
    case PAL_OP_FORK:
        return pal_sqlite_fork(conn, work);
    case PAL_OP_ADOPT:
        return pal_sqlite_adopt(conn, work);
    case PAL_OP_MARK:
        return pal_sqlite_mark(conn, work);
    case PAL_OP_DELETE:
        return pal_sqlite_delete(conn, work);
    case PAL_OP_RESTORE:
        return pal_sqlite_restore(conn, work);
    case PAL_OP_ERASE:
        return pal_sqlite_erase(conn, work);
    case PAL_OP_ERASE_MESSAGE:
        return pal_sqlite_erase_message(conn, work);
    case PAL_OP_INBOX_ADD:
        return pal_sqlite_inbox_add(conn, work);
    case PAL_OP_INBOX_DROP:
        return pal_sqlite_inbox_drop(conn, work);
    case PAL_OP_LEASE_TAKE:
        return pal_sqlite_lease_take(conn, work);
    case PAL_OP_LEASE_RELEASE:
        return pal_sqlite_lease_release(conn, work);
    case PAL_OP_LEDGER_ADD:
        return pal_sqlite_ledger_add(conn, work);
    case PAL_OP_BLOB_PUT:
        return pal_sqlite_blob_put(conn, work);
    case PAL_OP_SWEEP:
        return pal_sqlite_sweep(conn, work);
    case PAL_OP_RECORD_PUT:
        return pal_sqlite_record_put(conn, work);
    case PAL_OP_RECORD_DROP:
        return pal_sqlite_record_drop(conn, work);
    case PAL_OP_NONE:
        if (work->index)
            return pal_sqlite_index_write(conn, work);
        break;
    }
    return pal_error_set(&work->op->error, PAL_INVALID, "unknown kind of operation");
}

static pal_status run_op(pal_sql_conn *conn, pal_work *work)
{
    conn->keeps_heads = !may_change_heads(work->op);
    if (!conn->keeps_heads)
        pal_sqlite_heads_forget(conn);
    return run_by_kind(conn, work);
}

static void roll_back(pal_sql_conn *conn)
{
    pal_sql sql;
    pal_error ignored;
    pal_status status;

    /* SQLite may have rolled back by itself. */
    if (sqlite3_get_autocommit(conn->db))
        return;
    sql = pal_sql_start(conn, PAL_SQL_ROLLBACK);
    status = pal_sql_run(&sql, &ignored);
    (void)status; /* the connection's state shows whether it worked */
}

/* Drops cached data of the file: it may come from this transaction, which is rolled back. */
static void forget(pal_sql_conn *conn)
{
    conn->tenant = 0;
    pal_sqlite_heads_forget(conn);
}

/* If SQLite cannot run an operation, only this operation is rolled back, as long as there is a
 * transaction. Then conn->failed is reset. */
static pal_status run_apart(pal_sql_conn *conn, pal_work *work)
{
    pal_sqlite_counts before = conn->counts;
    pal_status status = pal_sql_exec(conn, "SAVEPOINT one", &work->op->error);

    if (status == PAL_OK)
        status = run_op(conn, work);
    if (conn->failed && !sqlite3_get_autocommit(conn->db)) {
        forget(conn);
        conn->counts = before;
        if (sqlite3_exec(conn->db, "ROLLBACK TO one; RELEASE one", NULL, NULL, NULL) == SQLITE_OK)
            conn->failed = false;
    } else if (!conn->failed && status == PAL_OK) {
        status = pal_sql_exec(conn, "RELEASE one", &work->op->error);
    }
    return status;
}

/* Runs works that are applied all or none. If one of them fails, the others are rolled back. If
 * SQLite itself failed, conn->failed stays set unless `is_group`, because then the whole batch is
 * run again in groups. */
static void run_all(pal_sql_conn *conn, pal_work *works, size_t works_len, bool is_group)
{
    pal_sqlite_counts before = conn->counts;
    size_t failed = works_len;

    works[0].op->status = pal_sql_exec(conn, "SAVEPOINT all_works", &works[0].op->error);
    if (works[0].op->status != PAL_OK)
        failed = 0;
    for (size_t i = 0; failed == works_len && i < works_len; i++) {
        works[i].op->status = run_op(conn, &works[i]);
        if (works[i].op->status != PAL_OK || conn->failed)
            failed = i;
    }
    if (failed == works_len) {
        works[0].op->status = pal_sql_exec(conn, "RELEASE all_works", &works[0].op->error);
        return;
    }
    pal_work_cancel_all(works, works_len, failed);
    if (conn->failed && (!is_group || sqlite3_get_autocommit(conn->db)))
        return;
    forget(conn);
    conn->counts = before;
    conn->failed = sqlite3_exec(conn->db, "ROLLBACK TO all_works; RELEASE all_works", NULL, NULL,
                           NULL) != SQLITE_OK;
}

/* Returns why the succeeded operations fail: the error of the commit, or of the last operation if
 * there was no commit. */
static const pal_error *failure_of(
        const pal_work *works, size_t works_len, const pal_error *of_commit)
{
    const pal_error *why = of_commit;

    for (size_t i = 0; of_commit->status == PAL_OK && i < works_len; i++)
        if (works[i].op->status != PAL_OK)
            why = &works[i].op->error;
    return why;
}

/* Returns false if the batch was rolled back because of some of its operations. This never happens
 * to a group, because its operations are rolled back separately. */
static bool run_batch(pal_sqlite *self, pal_work *works, size_t works_len, bool is_group)
{
    pal_sql_conn *conn = &self->writer;
    bool is_apart = is_group && works_len > 1;
    pal_error err = {0};
    pal_sql sql;

    roll_back(conn); /* in case the last rollback failed */
    if (pal_sqlite_file_check_moved(self, &err) != PAL_OK) {
        pal_work_fail_all(works, works_len, &err);
        return true;
    }
    sql = pal_sql_start(conn, PAL_SQL_BEGIN);
    conn->failed = false;
    if (pal_sql_run(&sql, &err) != PAL_OK) {
        pal_work_fail_all(works, works_len, &err);
        return true;
    }
    pal_sqlite_heads_begin(conn);
    pal_sqlite_outside_begin(self);
    memset(&conn->counts, 0, sizeof(conn->counts));
    for (size_t i = 0, len; i < works_len && !conn->failed; i += len) {
        len = works[i].all_len > 1 ? pal_work_group_len(&works[i], works_len - i) : 1;
        if (len > 1)
            run_all(conn, &works[i], len, is_group);
        else if (works[i].op->with_previous && works[i].op[-1].status != PAL_OK)
            pal_work_cancel(&works[i]);
        else
            works[i].op->status = is_apart ? run_apart(conn, &works[i]) : run_op(conn, &works[i]);
    }
    if (!conn->failed && pal_sqlite_counts_write(conn, &err) == PAL_OK) {
        sql = pal_sql_start(conn, PAL_SQL_COMMIT);
        if (pal_sql_run(&sql, &err) == PAL_OK) {
            pal_sqlite_heads_committed(conn);
            pal_sqlite_outside_end(self, true);
            return true;
        }
    }
    if (is_group)
        pal_work_fail_all(works, works_len, failure_of(works, works_len, &err));
    forget(conn);
    roll_back(conn);
    pal_sqlite_outside_end(self, false);
    return is_group;
}

static void run_groups(pal_sqlite *self, pal_work *works, size_t works_len)
{
    size_t len;

    for (size_t i = 0; i < works_len; i += len) {
        len = pal_work_group_len(works + i, works_len - i);
        for (size_t j = i; j < i + len; j++)
            works[j].op->status = PAL_OK;
        run_batch(self, works + i, len, true);
    }
}

/* Erased data must not stay in the WAL or in free pages. This is best effort: a reader can delay it
 * until the next time, but it never blocks the writer for long. */
static void tidy(pal_sql_conn *conn)
{
    uint32_t busy_timeout_ms = conn->busy_timeout_ms;

    conn->busy_timeout_ms = TIDY_WAIT_MS_MAX;
    sqlite3_exec(conn->db, "PRAGMA incremental_vacuum(" VACUUM_PAGES_MAX ")", NULL, NULL, NULL);
    sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    conn->busy_timeout_ms = busy_timeout_ms;
}

static bool has_erased(const pal_work *works, size_t works_len)
{
    for (size_t i = 0; i < works_len; i++) {
        const pal_op *op = works[i].op;

        if (op->status != PAL_OK)
            continue;
        if (op->kind == PAL_OP_ERASE || op->kind == PAL_OP_ERASE_MESSAGE ||
                (op->kind == PAL_OP_SWEEP && op->u.sweep.result.erased > 0))
            return true;
    }
    return false;
}

void pal_sqlite_apply(pal_engine *engine, pal_work *works, size_t works_len)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_sql_conn *conn = &self->writer;

    atomic_store(&self->writer_wanted, true);
    pthread_mutex_lock(&self->writer_lock);
    atomic_store(&self->writer_wanted, false);
    if (!run_batch(self, works, works_len, works_len == 1))
        run_groups(self, works, works_len);
    if (has_erased(works, works_len))
        tidy(conn);
    pthread_mutex_unlock(&self->writer_lock);
}
