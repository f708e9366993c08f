/* tool_mcp_task.c - a tool that runs as a task of its server. The server returned a handle instead
 * of a result, and the call polls the task until it has ended.
 *
 * In the new era tasks are the extension io.modelcontextprotocol/tasks: tasks/get returns the
 * result and the questions, and tasks/update takes the replies. In revision 2025-11-25 tasks/result
 * returns the result, and questions arrive as requests while it waits.
 *
 * A poll that fails because the server cannot be reached is repeated: the task may still run. Only
 * an answer of the server ends the call, or its time limit. On the loop. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "tool/mcp/tool_mcp_internal.h"

#define POLL_MS 1000
#define POLL_MS_MIN 20
#define POLL_MS_MAX 60000

static void poll_later(pal_tool_mcp_call *call);

int64_t pal_tool_mcp_task_interval(pal_json task)
{
    int64_t ms = POLL_MS;
    if (!pal_json_i64(pal_json_find(task, "pollIntervalMs"), &ms))
        (void)pal_json_i64(pal_json_find(task, "pollInterval"), &ms);
    return ms < POLL_MS_MIN ? POLL_MS_MIN : ms > POLL_MS_MAX ? POLL_MS_MAX : ms;
}

bool pal_tool_mcp_task_read(const pal_tool_mcp *mcp, pal_json result, pal_json *out_task)
{
    bool is_new = mcp->era == PAL_TOOL_MCP_ERA_NEW;
    pal_json task = is_new ? result : pal_json_find(result, "task");
    if ((is_new && !pal_json_string_is(pal_json_find(result, "resultType"), "task")) ||
            pal_json_type_of(pal_json_find(task, "taskId")) != PAL_JSON_STRING)
        return false;
    *out_task = task;
    return true;
}

/* ---- Requests ---- */

