/* api_openai_responses_failure.c - converts the failure of a turn to the error of a response, and
 * to an HTTP error. */
#include "server/api/openai/api_openai_responses.h"
#include "server/server_call.h"

pal_str pal_response_error_code(pal_status status, long code)
{
    if (code == 429 || status == PAL_BUDGET)
        return pal_str_of("rate_limit_exceeded");
    return pal_str_of(code == 400 || status == PAL_LIMIT || status == PAL_INVALID ? "invalid_prompt"
                                                                                  : "server_error");
}

/* A turn that a client stopped is "cancelled". A turn that the server stopped has failed. */
void pal_response_set_failure(pal_response *response, const pal_event *event, pal_arena *arena)
{
    bool is_cancelled = event->state == PAL_TURN_CANCELED && pal_str_is(event->text, "canceled");
    response->status = is_cancelled ? PAL_RESPONSE_CANCELLED : PAL_RESPONSE_FAILED;
    response->completed_at = 0;
    response->output_len = 0;
    if (is_cancelled)
        return;
    response->error_code = pal_response_error_code(event->status, event->code);
    response->error_message = pal_arena_copy(
            arena, event->text.len ? event->text : pal_str_of("the turn was stopped"));
}

/* The model service's errors about the request are passed on. Its refusal of the server's API key
 * is not. */
static unsigned http_code(const pal_event *event)
{
    if (event->state == PAL_TURN_CANCELED)
        return 503;
    if (event->status == PAL_TIMEOUT)
        return 504;
    if (event->code >= 400 && event->code < 600 && event->code != 401 && event->code != 403)
        return (unsigned)event->code;
    if (event->status == PAL_PROVIDER || event->status == PAL_IO || event->status == PAL_DENIED)
        return 502;
    return event->status == PAL_LIMIT ? 400 : pal_status_http(event->status);
}

static const char *name_of(const pal_event *event)
{
    if (event->code == 404)
        return "model_not_found";
    if (event->code == 429)
        return "rate_limit_exceeded";
    return event->code == 0 && event->status == PAL_LIMIT ? "context_length_exceeded" : NULL;
}

void pal_response_fail_call(pal_call *call, const pal_event *event)
{
    pal_error err;
    pal_status status = event->status == PAL_OK ? PAL_CANCELED : event->status;
    size_t len = event->text.len < PAL_ERROR_MESSAGE_MAX ? event->text.len : PAL_ERROR_MESSAGE_MAX;
    if (event->retry_after_ms > 0)
        call->fail_retry_ms = event->retry_after_ms;
    call->fail_code = http_code(event);
    call->fail_name = name_of(event);
    if (event->code == 404)
        call->fail_param = "model";
    pal_error_set(&err, status, "%.*s", (int)len, event->text.data ? event->text.data : "");
    pal_call_fail(call, status, &err);
}
