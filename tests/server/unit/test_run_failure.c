/* test_run_failure.c - the HTTP code of every kind of failed turn, for each API. */
#include "server/run/run.h"

#include "support/tap.h"

typedef struct expectation {
    pal_status status;
    long code; /* HTTP code of the model service */
    unsigned chat, responses, mistral, native, anthropic;
} expectation;

static unsigned code_of(
        const pal_run_failure *rows, pal_turn_state state, pal_status status, long code)
{
    pal_event end = {.kind = PAL_EVENT_ENDED, .state = state, .status = status, .code = code};
    return pal_run_failure_of(rows, &end).code;
}

static void each_failure_has_its_documented_code(void)
{
    static const expectation rows[] = {
            {PAL_INVALID, 400, 400, 400, 400, 400, 400},
            {PAL_DENIED, 401, 502, 502, 502, 502, 502},
            {PAL_DENIED, 403, 502, 502, 502, 502, 502},
            {PAL_PROVIDER, 402, 402, 402, 502, 502, 402},
            {PAL_NOT_FOUND, 404, 404, 404, 400, 502, 404},
            {PAL_PROVIDER, 408, 408, 408, 502, 502, 408},
            {PAL_LIMIT, 413, 413, 413, 413, 413, 413},
            {PAL_PROVIDER, 422, 422, 422, 400, 502, 422},
            {PAL_PROVIDER, 429, 429, 429, 429, 502, 429},
            {PAL_PROVIDER, 500, 502, 500, 502, 502, 502},
            {PAL_PROVIDER, 503, 502, 503, 502, 502, 529},
            {PAL_TIMEOUT, 504, 504, 504, 502, 504, 504},
            {PAL_PROVIDER, 0, 502, 502, 502, 502, 502},
            {PAL_TIMEOUT, 0, 504, 504, 504, 504, 504},
            {PAL_DENIED, 0, 502, 502, 502, 502, 502},
            {PAL_NOT_FOUND, 0, 404, 404, 502, 502, 404},
            {PAL_IO, 0, 502, 502, 500, 500, 502},
            {PAL_LIMIT, 0, 413, 400, 413, 413, 400},
            {PAL_BUSY, 0, 503, 503, 409, 503, 503},
            {PAL_BUDGET, 0, 429, 429, 429, 429, 429},
            {PAL_CONFLICT, 0, 409, 409, 409, 409, 409},
            {PAL_NO_MEMORY, 0, 503, 503, 503, 503, 503},
            {PAL_CORRUPT, 0, 500, 500, 500, 500, 500},
            {PAL_FULL, 0, 507, 507, 507, 507, 507},
            {PAL_PROVIDER, 529, 502, 529, 502, 502, 529},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const expectation *row = &rows[i];
        /* The native API does not know the code of the model service. */
        unsigned codes[] = {code_of(NULL, PAL_TURN_FAILED, row->status, row->code),
                code_of(pal_run_failures_responses, PAL_TURN_FAILED, row->status, row->code),
                code_of(pal_run_failures_mistral, PAL_TURN_FAILED, row->status, row->code),
                code_of(pal_run_failures_native, PAL_TURN_FAILED, row->status, 0),
                code_of(pal_run_failures_anthropic, PAL_TURN_FAILED, row->status, row->code)};
        bool is_chat = codes[0] == row->chat, is_responses = codes[1] == row->responses;
        bool is_mistral = codes[2] == row->mistral, is_native = codes[3] == row->native;
        bool is_anthropic = codes[4] == row->anthropic;
        if (!is_chat || !is_responses || !is_mistral || !is_native || !is_anthropic)
            printf("# %s, code %ld: %u %u %u %u %u\n", pal_status_name(row->status), row->code,
                    codes[0], codes[1], codes[2], codes[3], codes[4]);
        CHECK(is_chat);
        CHECK(is_responses);
        CHECK(is_mistral);
        CHECK(is_native);
        CHECK(is_anthropic);
    }
}

static void a_turn_that_was_stopped_is_503(void)
{
    const pal_run_failure *const apis[] = {
            NULL, pal_run_failures_responses, pal_run_failures_mistral, pal_run_failures_native,
            pal_run_failures_anthropic};
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        CHECK_EQ(code_of(apis[i], PAL_TURN_CANCELED, PAL_OK, 0), 503);
        CHECK_EQ(code_of(apis[i], PAL_TURN_CANCELED, PAL_CANCELED, 0), 503);
        /* The runtime was closed. */
        CHECK_EQ(code_of(apis[i], PAL_TURN_RUNNING, PAL_OK, 0), 503);
    }
}

static void responses_name_their_errors(void)
{
    pal_event end = {.state = PAL_TURN_FAILED, .status = PAL_NOT_FOUND, .code = 404};
    pal_run_failure failure = pal_run_failure_of(pal_run_failures_responses, &end);
    CHECK_STR(failure.name, "model_not_found");
    CHECK_STR(failure.param, "model");
    end = (pal_event){.state = PAL_TURN_FAILED, .status = PAL_PROVIDER, .code = 429};
    CHECK_STR(pal_run_failure_of(pal_run_failures_responses, &end).name, "rate_limit_exceeded");
    end = (pal_event){.state = PAL_TURN_FAILED, .status = PAL_LIMIT};
    CHECK_STR(pal_run_failure_of(pal_run_failures_responses, &end).name, "context_length_exceeded");
    CHECK_PTR(pal_run_failure_of(NULL, &end).name, NULL);
}

int main(void)
{
    RUN(each_failure_has_its_documented_code);
    RUN(a_turn_that_was_stopped_is_503);
    RUN(responses_name_their_errors);
    return tap_done();
}
