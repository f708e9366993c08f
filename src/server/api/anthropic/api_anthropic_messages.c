/* api_anthropic_messages.c - creates messages and counts tokens. An endpoint that speaks
 * Anthropic's API gets the request byte for byte, with the version and the betas that the client
 * named. For every other endpoint the request becomes a turn. */
#include "server/api/anthropic/api_anthropic.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "server/api/anthropic/api_anthropic_record.h"
#include "server/api/api_object.h"
#include "server/server_call.h"

#define TEMPORARY_MS (60 * 60 * 1000) /* a temporary session that was not erased expires after this
                                         time */
#define FRAME_BYTES_MAX 65536         /* longer events are not examined */

/* ---- Forwarding ---- */

static bool is_type(pal_json event, const char *type)
{
    return pal_json_string_is(pal_json_find(event, "type"), type);
}

/* A client cannot read an event that is not JSON: it would report an error of its own. */
static pal_forward_frame read_frame(pal_str frame)
{
    pal_forward_frame use = PAL_FORWARD_FRAME_SEND;
    pal_json event;
    pal_str data = pal_run_forward_data(frame);
    if (data.len == 0 || data.len > FRAME_BYTES_MAX)
        return use;
    pal_arena *arena = pal_arena_new(0);
    pal_status status = arena ? pal_json_parse(arena, data, NULL, &event, NULL) : PAL_NO_MEMORY;
    if (status == PAL_INVALID)
        use = PAL_FORWARD_FRAME_BAD;
    else if (status == PAL_OK && is_type(event, "message_stop"))
        use = PAL_FORWARD_FRAME_LAST;
    else if (status == PAL_OK && is_type(event, "error"))
        use = PAL_FORWARD_FRAME_ERROR;
    pal_arena_free(arena);
    return use;
}

static void put_error(pal_buf *out, pal_str message)
{
    pal_anthropic_put_error_event(out, "api_error", message);
}

static const pal_forward_format format = {
        .limits = "anthropic-ratelimit-",
        .read_frame = read_frame,
        .requires_last = true,
        .put_error = put_error,
};

/* `record` may be NULL. It is taken if the request was forwarded. */
static pal_status forward(pal_call *call, const char *path, bool is_free,
        pal_api_record *record, pal_error *err)
{
    static const char *const names[] = {"anthropic-version", "anthropic-beta"};
    pal_header headers[sizeof names / sizeof *names];
    pal_forward request = {.model = pal_member_string(call->body, "model", call->arena),
            .path = pal_str_of(path),
            .body = pal_buf_str(&call->exchange->body),
            .tenant = call->caller.tenant,
            .conversation =
                    pal_api_conversation_name(call, pal_buf_str(&call->exchange->body)),
            .budget = call->caller.budget,
            .headers = headers,
            .api = PAL_FORWARD_MESSAGES,
            .is_free = is_free};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pal_str value = pal_exchange_header(call->exchange, names[i]);
        if (value.len)
            headers[request.headers_len++] = (pal_header){pal_str_of(names[i]), value};
    }
    return pal_run_forward(
            call, &request, &format, record ? &pal_api_record_observer : NULL, record, err);
}

/* ---- Messages ---- */

static void created(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_error failure = {0};
    pal_anthropic_request *request = call->user;
    (void)ops_len;
    if (status == PAL_OK && ops[0].status != PAL_OK) {
        status = ops[0].status;
        err = &ops[0].error;
    }
    if (status == PAL_OK) {
        request->turn.session = ops[0].session;
        status = pal_anthropic_run(request, &failure);
        err = &failure;
    } else {
        pal_api_record_free(request->record);
    }
    if (status != PAL_OK)
        pal_call_fail(call, status, err);
}

static bool is_thread(const pal_call *call, const char *type)
{
    return is_type(pal_json_find(call->body, "thread"), type);
}

/* Runs the turn in a session that exists for this turn only. `body` is the request that is recorded
 * if there is a key or a thread. */
