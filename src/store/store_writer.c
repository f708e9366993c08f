/* store_writer.c - the thread that commits, and its queue.
 *
 * Group commit needs no timer: while one batch is being made durable, the requests of other threads
 * collect in the queue, and the next batch takes them all. A single caller never waits for others.
 * Batches keep the order of the queue, and so of each caller.
 *
 * A caller that is alone commits on its own thread, because passing one operation to another thread
 * and back costs up to a sixth of the commit. `lock` still ensures that there is only one writer at
 * a time.
 *
 * A task is a request that no caller waits for, for example from an event loop. It is never
 * committed on the thread that passed it, even if that thread is alone; otherwise it is a request
 * like any other.
 *
 * Waking a sleeping thread costs the writer a few microseconds; with sixty callers per commit this
 * is as much as the commit. So the writer wakes only the first caller. Each woken caller wakes the
 * next one, on the other cores, while the writer works on the next batch. */
#include "store/store_writer.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/queue.h"
#include "store/cache/cache.h"

/* A task with a waiting caller. It lives on the caller's stack and has no `done`. */
typedef struct request {
    pal_writer_task task;
    struct request *wake_next; /* valid after `done` was posted */
    sem_t done;
} request;

struct pal_writer {
    pal_engine **engine;
    pal_queue *queue;
    pthread_t thread;
    pthread_mutex_t lock;         /* held while apply() runs */
    atomic_uint_fast32_t callers; /* callers inside pal_writer_run(), plus tasks that are not
                                     applied yet */
    bool threaded;
    atomic_uint_fast64_t commits;
    atomic_uint_fast64_t ops;
    pthread_mutex_t failure_lock;
    pal_error failure;     /* why the disk refused the last commit */
    atomic_bool is_failed; /* `failure` is set */
    pal_work works[PAL_COMMIT_WORKS_MAX]; /* the batch that is being collected; used only by the
                                             writer thread */
    pal_writer_task *batch[PAL_COMMIT_WORKS_MAX];
};

/* Operations that are refused because of their content say nothing about the disk. */
static void note_failure(pal_writer *writer, const pal_work *works, size_t works_len)
{
    const pal_error *failure = NULL;
    bool is_written = false;

    for (size_t i = 0; i < works_len; i++) {
        pal_status status = works[i].op->status;

        is_written = is_written || status == PAL_OK;
        if (status == PAL_IO || status == PAL_FULL)
            failure = &works[i].op->error;
    }
    if (!is_written && !failure)
        return;
    if (is_written && !atomic_load_explicit(&writer->is_failed, memory_order_relaxed))
        return;
    pthread_mutex_lock(&writer->failure_lock);
    atomic_store(&writer->is_failed, !is_written);
    if (!is_written)
        writer->failure = *failure;
    pthread_mutex_unlock(&writer->failure_lock);
}

static void apply(pal_writer *writer, pal_work *works, size_t works_len)
{
    pal_engine *engine = *writer->engine;

    pthread_mutex_lock(&writer->lock);
    pal_cache_apply(engine, works, works_len);
    pthread_mutex_unlock(&writer->lock);
    note_failure(writer, works, works_len);
    atomic_fetch_add_explicit(&writer->commits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&writer->ops, works_len, memory_order_relaxed);
}

/* Wakes waiting callers and calls the callbacks of the other tasks. A request may be freed when its
 * caller wakes, so all of them are examined before. */
static void end_tasks(pal_writer *writer, pal_writer_task **tasks, size_t len)
{
    request *first = NULL, **link = &first;
    pal_writer_task *others = NULL, **end = &others;

    for (size_t i = 0; i < len; i++) {
        if (tasks[i]->done) {
            *end = tasks[i];
            end = &tasks[i]->next;
        } else {
            *link = (request *)tasks[i];
            link = &(*link)->wake_next;
        }
    }
    *link = NULL;
    *end = NULL;
    if (first)
        sem_post(&first->done);
    while (others) {
        pal_writer_task *task = others;

        others = task->next;
        atomic_fetch_sub(&writer->callers, 1);
        task->done(task);
    }
}

/* Applies the tasks in as few commits as writer->works allows. A work returns its results through
 * pointers, so the copies need not be copied back. */
static void apply_tasks(pal_writer *writer, pal_writer_task **tasks, size_t len)
{
    size_t works_len = 0, first = 0;

    for (size_t i = 0; i < len; i++) {
        size_t wanted = tasks[i]->works_len;

        if (works_len + wanted > PAL_COMMIT_WORKS_MAX && works_len > 0) {
            apply(writer, writer->works, works_len);
            end_tasks(writer, tasks + first, i - first);
            works_len = 0;
            first = i;
        }
        if (wanted > PAL_COMMIT_WORKS_MAX) {
            apply(writer, tasks[i]->works, wanted);
            end_tasks(writer, tasks + first, i + 1 - first);
            first = i + 1;
            continue;
        }
        if (wanted > 0)
            memcpy(writer->works + works_len, tasks[i]->works, wanted * sizeof(pal_work));
        works_len += wanted;
    }
    if (works_len > 0)
        apply(writer, writer->works, works_len);
    end_tasks(writer, tasks + first, len - first);
}

