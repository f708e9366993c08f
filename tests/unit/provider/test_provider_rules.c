/* test_provider_rules.c - when a request may be repeated, by the vectors of two systems. Rows in
 * which they disagree with each other or with us are listed here with the reason; a row that
 * differs without being listed fails. */
#include <stdlib.h>
#include "base/json/json.h"
#include "provider/provider.h"
#include "support/tap.h"
#include "support/vectors.h"

#define NOW INT64_C(784111777000) /* Sun, 06 Nov 1994 08:49:37 GMT */

static pal_arena *arena;

static pal_str string(pal_json object, const char *name)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

static int64_t integer(pal_json object, const char *name)
{
    int64_t number = INT64_MIN;
    pal_json_i64(pal_json_find(object, name), &number);
    return number;
}

static pal_str none;

/* ---- Delays ---- */

static void delays_equal_those_of_sol(void)
{
    static const struct {
        const char *header;
        int64_t ours; /* if it differs from sol's */
        const char *why;
    } differs[] = {
            {"-5", 8000, "a negative delay is ignored"},
            {"1.5", 1500, "fractions of seconds are read"},
    };
    size_t rows = 0;
    pal_json row, delays = pal_json_find(vectors_load(arena, "retry_sol.json"), "delays");
    for (pal_json_iter iter = pal_json_each(delays); pal_json_next(&iter, NULL, &row); rows++) {
        pal_json header = pal_json_find(row, "header");
        int64_t expected = integer(row, "ms");
        pal_str after = string(header, "Retry-After"), after_ms = string(header, "Retry-After-Ms");
        if (pal_json_type_of(header) == PAL_JSON_STRING) {
            /* A date in the past: sol waits for a negative time, we wait as if there were no
             * header. */
            after = pal_str_of("Sun, 06 Nov 1994 08:49:32 GMT");
            expected = 2000;
        }
        for (size_t i = 0; i < 2; i++) {
            if (pal_str_is(after, differs[i].header))
                expected = differs[i].ours;
        }
        if (after_ms.len)
            expected = 1500; /* sol does not read it; the design does */
        int64_t asked = pal_retry_after_ms(after_ms, after, NOW);
        CHECK_EQ(pal_retry_delay_ms((uint32_t)integer(row, "attempt"), asked, 0), expected);
    }
    CHECK_EQ(rows, 16);
}

static void delays_equal_those_of_opencode(void)
{
    size_t rows = 0;
    pal_json row, delays = pal_json_find(vectors_load(arena, "opencode_retry.json"), "delays");
    for (pal_json_iter iter = pal_json_each(delays); pal_json_next(&iter, NULL, &row); rows++) {
        pal_json headers = pal_json_find(row, "headers");
        pal_str after = string(headers, "retry-after");
        int64_t expected = integer(row, "ms");
        double jitter = 0;
        pal_json_f64(pal_json_find(row, "random"), &jitter);
        if (after.len && after.data[0] == '<')
            after = pal_str_of("Sun, 06 Nov 1994 08:49:32 GMT");
        /* There, any header removes the limit of 30 s; the design has no such rule. */
        if (string(headers, "content-type").len)
            expected = 30000;
        int64_t asked = pal_retry_after_ms(string(headers, "retry-after-ms"), after, NOW);
        CHECK_EQ(pal_retry_delay_ms((uint32_t)integer(row, "attempt"), asked, jitter), expected);
    }
    CHECK_EQ(rows, 18);
}

static int64_t asked(const char *after)
{
    return pal_retry_after_ms(none, pal_str_of(after), NOW);
}

