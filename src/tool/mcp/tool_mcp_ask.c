/* tool_mcp_ask.c - questions of a server of the old era, which arrive as requests while a call runs
 * (elicitation/create). The time limit of the call is suspended until the reply. A question without
 * a reply is canceled after PAL_QUESTION_MS_MAX.
 *
 * A question must not reach a stranger. It belongs to the call on whose stream it came, or to the
 * call whose task it names. Otherwise it is asked only if all running calls of the server have the
 * same person. Questions that cannot be asked are declined at once. On the loop. */
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "tool/mcp/tool_mcp_internal.h"

#define ID_SIZE 24

struct pal_tool_mcp_pending {
    pal_tool_mcp_call *call;
    pal_tool_mcp_pending *next;
    pal_timer timer;
    char id[ID_SIZE]; /* our id of the question */
    size_t server_id_len;
    char server_id[]; /* the id of the server's request, as JSON */
};

/* ---- The end of a question ---- */

/* The time that a person needs does not count. */
static void resume_clock(pal_tool_mcp_call *call)
{
    if (call->pending)
        return;
    call->until_ms += pal_clock_monotonic_ms() - call->asked_ms;
    pal_tool_mcp_call_extend(call);
}

static void free_pending(pal_tool_mcp_pending *pending)
{
    pal_tool_mcp_pending **at = &pending->call->pending;
    while (*at != pending)
        at = &(*at)->next;
    *at = pending->next;
    pal_loop_timer_stop(pending->call->mcp->loop, &pending->timer);
    pal_free(pending);
}

static void respond(const pal_tool_mcp_pending *pending, pal_str reply)
{
    pal_tool_mcp_respond(pending->call->mcp,
            pal_str_make(pending->server_id, pending->server_id_len), reply);
}

static void withdraw(pal_tool_mcp_pending *pending)
{
    pal_tool_mcp_call *call = pending->call;
    char id[ID_SIZE];
    memcpy(id, pending->id, sizeof(id));
    free_pending(pending);
    resume_clock(call);
    call->order.on_withdrawn(call->order.user, pal_str_of(id));
}

static void on_unanswered(pal_timer *timer)
{
    pal_tool_mcp_pending *pending =
            (pal_tool_mcp_pending *)((char *)timer - offsetof(pal_tool_mcp_pending, timer));
    pal_tool_mcp *mcp = pending->call->mcp;
    pal_tool_mcp_enter(mcp);
    respond(pending, pal_str_of(PAL_TOOL_REPLY_CANCEL));
    withdraw(pending);
    pal_tool_mcp_leave(mcp);
}

void pal_tool_mcp_call_reply(pal_tool_mcp_call *call, pal_str id, pal_str reply)
{
    for (pal_tool_mcp_pending *each = call->pending; each; each = each->next) {
        if (!pal_str_is(id, each->id))
            continue;
        respond(each, reply);
        free_pending(each);
        resume_clock(call);
        return;
    }
}

void pal_tool_mcp_ask_withdraw(pal_tool_mcp *mcp, pal_json id)
{
    pal_str raw = pal_json_raw(id);
    for (pal_tool_mcp_call *call = mcp->sent.first; call; call = call->next) {
        for (pal_tool_mcp_pending *each = call->pending; each; each = each->next) {
            if (!pal_str_equal(raw, pal_str_make(each->server_id, each->server_id_len)))
                continue;
            withdraw(each);
            return;
        }
    }
}

void pal_tool_mcp_ask_done(pal_tool_mcp_call *call)
{
    while (call->pending)
        free_pending(call->pending);
}

/* ---- The beginning of a question ---- */

static bool has_task(const pal_tool_mcp_call *call, pal_json params)
{
    pal_json related = pal_json_find(
            pal_json_find(params, "_meta"), "io.modelcontextprotocol/related-task");
    pal_str task = pal_json_string(pal_json_find(related, "taskId"), call->mcp->scratch);
    return task.len && pal_str_equal(task, call->handle.task);
}

/* Returns NULL if the person for the question is not known. */
static pal_tool_mcp_call *find_call(
        const pal_tool_mcp *mcp, const pal_tool_mcp_request *during, pal_json params)
{
    pal_tool_mcp_call *first = mcp->sent.first;
    for (pal_tool_mcp_call *call = first; call; call = call->next) {
        if (during == &call->request || has_task(call, params))
            return call;
    }
    for (pal_tool_mcp_call *call = first; call; call = call->next) {
        if (call->order.person != first->order.person)
            return NULL;
    }
    return first;
}

static bool keep_question(
        pal_tool_mcp_call *call, pal_json server_id, const pal_tool_question *question)
{
    pal_tool_mcp *mcp = call->mcp;
    pal_str raw = pal_json_raw(server_id);
    pal_tool_mcp_pending *pending = pal_calloc(1, sizeof(*pending) + raw.len);
    pal_tool_question asked = *question;
    if (!pending)
        return false;
    pending->call = call;
    pending->server_id_len = raw.len;
    memcpy(pending->server_id, raw.data, raw.len);
    snprintf(pending->id, sizeof(pending->id), "%u", ++call->questions);
    if (!pal_loop_timer_start(mcp->loop, &pending->timer, PAL_QUESTION_MS_MAX, on_unanswered)) {
        pal_free(pending);
        return false;
    }
    if (!call->pending) {
        call->asked_ms = pal_clock_monotonic_ms();
        pal_loop_timer_stop(mcp->loop, &call->timer);
    }
    pending->next = call->pending;
    call->pending = pending;
    asked.id = pal_str_of(pending->id);
    call->order.on_question(call->order.user, &asked);
    return true;
}

void pal_tool_mcp_ask(
        pal_tool_mcp *mcp, pal_tool_mcp_request *during, pal_json id, pal_json params)
{
    pal_tool_mcp_call *call = find_call(mcp, during, params);
    pal_tool_question question;
    pal_error err;
    if (!call || !call->order.can_ask || call->questions >= PAL_QUESTIONS_MAX ||
            pal_tool_question_read(params, mcp->scratch, &question, &err) != PAL_OK ||
            !keep_question(call, id, &question))
        pal_tool_mcp_respond(mcp, pal_json_raw(id), pal_str_of(PAL_TOOL_REPLY_DECLINE));
}
