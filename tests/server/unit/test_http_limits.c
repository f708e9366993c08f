/* test_http_limits.c - the listener with clients that send too much, too slowly, or something other
 * than HTTP: each gets the right code, and costs a limited amount of resources. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "server/unit/http_toy.h"
#include "support/tap.h"

#define HEAD "Host: toy\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HEAD "\r\n"

static toy *it;

static void open_default(void)
{
    pal_config_server config = toy_config();
    it = toy_open(&config);
}

static char *filled(size_t len)
{
    char *text = malloc(len + 1);
    memset(text, 'a', len);
    text[len] = 0;
    return text;
}

/* Sends raw bytes. Returns the code of the response, 0 if the connection was closed without one. */
static unsigned code_of(const char *bytes, size_t len, char *out_body, size_t size)
{
    client_answer answer;
    int fd = client_open(toy_port(it));
    (void)client_send(fd, bytes, len);
    unsigned code = client_read(fd, false, &answer) ? answer.code : 0;
    if (out_body)
        snprintf(out_body, size, "%s", answer.body);
    client_answer_done(&answer);
    close(fd);
    return code;
}

static bool refused(const char *request, unsigned code, const char *why)
{
    char body[512];
    unsigned got = code_of(request, strlen(request), body, sizeof body);
    bool held = CHECK_EQ(got, code) && CHECK_CONTAINS(body, why);
    if (!held)
        printf("# wanted %u, got %u '%s' for %.60s\n", code, got, body, request);
    return held;
}

/* With short time limits, a request can be too late by chance. */
static bool is_alive(void)
{
    unsigned code = 0;
    for (int i = 0; i < 20 && code != 200; i++)
        code = code_of(GET("/hello"), strlen(GET("/hello")), NULL, 0);
    return CHECK_EQ(code, 200);
}

/* ---- Malformed ---- */

static void input_other_than_http_is_refused(void)
{
    static const char nul_header[] = "GET /hello HTTP/1.1\r\n" HEAD "x-a: b\0c\r\nx-d: e\r\n\r\n";
    static const char nul_last[] = "GET /hello HTTP/1.1\r\n" HEAD "x-a: b\0cdefg\r\n\r\n";
    static const char nul_path[] = "GET /hel\0lo HTTP/1.1\r\n" HEAD "\r\n";
    open_default();
    /* The parser itself closes these connections or responds; no request reaches a handler. */
    static const char *const odd[] = {"garbage\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n", "GET\r\n\r\n",
            "GET /hello HTTP/9.9\r\n" HEAD "\r\n", "GET /hello\r\n\r\n",
            "GET /hello HTTP/1.1\r\nno colon\r\n" HEAD "\r\n"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        unsigned code = code_of(odd[i], strlen(odd[i]), NULL, 0);
        if (!CHECK(code == 0 || code == 400 || code == 505))
            printf("# %u for %s\n", code, odd[i]);
    }
    CHECK_EQ(code_of(nul_header, sizeof nul_header - 1, NULL, 0), 400);
    CHECK_EQ(code_of(nul_last, sizeof nul_last - 1, NULL, 0), 400);
    CHECK_EQ(code_of(nul_path, sizeof nul_path - 1, NULL, 0), 400);
    refused("GET /he llo HTTP/1.1\r\n" HEAD "\r\n", 400, "request line");
    refused("GET hello HTTP/1.1\r\n" HEAD "\r\n", 400, "request line");
    refused("GET /hello HTTP/1.1\r\n\r\n", 400, "Host");
    refused("GET /hello HTTP/1.1\r\n" HEAD HEAD "\r\n", 400, "Host");
    refused("GET /hello HTTP/1.1\r\n" HEAD "x-a : b\r\n\r\n", 400, "header line");
    refused("GET /hello HTTP/1.1\r\n" HEAD "x-a: b\r\n  folded\r\nx-b: c\r\n\r\n", 400,
            "header line");
    refused("GET /hello HTTP/1.1\r\n" HEAD "x-a: b\r\n folded\r\n\r\n", 400, "header line");
    refused("GET /hello HTTP/1.1\r\n" HEAD "\x01x: b\r\n\r\n", 400, "header line");
    is_alive();
    toy_close(it);
}

