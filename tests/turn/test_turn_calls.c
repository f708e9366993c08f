/* test_turn_calls.c - turns that end with calls for the caller, turns that bring the results, and
 * the record that is written in the commit that ends a turn. */
#include "service_fixture.h"

#define CALL(id, name, arguments)                                                                  \
    "{\"id\":\"" id "\",\"function\":{\"name\":\"" name "\",\"arguments\":\"" arguments "\"}}"
#define CALLS(calls) "{\"choices\":[{\"message\":{\"tool_calls\":[" calls "]}}]}"
#define ROME CALL("c1", "weather", "{\\\"city\\\":\\\"Rome\\\"}")
#define OSLO CALL("c2", "weather", "{\\\"city\\\":\\\"Oslo\\\"}")
#define RECALL CALL("s1", "recall", "{\\\"text\\\":\\\"x\\\"}")

static const pal_tool weather = {
        .name = {"weather", 7}, .schema = {"{\"type\":\"object\",\"required\":[\"city\"]}", 37}};

static pal_turn_request asked(pal_id session, const char *text)
{
    pal_turn_request request = said(session, text);

    request.tools = &weather;
    request.tools_len = 1;
    request.calls_end_turn = true;
    return request;
}

static pal_turn_request brought(pal_id session, pal_message *messages, size_t len)
{
    pal_turn_request request = asked(session, "");

    request.messages = messages;
    request.messages_len = len;
    return request;
}

static pal_turn_state run(pal_turn_request request, pal_turn_info *out_info, pal_str *out_text)
{
    pal_turn_info info = {0};

    if (!OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        return PAL_TURN_NONE;
    return wait_for(info.turn, out_info ? out_info : &info, out_text);
}

static bool is_result(const pal_message *message, const char *call_id, const char *text)
{
    return message->role == PAL_ROLE_TOOL && pal_str_is(message->parts[0].call_id, call_id) &&
            pal_str_is(message->parts[0].text, text);
}

#define INTERRUPTED "[Tool execution was interrupted]"

/* ---- Calls that end a turn ---- */

static bool hear_calls(const pal_event *event, void *user)
{
    if (event->kind == PAL_EVENT_PAUSED)
        snprintf(((heard *)user)->text, sizeof(((heard *)user)->text), "%.*s",
                PAL_STR_ARG(event->text));
    else
        return hear(event, user);
    add_text(((heard *)user)->kinds, sizeof(((heard *)user)->kinds), "paused ");
    return true;
}

static void calls_end_the_turn_and_results_begin_the_next(void)
{
    static const service_reply replies[] = {
            {.body = CALLS(ROME "," OSLO)}, {.body = ANSWER("fine")}};
    service *s = begin_service(replies, 2);
    pal_message messages[3];
    pal_turn_info info;
    pal_message_page list;
    pal_id session = new_session();
    pal_str text;

    if (CHECK_EQ(run(asked(session, "weather?"), &info, NULL), PAL_TURN_DONE))
        CHECK(info.has_calls);
    CHECK_STATUS(pal_turn_of_session(test.runtime, S(""), session, &info, &test.err), PAL_NOT_FOUND,
            &test.err);
    messages[0] = result_of("c2", "cold");
    messages[1] = result_of("c1", "warm");
    messages[2] = pal_message_text(test.arena, PAL_ROLE_USER, S("and?"));
    if (CHECK_EQ(run(brought(session, messages, 3), &info, &text), PAL_TURN_DONE))
        CHECK(!info.has_calls);
    CHECK_STR(text, "fine");
    HAS(s->bodies[1], "\"c1\"", "\"c2\"", "warm", "cold", "and?");
    CHECK_LACKS(s->bodies[1], "interrupted");
    list = all_of(session);
    if (CHECK_EQ(list.len, 6)) {
        CHECK(is_result(&list.items[2], "c2", "cold"));
        CHECK(is_result(&list.items[3], "c1", "warm"));
    }
    end_service(s);
}

static void the_calls_are_reported_before_the_end(void)
{
    static const service_reply replies[] = {{.body = CALLS(ROME)}};
    service *s = begin_service(replies, 1);
    heard h = {.in_order = true};
    pal_turn_info info;

    CHECK_EQ(run(asked(new_session(), "weather?"), &info, NULL), PAL_TURN_DONE);
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear_calls, gone, &h, &test.err));
    CHECK_CONTAINS(h.kinds, "message paused ended ");
    CHECK(h.gone);
    HAS(h.text, "[{\"call_id\":\"c1\",\"name\":\"weather\",\"arguments\":", "Rome");
    end_service(s);
}

