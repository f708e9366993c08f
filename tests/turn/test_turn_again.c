/* test_turn_again.c - repeated requests at critical moments: while the first request is being
 * stored, or after it was merged with others. */
#include "service_fixture.h"

/* A request that another process stores, and the id of its turn. */
#define OTHER "01234567-89ab-7def-8123-456789abcdef"
#define SENT                                                                                       \
    "{\"turn\":\"" OTHER "\",\"messages\":[{\"id\":\"01234567-89ab-7def-8123-456789abcdee\","        \
    "\"role\":\"user\",\"content\":\"a\",\"client_id\":\"c1\"}]}"

/* ---- Between look and commit ---- */

typedef struct meddler {
    pal_id session;
    _Atomic bool is_due; /* set last; the trace callback also runs on workers */
} meddler;

/* Another process stores the same request just after this one has seen that nothing waits. */
static void meddle(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user)
{
    meddler *m = user;
    pal_inbox_item item = {.client_id = S("c1"), .delivery = S("queue"), .body = S(SENT)};
    pal_error ignored;

    if (!m->is_due || strcmp(call, "inbox_list") != 0)
        return;
    m->is_due = false;
    CHECK_STATUS(pal_store_inbox_add(test.store, S(""), m->session, &item, &ignored), PAL_OK);
}

static void a_request_that_comes_to_two_at_once_is_one_turn(void)
{
    static meddler m;
    pal_store_options options = {.trace = meddle, .trace_user = &m};
    pal_turn_request request;
    pal_turn_info info = {0};
    pal_str text = {0};
    pal_id waiting;

    test.arena = test.arena ? test.arena : pal_arena_new(0);
    CHECK(pal_id_from_text(S(OTHER), &waiting));
    OK(pal_store_open("memory:", &options, &test.store, &test.err));
    open_runtime(NULL, (pal_runtime_options){0});
    m.session = new_session();
    request = said(m.session, "a");
    request.messages[0].client_id = S("c1");
    m.is_due = true;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK(!m.is_due);
    CHECK(info.replayed);
    CHECK_ID(info.turn, waiting);
    if (CHECK_EQ(wait_for(info.turn, &info, &text), PAL_TURN_DONE))
        CHECK_STR(text, "echo: a");
    CHECK_EQ(all_of(m.session).len, 2);
    end();
}

/* ---- What can't be admitted ---- */

static size_t waiting_in(pal_id session)
{
    pal_inbox_item *items;
    size_t len = 0;

    OK(pal_store_inbox_list(test.store, S(""), session, test.arena, &items, &len, &test.err));
    return len;
}

/* It has waited since before the client id was used, so nothing is stuck after it. */
static void a_rejected_waiting_request_leaves_the_inbox(void)
{
    pal_inbox_item item = {.client_id = S("c1"), .delivery = S("queue"), .body = S(SENT)};
    pal_message known;
    pal_turn_request request;
    pal_turn_info info;
    pal_id session;

    open_store();
    session = new_session();
    known = pal_message_text(test.arena, PAL_ROLE_USER, S("something else"));
    known.client_id = S("c1");
    OK(pal_store_append(test.store, S(""), session, &known, 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_inbox_add(test.store, S(""), session, &item, &test.err));
    open_runtime(NULL, (pal_runtime_options){0});
    request = said(session, "next");
    request.lane = PAL_TURN_LANE_QUEUE;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(waiting_in(session), 0);
    CHECK_EQ(all_of(session).len, 3);
    end();
}

static void a_refused_request_leaves_no_trace(void)
{
    pal_turn_request request;
    pal_turn_info info;
    pal_id session;

    begin(NULL);
    session = new_session();
    request = said(session, "a");
    request.messages[0].client_id = S("c1");
    request.expected_seq = 7;
    CHECK_STATUS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_CONFLICT, &test.err);
    CHECK_EQ(waiting_in(session), 0);
    request.expected_seq = 0;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    request = said(session, "b");
    request.messages[0].client_id = S("c1");
    CHECK_FAILS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_CONFLICT, &test.err,
            "was used for another message");
    CHECK_EQ(waiting_in(session), 0);
    CHECK_EQ(all_of(session).len, 2);
    end();
}

/* ---- Merged ---- */

static pal_turn_request said_by(pal_id session, const char *name, const char *id, const char *text)
{
    pal_turn_request request = said(session, text);

    request.messages[0].extra = S(name);
    request.messages[0].client_id = S(id);
    request.lane = PAL_TURN_LANE_QUEUE;
    return request;
}

/* After a restart only the store knows which turn the messages belong to. */
static void each_of_a_merged_turn_is_found_again(void)
{
    static const service_reply replies[] = {
            {.body = ANSWER("one"), .is_held = true}, {.body = ANSWER("both")}};
    static const char *const names[] = {"{\"sender\":\"@a:x\"}", "{\"sender\":\"@b:x\"}"};
    service *s = begin_service(replies, 2);
    pal_id session = new_session();
    pal_turn_info info, waiting[2], again;
    pal_turn_request request = said_by(session, names[0], "", "start");
    pal_str text;

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 1);
    for (int i = 0; i < 2; i++) {
        request = said_by(session, names[i], i ? "c1" : "c0", i ? "second" : "first");
        OK(pal_turn_start(test.runtime, &request, &waiting[i], &test.err));
    }
    service_release(s);
    if (CHECK_EQ(wait_for(waiting[1].turn, NULL, &text), PAL_TURN_DONE))
        CHECK_STR(text, "both");
    pal_runtime_close(test.runtime, 0);
    open_with(s);
    for (int i = 0; i < 2; i++) {
        request = said_by(session, names[i], i ? "c1" : "c0", i ? "second" : "first");
        if (OK(pal_turn_start(test.runtime, &request, &again, &test.err)))
            CHECK(again.replayed);
        if (CHECK_EQ(wait_for(again.turn, NULL, &text), PAL_TURN_DONE))
            CHECK_STR(text, "both");
        OK(pal_turn_find(test.runtime, S(""), waiting[i].turn, &info, &test.err));
        CHECK_EQ(info.state, PAL_TURN_DONE);
    }
    CHECK_EQ(all_of(session).len, 5);
    end_service(s);
}

int main(void)
{
    RUN(a_request_that_comes_to_two_at_once_is_one_turn);
    RUN(a_rejected_waiting_request_leaves_the_inbox);
    RUN(a_refused_request_leaves_no_trace);
    RUN(each_of_a_merged_turn_is_found_again);
    pal_arena_free(test.arena);
    return tap_done();
}
