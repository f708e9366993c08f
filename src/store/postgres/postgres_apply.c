/* postgres_apply.c - runs batches.
 *
 * A batch that only appends and handles leases needs one flight (postgres_single.c). Any other
 * batch, and what one flight could not do, needs two. The first locks and loads what the batch
 * needs, the second writes and commits. In between the backend "memory:" decides on the copy,
 * while the rows are locked. A rejected operation changes nothing in the copy, so the others need
 * no savepoints.
 *
 * Failures, by their SQLSTATE (postgres_error.c):
 * - a race: the batch is run again, after some tries group by group;
 * - a lost connection: the writer connects again until busy_timeout_ms has passed. If a COMMIT was
 *   sent, the row of the node says whether it happened; otherwise nothing was written. The same
 *   batch is then run again, with the same ids;
 * - refused: nothing was written. The groups are run one by one, so that only those fail that
 *   cannot be done.
 *
 * A group with an erasure is a transaction between two batches, and a sweep is several. A batch
 * with many bytes is several transactions, so that no caller waits long for the others. */
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/postgres/postgres_copy.h"
#include "store/postgres/index/index_postgres.h"
#include "store/postgres/postgres_single.h"

#define RACE_TRIES_MAX 8
#define RACE_TRIES_TOGETHER 3
#define RETRY_PAUSE_MS 50
#define WARY_BATCHES 16
#define BATCH_BYTES_MAX (8u << 20) /* bodies in one transaction, unless a group has more */

/* ---- Trying once ---- */

static pal_status add_tenants(pal_postgres *store, const pal_work *works, size_t works_len,
        pal_postgres_failure *out_failure, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < works_len; i++)
        if (works[i].tenant.len > 0)
            status = pal_postgres_tenant_add(store, works[i].tenant, out_failure, err);
    return status;
}

static pal_status get_ready(pal_postgres *store, const pal_work *works, size_t works_len,
        pal_postgres_failure *out_failure, pal_error *err)
{
    pal_status status = pal_postgres_connect(&store->writer, out_failure, err);

    if (status == PAL_OK)
        status = pal_postgres_node_enter(store, out_failure, err);
    if (status == PAL_OK)
        status = add_tenants(store, works, works_len, out_failure, err);
    return status;
}

/* The state of an operation before it was run, because a run changes it. */
typedef struct kept_input {
    pal_id session;
    pal_mark mark;
} kept_input;

static void keep_inputs(const pal_work *works, size_t works_len, kept_input *kept)
{
    for (size_t i = 0; i < works_len; i++) {
        kept[i].session = works[i].op->session;
        if (works[i].op->kind == PAL_OP_MARK)
            kept[i].mark = *works[i].op->u.mark;
    }
}

static void restore_inputs(pal_work *works, size_t works_len, const kept_input *kept)
{
    for (size_t i = 0; i < works_len; i++) {
        works[i].op->session = kept[i].session;
        works[i].op->status = PAL_OK;
        if (works[i].op->kind == PAL_OP_MARK)
            *works[i].op->u.mark = kept[i].mark;
    }
}

static bool has_kind(const pal_work *works, size_t works_len, pal_op_kind kind)
{
    for (size_t i = 0; i < works_len; i++)
        if (works[i].op->kind == kind)
            return true;
    return false;
}

static bool is_erasure(const pal_work *work)
{
    return work->op->kind == PAL_OP_ERASE || work->op->kind == PAL_OP_ERASE_MESSAGE;
}

static bool has_erasure(const pal_work *works, size_t works_len)
{
    return has_kind(works, works_len, PAL_OP_ERASE) ||
            has_kind(works, works_len, PAL_OP_ERASE_MESSAGE);
}

/* Loads, decides and writes. */
static pal_status run_part(pal_postgres *store, pal_work *works, size_t works_len, bool commits,
        bool *out_sent, pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_copy copy;
    pal_status status = pal_postgres_copy_open(store, &copy, err);

    *out_sent = false;
    *out_failure = PAL_POSTGRES_REFUSED;
    if (status == PAL_OK)
        status = pal_postgres_load(&copy, works, works_len, out_failure, err);
    if (status == PAL_OK) {
        pal_store_memory.apply(copy.engine, works, works_len);
        status = pal_postgres_write(&copy, works, works_len, commits, out_sent, out_failure, err);
    } else if (*out_failure == PAL_POSTGRES_FINE) {
        *out_failure = PAL_POSTGRES_REFUSED;
    }
    pal_postgres_copy_close(&copy);
    return status;
}

