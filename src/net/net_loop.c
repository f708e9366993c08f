/* net_loop.c - a loop: its thread, the tasks of other threads, its timers, its workers for blocking
 * work, and how it ends.
 *
 * Posted tasks are in a list under a lock. Only the first task wakes the loop, which takes the
 * whole list and runs it. Tasks that are posted meanwhile wait for the next round, so that sockets
 * and timers are served in between.
 *
 * The loop is woken by an eventfd. A uv_async_t has one too, but there the loop spins until the
 * thread that woke it continues. If both were given the same processor, that thread is not running,
 * and the loop spins for a long time.
 *
 * The `wake` handle keeps the loop alive. When the loop is being closed and no longer held, the
 * handle stops counting, and the loop ends after the last socket and the last child are gone.
 *
 * The timers are a binary heap ordered by time, with one libuv timer for the first of them.
 * Stopping the first timer does not change the libuv timer. It fires once in vain, which is cheaper
 * than setting it again for every call that ends in time. Timers use the real clock, but libuv's
 * clock stands still within a round, so it can fire too early; then it is set again.
 *
 * The workers are separate from libuv's pool, so that the owner chooses their number and no other
 * work waits for a slow disk. Items wait in one list under the workers' lock, and each is taken by
 * one thread. The loop is held from pal_loop_work() until the item's `done` has run, so it does
 * not end before. */
#include "net/net_loop.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "net/net_loop_internal.h"

#define DELAY_MS_MAX ((int64_t)1 << 52) /* prevents overflow of sums */

/* ---- Tasks ---- */

int pal_net_thread_start(
        pthread_t *out_thread, size_t stack_bytes, void *(*run)(void *), void *user)
{
    /* These signals stay unblocked, so that a fault in this thread still reaches the program's
     * handlers. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t mask, before;
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    if (stack_bytes)
        rc = pthread_attr_setstacksize(&attr, stack_bytes);
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&mask, faults[i]);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    if (!rc)
        rc = pthread_create(out_thread, &attr, run, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

static void settle(pal_loop *loop)
{
    uv_handle_t *wake = (uv_handle_t *)&loop->wake;
    if (loop->ending && loop->holds == 0)
        uv_unref(wake);
    else
        uv_ref(wake);
}

void pal_loop_hold(pal_loop *loop)
{
    loop->holds++;
    settle(loop);
}

void pal_loop_release(pal_loop *loop)
{
    assert(loop->holds);
    loop->holds--;
    settle(loop);
}

/* Returns false if there was nothing to run. */
static bool run_posted(pal_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    pal_task *task = loop->posted;
    pal_work_item *item = loop->done;
    bool is_any = task || item;
    loop->posted = loop->posted_last = NULL;
    loop->done = loop->done_last = NULL;
    loop->wanted = false;
    loop->ending = loop->closing;
    pthread_mutex_unlock(&loop->lock);
    for (pal_task *next; task; task = next) {
        next = task->next;
        task->run(task);
    }
    for (pal_work_item *next; item; item = next) {
        next = item->next;
        item->done(item);
        pal_loop_release(loop);
    }
    settle(loop);
    return is_any;
}

static void on_wake(uv_poll_t *wake, int status, int events)
{
    pal_loop *loop = wake->data;
    eventfd_t count;
    (void)status;
    (void)events;
    eventfd_read(loop->wake_fd, &count);
    run_posted(loop);
}

static void *run_loop(void *user)
{
    pal_loop *loop = user;
    do
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    while (run_posted(loop) || loop->holds);
    return NULL;
}

/* Releases the lock, then wakes the loop unless another thread has done so. Waking the loop under
 * the lock would make the loop wait for the lock at once. */
static void unlock_and_wake(pal_loop *loop)
{
    bool is_first = !loop->wanted;
    loop->wanted = true;
    if (is_first)
        atomic_fetch_add(&loop->wakers, 1);
    pthread_mutex_unlock(&loop->lock);
    if (!is_first)
        return;
    eventfd_write(loop->wake_fd, 1);
    atomic_fetch_sub(&loop->wakers, 1);
}

/* A posted task may run, and end the loop, before the posting thread has finished waking it. */
static void wait_for_wakers(pal_loop *loop)
{
    while (atomic_load(&loop->wakers) > 0)
        sched_yield();
}

void pal_loop_post(pal_loop *loop, pal_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&loop->lock);
    if (loop->posted_last)
        loop->posted_last->next = task;
    else
        loop->posted = task;
    loop->posted_last = task;
    unlock_and_wake(loop);
}

void pal_loop_tell_done(pal_loop *loop, pal_work_item *item)
{
    item->next = NULL;
    pthread_mutex_lock(&loop->lock);
    if (loop->done_last)
        loop->done_last->next = item;
    else
        loop->done = item;
    loop->done_last = item;
    unlock_and_wake(loop);
}

