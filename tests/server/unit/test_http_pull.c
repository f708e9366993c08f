/* test_http_pull.c - long responses are produced no faster than the client reads them. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/memory.h"
#include "server/unit/http_toy.h"
#include "server/server_limits.h"
#include "support/tap.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: toy\r\n\r\n"
#define PIECES 40
#define STUCK (PAL_SERVER_WORKERS_MAX + 8)

static toy *it;

static void open_default(void)
{
    pal_config_server config = toy_config();
    it = toy_open(&config);
}

static bool is_whole(const client_answer *answer, unsigned pieces)
{
    if (answer->body_len != (size_t)pieces * TOY_PIECE_BYTES)
        return false;
    for (size_t i = 0; i < answer->body_len; i++)
        if (answer->body[i] != (char)('a' + (pieces - i / TOY_PIECE_BYTES) % 26))
            return false;
    return true;
}

static void a_long_response_arrives_completely(void)
{
    client_answer answer;
    open_default();
    int fd = client_open(toy_port(it));
    for (int i = 0; i < 3; i++) {
        CHECK(client_say(fd, GET("/pull/40")));
        if (!CHECK(client_read(fd, false, &answer)))
            break;
        CHECK_EQ(answer.code, 200);
        CHECK(is_whole(&answer, PIECES));
        client_answer_done(&answer);
    }
    toy_await_ended(it, 3);
    CHECK_EQ(toy_last_bytes(it), (uint64_t)PIECES * TOY_PIECE_BYTES);
    CHECK_EQ(toy_pieces(it), 3 * (PIECES + 1));
    close(fd);
    toy_close(it);
}

static void nothing_is_an_answer_too(void)
{
    client_answer answer;
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, GET("/pull/0")));
    if (CHECK(client_read(fd, false, &answer))) {
        CHECK_EQ(answer.code, 200);
        CHECK_EQ(answer.body_len, 0);
        client_answer_done(&answer);
    }
    CHECK(client_say(fd, "HEAD /pull/9 HTTP/1.1\r\nHost: toy\r\n\r\n"));
    if (CHECK(client_read(fd, true, &answer))) {
        CHECK_EQ(answer.code, 200);
        client_answer_done(&answer);
    }
    toy_await_gone(it, 2);
    CHECK_EQ(toy_pieces(it), 1);
    if (CHECK(client_say(fd, "GET /pull/3 HTTP/1.0\r\n\r\n")))
        CHECK(client_is_closed(fd));
    close(fd);
    toy_close(it);
}

/* Readers that do not read occupy no worker, and only as much is produced as fits into their
 * sockets. */
static void stuck_readers_cost_a_piece_and_no_worker(void)
{
    int fds[STUCK];
    client_answer answer;
    open_default();
    for (int i = 0; i < STUCK; i++) {
        fds[i] = client_open(toy_port(it));
        CHECK(client_say(fds[i], GET("/pull/4000")));
    }
    /* Each is at work before the next request is sent. */
    while (toy_pieces(it) < STUCK)
        usleep(1000);
    for (int i = 0; i < 50; i++) {
        if (!CHECK(client_ask(toy_port(it), GET("/worker/echo"), &answer)))
            break;
        CHECK_EQ(answer.code, 200);
        client_answer_done(&answer);
    }
    unsigned made = 0;
    for (int same = 0; same < 50; same++) {
        usleep(2000);
        if (made != toy_pieces(it))
            same = 0;
        made = toy_pieces(it);
    }
    CHECK_THAT(made, <, STUCK * 2000);
    for (int i = 0; i < STUCK; i++)
        close(fds[i]);
    toy_await_gone(it, STUCK);
    pal_listener_counts counts;
    pal_listener_count(toy_listener(it), &counts);
    CHECK_EQ(counts.streams, 0);
    toy_close(it);
}

static void a_failing_response_is_cut_off(void)
{
    client_answer answer;
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, GET("/pull-fails")));
    CHECK(!client_read(fd, false, &answer));
    client_answer_done(&answer);
    toy_await_gone(it, 1);
    close(fd);
    toy_close(it);
}

static void they_count_as_streams(void)
{
    client_answer answer;
    pal_config_server config = toy_config();
    config.streams_max = 1;
    it = toy_open(&config);
    int stuck = client_open(toy_port(it));
    if (CHECK(client_say(stuck, GET("/pull/4000"))))
        CHECK(client_read_until(stuck, "HTTP/1.1 200"));
    if (CHECK(client_ask(toy_port(it), GET("/pull/1"), &answer))) {
        CHECK_EQ(answer.code, 503);
        client_answer_done(&answer);
    }
    close(stuck);
    toy_close(it);
}

/* When libmicrohttpd stops, its threads also free connections that they have not begun. They learn
 * of the stop by a plain flag that ThreadSanitizer does not see, so it reports a race. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN true
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN false
#endif

static void await_connections(uint64_t count)
{
    pal_listener_counts counts = {0};
    while (counts.connections < count)
        pal_listener_count(toy_listener(it), &counts);
}

static void closing_ends_them(void)
{
    for (int round = 0; round < 10; round++) {
        int fds[20];
        open_default();
        for (int i = 0; i < 20; i++) {
            fds[i] = client_open(toy_port(it));
            CHECK(client_say(fds[i], GET("/pull/4000")));
        }
        if (round % 2)
            CHECK(client_read_until(fds[0], "HTTP/1.1 200"));
        if (UNDER_TSAN)
            await_connections(20);
        toy_close(it);
        for (int i = 0; i < 20; i++)
            close(fds[i]);
    }
}

static void a_lack_of_memory_is_survived(void)
{
    bool has_failed = true;
    unsigned nth = 1;
    for (; has_failed && nth < 2000; nth++) {
        client_answer answer = {0};
        open_default();
        int fd = client_open(toy_port(it));
        pal_memory_fail_at(nth, 1);
        if (client_say(fd, GET("/pull/3")))
            (void)!client_read(fd, false, &answer);
        client_answer_done(&answer);
        has_failed = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        close(fd);
        toy_close(it);
    }
    CHECK(!has_failed);
    CHECK_THAT(nth, >, 3);
}

int main(void)
{
    RUN(a_long_response_arrives_completely);
    RUN(nothing_is_an_answer_too);
    RUN(stuck_readers_cost_a_piece_and_no_worker);
    RUN(a_failing_response_is_cut_off);
    RUN(they_count_as_streams);
    RUN(closing_ends_them);
    RUN(a_lack_of_memory_is_survived);
    return tap_done();
}
