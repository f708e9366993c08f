/* test_turn_entry.c - how turns enter their sessions: a single turn needs few reads of the store,
 * and many simultaneous turns share commits. The argument names the backend. */
#include <pthread.h>

#include "base/memory.h"
#include "stored_fixture.h"

enum { CROWD = 10 };

/* Counts the calls to the store, and holds its commits at a gate. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t finds, scans, marks, commits, ops_most;
    bool is_shut;
    void (*on_find)(void); /* called once, after the next session was found */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note(const char *call, size_t ops, int64_t us, pal_status status, void *user)
{
    pthread_mutex_lock(&seen.lock);
    seen.finds += strcmp(call, "session_find") == 0;
    seen.scans += strcmp(call, "row_scan") == 0;
    seen.marks += strcmp(call, "mark_list") == 0;
    seen.commits += strcmp(call, "apply") == 0;
    seen.ops_most = ops > seen.ops_most ? ops : seen.ops_most;
    pthread_cond_broadcast(&seen.changed);
    while (seen.is_shut && strcmp(call, "apply") == 0)
        pthread_cond_wait(&seen.changed, &seen.lock);
    void (*on_find)(void) = strcmp(call, "session_find") == 0 ? seen.on_find : NULL;
    if (on_find)
        seen.on_find = NULL;
    pthread_mutex_unlock(&seen.lock);
    if (on_find)
        on_find();
}

static void forget_seen(void)
{
    pthread_mutex_lock(&seen.lock);
    seen.finds = seen.scans = seen.marks = seen.commits = seen.ops_most = 0;
    pthread_mutex_unlock(&seen.lock);
}

static void set_gate(bool is_shut)
{
    pthread_mutex_lock(&seen.lock);
    seen.is_shut = is_shut;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

/* Every turn reads its session before it commits. */
static void wait_for_finds(size_t len)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.finds < len)
        pthread_cond_wait(&seen.changed, &seen.lock);
    pthread_mutex_unlock(&seen.lock);
}

static void begin_seen(void)
{
    open_stored(&(pal_store_options){.trace = note, .cache_bytes = PAL_CACHE_BYTES_NONE});
    open_runtime(NULL,
            (pal_runtime_options){.endpoints = &(pal_endpoint){.kind = S("echo")},
                    .endpoints_len = 1,
                    .leave_inbox = true});
}

static void end_seen(void)
{
    end();
    scratch_clear(stored.dir, true);
}

static void a_turn_looks_at_its_session_once(void)
{
    begin_seen();
    pal_id id = new_session();
    pal_turn_request request = said(id, "a");
    pal_turn_info info = {0};

    for (int i = 0; i < 3; i++) {
        forget_seen();
        OK(pal_turn_start(test.runtime, &request, &info, &test.err));
        CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
        CHECK_EQ(seen.commits, 2); /* the user message, and the answer */
        CHECK_EQ(seen.finds, 1);   /* before the first of these; the plan adds the message */
        CHECK_THAT(seen.scans, <=, 2);
        CHECK_THAT(seen.marks, <=, 3);
    }
    CHECK_EQ(all_of(id).len, 6);
    end_seen();
}

static pal_id changed_session;

static void add_message(void)
{
    pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, S("between"));
    pal_error err;

    OK(pal_store_append(test.store, S(""), changed_session, &message, 1, PAL_SEQ_ANY, &err));
}

static void add_mark(void)
{
    pal_mark mark = {.kind = PAL_MARK_HIDE, .seq = 1};
    pal_error err;

    OK(pal_store_mark(test.store, S(""), changed_session, &mark, &err));
}