bool pal_loop_is_on(const pal_loop *loop)
{
    return pthread_equal(pthread_self(), loop->thread);
}

/* ---- Timers ---- */

static void put(pal_timers *timers, size_t position, pal_timer *timer)
{
    timers->heap[position - 1] = timer;
    timer->position = position;
}

static void sift_up(pal_timers *timers, pal_timer *timer)
{
    size_t at = timer->position;
    for (; at > 1; at /= 2) {
        pal_timer *parent = timers->heap[at / 2 - 1];
        if (parent->at_ms <= timer->at_ms)
            break;
        put(timers, at, parent);
    }
    put(timers, at, timer);
}

static void sift_down(pal_timers *timers, pal_timer *timer)
{
    size_t at = timer->position;
    for (size_t child; (child = at * 2) <= timers->len; at = child) {
        if (child < timers->len && timers->heap[child]->at_ms < timers->heap[child - 1]->at_ms)
            child++;
        if (timers->heap[child - 1]->at_ms >= timer->at_ms)
            break;
        put(timers, at, timers->heap[child - 1]);
    }
    put(timers, at, timer);
}

static void remove_timer(pal_timers *timers, pal_timer *timer)
{
    assert(timers->heap[timer->position - 1] == timer);
    pal_timer *last = timers->heap[--timers->len];
    if (last != timer) {
        put(timers, timer->position, last);
        sift_up(timers, last);
        sift_down(timers, last);
    }
    timer->position = 0;
}

static void on_ring(uv_timer_t *clock);

static void arm(pal_loop *loop, int64_t least_ms)
{
    pal_timers *timers = &loop->timers;
    if (timers->len == 0 || timers->heap[0]->at_ms >= timers->armed_ms)
        return;
    timers->armed_ms = timers->heap[0]->at_ms;
    int64_t delay = timers->armed_ms - pal_clock_monotonic_ms();
    uv_timer_start(&timers->clock, on_ring, (uint64_t)(delay > least_ms ? delay : least_ms), 0);
}

/* Fires at most as many timers as there are now, and then waits at least 1 ms. Otherwise a timer
 * that restarts itself without delay would keep the loop here: libuv runs a clock without delay
 * again at once. */
static void on_ring(uv_timer_t *clock)
{
    pal_loop *loop = clock->data;
    pal_timers *timers = &loop->timers;
    int64_t now = pal_clock_monotonic_ms();
    timers->armed_ms = INT64_MAX;
    timers->ringing = true;
    for (size_t left = timers->len; left && timers->len && timers->heap[0]->at_ms <= now; left--) {
        pal_timer *timer = timers->heap[0];
        remove_timer(timers, timer);
        timer->fire(timer);
    }
    timers->ringing = false;
    arm(loop, 1);
}

bool pal_loop_timer_start(pal_loop *loop, pal_timer *timer, int64_t delay_ms, pal_timer_fire fire)
{
    pal_timers *timers = &loop->timers;
    assert(pal_loop_is_on(loop));
    if (!timer->position &&
            !pal_reserve(&timers->heap, &timers->cap, timers->len + 1, sizeof *timers->heap))
        return false;
    delay_ms = delay_ms < 0 ? 0 : delay_ms < DELAY_MS_MAX ? delay_ms : DELAY_MS_MAX;
    timer->fire = fire;
    timer->at_ms = pal_clock_monotonic_ms() + delay_ms;
    if (!timer->position)
        put(timers, ++timers->len, timer);
    sift_up(timers, timer);
    sift_down(timers, timer);
    if (!timers->ringing)
        arm(loop, 0);
    return true;
}

void pal_loop_timer_stop(pal_loop *loop, pal_timer *timer)
{
    if (timer->position)
        remove_timer(&loop->timers, timer);
}

static void open_timers(pal_loop *loop)
{
    uv_timer_init(&loop->uv, &loop->timers.clock);
    uv_unref((uv_handle_t *)&loop->timers.clock);
    loop->timers.clock.data = loop;
    loop->timers.armed_ms = INT64_MAX;
}

/* The loop must run once more afterwards. */
static void close_timers(pal_loop *loop)
{
    uv_close((uv_handle_t *)&loop->timers.clock, NULL);
    pal_free(loop->timers.heap);
}

/* ---- Workers ---- */

void pal_loop_work(pal_loop *loop, pal_work_item *item)
{
    pal_workers *workers = &loop->workers;
    assert(pal_loop_is_on(loop));
    pal_loop_hold(loop);
    item->next = NULL;
    pthread_mutex_lock(&workers->lock);
    if (workers->last)
        workers->last->next = item;
    else
        workers->first = item;
    workers->last = item;
    pthread_mutex_unlock(&workers->lock);
    pthread_cond_signal(&workers->more); /* after the unlock, so that the woken thread does not wait
                                            for the lock */
}

