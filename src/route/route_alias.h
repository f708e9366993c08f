/* route_alias.h - the names under which a session's history may be found from before. */
#ifndef PAL_ROUTE_ALIAS_H
#define PAL_ROUTE_ALIAS_H

#include "route/route_view.h"

/* Fills the aliases of `route`, whose agent, main alias and key are set. `view` is NULL for what is
 * no chat; `own` is the message's own key, trimmed, perhaps empty. */
void pal_route_aliases_set(
        const pal_route_view *view, pal_str own, pal_arena *arena, pal_route *route);

#endif
