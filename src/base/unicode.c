/* unicode.c - lower case and white space, by utf8proc's tables. ASCII never gets that far. */
#include "base/unicode.h"

#include <stdint.h>
#include <utf8proc.h>
#include "base/utf8.h"

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

size_t pal_unicode_lower(pal_str text, char *out_text)
{
    char *out = out_text;
    for (size_t at = 0; at < text.len;) {
        if ((unsigned char)text.data[at] < 0x80) {
            *out++ = ascii_lower(text.data[at++]);
            continue;
        }
        uint32_t character;
        at += pal_utf8_decode(pal_str_make(text.data + at, text.len - at), &character);
        out += pal_utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)character), out);
    }
    return (size_t)(out - out_text);
}

/* The property White_Space. */
static bool is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r');
    switch (c) {
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
        return true;
    default:
        return c >= 0x2000 && c <= 0x200a;
    }
}

/* Where the last character begins. */
static size_t last_start(pal_str text)
{
    size_t at = text.len - 1;
    while (at > 0 && ((unsigned char)text.data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

pal_str pal_unicode_trim(pal_str text)
{
    uint32_t c;
    while (text.len) {
        size_t len = pal_utf8_decode(text, &c);
        if (!is_space(c))
            break;
        text = pal_str_make(text.data + len, text.len - len);
    }
    while (text.len) {
        size_t at = last_start(text);
        pal_utf8_decode(pal_str_make(text.data + at, text.len - at), &c);
        if (!is_space(c))
            break;
        text.len = at;
    }
    return text;
}
