/* test_run.c - a server with one more API, of one file (api_toy.c): a streamed turn, a complete
 * response, failing turns, clients that leave, too many streams, and a server that stops. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/log.h"
#include "http_toy.h"
#include "server/observe/observe_metrics.h"
#include "server/server.h"
#include "support/scratch.h"
#include "support/tap.h"

extern const pal_api pal_api_toy;

/* This list replaces the one of api_list.c. */
const pal_api *const pal_apis[] = {&pal_api_native, &pal_api_toy, &pal_api_root, NULL};

typedef struct fixture {
    char folder[SCRATCH_PATH_MAX];
    pal_arena *arena;
    pal_config *config;
    pal_store *store;
    pal_models *models;
    pal_runtime *runtime;
    pal_route_settings *routes;
    pal_metrics *metrics;
    pal_server *server;
    pal_id session;
    uint16_t port;
} fixture;

/* `script` is what the model answers (provider_script.c). */
static bool open_server(fixture *f, const char *script, unsigned streams_max)
{
    char path[600], yaml[1500];
    pal_error err = {0};
    pal_runtime_options runtime;
    pal_session session = {.key = pal_str_of("s"), .tenant = pal_str_of("default")};
    *f = (fixture){.arena = pal_arena_new(0), .metrics = pal_metrics_new()};
    scratch_make(true, f->folder);
    snprintf(path, sizeof path, "%s/script", f->folder);
    snprintf(yaml, sizeof yaml,
            "providers:\n  - kind: script\n    path: %s\nserver:\n  listen: 127.0.0.1:0\n"
            "  streams_max: %u\n",
            path, streams_max);
    FILE *file = fopen(path, "w");
    bool is_open = file && fputs(script, file) >= 0 && fclose(file) == 0 &&
            pal_config_parse(pal_str_of(yaml), "test", &f->config, &err) == PAL_OK &&
            pal_store_open("memory:", NULL, &f->store, &err) == PAL_OK &&
            pal_models_new(NULL, 0, &f->models, &err) == PAL_OK &&
            pal_config_runtime(f->config, f->arena, &runtime, &err) == PAL_OK;
    if (is_open) {
        runtime.store = f->store;
        runtime.models = f->models;
        is_open = pal_runtime_open(&runtime, &f->runtime, &err) == PAL_OK &&
                pal_route_settings_new(&pal_config_get(f->config)->session, &f->routes, &err) ==
                        PAL_OK &&
                pal_store_create(f->store, &session, &f->session, &err) == PAL_OK;
    }
    pal_server_options options = {.store = f->store,
            .runtime = f->runtime,
            .models = f->models,
            .config = f->config ? pal_config_get(f->config) : NULL,
            .route_settings = f->routes,
            .metrics = f->metrics};
    is_open = is_open && pal_server_open(&options, &f->server, &err) == PAL_OK;
    if (!is_open)
        printf("# %s\n", err.message);
    else
        f->port = pal_listener_port(f->server->listener);
    return is_open;
}

static void close_server(fixture *f)
{
    if (f->server) {
        pal_server_quiesce(f->server);
        pal_runtime_drain(f->runtime, 0);
    }
    pal_server_close(f->server);
    pal_runtime_close(f->runtime, 0);
    pal_route_settings_free(f->routes);
    pal_models_free(f->models);
    pal_store_close(f->store);
    pal_metrics_free(f->metrics);
    pal_config_free(f->config);
    pal_arena_free(f->arena);
    scratch_clear(f->folder, true);
}

static int send_request(const fixture *f, const char *body)
{
    char request[1024];
    int fd = client_open(f->port);
    snprintf(request, sizeof request,
            "POST /toy/s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: %zu\r\n\r\n%s",
            strlen(body), body);
    client_say(fd, request);
    return fd;
}

static bool ask(const fixture *f, const char *body, client_answer *out_answer)
{
    int fd = send_request(f, body);
    bool is_there = client_read(fd, false, out_answer);
    close(fd);
    return is_there;
}

