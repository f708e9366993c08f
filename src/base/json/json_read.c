/* json_read.c - checks a text against RFC 8259 and writes its values to a tape, in one pass.
 *
 * There is no recursion and no stack. While a container is open, the `skip` of its node holds the
 * distance back to the container around it, and the depth is a number. When the container is
 * closed, the distance is replaced by the real skip. The tape starts at a size that fits common
 * texts, doubles if necessary, and returns unused memory. Functions that read take the position to
 * read from and return the position after it, or NULL after they have filled the error. */
#include "base/json/json.h"

#include <string.h>
#include "base/json/json_hex.h"
#include "base/json/json_node.h"
#include "base/json/json_scan.h"
#include "base/memory.h"
#include "base/utf8.h"

#define NO_PARENT UINT32_MAX

typedef struct reader {
    const char *text;
    const char *end;
    pal_json_node *nodes;
    uint32_t len; /* number of nodes in use */
    uint32_t cap;
    uint32_t parent; /* the innermost open container, or NO_PARENT */
    uint32_t depth;
    uint32_t depth_max;
    uint32_t values_max;
    pal_arena *arena;
    pal_error *err;
    pal_status status;
} reader;

static const char *fail(reader *r, const char *at, const char *what)
{
    if (at == r->end)
        what = "unexpected end of the JSON text";
    r->status = pal_error_set(r->err, PAL_INVALID, "%s at byte %zu", what, (size_t)(at - r->text));
    return NULL;
}

static pal_status arena_failed(reader *r)
{
    r->status = pal_arena_failure(r->arena);
    return pal_error_set(r->err, r->status, "out of memory for a JSON text of %zu bytes",
            (size_t)(r->end - r->text));
}

static bool resize_tape(reader *r, size_t cap)
{
    size_t old_size = (size_t)r->cap * sizeof *r->nodes;
    pal_json_node *nodes = pal_arena_grow(r->arena, r->nodes, old_size, cap * sizeof *nodes);
    if (!nodes) {
        arena_failed(r);
        return false;
    }
    r->nodes = nodes;
    r->cap = (uint32_t)cap;
    return true;
}

/* `at` is how far the text was read. The rest is expected to be as dense as the part before it, so
 * one step is usually enough. Each step grows the tape by at least half, so that many steps stay
 * cheap. */
static __attribute__((noinline)) bool grow_tape(reader *r, const char *at)
{
    if (r->len >= r->values_max) {
        r->status = pal_error_set(
                r->err, PAL_LIMIT, "JSON text has more than %u values", (unsigned)r->values_max);
        return false;
    }
    double share = (double)(r->end - r->text) / (double)(at - r->text + 1);
    size_t expected = (size_t)(share * r->len * 1.05) + 16;
    size_t least = (size_t)r->cap + r->cap / 2;
    if (expected < least)
        expected = least;
    return resize_tape(r, expected < r->values_max ? expected : r->values_max);
}

/* `count` has the meaning given in json_node.h. The other fields are those of a value that contains
 * no other values. */
static inline bool add_node(
        reader *r, pal_json_type type, const char *from, const char *to, uint32_t count)
{
    if (__builtin_expect(r->len == r->cap, 0) && !grow_tape(r, to))
        return false;
    r->nodes[r->len++] = (pal_json_node){
            .start = (uint32_t)(from - r->text),
            .len = (uint32_t)(to - from),
            .skip = 1,
            .type = type,
            .count = count,
    };
    return true;
}

static const char *skip_long_space(const char *p, const char *end)
{
    uint64_t word;
    for (;;) {
        /* Indented texts consist mostly of runs of spaces. */
        while ((size_t)(end - p) >= sizeof word) {
            memcpy(&word, p, sizeof word);
            if (word != 0x2020202020202020u)
                break;
            p += sizeof word;
        }
        if (p == end || (*p != ' ' && *p != '\n' && *p != '\r' && *p != '\t'))
            return p;
        p++;
    }
}

static inline const char *skip_space(const char *p, const char *end)
{
    if (p < end && (unsigned char)*p > ' ')
        return p;
    if (end - p > 1 && *p == ' ' && (unsigned char)p[1] > ' ')
        return p + 1;
    return skip_long_space(p, end);
}

static inline bool is_letter_escape(char c)
{
    static const bool letters[256] = {
            ['"'] = true,
            ['\\'] = true,
            ['/'] = true,
            ['b'] = true,
            ['f'] = true,
            ['n'] = true,
            ['r'] = true,
            ['t'] = true,
    };
    return letters[(unsigned char)c];
}

