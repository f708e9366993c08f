/* api_known.c - refuses members of the body and query parameters that a route does not know.
 * Otherwise a misspelled name would be ignored, and the request would do something else than it
 * says.
 *
 * The known names are those of /openapi.json: the route's request schema and its list of
 * parameters. A schema with "additionalProperties":true accepts members that Palaver does not
 * know; the handler checks those with pal_call_names(). */
#include "server/server_call.h"

#include <stdio.h>
#include <string.h>
#include "base/nearest.h"
#include "dialect/dialect_member.h"
#include "server/api/api_schema.h"

#define SHOWN_MAX 64   /* bytes of an unknown name that an error shows */
#define LISTED_MAX 160 /* bytes of known names that an error lists */

/* The names that a route knows, and the best suggestion for an unknown name. */
typedef struct known {
    pal_str unknown;
    pal_nearest nearest;
    pal_str best;
    bool has_part; /* `best` is a part of the unknown name, or contains it */
    char listed[LISTED_MAX];
    size_t listed_len;
    bool is_found;
} known;

static known known_of(pal_str unknown)
{
    return (known){.unknown = unknown, .nearest = pal_nearest_make(unknown)};
}

/* True for "at" and "at_seq", and for "seq" and "at_seq": `part` is the beginning or the end of
 * `whole`, and an underscore is next to it. */
static bool is_part(pal_str part, pal_str whole)
{
    if (part.len == 0 || whole.len < part.len + 2)
        return false;
    size_t rest = whole.len - part.len;
    return (whole.data[part.len] == '_' && memcmp(whole.data, part.data, part.len) == 0) ||
            (whole.data[rest - 1] == '_' && memcmp(whole.data + rest, part.data, part.len) == 0);
}

/* A part of a name is a better suggestion than a name with other letters. */
static void try_name(known *k, pal_str name)
{
    k->is_found |= pal_str_equal(k->unknown, name);
    bool is_nearer = pal_nearest_try(&k->nearest, name);
    if (is_part(k->unknown, name) || is_part(name, k->unknown)) {
        k->best = k->has_part ? k->best : name;
        k->has_part = true;
    } else if (is_nearer && !k->has_part) {
        k->best = name;
    }
    if (k->listed_len + name.len + 3 > LISTED_MAX)
        return;
    int len = snprintf(k->listed + k->listed_len, LISTED_MAX - k->listed_len, "%s%.*s",
            k->listed_len ? ", " : "", PAL_STR_ARG(name));
    k->listed_len += (size_t)len;
}

static pal_status refuse(pal_call *call, const known *k, const char *what, pal_error *err)
{
    int shown = (int)(k->unknown.len < SHOWN_MAX ? k->unknown.len : SHOWN_MAX);
    call->fail_param = pal_arena_copy(call->arena, k->unknown).data;
    if (k->best.len)
        return pal_error_set(err, PAL_INVALID, "unknown %s '%.*s'; did you mean '%.*s'?", what,
                shown, k->unknown.data, PAL_STR_ARG(k->best));
    if (!k->listed_len)
        return pal_error_set(err, PAL_INVALID, "unknown %s '%.*s'; this route takes none", what,
                shown, k->unknown.data);
    return pal_error_set(err, PAL_INVALID, "unknown %s '%.*s'; this route takes %s", what, shown,
            k->unknown.data, k->listed);
}

/* ---- Members of the body ---- */

/* PAL_JSON_NONE if there is no such schema. */
static pal_json schema_named(pal_call *call, pal_str name)
{
    pal_json schema = {0};
    for (const pal_schema *each = pal_schemas; each->name; each++) {
        if (pal_str_is(name, each->name))
            (void)!pal_json_parse(call->arena, pal_str_of(each->json), NULL, &schema, NULL);
    }
    return schema;
}

static known look_up(pal_call *call, pal_json properties, pal_str member, pal_json *out_schema)
{
    known k = known_of(member);
    pal_json_iter each = pal_json_each(properties);
    pal_json name, value;
    while (!k.is_found && pal_json_next(&each, &name, &value)) {
        try_name(&k, pal_json_string(name, call->arena));
        *out_schema = value;
    }
    return k;
}

/* Follows {"$ref": "#/components/schemas/NAME"}. */
static pal_json resolve(pal_call *call, pal_json schema)
{
    static const char path[] = "#/components/schemas/";
    size_t len = sizeof path - 1;
    pal_str name = pal_json_string(pal_json_find(schema, "$ref"), call->arena);
    if (name.len <= len)
        return schema;
    return schema_named(call, pal_str_make(name.data + len, name.len - len));
}

static pal_status check_value(pal_call *call, pal_json schema, pal_json value, pal_error *err);

