/* on_loop.h - runs a function on a loop and waits for it; and a bell that the loop rings for a
 * test. Nothing here sleeps: a wait ends with its event, or fails after a minute. */
#ifndef PAL_TESTS_ON_LOOP_H
#define PAL_TESTS_ON_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include "net/net_loop.h"

#define BELL_SECONDS 60

/* Counts rings. */
typedef struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    int count;
} bell;

#define BELL_INIT                                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                                     \
    }

static inline void bell_ring(bell *b)
{
    pthread_mutex_lock(&b->lock);
    b->count++;
    pthread_cond_broadcast(&b->rung);
    pthread_mutex_unlock(&b->lock);
}

/* Waits until it was rung `count` times, and subtracts them. */
static inline bool bell_wait(bell *b, int count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += BELL_SECONDS;
    pthread_mutex_lock(&b->lock);
    int rc = 0;
    while (b->count < count && rc == 0)
        rc = pthread_cond_timedwait(&b->rung, &b->lock, &until);
    bool held = b->count >= count;
    b->count -= held ? count : 0;
    pthread_mutex_unlock(&b->lock);
    return held;
}

typedef struct on_loop_job {
    pal_task task;
    void (*run)(void *user);
    void *user;
    bell done;
} on_loop_job;

static inline void on_loop_run(pal_task *task)
{
    on_loop_job *job = (on_loop_job *)task;
    job->run(job->user);
    bell_ring(&job->done);
}

static inline void on_loop(pal_loop *loop, void (*run)(void *user), void *user)
{
    on_loop_job job = {{on_loop_run, NULL}, run, user, BELL_INIT};
    pal_loop_post(loop, &job.task);
    while (!bell_wait(&job.done, 1))
        continue;
}

#endif
