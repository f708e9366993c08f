/* tap.h - the smallest test harness: checks that count, tests that have names, TAP for Meson.
 *
 *   static void sums_are_right(void) { CHECK_EQ(1 + 1, 2); }
 *   int main(void) { RUN(sums_are_right); return tap_done(); }
 *
 * A failed check prints its expressions and their values, and the test continues:
 *
 *   # test_sum.c:1: CHECK_EQ(1 + 1, 2)
 *   #   got    3
 *   #   wanted 2
 *
 * Every check evaluates its arguments once. It evaluates to whether it held, so that a test can
 * protect what follows: if (CHECK_EQ(list.len, 1)) CHECK_STR(list.items[0], "a");
 *
 * The counters are weak, so that all files of a program share them. */
#ifndef PAL_TESTS_TAP_H
#define PAL_TESTS_TAP_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/str.h"

#define CHECK(condition) tap_check((condition), "CHECK(" #condition ")", __FILE__, __LINE__)

/* Compares two numbers of any types: integers, sizes, enums, booleans, fractions. */
#define CHECK_EQ(got, wanted)                                                                      \
    tap_compare(TAP_NUMBER(got), TAP_NUMBER(wanted), "==", "CHECK_EQ(" #got ", " #wanted ")",      \
            __FILE__, __LINE__)
