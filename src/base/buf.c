/* buf.c - a growing byte buffer with a maximum length and a permanent failure.
 *
 * Invariant: len <= cap, and len <= len_max. The capacity doubles, so appending takes linear time
 * in total. Used by one thread at a time. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"

#define FIRST_CAP 128

void pal_buf_init(pal_buf *buf, size_t len_max)
{
    *buf = (pal_buf){.len_max = len_max};
}

void pal_buf_done(pal_buf *buf)
{
    pal_free(buf->data);
    *buf = (pal_buf){.len_max = buf->len_max};
}

void pal_buf_clear(pal_buf *buf)
{
    buf->len = 0;
    buf->failure = PAL_OK;
}

static size_t next_cap(const pal_buf *buf, size_t wanted)
{
    size_t cap = buf->cap > SIZE_MAX / 2 ? SIZE_MAX : buf->cap * 2;
    if (cap < FIRST_CAP)
        cap = FIRST_CAP;
    if (cap < wanted)
        cap = wanted;
    return cap < buf->len_max ? cap : buf->len_max;
}

char *pal_buf_grow(pal_buf *buf, size_t len)
{
    if (buf->failure)
        return NULL;
    if (len > buf->len_max - buf->len) {
        buf->failure = PAL_LIMIT;
        return NULL;
    }

    size_t cap = next_cap(buf, buf->len + len);
    char *data = pal_realloc(buf->data, cap);
    if (!data) {
        buf->failure = PAL_NO_MEMORY;
        return NULL;
    }
    buf->data = data;
    buf->cap = cap;
    return data + buf->len;
}

void pal_buf_commit(pal_buf *buf, size_t len)
{
    assert(len <= buf->cap - buf->len);
    buf->len += len;
}

void pal_buf_append(pal_buf *buf, const void *data, size_t len)
{
    if (len == 0)
        return;
    char *place = pal_buf_reserve(buf, len);
    if (!place)
        return;
    memcpy(place, data, len);
    buf->len += len;
}

void pal_buf_append_str(pal_buf *buf, pal_str text)
{
    pal_buf_append(buf, text.data, text.len);
}

void pal_buf_append_text(pal_buf *buf, const char *text)
{
    pal_buf_append(buf, text, strlen(text));
}

static size_t digits_of(uint64_t number)
{
    size_t len = 1;
    for (; number >= 10; number /= 10)
        len++;
    return len;
}

size_t pal_u64_to_text(uint64_t number, char out_text[PAL_U64_TEXT_MAX])
{
    size_t len = digits_of(number);
    for (char *p = out_text + len; p > out_text; number /= 10)
        *--p = (char)('0' + number % 10);
    return len;
}

/* Appends the number in one call, so that a full buf never ends in the middle of a number. */
static void append_number(pal_buf *buf, bool negative, uint64_t magnitude)
{
    char text[1 + PAL_U64_TEXT_MAX] = "-";
    size_t len = negative + pal_u64_to_text(magnitude, text + negative);
    pal_buf_append(buf, text, len);
}

void pal_buf_append_u64(pal_buf *buf, uint64_t number)
{
    append_number(buf, false, number);
}

void pal_buf_append_i64(pal_buf *buf, int64_t number)
{
    append_number(buf, number < 0, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* Formats into a separate buffer: vsnprintf() writes a terminator, and the buf's limit may leave no
 * room for it. */
static void format_large(pal_buf *buf, size_t len, const char *format, va_list args)
{
    if (len > buf->len_max - buf->len) {
        buf->failure = PAL_LIMIT;
        return;
    }
    char *text = pal_malloc(len + 1);
    if (!text) {
        buf->failure = PAL_NO_MEMORY;
        return;
    }
    vsnprintf(text, len + 1, format, args);
    pal_buf_append(buf, text, len);
    pal_free(text);
}

void pal_buf_format(pal_buf *buf, const char *format, ...)
{
    if (buf->failure)
        return;
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(small, sizeof small, format, args);
    if (len < 0)
        buf->failure = PAL_NO_MEMORY;
    else if ((size_t)len < sizeof small)
        pal_buf_append(buf, small, (size_t)len);
    else
        format_large(buf, (size_t)len, format, again);
    va_end(again);
    va_end(args);
}

void pal_buf_consume(pal_buf *buf, size_t len)
{
    assert(len <= buf->len);
    buf->len -= len;
    if (len && buf->len)
        memmove(buf->data, buf->data + len, buf->len);
}
