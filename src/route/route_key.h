/* route_key.h - how keys are made. For routing only. */
#ifndef PAL_ROUTE_KEY_H
#define PAL_ROUTE_KEY_H

#include "palaver/route.h"

/* Returns "sk_v1_" and the hash of exactly these bytes, in the arena. If there is no memory, the
 * arena has failed. */
pal_str pal_route_key_hash(pal_arena *arena, pal_str text);

#endif
