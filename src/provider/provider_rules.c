/* provider_rules.c - the meaning of a service's error: whether and when the same request can be
 * sent again, and whether it was too long. Pure functions: any thread. */
#include "provider/provider.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "base/clock.h"
#include "base/text.h"

#define FIRST_DELAY_MS 2000
#define DELAY_MS_MAX 30000
#define JITTER_MAX 0.25
#define ASKED_MS_MAX INT64_C(2147483647)

/* ---- When to retry ---- */

int64_t pal_retry_delay_ms(uint32_t attempt, int64_t retry_after_ms, double jitter)
{
    if (retry_after_ms >= 0)
        return retry_after_ms < ASKED_MS_MAX ? retry_after_ms : ASKED_MS_MAX;
    double delay = FIRST_DELAY_MS;
    for (uint32_t i = 1; i < attempt && delay < DELAY_MS_MAX; i++)
        delay *= 2;
    if (jitter > 0)
        delay *= 1 + JITTER_MAX * (jitter < 1 ? jitter : 1);
    return delay < DELAY_MS_MAX ? (int64_t)delay : DELAY_MS_MAX;
}

/* Reads a non-negative decimal number, times `scale`, rounded up. Returns -1 if the text is not
 * such a number. */
static int64_t read_number(pal_str text, double scale)
{
    char copy[64], *end;
    text = pal_text_trim(text);
    if (text.len == 0 || text.len >= sizeof copy)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if ((text.data[i] < '0' || text.data[i] > '9') && text.data[i] != '.')
            return -1;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    double number = strtod(copy, &end) * scale;
    if (end != copy + text.len || !(number >= 0))
        return -1;
    return number < (double)ASKED_MS_MAX ? (int64_t)ceil(number) : ASKED_MS_MAX;
}

#define WORDS_MAX 6

/* Splits a date into words, which are separated by blanks, commas and hyphens. */
static size_t split(pal_str text, pal_str words[WORDS_MAX])
{
    size_t len = 0, at = 0;
    while (at < text.len && len < WORDS_MAX) {
        size_t from = at;
        while (at < text.len && !strchr(" ,-", text.data[at]))
            at++;
        if (at > from)
            words[len++] = pal_str_make(text.data + from, at - from);
        else
            at++;
    }
    return len;
}

static int read_digits(pal_str text)
{
    int number = 0;
    if (text.len == 0 || text.len > 4)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        number = number * 10 + (text.data[i] - '0');
    }
    return number;
}

static int read_month(pal_str text)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int i = 0; i < 12; i++) {
        if (text.len == 3 && memcmp(text.data, names + i * 3, 3) == 0)
            return i;
    }
    return -1;
}

static bool read_clock(pal_str text, struct tm *out)
{
    if (text.len != 8 || text.data[2] != ':' || text.data[5] != ':')
        return false;
    out->tm_hour = read_digits(pal_str_make(text.data, 2));
    out->tm_min = read_digits(pal_str_make(text.data + 3, 2));
    out->tm_sec = read_digits(pal_str_make(text.data + 6, 2));
    return out->tm_hour >= 0 && out->tm_min >= 0 && out->tm_sec >= 0;
}

/* The three forms of RFC 9110: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT"
 * and "Sun Nov  6 08:49:37 1994". */
static bool read_http_date(pal_str text, int64_t *out_ms)
{
    pal_str words[WORDS_MAX];
    struct tm tm = {0};
    if (split(text, words) < 5)
        return false;
    bool is_asctime = read_month(words[1]) >= 0;
    tm.tm_mon = read_month(words[is_asctime ? 1 : 2]);
    tm.tm_mday = read_digits(words[is_asctime ? 2 : 1]);
    int year = read_digits(words[is_asctime ? 4 : 3]);
    if (tm.tm_mon < 0 || tm.tm_mday < 1 || year < 0 || !read_clock(words[is_asctime ? 3 : 4], &tm))
        return false;
    if (year < 100)
        year += year < 70 ? 2000 : 1900;
    tm.tm_year = year - 1900;
    *out_ms = (int64_t)timegm(&tm) * 1000;
    return true;
}

int64_t pal_retry_after_ms(pal_str retry_after_ms, pal_str retry_after, int64_t now_ms)
{
    int64_t ms = read_number(retry_after_ms, 1), at;
    if (ms < 0)
        ms = read_number(retry_after, 1000);
    if (ms >= 0)
        return ms;
    /* A date in the past is ignored. */
    if ((!read_http_date(retry_after, &at) &&
                !pal_time_from_text(pal_text_trim(retry_after), &at)) ||
            at <= now_ms)
        return -1;
    return at - now_ms < ASKED_MS_MAX ? at - now_ms : ASKED_MS_MAX;
}

/* ---- Matching texts ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

#define GAP_MAX 100 /* maximum number of bytes that a '*' matches */

/* Returns whether the text begins like the pattern, which is in lower case. '*' matches anything up
 * to GAP_MAX bytes, '#' a number, and '_' a blank, a hyphen or an underscore. */
