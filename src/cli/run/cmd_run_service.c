/* cmd_run_service.c - finds a Palaver server that runs already, and reads its sessions.
 *
 * Requests are small and local, so they are plain blocking HTTP with a timeout. The key of the user
 * is sent only after the other side has shown that it is Palaver. A server with TLS is not used:
 * `palaver run` then starts a server of its own. */
#include "cli/run/cmd_run.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"

#define TIMEOUT_MS 5000 /* limit for each step: connecting, a send, a receive */
#define ANSWER_BYTES_MAX ((size_t)4 << 20)
#define KEY_VARIABLE "PALAVER_API_KEY"

/* ---- HTTP ---- */

typedef struct address {
    char host[128]; /* without brackets */
    char port[16];
} address;

/* A server that listens on all addresses is called on this machine. */
static bool read_address(pal_str listen, address *out)
{
    size_t at = listen.len;
    while (at > 0 && listen.data[at - 1] != ':')
        at--;
    if (at == 0)
        return false;
    pal_str host = pal_str_make(listen.data, at - 1);
    if (host.len > 1 && host.data[0] == '[')
        host = pal_str_make(host.data + 1, host.len - 2);
    if (host.len == 0 || pal_str_is(host, "0.0.0.0"))
        host = pal_str_of("127.0.0.1");
    else if (pal_str_is(host, "::"))
        host = pal_str_of("::1");
    snprintf(out->host, sizeof out->host, "%.*s", PAL_STR_ARG(host));
    snprintf(out->port, sizeof out->port, "%.*s", (int)(listen.len - at), listen.data + at);
    return strcmp(out->port, "0") != 0;
}

