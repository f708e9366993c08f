/* model_server.c - see model_server.h. One thread with epoll. It trusts its clients, which are
 * tests. */
#include "support/model_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 256, REQUEST_MAX = 1 << 20, TEXT_MAX = 4096, FLOOD_PIECES = 64 };

typedef struct connection {
    struct connection *next, **previous; /* in the list of held streams */
    int fd;
    bool is_held, floods;
    char *request;
    size_t len, cap;
    size_t flood_at; /* position in the block that is sent repeatedly */
} connection;

typedef struct command {
    char kind; /* 'p' or '.' */
    int held;
} command;

static int poller, listener, commands;
static connection *held;
static int held_len;
static command pending; /* waits until enough streams are held */
static char flood[FLOOD_PIECES * 256];
static size_t flood_len;

static void die(const char *what)
{
    perror(what);
    _exit(1);
}

/* ---- Answers ---- */

static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";
static const char start[] = "{\"id\":\"r1\",\"model\":\"m\",\"choices\":[{\"index\":0,"
                            "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}";
static const char usage[] = "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
                            "\"completion_tokens\":4}}";

/* A response is built and sent at once: it fits into the socket's buffer. */
typedef struct answer {
    char text[TEXT_MAX * 4];
    size_t len;
} answer;

static void add(answer *a, const char *text)
{
    size_t len = strlen(text);

    if (a->len + len > sizeof(a->text))
        die("an answer is too long");
    memcpy(a->text + a->len, text, len);
    a->len += len;
}

static void add_event(answer *a, const char *data)
{
    char size[32];

    snprintf(size, sizeof(size), "%zx\r\ndata: ", strlen(data) + 8);
    add(a, size);
    add(a, data);
    add(a, "\n\n\r\n");
}

static void add_piece(answer *a, const char *text)
{
    char data[TEXT_MAX];

    snprintf(data, sizeof(data), "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}",
            text);
    add_event(a, data);
}

static void add_call(answer *a, const char *id, int number)
{
    char data[TEXT_MAX];

    snprintf(data, sizeof(data),
            "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":%d,"
            "\"id\":\"call_%s_%d\",\"type\":\"function\",\"function\":{\"name\":\"fx__note\","
            "\"arguments\":\"{\\\"id\\\":\\\"%s.%d\\\"}\"}}]}}]}",
            number - 1, id, number, id, number);
    add_event(a, data);
}

static void add_end(answer *a, const char *finish)
{
    char data[TEXT_MAX];

    snprintf(data, sizeof(data),
            "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"%s\"}]}", finish);
    add_event(a, data);
    add_event(a, usage);
    add_event(a, "[DONE]");
    add(a, "0\r\n\r\n");
}

static void send_answer(connection *c, const answer *a)
{
    ssize_t sent = send(c->fd, a->text, a->len, MSG_NOSIGNAL);

    if (sent >= 0 && (size_t)sent != a->len)
        die("a client does not read");
}

/* ---- Streams that are held ---- */

static void hold(connection *c)
{
    c->is_held = true;
    c->next = held;
    c->previous = &held;
    if (held)
        held->previous = &c->next;
    held = c;
    held_len++;
}

static void let_go(connection *c)
{
    if (!c->is_held)
        return;
    *c->previous = c->next;
    if (c->next)
        c->next->previous = c->previous;
    c->is_held = c->floods = false;
    held_len--;
}

static void watch(connection *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};

    if (epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event))
        die("epoll_ctl");
}

