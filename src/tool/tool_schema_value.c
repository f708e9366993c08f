/* tool_schema_value.c - the keywords of JSON Schema that check one value: its type, allowed values,
 * numbers, texts, and the length of a list or an object. Bounds that are not numbers are ignored.
 * Pure. */
#include <math.h>

#include "base/utf8.h"
#include "tool/tool_schema_internal.h"

#define SHOWN_LEN_MAX 48 /* bytes of a value that an error shows */

/* Returns as much of the value's text as fits in one line. */
static pal_str shown(pal_json value)
{
    pal_str text = pal_json_raw(value);
    return pal_str_make(text.data, pal_utf8_cut(text, SHOWN_LEN_MAX));
}

/* ---- Types ---- */

static bool is_integer(pal_json value)
{
    int64_t whole;
    uint64_t large;
    double number;
    return pal_json_i64(value, &whole) || pal_json_u64(value, &large) ||
            (pal_json_f64(value, &number) && number == floor(number));
}

/* An unknown type matches every value. */
static bool is_of_type(pal_json value, pal_json name)
{
    static const char *const names[] = {"object", "array", "string", "number", "boolean", "null"};
    const char *own = pal_json_type_name(pal_json_type_of(value));
    if (pal_json_string_is(name, "integer"))
        return pal_json_type_of(value) == PAL_JSON_NUMBER && is_integer(value);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (pal_json_string_is(name, names[i]))
            return strcmp(own, names[i]) == 0;
    }
    return true;
}

static bool fits_type(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule);
    pal_json name;
    bool nullable = false;
    if (pal_json_type_of(rule) == PAL_JSON_STRING && is_of_type(at->value, rule))
        return true;
    if (pal_json_type_of(rule) != PAL_JSON_STRING && pal_json_type_of(rule) != PAL_JSON_ARRAY)
        return true;
    while (pal_json_type_of(rule) == PAL_JSON_ARRAY && pal_json_next(&each, NULL, &name)) {
        if (is_of_type(at->value, name))
            return true;
    }
    /* An OpenAPI keyword that also occurs in the schemas of tools. */
    if (pal_json_type_of(at->value) == PAL_JSON_NULL &&
            pal_json_bool(pal_json_find(schema, "nullable"), &nullable) && nullable)
        return true;
    if (pal_json_type_of(rule) == PAL_JSON_STRING)
        return pal_schema_fail(check, at, "expected %.*s, got %s",
                PAL_STR_ARG(pal_json_string(rule, check->arena)),
                pal_json_type_name(pal_json_type_of(at->value)));
    return pal_schema_fail(check, at, "expected one of %.*s, got %s", PAL_STR_ARG(shown(rule)),
            pal_json_type_name(pal_json_type_of(at->value)));
}

static bool fits_enum(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule);
    pal_json value;
    if (pal_json_type_of(rule) != PAL_JSON_ARRAY)
        return true;
    while (pal_json_next(&each, NULL, &value)) {
        if (pal_schema_equal(check, value, at->value) || check->stopped)
            return true;
    }
    return pal_schema_fail(check, at, "expected one of %.*s, got %.*s",
            (int)pal_utf8_cut(pal_json_raw(rule), 2 * SHOWN_LEN_MAX), pal_json_raw(rule).data,
            PAL_STR_ARG(shown(at->value)));
}

static bool fits_const(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    return pal_schema_equal(check, rule, at->value) || check->stopped ||
            pal_schema_fail(check, at, "expected %.*s, got %.*s", PAL_STR_ARG(shown(rule)),
                    PAL_STR_ARG(shown(at->value)));
}

/* ---- Numbers ---- */

/* Compares two numbers: -1, 0 or 1. Returns false if one of them is not a number that can be
 * compared. */
static bool compare(pal_json a, pal_json b, int *out_order)
{
    int64_t a_whole, b_whole;
    double a_number, b_number;
    if (pal_json_i64(a, &a_whole) && pal_json_i64(b, &b_whole))
        *out_order = (a_whole > b_whole) - (a_whole < b_whole);
    else if (pal_json_f64(a, &a_number) && pal_json_f64(b, &b_number))
        *out_order = (a_number > b_number) - (a_number < b_number);
    else
        return false;
    return true;
}

/* Before 2019 the exclusive bounds were flags next to the other bounds. */
static bool is_exclusive(pal_json schema, const char *flag)
{
    bool exclusive = false;
    return pal_json_bool(pal_json_find(schema, flag), &exclusive) && exclusive;
}

static bool fits_minimum(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    int order;
    if (!compare(at->value, rule, &order) ||
            order > (is_exclusive(schema, "exclusiveMinimum") ? 0 : -1))
        return true;
    return pal_schema_fail(check, at, "%.*s does not satisfy the minimum %.*s",
            PAL_STR_ARG(shown(at->value)), PAL_STR_ARG(shown(rule)));
}

static bool fits_maximum(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    int order;
    if (!compare(at->value, rule, &order) ||
            order < (is_exclusive(schema, "exclusiveMaximum") ? 0 : 1))
        return true;
    return pal_schema_fail(check, at, "%.*s does not satisfy the maximum %.*s",
            PAL_STR_ARG(shown(at->value)), PAL_STR_ARG(shown(rule)));
}

static bool fits_exclusive_minimum(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    int order;
    return !compare(at->value, rule, &order) || order > 0 ||
            pal_schema_fail(check, at,
                    "%.*s is not greater than %.*s", PAL_STR_ARG(shown(at->value)),
                    PAL_STR_ARG(shown(rule)));
}

