/* turn_ask.c - lets another thread have something done on the loop, and waits for it. */
#include "turn/turn_ask.h"

#include <time.h>

void pal_ask_begin(pal_ask *ask)
{
    ask->is_done = false;
    pthread_mutex_init(&ask->lock, NULL);
    pthread_cond_init(&ask->done, NULL);
}

static void ask_done(pal_ask *ask)
{
    pthread_cond_destroy(&ask->done);
    pthread_mutex_destroy(&ask->lock);
}

void pal_ask_wait(pal_ask *ask)
{
    pthread_mutex_lock(&ask->lock);
    while (!ask->is_done)
        pthread_cond_wait(&ask->done, &ask->lock);
    pthread_mutex_unlock(&ask->lock);
    ask_done(ask);
}

bool pal_ask_wait_for(pal_ask *ask, int64_t timeout_ms)
{
    struct timespec until;
    bool is_done;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&ask->lock);
    while (!ask->is_done && pthread_cond_timedwait(&ask->done, &ask->lock, &until) == 0)
        ;
    is_done = ask->is_done;
    pthread_mutex_unlock(&ask->lock);
    return is_done;
}

/* The lock is held while it wakes: the waiter can't destroy it before. */
void pal_ask_end(pal_ask *ask)
{
    pthread_mutex_lock(&ask->lock);
    ask->is_done = true;
    pthread_cond_signal(&ask->done);
    pthread_mutex_unlock(&ask->lock);
}

static void run_task(pal_task *task)
{
    pal_ask *ask = (pal_ask *)((char *)task - offsetof(pal_ask, task));

    ask->run(ask);
    pal_ask_end(ask);
}

void pal_ask_loop(pal_loop *loop, pal_ask *ask)
{
    if (pal_loop_is_on(loop)) {
        ask->run(ask);
        return;
    }
    pal_ask_begin(ask);
    ask->task.run = run_task;
    pal_loop_post(loop, &ask->task);
    pal_ask_wait(ask);
}
