/* test_websocket.c - WebSocket connections over socket pairs. The test is the client: it writes the
 * bytes of frames itself, so that it can also send wrong ones. */
#include "server/websocket/websocket.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "support/tap.h"

#define WAIT_MS 20000
#define TEXT 1
#define BINARY 2
#define CLOSE 8
#define PING 9
#define PONG 10

typedef struct fixture {
    pal_websocket_loop *loop;
    pal_websocket *socket; /* the server's side */
    int client;            /* the client's side */
    pthread_mutex_t lock;
    char heard[256]; /* messages that the server got, with '|' after each */
    atomic_int closed;
    atomic_int released;
    bool echoes; /* the server answers each message with the same text */
} fixture;

static fixture f;

/* ---- The server ---- */

static void on_message(pal_websocket *socket, pal_str text, void *user)
{
    (void)user;
    CHECK_PTR(f.socket, socket);
    pthread_mutex_lock(&f.lock);
    size_t len = strlen(f.heard);
    if (len + text.len + 2 < sizeof f.heard)
        snprintf(f.heard + len, sizeof f.heard - len, "%.*s|", PAL_STR_ARG(text));
    pthread_mutex_unlock(&f.lock);
    if (f.echoes)
        (void)pal_websocket_send(socket, text);
}

static void on_closed(pal_websocket *socket, void *user)
{
    (void)user;
    CHECK(!pal_websocket_send(socket, pal_str_of("too late")));
    atomic_fetch_add(&f.closed, 1);
}

static void on_release(void *connection)
{
    close(*(int *)connection);
    atomic_fetch_add(&f.released, 1);
}