static size_t count_messages(const fixture *f)
{
    pal_message_page list = {0};
    pal_message_query load = {.limit = 100};
    return pal_store_load(f->store, pal_str_of("default"), f->session, &load, f->arena, &list,
                   NULL) == PAL_OK
            ? list.len
            : SIZE_MAX;
}

/* ---- Tests ---- */

static void a_turn_is_streamed(void)
{
    fixture f;
    client_answer answer = {0};
    if (CHECK(open_server(&f, "{\"text\":\"Hel\"}\n{\"text\":\"lo\"}\n", 10)) &&
            CHECK(ask(&f, "{\"say\":\"hi\",\"stream\":true}", &answer))) {
        CHECK_EQ(answer.code, 200);
        CHECK_STR(client_header(&answer, "cache-control"), "no-store");
        CHECK_STR(client_header(&answer, "x-accel-buffering"), "no");
        CHECK_STR(answer.body,
                "data: {\"piece\":\"Hel\"}\n\ndata: {\"piece\":\"lo\"}\n\n"
                "data: {\"is_done\":\"yes\"}\n\n");
        CHECK_EQ(count_messages(&f), 2);
    }
    client_answer_done(&answer);
    close_server(&f);
}

static void a_turn_is_one_response(void)
{
    fixture f;
    client_answer answer = {0};
    if (CHECK(open_server(&f, "{\"text\":\"Hel\"}\n{\"text\":\"lo\"}\n", 10)) &&
            CHECK(ask(&f, "{\"say\":\"hi\"}", &answer))) {
        CHECK_EQ(answer.code, 200);
        CHECK_STR(answer.body, "{\"answer\":\"Hello\"}\n");
    }
    client_answer_done(&answer);
    close_server(&f);
}

static void an_early_failure_has_a_code(void)
{
    fixture f;
    client_answer answer = {0};
    if (CHECK(open_server(&f,
                "{\"error\":{\"message\":\"slow down\",\"code\":429,\"retry_after_ms\":7000}}\n",
                10)) &&
            CHECK(ask(&f, "{\"say\":\"hi\",\"stream\":true}", &answer))) {
        CHECK_EQ(answer.code, 429);
        CHECK_STR(client_header(&answer, "retry-after"), "7");
        CHECK_CONTAINS(answer.body, "slow down");
        CHECK_EQ(count_messages(&f), 0);
    }
    client_answer_done(&answer);
    close_server(&f);
}

static void a_late_failure_ends_the_stream(void)
{
    fixture f;
    client_answer answer = {0};
    if (CHECK(open_server(&f, "{\"text\":\"Hel\"}\n{\"error\":\"overloaded\"}\n", 10)) &&
            CHECK(ask(&f, "{\"say\":\"hi\",\"stream\":true}", &answer))) {
        CHECK_EQ(answer.code, 200);
        CHECK_BEGINS(answer.body, "data: {\"piece\":\"Hel\"}\n\ndata: {\"problem\":");
        CHECK_CONTAINS(answer.body, "overloaded");
        CHECK_EQ(count_messages(&f), 0);
    }
    client_answer_done(&answer);
    close_server(&f);
}

static void a_refused_turn_fails(void)
{
    fixture f;
    client_answer answer = {0};
    if (CHECK(open_server(&f, "", 10)) &&
            CHECK(client_ask(f.port,
                    "POST /toy/nobody HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
                    &answer))) {
        CHECK_EQ(answer.code, 404);
        CHECK_BEGINS(answer.body, "{\"problem\":");
    }
    client_answer_done(&answer);
    close_server(&f);
}

/* Waits until the turn of the session has ended. */
static pal_turn_state wait_for_end(fixture *f, pal_id turn)
{
    pal_turn_info info = {0};
    pal_str text;
    pal_error err;
    pal_status status = pal_turn_wait(
            f->runtime, pal_str_of("default"), turn, 60000, f->arena, &info, &text, &err);
    return status == PAL_OK ? info.state : PAL_TURN_NONE;
}

