/* fuzz_websocket.c - any bytes on a WebSocket of a complete server (GET /v1/responses). Whatever a
 * client sends, the server sends only correct frames whose text is JSON with a type, reports no
 * internal error, and ends the connection when the client does.
 *
 * An input is a list of parts, separated by a line "%%":
 *
 *   {"type":"response.create","input":"hi"}   a text message; the target waits for its end
 *   !{"type":"response.create",...}           the same, without waiting
 *   #ABbytes                                  one frame: A is its first byte, B how it is written
 *   RAW bytes                                 bytes without any frame
 *
 * "$0" is replaced by the newest id in the messages of this connection, "$1" by the one before.
 *
 * The bits of B:
 *
 *   1  no mask                4  a length of 64 bits                    16  a mask that is not zero
 *   2  a length of 16 bits    8  a length larger than the payload       32  the frame is cut
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/json/json.h"
#include "fuzz_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARTS_MAX 64
#define BYTES_MAX ((size_t)64 << 20)
#define IDS_MAX 10
#define ID_SIZE 96

enum { TEXT = 1, CLOSE = 8, PING = 9, PONG = 10 };
enum { NO_MASK = 1, LEN_16 = 2, LEN_64 = 4, TOO_LONG = 8, MASKED = 16, CUT = 32 };

static struct {
    int fd;
    pal_buf in;     /* bytes that were received */
    size_t at;      /* bytes of `in` that were read as frames */
    bool is_closing; /* the server has sent a close frame */
    bool is_ended;  /* the server has closed the connection */
    size_t ends;    /* messages that end a request */
    char ids[IDS_MAX][ID_SIZE];
    size_t ids_len;
} client;

/* ---- Sending ---- */

static void put(const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        ssize_t sent = send(client.fd, at, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the server has closed the connection */
        at += sent;
        len -= (size_t)sent;
    }
}

static void put_frame(uint8_t first, uint8_t how, pal_str payload)
{
    static const uint8_t mask[4] = {0x11, 0x22, 0x33, 0x44}, none[4];
    size_t len = payload.len + (how & TOO_LONG ? 5 : 0);
    uint8_t bit = how & NO_MASK ? 0 : 0x80;
    pal_buf frame;
    pal_buf_init(&frame, BYTES_MAX);
    pal_buf_append_char(&frame, (char)first);
    if (how & LEN_64 || len > 0xffff) {
        pal_buf_append_char(&frame, (char)(bit | 127));
        for (int i = 7; i >= 0; i--)
            pal_buf_append_char(&frame, (char)((uint64_t)len >> (8 * i)));
    } else if (how & LEN_16 || len > 125) {
        pal_buf_append_char(&frame, (char)(bit | 126));
        pal_buf_append_char(&frame, (char)(len >> 8));
        pal_buf_append_char(&frame, (char)len);
    } else {
        pal_buf_append_char(&frame, (char)(bit | len));
    }
    const uint8_t *used = how & MASKED ? mask : none;
    if (bit)
        pal_buf_append(&frame, (const char *)used, 4);
    for (size_t i = 0; i < payload.len; i++)
        pal_buf_append_char(&frame, (char)((uint8_t)payload.data[i] ^ (bit ? used[i % 4] : 0)));
    put(frame.data, how & CUT ? frame.len / 2 : frame.len);
    pal_buf_done(&frame);
}

/* ---- Receiving ---- */

static void keep_id(pal_json object, pal_arena *arena)
{
    pal_str id = pal_json_string(pal_json_find(object, "id"), arena);
    if (id.len && id.len < ID_SIZE)
        snprintf(client.ids[client.ids_len++ % IDS_MAX], ID_SIZE, "%.*s", PAL_STR_ARG(id));
}

static bool is_end(pal_json type)
{
    static const char *const ends[] = {"response.completed", "response.failed",
            "response.incomplete", "error", "response.steer.accepted", "response.steer.failed"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (pal_json_string_is(type, ends[i]))
            return true;
    }
    return false;
}

static void check_text(pal_str text)
{
    pal_json value = {0};
    int64_t code = 0;
    pal_arena *arena = pal_arena_new(0);
    REQUIRE(arena && pal_json_parse(arena, text, NULL, &value, NULL) == PAL_OK);
    pal_json type = pal_json_find(value, "type");
    REQUIRE(pal_json_type_of(type) == PAL_JSON_STRING);
    REQUIRE(!pal_json_i64(pal_json_find(value, "status"), &code) || (code >= 400 && code != 500));
    keep_id(pal_json_find(value, "response"), arena);
    client.ends += is_end(type);
    pal_arena_free(arena);
}

static void check_frame(uint8_t first, pal_str payload)
{
    unsigned code = payload.len >= 2
            ? (unsigned)((uint8_t)payload.data[0] << 8 | (uint8_t)payload.data[1])
            : 0;
    switch (first) {
    case 0x80 | TEXT:
        check_text(payload);
        break;
    case 0x80 | CLOSE:
        REQUIRE(payload.len == 0 || (code >= 1000 && code < 5000 && code != 1005 && code != 1006));
        client.is_closing = true;
        break;
    case 0x80 | PING:
        put_frame(0x80 | PONG, 0, payload);
        break;
    default:
        REQUIRE(first == (0x80 | PONG));
    }
}

