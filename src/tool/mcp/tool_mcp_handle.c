/* tool_mcp_handle.c - the text that a call needs to be continued, in this process or another one:
 *
 *   {"tool":"deploy","task":"7865","poll_ms":1000,"rounds":1,"state":"...","requests":{"name":{}}}
 *
 * `state` and `requests` are the server's own bytes. The text is stored with the turn, so a member
 * must never get another meaning. Pure. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "tool/mcp/tool_mcp_internal.h"

pal_status pal_tool_mcp_handle_read(
        pal_str text, pal_arena *arena, pal_tool_mcp_handle *out_handle, pal_error *err)
{
    pal_json root;
    uint64_t rounds = 0;
    pal_status status = pal_json_parse(arena, text, NULL, &root, err);
    if (status != PAL_OK)
        return status;
    pal_tool_mcp_handle handle = {
            .tool = pal_json_string(pal_json_find(root, "tool"), arena),
            .task = pal_json_string(pal_json_find(root, "task"), arena),
            .state = pal_json_raw(pal_json_find(root, "state")),
            .requests = pal_json_find(root, "requests"),
    };
    (void)pal_json_bool(pal_json_find(root, "repeat"), &handle.is_repeat);
    (void)pal_json_i64(pal_json_find(root, "poll_ms"), &handle.poll_ms);
    (void)pal_json_u64(pal_json_find(root, "rounds"), &rounds);
    handle.rounds = (uint32_t)rounds;
    *out_handle = handle;
    return pal_arena_failure(arena) ? pal_no_memory(err) : PAL_OK;
}

pal_str pal_tool_mcp_handle_write(const pal_tool_mcp_handle *handle, pal_arena *arena)
{
    pal_buf text;
    pal_buf_init(&text, PAL_CALL_HANDLE_BYTES_MAX);
    pal_json_writer json = pal_json_writer_make(&text);
    pal_json_begin_object(&json);
    pal_put_str(&json, "tool", handle->tool);
    if (handle->task.len) {
        pal_put_str(&json, "task", handle->task);
        pal_put_number(&json, "poll_ms", handle->poll_ms);
    }
    if (handle->rounds)
        pal_put_count(&json, "rounds", handle->rounds);
    if (handle->state.len)
        pal_put_raw(&json, "state", handle->state);
    if (pal_json_count(handle->requests))
        pal_put_raw(&json, "requests", pal_json_raw(handle->requests));
    if (handle->is_repeat)
        pal_put_flag(&json, "repeat", true);
    pal_json_end_object(&json);
    pal_str copy = text.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&text));
    pal_buf_done(&text);
    return copy;
}

pal_str pal_tool_mcp_handle_answered(pal_str handle, pal_arena *arena)
{
    pal_tool_mcp_handle read;
    if (pal_tool_mcp_handle_read(handle, arena, &read, NULL) != PAL_OK || read.task.len == 0)
        return (pal_str){0};
    read.requests = (pal_json){0};
    return pal_tool_mcp_handle_write(&read, arena);
}

pal_status pal_tool_mcp_questions(pal_str handle, pal_arena *arena,
        pal_tool_question **out_questions, size_t *out_len, pal_error *err)
{
    pal_tool_mcp_handle read;
    pal_json key, request;
    size_t len = 0;
    pal_status status = pal_tool_mcp_handle_read(handle, arena, &read, err);
    if (status != PAL_OK)
        return status;
    size_t count = pal_json_count(read.requests);
    if (count > PAL_QUESTIONS_MAX)
        return pal_error_set(err, PAL_LIMIT, "the tool asks %zu questions at once; the limit is %d",
                count, PAL_QUESTIONS_MAX);
    pal_tool_question *questions = pal_arena_array(arena, count + 1, sizeof(*questions));
    if (!questions)
        return pal_no_memory(err);
    pal_json_iter each = pal_json_each(read.requests);
    while (pal_json_next(&each, &key, &request)) {
        pal_json method = pal_json_find(request, "method");
        if (!pal_json_string_is(method, "elicitation/create"))
            return pal_error_set(err, PAL_INVALID,
                    "the tool requests '%.*s', which is not supported",
                    PAL_EXCERPT(pal_json_string(method, arena), 80));
        status = pal_tool_question_read(
                pal_json_find(request, "params"), arena, &questions[len], err);
        if (status != PAL_OK)
            return status;
        questions[len++].id = pal_arena_copy(arena, pal_json_string(key, arena));
    }
    if (pal_arena_failure(arena))
        return pal_no_memory(err);
    *out_questions = questions;
    *out_len = len;
    return PAL_OK;
}