static pal_status check_object(pal_call *call, pal_json schema, pal_json object, pal_error *err)
{
    bool is_open = false;
    pal_json name, value, inner = {0};
    pal_json properties = pal_json_find(schema, "properties");
    pal_json_iter each = pal_json_each(object);
    pal_status status = PAL_OK;
    (void)pal_json_bool(pal_json_find(schema, "additionalProperties"), &is_open);
    while (status == PAL_OK && !is_open && pal_json_next(&each, &name, &value)) {
        known k = look_up(call, properties, pal_json_string(name, call->arena), &inner);
        if (pal_arena_failure(call->arena) != PAL_OK)
            break;
        status = k.is_found ? check_value(call, inner, value, err)
                            : refuse(call, &k, "member", err);
    }
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

static bool has_properties(pal_json schema)
{
    return pal_json_type_of(pal_json_find(schema, "properties")) != PAL_JSON_NONE;
}

static pal_status check_value(pal_call *call, pal_json schema, pal_json value, pal_error *err)
{
    pal_json item;
    pal_json_iter each = pal_json_each(value);
    pal_json_type type = pal_json_type_of(value);
    pal_status status = PAL_OK;
    if (type != PAL_JSON_OBJECT && type != PAL_JSON_ARRAY)
        return PAL_OK;
    schema = resolve(call, schema);
    if (type == PAL_JSON_OBJECT)
        return has_properties(schema) ? check_object(call, schema, value, err) : PAL_OK;
    schema = resolve(call, pal_json_find(schema, "items"));
    while (status == PAL_OK && has_properties(schema) && pal_json_next(&each, NULL, &item))
        status = check_value(call, schema, item, err);
    return status;
}

/* A route without a body accepts {} too, because some clients always send it. */
static pal_status check_no_body(pal_call *call, pal_error *err)
{
    pal_str text = pal_exchange_body(call->exchange);
    pal_json body = {0};
    if (call->route->doc.request || !text.len)
        return PAL_OK;
    pal_status status = pal_json_parse(call->arena, text, NULL, &body, NULL);
    if (status == PAL_NO_MEMORY)
        return pal_arena_checked(call->arena, err);
    if (status != PAL_OK || pal_json_type_of(body) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID,
                "the body is not a JSON object; this route takes no body");
    return check_object(call, (pal_json){0}, body, err);
}

static pal_json request_schema(pal_call *call)
{
    const char *name = call->route->doc.request;
    return schema_named(call, name ? pal_str_of(name) : (pal_str){0});
}

static pal_status check_members(pal_call *call, pal_error *err)
{
    if (!(call->route->flags & (PAL_API_JSON | PAL_API_ANY_JSON)))
        return check_no_body(call, err);
    return pal_json_count(call->body) ? check_object(call, request_schema(call), call->body, err)
                                      : PAL_OK;
}

/* ---- Names in a list ---- */

static known look_up_name(const char *names, pal_str name)
{
    known k = known_of(name);
    const char *p = names ? names : "";
    while (*p && !k.is_found) {
        size_t len = strcspn(p, " ");
        try_name(&k, pal_str_make(p, len));
        p += len + strspn(p + len, " ");
    }
    return k;
}

/* The listed name that `name` probably was meant to be; empty if there is none. */
static pal_str slip_of(const char *names, pal_str name)
{
    for (const char *p = names; *p;) {
        size_t len = strcspn(p, " ");
        pal_str word = pal_str_make(p, len);
        if (pal_nearest_is_slip(name, word))
            return word;
        p += len + strspn(p + len, " ");
    }
    return (pal_str){0};
}

pal_status pal_call_names(
        pal_call *call, pal_json object, const char *names, bool is_open, pal_error *err)
{
    pal_json_iter each = pal_json_each(object);
    pal_json name, value;
    pal_status status = PAL_OK;
    while (status == PAL_OK && pal_json_next(&each, &name, &value)) {
        pal_str text = pal_json_string(name, call->arena);
        known k = look_up_name(names, text);
        if (is_open)
            k.best = slip_of(names, text);
        if (!k.is_found && (!is_open || k.best.len))
            status = refuse(call, &k, "member", err);
    }
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

static pal_status check_parameters(pal_call *call, pal_error *err)
{
    pal_str name;
    for (size_t at = 0; pal_exchange_query_next(call->exchange, &at, &name);) {
        if (!name.len)
            continue;
        known k = look_up_name(call->route->doc.query, name);
        if (!k.is_found)
            return refuse(call, &k, "parameter", err);
    }
    return PAL_OK;
}

pal_status pal_call_known(pal_call *call, pal_error *err)
{
    pal_status status = check_parameters(call, err);
    return status == PAL_OK ? check_members(call, err) : status;
}
