/* test_net_sse.c - server-sent events, complete and cut anywhere. */
#include "base/memory.h"
#include "net/net_sse.h"
#include "support/tap.h"

#define EVENT_MAX 4096

/* All events as one text: "name|id|retry|data" and a line of dashes each. */
static void gather(const pal_sse_event *event, pal_buf *all)
{
    pal_buf_append_str(all, event->name);
    pal_buf_append_char(all, '|');
    pal_buf_append_str(all, event->id);
    pal_buf_format(all, "|%lld|", (long long)event->retry_ms);
    pal_buf_append_str(all, event->data);
    pal_buf_append_char(all, '\n');
}

static pal_status feed(pal_sse *sse, pal_str bytes, pal_buf *all)
{
    pal_sse_event event;
    while (pal_sse_next(sse, &bytes, &event))
        gather(&event, all);
    return sse->failure;
}

/* Feeds pieces that end at `a` and `b`. */
static pal_status read_cut(pal_str text, size_t a, size_t b, size_t max, pal_buf *all)
{
    pal_sse sse;
    const size_t ends[] = {a, b, text.len};
    size_t at = 0;
    pal_status status = PAL_OK;
    pal_sse_init(&sse, max);
    pal_buf_clear(all);
    for (size_t i = 0; i < 3 && status == PAL_OK; at = ends[i++])
        status = feed(&sse, pal_str_make(text.data + at, ends[i] - at), all);
    pal_sse_done(&sse);
    return status;
}

/* However the input is cut, the result is the same. */
static void reads(pal_str text, const char *expected)
{
    pal_buf all;
    pal_buf_init(&all, 1u << 20);
    size_t wrong = 0;
    for (size_t a = 0; a <= text.len; a++) {
        for (size_t b = a; b <= text.len; b++) {
            if (read_cut(text, a, b, EVENT_MAX, &all) || !pal_str_is(pal_buf_str(&all), expected))
                wrong++;
        }
    }
    if (!CHECK_EQ(wrong, 0))
        printf("# %zu wrong, for example '%.*s' for '%s'\n", wrong, PAL_STR_ARG(pal_buf_str(&all)),
                expected);
    pal_buf_done(&all);
}

#define READS(text, expected) reads(pal_str_make(text, sizeof(text) - 1), expected)

static void events_are_read(void)
{
    READS("data: one\n\ndata: two\n\n", "message||-1|one\nmessage||-1|two\n");
    READS("event: delta\ndata: {\"a\":1}\nid: 7\n\n", "delta|7|-1|{\"a\":1}\n");
    READS("data: a\ndata: b\ndata\ndata:\n\n", "message||-1|a\nb\n\n\n");
    READS("data:no space\n\ndata:  two\n\n", "message||-1|no space\nmessage||-1| two\n");
    READS("data\n\n", "message||-1|\n");
    READS("data: [DONE]\n\n", "message||-1|[DONE]\n");
    READS("data: a:b: c\n\n", "message||-1|a:b: c\n");
}

static void every_kind_of_line_end_is_accepted(void)
{
    READS("data: a\rdata: b\r\rdata: c\r\r", "message||-1|a\nb\nmessage||-1|c\n");
    READS("data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", "message||-1|a\nb\nmessage||-1|c\n");
    READS("data: a\r\n\rdata: b\n\r\n", "message||-1|a\nmessage||-1|b\n");
    READS("data: a\n\r\n\r\n\r", "message||-1|a\n");
}

static void a_byte_order_mark_is_skipped_once(void)
{
    READS("\xef\xbb\xbf"
          "data: a\n\n\xef\xbb\xbf"
          "data: b\n\n",
            "message||-1|a\n");
    READS("\xef\xbb"
          "data: a\n\n",
            "");
    READS("\n\xef\xbb\xbf"
          "data: a\n\n",
            "");
}

static void comments_and_unknown_fields_are_ignored(void)
{
    READS(": OPENROUTER PROCESSING\n\n:\n\ndata: a\n:x\n\n", "message||-1|a\n");
    READS("Data: x\ndat: x\ndatas: x\n data: x\n\n", "");
    READS("event: x\n\ndata: y\n\n", "message||-1|y\n");
    READS("event: x\nevent:\ndata: y\n\n", "message||-1|y\n");
}

static void id_and_retry_persist_between_events(void)
{
    READS("id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
            "message|1|-1|a\nmessage|1|-1|b\nmessage||-1|c\n");
    READS("id: 1\nid: 2\0003\ndata: a\n\n", "message|1|-1|a\n");
    READS("retry: 250\n\ndata: a\n\nretry: 1x\nretry:\nretry: -1\ndata: b\n\n",
            "message||250|a\nmessage||250|b\n");
    READS("retry: 99999999999999999999\ndata: a\n\n", "message||-1|a\n");
}

