/* disk_trace.h - everything that this process does to the files below one directory.
 *
 * A program that links disk_trace.c has its disk calls go through it, those of shared libraries
 * included. It does them, and with a trace open it writes them down: each write, cut, sync, new
 * name, rename and removal, in their order. disk_state.c lays out what a disk could hold after a
 * power cut at any place of the trace.
 *
 * Files are told apart by numbers of the trace's own; 0 is the directory itself. One trace at a
 * time; calls of several threads are written down one after the other. */
#ifndef PAL_TESTS_DISK_TRACE_H
#define PAL_TESTS_DISK_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trace_kind {
    TRACE_NOTE, /* by trace_note() */
    TRACE_WRITE,
    TRACE_CUT, /* to `offset` bytes */
    TRACE_SYNC,
    TRACE_SYNC_FAILED,
    TRACE_NAME, /* `node` is called `name` in `dir` */
    TRACE_RENAME,
    TRACE_REMOVE,
} trace_kind;

typedef struct trace_event {
    trace_kind kind;
    int node;
    int dir, to_dir;
    char *name, *to_name; /* allocated */
    uint64_t offset;      /* of a note: its value */
    size_t len;
    char *data; /* allocated */
} trace_event;

typedef struct disk_trace {
    trace_event *events;
    size_t len, cap;
    size_t first; /* the events before it are what was there, and durably so */
    int nodes;
    bool *is_dir; /* by node */
} disk_trace;

/* Begins with what `root` holds now. The trace stays valid until trace_free(). */
void trace_begin(const char *root);
/* Ends it. */
const disk_trace *trace_end(void);
void trace_free(void);
/* Marks a place in the trace. */
void trace_note(uint64_t value);
/* One sync in so many fails with EIO from now on; 0: none. Those of directories only with
 * `of_directories`: SQLite does not look at them. */
void trace_fail_syncs(unsigned one_in, bool of_directories);

/* The process is as good as dead from one call in so many on: its calls fail and do nothing, until
 * trace_revive(). 0: never. */
void trace_die(unsigned one_in);
/* The same in place of its `call`-th call, from 1. */
void trace_die_at(uint64_t call);
bool trace_is_dead(void);
void trace_revive(void);

/* Disk calls below the root since trace_begin(). */
uint64_t trace_calls(void);
/* The process is killed in place of its `call`-th call, from 1; 0: never. */
void trace_kill_at(uint64_t call);

#endif
