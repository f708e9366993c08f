/* test_store_async.c - asynchronous batches: each result is reported once and in order, and batches
 * share commits. */
#include "contract/contract.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

enum { BATCHES = 200 };

/* The reported results. Only the reporting thread writes to it; `done` orders the reads. */
typedef struct delivery {
    pal_op *ops;
    size_t ops_len;
    pal_status status;
    int times;
    uint64_t order;
    pthread_t thread;
    sem_t *done;
} delivery;

static uint64_t delivered_last;

static void deliver(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *why, void *user)
{
    delivery *self = user;

    (void)why;
    self->ops = ops;
    self->ops_len = ops_len;
    self->status = status;
    self->times++;
    self->order = ++delivered_last;
    self->thread = pthread_self();
    sem_post(self->done);
}

static pal_op append_op(pal_id session, pal_message *message)
{
    return (pal_op){.kind = PAL_OP_APPEND,
            .session = session,
            .u.append = {.messages = message, .messages_len = 1, .expected_seq = PAL_SEQ_ANY}};
}

static void a_batch_is_reported(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "a");
    pal_op op = append_op(new_session(), &message);
    sem_t done;
    delivery delivered = {.done = &done};

    sem_init(&done, 0, 0);
    OK(pal_store_apply_async(test.store, &op, 1, deliver, &delivered, &test.err));
    sem_wait(&done);
    CHECK_EQ(delivered.times, 1);
    CHECK_PTR(delivered.ops, &op);
    CHECK_EQ(delivered.ops_len, 1);
    CHECK_STATUS(delivered.status, PAL_OK);
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(message.seq, 1);
    CHECK(!pal_id_is_none(message.id));
    CHECK(shows(op.session, "a"));
    /* A backend that never waits has no other thread that could report. */
    CHECK_EQ(!!pthread_equal(delivered.thread, pthread_self()), !contract_is_durable());
    sem_destroy(&done);
}

static void a_batch_that_fails_its_checks_is_reported(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "a"), wrong = text_of(PAL_ROLE_NONE, "b");
    pal_id session = new_session();
    pal_op ops[] = {append_op(session, &wrong), append_op(session, &message)};
    sem_t done;
    delivery delivered = {.done = &done};

    sem_init(&done, 0, 0);
    OK(pal_store_apply_async(test.store, ops, 2, deliver, &delivered, &test.err));
    sem_wait(&done);
    CHECK_STATUS(ops[0].status, PAL_INVALID);
    CHECK_STATUS(ops[1].status, PAL_OK);
    CHECK(shows(session, "a"));
    OK(pal_store_apply_async(test.store, ops, 1, deliver, &delivered, &test.err));
    sem_wait(&done);
    CHECK_EQ(delivered.times, 2);
    CHECK_EQ(delivered.ops_len, 1);
    CHECK_STATUS(ops[0].status, PAL_INVALID);
    OK(pal_store_apply_async(test.store, NULL, 0, deliver, &delivered, &test.err));
    sem_wait(&done);
    CHECK_EQ(delivered.times, 3);
    CHECK_EQ(delivered.ops_len, 0);
    CHECK_STATUS(delivered.status, PAL_OK);
    sem_destroy(&done);
}

static void a_refused_batch_is_not_reported(void)
{
    pal_store_options options = {.read_only = true};
    pal_message message = text_of(PAL_ROLE_USER, "a");
    pal_op op = append_op(new_session(), &message);
    sem_t done;
    delivery delivered = {.done = &done};

    sem_init(&done, 0, 0);
    GIVES(PAL_LIMIT,
            pal_store_apply_async(
                    test.store, &op, PAL_BATCH_OPS_MAX + 1, deliver, &delivered, &test.err));
    contract_open_with(&options);
    GIVES(PAL_DENIED, pal_store_apply_async(test.store, &op, 1, deliver, &delivered, &test.err));
    CHECK_EQ(delivered.times, 0);
    CHECK_THAT(sem_trywait(&done), !=, 0);
    sem_destroy(&done);
}

static void batches_keep_their_order(void)
{
    static pal_message messages[BATCHES];
    static delivery delivered[BATCHES];
    static pal_op ops[BATCHES];
    pal_id session = new_session();
    pal_store_stats before, after;
    bool in_order = true;
    sem_t done;

    sem_init(&done, 0, 0);
    memset(delivered, 0, sizeof delivered);
    OK(pal_store_stat(test.store, test.arena, &before, &test.err));
    for (size_t i = 0; i < BATCHES; i++) {
        messages[i] = text_of(PAL_ROLE_USER, "x");
        ops[i] = append_op(session, &messages[i]);
        delivered[i].done = &done;
        OK(pal_store_apply_async(test.store, &ops[i], 1, deliver, &delivered[i], &test.err));
    }
    for (size_t i = 0; i < BATCHES; i++)
        sem_wait(&done);
    for (size_t i = 0; i < BATCHES; i++)
        in_order = in_order && messages[i].seq == i + 1 && delivered[i].times == 1 &&
                (i == 0 || delivered[i].order == delivered[i - 1].order + 1);
    CHECK(in_order);
    CHECK_EQ(get_session(session).last_seq, BATCHES);
    OK(pal_store_stat(test.store, test.arena, &after, &test.err));
    CHECK_EQ(after.ops - before.ops, BATCHES);
    sem_destroy(&done);
}

/* ---- With the writer held up ---- */

typedef struct gate {
    sem_t reached, open;
} gate;

/* No program may do this. It fills the queue without depending on timing. */
static void hold_writer(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *why, void *user)
{
    gate *self = user;

    (void)ops, (void)ops_len, (void)status, (void)why;
    sem_post(&self->reached);
    sem_wait(&self->open);
}

