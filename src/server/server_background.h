/* server_background.h - one thread for blocking work that no client waits for, such as recording
 * a stream after its end.
 *
 * Threads: any thread can add tasks, also one that must not block. */
#ifndef PAL_SERVER_BACKGROUND_H
#define PAL_SERVER_BACKGROUND_H

#include <stdbool.h>

typedef struct pal_background pal_background;

/* A task. It is part of its user's struct, which must live until `run` is called. */
typedef struct pal_background_task {
    void (*run)(struct pal_background_task *task); /* may block; frees its struct */
} pal_background_task;

/* Returns NULL if out of memory. The thread is started with the first task. */
pal_background *pal_background_new(void);
/* Runs all tasks that were added, and frees the background. Accepts NULL. */
void pal_background_free(pal_background *background);

/* Adds a task. False: too many tasks are waiting, or there is no thread; the task still belongs to
 * the caller. */
bool pal_background_add(pal_background *background, pal_background_task *task);

#endif
