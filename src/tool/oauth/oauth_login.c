/* oauth_login.c - logs a person in: opens a port of 127.0.0.1, starts a flow that needs the person,
 * and receives the redirect of the browser.
 *
 * The caller's thread waits for connections of the browser, one after the other. Everything else
 * runs on a loop that exists only for the login. `lock` guards what both of them use. */
#include "palaver/login.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "tool/oauth/oauth_internal.h"

#define WAIT_MS 300000
#define PROBE_MS 30000       /* the request that finds out whether a login is required */
#define READ_MS 2000         /* how long one connection can block the others */
#define REQUEST_BYTES_MAX 16384
#define REDIRECT_LEN_MAX 64

typedef struct login {
    const pal_login_options *options;
    pal_loop *loop;
    pal_http *http;
    pal_oauth *oauth;
    pal_oauth_wait wait;
    pal_buf challenge;
    char redirect_uri[REDIRECT_LEN_MAX];
    int listener; /* -1: none */
    int ended;    /* an eventfd: readable when the login has ended */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pal_status status; /* status of the login; set before `ended` */
    pal_error err;
} login;

/* ---- On the loop ---- */

/* A function that runs on the loop while the caller waits. */
typedef struct loop_call {
    pal_task task;
    login *login;
    void (*run)(login *l, void *argument);
    void *argument;
    bool is_done;
} loop_call;

