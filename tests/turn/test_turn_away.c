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

/* Keeps the process from seeing that its copy of a parked turn is outdated. */
static void stop_looking_at_copy(void *user)
{
    pal_lane_state *lane = pal_lane_find(test.runtime, S("default"), *(pal_id *)user);

    if (!lane || !pal_lane_is_parked(lane->running) || lane->is_looking)
        return;
    pal_loop_timer_stop(test.runtime->loop, &lane->look);
    lane->is_looking = is_blind = true;
}

static pal_turn_info ask_weather(pal_runtime *runtime, pal_id session, const char *text)
{
    static const pal_tool tool = {
            .name = {"weather", 7}, .schema = {"{\"type\":\"object\"}", 17}};
    pal_turn_request request = said(session, text);
    pal_turn_info info;

    request.tools = &tool;
    request.tools_len = 1;
    OK(pal_turn_start(runtime, &request, &info, &test.err));
    OK(pal_turn_wait(
            runtime, S(""), info.turn, WAIT_MS, test.arena, &info, &(pal_str){0}, &test.err));
    CHECK_EQ(info.state, PAL_TURN_PAUSED);
    return info;
}

/* A process that looks for waiting messages copies a turn that waits for results. When the process
 * that ran it has gone on to the next turn, the copy must not pass for the turn of the session. */
static void a_copy_is_not_the_turn_of_its_session(void)
{
    static const service_reply calls[] = {{.body = CALL}, {.body = CALL}};
    service *s = service_open(calls, 2);
    pal_id session;
    pal_turn_info one, two, found;
    pal_runtime *first;

    open_store();
    first = open_with(s);
    session = new_session();
    one = ask_weather(first, session, "a");
    open_runtime(NULL, (pal_runtime_options){0});
    for (is_blind = false; !is_blind;)
        on_loop(test.runtime->loop, stop_looking_at_copy, &session);
    OK(pal_turn_of_session(test.runtime, S(""), session, &found, &test.err));
    CHECK_ID(found.turn, one.turn);
    CHECK(!found.is_elsewhere);
    OK(pal_turn_cancel(first, S(""), one.turn, &test.err));
    CHECK_STATUS(pal_turn_of_session(test.runtime, S(""), session, &found, &test.err),
            PAL_NOT_FOUND);
    two = ask_weather(first, session, "b");
    OK(pal_turn_of_session(test.runtime, S(""), session, &found, &test.err));
    CHECK_ID(found.turn, two.turn);
    CHECK(found.is_elsewhere);
    CHECK_EQ(found.state, PAL_TURN_PAUSED);
    pal_runtime_close(first, 0);
    end();
    service_close(s);
}

/* Someone who speaks into the turn or interrupts it must reach the one that runs. */
static void a_waiting_turn_is_not_the_turn_of_its_session(void)
{
    static const service_reply held[] = {{.body = ANSWER("one"), .is_held = true}};
    static const service_reply answers[] = {{.body = ANSWER("two")}};
    service *s = service_open(held, 1), *next = service_open(answers, 1);
    pal_turn_info running, waiting, found;
    pal_turn_request request;
    pal_runtime *first;

    open_store();
    first = open_with(s);
    request = said(new_session(), "a");
    OK(pal_turn_start(first, &request, &running, &test.err));
    service_wait(s, 1);
    open_with(next);
    request = said(request.session, "b");
    request.lane = PAL_TURN_LANE_QUEUE;
    OK(pal_turn_start(test.runtime, &request, &waiting, &test.err));
    OK(pal_turn_of_session(test.runtime, S(""), request.session, &found, &test.err));
    CHECK_ID(found.turn, running.turn);
    CHECK(found.is_elsewhere);
    service_release(s);
    CHECK_EQ(wait_for(waiting.turn, NULL, NULL), PAL_TURN_DONE);
    pal_runtime_close(first, 0);
    end();
    service_close(next);
    service_close(s);
}

int main(void)
{
    RUN(results_keep_the_readers_of_a_followed_turn);
    RUN(a_copy_is_not_the_turn_of_its_session);
    RUN(a_waiting_turn_is_not_the_turn_of_its_session);
    pal_arena_free(test.arena);
    return tap_done();
}
