/* api_openai.c - OpenAI's API under /v1: the format of its errors, the list of models, and
 * functions that its routes share. */
#include "server/api/openai/api_openai.h"

#include <stdio.h>
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/native/api_message.h"
#include "server/server_call.h"

#define MODELS_WAIT_MS 3000 /* maximum wait for endpoints that don't answer */

/* ---- Errors ---- */

static const char *type_of(const pal_failure *failure)
{
    if (failure->status == PAL_BUDGET)
        return "insufficient_quota";
    return failure->code == 429    ? "rate_limit_error"
            : failure->code >= 500 ? "server_error"
                                   : "invalid_request_error";
}

/* Uses OpenAI's error code if OpenAI has one for this failure. */
static pal_str code_of(const pal_failure *failure)
{
    if (failure->code == 401)
        return pal_str_of("invalid_api_key");
    if (failure->status == PAL_BUDGET)
        return pal_str_of("insufficient_quota");
    if (failure->code == 429 && pal_str_is(failure->name, "rate_limited"))
        return pal_str_of("rate_limit_exceeded");
    return failure->name;
}

static void put_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer)
{
    if (failure->status == PAL_BUDGET) /* OpenAI's clients retry 429, which does not help here */
        pal_exchange_add_header(call->exchange, "x-should-retry", pal_str_of("false"));
    pal_json_begin_object(writer);
    pal_json_name(writer, "error");
    pal_json_begin_object(writer);
    pal_put_str(writer, "message", failure->message);
    pal_put_text(writer, "type", type_of(failure));
    pal_put_str_or_null(writer, "param", failure->param);
    pal_put_str_or_null(writer, "code", code_of(failure));
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

/* ---- Conversations ---- */

static pal_status find_session(pal_call *call, pal_id id, pal_session *out_session, pal_error *err)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            pal_str_of(text), call->arena, out_session, err);
    if (status == PAL_OK && out_session->state != PAL_SESSION_ACTIVE &&
            out_session->state != PAL_SESSION_QUARANTINED)
        return pal_error_set(err, PAL_NOT_FOUND, "the conversation is in the trash");
    return status;
}

pal_status pal_openai_conversation(
        pal_call *call, pal_str id, const char *param, pal_session *out_session, pal_error *err)
{
    pal_id session;
    pal_status status = PAL_NOT_FOUND;
    if (pal_openai_id_read(id, "conv_", &session))
        status = find_session(call, session, out_session, err);
    if (status != PAL_NOT_FOUND)
        return status;
    call->fail_param = param;
    return pal_error_set(err, PAL_NOT_FOUND, "unknown conversation '%.*s'",
            (int)pal_utf8_cut(id, id.len < 80 ? id.len : 80), id.data ? id.data : "");
}

/* ---- Metadata ---- */

static pal_status check_pair(pal_call *call, pal_json name, pal_json value, pal_error *err)
{
    pal_str key = pal_json_string(name, call->arena);
    if (pal_utf8_count(key) > PAL_OPENAI_METADATA_KEY_MAX)
        return pal_error_set(err, PAL_INVALID, "'metadata' has a key of more than %d characters",
                PAL_OPENAI_METADATA_KEY_MAX);
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_error_set(err, PAL_INVALID, "'metadata.%.*s' must be a string, not %s",
                PAL_STR_ARG(key), pal_json_type_name(pal_json_type_of(value)));
    if (pal_utf8_count(pal_json_string(value, call->arena)) > PAL_OPENAI_METADATA_VALUE_MAX)
        return pal_error_set(err, PAL_INVALID, "'metadata.%.*s' has more than %d characters",
                PAL_STR_ARG(key), PAL_OPENAI_METADATA_VALUE_MAX);
    return pal_arena_checked(call->arena, err);
}

pal_status pal_openai_metadata_read(
        pal_call *call, pal_json object, pal_str *out_json, pal_error *err)
{
    pal_json name, value, metadata = pal_json_find(object, "metadata");
    pal_json_type type = pal_json_type_of(metadata);
    if (type == PAL_JSON_NONE || type == PAL_JSON_NULL)
        return PAL_OK;
    call->fail_param = "metadata";
    if (type != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID,
                "'metadata' must be an object with string values, not %s",
                pal_json_type_name(type));
    if (pal_json_count(metadata) > PAL_OPENAI_METADATA_PAIRS_MAX)
        return pal_error_set(err, PAL_INVALID, "'metadata' has %zu pairs; at most %d are allowed",
                pal_json_count(metadata), PAL_OPENAI_METADATA_PAIRS_MAX);
    for (pal_json_iter iter = pal_json_each(metadata); pal_json_next(&iter, &name, &value);) {
        pal_status status = check_pair(call, name, value, err);
        if (status != PAL_OK)
            return status;
    }
    call->fail_param = NULL;
    *out_json = pal_json_raw(metadata);
    return PAL_OK;
}