static void results_join_the_calls_after_a_restart_and_in_a_fork(void)
{
    static const service_reply replies[] = {
            {.body = CALLS(ROME)}, {.body = ANSWER("here")}, {.body = ANSWER("there")}};
    service *s = begin_service(replies, 3);
    pal_id session = new_session(), fork = {{0}};
    pal_message result;
    pal_message_page list;
    pal_str text;

    CHECK_EQ(run(asked(session, "weather?"), NULL, NULL), PAL_TURN_DONE);
    pal_runtime_close(test.runtime, 0);
    open_with(s);
    OK(pal_store_fork(test.store, &(pal_session){0}, session, 2, &fork, &test.err));
    CHECK_EQ(all_of(session).len, 2); /* no call is answered before */
    result = result_of("c1", "warm");
    CHECK_EQ(run(brought(session, &result, 1), NULL, &text), PAL_TURN_DONE);
    CHECK_STR(text, "here");
    result = result_of("c1", "hot");
    CHECK_EQ(run(brought(fork, &result, 1), NULL, &text), PAL_TURN_DONE);
    CHECK_STR(text, "there");
    HAS(s->bodies[2], "hot");
    CHECK_LACKS(s->bodies[2], "warm");
    list = all_of(session);
    if (CHECK_EQ(list.len, 4))
        CHECK(is_result(&list.items[2], "c1", "warm"));
    list = all_of(fork);
    if (CHECK_EQ(list.len, 4))
        CHECK(is_result(&list.items[2], "c1", "hot"));
    end_service(s);
}

static void calls_without_a_result_are_settled(void)
{
    static const service_reply replies[] = {{.body = CALLS(ROME "," OSLO)}, {.body = ANSWER("a")},
            {.body = CALLS(ROME)}, {.body = ANSWER("b")}};
    service *s = begin_service(replies, 4);
    pal_id session = new_session();
    pal_message result = result_of("c2", "cold");
    pal_message_page list;

    CHECK_EQ(run(asked(session, "weather?"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(brought(session, &result, 1), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(asked(session, "again"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(session, "never mind"), NULL, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 10)) {
        CHECK(is_result(&list.items[2], "c1", INTERRUPTED));
        CHECK(is_result(&list.items[3], "c2", "cold"));
        CHECK(is_result(&list.items[7], "c1", INTERRUPTED));
        CHECK_STR(part_text(&list.items[8], 0), "never mind");
    }
    end_service(s);
}

static void one_that_waits_settles_them_too(void)
{
    static const service_reply replies[] = {
            {.body = CALLS(ROME), .is_held = true}, {.body = ANSWER("a")}};
    service *s = begin_service(replies, 2);
    pal_id session = new_session();
    pal_turn_request request = asked(session, "weather?");
    pal_turn_info first, second;
    pal_message_page list;

    OK(pal_turn_start(test.runtime, &request, &first, &test.err));
    service_wait(s, 1);
    request = said(session, "b");
    request.lane = PAL_TURN_LANE_QUEUE;
    OK(pal_turn_start(test.runtime, &request, &second, &test.err));
    service_release(s);
    CHECK_EQ(wait_for(second.turn, NULL, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 5))
        CHECK(is_result(&list.items[2], "c1", INTERRUPTED));
    end_service(s);
}

static void wrong_results_change_nothing(void)
{
    static const service_reply replies[] = {{.body = CALLS(ROME)}, {.body = ANSWER("a")}};
    service *s = begin_service(replies, 2);
    pal_id session = new_session();
    pal_message results[2] = {result_of("c9", "x"), result_of("c1", "y")};
    pal_turn_request request;
    pal_turn_info info;

    CHECK_EQ(run(asked(session, "weather?"), NULL, NULL), PAL_TURN_DONE);
    request = brought(session, results, 1);
    CHECK_FAILS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err,
            "'c9' is not waiting for a result");
    results[0] = result_of("c1", "x");
    request = brought(session, results, 2);
    CHECK_FAILS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err,
            "message 1: the call 'c1' already has a result");
    CHECK_EQ(all_of(session).len, 2);
    request = brought(session, results, 1);
    CHECK_EQ(run(request, NULL, NULL), PAL_TURN_DONE);
    CHECK_STATUS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err);
    CHECK_EQ(all_of(session).len, 4);
    end_service(s);
}

static void repeated_results_are_recognized(void)
{
    static const service_reply replies[] = {{.body = CALLS(ROME)}, {.body = ANSWER("a")}};
    service *s = begin_service(replies, 2);
    pal_id session = new_session();
    pal_message result = result_of("c1", "warm");
    pal_turn_request request;
    pal_turn_info info;

    CHECK_EQ(run(asked(session, "weather?"), NULL, NULL), PAL_TURN_DONE);
    result.client_id = S("r1");
    request = brought(session, &result, 1);
    CHECK_EQ(run(request, NULL, NULL), PAL_TURN_DONE);
    pal_runtime_close(test.runtime, 0);
    open_with(s); /* the new runtime remembers nothing */
    if (OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        CHECK(info.replayed);
    result.client_id = S("r2");
    CHECK_STATUS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err);
    CHECK_EQ(all_of(session).len, 4);
    end_service(s);
}

static void tools_of_the_server_run_before_the_turn_ends(void)
{
    static const service_reply replies[] = {
            {.body = CALLS(ROME "," RECALL)}, {.body = ANSWER("fine")}};
    service *s = begin_service(replies, 2);
    heard h = {.in_order = true};
    pal_message result = result_of("c1", "warm");
    pal_id session = new_session();
    pal_turn_info info;
    pal_message_page list;

    if (CHECK_EQ(run(asked(session, "weather?"), &info, NULL), PAL_TURN_DONE))
        CHECK(info.has_calls);
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear, gone, &h, &test.err));
    CHECK_CONTAINS(h.kinds, "message tool_started tool_ended paused ended ");
    list = all_of(session);
    if (CHECK_EQ(list.len, 3))
        CHECK_STR(list.items[2].parts[0].call_id, "s1");
    CHECK_EQ(run(brought(session, &result, 1), NULL, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 5))
        CHECK(is_result(&list.items[3], "c1", "warm"));
    HAS(s->bodies[1], "\"role\":\"tool\"", "\"role\":\"tool\"");
    CHECK_LACKS(s->bodies[1], "interrupted");
    end_service(s);
}

