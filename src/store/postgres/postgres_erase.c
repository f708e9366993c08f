/* postgres_erase.c - erasure and the sweep. An erasure is a transaction with as many statements as
 * it needs, and with the operations that are joined to it. A crash in the middle rolls it back.
 *
 * Forks may share a session's rows and must not lose them. So an erasure keeps the rows up to the
 * highest seq at which any fork begins, and removes everything that names or describes the session.
 * It is completed when the last of the forks is erased. A fork locks the head of its parent, and so
 * does the erasure: either it sees the fork, or the fork finds the parent gone.
 *
 * Erased rows are gone for every reader with the commit. PostgreSQL reuses their space after the
 * next vacuum, and its write-ahead log and backups keep them for as long as those are kept. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres_copy.h"
#include "store/postgres/index/index_postgres.h"

/* A transaction on the writer's connection. After a failure, further statements do nothing. */
typedef struct transaction {
    pal_postgres *store;
    pal_status status;
    pal_postgres_failure failure;
    pal_error *err;
} transaction;

/* Returns the result, which the caller frees, or NULL after a failure. */
static PGresult *run(transaction *work, pal_postgres_sql sql, pal_postgres_params *params)
{
    PGresult *result = NULL;

    if (work->status == PAL_OK)
        work->status = pal_postgres_run(
                &work->store->writer, sql, params, &result, &work->failure, work->err);
    else if (params)
        pal_postgres_params_done(params);
    return result;
}

