/* test_http.c - the listener with well-behaved clients: responses, workers, streams, and
 * shutdown. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/memory.h"
#include "server/unit/http_toy.h"
#include "support/tap.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: toy\r\n\r\n"
#define POST(path, len, body)                                                                      \
    "POST " path " HTTP/1.1\r\nHost: toy\r\nContent-Length: " len "\r\n\r\n" body

static toy *it;

static void open_default(void)
{
    pal_config_server config = toy_config();
    it = toy_open(&config);
}

static bool answers(int fd, const char *request, unsigned code, const char *body)
{
    client_answer answer;
    bool held = CHECK(client_say(fd, request)) && CHECK(client_read(fd, false, &answer));
    if (!held)
        return false;
    held = CHECK_EQ(answer.code, code) && CHECK_STR(answer.body, body);
    if (!held)
        printf("# %u %s\n", answer.code, answer.body);
    client_answer_done(&answer);
    return held;
}

static void a_request_is_answered(void)
{
    client_answer answer;
    open_default();
    CHECK_THAT(toy_port(it), !=, 0);
    if (CHECK(client_ask(toy_port(it), GET("/hello"), &answer))) {
        CHECK_EQ(answer.code, 200);
        CHECK_STR(answer.body, "hello");
        CHECK_STR(client_header(&answer, "content-type"), "text/plain");
        CHECK_STR(client_header(&answer, "x-toy"), "yes");
        CHECK_EQ(strlen(client_header(&answer, "x-request-id")), 36);
        CHECK(!answer.is_closing);
        client_answer_done(&answer);
    }
    toy_await_ended(it, 1);
    CHECK_EQ(toy_last_code(it), 200);
    CHECK_EQ(toy_last_bytes(it), 5);
    toy_close(it);
}

static void a_connection_is_kept(void)
{
    open_default();
    int fd = client_open(toy_port(it));
    answers(fd, GET("/hello"), 200, "hello");
    answers(fd, POST("/echo", "4", "body"), 200, "body");
    answers(fd, GET("/echo"), 200, "");
    answers(fd, POST("/worker/echo", "6", "worker"), 200, "worker");
    answers(fd, GET("/later"), 200, "later");
    answers(fd, GET("/nothing"), 404, "/nothing");
    answers(fd, GET("/query?a=1&q=x%20y+%c3%a4%zz"), 200, "x y \xc3\xa4%zz");
    answers(fd, GET("/query?a=1"), 404, "");
    answers(fd, "GET /header HTTP/1.1\r\nHost: toy\r\nx-tEst: some thing\r\n\r\n", 200,
            "some thing");
    answers(fd,
            "POST /echo HTTP/1.1\r\nHost: toy\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            200, "abcde");
    close(fd);
    toy_close(it);
}

static void short_streams_arrive_completely(void)
{
    open_default();
    int fd = client_open(toy_port(it));
    answers(fd, GET("/short-stream"), 200, "one,two,three");
    answers(fd, GET("/short-stream"), 200, "one,two,three");
    toy_await_gone(it, 2);
    close(fd);
    toy_close(it);
}

static void a_stream_stays_open_until_its_client_leaves(void)
{
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, GET("/stream")));
    CHECK(client_read_until(fd, "data: 1\n\n"));
    CHECK_EQ(toy_stream_write(it, "data: 2\n\n"), 1);
    CHECK(client_read_until(fd, "data: 2\n\n"));
    close(fd);
    toy_await_gone(it, 1);
    CHECK_EQ(toy_stream_write(it, "data: 3\n\n"), 0);
    toy_close(it);
}

static void head_has_no_body(void)
{
    client_answer answer;
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, "HEAD /hello HTTP/1.1\r\nHost: toy\r\n\r\n"));
    if (CHECK(client_read(fd, true, &answer)))
        CHECK_EQ(answer.code, 200);
    CHECK_STR(client_header(&answer, "Content-Length"), "5");
    client_answer_done(&answer);
    answers(fd, GET("/hello"), 200, "hello");
    CHECK(client_say(fd, "HEAD /stream HTTP/1.1\r\nHost: toy\r\n\r\n"));
    if (CHECK(client_read(fd, true, &answer)))
        CHECK_EQ(answer.code, 200);
    client_answer_done(&answer);
    toy_await_gone(it, 1);
    close(fd);
    toy_close(it);
}

static void old_clients_are_answered(void)
{
    client_answer answer;
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, "GET /hello HTTP/1.0\r\n\r\n"));
    if (CHECK(client_read(fd, false, &answer)))
        CHECK_STR(answer.body, "hello");
    client_answer_done(&answer);
    CHECK(client_is_closed(fd));
    close(fd);
    fd = client_open(toy_port(it));
    CHECK(client_say(fd, "GET /short-stream HTTP/1.0\r\n\r\n"));
    CHECK(client_read_until(fd, "\r\n\r\none,two,three"));
    CHECK(client_is_closed(fd));
    close(fd);
    fd = client_open(toy_port(it));
    CHECK(client_say(fd, "GET /hello HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n"));
    if (CHECK(client_read(fd, false, &answer)))
        CHECK(answer.is_closing);
    client_answer_done(&answer);
    CHECK(client_is_closed(fd));
    close(fd);
    toy_close(it);
}

static void proxies_get_the_target_they_send(void)
{
    open_default();
    int fd = client_open(toy_port(it));
    answers(fd, GET("http://toy:80/nothing?x=/y"), 404, "/nothing");
    answers(fd, GET("/%2fa%00b?q=1"), 404, "/%2fa%00b");
    answers(fd, GET("/query?q=http://x/"), 200, "http://x/");
    close(fd);
    toy_close(it);
}

static void request_ids_are_echoed_when_fit(void)
{
    char request[1024], id[200];
    client_answer answer;
    open_default();
    int fd = client_open(toy_port(it));
    for (int len = 1; len <= 129; len += 64) {
        memset(id, 'i', (size_t)len);
        id[len] = 0;
        snprintf(request, sizeof request,
                "GET /id HTTP/1.1\r\nHost: toy\r\nX-Request-ID: %s\r\n\r\n", id);
        if (CHECK(client_say(fd, request)))
            CHECK(client_read(fd, false, &answer));
        bool is_same = strcmp(client_header(&answer, "x-request-id"), id) == 0;
        CHECK_EQ(is_same, (len <= 128));
        CHECK_STR(client_header(&answer, "x-request-id"), answer.body);
        client_answer_done(&answer);
    }
    CHECK(client_say(fd, "GET /id HTTP/1.1\r\nHost: toy\r\nX-Request-ID: a b\r\n\r\n"));
    if (CHECK(client_read(fd, false, &answer)))
        CHECK_EQ(strlen(answer.body), 36);
    client_answer_done(&answer);
    close(fd);
    /* Also in error responses. */
    CHECK(client_ask(toy_port(it), "GET /id HTTP/1.1\r\nx-request-id: mine\r\n\r\n", &answer));
    CHECK_EQ(answer.code, 400);
    CHECK_STR(client_header(&answer, "x-request-id"), "mine");
    client_answer_done(&answer);
    toy_close(it);
}

