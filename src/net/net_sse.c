/* net_sse.c - server-sent events, parsed as the HTML standard describes.
 *
 * Bytes are collected in `line` until an end of line: LF, CR, or CRLF, whose two bytes can arrive
 * separately. A line that is complete in the fed bytes is not copied. Fields are collected in
 * `data`, `name` and `id` until an empty line. The result does not depend on where the stream is
 * cut. */
#include "net/net_sse.h"

#include "base/text.h"

#define FIELD_ROOM 16   /* room for a field's name, a colon and a space before the value */
#define KEPT_BYTES 4096 /* larger buffers are freed between events */

void pal_sse_init(pal_sse *sse, size_t event_bytes_max)
{
    size_t most = event_bytes_max < SIZE_MAX - FIELD_ROOM ? event_bytes_max : SIZE_MAX - FIELD_ROOM;
    *sse = (pal_sse){.retry_ms = -1};
    pal_buf_init(&sse->line, most + FIELD_ROOM);
    pal_buf_init(&sse->data, most + 1); /* the last newline is not part of the event */
    pal_buf_init(&sse->name, most);
    pal_buf_init(&sse->id, most);
}

void pal_sse_done(pal_sse *sse)
{
    pal_buf_done(&sse->line);
    pal_buf_done(&sse->data);
    pal_buf_done(&sse->name);
    pal_buf_done(&sse->id);
}

static void empty(pal_buf *buf)
{
    if (buf->cap > KEPT_BYTES)
        pal_buf_done(buf);
    else
        pal_buf_clear(buf);
}

static void replace(pal_buf *buf, pal_str text)
{
    pal_buf_clear(buf);
    pal_buf_append_str(buf, text);
}

static void begin_event(pal_sse *sse)
{
    empty(&sse->data);
    empty(&sse->name);
    sse->has_data = false;
    sse->is_reported = false;
}

/* An empty line ends an event. Returns false if there is no data: such an event is dropped. The
 * texts of the event stay in the buffers until the next call. */
static bool end_event(pal_sse *sse, pal_sse_event *out_event)
{
    sse->is_reported = sse->has_data;
    if (!sse->has_data) {
        begin_event(sse);
        return false;
    }
    *out_event = (pal_sse_event){
            .name = sse->name.len ? pal_buf_str(&sse->name) : pal_str_of("message"),
            .data = pal_str_make(sse->data.data, sse->data.len - 1),
            .id = pal_buf_str(&sse->id),
            .retry_ms = sse->retry_ms,
    };
    return true;
}

/* The standard allows only digits. A number that a clock cannot hold is ignored. */
static void take_retry(pal_sse *sse, pal_str value)
{
    int64_t ms = 0;
    if (value.len == 0 || value.len > 15)
        return;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return;
        ms = ms * 10 + (value.data[i] - '0');
    }
    sse->retry_ms = ms;
}

static void take_field(pal_sse *sse, pal_str name, pal_str value)
{
    if (pal_str_is(name, "data")) {
        pal_buf_append_str(&sse->data, value);
        pal_buf_append_char(&sse->data, '\n');
        sse->has_data = true;
    } else if (pal_str_is(name, "event")) {
        replace(&sse->name, value);
    } else if (pal_str_is(name, "id")) {
        if (value.len == 0 || !memchr(value.data, 0, value.len))
            replace(&sse->id, value);
    } else if (pal_str_is(name, "retry")) {
        take_retry(sse, value);
    }
}

static void take_line(pal_sse *sse, pal_str line)
{
    const char *colon = memchr(line.data, ':', line.len);
    size_t name_len = colon ? (size_t)(colon - line.data) : line.len;
    size_t value_at = colon ? name_len + 1 : line.len;
    if (value_at < line.len && line.data[value_at] == ' ')
        value_at++;
    take_field(sse, pal_str_make(line.data, name_len),
            pal_str_make(line.data + value_at, line.len - value_at));
}

/* Returns the number of bytes before the next end of line, or all bytes if there is no end of
 * line. */
static size_t line_len(pal_str bytes)
{
    const char *lf = memchr(bytes.data, '\n', bytes.len);
    size_t len = lf ? (size_t)(lf - bytes.data) : bytes.len;
    const char *cr = memchr(bytes.data, '\r', len);
    return cr ? (size_t)(cr - bytes.data) : len;
}

/* `rest` is the end of a line whose beginning may be in sse->line. Returns true if the line is
 * empty. */
static bool end_line(pal_sse *sse, pal_str rest)
{
    bool is_copied = sse->line.len > 0 || rest.len > sse->line.len_max;
    if (is_copied)
        pal_buf_append_str(&sse->line, rest);
    if (sse->line.failure)
        return false;
    pal_str line = is_copied ? pal_buf_str(&sse->line) : rest;
    if (!sse->begun && pal_text_begins(line, "\xef\xbb\xbf"))
        line = pal_text_after(line, 3);
    sse->begun = true;
    bool is_empty = line.len == 0;
    if (!is_empty)
        take_line(sse, line);
    if (is_copied)
        empty(&sse->line);
    return is_empty;
}

static void note_failure(pal_sse *sse)
{
    const pal_buf *bufs[] = {&sse->line, &sse->data, &sse->name, &sse->id};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs && !sse->failure; i++)
        sse->failure = bufs[i]->failure;
}

bool pal_sse_next(pal_sse *sse, pal_str *bytes, pal_sse_event *out_event)
{
    if (sse->is_reported)
        begin_event(sse);
    while (bytes->len && !sse->failure) {
        bool is_crlf = sse->after_cr && bytes->data[0] == '\n';
        sse->after_cr = false;
        *bytes = pal_text_after(*bytes, is_crlf);
        if (bytes->len == 0)
            break;
        size_t len = line_len(*bytes);
        if (len == bytes->len) {
            pal_buf_append_str(&sse->line, *bytes);
            *bytes = pal_str_make(NULL, 0);
            note_failure(sse);
            break;
        }
        sse->after_cr = bytes->data[len] == '\r';
        pal_str line = pal_str_make(bytes->data, len);
        *bytes = pal_text_after(*bytes, len + 1);
        bool is_empty = end_line(sse, line);
        note_failure(sse);
        if (is_empty && end_event(sse, out_event))
            return true;
    }
    return false;
}
