/* tool_mcp_call.c - calls of a server's tools.
 *
 * A call is in one of two lists: `waiting` until its server is ready, then `sent` until its result.
 * After it was sent it is never sent again, unless the server said that it did not accept it: then
 * it returns to `waiting`. A call that was sent fails if its server dies, because the tool may have
 * run. A task is only polled, so its call waits for the server instead. Each call ends with exactly
 * one callback, unless it is canceled. The call is freed before the callback. On the loop. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tool/mcp/tool_mcp_internal.h"

#define PROGRESS_FACTOR 30 /* while a call reports progress, its time limit is at most this many
                              times as long */
#define ROUNDS_MAX 8       /* how often a server can request another round */
#define REFUSALS_MAX 2     /* lost sessions and changed lists that one call survives */

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
    pal_loop_timer_stop(call->mcp->loop, &call->timer);
    pal_loop_timer_stop(call->mcp->loop, &call->poll_timer);
    pal_tool_mcp_ask_done(call);
    remove_call(call);
    pal_arena_free(call->round_arena);
    pal_arena_free(call->arena);
    pal_free(call);
}

/* Frees the call before the callback. */
static void end_call(pal_tool_mcp_call *call, const pal_tool_outcome *outcome)
{
    pal_tool_on_outcome on_outcome = call->order.on_outcome;
    void *user = call->order.user;
    pal_tool_mcp_request_drop(&call->request, false);
    free_call(call);
    on_outcome(user, outcome);
}

void pal_tool_mcp_call_fail(pal_tool_mcp_call *call, const char *format, ...)
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
    pal_tool_mcp_call_fail_with(call, text);
}

void pal_tool_mcp_call_fail_with(pal_tool_mcp_call *call, pal_str text)
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
    pal_tool_mcp_request_drop(&call->request, call->handle.task.len == 0);
    pal_tool_mcp_task_cancel(mcp, call->handle.task);
    pal_tool_mcp_call_fail(call,
            "the tool did not return a result within %lld ms", (long long)mcp->config.call_ms);
    pal_tool_mcp_leave(mcp);
}

void pal_tool_mcp_call_extend(pal_tool_mcp_call *call)
{
    int64_t left = call->until_ms - pal_clock_monotonic_ms();
    int64_t wait = call->mcp->config.call_ms;
    if (call->pending)
        return;
    /* The timer ran before, so restarting it needs no memory. */
    (void)!pal_loop_timer_start(
            call->mcp->loop, &call->timer, left < wait ? (left > 0 ? left : 0) : wait, on_timeout);
}

static void on_progress(pal_tool_mcp_request *request)
{
    pal_tool_mcp_call_extend(pal_tool_mcp_call_of(request));
}

/* ---- Further rounds ---- */

static bool advance(pal_tool_mcp_call *call, pal_error *err);

static bool wait_again(pal_tool_mcp_call *call)
{
    if (call->refusals++ >= REFUSALS_MAX)
        return false;
    add_call(&call->mcp->waiting, call);
    return true;
}

bool pal_tool_mcp_call_waits_again(pal_tool_mcp_call *call, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp *mcp = call->mcp;
    if (!pal_tool_mcp_session_is_lost(mcp, answer) || !wait_again(call))
        return false;
    /* Another call may have noticed the lost session before. */
    if (call->sessions == mcp->sessions)
        pal_tool_mcp_session_renew(mcp);
    else
        pal_tool_mcp_calls_send(mcp);
    return true;
}

/* Continues the call here. `handle` and `replies` are copied. */
static void go_on(pal_tool_mcp_call *call, pal_str handle, pal_str replies)
{
    pal_error err = {PAL_OK, ""};
    call->order.handle = pal_arena_copy(call->arena, handle);
    call->order.replies = pal_arena_copy(call->arena, replies);
    call->has_replied = false;
    if (pal_tool_mcp_handle_read(call->order.handle, call->arena, &call->handle, &err) != PAL_OK ||
            !advance(call, &err))
        pal_tool_mcp_call_fail(call, "%s", err.message);
}

