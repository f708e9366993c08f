/* fuzz_server.c - any bytes as a request to a complete server through its socket: the server
 * responds, the response is well-formed, and no request causes an internal error (500).
 *
 *   POST /api/v1/sessions/s/messages
 *   idempotency-key: a
 *
 *   {"content":"hi"}
 *
 * The target turns this into HTTP: a line end becomes CRLF; host, key and length are added.
 *
 * An input can be a story of several requests, separated by a line "%%". "$0" is replaced by the
 * newest id in the responses of this story, "$1" by the one before.
 *
 * An input that begins with "#" selects a route by its number, so that no route is missed: one byte
 * for the route, one byte for the value in its path (which can be such an id), then the body. The
 * text after "RAW " is sent unchanged, and does not need a response.
 *
 * The store is "memory:" and the model is "echo". The session with key "s" always exists; all other
 * data is left by earlier inputs, until the server is restarted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/buf.h"
#include "fuzz_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TRIES_MAX 10   /* on a busy machine a client can be too late, but not always */
#define ANSWER_MAX ((size_t)256 << 20)
#define STORY_MAX 40 /* requests */
#define IDS_MAX 10   /* ids of responses that are remembered */
#define ID_SIZE 96

static struct {
    char ids[IDS_MAX][ID_SIZE];
    size_t ids_len; /* ids of this story; the newest are kept */
} fuzzed;

/* Restores it after whatever an input has done to it. */
static void want_session(void)
{
    pal_session session = {.key = pal_str_of("s"), .tenant = pal_str_of("default")};
    pal_op op = {.kind = PAL_OP_CREATE, .tenant = session.tenant};
    op.u.create.session = &session;
    op.u.create.or_find = true;
    REQUIRE(pal_store_apply(fuzz_host.store, &op, 1, NULL) == PAL_OK);
}

/* ---- One request ---- */

/* Up to the first empty line, each line is a header line. */
static void write_head(pal_str head, size_t body_len, pal_buf *out)
{
    bool has_first = false;
    while (head.len) {
        const char *end = memchr(head.data, '\n', head.len);
        size_t len = end ? (size_t)(end - head.data) : head.len;
        pal_buf_append(out, head.data, len);
        if (!has_first)
            pal_buf_append_text(out, " HTTP/1.1");
        pal_buf_append_text(out, "\r\n");
        has_first = true;
        len += end != NULL;
        head = pal_str_make(head.data + len, head.len - len);
    }
    if (!has_first)
        pal_buf_append_text(out, "GET / HTTP/1.1\r\n");
    pal_buf_format(out,
            "Host: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n"
            "Connection: close\r\n\r\n",
            fuzz_host.secret, body_len);
}

/* The route of that number, counted over all tables, repeatedly. */
static const pal_api_route *route_of(size_t number)
{
    for (;;) {
        size_t before = number;
        for (const pal_api *const *api = pal_apis; *api; api++)
            for (const pal_api_route *const *table = (*api)->routes; *table; table++)
                for (const pal_api_route *route = *table; route->method; route++)
                    if (number-- == 0)
                        return route;
        REQUIRE(number < before);
    }
}

/* A remembered id by its age; NULL if there is none. */
static const char *id_of(size_t age)
{
    size_t kept = fuzzed.ids_len < IDS_MAX ? fuzzed.ids_len : IDS_MAX;
    return age < kept ? fuzzed.ids[(fuzzed.ids_len - 1 - age) % IDS_MAX] : NULL;
}

static const char *name_of(uint8_t choice)
{
    static const char *const names[] = {
            "s", "s", "s", "1", "%2f", "0", "sha256:00", "00000000-0000-7000-8000-000000000001"};
    const char *id = choice % 16 < 8 ? NULL : id_of(choice % 8);
    return id ? id : names[choice % 8];
}