static bool fits_exclusive_maximum(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    int order;
    return !compare(at->value, rule, &order) || order < 0 ||
            pal_schema_fail(check, at, "%.*s is not less than %.*s", PAL_STR_ARG(shown(at->value)),
                    PAL_STR_ARG(shown(rule)));
}

static bool is_multiple(pal_json value, pal_json of)
{
    int64_t whole, step;
    double number, part;
    if (pal_json_i64(of, &step) && pal_json_i64(value, &whole))
        return step <= 0 || whole % step == 0;
    if (!pal_json_f64(value, &number) || !pal_json_f64(of, &part) || part <= 0)
        return true;
    /* 0.3 is a multiple of 0.1, though not in binary. */
    double times = number / part;
    return !isfinite(times) || fabs(times - round(times)) <= 1e-9 * fmax(1, fabs(times));
}

static bool fits_multiple_of(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    return is_multiple(at->value, rule) ||
            pal_schema_fail(check, at, "%.*s is not a multiple of %.*s",
                    PAL_STR_ARG(shown(at->value)), PAL_STR_ARG(shown(rule)));
}

/* ---- Texts ---- */

/* Characters, not bytes. */
static uint64_t text_len(pal_schema_check *check, pal_json value)
{
    pal_str text = pal_json_string(value, check->arena);
    (void)pal_schema_spend(check, text.len / 64);
    return pal_utf8_count(text);
}

static bool fits_min_length(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    uint64_t least;
    return !pal_json_u64(rule, &least) || text_len(check, at->value) >= least || check->stopped ||
            pal_schema_fail(
                    check, at, "the text has fewer than %.*s characters", PAL_STR_ARG(shown(rule)));
}

static bool fits_max_length(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    uint64_t most;
    return !pal_json_u64(rule, &most) || text_len(check, at->value) <= most || check->stopped ||
            pal_schema_fail(
                    check, at, "the text has more than %.*s characters", PAL_STR_ARG(shown(rule)));
}

static bool fits_pattern(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_str text = pal_json_string(at->value, check->arena);
    if (pal_json_type_of(rule) != PAL_JSON_STRING)
        return true;
    pal_schema_verdict verdict =
            pal_schema_pattern(check, pal_json_string(rule, check->arena), text);
    if (verdict == PAL_SCHEMA_UNSURE)
        check->unsure = true;
    return verdict != PAL_SCHEMA_DIFFERS ||
            pal_schema_fail(check, at, "%.*s does not match %.*s", PAL_STR_ARG(shown(at->value)),
                    PAL_STR_ARG(shown(rule)));
}

/* ---- How many ---- */

static bool fits_least(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    uint64_t least;
    return !pal_json_u64(rule, &least) || pal_json_count(at->value) >= least ||
            pal_schema_fail(check, at, "has %zu %s, fewer than %.*s", pal_json_count(at->value),
                    pal_json_type_of(at->value) == PAL_JSON_ARRAY ? "elements" : "members",
                    PAL_STR_ARG(shown(rule)));
}

static bool fits_most(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    uint64_t most;
    return !pal_json_u64(rule, &most) || pal_json_count(at->value) <= most ||
            pal_schema_fail(check, at, "has %zu %s, more than %.*s", pal_json_count(at->value),
                    pal_json_type_of(at->value) == PAL_JSON_ARRAY ? "elements" : "members",
                    PAL_STR_ARG(shown(rule)));
}

static bool fits_unique(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    bool unique = false;
    pal_json_iter each = pal_json_each(at->value);
    pal_json value, other;
    size_t index = 0;
    if (!pal_json_bool(rule, &unique) || !unique)
        return true;
    for (; pal_json_next(&each, NULL, &value); index++) {
        pal_json_iter rest = each;
        for (size_t second = index + 1; pal_json_next(&rest, NULL, &other); second++) {
            if (!pal_schema_spend(check, 1))
                return true;
            if (pal_schema_equal(check, value, other))
                return pal_schema_fail(check, at, "elements %zu and %zu are equal", index, second);
        }
    }
    return true;
}

const pal_schema_keyword pal_schema_value_keywords[] = {
        {"type", fits_type, PAL_JSON_NONE},
        {"enum", fits_enum, PAL_JSON_NONE},
        {"const", fits_const, PAL_JSON_NONE},
        {"minimum", fits_minimum, PAL_JSON_NUMBER},
        {"maximum", fits_maximum, PAL_JSON_NUMBER},
        {"exclusiveMinimum", fits_exclusive_minimum, PAL_JSON_NUMBER},
        {"exclusiveMaximum", fits_exclusive_maximum, PAL_JSON_NUMBER},
        {"multipleOf", fits_multiple_of, PAL_JSON_NUMBER},
        {"minLength", fits_min_length, PAL_JSON_STRING},
        {"maxLength", fits_max_length, PAL_JSON_STRING},
        {"pattern", fits_pattern, PAL_JSON_STRING},
        {"minItems", fits_least, PAL_JSON_ARRAY},
        {"maxItems", fits_most, PAL_JSON_ARRAY},
        {"uniqueItems", fits_unique, PAL_JSON_ARRAY},
        {"minProperties", fits_least, PAL_JSON_OBJECT},
        {"maxProperties", fits_most, PAL_JSON_OBJECT},
        {NULL, NULL, PAL_JSON_NONE},
};
