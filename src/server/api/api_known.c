/* api_known.c - refuses members of the body and query parameters that a route does not know.
 * Otherwise a misspelled name would be ignored, and the request would do something else than it
 * says.
 *
 * The known names are those of /openapi.json: the route's request schema and its list of
 * parameters. A schema with "additionalProperties":true accepts members that Palaver does not
 * know. */
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
    char listed[LISTED_MAX];
    size_t listed_len;
    bool is_found;
} known;

static known known_of(pal_str unknown)
{
    return (known){.unknown = unknown, .nearest = pal_nearest_make(unknown)};
}

/* True for "at" and "at_seq": `text` is the part of `word` before an underscore. */
static bool is_beginning(pal_str text, pal_str word)
{
    return text.len > 0 && word.len > text.len && word.data[text.len] == '_' &&
            memcmp(word.data, text.data, text.len) == 0;
}

static void try_name(known *k, pal_str name)
{
    k->is_found |= pal_str_equal(k->unknown, name);
    if (pal_nearest_try(&k->nearest, name) || (!k->best.len && is_beginning(k->unknown, name)))
        k->best = name;
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

/* The schema of the route's request; PAL_JSON_NONE if the route has no schema. */
static pal_json schema_of(pal_call *call)
{
    pal_json schema = {0};
    const char *name = call->route->doc.request;
    for (const pal_schema *each = pal_schemas; name && each->name; each++) {
        if (strcmp(each->name, name) == 0)
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

/* Checks objects whose schema is part of the route's schema, and lists of such objects. */
static pal_status check_value(pal_call *call, pal_json schema, pal_json value, pal_error *err)
{
    pal_json items = pal_json_find(schema, "items"), item;
    pal_json_iter each = pal_json_each(value);
    pal_status status = PAL_OK;
    if (pal_json_type_of(pal_json_find(schema, "properties")) != PAL_JSON_NONE &&
            pal_json_type_of(value) == PAL_JSON_OBJECT)
        return check_object(call, schema, value, err);
    if (pal_json_type_of(pal_json_find(items, "properties")) == PAL_JSON_NONE ||
            pal_json_type_of(value) != PAL_JSON_ARRAY)
        return PAL_OK;
    while (status == PAL_OK && pal_json_next(&each, NULL, &item))
        status = check_value(call, items, item, err);
    return status;
}

/* A route without a body accepts {} too, because some clients always send it. */
static pal_status check_no_body(pal_call *call, pal_error *err)
{
    pal_str text = pal_exchange_body(call->exchange);
    pal_json body = {0};
    if (call->route->doc.request || (call->route->flags & PAL_ROUTE_ANY_JSON) || !text.len ||
            pal_json_parse(call->arena, text, NULL, &body, NULL) != PAL_OK)
        return PAL_OK;
    return check_object(call, (pal_json){0}, body, err);
}

static pal_status check_members(pal_call *call, pal_error *err)
{
    if (!(call->route->flags & PAL_ROUTE_JSON))
        return check_no_body(call, err);
    return pal_json_count(call->body) ? check_object(call, schema_of(call), call->body, err)
                                      : PAL_OK;
}

/* ---- Query parameters ---- */

static known look_up_parameter(const char *names, pal_str parameter)
{
    known k = known_of(parameter);
    const char *p = names ? names : "";
    while (*p && !k.is_found) {
        size_t len = strcspn(p, " ");
        try_name(&k, pal_str_make(p, len));
        p += len + strspn(p + len, " ");
    }
    return k;
}

static pal_status check_parameters(pal_call *call, pal_error *err)
{
    pal_str name;
    for (size_t at = 0; pal_exchange_query_next(call->exchange, &at, &name);) {
        if (!name.len)
            continue;
        known k = look_up_parameter(call->route->doc.query, name);
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
