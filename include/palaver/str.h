/* str.h - a borrowed view of bytes. Lengths always travel: model output holds NULs. */
#ifndef PALAVER_STR_H
#define PALAVER_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_str {
    const char *data; /* may be NULL when len is 0; not terminated */
    size_t len;
} pal_str;

static inline pal_str pal_str_make(const char *data, size_t len)
{
    pal_str str;
    str.data = data;
    str.len = len;
    return str;
}

/* A view of a terminated string; NULL gives the empty view. */
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

/* For printf("%.*s", PAL_STR_ARG(str)). */
#define PAL_STR_ARG(str) (int)(str).len, ((str).data ? (str).data : "")

#ifdef __cplusplus
}
#endif
#endif
