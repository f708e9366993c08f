/* api_openai_responses.c - the routes of responses: create, read, replay, cancel, delete, and list
 * the input. */
#include "server/api/openai/responses/api_openai_responses.h"
#include "server/api/openai/socket/api_openai_socket.h"

#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/native/api_session.h"
#include "server/node/node_pass.h"
#include "server/server_call.h"

/* ---- Reading ---- */

typedef struct response_query {
    bool is_stream;
    uint64_t after;
} response_query;

static const pal_api_object response_query_table = {
        .members = PAL_API_MEMBERS(
                {"stream", PAL_API_FLAG, "whether the events are replayed",
                        .offset = offsetof(response_query, is_stream)},
                {"starting_after", PAL_API_COUNT, "only events with a larger number",
                        .offset = offsetof(response_query, after), .max = INT32_MAX})};

static pal_status get_response(pal_call *call, pal_error *err)
{
    pal_response response;
    response_query query = {.after = UINT64_MAX};
    pal_status status = pal_api_query_read(call, &response_query_table, &query, err);
    if (status != PAL_OK)
        return status;
    status = pal_response_find(call, call->params[0], &response, err);
    if (status != PAL_OK)
        return status;
    if (!query.is_stream)
        return pal_response_send(call, &response, err);
    int64_t from = query.after == UINT64_MAX ? -1 : (int64_t)query.after;
    if (pal_response_is_over(&response))
        return pal_response_replay(call, &response, from, err);
    if (pal_pass_to_holder(call, response.turn, response.session))
        return PAL_OK;
    return pal_response_look_on(call, &response, from, err);
}

/* ---- The input ---- */

/* The messages of the input were appended together, so their seqs are consecutive. */
static pal_status load_input(
        pal_call *call, const pal_response *response, pal_message_page *out, pal_error *err)
{
    pal_message first;
    pal_id owner;
    *out = (pal_message_page){0};
    if (response->input_len == 0)
        return PAL_OK;
    pal_status status = pal_store_message(call->server->store, call->caller.tenant, response->input,
            call->arena, &first, &owner, err);
    if (status == PAL_NOT_FOUND) /* it is not recorded yet, or was removed by a failed turn */
        return PAL_OK;
    if (status != PAL_OK)
        return status;
    const pal_message_query load = {.after_seq = first.seq - 1,
            .before_seq = first.seq + response->input_len,
            .hidden = true};
    return pal_store_load(
            call->server->store, call->caller.tenant, owner, &load, call->arena, out, err);
}

static pal_status find_after(pal_call *call, const pal_openai_item *items, size_t len,
        pal_str after, size_t *out_index, pal_error *err)
{
    char id[PAL_OPENAI_ITEM_ID_SIZE];
    for (size_t i = 0; i < len; i++) {
        pal_openai_item_id(items[i].message, items[i].index, id);
        if (pal_str_is(after, id)) {
            *out_index = i;
            return PAL_OK;
        }
    }
    call->fail_param = "after";
    return pal_error_set(
            err, PAL_INVALID, "'after' is not an item of the input; send the id of a listed item");
}

static pal_status put_input(pal_call *call, const pal_openai_page *page,
        const pal_message_page *messages, pal_error *err)
{
    size_t len, after = 0, shown_len = 0;
    pal_openai_item *items = pal_openai_items_of(call, messages->items, messages->len, &len);
    pal_openai_item *shown = pal_arena_array(call->arena, page->limit + 1, sizeof *shown);
    if (!items || !shown)
        return pal_arena_checked(call->arena, err);
    pal_status status = PAL_OK;
    if (page->after.len)
        status = find_after(call, items, len, page->after, &after, err);
    if (status != PAL_OK)
        return status;
    size_t left = !page->after.len ? len : page->order == PAL_OPENAI_ASC ? len - after - 1 : after;
    while (shown_len < left && shown_len < page->limit) {
        size_t at = page->order == PAL_OPENAI_ASC ? len - left + shown_len : left - 1 - shown_len;
        shown[shown_len++] = items[at];
    }
    return pal_openai_list_put(call, shown, shown_len, shown_len < left, true, err);
}

