/* json_scan.h - finds the next byte of a string that needs attention: a quote, a backslash, a
 * control character, or the start of a character that is not ASCII. For json_*.c only.
 *
 * Never reads at `end` or beyond, so texts need no padding. */
#ifndef PAL_BASE_JSON_SCAN_H
#define PAL_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define JSON_PLAIN_NEAR 16 /* plain characters in a row after which a scan is faster than a loop */

static inline bool json_is_plain(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

/* Returns true if any of eight bytes must be escaped. The high bit of (x - 0x01..) & ~x marks zero
 * bytes. It can also mark other bytes, but only if there is a zero byte as well, which is enough
 * for a yes or no. */
static inline bool json_needs_escape(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t quote = word ^ (ones * '"');
    uint64_t backslash = word ^ (ones * '\\');
    uint64_t found = (word - ones * 0x20) & ~word;
    found |= (quote - ones) & ~quote;
    found |= (backslash - ones) & ~backslash;
    return (found & highs) != 0;
}

static inline bool json_is_plain_word(uint64_t word)
{
    return (word & 0x8080808080808080u) == 0 && !json_needs_escape(word);
}

static inline const char *json_scan_portable(const char *p, const char *end)
{
    uint64_t word;
    while ((size_t)(end - p) >= sizeof word) {
        memcpy(&word, p, sizeof word);
        if (!json_is_plain_word(word))
            break;
        p += sizeof word;
    }
    while (p < end && json_is_plain(*p))
        p++;
    return p;
}

#if defined(__SSE2__)
/* The comparison is signed, so bytes from 0x80 on are also below a space. */
static inline __m128i json_marks(const char *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i found = _mm_cmplt_epi8(bytes, _mm_set1_epi8(' '));
    found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    return _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
}

static inline const char *json_scan(const char *p, const char *end)
{
    /* Checks two words at a time, and only for yes or no. */
    while (end - p >= 32 && _mm_movemask_epi8(_mm_or_si128(json_marks(p), json_marks(p + 16))) == 0)
        p += 32;
    while (end - p >= 16) {
        int mask = _mm_movemask_epi8(json_marks(p));
        if (mask)
            return p + __builtin_ctz((unsigned)mask);
        p += 16;
    }
    return json_scan_portable(p, end);
}
#else
#define json_scan json_scan_portable
#endif

#endif
