/* provider_forward.c - forwards a client's request unchanged to the service, with the service's
 * address and keys, and reads the response only to count it. The request must be written for the
 * service's own API. On the loop. */
#include <assert.h>
#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"
#include "provider/provider_answer.h"
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

/* ---- Sending ---- */

static bool is_replaced(const pal_http_header *header, const pal_provider_forwarded *forwarded)
{
    for (size_t i = 0; i < forwarded->headers_len; i++) {
        if (pal_text_equal_nocase(header->name, forwarded->headers[i].name))
            return true;
    }
    return false;
}

/* A header of the request could otherwise replace the service's key, or begin another header. */
static pal_status check_header(const pal_http_header *header, pal_error *err)
{
    if (pal_text_is_token(header->name) && !pal_text_is_nocase(header->name, "authorization") &&
            !pal_text_is_nocase(header->name, "x-api-key") && !pal_text_has_control(header->value))
        return PAL_OK;
    return pal_error_set(
            err, PAL_INVALID, "header '%.*s' cannot be forwarded", PAL_EXCERPT(header->name, 80));
}

/* Combines the service's headers and those of the request. */
static pal_status make_headers(const pal_provider *provider,
        const pal_provider_forwarded *forwarded, pal_arena *arena, pal_http_header **out_headers,
        size_t *out_len, pal_error *err)
{
    size_t len = 0;
    if (forwarded->headers_len > PAL_FORWARD_HEADERS_MAX)
        return pal_error_set(err, PAL_INVALID, "more than %d headers cannot be forwarded",
                PAL_FORWARD_HEADERS_MAX);
    pal_http_header *headers = pal_arena_array(
            arena, provider->headers_len + forwarded->headers_len, sizeof(*headers));
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
    *out_len = len;
    return PAL_OK;
}

pal_status pal_provider_forward(pal_provider *provider, const pal_provider_forwarded *forwarded,
        const pal_http_events *events, void *user, pal_http_call **out_call, pal_error *err)
{
    pal_http_header *headers = NULL;
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

void pal_provider_redact(const pal_provider *provider, pal_buf *text)
{
    for (size_t i = 0; i < provider->secrets_len; i++)
        pal_answer_redact(text, provider->secrets[i]);
}

/* ---- Counting ---- */

struct pal_meter {
    pal_reader reader;
};

pal_meter *pal_meter_new(pal_provider *provider)
{
    static const pal_model_sink none;
    pal_meter *meter = pal_calloc(1, sizeof(*meter));
    assert(provider->kind->counter);
    if (meter)
        pal_reader_init(&meter->reader, provider->kind->counter, provider->scratch, &none, NULL);
    return meter;
}

void pal_meter_free(pal_meter *meter)
{
    if (!meter)
        return;
    pal_reader_done(&meter->reader);
    pal_free(meter);
}

void pal_meter_header(pal_meter *meter, pal_str name, pal_str value)
{
    pal_reader_header(&meter->reader, name, value);
}

void pal_meter_code(pal_meter *meter, long code)
{
    pal_reader_code(&meter->reader, code);
}

void pal_meter_feed(pal_meter *meter, pal_str bytes)
{
    pal_reader_feed(&meter->reader, bytes);
}

uint64_t pal_meter_said(const pal_meter *meter, pal_str *out_text)
{
    *out_text = pal_buf_str(&meter->reader.said);
    return meter->reader.said_len;
}

const pal_model_end *pal_meter_finish(pal_meter *meter, const pal_http_end *http)
{
    pal_reader_finish(&meter->reader, http);
    return &meter->reader.answer.end;
}

bool pal_meter_is_long(const pal_meter *meter)
{
    return meter->reader.form == PAL_READER_WHOLE &&
            meter->reader.body.len > PAL_PROVIDER_INLINE_BYTES_MAX;
}

const pal_model_end *pal_meter_finish_apart(pal_meter *meter, const pal_http_end *http)
{
    pal_arena *arena = pal_arena_new(0);
    meter->reader.is_on_worker = true;
    meter->reader.scratch = arena;
    if (!arena)
        pal_answer_fail(&meter->reader.answer, PAL_NO_MEMORY, "out of memory");
    pal_reader_finish(&meter->reader, http);
    pal_arena_free(arena);
    return &meter->reader.answer.end;
}
