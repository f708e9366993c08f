/* api_key.c - API keys over HTTP, for admins: create, list, revoke. */
#include "base/json/json_put.h"
#include "server/access/access_auth.h"
#include "server/access/access_key.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

static pal_status read_budget(pal_call *call, pal_key *key, pal_error *err)
{
    uint64_t cost = 0;
    pal_str period = pal_str_of("day");
    pal_json budget = pal_json_find(call->body, "budget");
    pal_json_type type = pal_json_type_of(budget);
    if (type == PAL_JSON_NONE || type == PAL_JSON_NULL)
        return PAL_OK;
    if (type != PAL_JSON_OBJECT) {
        call->fail_param = "budget";
        return pal_error_set(err, PAL_INVALID,
                "'budget' must be an object with 'tokens', 'cost_micros' and 'period'");
    }
    pal_status status =
            pal_call_count(call, budget, "tokens", 0, INT64_MAX, &key->budget_tokens, err);
    if (status == PAL_OK)
        status = pal_call_count(call, budget, "cost_micros", 0, INT64_MAX, &cost, err);
    if (status == PAL_OK)
        status = pal_call_text(call, budget, "period", 16, &period, err);
    if (status != PAL_OK)
        return status;
    key->budget_cost_micros = (int64_t)cost;
    key->is_monthly = pal_str_is(period, "month");
    if (key->is_monthly || pal_str_is(period, "day"))
        return PAL_OK;
    call->fail_param = "period";
    return pal_error_set(err, PAL_INVALID, "'period' must be day or month");
}

static pal_status read_given(pal_call *call, pal_key *key, pal_error *err)
{
    uint64_t rate = 0;
    pal_str role = pal_str_of("write");
    key->tenant = call->caller.tenant;
    pal_status status =
            pal_call_text(call, call->body, "tenant", PAL_TENANT_LEN_MAX, &key->tenant, err);
    if (status == PAL_OK)
        status = pal_call_text(call, call->body, "role", 16, &role, err);
    if (status == PAL_OK)
        status = pal_call_text(call, call->body, "label", PAL_LABEL_LEN_MAX, &key->label, err);
    if (status == PAL_OK)
        status = pal_call_count(
                call, call->body, "requests_per_minute", 0, PAL_SERVER_KEY_RATE_MAX, &rate, err);
    if (status == PAL_OK)
        status = read_budget(call, key, err);
    if (status != PAL_OK)
        return status;
    key->role = pal_key_role_from_name(role);
    key->requests_per_minute = (uint32_t)rate;
    if (key->role == PAL_KEY_NONE) {
        call->fail_param = "role";
        return pal_error_set(err, PAL_INVALID, "'role' must be admin, write or read");
    }
    return PAL_OK;
}

static pal_status create_key(pal_call *call, pal_error *err)
{
    pal_key given = {0}, key;
    char secret[PAL_KEY_SECRET_SIZE];
    pal_status status = read_given(call, &given, err);
    if (status == PAL_OK)
        status = pal_key_create(call->server->store, &given, call->arena, secret, &key, err);
    if (status != PAL_OK)
        return status;
    /* An idempotency key would store this response, and the secret with it. */
    pal_call_streaming(call);
    pal_auth_forget(call->server->auth);
    pal_key_put(&key, secret, pal_call_writer(call));
    pal_call_send(call, 201);
    return PAL_OK;
}

static pal_status list_keys(pal_call *call, pal_error *err)
{
    pal_key_page page;
    uint64_t limit = PAL_RECORD_PAGE_DEFAULT;
    pal_str cursor = {0};
    (void)pal_exchange_query(call->exchange, "cursor", &cursor);
    pal_status status =
            pal_call_query_count(call, "limit", 1, PAL_SERVER_KEY_PAGE_MAX, &limit, err);
    if (status == PAL_OK)
        status =
                pal_key_list(call->server->store, cursor, (uint32_t)limit, call->arena, &page, err);
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

const pal_api_route pal_key_routes[] = {
        {"POST", "/api/v1/keys", PAL_KEY_ADMIN, PAL_API_WORKER | PAL_API_JSON, create_key,
                {"createKey", "create an API key; its secret is shown only in this response", NULL,
                        "KeyRequest", "NewKey", 201}},
        {"GET", "/api/v1/keys", PAL_KEY_ADMIN, PAL_API_WORKER, list_keys,
                {"listKeys",
                        "list all API keys, including revoked ones",
                        "limit cursor", NULL, "KeyPage", 200}},
        {"DELETE", "/api/v1/keys/{id}", PAL_KEY_ADMIN, PAL_API_WORKER, revoke_key,
                {"revokeKey", "revoke an API key", NULL, NULL, "Key", 200}},
        {0},
};
