/* store_writer.h - the one thread that commits, and the queue in front of it. */
#ifndef PAL_STORE_WRITER_H
#define PAL_STORE_WRITER_H

#include "store/store_backend.h"

typedef struct pal_writer pal_writer;

/* Works that nobody waits for; their owner's struct begins with it. */
typedef struct pal_writer_task pal_writer_task;
struct pal_writer_task {
    pal_work *works;
    size_t works_len;                    /* may be 0: then it is told in its turn */
    void (*done)(pal_writer_task *task); /* told once they are applied; the task may be freed */
    pal_writer_task *next;               /* the writer's */
};

typedef struct pal_writer_counts {
    uint64_t commits;
    uint64_t ops;
} pal_writer_counts;

/* `engine` is read before every commit, so that a test can put a wrapper in its place. */
PAL_CHECKED pal_status pal_writer_open(
        pal_engine **engine, pal_writer **out_writer, pal_error *err);
/* Accepts NULL. Finishes what is queued. */
void pal_writer_close(pal_writer *writer);

/* Hands the works to the writer and waits until they are applied. From any thread. */
void pal_writer_run(pal_writer *writer, pal_work *works, size_t works_len);

/* Hands the task to the writer without waiting, not even for room: PAL_LIMIT, and the task stays
 * the caller's. `done` is told on the writer's thread, or here where the backend is direct. From
 * any thread. */
PAL_CHECKED pal_status pal_writer_hand(pal_writer *writer, pal_writer_task *task, pal_error *err);

pal_writer_counts pal_writer_count(pal_writer *writer);

/* PAL_OK unless the disk refused the last commit: then why. From any thread. */
PAL_CHECKED pal_status pal_writer_failure(pal_writer *writer, pal_error *err);

#endif