void pal_openai_metadata_put(pal_call *call, pal_json_writer *writer, pal_str metadata)
{
    pal_json object = {0}, name, value;
    pal_json_name(writer, "metadata");
    pal_json_begin_object(writer);
    if (metadata.len && pal_json_parse(call->arena, metadata, NULL, &object, NULL) != PAL_OK)
        object = (pal_json){0};
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (pal_json_type_of(value) != PAL_JSON_STRING)
            continue;
        pal_json_name_str(writer, pal_json_string(name, call->arena));
        pal_json_put_raw(writer, pal_json_raw(value));
    }
    pal_json_end_object(writer);
}

/* ---- Forwarded requests ---- */

pal_status pal_openai_body_to_forward(pal_call *call, pal_str *out_body, pal_error *err)
{
    pal_str endpoint, model = {0}, body = pal_buf_str(&call->exchange->body);
    pal_buf buf;
    *out_body = body;
    if (pal_json_type_of(pal_json_find(call->body, "model")) != PAL_JSON_NONE)
        return PAL_OK;
    pal_status status =
            pal_runtime_default(call->server->runtime, call->arena, &endpoint, &model, NULL, err);
    if (status != PAL_OK || model.len == 0)
        return status;
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "model", model);
    pal_json_put_members(&writer, pal_json_raw(call->body));
    pal_json_end_object(&writer);
    status = pal_member_keep(&buf, call->arena, out_body, err);
    pal_buf_done(&buf);
    return status;
}

/* ---- Items ---- */

/* Results of mcp_calls follow their calls. */
static const pal_part *find_result(
        const pal_message *messages, size_t from, size_t len, const pal_part *call)
{
    for (size_t i = from; i < len; i++) {
        for (size_t k = 0; k < messages[i].parts_len; k++) {
            const pal_part *part = &messages[i].parts[k];
            if (part->kind == PAL_PART_TOOL_RESULT && pal_str_equal(part->call_id, call->call_id))
                return part;
        }
    }
    return NULL;
}

pal_openai_item *pal_openai_items_of(
        pal_call *call, pal_message *messages, size_t messages_len, size_t *out_len)
{
    size_t count = 0, len = 0;
    for (size_t i = 0; i < messages_len; i++)
        count += pal_openai_items_count(&messages[i]);
    pal_openai_item *items = pal_arena_array(call->arena, count + 1, sizeof *items);
    for (size_t i = 0; items && i < messages_len; i++) {
        size_t own = pal_openai_items_count(&messages[i]);
        for (size_t k = 0; k < own; k++) {
            size_t first, parts_len;
            pal_openai_item_parts(&messages[i], k, &first, &parts_len);
            const pal_part *part = parts_len ? &messages[i].parts[first] : NULL;
            bool is_mcp = part && pal_openai_is_mcp(part->extra);
            bool is_result = is_mcp && part->kind == PAL_PART_TOOL_RESULT;
            if (is_result && !pal_openai_is_approved(part->extra))
                continue;
            items[len++] = (pal_openai_item){&messages[i], k,
                    is_result    ? part
                            : is_mcp ? find_result(messages, i + 1, messages_len, part)
                                     : NULL};
        }
    }
    *out_len = len;
    return items;
}

/* The results of an answer follow it directly, one message for each call. */
pal_status pal_openai_item_complete(
        pal_call *call, pal_id session, pal_openai_item *item, pal_error *err)
{
    size_t first, len;
    pal_message_page page;
    pal_openai_item_parts(item->message, item->index, &first, &len);
    const pal_part *part = len ? &item->message->parts[first] : NULL;
    if (item->result || !part || part->kind != PAL_PART_TOOL_CALL ||
            !pal_openai_is_mcp(part->extra))
        return PAL_OK;
    const pal_message_query query = {
            .after_seq = item->message->seq, .limit = (uint32_t)item->message->parts_len};
    pal_status status = pal_store_load(
            call->server->store, call->caller.tenant, session, &query, call->arena, &page, err);
    if (status == PAL_OK)
        item->result = find_result(page.items, 0, page.len, part);
    return status;
}

