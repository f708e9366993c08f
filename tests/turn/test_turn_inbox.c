/* test_turn_inbox.c - a request that waits in the inbox stays there until it is answered, and keeps
 * its conditions, also if another process runs it. */
#include "turn_fixture.h"
#include "turn_service.h"

#include "support/on_loop.h"
#include "turn/lane/lane.h"
#include "turn/turn.h"

#define ANSWER(text) "{\"choices\":[{\"message\":{\"content\":\"" text "\"}}]}"
#define SIENNA "{\"sender\":\"@sienna:sunbeam.pt\"}"
#define LONNI "{\"sender\":\"@lonni:sunbeam.pt\"}"

/* The service holds the first answer, so that later requests of the session wait. */
static const service_reply held[] = {{.body = ANSWER("first"), .is_held = true},
        {.body = ANSWER("second")}, {.body = ANSWER("third")}};

static pal_id begin_held(service *s)
{
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s->url), .model = S("m")};
    pal_turn_request request;
    pal_turn_info info;
    pal_id session;

    open_store();
    open_runtime(NULL, (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1});
    session = new_session();
    request = said(session, "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 1);
    return session;
}

static void restart(void)
{
    pal_runtime_close(test.runtime, 0);
    open_runtime(NULL, (pal_runtime_options){0});
}

static pal_turn_request said_by(pal_id session, const char *extra, const char *text)
{
    pal_turn_request request = said(session, text);

    request.messages[0].extra = S(extra);
    request.lane = PAL_TURN_LANE_QUEUE;
    return request;
}

static pal_id wait_with(const pal_turn_request *request)
{
    pal_turn_info info = {0};

    if (OK(pal_turn_start(test.runtime, request, &info, &test.err)))
        CHECK_EQ(info.state, PAL_TURN_QUEUED);
    return info.turn;
}

static void wait_for_empty_inbox(pal_id session)
{
    pal_inbox_item *items;
    size_t len = 1;

    for (int i = 0; i < WAIT_MS / 10 && len > 0; i++) {
        OK(pal_store_inbox_list(test.store, S(""), session, test.arena, &items, &len, &test.err));
        if (len > 0)
            usleep(10000);
    }
    CHECK_EQ(len, 0);
}

/* Both requests expect the session as it is after the first answer. The second one comes too
 * late. */
static void expect_twice(bool is_restarted)
{
    service *s = service_open(held, 3);
    pal_id session = begin_held(s), first, second;
    pal_turn_request request = said_by(session, SIENNA, "b");
    pal_turn_info info;
    pal_message_page list;

    request.expected_seq = 2;
    first = wait_with(&request);
    request = said_by(session, LONNI, "c");
    request.expected_seq = 2;
    second = wait_with(&request);
    if (is_restarted)
        restart();
    else
        service_release(s);
    wait_for_empty_inbox(session);
    CHECK_EQ(wait_for(first, NULL, NULL), PAL_TURN_DONE);
    if (CHECK_EQ(wait_for(second, &info, NULL), PAL_TURN_FAILED))
        CHECK_STATUS(info.status, PAL_CONFLICT);
    list = all_of(session);
    if (CHECK_EQ(list.len, 4))
        CHECK_STR(part_text(&list.items[2], 0), "<@sienna:sunbeam.pt> b");
    end();
    service_close(s);
}

static void a_waiting_request_expects_its_seq(void)
{
    expect_twice(false);
}

static void a_waiting_request_expects_its_seq_after_a_restart(void)
{
    expect_twice(true);
}

