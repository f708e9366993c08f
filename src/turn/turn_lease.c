/* turn_lease.c - the lease says to other processes that a turn runs in a session. It is taken with
 * a turn's first write, renewed while turns run, and given back when nobody waits: with the last
 * write of a turn where that is known as such. A turn whose lease was lost can write nothing more,
 * and is stopped. On the loop. */
#include "turn/turn_machine.h"

static void renew_later(pal_lane_state *lane);

static void renewed(pal_write *write)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)write - offsetof(pal_lane_state, write));
    pal_turn *turn = lane->running;
    pal_status status = write->failure.status ? write->failure.status : lane->op.status;

    lane->holds--;
    if (!turn) {
        pal_lane_rest(lane);
    } else if (status == PAL_BUSY || status == PAL_DENIED) {
        /* Whatever it writes from now on is refused. */
        turn->info.status = PAL_DENIED;
        pal_turn_stop(turn, "another process took the session over");
    } else {
        renew_later(lane); /* where it failed for the moment, it is tried again in time */
    }
}

static void renew(pal_timer *timer)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)timer - offsetof(pal_lane_state, renew));

    if (!lane->running || !lane->fence)
        return;
    lane->op = (pal_op){.kind = PAL_OP_LEASE_TAKE,
            .tenant = lane->tenant,
            .session = lane->session,
            .u.lease = {.owner = pal_str_of(lane->runtime->owner),
                    .ttl_ms = lane->runtime->options.lease_ms}};
    lane->write = (pal_write){.ops = &lane->op, .ops_len = 1, .done = renewed};
    lane->holds++;
    pal_journal_write(&lane->runtime->journal, &lane->write);
}

static void renew_later(pal_lane_state *lane)
{
    int64_t delay = lane->runtime->options.lease_ms / 3;

    if (!pal_timer_start(lane->runtime->loop, &lane->renew, delay, renew) && lane->running) {
        lane->running->info.status = PAL_NO_MEMORY;
        pal_turn_stop(lane->running, "out of memory");
    }
}

void pal_lease_taken(pal_lane_state *lane, uint64_t fence)
{
    lane->fence = fence;
    renew_later(lane);
}

static void released(pal_write *write)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)write - offsetof(pal_lane_state, write));

    lane->holds--;
    pal_lane_rest(lane);
}

static pal_op release_op(const pal_lane_state *lane)
{
    return (pal_op){.kind = PAL_OP_LEASE_RELEASE,
            .tenant = lane->tenant,
            .session = lane->session,
            .u.lease.fence = lane->fence};
}

void pal_lease_add_release(pal_turn *turn)
{
    pal_turn_add_op(turn, release_op(turn->lane));
    turn->lane->fence = 0;
}

/* The commit queue keeps order: whoever takes it next, takes it after this. */
void pal_lease_release(pal_lane_state *lane)
{
    pal_timer_stop(lane->runtime->loop, &lane->renew);
    if (!lane->fence || lane->holds > 0)
        return; /* a renewal is under way: the lease runs out by itself */
    lane->op = release_op(lane);
    lane->fence = 0;
    lane->write = (pal_write){.ops = &lane->op, .ops_len = 1, .done = released};
    lane->holds++;
    pal_journal_write(&lane->runtime->journal, &lane->write);
}
