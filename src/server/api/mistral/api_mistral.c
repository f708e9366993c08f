/* api_mistral.c - Mistral's API under /mistral/v1: the format of its errors, and functions that its
 * routes share. */
#include "server/api/mistral/api_mistral.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/json/json_put.h"
#include "server/api/api_object.h"
#include "server/server_call.h"

/* ---- Errors ---- */

pal_status pal_mistral_checked(pal_call *call, pal_status status)
{
    if ((status == PAL_INVALID || status == PAL_LIMIT) && !call->fail_code)
        call->fail_code = 422;
    return status;
}

pal_status pal_mistral_wrong(
        pal_call *call, const char *param, pal_error *err, const char *format, ...)
{
    char message[PAL_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    call->fail_param = param;
    return pal_error_set(err, PAL_INVALID, "%s", message);
}

/* {"detail":[{"loc":["body","inputs"],"msg":...,"type":...}]} */
static void put_detail(pal_call *call, const pal_failure *failure, pal_json_writer *writer)
{
    bool has_body = call->route && (call->route->flags & (PAL_API_JSON | PAL_API_ANY_JSON));
    pal_json_begin_object(writer);
    pal_json_name(writer, "detail");
    pal_json_begin_array(writer);
    pal_json_begin_object(writer);
    pal_json_name(writer, "loc");
    pal_json_begin_array(writer);
    pal_json_put_text(writer, has_body ? "body" : "query");
    if (failure->param.len)
        pal_json_put_str(writer, failure->param);
    pal_json_end_array(writer);
    pal_put_str(writer, "msg", failure->message);
    pal_put_str(writer, "type", failure->name.len ? failure->name : pal_str_of("value_error"));
    pal_json_end_object(writer);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
}

static const char *type_of(const pal_failure *failure)
{
    switch (failure->code) {
    case 401:
    case 403:
        return "unauthorized";
    case 404:
        return "not_found";
    case 429:
        return "rate_limited";
    default:
        return failure->code < 500 ? "invalid_request_error" : "internal_server_error";
    }
}

static void put_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer)
{
    if (failure->code == 422) {
        put_detail(call, failure, writer);
        return;
    }
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "error");
    pal_put_str(writer, "message", failure->message);
    pal_put_text(writer, "type", type_of(failure));
    pal_put_str_or_null(writer, "param", failure->param);
    pal_put_str_or_null(writer, "code", failure->name);
    pal_json_end_object(writer);
}

/* ---- Members ---- */

const pal_api_object pal_mistral_page_query = {
        .members = PAL_API_MEMBERS(
                {"page", PAL_API_COUNT, "number of the page, from 0",
                        .offset = offsetof(pal_mistral_page, number), .max = PAL_MISTRAL_PAGES_MAX},
                {"page_size", PAL_API_COUNT, "maximum number of results",
                        .offset = offsetof(pal_mistral_page, size), .min = 1,
                        .max = PAL_MISTRAL_PAGE_MAX})};

pal_status pal_mistral_filter_read(pal_call *call, pal_json *out_filter, pal_error *err)
{
    pal_str text;
    if (!pal_exchange_query(call->exchange, "metadata", &text) || text.len == 0)
        return PAL_OK;
    pal_status status = pal_json_parse(call->arena, text, NULL, out_filter, err);
    if (status == PAL_NO_MEMORY)
        return status;
    if (status != PAL_OK || pal_json_type_of(*out_filter) != PAL_JSON_OBJECT)
        return pal_mistral_wrong(call, "metadata", err, "'metadata' must be a JSON object");
    return PAL_OK;
}

bool pal_mistral_filter_fits(pal_json filter, pal_json object, pal_arena *arena)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(filter); pal_json_next(&iter, &name, &value);) {
        pal_str key = pal_arena_copy(arena, pal_json_string(name, arena));
        if (!key.data || !pal_json_equal(pal_json_find(object, key.data), value))
            return false;
    }
    return true;
}

