/* api_key.c - API keys over HTTP, for admins: create, list, revoke. */
#include "base/json/json_put.h"
#include "server/access/access_auth.h"
#include "server/access/access_key.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

/* The members of a request to create a key. */
typedef struct key_request {
    pal_key key;
    int is_monthly; /* 0: the budget is per day */
} key_request;

static const pal_api_object budget_body = {"KeyBudget",
        .members = PAL_API_MEMBERS(
                {"tokens", PAL_API_COUNT, "the maximum number of tokens",
                                .offset = offsetof(key_request, key.budget_tokens)},
                {"cost_micros", PAL_API_COUNT, "the maximum cost in millionths of a dollar",
                        .offset = offsetof(key_request, key.budget_cost_micros)},
                {"period", PAL_API_WORD, "the time after which the budget is full again",
                        .offset = offsetof(key_request, is_monthly), .words = "day month"})};

static const pal_api_object key_request_body = {"KeyRequest",
        .members = PAL_API_MEMBERS(
                {"tenant", PAL_API_TEXT, "the tenant of the key",
                                .offset = offsetof(key_request, key.tenant),
                                .max = PAL_TENANT_LEN_MAX},
                {"role", PAL_API_WORD, "the role of the key", .offset = offsetof(key_request,
                        key.role),
                        .min = PAL_KEY_METRICS, .words = "metrics read write admin"},
                {"label", PAL_API_TEXT, "a name for people", .offset = offsetof(key_request,
                        key.label),
                        .max = PAL_LABEL_LEN_MAX},
                {"budget", PAL_API_NESTED, .of = &budget_body},
                {"requests_per_minute", PAL_API_COUNT32, "the rate limit of the key",
                        .offset = offsetof(key_request, key.requests_per_minute),
                        .max = PAL_SERVER_KEY_RATE_MAX})};

static pal_status create_key(pal_call *call, pal_error *err)
{
    pal_key key;
    key_request request = {.key.tenant = call->caller.tenant, .key.role = PAL_KEY_WRITE};
    char secret[PAL_KEY_SECRET_SIZE];
    pal_status status = pal_api_object_read(call, call->body, &key_request_body, &request, err);
    if (status != PAL_OK)
        return status;
    request.key.is_monthly = request.is_monthly;
    status = pal_key_create(call->server->store, &request.key, call->arena, secret, &key, err);
    if (status != PAL_OK)
        return status;
    /* An idempotency key would store this response, and the secret with it. */
    pal_call_streaming(call);
    pal_auth_forget(call->server->auth);
    pal_key_put(&key, secret, pal_call_writer(call));
    pal_call_send(call, 201);
    return PAL_OK;
}

typedef struct key_query {
    uint32_t limit;
    pal_str cursor;
} key_query;

static const pal_api_object key_query_table = {
        .members = PAL_API_MEMBERS(
                {"limit", PAL_API_COUNT32, "maximum number of keys",
                                           .offset = offsetof(key_query, limit), .min = 1,
                                           .max = PAL_SERVER_KEY_PAGE_MAX},
                {"cursor", PAL_API_TEXT, "cursor of the previous page",
                        .offset = offsetof(key_query, cursor)})};

static pal_status list_keys(pal_call *call, pal_error *err)
{
    pal_key_page page;
    key_query query = {.limit = PAL_RECORD_PAGE_DEFAULT};
    pal_status status = pal_api_query_read(call, &key_query_table, &query, err);
    if (status != PAL_OK)
        return status;
    status = pal_key_list(
            call->server->store, query.cursor, query.limit, call->arena, &page, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "keys");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < page.keys_len; i++)
        pal_key_put(&page.keys[i], NULL, writer);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page.has_more);
    pal_json_name(writer, "cursor");
    if (page.has_more)
        pal_json_put_str(writer, page.keys[page.keys_len - 1].id);
    else
        pal_json_put_null(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status revoke_key(pal_call *call, pal_error *err)
{
    pal_key key;
    pal_status status =
            pal_key_revoke(call->server->store, call->params[0], call->arena, &key, err);
    if (status != PAL_OK)
        return status;
    pal_auth_forget(call->server->auth);
    pal_key_put(&key, NULL, pal_call_writer(call));
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Routes ---- */

static const pal_api_object key_body = {"Key",
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"tenant", PAL_API_TEXT, .is_required = true},
                {"role", PAL_API_WORD, .words = "metrics read write admin", .is_required = true},
                {"label", .type = PAL_API_TEXT}, {"budget", PAL_API_NESTED, .of = &budget_body},
                {"requests_per_minute", .type = PAL_API_COUNT}, {"created_at",
                        .type = PAL_API_TIME},
                {"used_on", PAL_API_TEXT, .is_nullable = true}, {"revoked_at",
                        .type = PAL_API_TIME})};
static const pal_api_object new_key_body = {"NewKey",
        .members = PAL_API_MEMBERS(
                {"key", PAL_API_TEXT, "the secret", .is_required = true},
                {.type = PAL_API_INCLUDE, .of = &key_body})};
static const pal_api_object key_page_body = {"KeyPage",
        .members = PAL_API_MEMBERS(
                {"keys", PAL_API_LIST, .of = &key_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true},
                {"cursor", PAL_API_TEXT, .is_required = true, .is_nullable = true})};

const pal_api_route pal_key_routes[] = {
        {"POST", "/api/v1/keys", PAL_KEY_ADMIN, PAL_API_WORKER | PAL_API_JSON, create_key,
                {"createKey", "create an API key; its secret is shown only in this response", NULL,
                        &key_request_body, &new_key_body, 201}},
        {"GET", "/api/v1/keys", PAL_KEY_ADMIN, PAL_API_WORKER, list_keys,
                {"listKeys",
                        "list all API keys, including revoked ones",
                        &key_query_table, NULL, &key_page_body, 200}},
        {"DELETE", "/api/v1/keys/{id}", PAL_KEY_ADMIN, PAL_API_WORKER, revoke_key,
                {"revokeKey", "revoke an API key", NULL, NULL, &key_body, 200}},
        {0},
};