/* Runs a statement on (tenant, session) or (tenant, session, seq). Returns the number of rows. */
static uint64_t change(
        transaction *work, pal_postgres_sql sql, int64_t tenant, pal_id session, int64_t seq)
{
    pal_postgres_params params = {0};
    PGresult *result;
    uint64_t count = 0;

    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    if (seq >= 0)
        pal_postgres_put_int(&params, seq);
    result = run(work, sql, &params);
    if (result)
        count = strtoull(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return count;
}

/* ---- Blobs ---- */

/* Removes those of the blobs that nothing refers to. Columns: the tenant (or `tenant`, if there is
 * only one column), then the hash. */
static uint64_t drop_blobs(transaction *work, const PGresult *found, int64_t tenant)
{
    bool is_pair = found && PQnfields(found) == 2;
    pal_postgres_params params = {0}, parts = {0};
    pal_postgres_param *tenants, *hashes;
    PGresult *result;
    uint64_t count = 0;

    if (!found || PQntuples(found) == 0)
        return 0;
    tenants = pal_postgres_put_array(&params, PAL_POSTGRES_INT8);
    hashes = pal_postgres_put_array(&params, PAL_POSTGRES_BYTES);
    for (int i = 0; i < PQntuples(found); i++) {
        pal_postgres_add_int(tenants, is_pair ? pal_postgres_int(found, i, 0) : tenant);
        pal_postgres_add_bytes(hashes, pal_postgres_str(found, i, is_pair));
    }
    result = run(work, PAL_POSTGRES_BLOB_DROP, &params);
    if (!result)
        return 0;
    count = (uint64_t)PQntuples(result);
    tenants = pal_postgres_put_array(&parts, PAL_POSTGRES_INT8);
    hashes = pal_postgres_put_array(&parts, PAL_POSTGRES_BYTES);
    for (int i = 0; i < PQntuples(result); i++) {
        pal_postgres_add_int(tenants, pal_postgres_int(result, i, 0));
        pal_postgres_add_bytes(hashes, pal_postgres_str(result, i, 1));
    }
    PQclear(result);
    PQclear(run(work, PAL_POSTGRES_BLOB_PART_DROP, &parts));
    return count;
}

static uint64_t drop_session_blobs(
        transaction *work, int64_t tenant, pal_id session, int64_t kept_seq)
{
    pal_postgres_params params = {0};
    PGresult *result;
    uint64_t count;

    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    pal_postgres_put_int(&params, kept_seq);
    result = run(work, PAL_POSTGRES_BLOB_REF_DROP, &params);
    count = drop_blobs(work, result, tenant);
    PQclear(result);
    return count;
}

/* ---- One session ---- */

static int64_t shared_seq(transaction *work, int64_t tenant, pal_id session)
{
    pal_postgres_params params = {0};
    PGresult *result;
    int64_t seq = 0;

    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    result = run(work, PAL_POSTGRES_SESSION_SHARED, &params);
    if (result)
        seq = pal_postgres_int(result, 0, 0);
    PQclear(result);
    return seq;
}

static void clear_aliases(
        transaction *work, int64_t tenant, pal_id session, pal_erase_result *erasure)
{
    pal_postgres_params params = {0};
    PGresult *result;

    pal_postgres_add_int(pal_postgres_put_array(&params, PAL_POSTGRES_INT8), tenant);
    pal_postgres_add_id(pal_postgres_put_array(&params, PAL_POSTGRES_UUID), session);
    result = run(work, PAL_POSTGRES_ALIAS_CLEAR, &params);
    if (result)
        erasure->aliases += strtoull(PQcmdTuples(result), NULL, 10);
    PQclear(result);
}

/* Removes the blocks of the messages that `which` selects from the search index. The first
 * statement locks the index of the tenant: a block that is being built is written before it, and
 * found here, or not at all. */
static void drop_index(transaction *work, pal_postgres_sql which, int64_t tenant, pal_id session,
        int64_t seq)
{
    pal_postgres_params params = {0};
    PGresult *blocks;

    pal_postgres_put_int(&params, tenant);
    PQclear(run(work, PAL_POSTGRES_INDEX_ERASED, &params));
    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    pal_postgres_put_int(&params, seq);
    blocks = run(work, which, &params);
    for (int level = 0; blocks && PQntuples(blocks) > 0 && level <= PAL_GROUP_LEVELS; level++) {
        pal_postgres_index_put_blocks(&params, tenant, level, blocks);
        PQclear(run(work, PAL_POSTGRES_INDEX_RESET, &params));
        pal_postgres_index_put_blocks(&params, tenant, level, blocks);
        PQclear(run(work, PAL_POSTGRES_INDEX_CHUNK_DROP, &params));
    }
    PQclear(blocks);
}

static void erase_one(transaction *work, int64_t tenant, pal_id session, uint64_t fork_seq,
        pal_erase_result *erasure)
{
    int64_t kept_seq = shared_seq(work, tenant, session);

    drop_index(work, PAL_POSTGRES_INDEX_BLOCKS_OF, tenant, session, kept_seq);
    erasure->blobs += drop_session_blobs(work, tenant, session, kept_seq);
    erasure->messages += change(work, PAL_POSTGRES_MESSAGE_DROP, tenant, session, kept_seq);
    erasure->marks += change(work, PAL_POSTGRES_MARK_DROP, tenant, session, kept_seq);
    clear_aliases(work, tenant, session, erasure);
    erasure->inbox += change(work, PAL_POSTGRES_INBOX_CLEAR, tenant, session, -1);
    erasure->ledger += change(work, PAL_POSTGRES_LEDGER_FORGET, tenant, session, -1);
    erasure->records += change(work, PAL_POSTGRES_RECORD_CLEAR, tenant, session, -1);
    if (kept_seq > 0) {
        change(work, PAL_POSTGRES_HEAD_STRIP, tenant, session, kept_seq);
        change(work, PAL_POSTGRES_SESSION_STRIP, tenant, session, -1);
    } else {
        change(work, PAL_POSTGRES_HEAD_DROP, tenant, session, -1);
        change(work, PAL_POSTGRES_SESSION_DROP, tenant, session, -1);
    }
    if ((uint64_t)kept_seq > fork_seq)
        erasure->shared += (uint64_t)kept_seq - fork_seq;
}

/* Locks a session. Returns whether it exists and is erased. */
static bool lock_erased(transaction *work, int64_t tenant, pal_id session, pal_id *out_parent,
        uint64_t *out_fork_seq)
{
    pal_postgres_params params = {0};
    PGresult *result;
    bool is_erased = false;

    pal_postgres_add_int(pal_postgres_put_array(&params, PAL_POSTGRES_INT8), tenant);
    pal_postgres_add_id(pal_postgres_put_array(&params, PAL_POSTGRES_UUID), session);
    for (int i = 0; i < 2; i++) {
        pal_postgres_put_array(&params, PAL_POSTGRES_INT8);
        pal_postgres_put_array(&params, PAL_POSTGRES_TEXT);
    }
    result = run(work, PAL_POSTGRES_SESSION_LOCK, &params);
    if (result && PQntuples(result) == 1) {
        is_erased = pal_postgres_int(result, 0, 1) == PAL_SESSION_ERASED;
        *out_parent = pal_postgres_id(result, 0, 10);
        *out_fork_seq = (uint64_t)pal_postgres_int(result, 0, 11);
    }
    PQclear(result);
    return is_erased;
}

/* Erases the session, then trims or removes its erased ancestors, up to the first ancestor that is
 * not erased. */
static void erase_upwards(transaction *work, int64_t tenant, const pal_session *session,
        pal_erase_result *erasure)
{
    pal_id at = session->parent_id, next = {{0}};
    uint64_t fork_seq;

    erase_one(work, tenant, session->id, session->fork_seq, erasure);
    while (work->status == PAL_OK && !pal_id_is_none(at) &&
            lock_erased(work, tenant, at, &next, &fork_seq)) {
        pal_erase_result part = {0};

        erase_one(work, tenant, at, fork_seq, &part);
        erasure->messages += part.messages;
        erasure->marks += part.marks;
        erasure->blobs += part.blobs;
        at = next;
    }
}

/* ---- One message ---- */

/* Runs a statement on (tenant, session, seq) that returns a number. */
static int64_t count_of(transaction *work, pal_postgres_sql sql, int64_t tenant, pal_id session,
        int64_t seq, bool erases)
{
    pal_postgres_params params = {0};
    PGresult *result;
    int64_t count = 0;

    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    pal_postgres_put_int(&params, seq);
    if (erases) {
        pal_postgres_put_int(&params, PAL_MESSAGE_FLAG_ERASED);
        pal_postgres_put_bytes(&params, pal_str_of(PAL_ERASED_BODY));
    }
    result = run(work, sql, &params);
    if (result)
        count = pal_postgres_int(result, 0, 0);
    PQclear(result);
    return count;
}

/* A reference names the first message of an append, and the bodies show which of its messages refer
 * to the blob. The references go with the last of them. Called before the body is emptied. */
static uint64_t drop_message_blobs(
        transaction *work, int64_t tenant, pal_id session, int64_t seq)
{
    pal_postgres_params params = {0};
    PGresult *result;
    uint64_t count;

    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    pal_postgres_put_int(&params, seq);
    pal_postgres_put_int(&params, PAL_APPEND_MESSAGES_MAX - 1);
    result = run(work, PAL_POSTGRES_BLOB_REF_DROP_MESSAGE, &params);
    count = drop_blobs(work, result, tenant);
    PQclear(result);
    return count;
}

/* Of the session and of all forks that show the message. */
static void drop_derived(transaction *work, int64_t tenant, pal_id session, int64_t seq,
        pal_erase_result *erasure)
{
    pal_postgres_params params = {0};
    PGresult *result;

    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    pal_postgres_put_int(&params, seq);
    pal_postgres_put_int(&params, PAL_MARK_ERASED);
    result = run(work, PAL_POSTGRES_MARK_ERASE, &params);
    if (result)
        erasure->checkpoints = strtoull(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_id(&params, session);
    pal_postgres_put_int(&params, seq);
    pal_postgres_put_text(&params, pal_str_of(PAL_CONVERSATION_RECORD));
    pal_postgres_put_text(&params, pal_str_of(PAL_ANSWER_RECORD));
    result = run(work, PAL_POSTGRES_RECORD_ERASE, &params);
    if (result)
        erasure->records = strtoull(PQcmdTuples(result), NULL, 10);
    PQclear(result);
}

/* Returns false if there is no such message. */
static bool erase_row(transaction *work, int64_t tenant, pal_id owner, int64_t seq,
        pal_erase_result *erasure)
{
    if (count_of(work, PAL_POSTGRES_MESSAGE_THERE, tenant, owner, seq, false) == 0)
        return work->status != PAL_OK;
    drop_index(work, PAL_POSTGRES_INDEX_BLOCK_AT, tenant, owner, seq);
    erasure->blobs = drop_message_blobs(work, tenant, owner, seq);
    erasure->messages = (uint64_t)count_of(
            work, PAL_POSTGRES_MESSAGE_ERASE, tenant, owner, seq, true);
    if (erasure->messages == 0)
        return true; /* it was erased before */
    drop_derived(work, tenant, owner, seq, erasure);
    return true;
}

pal_status pal_postgres_commit(
        pal_postgres *store, pal_postgres_failure *out_failure, pal_error *err)
{
    transaction work = {.store = store, .err = err};
    pal_postgres_params params = {0};

    store->batch++;
    pal_postgres_put_int(&params, store->slot);
    pal_postgres_put_id(&params, store->node);
    pal_postgres_put_int(&params, store->batch);
    pal_postgres_put_int(&params, pal_store_now_ms(&store->base));
    PQclear(run(&work, PAL_POSTGRES_NODE_BATCH, &params));
    PQclear(run(&work, PAL_POSTGRES_COMMIT, NULL));
    if (work.status == PAL_OK && store->writer.was_warned) {
        work.failure = PAL_POSTGRES_LOST;
        work.status = pal_postgres_not_replicated(store, err);
    }
    if (work.status == PAL_OK)
        pal_postgres_acknowledge(store);
    *out_failure = work.failure;
    return work.status;
}

/* ---- Operations ---- */

pal_status pal_postgres_erase(pal_postgres *store, pal_work *work,
        pal_postgres_failure *out_failure, pal_error *err)
{
    transaction erasing = {.store = store, .err = err};
    pal_erase_result erasure = {0};
    memory_session *session = NULL;
    pal_postgres_copy copy;

    if (work->op->with_previous && work->op[-1].status != PAL_OK) {
        pal_work_cancel(work);
        return PAL_OK;
    }
    erasing.status = pal_postgres_copy_open(store, &copy, err);
    if (erasing.status == PAL_OK)
        erasing.status = pal_postgres_load(&copy, work, 1, out_failure, err);
    if (erasing.status == PAL_OK)
        work->op->status = pal_memory_session_for(
                copy.memory, work, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, &session);
    if (erasing.status == PAL_OK && session && work->op->status == PAL_OK &&
            work->op->kind == PAL_OP_ERASE_MESSAGE) {
        if (!erase_row(&erasing, pal_postgres_tenant(work->tenant), work->fork_parent,
                    (int64_t)work->fork_seq, &erasure))
            work->op->status = pal_message_missing(work);
        else if (work->op->u.erase_message.erasure)
            *work->op->u.erase_message.erasure = erasure;
        *out_failure = erasing.failure;
    } else if (erasing.status == PAL_OK && session && work->op->status == PAL_OK) {
        erase_upwards(&erasing, pal_postgres_tenant(work->tenant), &session->info->record,
                &erasure);
        if (work->op->u.erasure) /* it counts even if the answer to the COMMIT is lost */
            *work->op->u.erasure = erasure;
        *out_failure = erasing.failure;
    }
    pal_postgres_copy_close(&copy);
    return erasing.status;
}

/* Runs an operation on a session that the sweep found, as if a caller had sent it. The session may
 * have changed since: then nothing happens, and the next sweep looks again. */
static pal_status sweep_one(pal_postgres *store, const pal_work *sweep, pal_op_kind kind,
        pal_str tenant, pal_id session, pal_postgres_failure *out_failure)
{
    pal_op op = {.kind = kind, .tenant = tenant, .session = session};
    pal_work work = {.op = &op, .tenant = tenant, .now_ms = sweep->now_ms};
    pal_error err = {0};
    pal_status status = pal_postgres_apply_some(store, &work, 1, out_failure, &err);

    if (status != PAL_OK && *out_failure != PAL_POSTGRES_REFUSED)
        pal_error_set(&sweep->op->error, status, "%s", err.message);
    return status;
}

/* Finds sessions that are due, and handles each in a transaction of its own. */
static pal_status sweep_sessions(pal_postgres *store, pal_work *work, pal_postgres_sql sql,
        int64_t before_ms, pal_op_kind kind, uint32_t *left, uint64_t *out_count,
        pal_postgres_failure *out_failure)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    pal_postgres_put_int(&params, before_ms);
    pal_postgres_put_int(&params, (int64_t)*left + 1);
    status = pal_postgres_run(
            &store->writer, sql, &params, &result, out_failure, &work->op->error);
    for (int i = 0; status == PAL_OK && i < PQntuples(result); i++) {
        if (*left == 0) {
            work->op->u.sweep.result.has_more = true;
            break;
        }
        status = sweep_one(store, work, kind, pal_postgres_str(result, i, 0),
                pal_postgres_id(result, i, 1), out_failure);
        *out_count += status == PAL_OK;
        (*left)--;
        if (status != PAL_OK && *out_failure == PAL_POSTGRES_REFUSED) {
            (void)!pal_postgres_run(
                    &store->writer, PAL_POSTGRES_ROLLBACK, NULL, NULL, NULL, NULL);
            status = PAL_OK;
        }
    }
    PQclear(result);
    return status;
}

static pal_status sweep_blobs_and_records(
        pal_postgres *store, pal_work *work, pal_postgres_failure *out_failure)
{
    transaction sweeping = {.store = store, .err = &work->op->error};
    pal_postgres_params params = {0};
    PGresult *result;

    PQclear(run(&sweeping, PAL_POSTGRES_BEGIN, NULL));
    pal_postgres_put_int(&params, work->now_ms - PAL_BLOB_UNUSED_MS_MAX);
    pal_postgres_put_int(&params, work->op->u.sweep.limit);
    result = run(&sweeping, PAL_POSTGRES_BLOB_UNUSED, &params);
    drop_blobs(&sweeping, result, 0);
    PQclear(result);
    pal_postgres_put_int(&params, work->now_ms);
    pal_postgres_put_int(&params, work->op->u.sweep.limit);
    PQclear(run(&sweeping, PAL_POSTGRES_RECORD_SWEEP, &params));
    pal_postgres_put_int(&params, work->now_ms);
    result = run(&sweeping, PAL_POSTGRES_RECORD_DUE, &params);
    if (result && PQntuples(result) > 0)
        work->op->u.sweep.result.has_more = true;
    PQclear(result);
    *out_failure = sweeping.failure;
    if (sweeping.status != PAL_OK)
        return sweeping.status;
    return pal_postgres_commit(store, out_failure, &work->op->error);
}

pal_status pal_postgres_sweep(
        pal_postgres *store, pal_work *work, pal_postgres_failure *out_failure)
{
    pal_sweep_result *swept = &work->op->u.sweep.result;
    uint32_t left = work->op->u.sweep.limit;
    pal_status status;

    memset(swept, 0, sizeof *swept);
    status = sweep_sessions(store, work, PAL_POSTGRES_SESSION_EXPIRED, work->now_ms, PAL_OP_DELETE,
            &left, &swept->trashed, out_failure);
    if (status == PAL_OK && work->op->u.sweep.trash_ms >= 0)
        status = sweep_sessions(store, work, PAL_POSTGRES_SESSION_STALE,
                work->now_ms - work->op->u.sweep.trash_ms, PAL_OP_ERASE, &left, &swept->erased,
                out_failure);
    if (status == PAL_OK)
        status = sweep_blobs_and_records(store, work, out_failure);
    return status;
}