static void roll_back(pal_postgres *store)
{
    if (store->writer.pg && PQtransactionStatus(store->writer.pg) != PQTRANS_IDLE)
        (void)!pal_postgres_run(&store->writer, PAL_POSTGRES_ROLLBACK, NULL, NULL, NULL, NULL);
}

/* Runs a group with erasures in one transaction. Erasures are made by statements, so the works
 * before and after them are parts, each of which loads what the earlier parts wrote. */
static pal_status run_parts(pal_postgres *store, pal_work *works, size_t works_len, bool *out_sent,
        pal_postgres_failure *out_failure, pal_error *err)
{
    pal_status status = PAL_OK;
    bool has_done = false;
    size_t len;

    for (size_t i = 0; status == PAL_OK && i < works_len; i += len) {
        for (len = 0; i + len < works_len && !is_erasure(&works[i + len]); len++)
            ;
        status = len > 0
                ? run_part(store, works + i, len, false, out_sent, out_failure, err)
                : pal_postgres_erase(store, &works[i], out_failure, err);
        len = len > 0 ? len : 1;
    }
    for (size_t i = 0; i < works_len; i++)
        has_done = has_done || works[i].op->status == PAL_OK;
    if (status == PAL_OK && !has_done) {
        roll_back(store);
    } else if (status == PAL_OK) {
        *out_sent = true;
        status = pal_postgres_commit(store, out_failure, err);
    } else if (*out_failure == PAL_POSTGRES_FINE) {
        *out_failure = PAL_POSTGRES_REFUSED;
    }
    return status;
}

/* Runs the works once. *out_sent says whether the outcome of a lost connection is in doubt. */
static pal_status run_once(pal_postgres *store, pal_work *works, size_t works_len, bool *out_sent,
        pal_postgres_failure *out_failure, pal_error *err)
{
    *out_sent = false;
    *out_failure = PAL_POSTGRES_FINE;
    if (has_erasure(works, works_len))
        return run_parts(store, works, works_len, out_sent, out_failure, err);
    return run_part(store, works, works_len, true, out_sent, out_failure, err);
}

pal_status pal_postgres_apply_some(pal_postgres *store, pal_work *works, size_t works_len,
        pal_postgres_failure *out_failure, pal_error *err)
{
    bool is_sent;
    pal_status status = run_once(store, works, works_len, &is_sent, out_failure, err);

    if (status != PAL_OK)
        roll_back(store);
    if (status == PAL_OK && works_len == 1 && works[0].op->status != PAL_OK) {
        *out_failure = PAL_POSTGRES_REFUSED;
        if (err)
            *err = works[0].op->error;
        return works[0].op->status;
    }
    return status;
}

/* ---- Trying again ---- */

/* Finds out whether the lost commit happened. Tries until the time is up. */
static pal_status resolve_doubt(
        pal_postgres *store, int64_t until_us, bool *out_committed, pal_error *err)
{
    pal_postgres_failure failure = PAL_POSTGRES_FINE;
    pal_status status;

    do {
        status = pal_postgres_connect(&store->writer, &failure, err);
        if (status == PAL_OK)
            status = pal_postgres_node_check(store, out_committed, &failure, err);
        if (status != PAL_OK) {
            roll_back(store);
            poll(NULL, 0, RETRY_PAUSE_MS);
        }
    } while (status != PAL_OK && pal_clock_monotonic_us() < until_us);
    if (status == PAL_OK)
        return PAL_OK;
    return pal_error_set(err, PAL_IO,
            "%s: the connection was lost, and the writes may have been made; send them again with"
            " their client ids", store->place);
}

typedef enum outcome {
    OUTCOME_DONE,  /* every work has its status */
    OUTCOME_SPLIT, /* the groups must be run one by one */
} outcome;

