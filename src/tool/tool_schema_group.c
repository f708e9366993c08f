/* tool_schema_group.c - the keywords of JSON Schema that contain other schemas: for members and
 * elements, for alternatives, and by reference. Pure. */
#include "tool/tool_schema_internal.h"

#include "base/text.h"

static bool fits_member(pal_schema_check *check, pal_json schema, const pal_schema_place *at,
        pal_json name, pal_json value)
{
    pal_schema_place member = {value, at, pal_json_string(name, check->arena), 0, false};
    return pal_schema_fits(check, schema, &member);
}

static bool fits_element(pal_schema_check *check, pal_json schema, const pal_schema_place *at,
        size_t index, pal_json value)
{
    pal_schema_place element = {value, at, {NULL, 0}, index, true};
    return pal_schema_fits(check, schema, &element);
}

/* ---- Members ---- */

static bool fits_properties(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(at->value);
    pal_json name, value;
    while (pal_json_next(&each, &name, &value)) {
        pal_json own = pal_schema_find(check, rule, pal_json_string(name, check->arena));
        if (pal_json_type_of(own) != PAL_JSON_NONE && !fits_member(check, own, at, name, value))
            return false;
    }
    return true;
}

/* Returns whether a pattern of `patterns` matches the name. */
static pal_schema_verdict has_pattern(pal_schema_check *check, pal_json patterns, pal_str name)
{
    pal_json_iter each = pal_json_each(patterns);
    pal_schema_verdict found = PAL_SCHEMA_DIFFERS;
    pal_json pattern;
    while (found != PAL_SCHEMA_FITS && !check->stopped &&
            pal_json_next(&each, &pattern, &(pal_json){0})) {
        pal_schema_verdict one =
                pal_schema_pattern(check, pal_json_string(pattern, check->arena), name);
        if (one != PAL_SCHEMA_DIFFERS)
            found = one;
    }
    return found;
}

static bool fits_pattern_properties(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule), members;
    pal_json pattern, own, name, value;
    while (pal_json_type_of(rule) == PAL_JSON_OBJECT && pal_json_next(&each, &pattern, &own)) {
        pal_str text = pal_json_string(pattern, check->arena);
        members = pal_json_each(at->value);
        while (pal_json_next(&members, &name, &value)) {
            pal_str key = pal_json_string(name, check->arena);
            pal_schema_verdict verdict = pal_schema_pattern(check, text, key);
            if (check->stopped)
                return true;
            if (verdict == PAL_SCHEMA_UNSURE)
                check->unsure = true;
            if (verdict == PAL_SCHEMA_FITS && !fits_member(check, own, at, name, value))
                return false;
        }
    }
    return true;
}

/* Checks members that neither properties nor patternProperties contain. */
static bool fits_additional(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json known = pal_json_find(schema, "properties");
    pal_json patterns = pal_json_find(schema, "patternProperties");
    pal_json_iter each = pal_json_each(at->value);
    pal_json name, value;
    while (pal_json_next(&each, &name, &value)) {
        pal_str key = pal_json_string(name, check->arena);
        if (pal_json_type_of(pal_schema_find(check, known, key)) != PAL_JSON_NONE)
            continue;
        pal_schema_verdict verdict = has_pattern(check, patterns, key);
        if (verdict == PAL_SCHEMA_UNSURE)
            check->unsure = true;
        if (verdict != PAL_SCHEMA_DIFFERS || check->stopped)
            continue;
        if (pal_json_type_of(rule) == PAL_JSON_FALSE)
            return pal_schema_fail(check, at, "'%.*s' is not a known member", PAL_STR_ARG(key));
        if (!fits_member(check, rule, at, name, value))
            return false;
    }
    return true;
}

static bool has_all(pal_schema_check *check, pal_json names, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(names);
    pal_json name;
    while (pal_json_type_of(names) == PAL_JSON_ARRAY && pal_json_next(&each, NULL, &name)) {
        pal_str key = pal_json_string(name, check->arena);
        if (pal_json_type_of(name) == PAL_JSON_STRING &&
                pal_json_type_of(pal_schema_find(check, at->value, key)) == PAL_JSON_NONE &&
                !check->stopped)
            return pal_schema_fail(check, at, "'%.*s' is missing", PAL_STR_ARG(key));
    }
    return true;
}

