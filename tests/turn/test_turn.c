/* test_turn.c - turns on a store in memory with a scripted model: messages and events and their
 * order, lanes, tools, and failures. */
#include "service_fixture.h"
#include "support/on_loop.h"

static void an_echo_is_recorded(void)
{
    pal_turn_info info;
    pal_turn_request request;
    pal_message_page list;
    pal_str text;

    begin(NULL);
    request = said(new_session(), "hello there");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK(!pal_id_is_none(info.turn));
    CHECK_EQ(wait_for(info.turn, &info, &text), PAL_TURN_DONE);
    CHECK_STR(text, "echo: hello there");
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 2)) {
        CHECK_EQ(list.items[1].role, PAL_ROLE_ASSISTANT);
        CHECK_STR(part_text(&list.items[1], 0), "echo: hello there");
        CHECK(list.items[1].has_usage);
    }
    end();
}

/* ---- Events ---- */

static void events_are_reported_late_and_again(void)
{
    heard late = {.in_order = true}, half = {.in_order = true, .numbers = 2};
    pal_turn_info info;
    pal_turn_request request;

    begin("{\"text\":\"Hel\"}\n{\"text\":\"lo\"}\n{\"usage\":{\"input\":5,\"output\":2}}\n");
    request = said(new_session(), "hi");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear, gone, &late, &test.err));
    CHECK(late.in_order);
    CHECK(late.gone);
    CHECK_STR(late.text, "Hello");
    CHECK_STR(late.kinds, "started step text text message ended ");
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 2, hear, gone, &half, &test.err));
    CHECK(half.in_order);
    CHECK_STR(half.kinds, "text text message ended ");
    CHECK_STATUS(
            pal_turn_watch(test.runtime, S("other"), info.turn, 0, hear, gone, &half, &test.err),
            PAL_NOT_FOUND, &test.err);
    end();
}

static void a_watch_is_closed_after_the_last_event(void)
{
    heard h = {.in_order = true};
    pal_turn_request request;
    pal_turn_info info;

    begin("{\"text\":\"so far\"}\n{\"delay_ms\":60000}\n");
    request = said(new_session(), "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear, gone, &h, &test.err));
    OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_CANCELED);
    CHECK_CONTAINS(h.kinds, "ended");
    CHECK(h.gone); /* although the callback returned true each time */
    end();
}

/* ---- Tools ---- */

static const pal_tool weather = {
        .name = {"weather", 7}, .schema = {"{\"type\":\"object\",\"required\":[\"city\"]}", 37}};

static const char call_script[] =
        "{\"call\":{\"id\":\"c1\",\"name\":\"weather\",\"arguments\":{\"city\":\"Rome\"}}}\n"
        "{\"next\":true}\n"
        "{\"text\":\"It is warm.\"}\n";

static void the_callers_tools_pause_the_turn(void)
{
    pal_turn_info info;
    pal_turn_request request;
    pal_message result, wrong;
    pal_message_page list;
    pal_str text;

    begin(call_script);
    request = said(new_session(), "weather?");
    request.tools = &weather;
    request.tools_len = 1;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_PAUSED);
    wrong = result_of("c9", "x");
    CHECK_STATUS(pal_turn_results(test.runtime, S(""), request.session, info.turn, &wrong, 1, &info,
                         &test.err),
            PAL_INVALID, &test.err);
    result = result_of("c1", "31 degrees");
    OK(pal_turn_results(
            test.runtime, S(""), request.session, info.turn, &result, 1, &info, &test.err));
    if (CHECK_EQ(wait_for(info.turn, &info, &text), PAL_TURN_DONE))
        CHECK_STR(text, "It is warm.");
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 4)) {
        CHECK_EQ(list.items[2].role, PAL_ROLE_TOOL);
        CHECK_STR(part_text(&list.items[2], 0), "31 degrees");
    }
    end();
}

static void note_running(pal_str tenant, const pal_turn_info *info, void *user)
{
    (void)tenant;
    *(bool *)user |= info->state == PAL_TURN_RUNNING;
}

