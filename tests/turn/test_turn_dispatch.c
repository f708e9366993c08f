/* test_turn_dispatch.c - events that are delivered on the caller's thread: pal_turn_watch_queued(),
 * pal_runtime_fd(), pal_runtime_dispatch(). */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "palaver/turn.h"
#include "support/tap.h"

typedef struct listener {
    pthread_t thread;
    int events, ended, gone, strangers; /* strangers counts callbacks on a wrong thread */
    int events_max;                     /* stop after that many events; 0: never */
    uint64_t last;
} listener;

static const pal_str tenant; /* the default tenant */
static struct fixture {
    pal_arena *arena;
    pal_store *store;
    pal_runtime *runtime;
    pal_id session;
    pal_error err;
} test;

/* If `script` is NULL, the model is "echo". */
static void begin_with(const char *script)
{
    pal_endpoint endpoint = {
            .kind = pal_str_of(script ? "script" : "echo"), .path = pal_str_of(script)};
    pal_runtime_options options = {.endpoints = &endpoint, .endpoints_len = 1};
    pal_session made = {0};

    test.arena = pal_arena_new(0);
    CHECK_STATUS(pal_store_open("memory:", NULL, &test.store, &test.err), PAL_OK, &test.err);
    options.store = test.store;
    CHECK_STATUS(pal_runtime_open(&options, &test.runtime, &test.err), PAL_OK, &test.err);
    CHECK_STATUS(pal_store_create(test.store, &made, &test.session, &test.err), PAL_OK, &test.err);
}

static void begin(void)
{
    begin_with(NULL);
}

static void end(void)
{
    pal_runtime_close(test.runtime, 1000);
    pal_store_close(test.store);
    pal_arena_free(test.arena);
}

static bool on_event(const pal_event *event, void *user)
{
    listener *l = user;

    l->events++;
    l->strangers += !pthread_equal(l->thread, pthread_self());
    l->ended += event->kind == PAL_EVENT_ENDED;
    l->last = event->number;
    return l->events_max == 0 || l->events < l->events_max;
}

static void on_gone(void *user)
{
    listener *l = user;

    l->strangers += !pthread_equal(l->thread, pthread_self());
    l->gone++;
}

static bool is_readable(int timeout_ms)
{
    struct pollfd wait = {.fd = pal_runtime_fd(test.runtime), .events = POLLIN};

    return poll(&wait, 1, timeout_ms) == 1;
}

static pal_id start(pal_str text)
{
    pal_message said = pal_message_text(test.arena, PAL_ROLE_USER, text);
    pal_turn_request request = {.session = test.session, .messages = &said, .messages_len = 1};
    pal_turn_info info = {0};

    CHECK_STATUS(pal_turn_start(test.runtime, &request, &info, &test.err), PAL_OK, &test.err);
    return info.turn;
}

static void listen_to(listener *l, pal_id turn, uint64_t after)
{
    l->thread = pthread_self();
    CHECK_STATUS(pal_turn_watch_queued(
                         test.runtime, tenant, turn, after, on_event, on_gone, l, &test.err),
            PAL_OK, &test.err);
}

static void dispatch_until_gone(const listener *l)
{
    while (!l->gone && CHECK(is_readable(60000)))
        pal_runtime_dispatch(test.runtime, 0);
}

static void wait_for_end(pal_id turn)
{
    pal_turn_info info;
    pal_str answer;

    CHECK_STATUS(
            pal_turn_wait(test.runtime, tenant, turn, -1, test.arena, &info, &answer, &test.err),
            PAL_OK, &test.err);
}

static void events_come_on_the_callers_thread(void)
{
    listener l = {0};

    begin();
    CHECK_THAT(pal_runtime_fd(test.runtime), >=, 0);
    CHECK(!is_readable(0));
    CHECK_EQ(pal_runtime_dispatch(test.runtime, 0), 0);
    listen_to(&l, start(pal_str_of("hello")), 0);
    dispatch_until_gone(&l);
    CHECK_THAT(l.events, >, 3);
    CHECK_EQ(l.ended, 1);
    CHECK_EQ(l.gone, 1);
    CHECK_EQ(l.strangers, 0);
    CHECK(!is_readable(0));
    end();
}

static void a_number_of_callbacks_is_made_at_once(void)
{
    listener l = {0};
    pal_id turn;

    begin();
    turn = start(pal_str_of("hello"));
    wait_for_end(turn);
    listen_to(&l, turn, 0);
    CHECK_EQ(pal_runtime_dispatch(test.runtime, 1), 1);
    CHECK_EQ(l.events, 1);
    CHECK(is_readable(0)); /* the fd was first requested while callbacks were waiting */
    CHECK_EQ(pal_runtime_dispatch(test.runtime, 2), 2);
    CHECK_EQ(l.events, 3);
    CHECK_THAT(pal_runtime_dispatch(test.runtime, 0), >, 0);
    CHECK_EQ(l.gone, 1);
    CHECK(!is_readable(0));
    end();
}

static void a_watch_ends_if_its_callback_says_so(void)
{
    listener l = {.events_max = 2};

    begin();
    listen_to(&l, start(pal_str_of("hello")), 0);
    dispatch_until_gone(&l);
    CHECK_EQ(l.events, 2);
    CHECK_EQ(l.ended, 0);
    end();
}

/* Writes an answer that is half as long again as the events that can wait. */
static void write_long_script(char *path)
{
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");

    if (!CHECK(file != NULL))
        return;
    for (int i = 0; i < 12; i++) {
        fputs("{\"text\":\"", file);
        for (uint32_t k = 0; k < PAL_DISPATCH_BYTES_MAX / 8; k++)
            fputc('x', file);
        fputs("\"}\n", file);
    }
    CHECK_EQ(fclose(file), 0);
}

static void a_watch_ends_if_too_much_waits(void)
{
    listener slow = {0}, again = {0};
    char path[] = "/tmp/palaver-dispatch-XXXXXX";
    pal_id turn;

    write_long_script(path);
    begin_with(path);
    turn = start(pal_str_of("say much"));
    listen_to(&slow, turn, 0);
    wait_for_end(turn);
    dispatch_until_gone(&slow);
    CHECK_THAT(slow.events, >, 0);
    CHECK_EQ(slow.ended, 0);
    listen_to(&again, turn, slow.last);
    dispatch_until_gone(&again);
    CHECK_EQ(again.ended, 1);
    end();
    unlink(path);
}

static void closing_ends_all_watches(void)
{
    listener l = {0};
    pal_id turn;

    begin();
    turn = start(pal_str_of("hello"));
    listen_to(&l, turn, 0);
    wait_for_end(turn);
    end();
    CHECK_EQ(l.events, 0);
    CHECK_EQ(l.gone, 1);
    CHECK_EQ(l.strangers, 0);
}

static void an_unknown_turn_is_not_watched(void)
{
    listener l = {0};

    begin();
    CHECK_STATUS(pal_turn_watch_queued(
                         test.runtime, tenant, pal_id_new(), 0, on_event, on_gone, &l, &test.err),
            PAL_NOT_FOUND, &test.err);
    CHECK(!is_readable(0));
    end();
    CHECK_EQ(l.gone, 0);
}

int main(void)
{
    RUN(events_come_on_the_callers_thread);
    RUN(a_number_of_callbacks_is_made_at_once);
    RUN(a_watch_ends_if_its_callback_says_so);
    RUN(a_watch_ends_if_too_much_waits);
    RUN(closing_ends_all_watches);
    RUN(an_unknown_turn_is_not_watched);
    return tap_done();
}