static void smuggled_lengths_are_refused(void)
{
    open_default();
    refused("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
            400, "length");
    refused("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
            400, "length");
    refused("POST /echo HTTP/1.1\r\n" HEAD
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400, "length");
    refused("POST /echo HTTP/1.1\r\n" HEAD
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400, "length");
    refused("POST /echo HTTP/1.0\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
            "length");
    refused("POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501,
            "chunked");
    refused("POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: identity\r\n\r\n", 501, "chunked");
    refused("POST /echo HTTP/1.1\r\n" HEAD "Content-Length : 4\r\n\r\nabcd", 400, "header line");
    static const char *const lengths[] = {"-1", "+4", "0x4", "4,4", "4 4", ""};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char request[256];
        snprintf(request, sizeof request,
                "POST /echo HTTP/1.1\r\n" HEAD "Content-Length: %s\r\n\r\nabcd", lengths[i]);
        unsigned code = code_of(request, strlen(request), NULL, 0);
        if (!CHECK_EQ(code, 400))
            printf("# %u for Content-Length: %s\n", code, lengths[i]);
    }
    is_alive();
    toy_close(it);
}

static void broken_chunks_are_refused(void)
{
    static const char head[] = "POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n";
    static const char *const bodies[] = {
            "xyz\r\n", "3\r\nabcdef\r\n0\r\n\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "\r\n\r\n"};
    open_default();
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char request[256];
        snprintf(request, sizeof request, "%s%s", head, bodies[i]);
        unsigned code = code_of(request, strlen(request), NULL, 0);
        if (!CHECK_EITHER(code, 400, 413))
            printf("# %u for chunk %s\n", code, bodies[i]);
    }
    is_alive();
    toy_close(it);
}

static void pipelined_requests_are_answered_in_order(void)
{
    static const char three[] = "POST /later HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\nabc" GET(
            "/hello") "POST /worker/echo HTTP/1.1\r\n" HEAD "Content-Length: 4\r\n\r\nlast";
    static const char *const bodies[] = {"later", "hello", "last"};
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd, three));
    for (size_t i = 0; i < 3; i++) {
        client_answer answer;
        if (CHECK(client_read(fd, false, &answer)))
            CHECK_STR(answer.body, bodies[i]);
        client_answer_done(&answer);
    }
    close(fd);
    toy_close(it);
}

/* ---- Too much ---- */

static void long_urls_and_headers_are_refused(void)
{
    char *request = malloc(70000), *long_url = filled(2049), *long_value = filled(8192);
    open_default();
    snprintf(request, 70000, "GET /%s HTTP/1.1\r\n" HEAD "\r\n", long_url);
    refused(request, 414, "url_bytes_max");
    long_url[2047] = 0; /* with its slash, as long as allowed */
    snprintf(request, 70000, "GET /%s HTTP/1.1\r\n" HEAD "\r\n", long_url);
    CHECK_EQ(code_of(request, strlen(request), NULL, 0), 404);
    snprintf(request, 70000, "GET /hello HTTP/1.1\r\n" HEAD "x-a: %s\r\n\r\n", long_value);
    refused(request, 431, "header_bytes_max");
    long_value[8000] = 0;
    snprintf(request, 70000, "GET /hello HTTP/1.1\r\n" HEAD "x-a: %s\r\n\r\n", long_value);
    CHECK_EQ(code_of(request, strlen(request), NULL, 0), 200);
    int len = snprintf(request, 70000, "GET /hello HTTP/1.1\r\n" HEAD);
    for (int i = 0; i < 100; i++)
        len += snprintf(request + len, 70000 - (size_t)len, "a: b\r\n");
    snprintf(request + len, 70000 - (size_t)len, "\r\n");
    refused(request, 431, "header lines");
    /* So long that the parser itself gives up. */
    char *huge = filled(60000);
    snprintf(request, 70000, "GET /%s HTTP/1.1\r\n" HEAD "\r\n", huge);
    CHECK_EQ(code_of(request, strlen(request), NULL, 0), 414);
    snprintf(request, 70000, "GET /hello HTTP/1.1\r\n" HEAD "x-a: %s\r\n\r\n", huge);
    CHECK_EQ(code_of(request, strlen(request), NULL, 0), 431);
    is_alive();
    /* All except for the URL that never ended. */
    pal_listener_counts counts = {0};
    while (counts.refused < 4) {
        pal_listener_count(toy_listener(it), &counts);
        usleep(1000);
    }
    CHECK_EQ(counts.refused, 4);
    free(huge);
    free(long_value);
    free(long_url);
    free(request);
    toy_close(it);
}