static bool fits_required(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    return has_all(check, rule, at);
}

/* Checks both kinds: a list of names, or a schema. */
static bool fits_dependent(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule);
    pal_json name, more;
    while (pal_json_type_of(rule) == PAL_JSON_OBJECT && pal_json_next(&each, &name, &more)) {
        pal_str key = pal_json_string(name, check->arena);
        if (pal_json_type_of(pal_schema_find(check, at->value, key)) == PAL_JSON_NONE)
            continue;
        if (!has_all(check, more, at) ||
                (pal_json_type_of(more) != PAL_JSON_ARRAY && !pal_schema_fits(check, more, at)))
            return false;
    }
    return true;
}

static bool fits_names(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(at->value);
    pal_json name;
    while (pal_json_next(&each, &name, &(pal_json){0})) {
        /* The name itself is checked here: it is a string value. */
        if (!fits_member(check, rule, at, name, name))
            return false;
    }
    return true;
}

/* ---- Elements ---- */

static bool fits_prefix(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter schemas = pal_json_each(rule), values = pal_json_each(at->value);
    pal_json own, value;
    if (pal_json_type_of(rule) != PAL_JSON_ARRAY)
        return true;
    for (size_t i = 0; pal_json_next(&schemas, NULL, &own) && pal_json_next(&values, NULL, &value);
            i++) {
        if (!fits_element(check, own, at, i, value))
            return false;
    }
    return true;
}

static bool fits_from(
        pal_schema_check *check, pal_json rule, const pal_schema_place *at, size_t from)
{
    pal_json_iter each = pal_json_each(at->value);
    pal_json value;
    for (size_t i = 0; pal_json_next(&each, NULL, &value); i++) {
        if (i >= from && !fits_element(check, rule, at, i, value))
            return false;
    }
    return true;
}

/* Before 2020 a list here had the meaning of prefixItems. */
static bool fits_items(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json prefix = pal_json_find(schema, "prefixItems");
    if (pal_json_type_of(rule) == PAL_JSON_ARRAY)
        return fits_prefix(check, schema, rule, at);
    return fits_from(check, rule, at,
            pal_json_type_of(prefix) == PAL_JSON_ARRAY ? pal_json_count(prefix) : 0);
}

static bool fits_additional_items(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json items = pal_json_find(schema, "items");
    return pal_json_type_of(items) != PAL_JSON_ARRAY ||
            fits_from(check, rule, at, pal_json_count(items));
}

static bool fits_contains(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(at->value);
    pal_json value;
    uint64_t least = 1, most = UINT64_MAX, found = 0, maybe = 0;
    (void)pal_json_u64(pal_json_find(schema, "minContains"), &least);
    (void)pal_json_u64(pal_json_find(schema, "maxContains"), &most);
    for (size_t i = 0; pal_json_next(&each, NULL, &value); i++) {
        pal_schema_place element = {value, at, {NULL, 0}, i, true};
        pal_schema_verdict verdict = pal_schema_try(check, rule, &element);
        found += verdict == PAL_SCHEMA_FITS;
        maybe += verdict == PAL_SCHEMA_UNSURE;
    }
    if (maybe)
        check->unsure = true;
    if (found + maybe < least)
        return pal_schema_fail(check, at,
                "%llu elements are of the required kind, fewer than %llu",
                (unsigned long long)found, (unsigned long long)least);
    if (found > most)
        return pal_schema_fail(check, at, "%llu elements are of one kind, more than %llu",
                (unsigned long long)found, (unsigned long long)most);
    return true;
}

/* ---- Alternatives ---- */

static bool fits_all_of(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule);
    pal_json one;
    while (pal_json_type_of(rule) == PAL_JSON_ARRAY && pal_json_next(&each, NULL, &one)) {
        if (!pal_schema_fits(check, one, at))
            return false;
    }
    return true;
}

