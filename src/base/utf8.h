/* utf8.h - what is valid UTF-8 (RFC 3629: no surrogates, nothing over U+10FFFF, no long forms). */
#ifndef PAL_BASE_UTF8_H
#define PAL_BASE_UTF8_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/str.h"

/* The length of the character at `p`, 1 to 4; 0 when it is not valid. `p` is before `end`. */
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

/* How many bytes at the start are valid; text.len when all are. */
size_t pal_utf8_valid_len(pal_str text);

static inline bool pal_utf8_is_valid(pal_str text)
{
    return pal_utf8_valid_len(text) == text.len;
}

/* How many characters valid text has. */
static inline size_t pal_utf8_count(pal_str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count;
}

/* Reads one character; returns its length. Invalid bytes give U+FFFD and the length of the longest
 * valid beginning, at least 1. `text` is not empty. */
size_t pal_utf8_decode(pal_str text, uint32_t *out_char);

/* Writes one character, 1 to 4 bytes; returns how many. Surrogates become U+FFFD. */
size_t pal_utf8_encode(uint32_t character, char out_bytes[4]);

/* The longest beginning of at most `len` bytes that cuts no character apart. */
size_t pal_utf8_cut(pal_str text, size_t len);

#endif
