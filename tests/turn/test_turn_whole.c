/* test_turn_whole.c - turns that are all or nothing: what remains of a turn that fails or dies in
 * the middle, and what happens when the request is repeated. */
#include <stdatomic.h>

#include "service_fixture.h"

static pal_turn_request wholly(pal_id session, const char *text, const char *client_id)
{
    pal_turn_request request = said(session, text);

    request.all_or_nothing = true;
    request.messages[0].client_id = S(client_id);
    return request;
}

static pal_turn_state run(pal_turn_request request, pal_turn_info *out_info)
{
    pal_turn_info info = {0};

    if (!OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        return PAL_TURN_NONE;
    return wait_for(info.turn, out_info ? out_info : &info, NULL);
}

static size_t inbox_len(pal_id session)
{
    pal_inbox_item *items;
    size_t len = 0;

    OK(pal_store_inbox_list(test.store, S(""), session, test.arena, &items, &len, &test.err));
    return len;
}

static size_t log_len(pal_id session)
{
    pal_message_query load = {.hidden = true};
    pal_message_page list = {0};

    OK(pal_store_load(test.store, S(""), session, &load, test.arena, &list, &test.err));
    return list.len;
}

/* The runtime is as good as dead: it does not hold a lease any more, and is not called again. */
static pal_runtime *leave_for_dead(pal_id session)
{
    pal_runtime *dead = test.runtime;
    pal_lease lease = {0};

    OK(pal_store_lease_find(test.store, S(""), session, test.arena, &lease, &test.err));
    OK(pal_store_lease_release(test.store, S(""), session, lease.fence, &test.err));
    return dead;
}

/* ---- Failure ---- */

static void a_failed_turn_runs_again_when_it_is_repeated(void)
{
    static const service_reply replies[] = {
            {.code = 404, .body = "{}"}, {.code = 404, .body = "{}"}, {.body = ANSWER("fine")}};
    service *s = begin_service(replies, 3);
    pal_id session = new_session();
    pal_turn_request request = wholly(session, "a", "m1");
    pal_message_page list;
    pal_turn_info info;

    CHECK_EQ(run(request, NULL), PAL_TURN_FAILED);
    CHECK_EQ(all_of(session).len, 0);
    CHECK_EQ(run(request, NULL), PAL_TURN_FAILED);
    CHECK_EQ(all_of(session).len, 0);
    CHECK_EQ(log_len(session), 2); /* both attempts stay in the log */
    if (CHECK_EQ(run(request, &info), PAL_TURN_DONE))
        CHECK(!info.replayed);
    list = all_of(session);
    if (CHECK_EQ(list.len, 2)) {
        CHECK_STR(part_text(&list.items[1], 0), "fine");
        CHECK_STR(list.items[0].client_id, "m1#3");
    }
    if (OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        CHECK(info.replayed);
    CHECK(!pal_id_is_none(info.turn));
    pal_runtime_close(test.runtime, 0);
    open_with(s); /* the new runtime remembers nothing */
    if (OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        CHECK(info.replayed);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(all_of(session).len, 2);
    CHECK_EQ(inbox_len(session), 0);
    end_service(s);
}

static void a_turn_that_is_done_leaves_nothing_in_the_inbox(void)
{
    static const service_reply replies[] = {
            {.body = "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"s1\",\"function\":"
                     "{\"name\":\"recall\",\"arguments\":\"{\\\"text\\\":\\\"x\\\"}\"}}]}}]}"},
            {.body = ANSWER("fine"), .is_held = true}};
    service *s = begin_service(replies, 2);
    pal_id session = new_session();
    pal_turn_request request = wholly(session, "a", "");
    pal_turn_info info;

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 2);
    CHECK_EQ(inbox_len(session), 1); /* half of it is done */
    service_release(s);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(inbox_len(session), 0);
    CHECK_EQ(all_of(session).len, 4);
    end_service(s);
}

static void a_failure_leaves_open_calls_open(void)
{
    static const service_reply replies[] = {
            {.body = "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c1\",\"function\":"
                     "{\"name\":\"weather\",\"arguments\":\"{}\"}}]}}]}"},
            {.code = 404, .body = "{}"}, {.code = 404, .body = "{}"}, {.body = ANSWER("fine")}};
    const pal_tool weather = {.name = S("weather")};
    service *s = begin_service(replies, 4);
    pal_part part = {.kind = PAL_PART_TOOL_RESULT, .call_id = S("c1"), .text = S("warm")};
    pal_message result = {.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};
    pal_id session = new_session();
    pal_turn_request request = wholly(session, "a", "");
    pal_turn_info info;
    pal_message_page list;

    request.tools = &weather;
    request.tools_len = 1;
    request.calls_end_turn = true;
    if (CHECK_EQ(run(request, &info), PAL_TURN_DONE)) {
        CHECK(info.has_calls);
        CHECK_EQ(inbox_len(session), 0);
    }
    CHECK_EQ(run(wholly(session, "never mind", ""), NULL), PAL_TURN_FAILED);
    CHECK_EQ(all_of(session).len, 2); /* they are not answered, either */
    request.messages = &result;
    CHECK_EQ(run(request, NULL), PAL_TURN_FAILED);
    CHECK_EQ(all_of(session).len, 2);
    CHECK_EQ(run(request, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 4))
        CHECK_STR(part_text(&list.items[2], 0), "warm");
    end_service(s);
}

/* ---- Death ---- */

static const service_reply dying[] = {
        {.body = ANSWER("first")}, {.body = ANSWER("never"), .is_held = true}};

/* A session with one exchange, and a turn in the middle of its second one. */
static pal_runtime *die_in_the_middle(service *s, pal_id session)
{
    pal_turn_request request = wholly(session, "a", "m1");
    pal_turn_info info;

    CHECK_EQ(run(request, NULL), PAL_TURN_DONE);
    request = wholly(session, "b", "m2");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 2);
    CHECK_EQ(all_of(session).len, 3);
    return leave_for_dead(session);
}

static void a_restart_continues_unfinished_work(void)
{
    service *s = begin_service(dying, 2);
    pal_id session = new_session();
    pal_runtime *dead = die_in_the_middle(s, session);
    pal_message_page list;

    open_runtime(NULL, (pal_runtime_options){0});
    for (int i = 0; i < WAIT_MS / 10 && all_of(session).len < 4; i++)
        usleep(10000);
    list = all_of(session);
    if (CHECK_EQ(list.len, 4))
        CHECK_STR(part_text(&list.items[3], 0), "echo: b");
    CHECK_EQ(inbox_len(session), 0);
    CHECK_EQ(log_len(session), 4);
    pal_runtime_close(dead, 0);
    CHECK_EQ(all_of(session).len, 4); /* it cannot write any more */
    end_service(s);
}

static void the_next_turn_continues_it_if_the_inbox_is_unchanged(void)
{
    service *s = begin_service(dying, 2);
    pal_id session = new_session();
    pal_runtime *dead = die_in_the_middle(s, session);
    pal_turn_info info;
    pal_message_page list;

    open_runtime(NULL, (pal_runtime_options){.leave_inbox = true});
    CHECK_EQ(all_of(session).len, 3);
    if (CHECK_EQ(run(wholly(session, "b", "m2"), &info), PAL_TURN_DONE))
        CHECK(!info.replayed);
    list = all_of(session);
    if (CHECK_EQ(list.len, 4)) {
        CHECK_STR(part_text(&list.items[2], 0), "b");
        CHECK_STR(part_text(&list.items[3], 0), "echo: b");
    }
    CHECK_EQ(inbox_len(session), 0);
    pal_runtime_close(dead, 0);
    end_service(s);
}

static void a_turn_that_another_process_runs_is_left_alone(void)
{
    static const service_reply replies[] = {{.body = ANSWER("fine"), .is_held = true}};
    service *s = begin_service(replies, 1);
    pal_id session = new_session();
    pal_turn_request request = wholly(session, "a", "");
    pal_runtime *other = test.runtime;
    pal_turn_info info, refused;

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 1);
    open_runtime(NULL, (pal_runtime_options){0});
    request = said(session, "b");
    CHECK_STATUS(pal_turn_start(test.runtime, &request, &refused, &test.err), PAL_BUSY, &test.err);
    CHECK_EQ(all_of(session).len, 1);
    pal_runtime_close(test.runtime, 0);
    test.runtime = other;
    service_release(s);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(all_of(session).len, 2);
    end_service(s);
}

