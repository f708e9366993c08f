/* utf8.h - checks, reads and writes UTF-8 (RFC 3629: no surrogates, nothing above U+10FFFF, no
 * overlong forms). */
#ifndef PAL_BASE_UTF8_H
#define PAL_BASE_UTF8_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/str.h"

/* Returns the length of the character at `p`, 1 to 4, or 0 if it is not valid. `p` must be before
 * `end`. */
static inline size_t pal_utf8_char_len(const unsigned char *p, const unsigned char *end)
{
    size_t left = (size_t)(end - p);
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xe0)
        return p[0] >= 0xc2 && left >= 2 && (p[1] & 0xc0) == 0x80 ? 2 : 0;
    if (left < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
        return 0;
    unsigned lead = (unsigned)p[0] << 8 | p[1];
    if (p[0] < 0xf0)
        return lead >= 0xe0a0 && (lead < 0xeda0 || lead >= 0xee00) ? 3 : 0;
    return lead >= 0xf090 && lead < 0xf490 && left >= 4 && (p[3] & 0xc0) == 0x80 ? 4 : 0;
}

/* Returns the number of valid bytes at the beginning; text.len if all are valid. */
size_t pal_utf8_valid_len(pal_str text);

static inline bool pal_utf8_is_valid(pal_str text)
{
    return pal_utf8_valid_len(text) == text.len;
}

/* Returns the number of characters of a valid text. */
static inline size_t pal_utf8_count(pal_str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count;
}

/* Reads one character and returns its length. Invalid bytes give U+FFFD and the length of the
 * longest valid beginning, at least 1. `text` must not be empty. */
size_t pal_utf8_decode(pal_str text, uint32_t *out_char);

/* Writes one character and returns its length, 1 to 4 bytes. Surrogates become U+FFFD. */
size_t pal_utf8_encode(uint32_t character, char out_bytes[4]);

/* Returns the length of the longest beginning that has at most `len` bytes and ends between two
 * characters. */
size_t pal_utf8_cut(pal_str text, size_t len);

#endif
