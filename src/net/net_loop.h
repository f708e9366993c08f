/* net_loop.h - an event loop: one thread that waits for timers, sockets, child processes and tasks
 * of other threads. It is built on libuv, which is not visible outside this folder.
 *
 * "On the loop" means on its thread. Each function says which threads can call it. All callbacks
 * run on the loop and must not block. */
#ifndef PAL_NET_LOOP_H
#define PAL_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/error.h"

typedef struct pal_loop pal_loop;

/* Starts the thread of the loop. `workers` more threads run blocking work; 0: 4. */
PAL_CHECKED pal_status pal_loop_open(uint32_t workers, pal_loop **out_loop, pal_error *err);

/* Runs all posted tasks, then stops and joins the thread. Must be called from another thread.
 * Everything that was opened on the loop must be closed before. Accepts NULL. */
void pal_loop_close(pal_loop *loop);

bool pal_loop_is_on(const pal_loop *loop); /* true if the caller is on the loop */

/* A task is a member of the struct that it belongs to. It can be queued only once at a time. */
typedef struct pal_task pal_task;
typedef void (*pal_task_run)(pal_task *task);
struct pal_task {
    pal_task_run run;
    pal_task *next;
};

/* Runs the task on the loop, soon and in order. Can be called from any thread. Never fails. */
void pal_loop_post(pal_loop *loop, pal_task *task);

/* Runs `work` on a worker thread, then `done` on the loop. Must be called on the loop. Never fails;
 * items wait in order. */
typedef struct pal_work_item pal_work_item;
struct pal_work_item {
    void (*work)(pal_work_item *item); /* runs on a worker thread and can block */
    void (*done)(pal_work_item *item); /* runs on the loop */
    pal_work_item *next;
};
void pal_loop_work(pal_loop *loop, pal_work_item *item);

/* The same for work that another thread does, which does not belong to the loop. pal_loop_hold()
 * must be called on the loop, which stays open until it is released.
 * pal_loop_tell_done() can be called from any thread. It runs item->done on the loop, and then
 * releases the loop once. Neither fails. */
void pal_loop_hold(pal_loop *loop);
void pal_loop_tell_done(pal_loop *loop, pal_work_item *item);

/* A timer that fires once. It is a member of its owner's struct; a zeroed timer is stopped. Must be
 * used on the loop. Timers are kept in a heap, so thousands of waiting timers cost nothing. */
typedef struct pal_timer pal_timer;
typedef void (*pal_timer_fire)(pal_timer *timer);
struct pal_timer {
    pal_timer_fire fire;
    int64_t at_ms;   /* on the clock of pal_clock_monotonic_ms() */
    size_t position; /* position in the heap, from 1; 0: stopped */
};
/* Starts a timer, or moves it if it is running. Returns false if there is no memory. */
PAL_CHECKED bool pal_loop_timer_start(
        pal_loop *loop, pal_timer *timer, int64_t delay_ms, pal_timer_fire fire);
void pal_loop_timer_stop(pal_loop *loop, pal_timer *timer); /* the timer can be stopped already */

#endif
