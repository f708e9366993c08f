/* server_background.c - one thread that runs tasks in order. A crash loses the tasks that wait, so
 * they must be work that a later request can repeat. */
#include "server/server_background.h"

#include <pthread.h>
#include "base/memory.h"
#include "base/queue.h"

#define TASKS_MAX 10000

struct pal_background {
    pal_queue *queue;
    pthread_mutex_t lock; /* guards the next two members */
    pthread_t thread;
    bool has_thread;
};

pal_background *pal_background_new(void)
{
    pal_background *background = pal_calloc(1, sizeof *background);
    if (!background)
        return NULL;
    background->queue = pal_queue_new(TASKS_MAX);
    if (!background->queue) {
        pal_free(background);
        return NULL;
    }
    pthread_mutex_init(&background->lock, NULL);
    return background;
}

static void *run_tasks(void *user)
{
    pal_background *background = user;
    void *item;
    while (pal_queue_take(background->queue, &item, 1)) {
        pal_background_task *task = item;
        task->run(task);
    }
    return NULL;
}

bool pal_background_add(pal_background *background, pal_background_task *task)
{
    pthread_mutex_lock(&background->lock);
    if (!background->has_thread)
        background->has_thread =
                pthread_create(&background->thread, NULL, run_tasks, background) == 0;
    bool has_thread = background->has_thread;
    pthread_mutex_unlock(&background->lock);
    return has_thread && pal_queue_try_push(background->queue, task) == PAL_OK;
}

void pal_background_free(pal_background *background)
{
    if (!background)
        return;
    pal_queue_close(background->queue);
    if (background->has_thread)
        pthread_join(background->thread, NULL);
    pal_queue_free(background->queue);
    pthread_mutex_destroy(&background->lock);
    pal_free(background);
}
