/* test_json_compare.c - our reader and json-c on generated texts: both accept or refuse the same
 * texts, and find the same values, except for the differences listed here.
 *
 * json-c runs in strict mode and checks UTF-8. Version 0.16 still accepts more than RFC 8259:
 *
 *   - control characters in strings
 *   - overlong UTF-8, and surrogates in UTF-8
 *   - a point without a digit before or after it: 1. and -.5
 *   - leading zeros after a minus or another zero: -01 and 00.5
 *   - NaN, Infinity and member names in single quotes
 *
 * is_excused() recognizes these cases by our error and its position. In accepted texts, json-c
 * changes integers over 64 bits to the nearest one that fits, and too large doubles to infinity. */
#include <json-c/json.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "support/tap.h"

#define ROUNDS 20000
#define DEPTH_MAX 8 /* json-c stops at 32 of its own counting */

static pal_arena *arena;
static uint64_t random_state = 1;

static uint32_t roll(uint32_t sides)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % sides;
}

/* ---- Texts ---- */

static const char *pick(const char *const *texts, size_t count)
{
    return texts[roll((uint32_t)count)];
}

#define PICK(texts) pick(texts, sizeof texts / sizeof texts[0])

static void make_space(pal_buf *buf)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t", "\r\n  ", "            "};
    pal_buf_append_text(buf, PICK(spaces));
}