static void a_long_result_is_stored_next_to_its_message(void)
{
    static const service_reply replies[] = {{.body = CALLS(ROME)}, {.body = ANSWER("fine")}};
    service *s = begin_service(replies, 2);
    char *text = pal_arena_alloc(test.arena, 2 * PAL_SPILL_BYTES_MAX + 1);
    pal_id session = new_session();
    pal_turn_request request = asked(session, "weather?");
    pal_turn_info info;
    pal_message result;
    pal_message_page list;

    for (size_t i = 0; i < 2 * PAL_SPILL_BYTES_MAX; i++)
        text[i] = i % 80 == 79 ? '\n' : 'x';
    text[2 * PAL_SPILL_BYTES_MAX] = '\0';
    request.calls_end_turn = false; /* the turn pauses, and the process dies */
    CHECK_EQ(run(request, NULL, NULL), PAL_TURN_PAUSED);
    OK(pal_store_lease_release(test.store, S(""), session, 1, &test.err));
    pal_runtime *dead = test.runtime;
    open_with(s);
    result = result_of("c1", text);
    OK(pal_turn_results(test.runtime, S(""), session, (pal_id){{0}}, &result, 1, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 4)) {
        CHECK_THAT(list.items[2].parts[0].blob.len, >, 0);
        CHECK_THAT(list.items[2].parts[0].text.len, <, PAL_SPILL_BYTES_MAX + 1000);
    }
    pal_runtime_close(dead, 0);
    end_service(s);
}

/* ---- The record of the end ---- */

typedef struct done_record {
    pal_turn_end end;
    pal_id ids[8];
    char answer[64];
    int times;
    pal_status status;
    size_t name_len;
} done_record;

