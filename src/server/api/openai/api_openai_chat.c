/* api_openai_chat.c - chat completions. By default, a request is forwarded to the model service
 * unchanged, and recorded if it names its conversation. With the header x-palaver-session the
 * server keeps the history: the request contains only the new messages, and a turn of that session
 * answers. If the model service has another API, the request also becomes a turn, in a temporary
 * session that is erased with it. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "dialect/openai/openai_chat.h"
#include "server/api/api_object.h"
#include "server/api/api_record.h"
#include "server/api/native/api_session.h"
#include "server/api/native/api_turn.h"
#include "server/api/openai/api_openai.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define USAGE_FRAME_BYTES_MAX 65536
#define PASSING_MS (60 * 60 * 1000) /* a temporary session that was not erased expires after this
                                       time */

/* ---- Forwarding ---- */

/* Recognizes the frame that include_usage adds at the end:
 * "data: {...,"choices":[],"usage":{...}}". */
static bool is_usage_frame(pal_str frame)
{
    pal_json value;
    if (frame.len > USAGE_FRAME_BYTES_MAX || !memmem(frame.data, frame.len, "\"usage\"", 7))
        return false;
    pal_arena *arena = pal_arena_new(0);
    bool is_usage = arena &&
            pal_json_parse(arena, pal_run_forward_data(frame), NULL, &value, NULL) == PAL_OK;
    if (is_usage) {
        pal_json choices = pal_json_find(value, "choices");
        is_usage = pal_json_type_of(choices) == PAL_JSON_ARRAY && pal_json_count(choices) == 0 &&
                pal_json_type_of(pal_json_find(value, "usage")) == PAL_JSON_OBJECT;
    }
    pal_arena_free(arena);
    return is_usage;
}

static pal_forward_frame read_frame(pal_str frame)
{
    return pal_str_is(pal_text_trim(pal_run_forward_data(frame)), "[DONE]")
            ? PAL_FORWARD_FRAME_LAST
            : PAL_FORWARD_FRAME_SEND;
}

/* If the server requested the usage and the client did not, the frame that contains only the usage
 * is left out. */
static pal_forward_frame hide_usage(pal_str frame)
{
    return is_usage_frame(frame) ? PAL_FORWARD_FRAME_HIDE : read_frame(frame);
}

static void put_error_frame(pal_buf *out, pal_str message)
{
    pal_buf_append_text(out, "data: {\"error\":{\"message\":");
    pal_json_quote(out, message);
    pal_buf_append_text(
            out, ",\"type\":\"server_error\",\"param\":null,\"code\":\"upstream_error\"}}\n\n");
}

static const pal_forward_format format = {
        .limits = "x-ratelimit-", .last = "[DONE]", .put_error = put_error_frame};
static const pal_forward_format format_recorded = {.limits = "x-ratelimit-",
        .read_frame = read_frame,
        .last = "[DONE]",
        .put_error = put_error_frame};
static const pal_forward_format format_without_usage = {.limits = "x-ratelimit-",
        .read_frame = hide_usage,
        .last = "[DONE]",
        .put_error = put_error_frame};

/* `record` may be NULL. It is taken if the request was forwarded. */
static pal_status pass_on(pal_call *call, pal_api_record *record, pal_error *err)
{
    pal_forward request = {.model = pal_member_string(call->body, "model", call->arena),
            .path = pal_str_of("/chat/completions"),
            .tenant = call->caller.tenant,
            .conversation =
                    pal_api_conversation_name(call, pal_buf_str(&call->exchange->body)),
            .budget = call->caller.budget};
    /* A budget needs the usage, so it is requested from the service. The client gets it only if it
     * requested it. */
    pal_json options = pal_json_find(call->body, "stream_options");
    request.asks_usage = (request.budget.tenant_tokens || request.budget.tenant_cost_micros) &&
            pal_json_type_of(pal_json_find(call->body, "stream")) == PAL_JSON_TRUE &&
            pal_json_type_of(pal_json_find(options, "include_usage")) != PAL_JSON_TRUE;
    pal_status status = pal_openai_body_to_forward(call, &request.body, err);
    if (status != PAL_OK)
        return status;
    const pal_forward_format *used = request.asks_usage ? &format_without_usage
            : record                                    ? &format_recorded
                                                        : &format;
    return pal_run_forward(
            call, &request, used, record ? &pal_api_record_observer : NULL, record, err);
}

/* ---- Recording ---- */

/* System messages at the beginning are left out, as in a session of the server: clients change
 * them, for example with the date. */
static pal_status read_request(pal_api_record *record, pal_json request,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    pal_message *messages;
    size_t len, first = 0;
    pal_status status = pal_openai_chat_read(
            pal_json_find(request, "messages"), record->arena, &messages, &len, err);
    if (status != PAL_OK)
        return status;
    while (first < len && messages[first].role == PAL_ROLE_SYSTEM)
        first++;
    *out_messages = messages + first;
    *out_len = len - first;
    return PAL_OK;
}

