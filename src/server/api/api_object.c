/* api_object.c - reads the bodies and the query parameters of routes by their tables. */
#include "server/api/api_object.h"

#include "base/clock.h"
#include "base/text.h"
#include "server/server_call.h"

const pal_api_object pal_api_any_object = {.name = "Object"};
const pal_api_object pal_api_events_body = {.name = "text/event-stream"};
const pal_api_object pal_api_json_lines_body = {.name = "application/x-ndjson"};
const pal_api_object pal_api_error_object = {"Error",
        .members = PAL_API_MEMBERS(
                {"error", PAL_API_TEXT, .is_required = true},
                {"detail", PAL_API_TEXT, .is_required = true},
                {"code", PAL_API_TEXT, .is_required = true},
                {"param", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"request_id", PAL_API_TEXT, .is_required = true})};

pal_status pal_api_object_read(pal_call *call, pal_json json, const pal_api_object *object,
        void *record, pal_error *err)
{
    pal_status status = pal_object_read(json, object, call->arena, record, err);
    return status == PAL_OK ? PAL_OK : pal_call_blame(call, status, err);
}

/* ---- Query parameters ---- */

static pal_status wrong(
        const pal_api_member *member, pal_str text, const char *wanted, pal_error *err)
{
    return pal_error_set(err, PAL_INVALID, "'%s' must be %s, not '%.*s'", member->name, wanted,
            PAL_EXCERPT(text, 40));
}

static pal_status read_count(
        const pal_api_member *member, pal_str text, uint64_t *out, pal_error *err)
{
    uint64_t number;
    if (!pal_call_number(text, &number))
        return wrong(member, text, "a whole number", err);
    return pal_object_range(member->name, member->min, pal_object_max(member), number, out, err);
}

static pal_status read_flag(
        const pal_api_member *member, pal_str text, bool *out, pal_error *err)
{
    bool yes = pal_str_is(text, "true") || pal_str_is(text, "1") || text.len == 0;
    if (!yes && !pal_str_is(text, "false") && !pal_str_is(text, "0"))
        return wrong(member, text, "true or false", err);
    *out = yes;
    return PAL_OK;
}

/* RFC 3339, or milliseconds since 1970. */
static pal_status read_time(
        const pal_api_member *member, pal_str text, int64_t *out_ms, pal_error *err)
{
    uint64_t number;
    if (pal_call_number(text, &number) && number <= INT64_MAX)
        *out_ms = (int64_t)number;
    else if (!pal_time_from_text(text, out_ms))
        return wrong(member, text, "a time such as 2026-11-15T20:47:48Z", err);
    return PAL_OK;
}

static pal_status read_value(
        const pal_api_member *member, pal_str text, void *field, pal_error *err)
{
    uint64_t count;
    pal_status status;
    switch (member->type) {
    case PAL_API_TEXT:
        if (text.len > pal_object_max(member))
            return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu",
                    member->name, text.len, (size_t)pal_object_max(member));
        *(pal_str *)field = text;
        return PAL_OK;
    case PAL_API_COUNT:
        return read_count(member, text, field, err);
    case PAL_API_COUNT32:
        status = read_count(member, text, &count, err);
        if (status == PAL_OK)
            *(uint32_t *)field = (uint32_t)count;
        return status;
    case PAL_API_FLAG:
        return read_flag(member, text, field, err);
    case PAL_API_WORD:
        return pal_object_word(member, text, field, err);
    case PAL_API_TIME:
        return read_time(member, text, field, err);
    default:
        return PAL_OK; /* the handler reads it */
    }
}

static pal_status read_parameter(
        pal_call *call, const pal_api_member *member, void *field, pal_error *err)
{
    pal_str text = {0};
    bool is_given = pal_exchange_query(call->exchange, member->name, &text);
    pal_status status = PAL_OK;
    if (is_given && (text.len || !member->is_required))
        status = read_value(member, text, field, err);
    else if (member->is_required)
        status = pal_object_missing(member, err);
    if (status != PAL_OK)
        call->fail_param = member->name;
    return status;
}
pal_status pal_api_query_read(
        pal_call *call, const pal_api_object *query, void *record, pal_error *err)
{
    for (const pal_api_member *member = query->members; member->type; member++) {
        void *field = (char *)record + member->offset;
        pal_status status = member->type == PAL_API_INCLUDE
                ? pal_api_query_read(call, member->of, field, err)
                : read_parameter(call, member, field, err);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}
