/* http_toy.c - see http_toy.h. */
#include "server/unit/http_toy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS_MAX 16384

typedef struct toy_stream {
    toy *it;
    pal_stream *stream; /* NULL after the client has gone */
} toy_stream;

struct toy {
    pal_listener *listener;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pal_exchange *held[64];
    unsigned held_len;
    toy_stream *streams[STREAMS_MAX];
    unsigned streams_len, open, gone, ended, pieces;
    unsigned last_code;
    uint64_t last_bytes;
};

static void answer_text(pal_exchange *x, unsigned code, pal_str text)
{
    pal_exchange_answer(x, code, "text/plain", text);
}

/* ---- Streams ---- */

static void on_gone(void *user)
{
    toy_stream *mine = user;
    toy *it = mine->it;
    pthread_mutex_lock(&it->lock);
    mine->stream = NULL;
    it->open--;
    it->gone++;
    pthread_cond_broadcast(&it->changed);
    pthread_mutex_unlock(&it->lock);
}

static toy_stream *open_stream(toy *it, pal_exchange *x)
{
    toy_stream *mine = calloc(1, sizeof *mine);
    mine->it = it;
    pthread_mutex_lock(&it->lock);
    mine->stream = pal_exchange_stream(x, 200, "text/event-stream", on_gone, mine);
    bool is_open = mine->stream != NULL;
    if (is_open) {
        it->open++;
        it->streams[it->streams_len++] = mine;
        pthread_cond_broadcast(&it->changed);
    }
    pthread_mutex_unlock(&it->lock);
    if (is_open)
        return mine;
    free(mine);
    answer_text(x, 503, pal_str_of("too many streams"));
    return NULL;
}

static bool write_one(toy_stream *mine, pal_str bytes)
{
    pthread_mutex_lock(&mine->it->lock);
    bool is_taken = mine->stream && pal_stream_write(mine->stream, bytes);
    pthread_mutex_unlock(&mine->it->lock);
    return is_taken;
}

unsigned toy_stream_write(toy *it, const char *text)
{
    unsigned taken = 0;
    pthread_mutex_lock(&it->lock);
    unsigned len = it->streams_len;
    pthread_mutex_unlock(&it->lock);
    for (unsigned i = 0; i < len; i++)
        taken += write_one(it->streams[i], pal_str_of(text));
    return taken;
}

static void end_one(toy_stream *mine)
{
    pthread_mutex_lock(&mine->it->lock);
    if (mine->stream)
        pal_stream_end(mine->stream);
    pthread_mutex_unlock(&mine->it->lock);
}

void toy_stream_end(toy *it)
{
    for (unsigned i = 0; i < it->streams_len; i++)
        end_one(it->streams[i]);
}

/* ---- Pulls ---- */

typedef struct toy_pull {
    toy *it;
    unsigned left;
    bool fails;
} toy_pull;

static pal_pulled make_piece(pal_buf *out, void *user)
{
    toy_pull *mine = user;
    pthread_mutex_lock(&mine->it->lock);
    mine->it->pieces++;
    pthread_mutex_unlock(&mine->it->lock);
    if (mine->left == 0)
        return mine->fails ? PAL_PULLED_FAILED : PAL_PULLED_END;
    for (unsigned i = 0; i < TOY_PIECE_BYTES; i++)
        pal_buf_append_char(out, (char)('a' + mine->left % 26));
    mine->left--;
    return PAL_PULLED_MORE;
}

static void pull_done(void *user)
{
    toy_pull *mine = user;
    pthread_mutex_lock(&mine->it->lock);
    mine->it->gone++;
    pthread_cond_broadcast(&mine->it->changed);
    pthread_mutex_unlock(&mine->it->lock);
}

static void handle_pull(toy *it, pal_exchange *x, unsigned pieces, bool fails)
{
    toy_pull *mine = pal_arena_alloc(x->arena, sizeof *mine);
    if (mine)
        *mine = (toy_pull){it, pieces, fails};
    if (!mine || !pal_exchange_pull(x, 200, "text/plain", make_piece, pull_done, mine))
        answer_text(x, 503, pal_str_of("too many streams"));
}

