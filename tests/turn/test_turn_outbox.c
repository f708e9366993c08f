/* test_turn_outbox.c - requests from channels: every turn with an outbox leaves one record there,
 * requests can be stored with other data, and notes are recorded in order without an answer. */
#include "turn_fixture.h"
#include "turn_service.h"

#include <stdatomic.h>

#define ANSWER(text) "{\"choices\":[{\"message\":{\"content\":\"" text "\"}}]}"
#define SIENNA "{\"sender\":\"@sienna:sunbeam.pt\"}"
#define LONNI "{\"sender\":\"@lonni:sunbeam.pt\"}"

static const service_reply held[] = {{.body = ANSWER("first"), .is_held = true},
        {.body = ANSWER("second")}, {.body = ANSWER("third")}};

/* ---- What the program is told ---- */

static atomic_int told;
static char told_name[256];

static void on_outbox(pal_str tenant, pal_str name, pal_id session, void *user)
{
    CHECK_STR(tenant, "default");
    CHECK(!pal_id_is_none(session));
    CHECK_PTR(user, &told);
    snprintf(told_name, sizeof(told_name), "%.*s", PAL_STR_ARG(name));
    atomic_fetch_add(&told, 1);
}

static void open_with(const service *s, bool leaves_inbox)
{
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s ? s->url : ""), .model = S("m")};
    pal_runtime_options options = {.on_outbox = on_outbox,
            .outbox_user = &told,
            .leave_inbox = leaves_inbox,
            .lease_ms = 500};

    if (s) {
        options.endpoints = &endpoint;
        options.endpoints_len = 1;
    }
    open_runtime(NULL, options);
}

static void begin_with(const service *s)
{
    atomic_store(&told, 0);
    open_store();
    open_with(s, false);
}

/* ---- Requests and records ---- */

static pal_turn_channel *channel_of(const char *outbox, const char *deliver)
{
    pal_turn_channel *channel = pal_arena_alloc(test.arena, sizeof(*channel));

    *channel = (pal_turn_channel){.outbox = S(outbox), .deliver = S(deliver)};
    return channel;
}

static pal_turn_request asked(pal_id session, const char *text, const char *deliver)
{
    pal_turn_request request = said(session, text);

    request.lane = PAL_TURN_LANE_QUEUE;
    request.channel = channel_of("m:a", deliver);
    return request;
}

static pal_turn_request noted(pal_id session, const char *text)
{
    pal_turn_request request = said(session, text);
    pal_turn_channel *channel = channel_of("", "");

    channel->is_note = 1;
    request.lane = PAL_TURN_LANE_QUEUE;
    request.channel = channel;
    return request;
}

static pal_id start(const pal_turn_request *request)
{
    pal_turn_info info = {0};

    OK(pal_turn_start(test.runtime, request, &info, &test.err));
    return info.turn;
}

static pal_record_page records(void)
{
    pal_record_query query = {.kind = S(PAL_OUTBOX_KIND), .limit = 100};
    pal_record_page page = {0};

    OK(pal_store_record_list(test.store, &query, test.arena, &page, &test.err));
    return page;
}

/* The end of a turn is durable before it is published, so its record exists then. */
static pal_str member(const pal_record *record, const char *name)
{
    pal_json body;

    if (!OK(pal_json_parse(test.arena, record->body, NULL, &body, &test.err)))
        return (pal_str){0};
    body = pal_json_find(body, name);
    return pal_json_type_of(body) == PAL_JSON_STRING ? pal_json_string(body, test.arena)
            : pal_json_type_of(body) == PAL_JSON_NONE ? (pal_str){0}
                                                      : pal_json_raw(body);
}

