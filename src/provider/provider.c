/* provider.c - the common part of all providers: opens them by kind, checks requests, and lists
 * their calls.
 *
 * A provider does not change after it was opened, except for its lists of calls and queries and its
 * scratch arena, which is used within one callback only. All calls must have ended before it is
 * closed. On the loop. */
#include "provider/provider.h"

#include <assert.h>
#include <stdio.h>
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "palaver/limits.h"
#include "provider/provider_kind.h"

#define KIND_ADDRESS(name) &pal_provider_##name,

static const pal_provider_kind *const kinds[] = {PAL_PROVIDER_KINDS(KIND_ADDRESS)};

#define KINDS_LEN (sizeof(kinds) / sizeof(kinds[0]))
#define HEADERS_OWN_MAX 4 /* headers in addition to the configured ones */
#define MODELS_MS 30000   /* timeout of the request for the list of models */
#define SECRET_LEN_MIN 8  /* shorter values are words, not secrets */

/* ---- Kinds ---- */

static const pal_provider_kind *find_kind(pal_str name)
{
    for (size_t i = 0; i < KINDS_LEN; i++) {
        if (pal_str_is(name, kinds[i]->info.kind))
            return kinds[i];
    }
    return NULL;
}

static pal_status unknown_kind(pal_str name, pal_error *err)
{
    char names[128] = "";
    for (size_t i = 0, len = 0; i < KINDS_LEN && len < sizeof names; i++)
        len += (size_t)snprintf(
                names + len, sizeof names - len, "%s%s", i ? ", " : "", kinds[i]->info.kind);
    return pal_error_set(err, PAL_INVALID, "unknown kind of provider '%.*s'; use one of %s",
            PAL_EXCERPT(name, 60), names);
}

const pal_provider_info *pal_provider_info_at(size_t index)
{
    return index < KINDS_LEN ? &kinds[index]->info : NULL;
}

const pal_provider_info *pal_provider_info_find(pal_str kind)
{
    const pal_provider_kind *found = find_kind(kind);
    return found ? &found->info : NULL;
}

/* ---- Configuration ---- */

/* The path of a URL, such as "/v1". */
static pal_str path_of(pal_str url)
{
    size_t host = pal_text_begins(url, "https://") ? 8 : 7;
    const char *slash = url.len > host ? memchr(url.data + host, '/', url.len - host) : NULL;
    return slash ? pal_text_after(url, (size_t)(slash - url.data)) : (pal_str){0};
}

