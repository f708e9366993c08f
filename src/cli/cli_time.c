/* cli_time.c - reads and prints times for people: "3 min ago", "24h", a date, RFC 3339. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"

typedef struct unit {
    const char *letter; /* the unit in options: "m" */
    const char *name;   /* the unit in output: "min" */
    int64_t ms;
} unit;

/* Smallest unit first. */
static const unit units[] = {
        {"s", "s", 1000},
        {"m", "min", 60 * 1000},
        {"h", "h", 3600 * 1000},
        {"d", "d", 24 * 3600 * 1000LL},
        {"w", "wk", 7 * 24 * 3600 * 1000LL},
};

#define UNITS_LEN (sizeof units / sizeof *units)

void pal_cli_time_relative(pal_buf *buf, int64_t ms, int64_t now_ms)
{
    int64_t age = now_ms - ms;
    bool future = age < 0;
    size_t best = 0;
    if (future)
        age = -age;
    if (age < 5000 && !future) {
        pal_buf_append_text(buf, "just now");
        return;
    }
    /* Weeks are used only from two on: "9 d ago" is more precise than "1 wk ago". */
    for (size_t i = 0; i < UNITS_LEN; i++) {
        if (age >= units[i].ms * (i + 1 == UNITS_LEN ? 2 : 1))
            best = i;
    }
    pal_buf_format(buf, "%s%lld %s%s", future ? "in " : "", (long long)(age / units[best].ms),
            units[best].name, future ? "" : " ago");
}

void pal_cli_time(pal_cli *cli, pal_buf *buf, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    struct tm tm;
    time_t seconds = (time_t)(ms / 1000);
    if (cli->is_terminal && localtime_r(&seconds, &tm)) {
        size_t len = strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
        pal_buf_append(buf, text, len);
        return;
    }
    pal_buf_append(buf, text, pal_time_to_text(ms, text));
}

/* Reads "90s", "15m", "24h", "7d" or "2w". */
static bool duration_from_text(const char *text, int64_t *out_ms)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno || value < 0 || text[0] < '0' || text[0] > '9')
        return false;
    for (size_t i = 0; i < UNITS_LEN; i++) {
        if (strcmp(end, units[i].letter) == 0 && value <= INT64_MAX / 4 / units[i].ms) {
            *out_ms = value * units[i].ms;
            return true;
        }
    }
    return false;
}

/* A date without a time is the beginning of that day in UTC. */
static bool date_from_text(const char *text, int64_t *out_ms)
{
    char whole[PAL_TIME_TEXT_SIZE];
    if (strlen(text) != 10)
        return false;
    snprintf(whole, sizeof whole, "%sT00:00:00Z", text);
    return pal_time_from_text(pal_str_of(whole), out_ms);
}

pal_status pal_cli_time_option(
        pal_cli *cli, const char *option, const char *text, int sign, int64_t *out_ms)
{
    int64_t duration;
    if (duration_from_text(text, &duration)) {
        *out_ms = pal_clock_now_ms() + sign * duration;
        return PAL_OK;
    }
    if (date_from_text(text, out_ms) || pal_time_from_text(pal_str_of(text), out_ms))
        return PAL_OK;
    return pal_cli_usage(cli, "for example 24h, 7d, 2026-11-15 or 2026-11-15T20:47:48Z",
            "--%s must be a time or a duration, not '%.60s'", option, text);
}
