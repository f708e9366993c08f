/* test_turn_crowd.c - very many turns that stream at the same time in one runtime: all of them make
 * progress, a stream that never ends does not starve the others, and the memory suffices.
 * TURNS_AT_ONCE sets the number of turns (10,000).
 *
 * Nothing depends on time: the model sends the next piece to every turn only when the test requests
 * it, and the test does so when every turn has received the piece before. */
#include <stdlib.h>
#include <sys/resource.h>

#include "palaver/turn.h"
#include "support/model_server.h"
#include "support/on_loop.h"
#include "support/resident.h"
#include "support/scratch.h"
#include "support/tap.h"

enum { ROUNDS = 5, FLOODED = 100, FLOOD_ROUNDS = 20, BATCH = 500, SPARE_FILES = 200 };

#define RESIDENT_MAX (320l << 20) /* 30 KB each, and what allocators of busy workers keep */

typedef struct member {
    pal_id session, turn;
    int texts;
} member;

static struct fixture {
    model_server server;
    pal_store *store;
    pal_runtime *runtime;
    pal_error err;
    char directory[SCRATCH_PATH_MAX];
} test;
static member *members;
static int members_len;
/* Used on the loop, except for the time between a bell and the event that rings it next. */
static int started, arrived[FLOOD_ROUNDS];
static _Atomic int ended, done, failures; /* written by both threads */
static bool is_flood_seen;
static _Atomic bool is_flood_over;
static bell rung = BELL_INIT;

static void begin(void)
{
    char url[SCRATCH_PATH_MAX + 32], model_url[64];
    pal_endpoint endpoint = {.kind = pal_str_of("openai"), .model = pal_str_of("m")};
    pal_runtime_options options = {.endpoints = &endpoint, .endpoints_len = 1};

    scratch_make(false, test.directory);
    snprintf(url, sizeof(url), "sqlite:%s/turns.db", test.directory);
    snprintf(model_url, sizeof(model_url), "http://127.0.0.1:%d/v1", test.server.port);
    endpoint.url = pal_str_of(model_url);
    OK(pal_store_open(url, NULL, &test.store, &test.err));
    options.store = test.store;
    OK(pal_runtime_open(&options, &test.runtime, &test.err));
    started = 0;
    ended = 0;
    done = 0;
    failures = 0;
    is_flood_seen = false;
    is_flood_over = false;
    memset(arrived, 0, sizeof(arrived));
}

static void end(void)
{
    pal_runtime_close(test.runtime, 0);
    pal_store_close(test.store);
    scratch_clear(test.directory, true);
    free(members);
}

static void make_sessions(int len)
{
    static const pal_session session;
    pal_op ops[BATCH];

    members_len = len;
    members = calloc((size_t)len, sizeof(*members));
    for (int first = 0; first < len; first += BATCH) {
        int count = len - first < BATCH ? len - first : BATCH;

        for (int i = 0; i < count; i++)
            ops[i] = (pal_op){.kind = PAL_OP_CREATE, .u.create.session = &session};
        if (!OK(pal_store_apply(test.store, ops, (size_t)count, &test.err)))
            return;
        for (int i = 0; i < count; i++)
            members[first + i].session = ops[i].session;
    }
}

/* ---- Events of turns ---- */

static void take_start(const pal_turn_info *info, const pal_error *error, void *user)
{
    member *m = user;

    if (info)
        m->turn = info->turn;
    else if (failures++ == 0)
        printf("# %s\n", error->message);
    if (++started == members_len)
        bell_ring(&rung);
}

/* No turn may have a piece before all turns have the piece before it. */
static void take_text(member *m, pal_str text)
{
    int number = m->texts++;

    failures += !pal_str_is(text, MODEL_SERVER_PIECE);
    if (number >= FLOOD_ROUNDS || (number > 0 && arrived[number - 1] != members_len)) {
        failures++;
        return;
    }
    if (++arrived[number] == members_len)
        bell_ring(&rung);
}

static bool take_event(const pal_event *event, void *user)
{
    if (event->kind == PAL_EVENT_TEXT)
        take_text(user, event->text);
    if (event->kind != PAL_EVENT_ENDED)
        return true;
    done += event->state == PAL_TURN_DONE;
    if (++ended == members_len)
        bell_ring(&rung);
    return true;
}

