/* turn_write.c - the writes of turns and lanes. They are passed to the store's writer, which
 * commits them together with the appends of other callers. On the loop, which never waits for a
 * commit.
 *
 * Order: the store keeps the order in which it gets the writes. Its queue can be full. The first
 * write that finds no room then waits on a worker, and all later writes wait for that one. Writes
 * also wait while PASSED_MAX others are in the store: each takes memory there, and one commit does
 * not take many more.
 *
 * The store encodes messages and counts their tokens on the thread that passes them on. So a write
 * with long messages is passed on by a worker too, and later writes wait for it.
 *
 * A loop that is being closed waits for the writes in flight. A crash loses those that are not
 * committed, and their `done` is never called. */
#include "turn/turn.h"

#include "base/memory.h"
#include "turn/lane/lane.h"
#include "turn/runtime/runtime_memory.h"
#include "turn/turn_last_commit.h"
#include "turn/turn_outbox.h"

enum { PASSED_MAX = 64 };
#define LOOP_BYTES_MAX ((size_t)256 << 10) /* bytes of the messages that the loop passes on */

/* ---- Passing writes to the store ---- */

static pal_write *write_of(pal_work_item *item)
{
    return (pal_write *)((char *)item - offsetof(pal_write, item));
}

/* On the writer's thread, or on the loop if the store has no writer. */
static void on_applied(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    pal_write *write = user;

    (void)ops;
    (void)ops_len;
    (void)status; /* only a blocking call can fail here; each operation has its own status */
    (void)err;
    pal_loop_tell_done(write->runtime->loop, &write->item);
}

static size_t bytes_of_parts(const pal_part *parts, size_t parts_len)
{
    size_t bytes = 0;

    for (size_t i = 0; i < parts_len; i++)
        bytes += parts[i].text.len + parts[i].arguments.len + parts[i].data.len +
                parts[i].extra.len + bytes_of_parts(parts[i].parts, parts[i].parts_len);
    return bytes;
}

static bool is_large(const pal_write *write)
{
    size_t bytes = 0;

    for (size_t i = 0; i < write->ops_len; i++) {
        const pal_op *op = &write->ops[i];

        if (op->kind != PAL_OP_APPEND)
            continue;
        for (size_t k = 0; k < op->u.append.messages_len; k++) {
            const pal_message *message = &op->u.append.messages[k];
            bytes += message->extra.len + bytes_of_parts(message->parts, message->parts_len);
        }
    }
    return bytes > LOOP_BYTES_MAX;
}

/* Runs on a worker. */
static void apply_and_wait(pal_work_item *item)
{
    pal_write *write = write_of(item);
    pal_error err = {0};

    if (pal_store_apply(write->runtime->store, write->ops, write->ops_len, &err) != PAL_OK)
        write->failure = err;
}

static void pass_on(pal_runtime *runtime, pal_write *write)
{
    pal_error err = {0};
    pal_status status = PAL_LIMIT;

    if (!is_large(write))
        status = pal_store_apply_async(
                runtime->store, write->ops, write->ops_len, on_applied, write, &err);
    runtime->writes_passed++;
    if (status == PAL_LIMIT) {
        runtime->blocked_write = write;
        pal_loop_work(runtime->loop, &write->item);
        return;
    }
    pal_loop_hold(runtime->loop);
    if (status == PAL_OK)
        return;
    write->failure = err;
    pal_loop_tell_done(runtime->loop, &write->item);
}

/* Passes on as many writes as may be in the store. */
static void pass_on_waiting(pal_runtime *runtime)
{
    while (runtime->writes_first && !runtime->blocked_write &&
            runtime->writes_passed < PASSED_MAX) {
        pal_write *write = runtime->writes_first;

        runtime->writes_first = write->next;
        if (!runtime->writes_first)
            runtime->writes_last = &runtime->writes_first;
        pass_on(runtime, write);
    }
}

static void on_written(pal_work_item *item)
{
    pal_write *write = write_of(item);
    pal_runtime *runtime = write->runtime;

    runtime->writes_passed--;
    if (runtime->blocked_write == write)
        runtime->blocked_write = NULL;
    write->done(write);
    pass_on_waiting(runtime);
}

void pal_runtime_write(pal_runtime *runtime, pal_write *write)
{
    write->runtime = runtime;
    write->failure = (pal_error){0};
    write->item = (pal_work_item){.work = apply_and_wait, .done = on_written};
    write->next = NULL;
    *runtime->writes_last = write;
    runtime->writes_last = &write->next;
    pass_on_waiting(runtime);
}

/* ---- The write of a turn ---- */

bool pal_turn_make_ops(pal_turn *turn)
{
    if (!turn->commit.ops)
        turn->commit.ops = pal_calloc(PAL_TURN_OPS_MAX, sizeof(*turn->commit.ops));
    return turn->commit.ops != NULL;
}

