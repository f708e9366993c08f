/* json_number.c - converts JSON numbers to C types, exactly or not at all.
 *
 * The text of a number is treated as digits times a power of ten, without leading and trailing
 * zeros, so that 1, 1.0, 10e-1 and 1e0 are the same. Integers are made from that. Doubles are made
 * by strtod() in the "C" locale, because the process may use a locale that writes a comma. */
#include "base/json/json.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json/json_node.h"

/* The number of digits that can decide how a double is rounded. Of the digits after these, it only
 * matters whether one of them is not zero. */
#define DIGITS_MAX 800
#define EXPONENT_MAX INT64_C(1000000000000) /* far larger than any exponent that the digits of a 1
                                               GiB text could balance */

typedef struct decimal {
    bool negative;
    pal_str whole;    /* digits before the point */
    pal_str fraction; /* digits after the point; may be empty */
    int64_t exponent;
    size_t first; /* index in whole + fraction of the first digit that is not zero */
    size_t last;  /* index after the last digit that is not zero; equals first if the number is
                     zero */
} decimal;

static pal_str take_digits(const char **p, const char *end)
{
    const char *start = *p;
    while (*p < end && **p >= '0' && **p <= '9')
        ++*p;
    return pal_str_make(start, (size_t)(*p - start));
}

static char digit_at(const decimal *d, size_t i)
{
    return i < d->whole.len ? d->whole.data[i] : d->fraction.data[i - d->whole.len];
}

static int64_t read_exponent(const char *p, const char *end)
{
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    int64_t exponent = 0;
    for (; p < end && exponent < EXPONENT_MAX; p++)
        exponent = exponent * 10 + (*p - '0');
    return negative ? -exponent : exponent;
}

/* `text` must be a valid JSON number. */
static decimal split(pal_str text)
{
    decimal d = {0};
    const char *p = text.data, *end = p + text.len;
    d.negative = *p == '-';
    p += d.negative;
    d.whole = take_digits(&p, end);
    d.fraction = pal_str_make(p, 0);
    if (p < end && *p == '.') {
        p++;
        d.fraction = take_digits(&p, end);
    }
    if (p < end)
        d.exponent = read_exponent(p + 1, end);

    d.last = d.whole.len + d.fraction.len;
    while (d.first < d.last && digit_at(&d, d.first) == '0')
        d.first++;
    while (d.last > d.first && digit_at(&d, d.last - 1) == '0')
        d.last--;
    return d;
}

/* Returns the power of ten of the last digit that is not zero. */
static int64_t last_power(const decimal *d)
{
    return d->exponent + (int64_t)d->whole.len - (int64_t)d->last;
}

/* Returns false if the number has a fraction or is greater than UINT64_MAX. */
static bool magnitude_of(const decimal *d, uint64_t *out_number)
{
    uint64_t number = 0;
    if (d->first < d->last) {
        int64_t zeros = last_power(d);
        if (zeros < 0 || zeros > 20 || d->last - d->first > 20)
            return false;
        for (size_t i = d->first; i < d->last; i++) {
            unsigned digit = (unsigned)(digit_at(d, i) - '0');
            if (__builtin_mul_overflow(number, 10u, &number) ||
                    __builtin_add_overflow(number, digit, &number))
                return false;
        }
        for (; zeros; zeros--) {
            if (__builtin_mul_overflow(number, 10u, &number))
                return false;
        }
    }
    *out_number = number;
    return true;
}

bool pal_json_u64(pal_json value, uint64_t *out_number)
{
    uint64_t magnitude;
    if (pal_json_type_of(value) != PAL_JSON_NUMBER)
        return false;
    decimal d = split(pal_json_raw(value));
    if (!magnitude_of(&d, &magnitude) || (d.negative && magnitude))
        return false;
    *out_number = magnitude;
    return true;
}

bool pal_json_i64(pal_json value, int64_t *out_number)
{
    uint64_t magnitude;
    if (pal_json_type_of(value) != PAL_JSON_NUMBER)
        return false;
    decimal d = split(pal_json_raw(value));
    if (!magnitude_of(&d, &magnitude) || magnitude > (uint64_t)INT64_MAX + d.negative)
        return false;
    *out_number = (int64_t)(d.negative ? 0 - magnitude : magnitude);
    return true;
}

/* ---- Doubles ---- */

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    /* The "C" locale is built in, so this cannot fail for lack of a file. */
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static double double_of_text(const char *text)
{
    pthread_once(&c_locale_once, make_c_locale);
    return strtod_l(text, NULL, c_locale);
}

/* The result is exact if the digits fit the 53 bits of a double and the power of ten is exact too:
 * then only one rounding is made, and it is the correct one. */
static bool double_is_quick(const decimal *d, double *out_number)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int64_t power = d->first < d->last ? last_power(d) : 0;
    if (d->last - d->first > 15 || power < -22 || power > 22)
        return false;
    uint64_t digits = 0;
    for (size_t i = d->first; i < d->last; i++)
        digits = digits * 10 + (unsigned)(digit_at(d, i) - '0');
    double number = (double)digits;
    number = power < 0 ? number / powers[-power] : number * powers[power];
    *out_number = d->negative ? -number : number;
    return true;
}

static double double_of(const decimal *d)
{
    char text[DIGITS_MAX + 64], *p = text;
    int64_t power = last_power(d);
    size_t kept = d->last - d->first;
    if (d->negative)
        *p++ = '-';
    if (kept > DIGITS_MAX) {
        power += (int64_t)(kept - DIGITS_MAX - 1);
        kept = DIGITS_MAX;
    }
    for (size_t i = 0; i < kept; i++)
        *p++ = digit_at(d, d->first + i);
    if (kept < d->last - d->first)
        *p++ = '1'; /* represents all the omitted digits */
    snprintf(p, 32, "e%lld", (long long)power);
    return double_of_text(text);
}

bool pal_json_f64(pal_json value, double *out_number)
{
    if (pal_json_type_of(value) != PAL_JSON_NUMBER)
        return false;
    double number;
    decimal d = split(pal_json_raw(value));
    if (!double_is_quick(&d, &number))
        number = double_of(&d);
    if (isinf(number))
        return false;
    *out_number = number;
    return true;
}

bool pal_json_number_equal(pal_json a, pal_json b)
{
    int64_t i_a, i_b;
    if (pal_json_i64(a, &i_a) && pal_json_i64(b, &i_b))
        return i_a == i_b;
    uint64_t u_a, u_b;
    if (pal_json_u64(a, &u_a) && pal_json_u64(b, &u_b))
        return u_a == u_b;
    double f_a, f_b;
    if (pal_json_f64(a, &f_a) && pal_json_f64(b, &f_b))
        return f_a == f_b;
    return pal_str_equal(pal_json_raw(a), pal_json_raw(b));
}

size_t pal_json_f64_text(double number, char out_text[PAL_JSON_F64_SIZE])
{
    pthread_once(&c_locale_once, make_c_locale);
    locale_t before = uselocale(c_locale);
    int len = 0;
    for (int digits = 15; digits <= 17; digits++) {
        len = snprintf(out_text, PAL_JSON_F64_SIZE, "%.*g", digits, number);
        if (strtod_l(out_text, NULL, c_locale) == number)
            break;
    }
    uselocale(before);
    return (size_t)len;
}