/* A turn of another process that ends just after it was seen in progress. */
typedef struct end_record {
    service *s;
    pal_runtime *other;
    pal_id session, turn;
    atomic_bool is_armed;
} end_record;

static void end_meanwhile(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user)
{
    end_record *e = user;
    pal_arena *scratch;
    pal_lease lease;
    pal_turn_info info;
    pal_str text;

    if (strcmp(call, "inbox_list") != 0 || !atomic_exchange(&e->is_armed, false))
        return;
    scratch = pal_arena_new(0);
    service_release(e->s);
    CHECK_STATUS(
            pal_turn_wait(e->other, S(""), e->turn, WAIT_MS, scratch, &info, &text, NULL), PAL_OK);
    while (pal_store_lease_find(test.store, S(""), e->session, scratch, &lease, NULL) == PAL_OK)
        usleep(1000);
    pal_arena_free(scratch);
}

static void a_turn_that_ended_meanwhile_is_read_again(void)
{
    static const service_reply replies[] = {{.body = ANSWER("fine"), .is_held = true}};
    end_record e = {.s = service_open(replies, 1)};
    pal_store_options options = {.trace = end_meanwhile, .trace_user = &e};
    pal_turn_request request;
    pal_turn_info info;

    OK(pal_store_open("memory:", &options, &test.store, &test.err));
    open_with(e.s);
    e.session = new_session();
    request = wholly(e.session, "a", "");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(e.s, 1);
    e.turn = info.turn;
    e.other = test.runtime;
    open_runtime(NULL, (pal_runtime_options){.leave_inbox = true});
    atomic_store(&e.is_armed, true);
    CHECK_EQ(run(said(e.session, "b"), NULL), PAL_TURN_DONE);
    if (CHECK(!atomic_load(&e.is_armed)))
        CHECK_EQ(all_of(e.session).len, 4);
    pal_runtime_close(e.other, 0);
    end_service(e.s);
}

