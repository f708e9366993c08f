/* tool_mcp_list.c - lists a server's tools, page by page, and again when the server reports a
 * change.
 *
 * The pages are collected in `draft`, which replaces `tools` when the list is complete; until then
 * the previous tools are shown. A change that is reported while a list is being made causes one
 * more list afterwards (`list_again`), however many changes there were. On the loop. */
#include "base/clock.h"
#include "base/memory.h"
#include "tool/mcp/tool_mcp_internal.h"

#define GAP_MS 250 /* delay between two lists, for servers that report a change with every list */
#define LISTEN_PAUSE_MS 1000
#define LISTEN_PAUSE_MS_MAX 60000

static void request_page(pal_tool_mcp *mcp);

/* ---- Lists ---- */

/* At the start, a server without a list is useless. Later the last list stays in use. */
static void fail_list(pal_tool_mcp *mcp, pal_str why)
{
    bool is_start = mcp->state != PAL_TOOL_MCP_READY;
    pal_tool_mcp_toolbox_done(&mcp->draft);
    mcp->listed_ms = pal_clock_monotonic_ms();
    if (is_start)
        pal_tool_mcp_on_disconnect(mcp, false, "'%.*s' did not list its tools: %.*s",
                PAL_STR_ARG(mcp->config.name), PAL_STR_ARG(why));
    else
        pal_tool_mcp_set_failure(mcp,
                "'%.*s' did not list its tools again, the old list stays in use: %.*s",
                PAL_STR_ARG(mcp->config.name), PAL_STR_ARG(why));
    if (!is_start)
        pal_tool_mcp_calls_send(mcp);
}

static void end_list(pal_tool_mcp *mcp)
{
    bool has_changed = false;
    if (!pal_tool_mcp_toolbox_name(&mcp->draft, mcp->config.name)) {
        fail_list(mcp, pal_str_of("out of memory"));
        return;
    }
    mcp->listed_ms = pal_clock_monotonic_ms();
    if (pal_tool_mcp_toolbox_equal(&mcp->tools, &mcp->draft)) {
        pal_tool_mcp_toolbox_done(&mcp->draft);
    } else {
        pal_tool_mcp_toolbox_done(&mcp->tools);
        mcp->tools = mcp->draft;
        mcp->draft = (pal_tool_mcp_toolbox){0};
        has_changed = true;
    }
    pal_tool_mcp_on_list_done(mcp, has_changed);
    if (!mcp->closed && mcp->list_again && mcp->state == PAL_TOOL_MCP_READY)
        pal_tool_mcp_list_soon(mcp);
}

/* Returns false after the last page, and if a page repeats. */
static bool next_page(pal_tool_mcp *mcp, pal_json result)
{
    pal_str next = pal_json_string(pal_json_find(result, "nextCursor"), mcp->scratch);
    if (pal_json_type_of(pal_json_find(result, "nextCursor")) != PAL_JSON_STRING ||
            mcp->pages >= PAL_TOOL_MCP_PAGES_MAX ||
            (mcp->cursor && pal_str_equal(pal_str_of(mcp->cursor), next)) ||
            memchr(next.data ? next.data : "", 0, next.len))
        return false;
    char *copy = pal_malloc(next.len + 1);
    if (!copy)
        return false;
    memcpy(copy, next.data ? next.data : "", next.len);
    copy[next.len] = '\0';
    pal_free(mcp->cursor);
    mcp->cursor = copy;
    return true;
}

static void on_page(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp *mcp = request->mcp;
    pal_json tools = pal_json_find(answer->result, "tools"), tool;
    pal_json_iter each = pal_json_each(tools);
    bool has_room = true;
    if (mcp->state == PAL_TOOL_MCP_READY && pal_tool_mcp_session_is_lost(mcp, answer)) {
        pal_tool_mcp_session_renew(mcp);
        return;
    }
    if (answer->status || pal_json_type_of(tools) != PAL_JSON_ARRAY) {
        fail_list(
                mcp, answer->status ? answer->error : pal_str_of("the response contains no list"));
        return;
    }
    while (has_room && pal_json_next(&each, NULL, &tool))
        has_room = pal_tool_mcp_toolbox_add(mcp, &mcp->draft, tool);
    if (pal_arena_failure(mcp->draft.arena))
        fail_list(mcp, pal_str_of("out of memory"));
    else if (has_room && next_page(mcp, answer->result))
        request_page(mcp);
    else
        end_list(mcp);
}

