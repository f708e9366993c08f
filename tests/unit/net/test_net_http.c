/* test_net_http.c - HTTP calls to a server that behaves well and badly. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <curl/curl.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "net/net_http.h"
#include "support/http_server.h"
#include "support/on_loop.h"
#include "support/tap.h"

static http_server *server;
static pal_loop *loop;
static pal_http *http;

/* One call, and all that was reported about it. */
typedef struct talk {
    pal_http_request request;
    char url[128];
    pal_http_call *call;
    pal_status started;
    pal_error err;
    pal_buf headers, body;
    long code;
    int heads, ends, pieces;
    bool order_right;   /* headers, head, body, end */
    int cancel_at;      /* number of a piece; 0: never */
    struct talk *other; /* is canceled instead */
    const char *then;   /* is started in the callback of the first piece */
    struct talk *next;
    pal_http_end end;
    bell told;
} talk;

static void begin(void *user);

static void take_head(void *user, const pal_http_head *head)
{
    talk *t = user;
    t->order_right = t->order_right && !t->heads && !t->ends && !t->pieces;
    t->heads++;
    t->code = head->code;
    for (size_t i = 0; i < head->headers_len; i++) {
        pal_buf_append_str(&t->headers, head->headers[i].name);
        pal_buf_append_char(&t->headers, '=');
        pal_buf_append_str(&t->headers, head->headers[i].value);
        pal_buf_append_char(&t->headers, '\n');
    }
}

static void cancel(talk *t)
{
    pal_http_cancel(t->call);
    t->call = NULL;
    bell_ring(&t->told);
}

static void take_body(void *user, pal_str bytes)
{
    talk *t = user;
    t->order_right = t->order_right && t->heads == 1 && !t->ends && t->call && bytes.len;
    t->pieces++;
    pal_buf_append_str(&t->body, bytes); /* only the beginning of a flood */
    if (t->pieces == 1 && t->next)
        begin(t->next);
    if (t->pieces == t->cancel_at)
        cancel(t->other ? t->other : t);
}

static void take_end(void *user, const pal_http_end *end)
{
    talk *t = user;
    t->order_right = t->order_right && !t->ends;
    t->ends++;
    t->end = *end;
    t->call = NULL;
    bell_ring(&t->told);
}

static const pal_http_events events = {take_head, take_body, take_end};

static void begin(void *user)
{
    talk *t = user;
    t->started = pal_http_start(http, &t->request, &events, t, &t->call, &t->err);
    if (t->started)
        bell_ring(&t->told);
}

static talk make_talk(const char *method, const char *path, const char *body)
{
    talk t = {.told = BELL_INIT, .order_right = true};
    pal_buf_init(&t.headers, 1u << 20);
    pal_buf_init(&t.body, 4u << 20);
    snprintf(t.url, sizeof t.url, "http://127.0.0.1:%d%s", http_server_port(server), path);
    t.request.method = method;
    t.request.body = pal_str_of(body);
    return t;
}

/* Starts the call without waiting. The talk must not be moved any more. */
static void send_talk(talk *t)
{
    t->request.url = pal_str_of(t->url);
    on_loop(loop, begin, t);
}

static void finish_talk(talk *t)
{
    CHECK(bell_wait(&t->told, 1));
}

static void done_talk(talk *t)
{
    CHECK(t->order_right);
    pal_buf_done(&t->headers);
    pal_buf_done(&t->body);
}

static void cancel_job(void *user)
{
    cancel(user);
}

static bool body_is(const talk *t, const char *text)
{
    return pal_str_is(pal_buf_str(&t->body), text);
}

static bool has(const pal_buf *buf, const char *text)
{
    return buf->len && memmem(buf->data, buf->len, text, strlen(text));
}

#define TALK(name, method, path, sent)                                                             \
    talk name = make_talk(method, path, sent);                                                     \
    send_talk(&name);                                                                              \
    finish_talk(&name)

/* ---- Well ---- */

static void a_response_is_reported_completely(void)
{
    TALK(t, "POST", "/echo", "hello");
    CHECK_STATUS(t.end.status, PAL_OK);
    CHECK_EQ(t.end.code, 200);
    CHECK(t.end.sent);
    CHECK(!t.end.error[0]);
    CHECK_EQ(t.code, 200);
    CHECK_EQ(t.heads, 1);
    CHECK(body_is(&t, "hello"));
    if (CHECK(has(&t.headers, "content-length=5\n")))
        CHECK(has(&t.headers, "x-mark=a b\n"));
    done_talk(&t);
}

