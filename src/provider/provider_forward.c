/* provider_forward.c - forwards a client's request unchanged to the service, with the service's
 * address and keys, and reads the response only to count it. Works only for services that accept
 * chat completions. On the loop. */
#include "base/buf.h"
#include "base/memory.h"
#include "palaver/limits.h"
#include "provider/provider_answer.h"
#include "provider/provider_kind.h"

#define PATH_LEN_MAX 4096

bool pal_provider_speaks_chat(const pal_provider *provider)
{
    return provider->kind == &pal_provider_openai || provider->kind == &pal_provider_mistral;
}

/* Mistral always reports usage, and it rejects unknown members. */
bool pal_provider_hides_usage(const pal_provider *provider)
{
    return provider->kind == &pal_provider_openai;
}

pal_status pal_provider_forward(pal_provider *provider, pal_str path, pal_str body,
        const pal_http_events *events, void *user, pal_http_call **out_call, pal_error *err)
{
    pal_buf url;
    pal_buf_init(&url, provider->url.len + PATH_LEN_MAX);
    pal_buf_append_str(&url, provider->url);
    pal_buf_append_str(&url, path);
    const pal_http_request request = {
            .method = "POST",
            .url = pal_buf_str(&url),
            .headers = provider->headers,
            .headers_len = provider->headers_len,
            .body = body,
            .connect_ms = provider->connect_ms,
            .idle_ms = provider->idle_ms,
            .response_bytes_max = PAL_PROVIDER_ANSWER_BYTES_MAX,
    };
    pal_status status = url.failure
            ? pal_error_set(err, url.failure,
                    "the request to '%.*s' is too long, or there is no memory",
                      PAL_STR_ARG(provider->name))
            : pal_http_start(provider->http, &request, events, user, out_call, err);
    pal_buf_done(&url);
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
    if (meter)
        pal_reader_init(&meter->reader, &pal_reader_openai_passing, provider->scratch, &none, NULL);
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
