/* store_front.h - the structure of the public handle pal_store. */
#ifndef PAL_STORE_FRONT_H
#define PAL_STORE_FRONT_H

#include <pthread.h>
#include <stdatomic.h>

#include "palaver/store_watch.h"
#include "store/store_backend.h"
#include "store/store_writer.h"

struct pal_store {
    pal_engine *engine;
    pal_writer *writer;
    pal_store_options options; /* with defaults filled in */
    struct {
        pal_store_on_change sink; /* NULL: this entry is free */
        void *user;
    } watchers[PAL_STORE_WATCHERS_MAX];
    atomic_size_t watchers_len;
    pthread_rwlock_t watch_lock; /* protects `watchers` */
    _Atomic int64_t probed_us; /* when pal_store_ready() last tried to write; see store_ready.c */
};

/* Notifies the watchers of the operations that changed something. */
void pal_store_changed(pal_store *store, const pal_op *ops, size_t ops_len);

/* Applies a batch of one operation. If the operation fails, the call fails with its error. */
PAL_CHECKED pal_status pal_store_apply_one(pal_store *store, pal_op *op, pal_error *err);

/* Returns the handle of a session, or none if `id` is empty, which means all sessions. The tenant
 * must have been checked. */
PAL_CHECKED pal_status pal_store_handle(
        pal_store *store, pal_str tenant, pal_id id, pal_handle *out_handle, pal_error *err);

#endif