/* Replaces "$0" to "$9" by ids. */
static void put_ids(pal_str text, pal_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        bool is_mark = text.data[i] == '$' && i + 1 < text.len && text.data[i + 1] >= '0' &&
                text.data[i + 1] <= '9';
        const char *id = is_mark ? id_of((size_t)(text.data[i + 1] - '0')) : NULL;
        if (id) {
            pal_buf_append_text(out, id);
            i++;
        } else {
            pal_buf_append_char(out, text.data[i]);
        }
    }
}

static void write_path(const char *pattern, uint8_t choice, pal_buf *out)
{
    for (; *pattern; pattern++) {
        if (*pattern != '{') {
            pal_buf_append_char(out, *pattern);
            continue;
        }
        pal_buf_append_text(out, name_of(choice));
        choice = (uint8_t)(choice / 16 + 8);
        pattern = strchr(pattern, '}');
    }
}

static void write_routed(pal_str input, pal_buf *out)
{
    uint8_t number = input.len > 1 ? (uint8_t)input.data[1] : 0;
    uint8_t choice = input.len > 2 ? (uint8_t)input.data[2] : 0;
    pal_str body = input.len > 3 ? pal_str_make(input.data + 3, input.len - 3) : pal_str_of("");
    const pal_api_route *route = route_of(number);
    pal_buf head;
    pal_buf_init(&head, ANSWER_MAX);
    pal_buf_format(&head, "%s ", route->method);
    write_path(route->path, choice, &head);
    write_head(pal_buf_str(&head), body.len, out);
    pal_buf_append_str(out, body);
    pal_buf_done(&head);
}

static void write_request(pal_str input, pal_buf *out)
{
    if (input.len && input.data[0] == '#') {
        write_routed(input, out);
        return;
    }
    const char *gap = input.len ? memmem(input.data, input.len, "\n\n", 2) : NULL;
    size_t head_len = gap ? (size_t)(gap - input.data) : input.len;
    pal_str body = gap ? pal_str_make(gap + 2, input.len - head_len - 2) : pal_str_make("", 0);
    write_head(pal_str_make(input.data, head_len), body.len, out);
    pal_buf_append_str(out, body);
}

/* Reads up to the end of the connection. Returns false if it was reset after the bytes in `out`. */
static bool exchange(pal_str request, bool is_last, pal_buf *out)
{
    int fd = fuzz_host_connect();
    ssize_t len = 0;
    while (request.len && (len = send(fd, request.data, request.len, MSG_NOSIGNAL)) > 0)
        request = pal_str_make(request.data + len, request.len - (size_t)len);
    /* Otherwise the server would wait for the rest of a body that is shorter than announced. */
    if (is_last)
        shutdown(fd, SHUT_WR);
    char *at;
    while ((at = pal_buf_reserve(out, 4096)) && (len = recv(fd, at, 4096, 0)) > 0)
        pal_buf_commit(out, (size_t)len);
    REQUIRE(len >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK));
    close(fd);
    return len == 0;
}

/* ---- What an answer must be ---- */

/* Remembers ids that later inputs can use in their paths: the values of "id" and "turn_id". */
static void keep_ids(pal_str body)
{
    const char *at = body.data, *end = body.data + body.len;
    while (at && at < end && (at = memmem(at, (size_t)(end - at), "id\":\"", 5))) {
        at += 5;
        const char *quote = memchr(at, '"', (size_t)(end - at));
        size_t len = quote ? (size_t)(quote - at) : 0;
        if (len == 0 || len >= ID_SIZE)
            continue;
        char *slot = fuzzed.ids[fuzzed.ids_len++ % IDS_MAX];
        size_t kept = 0;
        /* The id is put into a path, so it must not contain characters that end a path. */
        for (size_t i = 0; i < len; i++) {
            if (at[i] > ' ' && at[i] < 0x7f && !strchr("/?#%\\", at[i]))
                slot[kept++] = at[i];
        }
        slot[kept] = 0;
    }
}

/* A request by number, or one with a valid request line and without headers: the server must
 * respond. */
