/* server_idempotency.h - the same request, sent again under the same key, does its work once. */
#ifndef PAL_SERVER_IDEMPOTENCY_H
#define PAL_SERVER_IDEMPOTENCY_H

#include "server/server.h"
#include "server/server_limits.h"

struct pal_idempotency *pal_idempotency_new(void);              /* NULL without memory */
void pal_idempotency_free(struct pal_idempotency *idempotency); /* accepts NULL */

/* Before the handler. PAL_OK with *out_answered: the call has been answered as the first time. A
 * call without the header passes. */
PAL_CHECKED pal_status pal_idempotency_begin(pal_call *call, bool *out_answered, pal_error *err);

/* What is applied in the place of a handler's operations. */
typedef struct pal_idempotent_batch {
    pal_op *ops;
    size_t *from; /* which of the handler's each of them is; SIZE_MAX: none of them */
    size_t len;
} pal_idempotent_batch;

/* The operations, and one more that records that they were applied, in the same commit. Of a
 * repeat, those that were applied before are left out: their status is set. In the arena. */
PAL_CHECKED pal_status pal_idempotency_batch(pal_call *call, pal_op *ops, size_t ops_len,
        pal_idempotent_batch *out_batch, pal_error *err);

/* Fails a repeat whose work was done before, but can't be found any more. Returns the status. */
pal_status pal_idempotency_lost(pal_call *call, pal_error *err);

/* Remembers the answer; on a worker. */
void pal_idempotency_save(pal_call *call, unsigned code, pal_str body);
/* The answer that is about to be sent is not to be sent again under the same key. */
void pal_idempotency_forget(pal_call *call);

/* The key is free for others. Any number of times. */
void pal_idempotency_end(pal_call *call);

#endif