static void large_answers_arrive_completely(void)
{
    client_answer answer;
    open_default();
    CHECK(client_ask(toy_port(it), GET("/bytes/5000000"), &answer));
    if (CHECK_EQ(answer.body_len, 5000000))
        CHECK_EQ(answer.body[4999999], 'a' + 4999999 % 26);
    client_answer_done(&answer);
    toy_close(it);
}

/* ---- Many at once ---- */

#define CLIENTS 8
#define ROUNDS 50

static void *run_client(void *user)
{
    static const char *const requests[] = {GET("/hello"), POST("/echo", "4", "body"),
            POST("/worker/echo", "6", "worker"), GET("/later"), GET("/short-stream")};
    static const char *const bodies[] = {"hello", "body", "worker", "later", "one,two,three"};
    bool *out_held = user;
    int fd = client_open(toy_port(it));
    bool held = true;
    for (int i = 0; i < ROUNDS && held; i++) {
        client_answer answer;
        held = client_say(fd, requests[i % 5]) && client_read(fd, false, &answer) &&
                strcmp(answer.body, bodies[i % 5]) == 0;
        client_answer_done(&answer);
    }
    close(fd);
    *out_held = held;
    return NULL;
}

static void many_clients_are_answered_at_once(void)
{
    pthread_t threads[CLIENTS];
    bool held[CLIENTS];
    pal_listener_counts counts;
    open_default();
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, run_client, &held[i]);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(held[i]);
    }
    toy_await_ended(it, CLIENTS * ROUNDS);
    pal_listener_count(toy_listener(it), &counts);
    CHECK_EQ(counts.requests, CLIENTS * ROUNDS);
    CHECK_EQ(counts.refused, 0);
    CHECK_EQ(counts.streams, 0);
    toy_close(it);
}