static void own_twice(bool is_restarted)
{
    service *s = service_open(held, 3);
    pal_id session = begin_held(s), first, second;
    pal_turn_request request = said_by(session, SIENNA, "b");
    pal_message_page list;

    snprintf(request.budget.owner, sizeof(request.budget.owner), "key-1");
    first = wait_with(&request);
    request = said_by(session, LONNI, "c");
    snprintf(request.budget.owner, sizeof(request.budget.owner), "key-2");
    second = wait_with(&request);
    CHECK_EQ(pal_runtime_owned(test.runtime, S("key-2")), 1);
    if (is_restarted)
        restart();
    else
        service_release(s);
    wait_for_empty_inbox(session);
    CHECK_EQ(wait_for(first, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(wait_for(second, NULL, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 6)) {
        CHECK_EQ(list.items[3].role, PAL_ROLE_ASSISTANT);
        CHECK_STR(part_text(&list.items[4], 0), "<@lonni:sunbeam.pt> c");
    }
    end();
    service_close(s);
}

static void requests_of_two_owners_are_not_merged(void)
{
    own_twice(false);
}

static void requests_of_two_owners_are_not_merged_after_a_restart(void)
{
    own_twice(true);
}

/* The process that continues a turn counts it for its owner. */
static void an_unfinished_turn_keeps_its_owner(void)
{
    service *s = service_open(held, 3), *next = service_open(held, 3);
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(next->url), .model = S("m")};
    pal_turn_request request;
    pal_turn_info info;

    begin_held(s);
    request = said(new_session(), "b");
    snprintf(request.budget.owner, sizeof(request.budget.owner), "key-1");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    pal_runtime_close(test.runtime, 0);
    open_runtime(NULL, (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1});
    service_wait(next, 1); /* the service takes one call at a time, so both turns are unfinished */
    for (int i = 0; i < WAIT_MS / 10 && pal_runtime_owned(test.runtime, S("key-1")) == 0; i++)
        usleep(10000);
    CHECK_EQ(pal_runtime_owned(test.runtime, S("key-1")), 1);
    service_release(next);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    end();
    service_close(next);
    service_close(s);
}

/* ---- A turn that is stopped at its start ---- */

/* The waiting request begins, its process is told to stop, and then an older request turns up: the
 * turn goes back. Several processes must meet for this, so the steps are made by hand. */
static void stop_and_step_back(void *user)
{
    pal_lane_state *lane = pal_lane_find(test.runtime, S("default"), *(pal_id *)user);
    pal_turn *turn = lane ? lane->first : NULL;

    if (!CHECK(turn) || !CHECK(!lane->running))
        return;
    pal_lane_unqueue(lane, &lane->first);
    lane->running = turn;
    pal_lane_count(test.runtime, 1, 0);
    turn->phase = PAL_TURN_PHASE_ADMIT;
    pal_turn_hand_over(turn);
    pal_lane_requeue(turn);
}

static void a_request_that_cannot_begin_stays_if_its_process_stops(void)
{
    pal_turn_request request;
    pal_inbox_item *items;
    pal_turn_info info;
    pal_id session;
    uint64_t fence;
    size_t len = 0;

    begin(NULL);
    session = new_session();
    OK(pal_store_lease_take(test.store, S(""), session, S("other"), WAIT_MS, &fence, &test.err));
    request = said(session, "a");
    request.lane = PAL_TURN_LANE_QUEUE;
    if (OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        CHECK_EQ(info.state, PAL_TURN_QUEUED);
    on_loop(test.runtime->loop, stop_and_step_back, &session);
    OK(pal_turn_find(test.runtime, S(""), info.turn, &info, &test.err));
    CHECK_EQ(info.state, PAL_TURN_QUEUED);
    pal_runtime_close(test.runtime, 0);
    if (OK(pal_store_inbox_list(test.store, S(""), session, test.arena, &items, &len, &test.err)))
        CHECK_EQ(len, 1);
    OK(pal_store_lease_release(test.store, S(""), session, fence, &test.err));
    open_runtime(NULL, (pal_runtime_options){0});
    wait_for_empty_inbox(session);
    CHECK_EQ(all_of(session).len, 2); /* the next process has answered it */
    end();
}

int main(void)
{
    RUN(a_waiting_request_expects_its_seq);
    RUN(a_waiting_request_expects_its_seq_after_a_restart);
    RUN(requests_of_two_owners_are_not_merged);
    RUN(requests_of_two_owners_are_not_merged_after_a_restart);
    RUN(an_unfinished_turn_keeps_its_owner);
    RUN(a_request_that_cannot_begin_stays_if_its_process_stops);
    pal_arena_free(test.arena);
    return tap_done();
}
