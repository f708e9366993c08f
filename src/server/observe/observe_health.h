/* observe_health.h - reports whether the server is alive and ready, and what it consists of. */
#ifndef PAL_OBSERVE_HEALTH_H
#define PAL_OBSERVE_HEALTH_H

#include "server/server.h"

PAL_CHECKED pal_status pal_health_live(pal_call *call, pal_error *err);    /* /healthz */
PAL_CHECKED pal_status pal_health_ready(pal_call *call, pal_error *err);   /* /readyz */
PAL_CHECKED pal_status pal_health_details(pal_call *call, pal_error *err); /* /api/v1/health */

#endif
