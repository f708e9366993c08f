/* turn_backlog.c - takes up what waits in inboxes and is no turn of this runtime's: whoever sent it
 * was told that it is durable, and the process that had it is gone.
 *
 * When a runtime opens, all owners of inboxes are listed in the background, page by page; each gets
 * a turn in its lane that takes its messages from the inbox, one request at a time, the oldest
 * first. A turn that finds something older in its own session gives way to it likewise. What waits
 * in the lane as a turn is never taken. Where another process holds a session's
 * lease, it may be running that request, or be dead: the lane waits for the lease. On the loop, but
 * for what says otherwise. */
#include "turn/turn_backlog.h"

#include "base/memory.h"
#include "palaver/limits.h"
#include "turn/turn_inbox.h"
#include "turn/turn_machine.h"
#include "turn/turn_sender.h"

struct pal_backlog {
    pal_runtime *runtime;
    pal_work_item item;
    pal_arena *arena;
    pal_inbox_owner *owners;
    size_t len;
    pal_inbox_owner after; /* of the page before; its tenant is in `name` */
    char name[PAL_TENANT_LEN_MAX];
    pal_status status;
};

static void look(pal_backlog *backlog);

static void free_backlog(pal_backlog *backlog)
{
    backlog->runtime->backlog = NULL;
    pal_arena_free(backlog->arena);
    pal_free(backlog);
}

/* On a worker. */
static void list_owners(pal_work_item *item)
{
    pal_backlog *backlog = (pal_backlog *)((char *)item - offsetof(pal_backlog, item));

    backlog->status = pal_store_inbox_owners(backlog->runtime->store, &backlog->after,
            PAL_INBOX_OWNERS_MAX, backlog->arena, &backlog->owners, &backlog->len, NULL);
}

static void owners_listed(pal_work_item *item)
{
    pal_backlog *backlog = (pal_backlog *)((char *)item - offsetof(pal_backlog, item));
    pal_runtime *runtime = backlog->runtime;

    if (backlog->status != PAL_OK && !runtime->is_closing)
        pal_backlog_again(runtime);
    if (backlog->status != PAL_OK || runtime->is_closing) {
        free_backlog(backlog);
        return;
    }
    for (size_t i = 0; i < backlog->len; i++)
        if (!pal_lane_backlog(runtime, backlog->owners[i].tenant, backlog->owners[i].session))
            pal_backlog_again(runtime);
    if (backlog->len < PAL_INBOX_OWNERS_MAX) {
        free_backlog(backlog);
        return;
    }
    backlog->after = backlog->owners[backlog->len - 1];
    memcpy(backlog->name, backlog->after.tenant.data, backlog->after.tenant.len);
    backlog->after.tenant.data = backlog->name;
    pal_arena_reset(backlog->arena);
    look(backlog);
}

static void look(pal_backlog *backlog)
{
    backlog->item.work = list_owners;
    backlog->item.done = owners_listed;
    pal_loop_work(backlog->runtime->loop, &backlog->item);
}

void pal_backlog_start(pal_runtime *runtime)
{
    pal_backlog *backlog;

    if (runtime->backlog || runtime->is_closing)
        return;
    backlog = pal_calloc(1, sizeof(*backlog));
    if (!backlog)
        return; /* what waits is durable, and waits for the next start */
    backlog->runtime = runtime;
    backlog->arena = pal_arena_new(0);
    if (!backlog->arena) {
        pal_free(backlog);
        return;
    }
    runtime->backlog = backlog;
    look(backlog);
}

static void start_again(pal_timer *timer)
{
    pal_backlog_start((pal_runtime *)((char *)timer - offsetof(pal_runtime, backlog_timer)));
}

void pal_backlog_again(pal_runtime *runtime)
{
    int64_t delay = runtime->options.lease_ms / 4 + 1;

    if (runtime->is_closing || runtime->backlog_timer.position > 0)
        return;
    if (!pal_timer_start(runtime->loop, &runtime->backlog_timer, delay, start_again))
        return; /* as without memory above */
}

void pal_backlog_stop(pal_runtime *runtime)
{
    pal_timer_stop(runtime->loop, &runtime->backlog_timer);
}

/* ---- One session's ---- */

/* Older than the turn, and no turn here: newer ones may be about to be run by those who sent them.
 */
static bool is_left(const pal_turn *turn, const pal_inbox_item *item)
{
    for (size_t i = 0; i < turn->known_len; i++)
        if (pal_id_equal(turn->known_ids[i], item->id))
            return false;
    return memcmp(item->id.bytes, turn->id.bytes, sizeof(item->id.bytes)) < 0;
}

bool pal_backlog_is_there(
        const pal_turn *turn, const pal_inbox_item *items, size_t len, pal_arena *scratch)
{
    for (size_t i = 0; i < len; i++) {
        pal_turn_request request = {.tenant = turn->request.tenant};

        /* What can't be read at all is passed over, here as there. */
        if (is_left(turn, &items[i]) &&
                pal_inbox_read(&items[i], scratch, &request, NULL) == PAL_OK &&
                request.messages_len > 0)
            return true;
    }
    return false;
}

/* Adds an item's request, if it is the first, or one with those before. */
static bool take_item(pal_turn *turn, const pal_inbox_item *item)
{
    pal_turn_request next = {.tenant = turn->request.tenant,
            .session = turn->request.session,
            .lane = PAL_LANE_QUEUE};
    pal_message *merged;
    size_t len;

    if (pal_inbox_read(item, turn->arena, &next, NULL) != PAL_OK || next.messages_len == 0)
        return false;
    if (turn->request.messages_len == 0) {
        turn->request = next;
        return true;
    }
    if (!pal_sender_can_merge(&turn->request, &next, turn->arena))
        return false;
    merged = pal_sender_merge(&turn->request, &next, turn->arena, &len);
    if (!merged)
        return false;
    turn->request.messages = merged;
    turn->request.messages_len = len;
    return true;
}

pal_status pal_backlog_take(pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err)
{
    size_t at = 0;

    turn->inbox_ids = pal_arena_array(turn->arena, len + 1, sizeof(*turn->inbox_ids));
    if (!turn->inbox_ids)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    for (; at < len; at++) {
        if (!is_left(turn, &items[at]))
            continue;
        if (take_item(turn, &items[at]))
            turn->inbox_ids[turn->inbox_len++] = items[at].id;
        else if (turn->inbox_len > 0)
            break; /* another turn's; what can't be read at all is passed over */
    }
    turn->has_more = pal_backlog_is_there(turn, items + at, len - at, turn->arena);
    return pal_arena_failure(turn->arena) == PAL_OK
            ? PAL_OK
            : pal_error_set(err, PAL_NO_MEMORY, "out of memory");
}