/* Sends `len` bytes in pieces, whatever the other side sends; then reads the response. */
static unsigned code_after_upload(const char *head, size_t len, bool is_chunked, bool *out_is_whole)
{
    static char piece[1 << 16];
    client_answer answer;
    int fd = client_open(toy_port(it));
    bool is_open = client_say(fd, head);
    size_t sent = 0;
    while (is_open && sent < len) {
        is_open = (!is_chunked || client_say(fd, "10000\r\n")) &&
                client_send(fd, piece, sizeof piece) && (!is_chunked || client_say(fd, "\r\n"));
        sent += sizeof piece;
    }
    unsigned code = client_read(fd, false, &answer) ? answer.code : 0;
    CHECK(code != 413 || strstr(answer.body, "body_bytes_max"));
    CHECK(code != 413 || answer.is_closing);
    client_answer_done(&answer);
    close(fd);
    if (out_is_whole)
        *out_is_whole = is_open;
    return code;
}

#define SIXTEEN_MB ((size_t)16 << 20)
#define HUNDRED_MB ((size_t)100 << 20)

static void long_bodies_are_refused(void)
{
    bool is_whole = false;
    open_default();
    /* A client that sends everything before it reads also receives the response. */
    CHECK_EQ(code_after_upload("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 16777216\r\n\r\n",
                     SIXTEEN_MB, false, &is_whole),
            413);
    CHECK(is_whole);
    CHECK_EQ(code_after_upload("POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n",
                     SIXTEEN_MB, true, &is_whole),
            413);
    CHECK(is_whole);
    CHECK_EQ(code_after_upload("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 104857600\r\n\r\n",
                     HUNDRED_MB, false, NULL),
            413);
    CHECK_EQ(code_after_upload("POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n",
                     HUNDRED_MB, true, NULL),
            413);
    refused("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 100001\r\n\r\n", 413, "body_bytes_max");
    refused("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 18446744073709551615\r\n\r\n", 413,
            "body_bytes_max");
    refused("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 99999999999999999999999\r\n\r\n", 413,
            "");
    refused("POST /echo HTTP/1.1\r\n" HEAD
            "Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n",
            413, "body_bytes_max");
    is_alive();
    toy_close(it);
}

static void bodies_up_to_the_limit_are_taken(void)
{
    client_answer answer;
    char *body = filled(100000);
    open_default();
    int fd = client_open(toy_port(it));
    CHECK(client_say(fd,
            "POST /echo HTTP/1.1\r\n" HEAD
            "Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n"));
    if (CHECK(client_read(fd, false, &answer)))
        CHECK_EQ(answer.code, 100);
    client_answer_done(&answer);
    CHECK(client_say(fd, body));
    if (CHECK(client_read(fd, false, &answer))) {
        CHECK_EQ(answer.code, 200);
        CHECK_EQ(answer.body_len, 100000);
    }
    client_answer_done(&answer);
    close(fd);
    free(body);
    toy_close(it);
}

static void connections_over_the_limit_get_503(void)
{
    pal_config_server config = toy_config();
    int fds[3];
    config.connections_max = 3;
    it = toy_open(&config);
    for (size_t i = 0; i < 3; i++) {
        client_answer answer;
        fds[i] = client_open(toy_port(it));
        if (CHECK(client_say(fds[i], GET("/hello"))))
            CHECK(client_read(fds[i], false, &answer));
        client_answer_done(&answer);
    }
    refused(GET("/hello"), 503, "connections");
    client_answer answer;
    if (CHECK(client_say(fds[0], GET("/hello"))))
        CHECK(client_read(fds[0], false, &answer));
    CHECK_EQ(answer.code, 200);
    client_answer_done(&answer);
    for (size_t i = 0; i < 3; i++)
        close(fds[i]);
    toy_close(it);
}

static void streams_over_the_limit_are_answered_otherwise(void)
{
    pal_config_server config = toy_config();
    config.streams_max = 1;
    it = toy_open(&config);
    int fd = client_open(toy_port(it));
    if (CHECK(client_say(fd, GET("/stream"))))
        CHECK(client_read_until(fd, "data: 1"));
    refused(GET("/stream"), 503, "too many streams");
    close(fd);
    toy_await_gone(it, 1);
    fd = client_open(toy_port(it));
    if (CHECK(client_say(fd, GET("/stream"))))
        CHECK(client_read_until(fd, "data: 1"));
    close(fd);
    toy_close(it);
}

/* ---- Too slow ---- */

/* Machines that are too slow for the shortest time limit get more time: the limits are tried one
 * after the other, until the client was fast enough. */
static const int64_t patience_ms[] = {150, 1000, 8000};

static void open_quick(int64_t ms)
{
    pal_config_server config = toy_config();
    config.idle_ms = ms;
    config.request_ms = ms;
    it = toy_open(&config);
}

