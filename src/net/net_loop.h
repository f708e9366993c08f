/* net_loop.h - one thread that waits for everything: timers, sockets, child processes, and work
 * that other threads hand in. Built on libuv, which nobody above this folder sees.
 *
 * "On the loop" means on its thread. Functions say who may call them; all callbacks run on the loop
 * and must not block. */
#ifndef PAL_NET_LOOP_H
#define PAL_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/error.h"

typedef struct pal_loop pal_loop;

/* Starts the thread. `workers` threads beside it run what blocks; 0: 4. */
PAL_CHECKED pal_status pal_loop_open(uint32_t workers, pal_loop **out_loop, pal_error *err);

/* Stops and joins it. From any other thread. Everything that was opened on it is closed before by
 * its owner; what was posted is run first. Accepts NULL. */
void pal_loop_close(pal_loop *loop);

bool pal_loop_is_on(const pal_loop *loop); /* the caller is on the loop */

/* A task lies in whatever it belongs to; it is queued at most once at a time. */
typedef struct pal_task pal_task;
typedef void (*pal_task_run)(pal_task *task);
struct pal_task {
    pal_task_run run;
    pal_task *next;
};

/* Runs the task on the loop, soon and in order. From any thread; never fails. */
void pal_loop_post(pal_loop *loop, pal_task *task);

/* Runs `work` on a worker, then `done` on the loop. On the loop. Never fails; works wait in
 * order. */
typedef struct pal_work_item pal_work_item;
struct pal_work_item {
    void (*work)(pal_work_item *item); /* on a worker: may block */
    void (*done)(pal_work_item *item); /* on the loop */
    pal_work_item *next;
};
void pal_loop_work(pal_loop *loop, pal_work_item *item);

/* A timer that fires once. It lies in its owner; a zeroed one is stopped. All on the loop. Timers
 * are kept in one heap: thousands of them cost nothing while they wait. */
typedef struct pal_timer pal_timer;
typedef void (*pal_timer_fire)(pal_timer *timer);
struct pal_timer {
    pal_timer_fire fire;
    int64_t at_ms;   /* by pal_loop_now_ms() */
    size_t position; /* in the heap, from 1; 0: stopped */
};
/* False without memory. Starting a running one moves it. */
PAL_CHECKED bool pal_timer_start(
        pal_loop *loop, pal_timer *timer, int64_t delay_ms, pal_timer_fire fire);
void pal_timer_stop(pal_loop *loop, pal_timer *timer); /* a stopped one too */

int64_t pal_loop_now_ms(const pal_loop *loop); /* only grows; since some start */

#endif
