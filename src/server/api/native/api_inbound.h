/* api_inbound.h - finds or creates the session that an inbound message belongs to. */
#ifndef PAL_API_INBOUND_H
#define PAL_API_INBOUND_H

#include "palaver/route.h"
#include "server/server.h"

typedef struct pal_inbound {
    pal_route_context context;
    pal_route route;
    pal_resolve_result resolution;
} pal_inbound;

/* Routes by `inbound->context`, then finds or creates the session. Blocks. `given` contains
 * metadata for a new session and additional aliases. A new session of a work item expires as
 * configured. An existing one gets the agent that the context names. */
PAL_CHECKED pal_status pal_inbound_resolve(
        pal_call *call, const pal_session *given, pal_inbound *inbound, pal_error *err);

#endif
