/* turn_holder.h - whether the process that holds a session's lease still lives. */
#ifndef PAL_TURN_HOLDER_H
#define PAL_TURN_HOLDER_H

#include "turn/turn_runtime.h"

/* The lease of a session, as the store has it. Zeros: nobody holds it. */
typedef struct pal_holder {
    uint64_t fence;
    int64_t expires_at;
    int64_t ttl_ms;
    bool is_dead; /* the owner was a process of this machine, and is gone */
    bool is_over; /* it has run out by this machine's clock */
} pal_holder;

typedef enum pal_holder_view {
    PAL_HOLDER_NONE = 0, /* the session is free, or its holder is known to be dead */
    PAL_HOLDER_SUSPECT,  /* the lease is over by the clock; its holder was not watched for long */
    PAL_HOLDER_ALIVE,
} pal_holder_view;

/* On any thread but the loop. */
PAL_CHECKED pal_status pal_holder_read(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_holder *out_holder, pal_error *err);

/* On the loop: notes what was read just now, and judges the holder by all that was seen so far. */
pal_holder_view pal_holder_see(pal_lane_state *lane, const pal_holder *holder);

typedef void (*pal_holder_seen)(pal_lane_state *lane, pal_turn *turn, pal_holder_view view);
/* On the loop: reads and judges in the background; `then` is called later. `turn` may be NULL; turn
 * and lane stay as long. */
void pal_holder_look(pal_lane_state *lane, pal_turn *turn, pal_holder_seen then);

#endif
