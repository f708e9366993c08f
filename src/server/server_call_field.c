/* server_call_field.c - reads the fields of a request: members of the body, query parameters, and
 * the session that a path names. Each error names the invalid field and what it must be. */
#include "server/server_call.h"

#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/unicode.h"
#include "dialect/dialect_object.h"

pal_status pal_call_text(pal_call *call, pal_json object, const char *name, size_t len_max,
        pal_str *out, pal_error *err)
{
    return pal_call_blame(
            call, pal_object_text(object, name, len_max, call->arena, out, err), err);
}

pal_status pal_call_flag(
        pal_call *call, pal_json object, const char *name, bool *out, pal_error *err)
{
    return pal_call_blame(call, pal_object_flag(object, name, out, err), err);
}

pal_status pal_call_count(pal_call *call, pal_json object, const char *name, uint64_t min,
        uint64_t max, uint64_t *out, pal_error *err)
{
    return pal_call_blame(call, pal_object_count(object, name, min, max, out, err), err);
}

pal_status pal_call_object(
        pal_call *call, pal_json object, const char *name, pal_str *out, pal_error *err)
{
    return pal_call_blame(call, pal_object_json(object, name, out, err), err);
}

/* ---- Numbers ---- */

bool pal_call_number(pal_str text, uint64_t *out)
{
    uint64_t number = 0;
    if (text.len == 0 || text.len > 20)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)(text.data[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
                __builtin_add_overflow(number, digit, &number))
            return false;
    }
    *out = number;
    return true;
}

/* ---- Native forms ---- */

/* Errors of native forms begin with "member 'role' is ..." or with the quoted name. Errors about a
 * part of a list begin with its place, as in "parts[0]: member ..."; they do not set `param`. */
pal_status pal_call_blame(pal_call *call, pal_status status, const pal_error *err)
{
    static const char opening[] = "member ";
    size_t skip = sizeof opening - 1;
    if (status == PAL_OK || call->fail_param)
        return status;
    const char *quote = err->message + (strncmp(err->message, opening, skip) == 0 ? skip : 0);
    if (*quote != '\'')
        return status;
    const char *name = quote + 1, *end = strchr(name, '\'');
    if (end)
        call->fail_param =
                pal_arena_copy(call->arena, pal_str_make(name, (size_t)(end - name))).data;
    return status;
}

pal_str pal_call_lower(pal_call *call, pal_str text)
{
    char *lower = pal_arena_alloc(call->arena, PAL_UNICODE_LOWER_SIZE(text.len) + 1);
    return lower ? pal_str_make(lower, pal_unicode_lower(text, lower)) : pal_str_of("");
}

/* Finds a session by a Loom id, which it has as its alias "loom:ID". */
static pal_status find_loom(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err)
{
    char alias[PAL_KEY_LEN_MAX + 1];
    int len = snprintf(alias, sizeof alias, "loom:%.*s", PAL_STR_ARG(name));
    if (len < 0 || (size_t)len >= sizeof alias)
        return PAL_NOT_FOUND;
    return pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ANY,
            pal_str_of(alias), call->arena, out_session, err);
}

static pal_status find_named(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err)
{
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ANY,
            name, call->arena, out_session, err);
    return status == PAL_NOT_FOUND ? find_loom(call, name, out_session, err) : status;
}

/* A UUID from another system is a name here. It matches in upper and lower case, as Palaver's own
 * ids do. */
static pal_status find_uuid(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id id;
    if (!pal_id_from_text(name, &id))
        return PAL_NOT_FOUND;
    pal_id_to_text(id, text);
    pal_status status = find_named(call, pal_str_of(text), out_session, err);
    if (status != PAL_NOT_FOUND)
        return status;
    for (char *c = text; *c; c++)
        *c = *c >= 'a' ? (char)(*c - 'a' + 'A') : *c;
    return find_named(call, pal_str_of(text), out_session, err);
}

pal_status pal_call_session(pal_call *call, pal_str name, pal_session *out_session, pal_error *err)
{
    pal_status status = find_named(call, name, out_session, err);
    if (status == PAL_NOT_FOUND)
        status = find_uuid(call, name, out_session, err);
    if (status == PAL_NOT_FOUND)
        /* The text that Skillian sends. */
        return pal_error_set(err, PAL_NOT_FOUND, "Session not found");
    if (status == PAL_OK)
        call->owner = out_session->id;
    return status;
}
