/* test_turn_entry.c - how turns get into their sessions: one by itself costs few looks at the
 * store, and many at once are admitted together; on the backend that the argument names. */
#include <pthread.h>

#include "stored_fixture.h"

enum { CROWD = 10 };

/* What the store is asked for, and a gate that holds its commits. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t finds, scans, marks, commits, ops_most;
    bool is_shut;
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
    pthread_mutex_unlock(&seen.lock);
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

/* Every turn looks for its session before it commits. */
static void wait_for_finds(size_t len)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.finds < len)
        pthread_cond_wait(&seen.changed, &seen.lock);
    pthread_mutex_unlock(&seen.lock);
}

static void begin_seen(void)
{
    open_stored(&(pal_store_options){.trace = note});
    open_runtime(NULL,
            (pal_runtime_options){.endpoints = &(pal_endpoint){.kind = S("echo")},
                    .endpoints_len = 1,
                    .leave_inbox = true});
}

static void end_seen(void)
{
    end();
    scratch_clear(dir, true);
}

static void a_turn_looks_at_its_session_twice(void)
{
    begin_seen();
    pal_id id = new_session();
    pal_turn_request request = said(id, "a");
    pal_turn_info info = {0};

    for (int i = 0; i < 3; i++) {
        forget_seen();
        CHECK(ok(pal_turn_start(runtime, &request, &info, &err)));
        CHECK(wait_for(info.turn, NULL, NULL) == PAL_TURN_DONE);
        CHECK(seen.commits == 2); /* what was said, and the answer */
        CHECK(seen.finds == 2);   /* before the first of these, and behind it */
        CHECK(seen.scans <= 2 && seen.marks <= 4);
    }
    CHECK(all_of(id).len == 6);
    end_seen();
}

static void started(const pal_turn_info *info, const pal_error *why, void *user)
{
    if (info)
        *(pal_id *)user = info->turn;
}

/* Runs a crowd of turns while nothing is committed for so long after all have looked around. */
static void run_crowd(int64_t hold_ms)
{
    pal_id sessions[CROWD], turns[CROWD] = {0};

    begin_seen();
    for (size_t i = 0; i < CROWD; i++)
        sessions[i] = new_session();
    forget_seen();
    set_gate(true);
    for (size_t i = 0; i < CROWD; i++) {
        pal_turn_request request = said(sessions[i], "a");

        CHECK(ok(pal_turn_start_async(runtime, &request, started, &turns[i], &err)));
    }
    wait_for_finds(CROWD);
    usleep((useconds_t)hold_ms * 1000);
    set_gate(false);
    pal_runtime_drain(runtime, WAIT_MS);
    for (size_t i = 0; i < CROWD; i++) {
        CHECK(!pal_id_is_none(turns[i]) && all_of(sessions[i]).len == 2);
        CHECK(wait_for(turns[i], NULL, NULL) == PAL_TURN_DONE);
    }
    end_seen();
}

/* The first few wait for the store on their own; the others' writes gather meanwhile, of which
 * nobody can be told: it is tried again with more time. */
static void a_crowd_is_admitted_together(void)
{
    for (int64_t hold_ms = 1; hold_ms < 10000; hold_ms *= 4) {
        run_crowd(hold_ms);
        if (seen.ops_most > CROWD)
            break;
    }
    CHECK(seen.ops_most > CROWD && seen.commits < 2 * CROWD);
}

int main(int argc, char **argv)
{
    backend = argc > 1 ? argv[1] : "memory";
    RUN(a_turn_looks_at_its_session_twice);
    RUN(a_crowd_is_admitted_together);
    pal_arena_free(arena);
    return tap_done();
}