static pal_status list_input(pal_call *call, pal_error *err)
{
    pal_response response;
    pal_openai_page page;
    pal_message_page messages;
    pal_status status = pal_openai_page_read(call, &page, err);
    if (status != PAL_OK)
        return status;
    status = pal_response_find(call, call->params[0], &response, err);
    if (status != PAL_OK)
        return status;
    status = load_input(call, &response, &messages, err);
    if (status != PAL_OK)
        return status;
    status = put_input(call, &page, &messages, err);
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Canceling ---- */

static pal_status cancel_response(pal_call *call, pal_error *err)
{
    pal_response response;
    pal_status status = pal_response_find(call, call->params[0], &response, err);
    if (status == PAL_OK && !response.is_background)
        return pal_error_set(
                err, PAL_INVALID, "only a response with 'background' can be canceled");
    if (status == PAL_OK && !pal_response_is_over(&response) &&
            pal_pass_to_holder(call, response.turn, response.session))
        return PAL_OK;
    if (status == PAL_OK && !pal_response_is_over(&response)) {
        status = pal_turn_cancel(call->server->runtime, call->caller.tenant, response.turn, err);
        if (status == PAL_OK || status == PAL_NOT_FOUND)
            status = pal_response_find(call, call->params[0], &response, err);
    }
    return status == PAL_OK ? pal_response_send(call, &response, err) : status;
}

/* ---- Deleting ---- */

static void send_deleted(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", call->params[0]);
    pal_put_text(writer, "object", "response");
    pal_put_flag(writer, "deleted", true);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

/* Whether the session contains no other response and was created for responses. */
static pal_status is_last(
        pal_call *call, const pal_response *response, bool *out_is_last, pal_error *err)
{
    pal_record_page records;
    const pal_record_query query = {.tenant = call->caller.tenant,
            .kind = pal_str_of(PAL_RESPONSE_KIND),
            .session = response->session,
            .limit = 2};
    *out_is_last = false;
    if (response->is_in_conversation)
        return PAL_OK;
    pal_status status =
            pal_store_record_list(call->server->store, &query, call->arena, &records, err);
    *out_is_last = status == PAL_OK && records.len == 1;
    return status;
}

static pal_status delete_response(pal_call *call, pal_error *err)
{
    pal_response response;
    bool is_alone = false;
    pal_op *ops = pal_arena_array(call->arena, 2, sizeof *ops);
    pal_record *record = pal_arena_alloc(call->arena, sizeof *record);
    char name[PAL_ID_TEXT_SIZE];
    if (!ops || !record)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_response_find(call, call->params[0], &response, err);
    if (status != PAL_OK)
        return status;
    if (!pal_response_is_over(&response))
        return pal_error_set(
                err, PAL_INVALID, "the response is in progress; cancel it before you delete it");
    if (status != PAL_OK)
        return status;
    status = is_last(call, &response, &is_alone, err);
    if (status != PAL_OK)
        return status;
    pal_id_to_text(response.id, name);
    *record = (pal_record){.kind = pal_str_of(PAL_RESPONSE_KIND),
            .name = pal_arena_copy(call->arena, pal_str_of(name))};
    ops[0] = pal_op_record_drop(call->caller.tenant, record);
    ops[1] = pal_op_delete(call->caller.tenant, response.session);
    ops[1].with_previous = true;
    return pal_call_apply(call, ops, is_alone ? 2 : 1, send_deleted, err);
}

const pal_api_route pal_openai_response_routes[] = {
        {"POST", "/v1/responses", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                pal_openai_create_response,
                {"openaiCreateResponse",
                        "create a response: complete, as events, or in the background",
                        NULL, &pal_response_body, &pal_api_any_object, 200}},
        {"GET", "/v1/responses", PAL_KEY_WRITE, 0, pal_openai_socket_open,
                {"openaiOpenResponses", "open a WebSocket that creates responses", NULL, NULL,
                        &pal_api_any_object, 101}},
        {"GET", "/v1/responses/{id}", PAL_KEY_READ, PAL_API_WORKER, get_response,
                {"openaiGetResponse", "read a stored response, or replay its events",
                        &response_query_table, NULL, &pal_api_any_object, 200}},
        {"DELETE", "/v1/responses/{id}", PAL_KEY_WRITE, PAL_API_WORKER, delete_response,
                {"openaiDeleteResponse", "delete a stored response", NULL, NULL,
                        &pal_api_any_object, 200}},
        {"POST", "/v1/responses/{id}/cancel", PAL_KEY_WRITE, PAL_API_ANY_JSON | PAL_API_WORKER,
                cancel_response,
                {"openaiCancelResponse", "cancel a background response", NULL, NULL,
                        &pal_api_any_object, 200}},
        {"GET", "/v1/responses/{id}/input_items", PAL_KEY_READ, PAL_API_WORKER, list_input,
                {"openaiListInput", "list the input items of a response", &pal_openai_page_query,
                        NULL,
                        &pal_api_any_object, 200}},
        {"POST", "/v1/responses/input_tokens", PAL_KEY_READ, PAL_API_JSON | PAL_API_WORKER,
                pal_openai_count_input,
                {"openaiCountInput", "count the tokens of a request", NULL, &pal_api_any_object,
                        &pal_api_any_object, 200}},
        {"POST", "/v1/responses/compact", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                pal_openai_compact_input,
                {"openaiCompactInput", "summarize a conversation", NULL, &pal_api_any_object,
                        &pal_api_any_object,
                        200}},
        {0},
};
