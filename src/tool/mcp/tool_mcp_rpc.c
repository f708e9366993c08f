/* tool_mcp_rpc.c - JSON-RPC with a server: requests that wait for an answer, and messages from the
 * server that are not answers.
 *
 * A request is a member of its owner's struct. Its id is 0 unless it waits for an answer; then it
 * is in the list and in the map of its server. It leaves both before its callback, so the callback
 * can send it again. An answer without a waiting request is ignored, so a server that answers twice
 * does no harm. On the loop. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tool/mcp/tool_mcp_internal.h"

#define UNREAD_LOOK_LEN ((size_t)256) /* bytes that are examined at either end of a message that
                                         could not be read */
#define META "io.modelcontextprotocol/"
#define TASKS "\"extensions\":{\"" META "tasks\":{}}"
#define CLIENT "{\"name\":\"palaver\",\"version\":\"" PAL_VERSION "\"}"

/* ---- Requests ---- */

static pal_str key_of(const pal_tool_mcp_request *request)
{
    return pal_str_make((const char *)&request->id, sizeof(request->id));
}

static void remove_request(pal_tool_mcp_request *request)
{
    pal_tool_mcp *mcp = request->mcp;
    (void)pal_map_remove(&mcp->by_id, key_of(request));
    if (request->previous)
        request->previous->next = request->next;
    else
        mcp->requests = request->next;
    if (request->next)
        request->next->previous = request->previous;
    pal_loop_timer_stop(mcp->loop, &request->timer);
    request->previous = request->next = NULL;
    request->id = 0;
}

static pal_status add_request(pal_tool_mcp_request *request)
{
    pal_tool_mcp *mcp = request->mcp;
    request->id = ++mcp->last_id;
    pal_status status = pal_map_set(&mcp->by_id, key_of(request), request);
    if (status) {
        request->id = 0;
        return status;
    }
    request->previous = NULL;
    request->next = mcp->requests;
    if (request->next)
        request->next->previous = request;
    mcp->requests = request;
    return PAL_OK;
}

static void on_timeout(pal_timer *timer)
{
    pal_tool_mcp_request *request =
            (pal_tool_mcp_request *)((char *)timer - offsetof(pal_tool_mcp_request, timer));
    pal_tool_mcp *mcp = request->mcp;
    pal_tool_mcp_enter(mcp);
    const pal_tool_mcp_answer answer = {
            .status = PAL_TIMEOUT, .error = pal_str_of("no response within the time limit")};
    pal_tool_mcp_request_drop(request, true);
    request->on_answer(request, &answer);
    pal_tool_mcp_leave(mcp);
}

static void write_meta(pal_json_writer *json, const pal_tool_mcp_request *request)
{
    pal_json_name(json, "_meta");
    pal_json_begin_object(json);
    if (request->on_progress) {
        pal_put_count(json, "progressToken", request->id);
    }
    if (request->mcp->era == PAL_TOOL_MCP_ERA_NEW) {
        pal_put_text(json, META "protocolVersion", request->mcp->version);
        pal_put_raw(json, META "clientInfo", pal_str_of(CLIENT));
        pal_put_raw(json, META "clientCapabilities",
                pal_str_of(request->can_ask ? "{" PAL_TOOL_MCP_ELICITATION "," TASKS "}"
                                            : "{" TASKS "}"));
    }
    pal_json_end_object(json);
}

static void write_request(pal_buf *out, const pal_tool_mcp_request *request, pal_str params)
{
    pal_json_writer json = pal_json_writer_make(out);
    bool has_meta = request->on_progress || request->mcp->era == PAL_TOOL_MCP_ERA_NEW;
    pal_json_begin_object(&json);
    pal_put_text(&json, "jsonrpc", "2.0");
    if (!request->is_notification) {
        pal_put_count(&json, "id", request->id);
    }
    pal_put_text(&json, "method", request->method);
    if (params.len || has_meta) {
        pal_json_name(&json, "params");
        pal_json_begin_object(&json);
        pal_json_put_members(&json, params);
        if (has_meta)
            write_meta(&json, request);
        pal_json_end_object(&json);
    }
    pal_json_end_object(&json);
}