static void a_canceled_turn_that_was_paused_never_runs_again(void)
{
    pal_turn_info info;
    pal_turn_request request;
    bool has_run = false;

    begin(call_script);
    request = said(new_session(), "weather?");
    request.tools = &weather;
    request.tools_len = 1;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_PAUSED);
    pal_runtime_watch(test.runtime, note_running, &has_run);
    OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    OK(pal_turn_find(test.runtime, S(""), info.turn, &info, &test.err));
    CHECK_EQ(info.state, PAL_TURN_CANCELED);
    pal_runtime_watch(test.runtime, NULL, NULL);
    CHECK(!has_run);
    end();
}

static void results_come_after_a_restart(void)
{
    pal_endpoint endpoint = {.kind = S("script"), .model = S("scripted")};
    pal_runtime_options options = {0};
    pal_turn_info info;
    pal_turn_request request;
    pal_message result;
    pal_message_page list;

    begin(call_script);
    request = said(new_session(), "weather?");
    request.tools = &weather;
    request.tools_len = 1;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_PAUSED);
    /* Another runtime on the same store, as after a crash. It must wait until the lease of the
     * first runtime is released or expires. */
    OK(pal_store_lease_release(test.store, S(""), request.session, 1, &test.err));
    pal_runtime *dead = test.runtime;
    write_script("{\"text\":\"Thanks.\"}\n");
    endpoint.path = S(test.script_path);
    options.store = test.store;
    options.endpoints = &endpoint;
    options.endpoints_len = 1;
    OK(pal_runtime_open(&options, &test.runtime, &test.err));
    result = result_of("c1", "31 degrees");
    OK(pal_turn_results(
            test.runtime, S(""), request.session, info.turn, &result, 1, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 4))
        CHECK_STR(part_text(&list.items[3], 0), "Thanks.");
    pal_runtime_close(dead, 0);
    end();
}

static void a_wrong_call_is_a_result(void)
{
    pal_turn_info info;
    pal_turn_request request;
    pal_message_page list;

    begin("{\"call\":{\"id\":\"c1\",\"name\":\"nothing\",\"arguments\":{}}}\n"
          "{\"call\":{\"id\":\"c2\",\"name\":\"recall\",\"arguments\":{\"text\":5}}}\n"
          "{\"call\":{\"id\":\"c3\",\"name\":\"recall\",\"arguments\":{\"text\":\"apples\"}}}\n"
          "{\"next\":true}\n{\"text\":\"Done.\"}\n");
    request = said(new_session(), "find apples");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 6)) {
        CHECK(list.items[2].parts[0].is_error);
        CHECK(list.items[3].parts[0].is_error);
        CHECK_CONTAINS(list.items[2].parts[0].text.data, "tool 'nothing' does not exist");
        CHECK_CONTAINS(list.items[3].parts[0].text.data, "schema");
        CHECK(!list.items[4].parts[0].is_error);
        /* The answer is visible, and is not repeated. */
        CHECK_STR(list.items[4].parts[0].text, "[Nothing was found.]");
    }
    end();
}

static void rounds_of_tools_have_an_end(void)
{
    static const char again[] =
            "{\"call\":{\"id\":\"%d\",\"name\":\"recall\",\"arguments\":{\"text\":\"%d\"}}}\n"
            "{\"next\":true}\n";
    char script[1024] = "", line[256];
    pal_turn_info info;
    pal_turn_request request;
    pal_str text;

    for (int i = 1; i <= 3; i++) {
        snprintf(line, sizeof(line), again, i, i);
        add_text(script, sizeof(script), line);
    }
    add_text(script, sizeof(script), "{\"text\":\"Enough.\"}\n");
    begin(script);
    request = said(new_session(), "go");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    if (CHECK_EQ(wait_for(info.turn, NULL, &text), PAL_TURN_DONE))
        CHECK_STR(text, "Enough.");
    CHECK_EQ(all_of(request.session).len, 8);
    end();
}

