/* test_json.c - which texts are JSON, and the reader's errors for texts that are not. */
#include <stdint.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/memory.h"
#include "support/tap.h"

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* Reads from memory of exactly that size, so that a sanitizer sees any read past the end. */
static pal_status parse_exact(pal_arena *arena, pal_str text, const pal_json_limits *limits,
        pal_json *out_value, pal_error *err)
{
    char *copy = malloc(text.len ? text.len : 1);
    if (text.len)
        memcpy(copy, text.data, text.len);
    pal_status status = pal_json_parse(arena, pal_str_make(copy, text.len), limits, out_value, err);
    free(copy);
    return status;
}

static void check_all(const pal_str *texts, size_t count, pal_status expected)
{
    pal_arena *arena = pal_arena_new(0);
    for (size_t i = 0; i < count; i++) {
        pal_json value;
        pal_error err = {PAL_OK, ""};
        pal_status status = parse_exact(arena, texts[i], NULL, &value, &err);
        bool said =
                expected == PAL_OK || (err.status == expected && strstr(err.message, "at byte "));
        if (!CHECK_EQ(status, expected) || !CHECK(said))
            printf("# %zu: '%.*s' %s '%s'\n", i, PAL_STR_ARG(texts[i]), pal_status_name(status),
                    err.message);
        pal_arena_reset(arena);
    }
    pal_arena_free(arena);
}

static const pal_str valid_texts[] = {
        /* structure */
        TEXT("[]"), TEXT("{}"), TEXT("[[]]"), TEXT("[{}]"), TEXT("{\"a\":[]}"), TEXT("[[],[]]"),
        TEXT("[1,2,3]"), TEXT("{\"a\":1,\"b\":2}"), TEXT("{\"a\":{\"b\":{\"c\":[{}]}}}"),
        TEXT("{\"\":0}"), TEXT("{\"a\":1,\"a\":2}"), TEXT("{\"a\":1,\"a\":1}"),
        TEXT("[null,true,false,0,\"\",[],{}]"),
        /* scalars at the top */
        TEXT("null"), TEXT("true"), TEXT("false"), TEXT("0"), TEXT("-0"), TEXT("\"\""),
        TEXT("\"a\""), TEXT("-1.5e+3"),
        /* white space */
        TEXT(" [] "), TEXT("\t\n\r []\r\n\t "), TEXT("[ 1 , 2 ]"), TEXT("{ \"a\" : 1 }"),
        TEXT("[ ]"), TEXT("{\n}"),
        TEXT("                                  1                                  "),
        TEXT("{\"a\"\n:\n1\n,\n\"b\"\n:\n2\n}"),
        /* numbers */
        TEXT("[0]"), TEXT("[-0]"), TEXT("[0.0]"), TEXT("[1e5]"), TEXT("[1E5]"), TEXT("[1e+5]"),
        TEXT("[1e-5]"), TEXT("[1.25e2]"), TEXT("[0e1]"), TEXT("[0e+1]"), TEXT("[-0.0e-0]"),
        TEXT("[1e99999]"), TEXT("[-1e-99999]"), TEXT("[123456789012345678901234567890]"),
        TEXT("[0.00000000000000000000000000000000000001]"), TEXT("[1E00]"), TEXT("[10]"),
        /* strings */
        TEXT("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"), TEXT("[\"\\u0000\"]"),
        TEXT("[\"\\u00E9\\u00e9\"]"), TEXT("[\"\\uD83D\\uDE00\"]"), TEXT("[\"\\ud83d\\ude00\"]"),
        TEXT("[\"\x7f\"]"), TEXT("[\"/\"]"), TEXT("[\"\\ud800\"]"), TEXT("[\"\\udc00\"]"),
        TEXT("[\"\\ud800\\ud800\"]"), TEXT("[\"\\udc00\\ud800\"]"), TEXT("[\"\\ud800x\"]"),
        TEXT("[\"\\uD800\\n\"]"), TEXT("[\"\\uFFFF\\uFFFE\\u2028\"]"), TEXT("[\"a\\\\\"]"),
        TEXT("[\"\\\\u0041\"]"), TEXT("\"0123456789abcdef\""),
        TEXT("\"0123456789abcde\\n0123456789abcdef\""), TEXT("{\"\\u0061\":1}"),
        TEXT("{\"a\\u0000b\":1}"), TEXT("[\" \"]"), TEXT("[\"'\"]"),
        /* UTF-8 */
        TEXT("[\"\xc3\xa9\"]"), TEXT("[\"\xe2\x82\xac\"]"), TEXT("[\"\xf0\x9f\x99\x82\"]"),
        TEXT("[\"\xef\xbf\xbf\"]"), TEXT("[\"\xf4\x8f\xbf\xbf\"]"), TEXT("[\"\xed\x9f\xbf\"]"),
        TEXT("[\"\xee\x80\x80\"]"), TEXT("[\"\xc2\x80\"]"), TEXT("[\"\xe2\x80\xa8\"]"),
        TEXT("[\"\xef\xbb\xbf\"]"), TEXT("{\"\xc3\xa9\":\"\xc3\xa9\"}"),
        TEXT("\"\xe4\xbc\x9a\xe8\xa9\xb1\xe3\x81\xae\xe8\xa8\x98\xe9\x8c\xb2\"")};

