/* queue.c - a ring of pointers under one lock, with a condition variable for each side.
 *
 * Items are taken in batches, so a busy writer takes the lock once for many items. */
#include "base/queue.h"

#include <pthread.h>
#include "base/memory.h"

struct pal_queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
    pthread_cond_t not_full;
    size_t items_max;
    size_t first;
    size_t len;
    bool closed;
    void *items[];
};

pal_queue *pal_queue_new(size_t items_max)
{
    size_t size;
    items_max += items_max == 0;
    if (__builtin_mul_overflow(items_max, sizeof(void *), &size) ||
            __builtin_add_overflow(size, sizeof(pal_queue), &size))
        return NULL;
    pal_queue *queue = pal_calloc(1, size);
    if (!queue)
        return NULL;
    /* With default attributes none of these calls can fail. */
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->not_empty, NULL);
    pthread_cond_init(&queue->not_full, NULL);
    queue->items_max = items_max;
    return queue;
}

void pal_queue_free(pal_queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->not_full);
    pthread_cond_destroy(&queue->not_empty);
    pthread_mutex_destroy(&queue->lock);
    pal_free(queue);
}

static pal_status push(pal_queue *queue, void *item, bool may_wait)
{
    pal_status status = PAL_OK;
    pthread_mutex_lock(&queue->lock);
    while (may_wait && !queue->closed && queue->len == queue->items_max)
        pthread_cond_wait(&queue->not_full, &queue->lock);
    if (queue->closed) {
        status = PAL_CANCELED;
    } else if (queue->len == queue->items_max) {
        status = PAL_LIMIT;
    } else {
        queue->items[(queue->first + queue->len) % queue->items_max] = item;
        queue->len++;
        pthread_cond_signal(&queue->not_empty);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

pal_status pal_queue_push(pal_queue *queue, void *item)
{
    return push(queue, item, true);
}

pal_status pal_queue_try_push(pal_queue *queue, void *item)
{
    return push(queue, item, false);
}

size_t pal_queue_take(pal_queue *queue, void **out_items, size_t items_max)
{
    size_t taken = 0;
    pthread_mutex_lock(&queue->lock);
    while (queue->len == 0 && !queue->closed)
        pthread_cond_wait(&queue->not_empty, &queue->lock);
    while (queue->len && taken < items_max) {
        out_items[taken++] = queue->items[queue->first];
        queue->first = (queue->first + 1) % queue->items_max;
        queue->len--;
    }
    /* Several producers may have room now; a signal would wake only one of them. */
    if (taken)
        pthread_cond_broadcast(&queue->not_full);
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

void pal_queue_close(pal_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_cond_broadcast(&queue->not_full);
    pthread_mutex_unlock(&queue->lock);
}
