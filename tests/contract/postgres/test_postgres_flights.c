/* test_postgres_flights.c - how many round trips to the server an operation needs, and what happens
 * to operations that do not fit into a single flight. The server is that of tools/pg-test. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "palaver/palaver.h"
#include "store/postgres/postgres.h"
#include "support/tap.h"

#define S(text) pal_str_of(text)
#define WAIT_MS 60000

static struct fixture {
    pal_store *store;
    pal_arena *arena;
    pal_error err;
    pal_id session;
    uint64_t flights;
} test;

static uint64_t flights(void)
{
    return atomic_load(&((pal_postgres *)*pal_store_engine(test.store))->flights);
}

/* Returns how many flights were sent since the last call. */
static uint64_t flights_since(void)
{
    uint64_t before = test.flights;

    test.flights = flights();
    return test.flights - before;
}

static bool open_store(void)
{
    const char *server = getenv("PALAVER_TEST_POSTGRES");
    char url[500];

    if (!server) {
        printf("1..0 # SKIP tools/pg-test did not start a server\n");
        return false;
    }
    snprintf(url, sizeof(url), "%s&schema=flights%d", server, (int)getpid());
    test.arena = pal_arena_new(0);
    return OK(pal_store_open(url, NULL, &test.store, &test.err));
}

/* Every statement has been prepared and the tenant is known, once this has run. */
static void begin(void)
{
    pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, S("first"));

    OK(pal_store_create(test.store, &(pal_session){0}, &test.session, &test.err));
    OK(pal_store_append(
            test.store, S(""), test.session, &message, 1, PAL_SEQ_ANY, &test.err));
    flights_since();
}

static pal_message said(const char *text, const char *client_id)
{
    pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, S(text));

    message.client_id = S(client_id);
    return message;
}

static void an_append_is_one_flight(void)
{
    pal_message messages[3] = {said("a", "1"), said("b", "2"), said("c", "3")};

    begin();
    OK(pal_store_append(test.store, S(""), test.session, messages, 3, 1, &test.err));
    CHECK_EQ(flights_since(), 1);
    CHECK_EQ(messages[0].seq, 2);
    CHECK_EQ(messages[2].seq, 4);
}

static void a_batch_of_sessions_is_one_flight(void)
{
    pal_message messages[8];
    pal_id sessions[4];
    pal_op ops[8];

    begin();
    for (size_t i = 0; i < 4; i++)
        OK(pal_store_create(test.store, &(pal_session){0}, &sessions[i], &test.err));
    flights_since();
    for (size_t i = 0; i < 8; i++) {
        messages[i] = said("text", "");
        ops[i] = pal_op_append(S(""), sessions[i % 4], &messages[i], 1, i / 4);
    }
    OK(pal_store_apply(test.store, ops, 8, &test.err));
    CHECK_EQ(flights_since(), 1);
    for (size_t i = 0; i < 8; i++) {
        CHECK_STATUS(ops[i].status, PAL_OK, &ops[i].error);
        CHECK_EQ(messages[i].seq, i / 4 + 1);
    }
}

static void the_commits_of_a_turn_are_one_flight_each(void)
{
    pal_ledger_row row = {.request_id = S("request"), .usage = {.input = 5}, .agent = S("agent")};
    pal_message question = said("question", "q"), answer = said("answer", "");
    pal_ledger_sum sum;
    pal_op ops[2];
    uint64_t fence;

    begin();
    ops[0] = pal_op_lease_take(S(""), test.session, S("me"), 30000);
    ops[1] = pal_op_append(S(""), test.session, &question, 1, PAL_SEQ_ANY);
    ops[1].with_previous = true;
    OK(pal_store_apply(test.store, ops, 2, &test.err));
    CHECK_EQ(flights_since(), 1);
    CHECK_STATUS(ops[1].status, PAL_OK, &ops[1].error);
    fence = ops[0].u.lease.fence;
    CHECK_EQ(fence, 1);
    ops[0] = pal_op_append(S(""), test.session, &answer, 1, PAL_SEQ_ANY);
    ops[0].fence = fence;
    ops[0].u.append.ledger = &row;
    ops[0].u.append.ledger_len = 1;
    ops[1] = pal_op_lease_release(S(""), test.session, fence);
    ops[1].with_previous = true;
    OK(pal_store_apply(test.store, ops, 2, &test.err));
    CHECK_EQ(flights_since(), 1);
    CHECK_STATUS(ops[1].status, PAL_OK, &ops[1].error);
    CHECK_EQ(answer.seq, 3);
    OK(pal_store_ledger_sum(
            test.store, &(pal_ledger_query){.agent = S("agent")}, &sum, &test.err));
    CHECK_EQ(sum.usage.input, 5);
    CHECK_EQ(sum.calls, 1);
}