/* Reports the error of the first alternative, which is usually the intended one. */
static bool fail_as_first(pal_schema_check *check, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule);
    pal_json first;
    pal_error why, *err = check->err;
    if (!err || !pal_json_next(&each, NULL, &first))
        return pal_schema_fail(check, at, "no alternative matches");
    check->err = &why;
    bool fits = pal_schema_fits(check, first, at);
    check->err = err;
    return pal_schema_fail(check, at, "matches none of %zu alternatives; the first: %s",
            pal_json_count(rule), fits ? "the check took too long" : why.message);
}

static bool fits_any_of(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule);
    pal_json one;
    bool unsure = false;
    if (pal_json_type_of(rule) != PAL_JSON_ARRAY)
        return true;
    while (pal_json_next(&each, NULL, &one)) {
        pal_schema_verdict verdict = pal_schema_try(check, one, at);
        if (verdict == PAL_SCHEMA_FITS)
            return true;
        unsure |= verdict == PAL_SCHEMA_UNSURE;
    }
    check->unsure |= unsure;
    return unsure || fail_as_first(check, rule, at);
}

static bool fits_one_of(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_json_iter each = pal_json_each(rule);
    pal_json one;
    size_t found = 0, maybe = 0;
    if (pal_json_type_of(rule) != PAL_JSON_ARRAY)
        return true;
    while (pal_json_next(&each, NULL, &one)) {
        pal_schema_verdict verdict = pal_schema_try(check, one, at);
        found += verdict == PAL_SCHEMA_FITS;
        maybe += verdict == PAL_SCHEMA_UNSURE;
    }
    if (maybe)
        check->unsure = true;
    if (found > 1)
        return pal_schema_fail(check, at,
                "matches %zu alternatives, but only one is allowed", found);
    return found + maybe > 0 || fail_as_first(check, rule, at);
}

static bool fits_not(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_schema_verdict verdict = pal_schema_try(check, rule, at);
    if (verdict == PAL_SCHEMA_UNSURE)
        check->unsure = true;
    return verdict != PAL_SCHEMA_FITS || pal_schema_fail(check, at,
            "matches a schema that is not allowed");
}

static bool fits_if(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_schema_verdict verdict = pal_schema_try(check, rule, at);
    if (verdict == PAL_SCHEMA_UNSURE) {
        check->unsure = true;
        return true;
    }
    const char *next = verdict == PAL_SCHEMA_FITS ? "then" : "else";
    return pal_schema_fits(check, pal_json_find(schema, next), at);
}

/* ---- References, within the schema only ---- */

/* Decodes one step of a pointer: ~0, ~1 and %xx. */
static pal_str plain_step(pal_schema_check *check, pal_str step)
{
    char *out = pal_arena_alloc(check->arena, step.len + 1);
    size_t len = 0;
    for (size_t i = 0; out && i < step.len; i++) {
        char c = step.data[i];
        size_t left = step.len - i - 1;
        if (c == '%' && left >= 2 && pal_text_hex(step.data[i + 1]) >= 0 &&
                pal_text_hex(step.data[i + 2]) >= 0) {
            c = (char)(pal_text_hex(step.data[i + 1]) << 4 | pal_text_hex(step.data[i + 2]));
            i += 2;
        } else if (c == '~' && left >= 1 && (step.data[i + 1] == '0' || step.data[i + 1] == '1')) {
            c = step.data[++i] == '0' ? '~' : '/';
        }
        out[len++] = c;
    }
    return pal_str_make(out, len);
}

static pal_json step_into(pal_schema_check *check, pal_json from, pal_str step)
{
    pal_json_iter each = pal_json_each(from);
    pal_json value;
    size_t index = 0, i = 0;
    if (pal_json_type_of(from) != PAL_JSON_ARRAY)
        return pal_schema_find(check, from, step);
    for (size_t at = 0; at < step.len && step.data[at] >= '0' && step.data[at] <= '9' && at < 9;
            at++)
        index = index * 10 + (size_t)(step.data[at] - '0');
    while (pal_json_next(&each, NULL, &value)) {
        if (i++ == index)
            return value;
    }
    return (pal_json){0};
}

