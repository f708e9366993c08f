/* test_turn_open.c - sessions that a turn creates with its first message, and what a session keeps
 * of its first turn. The argument names the backend. */
#include "service_fixture.h"
#include "stored_fixture.h"

/* A store, and a model with these answers. */
static service *begin_stored(const service_reply *replies, size_t len)
{
    service *s = service_open(replies, len);

    open_stored(NULL);
    open_with(s);
    return s;
}

static void end_stored(service *s)
{
    end_service(s);
    scratch_clear(stored.dir, true);
}

static const service_reply two_answers[] = {{.body = ANSWER("one")}, {.body = ANSWER("two")}};

typedef struct opened {
    pal_session session;
    pal_record record;
    pal_op ops[PAL_TURN_CREATE_OPS_MAX + 1];
} opened;

/* Operations that create the session and a record of it. */
static pal_turn_request opening(opened *o, pal_id id, const char *text)
{
    pal_turn_request request = said(id, text);

    *o = (opened){.session = {.title = S("by a turn")},
            .record = {.kind = S("note"), .name = S("n"), .session = id, .body = S("{}")}};
    o->ops[0] = (pal_op){.kind = PAL_OP_CREATE, .u.create.session = &o->session};
    o->ops[1] = (pal_op){.kind = PAL_OP_RECORD_PUT,
            .u.record = {.record = &o->record, .expected_version = PAL_RECORD_VERSION_ANY}};
    request.create_ops = o->ops;
    request.create_ops_len = 2;
    return request;
}

static uint64_t commits(void)
{
    pal_store_stats stats = {0};

    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    return stats.commits;
}

static bool exists(pal_id id)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_session session = {0};

    pal_id_to_text(id, text);
    pal_status status = pal_store_find(
            test.store, S(""), PAL_SESSION_BY_ID, S(text), test.arena, &session, &test.err);
    CHECK_STATUS_EITHER(status, PAL_OK, PAL_NOT_FOUND);
    return status == PAL_OK;
}

static bool has_epoch(pal_id session)
{
    pal_active_marks active = {0};

    OK(pal_store_active_marks(test.store, S(""), session, test.arena, &active, &test.err));
    return active.epoch.number > 0;
}

static bool is_answered(pal_turn_request request)
{
    pal_turn_info info = {0};

    return OK(pal_turn_start(test.runtime, &request, &info, &test.err)) &&
            CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
}

static bool is_refused(pal_turn_request request, pal_status status)
{
    pal_turn_info info = {0};

    return CHECK_EQ(pal_turn_start(test.runtime, &request, &info, &test.err), status);
}

static void a_turn_makes_its_session_and_two_commits(void)
{
    service *s = begin_stored(two_answers, 2);
    pal_id id = pal_id_new();
    uint64_t before = commits();
    pal_record record = {0};
    pal_turn_info info = {0};
    pal_turn_request request;
    opened o;

    request = opening(&o, id, "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK(exists(id)); /* the message is kept, and so is the session */
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(commits() - before, 2);
    CHECK_EQ(all_of(id).len, 2);
    CHECK(has_epoch(id));
    OK(pal_store_record_find(test.store, S(""), S("note"), S("n"), test.arena, &record, &test.err));
    CHECK_ID(record.session, id);
    CHECK(is_answered(said(id, "b")));
    CHECK_EQ(commits() - before, 4);
    CHECK_EQ(all_of(id).len, 4);
    end_stored(s);
}

static void an_existing_session_is_not_opened_again(void)
{
    service *s = begin_stored(two_answers, 2);
    pal_id id = new_session();
    opened o;

    CHECK(is_refused(opening(&o, id, "a"), PAL_CONFLICT));
    CHECK_EQ(all_of(id).len, 0);
    CHECK(is_answered(said(id, "a")));
    CHECK_EQ(all_of(id).len, 2);
    end_stored(s);
}

static void a_session_that_cannot_be_created_stores_nothing(void)
{
    service *s = begin_stored(two_answers, 2);
    pal_id id = pal_id_new();
    pal_turn_request request;
    opened o;

    request = opening(&o, id, "a");
    o.record.kind = S("");
    CHECK(is_refused(request, PAL_INVALID));
    CHECK(!exists(id) || all_of(id).len == 0);
    CHECK_EQ(s->len, 0); /* the model was not called */
    end_stored(s);
}

static void an_opening_is_checked(void)
{
    service *s = begin_stored(two_answers, 2);
    pal_id id = pal_id_new();
    pal_turn_request request;
    opened o;

    request = opening(&o, id, "a");
    request.create_ops_len = PAL_TURN_CREATE_OPS_MAX + 1;
    CHECK(is_refused(request, PAL_LIMIT));
    request = opening(&o, id, "a");
    request.create_ops = &o.ops[1];
    request.create_ops_len = 1;
    CHECK(is_refused(request, PAL_INVALID));
    CHECK(is_refused(opening(&o, (pal_id){{0}}, "a"), PAL_INVALID));
    CHECK(!exists(id));
    end_stored(s);
}

static void opening_waits_for_no_other_process(void)
{
    static const service_reply replies[] = {{.body = ANSWER("one"), .is_held = true}};
    service *s = begin_stored(replies, 1);
    pal_id id = pal_id_new();
    pal_turn_info info = {0};
    pal_turn_request request;
    opened o;

    request = opening(&o, id, "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    request.lane = PAL_TURN_LANE_QUEUE;
    CHECK(is_refused(request, PAL_BUSY));
    service_release(s);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(all_of(id).len, 2);
    end_stored(s);
}

static void an_epoch_begins_with_the_first_answer(void)
{
    static const service_reply replies[] = {{.code = 404, .body = "{}"}, {.body = ANSWER("one")}};
    service *s = begin_stored(replies, 2);
    pal_id id = pal_id_new();
    pal_turn_info info = {0};
    pal_turn_request request;
    opened o;

    request = opening(&o, id, "a");
    request.all_or_nothing = true;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_FAILED);
    CHECK_EQ(all_of(id).len, 0);
    CHECK(!has_epoch(id));
    CHECK(is_answered(said(id, "a")));
    CHECK_EQ(all_of(id).len, 2);
    CHECK(has_epoch(id));
    end_stored(s);
}

int main(int argc, char **argv)
{
    stored.backend = argc > 1 ? argv[1] : "memory";
    RUN(a_turn_makes_its_session_and_two_commits);
    RUN(an_existing_session_is_not_opened_again);
    RUN(a_session_that_cannot_be_created_stores_nothing);
    RUN(an_opening_is_checked);
    RUN(opening_waits_for_no_other_process);
    RUN(an_epoch_begins_with_the_first_answer);
    pal_arena_free(test.arena);
    return tap_done();
}