/* An operation that is rejected does not affect the others of the batch, and says why. */
static void rejected_operations_say_why(void)
{
    pal_message messages[3] = {said("a", ""), said("b", ""), said("c", "")};
    pal_id other;
    pal_op ops[3];

    begin();
    OK(pal_store_create(test.store, &(pal_session){0}, &other, &test.err));
    ops[0] = pal_op_append(S(""), test.session, &messages[0], 1, 7);
    ops[1] = pal_op_append(S(""), other, &messages[1], 1, PAL_SEQ_ANY);
    ops[2] = pal_op_append(S(""), pal_id_new(), &messages[2], 1, PAL_SEQ_ANY);
    OK(pal_store_apply(test.store, ops, 3, &test.err));
    CHECK_STATUS(ops[0].status, PAL_CONFLICT);
    CHECK_STR(ops[0].error.message, "the last seq is 1, not 7");
    CHECK_STATUS(ops[1].status, PAL_OK, &ops[1].error);
    CHECK_STATUS(ops[2].status, PAL_NOT_FOUND);
    CHECK_EQ(messages[1].seq, 1);
}

static void a_lease_has_one_owner_and_growing_fences(void)
{
    pal_lease lease;

    begin();
    OK(pal_store_lease_take(
            test.store, S(""), test.session, S("a"), 30000, &lease.fence, &test.err));
    CHECK_EQ(lease.fence, 1);
    CHECK_STATUS(pal_store_lease_take(test.store, S(""), test.session, S("b"), 30000,
                         &lease.fence, &test.err),
            PAL_BUSY);
    CHECK_STR(test.err.message, "'a' holds the lease");
    OK(pal_store_lease_take(
            test.store, S(""), test.session, S("a"), 30000, &lease.fence, &test.err));
    CHECK_EQ(lease.fence, 1);
    OK(pal_store_lease_release(test.store, S(""), test.session, 1, &test.err));
    OK(pal_store_lease_take(
            test.store, S(""), test.session, S("b"), 30000, &lease.fence, &test.err));
    CHECK_EQ(lease.fence, 2);
}

