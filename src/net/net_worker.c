/* net_worker.c - the threads beside a loop that run what blocks. Their own and not libuv's pool, so
 * that how many there are is the owner's choice and nothing of others waits behind a slow disk.
 *
 * Of those that are idle the last one is woken: what it needs is still in the processor's caches,
 * and while there is little to do, the others and their memory stay untouched. */
#include <assert.h>
#include <string.h>
#include "base/memory.h"
#include "net/net_loop_inside.h"

struct pal_worker {
    pal_loop *loop;
    pthread_t thread;
    pthread_cond_t more;
    pal_worker *next_idle;
    bool is_woken;
};

/* The lock is held. NULL: all are at work, and take what waits when they are done. */
static pal_worker *wake_one(pal_workers *workers)
{
    pal_worker *worker = workers->idle;
    if (!worker)
        return NULL;
    workers->idle = worker->next_idle;
    worker->is_woken = true;
    return worker;
}

void pal_loop_work(pal_loop *loop, pal_work_item *item)
{
    pal_workers *workers = &loop->workers;
    assert(pal_loop_is_on(loop));
    pal_loop_hold(loop);
    item->next = NULL;
    pthread_mutex_lock(&workers->lock);
    if (workers->last)
        workers->last->next = item;
    else
        workers->first = item;
    workers->last = item;
    pal_worker *worker = wake_one(workers);
    pthread_mutex_unlock(&workers->lock);
    if (worker)
        pthread_cond_signal(&worker->more); /* whoever wakes up doesn't run into the lock */
}

/* The lock is held, and is given up meanwhile. */
static void wait(pal_workers *workers, pal_worker *worker)
{
    worker->next_idle = workers->idle;
    workers->idle = worker;
    worker->is_woken = false;
    while (!worker->is_woken)
        pthread_cond_wait(&worker->more, &workers->lock);
}

/* NULL at the end. */
static pal_work_item *take(pal_workers *workers, pal_worker *worker)
{
    pthread_mutex_lock(&workers->lock);
    while (!workers->first && !workers->closing)
        wait(workers, worker);
    pal_work_item *item = workers->first;
    if (item) {
        workers->first = item->next;
        if (!workers->first)
            workers->last = NULL;
    }
    pthread_mutex_unlock(&workers->lock);
    return item;
}

static void *run_worker(void *user)
{
    pal_worker *worker = user;
    for (pal_work_item *item; (item = take(&worker->loop->workers, worker)) != NULL;) {
        item->work(item);
        pal_loop_tell_done(worker->loop, item);
    }
    return NULL;
}

static int start(pal_loop *loop, pal_worker *worker)
{
    worker->loop = loop;
    pthread_cond_init(&worker->more, NULL);
    int rc = pal_thread_start(&worker->thread, 0, run_worker, worker);
    if (rc)
        pthread_cond_destroy(&worker->more);
    return rc;
}

pal_status pal_workers_open(pal_loop *loop, uint32_t len, pal_error *err)
{
    pal_workers *workers = &loop->workers;
    pthread_mutex_init(&workers->lock, NULL);
    int rc = 0;
    workers->threads = pal_calloc(len, sizeof *workers->threads);
    if (!workers->threads) {
        pal_workers_close(loop);
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    }
    while (workers->threads_len < len && rc == 0) {
        rc = start(loop, &workers->threads[workers->threads_len]);
        workers->threads_len += rc == 0;
    }
    if (rc) {
        pal_workers_close(loop);
        return pal_error_set(err, PAL_IO, "could not start a thread: %s", strerror(rc));
    }
    return PAL_OK;
}

void pal_workers_close(pal_loop *loop)
{
    pal_workers *workers = &loop->workers;
    pthread_mutex_lock(&workers->lock);
    workers->closing = true;
    for (pal_worker *worker; (worker = wake_one(workers)) != NULL;)
        pthread_cond_signal(&worker->more);
    pthread_mutex_unlock(&workers->lock);
    for (uint32_t i = 0; i < workers->threads_len; i++) {
        pthread_join(workers->threads[i].thread, NULL);
        pthread_cond_destroy(&workers->threads[i].more);
    }
    pal_free(workers->threads);
    pthread_mutex_destroy(&workers->lock);
}
