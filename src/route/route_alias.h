/* route_alias.h - the names under which an older history of a session may be found. */
#ifndef PAL_ROUTE_ALIAS_H
#define PAL_ROUTE_ALIAS_H

#include "route/route_view.h"

/* Sets the aliases of `route`, whose agent, main alias and key are set. `view` is NULL if the
 * session is not a chat. `own` is the key that the message names, trimmed; may be empty. */
void pal_route_aliases_set(
        const pal_route_view *view, pal_str own, pal_arena *arena, pal_route *route);

#endif
