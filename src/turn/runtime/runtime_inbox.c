/* runtime_inbox.c - shows the requests that wait in a session, adds some, and takes them back. On
 * the caller's thread. */
#include "base/memory.h"
#include "store/store_tenant.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_backlog.h"
#include "turn/lane/lane_inbox.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/runtime/runtime_copy.h"
#include "turn/turn.h"
#include "turn/turn_outbox.h"
#include "turn/turn_toolset.h"

/* An item of an admitted turn is no waiting request. Neither is an unreadable one. */
static bool read_waiting(
        const pal_inbox_item *item, pal_arena *arena, pal_waiting_request *out_waiting)
{
    pal_turn_request request = {0};
    pal_inbox_head head;

    if (pal_str_is(item->delivery, PAL_DELIVERY_OWED) ||
            pal_inbox_read(item, arena, &request, &head, NULL) != PAL_OK)
        return false;
    *out_waiting = (pal_waiting_request){.item = item->id,
            .turn = head.turn,
            .delivery = item->delivery,
            .messages = request.messages,
            .messages_len = request.messages_len,
            .created_at = item->created_at};
    return true;
}

pal_status pal_turn_inbox(pal_runtime *runtime, pal_str tenant, pal_id session, pal_arena *arena,
        pal_waiting_request **out_requests, size_t *out_len, pal_error *err)
{
    pal_inbox_item *items;
    pal_waiting_request *requests;
    size_t items_len, len = 0;
    pal_status status = pal_store_inbox_list(
            runtime->store, tenant, session, arena, &items, &items_len, err);

    if (status != PAL_OK)
        return status;
    requests = pal_arena_array(arena, items_len + 1, sizeof(*requests));
    if (!requests)
        return pal_no_memory(err);
    for (size_t i = 0; i < items_len; i++)
        len += read_waiting(&items[i], arena, &requests[len]);
    *out_requests = requests;
    *out_len = len;
    return pal_arena_checked(arena, err);
}

/* A queued turn of this process is canceled, which also removes its item. Without such a turn, the
 * item is removed, and whichever process has read it finds that it is gone. */
static pal_status drop(pal_runtime *runtime, pal_str tenant, pal_id session,
        const pal_waiting_request *waiting, pal_error *err)
{
    pal_turn_info info;
    pal_status status = PAL_NOT_FOUND;

    if (pal_str_is(waiting->delivery, "steer"))
        return pal_error_set(err, PAL_CONFLICT,
                "the message was sent with lane=steer, and the running turn already has it");
    if (!pal_id_is_none(waiting->turn))
        status = pal_turn_find(
                runtime, pal_tenant_or_default(tenant), waiting->turn, &info, NULL);
    if (status == PAL_OK && !info.is_elsewhere && info.state != PAL_TURN_QUEUED)
        return pal_error_set(err, PAL_CONFLICT, "the turn of the message has begun; cancel it");
    if (status == PAL_OK && !info.is_elsewhere)
        return pal_turn_cancel(runtime, pal_tenant_or_default(tenant), waiting->turn, err);
    return pal_store_inbox_drop(runtime->store, tenant, session, waiting->item, err);
}

pal_status pal_turn_inbox_drop(
        pal_runtime *runtime, pal_str tenant, pal_id session, pal_id item, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_waiting_request *requests;
    size_t len = 0;
    pal_status status;
    char text[PAL_ID_TEXT_SIZE];

    if (!arena)
        return pal_no_memory(err);
    status = pal_turn_inbox(runtime, tenant, session, arena, &requests, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (pal_id_equal(requests[i].item, item)) {
            status = drop(runtime, tenant, session, &requests[i], err);
            goto out;
        }
    }
    pal_id_to_text(item, text);
    if (status == PAL_OK)
        status = pal_error_set(err, PAL_NOT_FOUND, "item '%s' is no longer waiting", text);
out:
    pal_arena_free(arena);
    return status;
}

/* ---- Requests that the caller stores ---- */

static pal_status check_waitable(
        const pal_turn_request *request, pal_arena *arena, pal_error *err)
{
    pal_turn_request queued = *request;
    pal_status status;

    queued.lane = PAL_TURN_LANE_QUEUE;
    if (request->messages_len == 0 || request->on_done || request->create_ops_len > 0 ||
            request->answers_len > 0 || request->items_request.len > 0)
        return pal_error_set(err, PAL_INVALID,
                "a request in an inbox must have messages, and none of on_done, create_ops, answers"
                " and items_request");
    status = pal_outbox_check(&queued, arena, err);
    return status == PAL_OK ? pal_toolset_check(request, arena, err) : status;
}

pal_status pal_turn_to_item(const pal_turn_request *request, pal_arena *arena,
        pal_inbox_item *out_item, pal_id *out_turn, pal_error *err)
{
    pal_turn_request named = *request;
    pal_inbox_head head = {.turn = pal_runtime_turn_id(0)};
    pal_status status = check_waitable(request, arena, err);

    if (status != PAL_OK)
        return status;
    named.messages = pal_copy_messages(arena, request->messages, request->messages_len);
    if (!named.messages)
        return pal_no_memory(err);
    if (pal_id_is_none(named.messages[0].id))
        named.messages[0].id = pal_owed_first(head.turn);
    status = pal_inbox_write(&named, &head,
            request->channel && request->channel->is_note ? "note" : "queue", arena, out_item,
            err);
    if (status == PAL_OK && out_turn)
        *out_turn = head.turn;
    return status;
}

typedef struct wake_job {
    pal_task task;
    pal_runtime *runtime;
    pal_id session;
    char tenant[PAL_TENANT_LEN_MAX];
    size_t tenant_len;
} wake_job;

static void wake(pal_task *task)
{
    wake_job *job = (wake_job *)task;

    if (!job->runtime->is_closing &&
            !pal_lane_backlog(
                    job->runtime, pal_str_make(job->tenant, job->tenant_len), job->session))
        pal_backlog_again(job->runtime);
    pal_free(job);
}

pal_status pal_runtime_wake(
        pal_runtime *runtime, pal_str tenant, pal_id session, pal_error *err)
{
    pal_str name = pal_tenant_or_default(tenant);
    wake_job *job = name.len <= PAL_TENANT_LEN_MAX ? pal_malloc(sizeof(*job)) : NULL;

    if (name.len > PAL_TENANT_LEN_MAX)
        return pal_error_set(err, PAL_INVALID, "the name of the tenant is too long");
    if (!job)
        return pal_no_memory(err);
    *job = (wake_job){.task.run = wake, .runtime = runtime, .session = session};
    memcpy(job->tenant, name.data, name.len);
    job->tenant_len = name.len;
    pal_loop_post(runtime->loop, &job->task);
    return PAL_OK;
}
