/* api_mistral_gate.c - admits one request at a time to each conversation. The admitted request has
 * a list of the waiting ones. When it leaves, the first waiting request is admitted. The lock is
 * held only briefly, and no callback runs under it. */
#include "server/api/mistral/api_mistral_gate.h"

#include <pthread.h>
#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "server/api/mistral/api_mistral.h"
#include "server/server_call.h"

struct pal_mistral_gate {
    pthread_mutex_t lock;
    pal_map inside; /* session and tenant -> pass of the admitted request */
};

struct pal_mistral_pass {
    pal_mistral_pass *next; /* the request that waits after this one */
    size_t waiting;         /* number of waiting requests; only counted in the pass of the admitted
                               request */
    pal_mistral_gate *gate;
    pal_call *call; /* valid until the request is admitted */
    void *user;     /* the call's own `user`, saved while it waits */
    pal_mistral_inside begin;
    size_t key_len;
    char key[sizeof(pal_id) + PAL_TENANT_LEN_MAX];
};

pal_mistral_gate *pal_mistral_gate_new(void)
{
    pal_mistral_gate *gate = pal_calloc(1, sizeof *gate);
    if (gate)
        pthread_mutex_init(&gate->lock, NULL);
    return gate;
}

void pal_mistral_gate_free(pal_mistral_gate *gate)
{
    if (!gate)
        return;
    pal_map_done(&gate->inside);
    pthread_mutex_destroy(&gate->lock);
    pal_free(gate);
}

static pal_mistral_pass *new_pass(pal_call *call, pal_id session, pal_mistral_inside inside)
{
    pal_str tenant = call->caller.tenant;
    pal_mistral_pass *pass = tenant.len <= PAL_TENANT_LEN_MAX ? pal_calloc(1, sizeof *pass) : NULL;
    if (!pass)
        return NULL;
    pass->gate = call->server->mistral_gate;
    pass->call = call;
    pass->user = call->user;
    pass->begin = inside;
    memcpy(pass->key, session.bytes, sizeof session.bytes);
    if (tenant.len)
        memcpy(pass->key + sizeof session.bytes, tenant.data, tenant.len);
    pass->key_len = sizeof session.bytes + tenant.len;
    return pass;
}

static pal_str key_of(const pal_mistral_pass *pass)
{
    return pal_str_make(pass->key, pass->key_len);
}

/* ---- Entering ---- */

/* Called on a worker, after all earlier requests have left. */
static void let_in(pal_exchange *x)
{
    pal_call *call = pal_exchange_call(x);
    pal_mistral_pass *pass = call->user;
    pal_error err = {0};
    call->user = pass->user;
    pal_status status = pass->begin(call, pass, &err);
    if (status == PAL_OK)
        return;
    pal_mistral_gate_leave(pass);
    pal_call_fail(call, pal_mistral_checked(call, status), &err);
}

/* The lock must be held. */
static pal_status wait_behind(pal_mistral_pass *first, pal_mistral_pass *pass, pal_error *err)
{
    pal_mistral_pass *last = first;
    if (first->waiting >= PAL_MISTRAL_WAITING_MAX)
        return pal_call_refuse(pass->call, 409, NULL, PAL_BUSY, err,
                "%d requests are already waiting for the conversation; retry later",
                PAL_MISTRAL_WAITING_MAX);
    while (last->next)
        last = last->next;
    pass->call->user = pass; /* Set before the pass is linked, because a leaving request may admit
                                it at once. */
    last->next = pass;
    first->waiting++;
    return PAL_OK;
}

pal_status pal_mistral_gate_enter(
        pal_call *call, pal_id session, pal_mistral_inside inside, pal_error *err)
{
    pal_mistral_gate *gate = call->server->mistral_gate;
    pal_mistral_pass *pass = new_pass(call, session, inside);
    pal_status status = PAL_OK;
    if (!pass)
        return pal_no_memory(err);
    pthread_mutex_lock(&gate->lock);
    pal_mistral_pass *first = pal_map_find(&gate->inside, key_of(pass));
    if (first)
        status = wait_behind(first, pass, err);
    else if (pal_map_set(&gate->inside, key_of(pass), pass) != PAL_OK)
        status = pal_no_memory(err);
    pthread_mutex_unlock(&gate->lock);
    if (status != PAL_OK) {
        pal_free(pass);
        return status;
    }
    if (first)
        return PAL_OK;
    status = inside(call, pass, err);
    if (status != PAL_OK)
        pal_mistral_gate_leave(pass);
    return status;
}

/* ---- Leaving ---- */

/* Admits the next request. Returns NULL if none is waiting. */
static pal_mistral_pass *pass_on(pal_mistral_pass *pass)
{
    pal_mistral_gate *gate = pass->gate;
    pthread_mutex_lock(&gate->lock);
    pal_mistral_pass *next = pass->next;
    pal_map_remove(&gate->inside, key_of(pass));
    if (next) {
        next->waiting = pass->waiting - 1;
        /* This cannot fail: an entry was just removed, so there is room. */
        (void)!pal_map_set(&gate->inside, key_of(next), next);
    }
    pthread_mutex_unlock(&gate->lock);
    pal_free(pass);
    return next;
}

void pal_mistral_gate_leave(pal_mistral_pass *pass)
{
    while (pass) {
        pal_mistral_pass *next = pass_on(pass);
        if (!next || pal_exchange_try_worker(next->call->exchange, let_in))
            return;
        pal_error err;
        pal_status status = pal_call_refuse(
                next->call, 503, NULL, PAL_BUSY, &err, "too many waiting requests; retry later");
        pal_call_fail(next->call, status, &err);
        pass = next;
    }
}