static void *writer_main(void *user)
{
    pal_writer *writer = user;
    size_t len;

    while ((len = pal_queue_take(writer->queue, (void **)writer->batch, PAL_COMMIT_WORKS_MAX)) > 0)
        apply_tasks(writer, writer->batch, len);
    return NULL;
}

pal_status pal_writer_open(pal_engine **engine, pal_writer **out_writer, pal_error *err)
{
    pal_writer *writer = pal_calloc(1, sizeof(*writer));
    int error;

    if (!writer)
        return pal_no_memory(err);
    writer->engine = engine;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_mutex_init(&writer->failure_lock, NULL);
    writer->threaded = !(*engine)->backend->direct;
    if (!writer->threaded) {
        *out_writer = writer;
        return PAL_OK;
    }
    writer->queue = pal_queue_new(PAL_COMMIT_QUEUE_MAX);
    error = writer->queue ? pthread_create(&writer->thread, NULL, writer_main, writer) : ENOMEM;
    if (error) {
        writer->threaded = false;
        pal_writer_close(writer);
        return pal_error_set(err, PAL_NO_MEMORY,
                "could not start the store's writer thread: %s", strerror(error));
    }
    *out_writer = writer;
    return PAL_OK;
}

void pal_writer_close(pal_writer *writer)
{
    if (!writer)
        return;
    if (writer->threaded) {
        pal_queue_close(writer->queue);
        pthread_join(writer->thread, NULL);
    }
    pal_queue_free(writer->queue);
    pthread_mutex_destroy(&writer->failure_lock);
    pthread_mutex_destroy(&writer->lock);
    pal_free(writer);
}

static void run_queued(pal_writer *writer, pal_work *works, size_t works_len)
{
    request own = {.task = {.works = works, .works_len = works_len}};

    sem_init(&own.done, 0, 0);
    if (pal_queue_push(writer->queue, &own.task) == PAL_OK) {
        while (sem_wait(&own.done) != 0)
            continue; /* EINTR: a signal handler ran */
        if (own.wake_next)
            sem_post(&own.wake_next->done);
    } else {
        for (size_t i = 0; i < works_len; i++)
            works[i].op->status =
                    pal_error_set(&works[i].op->error, PAL_CANCELED, "the store is being closed");
    }
    sem_destroy(&own.done);
}

/* Every waiting caller is counted, so a caller that finds the count at zero overtakes no other. */
void pal_writer_run(pal_writer *writer, pal_work *works, size_t works_len)
{
    bool alone;

    if (works_len == 0)
        return;
    alone = atomic_fetch_add(&writer->callers, 1) == 0;
    if (alone || !writer->threaded)
        apply(writer, works, works_len);
    else
        run_queued(writer, works, works_len);
    atomic_fetch_sub(&writer->callers, 1);
}

pal_status pal_writer_hand(pal_writer *writer, pal_writer_task *task, pal_error *err)
{
    pal_status status;

    if (!writer->threaded) {
        if (task->works_len > 0)
            apply(writer, task->works, task->works_len);
        task->done(task);
        return PAL_OK;
    }
    /* Counted before it can be applied, so that no later caller overtakes it. */
    atomic_fetch_add(&writer->callers, 1);
    status = pal_queue_try_push(writer->queue, task);
    if (status == PAL_OK)
        return PAL_OK;
    atomic_fetch_sub(&writer->callers, 1);
    if (status == PAL_LIMIT)
        return pal_error_set(err, status, "%d calls are already waiting for the store; retry later",
                PAL_COMMIT_QUEUE_MAX);
    return pal_error_set(err, status, "the store is being closed");
}

pal_writer_counts pal_writer_count(pal_writer *writer)
{
    pal_writer_counts counts = {
            .commits = atomic_load_explicit(&writer->commits, memory_order_relaxed),
            .ops = atomic_load_explicit(&writer->ops, memory_order_relaxed),
    };
    return counts;
}

pal_status pal_writer_failure(pal_writer *writer, pal_error *err)
{
    pal_error failure = {0};

    if (!atomic_load(&writer->is_failed))
        return PAL_OK;
    pthread_mutex_lock(&writer->failure_lock);
    if (atomic_load(&writer->is_failed))
        failure = writer->failure;
    pthread_mutex_unlock(&writer->failure_lock);
    if (failure.status == PAL_OK)
        return PAL_OK;
    return pal_error_set(err, failure.status, "%s", failure.message);
}
