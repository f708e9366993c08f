/* server_care.h - what the server does by itself now and then, on a thread of its own. */
#ifndef PAL_SERVER_CARE_H
#define PAL_SERVER_CARE_H

#include "server/server.h"
#include "server/server_limits.h"

typedef struct pal_care pal_care;

/* NULL where no thread can be had. */
pal_care *pal_care_start(pal_server *server);
/* Waits for the step that runs. Accepts NULL. */
void pal_care_stop(pal_care *care);

#endif
