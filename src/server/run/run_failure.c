/* run_failure.c - the one table from a failed turn to the HTTP code of its response.
 *
 * The model service's errors about the request are passed on: the caller can correct them. Its
 * refusal of the server's API key (401, 403) does not concern the caller and becomes 502. A turn
 * that did not fail but is not done was stopped by the server, or by another client: 503.
 *
 * The first row that applies counts. An API's rows come before the common rows. docs/errors.md
 * shows the result. */
#include "server/run/run.h"

#include "server/server_call.h"

#define SAME PAL_RUN_SAME_CODE

/* OpenAI's chat completions and every new API use these rows alone. */
static const pal_run_failure common_rows[] = {
        {.status = PAL_TIMEOUT, .code = 504},
        {.from = 400, .to = 400, .code = SAME},
        {.from = 402, .to = 402, .code = SAME},
        {.from = 404, .to = 499, .code = SAME},
        {.status = PAL_PROVIDER, .code = 502},
        {.status = PAL_IO, .code = 502},
        {.status = PAL_DENIED, .code = 502},
        {0},
};

/* OpenAI's Responses API names errors, and its clients retry the service's own codes. A context
 * that is too long is an error of the request. */
const pal_run_failure pal_run_failures_responses[] = {
        {.status = PAL_TIMEOUT, .code = 504},
        {.from = 404, .to = 404, .code = SAME, .name = "model_not_found", .param = "model"},
        {.from = 429, .to = 429, .code = SAME, .name = "rate_limit_exceeded"},
        {.from = 500, .to = 599, .code = SAME},
        {.from = 400, .to = 400, .code = SAME},
        {.from = 402, .to = 402, .code = SAME},
        {.from = 404, .to = 499, .code = SAME},
        {.status = PAL_LIMIT, .code = 400, .name = "context_length_exceeded"},
        {0},
};

/* Mistral's clients know few codes. 404 would mean that the conversation does not exist, and 422
 * that the request has an invalid member. */
const pal_run_failure pal_run_failures_mistral[] = {
        {.status = PAL_CANCELED, .code = 503},
        {.from = 400, .to = 400, .code = SAME},
        {.from = 413, .to = 413, .code = SAME},
        {.from = 429, .to = 429, .code = SAME},
        {.from = 404, .to = 404, .code = 400},
        {.from = 422, .to = 422, .code = 400},
        {.status = PAL_BUSY, .code = 409},
        {.from = 100, .to = 599, .code = 502},
        {.status = PAL_NOT_FOUND, .code = 502},
        {.status = PAL_IO, .code = 500},
        {0},
};

/* The native API reports the turn's status and never the code of the model service. A 404 of the
 * service does not concern the path of the request. PAL_IO means the disk. */
const pal_run_failure pal_run_failures_native[] = {
        {.status = PAL_TIMEOUT, .code = 504},
        {.status = PAL_NOT_FOUND, .code = 502},
        {.status = PAL_IO, .code = 500},
        {0},
};

/* Anthropic's clients wait longer after 529, "overloaded". A context that is too long is an error
 * of the request. */
const pal_run_failure pal_run_failures_anthropic[] = {
        {.from = 503, .to = 503, .code = 529},
        {.from = 529, .to = 529, .code = SAME},
        {.from = 413, .to = 413, .code = SAME},
        {.status = PAL_LIMIT, .code = 400},
        {0},
};

static bool is_last(const pal_run_failure *row)
{
    return row->from == 0 && row->status == PAL_OK;
}

static bool applies(const pal_run_failure *row, const pal_event *end)
{
    return (row->from == 0 || (end->code >= row->from && end->code <= row->to)) &&
            (row->status == PAL_OK || row->status == end->status);
}

static const pal_run_failure *find(const pal_run_failure *rows, const pal_event *end)
{
    for (; rows && !is_last(rows); rows++) {
        if (applies(rows, end))
            return rows;
    }
    return NULL;
}

pal_run_failure pal_run_failure_of(const pal_run_failure *rows, const pal_event *end)
{
    const pal_run_failure *row = find(rows, end);
    if (!row)
        row = find(common_rows, end);
    pal_run_failure failure =
            row ? *row : (pal_run_failure){.code = pal_call_http_code(end->status)};
    if (failure.code == SAME)
        failure.code = (unsigned)end->code;
    if (end->state != PAL_TURN_FAILED)
        failure.code = 503;
    return failure;
}

void pal_run_fail(pal_run *run, const pal_event *end)
{
    pal_error err;
    pal_call *call = pal_run_take_call(run);
    pal_status status = end->status == PAL_OK ? PAL_CANCELED : end->status;
    pal_run_failure failure = pal_run_failure_of(run->handlers->failures, end);
    if (end->retry_after_ms > 0)
        call->fail_retry_ms = end->retry_after_ms;
    call->fail_code = failure.code;
    call->fail_name = failure.name;
    call->fail_param = failure.param;
    pal_error_set(&err, status, "%.*s", PAL_STR_ARG(end->text));
    pal_call_fail(call, status, &err);
}
