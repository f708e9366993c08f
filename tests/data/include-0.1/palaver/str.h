/* str.h - a text or bytes, with their length. A pal_str does not own its memory. There is always a
 * length, because the output of a model can contain NULs. */
#ifndef PALAVER_STR_H
#define PALAVER_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_str {
    const char *data; /* not terminated; may be NULL if len is 0 */
    size_t len;
} pal_str;

static inline pal_str pal_str_make(const char *data, size_t len)
{
    pal_str str;
    str.data = data;
    str.len = len;
    return str;
}

/* Makes a pal_str from a terminated string. NULL gives an empty text. */
static inline pal_str pal_str_of(const char *text)
{
    return pal_str_make(text, text ? strlen(text) : 0);
}

static inline bool pal_str_equal(pal_str a, pal_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool pal_str_is(pal_str a, const char *text)
{
    return pal_str_equal(a, pal_str_of(text));
}

/* Passes a pal_str to printf: printf("%.*s", PAL_STR_ARG(str)). */
#define PAL_STR_ARG(str) (int)(str).len, ((str).data ? (str).data : "")

#ifdef __cplusplus
}
#endif
#endif
