/* route_scope.h - the scope of a session as values, as signature and key, and as JSON. */
#ifndef PAL_ROUTE_SCOPE_H
#define PAL_ROUTE_SCOPE_H

#include "route/route_view.h"

/* Sets channel, account and values of a chat. */
void pal_route_scope_set(const pal_route_settings *settings, const pal_route_view *view,
        const pal_route_dimensions *dimensions, pal_arena *arena, pal_route *route);

/* Sets signature, scope_key and JSON from these. `kind` is empty for chats. */
void pal_route_scope_finish(pal_str kind, pal_arena *arena, pal_route *route);

/* Call it last: sets the keys that a Matrix room has with other chat types. */
void pal_route_scope_earlier(const pal_route_view *view, pal_arena *arena, pal_route *route);

#endif