/* Open calls of a dead process are answered, also if the message is already known. */
static void a_repetition_is_known_though_calls_are_open(void)
{
    pal_part call = {
            .kind = PAL_PART_TOOL_CALL, .call_id = S("c1"), .name = S("x"), .arguments = S("{}")};
    pal_message messages[2];
    pal_turn_request request;
    pal_turn_info info;

    begin(NULL);
    request = said(new_session(), "a");
    request.messages[0].client_id = S("m1");
    messages[0] = request.messages[0];
    messages[1] = (pal_message){.role = PAL_ROLE_ASSISTANT, .parts = &call, .parts_len = 1};
    OK(pal_store_append(
            test.store, S(""), request.session, &messages[0], 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_append(
            test.store, S(""), request.session, &messages[1], 1, PAL_SEQ_ANY, &test.err));
    if (OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        CHECK(info.replayed);
    CHECK_EQ(all_of(request.session).len, 2);
    request = said(request.session, "b");
    CHECK_EQ(run(request, NULL), PAL_TURN_DONE);
    CHECK_EQ(all_of(request.session).len, 5);
    end();
}

int main(void)
{
    RUN(a_failed_turn_runs_again_when_it_is_repeated);
    RUN(a_turn_that_is_done_leaves_nothing_in_the_inbox);
    RUN(a_failure_leaves_open_calls_open);
    RUN(a_restart_continues_unfinished_work);
    RUN(the_next_turn_continues_it_if_the_inbox_is_unchanged);
    RUN(a_turn_that_another_process_runs_is_left_alone);
    RUN(a_turn_that_ended_meanwhile_is_read_again);
    RUN(a_repetition_is_known_though_calls_are_open);
    pal_arena_free(test.arena);
    return tap_done();
}