static void valid_texts_are_accepted(void)
{
    check_all(valid_texts, sizeof valid_texts / sizeof valid_texts[0], PAL_OK);
}

static const pal_str broken_structure[] = {TEXT(""), TEXT(" "), TEXT("\n"), TEXT("["), TEXT("]"),
        TEXT("{"), TEXT("}"), TEXT("[}"), TEXT("{]"), TEXT("[[]"), TEXT("[]]"), TEXT("{}}"),
        TEXT("{{}}"), TEXT("[,]"), TEXT("[1,]"), TEXT("[,1]"), TEXT("[1,,2]"), TEXT("[1 2]"),
        TEXT("[1"), TEXT("[1,"), TEXT("[\"a\""), TEXT("[\"a\","), TEXT("[1:2]"), TEXT("[1;2]"),
        TEXT("{\"a\"}"), TEXT("{\"a\":}"), TEXT("{\"a\":1,}"), TEXT("{,\"a\":1}"),
        TEXT("{\"a\" 1}"), TEXT("{\"a\",1}"), TEXT("{a:1}"), TEXT("{'a':1}"), TEXT("{1:1}"),
        TEXT("{null:1}"), TEXT("{[]:1}"), TEXT("{\"a\":1"), TEXT("{\"a\":"), TEXT("{\"a\""),
        TEXT("{\"a"), TEXT("{\"a\"::1}"), TEXT("{\"a\":1 \"b\":2}"), TEXT("{\"a\":1,,\"b\":2}"),
        TEXT("{\"a\":1]"), TEXT("[1}"), TEXT("[{\"a\":1]"), TEXT("1 2"), TEXT("[] []"),
        TEXT("{} x"), TEXT("[]\0"), TEXT("\0"), TEXT("[\0]"), TEXT("nullnull"), TEXT("[] // c"),
        TEXT("/* c */ []"), TEXT("[/**/]"), TEXT("# c"), TEXT("[*]"), TEXT("<null>"), TEXT("[\v]"),
        TEXT("[\f]"), TEXT("\xc2\xa0[]"), TEXT("\xe2\x81\xa0[]"), TEXT("[\xe3\x80\x80]"),
        TEXT("\xef\xbb\xbf{}"), TEXT("\xef\xbb\xbf"), TEXT("\xff\xfe[\0]\0"), TEXT("\0[\0]"),
        TEXT("[\\n]"), TEXT("\\u000a\"\""), TEXT(","), TEXT(":"), TEXT("{\"a\":\"b\"}#"),
        TEXT("(1)")};

static void broken_structure_is_refused(void)
{
    check_all(broken_structure, sizeof broken_structure / sizeof broken_structure[0], PAL_INVALID);
}

