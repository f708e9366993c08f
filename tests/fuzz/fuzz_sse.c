/* fuzz_sse.c - any bytes as server-sent events: the reader never crashes, and the places where a
 * stream is cut do not matter. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "net/net_sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)
#define EVENT_MAX 256 /* small, so that inputs reach it */

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_sse.c:%d: %s\n", line, text);
    abort();
}

static void gather_str(pal_buf *all, pal_str text)
{
    pal_buf_append_u64(all, text.len);
    pal_buf_append_char(all, ':');
    pal_buf_append_str(all, text);
}

static void gather(const pal_sse_event *event, pal_buf *all)
{
    REQUIRE(event->name.len && event->data.len <= EVENT_MAX && event->retry_ms >= -1);
    REQUIRE(!memchr(event->name.data, '\n', event->name.len));
    REQUIRE(event->id.len == 0 || !memchr(event->id.data, 0, event->id.len));
    gather_str(all, event->name);
    gather_str(all, event->data);
    gather_str(all, event->id);
    pal_buf_append_i64(all, event->retry_ms);
}

/* Feeds pieces of `step` bytes; 0: everything at once. */
static pal_status read_in_steps(pal_str text, size_t step, pal_buf *all)
{
    pal_sse sse;
    pal_status status = PAL_OK;
    pal_buf_init(all, SIZE_MAX / 2);
    pal_sse_init(&sse, EVENT_MAX);
    step = step ? step : text.len;
    for (size_t at = 0; at < text.len && status == PAL_OK; at += step) {
        size_t len = text.len - at < step ? text.len - at : step;
        pal_str piece = pal_str_make(text.data + at, len);
        pal_sse_event event;
        while (pal_sse_next(&sse, &piece, &event))
            gather(&event, all);
        REQUIRE(sse.failure != PAL_OK || piece.len == 0);
        status = sse.failure;
    }
    pal_sse_done(&sse);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_buf whole, pieces;
    pal_str text = pal_str_make((const char *)data, size);
    pal_status status = read_in_steps(text, 0, &whole);
    REQUIRE(status == PAL_OK || status == PAL_LIMIT);
    for (size_t step = 1; step <= 3; step++) {
        REQUIRE(read_in_steps(text, step, &pieces) == status);
        REQUIRE(pal_str_equal(pal_buf_str(&whole), pal_buf_str(&pieces)));
        pal_buf_done(&pieces);
    }
    pal_buf_done(&whole);
    return 0;
}