static bool holds_in_time(bool (*holds)(int64_t ms))
{
    bool held = false;
    for (size_t i = 0; !held && i < sizeof patience_ms / sizeof *patience_ms; i++) {
        open_quick(patience_ms[i]);
        held = holds(patience_ms[i]);
        toy_close(it);
    }
    return CHECK(held);
}

static unsigned code_when_slow(const char *begin)
{
    client_answer answer;
    int fd = client_open(toy_port(it));
    (void)!client_say(fd, begin);
    unsigned code = client_read(fd, false, &answer) ? answer.code : 0;
    client_answer_done(&answer);
    CHECK(client_is_closed(fd));
    close(fd);
    return code;
}

/* One byte at a time keeps a connection busy, but does not keep it open. */
static void *dribble(void *user)
{
    int fd = *(int *)user;
    while (client_say(fd, "a"))
        usleep(5000);
    return NULL;
}

static bool slow_heads_and_bodies_get_408(int64_t ms)
{
    (void)ms;
    return code_when_slow("GET /hello HTTP/1.1\r\nHost: t") == 408 &&
            code_when_slow("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 10\r\n\r\nabc") == 408 &&
            code_when_slow("POST /echo HTTP/1.1\r\n" HEAD
                           "Transfer-Encoding: chunked\r\n\r\n5\r\nab") == 408;
}

static void slow_requests_are_cut(void)
{
    holds_in_time(slow_heads_and_bodies_get_408);
    open_quick(patience_ms[0]);
    CHECK_EQ(code_when_slow("GET /hel"), 0);
    CHECK_EQ(code_when_slow(""), 0);
    is_alive();
    toy_close(it);
}

static void a_client_that_leaves_within_a_chunk_is_noticed(void)
{
    open_quick(patience_ms[0]);
    int fd = client_open(toy_port(it));
    CHECK(client_say(
            fd, "POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\nff\r\nabc"));
    shutdown(fd, SHUT_WR);
    CHECK(client_is_closed(fd));
    close(fd);
    is_alive();
    toy_close(it);
}

static void dribbled_requests_are_cut(void)
{
    static const char *const begins[] = {"GET /hello HTTP/1.1\r\n" HEAD "x-a: ", "GET /",
            "POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 99999\r\n\r\n"};
    open_quick(patience_ms[0]);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        pthread_t thread;
        int fd = client_open(toy_port(it));
        CHECK(client_say(fd, begins[i]));
        pthread_create(&thread, NULL, dribble, &fd);
        CHECK(client_is_closed(fd));
        pthread_join(thread, NULL);
        close(fd);
    }
    toy_close(it);
}

static bool an_idle_connection_is_closed(int64_t ms)
{
    client_answer answer = {0};
    int fd = client_open(toy_port(it));
    (void)ms;
    bool is_answered = client_say(fd, GET("/hello")) && client_read(fd, false, &answer);
    is_answered = is_answered && answer.code == 200;
    client_answer_done(&answer);
    CHECK(client_is_closed(fd));
    close(fd);
    return is_answered;
}

static void idle_connections_are_closed(void)
{
    holds_in_time(an_idle_connection_is_closed);
}

/* Whether the request reached the handler. If not, its connection is closed. */
static bool is_held(int fd)
{
    char byte;
    while (toy_held(it) == 0) {
        if (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
            return false;
        usleep(1000);
    }
    return true;
}

static bool a_handler_takes_longer(int64_t ms)
{
    client_answer answer = {0};
    int fd = client_open(toy_port(it));
    bool held = client_say(fd, GET("/hold")) && is_held(fd);
    if (held) {
        usleep((useconds_t)ms * 3000);
        toy_release(it);
        if (CHECK(client_read(fd, false, &answer)))
            CHECK_STR(answer.body, "released");
    }
    client_answer_done(&answer);
    close(fd);
    return held;
}

static void a_handler_may_take_longer_than_a_request(void)
{
    holds_in_time(a_handler_takes_longer);
}

int main(void)
{
    RUN(input_other_than_http_is_refused);
    RUN(smuggled_lengths_are_refused);
    RUN(broken_chunks_are_refused);
    RUN(pipelined_requests_are_answered_in_order);
    RUN(long_urls_and_headers_are_refused);
    RUN(long_bodies_are_refused);
    RUN(bodies_up_to_the_limit_are_taken);
    RUN(connections_over_the_limit_get_503);
    RUN(streams_over_the_limit_are_answered_otherwise);
    RUN(slow_requests_are_cut);
    RUN(a_client_that_leaves_within_a_chunk_is_noticed);
    RUN(dribbled_requests_are_cut);
    RUN(idle_connections_are_closed);
    RUN(a_handler_may_take_longer_than_a_request);
    return tap_done();
}
