/* lane_lease.c - acquires, renews and releases the lease, which shows other processes that a turn
 * runs in a session.
 *
 * The lease is acquired with a turn's first write, and renewed three times per lease_ms while turns
 * run. It is released when no request waits; if a turn's last write is known as such, with that
 * write. A turn whose lease was lost cannot write any more. If it is unfinished in the store it is
 * followed there; otherwise it is stopped. On the loop.
 *
 * A crash leaves the lease in the store. Other processes take it as recovery_holder.c describes. */
#include "turn/turn.h"

#include "palaver/limits.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_park.h"
#include "turn/recovery/recovery_holder.h"

enum { WAIT_MS_MIN = 20 };

static void renew_later(pal_lane_state *lane);

/* The lease is lost, so every further write of the turn is denied. A turn that is being admitted
 * then begins again, after the turns of the process that has the session now. A turn that is about
 * to end gets the error from its write. */
static void lose(pal_turn *turn)
{
    if (turn->phase <= PAL_TURN_PHASE_ADMIT || turn->phase == PAL_TURN_PHASE_CLOSE ||
            turn->commit.stage == PAL_COMMIT_LAST)
        return;
    turn->info.status = PAL_DENIED;
    pal_turn_stop(turn, "another process took over the session");
}

static void on_renewed(pal_write *write)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)write - offsetof(pal_lane_state, write));
    pal_turn *turn = lane->running;
    pal_status status = write->failure.status ? write->failure.status : lane->op.status;
    bool is_lost = status == PAL_BUSY || status == PAL_DENIED;

    lane->holds--;
    lane->is_renewing = false;
    if (turn && !lane->fence)
        return; /* a write of the turn that came later releases the lease, or reports its loss */
    if (is_lost && !turn)
        lane->fence = 0;
    if (!turn && (is_lost || lane->holds == 0)) {
        pal_lane_dispatch(lane);
    } else if (is_lost && turn->owed.state != PAL_OWED_NONE) {
        pal_lease_lost(lane);
        pal_away_begin(turn); /* the process that took the session continues the turn */
    } else if (is_lost) {
        lose(turn);
    } else if (pal_lane_is_parked(turn) && lane->holds == 0) {
        pal_lease_release(lane); /* the turn was parked in the meantime */
    } else {
        renew_later(lane); /* after a temporary failure, the next renewal still comes in time */
    }
}

static pal_op take_op(const pal_lane_state *lane)
{
    return (pal_op){.kind = PAL_OP_LEASE_TAKE,
            .tenant = lane->tenant,
            .session = lane->session,
            .u.lease = {.owner = pal_str_of(lane->runtime->owner),
                    .ttl_ms = lane->runtime->options.lease_ms,
                    .is_watched = true}};
}

static void on_renew_time(pal_timer *timer)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)timer - offsetof(pal_lane_state, renew));

    if (!lane->fence)
        return;
    if (lane->is_renewing) { /* a release failed, and the renewal before it is still in flight */
        renew_later(lane);
        return;
    }
    if ((!lane->running || pal_lane_is_parked(lane->running)) && lane->holds == 0) {
        pal_lease_release(lane);
        return;
    }
    lane->op = take_op(lane);
    /* After a standstill the lease is still ours if no other process has acquired it. */
    lane->op.fence = lane->fence;
    lane->write = (pal_write){.ops = &lane->op, .ops_len = 1, .done = on_renewed};
    lane->holds++;
    lane->is_renewing = true;
    pal_runtime_write(lane->runtime, &lane->write);
}

static void renew_later(pal_lane_state *lane)
{
    int64_t delay = lane->runtime->options.lease_ms / 3;

    if (!pal_loop_timer_start(lane->runtime->loop, &lane->renew, delay, on_renew_time) &&
            lane->running) {
        lane->running->info.status = PAL_NO_MEMORY;
        pal_turn_stop(lane->running, "out of memory");
    }
}