static pal_json follow_pointer(pal_schema_check *check, pal_str pointer)
{
    pal_json at = check->root;
    while (pointer.len) {
        pal_str rest = pal_str_make(pointer.data + 1, pointer.len - 1);
        const char *end = rest.len ? memchr(rest.data, '/', rest.len) : NULL;
        size_t len = end ? (size_t)(end - rest.data) : rest.len;
        at = step_into(check, at, plain_step(check, pal_str_make(rest.data, len)));
        pointer = pal_str_make(rest.data + len, rest.len - len);
    }
    return at;
}

/* Finds an $anchor among the definitions. */
static pal_json find_anchor(pal_schema_check *check, pal_str name)
{
    static const char *const places[] = {"$defs", "definitions"};
    pal_json key, value;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        pal_json_iter each = pal_json_each(pal_json_find(check->root, places[i]));
        while (each.is_object && pal_json_next(&each, &key, &value)) {
            pal_json anchor = pal_json_find(value, "$anchor");
            if (!pal_schema_spend(check, 1 + pal_json_count(value)))
                return (pal_json){0};
            if (pal_json_type_of(anchor) == PAL_JSON_STRING &&
                    pal_str_equal(pal_json_string(anchor, check->arena), name))
                return value;
        }
    }
    return (pal_json){0};
}

/* Nothing is ever downloaded, so a schema at another address is not checked. */
static bool fits_ref(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    pal_str ref = pal_json_string(rule, check->arena);
    pal_json target = {0};
    if (ref.len && ref.data[0] == '#') {
        pal_str rest = pal_str_make(ref.data + 1, ref.len - 1);
        target = rest.len == 0 || rest.data[0] == '/' ? follow_pointer(check, rest)
                                                      : find_anchor(check, rest);
    }
    if (pal_json_type_of(target) == PAL_JSON_NONE) {
        check->unsure = true;
        return true;
    }
    return pal_schema_fits(check, target, at);
}

/* The keyword exists in the standard, but it is not supported. */
static bool fits_unknown(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at)
{
    check->unsure = true;
    return true;
}

const pal_schema_keyword pal_schema_group_keywords[] = {
        {"properties", fits_properties, PAL_JSON_OBJECT},
        {"patternProperties", fits_pattern_properties, PAL_JSON_OBJECT},
        {"additionalProperties", fits_additional, PAL_JSON_OBJECT},
        {"required", fits_required, PAL_JSON_OBJECT},
        {"dependentRequired", fits_dependent, PAL_JSON_OBJECT},
        {"dependentSchemas", fits_dependent, PAL_JSON_OBJECT},
        {"dependencies", fits_dependent, PAL_JSON_OBJECT},
        {"propertyNames", fits_names, PAL_JSON_OBJECT},
        {"prefixItems", fits_prefix, PAL_JSON_ARRAY},
        {"items", fits_items, PAL_JSON_ARRAY},
        {"additionalItems", fits_additional_items, PAL_JSON_ARRAY},
        {"contains", fits_contains, PAL_JSON_ARRAY},
        {"allOf", fits_all_of, PAL_JSON_NONE},
        {"anyOf", fits_any_of, PAL_JSON_NONE},
        {"oneOf", fits_one_of, PAL_JSON_NONE},
        {"not", fits_not, PAL_JSON_NONE},
        {"if", fits_if, PAL_JSON_NONE},
        {"$ref", fits_ref, PAL_JSON_NONE},
        {"$dynamicRef", fits_unknown, PAL_JSON_NONE},
        {"unevaluatedProperties", fits_unknown, PAL_JSON_OBJECT},
        {"unevaluatedItems", fits_unknown, PAL_JSON_ARRAY},
        {NULL, NULL, PAL_JSON_NONE},
};
