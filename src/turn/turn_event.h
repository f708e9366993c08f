/* turn_event.h - publishes the events of a turn to its readers. On the loop. */
#ifndef PAL_TURN_EVENT_H
#define PAL_TURN_EVENT_H

#include "turn/turn.h"

/* Numbers the event, keeps a copy within the limits, and calls every reader. */
void pal_event_publish(pal_turn *turn, pal_event event);

/* Calls `on_event` for all kept events after the number `after`, then for all new ones. */
PAL_CHECKED pal_status pal_event_watch(pal_turn *turn, uint64_t after, pal_turn_on_event on_event,
        void (*on_close)(void *user), void *user, pal_error *err);
/* Removes the readers with this `user`, and calls their `on_close`. */
void pal_event_unwatch(pal_turn *turn, const void *user);

/* Calls `on_close` for all readers, and frees the log. */
void pal_event_done(pal_turn *turn);

#endif
