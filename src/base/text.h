/* text.h - small questions about a text. All of them treat letters and white space as ASCII;
 * unicode.h has the functions for other scripts. A pal_str may have no data if it is empty. */
#ifndef PAL_BASE_TEXT_H
#define PAL_BASE_TEXT_H

#include <stdbool.h>
#include <strings.h>
#include "base/utf8.h"
#include "palaver/str.h"

/* ---- Beginnings and ends. A text begins and ends with itself and with the empty text. ---- */

static inline bool pal_text_begins_str(pal_str text, pal_str start)
{
    return text.len >= start.len &&
            (start.len == 0 || memcmp(text.data, start.data, start.len) == 0);
}

static inline bool pal_text_begins(pal_str text, const char *start)
{
    return pal_text_begins_str(text, pal_str_of(start));
}

static inline bool pal_text_ends(pal_str text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && (len == 0 || memcmp(text.data + text.len - len, end, len) == 0);
}

/* Compares by bytes. Returns a number below, equal to or above 0. */
static inline int pal_text_compare(pal_str a, pal_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.data, b.data, len) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Returns the text without its first `len` bytes; an empty text if it is not longer. */
static inline pal_str pal_text_after(pal_str text, size_t len)
{
    return len < text.len ? pal_str_make(text.data + len, text.len - len) : pal_str_make(NULL, 0);
}

/* Returns true if the text matches the pattern, in which each '*' stands for any text. */
static inline bool pal_text_matches(pal_str text, pal_str pattern)
{
    size_t at = 0, next = 0, star = pattern.len, after_star = 0;

    while (at < text.len) {
        if (next < pattern.len && pattern.data[next] == '*') {
            star = next++;
            after_star = at;
        } else if (next < pattern.len && pattern.data[next] == text.data[at]) {
            next++;
            at++;
        } else if (star < pattern.len) {
            next = star + 1;
            at = ++after_star; /* the last star takes one more byte */
        } else {
            return false;
        }
    }
    while (next < pattern.len && pattern.data[next] == '*')
        next++;
    return next == pattern.len;
}

/* ---- Without regard to case ---- */

static inline bool pal_text_equal_nocase(pal_str a, pal_str b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.data, b.data, a.len) == 0);
}

static inline bool pal_text_is_nocase(pal_str text, const char *other)
{
    return pal_text_equal_nocase(text, pal_str_of(other));
}

static inline bool pal_text_begins_nocase(pal_str text, const char *start)
{
    size_t len = strlen(start);
    return text.len >= len && pal_text_is_nocase(pal_str_make(text.data, len), start);
}

/* ---- White space ---- */

static inline bool pal_text_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the text without white space at both ends. */
static inline pal_str pal_text_trim(pal_str text)
{
    while (text.len && pal_text_is_space(text.data[text.len - 1]))
        text.len--;
    while (text.len && pal_text_is_space(text.data[0]))
        text = pal_str_make(text.data + 1, text.len - 1);
    return text;
}

/* Returns true if there is only white space, or nothing. */
static inline bool pal_text_is_blank(pal_str text)
{
    return pal_text_trim(text).len == 0;
}

/* ---- Characters ---- */

/* Returns the value of a hex digit, or -1. */
static inline int pal_text_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Returns the value of a base64 digit, or -1. */
static inline int pal_text_base64(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Returns true for a token of RFC 9110, such as the name of a header. */
static inline bool pal_text_is_token(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i], lower = (char)(c | 0x20);
        bool is_letter = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
        if (!is_letter && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return text.len > 0;
}

/* Returns true for a URL of HTTP that names a host. The rest of the URL is not checked. */
static inline bool pal_text_is_http_url(pal_str text)
{
    size_t len = pal_text_begins(text, "https://") ? 8 : pal_text_begins(text, "http://") ? 7 : 0;
    return len > 0 && text.len > len;
}

/* Returns true if there is a control character: below U+0020, or U+007F. */
static inline bool pal_text_has_control(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20 || c == 0x7f)
            return true;
    }
    return false;
}

/* ---- Excerpts ---- */

/* Returns how much of a text a message shows: at most `len_max` bytes, and only complete
 * characters. */
static inline int pal_text_excerpt_len(pal_str text, size_t len_max)
{
    return (int)pal_utf8_cut(text, len_max);
}

/* Passes the beginning of a text to printf: printf("'%.*s'", PAL_EXCERPT(name, 80)). */
#define PAL_EXCERPT(text, len_max)                                                                 \
    pal_text_excerpt_len((text), (len_max)), ((text).data ? (text).data : "")

#endif
