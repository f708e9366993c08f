/* bench_load.c - see bench_load.h. The clients run on the same machine as the server, so they must
 * use little of it: the kernel discards the bodies of responses. */
#include "bench_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"

#define HEAD_MAX 4096
#define EVENTS_MAX 64

typedef struct client {
    int fd;
    size_t head_len;
    size_t body_left;
    bool in_body;
    char head[HEAD_MAX];
} client;

struct load {
    load_plan plan;
    int epoll_fd;
    uint64_t asked, answered;
    uint64_t asked_max;
    int64_t until_us;
    client *clients;
};

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "bench-server: %s: %s\n", what, detail);
    exit(1);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("no connection", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);

        if (sent <= 0)
            die("a request could not be sent", strerror(errno));
        data += sent;
        len -= (size_t)sent;
    }
}

/* ---- Answers ---- */

static size_t content_length(const char *head)
{
    const char *line = strcasestr(head, "\r\ncontent-length:");

    if (!line)
        die("an answer without its length", head);
    return strtoul(line + 17, NULL, 10);
}

/* Returns true if the head is complete. The rest of the buffer belongs to the body. */
static bool head_done(client *c, unsigned code)
{
    char *end;
    size_t body;

    c->head[c->head_len] = 0;
    end = strstr(c->head, "\r\n\r\n");
    if (!end && c->head_len + 1 == HEAD_MAX)
        die("the head of an answer is too long", c->head);
    if (!end)
        return false;
    if (strtoul(c->head + 9, NULL, 10) != code)
        die("not the expected answer", c->head);
    end += 4;
    body = content_length(c->head);
    c->body_left = body - (c->head_len - (size_t)(end - c->head));
    c->in_body = true;
    return true;
}

static ssize_t receive(client *c)
{
    if (c->in_body)
        return recv(c->fd, NULL, c->body_left, MSG_DONTWAIT | MSG_TRUNC);
    return recv(c->fd, c->head + c->head_len, HEAD_MAX - 1 - c->head_len, MSG_DONTWAIT);
}

/* Returns true if the response is complete. */
static bool take(client *c, unsigned code)
{
    ssize_t len;

    while ((len = receive(c)) > 0) {
        if (c->in_body)
            c->body_left -= (size_t)len;
        else
            c->head_len += (size_t)len;
        if (!c->in_body && !head_done(c, code))
            continue;
        if (c->body_left == 0)
            return true;
    }
    if (len == 0 || errno != EAGAIN)
        die("the server closed a connection", len ? strerror(errno) : "end of file");
    return false;
}

/* ---- Asking ---- */

static void ask(load *self, client *c)
{
    char request[LOAD_REQUEST_MAX];
    size_t len = self->plan.request(self->asked++, request, self->plan.user);

    c->head_len = 0;
    c->in_body = false;
    send_all(c->fd, request, len);
}

static bool goes_on(const load *self)
{
    return self->asked < self->asked_max && pal_clock_monotonic_us() < self->until_us;
}

/* With SCHED_BATCH, a response does not interrupt the server to run the clients at once. They read
 * all responses that have arrived when they run next. Servers must not inherit this policy. */
static void set_policy(int policy)
{
    const struct sched_param none = {0};

    (void)sched_setscheduler(0, policy, &none);
}

static double run(load *self)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t start = pal_clock_monotonic_us();
    uint64_t before = self->answered = self->asked;

    set_policy(SCHED_BATCH);
    for (size_t i = 0; i < self->plan.connections && self->asked < self->asked_max; i++)
        ask(self, &self->clients[i]);
    while (self->answered < self->asked) {
        int len = epoll_wait(self->epoll_fd, events, EVENTS_MAX, 30000);

        if (len <= 0)
            die("no answer", "for 30 seconds");
        for (int i = 0; i < len; i++) {
            client *c = events[i].data.ptr;

            if (!take(c, self->plan.code))
                continue;
            self->answered++;
            if (goes_on(self))
                ask(self, c);
        }
    }
    set_policy(SCHED_OTHER);
    return (double)(pal_clock_monotonic_us() - start) / 1e6 / (double)(self->answered - before);
}

double load_slice(load *self, int64_t slice_us)
{
    self->until_us = pal_clock_monotonic_us() + slice_us;
    self->asked_max = UINT64_MAX;
    return 1 / run(self);
}

double load_count(load *self, uint64_t count)
{
    self->until_us = INT64_MAX;
    self->asked_max = self->asked + count;
    return run(self) * (double)count;
}

load *load_open(const load_plan *plan)
{
    load *self = pal_calloc(1, sizeof(*self));
    client *clients = pal_calloc(plan->connections, sizeof(*clients));

    if (!self || !clients)
        die("out of memory", "clients");
    self->plan = *plan;
    self->clients = clients;
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < plan->connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};

        clients[i].fd = connect_to(plan->port);
        if (epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, clients[i].fd, &event) != 0)
            die("epoll", strerror(errno));
    }
    return self;
}

void load_close(load *self)
{
    for (size_t i = 0; i < self->plan.connections; i++)
        close(self->clients[i].fd);
    close(self->epoll_fd);
    pal_free(self->clients);
    pal_free(self);
}

/* ---- One at a time ---- */

void load_ask(uint16_t port, const char *request, unsigned code, char *out_body, size_t out_size)
{
    client c = {.fd = connect_to(port)};
    const char *body;
    size_t len;

    send_all(c.fd, request, strlen(request));
    do {
        ssize_t got = recv(c.fd, c.head + c.head_len, HEAD_MAX - 1 - c.head_len, 0);

        if (got <= 0)
            die("no answer", got ? strerror(errno) : "end of file");
        c.head_len += (size_t)got;
    } while (!head_done(&c, code));
    body = strstr(c.head, "\r\n\r\n") + 4;
    len = c.head_len - (size_t)(body - c.head);
    while (c.body_left) {
        ssize_t got = recv(c.fd, c.head + c.head_len, HEAD_MAX - 1 - c.head_len, 0);

        if (got <= 0)
            die("an answer is not whole", c.head);
        c.head_len += (size_t)got;
        c.body_left -= (size_t)got;
        len += (size_t)got;
    }
    snprintf(out_body, out_size, "%.*s", (int)len, body);
    close(c.fd);
}

int load_hold(uint16_t port, const char *request)
{
    char head[HEAD_MAX];
    int fd = connect_to(port);
    ssize_t len;

    send_all(fd, request, strlen(request));
    len = recv(fd, head, sizeof(head) - 1, 0);
    if (len < 12 || memcmp(head + 9, "200", 3) != 0)
        die("a stream was refused", len > 0 ? (head[len] = 0, head) : "end of file");
    return fd;
}
