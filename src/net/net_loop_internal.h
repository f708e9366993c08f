/* net_loop_internal.h - the parts of a loop and of a child process that
 * the files of this folder share. For src/net only. */
#ifndef PAL_NET_LOOP_INTERNAL_H
#define PAL_NET_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <uv.h>
#include "net/net_process.h"

/* All timers of a loop. Used on the loop. */
typedef struct pal_timers {
    uv_timer_t clock;
    pal_timer **heap; /* a binary heap; the timer that fires first is first */
    size_t len, cap;
    int64_t armed_ms; /* when the clock fires; INT64_MAX: not armed */
    bool ringing;
} pal_timers;

/* Threads that run blocking work. The condition variable decides which idle thread is woken. Always
 * waking the last idle thread made a turn a twelfth slower. */
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

    pthread_mutex_t lock; /* protects the following members */
    pal_task *posted, *posted_last;
    pal_work_item *done, *done_last;
    bool wanted; /* the loop was woken and has not looked yet */
    bool closing;

    atomic_uint wakers; /* threads that have posted and are about to wake the loop */

    bool ending;  /* on the loop: it has seen `closing` */
    size_t holds; /* on the loop: number of work items and children that it must wait for */
};

/* Starts a thread that gets none of the program's signals. SIGPIPE is one of them, so writing to a
 * closed connection fails with EPIPE. `stack_bytes` 0: the default. Returns an errno. */
int pal_net_thread_start(
        pthread_t *out_thread, size_t stack_bytes, void *(*run)(void *), void *user);

/* Releases a hold without an item. Must be called on the loop. */
void pal_loop_release(pal_loop *loop);

/* ---- Children: net_child.c ---- */

/* A started child. It leads a new process group. */
typedef struct pal_child {
    pid_t pid;
    int input;  /* we write to it; the caller must close all three */
    int output; /* we read from it */
    int error;
} pal_child;

/* Starts a program with pipes for its three standard streams. Can be called from any thread. */
PAL_CHECKED pal_status pal_child_start(
        const pal_process_spec *spec, pal_child *out_child, pal_error *err);

#endif
