/* lane_backlog.c - runs requests that wait in inboxes and are not turns of this runtime. They were
 * acknowledged as durable, and the process that received them is gone.
 *
 * When a runtime opens, and then every PAL_BACKLOG_MS, all sessions with inbox items are
 * listed in the background, page by page. If no process holds such a session while an item stays in
 * its inbox, its lane gets a turn.
 * The turn continues an unfinished turn (recovery_resume.c), or takes messages from the inbox, one
 * request at a time, the oldest first. A turn that finds an older request in its session yields to
 * it in the same way. Requests that are waiting turns of this process are never taken. A session
 * with a held lease is checked again after the lease ends, because its process may be dead.
 *
 * On the loop, except for list_owners() and the functions for one session. A crash loses nothing:
 * the inbox is durable. */
#include "turn/lane/lane_backlog.h"

#include "base/clock.h"
#include "base/memory.h"
#include "palaver/limits.h"
#include "turn/lane/lane_inbox.h"
#include "turn/recovery/recovery_holder.h"
#include "turn/runtime/runtime_owner.h"
#include "turn/lane/lane.h"
#include "turn/turn.h"
#include "turn/turn_outbox.h"
#include "turn/turn_sender.h"

/* Searches take at most this part of the time, however many items there are. */
enum { LOOK_MS_MIN = 50, REST = 20 };
#define NOTES_BYTES_MAX ((size_t)4 << 20) /* bytes of the notes that become one commit */

struct pal_backlog {
    pal_runtime *runtime;
    pal_work_item item;
    pal_arena *arena;
    pal_inbox_owner *owners;
    size_t len;
    pal_inbox_owner after; /* last owner of the previous page; its tenant is stored in `name` */
    char name[PAL_TENANT_LEN_MAX];
    bool is_full;    /* there may be another page */
    int64_t next_ms; /* delay before the next search */
    int64_t work_us; /* time that this search took so far */
    pal_status status;
};

/* A living process renews its lease before it ends, and is seen again. If the lease has expired by
 * the clock, a lane watches it (recovery_holder.c). */
static void note_held(pal_backlog *backlog, const pal_holder *holder)
{
    int64_t left = holder->expires_at - pal_store_clock_ms(backlog->runtime->store) + 1;

    if (left < LOOK_MS_MIN)
        left = LOOK_MS_MIN;
    if (left < backlog->next_ms)
        backlog->next_ms = left;
}

static void look(pal_backlog *backlog);

static void free_backlog(pal_backlog *backlog)
{
    backlog->runtime->backlog = NULL;
    pal_arena_free(backlog->arena);
    pal_free(backlog);
}

static bool is_held(pal_backlog *backlog, const pal_inbox_owner *owner)
{
    pal_holder holder;

    if (pal_holder_read(backlog->runtime->store, owner->tenant, owner->session, backlog->arena,
                &holder, NULL) != PAL_OK ||
            holder.fence == 0 || holder.is_dead || holder.is_over)
        return false;
    note_held(backlog, &holder);
    return true;
}

static bool read_inbox(pal_backlog *backlog, const pal_inbox_owner *owner,
        pal_inbox_item **out_items, size_t *out_len)
{
    return pal_store_inbox_list(backlog->runtime->store, owner->tenant, owner->session,
                   backlog->arena, out_items, out_len, NULL) == PAL_OK;
}

/* Returns true if no process holds the session, and an item was there before and after the lease
 * was read. The item of a turn that has just ended is gone by then, and the item of a turn that has
 * just begun was not there before. A turn that looked for them would only make others wait. */
static bool has_left_over(pal_backlog *backlog, const pal_inbox_owner *owner)
{
    pal_inbox_item *before, *after;
    size_t before_len, after_len;

    if (is_held(backlog, owner))
        return false;
    if (!read_inbox(backlog, owner, &before, &before_len))
        return true; /* the lane's turn reports the problem */
    if (is_held(backlog, owner))
        return false;
    if (!read_inbox(backlog, owner, &after, &after_len))
        return true;
    for (size_t i = 0; i < before_len; i++)
        for (size_t j = 0; j < after_len; j++)
            if (pal_id_equal(before[i].id, after[j].id))
                return true;
    return false;
}