/* Reads the frames that have arrived completely. */
static void read_frames(void)
{
    for (;;) {
        const uint8_t *at = (const uint8_t *)client.in.data + client.at;
        size_t left = client.in.len - client.at, head = 2, len;
        if (left < 2)
            return;
        REQUIRE(!(at[1] & 0x80)); /* a server does not mask */
        len = at[1] & 0x7f;
        if (len == 126)
            head = 4;
        else if (len == 127)
            head = 10;
        if (left < head)
            return;
        if (head > 2)
            len = 0;
        for (size_t i = 2; i < head; i++)
            len = len << 8 | at[i];
        REQUIRE(len < BYTES_MAX);
        if (left < head + len)
            return;
        client.at += head + len;
        check_frame(at[0], pal_str_make((const char *)at + head, len));
    }
}

/* Waits for bytes up to `timeout_ms`. */
static void receive(int timeout_ms)
{
    struct pollfd ready = {.fd = client.fd, .events = POLLIN};
    if (client.is_ended || poll(&ready, 1, timeout_ms) <= 0)
        return;
    char *at = pal_buf_reserve(&client.in, 65536);
    REQUIRE(at != NULL);
    ssize_t len = recv(client.fd, at, 65536, 0);
    if (len <= 0) {
        client.is_ended = true;
        return;
    }
    pal_buf_commit(&client.in, (size_t)len);
    read_frames();
}

/* ---- The connection ---- */

static bool shake_hands(void)
{
    char request[1024];
    int len = snprintf(request, sizeof request,
            "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer %s\r\n\r\n",
            fuzz_host.secret);
    client.fd = fuzz_host_connect();
    pal_buf_init(&client.in, BYTES_MAX);
    client.at = client.ids_len = client.ends = 0;
    client.is_ended = client.is_closing = false;
    put(request, (size_t)len);
    for (;;) {
        char *at = pal_buf_reserve(&client.in, 1024);
        ssize_t got = at ? recv(client.fd, at, 1024, 0) : -1;
        if (got <= 0)
            return false; /* on a busy machine the server can close an idle connection */
        pal_buf_commit(&client.in, (size_t)got);
        const char *end = memmem(client.in.data, client.in.len, "\r\n\r\n", 4);
        if (!end)
            continue;
        REQUIRE(memcmp(client.in.data, "HTTP/1.1 101", 12) == 0);
        client.at = (size_t)(end - client.in.data) + 4;
        return true;
    }
}

/* The client says goodbye and sends nothing more: the server must end the connection. */
static void part(void)
{
    put_frame(0x80 | CLOSE, 0, pal_str_make("\x03\xe8", 2));
    shutdown(client.fd, SHUT_WR);
    for (int i = 0; i < FUZZ_PATIENCE_S * 10 && !client.is_ended; i++)
        receive(100);
    REQUIRE(client.is_ended);
}

/* ---- Inputs ---- */

static void put_ids(pal_str text, pal_buf *out)
{
    size_t kept = client.ids_len < IDS_MAX ? client.ids_len : IDS_MAX;
    for (size_t i = 0; i < text.len; i++) {
        size_t age = i + 1 < text.len ? (size_t)(text.data[i + 1] - '0') : kept;
        if (text.data[i] == '$' && age < kept) {
            pal_buf_append_text(out, client.ids[(client.ids_len - 1 - age) % IDS_MAX]);
            i++;
        } else {
            pal_buf_append_char(out, text.data[i]);
        }
    }
}

static bool is_over(void)
{
    return client.is_closing || client.is_ended;
}

/* A message in valid UTF-8 always gets an answer, unless the connection ends. */
static void send_text(pal_str text, bool waits)
{
    size_t ends = client.ends;
    put_frame(0x80 | TEXT, MASKED, text);
    for (int i = 0; i < FUZZ_PATIENCE_S * 10 && waits && client.ends == ends && !is_over(); i++)
        receive(100);
    REQUIRE(!waits || client.ends > ends || is_over());
}

static void run_part(pal_str input)
{
    if (input.len >= 4 && memcmp(input.data, "RAW ", 4) == 0)
        put(input.data + 4, input.len - 4);
    else if (input.len >= 3 && input.data[0] == '#')
        put_frame((uint8_t)input.data[1], (uint8_t)input.data[2],
                pal_str_make(input.data + 3, input.len - 3));
    else if (input.len && input.data[0] == '!')
        send_text(pal_str_make(input.data + 1, input.len - 1), false);
    else
        send_text(input, true);
    receive(0);
}

/* After frames that are not messages, the state of the connection is unknown, so that an answer
 * cannot be expected. */
static bool is_message(pal_str input)
{
    return !(input.len && (input.data[0] == '#' || input.data[0] == '!')) &&
            !(input.len >= 4 && memcmp(input.data, "RAW ", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char end[] = "\n%%\n";
    pal_str story = pal_str_make((const char *)data, size);
    bool is_known = true;
    fuzz_host_want();
    if (shake_hands()) {
        for (size_t i = 0; i < PARTS_MAX && story.len && !is_over(); i++) {
            const char *gap = memmem(story.data, story.len, end, sizeof end - 1);
            size_t len = gap ? (size_t)(gap - story.data) : story.len;
            pal_buf input;
            pal_buf_init(&input, BYTES_MAX);
            put_ids(pal_str_make(story.data, len), &input);
            pal_str text = pal_buf_str(&input);
            is_known = is_known && (is_message(text) || (text.len && text.data[0] == '!'));
            if (is_known || !is_message(text))
                run_part(text);
            else
                send_text(text, false);
            pal_buf_done(&input);
            len += gap ? sizeof end - 1 : 0;
            story = pal_str_make(story.data + len, story.len - len);
        }
        part();
    }
    close(client.fd);
    pal_buf_done(&client.in);
    return 0;
}
