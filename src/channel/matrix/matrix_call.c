/* matrix_call.c - requests to the homeserver. Each has a state in a list, so that closing the
 * channel reaches all of them. The token is only ever sent to the configured homeserver. */
#include <stdio.h>
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_url.h"

#define RETRY_AFTER_LEN_MAX 32
#define MEDIA_TYPE_LEN_MAX 128
#define LOCATION_LEN_MAX 2048

struct pal_matrix_call_state {
    pal_matrix *matrix;
    pal_http_call *call;
    pal_matrix_on_reply on_reply;
    void *user;
    pal_buf body;
    long code;
    bool with_token;
    uint64_t login; /* the token that it was sent with */
    char retry_after[RETRY_AFTER_LEN_MAX];
    char media_type[MEDIA_TYPE_LEN_MAX];
    char location[LOCATION_LEN_MAX];
    pal_timer timer; /* reports a request that could not be started */
    pal_status status;
    pal_error error;
    struct pal_matrix_call_state *previous, *next;
};

typedef struct pal_matrix_call_state call_state;

static void unlink_state(call_state *state)
{
    pal_matrix *matrix = state->matrix;
    if (state->previous)
        state->previous->next = state->next;
    else
        matrix->calls = state->next;
    if (state->next)
        state->next->previous = state->previous;
}

/* Reports the result and frees the state. */
static void end_state(call_state *state, pal_matrix_reply *reply)
{
    pal_matrix *matrix = state->matrix;

    unlink_state(state);
    pal_loop_timer_stop(matrix->loop, &state->timer);
    if (reply->status == PAL_OK) {
        reply->code = state->code;
        reply->body = pal_buf_str(&state->body);
        reply->media_type = pal_str_of(state->media_type);
        reply->location = pal_str_of(state->location);
        pal_matrix_failure_read(
                state->code, pal_str_of(state->retry_after), reply->body, &reply->failure);
        if (reply->failure.fault == PAL_MATRIX_FAULT_TOKEN && state->with_token &&
                state->login == matrix->logins)
            pal_matrix_account_refused(matrix, &reply->failure);
    }
    state->on_reply(matrix, reply, state->user);
    pal_buf_done(&state->body);
    pal_free(state);
}

/* A value that is too long is left out. */
static void keep_header(const pal_header *header, const char *name, char *out, size_t size)
{
    if (!pal_str_is(header->name, name) || header->value.len >= size)
        return;
    if (header->value.len)
        memcpy(out, header->value.data, header->value.len);
    out[header->value.len] = '\0';
}

static void on_head(void *user, const pal_http_head *head)
{
    call_state *state = user;

    state->code = head->code;
    for (size_t i = 0; i < head->headers_len; i++) {
        const pal_header *header = &head->headers[i];
        keep_header(header, "retry-after", state->retry_after, sizeof state->retry_after);
        keep_header(header, "content-type", state->media_type, sizeof state->media_type);
        keep_header(header, "location", state->location, sizeof state->location);
    }
}

static void on_body(void *user, pal_str bytes)
{
    pal_buf_append_str(&((call_state *)user)->body, bytes);
}

static void on_end(void *user, const pal_http_end *end)
{
    call_state *state = user;
    pal_matrix_reply reply = {.status = end->status, .sent = end->sent, .error = end->error};

    state->call = NULL;
    if (end->status == PAL_OK && state->body.failure) {
        reply.status = state->body.failure;
        reply.error = "the response is too long";
    }
    end_state(state, &reply);
}

static void on_unstarted(pal_timer *timer)
{
    call_state *state = (call_state *)((char *)timer - offsetof(call_state, timer));
    pal_matrix_reply reply = {.status = state->status, .error = state->error.message};
    end_state(state, &reply);
}

static pal_status start(call_state *state, const pal_matrix_request *request)
{
    pal_matrix *matrix = state->matrix;
    pal_buf bearer;
    pal_http_events events = {.head = on_head, .body = on_body, .end = on_end};
    pal_header headers[2] = {{pal_str_of("content-type"),
            request->content_type.len ? request->content_type : pal_str_of("application/json")}};
    size_t len = 1;

    pal_buf_init(&bearer, 64u << 10);
    if (state->with_token) {
        pal_buf_append_text(&bearer, "Bearer ");
        pal_buf_append_str(&bearer, matrix->login.access_token);
        headers[len++] = (pal_header){pal_str_of("authorization"), pal_buf_str(&bearer)};
    }
    pal_http_request http = {.method = request->method, .url = request->url, .headers = headers,
            .headers_len = len, .body = request->body,
            .total_ms = request->total_ms ? request->total_ms : PAL_MATRIX_CALL_MS,
            .response_bytes_max = state->body.len_max};
    pal_status status = bearer.failure
            ? pal_no_memory(&state->error)
            : pal_http_start(matrix->http, &http, &events, state, &state->call, &state->error);
    pal_buf_done(&bearer);
    return status;
}

void pal_matrix_call(pal_matrix *matrix, const pal_matrix_request *request,
        pal_matrix_on_reply on_reply, void *user)
{
    call_state *state = pal_calloc(1, sizeof *state);

    if (!state) {
        pal_matrix_reply reply = {.status = PAL_NO_MEMORY, .error = "out of memory"};
        on_reply(matrix, &reply, user);
        return;
    }
    *state = (call_state){.matrix = matrix, .on_reply = on_reply, .user = user,
            .with_token = !request->no_token, .login = matrix->logins, .next = matrix->calls};
    pal_buf_init(&state->body,
            request->bytes_max ? (size_t)request->bytes_max : PAL_MATRIX_BODY_BYTES_MAX);
    if (matrix->calls)
        matrix->calls->previous = state;
    matrix->calls = state;
    state->status = start(state, request);
    if (state->status != PAL_OK &&
            !pal_loop_timer_start(matrix->loop, &state->timer, 0, on_unstarted))
        on_unstarted(&state->timer);
}

void pal_matrix_call_path(pal_matrix *matrix, const char *method, const char *path,
        const pal_str *texts, size_t texts_len, pal_str body, pal_matrix_on_reply on_reply,
        void *user)
{
    pal_buf url;

    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_matrix_url_write(&url, matrix->settings->url, path, texts, texts_len);
    pal_matrix_request request = {.method = method, .url = pal_buf_str(&url), .body = body};
    pal_matrix_call(matrix, &request, on_reply, user); /* a URL that was cut is refused there */
    pal_buf_done(&url);
}

void pal_matrix_call_cancel_all(pal_matrix *matrix)
{
    while (matrix->calls) {
        call_state *state = matrix->calls;
        pal_matrix_reply reply = {.status = PAL_CANCELED, .error = "the channel is closed"};
        if (state->call)
            pal_http_cancel(state->call);
        state->call = NULL;
        end_state(state, &reply);
    }
}

void pal_matrix_reply_describe(const pal_matrix_reply *reply, char *out_text, size_t size)
{
    const pal_matrix_failure *failure = &reply->failure;

    if (reply->status != PAL_OK)
        snprintf(out_text, size, "%s", reply->error ? reply->error : "no response");
    else if (failure->code[0])
        snprintf(out_text, size, "the homeserver answered %ld %s: %s", reply->code, failure->code,
                failure->text);
    else
        snprintf(out_text, size, "the homeserver answered with HTTP status %ld", reply->code);
}