static void the_request_is_sent_as_given(void)
{
    const pal_header headers[] = {
            {pal_str_of("Authorization"), pal_str_of("Bearer key")},
            {pal_str_of("X-Empty"), pal_str_of("")},
            {pal_str_of("content-type"), pal_str_of("application/json")},
    };
    talk t = make_talk("POST", "/head?a=b", "{}");
    t.request.headers = headers;
    t.request.headers_len = 3;
    send_talk(&t);
    finish_talk(&t);
    if (CHECK(has(&t.body, "POST /head?a=b HTTP/1.1\r\n")))
        CHECK(has(&t.body, "\r\nContent-Length: 2\r\n"));
    if (CHECK(has(&t.body, "\r\nAuthorization: Bearer key\r\n")))
        CHECK(has(&t.body, "\r\nX-Empty:"));
    CHECK(has(&t.body, "\r\ncontent-type: application/json\r\n"));
    CHECK(has(&t.body, "\r\nUser-Agent: palaver/"));
    if (CHECK(!has(&t.body, "Accept-Encoding")) && CHECK(!has(&t.body, "Expect")))
        CHECK(!has(&t.body, "urlencoded"));
    done_talk(&t);
}

static void every_method_is_sent(void)
{
    static const char *const methods[] = {"GET", "DELETE", "PUT", "PATCH", "POST"};
    for (size_t i = 0; i < 5; i++) {
        TALK(t, methods[i], "/head", i < 2 ? "" : "body");
        CHECK_STATUS(t.end.status, PAL_OK);
        CHECK(!body_is(&t, ""));
        CHECK_BEGINS(pal_buf_str(&t.body), methods[i]);
        done_talk(&t);
    }
}

static void large_bodies_go_both_ways(void)
{
    size_t len = 3u << 20;
    char *text = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i % 23);
    text[len] = '\0';
    talk t = make_talk("POST", "/echo", text), h = make_talk("POST", "/head", text);
    send_talk(&t);
    send_talk(&h);
    free(text); /* it was copied */
    finish_talk(&t);
    finish_talk(&h);
    if (CHECK(has(&h.body, "Content-Length: 3145728")))
        CHECK(!has(&h.body, "Expect"));
    done_talk(&h);
    CHECK_STATUS(t.end.status, PAL_OK);
    CHECK_EQ(t.end.code, 200);
    CHECK_THAT(t.pieces, >, 100);
    done_talk(&t);
    TALK(u, "POST", "/bytes/100000", "");
    CHECK_STATUS(u.end.status, PAL_OK);
    CHECK_EQ(u.body.len, 100000);
    done_talk(&u);
}

static void http_error_codes_are_not_failures(void)
{
    TALK(t, "POST", "/code/429", "");
    CHECK_STATUS(t.end.status, PAL_OK);
    CHECK_EQ(t.end.code, 429);
    CHECK_EQ(t.code, 429);
    CHECK(body_is(&t, "code"));
    done_talk(&t);
    TALK(u, "POST", "/code/500", "");
    CHECK_STATUS(u.end.status, PAL_OK);
    CHECK_EQ(u.end.code, 500);
    done_talk(&u);
}

static void only_the_final_response_is_reported(void)
{
    TALK(t, "POST", "/continue", "x");
    CHECK_STATUS(t.end.status, PAL_OK);
    CHECK_EQ(t.code, 200);
    CHECK_EQ(t.heads, 1);
    CHECK(body_is(&t, "x"));
    CHECK(!has(&t.headers, "x-early"));
    done_talk(&t);
    TALK(w, "POST", "/trailer", "x");
    CHECK_STATUS(w.end.status, PAL_OK);
    if (CHECK(body_is(&w, "body")))
        CHECK(!has(&w.headers, "x-trailer"));
    done_talk(&w);
}