/* A URL without a path gets the path of the kind's usual URL. */
static pal_str join_url(pal_arena *arena, pal_str url, pal_str usual)
{
    while (url.len && url.data[url.len - 1] == '/')
        url.len--;
    pal_str path = path_of(url).len ? (pal_str){0} : path_of(usual);
    char *data = pal_arena_alloc(arena, url.len + path.len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    memcpy(data, url.data, url.len);
    if (path.len)
        memcpy(data + url.len, path.data, path.len);
    return pal_str_make(data, url.len + path.len);
}

static pal_status take_url(pal_provider *provider, pal_str url, pal_error *err)
{
    pal_str usual = pal_str_of(provider->kind->info.url);
    url = url.len ? pal_text_trim(url) : usual;
    if (!pal_text_is_http_url(url) || pal_text_has_control(url))
        return pal_error_set(err, PAL_INVALID,
                "'url' of provider '%.*s' must begin with http:// or https://",
                PAL_STR_ARG(provider->name));
    provider->url = join_url(provider->kept, url, usual);
    return PAL_OK;
}

/* ---- Headers ---- */

static void add_header(pal_provider *provider, pal_str name, pal_str prefix, pal_str value)
{
    for (size_t i = 0; i < provider->headers_len; i++) {
        if (pal_text_equal_nocase(provider->headers[i].name, name))
            return; /* a configured header replaces the default one */
    }
    char *data = pal_arena_alloc(provider->kept, prefix.len + value.len + 1);
    if (!data)
        return;
    memcpy(data, prefix.data ? prefix.data : "", prefix.len);
    memcpy(data + prefix.len, value.data ? value.data : "", value.len);
    provider->headers[provider->headers_len++] = (pal_header){
            pal_arena_copy(provider->kept, name), pal_str_make(data, prefix.len + value.len)};
}

static void add_secret(pal_provider *provider, pal_str value)
{
    if (value.len >= SECRET_LEN_MIN)
        provider->secrets[provider->secrets_len++] = pal_arena_copy(provider->kept, value);
    const char *blank = value.len ? memchr(value.data, ' ', value.len) : NULL;
    size_t skipped = blank ? (size_t)(blank - value.data) + 1 : value.len;
    if (value.len - skipped >= SECRET_LEN_MIN)
        provider->secrets[provider->secrets_len++] = pal_arena_copy(
                provider->kept, pal_str_make(value.data + skipped, value.len - skipped));
}

static void add_usual_headers(pal_provider *provider, pal_str key)
{
    const pal_provider_kind *kind = provider->kind;
    pal_str none = {0};
    if (key.len && kind->key_header)
        add_header(provider, pal_str_of(kind->key_header), none, key);
    else if (key.len)
        add_header(provider, pal_str_of("authorization"), pal_str_of("Bearer "), key);
    if (kind->header[0])
        add_header(provider, pal_str_of(kind->header[0]), none, pal_str_of(kind->header[1]));
    add_header(provider, pal_str_of("content-type"), none, pal_str_of("application/json"));
    add_header(provider, pal_str_of("accept"), none,
            pal_str_of("application/json, text/event-stream"));
}

static pal_status check_header(
        const pal_provider *provider, const pal_header *header, pal_error *err)
{
    if (header->name.len == 0 || pal_text_has_control(header->name) ||
            pal_text_has_control(header->value) ||
            memchr(header->name.data, ':', header->name.len))
        return pal_error_set(err, PAL_INVALID, "provider '%.*s' has an invalid header",
                PAL_STR_ARG(provider->name));
    return PAL_OK;
}

static pal_status take_headers(
        pal_provider *provider, const pal_provider_config *config, pal_error *err)
{
    size_t len = config->headers_len + HEADERS_OWN_MAX;
    pal_str key = pal_text_trim(config->api_key); /* a key from a file ends with a line end */
    provider->headers = pal_arena_array(provider->kept, len, sizeof(*provider->headers));
    provider->secrets = pal_arena_array(provider->kept, 2 * len, sizeof(*provider->secrets));
    if (!provider->headers || !provider->secrets)
        return pal_no_memory(err);
    if (pal_text_has_control(key))
        return pal_error_set(err, PAL_INVALID,
                "the API key of provider '%.*s' contains control characters",
                PAL_STR_ARG(provider->name));
    add_secret(provider, key);
    for (size_t i = 0; i < config->headers_len; i++) {
        const pal_header *header = &config->headers[i];
        pal_status status = check_header(provider, header, err);
        if (status != PAL_OK)
            return status;
        add_header(provider, header->name, pal_str_make(NULL, 0), header->value);
        add_secret(provider, header->value);
    }
    add_usual_headers(provider, key);
    return PAL_OK;
}

/* ---- APIs ---- */

/* Compatible services often have chat completions only, so they are not expected to have
 * responses. */
static pal_status take_responses(
        pal_provider *provider, pal_endpoint_responses responses, pal_error *err)
{
    const pal_provider_kind *kind = provider->kind;
    if (responses == PAL_RESPONSES_ON && !kind->responses_counter)
        return pal_error_set(err, PAL_INVALID,
                "'responses' of provider '%.*s' cannot be on: kind '%s' has no Responses API",
                PAL_STR_ARG(provider->name), kind->info.kind);
    provider->has_responses = kind->responses_counter && responses != PAL_RESPONSES_OFF &&
            (responses == PAL_RESPONSES_ON || pal_str_is(provider->url, kind->info.url));
    return PAL_OK;
}

/* ---- Opening and closing ---- */

static pal_status set_up(pal_provider *provider, const pal_provider_config *config, pal_error *err)
{
    pal_status status = PAL_OK;
    provider->kept = pal_arena_new(0);
    provider->scratch = pal_arena_new(0);
    if (!provider->kept || !provider->scratch)
        return pal_no_memory(err);
    provider->name = pal_arena_copy(provider->kept, config->name);
    provider->connect_ms = config->connect_ms;
    provider->idle_ms = config->idle_ms;
    provider->models_ms = config->models_ms ? config->models_ms : MODELS_MS;
    if (provider->kind->info.url) {
        status = take_url(provider, config->url, err);
        if (status != PAL_OK)
            return status;
        status = take_headers(provider, config, err);
        if (status == PAL_OK)
            status = pal_affinity_open(provider, config, err);
    } else if (provider->kind->open) {
        status = provider->kind->open(provider, config, err);
    }
    if (status == PAL_OK)
        status = take_responses(provider, config->responses, err);
    if (status != PAL_OK)
        return status;
    return pal_arena_failure(provider->kept) ? pal_no_memory(err) : PAL_OK;
}

pal_status pal_provider_open(pal_http *http, pal_loop *loop, const pal_provider_config *config,
        pal_provider **out_provider, pal_error *err)
{
    const pal_provider_kind *kind = find_kind(config->kind);
    if (!kind)
        return unknown_kind(config->kind, err);
    pal_provider *provider = pal_calloc(1, sizeof(*provider));
    if (!provider)
        return pal_no_memory(err);
    provider->kind = kind;
    provider->http = http;
    provider->loop = loop;
    pal_status status = set_up(provider, config, err);
    if (status == PAL_OK)
        *out_provider = provider;
    else
        pal_provider_close(provider);
    return status;
}

void pal_provider_close(pal_provider *provider)
{
    if (!provider)
        return;
    assert(!provider->calls);
    pal_models_query_cancel_all(provider);
    pal_slots_close(provider);
    pal_arena_free(provider->scratch);
    pal_arena_free(provider->kept);
    pal_free(provider);
}

pal_str pal_provider_name(const pal_provider *provider)
{
    return provider->name;
}

pal_profile pal_provider_profile(const pal_provider *provider)
{
    return provider->kind->info.profile;
}

pal_str pal_provider_family(const pal_provider *provider, pal_str model)
{
    (void)model; /* so far all models of a service accept the reasoning of each other */
    return pal_str_of(provider->kind->family);
}

bool pal_provider_keeps(const pal_provider *provider)
{
    return provider->kind->info.keeps_conversations;
}

/* ---- Calls ---- */

void pal_provider_call_add(pal_provider *provider, pal_model_call *call)
{
    call->next = provider->calls;
    if (provider->calls)
        provider->calls->previous = call;
    provider->calls = call;
}

void pal_provider_call_remove(pal_model_call *call)
{
    if (call->previous)
        call->previous->next = call->next;
    else
        call->provider->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
}

static pal_status check_request(
        const pal_provider *provider, const pal_model_request *request, pal_error *err)
{
    if (provider->kind->info.url && request->model.len == 0)
        return pal_error_set(err, PAL_INVALID, "no model is set for provider '%.*s'",
                PAL_STR_ARG(provider->name));
    if (request->messages_len == 0)
        return pal_error_set(err, PAL_INVALID, "the request has no messages");
    for (size_t i = 0; i < request->tools_len; i++) {
        if (request->tools[i].name.len == 0)
            return pal_error_set(err, PAL_INVALID, "'tools[%zu].name' is missing", i);
    }
    return PAL_OK;
}

pal_status pal_provider_start(pal_provider *provider, const pal_model_request *request,
        const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err)
{
    pal_status status = check_request(provider, request, err);
    if (status != PAL_OK)
        return status;
    if (provider->kind->start)
        return provider->kind->start(provider, request, sink, user, out_call, err);
    return pal_provider_http_start(provider, request, sink, user, out_call, err);
}

void pal_provider_cancel(pal_model_call *call)
{
    call->cancel(call);
}