static pal_turn_request request_of(pal_id session, pal_message *message)
{
    return (pal_turn_request){.session = session, .messages = message, .messages_len = 1};
}

static void start_all(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("@held, please"));

    for (int i = 0; i < members_len; i++) {
        pal_turn_request request = request_of(members[i].session, &message);

        failures += pal_turn_start_async(
                            test.runtime, &request, take_start, &members[i], &test.err) != PAL_OK;
    }
    CHECK(bell_wait(&rung, 1));
    for (int i = 0; i < members_len; i++)
        failures += pal_turn_watch(test.runtime, pal_str_of(""), members[i].turn, 0, take_event,
                            NULL, &members[i], &test.err) != PAL_OK;
    CHECK_EQ(failures, 0);
    pal_arena_free(arena);
}

/* ---- Tests ---- */

static void all_turns_run_together(void)
{
    pal_runtime_stats stats;
    const char *wanted = getenv("TURNS_AT_ONCE");
    struct rlimit limit;
    int len = wanted ? atoi(wanted) : 10000;
    long bytes;

    getrlimit(RLIMIT_NOFILE, &limit);
    if ((rlim_t)len + SPARE_FILES > limit.rlim_cur)
        len = (int)limit.rlim_cur - SPARE_FILES;
    begin();
    make_sessions(len);
    start_all();
    for (int i = 0; i < ROUNDS; i++) {
        model_server_piece(&test.server, len);
        if (!CHECK(bell_wait(&rung, 1)))
            break;
    }
    pal_runtime_stat(test.runtime, &stats);
    CHECK_EQ(stats.turns_running, (uint64_t)len);
    CHECK_EQ(ended, 0);
    bytes = resident_bytes();
    printf("# %d turns that stream: %ld MB in all\n", len, bytes >> 20);
    CHECK(!RESIDENT_IS_OURS || bytes < RESIDENT_MAX);
    model_server_end(&test.server);
    CHECK(bell_wait(&rung, 1));
    CHECK_EQ(done, len);
    CHECK_EQ(failures, 0);
    end();
}

static bool take_flood(const pal_event *event, void *user)
{
    (void)user;
    if (event->kind == PAL_EVENT_TEXT && !is_flood_seen) {
        is_flood_seen = true;
        bell_ring(&rung);
    }
    is_flood_over = is_flood_over || event->kind == PAL_EVENT_ENDED;
    return true;
}

static pal_id start_flood(void)
{
    static const pal_session session;
    pal_arena *arena = pal_arena_new(0);
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("@flood"));
    pal_turn_info info = {.turn = {{0}}};
    pal_turn_request request;
    pal_id id;

    OK(pal_store_create(test.store, &session, &id, &test.err));
    request = request_of(id, &message);
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    OK(pal_turn_watch(test.runtime, pal_str_of(""), info.turn, 0, take_flood, NULL, &is_flood_seen,
            &test.err));
    CHECK(bell_wait(&rung, 1));
    pal_arena_free(arena);
    return info.turn;
}

static void a_flood_does_not_starve_other_streams(void)
{
    pal_id flood;

    begin();
    make_sessions(FLOODED);
    start_all();
    flood = start_flood();
    for (int i = 0; i < FLOOD_ROUNDS; i++) {
        model_server_piece(&test.server, FLOODED + 1);
        if (!CHECK(bell_wait(&rung, 1)))
            break;
    }
    CHECK(!is_flood_over);
    OK(pal_turn_cancel(test.runtime, pal_str_of(""), flood, &test.err));
    CHECK(is_flood_over);
    model_server_end(&test.server);
    CHECK(bell_wait(&rung, 1));
    CHECK_EQ(done, FLOODED);
    CHECK_EQ(failures, 0);
    end();
}

int main(void)
{
    setenv("no_proxy", "*", 1);
    setenv("NO_PROXY", "*", 1);
    model_server_start(&test.server);
    RUN(all_turns_run_together);
    RUN(a_flood_does_not_starve_other_streams);
    model_server_stop(&test.server);
    return tap_done();
}
