/* turn_service.h - a model service for tests: answers each request with the next prepared response,
 * and keeps the requests. One thread, one connection at a time. */
#ifndef TURN_SERVICE_H
#define TURN_SERVICE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVICE_REQUESTS_MAX = 16, SERVICE_BODY_MAX = 65536, SERVICE_HEAD_MAX = 2048 };

typedef struct service_reply {
    int code;           /* 0: 200 */
    const char *header; /* one more header with its line end, or NULL */
    const char *body;
    bool is_held;   /* wait until service_release() */
    size_t missing; /* bytes of the body that are announced, but never sent */
    bool is_stuck;  /* the connection stays open until service_release() */
} service_reply;

typedef struct service {
    int listener;
    char url[64];
    const service_reply *replies;
    size_t replies_len;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t len; /* requests that were received */
    bool is_released;
    char paths[SERVICE_REQUESTS_MAX][256];
    char heads[SERVICE_REQUESTS_MAX][SERVICE_HEAD_MAX];
    char bodies[SERVICE_REQUESTS_MAX][SERVICE_BODY_MAX];
} service;

static inline size_t service_length(const char *head)
{
    const char *field = strcasestr(head, "content-length:");

    return field ? strtoul(field + 15, NULL, 10) : 0;
}

static inline void service_read(int fd, char *path, char *head, char *body)
{
    static char all[SERVICE_BODY_MAX + 8192];
    size_t len = 0, want = 0;
    char *end = NULL;
    ssize_t got;

    while (!end || len < want) {
        got = recv(fd, all + len, sizeof(all) - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
        all[len] = '\0';
        end = strstr(all, "\r\n\r\n");
        if (end)
            want = (size_t)(end + 4 - all) + service_length(all);
    }
    if (!end)
        return;
    sscanf(all, "%*s %255s", path);
    snprintf(head, SERVICE_HEAD_MAX, "%.*s", (int)(end - all), all);
    snprintf(body, SERVICE_BODY_MAX, "%s", end + 4);
}

static inline void service_hold(service *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->is_released)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static inline void service_answer(service *s, int fd)
{
    static const service_reply none = {.code = 500, .body = "{}"};
    const service_reply *reply = &none;
    char head[256];
    size_t at;

    pthread_mutex_lock(&s->lock);
    at = s->len < SERVICE_REQUESTS_MAX ? s->len : SERVICE_REQUESTS_MAX - 1;
    pthread_mutex_unlock(&s->lock);
    service_read(fd, s->paths[at], s->heads[at], s->bodies[at]);
    if (at < s->replies_len)
        reply = &s->replies[at];
    pthread_mutex_lock(&s->lock);
    s->len = at + 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (reply->is_held)
        service_hold(s);
    snprintf(head, sizeof(head),
            "HTTP/1.1 %d X\r\ncontent-type: application/json\r\nconnection: close\r\n%s"
            "content-length: %zu\r\n\r\n",
            reply->code ? reply->code : 200, reply->header ? reply->header : "",
            strlen(reply->body) + reply->missing);
    (void)!send(fd, head, strlen(head), MSG_NOSIGNAL);
    (void)!send(fd, reply->body, strlen(reply->body), MSG_NOSIGNAL);
    if (reply->is_stuck)
        service_hold(s);
}

static inline void *service_run(void *user)
{
    service *s = user;
    int fd;

    while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
        service_answer(s, fd);
        close(fd);
    }
    return NULL;
}

static inline service *service_open(const service_reply *replies, size_t len)
{
    service *s = calloc(1, sizeof(*s));
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);

    s->replies = replies;
    s->replies_len = len;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s->listener, (struct sockaddr *)&address, size) != 0 || listen(s->listener, 16) != 0 ||
            getsockname(s->listener, (struct sockaddr *)&address, &size) != 0)
        abort();
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d/v1", ntohs(address.sin_port));
    pthread_create(&s->thread, NULL, service_run, s);
    return s;
}

/* Waits until that many requests were received. */
static inline void service_wait(service *s, size_t len)
{
    pthread_mutex_lock(&s->lock);
    while (s->len < len)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static inline void service_release(service *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_released = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static inline void service_close(service *s)
{
    service_release(s);
    shutdown(s->listener, SHUT_RDWR);
    close(s->listener);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Whether the body contains the texts in this order; NULL ends the list. */
static inline bool service_has(const char *body, const char *const *texts)
{
    for (; *texts; texts++) {
        body = strstr(body, *texts);
        if (!body) {
            fprintf(stderr, "# not there, or too early: %s\n", *texts);
            return false;
        }
        body += strlen(*texts);
    }
    return true;
}
#define HAS(body, ...) CHECK(service_has((body), (const char *const[]){__VA_ARGS__, NULL}))

#endif