static const pal_str broken_scalars[] = {
        /* words */
        TEXT("nul"), TEXT("nulL"), TEXT("tru"), TEXT("fals"), TEXT("True"), TEXT("NULL"),
        TEXT("nan"), TEXT("NaN"), TEXT("Infinity"), TEXT("-Infinity"), TEXT("inf"),
        TEXT("undefined"), TEXT("truee"), TEXT("[n]"), TEXT("[t"), TEXT("None"), TEXT("nullx"),
        TEXT("true1"), TEXT("a"),
        /* numbers */
        TEXT("-"), TEXT("+1"), TEXT("+"), TEXT("01"), TEXT("-01"), TEXT("00"), TEXT("1."),
        TEXT(".1"), TEXT("-.1"), TEXT("-1."), TEXT("1.e1"), TEXT("1e"), TEXT("1e+"), TEXT("1e-"),
        TEXT("1E"), TEXT("0e"), TEXT("0.e1"), TEXT("1.2.3"), TEXT("1e1.5"), TEXT("1e1e1"),
        TEXT("0x10"), TEXT("1a"), TEXT("1_000"), TEXT("1,000"), TEXT("--1"), TEXT("-+1"),
        TEXT("++1"), TEXT("1-1"), TEXT("1+1"), TEXT("[- 1]"), TEXT("[1 000]"), TEXT("[-a]"),
        TEXT("[0.1.2]"), TEXT("-NaN"), TEXT("0b1"), TEXT("0o7"), TEXT("1f"), TEXT("1L"),
        TEXT("\xef\xbc\x91"), TEXT("[1e\xe5]"), TEXT("1\0"), TEXT("[.5]"), TEXT("[-]"),
        TEXT("[1.]"), TEXT("[2.e3]"), TEXT("[1eE2]"),
        /* strings */
        TEXT("\""), TEXT("\"a"), TEXT("'a'"), TEXT("\"a'"), TEXT("`a`"), TEXT("\"\\\""),
        TEXT("\"\\"), TEXT("\"\\a\""), TEXT("\"\\x41\""), TEXT("\"\\'\""), TEXT("\"\\0\""),
        TEXT("\"\\u\""), TEXT("\"\\u1\""), TEXT("\"\\u12\""), TEXT("\"\\u123\""),
        TEXT("\"\\u123g\""), TEXT("\"\\U0041\""), TEXT("\"\\u 041\""), TEXT("\"\\u-041\""),
        TEXT("\"\\u0"), TEXT("\"\\u004"), TEXT("\"\\ud800\\u\""), TEXT("\"\\uD800\\uD8\""),
        TEXT("\"\\\n\""), TEXT("\"\n\""), TEXT("\"\t\""), TEXT("\"\0\""), TEXT("\"\x1f\""),
        TEXT("\"a\rb\""), TEXT("\"0123456789abcdef\x01\""), TEXT("\"\\\xc3\xa9\""),
        TEXT("\"a\" \"b\""), TEXT("\"a\"b"), TEXT("\"\\\0\""), TEXT("\"\\N\""), TEXT("[\"a\nb\"]"),
        TEXT("{\"\n\":1}"), TEXT("{\"\\x\":1}"), TEXT("\"\\u00\xc3\xa9\""), TEXT("\"\\u004`\""),
        TEXT("\"\\u004G\""), TEXT("\"\\u004@\""), TEXT("\"\\u004:\""), TEXT("\"\\u004/\""),
        /* UTF-8 */
        TEXT("\"\x80\""), TEXT("\"\xbf\""), TEXT("\"\xc0\x80\""), TEXT("\"\xc1\xbf\""),
        TEXT("\"\xc3\""), TEXT("\"\xc3("), TEXT("\"\xe2\x82\""), TEXT("\"\xe2("),
        TEXT("\"\xe0\x80\x80\""), TEXT("\"\xe0\x9f\xbf\""), TEXT("\"\xed\xa0\x80\""),
        TEXT("\"\xed\xbf\xbf\""), TEXT("\"\xf0\x80\x80\x80\""), TEXT("\"\xf0\x8f\xbf\xbf\""),
        TEXT("\"\xf4\x90\x80\x80\""), TEXT("\"\xf5\x80\x80\x80\""),
        TEXT("\"\xf8\x88\x80\x80\x80\""), TEXT("\"\xff\""), TEXT("\"\xfe\""),
        TEXT("\"\xf0\x9f\x99\""), TEXT("\"\xf0\x9f\""), TEXT("\"\xf0"), TEXT("\"\xe2\x82"),
        TEXT("\"0123456789abcdef0123456789abcdef\xff\""), TEXT("{\"\xff\":0}"), TEXT("\xc3\xa9"),
        TEXT("[\xff]"), TEXT("\"\xc3\xa9\xe9\"")};

