/* buf.h - bytes that grow up to a given maximum. A failure is permanent: later appends do nothing,
 * so callers check `failure` once at the end. Used by one thread at a time. */
#ifndef PAL_BASE_BUF_H
#define PAL_BASE_BUF_H

#include <stdint.h>
#include <string.h>
#include "palaver/error.h"
#include "palaver/str.h"

typedef struct pal_buf {
    char *data; /* not terminated; see pal_buf_str() */
    size_t len;
    size_t cap;
    size_t len_max;
    pal_status failure; /* PAL_OK, PAL_NO_MEMORY or PAL_LIMIT */
} pal_buf;

void pal_buf_init(pal_buf *buf, size_t len_max);
void pal_buf_done(pal_buf *buf);  /* frees the memory; the buf can be initialized again */
void pal_buf_clear(pal_buf *buf); /* keeps the memory and clears the failure */

void pal_buf_append(pal_buf *buf, const void *data, size_t len);
void pal_buf_append_str(pal_buf *buf, pal_str text);
void pal_buf_append_text(pal_buf *buf, const char *text); /* a terminated string */
void pal_buf_append_u64(pal_buf *buf, uint64_t number);   /* in decimal */
void pal_buf_append_i64(pal_buf *buf, int64_t number);
void pal_buf_format(pal_buf *buf, const char *format, ...) PAL_PRINTF(2, 3);

char *pal_buf_grow(pal_buf *buf, size_t len); /* the slow path of pal_buf_reserve() */

/* Reserves room for `len` more bytes and returns where to write them. Call pal_buf_commit() with
 * the number of bytes that were written. NULL if it fails. */
static inline char *pal_buf_reserve(pal_buf *buf, size_t len)
{
    if (!buf->failure && buf->data && len <= buf->cap - buf->len)
        return buf->data + buf->len;
    return pal_buf_grow(buf, len);
}
void pal_buf_commit(pal_buf *buf, size_t len);

static inline void pal_buf_append_char(pal_buf *buf, char c)
{
    char *place = pal_buf_reserve(buf, 1);
    if (!place)
        return;
    *place = c;
    buf->len++;
}

/* Removes the first `len` bytes. */
void pal_buf_consume(pal_buf *buf, size_t len);

/* Valid until the next change of the buf. */
static inline pal_str pal_buf_str(const pal_buf *buf)
{
    return pal_str_make(buf->data, buf->len);
}

/* ---- Writing to memory that has enough room, where a buf would be too slow ---- */

/* Copies a string without its NUL. Returns the address after it. */
static inline char *pal_chars_put(char *p, const char *text)
{
    size_t len = strlen(text);
    memcpy(p, text, len);
    return p + len;
}

/* Writes a number in decimal, without a NUL. Returns the number of digits. */
#define PAL_U64_TEXT_MAX 20
size_t pal_u64_to_text(uint64_t number, char out_text[PAL_U64_TEXT_MAX]);

#endif