static void send_flood(connection *c)
{
    ssize_t sent;

    do {
        sent = send(
                c->fd, flood + c->flood_at, flood_len - c->flood_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            c->flood_at = (c->flood_at + (size_t)sent) % flood_len;
    } while (sent > 0 && c->flood_at != 0);
}

static void piece_for_all(void)
{
    answer a = {.len = 0};

    add_piece(&a, MODEL_SERVER_PIECE);
    for (connection *c = held; c; c = c->next)
        if (!c->floods)
            send_answer(c, &a);
}

/* A flood can end in the middle of a piece: its end follows the rest of the block. */
static void end_one(connection *c)
{
    answer a = {.len = 0};
    ssize_t sent = 0;

    while (c->flood_at != 0 && sent >= 0) {
        sent = send(c->fd, flood + c->flood_at, flood_len - c->flood_at, MSG_NOSIGNAL);
        if (sent > 0)
            c->flood_at = (c->flood_at + (size_t)sent) % flood_len;
    }
    add_end(&a, "stop");
    send_answer(c, &a);
    watch(c, EPOLLIN);
    let_go(c);
}

static void run_command(void)
{
    if (pending.kind == 'p' && held_len < pending.held)
        return;
    if (pending.kind == 'p')
        piece_for_all();
    while (pending.kind == '.' && held)
        end_one(held);
    pending.kind = 0;
}

/* ---- Requests ---- */

static const char *last_of(const char *text, const char *word)
{
    const char *found = NULL;

    while ((text = strstr(text, word)) != NULL)
        found = text++;
    return found;
}

static void answer_call(connection *c, const char *wish, const char *user)
{
    char id[64] = "", said[80];
    answer a = {.len = 0};

    sscanf(wish, "@call %60[A-Za-z0-9-]", id);
    add(&a, head);
    add_event(&a, start);
    if (strstr(user, "\"role\":\"tool\"")) {
        snprintf(said, sizeof(said), "done %s", id);
        add_piece(&a, said);
        add_end(&a, "stop");
    } else {
        add_call(&a, id, 1);
        add_call(&a, id, 2);
        add_end(&a, "tool_calls");
    }
    send_answer(c, &a);
}

static void answer_say(connection *c, const char *wish)
{
    int pieces = wish ? atoi(wish + 5) : 1;
    answer a = {.len = 0};

    add(&a, head);
    add_event(&a, start);
    for (int i = 0; i < pieces; i++)
        add_piece(&a, MODEL_SERVER_PIECE);
    add_end(&a, "stop");
    send_answer(c, &a);
}

static void answer_held(connection *c, bool floods)
{
    answer a = {.len = 0};

    add(&a, head);
    add_event(&a, start);
    send_answer(c, &a);
    hold(c);
    c->floods = floods;
    if (floods)
        watch(c, EPOLLIN | EPOLLOUT);
    run_command();
}

static void answer_request(connection *c, const char *body)
{
    const char *user = last_of(body, "\"role\":\"user\"");
    const char *wish = user ? strchr(user, '@') : NULL;

    if (wish && strncmp(wish, "@call", 5) == 0)
        answer_call(c, wish, user);
    else if (wish && strncmp(wish, "@held", 5) == 0)
        answer_held(c, false);
    else if (wish && strncmp(wish, "@flood", 6) == 0)
        answer_held(c, true);
    else
        answer_say(c, wish && strncmp(wish, "@say", 4) == 0 ? wish : NULL);
}

/* The body of a complete request; NULL if more must be received. */
static const char *body_of(connection *c)
{
    char *end = strstr(c->request, "\r\n\r\n"), *line;

    if (!end)
        return NULL;
    for (line = c->request; line < end; line = strstr(line, "\r\n") + 2)
        if (strncasecmp(line, "content-length:", 15) == 0)
            break;
    if (line < end && c->len < (size_t)(end + 4 - c->request) + strtoul(line + 15, NULL, 10))
        return NULL;
    return end + 4;
}

static void drop(connection *c)
{
    let_go(c);
    close(c->fd);
    free(c->request);
    free(c);
}

static void take(connection *c)
{
    ssize_t got;
    const char *body;

    if (c->cap < c->len + 4096) {
        c->cap = c->cap ? c->cap * 2 : 8192;
        c->request = realloc(c->request, c->cap);
        if (!c->request || c->cap > REQUEST_MAX)
            die("a request");
    }
    got = recv(c->fd, c->request + c->len, c->cap - c->len - 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        drop(c);
        return;
    }
    c->len += (size_t)got;
    c->request[c->len] = '\0';
    body = body_of(c);
    if (!body)
        return;
    c->len = 0;
    answer_request(c, body);
    if (c->is_held) { /* it sends nothing more for long: thousands of streams are held */
        free(c->request);
        c->request = NULL;
        c->cap = 0;
    }
}

/* ---- The process ---- */

static void accept_one(void)
{
    int yes = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    connection *c = calloc(1, sizeof(*c));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

    if (fd < 0 || !c)
        die("accept");
    c->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl");
}

static void add_to_poller(int fd, void *mark)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = mark};

    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl");
}

static void take_command(void)
{
    if (read(commands, &pending, sizeof(pending)) != sizeof(pending))
        _exit(0); /* the test has ended */
    run_command();
}

static void make_flood(void)
{
    answer a = {.len = 0};

    for (int i = 0; i < FLOOD_PIECES; i++)
        add_piece(&a, MODEL_SERVER_PIECE);
    memcpy(flood, a.text, a.len);
    flood_len = a.len;
}

static void serve(void)
{
    struct epoll_event events[EVENTS];

    poller = epoll_create1(EPOLL_CLOEXEC);
    add_to_poller(listener, &listener);
    add_to_poller(commands, &commands);
    make_flood();
    for (;;) {
        int len = epoll_wait(poller, events, EVENTS, -1);

        for (int i = 0; i < len; i++) {
            void *mark = events[i].data.ptr;

            if (mark == &listener)
                accept_one();
            else if (mark == &commands)
                take_command();
            else if (events[i].events & ~(uint32_t)EPOLLOUT)
                take(mark);
            else
                send_flood(mark);
        }
    }
}

void model_server_start(model_server *out_server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t address_len = sizeof(address);
    struct rlimit limit;
    int ends[2];

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, address_len) || listen(listener, 4096) ||
            getsockname(listener, (struct sockaddr *)&address, &address_len) ||
            pipe2(ends, O_CLOEXEC))
        die("a server");
    out_server->port = ntohs(address.sin_port);
    out_server->pid = fork();
    if (out_server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        commands = ends[0];
        serve();
    }
    close(ends[0]);
    close(listener);
    out_server->commands = ends[1];
}

void model_server_stop(model_server *server)
{
    close(server->commands);
    waitpid(server->pid, NULL, 0);
}

static void tell(const model_server *server, char kind, int held_wanted)
{
    command c = {.kind = kind, .held = held_wanted};

    if (write(server->commands, &c, sizeof(c)) != sizeof(c))
        die("a command");
}

void model_server_piece(const model_server *server, int held_wanted)
{
    tell(server, 'p', held_wanted);
}

void model_server_end(const model_server *server)
{
    tell(server, '.', 0);
}
