/* test_clock.c - the clock, which tests can stop; times as text; and log lines. */
#include <stdint.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "support/tap.h"

static bool writes(int64_t ms, const char *expected)
{
    char text[PAL_TIME_TEXT_SIZE];
    return pal_time_to_text(ms, text) == strlen(expected) && strcmp(text, expected) == 0;
}

static bool reads(const char *text, int64_t expected)
{
    int64_t ms = -1;
    return pal_time_from_text(pal_str_of(text), &ms) && ms == expected;
}

static void the_clock_can_be_stopped(void)
{
    pal_clock_set_ms(1234567);
    CHECK_EQ(pal_clock_now_ms(), 1234567);
    int64_t before = pal_clock_monotonic_us();
    CHECK_THAT(before, >, 0);
    CHECK_THAT(pal_clock_monotonic_us(), >=, before);
    pal_clock_set_ms(0);
    CHECK_THAT(pal_clock_now_ms(), >, INT64_C(1700000000000));
}

static void times_are_written_as_rfc_3339(void)
{
    CHECK(writes(0, "1970-01-01T00:00:00.000Z"));
    CHECK(writes(-1, "1969-12-31T23:59:59.999Z"));
    CHECK(writes(INT64_C(1794775668123), "2026-11-15T20:47:48.123Z"));
    CHECK(writes(INT64_C(951782400000), "2000-02-29T00:00:00.000Z"));
    CHECK(writes(INT64_C(4107542399999), "2100-02-28T23:59:59.999Z"));
    CHECK(writes(INT64_C(4107542400000), "2100-03-01T00:00:00.000Z"));
    CHECK(writes(INT64_MAX, "9999-12-31T23:59:59.999Z"));
    CHECK(writes(INT64_MIN, "0000-01-01T00:00:00.000Z"));
    CHECK(writes(INT64_C(-62162121600001), "0000-02-28T23:59:59.999Z"));
    CHECK(writes(INT64_C(-62162121600000), "0000-02-29T00:00:00.000Z"));
    CHECK(writes(INT64_C(-62162035200000), "0000-03-01T00:00:00.000Z"));
}

static void rfc_3339_times_are_read(void)
{
    CHECK(reads("1970-01-01T00:00:00Z", 0));
    CHECK(reads("2026-11-15T20:47:48.123Z", INT64_C(1794775668123)));
    CHECK(reads("2026-11-15t20:47:48.123999999z", INT64_C(1794775668123)));
    CHECK(reads("2026-11-15T21:47:48.1+01:00", INT64_C(1794775668100)));
    CHECK(reads("2026-11-15T15:17:48.12-05:30", INT64_C(1794775668120)));
    CHECK(reads("1969-12-31T23:59:59.5-00:00", -500));
    CHECK(reads("2016-12-31T23:59:60Z", INT64_C(1483228800000)));
    CHECK(reads("2000-02-29T00:00:00Z", INT64_C(951782400000)));
}

static void other_texts_are_refused(void)
{
    static const char *const bad[] = {
            "",
            "2026",
            "2026-11-15",
            "2026-11-15T20:47Z",
            "2026-11-15T20:47:48",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-00T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-11-15T24:00:00Z",
            "2026-11-15T20:60:00Z",
            "2026-11-15T20:47:61Z",
            "2026-11-15T20:47:48.Z",
            "2026-11-15T20:47:48Zx",
            "2026-11-15T20:47:48+0100",
            "2026-11-15T20:47:48+24:00",
            "2026-11-15T20:47:48+01:60",
            "2026-11-15 20:47:48Z",
            " 2026-11-15T20:47:48Z",
            "+026-11-15T20:47:48Z",
            "2026-1-15T20:47:48Z",
            "2026-11-15T20:47:48.1.2Z",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t ms = 77;
        if (!CHECK(!pal_time_from_text(pal_str_of(bad[i]), &ms)) || !CHECK_EQ(ms, 77))
            printf("# accepted: '%s'\n", bad[i]);
    }
}

static void times_survive_a_round_trip(void)
{
    char text[PAL_TIME_TEXT_SIZE];
    uint64_t random = 1;
    int64_t ms = INT64_C(-62167219200000);
    for (int i = 0; ms <= INT64_C(253402300799999); i++) {
        int64_t read = 0;
        size_t len = pal_time_to_text(ms, text);
        if (!CHECK(pal_time_from_text(pal_str_make(text, len), &read)) || !CHECK_EQ(read, ms))
            printf("# %s\n", text);
        random = random * 6364136223846793005u + 1442695040888963407u;
        ms += (int64_t)(random >> 28); /* up to two years at a time */
    }
}

