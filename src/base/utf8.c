/* utf8.c - checks, reads and writes UTF-8. Pure functions for any thread. */
#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT 0xfffd

static const unsigned char *skip_ascii(const unsigned char *p, const unsigned char *end)
{
    uint64_t word;
    while ((size_t)(end - p) >= sizeof word) {
        memcpy(&word, p, sizeof word);
        if (word & 0x8080808080808080u)
            break;
        p += sizeof word;
    }
    while (p < end && *p < 0x80)
        p++;
    return p;
}

size_t pal_utf8_valid_len(pal_str text)
{
    if (text.len == 0)
        return 0;
    const unsigned char *start = (const unsigned char *)text.data;
    const unsigned char *p = start, *end = start + text.len;
    while (p < end) {
        if (*p < 0x80) {
            p = skip_ascii(p, end);
            continue;
        }
        size_t len = pal_utf8_char_len(p, end);
        if (len == 0)
            break;
        p += len;
    }
    return (size_t)(p - start);
}

/* Returns how many bytes at `p` are the beginning of a valid character; at least 1. */
static size_t broken_len(const unsigned char *p, const unsigned char *end)
{
    unsigned char rest[4] = {p[0], 0x80, 0x80, 0x80};
    size_t wanted = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p + 1 == end)
        return 1;
    rest[1] = p[1];
    if (wanted == 2 || pal_utf8_char_len(rest, rest + wanted) == 0)
        return 1;
    if (wanted == 3 || p + 2 == end || (p[2] & 0xc0) != 0x80)
        return 2;
    return 3;
}

size_t pal_utf8_decode(pal_str text, uint32_t *out_char)
{
    const unsigned char *p = (const unsigned char *)text.data;
    size_t len = pal_utf8_char_len(p, p + text.len);
    switch (len) {
    case 1:
        *out_char = p[0];
        return 1;
    case 2:
        *out_char = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        return 2;
    case 3:
        *out_char = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        return 3;
    case 4:
        *out_char =
                (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
        return 4;
    default:
        *out_char = REPLACEMENT;
        return broken_len(p, p + text.len);
    }
}

size_t pal_utf8_encode(uint32_t character, char out_bytes[4])
{
    uint32_t c = character;
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        c = REPLACEMENT;
    if (c < 0x80) {
        out_bytes[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out_bytes[0] = (char)(0xc0 | c >> 6);
        out_bytes[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out_bytes[0] = (char)(0xe0 | c >> 12);
        out_bytes[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out_bytes[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out_bytes[0] = (char)(0xf0 | c >> 18);
    out_bytes[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out_bytes[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out_bytes[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t pal_utf8_cut(pal_str text, size_t len)
{
    if (len >= text.len)
        return text.len;
    /* A character that contains byte `len` begins at most three bytes before it. */
    const unsigned char *bytes = (const unsigned char *)text.data;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char *p = bytes + len - back;
        if ((*p & 0xc0) == 0x80)
            continue;
        return pal_utf8_char_len(p, bytes + text.len) > back ? len - back : len;
    }
    return len;
}
