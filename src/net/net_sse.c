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

/* An empty line ends an event. An event without data is dropped. */
static void dispatch(pal_sse *sse, pal_sse_sink sink, void *user)
{
    if (sse->has_data) {
        pal_sse_event event = {
                .name = sse->name.len ? pal_buf_str(&sse->name) : pal_str_of("message"),
                .data = pal_str_make(sse->data.data, sse->data.len - 1),
                .id = pal_buf_str(&sse->id),
                .retry_ms = sse->retry_ms,
        };
        sse->stopped = !sink(&event, user);
    }
    empty(&sse->data);
    empty(&sse->name);
    sse->has_data = false;
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

static void take_line(pal_sse *sse, pal_str line, pal_sse_sink sink, void *user)
{
    if (!sse->begun && pal_text_begins(line, "\xef\xbb\xbf"))
        line = pal_str_make(line.data + 3, line.len - 3);
    sse->begun = true;
    if (line.len == 0) {
        dispatch(sse, sink, user);
        return;
    }
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

static void end_line(pal_sse *sse, pal_str rest, pal_sse_sink sink, void *user)
{
    if (sse->line.len == 0 && rest.len <= sse->line.len_max) {
        take_line(sse, rest, sink, user);
        return;
    }
    pal_buf_append_str(&sse->line, rest);
    if (sse->line.failure)
        return;
    take_line(sse, pal_buf_str(&sse->line), sink, user);
    empty(&sse->line);
}

static pal_status failure(const pal_sse *sse, pal_error *err)
{
    const pal_buf *bufs[] = {&sse->line, &sse->data, &sse->name, &sse->id};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) {
        if (bufs[i]->failure == PAL_LIMIT)
            return pal_error_set(err, PAL_LIMIT, "an event of the stream exceeds the limit");
        if (bufs[i]->failure)
            return pal_error_set(err, bufs[i]->failure, "out of memory");
    }
    if (sse->stopped)
        return pal_error_set(err, PAL_CANCELED, "the stream was stopped");
    return PAL_OK;
}

pal_status pal_sse_feed(pal_sse *sse, pal_str bytes, pal_sse_sink sink, void *user, pal_error *err)
{
    pal_status status = failure(sse, err);
    while (status == PAL_OK && bytes.len) {
        size_t skip = sse->after_cr && bytes.data[0] == '\n';
        sse->after_cr = false;
        bytes = pal_str_make(bytes.data + skip, bytes.len - skip);
        if (bytes.len == 0)
            break;
        size_t len = line_len(bytes);
        if (len == bytes.len) {
            pal_buf_append_str(&sse->line, bytes);
            return failure(sse, err);
        }
        sse->after_cr = bytes.data[len] == '\r';
        end_line(sse, pal_str_make(bytes.data, len), sink, user);
        bytes = pal_str_make(bytes.data + len + 1, bytes.len - len - 1);
        status = failure(sse, err);
    }
    return status;
}
