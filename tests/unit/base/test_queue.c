/* test_queue.c - the queue between threads. */
#include <pthread.h>
#include <stdint.h>
#include "base/memory.h"
#include "base/queue.h"
#include "support/tap.h"

#define PUSHERS 4
#define ITEMS 5000 /* items per pusher */

static void items_keep_their_order(void)
{
    int items[5];
    void *taken[8];
    pal_queue *queue = pal_queue_new(4);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            CHECK_STATUS(pal_queue_push(queue, &items[i]), PAL_OK);
        CHECK_STATUS(pal_queue_try_push(queue, &items[4]), PAL_LIMIT);
        if (CHECK_EQ(pal_queue_take(queue, taken, 1), 1))
            CHECK_PTR(taken[0], &items[0]);
        CHECK_STATUS(pal_queue_try_push(queue, &items[4]), PAL_OK);
        CHECK_EQ(pal_queue_take(queue, taken, 8), 4);
        for (int i = 0; i < 4; i++)
            CHECK_PTR(taken[i], &items[i + 1]);
    }
    pal_queue_free(queue);
    pal_queue_free(NULL);
}

static void a_closed_queue_still_returns_its_items(void)
{
    int item;
    void *taken[2];
    pal_queue *queue = pal_queue_new(2);
    CHECK_STATUS(pal_queue_push(queue, &item), PAL_OK);
    pal_queue_close(queue);
    CHECK_STATUS(pal_queue_push(queue, &item), PAL_CANCELED);
    CHECK_STATUS(pal_queue_try_push(queue, &item), PAL_CANCELED);
    if (CHECK_EQ(pal_queue_take(queue, taken, 2), 1))
        CHECK_PTR(taken[0], &item);
    CHECK_EQ(pal_queue_take(queue, taken, 2), 0);
    pal_queue_free(queue);
}

typedef struct job {
    pal_queue *queue;
    int number;
    bool ok;
} job;

/* Items carry their pusher and a growing number. */
static void *push_all(void *user)
{
    job *self = user;
    self->ok = true;
    for (uintptr_t i = 1; i <= ITEMS; i++) {
        void *item = (void *)((uintptr_t)self->number << 32 | i);
        self->ok = self->ok && pal_queue_push(self->queue, item) == PAL_OK;
    }
    return NULL;
}

static void no_item_is_lost_between_threads(void)
{
    pal_queue *queue = pal_queue_new(7);
    pthread_t threads[PUSHERS];
    job jobs[PUSHERS];
    for (int i = 0; i < PUSHERS; i++) {
        jobs[i] = (job){queue, i, false};
        CHECK_EQ(pthread_create(&threads[i], NULL, push_all, &jobs[i]), 0);
    }
    uintptr_t last[PUSHERS] = {0};
    for (int left = PUSHERS * ITEMS; left > 0;) {
        void *items[5];
        size_t count = pal_queue_take(queue, items, 5);
        CHECK_THAT(count, >=, 1);
        CHECK_THAT(count, <=, 5);
        for (size_t i = 0; i < count; i++) {
            uintptr_t pusher = (uintptr_t)items[i] >> 32, number = (uintptr_t)items[i] & 0xffffffff;
            CHECK_EQ(number, last[pusher] + 1);
            last[pusher] = number;
        }
        left -= (int)count;
    }
    for (int i = 0; i < PUSHERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(jobs[i].ok);
        CHECK_EQ(last[i], ITEMS);
    }
    CHECK_STATUS(pal_queue_try_push(queue, queue), PAL_OK);
    pal_queue_free(queue);
}

static void *take_all(void *user)
{
    job *self = user;
    void *item;
    while (pal_queue_take(self->queue, &item, 1))
        self->number++;
    return NULL;
}

static void several_consumers_share_the_items(void)
{
    pal_queue *queue = pal_queue_new(16);
    pthread_t threads[3];
    job jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = (job){queue, 0, false};
        CHECK_EQ(pthread_create(&threads[i], NULL, take_all, &jobs[i]), 0);
    }
    for (int i = 0; i < ITEMS; i++)
        CHECK_STATUS(pal_queue_push(queue, queue), PAL_OK);
    pal_queue_close(queue);
    int taken = 0;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        taken += jobs[i].number;
    }
    CHECK_EQ(taken, ITEMS);
    pal_queue_free(queue);
}

static void *push_until_closed(void *user)
{
    job *self = user;
    pal_status status;
    do
        status = pal_queue_push(self->queue, self);
    while (status == PAL_OK);
    self->ok = status == PAL_CANCELED;
    return NULL;
}

static void closing_wakes_waiting_threads(void)
{
    pal_queue *queue = pal_queue_new(1);
    pthread_t threads[3];
    job jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = (job){queue, i, false};
        CHECK_EQ(pthread_create(&threads[i], NULL, push_until_closed, &jobs[i]), 0);
    }
    void *item;
    CHECK_EQ(pal_queue_take(queue, &item, 1), 1);
    pal_queue_close(queue);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(jobs[i].ok);
    }
    pal_queue_free(queue);
}

static void an_allocation_failure_creates_no_queue(void)
{
    pal_memory_fail_at(1, 1);
    CHECK(!pal_queue_new(10));
    pal_memory_fail_at(0, 0);
    CHECK(!pal_queue_new(SIZE_MAX));
}

int main(void)
{
    RUN(items_keep_their_order);
    RUN(a_closed_queue_still_returns_its_items);
    RUN(no_item_is_lost_between_threads);
    RUN(several_consumers_share_the_items);
    RUN(closing_wakes_waiting_threads);
    RUN(an_allocation_failure_creates_no_queue);
    return tap_done();
}