/* `p` points to the backslash. */
static inline const char *read_escape(reader *r, const char *p)
{
    const char *start = p++;
    if (p == r->end)
        return fail(r, p, "");
    if (*p != 'u')
        return is_letter_escape(*p) ? p + 1 : fail(r, start, "unknown escape");
    p++;
    if (r->end - p >= 4 && json_hex4(p) >= 0)
        return p + 4;
    while (p < r->end && json_hex(*p) >= 0)
        p++;
    return fail(r, p, "expected four hex digits after '\\u'");
}

/* `p` points to a backslash. Reads escapes and the few plain characters between them, for which
 * json_scan() would be too slow. */
static inline const char *read_escapes(reader *r, const char *p)
{
    do {
        p = read_escape(r, p);
        if (!p)
            return NULL;
        const char *near = r->end - p > JSON_PLAIN_NEAR ? p + JSON_PLAIN_NEAR : r->end;
        while (p < near && json_is_plain(*p))
            p++;
    } while (p < r->end && *p == '\\');
    return p;
}

/* `p` points to a byte that is not ASCII. Reads all consecutive characters that are not ASCII. */
static const char *read_wide_chars(reader *r, const char *p)
{
    const unsigned char *end = (const unsigned char *)r->end;
    do {
        size_t len = pal_utf8_char_len((const unsigned char *)p, end);
        if (len == 0) {
            fail(r, p, "invalid UTF-8");
            return NULL;
        }
        p += len;
    } while (p < r->end && (unsigned char)*p >= 0x80);
    return p;
}

/* `p` points to the opening quote. */
static inline const char *read_string(reader *r, const char *p)
{
    const char *start = p++;
    uint32_t has_escapes = 0;
    for (;;) {
        p = json_scan(p, r->end);
        if (p == r->end)
            return fail(r, p, "");
        if (*p == '"')
            break;
        if (*p == '\\') {
            has_escapes = 1;
            p = read_escapes(r, p);
        } else if ((unsigned char)*p >= 0x80) {
            p = read_wide_chars(r, p);
        } else {
            return fail(r, p, "control character in a string");
        }
        if (!p)
            return NULL;
    }
    return add_node(r, PAL_JSON_STRING, start, p + 1, has_escapes) ? p + 1 : NULL;
}

static inline const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Reads one or more digits. */
static inline const char *read_digits(reader *r, const char *p)
{
    const char *after = skip_digits(p, r->end);
    return after > p ? after : fail(r, p, "expected a digit");
}

static bool is_number_start(char c)
{
    return c == '-' || (c >= '0' && c <= '9');
}

static const char *read_number(reader *r, const char *p)
{
    const char *start = p;
    p += *p == '-';
    if (p < r->end && *p == '0')
        p++;
    else if (!(p = read_digits(r, p)))
        return NULL;
    if (p < r->end && *p == '.' && !(p = read_digits(r, p + 1)))
        return NULL;
    if (p < r->end && (*p | 0x20) == 'e') {
        p++;
        p += p < r->end && (*p == '+' || *p == '-');
        if (!(p = read_digits(r, p)))
            return NULL;
    }
    return add_node(r, PAL_JSON_NUMBER, start, p, 0) ? p : NULL;
}

static inline const char *read_word(reader *r, const char *p, pal_json_type type, const char *word)
{
    size_t len = strlen(word), left = (size_t)(r->end - p);
    if (left < len || memcmp(p, word, len) != 0)
        return fail(r, p, "expected a value");
    return add_node(r, type, p, p + len, 0) ? p + len : NULL;
}

/* Reads the name of a member and the colon after it. */
static inline const char *read_name(reader *r, const char *p)
{
    p = skip_space(p, r->end);
    if (p == r->end || *p != '"')
        return fail(r, p, "expected a member name in quotes");
    p = read_string(r, p);
    if (!p)
        return NULL;
    p = skip_space(p, r->end);
    if (p == r->end || *p != ':')
        return fail(r, p, "expected ':'");
    return p + 1;
}

/* `p` points to the opening bracket. Reads up to the first element or the first member's value.
 * Sets *out_opened to false if the container is empty. */