static bool is_plain(pal_str input)
{
    size_t spaces = 0, i = 0;
    if (input.len && input.data[0] == '#')
        return true;
    for (; i < input.len && input.data[i] != '\n'; i++) {
        spaces += input.data[i] == ' ';
        if (input.data[i] < ' ' || input.data[i] > '~')
            return false;
    }
    bool is_line = spaces == 1 && i > 2 && input.data[0] >= 'A' && input.data[0] <= 'Z' &&
            input.data[i - 1] != ' ' && memmem(input.data, i, " /", 2);
    return is_line && (i == input.len || (i + 1 < input.len && input.data[i + 1] == '\n'));
}

static pal_str body_of(pal_str answer)
{
    const char *gap = answer.len ? memmem(answer.data, answer.len, "\r\n\r\n", 4) : NULL;
    REQUIRE(gap != NULL);
    size_t skip = (size_t)(gap - answer.data) + 4;
    return pal_str_make(answer.data + skip, answer.len - skip);
}

static void check_answer(pal_str answer)
{
    while (answer.len > 12 && memcmp(answer.data, "HTTP/1.1 100", 12) == 0)
        answer = body_of(answer);
    REQUIRE(answer.len > 13 && memcmp(answer.data, "HTTP/1.", 7) == 0);
    unsigned code = (unsigned)strtoul(answer.data + 9, NULL, 10);
    REQUIRE(code >= 200 && code < 600 && code != 500);
    pal_str body = body_of(answer);
    size_t head_len = answer.len - body.len;
    bool is_json = memmem(answer.data, head_len, "Content-Type: application/json\r\n", 32) != NULL;
    bool is_whole = memmem(answer.data, head_len, "Content-Length: ", 16) != NULL;
    pal_json value;
    pal_arena *arena = pal_arena_new(0);
    REQUIRE(arena != NULL);
    if (is_json && is_whole && body.len)
        REQUIRE(pal_json_parse(arena, body, NULL, &value, NULL) == PAL_OK);
    if (code < 300)
        keep_ids(body);
    pal_arena_free(arena);
}

static void run_one(pal_str input)
{
    bool is_raw = input.len >= 4 && memcmp(input.data, "RAW ", 4) == 0;
    bool must_answer = !is_raw && is_plain(input);
    pal_buf request, answer;
    pal_buf_init(&request, ANSWER_MAX);
    pal_buf_init(&answer, ANSWER_MAX);
    if (is_raw)
        pal_buf_append(&request, input.data + 4, input.len - 4);
    else
        write_request(input, &request);
    bool is_whole = exchange(pal_buf_str(&request), !must_answer, &answer);
    for (int i = 1; i < TRIES_MAX && must_answer && !(is_whole && answer.len); i++) {
        pal_buf_clear(&answer);
        is_whole = exchange(pal_buf_str(&request), false, &answer);
    }
    REQUIRE(!must_answer || (is_whole && answer.len));
    if (!is_raw && is_whole && answer.len)
        check_answer(pal_buf_str(&answer));
    pal_buf_done(&request);
    pal_buf_done(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char end[] = "\n%%\n";
    pal_str story = pal_str_make((const char *)data, size);
    fuzz_host_want();
    want_session();
    fuzzed.ids_len = 0;
    for (size_t i = 0; i < STORY_MAX && (i == 0 || story.len); i++) {
        const char *gap = story.len ? memmem(story.data, story.len, end, sizeof end - 1) : NULL;
        size_t len = gap ? (size_t)(gap - story.data) : story.len;
        pal_buf input;
        pal_buf_init(&input, ANSWER_MAX);
        put_ids(pal_str_make(story.data, len), &input);
        run_one(pal_buf_str(&input));
        pal_buf_done(&input);
        len += gap ? sizeof end - 1 : 0;
        story = pal_str_make(story.data + len, story.len - len);
    }
    return 0;
}
