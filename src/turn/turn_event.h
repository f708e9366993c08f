/* turn_event.h - what a turn tells its readers. On the loop. */
#ifndef PAL_TURN_EVENT_H
#define PAL_TURN_EVENT_H

#include "turn/turn_runtime.h"

/* Numbers the event, keeps a copy as far as the bounds reach, and tells every reader. */
void pal_event_tell(pal_turn *turn, pal_event event);

/* Tells what is kept after `after`, then all that comes. */
PAL_CHECKED pal_status pal_event_watch(pal_turn *turn, uint64_t after, pal_watch watch,
        void (*gone)(void *user), void *user, pal_error *err);
void pal_event_unwatch(pal_turn *turn, const void *user);

/* Tells the readers that no more will come, and forgets everything. */
void pal_event_done(pal_turn *turn);

#endif
