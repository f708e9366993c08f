/* turn_backlog.h - what waits in inboxes, and is no turn of this runtime's. On the loop. */
#ifndef PAL_TURN_BACKLOG_H
#define PAL_TURN_BACKLOG_H

#include "turn/turn_runtime.h"

/* Looks for it in the background, and has it run. */
void pal_backlog_start(pal_runtime *runtime);
/* Looks again after a while: somebody else has a session still. */
void pal_backlog_again(pal_runtime *runtime);
void pal_backlog_stop(pal_runtime *runtime);

/* On a worker: takes the oldest request that waits in the turn's session into the turn, with those
 * that are one with it. turn->request has no messages afterwards where nothing waits. */
PAL_CHECKED pal_status pal_backlog_take(
        pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err);
/* On a worker: whether something waits there for longer than the turn does. */
bool pal_backlog_is_there(
        const pal_turn *turn, const pal_inbox_item *items, size_t len, pal_arena *scratch);

#endif