static void broken_scalars_are_refused(void)
{
    check_all(broken_scalars, sizeof broken_scalars / sizeof broken_scalars[0], PAL_INVALID);
}

/* A text that is cut anywhere, or has one byte replaced, is never read as the original value. */
static void cut_texts_are_refused(void)
{
    static const char text[] = "{\"role\":\"user\",\"n\":[1.5e3,-0,true,null],\"t\":\"a\\u00e9\\n "
                               "\xe2\x82\xac\",\"o\":{}}";
    pal_arena *arena = pal_arena_new(0);
    pal_json value;
    for (size_t len = 0; len < sizeof text - 1; len++) {
        pal_error err;
        CHECK_STATUS(
                parse_exact(arena, pal_str_make(text, len), NULL, &value, &err), PAL_INVALID, &err);
        CHECK(strstr(err.message, "end of") || strstr(err.message, "UTF-8") ||
                strstr(err.message, "expected"));
    }
    CHECK_STATUS(parse_exact(arena, pal_str_of(text), NULL, &value, NULL), PAL_OK);
    pal_arena_free(arena);
}

static void errors_name_the_problem_and_the_byte(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
            {"", "unexpected end of the JSON text at byte 0"},
            {"[1,", "unexpected end of the JSON text at byte 3"},
            {"[1 2]", "expected ',' or ']' at byte 3"},
            {"{\"a\":1 2}", "expected ',' or '}' at byte 7"},
            {"{\"a\" 1}", "expected ':' at byte 5"},
            {"{a:1}", "expected a member name in quotes at byte 1"},
            {"[\"\\q\"]", "unknown escape at byte 2"},
            {"[\"\\u12x4\"]", "expected four hex digits after '\\u' at byte 6"},
            {"[\"a\nb\"]", "control character in a string at byte 3"},
            {"[\"\xc3\"]", "invalid UTF-8 at byte 2"},
            {"[-x]", "expected a digit at byte 2"},
            {"[tru]", "expected a value at byte 1"},
            {"[?]", "expected a value at byte 1"},
            {"1 1", "unexpected text after the JSON value at byte 2"},
    };
    pal_arena *arena = pal_arena_new(0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pal_json value;
        pal_error err;
        CHECK_STATUS(parse_exact(arena, pal_str_of(cases[i].text), NULL, &value, &err), PAL_INVALID,
                &err);
        if (!CHECK_STR(err.message, cases[i].message))
            printf("# '%s': %s\n", cases[i].text, err.message);
    }
    pal_arena_free(arena);
}

static void outputs_stay_untouched_on_failure(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json value = {"x", NULL};
    CHECK_STATUS(pal_json_parse(arena, pal_str_of("[1"), NULL, &value, NULL), PAL_INVALID);
    CHECK_EQ(value.text[0], 'x');
    CHECK(!value.node);
    CHECK_STATUS(pal_arena_failure(arena), PAL_OK);
    pal_arena_free(arena);
}