static void a_client_that_left_is_still_answered(void)
{
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, GET("/hold")));
    toy_await_held(it, 1);
    close(fd);
    toy_release(it);
    toy_await_ended(it, 1);
    toy_close(it);
}

/* ---- Streams ---- */

#define READERS 1000

static void a_thousand_readers_get_every_event(void)
{
    int fds[READERS];
    char event[64];
    unsigned held = 0;
    open_default();
    for (int i = 0; i < READERS; i++) {
        fds[i] = client_open(toy_port(it));
        CHECK(client_say(fds[i], GET("/stream")));
    }
    for (int i = 0; i < READERS; i++)
        held += client_read_until(fds[i], "data: 1\n\n");
    CHECK_EQ(held, READERS);
    for (int n = 2; n < 5; n++) {
        snprintf(event, sizeof event, "data: %d\n\n", n);
        CHECK_EQ(toy_stream_write(it, event), READERS);
    }
    held = 0;
    for (int i = 0; i < READERS; i++)
        held += client_read_until(fds[i], "data: 2\n\n") &&
                client_read_until(fds[i], "data: 4\n\n");
    CHECK_EQ(held, READERS);
    for (int i = 0; i < READERS / 2; i++)
        close(fds[i]);
    toy_await_gone(it, READERS / 2);
    toy_stream_end(it);
    held = 0;
    for (int i = READERS / 2; i < READERS; i++) {
        held += client_read_until(fds[i], "\r\n0\r\n\r\n");
        close(fds[i]);
    }
    CHECK_EQ(held, READERS / 2);
    toy_await_gone(it, READERS);
    toy_close(it);
}

static void quiet_streams_get_heartbeats(void)
{
    pal_config_server config = toy_config();
    config.heartbeat_ms = 50;
    it = toy_open(&config);
    int fd = client_open(toy_port(it));
    if (CHECK(client_say(fd, GET("/stream"))))
        CHECK(client_read_until(fd, "data: 1\n\n"));
    if (CHECK(client_read_until(fd, ": \n\n")))
        CHECK(client_read_until(fd, ": \n\n"));
    close(fd);
    toy_await_gone(it, 1);
    toy_close(it);
}

static void a_reader_that_is_too_slow_is_disconnected(void)
{
    pal_listener_counts counts;
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, GET("/flood")));
    toy_await_gone(it, 1);
    pal_listener_count(toy_listener(it), &counts);
    CHECK_EQ(counts.dropped, 1);
    CHECK(client_is_closed(fd));
    close(fd);
    toy_close(it);
}

/* ---- The end ---- */

static void quiescing_closes_idle_connections(void)
{
    client_answer answer;
    open_default();
    int idle = client_open(toy_port(it)), busy = client_open(toy_port(it));
    answers(idle, GET("/hello"), 200, "hello");
    CHECK(client_say(busy, GET("/hold")));
    toy_await_held(it, 1);
    pal_listener_quiesce(toy_listener(it));
    CHECK(client_is_closed(idle));
    toy_release(it);
    if (CHECK(client_read(busy, false, &answer)))
        CHECK_STR(answer.body, "released");
    CHECK(answer.is_closing);
    client_answer_done(&answer);
    CHECK(client_is_closed(busy));
    close(idle);
    close(busy);
    toy_close(it);
}

static void *close_toy(void *user)
{
    toy_close(user);
    return NULL;
}

static void closing_waits_for_handlers_and_ends_streams(void)
{
    pthread_t thread;
    open_default();
    int held = client_open(toy_port(it)), stream = client_open(toy_port(it));
    CHECK(client_say(held, GET("/hold")));
    if (CHECK(client_say(stream, GET("/stream"))))
        CHECK(client_read_until(stream, "data: 1\n\n"));
    toy_await_held(it, 1);
    pthread_create(&thread, NULL, close_toy, it);
    /* Only closing the listener closes the listening socket. */
    while (client_try(toy_port(it)))
        usleep(1000);
    toy_release(it);
    CHECK(client_read_until(stream, "0\r\n\r\n"));
    pthread_join(thread, NULL);
    close(held);
    close(stream);
}

