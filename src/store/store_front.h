/* store_front.h - what is behind the public handle. */
#ifndef PAL_STORE_FRONT_H
#define PAL_STORE_FRONT_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/store_backend.h"
#include "store/store_writer.h"

struct pal_store {
    pal_engine *engine;
    pal_writer *writer;
    pal_store_options options; /* defaults already filled in */
    struct {
        pal_change_sink sink; /* NULL: free */
        void *user;
    } watchers[PAL_STORE_WATCHERS_MAX];
    atomic_size_t watchers_len;
    pthread_rwlock_t watch_lock; /* of `watchers` */
    _Atomic int64_t probed_us; /* when pal_store_ready() last tried a write */
};

/* Tells the watchers what of these has changed. */
void pal_store_changed(pal_store *store, const pal_op *ops, size_t ops_len);

/* A batch of one operation, whose failure is the call's. */
PAL_CHECKED pal_status pal_store_apply_one(pal_store *store, pal_op *op, pal_error *err);

/* The session of a tenant that is checked already, or of all where `id` is none: handle 0. */
PAL_CHECKED pal_status pal_store_handle(
        pal_store *store, pal_str tenant, pal_id id, uint64_t *out_handle, pal_error *err);

#endif
