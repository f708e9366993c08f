/* provider_models.c - requests the list of models of a service.
 *
 * A query is in its provider's list until it ends, and closing the provider cancels all queries.
 * Each query ends with one callback, unless it is canceled. It is removed from the list before the
 * callback, so the callback can close the provider. On the loop. */
#include <stdio.h>
#include "base/memory.h"
#include "palaver/limits.h"
#include "provider/provider_kind.h"

struct pal_models_query {
    pal_provider *provider;
    pal_models_query *previous, *next;
    pal_http_call *http; /* NULL if the kind uses no network, or after the end of the call */
    pal_timer timer;     /* delays the result of a provider without network */
    pal_buf body;
    pal_provider_on_models on_models;
    void *user;
};

/* From here on the provider can be closed. */
static void detach(pal_models_query *query)
{
    if (query->previous)
        query->previous->next = query->next;
    else
        query->provider->queries = query->next;
    if (query->next)
        query->next->previous = query->previous;
    pal_loop_timer_stop(query->provider->loop, &query->timer);
}

static void free_detached(pal_models_query *query)
{
    pal_buf_done(&query->body);
    pal_free(query);
}

static void free_query(pal_models_query *query)
{
    detach(query);
    free_detached(query);
}

void pal_models_query_cancel_all(pal_provider *provider)
{
    while (provider->queries) {
        if (provider->queries->http)
            pal_http_cancel(provider->queries->http);
        free_query(provider->queries);
    }
}

/* ---- Lists ---- */

/* The list is {"data":[{"id":...}]}, {"models":[{"name":...}]}, or a bare array. */
static pal_json list_of(pal_json value)
{
    static const char *const names[] = {"data", "models"};
    if (pal_json_type_of(value) == PAL_JSON_ARRAY)
        return value;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pal_json list = pal_json_find(value, names[i]);
        if (pal_json_type_of(list) == PAL_JSON_ARRAY)
            return list;
    }
    return (pal_json){0};
}

static pal_json name_of(pal_json model)
{
    static const char *const names[] = {"id", "name", "model"};
    if (pal_json_type_of(model) == PAL_JSON_STRING)
        return model;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pal_json name = pal_json_find(model, names[i]);
        if (pal_json_type_of(name) == PAL_JSON_STRING)
            return name;
    }
    return (pal_json){0};
}

bool pal_models_read(pal_str body, pal_arena *scratch, pal_buf *out_json)
{
    static const pal_json_limits limits = {.values_max = PAL_PROVIDER_VALUES_MAX};
    pal_json value, model;
    pal_arena_reset(scratch);
    if (pal_json_parse(scratch, body, &limits, &value, NULL) != PAL_OK)
        return false;
    pal_json list = list_of(value);
    if (pal_json_type_of(list) != PAL_JSON_ARRAY)
        return false;
    pal_json_writer writer = pal_json_writer_make(out_json);
    pal_json_begin_array(&writer);
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &model);) {
        pal_json name = name_of(model);
        if (pal_json_type_of(name) == PAL_JSON_STRING)
            pal_json_put_raw(&writer, pal_json_raw(name));
    }
    pal_json_end_array(&writer);
    return !out_json->failure;
}

/* ---- Queries ---- */

static void tell(pal_models_query *query, pal_str json, const pal_error *err)
{
    detach(query);
    query->on_models(query->user, json, err);
    free_detached(query);
}

static void tell_failure(pal_models_query *query, const pal_http_end *end)
{
    const pal_provider *provider = query->provider;
    pal_error err = {0};
    pal_buf text;
    pal_buf_init(&text, 1024);
    if (end->status == PAL_OK)
        pal_buf_format(&text, "HTTP %ld: ", end->code);
    if (end->status == PAL_OK && end->error[0] == '\0')
        pal_provider_excerpt(&text, pal_buf_str(&query->body));
    else
        pal_buf_append_text(&text, end->error);
    pal_provider_redact(provider, &text);
    (void)pal_error_set(&err, end->status == PAL_OK ? PAL_PROVIDER : end->status,
            "provider '%.*s' did not list its models: %.*s", PAL_STR_ARG(provider->name),
            PAL_STR_ARG(pal_buf_str(&text)));
    tell(query, pal_str_make(NULL, 0), &err);
    pal_buf_done(&text);
}

static void on_body(void *user, pal_str bytes)
{
    pal_models_query *query = user;
    pal_buf_append_str(&query->body, bytes);
}

static void on_end(void *user, const pal_http_end *end)
{
    pal_models_query *query = user;
    pal_buf json;
    query->http = NULL;
    pal_buf_init(&json, PAL_PROVIDER_EVENT_BYTES_MAX);
    if (end->status == PAL_OK && end->code == 200 && !query->body.failure &&
            pal_models_read(pal_buf_str(&query->body), query->provider->scratch, &json))
        tell(query, pal_buf_str(&json), NULL);
    else
        tell_failure(query, end);
    pal_buf_done(&json);
}

static const pal_http_events http_events = {.body = on_body, .end = on_end};

static pal_status ask(pal_models_query *query, pal_error *err)
{
    const pal_provider *provider = query->provider;
    pal_buf url;
    pal_buf_init(&url, provider->url.len + 256);
    pal_buf_append_str(&url, provider->url);
    const char *path = provider->kind->models_path;
    pal_buf_append_text(&url, path ? path : "/models");
    const pal_http_request request = {
            .method = "GET",
            .url = pal_buf_str(&url),
            .headers = provider->headers,
            .headers_len = provider->headers_len,
            .connect_ms = provider->connect_ms,
            .total_ms = provider->models_ms,
            .response_bytes_max = PAL_PROVIDER_EVENT_BYTES_MAX,
    };
    pal_status status = url.failure;
    if (status == PAL_OK)
        status = pal_http_start(provider->http, &request, &http_events, query, &query->http, err);
    else
        (void)pal_error_set(err, status, "out of memory");
    pal_buf_done(&url);
    return status;
}

/* A kind without network has one model, which has the kind's name. */
static void on_timer(pal_timer *timer)
{
    pal_models_query *query =
            (pal_models_query *)((char *)timer - offsetof(pal_models_query, timer));
    char json[64];
    int len = snprintf(json, sizeof json, "[\"%s\"]", query->provider->kind->info.kind);
    tell(query, pal_str_make(json, (size_t)len), NULL);
}

pal_status pal_provider_models(
        pal_provider *provider, pal_provider_on_models on_models, void *user, pal_error *err)
{
    pal_status status = PAL_OK;
    pal_models_query *query = pal_calloc(1, sizeof(*query));
    if (!query)
        return pal_no_memory(err);
    *query = (pal_models_query){.provider = provider, .on_models = on_models, .user = user};
    pal_buf_init(&query->body, PAL_PROVIDER_EVENT_BYTES_MAX);
    query->next = provider->queries;
    if (provider->queries)
        provider->queries->previous = query;
    provider->queries = query;
    if (provider->kind->info.url)
        status = ask(query, err);
    else if (!pal_loop_timer_start(provider->loop, &query->timer, 0, on_timer))
        status = pal_no_memory(err);
    if (status != PAL_OK)
        free_query(query);
    return status;
}