static void decline_all(pal_tool_mcp_call *call, pal_str handle, const pal_tool_question *questions,
        size_t len)
{
    pal_buf replies;
    pal_buf_init(&replies, PAL_CALL_HANDLE_BYTES_MAX);
    pal_json_writer json = pal_json_writer_make(&replies);
    pal_json_begin_object(&json);
    for (size_t i = 0; i < len; i++) {
        pal_json_name_str(&json, questions[i].id);
        pal_json_put_raw(&json, pal_str_of(PAL_TOOL_REPLY_DECLINE));
    }
    pal_json_end_object(&json);
    if (replies.failure)
        pal_tool_mcp_call_fail(call, "out of memory");
    else
        go_on(call, handle, pal_buf_str(&replies));
    pal_buf_done(&replies);
}

void pal_tool_mcp_call_suspend(pal_tool_mcp_call *call)
{
    pal_arena *scratch = call->mcp->scratch;
    pal_tool_question *questions;
    size_t len = 0;
    pal_error err;
    call->handle.tool = call->tool;
    call->handle.rounds++;
    pal_str handle = pal_tool_mcp_handle_write(&call->handle, scratch);
    if (call->handle.rounds > ROUNDS_MAX)
        pal_tool_mcp_call_fail(call, "the tool required more than %d rounds of input", ROUNDS_MAX);
    else if (handle.len == 0)
        pal_tool_mcp_call_fail(call,
                "the state of the tool exceeds %u bytes, or there is no memory",
                PAL_CALL_HANDLE_BYTES_MAX);
    else if (pal_tool_mcp_questions(handle, scratch, &questions, &len, &err) != PAL_OK)
        pal_tool_mcp_call_fail(call, "%s", err.message);
    else if (len > 0 && !call->order.can_ask)
        decline_all(call, handle, questions, len);
    else if (len == 0 && call->handle.task.len == 0)
        go_on(call, handle, (pal_str){0});
    else
        end_call(
                call, &(pal_tool_outcome){.handle = handle, .has_questions = len > 0});
}

/* The server requires input before it runs the tool, or only another round with its own state. */
static void take_input_required(pal_tool_mcp_call *call, pal_json result)
{
    pal_json state = pal_json_find(result, "requestState");
    bool has_state = pal_json_type_of(state) == PAL_JSON_STRING;
    call->handle.state = has_state ? pal_json_raw(state) : (pal_str){0};
    call->handle.requests = pal_json_find(result, "inputRequests");
    if (has_state || pal_json_count(call->handle.requests))
        pal_tool_mcp_call_suspend(call);
    else
        pal_tool_mcp_call_fail(call, "the tool requires input, but does not say which");
}

static void take_task(pal_tool_mcp_call *call, pal_json task)
{
    call->handle = (pal_tool_mcp_handle){
            .task = pal_json_string(pal_json_find(task, "taskId"), call->mcp->scratch),
            .poll_ms = pal_tool_mcp_task_interval(task),
            .rounds = call->handle.rounds,
    };
    pal_tool_mcp_call_suspend(call);
}

/* Revision 2025-11-25: the person must open pages before the call can succeed. The error lists
 * them as questions. Returns false if they cannot be asked. */
static bool takes_pages(pal_tool_mcp_call *call, const pal_tool_mcp_answer *answer)
{
    pal_json pages = pal_json_find(answer->data, "elicitations"), page;
    pal_json_iter each = pal_json_each(pages);
    pal_arena *scratch = call->mcp->scratch;
    char key[24];
    pal_buf text;
    if (answer->code != PAL_TOOL_MCP_URL_REQUIRED || !call->order.can_ask ||
            pal_json_type_of(pages) != PAL_JSON_ARRAY || pal_json_count(pages) == 0)
        return false;
    pal_buf_init(&text, PAL_CALL_HANDLE_BYTES_MAX);
    pal_json_writer json = pal_json_writer_make(&text);
    pal_json_begin_object(&json);
    for (unsigned number = 1; pal_json_next(&each, NULL, &page); number++) {
        snprintf(key, sizeof(key), "%u", number);
        pal_json_name(&json, key);
        pal_json_begin_object(&json);
        pal_put_text(&json, "method", "elicitation/create");
        pal_put_raw(&json, "params", pal_json_raw(page));
        pal_json_end_object(&json);
    }
    pal_json_end_object(&json);
    pal_str requests = text.failure ? (pal_str){0} : pal_arena_copy(scratch, pal_buf_str(&text));
    pal_buf_done(&text);
    if (requests.len == 0 ||
            pal_json_parse(scratch, requests, NULL, &call->handle.requests, NULL) != PAL_OK)
        return false;
    call->handle.is_repeat = true;
    pal_tool_mcp_call_suspend(call);
    return true;
}

