/* queue.h - a queue of pointers with a maximum length. Any number of threads can push and take. */
#ifndef PAL_BASE_QUEUE_H
#define PAL_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include "palaver/error.h"

typedef struct pal_queue pal_queue;

/* Returns NULL if there is no memory. */
pal_queue *pal_queue_new(size_t items_max);
void pal_queue_free(pal_queue *queue); /* accepts NULL; no thread may be waiting */

/* Waits while the queue is full. PAL_CANCELED: the queue is closed. */
PAL_CHECKED pal_status pal_queue_push(pal_queue *queue, void *item);
/* Like pal_queue_push(), but returns PAL_LIMIT if the queue is full. */
PAL_CHECKED pal_status pal_queue_try_push(pal_queue *queue, void *item);

/* Waits for at least one item, then takes up to `items_max` items in order. 0: the queue is closed
 * and empty. */
size_t pal_queue_take(pal_queue *queue, void **out_items, size_t items_max);

/* Rejects further pushes. The items in the queue can still be taken. */
void pal_queue_close(pal_queue *queue);

#endif