static void request_page(pal_tool_mcp *mcp)
{
    pal_error err;
    pal_buf params;
    mcp->pages++;
    pal_buf_init(&params, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    if (mcp->cursor) {
        pal_buf_append_text(&params, "{\"cursor\":");
        pal_json_quote(&params, pal_str_of(mcp->cursor));
        pal_buf_append_text(&params, "}");
    }
    mcp->list = (pal_tool_mcp_request){
            .method = "tools/list", .on_answer = on_page, .can_ask = mcp->config.can_ask};
    pal_status status = params.failure ? pal_error_set(&err, params.failure, "out of memory")
                                       : pal_tool_mcp_request_send(mcp, &mcp->list,
                                                 pal_buf_str(&params), mcp->config.start_ms, &err);
    pal_buf_done(&params);
    if (status)
        fail_list(mcp, pal_str_of(err.message));
}

void pal_tool_mcp_list_stop(pal_tool_mcp *mcp)
{
    pal_loop_timer_stop(mcp->loop, &mcp->list_timer);
    pal_tool_mcp_request_drop(&mcp->list, false);
    pal_tool_mcp_toolbox_done(&mcp->draft);
    pal_free(mcp->cursor);
    mcp->cursor = NULL;
    mcp->pages = 0;
    mcp->list_again = false;
}

void pal_tool_mcp_list_start(pal_tool_mcp *mcp)
{
    pal_tool_mcp_list_stop(mcp);
    mcp->draft.arena = pal_arena_new(0);
    if (mcp->draft.arena)
        request_page(mcp);
    else
        fail_list(mcp, pal_str_of("out of memory"));
}

static void on_list_timer(pal_timer *timer)
{
    pal_tool_mcp *mcp = (pal_tool_mcp *)((char *)timer - offsetof(pal_tool_mcp, list_timer));
    pal_tool_mcp_enter(mcp);
    pal_tool_mcp_list_start(mcp);
    pal_tool_mcp_leave(mcp);
}

void pal_tool_mcp_list_soon(pal_tool_mcp *mcp)
{
    int64_t left = mcp->listed_ms + GAP_MS - pal_clock_monotonic_ms();
    if (mcp->list.id) {
        mcp->list_again = true;
        return;
    }
    if (mcp->state != PAL_TOOL_MCP_READY || mcp->list_timer.position)
        return;
    mcp->list_again = false;
    if (!pal_loop_timer_start(mcp->loop, &mcp->list_timer, left > 0 ? left : 0, on_list_timer))
        pal_tool_mcp_set_failure(mcp, "out of memory");
}

/* ---- Changes in the new era: a request that stays open ---- */

static void subscribe(pal_tool_mcp *mcp);

static void on_listen_timer(pal_timer *timer)
{
    pal_tool_mcp *mcp = (pal_tool_mcp *)((char *)timer - offsetof(pal_tool_mcp, listen_timer));
    pal_tool_mcp_enter(mcp);
    subscribe(mcp);
    /* Changes that happened meanwhile were not reported. */
    pal_tool_mcp_list_soon(mcp);
    pal_tool_mcp_leave(mcp);
}

static void on_listen_end(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp *mcp = request->mcp;
    /* The server refuses the request, so it is not sent again. */
    if (answer->status == PAL_PROVIDER)
        return;
    int64_t pause = mcp->listen_pause_ms ? mcp->listen_pause_ms : LISTEN_PAUSE_MS;
    if (pal_clock_monotonic_ms() - mcp->listen_ms > LISTEN_PAUSE_MS_MAX)
        pause = LISTEN_PAUSE_MS;
    mcp->listen_pause_ms = pause * 2 < LISTEN_PAUSE_MS_MAX ? pause * 2 : LISTEN_PAUSE_MS_MAX;
    if (!pal_loop_timer_start(mcp->loop, &mcp->listen_timer, pause, on_listen_timer))
        pal_tool_mcp_set_failure(mcp, "out of memory");
}

static void subscribe(pal_tool_mcp *mcp)
{
    pal_error err;
    mcp->listen_ms = pal_clock_monotonic_ms();
    mcp->listening = (pal_tool_mcp_request){
            .method = "subscriptions/listen", .on_answer = on_listen_end, .is_endless = true};
    if (pal_tool_mcp_request_send(mcp, &mcp->listening,
                pal_str_of("{\"notifications\":{\"toolsListChanged\":true}}"), 0, &err))
        pal_tool_mcp_set_failure(mcp, "%s", err.message);
}

void pal_tool_mcp_listen_start(pal_tool_mcp *mcp)
{
    mcp->listen_pause_ms = 0;
    /* In the old era questions can arrive on the same stream as changes. */
    if (mcp->era == PAL_TOOL_MCP_ERA_OLD && (mcp->reports_changes || mcp->config.can_ask))
        mcp->transport->listen(mcp);
    else if (mcp->era == PAL_TOOL_MCP_ERA_NEW && mcp->reports_changes)
        subscribe(mcp);
}

void pal_tool_mcp_listen_stop(pal_tool_mcp *mcp)
{
    pal_loop_timer_stop(mcp->loop, &mcp->listen_timer);
    pal_tool_mcp_request_drop(&mcp->listening, false);
}
