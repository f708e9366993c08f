/* turn_servers.h - the tool servers of a runtime, and turns that wait until they have started. On
 * the loop. */
#ifndef PAL_TURN_SERVERS_H
#define PAL_TURN_SERVERS_H

#include "turn/turn_runtime.h"

PAL_CHECKED pal_status pal_servers_open(pal_runtime *runtime, pal_error *err);
void pal_servers_close(pal_runtime *runtime);

/* Sets turn->tools to all that the model is offered; false without memory. */
bool pal_servers_gather(pal_turn *turn);
/* Some are being started, and the turn is to wait for them. */
bool pal_servers_are_awaited(const pal_turn *turn);
/* Gathers, and goes on with the turn's next step; where servers are being started, not before they
 * are ready, or too slow. */
void pal_servers_offer(pal_turn *turn);
/* The turn waits no more. */
void pal_servers_leave(pal_turn *turn);

#endif