static pal_status run_turn(pal_call *call, pal_str key, pal_str body, pal_error *err)
{
    pal_anthropic_request *request = pal_arena_alloc(call->arena, sizeof *request);
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    if (!request || !session || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_anthropic_request_read(call, false, request, err);
    if (status != PAL_OK)
        return status;
    session->id = pal_call_derived_id(call, 0);
    session->tenant = call->caller.tenant;
    session->expires_at = pal_store_clock_ms(call->server->store) + TEMPORARY_MS;
    *op = pal_op_create(session);
    call->user = request;
    if (key.len || is_thread(call, "create")) {
        request->record = pal_anthropic_record_new(call, key, body);
        if (!request->record)
            return pal_no_memory(err);
    }
    status = pal_call_open(call, op, 1, &request->turn, created, err);
    if (status != PAL_OK)
        pal_api_record_free(request->record);
    return status;
}

/* Loads the thread that the request continues, and runs the request with its whole history. */
static pal_status resume_thread(pal_call *call, pal_error *err)
{
    pal_anthropic_thread thread;
    pal_message_page messages;
    pal_str body, key = pal_api_record_key(call, pal_buf_str(&call->exchange->body));
    pal_store *store = call->server->store;
    pal_status status = pal_anthropic_thread_find(
            store, call->caller.tenant, call->body, call->arena, &thread, err);
    if (status == PAL_OK)
        status = pal_anthropic_thread_load(
                store, call->caller.tenant, &thread, call->arena, &messages, err);
    if (status == PAL_NOT_FOUND)
        call->fail_name = "thread_not_found";
    if (status != PAL_OK)
        return status;
    status = pal_anthropic_thread_expand(
            call->body, &thread, &messages, call->arena, &body, err);
    if (status != PAL_OK)
        return status;
    status = pal_json_parse(call->arena, body, NULL, &call->body, err);
    if (status != PAL_OK)
        return status;
    return run_turn(call, key.len ? key : thread.key, body, err);
}

static void resume_on_worker(pal_exchange *x)
{
    pal_call *call = x->call;
    pal_error err = {0};
    pal_status status = resume_thread(call, &err);
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
}

static pal_status create_message(pal_call *call, pal_error *err)
{
    pal_api_record *record = NULL;
    pal_str body = pal_buf_str(&call->exchange->body), key = pal_api_record_key(call, body);
    if (key.len) {
        record = pal_anthropic_record_new(call, key, body);
        if (!record)
            return pal_no_memory(err);
    }
    pal_status status = forward(call, "/messages", false, record, err);
    if (status != PAL_OK)
        pal_api_record_free(record);
    if (status != PAL_CONFLICT)
        return status;
    if (!is_thread(call, "continue"))
        return run_turn(call, key, body, err);
    pal_exchange_to_worker(call->exchange, resume_on_worker);
    return PAL_OK;
}

/* ---- Counting ---- */

static pal_status count_request(
        const pal_anthropic_request *request, uint64_t *out_tokens, pal_error *err)
{
    const pal_turn_request *turn = &request->turn;
    const pal_encoding *encoding =
            pal_models_find(request->call->server->models, turn->model).encoding;
    pal_message system = pal_message_text(request->call->arena, PAL_ROLE_SYSTEM, turn->system);
    uint64_t tokens = 0, sum = 0;
    pal_status status = PAL_OK;
    if (turn->system.len)
        status = pal_tokens_message(encoding, &system, &sum, err);
    for (size_t i = 0; status == PAL_OK && i < turn->messages_len; i++) {
        status = pal_tokens_message(encoding, &turn->messages[i], &tokens, err);
        sum += tokens;
    }
    for (size_t i = 0; status == PAL_OK && i < turn->tools_len; i++) {
        const pal_tool *tool = &turn->tools[i];
        status = pal_tokens_tool(
                encoding, tool->name, tool->description, tool->schema, &tokens, err);
        sum += tokens;
    }
    *out_tokens = sum;
    return status;
}

static pal_status count_tokens(pal_call *call, pal_error *err)
{
    pal_anthropic_request request;
    uint64_t tokens;
    pal_status status = forward(call, "/messages/count_tokens", true, NULL, err);
    if (status != PAL_CONFLICT)
        return status;
    status = pal_anthropic_request_read(call, true, &request, err);
    if (status != PAL_OK)
        return status;
    status = count_request(&request, &tokens, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_count(writer, "input_tokens", tokens);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

const pal_api_route pal_anthropic_message_routes[] = {
        {"POST", "/v1/messages", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_TURN, create_message,
                {"anthropicCreateMessage",
                        "get a message; x-palaver-session names the session that records it", NULL,
                        &pal_api_any_object, &pal_api_any_object, 200}},
        {"POST", "/v1/messages/count_tokens", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                count_tokens,
                {"anthropicCountTokens", "count the tokens of a request", NULL,
                        &pal_api_any_object, &pal_api_any_object, 200}},
        {0},
};
