/* route_key.h - how keys are made, inside of routing. */
#ifndef PAL_ROUTE_KEY_H
#define PAL_ROUTE_KEY_H

#include "palaver/route.h"

/* "sk_v1_" and the hash of exactly these bytes; in the arena, whose failure sticks. */
pal_str pal_route_key_hash(pal_arena *arena, pal_str text);

#endif