unsigned toy_pieces(toy *it)
{
    pthread_mutex_lock(&it->lock);
    unsigned pieces = it->pieces;
    pthread_mutex_unlock(&it->lock);
    return pieces;
}

/* ---- Handlers ---- */

static void work_echo(pal_exchange *x)
{
    answer_text(x, 200, pal_buf_str(&x->body));
}

static void *run_later(void *user)
{
    answer_text(user, 200, pal_str_of("later"));
    return NULL;
}

static void start_later(pal_exchange *x)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_later, x) == 0)
        pthread_detach(thread);
}

static void hold(toy *it, pal_exchange *x)
{
    pthread_mutex_lock(&it->lock);
    it->held[it->held_len++] = x;
    pthread_cond_broadcast(&it->changed);
    pthread_mutex_unlock(&it->lock);
}

static void answer_bytes(pal_exchange *x, size_t len)
{
    char *bytes = pal_arena_alloc(x->arena, len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + i % 26);
    answer_text(x, 200, pal_str_make(bytes, len));
}

static void handle_stream(toy *it, pal_exchange *x, pal_str path)
{
    toy_stream *mine = open_stream(it, x);
    if (!mine)
        return;
    if (pal_str_is(path, "/stream")) {
        write_one(mine, pal_str_of("data: 1\n\n"));
    } else if (pal_str_is(path, "/short-stream")) {
        write_one(mine, pal_str_of("one,"));
        write_one(mine, pal_str_of("two,"));
        write_one(mine, pal_str_of("three"));
        end_one(mine);
    } else {
        static const char block[4096];
        while (write_one(mine, pal_str_make(block, sizeof block)))
            ;
    }
}

static void handle(pal_exchange *x, void *user)
{
    toy *it = user;
    pal_str path = x->path, value = {NULL, 0};
    if (pal_str_is(path, "/hello")) {
        pal_exchange_add_header(x, "x-toy", pal_str_of("yes"));
        answer_text(x, 200, pal_str_of("hello"));
    } else if (pal_str_is(path, "/echo")) {
        answer_text(x, 200, pal_buf_str(&x->body));
    } else if (pal_str_is(path, "/worker/echo")) {
        pal_exchange_to_worker(x, work_echo);
    } else if (pal_str_is(path, "/later")) {
        start_later(x);
    } else if (pal_str_is(path, "/hold")) {
        hold(it, x);
    } else if (pal_str_is(path, "/peer")) {
        answer_text(x, 200, x->peer);
    } else if (pal_str_is(path, "/id")) {
        answer_text(x, 200, x->id);
    } else if (pal_str_is(path, "/header")) {
        answer_text(x, 200, pal_exchange_header(x, "X-Test"));
    } else if (pal_str_is(path, "/query")) {
        bool has = pal_exchange_query(x, "q", &value);
        answer_text(x, has ? 200 : 404, value);
    } else if (path.len > 7 && memcmp(path.data, "/bytes/", 7) == 0) {
        answer_bytes(x, strtoul(path.data + 7, NULL, 10));
    } else if (path.len > 6 && memcmp(path.data, "/pull/", 6) == 0) {
        handle_pull(it, x, (unsigned)strtoul(path.data + 6, NULL, 10), false);
    } else if (pal_str_is(path, "/pull-fails")) {
        handle_pull(it, x, 2, true);
    } else if (pal_str_is(path, "/stream") || pal_str_is(path, "/short-stream") ||
            pal_str_is(path, "/flood")) {
        handle_stream(it, x, path);
    } else {
        answer_text(x, 404, path);
    }
}

static void refuse(pal_exchange *x, unsigned code, const char *why, void *user)
{
    char text[256];
    (void)user;
    int len = snprintf(text, sizeof text, "%u: %s", code, why);
    answer_text(x, code, pal_str_make(text, (size_t)len));
}