/* Checks the only record. */
static void check_record(pal_id turn, const char *state, const char *deliver, const char *also)
{
    pal_record_page page = records();
    char id[PAL_ID_TEXT_SIZE], name[64];

    pal_id_to_text(turn, id);
    snprintf(name, sizeof(name), "m:a/%s", id);
    if (!CHECK_EQ(page.len, 1))
        return;
    CHECK_STR(page.items[0].name, name);
    CHECK_STR(member(&page.items[0], "turn"), id);
    CHECK_STR(member(&page.items[0], "state"), state);
    CHECK_STR(member(&page.items[0], "deliver"), deliver);
    CHECK_STR(member(&page.items[0], "also"), also);
    CHECK_STR(S(told_name), name);
    CHECK_EQ(atomic_load(&told), 1);
}

static size_t inbox_len(pal_id session)
{
    pal_inbox_item *items;
    size_t len = 99;

    OK(pal_store_inbox_list(test.store, S(""), session, test.arena, &items, &len, &test.err));
    return len;
}

static void wait_for_records(size_t wanted)
{
    for (int i = 0; i < WAIT_MS / 5 && records().len < wanted; i++)
        usleep(5000);
    CHECK_EQ(records().len, wanted);
}

static void wait_for_messages(pal_id session, size_t wanted)
{
    for (int i = 0; i < WAIT_MS / 5 && all_of(session).len < wanted; i++)
        usleep(5000);
    CHECK_EQ(all_of(session).len, wanted);
}

/* ---- The outbox ---- */

static void an_answer_is_put_into_the_outbox(void)
{
    pal_turn_request request;
    pal_turn_info info;
    pal_record_page page;
    char id[PAL_ID_TEXT_SIZE];
    pal_id session, turn;

    begin_with(NULL);
    session = new_session();
    request = asked(session, "hello", "{\"room\":1}");
    turn = start(&request);
    CHECK_EQ(wait_for(turn, &info, NULL), PAL_TURN_DONE);
    check_record(turn, "done", "{\"room\":1}", "");
    page = records();
    pal_id_to_text(info.message, id);
    CHECK_STR(member(&page.items[0], "message"), id);
    CHECK_STR(member(&page.items[0], "reason"), "");
    CHECK_EQ(inbox_len(session), 0);
    OK(pal_store_erase(test.store, S(""), session, NULL, &test.err));
    CHECK_EQ(records().len, 0);
    end();
}

