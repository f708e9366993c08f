/* test_trace.c - the spans of a turn, as a collector receives them. The listener under test is the
 * collector. */
#include "server/observe/observe_trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "http_toy.h"
#include "support/tap.h"

static struct fixture {
    pthread_mutex_t lock; /* protects bodies */
    pal_buf bodies;       /* all that the collector has received */
    pal_store *store;
    pal_runtime *runtime;
    pal_listener *listener;
    pal_trace *trace;
} test = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void handle(pal_exchange *x, void *user)
{
    (void)user;
    pthread_mutex_lock(&test.lock);
    pal_buf_append_str(&test.bodies, pal_buf_str(&x->body));
    pthread_mutex_unlock(&test.lock);
    pal_exchange_answer(x, 200, "application/json", pal_str_of("{}"));
}

static void refuse(pal_exchange *x, unsigned code, const char *why, void *user)
{
    (void)user;
    pal_exchange_answer(x, code, "text/plain", pal_str_of(why));
}

static void ended(pal_exchange *x, unsigned code, uint64_t bytes, int64_t duration_us, void *user)
{
    (void)x, (void)code, (void)bytes, (void)duration_us, (void)user;
}

static bool open_all(void)
{
    char url[64];
    pal_error err = {0};
    pal_config_server config = toy_config();
    pal_endpoint echo = {.kind = pal_str_of("echo")};
    pal_listener_options options = {
            .config = &config, .handle = handle, .refuse = refuse, .ended = ended};
    bool opened = pal_store_open("memory:", NULL, &test.store, &err) == PAL_OK;
    pal_runtime_options runtime_options = {
            .store = test.store, .endpoints = &echo, .endpoints_len = 1};
    opened = opened && pal_runtime_open(&runtime_options, &test.runtime, &err) == PAL_OK &&
            pal_listener_open(&options, &test.listener, &err) == PAL_OK;
    if (!opened)
        return false;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", (unsigned)pal_listener_port(test.listener));
    return pal_trace_open(test.runtime, pal_str_of(url), &test.trace, &err) == PAL_OK;
}

static bool run_turn(pal_id *out_session, pal_trace_span_id parent)
{
    pal_error err = {0};
    pal_turn_info info;
    pal_str text;
    pal_session session = {0};
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("a secret word")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_arena *arena = pal_arena_new(0);
    bool ok = pal_store_create(test.store, &session, out_session, &err) == PAL_OK;
    pal_turn_request request = {.session = *out_session, .messages = &message, .messages_len = 1};
    ok = ok && pal_turn_start(test.runtime, &request, &info, &err) == PAL_OK;
    if (ok)
        pal_trace_turn(test.trace, &parent, pal_str_of("default"), *out_session, info.turn,
                pal_str_of("m1"));
    ok = ok &&
            pal_turn_wait(test.runtime, (pal_str){0}, info.turn, -1, arena, &info, &text, &err) ==
                    PAL_OK;
    pal_arena_free(arena);
    return ok && info.state == PAL_TURN_DONE;
}

static bool has(const char *text)
{
    pthread_mutex_lock(&test.lock);
    bool is_there = test.bodies.len > 0 &&
            memmem(test.bodies.data, test.bodies.len, text, strlen(text)) != NULL;
    pthread_mutex_unlock(&test.lock);
    return is_there;
}

static void a_turn_and_its_model_call_are_spans(void)
{
    pal_id session;
    pal_trace_span_id parent;
    char id[PAL_ID_TEXT_SIZE];
    pal_buf_init(&test.bodies, 1 << 20);
    if (!CHECK(open_all()))
        exit(1);
    CHECK(pal_trace_span_id_from_header(
            pal_str_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), &parent));
    CHECK(run_turn(&session, parent));
    pal_runtime_drain(test.runtime, 1000);
    /* Sending the last spans at shutdown has a time limit. */
    for (int i = 0; i < 6000 && !has("\"name\":\"invoke_agent\""); i++)
        usleep(10000);
    pal_trace_close(test.trace);
    pal_listener_close(test.listener);
    pal_runtime_close(test.runtime, 0);
    pal_store_close(test.store);
    pal_id_to_text(session, id);
    CHECK(has("\"name\":\"invoke_agent\""));
    CHECK(has("\"name\":\"chat m1\""));
    CHECK(has("\"traceId\":\"0af7651916cd43dd8448eb211c80319c\""));
    CHECK(has("\"parentSpanId\":\"b7ad6b7169203331\""));
    CHECK(has("gen_ai.usage.output_tokens"));
    CHECK(has("\"gen_ai.request.model\""));
    CHECK(has("\"stringValue\":\"done\""));
    CHECK(has(id));
    CHECK(!has("secret"));
    pal_buf_done(&test.bodies);
}

static void invalid_headers_are_ignored(void)
{
    pal_trace_span_id id;
    static const char *const bad[] = {"", "00", "00-0af7651916cd43dd8448eb211c80319c-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319z-b7ad6b7169203331-01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!pal_trace_span_id_from_header(pal_str_of(bad[i]), &id));
}

int main(void)
{
    RUN(a_turn_and_its_model_call_are_spans);
    RUN(invalid_headers_are_ignored);
    return tap_done();
}