static void ended(pal_exchange *x, unsigned code, uint64_t bytes, int64_t us, void *user)
{
    toy *it = user;
    (void)us;
    pthread_mutex_lock(&it->lock);
    it->ended++;
    it->last_code = x->id.len ? code : 0;
    it->last_bytes = bytes;
    pthread_cond_broadcast(&it->changed);
    pthread_mutex_unlock(&it->lock);
}

/* ---- Its life ---- */

pal_config_server toy_config(void)
{
    return (pal_config_server){
            .listen = pal_str_of("127.0.0.1:0"),
            .body_bytes_max = 100000,
            .header_bytes_max = 8192,
            .url_bytes_max = 2048,
            .connections_max = 12000,
            .connections_per_address = 12000,
            .streams_max = 11000,
            .bodies_bytes_max = 1 << 20,
            .stream_bytes_max = 1 << 20,
            .idle_ms = 60000,
            .request_ms = 60000,
            .heartbeat_ms = 60000,
            .threads = 2,
    };
}

static toy *open_toy(const pal_config_server *config, pal_error *err)
{
    toy *it = calloc(1, sizeof *it);
    pal_listener_options options = {
            .config = config, .handle = handle, .refuse = refuse, .ended = ended, .user = it};
    pthread_mutex_init(&it->lock, NULL);
    pthread_cond_init(&it->changed, NULL);
    if (pal_listener_open(&options, &it->listener, err) == PAL_OK)
        return it;
    free(it);
    return NULL;
}

toy *toy_open(const pal_config_server *config)
{
    pal_error err = {0};
    toy *it = open_toy(config, &err);
    if (!it) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return it;
}

toy *toy_try_open(void)
{
    pal_config_server config = toy_config();
    pal_error err = {0};
    toy *it = open_toy(&config, &err);
    if (!it && err.status != PAL_NO_MEMORY) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return it;
}

void toy_close(toy *it)
{
    pal_listener_close(it->listener);
    for (unsigned i = 0; i < it->streams_len; i++)
        free(it->streams[i]);
    pthread_cond_destroy(&it->changed);
    pthread_mutex_destroy(&it->lock);
    free(it);
}

pal_listener *toy_listener(toy *it)
{
    return it->listener;
}

uint16_t toy_port(const toy *it)
{
    return pal_listener_port(it->listener);
}

void toy_release(toy *it)
{
    pthread_mutex_lock(&it->lock);
    while (it->held_len)
        answer_text(it->held[--it->held_len], 200, pal_str_of("released"));
    pthread_mutex_unlock(&it->lock);
}

static void await(toy *it, const unsigned *number, unsigned count)
{
    pthread_mutex_lock(&it->lock);
    while (*number < count)
        pthread_cond_wait(&it->changed, &it->lock);
    pthread_mutex_unlock(&it->lock);
}

void toy_await_held(toy *it, unsigned count)
{
    await(it, &it->held_len, count);
}

unsigned toy_held(toy *it)
{
    pthread_mutex_lock(&it->lock);
    unsigned held = it->held_len;
    pthread_mutex_unlock(&it->lock);
    return held;
}

void toy_await_streams(toy *it, unsigned count)
{
    await(it, &it->open, count);
}

void toy_await_gone(toy *it, unsigned count)
{
    await(it, &it->gone, count);
}

void toy_await_ended(toy *it, unsigned count)
{
    await(it, &it->ended, count);
}

unsigned toy_last_code(toy *it)
{
    pthread_mutex_lock(&it->lock);
    unsigned code = it->last_code;
    pthread_mutex_unlock(&it->lock);
    return code;
}

uint64_t toy_last_bytes(toy *it)
{
    pthread_mutex_lock(&it->lock);
    uint64_t bytes = it->last_bytes;
    pthread_mutex_unlock(&it->lock);
    return bytes;
}

/* ---- The client ---- */

