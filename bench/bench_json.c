/* bench_json.c - measures how fast JSON texts of conversations are read, in bytes per second. If
 * json-c is installed, it reads the same texts in the same run.
 *
 * Each figure is the best of several rounds, so that other work of the machine changes little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_JSON_C
#include <json-c/json.h>
#endif
#include "base/clock.h"
#include "base/json/json.h"

#define ROUNDS 15
#define ROUND_US 40000
#define TEXT_MAX (1024 * 1024)

/* Returns whether the text was read. */
typedef bool read_once(pal_arena *arena, pal_str text);

static bool read_ours(pal_arena *arena, pal_str text)
{
    pal_json value;
    pal_arena_reset(arena);
    return pal_json_parse(arena, text, NULL, &value, NULL) == PAL_OK;
}

#ifdef HAVE_JSON_C
static bool read_json_c(pal_arena *arena, pal_str text)
{
    (void)arena;
    static struct json_tokener *tokener;
    if (!tokener)
        tokener = json_tokener_new();
    json_tokener_reset(tokener);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *object = json_tokener_parse_ex(tokener, text.data, (int)text.len);
    bool read = object != NULL;
    json_object_put(object);
    return read;
}
#endif

/* Returns megabytes (of 10^6 bytes) per second; 0 if the text cannot be read. */
static double measure(read_once *read, pal_arena *arena, pal_str text)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t times = 0;
        int64_t start = pal_clock_monotonic_us(), spent;
        do {
            for (int i = 0; i < 16; i++, times++) {
                if (!read(arena, text))
                    return 0;
            }
            spent = pal_clock_monotonic_us() - start;
        } while (spent < ROUND_US);
        double rate = (double)text.len * (double)times / (double)spent;
        best = rate > best ? rate : best;
    }
    return best;
}

static const char prose[] =
        "The store keeps every message of a conversation in the order in which it was "
        "acknowledged. When the process is killed in the middle of an append, the next open finds "
        "either the whole message or none of it. ";

static const char wide_prose[] = "会話の記録は順序どおりに保存されます。"
                                 "Größe und Maß. Сообщение сохранено. 🙂 ";

/* Repeats `text` as often as it fits into `len_max` bytes. */
static void put_repeated(pal_json_writer *w, const char *text, size_t len_max)
{
    pal_buf buf;
    pal_buf_init(&buf, len_max);
    while (!buf.failure)
        pal_buf_append_text(&buf, text);
    pal_json_put_str(w, pal_buf_str(&buf));
    pal_buf_done(&buf);
}

/* A chat message of about 1 KB, with the members that providers send around the text. */
static void make_message(pal_buf *buf)
{
    pal_json_writer w = pal_json_writer_make(buf);
    pal_json_begin_object(&w);
    pal_json_name(&w, "id");
    pal_json_put_text(&w, "msg_019a8b3c-7d2e-7f10-8a41-5b6c7d8e9f00");
    pal_json_name(&w, "role");
    pal_json_put_text(&w, "assistant");
    pal_json_name(&w, "created_at");
    pal_json_put_i64(&w, 1763240868);
    pal_json_name(&w, "content");
    pal_json_begin_array(&w);
    pal_json_begin_object(&w);
    pal_json_name(&w, "type");
    pal_json_put_text(&w, "text");
    pal_json_name(&w, "text");
    put_repeated(&w, prose, 900);
    pal_json_end_object(&w);
    pal_json_end_array(&w);
    pal_json_name(&w, "usage");
    pal_json_put_raw(&w,
            pal_str_of("{\"input_tokens\":412,\"output_tokens\":131,"
                       "\"cache_read_tokens\":0,\"cost\":0.00213,\"cached\":false}"));
    pal_json_end_object(&w);
}

static void put_tool_call(pal_json_writer *w, int number)
{
    pal_json_begin_object(w);
    pal_json_name(w, "type");
    pal_json_put_text(w, number % 2 ? "tool_result" : "tool_call");
    pal_json_name(w, "id");
    char id[32];
    snprintf(id, sizeof id, "call_%08d", number);
    pal_json_put_text(w, id);
    pal_json_name(w, "name");
    pal_json_put_text(w, "read_file");
    pal_json_name(w, "arguments");
    pal_json_put_raw(w,
            pal_str_of("{\"path\": \"src/base/arena.c\", \"offset\": 120, \"limit\": 40, "
                       "\"flags\": [true, false, null], \"ratio\": 0.125}"));
    pal_json_name(w, "output");
    pal_json_put_text(w, "static void *take(arena *a)\n{\n\tif (!a)\n\t\treturn \"none\";\n}\n");
    pal_json_name(w, "duration_ms");
    pal_json_put_i64(w, 12 + number % 90);
    pal_json_end_object(w);
}

/* A message of about 100 KB that is mostly tool calls and their results. */
static void make_tool_message(pal_buf *buf)
{
    pal_json_writer w = pal_json_writer_make(buf);
    pal_json_begin_object(&w);
    pal_json_name(&w, "role");
    pal_json_put_text(&w, "assistant");
    pal_json_name(&w, "parts");
    pal_json_begin_array(&w);
    for (int i = 0; buf->len < 100 * 1024; i++)
        put_tool_call(&w, i);
    pal_json_end_array(&w);
    pal_json_end_object(&w);
}

/* About 3 KB of text outside ASCII. */
static void make_wide_message(pal_buf *buf)
{
    pal_json_writer w = pal_json_writer_make(buf);
    pal_json_begin_object(&w);
    pal_json_name(&w, "text");
    put_repeated(&w, wide_prose, 3000);
    pal_json_end_object(&w);
}

static bool report(pal_arena *arena, const char *name, void (*make)(pal_buf *buf))
{
    pal_buf buf;
    pal_buf_init(&buf, TEXT_MAX);
    make(&buf);
    double ours = buf.failure ? 0 : measure(read_ours, arena, pal_buf_str(&buf));
    printf("%-24s %9zu %10.0f", name, buf.len, ours);
#ifdef HAVE_JSON_C
    double theirs = buf.failure ? 0 : measure(read_json_c, arena, pal_buf_str(&buf));
    printf(" %10.0f %7.1fx", theirs, ours / theirs);
#endif
    printf("\n");
    pal_buf_done(&buf);
    return ours > 0;
}

int main(void)
{
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return 1;
    printf("%-24s %9s %10s", "text", "bytes", "MB/s");
#ifdef HAVE_JSON_C
    printf(" %10s %8s", "json-c", "ratio");
#endif
    printf("\n");
    bool read = report(arena, "chat message", make_message) &&
            report(arena, "tool-heavy message", make_tool_message) &&
            report(arena, "text outside ASCII", make_wide_message);
    pal_arena_free(arena);
    return read ? 0 : 1;
}