/* Runs the works until they are committed, refused, or the time is up. */
static outcome run_range(pal_postgres *store, pal_work *works, size_t works_len, bool may_split)
{
    int64_t until_us = pal_clock_monotonic_us() + (int64_t)store->options.busy_timeout_ms * 1000;
    kept_input *kept = pal_calloc(works_len, sizeof *kept);
    pal_error err = {0};
    int races = 0;

    if (!kept) {
        pal_no_memory(&err);
        pal_work_fail_all(works, works_len, &err);
        return OUTCOME_DONE;
    }
    keep_inputs(works, works_len, kept);
    for (;;) {
        pal_postgres_failure failure = PAL_POSTGRES_FINE;
        bool is_sent = false, is_committed = false;
        pal_status status;

        restore_inputs(works, works_len, kept);
        status = get_ready(store, works, works_len, &failure, &err);
        if (status == PAL_OK)
            status = run_once(store, works, works_len, &is_sent, &failure, &err);
        if (status == PAL_OK)
            break;
        roll_back(store);
        if (failure == PAL_POSTGRES_LOST && is_sent) {
            status = resolve_doubt(store, until_us, &is_committed, &err);
            if (status == PAL_OK && is_committed)
                break;
            if (status != PAL_OK) {
                pal_work_fail_all(works, works_len, &err);
                break;
            }
        }
        races += failure == PAL_POSTGRES_RACE;
        if (may_split &&
                (failure == PAL_POSTGRES_REFUSED ||
                        (failure == PAL_POSTGRES_RACE && races >= RACE_TRIES_TOGETHER))) {
            restore_inputs(works, works_len, kept);
            pal_free(kept);
            return OUTCOME_SPLIT;
        }
        if (failure == PAL_POSTGRES_REFUSED || races >= RACE_TRIES_MAX ||
                pal_clock_monotonic_us() >= until_us) {
            restore_inputs(works, works_len, kept);
            pal_work_fail_all(works, works_len, &err);
            break;
        }
        if (failure != PAL_POSTGRES_POOLER)
            poll(NULL, 0, failure == PAL_POSTGRES_RACE ? races : RETRY_PAUSE_MS);
    }
    pal_free(kept);
    return OUTCOME_DONE;
}

/* Runs the works in two flights each. */
static void run_works(pal_postgres *store, pal_work *works, size_t works_len)
{
    size_t len = pal_work_group_len(works, works_len);

    if (run_range(store, works, works_len, len < works_len) == OUTCOME_DONE)
        return;
    for (size_t i = 0; i < works_len; i += len) {
        len = pal_work_group_len(works + i, works_len - i);
        run_range(store, works + i, len, false);
    }
}

/* ---- One flight ---- */

static pal_status recall(
        pal_postgres *store, pal_postgres_single *single, int64_t until_us, pal_error *err)
{
    pal_postgres_failure failure = PAL_POSTGRES_FINE;
    pal_status status;

    do {
        status = pal_postgres_connect(&store->writer, &failure, err);
        if (status == PAL_OK)
            status = pal_postgres_single_recall(store, single, &failure, err);
        if (status != PAL_OK)
            poll(NULL, 0, RETRY_PAUSE_MS);
    } while (status != PAL_OK && failure != PAL_POSTGRES_REFUSED &&
            pal_clock_monotonic_us() < until_us);
    return status;
}

/* Sends the batch. PAL_OK: the works that it did not write can run in two flights. */
static pal_status run_single(pal_postgres *store, pal_postgres_single *single, pal_work *works,
        size_t works_len, pal_error *err)
{
    int64_t until_us = pal_clock_monotonic_us() + (int64_t)store->options.busy_timeout_ms * 1000;
    pal_postgres_failure failure = PAL_POSTGRES_FINE;
    bool is_committed = false;
    pal_status status = get_ready(store, works, works_len, &failure, err);

    if (status != PAL_OK)
        return PAL_OK;
    status = pal_postgres_single_run(store, single, &failure, err);
    if (failure == PAL_POSTGRES_RACE)
        store->wary = WARY_BATCHES;
    if (failure != PAL_POSTGRES_LOST)
        return PAL_OK;
    status = resolve_doubt(store, until_us, &is_committed, err);
    if (status == PAL_OK && is_committed)
        status = recall(store, single, until_us, err);
    return status;
}

static void run_batch(pal_postgres *store, pal_work *works, size_t works_len)
{
    pal_postgres_single *single = NULL;
    pal_error err = {0};
    size_t rest_len;
    pal_work *rest;

    if (store->wary > 0)
        store->wary--;
    else
        single = pal_postgres_single_new(works, works_len);
    if (!single) {
        run_works(store, works, works_len);
        return;
    }
    for (size_t i = 0; i < works_len; i++)
        works[i].op->status = PAL_OK;
    if (run_single(store, single, works, works_len, &err) != PAL_OK) {
        pal_work_fail_all(works, works_len, &err);
    } else {
        rest = pal_postgres_single_rest(single, &rest_len);
        if (rest_len > 0)
            run_works(store, rest, rest_len);
    }
    pal_postgres_single_free(single);
}