/* A raw line end in valid JSON is always white space. */
static void remove_line_ends(pal_buf *message)
{
    for (size_t i = 0; i < message->len; i++) {
        if (message->data[i] == '\n' || message->data[i] == '\r')
            message->data[i] = ' ';
    }
}

pal_status pal_tool_mcp_request_send(pal_tool_mcp *mcp, pal_tool_mcp_request *request,
        pal_str params, int64_t wait_ms, pal_error *err)
{
    pal_buf message;
    request->mcp = mcp;
    if (add_request(request))
        return pal_no_memory(err);
    pal_buf_init(&message, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    write_request(&message, request, params);
    remove_line_ends(&message);
    pal_status status = message.failure;
    if (status)
        (void)pal_error_set(err, status, "a message to '%.*s' is too long, or there is no memory",
                PAL_STR_ARG(mcp->config.name));
    if (status == PAL_OK && wait_ms &&
            !pal_loop_timer_start(mcp->loop, &request->timer, wait_ms, on_timeout))
        status = pal_no_memory(err);
    if (status == PAL_OK)
        status = mcp->transport->send(mcp, request, pal_buf_str(&message), err);
    if (status)
        remove_request(request);
    pal_buf_done(&message);
    return status;
}

void pal_tool_mcp_request_post(pal_tool_mcp *mcp, const char *method, pal_str name, pal_str params)
{
    pal_tool_mcp_request request = {.mcp = mcp,
            .id = ++mcp->last_id,
            .method = method,
            .name = name,
            .is_unanswered = true};
    pal_buf message;
    pal_buf_init(&message, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    write_request(&message, &request, params);
    remove_line_ends(&message);
    if (!message.failure)
        (void)!mcp->transport->send(mcp, &request, pal_buf_str(&message), NULL);
    pal_buf_done(&message);
}

static void send_plain(pal_tool_mcp *mcp, pal_buf *message)
{
    /* Nothing waits for these messages, so a lost one is not sent again. */
    if (!message->failure)
        (void)!mcp->transport->send(mcp, NULL, pal_buf_str(message), NULL);
}

static void notify_canceled(pal_tool_mcp_request *request)
{
    pal_tool_mcp *mcp = request->mcp;
    pal_buf message;
    /* In the new era, ending the HTTP request cancels it. The handshake is never canceled. */
    if (request->is_notification || request == &mcp->initialize || request == &mcp->discover ||
            (mcp->era == PAL_TOOL_MCP_ERA_NEW && mcp->transport == &pal_tool_mcp_http))
        return;
    pal_buf_init(&message, 256);
    pal_buf_format(&message,
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
            "\"params\":{\"requestId\":%llu}}",
            (unsigned long long)request->id);
    send_plain(mcp, &message);
    pal_buf_done(&message);
}

void pal_tool_mcp_request_drop(pal_tool_mcp_request *request, bool notify)
{
    if (request->id == 0)
        return;
    if (notify)
        notify_canceled(request);
    request->mcp->transport->forget(request);
    remove_request(request);
}

void pal_tool_mcp_request_end(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    remove_request(request);
    request->on_answer(request, answer);
}

void pal_tool_mcp_request_fail(
        pal_tool_mcp_request *request, pal_status status, const char *format, ...)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const pal_tool_mcp_answer answer = {.status = status, .error = pal_str_of(text)};
    pal_tool_mcp_request_end(request, &answer);
}

/* ---- Receiving ---- */

static void append_valid(pal_buf *out, pal_str text)
{
    char bytes[4];
    uint32_t c;
    while (text.len) {
        size_t len = pal_utf8_decode(text, &c);
        pal_buf_append(out, bytes, pal_utf8_encode(c, bytes));
        text = pal_str_make(text.data + len, text.len - len);
    }
}

/* Returns PAL_LIMIT if reading the text would block the loop too long. */
static pal_status parse(pal_tool_mcp *mcp, pal_str text, pal_json *out_value)
{
    static const pal_json_limits limits = {.values_max = PAL_TOOL_MCP_VALUES_MAX};
    pal_error err;
    pal_arena_reset(mcp->scratch);
    if (pal_utf8_is_valid(text))
        return pal_json_parse(mcp->scratch, text, &limits, out_value, &err);
    if (text.len > PAL_TOOL_MCP_REPAIRED_BYTES_MAX)
        return PAL_LIMIT;
    pal_buf valid;
    pal_buf_init(&valid, 3 * (size_t)PAL_TOOL_MCP_REPAIRED_BYTES_MAX);
    append_valid(&valid, text);
    pal_str copy = pal_arena_copy(mcp->scratch, pal_buf_str(&valid));
    pal_buf_done(&valid);
    return copy.len ? pal_json_parse(mcp->scratch, copy, &limits, out_value, &err) : PAL_NO_MEMORY;
}

bool pal_tool_mcp_parse(pal_tool_mcp *mcp, pal_str text, pal_json *out_value)
{
    return parse(mcp, text, out_value) == PAL_OK;
}

bool pal_tool_mcp_answer_read(pal_tool_mcp *mcp, pal_json message, pal_tool_mcp_answer *out_answer)
{
    pal_json result = pal_json_find(message, "result");
    pal_json error = pal_json_find(message, "error");
    *out_answer = (pal_tool_mcp_answer){.status = PAL_OK, .result = result};
    if (pal_json_type_of(result) == PAL_JSON_OBJECT)
        return true;
    out_answer->status = PAL_PROVIDER;
    if (pal_json_type_of(error) == PAL_JSON_STRING) {
        out_answer->error = pal_json_string(error, mcp->scratch);
        return true;
    }
    (void)pal_json_i64(pal_json_find(error, "code"), &out_answer->code);
    out_answer->data = pal_json_find(error, "data");
    out_answer->error = pal_json_string(pal_json_find(error, "message"), mcp->scratch);
    if (out_answer->error.len == 0)
        out_answer->error = pal_str_of("the server sent an error without a text");
    return pal_json_type_of(error) == PAL_JSON_OBJECT;
}

static pal_tool_mcp_request *find_request(pal_tool_mcp *mcp, pal_json id)
{
    uint64_t number;
    if (!pal_json_u64(id, &number))
        return NULL;
    return pal_map_find(&mcp->by_id, pal_str_make((const char *)&number, sizeof(number)));
}

/* Returns the number after the last "id": of a text, or 0 if there is none. */
static uint64_t last_id(pal_str text)
{
    static const char name[] = "\"id\":";
    uint64_t number = 0;
    for (const char *at; (at = text.len ? memmem(text.data, text.len, name, sizeof name - 1)
                                        : NULL) != NULL;) {
        size_t skip = (size_t)(at - text.data) + sizeof name - 1;
        text = pal_str_make(text.data + skip, text.len - skip);
        number = 0;
        for (size_t i = 0; i < text.len && i < 18; i++) {
            char c = text.data[i];
            if (c >= '0' && c <= '9')
                number = number * 10 + (uint64_t)(c - '0');
            else if (c != ' ' || number)
                break;
        }
    }
    return number;
}

/* The beginning or the end of an unread message shows which request it answers. Without this, the
 * request would wait in vain. */
static void refuse_unread(pal_tool_mcp *mcp, pal_str text)
{
    size_t len = text.len < UNREAD_LOOK_LEN ? text.len : UNREAD_LOOK_LEN;
    const pal_str ends[] = {
            pal_str_make(text.data, len), pal_str_make(text.data + text.len - len, len)};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        uint64_t id = last_id(ends[i]);
        pal_tool_mcp_request *request =
                pal_map_find(&mcp->by_id, pal_str_make((const char *)&id, sizeof id));
        if (!request || request->is_notification)
            continue;
        mcp->transport->forget(request);
        pal_tool_mcp_request_fail(request, PAL_PROVIDER,
                "the response has more than %u JSON values, or is too long and not UTF-8",
                PAL_TOOL_MCP_VALUES_MAX);
        return;
    }
}

