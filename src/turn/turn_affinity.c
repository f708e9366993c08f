/* turn_affinity.c - the ids by which a router keeps the requests of a session together. They are
 * keyed hashes, so that a router cannot find out tenants or sessions. They depend on
 * nothing else, so they are the same after a restart, and on all servers that share a store. On any
 * thread. */
#include "turn/turn_affinity.h"

#include <string.h>
#include "base/buf.h"

bool pal_affinity_ids_make(
        const pal_runtime *runtime, pal_str tenant, pal_str conversation, pal_affinity_ids *out)
{
    uint8_t digest[PAL_SHA256_SIZE];
    if (pal_hmac_sha256(runtime->options.affinity_key, tenant, out->secret) != PAL_OK ||
            pal_hmac_sha256(pal_str_make((const char *)out->secret, sizeof out->secret),
                    conversation, digest) != PAL_OK)
        return false;
    pal_hex(digest, PAL_AFFINITY_ID_BYTES, out->conversation);
    return true;
}

void pal_affinity_ids_add(
        const pal_turn *turn, pal_affinity_ids *ids, pal_model_request *request)
{
    char session[PAL_ID_TEXT_SIZE];

    pal_id_to_text(turn->request.session, session);
    if (!pal_affinity_ids_make(
                turn->runtime, turn->request.tenant, pal_str_of(session), ids))
        return;
    request->conversation = pal_str_of(ids->conversation);
    if (turn->runtime->options.affinity_key.len > 0)
        request->secret = pal_str_make((const char *)ids->secret, sizeof(ids->secret));
}
