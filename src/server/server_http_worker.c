/* server_http_worker.c - threads for handlers that block. They are started when there is work and
 * none is idle, and stay: an idle server has none. */
#include <string.h>
#include "server/server_http_inside.h"

#define WORKER_STACK_BYTES ((size_t)1 << 20)

static void *run_worker(void *user)
{
    pal_listener *listener = user;
    void *item;
    while (pal_queue_take(listener->queue, &item, 1)) {
        pal_exchange *x = item;
        x->work(x);
        atomic_fetch_add(&listener->workers_idle, 1);
    }
    return NULL;
}

/* False where there is none at all. Signals are blocked: who starts it is one of the listener's own
 * threads. */
static bool start_one(pal_listener *listener)
{
    pthread_attr_t attr;
    pthread_mutex_lock(&listener->lock);
    if (listener->workers_len < PAL_SERVER_WORKERS_MAX && pthread_attr_init(&attr) == 0) {
        pthread_attr_setstacksize(&attr, WORKER_STACK_BYTES);
        pthread_t *thread = &listener->workers[listener->workers_len];
        listener->workers_len += pthread_create(thread, &attr, run_worker, listener) == 0;
        pthread_attr_destroy(&attr);
    }
    bool has_any = listener->workers_len > 0;
    pthread_mutex_unlock(&listener->lock);
    return has_any;
}

/* Takes one of the idle ones for a new work item; false where none is. */
static bool claim_idle(pal_listener *listener)
{
    unsigned idle = atomic_load(&listener->workers_idle);
    while (idle) {
        if (atomic_compare_exchange_weak(&listener->workers_idle, &idle, idle - 1))
            return true;
    }
    return false;
}

bool pal_exchange_try_worker(pal_exchange *x, pal_exchange_work work)
{
    pal_listener *listener = x->listener;
    x->work = work;
    /* Started before the push: afterwards x may be answered, and the listener closed. */
    bool has_any = claim_idle(listener) || start_one(listener);
    return has_any && pal_queue_try_push(listener->queue, x) == PAL_OK;
}

void pal_exchange_to_worker(pal_exchange *x, pal_exchange_work work)
{
    if (!pal_exchange_try_worker(x, work))
        pal_exchange_refuse(x, 503, "too many requests wait; try again");
}

void pal_listener_end_workers(pal_listener *listener)
{
    if (!listener->queue)
        return;
    pal_queue_close(listener->queue);
    for (uint32_t i = 0; i < listener->workers_len; i++)
        pthread_join(listener->workers[i], NULL);
    pal_queue_free(listener->queue);
    listener->queue = NULL;
}
