/* test_turn_full.c - turns while the disk is full: a message that cannot be stored is refused, an
 * answer that cannot be stored ends its turn, and when there is room again the session continues
 * normally. RLIMIT_FSIZE simulates a full disk for all files. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "palaver/turn.h"
#include "support/model_server.h"
#include "support/on_loop.h"
#include "support/scratch.h"
#include "support/tap.h"

enum { WAIT_MS = 20000, TEXT_LEN = 300000 };

static struct fixture {
    model_server server;
    pal_store *store;
    pal_runtime *runtime;
    pal_arena *arena;
    pal_error err;
    pal_id session;
    char directory[SCRATCH_PATH_MAX];
} test;
static bell heard = BELL_INIT;

static void fill_disk(bool is_full)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = is_full ? 1 : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void begin(void)
{
    static const pal_session empty;
    char url[SCRATCH_PATH_MAX + 32], model_url[64];
    pal_endpoint endpoint = {.kind = pal_str_of("openai"), .model = pal_str_of("m")};
    pal_runtime_options options = {.endpoints = &endpoint, .endpoints_len = 1};

    test.arena = pal_arena_new(0);
    scratch_make(false, test.directory);
    snprintf(url, sizeof(url), "sqlite:%s/turns.db", test.directory);
    snprintf(model_url, sizeof(model_url), "http://127.0.0.1:%d/v1", test.server.port);
    endpoint.url = pal_str_of(model_url);
    OK(pal_store_open(url, NULL, &test.store, &test.err));
    options.store = test.store;
    OK(pal_runtime_open(&options, &test.runtime, &test.err));
    OK(pal_store_create(test.store, &empty, &test.session, &test.err));
}

static void end(void)
{
    pal_runtime_close(test.runtime, 0);
    pal_store_close(test.store);
    pal_arena_free(test.arena);
    scratch_clear(test.directory, true);
}

static pal_status start(pal_str text, pal_turn_info *out_info)
{
    pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, text);
    pal_turn_request request = {.session = test.session, .messages = &message, .messages_len = 1};

    return pal_turn_start(test.runtime, &request, out_info, &test.err);
}

static pal_turn_state state_after(pal_id turn)
{
    pal_turn_info info = {.turn = {{0}}};
    pal_str text;

    OK(pal_turn_wait(
            test.runtime, pal_str_of(""), turn, WAIT_MS, test.arena, &info, &text, &test.err));
    return info.state;
}

static pal_message_page all(void)
{
    pal_message_page list = {0};

    OK(pal_store_load(
            test.store, pal_str_of(""), test.session, NULL, test.arena, &list, &test.err));
    return list;
}

/* `more` is recorded before the next message. */
static void the_session_continues(size_t before, size_t more)
{
    pal_turn_info info = {.turn = {{0}}};
    pal_message_page list;

    OK(start(pal_str_of("@say 2"), &info));
    CHECK_EQ(state_after(info.turn), PAL_TURN_DONE);
    list = all();
    before += more;
    if (CHECK_EQ(list.len, before + 2)) {
        CHECK_EQ(list.items[before].role, PAL_ROLE_USER);
        CHECK_EQ(list.items[before + 1].role, PAL_ROLE_ASSISTANT);
    }
}

static void a_message_that_cannot_be_kept_is_refused(void)
{
    char *text = malloc(TEXT_LEN);
    pal_turn_info info = {.turn = {{0}}};
    pal_status status;

    begin();
    the_session_continues(0, 0);
    memset(text, 'x', TEXT_LEN);
    fill_disk(true);
    status = start(pal_str_make(text, TEXT_LEN), &info);
    CHECK_STATUS_EITHER(status, PAL_IO, PAL_LIMIT);
    CHECK_THAT(test.err.message[0], !=, '\0');
    fill_disk(false);
    CHECK_EQ(all().len, 2);
    the_session_continues(2, 0);
    end();
    free(text);
}

static bool hear(const pal_event *event, void *user)
{
    (void)user;
    if (event->kind == PAL_EVENT_TEXT)
        bell_ring(&heard);
    return true;
}

static void an_answer_that_cannot_be_kept_ends_its_turn(void)
{
    pal_turn_info info = {.turn = {{0}}};
    pal_message_page list;

    begin();
    OK(start(pal_str_of("@held"), &info));
    OK(pal_turn_watch(test.runtime, pal_str_of(""), info.turn, 0, hear, NULL, &heard, &test.err));
    model_server_piece(&test.server, 1);
    CHECK(bell_wait(&heard, 1));
    fill_disk(true);
    model_server_end(&test.server);
    CHECK_EQ(state_after(info.turn), PAL_TURN_FAILED);
    fill_disk(false);
    list = all();
    if (CHECK_EQ(list.len, 1))
        CHECK_EQ(list.items[0].role, PAL_ROLE_USER);
    the_session_continues(1, 1); /* the failure of the turn can be recorded by now */
    end();
}

int main(void)
{
    setenv("no_proxy", "*", 1);
    setenv("NO_PROXY", "*", 1);
    signal(SIGXFSZ, SIG_IGN);
    setvbuf(stdout, NULL, _IONBF, 0);
    model_server_start(&test.server);
    RUN(a_message_that_cannot_be_kept_is_refused);
    RUN(an_answer_that_cannot_be_kept_ends_its_turn);
    model_server_stop(&test.server);
    return tap_done();
}
