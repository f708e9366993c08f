/* tool_mcp_call.c - calls of a server's tools.
 *
 * A call is in one of two lists: `waiting` until its server is ready, then `sent` until its result.
 * After it was sent it is never sent again, unless the server said that it did not accept it: then
 * it returns to `waiting`. A call that was sent fails if its server dies, because the tool may have
 * run. Each call ends with exactly one callback, unless it is canceled. The call is freed before
 * the callback. On the loop. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tool/tool_mcp_internal.h"

#define PROGRESS_FACTOR 30 /* while a call reports progress, its time limit is at most this many
                              times as long */
#define ROUNDS_MAX 8       /* how often a server can request another round */
#define REFUSALS_MAX 2     /* lost sessions and changed lists that one call survives */

struct pal_tool_mcp_call {
    pal_tool_mcp *mcp;
    pal_tool_mcp_calls *list; /* the list that contains the call */
    pal_tool_mcp_call *previous, *next;
    pal_tool_mcp_request request;
    pal_timer timer;
    int64_t until_ms; /* the final time limit, whatever progress is reported */
    pal_arena *arena; /* owns the next members */
    pal_str tool;     /* the server's name of the tool */
    pal_str arguments;
    pal_arena *round_arena; /* owns the data of the current request */
    pal_tool_on_outcome on_outcome;
    void *user;
    uint32_t rounds, refusals;
    uint32_t sessions; /* number of the server's session when the request was sent */
};

/* ---- Lists ---- */

static void remove_call(pal_tool_mcp_call *call)
{
    pal_tool_mcp_calls *list = call->list;
    if (!list)
        return;
    if (call->previous)
        call->previous->next = call->next;
    else
        list->first = call->next;
    if (call->next)
        call->next->previous = call->previous;
    else
        list->last = call->previous;
    list->len--;
    call->list = NULL;
}

static void add_call(pal_tool_mcp_calls *list, pal_tool_mcp_call *call)
{
    remove_call(call);
    call->list = list;
    call->next = NULL;
    call->previous = list->last;
    if (list->last)
        list->last->next = call;
    else
        list->first = call;
    list->last = call;
    list->len++;
}

/* ---- The end of a call ---- */

static void free_call(pal_tool_mcp_call *call)
{
    pal_timer_stop(call->mcp->loop, &call->timer);
    remove_call(call);
    pal_arena_free(call->round_arena);
    pal_arena_free(call->arena);
    pal_free(call);
}

static void end_call(pal_tool_mcp_call *call, const pal_tool_outcome *outcome)
{
    pal_tool_on_outcome on_outcome = call->on_outcome;
    void *user = call->user;
    pal_tool_mcp_request_drop(&call->request, false);
    free_call(call);
    on_outcome(user, outcome);
}

static void fail_call(pal_tool_mcp_call *call, const char *format, ...) PAL_PRINTF(2, 3);

static void fail_call(pal_tool_mcp_call *call, const char *format, ...)
{
    char small[1024];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(small, sizeof(small), format, arguments);
    va_end(arguments);
    if (len < 0)
        len = 0;
    if ((size_t)len >= sizeof(small))
        len = (int)sizeof(small) - 1;
    pal_str text = pal_str_make(small, (size_t)len);
    text.len = pal_utf8_valid_len(text);
    const pal_part part = {.kind = PAL_PART_TEXT, .text = text};
    const pal_tool_outcome outcome = {.is_error = true, .parts = &part, .parts_len = 1};
    end_call(call, &outcome);
}

/* Passes the text of the server unchanged. */
static void fail_with_text(pal_tool_mcp_call *call, pal_str text)
{
    const pal_part part = {.kind = PAL_PART_TEXT, .text = text};
    const pal_tool_outcome outcome = {.is_error = true, .parts = &part, .parts_len = 1};
    end_call(call, &outcome);
}

static void on_timeout(pal_timer *timer)
{
    pal_tool_mcp_call *call =
            (pal_tool_mcp_call *)((char *)timer - offsetof(pal_tool_mcp_call, timer));
    pal_tool_mcp *mcp = call->mcp;
    pal_tool_mcp_enter(mcp);
    pal_tool_mcp_request_drop(&call->request, true);
    fail_call(call,
            "the tool did not return a result within %lld ms", (long long)mcp->config.call_ms);
    pal_tool_mcp_leave(mcp);
}

static void on_progress(pal_tool_mcp_request *request)
{
    pal_tool_mcp_call *call =
            (pal_tool_mcp_call *)((char *)request - offsetof(pal_tool_mcp_call, request));
    int64_t left = call->until_ms - pal_loop_now_ms(call->mcp->loop);
    int64_t wait = call->mcp->config.call_ms;
    /* Restarting a running timer needs no memory. */
    (void)!pal_timer_start(
            call->mcp->loop, &call->timer, left < wait ? (left > 0 ? left : 0) : wait, on_timeout);
}

/* ---- Sending ---- */

static bool send_call(pal_tool_mcp_call *call, pal_str state, pal_error *err);