/* The same with another operator: CHECK_THAT(len, <=, max). */
#define CHECK_THAT(got, operator, wanted)                                                          \
    tap_compare(TAP_NUMBER(got), TAP_NUMBER(wanted), #operator,                                    \
            "CHECK_THAT(" #got ", " #operator", " #wanted ")", __FILE__, __LINE__)

/* The number is one of two. */
#define CHECK_EITHER(got, one, other)                                                              \
    tap_either(TAP_NUMBER(got), TAP_NUMBER(one), TAP_NUMBER(other),                                \
            "CHECK_EITHER(" #got ", " #one ", " #other ")", __FILE__, __LINE__)

/* Compares two addresses. */
#define CHECK_PTR(got, wanted)                                                                     \
    tap_same_pointer(got, wanted, "CHECK_PTR(" #got ", " #wanted ")", __FILE__, __LINE__)

/* Compares `len` bytes. */
#define CHECK_BYTES(got, wanted, len)                                                              \
    tap_same_bytes(got, wanted, len, "CHECK_BYTES(" #got ", " #wanted ", " #len ")", __FILE__,     \
            __LINE__)

/* Compares two texts; each is a pal_str or a terminated string. NULL differs from "". */
#define CHECK_STR(got, wanted)                                                                     \
    tap_same_text(TAP_TEXT(got), TAP_TEXT(wanted), "CHECK_STR(" #got ", " #wanted ")", __FILE__,   \
            __LINE__)
#define CHECK_CONTAINS(got, part)                                                                  \
    tap_contains(TAP_TEXT(got), TAP_TEXT(part), "CHECK_CONTAINS(" #got ", " #part ")", __FILE__,   \
            __LINE__)
#define CHECK_LACKS(got, part)                                                                     \
    tap_lacks(TAP_TEXT(got), TAP_TEXT(part), "CHECK_LACKS(" #got ", " #part ")", __FILE__, __LINE__)
#define CHECK_BEGINS(got, head)                                                                    \
    tap_begins(TAP_TEXT(got), TAP_TEXT(head), "CHECK_BEGINS(" #got ", " #head ")", __FILE__,       \
            __LINE__)
/* The two texts are not the same. */
#define CHECK_DIFFER(a, b)                                                                         \
    tap_differ(TAP_TEXT(a), TAP_TEXT(b), "CHECK_DIFFER(" #a ", " #b ")", __FILE__, __LINE__)

#define CHECK_ID(got, wanted)                                                                      \
    tap_same_id(got, wanted, "CHECK_ID(" #got ", " #wanted ")", __FILE__, __LINE__)

/* CHECK_STATUS(got, wanted[, err]): with `err`, a failure prints its message too. */
#define CHECK_STATUS(got, ...)                                                                     \
    TAP_STATUS("CHECK_STATUS(" #got ", " #__VA_ARGS__ ")", got, __VA_ARGS__, NULL, 0)
/* OK(call): the call returns PAL_OK. The error that it fills in is the fixture's, test.err. */
#define OK(call) CHECK_STATUS(call, PAL_OK, &test.err)
/* The status is one of two. */
#define CHECK_STATUS_EITHER(got, one, other)                                                       \
    tap_status_either(got, one, other, "CHECK_STATUS_EITHER(" #got ", " #one ", " #other ")",      \
            __FILE__, __LINE__)
/* The call fails with this status, and the message of `err` contains `part`. */
#define CHECK_FAILS(got, wanted, err, part)                                                        \
    tap_fails(got, wanted, err, part, "CHECK_FAILS(" #got ", " #wanted ", " #part ")", __FILE__,   \
            __LINE__)

#define RUN(test) tap_run(#test, test)

__attribute__((weak)) int tap_tests, tap_failures;
__attribute__((weak)) bool tap_failed;

static inline bool tap_check(bool held, const char *text, const char *file, int line)
{
    if (!held) {
        printf("# %s:%d: %s\n", file, line, text);
        tap_failed = true;
    }
    return held;
}

static inline void tap_run(const char *name, void (*test)(void))
{
    tap_failed = false;
    test();
    tap_tests++;
    tap_failures += tap_failed;
    printf("%s %d - %s\n", tap_failed ? "not ok" : "ok", tap_tests, name);
    fflush(stdout);
}

static inline int tap_done(void)
{
    printf("1..%d\n", tap_tests);
    return tap_failures ? 1 : 0;
}

/* ---- Numbers ---- */

typedef struct tap_number {
    bool is_negative, is_fraction;
    uint64_t bits; /* two's complement */
    double fraction;
} tap_number;

/* clang-format off */
#define TAP_NUMBER(x) \
    _Generic((x), float: tap_fraction, double: tap_fraction, unsigned long: tap_unsigned, \
            unsigned long long: tap_unsigned, default: tap_signed)(x)
#define TAP_TEXT(x) _Generic((x), pal_str: tap_str, default: tap_string)(x)
/* clang-format on */

static inline tap_number tap_signed(int64_t value)
{
    return (tap_number){
            .is_negative = value < 0, .bits = (uint64_t)value, .fraction = (double)value};
}

static inline tap_number tap_unsigned(uint64_t value)
{
    return (tap_number){.bits = value, .fraction = (double)value};
}

static inline tap_number tap_fraction(double value)
{
    return (tap_number){.is_fraction = true, .fraction = value};
}

static inline void tap_print_number(const char *label, tap_number n)
{
    if (n.is_fraction)
        printf("#   %s %.17g\n", label, n.fraction);
    else if (n.is_negative)
        printf("#   %s %" PRId64 "\n", label, (int64_t)n.bits);
    else
        printf("#   %s %" PRIu64 "\n", label, n.bits);
}

static inline int tap_order(tap_number a, tap_number b)
{
    if (a.is_fraction || b.is_fraction)
        return (a.fraction > b.fraction) - (a.fraction < b.fraction);
    if (a.is_negative != b.is_negative)
        return a.is_negative ? -1 : 1;
    return (a.bits > b.bits) - (a.bits < b.bits);
}

static inline bool tap_compare(tap_number got, tap_number wanted, const char *operator,
        const char * text, const char *file, int line)
{
    int order = tap_order(got, wanted);
    bool is_number = got.fraction == got.fraction && wanted.fraction == wanted.fraction;
    bool held = operator[0] == '!' ? order != 0 :
            operator[0] == '<'     ? order < 0 || (operator[1] && order == 0)
            :
            operator[0] == '>' ? order > 0 || (operator[1] && order == 0)
                               : order == 0;

    if (!tap_check(held && is_number, text, file, line)) {
        tap_print_number("got   ", got);
        tap_print_number("wanted", wanted);
        return false;
    }
    return true;
}

static inline bool tap_either(tap_number got, tap_number one, tap_number other, const char *text,
        const char *file, int line)
{
    bool held = tap_order(got, one) == 0 || tap_order(got, other) == 0;

    if (!tap_check(held, text, file, line)) {
        tap_print_number("got   ", got);
        tap_print_number("wanted", one);
        tap_print_number("or    ", other);
    }
    return held;
}

/* ---- Memory ---- */

static inline bool tap_same_pointer(
        const void *got, const void *wanted, const char *text, const char *file, int line)
{
    if (!tap_check(got == wanted, text, file, line))
        printf("#   got    %p\n#   wanted %p\n", got, wanted);
    return got == wanted;
}

static inline bool tap_same_bytes(const void *got, const void *wanted, size_t len,
        const char *text, const char *file, int line)
{
    const unsigned char *a = got, *b = wanted;
    size_t same = 0;

    while (same < len && a[same] == b[same])
        same++;
    if (!tap_check(same == len, text, file, line))
        printf("#   got    byte %zu is 0x%02x\n#   wanted byte %zu is 0x%02x\n", same, a[same],
                same, b[same]);
    return same == len;
}

/* ---- Texts ---- */

typedef struct tap_text {
    pal_str str;
    bool is_null;
} tap_text;

static inline tap_text tap_str(pal_str str)
{
    return (tap_text){.str = str};
}

static inline tap_text tap_string(const char *text)
{
    return (tap_text){.str = pal_str_of(text), .is_null = !text};
}

/* On one line: a line break of the text could look like a test result. */
static inline void tap_print_text(const char *label, tap_text text)
{
    printf("#   %s %s", label, text.is_null ? "NULL" : "\"");
    for (size_t i = 0; i < text.str.len; i++) {
        unsigned char c = (unsigned char)text.str.data[i];

        if (c == '\n')
            printf("\\n");
        else if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < ' ' || c == 127)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    printf("%s\n", text.is_null ? "" : "\"");
}

static inline bool tap_same_text(
        tap_text got, tap_text wanted, const char *text, const char *file, int line)
{
    bool held = got.is_null == wanted.is_null && pal_str_equal(got.str, wanted.str);

    if (!tap_check(held, text, file, line)) {
        tap_print_text("got   ", got);
        tap_print_text("wanted", wanted);
    }
    return held;
}

static inline bool tap_has(tap_text text, tap_text part)
{
    if (text.is_null || part.is_null || part.str.len == 0)
        return !text.is_null && !part.is_null;
    return text.str.len > 0 && memmem(text.str.data, text.str.len, part.str.data, part.str.len);
}

static inline bool tap_contains(
        tap_text got, tap_text part, const char *text, const char *file, int line)
{
    bool held = tap_has(got, part);

    if (!tap_check(held, text, file, line)) {
        tap_print_text("got        ", got);
        tap_print_text("wanted part", part);
    }
    return held;
}

static inline bool tap_lacks(
        tap_text got, tap_text part, const char *text, const char *file, int line)
{
    bool held = !got.is_null && !tap_has(got, part);

    if (!tap_check(held, text, file, line)) {
        tap_print_text("got          ", got);
        tap_print_text("unwanted part", part);
    }
    return held;
}

static inline bool tap_begins(
        tap_text got, tap_text head, const char *text, const char *file, int line)
{
    bool held = !got.is_null && got.str.len >= head.str.len &&
            pal_str_equal(pal_str_make(got.str.data, head.str.len), head.str);

    if (!tap_check(held, text, file, line)) {
        tap_print_text("got         ", got);
        tap_print_text("wanted start", head);
    }
    return held;
}

static inline bool tap_differ(tap_text a, tap_text b, const char *text, const char *file, int line)
{
    bool held = a.is_null != b.is_null || !pal_str_equal(a.str, b.str);

    if (!tap_check(held, text, file, line))
        tap_print_text("both are", a);
    return held;
}

static inline bool tap_same_id(
        pal_id got, pal_id wanted, const char *text, const char *file, int line)
{
    bool held = pal_id_equal(got, wanted);

    if (!tap_check(held, text, file, line)) {
        char id[PAL_ID_TEXT_SIZE];

        pal_id_to_text(got, id);
        printf("#   got    %s\n", id);
        pal_id_to_text(wanted, id);
        printf("#   wanted %s\n", id);
    }
    return held;
}

/* ---- Statuses ---- */

#define TAP_STATUS(text, got, wanted, err, ...)                                                    \
    tap_status(got, wanted, err, text, __FILE__, __LINE__)

static inline bool tap_status(pal_status got, pal_status wanted, const pal_error *err,
        const char *text, const char *file, int line)
{
    if (!tap_check(got == wanted, text, file, line)) {
        printf("#   got    %s%s%s\n", pal_status_name(got), got && err ? ": " : "",
                got && err ? err->message : "");
        printf("#   wanted %s\n", pal_status_name(wanted));
    }
    return got == wanted;
}

static inline bool tap_status_either(pal_status got, pal_status one, pal_status other,
        const char *text, const char *file, int line)
{
    bool held = got == one || got == other;

    if (!tap_check(held, text, file, line))
        printf("#   got    %s\n#   wanted %s or %s\n", pal_status_name(got), pal_status_name(one),
                pal_status_name(other));
    return held;
}

static inline bool tap_fails(pal_status got, pal_status wanted, const pal_error *err,
        const char *part, const char *text, const char *file, int line)
{
    bool held = got == wanted && strstr(err->message, part);

    if (!tap_check(held, text, file, line)) {
        printf("#   got    %s%s%s\n", pal_status_name(got), got ? ": " : "",
                got ? err->message : "");
        printf("#   wanted %s: ...%s...\n", pal_status_name(wanted), part);
    }
    return held;
}

#endif
