/* store_prepare.h - operations made ready for a backend: checked, with defaults, encoded. */
#ifndef PAL_STORE_PREPARE_H
#define PAL_STORE_PREPARE_H

#include "base/buf.h"
#include "store/store_backend.h"

typedef struct pal_prepared {
    pal_arena *arena;
    pal_buf bodies; /* of all messages, one behind the other */
    pal_work *works;
    size_t works_len;
} pal_prepared;

/* An empty tenant is "default". */
pal_str pal_tenant_or_default(pal_str tenant);
PAL_CHECKED pal_status pal_tenant_check(pal_str tenant, pal_error *err);

/* Makes a work of every operation that passes its checks; the others get their status, and are
 * left out. Release with pal_prepared_done(), also after a failure. */
PAL_CHECKED pal_status pal_prepare(const pal_store_options *options, pal_op *ops, size_t ops_len,
        pal_prepared *out_prepared, pal_error *err);
void pal_prepared_done(pal_prepared *prepared);

/* Of RECORD_PUT and RECORD_DROP. */
PAL_CHECKED pal_status pal_record_check(const pal_op *op, pal_error *err);

/* What the message counts, by what was given or by the store's encoding. */
PAL_CHECKED pal_status pal_row_count(const pal_store_options *options, const pal_message *message,
        uint32_t *out_tokens, pal_error *err);

/* Tells the callers' messages what the backend gave to their rows. */
void pal_prepared_publish(pal_prepared *prepared);

#endif