/* Returns false if the call must not wait any longer. Then its callback was called. */
static bool wait_again(pal_tool_mcp_call *call)
{
    if (call->refusals++ >= REFUSALS_MAX)
        return false;
    add_call(&call->mcp->waiting, call);
    return true;
}

/* A server can only request another round with its own state, because this client offers nothing
 * else. */
static void send_again(pal_tool_mcp_call *call, pal_json result)
{
    pal_error err;
    pal_json state = pal_json_find(result, "requestState");
    if (pal_json_count(pal_json_find(result, "inputRequests")) ||
            pal_json_type_of(state) != PAL_JSON_STRING || call->rounds++ >= ROUNDS_MAX)
        fail_call(call, "the tool requires input from a user, which is not supported");
    else if (!send_call(call, pal_json_raw(state), &err))
        fail_call(call, "%s", err.message);
}

static void end_with_result(pal_tool_mcp_call *call, pal_json result)
{
    pal_tool_mcp *mcp = call->mcp;
    pal_tool_outcome outcome;
    pal_json type = pal_json_find(result, "resultType");
    mcp->failures = 0;
    if (pal_json_string_is(type, "input_required")) {
        send_again(call, result);
    } else if (pal_json_type_of(type) != PAL_JSON_NONE && !pal_json_string_is(type, "complete")) {
        fail_call(call, "the tool returned a result of an unknown type");
    } else {
        pal_tool_mcp_result_read(result, mcp->scratch, &outcome);
        if (pal_arena_failure(mcp->scratch))
            fail_call(call, "out of memory for the result of the tool");
        else
            end_call(call, &outcome);
    }
}

static void on_answer(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp_call *call =
            (pal_tool_mcp_call *)((char *)request - offsetof(pal_tool_mcp_call, request));
    pal_tool_mcp *mcp = call->mcp;
    if (answer->status == PAL_OK) {
        end_with_result(call, answer->result);
    } else if (pal_tool_mcp_session_is_lost(mcp, answer) && wait_again(call)) {
        /* Another call may have noticed the lost session before. */
        if (call->sessions == mcp->sessions)
            pal_tool_mcp_session_renew(mcp);
        else
            pal_tool_mcp_calls_send(mcp);
    } else if (answer->code == PAL_TOOL_MCP_HEADER_MISMATCH && mcp->state == PAL_TOOL_MCP_READY &&
            wait_again(call)) {
        pal_tool_mcp_list_start(mcp);
    } else if (answer->status == PAL_PROVIDER) {
        fail_with_text(call, answer->error);
    } else {
        fail_call(call, "the MCP server failed: %.*s", PAL_STR_ARG(answer->error));
    }
}

static void write_params(pal_buf *out, const pal_tool_mcp_call *call, pal_str state)
{
    pal_json_writer json = pal_json_writer_make(out);
    pal_json_begin_object(&json);
    pal_put_str(&json, "name", call->tool);
    pal_put_raw(&json, "arguments", call->arguments);
    if (state.len) {
        pal_put_raw(&json, "requestState", state);
    }
    pal_json_end_object(&json);
}

/* `state` is JSON or empty. */
static bool send_call(pal_tool_mcp_call *call, pal_str state, pal_error *err)
{
    pal_tool_mcp *mcp = call->mcp;
    pal_buf params;
    pal_http_header *headers = NULL;
    size_t headers_len = 0;
    const pal_tool *tool = pal_tool_mcp_toolbox_find(&mcp->tools, call->tool);
    pal_arena_reset(call->round_arena);
    if (tool && mcp->era == PAL_TOOL_MCP_ERA_NEW && mcp->transport == &pal_tool_mcp_http)
        pal_tool_mcp_headers_make(
                tool->schema, call->arguments, call->round_arena, &headers, &headers_len);
    call->request = (pal_tool_mcp_request){.method = "tools/call",
            .on_answer = on_answer,
            .on_progress = on_progress,
            .tool = call->tool,
            .headers = headers,
            .headers_len = headers_len};
    pal_buf_init(&params, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    write_params(&params, call, state);
    pal_status status = params.failure ? params.failure : pal_arena_failure(call->round_arena);
    if (status)
        (void)pal_error_set(err, status, "the arguments are too long, or there is no memory");
    else
        status = pal_tool_mcp_request_send(mcp, &call->request, pal_buf_str(&params), 0, err);
    pal_buf_done(&params);
    call->sessions = mcp->sessions;
    if (status == PAL_OK)
        add_call(&mcp->sent, call);
    return status == PAL_OK;
}

void pal_tool_mcp_calls_send(pal_tool_mcp *mcp)
{
    pal_error err;
    while (!mcp->closed && mcp->state == PAL_TOOL_MCP_READY && mcp->waiting.first) {
        pal_tool_mcp_call *call = mcp->waiting.first;
        if (!send_call(call, (pal_str){0}, &err))
            fail_call(call, "%s", err.message);
    }
}

static void fail_all(pal_tool_mcp *mcp, pal_tool_mcp_calls *list, const char *what, pal_str why)
{
    /* Calls that are added meanwhile are not run here. */
    for (size_t left = list->len; left && !mcp->closed && list->first; left--)
        fail_call(list->first, "%s: %.*s", what, PAL_STR_ARG(why));
}

void pal_tool_mcp_calls_fail_sent(pal_tool_mcp *mcp, pal_str why)
{
    fail_all(mcp, &mcp->sent, "the MCP server failed while the tool was running", why);
}

void pal_tool_mcp_calls_fail_waiting(pal_tool_mcp *mcp, pal_str why)
{
    fail_all(mcp, &mcp->waiting, "the MCP server failed", why);
}

void pal_tool_mcp_calls_drop(pal_tool_mcp *mcp)
{
    while (mcp->waiting.first)
        free_call(mcp->waiting.first);
    while (mcp->sent.first) {
        pal_tool_mcp_request_drop(&mcp->sent.first->request, true);
        free_call(mcp->sent.first);
    }
}

/* ---- Public functions ---- */

static pal_status check_arguments(pal_str arguments, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json value;
    pal_status status = PAL_NO_MEMORY;
    if (arena)
        status = pal_json_parse(arena, arguments, NULL, &value, NULL);
    if (status == PAL_OK && pal_json_type_of(value) != PAL_JSON_OBJECT)
        status = PAL_INVALID;
    pal_arena_free(arena);
    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "out of memory");
    return status ? pal_error_set(err, PAL_INVALID, "the arguments are not a JSON object") : PAL_OK;
}