/* Runs on a worker. A session belongs to the process that holds it, until the lease ends. */
static void list_owners(pal_work_item *item)
{
    pal_backlog *backlog = (pal_backlog *)((char *)item - offsetof(pal_backlog, item));
    pal_store *store = backlog->runtime->store;
    int64_t began_us = pal_clock_monotonic_us();

    backlog->status = pal_store_inbox_owners(store, &backlog->after, PAL_INBOX_OWNERS_MAX,
            backlog->arena, &backlog->owners, &backlog->len, NULL);
    if (backlog->status != PAL_OK || backlog->len == 0)
        return;
    backlog->after = backlog->owners[backlog->len - 1];
    if (backlog->after.tenant.len)
        memcpy(backlog->name, backlog->after.tenant.data, backlog->after.tenant.len);
    backlog->after.tenant.data = backlog->name;
    backlog->is_full = backlog->len == PAL_INBOX_OWNERS_MAX;
    for (size_t i = 0, kept = 0, len = backlog->len; i < len; i++) {
        const pal_inbox_owner *owner = &backlog->owners[i];

        if (has_left_over(backlog, owner))
            backlog->owners[kept++] = *owner;
        backlog->len = kept;
    }
    backlog->work_us += pal_clock_monotonic_us() - began_us;
}

/* Returns false if there is no memory. If a turn runs or waits in the lane, that turn reads the
 * inbox itself. */
static bool take_up(pal_runtime *runtime, const pal_inbox_owner *owner)
{
    const pal_lane_state *lane = pal_lane_find(runtime, owner->tenant, owner->session);

    return (lane && (lane->running || lane->first)) ||
            pal_lane_backlog(runtime, owner->tenant, owner->session);
}

static void on_search_time(pal_timer *timer)
{
    pal_backlog_start((pal_runtime *)((char *)timer - offsetof(pal_runtime, backlog_timer)));
}

static void look_later(pal_runtime *runtime, int64_t delay)
{
    if (runtime->is_closing || runtime->backlog_timer.position > 0)
        return;
    if (!pal_loop_timer_start(runtime->loop, &runtime->backlog_timer, delay, on_search_time))
        return; /* if there is no memory, the requests wait for the next start */
}

static void on_owners_listed(pal_work_item *item)
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
        if (!take_up(runtime, &backlog->owners[i]))
            pal_backlog_again(runtime);
    if (!backlog->is_full) {
        int64_t rest_ms = REST * backlog->work_us / 1000;

        look_later(runtime, backlog->next_ms > rest_ms ? backlog->next_ms : rest_ms);
        free_backlog(backlog);
        return;
    }
    backlog->is_full = false;
    pal_arena_reset(backlog->arena);
    look(backlog);
}

static void look(pal_backlog *backlog)
{
    backlog->item.work = list_owners;
    backlog->item.done = on_owners_listed;
    pal_loop_work(backlog->runtime->loop, &backlog->item);
}

void pal_backlog_start(pal_runtime *runtime)
{
    pal_backlog *backlog;

    if (runtime->backlog || runtime->is_closing)
        return;
    backlog = pal_calloc(1, sizeof(*backlog));
    if (!backlog)
        return; /* the requests are durable, and wait for the next start */
    backlog->runtime = runtime;
    backlog->next_ms = runtime->options.lease_ms < PAL_BACKLOG_MS ? runtime->options.lease_ms
                                                                  : PAL_BACKLOG_MS;
    backlog->arena = pal_arena_new(0);
    if (!backlog->arena) {
        pal_free(backlog);
        return;
    }
    runtime->backlog = backlog;
    look(backlog);
}

void pal_backlog_again(pal_runtime *runtime)
{
    if (!runtime->options.leave_inbox)
        look_later(runtime, runtime->options.lease_ms / 4 + 1);
}

