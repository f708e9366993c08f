/* api_inbound.h - which session an inbound message belongs to, and that session. */
#ifndef PAL_API_INBOUND_H
#define PAL_API_INBOUND_H

#include "palaver/route.h"
#include "server/server.h"

typedef struct pal_inbound {
    pal_route_context context;
    pal_route route;
    pal_resolution resolution;
} pal_inbound;

/* Decides by `context`, and finds or makes the session; blocks. What a new one has beyond the route
 * is in `given`: metadata, and aliases that are its own. A work item's expires as configured; one
 * that there is already gets the agent that `context` asks for. */
PAL_CHECKED pal_status pal_inbound_resolve(
        pal_call *call, const pal_session *given, pal_inbound *inbound, pal_error *err);

#endif
