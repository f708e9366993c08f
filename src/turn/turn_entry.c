/* turn_entry.c - makes the first commit of a turn. The commit contains the lease, the cleanup after
 * a dead turn, the turn's messages, and the item that marks the turn as unfinished
 * (recovery_owed.c).
 *
 * Inspecting the session, committing and planning are three pieces of work, and the loop can start
 * each of them. But waking a thread costs more than any of them. So one worker does all three and
 * notifies the loop once, unless other writes in the session forbid it. If the worker meets an
 * obstacle, it leaves the rest to the loop. Turns that arrive while ENTRIES_MAX workers are busy
 * this way also go through the loop: their writes share commits.
 *
 * Invariant: while the worker has the turn, the loop does not touch it. The lane's fence belongs to
 * the running turn. */
#include "turn/turn_entry.h"

#include "turn/recovery/recovery_owed.h"
#include "turn/recovery/recovery_inspect.h"
#include "turn/runtime/runtime_servers.h"
#include "turn/turn_whole.h"

enum { ENTRIES_MAX = PAL_RUNTIME_WORKERS / 2 };

/* ---- The contents of the commit ---- */

void pal_entry_add_lease(pal_turn *turn)
{
    if (turn->lane->fence)
        return;
    pal_turn_add_op(turn,
            (pal_op){.kind = PAL_OP_LEASE_TAKE,
                    .u.lease = {.owner = pal_str_of(turn->runtime->owner),
                            .ttl_ms = turn->runtime->options.lease_ms,
                            .stale_fence = turn->stale_fence,
                            .stale_expires_at = turn->stale_expires_at,
                            .is_watched = true}});
}

void pal_entry_note_stale(pal_turn *turn)
{
    const pal_lane_state *lane = turn->lane;

    turn->stale_fence = lane->is_stale ? lane->seen_fence : 0;
    turn->stale_expires_at = lane->is_stale ? lane->seen_expires_at : 0;
}

bool pal_entry_needs_lease(const pal_turn *turn)
{
    return !turn->lane->fence && (turn->settled_len > 0 || !pal_id_is_none(turn->leftover) ||
                                         (turn->resume && !turn->is_taken));
}

void pal_entry_make(pal_turn *turn)
{
    bool owes = turn->messages_len > 0 || !turn->is_backlog;
    bool owes_first = owes && turn->inbox_len == 0 && pal_turn_client_id(turn).len > 0;

    turn->write.ops_len = 0;
    turn->said_len = 0;
    for (size_t i = 0; i < turn->request.opening_len; i++)
        pal_turn_add_op(turn, turn->request.opening[i]);
    pal_entry_add_lease(turn);
    pal_whole_settle(turn);
    if (owes_first)
        pal_owed_add(turn); /* before the messages; see recovery_owed.c */
    if (turn->messages_len > 0)
        pal_turn_add_append(turn,
                &(pal_turn_append){.messages = turn->messages,
                        .messages_len = turn->messages_len,
                        .settled_len = turn->settled_len,
                        .inbox_ids = turn->inbox_ids,
                        .inbox_len = turn->inbox_len,
                        .expected_seq = turn->request.expected_seq});
    if (owes && !owes_first)
        pal_owed_add(turn);
}

bool pal_entry_is_replay(const pal_turn *turn)
{
    bool is_replay = false;

    for (size_t i = 0; i < turn->write.ops_len; i++)
        if (turn->ops[i].kind == PAL_OP_APPEND && turn->ops[i].status == PAL_OK)
            is_replay = turn->ops[i].u.append.replayed;
    return is_replay;
}

void pal_entry_note_seq(pal_turn *turn)
{
    if (turn->messages_len > 0)
        turn->first_seq = turn->messages[0].seq; /* a rollback also hides the settled results */
    if (turn->messages_len > turn->settled_len)
        turn->first_id = turn->messages[turn->settled_len].id;
    turn->conversation.fresh_seq = turn->first_seq;
}

/* ---- All steps on one worker ---- */

bool pal_entry_begin(pal_turn *turn)
{
    const pal_lane_state *lane = turn->lane;
    pal_runtime *runtime = turn->runtime;

    turn->is_entered = turn->is_planned = false;
    if (turn->compact || turn->is_backlog || turn->inbox_len > 0 || lane->holds > 0 ||
            lane->changes > 0 || runtime->entries_len >= ENTRIES_MAX ||
            pal_servers_are_awaited(turn) || !pal_turn_step_arena(turn) ||
            !pal_servers_gather(turn))
        return false;
    runtime->entries_len++;
    return true;
}

void pal_entry_end(pal_turn *turn)
{
    turn->runtime->entries_len--;
}

/* Returns the fence of the lease. If this commit has acquired the lease, the loop does not know the
 * fence yet. */
static uint64_t fence_of(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->write.ops_len; i++)
        if (turn->ops[i].kind == PAL_OP_LEASE_TAKE)
            return turn->ops[i].u.lease.fence;
    return turn->lane->fence;
}

static void commit_and_plan(pal_turn *turn)
{
    pal_error err = {0};

    pal_entry_make(turn);
    if (turn->write.ops_len == 0 || turn->is_write_starved)
        return; /* the loop tries again, and reports the error */
    turn->write.failure = (pal_error){0};
    if (pal_store_apply(turn->runtime->store, turn->ops, turn->write.ops_len, &err) != PAL_OK)
        turn->write.failure = err;
    turn->is_entered = true;
    if (pal_turn_write_status(turn, &err) != PAL_OK || pal_entry_is_replay(turn))
        return;
    pal_entry_note_seq(turn);
    turn->fence = fence_of(turn);
    pal_plan_work(&turn->work);
    turn->is_planned = true;
}

void pal_entry_look(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);

    pal_recover_work(item);
    if (turn->work_status == PAL_OK && !turn->is_taken && !turn->must_wait && !turn->resume &&
            !pal_entry_needs_lease(turn))
        commit_and_plan(turn);
}

void pal_entry_prepare(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);

    turn->work_error = (pal_error){0};
    turn->work_status = pal_recover_prepare(turn, &turn->work_error);
    if (turn->work_status == PAL_OK)
        commit_and_plan(turn);
}
