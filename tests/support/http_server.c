/* http_server.c - one thread that accepts, and one thread per connection. */
#include "support/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "support/on_loop.h"

#define CONNECTIONS_MAX 256
#define REQUEST_MAX (8u << 20)

typedef struct connection {
    http_server *server;
    pthread_t thread;
    int fd;
    char *request; /* terminated */
    size_t len;
    char *body; /* in the request */
    size_t body_len;
} connection;

struct http_server {
    int fd;
    int port;
    pthread_t thread;
    pthread_mutex_t lock; /* over the next lines */
    int connections_len;
    connection connections[CONNECTIONS_MAX];
    bell gone, begun;
};

static bool send_bytes(connection *c, const void *bytes, size_t len)
{
    const char *p = bytes;
    while (len) {
        ssize_t sent = send(c->fd, p, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        p += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool send_text(connection *c, const char *text)
{
    return send_bytes(c, text, strlen(text));
}

static bool send_whole(connection *c, int code, const void *body, size_t len)
{
    char head[128];
    int head_len = snprintf(head, sizeof head,
            "HTTP/1.1 %d Word\r\nContent-Length: %zu\r\nX-Mark:  a b \r\n\r\n", code, len);
    return send_bytes(c, head, (size_t)head_len) && send_bytes(c, body, len);
}

static const char chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

static bool send_chunk(connection *c, const char *text)
{
    char size[32];
    snprintf(size, sizeof size, "%zx\r\n", strlen(text));
    return send_text(c, size) && send_text(c, text) && send_text(c, "\r\n");
}

/* Handlers return whether the connection can be used again. */

static bool answer_echo(connection *c)
{
    return send_whole(c, 200, c->body, c->body_len);
}

static bool answer_head(connection *c)
{
    return send_whole(c, 200, c->request, (size_t)(c->body - c->request));
}

static bool answer_events(connection *c)
{
    return send_text(c, chunked) && send_chunk(c, "data: one\n\nda") &&
            send_chunk(c, "ta: two\n\n") && send_chunk(c, "data: three\n\n") &&
            send_text(c, "0\r\n\r\n");
}

static bool answer_bytes(connection *c)
{
    static const char piece[] = "0123456789abcdef";
    long left = strtol(strstr(c->request, "/bytes/") + 7, NULL, 10);
    send_text(c, chunked);
    for (; left > 0; left -= 16) {
        char part[17] = "";
        memcpy(part, piece, left < 16 ? (size_t)left : 16);
        if (!send_chunk(c, part))
            return false;
    }
    return send_text(c, "0\r\n\r\n");
}

static bool answer_slow(connection *c)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow";
    for (const char *p = text; *p; p++) {
        if (!send_bytes(c, p, 1))
            return false;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return true;
}

static bool answer_trickle(connection *c)
{
    long ms = strtol(strstr(c->request, "/trickle/") + 9, NULL, 10);
    send_text(c, chunked);
    for (int i = 0; i < 100; i++) {
        if (!send_chunk(c, "."))
            return false;
        nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
    }
    return send_text(c, "0\r\n\r\n");
}

static bool answer_code(connection *c)
{
    return send_whole(c, atoi(strstr(c->request, "/code/") + 6), "code", 4);
}

static bool answer_continue(connection *c)
{
    return send_text(c,
                   "HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n"
                   "HTTP/1.1 103 Early Hints\r\nX-Early: 2\r\n\r\n") &&
            answer_echo(c);
}

static bool answer_redirect(connection *c)
{
    return send_text(c,
            "HTTP/1.1 302 Found\r\nLocation: /echo\r\nX-First: 1\r\n"
            "Content-Length: 5\r\n\r\nmoved");
}

static bool answer_elsewhere(connection *c)
{
    return send_text(c,
            "HTTP/1.1 307 Temporary Redirect\r\n"
            "Location: https://user:secret@elsewhere.example/path?key=secret\r\n"
            "Content-Length: 0\r\n\r\n");
}

static bool answer_trailer(connection *c)
{
    return send_text(c, chunked) && send_chunk(c, "body") &&
            send_text(c, "0\r\nX-Trailer: 1\r\n\r\n");
}

static bool answer_until_close(connection *c)
{
    send_text(c, "HTTP/1.1 200 OK\r\n\r\nall of it");
    return false;
}

static bool answer_once(connection *c)
{
    answer_echo(c);
    return false;
}

static bool answer_refuse(connection *c)
{
    (void)c;
    return false;
}

static bool answer_reset(connection *c)
{
    struct linger now = {1, 0};
    send_text(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    return false;
}

static bool answer_short(connection *c)
{
    send_text(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
    return false;
}

static bool answer_cut(connection *c)
{
    send_text(c, chunked);
    send_text(c, "10\r\nhalf");
    return false;
}

static bool answer_bad_chunk(connection *c)
{
    send_text(c, chunked);
    send_text(c, "zz\r\nhalf\r\n");
    return false;
}

static bool answer_garbage(connection *c)
{
    send_text(c, "\x01\x02 what is this\n\n\n");
    return false;
}

static bool answer_long_head(connection *c)
{
    bool ok = send_text(c, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 20000 && ok; i++)
        ok = send_text(c, "X-More: 0123456789012345678901234567890123456789\r\n");
    return false;
}

static bool wait_gone(connection *c)
{
    char byte;
    bell_ring(&c->server->begun);
    while (recv(c->fd, &byte, 1, 0) > 0)
        continue;
    bell_ring(&c->server->gone);
    return false;
}

static bool answer_stall(connection *c)
{
    send_text(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n1");
    return wait_gone(c);
}

static bool answer_flood(connection *c)
{
    bell_ring(&c->server->begun);
    send_text(c, chunked);
    while (send_chunk(c, "data: flood flood flood flood flood flood\n\n"))
        continue;
    bell_ring(&c->server->gone);
    return false;
}

static const struct {
    const char *path;
    bool (*answer)(connection *c);
} answers[] = {
        {"/echo", answer_echo},
        {"/head", answer_head},
        {"/events", answer_events},
        {"/bytes/", answer_bytes},
        {"/slow", answer_slow},
        {"/trickle/", answer_trickle},
        {"/code/", answer_code},
        {"/continue", answer_continue},
        {"/redirect", answer_redirect},
        {"/elsewhere", answer_elsewhere},
        {"/trailer", answer_trailer},
        {"/until-close", answer_until_close},
        {"/once", answer_once},
        {"/refuse", answer_refuse},
        {"/reset", answer_reset},
        {"/short", answer_short},
        {"/cut", answer_cut},
        {"/bad-chunk", answer_bad_chunk},
        {"/garbage", answer_garbage},
        {"/long-head", answer_long_head},
        {"/hang", wait_gone},
        {"/stall", answer_stall},
        {"/flood", answer_flood},
};

static size_t content_length(const char *head)
{
    for (const char *line = head; line; line = strstr(line, "\r\n")) {
        line += line == head ? 0 : 2;
        if (strncasecmp(line, "content-length:", 15) == 0)
            return strtoul(line + 15, NULL, 10);
    }
    return 0;
}

/* Reads one complete request. Further bytes would be a mistake of the client. */
static bool read_request(connection *c)
{
    c->len = 0;
    for (;;) {
        ssize_t got = recv(c->fd, c->request + c->len, REQUEST_MAX - c->len - 1, 0);
        if (got <= 0)
            return false;
        c->len += (size_t)got;
        c->request[c->len] = '\0';
        char *end = strstr(c->request, "\r\n\r\n");
        if (!end)
            continue;
        c->body = end + 4;
        end[2] = '\0';
        c->body_len = content_length(c->request);
        end[2] = '\r';
        if (c->len >= (size_t)(c->body - c->request) + c->body_len)
            return true;
    }
}

static bool answer(connection *c)
{
    const char *path = strchr(c->request, ' ');
    for (size_t i = 0; path && i < sizeof answers / sizeof *answers; i++) {
        if (strncmp(path + 1, answers[i].path, strlen(answers[i].path)) == 0)
            return answers[i].answer(c);
    }
    return send_whole(c, 404, "none", 4);
}

static void *serve(void *user)
{
    connection *c = user;
    c->request = malloc(REQUEST_MAX);
    while (read_request(c) && answer(c))
        continue;
    free(c->request);
    pthread_mutex_lock(&c->server->lock);
    close(c->fd);
    c->fd = -1;
    pthread_mutex_unlock(&c->server->lock);
    return NULL;
}

static void *accept_all(void *user)
{
    http_server *server = user;
    for (int fd; (fd = accept(server->fd, NULL, NULL)) >= 0;) {
        int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        pthread_mutex_lock(&server->lock);
        if (server->connections_len == CONNECTIONS_MAX)
            abort();
        connection *c = &server->connections[server->connections_len++];
        *c = (connection){.server = server, .fd = fd};
        pthread_create(&c->thread, NULL, serve, c);
        pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

http_server *http_server_start(void)
{
    static const bell fresh = BELL_INIT;
    http_server *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    pthread_mutex_init(&server->lock, NULL);
    server->gone = server->begun = fresh;
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->fd, (struct sockaddr *)&address, len) || listen(server->fd, 256) ||
            getsockname(server->fd, (struct sockaddr *)&address, &len))
        abort();
    server->port = ntohs(address.sin_port);
    pthread_create(&server->thread, NULL, accept_all, server);
    return server;
}

void http_server_stop(http_server *server)
{
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->fd);
    for (int i = 0; i < server->connections_len; i++) {
        connection *c = &server->connections[i];
        pthread_mutex_lock(&server->lock);
        if (c->fd >= 0)
            shutdown(c->fd, SHUT_RDWR);
        pthread_mutex_unlock(&server->lock);
        pthread_join(c->thread, NULL);
    }
    pthread_mutex_destroy(&server->lock);
    free(server);
}

int http_server_port(const http_server *server)
{
    return server->port;
}

int http_server_connections(http_server *server)
{
    pthread_mutex_lock(&server->lock);
    int len = server->connections_len;
    pthread_mutex_unlock(&server->lock);
    return len;
}

bool http_server_wait_gone(http_server *server, int count)
{
    return bell_wait(&server->gone, count);
}

void http_server_wait_begun(http_server *server, int count)
{
    bell_wait(&server->begun, count);
}