/* A redirect would send headers with secrets. The error names the host, but nothing after it. */
static void redirects_are_not_followed(void)
{
    static const char *const methods[] = {"GET", "HEAD", "POST"};
    for (size_t i = 0; i < 3; i++) {
        TALK(t, methods[i], "/redirect", i == 2 ? "x" : "");
        CHECK_STATUS(t.end.status, PAL_OK);
        CHECK_EQ(t.code, 302);
        CHECK_EQ(t.heads, 1);
        CHECK(has(&t.headers, "location=/echo\n"));
        CHECK_CONTAINS(t.end.error, "redirects to 'http://127.0.0.1:");
        done_talk(&t);
        TALK(u, methods[i], "/elsewhere", i == 2 ? "x" : "");
        CHECK_STATUS(u.end.status, PAL_OK);
        CHECK_EQ(u.code, 307);
        CHECK_EQ(u.heads, 1);
        CHECK_CONTAINS(u.end.error, "redirects to 'https://elsewhere.example:443'");
        CHECK_LACKS(u.end.error, "secret");
        done_talk(&u);
    }
}

static void slow_responses_arrive(void)
{
    TALK(t, "POST", "/slow", "");
    CHECK_STATUS(t.end.status, PAL_OK);
    CHECK(body_is(&t, "slow"));
    done_talk(&t);
    TALK(u, "POST", "/until-close", "");
    CHECK_STATUS(u.end.status, PAL_OK);
    CHECK(body_is(&u, "all of it"));
    done_talk(&u);
    TALK(v, "POST", "/events", "");
    CHECK(body_is(&v, "data: one\n\ndata: two\n\ndata: three\n\n"));
    done_talk(&v);
}

static void connections_are_reused(void)
{
    TALK(first, "POST", "/echo", "a");
    done_talk(&first);
    int before = http_server_connections(server);
    for (int i = 0; i < 20; i++) {
        TALK(t, "POST", "/echo", "b");
        CHECK_STATUS(t.end.status, PAL_OK);
        done_talk(&t);
    }
    CHECK_EQ(http_server_connections(server), before);
}

static void a_dead_idle_connection_is_replaced(void)
{
    for (int i = 0; i < 5; i++) {
        TALK(t, "POST", "/once", "a");
        CHECK_STATUS(t.end.status, PAL_OK);
        CHECK(body_is(&t, "a"));
        done_talk(&t);
    }
}

/* ---- Badly ---- */

