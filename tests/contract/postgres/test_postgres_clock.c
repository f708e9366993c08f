/* test_postgres_clock.c - three processes on one database whose clocks differ by minutes. Leases,
 * expiries and the trash go by the clock of the database, so each of them respects what the others
 * wrote. The server is that of tools/pg-test. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "palaver/palaver.h"
#include "support/clock_shift.h"
#include "support/tap.h"

#define S(text) pal_str_of(text)
#define MINUTE_MS (60 * 1000)
#define LEASE_MS MINUTE_MS /* longer than this test needs between two steps */
#define SHORT_MS 50

enum { NODES = 3 };

static struct node {
    pal_store *store;
    const char *name;
    int64_t shift_ms;
} nodes[NODES] = {
        {.name = "right", .shift_ms = 0},
        {.name = "ahead", .shift_ms = 7 * MINUTE_MS},
        {.name = "behind", .shift_ms = -7 * MINUTE_MS},
};

static struct fixture {
    pal_arena *arena;
    pal_error err;
} test;

/* Returns the node's store. From now on the process has the clock of this node. */
static pal_store *as(const struct node *node)
{
    clock_shift(node->shift_ms);
    return node->store;
}

static bool open_stores(void)
{
    const char *server = getenv("PALAVER_TEST_POSTGRES");
    char url[500];

    if (!server) {
        printf("1..0 # SKIP tools/pg-test did not start a server\n");
        return false;
    }
    snprintf(url, sizeof(url), "%s&schema=clock%d", server, (int)getpid());
    test.arena = pal_arena_new(0);
    for (int i = 0; i < NODES; i++) {
        clock_shift(nodes[i].shift_ms);
        if (!OK(pal_store_open(url, NULL, &nodes[i].store, &test.err)))
            return false;
    }
    return true;
}

static pal_id new_session(const struct node *node, const char *key, int64_t expires_at)
{
    pal_session session = {.key = S(key), .expires_at = expires_at};
    pal_id id = {{0}};

    OK(pal_store_create(as(node), &session, &id, &test.err));
    return id;
}

static int64_t difference_ms(const struct node *node)
{
    int64_t shown_ms = pal_store_clock_ms(as(node));

    clock_shift(0);
    return llabs(pal_clock_now_ms() - shown_ms);
}

static void all_nodes_have_the_time_of_the_database(void)
{
    for (int i = 0; i < NODES; i++)
        CHECK_THAT(difference_ms(&nodes[i]), <, MINUTE_MS);
}

/* The clock of a machine is set while the process runs. */
static void a_changed_clock_does_not_matter(void)
{
    struct node moved = nodes[1];

    for (moved.shift_ms = -20 * MINUTE_MS; moved.shift_ms <= 20 * MINUTE_MS;
            moved.shift_ms += 10 * MINUTE_MS)
        CHECK_THAT(difference_ms(&moved), <, MINUTE_MS);
}

/* A test that stops the clock sees the time that it has set, plus what its machine is wrong by. */
static void a_time_that_a_test_sets_counts(void)
{
    pal_clock_set_ms(1800000000000);
    CHECK_EQ(pal_store_clock_ms(as(&nodes[0])), 1800000000000);
    CHECK_THAT(llabs(pal_store_clock_ms(as(&nodes[1])) + 7 * MINUTE_MS - 1800000000000), <,
            MINUTE_MS);
    pal_clock_set_ms(0);
}

/* Takes the lease alone, which is a single flight, or together with a mark, which needs two. */
static pal_status take(const struct node *node, pal_id session, int64_t ttl_ms, bool marks,
        uint64_t *out_fence)
{
    pal_mark mark = {.kind = PAL_MARK_EPOCH, .body = S("{}")};
    pal_op ops[2] = {pal_op_lease_take(S(""), session, S(node->name), ttl_ms),
            pal_op_mark(S(""), session, &mark)};

    OK(pal_store_apply(as(node), ops, marks ? 2 : 1, &test.err));
    *out_fence = ops[0].u.lease.fence;
    return ops[0].status;
}

static void check_lease(const struct node *owner, const struct node *other, bool marks)
{
    pal_id session = new_session(owner, "", 0);
    int64_t since_us = pal_clock_monotonic_us();
    uint64_t fence = 0, next = 0;
    pal_status status;

    CHECK_STATUS(take(owner, session, LEASE_MS, marks, &fence), PAL_OK, &test.err);
    CHECK_STATUS(take(other, session, LEASE_MS, marks, &next), PAL_BUSY);
    CHECK_STATUS(take(owner, session, LEASE_MS, marks, &next), PAL_OK, &test.err); /* a renewal */
    CHECK_EQ(next, fence);
    CHECK_STATUS(take(other, session, LEASE_MS, marks, &next), PAL_BUSY);
    OK(pal_store_lease_release(as(owner), S(""), session, fence, &test.err));
    CHECK_STATUS(take(other, session, SHORT_MS, marks, &next), PAL_OK, &test.err);
    CHECK_EQ(next, fence + 1);
    do
        status = take(owner, session, LEASE_MS, marks, &next);
    while (status == PAL_BUSY && pal_clock_monotonic_us() - since_us < MINUTE_MS * 1000);
    CHECK_STATUS(status, PAL_OK, &test.err);
    CHECK_EQ(next, fence + 2);
}