static void retry_after_has_many_forms(void)
{
    CHECK_EQ(asked("Sun, 06 Nov 1994 08:49:42 GMT"), 5000);
    CHECK_EQ(asked("Sunday, 06-Nov-94 08:49:42 GMT"), 5000);
    CHECK_EQ(asked("Sun Nov  6 08:49:42 1994"), 5000);
    CHECK_EQ(asked("1994-11-06T08:49:42Z"), 5000);
    CHECK_EQ(asked("Mon, 07 Nov 1994 08:49:37 GMT"), 86400000);
    CHECK_EQ(asked(" 3 "), 3000);
    CHECK_EQ(asked("0.0001"), 1);
    CHECK_EQ(asked("99999999999999999999"), INT64_C(2147483647));
    CHECK_EQ(asked("Sun, 06 Nov 1994 08:49:36 GMT"), -1);
    CHECK_EQ(asked(""), -1);
    CHECK_EQ(asked("1e3"), -1);
    CHECK_EQ(asked("nan"), -1);
    CHECK_EQ(asked("0x10"), -1);
    CHECK_EQ(asked("1.2.3"), -1);
    CHECK_EQ(asked("Sun, 99 Foo 1994 08:49:42 GMT"), -1);
    CHECK_EQ(asked("Sun, 06 Nov 1994"), -1);
    CHECK_EQ(asked("Sun, 06 Nov 1994 aa:bb:cc GMT"), -1);
    CHECK_EQ(pal_retry_after_ms(pal_str_of("250.5"), pal_str_of("9"), NOW), 251);
    CHECK_EQ(pal_retry_after_ms(pal_str_of("-1"), pal_str_of("9"), NOW), 9000);
}

static void delays_are_limited(void)
{
    CHECK_EQ(pal_retry_delay_ms(0, -1, 0), 2000);
    CHECK_EQ(pal_retry_delay_ms(UINT32_MAX, -1, 1), 30000);
    CHECK_EQ(pal_retry_delay_ms(1, -1, -7), 2000);
    CHECK_EQ(pal_retry_delay_ms(1, -1, 7), 2500);
    CHECK_EQ(pal_retry_delay_ms(1, INT64_MAX, 0), INT64_C(2147483647));
    CHECK_EQ(pal_retry_delay_ms(3, 1, 1), 1);
}

/* ---- Once more ---- */

static void retries_equal_those_of_sol(void)
{
    /* Its gaps: the design includes 5xx, and a service that is unavailable. */
    static const char *const differs[] = {"status 500", "Service Unavailable"};
    size_t rows = 0, differing = 0;
    pal_json row, list = pal_json_find(vectors_load(arena, "retry_sol.json"), "retryable");
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &row); rows++) {
        pal_str text = string(row, "error");
        bool theirs = string(row, "reason").len > 0, ours = pal_error_is_retryable(0, none, text);
        bool listed = pal_str_is(text, differs[0]) || pal_str_is(text, differs[1]);
        differing += theirs != ours;
        if (!CHECK_EQ((theirs != ours), listed))
            printf("# %.*s\n", PAL_STR_ARG(text));
    }
    CHECK_EQ(rows, 14);
    CHECK_EQ(differing, 2);
}

static void retries_equal_those_of_opencode(void)
{
    /* "i/o timeout" is a network error, as in sol; "15002" does not name an HTTP code. */
    static const char *const differs[] = {"i/o timeout", "order 15002 rejected"};
    size_t rows = 0, differing = 0;
    pal_json row,
            list = pal_json_find(
                    vectors_load(arena, "opencode_retry.json"), "unknown_error_messages");
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &row); rows++) {
        pal_str text = string(row, "message");
        bool theirs = pal_json_type_of(pal_json_find(row, "retry_reason")) == PAL_JSON_STRING;
        bool ours = pal_error_is_retryable(0, none, text);
        bool listed = pal_str_is(text, differs[0]) || pal_str_is(text, differs[1]);
        differing += theirs != ours;
        if (!CHECK_EQ((theirs != ours), listed))
            printf("# %.*s\n", PAL_STR_ARG(text));
    }
    CHECK_EQ(rows, 28);
    CHECK_EQ(differing, 2);
}

static void codes_are_classified_like_in_opencode(void)
{
    size_t rows = 0;
    pal_json row,
            list = pal_json_find(vectors_load(arena, "opencode_retry.json"), "api_error_cases");
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &row); rows++) {
        int64_t code = integer(row, "status");
        bool theirs = false;
        pal_str body = string(row, "body");
        if (code == INT64_MIN)
            continue; /* an overflow, see below */
        pal_json_bool(pal_json_find(row, "retry"), &theirs);
        /* A missing model will not appear. */
        if (code == 404)
            theirs = false;
        CHECK_EQ(pal_error_is_retryable((long)code, none, body.len ? body : string(row, "message")),
                theirs);
    }
    CHECK_EQ(rows, 7);
}