static bool begins(pal_str text, const char *pattern)
{
    size_t at = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '*') {
            for (size_t gap = 0; gap <= GAP_MAX && at + gap <= text.len; gap++) {
                if (begins(pal_str_make(text.data + at + gap, text.len - at - gap), pattern + 1))
                    return true;
            }
            return false;
        }
        if (at == text.len)
            return false;
        if (*pattern == '#') {
            if (!is_digit(text.data[at]))
                return false;
            while (at < text.len && (is_digit(text.data[at]) || text.data[at] == ','))
                at++;
            continue;
        }
        char c = lower(text.data[at++]);
        if (*pattern == '_' ? !strchr(" -_", c) || !c : c != *pattern)
            return false;
    }
    return true;
}

static bool contains(pal_str text, const char *pattern)
{
    for (size_t at = 0; at < text.len; at++) {
        if (begins(pal_str_make(text.data + at, text.len - at), pattern))
            return true;
    }
    return false;
}

static bool contains_any(pal_str text, const char *const *patterns)
{
    for (; *patterns; patterns++) {
        if (contains(text, *patterns))
            return true;
    }
    return false;
}

/* ---- Context overflow ---- */

static const char *const overflow_texts[] = {
        "prompt is too long",
        "request_too_large",
        "input is too long for requested model",
        "exceeds the context window",
        "maximum context length of #",
        "maximum context length of (#",
        "input token count*exceeds the maximum",
        "tokens in request more than max tokens allowed",
        "maximum prompt length is #",
        "reduce the length of the messages",
        "maximum context length is #",
        "maximum allowed input length of #",
        "is longer than the model's context length",
        "exceeds the limit of #",
        "exceeds the available context size",
        "greater than the context length",
        "context window exceeds limit",
        "exceeded model token limit",
        "context_length_exceeded",
        "request entity too large",
        "context length is only #",
        "input length*exceeds*context length",
        "prompt too long*context length",
        "too large for model with # maximum context length",
        "but the configured context size is #",
        "model_context_window_exceeded",
        "exceed_context_size",
        "too many tokens",
        "token limit exceeded",
        NULL,
};

/* These texts are about a rate limit, not about the length of one request. */
static const char *const not_overflow_texts[] = {"rate limit", "too many requests", NULL};

bool pal_error_is_overflow(long code, pal_str error_code, pal_str text)
{
    if (contains_any(text, not_overflow_texts) || begins(text, "throttling error:") ||
            begins(text, "service unavailable:") || code == 429)
        return false;
    if (code == 413 || contains_any(error_code, overflow_texts))
        return true;
    return contains_any(text, overflow_texts) || begins(text, "400 status code (no body)") ||
            begins(text, "413 status code (no body)") || begins(text, "400 (no body)") ||
            begins(text, "413 (no body)");
}

/* ---- Retries ---- */

/* These texts mean a transient failure, whatever the HTTP code is. */
static const char *const passing_texts[] = {
        "overloaded",
        "rate_limit",
        "ratelimit",
        "too_many_requests",
        "server_error",
        "internal_error",
        "api_error",
        "service_unavailable",
        "temporarily_unavailable",
        "resource_exhausted",
        "bad_gateway",
        "gateway_time",
        "connection refused",
        "connection reset",
        "econnrefused",
        "econnreset",
        "etimedout",
        "eai_again",
        "fetch failed",
        "failed to fetch",
        "socket hang up",
        "retry your request",
        "try your request again",
        "provider returned error",
        NULL,
};

/* If the service rejects a request, these texts may be about the request itself. */
static const char *const vague_texts[] = {
        "timeout",
        "timed out",
        "time_out",
        "terminated",
        "unavailable",
        "exhausted",
        "network error",
        "broken pipe",
        "unexpected eof",
        NULL,
};

/* Retrying never helps against these, whatever else the text contains. */
static const char *const lasting_texts[] = {
        "insufficient_quota", "billing_hard_limit", "no more recorded responses", NULL};

static bool is_passing_code(long code)
{
    return code == 408 || code == 425 || code == 429 || (code >= 500 && code <= 599);
}

/* Returns whether the text contains an HTTP code of a transient failure as a separate number:
 * "status 502", not "15002". */
static bool names_passing_code(pal_str text)
{
    for (size_t at = 0; at < text.len;) {
        size_t from = at;
        while (at < text.len && is_digit(text.data[at]))
            at++;
        if (at - from == 3 && is_passing_code(read_digits(pal_str_make(text.data + from, 3))))
            return true;
        at += at == from;
    }
    return false;
}

bool pal_error_is_retryable(long code, pal_str error_code, pal_str text)
{
    if (contains_any(error_code, lasting_texts) || contains_any(text, lasting_texts) ||
            pal_error_is_overflow(code, error_code, text))
        return false;
    if (is_passing_code(code))
        return true;
    if (code >= 401 && code <= 404)
        return false;
    if (contains_any(error_code, passing_texts) || contains_any(text, passing_texts))
        return true;
    return code < 400 &&
            (contains_any(text, vague_texts) || names_passing_code(error_code) ||
                    names_passing_code(text));
}
