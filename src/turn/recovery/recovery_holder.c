/* recovery_holder.c - determines whether the process that holds a session's lease is still alive.
 *
 * Clocks of two machines differ, and any clock can be set. So no process compares its clock with
 * the end of another process's lease in order to take that lease. A holder renews its lease three
 * times per ttl, and every renewal changes the lease's end. A waiting process reads the lease's
 * fence and end again and again. If both stay the same for a whole ttl of the waiting process's
 * monotonic clock, the holder is dead or stopped, and the lease can be taken. The store checks
 * fence and end once more in the commit that takes the lease. If the holder was a process of this
 * machine and is gone, the lease can be taken at once.
 *
 * The observations are kept in the lane, on the loop; the store is read on a worker. A crash loses
 * only the observations. */
#include "turn/recovery/recovery_holder.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"
#include "palaver/limits.h"
#include "store/store_snapshot.h"
#include "turn/lane/lane.h"
#include "turn/turn.h"

/* Looks that follow a lease come more often than this. */
enum { LATE_MS = 10 * PAL_LEASE_POLL_MS_MAX };

pal_status pal_holder_read(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_holder *out_holder, pal_error *err)
{
    pal_snapshot snapshot;
    pal_lease lease = {0};
    pal_status status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);

    *out_holder = (pal_holder){0};
    if (status == PAL_OK)
        status = pal_snapshot_lease(&snapshot, arena, &lease, err);
    if (status != PAL_OK || lease.owner.len == 0)
        return status;
    *out_holder = (pal_holder){.fence = lease.fence,
            .expires_at = lease.expires_at,
            .ttl_ms = lease.ttl_ms,
            .is_dead = pal_process_is_dead(lease.owner),
            .is_over = !pal_lease_is_held(
                    lease.expires_at, lease.ttl_ms, pal_store_clock_ms(store))};
    return PAL_OK;
}

pal_holder_view pal_holder_see(pal_lane_state *lane, const pal_holder *holder)
{
    int64_t now_us = pal_clock_monotonic_us();
    int64_t ttl_ms = holder->ttl_ms > 0 ? holder->ttl_ms : lane->runtime->options.lease_ms;

    if (lane->fence)
        return PAL_HOLDER_NONE; /* this process holds the lease */
    /* If the store could not be read for a while, the holder could not renew its lease either. So
     * the watch begins again. */
    if (lane->seen_last_us && now_us - lane->seen_last_us > LATE_MS * 1000)
        lane->seen_since_us = now_us;
    lane->seen_last_us = now_us;
    if (lane->seen_fence != holder->fence || lane->seen_expires_at != holder->expires_at) {
        lane->is_renewed = lane->seen_fence > 0;
        lane->seen_fence = holder->fence;
        lane->seen_expires_at = holder->expires_at;
        lane->seen_since_us = now_us;
    }
    lane->is_stale = holder->fence > 0 &&
            (holder->is_dead || now_us - lane->seen_since_us >= ttl_ms * 1000);
    if (holder->fence == 0 || lane->is_stale)
        return PAL_HOLDER_NONE;
    return holder->is_over && !lane->is_renewed ? PAL_HOLDER_SUSPECT : PAL_HOLDER_ALIVE;
}

typedef struct holder_look {
    pal_work_item item;
    pal_lane_state *lane;
    pal_turn *turn;
    pal_holder_seen then;
    pal_arena *arena;
    pal_holder holder;
    pal_status status;
} holder_look;

static void read_holder(pal_work_item *item)
{
    holder_look *l = (holder_look *)((char *)item - offsetof(holder_look, item));

    l->status = pal_holder_read(l->lane->runtime->store, l->lane->tenant, l->lane->session,
            l->arena, &l->holder, NULL);
}

static void end_look(holder_look *l, pal_holder_view view)
{
    holder_look copy = *l;

    pal_arena_free(l->arena);
    pal_free(l);
    copy.lane->guards--;
    if (copy.turn)
        copy.turn->holds--;
    copy.then(copy.lane, copy.turn, view);
}

static void on_holder_read(pal_work_item *item)
{
    holder_look *l = (holder_look *)((char *)item - offsetof(holder_look, item));

    /* If the lease cannot be read, the turn tries to acquire it: that reports the error. */
    end_look(l, l->status == PAL_OK ? pal_holder_see(l->lane, &l->holder) : PAL_HOLDER_NONE);
}

void pal_holder_look(pal_lane_state *lane, pal_turn *turn, pal_holder_seen then)
{
    holder_look *l = pal_calloc(1, sizeof(*l));

    if (l)
        l->arena = pal_arena_new(0);
    if (!l || !l->arena) {
        pal_free(l);
        then(lane, turn, PAL_HOLDER_ALIVE);
        return;
    }
    l->lane = lane;
    l->turn = turn;
    l->then = then;
    l->item.work = read_holder;
    l->item.done = on_holder_read;
    lane->guards++;
    if (turn)
        turn->holds++;
    pal_loop_work(lane->runtime->loop, &l->item);
}