/* Another writer changes the session between the turn's look at it and the turn's first commit. */
static void a_changed_session_is_read_again(void)
{
    void (*const changes[])(void) = {add_message, add_mark};

    for (size_t i = 0; i < 2; i++) {
        begin_seen();
        changed_session = new_session();
        pal_turn_request request = said(changed_session, "a");
        pal_turn_info info = {0};

        OK(pal_turn_start(test.runtime, &request, &info, &test.err));
        CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
        forget_seen();
        seen.on_find = changes[i];
        OK(pal_turn_start(test.runtime, &request, &info, &test.err));
        CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
        CHECK_EQ(seen.finds, 2);
        CHECK_EQ(all_of(changed_session).len, i == 0 ? 5 : 3);
        end_seen();
    }
}

static void started(const pal_turn_info *info, const pal_error *why, void *user)
{
    if (info)
        *(pal_id *)user = info->turn;
}

static void filled(pal_op *ops, size_t len, pal_status status, const pal_error *why, void *user)
{
    pal_free(ops);
}

/* Fills the queue of the store's writer, which the gate holds in a commit. */
static void fill_queue(pal_id session)
{
    static pal_message message;
    pal_status status = PAL_OK;
    pal_op first = {.kind = PAL_OP_APPEND, .session = session};

    message = (pal_message){.role = PAL_ROLE_SYSTEM};
    first.u.append.messages = &message;
    first.u.append.messages_len = 1;
    first.u.append.expected_seq = PAL_SEQ_ANY;
    for (size_t i = 0; status == PAL_OK; i++) {
        pal_op *op = pal_calloc(1, sizeof(*op));

        if (i == 0)
            *op = first; /* the others fail their checks, but still wait */
        status = pal_store_apply_async(test.store, op, 1, filled, NULL, &test.err);
        if (status != PAL_OK)
            pal_free(op);
    }
    CHECK_STATUS(status, PAL_LIMIT);
}

/* Runs many turns while nothing is committed until all have read their sessions, and for that time
 * after it. */
static void run_crowd(int64_t hold_ms, bool is_full)
{
    pal_id sessions[CROWD], turns[CROWD] = {0};

    begin_seen();
    pal_id other = new_session();
    for (size_t i = 0; i < CROWD; i++)
        sessions[i] = new_session();
    forget_seen();
    set_gate(true);
    if (is_full)
        fill_queue(other);
    for (size_t i = 0; i < CROWD; i++) {
        pal_turn_request request = said(sessions[i], "a");

        OK(pal_turn_start_async(test.runtime, &request, started, &turns[i], &test.err));
    }
    wait_for_finds(CROWD);
    usleep((useconds_t)hold_ms * 1000);
    set_gate(false);
    pal_runtime_drain(test.runtime, WAIT_MS);
    for (size_t i = 0; i < CROWD; i++) {
        if (CHECK(!pal_id_is_none(turns[i])))
            CHECK_EQ(all_of(sessions[i]).len, 2);
        CHECK_EQ(wait_for(turns[i], NULL, NULL), PAL_TURN_DONE);
    }
    end_seen();
}

/* The first few wait for the store alone, while the writes of the others gather. That cannot be
 * observed, so the test tries again with more time. */
static void a_crowd_is_admitted_together(void)
{
    for (int64_t hold_ms = 1; hold_ms < 10000; hold_ms *= 4) {
        run_crowd(hold_ms, false);
        if (seen.ops_most > CROWD)
            break;
    }
    CHECK_THAT(seen.ops_most, >, CROWD);
    CHECK_THAT(seen.commits, <, 2 * CROWD);
}

static void a_full_queue_of_the_store_delays_turns_only(void)
{
    run_crowd(20, true);
}

int main(int argc, char **argv)
{
    stored.backend = argc > 1 ? argv[1] : "memory";
    RUN(a_turn_looks_at_its_session_once);
    RUN(a_changed_session_is_read_again);
    if (strcmp(stored.backend, "memory") != 0) { /* it has no writer, so it has no queue */
        RUN(a_crowd_is_admitted_together);
        RUN(a_full_queue_of_the_store_delays_turns_only);
    }
    pal_arena_free(test.arena);
    return tap_done();
}
