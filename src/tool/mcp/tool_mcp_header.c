/* tool_mcp_header.c - arguments that a tool requires as HTTP headers as well (x-mcp-header, since
 * 2026-07-28), so that proxies can read them. If a schema requests this in a way that is not
 * allowed, the tool is not shown. Pure. */

#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "tool/mcp/tool_mcp_internal.h"

#define KEYWORD "x-mcp-header"
#define PREFIX "Mcp-Param-"
#define PLAIN_MAX 9007199254740991 /* the largest integer that all JSON readers represent exactly */
#define HEADERS_MAX 64
#define DEPTH_MAX 32

/* ---- Values ---- */

static bool is_header_safe(pal_str text)
{
    static const char start[] = "=?base64?";
    size_t len = sizeof(start) - 1;
    if (text.len == 0 || text.data[0] == ' ' || text.data[text.len - 1] == ' ')
        return text.len == 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < ' ' || text.data[i] > '~')
            return false;
    }
    return !(text.len >= len + 2 && pal_text_begins(text, start) && pal_text_ends(text, "?="));
}

pal_str pal_tool_mcp_header_value(pal_str text, pal_arena *arena)
{
    if (is_header_safe(text))
        return text;
    pal_buf value;
    pal_buf_init(&value, text.len * 2 + 64);
    pal_buf_append_text(&value, "=?base64?");
    pal_base64_encode(&value, text);
    pal_buf_append_text(&value, "?=");
    pal_str copy = pal_arena_copy(arena, pal_buf_str(&value));
    pal_buf_done(&value);
    return copy;
}

/* Returns false if the value has no header text. */
static bool value_text(pal_json value, pal_arena *arena, pal_str *out_text)
{
    int64_t number;
    pal_buf digits;
    switch (pal_json_type_of(value)) {
    case PAL_JSON_STRING:
        *out_text = pal_tool_mcp_header_value(pal_json_string(value, arena), arena);
        return true;
    case PAL_JSON_TRUE:
    case PAL_JSON_FALSE:
        *out_text = pal_json_raw(value);
        return true;
    case PAL_JSON_NUMBER:
        if (!pal_json_i64(value, &number) || number > PLAIN_MAX || number < -PLAIN_MAX)
            return false;
        pal_buf_init(&digits, 32);
        pal_buf_append_i64(&digits, number);
        *out_text = pal_arena_copy(arena, pal_buf_str(&digits));
        pal_buf_done(&digits);
        return true;
    default:
        return false;
    }
}

/* ---- Schemas ---- */

typedef struct finder {
    pal_arena *arena;
    pal_json arguments;
    pal_header *headers; /* NULL: the headers are only counted */
    pal_str names[HEADERS_MAX];
    size_t len;
    bool invalid;
} finder;

static bool is_known(const finder *f, pal_str name)
{
    for (size_t i = 0; i < f->len; i++) {
        if (pal_text_equal_nocase(f->names[i], name))
            return true;
    }
    return false;
}

static bool is_primitive(pal_json type)
{
    return pal_json_string_is(type, "string") || pal_json_string_is(type, "integer") ||
            pal_json_string_is(type, "boolean");
}

static void take_header(finder *f, pal_json schema, pal_json keyword, pal_json value)
{
    pal_str name = pal_json_string(keyword, f->arena), text;
    if (!pal_text_is_token(name) || is_known(f, name) || f->len >= HEADERS_MAX ||
            !is_primitive(pal_json_find(schema, "type"))) {
        f->invalid = true;
        return;
    }
    f->names[f->len] = name;
    if (f->headers && value_text(value, f->arena, &text)) {
        pal_buf full;
        pal_buf_init(&full, sizeof(PREFIX) + name.len);
        pal_buf_append_text(&full, PREFIX);
        pal_buf_append_str(&full, name);
        f->headers[f->len] = (pal_header){pal_arena_copy(f->arena, pal_buf_str(&full)), text};
        pal_buf_done(&full);
    }
    f->len++;
}

static pal_json find_member(pal_json object, pal_str name, pal_arena *arena)
{
    pal_json_iter each = pal_json_each(object);
    pal_json key, value, found = {0};
    while (pal_json_type_of(object) == PAL_JSON_OBJECT && pal_json_next(&each, &key, &value)) {
        if (pal_str_equal(pal_json_string(key, arena), name))
            found = value;
    }
    return found;
}

static void walk_schema(finder *f, pal_json schema, pal_json value, unsigned depth);

static void walk_properties(finder *f, pal_json properties, pal_json value, unsigned depth)
{
    pal_json_iter each = pal_json_each(properties);
    pal_json name, schema;
    while (!f->invalid && pal_json_type_of(properties) == PAL_JSON_OBJECT &&
            pal_json_next(&each, &name, &schema)) {
        pal_json own = f->headers ? find_member(value, pal_json_string(name, f->arena), f->arena)
                                  : (pal_json){0};
        walk_schema(f, schema, own, depth + 1);
    }
}

/* Returns whether the keyword occurs anywhere in the value. */
static bool has_keyword(pal_json value, unsigned depth)
{
    pal_json_iter each = pal_json_each(value);
    pal_json name, one;
    if (depth > DEPTH_MAX)
        return false;
    while (pal_json_next(&each, each.is_object ? &name : NULL, &one)) {
        if ((each.is_object && pal_json_string_is(name, KEYWORD)) || has_keyword(one, depth + 1))
            return true;
    }
    return false;
}

/* Only a value that a chain of `properties` leads to can have a header. */
static void walk_schema(finder *f, pal_json schema, pal_json value, unsigned depth)
{
    static const char *const data[] = {"default", "examples", "enum", "const", "description"};
    pal_json_iter each = pal_json_each(schema);
    pal_json name, rule;
    if (depth > DEPTH_MAX || pal_json_type_of(schema) != PAL_JSON_OBJECT)
        return;
    while (!f->invalid && pal_json_next(&each, &name, &rule)) {
        bool is_data = false;
        for (size_t i = 0; i < sizeof(data) / sizeof(*data); i++)
            is_data |= pal_json_string_is(name, data[i]);
        if (pal_json_string_is(name, KEYWORD))
            take_header(f, schema, rule, value);
        else if (pal_json_string_is(name, "properties"))
            walk_properties(f, rule, value, depth);
        else if (!is_data && has_keyword(rule, depth))
            f->invalid = true;
    }
}

bool pal_tool_mcp_headers_are_valid(pal_json schema, pal_arena *arena)
{
    finder f = {.arena = arena};
    walk_schema(&f, schema, (pal_json){0}, 0);
    return !f.invalid;
}

void pal_tool_mcp_headers_make(pal_str schema, pal_str arguments, pal_arena *arena,
        pal_header **out_headers, size_t *out_len)
{
    pal_json root;
    finder f = {.arena = arena, .headers = pal_arena_array(arena, HEADERS_MAX, sizeof(*f.headers))};
    size_t len = 0;
    if (!f.headers || pal_json_parse(arena, schema, NULL, &root, NULL) ||
            pal_json_parse(arena, arguments, NULL, &f.arguments, NULL))
        return;
    walk_schema(&f, root, f.arguments, 0);
    for (size_t i = 0; i < f.len; i++) {
        if (f.headers[i].name.len)
            f.headers[len++] = f.headers[i];
    }
    *out_headers = f.headers;
    *out_len = len;
}