static pal_status read_answer(pal_api_record *record, pal_str answer, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_message *message = pal_arena_alloc(record->arena, sizeof *message);
    if (!message)
        return pal_arena_checked(record->arena, err);
    *out_messages = message;
    *out_len = 1;
    return pal_openai_chat_answer_read(answer, record->arena, message, err);
}

static const pal_api_record_format record_format = {.read_request = read_request,
        .read_answer = read_answer,
        .join = pal_openai_chat_answer_join};

/* Sets *out_record to NULL if the request is not recorded. */
static pal_status new_record(pal_call *call, pal_api_record **out_record, pal_error *err)
{
    pal_str body = pal_buf_str(&call->exchange->body), key = pal_api_record_key(call, body);
    *out_record = key.len ? pal_api_record_new(call, &record_format, key, body) : NULL;
    return key.len && !*out_record ? pal_no_memory(err) : PAL_OK;
}

/* ---- Reading a turn ---- */

/* System messages at the beginning apply to this turn only and are not stored, because clients send
 * them with every request. */
static pal_status take_system(pal_openai_chat *chat, pal_error *err)
{
    pal_turn_request *request = &chat->request;
    pal_buf buf;
    pal_buf_init(&buf, PAL_SYSTEM_LEN_MAX);
    while (request->messages_len && request->messages[0].role == PAL_ROLE_SYSTEM) {
        pal_str text = pal_dialect_text(&request->messages[0], chat->call->arena);
        if (request->has_system)
            pal_buf_append_text(&buf, "\n\n");
        pal_buf_append_str(&buf, text);
        request->has_system = true;
        request->messages++;
        request->messages_len--;
    }
    pal_status status = pal_member_keep(&buf, chat->call->arena, &request->system, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status read_messages(pal_openai_chat *chat, pal_error *err)
{
    pal_call *call = chat->call;
    pal_turn_request *request = &chat->request;
    pal_json messages = pal_json_find(call->body, "messages");
    call->fail_param = "messages";
    if (pal_json_type_of(messages) != PAL_JSON_ARRAY || pal_json_count(messages) == 0)
        return pal_error_set(err, PAL_INVALID, "'messages' must be an array of messages");
    pal_status status = pal_openai_chat_read(
            messages, call->arena, &request->messages, &request->messages_len, err);
    if (status == PAL_OK)
        status = take_system(chat, err);
    if (status != PAL_OK)
        return status;
    call->fail_param = NULL;
    for (size_t i = 0; call->idempotency_key.len && i < request->messages_len; i++) {
        char text[PAL_ID_TEXT_SIZE];
        pal_id_to_text(pal_call_derived_id(call, (uint32_t)i + 1), text);
        request->messages[i].client_id = pal_arena_copy(call->arena, pal_str_of(text));
    }
    return pal_arena_checked(call->arena, err);
}

/* Collects the members that Palaver does not interpret, for the model service. */
static pal_status read_parameters(pal_openai_chat *chat, pal_error *err)
{
    static const char *const own[] = {"model", "messages", "stream", "stream_options", "tools",
            "tool_choice", "max_tokens", "max_completion_tokens", "n", "store", "metadata", NULL};
    pal_call *call = chat->call;
    pal_buf buf;
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_member_put_others(&writer, call->body, own, NULL, call->arena);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, call->arena, &chat->request.parameters, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status read_tools(pal_openai_chat *chat, pal_error *err)
{
    pal_call *call = chat->call;
    pal_tool *tools = NULL;
    pal_json choice = pal_json_find(call->body, "tool_choice");
    pal_json_type type = pal_json_type_of(choice);
    pal_status status = pal_api_tools_read(
            call, pal_json_find(call->body, "tools"), &tools, &chat->request.tools_len, err);
    if (status != PAL_OK)
        return status;
    chat->request.tools = tools;
    if (type == PAL_JSON_STRING || type == PAL_JSON_OBJECT)
        chat->request.tool_choice = pal_json_raw(choice);
    return PAL_OK;
}

static const pal_api_object stream_options = {
        .is_open = true,
        .members = PAL_API_MEMBERS(
                {"include_usage", PAL_API_FLAG, "whether the last chunk has the usage",
                        .offset = offsetof(pal_openai_chat, has_usage_chunk)})};

/* The newer name of the output limit is last, so that it overrides the older one. */
static const pal_api_object chat_body = {"ChatCompletionRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"messages", PAL_API_LIST, "the messages", .of = &pal_api_any_object,
                        .is_required = true},
                {"model", PAL_API_TEXT, "the model",
                        .offset = offsetof(pal_openai_chat, request.model),
                        .max = PAL_MODEL_LEN_MAX},
                {"stream", PAL_API_FLAG, "whether the response is a stream of chunks",
                        .offset = offsetof(pal_openai_chat, is_stream)},
                {"stream_options", PAL_API_NESTED, .of = &stream_options},
                {"tools", PAL_API_LIST, .of = &pal_api_any_object},
                {"tool_choice", PAL_API_VALUE, .schema = "{\"type\":[\"string\",\"object\"]}"},
                {"n", PAL_API_COUNT, "the number of answers",
                        .offset = offsetof(pal_openai_chat, n), .min = 1, .max = 1},
                {"max_tokens", PAL_API_COUNT, "the maximum length of the answer",
                        .offset = offsetof(pal_openai_chat, request.output_max), .min = 1,
                        .max = INT32_MAX},
                {"max_completion_tokens", PAL_API_COUNT, "the maximum length of the answer",
                        .offset = offsetof(pal_openai_chat, request.output_max), .min = 1,
                        .max = INT32_MAX})};

static pal_status read_chat(pal_openai_chat *chat, pal_error *err)
{
    pal_call *call = chat->call;
    chat->request.tenant = call->caller.tenant;
    chat->request.budget = call->caller.budget;
    chat->request.lane = PAL_TURN_LANE_QUEUE;
    chat->request.all_or_nothing = true;
    chat->request.no_retries = true;
    chat->request.calls_end_turn = true;
    chat->request.no_server_tools = chat->is_passing;
    if (chat->is_passing)
        pal_run_send_everything(call->server, &chat->request);
    pal_status status = pal_api_object_read(call, call->body, &chat_body, chat, err);
    if (status != PAL_OK)
        return status;
    status = read_messages(chat, err);
    if (status != PAL_OK)
        return status;
    status = read_tools(chat, err);
    return status == PAL_OK ? read_parameters(chat, err) : status;
}

/* ---- The session ---- */

static void created(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_error failure = {0};
    pal_openai_chat *chat = call->user;
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK) {
        chat->request.session = ops[0].session;
        status = pal_openai_chat_run(chat, &failure);
        err = &failure;
    } else {
        pal_api_record_free(chat->record);
    }
    if (status != PAL_OK)
        pal_call_fail(call, status, err);
}

