/* tool_schema.c - walks through a schema and a value together, keyword by keyword, within limits. A
 * check that takes too many steps ends and accepts everything. A check that goes too deep accepts
 * the rest of that branch. Pure, any thread. */
#include "tool/tool_schema.h"

#include <stdarg.h>
#include <stdio.h>

#include "tool/tool_schema_internal.h"

#define STEPS_MAX 500000
#define DEPTH_MAX 128 /* depth of nested schemas, including $ref */
#define PATH_LEN_MAX 96

bool pal_schema_spend(pal_schema_check *check, size_t steps)
{
    if (check->stopped || steps > STEPS_MAX - check->steps)
        check->stopped = true;
    else
        check->steps += (uint32_t)steps;
    return !check->stopped;
}

/* If the path is too long, its end is kept, because it is the most useful part. */
static void write_path(pal_buf *path, const pal_schema_place *at)
{
    if (!at->parent)
        return;
    write_path(path, at->parent);
    pal_buf_append_char(path, '/');
    if (at->is_element)
        pal_buf_append_u64(path, at->index);
    for (size_t i = 0; i < at->name.len; i++) {
        char c = at->name.data[i];
        if (c == '~' || c == '/')
            pal_buf_append_text(path, c == '~' ? "~0" : "~1");
        else
            pal_buf_append_char(path, c);
    }
}

bool pal_schema_fail(pal_schema_check *check, const pal_schema_place *at, const char *format, ...)
{
    char what[PAL_ERROR_MESSAGE_MAX];
    pal_buf path;
    va_list arguments;
    if (!check->err)
        return false;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    pal_buf_init(&path, SIZE_MAX / 2);
    write_path(&path, at);
    size_t from = path.len > PATH_LEN_MAX ? path.len - PATH_LEN_MAX : 0;
    while (from < path.len && ((unsigned char)path.data[from] & 0xc0) == 0x80)
        from++;
    if (path.len == 0)
        (void)pal_error_set(check->err, PAL_INVALID, "%s", what);
    else
        (void)pal_error_set(check->err, PAL_INVALID, "at '%s%.*s': %s", from ? "..." : "",
                (int)(path.len - from), path.data + from, what);
    pal_buf_done(&path);
    return false;
}

/* Objects are compared member by member, so the cost is the product of their sizes. */
bool pal_schema_equal(pal_schema_check *check, pal_json a, pal_json b)
{
    size_t a_len = pal_json_raw(a).len, b_len = pal_json_raw(b).len;
    pal_json_type type = pal_json_type_of(a);
    bool is_group = type == PAL_JSON_OBJECT || type == PAL_JSON_ARRAY;
    if (type != pal_json_type_of(b))
        return false;
    if (a_len / 16 > STEPS_MAX || b_len / 16 > STEPS_MAX)
        check->stopped = true;
    size_t steps = is_group ? 1 + (a_len / 16) * (b_len / 16) : 1 + a_len / 256;
    return pal_schema_spend(check, steps) && pal_json_equal(a, b);
}

pal_json pal_schema_find(pal_schema_check *check, pal_json object, pal_str name)
{
    pal_json_iter each = pal_json_each(object);
    pal_json found = {0}, key, value;
    if (pal_json_type_of(object) != PAL_JSON_OBJECT ||
            !pal_schema_spend(check, pal_json_count(object)))
        return found;
    while (pal_json_next(&each, &key, &value)) {
        if (pal_str_equal(pal_json_string(key, check->arena), name))
            found = value;
    }
    return found;
}

static const pal_schema_keyword *find_keyword(const pal_schema_keyword *in, pal_json name)
{
    while (in->name && !pal_json_string_is(name, in->name))
        in++;
    return in->name ? in : NULL;
}

static bool fits_keywords(pal_schema_check *check, pal_json schema, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(schema);
    pal_json_type type = pal_json_type_of(at->value);
    pal_json name, rule;
    while (pal_json_next(&each, &name, &rule)) {
        const pal_schema_keyword *keyword = find_keyword(pal_schema_value_keywords, name);
        if (!keyword)
            keyword = find_keyword(pal_schema_group_keywords, name);
        if (!pal_schema_spend(check, 1))
            return true;
        if (keyword && (keyword->type == PAL_JSON_NONE || keyword->type == type) &&
                !keyword->fits(check, schema, rule, at))
            return false;
    }
    return true;
}

bool pal_schema_fits(pal_schema_check *check, pal_json schema, const pal_schema_place *at)
{
    if (!pal_schema_spend(check, 1))
        return true;
    if (pal_json_type_of(schema) == PAL_JSON_FALSE)
        return pal_schema_fail(check, at, "no value is allowed here");
    if (pal_json_type_of(schema) == PAL_JSON_TRUE || pal_json_type_of(schema) == PAL_JSON_NONE)
        return true;
    if (pal_json_type_of(schema) != PAL_JSON_OBJECT || check->depth >= DEPTH_MAX) {
        check->unsure = true;
        return true;
    }
    check->depth++;
    bool fits = fits_keywords(check, schema, at);
    check->depth--;
    return fits || check->stopped;
}

pal_schema_verdict pal_schema_try(
        pal_schema_check *check, pal_json schema, const pal_schema_place *at)
{
    pal_error *err = check->err;
    bool unsure = check->unsure;
    check->err = NULL;
    check->unsure = false;
    pal_schema_verdict verdict = PAL_SCHEMA_DIFFERS;
    if (pal_schema_fits(check, schema, at))
        verdict = check->unsure || check->stopped ? PAL_SCHEMA_UNSURE : PAL_SCHEMA_FITS;
    check->err = err;
    check->unsure = unsure;
    return verdict;
}

pal_status pal_tool_check(pal_str schema, pal_str arguments, pal_arena *arena, pal_error *err)
{
    pal_error why;
    pal_json rules;
    pal_schema_place at = {0};
    /* Models send an empty text if a call has no arguments. */
    pal_str text = arguments.len ? arguments : pal_str_of("{}");
    pal_status status = pal_json_parse(arena, text, NULL, &at.value, &why);
    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "out of memory");
    if (status)
        return pal_error_set(err, PAL_INVALID, "the arguments are not JSON: %s", why.message);
    status = pal_json_parse(arena, schema, NULL, &rules, &why);
    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "out of memory");
    if (status)
        return PAL_OK;
    pal_schema_check check = {.root = rules, .arena = arena, .err = &why};
    bool fits = pal_schema_fits(&check, rules, &at);
    if (pal_arena_failure(arena))
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    if (fits || check.stopped)
        return PAL_OK;
    return pal_error_set(err, PAL_INVALID, "%s", why.message);
}
