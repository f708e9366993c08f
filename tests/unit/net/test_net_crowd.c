/* test_net_crowd.c - very many simultaneous streams on one loop: all make progress, and each needs
 * little memory. NET_CALLS sets the number of streams (1,000).
 *
 * The server is a separate process, because file descriptors are limited per process. It responds
 * only when all clients have sent their request, then sends an event to each client whenever the
 * test requests a round. */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "net/net_http.h"
#include "net/net_sse.h"
#include "support/on_loop.h"
#include "support/tap.h"

#define ROUNDS 5
#define CALL_BYTES_MAX 20480 /* the memory that a call may need with 10,000 calls */

/* ---- The server's process ---- */

static int listener, port;

static void send_all(const int *fds, int len, const char *text)
{
    for (int i = 0; i < len; i++) {
        if (send(fds[i], text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
            abort();
    }
}

/* A complete request fits into one read once it has arrived. */
static void gather_requests(int *fds, int len)
{
    static char request[65536];
    for (int i = 0; i < len; i++) {
        fds[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fds[i] < 0 || recv(fds[i], request, sizeof request, 0) <= 0)
            abort();
    }
}

static void serve(int len, int commands)
{
    int *fds = calloc((size_t)len, sizeof *fds);
    char command;
    gather_requests(fds, len);
    send_all(fds, len, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (read(commands, &command, 1) == 1) {
        if (command == 'e')
            send_all(fds, len, "12\r\ndata: some words\n\n\r\n");
        else
            send_all(fds, len, "0\r\n\r\n");
    }
    _exit(0);
}

static pid_t start_server(int len, int *out_commands)
{
    int commands[2];
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t address_len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, address_len) || listen(listener, 4096) ||
            getsockname(listener, (struct sockaddr *)&address, &address_len) || pipe(commands))
        abort();
    port = ntohs(address.sin_port);
    pid_t pid = fork();
    if (pid == 0) {
        close(commands[1]);
        serve(len, commands[0]);
    }
    close(commands[0]);
    close(listener);
    *out_commands = commands[1];
    return pid;
}

/* ---- The crowd ---- */

typedef struct member {
    pal_http_call *call;
    pal_sse sse;
    int events;
    bool ended;
} member;

static pal_loop *loop;
static pal_http *http;
static member *members;
static int members_len;
static int arrived[ROUNDS]; /* events, by their number in the stream */
static int heads, ends, failures;
static bell round_done = BELL_INIT;

static void take_head(void *user, const pal_http_head *head)
{
    (void)user;
    failures += head->code != 200;
    if (++heads == members_len)
        bell_ring(&round_done);
}

static void take_event(member *m, const pal_sse_event *event)
{
    failures += !pal_str_is(event->data, "some words");
    if (m->events == ROUNDS) {
        failures++;
        return;
    }
    failures += m->events && arrived[m->events - 1] != members_len;
    if (++arrived[m->events++] == members_len)
        bell_ring(&round_done);
}

static void take_body(void *user, pal_str bytes)
{
    member *m = user;
    pal_sse_event event;
    while (pal_sse_next(&m->sse, &bytes, &event))
        take_event(m, &event);
    failures += m->sse.failure != PAL_OK;
}

static void take_end(void *user, const pal_http_end *end)
{
    member *m = user;
    m->ended = true;
    if (end->status && failures++ == 0)
        printf("# %s\n", end->error);
    if (++ends == members_len)
        bell_ring(&round_done);
}

static void start_all(void *user)
{
    static const pal_http_events events = {take_head, take_body, take_end};
    char url[64];
    (void)user;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/chat", port);
    const pal_header header = {pal_str_of("Authorization"), pal_str_of("Bearer key")};
    const pal_http_request request = {.method = "POST",
            .url = pal_str_of(url),
            .headers = &header,
            .headers_len = 1,
            .body = pal_str_of("{\"stream\":true}"),
            .connect_ms = 60000};
    for (int i = 0; i < members_len; i++) {
        member *m = &members[i];
        pal_sse_init(&m->sse, 1u << 20);
        failures += pal_http_start(http, &request, &events, m, &m->call, NULL) != PAL_OK;
    }
}

static void open_http(void *user)
{
    (void)user;
    CHECK_STATUS(pal_http_open(loop, NULL, &http, NULL), PAL_OK);
}

static void close_http(void *user)
{
    (void)user;
    pal_http_close(http);
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static int wanted_calls(void)
{
    const char *text = getenv("NET_CALLS");
    struct rlimit limit;
    int wanted = text ? atoi(text) : 1000;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return (rlim_t)wanted + 100 > limit.rlim_cur ? (int)limit.rlim_cur - 100 : wanted;
}

static void wait_round(const char *name)
{
    int64_t start_us = pal_clock_monotonic_us();
    CHECK(bell_wait(&round_done, 1));
    int64_t took_us = pal_clock_monotonic_us() - start_us;
    printf("# %s: %lld ms\n", name, (long long)took_us / 1000);
}

static void all_calls_of_a_crowd_are_answered(void)
{
    int commands;
    members_len = wanted_calls();
    members = calloc((size_t)members_len, sizeof *members);
    memset(members, 1, (size_t)members_len * sizeof *members); /* not to be measured */
    memset(members, 0, (size_t)members_len * sizeof *members);
    pid_t pid = start_server(members_len, &commands);
    CHECK_STATUS(pal_loop_open(1, &loop, NULL), PAL_OK);
    on_loop(loop, open_http, NULL);
    long before = resident_bytes();
    on_loop(loop, start_all, NULL);
    wait_round("all are connected");
    CHECK_EQ(heads, members_len);
    CHECK_EQ(ends, 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(write(commands, "e", 1), 1);
        wait_round("each has an event");
    }
    long each = (resident_bytes() - before) / members_len;
    printf("# %d calls that stream take %ld bytes each\n", members_len, each);
    /* A sanitizer uses memory that must not count. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    CHECK_THAT(each, <, CALL_BYTES_MAX);
#endif
    CHECK_EQ(write(commands, ".", 1), 1);
    wait_round("each has ended");
    CHECK_EQ(ends, members_len);
    CHECK_EQ(failures, 0);
    on_loop(loop, close_http, NULL);
    pal_loop_close(loop);
    for (int i = 0; i < members_len; i++)
        pal_sse_done(&members[i].sse);
    free(members);
    close(commands);
    waitpid(pid, NULL, 0);
}

int main(void)
{
    setenv("no_proxy", "*", 1);
    setenv("NO_PROXY", "*", 1);
    RUN(all_calls_of_a_crowd_are_answered);
    return tap_done();
}
