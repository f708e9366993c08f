/* test_json_value.c - reads and compares parsed values. */
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "base/json/json_part.h"
#include "support/tap.h"

static pal_arena *arena;

/* The value of a valid text, until the arena is reset. */
static pal_json parse(const char *text)
{
    pal_json value = {0};
    pal_error err;
    if (!CHECK_STATUS(pal_json_parse(arena, pal_str_of(text), NULL, &value, &err), PAL_OK, &err))
        printf("# '%s': %s\n", text, err.message);
    return value;
}

static bool raw_is(pal_json value, const char *text)
{
    return pal_str_is(pal_json_raw(value), text);
}

static bool string_is_bytes(const char *json, const char *bytes, size_t len)
{
    return pal_str_equal(pal_json_string(parse(json), arena), pal_str_make(bytes, len));
}

static void each_value_reports_its_type(void)
{
    static const char *const texts[] = {"null", "false", "true", "1", "\"\"", "[]", "{}"};
    static const char *const names[] = {
            "null", "boolean", "boolean", "number", "string", "array", "object"};
    for (int i = 0; i < 7; i++) {
        pal_json value = parse(texts[i]);
        CHECK_EQ(pal_json_type_of(value), (pal_json_type)(i + 1));
        CHECK_STR(pal_json_type_name(pal_json_type_of(value)), names[i]);
        CHECK(raw_is(value, texts[i]));
    }
    CHECK_STR(pal_json_type_name(PAL_JSON_NONE), "nothing");
}

static void every_function_accepts_a_missing_value(void)
{
    pal_json none = {0}, name, value;
    int64_t i = 5;
    uint64_t u = 5;
    double f = 5;
    bool b = true;
    pal_json_iter iter = pal_json_each(none);
    CHECK_EQ(pal_json_type_of(none), PAL_JSON_NONE);
    CHECK_EQ(pal_json_raw(none).len, 0);
    CHECK_EQ(pal_json_string(none, arena).len, 0);
    CHECK(!pal_json_string_is(none, ""));
    CHECK(!pal_json_i64(none, &i));
    CHECK(!pal_json_u64(none, &u));
    CHECK(!pal_json_f64(none, &f));
    if (CHECK(!pal_json_bool(none, &b))) {
        CHECK_EQ(i, 5);
        CHECK_EQ(u, 5);
        CHECK_EQ(f, 5);
        CHECK(b);
    }
    CHECK_EQ(pal_json_type_of(pal_json_find(none, "a")), PAL_JSON_NONE);
    CHECK_EQ(pal_json_count(none), 0);
    CHECK(!pal_json_next(&iter, &name, &value));
    if (CHECK(pal_json_equal(none, none)))
        CHECK(!pal_json_equal(none, parse("null")));
}

static void raw_bytes_are_kept(void)
{
    pal_json value = parse(" { \"a\" : [ 1.50 , -0, 1E+2 ] , \"b\":\"\\u0041\" } ");
    CHECK(raw_is(value, "{ \"a\" : [ 1.50 , -0, 1E+2 ] , \"b\":\"\\u0041\" }"));
    pal_json array = pal_json_find(value, "a"), element;
    CHECK(raw_is(array, "[ 1.50 , -0, 1E+2 ]"));
    CHECK(raw_is(pal_json_find(value, "b"), "\"\\u0041\""));
    pal_json_iter iter = pal_json_each(array);
    static const char *const numbers[] = {"1.50", "-0", "1E+2"};
    for (int i = 0; i < 3; i++) {
        if (CHECK(pal_json_next(&iter, NULL, &element)))
            CHECK(raw_is(element, numbers[i]));
    }
    CHECK(!pal_json_next(&iter, NULL, &element));
    const char *digits =
            "123456789012345678901234567890.123456789012345678901234567890e-1234567890";
    CHECK(raw_is(parse(digits), digits));
}

