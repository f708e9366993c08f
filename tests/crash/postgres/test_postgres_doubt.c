/* test_postgres_doubt.c - what the caller learns about a batch in doubt.
 *
 * An answer is lost, and another process takes the lease of the session before the writer asks what
 * happened: the writes count, and the fence that the caller gets is not valid anymore. Or the
 * statements succeed and the commit fails: nothing is acknowledged that was not written. Or the commit
 * succeeds with the warning that no replica has it: it is not acknowledged before one does. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "postgres_ask.h"
#include "postgres_proxy.h"
#include "palaver/palaver.h"
#include "palaver/store_batch.h"
#include "palaver/store_turns.h"
#include "support/scratch.h"
#include "support/tap.h"

#define MESSAGES_MAX 100
#define LEASE_MS 1000

static pal_status append_one(pal_store *store, pal_id session, uint64_t fence, uint64_t *out_seq)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_op op = pal_op_append((pal_str){0}, session, &message, 1, PAL_SEQ_ANY);
    pal_error err = {0};
    pal_status status;

    op.fence = fence;
    status = pal_store_apply(store, &op, 1, &err);
    *out_seq = message.seq;
    return status == PAL_OK ? op.status : status;
}

static size_t count_messages(pal_store *store, pal_id session)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message_page page = {0};
    pal_error err = {0};

    CHECK_STATUS(pal_store_load(store, (pal_str){0}, session, NULL, arena, &page, &err), PAL_OK,
            &err);
    pal_arena_free(arena);
    return page.len;
}

static pal_store *through, *direct;
static pal_id leased;
static unsigned owners; /* owners that take the lease after the commit */
static uint64_t last_fence;
static bool was_committed;

/* Called while the answer is held back. */
static void change_owner(void)
{
    uint64_t seq;

    was_committed = false;
    for (int i = 0; i < 20 && !was_committed; i++) {
        was_committed = count_messages(direct, leased) > 0;
        if (!was_committed)
            usleep(5000);
    }
    for (unsigned i = 0; was_committed && i < owners; i++) {
        char name[16];

        snprintf(name, sizeof name, "other%u", i);
        pal_clock_set_ms(pal_clock_now_ms() + 2 * LEASE_MS);
        CHECK_STATUS(pal_store_lease_take(direct, (pal_str){0}, leased, pal_str_of(name), LEASE_MS,
                             &last_fence, NULL), PAL_OK);
        CHECK_STATUS(append_one(direct, leased, last_fence, &seq), PAL_OK);
        CHECK_EQ(seq, i + 2);
    }
}

/* Takes the lease and appends, while the nth message of the flight is the last that arrives. */
static bool check_lost_answer(unsigned nth)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("mine")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_session wanted = {0};
    pal_op ops[2];
    uint64_t fence, seq;
    pal_error err = {0};
    bool is_cut;

    CHECK_STATUS(pal_store_create(through, &wanted, &leased, &err), PAL_OK, &err);
    ops[0] = pal_op_lease_take((pal_str){0}, leased, pal_str_of("me"), LEASE_MS);
    ops[1] = pal_op_append((pal_str){0}, leased, &message, 1, PAL_SEQ_ANY);
    ops[1].with_previous = true;
    was_committed = false;
    postgres_proxy_arm(nth, CUT_AFTER);
    CHECK_STATUS(pal_store_apply(through, ops, 2, &err), PAL_OK, &err);
    is_cut = postgres_proxy_fired();
    postgres_proxy_arm(0, CUT_AFTER);
    CHECK_STATUS(ops[0].status, PAL_OK, &ops[0].error);
    CHECK_STATUS(ops[1].status, PAL_OK, &ops[1].error);
    CHECK_EQ(message.seq, 1);
    fence = ops[0].u.lease.fence;
    if (was_committed && owners > 0) {
        CHECK_THAT(fence, <, last_fence);
        CHECK_STATUS(append_one(through, leased, fence, &seq), PAL_DENIED);
        CHECK_STATUS(append_one(direct, leased, last_fence, &seq), PAL_OK);
        CHECK_EQ(count_messages(direct, leased), owners + 2);
    } else {
        CHECK_STATUS(append_one(through, leased, fence, &seq), PAL_OK);
        CHECK_EQ(count_messages(direct, leased), 2);
    }
    return is_cut;
}

