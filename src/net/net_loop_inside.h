/* net_loop_inside.h - what the files of this folder share of a loop. Only for src/net. */
#ifndef PAL_NET_LOOP_INSIDE_H
#define PAL_NET_LOOP_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>
#include "net/net_loop.h"

/* All timers of a loop. On the loop. */
typedef struct pal_timers {
    uv_timer_t clock;
    pal_timer **heap; /* the first to fire is first; each knows its position */
    size_t len, cap;
    int64_t armed_ms; /* when the clock rings; INT64_MAX: not */
    bool ringing;
} pal_timers;

/* Threads that run what blocks. The condition decides which idle one is woken: where it was always
 * the last, a turn was a twelfth slower. */
typedef struct pal_workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    pal_work_item *first, *last;
    bool closing;
    pthread_t *threads;
    uint32_t threads_len;
} pal_workers;

struct pal_loop {
    uv_loop_t uv;
    uv_poll_t wake;
    int wake_fd;
    pthread_t thread;
    pal_timers timers;
    pal_workers workers;

    pthread_mutex_t lock; /* over the next lines */
    pal_task *posted, *posted_last;
    pal_work_item *done, *done_last;
    bool wanted; /* the loop was woken and has not looked yet */
    bool closing;

    atomic_uint wakers; /* who have posted, and are about to wake it */

    bool ending;  /* on the loop: it has seen `closing` */
    size_t holds; /* on the loop: works and children it must wait for */
};

/* A thread that gets none of the program's signals. SIGPIPE is among them: a write to a peer that
 * is gone fails with EPIPE. `stack_bytes` 0: the usual. Returns an errno. */
int pal_thread_start(pthread_t *out_thread, size_t stack_bytes, void *(*run)(void *), void *user);

/* While it is held, a loop that closes waits. On the loop. */
void pal_loop_hold(pal_loop *loop);
void pal_loop_release(pal_loop *loop);

void pal_timers_open(pal_loop *loop);
void pal_timers_close(pal_loop *loop); /* the clock; the loop runs once more afterwards */

PAL_CHECKED pal_status pal_workers_open(pal_loop *loop, uint32_t len, pal_error *err);
void pal_workers_close(pal_loop *loop);                       /* after what waits was run */
void pal_loop_tell_done(pal_loop *loop, pal_work_item *item); /* from a worker */

#endif
