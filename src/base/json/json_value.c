/* json_value.c - reads parsed values. Nothing here changes the tape, so any number of threads can
 * read one at the same time. */
#include "base/json/json.h"

#include <assert.h>
#include <string.h>
#include "base/json/json_hex.h"
#include "base/json/json_node.h"
#include "base/json/json_scan.h"
#include "base/memory.h"
#include "base/utf8.h"

pal_json_type pal_json_type_of(pal_json value)
{
    return value.node ? (pal_json_type)value.node->type : PAL_JSON_NONE;
}

const char *pal_json_type_name(pal_json_type type)
{
    static const char *const names[] = {
            "nothing",
            "null",
            "boolean",
            "boolean",
            "number",
            "string",
            "array",
            "object",
    };
    return (size_t)type < sizeof names / sizeof names[0] ? names[type] : "nothing";
}

pal_str pal_json_raw(pal_json value)
{
    if (!value.node)
        return pal_str_make(NULL, 0);
    return pal_str_make(value.text + value.node->start, value.node->len);
}

bool pal_json_bool(pal_json value, bool *out_bool)
{
    pal_json_type type = pal_json_type_of(value);
    if (type != PAL_JSON_TRUE && type != PAL_JSON_FALSE)
        return false;
    *out_bool = type == PAL_JSON_TRUE;
    return true;
}

/* ---- Strings ---- */

/* Returns the bytes between the quotes, with escapes. */
static pal_str inner(pal_json string)
{
    assert(string.node && string.node->type == PAL_JSON_STRING);
    return pal_str_make(string.text + string.node->start + 1, string.node->len - 2);
}

static bool has_escapes(pal_json string)
{
    assert(string.node && string.node->type == PAL_JSON_STRING);
    return string.node->count != 0;
}

/* *p points to the byte after "\u". A high surrogate is combined with the low surrogate that
 * follows it. A lone surrogate is passed to pal_utf8_encode(), which writes U+FFFD. The closing
 * quote ends the look ahead. */
