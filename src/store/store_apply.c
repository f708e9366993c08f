/* store_apply.c - passes batches of operations to the writer, blocking or not.
 *
 * Operations are checked and encoded on the caller's thread. An operation that fails its checks
 * never reaches the writer; its status is set when the batch is reported. */
#include "base/memory.h"
#include "palaver/store.h"
#include "palaver/store_batch.h"
#include "store/store_front.h"
#include "store/store_prepare.h"
#include "store/view/view.h"

/* Forks are resolved here, against the current rows. Rows never change, so the result stays valid.
 * Returns false if nothing is left to do. */
static bool resolve_fork(pal_store *store, pal_work *work, pal_arena *arena)
{
    pal_op *op = work->op;

    if (op->kind == PAL_OP_FORK) {
        bool keeps = op->u.fork.keep_mark;
        op->status = pal_view_fork(store->engine, work, op->u.fork.parent, op->u.fork.at_seq,
                keeps ? op->u.fork.session->fork_mark : UINT64_MAX, arena, &op->error);
    }
    if (op->kind == PAL_OP_ADOPT) {
        op->u.adopt.adopted = false;
        op->status = pal_view_fork(store->engine, work, op->u.adopt.from, PAL_SEQ_ANY, UINT64_MAX,
                arena, &op->error);
        if (work->fork_seq == 0)
            return false;
    }
    return op->status == PAL_OK;
}

static void resolve_forks(pal_store *store, pal_prepared_batch *prepared)
{
    size_t kept = 0;

    for (size_t i = 0; i < prepared->works_len; i++)
        if (resolve_fork(store, &prepared->works[i], prepared->arena))
            prepared->works[kept++] = prepared->works[i];
    prepared->works_len = kept;
}

static pal_status check_batch(const pal_store *store, size_t ops_len, pal_error *err)
{
    if (store->options.read_only)
        return pal_error_set(err, PAL_DENIED, "the store was opened for reading only");
    if (ops_len > PAL_BATCH_OPS_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu operations in one batch exceed the limit of %d",
                ops_len, PAL_BATCH_OPS_MAX);
    return PAL_OK;
}

static pal_status prepare(pal_store *store, pal_op *ops, size_t ops_len,
        pal_prepared_batch *out_prepared, pal_error *err)
{
    pal_status status = pal_prepare(
            &store->options, pal_store_now_ms(store->engine), ops, ops_len, out_prepared, err);

    if (status == PAL_OK)
        resolve_forks(store, out_prepared);
    return status;
}

pal_status pal_store_apply(pal_store *store, pal_op *ops, size_t ops_len, pal_error *err)
{
    pal_prepared_batch prepared;
    pal_status status = check_batch(store, ops_len, err);

    if (status != PAL_OK || ops_len == 0)
        return status;
    status = prepare(store, ops, ops_len, &prepared, err);
    if (status == PAL_OK) {
        pal_writer_run(store->writer, prepared.works, prepared.works_len);
        pal_prepare_publish(&prepared);
        pal_store_changed(store, ops, ops_len);
    }
    pal_prepare_done(&prepared);
    return status;
}

pal_status pal_store_apply_one(pal_store *store, pal_op *op, pal_error *err)
{
    pal_status status = pal_store_apply(store, op, 1, err);

    if (status == PAL_OK && op->status != PAL_OK)
        status = pal_error_set(err, op->status, "%s", op->error.message);
    return status;
}

/* ---- Asynchronous batches ---- */

/* A batch without a waiting caller; it lives until its callback is called. */
typedef struct batch {
    pal_writer_task task; /* must be the first member, because the writer knows only the task */
    pal_prepared_batch prepared;
    pal_store *store;
    pal_op *ops;
    size_t ops_len;
    pal_store_on_applied applied;
    void *user;
} batch;

/* The batch is freed before its callback, so that the callback's receiver can close the store soon
 * after. */
static void batch_told(pal_writer_task *task)
{
    batch *self = (batch *)task;
    batch copy = *self;

    pal_prepare_publish(&self->prepared);
    pal_prepare_done(&self->prepared);
    pal_free(self);
    pal_store_changed(copy.store, copy.ops, copy.ops_len);
    copy.applied(copy.ops, copy.ops_len, PAL_OK, NULL, copy.user);
}

static pal_status batch_new(
        pal_store *store, pal_op *ops, size_t ops_len, batch **out_batch, pal_error *err)
{
    batch *self = pal_calloc(1, sizeof(*self));
    pal_status status;

    if (!self)
        return pal_no_memory(err);
    self->store = store;
    self->ops = ops;
    self->ops_len = ops_len;
    self->task.done = batch_told;
    status = ops_len > 0 ? prepare(store, ops, ops_len, &self->prepared, err) : PAL_OK;
    if (status != PAL_OK) {
        pal_prepare_done(&self->prepared);
        pal_free(self);
        return status;
    }
    self->task.works = self->prepared.works;
    self->task.works_len = self->prepared.works_len;
    *out_batch = self;
    return PAL_OK;
}

pal_status pal_store_apply_async(pal_store *store, pal_op *ops, size_t ops_len,
        pal_store_on_applied applied, void *user, pal_error *err)
{
    batch *self = NULL;
    pal_status status = check_batch(store, ops_len, err);

    if (status == PAL_OK)
        status = batch_new(store, ops, ops_len, &self, err);
    if (status != PAL_OK)
        return status;
    self->applied = applied;
    self->user = user;
    status = pal_writer_hand(store->writer, &self->task, err);
    if (status != PAL_OK) {
        pal_prepare_done(&self->prepared);
        pal_free(self);
    }
    return status;
}