void pal_mistral_put_raw(pal_json_writer *writer, pal_json object, const char *name)
{
    pal_json value = pal_json_find(object, name);
    if (pal_json_is_absent(value))
        return;
    pal_put_raw(writer, name, pal_json_raw(value));
}

void pal_mistral_put_raw_or_null(pal_json_writer *writer, pal_json object, const char *name)
{
    if (!pal_json_is_absent(pal_json_find(object, name))) {
        pal_mistral_put_raw(writer, object, name);
        return;
    }
    pal_put_null(writer, name);
}

static bool has_calls(const pal_message_page *messages)
{
    for (size_t i = 0; i < messages->len; i++) {
        for (size_t k = 0; k < messages->items[i].parts_len; k++) {
            if (messages->items[i].parts[k].kind == PAL_PART_TOOL_CALL)
                return true;
        }
    }
    return false;
}

pal_status pal_mistral_entries(pal_call *call, const pal_message_page *messages, pal_str agent_id,
        pal_mistral_entry **out_entries, size_t *out_len, pal_error *err)
{
    pal_tool *tools = NULL;
    pal_mistral_view view = {.agent_id = agent_id};
    pal_status status = PAL_OK;
    if (has_calls(messages))
        status =
                pal_runtime_tools(call->server->runtime, call->arena, &tools, &view.tools_len, err);
    view.tools = tools;
    if (status == PAL_OK)
        status = pal_mistral_entries_of(
                messages->items, messages->len, &view, call->arena, out_entries, out_len, err);
    return status;
}

/* ---- Models ---- */

/* Every model is listed with these capabilities. If a model lacks one, its service reports an
 * error. */
static void put_capabilities(pal_json_writer *writer)
{
    pal_json_name(writer, "capabilities");
    pal_json_begin_object(writer);
    pal_put_flag(writer, "completion_chat", true);
    pal_put_flag(writer, "completion_fim", false);
    pal_put_flag(writer, "function_calling", true);
    pal_put_flag(writer, "fine_tuning", false);
    pal_put_flag(writer, "vision", true);
    pal_json_end_object(writer);
}

static void put_model(pal_call *call, const pal_served_model *model)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_model known = pal_models_find(call->server->models, model->model);
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", model->model);
    pal_put_text(writer, "object", "model");
    pal_put_count(writer, "created", (uint64_t)(call->server->started_at / 1000));
    pal_put_str(writer, "owned_by", model->endpoint);
    put_capabilities(writer);
    if (known.context)
        pal_put_count(writer, "max_context_length", known.context);
    pal_json_name(writer, "aliases");
    pal_json_begin_array(writer);
    pal_json_end_array(writer);
    pal_put_text(writer, "type", "base");
    pal_json_end_object(writer);
}

static pal_status list_models(pal_call *call, pal_error *err)
{
    return pal_openai_send_models(call, put_model, err);
}

static pal_status get_model(pal_call *call, pal_error *err)
{
    return pal_openai_send_model(call, put_model, "/mistral/v1/models", err);
}

static const pal_api_route model_routes[] = {
        {"GET", "/mistral/v1/models", PAL_KEY_READ, PAL_API_WORKER, list_models,
                {"mistralListModels", "list the available models", NULL, NULL, &pal_api_any_object,
                        200}},
        {"GET", "/mistral/v1/models/{id}", PAL_KEY_READ, PAL_API_WORKER, get_model,
                {"mistralGetModel", "read one model", NULL, NULL, &pal_api_any_object, 200}},
        {0},
};

static const pal_api_route *const routes[] = {
        pal_mistral_start_routes,
        pal_mistral_restart_routes,
        pal_mistral_chat_routes,
        model_routes,
        pal_mistral_conversation_routes,
        pal_mistral_agent_routes,
        pal_mistral_agent_list_routes,
        pal_mistral_alias_routes,
        NULL,
};

const pal_api pal_api_mistral = {
        .name = "mistral",
        .prefix = "/mistral/v1/",
        .routes = routes,
        .put_failure = put_failure,
};