static int open_connection(const address *to)
{
    static const struct timeval timeout = {.tv_sec = TIMEOUT_MS / 1000};
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int fd = -1;
    if (getaddrinfo(to->host, to->port, &hints, &list) != 0)
        return -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static bool send_all(int fd, pal_str text)
{
    while (text.len) {
        ssize_t sent = send(fd, text.data, text.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        text = pal_text_after(text, (size_t)sent);
    }
    return true;
}

static bool receive_all(int fd, pal_buf *out)
{
    char piece[16384];
    for (;;) {
        ssize_t len = recv(fd, piece, sizeof piece, 0);
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return len == 0 && !out->failure;
        pal_buf_append(out, piece, (size_t)len);
        if (out->failure)
            return false;
    }
}

/* Returns the body of a successful answer, parsed. False: there is none. */
static bool get(pal_cli *cli, const address *to, const char *path, pal_str key, pal_json *out_body)
{
    static const char success[] = "HTTP/1.1 200 ";
    pal_buf request, answer;
    bool has_host_brackets = strchr(to->host, ':') != NULL;
    pal_buf_init(&request, 8192);
    pal_buf_init(&answer, ANSWER_BYTES_MAX);
    pal_buf_format(&request, "GET %s HTTP/1.1\r\nhost: %s%s%s:%s\r\nconnection: close\r\n", path,
            has_host_brackets ? "[" : "", to->host, has_host_brackets ? "]" : "", to->port);
    if (key.len)
        pal_buf_format(&request, "authorization: Bearer %.*s\r\n", PAL_STR_ARG(key));
    pal_buf_append_text(&request, "\r\n");
    int fd = open_connection(to);
    bool is_done = fd >= 0 && !request.failure && send_all(fd, pal_buf_str(&request)) &&
            receive_all(fd, &answer);
    if (fd >= 0)
        close(fd);
    pal_str text = pal_arena_copy(cli->arena, pal_buf_str(&answer));
    pal_buf_done(&request);
    pal_buf_done(&answer);
    const char *body = is_done && text.data && pal_text_begins(text, success)
            ? strstr(text.data, "\r\n\r\n")
            : NULL;
    return body && pal_json_parse(cli->arena, pal_str_of(body + 4), NULL, out_body, NULL) == PAL_OK;
}

/* ---- The server ---- */

static bool is_palaver(pal_cli *cli, const address *to)
{
    pal_json body;
    return get(cli, to, "/openapi.json", (pal_str){0}, &body) &&
            pal_json_string_is(pal_json_find(pal_json_find(body, "info"), "title"), "Palaver");
}

/* The configured address does not change, so it is read again for every call. */
static bool find_address(const pal_cli *cli, address *out)
{
    const pal_config_server *config = &pal_config_get(cli->config)->server;
    return !config->tls_certificate.len && read_address(config->listen, out);
}

static pal_status refused(pal_cli *cli, const pal_run_service *service)
{
    snprintf(cli->hint, sizeof cli->hint,
            "set " KEY_VARIABLE " to a key; 'palaver key create' makes one");
    return pal_error_set(&cli->err, PAL_DENIED, "the server at %.*s %s", PAL_STR_ARG(service->url),
            service->key.len ? "refuses the key in " KEY_VARIABLE : "requires an API key");
}

pal_status pal_run_service_find(pal_cli *cli, pal_run_service *out_service)
{
    address to;
    pal_json body;
    pal_buf url;
    pal_run_service service = {.key = pal_str_of(getenv(KEY_VARIABLE))};
    if (!find_address(cli, &to) || !is_palaver(cli, &to))
        return pal_error_set(&cli->err, PAL_NOT_FOUND, "no server is running");
    pal_buf_init(&url, 1024);
    pal_buf_format(
            &url, strchr(to.host, ':') ? "http://[%s]:%s" : "http://%s:%s", to.host, to.port);
    service.url = pal_arena_copy(cli->arena, pal_buf_str(&url));
    pal_buf_done(&url);
    /* Without a valid key, the answer does not contain the model. */
    if (get(cli, &to, "/api/v1/health", service.key, &body))
        service.model = pal_member_string(body, "llm_model", cli->arena);
    if (!service.model.len)
        return refused(cli, &service);
    *out_service = service;
    return pal_arena_checked(cli->arena, &cli->err);
}

/* ---- Sessions ---- */

bool pal_run_session_is_part(pal_str key)
{
    const char *label_end = key.len ? memchr(key.data, ':', key.len) : NULL;
    size_t used = label_end ? (size_t)(label_end - key.data) + 1 : key.len;
    return used < key.len && memchr(key.data + used, ':', key.len - used);
}

static bool is_wanted(pal_cli *cli, pal_json session, const char *label, int64_t since_ms)
{
    int64_t updated_ms = 0;
    pal_str key = pal_member_string(session, "key", cli->arena);
    return pal_text_begins(key, label) && !pal_run_session_is_part(key) &&
            pal_time_from_text(
                    pal_member_string(session, "updated_at", cli->arena), &updated_ms) &&
            updated_ms >= since_ms;
}

pal_status pal_run_service_sessions(pal_cli *cli, const pal_run_service *service,
        const char *label, int64_t since_ms, pal_run_session out[PAL_RUN_SESSIONS_MAX],
        size_t *out_len)
{
    address to;
    pal_json body, session;
    size_t len = 0;
    if (!find_address(cli, &to) ||
            !get(cli, &to, "/api/v1/sessions?limit=100", service->key, &body))
        return pal_error_set(&cli->err, PAL_IO, "could not list the sessions of the server at %.*s",
                PAL_STR_ARG(service->url));
    pal_json list = pal_json_find(body, "sessions");
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &session);) {
        uint64_t messages = 0;
        if (len == PAL_RUN_SESSIONS_MAX || !is_wanted(cli, session, label, since_ms))
            continue;
        pal_json_u64(pal_json_find(session, "message_count"), &messages);
        out[len++] = (pal_run_session){.key = pal_member_string(session, "key", cli->arena),
                .id = pal_member_string(session, "id", cli->arena),
                .messages = messages};
    }
    *out_len = len;
    return pal_arena_checked(cli->arena, &cli->err);
}
