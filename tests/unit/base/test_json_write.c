/* test_json_write.c - the output of the JSON writer, which can be read back. */
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/json/json.h"
#include "base/memory.h"
#include "support/tap.h"

static pal_arena *arena;

static bool buf_is(pal_buf *buf, const char *text)
{
    bool same = !buf->failure && pal_str_is(pal_buf_str(buf), text);
    if (!same)
        printf("# wrote: %.*s\n", PAL_STR_ARG(pal_buf_str(buf)));
    pal_buf_clear(buf);
    return same;
}

static void commas_separate_values_and_members(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 10000);
    pal_json_writer w = pal_json_writer_make(&buf);
    pal_json_begin_object(&w);
    pal_json_name(&w, "a");
    pal_json_put_i64(&w, -1);
    pal_json_name_str(&w, pal_str_make("b\0", 2));
    pal_json_begin_array(&w);
    pal_json_end_array(&w);
    pal_json_name(&w, "c");
    pal_json_begin_array(&w);
    pal_json_put_u64(&w, UINT64_MAX);
    pal_json_put_bool(&w, true);
    pal_json_begin_object(&w);
    pal_json_end_object(&w);
    pal_json_put_bool(&w, false);
    pal_json_put_null(&w);
    pal_json_put_text(&w, "t");
    pal_json_put_str(&w, pal_str_make(NULL, 0));
    pal_json_put_raw(&w, pal_str_of("{\"r\": 1.50}"));
    pal_json_end_array(&w);
    pal_json_end_object(&w);
    CHECK_EQ(w.depth, 0);
    CHECK(buf_is(&buf,
            "{\"a\":-1,\"b\\u0000\":[],\"c\":[18446744073709551615,true,{},false,null,\"t\",\"\","
            "{\"r\": 1.50}]}"));
    pal_buf_done(&buf);
}

/* Every place of a word and of the rest after it gets every byte of ASCII. */
static void the_length_of_a_text_is_known_before_it_is_written(void)
{
    pal_buf buf;
    bool same = true;
    pal_buf_init(&buf, 10000);
    CHECK_EQ(pal_json_text_len(pal_str_make(NULL, 0)), 0);
    CHECK_EQ(pal_json_text_len(pal_str_of("\xc3\xa9\n\xe2\x82\xac")), 7);
    for (size_t at = 0; at < 20; at++) {
        for (int c = 0; c < 128; c++) {
            char bytes[20];
            memset(bytes, 'a', sizeof bytes);
            bytes[at] = (char)c;
            pal_str text = pal_str_make(bytes, sizeof bytes);
            pal_json_quote(&buf, text);
            same = same && pal_json_text_len(text) + 2 == buf.len;
            pal_buf_clear(&buf);
        }
    }
    CHECK(same);
    pal_buf_done(&buf);
}

static void white_space_between_tokens_is_removed(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 10000);
    pal_json_writer w = pal_json_writer_make(&buf);
    pal_json_begin_array(&w);
    pal_json_put_compact(&w, pal_str_of(" {\n\t\"a b\": [ 1 ,\r\n 2 ]\n}\n"));
    pal_json_put_compact(&w, pal_str_of("\"a \\\" b\\\\\""));
    pal_json_put_compact(&w, pal_str_of("1.50"));
    pal_json_put_compact(&w, pal_str_of("\"\\\\\" "));
    pal_json_end_array(&w);
    CHECK(buf_is(&buf, "[{\"a b\":[1,2]},\"a \\\" b\\\\\",1.50,\"\\\\\"]"));
    pal_buf_done(&buf);
}

static void members_of_an_object_are_copied(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 10000);
    pal_json_writer w = pal_json_writer_make(&buf);
    pal_json_begin_object(&w);
    pal_json_put_members(&w, pal_str_of(""));
    pal_json_put_members(&w, pal_str_of("{ }"));
    pal_json_put_members(&w, pal_str_of(" {\"a\": 1, \"b\":2 }\n"));
    pal_json_name(&w, "c");
    pal_json_put_i64(&w, 3);
    pal_json_put_members(&w, pal_str_of("{\"d\":4}"));
    pal_json_put_members(&w, pal_str_of("{}"));
    pal_json_end_object(&w);
    CHECK(buf_is(&buf, "{\"a\": 1, \"b\":2,\"c\":3,\"d\":4}"));
    pal_buf_done(&buf);
}

static void only_required_characters_are_escaped(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 10000);
    pal_json_quote(&buf, pal_str_make("a/\"\\\b\f\n\r\t\0\x1f\x7f'\xc3\xa9\xf0\x9f\x99\x82z", 20));
    CHECK(buf_is(
            &buf, "\"a/\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f'\xc3\xa9\xf0\x9f\x99\x82z\""));
    pal_json_quote(&buf, pal_str_make(NULL, 0));
    CHECK(buf_is(&buf, "\"\""));
    pal_json_quote(&buf,
            pal_str_of("\xff"
                       "a\xe2\x82"
                       "b\xc3\xa9\xed\xa0\x80\xf0\x9f\x99"));
    CHECK(buf_is(&buf,
            "\"\xef\xbf\xbd"
            "a\xef\xbf\xbd"
            "b\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "\xef\xbf\xbd\""));
    pal_buf_done(&buf);
}

