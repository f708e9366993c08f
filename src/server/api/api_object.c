/* api_object.c - reads the bodies and the query parameters of routes by their tables. */
#include "server/api/api_object.h"

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
    return pal_call_blame(call, pal_object_read(json, object, call->arena, record, err), err);
}

/* ---- Query parameters ---- */

static pal_status read_parameter(
        pal_call *call, const pal_api_member *member, void *field, pal_error *err)
{
    pal_str text;
    uint64_t count;
    pal_status status;
    if (!pal_exchange_query(call->exchange, member->name, &text) ||
            (text.len == 0 && member->is_required))
        return member->is_required
                ? pal_call_blame(call, pal_object_missing(member, err), err)
                : PAL_OK;
    switch (member->type) {
    case PAL_API_TEXT:
        if (text.len > pal_object_max(member)) {
            call->fail_param = member->name;
            return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu",
                    member->name, text.len, (size_t)pal_object_max(member));
        }
        *(pal_str *)field = text;
        return PAL_OK;
    case PAL_API_COUNT:
        return pal_call_query_count(
                call, member->name, member->min, pal_object_max(member), field, err);
    case PAL_API_COUNT32:
        status = pal_call_query_count(
                call, member->name, member->min, pal_object_max(member), &count, err);
        if (status == PAL_OK)
            *(uint32_t *)field = (uint32_t)count;
        return status;
    case PAL_API_FLAG:
        return pal_call_query_flag(call, member->name, field, err);
    case PAL_API_WORD:
        return pal_call_blame(call, pal_object_word(member, text, field, err), err);
    case PAL_API_TIME:
        return pal_call_query_time(call, member->name, field, err);
    default:
        return PAL_OK; /* the handler reads it */
    }
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