static uint32_t unescape_unicode(const char **p)
{
    uint32_t c = (uint32_t)json_hex4(*p);
    *p += 4;
    if (c < 0xd800 || c > 0xdbff || (*p)[0] != '\\' || (*p)[1] != 'u')
        return c;
    uint32_t low = (uint32_t)json_hex4(*p + 2);
    if (low < 0xdc00 || low > 0xdfff)
        return c;
    *p += 6;
    return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

/* Reads the next character of a valid string and writes its one to four bytes to `out`, unescaped.
 * *p is before the closing quote. Advances *p and returns the number of bytes. */
static inline size_t unescape(const char **p, char out[4])
{
    static const char letters[256] = {
            ['b'] = '\b',
            ['f'] = '\f',
            ['n'] = '\n',
            ['r'] = '\r',
            ['t'] = '\t',
            ['"'] = '"',
            ['\\'] = '\\',
            ['/'] = '/',
    };
    char c = *(*p)++;
    if (c == '\\') {
        c = *(*p)++;
        if (c == 'u')
            return pal_utf8_encode(unescape_unicode(p), out);
        c = letters[(unsigned char)c];
    }
    out[0] = c;
    return 1;
}

static pal_str unescape_all(pal_str escaped, pal_arena *arena)
{
    /* No escape is shorter than the character that it encodes. One more byte is for a
     * terminator. */
    size_t size = escaped.len + 1;
    char *text = pal_arena_grow(arena, NULL, 0, size);
    if (!text)
        return pal_str_make(NULL, 0);

    size_t len = 0;
    const char *p = escaped.data, *end = p + escaped.len;
    while (p < end) {
        const char *backslash = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((backslash ? backslash : end) - p);
        memcpy(text + len, p, plain);
        len += plain;
        p += plain;
        /* Escapes, and the few plain bytes between them. */
        for (plain = 0; p < end && plain < JSON_PLAIN_NEAR;) {
            plain = *p == '\\' ? 0 : plain + 1;
            len += unescape(&p, text + len);
        }
    }
    text[len] = '\0';
    text = pal_arena_grow(arena, text, size, len + 1);
    return pal_str_make(text, len);
}

pal_str pal_json_string(pal_json value, pal_arena *arena)
{
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_str_make(NULL, 0);
    return has_escapes(value) ? unescape_all(inner(value), arena) : inner(value);
}

static bool escaped_is(pal_str escaped, pal_str text)
{
    const char *p = escaped.data, *end = p + escaped.len;
    size_t at = 0;
    while (p < end) {
        char bytes[4];
        size_t count = unescape(&p, bytes);
        if (count > text.len - at || memcmp(bytes, text.data + at, count) != 0)
            return false;
        at += count;
    }
    return at == text.len;
}

static bool string_is(pal_json string, pal_str text)
{
    if (has_escapes(string))
        return escaped_is(inner(string), text);
    return pal_str_equal(inner(string), text);
}

bool pal_json_string_is(pal_json value, const char *text)
{
    return pal_json_type_of(value) == PAL_JSON_STRING && string_is(value, pal_str_of(text));
}

static bool strings_equal(pal_json a, pal_json b)
{
    if (!has_escapes(a))
        return string_is(b, inner(a));
    if (!has_escapes(b))
        return string_is(a, inner(b));

    /* Both texts are compared in step. An escape yields a character of several bytes at once, and
     * plain text yields it byte by byte, so each side keeps the bytes that the other side has not
     * reached yet. */
    struct {
        const char *p, *end;
        char bytes[4];
        size_t at, count;
    } sides[2] = {{.p = inner(a).data, .end = inner(a).data + inner(a).len},
            {.p = inner(b).data, .end = inner(b).data + inner(b).len}};
    for (;;) {
        for (int i = 0; i < 2; i++) {
            if (sides[i].at == sides[i].count && sides[i].p < sides[i].end) {
                sides[i].count = unescape(&sides[i].p, sides[i].bytes);
                sides[i].at = 0;
            }
        }
        bool a_ends = sides[0].at == sides[0].count, b_ends = sides[1].at == sides[1].count;
        if (a_ends || b_ends)
            return a_ends && b_ends;
        if (sides[0].bytes[sides[0].at++] != sides[1].bytes[sides[1].at++])
            return false;
    }
}

/* ---- Containers ---- */

size_t pal_json_count(pal_json value)
{
    pal_json_type type = pal_json_type_of(value);
    return type == PAL_JSON_ARRAY || type == PAL_JSON_OBJECT ? value.node->count : 0;
}

pal_json_iter pal_json_each(pal_json value)
{
    pal_json_iter iter = {.left = (uint32_t)pal_json_count(value)};
    if (iter.left) {
        iter.next = (pal_json){value.text, value.node + 1};
        iter.is_object = value.node->type == PAL_JSON_OBJECT;
    }
    return iter;
}

bool pal_json_next(pal_json_iter *iter, pal_json *out_name, pal_json *out_value)
{
    if (iter->left == 0)
        return false;
    iter->left--;
    if (iter->is_object) {
        if (out_name)
            *out_name = iter->next;
        iter->next.node++;
    } else if (out_name) {
        *out_name = (pal_json){0};
    }
    *out_value = iter->next;
    iter->next.node += iter->next.node->skip;
    return true;
}

/* Stream readers look up about twenty names in every object, and most of them are absent. Comparing
 * the lengths first rejects nearly all of them. */
static inline bool is_named(const char *text, const pal_json_node *name, pal_str wanted)
{
    const char *start = text + name->start + 1;
    if (name->count == 0)
        return name->len == wanted.len + 2 && memcmp(start, wanted.data, wanted.len) == 0;
    return escaped_is(pal_str_make(start, name->len - 2), wanted);
}

pal_json pal_json_find(pal_json object, const char *name)
{
    pal_json found = {0};
    if (pal_json_type_of(object) != PAL_JSON_OBJECT)
        return found;
    pal_str wanted = pal_str_of(name);
    const pal_json_node *node = object.node + 1;
    for (uint32_t left = object.node->count; left > 0; left--) {
        if (is_named(object.text, node, wanted))
            found = (pal_json){object.text, node + 1};
        node++;
        node += node->skip;
    }
    return found;
}

/* ---- Equality ---- */

/* Returns the last member of `object` that has the same name. */
static pal_json find_like(pal_json object, pal_json name)
{
    pal_json found = {0}, member, value;
    pal_json_iter iter = pal_json_each(object);
    while (pal_json_next(&iter, &member, &value)) {
        if (strings_equal(member, name))
            found = value;
    }
    return found;
}

/* Returns whether every name of `a` is also a name of `b`. With compare_values, the last values of
 * each name must be equal too. */
static bool members_within(pal_json a, pal_json b, bool compare_values)
{
    pal_json name, value;
    pal_json_iter iter = pal_json_each(a);
    while (pal_json_next(&iter, &name, &value)) {
        pal_json other = find_like(b, name);
        if (!other.node)
            return false;
        if (compare_values && find_like(a, name).node == value.node &&
                !pal_json_equal(value, other))
            return false;
    }
    return true;
}

static bool same_names_in_order(pal_json a, pal_json b)
{
    pal_json name_a, name_b, ignored;
    pal_json_iter each_a = pal_json_each(a), each_b = pal_json_each(b);
    while (pal_json_next(&each_a, &name_a, &ignored)) {
        if (!pal_json_next(&each_b, &name_b, &ignored) || !strings_equal(name_a, name_b))
            return false;
    }
    return each_b.left == 0;
}

/* Compares objects that have the same names in the same order. Values at the same position
 * correspond. An unequal pair counts only if no later member of the same name hides it. */
static bool objects_equal_in_order(pal_json a, pal_json b)
{
    pal_json name, value_a, value_b;
    pal_json_iter each_a = pal_json_each(a), each_b = pal_json_each(b);
    while (pal_json_next(&each_a, &name, &value_a) && pal_json_next(&each_b, NULL, &value_b)) {
        if (!pal_json_equal(value_a, value_b) && find_like(a, name).node == value_a.node)
            return false;
    }
    return true;
}

static bool arrays_equal(pal_json a, pal_json b)
{
    if (a.node->count != b.node->count)
        return false;
    pal_json value_a, value_b;
    pal_json_iter each_a = pal_json_each(a), each_b = pal_json_each(b);
    while (pal_json_next(&each_a, NULL, &value_a) && pal_json_next(&each_b, NULL, &value_b)) {
        if (!pal_json_equal(value_a, value_b))
            return false;
    }
    return true;
}

/* Takes linear time if the members are in the same order, and quadratic time otherwise. The reader
 * limits the depth, which bounds the recursion. Each pair of values is compared once. */
bool pal_json_equal(pal_json a, pal_json b)
{
    pal_json_type type = pal_json_type_of(a);
    if (type != pal_json_type_of(b))
        return false;
    switch (type) {
    case PAL_JSON_NUMBER:
        return pal_json_number_equal(a, b);
    case PAL_JSON_STRING:
        return strings_equal(a, b);
    case PAL_JSON_ARRAY:
        return arrays_equal(a, b);
    case PAL_JSON_OBJECT:
        if (same_names_in_order(a, b))
            return objects_equal_in_order(a, b);
        return members_within(b, a, false) && members_within(a, b, true);
    default:
        return true;
    }
}
