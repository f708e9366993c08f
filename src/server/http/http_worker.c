/* http_worker.c - threads for work that blocks or takes long. A worker is started when there
 * is work and no worker is idle. Workers then stay until the listener closes. A server that has had
 * no such work has no workers.
 *
 * Requests with large bodies have a few workers of their own. However many such requests arrive,
 * other requests still find workers, and only a few large bodies are processed at the same time. */
#include <string.h>
#include "base/memory.h"
#include "server/http/http_internal.h"

#define WORKER_STACK_BYTES ((size_t)1 << 20)

static void *run_worker(void *user)
{
    pal_worker_pool *workers = user;
    void *item;
    while (pal_queue_take(workers->queue, &item, 1)) {
        pal_exchange *x = item;
        x->work(x);
        atomic_fetch_add(&workers->idle, 1);
    }
    return NULL;
}

/* False: there is no worker at all. A new worker inherits the signal mask of its creator. Threads
 * of the listener and of the runtime block signals; the store's writer has the mask of the
 * thread that opened the store. */
static bool start_one(pal_worker_pool *workers)
{
    pthread_attr_t attr;
    pthread_mutex_lock(&workers->listener->lock);
    if (workers->len < workers->len_max && pthread_attr_init(&attr) == 0) {
        pthread_attr_setstacksize(&attr, WORKER_STACK_BYTES);
        pthread_t *thread = &workers->threads[workers->len];
        workers->len += pthread_create(thread, &attr, run_worker, workers) == 0;
        pthread_attr_destroy(&attr);
    }
    bool has_any = workers->len > 0;
    pthread_mutex_unlock(&workers->listener->lock);
    return has_any;
}

/* Reserves an idle worker for new work. False: none is idle. */
static bool claim_idle(pal_worker_pool *workers)
{
    unsigned idle = atomic_load(&workers->idle);
    while (idle) {
        if (atomic_compare_exchange_weak(&workers->idle, &idle, idle - 1))
            return true;
    }
    return false;
}

bool pal_exchange_try_worker(pal_exchange *x, pal_exchange_work work)
{
    pal_listener *listener = x->listener;
    pal_worker_pool *workers = x->is_large ? &listener->large_workers : &listener->workers;
    x->work = work;
    /* Start the worker before the push: afterwards x may be answered and the listener closed. */
    bool has_any = claim_idle(workers) || start_one(workers);
    return has_any && pal_queue_try_push(workers->queue, x) == PAL_OK;
}

void pal_exchange_to_worker(pal_exchange *x, pal_exchange_work work)
{
    if (!pal_exchange_try_worker(x, work))
        pal_exchange_refuse(x, 503, "too many waiting requests; retry later");
}

static bool open_workers(pal_worker_pool *workers, pal_listener *listener, uint32_t len_max)
{
    workers->listener = listener;
    workers->len_max = len_max;
    workers->queue = pal_queue_new(PAL_SERVER_WORK_QUEUE_MAX);
    return workers->queue != NULL;
}

pal_status pal_worker_pools_open(pal_listener *listener, pal_error *err)
{
    if (open_workers(&listener->workers, listener, PAL_SERVER_WORKERS_MAX) &&
            open_workers(&listener->large_workers, listener, PAL_SERVER_LARGE_WORKERS_MAX))
        return PAL_OK;
    return pal_no_memory(err);
}

static void end_workers(pal_worker_pool *workers)
{
    if (!workers->queue)
        return;
    pal_queue_close(workers->queue);
    for (uint32_t i = 0; i < workers->len; i++)
        pthread_join(workers->threads[i], NULL);
    pal_queue_free(workers->queue);
    workers->queue = NULL;
}

void pal_worker_pools_end(pal_listener *listener)
{
    end_workers(&listener->workers);
    end_workers(&listener->large_workers);
}