static void a_lost_answer_does_not_give_a_lease_back(void)
{
    for (owners = 0; owners <= 2; owners++) {
        unsigned nth = 1, commits = 0;

        postgres_proxy_set_hook(change_owner);
        while (nth < MESSAGES_MAX && check_lost_answer(nth)) {
            nth++;
            commits += was_committed;
        }
        postgres_proxy_set_hook(NULL);
        CHECK_THAT(nth, >=, 8);
        CHECK_THAT(commits, >=, 1);
        printf("# %u owners: %u cuts, %u after a commit\n", owners, nth - 1, commits);
    }
    pal_clock_set_ms(0);
}

/* A trigger makes the first commits of a message fail, after its statements have succeeded. */
static void check_failing_commit(const char *how)
{
    pal_session wanted = {0};
    char function[400];
    pal_error err = {0};
    uint64_t seq = 0;
    pal_id session;

    CHECK_STATUS(pal_store_create(direct, &wanted, &session, &err), PAL_OK, &err);
    CHECK_STATUS(append_one(direct, session, 0, &seq), PAL_OK);
    snprintf(function, sizeof function,
            "CREATE FUNCTION palaver.fail_first() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN IF nextval(''palaver.failures'') < 2 THEN %s; END IF; RETURN NULL; END'", how);
    postgres_ask("CREATE SEQUENCE palaver.failures");
    postgres_ask(function);
    postgres_ask("CREATE CONSTRAINT TRIGGER fail_first AFTER INSERT ON palaver.message"
                 " DEFERRABLE INITIALLY DEFERRED"
                 " FOR EACH ROW EXECUTE FUNCTION palaver.fail_first()");
    CHECK_STATUS(append_one(direct, session, 0, &seq), PAL_OK);
    CHECK_EQ(seq, 2);
    CHECK_EQ(postgres_ask("SELECT last_value FROM palaver.failures"), 2);
    postgres_ask("DROP FUNCTION palaver.fail_first() CASCADE");
    postgres_ask("DROP SEQUENCE palaver.failures");
    CHECK_EQ(count_messages(direct, session), 2);
    CHECK_STATUS(append_one(direct, session, 0, &seq), PAL_OK);
    CHECK_EQ(seq, 3);
}

static void a_commit_that_fails_is_not_acknowledged(void)
{
    check_failing_commit("PERFORM pg_terminate_backend(pg_backend_pid())");
    check_failing_commit("RAISE EXCEPTION ''not now''");
}

/* ---- A commit with a warning ---- */

#define WAIT_US (30 * 1000 * 1000)

typedef enum write_kind { WRITE_SINGLE, WRITE_DOUBLE, WRITE_ERASURE, WRITE_KINDS } write_kind;

static struct waiting_write {
    write_kind kind;
    pal_id session, erased;
    pal_status status;
    uint64_t seq;
    atomic_bool is_done;
} waiting;

static const char waits[] = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/* Appends alone, in one flight; with a mark, in two; or after an erasure, in more. */
static void *write_one(void *argument)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_mark mark = {.kind = PAL_MARK_EPOCH, .body = pal_str_of("{}")};
    pal_erase_result erasure = {0};
    pal_op ops[2] = {pal_op_append((pal_str){0}, waiting.session, &message, 1, PAL_SEQ_ANY)};
    pal_error err = {0};

    (void)argument;
    if (waiting.kind == WRITE_DOUBLE)
        ops[1] = pal_op_mark((pal_str){0}, waiting.session, &mark);
    if (waiting.kind == WRITE_ERASURE) {
        ops[1] = ops[0];
        ops[0] = pal_op_erase((pal_str){0}, waiting.erased, &erasure);
    }
    ops[1].with_previous = true;
    waiting.status = pal_store_apply(direct, ops, waiting.kind == WRITE_SINGLE ? 1 : 2, &err);
    for (int i = 0; i < 2; i++)
        if (waiting.status == PAL_OK)
            waiting.status = ops[i].status;
    waiting.seq = message.seq;
    atomic_store(&waiting.is_done, true);
    return NULL;
}

