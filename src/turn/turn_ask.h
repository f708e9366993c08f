/* turn_ask.h - lets another thread have something done on the loop, and waits for it. */
#ifndef PAL_TURN_ASK_H
#define PAL_TURN_ASK_H

#include <semaphore.h>

#include "net/net_loop.h"

/* The first member of what the caller has on its stack. */
typedef struct pal_ask pal_ask;
struct pal_ask {
    void (*run)(pal_ask *ask); /* on the loop */
    pal_task task;
    sem_t done; /* which may go away as soon as it was waited for */
};

/* On the loop itself it is done at once. */
void pal_ask_loop(pal_loop *loop, pal_ask *ask);

/* For an answer that comes later than `run` returns: begin, hand it over, wait; end from the loop.
 */
void pal_ask_begin(pal_ask *ask);
void pal_ask_wait(pal_ask *ask);
/* In its place. False: the time is over. The ask must not go away before pal_ask_end() came all the
 * same. */
bool pal_ask_wait_for(pal_ask *ask, int64_t timeout_ms);
void pal_ask_end(pal_ask *ask);

#endif
