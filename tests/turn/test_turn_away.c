/* test_turn_away.c - a turn that one process follows while another process runs it. Two runtimes on
 * one store simulate the two processes. */
#include "turn_fixture.h"
#include "turn_service.h"

#include "support/on_loop.h"
#include "turn/lane/lane_park.h"
#include "turn/lane/lane.h"
#include "turn/turn.h"

#define CALL                                                                                       \
    "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c1\",\"function\":"                       \
    "{\"name\":\"weather\",\"arguments\":\"{}\"}}]}}]}"
#define ANSWER(text) "{\"choices\":[{\"message\":{\"content\":\"" text "\"}}]}"

static pal_runtime *open_with(service *s)
{
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s->url), .model = S("m")};

    open_runtime(NULL,
            (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1, .leave_inbox = true});
    return test.runtime;
}

static bool is_blind;

/* Keeps the follower from seeing in the store that the turn is paused, unless it looks just now. */
static void stop_looking(void *user)
{
    pal_lane_state *lane = pal_lane_find(test.runtime, S("default"), *(pal_id *)user);

    if (!lane || lane->is_looking)
        return;
    pal_loop_timer_stop(test.runtime->loop, &lane->look);
    lane->is_looking = is_blind = true;
}

/* Results reach the process that follows the turn before it knows that the turn is paused. The turn
 * continues there, and keeps its readers. */
static void results_keep_the_readers_of_a_followed_turn(void)
{
    static const service_reply calls[] = {{.body = CALL, .is_held = true}};
    static const service_reply answers[] = {{.body = ANSWER("fine"), .is_held = true}};
    const pal_tool tool = {.name = S("weather"), .schema = S("{\"type\":\"object\"}")};
    service *s = service_open(calls, 1), *next = service_open(answers, 1);
    pal_turn_info info, again;
    pal_turn_request request;
    pal_message result;
    pal_runtime *first;
    heard stays = {.in_order = true}, leaves = {.in_order = true};

    open_store();
    first = open_with(s);
    request = said(new_session(), "a");
    request.messages[0].client_id = S("id");
    request.tools = &tool;
    request.tools_len = 1;
    OK(pal_turn_start(first, &request, &info, &test.err));
    service_wait(s, 1);
    open_with(next);
    if (OK(pal_turn_start(test.runtime, &request, &again, &test.err)))
        CHECK(again.replayed);
    CHECK_ID(info.turn, again.turn);
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear, gone, &stays, &test.err));
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear, gone, &leaves, &test.err));
    while (!is_blind)
        on_loop(test.runtime->loop, stop_looking, &request.session);
    service_release(s);
    OK(pal_turn_wait(
            first, S(""), info.turn, WAIT_MS, test.arena, &info, &(pal_str){0}, &test.err));
    CHECK_EQ(info.state, PAL_TURN_PAUSED);
    result = result_of("c1", "sunny");
    OK(pal_turn_results(
            test.runtime, S(""), request.session, info.turn, &result, 1, &again, &test.err));
    CHECK_ID(info.turn, again.turn);
    service_wait(next, 1);
    pal_turn_unwatch(test.runtime, info.turn, &leaves);
    CHECK(leaves.gone);
    CHECK(!stays.gone);
    service_release(next);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    pal_turn_unwatch(test.runtime, info.turn, &stays);
    CHECK(stays.gone);
    CHECK(stays.in_order);
    CHECK_STR(stays.text, "fine");
    CHECK_CONTAINS(stays.kinds, " ended ");
    CHECK_LACKS(leaves.kinds, " ended ");
    pal_runtime_close(first, 0);
    end();
    service_close(next);
    service_close(s);
}

int main(void)
{
    RUN(results_keep_the_readers_of_a_followed_turn);
    pal_arena_free(test.arena);
    return tap_done();
}
