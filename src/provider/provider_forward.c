/* provider_forward.c - forwards a client's request unchanged to the service, with the service's
 * address and keys. The request must be written for the service's own API. On the loop. */
#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"
#include "provider/provider_kind.h"

#define PATH_LEN_MAX 4096

bool pal_provider_speaks_chat(const pal_provider *provider)
{
    return provider->kind->has_chat;
}

bool pal_provider_hides_usage(const pal_provider *provider)
{
    return provider->kind->hides_usage;
}

bool pal_provider_speaks_messages(const pal_provider *provider)
{
    return provider->kind->has_messages;
}

bool pal_provider_speaks_responses(const pal_provider *provider)
{
    return provider->has_responses;
}

bool pal_provider_sends_items(const pal_provider *provider, const pal_model_request *request)
{
    return request->items_request.len && provider->has_responses;
}

/* ---- Sending ---- */

static bool is_replaced(const pal_header *header, const pal_provider_forwarded *forwarded)
{
    for (size_t i = 0; i < forwarded->headers_len; i++) {
        if (pal_text_equal_nocase(header->name, forwarded->headers[i].name))
            return true;
    }
    return false;
}

/* A header of the request could otherwise replace the service's key, or begin another header. */
static pal_status check_header(const pal_header *header, pal_error *err)
{
    if (pal_text_is_token(header->name) && !pal_text_is_nocase(header->name, "authorization") &&
            !pal_text_is_nocase(header->name, "x-api-key") && !pal_text_has_control(header->value))
        return PAL_OK;
    return pal_error_set(
            err, PAL_INVALID, "header '%.*s' cannot be forwarded", PAL_EXCERPT(header->name, 80));
}

/* Combines the service's headers and those of the request. */
static pal_status make_headers(const pal_provider *provider,
        const pal_provider_forwarded *forwarded, pal_arena *arena, pal_header **out_headers,
        size_t *out_len, pal_error *err)
{
    size_t len = 0;
    if (forwarded->headers_len > PAL_FORWARD_HEADERS_MAX)
        return pal_error_set(err, PAL_INVALID, "more than %d headers cannot be forwarded",
                PAL_FORWARD_HEADERS_MAX);
    pal_header *headers = pal_arena_array(
            arena,
            provider->headers_len + forwarded->headers_len + PAL_AFFINITY_HEADERS_MAX + 1,
            sizeof(*headers));
    if (!headers)
        return pal_no_memory(err);
    for (size_t i = 0; i < provider->headers_len; i++) {
        if (!is_replaced(&provider->headers[i], forwarded))
            headers[len++] = provider->headers[i];
    }
    for (size_t i = 0; i < forwarded->headers_len; i++) {
        pal_status status = check_header(&forwarded->headers[i], err);
        if (status != PAL_OK)
            return status;
        headers[len++] = forwarded->headers[i];
    }
    *out_headers = headers;
    *out_len = pal_affinity_put(provider, forwarded->conversation, NULL, arena, headers, len);
    return PAL_OK;
}

pal_status pal_provider_forward(pal_provider *provider, const pal_provider_forwarded *forwarded,
        const pal_http_events *events, void *user, pal_http_call **out_call, pal_error *err)
{
    pal_header *headers = NULL;
    size_t headers_len = 0;
    pal_buf url;
    pal_status status;
    pal_arena *arena = pal_arena_new(0);
    pal_buf_init(&url, provider->url.len + PATH_LEN_MAX);
    if (!arena) {
        status = pal_no_memory(err);
        goto out;
    }
    status = make_headers(provider, forwarded, arena, &headers, &headers_len, err);
    if (status != PAL_OK)
        goto out;
    pal_buf_append_str(&url, provider->url);
    pal_buf_append_str(&url, forwarded->path);
    if (url.failure) {
        status = pal_error_set(err, url.failure,
                "the request to '%.*s' is too long, or there is no memory",
                PAL_STR_ARG(provider->name));
        goto out;
    }
    const pal_http_request request = {
            .method = "POST",
            .url = pal_buf_str(&url),
            .headers = headers,
            .headers_len = headers_len,
            .body = forwarded->body,
            .connect_ms = provider->connect_ms,
            .idle_ms = provider->idle_ms,
            .response_bytes_max = PAL_PROVIDER_ANSWER_BYTES_MAX,
    };
    status = pal_http_start(provider->http, &request, events, user, out_call, err);
out:
    pal_buf_done(&url);
    pal_arena_free(arena);
    return status;
}
