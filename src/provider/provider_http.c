/* provider_http.c - a model call over HTTP: sends the request, and passes the response through the
 * kind's reader to the sink.
 *
 * The sink can cancel the call from any of its callbacks. Then nothing more is reported, and the
 * call is freed when it is off the stack. A failure on our side ends the call at once. A service
 * that has sent the complete answer gets a moment to end the response properly, so that the
 * connection can be reused. On the loop. */
#include "base/memory.h"
#include "palaver/limits.h"
#include "provider/provider_kind.h"

#define PATH_LEN_MAX 4096
#define GRACE_MS 1000

typedef struct http_call {
    pal_model_call base;
    pal_http_call *http; /* NULL after the end of the call */
    pal_reader reader;
    pal_timer grace;
    uint32_t slot;         /* the slot that it uses, from 1; 0: none */
    bool has_conversation; /* the request continued a conversation that the service stores */
    bool is_ending; /* it will be freed */
    bool is_canceled;
} http_call;

static http_call *call_of(pal_reader *reader)
{
    return (http_call *)((char *)reader - offsetof(http_call, reader));
}

/* From here on the provider can be closed. */
static void detach(http_call *call)
{
    pal_loop_timer_stop(call->base.provider->loop, &call->grace);
    pal_slots_release(call->base.provider, call->slot);
    pal_provider_call_remove(&call->base);
}

static void free_detached(http_call *call)
{
    pal_reader_done(&call->reader);
    pal_free(call);
}

static void free_call(http_call *call)
{
    detach(call);
    free_detached(call);
}

/* ---- The end of a call ---- */

static void judge(http_call *call)
{
    const pal_provider *provider = call->base.provider;
    pal_answer *answer = &call->reader.answer;
    pal_model_end *end = &answer->end;
    pal_provider_redact(provider, &answer->error);
    end->error = pal_buf_str(&answer->error);
    end->is_stale = end->status != PAL_OK && call->has_conversation && provider->kind->is_stale &&
            provider->kind->is_stale(end);
}

/* `http` is NULL if we ended the call. */
static void finish(http_call *call, const pal_http_end *http)
{
    pal_answer *answer = &call->reader.answer;
    pal_provider *provider = call->base.provider;
    call->is_ending = true;
    pal_reader_finish(&call->reader, http);
    if (!http || http->sent)
        provider->was_reached = true;
    answer->end.is_unreachable = http && http->unreachable && !provider->was_reached;
    judge(call);
    detach(call);
    if (!call->is_canceled)
        answer->sink.end(answer->user, &answer->end);
    free_detached(call);
}

static void stop(http_call *call)
{
    pal_http_cancel(call->http);
    call->http = NULL;
    finish(call, NULL);
}

static void on_grace(pal_timer *timer)
{
    stop((http_call *)((char *)timer - offsetof(http_call, grace)));
}

static void cancel_http(pal_model_call *base)
{
    http_call *call = (http_call *)base;
    call->is_canceled = true;
    call->reader.answer.is_silent = true;
    if (call->http)
        pal_http_cancel(call->http);
    call->http = NULL;
    if (!call->is_ending && !call->reader.is_busy)
        free_call(call);
}

/* ---- Receiving ---- */

static void on_head(void *user, const pal_http_head *head)
{
    pal_reader_head(user, head);
}

/* The answer is complete, has failed, or was canceled. */
static void on_over(pal_reader *reader)
{
    http_call *call = call_of(reader);
    if (call->is_canceled)
        free_call(call);
    else if (call->reader.answer.end.status)
        stop(call);
    else if (call->reader.answer.is_done && call->grace.position == 0 &&
            !pal_loop_timer_start(call->base.provider->loop, &call->grace, GRACE_MS, on_grace))
        stop(call);
}

static void on_end(void *user, const pal_http_end *end)
{
    http_call *call = call_of(user);
    call->http = NULL;
    if (end->code)
        call->reader.code = end->code;
    finish(call, end);
}

static const pal_http_events http_events = {on_head, pal_reader_take, on_end};

/* ---- Sending ---- */

static pal_status send(http_call *call, const pal_model_request *request, pal_str url, pal_str body,
        pal_error *err)
{
    const pal_provider *provider = call->base.provider;
    pal_arena *arena = pal_arena_new(0);
    size_t len = provider->headers_len;
    pal_header *headers = arena
            ? pal_arena_array(arena, len + PAL_AFFINITY_HEADERS_MAX + 1, sizeof(*headers))
            : NULL;
    if (!headers) {
        pal_arena_free(arena);
        return pal_no_memory(err);
    }
    memcpy(headers, provider->headers, len * sizeof(*headers));
    const pal_http_request http = {
            .method = "POST",
            .url = url,
            .headers = headers,
            .headers_len = pal_affinity_put(
                    provider, request->conversation, request, arena, headers, len),
            .body = body,
            .connect_ms = provider->connect_ms,
            .idle_ms = provider->idle_ms,
            .total_ms = request->timeout_ms,
            .response_bytes_max = PAL_PROVIDER_ANSWER_BYTES_MAX,
    };
    pal_status status =
            pal_http_start(provider->http, &http, &http_events, &call->reader, &call->http, err);
    pal_arena_free(arena);
    return status;
}

pal_status pal_provider_http_start(pal_provider *provider, const pal_model_request *request,
        const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err)
{
    pal_buf url, body;
    http_call *call = pal_calloc(1, sizeof(*call));
    if (!call)
        return pal_no_memory(err);
    pal_buf_init(&url, provider->url.len + PATH_LEN_MAX);
    pal_buf_init(&body, PAL_PROVIDER_REQUEST_BYTES_MAX);
    call->base = (pal_model_call){.provider = provider, .cancel = cancel_http};
    call->has_conversation = request->conversation.len > 0;
    pal_provider_call_add(provider, &call->base);
    bool has_items = pal_provider_sends_items(provider, request);
    pal_reader_init(&call->reader,
            has_items ? provider->kind->responses_reader : provider->kind->reader,
            provider->scratch, sink, user);
    call->reader.on_over = on_over;
    pal_buf_append_str(&url, provider->url);
    pal_model_request with_slot = *request;
    with_slot.slot = call->slot = pal_slots_take(provider, request->conversation);
    pal_status status = has_items
            ? pal_responses_write(provider, &with_slot, &url, &body, err)
            : provider->kind->write(provider, &with_slot, &url, &body, err);
    if (status != PAL_OK)
        goto out;
    if (url.failure || body.failure) {
        status = pal_error_set(err, url.failure ? url.failure : body.failure,
                "the request to '%.*s' is too long, or there is no memory",
                PAL_STR_ARG(provider->name));
        goto out;
    }
    status = send(call, request, pal_buf_str(&url), pal_buf_str(&body), err);
    if (status != PAL_OK)
        goto out;
    *out_call = &call->base;
    call = NULL;
out:
    if (call)
        free_call(call);
    pal_buf_done(&url);
    pal_buf_done(&body);
    return status;
}
