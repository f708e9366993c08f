/* server_care.h - periodic maintenance of the server, on a separate thread. */
#ifndef PAL_SERVER_CARE_H
#define PAL_SERVER_CARE_H

#include "server/server.h"
#include "server/server_limits.h"

typedef struct pal_care pal_care;

/* NULL: out of memory, or the thread could not be started. */
pal_care *pal_care_start(pal_server *server);
/* Waits for the running step. Accepts NULL. */
void pal_care_stop(pal_care *care);

#endif