static void make_string(pal_buf *buf)
{
    static const char *const pieces[] = {"a", "bc", "\\n", "\\\"", "\\\\", "\\/", "\\u0041",
            "\\u00e9", "\\ud83d\\ude42", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x99\x82", " ", "{",
            "]", ",", ":", "a run of plain text that is longer than a vector", "\\t", "\\b\\f\\r",
            "\x7f", "\\uFFFF"};
    pal_buf_append_char(buf, '"');
    for (uint32_t left = roll(5); left; left--)
        pal_buf_append_text(buf, PICK(pieces));
    pal_buf_append_char(buf, '"');
}

static void make_scalar(pal_buf *buf)
{
    static const char *const scalars[] = {"null", "true", "false", "0", "-1", "1.5", "-0.25e2",
            "1e5", "1E-3", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
            "0.1", "123456", "2.2250738585072014e-308", "1.7976931348623157e308",
            "3.141592653589793238462643", "1e-400"};
    if (roll(2))
        make_string(buf);
    else
        pal_buf_append_text(buf, PICK(scalars));
}

static void make_value(pal_buf *buf, int depth)
{
    uint32_t kind = depth < DEPTH_MAX ? roll(4) : 3;
    make_space(buf);
    if (kind >= 2) {
        make_scalar(buf);
    } else {
        pal_buf_append_char(buf, kind ? '{' : '[');
        for (uint32_t i = 0, count = roll(5); i < count; i++) {
            if (i)
                pal_buf_append_char(buf, ',');
            make_space(buf);
            if (kind) {
                make_string(buf);
                make_space(buf);
                pal_buf_append_char(buf, ':');
            }
            make_value(buf, depth + 1);
        }
        make_space(buf);
        pal_buf_append_char(buf, kind ? '}' : ']');
    }
    make_space(buf);
}

/* Changes a text so that it is usually invalid. */
static void mutate(pal_buf *buf)
{
    static const char bytes[] = "{}[]\",:\\/u0123456789eE+-.tfn \n\t\x01\x80\xc3\xff";
    for (uint32_t left = 1 + roll(2); left && buf->len; left--) {
        size_t at = roll((uint32_t)buf->len);
        switch (roll(3)) {
        case 0:
            buf->data[at] = bytes[roll(sizeof bytes - 1)];
            break;
        case 1:
            memmove(buf->data + at, buf->data + at + 1, buf->len - at - 1);
            buf->len--;
            break;
        default:
            buf->len = at;
        }
    }
}

/* ---- Comparison ---- */

static bool same(pal_json ours, json_object *theirs);

static bool same_string(pal_json ours, const char *data, size_t len)
{
    return pal_json_type_of(ours) == PAL_JSON_STRING &&
            pal_str_equal(pal_json_string(ours, arena), pal_str_make(data, len));
}

static bool same_integer(pal_json ours, json_object *theirs)
{
    int64_t number;
    uint64_t large;
    if (pal_json_i64(ours, &number))
        return json_object_get_int64(theirs) == number;
    if (pal_json_u64(ours, &large))
        return json_object_get_uint64(theirs) == large;
    return true; /* it does not fit */
}

static bool same_array(pal_json ours, json_object *theirs)
{
    if (pal_json_type_of(ours) != PAL_JSON_ARRAY ||
            pal_json_count(ours) != json_object_array_length(theirs))
        return false;
    pal_json element;
    pal_json_iter iter = pal_json_each(ours);
    for (size_t i = 0; pal_json_next(&iter, NULL, &element); i++) {
        if (!same(element, json_object_array_get_idx(theirs, i)))
            return false;
    }
    return true;
}

/* json-c cuts names at a NUL; these texts contain none. */
static bool same_object(pal_json ours, json_object *theirs)
{
    if (pal_json_type_of(ours) != PAL_JSON_OBJECT)
        return false;
    size_t count = 0;
    struct json_object_iter iter;
    json_object_object_foreachC(theirs, iter)
    {
        count++;
        if (!same(pal_json_find(ours, iter.key), iter.val))
            return false;
    }
    return count <= pal_json_count(ours) && (count > 0) == (pal_json_count(ours) > 0);
}

static bool same(pal_json ours, json_object *theirs)
{
    double number;
    bool truth;
    switch (json_object_get_type(theirs)) {
    case json_type_null:
        return pal_json_type_of(ours) == PAL_JSON_NULL;
    case json_type_boolean:
        return pal_json_bool(ours, &truth) && truth == json_object_get_boolean(theirs);
    case json_type_double:
        return pal_json_f64(ours, &number) ? number == json_object_get_double(theirs)
                                           : isinf(json_object_get_double(theirs));
    case json_type_int:
        return pal_json_type_of(ours) == PAL_JSON_NUMBER && same_integer(ours, theirs);
    case json_type_string:
        return same_string(
                ours, json_object_get_string(theirs), (size_t)json_object_get_string_len(theirs));
    case json_type_array:
        return same_array(ours, theirs);
    default:
        return same_object(ours, theirs);
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The list at the top of this file. `text` is followed by a NUL. */
static bool is_excused(const pal_error *err, pal_str text)
{
    if (strstr(err->message, "control character") || strstr(err->message, "invalid UTF-8"))
        return true;
    const char *place = strstr(err->message, "at byte ");
    size_t at = place ? strtoul(place + strlen("at byte "), NULL, 10) : 0;
    if (!place || at > text.len)
        return false;
    char before = at ? text.data[at - 1] : ' ', here = text.data[at];
    bool bare_point = (before == '.' && !is_digit(here)) || (before == '-' && here == '.');
    bool zero_in_front = before == '0' && is_digit(here);
    bool word_or_quote = here == 'N' || here == 'I' || here == '\'';
    return bare_point || zero_in_front || word_or_quote;
}

/* json-c needs the terminator to know that a number at the end is complete. */
static bool read_theirs(pal_buf *buf, json_object **out_object)
{
    json_tokener *tokener = json_tokener_new();
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    pal_buf_append_char(buf, '\0');
    *out_object = json_tokener_parse_ex(tokener, buf->data, (int)buf->len);
    bool accepted = json_tokener_get_error(tokener) == json_tokener_success;
    buf->len--;
    json_tokener_free(tokener);
    return accepted;
}

/* Returns whether both accepted the text. */
static bool compare(pal_buf *buf)
{
    pal_json ours;
    pal_error err = {PAL_OK, ""};
    json_object *theirs;
    pal_arena_reset(arena);
    bool we = pal_json_parse(arena, pal_buf_str(buf), NULL, &ours, &err) == PAL_OK;
    bool they = read_theirs(buf, &theirs);
    bool agreed =
            we == they ? !we || same(ours, theirs) : they && is_excused(&err, pal_buf_str(buf));
    if (!CHECK(agreed))
        printf("# ours %d (%s), theirs %d: %.*s\n", we, err.message, they,
                PAL_STR_ARG(pal_buf_str(buf)));
    json_object_put(theirs);
    return we && they;
}

/* Whatever json-c of this or another version accepts, we refuse the texts in the list. */
static void texts_with_listed_differences_are_refused(void)
{
    static const char *const texts[] = {"\"\x01\"", "\"\n\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
            "1.", "[1.]", "1.e1", "[-.5]", "-01", "00", "[00.5]", "NaN", "[Infinity]", "-Infinity",
            "{'a':1}"};
    pal_buf buf;
    pal_buf_init(&buf, 100);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pal_buf_clear(&buf);
        pal_buf_append_text(&buf, texts[i]);
        CHECK(!compare(&buf));
    }
    pal_buf_done(&buf);
}

static void generated_texts_are_read_like_the_reference(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 1 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        pal_buf_clear(&buf);
        make_value(&buf, 0);
        CHECK(!buf.failure);
        CHECK(compare(&buf));
    }
    pal_buf_done(&buf);
}

static void broken_texts_are_refused_like_the_reference(void)
{
    int accepted = 0;
    pal_buf buf;
    pal_buf_init(&buf, 1 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        pal_buf_clear(&buf);
        make_value(&buf, 0);
        mutate(&buf);
        accepted += compare(&buf);
    }
    /* Both kinds of texts occurred. */
    CHECK_THAT(accepted, >, ROUNDS / 100);
    CHECK_THAT(accepted, <, ROUNDS * 9 / 10);
    pal_buf_done(&buf);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(texts_with_listed_differences_are_refused);
    RUN(generated_texts_are_read_like_the_reference);
    RUN(broken_texts_are_refused_like_the_reference);
    pal_arena_free(arena);
    return tap_done();
}
