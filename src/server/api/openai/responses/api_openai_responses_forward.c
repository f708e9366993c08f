/* api_openai_responses_forward.c - forwards responses that are not stored to a model service that
 * has the Responses API too. The service gets the request byte for byte, and the client gets the
 * events of the service, so both can use everything that Palaver does not know. A request over a
 * WebSocket is completed with the items that the connection keeps. Also records such responses,
 * whether they are forwarded or run as a turn. */
#include "server/api/openai/responses/api_openai_responses.h"
#include "server/api/openai/socket/api_openai_socket.h"

#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/openai/openai_items.h"
#include "server/api/api_record.h"
#include "server/api/native/api_message.h"
#include "server/run/run_forward.h"
#include "server/server_call.h"

#define FRAME_LEN_MAX 65536 /* only the beginning of a longer event is examined */
#define HEAD_LEN 256        /* the beginning of an event, which names its type */

/* ---- Requests over a WebSocket ---- */

/* Writes the members of a request that belong into one over HTTP, unless it is for the recorder. */
static void put_complete(pal_call *call, bool is_for_service, pal_str model, const pal_buf *items,
        pal_json_writer *writer)
{
    static const char *const own[] = {"type", "stream_id", "generate", "stream", "background",
            "previous_response_id", "input", "store", "model", NULL};
    pal_json_begin_object(writer);
    pal_put_str(writer, "model", model);
    if (is_for_service)
        pal_member_put_others(writer, call->body, own, NULL, call->arena);
    pal_put_flag(writer, "store", false);
    pal_put_flag(writer, "stream", true);
    pal_json_name(writer, "input");
    pal_json_begin_array(writer);
    if (items->len)
        pal_json_put_raw(writer, pal_buf_str(items));
    pal_json_end_array(writer);
    pal_json_end_object(writer);
}

/* Makes the request with its whole history. PAL_NOT_FOUND: the history is not known. */
static pal_status make_complete(
        pal_call *call, bool is_for_service, pal_str *out_body, pal_error *err)
{
    pal_buf buf, items;
    pal_str endpoint, model = pal_member_string(call->body, "model", call->arena);
    pal_status status = PAL_OK;
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_buf_init(&items, PAL_PROVIDER_REQUEST_BYTES_MAX);
    if (model.len == 0)
        status = pal_runtime_default(
                call->server->runtime, call->arena, &endpoint, &model, NULL, err);
    if (status != PAL_OK)
        goto out;
    status = pal_openai_socket_history(call, is_for_service, &items, err);
    if (status != PAL_OK)
        goto out;
    if (items.failure) {
        status = pal_error_set(err, items.failure, "the history of the response is too long");
        goto out;
    }
    pal_json_writer writer = pal_json_writer_make(&buf);
    put_complete(call, is_for_service, model, &items, &writer);
    status = pal_member_keep(&buf, call->arena, out_body, err);
out:
    pal_buf_done(&items);
    pal_buf_done(&buf);
    return status;
}

/* ---- Recording ---- */

static pal_status read_request(pal_api_record *record, pal_json request,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    return pal_openai_items_read_all(pal_json_find(request, "input"), "input", record->arena,
            out_messages, out_len, err);
}

static pal_status read_answer(pal_api_record *record, pal_str answer, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    return pal_openai_items_answer_read(answer, record->arena, out_messages, out_len, err);
}

pal_status pal_response_record_new(pal_call *call, pal_api_record **out_record, pal_error *err)
{
    static const pal_api_record_format format = {.read_request = read_request,
            .read_answer = read_answer,
            .join = pal_openai_items_answer_join};
    pal_str body = pal_buf_str(&call->exchange->body), key = pal_api_record_key(call, body);
    pal_status status = PAL_OK;
    *out_record = NULL;
    if (key.len == 0)
        return PAL_OK;
    if (pal_openai_socket_of(call)) {
        status = make_complete(call, false, &body, err);
        key = pal_api_record_key(call, body);
    }
    if (status != PAL_OK)
        return status == PAL_NOT_FOUND ? PAL_OK : status;
    *out_record = pal_api_record_new(call, &format, key, body);
    return *out_record ? PAL_OK : pal_no_memory(err);
}

/* ---- Events ---- */

static pal_forward_frame frame_of_type(pal_str type)
{
    if (pal_str_is(type, "response.completed") || pal_str_is(type, "response.incomplete"))
        return PAL_FORWARD_FRAME_LAST;
    if (pal_str_is(type, "response.failed") || pal_str_is(type, "error"))
        return PAL_FORWARD_FRAME_ERROR;
    return PAL_FORWARD_FRAME_SEND;
}

