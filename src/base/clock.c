/* clock.c - the wall clock, which tests can stop, and times as text.
 *
 * Dates are in the proleptic Gregorian calendar, counted in days from 1970-01-01. A year is
 * computed as if it began in March, so that the leap day is its last day. All functions can be
 * called from any thread. */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define DAY_MS INT64_C(86400000)
#define TIME_MIN_MS INT64_C(-62167219200000) /* 0000-01-01T00:00:00.000Z */
#define DAYS_OF_ERA 146097                   /* 400 years */
#define DAYS_TO_MARCH 60                     /* days before March 1 of the year 0, which is a leap
                                                year */

static atomic_int_least64_t stopped_at_ms; /* 0 while the real clock is in use */

int64_t pal_clock_machine_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t pal_clock_now_ms(void)
{
    int64_t stopped = atomic_load_explicit(&stopped_at_ms, memory_order_relaxed);

    return stopped ? stopped : pal_clock_machine_ms();
}

int64_t pal_clock_monotonic_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t pal_clock_monotonic_ms(void)
{
    return pal_clock_monotonic_us() / 1000;
}

void pal_clock_set_ms(int64_t now_ms)
{
    atomic_store(&stopped_at_ms, now_ms);
}

static int64_t days_from_date(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_OF_ERA + day_of_era - 719468;
}

/* Converts a day counted from 0000-01-01. The numbers are unsigned and 32 bits wide, because a list
 * of messages has many times and these divisions are faster. */
static void date_from_days(
        uint32_t days, uint32_t *out_year, uint32_t *out_month, uint32_t *out_day)
{
    /* Adds one era, so that January and February of the year 0 fall into an era too. */
    uint32_t shifted = days + DAYS_OF_ERA - DAYS_TO_MARCH;
    uint32_t era = shifted / DAYS_OF_ERA, day_of_era = shifted % DAYS_OF_ERA;
    uint32_t year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t month = (5 * day_of_year + 2) / 153;
    *out_day = day_of_year - (153 * month + 2) / 5 + 1;
    *out_month = month < 10 ? month + 3 : month - 9;
    *out_year = year_of_era + era * 400 - 400 + (*out_month <= 2);
}

/* Writes two digits and the character that follows them. */
static char *put_pair(char *p, uint32_t number, char after)
{
    p[0] = (char)('0' + number / 10);
    p[1] = (char)('0' + number % 10);
    p[2] = after;
    return p + 3;
}

size_t pal_time_to_text(int64_t ms, char out_text[PAL_TIME_TEXT_SIZE])
{
    /* RFC 3339 cannot express years before 0 or after 9999. */
    ms = ms < TIME_MIN_MS ? TIME_MIN_MS : ms > PAL_TIME_MAX_MS ? PAL_TIME_MAX_MS : ms;
    uint64_t since_min = (uint64_t)(ms - TIME_MIN_MS);
    uint32_t in_day = (uint32_t)(since_min % DAY_MS), seconds = in_day / 1000;
    uint32_t year, month, day;
    date_from_days((uint32_t)(since_min / DAY_MS), &year, &month, &day);

    char *p = put_pair(out_text, year / 100, 0) - 1;
    p = put_pair(p, year % 100, '-');
    p = put_pair(p, month, '-');
    p = put_pair(p, day, 'T');
    p = put_pair(p, seconds / 3600, ':');
    p = put_pair(p, seconds / 60 % 60, ':');
    p = put_pair(p, seconds % 60, '.');
    p = put_pair(p, in_day % 1000 / 10, (char)('0' + in_day % 10));
    *p++ = 'Z';
    *p = '\0';
    return (size_t)(p - out_text);
}

/* Reads exactly `count` digits and removes them from the front of the text. */
static bool take_digits(pal_str *text, int count, int *out_number)
{
    if (text->len < (size_t)count)
        return false;
    int number = 0;
    for (int i = 0; i < count; i++) {
        char c = text->data[i];
        if (c < '0' || c > '9')
            return false;
        number = number * 10 + (c - '0');
    }
    *out_number = number;
    *text = pal_str_make(text->data + count, text->len - (size_t)count);
    return true;
}

/* Removes the first character of the text if it is one of the two. */
static bool take_char(pal_str *text, char this_one, char or_this)
{
    if (text->len == 0 || (text->data[0] != this_one && text->data[0] != or_this))
        return false;
    *text = pal_str_make(text->data + 1, text->len - 1);
    return true;
}

static int days_in_month(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

static bool take_date(pal_str *text, int64_t *out_ms)
{
    int year, month, day;
    if (!take_digits(text, 4, &year) || !take_char(text, '-', '-') ||
            !take_digits(text, 2, &month) || !take_char(text, '-', '-') ||
            !take_digits(text, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return false;
    *out_ms = days_from_date(year, month, day) * DAY_MS;
    return true;
}

/* A leap second (":60") is read as the first second after it. */
static bool take_time(pal_str *text, int64_t *out_ms)
{
    int hour, minute, second;
    if (!take_digits(text, 2, &hour) || !take_char(text, ':', ':') ||
            !take_digits(text, 2, &minute) || !take_char(text, ':', ':') ||
            !take_digits(text, 2, &second))
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    *out_ms = ((hour * INT64_C(60) + minute) * 60 + second) * 1000;
    if (!take_char(text, '.', '.'))
        return true;

    int digit, scale = 100;
    if (!take_digits(text, 1, &digit))
        return false;
    do {
        *out_ms += digit * scale;
        scale /= 10;
    } while (take_digits(text, 1, &digit));
    return true;
}

static bool take_offset(pal_str *text, int64_t *out_ms)
{
    *out_ms = 0;
    if (take_char(text, 'Z', 'z'))
        return true;
    bool west = text->len && text->data[0] == '-';
    int hour, minute;
    if (!take_char(text, '+', '-') || !take_digits(text, 2, &hour) || !take_char(text, ':', ':') ||
            !take_digits(text, 2, &minute))
        return false;
    if (hour > 23 || minute > 59)
        return false;
    *out_ms = (hour * INT64_C(60) + minute) * 60000 * (west ? -1 : 1);
    return true;
}

bool pal_time_from_text(pal_str text, int64_t *out_ms)
{
    int64_t date_ms, time_ms, offset_ms;
    if (!take_date(&text, &date_ms) || !take_char(&text, 'T', 't') || !take_time(&text, &time_ms) ||
            !take_offset(&text, &offset_ms) || text.len)
        return false;
    *out_ms = date_ms + time_ms - offset_ms;
    return true;
}