static void strings_are_unescaped(void)
{
    CHECK(string_is_bytes("\"\"", "", 0));
    CHECK(string_is_bytes("\"plain\"", "plain", 5));
    CHECK(string_is_bytes("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8));
    CHECK(string_is_bytes("\"a\\u0000b\"", "a\0b", 3));
    CHECK(string_is_bytes("\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE42\"",
            "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", 10));
    CHECK(string_is_bytes("\"x\xe2\x82\xac\\ny\"", "x\xe2\x82\xac\ny", 6));
    CHECK(string_is_bytes("\"\\\\u0041\"", "\\u0041", 6));
    CHECK_EQ(pal_json_string(parse("1"), arena).len, 0);
    CHECK_EQ(pal_json_string(parse("[]"), arena).len, 0);
}

static void lone_surrogates_become_replacements(void)
{
    CHECK(string_is_bytes("\"\\ud800\"", "\xef\xbf\xbd", 3));
    CHECK(string_is_bytes("\"\\udfff!\"", "\xef\xbf\xbd!", 4));
    CHECK(string_is_bytes("\"\\ud800\\ud83d\\ude42\"", "\xef\xbf\xbd\xf0\x9f\x99\x82", 7));
    CHECK(string_is_bytes("\"\\ude42\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd", 6));
    CHECK(string_is_bytes("\"\\ud800\\u0041\"",
            "\xef\xbf\xbd"
            "A",
            4));
    CHECK(string_is_bytes("\"\\ud83d\\n\"", "\xef\xbf\xbd\n", 4));
    CHECK(string_is_bytes("\"\\ud83d\\\\ude42\"", "\xef\xbf\xbd\\ude42", 9));
}

static void divided_surrogates_are_joined(void)
{
    static const struct {
        const char *json, *text;
    } parts[] = {{"\"a\\ud83c\"", "a"}, {"\"id\"", "id"}, {"\"\\udf89 b\\ud83d\"", "\xf0\x9f\x8e\x89 b"},
            {"\"\\ude00\\ud83c\"", "\xf0\x9f\x98\x80"}, {"\"\"", ""},
            {"\"\\udf89\"", "\xf0\x9f\x8e\x89"}, /* nothing is kept any more */
            {"\"\\udf89\"", "\xef\xbf\xbd"}, {"\"\\\\ud83c\"", "\\ud83c"},
            {"\"\\udf89\"", "\xef\xbf\xbd"}, {"\"\\\\\\ud83c\"", "\\"},
            {"\"\\udf89!\"", "\xf0\x9f\x8e\x89!"}, {"\"\\ud83c\\udf89\"", "\xf0\x9f\x8e\x89"},
            {"7", ""}};
    uint32_t half = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK_STR(pal_json_string_part(parse(parts[i].json), &half, arena), parts[i].text);
    CHECK_EQ(half, 0);
}

static void plain_strings_are_borrowed(void)
{
    const char *text = "[\"plain\",\"esc\\n\"]";
    pal_json array = parse(text), plain = {0}, escaped = {0};
    pal_json_iter iter = pal_json_each(array);
    if (CHECK(pal_json_next(&iter, NULL, &plain)))
        CHECK(pal_json_next(&iter, NULL, &escaped));
    CHECK_PTR(pal_json_string(plain, NULL).data, text + 2);

    pal_arena *full = pal_arena_new(1);
    CHECK_PTR(pal_json_string(escaped, full).data, NULL);
    CHECK_STATUS(pal_arena_failure(full), PAL_LIMIT);
    pal_arena_free(full);
}

static void strings_are_compared_without_an_arena(void)
{
    CHECK(pal_json_string_is(parse("\"abc\""), "abc"));
    CHECK(!pal_json_string_is(parse("\"abc\""), "abd"));
    CHECK(pal_json_string_is(parse("\"\\u0061b\\u0063\""), "abc"));
    CHECK(!pal_json_string_is(parse("\"\\u0061b\""), "abc"));
    CHECK(!pal_json_string_is(parse("\"\\u0061bcd\""), "abc"));
    CHECK(!pal_json_string_is(parse("\"\\u0000\""), ""));
    CHECK(pal_json_string_is(parse("\"\""), ""));
    CHECK(pal_json_string_is(parse("\"\\ud83d\\ude42\""), "\xf0\x9f\x99\x82"));
    CHECK(!pal_json_string_is(parse("1"), "1"));
}

static void members_are_found(void)
{
    pal_json object = parse("{\"a\":1,\"b\":{\"a\":2,\"c\":[3,{\"d\":4}]},\"c\":5,\"\":6}");
    CHECK(raw_is(pal_json_find(object, "a"), "1"));
    CHECK(raw_is(pal_json_find(object, "c"), "5"));
    CHECK(raw_is(pal_json_find(object, ""), "6"));
    CHECK(raw_is(pal_json_find(pal_json_find(object, "b"), "a"), "2"));
    CHECK_EQ(pal_json_type_of(pal_json_find(object, "d")), PAL_JSON_NONE);
    CHECK_EQ(pal_json_type_of(pal_json_find(object, "aa")), PAL_JSON_NONE);
    CHECK_EQ(pal_json_type_of(pal_json_find(parse("[\"a\",1]"), "a")), PAL_JSON_NONE);
    CHECK_EQ(pal_json_count(object), 4);
    CHECK_EQ(pal_json_count(pal_json_find(object, "b")), 2);
    CHECK_EQ(pal_json_count(parse("\"ab\\n\"")), 0);
    CHECK_EQ(pal_json_count(parse("[]")), 0);
}

static void escaped_names_are_found(void)
{
    pal_json object = parse("{\"\\u0061\\\"\":1,\"\\u00e9\":2,\"x\\u0000\":3}");
    CHECK(raw_is(pal_json_find(object, "a\""), "1"));
    CHECK(raw_is(pal_json_find(object, "\xc3\xa9"), "2"));
    CHECK_EQ(pal_json_type_of(pal_json_find(object, "x")), PAL_JSON_NONE);
}

static void the_last_of_duplicates_is_found(void)
{
    pal_json object = parse("{\"a\":1,\"b\":2,\"a\":3,\"\\u0061\":4}");
    CHECK(raw_is(pal_json_find(object, "a"), "4"));
    CHECK_EQ(pal_json_count(object), 4);
    CHECK(raw_is(object, "{\"a\":1,\"b\":2,\"a\":3,\"\\u0061\":4}"));
}

static void iteration_keeps_the_order(void)
{
    pal_json object = parse("{\"z\":[1,[2]],\"a\":{},\"m\":{\"x\":{\"y\":[]}},\"z\":null}"), name,
             value;
    static const char *const names[] = {"z", "a", "m", "z"};
    static const char *const values[] = {"[1,[2]]", "{}", "{\"x\":{\"y\":[]}}", "null"};
    pal_json_iter iter = pal_json_each(object);
    for (int i = 0; i < 4; i++) {
        CHECK(pal_json_next(&iter, &name, &value));
        CHECK(pal_json_string_is(name, names[i]));
        CHECK(raw_is(value, values[i]));
    }
    CHECK(!pal_json_next(&iter, &name, &value));

    iter = pal_json_each(parse("[7]"));
    if (CHECK(pal_json_next(&iter, &name, &value)))
        CHECK_EQ(pal_json_type_of(name), PAL_JSON_NONE);
    iter = pal_json_each(parse("\"a\\n\""));
    CHECK(!pal_json_next(&iter, &name, &value));
}

static bool reads_i64(const char *text, int64_t expected)
{
    int64_t number = ~expected;
    return pal_json_i64(parse(text), &number) && number == expected;
}

static bool no_i64(const char *text)
{
    int64_t number = 42;
    return !pal_json_i64(parse(text), &number) && number == 42;
}

static void integers_are_exact_or_refused(void)
{
    CHECK(reads_i64("0", 0));
    CHECK(reads_i64("-0", 0));
    CHECK(reads_i64("7", 7));
    CHECK(reads_i64("-7", -7));
    CHECK(reads_i64("9223372036854775807", INT64_MAX));
    CHECK(reads_i64("-9223372036854775808", INT64_MIN));
    CHECK(no_i64("9223372036854775808"));
    CHECK(no_i64("-9223372036854775809"));
    CHECK(reads_i64("1.0", 1));
    CHECK(reads_i64("1e3", 1000));
    CHECK(reads_i64("1.50e1", 15));
    CHECK(reads_i64("1200e-2", 12));
    CHECK(reads_i64("0.000e99999999999999", 0));
    CHECK(reads_i64("0e-5", 0));
    CHECK(reads_i64("9223372036854775807.000", INT64_MAX));
    CHECK(reads_i64("9.223372036854775807e18", INT64_MAX));
    CHECK(reads_i64("10000000000000000000000000e-20", 100000));
    CHECK(no_i64("1.5"));
    CHECK(no_i64("1e-1"));
    CHECK(no_i64("1e19"));
    CHECK(no_i64("1e99999999999999999999"));
    CHECK(no_i64("1e-99999999999999999999"));
    CHECK(no_i64("123456789012345678901234567890"));
    CHECK(no_i64("\"1\""));
    CHECK(no_i64("null"));
    CHECK(no_i64("true"));
    CHECK(no_i64("[1]"));

    uint64_t number = 42;
    if (CHECK(pal_json_u64(parse("18446744073709551615"), &number)))
        CHECK_EQ(number, UINT64_MAX);
    if (CHECK(pal_json_u64(parse("-0"), &number)))
        CHECK_EQ(number, 0);
    if (CHECK(pal_json_u64(parse("1.8446744073709551615e19"), &number)))
        CHECK_EQ(number, UINT64_MAX);
    number = 42;
    if (CHECK(!pal_json_u64(parse("18446744073709551616"), &number)))
        CHECK(!pal_json_u64(parse("-1"), &number));
    if (CHECK(!pal_json_u64(parse("20000000000000000000"), &number)))
        CHECK_EQ(number, 42);
}

static void doubles_match_the_c_library(void)
{
    static const char *const texts[] = {
            "0",
            "-0",
            "-0.0",
            "1",
            "0.1",
            "-0.1",
            "3.141592653589793",
            "1e22",
            "1e23",
            "1e-22",
            "123456789.125",
            "9007199254740993",
            "9007199254740992.5",
            "1.7976931348623157e308",
            "2.2250738585072014e-308",
            "4.9e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "1e-400",
            "0.30000000000000004",
            "179769313486231570814527423731704356798070e267",
            "1.0000000000000002220446049250313080847263336181",
            "1000000000000000000000000000000000000000000000000000000000000000000000000e-72",
            "0e999999999",
            "2.2250738585072011e-308",
            "8.5",
            "1e15",
            "999999999999999e22",
            "1234567890123456789012345678e-22",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        double number = 42, expected = strtod(texts[i], NULL);
        if (!CHECK(pal_json_f64(parse(texts[i]), &number)) ||
                !CHECK_BYTES(&number, &expected, sizeof number))
            printf("# %s is %.17g\n", texts[i], number);
    }
    double number = 42;
    if (CHECK(!pal_json_f64(parse("1e309"), &number)))
        CHECK(!pal_json_f64(parse("-1e99999999999"), &number));
    if (CHECK(!pal_json_f64(parse("\"1\""), &number)))
        CHECK_EQ(number, 42);
}

/* Just above the middle between 1 and the next double, so the very last digit decides. */
static void thousands_of_digits_are_read_exactly(void)
{
    static const char middle[] = "1.00000000000000011102230246251565404236316680908203125";
    char text[3000];
    memset(text, '0', sizeof text - 1);
    memcpy(text, middle, sizeof middle - 1);
    text[sizeof text - 1] = '\0';
    double number;
    if (CHECK(pal_json_f64(parse(text), &number)))
        CHECK_EQ(number, 1.0);
    text[sizeof text - 2] = '1';
    if (CHECK(pal_json_f64(parse(text), &number)))
        CHECK_EQ(number, 1.0 + DBL_EPSILON);
}

static bool equal(const char *a, const char *b)
{
    bool result = pal_json_equal(parse(a), parse(b));
    CHECK_EQ(pal_json_equal(parse(b), parse(a)), result);
    return result;
}

static void equality_compares_values_not_spelling(void)
{
    CHECK(equal("null", "null"));
    CHECK(!equal("null", "false"));
    CHECK(!equal("true", "false"));
    CHECK(equal("1", "1.0"));
    CHECK(equal("100", "1e2"));
    CHECK(equal("0.5", "5e-1"));
    CHECK(equal("-0", "0"));
    CHECK(!equal("1", "2"));
    CHECK(!equal("1", "\"1\""));
    CHECK(!equal("9007199254740993", "9007199254740992"));
    CHECK(equal("18446744073709551615", "1.8446744073709551615e19"));
    CHECK(!equal("18446744073709551615", "18446744073709551614"));
    CHECK(equal("1e999", "1e999"));
    CHECK(!equal("1e999", "10e998"));
    CHECK(!equal("1e999", "-1e999"));
    CHECK(equal("\"a\"", "\"\\u0061\""));
    CHECK(!equal("\"a\"", "\"b\""));
    CHECK(!equal("\"\\n\"", "\"\\n\\n\""));
    CHECK(equal("\"\\u00e9\\n\"", "\"\xc3\xa9\\u000a\""));
    CHECK(!equal("\"\\u00e9\\n\"", "\"\xc3\xa8\\n\""));
    CHECK(equal("[1,[2,3]]", "[ 1, [2.0, 3] ]"));
    CHECK(!equal("[1,2]", "[2,1]"));
    CHECK(!equal("[1]", "[1,2]"));
    CHECK(!equal("[]", "{}"));
}

static void objects_are_equal_in_any_order(void)
{
    CHECK(equal("{\"a\":1,\"b\":[2]}", "{\"b\":[2],\"a\":1}"));
    CHECK(equal("{\"a\":1}", "{\"\\u0061\":1}"));
    CHECK(!equal("{\"a\":1,\"b\":2}", "{\"a\":2,\"b\":1}"));
    CHECK(!equal("{\"a\":1}", "{\"b\":1}"));
    CHECK(!equal("{\"a\":1}", "{\"a\":1,\"b\":2}"));
    CHECK(!equal("{}", "{\"a\":null}"));
    CHECK(equal("{\"a\":1,\"a\":2}", "{\"a\":2}"));
    CHECK(!equal("{\"a\":1,\"a\":2}", "{\"a\":1}"));
    CHECK(equal("{\"a\":1,\"a\":2}", "{\"a\":3,\"a\":2}"));
    CHECK(!equal("{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":3}"));
    CHECK(!equal("{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}"));
    CHECK(!equal("{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":1}"));
    CHECK(equal("{\"b\":0,\"a\":1,\"a\":2}", "{\"a\":2,\"b\":0}"));
}

/* Deep objects; with `others`, other names at every second level. */
static pal_json nested(pal_buf *buf, bool others, char bottom)
{
    pal_json value = {0};
    pal_buf_init(buf, 10000);
    for (int i = 0; i < 500; i++)
        pal_buf_append_text(buf, others && i % 2 ? "{\"z\":" : "{\"x\":0,\"y\":");
    pal_buf_append_char(buf, bottom);
    for (int i = 0; i < 500; i++)
        pal_buf_append_char(buf, '}');
    CHECK_STATUS(pal_json_parse(arena, pal_buf_str(buf), NULL, &value, NULL), PAL_OK);
    return value;
}

/* The only difference is at the bottom. If anything were compared twice on the way, this would not
 * end. */
static void deep_inequality_is_quick(void)
{
    pal_buf bufs[3];
    pal_json a = nested(&bufs[0], false, '1'), b = nested(&bufs[1], false, '2');
    pal_json other = nested(&bufs[2], true, '1');
    CHECK(!pal_json_equal(a, b));
    CHECK(!pal_json_equal(a, other));
    CHECK(pal_json_equal(a, a));
    for (int i = 0; i < 3; i++)
        pal_buf_done(&bufs[i]);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(each_value_reports_its_type);
    RUN(every_function_accepts_a_missing_value);
    RUN(raw_bytes_are_kept);
    RUN(strings_are_unescaped);
    RUN(lone_surrogates_become_replacements);
    RUN(divided_surrogates_are_joined);
    RUN(plain_strings_are_borrowed);
    RUN(strings_are_compared_without_an_arena);
    RUN(members_are_found);
    RUN(escaped_names_are_found);
    RUN(the_last_of_duplicates_is_found);
    RUN(iteration_keeps_the_order);
    RUN(integers_are_exact_or_refused);
    RUN(doubles_match_the_c_library);
    RUN(thousands_of_digits_are_read_exactly);
    RUN(equality_compares_values_not_spelling);
    RUN(objects_are_equal_in_any_order);
    RUN(deep_inequality_is_quick);
    pal_arena_free(arena);
    return tap_done();
}
