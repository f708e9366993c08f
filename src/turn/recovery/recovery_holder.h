/* recovery_holder.h - determines whether the process that holds a session's lease is still
 * alive. */
#ifndef PAL_RECOVERY_HOLDER_H
#define PAL_RECOVERY_HOLDER_H

#include "turn/runtime/runtime.h"

/* The lease of a session in the store. All zero if no process holds it. */
typedef struct pal_holder {
    uint64_t fence;
    int64_t expires_at;
    int64_t ttl_ms;
    bool is_dead; /* the owner was a process of this machine, and is gone */
    bool is_over; /* the lease has expired by the store's clock */
} pal_holder;

typedef enum pal_holder_view {
    PAL_HOLDER_NONE = 0, /* the session is free, or its holder is known to be dead */
    /* the lease has expired by the clock, but its holder was not watched long enough */
    PAL_HOLDER_SUSPECT,
    PAL_HOLDER_ALIVE,
} pal_holder_view;

/* Reads the lease. On any thread except the loop. */
PAL_CHECKED pal_status pal_holder_read(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_holder *out_holder, pal_error *err);

/* On the loop: notes the lease that was just read, and judges the holder by everything seen so
 * far. */
pal_holder_view pal_holder_see(pal_lane_state *lane, const pal_holder *holder);

typedef void (*pal_holder_seen)(pal_lane_state *lane, pal_turn *turn, pal_holder_view view);
/* On the loop: reads and judges in the background, and calls `then` later. `turn` can be NULL. The
 * turn and the lane must stay alive until then. */
void pal_holder_look(pal_lane_state *lane, pal_turn *turn, pal_holder_seen then);

#endif