/* Returns NULL when the workers must end. */
static pal_work_item *take(pal_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    while (!workers->first && !workers->closing)
        pthread_cond_wait(&workers->more, &workers->lock);
    pal_work_item *item = workers->first;
    if (item) {
        workers->first = item->next;
        if (!workers->first)
            workers->last = NULL;
    }
    pthread_mutex_unlock(&workers->lock);
    return item;
}

static void *run_worker(void *user)
{
    pal_loop *loop = user;
    for (pal_work_item *item; (item = take(&loop->workers)) != NULL;) {
        item->work(item);
        pal_loop_tell_done(loop, item);
    }
    return NULL;
}

/* Runs all waiting items first. */
static void close_workers(pal_loop *loop)
{
    pal_workers *workers = &loop->workers;
    pthread_mutex_lock(&workers->lock);
    workers->closing = true;
    pthread_cond_broadcast(&workers->more);
    pthread_mutex_unlock(&workers->lock);
    for (uint32_t i = 0; i < workers->threads_len; i++)
        pthread_join(workers->threads[i], NULL);
    pal_free(workers->threads);
    pthread_cond_destroy(&workers->more);
    pthread_mutex_destroy(&workers->lock);
}

static pal_status open_workers(pal_loop *loop, uint32_t len, pal_error *err)
{
    pal_workers *workers = &loop->workers;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->more, NULL);
    int rc = 0;
    workers->threads = pal_calloc(len, sizeof *workers->threads);
    if (!workers->threads) {
        close_workers(loop);
        return pal_no_memory(err);
    }
    while (workers->threads_len < len && rc == 0) {
        rc = pal_net_thread_start(&workers->threads[workers->threads_len], 0, run_worker, loop);
        workers->threads_len += rc == 0;
    }
    if (rc) {
        close_workers(loop);
        return pal_error_set(err, PAL_IO, "could not start a thread: %s", strerror(rc));
    }
    return PAL_OK;
}

/* ---- Opening and closing ---- */

/* Returns an error code of libuv, or 0. */
static int open_wake(pal_loop *loop)
{
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0)
        return uv_translate_sys_error(errno);
    int rc = uv_poll_init(&loop->uv, &loop->wake, loop->wake_fd);
    if (rc) {
        close(loop->wake_fd);
        return rc;
    }
    loop->wake.data = loop;
    uv_poll_start(&loop->wake, UV_READABLE, on_wake);
    return 0;
}

static pal_status open_uv(pal_loop *loop, pal_error *err)
{
    int rc = uv_loop_init(&loop->uv);
    if (rc == 0 && (rc = open_wake(loop)) != 0)
        uv_loop_close(&loop->uv);
    if (rc)
        return pal_error_set(err, rc == UV_ENOMEM ? PAL_NO_MEMORY : PAL_IO,
                "could not create an event loop: %s", uv_strerror(rc));
    open_timers(loop);
    return PAL_OK;
}

/* The loop must not be running. */
static void close_uv(pal_loop *loop)
{
    uv_close((uv_handle_t *)&loop->wake, NULL);
    close_timers(loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&loop->uv);
    assert(rc == 0);
    (void)rc;
    close(loop->wake_fd);
}

pal_status pal_loop_open(uint32_t workers, pal_loop **out_loop, pal_error *err)
{
    pal_loop *loop = pal_calloc(1, sizeof *loop);
    if (!loop)
        return pal_no_memory(err);
    pthread_mutex_init(&loop->lock, NULL);
    pal_status status = open_uv(loop, err);
    if (status)
        goto no_uv;
    status = open_workers(loop, workers ? workers : 4, err);
    if (status)
        goto no_workers;
    int rc = pal_net_thread_start(&loop->thread, 0, run_loop, loop);
    if (rc == 0) {
        *out_loop = loop;
        return PAL_OK;
    }
    status = pal_error_set(err, PAL_IO, "could not start a thread: %s", strerror(rc));
    close_workers(loop);
no_workers:
    close_uv(loop);
no_uv:
    pthread_mutex_destroy(&loop->lock);
    pal_free(loop);
    return status;
}

void pal_loop_close(pal_loop *loop)
{
    if (!loop)
        return;
    assert(!pal_loop_is_on(loop));
    pthread_mutex_lock(&loop->lock);
    loop->closing = true;
    unlock_and_wake(loop);
    pthread_join(loop->thread, NULL);
    close_workers(loop);
    wait_for_wakers(loop);
    close_uv(loop);
    pthread_mutex_destroy(&loop->lock);
    pal_free(loop);
}
