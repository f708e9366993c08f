/* runtime_ask.h - runs a function on the loop for another thread, which waits until it is done. */
#ifndef PAL_RUNTIME_ASK_H
#define PAL_RUNTIME_ASK_H

#include <semaphore.h>

#include "net/net_loop.h"

/* Must be the first member of the caller's struct, which is on the caller's stack. */
typedef struct pal_ask pal_ask;
struct pal_ask {
    void (*run)(pal_ask *ask); /* called on the loop */
    pal_task task;
    sem_t done; /* may be destroyed as soon as the wait has returned */
};

/* Calls ask->run on the loop and waits. On the loop itself, calls it directly. */
void pal_ask_loop(pal_loop *loop, pal_ask *ask);

/* For results that come after `run` has returned: call begin, pass the ask to the loop, and wait.
 * The loop calls end. */
void pal_ask_begin(pal_ask *ask);
void pal_ask_wait(pal_ask *ask);
/* Replaces pal_ask_wait() if there is a time limit. Returns false when the time is over. The ask
 * must still stay alive until pal_ask_end() was called. */
bool pal_ask_wait_for(pal_ask *ask, int64_t timeout_ms);
void pal_ask_end(pal_ask *ask);

#endif