static void an_unfinished_event_is_dropped(void)
{
    READS("data: a\n\ndata: b\n", "message||-1|a\n");
    READS("data: a", "");
    READS("", "");
}

static void data_can_contain_any_bytes(void)
{
    pal_sse sse;
    pal_sse_event event;
    pal_str bytes = pal_str_make("data: a\0b\n\n", 11);
    pal_sse_init(&sse, 100);
    if (CHECK(pal_sse_next(&sse, &bytes, &event)) && CHECK_EQ(event.data.len, 3))
        CHECK_BYTES(event.data.data, "a\0b", 3);
    pal_sse_done(&sse);
}

/* A limit applies exactly, wherever the stream is cut. */
static void a_long_event_is_refused(void)
{
    pal_buf all;
    pal_buf_init(&all, 1u << 20);
    const pal_str fits = pal_str_of("data: 1234\ndata: 678\n\n"),
                  over = pal_str_of("data: 123456789\n\n");
    const pal_str lines = pal_str_of("data: 12\ndata: 34\ndata: 56\n\n");
    const pal_str endless = pal_str_of(": 0123456789012345678901234567890123456789\n");
    for (size_t a = 0; a <= fits.len; a++) {
        CHECK_STATUS(read_cut(fits, a, fits.len, 8, &all), PAL_OK);
        CHECK_STR(pal_buf_str(&all), "message||-1|1234\n678\n");
    }
    for (size_t a = 0; a <= over.len; a++) {
        if (CHECK_STATUS(read_cut(over, a, over.len, 8, &all), PAL_LIMIT))
            CHECK_EQ(all.len, 0);
    }
    for (size_t a = 0; a <= lines.len; a++) {
        if (CHECK_STATUS(read_cut(lines, a, lines.len, 7, &all), PAL_LIMIT))
            CHECK_EQ(all.len, 0);
    }
    for (size_t a = 0; a <= endless.len; a++)
        CHECK_STATUS(read_cut(endless, a, endless.len, 8, &all), PAL_LIMIT);
    pal_buf_done(&all);
}

static void a_failure_sticks(void)
{
    pal_sse sse;
    pal_buf all;
    pal_buf_init(&all, 1000);
    pal_sse_init(&sse, 4);
    CHECK_STATUS(feed(&sse, pal_str_of("data: 12345\n\n"), &all), PAL_LIMIT);
    CHECK_STATUS(feed(&sse, pal_str_of("data: 1\n\n"), &all), PAL_LIMIT);
    CHECK_EQ(all.len, 0);
    pal_sse_done(&sse);
    pal_buf_done(&all);
}

static void a_caller_can_stop_after_any_event(void)
{
    pal_sse sse;
    pal_sse_event event;
    pal_str text = pal_str_of("data: 1\n\ndata: 2\n\ndata: 3\n\n");
    pal_sse_init(&sse, 100);
    if (CHECK(pal_sse_next(&sse, &text, &event)))
        CHECK_STR(event.data, "1");
    CHECK_STR(text, "data: 2\n\ndata: 3\n\n");
    if (CHECK(pal_sse_next(&sse, &text, &event)))
        CHECK_STR(event.data, "2");
    pal_sse_done(&sse);
}

static void an_allocation_failure_is_reported(void)
{
    pal_str text = pal_str_of("event: e\nid: i\ndata: d\n\n");
    pal_buf all;
    pal_buf_init(&all, 1000);
    pal_status status = PAL_NO_MEMORY;
    uint64_t nth = 1;
    for (; status == PAL_NO_MEMORY && nth < 50; nth++) {
        pal_buf_done(&all);
        pal_memory_fail_at(nth, 1);
        status = read_cut(text, 3, 11, EVENT_MAX, &all);
        pal_memory_fail_at(0, 0);
    }
    CHECK_STATUS(status, PAL_OK);
    CHECK_THAT(nth, >, 3);
    pal_buf_done(&all);
}

int main(void)
{
    RUN(events_are_read);
    RUN(every_kind_of_line_end_is_accepted);
    RUN(a_byte_order_mark_is_skipped_once);
    RUN(comments_and_unknown_fields_are_ignored);
    RUN(id_and_retry_persist_between_events);
    RUN(an_unfinished_event_is_dropped);
    RUN(data_can_contain_any_bytes);
    RUN(a_long_event_is_refused);
    RUN(a_failure_sticks);
    RUN(a_caller_can_stop_after_any_event);
    RUN(an_allocation_failure_is_reported);
    return tap_done();
}
