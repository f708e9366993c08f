/* api_anthropic.c - Anthropic's API: the format of its errors, and the list of models.
 *
 * The models have the same paths as OpenAI's. A client of Anthropic sends the header
 * anthropic-version with every request, so requests with it belong to this API. */
#include "server/api/anthropic/api_anthropic.h"

#include "base/json/json_put.h"
#include "server/api/api_object.h"
#include "server/api/openai/api_openai.h"
#include "server/server_call.h"

/* ---- Errors ---- */

const char *pal_anthropic_error_type(unsigned code)
{
    switch (code) {
    case 401:
        return "authentication_error";
    case 402:
        return "billing_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 504:
        return "timeout_error";
    case 529:
        return "overloaded_error";
    default:
        return code >= 500 ? "api_error" : "invalid_request_error";
    }
}

static void put_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer)
{
    if (failure->status == PAL_BUDGET) /* clients retry 429, which does not help here */
        pal_exchange_add_header(call->exchange, "x-should-retry", pal_str_of("false"));
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", "error");
    pal_json_name(writer, "error");
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", pal_anthropic_error_type(failure->code));
    pal_put_str(writer, "message", failure->message);
    if (failure->name.len) {
        pal_json_name(writer, "details");
        pal_json_begin_object(writer);
        pal_put_str(writer, "error_code", failure->name);
        pal_json_end_object(writer);
    }
    pal_json_end_object(writer);
    pal_put_str(writer, "request_id", call->exchange->id);
    pal_json_end_object(writer);
}

void pal_anthropic_put_error_event(pal_buf *out, const char *type, pal_str message)
{
    pal_buf_append_text(out, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"");
    pal_buf_append_text(out, type);
    pal_buf_append_text(out, "\",\"message\":");
    pal_json_quote(out, message);
    pal_buf_append_text(out, "}}\n\n");
}

/* ---- Models ---- */

static void put_model(pal_call *call, const pal_served_model *model)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", "model");
    pal_put_str(writer, "id", model->model);
    pal_put_str(writer, "display_name", model->model);
    pal_put_time(writer, "created_at", call->server->started_at);
    pal_json_end_object(writer);
}

/* All models are on one page. */
static pal_status list_models(pal_call *call, pal_error *err)
{
    pal_served_model *models;
    size_t len;
    pal_status status = pal_openai_models(call, &models, &len, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "data");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++)
        put_model(call, &models[i]);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", false);
    pal_put_str_or_null(writer, "first_id", len ? models[0].model : (pal_str){0});
    pal_put_str_or_null(writer, "last_id", len ? models[len - 1].model : (pal_str){0});
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status get_model(pal_call *call, pal_error *err)
{
    return pal_openai_send_model(call, put_model, "/v1/models", err);
}

static const pal_api_route model_routes[] = {
        {"GET", "/v1/models", PAL_KEY_READ, PAL_API_WORKER, list_models,
                {"anthropicListModels", "list the available models", NULL, NULL,
                        &pal_api_any_object, 200}},
        {"GET", "/v1/models/{id}", PAL_KEY_READ, PAL_API_WORKER, get_model,
                {"anthropicGetModel", "read one model", NULL, NULL, &pal_api_any_object, 200}},
        {0},
};

/* ---- The tables ---- */

static const pal_api_route *const message_groups[] = {pal_anthropic_message_routes, NULL};
static const pal_api_route *const model_groups[] = {model_routes, NULL};

const pal_api pal_api_anthropic = {
        .name = "anthropic",
        .prefix = "/v1/messages",
        .routes = message_groups,
        .put_failure = put_failure,
        .id_header = "request-id",
};

const pal_api pal_api_anthropic_models = {
        .name = "anthropic",
        .prefix = "/v1/models",
        .header = "anthropic-version",
        .routes = model_groups,
        .put_failure = put_failure,
        .id_header = "request-id",
};
