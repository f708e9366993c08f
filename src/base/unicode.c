/* unicode.c - lower case, white space and classes of characters, from utf8proc's tables. ASCII is
 * handled without them. */
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

/* The Unicode property White_Space. */
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

/* Returns the offset of the last character. */
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

/* Blocks of emoji and of scripts that are written without spaces between words. Hangul has spaces,
 * but its words have endings, so a search must also find parts of words. */
static const struct {
    uint32_t first;
    uint32_t last;
} unspaced[] = {
        {0x0e00, 0x0fff},   /* Thai, Lao, Tibetan */
        {0x1000, 0x109f},   /* Myanmar */
        {0x1100, 0x11ff},   /* Hangul jamo */
        {0x1780, 0x17ff},   /* Khmer */
        {0x1950, 0x19df},   /* Tai Le, New Tai Lue */
        {0x1a20, 0x1aaf},   /* Tai Tham */
        {0x1b00, 0x1b7f},   /* Balinese */
        {0x2e80, 0x2fdf},   /* radicals */
        {0x3005, 0x3007},   /* iteration mark, zero */
        {0x3021, 0x3029},   /* numerals */
        {0x3040, 0x31ff},   /* kana, bopomofo, Hangul letters */
        {0x3400, 0x4dbf},   /* Han */
        {0x4e00, 0xa4cf},   /* Han, Yi */
        {0xa960, 0xa9ff},   /* Hangul jamo, Javanese, Myanmar */
        {0xaa60, 0xaadf},   /* Myanmar, Tai Viet */
        {0xac00, 0xd7ff},   /* Hangul */
        {0xf900, 0xfaff},   /* Han */
        {0xff66, 0xffdc},   /* narrow kana and Hangul */
        {0x1aff0, 0x1b2ff}, /* kana, Nushu */
        {0x1f000, 0x1faff}, /* emoji */
        {0x20000, 0x3ffff}, /* Han */
};

static bool is_unspaced(uint32_t c)
{
    size_t low = 0, high = sizeof(unspaced) / sizeof(unspaced[0]);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unspaced[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof(unspaced) / sizeof(unspaced[0]) && unspaced[low].first <= c;
}

pal_unicode_kind pal_unicode_kind_of(uint32_t character)
{
    uint32_t c = character;
    if (c < 0x80)
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
                ? PAL_UNICODE_WORD
                : PAL_UNICODE_GAP;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return is_unspaced(c) ? PAL_UNICODE_UNSPACED : PAL_UNICODE_WORD;
    default:
        return c >= 0x1f000 && c <= 0x1faff ? PAL_UNICODE_UNSPACED : PAL_UNICODE_GAP;
    }
}

size_t pal_unicode_fold(uint32_t character, uint32_t out_characters[PAL_UNICODE_FOLD_MAX])
{
    utf8proc_int32_t folded[PAL_UNICODE_FOLD_MAX];
    utf8proc_ssize_t len;
    int boundary = 0;
    uint32_t c = character;

    if (c >= 0xff01 && c <= 0xff5e)
        c -= 0xfee0;
    out_characters[0] = c < 0x80 ? (uint32_t)ascii_lower((char)c) : c;
    if (c < 0x80)
        return 1;
    len = utf8proc_decompose_char(
            (utf8proc_int32_t)c, folded, PAL_UNICODE_FOLD_MAX, UTF8PROC_CASEFOLD, &boundary);
    if (len < 1 || len > PAL_UNICODE_FOLD_MAX)
        return 1;
    for (utf8proc_ssize_t i = 0; i < len; i++)
        out_characters[i] = (uint32_t)folded[i];
    return (size_t)len;
}