static void receive_answer(pal_tool_mcp *mcp, pal_json message)
{
    pal_tool_mcp_request *request = find_request(mcp, pal_json_find(message, "id"));
    pal_tool_mcp_answer answer;
    if (!request || request->is_notification)
        return;
    if (!pal_tool_mcp_answer_read(mcp, message, &answer)) {
        answer.status = PAL_IO;
        answer.error = pal_str_of("the response has neither a result nor an error");
    }
    mcp->transport->forget(request);
    pal_tool_mcp_request_end(request, &answer);
}

void pal_tool_mcp_respond(pal_tool_mcp *mcp, pal_str id, pal_str result)
{
    pal_buf message;
    pal_buf_init(&message, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    pal_buf_append_text(&message, "{\"jsonrpc\":\"2.0\",\"id\":");
    pal_buf_append_str(&message, id);
    pal_buf_append_text(&message, ",\"result\":");
    pal_buf_append_str(&message, result);
    pal_buf_append_text(&message, "}");
    remove_line_ends(&message);
    send_plain(mcp, &message);
    pal_buf_done(&message);
}

/* In the new era a client sends no responses. Methods that were not announced, such as roots/list
 * and sampling/createMessage, are unknown. */
static void receive_request(pal_tool_mcp *mcp, pal_tool_mcp_request *during, pal_json request)
{
    pal_json method = pal_json_find(request, "method"), id = pal_json_find(request, "id");
    pal_buf message;
    if (mcp->era == PAL_TOOL_MCP_ERA_NEW)
        return;
    if (mcp->config.can_ask && pal_json_string_is(method, "elicitation/create")) {
        pal_tool_mcp_ask(mcp, during, id, pal_json_find(request, "params"));
        return;
    }
    if (pal_json_string_is(method, "ping")) {
        pal_tool_mcp_respond(mcp, pal_json_raw(id), pal_str_of("{}"));
        return;
    }
    pal_buf_init(&message, 65536);
    pal_buf_append_text(&message, "{\"jsonrpc\":\"2.0\",\"id\":");
    pal_buf_append_str(&message, pal_json_raw(id));
    pal_buf_format(&message, ",\"error\":{\"code\":%d,\"message\":\"Method not found\"}}",
            PAL_TOOL_MCP_METHOD_NOT_FOUND);
    send_plain(mcp, &message);
    pal_buf_done(&message);
}

static void receive_notification(pal_tool_mcp *mcp, pal_json method, pal_json params)
{
    if (pal_json_string_is(method, "notifications/tools/list_changed")) {
        pal_tool_mcp_list_soon(mcp);
    } else if (pal_json_string_is(method, "notifications/progress")) {
        pal_tool_mcp_request *request = find_request(mcp, pal_json_find(params, "progressToken"));
        if (request && request->on_progress)
            request->on_progress(request);
    } else if (pal_json_string_is(method, "notifications/cancelled")) {
        pal_tool_mcp_request *request = find_request(mcp, pal_json_find(params, "requestId"));
        if (request && request->is_endless) {
            mcp->transport->forget(request);
            pal_tool_mcp_request_fail(request, PAL_IO, "the server canceled the request");
        } else {
            pal_tool_mcp_ask_withdraw(mcp, pal_json_find(params, "requestId"));
        }
    }
}

static bool receive_one(pal_tool_mcp *mcp, pal_tool_mcp_request *during, pal_json message)
{
    pal_json method = pal_json_find(message, "method");
    pal_json id = pal_json_find(message, "id");
    bool has_id =
            pal_json_type_of(id) == PAL_JSON_NUMBER || pal_json_type_of(id) == PAL_JSON_STRING;
    if (pal_json_type_of(message) != PAL_JSON_OBJECT)
        return false;
    if (pal_json_type_of(method) != PAL_JSON_STRING)
        receive_answer(mcp, message);
    else if (has_id)
        receive_request(mcp, during, message);
    else
        receive_notification(mcp, method, pal_json_find(message, "params"));
    return true;
}

/* Revision 2025-03-26 allowed a list of messages. */
bool pal_tool_mcp_receive(pal_tool_mcp *mcp, pal_tool_mcp_request *during, pal_str text)
{
    pal_json message, one;
    pal_status status = parse(mcp, text, &message);
    if (status == PAL_LIMIT)
        refuse_unread(mcp, text);
    if (status != PAL_OK)
        return status == PAL_LIMIT;
    if (pal_json_type_of(message) != PAL_JSON_ARRAY)
        return receive_one(mcp, during, message);
    pal_json_iter each = pal_json_each(message);
    while (!mcp->closed && pal_json_next(&each, NULL, &one))
        (void)receive_one(mcp, during, one);
    return true;
}