/* Waits until a server process waits for its replica, or the write has returned. */
static bool waits_for_replica(void)
{
    int64_t until_us = pal_clock_monotonic_us() + WAIT_US;

    while (postgres_ask(waits) == 0 && !atomic_load(&waiting.is_done) &&
            pal_clock_monotonic_us() < until_us)
        usleep(10000);
    return !atomic_load(&waiting.is_done) && postgres_ask(waits) > 0;
}

static void set_replica(const char *name)
{
    char statement[100];

    snprintf(statement, sizeof statement, "ALTER SYSTEM SET synchronous_standby_names = '%s'",
            name);
    postgres_ask(statement);
    postgres_ask("SELECT pg_reload_conf()::int");
    while (postgres_ask("SELECT count(*) FROM pg_settings WHERE name = 'synchronous_standby_names'"
                        " AND setting <> ''") != (*name != '\0'))
        usleep(10000);
}

/* The wait for the replica is canceled twice: that of the write, and that of the check which
 * follows. Both commits succeed with a warning. */
static void check_warning(write_kind kind)
{
    pal_session wanted = {0};
    pal_error err = {0};
    pthread_t thread;
    uint64_t seq;

    waiting = (struct waiting_write){.kind = kind};
    CHECK_STATUS(pal_store_create(direct, &wanted, &waiting.session, &err), PAL_OK, &err);
    CHECK_STATUS(pal_store_create(direct, &wanted, &waiting.erased, &err), PAL_OK, &err);
    CHECK_STATUS(append_one(direct, waiting.session, 0, &seq), PAL_OK);
    set_replica("nobody");
    CHECK_EQ(pthread_create(&thread, NULL, write_one, NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK(waits_for_replica());
        postgres_ask("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity"
                     " WHERE wait_event = 'SyncRep'");
    }
    CHECK(waits_for_replica()); /* still not acknowledged */
    CHECK_EQ(count_messages(through, waiting.session), 2); /* but committed */
    set_replica("");
    pthread_join(thread, NULL);
    CHECK_STATUS(waiting.status, PAL_OK);
    CHECK_EQ(waiting.seq, 2);
    CHECK_EQ(count_messages(direct, waiting.session), 2);
}

static void a_commit_with_a_warning_is_in_doubt(void)
{
    for (int kind = 0; kind < WRITE_KINDS; kind++)
        check_warning((write_kind)kind);
}

int main(void)
{
    char directory[SCRATCH_PATH_MAX], url[SCRATCH_PATH_MAX + 64];
    const char *server_dir = getenv("PALAVER_TEST_POSTGRES_DIR");
    pal_error err = {0};

    if (!server_dir)
        return 77; /* tools/pg-test did not start a server */
    scratch_make(false, directory);
    snprintf(url, sizeof url, "postgres://postgres@/palaver?host=%s", directory);
    if (!CHECK(postgres_proxy_start(directory, server_dir)) ||
            !CHECK_STATUS(pal_store_open(url, NULL, &through, &err), PAL_OK, &err) ||
            !CHECK_STATUS(pal_store_open(getenv("PALAVER_TEST_POSTGRES"), NULL, &direct, &err),
                    PAL_OK, &err))
        return 1;
    RUN(a_lost_answer_does_not_give_a_lease_back);
    RUN(a_commit_that_fails_is_not_acknowledged);
    RUN(a_commit_with_a_warning_is_in_doubt);
    pal_store_close(through);
    pal_store_close(direct);
    scratch_clear(directory, true);
    return tap_done();
}