static pal_status parse_nested(size_t depth, char open, const pal_json_limits *limits)
{
    pal_arena *arena = pal_arena_new(0);
    pal_buf buf;
    pal_buf_init(&buf, depth * 8);
    for (size_t i = 0; i < depth; i++)
        pal_buf_append_text(&buf, open == '[' ? "[" : i + 1 < depth ? "{\"a\":" : "{");
    for (size_t i = 0; i < depth; i++)
        pal_buf_append_char(&buf, open == '[' ? ']' : '}');
    pal_json value;
    pal_error err;
    pal_status status = parse_exact(arena, pal_buf_str(&buf), limits, &value, &err);
    CHECK(status == PAL_OK || strstr(err.message, "deeper than"));
    pal_buf_done(&buf);
    pal_arena_free(arena);
    return status;
}

static void the_depth_is_limited(void)
{
    pal_json_limits three = {.depth_max = 3}, too_many = {.depth_max = 1000000};
    CHECK_STATUS(parse_nested(PAL_JSON_DEPTH_MAX, '[', NULL), PAL_OK);
    CHECK_STATUS(parse_nested(PAL_JSON_DEPTH_MAX + 1, '[', NULL), PAL_LIMIT);
    CHECK_STATUS(parse_nested(PAL_JSON_DEPTH_MAX, '{', NULL), PAL_OK);
    CHECK_STATUS(parse_nested(PAL_JSON_DEPTH_MAX + 1, '{', NULL), PAL_LIMIT);
    CHECK_STATUS(parse_nested(100000, '[', NULL), PAL_LIMIT);
    if (CHECK_STATUS(parse_nested(3, '[', &three), PAL_OK))
        CHECK_STATUS(parse_nested(4, '{', &three), PAL_LIMIT);
    CHECK_STATUS(parse_nested(PAL_JSON_DEPTH_MAX + 1, '[', &too_many), PAL_LIMIT);
}

static void the_depth_counts_open_containers(void)
{
    pal_json_limits two = {.depth_max = 2};
    pal_arena *arena = pal_arena_new(0);
    pal_json value;
    pal_str text = pal_str_of("[[1],{\"a\":1},[],{},[[]]]");
    CHECK_STATUS(parse_exact(arena, text, &two, &value, NULL), PAL_LIMIT);
    text = pal_str_of("[[1],{\"a\":1},[],{},[2],{\"a\":2}]");
    CHECK_STATUS(parse_exact(arena, text, &two, &value, NULL), PAL_OK);
    pal_arena_free(arena);
}

static void the_number_of_values_is_limited(void)
{
    pal_json_limits five = {.values_max = 5}, one = {.values_max = 1};
    pal_arena *arena = pal_arena_new(0);
    pal_json value;
    pal_error err;
    CHECK_FAILS(parse_exact(arena, pal_str_of("[1,2,{\"a\":3}]"), &five, &value, &err), PAL_LIMIT,
            &err, "more than 5 values");
    CHECK_STATUS(parse_exact(arena, pal_str_of("[1,2,{},3]"), &five, &value, &err), PAL_OK, &err);
    CHECK_EQ(pal_json_count(value), 4);
    CHECK_STATUS(parse_exact(arena, pal_str_of("[1]"), &one, &value, &err), PAL_LIMIT, &err);
    CHECK_STATUS(parse_exact(arena, pal_str_of("\"a\""), &one, &value, &err), PAL_OK, &err);
    pal_arena_free(arena);
}

static void the_size_is_limited(void)
{
    pal_json_limits ten = {.bytes_max = 10};
    pal_arena *arena = pal_arena_new(0);
    pal_json value;
    pal_error err;
    CHECK_STATUS(pal_json_parse(arena, pal_str_of("[12345678]"), &ten, &value, &err), PAL_OK, &err);
    CHECK_FAILS(pal_json_parse(arena, pal_str_of("[123456789]"), &ten, &value, &err), PAL_LIMIT,
            &err, "11 bytes");
    /* Refused by its length alone, without reading it. */
    pal_str huge = pal_str_make("[]", (size_t)PAL_JSON_BYTES_MAX + 1);
    CHECK_STATUS(pal_json_parse(arena, huge, NULL, &value, &err), PAL_LIMIT, &err);
    pal_arena_free(arena);
}

