/* runtime_ask.c - runs a function on the loop for another thread, which waits until it is done. The
 * request is on the stack of the waiting thread. */
#include "turn/runtime/runtime_ask.h"

#include <errno.h>
#include <time.h>

void pal_ask_begin(pal_ask *ask)
{
    sem_init(&ask->done, 0, 0);
}

void pal_ask_wait(pal_ask *ask)
{
    while (sem_wait(&ask->done) && errno == EINTR)
        ;
}

bool pal_ask_wait_for(pal_ask *ask, int64_t timeout_ms)
{
    struct timespec until;
    int rc;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    do
        rc = sem_timedwait(&ask->done, &until);
    while (rc && errno == EINTR);
    return rc == 0;
}

void pal_ask_end(pal_ask *ask)
{
    sem_post(&ask->done);
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