static void closing_under_load_leaves_nothing(void)
{
    for (int round = 0; round < 5; round++) {
        int fds[40];
        open_default();
        for (int i = 0; i < 40; i++) {
            fds[i] = client_open(toy_port(it));
            client_say(fds[i],
                    i % 4 == 0           ? GET("/stream")
                            : i % 4 == 1 ? GET("/later")
                            : i % 4 == 2 ? POST("/worker/echo", "4", "body")
                                         : "GET /hel");
        }
        toy_close(it);
        for (int i = 0; i < 40; i++)
            close(fds[i]);
    }
}

static void an_invalid_address_is_reported(void)
{
    static const char *const addresses[] = {"127.0.0.1", "nowhere", "::1:80", "[::1]",
            "127.0.0.1:x", "127.0.0.1:123456", ":80", "256.1.1.1:0"};
    pal_config_server config = toy_config();
    pal_listener_options options = {.config = &config};
    pal_listener *listener = NULL;
    pal_error err;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        config.listen = pal_str_of(addresses[i]);
        if (!CHECK_STATUS(pal_listener_open(&options, &listener, &err), PAL_INVALID, &err))
            printf("# %s\n", addresses[i]);
        CHECK_CONTAINS(err.message, "server.listen");
    }
    open_default();
    char taken[32];
    snprintf(taken, sizeof taken, "127.0.0.1:%u", toy_port(it));
    config.listen = pal_str_of(taken);
    CHECK_FAILS(pal_listener_open(&options, &listener, &err), PAL_IO, &err, taken);
    config = toy_config();
    config.tls_certificate = pal_str_of("nothing.pem");
    CHECK_STATUS(pal_listener_open(&options, &listener, &err), PAL_INVALID, &err);
    config.tls_key = pal_str_of("nothing.pem");
    CHECK_STATUS(pal_listener_open(&options, &listener, &err), PAL_NOT_FOUND, &err);
    config = toy_config();
    pal_str proxies[] = {pal_str_of("10.0.0.0/33")};
    config.trusted_proxies = proxies;
    config.trusted_proxies_len = 1;
    CHECK_STATUS(pal_listener_open(&options, &listener, &err), PAL_INVALID, &err);
    CHECK_PTR(listener, NULL);
    toy_close(it);
}

/* ---- Without memory ---- */

/* In each case the request is answered, or its connection is closed. */
static void ask_all(void)
{
    static const char *const requests[] = {GET("/hello"), POST("/worker/echo", "4", "body"),
            GET("/query?q=1"), GET("/short-stream"),
            ("POST /echo HTTP/1.1\r\nHost: toy\r\nTransfer-Encoding: chunked\r\n\r\n"
             "4\r\nbody\r\n0\r\n\r\n")};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        client_answer answer = {0};
        (void)client_ask(toy_port(it), requests[i], &answer);
        client_answer_done(&answer);
    }
}

static void a_lack_of_memory_is_survived(void)
{
    bool has_failed = true;
    unsigned nth = 1;
    for (; has_failed && nth < 1000; nth++) {
        pal_memory_fail_at(nth, 1);
        it = toy_try_open();
        if (it) {
            ask_all();
            toy_close(it);
        }
        has_failed = pal_memory_failed();
        pal_memory_fail_at(0, 0);
    }
    CHECK(!has_failed);
    CHECK_THAT(nth, >, 10);
}

int main(void)
{
    RUN(a_request_is_answered);
    RUN(a_connection_is_kept);
    RUN(head_has_no_body);
    RUN(old_clients_are_answered);
    RUN(proxies_get_the_target_they_send);
    RUN(request_ids_are_echoed_when_fit);
    RUN(large_answers_arrive_completely);
    RUN(many_clients_are_answered_at_once);
    RUN(a_client_that_left_is_still_answered);
    RUN(short_streams_arrive_completely);
    RUN(a_stream_stays_open_until_its_client_leaves);
    RUN(a_thousand_readers_get_every_event);
    RUN(quiet_streams_get_heartbeats);
    RUN(a_reader_that_is_too_slow_is_disconnected);
    RUN(quiescing_closes_idle_connections);
    RUN(closing_waits_for_handlers_and_ends_streams);
    RUN(closing_under_load_leaves_nothing);
    RUN(an_invalid_address_is_reported);
    RUN(a_lack_of_memory_is_survived);
    return tap_done();
}