static void broken_responses_are_reported(void)
{
    static const struct {
        const char *path;
        long code;
        const char *body;
        pal_status status;
    } cases[] = {
            {"/reset", 200, "some", PAL_IO},
            {"/short", 200, "some", PAL_IO},
            {"/cut", 200, "half", PAL_IO},
            {"/bad-chunk", 200, "", PAL_IO},
            {"/garbage", 0, "", PAL_IO},
            {"/refuse", 0, "", PAL_IO},
            {"/long-head", 0, "", PAL_LIMIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TALK(t, "POST", cases[i].path, "x");
        bool right = t.end.status == cases[i].status ||
                (cases[i].status == PAL_LIMIT && t.end.status == PAL_IO);
        if (!CHECK(right) || !CHECK_EQ(t.end.code, cases[i].code) || !CHECK(t.end.sent) ||
                !CHECK(t.end.error[0]))
            printf("# %s: %d %ld '%s'\n", cases[i].path, t.end.status, t.end.code, t.end.error);
        /* A reset can drop bytes that were not read yet. */
        CHECK(body_is(&t, cases[i].body) || (i == 0 && body_is(&t, "")));
        done_talk(&t);
    }
}

static void a_closed_port_is_reported(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    talk t = make_talk("POST", "/", "x");
    snprintf(t.url, sizeof t.url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    send_talk(&t);
    finish_talk(&t);
    CHECK_STATUS(t.end.status, PAL_IO);
    CHECK_EQ(t.end.code, 0);
    CHECK(!t.end.sent);
    CHECK_BEGINS(t.end.error, "could not connect to 'http://127.0.0.1:");
    CHECK_CONTAINS(t.end.error, strerror(ECONNREFUSED));
    done_talk(&t);
    close(fd);
}

/* No name has a part of more than 63 letters, so no DNS server is asked. */
static void an_unknown_host_is_reported(void)
{
    talk t = make_talk("POST", "/", "x");
    snprintf(t.url, sizeof t.url, "http://%070d/", 0);
    t.url[7] = 'x';
    send_talk(&t);
    finish_talk(&t);
    CHECK_STATUS(t.end.status, PAL_IO);
    CHECK(!t.end.sent);
    CHECK_BEGINS(t.end.error, "could not connect to 'http://x000000");
    done_talk(&t);
}

static void refuses(const char *method, const char *url, const char *name, const char *value)
{
    const pal_header header = {pal_str_of(name), pal_str_of(value)};
    talk t = make_talk(method, "/", "");
    t.request.headers = &header;
    t.request.headers_len = name ? 1 : 0;
    snprintf(t.url, sizeof t.url, "%s", url);
    send_talk(&t);
    finish_talk(&t);
    CHECK_STATUS(t.started, PAL_INVALID);
    CHECK_STATUS(t.err.status, PAL_INVALID);
    CHECK(t.err.message[0]);
    CHECK(!t.call);
    CHECK(!t.ends);
    done_talk(&t);
}

static void wrong_requests_are_refused(void)
{
    refuses("GET", "", NULL, NULL);
    refuses("GET", "no address", NULL, NULL);
    refuses("GET", "file:///etc/passwd", NULL, NULL);
    refuses("GET", "ftp://127.0.0.1/", NULL, NULL);
    refuses("GET", "http://", NULL, NULL);
    refuses("GET /x\r\n", "http://127.0.0.1/", NULL, NULL);
    refuses("", "http://127.0.0.1/", NULL, NULL);
    refuses("GET", "http://127.0.0.1/", "X", "a\r\nY: b");
    refuses("GET", "http://127.0.0.1/", "X: a\r\nY", "b");
    refuses("GET", "http://127.0.0.1/", "", "b");
}

static void a_response_over_the_limit_is_refused(void)
{
    talk t = make_talk("POST", "/flood", "");
    t.request.response_bytes_max = 10000;
    send_talk(&t);
    finish_talk(&t);
    CHECK_STATUS(t.end.status, PAL_LIMIT);
    CHECK_EQ(t.end.code, 200);
    CHECK_THAT(t.body.len, <=, 10000);
    CHECK(http_server_wait_gone(server, 1));
    done_talk(&t);
    talk u = make_talk("POST", "/bytes/10000", "");
    u.request.response_bytes_max = 10000;
    send_talk(&u);
    finish_talk(&u);
    CHECK_STATUS(u.end.status, PAL_OK);
    CHECK_EQ(u.body.len, 10000);
    done_talk(&u);
}

/* ---- Time ---- */

typedef struct timed {
    const char *path;
    bool is_total; /* the limit is for the complete call, not for silence */
    long code;     /* reported before the time is over */
} timed;

static void start_server_anew(void)
{
    http_server_stop(server);
    server = http_server_start();
}

/* Whether the call ends at the limit. Returns false if the machine was so slow that the call ended
 * before the server had sent everything: nothing of that may be left. */
static bool ends_in_time(const timed *t, int limit_ms)
{
    char text[64];
    talk u = make_talk("POST", t->path, "x");
    snprintf(text, sizeof text, t->is_total ? "within %d ms" : "sent nothing for %d ms", limit_ms);
    u.request.idle_ms = t->is_total ? -1 : limit_ms;
    u.request.total_ms = t->is_total ? limit_ms : 0;
    int64_t start_us = pal_clock_monotonic_us();
    send_talk(&u);
    finish_talk(&u);
    CHECK_STATUS(u.end.status, PAL_TIMEOUT);
    CHECK(u.end.error[0]);
    /* The loop's clock counts milliseconds, and does not move while the loop works. */
    CHECK_THAT(pal_clock_monotonic_us() - start_us, >=, (limit_ms - 10) * INT64_C(1000));
    bool is_whole = u.end.sent && u.end.code == t->code && strstr(u.end.error, text);
    if (!is_whole)
        printf("# %s: %ld '%s'\n", t->path, u.end.code, u.end.error);
    if (is_whole)
        CHECK(http_server_wait_gone(server, 1));
    else
        start_server_anew();
    done_talk(&u);
    return is_whole;
}

static void time_limits_hold(void)
{
    static const timed cases[] = {
            {"/hang", false, 0},
            {"/stall", false, 200},
            {"/hang", true, 0},
            {"/stall", true, 200},
            {"/flood", true, 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(ends_in_time(&cases[i], 40) || ends_in_time(&cases[i], 1000) ||
                ends_in_time(&cases[i], 10000));
}

/* A hundred bytes take longer than the allowed silence. */
static bool is_heard(int pause_ms)
{
    char path[32];
    snprintf(path, sizeof path, "/trickle/%d", pause_ms);
    talk t = make_talk("POST", path, "x");
    t.request.idle_ms = 60 * pause_ms;
    send_talk(&t);
    finish_talk(&t);
    bool is_whole = t.end.status == PAL_OK && t.body.len == 100;
    CHECK(is_whole || t.end.status == PAL_TIMEOUT);
    done_talk(&t);
    return is_whole;
}

static void trickling_bytes_keep_a_call_alive(void)
{
    CHECK(is_heard(8) || is_heard(30) || is_heard(100));
}

/* A listening socket whose queue is full accepts no connection. */
static void connecting_has_a_time_limit(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fds[4], fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, len), 0);
    CHECK_EQ(listen(fd, 0), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    for (int i = 0; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)!connect(fds[i], (struct sockaddr *)&address, len);
    }
    talk t = make_talk("POST", "/", "x");
    snprintf(t.url, sizeof t.url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    t.request.connect_ms = 50;
    send_talk(&t);
    finish_talk(&t);
    CHECK_STATUS(t.end.status, PAL_TIMEOUT);
    CHECK(!t.end.sent);
    CHECK(t.end.unreachable);
    CHECK_BEGINS(t.end.error, "could not connect to");
    done_talk(&t);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close(fd);
}

/* ---- Cancel ---- */

static void a_cancel_closes_the_connection_at_once(void)
{
    static const char *const paths[] = {"/hang", "/stall", "/flood"};
    http_server_wait_begun(server, 0);
    for (size_t i = 0; i < 3; i++) {
        talk t = make_talk("POST", paths[i], "x");
        t.cancel_at = 0;
        send_talk(&t);
        on_loop(loop, cancel_job, &t);
        finish_talk(&t);
        CHECK_EQ(t.ends, 0);
        done_talk(&t);
    }
    TALK(after, "POST", "/echo", "x");
    CHECK_STATUS(after.end.status, PAL_OK);
    done_talk(&after);
}

static void a_cancel_while_streaming_is_noticed(void)
{
    talk t = make_talk("POST", "/flood", "x");
    t.cancel_at = 50;
    send_talk(&t);
    finish_talk(&t);
    CHECK(http_server_wait_gone(server, 1));
    CHECK_EQ(t.ends, 0);
    CHECK_EQ(t.pieces, 50);
    done_talk(&t);
    talk u = make_talk("POST", "/stall", "x");
    u.cancel_at = 1;
    send_talk(&u);
    finish_talk(&u);
    CHECK(http_server_wait_gone(server, 1));
    CHECK_EQ(u.ends, 0);
    done_talk(&u);
}

static void a_callback_can_cancel_another_call(void)
{
    talk victim = make_talk("POST", "/hang", "x"), t = make_talk("POST", "/events", "x");
    send_talk(&victim);
    t.cancel_at = 1;
    t.other = &victim;
    send_talk(&t);
    finish_talk(&victim);
    finish_talk(&t);
    CHECK_EQ(victim.ends, 0);
    CHECK_STATUS(t.end.status, PAL_OK);
    done_talk(&victim);
    done_talk(&t);
}

static void a_callback_can_start_a_call(void)
{
    talk next = make_talk("POST", "/echo", "next"), t = make_talk("POST", "/events", "x");
    next.request.url = pal_str_of(next.url);
    t.next = &next;
    send_talk(&t);
    finish_talk(&t);
    finish_talk(&next);
    CHECK_STATUS(t.end.status, PAL_OK);
    CHECK_STATUS(next.end.status, PAL_OK);
    CHECK(body_is(&next, "next"));
    done_talk(&t);
    done_talk(&next);
}

/* ---- The client ---- */

static void reopen(void *user)
{
    pal_error err = {PAL_OK, ""};
    pal_http_close(http);
    http = NULL;
    if (!CHECK_STATUS(pal_http_open(loop, user, &http, &err), PAL_OK, &err))
        printf("# %s\n", err.message);
}

static void the_number_of_connections_is_limited(void)
{
    static talk talks[12];
    pal_http_options options = {.connections_max = 2};
    on_loop(loop, reopen, &options);
    int before = http_server_connections(server);
    for (int i = 0; i < 12; i++) {
        talks[i] = make_talk("POST", "/slow", "x");
        send_talk(&talks[i]);
    }
    for (int i = 0; i < 12; i++) {
        finish_talk(&talks[i]);
        CHECK_STATUS(talks[i].end.status, PAL_OK);
        done_talk(&talks[i]);
    }
    CHECK_THAT(http_server_connections(server) - before, <=, 2);
    on_loop(loop, reopen, NULL);
}

static void closing_cancels_running_calls(void)
{
    talk a = make_talk("POST", "/hang", "x"), b = make_talk("POST", "/flood", "x");
    send_talk(&a);
    send_talk(&b);
    on_loop(loop, reopen, NULL);
    CHECK_EQ(a.ends, 0);
    CHECK_EQ(b.ends, 0);
    done_talk(&a);
    done_talk(&b);
}

/* So that allocations of libcurl can fail, too. */
static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = pal_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

static uint64_t failing; /* the allocation that fails; 0: there were fewer allocations */

static void begin_without_memory(void *user)
{
    talk *t = user;
    pal_memory_fail_at(++failing, 1);
    begin(t);
    if (!pal_memory_failed())
        failing = 0;
    pal_memory_fail_at(0, 0);
}

/* Each allocation of a start fails once, those of libcurl as well as our own; finally one start
 * succeeds. libcurl can work without some of its allocations. */
static void an_allocation_failure_is_reported(void)
{
    bool succeeded = false;
    int failures = 0;
    do {
        talk t = make_talk("POST", "/echo", "x");
        t.request.url = pal_str_of(t.url);
        on_loop(loop, begin_without_memory, &t);
        finish_talk(&t);
        succeeded = t.started == PAL_OK && t.end.status == PAL_OK;
        failures += t.started == PAL_NO_MEMORY;
        CHECK(t.started == PAL_OK || (t.started == PAL_NO_MEMORY && t.err.message[0]));
        done_talk(&t);
    } while (failing > 0);
    CHECK(succeeded);
    CHECK_THAT(failures, >, 20);
}

static void close_client(void *user)
{
    (void)user;
    pal_http_close(http);
}

int main(void)
{
    /* The calls must not use a proxy of the environment. */
    setenv("no_proxy", "*", 1);
    setenv("NO_PROXY", "*", 1);
    CHECK_EQ(curl_global_init_mem(
                     CURL_GLOBAL_DEFAULT, pal_malloc, pal_free, pal_realloc, copy_text, pal_calloc),
            CURLE_OK);
    server = http_server_start();
    CHECK_STATUS(pal_loop_open(1, &loop, NULL), PAL_OK);
    on_loop(loop, reopen, NULL);
    RUN(a_response_is_reported_completely);
    RUN(the_request_is_sent_as_given);
    RUN(every_method_is_sent);
    RUN(large_bodies_go_both_ways);
    RUN(http_error_codes_are_not_failures);
    RUN(only_the_final_response_is_reported);
    RUN(redirects_are_not_followed);
    RUN(slow_responses_arrive);
    RUN(connections_are_reused);
    RUN(a_dead_idle_connection_is_replaced);
    RUN(broken_responses_are_reported);
    RUN(a_closed_port_is_reported);
    RUN(an_unknown_host_is_reported);
    RUN(wrong_requests_are_refused);
    RUN(a_response_over_the_limit_is_refused);
    RUN(time_limits_hold);
    RUN(trickling_bytes_keep_a_call_alive);
    RUN(connecting_has_a_time_limit);
    RUN(a_cancel_while_streaming_is_noticed);
    RUN(a_cancel_closes_the_connection_at_once);
    RUN(a_callback_can_cancel_another_call);
    RUN(a_callback_can_start_a_call);
    RUN(the_number_of_connections_is_limited);
    RUN(closing_cancels_running_calls);
    RUN(an_allocation_failure_is_reported);
    on_loop(loop, close_client, NULL);
    pal_loop_close(loop);
    http_server_stop(server);
    return tap_done();
}
