/* api_mistral_confirm.c - asks the client for permission to run a tool. A turn pauses before the
 * call, and "tool_confirmations" of a later request allows or denies it. */
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/api/mistral/api_mistral.h"
#include "server/server_call.h"

typedef struct asked_call {
    pal_arena *arena;
    pal_str id;
    uint64_t last; /* number of the newest event at the time of the request */
} asked_call;

static bool find_asked(const pal_event *event, void *user)
{
    asked_call *asked = user;
    if (event->kind == PAL_EVENT_ASKING)
        asked->id = pal_arena_copy(asked->arena, event->call_id);
    return event->number < asked->last;
}

pal_status pal_mistral_asked(
        pal_call *call, pal_id session, pal_turn_info *out_info, pal_str *out_id, pal_error *err)
{
    pal_runtime *runtime = call->server->runtime;
    asked_call asked = {.arena = call->arena};
    pal_status status = pal_turn_of_session(runtime, call->caller.tenant, session, out_info, err);
    if (status == PAL_NOT_FOUND || (status == PAL_OK && out_info->state != PAL_TURN_ASKING))
        return PAL_OK;
    if (status != PAL_OK)
        return status;
    asked.last = out_info->events;
    status = pal_turn_watch(
            runtime, call->caller.tenant, out_info->turn, 0, find_asked, NULL, &asked, err);
    /* pal_turn_watch() has reported all past events already, and later ones do not matter. */
    pal_turn_unwatch(runtime, out_info->turn, &asked);
    *out_id = asked.id;
    return status;
}

pal_status pal_mistral_confirmation(pal_call *call, pal_str asked, bool *out_allow, pal_error *err)
{
    pal_json each = {0}, list = pal_json_find(call->body, "tool_confirmations");
    pal_json_iter iter = pal_json_each(list);
    if (pal_json_type_of(list) != PAL_JSON_ARRAY || pal_json_count(list) == 0)
        return pal_mistral_wrong(call, "tool_confirmations", err,
                "'tool_confirmations' must be an array of {\"tool_call_id\", \"confirmation\"}");
    while (pal_json_next(&iter, NULL, &each)) {
        pal_str id = pal_member_string(each, "tool_call_id", call->arena);
        pal_json answer = pal_json_find(each, "confirmation");
        *out_allow = pal_json_string_is(answer, "allow");
        if (!*out_allow && !pal_json_string_is(answer, "deny"))
            return pal_mistral_wrong(call, "tool_confirmations", err,
                    "'tool_confirmations': 'confirmation' must be allow or deny");
        if (asked.len == 0 || !pal_str_equal(id, asked))
            return pal_mistral_wrong(call, "tool_confirmations", err,
                    "call '%.*s' is not waiting for a confirmation", PAL_EXCERPT(id, 80));
    }
    return PAL_OK;
}