void pal_backlog_stop(pal_runtime *runtime)
{
    pal_loop_timer_stop(runtime->loop, &runtime->backlog_timer);
}

/* ---- The requests of one session ---- */

/* Returns true if the item does not belong to a waiting turn of this process. */
static bool is_left(const pal_turn *turn, const pal_inbox_item *item)
{
    for (size_t i = 0; i < turn->queue.known_len; i++)
        if (pal_id_equal(turn->queue.known_ids[i], item->id))
            return false;
    return true;
}

/* The inbox keeps its items in the order of arrival. Items before the turn's own item are older. If
 * the turn has no item, all items are older. */
bool pal_backlog_is_there(
        const pal_turn *turn, const pal_inbox_item *items, size_t len, pal_arena *scratch)
{
    for (size_t i = 0; i < len; i++) {
        pal_turn_request request = {.tenant = turn->request.tenant};

        if (turn->queue.origin != PAL_ORIGIN_INBOX && turn->queue.inbox_len > 0 &&
                pal_id_equal(turn->queue.inbox_ids[0], items[i].id))
            return false;
        /* Unreadable items are skipped, as in pal_backlog_take(). */
        if (is_left(turn, &items[i]) &&
                pal_inbox_read(&items[i], scratch, &request, NULL, NULL) == PAL_OK &&
                request.messages_len > 0)
            return true;
    }
    return false;
}

/* Adds the request of an item, if it is the first one or can be merged with those before it. */
static bool take_item(pal_turn *turn, const pal_inbox_item *item)
{
    pal_turn_request next = {.tenant = turn->request.tenant,
            .session = turn->request.session,
            .lane = PAL_TURN_LANE_QUEUE};
    pal_inbox_head head;
    pal_message *merged;
    size_t len;

    if (pal_inbox_read(item, turn->arena, &next, &head, NULL) != PAL_OK || next.messages_len == 0)
        return false;
    if (turn->request.messages_len == 0) {
        pal_owner_leave(turn->runtime, &turn->request.budget);
        pal_owner_enter(turn->runtime, &next.budget);
        turn->request = next;
        turn->found.spent_tries = head.spent;
        if (!pal_id_is_none(head.turn))
            turn->owed.turn = head.turn;
        return true;
    }
    if (turn->queue.takes_one || turn->found.spent_tries > 0 || head.spent > 0 ||
            !pal_sender_can_merge(&turn->request, &next, turn->arena))
        return false;
    merged = pal_sender_merge(&turn->request, &next, turn->arena, &len);
    if (!merged)
        return false;
    turn->request.messages = merged;
    turn->request.messages_len = len;
    turn->request.channel =
            pal_outbox_merge(turn->request.channel, next.channel, turn->arena);
    return true;
}

pal_status pal_backlog_take(pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err)
{
    size_t at = 0, bytes = 0;

    turn->queue.inbox_ids = pal_arena_array(turn->arena, len + 1, sizeof(*turn->queue.inbox_ids));
    if (!turn->queue.inbox_ids)
        return pal_no_memory(err);
    for (; at < len; at++) {
        if (!is_left(turn, &items[at])) {
            if (!pal_str_is(items[at].delivery, "steer"))
                break; /* a waiting turn of this process is older than the rest, and runs first */
        } else if (bytes + items[at].body.len > NOTES_BYTES_MAX && pal_turn_is_note(turn)) {
            break;
        } else if (take_item(turn, &items[at])) {
            turn->queue.inbox_ids[turn->queue.inbox_len++] = items[at].id;
            bytes += items[at].body.len;
        } else if (turn->queue.inbox_len > 0) {
            break; /* this item belongs to another turn; unreadable items are skipped */
        }
    }
    /* If nothing was taken, the turn that runs first looks for requests that are older than the
     * next one. */
    if (turn->queue.inbox_len > 0)
        turn->queue.has_more = pal_backlog_is_there(turn, &items[at], len - at, turn->arena);
    return pal_arena_failure(turn->arena) == PAL_OK
            ? PAL_OK
            : pal_no_memory(err);
}