static void every_byte_survives_a_round_trip(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 10000);
    for (uint32_t c = 0; c < 0x80; c++) {
        char text[100];
        memset(text, 'x', sizeof text);
        for (size_t at = 0; at < sizeof text; at += 7) {
            text[at] = (char)c;
            pal_json value;
            pal_buf_clear(&buf);
            pal_json_quote(&buf, pal_str_make(text, sizeof text));
            CHECK_STATUS(pal_json_parse(arena, pal_buf_str(&buf), NULL, &value, NULL), PAL_OK);
            CHECK_STR(pal_json_string(value, arena), pal_str_make(text, sizeof text));
            text[at] = 'x';
        }
    }
    pal_buf_done(&buf);
}

static bool writes_f64(double number, const char *text)
{
    pal_buf buf;
    pal_buf_init(&buf, 100);
    pal_json_writer w = pal_json_writer_make(&buf);
    pal_json_put_f64(&w, number);
    bool same = buf_is(&buf, text);
    pal_buf_done(&buf);
    return same;
}

static void doubles_are_short_and_survive_a_round_trip(void)
{
    CHECK(writes_f64(0.1, "0.1"));
    CHECK(writes_f64(1, "1"));
    CHECK(writes_f64(-0.0, "-0"));
    CHECK(writes_f64(1e300, "1e+300"));
    CHECK(writes_f64(0.1 + 0.2, "0.30000000000000004"));
    CHECK(writes_f64(5e-324, "4.94065645841247e-324"));
    CHECK(writes_f64(NAN, "null"));
    CHECK(writes_f64(INFINITY, "null"));
    CHECK(writes_f64(-INFINITY, "null"));

    uint64_t random = 1;
    pal_buf buf;
    pal_buf_init(&buf, 100);
    for (int i = 0; i < 20000; i++) {
        double number, read;
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = random ^ random >> 29;
        memcpy(&number, &bits, sizeof number);
        if (!isfinite(number))
            continue;
        pal_json_writer w = pal_json_writer_make(&buf);
        pal_json_put_f64(&w, number);
        pal_json value = {0};
        pal_arena_reset(arena);
        CHECK_STATUS(pal_json_parse(arena, pal_buf_str(&buf), NULL, &value, NULL), PAL_OK);
        if (CHECK(pal_json_f64(value, &read)))
            CHECK_BYTES(&read, &number, sizeof read);
        pal_buf_clear(&buf);
    }
    pal_buf_done(&buf);
}

/* This test checks something only if a locale with a decimal comma is installed. */
static void the_locale_does_not_change_the_output(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (setlocale(LC_ALL, names[i]))
            break;
    }
    pal_json value = {0};
    double number;
    pal_str text = pal_str_of("0.12345678901234567");
    CHECK(writes_f64(1.5, "1.5"));
    CHECK_STATUS(pal_json_parse(arena, text, NULL, &value, NULL), PAL_OK);
    if (CHECK(pal_json_f64(value, &number))) {
        CHECK_THAT(number, >, 0.12);
        CHECK_THAT(number, <, 0.13);
    }
    setlocale(LC_ALL, "C");
}

/* Texts of escapes, plain characters and wide characters, in runs that end anywhere. */
static void runs_of_any_characters_survive_a_round_trip(void)
{
    static const char *const pieces[] = {"\n", "\x01", "\"", "\\", "a", "ab/", "\xc3\xa9",
            "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "plain text of sixteen"};
    uint32_t random = 3;
    pal_buf text, json;
    pal_buf_init(&text, 100000);
    pal_buf_init(&json, 1000000);
    for (int round = 0; round < 300; round++) {
        pal_json value;
        pal_buf_clear(&text);
        while (text.len < 3000) {
            random = random * 1664525 + 1013904223;
            for (uint32_t i = 0; i <= (random >> 8) % 700; i++)
                pal_buf_append_text(&text, pieces[(random >> 24) % 10]);
        }
        pal_buf_clear(&json);
        pal_json_quote(&json, pal_buf_str(&text));
        CHECK_STATUS(pal_json_parse(arena, pal_buf_str(&json), NULL, &value, NULL), PAL_OK);
        CHECK_STR(pal_json_string(value, arena), pal_buf_str(&text));
        pal_arena_reset(arena);
    }
    pal_buf_done(&text);
    pal_buf_done(&json);
}

static void a_full_buf_is_the_only_failure(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 20);
    pal_json_writer w = pal_json_writer_make(&buf);
    pal_json_begin_array(&w);
    for (int i = 0; i < 100; i++) {
        pal_json_put_text(&w, "0123456789\n\xc3\xa9\xff");
        pal_json_put_f64(&w, 0.5);
    }
    pal_json_end_array(&w);
    CHECK_STATUS(buf.failure, PAL_LIMIT);
    CHECK_THAT(buf.len, <=, 20);
    pal_buf_done(&buf);

    pal_buf_init(&buf, 1000);
    pal_memory_fail_at(1, 1);
    pal_json_quote(&buf, pal_str_of("text"));
    pal_memory_fail_at(0, 0);
    CHECK_STATUS(buf.failure, PAL_NO_MEMORY);
    pal_buf_done(&buf);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(commas_separate_values_and_members);
    RUN(the_length_of_a_text_is_known_before_it_is_written);
    RUN(white_space_between_tokens_is_removed);
    RUN(members_of_an_object_are_copied);
    RUN(only_required_characters_are_escaped);
    RUN(every_byte_survives_a_round_trip);
    RUN(doubles_are_short_and_survive_a_round_trip);
    RUN(the_locale_does_not_change_the_output);
    RUN(runs_of_any_characters_survive_a_round_trip);
    RUN(a_full_buf_is_the_only_failure);
    pal_arena_free(arena);
    return tap_done();
}