static void a_full_queue_refuses_and_is_committed_together(void)
{
    enum { QUEUE = PAL_COMMIT_QUEUE_MAX };
    pal_op *ops = pal_arena_array(test.arena, QUEUE + 2, sizeof *ops);
    pal_message *messages = pal_arena_array(test.arena, QUEUE + 2, sizeof *messages);
    pal_id session = new_session();
    pal_store_stats before, after;
    gate held;
    sem_t done;
    delivery delivered = {.done = &done};

    sem_init(&done, 0, 0);
    sem_init(&held.reached, 0, 0);
    sem_init(&held.open, 0, 0);
    for (size_t i = 0; i < QUEUE + 2; i++) {
        messages[i] = text_of(PAL_ROLE_USER, "x");
        ops[i] = append_op(session, &messages[i]);
    }
    OK(pal_store_apply_async(test.store, &ops[0], 1, hold_writer, &held, &test.err));
    sem_wait(&held.reached);
    OK(pal_store_stat(test.store, test.arena, &before, &test.err));
    for (size_t i = 1; i <= QUEUE; i++)
        OK(pal_store_apply_async(test.store, &ops[i], 1, deliver, &delivered, &test.err));
    GIVES(PAL_LIMIT,
            pal_store_apply_async(test.store, &ops[QUEUE + 1], 1, deliver, &delivered, &test.err));
    sem_post(&held.open);
    for (size_t i = 1; i <= QUEUE; i++)
        sem_wait(&done);
    CHECK_EQ(delivered.times, QUEUE);
    CHECK_EQ(messages[QUEUE].seq, QUEUE + 1);
    OK(pal_store_stat(test.store, test.arena, &after, &test.err));
    CHECK_EQ(after.ops - before.ops, QUEUE);
    CHECK_EQ(after.commits - before.commits, QUEUE / PAL_COMMIT_WORKS_MAX);
    OK(pal_store_apply_async(test.store, &ops[QUEUE + 1], 1, deliver, &delivered, &test.err));
    sem_wait(&done);
    CHECK_EQ(messages[QUEUE + 1].seq, QUEUE + 2);
    sem_destroy(&held.open);
    sem_destroy(&held.reached);
    sem_destroy(&done);
}

static void closing_reports_running_calls(void)
{
    static pal_message messages[BATCHES];
    static delivery delivered[BATCHES];
    static pal_op ops[BATCHES];
    pal_id session = new_session();
    size_t times = 0;
    sem_t done;

    sem_init(&done, 0, 0);
    memset(delivered, 0, sizeof delivered);
    for (size_t i = 0; i < BATCHES; i++) {
        messages[i] = text_of(PAL_ROLE_USER, "x");
        ops[i] = append_op(session, &messages[i]);
        delivered[i].done = &done;
        OK(pal_store_apply_async(test.store, &ops[i], 1, deliver, &delivered[i], &test.err));
    }
    contract_reopen_store();
    for (size_t i = 0; i < BATCHES; i++)
        times += delivered[i].times == 1 && ops[i].status == PAL_OK;
    CHECK_EQ(times, BATCHES);
    if (contract_is_durable())
        CHECK_EQ(get_session(session).last_seq, BATCHES);
    sem_destroy(&done);
}

typedef struct waiter {
    pal_id session;
    int failures;
} waiter;

static void *append_and_wait(void *user)
{
    waiter *self = user;

    for (int i = 0; i < BATCHES / 4; i++) {
        /* Not by text_of(), since the arena belongs to the main thread. */
        pal_part part = {.kind = PAL_PART_TEXT, .text = S("w")};
        pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
        pal_error ignored;

        self->failures += pal_store_append(test.store, no_tenant(), self->session, &message, 1,
                                  (uint64_t)i, &ignored) != PAL_OK;
    }
    return NULL;
}

/* Synchronous and asynchronous calls share the same commits. */
static void both_kinds_of_callers_meet(void)
{
    static pal_message messages[BATCHES];
    static delivery delivered[BATCHES];
    static pal_op ops[BATCHES];
    waiter waiters[3] = {
            {.session = new_session()}, {.session = new_session()}, {.session = new_session()}};
    pal_id session = new_session();
    pthread_t threads[3];
    sem_t done;

    sem_init(&done, 0, 0);
    memset(delivered, 0, sizeof delivered);
    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, append_and_wait, &waiters[i]);
    for (size_t i = 0; i < BATCHES; i++) {
        messages[i] = text_of(PAL_ROLE_USER, "x");
        ops[i] = append_op(session, &messages[i]);
        delivered[i].done = &done;
        OK(pal_store_apply_async(test.store, &ops[i], 1, deliver, &delivered[i], &test.err));
    }
    for (size_t i = 0; i < BATCHES; i++)
        sem_wait(&done);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(waiters[i].failures, 0);
        CHECK_EQ(get_session(waiters[i].session).last_seq, BATCHES / 4);
    }
    CHECK_EQ(get_session(session).last_seq, BATCHES);
    CHECK_EQ(messages[BATCHES - 1].seq, BATCHES);
    sem_destroy(&done);
}

void contract_async(void)
{
    RUN(a_batch_is_reported);
    RUN(a_batch_that_fails_its_checks_is_reported);
    RUN(a_refused_batch_is_not_reported);
    RUN(batches_keep_their_order);
    if (contract_is_durable())
        RUN(a_full_queue_refuses_and_is_committed_together);
    RUN(closing_reports_running_calls);
    RUN(both_kinds_of_callers_meet);
}
