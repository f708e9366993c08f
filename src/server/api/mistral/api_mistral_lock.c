/* api_mistral_lock.c - locks on conversations. The request that holds a lock has a list of the
 * waiting ones. When it releases the lock, the first waiting request gets it. The mutex is held
 * only briefly, and no callback runs under it. */
#include "server/api/mistral/api_mistral_lock.h"

#include <pthread.h>
#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "server/api/mistral/api_mistral.h"
#include "server/server_call.h"

struct pal_mistral_locks {
    pthread_mutex_t mutex;
    pal_map holders; /* session and tenant -> hold of the admitted request */
};

struct pal_mistral_hold {
    pal_mistral_hold *next; /* the request that waits after this one */
    size_t waiting;         /* number of waiting requests; only counted in the hold of the admitted
                               request */
    pal_mistral_locks *locks;
    pal_call *call; /* valid until the request is admitted */
    void *user;     /* the call's own `user`, saved while it waits */
    pal_mistral_on_acquire on_acquire;
    size_t key_len;
    char key[sizeof(pal_id) + PAL_TENANT_LEN_MAX];
};

pal_mistral_locks *pal_mistral_locks_new(void)
{
    pal_mistral_locks *locks = pal_calloc(1, sizeof *locks);
    if (locks)
        pthread_mutex_init(&locks->mutex, NULL);
    return locks;
}

void pal_mistral_locks_free(pal_mistral_locks *locks)
{
    if (!locks)
        return;
    pal_map_done(&locks->holders);
    pthread_mutex_destroy(&locks->mutex);
    pal_free(locks);
}

static pal_mistral_hold *new_hold(pal_call *call, pal_id session, pal_mistral_on_acquire on_acquire)
{
    pal_str tenant = call->caller.tenant;
    pal_mistral_hold *hold = tenant.len <= PAL_TENANT_LEN_MAX ? pal_calloc(1, sizeof *hold) : NULL;
    if (!hold)
        return NULL;
    hold->locks = call->server->mistral_locks;
    hold->call = call;
    hold->user = call->user;
    hold->on_acquire = on_acquire;
    memcpy(hold->key, session.bytes, sizeof session.bytes);
    if (tenant.len)
        memcpy(hold->key + sizeof session.bytes, tenant.data, tenant.len);
    hold->key_len = sizeof session.bytes + tenant.len;
    return hold;
}

static pal_str key_of(const pal_mistral_hold *hold)
{
    return pal_str_make(hold->key, hold->key_len);
}

/* ---- Acquiring ---- */

/* Called on a worker, after all earlier requests have left. */
static void acquired(pal_exchange *x)
{
    pal_call *call = x->call;
    pal_mistral_hold *hold = call->user;
    pal_error err = {0};
    call->user = hold->user;
    pal_status status = hold->on_acquire(call, hold, &err);
    if (status == PAL_OK)
        return;
    pal_mistral_lock_release(hold);
    pal_call_fail(call, pal_mistral_checked(call, status), &err);
}

/* The lock must be held. */
static pal_status wait_after(pal_mistral_hold *first, pal_mistral_hold *hold, pal_error *err)
{
    pal_mistral_hold *last = first;
    if (first->waiting >= PAL_MISTRAL_WAITING_MAX)
        return pal_call_refuse(hold->call, 409, NULL, PAL_BUSY, err,
                "%d requests are already waiting for the conversation; retry later",
                PAL_MISTRAL_WAITING_MAX);
    while (last->next)
        last = last->next;
    hold->call->user = hold; /* Set before the hold is linked, because a leaving request may admit
                                it at once. */
    last->next = hold;
    first->waiting++;
    return PAL_OK;
}

pal_status pal_mistral_lock_acquire(
        pal_call *call, pal_id session, pal_mistral_on_acquire on_acquire, pal_error *err)
{
    pal_mistral_locks *locks = call->server->mistral_locks;
    pal_mistral_hold *hold = new_hold(call, session, on_acquire);
    pal_status status = PAL_OK;
    if (!hold)
        return pal_no_memory(err);
    pthread_mutex_lock(&locks->mutex);
    pal_mistral_hold *first = pal_map_find(&locks->holders, key_of(hold));
    if (first)
        status = wait_after(first, hold, err);
    else if (pal_map_set(&locks->holders, key_of(hold), hold) != PAL_OK)
        status = pal_no_memory(err);
    pthread_mutex_unlock(&locks->mutex);
    if (status != PAL_OK) {
        pal_free(hold);
        return status;
    }
    if (first)
        return PAL_OK;
    status = on_acquire(call, hold, err);
    if (status != PAL_OK)
        pal_mistral_lock_release(hold);
    return status;
}

/* ---- Releasing ---- */

/* Admits the next request. Returns NULL if none is waiting. */
static pal_mistral_hold *hand_on(pal_mistral_hold *hold)
{
    pal_mistral_locks *locks = hold->locks;
    pthread_mutex_lock(&locks->mutex);
    pal_mistral_hold *next = hold->next;
    pal_map_remove(&locks->holders, key_of(hold));
    if (next) {
        next->waiting = hold->waiting - 1;
        /* This cannot fail: an entry was just removed, so there is room. */
        (void)!pal_map_set(&locks->holders, key_of(next), next);
    }
    pthread_mutex_unlock(&locks->mutex);
    pal_free(hold);
    return next;
}

void pal_mistral_lock_release(pal_mistral_hold *hold)
{
    while (hold) {
        pal_mistral_hold *next = hand_on(hold);
        if (!next || pal_exchange_try_worker(next->call->exchange, acquired))
            return;
        pal_error err;
        pal_status status = pal_call_refuse(
                next->call, 503, NULL, PAL_BUSY, &err, "too many waiting requests; retry later");
        pal_call_fail(next->call, status, &err);
        hold = next;
    }
}
