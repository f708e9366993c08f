/* json_part.c - joins surrogate pairs that were divided between two strings. Pure. */
#include "base/json/json_part.h"

#include <string.h>
#include "base/json/json_hex.h"
#include "base/utf8.h"

#define ESCAPE_LEN 6      /* "\ud83c" */
#define REPLACEMENT_LEN 3 /* a lone surrogate is read as U+FFFD */

/* Whether an escape at `p` is a surrogate of the half that begins at `from`. */
static bool is_half(const char *p, uint32_t from, uint32_t *out)
{
    if (p[0] != '\\' || p[1] != 'u')
        return false;
    *out = (uint32_t)json_hex4(p + 2);
    return *out >= from && *out < from + 0x400;
}

/* Whether the last characters are an escape: the backslash must not be escaped itself. */
static bool ends_with_high(pal_str raw, uint32_t *out)
{
    size_t at = raw.len - ESCAPE_LEN, slashes = 0;
    if (!is_half(raw.data + at, 0xd800, out))
        return false;
    while (slashes < at && raw.data[at - 1 - slashes] == '\\')
        slashes++;
    return slashes % 2 == 0;
}

pal_str pal_json_string_part(pal_json string, uint32_t *half, pal_arena *arena)
{
    pal_str text = pal_json_string(string, arena);
    if (pal_json_type_of(string) != PAL_JSON_STRING)
        return text;
    pal_str quoted = pal_json_raw(string);
    pal_str raw = pal_str_make(quoted.data + 1, quoted.len - 2);
    uint32_t high = 0, low = 0;
    if (raw.len < ESCAPE_LEN || text.len < REPLACEMENT_LEN)
        return text;
    bool begins = *half && is_half(raw.data, 0xdc00, &low);
    bool ends = ends_with_high(raw, &high);
    char *joined = begins ? pal_arena_alloc(arena, text.len + 1) : NULL;
    if (ends)
        text.len -= REPLACEMENT_LEN;
    if (joined) {
        size_t len = pal_utf8_encode(0x10000 + ((*half - 0xd800) << 10) + (low - 0xdc00), joined);
        memcpy(joined + len, text.data + REPLACEMENT_LEN, text.len - REPLACEMENT_LEN);
        text = pal_str_make(joined, len + text.len - REPLACEMENT_LEN);
        *half = 0;
    }
    if (ends)
        *half = high;
    return text;
}