void pal_turn_add_op(pal_turn *turn, pal_op op)
{
    if (!pal_turn_make_ops(turn)) {
        turn->commit.ops_failure = PAL_NO_MEMORY; /* pal_turn_write() reports it */
        return;
    }
    op.tenant = turn->request.tenant;
    op.session = turn->request.session;
    op.fence = turn->lane->fence;
    op.with_previous = turn->commit.write.ops_len > 0;
    turn->commit.ops[turn->commit.write.ops_len++] = op;
}

void pal_turn_write(pal_turn *turn, void (*done)(pal_write *write))
{
    turn->commit.write.ops = turn->commit.ops;
    turn->commit.write.done = done;
    turn->holds++;
    if (turn->commit.ops_failure != PAL_OK) {
        turn->commit.ops_failure = PAL_OK;
        turn->commit.write.ops_len = 0;
        pal_no_memory(&turn->commit.write.failure);
        done(&turn->commit.write);
        return;
    }
    pal_runtime_write(turn->runtime, &turn->commit.write);
}

void pal_turn_add_outbox(pal_turn *turn, pal_record *record)
{
    pal_turn_add_op(
            turn, pal_op_record_put(turn->request.tenant, record, PAL_RECORD_VERSION_ANY));
}

void pal_turn_add_append(pal_turn *turn, const pal_turn_append *append)
{
    pal_message *own = append->messages + append->settled_len;
    size_t own_len = append->messages_len - append->settled_len;
    pal_op op = {.kind = PAL_OP_APPEND,
            .tenant = turn->request.tenant,
            .session = turn->request.session,
            .u.append = {.messages = append->messages,
                    .messages_len = append->messages_len,
                    .expected_seq = append->expected_seq ? append->expected_seq : PAL_SEQ_ANY,
                    .inbox_ids = append->inbox_ids,
                    .inbox_ids_len = append->inbox_len,
                    .ledger = append->ledger,
                    .ledger_len = append->ledger != NULL}};

    for (size_t i = 0; i < own_len && !pal_turn_is_note(turn); i++)
        own[i].turn_id = turn->owed.turn;
    if (turn->commit.stage != PAL_COMMIT_LAST)
        pal_last_commit_note(turn, own, own_len);
    if (append->epoch)
        pal_turn_add_op(
                turn, pal_op_mark(turn->request.tenant, turn->request.session, append->epoch));
    if (append->outbox)
        pal_turn_add_outbox(turn, append->outbox);
    if (append->epoch && append->outbox && turn->commit.ops)
        turn->commit.ops[turn->commit.write.ops_len - 1].with_previous = false;
    pal_turn_add_op(turn, op);
    if (append->epoch && !append->outbox && turn->commit.ops)
        turn->commit.ops[turn->commit.write.ops_len - 1].with_previous = false;
    if (append->record)
        pal_turn_add_op(turn,
                pal_op_record_put(turn->request.tenant, append->record, PAL_RECORD_VERSION_ANY));
    if (append->also)
        pal_turn_add_op(turn, *append->also);
    if (append->due)
        pal_memory_add_due(turn, append->due);
    if (append->gives_lease)
        pal_lease_add_release(turn);
}

void pal_turn_write_append(pal_turn *turn, const pal_turn_append *append)
{
    pal_turn_add_append(turn, append);
    pal_turn_write(turn, append->done);
}

void pal_turn_add_rewind(pal_turn *turn, uint64_t first_seq, uint64_t last_seq)
{
    turn->commit.mark =
            (pal_mark){.kind = PAL_MARK_REWIND, .seq = first_seq - 1, .target = last_seq};
    pal_turn_add_op(
            turn, pal_op_mark(turn->request.tenant, turn->request.session, &turn->commit.mark));
}

static bool is_beside(const pal_turn *turn, const pal_op *op)
{
    if (turn->phase == PAL_TURN_PHASE_ADMIT)
        return false; /* the session is created together with everything that belongs to it */
    if (op->kind == PAL_OP_MARK && op->u.mark == &turn->commit.epoch)
        return true;
    return (op->kind == PAL_OP_RECORD_PUT || op->kind == PAL_OP_RECORD_DROP) &&
            op->u.record.record != turn->commit.record &&
            op->u.record.record != turn->commit.outbox;
}

pal_status pal_turn_write_status(const pal_turn *turn, pal_error *out_error)
{
    if (turn->commit.write.failure.status != PAL_OK) {
        *out_error = turn->commit.write.failure;
        return out_error->status;
    }
    for (size_t i = 0; i < turn->commit.write.ops_len; i++) {
        if (turn->commit.ops[i].status == PAL_OK || is_beside(turn, &turn->commit.ops[i]))
            continue;
        *out_error = turn->commit.ops[i].error;
        out_error->status = turn->commit.ops[i].status;
        return out_error->status;
    }
    return PAL_OK;
}
