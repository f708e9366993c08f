/* runtime_servers.h - the tool servers of a runtime, and turns that wait until the servers have
 * started. On the loop. */
#ifndef PAL_RUNTIME_SERVERS_H
#define PAL_RUNTIME_SERVERS_H

#include "turn/runtime/runtime.h"

/* Starts the configured servers, and the time that turns wait for them. Does not wait for the
 * servers. */
PAL_CHECKED pal_status pal_servers_open(pal_runtime *runtime, pal_error *err);
void pal_servers_close(pal_runtime *runtime);

/* Sets turn->step.tools to all tools that the model is offered. Returns false if there is no
 * memory. */
bool pal_servers_gather(pal_turn *turn);
/* Returns true if servers are starting and the turn must wait for them. */
bool pal_servers_are_awaited(const pal_turn *turn);
/* Gathers the tools, and continues with the turn's next step. If servers are starting, waits until
 * they are ready or the time is over. */
void pal_servers_await(pal_turn *turn);
/* Called when the turn no longer waits. */
void pal_servers_leave(pal_turn *turn);

#endif