/* ---- Results ---- */

void pal_tool_mcp_call_end_with(pal_tool_mcp_call *call, pal_json result)
{
    pal_tool_mcp *mcp = call->mcp;
    pal_tool_outcome outcome;
    pal_json type = pal_json_find(result, "resultType");
    if (pal_json_type_of(type) != PAL_JSON_NONE && !pal_json_string_is(type, "complete")) {
        pal_tool_mcp_call_fail(call, "the tool returned a result of an unknown type");
        return;
    }
    pal_tool_mcp_result_read(result, mcp->scratch, &outcome);
    if (pal_arena_failure(mcp->scratch))
        pal_tool_mcp_call_fail(call, "out of memory for the result of the tool");
    else
        end_call(call, &outcome);
}

static void on_answer(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp_call *call = pal_tool_mcp_call_of(request);
    pal_tool_mcp *mcp = call->mcp;
    pal_json task;
    if (answer->status == PAL_OK) {
        mcp->failures = 0;
        if (pal_tool_mcp_task_read(mcp, answer->result, &task))
            take_task(call, task);
        else if (pal_json_string_is(
                         pal_json_find(answer->result, "resultType"), "input_required"))
            take_input_required(call, answer->result);
        else
            pal_tool_mcp_call_end_with(call, answer->result);
    } else if (pal_tool_mcp_call_waits_again(call, answer)) {
        return;
    } else if (answer->code == PAL_TOOL_MCP_HEADER_MISMATCH && mcp->state == PAL_TOOL_MCP_READY &&
            wait_again(call)) {
        pal_tool_mcp_list_start(mcp);
    } else if (answer->status == PAL_PROVIDER) {
        if (!takes_pages(call, answer))
            pal_tool_mcp_call_fail_with(call, answer->error);
    } else {
        pal_tool_mcp_call_fail(
                call, "the MCP server failed: %.*s", PAL_STR_ARG(answer->error));
    }
}

/* ---- Sending ---- */

pal_status pal_tool_mcp_call_send(pal_tool_mcp_call *call, const char *method, pal_str name,
        pal_str params,
        void (*answered)(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer),
        pal_error *err)
{
    pal_tool_mcp *mcp = call->mcp;
    call->request = (pal_tool_mcp_request){.method = method,
            .on_answer = answered,
            .on_progress = on_progress,
            .can_ask = call->order.can_ask,
            .name = name,
            .headers = call->headers,
            .headers_len = call->headers_len};
    call->sessions = mcp->sessions;
    pal_status status = pal_tool_mcp_request_send(mcp, &call->request, params, 0, err);
    if (status == PAL_OK)
        add_call(&mcp->sent, call);
    return status;
}

static void write_params(pal_buf *out, const pal_tool_mcp_call *call, bool as_task)
{
    pal_json_writer json = pal_json_writer_make(out);
    pal_json_begin_object(&json);
    pal_put_str(&json, "name", call->tool);
    pal_put_raw(&json, "arguments", call->order.arguments);
    if (as_task) {
        pal_json_name(&json, "task");
        pal_json_begin_object(&json);
        pal_put_number(&json, "ttl", PROGRESS_FACTOR * call->mcp->config.call_ms);
        pal_json_end_object(&json);
    }
    if (call->order.replies.len && !call->handle.is_repeat)
        pal_put_raw(&json, "inputResponses", call->order.replies);
    if (call->handle.state.len)
        pal_put_raw(&json, "requestState", call->handle.state);
    pal_json_end_object(&json);
}

