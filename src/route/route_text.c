/* route_text.c - checks, trims, lower-cases, escapes and joins texts. Pure functions for any
 * thread. */
#include "route/route_text.h"

#include "base/unicode.h"
#include "base/utf8.h"
#include "palaver/limits.h"

#define ID_LEN_MAX 64

/* Returns whether the text contains C0, DEL or, in UTF-8, C1 characters. */
static bool has_control(pal_str text)
{
    const unsigned char *p = (const unsigned char *)text.data;
    for (size_t i = 0; i < text.len; i++) {
        if (p[i] < 0x20 || p[i] == 0x7f)
            return true;
        if (p[i] == 0xc2 && p[i + 1] < 0xa0)
            return true;
    }
    return false;
}

/* Returns whether the text is visible ASCII, possibly with inner spaces, so that nothing must be
 * trimmed or rejected. */
static bool is_plain(pal_str text)
{
    const unsigned char *p = (const unsigned char *)text.data;
    unsigned others = 0;
    for (size_t i = 0; i < text.len; i++)
        others |= (unsigned)(p[i] - 0x20) > 0x7e - 0x20;
    return !others && p[0] != ' ' && p[text.len - 1] != ' ';
}

pal_status pal_route_check(const char *name, pal_str text, pal_str *out_trimmed, pal_error *err)
{
    if (text.len == 0) {
        *out_trimmed = text;
        return PAL_OK;
    }
    if (text.len > PAL_ROUTE_ID_LEN_MAX)
        return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %d", name,
                text.len, PAL_ROUTE_ID_LEN_MAX);
    if (is_plain(text)) {
        *out_trimmed = text;
        return PAL_OK;
    }
    if (!pal_utf8_is_valid(text))
        return pal_error_set(err, PAL_INVALID, "'%s' is not valid UTF-8", name);
    pal_str trimmed = pal_unicode_trim(text);
    if (has_control(trimmed))
        return pal_error_set(err, PAL_INVALID, "'%s' contains a control character", name);
    *out_trimmed = trimmed;
    return PAL_OK;
}

pal_str pal_route_lower(pal_arena *arena, pal_str text)
{
    char *lower = text.len ? pal_arena_alloc(arena, PAL_UNICODE_LOWER_SIZE(text.len) + 1) : NULL;
    if (!lower)
        return pal_str_make(NULL, 0);
    return pal_str_make(lower, pal_unicode_lower(text, lower));
}

bool pal_route_is_word(pal_str text, const char *word)
{
    for (size_t i = 0; i < text.len; i++, word++) {
        char c = text.data[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c | 0x20);
        if (c != *word)
            return false;
    }
    return *word == '\0';
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_id_char(char c)
{
    return is_alnum(c) || c == '_' || c == '-';
}

static bool is_id(pal_str text)
{
    if (text.len > ID_LEN_MAX || !is_alnum(text.data[0]))
        return false;
    for (size_t i = 1; i < text.len; i++) {
        if (!is_id_char(text.data[i]))
            return false;
    }
    return true;
}

/* Replaces every run of other bytes by one '-'. Returns the length. */
static size_t replace_others(pal_str text, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (is_id_char(text.data[i]))
            out[len++] = text.data[i];
        else if (i == 0 || is_id_char(text.data[i - 1]))
            out[len++] = '-';
    }
    return len;
}

pal_str pal_route_id(pal_arena *arena, pal_str text, pal_str fallback)
{
    if (text.len == 0)
        return fallback;
    if (is_id(text))
        return text;
    char *id = pal_arena_alloc(arena, text.len);
    if (!id)
        return fallback;
    size_t start = 0, end = replace_others(text, id);
    while (start < end && id[start] == '-')
        start++;
    while (end > start && id[end - 1] == '-')
        end--;
    /* The text is cut last, so it can end with '-': existing keys were made this way. */
    size_t len = end - start < ID_LEN_MAX ? end - start : ID_LEN_MAX;
    return len ? pal_str_make(id + start, len) : fallback;
}

/* Most parts are so short that a call of memcpy() costs more: two overlapping moves are enough. */
static inline void put(char *at, pal_str part)
{
    const char *from = part.data;
    size_t len = part.len;
    if (len > 16) {
        memcpy(at, from, len);
    } else if (len >= 8) {
        memcpy(at, from, 8);
        memcpy(at + len - 8, from + len - 8, 8);
    } else if (len >= 4) {
        memcpy(at, from, 4);
        memcpy(at + len - 4, from + len - 4, 4);
    } else if (len > 0) {
        at[0] = from[0];
        at[len / 2] = from[len / 2];
        at[len - 1] = from[len - 1];
    }
}

pal_str pal_route_join_parts(pal_arena *arena, const pal_str *parts, size_t len)
{
    size_t size = 0;
    for (size_t i = 0; i < len; i++)
        size += parts[i].len;
    char *joined = pal_arena_alloc(arena, size + 1);
    if (!joined)
        return pal_str_make(NULL, 0);
    char *at = joined;
    for (size_t i = 0; i < len; i++) {
        put(at, parts[i]);
        at += parts[i].len;
    }
    return pal_str_make(joined, size);
}

static size_t count_either(pal_str text, char a, char b)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == a || text.data[i] == b;
    return count;
}

pal_str pal_route_escape(pal_arena *arena, pal_str value)
{
    size_t count = count_either(value, '|', '%');
    if (count == 0)
        return value;
    char *escaped = pal_arena_alloc(arena, value.len + 2 * count);
    if (!escaped)
        return value;
    size_t len = 0;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        if (c == '|' || c == '%') {
            memcpy(escaped + len, c == '|' ? "%7C" : "%25", 3);
            len += 3;
        } else {
            escaped[len++] = c;
        }
    }
    return pal_str_make(escaped, len);
}

pal_str pal_route_quote(pal_arena *arena, pal_str text)
{
    size_t count = count_either(text, '"', '\\'), len = 0;
    char *quoted = pal_arena_alloc(arena, text.len + count + 2);
    if (!quoted)
        return pal_str_make(NULL, 0);
    quoted[len++] = '"';
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\')
            quoted[len++] = '\\';
        quoted[len++] = text.data[i];
    }
    quoted[len++] = '"';
    return pal_str_make(quoted, len);
}
