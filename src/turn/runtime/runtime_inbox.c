/* runtime_inbox.c - shows the requests that wait in a session, and takes them back. On the caller's
 * thread. */
#include "base/memory.h"
#include "store/store_tenant.h"
#include "turn/lane/lane_inbox.h"
#include "turn/turn.h"

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
