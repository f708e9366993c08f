/* node_pass.h - passes requests on to the node that runs their turn. */
#ifndef PAL_NODE_PASS_H
#define PAL_NODE_PASS_H

#include "server/server_call.h"

typedef struct pal_passes pal_passes; /* the requests that this process passes on */

/* *out_passes is set and must be closed even if this fails. */
PAL_CHECKED pal_status pal_pass_open(pal_store *store, pal_passes **out_passes, pal_error *err);
/* The server closes: waits some seconds for the responses of other nodes, then ends all requests
 * that still wait, with 503 or the end of their stream. No more requests are passed on. Accepts
 * NULL. */
void pal_pass_end(pal_passes *passes);
/* Call it after the listener was closed. Accepts NULL. */
void pal_pass_close(pal_passes *passes);
/* Counts the requests that were passed on. Accepts NULL. */
uint64_t pal_pass_count(pal_passes *passes);

/* Whether another node has passed the request on to this one. */
bool pal_pass_is_from_node(const pal_call *call);

/* Whether the path names a turn that this node has started. */
bool pal_pass_is_own_turn(const pal_call *call);

/* Passes the request on if its path names a turn of another node, or if this process stops and
 * another node is there. Does not read the store. If it returns true, the call must not be used
 * afterwards. If the other node cannot be reached, the request is handled again with is_kept
 * set. */
bool pal_pass_request(pal_call *call);

/* Passes the request on to the node that runs a turn in a session, unless it is this one. Reads the
 * store if the turn's slot does not lead to a node. The rules of pal_pass_request() apply. Call it
 * on a worker. */
bool pal_pass_to_holder(pal_call *call, pal_id turn, pal_id session);
/* Passes the request on to the node where the session is at home, unless it is this one. Use it for
 * requests that are ordered by locks in memory. Does not read the store. The rules of
 * pal_pass_request() apply. */
bool pal_pass_to_home(pal_call *call, pal_id session);
/* Returns an id for a new session. If the call has no idempotency key, the session is at home in
 * this process. */
pal_id pal_pass_id_here(const pal_call *call, uint32_t n);
/* The same as pal_pass_to_holder(), if the turn is not in this process and has not ended. */
bool pal_pass_turn(pal_call *call, const pal_turn_info *info);

#endif
