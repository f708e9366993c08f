/* queue.h - a bounded queue of pointers between threads. Any number of threads on either side. */
#ifndef PAL_BASE_QUEUE_H
#define PAL_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include "palaver/error.h"

typedef struct pal_queue pal_queue;

/* NULL when there is no memory. */
pal_queue *pal_queue_new(size_t items_max);
void pal_queue_free(pal_queue *queue); /* accepts NULL; nobody may be waiting */

/* Waits while the queue is full; PAL_CANCELED once it is closed. */
PAL_CHECKED pal_status pal_queue_push(pal_queue *queue, void *item);
/* PAL_LIMIT instead of waiting. */
PAL_CHECKED pal_status pal_queue_try_push(pal_queue *queue, void *item);

/* Waits for at least one item, takes up to `items_max` in their order. 0 means that the queue is
 * closed and empty. */
size_t pal_queue_take(pal_queue *queue, void **out_items, size_t items_max);

/* No more pushes; takers still get what is in it. */
void pal_queue_close(pal_queue *queue);

#endif
