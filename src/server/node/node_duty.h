/* node_duty.h - periodic work that one node does for all of them. */
#ifndef PAL_NODE_DUTY_H
#define PAL_NODE_DUTY_H

#include "server/server.h"

/* Takes the duty for `ttl_ms`, or renews it. Returns true if this process must do the work: it has
 * the duty now, or no other node is there. Reads and writes the store. */
bool pal_duty_take(pal_server *server, const char *name, int64_t ttl_ms);

#endif
