/* test_turn_many.c - a day's worth of turns, one after the other and some in parallel: at the end
 * the process is not larger than after the first turns, and has the same files open. TURNS sets the
 * number of turns (5,000). */
#include <sqlite3.h>
#include <stdlib.h>

#include "palaver/turn.h"
#include "support/on_loop.h"
#include "support/resident.h"
#include "support/scratch.h"
#include "support/tap.h"

enum {
    AT_ONCE = 25,
    TURNS_EACH = 20,       /* turns per session; then a new session begins */
    WARM_TURNS_MIN = 1500, /* until the maximum number of ended turns is remembered */
    GROWTH_MAX = 8 << 20,
};

static struct fixture {
    pal_store *store;
    pal_runtime *runtime;
    pal_error err;
    char directory[SCRATCH_PATH_MAX];
} test;
static int failures;
static bell ended = BELL_INIT;

static bool take_event(const pal_event *event, void *user)
{
    (void)user;
    if (event->kind != PAL_EVENT_ENDED)
        return true;
    failures += event->state != PAL_TURN_DONE;
    bell_ring(&ended);
    return true;
}

static bool run_some(const pal_id *sessions, int number)
{
    pal_arena *arena = pal_arena_new(0);
    char text[64];
    pal_message message;
    bool held = true;

    snprintf(text, sizeof(text), "This is what was said as number %d.", number);
    message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of(text));
    for (int i = 0; held && i < AT_ONCE; i++) {
        pal_turn_request request = {
                .session = sessions[i], .messages = &message, .messages_len = 1};
        pal_turn_info info;

        held = OK(pal_turn_start(test.runtime, &request, &info, &test.err)) &&
                OK(pal_turn_watch(test.runtime, pal_str_of(""), info.turn, 0, take_event, NULL,
                        &ended, &test.err));
    }
    held = held && bell_wait(&ended, AT_ONCE);
    pal_arena_free(arena);
    return held;
}

static bool new_sessions(pal_id *out_sessions)
{
    static const pal_session session;
    bool held = true;

    for (int i = 0; held && i < AT_ONCE; i++)
        held = OK(pal_store_create(test.store, &session, &out_sessions[i], &test.err));
    return held;
}

/* SQLite's cache of pages grows to its limit. */
static long own_bytes(void)
{
    return resident_bytes() - (long)sqlite3_memory_used();
}

static void turns_leave_no_memory_or_files(void)
{
    static pal_id sessions[AT_ONCE];
    const char *asked = getenv("TURNS");
    int turns = asked ? atoi(asked) : 5000, warm = turns / 5, files = 0;
    long bytes = 0;

    if (warm < WARM_TURNS_MIN)
        warm = WARM_TURNS_MIN;
    for (int number = 0; number < turns; number += AT_ONCE) {
        if (number % (AT_ONCE * TURNS_EACH) == 0 && !CHECK(new_sessions(sessions)))
            return;
        if (!CHECK(run_some(sessions, number)))
            return;
        if (bytes == 0 && number >= warm) {
            bytes = own_bytes();
            files = open_descriptors();
        }
    }
    printf("# %d turns: %ld kB and %d files after %d of them, %ld kB and %d files at the end\n",
            turns, bytes >> 10, files, warm, own_bytes() >> 10, open_descriptors());
    CHECK_EQ(failures, 0);
    CHECK(!RESIDENT_IS_OURS || own_bytes() - bytes < GROWTH_MAX);
    CHECK_EQ(open_descriptors(), files);
}

int main(void)
{
    static const pal_store_options one_reader = {.readers_max = 1}; /* opened when needed */
    char url[SCRATCH_PATH_MAX + 32];
    pal_endpoint endpoint = {.kind = pal_str_of("echo"), .model = pal_str_of("echo")};
    pal_runtime_options options = {.endpoints = &endpoint, .endpoints_len = 1};

    scratch_make(true, test.directory);
    snprintf(url, sizeof(url), "sqlite:%s/turns.db", test.directory);
    if (!OK(pal_store_open(url, &one_reader, &test.store, &test.err)))
        return 1;
    options.store = test.store;
    if (!OK(pal_runtime_open(&options, &test.runtime, &test.err)))
        return 1;
    RUN(turns_leave_no_memory_or_files);
    pal_runtime_close(test.runtime, 0);
    pal_store_close(test.store);
    scratch_clear(test.directory, true);
    return tap_done();
}
