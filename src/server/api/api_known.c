/* api_known.c - refuses members of the body and query parameters that a route does not know.
 * Otherwise a misspelled name would be ignored, and the request would do something else than it
 * says.
 *
 * The known names are those of the route's tables (api_object.h). An open object accepts members
 * that Palaver does not know; the handler checks those with pal_call_known_names(). */
#include "server/server_call.h"

#include <stdio.h>
#include <string.h>
#include "base/nearest.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"

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

/* Returns the member with this name, or NULL. */
static const pal_api_member *find_member(const pal_api_object *object, pal_str name)
{
    const pal_api_member *found = NULL;
    for (const pal_api_member *each = object->members; !found && each->type; each++) {
        if (each->type == PAL_API_INCLUDE)
            found = find_member(each->of, name);
        else if (pal_str_is(name, each->name))
            found = each;
    }
    return found;
}

static void try_members(known *k, const pal_api_object *object)
{
    for (const pal_api_member *each = object->members; each->type; each++) {
        if (each->type == PAL_API_INCLUDE)
            try_members(k, each->of);
        else
            try_name(k, pal_str_of(each->name));
    }
}

/* Suggestions cost more than the rest of a short request, so only an unknown name gets them.
 * `object` NULL: no name is known. */
static pal_status refuse_member(pal_call *call, const pal_api_object *object, pal_str name,
        const char *what, pal_error *err)
{
    known k = known_of(name);
    if (object)
        try_members(&k, object);
    return refuse(call, &k, what, err);
}

static pal_status check_value(
        pal_call *call, const pal_api_object *object, pal_json value, pal_error *err);

/* `object` NULL: no member is known. */
static pal_status check_object(
        pal_call *call, const pal_api_object *object, pal_json json, pal_error *err)
{
    pal_json name, value;
    pal_json_iter each = pal_json_each(json);
    if (object && (object->is_open || !object->members))
        return PAL_OK;
    while (pal_json_next(&each, &name, &value)) {
        pal_str text = pal_json_string(name, call->arena);
        if (pal_arena_failure(call->arena) != PAL_OK)
            break;
        const pal_api_member *member = object ? find_member(object, text) : NULL;
        if (!member)
            return refuse_member(call, object, text, "member", err);
        pal_status status = member->of ? check_value(call, member->of, value, err) : PAL_OK;
        if (status != PAL_OK)
            return status;
    }
    return pal_arena_checked(call->arena, err);
}

/* Checks an object or an array of objects. Values of other types are the reader's to refuse. */
static pal_status check_value(
        pal_call *call, const pal_api_object *object, pal_json value, pal_error *err)
{
    pal_json item;
    pal_json_iter each = pal_json_each(value);
    pal_json_type type = pal_json_type_of(value);
    pal_status status = PAL_OK;
    if (type == PAL_JSON_OBJECT)
        return check_object(call, object, value, err);
    while (type == PAL_JSON_ARRAY && status == PAL_OK && pal_json_next(&each, NULL, &item)) {
        if (pal_json_type_of(item) == PAL_JSON_OBJECT)
            status = check_object(call, object, item, err);
    }
    return status;
}

/* A route without a body accepts {} too, because some clients always send it. */
static pal_status check_no_body(pal_call *call, pal_error *err)
{
    pal_str text = pal_buf_str(&call->exchange->body);
    pal_json body = {0};
    if (call->route->doc.request || !text.len)
        return PAL_OK;
    pal_status status = pal_json_parse(call->arena, text, NULL, &body, NULL);
    if (status == PAL_NO_MEMORY)
        return pal_arena_checked(call->arena, err);
    if (status != PAL_OK || pal_json_type_of(body) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID,
                "the body is not a JSON object; this route takes no body");
    return check_object(call, NULL, body, err);
}

static pal_status check_members(pal_call *call, pal_error *err)
{
    if (!(call->route->flags & (PAL_API_JSON | PAL_API_ANY_JSON)))
        return check_no_body(call, err);
    return check_object(call, call->route->doc.request, call->body, err);
}

/* ---- Names in a list ---- */

static bool is_listed(const char *names, pal_str name)
{
    bool found = false;
    for (const char *p = names; *p && !found;) {
        size_t len = strcspn(p, " ");
        found = pal_str_equal(name, pal_str_make(p, len));
        p += len + strspn(p + len, " ");
    }
    return found;
}

static known try_names(const char *names, pal_str name)
{
    known k = known_of(name);
    for (const char *p = names; *p;) {
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

pal_status pal_call_known_names(
        pal_call *call, pal_json object, const char *names, bool is_open, pal_error *err)
{
    pal_json_iter each = pal_json_each(object);
    pal_json name, value;
    pal_status status = PAL_OK;
    while (status == PAL_OK && pal_json_next(&each, &name, &value)) {
        pal_str text = pal_json_string(name, call->arena);
        pal_str slip = {0};
        if (is_listed(names, text))
            continue;
        if (is_open)
            slip = slip_of(names, text);
        if (is_open && !slip.len)
            continue;
        known k = try_names(names, text);
        if (is_open)
            k.best = slip;
        status = refuse(call, &k, "member", err);
    }
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

static pal_status check_parameters(pal_call *call, pal_error *err)
{
    pal_str name;
    const pal_api_object *query = call->route->doc.query;
    for (size_t at = 0; pal_exchange_query_next(call->exchange, &at, &name);) {
        if (!name.len)
            continue;
        if (!query || !find_member(query, name))
            return refuse_member(call, query, name, "parameter", err);
    }
    return PAL_OK;
}

pal_status pal_call_known(pal_call *call, pal_error *err)
{
    pal_status status = call->exchange->query.len ? check_parameters(call, err) : PAL_OK;
    return status == PAL_OK ? check_members(call, err) : status;
}