/* ---- Erasures and sweeps ---- */

static void run_sweep(pal_postgres *store, pal_work *work)
{
    int64_t until_us = pal_clock_monotonic_us() + (int64_t)store->options.busy_timeout_ms * 1000;
    pal_op *op = work->op;
    pal_postgres_failure failure;
    int races = 0;

    do {
        failure = PAL_POSTGRES_FINE;
        op->status = get_ready(store, work, 1, &failure, &op->error);
        if (op->status == PAL_OK)
            op->status = pal_postgres_sweep(store, work, &failure);
        if (op->status == PAL_OK)
            return;
        roll_back(store);
        if (failure != PAL_POSTGRES_REFUSED && failure != PAL_POSTGRES_POOLER)
            poll(NULL, 0, RETRY_PAUSE_MS);
        races += failure == PAL_POSTGRES_RACE;
    } while (failure != PAL_POSTGRES_REFUSED && failure != PAL_POSTGRES_FINE &&
            races < RACE_TRIES_MAX && pal_clock_monotonic_us() < until_us);
}

/* Runs a group that is not part of a batch: a part of the search index, or a group with an erasure
 * or a sweep. */
static void run_group(pal_postgres *store, pal_work *works, size_t works_len)
{
    pal_error err = {0};

    if (works[0].index) {
        works[0].op->status = pal_postgres_index_write(store, works);
    } else if (!has_kind(works, works_len, PAL_OP_SWEEP)) {
        run_range(store, works, works_len, false);
    } else if (works_len == 1 && !works[0].op->with_previous) {
        run_sweep(store, works);
    } else {
        pal_error_set(&err, PAL_INVALID,
                "a sweep cannot be joined to other operations in PostgreSQL; send it alone");
        pal_work_fail_all(works, works_len, &err);
    }
}

/* The large blobs of callers that could not store them themselves, because they may not block. */
static void store_blobs(pal_postgres *store, pal_work *works, size_t works_len)
{
    for (size_t i = 0; i < works_len; i++)
        for (size_t j = 0; j < works[i].blobs_len; j++)
            (void)!pal_postgres_blob_ahead(
                    &store->base, works[i].tenant, &works[i].blobs[j], NULL);
}

static size_t body_bytes(const pal_work *works, size_t works_len)
{
    size_t bytes = 0;

    for (size_t i = 0; i < works_len; i++) {
        const pal_op *op = works[i].op;

        for (size_t j = 0; j < works[i].rows_len; j++)
            bytes += works[i].rows[j].body.len;
        for (size_t j = 0; j < works[i].blobs_len; j++)
            bytes += works[i].blobs[j].is_ahead ? 0 : works[i].blobs[j].data.len;
        if (op->kind == PAL_OP_MARK)
            bytes += op->u.mark->body.len;
        if (op->kind == PAL_OP_INBOX_ADD)
            bytes += op->u.inbox_item->body.len;
        if (op->kind == PAL_OP_RECORD_PUT)
            bytes += op->u.record.record->body.len;
    }
    return bytes;
}

/* Returns whether the group is not part of a batch. */
static bool is_alone(const pal_work *works, size_t works_len)
{
    return works[0].index || has_erasure(works, works_len) ||
            has_kind(works, works_len, PAL_OP_SWEEP);
}

/* A batch ends before a group that makes it too large. A large group is a batch alone. */
void pal_postgres_apply(pal_engine *engine, pal_work *works, size_t works_len)
{
    pal_postgres *store = (pal_postgres *)engine;
    size_t first = 0, bytes = 0, len;

    store_blobs(store, works, works_len);
    for (size_t i = 0; i < works_len; i += len) {
        bool is_apart;
        size_t more;

        len = pal_work_group_len(works + i, works_len - i);
        more = body_bytes(works + i, len);
        is_apart = is_alone(works + i, len);
        if (i > first && (is_apart || bytes + more > BATCH_BYTES_MAX)) {
            run_batch(store, works + first, i - first);
            first = i;
            bytes = 0;
        }
        bytes += more;
        if (is_apart) {
            run_group(store, works + i, len);
            first = i + len;
            bytes = 0;
        }
    }
    if (works_len > first)
        run_batch(store, works + first, works_len - first);
    pal_postgres_index_note(store, works, works_len);
}
