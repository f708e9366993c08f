/* store_prepare.h - prepares operations for a backend: checks them, fills in defaults and encodes
 * messages. */
#ifndef PAL_STORE_PREPARE_H
#define PAL_STORE_PREPARE_H

#include "base/buf.h"
#include "store/store_backend.h"

typedef struct pal_prepared_batch {
    pal_arena *arena;
    pal_buf bodies; /* bodies of all messages, concatenated */
    pal_work *works;
    size_t works_len;
} pal_prepared_batch;

/* Makes a work of every operation that passes its checks. The others get their status and are left
 * out. `now_ms` is the time of the batch. Release with pal_store_prepared_done(), even after a
 * failure. */
PAL_CHECKED pal_status pal_store_prepare(const pal_store_options *options, int64_t now_ms,
        pal_op *ops, size_t ops_len, pal_prepared_batch *out_prepared, pal_error *err);
void pal_store_prepared_done(pal_prepared_batch *prepared);

/* Checks a RECORD_PUT or RECORD_DROP. */
PAL_CHECKED pal_status pal_record_check(const pal_op *op, pal_error *err);

/* Returns the message's tokens: the given number, or the count in the store's encoding. */
PAL_CHECKED pal_status pal_store_count_tokens(const pal_store_options *options,
        const pal_message *message, uint32_t *out_tokens, pal_error *err);

#endif