void pal_lease_lost(pal_lane_state *lane)
{
    pal_loop_timer_stop(lane->runtime->loop, &lane->renew);
    lane->fence = 0;
}

void pal_lease_taken(pal_lane_state *lane, uint64_t fence)
{
    lane->fence = fence;
    lane->wait_ms = 0;
    renew_later(lane);
}

void pal_lease_add_take(pal_turn *turn)
{
    pal_op op = take_op(turn->lane);

    if (turn->lane->fence)
        return;
    op.u.lease.stale_fence = turn->queue.stale_fence;
    op.u.lease.stale_expires_at = turn->queue.stale_expires_at;
    pal_turn_add_op(turn, op);
}

/* ---- The lease of another process ---- */

void pal_lease_note_stale(pal_turn *turn)
{
    const pal_lane_state *lane = turn->lane;

    turn->queue.stale_fence = lane->is_stale ? lane->seen_fence : 0;
    turn->queue.stale_expires_at = lane->is_stale ? lane->seen_expires_at : 0;
}

static void holder_seen(pal_lane_state *lane, pal_turn *turn, pal_holder_view view)
{
    bool has_waiting = lane->first || lane->steers || lane->has_backlog;

    (void)turn;
    if (view != PAL_HOLDER_NONE && has_waiting && !lane->runtime->is_closing &&
            pal_lease_await(lane))
        return;
    lane->is_waiting = false;
    pal_lane_dispatch(lane);
}

static void on_wait_over(pal_timer *timer)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)timer - offsetof(pal_lane_state, wait));

    pal_holder_look(lane, NULL, holder_seen);
}

/* A running process can release its lease at any time, and the lease of a dead process stays
 * unchanged (recovery_holder.c). So the lease is read again and again, with growing delays. */
bool pal_lease_await(pal_lane_state *lane)
{
    int64_t delay = lane->wait_ms ? 2 * lane->wait_ms : WAIT_MS_MIN;

    if (delay > PAL_LEASE_POLL_MS_MAX)
        delay = PAL_LEASE_POLL_MS_MAX;
    lane->is_waiting = pal_loop_timer_start(lane->runtime->loop, &lane->wait, delay, on_wait_over);
    lane->wait_ms = delay;
    return lane->is_waiting;
}

/* ---- Releasing the lease ---- */

static void on_released(pal_write *write)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)write - offsetof(pal_lane_state, write));

    lane->holds--;
    pal_lane_dispatch(lane);
}

static pal_op release_op(const pal_lane_state *lane)
{
    return pal_op_lease_release(lane->tenant, lane->session, lane->fence);
}

/* A renewal in flight does no harm: it is committed before the release. */
bool pal_lease_can_release(const pal_lane_state *lane)
{
    return lane->fence && !lane->first && !lane->has_backlog && lane->changes == 0;
}

void pal_lease_add_release(pal_turn *turn)
{
    pal_turn_add_op(turn, release_op(turn->lane));
    if (turn->commit.ops_failure == PAL_OK)
        turn->lane->fence = 0;
}

void pal_lease_restore(pal_turn *turn)
{
    for (size_t i = 0; i < turn->commit.write.ops_len; i++) {
        const pal_op *op = &turn->commit.ops[i];

        if (op->kind == PAL_OP_LEASE_RELEASE &&
                (op->status != PAL_OK || turn->commit.write.failure.status != PAL_OK))
            pal_lease_taken(turn->lane, op->u.lease.fence);
    }
}

/* The commit queue keeps the order, so the next acquisition is committed after this release. */
void pal_lease_release(pal_lane_state *lane)
{
    if (!lane->fence || lane->holds > 0)
        return; /* the write in flight begins a turn or calls this function again */
    pal_loop_timer_stop(lane->runtime->loop, &lane->renew);
    lane->op = release_op(lane);
    lane->fence = 0;
    lane->write = (pal_write){.ops = &lane->op, .ops_len = 1, .done = on_released};
    lane->holds++;
    pal_runtime_write(lane->runtime, &lane->write);
}