#define ENDLESS "{\"text\":\"Hel\"}\n{\"delay_ms\":600000}\n{\"text\":\"lo\"}\n"

static void a_client_that_leaves_its_stream_stops_the_turn(void)
{
    fixture f;
    pal_turn_info info;
    if (CHECK(open_server(&f, ENDLESS, 10))) {
        int fd = send_request(&f, "{\"say\":\"hi\",\"stream\":true}");
        CHECK(client_read_until(fd, "Hel"));
        CHECK_STATUS(pal_turn_of_session(f.runtime, pal_str_of("default"), f.session, &info, NULL),
                PAL_OK);
        close(fd);
        CHECK_EQ(wait_for_end(&f, info.turn), PAL_TURN_CANCELED);
        CHECK_EQ(count_messages(&f), 0);
    }
    close_server(&f);
}

/* The turn exists as soon as it is recorded; there is no response to wait for. */
static void a_client_that_leaves_before_the_response_stops_the_turn(void)
{
    fixture f;
    pal_turn_info info;
    if (CHECK(open_server(&f, ENDLESS, 10))) {
        int fd = send_request(&f, "{\"say\":\"hi\"}");
        while (pal_turn_of_session(f.runtime, pal_str_of("default"), f.session, &info, NULL) !=
                PAL_OK)
            ;
        close(fd);
        CHECK_EQ(wait_for_end(&f, info.turn), PAL_TURN_CANCELED);
        CHECK_EQ(count_messages(&f), 0);
    }
    close_server(&f);
}

static void too_many_streams_are_refused(void)
{
    fixture f;
    client_answer answer = {0};
    if (CHECK(open_server(&f, ENDLESS "{\"next\":true}\n{\"text\":\"Hi\"}\n", 1))) {
        int fd = send_request(&f, "{\"say\":\"hi\",\"stream\":true}");
        CHECK(client_read_until(fd, "Hel"));
        pal_session other = {.key = pal_str_of("t"), .tenant = pal_str_of("default")};
        pal_id id;
        CHECK_STATUS(pal_store_create(f.store, &other, &id, NULL), PAL_OK);
        CHECK(client_ask(f.port,
                "POST /toy/t HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: 26\r\n\r\n{\"say\":\"hi\",\"stream\":true}",
                &answer));
        CHECK_EQ(answer.code, 503);
        CHECK_STR(client_header(&answer, "retry-after"), "1");
        CHECK_CONTAINS(answer.body, "too many open streams");
        close(fd);
    }
    client_answer_done(&answer);
    close_server(&f);
}

static void a_stopping_server_ends_the_stream(void)
{
    fixture f;
    if (CHECK(open_server(&f, ENDLESS, 10))) {
        int fd = send_request(&f, "{\"say\":\"hi\",\"stream\":true}");
        CHECK(client_read_until(fd, "Hel"));
        pal_server_quiesce(f.server);
        pal_runtime_drain(f.runtime, 0);
        CHECK(client_read_until(fd, "{\"problem\":"));
        CHECK(client_is_closed(fd));
        close(fd);
    }
    close_server(&f);
}

int main(void)
{
    pal_log_setup(NULL, PAL_LOG_ERROR, false);
    RUN(a_turn_is_streamed);
    RUN(a_turn_is_one_response);
    RUN(an_early_failure_has_a_code);
    RUN(a_late_failure_ends_the_stream);
    RUN(a_refused_turn_fails);
    RUN(a_client_that_leaves_its_stream_stops_the_turn);
    RUN(a_client_that_leaves_before_the_response_stops_the_turn);
    RUN(too_many_streams_are_refused);
    RUN(a_stopping_server_ends_the_stream);
    return tap_done();
}