const pal_api_object pal_openai_page_query = {
        .members = PAL_API_MEMBERS(
                {"limit", PAL_API_COUNT, "maximum number of items",
                        .offset = offsetof(pal_openai_page, limit), .min = 1,
                        .max = PAL_OPENAI_PAGE_MAX},
                {"order", PAL_API_WORD, "oldest or newest first (desc)",
                        .offset = offsetof(pal_openai_page, order), .words = "asc desc"},
                {"after", PAL_API_TEXT, "id of the last item of the previous page",
                        .offset = offsetof(pal_openai_page, after)})};

pal_status pal_openai_page_read(pal_call *call, pal_openai_page *out_page, pal_error *err)
{
    *out_page = (pal_openai_page){.limit = PAL_OPENAI_PAGE_DEFAULT, .order = PAL_OPENAI_DESC};
    return pal_api_query_read(call, &pal_openai_page_query, out_page, err);
}

pal_status pal_openai_item_show(
        pal_call *call, const pal_openai_item *item, bool is_stored, pal_error *err)
{
    size_t first, len;
    pal_status status = PAL_OK;
    pal_openai_item_parts(item->message, item->index, &first, &len);
    if (is_stored && len > 0)
        status = pal_api_parts_fetch(call, item->message->parts + first, len, err);
    if (status == PAL_OK)
        status = pal_openai_item_put(pal_call_writer(call), item->message, item->index,
                item->result, "completed", err);
    return status;
}

static void put_item_id(pal_json_writer *writer, const char *name, const pal_openai_item *item)
{
    char id[PAL_OPENAI_ITEM_ID_SIZE] = "";
    if (item)
        pal_openai_item_id(item->message, item->index, id);
    pal_put_str_or_null(writer, name, pal_str_of(id));
}

pal_status pal_openai_list_put(pal_call *call, const pal_openai_item *items, size_t len,
        bool has_more, bool is_stored, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = PAL_OK;
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "list");
    pal_json_name(writer, "data");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = pal_openai_item_show(call, &items[i], is_stored, err);
    pal_json_end_array(writer);
    put_item_id(writer, "first_id", len ? &items[0] : NULL);
    put_item_id(writer, "last_id", len ? &items[len - 1] : NULL);
    pal_put_flag(writer, "has_more", has_more);
    pal_json_end_object(writer);
    return status;
}

static pal_status no_item(pal_str id, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND,
            "unknown item '%.*s'; the conversation does not contain it",
            (int)pal_utf8_cut(id, id.len < 80 ? id.len : 80), id.data ? id.data : "");
}

/* Finds the item's message by its seq, as the session shows it. The message must have the item's
 * id. */
static pal_status load_message(pal_call *call, pal_id session, const pal_message *message,
        bool hidden, pal_message_page *out_found, pal_error *err)
{
    const pal_message_query load = {
            .after_seq = message->seq - 1, .before_seq = message->seq + 1, .hidden = hidden};
    pal_status status = pal_store_load(
            call->server->store, call->caller.tenant, session, &load, call->arena, out_found, err);
    if (status == PAL_OK && out_found->len && !pal_id_equal(out_found->items[0].id, message->id))
        out_found->len = 0;
    return status;
}

pal_status pal_openai_item_in(pal_call *call, pal_id session, pal_str id, bool hidden,
        pal_openai_item *out_item, pal_error *err)
{
    pal_message message;
    pal_message_page found = {0};
    pal_id message_id, owner;
    size_t index;
    if (!pal_openai_item_parse(id, &message_id))
        return no_item(id, err);
    pal_status status = pal_store_message(call->server->store, call->caller.tenant, message_id,
            call->arena, &message, &owner, err);
    if (status == PAL_OK)
        status = load_message(call, session, &message, hidden, &found, err);
    if (status == PAL_NOT_FOUND)
        return no_item(id, err);
    if (status != PAL_OK)
        return status;
    if (found.len == 0 || !pal_openai_item_index(&found.items[0], id, &index))
        return no_item(id, err);
    *out_item = (pal_openai_item){&found.items[0], index, NULL};
    return PAL_OK;
}