static void run_call(pal_task *task)
{
    loop_call *call = (loop_call *)((char *)task - offsetof(loop_call, task));
    login *l = call->login;
    call->run(l, call->argument);
    pthread_mutex_lock(&l->lock);
    call->is_done = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static void call_on_loop(login *l, void (*run)(login *l, void *argument), void *argument)
{
    loop_call call = {.task = {.run = run_call}, .login = l, .run = run, .argument = argument};
    pal_loop_post(l->loop, &call.task);
    pthread_mutex_lock(&l->lock);
    while (!call.is_done)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

static void end(login *l, pal_status status, pal_str error)
{
    const uint64_t one = 1;
    l->status = status;
    (void)pal_error_set(&l->err, status, "%.*s", PAL_STR_ARG(error));
    (void)!write(l->ended, &one, sizeof one);
}

static void on_done(pal_oauth_wait *wait, pal_status status, pal_str error)
{
    end((login *)((char *)wait - offsetof(login, wait)), status, error);
}

static void on_authorize(void *user, pal_str url)
{
    const login *l = user;
    l->options->on_url(url, l->options->user);
}

/* ---- The first request: does the server require a login? ---- */

static void on_probe_head(void *user, const pal_http_head *head)
{
    login *l = user;
    for (size_t i = 0; i < head->headers_len; i++) {
        if (!pal_str_is(head->headers[i].name, "www-authenticate"))
            continue;
        pal_buf_append_text(&l->challenge, l->challenge.len ? ", " : "");
        pal_buf_append_str(&l->challenge, head->headers[i].value);
    }
}

static void on_probe_body(void *user, pal_str bytes)
{
    (void)user;
    (void)bytes;
}

static void on_probe_end(void *user, const pal_http_end *http)
{
    login *l = user;
    char text[PAL_ERROR_MESSAGE_MAX];
    if (http->status != PAL_OK) {
        end(l, http->status, pal_str_of(http->error));
    } else if (http->code == 401) {
        l->wait.on_done = on_done;
        if (!pal_oauth_challenge(l->oauth, 401, pal_buf_str(&l->challenge),
                    pal_oauth_serial(l->oauth), &l->wait))
            end(l, PAL_NO_MEMORY, pal_str_of("out of memory"));
    } else {
        snprintf(text, sizeof text, "the server answers with HTTP code %ld, not with 401",
                http->code);
        end(l, http->code < 300 ? PAL_NOT_FOUND : PAL_PROVIDER,
                http->code < 300 ? pal_str_of("the server requires no login") : pal_str_of(text));
    }
}

static pal_status probe(login *l, pal_error *err)
{
    static const pal_http_events events = {on_probe_head, on_probe_body, on_probe_end};
    const pal_header headers[] = {
            {pal_str_of("Accept"), pal_str_of("application/json, text/event-stream")},
            {pal_str_of("Content-Type"), pal_str_of("application/json")}};
    const pal_http_request request = {.method = "POST",
            .url = l->options->server->url,
            .headers = headers,
            .headers_len = 2,
            .body = pal_str_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\","
                               "\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                               "\"clientInfo\":{\"name\":\"palaver\",\"version\":\"" PAL_VERSION
                               "\"}}}"),
            .total_ms = PROBE_MS,
            .response_bytes_max = PAL_OAUTH_RESPONSE_BYTES_MAX};
    pal_http_call *call;
    return pal_http_start(l->http, &request, &events, l, &call, err);
}

/* The file of an earlier login was read. */
static void on_loaded(pal_oauth_wait *wait, pal_status status, pal_str error)
{
    login *l = (login *)((char *)wait - offsetof(login, wait));
    pal_error err;
    if (status)
        end(l, status, error);
    else if (probe(l, &err))
        end(l, err.status, pal_str_of(err.message));
}

static void open_on_loop(login *l, void *argument)
{
    const pal_tool_server *server = l->options->server;
    const pal_oauth_config config = {.name = server->name,
            .url = server->url,
            .auth = server->auth,
            .is_login = true,
            .on_authorize = on_authorize,
            .redirect_uri = pal_str_of(l->redirect_uri),
            .user = l};
    pal_error *err = argument;
    pal_status status = pal_http_open(l->loop, NULL, &l->http, err);
    if (status == PAL_OK)
        status = pal_oauth_open(l->loop, l->http, &config, &l->oauth, err);
    l->wait.on_done = on_loaded;
    if (status == PAL_OK && pal_oauth_is_ready(l->oauth))
        status = probe(l, err);
    else if (status == PAL_OK && !pal_oauth_prepare(l->oauth, &l->wait))
        status = pal_no_memory(err);
    err->status = status;
}

static void close_on_loop(login *l, void *argument)
{
    (void)argument;
    pal_oauth_close(l->oauth);
    pal_http_close(l->http);
}

/* ---- The redirect ---- */

typedef struct redirect {
    pal_str query;
    bool is_ours;
} redirect;

static void take_redirect(login *l, void *argument)
{
    redirect *r = argument;
    r->is_ours = pal_oauth_redirected(l->oauth, r->query);
}

/* Finds the query in "GET /callback?code=... HTTP/1.1". */
static bool read_query(pal_str request, pal_str *out_query)
{
    static const char start[] = "GET /callback?";
    if (!pal_text_begins(request, start))
        return false;
    *out_query = pal_text_after(request, sizeof start - 1);
    const char *blank = memchr(out_query->data, ' ', out_query->len);
    out_query->len = blank ? (size_t)(blank - out_query->data) : 0;
    return blank != NULL;
}

/* Reads the head of a request; a slow or silent client is left. */
static void read_request(int fd, pal_buf *out)
{
    int64_t until = pal_clock_monotonic_us() / 1000 + READ_MS;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (!out->failure && !(out->len && memmem(out->data, out->len, "\r\n\r\n", 4))) {
        char bytes[2048];
        int64_t left = until - pal_clock_monotonic_us() / 1000;
        if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
            return;
        ssize_t len = recv(fd, bytes, sizeof bytes, 0);
        if (len <= 0)
            return;
        pal_buf_append(out, bytes, (size_t)len);
    }
}

static void respond(int fd, bool is_ours)
{
    char text[512];
    const char *body = is_ours ? "Palaver received the login. The terminal shows the result; you "
                                 "can close this page.\n"
                               : "This page does not belong to a login that is under way.\n";
    int len = snprintf(text, sizeof text,
            "HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %zu\r\n"
            "referrer-policy: no-referrer\r\nconnection: close\r\n\r\n%s",
            is_ours ? "200 OK" : "400 Bad Request", strlen(body), body);
    (void)!send(fd, text, (size_t)len, MSG_NOSIGNAL);
}

static void serve_one(login *l)
{
    redirect r = {.is_ours = false};
    pal_buf request;
    int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    pal_buf_init(&request, REQUEST_BYTES_MAX);
    read_request(fd, &request);
    if (read_query(pal_buf_str(&request), &r.query))
        call_on_loop(l, take_redirect, &r);
    respond(fd, r.is_ours);
    shutdown(fd, SHUT_RDWR);
    close(fd);
    pal_buf_done(&request);
}

/* Serves the browser until the login has ended. */
static pal_status wait_for_end(login *l, pal_error *err)
{
    int64_t wait_ms = l->options->wait_ms ? l->options->wait_ms : WAIT_MS;
    int64_t until = pal_clock_monotonic_us() / 1000 + wait_ms;
    struct pollfd ready[] = {
            {.fd = l->ended, .events = POLLIN}, {.fd = l->listener, .events = POLLIN}};
    while (!(ready[0].revents & POLLIN)) {
        int64_t left = until - pal_clock_monotonic_us() / 1000;
        if (left <= 0)
            return pal_error_set(err, PAL_TIMEOUT, "the login was not completed in %lld s",
                    (long long)(wait_ms / 1000));
        if (poll(ready, 2, left < INT32_MAX ? (int)left : INT32_MAX) > 0 &&
                (ready[1].revents & POLLIN))
            serve_one(l);
    }
    if (l->status)
        *err = l->err;
    return l->status;
}

/* ---- The login ---- */

static pal_status open_port(login *l, pal_error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(l->options->port),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    const int on = 1;
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->listener >= 0)
        (void)setsockopt(l->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (l->listener < 0 || bind(l->listener, (struct sockaddr *)&address, len) != 0 ||
            listen(l->listener, 8) != 0 ||
            getsockname(l->listener, (struct sockaddr *)&address, &len) != 0)
        return pal_error_set(err, PAL_IO, "could not open port %u of 127.0.0.1: %s",
                (unsigned)l->options->port, strerror(errno));
    snprintf(l->redirect_uri, sizeof l->redirect_uri, "http://127.0.0.1:%u/callback",
            (unsigned)ntohs(address.sin_port));
    return PAL_OK;
}

static pal_status check(const pal_tool_server *server, pal_error *err)
{
    if (!server || !server->url.len || !server->auth || !server->auth->file.len)
        return pal_error_set(err, PAL_INVALID, "only an MCP server with a url can have a login");
    if (server->auth->client_credentials)
        return pal_error_set(err, PAL_INVALID,
                "MCP server '%.*s' needs no login: its grant is client_credentials",
                PAL_EXCERPT(server->name, 60));
    return PAL_OK;
}

pal_status pal_login_run(const pal_login_options *options, pal_error *err)
{
    login l = {.options = options, .listener = -1, .lock = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER};
    pal_error open_err = {0};
    pal_status status = check(options->server, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&l.challenge, PAL_OAUTH_RESPONSE_BYTES_MAX);
    l.ended = eventfd(0, EFD_CLOEXEC);
    status = l.ended < 0 ? pal_error_set(err, PAL_IO, "eventfd: %s", strerror(errno))
                         : open_port(&l, err);
    if (status == PAL_OK)
        status = pal_loop_open(1, &l.loop, err);
    if (status != PAL_OK)
        goto out;
    call_on_loop(&l, open_on_loop, &open_err);
    status = open_err.status;
    if (status == PAL_OK)
        status = wait_for_end(&l, err);
    else if (err)
        *err = open_err;
    call_on_loop(&l, close_on_loop, NULL);
out:
    pal_loop_close(l.loop);
    if (l.listener >= 0)
        close(l.listener);
    if (l.ended >= 0)
        close(l.ended);
    pal_buf_done(&l.challenge);
    return status;
}

pal_status pal_login_forget(const pal_tool_server *server, pal_error *err)
{
    pal_status status = check(server, err);
    if (status != PAL_OK)
        return status;
    if (unlink(server->auth->file.data) == 0)
        return PAL_OK;
    if (errno == ENOENT)
        return pal_error_set(err, PAL_NOT_FOUND, "MCP server '%.*s' has no login",
                PAL_EXCERPT(server->name, 60));
    return pal_error_set(err, PAL_IO, "could not remove '%.*s': %s",
            PAL_EXCERPT(server->auth->file, 120), strerror(errno));
}