/* Only the event at the end, which contains the complete response, can be the last one. */
static pal_forward_frame read_long(pal_str frame)
{
    static const char *const types[] = {
            "response.completed", "response.incomplete", "response.failed"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (memmem(frame.data, HEAD_LEN, types[i], strlen(types[i])))
            return frame_of_type(pal_str_of(types[i]));
    }
    return PAL_FORWARD_FRAME_SEND;
}

/* A client cannot read an event that is not JSON: it would report an error of its own. */
static pal_forward_frame read_frame(pal_str frame)
{
    pal_forward_frame use = PAL_FORWARD_FRAME_SEND;
    pal_json event;
    pal_str data = pal_text_trim(pal_run_forward_data(frame));
    if (data.len == 0 || pal_str_is(data, "[DONE]"))
        return use;
    if (data.len > FRAME_LEN_MAX)
        return read_long(frame);
    pal_arena *arena = pal_arena_new(0);
    pal_status status = arena ? pal_json_parse(arena, data, NULL, &event, NULL) : PAL_NO_MEMORY;
    if (status == PAL_INVALID)
        use = PAL_FORWARD_FRAME_BAD;
    else if (status == PAL_OK)
        use = frame_of_type(pal_member_string(event, "type", arena));
    pal_arena_free(arena);
    return use;
}

/* The SDKs read either form of the error. */
static void put_error(pal_buf *out, pal_str message)
{
    pal_buf_append_text(out, "event: error\ndata: {\"type\":\"error\",\"status\":502,\"error\":{"
                             "\"type\":\"server_error\",\"code\":\"upstream_error\",\"param\":null,"
                             "\"message\":");
    pal_json_quote(out, message);
    pal_buf_append_text(out, "},\"code\":\"upstream_error\",\"param\":null,\"sequence_number\":0,"
                             "\"message\":");
    pal_json_quote(out, message);
    pal_buf_append_text(out, "}\n\n");
}

static const pal_forward_format format = {
        .limits = "x-ratelimit-",
        .read_frame = read_frame,
        .requires_last = true,
        .put_error = put_error,
        .stream_bytes = PAL_RESPONSE_STREAM_BYTES_MAX,
};

/* ---- Forwarding ---- */

/* Palaver keeps the state of conversations. So only a request without any can be forwarded, or one
 * whose history its WebSocket keeps. */
static bool is_stateless(const pal_call *call)
{
    pal_json body = call->body;
    return pal_json_type_of(pal_json_find(body, "store")) == PAL_JSON_FALSE &&
            pal_json_type_of(pal_json_find(body, "generate")) != PAL_JSON_FALSE &&
            pal_json_type_of(pal_json_find(body, "background")) != PAL_JSON_TRUE &&
            pal_json_is_absent(pal_json_find(body, "conversation")) &&
            (pal_openai_socket_of(call) ||
                    pal_json_is_absent(pal_json_find(body, "previous_response_id")));
}

/* `body` is the complete request. The betas of a WebSocket are about its own protocol. */
static pal_status forward(pal_call *call, const char *path, pal_str body, pal_api_record *record,
        pal_error *err)
{
    pal_str beta = pal_openai_socket_of(call)
            ? (pal_str){0}
            : pal_exchange_header(call->exchange, "openai-beta");
    const pal_header headers[] = {{pal_str_of("openai-beta"), beta}};
    pal_forward request = {.model = pal_member_string(call->body, "model", call->arena),
            .path = pal_str_of(path),
            .body = body,
            .tenant = call->caller.tenant,
            .conversation = pal_api_conversation_name(call, body),
            .budget = call->caller.budget,
            .headers = headers,
            .headers_len = beta.len ? 1 : 0,
            .api = PAL_FORWARD_RESPONSES};
    return pal_run_forward(
            call, &request, &format, record ? &pal_api_record_observer : NULL, record, err);
}

static pal_status make_body(pal_call *call, pal_str *out_body, pal_error *err)
{
    if (!pal_openai_socket_of(call))
        return pal_openai_body_to_forward(call, out_body, err);
    return make_complete(call, true, out_body, err);
}

/* If the request continues a response of another service, which has the API, no session has its
 * items. Then the turn gets the complete request. */
static pal_status use_complete(pal_call *call, pal_str body, pal_error *err)
{
    pal_id id;
    pal_str previous = pal_member_string(call->body, "previous_response_id", call->arena);
    if (!previous.len || pal_openai_id_read(previous, "resp_", &id))
        return PAL_CONFLICT;
    pal_status status = pal_json_parse(call->arena, body, NULL, &call->body, err);
    return status == PAL_OK ? PAL_CONFLICT : status;
}

