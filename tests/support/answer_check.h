/* answer_check.h - feeds a recorded response to a reader: complete, cut in two at every byte, and
 * byte by byte. The reported events must always be the same. */
#ifndef PAL_TESTS_ANSWER_CHECK_H
#define PAL_TESTS_ANSWER_CHECK_H

#include "base/memory.h"
#include "support/answer_log.h"
#include "support/tap.h"

typedef struct answer_case {
    const pal_reader_kind *kind;
    long code;                /* 0 means 200 */
    const char *content_type; /* NULL if the header is missing */
    const char *retry_after;
    pal_status http; /* how the transfer ended */
    const char *http_error;
} answer_case;

static pal_arena *answer_scratch;

/* Feeds `bytes` in pieces of `step` bytes; the first piece has `first` bytes. */
static void answer_run(
        const answer_case *in, pal_str bytes, size_t first, size_t step, answer_log *log)
{
    pal_reader reader;
    pal_http_end end = {.status = in->http, .code = in->code ? in->code : 200};
    log_init(log);
    if (in->http_error)
        snprintf(end.error, sizeof end.error, "%s", in->http_error);
    if (!answer_scratch)
        answer_scratch = pal_arena_new(0);
    pal_reader_init(&reader, in->kind, answer_scratch, &log_sink, log);
    pal_header headers[2];
    pal_http_head head = {.code = end.code, .headers = headers};
    if (in->content_type)
        headers[head.headers_len++] = (pal_header){
                pal_str_of("content-type"), pal_str_of(in->content_type)};
    if (in->retry_after)
        headers[head.headers_len++] =
                (pal_header){pal_str_of("retry-after"), pal_str_of(in->retry_after)};
    pal_reader_head(&reader, &head);
    for (size_t at = 0, len = first; at < bytes.len; at += len, len = step) {
        if (len == 0 || len > bytes.len - at)
            len = len ? bytes.len - at : step;
        len = len > bytes.len - at ? bytes.len - at : len;
        pal_reader_feed(&reader, pal_str_make(bytes.data + at, len));
    }
    pal_reader_finish(&reader, &end);
    log_end(log, &reader.answer.end);
    pal_reader_done(&reader);
}

static bool answer_is(
        const answer_case *in, pal_str bytes, size_t first, size_t step, const char *expected)
{
    answer_log log;
    answer_run(in, bytes, first, step, &log);
    bool same = pal_str_is(pal_buf_str(&log.text), expected);
    if (!same)
        printf("# cut at %zu, then %zu\n# expected %s\n# found    %.*s\n", first, step, expected,
                PAL_STR_ARG(pal_buf_str(&log.text)));
    log_done(&log);
    return same;
}

/* `bytes` may contain NULs. */
static inline bool answer_always(const answer_case *in, pal_str bytes, const char *expected)
{
    bool same = answer_is(in, bytes, bytes.len + 1, 1, expected);
    for (size_t cut = 1; same && cut < bytes.len; cut++)
        same = answer_is(in, bytes, cut, bytes.len, expected);
    return same && answer_is(in, bytes, 1, 1, expected) && answer_is(in, bytes, 7, 7, expected);
}

/* Feeds the response while the first, second, third ... allocation fails: the result is the same,
 * or the status is PAL_NO_MEMORY. */
static inline bool answer_starves(const answer_case *in, const char *bytes)
{
    answer_log log;
    answer_run(in, pal_str_of(bytes), 5, 5, &log);
    pal_status expected = log.end.status;
    uint64_t nth = 1;
    log_done(&log);
    pal_arena_free(answer_scratch);
    answer_scratch = NULL;
    for (bool failed = true; failed; nth++) {
        answer_scratch = pal_arena_new(0);
        pal_memory_fail_at(nth, 0);
        answer_run(in, pal_str_of(bytes), 5, 5, &log);
        failed = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        pal_status status = log.end.status;
        log_done(&log);
        pal_arena_free(answer_scratch);
        answer_scratch = NULL;
        if (status != expected && status != PAL_NO_MEMORY) {
            printf("# allocation %d: %s\n", (int)nth, pal_status_name(status));
            return false;
        }
    }
    return nth > 3;
}

static inline bool answer_reads_as(const answer_case *in, const char *bytes, const char *expected)
{
    return answer_always(in, pal_str_of(bytes), expected);
}

#endif