static pal_buf many_elements(int count)
{
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 2);
    pal_buf_append_char(&buf, '[');
    /* Sparse at first and dense later, so that every estimate of the tape's size is too low. */
    for (int i = 0; i < 2000; i++)
        pal_buf_append_char(&buf, ' ');
    for (int i = 0; i < count; i++)
        pal_buf_append_text(&buf, i ? ",1" : "1");
    pal_buf_append_char(&buf, ']');
    return buf;
}

static void the_tape_grows_with_the_number_of_values(void)
{
    pal_buf buf = many_elements(100000);
    pal_arena *arena = pal_arena_new(0);
    pal_json value, element;
    CHECK_STATUS(pal_json_parse(arena, pal_buf_str(&buf), NULL, &value, NULL), PAL_OK);
    CHECK_EQ(pal_json_count(value), 100000);
    size_t count = 0;
    pal_json_iter iter = pal_json_each(value);
    while (pal_json_next(&iter, NULL, &element))
        count += pal_json_type_of(element) == PAL_JSON_NUMBER;
    CHECK_EQ(count, 100000);
    pal_arena_free(arena);
    pal_buf_done(&buf);
}

static void an_allocation_failure_is_reported(void)
{
    pal_buf buf = many_elements(20000);
    pal_json value;
    pal_error err;
    uint64_t nth = 1;
    for (;; nth++) {
        pal_arena *arena = pal_arena_new(0);
        pal_memory_fail_at(nth, 0);
        pal_status status = pal_json_parse(arena, pal_buf_str(&buf), NULL, &value, &err);
        bool failed = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        CHECK_EQ(status, (failed ? PAL_NO_MEMORY : PAL_OK));
        CHECK(!failed || err.status == PAL_NO_MEMORY);
        pal_arena_free(arena);
        if (!failed || nth > 100)
            break;
    }
    CHECK_THAT(nth, >, 2);
    CHECK_THAT(nth, <, 100);

    pal_arena *small = pal_arena_new(10000);
    CHECK_STATUS(pal_json_parse(small, pal_buf_str(&buf), NULL, &value, &err), PAL_LIMIT, &err);
    CHECK_STATUS(err.status, PAL_LIMIT);
    pal_arena_free(small);
    pal_buf_done(&buf);
}

/* The scans by words and by vectors give the same result as a scan of every byte. */
static void the_fast_and_the_plain_scan_agree(void)
{
    char text[64];
    uint32_t random = 7;
    for (int round = 0; round < 20000; round++) {
        size_t len = 0;
        for (; len < sizeof text; len++) {
            random = random * 1664525 + 1013904223;
            text[len] = random >> 28 ? (char)(' ' + (random >> 16) % 94) : (char)(random >> 20);
            text[len] = text[len] == '"' && random >> 30 ? 'q' : text[len];
        }
        size_t from = (random >> 8) % 40, to = from + (random >> 14) % (sizeof text - 40);
        const char *p = text + from, *end = text + to, *slow = p;
        while (slow < end && json_is_plain(*slow))
            slow++;
        CHECK_PTR(json_scan(p, end), slow);
        CHECK_PTR(json_scan_portable(p, end), slow);
    }
}

int main(void)
{
    RUN(valid_texts_are_accepted);
    RUN(broken_structure_is_refused);
    RUN(broken_scalars_are_refused);
    RUN(cut_texts_are_refused);
    RUN(errors_name_the_problem_and_the_byte);
    RUN(outputs_stay_untouched_on_failure);
    RUN(the_depth_is_limited);
    RUN(the_depth_counts_open_containers);
    RUN(the_number_of_values_is_limited);
    RUN(the_size_is_limited);
    RUN(the_tape_grows_with_the_number_of_values);
    RUN(an_allocation_failure_is_reported);
    RUN(the_fast_and_the_plain_scan_agree);
    return tap_done();
}