static const char *open_container(reader *r, const char *p, pal_json_type type, bool *out_opened)
{
    if (r->depth == r->depth_max) {
        r->status =
                pal_error_set(r->err, PAL_LIMIT, "JSON is nested deeper than %u levels at byte %zu",
                        (unsigned)r->depth_max, (size_t)(p - r->text));
        return NULL;
    }
    if (!add_node(r, type, p, p + 1, 0))
        return NULL;

    uint32_t at = r->len - 1;
    const char *inside = skip_space(p + 1, r->end);
    if (inside < r->end && *inside == (type == PAL_JSON_OBJECT ? '}' : ']')) {
        r->nodes[at].len = (uint32_t)(inside + 1 - p);
        return inside + 1;
    }
    r->nodes[at].skip = r->parent == NO_PARENT ? 0 : at - r->parent;
    r->parent = at;
    r->depth++;
    *out_opened = true;
    return type == PAL_JSON_OBJECT ? read_name(r, inside) : inside;
}

/* `p` points to the closing bracket of the innermost container. */
static void close_container(reader *r, const char *p)
{
    pal_json_node *node = &r->nodes[r->parent];
    uint32_t back = node->skip;
    node->len = (uint32_t)(p + 1 - r->text) - node->start;
    node->skip = r->len - r->parent;
    r->parent = back ? r->parent - back : NO_PARENT;
    r->depth--;
}

/* Reads one scalar, or the beginning of a container. */
static inline const char *read_value(reader *r, const char *p, bool *out_opened)
{
    p = skip_space(p, r->end);
    if (p == r->end)
        return fail(r, p, "");
    switch (*p) {
    case '"':
        return read_string(r, p);
    case '{':
        return open_container(r, p, PAL_JSON_OBJECT, out_opened);
    case '[':
        return open_container(r, p, PAL_JSON_ARRAY, out_opened);
    case 't':
        return read_word(r, p, PAL_JSON_TRUE, "true");
    case 'f':
        return read_word(r, p, PAL_JSON_FALSE, "false");
    case 'n':
        return read_word(r, p, PAL_JSON_NULL, "null");
    default:
        return is_number_start(*p) ? read_number(r, p) : fail(r, p, "expected a value");
    }
}

/* Called after a value. Closes containers until a comma announces another value, or until all of
 * them are closed. */
static inline const char *read_after_value(reader *r, const char *p)
{
    while (r->parent != NO_PARENT) {
        pal_json_node *node = &r->nodes[r->parent];
        bool is_object = node->type == PAL_JSON_OBJECT;
        node->count++;
        p = skip_space(p, r->end);
        if (p < r->end && *p == ',')
            return is_object ? read_name(r, p + 1) : p + 1;
        if (p == r->end || *p != (is_object ? '}' : ']'))
            return fail(r, p, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
        close_container(r, p);
        p++;
    }
    return p;
}

static bool read_text(reader *r)
{
    const char *p = r->text;
    do {
        bool opened = false;
        p = read_value(r, p, &opened);
        if (p && !opened)
            p = read_after_value(r, p);
    } while (p && r->parent != NO_PARENT);
    if (!p)
        return false;

    p = skip_space(p, r->end);
    if (p < r->end)
        fail(r, p, "unexpected text after the JSON value");
    return p == r->end;
}

pal_status pal_json_parse(pal_arena *arena, pal_str text, const pal_json_limits *limits,
        pal_json *out_value, pal_error *err)
{
    size_t bytes_max = limits && limits->bytes_max ? limits->bytes_max : PAL_JSON_BYTES_MAX;
    uint32_t depth_max = limits && limits->depth_max ? limits->depth_max : PAL_JSON_DEPTH_MAX;
    uint32_t values_max = limits && limits->values_max ? limits->values_max : UINT32_MAX;
    size_t cap = text.len / 32 + 16;
    if (bytes_max > PAL_JSON_BYTES_MAX)
        bytes_max = PAL_JSON_BYTES_MAX;
    if (text.len > bytes_max)
        return pal_error_set(err, PAL_LIMIT, "JSON text of %zu bytes exceeds the limit of %zu",
                text.len, bytes_max);

    const char *start = text.len ? text.data : "";
    reader r = {
            .text = start,
            .end = start + text.len,
            .parent = NO_PARENT,
            .depth_max = depth_max < PAL_JSON_DEPTH_MAX ? depth_max : PAL_JSON_DEPTH_MAX,
            .values_max = values_max,
            .arena = arena,
            .err = err,
    };
    if (!resize_tape(&r, cap < values_max ? cap : values_max))
        return r.status;
    bool valid = read_text(&r);
    if (pal_arena_failure(arena))
        return r.status;
    if (!resize_tape(&r, valid ? r.len : 0))
        return r.status;
    if (valid)
        *out_value = (pal_json){start, r.nodes};
    return r.status;
}
