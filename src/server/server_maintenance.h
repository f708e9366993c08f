/* server_maintenance.h - periodic maintenance of the server, on a separate thread. */
#ifndef PAL_SERVER_MAINTENANCE_H
#define PAL_SERVER_MAINTENANCE_H

#include "server/server.h"
#include "server/server_limits.h"

typedef struct pal_maintenance pal_maintenance;

/* NULL: out of memory, or the thread could not be started. */
pal_maintenance *pal_maintenance_start(pal_server *server);
/* Waits for the running step. Accepts NULL. */
void pal_maintenance_stop(pal_maintenance *maintenance);

#endif
