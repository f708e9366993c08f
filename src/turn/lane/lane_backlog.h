/* lane_backlog.h - requests that wait in inboxes and are not turns of this runtime. On the loop,
 * unless a comment says otherwise. */
#ifndef PAL_LANE_BACKLOG_H
#define PAL_LANE_BACKLOG_H

#include "turn/turn.h"

/* Searches for such requests in the background, and runs them. */
void pal_backlog_start(pal_runtime *runtime);
/* Searches again after a delay, for example because another process still has a session. */
void pal_backlog_again(pal_runtime *runtime);
/* Stops the timer of the next search. A running search ends by itself. */
void pal_backlog_stop(pal_runtime *runtime);

/* On a worker: takes the oldest waiting request of the turn's session into the turn, with all
 * requests that can be merged with it. If no request waits, turn->request has no messages
 * afterwards. */
PAL_CHECKED pal_status pal_backlog_take(
        pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err);
/* On a worker: returns true if an older request waits in the session. */
bool pal_backlog_is_there(
        const pal_turn *turn, const pal_inbox_item *items, size_t len, pal_arena *scratch);

#endif