static bool send_call(pal_tool_mcp_call *call, pal_error *err)
{
    pal_tool_mcp *mcp = call->mcp;
    pal_buf params;
    size_t at = pal_tool_mcp_toolbox_find(&mcp->tools, call->tool);
    bool is_listed = at < mcp->tools.len;
    pal_arena_reset(call->round_arena);
    call->headers_len = 0;
    if (is_listed && mcp->era == PAL_TOOL_MCP_ERA_NEW && mcp->transport == &pal_tool_mcp_http)
        pal_tool_mcp_headers_make(mcp->tools.tools[at].schema, call->order.arguments,
                call->round_arena, &call->headers, &call->headers_len);
    pal_buf_init(&params, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    write_params(&params, call, is_listed && mcp->tools.as_task[at]);
    pal_status status = params.failure ? params.failure : pal_arena_failure(call->round_arena);
    if (status)
        (void)pal_error_set(err, status, "the arguments are too long, or there is no memory");
    else
        status = pal_tool_mcp_call_send(
                call, "tools/call", call->tool, pal_buf_str(&params), on_answer, err);
    pal_buf_done(&params);
    return status == PAL_OK;
}

/* Sends the next request of the call. Returns false if that is not possible. */
static bool advance(pal_tool_mcp_call *call, pal_error *err)
{
    if (call->handle.task.len == 0)
        return send_call(call, err);
    call->headers_len = 0;
    add_call(&call->mcp->sent, call);
    return pal_tool_mcp_task_start(call, err) == PAL_OK;
}

void pal_tool_mcp_calls_send(pal_tool_mcp *mcp)
{
    pal_error err;
    while (!mcp->closed && mcp->state == PAL_TOOL_MCP_READY && mcp->waiting.first) {
        pal_tool_mcp_call *call = mcp->waiting.first;
        if (!advance(call, &err))
            pal_tool_mcp_call_fail(call, "%s", err.message);
    }
}

static void fail_all(pal_tool_mcp *mcp, pal_tool_mcp_calls *list, const char *what, pal_str why)
{
    /* Calls that are added meanwhile are not run here. */
    for (size_t left = list->len; left && !mcp->closed && list->first; left--)
        pal_tool_mcp_call_fail(list->first, "%s: %.*s", what, PAL_STR_ARG(why));
}

/* Polling a task again does no harm, so these calls wait until the server has started again. */
static void keep_tasks(pal_tool_mcp *mcp)
{
    for (pal_tool_mcp_call *call = mcp->sent.first, *next; call; call = next) {
        next = call->next;
        if (call->handle.task.len == 0)
            continue;
        pal_tool_mcp_request_drop(&call->request, false);
        pal_loop_timer_stop(mcp->loop, &call->poll_timer);
        add_call(&mcp->waiting, call);
    }
}

void pal_tool_mcp_calls_fail_sent(pal_tool_mcp *mcp, pal_str why)
{
    keep_tasks(mcp);
    fail_all(mcp, &mcp->sent, "the MCP server failed while the tool was running", why);
}

void pal_tool_mcp_calls_fail_waiting(pal_tool_mcp *mcp, pal_str why)
{
    fail_all(mcp, &mcp->waiting, "the MCP server failed", why);
}

void pal_tool_mcp_calls_drop(pal_tool_mcp *mcp)
{
    while (mcp->waiting.first)
        pal_tool_mcp_call_leave(mcp->waiting.first);
    while (mcp->sent.first)
        pal_tool_mcp_call_leave(mcp->sent.first);
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
        const pal_tool_mcp *mcp, const pal_tool_mcp_order *order, pal_error *err)
{
    if (mcp->state == PAL_TOOL_MCP_FAILED)
        return pal_error_set(err, PAL_IO, "the MCP server failed: %s", mcp->failure);
    if (order->handle.len == 0 && !find_shown(mcp, order->name))
        return pal_error_set(err, PAL_NOT_FOUND, "unknown tool '%.*s'", PAL_STR_ARG(order->name));
    if (mcp->waiting.len + mcp->sent.len >= PAL_TOOL_MCP_CALLS_MAX)
        return pal_error_set(err, PAL_LIMIT, "the limit of %d running calls on '%.*s' is reached",
                PAL_TOOL_MCP_CALLS_MAX, PAL_STR_ARG(mcp->config.name));
    return check_arguments(order->arguments, err);
}

/* A page counts as opened only if the person says so. */
static bool all_accepted(const pal_tool_mcp_call *call)
{
    pal_json replies, reply;
    if (pal_json_parse(call->arena, call->order.replies, NULL, &replies, NULL) != PAL_OK)
        return false;
    pal_json_iter each = pal_json_each(replies);
    while (pal_json_next(&each, NULL, &reply)) {
        if (!pal_json_string_is(pal_json_find(reply, "action"), "accept"))
            return false;
    }
    return true;
}

static pal_status copy_order(
        pal_tool_mcp_call *call, const pal_tool_mcp_order *from, pal_error *err)
{
    pal_arena *arena = call->arena;
    pal_tool_mcp_order *to = &call->order;
    const pal_str *tool = find_shown(call->mcp, from->name);
    pal_status status = PAL_OK;
    *to = *from;
    to->name = pal_arena_copy(arena, from->name);
    to->arguments = pal_arena_copy(arena, from->arguments);
    to->handle = pal_arena_copy(arena, from->handle);
    to->replies = pal_arena_copy(arena, from->replies);
    if (pal_arena_failure(arena))
        return pal_no_memory(err);
    if (from->handle.len)
        status = pal_tool_mcp_handle_read(to->handle, arena, &call->handle, err);
    call->tool = pal_arena_copy(arena, from->handle.len ? call->handle.tool : *tool);
    if (status == PAL_OK && call->handle.is_repeat && !all_accepted(call))
        status = pal_error_set(
                err, PAL_INVALID, "the tool requires a page that the user did not open");
    return status == PAL_OK && pal_arena_failure(arena) ? pal_no_memory(err) : status;
}

static pal_status new_call(pal_tool_mcp *mcp, const pal_tool_mcp_order *order,
        pal_tool_mcp_call **out_call, pal_error *err)
{
    pal_tool_mcp_call *call = pal_calloc(1, sizeof(*call));
    if (!call)
        return pal_no_memory(err);
    call->mcp = mcp;
    call->arena = pal_arena_new(0);
    call->round_arena = pal_arena_new(0);
    call->until_ms = pal_clock_monotonic_ms() + PROGRESS_FACTOR * mcp->config.call_ms;
    pal_status status = call->arena && call->round_arena ? copy_order(call, order, err)
                                                         : pal_no_memory(err);
    if (status == PAL_OK &&
            !pal_loop_timer_start(mcp->loop, &call->timer, mcp->config.call_ms, on_timeout))
        status = pal_no_memory(err);
    if (status != PAL_OK)
        free_call(call);
    else
        *out_call = call;
    return status;
}

pal_status pal_tool_mcp_call_start(pal_tool_mcp *mcp, const pal_tool_mcp_order *order,
        pal_tool_mcp_call **out_call, pal_error *err)
{
    assert(pal_loop_is_on(mcp->loop) && !mcp->closed);
    pal_error why = {PAL_OK, ""};
    pal_tool_mcp_order whole = *order;
    pal_tool_mcp_call *call = NULL;
    if (whole.arguments.len == 0)
        whole.arguments = pal_str_of("{}");
    pal_status status = check_start(mcp, &whole, err);
    if (status == PAL_OK)
        status = new_call(mcp, &whole, &call, err);
    if (status != PAL_OK)
        return status;
    bool is_sent = mcp->state == PAL_TOOL_MCP_READY && advance(call, &why);
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
    pal_tool_mcp_task_cancel(call->mcp, call->handle.task);
    pal_tool_mcp_call_leave(call);
}

void pal_tool_mcp_call_leave(pal_tool_mcp_call *call)
{
    assert(pal_loop_is_on(call->mcp->loop));
    pal_tool_mcp_request_drop(&call->request, call->handle.task.len == 0);
    free_call(call);
}
