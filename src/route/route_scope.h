/* route_scope.h - what a session is about, as values, as signature and key, and as JSON. */
#ifndef PAL_ROUTE_SCOPE_H
#define PAL_ROUTE_SCOPE_H

#include "route/route_view.h"

/* Channel, account and values of a chat. */
void pal_route_scope_set(const pal_route_settings *settings, const pal_route_view *view,
        const pal_route_dimensions *dimensions, pal_arena *arena, pal_route *route);

/* Signature, scope_key and JSON of what was set. `kind` is empty for chats. */
void pal_route_scope_finish(pal_str kind, pal_arena *arena, pal_route *route);

/* After it: the keys of a Matrix room by the other types that it may be said to have. */
void pal_route_scope_earlier(const pal_route_view *view, pal_arena *arena, pal_route *route);

#endif