static pal_status create_session(pal_openai_chat *chat, pal_str key, pal_error *err)
{
    pal_call *call = chat->call;
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    if (!session || !op)
        return pal_arena_checked(call->arena, err);
    session->id = pal_call_derived_id(call, 0);
    session->tenant = call->caller.tenant;
    session->key = key;
    if (chat->is_passing)
        session->expires_at = pal_store_clock_ms(call->server->store) + PASSING_MS;
    *op = key.len ? pal_op_find_or_create(session) : pal_op_create(session);
    call->user = chat;
    if (key.len)
        /* Another request may create a session with this key meanwhile; then that one is used. */
        return pal_call_apply(call, op, 1, created, err);
    pal_status status = new_record(call, &chat->record, err);
    if (status != PAL_OK)
        return status;
    status = pal_call_open(call, op, 1, &chat->request, created, err);
    if (status != PAL_OK)
        pal_api_record_free(chat->record);
    return status;
}

/* Finds the session by id (also in the form that the other APIs show), by key, or by alias. */
static pal_status find_session(pal_openai_chat *chat, pal_str key, pal_error *err)
{
    pal_call *call = chat->call;
    pal_session session;
    pal_id id;
    if (pal_openai_id_read(key, "conv_", &id)) {
        pal_status status = pal_openai_conversation(call, key, "x-palaver-session", &session, err);
        chat->request.session = id;
        return status;
    }
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ANY,
            key, call->arena, &session, err);
    if (status == PAL_OK && session.state != PAL_SESSION_ACTIVE)
        status = pal_error_set(err, PAL_NOT_FOUND, "session '%.*s' is in the trash",
                (int)pal_utf8_cut(key, key.len < 80 ? key.len : 80), key.data);
    else if (status == PAL_NOT_FOUND)
        return PAL_OK;
    chat->request.session = session.id;
    return status;
}

static pal_status run_turn(pal_call *call, pal_str key, pal_error *err)
{
    pal_openai_chat *chat = pal_arena_alloc(call->arena, sizeof *chat);
    if (!chat)
        return pal_arena_checked(call->arena, err);
    chat->call = call;
    chat->is_passing = key.len == 0;
    pal_status status = read_chat(chat, err);
    if (status == PAL_OK && key.len)
        status = find_session(chat, key, err);
    if (status != PAL_OK)
        return status;
    if (pal_id_is_none(chat->request.session))
        return create_session(chat, key, err);
    return pal_openai_chat_run(chat, err);
}

static pal_status complete(pal_call *call, pal_error *err)
{
    pal_str key = call->exchange->headers.session;
    if (key.len)
        return run_turn(call, key, err);
    pal_api_record *record;
    pal_status status = new_record(call, &record, err);
    if (status != PAL_OK)
        return status;
    status = pass_on(call, record, err);
    if (status != PAL_OK)
        pal_api_record_free(record);
    return status == PAL_CONFLICT ? run_turn(call, key, err) : status;
}

const pal_api_route pal_openai_chat_routes[] = {
        {"POST", "/v1/chat/completions", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_TURN, complete,
                {"openaiCreateChatCompletion",
                        "get a chat completion; with x-palaver-session the server keeps the "
                        "history", NULL,
                        &chat_body, &pal_api_any_object, 200}},
        {0},
};