static void a_request_without_an_outbox_leaves_no_record(void)
{
    pal_turn_request request;
    pal_id session;

    begin_with(NULL);
    session = new_session();
    request = said(session, "hello");
    CHECK_EQ(wait_for(start(&request), NULL, NULL), PAL_TURN_DONE);
    request = said(session, "hello");
    request.channel = channel_of("", "");
    CHECK_EQ(wait_for(start(&request), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(records().len, 0);
    CHECK_EQ(atomic_load(&told), 0);
    end();
}

static void a_failure_is_put_into_the_outbox(void)
{
    static const service_reply bad[] = {{.code = 400, .body = "{\"error\":{\"message\":\"no\"}}"}};
    service *s = service_open(bad, 1);
    pal_turn_request request;
    pal_record_page page;
    pal_id turn;

    begin_with(s);
    request = asked(new_session(), "hello", "{}");
    turn = start(&request);
    CHECK_EQ(wait_for(turn, NULL, NULL), PAL_TURN_FAILED);
    check_record(turn, "failed", "{}", "");
    page = records();
    CHECK(member(&page.items[0], "reason").len > 0);
    CHECK(member(&page.items[0], "message").len > 0);
    end();
    service_close(s);
}

static void a_cancel_is_put_into_the_outbox(bool is_all_or_nothing)
{
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_id turn;

    begin_with(s);
    request = asked(new_session(), "hello", "{}");
    request.all_or_nothing = is_all_or_nothing;
    turn = start(&request);
    service_wait(s, 1);
    OK(pal_turn_cancel(test.runtime, S(""), turn, &test.err));
    CHECK_EQ(wait_for(turn, NULL, NULL), PAL_TURN_CANCELED);
    check_record(turn, "canceled", "{}", "");
    end();
    service_close(s);
}

static void a_cancel_of_any_turn_is_put_into_the_outbox(void)
{
    a_cancel_is_put_into_the_outbox(false);
    a_cancel_is_put_into_the_outbox(true);
}

static void a_request_that_is_taken_back_leaves_no_record(void)
{
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_id session, turn;

    begin_with(s);
    session = new_session();
    request = said(session, "a");
    start(&request);
    service_wait(s, 1);
    request = asked(session, "b", "{}");
    turn = start(&request);
    OK(pal_turn_cancel(test.runtime, S(""), turn, &test.err));
    CHECK_EQ(wait_for(turn, NULL, NULL), PAL_TURN_CANCELED);
    CHECK_EQ(records().len, 0);
    service_release(s);
    end();
    service_close(s);
}

/* ---- Merged requests ---- */

static void merged_requests_share_an_answer(bool is_restarted)
{
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_record_page page;
    pal_id session;

    begin_with(s);
    session = new_session();
    request = said(session, "a");
    start(&request);
    service_wait(s, 1);
    for (int i = 1; i <= 3; i++) {
        char *deliver = pal_arena_alloc(test.arena, 16);

        snprintf(deliver, 16, "{\"n\":%d}", i);
        request = asked(session, "b", deliver);
        request.messages[0].extra = S(i % 2 ? SIENNA : LONNI);
        start(&request);
    }
    if (is_restarted) {
        pal_runtime_close(test.runtime, 0);
        open_with(NULL, false);
    }
    service_release(s);
    wait_for_records(1);
    page = records();
    CHECK_STR(member(&page.items[0], "deliver"), "{\"n\":3}");
    CHECK_STR(member(&page.items[0], "also"), "[{\"n\":1},{\"n\":2}]");
    CHECK_STR(member(&page.items[0], "state"), "done");
    for (int i = 0; i < WAIT_MS / 5 && inbox_len(session) > 0; i++)
        usleep(5000);
    CHECK_EQ(inbox_len(session), 0);
    CHECK_EQ(all_of(session).len, 6);
    end();
    service_close(s);
}

static void merged_requests_have_one_record(void)
{
    merged_requests_share_an_answer(false);
    merged_requests_share_an_answer(true);
}

static void requests_of_two_outboxes_are_not_merged(void)
{
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_id session;

    begin_with(s);
    session = new_session();
    request = said(session, "a");
    start(&request);
    service_wait(s, 1);
    for (int i = 0; i < 2; i++) {
        request = asked(session, "b", "{}");
        request.messages[0].extra = S(SIENNA);
        request.channel = channel_of(i ? "m:a" : "m:b", "{}");
        start(&request);
    }
    service_release(s);
    wait_for_records(2);
    end();
    service_close(s);
}

/* ---- Other processes ---- */

static void a_continued_turn_leaves_one_record(void)
{
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_id session, turn;

    begin_with(s);
    session = new_session();
    request = asked(session, "hello", "{}");
    turn = start(&request);
    service_wait(s, 1);
    pal_runtime_close(test.runtime, 0);
    CHECK_EQ(records().len, 0);
    atomic_store(&told, 0);
    open_with(NULL, false);
    wait_for_records(1);
    CHECK_EQ(wait_for(turn, NULL, NULL), PAL_TURN_DONE);
    check_record(turn, "done", "{}", "");
    end();
    service_close(s);
}

/* A program that exits soon does not continue other turns: it ends them visibly. */
static void a_turn_that_is_given_up_leaves_a_record(void)
{
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_record_page page;
    pal_id session, turn;

    begin_with(s);
    session = new_session();
    request = asked(session, "hello", "{}");
    turn = start(&request);
    service_wait(s, 1);
    pal_runtime_close(test.runtime, 0);
    open_with(NULL, true);
    request = said(session, "again");
    request.lane = PAL_TURN_LANE_QUEUE;
    CHECK_EQ(wait_for(start(&request), NULL, NULL), PAL_TURN_DONE);
    page = records();
    if (CHECK_EQ(page.len, 1)) {
        char id[PAL_ID_TEXT_SIZE];

        pal_id_to_text(turn, id);
        CHECK_STR(member(&page.items[0], "turn"), id);
        CHECK_STR(member(&page.items[0], "state"), "failed");
        CHECK_STR(member(&page.items[0], "reason"), "the process died while it answered");
        CHECK(member(&page.items[0], "message").len > 0);
    }
    end();
    service_close(s);
}

static void a_repeat_is_not_delivered_again(void)
{
    pal_turn_request request;
    pal_turn_info info;
    pal_id session, turn;

    begin_with(NULL);
    session = new_session();
    for (int i = 0; i < 2; i++) {
        request = asked(session, "hello", "{}");
        request.messages[0].client_id = S("c");
        OK(pal_turn_start(test.runtime, &request, &info, &test.err));
        turn = i ? turn : info.turn;
        CHECK_EQ(info.replayed, i > 0);
        CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    }
    check_record(turn, "done", "{}", "");
    OK(pal_store_record_drop(test.store, S(""), S(PAL_OUTBOX_KIND), S(told_name), &test.err));
    pal_runtime_close(test.runtime, 0);
    open_with(NULL, false);
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK(info.replayed);
    CHECK_EQ(records().len, 0);
    CHECK_EQ(all_of(session).len, 2);
    end();
}

/* ---- Requests that are stored by the caller ---- */

static pal_status store_with_place(const pal_turn_request *request, const char *place,
        uint64_t version, pal_id *out_turn)
{
    pal_inbox_item item;
    pal_record record = {.kind = S("cursor"), .name = S("m:a"), .body = S(place)};
    pal_op ops[2];

    if (!OK(pal_turn_to_item(request, test.arena, &item, out_turn, &test.err)))
        return PAL_INVALID;
    ops[0] = pal_op_inbox_add(S(""), request->session, &item);
    ops[1] = pal_op_record_put(S(""), &record, version);
    return pal_store_apply_all(test.store, ops, 2, NULL, &test.err);
}

static void a_stored_request_runs_when_the_runtime_is_woken(void)
{
    pal_turn_request request;
    pal_id session, turn, other;

    begin_with(NULL);
    pal_runtime_close(test.runtime, 0);
    open_with(NULL, true); /* it does not look for requests by itself */
    session = new_session();
    request = asked(session, "hello", "{\"room\":1}");
    request.messages[0].client_id = S("c1");
    OK(store_with_place(&request, "1", 0, &turn));
    CHECK_STATUS(store_with_place(&request, "1", 0, &other), PAL_CONFLICT, &test.err);
    CHECK_EQ(inbox_len(session), 1);
    OK(pal_runtime_wake(test.runtime, S(""), session, &test.err));
    OK(pal_runtime_wake(test.runtime, S(""), session, &test.err));
    wait_for_records(1);
    CHECK_EQ(wait_for(turn, NULL, NULL), PAL_TURN_DONE);
    check_record(turn, "done", "{\"room\":1}", "");
    CHECK_EQ(all_of(session).len, 2);
    /* The same event again, as after a lost place: its item is removed, and nothing else happens */
    request = asked(session, "hello", "{\"room\":1}");
    request.messages[0].client_id = S("c1");
    OK(store_with_place(&request, "2", 1, &other));
    OK(pal_runtime_wake(test.runtime, S(""), session, &test.err));
    for (int i = 0; i < WAIT_MS / 5 && inbox_len(session) > 0; i++)
        usleep(5000);
    CHECK_EQ(inbox_len(session), 0);
    CHECK_EQ(all_of(session).len, 2);
    CHECK_EQ(records().len, 1);
    end();
}

static void a_request_that_cannot_be_recorded_fails_visibly(void)
{
    pal_turn_request request;
    pal_record_page page;
    pal_id session, turn;

    begin_with(NULL);
    session = new_session();
    request = said(session, "hello");
    request.messages[0].client_id = S("c1");
    CHECK_EQ(wait_for(start(&request), NULL, NULL), PAL_TURN_DONE);
    request = asked(session, "something else", "{}");
    request.messages[0].client_id = S("c1");
    OK(store_with_place(&request, "1", 0, &turn));
    OK(pal_runtime_wake(test.runtime, S(""), session, &test.err));
    wait_for_records(1);
    page = records();
    CHECK_STR(member(&page.items[0], "state"), "failed");
    CHECK(member(&page.items[0], "reason").len > 0);
    CHECK_EQ(inbox_len(session), 0);
    CHECK_EQ(all_of(session).len, 2);
    end();
}

static void a_bad_channel_is_refused(void)
{
    pal_turn_channel channels[] = {
            {.outbox = S("m/a"), .deliver = S("{}")},
            {.outbox = S("m:a")},
            {.outbox = S("m:a"), .deliver = S("[]")},
            {.outbox = S("m:a"), .deliver = S("{")},
            {.deliver = S("{}")},
            {.outbox = S("m:a"), .deliver = S("{}"), .also = S("{}")},
            {.outbox = S("m:a"), .deliver = S("{}"), .is_note = 1},
    };
    pal_turn_request request;
    pal_inbox_item item;
    pal_turn_info info;
    pal_id session;

    begin_with(NULL);
    session = new_session();
    for (size_t i = 0; i < sizeof(channels) / sizeof(*channels); i++) {
        request = said(session, "hello");
        request.channel = &channels[i];
        CHECK_STATUS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID,
                &test.err);
        CHECK_STATUS(pal_turn_to_item(&request, test.arena, &item, NULL, &test.err), PAL_INVALID,
                &test.err);
    }
    request = asked(session, "hello", "{}");
    request.lane = PAL_TURN_LANE_STEER;
    CHECK_STATUS(
            pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err);
    request = noted(session, "hello");
    request.lane = PAL_TURN_LANE_INTERRUPT;
    CHECK_STATUS(
            pal_turn_start(test.runtime, &request, &info, &test.err), PAL_INVALID, &test.err);
    request = (pal_turn_request){.session = session};
    CHECK_STATUS(pal_turn_to_item(&request, test.arena, &item, NULL, &test.err), PAL_INVALID,
            &test.err);
    CHECK_EQ(all_of(session).len, 0);
    end();
}

/* ---- Notes ---- */

static void a_note_is_recorded_without_an_answer(void)
{
    pal_turn_request request;
    pal_turn_info info;
    pal_message_page list;
    pal_id session, turn;

    begin_with(NULL);
    session = new_session();
    request = noted(session, "hello");
    request.messages[0].client_id = S("c1");
    turn = start(&request);
    CHECK_EQ(wait_for(turn, &info, NULL), PAL_TURN_DONE);
    CHECK(pal_id_is_none(info.message));
    list = all_of(session);
    if (CHECK_EQ(list.len, 1))
        CHECK(pal_id_is_none(list.items[0].turn_id));
    CHECK_EQ(inbox_len(session), 0);
    /* again, as a note and as a request that wants an answer */
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK(info.replayed);
    pal_runtime_close(test.runtime, 0);
    open_with(NULL, false);
    OK(pal_turn_find(test.runtime, S(""), turn, &info, &test.err));
    CHECK_EQ(info.state, PAL_TURN_DONE);
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK(info.replayed);
    request = said(session, "hello");
    request.messages[0].client_id = S("c1");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK(info.replayed);
    CHECK_EQ(all_of(session).len, 1);
    request = said(session, "and now?");
    CHECK_EQ(wait_for(start(&request), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(all_of(session).len, 3);
    end();
}

/* Notes and requests that arrive while a turn runs are recorded after it, in their order. The three
 * notes become one commit. */
static void notes_keep_their_place(bool is_restarted)
{
    static const char *const wanted[] = {"a", "first", "n1", "n2", "n3", "b", "", "n4"};
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_inbox_item items[5];
    pal_op ops[5];
    pal_message_page list;
    pal_id session;

    begin_with(s);
    session = new_session();
    request = said(session, "a");
    start(&request);
    service_wait(s, 1);
    for (int i = 0; i < 5; i++) {
        request = i == 3 ? asked(session, "b", "{}") : noted(session, wanted[i < 3 ? i + 2 : 7]);
        OK(pal_turn_to_item(&request, test.arena, &items[i], NULL, &test.err));
        ops[i] = pal_op_inbox_add(S(""), session, &items[i]);
    }
    OK(pal_store_apply_all(test.store, ops, 5, NULL, &test.err));
    if (is_restarted) {
        pal_runtime_close(test.runtime, 0);
        open_with(NULL, false);
    } else {
        OK(pal_runtime_wake(test.runtime, S(""), session, &test.err));
    }
    service_release(s);
    wait_for_messages(session, 8);
    list = all_of(session);
    for (size_t i = 0; i < list.len && i < 8; i++)
        if (list.items[i].role == PAL_ROLE_USER)
            CHECK_STR(part_text(&list.items[i], 0), wanted[i]);
    CHECK_EQ(list.items[6].role, PAL_ROLE_ASSISTANT);
    CHECK_EQ(list.items[2].created_at, list.items[4].created_at);
    wait_for_records(1);
    end();
    service_close(s);
}

static void notes_wait_for_older_messages(void)
{
    notes_keep_their_place(false);
    notes_keep_their_place(true);
}

/* One of the waiting notes was recorded before. */
static void a_repeated_note_does_not_stop_the_others(void)
{
    static const char *const texts[] = {"n1", "n2", "n3"};
    service *s = service_open(held, 3);
    pal_turn_request request;
    pal_inbox_item items[3];
    pal_op ops[3];
    pal_id session;

    begin_with(s);
    session = new_session();
    request = noted(session, texts[1]);
    request.messages[0].client_id = S("n2");
    CHECK_EQ(wait_for(start(&request), NULL, NULL), PAL_TURN_DONE);
    request = said(session, "a");
    start(&request);
    service_wait(s, 1);
    for (int i = 0; i < 3; i++) {
        request = noted(session, texts[i]);
        request.messages[0].client_id = S(texts[i]);
        OK(pal_turn_to_item(&request, test.arena, &items[i], NULL, &test.err));
        ops[i] = pal_op_inbox_add(S(""), session, &items[i]);
    }
    OK(pal_store_apply_all(test.store, ops, 3, NULL, &test.err));
    OK(pal_runtime_wake(test.runtime, S(""), session, &test.err));
    service_release(s);
    wait_for_messages(session, 5);
    for (int i = 0; i < WAIT_MS / 5 && inbox_len(session) > 0; i++)
        usleep(5000);
    CHECK_EQ(inbox_len(session), 0);
    CHECK_EQ(all_of(session).len, 5);
    end();
    service_close(s);
}

int main(void)
{
    RUN(an_answer_is_put_into_the_outbox);
    RUN(a_request_without_an_outbox_leaves_no_record);
    RUN(a_failure_is_put_into_the_outbox);
    RUN(a_cancel_of_any_turn_is_put_into_the_outbox);
    RUN(a_request_that_is_taken_back_leaves_no_record);
    RUN(merged_requests_have_one_record);
    RUN(requests_of_two_outboxes_are_not_merged);
    RUN(a_continued_turn_leaves_one_record);
    RUN(a_turn_that_is_given_up_leaves_a_record);
    RUN(a_repeat_is_not_delivered_again);
    RUN(a_stored_request_runs_when_the_runtime_is_woken);
    RUN(a_request_that_cannot_be_recorded_fails_visibly);
    RUN(a_bad_channel_is_refused);
    RUN(a_note_is_recorded_without_an_answer);
    RUN(notes_wait_for_older_messages);
    RUN(a_repeated_note_does_not_stop_the_others);
    pal_arena_free(test.arena);
    return tap_done();
}
