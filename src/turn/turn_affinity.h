/* turn_affinity.h - the ids by which a router keeps the requests of a session together
 * (docs/affinity.md). */
#ifndef PAL_TURN_AFFINITY_H
#define PAL_TURN_AFFINITY_H

#include "base/digest.h"
#include "turn/turn.h"

/* The texts that a request refers to, until it was sent. */
typedef struct pal_affinity_ids {
    uint8_t secret[PAL_SHA256_SIZE]; /* the tenant's secret */
    char conversation[2 * PAL_AFFINITY_ID_BYTES + 1];
} pal_affinity_ids;

/* Returns false if the ids cannot be made; then none are sent. */
bool pal_affinity_ids_make(const pal_runtime *runtime, pal_str tenant, pal_str conversation,
        pal_affinity_ids *out);
/* Adds the ids of the turn's session to a request. */
void pal_affinity_ids_add(const pal_turn *turn, pal_affinity_ids *ids, pal_model_request *request);

#endif