static void open_with(pal_websocket_options options)
{
    static const pal_websocket_handlers handlers = {
            .message = on_message, .closed = on_closed, .release = on_release};
    static int ends[2];
    f = (fixture){.echoes = true, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!CHECK_STATUS(pal_websocket_loop_open(&f.loop, NULL), PAL_OK) ||
            socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        exit(1);
    options.fd = ends[0];
    options.connection = &ends[0];
    options.handlers = &handlers;
    if (!options.message_bytes_max)
        options.message_bytes_max = 100000;
    if (!options.pending_bytes_max)
        options.pending_bytes_max = 1 << 20;
    if (!options.heartbeat_ms)
        options.heartbeat_ms = 60000;
    f.client = ends[1];
    CHECK(pal_websocket_new(f.loop, &options, &f.socket));
}

static void open_one(void)
{
    open_with((pal_websocket_options){0});
}

static void until(atomic_int *count, int wanted)
{
    int64_t end_us = pal_clock_monotonic_us() + WAIT_MS * 1000;
    while (atomic_load(count) < wanted && pal_clock_monotonic_us() < end_us)
        usleep(1000);
    CHECK_EQ(atomic_load(count), wanted);
}

static void close_all(void)
{
    close(f.client);
    pal_websocket_loop_close(f.loop, WAIT_MS);
    pal_websocket_loop_free(f.loop);
    CHECK_EQ(atomic_load(&f.closed), 1);
    CHECK_EQ(atomic_load(&f.released), 1);
    pal_websocket_release(f.socket);
}

/* ---- The client ---- */

/* Sends a masked frame. `first` is the first byte: 0x80 for the last frame, and the opcode. */
static void put_frame(unsigned first, const void *data, size_t len, bool is_masked)
{
    static const unsigned char mask[4] = {1, 2, 3, 4};
    unsigned char *frame = malloc(len + 14);
    size_t at = 0;
    frame[at++] = (unsigned char)first;
    unsigned bit = is_masked ? 0x80 : 0;
    if (len < 126) {
        frame[at++] = (unsigned char)(bit | len);
    } else {
        frame[at++] = (unsigned char)(bit | 127);
        for (int i = 7; i >= 0; i--)
            frame[at++] = (unsigned char)((uint64_t)len >> (8 * i));
    }
    if (is_masked) {
        memcpy(frame + at, mask, sizeof mask);
        at += sizeof mask;
    }
    for (size_t i = 0; i < len; i++)
        frame[at + i] = ((const unsigned char *)data)[i] ^ (is_masked ? mask[i % 4] : 0);
    (void)!send(f.client, frame, at + len, MSG_NOSIGNAL);
    free(frame);
}

static void say(const char *text)
{
    put_frame(0x80 | TEXT, text, strlen(text), true);
}

static bool read_all(void *out, size_t len)
{
    for (size_t at = 0; at < len;) {
        struct pollfd ready = {.fd = f.client, .events = POLLIN};
        if (poll(&ready, 1, WAIT_MS) != 1)
            return false;
        ssize_t got = read(f.client, (char *)out + at, len - at);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

typedef struct frame {
    unsigned opcode; /* 0: the connection has ended */
    size_t len;
    char data[4096]; /* the beginning */
} frame;

static frame get_frame(void)
{
    frame got = {0};
    unsigned char head[2], more[8];
    if (!read_all(head, 2))
        return got;
    uint64_t len = head[1] & 0x7f;
    size_t extra = len == 126 ? 2 : len == 127 ? 8 : 0;
    if (extra && !read_all(more, extra))
        return got;
    for (size_t i = 0; i < extra; i++)
        len = (i ? len << 8 : 0) | more[i];
    got.len = len;
    for (uint64_t at = 0; at < len;) {
        char part[4096];
        size_t size = len - at < sizeof part ? len - at : sizeof part;
        if (!read_all(part, size))
            return (frame){0};
        if (at == 0)
            memcpy(got.data, part, size < sizeof got.data ? size : sizeof got.data - 1);
        at += size;
    }
    got.opcode = head[0] & 15;
    return got;
}

static unsigned close_code(const frame *got)
{
    return got->opcode == CLOSE && got->len >= 2
            ? (unsigned)(unsigned char)got->data[0] << 8 | (unsigned char)got->data[1]
            : 0;
}

/* The server closes with this code, then agrees with the client's close. */
static void is_closed_with(unsigned code)
{
    frame got = get_frame();
    CHECK_EQ(close_code(&got), code);
    put_frame(0x80 | CLOSE, got.data, 2, true);
    close(f.client);
    f.client = -1;
    until(&f.released, 1);
}

/* ---- Tests ---- */

static void messages_go_in_both_directions(void)
{
    open_one();
    say("hello");
    frame got = get_frame();
    CHECK_EQ(got.opcode, TEXT);
    CHECK_STR(got.data, "hello");
    CHECK(pal_websocket_send(f.socket, pal_str_of("from the server")));
    got = get_frame();
    CHECK_STR(got.data, "from the server");
    close_all();
}

static void a_message_can_come_in_pieces(void)
{
    open_one();
    put_frame(TEXT, "one ", 4, true);
    put_frame(0x80 | PING, "p", 1, true);
    put_frame(0x80, "two", 3, true);
    frame got = get_frame();
    CHECK_EQ(got.opcode, PONG);
    got = get_frame();
    CHECK_STR(got.data, "one two");
    close_all();
}

static void bytes_that_came_with_the_handshake_are_read(void)
{
    /* "hi" with the mask 0. */
    open_with((pal_websocket_options){.early = pal_str_make("\x81\x82\0\0\0\0hi", 8)});
    frame got = get_frame();
    CHECK_STR(got.data, "hi");
    close_all();
}

static void a_close_of_the_client_is_answered(void)
{
    open_one();
    put_frame(0x80 | CLOSE, "\x03\xe8", 2, true);
    frame got = get_frame();
    CHECK_EQ(close_code(&got), 1000);
    until(&f.released, 1);
    close_all();
}

static void a_close_of_the_server_comes_after_its_messages(void)
{
    open_one();
    CHECK(pal_websocket_send(f.socket, pal_str_of("last words")));
    pal_websocket_close(f.socket, PAL_WEBSOCKET_NORMAL, "done");
    CHECK(!pal_websocket_send(f.socket, pal_str_of("too late")));
    frame got = get_frame();
    CHECK_STR(got.data, "last words");
    is_closed_with(1000);
    close_all();
}

static void a_client_that_disappears_is_noticed(void)
{
    open_one();
    close(f.client);
    f.client = -1;
    until(&f.released, 1);
    close_all();
}

static void a_long_message_is_refused(void)
{
    static char text[100001];
    memset(text, 'x', sizeof text);
    open_one();
    put_frame(0x80 | TEXT, text, sizeof text, true);
    is_closed_with(1009);
    close_all();
    CHECK_STR(f.heard, "");
}

static void wrong_frames_are_refused(void)
{
    open_one();
    put_frame(0x80 | TEXT, "\xff\xfe", 2, true);
    is_closed_with(1007);
    close_all();
    open_one();
    put_frame(0x80 | BINARY, "x", 1, true);
    is_closed_with(1003);
    close_all();
    open_one();
    put_frame(0x80 | TEXT, "x", 1, false);
    is_closed_with(1002);
    close_all();
    open_one();
    put_frame(0xc0 | TEXT, "x", 1, true); /* a reserved bit */
    is_closed_with(1002);
    close_all();
}

static void a_slow_reader_is_disconnected(void)
{
    static char text[65536];
    bool is_open = true;
    memset(text, 'x', sizeof text);
    open_with((pal_websocket_options){.pending_bytes_max = 1 << 20});
    for (int i = 0; i < 1000 && is_open; i++)
        is_open = pal_websocket_send(f.socket, pal_str_make(text, sizeof text));
    CHECK(!is_open);
    until(&f.released, 1);
    close_all();
}

static void a_silent_client_gets_pings_and_is_then_disconnected(void)
{
    open_with((pal_websocket_options){.heartbeat_ms = 300});
    frame got = get_frame();
    CHECK_EQ(got.opcode, PING);
    put_frame(0x80 | PONG, "", 0, true);
    got = get_frame();
    CHECK_EQ(got.opcode, PING);
    got = get_frame();
    CHECK_EQ(got.opcode, 0);
    until(&f.released, 1);
    close_all();
}

static void a_stop_closes_all_connections(void)
{
    open_one();
    say("hello");
    CHECK_EQ(get_frame().opcode, TEXT);
    pal_websocket_loop_close(f.loop, 1);
    frame got = get_frame();
    CHECK_EQ(close_code(&got), 1001);
    CHECK_EQ(atomic_load(&f.released), 1);
    CHECK(!pal_websocket_send(f.socket, pal_str_of("too late")));
    /* A handshake and a request can end later. */
    pal_websocket *late = f.socket;
    CHECK(!pal_websocket_new(f.loop, &(pal_websocket_options){.fd = f.client}, &late));
    CHECK_PTR(late, NULL);
    pal_websocket_poke(f.socket);
    pal_websocket_loop_free(f.loop);
    pal_websocket_release(f.socket);
    close(f.client);
}

#define SENDERS 4
#define SENDS 500

static void *send_many(void *user)
{
    char text[32];
    (void)user;
    for (int i = 0; i < SENDS; i++) {
        snprintf(text, sizeof text, "message %d", i);
        if (!pal_websocket_send(f.socket, pal_str_of(text)))
            return NULL;
    }
    return NULL;
}

static void any_thread_can_send(void)
{
    pthread_t threads[SENDERS];
    int got = 0;
    open_one();
    for (int i = 0; i < SENDERS; i++)
        pthread_create(&threads[i], NULL, send_many, NULL);
    while (got < SENDERS * SENDS && get_frame().opcode == TEXT)
        got++;
    CHECK_EQ(got, SENDERS * SENDS);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    close_all();
}

/* ---- The handshake ---- */

static void the_answer_to_a_handshake_is_right(void)
{
    pal_websocket_offer offer = {.upgrade = pal_str_of("websocket"),
            .connection = pal_str_of("keep-alive, Upgrade"),
            .version = pal_str_of("13"),
            .key = pal_str_of("dGhlIHNhbXBsZSBub25jZQ==")};
    char accept[PAL_WEBSOCKET_ACCEPT_SIZE];
    pal_error err;
    CHECK(pal_websocket_is_offered(&offer));
    CHECK_STATUS(pal_websocket_accept(&offer, accept, &err), PAL_OK);
    CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="); /* the example of RFC 6455 */
    pal_websocket_offer wrong = offer;
    wrong.key = pal_str_of("dGhlIHNhbXBsZSBub25jZQ=");
    CHECK_FAILS(pal_websocket_accept(&wrong, accept, &err), PAL_INVALID, &err, "Key");
    wrong = offer;
    wrong.version = pal_str_of("8");
    CHECK_FAILS(pal_websocket_accept(&wrong, accept, &err), PAL_INVALID, &err, "Version");
    wrong = offer;
    wrong.connection = pal_str_of("keep-alive");
    CHECK_FAILS(pal_websocket_accept(&wrong, accept, &err), PAL_INVALID, &err, "Connection");
    wrong.upgrade = pal_str_of("h2c");
    CHECK(!pal_websocket_is_offered(&wrong));
}

int main(void)
{
    RUN(messages_go_in_both_directions);
    RUN(a_message_can_come_in_pieces);
    RUN(bytes_that_came_with_the_handshake_are_read);
    RUN(a_close_of_the_client_is_answered);
    RUN(a_close_of_the_server_comes_after_its_messages);
    RUN(a_client_that_disappears_is_noticed);
    RUN(a_long_message_is_refused);
    RUN(wrong_frames_are_refused);
    RUN(a_slow_reader_is_disconnected);
    RUN(a_silent_client_gets_pings_and_is_then_disconnected);
    RUN(a_stop_closes_all_connections);
    RUN(any_thread_can_send);
    RUN(the_answer_to_a_handshake_is_right);
    return tap_done();
}
