/* server_idempotency.h - a request that is repeated with the same `Idempotency-Key` does its work
 * once. */
#ifndef PAL_SERVER_IDEMPOTENCY_H
#define PAL_SERVER_IDEMPOTENCY_H

#include "server/server.h"
#include "server/server_limits.h"

struct pal_idempotency *pal_idempotency_new(void);              /* returns NULL if out of memory */
void pal_idempotency_free(struct pal_idempotency *idempotency); /* accepts NULL */

/* Call it before the handler. PAL_OK with *out_answered: the call was answered with the response of
 * the first attempt. A call without the header continues normally. */
PAL_CHECKED pal_status pal_idempotency_begin(pal_call *call, bool *out_answered, pal_error *err);

/* Derives the id with number `n` from the call's idempotency key. False: the call has no key, or
 * there is no memory. */
bool pal_idempotency_derive_id(const pal_call *call, uint32_t n, pal_id *out_id);

/* The operations that are applied instead of those of the handler. */
typedef struct pal_idempotent_batch {
    pal_op *ops;
    size_t *from; /* the index of the handler's operation; SIZE_MAX for an additional one */
    size_t len;
    bool begins; /* the first operation fails with PAL_CONFLICT if another process has the key */
} pal_idempotent_batch;

/* Builds the batch in the arena: the handler's operations, and others that record in the same
 * commit that they were applied. Operations of a repeated request that were applied before are left
 * out, and their status is set. */
PAL_CHECKED pal_status pal_idempotency_batch(pal_call *call, pal_op *ops, size_t ops_len,
        pal_idempotent_batch *out_batch, pal_error *err);

/* Fails a request because another one with its key is running. Returns the status. */
pal_status pal_idempotency_running(pal_call *call, pal_error *err);
/* Fails a repeated request whose work was done before but cannot be found. Returns the status. */
pal_status pal_idempotency_lost(pal_call *call, pal_error *err);

/* Stores the response. Call it on a worker. */
void pal_idempotency_save(pal_call *call, unsigned code, pal_str body);
/* Prevents that the response is stored and sent again for the same key. */
void pal_idempotency_forget(pal_call *call);

/* Releases the key. Can be called any number of times. */
void pal_idempotency_end(pal_call *call);

#endif