static const pal_str *find_shown(const pal_tool_mcp *mcp, pal_str name)
{
    for (size_t i = 0; i < mcp->tools.len; i++) {
        if (pal_str_equal(mcp->tools.tools[i].name, name))
            return &mcp->tools.names[i];
    }
    return NULL;
}

static pal_status check_start(
        const pal_tool_mcp *mcp, pal_str name, pal_str arguments, pal_error *err)
{
    if (mcp->state == PAL_TOOL_MCP_FAILED)
        return pal_error_set(err, PAL_IO, "the MCP server failed: %s", mcp->failure);
    if (!find_shown(mcp, name))
        return pal_error_set(err, PAL_NOT_FOUND, "unknown tool '%.*s'", PAL_STR_ARG(name));
    if (mcp->waiting.len + mcp->sent.len >= PAL_TOOL_MCP_CALLS_MAX)
        return pal_error_set(err, PAL_LIMIT, "the limit of %d running calls on '%.*s' is reached",
                PAL_TOOL_MCP_CALLS_MAX, PAL_STR_ARG(mcp->config.name));
    return check_arguments(arguments, err);
}

static pal_tool_mcp_call *new_call(pal_tool_mcp *mcp, pal_str tool, pal_str arguments)
{
    pal_tool_mcp_call *call = pal_calloc(1, sizeof(*call));
    if (!call)
        return NULL;
    call->mcp = mcp;
    call->arena = pal_arena_new(0);
    call->round_arena = pal_arena_new(0);
    if (call->arena) {
        call->tool = pal_arena_copy(call->arena, tool);
        call->arguments = pal_arena_copy(call->arena, arguments);
    }
    call->until_ms = pal_loop_now_ms(mcp->loop) + PROGRESS_FACTOR * mcp->config.call_ms;
    if (!call->arena || !call->round_arena || pal_arena_failure(call->arena) ||
            !pal_timer_start(mcp->loop, &call->timer, mcp->config.call_ms, on_timeout)) {
        free_call(call);
        return NULL;
    }
    return call;
}

pal_status pal_tool_mcp_call_start(pal_tool_mcp *mcp, pal_str name, pal_str arguments,
        pal_tool_on_outcome on_outcome, void *user, pal_tool_mcp_call **out_call, pal_error *err)
{
    assert(pal_loop_is_on(mcp->loop) && !mcp->closed);
    pal_error why = {PAL_OK, ""};
    pal_str text = arguments.len ? arguments : pal_str_of("{}");
    pal_status status = check_start(mcp, name, text, err);
    if (status)
        return status;
    pal_tool_mcp_call *call = new_call(mcp, *find_shown(mcp, name), text);
    if (!call)
        return pal_no_memory(err);
    call->on_outcome = on_outcome;
    call->user = user;
    bool is_sent = mcp->state == PAL_TOOL_MCP_READY && send_call(call, (pal_str){0}, &why);
    /* A child that accepts no input is about to exit and to be restarted. */
    if (!is_sent &&
            (why.status == PAL_OK || (why.status == PAL_IO && mcp->transport->is_ordered))) {
        add_call(&mcp->waiting, call);
    } else if (!is_sent) {
        free_call(call);
        return pal_error_set(err, why.status, "%s", why.message);
    }
    *out_call = call;
    return PAL_OK;
}

void pal_tool_mcp_call_cancel(pal_tool_mcp_call *call)
{
    assert(pal_loop_is_on(call->mcp->loop));
    pal_tool_mcp_request_drop(&call->request, true);
    free_call(call);
}
