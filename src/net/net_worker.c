/* net_worker.c - the threads of a loop that run blocking work. They are separate from libuv's pool,
 * so that the owner chooses their number and no other work waits for a slow disk.
 *
 * Items wait in one list under the workers' lock, and each is taken by one thread. The loop is held
 * from pal_worker_run() until the item's `done` has run, so it does not end before. When the
 * workers are closed, they run all waiting items first. */
#include <assert.h>
#include <string.h>
#include "base/memory.h"
#include "net/net_loop_internal.h"

void pal_worker_run(pal_loop *loop, pal_work_item *item)
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
    pthread_mutex_unlock(&workers->lock);
    pthread_cond_signal(&workers->more); /* after the unlock, so that the woken thread does not wait
                                            for the lock */
}

/* Returns NULL when the workers must end. */
static pal_work_item *take(pal_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    while (!workers->first && !workers->closing)
        pthread_cond_wait(&workers->more, &workers->lock);
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
    pal_loop *loop = user;
    for (pal_work_item *item; (item = take(&loop->workers)) != NULL;) {
        item->work(item);
        pal_loop_tell_done(loop, item);
    }
    return NULL;
}

pal_status pal_workers_open(pal_loop *loop, uint32_t len, pal_error *err)
{
    pal_workers *workers = &loop->workers;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->more, NULL);
    int rc = 0;
    workers->threads = pal_calloc(len, sizeof *workers->threads);
    if (!workers->threads) {
        pal_workers_close(loop);
        return pal_no_memory(err);
    }
    while (workers->threads_len < len && rc == 0) {
        rc = pal_net_thread_start(&workers->threads[workers->threads_len], 0, run_worker, loop);
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
    pthread_cond_broadcast(&workers->more);
    pthread_mutex_unlock(&workers->lock);
    for (uint32_t i = 0; i < workers->threads_len; i++)
        pthread_join(workers->threads[i], NULL);
    pal_free(workers->threads);
    pthread_cond_destroy(&workers->more);
    pthread_mutex_destroy(&workers->lock);
}