static void a_lease_is_held_for_all(void)
{
    for (int owner = 0; owner < NODES; owner++)
        for (int other = 0; other < NODES; other++)
            for (int marks = 0; other != owner && marks < 2; marks++)
                check_lease(&nodes[owner], &nodes[other], marks != 0);
}

static pal_status find(const struct node *node, const char *key)
{
    pal_session found;

    return pal_store_find(
            as(node), S(""), PAL_SESSION_BY_KEY, S(key), test.arena, &found, &test.err);
}

static pal_sweep_result sweep(const struct node *node, int64_t trash_ms)
{
    pal_sweep_result swept = {0};

    OK(pal_store_sweep(as(node), trash_ms, 100, &swept, &test.err));
    return swept;
}

static void a_session_expires_for_all(void)
{
    for (int owner = 0; owner < NODES; owner++) {
        const struct node *node = &nodes[owner];
        int64_t now_ms = pal_store_clock_ms(as(node));
        char soon[16], past[16];

        snprintf(soon, sizeof(soon), "soon %d", owner);
        snprintf(past, sizeof(past), "past %d", owner);
        new_session(node, soon, now_ms + MINUTE_MS);
        new_session(node, past, now_ms - MINUTE_MS);
        for (int other = 0; other < NODES; other++) {
            CHECK_STATUS(find(&nodes[other], soon), PAL_OK, &test.err);
            CHECK_STATUS(find(&nodes[other], past), PAL_NOT_FOUND);
        }
        CHECK_EQ(sweep(&nodes[(owner + 1) % NODES], -1).trashed, 1);
        CHECK_EQ(sweep(&nodes[(owner + 2) % NODES], -1).trashed, 0);
        CHECK_STATUS(find(node, soon), PAL_OK, &test.err);
    }
}

/* The sessions are deleted now, so they stay in the trash for another minute. */
static void the_trash_is_kept_for_all(void)
{
    for (int owner = 0; owner < NODES; owner++) {
        OK(pal_store_delete(as(&nodes[owner]), S(""), new_session(&nodes[owner], "", 0), &test.err));
        for (int other = 0; other < NODES; other++)
            CHECK_EQ(sweep(&nodes[other], MINUTE_MS).erased, 0);
    }
}

static void a_record_expires_for_all(void)
{
    for (int owner = 0; owner < NODES; owner++) {
        pal_record record = {.kind = S("kind"), .name = S(nodes[owner].name), .body = S("{}")};

        record.expires_at = pal_store_clock_ms(as(&nodes[owner])) + MINUTE_MS;
        OK(pal_store_record_put(as(&nodes[owner]), S(""), &record, 0, &test.err));
        for (int other = 0; other < NODES; other++) {
            pal_record found;

            sweep(&nodes[other], -1);
            CHECK_STATUS(pal_store_record_find(as(&nodes[other]), S(""), record.kind, record.name,
                                 test.arena, &found, &test.err), PAL_OK, &test.err);
            CHECK_STATUS(pal_store_record_put(as(&nodes[other]), S(""), &record, 0, &test.err),
                    PAL_CONFLICT);
        }
    }
}

/* A message says when it came, by one clock for all of them. */
static void messages_have_the_time_of_the_database(void)
{
    pal_id session = new_session(&nodes[0], "", 0);
    int64_t last_ms = 0;

    for (int i = 0; i < NODES; i++) {
        pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, S("hello")), found;
        char id[PAL_ID_TEXT_SIZE];
        pal_session info = {0};

        OK(pal_store_append(
                as(&nodes[i]), S(""), session, &message, 1, PAL_SEQ_ANY, &test.err));
        OK(pal_store_message(as(&nodes[i]), S(""), message.id, test.arena, &found, NULL, &test.err));
        if (last_ms > 0)
            CHECK_THAT(llabs(found.created_at - last_ms), <, MINUTE_MS);
        last_ms = found.created_at;
        pal_id_to_text(session, id);
        OK(pal_store_find(as(&nodes[i]), S(""), PAL_SESSION_BY_ID, S(id), test.arena, &info,
                &test.err));
        CHECK_THAT(llabs(info.updated_at - last_ms), <, MINUTE_MS);
    }
}

int main(void)
{
    if (!open_stores())
        return 0;
    RUN(all_nodes_have_the_time_of_the_database);
    RUN(a_changed_clock_does_not_matter);
    RUN(a_time_that_a_test_sets_counts);
    RUN(a_lease_is_held_for_all);
    RUN(a_session_expires_for_all);
    RUN(the_trash_is_kept_for_all);
    RUN(a_record_expires_for_all);
    RUN(messages_have_the_time_of_the_database);
    for (int i = 0; i < NODES; i++)
        pal_store_close(as(&nodes[i]));
    pal_arena_free(test.arena);
    return tap_done();
}