/* A repeated client id fails the flight by its unique index; two flights find the first message. */
static void a_repeated_message_is_found(void)
{
    pal_message first = said("a", "same"), again = said("a", "same"), other = said("b", "other");

    begin();
    OK(pal_store_append(test.store, S(""), test.session, &first, 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_append(test.store, S(""), test.session, &again, 1, PAL_SEQ_ANY, &test.err));
    CHECK_EQ(again.seq, first.seq);
    CHECK_ID(again.id, first.id);
    flights_since();
    for (int i = 0; i < 20; i++) {
        other = said("b", "");
        OK(pal_store_append(
                test.store, S(""), test.session, &other, 1, PAL_SEQ_ANY, &test.err));
    }
    CHECK_EQ(flights_since(), 16 * 2 + 4); /* two flights for a while, to be safe */
}

/* Bytes that no other call has returned. */
static pal_str bytes_of(size_t len)
{
    char *bytes = pal_arena_alloc(test.arena, len);
    static char next = 'a';

    memset(bytes, next++, len);
    return pal_str_make(bytes, len);
}

static void many_bytes_are_several_batches(void)
{
    pal_message messages[6];
    pal_op ops[6];

    begin();
    for (size_t i = 0; i < 6; i++) {
        messages[i] = pal_message_text(test.arena, PAL_ROLE_USER, bytes_of(3 << 20));
        ops[i] = pal_op_append(S(""), test.session, &messages[i], 1, i + 1);
    }
    OK(pal_store_apply(test.store, ops, 6, &test.err));
    CHECK_EQ(flights_since(), 3); /* two messages each */
    for (size_t i = 0; i < 6; i++) {
        CHECK_STATUS(ops[i].status, PAL_OK, &ops[i].error);
        CHECK_EQ(messages[i].seq, i + 2);
    }
    for (size_t i = 0; i < 6; i++) {
        messages[i] = pal_message_text(test.arena, PAL_ROLE_USER, bytes_of(3 << 20));
        ops[i] = pal_op_append(S(""), test.session, &messages[i], 1, i + 7);
        ops[i].with_previous = i > 0;
    }
    OK(pal_store_apply(test.store, ops, 6, &test.err));
    CHECK_EQ(flights_since(), 1); /* a group is not divided */
    CHECK_STATUS(ops[5].status, PAL_OK, &ops[5].error);
}

static void append_file(pal_str data)
{
    pal_part part = {.kind = PAL_PART_FILE, .media_type = S("application/pdf"), .data = data};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    flights_since();
    OK(pal_store_append(test.store, S(""), test.session, &message, 1, PAL_SEQ_ANY, &test.err));
}

/* A large blob is stored before: its row, then up to four parts in each flight, then COMMIT. */
static void a_large_blob_is_not_in_the_batch(void)
{
    pal_str large;

    begin();
    append_file(bytes_of(256 << 10));
    CHECK_EQ(flights_since(), 2);
    large = bytes_of((256 << 10) + 1);
    append_file(large);
    CHECK_EQ(flights_since(), 2 + 3);
    append_file(large);
    CHECK_EQ(flights_since(), 2 + 2); /* it exists */
    append_file(bytes_of((4 << 20) + 1));
    CHECK_EQ(flights_since(), 2 + 4);
}

static atomic_bool is_applied;

static void on_applied(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    (void)err;
    (void)user;
    CHECK_STATUS(status, PAL_OK);
    CHECK_EQ(ops_len, 1);
    CHECK_STATUS(ops[0].status, PAL_OK);
    atomic_store(&is_applied, true);
}

/* A caller that may not block cannot store the blob itself. */
static void a_large_blob_of_an_event_loop_is_not_in_the_batch(void)
{
    pal_op op = pal_op_blob_put(S(""), S("text/plain"), bytes_of(1 << 20));

    begin();
    OK(pal_store_apply_async(test.store, &op, 1, on_applied, NULL, &test.err));
    while (!atomic_load(&is_applied))
        usleep(1000);
    CHECK_EQ(flights_since(), 2 + 3);
}

static void the_newest_messages_are_one_flight(void)
{
    pal_message_query load = {.limit = 50, .from_end = true};
    pal_message_page page;
    pal_message messages[70];

    begin();
    for (size_t i = 0; i < 70; i++)
        messages[i] = said("text", "");
    OK(pal_store_append(test.store, S(""), test.session, messages, 70, PAL_SEQ_ANY, &test.err));
    flights_since();
    OK(pal_store_load(test.store, S(""), test.session, &load, test.arena, &page, &test.err));
    CHECK_EQ(flights_since(), 1);
    CHECK_EQ(page.len, 50);
    CHECK_EQ(page.items[0].seq, 22);
    CHECK_EQ(page.items[49].seq, 71);
    CHECK(page.has_more);
}

/* ---- A turn ---- */

static void run_turn(pal_runtime *runtime, const char *text)
{
    pal_message message = said(text, "");
    pal_turn_request request = {
            .session = test.session, .messages = &message, .messages_len = 1};
    pal_turn_info info;
    pal_str answer;

    OK(pal_turn_start(runtime, &request, &info, &test.err));
    OK(pal_turn_wait(
            runtime, S(""), info.turn, WAIT_MS, test.arena, &info, &answer, &test.err));
    CHECK_EQ(info.state, PAL_TURN_DONE);
}

/* Before the model is called: all that the turn and its plan need of the session; the first commit.
 * After it: the answer. */
static void a_turn_is_three_flights(void)
{
    pal_endpoint endpoint = {.kind = S("echo"), .model = S("echo")};
    pal_runtime_options options = {
            .store = test.store, .endpoints = &endpoint, .endpoints_len = 1};
    pal_runtime *runtime = NULL;

    begin();
    OK(pal_runtime_open(&options, &runtime, &test.err));
    run_turn(runtime, "first");
    run_turn(runtime, "second");
    flights_since();
    run_turn(runtime, "third");
    CHECK_EQ(flights_since(), 3);
    pal_runtime_close(runtime, 0);
}

/* The scripted model calls a tool that does not exist, so that the tool itself reads nothing. The
 * calls differ: a repeated call would wait for an approval. */
static void write_rounds(const char *path, int turns, int rounds)
{
    FILE *script = fopen(path, "w");

    if (!CHECK(script))
        return;
    for (int i = 0; i < turns; i++) {
        for (int j = 0; j < rounds; j++)
            fprintf(script,
                    "{\"call\":{\"id\":\"c%d-%d\",\"name\":\"absent\",\"arguments\":{\"n\":%d}}}\n"
                    "{\"next\":true}\n",
                    i, j, i * rounds + j);
        fputs("{\"text\":\"Done.\"}\n{\"next\":true}\n", script);
    }
    fclose(script);
}

/* Each round of tools commits the answer with its calls, then the results, and plans again. */
static void a_round_of_tools_is_three_flights(void)
{
    char path[100];
    pal_endpoint endpoint = {.kind = S("script"), .model = S("scripted")};
    pal_runtime_options options = {
            .store = test.store, .endpoints = &endpoint, .endpoints_len = 1};
    pal_runtime *runtime = NULL;

    snprintf(path, sizeof(path), "/tmp/palaver-flights-%d.jsonl", (int)getpid());
    write_rounds(path, 2, 2);
    endpoint.path = S(path);
    begin();
    OK(pal_runtime_open(&options, &runtime, &test.err));
    run_turn(runtime, "first");
    flights_since();
    run_turn(runtime, "second");
    CHECK_EQ(flights_since(), 3 + 2 * 3);
    pal_runtime_close(runtime, 0);
    unlink(path);
}

int main(void)
{
    if (!open_store())
        return 0;
    RUN(an_append_is_one_flight);
    RUN(a_batch_of_sessions_is_one_flight);
    RUN(the_commits_of_a_turn_are_one_flight_each);
    RUN(rejected_operations_say_why);
    RUN(a_lease_has_one_owner_and_growing_fences);
    RUN(the_newest_messages_are_one_flight);
    RUN(many_bytes_are_several_batches);
    RUN(a_large_blob_is_not_in_the_batch);
    RUN(a_large_blob_of_an_event_loop_is_not_in_the_batch);
    RUN(a_turn_is_three_flights);
    RUN(a_round_of_tools_is_three_flights);
    RUN(a_repeated_message_is_found);
    pal_store_close(test.store);
    pal_arena_free(test.arena);
    return tap_done();
}