pal_status pal_openai_item_lookup(pal_str id, pal_arena *arena, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err)
{
    pal_call *call = user;
    pal_message message;
    pal_session session;
    pal_openai_item item;
    pal_id message_id, owner;
    if (!pal_openai_item_parse(id, &message_id))
        return no_item(id, err);
    pal_status status = pal_store_message(
            call->server->store, call->caller.tenant, message_id, arena, &message, &owner, err);
    if (status != PAL_OK)
        return status;
    status = find_session(call, owner, &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_openai_item_in(call, owner, id, false, &item, err);
    if (status != PAL_OK)
        return status;
    *out_message = *item.message;
    *out_index = item.index;
    return PAL_OK;
}

/* ---- Models ---- */

static void put_model(pal_call *call, const pal_served_model *model)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", model->model);
    pal_put_text(writer, "object", "model");
    pal_put_count(writer, "created", (uint64_t)(call->server->started_at / 1000));
    pal_put_str(writer, "owned_by", model->endpoint);
    pal_json_end_object(writer);
}

static bool is_known(const pal_served_model *models, size_t len, pal_str model)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_str_equal(models[i].model, model))
            return true;
    }
    return false;
}

pal_status pal_openai_models(
        pal_call *call, pal_served_model **out_models, size_t *out_len, pal_error *err)
{
    pal_served_model *listed, own;
    size_t listed_len, len = 0;
    pal_status status = pal_runtime_models(
            call->server->runtime, MODELS_WAIT_MS, call->arena, &listed, &listed_len, err);
    if (status == PAL_OK)
        status = pal_runtime_default(
                call->server->runtime, call->arena, &own.endpoint, &own.model, NULL, err);
    if (status != PAL_OK)
        return status;
    pal_served_model *models = pal_arena_array(call->arena, listed_len + 1, sizeof *models);
    if (!models)
        return pal_arena_checked(call->arena, err);
    if (own.model.len)
        models[len++] = own;
    for (size_t i = 0; i < listed_len; i++) {
        if (!is_known(models, len, listed[i].model))
            models[len++] = listed[i];
    }
    *out_models = models;
    *out_len = len;
    return PAL_OK;
}

pal_status pal_openai_send_models(pal_call *call, pal_model_put put, pal_error *err)
{
    pal_served_model *models;
    size_t len;
    pal_status status = pal_openai_models(call, &models, &len, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "list");
    pal_json_name(writer, "data");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++)
        put(call, &models[i]);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

pal_status pal_openai_send_model(
        pal_call *call, pal_model_put put, const char *list_path, pal_error *err)
{
    pal_str id = call->params[0];
    pal_served_model *models;
    size_t len;
    pal_status status = pal_openai_models(call, &models, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (!pal_str_equal(models[i].model, id))
            continue;
        put(call, &models[i]);
        pal_call_send(call, 200);
        return PAL_OK;
    }
    if (status != PAL_OK)
        return status;
    return pal_error_set(err, PAL_NOT_FOUND,
            "unknown model '%.*s'; GET %s lists the models",
            (int)pal_utf8_cut(id, id.len < 80 ? id.len : 80), id.data, list_path);
}

static pal_status list_models(pal_call *call, pal_error *err)
{
    return pal_openai_send_models(call, put_model, err);
}

static pal_status get_model(pal_call *call, pal_error *err)
{
    pal_status status = pal_openai_send_model(call, put_model, "/v1/models", err);
    if (status == PAL_NOT_FOUND) {
        call->fail_code = 404;
        call->fail_name = "model_not_found";
        call->fail_param = "model";
    }
    return status;
}

static const pal_api_route model_routes[] = {
        {"GET", "/v1/models", PAL_KEY_READ, PAL_API_WORKER, list_models,
                {"openaiListModels", "list the available models", NULL, NULL, &pal_api_any_object,
                        200}},
        {"GET", "/v1/models/{id}", PAL_KEY_READ, PAL_API_WORKER, get_model,
                {"openaiGetModel", "read one model", NULL, NULL, &pal_api_any_object, 200}},
        {0},
};

static const pal_api_route *const routes[] = {
        model_routes,
        pal_openai_chat_routes,
        pal_openai_conversation_routes,
        pal_openai_response_routes,
        NULL,
};

const pal_api pal_api_openai = {
        .name = "openai",
        .prefix = "/v1/",
        .routes = routes,
        .put_failure = put_failure,
};