pal_status pal_response_forward(pal_call *call, pal_error *err)
{
    pal_api_record *record;
    pal_str body;
    if (!is_stateless(call) || pal_response_uses_servers(call))
        return PAL_CONFLICT;
    pal_status status = make_body(call, &body, err);
    if (status != PAL_OK)
        return status == PAL_NOT_FOUND ? PAL_CONFLICT : status;
    status = pal_response_record_new(call, &record, err);
    if (status != PAL_OK)
        return status;
    status = forward(call, "/responses", body, record, err);
    if (status != PAL_OK)
        pal_api_record_free(record);
    return status == PAL_CONFLICT ? use_complete(call, body, err) : status;
}

pal_status pal_response_forward_compact(pal_call *call, pal_error *err)
{
    pal_json body = call->body;
    if (!pal_json_is_absent(pal_json_find(body, "previous_response_id")) ||
            !pal_json_is_absent(pal_json_find(body, "conversation")) ||
            pal_json_is_absent(pal_json_find(body, "model")))
        return PAL_CONFLICT;
    return forward(call, "/responses/compact", pal_buf_str(&call->exchange->body), NULL, err);
}

/* ---- Compacting a stored history ---- */

/* Reasoning of another service and answers to our requests for approval mean nothing to the
 * service. */
static bool is_for_service(const pal_part *part)
{
    bool is_plain = part->kind == PAL_PART_REASONING && part->signature.len == 0;
    return !is_plain && !pal_openai_is_approval(part);
}

static pal_status put_message(pal_json_writer *writer, const pal_message *message, pal_error *err)
{
    size_t count = pal_openai_items_count(message), first, len;
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < count; i++) {
        pal_openai_item_parts(message, i, &first, &len);
        if (len && is_for_service(&message->parts[first]))
            status = pal_openai_item_put(writer, message, i, NULL, NULL, err);
    }
    return status;
}

static pal_status put_messages(pal_call *call, pal_message *messages, size_t len,
        pal_json_writer *writer, pal_error *err)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        status = pal_api_parts_fetch(call, messages[i].parts, messages[i].parts_len, err);
        if (status == PAL_OK)
            status = put_message(writer, &messages[i], err);
    }
    return status;
}

/* A call that waits for approval counts as denied. The service needs an output for it. */
static pal_status put_denials(
        const pal_turn_request *turn, pal_json_writer *writer, pal_error *err)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < turn->answers_len; i++) {
        pal_part denial = {.kind = PAL_PART_TOOL_RESULT,
                .call_id = turn->answers[i].call_id,
                .text = pal_str_of("the call was not approved")};
        const pal_message message = {.role = PAL_ROLE_TOOL, .parts = &denial, .parts_len = 1};
        status = pal_openai_items_put_input(writer, &message, err);
    }
    return status;
}

static pal_status put_history(
        pal_response_request *request, pal_json_writer *writer, pal_error *err)
{
    pal_call *call = request->call;
    const pal_response_context *context = &request->context;
    const pal_message_query load = {.before_seq = context->seq ? context->seq + 1 : 0};
    pal_message_page page = {0};
    pal_status status = PAL_OK;
    if (!pal_id_is_none(context->session.id))
        status = pal_store_load(call->server->store, call->caller.tenant, context->session.id,
                &load, call->arena, &page, err);
    if (status == PAL_OK)
        status = put_messages(call, page.items, page.len, writer, err);
    if (status == PAL_OK)
        status = put_denials(&request->turn, writer, err);
    if (status == PAL_OK)
        status = put_messages(
                call, request->turn.messages, request->turn.messages_len, writer, err);
    return status;
}

pal_status pal_response_forward_history(pal_response_request *request, pal_error *err)
{
    static const char *const own[] = {"model", "input", "previous_response_id", NULL};
    pal_call *call = request->call;
    pal_str body = {0};
    pal_buf buf;
    pal_status status = pal_response_context_find(request, err);
    if (status == PAL_OK)
        status = pal_response_check_calls(request, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "model", request->turn.model);
    pal_member_put_others(&writer, call->body, own, NULL, call->arena);
    pal_json_name(&writer, "input");
    pal_json_begin_array(&writer);
    status = put_history(request, &writer, err);
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    if (status == PAL_OK)
        status = pal_member_keep(&buf, call->arena, &body, err);
    pal_buf_done(&buf);
    return status == PAL_OK ? forward(call, "/responses/compact", body, NULL, err) : status;
}