static pal_status finish(
        const pal_turn_end *end, pal_arena *to, pal_record *out_record, void *user, pal_error *e)
{
    done_record *f = user;
    char *name = pal_arena_alloc(to, f->name_len ? f->name_len : 1);

    f->times++;
    f->end = *end;
    for (size_t i = 0; i < end->messages_len && i < 8; i++)
        f->ids[i] = end->messages[i];
    snprintf(f->answer, sizeof(f->answer), "%.*s", PAL_STR_ARG(part_text(end->answer, 0)));
    if (f->status != PAL_OK)
        return pal_error_set(e, f->status, "not now");
    memset(name, 'r', f->name_len);
    *out_record = (pal_record){.kind = S("response"),
            .name = pal_str_make(name, f->name_len),
            .session = end->session,
            .body = S("{\"status\":\"completed\"}")};
    return PAL_OK;
}

static bool has_record(void)
{
    pal_record record;

    return pal_store_record_find(test.store, S(""), S("response"), S("rrrr"), test.arena, &record,
                   &test.err) == PAL_OK;
}

static pal_turn_request finished_by(done_record *f, pal_turn_request request)
{
    f->name_len = f->name_len ? f->name_len : 4;
    request.on_done = finish;
    request.on_done_user = f;
    return request;
}

static void a_record_is_written_with_the_last_answer(void)
{
    static const service_reply replies[] = {
            {.body = "{\"choices\":[{\"message\":{\"tool_calls\":[" RECALL "]}}],"
                     "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2}}"},
            {.body = "{\"choices\":[{\"message\":{\"content\":\"fine\"}}],"
                     "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":3}}"}};
    service *s = begin_service(replies, 2);
    pal_id session = new_session();
    done_record f = {.times = 0};
    pal_turn_info info;
    pal_message_page list;

    CHECK_EQ(run(finished_by(&f, said(session, "a")), &info, NULL), PAL_TURN_DONE);
    CHECK_EQ(f.times, 1);
    CHECK(has_record());
    CHECK_STR(f.answer, "fine");
    CHECK_EQ(f.end.usage.input, 30);
    CHECK_EQ(f.end.usage.output, 5);
    CHECK(!f.end.has_calls);
    CHECK_ID(f.end.turn, info.turn);
    CHECK_ID(f.end.session, session);
    list = all_of(session);
    if (CHECK_EQ(list.len, 4) && CHECK_EQ(f.end.messages_len, 4))
        for (size_t i = 0; i < 4; i++)
            CHECK_ID(f.ids[i], list.items[i].id);
    end_service(s);
}

static void a_turn_that_ends_with_calls_has_its_record(void)
{
    static const service_reply replies[] = {
            {.body = CALLS(ROME)}, {.body = CALLS(OSLO "," RECALL)}};
    service *s = begin_service(replies, 2);
    done_record only = {.times = 0}, mixed = {.times = 0};
    pal_turn_info info;
    pal_message_page list;
    pal_id session;

    CHECK_EQ(run(finished_by(&only, asked(new_session(), "a")), &info, NULL), PAL_TURN_DONE);
    CHECK(info.has_calls);
    CHECK_EQ(only.times, 1);
    CHECK(only.end.has_calls);
    CHECK(has_record());
    session = new_session();
    CHECK_EQ(run(finished_by(&mixed, asked(session, "a")), &info, NULL), PAL_TURN_DONE);
    CHECK(info.has_calls);
    CHECK_EQ(mixed.times, 1);
    CHECK(mixed.end.has_calls);
    list = all_of(session);
    CHECK_EQ(list.len, 3);
    CHECK_EQ(mixed.end.messages_len, 3);
    if (CHECK_EQ(list.len, 3))
        CHECK_ID(mixed.ids[2], list.items[2].id);
    end_service(s);
}

static void a_failed_turn_has_no_record(void)
{
    static const service_reply replies[] = {{.code = 404, .body = "{}"}};
    service *s = begin_service(replies, 1);
    done_record f = {.times = 0};

    CHECK_EQ(run(finished_by(&f, said(new_session(), "a")), NULL, NULL), PAL_TURN_FAILED);
    CHECK_EQ(f.times, 0);
    CHECK(!has_record());
    end_service(s);
}