static void send(pal_tool_mcp_call *call, const char *method, pal_str replies,
        void (*on_answer)(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer))
{
    pal_buf params;
    pal_error err;
    pal_buf_init(&params, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    pal_json_writer json = pal_json_writer_make(&params);
    pal_json_begin_object(&json);
    pal_put_str(&json, "taskId", call->handle.task);
    if (replies.len)
        pal_put_raw(&json, "inputResponses", replies);
    pal_json_end_object(&json);
    pal_status status = params.failure
            ? pal_no_memory(&err)
            : pal_tool_mcp_call_send(
                      call, method, call->handle.task, pal_buf_str(&params), on_answer, &err);
    pal_buf_done(&params);
    if (status == PAL_NO_MEMORY)
        pal_tool_mcp_call_fail(call, "%s", err.message);
    else if (status != PAL_OK)
        poll_later(call);
}

/* Handles an answer without a result. Returns false if there is a result. */
static bool has_failed(pal_tool_mcp_call *call, const pal_tool_mcp_answer *answer)
{
    if (answer->status == PAL_OK) {
        call->mcp->failures = 0;
        return false;
    }
    if (pal_tool_mcp_call_waits_again(call, answer))
        return true;
    if (answer->status == PAL_PROVIDER && (answer->code || answer->http_code < 500))
        pal_tool_mcp_call_fail_with(call, answer->error);
    else
        poll_later(call);
    return true;
}

static void on_result(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp_call *call = pal_tool_mcp_call_of(request);
    if (!has_failed(call, answer))
        pal_tool_mcp_call_end_with(call, answer->result);
}

/* ---- Questions ---- */

/* Returns true if all questions were answered before: the server has not seen the replies yet. */
static bool are_answered(const pal_tool_mcp_call *call, pal_json requests)
{
    pal_arena *scratch = call->mcp->scratch;
    pal_json_iter each = pal_json_each(requests);
    pal_json replies, key, request;
    if (!call->order.replies.len ||
            pal_json_parse(scratch, call->order.replies, NULL, &replies, NULL) != PAL_OK)
        return false;
    while (pal_json_next(&each, &key, &request)) {
        pal_str name = pal_arena_copy(scratch, pal_json_string(key, scratch));
        if (!name.data || pal_json_type_of(pal_json_find(replies, name.data)) == PAL_JSON_NONE)
            return false;
    }
    return true;
}

static void take_questions(pal_tool_mcp_call *call, pal_json task)
{
    pal_json requests = pal_json_find(task, "inputRequests");
    if (call->mcp->era == PAL_TOOL_MCP_ERA_OLD) {
        send(call, "tasks/result", (pal_str){0}, on_result);
    } else if (pal_json_count(requests) == 0 || are_answered(call, requests)) {
        poll_later(call);
    } else {
        call->handle.requests = requests;
        pal_tool_mcp_call_suspend(call);
    }
}

/* ---- Polling ---- */

static void end_task(pal_tool_mcp_call *call, pal_json task)
{
    pal_tool_mcp *mcp = call->mcp;
    pal_json status = pal_json_find(task, "status");
    pal_str why;
    if (pal_json_string_is(status, "cancelled")) {
        pal_tool_mcp_call_fail(call, "the server canceled the task");
    } else if (mcp->era == PAL_TOOL_MCP_ERA_OLD) {
        send(call, "tasks/result", (pal_str){0}, on_result);
    } else if (pal_json_string_is(status, "completed")) {
        pal_tool_mcp_call_end_with(call, pal_json_find(task, "result"));
    } else {
        why = pal_json_string(pal_json_find(pal_json_find(task, "error"), "message"), mcp->scratch);
        pal_tool_mcp_call_fail_with(call, why.len ? why : pal_str_of("the task failed"));
    }
}

static void on_task(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp_call *call = pal_tool_mcp_call_of(request);
    pal_json task = answer->result, status = pal_json_find(task, "status");
    if (has_failed(call, answer))
        return;
    call->handle.poll_ms = pal_tool_mcp_task_interval(task);
    if (pal_json_string_is(status, "working")) {
        pal_tool_mcp_call_extend(call);
        poll_later(call);
    } else if (pal_json_string_is(status, "input_required")) {
        take_questions(call, task);
    } else {
        end_task(call, task);
    }
}

static void on_updated(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp_call *call = pal_tool_mcp_call_of(request);
    if (has_failed(call, answer))
        return;
    call->has_replied = true;
    poll_later(call);
}

static void on_poll(pal_timer *timer)
{
    pal_tool_mcp_call *call =
            (pal_tool_mcp_call *)((char *)timer - offsetof(pal_tool_mcp_call, poll_timer));
    pal_tool_mcp *mcp = call->mcp;
    pal_tool_mcp_enter(mcp);
    if (mcp->state != PAL_TOOL_MCP_READY)
        poll_later(call);
    else if (call->order.replies.len && !call->has_replied)
        send(call, "tasks/update", call->order.replies, on_updated);
    else
        send(call, "tasks/get", (pal_str){0}, on_task);
    pal_tool_mcp_leave(mcp);
}

static void poll_later(pal_tool_mcp_call *call)
{
    if (!pal_loop_timer_start(call->mcp->loop, &call->poll_timer, call->handle.poll_ms, on_poll))
        pal_tool_mcp_call_fail(call, "out of memory");
}

pal_status pal_tool_mcp_task_start(pal_tool_mcp_call *call, pal_error *err)
{
    if (call->handle.poll_ms < POLL_MS_MIN)
        call->handle.poll_ms = POLL_MS;
    int64_t wait_ms = call->order.replies.len && !call->has_replied ? 0 : call->handle.poll_ms;
    return pal_loop_timer_start(call->mcp->loop, &call->poll_timer, wait_ms, on_poll)
            ? PAL_OK
            : pal_no_memory(err);
}

void pal_tool_mcp_handle_cancel(pal_tool_mcp *mcp, pal_str handle)
{
    pal_arena *arena = pal_arena_new(0);
    pal_tool_mcp_handle read;
    if (arena && pal_tool_mcp_handle_read(handle, arena, &read, NULL) == PAL_OK)
        pal_tool_mcp_task_cancel(mcp, read.task);
    pal_arena_free(arena);
}

void pal_tool_mcp_task_cancel(pal_tool_mcp *mcp, pal_str task)
{
    pal_buf params;
    if (task.len == 0 || mcp->state != PAL_TOOL_MCP_READY)
        return;
    pal_buf_init(&params, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    pal_buf_append_text(&params, "{\"taskId\":");
    pal_json_quote(&params, task);
    pal_buf_append_text(&params, "}");
    if (!params.failure)
        pal_tool_mcp_request_post(mcp, "tasks/cancel", task, pal_buf_str(&params));
    pal_buf_done(&params);
}
