/* test_turn_fault.c - turns whose store fails at call 1, 2, 3 ... and works again afterwards, or is
 * slow. The turn ends, and its lease is released: another process need not wait until it expires. */
#include "support/store_fault.h"
#include "stored_fixture.h"

#define CALLS_MAX 100 /* more than a turn makes */
#define CALL "{\"call\":{\"id\":\"c1\",\"name\":\"weather\",\"arguments\":{}}}\n"

static const pal_tool weather = {
        .name = {"weather", 7}, .schema = {"{\"type\":\"object\"}", 17}};

/* Runs a turn whose store fails at the call `number`. Returns false if there was no such call. */
static bool fail_at(uint64_t number, const char *script, const pal_tool *tools, size_t tools_len)
{
    const store_fault fault = {.call = number, .status = PAL_IO};
    /* An unfinished turn stays unfinished here; otherwise the runtime would continue it. */
    const pal_runtime_options options = {.leave_inbox = true};
    pal_turn_request request;
    pal_turn_info info = {0};
    pal_lease lease;
    pal_status status;
    pal_id session;
    bool was_hit;

    open_store();
    open_runtime(script, options);
    session = new_session();
    request = said(session, "hello");
    request.tools = tools;
    request.tools_len = tools_len;
    OK(store_fault_install(test.store, &fault));
    if (pal_turn_start(test.runtime, &request, &info, &test.err) == PAL_OK &&
            wait_for(info.turn, NULL, NULL) == PAL_TURN_PAUSED)
        OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    was_hit = store_fault_disarm(test.store);
    /* The loop answers after everything that the end of the turn has caused. */
    (void)!pal_turn_of_session(test.runtime, S(""), session, &info, &test.err);
    status = pal_store_lease_find(test.store, S(""), session, test.arena, &lease, &test.err);
    if (!CHECK_EQ(status, PAL_NOT_FOUND))
        printf("# the lease is left after a failure of call %d\n", (int)number);
    end();
    return was_hit;
}

static void a_failing_store_leaves_no_lease(void)
{
    uint64_t number = 1;

    while (number < CALLS_MAX && fail_at(number, NULL, NULL, 0))
        number++;
    CHECK_THAT(number, >, 3);
    CHECK_THAT(number, <, CALLS_MAX);
}

static void a_failing_store_leaves_no_lease_of_a_turn_that_pauses(void)
{
    uint64_t number = 1;

    while (number < CALLS_MAX && fail_at(number, CALL, &weather, 1))
        number++;
    CHECK_THAT(number, >, 3);
    CHECK_THAT(number, <, CALLS_MAX);
}

/* Checks that the turn is paused, as this process knows it: with its events. */
static void check_paused(const pal_turn_info *info)
{
    CHECK_EQ(info->state, PAL_TURN_PAUSED);
    CHECK_THAT(info->events, >, 0);
}

/* Until the release of the lease is stored, the store shows a turn that works on the results. */
static void a_turn_is_paused_again_before_its_lease_is_released(void)
{
    const store_fault fault = {.release_ms = 300};
    pal_part part = {.kind = PAL_PART_TOOL_RESULT, .call_id = S("c1"), .text = S("sunny")};
    pal_message result = {.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};
    pal_turn_request request;
    pal_turn_info info = {0}, found = {0};

    stored.backend = "sqlite"; /* its commits do not stop the runtime's loop */
    open_stored(NULL);
    open_runtime(CALL "{\"call\":{\"id\":\"c2\",\"name\":\"weather\",\"arguments\":{\"at\":1}}}\n",
            (pal_runtime_options){.max_tool_iterations = 3});
    request = said(new_session(), "hello");
    request.tools = &weather;
    request.tools_len = 1;
    OK(store_fault_install(test.store, &fault));
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_PAUSED);
    OK(pal_turn_results(test.runtime, S(""), request.session, info.turn, &result, 1, &found,
            &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_PAUSED);
    OK(pal_turn_find(test.runtime, S(""), info.turn, &found, &test.err));
    check_paused(&found);
    OK(pal_turn_of_session(test.runtime, S(""), request.session, &found, &test.err));
    check_paused(&found);
    end();
    scratch_clear(stored.dir, true);
}

int main(void)
{
    RUN(a_failing_store_leaves_no_lease);
    RUN(a_failing_store_leaves_no_lease_of_a_turn_that_pauses);
    RUN(a_turn_is_paused_again_before_its_lease_is_released);
    pal_arena_free(test.arena);
    return tap_done();
}