/* Returns the text that one call adds to the file. */
static void log_to(char *out_text, size_t size, bool as_json, pal_log_level level)
{
    FILE *file = tmpfile();
    if (!CHECK(file != NULL))
        return;
    pal_clock_set_ms(1);
    pal_log_setup(file, PAL_LOG_WARN, as_json);
    pal_log(level, "two\nlines, \"%s\" \x1b[0m \xff", "q\\");
    rewind(file);
    size_t len = fread(out_text, 1, size - 1, file);
    out_text[len] = '\0';
    pal_log_setup(NULL, PAL_LOG_INFO, false);
    pal_clock_set_ms(0);
    fclose(file);
}

static void log_lines_are_complete_and_escaped(void)
{
    char text[256] = "";
    log_to(text, sizeof text, false, PAL_LOG_WARN);
    CHECK_STR(text,
            "1970-01-01T00:00:00.001Z warn two\\u000alines, \"q\\\" \\u001b[0m "
            "\xef\xbf\xbd\n");
    log_to(text, sizeof text, true, PAL_LOG_ERROR);
    CHECK_STR(text,
            "{\"time\":\"1970-01-01T00:00:00.001Z\",\"level\":\"error\",\"message\":"
            "\"two\\u000alines, \\\"q\\\\\\\" \\u001b[0m \xef\xbf\xbd\"}\n");
    log_to(text, sizeof text, false, PAL_LOG_INFO);
    CHECK_EQ(text[0], '\0');
}

static bool logs(bool as_json, const pal_log_field *fields, size_t len, const char *expected)
{
    char text[512] = "";
    FILE *file = tmpfile();
    if (!file)
        return false;
    pal_clock_set_ms(1);
    pal_log_setup(file, PAL_LOG_INFO, as_json);
    pal_log_event(PAL_LOG_INFO, "m", fields, len);
    pal_log_setup(NULL, PAL_LOG_INFO, false);
    pal_clock_set_ms(0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strcmp(text, expected) == 0;
}

static void log_fields_follow_the_message(void)
{
    const pal_log_field fields[] = {
            {.name = "plain", .text = pal_str_of("a\\b")},
            {.name = "none"},
            {.name = "zero", .is_number = true},
            {.name = "least", .number = INT64_MIN, .is_number = true},
            {.name = "odd", .text = pal_str_of("a \"b\\\x7f\xc2\x9f\xc2\xa0\n")},
    };
    CHECK(logs(false, fields, 5,
            "1970-01-01T00:00:00.001Z info m plain=a\\b zero=0 least=-9223372036854775808"
            " odd=\"a \\\"b\\\\\\u007f\\u009f\xc2\xa0\\u000a\"\n"));
    CHECK(logs(true, fields, 5,
            "{\"time\":\"1970-01-01T00:00:00.001Z\",\"level\":\"info\",\"message\":\"m\","
            "\"plain\":\"a\\\\b\",\"zero\":0,\"least\":-9223372036854775808,"
            "\"odd\":\"a \\\"b\\\\\\u007f\\u009f\xc2\xa0\\u000a\"}\n"));
}

static void long_log_messages_are_cut(void)
{
    static char text[20000], message[5000];
    memset(message, 1, sizeof message - 1); /* each takes six bytes */
    FILE *file = tmpfile();
    if (!CHECK(file != NULL))
        return;
    pal_log_setup(file, PAL_LOG_WARN, true);
    pal_log(PAL_LOG_WARN, "%s", message);
    pal_log_setup(NULL, PAL_LOG_INFO, false);
    rewind(file);
    size_t len = fread(text, 1, sizeof text - 1, file);
    CHECK_THAT(len, >, 2000 * 6);
    CHECK_THAT(len, <, 2048 * 6 + 128);
    CHECK_STR(text + len - 3, "\"}\n");
    fclose(file);
}

int main(void)
{
    RUN(the_clock_can_be_stopped);
    RUN(times_are_written_as_rfc_3339);
    RUN(rfc_3339_times_are_read);
    RUN(other_texts_are_refused);
    RUN(times_survive_a_round_trip);
    RUN(log_lines_are_complete_and_escaped);
    RUN(log_fields_follow_the_message);
    RUN(long_log_messages_are_cut);
    return tap_done();
}
