/* net_loop.c - the thread of a loop: how tasks of other threads are run, and how the loop ends.
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
 * handle stops counting, and the loop ends after the last socket and the last child are gone. */
#include "net/net_loop.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/memory.h"
#include "net/net_loop_internal.h"

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

static void run_tasks(pal_task *task)
{
    for (pal_task *next; task; task = next) {
        next = task->next;
        task->run(task);
    }
}

static void run_done(pal_loop *loop, pal_work_item *item)
{
    for (pal_work_item *next; item; item = next) {
        next = item->next;
        item->done(item);
        pal_loop_release(loop);
    }
}

/* Returns false if there was nothing to run. */
static bool run_posted(pal_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    pal_task *tasks = loop->posted;
    pal_work_item *done = loop->done;
    loop->posted = loop->posted_last = NULL;
    loop->done = loop->done_last = NULL;
    loop->wanted = false;
    loop->ending = loop->closing;
    pthread_mutex_unlock(&loop->lock);
    run_tasks(tasks);
    run_done(loop, done);
    settle(loop);
    return tasks || done;
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
    pal_timers_open(loop);
    return PAL_OK;
}

/* The loop must not be running. */
static void close_uv(pal_loop *loop)
{
    uv_close((uv_handle_t *)&loop->wake, NULL);
    pal_timers_close(loop);
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
    status = pal_workers_open(loop, workers ? workers : 4, err);
    if (status)
        goto no_workers;
    int rc = pal_net_thread_start(&loop->thread, 0, run_loop, loop);
    if (rc == 0) {
        *out_loop = loop;
        return PAL_OK;
    }
    status = pal_error_set(err, PAL_IO, "could not start a thread: %s", strerror(rc));
    pal_workers_close(loop);
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
    pal_workers_close(loop);
    wait_for_wakers(loop);
    close_uv(loop);
    pthread_mutex_destroy(&loop->lock);
    pal_free(loop);
}
