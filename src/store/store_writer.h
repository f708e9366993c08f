/* store_writer.h - the thread that commits, and its queue. */
#ifndef PAL_STORE_WRITER_H
#define PAL_STORE_WRITER_H

#include "store/store_backend.h"

typedef struct pal_writer pal_writer;

/* Works that no caller waits for. This must be the first member of the owner's struct. */
typedef struct pal_writer_task pal_writer_task;
struct pal_writer_task {
    pal_work *works;
    size_t works_len;                    /* can be 0: then only `done` is called, in the order of
                                            the queue */
    void (*done)(pal_writer_task *task); /* called once, after the works were applied; it may free
                                            the task */
    pal_writer_task *next;               /* used by the writer */
};

typedef struct pal_writer_counts {
    uint64_t commits;
    uint64_t ops;
} pal_writer_counts;

/* The writer reads *engine before every commit, so that a test can replace it by a wrapper. */
PAL_CHECKED pal_status pal_writer_open(
        pal_engine **engine, pal_writer **out_writer, pal_error *err);
/* Finishes the queue, then stops the writer. Accepts NULL. */
void pal_writer_close(pal_writer *writer);

/* Passes the works to the writer and blocks until they are applied. Any thread can call it. */
void pal_writer_run(pal_writer *writer, pal_work *works, size_t works_len);

/* Passes the task to the writer without blocking. If the queue is full, it returns PAL_LIMIT; it
 * also fails while the store is being closed. In both cases the caller keeps the task. `done` is
 * called on the writer's thread or, if the backend is direct, during this call. Any thread can call
 * it. */
PAL_CHECKED pal_status pal_writer_hand(pal_writer *writer, pal_writer_task *task, pal_error *err);

pal_writer_counts pal_writer_count(pal_writer *writer);

/* Returns PAL_OK, or the error if the disk rejected the last commit. Any thread can call it. */
PAL_CHECKED pal_status pal_writer_failure(pal_writer *writer, pal_error *err);

#endif