static bool again(long code, const char *error_code, const char *text)
{
    return pal_error_is_retryable(code, pal_str_of(error_code), pal_str_of(text));
}

static void codes_decide_first(void)
{
    CHECK(again(429, "", ""));
    CHECK(again(500, "", ""));
    CHECK(again(529, "", ""));
    CHECK(again(408, "", ""));
    CHECK(again(599, "", ""));
    CHECK(!again(400, "", ""));
    CHECK(!again(401, "", "overloaded"));
    CHECK(!again(404, "", "timeout"));
    CHECK(!again(422, "", "the parameter 'timeout' is out of range"));
    CHECK(!again(400, "", "max_tokens must be below 500"));
    CHECK(again(200, "", "upstream said 503"));
    CHECK(again(200, "502", "x"));
    CHECK(again(200, "overloaded_error", "x"));
    CHECK(again(400, "rate_limit_exceeded", "x"));
    CHECK(!again(429, "insufficient_quota", "You exceeded your current quota"));
    CHECK(!again(500, "context_length_exceeded", "x"));
    CHECK(!again(413, "", ""));
    CHECK(!again(0, "", ""));
}

/* ---- Too long ---- */

static void overflows_are_detected_like_in_opencode(void)
{
    size_t rows = 0;
    pal_json row,
            list = pal_json_find(
                    vectors_load(arena, "opencode_retry.json"), "context_overflow_messages");
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &row); rows++) {
        bool theirs = false;
        pal_str text = string(row, "message");
        pal_json_bool(pal_json_find(row, "overflow"), &theirs);
        if (!CHECK_EQ(pal_error_is_overflow(400, none, text), theirs))
            printf("# %.*s\n", PAL_STR_ARG(text));
        if (theirs)
            CHECK(!pal_error_is_retryable(500, none, text));
    }
    CHECK_EQ(rows, 14);
}

/* One row for each phrase that the vectors only describe. */
static void phrases_of_an_overflow_are_known(void)
{
    static const char *const texts[] = {
            "Request_Too_Large: x",
            "Input is too long for requested model.",
            "This endpoint exceeds the model's maximum context length of 4,096 tokens",
            "exceeds the maximum context length of (4096)",
            "The maximum prompt length is 131072 but the request has 537812",
            "exceeds maximum allowed input length of 1000 tokens",
            "The input (1000 tokens) is longer than the model's context length (999 tokens)",
            "prompt token count of 9 exceeds the limit of 8",
            "the request exceeds the available context size, try increasing it",
            "tokens is greater than the context length",
            "context window exceeds limit",
            "Your request exceeded model token limit: 8",
            "Context Length Exceeded",
            "but the context length is only 4096 tokens",
            "input length and max_tokens exceeds the context length",
            "prompt too long; exceeded max context length by 4 tokens",
            "too large for model with 4096 maximum context length",
            "prompt has 9 tokens, but the configured context size is 8 tokens",
            "token limit exceeded",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!CHECK(pal_error_is_overflow(400, none, pal_str_of(texts[i]))))
            printf("# %s\n", texts[i]);
    }
    CHECK(pal_error_is_overflow(413, none, none));
    CHECK(pal_error_is_overflow(500, pal_str_of("context_length_exceeded"), none));
    CHECK(!pal_error_is_overflow(429, none, pal_str_of("too many tokens")));
    CHECK(!pal_error_is_overflow(400, none, pal_str_of("Throttling error: too many tokens")));
    CHECK(!pal_error_is_overflow(413, none, pal_str_of("Too many requests: prompt is too long")));
    CHECK(!pal_error_is_overflow(400, none, none));
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(delays_equal_those_of_sol);
    RUN(delays_equal_those_of_opencode);
    RUN(retry_after_has_many_forms);
    RUN(delays_are_limited);
    RUN(retries_equal_those_of_sol);
    RUN(retries_equal_those_of_opencode);
    RUN(codes_are_classified_like_in_opencode);
    RUN(codes_decide_first);
    RUN(overflows_are_detected_like_in_opencode);
    RUN(phrases_of_an_overflow_are_known);
    pal_arena_free(arena);
    return tap_done();
}