static void a_loop_of_identical_calls_asks_for_approval(void)
{
    static const char same[] =
            "{\"call\":{\"id\":\"x%d\",\"name\":\"recall\",\"arguments\":%s}}\n{\"next\":true}\n";
    char script[1024] = "", line[256];
    pal_turn_info info;
    pal_turn_request request;

    for (int i = 1; i <= 3; i++) {
        snprintf(line, sizeof(line), same, i,
                i == 2 ? "{\"limit\":2, \"text\":\"a\"}" : "{\"text\":\"a\",\"limit\":2}");
        add_text(script, sizeof(script), line);
    }
    add_text(script, sizeof(script), "{\"text\":\"Sorry.\"}\n");
    begin(script);
    request = said(new_session(), "go");
    request.max_tool_iterations = 9;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_ASKING);
    CHECK_CONTAINS(info.reason, "three times");
    OK(pal_turn_allow(test.runtime, S(""), info.turn, false, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(all_of(request.session).len, 8);
    end();
}

/* ---- Lanes ---- */

/* A session with the message "a". Its turn runs until the service is released. */
static service *begin_busy(const service_reply *replies, size_t replies_len, pal_id *out_session,
        pal_turn_info *out_first)
{
    service *s = begin_service(replies, replies_len);
    pal_turn_request request;

    *out_session = new_session();
    request = said(*out_session, "a");
    OK(pal_turn_start(test.runtime, &request, out_first, &test.err));
    service_wait(s, 1);
    return s;
}

static const service_reply three_answers[] = {{.body = ANSWER("one"), .is_held = true},
        {.body = ANSWER("two")}, {.body = ANSWER("three")}};

static void a_busy_session_refuses_or_queues(void)
{
    pal_turn_info first, second, third;
    pal_turn_request other;
    pal_message_page list;
    pal_id session;
    service *s = begin_busy(three_answers, 3, &session, &first);

    other = said(session, "b");
    CHECK_STATUS(pal_turn_start(test.runtime, &other, &second, &test.err), PAL_BUSY, &test.err);
    CHECK_STR(test.err.message, "session is busy");
    other.lane = PAL_TURN_LANE_QUEUE;
    OK(pal_turn_start(test.runtime, &other, &second, &test.err));
    CHECK_EQ(second.state, PAL_TURN_QUEUED);
    other = said(session, "c");
    other.lane = PAL_TURN_LANE_QUEUE;
    OK(pal_turn_start(test.runtime, &other, &third, &test.err));
    service_release(s);
    CHECK_EQ(wait_for(third.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(wait_for(second.turn, NULL, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 6)) {
        CHECK_STR(part_text(&list.items[1], 0), "one");
        CHECK_STR(part_text(&list.items[2], 0), "b");
        CHECK_STR(part_text(&list.items[5], 0), "three");
    }
    end_service(s);
}

/* Starts a turn in that lane, whatever runs there. */
static pal_turn_info start_in(pal_turn_lane lane, pal_id session, const char *text)
{
    pal_turn_info info = {0};
    pal_turn_request request = said(session, text);

    request.lane = lane;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    return info;
}

/* Whether the session has four messages, of which this one has `text` and the last one "two". */
static bool are_four(pal_id session, size_t at, const char *text)
{
    pal_message_page list = all_of(session);

    return list.len == 4 && pal_str_is(part_text(&list.items[at], 0), text) &&
            pal_str_is(part_text(&list.items[3], 0), "two");
}

static void one_can_speak_into_a_turn(void)
{
    pal_turn_info first, second;
    pal_id session;
    service *s = begin_busy(three_answers, 3, &session, &first);

    second = start_in(PAL_TURN_LANE_STEER, session, "b");
    CHECK(second.steered);
    CHECK_ID(second.turn, first.turn);
    service_release(s);
    CHECK_EQ(wait_for(first.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK(are_four(session, 2, "b"));
    end_service(s);
}

static void a_message_that_joins_a_failing_turn_is_answered(void)
{
    static const service_reply replies[] = {
            {.code = 404, .body = "{}", .is_held = true}, {.body = ANSWER("two")}};
    pal_turn_info first, second;
    pal_id session;
    service *s = begin_busy(replies, 2, &session, &first);

    second = start_in(PAL_TURN_LANE_STEER, session, "b");
    CHECK(second.steered);
    service_release(s);
    CHECK_EQ(wait_for(first.turn, NULL, NULL), PAL_TURN_FAILED);
    while (pal_turn_of_session(test.runtime, S(""), session, &second, &test.err) == PAL_OK)
        wait_for(second.turn, NULL, NULL);
    CHECK(are_four(session, 2, "b"));
    end_service(s);
}

static bool ring_at_text(const pal_event *event, void *user)
{
    if (event->kind == PAL_EVENT_TEXT)
        bell_ring(user);
    return true;
}

/* Waits until the model has sent the first text. */
static void wait_for_text(pal_id turn)
{
    static bell spoken = BELL_INIT;

    OK(pal_turn_watch(test.runtime, S(""), turn, 0, ring_at_text, NULL, &spoken, &test.err));
    CHECK(bell_wait(&spoken, 1));
}

static void one_can_interrupt_a_turn(void)
{
    pal_turn_info first, second;
    pal_id session;

    begin("{\"text\":\"one\"}\n{\"delay_ms\":60000}\n{\"text\":\" more\"}\n{\"next\":true}\n"
          "{\"text\":\"two\"}\n");
    session = new_session();
    first = start_in(PAL_TURN_LANE_REJECT, session, "a");
    wait_for_text(first.turn);
    second = start_in(PAL_TURN_LANE_INTERRUPT, session, "b");
    CHECK_EQ(wait_for(second.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(wait_for(first.turn, &first, NULL), PAL_TURN_CANCELED);
    CHECK(are_four(session, 1, "one"));
    end();
}

/* ---- Failure ---- */

static void a_cancel_keeps_the_text_so_far(void)
{
    pal_turn_info info;
    pal_turn_request request;
    pal_message_page list;

    begin("{\"text\":\"so far\"}\n{\"delay_ms\":60000}\n{\"text\":\" more\"}\n");
    request = said(new_session(), "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    wait_for_text(info.turn);
    OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_CANCELED);
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 2)) {
        CHECK_STR(part_text(&list.items[1], 0), "so far");
        CHECK_CONTAINS(list.items[1].extra.data, "interrupted");
    }
    end();
}

static void a_failure_leaves_the_question_and_the_reason(void)
{
    pal_turn_info info;
    pal_turn_request request;
    pal_message_page list;
    pal_lease lease;

    begin("{\"error\":{\"message\":\"no such model\",\"code\":404}}\n{\"next\":true}\n"
          "{\"text\":\"fine\"}\n");
    request = said(new_session(), "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_FAILED);
    CHECK_CONTAINS(info.reason, "no such model");
    /* Another process can continue in the session at once. */
    CHECK_STATUS(pal_store_lease_find(
                         test.store, S(""), request.session, test.arena, &lease, NULL),
            PAL_NOT_FOUND);
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 2))
        CHECK(list.items[1].flags & PAL_MESSAGE_FLAG_ERROR);
    request = said(request.session, "b");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    end();
}

static void all_or_nothing(void)
{
    pal_turn_info info;
    pal_turn_request request;

    begin("{\"error\":{\"message\":\"no such model\",\"code\":404}}\n");
    request = said(new_session(), "a");
    request.all_or_nothing = true;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_FAILED);
    CHECK_EQ(all_of(request.session).len, 0);
    end();
}

static void the_same_message_again_is_the_same_turn(void)
{
    pal_turn_info info;
    pal_turn_request request;

    begin(NULL);
    request = said(new_session(), "a");
    request.messages[0].client_id = S("m1");
    if (OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        CHECK(!info.replayed);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    if (OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        CHECK(info.replayed);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(all_of(request.session).len, 2);
    end();
}

static void a_retry_is_reported(void)
{
    heard h = {.in_order = true};
    pal_turn_info info;
    pal_turn_request request;

    begin("{\"error\":{\"message\":\"overloaded\",\"code\":529,\"retry_after_ms\":50}}\n"
          "{\"next\":true}\n{\"text\":\"fine\"}\n");
    request = said(new_session(), "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear, gone, &h, &test.err));
    CHECK_STR(h.kinds, "started step retrying text message ended ");
    end();
}

static void a_wrong_request_is_refused(void)
{
    pal_turn_info info;
    pal_turn_request request;

    begin(NULL);
    request = said(pal_id_new(), "a");
    CHECK_STATUS(
            pal_turn_start(test.runtime, &request, &info, &test.err), PAL_NOT_FOUND, &test.err);
    request = said(new_session(), "a");
    request.endpoint = S("nowhere");
    CHECK_FAILS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_NOT_FOUND, &test.err,
            "nowhere");
    request.endpoint = (pal_str){0};
    request.tools = &(pal_tool){.name = S("t"), .schema = S("{\"type\":")};
    request.tools_len = 1;
    CHECK_FAILS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err,
            "tool 0");
    request.tools_len = 0;
    request.messages[0].role = PAL_ROLE_NONE;
    CHECK_STATUS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err);
    CHECK_EQ(all_of(request.session).len, 0);
    request.messages[0].role = PAL_ROLE_USER;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    end();
}

static void a_budget_stops_a_turn(void)
{
    pal_turn_info info;
    pal_turn_request request;

    begin("{\"text\":\"a\"}\n{\"usage\":{\"input\":90,\"output\":20}}\n{\"next\":true}\n"
          "{\"text\":\"b\"}\n");
    request = said(new_session(), "a");
    request.budget.session_tokens = 100;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    if (CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_FAILED))
        CHECK_STATUS(info.status, PAL_BUDGET);
    CHECK_CONTAINS(info.reason, "110 of 100 tokens");
    end();
}

static void many_turns_run_at_once(void)
{
    enum { TURNS = 500 };
    static pal_id turns[TURNS];
    pal_runtime_stats stats;

    begin(NULL);
    for (int i = 0; i < TURNS; i++) {
        pal_turn_request request = said(new_session(), "hello");
        pal_turn_info info = {0};

        if (!OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
            break;
        turns[i] = info.turn;
    }
    for (int i = 0; i < TURNS; i++)
        if (!CHECK_EQ(wait_for(turns[i], NULL, NULL), PAL_TURN_DONE))
            break;
    pal_runtime_stat(test.runtime, &stats);
    CHECK_EQ(stats.turns_ended, TURNS);
    CHECK_EQ(stats.turns_running, 0);
    CHECK_EQ(stats.turns_failed, 0);
    end();
}

int main(void)
{
    RUN(an_echo_is_recorded);
    RUN(events_are_reported_late_and_again);
    RUN(a_watch_is_closed_after_the_last_event);
    RUN(the_callers_tools_pause_the_turn);
    RUN(a_canceled_turn_that_was_paused_never_runs_again);
    RUN(results_come_after_a_restart);
    RUN(a_wrong_call_is_a_result);
    RUN(rounds_of_tools_have_an_end);
    RUN(a_loop_of_identical_calls_asks_for_approval);
    RUN(a_busy_session_refuses_or_queues);
    RUN(one_can_speak_into_a_turn);
    RUN(a_message_that_joins_a_failing_turn_is_answered);
    RUN(one_can_interrupt_a_turn);
    RUN(a_cancel_keeps_the_text_so_far);
    RUN(a_failure_leaves_the_question_and_the_reason);
    RUN(all_or_nothing);
    RUN(the_same_message_again_is_the_same_turn);
    RUN(a_retry_is_reported);
    RUN(a_wrong_request_is_refused);
    RUN(a_budget_stops_a_turn);
    RUN(many_turns_run_at_once);
    pal_arena_free(test.arena);
    return tap_done();
}