/* Returns -1 if the connection is refused. */
static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int client_open(uint16_t port)
{
    int fd = connect_to(port);
    if (fd < 0) {
        fprintf(stderr, "no connection to port %u\n", port);
        exit(1);
    }
    return fd;
}

bool client_try(uint16_t port)
{
    int fd = connect_to(port);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool client_send(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool client_say(int fd, const char *text)
{
    return client_send(fd, text, strlen(text));
}

static bool read_exact(int fd, char *out, size_t len)
{
    while (len) {
        ssize_t got = recv(fd, out, len, 0);
        if (got <= 0)
            return false;
        out += got;
        len -= (size_t)got;
    }
    return true;
}

/* Reads up to and including the end of the line; byte by byte, so that nothing after it is
 * consumed. */
static bool read_line(int fd, char *out, size_t size)
{
    size_t len = 0;
    while (len + 1 < size && read_exact(fd, out + len, 1)) {
        if (out[len++] == '\n') {
            out[len] = 0;
            return true;
        }
    }
    return false;
}

static bool read_head(int fd, client_answer *answer)
{
    size_t len = 0;
    char *out = answer->head;
    do {
        if (!read_line(fd, out + len, sizeof answer->head - len))
            return false;
        size_t line_len = strlen(out + len);
        if (line_len == 2)
            return sscanf(out, "HTTP/1.%*d %u", &answer->code) == 1;
        len += line_len;
    } while (len < sizeof answer->head);
    return false;
}

static bool grow(client_answer *answer, int fd, size_t len)
{
    answer->body = realloc(answer->body, answer->body_len + len + 1);
    bool is_there = read_exact(fd, answer->body + answer->body_len, len);
    answer->body_len += is_there ? len : 0;
    answer->body[answer->body_len] = 0;
    return is_there;
}

static bool read_chunks(int fd, client_answer *answer)
{
    char line[64];
    while (read_line(fd, line, sizeof line)) {
        size_t len = strtoul(line, NULL, 16);
        if (len == 0)
            return read_line(fd, line, sizeof line);
        if (!grow(answer, fd, len) || !read_line(fd, line, sizeof line))
            return false;
    }
    return false;
}

bool client_read(int fd, bool is_head, client_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->body = calloc(1, 1);
    if (!read_head(fd, answer))
        return false;
    answer->is_closing = strcasecmp(client_header(answer, "Connection"), "close") == 0;
    if (is_head || answer->code == 100 || answer->code == 204 || answer->code == 304)
        return true;
    if (strcasecmp(client_header(answer, "Transfer-Encoding"), "chunked") == 0)
        return read_chunks(fd, answer);
    return grow(answer, fd, strtoul(client_header(answer, "Content-Length"), NULL, 10));
}

void client_answer_done(client_answer *answer)
{
    free(answer->body);
    answer->body = NULL;
}

bool client_read_until(int fd, const char *text)
{
    size_t len = strlen(text), have = 0;
    char *window = calloc(1, len + 1);
    bool is_seen = false, is_open = true;
    while (!is_seen && is_open) {
        if (have == len)
            memmove(window, window + 1, --have);
        is_open = read_exact(fd, window + have, 1);
        have += is_open;
        is_seen = have == len && memcmp(window, text, len) == 0;
    }
    free(window);
    return is_seen;
}

bool client_is_closed(int fd)
{
    char bytes[4096];
    struct timeval patience = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        ;
    return got == 0 || errno != EAGAIN;
}

const char *client_header(const client_answer *answer, const char *name)
{
    static _Thread_local char value[1024];
    size_t name_len = strlen(name);
    value[0] = 0;
    for (const char *line = strchr(answer->head, '\n'); line && line[1];
            line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
            sscanf(line + name_len + 1, " %1023[^\r\n]", value);
            break;
        }
    }
    return value;
}

bool client_ask(uint16_t port, const char *request, client_answer *answer)
{
    int fd = client_open(port);
    bool is_there = client_say(fd, request) && client_read(fd, false, answer);
    close(fd);
    return is_there;
}