static void a_rejected_record_fails_the_turn(void)
{
    static const service_reply replies[] = {{.body = ANSWER("a")}, {.body = ANSWER("b")}};
    service *s = begin_service(replies, 2);
    done_record none = {.status = PAL_LIMIT}, large = {.name_len = PAL_RECORD_NAME_LEN_MAX + 1};
    pal_turn_request request = finished_by(&none, said(new_session(), "a"));
    pal_turn_info info;

    request.all_or_nothing = true;
    if (CHECK_EQ(run(request, &info, NULL), PAL_TURN_FAILED))
        CHECK_STATUS(info.status, PAL_LIMIT);
    CHECK_CONTAINS(info.reason, "not now");
    CHECK_EQ(all_of(request.session).len, 0);
    request = finished_by(&large, said(new_session(), "b"));
    request.all_or_nothing = true;
    CHECK_EQ(run(request, &info, NULL), PAL_TURN_FAILED);
    CHECK_EQ(large.times, 1);
    CHECK_EQ(all_of(request.session).len, 0);
    end_service(s);
}

static void a_message_that_joins_in_time_skips_the_calls(void)
{
    static const service_reply replies[] = {
            {.body = CALLS(ROME), .is_held = true}, {.body = ANSWER("b")}, {.body = ANSWER("c")}};
    service *s = begin_service(replies, 3);
    done_record f = {.times = 0};
    pal_id session = new_session();
    pal_turn_request request = finished_by(&f, asked(session, "a"));
    pal_turn_info first, second;
    pal_message_page list;

    OK(pal_turn_start(test.runtime, &request, &first, &test.err));
    service_wait(s, 1);
    request = said(session, "stop");
    request.lane = PAL_TURN_LANE_STEER;
    if (OK(pal_turn_start(test.runtime, &request, &second, &test.err)))
        CHECK(second.steered);
    service_release(s);
    /* The result came in time: the call is skipped, and the turn continues. */
    if (CHECK_EQ(wait_for(first.turn, &first, NULL), PAL_TURN_DONE))
        CHECK(!first.has_calls);
    list = all_of(session);
    CHECK_EQ(f.times, 1);
    CHECK_EQ(list.len, 5);
    CHECK_STR(f.answer, "b");
    if (CHECK_EQ(list.len, 5))
        CHECK(is_result(&list.items[2], "c1", "Skipped due to queued user message."));
    end_service(s);
}

static void a_request_with_a_callback_waits_in_memory(void)
{
    static const service_reply replies[] = {
            {.body = ANSWER("a"), .is_held = true}, {.body = ANSWER("b")}};
    service *s = begin_service(replies, 2);
    done_record f = {.times = 0};
    pal_id session = new_session();
    pal_turn_request request = said(session, "a");
    pal_turn_info first, second, third;
    pal_inbox_item *items;
    size_t len = 9;

    OK(pal_turn_start(test.runtime, &request, &first, &test.err));
    service_wait(s, 1);
    request = finished_by(&f, said(session, "b"));
    request.lane = PAL_TURN_LANE_QUEUE;
    OK(pal_turn_start(test.runtime, &request, &second, &test.err));
    CHECK_EQ(second.state, PAL_TURN_QUEUED);
    OK(pal_turn_start(test.runtime, &request, &third, &test.err));
    if (OK(pal_store_inbox_list(test.store, S(""), session, test.arena, &items, &len, &test.err)))
        CHECK_EQ(len, 1);
    if (CHECK_EQ(len, 1))
        CHECK_STR(items[0].delivery, "owed"); /* the first turn's */
    OK(pal_turn_cancel(test.runtime, S(""), third.turn, &test.err));
    CHECK_EQ(wait_for(third.turn, NULL, NULL), PAL_TURN_CANCELED);
    service_release(s);
    CHECK_EQ(wait_for(second.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(f.times, 1);
    CHECK_EQ(all_of(session).len, 4);
    end_service(s);
}

int main(void)
{
    RUN(calls_end_the_turn_and_results_begin_the_next);
    RUN(the_calls_are_reported_before_the_end);
    RUN(results_join_the_calls_after_a_restart_and_in_a_fork);
    RUN(calls_without_a_result_are_settled);
    RUN(one_that_waits_settles_them_too);
    RUN(wrong_results_change_nothing);
    RUN(repeated_results_are_recognized);
    RUN(tools_of_the_server_run_before_the_turn_ends);
    RUN(a_long_result_is_stored_next_to_its_message);
    RUN(a_record_is_written_with_the_last_answer);
    RUN(a_turn_that_ends_with_calls_has_its_record);
    RUN(a_failed_turn_has_no_record);
    RUN(a_rejected_record_fails_the_turn);
    RUN(a_message_that_joins_in_time_skips_the_calls);
    RUN(a_request_with_a_callback_waits_in_memory);
    pal_arena_free(test.arena);
    return tap_done();
}
